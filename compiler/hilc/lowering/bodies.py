"""Which layers of a program share one body of C (:mod:`hilc.codegen.bodies` writes it)."""

from __future__ import annotations

import numpy as np

from hilc.lowering.fields import FieldValue
from hilc.lowering.kernels import KernelCall
from hilc.target import Cpu

#: Instructions of a layer from which on it may share a body for speed too: a shared body takes
#: about eight more, which is less than a hundredth then.
_LONG = 1000


def body_key(call: KernelCall, optimize: str, cpu: Cpu) -> tuple[str, ...] | None:
    """Equal for layers that share a body on ``cpu``; None for one that has its own."""
    if optimize == "speed" and call.instructions(cpu) < _LONG:
        return None
    # Kernels that are for some cores are many loops, of which the C compiler keeps what a layer
    # needs: general ones would be larger than several that are not.
    general = optimize == "size" and not call.kernel.requires
    fixed = [
        f"{name} = {exact(value)}"
        for name, value in call.fields.items()
        if not isinstance(value, np.ndarray)
        and name not in call.kernel.variable
        # C cannot initialise an array of numbers with another.
        and (not general or isinstance(value, tuple))
    ]
    return call.kernel.name, str(call.kernel_scratch_bytes > 0), *fixed


def exact(value: FieldValue) -> str:
    """Return the value as text that distinguishes -0.0 from 0.0; for an array, the common value."""
    if isinstance(value, np.ndarray):
        return "an array"
    if isinstance(value, tuple):
        return ", ".join(map(exact, value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    return float(value).hex()
