"""The plugin that counts reads of flash, on programs whose reads are known."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hil.board import load_board
from hil.board.machine import counted_words, machine_words
from hil.verify import flash_reads
from hil.verify.flash_reads import FlashReads
from hilc.target.cores import get_cpu

BOARD = load_board("mps2-an386")
#: Starts at 0x100, and ends QEMU by semihosting. The measured function begins a line.
_PROGRAM = """
.syntax unified
.thumb
.word 0x20400000, reset + 1
.org 0x100
.global reset, measured, table
.type reset, %function
.type measured, %function
reset:
  bl measured
  mov r0, #0x18
  ldr r1, =0x20026
  bkpt 0xab
.align 5
measured:
  BODY
  bx lr
.size measured, . - measured
.align 5
.ltorg
.org 0x1000
table:
  .space 1024
"""
_LOADS = """
  ldr r1, =table
  mov r2, #PASSES
again:
  add r3, r1, #BYTES
next:
  ldr r0, [r3, #-4]!
  cmp r3, r1
  bne next
  subs r2, #1
  bne again
"""


def counted(body: str, folder: Path) -> FlashReads:
    """Return what the plugin counts for a function with this body."""
    timing = BOARD.cpu.timing
    assert timing is not None
    assert timing.chip is not None
    (folder / "program.s").write_text(_PROGRAM.replace("BODY", body))
    gcc = BOARD.cpu.toolchain.gcc
    words = [gcc, "-mcpu=cortex-m4", "-mthumb", "-nostdlib", "-Wl,-Ttext=0,-e,reset"]
    subprocess.run([*words, "program.s", "-o", "program.elf"], cwd=folder, check=True)
    host = get_cpu("host").toolchain
    api = flash_reads.api_version(machine_words(BOARD)[0], host, folder)
    assert api is not None
    plugin = flash_reads.built(api, host, folder)
    assert BOARD.qemu is not None
    log = folder / "log"
    qemu = replace(
        BOARD.qemu,
        trace=str(log),
        plugin=flash_reads.arguments(plugin, timing.chip, BOARD, "measured"),
    )
    command = [*counted_words(replace(BOARD, qemu=qemu)), "-semihosting"]
    command += ["-kernel", str(folder / "program.elf")]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    (found,) = filter(None, map(flash_reads.parsed, log.read_bytes().splitlines()))
    return found


@pytest.mark.parametrize(
    ("nbytes", "passes", "reads"),
    [
        # A read has eight bytes.
        (64, 1, 8),
        # Eight lines of 32 bytes keep what was read; one more is needed for the literal.
        (192, 5, 24),
        # A ninth line replaces the least recent one, which comes next.
        (320, 5, 5 * 40),
    ],
)
def test_data(nbytes: int, passes: int, reads: int, tmp_path: Path) -> None:
    found = counted(_LOADS.replace("PASSES", str(passes)).replace("BYTES", str(nbytes)), tmp_path)
    assert found.instructions == 3 + passes * (3 + 3 * nbytes // 4)
    # The literal is one read more.
    assert found.data == reads + 1


@pytest.mark.parametrize(
    ("body", "instructions", "fetches"),
    [
        # 16 bits each: 99 and the return are 200 bytes.
        ("nop\n" * 99, 100, 25),
        # The last of 32 bits lies in two reads.
        ("nop\nnop\nnop\nnop.w\n", 5, 2),
        # A loop of 1 KB is kept, a longer one is read again.
        ("mov r0, #9\n9: " + "nop\n" * 499 + "subs r0, #1\nbne.w 9b\n", 2 + 9 * 501, 127),
        ("mov r0, #9\n9: " + "nop\n" * 600 + "subs r0, #1\nbne.w 9b\n", 2 + 9 * 602, None),
    ],
)
def test_fetches(body: str, instructions: int, fetches: int | None, tmp_path: Path) -> None:
    found = counted(body, tmp_path)
    assert found.instructions == instructions
    assert found.data == 0
    if fetches is None:
        assert found.fetches > 8 * 150
    else:
        assert found.fetches == fetches
