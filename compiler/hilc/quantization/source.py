"""What a quantizer is given."""

from __future__ import annotations

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
    #: The same as an ONNX model without open sizes.
    onnx: bytes
