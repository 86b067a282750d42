"""The bench of fake boards: what hil, pyOCD and pyserial see of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import answers
import pytest
import serial
from fake_bench import Bench
from serial.tools import list_ports
from waiting import until

from hil.access.probes import connected_probes
from hil.cli import main

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"


def test_probes_and_ports_look_real(rig: Bench) -> None:
    a, b = rig.add(serial="A" * 12), rig.add(serial="B" * 12, interfaces=(0, 2, 4), reports=False)
    found = connected_probes()
    assert [(p.uid, p.board) for p in found] == [(a.serial, "mps2-an386"), (b.serial, "")]
    assert found[0].description == "Arm Fake DAPLink CMSIS-DAP"
    ports = list_ports.comports()
    assert [p.serial_number for p in ports] == [a.serial, *[b.serial] * 3]
    assert ports[-1].location == "1-2:1.4"
    assert Path(b.by_id(2)).resolve() == Path(b.ports[2].path).resolve()


def test_a_board_is_verified_in_two_processes(
    rig: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = rig.add(), rig.add()
    words = ["verify", str(DIGITS), "--board", "mps2-an386", "--samples", "2", "--json"]
    for board in (a, b):
        line = [*words, "--probe", board.serial, "--port", board.ports[0].path]
        assert main(line) == 0, capsys.readouterr().err
    done = subprocess.run([*rig.hil, *line], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert answers.entry(done.stdout)["match"]


@pytest.mark.full
def test_a_board_returns_late_under_another_name(rig: Bench) -> None:
    a, b = rig.add(), rig.add()
    with serial.Serial(a.ports[0].path) as port:
        subprocess.run(rig.power_command(a, 0.2).split(), check=True, timeout=60)
        with pytest.raises((serial.SerialException, OSError)):
            port.read(1)
        until(lambda: a.is_plugged, "plugging in")
    a.unplug()
    assert [p.uid for p in connected_probes()] == [b.serial]
    b.unplug()
    b.plug()
    a.plug()
    assert (b.ports[0].name, a.ports[0].name) == ("ttyACM0", "ttyACM1")


def test_a_dead_board(rig: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    board = rig.add()
    board.die()
    line = ["reset", "--board", "mps2-an386", "--probe", board.serial]
    assert main(line) == 4
    assert board.serial in capsys.readouterr().err
