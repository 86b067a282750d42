"""The command that starts a board's machine in QEMU; its words are checked values, no options of
the description's own.
"""

from __future__ import annotations

from hil.board.board import Board


def machine_words(board: Board) -> list[str]:
    """Return the command without image, clock and devices."""
    assert board.qemu is not None, "the board has the runner qemu"
    words = [board.cpu.toolchain.qemu, "-machine", board.qemu.machine]
    cpu = board.qemu.cpu
    if board.qemu.vector_bits:
        cpu = f"{cpu or 'rv32'},v=true,vlen={board.qemu.vector_bits},vext_spec=v1.0"
    if cpu:
        words += ["-cpu", cpu]
    if board.qemu.memory_bytes:
        words += ["-m", f"{board.qemu.memory_bytes}B"]
    if board.cpu.isa == "riscv":
        words += ["-bios", "none"]  # the image starts without a supervisor's firmware
    return words


def counted_words(board: Board) -> list[str]:
    """Return the command with exact counts of instructions, without an image and a serial line."""
    assert board.qemu is not None, "the board has the runner qemu"
    words = [*machine_words(board), "-nodefaults", "-display", "none"]
    # The firmware sleeps between requests; with sleep=off QEMU would skip that virtual time from
    # timer interrupt to timer interrupt, at full CPU load.
    words += ["-icount", f"shift={board.qemu.icount_shift},align=off,sleep=on"]
    if board.qemu.trace:
        words += ["-d", "in_asm,exec,nochain,plugin", "-D", board.qemu.trace]
    if board.qemu.plugin:
        words += ["-plugin", board.qemu.plugin]
    return words


def uart_words(board: Board, device: str) -> list[str]:
    """Return the options that connect the firmware's UART to ``device``."""
    assert board.qemu is not None, "the board has the runner qemu"
    return [*("-serial", "null") * board.qemu.serial, "-serial", device]
