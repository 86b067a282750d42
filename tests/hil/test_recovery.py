"""Failures injected for real: each with its class, its message, its remedy, in time.

``pytest -s -p no:xdist tests/hil/test_recovery.py`` ends with a table of the measured times.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
import pytest
from campaigns import cases, sampled
from descriptions import description_text
from lossy_proxy import proxy
from rpc_board import running_board
from spoiled_models import PORTABLE, SPOILS, once_spoiled, spoiled_libraries
from tiny_library import tiny_library
from waiting import is_under_way, until

import hil
from hil import verify, virtual_probe
from hil.access import Flashed
from hil.access.pyocd import flash
from hil.board import load_board
from hil.board.config import remember, remembered
from hil.build import build
from hil.device import Device
from hil.device.power import power_of
from hil.device.recovery import Recovery, Step
from hil.errors import (
    DeviceError,
    HangError,
    HilError,
    InputError,
    LinkError,
    NumericError,
    Remedy,
)
from hil.firmware.image import read_image
from hil.link import protocol
from hil.link.fault import FaultError
from hil.link.line import Link
from hil.samples import RandomSamples
from hil.verify import Oracle
from hilc.artifact.library import ModelLibrary

CORTEX_M = "mps2-an386"
#: Above every wait for a run below, and short: a hang is told after it.
RUN_TIMEOUT_S = 3.0
RESET, MACHINE = "a reset", "a new start of its machine"
LINE, SWITCH = "a reset over the line", "a power cycle"
PROGRAM = "programming it again"

# -- the cases ----------------------------------------------------------------------------


#: Opens the device and gives the job that meets the failure in its first attempt.
Opened = Callable[
    [pytest.MonkeyPatch, Path], AbstractContextManager[tuple[Device, Callable[[], object]]]
]


@dataclass(frozen=True)
class Case:
    """A failure that is injected into a job."""

    name: str
    opened: Opened
    kind: str
    #: Of the error.
    message: str
    hint: str
    #: The step that brings the board back; "" where the failure must be raised.
    by: str


@contextmanager
def spoiled(
    board_name: str,
    model: str,
    names: tuple[str, ...] = PORTABLE,
    *,
    probe: str | None = None,
    transport: Literal["uart", "rtt"] = "uart",
    bulk: bool | None = None,
    recover: bool = True,
) -> Iterator[tuple[Device, Callable[[], object]]]:
    board = load_board(board_name)
    with hil.open(
        board,
        *spoiled_libraries(board, *names),
        probe=probe,
        transport=transport,
        bulk=bulk,
        run_timeout_s=RUN_TIMEOUT_S,
        recover=recover,
    ) as device:
        yield device, once_spoiled(device, model)


def on(
    board: str,
    model: str,
    names: tuple[str, ...] = PORTABLE,
    *,
    probe: str | None = None,
    transport: Literal["uart", "rtt"] = "uart",
) -> Opened:
    return lambda _monkeypatch, _folder: spoiled(
        board, model, names, probe=probe, transport=transport
    )


@contextmanager
def brown_out(_: object, __: object) -> Iterator[tuple[Device, Callable[[], object]]]:
    """The machine is reset in the middle of a run."""
    with spoiled(CORTEX_M, "long", tuple(SPOILS)) as (device, job):
        running = device._running
        with amid_a_run(device, lambda: running.reset()):  # type: ignore[union-attr]
            yield device, job


@contextmanager
def killed(_: object, __: object) -> Iterator[tuple[Device, Callable[[], object]]]:
    """The emulator is killed in the middle of a run."""
    before = set(psutil.Process().children())
    with spoiled(CORTEX_M, "long", tuple(SPOILS)) as (device, job):
        (machine,) = set(psutil.Process().children()) - before
        with amid_a_run(device, machine.kill):
            yield device, job


@contextmanager
def flash_lost(_: object, __: object) -> Iterator[tuple[Device, Callable[[], object]]]:
    """Somebody erases the flash of a board behind a probe that stays."""
    board = load_board("microbit")
    with (
        virtual_probe.start(board) as (virtual, _process),
        # The other one needs the sockets through which tensors would go.
        spoiled("microbit", "hang", probe=virtual.uid, bulk=False) as (device, job),
    ):
        device._running._qmp.close()  # type: ignore[union-attr]
        with flash.connected(board, virtual.uid) as session:
            flash.erase(session)
        device._client.timeout_s = 0.5
        yield device, job


@contextmanager
def amid_a_run(device: Device, action: Callable[[], object]) -> Iterator[None]:
    """``action`` happens once, soon after a run has begun."""

    def act() -> None:
        until(lambda: is_under_way(device._client, "RUN"), "the run")
        time.sleep(0.1)
        action()

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@contextmanager
def attached(url: str) -> Iterator[tuple[Device, Callable[[], object]]]:
    with hil.open("native", port=url) as device:

        def job() -> list[int]:
            model = device["adder"]
            model.set_input("a", np.full((1, 4), 2, np.int32))
            model.set_input("b", np.full((1, 4), 3, np.int32))
            model.run()
            return [int(value) for value in model.get_output("sum").ravel()]

        yield device, job


@contextmanager
def cable_replugged(_: object, __: object) -> Iterator[tuple[Device, Callable[[], object]]]:
    """The connection ends amid a frame, once; the line can be opened again."""
    pulls = [False]

    def pull(frame: bytes) -> bytes:
        if pulls.pop(0) if pulls else False:
            raise ConnectionResetError
        return frame

    with (
        running_board() as board,
        proxy(board.url, to_host=pull) as line,
        attached(line.url) as way,
    ):
        pulls[:] = [False, False, True]
        yield way


@contextmanager
def cable_pulled(
    monkeypatch: pytest.MonkeyPatch, _: object
) -> Iterator[tuple[Device, Callable[[], object]]]:
    """The connection ends and nothing listens any more."""
    monkeypatch.setattr("hil.device.session._PORT_LIMIT_S", 1.0)
    with running_board() as board:
        server = subprocess.Popen(
            [sys.executable, "-c", _BRIDGE, board.url], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        try:
            port = server.stdout.readline().strip()
            with attached(f"socket://127.0.0.1:{port}") as way:
                server.kill()
                server.wait()
                yield way
        finally:
            server.kill()
            server.wait()
            server.stdout.close()


# A serial line on the network, which ends with its process.
_BRIDGE = """
import os, select, serial, socket, sys
line = serial.Serial(sys.argv[1], timeout=0)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
client, _ = server.accept()
while True:
    ready, _, _ = select.select([client, line], [], [])
    if client in ready:
        os.write(line.fileno(), client.recv(65536))
    if line in ready:
        client.sendall(os.read(line.fileno(), 65536))
