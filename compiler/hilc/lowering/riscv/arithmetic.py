"""Elements as emitted functions compute with them: int8, int16 and float32.

Sums of integers are words. A sum of floats begins at 0.0, and each product and each sum is rounded
by itself, as in the portable kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES
from hilc.lowering.linear import LinearWeights
from hilc.lowering.riscv.emitter import Function, Register
from hilc.lowering.riscv.outputs import LINEAR, RECTIFIED, Output
from hilc.lowering.riscv.wide import PartialSums, WideOutput


@dataclass(frozen=True)
class Integers:
    """int8 and int16."""

    element: int

    @property
    def dtype(self) -> str:
        """C type of an element."""
        return f"int{8 * self.element}_t"

    @property
    def name(self) -> str:
        """Name in kernels."""
        return f"s{8 * self.element}"

    def registers(self, f: Function, name: str, count: int) -> list[Register]:
        """Return free registers."""
        return f.words(name, count)

    def load(self, f: Function, to: Register, offset: int, base: Register) -> None:
        """Load an element."""
        f.load("lb" if self.element == 1 else "lh", to, offset, base)

    def store(self, f: Function, value: Register, offset: int, base: Register) -> None:
        """Store an element."""
        (f.store_byte if self.element == 1 else f.store_half)(value, offset, base)

    def begin(self, f: Function, total: Register, a: Register, b: Register, t: Register) -> None:
        """Begin a sum with a product; ``t`` may be overwritten."""
        f.operate("mul", total, a, b)

    def add(self, f: Function, total: Register, a: Register, b: Register, t: Register) -> None:
        """Add a product to a sum; ``t`` may be overwritten."""
        f.multiply_add(total, a, b, t)

    def free(self, f: Function) -> int:
        """Return how many registers are left."""
        return f.free


@dataclass(frozen=True)
class Floats:
    """float32 in the registers of RV32F."""

    element: int = 4
    dtype: str = "float"
    name: str = ELEMENT_TYPES["float32"].suffix

    def registers(self, f: Function, name: str, count: int) -> list[Register]:
        """Return free registers."""
        return f.floats(name, count)

    def load(self, f: Function, to: Register, offset: int, base: Register) -> None:
        """Load an element."""
        f.load_float(to, offset, base)

    def store(self, f: Function, value: Register, offset: int, base: Register) -> None:
        """Store an element."""
        f.store_float(value, offset, base)

    def begin(self, f: Function, total: Register, a: Register, b: Register, t: Register) -> None:
        """Begin a sum with a product: 0.0 plus it, which makes a difference for -0.0."""
        f.zero_float(total)
        self.add(f, total, a, b, t)

    def add(self, f: Function, total: Register, a: Register, b: Register, t: Register) -> None:
        """Add a product to a sum; ``t`` may be overwritten."""
        f.operate_floats("fmul", t, a, b)
        f.operate_floats("fadd", total, total, t)

    def free(self, f: Function) -> int:
        """Return how many registers are left."""
        return f.free_floats


@dataclass(frozen=True)
class FloatOutput:
    """How sums of floats become outputs: the bias is added, and the range of the activation."""

    least: float
    most: float

    #: Bits by which sums are scaled: none. Words of a channel's scale: the bias.
    bits = 0
    words = 1
    extension = ""
    extensions = ()
    features = frozenset({"riscv", "fpu"})

    @property
    def constant_count(self) -> int:
        """Registers of :meth:`constants`."""
        return len(self._limits)

    @property
    def _limits(self) -> list[tuple[bool, float]]:
        limits = [(True, self.least), (False, self.most)]
        return [limit for limit in limits if math.isfinite(limit[1])]

    def constants(self, f: Function) -> list[Register]:
        """Return registers with the constants of all channels."""
        registers = f.floats("limit", self.constant_count)
        spare = f.word("limit_bits")
        for register, (_, value) in zip(registers, self._limits, strict=True):
            f.float_constant(register, value, spare)
        f.release(spare)
        return registers

    def scale(self, f: Function) -> list[Register]:
        """Return registers for the scale of a channel."""
        return f.floats("bias", self.words)

    def load(self, f: Function, scale: list[Register], offset: int, base: Register) -> None:
        """Load the scale of a channel."""
        f.load_float(scale[0], offset, base)

    def emit(
        self,
        f: Function,
        value: Register,
        scale: list[Register],
        constants: list[Register],
        spare: Register,
    ) -> None:
        """Make the output of a sum in its register; ``spare`` is a word."""
        f.operate_floats("fadd", value, value, scale[0])
        share = RECTIFIED if self.least == 0 else LINEAR
        for limit, (below, _) in zip(constants, self._limits, strict=True):
            f.bound_float(value, limit, below, spare, share if below else LINEAR)

    @property
    def text(self) -> str:
        """Text of a kernel's head."""
        return f"sum + bias, clamped to {self.least:g} to {self.most:g}; a NaN stays one."


#: What the elements of a layer are, and how its sums become outputs.
Arithmetic = Integers | Floats
AnyOutput = Output | WideOutput | PartialSums | FloatOutput


def arithmetic_of(output: AnyOutput) -> Arithmetic:
    """Return the arithmetic of a layer with these outputs."""
    match output:
        case FloatOutput():
            return Floats()
        case WideOutput() | PartialSums():
            return Integers(2)
        case Output():
            return Integers(1)


def float_output_of(layer: LinearWeights) -> tuple[FloatOutput, npt.NDArray[np.float32]] | None:
    """Return how sums become outputs, and the biases; None where a weight or a bias is infinite or
    not a number: taps outside an image are left out, which is exact for products that are zero.
    """
    floats = layer.floats
    if not (np.isfinite(layer.matrix).all() and np.isfinite(floats.bias).all()):
        return None
    return FloatOutput(floats.out_min, floats.out_max), floats.bias.astype(np.float32)


def scale_words(output: AnyOutput) -> str:
    """Return the words of a channel's scale, for a kernel's head."""
    return "bias" if isinstance(output, FloatOutput) else ", ".join(output.names)
