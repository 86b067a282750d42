"""Calls of kernels that no header describes, and calls with other fields than a builder gave."""

from __future__ import annotations

from collections.abc import Mapping

from hilc.lowering.fields import FieldValue
from hilc.lowering.kernels import Kernel, KernelCall, Parameters
from hilc.lowering.records import record


def loose_call(
    kernel: Kernel, values: Mapping[str, FieldValue], inputs: tuple[int, ...] = (0,), macs: int = 0
) -> KernelCall:
    """A call of ``kernel`` whose parameters are ``values``, which no dataclass checks."""

    described = kernel

    @record(frozen=True, eq=False, kw_only=True)
    class Loose(Parameters):
        @classmethod
        def kernel(cls) -> Kernel:
            return described

        @property
        def fields(self) -> Mapping[str, FieldValue]:
            return values

    return KernelCall(Loose(), inputs, macs)
