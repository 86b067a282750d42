"""Fits the tables of what kernels cost to counts on emulated boards.

    measure.py costs measure [BOARD...]   counts the models' layers and odd ones, one file a board
                                          (--operator NAME: random layers of this alone;
                                          --shared: code that layers share for the goal size)
    measure.py costs errors               shows how far the estimates are off these counts, and
                                          writes it into the tables
    measure.py costs fit [KERNEL...]      writes the figures that are off least into the tables

The tables are compiler/hilc/target/costs/CORE.toml.

Fitting changes figures only. What a kernel's count depends on is for its author to say.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from even_ops import KINDS as EVEN_KINDS
from even_ops import even_op
from figures import figures_table
from models import FLOAT_MODELS, INT8_MODELS, model_path
from single_op import KINDS, ONNX_KINDS, merged, random_op

import hil
import hilc
from hil.board import load_board
from hil.errors import BuildError
from hil.verify.bench import layer_counts
from hilc.external import ExternalCall
from hilc.ir import ELEMENT_TYPES, Array, Graph, Node, Quant, Rounding, Tensor
from hilc.lowering import candidates, cost
from hilc.lowering.bodies import BodySharing
from hilc.lowering.choice import KernelSelection
from hilc.lowering.cost_tables import FOLDER as COSTS
from hilc.lowering.cost_tables import CostError, TableRow, shipped_costs, write_costs
from hilc.lowering.kernels import Kernel, KernelCall, kernels
from hilc.ops import OPS
from hilc.source import prepare
from hilc.target import Cpu, get_cpu

ROOT = Path(__file__).resolve().parents[1]

FOLDER = ROOT / "build" / "costs"
#: A board of each core that figures are for.
LARGE_M0 = str(ROOT / "tools" / "boards" / "large-m0.toml")
RV32F = str(ROOT / "tools" / "boards" / "rv32f.toml")
BOARDS = ("mps2-an385", "mps2-an386", "mps2-an505", "mps3-an547", LARGE_M0, "riscv-virt", RV32F)
CORES = (
    *("cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55", "cortex-m0"),
    *("rv32imac", "rv32imafc"),
)
#: The source of layers that are no model's.
ODD = "odd"
#: By how much a multiple of another core's figures may be off, in the median and for nine layers of
#: ten.
NEAR, FAR = 0.05, 0.1
#: A larger multiple is no cost of sharing: the estimate for code of a layer's own is off.
_MOST_SHARED = 4
_LAYERS_AN_IMAGE = 24
_OF_EACH_KIND = 4
_OF_FEW_KINDS = 16


# The layers that are counted --------------------------------------------------------------------


class _Layers:
    """A graph of layers beside each other, each with its own input and output."""

    def __init__(self, dtype: str, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._dtype = dtype
        self._wide = dtype == "int16"
        self._tensors: dict[str, Tensor] = {}
        self._nodes: list[Node] = []
        self._inputs: list[str] = []

    def graphs(self) -> Iterator[Graph]:
        for start in range(0, len(self._nodes), _LAYERS_AN_IMAGE):
            nodes = tuple(self._nodes[start : start + _LAYERS_AN_IMAGE])
            names = dict.fromkeys(n for node in nodes for n in (*node.inputs, *node.outputs))
            tensors = {name: self._tensors[name] for name in names}
            inputs = tuple(name for name in self._inputs if name in tensors)
            outputs = tuple(node.name for node in nodes)
            yield Graph("layers", tensors, nodes, inputs, outputs)

    def conv(
        self,
        h: int,
        w: int,
        depth: int,
        channels: int,
        size: int,
        stride: int = 1,
        pad: Any = "SAME",
    ) -> None:
        shape = (channels, size, size, depth)
        self._linear("CONV_2D", (1, h, w, depth), shape, _window(stride, pad), size * size * depth)

    def line(
        self, w: int, depth: int, channels: int, taps: int, stride: int = 1, dilation: int = 1
    ) -> None:
        attrs = {**_window(stride, "VALID"), "dilation_w": dilation}
        self._linear("CONV_2D", (1, 1, w, depth), (channels, 1, taps, depth), attrs, taps * depth)

    def depthwise(
        self,
        h: int,
        w: int,
        channels: int,
        size: int = 3,
        stride: int = 1,
        pad: Any = "SAME",
        filters: int = 1,
    ) -> None:
        attrs = {**_window(stride, pad), "depth_multiplier": filters}
        shape = (1, size, size, channels * filters)
        self._linear("DEPTHWISE_CONV_2D", (1, h, w, channels), shape, attrs, size * size)

    def fully_connected(self, rows: int, depth: int, channels: int) -> None:
        self._linear("FULLY_CONNECTED", (rows, depth), (channels, depth), {}, depth)

    def pool(self, op: str, h: int, w: int, channels: int, size: int, stride: int) -> None:
        attrs = {"filter_h": size, "filter_w": size, **_window(stride, "VALID")}
        self._add(op, [self._input((1, h, w, channels))], attrs, self._quant())

    def add(self, h: int, w: int, channels: int, rival: float = 0.7) -> None:
        shape = (1, h, w, channels)
        a, b = self._input(shape, scale=0.05), self._input(shape, scale=0.05 * rival)
        self._add("ADD", [a, b], {"activation": "RELU"}, self._quant(0.06))

    def softmax(self, depth: int) -> None:
        quant = Quant((2.0**-15,), (0,)) if self._wide else self._quant(1 / 256, -128)
        self._add("SOFTMAX", [self._input((1, depth))], {"beta": 1.0}, quant)

    def _quant(self, scale: float = 0.05, zero_point: int = -128) -> Quant | None:
        if self._wide:
            return Quant((scale / 256,), (0,))
        return Quant((scale,), (zero_point,)) if self._dtype == "int8" else None

    def _input(self, shape: tuple[int, ...], scale: float = 0.05) -> str:
        name = f"x{len(self._tensors)}"
        self._tensors[name] = Tensor(name, shape, self._dtype, self._quant(scale))
        self._inputs.append(name)
        return name

    def _linear(
        self, op: str, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any], depth: int
    ) -> None:
        axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
        channels = w[axis]
        mark = len(self._tensors)
        if self._dtype != "float32":
            weights: Any = self._rng.normal(0, 40, w).round().clip(-127, 127).astype(np.int8)
            bias: Any = self._rng.integers(-999, 999, channels).astype(
                ELEMENT_TYPES[self._dtype].biases[0]
            )
            scales = tuple(self._rng.uniform(0.002, 0.004, channels).tolist())
            w_quant = Quant(scales, (0,) * channels, axis)
        else:
            weights = self._rng.standard_normal(w).astype(np.float32)
            bias = self._rng.standard_normal(channels).astype(np.float32)
            w_quant = None
        self._tensors[f"w{mark}"] = Tensor(f"w{mark}", w, str(weights.dtype), w_quant, weights)
        self._tensors[f"b{mark}"] = Tensor(f"b{mark}", (channels,), str(bias.dtype), None, bias)
        out = self._quant(0.05 * 0.003 * 40 * 70 * depth**0.5 / 50)
        inputs = [self._input(x), f"w{mark}", f"b{mark}"]
        self._add(op, inputs, {"activation": "RELU", **attrs}, out)

    def _add(
        self, op: str, inputs: Sequence[str], attrs: dict[str, Any], out: Quant | None
    ) -> None:
        name = f"y{len(self._tensors)}"
        node = Node(op, tuple(inputs), (name,), OPS[op].attributes(**attrs), index=len(self._nodes))
        if self._wide and OPS[op].weights is not None:
            node = replace(node, rounding=Rounding.SINGLE)
        ((shape, dtype),) = OPS[op].infer(node, [self._tensors[n] for n in inputs])
        self._tensors[name] = Tensor(name, shape, dtype, out)
        self._nodes.append(node)


def _window(stride: int, pad: Any) -> dict[str, Any]:
    return {"stride_h": stride, "stride_w": stride, "padding": pad}


def odd_layers(dtype: str) -> Iterator[Graph]:
    """Layers unlike those of the models: odd sizes, few channels, bands of a few rows."""
    layers = _Layers(dtype, seed=1)
    for h, w, depth, channels in (
        (5, 5, 16, 16), (1, 1, 100, 50), (7, 3, 8, 16), (1, 5, 64, 64), (1, 32, 16, 32),
        (3, 12, 48, 24), (2, 24, 16, 32), (9, 9, 5, 7), (1, 3, 256, 128), (1, 48, 8, 16),
    ):  # fmt: skip
        layers.conv(h, w, depth, channels, 1)
    for h, w, depth, channels, size, stride in (
        (9, 9, 16, 16, 3, 1), (8, 8, 3, 8, 3, 2), (12, 10, 4, 10, 3, 1), (3, 32, 16, 16, 3, 1),
        (11, 11, 1, 16, 5, 2), (6, 6, 32, 40, 3, 1), (7, 7, 64, 16, 3, 2), (16, 16, 8, 8, 1, 2),
        (13, 9, 24, 12, 3, 1), (20, 20, 3, 12, 3, 1),
    ):  # fmt: skip
        layers.conv(h, w, depth, channels, size, stride)
    # A band of a streamed layer: no rows are added above and below.
    for h, w, depth, channels in ((3, 32, 16, 16), (3, 16, 32, 32), (4, 10, 8, 16)):
        layers.conv(h, w, depth, channels, 3, 1, (0, 0, 1, 1))
    # Signals.
    for w, depth, channels, taps, stride, dilation in (
        (34, 32, 32, 3, 1, 1), (40, 16, 24, 3, 1, 4), (49, 8, 15, 5, 1, 1), (60, 16, 16, 5, 2, 1),
        (43, 32, 20, 5, 2, 1), (38, 12, 32, 7, 1, 1), (33, 64, 16, 3, 2, 1), (26, 24, 10, 3, 1, 3),
        (29, 8, 32, 9, 1, 1), (48, 4, 12, 4, 1, 1), (30, 40, 10, 3, 1, 1), (66, 20, 17, 3, 1, 16),
    ):  # fmt: skip
        layers.line(w, depth, channels, taps, stride, dilation)
    for h, w, channels, size, stride in (
        (5, 5, 16, 3, 1), (9, 7, 24, 3, 1), (12, 12, 8, 3, 2), (3, 3, 40, 3, 1), (24, 24, 8, 3, 1),
        (6, 6, 64, 3, 2), (7, 15, 12, 3, 2), (10, 10, 6, 5, 1), (25, 5, 32, 3, 1), (2, 2, 64, 3, 1),
        (8, 8, 24, 5, 1), (16, 16, 16, 5, 2), (12, 10, 27, 5, 1), (7, 7, 264, 5, 1),
    ):  # fmt: skip
        layers.depthwise(h, w, channels, size, stride)
    for h, w, channels, stride in ((3, 5, 64, 1), (3, 48, 16, 2), (4, 24, 32, 1), (3, 12, 64, 1)):
        layers.depthwise(h, w, channels, 3, stride, (0, 0, 1, 1))
    # Several filters a channel.
    for h, w, channels, size, stride, filters in (
        (16, 16, 4, 3, 1, 8), (16, 16, 16, 3, 1, 2), (20, 20, 3, 5, 2, 4), (9, 7, 12, 5, 1, 3),
        (12, 12, 8, 3, 2, 8), (9, 7, 13, 3, 1, 3), (25, 5, 16, 3, 1, 4), (12, 12, 5, 3, 2, 3),
    ):  # fmt: skip
        layers.depthwise(h, w, channels, size, stride, filters=filters)
    for rows, depth, channels in (
        (1, 33, 10),
        (1, 200, 64),
        (4, 64, 32),
        (2, 128, 20),
        (1, 640, 30),
    ):
        layers.fully_connected(rows, depth, channels)
    if dtype == "int16":
        # Sums beyond 32 bits, and a little below.
        for rows, depth, channels in ((1, 2048, 12), (1, 1500, 9), (3, 2560, 10), (2, 1200, 16)):
            layers.fully_connected(rows, depth, channels)
        layers.conv(4, 4, 256, 8, 3, 1)
        layers.conv(3, 3, 300, 7, 3, 2)
    for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        layers.pool(op, 6, 6, 32, 2, 2)
        layers.pool(op, 9, 9, 12, 3, 3)
        layers.pool(op, 8, 8, 64, 8, 8)
    layers.add(8, 8, 16)
    layers.add(5, 7, 9)
    layers.add(8, 8, 32, 1.5)
    layers.softmax(10)
    layers.softmax(37)
    yield from layers.graphs()


# Measuring --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Count:
    """One layer's count, with what its formula may look at."""

    source: str
    core: str
    kernel: str
    fields: dict[str, float]
    count: int
    #: Of the layer's own function.
    code: int
    #: Whether the code was shared by layers of other numbers, which it read from memory.
    shared: bool = False

    @property
    def estimate(self) -> int:
        """Instructions by the kernel's cost."""
        cost = kernels()[self.kernel].cost
        return cost.instructions(self.fields, get_cpu(self.core), shared=self.shared)

    @property
    def error(self) -> float:
        """By how much the estimate is more than the count, as a part of it."""
        return self.estimate / max(1, self.count) - 1


