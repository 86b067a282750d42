"""Input and result of a quantizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hilc.frontends import Reader
from hilc.ir import FloatLayer, Graph


@dataclass(frozen=True)
class Source:
    """A model in floats."""

    reader: Reader
    graph: Graph
    #: Its file.
    data: bytes
    #: The file as the model is read from it: of one entry point, and ONNX without open sizes.
    resolved: bytes


@dataclass(frozen=True)
class Quantized:
    """Files of a float model and of the quantized one; their tensors have equal names."""

    plain: bytes
    file: bytes
    #: By the user's name of an excluded layer: the tensors that its nodes compute.
    excluded: Mapping[str, tuple[str, ...]]
    #: The names of the integers by those of the float tensors, where the files do not convert
    #: between the two.
    integers: Mapping[str, str] = field(default_factory=dict)
    #: The layers that stay in floats, if the quantizer decides that; None where the compiler does.
    float_layers: tuple[FloatLayer, ...] | None = None
