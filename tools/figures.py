#!/usr/bin/env python3
"""Writes what ``prove`` and ``bench`` found into docs/reference/figures.md and README.md.

README.md has one table of it. Nothing between the marks is written by hand; what others need is in
``tools/baselines.toml``, with its source. Where only one of the two has run, the parts of the other
stay as they are, and with ``--part`` all but the parts named.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marked import replaced, table

from hil.board import Board, load_board
from hilc.support.toml import tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE, README = ROOT / "docs" / "reference" / "figures.md", ROOT / "README.md"
#: The marks of what ``measure.py prove`` found, of what ``measure.py bench`` did, in both, and of
#: its ratios to the limits of cores.
PARTS = EQUALITY, MARK, LIMITS = "equality", "figures", "limits"
#: The goals whose ratios to the limit are shown, and of which the farthest layer is named.
LIMITED, FASTEST = ("balanced", "speed"), "speed"
#: The board whose memory figures are shown beside those of others.
MEMORY_BOARD = "mps2-an386"

#: What the second name of a model means.
FOLDED = (
    "`vww_folded` is what you get: many channels of `vww` are the same for every input, which "
    "the compiler proves, and leaves them out. `vww` is compiled with "
    "`--no-fold-constant-channels` and computes them all, as others do. The other models have no "
    "such channels."
)

#: Boards of these programs' own, beside those that ship.
OWN_BOARDS = ROOT / "tools" / "boards"

#: One of them, and what it is.
LARGE_M0 = "large-m0"
ABOUT_LARGE_M0 = (
    f"`{LARGE_M0}` is code for a Cortex-M0 on an emulated board with a Cortex-M3, as QEMU has no "
    "Cortex-M0 with more than 16 KB of RAM."
)

Result = Mapping[str, Any]
#: The report of a model for a goal on a board; None where it has no room.
Reports = Mapping[tuple[str, str, str], Result | None]


def board_named(name: str) -> Board:
    """Return a board that ships, or one of these programs' own."""
    own = OWN_BOARDS / f"{name}.toml"
    return load_board(own if own.is_file() else name)


def baselines() -> Mapping[str, Any]:
    """Return the published results of other tools for the same models."""
    return tomllib.loads((ROOT / "tools" / "baselines.toml").read_text(encoding="utf-8"))


def proof_section(proofs: Mapping[str, Result]) -> str:
    """Return the text about equality, from the results of ``tests/campaigns/prove.py`` by step."""
    return "\n\n".join(
        (
            "**Equality with the reference**, at the outputs and at every layer; layers that run "
            "together row by row count as one:",
            figures_table(
                ["model", "boards", "inputs on each", "layers", "largest difference"],
                _equality(proofs),
            ),
        )
    )


def bench_section(steps: Mapping[str, Result], others: Mapping[str, Any]) -> str:
    """Return the costs of the models, from the results of ``tools/bench.py`` by step, beside
    ``others``.
    """
    reports = _reports(steps)
    models = list(dict.fromkeys(model for model, _, _ in reports))
    keys = ("model_flash_bytes", "workspace_bytes", "io_bytes", "stack_peak_bytes")
    memory = [
        [model, *(_number(report[key]) for key in keys)]
        for (model, goal, board), report in reports.items()
        if (goal, board) == ("balanced", MEMORY_BOARD) and report
    ]
    tables = [
        "**Instructions of one inference** (int8; QEMU counts instructions, not cycles):",
        figures_table(["core", "", *models], _instructions(reports, models, others)),
    ]
    if any(model.endswith("_folded") for model in models):
        tables.insert(1, FOLDED)
    if any(board == LARGE_M0 for _, _, board in reports):
        tables.insert(1, ABOUT_LARGE_M0)
    if memory:
        tables += [
            f"**Bytes** on `{MEMORY_BOARD}`; flash is code, constants and glue, the workspace "
            "holds the inputs and outputs too:",
            figures_table(
                ["model", "flash", "workspace", "inputs and outputs", "peak of the stack"], memory
            ),
            "**Workspace in bytes**, by goal; others need memory for inputs and outputs beside it:",
            figures_table(["core", "", *models], _bytes(reports, models, others, "workspace")),
            "**Flash in bytes besides the weights and biases**, by goal; of others what is not "
            "the model's file:",
            figures_table(["core", "", *models], _bytes(reports, models, others, "flash")),
        ]
    sources = [f"{who['who']}: {who['source']}" for who in others["instructions"]]
    sources += [f"bytes of {who['who']}: {who['source']}" for who in others["bytes"]]
    return "\n\n".join((*tables, f"({'; '.join(sources)}.)"))


