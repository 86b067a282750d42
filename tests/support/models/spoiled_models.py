"""Models that fail in the way that their name says, where their input asks for it.

Each does x + 1, and first, where x[0] is 1, what its name says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tiny_library import tiny_library

from hil.board import Board
from hil.device import Device
from hilc.artifact.library import ModelLibrary

SPOILED = "if (x[0] == 1) { SPOIL } for (int i = 0; i < 4; ++i) { y[i] = x[i] + 1; }"
WORDS = "#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))\n"
SPOILS = {
    "hang": "for (;;) { }",
    "fault": "WORD(0xF0000000u) = 1;",
    "trap": "__builtin_trap();",
    "long": "for (volatile uint32_t i = 0; i < 300000000u; ++i) { }",
    # CMSDK APB watchdog (Arm DDI 0479, chapter 4.7): load, then interrupt and reset on.
    "dog": "WORD(0x40008000u) = 100000; WORD(0x40008008u) = 3; for (;;) { }",
    # No vectors, then a fault: the core locks up, which ends QEMU.
    "lockup": "WORD(0xE000ED08u) = 0xF0000000u; __builtin_trap();",
}
PORTABLE = ("hang", "trap")


def spoiled_libraries(board: Board, *names: str) -> list[ModelLibrary]:
    return [
        tiny_library(
            SPOILED.replace("SPOIL", SPOILS[name]), name=name, cpu=board.cpu.name, globals_=WORDS
        )
        for name in names
    ]


def once_spoiled(device: Device, model: str) -> Callable[[], list[int]]:
    """A job whose first attempt runs into what ``model`` does."""
    attempts = iter([1])

    def job() -> list[int]:
        x = np.array([next(attempts, 4), 5, 6, 7], np.int32)
        device[model].set_input(0, x)
        device[model].run()
        return [int(value) for value in device[model].get_output(0)]

    return job
