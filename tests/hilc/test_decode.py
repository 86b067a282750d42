"""DECODE: compressed constants are what TensorFlow Lite Micro makes of them."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from pathlib import Path

import encodings_of_constants as encodings
import numpy as np
import pytest
import tflm
from encodings_of_constants import Encoded, layer
from guarded import guard, verdict
from tflite_builder import ModelBuilder

import hilc
from hilc.errors import HilError, ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.frontends.tflite.reader import import_graph
from hilc.interpreter import run_all
from hilc.ir import Array

Random = np.random.Generator


def file_of(
    values: Sequence[tuple[Array, Encoded, tuple[float, ...], tuple[int, ...], int]],
) -> bytes:
    """All constants, decoded by one operator, which are the outputs of the model."""
    b = ModelBuilder()
    b.input("x", (1,), "float32")
    inputs, outputs = [], []
    for number, (array, (data, beside), scales, zero_points, axis) in enumerate(values):
        inputs += [b.const(f"e{number}", data), b.const(f"a{number}", beside)]
        dtype = array.dtype.name
        quant = (scales, zero_points, axis) if scales else ()
        outputs.append(b.tensor(f"d{number}", array.shape, dtype, *quant))
    b.op("CUSTOM", inputs, outputs, custom_code="TFLM_DECODE")
    for name in outputs:
        b.output(name)
    return b.build()


def check(model: bytes, expected: Sequence[Array]) -> None:
    """The reader and TFLM give the arrays that were encoded."""
    graph = import_graph(model, "constants").graph
    theirs = tflm.run(model, {"x": np.zeros(1, np.float32)})
    for number, array in enumerate(expected):
        np.testing.assert_array_equal(graph.tensors[f"d{number}"].data, array, strict=True)
        np.testing.assert_array_equal(theirs[f"d{number}"], array, strict=True)


def some(rng: Random, dtype: str, shape: tuple[int, ...], count: int) -> Array:
    """An array of so many different values at most."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype == "float32":
        pool: Array = rng.standard_normal(count).astype(np.float32)
    else:
        info = np.iinfo(dtype)
        pool = rng.integers(info.min, info.max, count, dtype, endpoint=True)
    return rng.choice(pool, shape)


def quantized(
    rng: Random, dtype: str, shape: tuple[int, ...], *, zeros: bool
) -> tuple[tuple[float, ...], tuple[int, ...], int]:
    """Scales, zero points and axis: for all, or along the first or the last axis."""
    if dtype not in ("int8", "int16"):
        return (), (), 0
    axis = int(rng.choice([-1, 0, len(shape) - 1]))
    channels = 1 if axis < 0 else shape[axis]
    low, high = (-128, 128) if zeros and dtype == "int8" else (0, 1)
    points = tuple(int(z) for z in rng.integers(low, high, channels))
    return (0.5,) * channels, points, 0 if channels == 1 else axis


DTYPES = ("int8", "int16", "int32", "int64", "float32", "bool")


@tflm.needs_tflm
@pytest.mark.parametrize("dtype", DTYPES)
def test_look_up_tables(dtype: str) -> None:
    rng = np.random.default_rng([*dtype.encode()])
    values = []
    for bits in [*range(1, 8)] * 4:
        shape = tuple(int(n) for n in rng.integers(2, 7, int(rng.integers(1, 5))))
        quant = quantized(rng, dtype, shape, zeros=False)
        axis = None if len(quant[0]) < 2 else quant[2]
        array = some(rng, dtype, shape, 1 << bits)
        stated = int(rng.choice([0, 15 if axis is None else axis]))
        values.append((array, encodings.look_up(array, bits, axis, stated), *quant))
    check(file_of(values), [value[0] for value in values])


