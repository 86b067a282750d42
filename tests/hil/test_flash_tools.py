"""Flashers with their real programs: OpenOCD, esptool, dfu-util, bossac and st-flash.

OpenOCD runs with its adapter without hardware (``dummy``) and with a core that it simulates
(``testee``); esptool speaks with a stand-in of the chip's boot ROM (``esp_rom.py``); the others
have no device, so what they refuse is what is tested.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from environments import programs
from esp_rom import Rom, esp_rom
from serial.tools.list_ports_common import ListPortInfo
from usb_tree import add_device

from hil.access import Connection, flashers, usb
from hil.access.flashers.program import ProgramSession
from hil.board import Board, load_board
from hil.errors import DeviceError, FlashError, ProbeError
from hil.firmware.image import read_image


def _image(folder: Path, address: int, compiler: str, *flags: str) -> Path:
    """Link an image of two parts with a gap at an address."""
    (folder / "a.s").write_text(".globl _start\n_start:\n.rept 700\n.word 0x01020304\n.endr\n")
    path = folder / "app.elf"
    words = [compiler, *flags, "-nostdlib", f"-Wl,-n,-Ttext={address:#x}", "a.s", "-o", str(path)]
    subprocess.run(words, cwd=folder, check=True, timeout=60)
    return path


# -- esptool --------------------------------------------------------------------------------------


@pytest.fixture
def rom(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rom]:
    # As if the extra `esp` were installed here.
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = programs("esp").parent / "lib" / version / "site-packages"
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    with esp_rom() as made:
        yield made


@pytest.fixture(scope="module")
def esp_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ("-march=rv32imc", "-mabi=ilp32")
    folder = tmp_path_factory.mktemp("esp")
    return _image(folder, 0x4038_0000, "riscv64-unknown-elf-gcc", *flags)


@contextlib.contextmanager
def _esptool(rom: Rom, **settings: str) -> Iterator[ProgramSession]:
    flasher = flashers()["esptool"]
    given = {"chip": "esp32c3", "stub": "false", "timeout_s": "60", **settings}
    board = load_board("riscv-virt").with_settings("--flasher", "esptool", given)
    with flasher.open(board, rom.url, Connection(port=rom.url)) as session:
        assert isinstance(session, ProgramSession)
        yield session


def test_esptool_programs_its_image(rom: Rom, esp_image: Path, tmp_path: Path) -> None:
    """What the flash holds then, esptool reads back as the image of the ELF file."""
    with _esptool(rom) as session:
        done = session.program(esp_image, None)
        assert done.programmed
        image = (session.folder / "image.bin").read_bytes()
    assert rom.flash.startswith(image)
    (segment,) = read_image(esp_image)
    assert segment.address == 0x4038_0000
    assert segment.data in rom.flash
    dump = tmp_path / "dump.bin"
    dump.write_bytes(rom.flash[: len(image)])
    words = [str(programs("esp") / "esptool"), "--chip", "esp32c3", "image-info", str(dump)]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "Entry point: 0x40380000" in said
    assert "Segments: 1" in said
    assert "0x40380000" in said.partition("Segments Information")[2]
    assert "(valid)" in said.partition("Checksum:")[2].partition("\n")[0]
    assert image[-32:] == hashlib.sha256(image[:-32]).digest()


def test_esptool_verifies_what_is_there(rom: Rom, esp_image: Path) -> None:
    with _esptool(rom) as session:
        session.program(esp_image, None)
        session.verify(esp_image)
        rom.flash[64] ^= 1
        with pytest.raises(FlashError, match="(?i)verif"):
            session.verify(esp_image)


def test_esptool_erases_and_resets(rom: Rom, esp_image: Path) -> None:
    with _esptool(rom) as session:
        session.program(esp_image, None)
        assert session.erase() == [(r.origin, r.size) for r in session.board.regions("flash")]
        assert rom.flash == b"\xff" * len(rom.flash)
        assert session.reset() == "running"


@pytest.mark.parametrize(
    ("changes", "error", "fact", "hint"),
    [
        ({"chip_id": 13}, ProbeError, "This chip is ESP32-C6, not ESP32-C3", "esptool:chip=NAME"),
        ({"is_worn": True}, FlashError, "MD5 of file does not match", "erase the board"),
        ({"is_silent": True}, ProbeError, "Failed to connect to ESP32-C3", "hold BOOT"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_failures_of_esptool(
    changes: dict[str, int],
    error: type[DeviceError],
    fact: str,
    hint: str,
    rom: Rom,
    esp_image: Path,
) -> None:
    vars(rom).update(changes)
    with _esptool(rom) as session, pytest.raises(error) as caught:
        session.program(esp_image, None)
    assert fact in caught.value.fact
    assert hint in caught.value.hint


@pytest.mark.parametrize("action", ["program", "erase"])
def test_esptool_forces_no_locked_chip(action: str, rom: Rom, esp_image: Path) -> None:
    """By its eFuses: flash encryption is on, and plain images are not encrypted by the chip."""
    rom.registers |= {0x6000_8830: 1 << 20, 0x6000_8834: 1 << 18}
    before = bytes(rom.flash)
    with _esptool(rom) as session, pytest.raises(ProbeError) as caught:
        session.program(esp_image, None) if action == "program" else session.erase()
    assert "locked" in caught.value.hint
    assert rom.flash == before


def test_esptool_without_a_port(esp_image: Path, rom: Rom) -> None:
    absent = replace(rom, url="/dev/ttyNONE9")
    with _esptool(absent) as session, pytest.raises(ProbeError, match="/dev/ttyNONE9"):
        session.program(esp_image, None)


# -- OpenOCD --------------------------------------------------------------------------------------

#: A core on a scan chain that is not there: OpenOCD simulates the states of a ``testee``, and
#: serves gdb for a ``mips_m4k``.
_CORE = """
jtag newtap t cpu -irlen 4 -expected-id 0
target create t.cpu {} -chain-position t.cpu
adapter speed 100
"""


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of OpenOCD's scripts with the target ``testee``, and a probe on USB."""
    folder = tmp_path / "scripts"
    (folder / "target").mkdir(parents=True)
    (folder / "target" / "testee.cfg").write_text(_CORE.format("testee"))
    (folder / "target" / "mips.cfg").write_text(_CORE.format("mips_m4k"))
    monkeypatch.setenv("OPENOCD_SCRIPTS", str(folder))
    devices = tmp_path / "usb"
    devices.mkdir()
    monkeypatch.setattr(usb, "DEVICES", devices)
    add_device(devices, "1-1", 0x0D28, 0x0204, "0240000034544E45")
    return folder


