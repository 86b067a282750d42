"""A library as a notebook shows it: tables of HTML, and the memory plan as a picture in SVG.

Names of models, operators and tensors come from files that are not trusted, so every text is
escaped.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence

from hilc.artifact.manifest import Module
from hilc.lowering.choice import ChoiceReport
from hilc.memory.explanation import BEFORE, ArenaSlot, Explanation

#: Colours of buffers by their content, as in the pictures of ``hil explain``.
_COLOURS = {
    "input": "#7fb069",
    "tensor": "#5b8db8",
    "output": "#d98e4a",
    "state": "#c46d7c",
    "scratch": "#c4c4c4",
}
_PEAK = "#fff3c4"
#: Pixels: the picture of a pool, and the line below it.
_WIDTH, _HEIGHT, _LINE = 640, 200, 16


def module_html(module: Module, report: ChoiceReport | None, plan: Explanation | None) -> str:
    """Return a model of a library as tables, and its plan as a picture if it is known."""
    size = {"core": module.cpu, "workspace": f"{module.workspace_bytes:,} bytes"}
    if module.states:
        size["state"] = f"{module.state_bytes:,} bytes"
    size["constants"] = f"{module.constants_bytes:,} bytes"
    if report is not None:
        source = "measured" if report.tuned else "by estimate"
        size["instructions"] = f"{report.chosen.instructions:,} {source}"
        size["constants and code"] = f"{report.chosen.flash_bytes:,} bytes by estimate"
    for what, tensors in (("inputs", module.inputs), ("outputs", module.outputs)):
        size[what] = ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in tensors)
    parts = [f"<h4>{html.escape(module.name)}</h4>", html_table(size.items())]
    macs = Counter[str]()
    for layer in module.layers:
        macs[layer.op] += layer.macs
    counts = Counter(layer.op for layer in module.layers)
    rows = [(op, f"{counts[op]:,}", f"{macs[op]:,}") for op, _ in macs.most_common()]
    parts.append(html_table(rows, ("operator", "layers", "MACs")))
    if plan is not None:
        parts += [_pool_svg(plan, pool) for pool in range(len(plan.pools))]
    return "".join(parts)


def html_table(rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return a table of texts, which are escaped."""
    lines = [("th", header)] if header else []
    lines += [("td", row) for row in rows]
    cells = (
        "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in row) for kind, row in lines
    )
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _pool_svg(plan: Explanation, pool: int) -> str:
    """Return a pool over time: a box for each buffer, from its first layer to its last."""
    name, nbytes = plan.pools[pool]
    columns = len(plan.steps) + 2
    across, down = _WIDTH / columns, _HEIGHT / max(nbytes, 1)
    boxes = []
    if plan.steps:
        boxes.append(_rectangle((plan.peak + 1) * across, 0, across, _HEIGHT, _PEAK, "the peak"))
    slots = [slot for slot in plan.slots if slot.pool == pool]
    # Large boxes first, so that they do not cover smaller ones.
    for slot in sorted(slots, key=lambda s: -s.bytes):
        first, last = slot.first - BEFORE, slot.last - BEFORE
        boxes.append(
            _rectangle(
                first * across,
                _HEIGHT - slot.end * down,
                (last - first + 1) * across,
                slot.bytes * down,
                _COLOURS[slot.what],
                _title(plan, slot),
            )
        )
    caption = f"{name}: {nbytes:,} bytes over {len(plan.steps)} layers; the first bytes are lowest"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT + _LINE}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT + _LINE}" role="img">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT + _LINE}" fill="#ffffff"/>{"".join(boxes)}'
        f'<text x="2" y="{_HEIGHT + _LINE - 4}" font-size="12" fill="#333333">'
        f"{html.escape(caption)}</text></svg>"
    )


def _rectangle(x: float, y: float, width: float, height: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{colour}" '
        f'fill-opacity="0.7" stroke="#333333" stroke-width="0.5">'
        f"<title>{html.escape(title)}</title></rect>"
    )


def _title(plan: Explanation, slot: ArenaSlot) -> str:
    steps = [s for s in range(max(slot.first, 0), min(slot.last, len(plan.steps) - 1) + 1)]
    ops = f", {plan.steps[steps[0]].ops} to {plan.steps[steps[-1]].ops}" if steps else ""
    return f"{slot.name}: {slot.bytes:,} bytes from {slot.offset:,}{ops}"
