"""Numbers as JSON has them."""

from __future__ import annotations

import math


def json_number(value: float | int) -> float | int | None:
    """JSON knows neither NaN nor infinity: null."""
    return value if math.isfinite(value) else None
