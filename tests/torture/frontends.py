"""Hostile files of models, for the front ends and the reader of archives."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from torture.campaign import Budget, Figures, Finding

TITLE = "Files of models"
ABOUT = """TFLite, ONNX and PyTorch (`.pt2`) models and archives in Model Library Format, ours
and TVM's: good ones of every operator, changed by their structure. Places of the FlatBuffer, fields
of the protocol buffer, members and JSON of archives take values at corners; names leave the folder,
tensors become pickles that would create a file. With Atheris, coverage of the compiler guides what
is changed further. Each file is read, and as many of the accepted ones as half of the time allows
are compiled; what an archive holds is written as a library and as a firmware project. A finding is
an exception that is not the project's, an error that no check foresaw, more than 5 s of processor
time or 1 GiB of memory for one file, a process that ends, and, by Python's audit hooks, a file read
or written outside of the folder, a program, a connection, an unpickled object, executed code."""

_WORKER = Path(__file__).resolve().parents[1] / "hostile_worker.py"
#: Files of each format in a run of hours, which is a million in all, and of minutes.
_LONG = {"tflite": 400_000, "onnx": 250_000, "pt2": 200_000, "mlf": 150_000}
_SHORT = 1_500
#: For a worker, in runs of minutes; in runs of hours there is no limit but the count.
_SHORT_S = 40


def run(budget: Budget) -> Figures:
    """Give the formats to workers, one after the other."""
    guided = importlib.util.find_spec("atheris") is not None
    rows, findings, executions = [], [], 0
    for name, long_runs in _LONG.items():
        runs = budget.count(_SHORT, long_runs)
        figures, crash = work(name, budget, runs, guided)
        counts = [f"{figures[count]:,}" for count in ("executions", "accepted", "used")]
        rate = figures["executions"] / max(figures["seconds"], 1)
        rows.append([name, *counts, f"{rate:,.0f}", f"{figures['peak_mb']} MB"])
        executions += figures["executions"]
        folder = budget.folder / name
        for what, breach in figures["breaches"].items():
            how = f"{folder / 'breaches' / str(breach['file'])}, {breach['count']} times"
            findings.append(Finding(f"{name}, {what}", how))
        findings += [Finding(f"{name} ends the process", crash)] if crash else []
    by = "guided by Atheris" if guided else "unguided: Atheris is not installed (the extra torture)"
    heads = ["format", "files", "accepted", "compiled", "files a second", "most memory"]
    return Figures(heads, rows, findings, [f"{executions:,} files in all, {by}."])


def work(name: str, budget: Budget, runs: int, guided: bool) -> tuple[dict[str, Any], str]:
    """Run one worker; its figures, and what ended it if that was not its count."""
    folder = budget.folder / name
    command = [sys.executable, str(_WORKER), name, "--runs", str(runs), "--folder", str(folder),
               "--seed", str(budget.seed)]  # fmt: skip
    command += ["--atheris"] * guided + ([] if budget.is_long else ["--seconds", str(_SHORT_S)])
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    file = folder / "figures.json"
    if not file.is_file():
        raise RuntimeError(f"the worker for {name} did not begin: {done.stderr[-2000:]}")
    figures = json.loads(file.read_text())
    return figures, "" if done.returncode == 0 else f"{folder}: {done.stderr[-300:].strip()!r}"
