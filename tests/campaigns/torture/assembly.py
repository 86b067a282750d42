"""Kernels for few cores at the borders of their blocks, of their values and of their outputs."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from boundary_layers import at_the_ends, boundaries, remainders
from even_ops import even_op
from float_layers import float_layers, float_ops
from kernel_checks import Check, Operator, check, checks_of
from kernel_layers import (
    CASES,
    CORNERS,
    FILTER_ROWS,
    PIXELS,
    PLANES,
    STRIPS,
    Shapes,
    rectified,
    tamed,
)
from layer_norms import layer_norm
from linear_layers import Layer, make_layer
from models import INT8_MODELS, model_path
from single_op import KINDS, SingleOp, random_op, swapped_axes
from wide_layers import SHAPES, wide_layer

from hil.board import load_board
from hilc.ir import Rounding
from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall, kernels
from hilc.source import prepare
from torture.campaign import Budget, Figures, Finding

TITLE = "Kernels in assembly"
ABOUT = """Runs every kernel that needs a feature of a core on an emulated board with that feature.
The memory protection unit blocks accesses around each array. Each call is repeated at several
addresses, with other bytes around the arrays and in the scratch memory, and its result must equal
the interpreter's. Shapes: channel counts and widths of every remainder by 16; in half of the
layers, weights and inputs are at the ends of their ranges. Outputs: the sums on both sides of each
change of an output, with the scales of the models' channels. Findings: a wrong result, an access
outside of an array, a changed input, an unwritten output, and a kernel that no call reaches."""

_LARGE_M0 = str(Path(__file__).resolve().parents[3] / "tools" / "boards" / "large-m0.toml")
#: Boards, and the features of their cores whose kernels are attacked there.
BOARDS = {
    "mps2-an385": {"mul32"},
    "mps2-an386": {"dsp"},
    "mps3-an547": {"mve"},
    _LARGE_M0: {"thumb1"},
    "riscv-virt": {"mul32"},
}
_RELATIVE = 1e-5
_Floats = TypeVar("_Floats", Layer, SingleOp)
#: Operators that have kernels in assembly.
_OFTEN = (
    *itertools.product(("ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D"), ("int8",)),
    *itertools.product(("ADD", "SUB", "MUL", "UNIDIRECTIONAL_SEQUENCE_LSTM"), ("int16",)),
    *itertools.product(("UNIDIRECTIONAL_SEQUENCE_LSTM", "SVDF", "BATCH_MATMUL"), ("int8",)),
    *itertools.product(("TRANSPOSE_CONV",), ("int8", "int16", "float32")),
    *itertools.product(
        ("BATCH_MATMUL", "ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SOFTMAX"),
        ("float32",),
    ),
)
#: Kernels that take an image a few rows at a time, which tests/board/test_fusion.py runs.
_OF_BANDS = {"hil_mve_average_rows_f32", "hil_mve_mean_rows_f32"}
#: Checks of one program.
_AT_A_TIME = 3000


@np.errstate(all="ignore")  # some floats are to overflow
def run(budget: Budget) -> Figures:
    """Attack all families; a sample of the layers for minutes."""
    rows, findings = [], []
    for name, features in BOARDS.items():
        board = load_board(name)
        family = {
            n
            for n, k in kernels().items()
            if k.requires & features and k.requires <= board.cpu.features and n not in _OF_BANDS
        }
        calls: Counter[str] = Counter()
        sizes: dict[str, list[set[int]]] = defaultdict(lambda: [set(), set(), set()])
        checks = _checks(budget, name, family)
        while part := list(itertools.islice(checks, _AT_A_TIME)):
            calls.update(one.kernel for one, _ in part)
            for one, operator in part:
                for found, size in zip(sizes[one.kernel], _sizes(operator), strict=True):
                    found.add(size % 16)
            try:
                check([one for one, _ in part], board, _RELATIVE)
            except AssertionError as error:
                how = f"python tools/measure.py torture assembly --seed {budget.seed}"
                findings.append(Finding(f"{board.name}: {error}"[:2000], how))
        for kernel in sorted(family):
            counts = [str(len(found)) for found in sizes[kernel]]
            rows.append([f"`{kernel}`", board.name, f"{calls[kernel]:,}", *counts])
            if not calls[kernel]:
                findings.append(Finding(f"nothing calls {kernel}", board.name))
    return Figures(
        [
            "kernel",
            "board",
            "calls",
            "inputs' channels by 16",
            "outputs' channels by 16",
            "widths by 16",
        ],  # fmt: skip
        rows,
        findings,
        [
            "The last columns: how many of the 16 remainders of a size there were. Layers without "
            "a width have rows. Not called: "
            + ", ".join(f"`{n}`" for n in sorted(_OF_BANDS))
            + ", which take bands of fused layers; tests of these run them.",
        ],
    )


def _checks(budget: Budget, name: str, family: set[str]) -> Iterator[tuple[Check, Operator]]:
    """Yield the calls of a family's kernels, with their operators."""
    board = load_board(name)
    for number, operator in enumerate(_operators(budget, name)):
        calls = candidates(operator.node, operator.ins, operator.outs, board.cpu)
        if not any(isinstance(c, KernelCall) and c.kernel.name in family for c in calls):
            continue
        told = f"(operator {number} of seed {budget.seed})"
        for one in checks_of(operator, board.cpu, told):
            if one.kernel in family:
                yield one, operator


