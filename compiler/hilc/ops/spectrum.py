"""Spectra of signals, of TensorFlow Lite Micro's signal library: custom operators.

SIGNAL_WINDOW weights each frame of samples, SIGNAL_FFT_AUTO_SCALE makes a frame as loud as 16 bits
allow and says by how many bits, SIGNAL_RFFT and SIGNAL_IRFFT go from frames to spectra and back
(real and imaginary parts in turn), SIGNAL_ENERGY squares the magnitudes of a spectrum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.numerics.fourier import Transform
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_counts, require_dtype, unsupported

_SAMPLES = ("int16",)
_TRANSFORMED = ("int16", "int32", "float32")
_MOST_LENGTH = 1 << 15


@dataclass(frozen=True, kw_only=True)
class WindowedAttributes(Attributes):
    """Attributes of SIGNAL_WINDOW."""

    #: Right shift of products with weights, in bits, 0 to 31.
    shift: int


@dataclass(frozen=True, kw_only=True)
class FourierAttributes(Attributes):
    """Attributes of SIGNAL_RFFT and SIGNAL_IRFFT."""

    #: Samples of a frame, a power of two; a shorter frame is padded with zeros.
    fft_length: int


@dataclass(frozen=True, kw_only=True)
class EnergyAttributes(Attributes):
    """Attributes of SIGNAL_ENERGY."""

    #: Index of the first frequency whose energy is computed; the energy of others is 0.
    start_index: int
    #: Index after the last one.
    end_index: int


def _infer_window(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x, weights = operand(node, ins, 0), operand(node, ins, 1)
    for tensor in (x, weights):
        require_dtype(node, tensor, _SAMPLES)
    if len(weights.shape) != 1 or x.shape[-1:] != weights.shape:
        invalid(node, f"has {list(weights.shape)} weights for frames of shape {list(x.shape)}")
    shift = WindowedAttributes.of(node).shift
    if not 0 <= shift <= 31:
        invalid(node, f"has the shift {shift} (accepted: 0 to 31)")
    return [(x.shape, x.dtype)]


def _window(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, weights = values
    assert x is not None
    assert weights is not None
    products = x.astype(np.int64) * weights >> WindowedAttributes.of(node).shift
    return [np.clip(products, *outs[0].element.bounds).astype(outs[0].dtype)]


def fourier_length(node: Node, x: Tensor) -> int:
    """Return the samples of a frame, checked."""
    require_dtype(node, x, _TRANSFORMED)
    length = FourierAttributes.of(node).fft_length
    if length & (length - 1) or not 4 <= length <= _MOST_LENGTH:
        unsupported(
            node,
            f"transforms frames of {length} samples (supported: powers of two from 4 to "
            f"{_MOST_LENGTH})",
            "pad the frames to the next power of two",
        )
    if not x.shape:
        invalid(node, f"transforms {x.name!r}, which has no dimension")
    return length


def _infer_rfft(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    length = fourier_length(node, x)
    if x.shape[-1] > length:
        invalid(node, f"has frames of {x.shape[-1]} samples, more than {length}")
    return [((*x.shape[:-1], length + 2), x.dtype)]


def _rfft(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    (x,) = values
    assert x is not None
    length = fourier_length(node, operand(node, ins, 0))
    missing = [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])]
    return [Transform(length, outs[0].dtype).spectrum(np.pad(x, missing))]


def _infer_irfft(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    length = fourier_length(node, x)
    if x.shape[-1] != length + 2:
        invalid(
            node, f"has spectra of {x.shape[-1]} numbers for {length} samples, not {length + 2}"
        )
    return [((*x.shape[:-1], length), x.dtype)]


def _irfft(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    (x,) = values
    assert x is not None
    length = fourier_length(node, operand(node, ins, 0))
    return [Transform(length, outs[0].dtype, inverse=True).signal(x)]


def _infer_auto_scale(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1, outputs=2)
    x = operand(node, ins, 0)
    require_dtype(node, x, _SAMPLES)
    if len(x.shape) != 1:
        invalid(node, f"scales {x.name!r} of shape {list(x.shape)}, not one frame")
    return [(x.shape, x.dtype), ((), "int32")]


def _auto_scale(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    (x,) = values
    assert x is not None
    samples = x.astype(np.int64)
    bits = outs[0].element.dl_bits
    least = outs[0].element.bounds[0]
    loudest = int(np.abs(samples).max())
    if (samples == least).any():
        # Its magnitude has no place in its type: the reference begins anew behind it, with a sign.
        loudest = least
        for value in samples[np.flatnonzero(samples == least)[-1] + 1 :].tolist():
            loudest = value if value > loudest else max(loudest, -value)
    # Silence stays as it is.
    scale = max(0, bits - 1 - loudest.bit_length()) if loudest > 0 else 0
    scaled = (samples << scale).astype(x.dtype)
    return [scaled, np.array(scale, np.int32)]


def _infer_energy(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, _SAMPLES)
    if len(x.shape) != 1 or x.shape[0] % 2:
        invalid(node, f"has a spectrum of shape {list(x.shape)}, not of pairs")
    wanted = EnergyAttributes.of(node)
    if not 0 <= wanted.start_index <= wanted.end_index <= x.shape[0] // 2:
        invalid(
            node,
            f"wants frequencies {wanted.start_index} to {wanted.end_index} of {x.shape[0] // 2}",
        )
    return [((x.shape[0] // 2,), "uint32")]


def _energy(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    (x,) = values
    assert x is not None
    wanted = EnergyAttributes.of(node)
    energy = (x.astype(np.int64).reshape(-1, 2) ** 2).sum(1)
    energy[: wanted.start_index] = 0
    energy[wanted.end_index :] = 0
    return [energy.astype(outs[0].dtype)]


SIGNAL_WINDOW = OpDef(_infer_window, _window, attributes=WindowedAttributes)
SIGNAL_RFFT = OpDef(_infer_rfft, _rfft, attributes=FourierAttributes)
SIGNAL_IRFFT = OpDef(_infer_irfft, _irfft, attributes=FourierAttributes)
SIGNAL_FFT_AUTO_SCALE = OpDef(_infer_auto_scale, _auto_scale)
SIGNAL_ENERGY = OpDef(_infer_energy, _energy, attributes=EnergyAttributes)

OPERATORS: Mapping[str, OpDef] = {
    "SIGNAL_WINDOW": SIGNAL_WINDOW,
    "SIGNAL_RFFT": SIGNAL_RFFT,
    "SIGNAL_IRFFT": SIGNAL_IRFFT,
    "SIGNAL_FFT_AUTO_SCALE": SIGNAL_FFT_AUTO_SCALE,
    "SIGNAL_ENERGY": SIGNAL_ENERGY,
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "SIGNAL_WINDOW": {"int16"},
    "SIGNAL_RFFT": {"int16", "int32", "float32"},
    "SIGNAL_IRFFT": {"int16", "int32", "float32"},
    "SIGNAL_FFT_AUTO_SCALE": {"int16"},
    "SIGNAL_ENERGY": {"int16"},
}
