"""ONNX models in QDQ form: fused to operators on integers, equal to onnx.reference."""

from __future__ import annotations

import itertools
import lzma
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from answers import entry
from campaigns import cases, sampled
from models import model_path
from onnx import helper
from onnx.reference import ReferenceEvaluator
from qdq_models import QdqBuilder, network
from quantized_files import fused_file
from quantized_twins import qdq_twin

import hilc
from hil.cli import main
from hilc import host, interpreter
from hilc.errors import UnsupportedError
from hilc.frontends import load_model
from hilc.ir import Array, Graph
from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall
from hilc.ops import OPS
from hilc.target import Cpu, get_cpu
from hilc.transforms import run_passes
from hilc.transforms.fuse_quantized import FusedGraph, require_integers

TESTS = Path(__file__).resolve().parents[1]


def fused(model: onnx.ModelProto) -> FusedGraph:
    found = fused_file(model.SerializeToString(), "net")
    return replace(found, graph=run_passes(found.graph))


def random_input(rng: np.random.Generator, model: onnx.ModelProto) -> dict[str, Array]:
    (value,) = model.graph.input
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if dtype == np.float32:
        return {value.name: rng.normal(0, 1, shape).astype(np.float32)}
    info = np.iinfo(dtype)
    return {value.name: rng.integers(info.min, info.max, shape, dtype, endpoint=True)}


def differing(model: onnx.ModelProto, graph: Graph, inputs: dict[str, Array]) -> int:
    """How many outputs are other than those of onnx.reference."""
    wanted = ReferenceEvaluator(model).run(None, inputs)
    got = interpreter.run(graph, inputs)
    return sum(
        int((got[name].reshape(-1) != want.reshape(-1)).sum())
        for name, want in zip(graph.outputs, wanted, strict=True)
    )


@cases("dtype", ["int8", "uint8"], first=1)
def test_an_integer_network_equals_the_float_reference(dtype):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = network(rng, dtype)
        fusion = fused(model)
        graph = fusion.graph
        assert not fusion.float_layers
        assert not any(t.dtype == "float32" for t in graph.tensors.values())
        # Two parts of a concatenation, and uint8 at both borders.
        borders = 2 * (dtype == "uint8")
        assert [node.op for node in graph.nodes].count("QUANTIZE") == 2 + borders
        # Of channels first, only what the model is given.
        assert [node.op for node in graph.nodes].count("TRANSPOSE") == 1
        assert differing(model, graph, random_input(rng, model)) == 0


@pytest.mark.full
@pytest.mark.parametrize("dtype", sampled(["int16", "uint16"], keep=["uint16"]))
def test_a_16_bit_network_is_within_a_step(dtype):
    """Float sums have 24 bits: beside a tie of 16 bits the reference is not exact."""
    off = total = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        model = network(rng, dtype)
        fusion = fused(model)
        graph = fusion.graph
        assert not fusion.float_layers
        assert not any(t.dtype == "float32" for t in graph.tensors.values())
        # What the model takes and gives stays unsigned.
        assert sum(t.dtype == "uint16" for t in graph.tensors.values()) == 3 * (dtype == "uint16")
        inputs = random_input(rng, model)
        got = interpreter.run(graph, inputs)
        wanted = ReferenceEvaluator(model).run(None, inputs)
        for name, want in zip(graph.outputs, wanted, strict=True):
            distance = np.abs(got[name].astype(int) - want)
            assert distance.max() <= 1
            off, total = off + int((distance > 0).sum()), total + distance.size
        with host.load(hilc.compile(model.SerializeToString(), name="net")) as compiled:
            for name, value in inputs.items():
                compiled.set_input(name, value)
            compiled.run()
            for i, name in enumerate(graph.outputs):
                np.testing.assert_array_equal(compiled.get_output(i), got[name])
    assert off * 20 < total


