"""Which instructions an inference executes, and how long a Cortex-M4 would take for them.

QEMU counts instructions, not cycles. Here it also writes down which blocks of code it runs, while
one inference is under way; with the disassembly of each block, which QEMU prints when it first
translates it, that is every executed instruction. To these the costs are applied that Arm documents
for the core (Cortex-M4 Processor Technical Reference Manual, DDI 0439, tables of the instruction
set with cycle counts, and what it says of loads and stores in a row), for memory without wait
states. What the manual leaves open, the refill of the pipeline after a branch (1 to 3 cycles) and a
division (2 to 12), makes the estimate a range.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from hil.board import Board
from hil.device.session import open as open_device
from hil.errors import InputError, LinkError
from hil.support.ready import is_readable
from hil.verify.samples import Sample, random_sample
from hilc.artifact.library import ModelLibrary, Module
from hilc.support.temporary import TemporaryFolder

#: The core of these costs.
CORE = "cortex-m4"
_REFILL = (1, 3)
_DIVISION = (2, 12)
#: Time limit for the rest of the trace after the end of the run.
_TRACE_TIMEOUT_S = 60.0
_POLL_S = 0.1
#: Instructions around the call of the model that are counted too: the model's glue, the clock.
_MOST_AROUND = 100

# Lines of QEMU's log: the instructions of a block before its first run, a line before each run, and
# one if it did not run after all because of a timer.
_INSTRUCTION = re.compile(rb"0x([0-9a-f]{8}):  ((?:[0-9a-f]{4} ?){1,2}) *(\S+) *(.*)")
_BLOCK = re.compile(rb"Trace \d+: 0x[0-9a-f]+ \[([0-9a-f]+/([0-9a-f]+)/[^]]*)\]")
_NOT_RUN = b"Stopped execution of TB chain"

_CONDITION = "(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?"
_SINGLE_LOAD = re.compile(rf"ldrs?[bh]?t?{_CONDITION}$")
_SINGLE_STORE = re.compile(rf"str[bh]?t?{_CONDITION}$")
_MULTIPLY = re.compile(r"(mul|mla|mls|smul|smla|smls|smm|smu|sml|umull|umlal|umaal|usad)")
_BRANCH = re.compile(rf"(b|bl|bx|blx){_CONDITION}$|cbn?z$|tb[bh]$")
_SLOW_FLOAT = {"vdiv": 14, "vsqrt": 14, "vmla": 3, "vmls": 3, "vnmla": 3, "vnmls": 3}
_SLOW_FLOAT |= dict.fromkeys(("vfma", "vfms", "vfnma", "vfnms"), 3)


@dataclass(frozen=True)
class Instruction:
    """One line of a disassembly."""

    address: int
    size: int
    #: Without the suffix for its width.
    mnemonic: str
    operands: str


@dataclass(frozen=True)
class Mix:
    """Number of executed instructions by kind."""

    loads: int = 0
    stores: int = 0
    #: Multiplications, with and without accumulation, of one pair or two.
    multiplies: int = 0
    other: int = 0
    branches: int = 0

    @property
    def total(self) -> int:
        return self.loads + self.stores + self.multiplies + self.other + self.branches


@dataclass(frozen=True)
class Estimate:
    """Executed instructions of one inference, and the estimated cycles of the core."""

    mix: Mix
    #: With the fastest and the slowest timing that the manual permits.
    cycles: tuple[int, int]

    def json(self) -> dict[str, Any]:
        return {"mix": asdict(self.mix), "cycles": {"from": self.cycles[0], "to": self.cycles[1]}}


def check_estimable(board: Board) -> None:
    """Raise for a board whose core has other costs, or none that Arm documents."""
    if board.cpu.name != CORE:
        raise InputError(
            f"cycles are estimated for a {CORE}; {board.name} has a {board.cpu.name}, for which "
            "these costs do not hold",
            "measure on a board with that core, as mps2-an386, or leave --cycles out",
        )
    if board.qemu is None:
        raise InputError(
            f"{board.name} does not run in QEMU, which tells what is executed",
            "a real board counts its cycles itself: leave --cycles out",
        )


def estimate_cycles(
    board: Board, libraries: Sequence[ModelLibrary], module: Module, *, seed: int, workspace: str,
    sample: Sample | None = None,
) -> Estimate:  # fmt: skip
    """Return the estimate of ``module`` for the input of :func:`hil.bench.bench`, in a separate
    QEMU.

    Raises :class:`LinkError` where the trace has not as many instructions as were counted.
    """
    check_estimable(board)
    given = random_sample(module.inputs, seed, 0) if sample is None else sample
    with (
        traced(board) as (traced_board, trace),
        open_device(traced_board, *libraries, runner="qemu", workspace=workspace) as device,
    ):
        assert device.firmware is not None
        trace.watch(device.firmware.elf, f"{module.symbol}_run")
        model = device[module.name]
        for name, array in given.items():
            model.set_input(name, array)
        counted = device.count(model.run().ticks)
        result = trace.result()
    if not 0 <= counted - result.mix.total <= _MOST_AROUND:
        raise LinkError(
            f"QEMU's trace has {result.mix.total:,} instructions, but {counted:,} were counted",
            "try again: a request that was repeated meanwhile disturbs the trace",
        )
    return result


# -- costs -------------------------------------------------------------------------------------


def kind(instruction: Instruction) -> str:
    """Return the field of :class:`Mix` that counts the instruction."""
    name = instruction.mnemonic
    if _BRANCH.match(name):
        return "branches"
    if name.startswith(("ldr", "ldm", "pop", "vldr", "vldm", "vpop")):
        return "loads"
    if name.startswith(("str", "stm", "push", "vstr", "vstm", "vpush")):
        return "stores"
    if _MULTIPLY.match(name) or name.startswith(("vmul", "vnmul", "vmla", "vmls", "vfm", "vfnm")):
        return "multiplies"
    return "other"


def block_cycles(block: Sequence[Instruction]) -> tuple[int, int]:
    """Return the fewest and most cycles of a block whose last instruction does not branch."""
    costs = [
        _cost(instruction, before)
        for before, instruction in zip((None, *block), block, strict=False)
    ]
    return sum(low for low, _ in costs), sum(high for _, high in costs)


def _cost(instruction: Instruction, before: Instruction | None) -> tuple[int, int]:
    name, operands = instruction.mnemonic, instruction.operands
    if name in ("sdiv", "udiv"):
        return _DIVISION
    if "{" in operands and name.startswith(("ldm", "stm", "push", "pop", "v")):
        cycles = 1 + _registers(operands)
    elif name.startswith(("ldrd", "strd")):
        cycles = 3
    elif name.startswith(("vldr", "vstr")):
        cycles = 2
    elif _SINGLE_STORE.match(name) and _offset_register(operands) is None:
        # Its data is stored while the next instruction executes.
        cycles = 1
    elif _SINGLE_LOAD.match(name) or _SINGLE_STORE.match(name):
        cycles = 1 if before is not None and _follows(instruction, before) else 2
    elif name.startswith(("tbb", "tbh", "mrs", "msr")):
        cycles = 2
    else:
        cycles = _SLOW_FLOAT.get(name.partition(".")[0], 1)
    return cycles, cycles


def _follows(instruction: Instruction, before: Instruction) -> bool:
    """Return whether its address phase overlaps with the data phase of the access before."""
    if _SINGLE_STORE.match(before.mnemonic):
        return True
    if not _SINGLE_LOAD.match(before.mnemonic):
        return False
    loaded = before.operands.partition(",")[0].strip()
    address = instruction.operands.partition("[")[2]
    return re.search(rf"\b{re.escape(loaded)}\b", address) is None


def _offset_register(operands: str) -> str | None:
    inside = operands.partition("[")[2].partition("]")[0].split(",")
    second = inside[1].strip() if len(inside) > 1 else "#"
    return None if second.startswith("#") else second


def _registers(operands: str) -> int:
    """Return the number of registers in a list; those of double precision count twice."""
    count = 0
    for part in operands.partition("{")[2].partition("}")[0].split(","):
        first, _, last = part.strip().partition("-")
        span = int(last[1:]) - int(first[1:]) + 1 if last else 1
        count += span * (2 if first.startswith("d") else 1)
    return count


def _loads_pc(instruction: Instruction) -> bool:
    """Return whether it branches by loading, moving or adding to the program counter."""
    written = instruction.operands
    if instruction.mnemonic.startswith(("pop", "ldm")):
        return re.search(r"\bpc\b", written.partition("{")[2]) is not None
    return written.partition(",")[0].strip() == "pc"


def estimate(runs: Iterable[tuple[Sequence[Instruction], int | None, int]]) -> Estimate:
    """Return the counts of ``runs``: a block, the address that was executed next, and how often."""
    kinds: Counter[str] = Counter()
    low = high = 0
    for block, following, count in runs:
        for instruction in block:
            kinds[kind(instruction)] += count
        fewest, most = block_cycles(block)
        last = block[-1]
        is_branch = kind(last) == "branches" or _loads_pc(last)
        # A block may also end because of its length; the next one continues there.
        if is_branch and following != last.address + last.size:
            fewest, most = fewest + _REFILL[0], most + _REFILL[1]
        low, high = low + count * fewest, high + count * most
    return Estimate(Mix(**kinds), (low, high))


# -- trace -------------------------------------------------------------------------------------


class Trace:
    """Trace of the first call of a function, read while QEMU writes it."""

    def __init__(self) -> None:
        self._entry: int | None = None
        self._blocks: dict[bytes, tuple[Instruction, ...]] = {}
        self._pending: dict[int, list[Instruction]] = {}
        self._translated: list[Instruction] = []
        #: Block that was announced last, which a timer may have prevented.
        self._announced: bytes | None = None
        #: Block before, inside of the function; and the function's return address.
        self._before: bytes | None = None
        self._after_call: int | None = None
        self._runs: Counter[tuple[bytes, int]] = Counter()
        self._done = threading.Event()

    def watch(self, elf: Path, symbol: str) -> None:
        """Set the function, before the firmware calls it."""
        with elf.open("rb") as stream:
            table: Any = ELFFile(stream).get_section_by_name(".symtab")
            found = table.get_symbol_by_name(symbol) if table else None
            if not found:
                raise InputError(f"{elf} has no function {symbol}", "compile the model again")
            self._entry = found[0]["st_value"] & ~1

    def result(self) -> Estimate:
        """Return the estimate, once the function has returned."""
        if not self._done.wait(_TRACE_TIMEOUT_S):
            raise LinkError(
                f"QEMU's trace did not reach the end of the run within {_TRACE_TIMEOUT_S:g} s",
                "try again on a computer that is less busy",
            )
        return estimate(
            (self._blocks[key], following, count) for (key, following), count in self._runs.items()
        )

    def read_line(self, line: bytes) -> None:
        """Process the next line of QEMU's log."""
        if self._done.is_set():
            return
        if line.startswith(b"Trace"):
            self._run_announced()
            match = _BLOCK.match(line)
            if match is None:
                return
            key = match[1]
            if key not in self._blocks:
                self._blocks[key] = tuple(self._pending.pop(int(match[2], 16), ()))
            self._announced = key
        elif line.startswith(b"0x"):
            self._translate(line)
        elif line.startswith(b"IN:"):
            self._translated = []
        elif line.startswith(_NOT_RUN):
            self._announced = None

    def _translate(self, line: bytes) -> None:
        match = _INSTRUCTION.match(line)
        if match is None:
            return
        instruction = Instruction(
            int(match[1], 16),
            len(match[2].split()) * 2,
            match[3].decode().removesuffix(".w").removesuffix(".n"),
            match[4].decode().strip(),
        )
        if not self._translated:
            self._pending[instruction.address] = self._translated
        self._translated.append(instruction)

    def _run_announced(self) -> None:
        """Count the block that was announced last, since it ran."""
        key = self._announced
        if key is None or not (block := self._blocks[key]):
            return
        start = block[0].address
        if self._before is not None:
            self._runs[self._before, start] += 1
            if start == self._after_call:
                self._done.set()
            self._before = key
        elif start == self._entry:
            self._before = key
        elif block[-1].mnemonic in ("bl", "blx"):
            # In the caller of the function, unless another call follows.
            self._after_call = block[-1].address + block[-1].size


