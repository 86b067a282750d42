"""Products of matrices, convolutions, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hilc.frontends.pt2.model import Operation, translates


@translates("aten.linear")
def linear(c: Operation) -> str:
    """Compute ``x @ weight.T + bias`` over the last axis."""
    x, weight, bias = c.tensor("input"), c.tensor("weight"), c.optional("bias")
    if c.rank("weight") != 2:
        product = c.emit("MatMul", x, weight)
        return c.emit("Add", product, bias) if bias else product
    if c.rank("input") == 2:
        return c.emit("Gemm", x, weight, bias, transB=1)
    # One layer with its bias, which Gemm has of matrices only.
    rows = c.reshape(x, (-1, c.shape("input")[-1]))
    return c.reshape(c.emit("Gemm", rows, weight, bias, transB=1), c.result_shape)


@translates("aten.mm", "aten.bmm", "aten.matmul")
def matmul(c: Operation) -> str:
    """Translate aten.mm, bmm and matmul to MatMul."""
    other = "mat2" if c.has("mat2") else "other"
    return c.emit("MatMul", c.tensor("self"), c.tensor(other))


@translates("aten.addmm")
def addmm(c: Operation) -> str:
    """Translate aten.addmm to Gemm: beta * x + alpha * mat1 @ mat2.

    With a ``beta`` of 0 PyTorch does not read ``x``: its NaN and infinities do not count.
    """
    beta = float(c.get("beta", 1))
    return c.emit(
        "Gemm", c.tensor("mat1"), c.tensor("mat2"), c.tensor("self") if beta else "",
        alpha=float(c.get("alpha", 1)), beta=beta,
    )  # fmt: skip


@translates("aten.addmv", "aten.addbmm", "aten.baddbmm")
def added_product(c: Operation) -> str:
    """Translate aten.addmv, addbmm and baddbmm: beta * x + alpha * the product.

    ``addbmm`` sums the products of all pairs of matrices. With a ``beta`` of 0 ``x`` is not read.
    """
    names = ("batch1", "batch2") if c.has("batch1") else ("mat", "vec")
    product = c.emit("MatMul", *map(c.tensor, names))
    if ".addbmm" in c.call.target:
        product = c.emit("ReduceSum", product, c.integers([0]), keepdims=0)
    if c.get("alpha", 1) != 1:
        product = c.emit("Mul", product, c.scalar("alpha", c.result.dtype))
    if c.get("beta", 1) == 0:
        return product
    x = c.tensor("self")
    if c.get("beta", 1) != 1:
        x = c.emit("Mul", x, c.scalar("beta", c.result.dtype))
    return c.emit("Add", x, product)


@translates("aten.bilinear")
def bilinear(c: Operation) -> str:
    """Translate aten.bilinear to a product with the first input, then with the second."""
    y = c.emit("Einsum", c.tensor("input1"), c.tensor("weight"), c.tensor("input2"),
               equation="...i,oij,...j->...o")  # fmt: skip
    return c.emit("Add", y, c.tensor("bias")) if c.has("bias") else y


@translates("aten.mv", "aten.dot")
def mv(c: Operation) -> str:
    """Translate aten.mv and dot to MatMul."""
    return c.emit("MatMul", c.tensor("self"), c.tensor("vec" if c.has("vec") else "tensor"))


@translates("aten.einsum")
def einsum(c: Operation) -> str:
    """Translate aten.einsum to Einsum."""
    return c.emit("Einsum", *c.tensors("tensors"), equation=c.get("equation"))


# Convolutions -------------------------------------------------------------------------------------


def unbatched(c: Operation, name: str, spatial: int, compute: Any) -> str:
    """Compute on ``[N, C, spatial...]``, where PyTorch takes one without N too.

    ``compute`` makes a tensor from the name of one.
    """
    x = c.tensor(name)
    if c.rank(name) == spatial + 2:
        return str(compute(x))
    y = compute(c.reshape(x, (1, *c.shape(name))))
    return c.reshape(y, c.result_shape)


@translates("aten.conv1d", "aten.conv2d", "aten.conv3d")
def conv(c: Operation) -> str:
    """Translate aten.conv1d, conv2d and conv3d to Conv; padding is sizes, "same" or "valid"."""
    if isinstance(c.get("padding"), str):
        return _conv(c, _same(c))
    return _conv(c, c.spatial("padding", c.rank("weight") - 2, 0))


def _same(c: Operation) -> Sequence[int]:
    """Return the pads of ``"same"`` or ``"valid"``: before all axes, then behind them."""
    taps = c.shape("weight")[2:]
    if c.get("padding") == "valid":
        return (0,) * 2 * len(taps)
    dilations = c.spatial("dilation", len(taps), 1)
    total = [dilation * (tap - 1) for dilation, tap in zip(dilations, taps, strict=True)]
    return (*(pad // 2 for pad in total), *(pad - pad // 2 for pad in total))


def _taps(c: Operation, spatial: int) -> dict[str, Any]:
    """Return the attributes that place the taps of a convolution or transposed convolution."""
    return {
        "strides": c.spatial("stride", spatial, 1),
        "dilations": c.spatial("dilation", spatial, 1),
        "group": c.get("groups", 1),
    }


def _conv(c: Operation, pads: Sequence[int]) -> str:
    spatial = c.rank("weight") - 2

    def compute(x: str) -> str:
        return c.emit(
            "Conv", x, c.tensor("weight"), c.optional("bias"),
            pads=tuple(pads) * (2 if len(pads) == spatial else 1),
            **_taps(c, spatial),
        )  # fmt: skip

    return unbatched(c, "input", spatial, compute)


@translates("aten.convolution")
def convolution(c: Operation) -> str:
    """Translate aten.convolution to Conv, or to ConvTranspose if ``transposed``."""
    if c.get("transposed", False):
        return _conv_transpose(c)
    return _conv(c, c.spatial("padding", c.rank("weight") - 2, 0))


@translates("aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d")
def conv_transpose(c: Operation) -> str:
    """Translate aten.conv_transpose1d, 2d and 3d to ConvTranspose."""
    return _conv_transpose(c)


def _conv_transpose(c: Operation) -> str:
    spatial = c.rank("weight") - 2

    def compute(x: str) -> str:
        return c.emit(
            "ConvTranspose", x, c.tensor("weight"), c.optional("bias"),
            pads=c.spatial("padding", spatial, 0) * 2,
            output_padding=c.spatial("output_padding", spatial, 0),
            **_taps(c, spatial),
        )  # fmt: skip

    return unbatched(c, "input", spatial, compute)


# Attention ----------------------------------------------------------------------------------------


@translates("aten.scaled_dot_product_attention")
def attention(c: Operation) -> str:
    """ONNX takes ``[batch, heads, length, size]``; PyTorch any axes before the last two."""
    if c.get("dropout_p", 0):
        c.refuse("has dropout", "export the module in evaluation mode (module.eval())")
    operands = [_four_axes(c, name) for name in ("query", "key", "value")]
    mask = c.optional("attn_mask")
    if mask and c.rank("attn_mask") < 2:
        c.refuse("has a mask of fewer than 2 axes", "expand it to the lengths of query and key")
    if mask and c.rank("query") != 4 and c.rank("attn_mask") > 2:
        mask = _four_axes(c, "attn_mask")
    y = c.emit(
        "Attention", *operands, mask,
        is_causal=int(c.get("is_causal", False)), scale=c.get("scale"),
    )  # fmt: skip
    return y if c.rank("query") == 4 else c.reshape(y, c.result_shape)


def _four_axes(c: Operation, name: str) -> str:
    """Return a tensor with one batch axis and one of heads before its last two."""
    x, shape = c.tensor(name), c.shape(name)
    if len(shape) == 4:
        return x
    if len(shape) > 4:
        return c.reshape(x, (-1, *shape[-3:]))
    return c.reshape(x, ((1,) * (4 - len(shape)) + shape))


@translates("aten.embedding")
def embedding(c: Operation) -> str:
    """Translate aten.embedding to Gather of rows of ``weight``."""
    return c.emit("Gather", c.tensor("weight"), c.tensor("indices"), axis=0)
