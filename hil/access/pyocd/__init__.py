"""The flasher `pyocd`: debug probes through the library pyOCD.

Everything of pyOCD is in this package; its modules import it when they are used, since that takes
a third of a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hil.access.protocols import Capability, Flasher, Need
from hil.access.pyocd.library import GENERIC_TARGET, NAME
from hil.board.settings import Setting
from hilc.support.optional import install_hint, is_installed

if TYPE_CHECKING:
    from hil.access.connection import Connection, ProbeInfo
    from hil.access.protocols import FlasherSession
    from hil.access.usb import ForbiddenProbe
    from hil.board import Board
    from hil.board.chip import Chip
    from hil.board.settings import Value


class PyOcd(Flasher):
    """Programs boards through CMSIS-DAP, ST-Link, J-Link and other probes."""

    name = NAME
    title = "pyOCD"
    settings: Mapping[str, Setting] = {
        "target": Setting("name", "pyOCD's name of the chip (`pyocd list --targets`)"),
        "frequency_hz": Setting(
            "integer", "clock of the debug port in Hz", 4_000_000, 10_000, 50_000_000
        ),
        "pack": Setting(
            "name", "argument of `pyocd pack install`, if pyOCD has no built-in target", ""
        ),
    }
    formats = ("elf",)
    capabilities: frozenset[Capability] = frozenset(
        {"erase", "debug", "verify", "core", "rtt", "memory", "virtual", "chips"}
    )
    monitor_commands = ("halt", "init", "reset", "reset halt", "status")

    def needs(self, board: Board | None) -> Need | None:
        """Return the package pyOCD."""
        return Need("pyocd", install_hint("pyocd"), lambda: is_installed("pyocd"))

    def probes(self) -> list[ProbeInfo]:
        """Return the probes that pyOCD finds, including virtual ones."""
        from hil.access.pyocd.library import connected_probes

        return connected_probes()

    def forbidden(self) -> list[ForbiddenProbe]:
        """Return the probes on USB that this user may not open."""
        from hil.access.pyocd.usb import forbidden_probes

        return forbidden_probes()

    def target(self, board: Board) -> str:
        """Return pyOCD's name of the board's chip."""
        return str(board.settings.get(self.name, {}).get("target", ""))

    def check(self, board: Board) -> str:
        """Return that pyOCD has the board's target; ProbeError if it lacks its pack."""
        from hil.access.pyocd.targets import check_target

        check_target(board)
        return f"target {self.target(board)} is supported"

    @contextlib.contextmanager
    def open(
        self, board: Board, uid: str, connection: Connection, *, attach: bool = False
    ) -> Iterator[FlasherSession]:
        """Open a session through the probe ``uid``; a locked chip is an error, unless
        ``connection.erase_to_unlock``: then its whole flash is erased.
        """
        from hil.access.pyocd import flash
        from hil.access.pyocd.session import PyOcdSession

        mode = "attach" if attach else "halt"
        with flash.connected(
            board, uid, connect_mode=mode, erase_to_unlock=connection.erase_to_unlock
        ) as session:
            yield PyOcdSession(board, session)

    def chip(self, settings: Mapping[str, Value]) -> Chip:
        """Return pyOCD's facts of a target; InputError if it has no such target."""
        from hil.access.pyocd.targets import read_chip

        return read_chip(str(settings["target"]))

    def settings_for(self, chip: Chip | None) -> dict[str, Value]:
        """Return the chip's target, or the generic one, which has no flash."""
        return {"target": chip.target if chip is not None else GENERIC_TARGET, "pack": ""}
