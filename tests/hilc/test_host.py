"""Compiled models in this process: byte for byte what the interpreter computes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import generated_c
import models
import numpy as np
import pytest
from random_graphs import GraphBuilder, random_graph

import hilc
import hilc.host
from hilc import interpreter
from hilc.codegen.cwriter import c_array
from hilc.errors import HilError, InputError
from hilc.host import HostBuildError
from hilc.importer import load_model
from hilc.ir import Array, Graph
from hilc.library import ModelLibrary

#: Pool and place of inputs and outputs, each combination for one of the benchmark models.
VARIANTS: Mapping[str, dict[str, Any]] = {
    "ad": {"pools": "internal", "io_in_pool": True},
    "kws": {"pools": "external", "io_in_pool": True},
    "ic": {"pools": "internal", "io_in_pool": False, "optimize": "size"},
    "vww": {"pools": "external", "io_in_pool": False, "optimize": "size"},
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
                    _require_equal(output, expected, info.name)
                names.append(layer.name)
            assert names == [layer.name for layer in built.layers]
            _require_equal(built.get_output(graph.outputs[0]), expected, graph.outputs[0])


def _require_equal(got: Array, expected: Mapping[str, Array], name: str) -> None:
    assert got.dtype == expected[name].dtype
    np.testing.assert_array_equal(got, expected[name], err_msg=name)


@pytest.mark.parametrize("seed", range(8))
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
            with pytest.raises(InputError, match="the model has no input"):
                model.set_input(which, good)
            with pytest.raises(InputError, match="the model has no output"):
                model.get_output(which)
        with pytest.raises(InputError, match="repeat is 0"):
            model.run(0)
    model.close()
    with pytest.raises(InputError, match="is closed"):
        model.run()


def test_an_array_need_not_be_contiguous() -> None:
    data = np.arange(12, dtype=np.int8).reshape(1, 2, 6)[:, ::-1, ::2]
    with hilc.host.load(_relu_library()) as model:
        model.set_input(0, data)
        model.run()
        np.testing.assert_array_equal(model.get_output(0), np.maximum(data, 3))


def test_an_output_is_a_copy() -> None:
    with hilc.host.load(_relu_library()) as model:
        first = model.get_output(0)
        model.set_input(0, np.full((1, 2, 3), 50, np.int8))
        model.run()
        assert first.max() == 0


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


# Memory errors ----------------------------------------------------------------------------------

_SANITIZED = """\
#include <stdlib.h>
#include <string.h>

#include "tvmgen_kws.h"

%(arrays)s
int main(void) {
    /* Blocks of exactly the size that the header promises: one byte more is found. */
    struct tvmgen_kws_workspace_pools pools = {
        aligned_alloc(16, (TVMGEN_KWS_WORKSPACE_SIZE + 15) / 16 * 16)};
    struct tvmgen_kws_inputs in = {malloc(TVMGEN_KWS_INPUT_1_SIZE)};
    struct tvmgen_kws_outputs out = {malloc(TVMGEN_KWS_IDENTITY_SIZE)};
    int wrong = 0;
    for (int i = 0; i < SAMPLES; i++) {
        memset(pools.global_workspace, 0xa5, TVMGEN_KWS_WORKSPACE_SIZE);
        memcpy(in.input_1, &inputs[i * TVMGEN_KWS_INPUT_1_SIZE], TVMGEN_KWS_INPUT_1_SIZE);
        wrong |= tvmgen_kws_run(&in, &out, &pools);
        const int8_t *expected = &outputs[i * TVMGEN_KWS_IDENTITY_SIZE];
        wrong |= memcmp(out.Identity, expected, TVMGEN_KWS_IDENTITY_SIZE);
    }
    free(pools.global_workspace);
    free(in.input_1);
    free(out.Identity);
    return wrong != 0;
}
"""


def test_no_byte_outside_is_touched_and_nothing_is_undefined(tmp_path: Path) -> None:
    path = models.model_path("kws")
    graph = load_model(path)
    inputs = models.samples("kws", 2)
    outputs = [interpreter.run(graph, {graph.inputs[0]: x})[graph.outputs[0]] for x in inputs]
    library = hilc.compile(path, name="kws", pools="external", optimize="size")
    library.save(tmp_path)
    arrays = [f"#define SAMPLES {len(inputs)}\n"]
    arrays += [c_array(n, np.concatenate(v)) for n, v in (("inputs", inputs), ("outputs", outputs))]
    (tmp_path / "main.c").write_text(_SANITIZED % {"arrays": "\n".join(arrays)})
    flags = ["-std=c11", "-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    files = ["main.c", *generated_c.sources(library)]
    command = ["gcc", *flags, "-Icodegen/host/include", *files, "-lm", "-o", "kws"]
    generated_c.run(command, tmp_path)
    generated_c.run(["./kws"], tmp_path)
