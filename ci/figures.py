#!/usr/bin/env python3
"""Writes the figures of ``make prove`` into README.md, between its two marks.

``make figures`` runs it. Nothing in the section is written by hand.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
#: The board whose memory figures are shown; the others differ by little.
MEMORY_BOARD = "mps2-an386"

Result = Mapping[str, Any]


def section(steps: Mapping[str, Result]) -> str:
    """The section's text; ``steps`` are the results of ``ci/prove.py`` by name."""
    counted = {
        pair: result["reports"][0]
        for pair, result in _group(steps, "counts").items()
        if result["ok"]
    }
    models = list(dict.fromkeys(model for model, _ in counted))
    boards = list(dict.fromkeys(board for _, board in counted))
    instructions = [
        [
            model,
            *(_number(counted.get((model, board), {}).get("per_inference")) for board in boards),
        ]
        for model in models
    ]
    keys = ("model_flash_bytes", "workspace_bytes", "io_bytes", "stack_peak_bytes")
    memory = [
        [model, *(_number(counted[model, MEMORY_BOARD][key]) for key in keys)]
        for model in models
        if (model, MEMORY_BOARD) in counted
    ]
    return "\n\n".join(
        (
            "**Equality with the reference**, at the outputs and at every layer:",
            _table(
                ["model", "boards", "inputs on each", "layers", "largest difference"],
                _equality(steps),
            ),
            "**Instructions of one inference** (int8; QEMU counts instructions, not cycles):",
            _table(["model", *boards], instructions),
            f"**Bytes** on `{MEMORY_BOARD}`; flash is code, constants and glue, the workspace "
            "holds the inputs and outputs too:",
            _table(
                ["model", "flash", "workspace", "inputs and outputs", "peak of the stack"], memory
            ),
        )
    )


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
    """The results of the steps ``GROUP: MODEL on BOARD``, by model and board."""
    found = {}
    for name, result in steps.items():
        prefix, _, rest = name.partition(": ")
        model, separator, board = rest.partition(" on ")
        if prefix == group and separator:
            found[model, board] = result
    return found


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replaced(text: str, new: str) -> str:
    """``text`` with what stands between the marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the text lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def main() -> int:
    """Rewrites README.md; 1 when a proof has failed, which is nothing to publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "build" / "prove.json")
    args = parser.parse_args()
    if not args.results.is_file():
        print(f"error: there is no {args.results}\n\nhint: `make prove` writes it", file=sys.stderr)
        return 1
    steps = json.loads(args.results.read_text())["steps"]
    failed = [name for name, result in steps.items() if not result["ok"]]
    if failed:
        print(f"error: these proofs failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    readme = ROOT / "README.md"
    readme.write_text(replaced(readme.read_text(), section(steps)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
