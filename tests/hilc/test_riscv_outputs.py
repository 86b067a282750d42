"""Outputs that emitted RISC-V kernels make of sums, compared with the reference's arithmetic."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from riscv_layers import PREFIXES, deep_layers

from hilc.lowering import KernelCall, candidates
from hilc.lowering.parameters import HilOutputRange, HilRequantization
from hilc.lowering.riscv import outputs
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.v7m.channels import Changes, RightShiftedChannels, require_right_shifts
from hilc.target import get_cpu

_WORD = 2**32
#: Weights as trained ones are, any, and those of the largest sums.
_WEIGHTS = {
    "near zero": lambda rng, shape: np.clip(rng.normal(0, 30, shape), -127, 127),
    "any": lambda rng, shape: rng.integers(-127, 128, shape),
    "ends": lambda rng, shape: rng.choice([-127, 127], shape),
}


def channels_of(
    rng: np.random.Generator, depth: int, weights: str, zero_point: int, reached: float
) -> RightShiftedChannels:
    """Return channels whose outputs reach their ends at a part of the largest sum, or up to four
    bits beyond.
    """
    matrix = _WEIGHTS[weights](rng, (9, depth)).astype(np.int8)
    span = 255 * np.abs(matrix.astype(np.int64)).sum(axis=1).max()
    mantissa, exponent = np.frexp(256 / (span * reached) * 2.0 ** rng.uniform(-4, 0, 9))
    outputs = HilRequantization(
        output_range=HilOutputRange(out_zero_point=zero_point, out_min=-128, out_max=127),
        per_channel=1,
        narrow=1,
        bias=rng.integers(-(2**15), 2**15, 9).astype(np.int32),
        multipliers=np.minimum(np.rint(np.ldexp(mantissa, 31)), 2**31 - 1).astype(np.int32),
        shifts=exponent.astype(np.int8),
    )
    found = require_right_shifts(matrix, outputs)
    assert found is not None
    return found


def computed(
    output: Output, words: npt.NDArray[np.int32], sums: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the outputs of sums as the instructions of :meth:`Output.emit` make them, which are
    written here again: each value is checked to be a word.
    """

    def word(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        assert values.min() >= -_WORD // 2
        assert values.max() < _WORD // 2
        return values

    scale = dict(zip(output.names, words.astype(np.int64).T[:, :, np.newaxis], strict=True))
    scaled = word(sums << output.bits)
    if output.own:
        scaled = word(scaled + scale["bias"])
    # mulhsu: in unlimited integers.
    multipliers = (scale["multiplier"] % _WORD).astype(object)
    value = word(((scaled.astype(object) * multipliers) >> 32).astype(np.int64))
    if output.own:
        if output.signed:
            value = word(value + (1 << (output.bits - 1)))
            value = word(value - np.where(value < 0, 1 << output.bits, 0))
        value = word(value + scale["constant"]) >> scale["shift"]
    else:
        value = word(value + scale["constant"])
        if output.signed:
            value = word(value - np.where(value < output.zero, 1 << scale["place"], 0))
        value = value >> output.shift
    base = 0 if output.extension else output.least
    return np.clip(value + base, output.least, output.most)


@pytest.mark.parametrize("extension", ["", "zbb"])
@pytest.mark.parametrize("weights", list(_WEIGHTS))
@pytest.mark.parametrize("depth", [1024, 2304, 4608, 8192])
def test_outputs_of_deep_sums_are_exact(depth: int, weights: str, extension: str) -> None:
    """All sums near those at which an output begins, the ends, and others."""
    rng = np.random.default_rng(90)
    own = 0
    for reached, zero_point in product((1 / 4, 1 / 64), (-128, 5)):
        channels = channels_of(rng, depth, weights, zero_point, reached)
        lowest, highest = (end[:, np.newaxis] for end in channels.ends)
        largest = max(int(np.abs(end).max()) for end in channels.ends)
        found = output_of(channels, 31 - largest.bit_length(), extension)
        assert found is not None, (reached, zero_point)
        output, words = found
        begins = channels.changes().begins
        near = (begins[:, :, np.newaxis] + np.arange(-3, 3)).reshape(9, -1)
        sums = [near, lowest, highest, rng.integers(lowest, highest + 1, (9, 2000))]
        tried = np.clip(np.concatenate(sums, axis=1), lowest, highest)
        assert (computed(output, words, tried) == channels.outputs(tried)).all()
        own += output.own
    assert own >= 1


def test_changes_are_found_once_for_all_shifts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took most of the time to lower a layer: each shift found them again."""
    found: list[object] = []
    # No shift has words.
    shifts: list[object] = []
    changes = RightShiftedChannels.changes

    def counted(self: RightShiftedChannels) -> Changes:
        found.append(self)
        return changes(self)

    def refused(self: object, hard: int | None) -> None:
        shifts.append(self)

    monkeypatch.setattr(RightShiftedChannels, "changes", counted)
    monkeypatch.setattr(outputs._Search, "words", refused)
    rng = np.random.default_rng(92)
    assert outputs.scales_of(channels_of(rng, 64, "any", 5, 1 / 8), 6, 0) is None
    assert len(shifts) > 1
    assert len(found) == 1


def test_every_sum_of_a_deep_channel_is_exact() -> None:
    rng = np.random.default_rng(91)
    channels = channels_of(rng, 256, "any", 5, 1 / 8)
    found = output_of(channels, 6, "")
    assert found is not None
    output, words = found
    assert output.own
    assert output.signed
    lowest, highest = (int(end[0]) for end in channels.ends)
    for begin in range(lowest, highest + 1, 2**18):
        sums = np.arange(begin, min(begin + 2**18, highest + 1))[np.newaxis]
        reference = channels.outputs(np.broadcast_to(sums, (9, sums.size)))[:1]
        assert (computed(output, words[:1], sums) == reference).all()


@pytest.mark.parametrize("core", ["rv32imac", "rv32imac_zbb", "rv32imac_zve32x", "rv32imc_xpulp"])
def test_deep_layers_have_emitted_kernels(core: str) -> None:
    """Portable C takes up to twenty times their instructions."""
    for layer in deep_layers(np.random.default_rng(92)):
        found = candidates(layer.node, layer.ins, (layer.out,), get_cpu(core))
        names = [call.kernel.name for call in found if isinstance(call, KernelCall)]
        assert any(name.startswith(PREFIXES) for name in names), layer
