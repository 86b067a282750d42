"""Compiled models in this process: byte for byte what the interpreter computes."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import tvm_archive
from campaigns import cases, sampled
from random_graphs import GraphBuilder, random_graph, small_net

import hilc
import hilc.host
from hilc import interpreter
from hilc.artifact.library import ModelLibrary, TensorInfo
from hilc.compat.tvm.packed import Handle
from hilc.errors import HilError, InputError
from hilc.frontends import load_model
from hilc.host import HostBuildError, HostModel
from hilc.host.build import DESCRIPTION
from hilc.ir import Array, Graph
from hilc.memory.plan import PoolSpec

PACKED: Mapping[str, Any] = {"api": "packed", "interface": "packed"}

#: Each benchmark model in two forms.
VARIANTS: Mapping[str, dict[str, Any]] = {
    "ad": {"pools": "internal", "io_in_pool": True},
    "kws": {"pools": "external", "io_in_pool": True},
    "ic": {"pools": "internal", "io_in_pool": False, "optimize": "size"},
    "vww": {**PACKED, "pools": "external", "constants": "external", "optimize": "size"},
}


def _relu_library(**options: Any) -> ModelLibrary:
    b = GraphBuilder()
    x = b.input(1, 2, 3)
    return hilc.compile(b.graph(b.relu(x), name="net"), **options)


@pytest.mark.parametrize("model", models.INT8_MODELS)
def test_benchmark_models_equal_the_interpreter(model: str) -> None:
    path = models.model_path(model)
    graph = load_model(path)
    with hilc.host.load(hilc.compile(path, **VARIANTS[model])) as built:
        for x in models.samples(model, 4):
            expected = interpreter.run_all(graph, {graph.inputs[0]: x})
            built.set_input(0, x)
            built.run()
            _require_equal(built.get_output(0), expected, graph.outputs[0])
            built.set_input(graph.inputs[0], x)
            names = []
            for layer, outputs in built.layer_outputs():
                for info, output in zip(layer.outputs, outputs, strict=True):
                    _require_equal(output, expected, info)
                names.append(layer.name)
            assert names == [layer.name for layer in built.layers]
            _require_equal(built.get_output(graph.outputs[0]), expected, graph.outputs[0])


def _require_equal(got: Array, expected: Mapping[str, Array], tensor: str | TensorInfo) -> None:
    """``got`` is the tensor of that name, or what one in the compiled model holds of it."""
    name = tensor if isinstance(tensor, str) else tensor.name
    whole = expected[name]
    held = whole if isinstance(tensor, str) else tensor.held(whole)
    assert got.dtype == held.dtype
    np.testing.assert_array_equal(got, held, err_msg=name)


@pytest.mark.parametrize("seed", sampled(range(8), keep=range(3)))
def test_random_graphs_equal_the_interpreter(seed: int) -> None:
    graph = random_graph(1000 + seed, ordinary_outputs=True)
    rng = np.random.default_rng(seed)
    library = hilc.compile(
        graph,
        pools=("internal", "external")[seed % 2],
        io_in_pool=bool(seed // 2 % 2),
        optimize=("balanced", "size")[seed // 4 % 2],
    )
    with hilc.host.load(library) as built:
        for _ in range(3):
            inputs = {
                name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
                for name in graph.inputs
            }
            expected = interpreter.run(graph, inputs)
            for name, value in inputs.items():
                built.set_input(name, value)
            built.run(repeat=2)
            for name in graph.outputs:
                _require_equal(built.get_output(name), expected, name)
            list(built.layer_outputs())
            for name in graph.outputs:
                _require_equal(built.get_output(name), expected, name)


@functools.cache
def _float_graph() -> Graph:
    return load_model(models.model_path("kws_float"))


def test_a_float_model_is_close_to_the_interpreter() -> None:
    graph = _float_graph()
    (x,) = models.samples("kws_float", 1)
    expected = interpreter.run(graph, {graph.inputs[0]: x})[graph.outputs[0]]
    with hilc.host.load(hilc.compile(graph)) as built:
        built.set_input(0, x)
        built.run()
        np.testing.assert_allclose(built.get_output(0), expected, rtol=1e-5, atol=1e-7)


def test_several_models_in_one_library() -> None:
    b = GraphBuilder()
    x = b.input(1, 6)
    other = hilc.compile(b.graph(b.add(x, x), name="other"))
    library = hilc.merge([_relu_library(), other])
    data = np.arange(-3, 3, dtype=np.int8)
    with hilc.host.load(library, "net") as net, hilc.host.load(library, "other") as twice:
        net.set_input(0, data.reshape(1, 2, 3))
        twice.set_input(0, data.reshape(1, 6))
        net.run()
        twice.run()
        assert net.get_output(0).ravel().tolist() == [3] * 6
        assert twice.get_output(0).ravel().tolist() == [2 * int(v) - 3 for v in data]
    with pytest.raises(InputError, match="several modules"):
        hilc.host.load(library)
    with pytest.raises(InputError, match="no module 'third'"):
        hilc.host.load(library, "third")


# Wrong use --------------------------------------------------------------------------------------


def test_wrong_use_is_named() -> None:
    with hilc.host.load(_relu_library()) as model:
        good = np.zeros((1, 2, 3), np.int8)
        for array in (good.reshape(2, 3), good.astype(np.uint8), good.astype(np.float32)):
            with pytest.raises(InputError, match=r"but is int8\[1, 2, 3\]"):
                model.set_input(0, array)
        for which in ("x", 1, -1):
            is_name = isinstance(which, str)
            no = ("Could not find 'x' in model's {}s" if is_name else "the model has no {}").format
            with pytest.raises(InputError, match=no("input")):
                model.set_input(which, good)
            with pytest.raises(InputError, match=no("output")):
                model.get_output(which)
        for repeat in (0, -1, 1.5, "a", None):
            with pytest.raises(InputError, match=f"cannot run {repeat!r} times"):
                model.run(repeat)  # type: ignore[arg-type]


@pytest.mark.parametrize("library", ["net.tar", None, 5])
@pytest.mark.parametrize(
    "use", [hilc.host.load, lambda x: hilc.host.build(x, "out"), hilc.host.AotExecutorFactory]
)
def test_what_is_no_library_is_named(use: Callable[[Any], object], library: object) -> None:
    with pytest.raises(
        InputError, match="^library=.* is of type|cannot read|there is no|does not exist"
    ):
        use(library)


def test_a_closed_model_says_so() -> None:
    data = np.zeros((1, 2, 3), np.int8)
    with hilc.host.load(_relu_library()) as model:
        model.run()
    uses: list[Callable[[], object]] = [
        model.run,
        lambda: model.get_output(0),
        lambda: model.get_input(0),
        lambda: model.set_input(0, data),
        lambda: model.set_input_zero_copy(0, data),
        lambda: model.set_output_zero_copy(0, data),
        lambda: next(model.layer_outputs()),
    ]
    for use in uses:
        with pytest.raises(InputError, match="the model is closed"):
            use()


def test_an_array_need_not_be_contiguous() -> None:
    data = np.arange(12, dtype=np.int8).reshape(1, 2, 6)[:, ::-1, ::2]
    with hilc.host.load(_relu_library()) as model:
        model.set_input(0, data)
        model.run()
        np.testing.assert_array_equal(model.get_output(0), np.maximum(data, 3))


def test_an_output_is_a_copy() -> None:
    with hilc.host.load(_relu_library()) as model:
        with pytest.raises(InputError, match="is not available: the model has not run"):
            model.get_output(0)
        model.run()
        first = model.get_output(0)
        before = first.tolist()
        model.set_input(0, np.full((1, 2, 3), 50, np.int8))
        model.run()
        assert first.tolist() == before


def test_closing_deletes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with hilc.host.load(_relu_library()):
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HostBuildError, match="cc, gcc, clang not found") as caught:
        hilc.host.load(_relu_library())
    assert caught.value.exit_code == 3


def test_a_build_that_fails_shows_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    library = _relu_library()
    broken = {**library.files, "codegen/host/src/net_lib1.c": b"#error out of luck\n"}
    with pytest.raises(HostBuildError, match="out of luck"):
        hilc.host.load(ModelLibrary(library.modules, broken))
    assert not list(tmp_path.iterdir())


def test_a_failing_operator_is_an_error() -> None:
    library = _relu_library()
    name = "codegen/host/src/net_lib1.c"
    source = library.files[name].replace(b"return 0;", b"return 7;", 1)
    with hilc.host.load(ModelLibrary(library.modules, {**library.files, name: source})) as model:
        with pytest.raises(HilError, match="tvmgen_net_run returned -1"):
            model.run()
        with pytest.raises(HilError, match="tvmgen_net_fused_relu_0 returned 7"):
            list(model.layer_outputs())


# Every form -------------------------------------------------------------------------------------

CONVENTIONS = (("unpacked", "c"), ("unpacked", "packed"), ("packed", "packed"))


def _forms() -> Iterator[dict[str, Any]]:
    """Each convention with each workspace; C and LLVM, constants here and there by turns."""
    for index, ((api, interface), pools) in enumerate(
        itertools.product(CONVENTIONS, ("internal", "external", "calls"))
    ):
        yield {
            "api": api,
            "interface": interface,
            "pools": pools,
            "codegen": ("c", "llvm")[index % 2],
            "constants": ("internal", "external")[index // 2 % 2],
        }
    for pools, codegen in (("internal", "llvm"), ("external", "c")):
        yield {"io_in_pool": True, "pools": pools, "codegen": codegen, "constants": "external"}


def _inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared object with the same model in every form."""
    libraries = [
        hilc.compile(small_net(f"form{index}"), **options) for index, options in enumerate(_forms())
    ]
    path = tmp_path_factory.mktemp("host") / "everything.so"
    return hilc.host.export_library(hilc.merge(libraries), path)


