"""Complex numbers: a tensor of them is two tensors of floats, real and imaginary parts.

ONNX has no complex numbers. Operators that move elements, or are linear in them, are applied to the
two parts; others are translated here. Inputs and outputs of a program have no complex form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hilc.frontends.pt2.model import (
    REAL_PARTS,
    Operation,
    Outputs,
    translates_complex,
    translator_of,
)
from hilc.frontends.pt2.program import Ref
from hilc.frontends.pt2.translators.elementwise import arc_tangent

#: Operators that are applied to both parts: they move elements, or add them up.
_BY_PARTS = (
    "_unsafe_view", "alias", "as_strided", "broadcast_to", "cat", "chunk", "clone", "concat",
    "concatenate", "constant_pad_nd", "contiguous", "copy", "cumsum", "detach", "diagonal",
    "diagonal_copy", "dropout", "expand", "expand_as", "fft_fftshift", "fft_ifftshift",
    "flatten", "flip", "gather", "index", "index_select", "lift_fresh", "lift_fresh_copy", "mT",
    "mean", "moveaxis", "movedim", "narrow", "neg", "new_zeros", "pad", "permute", "ravel",
    "repeat", "repeat_interleave", "reshape", "reshape_as", "resolve_conj", "resolve_neg",
    "roll", "select", "select_scatter", "slice", "slice_scatter", "split", "split_with_sizes",
    "squeeze", "stack", "sum", "swapaxes", "swapdims", "t", "tensor_split", "tile", "transpose",
    "tril", "triu", "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as", "where",
    "zeros", "zeros_like",
)  # fmt: skip


class Parts(NamedTuple):
    """The names of real and imaginary parts; that of imaginary parts is empty for real numbers."""

    real: str
    imaginary: str


def _by_parts(c: Operation) -> Outputs:
    """Apply an operator to the real and to the imaginary parts."""
    translator = translator_of(c.call.target)
    assert translator is not None
    made = [translator(part) for part in c.parts()]
    if isinstance(made[0], str):
        assert isinstance(made[1], str)
        return c.pair(made[0], made[1])
    return [c.pair(real, imaginary) for real, imaginary in zip(*made, strict=True)]


for _name in _BY_PARTS:
    translates_complex(f"aten.{_name}")(_by_parts)


def _operand(c: Operation, name: str) -> Parts:
    """Return the parts of an operand: complex or real tensor, or number."""
    value, dtype = c.get(name), _part_type(c)
    if isinstance(value, Ref):
        if c.signature_of(value).dtype in REAL_PARTS:
            return Parts(*c.pair_of(c.named(value)))
        return Parts(c.cast(c.named(value), c.signature_of(value).dtype, dtype), "")
    if isinstance(value, complex):
        return Parts(c.constant(value.real, dtype), c.constant(value.imag, dtype))
    return Parts(c.constant(value, dtype), "")


def _part_type(c: Operation) -> str:
    """Return the type of the parts: that of a complex operand or result."""
    named = [c.signature_of(ref).dtype for ref in (*c.argument_refs, *c.output_refs)]
    return next(REAL_PARTS[dtype] for dtype in named if dtype in REAL_PARTS)


def _zeros(c: Operation) -> str:
    return c.constant(np.zeros(c.result_shape), _part_type(c))


# Parts --------------------------------------------------------------------------------------------


@translates_complex("aten.complex")
def complex_(c: Operation) -> str:
    """Translate aten.complex to its operands, broadcast to one shape."""
    shape = c.integers(c.result_shape)
    operands = [
        c.tensor(name)
        if c.shape(name) == c.result_shape
        else c.emit("Expand", c.tensor(name), shape)
        for name in ("real", "imag")
    ]
    return c.pair(operands[0], operands[1])


@translates_complex("aten.view_as_complex")
def view_as_complex(c: Operation) -> str:
    """Translate aten.view_as_complex to Split of the last axis."""
    rank = c.rank("self")
    halves = c.emit_many("Split", [c.tensor("self"), c.integers((1, 1))], 2, axis=rank - 1)
    real, imaginary = (c.reshape(half, c.result_shape) for half in halves)
    return c.pair(real, imaginary)


@translates_complex("aten.view_as_real")
def view_as_real(c: Operation) -> str:
    """Translate aten.view_as_real to Concat along a new last axis."""
    shape = c.result_shape
    parts = (c.reshape(part, (*shape[:-1], 1)) for part in c.pair_of(c.tensor("self")))
    return c.emit("Concat", *parts, axis=len(shape) - 1)


@translates_complex("aten.real", "aten.imag")
def part(c: Operation) -> str:
    """Translate aten.real and imag to the part."""
    return c.pair_of(c.tensor("self"))["imag" in c.call.target]


@translates_complex("aten.to", "aten._to_copy")
def to(c: Operation) -> str:
    """Translate a conversion to complex numbers; that to real ones drops the imaginary parts."""
    given, made = c.signature("self").dtype, c.result.dtype
    real = c.tensor("self")
    if given not in REAL_PARTS:
        return c.pair(c.cast(real, given, REAL_PARTS[made]), _zeros(c))
    real, imaginary = (c.cast(x, REAL_PARTS[given], REAL_PARTS.get(made, made))
                       for x in c.pair_of(real))  # fmt: skip
    return c.pair(real, imaginary) if made in REAL_PARTS else real


@translates_complex("aten.conj", "aten._conj", "aten.conj_physical", "aten._conj_physical")
def conjugate(c: Operation) -> str:
    """Translate a conjugate: the imaginary parts with the other sign."""
    real, imaginary = c.pair_of(c.tensor("self"))
    return c.pair(real, c.emit("Neg", imaginary))


@translates_complex("aten.abs")
def magnitude(c: Operation) -> str:
    """Translate aten.abs to the root of the sum of squares."""
    return c.emit("Sqrt", _squared_magnitude(c, *c.pair_of(c.tensor("self"))))


def _squared_magnitude(c: Operation, real: str, imaginary: str) -> str:
    squares = (c.emit("Mul", x, x) for x in (real, imaginary))
    return c.emit("Add", *squares)


@translates_complex("aten.angle")
def angle(c: Operation) -> str:
    """Translate aten.angle to the arc tangent of imaginary and real parts."""
    real, imaginary = c.pair_of(c.tensor("self"))
    return arc_tangent(c, imaginary, real, c.result.dtype)


@translates_complex("aten.polar")
def polar(c: Operation) -> str:
    """Translate aten.polar to products with cosine and sine of the angle."""
    length, turned = c.tensor("abs"), c.tensor("angle")
    real, imaginary = (c.emit("Mul", length, c.emit(op, turned)) for op in ("Cos", "Sin"))
    return c.pair(real, imaginary)


# Arithmetic ---------------------------------------------------------------------------------------


@translates_complex("aten.add", "aten.sub", "aten.rsub")
def add(c: Operation) -> str:
    """``self ± alpha * other``; ``rsub`` exchanges the operands."""
    x, y = _operand(c, "self"), _operand(c, "other")
    if c.get("alpha", 1) != 1:
        factor = _operand(c, "alpha")
        x, y = (
            (_product(c, x, factor), y) if "rsub" in c.call.target else (x, _product(c, y, factor))
        )
    if "rsub" in c.call.target:
        x, y = y, x
    op = "Add" if ".add" in c.call.target else "Sub"
    zeros = _zeros(c)
    real = c.emit(op, x.real, y.real)
    return c.pair(real, c.emit(op, x.imaginary or zeros, y.imaginary or zeros))


@translates_complex("aten.mul")
def mul(c: Operation) -> str:
    """Translate aten.mul to the products of the parts."""
    return _paired(c, _product(c, _operand(c, "self"), _operand(c, "other")))


def _paired(c: Operation, parts: Parts) -> str:
    return c.pair(parts.real, parts.imaginary or _zeros(c))


def _product(c: Operation, x: Parts, y: Parts, op: str = "Mul") -> Parts:
    """Return a product, of elements or of matrices."""
    if not x.imaginary or not y.imaginary:
        other = (c.emit(op, x.imaginary, y.real) if x.imaginary
                 else c.emit(op, x.real, y.imaginary) if y.imaginary else "")  # fmt: skip
        return Parts(c.emit(op, x.real, y.real), other)
    real = c.emit("Sub", c.emit(op, x.real, y.real), c.emit(op, x.imaginary, y.imaginary))
    imaginary = c.emit("Add", c.emit(op, x.real, y.imaginary), c.emit(op, x.imaginary, y.real))
    return Parts(real, imaginary)


@translates_complex("aten.mm", "aten.bmm", "aten.matmul")
def matmul(c: Operation) -> str:
    """Translate a product of matrices to those of the parts."""
    other = "mat2" if c.has("mat2") else "other"
    return _paired(c, _product(c, _operand(c, "self"), _operand(c, other), "MatMul"))


@translates_complex("aten.square")
def square(c: Operation) -> str:
    """Translate aten.square to the product with itself."""
    x = _operand(c, "self")
    return _paired(c, _product(c, x, x))


@translates_complex("aten.pow")
def pow_(c: Operation) -> str:
    """Translate aten.pow of the exponent 2.

    Raises :class:`~hilc.errors.UnsupportedError` for other exponents.
    """
    if c.get("exponent") not in (2, 2.0):
        c.refuse(f"has the exponent {c.get('exponent')!r:.60} of complex numbers",
                 "the exponent 2 is supported")  # fmt: skip
    x = _operand(c, "self")
    return _paired(c, _product(c, x, x))


@translates_complex("aten.div", "aten.true_divide", "aten.reciprocal")
def div(c: Operation) -> str:
    """Divide by a real number, or multiply by the conjugate and divide by the squared magnitude."""
    if "reciprocal" in c.call.target:
        x, y = Parts(c.constant(1, _part_type(c)), ""), _operand(c, "self")
    else:
        x, y = _operand(c, "self"), _operand(c, "other")
    divisor = y.real
    if y.imaginary:
        divisor = _squared_magnitude(c, *y)
        x = _product(c, x, Parts(y.real, c.emit("Neg", y.imaginary)))
    imaginary = c.emit("Div", x.imaginary, divisor) if x.imaginary else _zeros(c)
    return c.pair(c.emit("Div", x.real, divisor), imaginary)


@translates_complex("aten.exp")
def exp(c: Operation) -> str:
    """Translate aten.exp to Exp of the real parts, turned by the imaginary ones."""
    real, imaginary = c.pair_of(c.tensor("self"))
    length = c.emit("Exp", real)
    real, imaginary = (c.emit("Mul", length, c.emit(op, imaginary)) for op in ("Cos", "Sin"))
    return c.pair(real, imaginary)
