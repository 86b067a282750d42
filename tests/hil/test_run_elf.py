"""``hil run --elf``: firmware that hil did not build, on every kind of runner."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_bench import Bench
from waiting import PATIENCE_S

from hil.cli import main

#: A program for the CMSDK UART of MPS2 machines: it needs no start-up code and no library.
FIRMWARE = """
#define UART ((volatile unsigned *)0x40004000)
extern unsigned _stack;
static void put(const char *text) {
    for (; *text; text++) {
        while (UART[1] & 1) {}
        UART[0] = (unsigned char)*text;
    }
}
void start(void) {
    UART[4] = 217;
    UART[2] = 3;
    put("application 1.2\\nself-test: PASS\\n");
    for (;;) {}
}
void fault(void) { for (;;) {} }
__attribute__((section(".vectors"), used)) const void *const vectors[16] = {
    (void *)0x20010000, start, fault, fault, fault, fault, fault,
};
"""
SCRIPT = """
ENTRY(start)
SECTIONS {
    .text 0x00000000 : { KEEP(*(.vectors)) *(.text*) *(.rodata*) }
    /DISCARD/ : { *(.ARM.*) *(.comment) }
}
"""
BOARD = "mps2-an386"
Hil = Callable[..., Any]


@pytest.fixture
def hil_json(capsys: pytest.CaptureFixture[str]) -> Hil:
    def run(*words: str, code: int = 0) -> Any:
        ended = main(["run", *words, "--json"])
        out, err = capsys.readouterr()
        assert ended == code, out + err
        answer = json.loads(out)
        assert answer["exit_code"] == code
        return answer["results"][0] if "error" not in answer else answer["error"]["message"]

    return run


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("application")
    (folder / "app.c").write_text(FIRMWARE)
    (folder / "app.ld").write_text(SCRIPT)
    flags = [
        "-mcpu=cortex-m4",
        "-mthumb",
        "-O1",
        "-nostdlib",
        "-ffreestanding",
        "-Wl,--build-id=none",
    ]
    subprocess.run(
        ["arm-none-eabi-gcc", *flags, "-T", "app.ld", "app.c", "-o", "app.elf"],
        cwd=folder,
        check=True,
    )
    return str(folder / "app.elf")


def program(folder: Path, code: str) -> str:
    (folder / "app.c").write_text(code)
    subprocess.run(["gcc", "app.c", "-o", "app"], cwd=folder, check=True)
    return str(folder / "app")


def texts(found: Any) -> list[str]:
    return [line["text"] for line in found["lines"]]


@pytest.mark.parametrize("options", [(), ("--probe", "virtual")])
def test_an_emulated_board(application: str, hil_json: Hil, options: tuple[str, ...]) -> None:
    words = ("--elf", application, "--board", BOARD, *options, "--timeout", str(PATIENCE_S))
    found = hil_json(*words, "--expect", "self-test: (PASS|FAIL)")
    assert texts(found) == ["application 1.2", "self-test: PASS"]
    assert (found["matched"], found["board"]) == (True, BOARD)


def test_a_line_that_never_comes(application: str, hil_json: Hil) -> None:
    words = ("--elf", application, "--board", BOARD, "--timeout", "2", "--expect", "never")
    found = hil_json(*words, code=1)
    assert found["matched"] is False
    assert "self-test: PASS" in texts(found)


def test_a_board_behind_a_probe(application: str, rig: Bench, hil_json: Hil) -> None:
    """An emulated machine on a stand-in for USB, programmed by the real pyOCD."""
    board = rig.add()
    words = ("--elf", application, "--board", BOARD, "--probe", board.serial)
    found = hil_json(*words, "--expect", "PASS", "--timeout", str(PATIENCE_S))
    assert texts(found) == ["application 1.2", "self-test: PASS"]


def test_a_program_of_this_machine(tmp_path: Path, hil_json: Hil) -> None:
    app = program(tmp_path, '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }')
    found = hil_json("--elf", app, "--board", "native")
    assert (texts(found), found["matched"]) == (["hello"], None)
    found = hil_json("--elf", app, "--board", "native", "--expect", "bye", code=1)
    assert texts(found) == ["hello"]


def test_a_program_that_fails(tmp_path: Path, hil_json: Hil) -> None:
    app = program(tmp_path, '#include <stdio.h>\nint main(void) { puts("no"); return 3; }')
    assert "app ended: exit code 3" in hil_json("--elf", app, "--board", "native", code=4)


def test_the_log_has_the_lines(tmp_path: Path, hil_json: Hil) -> None:
    app = program(tmp_path, '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }')
    log = tmp_path / "app.log"
    hil_json("--elf", app, "--board", "native", "--log", str(log))
    assert log.read_text().endswith(" text  hello\n")


def test_control_c_ends_it(application: str) -> None:
    words = [sys.executable, "-m", "hil.cli", "run", "--elf", application, "--board", BOARD]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert "application" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--elf", "{elf}", "--expect", "("), "is no regular expression"),
        (("--elf", __file__), "is no ELF file"),
        (("x.tflite", "--elf", "{elf}"), "--elf is given with a model"),
        (("--elf", "{elf}", "--input", "a=b.npy"), "--input does not apply to --elf"),
        (("x.tflite", "--expect", "a"), "--expect is for --elf"),
        ((), "required: MODEL"),
        (("--elf", "/bin/true"), "is for x64|is for AArch64"),
    ],
)
def test_a_wrong_line(
    application: str, words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [word.format(elf=application) for word in words]
    assert main(["run", *line, "--board", BOARD]) == 2
    assert re.search(problem, capsys.readouterr().err)


def test_native_refuses_a_program_of_a_board(
    application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--elf", application, "--board", "native"]) == 2
    assert "is for the machine EM_ARM, 32 bit, and native executes" in capsys.readouterr().err
