"""Writes constants as C: arrays, numbers, initialisers of parameter structs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np

from hilc.ir import Array
from hilc.kernels import FieldValue

_C_TYPES = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float32": "float",
    "bool": "bool",
}
#: Constant arrays start at a multiple of this many bytes.
ARRAY_ALIGNMENT = 4


def c_type(dtype: str) -> str:
    """The C element type of a tensor type."""
    return _C_TYPES[dtype]


def c_int(value: int) -> str:
    """An integer constant; the most negative ones have no literal in C."""
    if value == -(2**31):
        return "INT32_MIN"
    if value == -(2**63):
        return "INT64_MIN"
    return str(value) if -(2**31) < value < 2**31 else f"INT64_C({value})"


def c_float(value: float) -> str:
    """The float32 constant nearest to ``value``, in the fewest digits that read back as it."""
    number = np.float32(value)
    if not np.isfinite(number):
        raise ValueError(f"{value} has no float constant in C")
    return f"{np.format_float_scientific(number, unique=True, trim='0')}f"


def c_array(name: str, array: Array) -> str:
    """Definition of a constant array of one dimension, wrapped at the project's line length."""
    flat = np.asarray(array).reshape(-1)
    number = c_float if flat.dtype == np.float32 else c_int
    values = ", ".join(number(v) for v in flat.tolist())
    body = textwrap.fill(
        values, 100, initial_indent="    ", subsequent_indent="    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return (
        f"static const {c_type(flat.dtype.name)} {name}[{flat.size}] "
        f"__attribute__((aligned({ARRAY_ALIGNMENT}))) = {{\n{body},\n}};\n"
    )


def c_struct_initialiser(fields: Mapping[str, FieldValue], arrays: Mapping[str, str]) -> str:
    """Initialiser of a kernel's parameter struct; ``arrays`` names the C array of each array field."""
    lines = []
    for name, value in fields.items():
        match value:
            case np.ndarray():
                text = arrays[name]
            case tuple():
                text = "{" + ", ".join(_number(v) for v in value) + "}"
            case _:
                text = _number(value)
        lines.append(f"    .{name} = {text},\n")
    return "{\n" + "".join(lines) + "}"


def _number(value: int | float) -> str:
    return c_float(value) if isinstance(value, float) else c_int(value)
