"""Code generators of users: what they may claim, what is made of it, what is refused and how."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cmsis_nn_versions import STAND_IN, VERSIONS, stand_in
from nested_generator import Nested, host_object
from random_graphs import GraphBuilder, random_graph

import hilc
import hilc.host
from hilc.artifact.library import ModelLibrary
from hilc.artifact.manifest import External
from hilc.errors import HilError, InputError
from hilc.external import (
    EXTERNAL,
    Device,
    ExternalCodegen,
    ExternalModule,
    RoundRobin,
    connected_groups,
    load_generator,
    single_nodes,
)
from hilc.interpreter import run, run_all
from hilc.ir import Array, Graph, Node
from hilc.memory.plan import PoolSpec
from hilc.ops.external import ExternalAttributes
from hilc.ops.verify import verify
from hilc.target import cpu_names, get_cpu
from hilc.target.objects import read_object, require_fits
from hilc.transforms import run_passes
from hilc.transforms.partition import partition
from hilc.transforms.remove_dead import remove_dead

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "byoc"
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
HOST = get_cpu("host")


class Toy:
    """Claims the given positions, or what ``wish`` says; makes modules of the given fields."""

    def __init__(self, *groups: Any, name: str = "toy", wish: Any = None, **module: Any) -> None:
        self.name = name
        self.groups = groups
        self.wish = wish
        self.module = module

    def claim(self, graph: Graph) -> Any:
        return self.wish(graph) if self.wish else self.groups

    def generate(self, subgraph: Graph, symbol: str, cpu: Any, api: str) -> Any:
        default = {"source": f"int32_t {symbol}(void *a, void *b) {{ return 0; }}"}
        return ExternalModule(**{"symbol": symbol, **default, **self.module})


class Relu:
    """A whole generator in a few lines: RELU of int8, with a constant, a device and hooks."""

    def __init__(self, name: str = "clamp", device: Device | None = None) -> None:
        self.name = name
        self._device = device

    def claim(self, graph: Graph) -> Sequence[Sequence[int]]:
        return single_nodes(graph, lambda _, node: node.op == "RELU")

    def generate(self, subgraph: Graph, symbol: str, cpu: Any, api: str) -> ExternalModule:
        (tensor,) = subgraph.outs(subgraph.nodes[0])
        assert tensor.quant is not None
        log = "npu_log(device, 'x');" if self._device and self._device.use_device_api else ""
        body = f"""
            for (int32_t i = 0; i < {tensor.size}; i++) {{
                const int8_t value = ((const int8_t *)input)[i];
                ((int8_t *)output)[i] = value < {symbol}_zero[0] ? {symbol}_zero[0] : value;
            }}
            {log}
            return 0;
        }}"""
        if api == "packed":
            head = f"""
                int32_t {symbol}(TVMValue *args, int *codes, int count, TVMValue *result,
                                 int *result_code, void *resource) {{
                    (void)codes; (void)result; (void)result_code; (void)resource;
                    if (count != {3 if self._device else 2}) {{ return -1; }}
                    void *input = ((DLTensor *)args[0].v_handle)->data;
                    void *output = ((DLTensor *)args[1].v_handle)->data;
                    {"void *device = args[2].v_handle; (void)device;" if self._device else ""}
            """
        else:
            device = ", void *device" if self._device else ""
            unused = "(void)device;" if self._device else ""
            head = f"int32_t {symbol}(void *input, void *output{device}) {{ {unused}"
        first = symbol.endswith("_0")
        return ExternalModule(
            symbol,
            source='#include "npu.h"\n' + (_HOOKS if first else "") + head + body,
            headers={"npu.h": "void npu_log(void *device, char event);\n"},
            constants={f"{symbol}_zero": np.array(tensor.quant.zero_point, np.int8)},
            functions=("npu_log",) if first else (),
            device=self._device,
        )


# Hooks that write what is called, and fail where the context says so.
_HOOKS = """
struct npu { int32_t count; char fail; char events[59]; };
void npu_log(void *device, char event) {
    struct npu *npu = device;
    if (npu) { npu->events[npu->count++] = event; }
}
#define HOOK(name, event) \\
    int32_t TVMDeviceToyNpu##name(void *device) { \\
        npu_log(device, event); \\
        return device && ((struct npu *)device)->fail == event; \\
    } \\
    int32_t TVMDeviceToyNpu##name(void *device)
int32_t TVMDeviceToyNpuActivate(void *device);
int32_t TVMDeviceToyNpuOpen(void *device);
int32_t TVMDeviceToyNpuClose(void *device);
int32_t TVMDeviceToyNpuDeactivate(void *device);
HOOK(Activate, 'A');
HOOK(Open, 'O');
HOOK(Close, 'C');
HOOK(Deactivate, 'D');
"""


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }


def on_host(library: ModelLibrary, inputs: dict[str, Array], **devices: Array) -> list[Array]:
    """The outputs of the library in this process."""
    with hilc.host.load(library, devices=devices) as model:
        for name, value in inputs.items():
            model.set_input(name, value)
        model.run()
        return [model.get_output(i) for i in range(len(model.outputs))]


def assert_same_everywhere(graph: Graph, library: ModelLibrary) -> None:
    """Every layer of the library in this process gives what the interpreter says."""
    inputs = inputs_of(graph)
    values = run_all(graph, inputs)
    for name, output in zip(graph.outputs, on_host(library, inputs), strict=True):
        np.testing.assert_array_equal(output, values[name], name)
    with hilc.host.load(library) as model:
        for name, value in inputs.items():
            model.set_input(name, value)
        for layer, outputs in model.layer_outputs():
            for info, output in zip(layer.outputs, outputs, strict=True):
                np.testing.assert_array_equal(output, info.held(values[info.name]), info.name)


def two_relus() -> Graph:
    """RELU, what no RELU can be fused into, RELU."""
    b = GraphBuilder()
    x = b.input(1, 4)
    return b.graph(b.relu(b.concat(b.relu(x), x)))


def live_graph(seed: int) -> Graph:
    """A random graph of which every node is needed."""
    return remove_dead(random_graph(seed, ordinary_outputs=True))


def random_wish(seed: int) -> Any:
    """Some operators, or some nodes."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.3:
        ops = set(rng.choice(["ADD", "RELU", "CONV_2D", "CONCATENATION", "SPLIT", "RESHAPE"], 3))
        return lambda _, node: node.op in ops
    share = rng.uniform(0.2, 0.95)
    chosen = {i for i in range(40) if rng.random() < share}
    return lambda _, node: node.index in chosen


# Groups ---------------------------------------------------------------------------------------


def waits(graph: Graph, groups: Sequence[Sequence[int]]) -> bool:
    """Whether groups wait for themselves: by a matrix of who reaches whom, not by the compiler."""
    unit = list(range(len(graph.nodes)))
    for group in groups:
        for position in group:
            unit[position] = min(group)
    writer = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    reaches = np.zeros((len(unit), len(unit)), bool)
    for position, node in enumerate(graph.nodes):
        for name in node.inputs:
            if name in writer and unit[writer[name]] != unit[position]:
                reaches[unit[writer[name]], unit[position]] = True
    for _ in unit:
        reaches |= reaches @ reaches
    return bool(reaches.diagonal().any())


@pytest.mark.parametrize("seeds", [range(i, i + 25) for i in range(0, 100, 25)], ids=str)
def test_groups_can_run_and_are_as_large_as_can_be(seeds: range) -> None:
    for seed in seeds:
        graph = live_graph(seed)
        wanted = random_wish(seed)
        groups = connected_groups(graph, wanted)
        taken = [p for p, node in enumerate(graph.nodes) if wanted(graph, node)]
        assert sorted(itertools.chain(*groups)) == taken
        assert not waits(graph, groups)
        # No two groups that share a tensor could be one.
        for a, b in itertools.combinations(groups, 2):
            written = {name for p in a for name in graph.nodes[p].outputs}
            if any(written & set(graph.nodes[p].inputs) for p in b):
                rest = [group for group in groups if group is not a and group is not b]
                assert waits(graph, [*rest, [*a, *b]]), (seed, a, b)


@pytest.mark.parametrize("seeds", [range(i, i + 25) for i in range(0, 100, 25)], ids=str)
def test_a_partitioned_graph_computes_the_same(seeds: range) -> None:
    for seed in seeds:
        graph = live_graph(seed)
        groups = connected_groups(graph, random_wish(seed))
        others = functools.partial(single_nodes, wanted=random_wish(seed + 1))
        generators = [Toy(*groups), Toy(name="other", wish=others)]
        parted = partition(graph, generators, HOST, "unpacked", "net")
        verify(parted)
        inputs = inputs_of(graph)
        expected, got = run_all(graph, inputs), run_all(parted, inputs)
        for name in (*parted.outputs, *got):
            np.testing.assert_array_equal(got[name], expected[name], f"{seed}: {name}")
        external = [node for node in parted.nodes if node.op == EXTERNAL]
        inside = [n for node in external for n in ExternalAttributes.of(node).graph.nodes]
        outside = [node for node in parted.nodes if node.op != EXTERNAL]
        assert sorted(n.index for n in (*inside, *outside)) == [n.index for n in graph.nodes]
        names = [ExternalAttributes.of(node).module.symbol for node in external]
        own = [name for name in names if "_toy_" in name]
        assert own == [f"tvmgen_net_toy_main_{i}" for i in range(len(groups))]


@pytest.mark.parametrize("seeds", [range(i, i + 50) for i in range(0, 200, 50)], ids=str)
def test_any_claim_is_taken_or_refused_rightly(seeds: range) -> None:
    """Random groups: refused where, and only where, they would have to wait for themselves."""
    refused = 0
    for seed in seeds:
        graph = live_graph(seed)
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 4, len(graph.nodes))
        groups = [np.flatnonzero(labels == label).tolist() for label in range(3)]
        groups = [part for group in groups for part in components(graph, group)]
        generator = Toy(*groups)
        if waits(graph, groups):
            refused += 1
            with pytest.raises(InputError, match="which needs .* first"):
                partition(graph, [generator], HOST, "unpacked", "net")
        else:
            parted = partition(graph, [generator], HOST, "unpacked", "net")
            inputs = inputs_of(graph)
            assert {n: a.tolist() for n, a in run(parted, inputs).items()} == {
                n: a.tolist() for n, a in run(graph, inputs).items()
            }
    assert 0 < refused < len(seeds) / 2


