"""The flasher `uf2`: an image copied to a drive of a bootloader.

The drives are folders and, where this user may mount one, a small FAT-less file system in memory
(tmpfs). A thread is the bootloader: it takes the image, and its drive disappears.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hil.access import Connection
from hil.access.flashers import mounts as drive_list
from hil.access.flashers import uf2
from hil.board import load_board
from hil.cli import main
from hil.errors import FlashError
from hil.firmware.image import read_image

FAMILY = 0xE48BFF56
_INFO = "UF2 Bootloader v3.0\nModel: Raspberry Pi RP2\nBoard-ID: {}\n"
_BOARD = """
description = "x"
chip = "rp2040"
flasher = {{ name = "uf2"{settings} }}
[[memory]]
name = "flash"
kind = "flash"
origin = 0x1000_0000
size = "2M"
[uart]
instance = "uart0"
tx = "GP0"
rx = "GP1"
"""


def drive(folder: Path, board_id: str = "RPI-RP2") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / uf2._INFO).write_text(_INFO.format(board_id))
    return folder


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.s").write_text(".rept 300\n.word 0x01020304\n.endr\n")
    words = ["arm-none-eabi-gcc", "-nostdlib", "-mcpu=cortex-m0plus", "a.s", "-o", "app.elf"]
    words += ["-Wl,-n,-Ttext=0x10000000"]
    subprocess.run(words, cwd=folder, check=True, timeout=60, stderr=subprocess.DEVNULL)
    return folder / "app.elf"


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The list of mounted file systems, and the user's configuration and locks."""
    path = tmp_path / "mounts"
    path.write_text("proc /proc proc rw 0 0\n")
    monkeypatch.setattr(drive_list, "MOUNTS", path)
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    return path


def mount(mounts: Path, *folders: Path, kind: str = "vfat") -> None:
    lines = [f"/dev/sda1 {str(f).replace(' ', chr(92) + '040')} {kind} rw 0 0\n" for f in folders]
    mounts.write_text(mounts.read_text() + "".join(lines))


def board_file(tmp_path: Path, settings: str = "") -> str:
    path = tmp_path / "pico-uf2.toml"
    path.write_text(_BOARD.format(settings=settings))
    return str(path)


@contextmanager
def bootloader(folder: Path, keep: Path, *, starts: bool = True) -> Iterator[None]:
    """Take the image from the drive when it is complete, and end the drive."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            images = list(folder.glob("*.uf2"))
            data = images[0].read_bytes() if images else b""
            blocks = struct.unpack_from("<I", data, 24)[0] if len(data) >= 512 else 0
            if blocks and len(data) == 512 * blocks:
                keep.write_bytes(data)
                if starts:
                    shutil.rmtree(folder)
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def payload(data: bytes) -> dict[int, bytes]:
    """The bytes of each block by its address; all have the family."""
    found = {}
    for at in range(0, len(data), 512):
        block = struct.unpack("<8I476sI", data[at : at + 512])
        assert block[2] & 0x2000
        assert block[7] == FAMILY
        found[block[3]] = block[8][: block[4]]
    return found


def test_the_drive_of_the_board_is_found(
    mounts: Path, tmp_path: Path, elf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among others, in a folder with a blank in its name."""
    own, other = drive(tmp_path / "RPI RP2"), drive(tmp_path / "FTHR840BOOT", "nRF52840-Feather")
    plain = tmp_path / "stick"
    plain.mkdir()
    mount(mounts, other, plain, own)
    kept = tmp_path / "kept.uf2"
    with bootloader(own, kept):
        code = main(["flash", str(elf), "--board", board_file(tmp_path)])
    assert code == 0, capsys.readouterr().err
    (segment,) = read_image(elf)
    blocks = payload(kept.read_bytes())
    joined = b"".join(blocks[address] for address in sorted(blocks))
    assert min(blocks) == segment.address
    assert joined.startswith(segment.data)
    assert not list(other.glob("*.uf2"))


