"""The mix of instructions of a real run, which has to be what the firmware's clock counts."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import answers
import pytest
from campaigns import cases

from hil.board import load_board
from hil.cli import main
from hil.device.session import open as open_device
from hil.errors import InputError
from hil.firmware.sources import ModelOptions, ModelSource, load_library
from hil.verify.cycles import estimate_cycles, traced
from hilc.target.cores import get_cpu

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"


@cases("options", [(), ("--interface", "packed", "--pools", "calls")], first=1)
def test_mix_has_every_instruction(
    options: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    # Other workers have traces in the common one.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = ["bench", str(DIGITS), "--board", "mps2-an386", "--cycles", "--json", *options]
    assert main(words) == 0
    report = answers.entry(capsys.readouterr().out)
    counted, found = report["per_inference"], report["estimate"]
    executed = sum(found["mix"].values())
    # The clock is read outside of what is traced.
    assert counted - 100 <= executed <= counted
    # A dual multiplication is one instruction for two products, and Winograd's convolution needs
    # four of nine.
    assert found["mix"]["multiplies"] >= report["macs"] * 2 / 9
    assert executed < found["cycles"]["from"] < found["cycles"]["to"] < 2 * executed
    # Every constant is read at least once, eight bytes at a time; they are most of the flash.
    chip = found["chip"]
    assert 8 * chip["flash_reads"]["data"] > report["model_flash_bytes"] // 2
    waits = chip["flash_waits"] * sum(chip["flash_reads"].values())
    assert chip["cycles"]["from"] == found["cycles"]["from"] + waits
    assert chip["expected"]["from"] < chip["cycles"]["from"] < chip["expected"]["to"]
    assert not list(tmp_path.glob("hil-trace-*"))


@pytest.mark.parametrize(
    ("cpu", "board", "machine", "bounds"),
    [
        ("cortex-m0plus", "microbit", "microbit", (1.1, 1.6)),
        ("cortex-m3", "mps2-an385", "mps2-an385", (1.1, 2.0)),
    ],
)
def test_other_cores_have_tables_of_their_own(
    cpu: str, board: str, machine: str, bounds: tuple[float, float]
) -> None:
    described = replace(load_board(board), cpu=get_cpu(cpu))
    library = load_library(ModelSource(DIGITS, "digits"), ModelOptions(cpu))
    found = estimate_cycles(described, [library], library.modules[0], seed=3, workspace="own")
    assert found.core == get_cpu(cpu).title
    assert bounds[0] < found.cycles[0] / found.mix.total
    assert found.cycles[1] / found.mix.total < bounds[1]
    assert (found.cycles[0] == found.cycles[1]) == (cpu == "cortex-m0plus")
    assert found.chip is None


def test_other_cores_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(DIGITS), "--board", "mps3-an547", "--cycles"]) == 2
    assert "mps3-an547 has a cortex-m55" in capsys.readouterr().err


def test_a_function_that_the_image_lacks() -> None:
    board = load_board("mps2-an386")
    library = load_library(ModelSource(DIGITS, "digits"), ModelOptions(board.cpu.name))
    with (
        traced(board, "tvmgen_other_run") as (told, trace),
        open_device(told, library, runner="qemu") as device,
    ):
        assert device.firmware is not None
        with pytest.raises(InputError, match="has no function tvmgen_other_run"):
            trace.watch(device.firmware.elf, "tvmgen_other_run")
    # The trace was read until QEMU ended, and another one can be taken.
    module = library.modules[0]
    first, second = (
        estimate_cycles(board, [library], module, seed=3, workspace="own") for _ in range(2)
    )
    assert first == second