def components(graph: Graph, group: list[int]) -> list[list[int]]:
    """The connected parts of a group."""
    parts: list[tuple[set[int], set[str]]] = []
    for position in group:
        node = graph.nodes[position]
        names = {n for n in (*node.inputs, *node.outputs) if n and not graph.tensors[n].is_constant}
        members = {position}
        for part in [part for part in parts if part[1] & names]:
            parts.remove(part)
            members |= part[0]
            names |= part[1]
        parts.append((members, names))
    return [sorted(members) for members, _ in parts]


# Code -----------------------------------------------------------------------------------------

CELLS: tuple[dict[str, Any], ...] = (
    {"api": "unpacked", "interface": "c", "pools": "internal"},
    {"api": "packed", "interface": "packed", "pools": "internal"},
    {"api": "unpacked", "interface": "c", "pools": "calls"},
    {"api": "packed", "interface": "packed", "pools": "calls"},
    {"api": "unpacked", "interface": "packed", "pools": "external", "constants": "external"},
    {"api": "packed", "interface": "packed", "pools": "external", "constants": "external"},
    {"api": "unpacked", "io_in_pool": True, "memory": (PoolSpec("fast", 64), PoolSpec("slow"))},
    {"api": "packed", "interface": "packed", "codegen": "llvm"},
)


