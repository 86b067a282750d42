"""Intermediate representation: a graph of operators over named tensors."""

from hilc.ir.dtypes import DTYPES, ELEMENT_TYPES, ElementType
from hilc.ir.graph import Array, Attributes, Graph, Node, Quant, State, Tensor
from hilc.ir.rounding import Rounding

__all__ = [
    "DTYPES",
    "ELEMENT_TYPES",
    "Array",
    "Attributes",
    "ElementType",
    "Graph",
    "Node",
    "Quant",
    "Rounding",
    "State",
    "Tensor",
]
