"""Numbers of bytes as users write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def parse_bytes(text: str) -> int | None:
    """Return the bytes of ``8192``, ``32K`` or ``1M``; None where the text is no such number."""
    match = re.fullmatch(r"(\d+)([KM]?)", text, re.ASCII)
    return int(match[1]) * _UNITS[match[2]] if match else None
