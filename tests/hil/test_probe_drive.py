"""The flasher `drive`: a hex file copied to the drive of a probe, which a stand-in programs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import probe_drive
import pytest
from probe_drive import answering, away, programming, show

from hil.access import flashers
from hil.access.connection import Connection
from hil.access.flashers import mounts
from hil.access.protocols import FlasherSession
from hil.board import board_names, load_board
from hil.cli import main
from hil.errors import FlashError, ProbeError

#: Of a micro:bit V2.
UID = "9904360258824e45005a800c0000000e000000009796990b"
#: Of another one.
OTHER = "9904360258824e45005a800c0000000f000000009796990b"
BOARD = ("--board", "microbit-v2", "--flasher", "drive")
SHORT = (*BOARD[:3], "drive:program_s=1")
#: Of a NUCLEO-L476RG.
PAGE = '<meta http-equiv="refresh" content="0; url=http://mbed.org/device/?code=07650221DE"/>'


@pytest.fixture(autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-ins share their unique ids with those of other workers."""
    monkeypatch.setenv("HIL_LOCKS", str(tmp_path_factory.mktemp("locks")))


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.s").write_text(".rept 300\n.word 0x01020304\n.endr\n")
    words = ["arm-none-eabi-gcc", "-nostdlib", "-mcpu=cortex-m4", "a.s", "-o", "app.elf"]
    subprocess.run([*words, "-Wl,-n,-Ttext=0"], cwd=folder, check=True, timeout=60)
    return folder / "app.elf"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A hex file without data."""
    path = tmp_path / "app.hex"
    path.write_text(":00000001FF\n")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a drive, which is in the list of mounted file systems."""
    place = tmp_path / "MICRO BIT"
    listed = str(place).replace(" ", "\\040")
    other = tmp_path / "stick"
    other.mkdir()
    (tmp_path / "mounts").write_text(
        f"/dev/sda1 {other} vfat rw 0 0\n/dev/sdb {listed} vfat rw 0 0\n"
    )
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "mounts")
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    return place


