#!/usr/bin/env python3
"""Run random cases of every operator, type and family of kernels; write docs/reference/evidence.md.

``measure.py evidence`` runs it, about a quarter of an hour. Each cell takes 100 cases on this
machine, under the sanitizers, and as many on emulated boards in bulk; TFLite Micro computes the
same cases. Counts are kept in docs/reference/evidence.json, from which the page is made. With names
of operators, or of one and its type (ADD.int8), only these run, with ``--missing`` those that the
page does not have. An operator and type of which a case fails is left out of the page; then the
exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marked import replaced, table
from operator_evidence import ALL_KINDS, CASES, FAMILIES, PLACES, Kind, draw, in_tflm, on_place
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]

PAGE = ROOT / "docs" / "reference" / "evidence.md"
COUNTS = PAGE.with_suffix(".json")
#: Kinds in one program.
_TOGETHER = 120
#: By operator and type: by place and family, or under "tflm", what passed.
Counts = dict[str, dict[str, dict[str, dict[str, int]]]]


def known() -> Counts:
    """Return the counts of earlier runs."""
    counts: Counts = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else {}
    return counts


def measured(kinds: Sequence[Kind], count: int) -> tuple[Counts, dict[Kind, str]]:
    """Run cases of these kinds; return what passed, and what is said of the kinds that failed."""
    counts: Counts = {}
    failures: dict[Kind, str] = {}
    for kind in tqdm(kinds, desc="tflm", disable=None):
        cell = in_tflm(kind, count)
        if cell.failed:
            failures[kind] = f"{kind} in TFLite Micro: {cell.first}"
        found = {"passed": cell.passed, "refused": cell.refused}
        counts.setdefault(kind[0], {})[kind[1]] = {"tflm": found}
    for place in PLACES:
        for start in tqdm(range(0, len(kinds), _TOGETHER), desc=place, disable=None):
            drawn = [draw(kind, place, count) for kind in kinds[start : start + _TOGETHER]]
            for kind, cells in on_place(drawn, place).items():
                own = counts[kind[0]][kind[1]][place] = {}
                for family, cell in cells.items():
                    own[family] = cell.passed
                    if cell.failed:
                        failures[kind] = f"{kind}, {family} on {place}: {cell.first}"
    return counts, failures


def page(counts: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]]) -> str:
    """Return the generated part of the page."""
    rows = []
    total = 0
    for operator, types in sorted(counts.items()):
        for dtype, cell in sorted(types.items()):
            in_micro = cell["tflm"]["passed"]
            cells = [f"{in_micro}" if in_micro else "-"]
            for family in FAMILIES:
                found = [cell[place].get(family, 0) for place in PLACES]
                total += sum(found)
                cells.append(" / ".join(str(n or "-") for n in found) if any(found) else "")
            rows.append([f"`{operator}`", dtype, *cells])
    compared = sum(cell["tflm"]["passed"] for types in counts.values() for cell in types.values())
    said = (
        f"{len(counts)} operators, {len(rows)} of them with a type: {compared:,} cases compared "
        f"with TensorFlow Lite Micro, {total:,} calls of kernels. All of them passed."
    )
    return f"{said}\n\n{table(['operator', 'type', 'TFLM', *FAMILIES], rows)}"


def main() -> int:
    """Run, and write counts and page; 1 where a case fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", metavar="OPERATOR[.TYPE]")
    parser.add_argument("--missing", action="store_true", help="only what the page does not have")
    parser.add_argument(
        "--cases", type=int, help=f"of each cell (default: {CASES}); writes nothing"
    )
    args = parser.parse_args()
    names = {name for operator, dtype in ALL_KINDS for name in (operator, f"{operator}.{dtype}")}
    if unknown := set(args.operators) - names:
        parser.error(f"unknown operator {min(unknown)!r}")
    before: Counts = known()
    chosen = set(args.operators) or names
    kinds = [kind for kind in ALL_KINDS if chosen & {kind[0], ".".join(kind)}]
    if args.missing:
        kinds = [(op, dtype) for op, dtype in kinds if dtype not in before.get(op, {})]
    counts, failures = measured(kinds, args.cases or CASES)
    print(*failures.values(), sep="\n", file=sys.stderr)
    merged: dict[str, Any] = {}
    for operator, dtype in ALL_KINDS:
        found = counts.get(operator, {}).get(dtype) or before.get(operator, {}).get(dtype)
        if found and (operator, dtype) not in failures:
            merged.setdefault(operator, {})[dtype] = found
    text = page(merged)
    print(text.partition("\n")[0])
    if args.cases is None:
        # Families come as their kernels are drawn.
        text_of_counts = json.dumps(merged, indent=1, sort_keys=True)
        COUNTS.write_text(text_of_counts + "\n", encoding="utf-8")
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "evidence", text), "utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
