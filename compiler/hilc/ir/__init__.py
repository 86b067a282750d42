"""Intermediate representation: a graph of operators over named tensors."""

from hilc.ir.dtypes import DTYPES, ELEMENT_TYPES, ElementType
from hilc.ir.graph import Array, Attributes, FixedSize, Graph, Node, Quant, State, Tensor
from hilc.ir.rounding import Numerics, Rounding

__all__ = [
    "DTYPES",
    "ELEMENT_TYPES",
    "Array",
    "Attributes",
    "ElementType",
    "FixedSize",
    "Graph",
    "Node",
    "Numerics",
    "Quant",
    "Rounding",
    "State",
    "Tensor",
]
