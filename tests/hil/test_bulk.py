"""Tensors past the serial line: the same as over it, proven, and given up where they are not."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from answers import entry as read_entry
from spoiled_models import spoiled_libraries
from tiny_library import tiny_library

import hil
from hil import cli
from hil.access import qemu
from hil.board import load_board
from hil.device import Device
from hil.errors import DeviceError, EmulatorError, InputError, LinkError
from hil.lab import LabBoard
from hil.link import bulk as bulk_module
from hil.link.bulk import BoardMemory, Bulk
from hil.link.fault import FaultError

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
CORTEX_M = "mps2-an386"
ADD = "for (int i = 0; i < 4; ++i) { y[i] = x[i] + 1; }"
X = np.array([4, 5, 6, 7], np.int32)


@contextmanager
def opened(*, body: str = ADD, **options: Any) -> Iterator[Device]:
    with hil.open(CORTEX_M, tiny_library(body), recover=False, **options) as device:
        yield device


def machines() -> set[psutil.Process]:
    return set(psutil.Process().children())


def test_a_run_takes_one_short_request_for_each_tensor() -> None:
    with opened() as device:
        model = device["tiny"]
        model.set_input(0, X)
        before = device._client.requests
        model.set_input(0, X)
        model.run()
        assert model.get_output(0).tolist() == [5, 6, 7, 8]
        assert device._client.requests - before == 3
    with opened(bulk=False) as device:
        assert device._client.bulk is None


# -- the proof ----------------------------------------------------------------------------------


class Elsewhere:
    """Memory that is not what the core sees: writes are lost, or reads are of something else."""

    def __init__(self, memory: BoardMemory, fails: str) -> None:
        self._memory = memory
        self._fails = fails

    def read(self, address: int, nbytes: int) -> bytes:
        data = self._memory.read(address, nbytes)
        return bytes(byte ^ 1 for byte in data) if self._fails == "read" else data

    def write(self, address: int, data: bytes) -> None:
        if self._fails != "write":
            self._memory.write(address, data)


def over(device: Device, fails: str, *, is_demanded: bool = False) -> None:
    """Gives an open device memory that fails."""
    running, firmware = device._running, device.firmware
    assert running is not None
    assert running.memory is not None
    assert firmware is not None
    memory = Elsewhere(running.memory, fails)
    regions = load_board(CORTEX_M).memory
    device._client.bulk = Bulk(memory, firmware.elf, regions, is_demanded=is_demanded)


@pytest.mark.parametrize("fails", ["write", "read"])
def test_memory_the_firmware_does_not_see(fails: str, caplog: pytest.LogCaptureFixture) -> None:
    with opened() as device:
        model = device["tiny"]
        # What is in RAM already must not pass for what was written.
        model.set_input(0, X)
        over(device, fails)
        with caplog.at_level(logging.WARNING, "hil.bulk"):
            for _ in range(2):
                model.set_input(0, X)
                model.run()
                assert model.get_output(0).tolist() == [5, 6, 7, 8]
        assert isinstance(device._client.bulk, Bulk)
        assert not device._client.bulk.is_used
        (message,) = [record.getMessage() for record in caplog.records]
        assert message.endswith("tensors now use the serial line")
        assert "in ram" in message or "to ram" in message
        over(device, fails, is_demanded=True)
        with pytest.raises(LinkError, match="the firmware .* from outside") as caught:  # noqa: PT012
            model.set_input(0, X)
            model.get_output(0)
        assert "--bulk" in caught.value.hint


def test_bytes_that_are_all_the_same_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(body="for (int i = 0; i < 4; ++i) { y[i] = x[i] * 0; }") as device:
        model = device["tiny"]
        bulk = device._client.bulk
        assert isinstance(bulk, Bulk)
        model.run()
        # As if nothing had been written: the input's zeros prove the region, too.
        bulk._readable.clear()
        bulk._writable.clear()
        assert model.get_output(0).tolist() == [0] * 4
        assert bulk._readable == set()
        monkeypatch.setattr(bulk_module, "_PROOF_BYTES", 8)  # the rest is read over the line, too
        assert model.get_output(0).tolist() == [0] * 4
        assert bulk._readable == set()
        model.set_input(0, X)
        assert (bulk._readable, bulk._writable) == ({"ram"}, {"ram"})


# -- failures -----------------------------------------------------------------------------------


def test_a_board_that_has_restarted_has_no_results() -> None:
    """Memory still reads: zeros, which nobody may take for the model's output."""
    with opened() as device:
        model = device["tiny"]
        model.set_input(0, X)
        model.run()
        running: Any = device._running
        running.reset()
        for transfer in (lambda: model.get_output(0), lambda: model.set_input(0, X)):
            with pytest.raises(DeviceError, match="restarted by itself before it answered ECHO"):
                transfer()


