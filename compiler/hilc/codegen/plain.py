"""Plain C code, the option ``style=plain``: one ``<name>.c`` and one ``<name>.h``, in C99.

The functions take typed pointers, every name begins with the model's, all that is not called from
outside is static, and nothing refers to TVM. The kernels, the plan and the results are those of
``style=tvm``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hilc.codegen import feed
from hilc.codegen.arguments import MainArgument, Operator, Pointers, program_devices
from hilc.codegen.banner import banner
from hilc.codegen.calls import checked_call, guarded_call, passing_call
from hilc.codegen.constants import ConstantPool
from hilc.codegen.convention import Calls, External
from hilc.codegen.cwriter import C_TYPES, CONSTANT, c_array, c_quoted, c_wrapped
from hilc.codegen.described import Argument, Kind
from hilc.codegen.interface import Interface
from hilc.codegen.names import POOL, Names
from hilc.codegen.options import Options
from hilc.codegen.plain_text import quantization, tensor_macros
from hilc.codegen.states import reset_statements, reset_values, state_pool
from hilc.codegen.statuses import INVALID_OUTPUTS, can_fail, is_endless, loop_statuses
from hilc.codegen.unpacked import Unpacked, external_parameters, function_text
from hilc.errors import InputError
from hilc.ir import Tensor
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.plan import BufferRef, Program
from hilc.memory.pools import STATE_POOL
from hilc.support.identifiers import C_HEADERS, unused

#: Names of the pools, in place of TVM's.
POOLS: Mapping[str, str] = {POOL: "workspace", STATE_POOL: "state"}

# Parameters -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """Parameter of the functions that a caller of the model calls."""

    kind: Kind
    #: Index of the model's input, output or pool.
    index: int
    name: str
    #: Element type of the tensor, uint8 of a pool.
    dtype: str
    #: Meaning, for the header's comment.
    meaning: str

    @property
    def declaration(self) -> str:
        """The C declaration."""
        return declared(self.name, self.dtype, is_read=self.kind == "input")


def declared(name: str, dtype: str, *, is_read: bool) -> str:
    """Return the declaration of a pointer to elements of this type, ``const`` for those read."""
    return f"{'const ' if is_read else ''}{C_TYPES[dtype]} *{name}"


def element_type(tensor: Tensor) -> str:
    """Return the C type of an element."""
    return C_TYPES[tensor.dtype]


def parameters(program: Program, names: Names, options: Options) -> tuple[Parameter, ...]:
    """Return the parameters of the entry point: inputs, outputs, pools of the caller."""
    tensors, graph = program.graph.tensors, program.graph
    found: list[Parameter] = []
    taken: set[str] = set()

    def add(kind: Kind, index: int, name: str, dtype: str, meaning: str) -> None:
        name = unused(name, taken)
        taken.add(name)
        found.append(Parameter(kind, index, name, dtype, meaning))

    if not program.io_in_pool:
        for index, name in enumerate(graph.inputs if program.feed is None else ()):
            tensor, field = tensors[name], names.inputs[index]
            size = f"{names.macro(f'{field}_COUNT')} elements, which are only read"
            add("input", index, field, tensor.dtype, f"input: {size}")
        for index, name in enumerate(graph.outputs):
            tensor, field = tensors[name], names.outputs[index]
            size = f"{names.macro(f'{field}_COUNT')} elements"
            add("output", index, field, tensor.dtype, f"output: {size}")
    for index in caller_pools(program, options):
        macro = pool_macro(names, index)
        meaning = f"memory: {macro} bytes, aligned to {ALIGNMENT}"
        add("pool", index, names.pools[index], "uint8", meaning)
    return tuple(found)


def caller_pools(program: Program, options: Options) -> tuple[int, ...]:
    """Return the indices of the pools that the caller passes."""
    pools = enumerate(program.pools)
    return tuple(i for i, pool in pools if options.pools == "external" and pool.nbytes)


def static_pools(program: Program, options: Options) -> tuple[int, ...]:
    """Return the indices of the pools that are static arrays."""
    pools = enumerate(program.pools)
    return tuple(i for i, pool in pools if options.pools == "internal" and pool.nbytes)


def pool_macro(names: Names, index: int) -> str:
    """Return the macro with the size of a pool that the caller passes."""
    return names.macro(f"{names.pools[index]}_POOL_SIZE")


def _pointers(program: Program, names: Names, options: Options) -> Pointers:
    """Return the C expressions of tensors and pools in the functions of the interface."""
    given = [
        MainArgument(p.kind, p.index, p.name, (), p.dtype)
        for p in parameters(program, names, options)
    ]
    own = [
        MainArgument("pool", i, names.pool_object(i), (), "")
        for i in static_pools(program, options)
    ]
    return Pointers([*given, *own])


def _null_test(given: Sequence[Parameter]) -> str:
    """Return the statements that return -1 where a pointer is NULL."""
    if not given:
        return ""
    conditions = [f"({parameter.name} == NULL)" for parameter in given]
    if len(given) == 1:
        conditions = [f"{given[0].name} == NULL"]
    return c_wrapped("    if (", conditions, ") {", " ||") + "\n        return -1;\n    }\n"


# Functions --------------------------------------------------------------------------------------


class Plain(Unpacked):
    """Calls between the functions of one file, which are static; what cannot fail returns void."""

    def external_function(
        self,
        symbol: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        has_scratch: bool,
        body: str,
    ) -> str:
        """Return the definition of a function of IF or WHILE, which layers of its file call."""
        given = [
            *(declared(f"input{i}", t.dtype, is_read=True) for i, t in enumerate(inputs)),
            *(declared(f"output{i}", t.dtype, is_read=False) for i, t in enumerate(outputs)),
            *["uint8_t *scratch"] * has_scratch,
        ]
        return function_text(f"static int32_t {symbol}(", given, body)

    def calls(self, options: Options) -> Calls:
        """Return a writer of the functions of one file."""
        return PlainCalls()


class PlainCalls(Calls):
    """Writer of static functions."""

    def __init__(self) -> None:
        self._fails: set[str] = set()

    def function(self, operator: Operator, body: str, pool: str) -> str:
        """Return the operator's function; its inputs are ``const``."""
        returns, body = _result(body)
        if returns != "void":
            self._fails.add(operator.function)
        unread = "".join(
            f"    (void){name};\n"
            for name in operator.parameters
            if not re.search(rf"\b{name}\b", body)
        )
        # A function of its own has all registers, and the frames of two layers never add up.
        head = f"static {returns} {operator.function}("
        start = c_wrapped(head, layer_parameters(operator), ") {")
        return f"{NOINLINE}\n{start}\n{unread}{body}}}\n"

    def external(self, call: External) -> tuple[str, str]:
        """Return the declaration of another generator's function, and the call."""
        if call.is_static:
            passed = [text.removeprefix("(void *)") for text, _ in call.tensors]
            passed += ["scratch"] * bool(call.scratch_bytes)
            return "", call.preparation + guarded_call(call.symbol, passed, call.guards)
        outputs = len(call.tensors) - call.input_count
        given = external_parameters(
            call.input_count, outputs, bool(call.scratch_bytes), has_device=False
        )
        # Its parameters are not const, whatever it does with them.
        passed = [
            f"(void *)(uintptr_t){text.removeprefix('(void *)')}"
            if index < call.input_count
            else text
            for index, (text, _) in enumerate(call.tensors)
        ]
        passed += ["scratch"] * bool(call.scratch_bytes)
        statements = call.preparation + guarded_call(call.symbol, passed, call.guards)
        return c_wrapped(f"int32_t {call.symbol}(", given, ");\n"), statements

    def main_head(
        self,
        function: str,
        arguments: Sequence[MainArgument],
        used: AbstractSet[int],
        has_operators: bool,
    ) -> str:
        """Return the beginning of the main of a graph that a layer calls."""
        given = [declared(a.name, a.dtype, is_read=a.kind == "input") for a in arguments]
        head = c_wrapped(f"static int32_t {function}(", given or ["void"], ") {\n")
        unread = [a.name for index, a in enumerate(arguments) if index not in used]
        return head + "".join(f"    (void){name};\n" for name in unread)

    def layers(self, operators: Sequence[Operator], pointer: Callable[[Argument], str]) -> str:
        """Return statements that call the operators in order; -1 on the first failure."""
        text = ""
        for operator in operators:
            passed = list(map(pointer, operator.arguments))
            if operator.function in self._fails:
                checked = passing_call if operator.has_status else checked_call
                text += checked(operator.function, passed)
            else:
                text += c_wrapped(f"    {operator.function}(", passed, ");\n")
        return text