@pytest.mark.parametrize(("before", "behind"), [("int8", "int16"), ("int16", "int8")])
def test_types_of_activations_may_differ(before, behind):
    """The wider one computes; nothing is rounded but once."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        b = QdqBuilder(rng, before)
        finer = b.finer
        x = b.input((1, 4, 6, 5), 0.0213, 3)
        y = b.linear("Conv", x, 0.0213, (6, 4, 3, 3), pads=[1, 1, 1, 1])
        z = b.node("Sigmoid", x)
        s = b.node("Add", x, x)
        b.dtype, b.finer = behind, 256 // finer
        outs = [b.quantize(y, 0.0371, -5), b.quantize(z, 1 / 256, -128), b.quantize(s, 0.047)]
        model = b.model(*outs)
        fusion = fused(model)
        graph = fusion.graph
        assert not fusion.float_layers
        inputs = random_input(rng, model)
        got = interpreter.run(graph, inputs)
        for name, want in zip(
            graph.outputs, ReferenceEvaluator(model).run(None, inputs), strict=True
        ):
            distance = np.abs(got[name].astype(int) - want)
            assert distance.max() <= (behind == "int16")
            assert (distance > 0).sum() * 50 <= distance.size


@pytest.mark.parametrize("weights", ["int4", "int16"])
def test_weights_of_other_types(weights):
    """int4 beside int8 and int16 activations; int16 with int16, whose sums have 64 bits."""
    low, high = (-8, 8) if weights == "int4" else (-32768, 32768)
    for seed, dtype in enumerate(("int16", "int8") if weights == "int4" else ("int16",)):
        rng = np.random.default_rng(seed)
        b = QdqBuilder(rng, dtype)
        x_scale = 0.0213
        x = b.input((1, 40), x_scale, 3)
        code = getattr(onnx.TensorProto, weights.upper())
        values = rng.integers(low, high, (40, 6))
        b.constants.append(onnx.helper.make_tensor("w", code, (40, 6), values.reshape(-1)))
        scales = rng.uniform(0.02, 0.06, 6).astype(np.float32) / np.float32(high / 8)
        operands = ("w", b.constant(scales))
        y = b.node("MatMul", x, b.node("DequantizeLinear", *operands, axis=1))
        model = b.model(b.quantize(y, 0.031, 2))
        graph = fused(model).graph
        assert [node.op for node in graph.nodes] == ["FULLY_CONNECTED"]
        inputs = random_input(rng, model)
        (got,) = interpreter.run(graph, inputs).values()
        (want,) = ReferenceEvaluator(model).run(None, inputs)
        assert np.abs(got.astype(int) - want).max() <= (dtype == "int16")
        with host.load(hilc.compile(model.SerializeToString(), name="net")) as compiled:
            (value,) = inputs.values()
            compiled.set_input(0, value)
            compiled.run()
            np.testing.assert_array_equal(compiled.get_output(0), got)


def test_biases_of_the_sums_scale_lose_nothing():
    biases = fused(network(np.random.default_rng(1))).rounded_biases
    assert len(biases) == 4
    assert max(bias.largest_effect for bias in biases) < 1e-5


def test_float_only_layers_are_refused_or_allowed():
    b = QdqBuilder(np.random.default_rng(2))
    x = b.input((1, 4, 4, 4), 0.0213)
    y = b.node("LpNormalization", x, axis=1)
    layers = fused(b.model(b.quantize(b.node("Relu", y), 0.01))).float_layers
    assert layers
    with pytest.raises(
        UnsupportedError, match=r"2 layers of the quantized model compute in floats"
    ):
        require_integers(layers, allow_float=False)
    require_integers(layers, allow_float=True)


def test_a_refusal_names_the_operators_of_the_file():
    """Not only the layers that they become, nor these one by one."""
    b = QdqBuilder(np.random.default_rng(2))
    x = b.input((1, 2, 4, 4), 0.0213)
    y = b.qdq(b.node("LRN", x, size=3, name="local"), 0.03)
    one = b.model(b.quantize(b.node("Relu", y), 0.03)).SerializeToString()
    with pytest.raises(UnsupportedError) as refusal:
        hilc.compile(one)
    fact = refusal.value.fact
    assert fact.startswith("1 layer of the quantized model computes in floats: node ")
    assert fact.endswith(
        " (LRN 'local') with the output 'lrn5' (it has no integer form on these operands)"
    )
    two = b.model(b.quantize(b.node("LpNormalization", y, axis=1), 0.03)).SerializeToString()
    with pytest.raises(UnsupportedError, match=r"^2 layers .*\(LRN 'local'\).*; .*LpNorm"):
        hilc.compile(two)


def test_the_graph_of_a_quantized_file_is_refused():
    """It has float weights alone."""
    data = network(np.random.default_rng(0)).SerializeToString()
    with pytest.raises(UnsupportedError, match="weights .* not quantized") as refusal:
        hilc.compile(load_model(data), cpu="host")
    assert "the path or the bytes of the model file" in refusal.value.hint
    assert hilc.compile(data, cpu="host").modules[0].float_layers == ()


@pytest.mark.parametrize("taps", [2, 3])
def test_transposed_convolutions_are_on_integers(taps: int) -> None:
    """Their weights have the outputs along the second axis."""
    rng = np.random.default_rng(11)
    b = QdqBuilder(rng)
    x = b.input((1, 4, 5, 6), 0.0213, 3)
    scales = rng.uniform(0.002, 0.006, 3).astype(np.float32)
    weights = b.node(
        "DequantizeLinear",
        b.constant(rng.integers(-127, 128, (4, 3, taps, taps)).astype(np.int8)),
        b.constant(scales),
        b.constant(np.zeros(3, np.int8)),
        axis=1,
    )
    bias = b.constant(rng.integers(-3000, 3000, 3).astype(np.int32))
    units = b.constant(scales * np.float32(0.0213))
    operands = (weights, b.node("DequantizeLinear", bias, units, axis=0))
    y = b.node("ConvTranspose", x, *operands, strides=[2, 2], pads=[0, 1, 0, 0])
    model = b.model(b.quantize(b.node("Relu", y), 0.0271, -128))
    fusion = fused(model)
    graph = fusion.graph
    assert not fusion.float_layers
    assert "TRANSPOSE_CONV" in [node.op for node in graph.nodes]
    for _ in range(4):
        assert differing(model, graph, random_input(rng, model)) == 0


def test_moved_integers_take_another_scale():
    """As parts of a tensor do that PT2E observes each for itself."""
    b = QdqBuilder(np.random.default_rng(5))
    x = b.input((1, 2, 6), 0.0213, 3)
    y = b.node("Reshape", x, b.constant(np.array((1, 12))))
    z = b.qdq(y, 0.0171, -5)
    model = b.model(b.quantize(b.node("Add", y, z), 0.031))
    fusion = fused(model)
    graph = fusion.graph
    assert not fusion.float_layers
    assert differing(model, graph, random_input(np.random.default_rng(6), model)) == 0


def test_the_library_gives_the_same_bytes():
    rng = np.random.default_rng(9)
    model = network(rng)
    with host.load(hilc.compile(model.SerializeToString(), name="net")) as compiled:
        for _ in range(4):
            inputs = random_input(rng, model)
            (wanted,) = ReferenceEvaluator(model).run(None, inputs)
            for name, value in inputs.items():
                compiled.set_input(name, value)
            compiled.run()
            np.testing.assert_array_equal(compiled.get_output(0), wanted)


def test_the_command_line_lists_what_is_left_in_floats(tmp_path, capsys):
    b = QdqBuilder(np.random.default_rng(2))
    x = b.input((1, 4, 4, 4), 0.0213)
    y = b.qdq(b.linear("Conv", x, 0.0213, (4, 4, 1, 1)), 0.0371)
    path = tmp_path / "mixed.onnx"
    onnx.save(b.model(b.quantize(b.node("LpNormalization", y, axis=1), 0.0113)), path)
    command = ["compile", str(path), "-o", str(tmp_path / "net.tar")]
    assert main(command) == 2
    refusal = capsys.readouterr().err
    assert "of the quantized model compute" in refusal
    assert "--allow-float" in refusal
    assert main([*command, "--allow-float"]) == 0
    told, warned = capsys.readouterr()
    assert "no effect" not in warned
    assert "net.tar" in told
    assert "mixed: computed in floats:" in told
    assert "mixed: biases of 1 layer were" in told
    assert main([*command, "--allow-float", "--force", "--json"]) == 0
    module = entry(capsys.readouterr().out)
    assert {layer["op"] for layer in module["float_layers"]}
    assert module["rounded_biases"][0]["largest_effect"] < 1e-4


def test_verify_compares_with_the_named_arithmetic(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    onnx.save(network(np.random.default_rng(4)), path)
    for reference in ((), ("--reference", "onnx"), ("--reference", "qdq")):
        command = ["verify", str(path), "--board", "native", "--samples", "3", "--json"]
        assert main([*command, *reference]) == 0
        report = entry(capsys.readouterr().out)
        assert report["match"]
        assert report["reference"].startswith("onnx" if "onnx" in reference else "qdq")


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
def test_one_network_through_three_front_ends(cpu):
    first = run_passes(load_model(model_path("kws")))
    second = fused(qdq_twin(load_model(model_path("kws")))).graph
    # Made by tools/pt2_twins.py; its biases are floats.
    fusion = fused_file(lzma.decompress((TESTS / "kws.pt2.xz").read_bytes()), "kws")
    third = run_passes(fusion.graph)
    assert max(bias.largest_effect for bias in fusion.rounded_biases) < 1e-5
    for given, wanted in zip(constants(third), constants(second), strict=True):
        np.testing.assert_array_equal(given, wanted)
    calls = [fastest(graph, get_cpu(cpu)) for graph in (first, second, third)]
    kernels = [[call.kernel.name for call in each] for each in calls]
    assert kernels[1] == kernels[2]
    for here, there in zip(kernels[0], kernels[1], strict=True):
        # Averages and softmax have an arithmetic of their own.
        assert here == there or "softmax" in here or "pool" in here
    counts = [sum(call.instructions(get_cpu(cpu)) for call in each) for each in calls]
    assert max(counts) <= 1.03 * counts[0]


def fastest(graph: Graph, cpu: Cpu) -> list[KernelCall]:
    """The first call of each node that is not the input's bytes in another shape."""
    nodes = [node for node in graph.nodes if not OPS[node.op].view]
    found = [candidates(node, graph.ins(node), graph.outs(node), cpu)[0] for node in nodes]
    return [call for call in found if isinstance(call, KernelCall)]


