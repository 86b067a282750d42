"""Files of quantized models, read and fused as the compiler does it."""

from __future__ import annotations

from hilc.frontends import read_model
from hilc.transforms.fuse_quantized import FusedGraph, fuse_quantized


def fused_file(data: bytes, name: str) -> FusedGraph:
    """Return the graph of a file with operators on integers."""
    read = read_model(data, name)
    return fuse_quantized(read.graph, read.dequantized)
