"""Faults in compiled models, and what the diagnosis calls them.

A fault is made in what is compiled (a bit of a weight, a bias, a scale, a zero point, a range: this
reaches every kernel, however it packs its weights) or in the generated C (loop bounds, padding,
calls that are left out, memory that nothing wrote, writes beyond the output). The model is then
verified against the interpreter's results of the graph without the fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from random_graphs import GraphBuilder
from small_models import SMALL_MODELS

import hil
import hilc
import hilc.host
from hil import verify
from hil.board import load_board
from hil.verify import Diagnosis, Kind, Oracle, Report
from hil.verify.diagnosis import Evidence
from hil.verify.rerun import examine
from hil.verify.samples import Sample, random_sample
from hilc import interpreter
from hilc.artifact.library import Layer, ModelLibrary
from hilc.frontends import load_model
from hilc.ir import Array, Graph, Node, Quant

_EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
_SOURCE = "codegen/host/src/net_lib1.c"
#: Samples of a run.
SAMPLES = 6


def _residual() -> Graph:
    builder = GraphBuilder(3)
    x = builder.conv(builder.input(1, 12, 10, 3), 8)
    y = builder.conv(builder.depthwise(builder.relu(x)), 8, size=1)
    z = builder.conv(builder.add(x, y), 12, stride=2)
    out = builder.dense(builder.reshape(builder.pool("AVERAGE_POOL_2D", z, 3, 3), 1, 48), 10)
    return builder.graph(out)


#: Networks by name: few layers each, of the kinds that microcontrollers run.
NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "small": lambda: load_model(SMALL_MODELS["convolutions"]()),
    "residual": _residual,
    "digits": lambda: load_model(_EXAMPLES / "digits" / "digits.tflite"),
    "detector": lambda: load_model(_EXAMPLES / "networks" / "detector.tflite"),
}
#: Where they run: this process (as ``host``), and emulated boards of four instruction sets.
PLACES = ("host", "mps2-an386", "mps3-an547", "mps2-an385", "riscv-virt", "microbit")


@dataclass(frozen=True)
class Fault:
    """A library with a fault in one layer."""

    what: str
    library: ModelLibrary
    #: The layer at fault, and what its difference may be called.
    layer: int
    kinds: frozenset[Kind]


class Case:
    """A network compiled for a place, and the results to expect."""

    def __init__(self, network: str, place: str) -> None:
        self.network, self.place = network, place
        #: Of the samples.
        self.seed = 7
        #: What the interpreter computes of them, by seed.
        self._known: dict[int, list[dict[str, Array]]] = {}
        self.graph = NETWORKS[network]()
        self.cpu = "host" if place == "host" else load_board(place).cpu.name

    @cached_property
    def library(self) -> ModelLibrary:
        return self.compiled(self.graph)

    @property
    def samples(self) -> list[Sample]:
        inputs = self.library.modules[0].inputs
        return [random_sample(inputs, self.seed, index) for index in range(SAMPLES)]

    @property
    def oracle(self) -> Oracle:
        if self.seed not in self._known:
            self._known[self.seed] = [interpreter.run_all(self.graph, s) for s in self.samples]
        known = self._known[self.seed]
        return Oracle("hilc", "the interpreter", lambda index, sample: known[index])

    def compiled(self, graph: Graph) -> ModelLibrary:
        inside = self.place != "host"
        pools = "external" if inside else "internal"
        # Without folding, which would take the faulty channel out of the tensor.
        return hilc.compile(
            graph,
            name="net",
            cpu=self.cpu,
            pools=pools,
            io_in_pool=inside,
            fold_constant_channels=False,
        )

    @contextmanager
    def opened(self, library: ModelLibrary) -> Iterator[Any]:
        if self.place == "host":
            with hilc.host.load(library) as model:
                yield model
            return
        with hil.open(self.place, library) as device:
            yield device["net"]

    def verified(self, library: ModelLibrary) -> Report:
        with self.opened(library) as model:
            return verify(model, self.samples, self.oracle, per_layer=True)

    def evidence(self) -> Iterator[Evidence]:
        """What further runs of every layer show, where there is no fault."""
        with self.opened(self.library) as model:

            def prepare() -> None:
                for name, array in self.samples[0].items():
                    model.set_input(name, array)

            for number, layer in enumerate(model.layers):
                for index in range(len(layer.outputs)):
                    yield examine(model, number, index, prepare)


@dataclass(frozen=True)
class Outcome:
    """What the diagnosis said of a fault; None for a fault that no sample shows."""

    case: Case
    fault: Fault
    found: Diagnosis | None

    @property
    def is_layer_right(self) -> bool:
        if self.found is None:
            return False
        blamed = self.found.culprit.layer if self.found.culprit else self.found.layer
        return blamed == self.fault.layer

    @property
    def is_right(self) -> bool:
        return (
            self.found is not None and self.is_layer_right and self.found.kind in self.fault.kinds
        )


#: A kind of fault, and what makes one; None where it cannot be made there.
Planned = tuple[str, Callable[[], "Fault | None"]]


def outcome(case: Case, fault: Fault) -> Outcome:
    report = case.verified(fault.library)
    assert report.match == (report.diagnosis is None)
    return Outcome(case, fault, report.diagnosis)


# -- faults in what is compiled ------------------------------------------------------------------

_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_Rng = np.random.Generator


def _layer_of(library: ModelLibrary, graph: Graph, node: Node) -> tuple[int, bool] | None:
    """The layer that computes a node, and whether it computes others with weights behind it.

    Nodes behind it may be a part of the layer: activations, or the rest of a fused group.
    """
    name, is_spread = node.outputs[0], False
    layers = library.modules[0].layers
    while True:
        for index, layer in enumerate(layers):
            if any(output.name == name for output in layer.outputs):
                is_its = bool(layer.group) or not is_spread
                return (index, is_spread) if is_its else None
        readers = [other for other in graph.nodes if name in other.inputs]
        if len(readers) != 1:
            return None
        is_spread |= readers[0].op not in (*_KEEPING, *_CLAMPING)
        name = readers[0].outputs[0]


def _with_data(graph: Graph, name: str, data: Array) -> Graph:
    tensor = replace(graph.tensors[name], data=data)
    return replace(graph, tensors={**graph.tensors, name: tensor})


def _with_quant(graph: Graph, name: str, quant: Quant) -> Graph:
    tensor = replace(graph.tensors[name], quant=quant)
    return replace(graph, tensors={**graph.tensors, name: tensor})


def _data(graph: Graph, name: str) -> Array:
    data = graph.tensors[name].data
    assert data is not None
    return data.copy()


def _weight_bit(graph: Graph, node: Node, rng: _Rng) -> Graph | None:
    weights = _data(graph, node.inputs[1])
    flat = weights.reshape(-1).view(np.uint8)
    flat[rng.integers(len(flat))] ^= 0x40
    return _with_data(graph, node.inputs[1], weights)


def _one_bias(graph: Graph, node: Node, rng: _Rng) -> Graph | None:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return None
    bias = _data(graph, node.inputs[2])
    bias[rng.integers(len(bias))] += 1 + np.abs(bias).max()
    return _with_data(graph, node.inputs[2], bias)


def _no_bias(graph: Graph, node: Node, rng: _Rng) -> Graph | None:
    """No bias, where that moves results by more than a step: else it looks like rounding."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return None
    quants = [graph.tensors[name].quant for name in (*node.inputs[:2], node.outputs[0])]
    (scale_in, scale_w, scale_out) = (np.array(quant.scale) for quant in quants if quant)
    steps = np.abs(_data(graph, node.inputs[2]) * scale_w * scale_in / scale_out)
    if np.count_nonzero(steps > 2) < 2:
        return None
    return _with_data(graph, node.inputs[2], np.zeros_like(_data(graph, node.inputs[2])))


