"""Element types of tensors: one table with all facts about a type.

A type is a row of :data:`ELEMENT_TYPES`; the intermediate representation, the operators, the C
writer, firmware and the interfaces of TVM read the row and never compare the type's name. Only
kernels are written for certain types by name: they are the arithmetic itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import float_info
from types import MappingProxyType

#: DLPack's codes of kinds of types, by their names in C.
DL_CODES: Mapping[str, int] = MappingProxyType({"kDLInt": 0, "kDLUInt": 1, "kDLFloat": 2})


@dataclass(frozen=True)
class ElementType:
    """An element type."""

    #: numpy's name, which the JSON output and the metadata use too.
    name: str
    #: C type of an element. A bool takes a byte with the value 0 or 1.
    c_type: str
    #: Suffix of the names of its kernels.
    suffix: str
    itemsize: int
    #: Minimum and maximum.
    low: float
    high: float
    #: Name of DLPack's kind, and the bits of an element. DLPack calls a bool a one-bit number.
    dl_kind: str
    dl_bits: int
    #: Whether an integer q represents ``scale * (q - zero_point)`` in operators.
    quantized: bool = False
    #: Whether every tensor of this type in a TFLite file has a scale.
    needs_scale: bool = False
    #: Whether a tensor of this type may have a scale.
    may_have_scale: bool = True
    #: Whether the zero point is 0 but where results are rounded once, ties to even.
    symmetric: bool = False
    #: Whether TensorFlow Lite Micro clears and pads memory of this type with the zero point, not
    #: with the number 0.
    clears_to_zero_point: bool = False
    #: Type of the weights that layers multiply it with; empty for none.
    weights: str = ""
    #: Types of weights that are wider, for sums that are rounded once, ties to even.
    wider_weights: tuple[str, ...] = ()
    #: Types of a bias, which are those of sums of products; the first is the default.
    biases: tuple[str, ...] = ()
    #: Whether a table with an entry for every value is reasonable.
    tabled: bool = False
    #: Bits by which ADD and SUB raise their operands before they bring them to one scale.
    headroom: int = 0
    #: Type with the same count of values that computes in its place where it has no operators: each
    #: value less the difference of their minimums. Empty for none.
    computed_as: str = ""

    @property
    def is_real(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return self.dl_kind == "kDLFloat"

    @property
    def is_computed_real(self) -> bool:
        """Whether operators multiply and add its floating-point numbers."""
        return self.is_real and bool(self.weights)

    @property
    def computed(self) -> ElementType:
        """The type that computes in its place; itself for most."""
        return ELEMENT_TYPES[self.computed_as or self.name]

    @property
    def bounds(self) -> tuple[int, int]:
        """Minimum and maximum of an integer type."""
        return int(self.low), int(self.high)

    @property
    def values(self) -> range:
        """All values of an integer type."""
        return range(int(self.low), int(self.high) + 1)

    @property
    def distance_bits(self) -> int:
        """The bits of the largest distance of a number from a zero point."""
        return self.dl_bits - 1 if self.symmetric else self.dl_bits

    @property
    def dl_code(self) -> int:
        """DLPack's code of the kind of number."""
        return DL_CODES[self.dl_kind]

    def sums(self, bias: str | None) -> str:
        """Return the type of sums of products with this type: that of the bias."""
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
        8, quantized=True, needs_scale=True, clears_to_zero_point=True, weights="int8",
        biases=("int32",), tabled=True, headroom=20,
    ),
    ElementType(
        "uint8", "uint8_t", "u8", 1, 0, 255, "kDLUInt", 8, quantized=True, tabled=True,
        computed_as="int8",
    ),
    _integer(
        16, quantized=True, symmetric=True, weights="int8", wider_weights=("int16",),
        biases=("int64", "int32"), headroom=15,
    ),
    _integer(32),
    _integer(64),
    ElementType(
        "float32", "float", "f32", 4, -_FLOAT32_MAX, _FLOAT32_MAX, "kDLFloat", 32,
        may_have_scale=False, weights="float32", biases=("float32",),
    ),
    ElementType("bool", "uint8_t", "bool", 1, 0, 1, "kDLUInt", 1, may_have_scale=False),
    ElementType(
        "uint32", "uint32_t", "u32", 4, 0, (1 << 32) - 1, "kDLUInt", 32, may_have_scale=False
    ),
    ElementType(
        "uint64", "uint64_t", "u64", 8, 0, (1 << 64) - 1, "kDLUInt", 64, may_have_scale=False
    ),
    ElementType(
        "uint16", "uint16_t", "u16", 2, 0, 65535, "kDLUInt", 16, quantized=True,
        computed_as="int16",
    ),
    # Stored only: no core computes on it, so it is widened before arithmetic.
    ElementType(
        "float16", "uint16_t", "f16", 2, -65504, 65504, "kDLFloat", 16, may_have_scale=False
    ),
    # No core here computes it, so operators on it stand by themselves (hilc.ops.doubles).
    ElementType(
        "float64", "double", "f64", 8, -float_info.max, float_info.max, "kDLFloat", 64,
        may_have_scale=False,
    ),
)  # fmt: skip

ELEMENT_TYPES: Mapping[str, ElementType] = MappingProxyType({row.name: row for row in _ROWS})

#: Names of the element types.
DTYPES = tuple(ELEMENT_TYPES)

#: Types of tensors that list axes, sizes and other integers for an operator.
INDEX_TYPES = ("int32", "int64")

#: How layers compute whose activations the model's own run time quantizes at run time.
DYNAMIC = INTEGER, FLOAT = "integer", "float"
#: For inputs and outputs: as the model's file says.
KEEP = "keep"
#: Accepted values of the option `io`, with the type of the tensors.
IO_TYPES: Mapping[str, str] = MappingProxyType(
    {KEEP: "", "float": "float32", "int8": "int8", "uint8": "uint8", "int16": "int16"}
)
#: Those of them that are signed integers.
SIGNED_IO = ("int8", "int16")
