"""Random cases of every operator and type, computed by every family of kernels: what passed.

A case is an operator with its tensors. It passes in TFLite Micro where that gives the bytes of the
operator's definition in numpy, and in a family on a place where a kernel of the family gives them
there. What is counted has run; nothing is counted for a kernel that did not.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import tflm
from kernel_checks import Check, Operator, checks_of, first_difference
from kernel_layers import rectified, tamed, usual_layer
from kernel_runner import run
from linear_layers import Layer, random_layer
from single_op import KINDS, ONNX_ALONE, STATEFUL, SingleOp, random_op
from stateful import check_steps
from wide_layers import SHAPES, wide_layer

from hil.board import Board, load_board
from hilc.errors import ModelError
from hilc.ir import Rounding
from hilc.lowering.kernels import Kernel
from hilc.ops import OPS
from hilc.ops.operands import ARITHMETIC
from hilc.target import Cpu, get_cpu

Random = np.random.Generator
Kind = tuple[str, str]

#: Kernels by what they need of a core; the compact ones are portable, too.
FAMILIES = ("generic", "compact", "v6m", "v7m", "dsp", "mve")
#: This machine, under the sanitizers, and emulated boards.
PLACES = ("host", "mps2-an386", "mps3-an547")
LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: Every operator with a kernel of its own, with the types that it works on.
ALL_KINDS: Sequence[Kind] = sorted([*KINDS, *((op, t) for op in LINEAR for t in ARITHMETIC)])
#: Cases of a cell, and how many are drawn for families that few serve.
CASES, DRAWS = 100, 1000
#: Tensors of a case, in bytes: boards hold one at a time, several times over.
_LARGEST = 24_000
#: What a float32 result may differ by: of TFLite Micro, whose C library is another one, and of C.
_RELATIVE_TFLM, _RELATIVE = 2e-6, 1e-5
#: Refusals after which TFLite Micro lacks an operator or type.
_REFUSALS = 8
#: Steps of a state in TFLite Micro.
_STEPS = 5


def family(kernel: Kernel) -> str:
    if "/compact/" in kernel.header:
        return "compact"
    needs = {"mve": "mve", "dsp": "dsp", "mul32": "v7m", "thumb1": "v6m"}
    return next((name for need, name in needs.items() if need in kernel.requires), "generic")


def board_of(place: str) -> Board | None:
    return None if place == "host" else load_board(place)


# Cases ------------------------------------------------------------------------------------------


def cases(kind: Kind) -> Iterator[SingleOp | Layer]:
    """An endless row of random cases, the same in every process."""
    op, dtype = kind
    rng = np.random.default_rng(zlib.crc32(f"evidence {op} {dtype}".encode()))
    while True:
        case = _layer(rng, op, dtype) if op in LINEAR else random_op(rng, op, dtype)
        tensors = [tensor for tensor in (*case.ins, *case.outs) if tensor is not None]
        if sum(tensor.nbytes for tensor in tensors) <= _LARGEST:
            yield case


def _layer(rng: Random, op: str, dtype: str) -> Layer:
    """Half of the layers are of any shape and quantization, half as networks have them."""
    if rng.random() < 0.5 or dtype == "float32":
        return random_layer(rng, op, dtype, False)
    if dtype == "int16":
        shapes = [s for s in SHAPES if s[0] == op and not isinstance(s[3].get("padding"), tuple)]
        return wide_layer(rng, shapes[int(rng.integers(len(shapes)))])
    while True:
        layer = usual_layer(rng)
        if layer.node.op == op and not isinstance(vars(layer.node.attrs).get("padding"), tuple):
            return rectified(tamed(layer))


# What passes ------------------------------------------------------------------------------------


@dataclass
class Cell:
    """Counts of what ran."""

    passed: int = 0
    failed: int = 0
    #: Cases that TFLite Micro refuses.
    refused: int = 0
    #: What is said of the first that failed.
    first: str = ""

    def add(self, difference: str, case: object) -> None:
        if difference:
            self.failed += 1
            self.first = self.first or f"{case}: {difference}"
        else:
            self.passed += 1


def in_tflm(kind: Kind, count: int) -> Cell:
    """Compare cases with TFLite Micro, those that it does not refuse.

    It is asked no more where it refuses each of the first few.
    """
    cell = Cell()
    if kind[0] in ONNX_ALONE:
        return cell
    for _, case in zip(range(count), cases(kind)):  # noqa: B905 - cases have no end
        if cell.refused == _REFUSALS and not cell.passed + cell.failed:
            break
        try:
            cell.add(_difference_from_tflm(kind[0], case), case.node)
        except ModelError:
            cell.refused += 1
    return cell


def _difference_from_tflm(op: str, case: SingleOp | Layer) -> str:
    model = case.tflite()
    if op in STATEFUL:
        try:
            check_steps(model, _STEPS, 1)
        except AssertionError as error:
            return str(error)
        return ""
    pairs = zip(case.ins, case.values, strict=True)
    given = {t.name: value for t, value in pairs if t is not None and value is not None}
    values = tflm.run(model, given)
    theirs = [values[tensor.name] for tensor in case.outs]
    if (fill := OPS[op].fill_unwritten) is not None:
        theirs = fill(case.node, theirs)
    ours = OPS[op].reference(case.node, case.ins, case.outs, case.values)
    for tensor, expected, found in zip(case.outs, ours, theirs, strict=True):
        found = found.reshape(expected.shape)
        if difference := first_difference(found, expected, _RELATIVE_TFLM):
            return f"{tensor.name} {difference}"
    return ""


@dataclass
class Drawn:
    """Checks of an operator and type on a place, by family at most so many."""

    kind: Kind
    checks: list[tuple[str, Check]] = field(default_factory=list)


def draw(kind: Kind, place: str, count: int) -> Drawn:
    """Draw cases until each family that serves some has ``count``, or enough were tried."""
    board = board_of(place)
    cpu = get_cpu("host") if board is None else board.cpu
    drawn, counts = Drawn(kind), Counter[str]()
    for number, case in zip(range(DRAWS * count // CASES), cases(kind)):  # noqa: B905
        for operator in _computed(case, cpu):
            for one in checks_of(operator, cpu, f"case {number} of {kind}"):
                name = family(one.case.call.kernel)
                if counts[name] < count:
                    counts[name] += 1
                    drawn.checks.append((name, one))
        if number >= count - 1 and min(counts.values()) >= count:
            break
    return drawn


def _computed(case: SingleOp | Layer, cpu: Cpu) -> Iterator[Operator]:
    """Yield the case as it is, and as the vectors of a core compute it that fuse float sums."""
    yield case
    single = OPS[case.node.op].on_vectors(case.node, case.ins)
    if single and cpu.features >= {"mve", "fpu"}:
        yield replace(case, node=replace(case.node, rounding=Rounding.SINGLE))


Runner = Callable[[Sequence[Check], Board | None], Sequence[Sequence[np.ndarray]]]


def _run(checks: Sequence[Check], board: Board | None) -> Sequence[Sequence[np.ndarray]]:
    return run([one.case for one in checks], board=board)


def on_place(
    drawn: Iterable[Drawn], place: str, runner: Runner = _run
) -> dict[Kind, dict[str, Cell]]:
    """Run all checks in one program, and count by kind and family what gave the right bytes."""
    groups = list(drawn)
    everything = [(group.kind, name, one) for group in groups for name, one in group.checks]
    results = runner([one for _, _, one in everything], board_of(place))
    cells: dict[Kind, dict[str, Cell]] = {group.kind: {} for group in groups}
    for (kind, name, one), found in zip(everything, results, strict=True):
        cell = cells[kind].setdefault(name, Cell())
        differences = map(partial(first_difference, relative=_RELATIVE), found, one.expected)
        cell.add(next(filter(None, differences), ""), one.case)
    return cells