def test_every_form_in_one_shared_object(everything: Path) -> None:
    factory = hilc.host.load_module(everything)
    assert len(factory.module_names) == 11
    for index, options in enumerate(_forms()):
        graph = small_net(f"form{index}")
        inputs = _inputs(graph, index)
        expected = interpreter.run_all(graph, inputs)
        with factory[graph.name](hilc.host.cpu(0)) as executor:
            model = executor.model
            assert isinstance(model, HostModel)
            executor.run(**inputs)
            for name in graph.outputs:
                _require_equal(executor.get_output(name), expected, name)
            for layer, outputs in model.layer_outputs():
                for info, output in zip(layer.outputs, outputs, strict=True):
                    _require_equal(output, expected, info)
            for name in graph.outputs:
                _require_equal(executor.get_output(name), expected, name)
            if options.get("interface") == "packed":
                _require_metadata(model)


def _require_metadata(model: HostModel) -> None:
    module, metadata = model.module, model.metadata()
    assert (metadata.version, metadata.mod_name) == (1, module.symbol)
    assert [(t.name, t.shape, t.dtype) for t in metadata.inputs] == [
        (info.c_name, info.shape, info.dtype) for info in module.inputs
    ]
    assert [(t.shape, t.dtype) for t in metadata.outputs] == [
        (info.shape, info.dtype) for info in module.outputs
    ]
    assert f"{module.symbol}_run" in model.functions()


