"""The debug access port of a Cortex-M: a debug port and one AHB access port.

Registers and bits are those of the Arm Debug Interface Architecture Specification, ADIv5.2. Memory
and core lie behind it; this module has only the state that a probe sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

_T = TypeVar("_T")

# Debug port registers.
_DPIDR_ABORT, _CTRL_STAT, _SELECT, _RDBUFF = 0x0, 0x4, 0x8, 0xC
_DPIDR = 0x2BA0_1477  # SW-DP, DPv1, designed by Arm
_POWER_REQUESTS = 1 << 30 | 1 << 28
_STICKY_ERROR = 1 << 5
_ABORT_STICKY_ERROR = 1 << 2

# Access port registers.
_CSW, _TAR, _DRW, _BD, _CFG, _BASE, _IDR = 0x00, 0x04, 0x0C, 0x10, 0xF4, 0xF8, 0xFC
_AHB3_IDR, _AHB5_IDR = 0x2477_0011, 0x8477_0001
_CSW_SIZE, _CSW_INCREMENT, _CSW_STATUS = 0x7, 0x30, 1 << 6
_CSW_WRITABLE = 0xFF00_0037
# The automatic increment of the address wraps at this boundary.
_AHB3_WRAP, _AHB5_WRAP = 1 << 12, 1 << 10
_ROM_TABLE = 0xE00F_F003


class TransferFault(Exception):
    """Error for a failed bus transfer, or for an earlier one that was not cleared."""


class Bus(Protocol):
    """Memory bus of the access port; raises TransferFault for an unmapped address."""

    def read(self, address: int, size: int) -> int:
        """Return the ``size`` bytes at ``address`` as a number."""

    def write(self, address: int, size: int, value: int) -> None:
        """Write ``value`` as ``size`` bytes to ``address``."""

    def read_words(self, address: int, count: int) -> list[int]:
        """Return ``count`` 32-bit words from ``address`` on."""

    def write_words(self, address: int, values: Sequence[int]) -> None:
        """Write 32-bit words from ``address`` on."""


class AccessPort:
    """The registers of the debug port and the access port."""

    def __init__(self, bus: Bus, *, is_v8: bool) -> None:
        self._bus = bus
        self._idr = _AHB5_IDR if is_v8 else _AHB3_IDR
        self._wrap = _AHB5_WRAP if is_v8 else _AHB3_WRAP
        self._control = 0
        self._select = 0
        self._sticky_error = False
        self._csw = 0x4300_0002
        self._tar = 0

    # -- the debug port

    def read_dp(self, address: int) -> int:
        """Return the debug port's register at ``address``; 0 for one that is not simulated."""
        if address == _DPIDR_ABORT:
            return _DPIDR
        if address == _CTRL_STAT:
            if self._select & 0xF:
                return 0
            acknowledged = (self._control & _POWER_REQUESTS) << 1
            return self._control | acknowledged | (_STICKY_ERROR if self._sticky_error else 0)
        return 0  # RESEND and RDBUFF: transfers are never pending

    def write_dp(self, address: int, value: int) -> None:
        """Write the debug port's register at ``address``."""
        if address == _DPIDR_ABORT and value & _ABORT_STICKY_ERROR:
            self._sticky_error = False
        elif address == _CTRL_STAT and not self._select & 0xF:
            self._control = value & (_POWER_REQUESTS | 0xF00)
        elif address == _SELECT:
            self._select = value

    def line_reset(self) -> None:
        """Reset the line, which 50 clocks with the line high do on the wire."""
        self._select = 0

    # -- the access port

    def read_ap(self, address: int) -> int:
        """Return the access port's register at ``address``; reading DRW reads memory."""
        if not self._is_ours():
            return 0
        register = self._select & 0xF0 | address & 0xC
        match register:
            case 0x00:
                return self._csw | _CSW_STATUS
            case 0x04:
                return self._tar
            case 0x0C:
                return self._guarded_read(self._tar, increment=True)
            case 0xF8:
                return _ROM_TABLE
            case 0xFC:
                return self._idr
        if register & 0xF0 == _BD:
            return self._guarded_read(self._tar & ~0xF | register & 0xC, increment=False)
        return 0

    def write_ap(self, address: int, value: int) -> None:
        """Write the access port's register at ``address``; writing DRW writes memory."""
        if not self._is_ours():
            return
        register = self._select & 0xF0 | address & 0xC
        match register:
            case 0x00:
                self._csw = value & _CSW_WRITABLE
            case 0x04:
                self._tar = value
            case 0x0C:
                self._guarded_write(self._tar, value, increment=True)
            case _ if register & 0xF0 == _BD:
                self._guarded_write(self._tar & ~0xF | register & 0xC, value, increment=False)

    def read_ap_multiple(self, address: int, count: int) -> list[int]:
        """Return the values of ``count`` reads of the register, of DRW as one block."""
        if self._is_block(address, count):
            values = self._guard(lambda: self._bus.read_words(self._tar, count))
            self._advance(4 * count)
            return values
        return [self.read_ap(address) for _ in range(count)]

    def write_ap_multiple(self, address: int, values: Sequence[int]) -> None:
        """Write each of ``values`` to the register, to DRW as one block."""
        if self._is_block(address, len(values)):
            self._guard(lambda: self._bus.write_words(self._tar, values))
            self._advance(4 * len(values))
        else:
            for value in values:
                self.write_ap(address, value)

    def _is_ours(self) -> bool:
        """Return whether the selected access port is number 0, the only one."""
        return self._select >> 24 == 0

    def _is_block(self, address: int, count: int) -> bool:
        """Return whether the transfers are consecutive words that do not wrap."""
        return (
            self._is_ours()
            and (self._select & 0xF0 | address & 0xC) == _DRW
            and self._csw & _CSW_SIZE == 2
            and self._csw & _CSW_INCREMENT == 0x10
            and self._tar % 4 == 0
            and self._tar % self._wrap + 4 * count <= self._wrap
        )

    def _guard(self, access: Callable[[], _T]) -> _T:
        if self._sticky_error:
            raise TransferFault("an earlier transfer failed")
        try:
            return access()
        except TransferFault:
            self._sticky_error = True
            raise

    def _size(self) -> int:
        return 1 << min(self._csw & _CSW_SIZE, 2)

    def _guarded_read(self, address: int, *, increment: bool) -> int:
        size = self._size() if increment else 4
        value = self._guard(lambda: self._bus.read(address, size))
        if increment and self._csw & _CSW_INCREMENT:
            self._advance(size)
        # Bytes use the lane of their address.
        return value << 8 * (address & 3 & -size) & 0xFFFF_FFFF

    def _guarded_write(self, address: int, value: int, *, increment: bool) -> None:
        size = self._size() if increment else 4
        lane = value >> 8 * (address & 3 & -size) & (1 << 8 * size) - 1
        self._guard(lambda: self._bus.write(address, size, lane))
        if increment and self._csw & _CSW_INCREMENT:
            self._advance(size)

    def _advance(self, size: int) -> None:
        self._tar = self._tar & ~(self._wrap - 1) | (self._tar + size) & (self._wrap - 1)
