"""A stand-in for the lock of an nRF52, in front of an emulated nRF51: its control access port.

Written from the specification (nRF52832 Product Specification v1.4, 16.3 and 16.4; nRF52840 v1.7,
3.9), not from a chip: access port 1 has the registers below. While access port protection is
on, access port 0 transfers nothing and reports itself as disabled. Erasing everything opens it
until the next reset of the access port protection, which the part of revision E and older has
(nWP-027): the chip stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyocd  # noqa: F401 - first, since it loads the virtual probe as a plugin
import pytest
from descriptions import description_text

from hil.board import Board, load_board
from hil.virtual_probe import dap

_CONTROL_PORT = 1
_IDR = 0x0288_0000
_RESET, _ERASEALL, _ERASEALLSTATUS, _APPROTECTSTATUS = 0x00, 0x04, 0x08, 0x0C
#: CSW.DeviceEn of access port 0.
_DEVICE_ENABLED = 1 << 6
#: The nRF51's controller of its flash (NVMC), which does the erasing here.
_NVMC_CONFIG, _NVMC_ERASEALL = 0x4001_E504, 0x4001_E50C


#: FICR.INFO.PART, .VARIANT ("AAE0", a revision whose APPROTECT is not hardened) and .PACKAGE; and
#: UICR.APPROTECT. The nRF51 has none of these.
_PART, _VARIANT, _PACKAGE, _UICR_APPROTECT = 0x1000_0100, 0x1000_0104, 0x1000_0108, 0x1000_1208
_PARTS = {"nrf52": 0x52832, "nrf52840": 0x52840}


class LockedChip:
    """The lock of a chip, which outlives the sessions of the probe."""

    def __init__(self, target: str) -> None:
        self.is_locked = True
        #: How often everything was erased.
        self.erased = 0
        self.words = {
            _PART: _PARTS[target],
            _VARIANT: int.from_bytes(b"AAE0", "big"),
            _PACKAGE: 0x2000,
            _UICR_APPROTECT: 0xFFFF_FF00,
        }

    def port(self, bus: dap.Bus, *, is_v8: bool) -> dap.AccessPort:
        """Return the access ports of a new session."""
        return _Ports(self, _Bus(self, bus), is_v8=is_v8)


class _Bus:
    """The bus of the nRF51 with the words that an nRF52 has besides."""

    def __init__(self, chip: LockedChip, bus: dap.Bus) -> None:
        self._words = chip.words
        self._bus = bus

    def read(self, address: int, size: int) -> int:
        if size == 4 and address in self._words:
            return self._words[address]
        return self._bus.read(address, size)

    def write(self, address: int, size: int, value: int) -> None:
        if size == 4 and address in self._words:
            self._words[address] = value
        else:
            self._bus.write(address, size, value)

    def read_words(self, address: int, count: int) -> list[int]:
        if address in self._words:
            return [self.read(address + 4 * index, 4) for index in range(count)]
        return self._bus.read_words(address, count)

    def write_words(self, address: int, values: Sequence[int]) -> None:
        self._bus.write_words(address, values)


class _Ports(dap.AccessPort):
    def __init__(self, chip: LockedChip, bus: dap.Bus, *, is_v8: bool) -> None:
        super().__init__(bus, is_v8=is_v8)
        self._chip = chip

    @property
    def _is_control(self) -> bool:
        return self._select >> 24 == _CONTROL_PORT

    def _register(self, address: int) -> int:
        return self._select & 0xF0 | address & 0xC

    def read_ap(self, address: int) -> int:
        register = self._register(address)
        if self._is_control:
            return {0xFC: _IDR, _APPROTECTSTATUS: int(not self._chip.is_locked)}.get(register, 0)
        if self._is_ours() and self._chip.is_locked:
            self._fault_if_transfer(register)
            value = super().read_ap(address)
            return value & ~_DEVICE_ENABLED if register == 0 else value
        return super().read_ap(address)

    def write_ap(self, address: int, value: int) -> None:
        register = self._register(address)
        if self._is_control:
            if register == _ERASEALL and value == 1:
                self._chip.erased += 1
                self._bus.write(_NVMC_CONFIG, 4, 2)
                self._bus.write(_NVMC_ERASEALL, 4, 1)
                self._bus.write(_NVMC_CONFIG, 4, 0)
                self._chip.words[_UICR_APPROTECT] = 0xFFFF_FFFF
                self._chip.is_locked = False
            return
        if self._is_ours() and self._chip.is_locked:
            self._fault_if_transfer(register)
        super().write_ap(address, value)

    def read_ap_multiple(self, address: int, count: int) -> list[int]:
        return [self.read_ap(address) for _ in range(count)]

    def write_ap_multiple(self, address: int, values: Sequence[int]) -> None:
        for value in values:
            self.write_ap(address, value)

    def _fault_if_transfer(self, register: int) -> None:
        if register == 0x0C or register & 0xF0 == 0x10:
            self._sticky_error = True
            raise dap.TransferFault("the access port is disabled")


def locked_board(
    folder: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Board, LockedChip]:
    """Return an emulated nRF51 that pyOCD takes for the chip ``target``, and its lock.

    Sessions of this process find the lock; the emulated chip itself has none.
    """
    text = description_text("microbit").replace('target = "nrf51"', f'target = "{target}"')
    path = folder / "locked.toml"
    path.write_text(text)
    chip = LockedChip(target)
    monkeypatch.setattr("hil.virtual_probe.probe.AccessPort", chip.port)
    # The core behind the lock is a Cortex-M0 in place of a Cortex-M4.
    return load_board(path), chip
