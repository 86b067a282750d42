"""REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_ANY, REDUCE_ALL, SUM of indices, ARG_MAX, ARG_MIN."""

from __future__ import annotations

from math import prod

from hilc.ir import Numerics
from hilc.ir.dtypes import INDEX_TYPES
from hilc.lowering.generic.mean import walk_of_values
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericArg, HilGenericReduce
from hilc.lowering.registry import Layer, lowers
from hilc.ops.cast import CASTABLE
from hilc.ops.reduce import searched_axis

#: ``enum hil_reduce_way`` of ``hil/kernels/generic/reduce.h``.
_WAYS = {
    "REDUCE_MIN": 0,
    "REDUCE_ALL": 0,
    "REDUCE_MAX": 1,
    "REDUCE_ANY": 1,
    "SUM": 2,
    "REDUCE_PROD": 3,
}
#: Ways of floats whose infinities count.
_INFINITE = {0: 4, 1: 5}


@lowers("SUM", dtypes=INDEX_TYPES)
@lowers("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")
def reduced(layer: Layer) -> KernelCall:
    """Return the call that makes one number of all along some axes."""
    way = _WAYS[layer.node.op]
    is_real = layer.operand(0).element.is_real
    if is_real and layer.node.numerics is Numerics.ONNX:
        way = _INFINITE.get(way, way)
    parameters = HilGenericReduce(
        mean=walk_of_values(layer), type=CASTABLE.index(layer.dtype), way=way
    )
    return KernelCall(parameters)


@lowers("ARG_MAX", "ARG_MIN")
def searched(layer: Layer) -> KernelCall:
    """Return the call that says where along an axis the largest or the least number is."""
    x, axis = layer.operand(0), searched_axis(layer.node, layer.ins)
    parameters = HilGenericArg(
        rows=prod(x.shape[:axis]),
        count=x.shape[axis],
        columns=prod(x.shape[axis + 1 :]),
        type=CASTABLE.index(x.dtype),
        least=int(layer.node.op == "ARG_MIN"),
        wide=int(layer.out.dtype == "int64"),
    )
    return KernelCall(parameters)
