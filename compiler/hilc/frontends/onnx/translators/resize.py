"""Resize and Upsample: each output is a weighted sum of a few inputs along each axis, one axis
after the other.

Images that TFLite's two resizings compute alike are left to those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from hilc.frontends.onnx.operation import Operation, is_real, translates
from hilc.frontends.onnx.translators.convolution import channels_first, channels_last
from hilc.frontends.onnx.translators.normalization import inverse, to_the_end
from hilc.ir import Array, Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.fully_connected import FullyConnectedAttributes
from hilc.ops.gather import GatherAttributes
from hilc.ops.resize import ResizeAttributes, nearest_places

#: Weights of more inputs than these are a matrix.
_MOST_TAPS = 4
#: Difference of two factors, or of a share and 0, that is none.
_EXACT = 1e-9
#: Distance from the middle between two inputs at which onnxruntime takes a position for the middle.
_TIE = 1e-6


@dataclass(frozen=True)
class Plan:
    """Resampling of one axis."""

    axis: int
    size: int
    target: int
    scale: float
    #: Positions of the outputs in input coordinates.
    places: Array
    #: The outputs that lie outside of the region of interest.
    outside: Array

    @property
    def is_exact(self) -> bool:
        """Whether the size times the scale is the size of the output."""
        return abs(self.size * self.scale - self.target) < _EXACT


@translates("Upsample")
def upsample(n: Operation) -> Tensor:
    """Translate Upsample to a resize with asymmetric coordinates; the scales must be known."""
    scales = n.numbers("scales") if n.version < 9 else n.known(1, "the scales").tolist()
    x = n.input(0)
    axes = range(len(x.shape))
    scales = _factors(n, scales, len(axes))
    targets = [_target(n, size, scale) for size, scale in zip(x.shape, scales, strict=True)]
    plans = _plans(n, x, axes, scales, targets, "asymmetric")
    return _resized(n, x, plans, n.text("mode", "nearest"), "floor", asymmetric=True)


@translates("Resize")
def resize(n: Operation) -> Tensor:
    """Translate Resize (opset 10+); sizes or scales must be known at compile time."""
    x, mode = n.input(0), n.text("mode", "nearest")
    if mode == "nearest" and n.integer("antialias", 0):
        n.refuse("has antialias with the mode 'nearest'", "it is defined for linear and cubic")
    if n.version < 11:
        axes = list(range(len(x.shape)))
        scales = _factors(n, n.known(1, "the scales").tolist(), len(axes))
        targets = [_target(n, size, scale) for size, scale in zip(x.shape, scales, strict=True)]
        transformation, roi, nearest = "asymmetric", None, "outward"
    else:
        axes = [n.axis(a, len(x.shape)) for a in n.integers("axes", range(len(x.shape)))]
        transformation = n.text("coordinate_transformation_mode", "half_pixel")
        nearest = n.text("nearest_mode", "round_prefer_floor")
        scales, targets = _sizes(n, x, axes)
        roi = n.known(1, "the region") if transformation == "tf_crop_and_resize" else None
    plans = _plans(n, x, axes, scales, targets, transformation, roi)
    return _resized(n, x, plans, mode, nearest, asymmetric=transformation == "asymmetric")


def _plans(
    n: Operation,
    x: Tensor,
    axes: Sequence[int],
    scales: Sequence[float],
    targets: Sequence[int],
    transformation: str,
    roi: Array | None = None,
) -> list[Plan]:
    """Return the plans of the axes that are resampled: also of one that keeps its size at another
    scale than 1.
    """
    plans = []
    for i, (axis, scale, target) in enumerate(zip(axes, scales, targets, strict=True)):
        region = (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[len(axes) + i]))
        size = x.shape[axis]
        if target == size and abs(scale - 1) < _EXACT and region == (0.0, 1.0):
            continue
        places = _places(n, transformation, size, target, float(scale), region)
        outside = np.zeros(target, np.bool_)
        if transformation == "tf_crop_and_resize":
            outside = (places < 0) | (places > size - 1)
        plans.append(Plan(axis, size, target, float(scale), places, outside))
    return plans


def _factors(n: Operation, scales: Sequence[float], count: int) -> list[float]:
    """Return the factors of axes, which must be numbers above 0, one for each."""
    if len(scales) != count or not all(0 < scale < np.inf for scale in scales):
        n.invalid(f"has the scales {list(scales)}", f"{count} finite numbers above 0 are accepted")
    return list(scales)


def _target(n: Operation, size: int, scale: float) -> int:
    """Return the size of an axis that is resized by a factor.

    The standard leaves the precision of the product open; onnxruntime's is single.
    """
    target = int(np.floor(np.float32(size) * np.float32(scale)))
    n.check_size((target,), n.input(0).dtype)
    if target < 1:
        n.invalid(f"resizes {size} to {target} entries by the scale {scale}")
    return target


def _sizes(n: Operation, x: Tensor, axes: Sequence[int]) -> tuple[list[float], list[int]]:
    """Return the factor and the size of each axis that is resized."""
    shape = [x.shape[axis] for axis in axes]
    if n.has(2) and n.input(2).size:
        scales = _factors(n, n.known(2, "the scales").tolist(), len(axes))
        return scales, [_target(n, size, scale) for size, scale in zip(shape, scales, strict=True)]
    sizes = list(n.known_ints(3, "the sizes"))
    if len(sizes) != len(axes) or min(sizes) < 1 or 0 in shape:
        n.invalid(f"resizes {shape} to {sizes}", "a size of 1 or more for each axis is accepted")
    for size in sizes:
        n.check_size((size,), x.dtype)
    scales = [size / have for size, have in zip(sizes, shape, strict=True)]
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return scales, sizes
    scale = (min if policy == "not_larger" else max)(scales)
    return [scale] * len(axes), [int(scale * have + 0.5) for have in shape]


def _places(
    n: Operation,
    transformation: str,
    size: int,
    target: int,
    scale: float,
    region: tuple[float, float],
) -> Array:
    """Return the position of each output in input coordinates.

    The standard leaves the precision open, by which the nearest input to a position between two
    differs: onnxruntime's is single. An interpolation is nearly the same by either.
    """
    real = np.float32 if n.text("mode", "nearest") == "nearest" else np.float64
    i: Array = np.arange(target, dtype=real)
    # An array, which numbers of Python do not widen.
    by: Array = np.array(scale, real)
    # The standard's length_resized is the length of the output, a whole number, for every
    # transformation. Only half_pixel_symmetric names the length before it is rounded.
    match transformation:
        case "half_pixel":
            return (i + 0.5) / by - 0.5
        case "half_pixel_symmetric":
            # onnxruntime rounds the offset, and then the sum of double precision, to single.
            offset = size / 2 * (1 - target / (by * size))
            centers = (i.astype(np.float64) + 0.5) / by.astype(np.float64)
            return np.asarray(offset.astype(np.float64) + centers - 0.5).astype(real)
        case "pytorch_half_pixel":
            return (i + 0.5) / by - 0.5 if target > 1 else np.zeros(target)
        case "asymmetric":
            return i / by
        case "align_corners":
            return i * (size - 1) / (target - 1) if target > 1 else np.zeros(target)
        case "tf_crop_and_resize":
            # In single precision also where it interpolates: a place at the end of the image is
            # outside of it or not by its rounding.
            start, end = (np.float32(border) for border in region)
            last = np.float32(size - 1)
            if target == 1:
                return np.full(target, np.float32(0.5) * (start + end) * last)
            steps = i.astype(np.float32) * (end - start) * last / np.float32(target - 1)
            return np.asarray(start * last + steps)
    n.refuse(f"has the coordinate_transformation_mode {transformation!r}")


def _resized(
    n: Operation, x: Tensor, plans: Sequence[Plan], mode: str, nearest: str, *, asymmetric: bool
) -> Tensor:
    if native := _native(n, x, plans, mode, nearest, asymmetric=asymmetric):
        return native
    if resampled := _resampled(n, x, plans, mode, nearest):
        return resampled
    for plan in plans:
        x = along(n, x, plan.axis, _weights(n, plan, mode, nearest))
        if plan.outside.any():
            shape = (-1, *(1,) * (len(x.shape) - plan.axis - 1))
            outside = n.constant(plan.outside.reshape(shape))
            value = n.constant(n.number("extrapolation_value", 0.0), x.dtype)
            x = n.emit("SELECT_V2", outside, value, x)
    return x


def _weights(n: Operation, plan: Plan, mode: str, nearest: str) -> Array:
    """Return the share of each input in each output of an axis."""
    weights = np.zeros((plan.target, plan.size))
    if mode == "nearest":
        # Wide, so that the addition of a half is exact.
        places = plan.places.astype(np.float64)
        match nearest:
            case "round_prefer_floor":
                chosen = np.ceil(places - (0.5 + _TIE))
            case "round_prefer_ceil":
                chosen = np.floor(places + (0.5 + _TIE))
            case "floor":
                chosen = np.floor(places)
            case "ceil":
                chosen = np.ceil(places)
            case "outward":
                # onnxruntime's before opset 11, where the standard does not say which.
                chosen = np.floor(places) if plan.scale >= 1 else np.ceil(places)
            case _:
                n.refuse(f"has the nearest_mode {nearest!r}")
        weights[np.arange(plan.target), np.clip(chosen, 0, plan.size - 1).astype(int)] = 1
        return weights
    if mode not in ("linear", "cubic"):
        n.refuse(f"has the mode {mode!r}", "nearest, linear and cubic are supported")
    a = n.number("cubic_coeff_a", -0.75)
    kernel: Callable[[Array], Array] = _linear if mode == "linear" else lambda t: _cubic(t, a)
    squeeze = min(plan.scale, 1.0) if n.integer("antialias", 0) else 1.0
    reach = int(np.ceil((1 if mode == "linear" else 2) / squeeze)) + 1
    for output, place in enumerate(plan.places):
        taps = np.arange(int(np.floor(place)) - reach, int(np.floor(place)) + reach + 2)
        shares = kernel((taps - place) * squeeze)
        if n.integer("exclude_outside", 0):
            shares = np.where((taps >= 0) & (taps < plan.size), shares, 0)
        shares = shares / shares.sum()
        np.add.at(weights[output], np.clip(taps, 0, plan.size - 1), shares)
    return weights


def _linear(t: Array) -> Array:
    shares: Array = np.clip(1 - np.abs(t), 0, 1)
    return shares


def _cubic(t: Array, a: float) -> Array:
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def along(n: Operation, x: Tensor, axis: int, weights: Array) -> Tensor:
    """Return sums of a tensor's entries along an axis: ``weights[output, input]``."""
    counts = (np.abs(weights) > _EXACT).sum(1)
    taps = max(1, int(counts.max()))
    order = np.argsort(np.abs(weights) <= _EXACT, axis=1, kind="stable")[:, :taps]
    shares = np.take_along_axis(weights, order, 1)
    if taps == 1 and (shares == 1).all():
        return _taken(n, x, order[:, 0], axis)
    if not is_real(x):
        n.refuse(f"interpolates {x.dtype}", "cast it to float32 before, and back after")
    if taps > _MOST_TAPS:
        permutation = to_the_end(axis, len(x.shape))
        attrs = FullyConnectedAttributes(keep_num_dims=True)
        moved = n.transpose(x, permutation)
        made = n.emit("FULLY_CONNECTED", moved, n.constant(weights, "float32"), None, attrs=attrs)
        return n.transpose(made, inverse(permutation))
    shape = (-1, *(1,) * (len(x.shape) - axis - 1))
    parts = [
        n.emit(
            "MUL",
            _taken(n, x, order[:, tap], axis),
            n.constant(shares[:, tap].reshape(shape), "float32"),
            attrs=ActivationAttributes(),
        )
        for tap in range(taps)
    ]
    return reduce(lambda a, b: n.emit("ADD", a, b, attrs=ActivationAttributes()), parts)


