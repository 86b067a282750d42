"""The work of layers and the limits of cores, against counts by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from linear_layers import make_layer
from small_models import SMALL_MODELS
from tflite_builder import ModelBuilder

import hilc
from hilc.artifact.manifest import Layer, Module
from hilc.artifact.work import Work, limit
from hilc.errors import InputError
from hilc.target import add_core, cpu_names, get_cpu

#: Products of int8, int16 and float32 in one instruction; bytes; sums of a requantization.
CORES = {
    "cortex-m0": (1, 1, None, 4, 1),
    "cortex-m0plus": (1, 1, None, 4, 1),
    "cortex-m3": (1, 1, None, 4, 1),
    "cortex-m4": (2, 2, 1, 4, 1),
    "cortex-m7": (2, 2, 1, 4, 1),
    "cortex-m33": (2, 2, 1, 4, 1),
    "cortex-m55": (16, 8, 4, 128, 4),
    "rv32imac": (1, 1, None, 4, 1),
    "rv32imac_zbb": (1, 1, None, 4, 1),
    "rv32imac_zve32x": (32, 32, None, 128, 32),
    "rv32imafc": (1, 1, 1, 4, 1),
    "rv32imc": (1, 1, None, 4, 1),
    "rv32imc_xpulp": (4, 2, None, 4, 1),
}
SAME: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "padding": "SAME", "activation": "RELU"}
CONV = {**SAME, "dilation_h": 1, "dilation_w": 1}


def _linear(op: str, dtype: str, x: tuple[int, ...], w: tuple[int, ...], **attrs: Any) -> bytes:
    """A layer with a bias."""
    for seed in range(50):
        layer = make_layer(np.random.default_rng(seed), op, dtype, x, w, attrs)
        if len(layer.ins) == 3 and layer.ins[2] is not None:
            return layer.tflite()
    raise AssertionError("no layer with a bias")


def _layers(model: bytes, cpu: str = "cortex-m4", **options: Any) -> tuple[Layer, ...]:
    return hilc.compile(model, cpu=cpu, name="net", **options).modules[0].layers


@pytest.fixture(autouse=True)
def _own_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores that a test adds are known to the rest of the process otherwise."""
    monkeypatch.setattr("hilc.target.cores._ADDED", {})


def _work(model: bytes) -> Work:
    (layer,) = _layers(model)
    assert layer.work is not None
    return layer.work


def test_cores_state_what_an_instruction_does():
    assert CORES.keys() == set(cpu_names()) - {"host"}
    for name, (int8, int16, float32, nbytes, sums) in CORES.items():
        found = get_cpu(name).limit
        assert found is not None
        assert (found.bytes, found.sums) == (nbytes, sums), name
        expected = {"int8": int8, "int16": int16, "float32": float32}
        assert dict(found.products) == {k: v for k, v in expected.items() if v}, name
    assert get_cpu("host").limit is None


def test_pixels_times_columns():
    """25 x 5 pixels of 64 channels to 64: 4096 weights a pixel."""
    work = _work(_linear("CONV_2D", "int8", (1, 25, 5, 64), (64, 1, 1, 64), **CONV))
    assert work == Work({"int8": 512_000}, 8000 + 4096 + 4 * 64 + 8000, 8000)
    # 20352 bytes are 5088 words, or 159 times sixteen double registers.
    assert limit(work, get_cpu("cortex-m0")) == 512_000 + 5088 + 24_000
    assert limit(work, get_cpu("cortex-m3")) == 512_000 + 5088 + 24_000
    assert limit(work, get_cpu("cortex-m4")) == 256_000 + 5088 + 24_000
    assert limit(work, get_cpu("cortex-m55")) == 32_000 + 159 + 6000
    assert limit(work, get_cpu("host")) is None


def test_depthwise():
    """Three of the nine taps of a row, and of a column, lie outside at the image's edge: they count
    as the model's others do.
    """
    model = _linear(
        "DEPTHWISE_CONV_2D", "int8", (1, 4, 4, 8), (1, 3, 3, 8), depth_multiplier=1, **CONV
    )
    work = _work(model)
    assert work == Work({"int8": 16 * 8 * 9}, 128 + 72 + 32 + 128, 128)
    assert limit(work, get_cpu("cortex-m4")) == 576 + 90 + 384
    # 72 + 2.8 + 96
    assert limit(work, get_cpu("cortex-m55")) == 171


def test_a_fully_connected_layer_of_16_bits():
    attrs = {"activation": "NONE", "keep_num_dims": False}
    work = _work(_linear("FULLY_CONNECTED", "int16", (1, 40), (10, 40), **attrs))
    # Biases of 64 or 32 bits.
    assert work.products == {"int16": 400}
    assert work.nbytes - (80 + 400 + 20) in (80, 40)
    assert work.requantized == 10
    assert limit(replace(work, nbytes=500), get_cpu("cortex-m4")) == 200 + 125 + 30
    # 50 + 3.9 + 7.5
    assert limit(replace(work, nbytes=500), get_cpu("cortex-m55")) == 62


def test_floats_are_not_requantized():
    attrs = {"activation": "NONE", "keep_num_dims": False}
    work = _work(_linear("FULLY_CONNECTED", "float32", (1, 8), (4, 8), **attrs))
    assert work == Work({"float32": 32}, 32 + 128 + 16 + 16, 0)
    assert limit(work, get_cpu("cortex-m4")) == 32 + 48
    assert limit(work, get_cpu("cortex-m55")) == 8 + 2
    assert limit(work, get_cpu("cortex-m0")) is None


