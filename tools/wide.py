#!/usr/bin/env python3
"""Counts the instructions a multiply-accumulate of layers of the types beside plain int8 networks.

``python tools/measure.py wide`` runs every kernel that a core has for each layer on its
emulated board, and prints a table: the portable kernel, and the others, the fastest first. The
layers are those of 16-bit activations, layers that remember, products of two computed matrices,
layers of floats, and transposed convolutions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from costs import Count, count_model
from kernel_layers import Shapes, conv, depthwise
from linear_layers import as_single, make_layer
from single_op import (
    Draft,
    SingleOp,
    batch_matmul_draft,
    finish,
    lstm_draft,
    svdf_draft,
    transpose_conv_draft,
)
from wide_layers import wide_layer

from hil.board import load_board
from hil.errors import BuildError
from hilc.ir import Quant
from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall, kernels
from hilc.target import get_cpu

ROOT = Path(__file__).resolve().parents[1]

BOARDS = ("microbit", "mps2-an385", "mps2-an386", "mps3-an547")
_RELU = {"activation": "RELU"}

Random = np.random.Generator
Made = Callable[[Random], SingleOp]


def _wide(op: str, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any]) -> Made:
    shapes: Shapes = (op, x, w, attrs)
    return lambda rng: as_single(wide_layer(rng, shapes))


def _drafted(op: str, draft: Callable[[Random], Draft]) -> Made:
    return lambda rng: finish(rng, op, draft(rng))


_LSTM, _SVDF, _MATMUL = "UNIDIRECTIONAL_SEQUENCE_LSTM", "SVDF", "BATCH_MATMUL"
LAYERS: dict[str, Made] = {
    "16x8 1x1, 25x5, 64 to 64":
        _wide("CONV_2D", (1, 25, 5, 64), (64, 1, 1, 64), conv("SAME")),
    "16x8 1x1, 12x12, 32 to 48":
        _wide("CONV_2D", (1, 12, 12, 32), (48, 1, 1, 32), conv("SAME")),
    "16x8 1x1, 8x8, 32 to 32":
        _wide("CONV_2D", (1, 8, 8, 32), (32, 1, 1, 32), conv("SAME")),
    "16x8 3x3, 12x12, 32 to 32":
        _wide("CONV_2D", (1, 12, 12, 32), (32, 3, 3, 32), conv("SAME")),
    "16x8 fully connected, 640 to 128":
        _wide("FULLY_CONNECTED", (1, 640), (128, 640), _RELU),
    "16x8 fully connected, 128 to 128":
        _wide("FULLY_CONNECTED", (1, 128), (128, 128), _RELU),
    "16x8 depthwise 3x3, 25x5, 64":
        _wide("DEPTHWISE_CONV_2D", (1, 25, 5, 64), (1, 3, 3, 64), depthwise(1)),
    "16x8 depthwise 3x3, 24x24, 32":
        _wide("DEPTHWISE_CONV_2D", (1, 24, 24, 32), (1, 3, 3, 32), depthwise(1)),
    "16x8 depthwise 3x3, 8x8, 32":
        _wide("DEPTHWISE_CONV_2D", (1, 8, 8, 32), (1, 3, 3, 32), depthwise(1)),
    "int8 LSTM, 40 to 64":
        _drafted(_LSTM, lambda rng: lstm_draft(rng, "int8", 1, 1, 40, 64)),
    "16x8 LSTM, 40 to 64":
        _drafted(_LSTM, lambda rng: lstm_draft(rng, "int16", 1, 1, 40, 64)),
    "int8 SVDF, 40 to 64, 10 moments of int16":
        _drafted(_SVDF, lambda rng: svdf_draft(rng, "int8", "int16", 1, 40, 64, 1, 10)),
    "int8 SVDF, 40 to 64, 10 moments of int8":
        _drafted(_SVDF, lambda rng: svdf_draft(rng, "int8", "int8", 1, 40, 64, 1, 10)),
    "int8 matrices, 32x64 by 64x32":
        _drafted(_MATMUL, lambda rng: batch_matmul_draft(rng, "int8", (32, 64), (64, 32))),
    "int8 matrices, 32x64 by 32x64 transposed":
        _drafted(
            _MATMUL,
            lambda rng: batch_matmul_draft(rng, "int8", (32, 64), (32, 64), adj_y=True),
        ),
}  # fmt: skip


def _floats(op: str, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any]) -> Made:
    return lambda rng: as_single(make_layer(rng, op, "float32", x, w, attrs))


def _transposed(dtype: str, side: int, channels: int, size: int) -> Made:
    image, out = (1, side, side, channels), (1, 2 * side, 2 * side, channels)
    attrs = {"stride_h": 2, "stride_w": 2, "padding": "SAME", "activation": "RELU"}

    def draft(rng: Random) -> Draft:
        made = transpose_conv_draft(rng, dtype, image, (size, size), out, attrs)
        return made if made.quant is None else _of_usual_scale(made, size * size * channels)

    return _drafted("TRANSPOSE_CONV", draft)


def _of_usual_scale(draft: Draft, depth: int) -> Draft:
    """Return the layer with scales as converters find them: outputs spread over their range."""
    shape, w, x, *rest = draft.ins
    assert w.data is not None
    scale = 2.0**-12 if x.dtype == "int16" else 2.0**-5
    bias = Quant((scale * 0.004,), (0,))
    ins = [
        shape,
        replace(w, data=np.maximum(w.data, -127), quant=Quant((0.004,), (0,))),
        replace(x, quant=Quant((scale,), (0,))),
        *(replace(b, quant=bias) for b in rest),
    ]
    # Rectified: all of int8 is above zero.
    zero_point = 0 if x.dtype == "int16" else -128
    quant = Quant((scale * 0.004 * 74 * depth**0.5,), (zero_point,))
    return replace(draft, ins=ins, quant=quant)


LAYERS |= {
    "float32 1x1, 25x5, 64 to 64":
        _floats("CONV_2D", (1, 25, 5, 64), (64, 1, 1, 64), conv("SAME")),
    "float32 1x1, 12x12, 32 to 32":
        _floats("CONV_2D", (1, 12, 12, 32), (32, 1, 1, 32), conv("SAME")),
    "float32 3x3, 12x12, 32 to 32":
        _floats("CONV_2D", (1, 12, 12, 32), (32, 3, 3, 32), conv("SAME")),
    "float32 fully connected, 640 to 128":
        _floats("FULLY_CONNECTED", (1, 640), (128, 640), _RELU),
    "float32 depthwise 3x3, 25x5, 64":
        _floats("DEPTHWISE_CONV_2D", (1, 25, 5, 64), (1, 3, 3, 64), depthwise(1)),
    "float32 depthwise 3x3, 24x24, 32":
        _floats("DEPTHWISE_CONV_2D", (1, 24, 24, 32), (1, 3, 3, 32), depthwise(1)),
    "float32 depthwise 5x5, 24x24, 32":
        _floats("DEPTHWISE_CONV_2D", (1, 24, 24, 32), (1, 5, 5, 32), depthwise(1)),
    "float32 matrices, 32x64 by 64x32":
        _drafted(_MATMUL, lambda rng: batch_matmul_draft(rng, "float32", (32, 64), (64, 32))),
    "float32 transposed 3x3, 8x8 to 16x16, 32": _transposed("float32", 8, 32, 3),
    "int8 transposed 3x3, 8x8 to 16x16, 32": _transposed("int8", 8, 32, 3),
    "int8 transposed 4x4, 8x8 to 16x16, 32": _transposed("int8", 8, 32, 4),
    "16x8 transposed 3x3, 8x8 to 16x16, 32": _transposed("int16", 8, 32, 3),
}  # fmt: skip


def measured(board: str, layers: dict[str, Made]) -> dict[str, list[Count]]:
    """Return the counts of every kernel of each layer, by the layer's name."""
    found: dict[str, list[Count]] = {}
    for name, made in layers.items():
        try:
            found[name] = count_model(board, "wide", made(np.random.default_rng(1)).graph())
        except BuildError as error:
            print(f"{board}: {name} is left out: {error.fact.splitlines()[0]}", file=sys.stderr)
            found[name] = []
    return found


