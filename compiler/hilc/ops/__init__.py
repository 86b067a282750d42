"""The operator table: a new operator is one module, one row here, one test."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hilc.external import EXTERNAL
from hilc.ops.binary import BINARY
from hilc.ops.blocks import CONCATENATION, PACK, SPLIT
from hilc.ops.conv2d import CONV_2D
from hilc.ops.depthwise_conv2d import DEPTHWISE_CONV_2D
from hilc.ops.external import EXTERNAL_NODE
from hilc.ops.fully_connected import FULLY_CONNECTED
from hilc.ops.mean import MEAN
from hilc.ops.moves import PAD, STRIDED_SLICE, TRANSPOSE
from hilc.ops.opdef import OpDef
from hilc.ops.pooling import POOL
from hilc.ops.quantize import DEQUANTIZE, QUANTIZE
from hilc.ops.softmax import SOFTMAX
from hilc.ops.unary import UNARY
from hilc.ops.views import EXPAND_DIMS, RESHAPE, SQUEEZE

#: Operators by the name that the TFLite schema gives them.
OPS: Mapping[str, OpDef] = MappingProxyType(
    {
        "CONV_2D": CONV_2D,
        "DEPTHWISE_CONV_2D": DEPTHWISE_CONV_2D,
        "FULLY_CONNECTED": FULLY_CONNECTED,
        "AVERAGE_POOL_2D": POOL,
        "MAX_POOL_2D": POOL,
        "SOFTMAX": SOFTMAX,
        "ADD": BINARY,
        "SUB": BINARY,
        "MUL": BINARY,
        "MEAN": MEAN,
        "RELU": UNARY,
        "RELU6": UNARY,
        "LOGISTIC": UNARY,
        "TANH": UNARY,
        "HARD_SWISH": UNARY,
        "LEAKY_RELU": UNARY,
        "QUANTIZE": QUANTIZE,
        "DEQUANTIZE": DEQUANTIZE,
        "RESHAPE": RESHAPE,
        "SQUEEZE": SQUEEZE,
        "EXPAND_DIMS": EXPAND_DIMS,
        "PAD": PAD,
        "TRANSPOSE": TRANSPOSE,
        "STRIDED_SLICE": STRIDED_SLICE,
        "CONCATENATION": CONCATENATION,
        "PACK": PACK,
        "SPLIT": SPLIT,
        # Not of TFLite: hilc.transforms.partition makes it.
        EXTERNAL: EXTERNAL_NODE,
    }
)
