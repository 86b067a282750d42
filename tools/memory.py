#!/usr/bin/env python3
"""Measures a model under ten limits of memory; writes docs/explanation/memory.md's table, pictures.

Each limit is compiled, run on an emulated Cortex-M4 and compared with the reference at every layer.
Exit code 1 where a limit is broken, an answer differs, or less memory did not cost instructions.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from figures import figures_table
from marked import replaced
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter
from steps import ROOT, compiled, models

import hil
import hilc
from hil import verify
from hil.bench import bench
from hil.oracle import reference_of
from hil.page.plan_picture import STYLE, plan_figure, save
from hil.samples import RandomSamples
from hilc.memory.explanation import Explanation

MODEL, BOARD, CPU = "kws", "mps2-an386", "cortex-m4"
LIMITS = 10
PAGE = ROOT / "docs" / "explanation" / "memory.md"
PICTURES = ROOT / "docs" / "images"


@dataclass(frozen=True)
class Point:
    """What came of one limit."""

    limit_bytes: int
    workspace_bytes: int
    instructions: int
    flash_bytes: int
    #: Layers that run in groups.
    grouped: int


def measured(limit: int) -> Point:
    library = compiled(MODEL, CPU, ram=limit)
    (module,) = library.modules
    with hil.open(BOARD, library) as device:
        report = bench(device, module, runs=1)
        samples = RandomSamples(module.inputs, seed=limit, count=3)
        oracle = reference_of(library, module)
        verdict = verify(device[module.name], samples, oracle, board=BOARD, per_layer=True)
    if not verdict.match or module.workspace_bytes > limit:
        raise SystemExit(f"{limit}: {module.workspace_bytes} bytes, match {verdict.match}")
    groups = library.reports[module.name].groups
    grouped = sum(len(group.nodes) for group in groups)
    return Point(
        limit, module.workspace_bytes, report.per_inference, report.model_flash_bytes, grouped
    )


def explained(**options: Any) -> Explanation:
    path = models.model_path(MODEL)
    return hilc.explain(path, cpu=CPU, name=MODEL, pools="external", io_in_pool=True, **options)


def limits(smallest: int, largest: int) -> list[int]:
    """Evenly spread, both ends included, in the steps of the planner."""
    step = (largest - smallest) / (LIMITS - 1)
    return [(largest - round(i * step)) // 16 * 16 for i in range(LIMITS - 1)] + [smallest]


def frontier_figure(points: Sequence[Point]) -> Figure:
    """Instructions over bytes of workspace, a dot for each program."""
    by_size = sorted({(p.workspace_bytes, p.instructions) for p in points})
    sizes, counts = (list(values) for values in zip(*by_size, strict=True))
    with rc_context(STYLE):
        figure = Figure(figsize=(7.5, 4.2))
        axes = figure.subplots()
        # Between two programs there is none: a limit gets the one that is smaller.
        axes.step(sizes, [n / 1e6 for n in counts], where="post", color="#5b8db8", linewidth=1.5)
        axes.plot(sizes, [n / 1e6 for n in counts], "o", color="#d98e4a", markersize=6)
        for size, count in by_size:
            axes.annotate(
                f"{size:,} B",
                (size, count / 1e6),
                xytext=(6, 6),
                textcoords="offset points",
                fontsize=8,
            )
        axes.margins(x=0.08, y=0.12)
        axes.set_title(f"{MODEL} on {BOARD}: what less memory costs", loc="left", fontsize=12)
        axes.set_xlabel("workspace, bytes")
        axes.set_ylabel("instructions of one inference, millions")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.grid(color="#e2e2e2", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
    return figure


def section(points: Sequence[Point], smallest: Explanation) -> str:
    rows = [
        [f"{n:,}" for n in (p.limit_bytes, p.workspace_bytes, p.instructions, p.flash_bytes)]
        + [str(p.grouped)]
        for p in points
    ]
    header = ["`--ram`", "workspace", "instructions", "flash", "layers in groups"]
    return "\n\n".join(
        (
            f"{MODEL} on `{BOARD}` (instructions under QEMU, not cycles), every answer and layer "
            "compared with the reference. The workspace holds the inputs and outputs, as in "
            "firmware of this project; `hil compile`, which leaves them to the caller, needs less:",
            figures_table(header, rows),
            f"![instructions over bytes of workspace](../images/{MODEL}_frontier.svg)",
            f"The smallest of them, {smallest.workspace_bytes:,} bytes, as `hil explain` draws it:",
            f"![what lies where, layer by layer](../images/{MODEL}_plan.svg)",
        )
    )


def main() -> int:
    fastest = smallest = explained(optimize="speed")
    while smallest.saving is not None:
        smallest = explained(ram=smallest.workspace_bytes - smallest.saving.bytes)
    points = [
        measured(limit) for limit in limits(smallest.workspace_bytes, fastest.workspace_bytes)
    ]
    PICTURES.mkdir(exist_ok=True)
    save(frontier_figure(points), PICTURES / f"{MODEL}_frontier.svg")
    save(plan_figure(smallest), PICTURES / f"{MODEL}_plan.svg")
    new = section(points, smallest)
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "limits", new), encoding="utf-8")
    print(new)
    return 0 if [p.instructions for p in points] == sorted(p.instructions for p in points) else 1


if __name__ == "__main__":
    sys.exit(main())
