"""Places of a real coordinator: acquired in turn, given back however their user ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from campaigns import cases
from spoiled_models import PORTABLE, once_spoiled, spoiled_libraries
from waiting import PATIENCE_S, until

import hil
from hil.board import load_board
from hil.build import build
from hil.errors import DeviceError, EmulatorError, HangError, HilError, InputError
from hil.lab import coordinator, place
from hil.lab.errors import BusyError, NoPlaceError
from hil.lab.place import Keeper, LabBoard, acquire, acquire_other, check_known, leased
from hil.lab.selector import Selector, parse_selector
from hil.lab.serve import Served

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
HOLDER = """
import sys, time
from hil.lab import leased
with leased(sys.argv[1]) as lab:
    print(lab.place, flush=True)
    time.sleep(600)
"""


def selector(spec: str) -> Selector:
    parsed = parse_selector(spec)
    assert parsed is not None
    return parsed


@pytest.fixture
def keeper(lab: Served) -> Iterator[Keeper]:
    with contextlib.closing(Keeper()) as keeper:
        yield keeper


def user_of(keeper: Keeper, place: str) -> str:
    return str(next(p["acquired"] for p in keeper.ask("list")["places"] if p["name"] == place))


@contextlib.contextmanager
def holding(spec: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that has a board: the process, the place."""
    command = [sys.executable, "-c", HOLDER, spec]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.full
def test_a_model_runs_on_a_board_chosen_by_tag(keeper: Keeper) -> None:
    with hil.open("cpu=cortex-m3", DIGITS) as device:
        model = device["digits"]
        image = model.inputs[0]
        model.set_input(0, np.zeros(image.shape, image.dtype))
        model.run()
        far = model.get_output(0)
        assert user_of(keeper, "mps2-an385-1").startswith(f"{os.uname().nodename}/hil.tester.")
        assert device.counter == "instructions"
    assert user_of(keeper, "mps2-an385-1") == ""
    with hil.open("mps2-an385", DIGITS) as device:
        model = device["digits"]
        model.set_input(0, np.zeros(image.shape, image.dtype))
        model.run()
        assert np.array_equal(model.get_output(0), far)


@cases(
    ("model", "by", "message"),
    [
        ("hang", "programming it again", "gave no answer for"),
        ("trap", "a reset over the line", "undefined instruction"),
    ],
    first=1,
)
def test_a_board_of_the_lab_is_brought_back(lab: Served, model: str, by: str, message: str) -> None:
    libraries = spoiled_libraries(load_board("mps2-an385"), *PORTABLE)
    with hil.open("cpu=cortex-m3", *libraries, run_timeout_s=0.5) as device:
        assert device.repeated(once_spoiled(device, model)) == [5, 6, 7, 8]
        assert device.recovery is not None
        (attempt,) = device.recovery.attempts
        assert attempt.step == by
        assert message in attempt.reason


def test_two_users_want_one_board(lab: Served) -> None:
    """The second gets it when the first gives it back, not before."""
    events: list[str] = []

    def second() -> None:
        with leased("lab:mps2-an385-1"):
            events.append("second has it")

    with leased("lab:mps2-an385-1") as first:
        assert not first.is_contended()
        thread = threading.Thread(target=second)
        thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while not first.is_contended():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        events.append("first gives it back")
    thread.join(PATIENCE_S)
    assert events == ["first gives it back", "second has it"]


def test_boards_of_a_kind_are_all_given(keeper: Keeper) -> None:
    boards = [acquire(keeper, selector("board=mps2-an386")) for _ in range(2)]
    assert {board.place for board in boards} == {"mps2-an386-1", "mps2-an386-2"}
    with pytest.raises(DeviceError, match=r"became free in time; users: .*hil\.tester"):
        acquire(keeper, selector("board=mps2-an386"), 0.5)
    boards[0].release()
    assert acquire(keeper, selector("board=mps2-an386"), PATIENCE_S).place == boards[0].place


@pytest.mark.full
def test_a_place_that_failed_is_avoided(keeper: Keeper) -> None:
    """Where another one is free, and only then."""
    places = ("mps2-an386-1", "mps2-an386-2")
    for failed, other in (places, places[::-1]):
        board = acquire_other(keeper, selector("board=mps2-an386"), [failed])
        assert board.place == other
        assert user_of(keeper, failed) == ""
        board.release()
    board = acquire_other(keeper, selector("board=mps2-an386"), places)
    assert sum(user_of(keeper, place) != "" for place in places) == 1
    board.release()
    with leased("lab:mps2-an385-1", avoid=["mps2-an385-1"]) as only:
        assert only.place == "mps2-an385-1"


@pytest.mark.parametrize("kind", [EmulatorError, HangError, BusyError, NoPlaceError])
def test_errors_keep_their_class_over_the_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[HilError]
) -> None:
    """With it its class and exit code in reports."""
    error = {"kind": kind.__name__, "message": "no emulator", "hint": "start it"}
    board = LabBoard.__new__(LabBoard)
    board.place, board._has_power = "rtl-1", False
    monkeypatch.setattr(place, "_BUSY_LIMIT_S", -1.0)
    monkeypatch.setattr(board, "check", lambda: None)
    monkeypatch.setattr(board, "_ask", lambda *words: {"error": error})
    (tmp_path / "a.elf").write_bytes(b"")
    with pytest.raises(HilError, match="rtl-1: no emulator") as raised:
        board.flash(tmp_path / "a.elf")
    assert type(raised.value) is kind
    assert raised.value.hint == "start it"


