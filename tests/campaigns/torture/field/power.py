"""Boards that lose power while they are programmed, through pyOCD and the virtual probe."""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from pyocd.core import exceptions
from tiny_library import tiny_library

from hil import virtual_probe
from hil.access.pyocd import flash
from hil.board import Board, load_board
from hil.board.board import MemoryRegion
from hil.build import build
from hil.device import Device
from hil.errors import DeviceError
from hil.firmware.image import read_image
from hil.link.client import Client
from hil.link.line import Link
from hil.support.qemu import Memory
from hil.virtual_probe import VirtualBoard
from hil.virtual_probe.probe import VirtualProbe
from torture.campaign import Budget
from torture.field.tally import Tally
from torture.field.world import NEVER

#: A board whose flash pyOCD programs by its algorithm, and one whose RAM it writes.
BOARDS = ("microbit", "mps2-an386")
_WITH_FLASH = BOARDS[:1]
#: The most that it may take to tell that power was lost.
_TOLD_S = 60.0
_ATTEMPTS = 5
_RAM, _RAM_BYTES = 0x2000_0000, 4096


class _Supply:
    """The board's supply, which fails at a transfer of the probe: every later one fails, too."""

    def __init__(self, at: int, flash: Sequence[MemoryRegion] = ()) -> None:
        self._at = at
        self._regions = flash
        self.transfers = 0
        #: What the flash held at that moment, by address.
        self.kept: dict[int, bytes] = {}

    def transfer(self, probe: Any) -> None:
        number, self.transfers = self.transfers, self.transfers + 1
        if number == self._at:
            memory = probe._core._memory
            for region in self._regions:
                self.kept[region.origin] = memory.read_block(region.origin, region.size)
        if number >= self._at:
            raise exceptions.ProbeDisconnected("the board has no power")


@contextmanager
def _supplied(supply: _Supply) -> Iterator[None]:
    real: Callable[..., Any] = VirtualProbe._checked

    def checked(self: VirtualProbe, access: Callable[[], Any]) -> Any:
        supply.transfer(self)
        return real(self, access)

    with mock.patch.object(VirtualProbe, "_checked", checked):
        yield


def lost(budget: Budget) -> Iterator[Tally]:
    """Power is lost at a transfer of the probe, from the connection to the start of the image."""
    dice = random.Random(budget.seed)
    for name in BOARDS:
        board = load_board(name)
        tally = Tally("power lost while programming", name)
        double = "for (int i = 0; i < 4; ++i) { y[i] = 2 * x[i]; }"
        elf = build([tiny_library(double, cpu=board.cpu.name)], board).elf
        undisturbed = _Supply(NEVER)
        with virtual_probe.start(board) as (virtual, _):
            _program(board, virtual, elf, undisturbed)
        total, count = undisturbed.transfers, budget.count(12, 100)
        for part in range(count):
            for _ in range(_ATTEMPTS):
                at = int((part + dice.random()) / count * total)
                wrong, transfers = _lose(board, elf, at)
                if wrong or transfers > at:
                    break
                # It was done before: how often pyOCD asks for the end differs from run to run.
                total = transfers
            how = f"power of {name} is lost at transfer {at} of {total}"
            tally.add(is_done=False, wrong=wrong, how=how)
        yield tally


def _program(board: Board, virtual: VirtualBoard, elf: Path, supply: _Supply) -> None:
    image = read_image(elf)
    with _supplied(supply), flash.connected(board, virtual.uid) as session:
        flash.program(session, image)
        flash.start_image(session, image)


def _lose(board: Board, elf: Path, at: int) -> tuple[str, int]:
    """Return what is wrong, and the transfers that were tried."""
    supply = _Supply(at, board.regions("flash") if board.name in _WITH_FLASH else ())
    with virtual_probe.start(board) as (virtual, _):
        start = time.monotonic()
        try:
            _program(board, virtual, elf, supply)
        except DeviceError as error:
            if not error.hint:
                return f"no remedy: {error}", supply.transfers
        except Exception as error:
            return f"not told as an error of the board: {error!r}", supply.transfers
        if (seconds := time.monotonic() - start) > _TOLD_S:
            return f"told after {seconds:.0f} s", supply.transfers
        try:
            virtual.claim().close()
        except BlockingIOError:
            return "the probe is still held", supply.transfers
    # The same board with power again: its flash as it was, anything in its RAM.
    with virtual_probe.start(board) as (virtual, _):
        with contextlib.closing(Memory.at(Path(virtual.sockets) / "qtest")) as memory:
            for origin, data in {**supply.kept, _RAM: secrets.token_bytes(_RAM_BYTES)}.items():
                memory.write_block(origin, data)
        try:
            _program(board, virtual, elf, _Supply(NEVER))
            with contextlib.closing(Link(virtual.url)) as link:
                model = Device(Client(link, elf=elf), [])["tiny"]
                model.set_input(0, np.array([1, 2, 3, 4], np.int32))
                model.run()
                if model.get_output(0).tolist() != [2, 4, 6, 8]:
                    return "a wrong result after it was programmed again", supply.transfers
        except Exception as error:
            return f"not programmed again: {error!r}", supply.transfers
    return "", supply.transfers
