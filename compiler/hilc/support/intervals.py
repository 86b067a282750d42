"""Open intervals of integers."""

from __future__ import annotations

from collections.abc import Iterable


def joined(intervals: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return starts and ends of open intervals, with overlapping ones merged."""
    lows: list[int] = []
    highs: list[int] = []
    for low, high in sorted(intervals):
        if highs and low < highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)
    return lows, highs
