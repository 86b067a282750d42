"""The signal library: custom operators of audio front ends, against TensorFlow Lite Micro."""

from __future__ import annotations

import numpy as np
import pytest
import tflm
from flatbuffers import flexbuffers
from single_op import SIGNAL_DTYPES, Draft, finish, random_op
from tflite_builder import ModelBuilder

import hilc
from hilc.errors import ModelError
from hilc.frontends import load_model
from hilc.interpreter import run_all
from hilc.ir import Array, Tensor
from hilc.ops.verify import verify

SAMPLES, LENGTH, CHANNELS = 480, 512, 8


def options(**values: int) -> bytes:
    return bytes(flexbuffers.Dumps(values))


def front_end(rng: np.random.Generator) -> bytes:
    """From samples to logarithms of channels, as the micro speech example has it."""
    b = ModelBuilder()
    b.input("samples", (SAMPLES,), "int16")
    b.const("weights", rng.integers(0, 4096, SAMPLES).astype(np.int16))
    ends = np.linspace(4, 240, CHANNELS + 2).astype(np.int16)
    widths = np.diff(ends)
    tables: dict[str, Array] = {
        "filter": rng.integers(0, 4096, int(widths.sum())),
        "rest": rng.integers(0, 4096, int(widths.sum())),
        "first": ends[:-1],
        "place": np.append(0, np.cumsum(widths)[:-1]),
        "width": widths,
        "gains": np.sort(rng.integers(0, 4096, 125))[::-1],
    }
    for name, values in tables.items():
        b.const(name, values.astype(np.int16))

    def step(code: str, inputs: tuple[str, ...], *outputs: tuple[str, tuple[int, ...], str],
             **values: int) -> None:  # fmt: skip
        for name, shape, dtype in outputs:
            b.tensor(name, shape, dtype)
        names = tuple(name for name, _, _ in outputs)
        b.op("CUSTOM", inputs, names, custom_code=code, custom_options=options(**values))

    channels = (CHANNELS,)
    step("SignalWindow", ("samples", "weights"), ("windowed", (SAMPLES,), "int16"), shift=12)
    step("SignalFftAutoScale", ("windowed",), ("loud", (SAMPLES,), "int16"), ("bits", (), "int32"))
    step("SignalRfft", ("loud",), ("spectrum", (LENGTH + 2,), "int16"), T=7, fft_length=LENGTH)
    half = LENGTH // 2 + 1
    step("SignalEnergy", ("spectrum",), ("energy", (half,), "uint32"), end_index=240, start_index=4)
    bank = ("energy", "filter", "rest", "first", "place", "width")
    step("SignalFilterBank", bank, ("sums", channels, "uint64"), num_channels=CHANNELS)
    step("SignalFilterBankSquareRoot", ("sums", "bits"), ("roots", channels, "uint32"))
    step("SignalPCAN", ("roots", "roots", "gains"), ("gained", channels, "uint32"), snr_shift=6)
    step("SignalFilterBankLog", ("gained",), ("features", channels, "int16"),
         input_correction_bits=3, output_scale=1600)  # fmt: skip
    b.output("features")
    return b.build()


def sounds(rng: np.random.Generator) -> list[Array]:
    return [
        (rng.standard_normal(SAMPLES) * loud).clip(-32768, 32767).astype(np.int16)
        for loud in (0, 1, 30, 1000, 20000, 100000)
    ]


@pytest.mark.parametrize("cpu", ["host"])
def test_an_audio_front_end_equals_tflite_micro(cpu: str) -> None:
    rng = np.random.default_rng(1)
    model = front_end(rng)
    graph = load_model(model)
    with hilc.host.load(hilc.compile(graph, cpu=cpu)) as compiled:
        for samples in sounds(rng):
            expected = tflm.run(model, {"samples": samples})
            ours = run_all(graph, {"samples": samples})
            for name, value in expected.items():
                wanted = slice(4, 240) if name == "energy" else slice(None)
                mine, theirs = (np.atleast_1d(v)[wanted] for v in (ours[name], value))
                np.testing.assert_array_equal(mine, theirs, name)
            compiled.set_input("samples", samples)
            compiled.run()
            np.testing.assert_array_equal(compiled.get_output("features"), expected["features"])


@pytest.mark.parametrize("op", SIGNAL_DTYPES)
def test_signal_operators_import_as_they_were_written(op: str) -> None:
    rng = np.random.default_rng(3)
    for dtype in SIGNAL_DTYPES[op]:
        for _ in range(5):
            single = random_op(rng, op, dtype)
            graph = load_model(single.tflite(), name="one")
            verify(graph)
            (node,) = graph.nodes
            assert (node.op, node.attrs) == (op, single.node.attrs)
            assert graph.ins(node)[: len(single.ins)] == single.ins


def test_energies_that_are_not_wanted_are_none() -> None:
    rng = np.random.default_rng(5)
    x = Tensor("x", (20,), "int16")
    single = finish(rng, "SIGNAL_ENERGY", Draft([x], attrs={"start_index": 2, "end_index": 7}))
    (ours,) = single.reference()
    assert (np.flatnonzero(ours) == np.arange(2, 7)).all()
    theirs = tflm.run(single.tflite(), {"x": single.values[0]})["y0"]
    np.testing.assert_array_equal(ours[2:7], theirs[2:7])


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        (b"", "no FlexBuffer"),
        (b"\x00\x01\x02", "its options lack fft_length"),
        (options(T=7), "its options lack fft_length"),
        (options(fft_length=480), "transforms frames of 480 samples"),
        (options(fft_length=-8), "transforms frames of -8 samples"),
        (bytes(flexbuffers.Dumps({"fft_length": "x"})), "fft_length = 'x'"),
        (bytes(flexbuffers.Dumps([1])), "its options lack fft_length"),
        (options(fft_length=8), "has frames of 10 samples, more than 8"),
    ],
)
def test_options_that_no_transform_has_are_refused(given: bytes, fact: str) -> None:
    b = ModelBuilder()
    b.input("x", (10,), "int16")
    b.output("y", (18,), "int16")
    b.op("CUSTOM", ("x",), ("y",), custom_code="SignalRfft", custom_options=given)
    with pytest.raises(ModelError, match=fact):
        verify(load_model(b.build()))
