"""How generated functions are called: with plain pointers, or TVM's packed calling convention.

Packed functions take an array of 8-byte values and one of type codes; tensors are passed as
pointers to ``DLTensor``, which ``hil/packed_call.h`` makes and reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hilc.codegen.cwriter import c_int, c_wrapped
from hilc.codegen.registry import PACKED_ARGUMENTS, PACKED_PARAMETERS

#: What defines the types below.
RUNTIME_API = "tvm/runtime/c_runtime_api.h"
#: What passes and reads arguments; includes the types.
PACKED_CALL = "hil/packed_call.h"
#: What declares the workspace calls and the look-up of functions.
BACKEND_API = "tvm/runtime/c_backend_api.h"

_INDENT = " " * 4

#: DLPack's type code and bits of an element, by its numpy name. TVM calls a bool a one-bit number.
_DL_TYPES = {
    "int8": ("kDLInt", 8),
    "int16": ("kDLInt", 16),
    "int32": ("kDLInt", 32),
    "int64": ("kDLInt", 64),
    "uint8": ("kDLUInt", 8),
    "bool": ("kDLUInt", 1),
    "float32": ("kDLFloat", 32),
}


@dataclass(frozen=True)
class Argument:
    """An argument of a layer's operator function.

    ``pool``, ``input`` and ``output`` are tensors, ``constants`` is the external constant pool
    (all are DLTensors of ``dtype`` and ``shape`` in the packed calling convention), ``device``
    an opaque context.
    """

    kind: Literal["pool", "input", "output", "constants", "device"]
    #: Byte offset in the pool, or the index of the model's input, output or device.
    value: int
    #: Scratch and the constant pool are uint8; a device has neither shape nor type ("").
    shape: tuple[int, ...]
    dtype: str
    #: Index of the pool among :attr:`Module.workspace_pools`.
    pool: int = 0


@dataclass(frozen=True)
class Operator:
    """A layer's C function, and what the main passes to it."""

    function: str
    #: The tensors that it reads (constants of the model are not passed), those that it writes, its
    #: scratch where the plan has a place for it, the constant pool if it is external and the layer
    #: reads it, the device.
    arguments: tuple[Argument, ...]
    input_count: int
    output_count: int

    @property
    def parameters(self) -> list[str]:
        """What the function calls its arguments."""
        names = [f"input{i}" for i in range(self.input_count)]
        names += [f"output{i}" for i in range(self.output_count)]
        rest = (argument.kind for argument in self.arguments[len(names) :])
        return names + ["scratch" if kind == "pool" else kind for kind in rest]


def unused_packed(*used: str) -> str:
    """Statements that say which of a packed function's parameters, by name, are not ``used``."""
    return "".join(f"    (void){name};\n" for name in PACKED_ARGUMENTS if name not in used)


def packed_definition(function: str) -> str:
    """The first lines of a packed function's definition, up to its body."""
    return c_wrapped(f"int32_t {function}(", PACKED_PARAMETERS, ") {\n")


def packed_head(function: str, num_args: int, *used: str) -> str:
    """What the definition of a packed function begins with that takes ``num_args`` arguments.

    ``used`` are those of its parameters that the rest of it reads.
    """
    return (
        f"{packed_definition(function)}"
        f"{unused_packed('num_args', *used)}"
        f"    if (num_args != {num_args}) {{\n        return -1;\n    }}\n"
    )


def dl_data_type(dtype: str) -> str:
    """The ``DLDataType`` of ``dtype`` as an expression."""
    code, bits = _DL_TYPES[dtype]
    return f"(DLDataType){{{code}, {bits}, 1}}"


class Shapes:
    """The shapes of a file's tensors: one static array for each that differs."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, ...], str] = {}

    def name(self, shape: Sequence[int]) -> str:
        """The array that holds ``shape``; a tensor without dimensions needs none."""
        if not shape:
            return "NULL"
        return self._names.setdefault(tuple(shape), f"shape_{len(self._names)}")

    def definitions(self) -> str:
        return "".join(
            f"static const int64_t {name}[{len(shape)}] = {{{', '.join(map(c_int, shape))}}};\n"
            for shape, name in self._names.items()
        )


def pass_tensor(
    index: int, data: str, shape: Sequence[int], dtype: str, shapes: Shapes, tensor: int = -1
) -> str:
    """The statement that passes the tensor at the address ``data`` as argument ``index``.

    It fills ``values[index]``, ``codes[index]`` and ``tensors[tensor]``, by default that of the
    same index.
    """
    code, bits = _DL_TYPES[dtype]
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
    """The statement that passes an opaque handle as argument ``index``."""
    return f"{_INDENT}hil_pass_handle(&values[{index}], &codes[{index}], {handle});\n"


def argument_data(index: int) -> str:
    """The C expression for the first byte of the tensor that is argument ``index``."""
    return f"hil_argument_data(args[{index}])"


def declare_arguments(count: int) -> str:
    """The arrays for up to ``count`` arguments of packed calls, and what these return."""
    return (
        f"    DLTensor tensors[{count}];\n"
        f"    TVMValue values[{count}];\n"
        f"    int codes[{count}];\n"
        "    TVMValue result = {0};\n"
        "    int result_code = kTVMNullptr;\n"
    )


@dataclass(frozen=True)
class Guard:
    """Something that has to be opened before a call, and is closed after it however that ended."""

    #: C condition that it could be opened.
    opened: str
    #: C call that closes it and returns 0 where it could.
    close: str


def workspace_guard(pointer: str) -> Guard:
    """For the workspace that the variable ``pointer`` was initialised with."""
    return Guard(f"{pointer} != NULL", free_workspace(pointer))


def allocate_workspace(nbytes: int) -> str:
    """The C call; bytes on the CPU (device 1, 0), whose use is given as int8 (0, 8)."""
    return f"TVMBackendAllocWorkspace(1, 0, {nbytes}, 0, 8)"


def free_workspace(pointer: str) -> str:
    return f"TVMBackendFreeWorkspace(1, 0, {pointer})"


def guarded_call(callee: str, arguments: Sequence[str], guards: Sequence[Guard]) -> str:
    """Statements that call a function inside of ``guards`` and return 0 if everything did."""
    if not guards:
        return c_wrapped(f"    return {callee}(", arguments, ");\n")
    call = _nested(callee, arguments, guards, _INDENT)
    return f"    int32_t status = -1;\n{call}    return status;\n"


def _nested(callee: str, arguments: Sequence[str], guards: Sequence[Guard], indent: str) -> str:
    if not guards:
        return c_wrapped(f"{indent}status = {callee}(", arguments, ");\n")
    guard = guards[0]
    return (
        f"{indent}if ({guard.opened}) {{\n"
        f"{_nested(callee, arguments, guards[1:], indent + _INDENT)}"
        f"{indent}    if ({guard.close} != 0) {{\n"
        f"{indent}        status = -1;\n{indent}    }}\n{indent}}}\n"
    )
