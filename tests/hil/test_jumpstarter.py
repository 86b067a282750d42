"""Boards of an exporter of Jumpstarter: the real packages on loopback, a machine of QEMU behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import children
from waiting import PATIENCE_S, until

import hil
from hil.access import Resettable
from hil.access.bench_boards import lock_names_of
from hil.access.board_lock import board_lock, is_own
from hil.board import load_board
from hil.cli import main
from hil.errors import DeviceError, FlashError, InputError, ProbeError
from hil.lab.pool import open_pool

pytest.importorskip("jumpstarter", reason="Jumpstarter needs Python 3.11")

import qemu_exporter

BOARD = "mps2-an386"
RUNNER = "jumpstarter:emulated=true"
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
QEMU = [
    *("qemu-system-arm", "-machine", "mps2-an386", "-icount", "shift=5,sleep=off"),
    *("-display", "none", "-monitor", "none", "-kernel", "{image}"),
    *("-chardev", "socket,id=uart,host=127.0.0.1,port={port},server=on,wait=off,nodelay=on"),
    *("-serial", "chardev:uart"),
]
CHILD = "hil.access.jumpstarter.client"
Export = Callable[..., subprocess.Popen[str]]


def write(folder: Path, file: Path, **drivers: Any) -> Path:
    """Write an exporter's configuration (JSON is YAML)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(qemu_exporter.configuration(folder, QEMU, **drivers)))
    return file


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Export]:
    """Start an exporter, as the shell of Jumpstarter gives it to its commands."""
    with contextlib.ExitStack() as stack:

        def start(**drivers: Any) -> subprocess.Popen[str]:
            file = write(tmp_path, tmp_path / "exporter.yaml", **drivers)
            address, process = stack.enter_context(qemu_exporter.served(file))
            monkeypatch.setenv("JUMPSTARTER_HOST", address)
            monkeypatch.setenv("JMP_DRIVERS_ALLOW", "UNSAFE")
            return process

        yield start


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An exporter in the configuration of Jumpstarter on this machine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(qemu_exporter.__file__).parent))
    monkeypatch.delenv("JUMPSTARTER_HOST", raising=False)
    write(tmp_path, tmp_path / "jumpstarter" / "exporters" / "bench-1.yaml")
    return "bench-1"


def is_connected() -> bool:
    return any(CHILD in " ".join(psutil.Process(pid).cmdline()) for pid in children())