@pytest.mark.full
def test_several_pools() -> None:
    graph = small_net()
    inputs = _inputs(graph)
    expected = interpreter.run_all(graph, inputs)
    for options in ({"io_in_pool": True, "pools": "external"}, {**PACKED, "pools": "external"}):
        library = hilc.compile(
            graph, memory=(PoolSpec("fast", limit_bytes=64), PoolSpec("slow")), **options
        )
        assert [pool.name for pool in library.modules[0].workspace_pools] == ["fast", "slow"]
        with hilc.host.load(library) as model:
            for name, value in inputs.items():
                model.set_input(name, value)
            model.run(repeat=2)
            for name in graph.outputs:
                _require_equal(model.get_output(name), expected, name)
            for layer, outputs in model.layer_outputs():
                for info, output in zip(layer.outputs, outputs, strict=True):
                    _require_equal(output, expected, info)


@pytest.mark.full  # It changes rarely, and takes long.
@pytest.mark.parametrize("style", [s for s in tvm_archive.STYLES if s.version == 7], ids=str)
def test_archives_that_tvm_wrote(style: tvm_archive.Style, tmp_path: Path) -> None:
    path = tvm_archive.tvm_tar(tmp_path / "x.tar", style, ("one", "two"))
    library = ModelLibrary.load(path)
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.integers(-128, 128, shape).astype(dtype)
        for name, (shape, dtype) in tvm_archive.INPUTS.items()
    }
    expected = tvm_archive.expected(inputs)
    contexts = {name: np.zeros(4, np.uint8) for name in style.devices}
    factory = hilc.host.AotExecutorFactory(path)
    for name in ("two", "one"):
        with factory[name](hilc.host.cpu(0), contexts=contexts) as executor:
            for key, info in zip(inputs, executor.inputs, strict=True):
                executor.set_input(key, inputs[key].reshape(info.shape))
            executor.run()
            for index, value in enumerate(expected.values()):
                got = executor.get_output(index)
                assert (got.dtype, got.tobytes()) == (value.dtype, value.tobytes())
            assert isinstance(executor.model, HostModel)
            with pytest.raises(InputError, match=f"does not describe the layers of '{name}'"):
                next(executor.model.layer_outputs())
    if style.devices:
        with hilc.host.load(library, "one") as model, pytest.raises(HilError, match="returned -1"):
            model.run()  # its device has no context
        with pytest.raises(InputError, match="has no device 'dsp'\n\nhint: its devices are ethos"):
            hilc.host.load(library, "one", devices={"dsp": 1})
        wrong: Any = {style.devices[0]: "0x1000"}
        with pytest.raises(InputError, match="context of the device 'ethos_u' has the type str"):
            hilc.host.load(library, "one", devices=wrong)


