"""Errors of the harness, below the project's one root :class:`hilc.errors.HilError`."""

from __future__ import annotations

from hilc.errors import HilError, InputError

__all__ = [
    "BoardError",
    "BuildError",
    "DeviceError",
    "FlashError",
    "HilError",
    "InputError",
    "LinkError",
    "ProbeError",
]


class BoardError(InputError):
    """A board description is not valid; the message names file and key."""


class BuildError(HilError):
    """The firmware could not be built: a tool is missing or failed, or the image does not fit."""

    exit_code = 3


class DeviceError(HilError):
    """Board, emulator, probe or firmware failed."""

    exit_code = 4


class ProbeError(DeviceError):
    """A debug probe is missing, busy or failed."""


class FlashError(DeviceError):
    """The board's flash does not hold what was programmed."""


class LinkError(DeviceError):
    """The serial link failed: closed, no answer before the deadline, not our protocol."""