def _operators(budget: Budget, name: str) -> Iterator[Operator]:
    rng = np.random.default_rng([budget.seed, *name.encode()])
    every = budget.count(minutes=4, hours=1)
    start = int(rng.integers(every))
    yield from itertools.islice(remainders(rng), start, None, every)
    yield from itertools.islice(remainders(rng, "int16"), start, None, 4 * every)
    for layer in itertools.islice(remainders(rng, "float32"), start, None, 4 * every):
        yield from (layer, _summed_by_fma(layer))
    # Where kernels take another way.
    for op, x, w, attrs in (*CORNERS, *PIXELS, *PLANES, *STRIPS, *FILTER_ROWS, *_cases()):
        layer = make_layer(rng, op, "int8", x, w, attrs)
        yield from (layer, at_the_ends(rng, rectified(tamed(layer))))
    yield from float_layers(rng)
    yield from float_ops(rng, budget.count(minutes=12, hours=60))
    yield from (wide_layer(rng, shapes, ends) for shapes in SHAPES for ends in (False, True))
    for model in INT8_MODELS if budget.is_long else ("kws",):
        graph = prepare(model_path(model), None, load_board(name).cpu).graph
        yield from boundaries(graph, budget.count(minutes=1, hours=4), rng)
    for op, dtype in KINDS:
        for _ in range(budget.count(minutes=2, hours=12)):
            yield random_op(rng, op, dtype)
    for _ in range(budget.count(minutes=25, hours=100)):
        yield from (random_op(rng, op, dtype) for op, dtype in _OFTEN)
        yield from (even_op(rng, op, "int8") for op in ("AVERAGE_POOL_2D", "TRANSPOSE_CONV"))
        yield layer_norm(rng, "int8")
        yield _summed_by_fma(random_op(rng, "BATCH_MATMUL", "float32"))
        yield swapped_axes(rng)


def _summed_by_fma(operator: _Floats) -> _Floats:
    """Return the operator as cores compute it whose unit rounds a product and its sum once."""
    return replace(operator, node=replace(operator.node, rounding=Rounding.SINGLE))


def _cases() -> Iterator[Shapes]:
    yield from ((op, x, w, attrs) for op, x, w, attrs, *_ in CASES.values())


def _sizes(operator: Operator) -> tuple[int, int, int]:
    """Return the channels of the first input and of the output, and the output's width or rows."""
    x = next(tensor for tensor in operator.ins if tensor is not None)
    out = operator.outs[0]
    width = out.shape[-2] if len(out.shape) > 1 else out.size
    return (x.shape or (1,))[-1], (out.shape or (1,))[-1], width