@pytest.fixture(scope="module")
def arm_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _image(
        tmp_path_factory.mktemp("arm"), 0x0800_0000, "arm-none-eabi-gcc", "-mcpu=cortex-m4"
    )


def _openocd(**settings: str) -> Board:
    return load_board("nucleo-f446re").with_settings("--flasher", "openocd", settings)


@contextlib.contextmanager
def _session(board: Board, name: str = "openocd") -> Iterator[ProgramSession]:
    flasher = flashers()[name]
    uid = flasher.probes()[0].uid
    with flasher.open(board, uid, Connection()) as session:
        assert isinstance(session, ProgramSession)
        yield session


def test_openocd_resets_a_core(scripts: Path) -> None:
    with _session(_openocd(interface="dummy", target="testee")) as session:
        assert session.reset() == "running"


@pytest.mark.parametrize(
    ("interface", "target", "more", "fact", "hint"),
    [
        ("dummy", "stm32f4x", {}, "double-check your JTAG setup", "check the wiring"),
        ("stlink", "stm32f4x", {}, "open failed", "connect the probe"),
        ("cmsis-dap", "nrf52", {}, "unable to find a matching CMSIS-DAP device", "connect the"),
        ("nothere", "stm32f4x", {}, "Can't find interface/nothere.cfg", "interface=I"),
        ("dummy", "nothere", {}, "Can't find target/nothere.cfg", "target=T"),
        ("dummy", "testee", {"transport": "swd"}, "transport", "transport"),
    ],
)
def test_failures_of_openocd(
    interface: str,
    target: str,
    more: dict[str, str],
    fact: str,
    hint: str,
    scripts: Path,
    arm_image: Path,
) -> None:
    board = _openocd(interface=interface, target=target, **more)
    with _session(board) as session, pytest.raises(DeviceError) as caught:
        session.program(arm_image, None)
    assert fact in caught.value.fact
    assert hint in caught.value.hint


