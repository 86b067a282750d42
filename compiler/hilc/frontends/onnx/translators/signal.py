"""Spectra and windows: transforms are products with constant matrices."""

from __future__ import annotations

import numpy as np

from hilc.frontends.onnx.operation import Operation, is_real, translates
from hilc.frontends.onnx.translators.control_flow import stacked
from hilc.frontends.onnx.translators.elementwise import combined
from hilc.frontends.onnx.translators.indexing import taken
from hilc.frontends.onnx.translators.matmul import product
from hilc.frontends.onnx.translators.movement import sliced
from hilc.frontends.onnx.translators.normalization import inverse, to_the_end
from hilc.frontends.onnx.translators.pooling import surrounded
from hilc.ir import Tensor
from hilc.ops.concat_split import ConcatenationAttributes


@translates("DFT")
def dft(n: Operation) -> Tensor:
    """Translate DFT along one axis of ``[..., 1 or 2]``: real parts, or real and imaginary."""
    x = n.input(0)
    rank = len(x.shape)
    if n.version < 20:
        axis = n.axis(n.integer("axis", 1), rank)
    else:
        axis = n.axis(n.known_int(2, "the axis") if n.has(2) else -2, rank)
    if not is_real(x) or axis == rank - 1 or x.shape[-1] not in (1, 2):
        n.refuse(f"transforms {x.dtype}{list(x.shape)} along axis {axis}", "give it float32")
    one_sided, backwards = bool(n.integer("onesided", 0)), bool(n.integer("inverse", 0))
    whole = 2 * (x.shape[axis] - 1) if one_sided and backwards else x.shape[axis]
    length = n.known_int(1, "the length") if n.has(1) else whole
    return transformed(n, x, axis, length, one_sided=one_sided, backwards=backwards)


def transformed(
    n: Operation, x: Tensor, axis: int, length: int, *, one_sided: bool, backwards: bool
) -> Tensor:
    """Return the spectrum of a length, cut or filled with zeros to it."""
    rank, size = len(x.shape), x.shape[axis]
    if one_sided and backwards:
        if x.shape[-1] != 2:
            n.refuse("turns a one-sided spectrum without imaginary parts", "give both parts")
        # What is left out is the mirror image, conjugated.
        known = min(length // 2 + 1, size)
        missing = np.arange(length - known, 0, -1)
        mirror = taken(n, x, n.constant(missing, "int32"), axis)
        sign = n.constant([1, -1], "float32")
        head = sliced(n, x, [0] * rank, [known if i == axis else s for i, s in enumerate(x.shape)],
                      [1] * rank)  # fmt: skip
        parts = [head, combined(n, "Mul", mirror, sign)] if missing.size else [head]
        x = (
            n.emit("CONCATENATION", *parts, attrs=ConcatenationAttributes(axis=axis))
            if (len(parts) > 1)
            else head
        )
    elif length < size:
        end = [length if i == axis else s for i, s in enumerate(x.shape)]
        x = sliced(n, x, [0] * rank, end, [1] * rank)
    elif length > size:
        x = surrounded(n, x, {axis: (0, length - size)}, 0)
    count = length // 2 + 1 if one_sided and not backwards else length
    angles = 2 * np.pi * np.outer(np.arange(length), np.arange(count)) / length
    scale = 1 / length if backwards else 1.0
    cosine, sine = np.cos(angles) * scale, np.sin(angles) * (scale if backwards else -scale)
    parts = [
        n.reshape(
            sliced(n, x, [*[0] * (rank - 1), i], [*x.shape[:-1], i + 1], [1] * rank), x.shape[:-1]
        )
        for i in range(x.shape[-1])
    ]
    order = to_the_end(axis, rank - 1)
    moved = [n.transpose(part, order) for part in parts]
    real = product(n, moved[0], n.constant(cosine, "float32"))
    imaginary = product(n, moved[0], n.constant(sine, "float32"))
    if len(moved) == 2:
        real = combined(n, "Sub", real, product(n, moved[1], n.constant(sine, "float32")))
        other = product(n, moved[1], n.constant(cosine, "float32"))
        imaginary = combined(n, "Add", imaginary, other)
    back = inverse(order)
    made = [n.transpose(part, back) for part in (real, imaginary)]
    if one_sided and backwards:
        return n.reshape(made[0], (*made[0].shape, 1))
    return stacked(n, made, rank - 1)


@translates("STFT")
def stft(n: Operation) -> Tensor:
    """Transform frames of a signal ``[batch, length, 1 or 2]``."""
    x, step = n.input(0), n.known_int(1, "the step between frames")
    window = n.optional(2)
    if n.has(3):
        length = n.known_int(3, "the length of a frame")
    elif window is not None:
        length = window.size
    else:
        n.invalid("states neither a window nor the length of a frame")
    count = (x.shape[1] - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)[None]
    frames = taken(n, x, n.constant(places, "int32"), 1)
    if window is not None:
        frames = combined(n, "Mul", frames, n.reshape(window, (window.size, 1)))
    one_sided = bool(n.integer("onesided", 1))
    return transformed(n, frames, 2, length, one_sided=one_sided, backwards=False)