def test_modules_of_tvm_and_ours_in_one_library(tmp_path: Path) -> None:
    style = tvm_archive.Style(7, "packed", "packed", "calls", system_lib=True)
    libraries = [
        ModelLibrary.load(tvm_archive.tvm_tar(tmp_path / f"{name}.tar", style, (name,)))
        for name in ("one", "two")
    ]
    factory = hilc.host.AotExecutorFactory(
        hilc.merge([*libraries, _relu_library(**PACKED, system_lib=True)])
    )
    data = {name: np.ones(*tensor) for name, tensor in tvm_archive.INPUTS.items()}
    for name in ("two", "one"):
        with factory[name](hilc.host.cpu(0)) as executor:
            for key, info in zip(data, executor.inputs, strict=True):
                executor.set_input(key, data[key].reshape(info.shape))
            executor.run()
            expected = tvm_archive.expected(data)["output0"]
            assert executor.get_output(0).tolist() == expected.tolist()
    with factory["net"](hilc.host.cpu(0)) as executor:
        executor.run()
        assert not (executor.get_output(0) - 3).any()


@cases("system_lib", [False, True], first=1)
@pytest.mark.parametrize("options", [{}, PACKED], ids=["c", "packed"])
def test_with_and_without_a_registry(system_lib: bool, options: dict[str, Any]) -> None:
    with hilc.host.load(_relu_library(**options, system_lib=system_lib)) as model:
        model.run()
        assert not (model.get_output(0) - 3).any()


# Packed functions -------------------------------------------------------------------------------


def test_functions_are_called_by_name(everything: Path) -> None:
    factory = hilc.host.load_module(everything)
    own = {"api": "packed", "constants": "internal", "pools": "calls"}
    index = next(i for i, o in enumerate(_forms()) if own.items() <= o.items())
    with factory[f"form{index}"](hilc.host.cpu(0)) as executor:
        model = executor.model
        assert isinstance(model, HostModel)
        symbol, graph = model.module.symbol, small_net()
        inputs = list(_inputs(graph).values())
        outputs = [np.zeros(info.shape, info.dtype) for info in model.outputs]
        assert model.call(f"{symbol}_run", *inputs, *outputs) is None
        expected = interpreter.run(graph, dict(zip(graph.inputs, inputs, strict=True)))
        for name, output in zip(graph.outputs, outputs, strict=True):
            _require_equal(output, expected, name)
        handle = model.call(f"{symbol}__lookup_linked_param", 0)
        assert isinstance(handle, Handle)
        assert handle.address
        assert model.call(f"{symbol}__lookup_linked_param", 1 << 40) is None
        for arguments, message in (
            ((), "tvmgen_.*_run returned 0x800"),
            ((*inputs, *outputs, 1), "returned 0x800"),
            ((*inputs, *outputs[:-1], 1), "returned 0x801"),
            ((*inputs, *outputs[:-1], None), "returned 0x80[13]"),
        ):
            with pytest.raises(HilError, match=message):
                model.call(f"{symbol}_run", *arguments)
        with pytest.raises(InputError, match="has no packed function 'printf'\n\nhint: it has tvm"):
            model.call("printf", "x")


