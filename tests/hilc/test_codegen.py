"""The generated C: as reviewed (golden files), without warnings, the same every time, callable.

``HIL_UPDATE_GOLDEN=1`` writes the golden files anew.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import generated_c
import models
import numpy as np
import pytest
from c_parameters import c_parameters
from campaigns import cases, sampled
from random_graphs import GraphBuilder, small_net

import hilc
from hilc import interpreter
from hilc.codegen.cwriter import (
    c_array,
    c_comment,
    c_number,
    c_wrapped,
)
from hilc.errors import InputError
from hilc.external import Device, ExternalModule
from hilc.ir import Graph
from hilc.lowering.kernels import kernels
from hilc.memory.plan import PoolSpec
from hilc.support.identifiers import c_identifier
from hilc.support.resources import data_dir
from hilc.target import Cpu

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
VARIANTS = tuple(itertools.product(("internal", "external"), (False, True)))


def _tiny() -> Graph:
    return small_net("tiny")


def _renamed(graph: Graph, names: dict[str, str]) -> Graph:
    """The graph with other names for some tensors."""

    def new(name: str) -> str:
        return names.get(name, name)

    return Graph(
        graph.name,
        {new(n): replace(t, name=new(n)) for n, t in graph.tensors.items()},
        tuple(
            replace(n, inputs=tuple(map(new, n.inputs)), outputs=tuple(map(new, n.outputs)))
            for n in graph.nodes
        ),
        tuple(map(new, graph.inputs)),
        tuple(map(new, graph.outputs)),
    )


# The sources ------------------------------------------------------------------------------------


def _one_layer() -> Graph:
    """A layer with constants and scratch."""
    b = GraphBuilder()
    return b.graph(b.conv(b.input(1, 2, 2, 1), 1), name="layer")


_GOLDEN = {
    "tiny": (_tiny(), {"optimize": "size"}),
    "layer": (_one_layer(), {"api": "packed", "interface": "packed"}),
}


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("tiny", "tvmgen_tiny.h"),
        ("tiny", "tiny_lib0.c"),
        ("tiny", "tiny_lib1.c"),
        ("layer", "tvmgen_layer.h"),
        ("layer", "layer_lib0.c"),
        ("layer", "layer_lib1.c"),
        ("layer", "layer_lib2.c"),
    ],
)
def test_sources_are_those_that_were_reviewed(name: str, file: str) -> None:
    graph, options = _GOLDEN[name]
    files = hilc.compile(graph, **options).files  # type: ignore[call-overload]
    folder = "include" if file.endswith(".h") else "src"
    text = files[f"codegen/host/{folder}/{file}"].decode()
    golden = GOLDEN / name / file
    if os.environ.get("HIL_UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    reviewed = golden.read_text(encoding="utf-8")
    assert text == reviewed, "the C changed; HIL_UPDATE_GOLDEN=1 accepts it, after a review"


_PACKED = {"api": "packed", "interface": "packed"}


@cases(
    ("compiler", "options"),
    [
        *((compiler, {}) for compiler in generated_c.COMPILERS),
        *((compiler, {"optimize": "size"}) for compiler in generated_c.COMPILERS),
        ("clang", _PACKED),
        ("cortex-m0", {**_PACKED, "pools": "external", "constants": "external"}),
        ("cortex-m55", {**_PACKED, "pools": "calls", "optimize": "size"}),
        ("clang", {"interface": "packed", "pools": "external"}),
        ("cortex-m4", {"pools": "calls", "constants": "external"}),
    ],
    first=4,
)
def test_sources_compile_without_a_warning(
    compiler: str, options: dict[str, str], tmp_path: Path
) -> None:
    library = hilc.compile(_tiny(), **options)  # type: ignore[call-overload]
    generated_c.compile_objects(library, generated_c.COMPILERS[compiler], tmp_path)


@pytest.mark.parametrize(("model", "compiler"), [("kws", "cortex-m55"), ("kws_float", "clang")])
def test_a_real_model_compiles_without_a_warning(model: str, compiler: str, tmp_path: Path) -> None:
    library = hilc.compile(models.model_path(model))
    generated_c.compile_objects(library, generated_c.COMPILERS[compiler], tmp_path)


@pytest.mark.parametrize(("pools", "io_in_pool"), VARIANTS)
def test_the_header_is_cxx_too(pools: str, io_in_pool: bool, tmp_path: Path) -> None:
    hilc.compile(_tiny(), pools=pools, io_in_pool=io_in_pool).save(tmp_path / "lib")
    (tmp_path / "user.cpp").write_text(
        '#include "tvmgen_tiny.h"\n#include "tvmgen_tiny.h"\nint size = TVMGEN_TINY_T0_SIZE;\n'
    )
    flags = ["-Wall", "-Wextra", "-pedantic", "-Wundef", "-Werror", "-fsyntax-only"]
    include = "-Ilib/codegen/host/include"
    generated_c.run(["g++", "-std=c++11", *flags, include, "user.cpp"], tmp_path)


@cases(("compiler", "absent"), [("gcc", "mve"), ("cortex-m55", "")], first=1)
def test_all_kernels_can_be_in_one_file(compiler: str, absent: str, tmp_path: Path) -> None:
    fitting = [kernel for kernel in kernels().values() if absent not in kernel.requires]
    headers = sorted({kernel.header for kernel in fitting})
    (tmp_path / "all.c").write_text("".join(f'#include "{h}"\n' for h in headers) + "int x;\n")
    include = f"-I{data_dir('runtime') / 'include'}"
    command = [*generated_c.COMPILERS[compiler], *generated_c.WARNINGS, include, "-c", "all.c"]
    generated_c.run(command, tmp_path)


def test_lines_are_short_and_hold_no_tab() -> None:
    for name, data in hilc.compile(models.model_path("kws")).files.items():
        if name.startswith("codegen/") and "/hil/" not in name:
            text = data.decode("ascii")
            assert max(map(len, text.splitlines())) <= 100, name
            assert "\t" not in text
            assert text.endswith("\n")
            assert not text.endswith("\n\n")


def test_the_same_model_gives_the_same_bytes_anywhere(tmp_path: Path) -> None:
    program = "import hilc, sys; hilc.compile(sys.argv[1], name='kws').save('kws.tar')"
    archives = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"XXX{seed}"}
        command = [sys.executable, "-c", program, str(models.model_path("kws"))]
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        subprocess.run(command, cwd=folder, env=environment, check=True, timeout=120)
        archives.append((folder / "kws.tar").read_bytes())
    assert archives[0] == archives[1]


def test_equal_constants_are_stored_once() -> None:
    b = GraphBuilder()
    x, c = b.input(1, 64), b.constant(1, 64)
    library = hilc.compile(b.graph(b.add(b.add(x, c), c), name="twice"))
    once = hilc.compile(b.graph("t2", name="once"))
    assert library.modules[0].constants_bytes == once.modules[0].constants_bytes


def test_layers_that_differ_in_arrays_share_a_body() -> None:
    def source(optimize: str) -> str:
        b = GraphBuilder()
        graph = b.graph(b.conv(b.conv(b.conv(b.input(1, 6, 6, 4), 4), 4), 5), name="net")
        files = hilc.compile(graph, optimize=optimize).files
        return files["codegen/host/src/net_lib1.c"].decode()

    balanced = source("balanced")
    assert "/* Parameters of each of the layers 0 and 1, which share one body. */" in balanced
    # The numbers are the body's, and what differs is each layer's.
    body = balanced[balanced.index("static int32_t shared_0(") :]
    assert ".in_h = 6," in body[: body.index("hil_generic_conv2d_s8(&p")]
    assert ".weights = own->weights," in body[: body.index("hil_generic_conv2d_s8(&p")]
    assert balanced.count("static const struct shared_0 layer_") == 2
    assert "shared_" not in source("speed")
    # In size, where the numbers may differ too.
    assert "    int32_t out_c;\n" in source("size").partition("static int32_t shared_0(")[0]
    assert "layers 0, 1 and 2" in source("size")


@pytest.mark.parametrize(("layers", "channels"), [(8, 16), (7, 16), (8, 2)])
def test_speed_shares_a_body_of_many_long_layers(layers: int, channels: int) -> None:
    b = GraphBuilder()
    made = b.input(1, 6, 6, channels)
    for _ in range(layers):
        made = b.conv(made, channels)
    files = hilc.compile(b.graph(made, name="net"), cpu="cortex-m4", optimize="speed").files
    source = b"".join(text for name, text in files.items() if name.endswith("_lib1.c"))
    assert (b"shared_" in source) == (layers == 8 and channels == 16)


def test_size_shares_a_body_only_where_it_pays() -> None:
    source = hilc.compile(_tiny(), optimize="size").files["codegen/host/src/tiny_lib1.c"].decode()
    assert "static int32_t shared_" in source
    assert "hil_generic_split(&layer_" in source


# A caller in C ----------------------------------------------------------------------------------

_CALLER = """\
#include <stdio.h>
#include <string.h>