def test_verify_in_its_shell(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    export()
    words = [str(DIGITS), "--board", BOARD, "--runner", RUNNER, "--json"]
    assert main(["verify", *words, "--samples", "3"]) == 0
    out = capsys.readouterr().out
    assert '"match": true' in out, out
    assert '"jumpstarter"' in out
    assert not is_connected()


def test_reset_by_power(export: Export) -> None:
    export()
    with hil.open(BOARD, DIGITS, runner=RUNNER) as device:
        running = device._running
        assert isinstance(running, Resettable)
        assert running.can_reset
        assert running.counter == "instructions"
        assert not device.is_proven
        assert device.recovery is not None
        device.recovery.recover(hil.errors.LinkError("silence", remedy=hil.errors.Remedy.RESET))
        assert [attempt.step for attempt in device.recovery.attempts] == ["a reset"]
        assert hil.verify(device["digits"], samples=3).match


def test_named_exporter(named: str) -> None:
    with hil.open(BOARD, DIGITS, runner=f"{RUNNER},exporter={named}") as device:
        assert list(device.models) == ["digits"]
    until(lambda: not is_connected())


def test_unknown_exporter(named: str) -> None:
    with (
        pytest.raises(InputError, match=r"there is no bench-2\.yaml") as caught,
        hil.open(BOARD, DIGITS, runner="jumpstarter:exporter=bench-2"),
    ):
        pass
    assert named in caught.value.hint


def test_no_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUMPSTARTER_HOST", raising=False)
    with (
        pytest.raises(InputError, match="no exporter is named") as caught,
        hil.open(BOARD, DIGITS, runner="jumpstarter"),
    ):
        pass
    assert "jmp shell" in caught.value.hint


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("jumpstarter:format=srec", "format=srec is not a format"),
        ("jumpstarter:exporter=../x", "is not a name"),
        ("jumpstarter:emulated=true", "is no machine of QEMU"),
    ],
)
def test_invalid_setting(runner: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMPSTARTER_HOST", "/nowhere")
    with pytest.raises(InputError, match=message), hil.open("nucleo-f446re", DIGITS, runner=runner):
        pass


@pytest.mark.parametrize(
    ("drivers", "runner", "message"),
    [
        ({"flasher": None}, RUNNER, "it exports no flasher, but serial, power"),
        (
            {"other": {"type": "jumpstarter_driver_power.driver.MockPower"}},
            RUNNER,
            "2 drivers that are a power switch: power, other",
        ),
        ({}, f"{RUNNER},power=relay", "it exports no driver 'relay'"),
        ({}, f"{RUNNER},power=serial", "its driver serial is no power switch"),
    ],
)
def test_lacking_driver(export: Export, drivers: Any, runner: str, message: str) -> None:
    export(**drivers)
    with pytest.raises(InputError, match=message), hil.open(BOARD, DIGITS, runner=runner):
        pass
    assert not is_connected()


def test_refused_image(export: Export, tmp_path: Path) -> None:
    config = {"image": str(tmp_path / "x"), "refused": "\x7fELF"}
    export(flasher={"type": "qemu_exporter.FileFlasher", "config": config})
    with (
        pytest.raises(FlashError, match="its flasher failed: .*the chip is locked"),
        hil.open(BOARD, DIGITS, runner=RUNNER, recover=False),
    ):
        pass


def test_lost_exporter(export: Export) -> None:
    process = export()

    def lose() -> None:
        machine = psutil.Process(process.pid).children()
        process.kill()
        for child in machine:
            child.kill()  # a killed exporter leaves it
        process.wait(PATIENCE_S)

    with hil.open(BOARD, DIGITS, runner=RUNNER) as device:
        lose()
        with pytest.raises(DeviceError) as caught:
            hil.verify(device["digits"], samples=3)
    message = str(caught.value)
    assert "the exporter has ended, or cannot be reached any more" in message, message
    assert caught.value.exit_code == 4
    assert not is_connected()


def test_nobody_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUMPSTARTER_HOST", str(tmp_path / "socket"))
    with (
        pytest.raises(DeviceError, match="the exporter of the shell: it does not answer"),
        hil.open(BOARD, DIGITS, runner=RUNNER, recover=False),
    ):
        pass


def test_exporter_in_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUMPSTARTER_HOST", str(tmp_path / "socket"))
    code = (
        "import sys; from hil.access.board_lock import board_lock\n"
        f"with board_lock('it', 'jumpstarter {tmp_path}/socket'):\n"
        "    print('held', flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with (
            pytest.raises(ProbeError, match="the exporter of the shell is in use by process"),
            hil.open(BOARD, DIGITS, runner=RUNNER, recover=False),
        ):
            pass
        other.communicate(b"\n")
    with board_lock("it", f"jumpstarter {tmp_path}/socket"):
        pass  # it is free again


def test_killed_user(export: Export) -> None:
    export()
    code = (
        "import hil, sys\n"
        f"with hil.open({BOARD!r}, {str(DIGITS)!r}, runner={RUNNER!r}):\n"
        "    print('open', flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"open\n"
        (child,) = [
            process
            for process in psutil.Process(user.pid).children(recursive=True)
            if CHILD in " ".join(process.cmdline())
        ]
        os.kill(user.pid, signal.SIGKILL)
        user.wait(PATIENCE_S)
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    with hil.open(BOARD, DIGITS, runner=RUNNER) as device:
        assert list(device.models) == ["digits"]


def test_bench_file(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = tmp_path / "hil-bench.toml"
    runner = f"{RUNNER},exporter={named}"
    bench.write_text(f'[boards.one]\nboard = "{BOARD}"\nrunner = "{runner}"\n')
    monkeypatch.setenv("HIL_BENCH", str(bench))
    assert lock_names_of(load_board("one@bench")) == [f"jumpstarter {named}"]
    with hil.open("one@bench", DIGITS) as device:
        assert device.board == BOARD


def test_pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers share an exporter, not a type of board."""
    monkeypatch.setenv("JUMPSTARTER_HOST", str(tmp_path / "socket"))
    pool = open_pool(BOARD, runner=RUNNER)
    assert pool is not None
    unit = pool.acquire()
    assert unit.name.endswith(f"jumpstarter {tmp_path}/socket")
    assert is_own(f"jumpstarter {tmp_path}/socket")
    unit.release()
    pool.close()