def _taken(n: Operation, x: Tensor, indices: Array, axis: int) -> Tensor:
    if np.array_equal(indices, np.arange(x.shape[axis])):
        return x
    attrs = GatherAttributes(axis=axis)
    return n.emit("GATHER", x, n.constant(indices, "int32"), attrs=attrs, quant=x.quant)


def _native(
    n: Operation, x: Tensor, plans: Sequence[Plan], mode: str, nearest: str, *, asymmetric: bool
) -> Tensor | None:
    """Return the image resized by TFLite's operators; None where they compute something else."""
    is_image = len(x.shape) == 4 and {plan.axis for plan in plans} <= {2, 3}
    if not (is_image and plans and is_real(x)):
        return None
    if mode == "nearest":
        op, attrs = "RESIZE_NEAREST_NEIGHBOR", ResizeAttributes()
        for plan in plans:
            places = nearest_places(attrs, plan.size, plan.target)
            if not np.array_equal(_weights(n, plan, mode, nearest).argmax(1), places):
                return None
    elif mode == "linear" and not (n.integer("antialias", 0) or n.integer("exclude_outside", 0)):
        found = _bilinear(n, plans, asymmetric=asymmetric)
        if found is None:
            return None
        op, attrs = "RESIZE_BILINEAR", found
    else:
        return None
    targets = {plan.axis: plan.target for plan in plans}
    size = n.constant([targets.get(axis, x.shape[axis]) for axis in (2, 3)], "int32")
    return channels_first(n, n.emit(op, channels_last(n, x), size, attrs=attrs))