"""


@contextmanager
def power_switch(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> Iterator[tuple[Device, Callable[[], object]]]:
    """A board that is dead until its supply is switched off and on."""
    with running_board() as board:
        write_config(
            monkeypatch,
            folder,
            off=f"kill -STOP {board.process.pid}",
            on=f"kill -CONT {board.process.pid}",
            off_s=0.1,
        )
        with attached(board.url) as (device, job):
            device._client.timeout_s = 0.5
            os.kill(board.process.pid, signal.SIGSTOP)
            yield device, job


RUNS = tuple(SPOILS)
AGAIN = "restarted by itself before it answered RUN"
HANGS = r"began RUN and gave no answer for \d+\.\d s"
OVER_RTT = on(CORTEX_M, "hang", RUNS, probe="virtual", transport="rtt")
RTT_FAULT = on(CORTEX_M, "fault", RUNS, probe="virtual", transport="rtt")
PROBED_HANG = on("microbit", "hang", probe="virtual")
PROBED_TRAP = on("microbit", "trap", probe="virtual")
BUS = "bus fault, bus error at a data access, address 0xf0000000"
MEND = "correct the code at that location"
KILLED = r"ended: signal 9 \(SIGKILL\)"
CLOSED = "the link to socket://.* failed"
GONE = "nothing listens at socket://"
CASES = [
    Case("hang, QEMU", on(CORTEX_M, "hang", RUNS), "device", HANGS, "run_timeout_s", RESET),
    Case("hang, virtual probe", PROBED_HANG, "device", HANGS, "run_timeout_s", RESET),
    Case("hang, over RTT", OVER_RTT, "device", HANGS, "run_timeout_s", MACHINE),
    Case("hang, process", on("native", "hang"), "device", HANGS, "run_timeout_s", MACHINE),
    Case("hard fault, QEMU", on(CORTEX_M, "fault", RUNS), "device", BUS, MEND, RESET),
    Case("hard fault, over RTT", RTT_FAULT, "device", BUS, MEND, LINE),
    Case("hard fault, virtual probe", PROBED_TRAP, "device", "hard fault", MEND, RESET),
    Case("brown-out amid a run", brown_out, "device", AGAIN, "power supply", RESET),
    Case("watchdog reset", on(CORTEX_M, "dog", RUNS), "device", AGAIN, "watchdog", RESET),
    Case("flash erased under it", flash_lost, "link", "no answer to", "supply", PROGRAM),
    Case("lock-up", on(CORTEX_M, "lockup", RUNS), "device", "SIGABRT.*Lockup", "", MACHINE),
    Case("emulator killed", killed, "link", KILLED, "open the board again", ""),
    Case("cable pulled and plugged", cable_replugged, "link", CLOSED, "cable", LINE),
    Case("cable pulled", cable_pulled, "link", GONE, "start the program", ""),
    Case("dead until switched", power_switch, "link", "no answer to", "supply", SWITCH),
]
#: One of each step that helps.
USUAL = [
    case
    for case in CASES
    if case.name
    in (
        "hang, QEMU",
        "hang, process",
        "hard fault, virtual probe",
        "brown-out amid a run",
        "flash erased under it",
        "emulator killed",
        "cable pulled and plugged",
        "cable pulled",
        "dead until switched",
    )
]


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    rows: list[str] = []
    yield rows
    if rows:
        print("\n" + "\n".join(rows))


@pytest.fixture(autouse=True)
def own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))


def row(table: list[str], name: str, kind: str, by: str, seconds: float) -> None:
    """Adds what happened to the table, with the seconds until the job was done, or given up."""
    table.append(f"{name:34} {kind:7} {by or 'raised':28} {seconds:6.2f} s")


@pytest.mark.parametrize("case", sampled(CASES, keep=USUAL), ids=[case.name for case in CASES])
def test_failure_amid_a_job(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: list[str]
) -> None:
    with case.opened(monkeypatch, tmp_path) as (device, job):
        failures: list[DeviceError] = []

        def observed() -> object:
            try:
                return job()
            except DeviceError as error:
                failures.append(error)
                raise

        start = time.monotonic()
        if case.by:
            assert device.repeated(observed)
            (error,) = failures
        else:
            with pytest.raises(DeviceError) as caught:
                device.repeated(observed)
            error = caught.value
        seconds = time.monotonic() - start
        row(table, case.name, error.kind, case.by, seconds)
        assert error.kind == case.kind
        assert re.search(case.message, error.fact, re.DOTALL), error.fact
        assert case.hint in error.hint
        assert device.recovery is not None
        if case.by:
            assert device.recovery.attempts[-1].step == case.by
            assert device.repeated(job) == observed(), "the board works on"


@pytest.mark.full
@cases("model", PORTABLE, first=1)
def test_what_happens_again_after_a_restart_is_raised(model: str, table: list[str]) -> None:
    start = time.monotonic()
    with spoiled(CORTEX_M, model, tuple(SPOILS)) as (device, _):

        def job() -> None:
            device[model].set_input(0, np.array([1, 0, 0, 0], np.int32))
            device[model].run()

        with pytest.raises((HangError, FaultError)) as caught:
            device.repeated(job)
        assert "it comes back after a restart" in caught.value.hint
        assert device.recovery is not None
        assert [attempt.step for attempt in device.recovery.attempts] == [RESET]
    row(table, f"{model} in every attempt", caught.value.kind, "", time.monotonic() - start)


def test_without_recovery_the_first_failure_is_raised() -> None:
    with spoiled(CORTEX_M, "fault", tuple(SPOILS), recover=False) as (device, job):
        with pytest.raises(FaultError):
            device.repeated(job)
        assert device.recovery is None


# -- failures before there is a device ------------------------------------------------------


def refused(table: list[str], name: str, open_it: Callable[[], object]) -> HilError:
    """The error of ``open_it``."""
    start = time.monotonic()
    with pytest.raises(HilError) as caught:
        open_it()
    row(table, name, caught.value.kind, "", time.monotonic() - start)
    return caught.value


def opened_once(
    *models: ModelLibrary, board: str, port: str | None = None, probe: str | None = None
) -> Callable[[], None]:
    def open_it() -> None:
        with hil.open(board, *models, port=port, probe=probe):
            pytest.fail("opened")

    return open_it


def test_probe_busy(table: list[str]) -> None:
    board = load_board("microbit")
    with virtual_probe.start(board) as (virtual, _):
        with flash.connected(board, virtual.uid):
            error = refused(table, "probe busy", opened_once(board="microbit", probe=virtual.uid))
        assert (error.kind, error.exit_code) == ("link", 4)
        assert "is busy: another session uses it" in error.fact
        assert (
            "close other programs that use the probe, or choose another with --probe" in error.hint
        )
        with hil.open("microbit", probe=virtual.uid) as device:
            assert device.echo(b"free again") == b"free again"


def test_port_busy(table: list[str]) -> None:
    with running_board() as board, closing(Link(board.url)):
        error = refused(table, "port busy", opened_once(board="native", port=board.url))
    assert error.kind == "link"
    assert "is in use by another program" in error.fact
    assert "close it, or give another port" in error.hint


def test_wrong_firmware(table: list[str]) -> None:
    with running_board() as board:
        library = tiny_library("y[0] = x[0];", cpu="host")
        build([library], load_board("native"))
        open_it = opened_once(library, board="native", port=board.url)
        error = refused(table, "wrong firmware at a port", open_it)
    assert error.kind == "link"
    assert "runs firmware 0123456789abcdef" in error.fact
    assert "flash the firmware that was built from these models" in error.hint


def test_old_protocol(monkeypatch: pytest.MonkeyPatch, table: list[str]) -> None:
    with running_board() as board:
        monkeypatch.setattr(protocol, "VERSION", 4)
        monkeypatch.setattr(protocol, "OLDEST", 3)
        error = refused(table, "old protocol", opened_once(board="native", port=board.url))
    assert error.kind == "link"
    assert "speaks protocol version 2, this program speaks 3 to 4" in error.fact
    assert "flash it" in error.hint


# Programs half of an image, and dies: progress goes from 0 to 1 for erasing, then for programming.
_HALF = """
import os, signal, sys
from pathlib import Path
from hil.firmware.image import read_image
from hil.access.pyocd import flash
from hil.board import load_board
board = load_board("microbit")
seen = [0.0]
def progress(done):
    seen.append(done)
    if 1 in seen and 0.4 < done < 1:
        os.kill(os.getpid(), signal.SIGKILL)
