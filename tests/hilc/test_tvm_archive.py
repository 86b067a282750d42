"""Archives that TVM wrote: what is read out of each kind, run in this process, and refused."""

from __future__ import annotations

import json
import re
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_graphs import GraphBuilder
from tvm_archive import INPUTS, OUTPUTS, STYLES, Style, expected, tvm_files, tvm_tar, write_tar
from waiting import PATIENCE_S

import hilc
from hilc import host
from hilc.artifact.library import ModelLibrary, Module, Pool
from hilc.errors import HilError, InputError
from hilc.interpreter import run
from hilc.target import get_cpu

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

_HOST_OBJECTS = ("gcc", "-std=c11", "-fPIC", "-O1")
_ARM_OBJECTS = ("arm-none-eabi-gcc", "-std=c11", *get_cpu("cortex-m4").cflags)


def _load(path: Path, files: Mapping[str, bytes]) -> Module:
    (module,) = ModelLibrary.load(write_tar(path / "net.tar", files)).modules
    return module


# What is read -----------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_each_kind_is_described(style: Style, tmp_path: Path) -> None:
    library = ModelLibrary.load(tvm_tar(tmp_path / "net.tar", style))
    (module,) = library.modules
    assert (module.name, module.symbol, module.cpu) == ("default", "tvmgen_default", "cortex-m4")
    assert (module.interface, module.api, module.codegen) == (style.interface, style.api, "c")
    is_mapped = style.pools == "mapped"
    assert module.pools == ("external" if is_mapped else style.pools)
    assert module.io_in_pool == is_mapped
    assert module.layers == ()
    assert module.devices == style.devices
    assert module.io_bytes == 34
    assert module.constants_bytes == 48
    # Version 5 has no table with the names: those of the code are all there is.
    renamed = style.version == 5 and style.interface == "packed"
    assert [(t.name, t.c_name, t.shape, t.dtype) for t in module.inputs] == [
        ("zoom", "zoom", (1, 8), "int8"),
        ("at_in" if renamed else "at-in", "at_in", (2, 4), "int8"),
    ]
    assert [(t.name, t.shape, t.dtype, t.nbytes) for t in module.outputs] == [
        ("output0", (1, 4), "int32", 16),
        ("output1", (1,), "int16", 2),
    ]
    assert library.files.keys() == tvm_files(style).keys()


_OPERATORS = ["fused_cast_add", "fused_dense_add", "fused_max", "__tvm_main__", "get_c_metadata"]


@pytest.mark.parametrize(
    ("style", "functions"),
    [
        (Style(), []),
        (Style(5, "packed", "packed", "calls", system_lib=True), [*_OPERATORS, "run"]),
        (Style(7, "packed", "packed", system_lib=True), ["run", *_OPERATORS]),
        (Style(7, "packed", "packed"), ["run", "get_c_metadata"]),
        (Style(7, "packed", "unpacked"), ["run", "get_c_metadata"]),
    ],
    ids=str,
)
def test_packed_functions_are_those_of_the_registry(
    style: Style, functions: list[str], tmp_path: Path
) -> None:
    module = _load(tmp_path, tvm_files(style))
    assert module.functions == tuple(f"tvmgen_default_{name}" for name in functions)


@pytest.mark.parametrize(
    ("style", "pools", "workspace_bytes"),
    [
        (Style(pools="internal"), (), 80),
        (Style(pools="external"), (Pool("sram", 80, None),), 80),
        (Style(pools="mapped"), (Pool("sram", 144, None),), 144),
        # Two blocks, each rounded up.
        (Style(pools="calls"), (), 80 + 2 * 16),
    ],
    ids=str,
)
def test_memory(
    style: Style, pools: tuple[Pool, ...], workspace_bytes: int, tmp_path: Path
) -> None:
    module = _load(tmp_path, tvm_files(style))
    assert (module.workspace_pools, module.workspace_bytes) == (pools, workspace_bytes)


def test_places_of_mapped_tensors(tmp_path: Path) -> None:
    module = _load(tmp_path, tvm_files(Style(pools="mapped")))
    places = {t.name: (t.pool, t.offset) for t in (*module.inputs, *module.outputs)}
    assert places == {"zoom": (0, 80), "at-in": (0, 96), "output0": (0, 112), "output1": (0, 128)}


