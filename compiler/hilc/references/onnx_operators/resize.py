"""Resize, as the standard defines it, in double precision; what onnxruntime computes in single
precision is here so too where the result is another one: sizes, and places of the nearest entries.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from hilc.ir import Array

#: onnxruntime (1.32) takes a position this near to the middle between two entries for the middle.
_MIDDLE = 1e-6


def resized(
    x: Array, scales: Array | None, sizes: Array | None, roi: Array | None, given: dict[str, Any]
) -> Array:
    """Return ``x`` resized one axis after the other.

    ``scales`` or ``sizes`` has an entry for each of the axes, ``roi`` two.
    """
    stated = given.get("axes")
    axes = [int(axis) % x.ndim for axis in (range(x.ndim) if stated is None else stated)]
    if scales is not None and np.size(scales):
        factors = np.asarray(scales, np.float32)
        # The standard leaves the precision of the product open; onnxruntime's is single.
        lengths = [int(np.float32(x.shape[a]) * f) for a, f in zip(axes, factors, strict=True)]
        exact = [float(factor) for factor in factors]
    elif sizes is not None:
        lengths = [int(size) for size in sizes]
        exact = [length / x.shape[axis] for axis, length in zip(axes, lengths, strict=True)]
        policy = given.get("keep_aspect_ratio_policy") or "stretch"
        if policy != "stretch":
            one = min(exact) if policy == "not_larger" else max(exact)
            lengths = [int(one * x.shape[axis] + 0.5) for axis in axes]
            exact = [one] * len(axes)
    else:
        raise ValueError("Resize has neither scales nor sizes")
    values = x.astype(np.float64)
    for i, (axis, factor, length) in enumerate(zip(axes, exact, lengths, strict=True)):
        crops = given["coordinate_transformation_mode"] == "tf_crop_and_resize"
        region = (0.0, 1.0)
        if crops and roi is not None:
            region = float(roi[i]), float(roi[len(axes) + i])
        if factor == 1 and region == (0.0, 1.0):
            continue
        values = _resized_axis(values, axis, factor, length, region, given)
    return np.asarray(import_module("onnx.numpy_helper").saturate_cast(values, x.dtype))


def _resized_axis(
    values: Array,
    axis: int,
    factor: float,
    length: int,
    region: tuple[float, float],
    given: dict[str, Any],
) -> Array:
    size, mode = values.shape[axis], given.get("mode") or "nearest"
    # It leaves that of positions open, too, by which the nearest entry to one between two differs.
    real: Any = np.float32 if mode == "nearest" else np.float64
    places = _places(
        given["coordinate_transformation_mode"], size, length, real(factor), region, real
    )
    if mode == "nearest":
        chosen = _nearest(places, given["nearest_mode"], factor)
        made = np.take(values, np.clip(chosen, 0, size - 1).astype(np.intp), axis=axis)
    else:
        weights = np.array([_weights(place, size, mode, factor, given) for place in places])
        made = np.moveaxis(np.tensordot(values, weights, (axis, 1)), -1, axis)
    if given["coordinate_transformation_mode"] == "tf_crop_and_resize":
        outside = (places < 0) | (places > size - 1)
        shape = (length, *(1,) * (values.ndim - axis - 1))
        made = np.where(outside.reshape(shape), given["extrapolation_value"], made)
    return np.asarray(made)


def _places(
    mode: str, size: int, length: int, factor: Any, region: tuple[float, float], real: Any
) -> Array:
    """Return ``x_original`` of the standard for each ``x_resized`` below ``length``."""
    resized = np.arange(length, dtype=real)
    half: Array = (resized + real(0.5)) / factor - real(0.5)
    last = real(size - 1)
    match mode:
        case "half_pixel":
            return half
        case "half_pixel_symmetric":
            adjustment = real(length) / (factor * real(size))
            offset = float(real(size / 2) * (real(1) - adjustment))
            # Of onnxruntime's operations the last three are of double precision.
            numbers = np.arange(length, dtype=np.float64)
            return np.asarray(offset + (numbers + 0.5) / float(factor) - 0.5).astype(real)
        case "pytorch_half_pixel":
            return half if length > 1 else np.zeros(1, real)
        case "asymmetric":
            return np.asarray(resized / factor)
        case "align_corners":
            return resized * last / real(length - 1) if length > 1 else np.zeros(1, real)
        case "tf_crop_and_resize":
            # Always in single precision: a position at the end of the image is outside or not by
            # its rounding.
            single = np.float32
            start, end, most = single(region[0]), single(region[1]), single(size - 1)
            if length == 1:
                return np.full(1, single(0.5) * (start + end) * most)
            moved = np.arange(length, dtype=single) * (end - start) * most / single(length - 1)
            return np.asarray(start * most + moved)
    raise ValueError(f"Resize has the coordinate_transformation_mode {mode!r}")


def _nearest(places: Array, mode: str, factor: float) -> Array:
    match mode:
        case "round_prefer_floor" | "round_prefer_ceil":
            lower = np.floor(places.astype(np.float64))
            fraction = places.astype(np.float64) - lower
            is_middle = np.abs(fraction - 0.5) <= _MIDDLE
            takes_upper = np.where(is_middle, mode == "round_prefer_ceil", fraction > 0.5)
            return np.asarray(lower + takes_upper)
        case "floor":
            return np.asarray(np.floor(places))
        case "ceil":
            return np.asarray(np.ceil(places))
        case "outward":
            # onnxruntime's before opset 11, where the standard does not say which.
            return np.asarray(np.floor(places) if factor >= 1 else np.ceil(places))
    raise ValueError(f"Resize has the nearest_mode {mode!r}")


def _weights(place: float, size: int, mode: str, factor: float, given: dict[str, Any]) -> Array:
    """Return the share of each of ``size`` entries in the value at a position."""
    slope = min(factor, 1.0) if given.get("antialias") else 1.0
    reach = {"linear": 1, "cubic": 2}[mode] / slope
    first, last = int(np.floor(place - reach)), int(np.ceil(place + reach))
    weights, total = np.zeros(size), 0.0
    for position in range(first, last + 1):
        if given.get("exclude_outside") and not 0 <= position < size:
            continue
        distance = abs(place - position) * slope
        if mode == "linear":
            share = max(0.0, 1 - distance)
        else:
            share = _keys(distance, given["cubic_coeff_a"])
        total += share
        weights[min(max(position, 0), size - 1)] += share
    return weights / total


def _keys(distance: float, a: float) -> float:
    """Return R. Keys's cubic convolution kernel (1981), with its parameter ``a``."""
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    if distance < 2:
        return a * (distance**3 - 5 * distance**2 + 8 * distance - 4)
    return 0.0
