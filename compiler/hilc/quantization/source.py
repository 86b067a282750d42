"""Input and result of a quantizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hilc.frontends import Reader
from hilc.ir import Graph


@dataclass(frozen=True)
class Source:
    """A model in floats."""

    reader: Reader
    graph: Graph
    #: Its file.
    data: bytes
    #: The model as ONNX, without open sizes.
    onnx: bytes


@dataclass(frozen=True)
class Quantized:
    """Files of a float model and of the quantized one; their tensors have equal names."""

    plain: bytes
    file: bytes
    #: By the user's name of an excluded layer: the tensors that its nodes compute.
    excluded: Mapping[str, tuple[str, ...]]
