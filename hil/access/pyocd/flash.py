"""Program a firmware through a debug probe, and verify it.

The memory is read first, so an unchanged image is not programmed again. A programmed image is
always read back, since some flash algorithms report success although they wrote nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hil.access.connection import Flashed
from hil.access.protocols import Progress
from hil.access.pyocd import locks
from hil.access.pyocd.library import GENERIC_TARGET, OPTIONS, prepare
from hil.access.pyocd.targets import check_target, settings_of
from hil.errors import FlashError, InputError, ProbeError, Remedy
from hil.firmware.image import Segment

if TYPE_CHECKING:
    from pyocd.core.session import Session

    from hil.board import Board

# Bytes compared to detect an erased flash, few enough to read at once.
_ERASED_LOOK_BYTES = 1024
#: The sequence of CMSIS-Packs that opens a locked chip.
_UNLOCKING = "DebugDeviceUnlock"
# xPSR of a core without pending exceptions, in Thumb state.
_XPSR_THUMB = 1 << 24


@contextlib.contextmanager
def connected(
    board: Board, uid: str, *, connect_mode: str = "halt", erase_to_unlock: bool = False
) -> Iterator[Session]:
    """Open a pyOCD session on ``board`` through the probe ``uid``; leaving the context closes it.

    ``connect_mode`` is pyOCD's: ``halt``, ``attach``, ``pre-reset`` or ``under-reset``. A locked
    chip is an error, unless ``erase_to_unlock``: then its whole flash is erased.

    Raise :class:`ProbeError` if there is no such probe or it cannot be opened.
    """
    from pyocd.core.exceptions import Error
    from pyocd.core.helpers import ConnectHelper

    prepare()
    _use_monotonic_deadlines()
    options = {
        **OPTIONS,
        "project_dir": os.getcwd(),
        "auto_unlock": erase_to_unlock,
        # Those of some packs erase a locked chip, too.
        "pack.debug_sequences.disabled_sequences": [] if erase_to_unlock else [_UNLOCKING],
        "target_override": settings_of(board).get("target", GENERIC_TARGET),
        "connect_mode": connect_mode,
        "hide_programming_progress": True,
        **({"frequency": settings_of(board)["frequency_hz"]} if settings_of(board) else {}),
    }
    # pyOCD would take a part of another probe's serial number for this one.
    probes = [p for p in ConnectHelper.get_all_connected_probes(False) if p.unique_id == uid]
    if not probes:
        raise ProbeError(
            f"there is no probe {uid!r}",
            "plug it in; `hil doctor` lists the probes",
            is_lost=True,
        )
    from pyocd.core.session import Session

    check_target(board)
    unconnected = f"cannot connect to {board.name} through the probe {uid}"
    with _as_probe_error(unconnected):
        session = Session(probes[0], options=options)
    try:
        with locks.naming_locks(board, uid, session):
            with _as_probe_error(unconnected):
                _open(session)
            locks.check_unlocked(board, uid, session)
            check_core(board, session.target.selected_core.core_type, uid)
            yield session
    except Error as error:
        raise _probe_error(f"the probe {uid} on {board.name} failed", error) from None
    finally:
        # Also after an attempt that failed amid connecting, which holds the probe. The board may
        # be disconnected: ignore errors while closing.
        with contextlib.suppress(Error, OSError):
            session.close()


def _open(session: Session) -> None:
    """Open the session; a missing core or access port, which is a KeyError in pyOCD, is an error of
    the probe.
    """
    from pyocd.core.exceptions import Error

    try:
        session.open()
    except KeyError as error:
        raise Error(f"the chip shows no {error.args[0]}") from None


def _use_monotonic_deadlines() -> None:
    """Let pyOCD's deadlines not depend on the wall clock, which is set while machines work.

    pyOCD 0.46 compares wall-clock times: where the clock is set forward, an erase that goes on
    counts as timed out; where it is set back by an hour, a dead one is waited for as long.
    """
    from pyocd.utility import timeout

    vars(timeout)["time"] = time.monotonic


def check_core(board: Board, part_number: int, uid: str) -> None:
    """Raise :class:`ProbeError` if the probe found a core that is not the board's."""
    from pyocd.coresight.core_ids import CORE_TYPE_NAME

    names = {part: name for (_, part), name in CORE_TYPE_NAME.items()}
    expected = board.cpu.debug.part_numbers
    # An unknown part number may be right.
    if expected and part_number in names and part_number not in expected:
        raise ProbeError(
            f"the probe {uid} is on a {names[part_number]}, but {board.name} has a "
            f"{board.cpu.name}",
            "choose this board's probe with --probe UID, or the connected board with --board",
        )


