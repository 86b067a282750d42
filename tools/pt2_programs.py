#!/usr/bin/env python3
"""Writes tests/pt2_programs.tar.xz: small programs of PyTorch with what PyTorch computes for them.

For each program NAME.pt2 and NAME.npz: the inputs x0, x1, ... and the outputs y0, y1, ... of eager
execution; of one with state, y0_1 is the first output of the second run, and x0_1 its input where
that is another. It needs the extra ``torch``; the tests need only the file.
"""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "transformers"))

import language  # noqa: E402

TARGET = ROOT / "tests" / "pt2_programs.tar.xz"
#: How often programs with state run.
RUNS = {"accumulator": 3, "decoder": 20}
#: Programs whose second axis is open.
OPEN = ("open_scale", "open_count", "open_branch")

X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
Y = torch.randn(3, 4, generator=torch.Generator().manual_seed(2)) + 0.1
IMAGE = torch.randn(2, 4, 9, 8, generator=torch.Generator().manual_seed(3))


class Function(nn.Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: torch.Tensor) -> Any:
        return self.function(*x)


class Accumulator(nn.Module):  # type: ignore[misc]
    """A layer that reads its own last output, kept in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.ones(1, 4))
        self.layer = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.layer(torch.cat([x, self.last], 1)))
        self.last.copy_(y)
        return y * 2


class Attention(nn.Module):  # type: ignore[misc]
    """Two heads over a sequence, causal."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).reshape(1, 6, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(2)


