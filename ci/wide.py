#!/usr/bin/env python3
"""Counts the instructions a multiply-accumulate of layers of 16-bit activations and int8 weights.

``python ci/wide.py`` runs every kernel that a core has for each layer on its emulated board, and
prints a table: the portable kernel, and the fastest of the others, with the scratch of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "tests"), str(ROOT / "ci")]

from costs import Count, count_model  # noqa: E402
from kernel_layers import Shapes, conv, depthwise  # noqa: E402
from linear_layers import as_single  # noqa: E402
from single_op import merged  # noqa: E402
from wide_layers import wide_layer  # noqa: E402

from hil.board import load_board  # noqa: E402
from hilc.lowering.kernels import kernels  # noqa: E402

BOARDS = ("mps2-an385", "mps2-an386", "mps3-an547")
_RELU = {"activation": "RELU"}
LAYERS: dict[str, Shapes] = {
    "1x1, 25x5, 64 to 64": ("CONV_2D", (1, 25, 5, 64), (64, 1, 1, 64), conv("SAME")),
    "1x1, 12x12, 32 to 48": ("CONV_2D", (1, 12, 12, 32), (48, 1, 1, 32), conv("SAME")),
    "3x3, 12x12, 32 to 32": ("CONV_2D", (1, 12, 12, 32), (32, 3, 3, 32), conv("SAME")),
    "fully connected, 640 to 128": ("FULLY_CONNECTED", (1, 640), (128, 640), _RELU),
    "fully connected, 128 to 128": ("FULLY_CONNECTED", (1, 128), (128, 128), _RELU),
    "depthwise 3x3, 25x5, 64": ("DEPTHWISE_CONV_2D", (1, 25, 5, 64), (1, 3, 3, 64), depthwise(1)),
    "depthwise 3x3, 24x24, 32": ("DEPTHWISE_CONV_2D", (1, 24, 24, 32), (1, 3, 3, 32), depthwise(1)),
}  # fmt: skip


def measured(board: str) -> dict[str, list[Count]]:
    """Return the counts of every kernel of each layer, by the layer's name."""
    found: dict[str, list[Count]] = {}
    for name, shapes in LAYERS.items():
        layer = wide_layer(np.random.default_rng(1), shapes)
        graph, _ = merged([as_single(layer)])
        found[name] = count_model(board, "wide", graph)
    return found


def macs(shapes: Shapes) -> int:
    """Return the multiply-accumulates of a layer."""
    op, x, w, _ = shapes
    pixels = x[1] * x[2] if len(x) == 4 else x[0]
    return pixels * int(np.prod(w))


def main() -> int:
    """Print the table."""
    names = sys.argv[1:] or list(BOARDS)
    rows = {name: [name] for name in LAYERS}
    for board in names:
        counts = measured(board)
        for name, own in counts.items():
            per = [(count.count / macs(LAYERS[name]), count) for count in own]
            portable = min(p for p, c in per if not kernels()[c.kernel].requires)
            others = [
                f"{p:.2f} ({_way(c)})"
                for p, c in sorted(per, key=lambda pair: pair[0])
                if kernels()[c.kernel].requires
            ]
            rows[name].append(
                f"{portable:.2f}: {', '.join(others)}" if others else f"{portable:.2f}"
            )
    print("| layer | " + " | ".join(load_board(b).cpu.name for b in names) + " |")
    print("| --- |" + " --- |" * len(names))
    for row in rows.values():
        print("| " + " | ".join(row) + " |")
    return 0


def _way(count: Count) -> str:
    """Return what tells the ways of a kernel apart."""
    told = [
        f"{name} {int(count.fields[name])}" for name in ("wide", "group") if name in count.fields
    ]
    if "plane" in count.kernel:
        told = [f"rows {int(count.fields['rows'])}"]
    return " ".join(told) or "-"


if __name__ == "__main__":
    sys.exit(main())