_MODELS = {"int8": INT8_MODELS, "int16": (), "float32": FLOAT_MODELS}


def small_layers(operators: Sequence[str] = ()) -> Iterator[tuple[Graph, Mapping[str, Array]]]:
    """Random layers of every operator without weights, in each of its types and with each of its
    roundings; or more layers of some operators. With inputs, since those that are positions must
    lie inside.
    """
    rng = np.random.default_rng(2)
    count = _OF_FEW_KINDS if operators else _OF_EACH_KIND
    singles = [
        draw(rng, op, dtype)
        for draw, kinds in ((random_op, (*KINDS, *ONNX_KINDS)), (even_op, EVEN_KINDS))
        for op, dtype in kinds
        if not operators or op in operators
        for _ in range(count)
    ]
    for start in range(0, len(singles), _LAYERS_AN_IMAGE):
        yield merged(singles[start : start + _LAYERS_AN_IMAGE])


def measure(
    board_name: str, dtypes: Sequence[str], models: bool = True, shared: bool = False
) -> list[Count]:
    """Return the counts of every kernel of every layer on a board, as far as it holds them; if
    ``shared``, of layers with weights, pools and the like, whose code layers of other numbers
    share.
    """
    counts: list[Count] = []
    for graph, values in () if shared else small_layers():
        counts += _measured_parts(board_name, graph, values, shared)
    for dtype in dtypes:
        for model in _MODELS[dtype] if models else ():
            try:
                counts += count_model(board_name, model, shared=shared)
            except BuildError as error:
                print(f"{board_name}: {model} is left out: {error.fact.splitlines()[0]}")
        for graph in odd_layers(dtype):
            counts += _measured_parts(board_name, graph, shared=shared)
    return counts