def test_external_constants_are_told_from_workspaces(tmp_path: Path) -> None:
    module = _load(tmp_path, tvm_files(Style(pools="external", external_constants=True)))
    assert (module.constants, module.constants_pool) == ("external", "flash")
    assert [pool.name for pool in module.workspace_pools] == ["sram"]


@pytest.mark.parametrize(
    ("version", "target", "cpu"),
    [
        (7, "c -keys=arm_cpu,cpu -mcpu=cortex-m7 -model=stm32f746xx", "cortex-m7"),
        (5, "c -keys=cpu -link-params=1 -mcpu=cortex-m55 -runtime=c", "cortex-m55"),
        (7, "c -keys=cpu", "host"),
        (7, "c -mcpu=avr", "host"),
    ],
)
def test_the_core_is_the_targets(version: int, target: str, cpu: str, tmp_path: Path) -> None:
    assert _load(tmp_path, tvm_files(Style(version, pools="calls", target=target))).cpu == cpu


@pytest.mark.parametrize("style", [Style(), Style(7, "packed", "packed")], ids=str)
def test_a_folder_is_read_as_a_tar_is(style: Style, tmp_path: Path) -> None:
    library = ModelLibrary.load(tvm_tar(tmp_path / "net.tar", style))
    library.save(tmp_path / "folder")
    assert ModelLibrary.load(tmp_path / "folder") == library
    library.save(tmp_path / "again.tar")
    assert ModelLibrary.load(tmp_path / "again.tar") == library


def test_without_shapes_tensors_are_flat(tmp_path: Path) -> None:
    files = tvm_files(Style())
    del files["src/default.relay"]
    module = _load(tmp_path, files)
    assert [t.shape for t in (*module.inputs, *module.outputs)] == [(8,), (8,), (4,), (1,)]


def test_a_name_that_is_a_number(tmp_path: Path) -> None:
    files = tvm_files(Style(7, "packed", "packed"))
    for path in ("metadata.json", "codegen/host/src/default_lib1.c"):
        files[path] = files[path].replace(b'"zoom"', b'"0"')
    assert [(t.name, t.c_name) for t in _load(tmp_path, files).inputs] == [
        ("0", "tensor_0"),
        ("at-in", "at_in"),
    ]


def test_shapes_of_other_sizes_are_not_taken(tmp_path: Path) -> None:
    files = tvm_files(Style())
    relay = files["src/default.relay"]
    files["src/default.relay"] = relay.replace(b"(1, 8), int8", b"(1, 9), int8", 1)
    assert [t.shape for t in _load(tmp_path, files).inputs] == [(8,), (2, 4)]
    files["src/default.relay"] = relay.replace(b"(1, 8), int8", b"(1, 2), float32", 1)
    assert [t.shape for t in _load(tmp_path, files).inputs] == [(8,), (2, 4)]


# What is run ------------------------------------------------------------------------------------


def _check_answers(library: ModelLibrary, name: str | None = None) -> None:
    """Three inferences in this process give what numpy does."""
    rng = np.random.default_rng(5)
    devices = {device: np.zeros(4, np.uint8) for device in library.modules[0].devices}
    with host.load(library, name, devices=devices) as model:
        for _ in range(3):
            inputs = {
                tensor: rng.integers(-128, 127, shape, np.int8, endpoint=True)
                for tensor, (shape, _) in INPUTS.items()
            }
            for index, array in enumerate(inputs.values()):
                model.set_input(index, array)
            model.run()
            for index, output in enumerate(expected(inputs).values()):
                np.testing.assert_array_equal(model.get_output(index), output)


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_each_kind_runs_in_this_process(style: Style, tmp_path: Path) -> None:
    _check_answers(ModelLibrary.load(tvm_tar(tmp_path / "net.tar", style)))