_ECHO = """
#include <string.h>
int32_t tvmgen_net_fused_relu_0(TVMValue *args, int *type_codes, int num_args,
                                TVMValue *out_ret_value, int *out_ret_tcode, void *resource) {
    (void)resource;
    if (num_args == 0) {
        *out_ret_tcode = 99;
    } else if (type_codes[0] == kTVMBytes) {
        const TVMByteArray *bytes = args[0].v_handle;
        out_ret_value->v_int64 = (int64_t)bytes->size * 1000 + bytes->data[1];
        *out_ret_tcode = kTVMArgInt;
    } else if (type_codes[0] == kTVMDLTensorHandle) {
        const DLTensor *t = args[0].v_handle;
        out_ret_value->v_int64 = t->dtype.code * 10000 + t->dtype.bits * 100 + t->ndim * 10 +
                                 (t->strides == NULL && t->device.device_type == kDLCPU);
        *out_ret_tcode = kTVMArgInt;
    } else {
        *out_ret_value = args[0];
        *out_ret_tcode = type_codes[0];
    }
    return 0;
}
"""


def test_arguments_and_results() -> None:
    with hilc.host.load(_with_operator(_ECHO)) as model:
        name = "tvmgen_net_fused_relu_0"
        for value in (0, -(1 << 63), (1 << 63) - 1, np.int16(-7), 1.5, -0.0, "", "µ", True, None):
            got = model.call(name, value)
            assert got == value
            assert isinstance(value, np.int16) or type(got) is type(value)
        assert model.call(name, Handle(4096)) == Handle(4096)
        assert model.call(name, b"\x00\x07") == 2007
        for array, described in (
            (np.zeros((2, 3), np.int8), 821),
            (np.zeros((), np.float64), 26401),
            (np.zeros(5, bool), 10111),
            (np.zeros((1, 0), np.uint16), 11621),
        ):
            assert model.call(name, array) == described
        for argument, message in (
            (1 << 63, "argument 0 is 9223372036854775808"),
            ("a\0b", "argument 0 has a NUL"),
            ([1], "argument 0 is a list\n\nhint: pass a number"),
            (np.zeros((4, 4), np.int8)[:, 1:], "not contiguous"),
            (np.zeros(3, ">i4"), "in this machine's byte order"),
            (np.zeros(3, np.complex64), "array of complex64"),
        ):
            with pytest.raises(InputError, match=message):
                model.call(name, argument)
        with pytest.raises(InputError, match="returned something of type code 99"):
            model.call(name)


def _with_operator(source: str) -> ModelLibrary:
    """A packed library whose one operator is ``source``."""
    library = _relu_library(**PACKED, pools="calls")
    (operator,) = (f for f in library.modules[0].functions if "fused" in f)
    assert operator == "tvmgen_net_fused_relu_0"
    path = "codegen/host/src/net_lib1.c"
    text = library.files[path].decode()
    # Its own one is kept under another name.
    text = text.replace(operator, f"{operator}_replaced", 1)
    start = text.index(f"{operator}_replaced")
    before = text.rindex("\n\n", 0, start)
    own = f"\n#include <tvm/runtime/crt/platform.h>\n{source}"
    return ModelLibrary(
        library.modules, {**library.files, path: (text[:before] + own + text[before:]).encode()}
    )


_SIGNATURE = """
int32_t tvmgen_net_fused_relu_0(TVMValue *args, int *type_codes, int num_args,
                                TVMValue *out_ret_value, int *out_ret_tcode, void *resource) {
    (void)args, (void)type_codes, (void)num_args, (void)out_ret_value, (void)out_ret_tcode;
    (void)resource;
    %s
    return 0;
}
"""

#: What an operator does, and what the caller is told.
FAULTS = {
    "abort": ("TVMPlatformAbort(kTvmErrorPlatformCheckFailure);", "_run returned 0x500"),
    "a sentence": ('TVMAPISetLastError("too hot"); return -7;', "_run returned -1: too hot"),
    "leak": (
        "return TVMBackendAllocWorkspace(1, 0, 20, 0, 8) == NULL ? -1 : 0;",
        r"_run left \d+ bytes of workspace allocated|_run returned",
    ),
}


