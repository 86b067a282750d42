"""Normalizations and the softmax family."""

from __future__ import annotations

import numpy as np

from hilc.frontends.pt2.model import Operation, Outputs, translates


@translates("aten.batch_norm", "aten._native_batch_norm_legit_no_training",
            "aten.native_batch_norm", "aten.cudnn_batch_norm")  # fmt: skip
def batch_norm(c: Operation) -> Outputs:
    """Translate batch normalization with running statistics to BatchNormalization.

    Raises :class:`~hilc.errors.UnsupportedError` in training mode.
    """
    if c.get("training", False):
        c.refuse("is in training", "export the module in evaluation mode (module.eval())")
    x = c.tensor("input")
    channels = c.shape("input")[1]
    ones = c.constant(np.ones(channels, np.float32))
    zeros = c.constant(np.zeros(channels, np.float32))
    y = c.emit(
        "BatchNormalization", x, c.optional("weight") or ones, c.optional("bias") or zeros,
        c.optional("running_mean") or zeros, c.optional("running_var") or ones,
        epsilon=float(c.get("eps", 1e-5)),
    )  # fmt: skip
    # Where it has three outputs the others are statistics for training.
    return [y, *[""] * (len(c.output_refs) - 1)]


@translates("aten._native_batch_norm_legit")
def batch_norm_of_batch(c: Operation) -> Outputs:
    """Translate the overload without running statistics: mean and variance are the batch's.

    Raises :class:`~hilc.errors.UnsupportedError` for the one that updates them.
    """
    if not c.call.target.endswith(".no_stats"):
        c.refuse("is in training", "export the module in evaluation mode (module.eval())")
    x, rank = c.tensor("input"), c.rank("input")
    axes = c.integers(axis for axis in range(rank) if axis != 1)
    distance = c.emit("Sub", x, c.emit("ReduceMean", x, axes, keepdims=1))
    variance = c.emit("ReduceMean", c.emit("Mul", distance, distance), axes, keepdims=1)
    epsilon = c.constant(c.get("eps", 1e-5), c.result.dtype)
    y = c.emit("Div", distance, c.emit("Sqrt", c.emit("Add", variance, epsilon)))
    along = (-1, *(1,) * (rank - 2))
    if c.has("weight"):
        y = c.emit("Mul", y, c.reshape(c.tensor("weight"), along))
    if c.has("bias"):
        y = c.emit("Add", y, c.reshape(c.tensor("bias"), along))
    return [y, *[""] * (len(c.output_refs) - 1)]


@translates("aten.layer_norm", "aten.native_layer_norm")
def layer_norm(c: Operation) -> Outputs:
    """Translate aten.layer_norm and native_layer_norm to LayerNormalization of the last axes."""
    sizes = c.ints("normalized_shape")
    weight = c.optional("weight") or c.constant(np.ones(sizes, np.float32))
    y = c.emit(
        "LayerNormalization", c.tensor("input"), weight, c.optional("bias"),
        axis=-len(sizes), epsilon=float(c.get("eps", 1e-5)),
    )  # fmt: skip
    return [y, *[""] * (len(c.output_refs) - 1)]


@translates("aten.rms_norm")
def rms_norm(c: Operation) -> str:
    """Without a stated epsilon PyTorch takes that of the element type."""
    sizes = c.ints("normalized_shape")
    weight = c.optional("weight") or c.constant(np.ones(sizes, np.float32))
    epsilon = c.get("eps", float(np.finfo(np.float32).eps))
    return c.emit("RMSNormalization", c.tensor("input"), weight, axis=-len(sizes), epsilon=epsilon)


@translates("aten.native_group_norm")
def native_group_norm(c: Operation) -> list[str]:
    """Translate aten.native_group_norm to GroupNormalization, without its statistics."""
    return [_grouped(c, c.get("group"))]


@translates("aten.group_norm")
def group_norm(c: Operation) -> str:
    """Translate aten.group_norm to GroupNormalization."""
    return _grouped(c, c.get("num_groups"))


@translates("aten._weight_norm")
def weight_norm(c: Operation) -> str:
    """Translate aten._weight_norm to v * (g / norm of v over the axes other than ``dim``)."""
    rank = c.rank("v")
    kept = c.get("dim", 0)
    axes = [axis for axis in range(rank) if kept == -1 or axis != kept]
    length = c.emit("ReduceL2", c.tensor("v"), c.integers(axes), keepdims=1)
    return c.emit("Mul", c.tensor("v"), c.emit("Div", c.tensor("g"), length))


def _grouped(c: Operation, groups: int) -> str:
    channels = c.shape("input")[1]
    weight = c.optional("weight") or c.constant(np.ones(channels, np.float32))
    bias = c.optional("bias") or c.constant(np.zeros(channels, np.float32))
    return c.emit(
        "GroupNormalization", c.tensor("input"), weight, bias,
        num_groups=groups, epsilon=float(c.get("eps", 1e-5)),
    )  # fmt: skip


@translates("aten.instance_norm")
def instance_norm(c: Operation) -> str:
    """Translate aten.instance_norm to InstanceNormalization.

    Raises :class:`~hilc.errors.UnsupportedError` if it uses running statistics.
    """
    if not c.get("use_input_stats", True):
        c.refuse("uses running statistics", "use batch normalization instead")
    channels = c.shape("input")[1]
    weight = c.optional("weight") or c.constant(np.ones(channels, np.float32))
    bias = c.optional("bias") or c.constant(np.zeros(channels, np.float32))
    return c.emit(
        "InstanceNormalization", c.tensor("input"), weight, bias,
        epsilon=float(c.get("eps", 1e-5)),
    )  # fmt: skip


@translates("aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax")
def softmax(c: Operation) -> str:
    """Translate aten.softmax and log_softmax to Softmax and LogSoftmax along ``dim``."""
    kind = "LogSoftmax" if "log_softmax" in c.call.target else "Softmax"
    return c.emit(kind, c.tensor("self"), axis=c.axis("dim"))
