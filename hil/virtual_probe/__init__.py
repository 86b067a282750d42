"""A debug probe for boards that QEMU emulates; pyOCD finds it like a real one.

pyOCD and all programs based on it (its command line, gdb server, flash algorithms, RTT) work with
an emulated microcontroller as with a real one::

    python -m hil.virtual_probe microbit &     # prints the probe's unique id and the serial line
    pyocd load --target nrf51 firmware.hex
    pyocd gdbserver --target nrf51

In Python, :func:`start` does the same for the time of a ``with`` block. The machine starts stopped
and without an image; everything that runs on it was loaded or programmed through the probe.

The debug port, an AHB access port, the ROM table, the core's debug registers, and breakpoints by
FPB and BKPT are emulated; memory and core behind them are QEMU's. The DWT's watchpoints, trace and
JTAG are not emulated. Instruction counts stay exact, since the probe takes no virtual time.
"""

from __future__ import annotations

from hil.virtual_probe.machine import VirtualBoard, running_boards, start

__all__ = ["VirtualBoard", "running_boards", "start"]
