"""Values of the fields of a kernel's parameter struct."""

from __future__ import annotations

from hilc.ir import Array

#: Value of a field of a parameter struct: a number, a constant array in flash, or a short array of
#: numbers inside the struct.
FieldValue = int | float | Array | tuple[int, ...] | tuple[float, ...]
