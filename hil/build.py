"""Firmware from models and a board.

What of :mod:`hil.firmware` is for users; the rooms use that.
"""

from __future__ import annotations

from hil.firmware.build import Firmware, Sizes, build, create_project

__all__ = ["Firmware", "Sizes", "build", "create_project"]
