"""Runners and flashers: their settings, a flasher of a plugin, and who may name pyOCD."""

from __future__ import annotations

import importlib
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answers
import pytest
from plugin_site import Site

import hil
from hil import virtual_probe
from hil.access import Connection, chosen_flasher, chosen_runner, flashers, require
from hil.access.protocols import Flasher
from hil.board import load_board
from hil.board.settings import parse_named
from hil.cli import main
from hil.errors import BoardError, InputError
from hil.firmware.build import build
from hil.firmware.formats import image_in, intel_hex, raw, uf2
from hil.firmware.image import Segment, read_image
from hil.support.scope import decided, one_command

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = Path(hil.__file__).parent
DIGITS = TESTS.parent / "examples" / "digits" / "digits.tflite"
BOARD = "mps2-an385"


# -- one module knows pyOCD --------------------------------------------------------------------


def test_no_other_module_names_a_flasher() -> None:
    """Only its package, the virtual probe (its driver), and the line that registers it."""
    own = (PACKAGE / "access" / "pyocd", PACKAGE / "virtual_probe")
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not any(path.is_relative_to(folder) for folder in own)
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search("pyocd", line, re.IGNORECASE)
    ]
    assert found == [
        "access/__init__.py: from hil.access.pyocd import PyOcd",
        "access/__init__.py: for _flasher in (PyOcd(), *FLASHERS):",
    ]


def test_the_former_module_is_refused_by_name() -> None:
    with pytest.raises(ImportError, match=r"hil\.runners is hil\.access since 0\.2"):
        importlib.import_module("hil.runners")