@pytest.mark.parametrize("seed", range(len(CELLS)))
def test_random_graphs_partly_by_other_code(seed: int) -> None:
    """Sources and objects of two generators between our own layers, in every calling convention."""
    graph = run_passes(random_graph(20 + seed, ordinary_outputs=True))
    generators = [
        Nested(random_wish(seed), "source", "first"),
        Nested(random_wish(seed + 1), "object", "second", single_nodes),
    ]
    library = hilc.compile(graph, externals=generators, **CELLS[seed])
    (module,) = library.modules
    assert len(module.externals) == sum(len(generator.subgraphs) for generator in generators) > 0
    assert_same_everywhere(graph, library)


def test_what_the_library_says() -> None:
    graph = two_relus()
    device = Device("npu", 3, "clamp_v2")
    library = hilc.compile(graph, name="Two", externals=[Relu(device=device)])
    (module,) = library.modules
    function = "tvmgen_two_clamp_main_%d"
    assert module.externals == (
        External(
            layer=0,
            function=function % 0,
            generator="clamp",
            device="npu_3",
            program="clamp_v2",
            symbols=("npu_log", function % 0, f"{function % 0}_zero"),
        ),
        External(
            2, function % 1, "clamp", "npu_3", "clamp_v2", (function % 1, f"{function % 1}_zero")
        ),
    )
    assert module.devices == ("npu_3",)
    assert [layer.op for layer in module.layers] == [EXTERNAL, "CONCATENATION", EXTERNAL]
    assert [layer.name for layer in module.layers] == [node.name for node in graph.nodes]
    source = library.files["codegen/host/src/Two_lib3.c"].decode()
    assert source.startswith(
        '/* Part of "Two" by the code generator "clamp": RELU (operator 0).\n'
        " * Runs on the device npu_3 with the program clamp_v2. */\n"
    )
    assert "codegen/host/src/Two_lib4.c" in library.files
    assert "codegen/host/include/npu.h" in library.files


def test_the_description_survives_the_archive(tmp_path: Path) -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.input(1, 4)))
    library = hilc.compile(graph, externals=[Relu(device=Device("npu"))])
    loaded = ModelLibrary.load(library.save(tmp_path / "net.tar"))
    assert loaded.modules[0].externals == library.modules[0].externals
    assert_same_everywhere(graph, loaded)
    text = library.files["hil/net.json"].decode()
    damaged = dict(library.files)
    damaged["hil/net.json"] = text.replace('"layer": 0', '"layer": 7').encode()
    assert damaged["hil/net.json"] != library.files["hil/net.json"]
    broken = ModelLibrary(library.modules, damaged).save(tmp_path / "broken.tar")
    with pytest.raises(InputError, match="is outside"):
        ModelLibrary.load(broken)


def test_constants_are_linked_into_flash() -> None:
    """No parsing at start-up: the arrays are data of their own section, aligned, and counted."""
    b = GraphBuilder()
    graph = b.graph(b.relu(b.input(1, 4)))
    table = np.arange(5, dtype=np.int16)
    scalar = np.array(1.5, np.float32)
    generator = Toy([0], constants={"toy_table": table, "toy_scalar": scalar})
    library = hilc.compile(graph, externals=[generator])
    source = library.files["codegen/host/src/net_lib3.c"].decode()
    place = '__attribute__((section(".rodata.tvm"), aligned(16))) const'
    assert f"{place} int16_t toy_table[5] = {{" in source
    assert f"{place} float toy_scalar[1] = {{" in source
    assert "0x1.8p+0f" in source
    # 10 and 4 bytes, each at a multiple of 16.
    assert library.modules[0].constants_bytes == 32
    assert b'"constants_size_bytes": 32' in library.files["metadata.json"]


def test_an_object_finds_its_constants() -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.input(1, 4)))
    text = """
        #include <stdint.h>
        extern const int8_t toy_zero[];
        int32_t tvmgen_net_toy_main_0(void *in, void *out) {
            for (int i = 0; i < 4; i++) {
                const int8_t x = ((int8_t *)in)[i];
                ((int8_t *)out)[i] = x < toy_zero[0] ? toy_zero[0] : x;
            }
            return 0;
        }"""
    zero = {"toy_zero": np.array([3], np.int8)}
    generator = Toy([0], source=None, object=host_object(text), type_key="o", constants=zero)
    for codegen, constants in (("c", "src/net_lib4.c"), ("llvm", "lib/net_lib4.o")):
        library = hilc.compile(graph, externals=[generator], codegen=codegen)
        assert library.files["codegen/host/lib/net_lib3.o"] == host_object(text)
        assert f"codegen/host/{constants}" in library.files
        assert_same_everywhere(graph, library)


def test_a_failure_outside_reaches_the_caller() -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.input(1, 4)))
    source = "int32_t tvmgen_net_toy_main_0(void *a, void *b) { (void)a; (void)b; return 7; }"
    library = hilc.compile(graph, externals=[Toy([0], source=source)])
    with pytest.raises(HilError, match="tvmgen_net_run returned -1"):
        on_host(library, inputs_of(graph))


@pytest.mark.parametrize(("api", "interface"), [("unpacked", "c"), ("packed", "packed")])
def test_no_scratch_to_allocate_is_an_error(api: str, interface: str) -> None:
    """Workspace calls: what the library says that it needs is enough; less is an error."""
    b = GraphBuilder()
    graph = b.graph(b.conv(b.conv(b.input(1, 4, 4, 3), 4), 2))
    generator = Nested(lambda _, node: True, group=single_nodes)
    options: dict[str, Any] = {"api": api, "interface": interface, "pools": "calls"}
    library = hilc.compile(graph, externals=[generator], **options)
    assert_same_everywhere(graph, library)
    (module,) = library.modules
    tight = replace(module, workspace_bytes=module.workspace_bytes - 16)
    with pytest.raises(HilError, match="tvmgen_net_run returned -1"):
        on_host(ModelLibrary((tight,), library.files), inputs_of(graph))


# Devices --------------------------------------------------------------------------------------


