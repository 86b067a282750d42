"""Emitter of functions for RV32IM and RV32F: one list of instructions, as assembly and as C.

A program in Python knows a layer's shape, its tile and the registers. It calls the methods of
:class:`Function` as an assembler would be called. Each call appends an instruction with two texts:
the assembly, and C with the same meaning. So the form that the host runs under sanitizers is the
list of instructions that the core runs, not a second program. The instructions are counted while
they are written: :attr:`Function.instructions` is what a call takes.

Registers are allocated here and released by the program. A word is ``uint32_t`` in C, an address
``const int8_t *`` or ``int8_t *``. :class:`OutOfRegisters` is raised if a tile needs more than the
28 registers that a function has beside ``zero``, ``sp``, ``gp`` and ``tp``, or the 32 for floats.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

#: In the order in which they are given out: arguments first, then those that a call may change, and
#: last those that it must restore.
_REGISTERS = (
    *(f"a{i}" for i in range(8)),
    *(f"t{i}" for i in range(7)),
    "ra",
    *(f"s{i}" for i in range(12)),
)
#: Registers of RV32F, in the same order.
_FLOAT_REGISTERS = (
    *(f"fa{i}" for i in range(8)),
    *(f"ft{i}" for i in range(12)),
    *(f"fs{i}" for i in range(12)),
)
_SAVED = frozenset(["ra", *(f"s{i}" for i in range(12)), *(f"fs{i}" for i in range(12))])
#: Offsets of loads, stores and additions have 12 bits, sign included.
LARGEST_OFFSET = 2047
_C_TYPES = {
    "word": "uint32_t ",
    "read": "const int8_t *",
    "write": "int8_t *",
    "float": "float ",
}
_STACK_ALIGNMENT = 16
#: Arguments that a caller passes in registers; those behind lie on its stack.
_PASSED = 8
#: Function fields of XPULP's minimum and maximum.
_XPULP = {"min": 0x2B, "max": 0x2D}
#: Those of four bytes.
_XPULP_FOUR = {"min": 0x10, "max": 0x18}
_BYTE = 255
#: Bytes of an instruction, on average: many are compressed.
_BYTES = 3.3


class OutOfRegisters(Exception):
    """A tile needs more registers than there are."""


@dataclass(frozen=True)
class Register:
    """A register of the machine, and the variable of C that has its place."""

    machine: str
    variable: str
    #: ``word``, ``float``, ``read`` or ``write``: an address through which is read or written.
    kind: str = "word"


ZERO = Register("zero", "0U")


@dataclass
class Function:
    """A function that is being written.

    ``parameters`` are names and kinds of its arguments, all of them addresses or words.
    """

    name: str
    parameters: Sequence[tuple[str, str]]
    #: Extensions that its assembly uses beside those of the core's C.
    extensions: tuple[str, ...] = ()
    #: Whether the core has XPULP.
    xpulp: bool = False
    #: Declarations that the C form has beside its registers.
    locals: tuple[str, ...] = ()
    _lines: list[tuple[str, str]] = field(default_factory=list, init=False)
    #: Instructions out of line, behind the end of the function.
    _behind: list[tuple[str, str]] = field(default_factory=list, init=False)
    _free: list[str] = field(default_factory=lambda: list(_REGISTERS), init=False)
    _free_floats: list[str] = field(default_factory=lambda: list(_FLOAT_REGISTERS), init=False)
    _used: set[str] = field(default_factory=set, init=False)
    _variables: dict[str, str] = field(default_factory=dict, init=False)
    _slots: dict[str, str] = field(default_factory=dict, init=False)
    _labels: int = field(default=0, init=False)
    _times: float = field(default=1.0, init=False)
    _count: float = field(default=0.0, init=False)
    _static: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.arguments = tuple(self._register(name, kind) for name, kind in self.parameters)

    # -- registers and the stack ------------------------------------------------------------------

    def word(self, name: str) -> Register:
        """Return a free register for a word."""
        return self._register(name, "word")

    def words(self, name: str, count: int) -> list[Register]:
        """Return ``count`` free registers for words."""
        return [self.word(f"{name}{i}") for i in range(count)]

    def floats(self, name: str, count: int) -> list[Register]:
        """Return ``count`` free registers for floats."""
        return [self._register(f"{name}{i}", "float") for i in range(count)]

    def address(self, name: str, kind: str = "read") -> Register:
        """Return a free register for an address."""
        return self._register(name, kind)

    def release(self, *registers: Register) -> None:
        """Give registers back."""
        for register in registers:
            free = self._pool(register.kind)
            assert register.machine not in free, register
            free.insert(0, register.machine)

    @property
    def free(self) -> int:
        """Registers that are left."""
        return len(self._free)

    @property
    def free_floats(self) -> int:
        """Registers for floats that are left."""
        return len(self._free_floats)

    def _register(self, name: str, kind: str) -> Register:
        free = self._pool(kind)
        if not free:
            raise OutOfRegisters(f"{self.name} has no register left for {name}")
        machine = free.pop(0)
        self._used.add(machine)
        variable = name
        while self._variables.get(variable, kind) != kind:
            variable += "_"
        self._variables[variable] = kind
        return Register(machine, variable, kind)

    def _pool(self, kind: str) -> list[str]:
        return self._free_floats if kind == "float" else self._free

    def save(self, register: Register, slot: str) -> None:
        """Store a register in the slot of the stack with this name."""
        self._slots.setdefault(slot, register.kind)
        self._emit(f"sw {register.machine}, {{{slot}}}(sp)", f"stack_{slot} = {register.variable};")

    def restore(self, register: Register, slot: str) -> None:
        """Load a register from a slot."""
        self._emit(f"lw {register.machine}, {{{slot}}}(sp)", f"{register.variable} = stack_{slot};")

    # -- instructions -----------------------------------------------------------------------------

    def _emit(self, assembly: str, c: str) -> None:
        self._lines.append((f"    {assembly}", f"    {c}"))
        self._count += self._times
        self._static += 1

    def instruction(self, assembly: str, c: str) -> None:
        """Append an instruction that this class does not know, in both languages."""
        self._emit(assembly, c)

    def load(self, kind: str, to: Register, offset: int, base: Register) -> None:
        """Load a value: ``lb``, ``lh`` or ``lw``; or an address by ``lw`` from a table of them."""
        assert -LARGEST_OFFSET <= offset <= LARGEST_OFFSET, offset
        c = f"{to.variable} = hil_riscv_{kind}({base.variable} + {offset});"
        self._emit(f"{kind} {to.machine}, {offset}({base.machine})", c)

    def store_word(self, value: Register, offset: int, base: Register) -> None:
        """Store a word."""
        self._emit(
            f"sw {value.machine}, {offset}({base.machine})",
            f"hil_riscv_sw({base.variable} + {offset}, {value.variable});",
        )

    def store_byte(self, value: Register, offset: int, base: Register) -> None:
        """Store the lowest byte of a word."""
        assert 0 <= offset <= LARGEST_OFFSET, offset
        self._emit(
            f"sb {value.machine}, {offset}({base.machine})",
            f"{base.variable}[{offset}] = (int8_t){value.variable};",
        )

    def store_half(self, value: Register, offset: int, base: Register) -> None:
        """Store the lower half of a word."""
        assert 0 <= offset <= LARGEST_OFFSET, offset
        self._emit(
            f"sh {value.machine}, {offset}({base.machine})",
            f"hil_riscv_sh({base.variable} + {offset}, {value.variable});",
        )

    def constant(self, to: Register, value: int) -> None:
        """Load a constant: one instruction or two."""
        self._emit(f"li {to.machine}, {value}", f"{to.variable} = (uint32_t){value};")
        if not -LARGEST_OFFSET <= value <= LARGEST_OFFSET:
            self._count += self._times
            self._static += 1

    def move(self, to: Register, source: Register) -> None:
        """Copy a register."""
        self._emit(f"mv {to.machine}, {source.machine}", f"{to.variable} = {source.variable};")

    def multiply_add(self, total: Register, a: Register, b: Register, product: Register) -> None:
        """Add a product to a sum; ``product`` may be overwritten."""
        if not self.xpulp:
            self.operate("mul", product, a, b)
            self.operate("add", total, total, product)
            return
        # The assembler does not know XPULP: its instructions are written by their fields.
        self._emit(
            f".insn r 0x2b, 3, 0x48, {total.machine}, {a.machine}, {b.machine}",
            f"{total.variable} += {a.variable} * {b.variable};",
        )

    def multiply_four(
        self,
        name: str,
        fields: tuple[int, int, int],
        total: Register,
        a: Register,
        b: Register,
    ) -> None:
        """Add four products of int8 to a sum (``sdotsp``), or begin it with them (``dotsp``)."""
        sum_ = total.variable if name == "sdotsp" else ZERO.variable
        words = f"{total.machine}, {a.machine}, {b.machine}"
        self._emit(
            f".insn r {fields[0]:#x}, {fields[1]}, {fields[2]:#x}, {words}",
            f"{total.variable} = hil_riscv_sdotsp({sum_}, {a.variable}, {b.variable});",
        )

    def operate_four(self, name: str, to: Register, left: Register, right: Register) -> None:
        """Compute XPULP's ``min`` or ``max`` of four signed bytes, each by itself."""
        self._emit(
            f".insn r 0x7b, 1, {_XPULP_FOUR[name]:#x}, {to.machine}, {left.machine}, "
            f"{right.machine}",
            f"{to.variable} = hil_riscv_{name}4({left.variable}, {right.variable});",
        )

    def clip(self, value: Register) -> None:
        """Clamp a word to the range of int8 with XPULP's instruction."""
        # The field of the second source has the bits of the range.
        self._emit(
            f".insn r 0x2b, 3, 0x38, {value.machine}, {value.machine}, x8",
            f"{value.variable} = hil_riscv_clip({value.variable});",
        )

    def operate(self, mnemonic: str, to: Register, left: Register, right: Register) -> None:
        """Compute ``add``, ``sub``, ``mul``, ``mulhsu``, ``slt``, ``sll``, ``sra``; ``min`` and
        ``max`` of Zbb.
        """
        if self.xpulp and mnemonic in _XPULP:
            self._emit(
                f".insn r 0x2b, 3, {_XPULP[mnemonic]:#x}, {to.machine}, {left.machine}, "
                f"{right.machine}",
                f"{to.variable} = hil_riscv_{mnemonic}({left.variable}, {right.variable});",
            )
            return
        a, b = left.variable, right.variable
        c = {
            "add": f"{a} + {b}",
            "sub": f"{a} - {b}",
            "mul": f"{a} * {b}",
            "sra": f"hil_riscv_sra({a}, (int32_t)({b} & 31U))",
        }.get(mnemonic, f"hil_riscv_{mnemonic}({a}, {b})")
        self._emit(
            f"{mnemonic} {to.machine}, {left.machine}, {right.machine}", f"{to.variable} = {c};"
        )

    def add_to(self, address: Register, word: Register) -> None:
        """Add a word to an address."""
        self._emit(
            f"add {address.machine}, {address.machine}, {word.machine}",
            f"{address.variable} += (int32_t){word.variable};",
        )

    def index(self, to: Register, base: Register, word: Register) -> None:
        """Compute the address that lies a word of bytes behind another."""
        self._emit(
            f"add {to.machine}, {base.machine}, {word.machine}",
            f"{to.variable} = {base.variable} + (int32_t){word.variable};",
        )

    def shift(self, mnemonic: str, to: Register, source: Register, bits: int) -> None:
        """Shift by a constant: ``slli``, ``srli`` or ``srai``."""
        assert 0 < bits < 32, bits
        value = source.variable
        c = {
            "slli": f"{value} << {bits}",
            "srli": f"{value} >> {bits}",
            "srai": f"hil_riscv_sra({value}, {bits})",
        }[mnemonic]
        self._emit(f"{mnemonic} {to.machine}, {source.machine}, {bits}", f"{to.variable} = {c};")

    def advance(self, register: Register, by: int) -> None:
        """Add a constant to a word or an address."""
        if by == 0:
            return
        machine = register.machine
        variable = register.variable
        add = (
            f"{variable} += (uint32_t){by};" if register.kind == "word" else f"{variable} += {by};"
        )
        self._emit(f"addi {machine}, {machine}, {by}", add)

    def step(self, register: Register, by: int, scratch: Register) -> None:
        """Add a constant of any size to an address; ``scratch`` may be overwritten."""
        if -LARGEST_OFFSET <= by <= LARGEST_OFFSET:
            self.advance(register, by)
            return
        self.constant(scratch, by)
        self._emit(
            f"add {register.machine}, {register.machine}, {scratch.machine}",
            f"{register.variable} += (int32_t){scratch.variable};",
        )

    def distance(self, to: Register, base: Register, by: int) -> None:
        """Compute an address that lies ``by`` bytes behind another."""
        if -LARGEST_OFFSET <= by <= LARGEST_OFFSET:
            self._emit(
                f"addi {to.machine}, {base.machine}, {by}",
                f"{to.variable} = {base.variable} + {by};",
            )
            return
        self._emit(f"li {to.machine}, {by}", f"{to.variable} = {base.variable};")
        self._count += self._times
        self._static += 1
        self._emit(f"add {to.machine}, {to.machine}, {base.machine}", f"{to.variable} += {by};")

    def mask(self, to: Register, source: Register, bits: int) -> None:
        """Keep the bits of a constant."""
        self._emit(
            f"andi {to.machine}, {source.machine}, {bits}",
            f"{to.variable} = {source.variable} & (uint32_t){bits};",
        )

    @contextmanager
    def skip_if_equal(self, a: Register, b: Register, share: float = 0.0) -> Iterator[None]:
        """Leave out the instructions inside if two registers are equal, as is expected for
        ``share`` of the times.
        """
        label = self._label()
        self._emit(
            f"beq {a.machine}, {b.machine}, {label}",
            f"if ({a.variable} == {b.variable}) {{ goto {label}; }}",
        )
        outer = self._times
        self._times *= 1 - share
        yield
        self._times = outer
        self._lines.append((f"{label}:", f"{label}:;"))

    @contextmanager
    def loop(
        self, times: float, at: Register, end: Register, always: bool = False
    ) -> Iterator[None]:
        """Repeat the instructions inside until ``at`` equals ``end``, which is after ``times``, or
        is expected to be.

        There is no loop for one turn, unless ``always``: the core decides on the turns then.
        """
        if times == 1 and not always:
            yield
            return
        label = self._label()
        self._lines.append((f"{label}:", f"{label}:;"))
        outer = self._times
        self._times *= times
        yield
        self._emit(
            f"bne {at.machine}, {end.machine}, {label}",
            f"if ({at.variable} != {end.variable}) {{ goto {label}; }}",
        )
        self._times = outer

    def clamp(self, value: Register, limit: Register, most: int, share: float) -> None:
        """Clamp a signed word to 0 to ``most``, which ``limit`` contains.

        One instruction for values inside. The others, of which ``share`` are expected, are made
        right out of line: 0 below, all bits set above, of which ``most`` keeps what it has; a byte
        needs no mask.
        """
        fix, back = self._label(), self._label()
        m, v = value.machine, value.variable
        self._emit(
            f"bltu {limit.machine}, {m}, {fix}", f"if ({limit.variable} < {v}) {{ goto {fix}; }}"
        )
        self._lines.append((f"{back}:", f"{back}:;"))
        behind = [
            (f"srai {m}, {m}, 31", f"{v} = hil_riscv_sra({v}, 31);"),
            (f"not {m}, {m}", f"{v} = ~{v};"),
            (f"andi {m}, {m}, {most}", f"{v} &= {most}U;"),
            (f"j {back}", f"goto {back};"),
        ]
        if most == _BYTE:
            del behind[2]
        self._behind.append((f"{fix}:", f"{fix}:;"))
        self._behind += [(f"    {a}", f"    {c}") for a, c in behind]
        self._count += self._times * share * len(behind)
        self._static += len(behind)

    def clamp_between(self, value: Register, low: Register, high: Register, share: float) -> None:
        """Clamp a signed word to the range of two words: two instructions for values inside. Of the
        others ``share`` are expected.
        """
        for a, b, bound in ((value, low, low), (high, value, high)):
            fix, back = self._label(), self._label()
            self._emit(
                f"blt {a.machine}, {b.machine}, {fix}",
                f"if ((int32_t){a.variable} < (int32_t){b.variable}) {{ goto {fix}; }}",
            )
            self._lines.append((f"{back}:", f"{back}:;"))
            self._behind.append((f"{fix}:", f"{fix}:;"))
            self._behind += [
                (
                    f"    mv {value.machine}, {bound.machine}",
                    f"    {value.variable} = {bound.variable};",
                ),
                (f"    j {back}", f"    goto {back};"),
            ]
            self._count += self._times * share
            self._static += 2

    def raise_to(self, largest: Register, value: Register) -> None:
        """Make a signed word the larger of itself and another, which it is half of the times."""
        label = self._label()
        self._emit(
            f"bge {largest.machine}, {value.machine}, {label}",
            f"if ((int32_t){largest.variable} >= (int32_t){value.variable}) {{ goto {label}; }}",
        )
        self.move(largest, value)
        self._count -= self._times / 2
        self._lines.append((f"{label}:", f"{label}:;"))

    # -- RV32F ------------------------------------------------------------------------------------

    def load_float(self, to: Register, offset: int, base: Register) -> None:
        """Load a float."""
        assert -LARGEST_OFFSET <= offset <= LARGEST_OFFSET, offset
        self._emit(
            f"flw {to.machine}, {offset}({base.machine})",
            f"{to.variable} = hil_riscv_flw({base.variable} + {offset});",
        )

    def store_float(self, value: Register, offset: int, base: Register) -> None:
        """Store a float."""
        assert 0 <= offset <= LARGEST_OFFSET, offset
        self._emit(
            f"fsw {value.machine}, {offset}({base.machine})",
            f"hil_riscv_fsw({base.variable} + {offset}, {value.variable});",
        )

    def zero_float(self, to: Register) -> None:
        """Load 0.0."""
        self._emit(f"fmv.w.x {to.machine}, zero", f"{to.variable} = 0.0F;")

    def float_constant(self, to: Register, value: float, bits: Register) -> None:
        """Load a constant by way of a word, which is overwritten."""
        self.constant(bits, struct.unpack("<i", struct.pack("<f", value))[0])
        self._emit(
            f"fmv.w.x {to.machine}, {bits.machine}",
            f"{to.variable} = hil_riscv_fmv({bits.variable});",
        )

    def operate_floats(self, mnemonic: str, to: Register, a: Register, b: Register) -> None:
        """Compute ``fadd`` or ``fmul``, each rounded by itself."""
        sign = {"fadd": "+", "fmul": "*"}[mnemonic]
        self._emit(
            f"{mnemonic}.s {to.machine}, {a.machine}, {b.machine}",
            f"{to.variable} = {a.variable} {sign} {b.variable};",
        )

    def bound_float(
        self, value: Register, limit: Register, below: bool, flag: Register, share: float
    ) -> None:
        """Replace a float below a limit, or else above, by it; what is not a number stays. Two
        instructions for values inside; of the others ``share`` are expected.
        """
        less, more = (value, limit) if below else (limit, value)
        self._emit(
            f"flt.s {flag.machine}, {less.machine}, {more.machine}",
            f"{flag.variable} = {less.variable} < {more.variable} ? 1U : 0U;",
        )
        fix, back = self._label(), self._label()
        self._emit(f"bnez {flag.machine}, {fix}", f"if ({flag.variable} != 0U) {{ goto {fix}; }}")
        self._lines.append((f"{back}:", f"{back}:;"))
        self._behind += [
            (f"{fix}:", f"{fix}:;"),
            (
                f"    fmv.s {value.machine}, {limit.machine}",
                f"    {value.variable} = {limit.variable};",
            ),
            (f"    j {back}", f"    goto {back};"),
        ]
        self._count += self._times * share * 2
        self._static += 2

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    # -- what was written -------------------------------------------------------------------------

    @property
    def _restored(self) -> list[str]:
        everything = (*_REGISTERS, *_FLOAT_REGISTERS)
        return [name for name in everything if name in self._used & _SAVED]

    @property
    def instructions(self) -> float:
        """Instructions of a call: prologue, epilogue and return included, the call itself not."""
        frame = 2 * len(self._restored) + (2 if self._restored or self._slots else 0)
        # The caller stores what this function loads from its stack.
        return self._count + frame + 2 * len(self.arguments[_PASSED:]) + 1

    @property
    def code_bytes(self) -> int:
        """Bytes of code, about."""
        passed = len(self.arguments[_PASSED:])
        return round(_BYTES * (self._static + 2 * len(self._restored) + passed + 3))

    def text(self) -> str:
        """Return the definition in C: assembly for RISC-V, C for every other core. Nothing is
        written after it.
        """
        return self._text

    @cached_property
    def _text(self) -> str:
        declared = [f"{_C_TYPES[kind]}{name}" for name, kind in self.parameters]
        # The body of a naked function is assembly alone, which names no parameter.
        unused = [f"{parameter} __attribute__((unused))" for parameter in declared]
        return (
            "#if defined(__riscv) && __riscv_xlen == 32\n\n"
            f"__attribute__((naked, noinline, unused)) static void\n{self.name}(\n"
            f"    {self._joined(unused)}) {{\n"
            f"    __asm__(\n{self._assembly()}    );\n}}\n\n#else\n\n"
            f"__attribute__((noinline, unused)) static void\n{self.name}(\n"
            f"    {self._joined(declared)}) {{\n{self._c()}}}\n\n#endif\n"
        )

    @staticmethod
    def _joined(parameters: Sequence[str]) -> str:
        return ",\n    ".join(parameters)

    def _assembly(self) -> str:
        slots = {name: 4 * i for i, name in enumerate(self._slots)}
        saved = self._restored
        own = 4 * len(slots)
        frame = -(-(own + 4 * len(saved)) // _STACK_ALIGNMENT) * _STACK_ALIGNMENT
        head = [".option push"]
        head += [f".option arch, +{name}" for name in self.extensions]
        tail = []
        if frame:
            head.append(f"addi sp, sp, -{frame}")
            at = [(name, own + 4 * i) for i, name in enumerate(saved)]
            head += [f"{_prefix(name)}sw {name}, {offset}(sp)" for name, offset in at]
            tail += [f"{_prefix(name)}lw {name}, {offset}(sp)" for name, offset in at]
            tail.append(f"addi sp, sp, {frame}")
        for i, argument in enumerate(self.arguments[_PASSED:]):
            head.append(f"lw {argument.machine}, {frame + 4 * i}(sp)")
        tail.append("ret")
        lines = [f"    {line}" for line in head]
        lines += [line.format_map(slots) for line, _ in self._lines]
        lines += [f"    {line}" for line in tail]
        lines += [line for line, _ in self._behind]
        lines.append("    .option pop")
        # Labels are local to the function: a static one of another name has its own.
        return "".join(f'        "{self._local(line.strip())}\\n"\n' for line in lines)

    def _local(self, line: str) -> str:
        if "L" not in line:
            # As most lines: instructions are in small letters.
            return line
        words = [
            f".L{self.name}_{word}" if self._is_label(word.rstrip(":")) else word
            for word in line.split(" ")
        ]
        return " ".join(words)

    @staticmethod
    def _is_label(word: str) -> bool:
        return word[:1] == "L" and word[1:].isdigit()

    def _c(self) -> str:
        lines = [*(line for _, line in self._lines), "    return;"]
        lines += [line for _, line in self._behind]
        # A register may have been given out in vain.
        used = set(re.findall(r"\w+", " ".join(lines)))
        own = {name for name, _ in self.parameters}
        declarations = [
            f"    {_C_TYPES[kind]}{name} = 0;"
            for name, kind in self._variables.items()
            if name in used - own
        ]
        declarations += [
            f"    {_C_TYPES[kind]}stack_{name} = 0;" for name, kind in self._slots.items()
        ]
        declarations += [f"    {line}" for line in self.locals]
        return "".join(f"{line}\n" for line in (*declarations, *lines))


@dataclass
class Moving:
    """An address that moves to where the offset of an instruction does not reach from it."""

    function: Function
    base: Register
    #: It may be overwritten when the address moves.
    scratch: Register
    _moved: int = field(default=0, init=False)

    def reach(self, place: int) -> int:
        """Return the offset of a place, counted from the first address."""
        if not 0 <= place - self._moved <= LARGEST_OFFSET:
            self.move(place)
        return place - self._moved

    def move(self, place: int) -> None:
        """Move the address to a place."""
        self.function.step(self.base, place - self._moved, self.scratch)
        self._moved = place


def _prefix(machine: str) -> str:
    """Return what distinguishes a load or store of a register: ``f`` for floats."""
    return "f" if machine in _FLOAT_REGISTERS else ""