def macs(made: Made) -> int:
    """Return the multiply-accumulates of a layer."""
    single = made(np.random.default_rng(1))
    (call, *_) = candidates(single.node, single.ins, single.outs, get_cpu("cortex-m3"))
    assert isinstance(call, KernelCall)
    return call.macs


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("boards", nargs="*", metavar="BOARD", help=f"default: {' '.join(BOARDS)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="layers whose name has the text")
    args = parser.parse_args()
    names = args.boards or list(BOARDS)
    for name in names:
        load_board(name)  # before anything is counted
    layers = {name: made for name, made in LAYERS.items() if args.only in name}
    if not layers:
        parser.error(f"no layer's name has {args.only!r}: the layers are {', '.join(LAYERS)}")
    rows = {name: [name] for name in layers}
    for board in names:
        for name, own in measured(board, layers).items():
            per = sorted(
                ((count.count / macs(layers[name]), count) for count in own), key=lambda p: p[0]
            )
            # Those of floats whose sums the core rounds once are all its own.
            portable = max((p for p, c in per if not kernels()[c.kernel].requires), default=None)
            others = [f"{p:.2f} ({_way(c)})" for p, c in per if p != portable]
            rows[name] += [
                "-" if portable is None else f"{portable:.2f}",
                ", ".join(others) or "-",
            ]
    heads = [f"{load_board(b).cpu.name}{what}" for b in names for what in (", portable", "")]
    print("| layer | " + " | ".join(heads) + " |")
    print("| --- |" + " --- |" * len(heads))
    for row in rows.values():
        print("| " + " | ".join(row) + " |")
    return 0


def _way(count: Count) -> str:
    """Return what tells the ways of a kernel apart."""
    told = [
        f"{name} {int(count.fields[name])}" for name in ("wide", "group") if name in count.fields
    ]
    if "DEPTHWISE" in count.kernel.upper() and "rows" in count.fields:
        told = [f"rows {int(count.fields['rows'])}"]
    return " ".join(told) or "-"


if __name__ == "__main__":
    sys.exit(main())
