"""TVM's packed interface: an entry point that takes an array of DLTensor handles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hilc.codegen.arguments import MainArgument, Operator, main_arguments
from hilc.codegen.constants import ConstantPool
from hilc.codegen.cwriter import c_quoted, c_wrapped
from hilc.codegen.interface import Interface
from hilc.codegen.names import CONSTANT_POOL, Names
from hilc.codegen.options import Options
from hilc.codegen.states import reset_statements, state_pool
from hilc.codegen.statuses import INVALID_OUTPUTS, loop_statuses
from hilc.compat.tvm.c_metadata import write_c_metadata
from hilc.compat.tvm.convention import (
    MODULE_CONTEXT,
    PACKED_ARGUMENTS,
    PACKED_CALL,
    RUNTIME_API,
    Shapes,
    argument_data,
    packed_definition,
    packed_head,
    packed_prototype,
    pass_tensor,
    unused_packed,
)
from hilc.compat.tvm.symbols import GET_METADATA, LOOKUP, get_metadata, lookup
from hilc.external import ExternalCall
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.plan import Program


class PackedInterface(Interface):
    """TVM's packed interface: a run function of packed arguments, and metadata."""

    name = "packed"
    header_includes = ("stdint.h", RUNTIME_API)
    entry_includes = ("stddef.h", PACKED_CALL, "tvm/runtime/crt/error_codes.h")
    operator_includes = (PACKED_CALL,)

    def symbol(self, module: str) -> str:
        """Return the stem of all global symbols of ``module``, in the given case."""
        return f"tvmgen_{module}"

    def reserved(self, symbol: str) -> Mapping[str, str]:
        """Return the names of the metadata and lookup functions, and their meanings."""
        names = {
            "the function that returns the metadata": (get_metadata(symbol), GET_METADATA),
            "the function that looks up constants": (lookup(symbol), LOOKUP),
        }
        return {name: what for what, both in names.items() for name in both}

    def declared(self, names: Names) -> Sequence[str]:
        """Return the names of the functions that the header declares."""
        reset = (names.reset,) if names.states else ()
        return (names.run, *reset, get_metadata(names.symbol), lookup(names.symbol))

    def entry_globals(self, options: Options) -> Iterable[str]:
        """Return the variable that TVM's C++ runtime requires of a library that calls other
        modules' functions.
        """
        if options.runtime == "cpp":
            # Weak: of several models in one library the runtime sets one.
            yield (
                f"/* TVM's run time writes here by which handle it knows this library. */\n"
                f"extern void *{MODULE_CONTEXT};\n"
                f"__attribute__((weak))\nvoid *{MODULE_CONTEXT} = NULL;\n"
            )

    def operator_functions(
        self, constants: ConstantPool, names: Names, options: Options
    ) -> Iterable[str]:
        """Return the functions that look up constants."""
        return _lookups(constants, names, options)

    def sources(
        self, program: Program, names: Names, options: Options, constants: ConstantPool
    ) -> Mapping[int, str]:
        """Return the C file of the metadata, number 2."""
        return {2: write_c_metadata(program, names, options, constants)}

    def functions(
        self,
        program: Program,
        names: Names,
        operators: Sequence[Operator],
        options: Options,
    ) -> Iterable[str]:
        """Yield the functions of the function table, in its order."""
        packed = options.api == "packed"
        yield names.run
        if names.states:
            yield names.reset
        if packed:
            yield from sorted(operator.function for operator in operators)
            yield names.main
        yield from (get_metadata(names.symbol), lookup(names.symbol))
        if packed:
            calls = [step.call for step in program.steps]
            modules = [call.module for call in calls if isinstance(call, ExternalCall)]
            yield from dict.fromkeys(module.symbol for module in modules)

    def declarations(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """Yield the prototypes of the run, reset, metadata and lookup functions."""
        yield f"{_run_comment(program, names, options)}{packed_prototype(names.run)};\n"
        if names.states:
            yield f"{_reset_comment(program, options)}{packed_prototype(names.reset)};\n"
        yield (
            "/*! \\brief Returns the model's TVMMetadata as an opaque handle; "
            "takes no arguments */\n"
            f"{packed_prototype(get_metadata(names.symbol))};\n"
        )
        yield (
            "/*! \\brief Returns the constant with the storage id args[0], an integer, "
            "as an opaque\n"
            " * handle; a null pointer where there is none */\n"
            f"{packed_prototype(lookup(names.symbol))};\n"
        )

    def entry_point(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """Yield the run function, which checks its arguments and calls the main."""
        arguments = main_arguments(program, options)
        given = _given(program, options)
        if names.states:
            yield _reset_function(program, names, options)
        yield _check(given)
        if options.api == "unpacked":
            yield _call_unpacked(arguments, names, options)
        elif len(given) == len(arguments):
            yield _forward(names)
        else:
            shapes = Shapes()
            function = _call_packed(arguments, names, options, shapes)
            yield shapes.definitions()
            yield function


def _lookups(constants: ConstantPool, names: Names, options: Options) -> list[str]:
    """Return the functions that find a linked constant by its storage id, the index in the pool.

    TVM's runtimes use the function whose name is independent of the model; in an image of several
    models each has one, of which the linker takes any.
    """
    linked = [] if options.constants == "external" else constants.members
    table = "".join(f"        {CONSTANT_POOL}.{member.name},\n" for member in linked)
    nothing = "    out_ret_value->v_handle = NULL;\n    *out_ret_tcode = kTVMNullptr;\n"
    known = (
        f"    static const void *const constants[] = {{\n{table}    }};\n"
        "    const int64_t id = args[0].v_int64;\n"
        f"    if (id >= 0 && id < {len(linked)}) {{\n"
        "        out_ret_value->v_handle = (void *)constants[(size_t)id];\n"
        "        *out_ret_tcode = kTVMOpaqueHandle;\n"
        "        return 0;\n    }\n"
    )
    used = ["type_codes", "out_ret_value", "out_ret_tcode", *(["args"] if linked else [])]
    same = c_wrapped(f"    return {lookup(names.symbol)}(", PACKED_ARGUMENTS, ");\n")
    weak = "" if options.runtime == "cpp" else "__attribute__((weak))\n"
    return [
        "/* The linked constant that has the storage id args[0]; a null handle where none has. */\n"
        f"{packed_head(lookup(names.symbol), 1, *used)}"
        "    if (type_codes != NULL && type_codes[0] != kTVMArgInt) {\n"
        "        return -1;\n    }\n"
        f"{known if linked else ''}{nothing}    return 0;\n}}\n",
        f"{weak}{packed_definition(LOOKUP)}{same}}}\n",
    ]


def _is_given(argument: MainArgument, options: Options) -> bool:
    """Return whether the caller passes the argument: all but the library's own pools."""
    return argument.kind != "pool" or options.pools == "external"


def _reset_comment(program: Program, options: Options) -> str:
    lines = [
        "\\brief Gives every state its first value; 0 on success, and TVM's error code for",
        "arguments of the wrong number or type. Call it before the first run: no run does.",
    ]
    if options.pools == "external":
        pool = program.pools[state_pool(program)]
        lines.append(f"args[0] is the handle of a DLTensor, {pool.name}: uint8[{pool.nbytes}]")
    else:
        lines.append("It takes no arguments.")
    return "/*! " + "\n * ".join(lines) + " */\n"


def _reset_function(program: Program, names: Names, options: Options) -> str:
    if options.pools != "external":
        pool = names.pool_object(state_pool(program))
        return (
            f"{packed_definition(names.reset)}{unused_packed()}"
            f"{reset_statements(program, pool, names)}    return 0;\n}}\n"
        )
    return (
        f"{packed_definition(names.reset)}{unused_packed('args', 'type_codes', 'num_args')}"
        "    if (num_args != 1) {\n        return kTvmErrorFunctionCallNumArguments;\n    }\n"
        "    if (args == NULL || args[0].v_handle == NULL) {\n"
        "        return kTvmErrorFunctionCallInvalidArg;\n    }\n"
        "    if (type_codes != NULL && type_codes[0] != kTVMDLTensorHandle &&\n"
        "        type_codes[0] != kTVMNDArrayHandle && type_codes[0] != kTVMOpaqueHandle) {\n"
        "        return kTvmErrorFunctionCallWrongArgType;\n    }\n"
        f"    uint8_t *const pool = (uint8_t *){argument_data(0)};\n"
        "    if (pool == NULL) {\n        return kTvmErrorFunctionCallInvalidArg;\n    }\n"
        f"{reset_statements(program, 'pool', names)}    return 0;\n}}\n"
    )


def _given(program: Program, options: Options) -> list[MainArgument]:
    return [a for a in main_arguments(program, options) if _is_given(a, options)]


def _run_comment(program: Program, names: Names, options: Options) -> str:
    lines = [
        "\\brief One inference; 0 on success, -1 when an operator fails, and TVM's error code for",
        "arguments of the wrong number or type, or without memory.",
        "args are handles of DLTensors, of devices their contexts:"
        if names.devices
        else "args are handles of DLTensors:",
    ]
    for index, argument in enumerate(_given(program, options)):
        match argument.kind:
            case "input":
                what = f'input "{c_quoted(program.graph.inputs[argument.index])}"'
            case "output":
                what = f'output "{c_quoted(program.output_names[argument.index])}"'
            case "constants":
                what = f"{CONSTANT_POOL}, aligned to {ALIGNMENT}"
            case "pool":
                what = f"{names.pools[argument.index]}, aligned to {ALIGNMENT}"
            case "device":
                what = f"device {names.devices[argument.index]}"
        if argument.kind != "device":
            shape = ",".join(map(str, argument.shape))
            what += f": {argument.dtype}[{shape}]"
        lines.append(f"  {index}: {what}")
    lines.append("Tensors are compact, aligned as their elements are, and do not overlap.")
    if options.pools == "calls":
        lines.append("The workspace comes from TVMBackendAllocWorkspace; -1 too when that fails.")
    lines += [f"It returns {c_quoted(text)}." for text in loop_statuses(program)]
    lines.append(INVALID_OUTPUTS)
    return "/*! " + "\n * ".join(lines) + " */\n"


def _check(given: list[MainArgument]) -> str:
    tensors = [argument for argument in given if argument.kind != "device"]
    devices = len(given) - len(tensors)
    # An unused pool may have no memory.
    empty = [index for index, argument in enumerate(tensors) if argument.shape == (0,)]
    no_memory = " && ".join(["tensor->data == NULL", *(f"i != {index}" for index in empty)])
    no_memory = f"({no_memory})" if empty else no_memory
    for_devices = ""
    if devices:
        for_devices = (
            f"    for (int i = {len(tensors)}; i < {len(given)}; i++) {{\n"
            "        if (type_codes != NULL && type_codes[i] != kTVMOpaqueHandle &&\n"
            "            type_codes[i] != kTVMNullptr) {\n"
            "            return kTvmErrorFunctionCallWrongArgType;\n"
            "        }\n    }\n"
        )
    return (
        "/* Whether the caller hands over what the model needs; it may leave out the codes. */\n"
        "static int32_t check_arguments("
        "const TVMValue *args, const int *type_codes, int num_args) {\n"
        f"    if (num_args != {len(given)}) {{\n"
        "        return kTvmErrorFunctionCallNumArguments;\n    }\n"
        "    if (args == NULL) {\n        return kTvmErrorFunctionCallInvalidArg;\n    }\n"
        f"    for (int i = 0; i < {len(tensors)}; i++) {{\n"
        "        if (type_codes != NULL && type_codes[i] != kTVMDLTensorHandle &&\n"
        "            type_codes[i] != kTVMNDArrayHandle && type_codes[i] != kTVMOpaqueHandle) {\n"
        "            return kTvmErrorFunctionCallWrongArgType;\n        }\n"
        "        const DLTensor *const tensor = (const DLTensor *)args[i].v_handle;\n"
        f"        if (tensor == NULL || {no_memory}) {{\n"
        "            return kTvmErrorFunctionCallInvalidArg;\n        }\n    }\n"
        f"{for_devices}    return 0;\n}}\n"
    )


_CHECKED = """\
    const int32_t status = check_arguments(args, type_codes, num_args);
    if (status != 0) {
        return status;
    }
"""


def _call_unpacked(arguments: tuple[MainArgument, ...], names: Names, options: Options) -> str:
    values, index = [], 0
    for argument in arguments:
        if not _is_given(argument, options):
            values.append(_own_pool(argument, names))
            continue
        handle = argument.kind == "device"
        values.append(f"args[{index}].v_handle" if handle else argument_data(index))
        index += 1
    call = c_wrapped(f"    return {names.main}(", values, ");\n")
    return (
        f"{packed_definition(names.run)}"
        f"{unused_packed('args', 'type_codes', 'num_args')}{_CHECKED}{call}}}\n"
    )


def _own_pool(pool: MainArgument, names: Names) -> str:
    return names.pool_object(pool.index) if pool.shape != (0,) else "NULL"


def _forward(names: Names) -> str:
    call = c_wrapped(f"    return {names.main}(", PACKED_ARGUMENTS, ");\n")
    return f"{packed_definition(names.run)}{_CHECKED}{call}}}\n"


def _call_packed(
    arguments: tuple[MainArgument, ...], names: Names, options: Options, shapes: Shapes
) -> str:
    """Return the arguments again, with the library's own pools between them."""
    own = [i for i, argument in enumerate(arguments) if not _is_given(argument, options)]
    # Devices follow the pools, so the caller's arguments are before and after them.
    copies = "".join(
        f"    for (int i = {start}; i < {end}; i++) {{\n"
        f"        values[i] = args[i{f' - {len(own)}' if start else ''}];\n"
        f"        codes[i] = {code};\n    }}\n"
        for start, end, code in (
            (0, own[0], "kTVMDLTensorHandle"),
            (own[-1] + 1, len(arguments), "kTVMOpaqueHandle"),
        )
        if start < end
    )
    pools = "".join(
        pass_tensor(
            position,
            _own_pool(arguments[position], names),
            arguments[position].shape,
            "uint8",
            shapes,
            index,
        )
        for index, position in enumerate(own)
    )
    passed = ["values", "codes", str(len(arguments)), "out_ret_value", "out_ret_tcode"]
    call = c_wrapped(f"    return {names.main}(", [*passed, "resource_handle"], ");\n")
    return (
        f"{packed_definition(names.run)}{_CHECKED}"
        f"    TVMValue values[{len(arguments)}];\n    int codes[{len(arguments)}];\n"
        f"    DLTensor tensors[{len(own)}];\n{copies}{pools}{call}}}\n"
    )
