"""Byte counts as text, of command lines and descriptions."""

from __future__ import annotations

import re

#: Pattern of a text that :func:`parse_bytes` takes, with groups for digits, fraction and unit, as
#: JSON schemas know patterns: without flags.
BYTE_COUNT_PATTERN = r"^([0-9]{1,20})(?:\.([0-9]{1,20}))? ?(?:([KMGkmg])(?:[iI][bB])?)?$"
_COUNT = re.compile(BYTE_COUNT_PATTERN)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

#: Examples for messages and help.
BYTE_COUNTS = "8192, 32K, 1.5M or 64KiB"


def parse_bytes(text: str) -> int | None:
    """Return the bytes of ``8192``, ``32K``, ``1.5M`` or ``64KiB``, in either case: K is 1,024
    bytes, M and G that times 1,024 once and twice.

    None for any other text: for a fraction of a byte, and for KB, which may mean 1,000 bytes.
    """
    match = _COUNT.fullmatch(text)
    if match is None:
        return None
    whole, part, unit = match[1], match[2] or "", _UNITS[(match[3] or "").upper()]
    count, left = divmod(int(whole + part) * unit, 10 ** len(part))
    return None if left else count
