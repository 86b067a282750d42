"""The C interface: structs of pointers, and an entry point that takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hilc.codegen import feed
from hilc.codegen.allocator import allocator
from hilc.codegen.arguments import MainArgument, feed_arguments, main_arguments
from hilc.codegen.cwriter import c_quoted, c_wrapped
from hilc.codegen.interface import Interface
from hilc.codegen.names import CONSTANT_POOL, Names
from hilc.codegen.options import Options
from hilc.codegen.states import reset_statements, state_pool
from hilc.codegen.statuses import INVALID_OUTPUTS, loop_statuses
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.plan import BufferRef, Program

_IO = ("inputs", "outputs")
_MAP_COMMENT = "/*! \\brief Where the %s lie in the %s */\n"


_RESET_COMMENT = """\
/*! \\brief Gives every state its first value; 0 on success, -1 when a pointer is NULL.
 * Call it before the first run: no run does. */
"""


class CInterface(Interface):
    """The C interface: structs of pointers to inputs, outputs, pools and devices."""

    name = "C"
    header_includes = ("stdint.h",)
    entry_includes = ("stddef.h",)

    def symbol(self, module: str) -> str:
        """Return the stem of all global symbols of ``module``: ``tvmgen_<module>``."""
        # In lower case as TVM writes it; the packed interface keeps capitals.
        return f"tvmgen_{module.lower()}"

    def declarations(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """Yield the structs, the prototypes of the map functions and of the run function."""
        if program.feed is None:
            yield _struct(names, "inputs", "The input tensors", names.inputs)
        yield _struct(names, "outputs", "The output tensors", names.outputs)
        if "workspace_pools" in _structs(program, options):
            brief = (
                "The memory that a run works in" if options.pools == "external" else "The constants"
            )
            fields = [name for name, _ in _pool_fields(program, names, options)]
            yield _struct(names, "workspace_pools", brief, fields)
        if names.devices:
            yield _struct(names, "devices", "The contexts of the devices", names.devices)
        if program.io_in_pool:
            for kind in _borders(program):
                comment = _MAP_COMMENT % (kind, "workspace")
                yield f"{comment}{_map_prototype(names, kind, options)};\n"
        if names.states:
            yield _struct(names, "states", "The states", names.states)
            comment = _MAP_COMMENT % ("states", "pool that holds them")
            yield f"{comment}{_map_prototype(names, 'states', options)};\n"
            yield f"{_RESET_COMMENT}{_reset_prototype(names, options)};\n"
        if program.feed is not None:
            yield from feed.declarations(program, names, _feed_parameters(program, names, options))
        yield f"{_run_comment(program, names, options)}{_run_prototype(program, names, options)};\n"

    def entry_point(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """Yield the run function, and those that map tensors in pools and reset states."""
        if program.io_in_pool:
            for kind in _borders(program):
                yield _map_function(program, names, kind, options)
        if names.states:
            yield _map_function(program, names, "states", options)
            yield _reset_function(program, names, options)
        arguments = main_arguments(program, options)
        given = [_value(names, options, argument) for argument in arguments]
        test = _null_test(names, options, arguments, _structs(program, options))
        if program.feed is not None:
            yield from feed.definitions(program, names, _feed_caller(program, names, options))
        call = c_wrapped(f"    return {names.main}(", given, ");\n")
        yield f"{_run_prototype(program, names, options)} {{\n{test}{call}}}\n"


def _null_test(
    names: Names, options: Options, arguments: Sequence[MainArgument], structs: Sequence[str]
) -> str:
    """Return the statements that return -1 where a pointer is NULL."""
    given = [(a, _value(names, options, a)) for a in arguments]
    # The fields of a struct are checked with the struct itself.
    checked = list(structs)
    checked += [
        value.removeprefix("(uint8_t *)")
        for argument, value in given
        if "->" in value and argument.kind != "device" and argument.shape != (0,)
    ]
    if not checked:
        return ""
    conditions = [f"{pointer} == NULL" for pointer in checked]
    return c_wrapped("    if (", conditions, ") {", " ||") + "\n        return -1;\n    }\n"


def _feed_structs(program: Program, options: Options) -> list[str]:
    """Return the structs that the functions of rows take: those of a run but for the devices."""
    return [struct for struct in _structs(program, options) if struct != "devices"]


def _feed_parameters(program: Program, names: Names, options: Options) -> list[str]:
    return [f"struct {names.symbol}_{s} *{s}" for s in _feed_structs(program, options)]


def _feed_caller(program: Program, names: Names, options: Options) -> feed.Caller:
    arguments = feed_arguments(program, options)
    pools = {a.index: _value(names, options, a) for a in arguments if a.kind == "pool"}

    def place(ref: BufferRef | None) -> str:
        assert ref is not None, "a group that is fed has scratch"
        base = pools[ref.pool]
        return f"&({base})[{ref.value}]" if "->" in base else f"&{base}[{ref.value}]"

    structs = _feed_structs(program, options)
    return feed.Caller(
        parameters=tuple(_feed_parameters(program, names, options)),
        names=tuple(structs),
        test=_null_test(names, options, arguments, structs),
        passed=tuple(_value(names, options, argument) for argument in arguments),
        feed=place(program.feed),
        scratch=place(program.steps[0].scratch),
    )


def _borders(program: Program) -> Sequence[str]:
    """Return which tensors the caller finds by structs: inputs that are fed have none."""
    return _IO if program.feed is None else _IO[1:]


def _structs(program: Program, options: Options) -> list[str]:
    """Return the structs that the entry point takes, in order."""
    kinds = {argument.kind for argument in main_arguments(program, options)}
    structs = [] if program.io_in_pool else list(_borders(program))
    if options.pools == "external" or "constants" in kinds:
        structs.append("workspace_pools")
    if "device" in kinds:
        structs.append("devices")
    return structs


def _pool_fields(program: Program, names: Names, options: Options) -> list[tuple[str, int]]:
    """Return names and sizes of the members of ``struct tvmgen_<name>_workspace_pools``."""
    fields = []
    for argument in main_arguments(program, options):
        if argument.kind == "constants":
            fields.append((CONSTANT_POOL, argument.shape[0]))
        elif argument.kind == "pool" and options.pools == "external":
            fields.append((names.pools[argument.index], argument.shape[0]))
    return fields


def _value(names: Names, options: Options, argument: MainArgument) -> str:
    """Return the C expression that the entry point passes to the main."""
    match argument.kind:
        case "input":
            return f"inputs->{names.inputs[argument.index]}"
        case "output":
            return f"outputs->{names.outputs[argument.index]}"
        case "constants":
            return f"(uint8_t *)workspace_pools->{CONSTANT_POOL}"
        case "pool" if options.pools == "external":
            return f"(uint8_t *)workspace_pools->{names.pools[argument.index]}"
        case "pool":
            return names.pool_object(argument.index) if argument.shape != (0,) else "NULL"
        case "device":
            return f"devices->{names.devices[argument.index]}"


def _struct(names: Names, suffix: str, brief: str, fields: Sequence[str]) -> str:
    # C has no struct without members.
    members = "".join(f"    void *{field};\n" for field in fields) or "    void *none;\n"
    return f"/*! \\brief {brief} */\nstruct {names.symbol}_{suffix} {{\n{members}}};\n"


def _run_comment(program: Program, names: Names, options: Options) -> str:
    lines = ["\\brief One inference; 0 on success, -1 when an operator fails or a pointer is NULL."]
    if program.feed is not None:
        lines.append("It returns -1 too unless all rows of the input came:")
        lines.append(f"{names.rows('push')} has run the layers that take them in.")
    elif program.io_in_pool:
        if program.keep_inputs:
            lines.append("The inputs lie in the workspace, and a run leaves them as they are.")
        else:
            lines.append(
                "A run destroys the inputs: they lie in the workspace, whose bytes later tensors "
                "take."
            )
            lines.append("Write them again before each run.")
    else:
        lines.append("The inputs are only read. Each buffer is aligned as its elements are,")
        lines.append("and no two of them may overlap.")
    if program.graph.states:
        lines.append(f"It updates the states; {names.reset} must have run before the first one.")
    if options.pools == "external":
        lines.append(
            f"Each pool is aligned to {ALIGNMENT}, and the workspace needs no initial value."
        )
        lines.append("Calls at the same time need pools of their own.")
    elif any(
        pool.nbytes for pool in program.pools if options.pools == "internal" or pool.persistent
    ):
        lines.append("No call may interrupt another one, or run beside it: they share memory.")
    if options.pools == "calls":
        lines.append(f"The workspace comes from {allocator().function}; -1 too when that fails.")
    lines += [f"It returns {c_quoted(text)}." for text in loop_statuses(program)]
    lines.append(INVALID_OUTPUTS)
    if options.constants == "external":
        lines.append(f"The constants are aligned to {ALIGNMENT}; a run only reads them.")
    return "/*! " + "\n * ".join(lines) + " */\n"


def _run_prototype(program: Program, names: Names, options: Options) -> str:
    parameters = [
        f"struct {names.symbol}_{struct} *{struct}" for struct in _structs(program, options)
    ]
    return c_wrapped(f"int32_t {names.run}(", parameters or ["void"], ")")


def _map_prototype(names: Names, kind: str, options: Options) -> str:
    head = f"struct {names.symbol}_{kind} {names.map(kind)}("
    return c_wrapped(head, [_pools_parameter(names, options)], ")")


def _pools_parameter(names: Names, options: Options) -> str:
    parameter = f"struct {names.symbol}_workspace_pools *workspace_pools"
    return parameter if options.pools == "external" else "void"


def _reset_prototype(names: Names, options: Options) -> str:
    return c_wrapped(f"int32_t {names.reset}(", [_pools_parameter(names, options)], ")")


def _reset_function(program: Program, names: Names, options: Options) -> str:
    pool, check = names.pool_object(state_pool(program)), ""
    if options.pools == "external":
        field = f"workspace_pools->{names.pools[state_pool(program)]}"
        pool = f"((uint8_t *){field})"
        conditions = ["workspace_pools == NULL", f"{field} == NULL"]
        check = c_wrapped("    if (", conditions, ") {", " ||") + "\n        return -1;\n    }\n"
    return (
        f"{_reset_prototype(names, options)} {{\n{check}{reset_statements(program, pool, names)}"
        "    return 0;\n}\n"
    )


def _map_function(program: Program, names: Names, kind: str, options: Options) -> str:
    graph = program.graph
    tensors: Sequence[str] = [state.name for state in graph.states]
    fields = names.states
    if kind != "states":
        tensors, fields = (
            (graph.inputs, names.inputs) if kind == "inputs" else (graph.outputs, names.outputs)
        )
    members = []
    for name, field in zip(tensors, fields, strict=True):
        ref = program.buffers[name]
        base = names.pool_object(ref.pool)
        if options.pools == "external":
            base = f"((uint8_t *)workspace_pools->{names.pools[ref.pool]})"
        members.append(f"        .{field} = &{base}[{ref.value}],\n")
    unused = "" if fields or options.pools != "external" else "    (void)workspace_pools;\n"
    return (
        f"{_map_prototype(names, kind, options)} {{\n{unused}"
        f"    const struct {names.symbol}_{kind} mapped = {{\n"
        f"{''.join(members) or '        .none = NULL,' + chr(10)}    }};\n"
        "    return mapped;\n}\n"
    )
