"""Pooling and resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hilc.frontends.pt2.model import Operation, Outputs, translates
from hilc.frontends.pt2.translators.layers import unbatched


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


@translates("aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d",
            "aten.max_pool2d_with_indices")  # fmt: skip
def max_pool(c: Operation) -> Outputs:
    """Translate aten.max_pool1d to 3d, with or without indices, to MaxPool."""
    spatial = _spatial_axes(c)
    window = _window(c, spatial) | {"dilations": c.spatial("dilation", spatial, 1)}
    y = unbatched(c, "self", spatial, lambda x: c.emit("MaxPool", x, **window))
    # The indices are for training; a node that reads them is rejected.
    return [y, ""] if "with_indices" in c.call.target else y


@translates("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def avg_pool(c: Operation) -> str:
    """Translate aten.avg_pool1d, 2d and 3d to AveragePool.

    Raises :class:`~hilc.errors.UnsupportedError` if ``divisor_override`` is given.
    """
    if c.has("divisor_override"):
        c.refuse("overrides the divisor", "multiply by the quotient in a separate operator")
    spatial = _spatial_axes(c)
    window = _window(c, spatial) | {"count_include_pad": int(c.get("count_include_pad", True))}
    return unbatched(c, "self", spatial, lambda x: c.emit("AveragePool", x, **window))


@translates("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d",
            "aten._adaptive_avg_pool2d")  # fmt: skip
def adaptive_avg_pool(c: Operation) -> str:
    """Translate an adaptive average pooling to AveragePool or GlobalAveragePool."""
    return _adaptive(c, "AveragePool", "GlobalAveragePool")


@translates("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def adaptive_max_pool(c: Operation) -> Outputs:
    """Translate aten.adaptive_max_pool1d, 2d and 3d to MaxPool or GlobalMaxPool."""
    return [_adaptive(c, "MaxPool", "GlobalMaxPool"), ""]


def _adaptive(c: Operation, pool: str, whole: str) -> str:
    """Pool to a given size: windows are equal where it divides the input's."""
    spatial = _spatial_axes(c)
    sizes, wanted = c.shape("self")[-spatial:], c.result_shape[-spatial:]
    if all(size == 1 for size in wanted):
        return unbatched(c, "self", spatial, lambda x: c.emit(whole, x))
    if any(size % target for size, target in zip(sizes, wanted, strict=True)):
        c.refuse(
            f"pools {list(sizes)} to {list(wanted)}, in windows of different sizes",
            "choose sizes that divide the input's",
        )
    window = tuple(size // target for size, target in zip(sizes, wanted, strict=True))
    return unbatched(
        c, "self", spatial, lambda x: c.emit(pool, x, kernel_shape=window, strides=window)
    )


# Resampling ---------------------------------------------------------------------------------------


@translates("aten.upsample_nearest1d", "aten.upsample_nearest2d", "aten.upsample_nearest3d")
def nearest(c: Operation) -> str:
    """Translate aten.upsample_nearest1d, 2d and 3d to Resize, nearest, asymmetric, rounded down."""
    return _resize(c, mode="nearest", coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor")  # fmt: skip


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
    x = c.tensor("input" if c.has("input") else "self")
    factors = _factors(c)
    if factors and attributes["coordinate_transformation_mode"] != "align_corners":
        return c.emit("Resize", x, "", c.constant((1, 1, *factors), "float32"), **attributes)
    return c.emit("Resize", x, "", "", c.integers(c.result_shape), **attributes)


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
