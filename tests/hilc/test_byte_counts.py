"""Byte counts as users write them."""

from __future__ import annotations

import pytest

from hilc.support.byte_counts import parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("8192", 8192),
        ("6k", 6144),
        ("6K", 6144),
        ("6 KiB", 6144),
        ("6kib", 6144),
        ("1.5K", 1536),
        ("0.25M", 1 << 18),
        ("1G", 1 << 30),
        ("1.0", 1),
        *(
            (text, None)
            for text in ("", "K", "1.5", "1.0001K", "-1", "1e3", "6KB", "6iB", "٣", ".5K")
        ),
    ],
)
def test_byte_counts(text: str, count: int | None) -> None:
    assert parse_bytes(text) == count
