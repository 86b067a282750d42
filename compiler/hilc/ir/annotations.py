"""Facts about a model that are no part of what its graph computes; reports and libraries state
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy.typing as npt

from hilc.support.jsondata import Renamed

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FixedSize:
    """The size that an input was given along an axis which the model's file leaves open."""

    input: str
    axis: int
    size: int


@dataclass(frozen=True)
class ClassLabels:
    """The texts of the classes whose numbers an output returns, in the order of the numbers."""

    output: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class FloatLayer:
    """A layer of a quantized model that is computed in float32."""

    name: str
    op: str
    #: Why it is not computed in integers.
    reason: str


@dataclass(frozen=True)
class RoundedBias:
    """A float bias that was rounded to the scale of the sums."""

    layer: str
    #: The largest change of an output, in steps of the output's scale.
    largest_effect: float


@dataclass(frozen=True)
class IoSaving:
    """Type of inputs and outputs that takes ``bytes`` less than the model's own."""

    io: str
    bytes: Annotated[int, Renamed("nbytes")]


@dataclass(frozen=True)
class DynamicForm:
    """A way to compute dynamically quantized layers (the option ``dynamic``), with its price."""

    #: ``integer`` or ``float``.
    dynamic: str
    workspace_bytes: int
    #: Constants and code of the whole model; None where no program was searched for.
    flash_bytes: int | None
    instructions: int | None
    #: Whether it has loops or choices: ``instructions`` count one turn of each loop, and the
    #: longest branch of each choice.
    calls_graphs: bool = False


@dataclass(frozen=True)
class Dequantized:
    """The integers of a float constant that a file dequantizes: ``scales * (values -
    zero_points)``, each array of the constant's shape.
    """

    values: Array
    scales: Array
    zero_points: Array


@dataclass(frozen=True)
class Annotations:
    """Facts that a reader and the passes found about a model."""

    fixed_sizes: tuple[FixedSize, ...] = ()
    float_layers: tuple[FloatLayer, ...] = ()
    rounded_biases: tuple[RoundedBias, ...] = ()
    class_labels: tuple[ClassLabels, ...] = ()
    #: How dynamically quantized layers compute, ``integer`` or ``float``; empty where there are
    #: none.
    dynamic: str = ""
    #: The ways to compute them, the model's own first.
    dynamic_forms: tuple[DynamicForm, ...] = ()
    #: For each tensor with fewer channels than in the model: the indices, along the last axis of
    #: the model's tensor of this name, of the channels that it has, in order.
    channels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Folded:
    """Output channels and MACs of a model's file that the code does not have."""

    #: Output channels of convolutions, depthwise convolutions and fully connected layers.
    channels: int
    #: Multiply-accumulates of an inference.
    macs: int


NOTHING_FOLDED = Folded(0, 0)
