"""Several boards in one test: the marker ``hil_boards``, and the boards that it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hil.pytest_plugin.own_firmware import DEVICES, log_path, logged

if TYPE_CHECKING:
    from hil.board import Board
    from hil.device import Device
    from hil.device.elf import ElfDevice
    from hil.lab.pool import Unit

MARKER = (
    "hil_boards(NAME, NAME, ...) or hil_boards(COUNT): the boards that the test uses at the same "
    "time, as hil_boards"
)
#: The boards of a test that has several.
BOARDS = pytest.StashKey[tuple["HeldBoard", ...]]()


class HeldBoard:
    """One of several boards of a test, which no other test or process uses meanwhile."""

    def __init__(
        self,
        item: pytest.Item,
        stack: ExitStack,
        number: int,
        board: Board,
        options: dict[str, Any],
        unit: Unit | None,
    ) -> None:
        #: The board's description, and which of its kind it is.
        self.board = board
        self.name = board.name if unit is None else unit.name
        self.unit = unit
        #: Why it cannot be reached any more; empty if it can.
        self.lost = ""
        self._item = item
        self._stack = stack
        self._number = number
        self._options = options
        self._devices: list[Device] = []

    def open(self, *models: Any, **options: Any) -> Device:
        """Open models on the board until the test ends; takes what ``hil.open`` takes after it."""
        import hil

        with self._noting_loss():
            device: Device = self._stack.enter_context(
                hil.open(self.board, *models, **{**self._options, **options})
            )
        self._devices.append(device)
        kept: list[str] = []
        device.log = self._stack.enter_context(logged(self._item, kept, str(self._number)))
        return device

    def facts(self) -> dict[str, str]:
        """Return the properties of the board for the test's report."""
        return board_facts(self.name, self.board, self._options)

    def open_elf(self, elf: str | Path, **options: Any) -> ElfDevice:
        """Start firmware of yours on the board until the test ends; takes what ``hil.open_elf``
        takes after it.
        """
        with self._noting_loss():
            device = self._stack.enter_context(
                opened_elf(self._item, self.board, elf, self._options, options, str(self._number))
            )
        return device

    def look(self) -> None:
        """Note whether the board answers no more, after a test in which one failed."""
        from hil.errors import DeviceError

        for device in self._devices:
            try:
                device.echo(b"hil")
            except DeviceError as error:
                self.lost = self.lost or error.fact
                return

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        from hil.errors import DeviceError

        try:
            yield
        except DeviceError as error:
            if error.is_lost:
                self.lost = error.fact
            raise


def board_facts(name: str, board: Board, options: dict[str, Any]) -> dict[str, str]:
    """Return the properties of a board that is reached with these options of ``hil.open``."""
    from hil.access import Connection, runner_name, runner_named
    from hil.access.hardware import Hardware

    found = {"hil_board": name, "hil_core": board.cpu.name}
    probe, port = options.get("probe"), options.get("port")
    if "lab" in options:
        return found
    chosen = options.get("runner")
    if chosen is None and probe is None and port is not None:
        found["hil_runner"] = "port"  # of firmware that runs already
    else:
        runner = runner_named(runner_name(board, chosen, Connection(probe, port)))
        found["hil_runner"] = runner.name
        if isinstance(runner, Hardware):
            found["hil_flasher"] = runner.flasher.name
    reached = {"hil_probe": probe, "hil_port": port}
    return found | {key: value for key, value in reached.items() if value is not None}


def facts_of(boards: Sequence[HeldBoard]) -> dict[str, str]:
    """Return the properties of several boards: a value of each, and ``-`` where one has none."""
    facts = [board.facts() for board in boards]
    keys = dict.fromkeys(key for one in facts for key in one)
    return {key: ", ".join(one.get(key, "-") for one in facts) for key in keys}


@contextmanager
def opened_elf(
    item: pytest.Item,
    board: Board | str,
    elf: str | Path,
    reach: dict[str, Any],
    options: dict[str, Any],
    part: str = "",
) -> Iterator[ElfDevice]:
    """Start firmware on a board of a test, with the test's log."""
    import hil

    chosen = {name: value for name, value in reach.items() if name != "run_timeout_s"}
    if "log" not in options:
        chosen["log"] = log_path(item, part)
    with hil.open_elf(board, elf, **{**chosen, **options}) as device:
        item.stash.setdefault(DEVICES, []).append(device)
        yield device


def problem_of(marker: pytest.Mark | None) -> str:
    """Return the error in the marker's arguments; empty if there is none."""
    if marker is None:
        return "the fixture hil_boards needs @pytest.mark.hil_boards(NAME, NAME, ...)"
    args = marker.args
    is_count = len(args) == 1 and isinstance(args[0], int) and not isinstance(args[0], bool)
    if is_count and args[0] >= 1 and not marker.kwargs:
        return ""
    if args and all(isinstance(name, str) for name in args) and not marker.kwargs:
        return ""
    given = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in marker.kwargs.items())])
    return f"@pytest.mark.hil_boards({given}): the marker is {MARKER}"


def chosen_boards(
    marker: pytest.Mark,
    selected: Sequence[str],
    default: Callable[[], str],
    covers: Callable[[Sequence[str], str], bool],
) -> tuple[tuple[str, ...], str]:
    """Return the boards of a test with the marker, and the reason if it cannot run on those that
    are ``selected``.

    A count takes from all that are selected, in turns; names have to be among them.
    """
    if isinstance(marker.args[0], int):
        offered = list(selected) or [default()]
        return tuple(offered[i % len(offered)] for i in range(marker.args[0])), ""
    names = tuple(marker.args)
    if not selected:
        return names, ""
    if all(covers(selected, name) for name in names):
        return names, ""
    return (), f"the test is for {', '.join(names)}; selected: {', '.join(selected)}"
