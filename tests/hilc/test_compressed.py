"""Constants that are stored compressed: their code, calls that decode them, programs of these."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import generated_c
import numpy as np
import pytest
from campaigns import sampled
from compressed_layers import KINDS, every_variant, layers, weights_of
from single_op import merged
from tflite_builder import ModelBuilder

import hilc
from hilc import host
from hilc.artifact.manifest import CompressedArrays, Module
from hilc.errors import InputError
from hilc.interpreter import run
from hilc.lowering import compression
from hilc.lowering.compressed import CompressedCall
from hilc.lowering.compression import compressed
from hilc.memory.checker import check_plan
from hilc.memory.plan import PlanError, Planner
from hilc.schedule.policy import GOALS
from hilc.support.resources import data_dir
from hilc.target import get_cpu

_DECODER = """
#include "hil/decode.h"
int32_t decode(const uint8_t *stream, uint8_t *out, const int32_t *parts, int32_t count);
int32_t decode(const uint8_t *stream, uint8_t *out, const int32_t *parts, int32_t count) {
    uint16_t table[1 << HIL_DECODE_BITS];
    struct hil_decoder decoder;
    hil_decoder_begin(&decoder, stream, table);
    for (int32_t i = 0; i < count; i++) {
        hil_decode(&decoder, out, parts[i]);
        out += parts[i];
    }
    uint8_t rows[4] = {0, 0, 0, 0};
    hil_place_columns(rows + 1, stream, 2, 1, 2);
    return (int32_t)(decoder.next - stream);
}
"""


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("decoder")
    (folder / "decoder.c").write_text(_DECODER)
    include = str(data_dir("runtime") / "include")
    command = ["gcc", *generated_c.WARNINGS, "-O1", "-fPIC", "-shared", "-fsanitize=undefined"]
    command += ["-fno-sanitize-recover", "-I", include, "decoder.c", "-o", "decoder.so"]
    generated_c.run(command, folder)
    return ctypes.CDLL(str(folder / "decoder.so"))


@pytest.mark.parametrize("kind", KINDS)
def test_streams_decode_to_what_they_hold(decoder: ctypes.CDLL, kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for size in (1, 2, 7, 255, 256, 257, 1000, 40_000):
        data = weights_of(rng, kind, size)
        cuts = np.sort(rng.integers(0, size, min(5, size - 1)))
        parts = [part for part in np.split(data, cuts) if part.size]
        code = compressed(parts)
        stream = np.ascontiguousarray(code.stream)
        assert stream.nbytes == code.nbytes
        assert code.decoded_bytes == size
        assert compressed([part.copy() for part in parts]).digest == code.digest
        other = [*parts[:-1], parts[-1] ^ 1]
        assert (compressed(other).digest == code.digest) == np.array_equal(
            compressed(other).stream, stream
        )
        # The decoder writes nothing behind what it decodes, and reads nothing behind the stream.
        out = np.full(size + 8, 99, np.int8)
        lengths = np.array([part.size for part in parts], np.int32)
        bytes_read = decoder.decode(
            stream.ctypes.data_as(ctypes.c_void_p),
            out.ctypes.data_as(ctypes.c_void_p),
            lengths.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_int32(len(parts)),
        )
        np.testing.assert_array_equal(out[:size], data)
        assert bytes_read <= stream.nbytes
        assert (out[size:] == 99).all()


@pytest.mark.parametrize(
    ("kind", "bits"),
    [("constant", 0.1), ("two values", 1.1), ("uniform", 8.1), ("sparse", 0.8), ("int4", 4.1)],
)
def test_streams_are_about_as_small_as_their_entropy(kind: str, bits: float) -> None:
    data = weights_of(np.random.default_rng(3), kind, 40_000)
    assert compressed([data]).nbytes <= bits * data.size / 8


#: How a library is generated, by what it tries.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "in pools": {"io_in_pool": True, "pools": "external"},
    "allocated": {"pools": "calls"},
    "external constants": {"pools": "external", "constants": "external"},
    "packed": {"api": "packed", "interface": "packed"},
    "speed": {"optimize": "speed"},
    "size": {"optimize": "size"},
}


@pytest.mark.parametrize("way", sampled(list(WAYS), keep=["external constants"]))
def test_compressed_weights_equal_the_reference(way: str) -> None:
    first = list(WAYS).index(way)
    graph, values = merged(layers(np.random.default_rng(first), first))
    expected = run(graph, values)
    for choice, calls in every_variant(graph, get_cpu("host")):
        library = hilc.compile(
            graph, cpu="host", choice=choice, fold_constant_channels=False, **WAYS[way]
        )
        with host.load(library) as model:
            for name, value in values.items():
                model.set_input(name, value)
            model.run()
            for name, output in expected.items():
                np.testing.assert_array_equal(model.get_output(name), output, name)
        assert len(library.modules[0].compressed) == len(calls)


@pytest.mark.full  # It changes rarely, and takes long.
def test_generated_code_has_no_warnings(tmp_path: Path) -> None:
    graph, _ = merged(layers(np.random.default_rng(6)))
    tried = set()
    for choice, calls in every_variant(graph, get_cpu("host")):
        library = hilc.compile(graph, cpu="host", choice=choice, fold_constant_channels=False)
        for compiler in ("gcc", "cortex-m4"):
            generated_c.compile_objects(library, generated_c.COMPILERS[compiler], tmp_path)
        tried |= {(call.tiles > 1, call.scattered) for call in calls}
    assert tried == {(False, False), (True, False), (True, True)}


def test_the_checker_finds_scratch_that_is_too_small() -> None:
    graph, _ = merged(layers(np.random.default_rng(7))[:1])
    choice, _ = next(every_variant(graph, get_cpu("host")))
    program = Planner(graph, get_cpu("host")).plan(choice)
    (step,) = program.steps
    assert isinstance(step.call, CompressedCall)
    assert step.scratch is not None
    short = replace(program.pools[0], nbytes=program.pools[0].nbytes - 16)
    less = replace(program, pools=(short,), workspace_bytes=program.workspace_bytes - 16)
    with pytest.raises(PlanError, match="scratch"):
        check_plan(less)


def sparse_model() -> bytes:
    """Two layers, the first with 32 KB of weights most of which are zero."""
    rng = np.random.default_rng(8)
    b = ModelBuilder()
    b.input("x", (1, 256), "int8", 0.05)
    for name, shape in (("w", (128, 256)), ("v", (10, 128))):
        weights = weights_of(rng, "sparse" if name == "w" else "uniform", shape[0] * shape[1])
        b.const(name, weights.reshape(shape), scale=0.01)
    b.tensor("h", (1, 128), "int8", 0.05)
    b.output("y", (1, 10), "int8", 0.2)
    b.op("FULLY_CONNECTED", ["x", "w", ""], ["h"])
    b.op("FULLY_CONNECTED", ["h", "v", ""], ["y"])
    return b.build()


def test_limits_of_flash_take_compressed_weights() -> None:
    model = sparse_model()
    fast = hilc.compile(model, cpu="cortex-m4", optimize="speed")
    assert fast.modules[0].compressed == ()
    limited = hilc.compile(model, cpu="cortex-m4", optimize="speed", flash=9000)
    chosen = limited.reports["default"].chosen
    assert chosen.flash_bytes <= 9000
    (found,) = limited.modules[0].compressed
    assert found.nbytes >= 256 * 128 > 8 * found.stored_bytes
    assert limited.modules[0].constants_bytes < 8000
    # Of its layers one takes most of the instructions, so a goal does not decode its weights.
    most = GOALS["size"].most * fast.reports["default"].chosen.instructions
    size = hilc.compile(model, cpu="cortex-m4", optimize="size")
    assert size.reports["default"].chosen.instructions <= most < chosen.instructions
    assert size.modules[0].compressed == ()
    with pytest.raises(InputError, match="the least is about"):
        hilc.compile(model, cpu="cortex-m4", flash=2000)


def test_streams_are_made_for_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search made those of all kernels that it priced."""
    made: list[object] = []
    codewords = compression._codewords

    def counted(lengths: Any) -> Any:
        made.append(lengths)
        return codewords(lengths)

    monkeypatch.setattr(compression, "_codewords", counted)
    library = hilc.compile(sparse_model(), cpu="cortex-m4", optimize="speed", flash=9000)
    assert len(made) == len(library.modules[0].compressed) == 1


def test_descriptions_tell_of_compressed_weights() -> None:
    (module,) = hilc.compile(sparse_model(), flash=9000).modules
    assert Module.from_json(module.to_json(), "here") == module
    (told,) = module.compressed_json()
    assert told["layer"] == "h"
    assert told["stored_bytes"] < told["bytes"]
    for wrong in (CompressedArrays(2, 1, 1, 1), CompressedArrays(0, 1, 0, 1)):
        with pytest.raises(InputError, match="CompressedArrays"):
            Module.from_json(replace(module, compressed=(wrong,)).to_json(), "here")
