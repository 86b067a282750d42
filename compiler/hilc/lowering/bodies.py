"""Which layers of a program share one body of C (:mod:`hilc.codegen.bodies` writes it)."""

from __future__ import annotations

import numpy as np

from hilc.lowering.fields import FieldValue
from hilc.lowering.kernels import KernelCall
from hilc.target import Cpu

#: For ``speed`` layers share a body if they take so many instructions each and are so many. The
#: call, and arrays whose addresses are no constants, take at most 0.3 % of such networks, and
#: bodies of their own up to 40 % of the flash. Four layers of DS-CNN would save little.
_LONG, _MANY = 1500, 8


def least_sharers(optimize: str) -> int:
    """Return the number of layers from which layers share a body."""
    return _MANY if optimize == "speed" else 2


def body_key(call: KernelCall, optimize: str, cpu: Cpu) -> tuple[str, ...] | None:
    """Equal for layers that share a body on ``cpu``, if they are :func:`least_sharers`; None for
    one that has its own.
    """
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