#include "tvmgen_tiny.h"

%(arrays)s
%(buffers)s

int main(void) {
%(run)s
}
"""

_CALLERS = {
    ("internal", False): """\
    struct tvmgen_tiny_inputs in = {.t0 = x0, .t1 = x1};
    struct tvmgen_tiny_outputs out = {.TOTAL = y0, .LEFT = y1};
    if (tvmgen_tiny_run(&in, &out) != 0) { return 1; }
    return compare(y0, y1);""",
    ("external", False): """\
    static uint8_t memory[TVMGEN_TINY_GLOBAL_WORKSPACE_WORKSPACE_POOL_SIZE];
    _Static_assert(sizeof memory == TVMGEN_TINY_WORKSPACE_SIZE, "one pool");
    struct tvmgen_tiny_workspace_pools pools = {.global_workspace = memory};
    struct tvmgen_tiny_inputs in = {.t0 = x0, .t1 = x1};
    struct tvmgen_tiny_outputs out = {.TOTAL = y0, .LEFT = y1};
    if (tvmgen_tiny_run(&in, &out, &pools) != 0) { return 1; }
    return compare(y0, y1);""",
    ("internal", True): """\
    struct tvmgen_tiny_inputs in = tvmgen_tiny_map_inputs();
    struct tvmgen_tiny_outputs out = tvmgen_tiny_map_outputs();
    memcpy(in.t0, x0, TVMGEN_TINY_T0_SIZE);
    memcpy(in.t1, x1, TVMGEN_TINY_T1_SIZE);
    if (tvmgen_tiny_run() != 0) { return 1; }
    return compare(out.TOTAL, out.LEFT);""",
    ("external", True): """\
    static uint8_t memory[TVMGEN_TINY_WORKSPACE_SIZE];
    struct tvmgen_tiny_workspace_pools pools = {.global_workspace = memory};
    struct tvmgen_tiny_inputs in = tvmgen_tiny_map_inputs(&pools);
    struct tvmgen_tiny_outputs out = tvmgen_tiny_map_outputs(&pools);
    memcpy(in.t0, x0, TVMGEN_TINY_T0_SIZE);
    memcpy(in.t1, x1, TVMGEN_TINY_T1_SIZE);
    if (tvmgen_tiny_run(&pools) != 0) { return 1; }
    return compare(out.TOTAL, out.LEFT);""",
}


@cases(("pools", "io_in_pool"), VARIANTS, first=1)
def test_a_c_program_calls_the_model(pools: str, io_in_pool: bool, tmp_path: Path) -> None:
    graph = _tiny()
    rng = np.random.default_rng(5)
    inputs = {
        n: rng.integers(-128, 128, graph.tensors[n].shape).astype(np.int8) for n in graph.inputs
    }
    expected = list(interpreter.run(graph, inputs).values())
    arrays = [c_array(f"x{i}", a, "static") for i, a in enumerate(inputs.values())]
    arrays += [c_array(f"expected{i}", a) for i, a in enumerate(expected)]
    if not io_in_pool:
        arrays += [f"static int8_t y{i}[{a.size}];\n" for i, a in enumerate(expected)]
    compare = (
        "static int compare(const void *total, const void *left) {\n"
        "    return memcmp(total, expected0, sizeof expected0) != 0 ||\n"
        "           memcmp(left, expected1, sizeof expected1) != 0;\n}\n"
    )
    total, left = graph.outputs
    body = _CALLERS[pools, io_in_pool].replace("TOTAL", total).replace("LEFT", left)
    text = _CALLER % {"arrays": "".join(arrays), "buffers": compare, "run": body}
    optimize = "size" if pools == "internal" else "balanced"
    library = hilc.compile(graph, pools=pools, io_in_pool=io_in_pool, optimize=optimize)
    library.save(tmp_path)
    (tmp_path / "main.c").write_text(text)
    files = ["main.c", *generated_c.sources(library)]
    command = ["gcc", *generated_c.WARNINGS, "-O0", "-Icodegen/host/include", *files, "-lm"]
    generated_c.run([*command, "-o", "caller"], tmp_path)
    generated_c.run(["./caller"], tmp_path)


def test_the_main_passes_an_operators_failure_on(tmp_path: Path) -> None:
    library = hilc.compile(_tiny())
    library.save(tmp_path)
    name = "codegen/host/src/tiny_lib1.c"
    text = library.files[name].decode()
    last = library.modules[0].layers[-1].function
    head, _, tail = text.partition(f"int32_t {last}(")
    failing = re.sub(r"return (0|shared_\d+\(.*?\));", "return 7;", tail, count=1, flags=re.DOTALL)
    (tmp_path / name).write_text(f"{head}int32_t {last}({failing}")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "tvmgen_tiny.h"\nint main(void) {\n'
        "    static int8_t b[4][64];\n"
        "    struct tvmgen_tiny_inputs in = {b[0], b[1]};\n"
        "    struct tvmgen_tiny_outputs out = {b[2], b[3]};\n"
        '    printf("%d", (int)tvmgen_tiny_run(&in, &out));\n    return 0;\n}\n'
    )
    files = ["main.c", *generated_c.sources(library)]
    generated_c.run(
        ["gcc", "-std=c11", "-Icodegen/host/include", *files, "-lm", "-o", "caller"], tmp_path
    )
    assert generated_c.run(["./caller"], tmp_path) == "-1"


@pytest.mark.parametrize("options", [{}, {"optimize": "size"}, {"feed": "rows"}])
def test_models_with_callers_pools_write_nothing_else(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """So calls with pools of their own may run at the same time."""
    library = hilc.compile(
        models.model_path("kws"), cpu="cortex-m4", name="kws", pools="external", **options
    )
    library.save(tmp_path)
    compiler = generated_c.COMPILERS["cortex-m4"]
    for source in generated_c.sources(library):
        flags = ("-O2", "-Icodegen/host/include", "-c", source, "-o", "object.o")
        generated_c.run([*compiler, *flags], tmp_path)
        sizes = generated_c.run(["arm-none-eabi-size", "object.o"], tmp_path).split("\n")[1]
        assert sizes.split()[1:3] == ["0", "0"], sizes  # data and bss


# Names ------------------------------------------------------------------------------------------


USERS = [["gcc"], ["g++", "-x", "c++"], ["arm-none-eabi-gcc"]]


def test_names_are_made_valid(tmp_path: Path) -> None:
    names = {"t0": "int", "t1": "1st input:0", "t4": "serving/default*/ \\brief \u00e4?"}
    graph = _renamed(_tiny(), names)
    library = hilc.compile(graph, name="Two-IO.v1")
    module = library.modules[0]
    assert (module.name, module.symbol) == ("Two_IO_v1", "tvmgen_two_io_v1")
    assert [info.name for info in module.inputs] == ["int", "1st input:0"]
    assert [info.c_name for info in module.inputs] == ["int_", "_1st_input_0"]
    generated_c.compile_objects(library, generated_c.COMPILERS["gcc"], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("compiler", sampled(USERS, keep=USERS[:1]))
def test_names_are_no_macros_of_headers(compiler: list[str], tmp_path: Path) -> None:
    """Of those that the header includes, and of those that a project includes before it."""
    first = "errno NULL EOF I NAN INFINITY INT8_MAX SIZE_MAX RAND_MAX M_PI __LINE__ __inline INPUT"
    second = "stdin complex __restrict _Float32 INT_MIN FLT_MAX __GNUC__ typeof_unqual OUTPUT"
    headers = ["complex", "errno", "float", "limits", "math", "stdio", "stdlib"]
    if "c++" in compiler:
        headers = [f"c{name}" for name in headers if name != "complex"]
    else:
        headers = [f"{name}.h" for name in headers]
    arduino = ["#define INPUT 0x0", "#define OUTPUT 0x1", "#define PI 3.14"]
    for one, other in zip(first.split(), [*second.split(), *first.split()], strict=False):
        library = hilc.compile(_renamed(_tiny(), {"t0": one, "t1": other}))
        library.save(tmp_path)
        generated_c.compile_objects(library, generated_c.COMPILERS["gcc"], tmp_path, ("-O0",))
        lines = [*(f"#include <{name}>" for name in headers), *arduino]
        lines.append(f'#include "{library.modules[0].symbol}.h"')
        (tmp_path / "user").write_text("\n".join(lines) + "\n")
        mode = compiler if "-x" in compiler else [*compiler, "-x", "c"]
        generated_c.run([*mode, "-Icodegen/host/include", "-fsyntax-only", "user"], tmp_path)


def test_long_names_end_in_a_hash(tmp_path: Path) -> None:
    long = "x" * 200
    library = hilc.compile(_renamed(_tiny(), {"t0": long}), name="m" * 300)
    module = library.modules[0]
    assert len(module.inputs[0].c_name) < 100
    assert len({layer.function for layer in module.layers}) == len(module.layers)
    assert max(len(layer.function) for layer in module.layers) < 110
    assert c_identifier(f"{long}a") != c_identifier(f"{long}b")
    generated_c.compile_objects(library, generated_c.COMPILERS["gcc"], tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"t0": "a:b", "t1": "a/b"}, "'a:b' and 'a/b' both become A_B"),
        ({"t0": "Mask", "t1": "mask"}, "'Mask' and 'mask' both become MASK"),
        ({"t0": "workspace"}, "'workspace' would share the macro WORKSPACE_SIZE"),
        (
            {"t1": "Fast workspace pool"},
            "'Fast workspace pool' would share the macro FAST_WORKSPACE_POOL_SIZE with the memory "
            "pool 'fast'",
        ),
        (
            {"t0": "global_const_workspace.constant-pool"},
            "share the macro GLOBAL_CONST_WORKSPACE_CONSTANT_POOL_SIZE with the constant pool",
        ),
    ],
)
def test_names_that_become_one_are_refused(names: dict[str, str], message: str) -> None:
    for interface in ("c", "packed"):
        with pytest.raises(InputError, match=message):
            hilc.compile(
                _renamed(_tiny(), names),
                interface=interface,
                memory=[PoolSpec("fast", 64), PoolSpec("slow")],
            )


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        (
            (PoolSpec("a b"), PoolSpec("A.B")),
            "pool 'a b' and the memory pool 'A.B' both become A_B",
        ),
        ((PoolSpec("run"),), "pool 'run' and the entry point would both be tvmgen_tiny_run"),
        ((PoolSpec("map_inputs"),), "and the function that maps the inputs"),
        ((PoolSpec("get_c_metadata"),), "and the function that returns the metadata"),
        ((PoolSpec("fused_add_2"),), "'fused_add_2' and the layer 't7' would both be"),
        ((PoolSpec("fast", 64, "RAM 1"), PoolSpec("slow")), "'fast' is in the region 'RAM 1'"),
        ((PoolSpec("Global_const-workspace"),), "the constant pool and the memory pool 'Gl"),
    ],
)
def test_names_of_pools_that_cannot_be(pools: tuple[PoolSpec, ...], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        hilc.compile(_tiny(), memory=pools)


@pytest.mark.full
def test_pools_with_names_that_c_does_not_allow(tmp_path: Path) -> None:
    memory = [PoolSpec("int", 64), PoolSpec("main"), PoolSpec("1st")]
    for number, options in enumerate([{}, {"interface": "packed"}, {"pools": "external"}]):
        library = hilc.compile(_tiny(), memory=memory, **options)  # type: ignore[call-overload]
        names = [pool.name for pool in library.modules[0].workspace_pools]
        assert names == ["int_", "main", "_1st"]
        folder = tmp_path / str(number)
        generated_c.compile_objects(library, generated_c.COMPILERS["gcc"], folder)


class _Device:
    """Hands every ADD to a device of its own."""

    name = "adder"

    def __init__(self, *devices: Device, functions: tuple[str, ...] = ()) -> None:
        self._devices = list(devices)
        self._functions = functions

    def claim(self, graph: Graph) -> list[list[int]]:
        return [[i] for i, node in enumerate(graph.nodes) if node.op == "ADD"]

    def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
        names = [*(f"in{i}" for i, _ in enumerate(subgraph.inputs)), "out", "device"]
        head = f"int32_t {symbol}({', '.join(f'void *{name}' for name in names)})"
        further = "".join(f"void {f}(void);\nvoid {f}(void) {{}}\n" for f in self._functions)
        unused = "".join(f"(void){name};" for name in names)
        return ExternalModule(
            symbol,
            f"{further}{head} {{ {unused} return 0; }}\n",
            device=self._devices.pop(0),
            functions=self._functions,
        )


def test_devices_are_told_apart() -> None:
    library = hilc.compile(_tiny(), externals=[_Device(Device("npu", 0), Device("npu", 1))])
    assert library.modules[0].devices == ("npu_0", "npu_1")
    header = library.files["codegen/host/include/tvmgen_tiny.h"].decode()
    assert "struct tvmgen_tiny_devices {\n    void *npu_0;\n    void *npu_1;\n};" in header
    with pytest.raises(InputError, match="would both have the context field 'npu_0'"):
        hilc.compile(_tiny(), externals=[_Device(Device("npu", 0), Device("npu_0"))])
    with pytest.raises(InputError, match="devices 'int' and 'int_' both become int_"):
        hilc.compile(_tiny(), externals=[_Device(Device("int"), Device("int_"))])
    # The same device for both layers is one field.
    shared = hilc.compile(_tiny(), externals=[_Device(Device("npu"), Device("npu"))])
    assert shared.modules[0].devices == ("npu",)


def test_an_external_function_with_the_librarys_name() -> None:
    generator = _Device(Device("npu"), Device("npu"), functions=("tvmgen_tiny_run",))
    with pytest.raises(InputError, match="tvmgen_tiny_run"):
        hilc.compile(_tiny(), externals=[generator])


def test_capitals_of_a_models_name() -> None:
    """TVM's C interface has symbols in lower case, its packed interface as the name was given."""
    c = hilc.compile(_tiny(), name="Net")
    packed = hilc.compile(_tiny(), name="Net", interface="packed")
    assert (c.modules[0].name, c.modules[0].symbol) == ("Net", "tvmgen_net")
    assert (packed.modules[0].name, packed.modules[0].symbol) == ("Net", "tvmgen_Net")
    assert packed.modules[0].functions[0] == "tvmgen_Net_run"
    assert "codegen/host/include/tvmgen_Net.h" in packed.files
    with pytest.raises(InputError, match=r"Multiple modules should have unique names\."):
        hilc.merge([c, packed])