def test_no_description_has_an_earlier_form() -> None:
    """Wherever boards lie in the checkout: all that name a chip or a core of their own are read."""
    root = TESTS.parent
    listed = subprocess.run(
        ["git", "ls-files", "*.toml"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
    boards = [
        root / name
        for name in listed
        if re.search(
            "^(runner|flasher|runners) = |^\\[+(runner|flasher)\\]", (root / name).read_text(), re.M
        )
    ]
    assert len(boards) > 40
    for path in boards:
        assert load_board(path).runners, path


# -- settings ----------------------------------------------------------------------------------


def test_a_setting_replaces_the_files() -> None:
    board, runner = chosen_runner(load_board(BOARD), "qemu:icount_shift=9", Connection())
    assert runner.name == "qemu"
    assert board.qemu is not None
    assert (board.qemu.icount_shift, board.qemu.machine) == (9, "mps2-an385")
    board, flasher = chosen_flasher(load_board(BOARD), "pyocd:frequency_hz=1_000_000")
    assert flasher.name == "pyocd"
    assert board.settings["pyocd"] == {"target": "cortex_m", "frequency_hz": 1_000_000, "pack": ""}


@pytest.mark.parametrize(
    ("runner", "error", "message"),
    [
        ("qemu:", InputError, "'' is not a setting"),
        ("qemu:icount_shift", InputError, "'icount_shift' is not a setting"),
        ("qemu:serial=1,serial=2", InputError, "sets serial twice"),
        ("qemu:icount=1", InputError, r"no setting 'icount' \(did you mean icount_shift"),
        ("native:x=1", InputError, "has no setting 'x'"),
        ("qemu:icount_shift=x", BoardError, "--runner qemu:icount_shift: 'x' is not an integer"),
        ("qemu:icount_shift=11", BoardError, "--runner qemu:icount_shift: 11 is not within"),
        ("qemu:icount_shift=2", BoardError, "icount_shift: .* counts would not be exact"),
        ("qemu:machine=-x", BoardError, "--runner qemu:machine: '-x' is not a name"),
        ("qemuu", InputError, r"unknown runner 'qemuu' \(did you mean qemu"),
        ("pyocd:pack=/x", BoardError, "--runner pyocd:pack: '/x' is not a name"),
    ],
)
def test_wrong_settings(runner: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        chosen_runner(load_board(BOARD), runner, Connection())


def test_a_command_uses_the_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """The counts are those of the other shift: an instruction takes four times as long."""
    counts = []
    for runner in ("qemu", "qemu:icount_shift=9"):
        assert main(["bench", str(DIGITS), "--board", BOARD, "--runner", runner, "--json"]) == 0
        report = answers.entry(capsys.readouterr().out)
        counts.append(report)
    assert [r["counter"] for r in counts] == ["instructions"] * 2
    assert counts[0]["per_inference"] == counts[1]["per_inference"], "counts, whatever the shift"
    assert main(["run", str(DIGITS), "--board", BOARD, "--runner", "qemu:icount_shift=99"]) == 2
    assert "99 is not within 0 to 10" in capsys.readouterr().err


def test_parsed_words() -> None:
    assert parse_named("--runner", "qemu") == ("qemu", {})
    assert parse_named("--runner", "qemu:cpu=a:b") == ("qemu", {"cpu": "a:b"})


# -- hints -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fact", "hint"),
    [
        ("flash x.tflite --board stm32vldiscovery", "has no flasher", "starts it with qemu"),
        ("erase --board native", "has no flasher", "as a process of this machine"),
        ("reset --board riscv-virt", "has no flasher", "starts it with qemu"),
        ("run x.tflite --board native --probe A", "no flasher, so no probe", "drop --probe"),
        ("run x.tflite --board riscv-virt --probe A --runner qemu", "uses no probe", "no flasher"),
        ("erase --board microbit", "is not connected", "starts the board in qemu"),
        ("erase --board nucleo-f446re --flasher pyocdd", "unknown flasher 'pyocdd' (", "of pyocd"),
        ("flash x.tflite --board native --flasher pyocd", "'native' has no flasher 'pyocd'", ""),
        ("run x.tflite --board native --runner rig:slot=x", "unknown runner 'rig'", "native"),
        ("run x.tflite --board mps2-an385 --runner qemu:icount_shift=x", "an integer", "=NUMBER"),
        ("run x.tflite --board mps2-an385 --runner qemu:memory=x", "'x' is no", "64K or 4M"),
        ("debug x.tflite --board native", "no gdb server", "`hil build MODEL --board native`"),
    ],
)
def test_hints_of_boards_without_a_flasher(
    line: str,
    fact: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setattr("hil.virtual_probe.machine._folder", lambda: tmp_path / "probes")
    assert main(line.replace("x.tflite", str(DIGITS)).split()) in (2, 4)
    said = capsys.readouterr().err
    assert fact in said
    assert hint in said
    # Refused where it is added: the runners of the board decide.
    assert "[pyocd] table" not in said
    assert "is emulated" not in said


def test_the_former_option_of_a_chip(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["board", "new", "x", "--pyocd-target", "nrf52840"]) == 2
    said = capsys.readouterr().err
    assert "--pyocd-target is the form of a release before 0.2" in said
    assert "write --flasher pyocd:target=VALUE" in said


class _Plain(Flasher):
    name = "plain"
    title = "plain"

    def open(self, *given: object, **more: object) -> Any:
        raise NotImplementedError


def test_a_lacking_capability_is_named() -> None:
    with pytest.raises(InputError, match="the flasher 'plain' cannot erase a board") as caught:
        require(_Plain(), "erase", flashers())
    assert "pyocd" in caught.value.hint


# -- a flasher of a plugin ---------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path / "site")
    made.install(
        "acme-stub", "stub = stub_flasher", TESTS / "support" / "harness" / "stub_flasher.py"
    )
    return made


@pytest.fixture
def machine() -> Iterator[virtual_probe.VirtualBoard]:
    with virtual_probe.start(load_board(BOARD)) as (board, _):
        yield board


def test_a_plugins_flasher_programs_a_board(
    site: Site, machine: virtual_probe.VirtualBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a board that does not name it, by its probe and its port."""
    log = tmp_path / "log"
    monkeypatch.setenv("STUB_FLASHER_LOG", str(log))
    uid = machine.uid.replace("hil-", "stub-")
    place = ("--board", BOARD, "--probe", uid, "--port", machine.url)
    flasher = ("--flasher", "stub:flag=fast")
    done = answers.entry(site.hil("flash", DIGITS, *place, *flasher, "--json").stdout)
    assert (done["programmed"], done["build_id"]) == (True, Path(done["elf"]).parts[-3])
    assert log.read_text().splitlines() == ["program fast", "reset fast"]
    report = answers.entry(
        site.hil("verify", DIGITS, *place, "--runner", "stub", "--samples", 2, "--json").stdout
    )
    assert report["match"]
    told = site.hil("reset", "--board", BOARD, "--probe", uid, "--flasher", "stub").stdout
    assert told == f"{BOARD}: reset, running\n"
    # What it does not declare is refused before anything is done.
    programmed = log.read_text()
    for words, fact in (
        (("erase", "--board", BOARD, "--probe", uid, *flasher), "cannot erase a board"),
        (("debug", DIGITS, *place, "--runner", "stub"), "cannot serve a debugger"),
        (
            ("run", DIGITS, "--board", BOARD, "--runner", "stub", "--transport", "rtt"),
            "cannot carry the serial line",
        ),
        (
            ("run", DIGITS, "--board", BOARD, "--runner", "stub", "--probe", "virtual"),
            "cannot use a virtual probe",
        ),
    ):
        said = site.hil(*words, code=2).stderr
        assert f"the flasher 'stub' {fact}" in said
        assert "pyocd" in said, "the hint names a flasher that can"
    assert log.read_text() == programmed


def test_a_board_file_names_a_plugins_flasher(site: Site, tmp_path: Path) -> None:
    text = (
        f'description = "x"\nchip = "{BOARD}"\n[uart]\ninstance = "uart0"\n'
        '[flasher]\nname = "stub"\ntries = {}\n'
    )
    path = site.folder / "perch.toml"
    path.write_text(text.format(3))
    described: dict[str, Any] = answers.entry(site.hil("boards", path, "--json").stdout)
    assert described["runners"] == ["stub", "pyocd"], "the chip describes the other"
    assert described["flashers"]["stub"] == {"flag": "plain", "tries": 3}
    path.write_text(text.format(4))
    assert "flasher.tries: 4 is not within 1 to 3" in site.hil("boards", path, code=2).stderr
    path.write_text(text.format('"x"'))
    assert "flasher.tries: 'x' is not an integer" in site.hil("boards", path, code=2).stderr


def test_doctor_lists_a_plugins_flasher(site: Site, machine: virtual_probe.VirtualBoard) -> None:
    found = answers.entry(site.hil("doctor", "--json").stdout)
    tools = [tool for tool in found["tools"] if tool["purpose"].startswith("the flasher `stub`")]
    assert [(tool["name"], tool["found"]) for tool in tools] == [("qemu-system-arm", True)]
    assert machine.uid.replace("hil-", "stub-") in [probe["uid"] for probe in found["probes"]]


# -- images ------------------------------------------------------------------------------------

SEGMENTS = (Segment(0x0800_0000, bytes(range(40))), Segment(0x0801_0004, b"abc"))


def test_intel_hex() -> None:
    assert intel_hex(SEGMENTS).splitlines() == [
        ":020000040800F2",
        ":10000000000102030405060708090A0B0C0D0E0F78",
        ":10001000101112131415161718191A1B1C1D1E1F68",
        ":080020002021222324252627BC",
        ":020000040801F1",
        ":03000400616263D3",
        ":00000001FF",
    ]


@pytest.mark.parametrize("image_format", ["hex", "bin", "uf2"])
def test_an_image_keeps_its_bytes_in_every_format(image_format: Any, tmp_path: Path) -> None:
    """As objcopy reads it, which knows Intel HEX and raw images."""
    elf = build([], load_board("microbit")).elf
    segments = read_image(elf)
    path = image_in(elf, image_format, tmp_path, 0xADA5_2840)
    if image_format == "uf2":
        found: dict[int, int] = {}
        data = path.read_bytes()
        for at in range(0, len(data), 512):
            block = struct.unpack("<8I476sI", data[at : at + 512])
            assert block[:2] == (0x0A324655, 0x9E5D5157)
            assert block[5:8] == (at // 512, len(data) // 512, 0xADA5_2840)
            found |= {block[3] + i: block[8][i] for i in range(block[4])}
        for segment in segments:
            for i, byte in enumerate(segment.data):
                assert found[segment.address + i] == byte
        return
    if image_format == "hex":
        made = tmp_path / "again.bin"
        words = ["arm-none-eabi-objcopy", "-I", "ihex", "-O", "binary", "--gap-fill", "0xff"]
        subprocess.run([*words, str(path), str(made)], check=True, timeout=60)
        path = made
    assert path.read_bytes() == raw(segments)
    assert image_in(elf, "elf", tmp_path) == elf


#: Code, data in RAM whose start values follow it, a part across 64 KB, one in a second flash.
_PARTS = """
.section .text, "ax"
.rept 333
.word 0x01020304
.endr
.byte 1, 2, 3
.section .mydata, "aw"
.rept 70
.word 0xa0b0c0d0
.endr
.section .far, "a"
.rept 99
.word 0x11223344
.endr
.section .second, "a"
.rept 5
.word 0x55667788
.endr
"""
_SCRIPT = """
SECTIONS {
  .text 0x08000000 : { *(.text) }
  .mydata 0x20000000 : AT (0x08000800) { *(.mydata) }
  .far 0x0800ff00 : { *(.far) }
  .second 0x08080010 : { *(.second) }
  /DISCARD/ : { *(.ARM.attributes) *(.data) *(.bss) }
}
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    (folder / "a.s").write_text(_PARTS)
    (folder / "a.ld").write_text(_SCRIPT)
    words = ["arm-none-eabi-gcc", "-nostdlib", "-mcpu=cortex-m4", "-T", "a.ld", "a.s"]
    words += ["-Wl,-n,--no-warn-rwx-segments", "-o", "parts.elf"]
    subprocess.run(words, cwd=folder, check=True, timeout=60)
    return folder / "parts.elf"


def _objcopy(*words: object) -> None:
    command = ["arm-none-eabi-objcopy", *map(str, words)]
    subprocess.run(command, check=True, timeout=60)


def _of_hex(path: Path) -> dict[int, int]:
    """The bytes of an Intel HEX file by their addresses."""
    found: dict[int, int] = {}
    upper = 0
    for line in path.read_text().split():
        record = bytes.fromhex(line.removeprefix(":"))
        assert sum(record) & 0xFF == 0
        kind, data = record[3], record[4:-1]
        if kind == 4:
            upper = int.from_bytes(data, "big") << 16
        elif kind == 0:
            at = upper + int.from_bytes(record[1:3], "big")
            found |= {at + i: byte for i, byte in enumerate(data)}
    return found


def test_several_parts_equal_objcopys(parts: Path, tmp_path: Path) -> None:
    """Byte for byte, at the addresses that are programmed, in hex, bin and UF2."""
    theirs = tmp_path / "theirs.hex"
    _objcopy("-O", "ihex", parts, theirs)
    expected = _of_hex(theirs)
    assert min(expected) == 0x0800_0000
    assert max(expected) == 0x0808_0023
    assert _of_hex(image_in(parts, "hex", tmp_path)) == expected
    whole = tmp_path / "theirs.bin"
    _objcopy("-O", "binary", "--gap-fill", "0xff", parts, whole)
    assert image_in(parts, "bin", tmp_path).read_bytes() == whole.read_bytes()
    data = image_in(parts, "uf2", tmp_path, 0x57755A57).read_bytes()
    blocks = [struct.unpack("<8I476sI", data[at : at + 512]) for at in range(0, len(data), 512)]
    found = {block[3] + i: block[8][i] for block in blocks for i in range(block[4])}
    assert {at: found[at] for at in expected} == expected
    assert all(byte == 0xFF for at, byte in found.items() if at not in expected)
    assert [block[3] for block in blocks] == sorted({at & ~0xFF for at in expected})
    assert {block[7] for block in blocks} == {0x57755A57}


def test_an_image_in_two_memories_has_no_raw_form() -> None:
    far = (SEGMENTS[0], Segment(0x2000_0000, b"x"))
    with pytest.raises(InputError, match="so it has no raw form"):
        raw(far)
    assert len(uf2(far)) == 2 * 512


# -- decisions of a command --------------------------------------------------------------------


def test_a_command_decides_once() -> None:
    answers = iter(range(9))
    assert [decided("x", lambda: next(answers)) for _ in range(2)] == [0, 1]
    with one_command():
        assert [decided("x", lambda: next(answers)) for _ in range(2)] == [2, 2]
        with one_command():
            assert decided("x", lambda: next(answers)) == 2
        assert decided("y", lambda: next(answers)) == 3
        with pytest.raises(ZeroDivisionError):
            decided("z", lambda: 1 // 0)
        assert decided("z", lambda: next(answers)) == 4
    assert decided("x", lambda: next(answers)) == 5