#: What fails, and all that is called then: activate, open, run (x), close, deactivate.
HOOKS = {
    "nothing": ("\0", "AOxCOxCD"),
    "Activate": ("A", "A"),
    "Open": ("O", "AOD"),
    "Close": ("C", "AOxCD"),
    "Deactivate": ("D", "AOxCOxCD"),
}


@pytest.mark.parametrize(("api", "interface"), [("unpacked", "c"), ("packed", "packed")])
def test_the_devices_hooks_are_called_around_its_work(api: str, interface: str) -> None:
    """What was opened is closed again, also where something fails, which the caller learns."""
    graph = two_relus()
    generator = Relu(device=Device("toy_npu", use_device_api=True))
    library = hilc.compile(graph, externals=[generator], api=api, interface=interface)
    context, inputs = np.zeros(64, np.uint8), inputs_of(graph)
    expected = run(graph, inputs)[graph.outputs[0]]
    with hilc.host.load(library, devices={"toy_npu": context}) as model:
        model.set_input(0, inputs[graph.inputs[0]])
        for what, (fails, events) in HOOKS.items():
            context[:] = 0
            context[4] = ord(fails)
            with contextlib.nullcontext() if what == "nothing" else pytest.raises(HilError):
                model.run()
            count = int(context[:4].view(np.int32)[0])
            assert context[5 : 5 + count].tobytes().decode() == events, what
            if what == "nothing":
                np.testing.assert_array_equal(model.get_output(0), expected)


def test_programs_take_turns_on_identical_devices() -> None:
    devices = RoundRobin("npu", 2)
    assigned = [devices.assign(program) for program in ("a", "b", "a", "c", "b", "c", "", "")]
    assert [(d.field, d.program) for d in assigned] == [
        ("npu_0", "a"),
        ("npu_1", "b"),
        ("npu_0", "a"),
        ("npu_0", "c"),
        ("npu_1", "b"),
        ("npu_0", "c"),
        ("npu_1", ""),
        ("npu_0", ""),
    ]


@pytest.mark.parametrize(
    ("name", "hook"),
    [("npu", "TVMDeviceNpuOpen"), ("ethos_u", "TVMDeviceEthosUOpen"), ("N1", "TVMDeviceN1Open")],
)
def test_hooks_have_tvms_names(name: str, hook: str) -> None:
    assert Device(name).hook("Open") == hook


# Refusals -------------------------------------------------------------------------------------


def diamond() -> Graph:
    """0: relu, 1 and 2: relu of it, 3: their sum, 4: relu."""
    b = GraphBuilder()
    top = b.relu(b.input(1, 4))
    return b.graph(b.relu(b.add(b.relu(top), b.relu(top))))


def crossing() -> Graph:
    """Two chains, each of which needs something of the other: 0 -> 1, 2 -> 3, joined by 4 and 5."""
    b = GraphBuilder()
    x, y = b.input(1, 4), b.input(1, 4)
    a1 = b.relu(x)
    b1 = b.add(a1, y)
    b2 = b.relu(y)
    a2 = b.add(b2, x)
    return b.graph(b.add(a1, a2), b.add(b1, b2))


