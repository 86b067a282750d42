"""Functions of single floats that ONNX has and TFLite does not: TAN, ASIN, SINH, ERF and so on, and
which numbers are infinite or none.

They are computed in double precision and rounded once, which is within two last bits of any C
library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.ops import permuting
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import operand, require_counts, require_dtype
from hilc.ops.traits import SameRows, channelwise


def _erf(x: Array) -> Array:
    values = [erf(value) for value in x.ravel().tolist()]
    return np.array(values, np.float64).reshape(x.shape)


_FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "TAN": np.tan,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "ASINH": np.arcsinh,
    "ACOSH": np.arccosh,
    "ATANH": np.arctanh,
    "ERF": _erf,
}
_CLASSES: Mapping[str, Callable[[Array], Array]] = {
    "IS_NAN": np.isnan,
    "IS_INFINITE": np.isinf,
    "IS_POSITIVE_INFINITE": np.isposinf,
    "IS_NEGATIVE_INFINITE": np.isneginf,
}
#: The functions, in the order of ``enum hil_real_functions``, and the classes, in that of
#: ``enum hil_real_classes``.
FUNCTIONS, CLASSES = tuple(_FUNCTIONS), tuple(_CLASSES)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, ("float32",))
    return [(x.shape, "bool" if node.op in _CLASSES else x.dtype)]


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    if node.op in _CLASSES:
        return [_CLASSES[node.op](x)]
    with np.errstate(all="ignore"):
        return [_FUNCTIONS[node.op](x.astype(np.float64)).astype(np.float32)]


REAL_FUNCTION = OpDef(
    _infer, _reference, rows=SameRows(), permuted=permuting.elements, channel_groups=channelwise
)

OPERATORS: Mapping[str, OpDef] = dict.fromkeys((*FUNCTIONS, *CLASSES), REAL_FUNCTION)
