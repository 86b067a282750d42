"""Models on boards as pytest fixtures.

::

    @pytest.mark.hil(model="kws.tflite")
    def test_keyword(hil_device):
        model = hil_device["kws"]
        ...

``pytest --hil-board mps2-an386 --hil-board mps3-an547`` runs the test on both boards. Without the
option it runs on the boards of its marker, or on the emulated default board; a board whose emulator
is not installed is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# This module is imported by every pytest run of the environment; what it needs of the harness is
# imported by the tests that use it.
if TYPE_CHECKING:
    from hil.board import Board
    from hil.device import Device
    from hilc.library import ModelLibrary

_MARKER = "hil(model=PATH, boards=[NAME, ...]): the model that the test runs, and the boards for it"
_KEYWORDS = ("model", "boards")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hil", "models on boards")
    group.addoption(
        "--hil-board",
        action="append",
        default=[],
        metavar="BOARD",
        help="run hil tests on this board (repeatable; default: an emulated one)",
    )
    group.addoption(
        "--hil-port", metavar="URL", help="use the firmware that runs at this serial port"
    )
    group.addoption("--hil-probe", metavar="UID", help="the debug probe of the board")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    boards = config.getoption("--hil-board")
    for option in ("--hil-port", "--hil-probe"):
        if config.getoption(option) and len(boards) != 1:
            raise pytest.UsageError(f"{option} belongs to one board: give --hil-board once")
    if boards:
        from hil.board import load_board
        from hil.errors import HilError

        for board in boards:
            try:
                load_board(board)
            except HilError as error:
                raise pytest.UsageError(f"--hil-board: {error}") from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each board."""
    if "hil_board" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("hil")
    selected = list(dict.fromkeys(metafunc.config.getoption("--hil-board")))
    wanted = _marker_boards(metafunc.definition.nodeid, marker)
    boards = (
        [board for board in selected if board in wanted]
        if selected and wanted
        else (selected or wanted or [_default_board()])
    )
    params: list[Any] = list(boards)
    if not boards:
        reason = f"the test is for {', '.join(wanted)}; selected: {', '.join(selected)}"
        params = [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-board")]
    metafunc.parametrize("hil_board", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def hil_board(request: pytest.FixtureRequest) -> Board:
    """The board that the test runs on."""
    from hil.board import load_board
    from hil.doctor import missing_for_runner

    board = load_board(request.param)
    if not request.config.getoption("--hil-port"):
        missing = missing_for_runner(board.default_runner)
        if missing is not None:
            pytest.skip(f"{board.name} needs {missing.name}: {missing.remedy}")
    return board


@pytest.fixture
def hil_library(
    request: pytest.FixtureRequest, hil_board: Board, _hil_session: _Session
) -> ModelLibrary:
    """The model of the test's marker, compiled for the board."""
    marker = request.node.get_closest_marker("hil")
    model = marker.kwargs.get("model") if marker else None
    if model is None:
        pytest.fail(
            "hil_library needs @pytest.mark.hil(model=PATH), or a hil_library fixture of your own",
            pytrace=False,
        )
    # A path in a test file is relative to that file, wherever pytest was started.
    return _hil_session.library(request.path.parent / os.fspath(model), hil_board)


@pytest.fixture
def hil_device(
    hil_board: Board, hil_library: ModelLibrary, _hil_session: _Session
) -> Iterator[Device]:
    """A device that runs the library; tests with the same board and library share it."""
    yield _hil_session.device(hil_board, hil_library)
    _hil_session.close_if_broken(hil_board)


@pytest.fixture(scope="session")
def _hil_session(request: pytest.FixtureRequest) -> Iterator[_Session]:
    session = _Session(
        request.config.getoption("--hil-port"), request.config.getoption("--hil-probe")
    )
    try:
        yield session
    finally:
        session.close()


class _Session:
    """The compiled libraries and open devices of a test session, one device a board."""

    def __init__(self, port: str | None, probe: str | None) -> None:
        self._port = port
        self._probe = probe
        self._libraries: dict[tuple[Path, str], ModelLibrary] = {}
        self._devices: dict[str, tuple[ModelLibrary, Device, ExitStack]] = {}

    def library(self, path: Path, board: Board) -> ModelLibrary:
        from hil.sources import CompileOptions, ModelSource, load_library

        key = (path.resolve(), board.name)
        if key not in self._libraries:
            self._libraries[key] = load_library(
                ModelSource(path, None), CompileOptions(board.cpu.name, board=board)
            )
        return self._libraries[key]

    def device(self, board: Board, library: ModelLibrary) -> Device:
        import hil

        if board.name in self._devices:
            current, device, _ = self._devices[board.name]
            if current == library:
                return device
            self._close(board)
        stack = ExitStack()
        device = stack.enter_context(hil.open(board, library, port=self._port, probe=self._probe))
        self._devices[board.name] = (library, device, stack)
        return device

    def close_if_broken(self, board: Board) -> None:
        """A test may have crashed the firmware; the next one gets a fresh start."""
        from hil.errors import DeviceError

        try:
            self._devices[board.name][1].echo(b"hil")
        except DeviceError:
            self._close(board)

    def close(self) -> None:
        # Every device is closed, whatever closing another one raises.
        with ExitStack() as everything:
            for _, _, stack in self._devices.values():
                everything.push(stack)
        self._devices.clear()

    def _close(self, board: Board) -> None:
        self._devices.pop(board.name)[2].close()


def _marker_boards(where: str, marker: pytest.Mark | None) -> Sequence[str]:
    if marker is None:
        return ()
    unknown = [name for name in marker.kwargs if name not in _KEYWORDS]
    if marker.args or unknown:
        raise pytest.UsageError(f"{where}: the marker is {_MARKER}")
    boards = marker.kwargs.get("boards") or ()
    return (boards,) if isinstance(boards, str) else tuple(boards)


def _default_board() -> str:
    from hil.board import default_board

    return default_board().name
