"""Which instructions an inference executes, and how many cycles the core would take for them.

QEMU counts instructions, not cycles. Here it also writes down which blocks of code it runs, while
one inference is under way; with the disassembly of each block, which QEMU prints when it first
translates it, that is every executed instruction. To these the cycles are applied that Arm
publishes for the core (the table ``cycles`` of its description), for memory without wait states.
What Arm leaves open, such as the refill of the pipeline after a branch, makes the estimate a range.
A chip takes more, mostly for its flash. Where the cycles of a chip were published, the core's
description has its flash and how far such estimates were off (the table ``cycles.chip``); then its
reads of the flash are counted, too. Arm publishes no such table for a core that executes two
instructions at a time.
"""

from __future__ import annotations

import contextlib
import functools
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
from hil.board.machine import machine_words
from hil.device.session import open as open_device
from hil.errors import InputError, LinkError
from hil.results.bench import ChipEstimate, CycleEstimate
from hil.support.poll import is_readable
from hil.verify import flash_reads
from hil.verify.flash_reads import FlashReads
from hil.verify.samples import Sample, random_sample
from hilc.artifact.library import ModelLibrary, Module
from hilc.support.temporary import TemporaryFolder
from hilc.target.cores import Cpu, TimedChip, Timing, cpu_names, get_cpu

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
#: The end of a block that calls a function; of RISC-V, whose traces are read by measurements, too.
_CALL = re.compile(r"blx? |jalr? +ra,")
_BRANCH = re.compile(rf"(b|bl|bx|blx){_CONDITION}$|cbn?z$|tb[bh]$")


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
        """Number of all instructions."""
        return self.loads + self.stores + self.multiplies + self.other + self.branches


