"""What instructions cost, and what is read from QEMU's log."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hil.board import load_board
from hil.errors import InputError, LinkError
from hil.verify import cycles, flash_reads
from hil.verify.cycles import (
    Instruction,
    Mix,
    Trace,
    block_cycles,
    check_estimable,
    estimate,
    kind,
    traced,
    with_chip,
)
from hil.verify.flash_reads import FlashReads
from hilc.target.cores import Timing, get_cpu

M4 = get_cpu("cortex-m4")


def timing(name: str) -> Timing:
    found = get_cpu(name).timing
    assert found is not None
    return found


def block(text: str, address: int = 0x100) -> tuple[Instruction, ...]:
    """Instructions of 2 bytes each, one a line."""
    lines = [line.split(None, 1) for line in text.strip().splitlines()]
    return tuple(
        Instruction(address + 2 * i, 2, line[0], line[1] if len(line) > 1 else "")
        for i, line in enumerate(lines)
    )


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("adds r0, #1", 1),
        ("smlad r0, r1, r2, r0", 1),
        ("smlal r0, r1, r2, r3", 1),
        ("ldr r0, [r1]", 2),
        # The second's address phase runs beside the first's data phase ...
        ("ldr r0, [r1]\nldr r2, [r3, #4]\nldrsb r4, [r5]", 4),
        # ... unless it needs what the first loads.
        ("ldr r0, [r1]\nldr r2, [r0]", 4),
        ("ldr r0, [r1]\nadds r3, #1\nldr r2, [r1]", 5),
        ("str r0, [r1, #4]", 1),
        ("str r0, [r1, r2]", 2),
        ("str r0, [r1, #4]\nldr r2, [r3]", 2),
        ("ldrd r0, r1, [r2]", 3),
        ("ldm r0!, {r1, r2, r3}", 4),
        ("push.w {r4, r5, r6, lr}".replace(".w", ""), 5),
        ("pop {r4-r7}", 5),
        ("vldr s0, [r0]", 2),
        ("vldmia r0!, {d0-d1}", 5),
        ("vmla.f32 s0, s1, s2", 3),
        ("vmul.f32 s0, s1, s2", 1),
        ("vdiv.f32 s0, s1, s2", 14),
        ("mrs r0, apsr", 2),
    ],
)
def test_costs(text: str, cycles: int) -> None:
    assert block_cycles(block(text), timing("cortex-m4")) == (cycles, cycles)


@pytest.mark.parametrize(
    ("cpu", "text", "cycles"),
    [
        ("cortex-m0", "movs r0, #1", (1, 1)),
        ("cortex-m0", "ldr r0, [r1]\nldr r2, [r3]\nldr r4, [r2]", (6, 6)),
        ("cortex-m0", "strb r0, [r1, r2]", (2, 2)),
        ("cortex-m0", "bl #0x100", (2, 2)),
        ("cortex-m0", "ldm r0!, {r1, r2, r3}", (4, 4)),
        ("cortex-m0", "pop {r4-r7, pc}", (7, 7)),
        ("cortex-m0", "mrs r0, primask", (4, 4)),
        ("cortex-m0plus", "muls r0, r1, r0", (1, 1)),
        ("cortex-m0plus", "mrs r0, primask", (3, 3)),
        ("cortex-m3", "mla r0, r1, r2, r0", (2, 2)),
        ("cortex-m3", "smlal r0, r1, r2, r3", (4, 7)),
        ("cortex-m3", "smullne r0, r1, r2, r3", (3, 5)),
        ("cortex-m3", "ldr r0, [r1]\nldr r2, [r3]\nldr r4, [r2]", (5, 5)),
        ("cortex-m3", "bls #0x100", (1, 1)),
    ],
)
def test_costs_of_other_cores(cpu: str, text: str, cycles: tuple[int, int]) -> None:
    assert block_cycles(block(text), timing(cpu)) == cycles


def test_a_division_is_a_range() -> None:
    found = block_cycles(block("sdiv r0, r1, r2\nudiv r0, r1, r2"), timing("cortex-m4"))
    assert found == (4, 24)


@pytest.mark.parametrize(
    ("last", "following", "cycles"),
    [
        ("bne #0x80", 0x102, (1, 1)),
        ("bne #0x80", 0x80, (2, 4)),
        ("cbz r0, #0x80", 0x80, (2, 4)),
        ("bl #0x80", 0x80, (2, 4)),
        ("bx lr", 0x80, (2, 4)),
        ("pop {r4, pc}", 0x80, (4, 6)),
        ("ldr pc, [r0]", 0x80, (3, 5)),
        # No branch: the block only was long.
        ("adds r0, #1", 0x102, (1, 1)),
    ],
)
def test_refill_after_a_branch(last: str, following: int, cycles: tuple[int, int]) -> None:
    found = estimate([(block(last), following, 1), (block(last), following, 9)], M4)
    assert found.cycles == (10 * cycles[0], 10 * cycles[1])
    assert found.mix.total == 10


@pytest.mark.parametrize(
    ("cpu", "last", "cycles"),
    [
        ("cortex-m0", "bne #0x80", 3),
        ("cortex-m0", "bl #0x80", 4),
        ("cortex-m0", "pop {r4, pc}", 4 + 2),
        ("cortex-m0plus", "bne #0x80", 2),
        ("cortex-m0plus", "bl #0x80", 3),
        ("cortex-m0plus", "pop {r4, pc}", 3 + 2),
    ],
)
def test_branches_without_a_range(cpu: str, last: str, cycles: int) -> None:
    assert estimate([(block(last), 0x80, 1)], get_cpu(cpu)).cycles == (cycles, cycles)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("ldrsb", "loads"), ("ldm", "loads"), ("pop", "loads"), ("vldr", "loads")),
        *(("strd", "stores"), ("push", "stores"), ("vstmia", "stores")),
        *(("mul", "multiplies"), ("smlabt", "multiplies"), ("smmlar", "multiplies")),
        *(("umlal", "multiplies"), ("vfma.f32", "multiplies"), ("smuad", "multiplies")),
        *(("b", "branches"), ("ble", "branches"), ("bl", "branches"), ("blo", "branches")),
        *(("bhs", "branches"), ("cbnz", "branches"), ("bx", "branches"), ("tbb", "branches")),
        *(("bic", "other"), ("bfi", "other"), ("ssat", "other"), ("sxtb16", "other")),
        *(("mov", "other"), ("it", "other"), ("mvn", "other"), ("vadd.f32", "other")),
    ],
)
def test_kinds(name: str, expected: str) -> None:
    assert kind(Instruction(0, 2, name, "")) == expected


_LOG = """\
----------------
IN: measure
0x00000100:  4798       blx      r3

