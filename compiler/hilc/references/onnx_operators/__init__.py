"""Operators of which ``onnx.reference`` computes another thing than the standard says, or less
exactly than models need: in their places, numpy code by the standard's text.

Nothing is shared with this compiler's translators, which these results judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from hilc.ir import Array
from hilc.references.onnx_operators.pools import max_pooled, pooled
from hilc.references.onnx_operators.resize import resized

#: The first opset in which Softmax and its kin take one axis, and not all from it on.
_ONE_AXIS_OPSET = 13
#: The first opset of Resize that has a region as second input.
_REGION_OPSET = 11
#: The first opset in which BatchNormalization states whether it is trained.
_TRAINING_OPSET = 14


def operators() -> list[type]:
    """Return the classes, for the argument ``new_ops`` of ``onnx.reference.ReferenceEvaluator``.

    They are named as the operators whose places they take, in all opsets.
    """
    ops = "onnx.reference.ops.op_"
    base: Any = import_module("onnx.reference.op_run").OpRun
    batch_normalization: Any = import_module(ops + "batch_normalization").BatchNormalization_14
    grid_sample: Any = import_module(ops + "grid_sample").GridSample
    conv_transpose: Any = import_module(ops + "conv_transpose").ConvTranspose

    class Softmax(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, axis: int | None = None) -> tuple[Array]:
            return (_normalized(self, x, _softmax),)

    class LogSoftmax(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, axis: int | None = None) -> tuple[Array]:
            return (_normalized(self, x, _log_softmax),)

    class Hardmax(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, axis: int | None = None) -> tuple[Array]:
            return (_normalized(self, x, _hardmax),)

    class LpNormalization(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, axis: int = -1, p: int = 2) -> tuple[Array]:
            magnitudes = np.abs(x.astype(np.float64))
            norm = (magnitudes**p).sum(axis=axis, keepdims=True) ** (1 / p)
            return (np.where(norm == 0, 0, x / norm).astype(x.dtype),)

    class LRN(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, alpha: float, beta: float, bias: float, size: int) -> tuple[Array]:
            squares = x.astype(np.float64) ** 2
            sums = np.zeros_like(squares)
            for channel in range(x.shape[1]):
                first = max(0, channel - (size - 1) // 2)
                sums[:, channel] = squares[:, first : channel + size // 2 + 1].sum(axis=1)
            return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)

    class BatchNormalization(batch_normalization):  # type: ignore[misc]
        op_domain = ""

        def _run(self, *given: Any, **attributes: Any) -> Any:
            if _opset(self) < _TRAINING_OPSET:
                # A node with one output only normalizes, by the statistics that it is given.
                attributes = {"epsilon": attributes["epsilon"], "training_mode": 0}
            return super()._run(*given, **attributes)

    class ConvTranspose(conv_transpose):  # type: ignore[misc]
        op_domain = ""

        def _run(
            self, x: Array, w: Array, b: Array | None = None, group: int = 1, **given: Any
        ) -> tuple[Array]:
            parts = []
            for number in range(group):
                bias = None if b is None else np.split(b, group)[number]
                own = (np.split(x, group, axis=1)[number], np.split(w, group)[number], bias)
                parts.append(super()._run(*own, group=1, **given)[0])
            return (np.concatenate(parts, axis=1),)

    class ReduceSumSquare(base):  # type: ignore[misc]
        op_domain = ""

        def _run(
            self, x: Array, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
        ) -> tuple[Array]:
            chosen = None if axes is None else tuple(int(axis) for axis in axes)
            if not chosen:
                chosen = () if noop_with_empty_axes else None
            return (np.sum(np.square(x), chosen, x.dtype, keepdims=bool(keepdims)),)

    class MaxPool(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, **given: Any) -> tuple[Array, ...]:
            if len(self.onnx_node.output) > 1:
                return max_pooled(x, given)
            return (pooled(x, given, lambda window, _: np.asarray(window.max(axis=-1))),)

    class AveragePool(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, count_include_pad: int = 0, **given: Any) -> tuple[Array]:
            def mean(window: Array, positions: int) -> Array:
                count = positions if count_include_pad else window.shape[-1]
                return np.asarray(window.sum(axis=-1, dtype=np.float64) / count)

            return (pooled(x, given, mean),)

    class LpPool(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Array, p: int = 2, **given: Any) -> tuple[Array]:
            def norm(window: Array, positions: int) -> Array:
                powers = np.abs(window.astype(np.float64)) ** p
                return np.asarray(powers.sum(axis=-1) ** (1 / p))

            return (pooled(x, given, norm),)

    class Upsample(base):  # type: ignore[misc]
        op_domain = ""

        def _run(
            self,
            x: Array,
            scale: Array | None = None,
            mode: str = "nearest",
            scales: Sequence[float] | None = None,
        ) -> tuple[Array]:
            factors = np.asarray(scales if scale is None else scale)
            given = {"mode": mode, "nearest_mode": "floor"}
            given["coordinate_transformation_mode"] = "asymmetric"
            return (resized(x, factors, None, None, given),)

    class Resize(base):  # type: ignore[misc]
        op_domain = ""

        def _run(
            self,
            x: Array,
            roi: Array | None = None,
            scales: Array | None = None,
            sizes: Array | None = None,
            **given: Any,
        ) -> tuple[Array]:
            if _opset(self) < _REGION_OPSET:
                given |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "outward"}
                return (resized(x, roi, None, None, given),)
            return (resized(x, scales, sizes, roi, given),)

    class GridSample(grid_sample):  # type: ignore[misc]
        op_domain = ""

        def _prepare_border(self, dims: Sequence[int], align_corners: bool) -> Array:
            # Places outside are not moved to the border: only the pixels that the cubic filter
            # reads are the border's there.
            border = np.asarray(super()._prepare_border(dims, align_corners))
            if self.mode == "cubic" and self.padding_mode == "border":
                border[: len(dims)], border[len(dims) :] = -np.inf, np.inf
            return border

    return [
        *(Softmax, LogSoftmax, Hardmax, LpNormalization, LRN, BatchNormalization, ConvTranspose),
        *(ReduceSumSquare, MaxPool, AveragePool, LpPool, Upsample, Resize, GridSample),
    ]


def departure(node: Any) -> str | None:
    """Return what ``onnx.reference`` ignores of a node, for which there is no other code here; None
    of a node that it computes.
    """
    if node.op_type not in ("LSTM", "GRU", "RNN") or node.domain not in ("", "ai.onnx"):
        return None
    ignored = {"LSTM": ("activations", "clip", "input_forget"), "GRU": ("activations", "clip")}
    stated = {attribute.name for attribute in node.attribute}
    found = [name for name in ignored.get(node.op_type, ("clip",)) if name in stated]
    if len(node.input) > 4 and node.input[4]:
        found.append("sequence_lens")
    return ", ".join(found) or None


def _opset(op: Any) -> int:
    version: int = op.run_params["opsets"][""]
    return version


def _normalized(op: Any, x: Array, normalize: Callable[[Array], Array]) -> Array:
    """Return rows of ``x`` normalized in double precision: those along the node's axis, or, before
    opset 13, of all axes from it on together.
    """
    stated = [attribute.i for attribute in op.onnx_node.attribute if attribute.name == "axis"]
    is_one = _opset(op) >= _ONE_AXIS_OPSET
    axis = stated[0] if stated else (-1 if is_one else 1)
    if x.size == 0:
        return x
    if is_one:
        rows = np.moveaxis(x, axis, -1).astype(np.float64)
        return np.asarray(np.moveaxis(normalize(rows), -1, axis).astype(x.dtype))
    axis += x.ndim if axis < 0 else 0
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1).astype(np.float64)
    return np.asarray(normalize(rows).reshape(x.shape).astype(x.dtype))


def _softmax(rows: Array) -> Array:
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _log_softmax(rows: Array) -> Array:
    # Not the logarithm of the quotient, which is 0 for an element far below the largest.
    below = rows - rows.max(axis=-1, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))


def _hardmax(rows: Array) -> Array:
    made = np.zeros_like(rows)
    np.put_along_axis(made, rows.argmax(axis=-1, keepdims=True), 1, axis=-1)
    return made