def test_openocd_without_a_flash_bank(scripts: Path, arm_image: Path) -> None:
    """Nothing that was not written and read back counts as programmed."""
    board = _openocd(interface="dummy", target="testee")
    with _session(board) as session, pytest.raises(DeviceError) as caught:
        session.program(arm_image, None)
    assert caught.value.fact.startswith("OpenOCD ")


def test_openocd_ignores_the_working_folder(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / "interface").mkdir(parents=True)
    for name in ("openocd.cfg", "interface/dummy.cfg"):
        (here / name).write_text("exec touch canary\nshutdown error\n")
    monkeypatch.chdir(here)
    with _session(_openocd(interface="dummy", target="testee")) as session:
        assert session.reset() == "running"
    assert not (here / "canary").exists()


def test_openocd_serves_gdb_at_a_pipe(scripts: Path, tmp_path: Path) -> None:
    """No TCP port is open meanwhile, and no OpenOCD is left."""
    import psutil

    board = _openocd(interface="dummy", target="mips")
    path = tmp_path / "stub"
    with (
        socket.socket(socket.AF_UNIX) as stub,
        _session(board) as session,
    ):
        stub.bind(str(path))
        stub.listen()
        with session.serve_debugger(board, stub) as alive, socket.socket(socket.AF_UNIX) as gdb:
            gdb.settimeout(20)
            gdb.connect(str(path))
            gdb.sendall(b"$qSupported:multiprocess+#c6")
            answer = b""
            while b"PacketSize" not in answer:
                answer += gdb.recv(4096)
            alive()
            mine = psutil.Process().children(recursive=True)
            running = [p for p in mine if p.name() == "openocd"]
            assert len(running) == 1
            assert not running[0].net_connections(kind="inet")
    assert not [p for p in psutil.Process().children(recursive=True) if p.name() == "openocd"]


# -- the others, without a device -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "device", "settings", "fact"),
    [
        ("st-flash", (0x0483, 0x374B), {}, "Couldn't find any ST-Link devices"),
        ("dfu-util", (0x0483, 0xDF11), {}, "No DFU capable USB device available"),
    ],
)
def test_a_tool_that_finds_no_device(
    name: str,
    device: tuple[int, int],
    settings: dict[str, str],
    fact: str,
    arm_image: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel's list has it still, the tool does not find it: unplugged meanwhile."""
    monkeypatch.setattr(usb, "DEVICES", tmp_path)
    add_device(tmp_path, "1-1", *device, serial="066BFF50", interfaces=[(0xFE, 1, 2)])
    board = load_board("nucleo-f446re").with_settings("--flasher", name, {"timeout_s": "30"})
    board = board if name in board.settings else replace(board)
    with _session(board, name) as session, pytest.raises(ProbeError) as caught:
        session.program(arm_image, None)
    assert fact in caught.value.fact
    assert caught.value.is_lost


def test_bossac_finds_no_bootloader(
    arm_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal that answers nothing."""
    monkeypatch.setattr(usb, "DEVICES", tmp_path)
    add_device(tmp_path, "1-1", 0x2341, 0x005A)
    master, slave = os.openpty()
    port = ListPortInfo(os.ttyname(slave))
    port.vid, port.pid, port.location = 0x2341, 0x005A, "1-1:1.0"
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda include_links=False: [port])
    board = load_board("nucleo-f446re").with_settings("--flasher", "bossac", {"timeout_s": "60"})
    try:
        with _session(board, "bossac") as session, pytest.raises(ProbeError) as caught:
            session.program(arm_image, None)
    finally:
        os.close(master)
        os.close(slave)
    assert "No device found on" in caught.value.fact
    assert "press reset twice" in caught.value.hint


def test_the_tools_are_installed() -> None:
    """Of Debian's packages that ci/setup.sh installs: no test of this file is skipped."""
    for program in ("openocd", "dfu-util", "bossac", "st-flash"):
        assert shutil.which(program)