def test_a_killed_users_board_is_free(keeper: Keeper) -> None:
    """Its keeper gives it back: nobody waits for it, so no lease of it ends."""
    with holding("lab:mps2-an385-1") as (process, place):
        assert user_of(keeper, place)
        process.send_signal(signal.SIGKILL)
        until(lambda: not user_of(keeper, place), "the release")


def test_a_cancelled_wait_leaves_no_reservation(keeper: Keeper) -> None:
    held = acquire(keeper, selector("lab:mps2-an385-1"))
    process = subprocess.Popen([sys.executable, "-c", HOLDER, "lab:mps2-an385-1"])
    deadline = time.monotonic() + PATIENCE_S
    while not held.is_contended():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    while held.is_contended():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.full
def test_a_board_of_a_lost_machine_is_passed_on(
    lab: Served, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User and keeper are killed at once: nobody gives the place back, its lease ends."""
    monkeypatch.setattr(coordinator, "LEASE_S", coordinator.BEAT_S + 2)
    with holding("lab:mps2-an386-2") as (process, place):
        owner = user_of(keeper, place)

        async def wait_for_it() -> None:
            async with coordinator.connect(lab.address, "here/somebody") as session:
                # As long as the user lives, its board is not taken.
                with pytest.raises(DeviceError, match="became free"):
                    await session.acquire(selector(f"lab:{place}"), coordinator.LEASE_S + 2)
                for found in psutil.process_iter(["cmdline"]):
                    if owner in (found.info["cmdline"] or ()):
                        found.kill()
                process.kill()
                await session.acquire(selector(f"lab:{place}"), PATIENCE_S)
                await session.release(place)

        asyncio.run(wait_for_it())


def test_a_board_that_is_taken_away_is_told(lab: Served, keeper: Keeper) -> None:
    board = acquire(keeper, selector("lab:mps2-an385-1"))
    board.check()
    client = [sys.executable, "-m", "labgrid.remote.client", "-x", lab.address]
    done = subprocess.run([*client, "-p", board.place, "release", "--kick"], capture_output=True)
    assert done.returncode == 0, done.stderr

    def is_told() -> bool:
        try:
            board.check()
        except DeviceError as error:
            return "was released by another client" in str(error)
        return False

    deadline = time.monotonic() + PATIENCE_S
    while not is_told():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.full  # It changes rarely, and takes long.
def test_power_is_switched_by_labgrids_driver(lab: Served, keeper: Keeper) -> None:
    board = acquire(keeper, selector("lab:mps2-an385-1"))
    server = lab.boards[board.place]
    server.power(False)
    # The board refuses a firmware while it is off, so it gets a power cycle.
    done = board.flash(build([], board.board).elf)
    assert done.nbytes
    assert server.powered
    board.power_cycle()
    assert server.powered


def test_what_the_lab_does_not_have(lab: Served) -> None:
    with pytest.raises(NoPlaceError, match="no place that matches lab:cpu=cortex-m99"):
        check_known(selector("cpu=cortex-m99"))
    with pytest.raises(NoPlaceError), leased("lab:nowhere"):
        pass


def test_no_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LG_COORDINATOR", "127.0.0.1:9")
    with pytest.raises(DeviceError, match="coordinator at 127.0.0.1:9 does not answer"):
        Keeper()


def test_a_place_of_too_little_is_refused(keeper: Keeper) -> None:
    # Its resources are a board's that has a place of its own.
    keeper.ask("define", place="shelf", tags={"site": "shelf"}, match="*/mps2-an385-1/*")
    with pytest.raises(InputError, match="shelf has no tag board"):
        acquire(keeper, selector("site=shelf"))
    assert user_of(keeper, "shelf") == ""


@pytest.mark.full
def test_a_place_is_known_as_soon_as_it_is_defined(keeper: Keeper) -> None:
    # By another keeper, whose stream of changes is behind.
    with contextlib.closing(Keeper()) as other:
        for number in range(20):
            tags = {"site": f"new-{number}"}
            keeper.ask("define", place=f"new-{number}", tags=tags, match="*/mps2-an385-1/*")
            other.ask("check", tags=list(tags.items()))


def test_a_board_whose_exporter_is_gone_is_passed_over(keeper: Keeper) -> None:
    keeper.ask("define", place="attic", tags={"board": "mps2-an385"}, match="nobody/nothing/*")
    for _ in range(3):
        board = acquire(keeper, selector("board=mps2-an385"), 20)
        assert board.place == "mps2-an385-1"
        assert user_of(keeper, "attic") == ""
        board.release()
    with pytest.raises(DeviceError, match="no exporter offers attic"):
        acquire(keeper, selector("lab:attic"))
