"""Vector instructions of Zve32x for emitted functions (:mod:`hilc.lowering.riscv.emitter`).

Registers are numbers, in groups: sums of int32 take eight, operands of int16 four, operands of int8
two. So the same length holds for all, which the core chooses: code is for vectors of any length,
and is counted for :data:`COUNTED_BITS`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hilc.ir import ELEMENT_TYPES
from hilc.lowering.riscv.arithmetic import AnyOutput
from hilc.lowering.riscv.emitter import Function, Register
from hilc.lowering.riscv.outputs import Output
from hilc.lowering.riscv.wide import WideOutput

#: Bits of a register for which instructions are counted.
COUNTED_BITS = 128
#: Registers of a group of elements, by bytes of the element.
GROUPS = {1: 2, 2: 4, 4: 8}
_EXTENSIONS = ("zve32x", "zicsr")
_ROUND_DOWN = 2
_INT8, _INT16 = ELEMENT_TYPES["int8"].bounds, ELEMENT_TYPES["int16"].bounds


def blocks_of(channels: int) -> int:
    """Return the turns of a loop over channels with registers of :data:`COUNTED_BITS`."""
    length = COUNTED_BITS * GROUPS[4] // 32
    return -(-channels // length)


class VectorFunction(Function):
    """A function with vector instructions."""

    def __init__(self, name: str, parameters: Sequence[tuple[str, str]]) -> None:
        super().__init__(name, parameters, _EXTENSIONS, locals=("struct hil_rvv v;",))

    def round_down(self) -> None:
        """Select the rounding of narrowing shifts."""
        # The C form knows no other.
        self.instruction(f"csrwi vxrm, {_ROUND_DOWN}", "memset(&v, 0, sizeof v);")

    def length(self, to: Register, wanted: Register, element: int) -> None:
        """Set the length for elements of so many bytes: as many as are wanted, if they fit."""
        group = GROUPS[element]
        self.instruction(
            f"vsetvli {to.machine}, {wanted.machine}, e{8 * element}, m{group}, ta, ma",
            f"{to.variable} = hil_rvv_vsetvli(&v, {wanted.variable}, {element}, {group});",
        )

    def elements(self, element: int) -> None:
        """Select the bytes of an element; the length stays."""
        self.instruction(
            f"vsetvli zero, zero, e{8 * element}, m{GROUPS[element]}, ta, ma",
            f"(void)hil_rvv_vsetvli(&v, v.length, {element}, {GROUPS[element]});",
        )

    def load_vector(self, to: int, element: int, base: Register) -> None:
        """Load elements of so many bytes that lie next to each other."""
        self.instruction(
            f"vle{8 * element}.v v{to}, ({base.machine})",
            f"hil_rvv_vle(&v, {to}, {element}, {base.variable});",
        )

    def load_strided(self, to: int, base: Register, stride: Register) -> None:
        """Load bytes that lie a word of bytes apart."""
        self.instruction(
            f"vlse8.v v{to}, ({base.machine}), {stride.machine}",
            f"hil_rvv_vlse8(&v, {to}, {base.variable}, {stride.variable});",
        )

    def load_indexed(self, to: int, indices: int, base: Register) -> None:
        """Load bytes at the distances from an address that bytes without sign are."""
        self.instruction(
            f"vluxei8.v v{to}, ({base.machine}), v{indices}",
            f"hil_rvv_vluxei8(&v, {to}, {base.variable}, {indices});",
        )

    def store_vector(self, value: int, element: int, base: Register) -> None:
        """Store elements."""
        self.instruction(
            f"vse{8 * element}.v v{value}, ({base.machine})",
            f"hil_rvv_vse(&v, {value}, {element}, {base.variable});",
        )

    def widen(self, to: int, source: int) -> None:
        """Extend int8 to int16."""
        self.instruction(f"vsext.vf2 v{to}, v{source}", f"hil_rvv_vsext_vf2(&v, {to}, {source});")

    def widen_to_words(self, to: int, source: int) -> None:
        """Extend int8 to int32."""
        self.instruction(f"vsext.vf4 v{to}, v{source}", f"hil_rvv_vsext_vf4(&v, {to}, {source});")

    def add_bytes(self, to: int, source: int) -> None:
        """Add int8 to int16; bytes are selected."""
        self.instruction(
            f"vwadd.wv v{to}, v{to}, v{source}", f"hil_rvv_vwadd_wv(&v, {to}, {source});"
        )

    def fill(self, to: int, scalar: Register) -> None:
        """Set all elements to a scalar."""
        self.instruction(
            f"vmv.v.x v{to}, {scalar.machine}", f"hil_rvv_vmv_vx(&v, {to}, {scalar.variable});"
        )

    def multiply_words(self, to: int, vector: int, scalar: Register, begin: bool) -> None:
        """Add words times a scalar to words, or begin them with it."""
        if begin:
            self.with_scalar("vmul", to, vector, scalar)
            return
        self.instruction(
            f"vmacc.vx v{to}, {scalar.machine}, v{vector}",
            f"hil_rvv_vmacc_vx(&v, {to}, {scalar.variable}, {vector});",
        )

    def multiply(self, to: int, vector: int, scalar: Register, begin: bool) -> None:
        """Add int16 times a scalar to int32, or begin them with it."""
        if begin:
            self.instruction(
                f"vwmul.vx v{to}, v{vector}, {scalar.machine}",
                f"hil_rvv_vwmul_vx(&v, {to}, {vector}, {scalar.variable});",
            )
            return
        self.instruction(
            f"vwmacc.vx v{to}, {scalar.machine}, v{vector}",
            f"hil_rvv_vwmacc_vx(&v, {to}, {scalar.variable}, {vector});",
        )

    def multiply_vectors(self, to: int, a: int, b: int, begin: bool) -> None:
        """Add products of int16 to int32, or begin them with these."""
        name = "vwmul" if begin else "vwmacc"
        self.instruction(f"{name}.vv v{to}, v{a}, v{b}", f"hil_rvv_{name}_vv(&v, {to}, {a}, {b});")

    def vectors(self, name: str, to: int, a: int, b: int) -> None:
        """Compute on words of two vectors: ``vadd``, ``vmul``, ``vmulhsu``, ``vsll``, ``vsra``; on
        elements: ``vmax``.
        """
        self.instruction(f"{name}.vv v{to}, v{a}, v{b}", f"hil_rvv_{name}_vv(&v, {to}, {a}, {b});")

    def immediate(self, name: str, to: int, source: int, value: int) -> None:
        """Shift words by a constant, or add one: ``vsll``, ``vsra``, ``vadd``."""
        self.instruction(
            f"{name}.vi v{to}, v{source}, {value}",
            f"hil_rvv_{name}_vi(&v, {to}, {source}, {value});",
        )

    def with_scalar(self, name: str, to: int, source: int, scalar: Register) -> None:
        """Compute with a scalar: ``vmul``, ``vmulhsu`` of words, ``vadd``, ``vmax``, ``vmin`` of
        elements.
        """
        self.instruction(
            f"{name}.vx v{to}, v{source}, {scalar.machine}",
            f"hil_rvv_{name}_vx(&v, {to}, {source}, {scalar.variable});",
        )

    def narrow(self, element: int, to: int, source: int, bits: int) -> None:
        """Shift to the right and saturate, in elements of so many bytes."""
        self.instruction(
            f"vnclip.wi v{to}, v{source}, {bits}",
            f"hil_rvv_vnclip_wi(&v, {element}, {to}, {source}, {bits});",
        )


def emit_advance(
    f: VectorFunction, length: Register, addresses: Sequence[tuple[int, Sequence[Register]]]
) -> None:
    """Add a number of elements to addresses: the bytes of an element, which do not decrease, and
    the addresses. ``length`` is overwritten.
    """
    scale = 1
    for element, moved in addresses:
        if element > scale:
            f.shift("slli", length, length, (element // scale).bit_length() - 1)
            scale = element
        for address in moved:
            f.add_to(address, length)


def emit_outputs(
    f: VectorFunction,
    output: Output,
    channels: int,
    sums: Sequence[int],
    scales: Register,
    outs: Sequence[Register],
) -> None:
    """Make outputs of sums and store them, the last first. ``scales`` are the address of the
    multipliers; their other words lie behind them, those of all channels each.

    The registers above the sums are overwritten; signed outputs take sixteen of them.
    """
    spare = f.word("spare")
    at = f.address("at")
    free = 8 * len(sums)

    def with_word(name: str, word: str) -> None:
        if index := output.names.index(word):
            f.distance(at, scales, 4 * index * channels)
        f.load_vector(24, 4, at if index else scales)
        for value in sums:
            f.vectors(name, value, value, 24)

    f.elements(4)
    for value in sums:
        f.immediate("vsll", value, value, output.bits)
    if output.own:
        with_word("vadd", "bias")
    with_word("vmulhsu", "multiplier")
    if output.own and output.signed:
        f.constant(spare, output.half)
        for value in sums:
            f.with_scalar("vadd", value, value, spare)
            f.immediate("vsra", free, value, 31)
            f.immediate("vsll", free, free, output.bits)
            f.vectors("vadd", value, value, free)
    with_word("vadd", "constant")
    if output.own:
        with_word("vsra", "shift")
    elif output.signed:
        f.distance(at, scales, 8 * channels)
        f.load_vector(24, 4, at)
        f.constant(spare, -output.zero)
        for value in sums:
            f.with_scalar("vadd", free, value, spare)
            f.immediate("vsra", free, free, 31)
            f.vectors("vsll", free, free, 24)
            f.vectors("vadd", value, value, free)
    f.elements(2)
    for value in sums:
        f.narrow(2, value, value, output.shift)
    f.elements(1)
    for value in sums:
        f.narrow(1, value, value, 0)
    _emit_stores(f, output, 1, _INT8, sums, outs, spare)
    f.release(spare, at)


def emit_wide_outputs(
    f: VectorFunction,
    output: WideOutput,
    channels: int,
    sums: Sequence[int],
    scales: Register,
    outs: Sequence[Register],
) -> None:
    """Make outputs of int16 of sums and store them, the last first. ``scales`` are the address of
    the biases of all channels; multipliers, addends and shifts lie behind them.

    The registers above the sums are overwritten.
    """
    spare = f.word("spare")
    at = f.address("at")
    f.elements(4)
    names = ("vadd", "vmulhsu", "vadd", "vsra")[: output.words]
    for i, name in enumerate(names):
        if i:
            f.distance(at, scales, 4 * i * channels)
        f.load_vector(24, 4, at if i else scales)
        for value in sums:
            f.vectors(name, value, value, 24)
    if not output.shifted:
        for value in sums:
            f.immediate("vadd", value, value, 1)
    f.elements(2)
    for value in sums:
        f.narrow(2, value, value, 0 if output.shifted else 1)
    _emit_stores(f, output, 2, _INT16, sums, outs, spare)
    f.release(spare, at)


def _emit_stores(
    f: VectorFunction,
    output: Output | WideOutput,
    element: int,
    whole: tuple[int, int],
    values: Sequence[int],
    outs: Sequence[Register],
    spare: Register,
) -> None:
    """Clamp elements to a smaller range than their type's ``whole`` one, and store them."""
    for name, bound, own in (
        ("vmax", output.least, whole[0]),
        ("vmin", output.most, whole[1]),
    ):
        if bound != own:
            f.constant(spare, bound)
            for value in values:
                f.with_scalar(name, value, value, spare)
    for value, out in reversed(list(zip(values, outs, strict=True))):
        f.store_vector(value, element, out)


def bounds_text(output: AnyOutput) -> str:
    """Return why no sum overflows, for a kernel's head."""
    if not isinstance(output, Output):
        return "Sums with their biases are words for all inputs: narrow_sums()."
    return (
        "Sums are below 2^30, which require_right_shifts() asks for; scaled by "
        f"2^{output.bits} below 2^31."
    )