def _measured_parts(
    board_name: str,
    graph: Graph,
    values: Mapping[str, Array] | None = None,
    shared: bool = False,
) -> list[Count]:
    """Return the counts of layers beside each other, for ``values`` or random ones; in halves where
    a board does not hold them.
    """
    try:
        return count_model(board_name, ODD, graph, values, shared)
    except BuildError:
        if len(graph.nodes) == 1:
            return []
    middle = len(graph.nodes) // 2
    halves = (_part(graph, half) for half in (graph.nodes[:middle], graph.nodes[middle:]))
    return [count for half in halves for count in _measured_parts(board_name, half, values, shared)]


def _part(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Return the graph of some of the layers."""
    names = dict.fromkeys(n for node in nodes for n in (*node.inputs, *node.outputs) if n)
    tensors = {name: graph.tensors[name] for name in names}
    inputs = tuple(name for name in graph.inputs if name in tensors)
    outputs = tuple(name for name in graph.outputs if name in tensors)
    return Graph(graph.name, tensors, tuple(nodes), inputs, outputs)


def count_model(
    board_name: str,
    name: str,
    graph_: Graph | None = None,
    values: Mapping[str, Array] | None = None,
    shared: bool = False,
) -> list[Count]:
    """Return the counts of every kernel of every layer of a model, or of a graph of that name; if
    ``shared``, of those whose code layers of other numbers share.
    """
    model = model_path(name) if graph_ is None else graph_
    board = load_board(board_name)
    cpu = get_cpu(board.cpu.name)
    # Layers of double precision compute in floats beside the integers.
    graph = prepare(model, "m", cpu, allow_float=True).graph
    calls: dict[str, Sequence[KernelCall | ExternalCall]] = {
        node.name: candidates(node, graph.ins(node), graph.outs(node), cpu)
        for node in graph.nodes
        if not OPS[node.op].view
    }
    if shared:
        general = {
            name: [c for c in own if isinstance(c, KernelCall) and not c.kernel.requires]
            for name, own in calls.items()
        }
        calls |= {name: own for name, own in general.items() if own}
    counts: list[Count] = []
    for position in range(max(map(len, calls.values()), default=0)):
        chosen = {n: found[min(position, len(found) - 1)] for n, found in calls.items()}
        sharing = _sharing(chosen, cpu)
        if shared and not sharing:
            continue
        library = hilc.compile(
            model, name="m", cpu=cpu.name, pools="external", io_in_pool=True,
            optimize="size" if shared else "speed", allow_float=True,
            choice=KernelSelection({n: call.variant for n, call in chosen.items()}),
        )  # fmt: skip
        (module,) = library.modules
        with hil.open(board, library) as device:
            sample = None if values is None else {x.name: values[x.name] for x in module.inputs}
            found = layer_counts(device, module, sample=sample)
            assert device.firmware is not None
            sizes = _function_sizes(device.firmware.elf, cpu.toolchain.program("nm"))
        for layer, count in zip(module.layers, found, strict=True):
            offered = calls.get(layer.name, ())
            call = offered[position] if position < len(offered) else None
            if not isinstance(call, KernelCall) or (shared and layer.name not in sharing):
                continue
            scalars = {k: float(v) for k, v in call.fields.items() if isinstance(v, int | float)}
            code = sizes.get(layer.function, 0)
            counts.append(Count(name, cpu.name, call.kernel.name, scalars, count, code, shared))
    return counts


def _sharing(calls: Mapping[str, KernelCall | ExternalCall], cpu: Cpu) -> Set[str]:
    """Return the layers whose code, for the goal size, layers of other numbers share."""
    own = {name: call for name, call in calls.items() if isinstance(call, KernelCall)}
    bodies = BodySharing(own.values(), "size", cpu)
    return {name for name, call in own.items() if bodies.reads_numbers(call)}


def _function_sizes(elf: Path, nm: str) -> dict[str, int]:
    command = [nm, "-S", str(elf)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4}


# How far the estimates are off ------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """Of the estimates of a kernel on a core."""

    kernel: str
    core: str
    layers: int
    #: Of what the estimates are off, more or less.
    median: float
    #: Of the layer whose estimate is off most.
    worst: float
    at: Count


def errors(counts: Iterable[Count]) -> list[Errors]:
    """Return, by kernel and core, how far the estimates are off the counts of layers with code of
    their own.
    """
    groups: dict[tuple[str, str], list[Count]] = {}
    for count in counts:
        if count.kernel in kernels() and not count.shared:
            groups.setdefault((count.kernel, count.core), []).append(count)
    found = []
    for (kernel, core), own in sorted(groups.items()):
        at = max(own, key=lambda count: abs(count.error))
        median = statistics.median(abs(count.error) for count in own)
        found.append(Errors(kernel, core, len(own), median, at.error, at))
    return found


def errors_table(counts: Iterable[Count]) -> str:
    """Kernel by kernel, core by core, in a table."""
    rows = [
        [e.kernel, e.core, str(e.layers), f"{e.median:.1%}", f"{e.worst:+.1%}"]
        for e in errors(counts)
    ]
    return figures_table(["kernel", "core", "layers", "median error", "worst"], rows)


def write_errors(counts: Iterable[Count]) -> None:
    """Write how far the estimates are off into the tables; kernels without counts keep theirs."""
    rows = {kernel: dict(own) for kernel, own in shipped_costs().items()}
    for found in errors(counts):
        on = rows[found.kernel]
        if found.core in on:
            error = CostError(found.layers, round(found.median, 3), round(found.worst, 3))
            on[found.core] = replace(on[found.core], error=error)
    write_costs(COSTS, rows)


def recorded(folder: Path = FOLDER) -> list[Count]:
    """Return what ``measure`` has counted."""
    paths = sorted(folder.glob("*.json"))
    return [Count(**count) for path in paths for count in json.loads(path.read_text())]


# Fitting ----------------------------------------------------------------------------------------


def fit(counts: Sequence[Count], only: Sequence[str] = (), cores: Sequence[str] = ()) -> None:
    """Write the figures that the counts give into the tables, for all cores or some."""
    rows = {kernel: dict(own) for kernel, own in shipped_costs().items()}
    for name, found in _by_kernel(counts, only, shared=False):
        kernel = kernels()[name]
        first = next(iter(kernel.cost.on))
        figures = {core: dict(own) for core, own in kernel.cost.on.items()}
        for core in dict.fromkeys((first, *CORES)):
            here = [c for c in found if c.core == core]
            if not here or (cores and core not in cores):
                continue
            if core == first:
                figures[core] = _fitted(kernel, here)
            else:
                figures[core] = _figures_beside(kernel, figures[first], here)
        before = rows.get(name, {})
        # Errors of figures that stay are still those.
        rows[name] = {
            core: replace(before[core], figures=own, error=None)
            if core in before and before[core].figures != own
            else before.get(core, TableRow(own))
            for core, own in figures.items()
        }
        code = round(statistics.median(c.code for c in found if c.core in (first, found[0].core)))
        _write_code(kernel, code)
    for name, found in _by_kernel(counts, only, shared=True):
        for core in dict.fromkeys(c.core for c in found):
            if not cores or core in cores:
                row = replace(
                    # A core without a line has the figures of the first one.
                    rows[name].get(core, TableRow({cost.FACTOR: 1.0})),
                    shared=_shared_figures(kernels()[name], [c for c in found if c.core == core]),
                )
                if core in rows[name] or row.shared:
                    rows[name][core] = row
    write_costs(COSTS, rows)


def _shared_figures(kernel: Kernel, counts: Sequence[Count]) -> dict[str, float]:
    """Those of code that layers share, beside those of the core's other code; none where these are
    near enough.
    """
    own = kernel.cost.figures(kernel.cost.core_of(get_cpu(counts[0].core)))
    # These layers are large: what a call takes is not in their counts.
    found = _figures_beside(kernel, own, counts, {cost.CALL: round(own.get(cost.CALL, 0), 1)})
    # It does more, whatever the estimate is off by, and no more than that.
    return found if 1 < found.get(cost.FACTOR, 2) <= _MOST_SHARED else {}


def _by_kernel(
    counts: Iterable[Count], only: Sequence[str], *, shared: bool
) -> Iterator[tuple[str, list[Count]]]:
    """Yield the counts of each kernel, or of some kernels, in code that layers share or not."""
    found: dict[str, list[Count]] = {}
    for count in counts:
        known = count.kernel in kernels() and (not only or count.kernel in only)
        if known and count.shared == shared:
            found.setdefault(count.kernel, []).append(count)
    yield from sorted(found.items())


def _figures_beside(
    kernel: Kernel,
    first: Mapping[str, float],
    counts: Sequence[Count],
    known: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, float]:
    """Those of a core beside the first: a factor where that comes near enough, else its own, among
    which are the ``known`` ones.
    """
    factor = round(
        statistics.median(
            max(1, c.count - cost.CALL_INSTRUCTIONS) / max(1.0, _total(kernel, first, c))
            for c in counts
        ),
        2,
    )
    scaled = {name: factor * each for name, each in first.items()}
    own = _fitted(kernel, counts, known)
    off, own_off = (
        sorted(abs(_total(kernel, f, c) / max(1, c.count) - 1) for c in counts)
        for f in (scaled, own)
    )
    # Most layers may be met while all shallow ones are far off, for which kernels are exchanged.
    better = any(
        off[at] > near and own_off[at] < off[at] / 2
        for at, near in ((len(off) // 2, NEAR), (len(off) * 9 // 10, FAR))
    )
    enough = len(counts) >= 2 * len(own)
    return own if better and enough else {cost.FACTOR: factor}


def _total(kernel: Kernel, figures: Mapping[str, float], count: Count) -> float:
    counted = kernel.cost.counted(count.fields)
    return sum(each * counted[name] for name, each in figures.items())


def _fitted(
    kernel: Kernel, counts: Sequence[Count], known: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """Return the figures, none of them negative, that are off least, relatively, beside those that
    are ``known``.
    """
    # A term without a figure is only a part of other terms' formulas.
    left_out = _helpers(kernel) | known.keys()
    names = [n for n in (cost.CALL, *kernel.cost.counts) if n not in left_out]
    rows = [kernel.cost.counted(c.fields) for c in counts]
    columns = [[row[name] for name in names] for row in rows]
    besides = [sum(each * row[n] for n, each in known.items()) for row in rows]
    goal = np.array(
        [
            max(1.0, c.count - cost.CALL_INSTRUCTIONS - beside)
            for c, beside in zip(counts, besides, strict=True)
        ]
    )
    # A layer that costs nothing to speak of need not be met; a model's should be met first.
    weight = np.array(
        [(3.0 if c.source != ODD else 1.0) / (g + 30.0) for c, g in zip(counts, goal, strict=True)]
    )
    matrix = np.array(columns)
    numbers = _least_squares(matrix * weight[:, None], goal * weight)
    for _ in range(20):
        # Weighed so, what is off by much counts no more than it is off: the median gets better.
        off = np.abs(matrix @ numbers - goal) / goal
        near = weight / np.sqrt(np.maximum(off, 0.01))
        numbers = _least_squares(matrix * near[:, None], goal * near)
    # What turned out not to matter would only be read.
    kept = {**known, **{n: float(f"{each:.4g}") for n, each in zip(names, numbers, strict=True)}}
    return {name: each for name, each in kept.items() if each >= 0.001}


def _helpers(kernel: Kernel) -> set[str]:
    """Return the counts that no core has a figure for: others are made of them."""
    named = {name for figures in kernel.cost.on.values() for name in figures}
    return set(kernel.cost.counts) - named


def _least_squares(matrix: Any, goal: Any) -> list[float]:
    """Numbers of at least 0, by Lawson's and Hanson's active sets."""
    count = matrix.shape[1]
    numbers, free = np.zeros(count), np.zeros(count, bool)
    for _ in range(10 * count):
        slope = matrix.T @ (goal - matrix @ numbers)
        slope[free] = -np.inf
        if slope.max() <= 1e-9:
            break
        free[int(slope.argmax())] = True
        while free.any():
            best = np.zeros(count)
            best[free] = np.linalg.lstsq(matrix[:, free], goal, rcond=None)[0]
            if best[free].min() > 0:
                break
            # As far as the first of them allows that would become negative, which is then fixed.
            falling = free & (best <= 0)
            share = (numbers[falling] / (numbers[falling] - best[falling] + 1e-30)).min()
            numbers = numbers + share * (best - numbers)
            free &= numbers > 1e-12
        numbers = np.where(free, best, 0.0)
    return [float(number) for number in numbers]


def _write_code(kernel: Kernel, code: int) -> None:
    """Put the bytes of code into the kernel's header, unless it states them."""
    path = ROOT / "compiler" / "runtime" / "include" / kernel.header
    text = path.read_text(encoding="utf-8")
    start = text.index(f'name = "{kernel.name}"')
    end = text.index("@*/", start)
    block = text[start:end]
    if not re.search(r"^code = ", block, re.M):
        head, bracket, tail = block.partition("[cost]")
        block = f"{head}code = {code}\n{bracket}{tail}"
    path.write_text(text[:start] + block + text[end:], encoding="utf-8")


def main() -> int:
    """Count, show or fit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    words = parser.add_subparsers(dest="word", required=True)
    measuring = words.add_parser("measure")
    measuring.add_argument("boards", nargs="*", help=f"default: {' '.join(BOARDS)}")
    measuring.add_argument("--int8", action="store_true", help="no float32 layers")
    measuring.add_argument("--no-models", action="store_true", help="odd layers only")
    measuring.add_argument("--shared", action="store_true", help="code that layers share")
    measuring.add_argument("--operator", action="append", help="random layers of this alone")
    words.add_parser("errors")
    fitting = words.add_parser("fit")
    fitting.add_argument("kernels", nargs="*", help="only these")
    fitting.add_argument("--core", action="append", choices=CORES, help="only this core's figures")
    args = parser.parse_args()
    if args.word == "measure":
        for board in args.boards:
            load_board(board)  # before anything is counted
        if unknown := set(args.operator or ()) - OPS.keys():
            parser.error(f"unknown operator {min(unknown)!r}: choose of {', '.join(OPS)}")
        FOLDER.mkdir(parents=True, exist_ok=True)
        for board in args.boards or BOARDS:
            dtypes = ("int8", "int16") if args.int8 else ("int8", "int16", "float32")
            if args.operator:
                counts = [
                    count
                    for graph, values in small_layers(args.operator)
                    for count in _measured_parts(board, graph, values, args.shared)
                ]
            else:
                counts = measure(board, dtypes, not args.no_models, args.shared)
            path = FOLDER / f"{Path(board).stem}{'_shared' if args.shared else ''}.json"
            path.write_text(json.dumps([vars(c) for c in counts], indent=1))
            print(f"{board}: {len(counts)} counts", flush=True)
        return 0
    if not (found := recorded()):
        parser.error(f"{FOLDER} has no counts: python tools/measure.py costs measure")
    if args.word == "fit":
        if unknown := set(args.kernels) - {count.kernel for count in found}:
            parser.error(f"{min(unknown)!r} has no counts: measure it, or correct its name")
        fit(found, args.kernels, args.core or ())
    else:
        write_errors(found)
        print(errors_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