def test_moves_requantize_and_read_nothing():
    b = ModelBuilder()
    x = b.input("x", (1, 3, 3, 2), "int8", (0.5,), (3,))
    paddings = b.const("paddings", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    y = b.output("y", (1, 5, 5, 2), "int8", (0.5,), (3,))
    b.op("PAD", [x, paddings], [y])
    work = _work(b.build())
    assert work == Work({}, 18 + 50, 0)
    assert limit(work, get_cpu("cortex-m0")) == 17


def test_a_sum_reads_both_and_requantizes():
    b = ModelBuilder()
    x, y = (b.input(n, (1, 8), "int8", (s,), (0,)) for n, s in (("x", 0.5), ("y", 0.25)))
    z = b.output("z", (1, 8), "int8", (1.0,), (0,))
    b.op("ADD", [x, y], [z], activation="NONE")
    work = _work(b.build())
    assert work == Work({}, 24, 8)
    assert limit(work, get_cpu("cortex-m4")) == 6 + 24


def _chain() -> bytes:
    """Three convolutions over an image; what is between them is large."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    channels = (2, 16, 16, 1)
    b.input("t0", (1, 24, 24, channels[0]), "int8", 0.5, 0)
    for i, (before, after) in enumerate(pairwise(channels), 1):
        weights = rng.integers(-127, 128, (after, 3, 3, before), np.int8)
        b.const(f"w{i}", weights, 0.01)
        b.const(f"b{i}", rng.integers(-99, 99, (after,), np.int32), 0.005)
        add = b.output if i == len(channels) - 1 else b.tensor
        add(f"t{i}", (1, 24, 24, after), "int8", 0.5, 0)
        b.op("CONV_2D", (f"t{i - 1}", f"w{i}", f"b{i}"), (f"t{i}",), **CONV)
    return b.build()


def test_a_fused_group_has_the_work_of_its_layers():
    model = _chain()
    single = {layer.name: layer for layer in _layers(model, optimize="speed")}
    grouped = _layers(model, optimize="ram")
    groups = [layer for layer in grouped if layer.group]
    assert [len(group.group) for group in groups] == [3]
    for group in groups:
        works = [single[name].work for name in group.group]
        assert group.work is not None
        between = 0
        products = requantized = nbytes = 0
        for name, work in zip(group.group, works, strict=True):
            assert work is not None
            products += sum(work.products.values())
            requantized += work.requantized
            nbytes += work.nbytes
            if name != group.group[-1]:
                # Written by one, read by the next.
                between += 2 * sum(out.nbytes for out in single[name].outputs)
        assert sum(group.work.products.values()) == products
        assert group.work.requantized == requantized
        assert group.work.nbytes == nbytes - between


def test_an_archive_holds_it(tmp_path: Path):
    library = hilc.compile(SMALL_MODELS["convolutions"](), cpu="cortex-m4", name="net")
    (module,) = library.modules
    assert Module.from_json(module.to_json(), "net.json") == module
    # Archives of earlier releases do not.
    old = json.loads(module.to_json())
    for layer in old["layers"]:
        del layer["work"]
    read = Module.from_json(json.dumps(old).encode(), "net.json")
    assert [layer.work for layer in read.layers] == [None] * len(module.layers)


def _spoiled(key: str, value: object) -> str:
    library = hilc.compile(SMALL_MODELS["convolutions"](), cpu="cortex-m4", name="net")
    described = json.loads(library.modules[0].to_json())
    described["layers"][0]["work"][key] = value
    return json.dumps(described)


@cases(
    ("key", "value", "message"),
    [
        ("nbytes", -1, "work is out of range"),
        ("nbytes", 10**400, "work is out of range"),
        ("products", {"int8": -4}, "work is out of range"),
        ("products", {"int8": 10**400}, "work is out of range"),
        ("requantized", 1 << 53, "work is out of range"),
        ("products", {"bytes": 4}, "products of no type"),
        ("requantized", 1.5, "expected is int"),
    ],
    first=2,
)
def test_an_archive_with_impossible_work(key, value, message):
    with pytest.raises(InputError, match=message):
        Module.from_json(_spoiled(key, value).encode(), "net.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("int8 = 1", "int4 = 1"), "limit.products.int4: unknown key"),
        (("int8 = 1", "int8 = -1"), "-1 is not within 0 to"),
        (("sums = 1", ""), "sums: the key is missing"),
        (("sums = 1", "sums = 1\nlanes = 2"), "limit.lanes: unknown key"),
        (("bytes = 4", 'bytes = "4"'), "is not an integer"),
    ],
)
def test_a_core_with_an_impossible_limit(tmp_path, change, message):
    shipped = get_cpu("cortex-m0").path.read_text()
    assert change[0] in shipped
    path = tmp_path / "own.toml"
    path.write_text(shipped.replace(*change))
    with pytest.raises(InputError, match=message):
        add_core(path)


def test_a_core_without_a_limit(tmp_path):
    path = tmp_path / "limitless.toml"
    path.write_text(get_cpu("cortex-m0").path.read_text().partition("# What one")[0])
    assert limit(Work({}, 4, 0), add_core(path)) is None