def constants(graph: Graph) -> list[Array]:
    """The weights and biases in the order in which nodes read them."""
    tensors = [t for node in graph.nodes for t in graph.ins(node) if t is not None]
    return [t.data for t in tensors if t.data is not None and t.size > 4]


@pytest.mark.parametrize("value", [0.0, 0.7, -9.0])
def test_padding_moves_integers(value):
    b = QdqBuilder(np.random.default_rng(3))
    x = b.input((1, 3, 6, 5), 0.0213, 4)
    pads = b.constant(np.array([0, 0, 0, 1, 0, 0, 1, 2], np.int64))
    y = b.node("Pad", x, pads, b.constant(np.array(value, np.float32)))
    if value == 0:
        y = b.linear("Conv", y, 0.0213, (4, 3, 3, 3), strides=[2, 2])
    model = b.model(b.quantize(y, 0.0371, -5))
    fusion = fused(model)
    graph = fusion.graph
    assert not fusion.float_layers
    # A convolution takes zeros around its image as its own padding.
    assert [n.op for n in graph.nodes if "PAD" in n.op] == ([] if value == 0 else ["PADV2"])
    assert differing(model, graph, random_input(np.random.default_rng(4), model)) == 0


def test_resized_integers_keep_their_scale():
    """As in the form QOperator, where Resize takes the integers themselves."""
    b = QdqBuilder(np.random.default_rng(8))
    x = b.quantize(b.node("Relu", b.input((1, 2, 4, 3), 0.0213, 3)), 0.0371, -20)
    sizes = b.constant(np.array([1, 2, 6, 9], np.int64))
    x = b.node("Resize", x, "", "", sizes, mode="nearest")
    y = b.node("Sigmoid", b.dequantize(x, 0.0371, -20))
    model = b.model(b.quantize(y, 1 / 256, -128))
    fusion = fused(model)
    graph = fusion.graph
    assert not fusion.float_layers
    assert differing(model, graph, random_input(np.random.default_rng(9), model)) == 0


