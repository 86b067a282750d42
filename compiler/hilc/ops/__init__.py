"""The operator table: a new operator is one module, one row here, one test."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hilc.ops.conv2d import CONV_2D
from hilc.ops.depthwise_conv2d import DEPTHWISE_CONV_2D
from hilc.ops.fully_connected import FULLY_CONNECTED
from hilc.ops.opdef import OpDef

#: Operators by the name that the TFLite schema gives them.
OPS: Mapping[str, OpDef] = MappingProxyType(
    {
        "CONV_2D": CONV_2D,
        "DEPTHWISE_CONV_2D": DEPTHWISE_CONV_2D,
        "FULLY_CONNECTED": FULLY_CONNECTED,
    }
)
