"""Units of what a run takes."""

from __future__ import annotations

from typing import Literal

#: Executed instructions, cycles of the core's clock, or time of this machine.
Counter = Literal["instructions", "cycles", "nanoseconds"]
