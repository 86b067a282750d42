"""Locks of chips against debug probes: which one a chip has, and what opens it.

Chips are described by their makers' manuals: Nordic's product specifications (CTRL-AP), NXP's
reference manuals of Kinetis (MDM-AP, flash security) and LPC55Sxx (debug mailbox), ST's reference
manuals (option bytes), Microchip's data sheets (DSU).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hil.access.pyocd.targets import settings_of
from hil.board.board import board_file
from hil.errors import FlashError, ProbeError

if TYPE_CHECKING:
    from pyocd.core.session import Session

    from hil.board import Board


@dataclass(frozen=True)
class Lock:
    """The lock of a chip."""

    #: Its name in the maker's documents.
    name: str
    #: The memory that opening it erases.
    destroys: str
    #: The command that opens it, if ``hil erase --erase-to-unlock`` cannot.
    remedy: str = ""


_APPROTECT = "its access port protection (APPROTECT)"
_NRF_MEMORY = "its whole flash and its configuration registers (UICR)"


def _is_locked(target: Any) -> bool:
    return bool(target.is_locked())


def _is_nrf54l_locked(target: Any) -> bool:
    return not target.ap_is_enabled()


def _is_lpc55_locked(target: Any) -> bool:
    return 0 not in target.aps or not target.aps[0].is_enabled


#: By pyOCD's class of a family: what returns whether the chip is locked, and the lock.
_FAMILIES: Mapping[str, tuple[Callable[[Any], bool], Lock]] = {
    "NRF52": (_is_locked, Lock(_APPROTECT, _NRF_MEMORY)),
    "NRF91": (_is_locked, Lock("its APPROTECT or SECUREAPPROTECT", _NRF_MEMORY)),
    "NRF54L": (
        _is_nrf54l_locked,
        Lock(_APPROTECT, "its whole RRAM and its configuration registers (UICR)"),
    ),
    "Kinetis": (
        _is_locked,
        Lock("its flash security (FSEC)", "its whole flash, with the flash configuration field"),
    ),
    "LPC5500Family": (
        _is_lpc55_locked,
        Lock(
            "its debug access, which needs a debug authentication",
            "",
            "open it with the maker's tools and this chip's debug credential",
        ),
    ),
}


@dataclass(frozen=True)
class _Bits:
    """Where a chip shows its lock to a probe that reads memory: address and bits of a word."""

    address: int
    shift: int
    opened: int
    mask: int = 0xFF


def _rdp(address: int, shift: int) -> _Bits:
    return _Bits(address, shift, opened=0xAA)


#: Where chips of ST show their readout protection, by the start of pyOCD's name: reference manuals
#: RM0041, RM0090, RM0385, RM0351, RM0444, RM0440, RM0433, RM0438 and RM0456 (FLASH_OBR, _OPTCR,
#: _OPTR, _OPTSR_CUR).
_READOUT: Mapping[str, _Bits] = {
    "stm32f1": _Bits(0x4002_201C, 1, opened=0, mask=1),
    "stm32f4": _rdp(0x4002_3C14, 8),
    "stm32f7": _rdp(0x4002_3C14, 8),
    "stm32l4": _rdp(0x4002_2020, 0),
    "stm32g0": _rdp(0x4002_2020, 0),
    "stm32g4": _rdp(0x4002_2020, 0),
    "stm32h7": _rdp(0x5200_201C, 8),
    "stm32l5": _rdp(0x4002_2040, 0),
    "stm32u5": _rdp(0x4002_2040, 0),
}
_RDP_LEVEL_2 = 0xCC
_RDP = Lock(
    "its readout protection (RDP)",
    "its whole flash",
    "STM32_Programmer_CLI -c port=SWD -ob RDP=0xAA",
)
_RDP_FOREVER = Lock(
    "its readout protection (RDP) at level 2", "", "nothing opens it again: take another chip"
)
#: STATUSB.PROT of the SAM D5x and E5x, at the address that a locked chip leaves to probes
#: (DS60001507, 12.11).
_SAM = _Bits(0x4100_2100, 16, opened=0, mask=1)
_SAM_LOCK = Lock("its security bit", "its whole flash")
#: Identification of Nordic's control access port, without its version, and a register of it.
_CTRL_AP_IDR, _CTRL_AP_IDR_MASK, _APPROTECT_STATUS = 0x0288_0000, 0x0FFF_FFFF, 0x00C


def port_lock(target: Any) -> Lock | None:
    """Return the lock that the access ports of pyOCD's ``target`` show; None for none."""
    for family in type(target).__mro__:
        if family.__name__ in _FAMILIES:
            is_locked, lock = _FAMILIES[family.__name__]
            return lock if is_locked(target) else None
    for port in target.aps.values():
        if port.idr & _CTRL_AP_IDR_MASK == _CTRL_AP_IDR:
            return None if port.read_reg(_APPROTECT_STATUS) & 1 else Lock(_APPROTECT, _NRF_MEMORY)
    return None


def memory_lock(read_word: Callable[[int], int], name: str) -> Lock | None:
    """Return the lock that registers of the chip ``name`` (pyOCD's) show; None for none.

    ``read_word`` returns the 32-bit word at an address.
    """

    def shown(bits: _Bits) -> int:
        return read_word(bits.address) >> bits.shift & bits.mask

    name = name.lower()
    if name.startswith(("atsamd5", "atsame5")):
        return _SAM_LOCK if shown(_SAM) != _SAM.opened else None
    bits = next((bits for start, bits in _READOUT.items() if name.startswith(start)), None)
    if bits is None or (level := shown(bits)) == bits.opened:
        return None
    return _RDP_FOREVER if level == _RDP_LEVEL_2 else _RDP


def locked_error(board: Board, uid: str, lock: Lock) -> ProbeError:
    """Return the error for a locked chip. It is not repeated: the same would happen again."""
    word = board.name if board_file(board.name) == board.path else board.path
    remedy = lock.remedy or f"hil erase --board {word} --probe {uid} --erase-to-unlock"
    erases = f", which erases {lock.destroys}" if lock.destroys else ""
    return ProbeError(
        f"the chip of {board.name} is locked by {lock.name}; nothing was changed on it",
        f"{'unlock it' if lock.destroys else 'remedy'}: {remedy}{erases}",
    )


def check_unlocked(board: Board, uid: str, session: Session) -> None:
    """Raise for a chip whose lock leaves its debug port open, but not its memory."""
    if lock := port_lock(session.target):
        raise locked_error(board, uid, lock)


@contextlib.contextmanager
def naming_locks(board: Board, uid: str, session: Session) -> Iterator[None]:
    """Raise the error for a lock in place of pyOCD's errors and programming errors it causes."""
    from pyocd.core.exceptions import Error

    try:
        yield
    except (Error, FlashError, ProbeError):
        lock = None
        name = str(settings_of(board).get("target", ""))
        # Where the chip or the probe does not answer, the failure that led here says more. A
        # session that failed in the middle may lack any part.
        with contextlib.suppress(Error, OSError, AttributeError, KeyError):
            target = session.board.target
            lock = port_lock(target) or memory_lock(target.read32, name)
        if lock is None:
            raise
        raise locked_error(board, uid, lock) from None
