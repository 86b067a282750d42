"""Operators on integers that onnxruntime's quantizer writes, of the domain ``com.microsoft``.

Each is DequantizeLinear, an operator of ONNX, and QuantizeLinear; the passes make one operator on
integers of them where there is one. ONNX has no schemas of them.
"""

from __future__ import annotations

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.quantization import dequantize, quantize
from hilc.ir import Tensor

_DOMAIN = "com.microsoft"


def _real(n: Operation, first: int, **attributes: object) -> Tensor:
    """Return the floats of the integers ``first``, whose scale and zero point stand behind them."""
    operands = [n.optional(first + i) for i in range(3)]
    return n.single("DequantizeLinear", *operands, **attributes)


def _quantized(n: Operation, x: Tensor, scale: int) -> Tensor:
    """Return floats as integers by the scale at a place and the zero point behind it."""
    return n.single("QuantizeLinear", x, n.optional(scale), n.optional(scale + 1))


translates("QuantizeLinear", domain=_DOMAIN)(quantize)
translates("DequantizeLinear", domain=_DOMAIN)(dequantize)


@translates("QLinearAdd", "QLinearMul", domain=_DOMAIN)
def binary(n: Operation) -> Tensor:
    """Translate com.microsoft QLinearAdd and QLinearMul: dequantize, compute in float, quantize."""
    made = n.single(n.type.removeprefix("QLinear"), _real(n, 0), _real(n, 3))
    return _quantized(n, made, 6)


@translates("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain=_DOMAIN)
def unary(n: Operation) -> Tensor:
    """Translate com.microsoft QLinearSigmoid, QLinearLeakyRelu and QLinearSoftmax.

    The input is dequantized and the result quantized.
    """
    stated = n.stated("alpha", "axis")
    made = n.single(n.type.removeprefix("QLinear"), _real(n, 0), **stated)
    return _quantized(n, made, 3)


@translates("QLinearAveragePool", "QLinearGlobalAveragePool", domain=_DOMAIN)
def pool(n: Operation) -> Tensor:
    """Average an image, whose channels may be its last axis."""
    x, names = _real(n, 0), ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads")
    last = bool(n.integer("channels_last", 0))
    rank = len(x.shape)
    if last:
        x = n.transpose(x, (0, rank - 1, *range(1, rank - 1)))
    made = n.single(n.type.removeprefix("QLinear"), x, **n.stated(*names, "strides"))
    if last:
        made = n.transpose(made, (0, *range(2, rank), 1))
    return _quantized(n, made, 3)


@translates("QLinearConcat", domain=_DOMAIN)
def concat(n: Operation) -> Tensor:
    """Translate com.microsoft QLinearConcat: dequantize each part, concatenate, quantize."""
    parts = [_real(n, first) for first in range(2, n.count, 3)]
    return _quantized(n, n.single("Concat", *parts, axis=n.integer("axis")), 0)


@translates("QGemm", domain=_DOMAIN)
def gemm(n: Operation) -> Tensor:
    """Multiply; the bias has the scale of the products, and the result is floats without one."""
    transposed = n.integer("transB", 0)
    operands = [_real(n, 0), _real(n, 3, axis=0 if transposed else 1)]
    if n.has(6):
        scales = [n.known(i, "the scale").astype("float64").reshape(-1) for i in (1, 4)]
        factor = n.number("alpha", 1.0) * scales[0] * scales[1]
        operands.append(n.constant(n.known(6, "the bias") * factor, "float32"))
    made = n.single("Gemm", *operands, **n.stated("alpha", "transA", "transB"))
    return _quantized(n, made, 7) if n.has(7) else made
