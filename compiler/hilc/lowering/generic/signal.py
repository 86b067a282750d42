"""The operators of the signal library."""

from __future__ import annotations

from math import prod

import numpy as np

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilFourier,
    HilGenericIrfftF32,
    HilGenericIrfftS16,
    HilGenericIrfftS32,
    HilGenericRfftF32,
    HilGenericRfftS16,
    HilGenericRfftS32,
    HilGenericSignalAutoScale,
    HilGenericSignalEnergy,
    HilGenericSignalFilterBank,
    HilGenericSignalLog,
    HilGenericSignalPcan,
    HilGenericSignalSquareRoot,
    HilGenericSignalWindow,
)
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.fourier import Transform
from hilc.ops.filter_bank import (
    LOG_COEFFICIENT,
    LOGARITHMS,
    LogAttributes,
    PcanAttributes,
    bank,
    gains,
)
from hilc.ops.spectrum import EnergyAttributes, WindowedAttributes, fourier_length

_SPECTRA = {"int16": HilGenericRfftS16, "int32": HilGenericRfftS32, "float32": HilGenericRfftF32}
_SIGNALS = {"int16": HilGenericIrfftS16, "int32": HilGenericIrfftS32, "float32": HilGenericIrfftF32}


@lowers("SIGNAL_WINDOW")
def window(layer: Layer) -> KernelCall:
    """Return the call that weights frames."""
    frame = layer.out.shape[-1]
    parameters = HilGenericSignalWindow(
        frames=layer.out.size // frame,
        length=frame,
        shift=WindowedAttributes.of(layer.node).shift,
    )
    return KernelCall(parameters, (0, 1))


@lowers("SIGNAL_RFFT")
def spectrum(layer: Layer) -> KernelCall:
    """Return the call from frames to spectra."""
    x = layer.operand(0)
    made = Transform(fourier_length(layer.node, x), x.dtype)
    return KernelCall(
        _SPECTRA[x.dtype](
            fourier=HilFourier(
                rows=prod(x.shape[:-1]),
                samples=x.shape[-1],
                length=made.length,
                order=made.order,
            ),
            twiddles=made.twiddles.reshape(-1),
            separating=made.separating.reshape(-1),
        )
    )


@lowers("SIGNAL_IRFFT")
def frames(layer: Layer) -> KernelCall:
    """Return the call from spectra to frames."""
    x = layer.operand(0)
    made = Transform(fourier_length(layer.node, x), x.dtype, inverse=True)
    return KernelCall(
        _SIGNALS[x.dtype](
            fourier=HilFourier(
                rows=prod(x.shape[:-1]),
                samples=made.length,
                length=made.length,
                order=np.argsort(made.order).astype(np.int16),
            ),
            twiddles=made.twiddles.reshape(-1),
            separating=made.separating.reshape(-1),
        )
    )


@lowers("SIGNAL_FFT_AUTO_SCALE")
def auto_scale(layer: Layer) -> KernelCall:
    """Return the call that makes a frame as loud as its type allows."""
    return KernelCall(HilGenericSignalAutoScale(length=layer.out.size))


@lowers("SIGNAL_ENERGY")
def energy(layer: Layer) -> KernelCall:
    """Return the call that squares magnitudes."""
    wanted = EnergyAttributes.of(layer.node)
    parameters = HilGenericSignalEnergy(
        length=layer.out.size, start=wanted.start_index, end=wanted.end_index
    )
    return KernelCall(parameters)


def _used(starts: Array, widths: Array) -> Array:
    """Return the first frequency of each channel; it is arbitrary for a channel without one."""
    used: Array = np.where(widths > 0, starts[: widths.size], 0).astype(starts.dtype)
    return used


@lowers("SIGNAL_FILTER_BANK")
def filter_bank(layer: Layer) -> KernelCall:
    """Return the call that adds energies up to channels."""
    tables, channels = bank(layer.node, layer.ins), layer.out.size
    widths = tables.widths[: channels + 1]
    taps = int(np.maximum(widths.astype(np.int64), 0).sum())
    parameters = HilGenericSignalFilterBank(
        channels=channels,
        taps=taps,
        weights=tables.weights,
        unweights=tables.unweights,
        frequencies=_used(tables.frequency_starts, widths),
        weight_starts=_used(tables.weight_starts, widths),
        widths=widths,
    )
    return KernelCall(parameters)


@lowers("SIGNAL_FILTER_BANK_SQUARE_ROOT")
def square_root(layer: Layer) -> KernelCall:
    """Return the call that makes energies magnitudes."""
    return KernelCall(HilGenericSignalSquareRoot(length=layer.out.size), (0, 1))


@lowers("SIGNAL_FILTER_BANK_LOG")
def logarithm(layer: Layer) -> KernelCall:
    """Return the call that takes logarithms."""
    attributes = LogAttributes.of(layer.node)
    parameters = HilGenericSignalLog(
        length=layer.out.size,
        correction=attributes.input_correction_bits,
        scale=attributes.output_scale,
        coefficient=LOG_COEFFICIENT,
        table=LOGARITHMS,
    )
    return KernelCall(parameters)


@lowers("SIGNAL_PCAN")
def pcan(layer: Layer) -> KernelCall:
    """Return the call that amplifies channels by their noise."""
    parameters = HilGenericSignalPcan(
        length=layer.out.size,
        shift=PcanAttributes.of(layer.node).snr_shift,
        gains=gains(layer.node, layer.ins),
    )
    return KernelCall(parameters, (0, 1))
