"""The intermediate representation: a graph of operators over named tensors."""

from hilc.ir.graph import DTYPES, Array, Graph, Node, Quant, Tensor

__all__ = ["DTYPES", "Array", "Graph", "Node", "Quant", "Tensor"]
