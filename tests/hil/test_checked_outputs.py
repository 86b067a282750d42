"""What is measured is held to the reference: `hil bench`, `hil gate`, `hil tune` and their like."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from small_models import convolutions
from tflm import needs_tflm
from wrong_outputs import DIGITS, with_flipped_weight

import hil
import hilc
from hil.cli import main
from hil.cli.actions import tune as tuning
from hil.errors import InputError, NumericError
from hil.page.results import results_in
from hil.verify import Oracle

BOARD = "mps2-an386"
pytestmark = needs_tflm


@dataclass(frozen=True)
class Archives:
    """The same model, right and with a flipped bit of a weight."""

    right: str
    wrong: str


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    folder = tmp_path_factory.mktemp("archives")
    wrong = with_flipped_weight("cortex-m4").save(folder / "wrong.tar")
    assert main(["compile", str(DIGITS), "--board", BOARD, "-o", str(folder / "right.tar")]) == 0
    return Archives(str(folder / "right.tar"), str(wrong))


def bench(model: str, *words: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    capsys.readouterr()
    assert main(["bench", model, "--board", BOARD, "--json", *words]) == code
    return answers.entry(capsys.readouterr().out)


def test_bench_finds_a_flipped_bit(archives: Archives, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench(archives.wrong, capsys=capsys, code=1)["checked"]
    assert (found["reference"], found["match"]) == ("tflm", False)
    assert 1 <= found["samples"] <= 10
    assert found["outputs"][0]["mismatches"] > 0
    assert bench(archives.wrong, "--no-check", capsys=capsys)["checked"] is None
    assert bench(archives.right, capsys=capsys)["checked"]["match"] is True
    assert main(["bench", archives.wrong, "--board", BOARD]) == 1
    text = capsys.readouterr().out
    assert text.splitlines()[0].endswith("per inference; outputs DIFFER")
    assert re.search(r"outputs: DIFFER over \d+ samples?, reference tflm", text)


def test_a_check_changes_no_count(archives: Archives, capsys: pytest.CaptureFixture[str]) -> None:
    checked = bench(archives.right, "--runs", "3", capsys=capsys)
    plain = bench(archives.right, "--runs", "3", "--no-check", capsys=capsys)
    for key in ("per_inference", "counts", "layers", "stack_peak_bytes"):
        assert checked[key] == plain[key]


@pytest.mark.full
def test_gate_fails_for_a_flipped_bit(
    archives: Archives, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "base.json"
    baseline.write_text(json.dumps(bench(archives.right, capsys=capsys)))
    gate = ["gate", "--baseline", str(baseline), "--max-slower", "5%", "--board", BOARD]
    assert main([*gate, archives.right]) == 0
    assert re.search(r"; outputs match tflm over \d+ samples?\n", capsys.readouterr().out)
    assert main([*gate, archives.wrong]) == 1
    said = capsys.readouterr().out
    assert re.fullmatch(r"digits on mps2-an386: outputs DIFFER from tflm over \d+ samples?\n", said)
    assert main([*gate, archives.wrong, "--json"]) == 1
    (verdict,) = answers.entries(capsys.readouterr().out)
    assert (verdict["passed"], verdict["excesses"]) == (False, [])
    assert (verdict["checked"]["match"], verdict["checked"]["reference"]) == (False, "tflm")
    assert main([*gate, archives.wrong, "--no-check"]) == 0
    assert "; outputs not compared\n" in capsys.readouterr().out


def test_gate_of_stored_results(
    archives: Archives, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unchecked result, also of an older version, is refused; so is a wrong baseline."""
    files = {
        "right": bench(archives.right, capsys=capsys),
        "wrong": bench(archives.wrong, capsys=capsys, code=1),
        "unchecked": bench(archives.right, "--no-check", capsys=capsys),
    }
    files["older"] = {k: v for k, v in files["right"].items() if k != "checked"}
    files["older"]["provenance"] = {
        k: v for k, v in files["right"]["provenance"].items() if k != "run"
    }
    for name, data in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data))

    def gate(current: str, baseline: str, *words: str) -> tuple[int, str]:
        paths = (str(tmp_path / f"{name}.json") for name in (current, baseline))
        code = main(["gate", next(paths), "--baseline", next(paths), "--max-slower", "5%", *words])
        out, err = capsys.readouterr()
        return code, out + err

    assert gate("right", "older")[0] == 0
    assert gate("wrong", "older")[0] == 1
    for name in ("unchecked", "older"):
        code, said = gate(name, "right")
        assert code == 2
        assert "was measured without a comparison" in said
        assert "--no-check" in said
        assert gate(name, "right", "--no-check")[0] == 0
    code, said = gate("right", "wrong")
    assert code == 2
    assert "is of firmware whose outputs differed from tflm" in said


