"""Parse byte counts of the command line."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def parse_bytes(text: str) -> int | None:
    """Return the bytes of ``8192``, ``32K`` or ``1M``; None for any other text."""
    match = re.fullmatch(r"(\d+)([KM]?)", text, re.ASCII)
    return int(match[1]) * _UNITS[match[2]] if match else None
