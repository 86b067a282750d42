"""Forms of kernel variants that differ in a size, such as the rows they take at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def limited(sizes: Iterable[int], most: int) -> Iterator[tuple[str, int]]:
    """Yield a form and the size for each of ``sizes``, at most ``most``; no size twice."""
    seen: set[int] = set()
    for size in sizes:
        value = min(size, most)
        if value not in seen:
            seen.add(value)
            yield f"up_to_{size}", value


def row_bands(rows: Iterable[int], height: int) -> Iterator[tuple[str, int]]:
    """Yield a form and the rows at a time: all ``height`` rows, then each of ``rows``; no number
    of rows twice. ``rows`` decrease.
    """
    yield "all_rows", height
    for size in rows:
        if size < height:
            yield f"{size}_rows", size