@tflm.needs_tflm
@pytest.mark.parametrize("dtype", DTYPES)
def test_pruned(dtype: str) -> None:
    rng = np.random.default_rng([*dtype.encode()])
    values = []
    for _ in range(20):
        shape = tuple(int(n) for n in rng.integers(2, 7, int(rng.integers(1, 5))))
        quant = quantized(rng, dtype, shape, zeros=True)
        points = np.zeros(shape, np.int64)
        if len(quant[0]) > 1:
            along = np.moveaxis(points, quant[2], -1)
            along[...] = quant[1]
        elif quant[0]:
            points[...] = quant[1][0]
        array = some(rng, dtype, shape, 50)
        array = np.where(rng.random(shape) < 0.6, points, array).astype(dtype)
        values.append((array, encodings.pruned(array, points), *quant))
    check(file_of(values), [value[0] for value in values])


@tflm.needs_tflm
@pytest.mark.parametrize(("dtype", "width"), [("int8", 16), ("int8", 32), ("int16", 32)])
def test_huffman(dtype: str, width: int) -> None:
    rng = np.random.default_rng(width)
    values = []
    for different in (1, 2, 5, 40, 200):
        array = some(rng, dtype, (9, 31), different)
        often = array.flat[0]
        array[rng.random(array.shape) < 0.5] = often
        values.append((array, encodings.huffman(array, 4, width), (0.5,), (0,), 0))
    check(file_of(values), [value[0] for value in values])


@tflm.needs_tflm
@pytest.mark.parametrize("kind", ["look_up", "huffman", "pruned"])
def test_scalars(kind: str) -> None:
    value = np.array(-7, np.int8)
    encoded = {
        "look_up": lambda: encodings.look_up(value, 2),
        "huffman": lambda: encodings.huffman(value, 4, 16),
        "pruned": lambda: encodings.pruned(value, np.array(3)),
    }[kind]()
    check(file_of([(value, encoded, (0.5,), (3 if kind == "pruned" else 0,), 0)]), [value])


@tflm.needs_tflm
def test_a_layer_with_compressed_weights_is_the_layer() -> None:
    """The same code, and the same answers as TFLM's."""
    plain, packed = layer(None), layer(lambda w: encodings.look_up(w, 2))
    codes = [
        {path: text for path, text in hilc.compile(m, name="m").files.items() if "/src/" in path}
        for m in (plain, packed)
    ]
    assert codes[0].keys() == codes[1].keys()
    graph = load_model(packed)
    x = np.arange(-8, 8, dtype=np.int8).reshape(1, 16)
    (expected,) = (run_all(graph, {"x": x})[name] for name in graph.outputs)
    np.testing.assert_array_equal(tflm.run(packed, {"x": x})["y"], expected)
    np.testing.assert_array_equal(tflm.run(plain, {"x": x})["y"], expected)


@tflm.needs_tflm
@pytest.mark.parametrize("axis", [None, 0])
def test_files_of_the_compressor(axis: int | None) -> None:
    """Beside TFLM lies what compresses; its files state the newer field of operators' codes alone.

    Per channel where the quantization is of the tensor, the compressor writes what TFLM's run time
    reads as one table.
    """
    compression = pytest.importorskip("tflite_micro.tensorflow.lite.micro.compression")
    spec = importlib.import_module(f"{compression.__name__}.spec")
    mode = spec.PerTensor() if axis is None else spec.PerChannel(axis=axis)
    wanted = compression.SpecBuilder().add_tensor(subgraph=0, tensor=1)
    model = bytes(compression.compress(layer(None), wanted.with_lut(2, mode).build()))
    if axis is not None:
        with pytest.raises(UnsupportedError, match="slice along axis 0, but .* one table"):
            load_model(model)
        return
    x = np.arange(-8, 8, dtype=np.int8).reshape(1, 16)
    expected = run_all(load_model(layer(None)), {"x": x})["y"]
    np.testing.assert_array_equal(run_all(load_model(model), {"x": x})["y"], expected)
    np.testing.assert_array_equal(tflm.run(model, {"x": x})["y"], expected)


def changed(place: int, value: int) -> bytes:
    def encode(weights: Array) -> Encoded:
        data, beside = encodings.look_up(weights, 2)
        beside[place] = value
        return data, beside

    return layer(encode)


