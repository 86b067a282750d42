#!/usr/bin/env python3
"""Holds cycles that are estimated from a trace against cycles of the same code on a core's RTL.

``hil bench --cycles`` applies the manual's table to a trace of QEMU. The RTL of a Cortex-M is not
at hand; that of cores with such a table in their documents is. So the same method, with their
tables, is held against their RTL. Writes docs/explanation/cycles.md; results are kept in
``build/method.json`` until ``--fresh``. Exit code 1 where a result is missing.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from marked import replaced, table
from steps import ROOT, Result, Results, Step, compiled, run_steps

import hil
from hil.bench import bench
from hil.board import load_board
from hil.verify.cycles import Instruction, traced
from hil.verify.samples import random_sample
from hilc.artifact.library import ModelLibrary
from hilc.support.suggest import counted

PAGE = ROOT / "docs" / "explanation" / "cycles.md"
RESULTS = ROOT / "build" / "method.json"
MODELS = ("ad", "kws")
#: The simulators: as the documented pipelines are.
RUNNERS = {
    "rtl-ibex": "verilator:multiplier=single,branch_target_alu=true,writeback=false",
    "rtl-cv32e40p": "verilator",
}
_JUMPS = re.compile(r"(j|jal|jalr|jr|ret)$")
_BRANCHES = re.compile(r"b(eq|ne|lt|ge|ltu|geu|eqz|nez|lez|gez|ltz|gtz|gt|le|gtu|leu)$")
_LOADS = re.compile(r"l(b|h|w|bu|hu)$")
_STORES = re.compile(r"s[bhw]$")

Run = tuple[Sequence[Instruction], "int | None", int]
Range = tuple[int, int]


def ibex(instruction: Instruction, before: Instruction | None, taken: bool) -> Range:
    """Cycles by Ibex's "Pipeline Details", for two stages, the single-cycle multiplier and the
    branch target ALU.
    """
    del before
    name = instruction.mnemonic
    if _LOADS.match(name) or _STORES.match(name) or _JUMPS.match(name) or taken:
        return 2, 2
    if name.startswith("mulh"):
        return 2, 2
    return (2, 38) if name.startswith(("div", "rem")) else (1, 1)


def cv32e40p(instruction: Instruction, before: Instruction | None, taken: bool) -> Range:
    """Cycles by CV32E40P's "Pipeline Details": a jump or branch takes one more to a 32-bit
    instruction that is not aligned, and the use of what was loaded just before one more.
    """
    name = instruction.mnemonic
    waits = before is not None and _uses_loaded(instruction, before)
    if _JUMPS.match(name):
        least, most = 2, 3
    elif taken:
        least, most = 3, 4
    elif name.startswith("mulh"):
        least, most = 5, 5
    elif name.startswith(("div", "rem")):
        least, most = 3, 35
    else:
        least, most = 1, 1
    return least + waits, most + waits


def _uses_loaded(instruction: Instruction, before: Instruction) -> bool:
    if not _LOADS.match(before.mnemonic):
        return False
    loaded = before.operands.partition(",")[0].strip()
    read = instruction.operands
    if not (_STORES.match(instruction.mnemonic) or _BRANCHES.match(instruction.mnemonic)):
        read = read.partition(",")[2]
    return re.search(rf"\b{loaded}\b", read) is not None


CORES: dict[str, Callable[[Instruction, Instruction | None, bool], Range]] = {
    "rtl-ibex": ibex,
    "rtl-cv32e40p": cv32e40p,
}


def estimated(
    runs: Iterable[Run], cost: Callable[[Instruction, Instruction | None, bool], Range]
) -> tuple[int, int, int]:
    """Return the instructions, and the fewest and most cycles of a trace."""
    instructions = low = high = 0
    for block, following, count in runs:
        before = None
        for instruction in block:
            is_last = instruction is block[-1]
            is_branch = _BRANCHES.match(instruction.mnemonic) is not None
            falls = following == instruction.address + instruction.size
            least, most = cost(instruction, before, is_last and is_branch and not falls)
            low, high = low + least * count, high + most * count
            before = instruction
        instructions += count * len(block)
    return instructions, low, high


def trace_of(library: ModelLibrary, board: str) -> list[Run]:
    """Return the trace of an inference in QEMU."""
    described = replace(load_board("riscv-virt"), cpu=load_board(board).cpu)
    (module,) = library.modules
    function = f"{module.symbol}_run"
    with (
        traced(described, function) as (traced_board, trace),
        hil.open(traced_board, library, runner="qemu") as device,
    ):
        assert device.firmware is not None
        trace.watch(device.firmware.elf, function)
        model = device[module.name]
        for name, array in random_sample(module.inputs, 0, 0).items():
            model.set_input(name, array)
        model.run()
        return list(trace.runs())


def compared(board: str, model: str) -> Result:
    """Return estimated and simulated cycles of a model."""
    library = compiled(model, load_board(board).cpu.name, optimize="speed")
    instructions, low, high = estimated(trace_of(library, board), CORES[board])
    with hil.open(board, library, runner=RUNNERS[board]) as device:
        (simulated,) = bench(device, library.modules[0], runs=1, warmup=0).simulated
    return {
        "ok": True, "instructions": instructions, "low": low, "high": high,
        "cycles": simulated.cycles, "retired": simulated.instructions,
    }  # fmt: skip


def main() -> int:
    """Measure what is not known, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="measure all again")
    args = parser.parse_args()
    results = Results(RESULTS, args.fresh)
    steps = [Step(f"{b} {m}", partial(compared, b, m)) for b in RUNNERS for m in MODELS]
    known = {name for name, result in results.steps.items() if result["ok"]}
    run_steps([step for step in steps if step.name not in known], results, 1, "model")
    wrong = [step.name for step in steps if not results.steps[step.name]["ok"]]
    if wrong:
        print(f"{counted(len(wrong), 'result')} missing: {', '.join(wrong)}")
        return 1
    rows = []
    for step in steps:
        found = results.steps[step.name]
        low, high, cycles = found["low"], found["high"], found["cycles"]
        rows.append(
            [
                *(f"`{word}`" for word in step.name.split()),
                f"{found['instructions']:,}",
                f"{found['retired']:,}",
                f"{low:,} to {high:,}",
                f"{cycles:,}",
                f"{low / cycles:.3f} to {high / cycles:.3f}",
            ]
        )
    header = ["core", "model", "in the trace", "retired", "estimate", "RTL", "estimate / RTL"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replaced(text, "method", table(header, rows, "---:")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