class Doubling(nn.Module):  # type: ignore[misc]
    """A loop that ends by a value, with a branch in each turn; it counts its turns."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        def turn(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = torch.cond(x.sum() > 0, lambda x: x - self.layer(x), lambda x: x * -2, (x,))
            return i + 1, x * 2

        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, x: (i < 9) & (x.abs().max() < 50), turn, (start, x))


def doubled(x: torch.Tensor) -> Any:
    """Return the number of turns, and the doubled numbers."""
    start = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, x: x.sum() < 50, lambda i, x: (i + 1, x * 2 + 1), (start, x))


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.relu_()
    y.add_(1)
    return y


def partly_in_place(x: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(3, 4)
    mask[1:, :2] = 1
    mask[0] = 5
    return x * mask


def put(x: torch.Tensor, where: Any, value: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[where] = value
    return y


def programs() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    found: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {}

    def add(name: str, what: Callable[..., Any], *x: torch.Tensor) -> None:
        assert name not in found, name
        module = what if isinstance(what, nn.Module) else Function(what)
        found[name] = (module.eval(), x)

    positive = torch.rand(2, 5, generator=torch.Generator().manual_seed(4)) * 0.8 + 0.1
    unary = (
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor isinf isnan log neg "
        "reciprocal relu sigmoid sign sin sinh sqrt tan tanh rsqrt expm1 log1p log2 square round "
        "log10 trunc erfc exp2"
    )
    for name in unary.split():
        add(name, getattr(torch, name), positive + 1 if name == "acosh" else positive * 1)
    activations = (
        "relu6 hardtanh hardswish hardsigmoid silu gelu leaky_relu elu selu celu softplus "
        "softsign mish glu"
    )
    for name in activations.split():
        add(name, getattr(F, name), X * 3)
    add("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), X)
    add("softplus_beta", lambda x: F.softplus(x, beta=2), X)
    add("softplus_threshold", lambda x: F.softplus(x, beta=3, threshold=1), X)
    add("threshold", lambda x: F.threshold(x, 0.1, 20.0), X)
    add("prelu", lambda x: F.prelu(x, torch.tensor([0.1, -0.2, 0.3])), X)
    add("clamp", lambda x: x.clamp(-1, 1), X)
    add("clamp_min", lambda x: x.clamp(min=0.5), X)
    add("clamp_tensor", lambda x, y: torch.clamp(x, max=y), X, Y)
    integers = torch.arange(-6, 6).reshape(3, 4) * 3
    divisors = torch.tensor([1, -2, 3, -4]).expand(3, 4).contiguous()
    for name, function in {
        "add": lambda x, y: x + y,
        "add_alpha": lambda x, y: torch.add(x, y, alpha=2),
        "sub_alpha": lambda x, y: torch.sub(x, y, alpha=2),
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
        "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
        "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "remainder": torch.remainder,
        "fmod": torch.fmod,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "greater": lambda x, y: x > y,
        "not_equal": lambda x, y: x != y,
        "where": lambda x, y: torch.where(x > y, x, y),
        "atan2": torch.atan2,
        "and": lambda x, y: (x > 0) & (y > 0),
        "logical_xor": lambda x, y: torch.logical_xor(x > 0, y > 0),
    }.items():
        add(f"{name}_float", function, X, Y)
        add(f"{name}_int", function, integers, divisors)
    for name, function in {
        "rsub": lambda x: 1 - x,
        "square_power": lambda x: x**2,
        "cube": lambda x: x**3,
        "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
        "bitwise_not": lambda x: ~(x > 0),
        "to_int": lambda x: x.to(torch.int32),
        "lerp": lambda x: torch.lerp(x, x * x, 0.3),
        "reshape": lambda x: x.reshape(6, 4),
        "permute": lambda x: x.permute(2, 0, 1),
        "transpose": lambda x: x.transpose(0, 2),
        "unsqueeze": lambda x: x[:, None],
        "expand": lambda x: x.expand(5, 2, 3, 4),
        "repeat": lambda x: x.repeat(2, 1, 1, 3),
        "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
        "cat": lambda x: torch.cat([x, x * 2], 1),
        "stack": lambda x: torch.stack([x, x * 2], -1),
        "split": lambda x: x.split([1, 3], -1),
        "chunk": lambda x: x.chunk(3, 1),
        "unbind": lambda x: x.unbind(1),
        "slice": lambda x: x[:, 1:, ::2],
        "select": lambda x: x[:, -1],
        "narrow": lambda x: x.narrow(2, 1, 2),
        "index_select": lambda x: x.index_select(1, torch.tensor([2, 0])),
        "index": lambda x: x[:, torch.tensor([2, 0])],
        "index_two": lambda x: x[torch.tensor([1, 0]), torch.tensor([2, 0])],
        "gather": lambda x: torch.gather(x, 2, torch.zeros(2, 3, 2, dtype=torch.long)),
        "index_copy": lambda x: x.index_copy(1, torch.tensor([2, 0]), x[:, :2] * 2),
        "index_add": lambda x: x.index_add(2, torch.tensor([3, 0, 3]), x[:, :, :3], alpha=2),
        "index_fill": lambda x: x.index_fill(1, torch.tensor([2, 0]), 7.0),
        "scatter_value": lambda x: x.scatter(2, torch.zeros(2, 3, 1, dtype=torch.long), 5.0),
        "put_by_mask": lambda x: x.index_put((x > 0,), torch.tensor(3.0)),
        "flip": lambda x: x.flip(1, 2),
        "roll": lambda x: x.roll((1, -1), (0, 2)),
        "roll_flat": lambda x: x.roll(3),
        "tril": lambda x: x.tril(),
        "pad": lambda x: F.pad(x, (1, 2), value=3.0),
        "pad_negative": lambda x: F.pad(x, (1, -2, 1, 0)),
        "pad_reflect": lambda x: F.pad(x, (1, 2), mode="reflect"),
        "pad_replicate": lambda x: F.pad(x, (1, 2), mode="replicate"),
        "pad_circular": lambda x: F.pad(x, (1, 2), mode="circular"),
        "movedim": lambda x: x.movedim(0, 2),
        "flatten": lambda x: x.flatten(),
        "unfold": lambda x: x.unfold(2, 3, 1),
        "diagonal": lambda x: x.diagonal(-1, 1, 2),
        "as_strided": lambda x: torch.as_strided(x * 1, (2, 3), (1, 2), 4),
        "index_middle": lambda x: x[:, torch.tensor([[2, 0]]), torch.tensor([1, -1])],
        "index_apart": lambda x: x[torch.tensor([1, 0]), :, torch.tensor([1, 3])],
        "triangle": lambda x: x[:, torch.tril_indices(3, 4)[0], torch.tril_indices(3, 4)[1]],
        "one_hot": lambda x: F.one_hot(x.argmax(1), 5),
        "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0, 0.5, float("inf")])),
        "bucketize_right": lambda x: torch.bucketize(
            x.round() / (x != 0.5), torch.tensor([-1.0, 0, 2]), out_int32=True, right=True
        ),
        "searchsorted": lambda x: torch.searchsorted(x.sort(-1)[0], x * 2),
        "cdist": lambda x: torch.cdist(x, x.flip(0)),
        "cdist_one": lambda x: torch.cdist(x, x[:, :2], p=1.0),
        "cdist_three": lambda x: torch.cdist(x, x[:, :2] * 2, p=3.0),
        "pdist": lambda x: F.pdist(x[0]),
        "pairwise_distance": lambda x: F.pairwise_distance(x, x.flip(1), keepdim=True),
        "addbmm": lambda x: torch.addbmm(x[0, :, :3], x, x.mT, beta=0.5, alpha=2),
        "addmv": lambda x: torch.addmv(x[0, :, 0], x[1], x[0, 0], alpha=2),
        "shift": lambda x: ((x * 9).to(torch.int32) << 2) >> 3,
        "signbit": lambda x: torch.signbit(x.round()),
        "batch_statistics": lambda x: (
            F.instance_norm(x) + F.batch_norm(x, None, None, training=True)
        ),
        "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"),
        "mean": lambda x: x.mean(),
        "mean_axis": lambda x: x.mean(1),
        "sum": lambda x: x.sum((0, 2), keepdim=True),
        "amax": lambda x: x.amax(1),
        "max": lambda x: x.max(),
        "max_axis": lambda x: tuple(x.max(1)),
        "argmax": lambda x: x.argmax(),
        "argmin_axis": lambda x: x.argmin(1),
        "prod": lambda x: x.prod(1),
        "any": lambda x: (x > 0).any(1),
        "all": lambda x: (x > 0).all(),
        "var": lambda x: x.var(1),
        "std": lambda x: x.std((1, 2), unbiased=False),
        "norm": lambda x: x.norm(dim=1),
        "cumsum": lambda x: x.cumsum(1),
        "topk": lambda x: tuple(x.topk(2, 1)),
        "sort": lambda x: tuple(x.sort(2)),
        "logsumexp": lambda x: x.logsumexp(1),
        "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(1),
        "made": lambda x: x + torch.arange(4) * 2 + torch.zeros(3, 1) + torch.eye(3, 4),
        "in_place": in_place,
        "partly_in_place": partly_in_place,
    }.items():
        add(name, function, X)
    first, second = torch.tensor([[1], [0]]), torch.tensor([2, -1, 0])
    for name, function in {
        "put_rows": lambda x, y: x.index_put((first[:, 0], second[:2]), y[:2]),
        "put_inner": lambda x, y: put(x, (slice(None), second), y),
        "put_last": lambda x, y: put(x, (slice(None), first, second[:2]), y[0, :1]),
        "scatter": lambda x, y: x.scatter(1, torch.argsort(x, 1)[:1], y[None]),
        "scatter_add": lambda x, y: x.scatter_add(0, (x > 0).long()[:, :2], x * y),
        "scatter_amax": lambda x, y: x.scatter_reduce(1, (x > 0).long(), x * y, "amax"),
    }.items():
        add(name, function, X, Y)
    weights = torch.randn(6, 4, 3, 3, generator=torch.Generator().manual_seed(5))
    bias = torch.randn(6, generator=torch.Generator().manual_seed(6))
    add("linear", lambda x: F.linear(x, weights[:5, :, 0, 0]), X)
    add("linear_bias", lambda x: F.linear(x, weights[:, :, 0, 0], bias), X[0])
    add("matmul", torch.matmul, X, weights[:2, :, :, 0])
    add("bmm", torch.bmm, X, weights[:2, :, :, 0])
    add("addmm", lambda x: torch.addmm(bias[:3], x, Y.T, beta=0.5, alpha=2), X[0])
    add("einsum", lambda x, y: torch.einsum("bij,bkj->bik", x, y), X, X + 1)
    add("embedding", lambda x: F.embedding(x, Y), torch.tensor([[0, 2], [1, 1]]))
    add("conv2d", lambda x: F.conv2d(x, weights, bias), IMAGE)
    add(
        "conv2d_strides",
        lambda x: F.conv2d(x, weights, stride=(2, 1), padding=(1, 2), dilation=2),
        IMAGE,
    )
    add("conv2d_same", lambda x: F.conv2d(x, weights[:, :2], groups=2, padding="same"), IMAGE)
    add("depthwise", lambda x: F.conv2d(x, weights[:4, :1], groups=4), IMAGE)
    add("conv1d", lambda x: F.conv1d(x, weights[:, :, 0], padding=2), IMAGE[:, :, 0])
    add(
        "conv_transpose2d",
        lambda x: F.conv_transpose2d(x, weights[:4, :3], stride=2, padding=1, output_padding=1),
        IMAGE,
    )
    volume = torch.randn(1, 4, 3, 4, 3, generator=torch.Generator().manual_seed(7))
    add(
        "conv_transpose3d",
        lambda x: F.conv_transpose3d(
            x, weights[:4, :2, :2, :, None], bias[:2], (2, 1, 3), (0, 1, 0), (1, 0, 2)
        ),
        volume,
    )
    add("max_pool3d_indices", lambda x: F.max_pool3d(x, 2, return_indices=True), volume)
    bags = torch.tensor([[1, 2], [0, 2]])
    for mode in ("sum", "mean", "max"):
        add(f"bag_{mode}", lambda x, m=mode: F.embedding_bag(x, Y, mode=m), bags)
    add(
        "bag_uneven",
        lambda x: F.embedding_bag(x, Y, torch.tensor([0, 1, 1, 3]), mode="sum"),
        bags.flatten(),
    )
    add("bilinear", lambda x, y: F.bilinear(x, y, weights[:, :, 0], bias), X, X[:, :, :3])
    for name, function in {
        "cumprod": lambda x: x.cumprod(1),
        "median": lambda x: (*x.median(1), *x.median(-1, keepdim=True)),
        "median_whole": lambda x: x.median(),
        "kthvalue": lambda x: tuple(x.kthvalue(2, 1)),
        "norms": lambda x: [
            torch.linalg.vector_norm(x, order, dim=1) for order in (0, 3.0, np.inf, -np.inf)
        ],
        "shrink": lambda x: (F.hardshrink(x, 0.3), F.softshrink(x, 0.4), F.rrelu(x), x.frac()),
        "log_sigmoid": lambda x: F.logsigmoid(x * 20),
        "round_decimals": lambda x: (torch.round(x, decimals=2), torch.round(x * 99, decimals=-1)),
        "slice_scatter_step": lambda x: torch.slice_scatter(x, x[:, :, :2], 2, 1, None, 2),
        "masked_scatter": lambda x: x.masked_scatter(x > 0, x * 2 + 1),
        "weight_norm": lambda x: torch._weight_norm(x, x[:, :1, :1] + 2, 0),
        "weight_norm_last": lambda x: torch._weight_norm(x, x[:1, :1] + 2, 2),
        "std_mean": lambda x: torch.std_mean(x, 1),
        "baddbmm": lambda x: torch.baddbmm(x @ x.mT, x, x.mT, beta=0.5, alpha=2),
        "unread_addends": lambda x: [
            torch.addmm(x[0] * np.nan, x[1], x[0].mT @ x[0], beta=0),
            torch.addmv(x[0, :, 0] * np.nan, x[1], x[0, 0], beta=0, alpha=2),
            torch.addbmm(x[0, :, :3] * np.nan, x, x.mT, beta=0),
            torch.baddbmm((x @ x.mT) * np.nan, x, x.mT, beta=0, alpha=2),
        ],
        "norm_zero_of_nan": lambda x: torch.linalg.vector_norm(x.round().log(), 0, dim=1),
        "branch": lambda x: torch.cond(x.sum() > 0, torch.sin, lambda x: x.cos() * 2, (x,)),
        "other_branch": lambda x: torch.cond(x.sum() > 99, torch.sin, torch.cos, (x,)),
        "nonzero": torch.nonzero,
        "masked_entries": lambda x: x[x > 0],
        "item": lambda x: x * x.argmax().item(),
        "open_scale": lambda x: x / x.shape[1] ** 0.5 + x.shape[1] // 2 * 0.5,
        "open_count": lambda x: x.sum() * torch.ones(x.shape[0] * x.shape[1]),
        "open_branch": lambda x: torch.cond(x.shape[1] > 3, torch.sin, torch.cos, (x,)),
    }.items():
        add(name, function, X)
    for name, function in {
        "native_group_norm": lambda x: torch.native_group_norm(x, None, None, 2, 4, 72, 2, 1e-5)[0],
        "avg_pool_divisor": lambda x: F.avg_pool2d(
            x, 3, 2, 1, count_include_pad=False, divisor_override=5
        ),
        "max_pool": lambda x: F.max_pool2d(x, 2),
        "max_pool_ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
        "avg_pool_exclude": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, 1),
        "adaptive_avg_pool_grid": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
        "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(x, 1),
        "upsample_nearest": lambda x: F.interpolate(x, scale_factor=2),
        "upsample_bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        # By factors that the places of float32 and of float64 differ for, sizes too.
        "upsample_nearest_places": lambda x: F.interpolate(x, scale_factor=(41 / 8, 37 / 12)),
        "upsample_nearest_line": lambda x: F.interpolate(x[..., 0], scale_factor=2.1),
        "upsample_nearest_twice": lambda x: F.interpolate(x, scale_factor=(2.1, 1.1)),
        "upsample_kept": lambda x: F.interpolate(x, scale_factor=(1.1, 2.3), mode="bilinear"),
        "upsample_size": lambda x: F.interpolate(
            x[:, :, :1].repeat(1, 1, 25, 1), scale_factor=(1.16, 1.1), mode="bicubic"
        ),
        "antialias_kept": lambda x: F.interpolate(
            x, scale_factor=(1.1, 0.6), mode="bicubic", antialias=True
        ),
        "upsample_corners": lambda x: F.interpolate(
            x, size=(5, 13), mode="bilinear", align_corners=True
        ),
        "upsample_exact": lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest-exact"),
        "upsample_exact_size": lambda x: F.interpolate(x, (5, 13), mode="nearest-exact"),
        "antialias_bilinear": lambda x: F.interpolate(x, (5, 4), mode="bilinear", antialias=True),
        "antialias_bicubic": lambda x: F.interpolate(x, (5, 13), mode="bicubic", antialias=True),
        "max_pool_indices": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
        "max_pool1d_indices": lambda x: F.max_pool1d(x[:, 0], 3, 2, return_indices=True),
        "max_unpool": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        "adaptive_avg_pool_uneven": lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
        "adaptive_avg_pool1d_uneven": lambda x: F.adaptive_avg_pool1d(x[:, 0], 3),
        "adaptive_avg_pool3d_uneven": lambda x: F.adaptive_avg_pool3d(x[None], (3, 4, 1)),
        "adaptive_max_pool_uneven": lambda x: F.adaptive_max_pool2d(x, (4, 3)),
        "adaptive_max_pool_indices": lambda x: F.adaptive_max_pool2d(x, (4, 3), True),
        "im2col": lambda x: F.unfold(x, 3, dilation=2, padding=1, stride=2),
        "col2im": lambda x: F.fold(
            F.unfold(x, (3, 2), stride=2, padding=1) * 2, (9, 8), (3, 2), stride=2, padding=1
        ),
        "grid_sample": lambda x: F.grid_sample(
            x, x[:, :2, :5].permute(0, 2, 3, 1), align_corners=False
        ),
        "grid_sample_border": lambda x: F.grid_sample(
            x, x[:, :2, :5].permute(0, 2, 3, 1), "nearest", "border", True
        ),
        "affine_grid": lambda x: F.affine_grid(x[:, 0, :2, :3], [2, 4, 5, 6], False),
        "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
        "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
        "group_norm": lambda x: F.group_norm(x, 2),
        "instance_norm": F.instance_norm,
        "layer_norm": lambda x: F.layer_norm(x, (9, 8)),
        "rms_norm": lambda x: F.rms_norm(x, (8,)),
        "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.full((4,), 2.0)),
        "statistics": lambda x: x + torch.native_layer_norm(x, (8,), None, None, 1e-5)[1],
        "normalize": lambda x: F.normalize(x, dim=1),
        "dropout": lambda x: F.dropout(x, 0.5, False),
    }.items():
        add(name, function, IMAGE)
    add_signals(add)
    add_matrices(add)
    torch.manual_seed(0)
    sequence = torch.randn(5, 1, 4)
    add("lstm", nn.LSTM(4, 3), sequence)
    add("lstm_two_ways", nn.LSTM(4, 3, 2, bidirectional=True), sequence)
    add("lstm_projected", nn.LSTM(4, 5, 2, proj_size=3, bidirectional=True), sequence)
    add("gru", nn.GRU(4, 3, 2, batch_first=True), sequence.transpose(0, 1).contiguous())
    add("rnn", nn.RNN(4, 3), sequence)
    add("attention", Attention(), torch.randn(1, 6, 8))
    add(
        "encoder",
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu"),
        torch.randn(1, 6, 8),
    )
    add("accumulator", Accumulator(), torch.randn(1, 4))
    add("loop", Doubling(), torch.randn(2, 4))
    add("loop_value", lambda x: doubled(x)[1], Y)
    small = language.Size(dim=16, layers=2, heads=4, kv_heads=2, hidden=32, vocab=32, context=24)
    add("decoder", language.Decoder(small), torch.tensor([1]))
    return found


def add_signals(add: Callable[..., None]) -> None:
    """Add programs with complex numbers and Fourier transforms."""
    signal = torch.randn(2, 288, generator=torch.Generator().manual_seed(8))
    pairs = torch.randn(4, 19, 6, 2, generator=torch.Generator().manual_seed(9))
    turned = torch.polar(torch.ones(19, 6), pairs[0, ..., 0] * 3)
    window = torch.hann_window(48)
    real, joined = torch.view_as_real, torch.view_as_complex
    for name, function in {
        "spectrogram": lambda x: torch.log(
            torch.stft(x, 64, 32, 48, window, return_complex=True).abs().pow(2) + 1e-6
        ),
        "stft_normalized": lambda x: real(
            torch.stft(x[0], 48, 12, center=False, normalized=True, return_complex=True)
        ),
        "stft_twice": lambda x: torch.istft(
            torch.stft(x, 64, 16, return_complex=True, window=torch.hamming_window(64)),
            64,
            16,
            window=torch.hamming_window(64),
            length=280,
        ),
        "rfft": lambda x: (torch.fft.rfft(x[:, :97]).abs(), torch.fft.rfft(x[:, :30]).angle()),
        "rfft_cut": lambda x: real(torch.fft.rfft(x, n=100, norm="ortho")),
        "filtered": lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.linspace(1, 0, 145)),
        "convolved": lambda x: torch.fft.irfft(
            torch.fft.rfft(x, 512) * torch.fft.rfft(x.flip(0), 512), 512
        ),
        "envelope": lambda x: torch.fft.ifft(torch.fft.fft(x) * (torch.arange(288) < 144)).abs(),
        "fft_two_axes": lambda x: torch.fft.fft2(x.reshape(2, 16, 18)).abs(),
        "fft_mixed": lambda x: torch.fft.fft(torch.fft.fft(x.reshape(2, 16, 18)), dim=-2).real,
        "fftshift": lambda x: torch.fft.fftshift(torch.fft.fft(x[:, :9])).imag,
        "windows": lambda x: (
            x[:, :16]
            * torch.stack(
                [torch.blackman_window(16), torch.bartlett_window(16), torch.kaiser_window(16)]
            )[:, None]
        ),
    }.items():
        add(name, function, signal)
    for name, function in {
        "irfft_middle": lambda x: torch.fft.irfft(joined(x), dim=1),
        "irfftn": lambda x: torch.fft.irfftn(joined(x), s=(5, 7), dim=(1, 2), norm="forward"),
        "rotary": lambda x: real(joined(x) * turned),
        "complex_arithmetic": lambda x: real(
            (joined(x).conj() / joined(x.flip(1)) + 1 - 2j) * (1 + 1j) / 2 - x[..., 0]
        ),
        "complex_functions": lambda x: real(
            torch.exp(joined(x)).mT @ (joined(x) ** 2).reciprocal()
        ),
        "complex_moved": lambda x: real(
            torch.cat([joined(x).transpose(1, 2), joined(x).reshape(4, 6, 19).flip(1)], 1)
            .roll(3, -1)
            .sum(0, keepdim=True)
            .expand(2, 12, 19)
        ),
    }.items():
        add(name, function, pairs)
    add("complex_result", lambda x: joined(x), pairs)
    add("complex_tangent", lambda x: real(torch.tan(joined(x))), pairs)


def add_matrices(add: Callable[..., None]) -> None:
    """Add programs with linear algebra, special functions and running maxima."""
    x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(10)) + 3 * torch.eye(4)
    x = x[:, [2, 0, 3, 1]].contiguous()  # rows are exchanged
    y = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(11))
    positive = x @ x.mT + torch.eye(4)
    linalg = torch.linalg
    add("inverse", linalg.inv, x)
    add("det", lambda x: (linalg.det(x), linalg.det(x * (torch.arange(4) != 2))), x)
    add("slogdet", lambda x: (*linalg.slogdet(x), torch.logdet(x @ x.mT + torch.eye(4))), x)
    add("solve", lambda x, y: (linalg.solve(x, y), linalg.solve(x, y.mT, left=False)), x, y)
    add("solve_vector", lambda x: linalg.solve(x, x[:, 0] * 2), x)
    add("cholesky", lambda x: (linalg.cholesky(x), linalg.cholesky(x, upper=True)), positive)
    add("cholesky_solve", lambda x, y: torch.cholesky_solve(y, linalg.cholesky(x)), positive, y)
    add(
        "solve_triangular",
        lambda x, y: (
            linalg.solve_triangular(x.triu(), y, upper=True),
            linalg.solve_triangular(x.tril(), y.mT, upper=False, left=False, unitriangular=True),
        ),
        x, y,
    )  # fmt: skip
    numbers = torch.cat([torch.linspace(-4.3, 9, 40), torch.tensor([0.5, 1, 2, 30])])
    share = torch.linspace(-0.999, 0.999, 41)
    add("lgamma", lambda x: torch.lgamma(x), numbers)
    add("digamma", lambda x: torch.digamma(x), numbers)
    add("erfinv", lambda x: (torch.erfinv(x), torch.special.ndtri(x / 2 + 0.5)), share)
    special = torch.special
    add("bessel", lambda x: [f(x) for f in (special.i0, special.i0e, special.i1, special.i1e)],
        numbers)  # fmt: skip
    ties = torch.tensor([[1.0, 3, 3, 2, torch.nan, 5], [4, 1, 1, 4, 0, -1]])
    add("cummax", lambda x: (*x.cummax(1), *x.cummin(0)), ties)
    add("logcumsumexp", lambda x: x.logcumsumexp(1), x)
    add("histc", lambda x: torch.histc(x, 8, -1, 2), torch.tensor([-1, -0.9, 0, 0.1, 2, 2.1, -5]))


def results(
    module: nn.Module, x: Sequence[torch.Tensor], runs: int, feedback: bool
) -> dict[str, np.ndarray]:
    """Return inputs and outputs of eager execution; with ``feedback`` each run takes the number of
    the largest output of the one before.
    """
    arrays = {f"x{i}": part.numpy() for i, part in enumerate(x)}
    for run in range(runs):
        suffix = f"_{run}" if run else ""
        with torch.no_grad():
            leaves = torch.utils._pytree.tree_leaves(module(*x))
        arrays |= {f"y{i}{suffix}": leaf.numpy().copy() for i, leaf in enumerate(leaves)}
        if feedback and run + 1 < runs:
            x = (leaves[0].argmax(1),)
            arrays[f"x0_{run + 1}"] = x[0].numpy()
    return arrays


def strip_folder(module: torch.fx.GraphModule) -> None:
    """Let the lines of code that made the nodes be in files without this machine's folders."""
    folders = [f"{ROOT}/", f"{Path(torch.__file__).parents[1]}/"]
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            for folder in folders if node.stack_trace else ():
                node.stack_trace = node.stack_trace.replace(folder, "")


def main() -> int:
    # In one stream, as the programs have most of their text in common.
    with tarfile.open(TARGET, "w:xz") as archive:

        def write(name: str, data: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))

        for name, (module, x) in programs().items():
            axes = ({1: torch.export.Dim("t", min=2, max=64)},) if name in OPEN else None
            program = torch.export.export(module, x, dynamic_shapes=axes and (axes,))
            if name not in ("in_place", "partly_in_place", "batch_norm"):
                program = program.run_decompositions({})
            strip_folder(program.graph_module)
            file = io.BytesIO()
            torch.export.save(program, file)
            write(f"{name}.pt2", file.getvalue())
            file = io.BytesIO()
            np.savez(file, **results(module, x, RUNS.get(name, 1), name == "decoder"))  # type: ignore[arg-type]
            write(f"{name}.npz", file.getvalue())
    print(f"{TARGET}: {len(programs())} programs, {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