def layer_parameters(operator: Operator) -> list[str]:
    """Return the declarations of a layer's parameters; its inputs are ``const``."""
    given = [
        declared(name, argument.dtype, is_read=name.startswith("input"))
        for name, argument in zip(operator.operands, operator.arguments, strict=False)
    ]
    return given + [f"uint8_t *{name}" for name in operator.parameters[len(given) :]]


NOINLINE = "__attribute__((noinline))"


def _result(body: str) -> tuple[str, str]:
    """Return the result's type of a function, and its body: ``void`` where it cannot fail."""
    end = "    return 0;\n"
    if body.endswith(end) and not re.search(r"\breturn\b", body.removesuffix(end)):
        return "void", body.removesuffix(end)
    return "int32_t", body


# Text of <name>.c -------------------------------------------------------------------------------


def arrays(pool: ConstantPool, names: Names) -> Iterable[str]:
    """Return the definitions of the constants, each a static array."""
    if pool.members:
        yield "/* Constants of the layers. Arrays with equal elements are defined once. */\n"
    for member in pool.members:
        yield c_array(names.local(member.name), member.array, CONSTANT)


def memory(program: Program, names: Names, options: Options) -> Iterable[str]:
    """Return the definitions of the pools that are static arrays."""
    for index in static_pools(program, options):
        pool = program.pools[index]
        # A linker script places the pool of a region by its section.
        section = f'section(".bss.noinit.tvm.{pool.region}"), ' if pool.region else ""
        what = "States, which persist between runs" if pool.persistent else "Working memory"
        yield (
            f"/* {what}. */\n"
            f"static uint8_t {names.pool_object(index)}[{pool.nbytes}]\n"
            f"    __attribute__(({section}aligned({ALIGNMENT})));\n"
        )


