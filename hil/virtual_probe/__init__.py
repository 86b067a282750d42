"""A debug probe for boards that QEMU emulates, which pyOCD finds like any other.

pyOCD, and everything that is built on it (its command line, gdb server, flash algorithms, RTT),
works on an emulated microcontroller as on a real one::

    python -m hil.virtual_probe microbit &     # prints the probe's unique id and the serial line
    pyocd load --target nrf51 firmware.hex
    pyocd gdbserver --target nrf51

In Python, :func:`start` gives the same for as long as a ``with`` block lasts. The machine starts
stopped and without an image: whatever runs on it was loaded or programmed through the probe.

Emulated are the debug port, an AHB access port, the ROM table and the core's debug registers, with
breakpoints by FPB and BKPT; what lies behind them is QEMU's own memory and core. Not emulated: the
DWT's watchpoints, trace, JTAG. Counts of instructions stay exact: the probe takes no virtual time.
"""

from __future__ import annotations

from hil.virtual_probe.machine import VirtualBoard, running_boards, start

__all__ = ["VirtualBoard", "running_boards", "start"]
