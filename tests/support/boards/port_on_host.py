"""Ports of a board compiled for this machine, on registers that answer as the chip's would."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hil.board import Board
from hil.board.ports import Port
from hil.firmware.project import project_files

ROOT = Path(__file__).parents[3]
PORTS = ROOT / "firmware_template" / "ports"

#: C files of ports that only the board's own core can have.
CORES_OWN = ("boot.c", "hazard3.c", "plic.c", "traps.c")

# A field of a register: its address, lowest bit, width.
Field = tuple[int, int, int]


@dataclass
class Registers:
    """Memory of a chip's registers, some fields of which follow others, as a status does."""

    #: Where it is not 0: the value after reset.
    reset: dict[int, int]
    #: A status field and the control field that it follows at once.
    follows: list[tuple[Field, Field]]
    #: Every write that changed a register, in order.
    writes: list[tuple[int, int]] = field(default_factory=list)
    #: Called with each register that the firmware is about to use.
    on_use: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        self._cells: dict[int, ctypes.c_uint32] = {}
        self._seen: dict[int, int] = {}

    def locate(self, address: int) -> int:
        """What the C calls for a register: the address of its cell."""
        self.settle()
        cell = self._cell(address)
        if self.on_use:
            self.on_use(address)
        return ctypes.addressof(cell)

    def _cell(self, address: int) -> ctypes.c_uint32:
        if address not in self._cells:
            value = self.reset.get(address, 0)
            self._cells[address] = ctypes.c_uint32(value)
            self._seen[address] = value
        return self._cells[address]

    def settle(self) -> None:
        """Notes what was written since the last time, and lets the hardware follow."""
        for address, cell in list(self._cells.items()):
            if cell.value != self._seen[address]:
                self.writes.append((address, cell.value))
                self._seen[address] = cell.value
        for status, control in self.follows:
            self.put(status, self.get(control))

    def get(self, where: Field) -> int:
        address, low, width = where
        return self._cell(address).value >> low & ((1 << width) - 1)

    def put(self, where: Field, value: int) -> None:
        address, low, width = where
        cell, mask = self._cell(address), ((1 << width) - 1) << low
        cell.value = self._seen[address] = (cell.value & ~mask) | value << low

    def value(self, address: int) -> int:
        return self.get((address, 0, 32))


class PortOnHost:
    """The soc and uart ports of a board, or those of ``roles``, compiled for this machine."""

    def __init__(
        self,
        board: Board,
        registers: Registers,
        folder: Path,
        roles: Sequence[str] = ("soc", "uart"),
    ) -> None:
        ports = [next(p for p in board.ports if role in p.roles) for role in roles]
        kept = [_sources(port) for port in ports]
        own_irq = any("hil_irq_enable(uint32_t" in path.read_text() for path in kept[0])
        config = project_files([], board, board.regions("ram")[0])["generated/hil_config.h"]
        (folder / "hil_config.h").write_bytes(config)
        library = folder / "port.so"
        here = ROOT / "tests" / "c" / "ports"
        includes = [folder, ROOT / "firmware_template" / "include", here]
        includes += [PORTS / name for port in ports for name in (port.name, *port.uses)]
        includes += [PORTS / "bare_metal"]  # for hil_wait.h
        subprocess.run(
            [
                *["gcc", "-std=c11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"],
                *["-include", str(here / "hil_core.h"), *(f"-I{path}" for path in includes)],
                *(["-DHIL_TEST_OWN_IRQ"] if own_irq else []),
                *[str(path) for paths in kept for path in paths],
                *[str(here / "registers.c"), "-o", str(library)],
            ],
            check=True,
        )
        self.c = ctypes.CDLL(str(library))
        self.c.hil_soc_init.restype = ctypes.c_uint32
        self.attach(registers)

    def attach(self, registers: Registers) -> None:
        """The C uses these from now on."""
        # Both the C and this object use it.
        self._locate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(registers.locate)
        ctypes.c_void_p.in_dll(self.c, "hil_test_register").value = ctypes.cast(
            self._locate, ctypes.c_void_p
        ).value

    def start(self) -> int:
        """What happens between reset and main; returns the rate of the UART's clock."""
        if hasattr(self.c, "hil_soc_early"):
            self.c.hil_soc_early()
        uart_hz = int(self.c.hil_soc_init())
        self.c.hil_uart_init(ctypes.c_uint32(uart_hz))
        return uart_hz

    @property
    def received(self) -> bytes:
        size = ctypes.c_size_t.in_dll(self.c, "hil_test_received_size").value
        return bytes((ctypes.c_uint8 * 64).in_dll(self.c, "hil_test_received")[:size])


def _sources(port: Port) -> list[Path]:
    """As in the firmware: a source that several ports share is named with its folder."""
    return [
        PORTS / source if "/" in source else PORTS / port.name / source
        for source in port.sources
        if source not in CORES_OWN
    ]
