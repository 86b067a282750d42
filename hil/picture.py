"""A memory plan for people: as text, and as a picture in SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from typing import Any

from hil.console import table
from hilc.explain import BEFORE, Explanation, Tenant

_COLUMN, _POOL_HEIGHT, _GAP, _LEFT, _TOP, _BOTTOM = 46, 380, 34, 84, 64, 170
#: Fill by what it is; distinguishable without colour by their outlines in :data:`_DASHES`.
_FILLS = {"input": "#7fb069", "tensor": "#5b8db8", "output": "#d98e4a", "scratch": "#b9b9b9"}
_DASHES = {"scratch": "4 2"}
#: No label fits below that many pixels.
_LABEL_HEIGHT, _LABEL_WIDTH = 11, 40
_CHARACTER = 6.2

_BAR = 40
_NAME_WIDTH = 44


def plan_text(plan: Explanation) -> str:
    """Where the peak is, each layer's need, and every tensor's life and place."""
    beside = "in it" if plan.io_in_pool else "outside of it"
    lines = [
        f"{plan.model} for {plan.cpu}: {plan.workspace_bytes:,} bytes of workspace, "
        f"inputs and outputs {beside}"
    ]
    if not plan.steps:
        return lines[0]
    peak = plan.steps[plan.peak]
    lines.append(
        f"most is needed by layer {plan.peak}, {peak.ops}: {peak.used_bytes:,} bytes in use"
    )
    rows = [_tenant_row(plan, tenant) for tenant in plan.at(plan.peak)]
    lines.append(table(rows, ["there", "bytes", "from", "to"]))
    lines += [f"  {text}" for text in _overlap_lines(plan)]
    if peak.kept:
        kept = [
            [_shortened(name, _NAME_WIDTH), f"{start:,}", f"{end:,}"]
            for name, start, end in peak.kept
        ]
        lines += ["", table(kept, ["rows kept in the scratch", "from", "to"])]
    most = max(max(step.used_bytes for step in plan.steps), 1)
    steps = [
        [str(i), step.ops, f"{step.used_bytes:,}", "#" * -(-step.used_bytes * _BAR // most)]
        for i, step in enumerate(plan.steps)
    ]
    lines += ["", table(steps, ["layer", "operators", "bytes in use", ""])]
    lives = [
        [*_tenant_row(plan, tenant), _life(plan, tenant)]
        for tenant in plan.tenants
        if tenant.what != "scratch"
    ]
    lines += ["", table(lives, ["tensor", "bytes", "from", "to", "layers"]), "", _next(plan)]
    return "\n".join(lines)


def plan_json(plan: Explanation) -> dict[str, Any]:
    """The plan as a JSON object."""
    return {
        "model": plan.model,
        "cpu": plan.cpu,
        "workspace_bytes": plan.workspace_bytes,
        "io_in_pool": plan.io_in_pool,
        "pools": [{"name": name, "bytes": nbytes} for name, nbytes in plan.pools],
        "peak_layer": plan.peak,
        "layers": [
            {
                "ops": [node.op for node in step.nodes],
                "names": [node.name for node in step.nodes],
                "macs": step.macs,
                "used_bytes": step.used_bytes,
                "kept": [
                    {"name": name, "first": first, "end": end} for name, first, end in step.kept
                ],
                "overlaps": [
                    {"output": output, "input": name, "difference": difference}
                    for output, name, difference in step.overlaps
                ],
            }
            for step in plan.steps
        ],
        "tenants": [asdict(tenant) for tenant in plan.tenants],
        "next_saving": None if plan.saving is None else asdict(plan.saving),
    }


def _next(plan: Explanation) -> str:
    if plan.saving is None:
        return "no program that takes less memory was found"
    saved, more = plan.saving.nbytes, plan.saving.instructions
    return (
        f"the next saving: {saved:,} bytes less cost {more:,} instructions more by estimate "
        f"({100 * more / max(plan.saving.of, 1):+.1f} %), with --ram {plan.workspace_bytes - saved}"
    )


def _tenant_row(plan: Explanation, tenant: Tenant) -> list[str]:
    pool = f"{plan.pools[tenant.pool][0]} " if len(plan.pools) > 1 else ""
    name = tenant.name if tenant.what != "scratch" else "scratch"
    where = f"{pool}{tenant.offset:,}"
    return [_shortened(name, _NAME_WIDTH), f"{tenant.nbytes:,}", where, f"{tenant.end:,}"]


def _life(plan: Explanation, tenant: Tenant) -> str:
    first = "caller" if tenant.first == BEFORE else str(tenant.first)
    last = "caller" if tenant.last == len(plan.steps) else str(tenant.last)
    return first if first == last else f"{first} - {last}"


def _overlap_lines(plan: Explanation) -> Iterator[str]:
    for output, name, difference in plan.steps[plan.peak].overlaps:
        shown, other = _shortened(output, _NAME_WIDTH), _shortened(name, _NAME_WIDTH)
        how = f"{abs(difference):,} bytes {'above' if difference > 0 else 'below'}"
        yield f"{shown} is written over {other}, {how if difference else 'at the same address'}"


def plan_svg(plan: Explanation) -> str:
    """The plan as an SVG document: a box for everything that lies in a pool for a while.

    A box spans the layers during which its bytes are taken; where an output lies over an input that
    dies, their boxes overlap. The layer that needs the most is marked.
    """
    columns = len(plan.steps) + 2
    width = _LEFT + columns * _COLUMN + 20
    height = _TOP + len(plan.pools) * (_POOL_HEIGHT + _GAP) + _BOTTOM
    title = f"{plan.model} on {plan.cpu}: {plan.workspace_bytes:,} bytes of workspace"
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
        *_legend(),
        *(line for pool in range(len(plan.pools)) for line in _pool(plan, pool)),
        *_layers(plan),
        "</svg>",
    ]
    return "\n".join(body) + "\n"


def _legend() -> Iterator[str]:
    x = _LEFT
    for what, fill in _FILLS.items():
        yield f'<rect x="{x}" y="36" width="12" height="12" fill="{fill}" {_outline(what)}/>'
        yield f'<text x="{x + 16}" y="46">{what}</text>'
        x += 80


def _outline(what: str) -> str:
    dash = f' stroke-dasharray="{_DASHES[what]}"' if what in _DASHES else ""
    return f'stroke="#333" stroke-width="0.8"{dash}'


def _x(step: int) -> int:
    return _LEFT + (step - BEFORE) * _COLUMN


def _pool_top(pool: int) -> int:
    return _TOP + pool * (_POOL_HEIGHT + _GAP)


def _pool(plan: Explanation, pool: int) -> Iterator[str]:
    name, size = plan.pools[pool]
    top, right = _pool_top(pool), _x(len(plan.steps)) + _COLUMN
    if pool == 0 and plan.steps:
        yield (
            f'<rect x="{_x(plan.peak)}" y="{top}" width="{_COLUMN}" height="{_POOL_HEIGHT}" '
            'fill="#fff3c4"/>'
        )
    for share in range(5):
        address = size * share // 4
        y = top + _POOL_HEIGHT - share * _POOL_HEIGHT / 4
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{address:,}</text>'
    yield f'<text x="{_LEFT}" y="{top - 5}" fill="#555">{escape(name)}, {size:,} bytes</text>'
    # Large ones first, so that what lies over them is seen.
    for tenant in sorted(plan.tenants, key=lambda t: (-t.nbytes, t.first)):
        if tenant.pool == pool and size:
            yield from _box(tenant, size, top)


def _box(tenant: Tenant, size: int, top: int) -> Iterator[str]:
    scale = _POOL_HEIGHT / size
    x, width = _x(tenant.first), (tenant.last - tenant.first + 1) * _COLUMN
    y, height = top + _POOL_HEIGHT - tenant.end * scale, tenant.nbytes * scale
    yield (
        f"<g><title>{escape(tenant.name)}: {tenant.nbytes:,} bytes, {tenant.offset:,} to "
        f'{tenant.end:,}</title><rect x="{x + 1}" y="{y:.2f}" width="{width - 2}" '
        f'height="{max(height, 0.5):.2f}" fill="{_FILLS[tenant.what]}" fill-opacity="0.62" '
        f"{_outline(tenant.what)}/>"
    )
    if height >= _LABEL_HEIGHT and width >= _LABEL_WIDTH:
        label = f"{tenant.nbytes:,}"
        room = int((width - 6) / _CHARACTER) - len(label) - 1
        if room >= 6:
            label = f"{_shortened(tenant.name, room)} {label}"
        middle = y + height / 2 + 4
        yield f'<text x="{x + 4}" y="{middle:.1f}" font-size="10">{escape(label)}</text>'
    yield "</g>"


def _shortened(name: str, room: int) -> str:
    """The end of a name, which is what tells names of one model apart."""
    return name if len(name) <= room else "…" + name[1 - room :]


def _layers(plan: Explanation) -> Iterator[str]:
    y = _pool_top(len(plan.pools)) - _GAP + 14
    texts = ["inputs", *(f"{i} {step.ops}" for i, step in enumerate(plan.steps)), "outputs"]
    for index, text in enumerate(texts):
        x = _x(index - 1) + _COLUMN / 2
        weight = ' font-weight="bold"' if index - 1 == plan.peak else ""
        label = text if len(text) <= 30 else f"{text[:29]}…"
        yield (
            f'<text transform="translate({x:.0f} {y}) rotate(50)"{weight}>{escape(label)}</text>'
        )
