"""The 1200-baud touch: a board with Arduino's USB stack restarts into its bootloader when its
port is opened at 1200 baud and closed.
"""

from __future__ import annotations

import contextlib

import serial

from hil.errors import ProbeError

_TOUCH_BAUD = 1200


def touch(port: str) -> None:
    """Open the port at 1200 baud and close it; :class:`~hil.errors.ProbeError` if it cannot."""
    try:
        line = serial.Serial(port, _TOUCH_BAUD, exclusive=True)
        # The board looks at this line as well; closing drops it too, where it cannot be set.
        with line, contextlib.suppress(OSError):
            line.dtr = False
    except (OSError, ValueError) as error:
        raise ProbeError(
            f"the board at {port} cannot be restarted into its bootloader: {error}",
            "close other programs that use the port, or press reset twice",
        ) from None