def write_run(
    program: Program,
    names: Names,
    options: Options,
    operators: Sequence[Operator],
    calls: Calls,
) -> Iterable[str]:
    """Return the functions of the interface, the run last."""
    given = parameters(program, names, options)
    pointers = _pointers(program, names, options)
    yield from reset_values(program, names)
    for prototype, tensor, ref in _getters(program, names, options):
        place = f"&{pointers.variables['pool', ref.pool]}[{ref.value}]"
        cast = "" if tensor.dtype == "uint8" else f"({element_type(tensor)} *)(void *)"
        yield f"{prototype} {{\n    return {cast}{place};\n}}\n"
    if names.states:
        pools = [p for p in given if p.kind == "pool" and p.index == state_pool(program)]
        pool = pointers.variables["pool", state_pool(program)]
        yield (
            f"{_reset_prototype(program, names, options)} {{\n{_null_test(pools)}"
            f"{reset_statements(program, pool, names)}    return 0;\n}}\n"
        )
    spend = ""
    if program.feed is not None:
        yield from feed.definitions(program, names, _caller(program, names, options))
        kept = f"(struct hil_feed *)(void *){_place(pointers, program.feed)}"
        nbytes = program.fed_tensor.nbytes
        spend = f"    if (hil_feed_spend({kept}, {nbytes}) != 0) {{\n        return -1;\n    }}\n"
    yield (
        f"{_run_prototype(program, names, options)} {{\n{_null_test(given)}{spend}"
        f"{calls.layers(operators, pointers.typed)}    return 0;\n}}\n"
    )


