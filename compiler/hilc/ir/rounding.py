"""Rounding policy and choice of definition, which an operator's name leaves open."""

from __future__ import annotations

from enum import Enum


class Rounding(Enum):
    """Rounding policy of a node; :func:`hilc.numerics.requantize.requantize` computes each.

    Of floats ``DOUBLE`` is the arithmetic of IEEE; ``SINGLE`` is that of vectors, which rounds a
    product and its sum at once, and has 0 for subnormal numbers (:mod:`hilc.numerics.floats`).
    """

    #: gemmlowp: rounded to 32 bits, half up, and again by the right shift, half away from zero.
    DOUBLE = "double"
    #: Rounded once, half up.
    SINGLE = "single"
    #: Rounded once, ties to even.
    NEAREST_EVEN = "nearest even"


class Numerics(Enum):
    """Definition of an operator that a node computes, where definitions disagree.

    TensorFlow's own two do for a few operators on integers
    (:attr:`hilc.ops.opdef.OpDef.by_numerics`). The values are the names of the references that
    compute so.
    """

    #: TensorFlow Lite Micro.
    TFLM = "tflm"
    #: TensorFlow Lite's reference kernels.
    LITERT = "litert-ref"
    #: The ONNX standard: floats are those of IEEE 754, infinities included.
    ONNX = "onnx"
