"""Runs the matrix of models and boards, and leaves what CI keeps.

    python ci/nightly/run.py [--board B]... [--workers N] [--output DIR] MODEL...

``MODEL`` is a file, or a folder of them; ``--board`` a name, ``lab:PLACE`` or tags of a lab, and
may be repeated (default: all boards that are emulated here). In the output folder: ``junit.xml``,
``log.txt``, a JSON file for each model and board, and ``summary.md``. What fails since a shared
board or its link failed runs again on another one; what a board computed is never asked twice.
Exit code: pytest's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from hil.board import board_names, load_board
from hil.cli.doctor import missing_for_runner

_HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run the matrix; return pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--board", action="append", default=[], metavar="B")
    parser.add_argument("--workers", default="auto", metavar="N", help="of pytest -n")
    parser.add_argument("--samples", type=int, default=10, metavar="N", help="a model and board")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="where a board fails")
    parser.add_argument("--output", default="nightly", metavar="DIR")
    args = parser.parse_args()
    models = _models(args.models)
    boards = args.board or _emulated()
    output = Path(args.output).resolve()
    output.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", str(_HERE / "test_matrix.py"), "-ra", "-v"]
    command += ["-n", args.workers, "-p", "no:cacheprovider", f"--hil-retries={args.retries}"]
    command += [f"--hil-board={board}" for board in boards]
    command += [f"--junit-xml={output / 'junit.xml'}", "-o", "junit_family=xunit2"]
    environment = {
        **os.environ,
        "HIL_NIGHTLY_MODELS": os.pathsep.join(str(model) for model in models),
        "HIL_NIGHTLY_SAMPLES": str(args.samples),
        "HIL_NIGHTLY_OUTPUT": str(output),
    }
    print(f"{len(models)} models, boards: {', '.join(boards)}", flush=True)
    with (output / "log.txt").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                log.write(line)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    code = process.wait()
    (output / "summary.md").write_text(_summary(output), encoding="utf-8")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as file:
            file.write(_summary(output))
    return code


def _models(words: Sequence[str]) -> list[Path]:
    models: list[Path] = []
    for word in words:
        path = Path(word).resolve()
        found = sorted(path.rglob("*.tflite")) if path.is_dir() else [path]
        if not found or not found[0].exists():
            sys.exit(f"error: there is no model {word}")
        models += found
    return models


def _emulated() -> list[str]:
    """Return the boards that this machine can emulate."""
    boards = [load_board(name) for name in board_names()]
    return [
        board.name
        for board in boards
        if board.qemu is not None and missing_for_runner(board, "qemu") is None
    ]


def _summary(output: Path) -> str:
    """Return a table for people: each model and board, what it cost, what failed."""
    lines = ["| test | result | per inference |", "|---|---|---:|"]
    report = output / "junit.xml"
    if not report.is_file():
        return "pytest wrote no report; see log.txt\n"
    failures = []
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = next(
            (word for word in ("failure", "error", "skipped") if case.find(word) is not None),
            "exact",
        )
        properties = {str(p.get("name")): str(p.get("value")) for p in case.iter("property")}
        count = properties.get("per_inference", "")
        board = properties.get("hil_board", "")
        name = f"{case.get('name')}{board and f' on {board}'}"
        lines.append(
            f"| {name} | {outcome} | {int(count):,} |" if count else f"| {name} | {outcome} | |"
        )
        failures += [
            f"- {case.get('name')}: {p.get('value')}"
            for p in case.iter("property")
            if p.get("name") == "hil_infrastructure"
        ]
    if failures:
        lines += ["", f"{len(failures)} infrastructure failures:", "", *failures]
    found = len([path for path in output.glob("*.json") if json.loads(path.read_text("utf-8"))])
    return "\n".join([*lines, "", f"{found} reports in JSON", ""])


if __name__ == "__main__":
    sys.exit(main())
