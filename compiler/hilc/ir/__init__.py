"""Intermediate representation: a graph of operators over named tensors."""

from hilc.ir.annotations import (
    Annotations,
    ClassLabels,
    Dequantized,
    DynamicForm,
    FixedSize,
    FloatLayer,
    IoSaving,
    RoundedBias,
)
from hilc.ir.dtypes import DTYPES, ELEMENT_TYPES, ElementType
from hilc.ir.graph import (
    ADDED,
    Array,
    Attributes,
    Graph,
    Node,
    Quant,
    State,
    Tensor,
    of_node,
)
from hilc.ir.rounding import Numerics, Rounding

__all__ = [
    "ADDED",
    "DTYPES",
    "ELEMENT_TYPES",
    "Annotations",
    "Array",
    "Attributes",
    "ClassLabels",
    "Dequantized",
    "ElementType",
    "FixedSize",
    "FloatLayer",
    "Graph",
    "DynamicForm",
    "IoSaving",
    "Node",
    "Numerics",
    "Quant",
    "RoundedBias",
    "Rounding",
    "State",
    "Tensor",
    "of_node",
]
