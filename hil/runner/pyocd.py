"""Runs a firmware on a board behind a debug probe: programs, resets, finds the serial port."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hil import flash, virtual_probe
from hil.config import remember
from hil.errors import DeviceError, FlashError, InputError, Mend, ProbeError
from hil.probes import ProbeInfo, choose_port, choose_probe, connected_probes
from hil.rpc.rtt import RttLine
from hil.runner.choice import VIRTUAL, Choice
from hil.runner.qemu import QemuBoard

if TYPE_CHECKING:
    from hil.board import Board
    from hil.rpc.link import Line
    from hil.virtual_probe import VirtualBoard


class ProbedBoard:
    """A firmware on a real board that a probe programmed."""

    counter: Final = "cycles"

    def __init__(
        self, url: str, line: Line | None, reset: Callable[[], None] | None = None
    ) -> None:
        """``reset`` restarts the firmware through a probe that is free."""
        self.url = url
        self.line = line
        self._reset = reset

    @property
    def can_reset(self) -> bool:
        """Whether :meth:`reset` can be called."""
        return self._reset is not None

    def reset(self) -> None:
        """Resets the board through its probe; the serial line must be closed."""
        assert self._reset is not None, "only what can_reset says"
        self._reset()

    def alive(self) -> None:
        """Nothing tells of a board's end but its silence."""

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Cycles: the time base runs at the core's clock."""
        return ticks


@dataclass(frozen=True)
class Reached:
    """A probe that was chosen for a board."""

    uid: str
    #: None where the board is virtual and was started for this.
    probe: ProbeInfo | None
    #: The QEMU machine behind the probe, where there is one.
    virtual: VirtualBoard | None
    #: Raises where that machine has ended.
    is_alive: Callable[[], None]


@contextlib.contextmanager
def reached(board: Board, asked: str | None) -> Iterator[Reached]:
    """The probe for ``board`` that was ``asked`` for, or the one that fits.

    Asked for ``virtual``, it starts the board's QEMU machine, which ends with the context.
    """
    if asked == VIRTUAL:
        with virtual_probe.start(board) as (virtual, process):
            yield Reached(virtual.uid, None, virtual, process.alive)
        return
    probe = choose_probe(board, asked, connected_probes())
    running = next((v for v in virtual_probe.running_boards() if v.uid == probe.uid), None)
    if running is not None and running.board != board.name:
        raise InputError(
            f"the probe {probe.uid} is on {running.board}, not on {board.name}",
            f"use --board {running.board}, or another probe",
        )
    yield Reached(probe.uid, probe, running, _aliveness(running))


@contextlib.contextmanager
def start(board: Board, elf: Path, choice: Choice) -> Iterator[ProbedBoard | QemuBoard]:
    """Programs ``elf`` where it is not on the board yet, resets the board and lets it run.

    The probe is free again when the firmware runs. What was started for it (a virtual board) ends
    with the context; a real board runs on.
    """
    image = flash.read_image(elf)
    with contextlib.ExitStack() as stack:
        chosen = stack.enter_context(reached(board, choice.probe))
        virtual = chosen.virtual
        # Before the board is touched: without a port, programming it would be for nothing.
        url = line_url(board, chosen, choice)
        session = stack.enter_context(flash.connected(board, chosen.uid))
        done = flash.program(session, image, choice.progress)
        flash.start_image(session, image)
        line: Line | None = None
        if choice.rtt:
            line = RttLine(session, flash.symbol_address(elf, "_SEGGER_RTT"))
        else:
            session.close()  # others may use the probe while the firmware runs
        if choice.flashed is not None:
            choice.flashed(done)

        def reset() -> None:
            with flash.connected(board, chosen.uid) as session:
                session.target.halt()
                if wrong := flash.first_difference(session, image):
                    raise FlashError(
                        f"{board.name} has lost its firmware: {wrong[0]:#010x} reads "
                        f"{wrong[2]:#04x}, not {wrong[1]:#04x}",
                        "flash it again; check the supply if it happens again",
                        mend=Mend.FLASH,
                    )
                flash.start_image(session, image)

        def reset_virtual() -> socket.socket:
            assert virtual is not None
            reset()
            return stack.enter_context(_Qmp(virtual))

        if virtual is None:
            remember(board.name, probe=choice.probe, port=choice.port)
            # Over RTT the line keeps the probe.
            yield ProbedBoard(url, line, None if choice.rtt else reset)
        else:
            assert board.qemu is not None
            qmp = None if choice.rtt else stack.enter_context(_Qmp(virtual))
            shift = board.qemu.icount_shift
            yield QemuBoard(chosen.is_alive, url, qmp, shift, line, reset_virtual)


def line_url(board: Board, chosen: Reached, choice: Choice) -> str:
    """The serial line's URL; over RTT only a name."""
    if choice.rtt:
        return f"rtt://{chosen.uid}"
    if chosen.virtual is not None:
        return chosen.virtual.url
    assert chosen.probe is not None, "a board that is not virtual has a real probe"
    return choose_port(board, chosen.probe, choice.port)


class _Qmp(socket.socket):
    """A connection to a machine's QMP, which is the probe's again when it is closed."""

    def __init__(self, virtual: VirtualBoard) -> None:
        super().__init__(socket.AF_UNIX)
        try:
            self._claim = virtual.claim()
        except BlockingIOError:
            super().close()
            raise ProbeError(
                f"the probe {virtual.uid} is busy: another session uses it",
                "close it, or start another virtual board",
            ) from None
        self.connect(f"{virtual.sockets}/qmp")
        self.setblocking(False)

    def close(self) -> None:
        super().close()
        self._claim.close()


def _aliveness(virtual: VirtualBoard | None) -> Callable[[], None]:
    def check() -> None:
        if virtual is not None and virtual not in virtual_probe.running_boards():
            raise DeviceError(
                f"the virtual board {virtual.uid} has ended",
                "start it again, then try again",
                mend=Mend.POWER,
            )

    return check
