"""Chips that are locked against their probe: nothing is erased unless the user asks for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns import cases
from locked_chip import LockedChip, locked_board

from hil import virtual_probe
from hil.access.pyocd import flash
from hil.access.pyocd.locks import memory_lock
from hil.cli import main
from hil.firmware.image import Segment
from hil.support.qemu import Memory

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
#: Where the chip's content is looked at, and what it is before each command.
_PLACE, _CONTENT = 0x3_0000, bytes(range(64))


class Bench:
    """A locked board with something in its flash."""

    def __init__(self, path: Path, uid: str, sockets: Path, chip: LockedChip) -> None:
        self.path = path
        self.uid = uid
        self.chip = chip
        self._sockets = sockets

    def content(self) -> bytes:
        """Return what is in the flash, past the lock."""
        memory = Memory.at(self._sockets / "qtest")
        try:
            return memory.read_block(_PLACE, len(_CONTENT))
        finally:
            memory.close()

    def hil(self, line: str) -> int:
        return main([*shlex.split(line), "--board", str(self.path), "--probe", self.uid])


@pytest.fixture(params=["nrf52", "nrf52840"])
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setattr("hil.virtual_probe.machine._folder", lambda: tmp_path / "probes")
    board, chip = locked_board(tmp_path, request.param, monkeypatch)
    with virtual_probe.start(board) as (virtual, _):
        chip.is_locked = False
        with flash.connected(board, virtual.uid) as session:
            flash.program(session, [Segment(_PLACE, _CONTENT)])
        chip.is_locked = True
        yield Bench(board.path, virtual.uid, Path(virtual.sockets), chip)


@cases(
    "line",
    ["reset", "erase", f"flash {DIGITS}", f"verify {DIGITS}", f"run {DIGITS}", f"debug {DIGITS}"],
    first=2,
)
def test_a_locked_chip_is_named_and_kept(
    line: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.hil(line) == 4
    err = capsys.readouterr().err
    assert "is locked by its access port protection (APPROTECT)" in err
    assert f"hil erase --board {bench.path} --probe {bench.uid} --erase-to-unlock" in err
    assert "erases its whole flash and its configuration registers (UICR)" in err
    assert (bench.chip.erased, bench.chip.is_locked) == (0, True)
    assert bench.content() == _CONTENT


@cases("line", ["erase", f"flash {DIGITS}"], first=1)
def test_a_chip_is_unlocked_on_request(
    line: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.hil(f"{line} --erase-to-unlock") == 0
    assert "will try to unlock via mass erase" in capsys.readouterr().err, "pyOCD's own warning"
    assert not bench.chip.is_locked
    assert bench.content() == b"\xff" * len(_CONTENT)


@pytest.mark.parametrize(
    ("target", "word", "name"),
    [
        ("stm32f405rgtx", 0x0FFF_AAED, None),
        ("stm32f405rgtx", 0x0FFF_55ED, "its readout protection (RDP)"),
        ("stm32f746ng", 0xC0FF_CCFD, "its readout protection (RDP) at level 2"),
        ("stm32l475xg", 0xFFEF_F8AA, None),
        ("stm32g474retx", 0xFFEF_F8BB, "its readout protection (RDP)"),
        ("stm32f100rb", 0x03FF_FFFE, "its readout protection (RDP)"),
        ("atsame54p20a", 0x0001_0000, "its security bit"),
        ("atsame54p20a", 0x0000_0000, None),
        ("k64f", 0xFFFF_FFFF, None),
    ],
)
def test_registers_show_a_lock(target: str, word: int, name: str | None) -> None:
    lock = memory_lock(lambda _: word, target)
    assert (lock.name if lock else None) == name


def test_no_file_of_the_working_folder_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyOCD's own files there may run code, and may turn its options back on."""
    canary = tmp_path / "canary"
    write = f"open({str(canary)!r}, 'w')"
    (tmp_path / "pyocd_user.py").write_text(f"{write}\n")
    (tmp_path / "pyocd.yaml").write_text(
        "auto_unlock: true\n"
        "logging:\n  formatters:\n    x:\n"
        f'      (): builtins.exec\n      source: "{write}"\n'
        f"  handlers:\n    y:\n      (): pathlib.Path.touch\n      self: {canary}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setattr("hil.virtual_probe.machine._folder", lambda: tmp_path / "probes")
    assert main(["reset", "--board", "mps2-an386", "--probe", "virtual"]) in (0, 4)
    assert main(["doctor"]) in (0, 4)
    assert not canary.exists()