def feed_function(
    program: Program, names: Names, options: Options, operator: Operator
) -> tuple[str, list[str]]:
    """Return the head of the function that computes on rows, and the arguments that it passes."""
    pointers = _pointers(program, names, options)
    assert program.feed is not None
    given = [parameter.declaration for parameter in parameters(program, names, options)]
    head = c_wrapped(f"static void {names.feed}(", given or ["void"], ") {\n")
    kept = f"(struct {names.local('layer_0')}_feed *)(void *){_place(pointers, program.feed)}"
    passed = [kept, *map(pointers.typed, operator.arguments)]
    text = " ".join(passed)
    unread = "".join(
        f"    (void){parameter.name};\n"
        for parameter in parameters(program, names, options)
        if not re.search(rf"\b{parameter.name}\b", text)
    )
    return f"{head}{unread}", passed


def _place(pointers: Pointers, ref: BufferRef | None) -> str:
    assert ref is not None, "a group that is fed has a buffer"
    return f"&{pointers.variables['pool', ref.pool]}[{ref.value}]"


def _caller(program: Program, names: Names, options: Options) -> feed.Caller:
    given = parameters(program, names, options)
    pointers = _pointers(program, names, options)
    return feed.Caller(
        parameters=tuple(parameter.declaration for parameter in given),
        names=tuple(parameter.name for parameter in given),
        test=_null_test(given),
        passed=tuple(parameter.name for parameter in given),
        feed=_place(pointers, program.feed),
        scratch=_place(pointers, program.steps[0].scratch),
    )


# The interface ----------------------------------------------------------------------------------


def _run_prototype(program: Program, names: Names, options: Options) -> str:
    given = [parameter.declaration for parameter in parameters(program, names, options)]
    return c_wrapped(f"int32_t {names.run}(", given or ["void"], ")")


def _reset_prototype(program: Program, names: Names, options: Options) -> str:
    pools = [p for p in parameters(program, names, options) if p.kind == "pool"]
    given = [p.declaration for p in pools if p.index == state_pool(program)]
    return c_wrapped(f"int32_t {names.reset}(", given or ["void"], ")")


def _getters(
    program: Program, names: Names, options: Options
) -> Iterable[tuple[str, Tensor, BufferRef]]:
    """Return the functions that return the address of a tensor in a pool: prototype, tensor,
    place.
    """
    graph = program.graph
    found: list[tuple[str, str]] = []
    if program.io_in_pool:
        fields = {**dict(zip(graph.inputs, names.inputs, strict=True))}
        rows = [] if program.feed is not None else list(fields.items())
        rows += zip(graph.outputs, names.outputs, strict=True)
        found += [(tensor, f"{field}_buffer") for tensor, field in dict.fromkeys(rows)]
    states = [state.name for state in graph.states]
    found += [(s, f"{field}_state") for s, field in zip(states, names.states, strict=True)]
    pools = {p.index: p for p in parameters(program, names, options) if p.kind == "pool"}
    for name, suffix in found:
        ref, tensor = program.buffers[name], graph.tensors[name]
        given = [pools[ref.pool].declaration] if ref.pool in pools else ["void"]
        head = f"{element_type(tensor)} *{names.symbol}_{suffix}("
        yield c_wrapped(head, given, ")"), tensor, ref


