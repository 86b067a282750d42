"""The operator table: a new operator is one module, one row here, one test."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hilc.ops.opdef import OpDef

#: Operators by the name that the TFLite schema gives them.
OPS: Mapping[str, OpDef] = MappingProxyType({})