def test_programs(
    folder: Path, elf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.hex"
    show(folder, UID, fail=probe_drive.ORDER)  # of an earlier copy
    with programming(folder, UID, kept):
        code = main(["flash", str(elf), *BOARD, "--probe", "9904"])
    assert code == 0, capsys.readouterr().err
    subprocess.run(
        ["arm-none-eabi-objcopy", "-I", "ihex", "-O", "binary", kept, tmp_path / "kept.bin"],
        check=True,
        timeout=60,
    )
    subprocess.run(
        ["arm-none-eabi-objcopy", "-O", "binary", elf, tmp_path / "elf.bin"], check=True, timeout=60
    )
    assert (tmp_path / "kept.bin").read_bytes() == (tmp_path / "elf.bin").read_bytes()


def test_a_folder(folder: Path, elf: Path, tmp_path: Path) -> None:
    """It need not be in the list of mounted file systems."""
    (tmp_path / "mounts").write_text("")
    show(folder, UID)
    with programming(folder, UID, tmp_path / "kept.hex"):
        assert main(["flash", str(elf), *BOARD, "--probe", str(folder)]) == 0


@pytest.mark.parametrize(
    ("fail", "hint"),
    [
        (probe_drive.NO_TARGET, "whether the chip is locked"),
        (probe_drive.ORDER, "copy it again"),
        ("error: The hex file cannot be decoded.\r\n", "the image is for another chip"),
        ("error: something new\r\n", "connect the board again, and repeat"),
    ],
)
def test_fail_txt(
    folder: Path,
    elf: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fail: str,
    hint: str,
) -> None:
    show(folder, UID)
    with programming(folder, UID, tmp_path / "kept.hex", fail=fail):
        assert main(["flash", str(elf), *BOARD]) == 4
    said = capsys.readouterr().err
    assert f"FAIL.TXT of {folder} says: {' '.join(fail.split())}" in said
    assert hint in said


def test_drive_that_stays_away(
    folder: Path, elf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show(folder, UID)
    with programming(folder, UID, tmp_path / "kept.hex", returns=False):
        assert main(["flash", str(elf), *SHORT]) == 4
    assert "was not back within 1 s" in capsys.readouterr().err


def replaced(folder: Path, uid: str, **state: Any) -> None:
    """Take the drive away, and show another state of it."""
    away(folder)
    show(folder, uid, **state)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda place: (place / "firmware.hex").unlink(), "gave no sign that it programmed"),
        (lambda place: None, "gave no sign that it programmed"),
        # Unplugged: DAPLink counts from 0 when it starts.
        (lambda place: replaced(place, UID, count=0), "(Remount count 7, 0)"),
        (lambda place: replaced(place, UID, count=7), "(Remount count 7, 7)"),
        (lambda place: replaced(place, UID, mode="Bootloader", count=8), "DAPLink's own boot"),
        (lambda place: replaced(place, OTHER, count=8), f"that of another board is there: {OTHER}"),
        (
            lambda place: replaced(place, UID, count=8, asserted=probe_drive.ASSERTED),
            "says: Assert File: flash_manager.c Line: 211",
        ),
        (
            lambda place: replaced(place, UID, count=0, asserted=probe_drive.ASSERTED),
            "says: Assert File: flash_manager.c Line: 211",
        ),
    ],
    ids=["deleted", "stays", "unplugged", "count", "bootloader", "other", "assert", "restarted"],
)
def test_not_programmed(
    folder: Path,
    elf: Path,
    capsys: pytest.CaptureFixture[str],
    answer: Callable[[Path], None],
    message: str,
) -> None:
    """Without a sign that the image was programmed, the command fails."""
    show(folder, UID, count=7)
    with answering(folder, lambda: answer(folder)):
        assert main(["flash", str(elf), *SHORT, "--probe", str(folder)]) == 4
    assert message in capsys.readouterr().err


def test_old_assertion(folder: Path, elf: Path) -> None:
    """ASSERT.TXT stays from an earlier failure; it says nothing about this image."""
    asserted = probe_drive.ASSERTED
    show(folder, UID, count=7, asserted=asserted)
    with answering(folder, lambda: replaced(folder, UID, count=8, asserted=asserted)):
        assert main(["flash", str(elf), *SHORT]) == 0


def test_programs_again(folder: Path, image: Path, tmp_path: Path) -> None:
    """A session that programs again does not take the count of the first time as a sign."""
    show(folder, UID)
    words = {"program_s": "1"}
    board = load_board("microbit-v2").with_settings("--flasher", "drive", words)
    with flashers()["drive"].open(board, UID, Connection()) as session:
        with programming(folder, UID, tmp_path / "kept.hex"):
            session.program(image, None)
        with (
            answering(folder, (folder / "firmware.hex").unlink),
            pytest.raises(FlashError, match=r"gave no sign .*\(Remount count 1, 1\)"),
        ):
            session.program(image, None)


def test_gone_before_the_copy(folder: Path, image: Path) -> None:
    """A drive that was unplugged, and has no image, is an error even if it comes back."""
    show(folder, UID)
    with flashers()["drive"].open(load_board("microbit-v2"), UID, Connection()) as session:
        away(folder)
        with pytest.raises(ProbeError, match="is gone"):
            session.program(image, None)


@pytest.mark.parametrize(("chunk", "error"), [(1, OSError), (100, mounts.DriveGoneError)])
def test_gone_during_the_copy(
    monkeypatch: pytest.MonkeyPatch, chunk: int, error: type[OSError]
) -> None:
    """Only a drive that disappears with the last bytes may have the image."""
    monkeypatch.setattr(mounts, "_CHUNK_BYTES", chunk)
    with pytest.raises(OSError, match="Input/output error") as caught:
        mounts.copy_to(Path("/proc/self/mem"), b"image", None)  # Nothing is at address 0: EIO.
    assert type(caught.value) is error


