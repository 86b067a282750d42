"""The documents' figures come from the results of two programs and from nowhere else."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from hil.board import load_board

ROOT = Path(__file__).resolve().parents[2]


sys.path.insert(0, str(ROOT / "ci"))
figures: Any = importlib.import_module("figures")
OTHERS = figures.baselines()


def equal(output: float | None, layer: float) -> dict[str, Any]:
    report = {
        "samples": 10,
        "outputs": [{"max_abs_diff": output}],
        "layers": [{"outputs": [{"max_abs_diff": layer}]}],
    }
    return {"ok": True, "report": report}


def counts(instructions: int) -> dict[str, Any]:
    keys = ("model_flash_bytes", "workspace_bytes", "io_bytes", "stack_peak_bytes")
    memory = {key: 1000 + i for i, key in enumerate((*keys, "flash_beyond_weights_bytes"))}
    return {"ok": True, "report": {"per_inference": instructions, **memory}}


PROOFS = {
    "int8: kws on native": equal(0, 0),
    "int8: kws on mps2-an386": equal(0, 0),
    "float: kws_float on mps2-an386": equal(1e-9, 3e-7),
    "small: digits on stm32vldiscovery": {"ok": True, "shown": "refused"},
    "time: compile of vww": {"ok": True, "seconds": 1.0},
}
COUNTS = {
    "balanced: kws on mps2-an385": counts(7654321),
    "balanced: ad on mps2-an385": counts(123),
    "balanced: kws on mps2-an386": counts(6543210),
    "balanced: ad on microbit": {"ok": True, "report": None, "shown": "does not fit"},
    "speed: kws on mps2-an386": counts(5432109),
    "size: kws on mps2-an386": counts(8765432),
    "speed: ad on mps2-an386": {"ok": False, "shown": "no link"},
}


def test_section() -> None:
    lines = figures.section(PROOFS, COUNTS).splitlines()
    assert "| kws | native, mps2-an386 | 10 | 1 | 0 |" in lines
    assert "| kws_float | mps2-an386 | 10 | 1 | 3e-07 |" in lines
    assert "| core |  | kws | ad |" in lines
    assert "| cortex-m3 (`mps2-an385`) | balanced | 7,654,321 | 123 |" in lines
    assert "|  | TFLM with CMSIS-NN | 10,547,164 | 955,937 |" in lines
    assert "| cortex-m4 (`mps2-an386`) | balanced | 6,543,210 | - |" in lines
    assert "|  | speed | 5,432,109 | - |" in lines
    assert "| cortex-m0 (`microbit`) | balanced | - | no room |" in lines
    assert "| kws | 1,000 | 1,001 | 1,002 | 1,003 |" in lines
    assert "|  | size | 1,001 | - |" in lines
    assert "|  | size | 1,004 | - |" in lines
    assert not any("digits" in line for line in lines)


@pytest.mark.parametrize("who", OTHERS["instructions"], ids=lambda who: who["who"])
def test_baselines_are_of_boards_and_models_that_are_measured(who: dict[str, Any]) -> None:
    for board, models in who["boards"].items():
        assert load_board(board).qemu is not None
        assert set(models) == {"ad", "kws", "ic", "vww"}
        assert models["ad"] < models["kws"] < min(models["ic"], models["vww"])


def test_difference_that_is_no_number_is_shown() -> None:
    steps = {"float: kws_float on mps2-an386": equal(None, 0)}
    assert "| kws_float | mps2-an386 | 10 | 1 | not a number |" in figures.section(steps, {})


def test_summary_has_the_default_goal_beside_another() -> None:
    lines = figures.summary(COUNTS, OTHERS).splitlines()
    assert lines[0].startswith("| model | instructions | TFLM with CMSIS-NN | workspace |")
    assert lines[2:] == ["| `kws` | 6,543,210 | 7,699,638 | 1,001 | 22,820 | 1,004 | 53,492 |"]


@pytest.mark.parametrize("path", [figures.PAGE, figures.README], ids=lambda path: path.name)
def test_a_document_has_the_marks(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    begin, end = (f"<!-- {figures.MARK}:{side} -->" for side in ("begin", "end"))
    assert text.count(begin) == text.count(end) == 1
    assert text.index(begin) < text.index(end)
