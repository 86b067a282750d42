"""Boards behind probes from the command line, on emulated ones through real pyOCD."""

from __future__ import annotations

import io
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import answers
import pytest
from campaigns import cases
from descriptions import description_text

from hil import virtual_probe
from hil.access.chips import chip_flasher
from hil.access.connection import ProbeInfo
from hil.access.probes import choose_probe, lines_of
from hil.access.pyocd import usb
from hil.access.pyocd.flash import check_core, connected
from hil.access.pyocd.targets import check_target, read_chip, target_names
from hil.board import Board, load_board
from hil.board.config import remembered
from hil.board.wizard import Answers, describe
from hil.cli import main
from hil.errors import BoardError, InputError, ProbeError

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
HIL = [sys.executable, "-c", "import sys; from hil.cli import main; sys.exit(main())"]
#: For a foreign program: a vector table, and a loop.
FOREIGN = """
int main(void) { for (;;) {} }
__attribute__((section(".vectors"), used)) const void *vectors[16] = {(void *)0x20001000, main};
"""

Run = Callable[[str], Any]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    # Other tests have virtual boards, too, whose probes could be taken for one that is meant here.
    monkeypatch.setattr("hil.virtual_probe.machine._folder", lambda: tmp_path / "probes")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line that must succeed; its JSON."""

    def run_json(line: str) -> Any:
        assert main([*shlex.split(line), "--json"]) == 0, capsys.readouterr().err
        return answers.result(capsys.readouterr().out)

    return run_json


@contextmanager
def virtual(name: str) -> Iterator[str]:
    with virtual_probe.start(load_board(name)) as (board, _):
        yield board.uid


# -- flash, erase, reset -----------------------------------------------------------------------


def test_a_board_is_programmed_once_and_asked(run: Run) -> None:
    with virtual("microbit") as uid:
        line = f"flash {DIGITS} --board microbit --probe {uid}"
        first, second = run(line), run(line)
        assert (first["programmed"], second["programmed"]) == (True, False)
        assert first["build_id"] == second["build_id"] == Path(first["elf"]).parts[-3]
        assert first["text"].startswith(f"programmed {first['bytes']:,} bytes in ")
        assert second["text"].startswith("unchanged, not programmed")
        # The same image by its file; then the model without programming it again.
        assert not run(f"flash {first['elf']} --board microbit --probe {uid}")["programmed"]
        assert run(f"verify {DIGITS} --board microbit --probe {uid} --samples 3")["match"]
        assert run(f"reset --board microbit --probe {uid}")["state"] == "running"
        assert run(f"erase --board microbit --probe {uid}")["bytes"] > 256 << 10
        assert run(line)["programmed"], "the flash was erased"
    assert remembered(uid) == {}, "a virtual board has a new probe each time"


@pytest.mark.parametrize("line", ["--transport rtt", ""])
def test_images_say_themselves_which_line_they_have(line: str, run: Run) -> None:
    built = run(f"build {DIGITS} --board mps2-an386 {line}")
    report = run(f"flash {built['elf']} --board mps2-an386 --probe virtual")
    assert report["build_id"] == built["build_id"]


@pytest.mark.full
@cases("command", ["bench", "verify --samples 2"], first=1)
def test_models_run_over_rtt(command: str, run: Run) -> None:
    report = run(f"{command} {DIGITS} --board mps2-an386 --probe virtual --transport rtt")
    assert report["board"] == "mps2-an386"


@pytest.mark.full
def test_a_console_over_rtt(run: Run) -> None:
    heard = run("monitor --board mps2-an386 --probe virtual --transport rtt --seconds 0.5")
    assert [line["kind"] for line in heard["lines"]] == ["boot"]


def foreign_image(folder: Path, address: int) -> Path:
    source, elf = folder / "foreign.c", folder / "foreign.elf"
    source.write_text(FOREIGN)
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb", "-nostdlib", "-Os", str(source)]
    placed = f"-Wl,--section-start=.vectors={address:#x},-Ttext={address + 0x100:#x},-e,main"
    subprocess.run([*command, placed, "-o", str(elf)], check=True, timeout=60)
    return elf


def test_a_foreign_program_is_started_and_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elf = foreign_image(tmp_path, 0)
    assert main(["flash", str(elf), "--board", "microbit", "--probe", "virtual"]) == 0
    assert "is not a firmware of hil" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("flash beside.elf --board microbit --probe virtual", 2, "where microbit has no memory"),
        ("flash host.elf --board microbit --probe virtual", 2, "is for x64, not for 32-bit Arm"),
        (f"flash beside.elf {DIGITS} --board microbit", 2, "is a firmware image"),
        (
            "flash {digits} --board netduinoplus2",
            2,
            "`hil run MODEL --board netduinoplus2` starts it",
        ),
        (
            "flash {digits} --board mps2-an386",
            4,
            "`hil run MODEL --board mps2-an386` starts the board in",
        ),
        ("erase --board microbit", 4, "`hil run MODEL --board microbit` starts the board in qemu"),
        ("reset --board native", 2, "starts its firmware as a process of this machine"),
        ("flash {digits} --board microbit --probe nowhere", 4, "'nowhere' is not connected"),
        ("flash {digits} --board microbit --transport rtt --port x", 2, "not through a port"),
        ("verify {digits} --board mps2-an386 --transport rtt --port x", 2, "not through a port"),
        ("erase --board native", 2, "board 'native' has no flasher"),
        ("erase --board mps2-an386 --probe virtual", 2, "has no flash to erase"),
        ("debug {digits} --board native", 2, "the runner 'native' has no gdb server"),
        ("debug {digits} --board netduinoplus2 --runner pyocd", 2, "no runner 'pyocd'"),
        ("verify {digits} --board mps2-an386 --runner qemu --probe virtual", 2, "uses no probe"),
    ],
)
def test_what_cannot_be_is_refused(
    line: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign_image(tmp_path, 0x0800_0000).rename(tmp_path / "beside.elf")
    (tmp_path / "host.elf").write_bytes(Path(sys.executable).resolve().read_bytes())
    assert main(shlex.split(line.format(digits=DIGITS))) == code
    assert message in capsys.readouterr().err


# -- debug -------------------------------------------------------------------------------------


@pytest.mark.full
@cases("probe", ["", "--probe virtual"], first=1)
def test_gdb_debugs_what_the_command_says(probe: str) -> None:
    words = shlex.split(f"debug {DIGITS} --board microbit {probe} --json")
    with subprocess.Popen([*HIL, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            text = ""
            while not text.endswith("\n}\n"):
                line = process.stdout.readline()
                assert line, "it ended before it said anything"
                text += line
            report = answers.entry(text)
            steps = ("break main", "continue", "info source", "print $pc == main", "detach")
            words = [word for step in steps for word in ("-ex", step)]
            command = [*shlex.split(report["gdb"]), "-batch", *words]
            gdb = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            assert "Breakpoint 1, main () at src/main.c" in gdb.stdout
            assert "$1 = 1" in gdb.stdout
            assert "No such file" not in gdb.stderr, "the command says where the sources are"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(120)
            finally:
                process.kill()
        assert process.returncode == 130
    assert report["serial"].startswith("unix:///")


# -- choosing ----------------------------------------------------------------------------------

PROBES = [
    ProbeInfo("0240aaaa", "DAPLink", "frdm-k64f", "k64f"),
    ProbeInfo("0240bbbb", "DAPLink", "another-k64f", "k64f"),
    ProbeInfo("77cccc", "J-Link", "", ""),
]


@pytest.mark.parametrize(
    ("board", "asked", "expected"),
    [
        ("frdm-k64f", None, "0240aaaa"),  # by its name, though two have the chip
        ("frdm-k64f", "bbbb", "0240bbbb"),
        ("microbit", None, "77cccc"),  # the only one that says nothing of its board
        ("microbit", "0240AAAA", "0240aaaa"),
    ],
)
def test_probes_are_chosen(board: str, asked: str | None, expected: str) -> None:
    assert choose_probe(load_board(board), asked, PROBES).uid == expected


def test_ambiguity_lists_the_candidates() -> None:
    with pytest.raises(ProbeError) as caught:
        choose_probe(load_board("microbit"), "0240", PROBES)
    assert "ambiguous: 2" in caught.value.fact
    assert "0240aaaa (DAPLink, on frdm-k64f)" in caught.value.fact
    assert "--probe UID" in caught.value.hint


def test_a_port_that_is_not_the_probes_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serial.tools.list_ports.comports", list)
    with pytest.raises(ProbeError, match="no serial port of its own") as caught:
        lines_of(load_board("microbit"), PROBES[0], None)
    assert "--port usb:SERIAL" in caught.value.hint


def test_a_probe_on_another_core_is_told() -> None:
    board = load_board("microbit")
    check_core(board, 0xC20, "x")
    check_core(board, 0xABC, "x")  # a core that nobody knows yet
    with pytest.raises(ProbeError, match="is on a Cortex-M4, but microbit has a cortex-m0"):
        check_core(board, 0xC24, "x")


def test_a_probe_that_another_program_has_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        virtual("microbit") as uid,
        connected(load_board("microbit"), uid),
    ):
        assert main(["reset", "--board", "microbit", "--probe", uid]) == 4
    err = capsys.readouterr().err
    assert f"cannot connect to microbit through the probe {uid}" in err
    assert "close other programs that use the probe" in err


def with_target(tmp_path: Path, target: str, more: str = "") -> Board:
    text = description_text("microbit")
    path = tmp_path / "board.toml"
    path.write_text(text.replace('target = "nrf51"', f'target = "{target}"\n{more}'))
    return load_board(path)


def test_a_missing_pack_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = with_target(tmp_path, "nosuchchip")
    with pytest.raises(ProbeError, match="no target 'nosuchchip', which board needs") as caught:
        check_target(board)
    assert "pyocd pack install nosuchchip" in caught.value.hint
    board = with_target(tmp_path, "nosuchchip", 'pack = "NoSuchChip_RG"')
    assert main(["flash", str(DIGITS), "--board", str(board.path), "--probe", "virtual"]) == 4
    assert "pyocd pack install NoSuchChip_RG" in capsys.readouterr().err


# -- doctor and boards -------------------------------------------------------------------------


@pytest.mark.full
def test_doctor_says_what_a_board_needs(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with virtual("microbit") as uid:
        report = run("doctor --board microbit")
        assert uid in [probe["uid"] for probe in report["probes"]]
    assert {need["what"] for need in report["board"]["needs"]} >= {"runner qemu", "flasher pyocd"}
    # On a machine without that board, its only runner has nothing to program.
    assert main(["doctor", "--board", "frdm-k64f"]) == 4
    out = capsys.readouterr().out
    assert "frdm-k64f: flasher pyocd: target k64f is supported" in out
    assert "a probe for frdm-k64f is not connected" in out


def test_probes_without_permission_are_found(tmp_path: Path) -> None:
    for name, vendor, product in (("1-1", "0d28", "0204"), ("1-2", "0483", "5740")):
        device = tmp_path / "sys" / name
        device.mkdir(parents=True)
        facts = {"idVendor": vendor, "idProduct": product, "busnum": "1", "devnum": name[-1]}
        for key, value in {**facts, "product": "A probe"}.items():
            (device / key).write_text(f"{value}\n")
    (tmp_path / "sys" / "1-1:1.0").mkdir()
    nodes = tmp_path / "dev"
    (nodes / "001").mkdir(parents=True)
    for number in ("001", "002"):
        (nodes / "001" / number).touch()
    assert usb.forbidden_probes(tmp_path / "sys", nodes) == []
    if os.geteuid() == 0:  # nothing is forbidden to root: ask as another user
        code = (
            "import os, sys; from pathlib import Path; from hil.access.pyocd import usb;"
            "os.setuid(65534);"
            "print(usb.forbidden_probes(Path(sys.argv[1]), Path(sys.argv[2])))"
        )
        folder = tmp_path
        while folder != folder.parent and folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
            folder = folder.parent
        for number in ("001", "002"):
            (nodes / "001" / number).chmod(0o600)
        command = [sys.executable, "-c", code, str(tmp_path / "sys"), str(nodes)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        assert "A probe (0d28:0204)" in result.stdout
        assert "0483" not in result.stdout, "a serial port of the same vendor is no probe"
    else:
        (nodes / "001" / "001").chmod(0)
        (probe,) = usb.forbidden_probes(tmp_path / "sys", nodes)
        assert probe.name == "A probe (0d28:0204)"


def test_boards_say_where_they_ran(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    boards = {board["name"]: board for board in run("boards")}
    assert boards["microbit"]["ran_on"] == "QEMU"
    assert boards["frdm-k64f"]["ran_on"] == "never"
    shown = {name: boards[name]["shown_by"] for name in ("native", "microbit", "rtl-ibex")}
    assert shown == {
        "native": ["native"],
        "microbit": ["emulated by QEMU"],
        "rtl-ibex": ["RTL"],
    }
    assert boards["frdm-k64f"]["shown_by"] == ["simulated registers"]
    esp = ["simulated registers", "image read back by esptool"]
    assert boards["esp32-c3-devkitm-1"]["shown_by"] == esp
    one = run("boards frdm-k64f")
    assert one == boards["frdm-k64f"]
    assert one["memory"][0] == {"name": "flash", "origin": 0, "bytes": 1 << 20, "kind": "flash"}
    assert one["flashers"]["pyocd"]["target"] == "k64f"
    assert main(["boards", "microbit"]) == 0
    assert "nrf51_uart" in capsys.readouterr().out


# -- board new ---------------------------------------------------------------------------------

MPS2 = "--flasher pyocd:target=cortex_m --cpu cortex-m4 --flash 0:4M --ram 0x20000000:4M"


@pytest.mark.full
@cases(
    "options",
    [
        f"{MPS2} --clock-hz 25_000_000 --qemu mps2-an386",
        "--flasher pyocd:target=nrf51 --clock-hz 16000000 --qemu microbit",
        "--base mps2-an385 --uart rtt --description mine",
        "--cpu cortex-m33 --flash 0x10000000:4M --ram 0x38000000:4M --clock-hz 25_000_000 "
        "--qemu mps2-an505",
        "--cpu cortex-m55 --flash 0:512K --ram 0x20000000:512K --clock-hz 32_000_000 "
        "--qemu mps3-an547",
    ],
    first=1,
)
def test_a_new_board_runs_without_a_driver(options: str, run: Run) -> None:
    made = run(f"board new mine {options}")
    assert made["file"] == "mine.toml"
    report = run(f"verify {DIGITS} --board ./mine.toml --probe virtual --samples 2")
    assert report["match"]
    assert report["board"] == "mine"


VIRT = (
    "--clock-hz 1_000_000_000 --flash 0x80000000:4M --ram 0x80500000:16M --soc riscv_virt "
    "--timer clint,base=0x02000000,hz=10000000 "
    "--uart ns16550,base=0x10000000,irq=10,clock_hz=3686400"
)


@pytest.mark.full
@cases(
    "options",
    [
        f"--cpu rv32imac {VIRT} --qemu virt",
        f"--cpu rv32imc {VIRT} --qemu virt",
        "--base riscv-virt --cpu rv32imc",
    ],
    first=1,
)
def test_a_new_riscv_board_runs(options: str, run: Run) -> None:
    assert run(f"board new mine {options}")["flashers"] == {}
    assert run(f"verify {DIGITS} --board ./mine.toml --samples 2")["match"]


def test_a_copy_of_a_simulated_board_keeps_its_runner(run: Run) -> None:
    made = run("board new mine --base rtl-ibex")
    assert made["runners"] == ["verilator", "openocd"]
    assert load_board(Path("mine.toml")).ports == load_board("rtl-ibex").ports


def no_answer(option: str, question: str, default: str) -> str:
    raise InputError(f"{option} was asked for")


def test_memory_and_core_come_from_the_chip() -> None:
    made = describe(
        "mine",
        Answers(flasher=chip_flasher("pyocd:target=stm32l475xg"), clock_hz="4000000"),
        no_answer,
    )
    assert made.board.cpu.name == "cortex-m4"
    assert [(r.name, r.origin, r.size) for r in made.board.memory] == [
        ("flash", 0x0800_0000, 1 << 20),
        ("sram1", 0x2000_0000, 96 << 10),
        ("sram2", 0x1000_0000, 32 << 10),
    ]
    assert made.board.is_over_rtt
    assert made.board.runners == ("pyocd",)
    assert any("disco-l475vg-iot01a" in note for note in made.notes), "it has the same chip"


def test_every_chip_of_pyocd_is_read() -> None:
    """Regions that a description can have: aligned, none over another, RAM on one side of SRAM."""
    chips = [read_chip(name) for name in target_names()]
    assert len(chips) > 150
    for chip in chips:
        ends = 0
        for region in sorted(chip.memory, key=lambda region: region.origin):
            assert region.origin >= ends, chip.target
            assert region.size % 8 == region.origin % 8 == 0, chip.target
            ends = region.origin + region.size
            assert region.is_flash or not region.origin < 0x2000_0000 < ends, chip.target
    known = {chip.target: chip for chip in chips}
    assert [(r.origin, r.size) for r in known["k64f"].memory] == [
        (0, 1 << 20),
        (0x2000_0000, 192 << 10),
        (0x1FFF_0000, 64 << 10),
    ]
    assert known["stm32f429xi"].memory[0].size == 2 << 20, "sectors of each size are one region"
    assert [r.origin for r in known["lpc55s69"].memory] == [0, 0x2000_0000, 0x0400_0000]


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(InputError, match=r"no target 'stm32f4' \(did you mean stm32f4"):
        chip_flasher("pyocd:target=stm32f4")


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        (
            Answers(flasher=chip_flasher("pyocd:target=k64f"), clock_hz="1"),
            InputError,
            "flash configuration at 0x400",
        ),
        (
            Answers(flasher=chip_flasher("pyocd:target=mimxrt1050"), clock_hz="1"),
            InputError,
            "its boot ROM looks for",
        ),
        (
            Answers(flasher=chip_flasher("pyocd:target=stm32l475xg")),
            InputError,
            "--clock-hz was asked for",
        ),
        (
            Answers(cpu="rv32imac", clock_hz="1", flash=["0:1M"], ram=["0x20000000:1M"]),
            InputError,
            "--soc was asked for",
        ),
        (
            Answers(
                cpu="rv32imac",
                clock_hz="1",
                flash=["0:1M"],
                ram=["0x20000000:1M"],
                ports={"soc": "rtl_soc"},
            ),
            InputError,
            "nothing starts the firmware of a board with the core rv32imac",
        ),
        (
            Answers(base="microbit", cpu="rv32imac"),
            InputError,
            "the core rv32imac is for riscv, but --base microbit has a core for arm (cortex-m0)",
        ),
        (Answers(base="native"), InputError, "is this machine, not a board"),
        (Answers(base="microbit", cpu="cortex-m9"), InputError, "unknown CPU 'cortex-m9'"),
        (
            Answers(base="microbit", flash=["64K"]),
            InputError,
            "'64K' is not a memory region",
        ),
        (Answers(base="microbit", ram=["0x20000000:2K"]), BoardError, "'ram' has 2048 bytes"),
        (Answers(base="microbit", clock_hz="fast"), InputError, "'fast' is not a number of Hz"),
        (Answers(base="microbit", ports={"uart": "usart"}), InputError, "unknown port 'usart'"),
        (
            Answers(base="microbit", ports={"uart": "pl011,base"}),
            InputError,
            "'base' is not a setting",
        ),
        (Answers(base="microbit", ports={"uart": "pl011,irq=5"}), BoardError, "uart.base"),
    ],
)
def test_answers_that_cannot_be_are_refused(
    answers: Answers, error: type[InputError], message: str
) -> None:
    with pytest.raises(error) as caught:
        describe("mine", answers, no_answer)
    assert message in caught.value.fact


def test_what_is_not_said_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    answers = "\ncortex-m33\n0x10000000:1M\n0x30000000:256K\n\n"
    monkeypatch.setattr("sys.stdin", Terminal(answers))
    assert main(["board", "new", "asked"]) == 0
    board = load_board(Path("asked.toml"))
    assert (board.cpu.name, board.clock_hz) == ("cortex-m33", 16_000_000)
    assert [region.origin for region in board.memory] == [0x1000_0000, 0x3000_0000]
    assert "ORIGIN:SIZE [0x08000000:512K]: " in capsys.readouterr().err
    # It is there now, and nobody can be asked.
    assert main(["board", "new", "asked"]) == 2
    assert "asked.toml exists" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["board", "new", "asked", "--force"]) == 2
    assert "--cpu is missing" in capsys.readouterr().err
    assert main(["board", "new", "Bad Name"]) == 2
    assert "is not a valid board name" in capsys.readouterr().err


def test_a_new_board_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guide's way, word for word; only the probe is not here."""
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "add-board.md"
    rows = guide.read_text(encoding="utf-8").splitlines()
    line = next(row for row in rows if row.startswith("$ hil board new "))
    words = line.partition("#")[0].split()[2:]
    assert words == ["board", "new", "my-board", "--flasher", "pyocd:target=nrf52840"]
    assert main(words) == 0
    assert "--board my-board\n" in capsys.readouterr().out
    board = load_board("my-board")
    assert (board.clock_hz, board.is_over_rtt) == (64_000_000, True)
    assert main(["flash", str(DIGITS), "--board", "my-board", "--probe", "nobody"]) == 4
    assert "the probe 'nobody' is not connected" in capsys.readouterr().err
    # From another folder it is found where the user keeps descriptions.
    own = tmp_path / "boards"
    own.mkdir()
    board.path.rename(own / "my-board.toml")
    with pytest.raises(BoardError, match=r"unknown board 'my-bord' \(did you mean my-board"):
        load_board("my-bord")
    assert load_board("my-board") == replace(board, path=own / "my-board.toml")
    (own / "broken.toml").write_text("cpu = 1")
    assert main(["boards", "--json"]) == 0
    shown = capsys.readouterr()
    assert "my-board" in [entry["name"] for entry in answers.entries(shown.out)]
    assert "broken.toml: cpu: 1 is not a string" in shown.err
    # A name that ships means what ships, so another one of that name goes by its path.
    assert main(["board", "new", "microbit", "--base", "microbit"]) == 0
    assert f"--board {Path('microbit.toml').resolve()}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[board.microbit]\nport = 'x'\n",
            "config.toml: board: unknown key (did you mean boards?)",
        ),
        (
            "[boards.microbit]\nprot = 'x'\n",
            "boards.microbit.prot: unknown key (did you mean port or probe?)",
        ),
        ("[boards.microbit]\nport = 1\n", "boards.microbit.port: 1 is not a text"),
        ("[boards]\nmicrobit = 'x'\n", "boards.microbit: 'x' is not a table"),
        ("[boards.microbit.power]\ncylce = 'x'\n", "power.cylce: unknown key (did you mean cycle"),
        ("[boards.microbit.power]\noff = 'x'\n", "boards.microbit.power has off"),
        ("boards = \n", "config.toml: not valid TOML"),
    ],
)
def test_a_mistake_in_the_configuration_is_told_first(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert main(["run", str(DIGITS), "--board", "microbit", "-v"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "compiled" not in err
