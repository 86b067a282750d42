"""When kernels read and write, and how far that lets buffers overlap: against simulations, against
closed formulas, and with the kernels themselves at the very border."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import kernel_runner
import numpy as np
import numpy.typing as npt
import pytest
from campaigns import sampled
from even_ops import KINDS as EVEN_KINDS
from even_ops import even_op
from kernel_checks import borders
from kernel_runner import Case
from linear_layers import grouped_layer, random_layer
from single_op import KINDS, ONNX_KINDS, float_slopes, random_op
from sixteen_by_eight import BIASES, operator
from wide_layers import even_layer

from hilc.errors import HilError
from hilc.ir import Array, Graph, Node, Quant, Rounding, Tensor
from hilc.lowering import candidates
from hilc.lowering.access import (
    NEVER,
    Access,
    ForbiddenInterval,
    Loop,
    access_of,
    all_forbidden,
    apart,
    kernel_access,
)
from hilc.lowering.access import forbidden_interval as differences_of
from hilc.lowering.choice import KernelSelection
from hilc.lowering.cost import Cost
from hilc.lowering.kernels import Kernel, KernelCall, kernels
from hilc.memory import checker as hazards
from hilc.memory.plan import BufferRef, PlanError, check_plan, plan
from hilc.ops import OPS
from hilc.ops.attributes import ReductionAttributes
from hilc.ops.operands import ARITHMETIC
from hilc.ops.scatter import WAYS, ScatterAttributes
from hilc.target import get_cpu

HOST = get_cpu("host")

# What kernels say of their order against a kernel that does just that ----------------------------


def _random_loops(rng: np.random.Generator) -> list[Loop]:
    kinds = [("pixels",), ("rows",), ("channels",), ("rows", "pixels"), ("rows", "channels")]
    kinds += [("pixels", "channels"), ("channels", "rows"), ("channels", "pixels")]
    kinds += [("rows", "pixels", "channels"), ("channels", "rows", "pixels")]
    chosen = kinds[rng.integers(len(kinds))]
    return [Loop(kind, int(rng.integers(1, 5))) for kind in chosen]


Output = tuple[int, int, int]


def _blocks(outputs: list[Output], loops: Sequence[Loop], width: int) -> list[list[Output]]:
    """The outputs of an image, a list for each step, by doing what the loops say."""
    if not loops:
        return [outputs]
    loop, *rest = loops

    def key(output: Output) -> int:
        row, column, channel = output
        return {"rows": row, "pixels": row * width + column, "channels": channel}[loop.kind]

    found = []
    values = sorted({key(o) for o in outputs})
    for start in range(0, len(values), loop.count):
        turn = set(values[start : start + loop.count])
        found += _blocks([o for o in outputs if key(o) in turn], rest, width)
    return found


def _simulated(
    loops: Sequence[Loop], reads: str, fields: dict[str, int], x: Tensor, y: Tensor
) -> tuple[Array, Array]:
    """The last read of each input and the first write of each output, counted while they happen."""
    batch, height, width, channels = y.shape
    last_read = np.full(x.shape, NEVER)
    first_write = np.full(y.shape, NEVER)
    copied: set[tuple[int, ...]] = set()
    clock = itertools.count()
    image = list(itertools.product(range(height), range(width), range(channels)))
    for b in range(batch):
        for block in _blocks(image, loops, width):
            step = next(clock)
            for out_y, out_x, out_c in block:
                own = out_c // (channels // x.shape[3]) if "channel" in reads else 0
                taken = [own] if "channel" in reads else range(x.shape[3])
                for i, j in itertools.product(range(fields["filter_h"]), range(fields["filter_w"])):
                    row = out_y * fields["stride_h"] + i * fields["dilation_h"] - fields["pad_top"]
                    col = out_x * fields["stride_w"] + j * fields["dilation_w"] - fields["pad_left"]
                    if not (0 <= row < x.shape[1] and 0 <= col < x.shape[2]):
                        continue
                    for c in taken:
                        ref = (b, row, col, c)
                        if "once" not in reads or ref not in copied:
                            last_read[ref] = step
                        copied.add(ref)
            for out_y, out_x, out_c in block:
                first_write[b, out_y, out_x, out_c] = step
    return last_read, first_write


def _random_window(rng: np.random.Generator) -> tuple[dict[str, int], Tensor, Tensor, str]:
    reads = str(rng.choice(["window", "channel window", "window once", "channel window once"]))
    batch, height, width, in_c = (int(n) for n in rng.integers(1, (3, 8, 8, 6)))
    fields: dict[str, int] = {}
    sizes = []
    for axis, size in (("h", height), ("w", width)):
        fields[f"filter_{axis}"] = int(rng.integers(1, 4))
        fields[f"stride_{axis}"] = int(rng.integers(1, 4))
        fields[f"dilation_{axis}"] = int(rng.integers(1, 3))
        pad = fields["pad_top" if axis == "h" else "pad_left"] = int(rng.integers(0, 3))
        span = (fields[f"filter_{axis}"] - 1) * fields[f"dilation_{axis}"] + 1
        room = size + pad + int(rng.integers(0, 3)) - span
        sizes.append(max(1, room // fields[f"stride_{axis}"] + 1))
    out_c = in_c * int(rng.integers(1, 3)) if "channel" in reads else int(rng.integers(1, 6))
    dtype = str(rng.choice(["int8", "float32"]))
    x = Tensor("x", (batch, height, width, in_c), dtype)
    return fields, x, Tensor("y", (batch, *sizes, out_c), dtype), reads


def _types(x: Tensor, y: Tensor) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = {"int8": "int8_t", "float32": "float"}
    return (names[x.dtype],), (names[y.dtype],)


def _same_order(times: npt.NDArray[Any], simulated: Array) -> bool:
    """Whether both order the bytes alike: empty turns may take numbers that no step has."""
    _, ranks = np.unique(times, return_inverse=True)
    _, expected = np.unique(simulated, return_inverse=True)
    return bool((ranks == expected).all())


@pytest.mark.parametrize("seed", range(60))
def test_loops_state_the_order_of_a_kernel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fields, x, y, reads = _random_window(rng)
    loops = _random_loops(rng)
    access = kernel_access(loops, reads, fields, _types(x, y), [x], [y])
    assert access is not None
    last_read, first_write = _simulated(loops, reads, fields, x, y)
    item = x.nbytes // x.size
    both = np.concatenate([access.last_read[0], access.first_write[0]])
    expected = np.concatenate([last_read.reshape(-1), first_write.reshape(-1)]).repeat(item)
    assert _same_order(both, expected), (loops, reads, fields)
    assert ((access.last_read[0] == NEVER) == (expected[: x.nbytes] == NEVER)).all()
    assert access.first_write[0].max() < access.steps


@pytest.mark.parametrize("seed", range(10))
def test_rows_of_a_matrix_are_pixels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, columns = (int(n) for n in rng.integers(1, 9, 3))
    x, y = Tensor("x", (rows, depth), "int8"), Tensor("y", (rows, columns), "int8")
    loops = [Loop("pixels", int(rng.integers(1, 4))), Loop("channels", int(rng.integers(1, 4)))]
    access = kernel_access(loops, "rows", {"rows": rows}, _types(x, y), [x], [y])
    assert access is not None
    image = replace(x, shape=(1, 1, rows, depth)), replace(y, shape=(1, 1, rows, columns))
    fields = {"filter_h": 1, "filter_w": 1, "stride_h": 1, "stride_w": 1}
    fields |= {"dilation_h": 1, "dilation_w": 1, "pad_top": 0, "pad_left": 0}
    expected = np.concatenate(
        [times.reshape(-1) for times in _simulated(loops, "window", fields, *image)]
    )
    assert _same_order(np.concatenate([access.last_read[0], access.first_write[0]]), expected)


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("batches", [1, 3])
def test_a_mean_without_dimensions_walks_the_same(cpu: str, batches: int) -> None:
    x = Tensor("x", (batches, 5, 4, 24), "int8", Quant((0.05,), (3,)))
    axes = Tensor("axes", (2,), "int32", None, np.array([1, 2], np.int32))
    found = []
    for keep, shape in ((True, (batches, 1, 1, 24)), (False, (batches, 24))):
        attributes = ReductionAttributes(keep_dims=keep)
        node = Node("MEAN", ("x", "axes"), ("y",), attributes, rounding=Rounding.NEAREST_EVEN)
        y = Tensor("y", shape, "int8", Quant((0.03,), (-2,)))
        call = candidates(node, [x, axes], [y], get_cpu(cpu))[0]
        assert isinstance(call, KernelCall)
        assert call.kernel.requires
        access = access_of(call, [x], [y])
        assert access is not None
        found.append([access.last_read[0].tolist(), access.first_write[0].tolist()])
    assert found[0] == found[1]


# How far buffers may overlap ---------------------------------------------------------------------


def _access(last_read: Array, first_write: Array, types: tuple[str, str] = ("void",) * 2) -> Access:
    steps = int(max(last_read.max(), first_write.max())) + 1
    narrow = last_read.astype(np.int32), first_write.astype(np.int32)
    return Access(steps, narrow[:1], narrow[1:], types[:1], types[1:])


def _forbidden(last_read: Array, first_write: Array) -> set[int]:
    """Every difference at which some byte is written before it was read, tried one by one."""
    found = set()
    for d in range(-first_write.size, last_read.size + 1):
        start, end = max(0, d), min(last_read.size, d + first_write.size)
        if start < end and (first_write[start - d : end - d] < last_read[start:end]).any():
            found.add(d)
    return found


@pytest.mark.parametrize("seed", range(200))
def test_differences_are_exact_but_for_gaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, 2)
    spread = int(rng.integers(1, 12))
    times = [rng.integers(-1, spread, n) for n in sizes]
    if seed % 2:
        # Mostly in order, as kernels go.
        times = [np.sort(t) for t in times]
    last_read, first_write = times[0], np.maximum(times[1], 0)
    found = differences_of(_access(last_read, first_write), 0, 0)
    forbidden = _forbidden(last_read, first_write)
    for d in range(-40, 41):
        between = bool(forbidden) and min(forbidden) <= d <= max(forbidden)
        assert found.allow(d) == (not between or (d == 0 and 0 not in forbidden)), d
        assert found.reversed().allow(-d) == found.allow(d)
    other = apart(int(sizes[0]), int(sizes[1]))
    both = found.union(other)
    for d in range(-40, 41):
        assert not both.allow(d) or (found.allow(d) and other.allow(d))


def test_memory_of_one_type_is_not_seen_as_another() -> None:
    never = np.full(8, NEVER)
    for types, may_overlap in (
        (("float", "float"), True),
        (("float", "int8_t"), True),
        (("int8_t", "float"), True),
        (("int32_t", "float"), False),
    ):
        found = differences_of(_access(never, np.zeros(8), types), 0, 0)
        assert found == (ForbiddenInterval(0, 0) if may_overlap else ForbiddenInterval(-8, 8))


@pytest.mark.parametrize("seed", range(20))
def test_every_gap_is_found(seed: int) -> None:
    """Of two buffers that are read and written in random order, by trying every difference."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 12))
    reads = np.repeat(rng.integers(NEVER, steps, int(rng.integers(1, 20))), rng.integers(1, 4))
    writes = np.repeat(rng.integers(0, steps, int(rng.integers(1, 20))), rng.integers(1, 4))
    found = all_forbidden(reads.astype(np.int32), writes.astype(np.int32))
    for difference in range(-writes.size - 2, reads.size + 3):
        read, written = reads[max(0, difference) :], writes[max(0, -difference) :]
        both = min(read.size, written.size)
        assert found.allow(difference) == bool((written[:both] >= read[:both]).all())
        assert found.reversed().allow(-difference) == found.allow(difference)