CLAIMS = {
    "empty": (Toy([]), "claims group 0, which is empty"),
    "unknown position": (Toy([5]), "claims position 5\n\nhint: the graph's nodes .* 0 to 4"),
    "negative position": (Toy([-1]), "claims position -1"),
    "not a position": (Toy(["RELU"]), "claims position 'RELU'"),
    "no group": (Toy(7), r"failed in claim\(\): TypeError"),
    "overlap": (Toy([0], [1, 0]), r"claims operator 0 \(RELU\) in group 0 and in group 1"),
    "twice": (Toy([0, 0]), r"claims operator 0 \(RELU\) in group 0 and in group 0"),
    "not connected": (
        Toy([0, 4]),
        r"claims operator 0 \(RELU\) and operator 4 \(RELU\) as group 0, but no tensor connects",
    ),
    "not convex": (
        Toy([0, 1, 3]),
        r"claims the group of operator 0 \(RELU\), operator 1 \(RELU\), operator 3 \(ADD\), "
        r"which needs operator 2 \(RELU\), which needs the group of operator 0 .* first\n\n"
        "hint: split the group",
    ),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_claims_that_cannot_be(case: str) -> None:
    generator, message = CLAIMS[case]
    with pytest.raises(InputError, match=f"(?s)generator 'toy' .*{message}|{message}"):
        partition(diamond(), [generator], HOST, "unpacked", "net")


def test_groups_that_wait_for_each_other_are_refused() -> None:
    graph = crossing()
    a, b = [0, 3, 4], [1, 2, 5]
    for group in (a, b):
        partition(graph, [Toy(group)], HOST, "unpacked", "net")
    with pytest.raises(InputError, match="the group of .*, which needs the group of .* first"):
        partition(graph, [Toy(a, b)], HOST, "unpacked", "net")
    # Also where the second is another generator's.
    rest = Toy(wish=lambda g: [[i for i, node in enumerate(g.nodes) if node.op != EXTERNAL]])
    with pytest.raises(InputError, match=r"which needs operator 0 \(EXTERNAL\), which needs the"):
        partition(graph, [Toy(a), rest], HOST, "unpacked", "net")


def test_the_first_generator_has_its_way() -> None:
    graph = diamond()
    parted = partition(
        graph,
        [Relu("one"), Nested(lambda _, n: n.op in ("RELU", "ADD"), name="two")],
        HOST,
        "unpacked",
        "net",
    )
    assert [(n.op, ExternalAttributes.of(n).generator) for n in parted.nodes] == [
        *[(EXTERNAL, "one")] * 3,
        (EXTERNAL, "two"),
        (EXTERNAL, "one"),
    ]
    with pytest.raises(InputError, match="claims operator 0 .EXTERNAL., which 'one' has"):
        partition(graph, [Relu("one"), Toy([0])], HOST, "unpacked", "net")


OBJECT = "int f(void) { return 0; }"
MODULES: dict[str, tuple[dict[str, Any], str]] = {
    "another symbol": ({"symbol": "other"}, "returned the function 'other'"),
    "no C name": ({"symbol": "a b"}, "the symbol 'a b' is not a C identifier"),
    "neither": ({"source": None}, "has no source and no object"),
    "both": ({"object": b"x"}, "has both source and object"),
    "undefined": ({"source": "int f;"}, "its source does not define 'tvmgen_net_toy_main_0'"),
    "no object": ({"source": None, "object": b"text"}, "not a relocatable object: it does not beg"),
    "cut object": ({"source": None, "object": b"\x7fELF\x02\x01"}, "is not a relocatable object"),
    "object undefined": (
        {"source": None, "object": lambda: host_object(OBJECT)},
        "the object does not define 'tvmgen_net_toy_main_0'\n\nhint: it defines f",
    ),
    "scratch": ({"scratch_bytes": -1}, "invalid scratch size of -1 bytes"),
    "function's name": ({"functions": ("1st",)}, "the function '1st' is not a C identifier"),
    "constant's name": (
        {"constants": {"a.b": np.zeros(1, np.int8)}},
        "the constant 'a.b' is not a C identifier",
    ),
    "constant's type": (
        {"constants": {"a": np.zeros(2, np.complex64)}},
        r"the constant 'a' is complex64\[2\]\n\nhint: use an array .* of int8",
    ),
    "constant's size": (
        {"constants": {"a": np.zeros((0, 2), np.int8)}},
        r"the constant 'a' is int8\[0, 2\]",
    ),
    "header above": ({"headers": {"../a.h": ""}}, "the header has the invalid path '../a.h'"),
    "absolute header": ({"headers": {"/a.h": ""}}, "the header has the invalid path '/a.h'"),
    "our header": (
        {"headers": {"hil/quant.h": ""}},
        "the header has the invalid path 'hil/quant.h'",
    ),
    "shared object's name": (
        {"shared_objects": {"a/b.o": b""}},
        "the invalid name 'a/b.o'",
    ),
    "shared object": ({"shared_objects": {"a.o": b""}}, "a.o is not a relocatable object"),
    "device": ({"device": lambda: Device("a b")}, "the device name 'a b' is not a C identifier"),
}


@pytest.mark.parametrize("case", MODULES)
def test_modules_that_cannot_be_used(case: str) -> None:
    changes, message = MODULES[case]

    class Late(Toy):
        def generate(self, *arguments: Any) -> Any:
            self.module = {k: v() if callable(v) else v for k, v in changes.items()}
            return super().generate(*arguments)

    with pytest.raises(InputError, match=message) as caught:
        hilc.compile(diamond(), name="net", externals=[Late([0])])
    assert "'toy'" in str(caught.value)


def test_an_object_for_another_machine_is_refused() -> None:
    text = "int tvmgen_net_toy_main_0(void) { return 0; }"
    generator = Toy([0], source=None, object=host_object(text))
    with pytest.raises(
        InputError, match=r"for \w+, but cortex-m4 is 32-bit Arm\n\nhint: .*-mcpu=cort"
    ):
        hilc.compile(diamond(), cpu="cortex-m4", externals=[generator])


def arm_object(text: str, flags: str, language: str = "c") -> bytes:
    """The text compiled or assembled for an Arm core."""
    command = ["arm-none-eabi-gcc", "-mthumb", *flags.split(), "-x", language, "-c", "-", "-o"]
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        subprocess.run([*command, file.name], input=text.encode(), check=True, timeout=60)
        return file.read()


_HARD = "-mfloat-abi=hard"
#: For which core an object is built, by which core it is asked for, and what is said of it.
_MISFITS = (
    ("-mcpu=cortex-m4 -mfloat-abi=soft", "cortex-m3", "for Armv7E-M, but cortex-m3 is Armv7-M"),
    ("-mcpu=cortex-m3", "cortex-m0", "for Armv7-M, but cortex-m0 is Armv6-M"),
    ("-mcpu=cortex-a9", "cortex-m4", "for Armv7-A, but cortex-m4 is Armv7E-M"),
    ("-mcpu=cortex-m33 -mfloat-abi=soft", "cortex-m4", "for Armv8-M Mainline, but"),
    (f"-mcpu=cortex-m55 {_HARD}", "cortex-m33", r"Armv8.1-M Mainline \(cortex-m55\), but"),
    ("-mcpu=cortex-m4 -mfloat-abi=soft", "cortex-m4", "floats in the core's registers; firmware"),
    ("-mcpu=cortex-m4 -mfloat-abi=softfp", "cortex-m4", "floats in the core's registers; firmw"),
    ("-mcpu=cortex-m3 -mfloat-abi=soft", "cortex-m4", "floats in the core's registers; firmware"),
    (f"-mcpu=cortex-m7 {_HARD} -mfpu=fpv5-d16", "cortex-m4", "floating-point unit that cortex-m4"),
    (f"-mcpu=cortex-m7 {_HARD} -mfpu=fpv5-d16", "cortex-m33", "double precision; that of cortex-m"),
)


@pytest.mark.parametrize(("flags", "cpu", "message"), _MISFITS)
def test_an_object_for_another_core_is_refused(flags: str, cpu: str, message: str) -> None:
    data = arm_object("int tvmgen_net_toy_main_0(void) { return 0; }", flags)
    with pytest.raises(InputError, match=message) as caught:
        require_fits(data, get_cpu(cpu), "unit.o")
    assert caught.value.hint == f"compile it for {cpu}: {' '.join(get_cpu(cpu).cflags)}"
    with pytest.raises(InputError, match=message):
        hilc.compile(diamond(), cpu=cpu, externals=[Toy([0], source=None, object=data)])


#: The toolchain whose objects say for which core they are.
ARM = "arm-none-eabi"
_TAKEN = (
    *((name, name) for name in cpu_names() if get_cpu(name).toolchain.name == ARM),
    ("cortex-m0", "cortex-m3"),
    ("cortex-m4", "cortex-m7"),
    ("cortex-m4", "cortex-m33"),
    ("cortex-m7", "cortex-m55"),
    ("cortex-m33", "cortex-m55"),
)


@pytest.mark.parametrize(("built_for", "cpu"), _TAKEN)
def test_an_object_for_an_older_core_is_taken(built_for: str, cpu: str) -> None:
    """Also one of assembly, which says nothing of floats."""
    text, flags = "float f(float a) { return a * 2; }", get_cpu(built_for).cflags
    require_fits(arm_object(text, " ".join(flags)), get_cpu(cpu), "older.o")
    require_fits(arm_object("", "-mcpu=cortex-m0", "assembler"), get_cpu(cpu), "assembled.o")


def test_damaged_attributes_are_refused() -> None:
    """Every byte of them: read or refused, and nothing else."""
    data = arm_object("int f(void) { return 0; }", "-mcpu=cortex-m4")
    start = data.index(b"aeabi\0") - 5
    refused = 0
    for at, value in itertools.product(range(start, start + 48), (0, 0x7F, 0x80, 0xFF)):
        damaged = data[:at] + bytes([value]) + data[at + 1 :]
        try:
            read_object(damaged, "x.o")
        except InputError:
            refused += 1
    assert refused


def test_not_exportable_modules_are_named_together() -> None:
    """TVM's sentence, with every module that is at fault, whoever made it."""
    one = Toy([0], type_key="cuda", source=None)
    two = Toy([1], [2], type_key="rpc", symbol="", source=None)
    good = Toy([3])
    with pytest.raises(InputError) as caught:
        hilc.compile(diamond(), externals=[one, two, good])
    assert caught.value.fact == (
        "These 3 modules are not exportable to C-runtime: tvmgen_net_toy_main_0, "
        "(module type_key=rpc), (module type_key=rpc)"
    )


def defining(*names: str) -> bytes:
    return host_object("".join(f"int {name}(void) {{ return 0; }}\n" for name in names))


DUPLICATES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "functions": (
        [{"functions": ("init",)}, {"functions": ("init",)}],
        "the function 'init' of the external module 'tvmgen_net_toy_main_1' and "
        "the function 'init' of the external module 'tvmgen_net_toy_main_0'",
    ),
    "constants": (
        [{"constants": {"table": np.zeros(1, np.int8)}}] * 2,
        "the constant 'table' of .*main_1' and the constant 'table' of .*main_0'",
    ),
    "constant and function": (
        [{"functions": ("table",)}, {"constants": {"table": np.zeros(1, np.int8)}}],
        "the constant 'table' of .*main_1' and the function 'table' of .*main_0'",
    ),
    "inside of objects": (
        [
            {"source": None, "object": defining("tvmgen_net_toy_main_0", "init")},
            {"source": None, "object": defining("tvmgen_net_toy_main_1", "init")},
        ],
        "the name 'init' of .*main_1' and the name 'init' of .*main_0'",
    ),
    "our operator": (
        [{"functions": ("tvmgen_net_fused_add_2",)}, {}],
        "the function 'tvmgen_net_fused_add_2' of .*main_0' and the layer 't3'",
    ),
    "our entry": (
        [{"constants": {"tvmgen_net_run": np.zeros(1, np.int8)}}, {}],
        "the constant 'tvmgen_net_run' of .*main_0' and the entry point",
    ),
}


