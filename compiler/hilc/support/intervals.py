"""Open intervals of integers."""

from __future__ import annotations

from collections.abc import Iterable


def joined(intervals: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Where open intervals begin and end, those that overlap as one."""
    lows: list[int] = []
    highs: list[int] = []
    for low, high in sorted(intervals):
        if highs and low < highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)
    return lows, highs