@pytest.mark.parametrize("style", [Style(), Style(7, "packed", "packed")], ids=str)
def test_several_models_of_one_archive(style: Style, tmp_path: Path) -> None:
    library = ModelLibrary.load(tvm_tar(tmp_path / "net.tar", style, ("one", "Two")))
    # TVM lowers the case of its C interface alone.
    symbols = ["tvmgen_two" if style.interface == "c" else "tvmgen_Two", "tvmgen_one"]
    assert [module.symbol for module in library.modules] == symbols
    assert [module.name for module in library.modules] == ["Two", "one"]
    for name in ("one", "Two"):
        _check_answers(library, name)


@pytest.mark.parametrize(
    "style",
    [
        Style(compiler=_HOST_OBJECTS, target="llvm -keys=cpu"),
        Style(pools="calls", compiler=_HOST_OBJECTS, target="llvm -keys=cpu"),
        Style(7, "packed", "packed", compiler=_HOST_OBJECTS, target="llvm -keys=cpu"),
    ],
    ids=str,
)
def test_objects_run_in_this_process(style: Style, tmp_path: Path) -> None:
    library = ModelLibrary.load(tvm_tar(tmp_path / "net.tar", style))
    (module,) = library.modules
    assert (module.codegen, module.cpu, module.pools) == ("llvm", "host", style.pools)
    assert module.workspace_bytes >= 80
    assert [t.name for t in module.inputs] == ["zoom", "at-in"]
    if style.interface == "packed":
        assert module.functions == ("tvmgen_default_run", "tvmgen_default_get_c_metadata")
    _check_answers(library)


def test_objects_for_arm(tmp_path: Path) -> None:
    style = Style(compiler=_ARM_OBJECTS, target="llvm -keys=arm_cpu,cpu -mcpu=cortex-m4")
    module = _load(tmp_path, tvm_files(style))
    assert (module.codegen, module.cpu) == ("llvm", "cortex-m4")


# Our own archives are in TVM's shape: without their descriptions they are read as TVM's are.
_OURS: list[dict[str, Any]] = [
    {},
    {"codegen": "llvm"},
    {"pools": "external", "constants": "external"},
    {"pools": "external", "constants": "external", "codegen": "llvm"},
    {"pools": "external", "io_in_pool": True},
    {"constants": "external"},
    {"pools": "calls"},
    {"api": "packed", "interface": "packed"},
    {"api": "packed", "interface": "packed", "codegen": "llvm"},
    {"interface": "packed", "pools": "calls"},
]


def _words(options: dict[str, Any]) -> str:
    return "-".join(map(str, options.values())) or "plain"


@pytest.mark.parametrize("options", _OURS, ids=_words)
def test_our_own_without_descriptions(options: dict[str, Any], tmp_path: Path) -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 2)
    graph = b.graph(b.relu(b.conv(x, 4)), name="net")
    library = hilc.compile(graph, **options)
    (ours,) = library.modules
    files = {path: data for path, data in library.files.items() if not path.startswith("hil/")}
    bare = ModelLibrary.load(write_tar(tmp_path / "net.tar", files))
    (module,) = bare.modules
    same = ("pools", "codegen", "interface", "constants", "constants_bytes", "io_bytes")
    assert {f: getattr(module, f) for f in same} == {f: getattr(ours, f) for f in same}
    assert [(t.name, t.dtype, t.offset) for t in (*module.inputs, *module.outputs)] == [
        (t.name, t.dtype, t.offset) for t in (*ours.inputs, *ours.outputs)
    ]
    pools = [pool.nbytes for pool in ours.workspace_pools]
    assert [p.nbytes for p in module.workspace_pools] == pools * (ours.pools == "external")
    assert module.workspace_bytes >= ours.workspace_bytes
    sample = np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2)
    with host.load(bare) as model:
        model.set_input(0, sample.reshape(module.inputs[0].shape))
        model.run()
        (output,) = run(graph, {graph.inputs[0]: sample}).values()
        np.testing.assert_array_equal(model.get_output(0).ravel(), output.ravel())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pools": "external"}, "takes pools through the packed interface"),
        ({"constants": "external"}, "takes pools through the packed interface"),
    ],
    ids=str,
)
def test_our_own_whose_pools_only_descriptions_know(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    b = GraphBuilder()
    graph = b.graph(b.conv(b.input(1, 4, 4, 2), 4), name="net")
    library = hilc.compile(graph, api="packed", interface="packed", **options)
    files = {path: data for path, data in library.files.items() if not path.startswith("hil/")}
    with pytest.raises(InputError, match=message):
        _load(tmp_path, files)


# Several libraries ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "style",
    [Style(5, pools="calls"), Style(6), Style(7, "packed", "packed", system_lib=True)],
    ids=str,
)
def test_tvms_and_our_own_libraries_merge(style: Style, tmp_path: Path) -> None:
    theirs = ModelLibrary.load(tvm_tar(tmp_path / "net.tar", style))
    b = GraphBuilder()
    x = b.input(1, 4)
    ours = hilc.compile(b.graph(b.relu(x), name="ours"), cpu="cortex-m4")
    merged = hilc.merge([theirs, ours])
    merged.save(tmp_path / "both.tar")
    loaded = ModelLibrary.load(tmp_path / "both.tar")
    assert {m.name: m for m in loaded.modules} == {m.name: m for m in merged.modules}
    # One image has one run time.
    runtime = {n: d for n, d in loaded.files.items() if n.startswith(("runtime/", "templates/"))}
    assert runtime == {n: d for n, d in ours.files.items() if n in runtime}


