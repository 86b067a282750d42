"""Real pyOCD on an emulated microcontroller: debugging, programming, the firmware's two lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from campaigns import cases, sampled
from elftools.elf.elffile import ELFFile
from pyocd.core import exceptions
from pyocd.core.session import Session
from pyocd.core.target import Target
from random_graphs import small_net
from tiny_library import tiny_library
from waiting import until

import hil
import hilc
import hilc.host
from hil import virtual_probe
from hil.access.pyocd import flash
from hil.board import load_board
from hil.build import build
from hil.errors import DeviceError, FlashError, InputError, ProbeError
from hil.firmware.image import read_image, symbol_address
from hil.support.cache import cache_folder
from hil.support.qemu import Machine, Memory, QemuGdb
from hil.virtual_probe.dap import AccessPort, TransferFault
from hil.virtual_probe.machine import start as virtual_probe_start

RAM_BOARDS = ("mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547")
FAR = 0xF000_0000
DOUBLE = "for (int i = 0; i < 4; ++i) { y[i] = 2 * x[i]; }"


@pytest.fixture(scope="module", params=RAM_BOARDS)
def loaded(request: pytest.FixtureRequest) -> Iterator[tuple[Session, Path]]:
    """A session on a board whose RAM holds a firmware; the core is halted at its entry."""
    board = load_board(request.param)
    firmware = build([], board)
    with virtual_probe.start(board) as (virtual, _), flash.connected(board, virtual.uid) as session:
        flash.program(session, read_image(firmware.elf))
        session.target.reset_and_halt()
        yield session, firmware.elf


def symbol(elf: Path, name: str) -> int:
    return symbol_address(elf, name) & ~1


def test_the_core_is_debugged_as_on_silicon(loaded: tuple[Session, Path]) -> None:
    session, elf = loaded
    core = session.target.selected_core
    target = session.target
    with elf.open("rb") as file:
        assert core.read_core_register("pc") == ELFFile(file).header["e_entry"] & ~1
    assert core.get_state() is Target.State.HALTED

    main = symbol(elf, "main")
    target.set_breakpoint(main)
    target.resume()
    assert wait_until_halted(target)
    assert core.read_core_register("pc") == main
    assert core.get_halt_reason() is Target.HaltReason.BREAKPOINT

    # main runs on the process stack: read by executing MRS, without a trace of it.
    before = {name: core.read_core_register(name) for name in ("r0", "pc", "xpsr", "sp")}
    assert core.read_core_register("control") & 2
    assert core.read_core_register("psp") == before["sp"]
    assert core.read_core_register("msp") == symbol(elf, "hil_handler_stack_top")
    assert {name: core.read_core_register(name) for name in before} == before

    target.step()
    assert main < core.read_core_register("pc") <= main + 4
    target.remove_breakpoint(main)
    target.resume()
    assert target.get_state() is Target.State.RUNNING
    target.halt()
    assert target.get_state() is Target.State.HALTED


def wait_until_halted(target: Target) -> bool:
    from pyocd.utility.timeout import Timeout

    with Timeout(5) as limit:
        while limit.check():
            if target.get_state() is Target.State.HALTED:
                return True
    return False


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 1023, 1025, 5000])
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 1021])
def test_memory_is_what_was_written(loaded: tuple[Session, Path], size: int, offset: int) -> None:
    session, elf = loaded
    start = symbol_address(elf, "hil_bss_end") + 0x400 + offset
    data = list(np.random.default_rng(size).integers(0, 256, size, np.uint8).tolist())
    session.target.write_memory_block8(start, data)
    assert session.target.read_memory_block8(start, size) == data


def test_nothing_answers_where_nothing_is(loaded: tuple[Session, Path]) -> None:
    session, _ = loaded
    if "an505" in session.probe.unique_id:
        return  # something answers at every address of this machine
    with pytest.raises(exceptions.TransferFaultError):
        session.target.read32(FAR)
    # The error is cleared: the next transfer is good.
    assert session.target.read32(0xE000_ED00) >> 24 == 0x41


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("fault", exceptions.TransferFaultError),
        ("wait", exceptions.TransferTimeoutError),
        ("no-ack", exceptions.TransferError),
        ("disconnect", exceptions.ProbeDisconnected),
    ],
)
def test_injected_faults_raise_and_pass(
    loaded: tuple[Session, Path], what: str, error: type[exceptions.Error]
) -> None:
    session, elf = loaded
    address = symbol_address(elf, "hil_bss_start")
    session.probe.inject(what)
    with pytest.raises(error):
        session.target.read_memory_block8(address, 64)
    assert len(session.target.read_memory_block8(address, 64)) == 64


def test_an_image_is_programmed_once_and_read_back() -> None:
    board = load_board("microbit")
    library = tiny_library(DOUBLE, cpu=board.cpu.name)
    image = read_image(build([library], board).elf)
    parts: list[float] = []
    with virtual_probe.start(board) as (virtual, _):
        with flash.connected(board, virtual.uid) as session:
            assert flash.program(session, image, parts.append).programmed
            assert parts[-1] == 1
            assert not flash.program(session, image).programmed
        with hil.open(board, library, probe=virtual.uid) as device:
            assert device.counter == "instructions"
            x = np.arange(4, dtype=np.int32)
            device["tiny"].set_input("x", x)
            device["tiny"].run()
            assert device["tiny"].get_output("y").tolist() == (2 * x).tolist()
        with flash.connected(board, virtual.uid) as session:
            flash.erase(session)
            address, _expected, found = flash.first_difference(session, image) or (0, 0, 0)
            assert (address, found) == (image[0].address, 0xFF)
            # Erased flash of some chips answers a read with a fault: that is no image, either.
            session.target.halt()
            session.probe.inject("fault", after=4)
            assert flash.program(session, image).programmed


def test_flash_that_does_not_take_the_image_is_told() -> None:
    # QEMU does not model this board's flash controller: writes vanish.
    board = load_board("lm3s6965evb")
    image = read_image(build([], board).elf)
    with (
        virtual_probe.start(board) as (virtual, _),
        flash.connected(board, virtual.uid) as session,
        pytest.raises(FlashError, match="0x00 after"),
    ):
        flash.program(session, image)


@pytest.mark.full
@cases("transport", ["uart", "rtt"], first=1)
def test_the_firmware_answers_over_both_lines(transport: Literal["uart", "rtt"]) -> None:
    with hil.open(
        "mps2-an386", tiny_library(DOUBLE), probe="virtual", transport=transport
    ) as device:
        data = bytes(range(256)) * 4
        assert all(device.echo(data) == data for _ in range(20))
        # A machine under load may repeat a request that it answered late; no byte is lost.
        assert device.memory().bad_frames == 0
        through_probe = device.count(device["tiny"].run().ticks)
    with hil.open("mps2-an386", tiny_library(DOUBLE)) as device:
        assert device.count(device["tiny"].run().ticks) == through_probe


def test_wrong_choices_are_refused() -> None:
    with (
        pytest.raises(ProbeError, match="'nowhere' is not connected"),
        hil.open("microbit", probe="nowhere"),
    ):
        pass
    with (
        pytest.raises(InputError, match="'netduinoplus2' has no flasher"),
        hil.open("netduinoplus2", probe="virtual"),
    ):
        pass
    with (
        virtual_probe.start(load_board("microbit")) as (virtual, _),
        pytest.raises(InputError, match="is on the board microbit, not mps2-an386"),
        hil.open("mps2-an386", probe=virtual.uid),
    ):
        pass


@pytest.mark.full
def test_a_board_that_ended_is_no_probe_any_more() -> None:
    with virtual_probe.start(load_board("microbit")) as (virtual, process):
        assert virtual in virtual_probe.running_boards()
        listed = subprocess.run(
            [Path(sys.executable).with_name("pyocd"), "list"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert virtual.uid in listed.stdout
        [announced] = (cache_folder() / "probes").glob(f"{virtual.uid}.json")
        process.process.kill()
        process.process.wait(60)
        assert virtual not in virtual_probe.running_boards()
        assert not announced.exists()
        # Another process of this user has got its number.
        announced.write_text(json.dumps({**asdict(virtual), "pid": os.getpid()}))
        assert virtual.uid not in {board.uid for board in virtual_probe.running_boards()}
        assert not announced.exists()


def test_breakpoints_of_a_killed_client_are_removed() -> None:
    """QEMU keeps them: the next firmware stopped there and gave no answer."""
    # mov r1, sp; subs r1, #8; loop: adds r0, #1; str r0, [r1]; b loop
    code = bytes.fromhex("6946083901300860fce7")
    vectors = bytes.fromhex("0000012041000000")
    loop, counter = 0x44, 0x2000_FFF8
    with virtual_probe.start(load_board("mps2-an386")) as (virtual, _):
        sockets = Path(virtual.sockets)
        with closing(Memory.at(sockets / "qtest")) as memory:
            memory.write_block(0, vectors.ljust(0x40, b"\0") + code)
            with closing(Machine.at(sockets / "qmp")) as machine:
                machine.execute("system_reset")
            with closing(QemuGdb.at(sockets / "gdb")) as killed:
                killed.set_breakpoint(loop)
            with closing(QemuGdb.at(sockets / "gdb")) as gdb:
                gdb.resume()
                until(lambda: memory.read(counter, 4) > 100, "passing the breakpoint")


class _Bus:
    """Memory from 0 to 64 KB; beyond is nothing."""

    def __init__(self) -> None:
        self.words = dict[int, int]()

    def read(self, address: int, size: int) -> int:
        if address >= 1 << 16:
            raise TransferFault
        word = self.words.get(address & ~3, 0)
        return word >> 8 * (address & 3) & (1 << 8 * size) - 1

    def write(self, address: int, size: int, value: int) -> None:
        if address >= 1 << 16:
            raise TransferFault
        shift, mask = 8 * (address & 3), (1 << 8 * size) - 1
        word = self.words.get(address & ~3, 0)
        self.words[address & ~3] = word & ~(mask << shift) | value << shift

    def read_words(self, address: int, count: int) -> list[int]:
        return [self.read(address + 4 * i, 4) for i in range(count)]

    def write_words(self, address: int, values: Sequence[int]) -> None:
        for i, value in enumerate(values):
            self.write(address + 4 * i, 4, value)


CSW, TAR, DRW, SELECT, ABORT, CTRL_STAT = 0x0, 0x4, 0xC, 0x8, 0x0, 0x4


def test_the_access_port_wraps_and_remembers_errors() -> None:
    bus = _Bus()
    port = AccessPort(bus, is_v8=True)
    port.write_ap(CSW, 0x12)  # words, single increment
    port.write_ap(TAR, 0x3F8)
    port.write_ap_multiple(DRW, [1, 2, 3])
    assert bus.words == {0x3F8: 1, 0x3FC: 2, 0x000: 3}, "the address wraps within 1 KB"
    port.write_ap(TAR, 1 << 16)
    with pytest.raises(TransferFault):
        port.read_ap(DRW)
    port.write_ap(TAR, 0)
    with pytest.raises(TransferFault, match="earlier"):
        port.read_ap(DRW)
    assert port.read_dp(CTRL_STAT) & 1 << 5
    port.write_dp(ABORT, 1 << 2)
    assert port.read_ap(DRW) == 3
    port.write_dp(SELECT, 1 << 24)
    assert port.read_ap(0xC) == 0, "there is one access port"


@pytest.mark.full
@cases("transport", ["uart", "rtt"], first=1)
@pytest.mark.parametrize("bulk", sampled([None, False, True], keep=[None]))
def test_tensors_by_every_way_are_the_same(
    transport: Literal["uart", "rtt"], bulk: bool | None
) -> None:
    library = hilc.compile(small_net(), cpu="cortex-m4", pools="external", io_in_pool=True)
    graph_input = library.modules[0].inputs[0]
    x = np.random.default_rng(5).integers(-128, 128, graph_input.shape, np.int8)
    with (
        hilc.host.load(library) as here,
        hil.open("mps2-an386", library, probe="virtual", transport=transport, bulk=bulk) as d,
    ):
        assert (d._client.bulk is None) == (bulk is False)
        there = d[library.modules[0].name]
        for model in (here, there):
            model.set_input(0, x)
        for (_, ours), (_, its) in zip(here.layer_outputs(), there.layer_outputs(), strict=True):
            assert [a.tolist() for a in ours] == [a.tolist() for a in its]
        for model in (here, there):
            model.set_input(0, x)
            model.run()
        assert there.get_output(0).tolist() == here.get_output(0).tolist()
        assert d._client.bulk is None or d._client.bulk.is_used


def test_a_machine_without_control_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "qemu-system-arm"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("hil.virtual_probe.machine._START_LIMIT_S", 0.3)
    refused = pytest.raises(DeviceError, match="made no control sockets within 0.3 s")
    with refused as caught, virtual_probe_start(load_board("mps2-an386")):
        pass
    assert caught.value.exit_code == 4
