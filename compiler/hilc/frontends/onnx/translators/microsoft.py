"""Operators of the domain ``com.microsoft``, which onnxruntime's quantizer and optimizer write.

Each is made of operators of ONNX. One on integers is DequantizeLinear, an operator, and
QuantizeLinear; the passes make one operator on integers of them where there is one. ONNX has no
schemas of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.frontends.onnx.operation import MICROSOFT, Operation, translates
from hilc.frontends.onnx.translators.matmul import product
from hilc.frontends.onnx.translators.quantization import dequantize, quantize
from hilc.ir import Array, Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.fully_connected import FullyConnectedAttributes


def _real(n: Operation, first: int, **attributes: object) -> Tensor:
    """Return the floats of the integers ``first``, whose scale and zero point stand behind them."""
    operands = [n.optional(first + i) for i in range(3)]
    return n.single("DequantizeLinear", *operands, **attributes)


def _quantized(n: Operation, x: Tensor, scale: int) -> Tensor:
    """Return floats as integers by the scale at a place and the zero point behind it."""
    return n.single("QuantizeLinear", x, n.optional(scale), n.optional(scale + 1))


translates("QuantizeLinear", domain=MICROSOFT)(quantize)
translates("DequantizeLinear", domain=MICROSOFT)(dequantize)


@translates("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def binary(n: Operation) -> Tensor:
    """Translate com.microsoft QLinearAdd and QLinearMul: dequantize, compute in float, quantize."""
    made = n.single(n.type.removeprefix("QLinear"), _real(n, 0), _real(n, 3))
    return _quantized(n, made, 6)


@translates("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain=MICROSOFT)
def unary(n: Operation) -> Tensor:
    """Translate com.microsoft QLinearSigmoid, QLinearLeakyRelu and QLinearSoftmax.

    The input is dequantized and the result quantized.
    """
    stated = n.stated("alpha", "axis")
    made = n.single(n.type.removeprefix("QLinear"), _real(n, 0), **stated)
    return _quantized(n, made, 3)


@translates("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT)
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


@translates("QLinearConcat", domain=MICROSOFT)
def concat(n: Operation) -> Tensor:
    """Translate com.microsoft QLinearConcat: dequantize each part, concatenate, quantize."""
    parts = [_real(n, first) for first in range(2, n.count, 3)]
    return _quantized(n, n.single("Concat", *parts, axis=n.integer("axis")), 0)


@translates("QLinearWhere", domain=MICROSOFT)
def where(n: Operation) -> Tensor:
    """Translate com.microsoft QLinearWhere: dequantize both operands, choose, quantize."""
    return _quantized(n, n.single("Where", n.input(0), _real(n, 1), _real(n, 4)), 7)


@translates("QGemm", domain=MICROSOFT)
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


# Operators on floats, fused --------------------------------------------------------------------


def _plus(n: Operation, x: Tensor, index: int) -> Tensor:
    """Return a tensor plus an operand, if the node has that."""
    other = n.optional(index)
    return x if other is None else n.single("Add", x, other)


@translates("Gelu", "BiasGelu", domain=MICROSOFT)
def gelu(n: Operation) -> Tensor:
    """Translate com.microsoft Gelu and BiasGelu to Gelu, computed by erf."""
    return n.single("Gelu", _plus(n, n.input(0), 1))


@translates("FastGelu", domain=MICROSOFT)
def fast_gelu(n: Operation) -> Tensor:
    """Translate com.microsoft FastGelu to Gelu, approximated by tanh."""
    return n.single("Gelu", _plus(n, n.input(0), 1), approximate="tanh")


@translates("QuickGelu", domain=MICROSOFT)
def quick_gelu(n: Operation) -> Tensor:
    """Return ``x * sigmoid(alpha * x)``."""
    x = n.input(0)
    factor = n.constant(n.number("alpha", 1.702), x.dtype)
    return n.single("Mul", x, n.single("Sigmoid", n.single("Mul", x, factor)))


#: The parameters of activations by their names, in the order of ``activation_params``.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "": (),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}


def _activated(n: Operation, x: Tensor, values: Sequence[float]) -> Tensor:
    """Return the result of the activation that a node names, with the values of its parameters."""
    name = n.text("activation", "")
    if name not in _ACTIVATIONS:
        n.refuse(
            f"has the activation {name!r}", f"supported: {', '.join(filter(None, _ACTIVATIONS))}"
        )
    names = _ACTIVATIONS[name]
    if len(values) != len(names):
        n.invalid(f"has {len(values)} parameters of {name}", f"it takes {len(names)}")
    if name == "Clip":
        return n.single("Clip", x, *(n.constant(value, x.dtype) for value in values))
    return n.single(name, x, **dict(zip(names, values, strict=True))) if name else x


@translates("FusedConv", domain=MICROSOFT)
def fused_conv(n: Operation) -> Tensor:
    """Translate com.microsoft FusedConv: Conv, the sum with a fourth operand, the activation."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    made = n.single("Conv", n.input(0), n.input(1), n.optional(2), **n.stated(*names))
    return _activated(n, _plus(n, made, 3), n.numbers("activation_params", ()))