def test_a_union_keeps_the_gaps_of_both() -> None:
    one = ForbiddenInterval(-10, 10, ((-5, -2), (3, 4)))
    other = ForbiddenInterval(-4, 20, ((3, 6), (12, 12)))
    found = one.union(other)
    assert found == ForbiddenInterval(-10, 20, ((-5, -4), (3, 4), (12, 12)))
    for d in range(-12, 23):
        assert found.allow(d) == (one.allow(d) and other.allow(d))


def _closed_formula(fields: dict[str, int], x: Tensor, y: Tensor, pixels: int) -> int:
    """memory.md's smallest ``offset(in) - offset(out)`` for groups of so many pixels."""
    (_, height, width, in_c), (_, out_h, out_w, out_c) = x.shape, y.shape
    distances = []
    for h, w in itertools.product(range(height), range(width)):
        row = min((h + fields["pad_top"]) // fields["stride_h"], out_h - 1)
        col = min((w + fields["pad_left"]) // fields["stride_w"], out_w - 1)
        group = (row * out_w + col) // pixels
        distances.append(out_c * pixels * group - in_c * (h * width + w))
    return max(distances)


@pytest.mark.parametrize("pixels", [1, 2, 3])
def test_the_closed_formula_comes_out(pixels: int) -> None:
    rng = np.random.default_rng(pixels)
    overlapping = 0
    for _ in range(60):
        size, stride = int(rng.integers(1, 6)), int(rng.integers(1, 3))
        height, width, in_c, out_c = (int(n) for n in rng.integers(1, 9, 4))
        fields = {"filter_h": size, "filter_w": size, "stride_h": stride, "stride_w": stride}
        out = []
        for name, n in (("pad_top", height), ("pad_left", width)):
            out.append(-(-n // stride))
            fields[name] = max((out[-1] - 1) * stride + size - n, 0) // 2
        # Places that no window reads are nobody's hazard, which the formula does not see.
        if size < stride:
            continue
        x, y = Tensor("x", (1, height, width, in_c), "int8"), Tensor("y", (1, *out, out_c), "int8")
        access = kernel_access([Loop("pixels", pixels)], "window", fields, _types(x, y), [x], [y])
        assert access is not None
        found, expected = differences_of(access, 0, 0), _closed_formula(fields, x, y, pixels)
        assert min(found.low, 0) == -expected
        overlapping += expected < y.nbytes
    assert overlapping > 20


W, C = 12, 8


@pytest.mark.parametrize(
    ("kind", "size", "stride", "height", "in_c", "out_c", "distance"),
    [
        ("3x3", 3, 1, 10, C, C, (W + 1) * C),
        ("1x1", 1, 1, 10, C, C, 0),
        ("1x1, fewer channels", 1, 1, 10, C, 5, 0),
        ("3x3, stride 2, even size", 3, 2, 12, C, C, 0),
        ("1x1, stride 2", 1, 2, 12, C, 2 * C, 0),
    ],
)
def test_the_table_of_distances(
    kind: str, size: int, stride: int, height: int, in_c: int, out_c: int, distance: int
) -> None:
    out_h, out_w = -(-height // stride), -(-W // stride)
    pad = max((out_h - 1) * stride + size - height, 0) // 2
    fields = {"filter_h": size, "filter_w": size, "stride": stride, "pad_top": pad, "pad_left": pad}
    x = Tensor("x", (1, height, W, in_c), "int8")
    y = Tensor("y", (1, out_h, out_w, out_c), "int8")
    access = kernel_access([Loop("pixels", 1)], "window", fields, _types(x, y), [x], [y])
    assert access is not None
    found = differences_of(access, 0, 0)
    assert min(found.low, 0) == -distance


def test_only_consecutive_channels_work_in_place() -> None:
    x = Tensor("x", (1, 6, 6, 4), "int8")
    fields = {"filter_h": 3, "filter_w": 3, "stride": 1, "pad_top": 1, "pad_left": 1}
    for loops, in_place in (([Loop("channels", 2)], True), ([Loop("rows", 1)], False)):
        access = kernel_access(loops, "channel window", fields, _types(x, x), [x], [x])
        assert access is not None
        found = differences_of(access, 0, 0)
        assert found.allow(0) == (found.gaps == ((0, 0),)) == in_place
        assert not found.allow(1)
        assert not found.allow(-1)


# The kernels themselves --------------------------------------------------------------------------


#: As firmware is compiled: what aliases what matters to optimisers only.
_OPTIMISED = ("-O2", "-fstrict-aliasing")


class _Single:
    """One call of a kernel with its tensors, arrays and results."""

    def __init__(
        self,
        node: Node,
        ins: Sequence[Tensor | None],
        outs: Sequence[Tensor],
        call: KernelCall,
        values: Sequence[Array | None],
        candidate: int,
    ) -> None:
        self.candidate = candidate
        self.node, self.ins, self.outs, self.call = node, tuple(ins), tuple(outs), call
        taken = [(self.ins[i], values[i]) for i in call.inputs]
        self.tensors = [t for t, _ in taken if t is not None]
        self.arrays = [array for _, array in taken if array is not None]
        self.expected = OPS[node.op].reference(node, ins, outs, values)
        self.access = access_of(call, self.tensors, outs)


def _scatter(
    rng: np.random.Generator, reduction: Any
) -> tuple[Node, Sequence[Tensor], Sequence[Tensor], Sequence[Array]]:
    """Blocks that are put into others, often one over another."""
    count, block, puts = (int(n) for n in rng.integers(1, 6, 3))
    values = [rng.integers(-9, 9, shape, np.int32) for shape in ((count, block), (puts, block))]
    values.insert(1, rng.integers(0, count, puts, np.int32))
    ins = [Tensor(n, v.shape, "int32") for n, v in zip(("x", "i", "u"), values, strict=True)]
    attrs = ScatterAttributes(reduction=reduction)
    node = Node("SCATTER", ("x", "i", "u"), ("y",), attrs)
    return node, ins, [Tensor("y", ins[0].shape, "int32")], values


#: Operators with many kernels, of which few draws would miss one.
_MANY_KERNELS = ("QUANTIZE", "DEQUANTIZE", "GELU", "PRELU", "ADD", "SIGNAL_WINDOW")


def _singles(cpu: str) -> list[_Single]:
    """Layers of all kinds, by every kernel that the core has and others have not."""
    rng = np.random.default_rng(5)
    made: list[tuple[Node, Sequence[Tensor | None], Sequence[Tensor], Sequence[Array | None]]] = []
    for op, dtype in KINDS:
        # Of a conversion the other type is drawn as well, and each pair has a kernel of its own.
        for _ in range(12 if op in _MANY_KERNELS else 4):
            single = random_op(rng, op, dtype)
            made.append((single.node, single.ins, single.outs, single.values))
    for op, dtype in ONNX_KINDS:
        for _ in range(6 if op == "LOOKUP" else 1):
            single = random_op(rng, op, dtype)
            made.append((single.node, single.ins, single.outs, single.values))
    for op, dtype in EVEN_KINDS:
        # Products of int16 take another kernel where their zero points are far apart.
        for ties in (False, True) * (12 if (op, dtype) == ("MUL", "int16") else 4):
            with suppress(HilError):
                single = even_op(rng, op, dtype, ties)
                made.append((single.node, single.ins, single.outs, single.values))
    for op, dtype in itertools.product(
        ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), ARITHMETIC
    ):
        for _ in range(8 if dtype == "float32" else 16):
            layer = random_layer(rng, op, dtype, explicit_padding=True)
            values = [layer.x, *(None if t is None else t.data for t in layer.ins[1:])]
            made.append((layer.node, layer.ins, (layer.out,), values))
    for dtype in ARITHMETIC:
        for _ in range(12):
            layer = grouped_layer(rng, dtype)
            made.append((layer.node, layer.ins, layer.outs, layer.values))
    for _ in range(4):
        single = float_slopes(rng, "PRELU", "int8")
        made.append((single.node, single.ins, single.outs, single.values))
    made += [_scatter(rng, reduction) for reduction in WAYS for _ in range(3)]
    for bias in BIASES:
        for depth in (1, 2, 7):
            wide = operator(rng, bias, depth=depth)
            made.append((wide.node, wide.ins, wide.outs, wide.values))
    for op, long in itertools.product(("CONV_2D", "FULLY_CONNECTED"), (False, True)):
        for _ in range(3):
            drawn = random_layer(rng, op, "int16", explicit_padding=True)
            once = even_layer(rng, drawn, zero_points=True, wide_weights=long)
            made.append((once.node, once.ins, once.outs, once.values))
    return [
        _Single(node, ins, outs, call, values, candidate)
        for node, ins, outs, values in made
        for candidate, call in enumerate(candidates(node, ins, outs, get_cpu(cpu)))
        if isinstance(call, KernelCall) and bool(call.kernel.requires) == (cpu != "host")
    ]


@pytest.mark.full
@pytest.mark.parametrize("cpu", sampled(["host", "cortex-m3", "cortex-m4"], keep=["cortex-m4"]))
def test_kernels_with_the_largest_allowed_overlap(cpu: str) -> None:
    cases, expected = [], []
    for single in _singles(cpu):
        if single.access is None:
            continue
        item = max(t.nbytes // t.size for t in (*single.tensors, *single.outs))
        shapes = [(t.shape, t.dtype) for t in single.outs]
        for position, tensor in enumerate(single.tensors):
            found = differences_of(single.access, position, 0)
            for d in borders(found, tensor.nbytes, single.outs[0].nbytes, item):
                cases.append(
                    Case(single.call, single.arrays, shapes, in_place=position, difference=d)
                )
                expected.append(single.expected)
    # Nothing of a portable kernel is left out that promises anything.
    promising = {name for name, k in kernels().items() if k.order != "none" and not k.requires}
    tested = {case.call.kernel.name for case in cases}
    assert len(cases) > (100 if cpu == "host" else 20)
    if cpu == "host":
        assert promising - tested == set()
    for case, results, wanted in zip(
        cases, kernel_runner.run(cases, flags=_OPTIMISED), expected, strict=True
    ):
        what = f"{case.call.kernel.name} at {case.difference} {dict(case.call.fields)}"
        for result, right in zip(results, wanted, strict=True):
            if right.dtype.kind == "f":
                np.testing.assert_allclose(result, right, 2e-6, 1e-30, err_msg=what)
            else:
                np.testing.assert_array_equal(result, right, err_msg=what)


@pytest.mark.parametrize(
    "cpu",
    sampled(["host", "cortex-m3", "cortex-m4", "cortex-m55"], keep=["cortex-m4", "cortex-m55"]),
)
def test_one_byte_less_is_caught(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each kernel that overlaps: what the planner may do passes the checker, no byte more."""
    monkeypatch.setattr(hazards, "ALIGNMENT", 1)
    caught: set[str] = set()
    for single in _singles(cpu):
        names = [t.name for t in single.tensors if not t.is_constant]
        # Constants may be parameters of the kernel; where one is an operand before another operand,
        # positions shift.
        operands = len(names) == len(single.call.kernel.inputs) or names == [
            t.name for t in single.tensors[: len(names)]
        ]
        if single.access is None or not names or not operands or len(single.outs) != 1:
            continue
        given = {t.name: t for t in single.ins if t is not None}
        tensors = {**given, **{t.name: t for t in single.outs}}
        inputs = [n for n in dict.fromkeys(names)]
        graph = Graph("g", tensors, (single.node,), tuple(inputs), (single.node.name,))
        chosen = KernelSelection({single.node.name: single.call.variant})
        program = plan(graph, get_cpu(cpu), io_in_pool=True, choice=chosen)
        nbytes = sum(t.nbytes for t in tensors.values()) * 3
        if not program.steps:
            continue
        for position, operand in enumerate(inputs):
            found = differences_of(single.access, position, 0)
            start = nbytes // 3
            # Everything else lies beyond.
            beyond = iter(range(nbytes, 9 * nbytes, nbytes))
            refs = {name: BufferRef("pool", next(beyond)) for name in inputs}
            refs[operand] = BufferRef("pool", start)
            step = program.steps[0]
            if step.scratch is not None:
                step = replace(step, scratch=BufferRef("pool", next(beyond)))
            pool = replace(program.pools[0], nbytes=9 * nbytes + single.call.scratch_bytes)
            moved = replace(program, steps=(step,), pools=(pool,), workspace_bytes=pool.nbytes)
            for d, allowed in (
                (found.low, True), (found.low + 1, False),
                (found.high, True), (found.high - 1, False), (0, found.allow(0)),
            ):  # fmt: skip
                if found.low >= found.high or (d == 0 and found.gaps and not allowed):
                    continue
                refs[single.node.name] = BufferRef("pool", start + d)
                damaged = replace(moved, buffers={**program.buffers, **refs})
                if allowed or found.allow(d):
                    check_plan(damaged)
                    continue
                with pytest.raises(PlanError, match=f"over its input '{operand}': byte"):
                    check_plan(damaged)
                caught.add(single.call.kernel.name)
    promising = {
        name
        for name, kernel in kernels().items()
        if kernel.order != "none"
        and not kernel.requires
        # Of several outputs, states are tested where they are updated (test_recurrent).
        and len(kernel.outputs) == 1
        and kernel.outputs[0][-1] != "]"
    }
    assert len(caught) > (8 if cpu == "host" else 1)
    if cpu == "host":
        assert promising - caught == set()


# What headers may state --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "reads", "message"),
    [
        ("sideways", "", "order 'sideways'"),
        ("elementwise", "window", "reads 'window'"),
        ((("pixels", "3"),), "", "reads ''"),
        ("walk", "rows", "reads 'rows'"),
    ],
)
def test_an_order_that_means_nothing_is_refused(order: Any, reads: str, message: str) -> None:
    cost = Cost({"cortex-m3": {"call": 1}})
    with pytest.raises(ValueError, match=message):
        Kernel("k", "k.h", frozenset(), ("int8_t",), ("int8_t",), "0", cost, order, reads)


def test_a_window_that_nothing_describes_is_refused() -> None:
    x = Tensor("x", (1, 4, 4, 2), "int8")
    with pytest.raises(KeyError, match="filter_h"):
        kernel_access([Loop("rows", 1)], "window", {"stride": 1}, _types(x, x), [x], [x])
