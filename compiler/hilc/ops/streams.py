"""Custom operators of TensorFlow Lite Micro that remember what came before.

SIGNAL_FRAMER cuts a stream into frames that overlap, SIGNAL_OVERLAP_ADD adds them up again,
SIGNAL_DELAY delays a stream, SIGNAL_STACKER puts successive rows of channels side by side, and
SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION takes away what it estimates to be noise: these are of the
signal library. CIRCULAR_BUFFER gives the last rows that came, for convolutions over time; with
cycles_max above 1 TensorFlow Lite Micro ends most runs there, which is not supported.

What a node remembers are its last inputs, and its last outputs what it remembers then; of the
spectral subtraction and of the circular buffer this is an output of the model's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hilc.ir import Array, Attributes, Node, Quant, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    invalid,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_same_quantization,
    unsupported,
)
from hilc.ops.traits import ascending

_ADDED = ("int16", "float32")
#: Number of rows that the stacker waits for, before its first row.
NOTHING_YET = -1


class Memory(NamedTuple):
    """State of an operator: a tensor that the file does not have."""

    shape: tuple[int, ...]
    dtype: str
    #: Its value after a reset, the same for all elements.
    reset: int = 0
    #: The node's output that is its next value; None where the node has one more for it.
    output: int | None = None
    quant: Quant | None = None


@dataclass(frozen=True, kw_only=True)
class DelayAttributes(Attributes):
    """Attributes of SIGNAL_DELAY."""

    #: Delay, in samples.
    delay_length: int


@dataclass(frozen=True, kw_only=True)
class FramerAttributes(Attributes):
    """Attributes of SIGNAL_FRAMER."""

    #: Samples of a frame.
    frame_size: int
    #: Hop between frames, in samples.
    frame_step: int
    #: Whether zeros precede the first sample; otherwise the first frames are not valid.
    prefill: bool


@dataclass(frozen=True, kw_only=True)
class OverlapAddAttributes(Attributes):
    """Attributes of SIGNAL_OVERLAP_ADD."""

    #: Hop between frames, in samples.
    frame_step: int


@dataclass(frozen=True, kw_only=True)
class StackerAttributes(Attributes):
    """Attributes of SIGNAL_STACKER."""

    #: Elements of a row.
    num_channels: int
    #: Rows before the current one in an output.
    stacker_left_context: int
    #: Rows after the current one in an output.
    stacker_right_context: int
    #: Rows between two valid outputs.
    stacker_step: int


@dataclass(frozen=True, kw_only=True)
class SubtractionAttributes(Attributes):
    """Factors have ``spectral_subtraction_bits`` of fraction."""

    #: Share of the old estimate in the new one, for channels of odd numbers.
    alternate_one_minus_smoothing: int
    #: Share of the signal in it.
    alternate_smoothing: int
    #: The estimate never exceeds the signal.
    clamping: bool
    #: Share of the signal that is left at least.
    min_signal_remaining: int
    num_channels: int
    #: As the alternate ones, for channels of even numbers.
    one_minus_smoothing: int
    smoothing: int
    #: Bits of fraction of the estimate.
    smoothing_bits: int
    spectral_subtraction_bits: int


@dataclass(frozen=True, kw_only=True)
class CircularBufferAttributes(Attributes):
    """Attributes of CIRCULAR_BUFFER."""

    #: Rows that come until the operators behind it run. Without it the reference guesses.
    cycles_max: int = 0
    #: Rows of the output.
    slots: int = 0
    #: Value of the rows before the first.
    empty: int = 0


def _check_memories(
    node: Node, ins: Sequence[Tensor | None], memories: Sequence[Memory], outputs: int = 1
) -> None:
    """Check the inputs after the first against the operator's states.

    What it remembers stands behind its ``outputs`` own ones, too.
    """
    require_counts(node, inputs=1 + len(memories), outputs=outputs + len(memories))
    for index, memory in enumerate(memories, 1):
        tensor = operand(node, ins, index)
        if (tensor.shape, tensor.dtype) != memory[:2]:
            invalid(
                node,
                f"remembers {tensor.name!r}, {tensor.dtype}{list(tensor.shape)}, not "
                f"{memory.dtype}{list(memory.shape)}",
            )


def _require_rows(node: Node, x: Tensor, rank: int, dtypes: Sequence[str] = ("int16",)) -> None:
    require_dtype(node, x, dtypes)
    if len(x.shape) < rank:
        invalid(node, f"takes {x.name!r} of shape {list(x.shape)}, of less than {rank} dimensions")


def _require_positive(node: Node, attributes: Attributes, *names: str) -> None:
    for name in names:
        value = getattr(attributes, name)
        if not 0 < value < 1 << 20:
            invalid(node, f"has {name} {value} (accepted: 1 to {(1 << 20) - 1})")


# Delay ------------------------------------------------------------------------------------------


def delay_memory(node: Node, ins: Sequence[Tensor | None]) -> list[Memory]:
    """Return the samples that are yet to come."""
    x, attributes = operand(node, ins, 0), DelayAttributes.of(node)
    _require_rows(node, x, 1)
    _require_positive(node, attributes, "delay_length")
    return [Memory((x.size // x.shape[-1], attributes.delay_length), x.dtype)]


def _infer_delay(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    memories = delay_memory(node, ins)
    _check_memories(node, ins, memories)
    x = operand(node, ins, 0)
    return [(x.shape, x.dtype), memories[0][:2]]


def _delay(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, memory = values
    assert x is not None
    assert memory is not None
    both = np.concatenate([memory, x.reshape(len(memory), -1)], axis=1)
    frame = x.shape[-1]
    return [both[:, :frame].reshape(x.shape), both[:, frame:]]


# Framer -----------------------------------------------------------------------------------------


class Framing(NamedTuple):
    """Division of a stream into frames."""

    rows: int
    #: Frames of a row that an input completes.
    frames: int
    #: Samples that a row remembers, at least one.
    memory: int
    #: Remembered samples that the first frame skips.
    skipped: int
    #: Frames that are not valid after a reset.
    missing: int


def framing(node: Node, ins: Sequence[Tensor | None]) -> Framing:
    """Return the division of a framer's stream, checked."""
    x, attributes = operand(node, ins, 0), FramerAttributes.of(node)
    _require_rows(node, x, 1)
    _require_positive(node, attributes, "frame_size", "frame_step")
    size, step = attributes.frame_size, attributes.frame_step
    frames, rest = divmod(x.shape[-1], step)
    if rest or size < step:
        invalid(
            node,
            f"cuts {x.shape[-1]} samples into frames of {size} at steps of {step}; the samples "
            "must be whole steps, and a frame at least one",
        )
    whole = -(-size // step) * step
    needed = (size if attributes.prefill else whole) - step
    missing = 0 if attributes.prefill else whole // step - 1
    memory = max(1, needed)
    return Framing(x.size // x.shape[-1], frames, memory, memory - needed, missing)


def framer_memory(node: Node, ins: Sequence[Tensor | None]) -> list[Memory]:
    """Return the last samples, and how many frames are yet to be not valid."""
    cut = framing(node, ins)
    samples = Memory((cut.rows, cut.memory), operand(node, ins, 0).dtype)
    return [samples, Memory((1,), "int32", cut.missing)]


def _infer_framer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    memories = framer_memory(node, ins)
    _check_memories(node, ins, memories, outputs=2)
    x, cut = operand(node, ins, 0), framing(node, ins)
    shape = (*x.shape[:-1], cut.frames, FramerAttributes.of(node).frame_size)
    return [(shape, x.dtype), ((), "bool"), *(memory[:2] for memory in memories)]


def _framer(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, memory, missing = values
    assert x is not None
    assert memory is not None
    assert missing is not None
    cut, attributes = framing(node, ins), FramerAttributes.of(node)
    both = np.concatenate([memory, x.reshape(cut.rows, -1)], axis=1)
    begins = cut.skipped + attributes.frame_step * np.arange(cut.frames).reshape(-1, 1)
    frames = both[:, begins + np.arange(attributes.frame_size)]
    left = np.maximum(missing - cut.frames, 0).astype(missing.dtype)
    valid = np.array(missing[0] == 0)
    return [frames.reshape(outs[0].shape), valid, both[:, -cut.memory :], left]


# Overlap and add --------------------------------------------------------------------------------


def overlap_memory(node: Node, ins: Sequence[Tensor | None]) -> list[Memory]:
    """Return the sums that further frames add to."""
    x, attributes = operand(node, ins, 0), OverlapAddAttributes.of(node)
    _require_rows(node, x, 2, _ADDED)
    _require_positive(node, attributes, "frame_step")
    if attributes.frame_step > x.shape[-1]:
        invalid(node, f"adds frames of {x.shape[-1]} at steps of {attributes.frame_step}")
    frames, size = x.shape[-2:]
    return [Memory((x.size // (frames * size), size), x.dtype)]


def _infer_overlap(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    memories = overlap_memory(node, ins)
    _check_memories(node, ins, memories)
    x = operand(node, ins, 0)
    samples = x.shape[-2] * OverlapAddAttributes.of(node).frame_step
    return [((*x.shape[:-2], samples), x.dtype), memories[0][:2]]


def _overlap(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, memory = values
    assert x is not None
    assert memory is not None
    step, (frames, size) = OverlapAddAttributes.of(node).frame_step, x.shape[-2:]
    saturates = outs[0].element.quantized
    wide = np.int64 if saturates else np.float32
    sums = np.zeros((len(memory), frames * step + size), wide)
    sums[:, :size] = memory
    frame_rows = x.reshape(len(memory), frames, size).astype(wide)
    for frame in range(frames):
        under = sums[:, frame * step : frame * step + size]
        under += frame_rows[:, frame]
        if saturates:
            np.clip(under, *outs[0].element.bounds, out=under)
    sums = sums.astype(x.dtype)
    return [sums[:, : frames * step].reshape(outs[0].shape), sums[:, frames * step :]]


# Stacker ----------------------------------------------------------------------------------------


def stacker_memory(node: Node, ins: Sequence[Tensor | None]) -> list[Memory]:
    """Return the last rows, and how many are to come before an output is valid."""
    x, attributes = operand(node, ins, 0), StackerAttributes.of(node)
    _require_rows(node, x, 1)
    _require_positive(node, attributes, "num_channels", "stacker_step")
    left, right = attributes.stacker_left_context, attributes.stacker_right_context
    rows = left + right + 1
    if min(left, right) < 0 or rows > 1 << 15 or attributes.stacker_step > rows:
        invalid(
            node,
            f"stacks {left} rows, one and {right} at steps of {attributes.stacker_step}, which "
            "are more, or less than none",
        )
    if x.shape != (attributes.num_channels,):
        invalid(node, f"takes rows of {attributes.num_channels} from shape {list(x.shape)}")
    return [Memory((rows * x.size,), x.dtype), Memory((1,), "int32", NOTHING_YET)]


def _infer_stacker(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    memories = stacker_memory(node, ins)
    _check_memories(node, ins, memories, outputs=2)
    kinds = [memory[:2] for memory in memories]
    return [kinds[0], ((), "bool"), *kinds]


def _stacker(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, memory, waiting = values
    assert x is not None
    assert memory is not None
    assert waiting is not None
    attributes, wait = StackerAttributes.of(node), int(waiting[0])
    if wait == NOTHING_YET:
        memory, wait = np.tile(x, memory.size // x.size), attributes.stacker_right_context
    rows = np.concatenate([memory[x.size :], x])
    left = (attributes.stacker_step if wait == 0 else wait) - 1
    return [rows, np.array(wait == 0), rows, np.array([left], waiting.dtype)]


# Spectral subtraction ---------------------------------------------------------------------------


def subtraction_memory(node: Node, ins: Sequence[Tensor | None]) -> list[Memory]:
    """Return the estimate of the noise."""
    x, attributes = operand(node, ins, 0), SubtractionAttributes.of(node)
    require_dtype(node, x, ("uint32",))
    if x.shape != (attributes.num_channels,):
        invalid(node, f"takes {attributes.num_channels} channels from shape {list(x.shape)}")
    for name in ("smoothing_bits", "spectral_subtraction_bits"):
        if not 0 <= getattr(attributes, name) <= 31:
            invalid(node, f"has {name} {getattr(attributes, name)} (accepted: 0 to 31)")
    for name in ("smoothing", "one_minus_smoothing", "min_signal_remaining"):
        for each in (name, f"alternate_{name}"):
            if not 0 <= getattr(attributes, each, 0) < 1 << 31:
                invalid(node, f"has {each} {getattr(attributes, each)} (accepted: 0 to 2^31 - 1)")
    return [Memory(x.shape, x.dtype, output=1)]


def _infer_subtraction(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    memories = subtraction_memory(node, ins)
    _check_memories(node, ins, memories)
    kind = memories[0][:2]
    return [kind, kind]


def _subtraction(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, noise = values
    assert x is not None
    assert noise is not None
    a, mask = SubtractionAttributes.of(node), np.uint64((1 << 32) - 1)
    bits, fraction = np.uint64(a.smoothing_bits), np.uint64(a.spectral_subtraction_bits)
    odd = np.arange(x.size) % 2 == 1
    share = np.where(odd, a.alternate_smoothing, a.smoothing).astype(np.uint64)
    rest = np.where(odd, a.alternate_one_minus_smoothing, a.one_minus_smoothing).astype(np.uint64)
    signal = (x.astype(np.uint64) << bits) & mask
    estimate = (signal * share + noise.astype(np.uint64) * rest >> fraction) & mask
    taken = np.minimum(estimate, signal)
    floor = (x.astype(np.uint64) * np.uint64(a.min_signal_remaining) >> fraction) & mask
    left = np.maximum(signal - taken >> bits, floor)
    kept = taken if a.clamping else estimate
    return [left.astype(x.dtype), kept.astype(x.dtype)]


# Circular buffer --------------------------------------------------------------------------------

#: Rows of outputs for which the reference takes it that everything runs each time.
_EACH_TIME = (5, 13, 25)


def buffer_memory(node: Node, ins: Sequence[Tensor | None]) -> list[Memory]:
    """Return the last rows."""
    x, attributes = operand(node, ins, 0), CircularBufferAttributes.of(node)
    require_dtype(node, x, ("int8",))
    quantization(node, x)
    slots, cycles = attributes.slots, attributes.cycles_max
    if len(x.shape) != 4 or x.shape[:2] != (1, 1):
        invalid(node, f"takes {x.name!r} of shape {list(x.shape)} (accepted: [1, 1, width, depth])")
    if cycles > 1 or (cycles < 1 and slots not in _EACH_TIME):
        stated = cycles if cycles > 1 else "no number for"
        unsupported(
            node,
            f"has {stated} cycles_max (supported: 1): the operators behind it would not run each "
            "time",
            "make one model of what runs each time, and one of what runs in every other cycle",
        )
    _require_positive(node, attributes, "slots")
    return [Memory((1, slots, *x.shape[2:]), x.dtype, attributes.empty, 0, x.quant)]


def _infer_buffer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    memories = buffer_memory(node, ins)
    require_counts(node, inputs=2)
    _check_memories(node, ins, memories, outputs=0)
    return [memories[0][:2]]


def _check_buffer(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    for index in (0, 1):
        require_same_quantization(node, operand(node, ins, index), outs[0])


def _buffer(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, memory = values
    assert x is not None
    assert memory is not None
    return [np.concatenate([memory[:, 1:], x], axis=1)]


CIRCULAR_BUFFER = OpDef(
    _infer_buffer, _buffer, _check_buffer, attributes=CircularBufferAttributes, bounds=ascending
)
SIGNAL_DELAY = OpDef(_infer_delay, _delay, attributes=DelayAttributes)
SIGNAL_FRAMER = OpDef(_infer_framer, _framer, attributes=FramerAttributes)
SIGNAL_OVERLAP_ADD = OpDef(_infer_overlap, _overlap, attributes=OverlapAddAttributes)
SIGNAL_STACKER = OpDef(_infer_stacker, _stacker, attributes=StackerAttributes)
SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION = OpDef(
    _infer_subtraction, _subtraction, attributes=SubtractionAttributes
)

OPERATORS: Mapping[str, OpDef] = {
    "SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION": SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION,
    "SIGNAL_FRAMER": SIGNAL_FRAMER,
    "SIGNAL_OVERLAP_ADD": SIGNAL_OVERLAP_ADD,
    "SIGNAL_DELAY": SIGNAL_DELAY,
    "SIGNAL_STACKER": SIGNAL_STACKER,
    "CIRCULAR_BUFFER": CIRCULAR_BUFFER,
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION": {"uint32"},
    "SIGNAL_FRAMER": {"int16"},
    "SIGNAL_OVERLAP_ADD": {"int16", "float32"},
    "SIGNAL_DELAY": {"int16"},
    "SIGNAL_STACKER": {"int16"},
}