@pytest.mark.parametrize("case", DUPLICATES)
def test_a_symbol_defined_twice_is_refused_by_name(case: str) -> None:
    modules, message = DUPLICATES[case]

    class Several(Toy):
        def generate(self, subgraph: Graph, symbol: str, *rest: Any) -> Any:
            self.module = modules[int(symbol[-1])]
            return super().generate(subgraph, symbol, *rest)

    b = GraphBuilder()
    x = b.input(1, 4)
    graph = b.graph(b.add(b.relu(b.relu(x)), x))
    with pytest.raises(InputError, match=message):
        hilc.compile(graph, externals=[Several([0], [1])])


def test_two_models_with_one_function_are_refused() -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.input(1, 4)))
    libraries = [hilc.compile(graph, name=name, externals=[Relu()]) for name in ("a", "b")]
    with pytest.raises(InputError, match="the modules 'a' and 'b' both define npu_log"):
        hilc.merge(libraries)


def test_files_of_one_name_must_be_equal() -> None:
    class Differing(Toy):
        def generate(self, subgraph: Graph, symbol: str, *rest: Any) -> Any:
            self.module = {"headers": {"a.h": f"/* {symbol} */"}}
            return super().generate(subgraph, symbol, *rest)

    with pytest.raises(InputError, match="main_1' has a 'a.h' that differs from that of another"):
        hilc.compile(diamond(), name="net", externals=[Differing([0], [3])])


def test_errors_of_a_generator_say_where_it_was() -> None:
    class Broken(Toy):
        def generate(self, *arguments: Any) -> Any:
            return dict[str, Any]()["missing"]

    with pytest.raises(InputError) as caught:
        hilc.compile(diamond(), externals=[Broken([0])])
    assert caught.value.fact == (
        "the generator 'toy' failed for operator 0 (RELU): KeyError: 'missing'"
    )
    assert re.fullmatch(rf"see line \d+ of {re.escape(__file__)}", caught.value.hint)

    class Nothing(Toy):
        def generate(self, *arguments: Any) -> Any:
            return None

    with pytest.raises(InputError, match="returned a NoneType for operator 0"):
        hilc.compile(diamond(), externals=[Nothing([0])])


def test_two_kinds_of_devices_cannot_share_a_context() -> None:
    devices = [Device("npu", 0), Device("npu_0", use_device_api=True)]
    with pytest.raises(InputError) as caught:
        hilc.compile(
            two_relus(), externals=[Toy([0], device=devices[0]), Toy([2], device=devices[1])]
        )
    assert caught.value.fact == (
        "the device 'npu' number 0 without a device API and the device 'npu_0' with a device API "
        "would both have the context field 'npu_0'"
    )


