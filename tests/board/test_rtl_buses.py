"""Cores of the user with AXI4-Lite and AHB-Lite ports: the examples of docs/how-to/rtl.md."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import answers
import numpy as np
import pytest
from campaigns import cases
from tiny_library import tiny_library

import hil
import hilc
from hil.board import Board, load_board
from hil.cli import main
from hil.errors import DeviceError
from hil.link.fault import FaultError
from hil.verify.bench import bench

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
NOWHERE = "if (x[0] == 7) { *(volatile int32_t *)(uintptr_t)0x30000 = 1; } y[0] = x[0];"


class Own(NamedTuple):
    """A core of the examples, and the board whose core it is with other ports."""

    core: str
    board: str


AXI = Own("picorv32-axi-lite", "rtl-picorv32")
AHB = Own("ibex-ahb-lite", "rtl-ibex")


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_RTL", str(ROOT / "examples" / "rtl"))


def on(own: Own, **settings: str) -> Board:
    board = load_board(own.board)
    return board.with_settings("--runner", "verilator", {"core": own.core, **settings})


@cases("core", [AHB, AXI], first=1)
def test_a_bridge_has_the_memory_models(core: Own) -> None:
    library = hilc.compile(DIGITS, cpu=load_board(core.board).cpu.name, name="digits")
    models: dict[str, dict[str, str]] = {
        "none": {},
        "waits": {"flash_wait": "2", "ram_wait": "1"},
        "flash": {"flash_wait": "2"},
        "prefetch": {"flash_wait": "2", "prefetch": "true"},
    }
    counts = {}
    for name, settings in models.items():
        with hil.open(on(core, **settings), library) as device:
            counts[name] = bench(device, library.modules[0]).simulated[0]
    with hil.open(core.board, library) as device:
        plain = bench(device, library.modules[0]).simulated[0]
    assert {count.instructions for count in counts.values()} == {plain.instructions}
    assert counts["none"].cycles < counts["prefetch"].cycles < counts["flash"].cycles
    assert counts["flash"].cycles < counts["waits"].cycles
    if core is AHB:
        # A pipelined bus costs what OBI does, whose ports the core has.
        assert counts["none"].cycles == plain.cycles
    else:
        assert counts["none"].cycles > plain.cycles


@cases("core", [AHB, AXI], first=2)
def test_outputs_over_a_bridge_are_exact(core: Own, capsys: pytest.CaptureFixture[str]) -> None:
    runner = f"verilator:core={core.core},flash_wait=1,ram_wait=2"
    words = ["verify", str(DIGITS), "--board", core.board, "--runner", runner, "--samples", "2"]
    assert main([*words, "--json"]) == 0
    assert answers.entry(capsys.readouterr().out)["match"]


def test_an_error_on_ahb_is_a_fault_of_the_core() -> None:
    library = tiny_library(NOWHERE, cpu="rv32imc")
    with hil.open(on(AHB, ram_wait="1"), library) as device:
        device["tiny"].set_input(0, np.array([7, 0, 0, 0], np.int32))
        with pytest.raises(FaultError, match="store access fault, address 0x00030000"):
            device["tiny"].run()
        device.reset()
        device["tiny"].set_input(0, np.array([1, 0, 0, 0], np.int32))
        device["tiny"].run()
        assert device["tiny"].get_output(0)[0] == 1


def test_an_error_on_axi_reaches_the_wrapper() -> None:
    library = tiny_library(NOWHERE, cpu="rv32imc")
    with hil.open(on(AXI, flash_wait="1"), library, recover=False) as device:
        device["tiny"].set_input(0, np.array([7, 0, 0, 0], np.int32))
        with pytest.raises(DeviceError, match="the core has stopped at a trap"):
            device["tiny"].run()
