"""RFFT2D, and REAL, IMAG and COMPLEX_ABS of what it gives.

Complex numbers are pairs of float32, real and imaginary part, along a last axis of their own: no
operator but these and RESHAPE takes them, and no input or output of a model.

RFFT2D transforms the last two axes, of which it takes as many numbers as its second input says,
both powers of two; what lacks is zero. It computes in double precision, as the reference does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.ops.index_maps import Axis, IndexMap, moving, strides
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import constant_ints, invalid, operand, require_counts, require_dtype

#: Numbers of a complex one.
PARTS = 2
_LONGEST = 1 << 15


def transformed(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, int]:
    """Return height and width of an RFFT2D's input, checked."""
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    require_dtype(node, x, ("float32",))
    lengths = constant_ints(node, operand(node, ins, 1))
    if len(lengths) != 2 or any(n < 1 or n & (n - 1) or n > _LONGEST for n in lengths):
        invalid(
            node,
            f"transforms {list(lengths)} numbers (accepted: two powers of two up to {_LONGEST})",
        )
    if lengths[1] < 2:
        invalid(node, f"transforms rows of {lengths[1]} (accepted: 2 or more)")
    if len(x.shape) < 2:
        invalid(node, f"takes {x.name!r} of shape {list(x.shape)}, of less than 2 dimensions")
    return lengths[0], lengths[1]


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    height, width = transformed(node, ins)
    outer = operand(node, ins, 0).shape[:-2]
    return [((*outer, height, width // 2 + 1, PARTS), "float32")]


def _rfft2d(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x = values[0]
    assert x is not None
    with np.errstate(all="ignore"):
        spectrum = np.fft.rfft2(x.astype(np.float64), transformed(node, ins))
        return [np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)]


def _pairs(node: Node, ins: Sequence[Tensor | None]) -> Tensor:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, ("float32",))
    if x.shape[-1:] != (PARTS,):
        invalid(node, f"takes {x.name!r} of shape {list(x.shape)}, which is not complex")
    return x


def part(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    """Return the positions of the real or imaginary parts."""
    shape = _pairs(node, ins).shape
    axes = [Axis(n, step) for n, step in zip(shape[:-1], strides(shape)[:-1], strict=True)]
    return IndexMap(shape[:-1], tuple(axes), int(node.op == "IMAG"))


def _infer_abs(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    return [(_pairs(node, ins).shape[:-1], "float32")]


def _abs(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x = values[0]
    assert x is not None
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        return [np.hypot(wide[..., 0], wide[..., 1]).astype(np.float32)]


RFFT2D = OpDef(_infer, _rfft2d)
COMPLEX_PART = moving(part)
COMPLEX_ABS = OpDef(_infer_abs, _abs)

OPERATORS: Mapping[str, OpDef] = {
    "RFFT2D": RFFT2D,
    "REAL": COMPLEX_PART,
    "IMAG": COMPLEX_PART,
    "COMPLEX_ABS": COMPLEX_ABS,
}