def test_positions_may_be_numpys() -> None:
    groups = [np.array([0, 1]), np.array([3], np.uint8)]
    parted = partition(diamond(), [Toy(*groups)], HOST, "unpacked", "net")
    assert [node.op for node in parted.nodes] == [EXTERNAL, "RELU", EXTERNAL, "RELU"]


def test_a_generators_name_is_part_of_c_names() -> None:
    with pytest.raises(InputError, match="a code generator has the invalid name 'a b'"):
        hilc.compile(diamond(), externals=[Relu("a b")])


def test_a_subgraph_in_another_place_is_refused() -> None:
    """A node that a pass gave inputs of another shape would compute nonsense."""
    b = GraphBuilder()
    x, wide = b.input(1, 4), b.input(1, 6)
    graph = b.graph(b.relu(x), b.relu(wide))
    parted = partition(graph, [Toy([0])], HOST, "unpacked", "net")
    node = next(node for node in parted.nodes if node.op == EXTERNAL)
    moved = Node(EXTERNAL, (wide,), node.outputs, node.attrs)
    others = tuple(other for other in parted.nodes if other is not node)
    with pytest.raises(InputError, match=r"was made for 't0', int8\[1, 4\]"):
        verify(parted.with_(nodes=(moved, *others)))


# From a file ----------------------------------------------------------------------------------

