"""The element types of tensors: one table that everything about a type is read from.

A type is a row of :data:`ELEMENT_TYPES`; the intermediate representation, the operators, the C
writer, firmware and the interfaces of TVM ask the row and never the type's name. Kernels for a
certain type may be written for it by name: they are the arithmetic itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: DLPack's codes of kinds of types, by their names in C.
DL_CODES: Mapping[str, int] = MappingProxyType({"kDLInt": 0, "kDLUInt": 1, "kDLFloat": 2})


@dataclass(frozen=True)
class ElementType:
    """An element type."""

    #: numpy's name, which the JSON output and the metadata use too.
    name: str
    #: The C type of an element. A bool takes a byte and holds 0 or 1.
    c_type: str
    #: How the names of kernels for it end.
    suffix: str
    itemsize: int
    #: The least and the largest number.
    low: float
    high: float
    #: The name of DLPack's kind, and the bits of an element. DLPack calls a bool a one-bit number.
    dl_kind: str
    dl_bits: int
    #: Whether a number stands for ``scale * (number - zero_point)`` where operators compute on it.
    quantized: bool = False
    #: Whether no tensor of this type is without a scale.
    needs_scale: bool = False
    #: Whether a tensor of this type may have a scale.
    may_have_scale: bool = True
    #: Whether the only zero point that operators compute on is 0.
    symmetric: bool = False
    #: The type of the weights that layers multiply it with; empty where none do.
    weights: str = ""
    #: The types of a bias, which sums of products are added up in; the first where there is none.
    biases: tuple[str, ...] = ()
    #: Whether a table with an entry for every number is reasonable.
    tabled: bool = False

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest number of a type of integers."""
        return int(self.low), int(self.high)

    @property
    def values(self) -> range:
        """Every number of a type of integers."""
        return range(int(self.low), int(self.high) + 1)

    @property
    def dl_code(self) -> int:
        return DL_CODES[self.dl_kind]

    def sums(self, bias: str | None) -> str:
        """The type in which products with this type are added up: that of the bias."""
        return self.biases[0] if bias is None else bias


_FLOAT32_MAX = (2 - 2.0**-23) * 2.0**127


def _integer(bits: int, **traits: object) -> ElementType:
    half = 1 << (bits - 1)
    return ElementType(
        f"int{bits}", f"int{bits}_t", f"s{bits}", bits // 8, -half, half - 1, "kDLInt", bits,
        **traits,  # type: ignore[arg-type]
    )  # fmt: skip


_ROWS = (
    _integer(
        8, quantized=True, needs_scale=True, weights="int8", biases=("int32",), tabled=True
    ),
    ElementType("uint8", "uint8_t", "u8", 1, 0, 255, "kDLUInt", 8, quantized=True, tabled=True),
    _integer(16, quantized=True, symmetric=True, weights="int8", biases=("int64", "int32")),
    _integer(32),
    _integer(64),
    ElementType(
        "float32", "float", "f32", 4, -_FLOAT32_MAX, _FLOAT32_MAX, "kDLFloat", 32,
        may_have_scale=False, weights="float32", biases=("float32",),
    ),
    ElementType("bool", "uint8_t", "bool", 1, 0, 1, "kDLUInt", 1, may_have_scale=False),
)  # fmt: skip

ELEMENT_TYPES: Mapping[str, ElementType] = MappingProxyType({row.name: row for row in _ROWS})

#: Their names.
DTYPES = tuple(ELEMENT_TYPES)

#: The types of tensors that list axes, sizes and other whole numbers for an operator.
INDEX_TYPES = ("int32", "int64")