with flash.connected(board, sys.argv[1]) as session:
    flash.program(session, read_image(Path(sys.argv[2])), progress)
"""


def test_half_programmed_flash(table: list[str]) -> None:
    board = load_board("microbit")
    models = spoiled_libraries(board, *PORTABLE)
    image = build(models, board).elf
    flashed: list[Flashed] = []
    with virtual_probe.start(board) as (virtual, _):
        done = subprocess.run(
            [sys.executable, "-c", _HALF, virtual.uid, image], timeout=60, check=False
        )
        assert done.returncode == -signal.SIGKILL
        with flash.connected(board, virtual.uid) as session:
            address, _, _ = flash.first_difference(session, read_image(image)) or (0, 0, 0)
            assert address > 0, "a part was programmed, and not all"
        start = time.monotonic()
        for _ in range(2):
            with hil.open(board, *models, probe=virtual.uid, flashed=flashed.append) as device:
                x = np.array([4, 5, 6, 7], np.int32)
                device["hang"].set_input(0, x)
                device["hang"].run()
                np.testing.assert_array_equal(device["hang"].get_output(0), x + 1)
        seconds = time.monotonic() - start
        row(table, "half-programmed flash", "flash", "read back, programmed", seconds)
    assert [once.programmed for once in flashed] == [True, False]


def test_flash_that_does_not_take(tmp_path: Path, table: list[str]) -> None:
    # QEMU does not model this board's flash controller: writes vanish.
    text = description_text("lm3s6965evb")
    path = tmp_path / "lm3s6965evb.toml"
    path.write_text(
        text.replace("[[runner]]", '[[runner]]\nname = "pyocd"\n\n[[runner]]', 1)
        + '\n[flasher]\nname = "pyocd"\ntarget = "cortex_m"\n'
    )
    error = refused(
        table, "flash that does not take", opened_once(board=str(path), probe="virtual")
    )
    assert (error.kind, error.exit_code) == ("flash", 4)
    assert re.search("0x[0-9a-f]+ reads 0x00 after 0x[0-9a-f]+ was programmed", error.fact)
    assert "hil erase" in error.hint
    assert f"tried: {MACHINE}" in error.hint


# -- what a fault tells ---------------------------------------------------------------------

FAULT_BODY = """\
y[0] = 0;
    deep(x, 3);"""
FAULT_GLOBALS = """\
void deep(const int32_t *x, int32_t depth);
__attribute__((noinline)) static void touch(const int32_t *x) {
    volatile float f[4] = {(float)x[0], 1, 2, 3};
    (void)f;
    __asm volatile("udf #0"); /* here */
}
__attribute__((noinline)) void deep(const int32_t *x, int32_t depth) {
    if (depth > 0) { deep(x, depth - 1); } else { touch(x); }
    __asm volatile("" ::: "memory");
}
"""
OVERFLOW_GLOBALS = """\
int32_t dive(int32_t depth);
int32_t dive(int32_t depth) {
    volatile int32_t frame[16];
    frame[depth & 15] = depth;
    return depth > 1000000 ? depth : dive(depth + 1) + frame[(depth + 1) & 15];
}
"""


@cases("name", [CORTEX_M, "microbit", "mps3-an547"], first=1)
def test_a_fault_names_function_line_callers_and_stack(name: str) -> None:
    board = load_board(name)
    touch = tiny_library(FAULT_BODY, name="touch", cpu=board.cpu.name, globals_=FAULT_GLOBALS)
    dive = tiny_library(
        "y[0] = dive(x[0]);", name="dive", cpu=board.cpu.name, globals_=OVERFLOW_GLOBALS
    )
    source = touch.files["codegen/host/src/touch_lib1.c"].decode()
    line = source[: source.index("/* here */")].count("\n") + 1
    with hil.open(board, touch, dive) as device:
        with pytest.raises(FaultError) as caught:
            device["touch"].run()
        error = caught.value
        assert error.place is not None
        assert (error.place.function, error.place.line) == ("touch", line)
        assert error.place.file.endswith("touch_lib1.c")
        functions = [caller.function for caller in error.callers]
        assert functions[:5] == ["deep"] * 4 + ["tvmgen_touch_run"]
        assert functions[-1] == "main"
        assert error.stack is not None
        assert error.stack.size_bytes == board.stack_bytes
        assert error.stack.bottom < error.fault.sp < error.stack.address <= error.stack.top
        used = error.stack.top - error.stack.address
        assert used <= error.stack.peak_bytes < board.stack_bytes
        assert f"touch at {error.place.file}:{line}: " in error.fact
        assert f"{used} of {board.stack_bytes} bytes of stack in use" in error.fact
        device.reset()
        with pytest.raises(FaultError) as caught:
            device["dive"].run()
        error = caught.value
        assert error.place is not None
        assert error.place.function == "dive"
        assert f"the stack of {board.stack_bytes} bytes overflowed" in error.fact
        assert "raise stack_bytes" in error.hint


def test_a_fault_is_told_without_its_image(tmp_path: Path) -> None:
    board = load_board(CORTEX_M)
    with hil.open(board, *spoiled_libraries(board, *SPOILS)) as device:
        for image in (None, tmp_path / "gone.elf", Path(sys.executable)):
            device._client._elf = image
            device["fault"].set_input(0, np.array([1, 0, 0, 0], np.int32))
            with pytest.raises(FaultError, match="bus error at a data access.*; pc 0x") as caught:
                device["fault"].run()
            assert (caught.value.place, caught.value.callers) == (None, [])
            device.reset()


# -- the ladder -----------------------------------------------------------------------------


def test_the_former_name_of_remedy_is_refused_by_name() -> None:
    with pytest.raises(ImportError, match=r"hil\.errors\.Remedy since 0\.2.* is remedy"):
        exec("from hil.errors import Mend", {})


def ladder(*failing: Remedy, limit_s: float = 60.0) -> tuple[Recovery, list[Remedy]]:
    """A ladder of all three steps, of which some fail, and what is taken of it."""
    taken: list[Remedy] = []

    def step(remedy: Remedy) -> Step:
        def do() -> None:
            taken.append(remedy)
            if remedy in failing:
                raise LinkError("still silent", remedy=remedy)

        return Step(remedy, remedy.name, do)

    return Recovery("it", lambda _: [step(remedy) for remedy in Remedy], limit_s), taken


def test_each_failure_climbs_one_step() -> None:
    recovery, taken = ladder()
    failures = iter([LinkError("a", remedy=Remedy.RESET), LinkError("b", remedy=Remedy.RESET)])

    def job() -> str:
        for failure in failures:
            raise failure
        return "done"

    assert recovery.repeated(job) == "done"
    assert taken == [Remedy.RESET, Remedy.FLASH]
    # That was one incident; the next begins at the bottom.
    recovery.recover(LinkError("c", remedy=Remedy.RESET))
    assert taken[-1] is Remedy.RESET


def test_steps_that_fail_are_followed_by_stronger_ones() -> None:
    recovery, taken = ladder(Remedy.RESET, Remedy.FLASH)
    recovery.recover(LinkError("silent", remedy=Remedy.RESET))
    assert taken == list(Remedy)
    assert [attempt.failure for attempt in recovery.attempts] == ["still silent"] * 2 + [""]


def test_a_failure_begins_where_it_says() -> None:
    recovery, taken = ladder()
    recovery.recover(DeviceError("ended", remedy=Remedy.POWER))
    assert taken == [Remedy.POWER]


def test_the_end_of_the_ladder_is_told() -> None:
    recovery, taken = ladder(*Remedy)
    with pytest.raises(LinkError) as caught:
        recovery.recover(LinkError("silent", "look", remedy=Remedy.RESET))
    assert taken == list(Remedy)
    assert caught.value.hint.startswith("look; tried: RESET (still silent), FLASH (still silent)")


def test_what_no_step_mends_is_raised_at_once() -> None:
    recovery, taken = ladder()
    for error in (LinkError("in use"), NumericError("differs"), InputError("no such input")):

        def job(error: HilError = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            recovery.repeated(job)
        assert caught.value is error
    assert taken == []


def test_no_step_begins_after_the_limit() -> None:
    recovery, taken = ladder(*Remedy, limit_s=0.0)
    with pytest.raises(LinkError) as caught:
        recovery.recover(LinkError("silent", remedy=Remedy.RESET))
    assert taken == []
    assert "0 s are used up" in caught.value.hint


def test_a_blocked_step_ends_the_recovery() -> None:
    taken = []

    def blocked() -> None:
        raise LinkError("the port is in use")

    steps = [
        Step(Remedy.RESET, "reset", blocked),
        Step(Remedy.POWER, "power", lambda: taken.append(1)),
    ]
    with pytest.raises(LinkError, match="in use"):
        Recovery("it", lambda _: steps).recover(LinkError("silent", remedy=Remedy.RESET))
    assert taken == [], "the board was not switched off under its user"


def test_results_that_differ_are_never_computed_again() -> None:
    board = load_board(CORTEX_M)
    calls: list[int] = []
    with hil.open(board, *spoiled_libraries(board, *SPOILS)) as device:
        model = device["fault"]

        def counted(job: Callable[[], object]) -> object:
            calls.append(1)
            return device.repeated(job)

        zeros = Oracle("zeros", "", lambda _index, _sample: {"y": np.zeros(4, np.int32)})
        report = verify(
            model,
            RandomSamples(model.inputs, 0, 3),
            zeros,
            board=board.name,
            repeated=counted,
        )
        assert device.recovery is not None
        assert device.recovery.attempts == []
    assert len(calls) == 3
    with pytest.raises(NumericError, match="12 elements of 'y', the first in sample 0") as caught:
        report.check()
    assert (caught.value.kind, caught.value.exit_code) == ("numeric", 1)


def test_the_log_tells_each_step_and_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    recovery, _ = ladder(Remedy.RESET)
    recovery.recover(LinkError("no answer to RUN", remedy=Remedy.RESET))
    assert [record.getMessage() for record in caplog.records if "back" not in record.message] == [
        "it: no answer to RUN; trying RESET",
        "it: RESET did not help: still silent",
        "it: no answer to RUN; trying FLASH",
    ]


# -- the power switch -----------------------------------------------------------------------


def write_config(monkeypatch: pytest.MonkeyPatch, folder: Path, **power: object) -> None:
    path = folder / "config.toml"
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in power.items()]
    path.write_text("[boards.native]\nport = 'x'\n[boards.native.power]\n" + "".join(lines))
    monkeypatch.setenv("HIL_CONFIG", str(path))


def test_the_commands_run_in_order_and_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    say = [sys.executable, "-c", f"import sys; open({str(said)!r}, 'a').write(sys.argv[1])"]
    off, on = (shlex.join([*say, word]) for word in ("off ", "on "))
    write_config(monkeypatch, tmp_path, on=on, off=off, off_s=0.01, timeout_s=60)
    remember("77", board="native")
    assert remembered("77") == {"board": "native"}
    power = power_of("native")
    assert power is not None
    power.cycle()
    assert said.read_text() == "off on "
    assert (power.off_s, power.switch.timeout_s) == (0.01, 60)
    assert power_of("microbit") is None


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sh -c 'echo no such relay; exit 3'", "failed with 3: .*saying 'no such relay'"),
        ("/no/such/program", "cannot be run: /no/such/program: No such file"),
        ("sleep 600", "did not end within 0.2 s: sleep 600"),
    ],
)
def test_a_power_command_that_fails_is_told(
    command: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    timeout_s = 0.2 if "sleep" in command else 60
    write_config(monkeypatch, tmp_path, cycle=command, timeout_s=timeout_s)
    power = power_of("native")
    assert power is not None
    with pytest.raises(DeviceError, match=message) as caught:
        power.cycle()
    assert "config.toml" in caught.value.hint


def test_what_a_power_command_started_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = tmp_path / "pid"
    command = f"sh -c 'sleep 600 & echo $! >{started}; wait'"
    write_config(monkeypatch, tmp_path, cycle=command, timeout_s=2)
    power = power_of("native")
    assert power is not None
    with pytest.raises(DeviceError, match="did not end"):
        power.cycle()
    until(lambda: not psutil.pid_exists(int(started.read_text())), "the end of what it started")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "has no command"),
        ({"off": "x"}, "has off"),
        ({"cycle": "x", "on": "y"}, "has cycle and on"),
        ({"cycle": ""}, "power.cycle is ''"),
        ({"cycle": "'"}, 'power.cycle is "\'"'),
        ({"cycle": "x", "timeout_s": 0}, "timeout_s is 0"),
        ({"cycle": "x", "off_s": "1"}, "power.off_s: '1' is not a number"),
        ({"cycle": "x", "off_s": 3600}, "off_s is 3600"),
        ({"cycle": "x", "of": "y"}, "power.of: unknown key (did you mean off"),
    ],
)
def test_a_power_table_that_is_not_valid_is_refused(
    table: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_config(monkeypatch, tmp_path, **table)
    with pytest.raises(InputError, match=re.escape(message)):
        power_of("native")
