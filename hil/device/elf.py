"""``hil.open_elf``: start firmware that this project did not build, and use its console."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from hil.access import Connection, Flashed, Running, start
from hil.access.bench_boards import held_board, reach_of, refuse_options
from hil.access.port import Port
from hil.board import Board, load_board
from hil.board.bench import is_of_bench
from hil.device.console import Console
from hil.device.console_log import ConsoleLog
from hil.device.deploy import ElfImage
from hil.device.route import Route, ready_route
from hil.errors import InputError
from hil.firmware.image import check_image
from hil.lab.selector import parse_selector
from hilc.support.arguments import typed

if TYPE_CHECKING:
    from hil.lab import LabBoard
    from hil.link.line import Line

#: How long a port that comes with the firmware is awaited.
_APPEAR_S = 10.0
_MAGIC = b"\x7fELF"


class ElfDevice:
    """A board that runs a firmware of the user."""

    #: Name of the board.
    board: str
    elf: Path
    #: What the firmware prints, and what is sent to it.
    console: Console

    def __init__(
        self,
        route: Route,
        elf: Path,
        start: Callable[[], AbstractContextManager[Running]],
        log: ConsoleLog | None = None,
    ) -> None:
        """Start the firmware by ``start``, and open its serial line."""
        self.route = route
        self.board = route.board.name
        self.elf = elf
        self._start = start
        self._log = log
        self._held = ExitStack()
        self._open()
        name = f"{elf.name} on {self.board}"
        self.console = Console(self.line, self.alive, name, log, elf)

    @property
    def line(self) -> Line:
        """The serial line; who reads it takes text from the console."""
        line = self._port or self._running.line
        assert line is not None, "one of the two is there"
        return line

    @property
    def is_real(self) -> bool:
        """Whether the board exists, and so can be unplugged."""
        return not (self._running.is_emulated or self.route.board.is_host)

    def alive(self) -> None:
        """Raise :class:`~hil.errors.DeviceError` if what runs the firmware has ended."""
        self._running.alive()

    def reset(self) -> None:
        """Start the firmware again. Only what it prints from then on can match on the console.

        A real board is reset; an emulated one is a new machine.
        """
        self.console.drain()
        self._held.close()
        if self._log is not None:
            self._log.note("reset")
        self._open()
        self.console.reopened(self.line)

    def close(self) -> None:
        """Close the line, after what is left of the output was logged."""
        with self._held:
            self.console.drain()

    def _open(self) -> None:
        with ExitStack() as stack:
            running = self._running = stack.enter_context(self._start())
            self._port: Port | None = None
            if running.line is None:
                # The port of a board that is its own USB device comes with the firmware, and again
                # after each reset.
                wait_s = 0.0 if running.is_emulated else _APPEAR_S
                self._port = Port(running.url, self.route.board.line, wait_s)
                stack.callback(self._port.close)
            self._held = stack.pop_all()


@typed
@contextlib.contextmanager
def open_elf(
    board: str | Path | Board,
    elf: str | Path,
    *,
    runner: str | None = None,
    port: str | None = None,
    probe: str | None = None,
    progress: Callable[[float], None] | None = None,
    flashed: Callable[[Flashed], None] | None = None,
    lab: LabBoard | None = None,
    wait_s: float | None = None,
    log: str | Path | None = None,
) -> Iterator[ElfDevice]:
    """Start the firmware ``elf``, which this project did not build, on ``board``.

    It is programmed and started as :func:`hil.open` does it, by ``runner``, ``probe`` and ``port``;
    a port alone is the serial line of a board that its flasher programs first. Its serial line is
    ``device.console``. Everything received and sent is appended to the file ``log``.

    ``board``, ``lab``, ``progress``, ``flashed`` and ``wait_s`` are those of :func:`hil.open`.
    Leaving the context ends everything that was started; a real board runs on.

    Raise :class:`~hil.errors.InputError` for a file that is no ELF file or is for another board,
    and :class:`~hil.errors.DeviceError` if the board does not start.
    """
    elf = check_elf(elf)
    with ExitStack() as stack:
        reach = {"runner": runner, "port": port, "probe": probe}
        if isinstance(board, str) and (wanted := parse_selector(board)) is not None:
            # Not at the top: most sessions use no lab.
            from hil.lab.place import ACQUIRE_LIMIT_S, leased

            limit_s = ACQUIRE_LIMIT_S if wait_s is None else wait_s
            lab = stack.enter_context(leased(wanted, limit_s))
            board = lab.board
        elif isinstance(board, str) and is_of_bench(board):
            refuse_options(board, **reach)
            board = stack.enter_context(held_board(board, wait_s or 0.0))
            reach = reach_of(board)
        if not isinstance(board, Board):
            board = load_board(board)
        connection = Connection(
            reach["probe"],
            reach["port"],
            board.is_over_rtt,
            progress,
            flashed,
            lab,
            appear_s=wait_s or 0.0,
        )
        written = stack.enter_context(ConsoleLog(Path(log))) if log is not None else None
        yield stack.enter_context(started(board, elf, reach["runner"], connection, written))


@contextlib.contextmanager
def started(
    board: Board,
    elf: Path,
    runner: str | None,
    connection: Connection,
    log: ConsoleLog | None = None,
) -> Iterator[ElfDevice]:
    """Start a firmware on a board that was found; otherwise like :func:`open_elf`."""
    is_port_alone = connection.port is not None and connection.probe is None and runner is None
    if is_port_alone and board.flashers:
        runner = board.flashers[0]  # a port alone would mean firmware that runs already
    route = ready_route(board, runner, connection)
    if board.is_host:
        check_program(elf)
    else:
        check_image(board, elf)
    foreign = replace(route.connection, is_foreign=True)

    def run() -> AbstractContextManager[Running]:
        return start(route.board, ElfImage(elf), route.runner, foreign)

    with contextlib.closing(ElfDevice(route, elf, run, log)) as device:
        yield device


def check_elf(path: str | Path) -> Path:
    """Return the path of an ELF file; raise :class:`~hil.errors.InputError` for another one."""
    path = Path(path)
    hint = "give the firmware that your linker wrote"
    if not path.exists():
        raise InputError(f"{path} does not exist", hint)
    if not is_elf(path):
        raise InputError(f"{path} is no ELF file", hint)
    return path


def check_program(path: Path) -> None:
    """Raise :class:`~hil.errors.InputError` for an ELF file that this machine cannot execute."""
    own = Path(sys.executable)
    if is_elf(own) and (wanted := _machine(own)) != (given := _machine(path)):
        raise InputError(
            f"{path} is for the machine {given}, and native executes programs for {wanted}",
            "build it for this machine, or name the board that it is for: --board B",
        )


def _machine(path: Path) -> str:
    """Return the machine and word size of an ELF file, such as ``EM_X86_64, 64 bit``."""
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            return f"{elf['e_machine']}, {elf.elfclass} bit"
    except ELFError as error:
        raise InputError(
            f"{path} is no ELF file: {error}", "give the firmware that your linker wrote"
        ) from None


def is_elf(path: Path) -> bool:
    """Return whether ``path`` is a file that begins with the ELF magic number."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