def test_a_model_without_a_name_is_called_default() -> None:
    assert hilc.compile(models.model_path("ad").read_bytes()).modules[0].name == "default"
    assert hilc.compile(models.model_path("ad")).modules[0].name == "ad01_int8"


# Options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "available"),
    [
        ("optimize", "small", "balanced or speed or size or ram"),
        ("pools", "both", "internal or external or calls"),
        ("constants", "flash", "internal or binary or auto or external"),
        ("codegen", "rust", "c or llvm"),
        ("api", "boxed", "unpacked or packed"),
    ],
)
def test_what_is_not_available_is_refused(option: str, value: str, available: str) -> None:
    with pytest.raises(InputError, match=f"{option}={value} is not available") as caught:
        hilc.compile(_tiny(), **{option: value})  # type: ignore[call-overload]
    assert available in caught.value.hint


_CRT = (
    'Either need interface_api == "packed" (got: {}) or unpacked-api == true (got: {}) '
    "when targeting c runtime"
)
_CPP = (
    'Need unpacked-api == false (got: {}) and interface-api == "packed" (got: {}) '
    "when targeting c++ runtime"
)
_UNHANDLED = "Unhandled executor option config: interface-api={}, unpacked-api={}"


@pytest.mark.parametrize(
    ("runtime", "api", "interface", "sentence"),
    [
        ("crt", "unpacked", "c", None),
        ("crt", "unpacked", "packed", None),
        ("crt", "packed", "packed", None),
        ("crt", "packed", "c", _CRT.format("c", 0)),
        ("crt", "packed", "rest", _CRT.format("rest", 0)),
        ("crt", "unpacked", "rest", _UNHANDLED.format("rest", 1)),
        ("cpp", "packed", "packed", None),
        ("cpp", "unpacked", "c", _CPP.format(1, "c")),
        ("cpp", "unpacked", "packed", _CPP.format(1, "packed")),
        ("cpp", "packed", "c", _CPP.format(0, "c")),
        ("cpp", "packed", "rest", _CPP.format(0, "rest")),
        ("rust", "packed", "packed", "runtime_config (rust) is not one of the expected values"),
    ],
)
def test_calling_conventions_are_refused_as_tvm_does(
    runtime: str, api: str, interface: str, sentence: str | None
) -> None:
    if sentence is None:
        library = hilc.compile(_tiny(), runtime=runtime, api=api, interface=interface)
        assert (library.modules[0].api, library.modules[0].interface) == (api, interface)
        return
    with pytest.raises(InputError) as caught:
        hilc.compile(_tiny(), runtime=runtime, api=api, interface=interface)
    assert caught.value.fact == sentence
    assert caught.value.hint