class PlainInterface(Interface):
    """Functions with typed parameters."""

    name = "plain C"
    header_includes = ("stdint.h",)
    entry_includes = ()

    def symbol(self, module: str) -> str:
        """Return the stem of all symbols: the model's name, as the user wrote it.

        Raise InputError for a name that begins with a digit or an underscore, or is a header of C.
        """
        hint = f"give the model another name: --name model_{module.strip('_')}"
        if not module[0].isalpha():
            raise InputError(
                f"the names of plain C code would begin with {module!r}, which C does not allow or "
                "reserves for itself",
                hint,
            )
        if module.lower() in C_HEADERS:
            raise InputError(
                f"plain C code of a model {module!r} would have the header {module}.h, which is "
                "one of the C library",
                hint,
            )
        return module

    def declarations(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """Yield the declarations of the header, from the macros of tensors on."""
        yield from tensor_macros(program, names)
        yield from _memory_macros(program, names, options)
        for prototype, tensor, _ in _getters(program, names, options):
            comment = f"/** Address of a tensor in the memory: {quantization(tensor)}. */\n"
            yield f"{comment}{prototype};\n"
        if names.states:
            yield (
                "/** Sets every state to its first value. Call it before the first run.\n"
                " * @return 0, or -1 if a pointer is NULL. */\n"
                f"{_reset_prototype(program, names, options)};\n"
            )
        if program.feed is not None:
            given = [p.declaration for p in parameters(program, names, options)]
            yield from feed.declarations(program, names, given)
        yield f"{_run_comment(program, names, options)}{_run_prototype(program, names, options)};\n"

    def entry_point(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """Yield nothing: the functions stand beside the layers (:func:`write_run`)."""
        return ()


def _memory_macros(program: Program, names: Names, options: Options) -> Iterable[str]:
    where = "passed by the caller" if options.pools == "external" else "static in the code"
    yield (
        f"/** Working memory in bytes, {where}. */\n"
        f"#define {names.macro('WORKSPACE_SIZE')} {program.workspace_bytes}\n"
    )
    if program.graph.states:
        yield (
            "/** Memory of the states in bytes; they persist between runs. */\n"
            f"#define {names.macro('STATE_SIZE')} {program.state_bytes}\n"
        )
    for index in caller_pools(program, options):
        pool = program.pools[index]
        region = f" in the memory region {pool.region}" if pool.region else ""
        yield (
            f"/** Size of the buffer `{names.pools[index]}` in bytes{region}. */\n"
            f"#define {pool_macro(names, index)} {pool.nbytes}\n"
        )


def _run_comment(program: Program, names: Names, options: Options) -> str:
    lines = ["Runs one inference."]
    given = parameters(program, names, options)
    if program.feed is not None:
        lines.append(f"All rows must have arrived ({names.rows('push')} or {names.rows('pull')}).")
    elif program.io_in_pool:
        kept = "keeps" if program.keep_inputs else "overwrites"
        lines.append(f"Inputs and outputs lie in the memory; a run {kept} the inputs.")
    if program.graph.states:
        lines.append(f"Updates the states; {names.reset} must have run before the first call.")
    if static_pools(program, options):
        lines.append("Not reentrant: calls share the static memory.")
    else:
        lines.append("Reentrant: calls at the same time need buffers of their own.")
    lines.append(
        "No recursion, no dynamic memory, and no loop without a fixed bound."
        if not is_endless(program)
        else "No recursion and no dynamic memory."
    )
    if len(given) > 1:
        lines.append("The buffers must not overlap; each is aligned as its elements.")
    lines += [f"@param {parameter.name} {parameter.meaning}." for parameter in given]
    failing = ["a pointer is NULL"] if given else []
    failing += ["rows are missing"] if program.feed is not None else []
    failing += ["a layer fails"] if can_fail(program) else []
    statuses = [f"-1 if {' or '.join(failing)}"] if failing else []
    *first, last = ["@return 0", *statuses, *loop_statuses(program)]
    lines += [*(f"{text}," for text in first), f"{'or ' if first else ''}{last}."]
    if first:
        lines.append(INVALID_OUTPUTS)
    return "/** " + "\n * ".join(map(c_quoted, lines)) + " */\n"


def write_plain_header(program: Program, names: Names, options: Options) -> str:
    """Return ``<name>.h``, for C and C++."""
    guard = names.macro("H")
    sections = [
        f"{banner(f'The neural network {c_text(program.graph.name)}.', program.cpu)}"
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *PlainInterface().declarations(program, names, options),
        f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n",
    ]
    return "\n".join(sections)


def c_text(name: str) -> str:
    """Return a name in quotes, for a comment."""
    return f'"{name}"'


def require_plain(program: Program) -> None:
    """Raise InputError for a program that needs TVM's device interface."""

    if devices := program_devices(program):
        raise InputError(
            f"{program.graph.name!r} runs layers on the device {devices[0].name!r}, whose "
            "interface is microTVM's",
            "use style=tvm",
        )


def plain_pools(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the pools without TVM's words."""
    return tuple(POOLS.get(name, name) for name in names)
