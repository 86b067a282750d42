#!/usr/bin/env python3
"""Measures a model under ten limits of memory, and writes table and pictures for MEMORY.md.

Each limit is compiled, run on an emulated Cortex-M4 and compared with the reference at every layer.
Exit code 1 where a limit is broken, an answer differs, or less memory did not cost instructions.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from figures import table
from steps import ROOT, compiled, models

import hil
import hilc
from hil.bench import bench
from hil.oracle import reference_of
from hil.picture import plan_svg
from hil.samples import RandomSamples
from hil.verify import verify
from hilc.explain import Explanation

MODEL, BOARD, CPU = "kws", "mps2-an386", "cortex-m4"
LIMITS = 10
PAGE, PICTURES = ROOT / "MEMORY.md", ROOT / "examples" / "memory"
BEGIN, END = "<!-- trade:begin -->", "<!-- trade:end -->"


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


def trade_svg(points: Sequence[Point]) -> str:
    """Instructions over bytes of workspace, a dot for each program."""
    width, height, left, bottom = 640, 360, 90, 50
    most_bytes = max(p.workspace_bytes for p in points) * 1.05
    least, most = (f(p.instructions for p in points) for f in (min, max))
    floor, span = least * 0.98, max(most * 1.02 - least * 0.98, 1)

    def place(point: Point) -> tuple[float, float]:
        x = left + point.workspace_bytes / most_bytes * (width - left - 20)
        return x, height - bottom - (point.instructions - floor) / span * (height - bottom - 40)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="20" font-size="14">{MODEL} on {BOARD}</text>',
        f'<path d="M{left} 30V{height - bottom}H{width - 10}" fill="none" stroke="#333"/>',
        f'<text x="{width / 2:.0f}" y="{height - 12}">bytes of workspace</text>',
    ]
    for share in range(5):
        value = floor + span * share / 4
        y = height - bottom - share / 4 * (height - bottom - 40)
        lines.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{value:,.0f}</text>')
        x = left + share / 4 * (width - left - 20)
        text = f"{most_bytes * share / 4:,.0f}"
        lines.append(f'<text x="{x:.0f}" y="{height - 32}" text-anchor="middle">{text}</text>')
    dots = [place(point) for point in sorted(points, key=lambda p: p.workspace_bytes)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
    lines.append(f'<polyline points="{path}" fill="none" stroke="#5b8db8" stroke-width="1.5"/>')
    lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#d98e4a"/>' for x, y in dots]
    return "\n".join([*lines, "</svg>"]) + "\n"


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
            "compared with the reference:",
            table(header, rows),
            f"![instructions over bytes of workspace](examples/memory/{MODEL}_trade.svg)",
            f"The smallest of them, {smallest.workspace_bytes:,} bytes, as `hil explain` draws it:",
            f"![what lies where, layer by layer](examples/memory/{MODEL}_plan.svg)",
        )
    )


def main() -> int:
    fastest = smallest = explained(optimize="speed")
    while smallest.saving is not None:
        smallest = explained(ram=smallest.workspace_bytes - smallest.saving.nbytes)
    points = [
        measured(limit) for limit in limits(smallest.workspace_bytes, fastest.workspace_bytes)
    ]
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{MODEL}_trade.svg").write_text(trade_svg(points), encoding="utf-8")
    (PICTURES / f"{MODEL}_plan.svg").write_text(plan_svg(smallest), encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    new = section(points, smallest)
    PAGE.write_text(f"{before}{BEGIN}\n{new}\n{END}{after}", encoding="utf-8")
    print(section(points, smallest))
    return 0 if [p.instructions for p in points] == sorted(p.instructions for p in points) else 1


if __name__ == "__main__":
    sys.exit(main())
