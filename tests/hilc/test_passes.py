"""Passes: what each one removes, what it must leave alone; and results stay, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nodes import make_node

from hilc.interpreter import run
from hilc.ir import Array, Graph, Node, Quant, Tensor
from hilc.ops.attributes import ActivationAttributes, WindowAttributes
from hilc.ops.verify import verify
from hilc.transforms import PASSES, run_passes
from hilc.transforms.drop_identities import drop_identities
from hilc.transforms.fold_constants import fold_constants
from hilc.transforms.fold_pad import fold_pad
from hilc.transforms.fuse_activation import fuse_activation
from hilc.transforms.remove_dead import remove_dead


class _Builder:
    """A graph that grows by one operator at a time, int8 or float32."""

    def __init__(self, dtype: str, shape: tuple[int, ...], seed: int = 0) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.add("x", shape, Quant((0.5,), (3,)))

    def add(
        self, name: str, shape: tuple[int, ...], quant: Quant, data: Array | None = None
    ) -> str:
        self.tensors[name] = Tensor(
            name, shape, self.dtype, quant if self.dtype == "int8" else None, data
        )
        return name

    def integers(self, values: Any) -> str:
        name = f"i{len(self.tensors)}"
        data = np.array(values, np.int32)
        self.tensors[name] = Tensor(name, data.shape, "int32", data=data)
        return name

    def constant(self, shape: tuple[int, ...], quant: Quant) -> str:
        if self.dtype == "int8":
            data: Array = self.rng.integers(-127, 128, shape).astype(np.int8)
        else:
            data = self.rng.standard_normal(shape).astype(np.float32)
        return self.add(f"c{len(self.tensors)}", shape, quant, data)

    def op(
        self,
        code: str,
        inputs: tuple[str, ...],
        shape: tuple[int, ...],
        quant: Quant | None = None,
        **attrs: Any,
    ) -> str:
        """Append an operator; its output has the quantization of the first input by default."""
        source = self.tensors[inputs[0]].quant
        name = self.add(f"t{len(self.tensors)}", shape, quant or source or Quant((1.0,), (0,)))
        self.nodes.append(make_node(code, inputs, (name,), len(self.nodes), **attrs))
        return name

    def conv(self, x: str, channels: int, padding: str = "VALID", stride: int = 1) -> str:
        n, h, w, c = self.tensors[x].shape
        weights = self.constant((channels, 3, 3, c), Quant((0.01,) * channels, (0,) * channels))
        out_h, out_w = (
            -(-side // stride) if padding == "SAME" else (side - 3) // stride + 1 for side in (h, w)
        )
        return self.op(
            "CONV_2D",
            (x, weights, ""),
            (n, out_h, out_w, channels),
            Quant((0.7,), (-5,)),
            stride_h=stride,
            stride_w=stride,
            dilation_h=1,
            dilation_w=1,
            padding=padding,
            activation="NONE",
        )

    def pad(self, x: str, amounts: tuple[tuple[int, int], ...]) -> str:
        shape = tuple(s + sum(a) for s, a in zip(self.tensors[x].shape, amounts, strict=True))
        return self.op("PAD", (x, self.integers(amounts)), shape)

    def graph(self, *outputs: str) -> Graph:
        graph = Graph("m", self.tensors, tuple(self.nodes), ("x",), outputs)
        verify(graph)
        return graph


def _codes(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def _assert_same(before: Graph, after: Graph, seed: int = 0) -> None:
    verify(after)
    assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
    rng = np.random.default_rng(seed)
    x = before.tensors["x"]
    values = rng.integers(-128, 128, x.shape)
    inputs = {"x": values.astype(x.dtype) if x.dtype == "int8" else (values / 9).astype(x.dtype)}
    expected, computed = run(before, inputs), run(after, inputs)
    for name in before.outputs:
        np.testing.assert_array_equal(computed[name], expected[name])


def _check(transform: Callable[[Graph], Graph], graph: Graph, codes: list[str]) -> Graph:
    after = transform(graph)
    _assert_same(graph, after)
    assert _codes(after) == codes
    return after


BOTH = pytest.mark.parametrize("dtype", ["int8", "float32"])
_SPATIAL = ((0, 0), (1, 2), (0, 3), (0, 0))


class TestFoldPad:
    @BOTH
    @pytest.mark.parametrize("padding", ["VALID", "SAME"])
    @pytest.mark.parametrize("stride", [1, 2])
    def test_into_convolution(self, dtype: str, padding: str, stride: int) -> None:
        b = _Builder(dtype, (1, 6, 5, 2))
        y = b.conv(b.pad("x", _SPATIAL), 3, padding, stride)
        after = _check(fold_pad, b.graph(y), ["CONV_2D"])
        assert after.nodes[0].inputs[0] == "x"
        if padding == "VALID":
            # What VALID leaves unread at the end is not padded.
            assert WindowAttributes.of(after.nodes[0]).padding[::2] == (1, 0)

    @BOTH
    def test_into_depthwise_convolution(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 6, 5, 2))
        weights = b.constant((1, 3, 3, 4), Quant((0.01,) * 4, (0,) * 4, 3))
        padded = b.pad("x", _SPATIAL)
        y = b.op(
            "DEPTHWISE_CONV_2D",
            (padded, weights, ""),
            (1, 4, 6, 4),
            stride_h=2,
            stride_w=1,
            dilation_h=1,
            dilation_w=1,
            padding="VALID",
            depth_multiplier=2,
            activation="NONE",
        )
        _check(fold_pad, b.graph(y), ["DEPTHWISE_CONV_2D"])

    @BOTH
    def test_stays_when_it_adds_more_than_a_window_may(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 3, 3, 1))
        wide = ((0, 0), (0, 1022), (0, 1021), (0, 0))
        narrow = ((0, 0), (0, 1021), (0, 1021), (0, 0))
        outputs = [b.conv(b.pad("x", amounts), 1, stride=512) for amounts in (wide, narrow)]
        _check(fold_pad, b.graph(*outputs), ["PAD", "CONV_2D", "CONV_2D"])

    @BOTH
    def test_into_all_readers(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 6, 5, 2))
        padded = b.pad("x", _SPATIAL)
        graph = b.graph(b.conv(padded, 1), b.conv(padded, 2))
        _check(fold_pad, graph, ["CONV_2D", "CONV_2D"])

    @BOTH
    @pytest.mark.parametrize("axis", [1, 2])
    def test_behind_a_view_of_a_sequence(self, dtype: str, axis: int) -> None:
        b = _Builder(dtype, (2, 9, 3))
        padded = b.pad("x", ((0, 0), (4, 1), (0, 0)))
        shape = (2, 1, 14, 3) if axis == 1 else (2, 14, 1, 3)
        image = b.op("RESHAPE", (padded,), shape, new_shape=shape)
        weights = b.constant((5, 1, 1, 3), Quant((0.01,) * 5, (0,) * 5))
        y = b.op(
            "CONV_2D",
            (image, weights, ""),
            (*shape[:3], 5),
            Quant((0.7,), (-5,)),
            stride_h=1,
            stride_w=1,
            dilation_h=1,
            dilation_w=1,
            padding="VALID",
            activation="NONE",
        )
        _check(fold_pad, b.graph(y), ["RESHAPE", "CONV_2D"])

    @BOTH
    def test_stays_before_a_view_of_other_axes(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 8, 3))
        padded = b.pad("x", ((0, 0), (4, 0), (0, 0)))
        image = b.op("RESHAPE", (padded,), (1, 4, 3, 3), new_shape=(1, 4, 3, 3))
        _check(fold_pad, b.graph(b.conv(image, 2)), ["PAD", "RESHAPE", "CONV_2D"])

    @BOTH
    def test_stays_for_another_reader(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 6, 5, 2))
        padded = b.pad("x", _SPATIAL)
        relu = b.op("RELU", (padded,), b.tensors[padded].shape)
        _check(fold_pad, b.graph(b.conv(padded, 1), relu), ["PAD", "RELU", "CONV_2D"])

    @BOTH
    def test_stays_when_it_is_an_output(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 6, 5, 2))
        padded = b.pad("x", _SPATIAL)
        _check(fold_pad, b.graph(padded, b.conv(padded, 1)), ["PAD", "CONV_2D"])

    @BOTH
    @pytest.mark.parametrize(
        "amounts", [((0, 0), (1, 1), (1, 1), (0, 1)), ((1, 0), (1, 1), (1, 1), (0, 0))]
    )
    def test_stays_when_it_pads_channels_or_batch(self, dtype: str, amounts: Any) -> None:
        b = _Builder(dtype, (1, 6, 5, 2))
        _check(fold_pad, b.graph(b.conv(b.pad("x", amounts), 1)), ["PAD", "CONV_2D"])


class TestFuseActivation:
    @BOTH
    @pytest.mark.parametrize("code", ["RELU", "RELU6"])
    def test_into_convolution(self, dtype: str, code: str) -> None:
        b = _Builder(dtype, (1, 6, 5, 2))
        c = b.conv("x", 3)
        y = b.op(code, (c,), b.tensors[c].shape)
        after = _check(fuse_activation, b.graph(y), ["CONV_2D"])
        assert ActivationAttributes.of(after.nodes[0]).activation == code
        assert after.nodes[0].outputs == (y,)

    @BOTH
    @pytest.mark.parametrize("code", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
    def test_into_pooling(self, dtype: str, code: str) -> None:
        b = _Builder(dtype, (1, 6, 5, 2))
        pooled = b.op(
            code, ("x",), (1, 5, 4, 2),
            filter_h=2, filter_w=2, stride_h=1, stride_w=1, padding="VALID",
        )  # fmt: skip
        _check(fuse_activation, b.graph(b.op("RELU6", (pooled,), (1, 5, 4, 2))), [code])

    @BOTH
    @pytest.mark.parametrize("code", ["ADD", "SUB", "MUL"])
    def test_into_sum_and_product(self, dtype: str, code: str) -> None:
        b = _Builder(dtype, (1, 8))
        s = b.op(code, ("x", "x"), (1, 8), Quant((0.25,), (-9,)), activation="NONE")
        _check(fuse_activation, b.graph(b.op("RELU6", (s,), (1, 8))), [code])

    @BOTH
    def test_into_fully_connected(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 8))
        w = b.constant((4, 8), Quant((0.02,), (0,)))
        y = b.op("FULLY_CONNECTED", ("x", w, ""), (1, 4), activation="NONE", keep_num_dims=False)
        _check(fuse_activation, b.graph(b.op("RELU", (y,), (1, 4))), ["FULLY_CONNECTED"])

    @BOTH
    def test_producer_moves_behind_what_ran_between(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 8))
        s = b.op("ADD", ("x", "x"), (1, 8), activation="NONE")
        other = b.op("MUL", ("x", "x"), (1, 8), activation="NONE")
        r = b.op("RELU", (s,), (1, 8))
        y = b.op("SUB", (r, other), (1, 8), activation="NONE")
        _check(fuse_activation, b.graph(y), ["MUL", "ADD", "SUB"])

    @BOTH
    def test_stays_when_another_reads_the_unclamped_value(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 8))
        s = b.op("ADD", ("x", "x"), (1, 8), activation="NONE")
        r = b.op("RELU", (s,), (1, 8))
        y = b.op("SUB", (r, s), (1, 8), activation="NONE")
        _check(fuse_activation, b.graph(y), ["ADD", "RELU", "SUB"])

    @BOTH
    def test_stays_when_the_unclamped_value_is_an_output(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 8))
        s = b.op("ADD", ("x", "x"), (1, 8), activation="NONE")
        _check(fuse_activation, b.graph(s, b.op("RELU", (s,), (1, 8))), ["ADD", "RELU"])

    @BOTH
    def test_stays_behind_a_fused_one(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 8))
        s = b.op("ADD", ("x", "x"), (1, 8), activation="RELU_N1_TO_1")
        _check(fuse_activation, b.graph(b.op("RELU", (s,), (1, 8))), ["ADD", "RELU"])

    def test_stays_when_it_requantizes(self) -> None:
        b = _Builder("int8", (1, 8))
        s = b.op("ADD", ("x", "x"), (1, 8), activation="NONE")
        y = b.op("RELU", (s,), (1, 8), Quant((0.25,), (-128,)))
        _check(fuse_activation, b.graph(y), ["ADD", "RELU"])


class TestDropIdentities:
    @BOTH
    def test_what_changes_nothing(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 4, 2))
        t = b.op("RESHAPE", ("x", b.integers([1, 4, 2])), (1, 4, 2), new_shape=None)
        t = b.op("TRANSPOSE", (t, b.integers([0, 1, 2])), (1, 4, 2))
        t = b.op("CONCATENATION", (t,), (1, 4, 2), axis=1, activation="NONE")
        t = b.pad(t, ((0, 0), (0, 0), (0, 0)))
        y = b.op("RELU", (t,), (1, 4, 2))
        after = _check(drop_identities, b.graph(y), ["RELU"])
        assert after.nodes[0].inputs == ("x",)

    def test_quantize_to_the_same(self) -> None:
        b = _Builder("int8", (1, 4))
        y = b.op("RELU", (b.op("QUANTIZE", ("x",), (1, 4)),), (1, 4))
        _check(drop_identities, b.graph(y), ["RELU"])

    def test_quantize_to_another_scale_stays(self) -> None:
        b = _Builder("int8", (1, 4))
        y = b.op("RELU", (b.op("QUANTIZE", ("x",), (1, 4), Quant((0.3,), (3,))),), (1, 4))
        _check(drop_identities, b.graph(y), ["QUANTIZE", "RELU"])

    @BOTH
    def test_square_transpose_stays(self, dtype: str) -> None:
        b = _Builder(dtype, (3, 3))
        y = b.op("RELU", (b.op("TRANSPOSE", ("x", b.integers([1, 0])), (3, 3)),), (3, 3))
        _check(drop_identities, b.graph(y), ["TRANSPOSE", "RELU"])

    @BOTH
    def test_the_last_of_consecutive_shapes_stays(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 1, 4))
        t = b.op("RESHAPE", ("x", b.integers([2, 2])), (2, 2), new_shape=None)
        t = b.op("RESHAPE", (t, b.integers([1, 4])), (1, 4), new_shape=None)
        same = b.op("RESHAPE", (t, b.integers([1, 1, 4])), (1, 1, 4), new_shape=None)
        # Which sides it removes depends on the shape before it.
        squeezed = b.op("SQUEEZE", (t,), (4,), squeeze_dims=(0,))
        y = b.op("CONCATENATION", (squeezed, squeezed), (8,), axis=0, activation="NONE")
        z = b.op("RELU", (same,), (1, 1, 4))
        graph = b.graph(y)
        graph = replace(graph, outputs=(y, z))
        after = _check(
            lambda g: remove_dead(drop_identities(g)),
            graph,
            ["RESHAPE", "SQUEEZE", "CONCATENATION", "RELU"],
        )
        assert after.nodes[0].inputs[0] == after.nodes[3].inputs[0] == "x"

    @BOTH
    def test_reshape_to_another_shape_stays(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 4))
        t = b.op("RESHAPE", ("x", b.integers([2, 2])), (2, 2), new_shape=None)
        _check(drop_identities, b.graph(b.op("RELU", (t,), (2, 2))), ["RESHAPE", "RELU"])

    @BOTH
    def test_output_of_the_graph_stays(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 4))
        y = b.op("RESHAPE", ("x", b.integers([1, 4])), (1, 4), new_shape=None)
        _check(drop_identities, b.graph(y), ["RESHAPE"])


class TestFoldConstants:
    @BOTH
    def test_chain_of_constants(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 4))
        c = b.constant((1, 4), Quant((0.5,), (3,)))
        t = b.op("RELU", (b.op("RELU6", (c,), (1, 4)),), (1, 4))
        y = b.op("ADD", ("x", t), (1, 4), activation="NONE")
        after = _check(fold_constants, b.graph(y), ["ADD"])
        assert after.tensors[t].is_constant

    @BOTH
    def test_output_of_the_graph_stays(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 4))
        c = b.constant((1, 4), Quant((0.5,), (3,)))
        r = b.op("RELU", (c,), (1, 4))
        y = b.op("ADD", ("x", r), (1, 4), activation="NONE")
        _check(fold_constants, b.graph(y, r), ["RELU", "ADD"])


class TestRemoveDead:
    @BOTH
    def test_unread_chain_goes_with_its_tensors(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 4))
        dead = b.op("RELU", (b.op("RELU6", ("x",), (1, 4)),), (1, 4))
        y = b.op("RELU", ("x",), (1, 4))
        after = _check(remove_dead, b.graph(y), ["RELU"])
        assert dead not in after.tensors
        assert set(after.tensors) == {"x", y}

    @BOTH
    def test_node_with_one_read_output_stays(self, dtype: str) -> None:
        b = _Builder(dtype, (1, 4))
        left = b.op("SPLIT", (b.integers(1), "x"), (1, 2), Quant((0.5,), (3,)), num_splits=2)
        right = b.add("right", (1, 2), Quant((0.5,), (3,)))
        b.nodes[-1] = replace(b.nodes[-1], outputs=(left, right))
        _check(remove_dead, b.graph(right), ["SPLIT"])


@st.composite
def _graphs(draw: st.DrawFn) -> Graph:
    """A random chain with branches, of what the passes look for and what stands in their way."""
    b = _Builder(draw(st.sampled_from(["int8", "float32"])), (1, 5, 6, 2), draw(st.integers(0, 99)))
    values = ["x"]
    for _ in range(draw(st.integers(1, 8))):
        x = draw(st.sampled_from(values[-3:]))
        shape = b.tensors[x].shape
        match draw(st.sampled_from(["relu", "relu6", "pad", "conv", "add", "same", "const"])):
            case "relu" | "relu6" as code:
                other = Quant((0.3,), (-2,)) if draw(st.booleans()) else None
                value = b.op(code.upper(), (x,), shape, other)
            case "pad":
                amount = st.tuples(st.integers(0, 2), st.integers(0, 2))
                edge = draw(st.sampled_from([((0, 0), (0, 0)), ((0, 0), (0, 1))]))
                value = b.pad(x, (edge[0], draw(amount), draw(amount), edge[1]))
            case "conv" if shape[1] >= 3 and shape[2] >= 3:
                padding = draw(st.sampled_from(["SAME", "VALID"]))
                value = b.conv(x, draw(st.integers(1, 3)), padding, draw(st.integers(1, 2)))
            case "add":
                value = b.op("ADD", (x, x), shape, Quant((0.9,), (4,)), activation="NONE")
            case "const":
                c = b.op("RELU", (b.constant(shape, Quant((0.5,), (0,))),), shape)
                value = b.op("SUB", (x, c), shape, Quant((0.9,), (4,)), activation="NONE")
            case _:
                value = b.op("RESHAPE", (x, b.integers(shape)), shape, new_shape=None)
        values.append(value)
    outputs = draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=2, unique=True))
    return b.graph(*outputs)


@settings(max_examples=80, derandomize=True)
@given(graph=_graphs())
def test_every_pass_keeps_every_bit(graph: Graph) -> None:
    for transform in PASSES:
        _assert_same(graph, transform(graph))
    after = run_passes(graph)
    _assert_same(graph, after)
    assert run_passes(after) == after
