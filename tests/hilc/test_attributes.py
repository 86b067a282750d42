"""Attributes are a class an operator, and hold what its fields say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from nodes import make_node

from hilc.errors import InputError, ModelError
from hilc.ir import Attributes, Graph, Node, Quant, Tensor
from hilc.ops import OPS, register
from hilc.ops.attributes import ActivationAttributes, WindowAttributes
from hilc.ops.pooling import PoolingAttributes
from hilc.ops.softmax import SoftmaxAttributes
from hilc.ops.verify import verify
from hilc.ops.views import ReshapeAttributes, SqueezeAttributes
from hilc.source import graph_digest

POOLING = PoolingAttributes(filter_h=2, filter_w=2, stride_h=1, stride_w=1, padding="VALID")


def graph(op: str, attrs: Attributes) -> Graph:
    shape = (1, 4, 4, 1)
    tensors = [Tensor(name, shape, "int8", Quant((0.1,), (0,))) for name in ("x", "y")]
    node = Node(op, ("x",), ("y",), attrs, index=3)
    return Graph("one", {t.name: t for t in tensors}, (node,), ("x",), ("y",))


WINDOW_TYPE = "'SAME', 'VALID' or tuple (int, int, int, int)"
WRONG: list[tuple[str, Attributes, str, Any, str]] = [
    ("MAX_POOL_2D", POOLING, "filter_h", True, "int"),
    ("MAX_POOL_2D", POOLING, "stride_w", 1.0, "int"),
    ("MAX_POOL_2D", POOLING, "stride_w", None, "int"),
    ("MAX_POOL_2D", POOLING, "padding", "FULL", WINDOW_TYPE),
    ("MAX_POOL_2D", POOLING, "padding", (1, 2), WINDOW_TYPE),
    ("MAX_POOL_2D", POOLING, "padding", [1, 2, 3, 4], WINDOW_TYPE),
    ("MAX_POOL_2D", POOLING, "activation", "TANH", "'NONE', 'RELU', 'RELU6', 'RELU_N1_TO_1'"),
    ("SOFTMAX", SoftmaxAttributes(beta=1.0), "beta", "1", "float"),
    ("RESHAPE", ReshapeAttributes(), "new_shape", (4, 4.0), "tuple of int or None"),
    ("SQUEEZE", SqueezeAttributes(), "squeeze_dims", None, "tuple of int"),
]


@pytest.mark.parametrize(("op", "attrs", "name", "value", "accepted"), WRONG)
def test_a_wrong_value_is_refused_by_its_name(
    op: str, attrs: Attributes, name: str, value: Any, accepted: str
) -> None:
    changes: dict[str, Any] = {name: value}
    with pytest.raises(ModelError) as caught:
        verify(graph(op, replace(attrs, **changes)))
    assert caught.value.fact == (
        f"operator 3 ({op}): 'y' has the attribute {name} = {value!r} (accepted: {accepted})"
    )


def test_a_whole_number_is_a_float() -> None:
    whole = graph("SOFTMAX", SoftmaxAttributes(beta=1))
    with pytest.raises(ModelError, match="scale"):  # the next thing that is wrong with it
        verify(whole)


@pytest.mark.parametrize(
    ("attrs", "stated"),
    [
        (Attributes(), "Attributes"),
        (WindowAttributes(stride_h=1, stride_w=1, padding="SAME"), "WindowAttributes"),
        ({"padding": "SAME"}, "dict"),
    ],
)
def test_attributes_of_another_class_are_refused(attrs: Any, stated: str) -> None:
    with pytest.raises(ModelError) as caught:
        verify(graph("MAX_POOL_2D", attrs))
    assert caught.value.fact == (
        f"operator 3 (MAX_POOL_2D): 'y' has attributes of class {stated} (accepted: "
        "PoolingAttributes)"
    )


def test_a_wrong_or_missing_name_fails_at_once() -> None:
    with pytest.raises(TypeError, match="'alhpa'"):
        make_node("LEAKY_RELU", ("x",), ("y",), alhpa=0.5)
    with pytest.raises(TypeError, match="'alpha'"):
        make_node("LEAKY_RELU", ("x",), ("y",))


def test_they_are_read_through_their_class() -> None:
    node = graph("MAX_POOL_2D", POOLING).nodes[0]
    assert WindowAttributes.of(node) is POOLING
    assert ActivationAttributes.of(node) is POOLING
    with pytest.raises(ModelError, match="'y' has attributes of class PoolingAttributes, not Sof"):
        SoftmaxAttributes.of(node)


def test_what_every_operator_accepts_can_be_checked() -> None:
    assert {name for name, op in OPS.items() if set(op.attribute_types) - {"activation"}} >= {
        "CONV_2D",
        "EXTERNAL",
    }
    # A pass fuses activations into whatever takes one.
    assert {name for name, op in OPS.items() if op.takes_activation} == {
        "CONV_2D",
        "CONV_3D",
        "DEPTHWISE_CONV_2D",
        "FULLY_CONNECTED",
        "TRANSPOSE_CONV",
        "AVERAGE_POOL_2D",
        "MAX_POOL_2D",
        "L2_POOL_2D",
        "ADD",
        "SUB",
        "MUL",
        "DIV",
    }


@dataclass(frozen=True)
class OfAnything(Attributes):
    options: Mapping[str, int] = field(default_factory=dict)


class NoDataclass(ActivationAttributes):
    axis: int


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (OfAnything, "the field options of OfAnything has the type"),
        (NoDataclass, "NoDataclass is not a dataclass with frozen=True"),
    ],
)
def test_a_class_of_unchecked_values_is_refused(kind: type[Attributes], why: str) -> None:
    with pytest.raises(InputError, match=f"'MINE' cannot be checked: {why}"):
        register("MINE", replace(OPS["RELU"], attributes=kind))
    assert "MINE" not in OPS


def test_digests_stay_those_that_were_written_down() -> None:
    """A tuning file names its model by one: it outlives releases."""
    assert graph_digest(graph("MAX_POOL_2D", POOLING)) == (
        "fd917d35c597cdfe4483d0f4a0306d33163e4c3558f2451a3524dd0028a3c0c7"
    )
