"""Which kernels can compute a layer, with which parameters and at what cost.

Importing the families registers their builders (:mod:`hilc.lowering.registry`), in the order in
which they are asked.
"""

from hilc.lowering import armv7m, dsp, helium, small
from hilc.lowering.generic import (
    accumulate,
    arithmetic,
    cast,
    concat_split,
    data_movement,
    elementwise,
    external,
    functions,
    gather,
    linear,
    lstm,
    mean,
    normalization,
    pooling,
    prelu,
    products,
    quantize,
    reduce,
    signal,
    softmax,
    streams,
    svdf,
    unary,
    views,
    wide,
)
from hilc.lowering.kernels import KernelCall, register_kernels
from hilc.lowering.registry import Layer, Rank, candidates, lowers

__all__ = [
    "KernelCall",
    "Layer",
    "Rank",
    "accumulate",
    "arithmetic",
    "armv7m",
    "candidates",
    "cast",
    "concat_split",
    "data_movement",
    "dsp",
    "elementwise",
    "external",
    "functions",
    "gather",
    "helium",
    "linear",
    "lowers",
    "lstm",
    "mean",
    "normalization",
    "pooling",
    "prelu",
    "products",
    "quantize",
    "reduce",
    "register_kernels",
    "signal",
    "small",
    "softmax",
    "streams",
    "svdf",
    "unary",
    "views",
    "wide",
]
