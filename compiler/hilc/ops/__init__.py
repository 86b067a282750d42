"""The operator table.

A new operator is one module with one :class:`~hilc.ops.opdef.OpDef`, which says what the compiler
must know of it; :func:`register` adds one from outside the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hilc.errors import InputError
from hilc.external import EXTERNAL
from hilc.ops.accumulate import ADD_N, CUMSUM
from hilc.ops.arithmetic import BINARY, CHOICE, DIV
from hilc.ops.batch_matmul import BATCH_MATMUL
from hilc.ops.bucketize import BUCKETIZE
from hilc.ops.cast import CAST
from hilc.ops.comparison import COMPARISON
from hilc.ops.complex_numbers import COMPLEX_ABS, COMPLEX_PART, RFFT2D
from hilc.ops.concat_split import CONCATENATION, PACK, SPLIT, SPLIT_V, UNPACK
from hilc.ops.control_flow import IF, WHILE
from hilc.ops.conv2d import CONV_2D
from hilc.ops.conv3d import CONV_3D
from hilc.ops.data_movement import PAD, PADV2, STRIDED_SLICE, TRANSPOSE
from hilc.ops.depthwise_conv2d import DEPTHWISE_CONV_2D
from hilc.ops.detection import DETECTION_POSTPROCESS
from hilc.ops.doubles import DOUBLES
from hilc.ops.elementwise import ADD, MUL, SUB
from hilc.ops.external import EXTERNAL_NODE
from hilc.ops.fill import BROADCAST_TO, FILL
from hilc.ops.filter_bank import (
    SIGNAL_FILTER_BANK,
    SIGNAL_FILTER_BANK_LOG,
    SIGNAL_FILTER_BANK_SQUARE_ROOT,
    SIGNAL_PCAN,
)
from hilc.ops.fully_connected import FULLY_CONNECTED
from hilc.ops.functions import FUNCTION, GELU
from hilc.ops.gather import DYNAMIC_UPDATE_SLICE, EMBEDDING_LOOKUP, GATHER, GATHER_ND, ONE_HOT
from hilc.ops.integers import INTEGER
from hilc.ops.integers import OPERATORS as INTEGER_OPERATORS
from hilc.ops.layer_norm import LAYER_NORMALIZATION
from hilc.ops.lookup import LOOKUP
from hilc.ops.lstm import LSTM
from hilc.ops.mean import MEAN
from hilc.ops.normalization import L2_NORMALIZATION, LOG_SOFTMAX
from hilc.ops.opdef import OpDef
from hilc.ops.pooling import AVERAGE_POOL_2D, L2_POOL_2D, MAX_POOL_2D
from hilc.ops.prelu import PRELU
from hilc.ops.quantize import DEQUANTIZE, QUANTIZE
from hilc.ops.real_functions import CLASSES, FUNCTIONS, REAL_FUNCTION
from hilc.ops.rearrange import (
    BATCH_TO_SPACE_ND,
    DEPTH_TO_SPACE,
    MIRROR_PAD,
    REVERSE_V2,
    SLICE,
    SPACE_TO_BATCH_ND,
    SPACE_TO_DEPTH,
    TILE,
)
from hilc.ops.recurrent import GRU, RNN
from hilc.ops.reduce import ARG, REDUCE, REDUCE_PROD
from hilc.ops.resize import RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR
from hilc.ops.scatter import SCATTER
from hilc.ops.selection import SELECT, SELECT_V2
from hilc.ops.softmax import SOFTMAX
from hilc.ops.spectrum import (
    SIGNAL_ENERGY,
    SIGNAL_FFT_AUTO_SCALE,
    SIGNAL_IRFFT,
    SIGNAL_RFFT,
    SIGNAL_WINDOW,
)
from hilc.ops.streams import (
    CIRCULAR_BUFFER,
    SIGNAL_DELAY,
    SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION,
    SIGNAL_FRAMER,
    SIGNAL_OVERLAP_ADD,
    SIGNAL_STACKER,
)
from hilc.ops.svdf import SVDF
from hilc.ops.transpose_conv import TRANSPOSE_CONV
from hilc.ops.tree_ensemble import TREE_ENSEMBLE
from hilc.ops.unary import LEAKY_RELU, RELU, RELU6, RELU_N1_TO_1, UNARY
from hilc.ops.views import BIT_CAST, COPY, EXPAND_DIMS, FEED, RESHAPE, SQUEEZE

_OPS: dict[str, OpDef] = {
    "CONV_2D": CONV_2D,
    "CONV_3D": CONV_3D,
    "DEPTHWISE_CONV_2D": DEPTHWISE_CONV_2D,
    "FULLY_CONNECTED": FULLY_CONNECTED,
    "TRANSPOSE_CONV": TRANSPOSE_CONV,
    "BATCH_MATMUL": BATCH_MATMUL,
    "AVERAGE_POOL_2D": AVERAGE_POOL_2D,
    "MAX_POOL_2D": MAX_POOL_2D,
    "L2_POOL_2D": L2_POOL_2D,
    "RESIZE_BILINEAR": RESIZE_BILINEAR,
    "RESIZE_NEAREST_NEIGHBOR": RESIZE_NEAREST_NEIGHBOR,
    "SOFTMAX": SOFTMAX,
    "ADD": ADD,
    "SUB": SUB,
    "MUL": MUL,
    "MEAN": MEAN,
    "SUM": MEAN,
    "REDUCE_MAX": REDUCE,
    "REDUCE_MIN": REDUCE,
    "REDUCE_PROD": REDUCE_PROD,
    "REDUCE_ANY": REDUCE,
    "REDUCE_ALL": REDUCE,
    "ARG_MAX": ARG,
    "ARG_MIN": ARG,
    "RELU": RELU,
    "RELU6": RELU6,
    "RELU_0_TO_1": UNARY,
    "RELU_N1_TO_1": RELU_N1_TO_1,
    "LOGISTIC": UNARY,
    "TANH": UNARY,
    "HARD_SWISH": UNARY,
    "LEAKY_RELU": LEAKY_RELU,
    "ABS": FUNCTION,
    "BUCKETIZE": BUCKETIZE,
    "CAST": CAST,
    "CEIL": FUNCTION,
    "COS": FUNCTION,
    "ELU": FUNCTION,
    "EXP": FUNCTION,
    "FLOOR": FUNCTION,
    "GELU": GELU,
    "LOG": FUNCTION,
    "LOGICAL_NOT": FUNCTION,
    "NEG": FUNCTION,
    "ROUND": FUNCTION,
    "RSQRT": FUNCTION,
    "SIGN": FUNCTION,
    "SIN": FUNCTION,
    "SQRT": FUNCTION,
    "SQUARE": FUNCTION,
    "ZEROS_LIKE": FUNCTION,
    "DIV": DIV,
    "FLOOR_DIV": BINARY,
    "FLOOR_MOD": BINARY,
    "LOGICAL_AND": BINARY,
    "LOGICAL_OR": BINARY,
    "MAXIMUM": CHOICE,
    "MINIMUM": CHOICE,
    "POW": BINARY,
    "SQUARED_DIFFERENCE": BINARY,
    "EQUAL": COMPARISON,
    "GREATER": COMPARISON,
    "GREATER_EQUAL": COMPARISON,
    "LESS": COMPARISON,
    "LESS_EQUAL": COMPARISON,
    "NOT_EQUAL": COMPARISON,
    "SELECT": SELECT,
    "SELECT_V2": SELECT_V2,
    "ADD_N": ADD_N,
    "BROADCAST_TO": BROADCAST_TO,
    "CUMSUM": CUMSUM,
    "FILL": FILL,
    "L2_NORMALIZATION": L2_NORMALIZATION,
    "LAYER_NORMALIZATION": LAYER_NORMALIZATION,
    "LOG_SOFTMAX": LOG_SOFTMAX,
    "PRELU": PRELU,
    "QUANTIZE": QUANTIZE,
    "DEQUANTIZE": DEQUANTIZE,
    "RESHAPE": RESHAPE,
    "BIT_CAST": BIT_CAST,
    "SQUEEZE": SQUEEZE,
    "EXPAND_DIMS": EXPAND_DIMS,
    "PAD": PAD,
    "PADV2": PADV2,
    "MIRROR_PAD": MIRROR_PAD,
    "TRANSPOSE": TRANSPOSE,
    "STRIDED_SLICE": STRIDED_SLICE,
    "SLICE": SLICE,
    "REVERSE_V2": REVERSE_V2,
    "TILE": TILE,
    "SPACE_TO_DEPTH": SPACE_TO_DEPTH,
    "DEPTH_TO_SPACE": DEPTH_TO_SPACE,
    "SPACE_TO_BATCH_ND": SPACE_TO_BATCH_ND,
    "BATCH_TO_SPACE_ND": BATCH_TO_SPACE_ND,
    "GATHER": GATHER,
    "GATHER_ND": GATHER_ND,
    "EMBEDDING_LOOKUP": EMBEDDING_LOOKUP,
    "DYNAMIC_UPDATE_SLICE": DYNAMIC_UPDATE_SLICE,
    "ONE_HOT": ONE_HOT,
    "CONCATENATION": CONCATENATION,
    "PACK": PACK,
    "UNPACK": UNPACK,
    "SPLIT": SPLIT,
    "RFFT2D": RFFT2D,
    "REAL": COMPLEX_PART,
    "IMAG": COMPLEX_PART,
    "COMPLEX_ABS": COMPLEX_ABS,
    "IF": IF,
    "WHILE": WHILE,
    "SVDF": SVDF,
    "GRU": GRU,
    "RNN": RNN,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": LSTM,
    "SPLIT_V": SPLIT_V,
    # Custom operators of TensorFlow Lite Micro's signal library.
    "SIGNAL_WINDOW": SIGNAL_WINDOW,
    "SIGNAL_RFFT": SIGNAL_RFFT,
    "SIGNAL_IRFFT": SIGNAL_IRFFT,
    "SIGNAL_FFT_AUTO_SCALE": SIGNAL_FFT_AUTO_SCALE,
    "SIGNAL_ENERGY": SIGNAL_ENERGY,
    "SIGNAL_FILTER_BANK": SIGNAL_FILTER_BANK,
    "SIGNAL_FILTER_BANK_SQUARE_ROOT": SIGNAL_FILTER_BANK_SQUARE_ROOT,
    "SIGNAL_FILTER_BANK_LOG": SIGNAL_FILTER_BANK_LOG,
    "SIGNAL_PCAN": SIGNAL_PCAN,
    "SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION": SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION,
    "SIGNAL_FRAMER": SIGNAL_FRAMER,
    "SIGNAL_OVERLAP_ADD": SIGNAL_OVERLAP_ADD,
    "SIGNAL_DELAY": SIGNAL_DELAY,
    "SIGNAL_STACKER": SIGNAL_STACKER,
    # Other custom operators.
    "CIRCULAR_BUFFER": CIRCULAR_BUFFER,
    "DETECTION_POSTPROCESS": DETECTION_POSTPROCESS,
    # Of ONNX.
    **dict.fromkeys(INTEGER_OPERATORS, INTEGER),
    "SCATTER": SCATTER,
    "TREE_ENSEMBLE": TREE_ENSEMBLE,
    **dict.fromkeys((*FUNCTIONS, *CLASSES), REAL_FUNCTION),
    **DOUBLES,
    # Not of TFLite: hilc.memory.copies makes the first, hilc.transforms.feed the second,
    # hilc.transforms.partition the third, hilc.transforms.fuse_quantized the fourth.
    "COPY": COPY,
    "FEED": FEED,
    EXTERNAL: EXTERNAL_NODE,
    "LOOKUP": LOOKUP,
}

#: Operators by name. Those of TFLite have the name that its schema gives them.
OPS: Mapping[str, OpDef] = MappingProxyType(_OPS)


def register(name: str, operator: OpDef) -> None:
    """Add an operator to :data:`OPS`.

    :class:`~hilc.errors.InputError` where the name is taken, or its class of attributes has no
    fields whose values could be checked (:mod:`hilc.ops.attributes`).
    """
    if name in _OPS:
        raise InputError(f"there is an operator {name!r} already", "give yours another name")
    try:
        _ = operator.attribute_types
    except TypeError as error:
        raise InputError(
            f"the attributes of operator {name!r} cannot be checked: {error}",
            "declare them as hilc.ops.attributes says",
        ) from None
    _OPS[name] = operator
