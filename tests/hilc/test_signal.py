"""The signal library: custom operators of audio front ends, against TensorFlow Lite Micro."""

from __future__ import annotations

import numpy as np
import pytest
import tflm
from campaigns import cases
from flatbuffers import flexbuffers
from single_op import SIGNAL_DTYPES, Draft, finish, random_op
from tflite_builder import ModelBuilder

import hilc
from hilc.errors import ModelError
from hilc.frontends import load_model
from hilc.interpreter import Interpreter, run_all
from hilc.ir import Array, Tensor
from hilc.ops.verify import verify
from hilc.references.tflm import TflmModel

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


def steps(
    code: str, dtype: str, ins: tuple[int, ...], out: tuple[int, ...], **values: int | bool
) -> bytes:
    """A model of an operator that says whether its output is valid."""
    b = ModelBuilder()
    b.input("x", ins, dtype)
    b.output("y", out, dtype)
    b.output("valid", (), "bool")
    given = bytes(flexbuffers.Dumps(values))
    b.op("CUSTOM", ("x",), ("y", "valid"), custom_code=code, custom_options=given)
    return b.build()


def stacker(channels: int, left: int, right: int, step: int) -> bytes:
    return steps(
        "SignalStacker", "int16", (channels,), (channels * (left + right + 1),),
        num_channels=channels, stacker_left_context=left, stacker_right_context=right,
        stacker_step=step,
    )  # fmt: skip


def framer(samples: int, size: int, step: int) -> bytes:
    return steps(
        "SignalFramer", "int16", (2, samples), (2, samples // step, size),
        frame_size=size, frame_step=step, prefill=False,
    )  # fmt: skip


@tflm.needs_tflm
@cases(
    "model",
    [
        *(stacker(3, left, right, step) for left, right, step in
          ((0, 0, 1), (2, 0, 1), (2, 1, 1), (3, 2, 2), (1, 3, 5), (0, 2, 3))),
        *(framer(samples, size, step) for samples, size, step in
          ((4, 4, 4), (4, 10, 4), (8, 10, 4), (6, 7, 2), (5, 5, 1))),
    ],
first=3)  # fmt: skip
def test_outputs_are_valid_when_tflite_micro_says_so(model: bytes) -> None:
    """Until then TFLite Micro leaves them as it finds them."""
    rng = np.random.default_rng(2)
    graph = load_model(model)
    interpreter, reference = Interpreter(graph), TflmModel(model)
    valid = 0
    for _ in range(2):
        with hilc.host.load(hilc.compile(graph, cpu="host")) as compiled:
            for _ in range(20):
                x = rng.integers(-32768, 32768, graph.tensors["x"].shape).astype(np.int16)
                theirs = reference.run([x], outputs=2)
                ours = interpreter.run({"x": x})
                compiled.set_input("x", x)
                compiled.run()
                assert ours["valid"] == theirs[1] == compiled.get_output("valid")
                np.testing.assert_array_equal(compiled.get_output("y"), ours["y"])
                if theirs[1]:
                    valid += 1
                    np.testing.assert_array_equal(ours["y"], theirs[0])
        interpreter.reset_state()
        reference.reset()
    assert valid


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