Trace 0: 0x7f01 [00800408/00000100/00000110/ff020200] measure
----------------
IN: tvmgen_net_run
0x00000200:  b510       push     {r4, lr}
0x00000202:  f7ff fffb  bl       #0x300

Trace 0: 0x7f02 [00800408/00000200/00000110/ff020200] tvmgen_net_run
----------------
IN: body
0x00000300:  f8d3 2d88  ldr.w    r2, [r3, #0xd88]
0x00000304:  3a01       subs     r2, #1
0x00000306:  d1fb       bne      #0x300

Trace 0: 0x7f03 [00800408/00000300/00000110/ff020200] body
Trace 0: 0x7f03 [00800408/00000300/00000110/ff020200] body
Stopped execution of TB chain before 0x7f03 [00000300] body
Trace 0: 0x7f03 [00800408/00000300/00000110/ff020200] body
----------------
IN: body
0x00000308:  4770       bx       lr

Trace 0: 0x7f04 [00800408/00000308/00000110/ff020200] body
----------------
IN: tvmgen_net_run
0x00000206:  bd10       pop      {r4, pc}

Trace 0: 0x7f05 [00800408/00000206/00000110/ff020200] tvmgen_net_run
----------------
IN: measure
0x00000102:  4770       bx       lr

Trace 0: 0x7f06 [00800408/00000102/00000110/ff020200] measure
Trace 0: 0x7f02 [00800408/00000200/00000110/ff020200] tvmgen_net_run
"""


def test_log(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    monkeypatch.setattr(trace, "_entry", 0x200)
    for line in _LOG.encode().splitlines():
        trace.read_line(line)
    found = estimate(trace.runs(), M4)
    # push, bl; twice ldr, subs, bne; bx; pop. The block that was stopped did not run then.
    assert found.mix == Mix(loads=3, stores=1, multiplies=0, other=2, branches=4)
    assert found.cycles[0] == (3 + 2) + (2 + 1 + 2) + (2 + 1 + 1) + 2 + 4


def test_log_of_risc_v() -> None:
    """It is read by measurements: sizes of instructions, and the call before the function."""
    lines = """\
IN: measure
0x80000000:  00002097          auipc           ra,8192
0x80000004:  0fc080e7          jalr            ra,ra,252

Trace 0: 0x7f01 [00000000/80000000/00103003/ff020000] measure
IN: net_run
0x80002100:  1141              addi            sp,sp,-16
0x80002102:  8082              ret

Trace 0: 0x7f02 [00000000/80002100/00103003/ff020000] net_run
IN: measure
0x80000008:  8082              ret

Trace 0: 0x7f03 [00000000/80000008/00103003/ff020000] measure
Trace 0: 0x7f01 [00000000/80000000/00103003/ff020000] measure
"""
    trace = Trace()
    trace._entry = 0x80002100
    for line in lines.encode().splitlines():
        trace.read_line(line)
    ((found, following, count),) = trace.runs()
    assert [(each.mnemonic, each.size) for each in found] == [("addi", 2), ("ret", 2)]
    assert (following, count) == (0x80000008, 1)


def test_reads_of_flash_are_wait_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    monkeypatch.setattr(trace, "_entry", 0x200)
    lines = _LOG.encode().splitlines()
    for line in (*lines[:-1], b"flash: 10 4 20", lines[-1]):
        trace.read_line(line)
    found = with_chip(estimate(trace.runs(), M4), trace, M4)
    assert found.chip is not None
    low, high = found.cycles
    # Five wait states each; the range of the published figures is 90 to 112 % of the estimate.
    assert found.chip.cycles == {"from": low + 5 * 24, "to": high + 5 * 24}
    assert found.chip.expected["from"] == (low + 120) * 90 // 100
    assert found.chip.expected["to"] >= (high + 120) * 1.12
    assert found.entry().chip == found.chip
    assert found.chip.flash_reads == {"fetches": 4, "data": 20}


@pytest.mark.parametrize("reads", [None, FlashReads(12, 4, 20)])
def test_reads_of_another_run(reads: FlashReads | None) -> None:
    trace = Trace()
    trace.flash_reads = reads
    result = estimate([(block("nop\n" * 13), None, 1)], M4)
    with pytest.raises(LinkError, match="has 13 instructions, and its plugin counted"):
        with_chip(result, trace, M4)


@pytest.mark.parametrize(
    ("board", "api", "is_counted"),
    [("mps2-an386", 1, True), ("mps2-an386", None, False), ("mps2-an385", 1, False)],
)
def test_plugin_only_where_it_can_be_built(
    monkeypatch: pytest.MonkeyPatch, board: str, api: int | None, is_counted: bool
) -> None:
    monkeypatch.setattr(flash_reads, "api_version", lambda *words: api)
    with traced(load_board(board), "net_run") as (traced_board, _):
        assert traced_board.qemu is not None
        assert ("function=net_run" in traced_board.qemu.plugin) == is_counted


@pytest.mark.parametrize(
    ("usage", "version", "compiler", "api"),
    [
        ("-plugin [file=]", "QEMU emulator version 7.2.22 (Debian)", "cc", 1),
        ("-plugin [file=]", "QEMU emulator version 8.2.2", "cc", 1),
        ("-plugin [file=]", "QEMU emulator version 10.0.2", "cc", 2),
        ("-plugins", "QEMU emulator version 7.2.22", "cc", None),
        ("-plugin [file=]", "QEMU emulator version 7.2.22", "no-such-compiler", None),
    ],
)
def test_interface_of_plugins(
    tmp_path: Path, usage: str, version: str, compiler: str, api: int | None
) -> None:
    qemu = tmp_path / "qemu"
    qemu.write_text(f"#!/bin/sh\n[ $1 = -help ] && echo '{usage}' || echo '{version}'\n")
    qemu.chmod(0o755)
    host = replace(get_cpu("host").toolchain, compiler=compiler)
    assert flash_reads.api_version(str(qemu), host, tmp_path) == api


@pytest.mark.parametrize("regions", [0, 2])
def test_no_reads_without_one_flash(regions: int) -> None:
    board = load_board("mps2-an386")
    (flash,), ram = board.regions("flash"), board.regions("ram")
    several = tuple(replace(flash, name=f"flash{i}") for i in range(regions))
    with traced(replace(board, memory=(*several, *ram)), "net_run") as (traced_board, _):
        assert traced_board.qemu is not None
        assert not traced_board.qemu.plugin


def test_a_run_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("hil.verify.cycles"), "_TRACE_TIMEOUT_S", 0.01)
    with pytest.raises(Exception, match="did not reach the end of the run"):
        Trace().runs()


@pytest.mark.parametrize(
    ("board", "reason"),
    [
        ("mps3-an547", "mps3-an547 has a cortex-m55"),
        ("mps2-an500", "mps2-an500 has a cortex-m7"),
        ("riscv-virt", "riscv-virt has a rv32imac"),
        ("nucleo-l4r5zi", "nucleo-l4r5zi does not run in QEMU"),
    ],
)
def test_refusals(board: str, reason: str) -> None:
    with pytest.raises(InputError, match=re.escape(reason)):
        check_estimable(load_board(board))


@pytest.mark.parametrize(
    ("beyond", "is_believed"), [(-1, False), (0, True), (100, True), (101, False)]
)
def test_a_trace_has_the_counted_instructions(
    monkeypatch: pytest.MonkeyPatch, beyond: int, is_believed: bool
) -> None:
    """But for those around the run, up to a hundred."""
    given: list[Any] = []

    class Found:
        firmware = SimpleNamespace(elf="elf")

        def __getitem__(self, name: str) -> Any:
            assert name == "net"
            set_input = lambda *pair: given.append(pair)  # noqa: E731
            return SimpleNamespace(set_input=set_input, run=lambda: SimpleNamespace(ticks=7))

        def count(self, ticks: int) -> int:
            assert ticks == 7
            return 1000 + beyond

    watch = lambda *place: given.append(place)  # noqa: E731
    trace = SimpleNamespace(watch=watch, runs=lambda: "runs")
    estimated = SimpleNamespace(mix=SimpleNamespace(total=1000))
    monkeypatch.setattr(cycles, "traced", lambda board, function: nullcontext((board, trace)))
    monkeypatch.setattr(cycles, "open_device", lambda *words, **options: nullcontext(Found()))
    monkeypatch.setattr(cycles, "estimate", lambda runs, cpu: estimated)
    module: Any = SimpleNamespace(name="net", symbol="tvmgen_net", fed_rows=None)
    sample: Any = {"x": 1, "z": 2}

    def result() -> object:
        board = load_board("mps2-an386")
        return cycles.estimate_cycles(board, [], module, seed=0, workspace="own", sample=sample)

    if is_believed:
        assert result() is estimated
        assert given == [("elf", "tvmgen_net_run"), ("x", 1), ("z", 2)]
    else:
        with pytest.raises(LinkError, match=f"has 1,000 instructions, but {1000 + beyond:,} were"):
            result()
    module.fed_rows = 4
    with pytest.raises(InputError, match="cycles are estimated for a run alone"):
        result()
