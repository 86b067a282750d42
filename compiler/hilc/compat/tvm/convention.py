"""TVM's packed calling convention: api=packed.

Packed functions take an array of 8-byte values and one of type codes; tensors are passed as
pointers to ``DLTensor``, which ``hil/packed_call.h`` creates and reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from hilc.codegen.arguments import MainArgument, Operator, c_type
from hilc.codegen.calls import checked_call, guarded_call, passing_call
from hilc.codegen.convention import Calls, Convention, External
from hilc.codegen.cwriter import c_int, c_wrapped
from hilc.codegen.described import Argument
from hilc.codegen.options import Options
from hilc.compat.tvm.allocator import BACKEND_API
from hilc.ir import ELEMENT_TYPES, Tensor

#: Header that defines the types below.
RUNTIME_API = "tvm/runtime/c_runtime_api.h"
#: Header with functions that pass and read arguments; includes the types.
PACKED_CALL = "hil/packed_call.h"

#: Variable in which TVM's C++ runtime stores its handle of a loaded library.
MODULE_CONTEXT = "__tvm_module_ctx"

#: Parameters of a packed function, with TVM's names.
PACKED_PARAMETERS = (
    "TVMValue *args",
    "int *type_codes",
    "int num_args",
    "TVMValue *out_ret_value",
    "int *out_ret_tcode",
    "void *resource_handle",
)

#: Names of the parameters, to pass all of them on.
PACKED_ARGUMENTS = tuple(p.rpartition(" ")[2].lstrip("*") for p in PACKED_PARAMETERS)

_INDENT = " " * 4


def packed_prototype(function: str, prefix: str = "") -> str:
    """Return the declaration of a packed function, without the semicolon."""
    # Wrapped with the semicolon that follows.
    return c_wrapped(f"{prefix}int32_t {function}(", PACKED_PARAMETERS, ");").removesuffix(";")


def unused_packed(*used: str) -> str:
    """Return statements that mark the packed parameters that are not ``used``."""
    return "".join(f"    (void){name};\n" for name in PACKED_ARGUMENTS if name not in used)


def packed_definition(function: str) -> str:
    """Return the first lines of a packed function's definition, up to its body."""
    return c_wrapped(f"int32_t {function}(", PACKED_PARAMETERS, ") {\n")


def packed_head(function: str, num_args: int, *used: str) -> str:
    """Return the beginning of a packed function's definition with ``num_args`` arguments.

    ``used`` are those of its parameters that the rest of it reads.
    """
    return (
        f"{packed_definition(function)}"
        f"{unused_packed('num_args', *used)}"
        f"    if (num_args != {num_args}) {{\n        return -1;\n    }}\n"
    )


def dl_data_type(dtype: str) -> str:
    """Return the ``DLDataType`` of ``dtype`` as an expression."""
    element = ELEMENT_TYPES[dtype]
    code, bits = element.dl_kind, element.dl_bits
    return f"(DLDataType){{{code}, {bits}, 1}}"


class Shapes:
    """Shapes of a file's tensors: one static array for each distinct shape."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, ...], str] = {}

    def name(self, shape: Sequence[int]) -> str:
        """Return the name of the array with ``shape``; a tensor without dimensions needs none."""
        if not shape:
            return "NULL"
        return self._names.setdefault(tuple(shape), f"shape_{len(self._names)}")

    def definitions(self) -> str:
        """Return the C definitions of the shapes, each a static array of int64_t."""
        return "".join(
            f"static const int64_t {name}[{len(shape)}] = {{{', '.join(map(c_int, shape))}}};\n"
            for shape, name in self._names.items()
        )


def pass_tensor(
    index: int, data: str, shape: Sequence[int], dtype: str, shapes: Shapes, tensor: int = -1
) -> str:
    """Return the statement that passes the tensor at the address ``data`` as argument ``index``.

    It fills ``values[index]``, ``codes[index]`` and ``tensors[tensor]``, by default that of the
    same index.
    """
    element = ELEMENT_TYPES[dtype]
    code, bits = element.dl_kind, element.dl_bits
    arguments = [
        f"&values[{index}]",
        f"&codes[{index}]",
        f"&tensors[{index if tensor < 0 else tensor}]",
        data,
        code,
        str(bits),
        str(len(shape)),
        shapes.name(shape),
    ]
    return c_wrapped(f"{_INDENT}hil_pass_tensor(", arguments, ");\n")


def pass_handle(index: int, handle: str) -> str:
    """Return the statement that passes an opaque handle as argument ``index``."""
    return f"{_INDENT}hil_pass_handle(&values[{index}], &codes[{index}], {handle});\n"


def argument_data(index: int) -> str:
    """Return the C expression of the address of the tensor that is argument ``index``."""
    return f"hil_argument_data(args[{index}])"


def declare_arguments(count: int) -> str:
    """Return the arrays for up to ``count`` arguments of packed calls, and for their results."""
    return (
        f"    DLTensor tensors[{count}];\n"
        f"    TVMValue values[{count}];\n"
        f"    int codes[{count}];\n"
        "    TVMValue result = {0};\n"
        "    int result_code = kTVMNullptr;\n"
    )


class Packed(Convention):
    """TVM's packed calling convention: arrays of values and type codes."""

    external_include = f'#include "{PACKED_CALL}"\n#include "{BACKEND_API}"\n\n'

    def main_prototype(self, function: str, arguments: Sequence[MainArgument]) -> str:
        """Return the main's declaration, without the semicolon."""
        return packed_prototype(function)

    def external_prototype(
        self,
        symbol: str,
        input_count: int,
        output_count: int,
        *,
        has_scratch: bool,
        has_device: bool,
    ) -> str:
        """Return the declaration of an external function, without the semicolon."""
        return packed_prototype(symbol)

    def external_function(
        self,
        symbol: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        has_scratch: bool,
        body: str,
    ) -> str:
        """Return the definition of an external function that unpacks what ``body`` uses."""
        names = [f"input{i}" for i in range(len(inputs))]
        names += [f"output{i}" for i in range(len(outputs))] + ["scratch"] * has_scratch
        unpacked = "".join(
            f"    void *const {name} = {argument_data(position)};\n"
            for position, name in enumerate(names)
            if re.search(rf"\b{name}\b", body)
        )
        used = ["args"] * bool(unpacked)
        return f"{packed_head(symbol, len(names), *used)}{unpacked}{body}}}\n"

    def calls(self, options: Options) -> Calls:
        """Return a writer of packed calls for one file."""
        return _Calls(options)