def program(
    session: Session, image: Sequence[Segment], progress: Progress | None = None
) -> Flashed:
    """Program ``image`` unless the board has it already; leave the core halted.

    Raise :class:`FlashError` if the flash differs from the image afterwards.
    """
    start = time.monotonic()
    nbytes = sum(len(segment.data) for segment in image)
    target = session.target
    target.halt()
    if _is_there(session, image):
        return Flashed(False, nbytes, time.monotonic() - start)
    in_flash = [segment for segment in image if _is_flash(session, segment)]
    if in_flash:
        from pyocd.flash.loader import MemoryLoader

        loader = MemoryLoader(
            session, progress=progress or _ignore, chip_erase="sector", smart_flash=False
        )
        with _as_flash_error():
            for segment in in_flash:
                loader.add_data(segment.address, segment.data)
            loader.commit()
    for segment in image:
        if segment not in in_flash:
            target.write_memory_block8(segment.address, segment.data)
    target.flush()
    wrong = first_difference(session, image)
    if wrong is not None:
        address, expected, found = wrong
        raise FlashError(
            f"{address:#010x} reads {found:#04x} after {expected:#04x} was programmed",
            "erase the board (hil erase) and repeat; check its supply and its write protection",
            remedy=Remedy.FLASH,
        )
    return Flashed(True, nbytes, time.monotonic() - start)


def _is_there(session: Session, image: Sequence[Segment]) -> bool:
    """Return whether the board has the image; erased flash of some parts cannot be read."""
    from pyocd.core.exceptions import TransferFaultError

    try:
        return first_difference(session, image) is None
    except TransferFaultError:
        return False


def first_difference(session: Session, image: Sequence[Segment]) -> tuple[int, int, int] | None:
    """Return address, image byte and board byte of the first difference; None if equal."""
    for segment in image:
        found = bytes(session.target.read_memory_block8(segment.address, len(segment.data)))
        if found != segment.data:
            at = next(i for i, byte in enumerate(segment.data) if found[i] != byte)
            return segment.address + at, segment.data[at], found[at]
    return None


def start_image(session: Session, image: Sequence[Segment], *, halted: bool = False) -> None:
    """Reset the board and run it, or leave it ``halted`` before its first instruction.

    An image in RAM is started through its own vector table.
    """
    target = session.target
    if any(_is_flash(session, segment) for segment in image):
        if halted:
            target.reset_and_halt()
        else:
            target.reset()
        return
    target.reset_and_halt()
    vectors = image[0].data
    stack_pointer, entry = (int.from_bytes(vectors[at : at + 4], "little") for at in (0, 4))
    core = target.selected_core
    core.write32(_VTOR, image[0].address)
    core.write_core_register("xpsr", _XPSR_THUMB)
    core.write_core_register("msp", stack_pointer)
    core.write_core_register("pc", entry & ~1)
    if not halted:
        target.resume()


_VTOR = 0xE000_ED08


def erase(session: Session) -> list[tuple[int, int]]:
    """Erase all flash of the board's controller, its configuration registers included where they
    are flash; return the first address and the bytes of each region, sorted.

    Raise :class:`InputError` if there is no flash, :class:`FlashError` if it is not erased
    afterwards.
    """
    from pyocd.flash.eraser import FlashEraser

    regions = [region for region in session.target.memory_map if region.is_flash]
    if not regions:
        raise InputError(
            "the board's pyOCD target has no flash to erase",
            "an image in RAM is lost when the board loses power",
        )
    with _as_flash_error():
        FlashEraser(session, FlashEraser.Mode.MASS).erase()
    first = min(regions, key=lambda region: int(region.start))
    start = bytes(session.target.read_memory_block8(first.start, _ERASED_LOOK_BYTES))
    if any(byte != first.erased_byte_value for byte in start):
        raise FlashError(
            f"the flash at {first.start:#010x} is not erased",
            "check the board's supply and the flash's write protection",
        )
    return sorted((int(region.start), int(region.length)) for region in regions)


def _is_flash(session: Session, segment: Segment) -> bool:
    region = session.target.memory_map.get_region_for_address(segment.address)
    return region is not None and bool(region.is_flash)


def _ignore(_done: float) -> None:
    pass


@contextlib.contextmanager
def _as_flash_error() -> Iterator[None]:
    from pyocd.core.exceptions import FlashFailure

    try:
        yield
    except FlashFailure as error:
        raise FlashError(
            f"programming failed: {error}",
            "repeat it; erase a board that is protected or partly programmed first: hil erase",
            remedy=Remedy.FLASH,
        ) from None


@contextlib.contextmanager
def _as_probe_error(what: str) -> Iterator[None]:
    from pyocd.core.exceptions import Error

    try:
        yield
    except (Error, OSError) as error:
        raise _probe_error(what, error) from None


def _probe_error(what: str, error: Any) -> ProbeError:
    from pyocd.core import exceptions

    hint = "check the cable and the board's supply"
    remedy: Remedy | None = Remedy.FLASH
    if isinstance(error, exceptions.ProbeDisconnected):
        hint = "the probe was unplugged: plug it in and try again"
    elif isinstance(error, exceptions.TransferFaultError):
        hint = "the board has no memory at that address: check that --board names this board"
    elif isinstance(error, exceptions.ProbeError) or "busy" in str(error).lower():
        hint = "close other programs that use the probe, or choose another with --probe"
        remedy = None  # another user may hold the board: do not switch its power
    return ProbeError(f"{what}: {error or type(error).__name__}", hint, remedy=remedy)