@pytest.mark.parametrize(
    ("model", "error", "fact"),
    [
        (changed(0, 127), UnsupportedError, "decode type 127, which is not"),
        (changed(1, 2), UnsupportedError, "versions 2 and 1"),
        (changed(4, 9), UnsupportedError, "versions 1 and 9"),
        (changed(5, 0xF0), ModelError, "indices of 0 bits"),
        (changed(5, 0xF7), ModelError, "'w' has 24 bytes for 672 bits"),
        (changed(5, 0x12), UnsupportedError, "slice along axis 1, but the quantization of 'w'"),
        (changed(6, 3), ModelError, "3 values in a table, index 3 is used"),
        (changed(6, 0), ModelError, "0 values in a table"),
        (layer(lambda w: (w.view(np.uint8)[0], w.view(np.uint8)[0, :9])), ModelError, "9 bytes"),
    ],
)
def test_damaged_encodings_are_refused(model: bytes, error: type[HilError], fact: str) -> None:
    with pytest.raises(error, match=fact):
        load_model(model)


@pytest.mark.full
def test_no_damage_ends_without_an_answer(tmp_path: Path) -> None:
    """Streams and tables changed and cut off: decoded to an array of the stated shape, or refused;
    never an endless loop, another exception, or memory that the file does not account for.
    """
    rng = random.Random(3)
    weights = np.random.default_rng(1).integers(-9, 9, (6, 16)).astype(np.int8)
    load_model(layer(lambda weights: encodings.look_up(weights, 2)))  # what is imported late
    outcomes = []
    with guard(tmp_path):
        for encoded in (
            encodings.look_up(weights, 5),
            encodings.pruned(weights, np.zeros(weights.shape, np.int64)),
            encodings.huffman(weights, 3, 16),
            encodings.huffman(weights, 3, 32),
        ):
            for _ in range(150):
                data, beside = (part.copy() for part in encoded)
                for _ in range(rng.randint(1, 4)):
                    part = rng.choice((data, beside))
                    part[rng.randrange(part.size)] = rng.choice((0, 255, rng.randrange(256)))
                cut = data[: rng.randint(1, data.size)] if rng.random() < 0.3 else data
                short = beside[: rng.randint(1, beside.size)] if rng.random() < 0.1 else beside
                model = layer(lambda _: (cut, short))  # noqa: B023 - it is called here
                seen = verdict(lambda: load_model(model))  # noqa: B023 - it is called here
                assert not seen.breach, seen.detail
                outcomes.append(seen.is_accepted)
    assert 60 < sum(outcomes) < len(outcomes) - 60


def decoding(shape: tuple[int, ...], encoded: Encoded) -> bytes:
    """A constant of this shape, whatever was encoded."""
    b = ModelBuilder()
    b.input("x", (1,), "float32")
    names = [b.const("e", encoded[0]), b.const("a", encoded[1])]
    b.tensor("d", shape, "int8", 0.01)
    b.op("CUSTOM", names, ("d",), custom_code="TFLM_DECODE")
    b.output("d")
    return b.build()


def test_codewords_of_no_bits_are_refused() -> None:
    """They would be read for as many elements as the file claims."""
    entries = np.full(2, 1 << 15 | 5, np.uint16)  # symbols, of 0 bits
    beside = np.concatenate([encodings.metadata(1, 1, 0), entries.view(np.uint8)])
    model = decoding((1 << 26,), (np.zeros(8, np.uint8), beside))
    with pytest.raises(ModelError, match="'a' has a codeword of no bits"):
        load_model(model)


@pytest.mark.parametrize(
    "encoded",
    [
        encodings.look_up(np.ones(4, np.int8), 2),
        encodings.pruned(np.ones(4, np.int8), np.zeros(4, np.int64)),
        encodings.huffman(np.ones(4, np.int8), 3, 16),
    ],
    ids=["look-up", "pruned", "huffman"],
)
def test_nothing_is_decoded_for_no_elements(encoded: Encoded) -> None:
    graph = import_graph(decoding((0,), encoded), "none").graph
    data = graph.tensors["d"].data
    assert data is not None
    assert data.shape == (0,)
    assert data.dtype.name == "int8"