# What is refused --------------------------------------------------------------------------------


def _entry(*path: Any, to: Any) -> Callable[[dict[str, bytes]], None]:
    """Change a value of the module's entry in ``metadata.json``; None removes it."""

    def change(files: dict[str, bytes]) -> None:
        metadata = json.loads(files["metadata.json"])
        value = metadata["modules"]["default"]
        for key in path[:-1]:
            value = value[key]
        if to is None:
            del value[path[-1]]
        else:
            value[path[-1]] = to
        files["metadata.json"] = json.dumps(metadata).encode()

    return change


def _main(*path: Any, to: Any) -> Callable[[dict[str, bytes]], None]:
    return _entry("memory", "functions", "main", 0, *path, to=to)


def _text(name: str, old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    """Replace a text in the first file whose name ends so."""

    def change(files: dict[str, bytes]) -> None:
        path = next(path for path in sorted(files) if path.endswith(name))
        assert old.encode() in files[path]
        files[path] = files[path].replace(old.encode(), new.encode())

    return change


def _remove(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        for path in [path for path in files if path.endswith(name)]:
            del files[path]

    return change


def _add(name: str, data: bytes = b"") -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.update({name: data})


def _versioned(version: Any) -> Callable[[dict[str, bytes]], None]:
    return _text("metadata.json", '"version": 7', f'"version": {version}')


_INT8 = {"size": 8, "dtype": "int8"}
_C = Style()
_EXTERNAL = Style(pools="external")
_MAPPED = Style(pools="mapped")
_PACKED = Style(7, "packed", "packed")


@pytest.mark.parametrize(
    ("style", "change", "message"),
    [
        (_C, _versioned(4), "has version 4 of Model Library Format; versions 5 to 7 can be read"),
        (_C, _versioned(8), "has version 8 of Model Library Format; versions 5 to 7 can be read"),
        (_C, _versioned(6), "has no 'model_name'"),
        (_C, _entry("style", to="operator"), "operator-style: single functions without a main"),
        (_C, _entry("executors", to=["graph"]), "is for the executors ['graph']; only models that"),
        (_C, _entry("executors", to="aot"), "executors is 'aot'; expected is a list"),
        (_C, _entry("model_name", to="other"), "describes the model 'other'"),
        (_C, _entry("memory", to=None), "has no 'memory'"),
        (_C, _entry("memory", "functions", "main", to=[]), "no memory figures of its main"),
        (_C, _entry("memory", "functions", "main", to=[1]), "main is 1; expected is an object"),
        (_C, _entry("target", to=7), "has the target 7"),
        (_C, _entry("target", to=[{}]), "has the target [{}]"),
        (_C, _main("workspace_size_bytes", to="80"), "is '80'; expected is a whole number"),
        (_C, _main("workspace_size_bytes", to=True), "is True; expected is a whole number"),
        (_C, _main("workspace_size_bytes", to=-1), "has workspace_size_bytes -1"),
        (_C, _main("constants_size_bytes", to=1 << 31), "has constants_size_bytes 2147483648"),
        (_C, _main("inputs", to=[]), "is []; expected is an object"),
        (_C, _main("inputs", "zoom", to=3), "'zoom' is 3; expected is an object"),
        (_C, _main("inputs", "zoom", "dtype", to=None), "has no 'dtype'"),
        (_C, _main("inputs", "zoom", "size", to=9), "gives 'zoom' 9 bytes and 8"),
        (_C, _main("inputs", "zoom", "dtype", to="bfloat16"), "input 'zoom' of type bfloat16"),
        (_C, _main("outputs", "output0", "dtype", to="int24"), "output 'output0' of type int24"),
        (_C, _main("inputs", to={"at-in": _INT8, "at_in": _INT8}), "has several inputs that are"),
        (_C, _main("inputs", "more", to=_INT8), "2 inputs in its header but 3 in its metadata"),
        (_C, _text(".h", "void* zoom;", "int zoom;"), "the member 'int zoom' in its struct inputs"),
        (_C, _text(".h", "void* zoom;", "void* zoom[3];"), "the member 'void* zoom[3]'"),
        (_C, _text(".h", "OUTPUT0_SIZE 16", "OUTPUT0_SIZE 12"), "gives 'output0' 16 bytes and 12"),
        (_C, _text("lib0.c", "tvmgen_default_run(", "other("), "does not define its entry point"),
        (_C, _text("lib0.c", "run(struct", "run(int i, struct"), "parameters of another interface"),
        (_C, _text(".h", "tvmgen_default_run(", "other("), "header that does not declare tvmgen_d"),
        (_C, _remove(".c"), "has neither codegen/host/src/default_lib0.c nor"),
        (_C, _add("codegen/host/src/default_lib2.cc"), "default_lib2.cc; only C sources and"),
        (_C, _add("codegen/host/lib/default_lib2.o"), "default_lib2.o is not a relocatable object"),
        (_EXTERNAL, _text(".h", "SRAM_WORKSPACE", "X_WORKSPACE"), "how large its workspace pool"),
        (_EXTERNAL, _text(".h", "SIZE 80", "SIZE 4294967296"), "workspace_bytes is out of range"),
        (_MAPPED, _text("lib0.c", ".zoom = &", ".zoom = "), "where in its pools its input 'zoom'"),
        (_MAPPED, _text("lib0.c", "[80]", "[140]"), "lies outside the workspace"),
        (_MAPPED, _text("lib0.c", "pools->sram)[80]", "pools->dram)[80]"), "where in its pools"),
        (_PACKED, _text("lib1.c", "_inputs[2]", "_inputs[3]"), "whose inputs cannot be read"),
        (_PACKED, _text("lib1.c", "1L, \n8L", "1L, \n9L"), "is int8 of 8 bytes, and also int8"),
        (_PACKED, _text("lib1.c", "{0, 32, 1}", "{2, 16, 1}"), "also float16 of 8"),
        (_PACKED, _main("outputs", "output1", to=None), "2 outputs in its code but 1 in its"),
        (_PACKED, _text("lib0.c", "args)[3]", "args)[4]"), "passes the arguments [0, 1, 2, 4] on"),
        (_PACKED, _text("lib0.c", "tensors[5] =", "(void)"), "leaves out its external pools"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused(
    style: Style, change: Callable[[dict[str, bytes]], None], message: str, tmp_path: Path
) -> None:
    files = tvm_files(style)
    change(files)
    with pytest.raises(InputError) as caught:
        _load(tmp_path, files)
    assert message in caught.value.fact
    assert caught.value.hint


@pytest.mark.parametrize("name", ["two-io.v1", "1st", "a b", "ä"])
def test_a_name_that_tvm_did_not_make_c_is_refused(name: str, tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", tvm_files(Style(), (name,)))
    with pytest.raises(InputError, match="TVM wrote into C identifiers as it is") as caught:
        ModelLibrary.load(path)
    assert "module name of letters, digits and underscores" in str(caught.value.hint)


def test_model_names_that_differ_by_case_are_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", tvm_files(_PACKED, ("net", "Net")))
    with pytest.raises(InputError, match="Multiple modules should have unique names"):
        ModelLibrary.load(path)


def test_two_constant_pools_are_refused(tmp_path: Path) -> None:
    files = tvm_files(Style(pools="external", external_constants=True))
    size = "#define TVMGEN_DEFAULT_SRAM_CONSTANT_POOL_SIZE 16\n"
    _text(".h", "struct tvmgen_default_inputs", f"{size}struct tvmgen_default_inputs")(files)
    with pytest.raises(InputError, match="the constant pools flash, sram; only one"):
        _load(tmp_path, files)


def test_version_5_needs_its_types(tmp_path: Path) -> None:
    files = tvm_files(Style(5, pools="calls"))
    del files["src/relay.txt"]
    with pytest.raises(InputError, match="what type and size its input 'zoom' has"):
        _load(tmp_path, files)


def _objects() -> dict[str, bytes]:
    style = Style(7, "packed", "packed", compiler=_HOST_OBJECTS, target="llvm -keys=cpu")
    return tvm_files(style)


def test_objects_need_an_order_of_their_inputs(tmp_path: Path) -> None:
    files = _objects()
    del files["src/default.relay"]
    with pytest.raises(InputError, match="in which order its 2 inputs are passed"):
        _load(tmp_path, files)


def test_objects_need_an_order_of_their_outputs(tmp_path: Path) -> None:
    files = _objects()
    metadata = json.loads(files["metadata.json"])
    outputs = metadata["modules"]["default"]["memory"]["functions"]["main"][0]["outputs"]
    outputs["Identity"] = outputs.pop("output0")
    files["metadata.json"] = json.dumps(metadata).encode()
    with pytest.raises(InputError, match="in which order its 2 outputs are passed"):
        _load(tmp_path, files)


def test_objects_for_another_core_are_refused(tmp_path: Path) -> None:
    files = tvm_files(Style(compiler=_HOST_OBJECTS, target="llvm -mcpu=cortex-m4"))
    with pytest.raises(InputError, match=r"lib0.o is an object for \w+, but cortex-m4 is 32-bit"):
        _load(tmp_path, files)
    files = tvm_files(Style(compiler=_ARM_OBJECTS, target="llvm -keys=cpu"))
    with pytest.raises(InputError, match="lib0.o is an object for 32-bit Arm, but host is"):
        _load(tmp_path, files)


# What is damaged --------------------------------------------------------------------------------


def _is_refused(path: Path, data: bytes) -> bool:
    """Whether the archive is refused; anything but an error of ours or success is a failure."""
    path.write_bytes(data)
    begin = time.process_time()
    try:
        ModelLibrary.load(path)
    except HilError:
        return True
    finally:
        assert time.process_time() - begin < PATIENCE_S
    return False


_KINDS = [Style(5, pools="calls"), _C, _MAPPED, Style(7, "packed", "packed", system_lib=True)]


@pytest.mark.parametrize("style", _KINDS, ids=str)
def test_random_damage(style: Style, tmp_path: Path) -> None:
    data = tvm_tar(tmp_path / "good.tar", style).read_bytes()
    with tarfile.open(tmp_path / "good.tar") as tar:
        end = max(member.offset_data + member.size for member in tar)
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(120):
        damaged = bytearray(data)
        for position in rng.integers(0, len(data), rng.integers(1, 40)):
            damaged[position] ^= 1 << rng.integers(8)
        refused += _is_refused(tmp_path / "bad.tar", bytes(damaged))
    assert refused > 20
    for size in rng.integers(0, end, 20):
        assert _is_refused(tmp_path / "bad.tar", data[:size])


@pytest.mark.parametrize("style", _KINDS, ids=str)
def test_swapped_words(style: Style, tmp_path: Path) -> None:
    """Texts in which one word stands where another one did."""
    files = tvm_files(style)
    rng = np.random.default_rng(8)
    names = [n for n in files if n.endswith((".json", ".h", ".c", ".relay", ".txt"))]
    words = re.findall(rb"\w+|[^\w\s]", b"".join(files[n] for n in names))
    refused = 0
    for _ in range(120):
        changed = dict(files)
        name = names[rng.integers(len(names))]
        for _ in range(rng.integers(1, 4)):
            found = list(re.finditer(rb"\w+|[^\w\s]", changed[name]))
            match = found[rng.integers(len(found))]
            word = words[rng.integers(len(words))]
            text = changed[name]
            changed[name] = text[: match.start()] + word + text[match.end() :]
        path = write_tar(tmp_path / "swapped.tar", changed)
        refused += _is_refused(path, path.read_bytes())
    assert refused > 10


_LONG = 300_000


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("codegen/host/include/tvmgen_default.h", b"/*" * _LONG),
        ("codegen/host/include/tvmgen_default.h", b'"\\' * _LONG),
        ("codegen/host/include/tvmgen_default.h", b"struct tvmgen_default_inputs {" * 30_000),
        ("codegen/host/include/tvmgen_default.h", b"tvmgen_default_run(" + b"\n" * _LONG),
        ("codegen/host/include/tvmgen_default.h", b"#define A " * _LONG),
        ("codegen/host/src/default_lib1.c", b"kTvmgenMetadata_inputs[1] = {" * 30_000),
        ("codegen/host/src/default_lib1.c", b"kTvmgenMetadata_inputs[1] = {" + b'{"a",' * _LONG),
        ("codegen/host/src/default_lib0.c", b"tvmgen_default_run(" * 50_000),
        ("codegen/host/src/default_lib0.c", b'_tvm_func_registry "' + b"\\1" * _LONG),
        ("codegen/host/src/default_lib0.c", b"tvmgen_default_run(){" + b"tensors[" * _LONG),
        ("src/default.relay", b"def @main(" + b"%a: int8, " * _LONG),
        ("src/default.relay", b"def @main(" + b") -> " * _LONG),
        ("src/default.relay", b"def @main() -> " + b"Tensor[(1, " * _LONG + b"{"),
        ("metadata.json", b"[" * _LONG),
        ("metadata.json", b'{"version": 7, "modules": {"a": ' + b"9" * 5000 + b"}}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("style", [_C, Style(7, "packed", "packed", system_lib=True)], ids=str)
def test_texts_that_are_made_to_take_long(
    style: Style, name: str, data: bytes, tmp_path: Path
) -> None:
    files = {**tvm_files(style), name: data}
    path = write_tar(tmp_path / "long.tar", files)
    _is_refused(path, path.read_bytes())


def test_outputs_are_those_of_the_model() -> None:
    """The archives' own reference: a change of it would hide one of the reader's."""
    inputs = {"zoom": np.ones((1, 8), np.int8), "at-in": np.full((2, 4), 2, np.int8)}
    assert list(expected(inputs)) == list(OUTPUTS)
    assert expected(inputs)["output1"].tolist() == [3]


# TVM 0.8 ----------------------------------------------------------------------------------------


def _main_of_0_8(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """TVM 0.8 called the main otherwise."""
    return {path: data.replace(b"___tvm_main__", b"_run_model") for path, data in files.items()}


def test_an_archive_of_0_8_with_an_entry_point_is_read(tmp_path: Path) -> None:
    files = _main_of_0_8(tvm_files(Style(5, pools="calls")))
    assert b"tvmgen_default_run_model(" in files["codegen/host/src/default_lib0.c"]
    _check_answers(ModelLibrary.load(write_tar(tmp_path / "net.tar", files)))


def test_an_archive_of_0_8_without_an_entry_point(tmp_path: Path) -> None:
    """Only the main is there, with pointers for arguments."""
    files = _main_of_0_8(tvm_files(Style(5, pools="calls")))
    del files["codegen/host/include/tvmgen_default.h"]
    files["codegen/host/src/default_lib0.c"] = b'#include "tvm/runtime/c_runtime_api.h"\n'
    with pytest.raises(InputError) as caught:
        _load(tmp_path, files)
    assert "has no entry point but tvmgen_default_run_model, as TVM up to 0.8" in caught.value.fact
    assert "-interface-api=c, whose header declares tvmgen_default_run" in caught.value.hint