def test_no_file(tmp_path: Path) -> None:
    """A drive that is gone before its file is opened has no image."""
    with pytest.raises(FileNotFoundError):
        mounts.copy_to(tmp_path / "gone" / "firmware.hex", b"image", None)


@pytest.fixture
def st_link(folder: Path, tmp_path: Path) -> Iterator[FlasherSession]:
    """A session with the drive of an ST-Link, chosen by its folder."""
    st_link_drive(folder)
    board = load_board("nucleo-l476rg").with_settings("--flasher", "drive", {"program_s": "1"})
    with flashers()["drive"].open(board, str(folder), Connection()) as session:
        yield session


def st_link_drive(folder: Path) -> None:
    folder.mkdir()
    (folder / "MBED.HTM").write_text(PAGE)


def test_no_count(folder: Path, st_link: FlasherSession, image: Path) -> None:
    """An ST-Link does not count: its drive disappears."""

    def answer() -> None:
        away(folder)
        st_link_drive(folder)

    with answering(folder, answer):
        assert st_link.program(image, None).programmed


def test_no_count_and_stays(folder: Path, st_link: FlasherSession, image: Path) -> None:
    with (
        answering(folder, (folder / "firmware.hex").unlink),
        pytest.raises(FlashError, match=r"gave no sign that it programmed the image within 1 s\n"),
    ):
        st_link.program(image, None)


@pytest.mark.parametrize(
    ("uid", "state", "message"),
    [
        ("0240000034544e45", {}, "code 9903 or 9904 or 9905 or 9906"),
        (UID, {"auto_reset": 0}, "does not start what it has programmed"),
        (UID, {"mode": "Bootloader"}, "is that of DAPLink's own bootloader"),
    ],
)
def test_refused(
    folder: Path,
    elf: Path,
    capsys: pytest.CaptureFixture[str],
    uid: str,
    state: dict[str, int],
    message: str,
) -> None:
    show(folder, uid, **state)  # type: ignore[arg-type]
    assert main(["flash", str(elf), *BOARD]) == 4
    assert message in capsys.readouterr().err
    assert not list(folder.glob("*.hex"))


def test_none_there(folder: Path, elf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flash", str(elf), *BOARD]) == 4
    assert "mount its drive (MICROBIT, DAPLINK, NODE_...)" in capsys.readouterr().err


def test_st_link(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its page has the board's code, and its USB device the probe's serial number."""
    folder.mkdir()
    page = '<meta http-equiv="refresh" content="0; url=http://mbed.org/device/?code=07400221DE"/>'
    (folder / "MBED.HTM").write_text(page)
    device = tmp_path / "usb1" / "1-2"
    block = device / "1-2:1.0" / "host0" / "block" / "sdb"
    block.mkdir(parents=True)
    (device / "idVendor").write_text("0483\n")
    (device / "serial").write_text("0671FF515055657867\n")
    (tmp_path / "block").mkdir()
    (tmp_path / "block" / "sdb").symlink_to(block)
    monkeypatch.setattr(mounts, "BLOCKS", tmp_path / "block")
    (probe,) = flashers()["drive"].probes()
    assert probe.uid == "0671FF515055657867"


def test_codes_are_pyocds() -> None:
    """The codes of board files are those of the boards in pyOCD's table."""
    ids = pytest.importorskip("pyocd.board.board_ids").BOARD_ID_TO_INFO
    names = [name for name in board_names() if "drive" in load_board(name).flashers]
    assert names
    for name in names:
        settings = load_board(name).settings
        for code in str(settings["drive"]["board_id"]).split():
            # Without the letters of package and memory.
            assert ids[code].target[:9] == str(settings["pyocd"]["target"])[:9], (name, code)