@cases("fault", FAULTS, first=1)
def test_a_fault_ends_the_call_and_not_the_process(fault: str) -> None:
    code, message = FAULTS[fault]
    library = _with_operator(_SIGNATURE % code)
    roomy = replace(library.modules[0], workspace_bytes=4096)
    with hilc.host.load(ModelLibrary((roomy,), library.files)) as model:
        for _ in range(2):
            with pytest.raises(HilError, match=message):
                model.run()


def test_a_workspace_that_is_too_small_is_an_error() -> None:
    graph = small_net()
    library = hilc.compile(graph, pools="calls")
    module = library.modules[0]
    small = replace(module, workspace_bytes=module.workspace_bytes - 16)
    with hilc.host.load(library) as model:
        model.run()
    too_small = hilc.host.load(ModelLibrary((small,), library.files))
    with too_small as model, pytest.raises(HilError, match="tvmgen_net_run returned -1"):
        model.run()


# Kept as a shared object ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("host") / "net.so"
    start = np.arange(6, dtype=np.int8).reshape(1, 2, 3)
    assert hilc.host.export_library(_relu_library(), path, params={"t0": start}) == path
    return path


def test_an_exported_library_needs_no_compiler(exported: Path) -> None:
    """In another process, where there is none."""
    code = (
        "import sys, hilc.host\n"
        "factory = hilc.host.load_module(sys.argv[1])\n"
        "for key in ('default', 'net'):\n"
        "    with factory[key](hilc.host.cpu(0)) as executor:\n"
        "        executor.run()\n"
        "        print(executor.get_output(0).ravel().tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(exported)],
        env={"PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("[3, 3, 3, 3, 4, 5]\n" * 2, "")


def test_the_factory_carries_what_it_was_made_with(exported: Path, tmp_path: Path) -> None:
    factory = hilc.host.load_module(exported)
    assert factory.module_names == ("net",)
    assert factory.params["t0"].tolist() == [[[0, 1, 2], [3, 4, 5]]]
    copy = factory.export_library(tmp_path / "copy.so")
    assert copy.read_bytes() == exported.read_bytes()
    changed = hilc.host.AotExecutorFactory(exported, params={"t0": np.ones((1, 2, 3), np.int8)})
    with changed["default"](hilc.host.cpu(0)) as executor:
        assert executor.get_input(0).tolist() == [[[1, 1, 1], [1, 1, 1]]]
    with pytest.raises(InputError, match="exported with another name or other params"):
        changed.export_library(tmp_path / "changed.so")
    assert not (tmp_path / "changed.so").exists()
    assert list(tmp_path.iterdir()) == [copy]


def test_the_default_of_several_modules() -> None:
    b = GraphBuilder()
    other = hilc.compile(b.graph(b.relu(b.input(1, 2)), name="other"))
    library = hilc.merge([_relu_library(), other])
    with pytest.raises(InputError, match="several modules and no 'default'"):
        hilc.host.AotExecutorFactory(library)["default"]
    with pytest.raises(InputError, match="select the module: name='net' or 'other'"):
        hilc.host.AotExecutorFactory(library, params={"t0": np.zeros((1, 2), np.int8)})
    start = {"t0": np.full((1, 2), 9, np.int8)}
    factory = hilc.host.AotExecutorFactory(library, "other", start)
    with factory["default"](hilc.host.cpu(0)) as default, factory["net"](hilc.host.cpu()) as net:
        assert (default.name, net.name) == ("other", "net")
        assert default.get_input(0).tolist() == [[9, 9]]
        assert not net.get_input(0).any()


def test_a_module_may_be_called_default(exported: Path) -> None:
    b = GraphBuilder()
    named = hilc.compile(b.graph(b.relu(b.input(1, 2)), name="default"))
    factory = hilc.host.AotExecutorFactory(hilc.merge([_relu_library(), named]))
    with factory["default"](hilc.host.cpu(0)) as executor:
        assert executor.name == "default"


FACTORY_ERRORS: dict[str, tuple[Callable[[hilc.host.AotExecutorFactory], object], str]] = {
    "key": (lambda f: f["kws"], "no module 'kws'\n\nhint: choose one of default, net"),
    "no device": (lambda f: f["net"](), "cannot run on the devices given: none\n\nhint: pass hilc"),
    "another device": (lambda f: f["net"](hilc.host.cpu(1)), r"devices given: cpu\(1\)"),
    "two devices": (lambda f: f["net"](hilc.host.cpu(0), hilc.host.cpu(0)), r"cpu\(0\), cpu\(0\)"),
    "no device object": (lambda f: f["net"]("cuda"), "devices given: cuda"),
    "no such context": (
        lambda f: f["net"](hilc.host.cpu(0), contexts={"npu": 1}),
        "has no device 'npu'\n\nhint: its devices are none",
    ),
    "ending": (lambda f: f.export_library("x.tar"), "cannot be exported as 'x.tar'"),
    "folder": (lambda f: f.export_library("/proc/none/x.so"), "cannot write /proc/none/x.so"),
}


@pytest.mark.parametrize("name", FACTORY_ERRORS)
def test_factory_errors(exported: Path, name: str) -> None:
    action, message = FACTORY_ERRORS[name]
    with pytest.raises(InputError, match=message):
        action(hilc.host.load_module(exported))


def test_params_are_checked_at_once() -> None:
    for params, message in (
        ({"t9": np.zeros((1, 2, 3), np.int8)}, "Could not find 't9' in model's inputs"),
        ({"t0": np.zeros((2, 3), np.int8)}, r"is int8\[1, 2, 3\]"),
    ):
        with pytest.raises(InputError, match=message):
            hilc.host.AotExecutorFactory(_relu_library(), params=params)


def _damage(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


#: What is done to an exported file, and what is said of it.
DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "is not a shared object"),
    "text": (lambda data: b"INPUT(libc.so.6)" * 8, "is not a shared object"),
    "header alone": (lambda data: data[:64], "is truncated: it has 64 of"),
    "first half": (lambda data: data[: len(data) // 2], "is truncated: it has"),
    "last byte missing": (lambda data: data[:-1], "is truncated: it has"),
    "another machine": (lambda data: _damage(data, 18, b"\x28\x00"), r"machine \(ELF machine 40"),
    "32 bits": (lambda data: _damage(data, 4, b"\x01"), "is for another machine"),
    "an object": (lambda data: _damage(data, 16, b"\x01\x00"), "is ELF but not a shared object"),
    "not ours": (
        lambda data: data.replace(DESCRIPTION.encode(), b"x" * len(DESCRIPTION)),
        "has no description of its models",
    ),
    "a later version": (
        lambda data: data.replace(b'"version":1}', b'"version":9}'),
        "version 9 of the library description; supported is 1",
    ),
    "other JSON": (lambda data: data.replace(b'"modules":[', b'"modules":!'), "is not JSON"),
    "no modules": (
        lambda data: data.replace(b'"modules":[', b'"module_":['),
        "expected are the keys",
    ),
    "a wrong module": (
        lambda data: data.replace(b'"dtype":"int8"', b'"dtype":"int9"'),
        "dtype 'int9'",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_named(exported: Path, tmp_path: Path, name: str) -> None:
    damage, message = DAMAGES[name]
    path = tmp_path / "damaged.so"
    data = exported.read_bytes()
    path.write_bytes(damage(data))
    assert path.read_bytes() != data
    with pytest.raises(InputError, match=message) as caught:
        hilc.host.load_module(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none\.so: No such file"):
        hilc.host.load_module(tmp_path / "none.so")
    os.mkfifo(tmp_path / "pipe.so")
    with pytest.raises(InputError, match=r"pipe\.so is not a regular file"):
        hilc.host.load_module(tmp_path / "pipe.so")


def test_the_files_of_a_build_stay(tmp_path: Path) -> None:
    shared_object = hilc.host.build(_relu_library(), tmp_path / "new" / "folder")
    assert shared_object.parent == tmp_path / "new" / "folder"
    assert (shared_object.parent / "codegen/host/src/net_lib1.c").is_file()
    with hilc.host.load_module(shared_object)["net"](hilc.host.cpu(0)) as executor:
        executor.run()
    with pytest.raises(InputError, match="cannot write /proc/none"):
        hilc.host.build(_relu_library(), "/proc/none")


def test_objects_for_another_core_are_refused() -> None:
    library = _relu_library(cpu="cortex-m4", codegen="llvm")
    with pytest.raises(InputError, match="objects of 'net' are for cortex-m4, which is not this"):
        hilc.host.load(library)