@contextlib.contextmanager
def traced(board: Board) -> Iterator[tuple[Board, Trace]]:
    """Open a trace; yield ``board`` with a QEMU that writes the trace, and its reader."""
    assert board.qemu is not None
    trace, ended = Trace(), threading.Event()
    with TemporaryFolder("trace") as folder:
        # A pipe: the text is large, and is read while it is written.
        path = Path(folder) / "qemu.log"
        os.mkfifo(path)
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        reader = threading.Thread(target=_read, args=(pipe, trace, ended), daemon=True)
        reader.start()
        arguments = ("-d", "in_asm,exec,nochain", "-D", str(path))
        qemu = replace(board.qemu, args=(*board.qemu.args, *arguments))
        try:
            yield replace(board, qemu=qemu), trace
        finally:
            ended.set()
            reader.join()
            os.close(pipe)


def _read(pipe: int, trace: Trace, ended: threading.Event) -> None:
    """Read lines until QEMU has ended; without a reader it would block for ever."""
    rest = b""
    while not ended.is_set():
        if not is_readable(pipe, _POLL_S):
            continue
        data = os.read(pipe, 1 << 20)
        if not data:
            # The other end is not open yet, or QEMU has ended.
            ended.wait(_POLL_S)
            continue
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            trace.read_line(line)
