"""COPY, and the same for a view whose memory is not its input's."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericCopy
from hilc.lowering.registry import Layer, lowers


@lowers("COPY", "FEED", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BIT_CAST")
def copy(layer: Layer) -> KernelCall:
    """Return the call that copies the bytes as they are."""
    return KernelCall(HilGenericCopy(bytes=layer.out.nbytes))