def limits_section(steps: Mapping[str, Result]) -> str:
    """Return the ratios of the models' instructions to the limits of cores, from the results of
    ``tools/bench.py`` by step.
    """
    reports = _reports(steps)
    models = list(dict.fromkeys(model for model, _, _ in reports))
    return "\n\n".join(
        (
            "**Instructions over the limit of the core** ([what that is]"
            "(../how-to/measure.md#what-the-limit-is)), and the layer with the most instructions "
            "above its own:",
            figures_table(["core", "", *models], _limits(reports, models)),
        )
    )


def _reports(steps: Mapping[str, Result]) -> Reports:
    return {
        (model, goal, board): result["report"]
        for goal in dict.fromkeys(name.partition(":")[0] for name in steps)
        for (model, board), result in _group(steps, goal).items()
        if result["ok"]
    }


def summary(steps: Mapping[str, Result], others: Mapping[str, Any]) -> str:
    """Return the cost of each model on one board by default, beside the first of ``others``."""
    reports = {
        model: result["report"]
        for (model, board), result in _group(steps, "balanced").items()
        if board == MEMORY_BOARD and result["ok"] and result["report"]
    }
    counts, sizes = others["instructions"][0], others["bytes"][0]
    theirs = (counts["boards"].get(MEMORY_BOARD, {}), sizes["workspace"], sizes["flash"])
    keys = ("per_inference", "workspace_bytes", "flash_beyond_weights_bytes")
    rows = []
    for model, report in reports.items():
        cells = [f"`{model}`"]
        for key, their in zip(keys, theirs, strict=True):
            cells += [_number(report.get(key)), _number(their.get(model))]
        rows.append(cells)
    who = counts["who"]
    header = ["model", "instructions", who, "workspace", who, "flash besides weights", who]
    return figures_table(header, rows)


def figures_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table(header, rows, align="---:")


def _instructions(
    reports: Reports, models: Sequence[str], others: Mapping[str, Any]
) -> list[list[str]]:
    """For each core our goals, then what others need."""
    rows = []
    for board in _distinct(reports, 2):
        mine = [
            [goal, *(_cell(reports, model, goal, board, "per_inference") for model in models)]
            for goal in _distinct(reports, 1)
            if any((model, goal, board) in reports for model in models)
        ]
        theirs = [
            [who["who"], *(_number(who["boards"][board].get(model)) for model in models)]
            for who in others["instructions"]
            if board in who["boards"]
        ]
        rows += _under(board, mine + theirs)
    return rows


def _limits(reports: Reports, models: Sequence[str]) -> list[list[str]]:
    """For each core the limits, the ratios to them, and the layer that is farthest."""
    rows = []
    for board in _distinct(reports, 2):
        lines: list[list[str]] = []
        for goal in LIMITED:
            found = [reports.get((model, goal, board)) for model in models]
            # Where it has no room on every board nothing is known of a goal.
            if not any(report and "limit" in report for report in found):
                continue
            if goal == FASTEST:
                shown = [_limit(report, "instructions", ",") for report in found]
                lines.insert(0, ["limit, instructions", *shown])
            lines.append([goal, *(_limit(report, "ratio", ".2f") for report in found)])
            if goal == FASTEST:
                lines.append([f"{goal}, farthest layer", *map(_farthest, found)])
        rows += _under(board, lines)
    return rows


def _limit(report: Result | None, key: str, style: str) -> str:
    value = report["limit"][key] if report and "limit" in report else None
    return "-" if value is None else format(value, style)


def _farthest(report: Result | None) -> str:
    if not report or "limit" not in report:
        return "-"
    layers = zip(report["layers"], report["limit"]["layers"], strict=True)
    above = [
        (layer["count"] - its["instructions"], its["ratio"], layer["op"])
        for layer, its in layers
        if its["ratio"] is not None
    ]
    return "{2} {1:.2f}".format(*max(above)) if above else "-"