@pytest.mark.parametrize(
    ("ids", "fact", "hint"),
    [
        ([], "is not connected", "BOOTSEL"),
        (["nRF52840-Feather"], "no UF2 drive is that of", "BOOTSEL"),
        (["RPI-RP2", "RPI-RP2"], "ambiguous", "--probe"),
    ],
)
def test_no_drive_or_several(
    ids: list[str],
    fact: str,
    hint: str,
    mounts: Path,
    tmp_path: Path,
    elf: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders = [drive(tmp_path / f"d{i}", name) for i, name in enumerate(ids)]
    mount(mounts, *folders)
    assert main(["flash", str(elf), "--board", board_file(tmp_path)]) == 4
    said = capsys.readouterr().err
    assert fact in said
    assert hint in said
    for folder in folders:
        assert str(folder) in said
        assert not list(folder.glob("*.uf2"))


def test_one_of_two_drives_is_chosen(mounts: Path, tmp_path: Path, elf: Path) -> None:
    a, b = drive(tmp_path / "one"), drive(tmp_path / "two")
    mount(mounts, a, b)
    with bootloader(b, tmp_path / "kept"):
        words = ["flash", str(elf), "--board", board_file(tmp_path), "--probe", str(b)]
        assert main(words) == 0
    assert not list(a.glob("*.uf2"))


def test_a_bootloader_that_ignores_an_image(
    mounts: Path, tmp_path: Path, elf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As bootloaders do with another family: the drive stays."""
    own = drive(tmp_path / "RPI-RP2")
    mount(mounts, own)
    with bootloader(own, tmp_path / "kept", starts=False):
        assert main(["flash", str(elf), "--board", board_file(tmp_path, ", start_s = 1")]) == 4
    said = capsys.readouterr().err
    assert "did not start the firmware within 1 s" in said
    assert "family" in said
    # A drive that stays on purpose.
    assert main(["flash", str(elf), "--board", board_file(tmp_path, ", stays = true")]) == 0


def test_a_folder_that_the_user_chooses(
    mounts: Path,
    tmp_path: Path,
    elf: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the user mounts the drive; it is no drive before it is there."""
    own = tmp_path / "mnt"
    own.mkdir()
    words = ["flash", str(elf), "--board", board_file(tmp_path, ", stays = true")]
    words += ["--probe", str(own)]
    assert main(words) == 4
    assert "is not connected" in capsys.readouterr().err
    drive(own)
    assert main(words) == 0
    assert list(own.glob("*.uf2"))
    monkeypatch.chdir(tmp_path)
    assert main([*words[:-1], "mnt"]) == 2
    assert f"write --probe {own}" in capsys.readouterr().err


def test_a_drive_appears_late(mounts: Path, tmp_path: Path, elf: Path) -> None:
    """While the board is awaited, as after a power cycle."""
    from hil.access import flashers
    from hil.access.hardware import reached

    own = drive(tmp_path / "RPI-RP2")
    timer = threading.Timer(0.5, mount, (mounts, own))
    timer.start()
    board = load_board(board_file(tmp_path))
    with reached(flashers()["uf2"], board, Connection(appear_s=20)) as found:
        assert found.uid == str(own)
    timer.join()


def _terminal_at_1200(stack: ExitStack, then: Callable[[], None]) -> str:
    """Return a terminal; ``then`` is called when it is opened at 1200 baud."""
    import pty
    import termios

    master, slave = pty.openpty()
    stack.callback(os.close, master)
    stack.callback(os.close, slave)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            if termios.tcgetattr(master)[4] == termios.B1200:
                then()
                return

    thread = threading.Thread(target=watch)
    thread.start()
    stack.callback(thread.join)
    stack.callback(ended.set)
    return os.ttyname(slave)


def test_1200_baud_start_the_bootloader(mounts: Path, tmp_path: Path, elf: Path) -> None:
    own = drive(tmp_path / "RPI-RP2")
    with ExitStack() as stack:
        stack.enter_context(bootloader(own, tmp_path / "kept"))
        port = _terminal_at_1200(stack, lambda: mount(mounts, own))
        board = board_file(tmp_path, ", touch = true")
        assert main(["flash", str(elf), "--board", board, "--port", port]) == 0
    assert (tmp_path / "kept").exists()


def test_no_touch_without_the_setting(
    mounts: Path, tmp_path: Path, elf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touched = threading.Event()
    with ExitStack() as stack:
        port = _terminal_at_1200(stack, touched.set)
        assert main(["flash", str(elf), "--board", board_file(tmp_path), "--port", port]) == 4
    assert not touched.is_set()
    assert "BOOTSEL" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize(
    ("options", "fact", "hint"),
    [
        ("size=64k", "No space left on device", "the drive is full"),
        ("ro", "Read-only file system", "mount the drive for writing"),
    ],
)
def test_a_drive_that_takes_no_image(
    options: str,
    fact: str,
    hint: str,
    mounts: Path,
    tmp_path: Path,
    elf: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)])
    if done.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        drive(folder)
        if options == "ro":
            remount = ["mount", "-o", "remount,ro", str(folder)]
            subprocess.run(remount, check=True)
        else:
            # A bootloader's FAT has room for its own files only.
            (folder / "INDEX.HTM").write_bytes(bytes(60 << 10))
        mount(mounts, folder)
        assert main(["flash", str(elf), "--board", board_file(tmp_path)]) == 4
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    said = capsys.readouterr().err
    assert fact in said
    assert hint in said


def test_a_drive_that_disappears_at_once(mounts: Path, tmp_path: Path, elf: Path) -> None:
    """The kernel reports an error for the last block where the bootloader has restarted already."""
    own = drive(tmp_path / "RPI-RP2")
    mount(mounts, own)
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        shutil.rmtree(own)
        raise OSError(5, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", fsync)
        assert main(["flash", str(elf), "--board", board_file(tmp_path)]) == 0


def test_a_drive_that_is_gone_before_the_copy(tmp_path: Path) -> None:
    """It has no image, though it disappeared as after an image."""
    own = drive(tmp_path / "RPI-RP2")
    image = tmp_path / "app.uf2"
    image.write_bytes(bytes(512))
    session = uf2.Uf2Session(uf2.Drive(own, "RPI-RP2", ""), 1, stays=False)
    shutil.rmtree(own)
    with pytest.raises(FlashError, match="cannot be copied .* No such file or directory"):
        session.program(image, None)


@pytest.mark.parametrize("command", ["reset", "erase"])
def test_what_a_drive_cannot(
    command: str, mounts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mount(mounts, drive(tmp_path / "RPI-RP2"))
    assert main([command, "--board", board_file(tmp_path)]) == 2
    assert f"cannot {command}" in capsys.readouterr().err


def test_drives_are_listed(mounts: Path, tmp_path: Path) -> None:
    from hil.access import flashers

    own = drive(tmp_path / "RPI-RP2")
    mount(mounts, own)
    mount(mounts, drive(tmp_path / "net"), kind="nfs")
    (found,) = flashers()["uf2"].probes()
    assert found.uid == str(own)
    assert "Raspberry Pi RP2" in found.description


@pytest.mark.parametrize("wait", [[], ["--wait", "1"]])
@pytest.mark.parametrize("port", ["file", "/dev/null"])
def test_no_serial_port(
    mounts: Path,
    tmp_path: Path,
    elf: Path,
    capsys: pytest.CaptureFixture[str],
    port: str,
    wait: list[str],
) -> None:
    """It is found before the drive has the image."""
    own = drive(tmp_path / "own")
    mount(mounts, own)
    (tmp_path / "file").write_text("x")
    words = ["--board", board_file(tmp_path), "--port", str(tmp_path / port), *wait]
    assert main(["flash", str(elf), *words]) == 4
    assert f"{tmp_path / port} is not a serial port" in capsys.readouterr().err
    assert not list(own.glob("*.uf2"))


def test_erase_by_another(mounts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["erase", "--board", "raspberry-pi-pico", "--flasher", "uf2"]) == 2
    assert "hint: choose one that can: pyocd, openocd, picotool" in capsys.readouterr().err
