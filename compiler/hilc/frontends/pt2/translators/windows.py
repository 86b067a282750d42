"""Pooling and resampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hilc.frontends.onnx.translators.sampling import affine_places
from hilc.frontends.pt2.model import Operation, Outputs, translates
from hilc.frontends.pt2.translators.layers import unbatched
from hilc.ir import Array


def _spatial_axes(c: Operation) -> int:
    """Return the number that an operator's name ends in: ``max_pool2d`` has 2 spatial axes."""
    return int(c.call.target.split(".")[1].partition("_with")[0].removesuffix("d")[-1])


def _window(c: Operation, spatial: int) -> dict[str, Any]:
    kernel = c.spatial("kernel_size", spatial, 1)
    stride = c.ints("stride", ()) or kernel
    return {
        "kernel_shape": kernel,
        "strides": stride * spatial if len(stride) == 1 else stride,
        "pads": c.spatial("padding", spatial, 0) * 2,
        "ceil_mode": int(c.get("ceil_mode", False)),
    }


@translates(
    *(f"aten.max_pool{n}d{indices}" for n in (1, 2, 3) for indices in ("", "_with_indices"))
)
def max_pool(c: Operation) -> Outputs:
    """Translate aten.max_pool1d to 3d, with or without indices, to MaxPool."""
    spatial = _spatial_axes(c)
    window = _window(c, spatial) | {"dilations": c.spatial("dilation", spatial, 1)}
    if len(c.output_refs) > 1 and c.is_read(c.output_refs[1]):
        return _with_indices(c, spatial, window)
    y = unbatched(c, "self", spatial, lambda x: c.emit("MaxPool", x, **window))
    return [y, ""] if len(c.output_refs) > 1 else y


def _with_indices(c: Operation, spatial: int, window: Mapping[str, Any]) -> list[str]:
    """Return the maxima and their places in each channel, which ONNX counts through the tensor."""
    x, shape = c.tensor("self"), c.shape("self")
    if len(shape) == spatial + 1:
        x = c.reshape(x, (1, *shape))
    y, places = c.emit_many("MaxPool", [x], 2, **window)
    places = c.emit("Mod", places, c.constant(prod(shape[-spatial:]), "int64"))
    return [c.reshape(y, c.result_shape), c.reshape(places, c.result_shape)]


@translates("aten.max_unpool2d", "aten.max_unpool3d")
def max_unpool(c: Operation) -> str:
    """Translate aten.max_unpool2d and 3d: put each element where its index says, among zeros."""
    spatial, shape = _spatial_axes(c), c.shape("self")
    rows, count = prod(shape[:-spatial]), prod(shape[-spatial:])
    zeros = np.zeros((rows, prod(c.result_shape[-spatial:])), c.result.dtype)
    places, x = (c.reshape(c.tensor(name), (rows, count)) for name in ("indices", "self"))
    made = c.emit("ScatterElements", c.constant(zeros), places, x, axis=1)
    return c.reshape(made, c.result_shape)


