"""Firmware of other people: its tap points, what arrives of them, and the guilty layer."""

from __future__ import annotations

import functools
import itertools
import os
import pty
import subprocess
import tty
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import answers
import numpy as np
import pytest
from campaigns import cases
from random_graphs import GraphBuilder
from small_models import SMALL_MODELS
from tap_points import TAP, Points, build_runtime, started
from tflite_builder import ModelBuilder

import hilc
import hilc.host
from hil.cli import main
from hil.errors import InputError, LinkError
from hil.link import protocol
from hil.link.codec import Frame, encode
from hil.link.line import Link
from hil.link.protocol import Event, Kind, Tensors
from hil.link.taps import TappedRun, TapReader
from hil.verify import Kind as Difference
from hil.verify import Oracle, Report
from hil.verify.against import verify_tapped
from hil.verify.samples import random_sample
from hilc import interpreter
from hilc.artifact.library import ModelLibrary
from hilc.frontends import load_model
from hilc.ir import Graph
from hilc.references.tflm import TflmModel


@functools.cache
def network_file() -> bytes:
    """Convolutions, a pool and a fully connected layer; two layers are alike in type and size."""
    rng = np.random.default_rng(4)
    b = ModelBuilder()

    def conv(x: str, y: str, shape: tuple[int, int, int], channels: int, stride: int = 1) -> None:
        weights = rng.integers(-127, 128, (shape[2], 3, 3, channels), np.int8)
        b.const(f"{y}_w", weights, [0.004 + 0.001 * i for i in range(shape[2])])
        b.tensor(y, (1, *shape), "int8", 0.5, -3)
        b.op("CONV_2D", (x, f"{y}_w", ""), (y,), padding="SAME", stride_h=stride, stride_w=stride)

    b.input("x", (1, 8, 8, 3), "int8", 0.25, 3)
    conv("x", "first", (8, 8, 4), 3)
    conv("first", "second", (8, 8, 4), 4)
    b.tensor("pooled", (1, 4, 4, 4), "int8", 0.5, -3)
    b.op("MAX_POOL_2D", ("second",), ("pooled",), filter_h=2, filter_w=2, stride_h=2, stride_w=2)
    conv("pooled", "third", (2, 2, 6), 4, stride=2)
    b.const("shape", np.array([1, 24], np.int32))
    b.tensor("flat", (1, 24), "int8", 0.5, -3)
    b.op("RESHAPE", ("third", "shape"), ("flat",), new_shape=(1, 24))
    b.const("dense_w", rng.integers(-127, 128, (10, 24), np.int8), 0.01)
    b.output("y", (1, 10), "int8", 0.5, 5)
    b.op("FULLY_CONNECTED", ("flat", "dense_w", ""), ("y",), activation="RELU")
    return b.build()


@functools.cache
def network() -> Graph:
    return load_model(network_file())


@functools.cache
def compiled(graph_of: Callable[[], Graph]) -> ModelLibrary:
    return hilc.compile(graph_of(), optimize="speed", fold_constant_channels=False)