GENERATORS = """
class One:
    name = "one"

    def __init__(self, mode="fast", *, depth="1"):
        self.given = (mode, depth)

    def claim(self, graph):
        return []

    def generate(self, *arguments):
        raise AssertionError


def make(depth):
    return One(depth=depth)


def wrong():
    return 7


def broken():
    raise ValueError("no licence")
"""


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ("", ("fast", "1")),
        (":One", ("fast", "1")),
        (":One,mode=slow", ("slow", "1")),
        (",depth=3,mode=a=b", ("a=b", "3")),
        (":make,depth=2", ("fast", "2")),
    ],
)
def test_a_generator_from_a_file(options: str, given: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "my.gen, v2.py"
    path.write_text(GENERATORS)
    generator: Any = load_generator(f"{path}{options}")
    assert generator.given == given


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}:Two", "has no class or function 'Two'\n\nhint: its generators are: One"),
        ("{}:make", "missing a required argument: 'depth'\n\nhint: its options are: depth"),
        ("{},size=3", "got an unexpected keyword argument 'size'\n\nhint: .*: mode, depth"),
        ("{},depth=1,depth=2", "has depth twice"),
        ("{}:wrong", "returned a int, which has no 'name'"),
        ("{}:broken", "broken failed: ValueError: no licence\n\nhint: see line 2. of"),
        ("nothing.py", "the file nothing.py does not exist"),
        ("generator", "'generator' does not specify a code generator"),
    ],
)
def test_specs_that_name_no_generator(spec: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "generators.py"
    path.write_text(GENERATORS)
    with pytest.raises(InputError, match=message):
        load_generator(spec.format(path))


def test_a_pipe_is_no_file_of_generators(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(InputError, match="pipe.py is not a regular file"):
        load_generator(str(tmp_path / "pipe.py"))


def test_a_file_must_say_which(tmp_path: Path) -> None:
    path = tmp_path / "several.py"
    path.write_text(GENERATORS + "\n\nclass Another(One):\n    pass\n")
    with pytest.raises(InputError, match="defines 2 generators\n\nhint: .*: One, Another"):
        load_generator(str(path))
    path.write_text("x = 1\n")
    with pytest.raises(InputError, match="defines 0 generators"):
        load_generator(str(path))
    path.write_text("def f(:\n")
    with pytest.raises(InputError, match="several.py failed: SyntaxError"):
        load_generator(str(path))


# The examples ---------------------------------------------------------------------------------


def dense_layers() -> Graph:
    """Fully connected layers, one with a factor a channel, two of which read one tensor."""
    b = GraphBuilder(3)
    top = b.dense(b.dense(b.input(2, 6), 5), 7, per_channel=True)
    left, right = b.dense(top, 4), b.dense(top, 4)
    return b.graph(b.dense(b.add(left, right), 3), top)


@pytest.mark.parametrize(("api", "interface"), [("unpacked", "c"), ("packed", "packed")])
def test_the_matrix_unit(api: str, interface: str) -> None:
    """Groups with tensors between their layers, one with several outputs; two units."""
    graph = run_passes(dense_layers())
    generator = load_generator(f"{EXAMPLES / 'matrix_unit.py'},units=2")
    library = hilc.compile(graph, externals=[generator], api=api, interface=interface)
    (module,) = library.modules
    assert [layer.op for layer in module.layers] == [EXTERNAL, "ADD", EXTERNAL]
    assert [len(layer.outputs) for layer in module.layers] == [3, 1, 1]
    assert [(e.device, e.program) for e in module.externals] == [
        ("matrix_unit_0", "chain"),
        ("matrix_unit_1", "single"),
    ]
    assert_same_everywhere(graph, library)
    inputs = inputs_of(graph)
    units = [np.zeros(1, np.uint32), np.zeros(1, np.uint32)]
    on_host(library, inputs, matrix_unit_0=units[0], matrix_unit_1=units[1])
    assert [unit.tolist() for unit in units] == [[4], [1]]


@functools.cache
def cmsis_nn(path: Path | str = "") -> ExternalCodegen:
    """The generator on the tree of HIL_CMSIS_NN, or else on the stand-in; it compiles it once."""
    tree = path or os.environ.get("HIL_CMSIS_NN") or STAND_IN
    return load_generator(f"{EXAMPLES / 'cmsis_nn.py'},path={tree}")


def layers_for_cmsis_nn() -> Graph:
    """Strides, dilation, padding on one side, a depth multiplier, several rows, every factor."""
    b = GraphBuilder(4)
    attrs: dict[str, Any] = {"activation": "RELU6", "depth_multiplier": 2}

    def depthwise(a: str, padding: Any, stride: int, dilation: int) -> str:
        w = b.weights((1, 2, 3, 2 * b.tensors[a].shape[3]), axis=3)
        steps = {"stride_h": stride, "stride_w": 1, "dilation_h": dilation, "dilation_w": 1}
        return b.op("DEPTHWISE_CONV_2D", a, w, "", padding=padding, **attrs, **steps)

    image = b.conv(b.input(1, 5, 6, 3), 4)
    parts = depthwise(depthwise(image, "SAME", 2, 1), (0, 2, 1, 0), 1, 2)
    flat = b.reshape(parts, 4, b.tensors[parts].size // 4)
    return b.graph(b.dense(b.dense(flat, 5, per_channel=True), 3))


@pytest.mark.parametrize("cell", CELLS[:3], ids=lambda cell: f"{cell['api']}-{cell['pools']}")
def test_cmsis_nn(cell: dict[str, Any]) -> None:
    graph = run_passes(layers_for_cmsis_nn())
    library = hilc.compile(graph, externals=[cmsis_nn()], **cell)
    (module,) = library.modules
    assert [layer.op for layer in module.layers] == [EXTERNAL] * 5
    assert_same_everywhere(graph, library)


def test_models_share_one_cmsis_nn() -> None:
    graph = run_passes(layers_for_cmsis_nn())
    libraries = [hilc.compile(graph, name=name, externals=[cmsis_nn()]) for name in ("a", "b")]
    merged = hilc.merge(libraries)
    assert [path for path in merged.files if "cmsis_nn.o" in path] == [
        "codegen/host/lib/cmsis_nn.o"
    ]
    inputs = inputs_of(graph)
    expected = run(graph, inputs)
    for name in ("a", "b"):
        with hilc.host.load(merged, name) as model:
            for key, value in inputs.items():
                model.set_input(key, value)
            model.run()
            np.testing.assert_array_equal(model.get_output(0), expected[graph.outputs[0]])


@pytest.mark.parametrize(
    ("cpu", "dense", "conv"),
    [("cortex-m0", 0, 27), ("cortex-m4", 0, 54), ("cortex-m55", 28, 108)],
)
def test_scratch_is_what_the_core_needs(cpu: str, dense: int, conv: int) -> None:
    """The stand-in's own sizes: one, two or four windows; with Helium the sums of the weights."""
    b = GraphBuilder()
    graph = b.graph(b.conv(b.input(1, 4, 4, 3), 2), b.dense(b.input(2, 6), 7))
    generator = cmsis_nn(STAND_IN)
    parted = partition(run_passes(graph), [generator], get_cpu(cpu), "unpacked", "net")
    scratch = [ExternalAttributes.of(node).module.scratch_bytes for node in parted.nodes]
    assert scratch == [conv, dense]


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_of_cmsis_nn(version: int, tmp_path: Path) -> None:
    """Before arm_fully_connected_wrapper_s8 a layer with several factors stays ours."""
    graph = run_passes(layers_for_cmsis_nn())
    library = hilc.compile(graph, externals=[cmsis_nn(stand_in(version, tmp_path))])
    (module,) = library.modules
    dense = EXTERNAL if version >= 7 else "FULLY_CONNECTED"
    assert [layer.op for layer in module.layers] == [*[EXTERNAL] * 3, dense, EXTERNAL]
    assert_same_everywhere(graph, library)


def test_the_cmsis_nn_object_is_complete() -> None:
    """Whatever folder its parts lie in; nothing that another operator would need."""
    library = hilc.compile(DIGITS, cpu="cortex-m55", externals=[cmsis_nn(STAND_IN)])
    found = read_object(library.files["codegen/host/lib/cmsis_nn.o"], "cmsis_nn.o")
    assert {"arm_transpose_s8", "arm_vector_sum_s8"} < found.defined
    assert not {name for name in found.undefined if name.startswith("arm_")}
    assert "arm_nn_lstm_step_s8" not in found.defined


def edited_stand_in(folder: Path, pattern: str) -> Path:
    """The stand-in without the declarations that match."""
    tree = stand_in(7, folder)
    header = tree / "Include" / "arm_nnfunctions.h"
    header.write_text(re.sub(pattern, "", header.read_text()))
    return tree


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        (
            r"int32_t\s+arm_convolve\w*_dsp[^;]*;",
            "cannot tell the scratch that cores with dsp need: it declares no arm_convolve_wrapper",
        ),
        (r"cmsis_nn_fc_params \*fc_params", "arm-none-eabi-gcc failed on CMSIS-NN|cc failed"),
    ],
)
def test_a_tree_that_cannot_be_used(removed: str, message: str, tmp_path: Path) -> None:
    generator = cmsis_nn(edited_stand_in(tmp_path, removed))
    with pytest.raises(InputError, match=message):
        hilc.compile(DIGITS, cpu="cortex-m4", externals=[generator])


def test_an_incomplete_tree(tmp_path: Path) -> None:
    tree = stand_in(7, tmp_path)
    (tree / "Source/TransposeFunctions/arm_transpose_s8.c").unlink()
    with pytest.raises(InputError, match="calls arm_transpose_s8, which none of its files"):
        hilc.compile(DIGITS, cpu="cortex-m4", externals=[cmsis_nn(tree)])


def test_cmsis_nn_4_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is CMSIS-NN 4 or older.*\n\nhint: use CMSIS-NN 5.0"):
        cmsis_nn(stand_in(4, tmp_path))


def test_cmsis_nn_must_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HIL_CMSIS_NN", raising=False)
    with pytest.raises(InputError, match="no source tree of CMSIS-NN is named\n\nhint: clone"):
        load_generator(str(EXAMPLES / "cmsis_nn.py"))
    with pytest.raises(InputError, match="is not a source tree of CMSIS-NN: it has no Include"):
        cmsis_nn(tmp_path)
    monkeypatch.setenv("HIL_CMSIS_NN", str(STAND_IN))
    assert load_generator(str(EXAMPLES / "cmsis_nn.py")).name == "cmsis_nn"
