"""Which layers of a program share one body of C (:mod:`hilc.codegen.bodies` writes it)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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


def shares_general_code(optimize: str) -> bool:
    """Return whether layers of a portable kernel share a body whatever their numbers, which it then
    reads from memory.
    """
    return optimize == "size"


def body_key(call: KernelCall, optimize: str, cpu: Cpu) -> tuple[str, ...] | None:
    """Equal for layers that share a body on ``cpu``, if they are :func:`least_sharers`; None for
    one that has its own.
    """
    if optimize == "speed" and call.instructions(cpu) < _LONG:
        return None
    # Kernels that are for some cores are many loops, of which the C compiler keeps what a layer
    # needs: general ones would be larger than several that are not.
    general = shares_general_code(optimize) and not call.kernel.requires
    fixed = [
        f"{name} = {exact(value)}"
        for name, value in call.fields.items()
        if not isinstance(value, np.ndarray)
        and name not in call.kernel.variable
        # C cannot initialise an array of numbers with another.
        and (not general or isinstance(value, tuple))
    ]
    return call.kernel.name, str(call.kernel_scratch_bytes > 0), *fixed


class BodySharing:
    """Bodies that ``calls`` may share on ``cpu``, for a goal of code generation."""

    def __init__(self, calls: Iterable[KernelCall], optimize: str, cpu: Cpu) -> None:
        self._optimize = optimize
        self._cpu = cpu
        #: Number of calls for each body.
        self.sharers = Counter[tuple[str, ...]]()
        #: By body, the bodies of these calls if layers of different numbers shared none.
        self._specialised: dict[tuple[str, ...], set[tuple[str, ...] | None]] = {}
        for call in calls:
            if (key := body_key(call, optimize, cpu)) is not None:
                self.sharers[key] += 1
                self._specialised.setdefault(key, set()).add(self._with_numbers(call))

    def key(self, call: KernelCall) -> tuple[str, ...] | None:
        """Return the key of the body that a call may share; None where too few calls do."""
        key = body_key(call, self._optimize, self._cpu)
        if key is None or self.sharers[key] < least_sharers(self._optimize):
            return None
        return key

    def reads_numbers(self, call: KernelCall) -> bool:
        """Return whether the body that a call may share reads the layer's numbers from memory."""
        key = self.key(call)
        return key is not None and len(self._specialised[key]) > 1

    def _with_numbers(self, call: KernelCall) -> tuple[str, ...] | None:
        return body_key(call, "balanced", self._cpu)


def exact(value: FieldValue) -> str:
    """Return the value as text that distinguishes -0.0 from 0.0; for an array, the common value."""
    if isinstance(value, np.ndarray):
        return "an array"
    if isinstance(value, tuple):
        return ", ".join(map(exact, value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    return float(value).hex()