def _resampled(
    n: Operation, x: Tensor, plans: Sequence[Plan], mode: str, nearest: str
) -> Tensor | None:
    """Return an image or a line of float32, interpolated along rows and columns in one operator;
    None for other tensors, and for sums of many pixels.
    """
    is_image = len(x.shape) in (3, 4) and {plan.axis for plan in plans} <= {2, 3}
    is_computed = x.element.is_computed_real and x.data is None
    if not is_image or not is_computed or mode == "nearest":
        return None
    sizes = x.shape[2:]
    weights = {2 + i: np.eye(size) for i, size in enumerate(sizes)}
    weights.update((plan.axis, _weights(n, plan, mode, nearest)) for plan in plans)
    for matrix in weights.values():
        matrix[np.abs(matrix) <= _EXACT] = 0
    taps = max(int((matrix != 0).sum(1).max()) for matrix in weights.values())
    if not plans or taps > _MOST_TAPS or any(plan.outside.any() for plan in plans):
        return None
    operands = [n.constant(matrix, "float32") for matrix in weights.values()]
    if len(sizes) == 2:
        return channels_first(n, n.emit("RESAMPLE", channels_last(n, x), *operands))
    # The columns of an image of one row.
    line = n.reshape(n.transpose(x, (0, 2, 1)), (x.shape[0], 1, x.shape[2], x.shape[1]))
    made = n.emit("RESAMPLE", line, n.constant(np.eye(1), "float32"), *operands)
    return n.transpose(n.reshape(made, (x.shape[0], made.shape[2], x.shape[1])), (0, 2, 1))


def _bilinear(n: Operation, plans: Sequence[Plan], *, asymmetric: bool) -> ResizeAttributes | None:
    """Return TFLite's attributes for the coordinate transformation; None if it has none."""
    transformation = n.text("coordinate_transformation_mode", "half_pixel")
    is_usual = all(plan.target > 1 for plan in plans)
    if transformation == "align_corners" and is_usual:
        return ResizeAttributes(align_corners=True)
    # TFLite divides by the quotient of the sizes.
    if not all(plan.is_exact for plan in plans):
        return None
    if asymmetric:
        return ResizeAttributes()
    if transformation == "half_pixel" or (transformation == "pytorch_half_pixel" and is_usual):
        return ResizeAttributes(half_pixel_centers=True)
    return None