def test_compare_says_what_was_checked(
    archives: Archives, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    before.write_text(json.dumps(bench(archives.right, "--no-check", capsys=capsys)))
    after.write_text(json.dumps(bench(archives.wrong, capsys=capsys, code=1)))
    assert main(["compare", str(before), str(after)]) == 1
    heads = capsys.readouterr().out.splitlines()[:2]
    assert heads[0].endswith("; outputs not compared")
    assert re.search(r"; outputs DIFFER from tflm over \d+ samples?$", heads[1])


def test_files_of_a_matrix(
    archives: Archives, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, summary = tmp_path / "j.xml", tmp_path / "s.md"
    words = ["--separate", "--junit", str(junit), "--summary", str(summary), "--json"]
    boards = ["--board", BOARD]
    assert main(["bench", archives.right, archives.wrong, *boards, *words]) == 1
    entries = answers.entries(capsys.readouterr().out)
    assert [entry["checked"]["match"] for entry in entries] == [True, False]
    cases = list(ElementTree.parse(junit).iter("testcase"))
    assert [case.find("failure") is not None for case in cases] == [False, True]
    properties = [{p.get("name"): p.get("value") for p in c.iter("property")} for c in cases]
    assert [own["hil_match"] for own in properties] == ["true", "false"]
    assert ["hil_remarks" in own for own in properties] == [True, False]
    assert all(1 <= int(own["hil_samples"] or 0) <= 10 for own in properties)
    rows = [
        line.split(" | ") for line in summary.read_text().splitlines() if f"| {BOARD} |" in line
    ]
    assert [row[3] for row in rows] == ["match", "DIFFER"]


def test_bench_in_python() -> None:
    library = with_flipped_weight("cortex-m4")
    report = hil.bench(library, board=BOARD)
    assert not report.is_correct
    with pytest.raises(NumericError, match="digits on mps2-an386 differs from tflm"):
        report.check()
    assert "outputs DIFFER" in repr(report)
    assert hil.bench(library, board=BOARD, check=False).checked is None
    with hil.open(BOARD, library) as device:
        module = library.modules[0]
        assert not hil.bench(device, module).is_correct
        assert hil.bench(device, module, check=False).checked is None
        # A check of the caller's own.
        zeros = Oracle("zeros", "zeros", lambda i, s: {"Identity": np.zeros((1, 10), np.int8)})
        assert hil.bench(device, module, check=zeros).checked is not None


@pytest.mark.full
def test_a_library_without_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing can be compared: the remedies are the model's file, or no check."""
    library = hilc.compile(DIGITS, name="digits", cpu="cortex-m4", pools="external")
    files = {k: v for k, v in library.files.items() if not k.startswith("src/")}
    path = str(hilc.ModelLibrary(library.modules, files).save(tmp_path / "bare.tar"))
    words = ["bench", path, "--board", BOARD]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "--source MODEL.tflite" in said
    assert "--no-check" in said
    assert main([*words, "--source", str(DIGITS)]) == 0
    found = capsys.readouterr().out
    assert re.search(r"outputs: match over \d+ samples?, reference tflm", found)
    assert main([*words, "--no-check"]) == 0
    assert "outputs: not compared with a reference" in capsys.readouterr().out
    assert main([*words, "--no-check", "--source", str(DIGITS)]) == 2


@pytest.mark.full
def test_tune_records_no_wrong_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reference that says something else stands in for kernels that compute wrongly."""

    def reference_of(*args: Any, **options: Any) -> Oracle:
        return Oracle("other", "other", lambda i, s: {output: np.full(shape, 77, np.int8)})

    model, log = tmp_path / "net.tflite", tmp_path / "net.json"
    model.write_bytes(convolutions())
    (module,) = hilc.compile(convolutions(), name="net").modules
    output, shape = module.outputs[0].name, module.outputs[0].shape
    tune = ["tune", str(model), "--board", BOARD, "-o", str(log), "--programs", "0"]
    monkeypatch.setattr(tuning, "reference_of", reference_of)
    assert main(tune) == 1
    assert "net on mps2-an386 differs from other" in capsys.readouterr().err
    assert not log.exists()
    assert main([*tune, "--no-check", "--json"]) == 0
    assert answers.entry(capsys.readouterr().out)["checked"] is False


def test_mlperf_measures_no_wrong_firmware(
    archives: Archives, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--board", BOARD, "--benchmark", "ic01", "--windows", "1", "--iterations", "1"]
    out = tmp_path / "submission"
    assert main(["mlperf", archives.wrong, *words, "-o", str(out)]) == 1
    assert re.search(
        r"digits on \S+ differs from tflm for random 0, 0: result \d of 10 is",
        (capsys.readouterr().err),
    )
    assert not (out / "results").exists()
    assert main(["mlperf", archives.right, *words, "--json"]) == 0
    checked = answers.entry(capsys.readouterr().out)["checked"]
    assert (checked["match"], checked["reference"]) == (True, "tflm")
    assert main(["mlperf", archives.wrong, *words, "--no-check", "--json"]) == 0
    assert answers.entry(capsys.readouterr().out)["checked"] is None


def test_a_page_of_wrong_outputs(archives: Archives, capsys: pytest.CaptureFixture[str]) -> None:
    (wrong,) = results_in(bench(archives.wrong, capsys=capsys, code=1), "bench")
    assert wrong.status == "differ"
    (right,) = results_in(bench(archives.right, capsys=capsys), "bench")
    assert (right.status, right.is_independent) == ("match", True)
    (plain,) = results_in(bench(archives.right, "--no-check", capsys=capsys), "bench")
    assert plain.status == "measured"


def test_a_source_that_is_not_compared_with() -> None:
    with pytest.raises(InputError, match="source names a model, and check=False compares nothing"):
        hil.bench(str(DIGITS), board=BOARD, check=False, source=str(DIGITS))
