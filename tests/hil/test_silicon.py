"""The table of estimates beside published cycles, and the range that users are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomllib

from hilc.target.cores import get_cpu

ROOT = Path(__file__).resolve().parents[2]
_NUMBER = r"([\d.,]+)"
_ROW = re.compile(
    rf"\| `(\w+)` \| {_NUMBER} \| {_NUMBER} to {_NUMBER} \| \S+ to \S+ \| {_NUMBER} \| "
    rf"{_NUMBER} \| {_NUMBER} to {_NUMBER} \| {_NUMBER} \| (\S+) to (\S+) \|"
)


def rows() -> list[tuple[str, list[float]]]:
    text = (ROOT / "docs" / "explanation" / "cycles.md").read_text(encoding="utf-8")
    return [
        (name, [float(each.replace(",", "")) for each in numbers])
        for name, *numbers in _ROW.findall(text)
    ]


def test_range_contains_what_was_published() -> None:
    timing = get_cpu("cortex-m4").timing
    assert timing is not None
    assert timing.chip is not None
    assert sorted(name for name, _ in rows()) == ["ad", "ic", "kws", "vww"]
    ratios = []
    for _, numbers in rows():
        low, high, published = numbers[5:8]
        ratios.append((published / low, published / high))
    least, most = (percent / 100 for percent in timing.chip.percent)
    # Not wider than the rounding of the page and a little, either.
    assert least <= min(low for low, _ in ratios) < least + 0.03
    assert most >= max(high for _, high in ratios) > most - 0.03


def test_columns_agree() -> None:
    timing = get_cpu("cortex-m4").timing
    assert timing is not None
    assert timing.chip is not None
    for name, numbers in rows():
        _, low, high, fetches, data, with_low, with_high, published, over_low, over_high = numbers
        waits = timing.chip.waits * (fetches + data) / 1e6
        assert with_low == pytest.approx(low + waits, rel=0.01), name
        assert with_high == pytest.approx(high + waits, rel=0.01), name
        assert over_low == pytest.approx(with_low / published, abs=0.01), name
        assert over_high == pytest.approx(with_high / published, abs=0.01), name


def test_published_cycles_are_those_of_the_results() -> None:
    (row,) = tomllib.loads((ROOT / "tools" / "baselines.toml").read_text())["silicon"]
    for name, numbers in rows():
        cycles = row["clock_hz"] / row["per_second"][name]
        assert numbers[7] == pytest.approx(cycles / 1e6, rel=0.001)
