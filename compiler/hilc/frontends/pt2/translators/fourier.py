"""Fourier transforms of constant lengths: products with matrices of cosines and sines.

A long transform of ``n1 * n2`` samples is two of ``n1`` and ``n2`` with factors between them
(Cooley and Tukey), whose matrices are much smaller: of 512 samples 14 KiB in place of 1 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from hilc.frontends.pt2.model import REAL_PARTS, Operation, translates, translates_complex
from hilc.ir import Array

#: Longest transform that is one matrix.
_WHOLE = 32
#: Scale of a transform by PyTorch's number for it: 1, 1 / sqrt(n), 1 / n.
_POWERS = (0.0, -0.5, -1.0)
#: The powers of ``n`` that a forward and an inverse transform are multiplied by.
_NORMS = {"backward": (0.0, -1.0), "ortho": (-0.5, -0.5), "forward": (-1.0, 0.0)}

#: The outputs of a transform: all frequencies, the first half, or samples without imaginary parts.
_Kind = Literal["all", "half", "real"]


def _circle(rows: int, columns: int, length: int) -> tuple[Array, Array]:
    """Return cosine and sine of ``row * column`` steps of a circle of ``length``; what is 0 by
    definition is 0, so that the angle of a real frequency is exact.
    """
    steps = np.outer(np.arange(rows), np.arange(columns)) % length
    cosine, sine = np.cos(steps * (2 * np.pi / length)), np.sin(steps * (2 * np.pi / length))
    cosine[(4 * steps == length) | (4 * steps == 3 * length)] = 0
    sine[(2 * steps) % length == 0] = 0
    return cosine, sine


def _factors(length: int) -> tuple[int, int]:
    """Return the two factors of a length that are closest to each other; the second of an even
    length is even, so that the middle frequency of real samples has the imaginary part 0: it is
    summed from real numbers alone.
    """
    first = next(n for n in range(int(length**0.5), 0, -1) if length % n == 0)
    second = length // first
    if second % 2 and length % 2 == 0 and first > 1:
        first, second = second, first
    return first, second


class _Transforms:
    """Transforms along the last axis, in the nodes of one call."""

    def __init__(self, c: Operation, dtype: str) -> None:
        self._c = c
        self._dtype = dtype

    def along(
        self, parts: Sequence[str], shape: Sequence[int], length: int, kind: _Kind, power: float,
        *, inverse: bool,
    ) -> list[str]:  # fmt: skip
        """Return the parts of a transform of ``shape[-1] == length`` samples or frequencies.

        ``parts`` are real parts, or real and imaginary ones. The result is multiplied by ``length``
        to the ``power``.
        """
        c, lead = self._c, tuple(shape[:-1])
        sign, scale = (1 if inverse else -1), float(length) ** power
        first, second = _factors(length)
        if length <= _WHOLE or first == 1:
            columns = length // 2 + 1 if kind == "half" else length
            x = self._joined(parts, len(shape) - 1)
            x = self._product(x, parts, _circle(length, columns, length), sign, scale, kind)
            return self._cut(x, lead, columns, kind)
        # Sample second * i + j, frequency first * l + k: sums over i, then over j.
        last = len(lead)
        order = [*range(last), last + 1, last]
        split = [c.emit("Transpose", c.reshape(p, (*lead, first, second)), perm=order)
                 for p in parts]  # fmt: skip
        x = self._joined(split, last + 1)
        x = self._product(x, parts, _circle(first, first, first), sign, 1.0, "all")
        real, imaginary = self._cut(x, (*lead, second), first, "all")
        steps = _circle(second, first, length)
        cosine, sine = self._constant(steps[0]), self._constant(sign * steps[1])
        turned = (
            c.emit("Sub", c.emit("Mul", real, cosine), c.emit("Mul", imaginary, sine)),
            c.emit("Add", c.emit("Mul", real, sine), c.emit("Mul", imaginary, cosine)),
        )
        x = self._joined([c.emit("Transpose", p, perm=order) for p in turned], last + 1)
        rows = (length // 2) // first + 1 if kind == "half" else second
        x = self._product(x, turned, _circle(second, rows, second), sign, scale, kind)
        made = []
        for p in self._cut(x, (*lead, first), rows, kind):
            flat = c.reshape(c.emit("Transpose", p, perm=order), (*lead, rows * first))
            count = length // 2 + 1 if kind == "half" else length
            made.append(self.sliced(flat, last, 0, count) if count < rows * first else flat)
        return made

    def _joined(self, parts: Sequence[str], axis: int) -> str:
        return parts[0] if len(parts) == 1 else self._c.emit("Concat", *parts, axis=axis)

    def _product(
        self, x: str, parts: Sequence[str], circle: tuple[Array, Array], sign: int, scale: float,
        kind: _Kind,
    ) -> str:  # fmt: skip
        """Return real and imaginary results side by side, from parts side by side."""
        cosine, sine = scale * circle[0], sign * scale * circle[1]
        rows = [[cosine, sine], [-sine, cosine]][: len(parts)]
        # Without a negative zero, a real frequency has the imaginary part 0.
        matrix = np.block([row[:1] if kind == "real" else row for row in rows]) + 0.0
        return self._c.emit("MatMul", x, self._constant(matrix))

    def _cut(self, x: str, lead: Sequence[int], columns: int, kind: _Kind) -> list[str]:
        if kind == "real":
            return [x]
        sizes = self._c.integers((columns, columns))
        return self._c.emit_many("Split", [x, sizes], 2, axis=len(lead))

    def _constant(self, value: Array) -> str:
        return self._c.constant(value, self._dtype)

    def sliced(self, x: str, axis: int, start: int, end: int) -> str:
        """Return the entries ``start`` to ``end`` along an axis."""
        return self._c.emit("Slice", x, *(self._c.integers([n]) for n in (start, end, axis)))

    def resized(self, x: str, shape: Sequence[int], axis: int, size: int) -> str:
        """Return a tensor cut, or filled with zeros, to a size along an axis."""
        if size < shape[axis]:
            return self.sliced(x, axis, 0, size)
        if size == shape[axis]:
            return x
        amounts = [0] * (2 * len(shape))
        amounts[len(shape) + axis] = size - shape[axis]
        return self._c.emit("Pad", x, self._c.integers(amounts), self._constant(np.zeros(())))

    def mirrored(self, parts: Sequence[str], rank: int, axis: int, length: int) -> list[str]:
        """Return all frequencies of real samples from the first ``length // 2 + 1``."""
        places = np.arange(length)
        first = np.minimum(places, length - places)
        indices = self._c.integers(first.tolist())
        real, imaginary = (self._c.emit("Gather", p, indices, axis=axis) for p in parts)
        # PyTorch ignores the imaginary parts of frequencies that real samples leave without any.
        signs = np.where(first == places, 1.0, -1.0)
        signs[0] = 0
        if length % 2 == 0:
            signs[length // 2] = 0
        signs = signs.reshape(length, *(1,) * (rank - 1 - axis))
        return [real, self._c.emit("Mul", imaginary, self._constant(signs))]


def _transformed(
    c: Operation, parts: list[str], shape: list[int], axes: Sequence[int], sizes: Sequence[int],
    power: float, *, inverse: bool, kind: _Kind,
) -> list[str]:  # fmt: skip
    """Return a transform along axes; the last one has only the first half of the frequencies on
    its real side.
    """
    make = _Transforms(c, REAL_PARTS.get(c.result.dtype, c.result.dtype))
    pairs = list(zip(axes, sizes, strict=True))
    # One-sided: real samples are transformed first, and made last.
    for number, (axis, size) in enumerate(reversed(pairs) if kind == "half" else pairs):
        is_real_side = number == (0 if kind == "half" else len(pairs) - 1)
        own: _Kind = kind if is_real_side else "all"
        half = size // 2 + 1
        given = half if own == "real" else size
        parts = [make.resized(part, shape, axis, given) for part in parts]
        shape[axis] = given
        if own == "real":
            parts = make.mirrored(parts, len(shape), axis, size)
            shape[axis] = size
        order = [*(a for a in range(len(shape)) if a != axis), axis]
        moved = [shape[a] for a in order]
        is_last = axis == len(shape) - 1
        if not is_last:
            parts = [c.emit("Transpose", part, perm=order) for part in parts]
        parts = make.along(parts, moved, size, own, power, inverse=inverse)
        if not is_last:
            back = np.argsort(order).tolist()
            parts = [c.emit("Transpose", part, perm=back) for part in parts]
        shape[axis] = half if own == "half" else size
    return parts


def _result(c: Operation, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else c.pair(parts[0], parts[1])


def _given(c: Operation) -> list[str]:
    """Return the parts of the operand."""
    x, dtype = c.tensor("self"), c.signature("self").dtype
    if dtype in REAL_PARTS:
        return list(c.pair_of(x))
    return [c.cast(x, dtype, REAL_PARTS.get(c.result.dtype, c.result.dtype))]


_FORWARD, _INVERSE = ("fft", "rfft"), ("ifft", "irfft")


@translates_complex(
    *(f"aten.fft_{name}{rank}" for name in (*_FORWARD, *_INVERSE) for rank in ("", "2", "n"))
)
def fft(c: Operation) -> str:
    """Translate the transforms of ``torch.fft`` along one axis, two or several."""
    name = c.call.target.split(".")[1].removeprefix("fft_").rstrip("2n")
    kind: _Kind = "half" if name == "rfft" else "real" if name == "irfft" else "all"
    parts, shape = _given(c), list(c.shape("self"))
    if c.call.target.split(".")[1].endswith(("2", "n")):
        sizes = c.ints("s", ())
        count = len(sizes) or len(shape)
        default = (-2, -1) if c.call.target.split(".")[1].endswith("2") else range(-count, 0)
        axes = c.axes_of("self", c.ints("dim", default))
    else:
        axes = c.axes_of("self", c.ints("dim", (-1,)))
        sizes = (c.get("n"),) if c.has("n") else ()
    if not sizes:
        sizes = tuple(shape[axis] for axis in axes)
        if kind == "real":
            sizes = (*sizes[:-1], 2 * (sizes[-1] - 1))
    sizes = tuple(shape[a] if s == -1 else s for a, s in zip(axes, sizes, strict=True))
    power = _NORMS[c.get("norm", "backward")][name in _INVERSE]
    return _result(
        c, _transformed(c, parts, shape, axes, sizes, power, inverse=name in _INVERSE, kind=kind)
    )


@translates_complex("aten._fft_r2c", "aten._fft_c2c", "aten._fft_c2r")
def fft_basic(c: Operation) -> str:
    """Translate the transforms that PyTorch replaces those of ``torch.fft`` by."""
    name = c.call.target.split(".")[1]
    axes, shape = c.axes("dim"), list(c.shape("self"))
    sizes = [shape[axis] for axis in axes]
    kind: _Kind = "all"
    if name == "_fft_c2r":
        kind, sizes[-1] = "real", c.get("last_dim_size")
    elif name == "_fft_r2c" and c.get("onesided"):
        kind = "half"
    inverse = name == "_fft_c2r" or (name == "_fft_c2c" and not c.get("forward"))
    power = _POWERS[c.get("normalization")]
    return _result(c, _transformed(c, _given(c), shape, axes, sizes, power, inverse=inverse,
                                   kind=kind))  # fmt: skip


@translates("aten.fft_fftshift", "aten.fft_ifftshift")
def fftshift(c: Operation) -> str:
    """Translate aten.fft_fftshift and fft_ifftshift to Gather along each axis."""
    x = c.tensor("self")
    for axis in c.axes("dim"):
        size = c.shape("self")[axis]
        by = size // 2 if "ifft" not in c.call.target else (size + 1) // 2
        x = c.emit("Gather", x, c.integers(np.roll(np.arange(size), by).tolist()), axis=axis)
    return x


# Short-time transforms ----------------------------------------------------------------------------


def _window(c: Operation, length: int, dtype: str) -> str:
    """Return the window, filled with zeros on both sides; empty for one of ones."""
    own = c.get("win_length", length)
    left = (length - own) // 2
    if c.has("window"):
        window = c.tensor("window")
        if c.signature("window").dtype != dtype:
            c.refuse(f"has a window of {c.signature('window').dtype}", f"give one of {dtype}")
    elif own == length:
        return ""
    else:
        window = c.constant(np.ones(own), dtype)
    if own == length:
        return window
    return c.emit("Pad", window, c.integers((left, length - own - left)), c.constant(0, dtype))


@translates("aten.stft")
@translates_complex("aten.stft")
def stft(c: Operation) -> str:
    """Translate aten.stft of real signals: frames, a window, and a transform of each.

    Raises :class:`~hilc.errors.UnsupportedError` for complex signals, and all frequencies.
    """
    dtype = c.signature("self").dtype
    if dtype in REAL_PARTS or not c.get("onesided", True):
        c.refuse("transforms a complex signal, or gives all frequencies",
                 "a real signal with onesided=True is supported")  # fmt: skip
    length, (*lead, size) = c.get("n_fft"), c.shape("self")
    step = c.get("hop_length", length // 4)
    x = c.reshape(c.tensor("self"), (*(lead or [1]), size))
    if c.get("center", False):
        mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge",
                "circular": "wrap"}[c.get("pad_mode", "reflect")]  # fmt: skip
        x = c.emit("Pad", x, c.integers((0, length // 2) * 2), mode=mode)
        size += length // 2 * 2
    count = (size - length) // step + 1
    places = np.arange(count).reshape(-1, 1) * step + np.arange(length)
    frames = c.emit("Gather", x, c.constant(places, "int64"), axis=1)
    window = _window(c, length, dtype)
    if window:
        frames = c.emit("Mul", frames, window)
    make = _Transforms(c, dtype)
    power = -0.5 if c.get("normalized", False) else 0.0
    shape = (lead[0] if lead else 1, count, length)
    parts = make.along([frames], shape, length, "half", power, inverse=False)
    turned = [c.emit("Transpose", part, perm=(0, 2, 1)) for part in parts]
    real, imaginary = (c.reshape(p, (*lead, length // 2 + 1, count)) for p in turned)
    if c.result.dtype in REAL_PARTS:
        return c.pair(real, imaginary)
    single = (*lead, length // 2 + 1, count, 1)
    both = (c.reshape(p, single) for p in (real, imaginary))
    return c.emit("Concat", *both, axis=len(single) - 1)


@translates_complex("aten.istft")
def istft(c: Operation) -> str:
    """Translate aten.istft: transform each frame back, add where they overlap, and divide by the
    sum of the squares of the window, which must be constant.

    Raises :class:`~hilc.errors.UnsupportedError` for a window computed at run time, for complex
    signals, and all frequencies.
    """
    if c.get("return_complex", False) or not c.get("onesided", True):
        c.refuse("makes a complex signal, or takes all frequencies",
                 "a real signal with onesided=True is supported")  # fmt: skip
    length, dtype = c.get("n_fft"), REAL_PARTS[c.signature("self").dtype]
    step, own = c.get("hop_length", length // 4), c.get("win_length", length)
    *lead, half, count = c.shape("self")
    if half != length // 2 + 1:
        c.refuse(f"has {half} frequencies for {length} samples", "give onesided=True")
    window = np.ones(own) if not c.has("window") else c.value("window").astype(np.float64)
    left = (length - own) // 2
    window = np.pad(window, (left, length - own - left))
    batch = lead[0] if lead else 1
    turned = [c.emit("Transpose", c.reshape(part, (batch, half, count)), perm=(0, 2, 1))
              for part in c.pair_of(c.tensor("self"))]  # fmt: skip
    make = _Transforms(c, dtype)
    parts = make.mirrored(turned, 3, 2, length)
    power = -0.5 if c.get("normalized", False) else -1.0
    (frames,) = make.along(parts, (batch, count, length), length, "real", power, inverse=True)
    frames = c.emit("Mul", frames, c.constant(window, dtype))
    whole = length + step * (count - 1)
    added = c.emit(
        "Col2Im", c.emit("Transpose", frames, perm=(0, 2, 1)), c.integers((1, whole)),
        c.integers((1, length)), strides=(1, step),
    )  # fmt: skip
    weight = np.zeros(whole)
    for frame in range(count):
        weight[frame * step : frame * step + length] += window**2
    start = length // 2 if c.get("center", True) else 0
    size = c.result_shape[-1]
    signal = make.sliced(c.reshape(added, (batch, whole)), 1, start, min(start + size, whole))
    scaled = c.emit("Div", signal, c.constant(weight[start : start + size], dtype))
    filled = make.resized(scaled, (batch, min(size, whole - start)), 1, size)
    return c.reshape(filled, c.result_shape)