@pytest.mark.parametrize("api", ["unpacked", "packed"])
def test_inputs_in_the_workspace_need_the_c_interface(api: str) -> None:
    with pytest.raises(InputError) as caught:
        hilc.compile(_tiny(), api=api, interface="packed", io_in_pool=True)
    assert caught.value.fact == (
        "tir.usmp.use_workspace_io option is only compatible with interface_api c.\n"
        "Please use interface_api c to be able to enable tir.usmp.use_workspace_io"
    )


def test_a_workspace_of_calls_is_one_without_inputs() -> None:
    with pytest.raises(InputError, match="inputs and outputs cannot be in a workspace that"):
        hilc.compile(_tiny(), pools="calls", io_in_pool=True)
    with pytest.raises(InputError, match="2 memory pools with pools=calls"):
        hilc.compile(_tiny(), pools="calls", memory=[PoolSpec("a"), PoolSpec("b")])


def test_an_unknown_core_is_refused() -> None:
    with pytest.raises(InputError, match="unknown CPU 'cortex-m99'"):
        hilc.compile(_tiny(), cpu="cortex-m99")


# The writer -------------------------------------------------------------------------------------

_VALUES = {
    "int8": [-128, -1, 0, 127],
    "uint8": [0, 255],
    "int16": [-32768, 32767],
    "int32": [-(2**31), 2**31 - 1],
    "int64": [-(2**63), 2**63 - 1],
    "float32": [0.0, -0.0, 0.1, -1e-45, 3.4028235e38, np.inf, -np.inf, np.nan],
    "bool": [True, False],
}


