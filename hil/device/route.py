"""The way to a board, chosen once: what starts it, and the probe or port that is found now."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

from hil.access import (
    VIRTUAL,
    Connection,
    Flashed,
    Runner,
    check_installed,
    check_line,
    chosen_runner,
    is_real,
    pinned,
)
from hil.board import Board
from hil.device.power import power_of_board
from hil.errors import HilWarning, InputError
from hil.link.line import await_port


@dataclass(frozen=True)
class Route:
    """What starts a firmware on a board, and the connection to it.

    The settings of the runner are those of the command, in place of the board file's.
    """

    board: Board
    #: None for firmware that runs already at a port, and for a board of a lab.
    runner: Runner | None
    connection: Connection

    @property
    def attaches(self) -> bool:
        """Whether to connect to a firmware that already runs at the chosen port."""
        return self.runner is None and self.connection.lab is None

    @property
    def is_machine(self) -> bool:
        """Whether the machine of the firmware is created for the run, and ends with it."""
        return self.runner is not None and (
            self.connection.probe == VIRTUAL or not is_real(self.runner)
        )

    @property
    def label(self) -> str:
        """Return the name of what starts the board, for the provenance of results."""
        if self.connection.lab is not None:
            return f"lab:{self.connection.lab.place}"
        return "port" if self.runner is None else self.runner.name

    def reporting_to(
        self, progress: Callable[[float], None] | None, flashed: Callable[[Flashed], None] | None
    ) -> Route:
        """Return the route that reports the programmed fraction, and what was programmed."""
        connection = replace(self.connection, progress=progress, flashed=flashed)
        return replace(self, connection=connection)

    def pinned(self) -> Route:
        """Return the route through the one probe that is found now, by its whole unique id."""
        if self.runner is None:
            return self
        return replace(self, connection=pinned(self.board, self.runner, self.connection))

    def check(self) -> None:
        """Raise if a program, a probe or a port is missing, or an option does not suit the board.

        Called before a build, so that the user does not wait for a firmware that cannot start.
        """
        if self.connection.bulk is not None:
            self._check_bulk(self.connection.bulk)
        power_of_board(self.board)  # report an error in it now, not when recovery needs it
        if self.attaches:
            assert self.connection.port is not None
            await_port(self.connection.port, self.connection.appear_s)
        elif self.runner is not None:
            check_installed(self.runner, self.board)

    def _check_bulk(self, wanted: bool) -> None:
        """Raise if the board's memory is known to be inaccessible; warn if it is not ``wanted``."""
        board = self.board
        if self.connection.lab is not None:
            why = "a lab forwards a board's serial line, not its memory"
        elif self.runner is None:
            why = "a port gives access to the serial line only"
        elif not self.runner.reaches_memory:
            why = f"the runner {self.runner.name} has no access to memory besides the serial line"
        elif self.is_machine or not wanted:
            return
        elif not board.is_over_rtt:
            raise InputError(
                "a probe accesses tensors only if it carries the serial line",
                "use --transport rtt",
            )
        # A probe bypasses a core's data cache; no supported emulator has one.
        elif board.cpu.debug.data_cache and board.qemu is None:
            why = f"{board.name} has a data cache, which a probe would bypass"
        else:
            return
        if wanted:
            raise InputError(f"--bulk: {why}", "drop --bulk")
        warnings.warn(HilWarning(f"--no-bulk has no effect: {why}"), stacklevel=2)


def route_to(board: Board, runner: str | None, connection: Connection) -> Route:
    """Return the route to a board: by ``runner``, by default the board's flasher where a probe or
    RTT is chosen, else its first runner.

    A port alone is that of firmware that runs already. Raise :class:`InputError` for a runner that
    the board does not have, and for a connection that the runner cannot use.
    """
    check_line(connection)
    if connection.lab is not None:
        return Route(board, None, connection)
    if connection.port is not None and runner is None and connection.probe is None:
        return Route(board, None, connection)
    return Route(*chosen_runner(board, runner, connection), connection)


def ready_route(board: Board, runner: str | None, connection: Connection) -> Route:
    """Return the route to the board that is found now; raise before a build if a prerequisite for
    reaching it is missing.
    """
    route = route_to(board, runner, connection)
    route.check()
    route = route.pinned()
    if route.runner is not None:
        route.runner.check(route.board, route.connection)
    return route