@dataclass(frozen=True)
class Estimate:
    """Executed instructions of one inference, and the estimated cycles of the core."""

    mix: Mix
    #: With the fastest and the slowest timing that the table permits.
    cycles: tuple[int, int]
    #: Name of the core; the source of its timing, and the assumptions.
    core: str
    source: str
    assumes: str
    #: The chip, and its reads of the flash; None where they were not counted.
    on_chip: tuple[TimedChip, FlashReads] | None = None

    @property
    def chip(self) -> ChipEstimate | None:
        """The estimate for a chip."""
        if self.on_chip is None:
            return None
        chip, reads = self.on_chip
        least, most = (cycles + reads.wait_cycles(chip) for cycles in self.cycles)
        low, high = chip.percent
        return ChipEstimate(
            cycles={"from": least, "to": most},
            expected={"from": least * low // 100, "to": -(-most * high // 100)},
            flash_reads={"fetches": reads.fetches, "data": reads.data},
            chip=chip.name,
            flash_waits=chip.waits,
            source=chip.source,
        )

    def entry(self) -> CycleEstimate:
        """Return the estimate as results have it."""
        return CycleEstimate(
            cycles={"from": self.cycles[0], "to": self.cycles[1]},
            mix=asdict(self.mix),
            core=self.core,
            source=self.source,
            assumes=self.assumes,
            chip=self.chip,
        )


def check_estimable(board: Board) -> None:
    """Raise for a board whose core has no published timing, or that QEMU does not emulate."""
    if not _timing(board.cpu):
        timed = [name for name in cpu_names() if _timing(get_cpu(name))]
        raise InputError(
            f"cycles are estimated for {', '.join(timed)}; {board.name} has a {board.cpu.name}, "
            "for which no cycles of every instruction are published",
            "leave --cycles out; a real board and the boards rtl-* count their cycles",
        )
    if board.qemu is None:
        raise InputError(
            f"{board.name} does not run in QEMU, which counts the instructions",
            "a real board counts its cycles itself: leave --cycles out",
        )


def _timing(cpu: Cpu) -> Timing | None:
    """Return the timing of a core whose disassembly this module reads."""
    return cpu.timing if cpu.isa == "arm" else None


def estimate_cycles(
    board: Board, libraries: Sequence[ModelLibrary], module: Module, *, seed: int, workspace: str,
    sample: Sample | None = None,
) -> Estimate:  # fmt: skip
    """Return the estimate of ``module`` for the input of :func:`hil.bench.bench`, in a separate
    QEMU.

    Raise :class:`LinkError` if the trace and the counter have different numbers of instructions.
    """
    check_estimable(board)
    if module.fed_rows:
        raise InputError(
            f"the layers of {module.name!r} compute as rows come, and cycles are estimated for a "
            "run alone",
            "give the input as a whole (--feed whole), or leave --cycles out",
        )
    given = random_sample(module.inputs, seed, 0) if sample is None else sample
    function = f"{module.symbol}_run"
    with (
        traced(board, function) as (traced_board, trace),
        open_device(traced_board, *libraries, runner="qemu", workspace=workspace) as device,
    ):
        assert device.firmware is not None
        trace.watch(device.firmware.elf, function)
        model = device[module.name]
        for name, array in given.items():
            model.set_input(name, array)
        counted = device.count(model.run().ticks)
        result = estimate(trace.runs(), board.cpu)
        if traced_board.qemu is not None and traced_board.qemu.plugin:
            result = with_chip(result, trace, board.cpu)
    if not 0 <= counted - result.mix.total <= _MOST_AROUND:
        raise LinkError(
            f"QEMU's trace has {result.mix.total:,} instructions, but {counted:,} were counted",
            "try again: a request that was repeated meanwhile disturbs the trace",
        )
    return result


def with_chip(result: Estimate, trace: Trace, cpu: Cpu) -> Estimate:
    """Return the estimate with the reads of the flash that the trace has.

    Raise :class:`LinkError` if they were counted over another number of instructions.
    """
    timing, reads = _timing(cpu), trace.flash_reads
    assert timing is not None
    assert timing.chip is not None
    if reads is None or reads.instructions != result.mix.total:
        counted = 0 if reads is None else reads.instructions
        raise LinkError(
            f"QEMU's trace has {result.mix.total:,} instructions, and its plugin counted "
            f"{counted:,}",
            "try again: a request that was repeated meanwhile disturbs the trace",
        )
    return replace(result, on_chip=(timing.chip, reads))


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


def block_cycles(block: Sequence[Instruction], timing: Timing) -> tuple[int, int]:
    """Return the fewest and most cycles of a block whose last instruction does not branch."""
    costs = [
        _cost(instruction, before, timing)
        for before, instruction in zip((None, *block), block, strict=False)
    ]
    return sum(low for low, _ in costs), sum(high for _, high in costs)


def _cost(instruction: Instruction, before: Instruction | None, timing: Timing) -> tuple[int, int]:
    name, operands = instruction.mnemonic, instruction.operands
    if "{" in operands and name.startswith(("ldm", "stm", "push", "pop", "v")):
        cycles = 1 + _registers(operands) + (timing.list_branch if _loads_pc(instruction) else 0)
    elif slow := _slow(name, timing):
        return slow
    elif timing.overlaps and _SINGLE_STORE.match(name) and _offset_register(operands) is None:
        # Its data is stored while the next instruction executes.
        cycles = 1
    elif _SINGLE_LOAD.match(name) or _SINGLE_STORE.match(name):
        overlaps = timing.overlaps and before is not None and _follows(instruction, before)
        cycles = 1 if overlaps else timing.access
    else:
        cycles = 1
    return cycles, cycles


@functools.cache
def _slow(name: str, timing: Timing) -> tuple[int, int] | None:
    """Return the cycles of an instruction that the table names, also with a condition behind it."""
    for entry in timing.slow:
        if re.match(rf"({'|'.join(map(re.escape, entry.mnemonics))}){_CONDITION}(\.|$)", name):
            return entry.cycles
    return None


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


def estimate(runs: Iterable[tuple[Sequence[Instruction], int | None, int]], cpu: Cpu) -> Estimate:
    """Return the counts of ``runs``: a block, the address that was executed next, and how often."""
    timing = _timing(cpu)
    assert timing is not None
    kinds: Counter[str] = Counter()
    low = high = 0
    for block, following, count in runs:
        for instruction in block:
            kinds[kind(instruction)] += count
        fewest, most = block_cycles(block, timing)
        last = block[-1]
        is_branch = kind(last) == "branches" or _loads_pc(last)
        # A block may also end because of its length; the next one continues there.
        if is_branch and following != last.address + last.size:
            fewest, most = fewest + timing.refill[0], most + timing.refill[1]
        low, high = low + count * fewest, high + count * most
    return Estimate(Mix(**kinds), (low, high), cpu.title, timing.source, timing.assumes)


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
        #: Reads of the flash by the function; None until the plugin has written them.
        self.flash_reads: FlashReads | None = None

    def watch(self, elf: Path, symbol: str) -> None:
        """Set the function, before the firmware calls it.

        Raise :class:`InputError` if the ELF file has no such function.
        """
        with elf.open("rb") as stream:
            table: Any = ELFFile(stream).get_section_by_name(".symtab")
            found = table.get_symbol_by_name(symbol) if table else None
            if not found:
                raise InputError(f"{elf} has no function {symbol}", "compile the model again")
            self._entry = found[0]["st_value"] & ~1

    def runs(self) -> list[tuple[Sequence[Instruction], int | None, int]]:
        """Return what was executed, as :func:`estimate` takes it, once the function has
        returned.
        """
        if not self._done.wait(_TRACE_TIMEOUT_S):
            raise LinkError(
                f"QEMU's trace did not reach the end of the run within {_TRACE_TIMEOUT_S:g} s",
                "try again on a computer that is less busy",
            )
        return [
            (self._blocks[key], following, count) for (key, following), count in self._runs.items()
        ]

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
        elif (reads := flash_reads.parsed(line)) is not None:
            self.flash_reads = reads

    def _translate(self, line: bytes) -> None:
        match = _INSTRUCTION.match(line)
        if match is None:
            return
        instruction = Instruction(
            int(match[1], 16),
            len(match[2].replace(b" ", b"")) // 2,
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
        elif _CALL.match(f"{block[-1].mnemonic} {block[-1].operands}"):
            # In the caller of the function, unless another call follows.
            self._after_call = block[-1].address + block[-1].size


@contextlib.contextmanager
def traced(board: Board, function: str) -> Iterator[tuple[Board, Trace]]:
    """Open a trace; yield ``board`` with a QEMU that writes the trace, and its reader.

    Reads of the flash by ``function`` are counted where the core has a chip to compare with, the
    board one region of flash, QEMU plugins, and this computer a C compiler.
    """
    assert board.qemu is not None
    timing, host = _timing(board.cpu), get_cpu("host").toolchain
    trace, ended = Trace(), threading.Event()
    with TemporaryFolder("trace") as folder:
        # A pipe: the text is large, and is read while it is written.
        path = Path(folder) / "qemu.log"
        os.mkfifo(path)
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        reader = threading.Thread(target=_read, args=(pipe, trace, ended), daemon=True)
        reader.start()
        try:
            qemu = replace(board.qemu, trace=str(path))
            chip = timing.chip if timing is not None else None
            api = None
            if chip is not None and len(board.regions("flash")) == 1:
                program = machine_words(board)[0]
                api = flash_reads.api_version(program, host, Path(folder))
            if chip is not None and api is not None:
                plugin = flash_reads.built(api, host, Path(folder))
                words = flash_reads.arguments(plugin, chip, board, function)
                qemu = replace(qemu, plugin=words)
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
