"""Hostile files of models, for the front ends and the reader of archives."""

from __future__ import annotations

import importlib.util
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from torture.campaign import Budget, Counts, Figures, Finding

TITLE = "Files of models"
ABOUT = """Models in TFLite, ONNX and PyTorch (`.pt2`) format, and archives in Model Library Format,
this project's and TVM's. Valid files of every operator are mutated by structure: offsets of the
FlatBuffer, fields of the protocol buffer, members and JSON of archives get extreme values; names
point outside of the folder; tensors become pickles that would create a file. For a part of the
files, Atheris guides the mutations by the compiler's coverage. Each file is read. A sample of the
accepted files is compiled, for up to a third of the time; the content of an archive is written as a
library and as a firmware project. Findings: an exception of another type than the project's, an
error that no check anticipates, more than 5 s of processor time or 1 GiB of memory for one file, a
process that ends, and, by Python's audit hooks, a file read or written outside of the folder, a
started program, a connection, an unpickled object, and executed code."""

#: Processor time that a file may take.
_FILE_S = 5.0
_WORKER = Path(__file__).resolve().parents[2] / "support" / "harness" / "hostile_worker.py"
#: Files of each format in a run of hours, which is a million in all, and of minutes.
_LONG = {"tflite": 400_000, "onnx": 250_000, "pt2": 200_000, "mlf": 150_000}
_SHORT = 1_500
#: Files of a format before it is another's turn: where a run is stopped, all have had some.
_TURN = 10_000
#: In a long run, one turn of so many is guided: it finds what lies deeper, and takes the time of
#: many others, since most of what it makes is accepted. It is shorter, too.
_GUIDED_EVERY = 8
_GUIDED_TURN = 5_000
#: Between the seeds of two turns.
_SEEDS = 1_000_003
#: For a worker, in runs of minutes; in runs of hours there is no limit but the count.
_SHORT_S = 40


def run(budget: Budget) -> Counts:
    """Give the formats to workers, one after the other."""
    guided = importlib.util.find_spec("atheris") is not None
    return in_turns(
        budget, {name: budget.count(_SHORT, runs) for name, runs in _LONG.items()}, guided
    )


def in_turns(budget: Budget, files: Mapping[str, int], guided: bool) -> Counts:
    """Give so many files of each format to workers, some of each in turn."""
    left, counts = dict(files), Counts([])
    for turn in itertools.count():
        for name in [name for name, count in left.items() if count > 0]:
            is_guided = guided and (not budget.is_long or turn % _GUIDED_EVERY == _GUIDED_EVERY - 1)
            runs = min(_GUIDED_TURN if is_guided else _TURN, left[name])
            with budget.until_stopped():
                counts += _work(name, budget, runs, is_guided, budget.seed + turn * _SEEDS)
            left[name] -= runs
            if budget.is_stopped:
                return counts
        if not any(count > 0 for count in left.values()):
            break
    for name in files:
        if not any((budget.folder / name / "breaches").glob("*")):
            shutil.rmtree(budget.folder / name)
    return counts


def figures(counts: Counts) -> Figures:
    """Return what became of the files of each format."""
    rows = [
        [
            row["format"],
            *(f"{row[count]:,}" for count in ("files", "accepted", "used")),
            f"{row['files'] / max(row['seconds'], 1):,.0f}",
            f"{row['most_mb']} MB",
        ]
        for row in counts.rows
    ]
    files, guided = (sum(row[count] for row in counts.rows) for count in ("files", "guided"))
    heads = ["format", "files", "accepted", "compiled", "files a second", "most memory"]
    how = f"{guided:,} of them guided by Atheris" if guided < files else "guided by Atheris"
    return Figures(heads, rows, counts.findings, [f"{files:,} files in all, {how}."])


def _work(name: str, budget: Budget, runs: int, guided: bool, seed: int) -> Counts:
    """Run one worker, and return what it counted; what it found stays for the next one."""
    folder = budget.folder / name
    file = folder / "figures.json"
    file.unlink(missing_ok=True)
    command = [sys.executable, str(_WORKER), name, "--runs", str(runs), "--folder", str(folder),
               "--seed", str(seed), "--file-seconds", str(_FILE_S)]  # fmt: skip
    command += ["--atheris"] * guided + ([] if budget.is_long else ["--seconds", str(_SHORT_S)])
    with tempfile.TemporaryFile("w+", errors="replace") as told:
        child = subprocess.Popen(command, stdout=told, stderr=told)
        with budget.until_stopped():
            child.wait()
        if budget.is_stopped:
            child.terminate()
        code = child.wait()
        told.seek(0)
        output = told.read()
    if not file.is_file():
        if budget.is_stopped:
            return Counts([])
        raise RuntimeError(f"the worker for {name} did not begin: {output[-2000:]}")
    seen = json.loads(file.read_text())
    findings = [
        Finding(
            f"{name}, {what}",
            f"{folder / 'breaches' / str(breach['file'])}, {breach['count']} times",
        )
        for what, breach in seen["breaches"].items()
    ]
    if code and not budget.is_stopped:
        findings.append(Finding(f"{name} ends the process", f"{folder}: {output[-300:].strip()!r}"))
    row = {
        "format": name,
        "files": seen["executions"],
        "accepted": seen["accepted"],
        "used": seen["used"],
        "guided": seen["executions"] * guided,
        "seconds": seen["seconds"],
        "most_mb": seen["peak_mb"],
    }
    return Counts([row], findings)