def place(at: int, size: int, count: int, mode: str) -> Fraction:
    """Where an output lies among the inputs."""
    if mode == "align_corners":
        return Fraction(at * (size - 1), count - 1)
    if mode == "asymmetric":
        return Fraction(at * size, count)
    return Fraction((2 * at + 1) * size - count, 2 * count)


@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("size", [(8, 10), (5, 7), (3, 2)])
def test_resized_images_are_exact(mode: str, size: tuple[int, int]) -> None:
    """Four pixels by whole parts of the way, one rounding: by fractions.

    A tie goes to even where the factor is exact.
    """
    scale, out_scale = Fraction(3, 128), Fraction(1, 32)
    b = QdqBuilder(np.random.default_rng(8))
    x = b.input((1, 2, 4, 5), float(scale), 3)
    sizes = b.constant(np.array([1, 2, *size], np.int64))
    y = b.node("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode=mode)
    model = b.model(b.quantize(y, float(out_scale), -20))
    fusion = fused(model)
    graph = fusion.graph
    assert not fusion.float_layers
    assert "RESIZE_BILINEAR" in {node.op for node in graph.nodes}
    ((name, pixels),) = random_input(np.random.default_rng(9), model).items()
    got = interpreter.run(graph, {name: pixels})[graph.outputs[0]]

    def pixel(channel: int, row: Fraction, column: Fraction) -> Fraction:
        total = Fraction(0)
        for i, j in itertools.product(range(4), range(5)):
            near, beside = (max(Fraction(0), 1 - abs(d)) for d in (row - i, column - j))
            total += near * beside * (int(pixels[0, channel, i, j]) - 3)
        return total

    for channel, i, j in itertools.product(range(2), range(size[0]), range(size[1])):
        row, column = (
            min(max(place(at, n, count, mode), Fraction(0)), Fraction(n - 1))
            for at, n, count in ((i, 4, size[0]), (j, 5, size[1]))
        )
        wanted = pixel(channel, row, column) * scale / out_scale - 20
        found = int(got[0, channel, i, j])
        assert abs(found - min(max(wanted, Fraction(-128)), Fraction(127))) <= Fraction(1, 2)
        if size == (8, 10) and mode != "align_corners":
            assert found == max(-128, min(127, round(wanted)))
    if size == (5, 7):
        with host.load(hilc.compile(model.SerializeToString())) as library:
            library.set_input(name, pixels)
            library.run()
            np.testing.assert_array_equal(library.get_output(0), got)


@cases(("dtype", "zero"), [("int16", 0), ("uint16", 32768), ("uint16", 7)], first=1)
def test_images_of_16_bits_are_resized_in_floats(dtype: str, zero: int) -> None:
    """No kernel adds up pixels of 16 bits with one rounding; that of int8 took them for bytes."""
    scale = np.float32(4.4e-5)
    constants = {
        "s": scale, "z": np.array(zero, dtype), "sc": np.array([1, 1, 2, 2], np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Resize", ["d", "", "sc"], ["r"], mode="linear"),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q2"]),
        helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, 3, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2, 6, 8])],
        [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    with pytest.raises(UnsupportedError, match=r"\(Resize\) with the output 'r'"):
        hilc.compile(data, name="net")
    x = np.random.default_rng(zero).uniform(-1.4, 1.4, (1, 2, 3, 4)).astype(np.float32)
    (expected,) = ReferenceEvaluator(onnx.load_from_string(data)).run(None, {"x": x})
    with host.load(hilc.compile(data, name="net", allow_float=True)) as loaded:
        loaded.set_input("x", x)
        loaded.run()
        # onnx.reference interpolates in double precision: a tie may fall to the other side.
        assert np.abs(loaded.get_output("y") - expected).max() <= 1.01 * scale


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_close_integers_keep_their_order(dtype: str) -> None:
    """With a scale by which TFLite's comparison of int8 takes neighbours for equal."""
    b = QdqBuilder(np.random.default_rng(4), dtype)
    x = b.input((2, 64), 1e-4, 3)
    backwards = [b.constant(np.array([value])) for value in (-1, -99, 1, -1)]
    other = b.node("Slice", x, *backwards)
    outputs = [b.node(op, x, other) for op in ("Less", "Equal", "GreaterOrEqual")]
    outputs += [b.node("ArgMin", x, axis=1), b.node("ArgMax", x, axis=0)]
    model = b.model(*outputs)
    graph = fused(model).graph
    assert not any(t.dtype == "float32" for t in graph.tensors.values())
    inputs = random_input(np.random.default_rng(5), model)
    (given,) = inputs.values()
    given[:, 1::2] = given[:, ::2] + (given[:, ::2] < 0)  # neighbours
    assert differing(model, graph, inputs) == 0
    with host.load(hilc.compile(model.SerializeToString())) as compiled:
        compiled.set_input(0, given)
        compiled.run()
        got = interpreter.run(graph, inputs)
        for index, name in enumerate(graph.outputs):
            np.testing.assert_array_equal(compiled.get_output(index), got[name])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_running_sums_are_rounded_once(dtype: str) -> None:
    b = QdqBuilder(np.random.default_rng(6), dtype)
    x = b.input((2, 50, 3), 0.0213, 3)
    y = b.node("CumSum", x, b.constant(np.array(1)), reverse=1)
    model = b.model(b.quantize(y, 0.137, -5))
    graph = fused(model).graph
    assert [node.op for node in graph.nodes if node.op != "QUANTIZE"] == ["CUMSUM"]
    inputs = random_input(np.random.default_rng(7), model)
    assert differing(model, graph, inputs) <= (2 if b.finer > 1 else 0)  # float sums


def test_images_are_resampled_with_one_rounding() -> None:
    """Weights in 2^-16 change a result by a hundredth of a step at most."""
    for seed, mode in itertools.product(range(3), ("linear", "cubic")):
        b = QdqBuilder(np.random.default_rng(seed))
        x = b.input((1, 3, 9, 7), 0.0213, 3)
        scales = b.constant(np.array([1, 1, 1.2, 1.7], np.float32))
        model = b.model(b.quantize(b.node("Resize", x, "", scales, mode=mode), 0.0191, -5))
        graph = fused(model).graph
        assert "RESAMPLE" in [node.op for node in graph.nodes]
        assert not any(t.dtype == "float32" and not t.is_constant for t in graph.tensors.values())
        inputs = random_input(np.random.default_rng(seed), model)
        (wanted,) = ReferenceEvaluator(model).run(None, inputs)
        got = interpreter.run(graph, inputs)[graph.outputs[0]].astype(int)
        assert np.abs(got - wanted).max() <= 1
        assert (got != wanted).mean() < 0.02
