"""How generated functions are called: with plain pointers, or TVM's packed calling convention.

Packed functions take an array of 8-byte values and one of type codes; tensors are passed as
pointers to ``DLTensor``. The C texts here are what every generated file needs to read and to make
such arguments; each file that uses one holds its own copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hilc.codegen.cwriter import c_int, c_wrapped
from hilc.codegen.registry import PACKED_PARAMETERS
from hilc.library import Argument

#: What defines the types below.
RUNTIME_API = "tvm/runtime/c_runtime_api.h"
#: What declares the workspace calls and the look-up of functions.
BACKEND_API = "tvm/runtime/c_backend_api.h"

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

#: C: a pointer to the first element of the tensor that a packed argument is.
TENSOR_DATA = """\
/* The first byte of the tensor that is passed as value. */
static void *tensor_data(TVMValue value) {
    const DLTensor *const tensor = (const DLTensor *)value.v_handle;
    return (uint8_t *)tensor->data + (size_t)tensor->byte_offset;
}
"""

#: C: a packed argument that is a tensor; every field of the tensor is set.
PASS_TENSOR = """\
/* Makes tensor the compact one at data, and passes it as value. It is zeroed first: with short
 * enums device_type is one byte here, of which C++ code reads four. */
static void pass_tensor(TVMValue *value, int *type_code, DLTensor *tensor, void *data,
                        DLDataType dtype, int32_t ndim, const int64_t *shape) {
    memset(tensor, 0, sizeof *tensor);
    tensor->data = data;
    tensor->device.device_type = kDLCPU;
    tensor->device.device_id = 0;
    tensor->ndim = ndim;
    tensor->dtype = dtype;
    tensor->shape = (int64_t *)shape;
    tensor->strides = NULL; /* compact, row by row */
    tensor->byte_offset = 0;
    value->v_handle = tensor;
    *type_code = kTVMDLTensorHandle;
}
"""


@dataclass(frozen=True)
class Operator:
    """A layer's C function, and what the main passes to it."""

    function: str
    #: The tensors that it reads (constants of the model are not passed), those that it writes, its
    #: scratch where the plan has a place for it, the constant pool if it is external and the layer
    #: reads it, the device.
    arguments: tuple[Argument, ...]
    input_count: int


def unused_packed(*used: str) -> str:
    """Statements that say which of a packed function's parameters, by name, are not ``used``."""
    names = [parameter.rpartition(" ")[2].lstrip("*") for parameter in PACKED_PARAMETERS]
    return "".join(f"    (void){name};\n" for name in names if name not in used)


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
    index: int, data: str, shape: Sequence[int], dtype: str, shapes: Shapes, indent: str = "    "
) -> str:
    """The statement that passes the tensor at the address ``data`` as argument ``index``.

    The function that it stands in has arrays ``values``, ``codes`` and ``tensors``.
    """
    arguments = [
        f"&values[{index}]",
        f"&codes[{index}]",
        f"&tensors[{index}]",
        data,
        dl_data_type(dtype),
        str(len(shape)),
        shapes.name(shape),
    ]
    return c_wrapped(f"{indent}pass_tensor(", arguments, ");\n")


def includes(headers: Iterable[str]) -> str:
    return "".join(f"#include <{h}>\n" if "/" not in h else f'#include "{h}"\n' for h in headers)