def _bytes(
    reports: Reports, models: Sequence[str], others: Mapping[str, Any], kind: str
) -> list[list[str]]:
    """``workspace`` or ``flash`` for the goals that memory was measured for."""
    key = {"workspace": "workspace_bytes", "flash": "flash_beyond_weights_bytes"}[kind]
    rows = []
    for board in _distinct(reports, 2):
        goals = [
            goal
            for goal in _distinct(reports, 1)
            if any((model, goal, board) in reports for model in models)
        ]
        # Elsewhere it is the same program, or much the same.
        if not {"size", "ram"} & set(goals):
            continue
        lines = [
            [goal, *(_cell(reports, model, goal, board, key) for model in models)] for goal in goals
        ]
        if board == MEMORY_BOARD:
            lines += [
                [who["who"], *(_number(who[kind].get(model)) for model in models)]
                for who in others["bytes"]
            ]
        rows += _under(board, lines)
    return rows


def _distinct(reports: Reports, position: int) -> list[str]:
    """Return the models, goals or boards, in the order in which they came."""
    return list(dict.fromkeys(where[position] for where in reports))


def _under(board: str, lines: Sequence[list[str]]) -> list[list[str]]:
    """``lines`` with the core in the first."""
    core = f"{board_named(board).cpu.name} (`{board}`)"
    return [[core if index == 0 else "", *line] for index, line in enumerate(lines)]


def _cell(reports: Reports, model: str, goal: str, board: str, key: str) -> str:
    if (model, goal, board) not in reports:
        return "-"
    report = reports[model, goal, board]
    return "no room" if report is None else _number(report[key])


def _equality(steps: Mapping[str, Result]) -> list[list[str]]:
    """One row a model: where it ran, and how far any value of any layer was off."""
    runs: dict[str, dict[str, Result]] = {}
    for group in ("int8", "float", "small"):
        for (model, board), result in _group(steps, group).items():
            # A model that does not fit a small board is refused: nothing ran.
            if "report" in result:
                runs.setdefault(model, {})[board] = result["report"]
    rows = []
    for model, reports in runs.items():
        tensors = [
            tensor
            for report in reports.values()
            for holder in (report, *report["layers"])
            for tensor in holder["outputs"]
        ]
        # JSON has no NaN: the difference of a value that is no number is null.
        differences = [tensor["max_abs_diff"] for tensor in tensors]
        largest = "not a number" if None in differences else f"{max(differences):.3g}"
        samples = sorted({report["samples"] for report in reports.values()})
        layers = len(next(iter(reports.values()))["layers"])
        rows.append([model, ", ".join(reports), "/".join(map(str, samples)), str(layers), largest])
    return rows


def _group(steps: Mapping[str, Result], group: str) -> dict[tuple[str, str], Result]:
    """Return the results of the steps ``GROUP: MODEL on BOARD``, by model and board."""
    found = {}
    for name, result in steps.items():
        prefix, _, rest = name.partition(": ")
        model, separator, board = rest.partition(" on ")
        if prefix == group and separator:
            found[model, board] = result
    return found


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def main() -> int:
    """Rewrite what has results in both documents; 1 when a step has failed, which is nothing to
    publish, or nothing has any.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("prove", "bench"):
        parser.add_argument(f"--{name}", type=Path, default=ROOT / "build" / f"{name}.json")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part")
    args = parser.parse_args()
    results = {}
    for name, path in (("prove", args.prove), ("bench", args.bench)):
        if path.is_file():
            results[name] = json.loads(path.read_text())["steps"]
        else:
            print(f"there is no {path}: what `make {name}` finds stays as it is", file=sys.stderr)
    if not results:
        print("error: nothing to write\n\nhint: run `measure.py prove`", file=sys.stderr)
        return 1
    failed = [name for s in results.values() for name, result in s.items() if not result["ok"]]
    if failed:
        print(f"error: these steps failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    written = []
    if "prove" in results:
        written.append((PAGE, EQUALITY, proof_section(results["prove"])))
    if "bench" in results:
        written.append((PAGE, MARK, bench_section(results["bench"], baselines())))
        written.append((README, MARK, summary(results["bench"], baselines())))
        written.append((PAGE, LIMITS, limits_section(results["bench"])))
    for path, mark, text in written:
        if mark in (args.part or PARTS):
            path.write_text(replaced(path.read_text("utf-8"), mark, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