class _Calls(Calls):
    context = (("resource_handle", "void *resource_handle"),)

    def __init__(self, options: Options) -> None:
        # How the runtime identifies the module: TVM's in C++ passes no handle but sets a variable.
        self._module = MODULE_CONTEXT if options.runtime == "cpp" else "resource_handle"
        self._shapes = Shapes()

    def function(self, operator: Operator, body: str, pool: str) -> str:
        names = operator.parameters
        used = ["args", *(name for name in ("type_codes", "resource_handle") if name in body)]
        unpacked = "".join(
            {
                "constants": pool % argument_data(position),
                "device": f"    void *const device = args[{position}].v_handle;\n",
            }.get(name, f"    void *const {name} = {argument_data(position)};\n")
            for position, name in enumerate(names)
            if name == "constants" or re.search(rf"\b{name}\b", body)
        )
        return f"{packed_head(operator.function, len(names), *used)}{unpacked}{body}}}\n"

    def external(self, call: External) -> tuple[str, str]:
        count = len(call.tensors) + bool(call.scratch_bytes) + call.has_device
        body = self._find_function(call.symbol) + call.preparation + declare_arguments(count)
        for position, (text, tensor) in enumerate(call.tensors):
            body += pass_tensor(position, text, tensor.shape, tensor.dtype, self._shapes)
        if call.scratch_bytes:
            shape = (call.scratch_bytes,)
            body += pass_tensor(len(call.tensors), "scratch", shape, "uint8", self._shapes)
        if call.has_device:
            body += pass_handle(count - 1, "device")
        arguments = ["function", "values", "codes", str(count), "&result", "&result_code"]
        return "", body + guarded_call("TVMFuncCall", arguments, call.guards)

    def _find_function(self, symbol: str) -> str:
        """Return C that looks a packed function up by name, in the module and then everywhere."""
        arguments = [self._module, f'"{symbol}"', "&function"]
        found = c_wrapped("    if (TVMBackendGetFuncFromEnv(", arguments, ") != 0 ||\n")
        return (
            f"    TVMFunctionHandle function = NULL;\n{found}"
            "        function == NULL) {\n        return -1;\n    }\n"
        )

    def main_head(
        self,
        function: str,
        arguments: Sequence[MainArgument],
        used: AbstractSet[int],
        has_operators: bool,
    ) -> str:
        read = ["args"] * bool(used) + ["resource_handle"] * has_operators
        unpacked = "".join(
            f"    {c_type(a.kind)}const {a.name} = "
            + (f"args[{i}].v_handle;\n" if a.kind == "device" else f"{argument_data(i)};\n")
            for i, a in enumerate(arguments)
            if i in used
        )
        return f"{packed_head(function, len(arguments), *read)}{unpacked}"

    def layers(self, operators: Sequence[Operator], pointer: Callable[[Argument], str]) -> str:
        if not operators:
            return ""
        text = declare_arguments(max(len(operator.arguments) for operator in operators))
        for operator in operators:
            for position, argument in enumerate(operator.arguments):
                data = pointer(argument)
                if argument.kind == "device":
                    text += pass_handle(position, data)
                else:
                    text += pass_tensor(
                        position, data, argument.shape, argument.dtype, self._shapes
                    )
            count = str(len(operator.arguments))
            passed = ["values", "codes", count, "&result", "&result_code", "resource_handle"]
            checked = passing_call if operator.has_status else checked_call
            text += checked(operator.function, passed)
        return text

    def declarations(self, body: str) -> Iterable[str]:
        return [f"extern void *{MODULE_CONTEXT};\n"] if MODULE_CONTEXT in body else []

    def headers(self, body: str) -> Iterable[str]:
        needed = {PACKED_CALL: "TVMValue", BACKEND_API: "TVMBackend"}
        return [header for header, what in needed.items() if what in body]

    def definitions(self) -> str:
        return self._shapes.definitions()