def compare(
    link: Link,
    graph_of: Callable[[], Graph] = network,
    *,
    checksums: bool = False,
    wait_s: float = 5.0,
) -> Report:
    graph = graph_of()
    oracle = Oracle("hilc", "the interpreter", lambda _, given: interpreter.run_all(graph, given))
    (module,) = compiled(graph_of).modules
    return verify_tapped(link, module, oracle, 3, checksums=checksums, wait_s=wait_s)


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The stand-in with and without names of tensors."""
    return {
        named: build_runtime(network(), tmp_path_factory.mktemp("tap"), named=named)
        for named in (False, True)
    }


@pytest.mark.parametrize("named", [False, True])
def test_a_right_firmware_matches(runtimes: dict[bool, Path], named: bool) -> None:
    with started(runtimes[named]) as link:
        report = compare(link)
    assert report.match
    assert report.samples == 3
    assert report.diagnosis is None
    layers = report.layers
    assert layers is not None
    assert [layer.op for layer in layers] == [
        *["CONV_2D"] * 2, "MAX_POOL_2D", "CONV_2D", "FULLY_CONNECTED",
    ]  # fmt: skip
    assert not any(layer.uncompared for layer in layers)
    # The text between the frames, and nothing else.
    assert link.skipped_bytes == 11 * link.bad_frames > 0


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("channel", Difference.ONE_CHANNEL),
        ("rows", Difference.ONE_ROW),
        ("shift", Difference.SHIFTED),
        ("varies", Difference.NOT_REPEATABLE),
    ],
)
def test_the_guilty_layer_is_found(
    runtimes: dict[bool, Path], fault: str, kind: Difference, checksums: bool
) -> None:
    with started(runtimes[False], fault) as link:
        report = compare(link, checksums=checksums)
    found = report.diagnosis
    assert not report.match
    assert found is not None
    assert (found.layer, found.op) == (1, "CONV_2D")
    assert found.kind is kind, found.sentence
    assert report.layers is not None
    assert report.layers[0].match
    first = report.to_json()["first_different_layer"]
    assert (first["index"], first["op"]) == (1, "CONV_2D")


def test_the_command_line(
    runtimes: dict[bool, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The port is a pseudo-terminal; the model is the file that the firmware has the layers of."""
    model = tmp_path / "net.tflite"
    model.write_bytes(network_file())
    code, text = against(runtimes[False], "", str(model), capsys)
    assert (code, answers.entry(text)["match"]) == (0, True)
    code, text = against(runtimes[False], "channel", str(model), capsys)
    report = answers.entry(text)
    assert (code, report["match"]) == (1, False)
    assert report["diagnosis"]["kind"] == "one channel"
    assert report["diagnosis"]["tensor"] == "second"
    for option in (
        *("--board=native", "--keep-state", "--inputs=x.npz", "--metrics", "--float-model=f"),
        *("--seed=3", "--jobs=2", "--optimize=ram", "--history=h", "--junit=j", "--no-bulk"),
    ):
        assert main(["verify", str(model), "--against", "/dev/null", option]) == 2
        said = capsys.readouterr().err
        assert f"{option.partition('=')[0]} does not apply to --against" in said
    for option in ("--baud=9600", "--checksums"):
        assert main(["verify", str(model), "--board=native", option]) == 2
        assert "is given without --against" in capsys.readouterr().err
    assert main(["verify", str(model)]) == 2
    assert "neither --board nor --against is given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "told", "code"),
    [
        ("mps2-an386", "qemu starts mps2-an386, with firmware of hil only", 2),
        ("lab:cpu=cortex-m4", "a board of a lab runs firmware of hil only", 2),
        ("mps2-an368", "is no serial port, no URL and no board", 2),
        ("ttyACM9", "is no serial port, no URL and no board", 2),
        ("/dev/ttyACM99", "there is no port /dev/ttyACM99", 4),
        ("sock://localhost:1", "is not a serial port: pyserial knows no sock://", 2),
        # Its port is the remembered one, where nothing listens.
        ("nucleo-f446re", "nothing listens at socket://127.0.0.1:1", 4),
    ],
)
def test_what_may_be_compared_with(
    word: str,
    told: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[boards.nucleo-f446re]\nport = "socket://127.0.0.1:1"\n')
    monkeypatch.setenv("HIL_CONFIG", str(config))
    model = tmp_path / "net.tflite"
    model.write_bytes(network_file())
    assert main(["verify", str(model), "--against", word]) == code
    assert told in capsys.readouterr().err


def against(
    program: Path, fault: str, model: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with subprocess.Popen([str(program), fault], stdin=ours, stdout=ours) as process:
        try:
            code = main(["verify", model, "--against", os.ttyname(theirs), "--json"])
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)
    return code, capsys.readouterr().out


# -- run times that are driven from here ---------------------------------------------------------


def tflm_points(model: bytes, folder: Path) -> Link:
    """TensorFlow Lite Micro with all tensors kept, whose operators' results are tapped."""
    graph = load_model(model)
    runtime = TflmModel(model)
    seed = iter(range(100))
    from hilc.references.file import ModelFile

    file = ModelFile("tflm", graph, model)

    def inference(points: Points) -> None:
        rng = np.random.default_rng(next(seed))
        inputs = [
            rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
            for name in graph.inputs
        ]
        values = file.named(runtime.run(inputs, list(file.indices.values())))
        points.begin("tflm")
        for index, array in enumerate(inputs):
            points.tensor(Tensors.INPUT, 0, index, graph.inputs[index], array)
        for number, node in enumerate(graph.nodes):
            for index, name in enumerate(node.outputs):
                points.tensor(Tensors.LAYER_OUTPUT, number, index, name, values[name])
        for index, name in enumerate(graph.outputs):
            points.tensor(Tensors.OUTPUT, 0, index, name, values[name])
        points.end()

    return Link("tflm", line=Points(folder, inference))


@functools.cache
def small() -> Graph:
    return load_model(SMALL_MODELS["convolutions"]())


def flipped(model: bytes, weights: np.ndarray) -> bytes:
    """The file with a bit of one of these weights changed."""
    data = weights.tobytes()
    assert model.count(data) == 1
    at = model.index(data) + 7
    return model[:at] + bytes([model[at] ^ 0x40]) + model[at + 1 :]


def test_tensorflow_lite_micro_itself(tmp_path: Path) -> None:
    model = SMALL_MODELS["convolutions"]()
    graph = load_model(model)
    assert compare(tflm_points(model, tmp_path), small).match
    node = next(node for node in graph.nodes if node.op == "DEPTHWISE_CONV_2D")
    weights = graph.tensors[node.inputs[1]].data
    assert weights is not None
    found = compare(tflm_points(flipped(model, weights), tmp_path), small).diagnosis
    assert found is not None
    assert (found.tensor, found.kind) == (node.outputs[0], Difference.ONE_CHANNEL)
    # The operator's number in TFLM, which runs the padding that is a part of the convolution here.
    assert graph.nodes[found.layer] is node


@pytest.mark.full
def test_packed_functions_of_microtvm(tmp_path: Path) -> None:
    """Between calls of the operators with TVM's packed convention."""
    graph = network()
    library = hilc.compile(graph, name="net", api="packed", interface="packed", optimize="speed")
    path = "codegen/host/src/net_lib1.c"
    source = library.files[path].decode()
    wrong = source.replace(".stride_h = 2", ".stride_h = 1", 1).encode()
    assert wrong != library.files[path]
    for code, is_right in ((library.files[path], True), (wrong, False)):
        broken = replace(library, files={**library.files, path: code})
        with hilc.host.load(broken) as model:
            link = Link("tvm", line=Points(tmp_path, functools.partial(packed, model=model)))
            report = compare(link)
        assert report.match == is_right
    assert report.diagnosis is not None
    assert report.diagnosis.op == next(
        layer.op for layer in library.modules[0].layers if layer.name == report.diagnosis.name
    )


def faulty_points(folder: Path, inputs: Iterator[np.ndarray], faults: Iterator[bool]) -> Link:
    """The interpreter's layers, of which one has a wrong bit where there is a fault."""

    def inference(points: Points) -> None:
        x = next(inputs)
        values = {**interpreter.run_all(network(), {"x": x})}
        if next(faults):
            values["third"] = values["third"] ^ np.int8(1)
        points.begin("net")
        points.tensor(Tensors.INPUT, 0, 0, "x", x)
        for number, name in enumerate(("first", "second", "pooled", "third", "y")):
            points.tensor(Tensors.LAYER_OUTPUT, number, 0, name, values[name])
        points.end()

    return Link("points", line=Points(folder, inference))


def default_report(link: Link, samples: int | None = None) -> Report:
    oracle = Oracle(
        "hilc", "", lambda _, given: interpreter.run_all(network(), given), independent=False
    )
    (module,) = compiled(network).modules
    return verify_tapped(link, module, oracle, samples, wait_s=5.0)


def test_the_default_finds_a_fault_of_some_inferences(tmp_path: Path) -> None:
    """15 % of them; the user who asks for two is told what so few miss."""

    def inputs() -> Iterator[np.ndarray]:
        rng = np.random.default_rng(6)
        while True:
            yield rng.integers(-128, 128, (1, 8, 8, 3)).astype(np.int8)

    def faults() -> Iterator[bool]:
        rng = np.random.default_rng(2)
        while True:
            yield bool(rng.random() < 0.15)

    few = default_report(faulty_points(tmp_path, inputs(), faults()), 2)
    assert (few.match, few.samples) == (True, 2)
    assert (few.missed_fault_rate or 0) > 0.15
    report = default_report(faulty_points(tmp_path, inputs(), faults()))
    assert 10 <= report.samples <= 100
    assert not report.match
    assert report.verdict == "DIFFER from this compiler's own interpreter (not independent)"


def test_one_input_again_and_again(tmp_path: Path) -> None:
    x = np.ones((1, 8, 8, 3), np.int8)
    link = faulty_points(tmp_path, itertools.repeat(x), itertools.repeat(False))
    report = default_report(link, 12)
    assert (report.samples, report.independent_samples) == (12, 1)
    assert report.remarks[0].startswith("a fault of the code or the board in 95 % or more")
    assert "only 1 of the 12 samples differ from all others" in report.remarks[0]


def test_inputs_alone_are_no_match(tmp_path: Path) -> None:
    def inference(points: Points) -> None:
        points.begin("net")
        points.tensor(Tensors.INPUT, 0, 0, "x", np.zeros((1, 8, 8, 3), np.int8))
        points.end()

    with pytest.raises(InputError, match="but its inputs, so nothing was compared"):
        default_report(Link("points", line=Points(tmp_path, inference)), 3)


#: What later inferences tap: list, layer, index, and the values.
_Y, _LAYER = Tensors.OUTPUT, Tensors.LAYER_OUTPUT
_TAPS = {(_Y, 0, 0): "y", (_LAYER, 0, 0): "first"}


@cases(
    ("first", "later", "message"),
    [
        (_TAPS, {(_LAYER, 0, 0): "first"}, "inference 1 .* lacks output 0 .'y'."),
        (_TAPS, {(_Y, 0, 0): "y"}, "inference 1 .* lacks output 0 of layer 0 .'first'."),
        (_TAPS, {(_Y, 0, 1): "y", (_LAYER, 0, 0): "first"}, "lacks output 0"),
        (_TAPS, {**_TAPS, (_LAYER, 1, 0): "second"}, "taps output 0 of layer 1 .* as well"),
        ({(_LAYER, 0, 0): "first"}, _TAPS, "taps output 0 .* as well"),
        (_TAPS, {(_Y, 0, 0): "y", (_LAYER, 0, 0): "y"}, "output 0 of layer 0 is int8 in"),
        ({(_Y, 0, 0): "first"}, {}, "the firmware's output 0 is int8 in .* bytes, 'y' of"),
        ({(_Y, 0, 1): "y?"}, {}, "taps output 1 .*, and .* has 1: 'y'"),
        ({(_Y, 0, 0): "float"}, {}, "the firmware's output 0 is float32 in"),
    ],
first=2)  # fmt: skip
def test_every_inference_taps_the_same(
    first: dict[tuple[Tensors, int, int], str],
    later: dict[tuple[Tensors, int, int], str],
    message: str,
    tmp_path: Path,
) -> None:
    """What is left out, or is under another index, would not be compared."""
    x = np.zeros((1, 8, 8, 3), np.int8)
    values = dict(interpreter.run_all(network(), {"x": x}))
    values |= {"y?": values["y"], "float": np.zeros(values["y"].size // 4 or 1, np.float32)}
    runs = itertools.chain([first], itertools.repeat(later))

    def inference(points: Points) -> None:
        points.begin("net")
        points.tensor(Tensors.INPUT, 0, 0, "x", x)
        for (which, layer, index), name in next(runs).items():
            points.tensor(which, layer, index, "" if name == "float" else name, values[name])
        points.end()

    with pytest.raises(InputError, match=message) as caught:
        default_report(Link("points", line=Points(tmp_path, inference)), 3)
    assert caught.value.hint


def packed(points: Points, model: hilc.host.HostModel) -> None:
    (x,) = random_sample(model.inputs, 0, 0).values()
    model.set_input(0, x)
    points.begin("net")
    points.tensor(Tensors.INPUT, 0, 0, "", x)
    for number, (_, arrays) in enumerate(model.layer_outputs()):
        for index, array in enumerate(arrays):
            points.tensor(Tensors.LAYER_OUTPUT, number, index, "", array)
    points.tensor(Tensors.OUTPUT, 0, 0, "", model.get_output(0))
    points.end()


# -- the frames ----------------------------------------------------------------------------------


def test_frames_are_those_of_the_protocol(tmp_path: Path) -> None:
    """Bytes of the header's own coder, of all sizes and with zeros and without, for the host's."""
    sizes = [1, 2, 100, 221, 222, 223, 444, 1000]
    arrays = [np.arange(size, dtype=np.int64).astype(np.int8) for size in sizes]
    arrays += [np.full(size, 1, np.int8) for size in sizes] + [np.zeros(500, np.int8)]

    def inference(points: Points) -> None:
        points.begin("m")
        for number, array in enumerate(arrays):
            points.tensor(Tensors.LAYER_OUTPUT, number, 0, "n" * (number * 20), array)
        points.end()

    link = Link("points", line=Points(tmp_path, inference))
    (run,) = (run for frame in link.receive(1) if (run := READER.add(frame)))
    assert [tensor.data for tensor in run.tensors] == [array.tobytes() for array in arrays]
    assert link.bad_frames == 0


READER = TapReader()


def events(**changed: object) -> Iterator[bytes]:
    """An inference of one tensor, as frames; ``changed`` are fields of its description."""
    data = bytes(range(10))
    tensor = {
        "run": 1, "list": 2, "layer": 0, "index": 0, "dtype": 0, "nbytes": 10,
        "crc": 0x456CD746, "sent": 1, "name": b"t", **changed,
    }  # fmt: skip
    place = {"run": 1, "list": 2, "layer": 0, "index": 0}
    for event, fields in (
        (Event.TAP_BEGIN, {"run": 1, "name": b"m"}),
        (Event.TAP_TENSOR, tensor),
        (Event.TAP_DATA, {**place, "offset": 0, "data": data[:6]}),
        (Event.TAP_DATA, {**place, "offset": 6, "data": data[6:]}),
        (Event.TAP_END, {"run": 1, "tensors": 1}),
    ):
        payload = protocol.EVENTS[event].build(fields)
        yield encode(Frame(0, 0, Kind.EVENT, event, payload))


def read(frames: list[bytes]) -> list[TappedRun]:
    class Given:
        def read(self) -> bytes:
            return b"".join(frames)

        def write(self, data: bytes) -> None:
            """Nobody reads it."""

        def close(self) -> None:
            """There is nothing to close."""

    reader = TapReader()
    return [run for frame in Link("x", line=Given()).receive(0) if (run := reader.add(frame))]


def test_what_arrives_damaged_is_left_out() -> None:
    whole = list(events())
    (run,) = read(whole)
    assert run.tensors[0].data == bytes(range(10))
    # Without a frame, or with one twice.
    for missing, data in ((0, None), (1, None), (2, b""), (3, b""), (4, None)):
        runs = read(whole[:missing] + whole[missing + 1 :])
        assert [run.tensors[0].data for run in runs] == ([None] if data == b"" else [])
    (run,) = read([*whole[:3], whole[2], *whole[3:]])
    assert run.tensors[0].data == bytes(range(10))
    # A checksum of other bytes, and more bytes than were announced.
    for fields in ({"crc": 1}, {"nbytes": 7}, {"nbytes": 11}):
        (run,) = read(list(events(**fields)))
        assert run.tensors[0].data is None


@pytest.mark.parametrize(
    "fields", [{"dtype": 99}, {"list": 4}, {"nbytes": 0}, {"nbytes": 0xFFFFFFFF}]
)
def test_hostile_descriptions_are_no_tensors(fields: dict[str, int]) -> None:
    assert read(list(events(**fields))) == []


def test_names_are_printable() -> None:
    (run,) = read(list(events(name=b"a\x1b[31m\xff")))
    assert run.tensors[0].name == "a?[31m\ufffd"


def test_a_silent_firmware(tmp_path: Path) -> None:
    def nothing(points: Points) -> None:
        """Writes nothing."""

    with pytest.raises(LinkError, match=r"no inference was tapped at x within 0\.1 s"):
        compare(Link("x", line=Points(tmp_path, nothing)), wait_s=0.1)


def test_inputs_of_another_model(runtimes: dict[bool, Path]) -> None:
    def other() -> Graph:
        builder = GraphBuilder(1)
        return builder.graph(builder.relu(builder.input(1, 5)))

    with (
        started(runtimes[False]) as link,
        pytest.raises(InputError, match="input 0 is int8 in 192 bytes, 't0' of"),
    ):
        compare(link, other)


@pytest.mark.parametrize(
    "command",
    [
        ("gcc", "-std=c99"),
        ("g++", "-std=c++11"),
        ("arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb", "-std=c99"),
    ],
)
def test_the_header_compiles_alone(command: tuple[str, ...], tmp_path: Path) -> None:
    source = tmp_path / ("a.cc" if command[0] == "g++" else "a.c")
    source.write_text('#include "hil_tap.h"\n')
    flags = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-pedantic", f"-I{TAP}")
    subprocess.run(
        [*command, *flags, "-c", str(source), "-o", str(tmp_path / "a.o")], check=True, timeout=60
    )
