"""The documents' figures come from the results of two programs and from nowhere else."""

import importlib
import json
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from hil.board import load_board

ROOT = Path(__file__).resolve().parents[2]


figures: Any = importlib.import_module("figures")
steps: Any = importlib.import_module("steps")
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
    lines = figures.proof_section(PROOFS).splitlines()
    lines += figures.bench_section(COUNTS, OTHERS).splitlines()
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
def test_baselines_are_of_measured_boards_and_models(who: dict[str, Any]) -> None:
    for board, models in who["boards"].items():
        assert load_board(board).qemu is not None
        assert set(models) == {"ad", "kws", "ic", "vww"}
        assert models["ad"] < models["kws"] < min(models["ic"], models["vww"])


def test_difference_that_is_no_number_is_shown() -> None:
    steps = {"float: kws_float on mps2-an386": equal(None, 0)}
    assert "| kws_float | mps2-an386 | 10 | 1 | not a number |" in figures.proof_section(steps)


def limited(instructions: int, limit: int | None, *layers: tuple[str, int, int]) -> dict[str, Any]:
    """Counts of a model with a limit, and of layers: operator, count, ratio to the limit."""
    known = counts(instructions)
    known["report"] |= {
        "layers": [{"op": op, "count": count} for op, count, _ in layers],
        "limit": {
            "instructions": limit,
            "ratio": limit and instructions / limit,
            "layers": [{"instructions": c // r, "ratio": c / (c // r)} for _, c, r in layers],
        },
    }
    return known


def test_ratios_to_the_limit() -> None:
    conv, soft, fully = ("CONV_2D", 100, 2), ("SOFTMAX", 14, 14), ("FULLY_CONNECTED", 120, 3)
    steps = {
        "balanced: kws on mps2-an386": limited(300, 200, conv),
        "speed: kws on mps2-an386": limited(250, 200, conv, soft, fully),
        "balanced: ad on mps2-an386": limited(5, None, conv),
        "balanced: kws on microbit": {"ok": True, "report": None, "shown": "does not fit"},
    }
    table = figures.limits_section(steps).splitlines()[2:]
    assert table[0] == "| core |  | kws | ad |"
    assert table[2:6] == [
        "| cortex-m4 (`mps2-an386`) | limit, instructions | 200 | - |",
        "|  | balanced | 1.50 | - |",
        "|  | speed | 1.25 | - |",
        "|  | speed, farthest layer | FULLY_CONNECTED 3.00 | - |",
    ]
    assert len(figures.limits_section(COUNTS).splitlines()) == 4


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    paths = (tmp_path / "figures.md", tmp_path / "README.md")
    for path, name in zip(paths, ("PAGE", "README"), strict=True):
        path.write_text(getattr(figures, name).read_text("utf-8"), "utf-8")
        monkeypatch.setattr(figures, name, path)
    return paths


def test_what_has_not_run_stays_as_it_is(
    documents: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, readme = documents
    before = page.read_text("utf-8"), readme.read_text("utf-8")
    absent, found = tmp_path / "absent.json", tmp_path / "found.json"
    given = ["figures.py", "--prove", str(absent), "--bench", str(absent)]
    monkeypatch.setattr(sys, "argv", given)
    assert figures.main() == 1
    assert (page.read_text("utf-8"), readme.read_text("utf-8")) == before
    found.write_text(json.dumps({"steps": {"balanced: kws on mps2-an386": counts(4711)}}))
    given[-1] = str(found)
    assert figures.main() == 0
    equality = before[0].partition("equality:begin")[2].partition("equality:end")[0]
    assert equality
    assert equality in page.read_text("utf-8")
    assert "4,711" in page.read_text("utf-8")
    assert "4,711" in readme.read_text("utf-8")
    found.write_text(json.dumps({"steps": {"speed: kws on mps2-an386": limited(4712, 4000)}}))
    given += ["--part", figures.LIMITS]
    assert figures.main() == 0
    assert "| speed | 1.18 |" in page.read_text("utf-8")
    assert "4,712" not in page.read_text("utf-8")
    assert "4,711" in page.read_text("utf-8")


def test_summary_has_the_default_goal_beside_another() -> None:
    lines = figures.summary(COUNTS, OTHERS).splitlines()
    assert lines[0].startswith("| model | instructions | TFLM with CMSIS-NN | workspace |")
    assert lines[2:] == ["| `kws` | 6,543,210 | 7,699,638 | 1,001 | 22,820 | 1,004 | 53,492 |"]


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        (figures.PAGE, figures.EQUALITY),
        (figures.PAGE, figures.MARK),
        (figures.PAGE, figures.LIMITS),
        (figures.README, figures.MARK),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_document_has_the_marks(path: Path, mark: str) -> None:
    text = path.read_text(encoding="utf-8")
    begin, end = (f"<!-- {mark}:{side} -->" for side in ("begin", "end"))
    assert text.count(begin) == text.count(end) == 1
    assert text.index(begin) < text.index(end)


def test_results_stand_in_the_order_of_the_steps(tmp_path: Path) -> None:
    """Of steps side by side, the one that ends first came first, and with it its column."""
    file = tmp_path / "results.json"
    quick_ended = Event()

    def quick() -> dict[str, Any]:
        quick_ended.set()
        return {"ok": True}

    results = steps.Results(file, fresh=False)
    results.add("earlier", {"ok": True})
    slow = steps.Step("slow", lambda: {"ok": quick_ended.wait(120)})
    named = [slow, steps.Step("quick", quick)]
    done = steps.run_steps(named, results, 2, "step")
    assert [result["ok"] for result in done.values()] == [True, True]
    assert [*json.loads(file.read_text())["steps"]] == ["earlier", "slow", "quick"]
    again = steps.Results(file, fresh=False)
    steps.run_steps([slow], again, 1, "step")
    assert [*json.loads(file.read_text())["steps"]] == ["earlier", "slow", "quick"]