def test_arrays_read_back_exactly(tmp_path: Path) -> None:
    arrays = {name: np.array(values, name) for name, values in _VALUES.items()}
    definitions = "\n".join(c_array(f"a_{name}", array) for name, array in arrays.items())
    writes = "".join(f"    fwrite(a_{n}, 1, sizeof a_{n}, stdout);\n" for n in arrays)
    text = f"#include <stdint.h>\n#include <stdio.h>\n{definitions}"
    (tmp_path / "main.c").write_text(f"{text}int main(void) {{\n{writes}    return 0;\n}}\n")
    for compiler in ("gcc", "clang"):
        generated_c.run([compiler, *generated_c.WARNINGS, "main.c", "-o", "main"], tmp_path)
        done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, check=True)
        assert done.stdout == b"".join(array.tobytes() for array in arrays.values())


def test_an_empty_array_is_refused() -> None:
    with pytest.raises(ValueError, match="a is empty"):
        c_array("a", np.zeros(0, np.int8))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "1"),
        (np.int32(-7), "-7"),
        (-(2**31), "INT32_MIN"),
        (-(2**63), "INT64_MIN"),
        (0.5, "0x1p-1f"),
        (np.float32(0.1), "0x1.99999ap-4f"),
        (0.1, "0x1.999999999999ap-4"),
        (1e300, "0x1.7e43c8800759cp+996"),
        (float("-inf"), "-__builtin_inff()"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert c_number(value) == text


def test_parameters_of_a_kernel() -> None:
    text = c_parameters("k", "p", {"n": 2, "w": np.array([1, 2], np.int8), "t": (1, 2)})
    assert "int8_t p_w[2] = {\n    1, 2,\n};" in text
    assert "struct k p = {\n    .n = 2,\n    .w = p_w,\n    .t = {1, 2},\n};" in text


def test_a_comment_cannot_be_left() -> None:
    assert c_comment("a */ b /* c ???/ \u2028d") == "/* a * / b / * c ? ? ?/ ?d */\n"


def test_long_argument_lists_are_wrapped() -> None:
    items = [f"argument_number_{i}" for i in range(9)]
    lines = c_wrapped("call(", items, ");").splitlines()
    assert max(map(len, lines)) <= 100
    assert "".join(line.strip() + " " for line in lines).strip() == f"call({', '.join(items)});"