@pytest.mark.full
def test_a_board_at_a_fault_takes_no_tensor() -> None:
    board = load_board(CORTEX_M)
    with hil.open(board, *spoiled_libraries(board, "fault"), recover=False) as device:
        model = device["fault"]
        model.set_input(0, np.array([1, 0, 0, 0], np.int32))
        for failing in (model.run, lambda: model.set_input(0, X)):
            with pytest.raises(FaultError, match="bus error at a data access"):
                failing()
        with pytest.raises(InputError, match="the model's last run did not end well"):
            model.get_output(0)


@pytest.mark.parametrize("transfer", ["set_input", "get_output"])
def test_a_killed_emulator_is_noticed_at_a_tensor(transfer: str) -> None:
    before = machines()
    with opened() as device:
        model = device["tiny"]
        model.set_input(0, X)
        model.run()
        (machine,) = machines() - before
        machine.kill()
        with pytest.raises(EmulatorError, match=r"QEMU ended: signal 9 \(SIGKILL\)"):
            model.set_input(0, X) if transfer == "set_input" else model.get_output(0)
    assert machines() == before


def test_an_emulator_that_hangs_is_told_at_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "_MEMORY_TIMEOUT_S", 0.5)
    before = machines()
    with opened() as device:
        device["tiny"].set_input(0, X)
        (machine,) = machines() - before
        machine.suspend()
        with pytest.raises(LinkError, match=r"qtest socket failed: no answer in 0\.5 s") as caught:
            device["tiny"].set_input(0, X)
        assert "--no-bulk" in caught.value.hint
        machine.send_signal(signal.SIGCONT)
    assert machines() == before


def test_the_way_to_memory_has_no_name_and_is_closed() -> None:
    """Nobody else can connect to it, and nothing of it is left."""
    me, before = psutil.Process(), machines()
    with opened():
        pass  # whatever is made once is made
    descriptors = me.num_fds()
    with opened() as device:
        device["tiny"].set_input(0, X)
        (machine,) = machines() - before
        command = machine.cmdline()
        assert command[command.index("-qtest") + 1] == "chardev:qtest"
        inodes = {os.readlink(f"/proc/{machine.pid}/fd/{fd}") for fd in _descriptors(machine)}
        names = {
            f"socket:[{fields[6]}]": fields[7:]
            for line in Path("/proc/net/unix").read_text().splitlines()[1:]
            if (fields := line.split())
        }
        paths = [names[inode] for inode in inodes if inode in names]
        # Only the serial line has a name, in a folder of this user.
        assert [path for path in paths if not path or not path[0].endswith("/uart")] == [[], []]
    assert me.num_fds() == descriptors
    assert machines() == before


def _descriptors(process: psutil.Process) -> list[str]:
    return os.listdir(f"/proc/{process.pid}/fd")


# -- what has no way to memory ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("board", "options", "why"),
    [
        ("native", {}, "the runner native has no access to memory"),
        (CORTEX_M, {"runner": "renode"}, "the runner renode has no access"),
        (CORTEX_M, {"port": "socket://127.0.0.1:1"}, "a port gives access to the serial line only"),
        (CORTEX_M, {"probe": "some"}, "only if it carries the serial line"),
        ("nucleo-h743zi", {"probe": "some", "transport": "rtt"}, "has a data cache"),
        (CORTEX_M, {"lab": object.__new__(LabBoard)}, "a lab forwards a board's serial line"),
    ],
)
def test_what_has_no_way_to_memory_says_so(board: str, options: dict[str, Any], why: str) -> None:
    with (
        pytest.raises(InputError, match=why) as caught,
        hil.open(board, tiny_library(ADD), bulk=True, **options),
    ):
        pass
    assert "--bulk" in caught.value.hint or "--transport" in caught.value.hint


# -- the command line ---------------------------------------------------------------------------


@pytest.mark.full
def test_every_way_verifies_and_counts_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(DIGITS / "digits.tflite")

    def said(command: str, *options: str) -> dict[str, Any]:
        assert cli.main([command, model, "--board", CORTEX_M, "--json", *options]) == 0
        answer = read_entry(capsys.readouterr().out)
        answer.pop("seconds", None)
        # It has the command line, which is another one.
        answer.pop("provenance", None)
        return answer

    ways: tuple[list[str], ...] = ([], ["--bulk"], ["--no-bulk"])
    for command in (["verify", "--samples", "2", "--per-layer"], ["bench"], ["run"]):
        answers = [said(*command, *way) for way in ways]
        assert answers[0] == answers[1] == answers[2]


def test_regions_are_the_boards(caplog: pytest.LogCaptureFixture) -> None:
    """A tensor outside of what the description calls memory takes the line."""
    board = load_board(CORTEX_M)
    with opened() as device:
        firmware, running = device.firmware, device._running
        assert firmware is not None
        assert running is not None
        assert running.memory is not None
        ram = [region for region in board.memory if region.name != "ram"]
        small = dataclasses.replace(board.regions("ram")[0], size=16)
        for regions in (ram, [*ram, small]):
            device._client.bulk = Bulk(running.memory, firmware.elf, regions)
            device["tiny"].set_input(0, X)
            device["tiny"].run()
            assert device["tiny"].get_output(0).tolist() == [5, 6, 7, 8]
            assert device._client.bulk._writable == set()
    assert caplog.records == []