@translates("FusedGemm", domain=MICROSOFT)
def fused_gemm(n: Operation) -> Tensor:
    """Translate com.microsoft FusedGemm: Gemm, then the activation."""
    stated = n.stated("alpha", "beta", "transA", "transB")
    made = n.single("Gemm", n.input(0), n.input(1), n.optional(2), **stated)
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return _activated(n, made, [n.number(name) for name in names if n.has_attribute(name)])


@translates("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(n: Operation) -> Tensor:
    """Return the product of two operands, each of which may be transposed before, times alpha."""
    made = product(n, _turned(n, 0, "A"), _turned(n, 1, "B"))
    alpha = n.number("alpha", 1.0)
    return made if alpha == 1 else n.single("Mul", made, n.constant(alpha, made.dtype))


def _turned(n: Operation, index: int, side: str) -> Tensor:
    """Return an operand as a stack of matrices: the first axis may be one of theirs, and the
    matrices may be transposed.
    """
    x = n.input(index)
    order = [*range(len(x.shape))]
    if n.integer(f"transBatch{side}", 0) and len(order) > 2:
        order = [*order[1:-1], order[0], order[-1]]
    if n.integer(f"trans{side}", 0) and len(order) > 1:
        order[-2:] = order[:-3:-1]
    return n.transpose(x, order)


# Normalization and attention ---------------------------------------------------------------------


@translates("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(n: Operation) -> list[Tensor | None]:
    """Normalize the sum of two tensors and a bias; return that sum too."""
    total = _plus(n, n.single("Add", n.input(0), n.input(1)), 4)
    made = _normalized(n, "LayerNormalization", total, 2, 3)
    return _with_sum(n, made, total)


@translates("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(n: Operation) -> list[Tensor | None]:
    """Divide the sum of two tensors and a bias by its root mean square; return that sum too."""
    total = _plus(n, n.single("Add", n.input(0), n.input(1)), 3)
    return _with_sum(n, _normalized(n, "RMSNormalization", total, 2), total)


def _normalized(n: Operation, kind: str, x: Tensor, *factors: int) -> Tensor:
    epsilon = n.number("epsilon", 1e-12)
    return n.single(kind, x, *(n.optional(i) for i in factors), axis=-1, epsilon=epsilon)


def _with_sum(n: Operation, made: Tensor, total: Tensor) -> list[Tensor | None]:
    """Return the outputs of a normalization: the second and third are of training alone."""
    if any(n.output_names[1:3]):
        n.refuse("returns the mean or the deviation", "export the model for inference")
    return [made, None, None, total]


@translates("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(n: Operation) -> list[Tensor | None]:
    """Return the normalized sum of the embeddings of words, positions and segments."""
    ids = n.input(0)
    total = n.single("Gather", n.input(2), ids)
    places = n.optional(8)
    if places is None:
        places = n.constant(np.arange(ids.shape[1]).reshape(1, -1), "int64")
    total = n.single("Add", total, n.single("Gather", n.input(3), places))
    segments, table = n.optional(1), n.optional(4)
    if segments is not None and table is not None:
        total = n.single("Add", total, n.single("Gather", table, segments))
    if n.has(7):
        n.refuse("counts a mask", "export the model for sequences of one length, without a mask")
    counts = n.constant(np.zeros(ids.shape[0]), "int32")  # onnxruntime's, where there is no mask
    return [_normalized(n, "LayerNormalization", total, 5, 6), counts, total]


@translates("Attention", domain=MICROSOFT)
def attention(n: Operation) -> Tensor:
    """Project to queries, keys and values by one matrix, then attend."""
    _refuse_operands(n, 3)
    projected = n.single("MatMul", n.input(0), n.input(1))
    projected = _plus(n, projected, 2)
    width = projected.shape[-1]
    sizes = n.integers("qkv_hidden_sizes", (width // 3,) * 3)
    ends = n.constant(np.array(sizes), "int64")
    return _attended(n, n.run("Split", [projected, ends], axis=-1))


@translates("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(n: Operation) -> Tensor:
    """Attend, after a bias for queries, keys and values."""
    _refuse_operands(n, 4)
    parts = [n.input(0), n.optional(1), n.optional(2)]
    if any(part is None or len(part.shape) != 3 for part in parts):
        n.refuse("packs keys and values in one operand", "export the model without packed operands")
    bias = n.optional(3)
    if bias is not None:
        width = n.input(0).shape[-1]
        sizes = n.constant(np.array([width, width, bias.size - 2 * width]), "int64")
        biases = n.run("Split", [bias, sizes], axis=0)
        parts = [n.single("Add", part, each) for part, each in zip(parts, biases, strict=True)]
    return _attended(n, parts)


def _refuse_operands(n: Operation, first: int) -> None:
    """Refuse masks, biases of positions and cached keys, the operands from ``first`` on."""
    if any(n.has(index) for index in range(first, n.count)):
        n.refuse("takes a mask, a bias or cached keys", "export the model without them")


def _attended(n: Operation, parts: Sequence[Tensor | None]) -> Tensor:
    heads = n.integer("num_heads")
    return n.single(
        "Attention",
        *parts,
        q_num_heads=heads,
        kv_num_heads=heads,
        is_causal=n.integer("unidirectional", 0),
        **n.stated("scale"),
    )


# Weights of a few bits ---------------------------------------------------------------------------


@translates("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(n: Operation) -> Tensor:
    """Multiply with weights of 2, 4 or 8 bits, which have a scale for each block of a row; they
    become floats here.
    """
    bits, block = n.integer("bits", 4), n.integer("block_size")
    columns, inner = n.integer("N"), n.integer("K")
    if bits not in (2, 4, 8):
        n.refuse(f"has weights of {bits} bits", "2, 4 and 8 are supported")
    if n.has(4):
        n.refuse("orders blocks by g_idx", "quantize the model without g_idx")
    blocks = -(-inner // block)
    packed = n.known(1, "the weights")
    if packed.size * 8 != columns * blocks * block * bits:
        n.invalid(f"has weights of shape {list(packed.shape)} for {columns} rows of {inner}")
    values = _unpacked(packed.reshape(columns, -1), bits).reshape(columns, blocks, block)
    offsets: Array = np.full((columns, blocks), 1 << (bits - 1))
    if n.has(3):
        offsets = n.known(3, "the zero points").reshape(columns, -1)
        if offsets.dtype == np.uint8:
            offsets = _unpacked(offsets, bits)[:, :blocks]
    scales = n.known(2, "the scales").reshape(columns, blocks, 1).astype(np.float32)
    steps = values.astype(np.float32) - offsets[..., np.newaxis].astype(np.float32)
    weights = n.constant((steps * scales).reshape(columns, -1)[:, :inner], "float32")
    attrs = FullyConnectedAttributes(keep_num_dims=True)
    made = n.emit("FULLY_CONNECTED", n.input(0), weights, None, attrs=attrs)
    bias = n.optional(5)
    return made if bias is None else n.emit("ADD", made, bias, attrs=ActivationAttributes())


def _unpacked(rows: Array, bits: int) -> Array:
    """Return the integers of rows of bytes, those of the lowest bits first."""
    shifts = np.arange(0, 8, bits)
    found: Array = (rows[..., np.newaxis] >> shifts & ((1 << bits) - 1)).reshape(rows.shape[0], -1)
    return found