def _one_scale(graph: Graph, node: Node, rng: _Rng) -> Graph | None:
    quant = graph.tensors[node.inputs[1]].quant
    assert quant is not None
    if quant.per_tensor:
        return None
    scale = list(quant.scale)
    scale[rng.integers(len(scale))] *= 0.5
    return _with_quant(graph, node.inputs[1], replace(quant, scale=tuple(scale)))


def _all_scales(factor: float) -> Callable[[Graph, Node, _Rng], Graph | None]:
    def change(graph: Graph, node: Node, rng: _Rng) -> Graph | None:
        quant = graph.tensors[node.inputs[1]].quant
        assert quant is not None
        scale = tuple(scale * factor for scale in quant.scale)
        return _with_quant(graph, node.inputs[1], replace(quant, scale=scale))

    return change


#: Operators whose output has the zero point of their input.
_KEEPING = ("RESHAPE", "MAX_POOL_2D", "AVERAGE_POOL_2D")
_CLAMPING = ("RELU", "RELU6")


def _zero_point(graph: Graph, node: Node, rng: _Rng) -> Graph | None:
    """The zero point of the output, also behind what keeps it: the next layers know of it."""
    names = [node.outputs[0]]
    for other in graph.nodes:
        if other.inputs[0] == names[-1] and other.op in (*_KEEPING, *_CLAMPING):
            names.append(other.outputs[0])
    quant = graph.tensors[names[0]].quant
    if quant is None or set(names) & set(graph.outputs):
        return None
    (zero_point,) = quant.zero_point
    moved = zero_point + int(rng.integers(2, 20)) * (1 if zero_point < 0 else -1)
    for each in names:
        graph = _with_quant(graph, each, replace(quant, zero_point=(moved,)))
    return graph


