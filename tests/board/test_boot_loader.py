"""An image behind a boot loader, in QEMU, with a loader that leaves all that one may leave."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_library import tiny_library

from hil.access import start
from hil.board import load_board
from hil.build import build
from hil.firmware.formats import image_in
from hil.link.client import Client
from hil.link.line import Link
from hil.link.protocol import Tensors
from hil.link.tensors import TensorRef
from hilc.support.resources import data_dir

#: Starts the image at 0x8000 from a thread with a stack of its own: interrupts masked in all three
#: ways that are, SysTick running and one interrupt pending, and memory of the image forbidden.
LOADER = """
    .syntax unified
    .cpu cortex-m4
    .thumb
    .section .loader, "ax"
    .word 0x20100000
    .word loader + 1
    .global loader
    .thumb_func
loader:
    cpsid i
    ldr r0, =0xE000E010
    movs r1, #100
    str r1, [r0, #4]
    movs r1, #7
    str r1, [r0]
    ldr r0, =0xE000E100
    movs r1, #0x20
    str r1, [r0]
    ldr r0, =0xE000E200
    str r1, [r0]
    ldr r0, =0xE000ED9C
    ldr r1, =0x20006017
    str r1, [r0]
    ldr r1, =0x10000019
    str r1, [r0, #4]
    movs r1, #5
    subs r0, #8
    str r1, [r0]
    movs r1, #0x20
    msr basepri, r1
    movs r1, #1
    msr faultmask, r1
    ldr r0, =0x200F0000
    msr psp, r0
    movs r1, #2
    msr control, r1
    isb
    ldr r0, =0x8000
    ldr r1, [r0, #4]
    bx r1
    .ltorg
    .section .image, "a"
    .incbin "firmware.bin"
"""
SCRIPT = """
ENTRY(loader)
SECTIONS {
    .loader 0x0 : { *(.loader) }
    .image 0x8000 : { *(.image) }
}
"""


def ticks_of(client: Client, count: int) -> int:
    client.write(TensorRef(0, Tensors.INPUT, 0), np.full(4, count, np.int32).tobytes())
    return client.run(0, 1)


def test_an_image_starts_whatever_its_boot_loader_left(tmp_path: Path) -> None:
    text = (data_dir("targets") / "mps2-an386.toml").read_text(encoding="utf-8")
    path = tmp_path / "loaded.toml"
    path.write_text(f'boot_loader_bytes = "32K"\n{text}')
    board = load_board(path)
    body = "for (volatile int i = 0; i < x[0]; ++i) {} y[0] = x[0];"
    library = tiny_library(body, cpu=board.cpu.name)
    firmware = build([library], board, warnings_as_errors=True)
    image_in(firmware.elf, "bin", tmp_path)
    (tmp_path / "loader.s").write_text(LOADER)
    (tmp_path / "loader.ld").write_text(SCRIPT)
    subprocess.run(
        ["arm-none-eabi-gcc", "-nostdlib", "-T", "loader.ld", "-o", "all.elf", "loader.s"],
        cwd=tmp_path,
        check=True,
    )
    with start(board, replace(firmware, elf=tmp_path / "all.elf")) as running:
        client = Client(Link(running.url, line=running.line, alive=running.alive))
        try:
            assert client.echo(b"behind a boot loader") == b"behind a boot loader"
            # A run in which SysTick's interrupt comes several times: it was masked, too.
            short, long = (ticks_of(client, count) for count in (1000, 3_000_000))
            assert long == pytest.approx(3000 * short, rel=0.01)
            assert long > 2 << 24
        finally:
            client.close()
