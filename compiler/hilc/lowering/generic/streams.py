"""Custom operators that remember what came before."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericCircularBuffer,
    HilGenericSignalDelay,
    HilGenericSignalFramer,
    HilGenericSignalOverlapF32,
    HilGenericSignalOverlapS16,
    HilGenericSignalStacker,
    HilGenericSignalSubtract,
    HilOverlap,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.streams import (
    FramerAttributes,
    OverlapAddAttributes,
    StackerAttributes,
    SubtractionAttributes,
    framing,
)


@lowers("CIRCULAR_BUFFER")
def circular_buffer(layer: Layer) -> KernelCall:
    """Return the call that moves rows up, and adds one."""
    row = layer.operand(0).nbytes
    return KernelCall(HilGenericCircularBuffer(kept=layer.out.nbytes - row, row=row), (0, 1))


@lowers("SIGNAL_DELAY")
def delay(layer: Layer) -> KernelCall:
    """Return the call that delays rows."""
    rows, length = layer.operand(1).shape
    parameters = HilGenericSignalDelay(rows=rows, frame=layer.out.shape[-1], delay=length)
    return KernelCall(parameters, (0, 1))


@lowers("SIGNAL_FRAMER")
def framer(layer: Layer) -> KernelCall:
    """Return the call that cuts a stream."""
    cut, attributes = framing(layer.node, layer.ins), FramerAttributes.of(layer.node)
    parameters = HilGenericSignalFramer(
        rows=cut.rows,
        frames=cut.frames,
        size=attributes.frame_size,
        step=attributes.frame_step,
        memory=cut.memory,
        skipped=cut.skipped,
    )
    return KernelCall(parameters, (0, 1, 2))


@lowers("SIGNAL_OVERLAP_ADD")
def overlap_add(layer: Layer) -> KernelCall:
    """Return the call that adds frames up."""
    x, memory = layer.operand(0), layer.operand(1)
    overlap = HilOverlap(
        rows=memory.shape[0],
        frames=x.shape[-2],
        size=x.shape[-1],
        step=OverlapAddAttributes.of(layer.node).frame_step,
    )
    if x.element.quantized:
        return KernelCall(HilGenericSignalOverlapS16(overlap=overlap), (0, 1))
    return KernelCall(HilGenericSignalOverlapF32(overlap=overlap), (0, 1))


@lowers("SIGNAL_STACKER")
def stacker(layer: Layer) -> KernelCall:
    """Return the call that puts rows side by side."""
    attributes = StackerAttributes.of(layer.node)
    parameters = HilGenericSignalStacker(
        channels=attributes.num_channels,
        size=layer.out.size,
        right=attributes.stacker_right_context,
        step=attributes.stacker_step,
    )
    return KernelCall(parameters, (0, 1, 2))


@lowers("SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION")
def subtraction(layer: Layer) -> KernelCall:
    """Return the call that takes noise away."""
    attributes = SubtractionAttributes.of(layer.node)
    parameters = HilGenericSignalSubtract(
        length=layer.out.size,
        smoothing=attributes.smoothing,
        one_minus_smoothing=attributes.one_minus_smoothing,
        odd_smoothing=attributes.alternate_smoothing,
        odd_one_minus_smoothing=attributes.alternate_one_minus_smoothing,
        remaining=attributes.min_signal_remaining,
        smoothing_bits=attributes.smoothing_bits,
        bits=attributes.spectral_subtraction_bits,
        clamping=int(attributes.clamping),
    )
    return KernelCall(parameters, (0, 1))