def _other_order(graph: Graph, node: Node, rng: _Rng) -> Graph | None:
    weights = _data(graph, node.inputs[1])
    return _with_data(graph, node.inputs[1], np.roll(weights, weights.size // 2 + 1))


#: Changes of a node with weights, and what the difference may be called.
_IN_THE_MODEL: Mapping[str, tuple[Callable[[Graph, Node, _Rng], Graph | None], set[Kind]]] = {
    "a bit of a weight": (_weight_bit, {Kind.ONE_CHANNEL}),
    "the bias of a channel": (_one_bias, {Kind.ONE_CHANNEL}),
    "no bias": (_no_bias, {Kind.CHANNEL_OFFSETS}),
    "the multiplier of a channel": (_one_scale, {Kind.ONE_CHANNEL}),
    "all multipliers, halved": (_all_scales(0.5), {Kind.SCALED}),
    "all multipliers, by 1/1000": (_all_scales(1.001), {Kind.ROUNDING}),
    "the zero point": (_zero_point, {Kind.SHIFTED}),
    "weights in another order": (
        _other_order,
        # The last where the other channels are clamped in all samples.
        {Kind.ALL_WRONG, Kind.SCATTERED, Kind.SOME_CHANNELS},
    ),
}


def model_faults(case: Case, rng: _Rng) -> Iterator[Planned]:
    """The faults that can be made in the network, each compiled when it is asked for."""

    def make(what: str, node: Node) -> Fault | None:
        change, kinds = _IN_THE_MODEL[what]
        changed = change(case.graph, node, rng)
        if changed is None:
            return None
        library = case.compiled(changed)
        layer = _layer_of(library, changed, node)
        if layer is None:
            return None
        # Of what a fault in a fused group spreads to, only the group can be named.
        return Fault(what, library, layer[0], frozenset(Kind if layer[1] else kinds))

    for node in case.graph.nodes:
        if node.op in _WEIGHTED and case.graph.tensors[node.outputs[0]].dtype == "int8":
            for what in _IN_THE_MODEL:
                yield what, partial(make, what, node)


# -- faults in the generated C -------------------------------------------------------------------


class _Source:
    """The C of a library's layers, to be edited."""

    def __init__(self, case: Case, layer: int) -> None:
        self.library = library = case.library
        self.case = case
        self.layer = layer
        self.text = library.files[_SOURCE].decode()

    def expected(self, name: str) -> Array | None:
        """A tensor's values in all samples; None for one that the graph does not have."""
        known = [self.case.oracle.values(i, s).get(name) for i, s in enumerate(self.case.samples)]
        return (
            None if known[0] is None else np.stack([value for value in known if value is not None])
        )

    def edited(self, pattern: str, text: str) -> ModelLibrary | None:
        """The library with the only match replaced; None where there is none."""
        source, count = re.subn(pattern, text, self.text, flags=re.S)
        assert count <= 1, f"{pattern} matches {count} places"
        files = {**self.library.files, _SOURCE: source.encode()}
        return replace(self.library, files=files) if count and source != self.text else None

    def field(self, name: str, change: Callable[[int], int]) -> ModelLibrary | None:
        """The library with a field of the layer's parameters changed."""
        pattern = rf"(layer_{self.layer} = \{{(?:(?!\n\}};).)*?\.{name} = )(-?\d+)(?=,)"
        found = re.search(pattern, self.text, flags=re.S)
        return self.edited(pattern, rf"\g<1>{change(int(found[2]))}") if found else None

    def call(
        self, before: str = "", after: str = "", instead: str = r"\g<0>"
    ) -> ModelLibrary | None:
        """The library with code around the layer's call of its kernel."""
        return self.edited(rf"\w+\(&layer_{self.layer}, [^;]*;", f"{before}{instead}{after}")


def _sides(layer: Layer) -> tuple[int, int, int]:
    """Rows, columns and channels of an output of four dimensions; else one row and column."""
    shape = layer.outputs[0].shape
    return (shape[-3], shape[-2], shape[-1]) if len(shape) == 4 else (1, 1, shape[-1])


_OUT = "int8_t *const out = (int8_t *)output0;"


def _fewer_rows(source: _Source, layer: Layer) -> ModelLibrary | None:
    return source.field("out_h", lambda rows: rows - 1) if _sides(layer)[0] > 1 else None


def _more_padding(source: _Source, layer: Layer) -> ModelLibrary | None:
    if (
        _sides(layer)[0] < 4
        or layer.op != "CONV_2D"
        or not re.search(
            rf"layer_{source.layer} = \{{(?:(?!\n\}};).)*?\.stride_h = 1,", source.text, flags=re.S
        )
    ):
        return None
    return source.field("pad_top", lambda pad: pad + 1)


def _low_end(source: _Source, layer: Layer) -> ModelLibrary | None:
    """The upper end of the range too low; where a kernel has no such field, behind its call."""
    nbytes, values = layer.outputs[0].nbytes, source.expected(layer.outputs[0].name)
    if values is None or len(values := np.unique(values)) < 8:
        return None
    end = int(values[2 * len(values) // 3])
    loop = f"for (int i = 0; i < {nbytes}; i++) if (out[i] > {end}) out[i] = {end};"
    return source.field("out_max", lambda known: end) or source.call(after=f" {{ {_OUT} {loop} }}")


def _not_called(source: _Source, layer: Layer) -> ModelLibrary | None:
    reads = {(a.kind, a.pool, a.value) for a in layer.arguments[: layer.input_count]}
    written = layer.output_arguments[0]
    if (written.kind, written.pool, written.value) in reads:
        return None
    return source.call(instead=f"(void)layer_{source.layer}; (void)input0;")


def _old_output(source: _Source, layer: Layer) -> ModelLibrary | None:
    """Adds to one result what lay there before: an accumulator that nobody has cleared."""
    to = layer.output_arguments[0]
    at = layer.outputs[0].nbytes // 2
    for read in layer.arguments[: layer.input_count]:
        nbytes = int(np.prod(read.shape)) * np.dtype(read.dtype).itemsize
        if (read.kind, read.pool) != (to.kind, to.pool):
            continue
        if to.kind != "pool" or read.value <= to.value + at < read.value + nbytes:
            return None
    before = f"const int8_t old = ((const int8_t *)output0)[{at}]; "
    return source.call(before, f" {{ {_OUT} out[{at}] = (int8_t)(out[{at}] ^ (old & 0x7f)); }}")


def _counted(source: _Source, layer: Layer) -> ModelLibrary | None:
    at = layer.outputs[0].nbytes // 3
    return source.call("static uint8_t runs; ", f" {{ {_OUT} out[{at}] ^= (int8_t)++runs; }}")


def _wrong_row(source: _Source, layer: Layer) -> ModelLibrary | None:
    rows, columns, channels = _sides(layer)
    if rows < 3:
        return None
    size = columns * channels
    loop = f"for (int i = 0; i < {size}; i++) out[{(rows - 1) * size} + i] = out[{size} + i];"
    return source.call(after=f" {{ {_OUT} {loop} }}")


def _wrong_column(source: _Source, layer: Layer) -> ModelLibrary | None:
    rows, columns, channels = _sides(layer)
    if columns < 3:
        return None
    loop = (
        f"for (int y = 0; y < {rows}; y++) for (int c = 0; c < {channels}; c++) "
        f"out[y * {columns * channels} + c] = out[y * {columns * channels} + {channels} + c];"
    )
    return source.call(after=f" {{ {_OUT} {loop} }}")


def _wrong_corner(source: _Source, layer: Layer) -> ModelLibrary | None:
    rows, columns, channels = _sides(layer)
    if rows < 3 or columns < 3 or channels < 4:
        return None
    loop = f"for (int c = 0; c < {channels}; c++) out[c] = (int8_t)(13 * c - 90);"
    return source.call(after=f" {{ {_OUT} {loop} }}")


def _moved(source: _Source, layer: Layer) -> ModelLibrary | None:
    """The results a row too early, the last row twice."""
    rows, columns, channels = _sides(layer)
    if rows < 4:
        return None
    size = columns * channels
    loop = f"for (int i = 0; i < {(rows - 1) * size}; i++) out[i] = out[i + {size}];"
    return source.call(after=f" {{ {_OUT} {loop} }}")


def _beyond(source: _Source, layer: Layer) -> ModelLibrary | None:
    """Writes into a tensor that a later layer reads."""
    layers = source.library.modules[0].layers
    to = layer.output_arguments[0]
    for later in layers[source.layer + 2 :]:
        for read in later.arguments[: later.input_count]:
            for before in layers[: source.layer]:
                (made,) = before.output_arguments[:1]
                place = (made.kind, made.pool, made.value)
                lives = place == (read.kind, read.pool, read.value) and made.kind == "pool"
                if lives and to.kind == "pool" and to.pool == read.pool and to.value != read.value:
                    between = layers[source.layer + 1 : layers.index(later)]
                    if any(
                        place == (a.kind, a.pool, a.value) for b in between for a in b.arguments
                    ):
                        continue
                    at = read.value - to.value + 3
                    return source.call(after=f" {{ {_OUT} out[{at}] ^= 0x35; }}")
    return None


#: Edits of a layer's C, and what the difference may be called.
_IN_THE_C: Mapping[str, tuple[Callable[[_Source, Layer], ModelLibrary | None], set[Kind]]] = {
    # A row that takes the place of the input is what that was, on any paint.
    "a row too few": (_fewer_rows, {Kind.UNINITIALISED, Kind.ONE_ROW}),
    # The second of kernels that have the border's sums precomputed.
    "a row of padding too many": (_more_padding, {Kind.DISPLACED, Kind.ALL_WRONG}),
    "the range too small": (_low_end, {Kind.SATURATED}),
    "not called": (_not_called, {Kind.UNINITIALISED}),
    "memory that nothing wrote": (_old_output, {Kind.UNINITIALISED}),
    "another result in each run": (_counted, {Kind.NOT_REPEATABLE}),
    "the last row": (_wrong_row, {Kind.ONE_ROW}),
    "the first column": (_wrong_column, {Kind.ONE_COLUMN}),
    "the first position": (_wrong_corner, {Kind.ONE_POSITION}),
    "one row early": (_moved, {Kind.DISPLACED}),
    "writes beyond the output": (_beyond, {Kind.OVERWRITTEN}),
}


def code_faults(case: Case, rng: _Rng) -> Iterator[Planned]:
    """The faults that can be made in the generated C."""

    def make(what: str, number: int, layer: Layer) -> Fault | None:
        edit, kinds = _IN_THE_C[what]
        library = edit(_Source(case, number), layer)
        return None if library is None else Fault(what, library, number, frozenset(kinds))

    for number, layer in enumerate(case.library.modules[0].layers):
        if layer.outputs[0].dtype == "int8" and len(layer.outputs) == 1:
            for what in _IN_THE_C:
                yield what, partial(make, what, number, layer)