@translates("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def avg_pool(c: Operation) -> str:
    """Translate aten.avg_pool1d, 2d and 3d to AveragePool.

    Another divisor scales averages of whole windows, padding included. Raises
    :class:`~hilc.errors.UnsupportedError` if windows also pass the padding (``ceil_mode``).
    """
    spatial = _spatial_axes(c)
    divisor = c.get("divisor_override")
    if divisor and c.get("ceil_mode", False):
        c.refuse("overrides the divisor with ceil_mode", "use one of the two")
    counted = bool(divisor) or bool(c.get("count_include_pad", True))
    window = _window(c, spatial) | {"count_include_pad": int(counted)}
    y = unbatched(c, "self", spatial, lambda x: c.emit("AveragePool", x, **window))
    if not divisor:
        return y
    factor = prod(c.spatial("kernel_size", spatial, 1)) / divisor
    return c.emit("Mul", y, c.constant(factor, c.result.dtype))


@translates("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d",
            "aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d")  # fmt: skip
def adaptive_avg_pool(c: Operation) -> str:
    """Translate an adaptive average pooling to AveragePool or GlobalAveragePool.

    Windows of different sizes become a mean of slices along each axis.
    """
    return _adaptive(c, "AveragePool", "GlobalAveragePool", "ReduceMean")


@translates("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def adaptive_max_pool(c: Operation) -> Outputs:
    """Translate aten.adaptive_max_pool1d, 2d and 3d to MaxPool or GlobalMaxPool.

    Windows of different sizes become a maximum of slices along each axis.
    """
    if c.is_read(c.output_refs[1]):
        return _adaptive_with_indices(c)
    return [_adaptive(c, "MaxPool", "GlobalMaxPool", "ReduceMax"), ""]


def _intervals(size: int, count: int) -> list[tuple[int, int]]:
    """Return the windows of an adaptive pooling along one axis."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive_with_indices(c: Operation) -> list[str]:
    """Return the maxima of windows and their places: each window is a row of elements.

    Where it is smaller than the largest one, its first element is repeated.
    """
    spatial, shape = _spatial_axes(c), c.shape("self")
    sizes, wanted = shape[-spatial:], c.result_shape[-spatial:]
    every: Array = np.arange(prod(sizes)).reshape(sizes)
    windows = [
        every[tuple(slice(*span) for span in spans)].reshape(-1)
        for spans in product(*map(_intervals, sizes, wanted))
    ]
    longest = max(map(len, windows))
    table = np.stack([np.pad(w, (0, longest - len(w)), constant_values=w[0]) for w in windows])
    flat = c.reshape(c.tensor("self"), (*shape[:-spatial], prod(sizes)))
    axis = len(shape) - spatial
    elements = c.emit("Gather", flat, c.constant(table), axis=axis)
    best = c.emit("ReduceMax", elements, c.integers([axis + 1]), keepdims=0)
    place = c.emit("ArgMax", elements, axis=axis + 1, keepdims=0)
    rows = c.constant(np.arange(len(windows), dtype=np.int64) * longest)
    places = c.emit("Gather", c.constant(table.reshape(-1)), c.emit("Add", place, rows), axis=0)
    return [c.reshape(best, c.result_shape), c.reshape(places, c.result_shape)]


def _adaptive(c: Operation, pool: str, whole: str, reduction: str) -> str:
    """Pool to a given size: windows are equal where it divides the input's."""
    spatial = _spatial_axes(c)
    sizes, wanted = c.shape("self")[-spatial:], c.result_shape[-spatial:]
    if all(size == 1 for size in wanted):
        return unbatched(c, "self", spatial, lambda x: c.emit(whole, x))
    if any(size % target for size, target in zip(sizes, wanted, strict=True)):
        x = c.tensor("self")
        for axis, size, count in zip(range(-spatial, 0), sizes, wanted, strict=True):
            x = _by_interval(c, x, axis, size, count, reduction)
        return x
    window = tuple(size // target for size, target in zip(sizes, wanted, strict=True))
    return unbatched(
        c, "self", spatial, lambda x: c.emit(pool, x, kernel_shape=window, strides=window)
    )


def _by_interval(c: Operation, x: str, axis: int, size: int, count: int, reduction: str) -> str:
    """Reduce the windows of an adaptive pooling along one axis."""
    axes = c.integers([axis])
    if count == 1:
        return c.emit(reduction, x, axes, keepdims=1)
    parts = [
        c.emit(
            reduction, c.emit("Slice", x, c.integers([b]), c.integers([e]), axes), axes, keepdims=1
        )
        for b, e in _intervals(size, count)
    ]
    return c.emit("Concat", *parts, axis=axis)


# Blocks -------------------------------------------------------------------------------------------


@translates("aten.unfold")
def unfold(c: Operation) -> str:
    """Translate aten.unfold: the slices of ``dimension`` in a window become the last axis."""
    axis, size, step = c.axis("dimension"), c.get("size"), c.get("step")
    shape = c.shape("self") or (1,)
    x = c.reshape(c.tensor("self"), shape) if not c.rank("self") else c.tensor("self")
    count = (shape[axis] - size) // step + 1
    places = np.arange(count).reshape(-1, 1) * step + np.arange(size)
    taken = c.emit("Gather", x, c.constant(places), axis=axis)
    order = [*range(axis + 1), *range(axis + 2, len(shape) + 1), axis + 1]
    return c.reshape(c.emit("Transpose", taken, perm=order), c.result_shape)


def _blocks(c: Operation, size: Sequence[int]) -> list[Array]:
    """Return the places of each tap of a sliding block along both axes, ``[taps, blocks]``, in the
    padded image of this size.
    """
    kernel, dilation, padding, stride = (
        c.spatial(name, 2, 1) for name in ("kernel_size", "dilation", "padding", "stride")
    )
    places = []
    for axis in range(2):
        covered = dilation[axis] * (kernel[axis] - 1) + 1
        count = (size[axis] + 2 * padding[axis] - covered) // stride[axis] + 1
        taps = np.arange(kernel[axis]) * dilation[axis]
        places.append(taps.reshape(-1, 1) + np.arange(count) * stride[axis])
    return places


@translates("aten.im2col")
def im2col(c: Operation) -> str:
    """Translate aten.im2col (``F.unfold``): the elements of each sliding block, as columns."""
    *_, channels, height, width = shape = c.shape("self")
    batch = shape[0] if len(shape) == 4 else 1
    down, along = c.spatial("padding", 2, 0)
    x = c.reshape(c.tensor("self"), (batch, channels, height, width))
    x = c.emit("Pad", x, c.integers((0, 0, down, along) * 2))
    rows, columns = _blocks(c, (height, width))
    x = c.emit("Gather", c.emit("Gather", x, c.constant(rows), axis=2), c.constant(columns), axis=4)
    return c.reshape(c.emit("Transpose", x, perm=(0, 1, 2, 4, 3, 5)), c.result_shape)


@translates("aten.col2im")
def col2im(c: Operation) -> str:
    """Translate aten.col2im (``F.fold``): add the elements of sliding blocks where they overlap."""
    height, width = c.spatial("output_size", 2, 1)
    down, along = c.spatial("padding", 2, 0)
    rows, columns = _blocks(c, (height, width))
    wide, high = width + 2 * along, height + 2 * down
    # [rows of taps, columns of taps, rows of blocks, columns of blocks]
    places = rows[:, None, :, None] * wide + columns[None, :, None, :]
    *lead, _, count = c.shape("self")
    channels = prod(lead) * c.shape("self")[-2] // (rows.shape[0] * columns.shape[0])
    x = c.reshape(c.tensor("self"), (channels, rows.shape[0] * columns.shape[0] * count))
    x = c.emit("Transpose", x, perm=(1, 0))
    zeros = c.constant(np.zeros((high * wide, channels), c.result.dtype))
    added = c.emit("ScatterND", zeros, c.constant(places.reshape(-1, 1)), x, reduction="add")
    image = c.reshape(c.emit("Transpose", added, perm=(1, 0)), (channels, high, wide))
    limits = ((down, along), (down + height, along + width), (1, 2))
    return c.reshape(c.emit("Slice", image, *map(c.integers, limits)), c.result_shape)


# Resampling ---------------------------------------------------------------------------------------


@translates("aten.upsample_nearest1d", "aten.upsample_nearest2d", "aten.upsample_nearest3d")
def nearest(c: Operation) -> str:
    """Translate aten.upsample_nearest1d, 2d and 3d: by whole numbers to Resize, else to Gather."""
    places = _places(c, 0)
    sizes = c.shape(_source(c))[2:]
    if all(
        len(found) % size == 0 and (found == np.repeat(range(size), len(found) // size)).all()
        for found, size in zip(places, sizes, strict=True)
    ):
        return c.emit("Resize", c.tensor(_source(c)), "", "", c.integers(c.result_shape),
                      mode="nearest", coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor")  # fmt: skip
    return _gathered(c, places)


@translates(*(f"aten._upsample_nearest_exact{n}d" for n in (1, 2, 3)))
def nearest_exact(c: Operation) -> str:
    """Translate nearest-exact to Gather along each axis."""
    return _gathered(c, _places(c, 0.5))


def _places(c: Operation, centre: float) -> list[Array]:
    """Return the nearest input to each output along each axis, by PyTorch's rule in float32."""
    sizes, targets, factors = c.shape(_source(c))[2:], c.result_shape[2:], _factors(c)
    made = []
    for axis, (size, target) in enumerate(zip(sizes, targets, strict=True)):
        ratio = 1 / factors[axis] if len(factors) == len(sizes) else size / target
        points: Array = (np.arange(target, dtype=np.float32) + np.float32(centre)) * np.float32(
            ratio
        )
        if centre == 0 and len(sizes) == 2 and target in (size, 2 * size):
            # Of images alone, whatever the factor is.
            points = np.arange(target) // (target // size)
        made.append(np.minimum(np.floor(points).astype(np.int64), size - 1))
    return made


def _gathered(c: Operation, places: Sequence[Array]) -> str:
    x = c.tensor(_source(c))
    for axis, (found, size) in enumerate(zip(places, c.shape(_source(c))[2:], strict=True)):
        if found.tolist() != list(range(size)):
            x = c.emit("Gather", x, c.constant(found), axis=axis + 2)
    return x


@translates("aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa")
def antialiased(c: Operation) -> str:
    """Translate bilinear and bicubic interpolation with ``antialias`` to Resize.

    Raises :class:`~hilc.errors.UnsupportedError` for ``align_corners``, with which PyTorch places
    the windows of its filter where no coordinates of Resize do.
    """
    if c.get("align_corners", False):
        c.refuse("has antialias and align_corners", "use one of the two")
    mode = "cubic" if "bicubic" in c.call.target else "linear"
    # The coefficient is -0.75 without antialias, and that of Pillow with it.
    return _resize(c, mode=mode, coordinate_transformation_mode="half_pixel", antialias=1,
                   exclude_outside=1, cubic_coeff_a=-0.5)  # fmt: skip


@translates("aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
def grid_sampler(c: Operation) -> str:
    """Translate aten.grid_sampler to GridSample."""
    return c.emit(
        "GridSample", c.tensor("input"), c.tensor("grid"),
        mode=("linear", "nearest", "cubic")[c.get("interpolation_mode", 0)],
        padding_mode=("zeros", "border", "reflection")[c.get("padding_mode", 0)],
        align_corners=int(c.get("align_corners", False)),
    )  # fmt: skip


@translates("aten.affine_grid_generator")
def affine_grid(c: Operation) -> str:
    """Translate aten.affine_grid_generator to AffineGrid, or to a product with the places where
    ONNX leaves one open: of the only pixel of an axis with aligned corners.
    """
    size, align = c.ints("size"), bool(c.get("align_corners", False))
    if not align or 1 not in size[2:]:
        return c.emit("AffineGrid", c.tensor("theta"), c.integers(size), align_corners=int(align))
    places = c.constant(affine_places(size[2:], align=True).T, "float32")
    grid = c.emit("MatMul", c.tensor("theta"), places)
    rows = c.emit("Transpose", grid, perm=(0, 2, 1))
    return c.emit("Reshape", rows, c.integers((size[0], *size[2:], len(size) - 2)))


@translates("aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d")
def linear(c: Operation) -> str:
    """Translate aten.upsample_linear1d, bilinear2d and trilinear3d to linear Resize."""
    return _resize(c, mode="linear", coordinate_transformation_mode=_coordinates(c))


@translates("aten.upsample_bicubic2d")
def cubic(c: Operation) -> str:
    """Translate aten.upsample_bicubic2d to cubic Resize with the coefficient -0.75."""
    return _resize(c, mode="cubic", coordinate_transformation_mode=_coordinates(c),
                   cubic_coeff_a=-0.75)  # fmt: skip


def _coordinates(c: Operation) -> str:
    # ONNX's pytorch_half_pixel places the only output at 0; PyTorch places it at the centre.
    return "align_corners" if c.get("align_corners", False) else "half_pixel"


def _resize(c: Operation, **attributes: Any) -> str:
    """Resize by the factors that the call states, which decide the coordinates, or to its size."""
    x, factors = c.tensor(_source(c)), _factors(c)
    if len(factors) == len(c.result_shape) - 2:
        # An axis that keeps its size is copied, whatever its factor is.
        copies = attributes["mode"] == "linear" or "antialias" in attributes
        sizes = zip(c.shape(_source(c))[2:], c.result_shape[2:], factors, strict=True)
        factors = [
            1.0 if copies and size == target else _single(size, target, factor)
            for size, target, factor in sizes
        ]
    if factors and attributes["coordinate_transformation_mode"] != "align_corners":
        return c.emit("Resize", x, "", c.constant((1, 1, *factors), "float32"), **attributes)
    return c.emit("Resize", x, "", "", c.integers(c.result_shape), **attributes)


def _single(size: int, target: int, factor: float) -> float:
    """Return a factor in single precision by which the size becomes the target, as it does by the
    factor in double precision.
    """
    found = np.float32(factor)
    for _ in range(4):
        made = int(np.float32(size) * found)
        if made != target:
            found = np.nextafter(found, np.float32(0 if made > target else np.inf))
    return float(found)


def _source(c: Operation) -> str:
    """Return the argument that is resampled."""
    return "input" if c.has("input") else "self"


def _factors(c: Operation) -> Sequence[float]:
    stated = c.get("scale_factors")
    if stated:
        return tuple(map(float, stated))
    named = [name for name in ("scales", "scales_d", "scales_h", "scales_w") if c.has(name)]
    return tuple(float(c.get(name)) for name in named)


@translates("aten.pixel_shuffle")
def pixel_shuffle(c: Operation) -> str:
    """Translate aten.pixel_shuffle to DepthToSpace in CRD order."""
    return c.emit("DepthToSpace", c.tensor("self"), blocksize=c.get("upscale_factor"), mode="CRD")


@translates("aten.pixel_unshuffle")
def pixel_unshuffle(c: Operation) -> str:
    """Channels outermost, which ONNX's SpaceToDepth has innermost."""
    block = c.get("downscale_factor")
    *batch, channels, height, width = c.shape("self")
    count = 1
    for size in batch:
        count *= size
    x = c.reshape(
        c.tensor("self"), (count, channels, height // block, block, width // block, block)
    )
    return c.reshape(c.emit("Transpose", x, perm=(0, 1, 3, 5, 2, 4)), c.result_shape)


@translates("aten.channel_shuffle", "aten.native_channel_shuffle")
def channel_shuffle(c: Operation) -> str:
    """Translate aten.channel_shuffle to Reshape, Transpose of groups and channels, Reshape."""
    n, channels, *spatial = c.shape("self")
    groups = c.get("groups")
    x = c.reshape(c.tensor("self"), (n, groups, channels // groups, *spatial))
    rest = range(3, 3 + len(spatial))
    return c.reshape(c.emit("Transpose", x, perm=(0, 2, 1, *rest)), c.result_shape)
