"""The serial line through a debug probe: SEGGER RTT, accessed while the core runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hil.errors import LinkError

if TYPE_CHECKING:
    from pyocd.core.session import Session

_START_LIMIT_S = 5.0
_LOOK_S = 0.001
#: Number of polls without data before a read returns.
_READ_LIMIT_S = 0.01
_WRITE_LIMIT_S = 5.0


class RttLine:
    """A line over RTT; ``session`` must stay open as long as the line.

    ``address`` is that of the control block, the firmware's symbol ``_SEGGER_RTT``.
    """

    def __init__(self, session: Session, address: int) -> None:
        from pyocd.core.exceptions import Error
        from pyocd.debug.rtt import RTTControlBlock

        self.session = session
        self._errors = Error
        self._block = RTTControlBlock.from_target(session.target, address=address)
        deadline = time.monotonic() + _START_LIMIT_S
        while True:
            try:
                self._block.start()
                break
            except Error as error:
                # The firmware writes the block's identifier when it has initialised RTT.
                if time.monotonic() > deadline:
                    raise LinkError(
                        f"the firmware did not initialise RTT within {_START_LIMIT_S:g} s: {error}",
                        "build it for this board with --transport rtt and flash it again",
                    ) from None
                time.sleep(_LOOK_S)

    def read(self) -> bytes:
        """Return the available bytes, or the first to arrive within some milliseconds."""
        deadline = time.monotonic() + _READ_LIMIT_S
        while True:
            try:
                data = bytes(self._block.up_channels[0].read())
            except self._errors as error:
                raise ConnectionResetError(str(error)) from None
            if data or time.monotonic() > deadline:
                return data
            time.sleep(_LOOK_S)

    def write(self, data: bytes) -> None:
        """Write all bytes as the firmware makes room for them.

        Raise :class:`TimeoutError` if the firmware reads nothing, and
        :class:`ConnectionResetError` if the probe fails.
        """
        deadline = time.monotonic() + _WRITE_LIMIT_S
        while data:
            try:
                count = self._block.down_channels[0].write(data)
            except self._errors as error:
                raise ConnectionResetError(str(error)) from None
            data = data[count:]
            if data and not count:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the firmware read nothing for {_WRITE_LIMIT_S:g} s")
                time.sleep(_LOOK_S)

    def close(self) -> None:
        """Do nothing: the owner of the session closes it."""
