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
    """Files of a model in floats, and of the quantized one; tensors have the same names in both."""

    plain: bytes
    file: bytes
    #: By what the user excluded: the tensors that its nodes compute.
    excluded: Mapping[str, tuple[str, ...]]
