"""Errors of boards in a lab."""

from __future__ import annotations

from hil.errors import DeviceError, InputError


class NoPlaceError(InputError):
    """The lab has no such board."""


class BusyError(DeviceError):
    """Another client uses the board's line."""


class LostError(DeviceError):
    """The board was lost: another user holds it."""
