"""Names of release 0.1 for what :mod:`hil` has: ``hil.build`` is the function."""

from __future__ import annotations

from hil.firmware.build import Firmware, Sizes, build, create_project

__all__ = ["Firmware", "Sizes", "build", "create_project"]
