"""BUCKETIZE."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilBucketize,
    HilGenericBucketizeF32,
    HilGenericBucketizeS32,
    HilGenericBucketizeS64,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.bucketize import boundaries

_KERNELS = {
    "float32": HilGenericBucketizeF32,
    "int32": HilGenericBucketizeS32,
    "int64": HilGenericBucketizeS64,
}


@lowers("BUCKETIZE")
def bucketize(layer: Layer) -> KernelCall:
    """Return the call that finds the interval of each number."""
    ends, x = boundaries(layer.node), layer.operand(0)
    fields = HilBucketize(size=x.size, count=ends.size, boundaries=ends)
    return KernelCall(_KERNELS[x.dtype](bucketize=fields))
