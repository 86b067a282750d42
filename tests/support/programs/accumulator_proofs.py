"""Runs the portable kernels' requantization on every sum that a channel of a layer can have.

The sums of a channel are an interval: each positive weight meets the least input or the largest,
each negative one the other. The specification's output grows with the sum, so it is known by the
sums at which it changes; these are found by bisection of what the interpreter computes, and
compared with gemmlowp's definition in unlimited integers. ``tests/c/proofs/accumulators.c`` walks
through all sums, with the functions of the kernels' own headers.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from kernel_runner import WARNINGS, compiler

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.lowering.kernels import KernelCall
from hilc.ops import conv2d, depthwise_conv2d, fully_connected, linear
from hilc.ops.operands import quantization
from hilc.support.resources import data_dir

_SOURCES = Path(__file__).parents[2] / "c" / "proofs"
_LIMIT_S = 600
_FLAGS = ("-O3", "-fsanitize=undefined", "-fno-sanitize-recover=all")
_INT32 = 2**31

#: Kernels whose arithmetic the program knows, by its number of it.
_KINDS = {
    "hil_generic_conv2d_s8": 0,
    "hil_generic_matmul_s8": 0,
    "hil_generic_depthwise_conv2d_s8": 1,
    "hil_compact_conv2d_s8": 2,
    "hil_compact_matmul_s8": 2,
    "hil_compact_depthwise_conv2d_s8": 2,
}
_COMPACT = 2


@dataclass(frozen=True)
class Outputs:
    """How the specification makes outputs of the sums of one channel."""

    multiplier: int
    shift: int
    zero_point: int
    low: int
    high: int
    rounding: Rounding

    def of(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the outputs of sums, as the interpreter computes them."""
        requant = linear.Requantization(
            np.array([self.multiplier], np.int32),
            np.array([self.shift], np.int8),
            self.zero_point,
            self.low,
            self.high,
            rounding=self.rounding,
        )
        return requant.apply(sums[..., np.newaxis])[..., 0].astype(np.int64)

    def exactly(self, total: int) -> int:
        """Return the output of a sum by the definition, in integers of any size."""
        product = total * self.multiplier
        if self.rounding is Rounding.DOUBLE:
            # Rounded to a multiple of 2**31, half up, then to one of 2**-shift, half away from 0.
            high = ((product << max(self.shift, 0)) + (1 << 30)) >> 31
            unit = 1 << max(-self.shift, 0)
            value = (abs(high) + unit // 2) // unit * (1 if high >= 0 else -1)
        else:
            unit = 1 << (31 - self.shift)
            value, rest = divmod(product + unit // 2, unit)
            if self.rounding is Rounding.NEAREST_EVEN and rest == 0 and value % 2:
                value -= 1
        return min(max(value + self.zero_point, self.low), self.high)

    def thresholds(self, least: int, most: int) -> list[int]:
        """Return the first sum of an interval at which the output is above the least by one, by
        two, ...; the outputs are checked on both sides of each.
        """
        assert self.shift <= 0, f"a shift of {self.shift} to the left may wrap around"
        levels = np.arange(self.low + 1, self.high + 1)
        under = np.full(levels.shape, least - 1)
        reaching = np.full(levels.shape, most + 1)
        while (reaching - under > 1).any():
            middle = (under + reaching) >> 1
            # What lies before the interval reaches nothing.
            reached = (self.of(middle) >= levels) & (middle >= least)
            reaching = np.where(reached, middle, reaching)
            under = np.where(reached, under, middle)
        found: list[int] = reaching.tolist()
        for level, first in zip(levels.tolist(), found, strict=True):
            assert first > most or self.exactly(first) >= level, (self, first)
            assert first == least or self.exactly(first - 1) < level, (self, first)
        return found


@dataclass(frozen=True)
class Channel:
    """One output channel of a layer: its sums and what becomes of them, by the specification."""

    outputs: Outputs
    least: int
    most: int
    #: The largest magnitude of a part of a sum, in whatever order it is added up.
    largest: int
    #: Its bias for inputs whose zero point is not taken off.
    bias: int


@dataclass(frozen=True)
class Tally:
    """What was proven of some calls."""

    #: Sums of channels, each for itself.
    covered: int = 0
    #: Sums that were run: channels with the same parameters share them.
    checked: int = 0


def is_known(call: KernelCall) -> bool:
    """Return whether the program has the arithmetic of the call's kernel."""
    return call.kernel.name in _KINDS


def channels_of(
    node: Node, ins: Sequence[Tensor | None], out: Tensor
) -> tuple[list[Channel], npt.NDArray[np.int64]]:
    """Return the channels of a linear layer by the specification, and the model's own biases."""
    match node.op:
        case "FULLY_CONNECTED":
            ops = fully_connected.layer_operands(node, ins)
            requant = fully_connected.requantization(node, ops, out)
            matrix = ops.weight_data
        case "CONV_2D":
            ops, _ = conv2d.layer_operands(node, ins)
            requant = linear.channel_requantization(node, ops, out)
            matrix = ops.weight_data.reshape(len(ops.weight_data), -1)
        case _:
            ops, _, _ = depthwise_conv2d.layer_operands(node, ins)
            requant = linear.channel_requantization(node, ops, out)
            matrix = ops.weight_data[0].transpose(2, 0, 1).reshape(ops.weights.shape[3], -1)
    zero_point = quantization(node, ops.x)[1]
    wide = matrix.astype(np.int64)
    own = ops.bias_data.astype(np.int64)
    bias = own - zero_point * wide.sum(axis=1)
    above, below = np.maximum(wide, 0).sum(axis=1), np.minimum(wide, 0).sum(axis=1)
    least, most = bias - 128 * above + 127 * below, bias + 127 * above - 128 * below
    # As the one family adds up, and as the other: with the zero point taken off each input.
    parts = np.maximum(
        np.abs(bias) + 128 * (above - below),
        np.abs(own) + 255 * (above - below),
    )
    multipliers = np.broadcast_to(requant.multipliers, bias.shape).tolist()
    shifts = np.broadcast_to(requant.shifts, bias.shape).tolist()
    fixed = (requant.zero_point, requant.low, requant.high, requant.rounding)
    channels = [
        Channel(Outputs(m, s, *fixed), int(low), int(high), int(part), int(folded))
        for m, s, low, high, part, folded in zip(
            multipliers, shifts, least, most, parts, bias, strict=True
        )
    ]
    return channels, own


@dataclass(frozen=True)
class _Ends:
    """What one loop of the program walks through, but for the interval."""

    kind: int
    narrow: int
    zero_point: int
    low: int
    high: int
    multiplier: int
    shift: int


class Prover:
    """Collects channels of calls and proves all of them in one run."""

    def __init__(self) -> None:
        #: By what the kernel computes with, and what it must give: the interval, whose it is first.
        self._intervals: dict[tuple[_Ends, Outputs], tuple[int, int, str]] = {}
        self.covered = 0

    def add(
        self,
        name: str,
        call: KernelCall,
        node: Node,
        ins: Sequence[Tensor | None],
        out: Tensor,
    ) -> list[str]:
        """Take the channels of one call; return what is wrong with it before any sum is run."""
        channels, own = channels_of(node, ins, out)
        kind, fields = _KINDS[call.kernel.name], call.fields
        faults = []
        given = _given(kind, fields, channels, own)
        range_ = [_number(fields[f]) for f in ("out_zero_point", "out_min", "out_max")]
        for index, (channel, (multiplier, shift, constant)) in enumerate(
            zip(channels, given, strict=True)
        ):
            outputs = channel.outputs
            told = f"{name}: {call.kernel.name}, channel {index}"
            if channel.largest >= _INT32:
                faults.append(f"{told}: parts of its sums reach {channel.largest}")
            if range_ != [outputs.zero_point, outputs.low, outputs.high]:
                faults.append(f"{told}: has the range {range_}")
            interval = channel.least, channel.most
            self.covered += channel.most - channel.least + 1
            if constant is not None:
                # It has no weights: one output for all sums, made of another sum.
                values = {outputs.exactly(end) for end in interval}
                if len(values) > 1:
                    faults.append(f"{told}: has no weights, but its outputs are {values}")
                value = values.pop()
                outputs = replace(outputs, low=value, high=value)
                interval = constant, constant
            zero, low, high = range_
            ends = _Ends(kind, _number(fields["narrow"]), zero, low, high, multiplier, shift)
            least, most, whose = self._intervals.get((ends, outputs), (*interval, told))
            merged = min(least, interval[0]), max(most, interval[1])
            self._intervals[ends, outputs] = (*merged, whose)
        return faults

    def run(self) -> tuple[Tally, list[str]]:
        """Return what was checked, and the faults that were found."""
        if not self._intervals:
            return Tally(), []
        records = [
            _record(ends, least, most, outputs)
            for (ends, outputs), (least, most, _) in self._intervals.items()
        ]
        done = subprocess.run(
            [built("accumulators.c")],
            input=b"".join(records),
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
        told = [whose for *_, whose in self._intervals.values()]
        *wrong, last = done.stdout.decode().splitlines() or [""]
        faults = [
            f"{told[int(number)]}: {what}" for number, what in (w.split(": ", 1) for w in wrong)
        ]
        if done.returncode not in (0, 1) or not last.startswith("checked "):
            return Tally(self.covered), [
                *faults,
                f"{done.returncode}: {done.stderr.decode()[:2000]}",
            ]
        return Tally(self.covered, int(last.split()[1])), faults


def _number(value: object) -> int:
    assert isinstance(value, (int, np.integer))
    return int(value)


def _given(
    kind: int, fields: Mapping[str, object], channels: Sequence[Channel], own: Array
) -> Iterator[tuple[int, int, int | None]]:
    """Yield the multiplier and the shift of each channel as the kernel has them, and its only sum
    where its weights were taken out; the biases must be the specification's.
    """
    count = len(channels)
    if kind != _COMPACT:
        entries = np.broadcast_to(_array(fields["multipliers"]), (count,))
        shifts = np.broadcast_to(_array(fields["shifts"]), (count,))
        assert _array(fields["bias"]).tolist() == [channel.bias for channel in channels]
        yield from ((int(m), int(s), None) for m, s in zip(entries, shifts, strict=True))
        return
    weights = _array(fields["weights"]).reshape(count, -1)
    for scale, row, bias in zip(compact_scales(fields), weights, own.tolist(), strict=True):
        multiplier, shift, stated = scale
        assert stated == bias or not row.any()
        yield multiplier, shift, None if stated == bias else stated


def compact_scales(fields: Mapping[str, object]) -> list[tuple[int, int, int]]:
    """Return multiplier, shift and bias of each channel of a small kernel, from its fields."""
    scales = _array(fields["scales"])
    if fields["wide"]:
        words = np.ascontiguousarray(scales, "<i2").view("<i4").reshape(-1, 2)
        return [(int(first), (int(second) & 63) - 32, int(second) >> 6) for first, second in words]
    found = []
    for low, high, bias in scales[1:].reshape(-1, 3).tolist():
        word = (low & 0xFFFF) | (high & 0xFFFF) << 16
        found.append((2**30 + (word >> 2), int(scales[0]) + (word & 3), bias))
    return found


def _array(value: object) -> Array:
    assert isinstance(value, np.ndarray)
    return value


def _record(ends: _Ends, least: int, most: int, outputs: Outputs) -> bytes:
    """Return what the program reads of one interval."""
    thresholds = outputs.thresholds(least, most) if outputs.low < outputs.high else []
    skipped = [least] * (outputs.low - ends.low)
    levels = [min(first, _INT32 - 1) for first in (*skipped, *thresholds)]
    words = [
        *(ends.kind, ends.narrow, ends.zero_point, ends.low, ends.high),
        *(ends.multiplier, ends.shift, least, most, len(levels)),
    ]
    return np.array([*words, *levels], "<i4").tobytes()


def built(source: str) -> Path:
    """Return a program of ``tests/c/proofs``, compiled once for this process."""
    return _program(source)[1]


@functools.cache
def _program(source: str) -> tuple[tempfile.TemporaryDirectory[str], Path]:
    folder = tempfile.TemporaryDirectory(prefix="hil-proofs-")
    program = Path(folder.name) / "program"
    include = f"-I{data_dir('runtime') / 'include'}"
    command = [compiler(), *WARNINGS, *_FLAGS, include, str(_SOURCES / source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return folder, program
