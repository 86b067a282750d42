"""The console of a user's firmware: expressions, deadlines, limits, and its log."""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_bench import Bench
from firmware_app import BOARD, build_app, build_program, printing
from waiting import PATIENCE_S

import hil
from hil.device.console import Console
from hil.device.console_log import ConsoleLog
from hil.errors import ConsoleError, DeviceError, InputError, LinkError
from hil.link.line import discard_received

Part = bytes | Exception


class ScriptedLine:
    """A line that brings parts of a text one by one, then nothing."""

    def __init__(self, *parts: Part) -> None:
        self.parts = list(parts)
        self.written = b""

    def read(self) -> bytes:
        if not self.parts:
            time.sleep(0.001)
            return b""
        part = self.parts.pop(0)
        if isinstance(part, Exception):
            raise part
        return part

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        pass


def console(*parts: Part, log: ConsoleLog | None = None) -> Console:
    return Console(ScriptedLine(*parts), lambda: None, "app on board", log)


@pytest.mark.parametrize(
    ("parts", "pattern", "groups"),
    [
        ([b"ab", b"c: 1", b"2\n"], r"abc: (\d+)\n", ("12",)),
        ([b"one\r\n", b"two\r\n"], r"^two$", ()),
        ([b"\x1b[3", b"2mready\x1b[0", b"m\n"], r"^ready\n", ()),
        ([b"\x1b[2J\x1b[1;1Hmenu"], r"^menu", ()),
        ([b"caf\xc3", b"\xa9\n"], r"^(café)$", ("café",)),
        ([b"\xff\x00\x80 PASS\n"], r"\\xff\x00\\x80 (PASS)", ("PASS",)),
        ([b"x" * 300_000, b"PASS\n"], r"PASS", ()),
        ([b"x" * 65536 + b"PASS" + b"y" * 60_000], r"PASS", ()),
    ],
)
def test_text_that_matches(parts: Sequence[bytes], pattern: str, groups: tuple[str, ...]) -> None:
    assert console(*parts).expect(pattern, PATIENCE_S).groups() == groups


def test_the_search_goes_on_after_a_match() -> None:
    one = console(b"a 1\na 2\na 3\n")
    assert [one.expect(r"a (\d)\n", PATIENCE_S)[1] for _ in range(3)] == ["1", "2", "3"]


def test_nothing_from_before_a_reset_matches() -> None:
    one = console(b"boot\ntest: PASS\n")
    one.expect("boot", PATIENCE_S)
    one.reopened(ScriptedLine(b"boot\ntest: FAIL\n", EOFError()))
    assert list(itertools.islice(one.lines(PATIENCE_S), 2)) == ["boot", "test: FAIL"]


def test_the_text_before_a_start_is_discarded() -> None:
    line = ScriptedLine(b"old: PASS\n", b"", b"old: OK\n")
    discard_received(line)
    line.parts.append(b"new\n")
    assert Console(line, lambda: None, "app").expect("(.*)\n", PATIENCE_S)[1] == "new"


def test_a_firmware_that_never_stops_is_discarded() -> None:
    line = ScriptedLine(*[b"x"] * 10_000)
    line.read = lambda: b"x"  # type: ignore[method-assign]
    discard_received(line)


def test_what_was_awaited_and_received() -> None:
    one = console(b"boot\nself-test: FAIL\n\x07\x1b]0;title")
    one.expect("boot", PATIENCE_S)
    with pytest.raises(ConsoleError) as caught:
        one.expect("self-test: PASS", 0.05)
    text = caught.value.fact
    assert "app on board did not print 'self-test: PASS' within 0.05 s" in text
    assert "\n    self-test: FAIL\n" in text
    assert "\x07" not in text
    assert "\x1b" not in text
    assert caught.value.exit_code == 1


def test_text_that_did_not_match_stays() -> None:
    one = console(b"late\n")
    with pytest.raises(ConsoleError):
        one.expect("never", 0.05)
    one.expect("late", PATIENCE_S)


def test_the_end_of_a_program() -> None:
    with pytest.raises(ConsoleError, match=r"ended before it printed 'PASS'(.|\n)*    FAIL"):
        console(b"FAIL\n", EOFError()).expect("PASS", PATIENCE_S)


def test_a_line_that_breaks() -> None:
    with pytest.raises(LinkError, match="the link to app on board failed: unplugged"):
        console(b"x", OSError("unplugged")).expect("PASS", PATIENCE_S)


def test_a_process_that_ended_explains_more() -> None:
    def alive() -> None:
        raise DeviceError("the emulator ended")

    line = ScriptedLine(OSError("closed"))
    with pytest.raises(DeviceError, match="the emulator ended"):
        Console(line, alive, "app").expect("PASS", PATIENCE_S)


@pytest.mark.parametrize("pattern", ["(", r"[z-a]"])
def test_a_wrong_expression(pattern: str) -> None:
    with pytest.raises(InputError, match="is no regular expression"):
        console().expect(pattern)


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan")])
def test_every_wait_has_a_deadline(timeout_s: float) -> None:
    with pytest.raises(InputError, match="is not a number of seconds above 0"):
        console().expect("x", timeout_s)


def test_memory_is_bounded() -> None:
    """Firmware that prints forever."""
    one = console(*[b"y" * 65536] * 200)
    with pytest.raises(ConsoleError) as caught:
        one.expect("PASS", 3)
    assert not one._line.parts, "all was read"  # type: ignore[attr-defined]
    assert len(one.text) <= 1 << 20
    assert len(one._stream._before.getvalue()) <= (1 << 20) + (1 << 17)
    assert len(one._stream.buffer) <= 1 << 17
    assert len(str(caught.value)) < 4 << 20


def test_lines_have_one_deadline() -> None:
    lines = console(*[b"tick\n"] * 1_000).lines(0.5)
    with pytest.raises(ConsoleError, match=r"within 0\.5 s"):
        for _ in lines:
            pass


def test_the_log_has_both_directions(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "x.log"
    with ConsoleLog(path) as log:
        one = console(b"a\r\nb\x1b[1mc\x00", b"d\nrest", log=log)
        one.expect("d\n", PATIENCE_S)
        one.send("go\n")
        log.note("reset")
    lines = [line.partition(" ")[2] for line in path.read_text().splitlines()]
    assert lines == ["< a", r"< bc\x00d", "< rest", "> go", "# reset"]


def test_the_log_has_what_nobody_awaited(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with ConsoleLog(path) as log:
        one = console(b"ready\n", b"and more\n", log=log)
        one.expect("ready", PATIENCE_S)
        one.drain()
    assert "< and more" in path.read_text()


def test_the_log_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hil.device.console_log.MOST_CHARACTERS", 10_000)
    path = tmp_path / "x.log"
    with ConsoleLog(path) as log:
        for _ in range(100):
            log.add("received", b"noise\n" * 100)
    text = path.read_text()
    assert len(text) < 10_200
    assert text.splitlines()[-1].endswith("# the log ends here: it has 10000 characters")
    assert text.count("the log ends here") == 1


def test_a_full_disk() -> None:
    log = ConsoleLog(Path("/dev/full"))
    with pytest.raises(InputError, match="cannot write /dev/full: No space left") as caught:
        console(b"x\n", log=log).expect("x", PATIENCE_S)
    assert "free some space" in caught.value.hint


def test_a_log_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        ConsoleLog(tmp_path / "file" / "x.log")


def test_an_emulated_board(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    with hil.open_elf(BOARD, build_app("console_app", tmp_path), log=log) as device:
        device.console.expect(r"filter 1.2 ready\n> ", PATIENCE_S)
        device.console.send("42\n")
        assert device.console.expect(r"clamped: (\d+)\n", PATIENCE_S)[1] == "10"
        device.reset()
        device.console.expect("ready", PATIENCE_S)
    text = log.read_text()
    assert text.count("< filter 1.2 ready") == 2
    assert "> 42" in text
    assert "# reset" in text


#: A program for the RTL boards: their line sends and receives at two addresses.
RTL = """
__attribute__((naked, section(".text.start"))) void start(void) {
    __asm__ volatile("lui sp, 0x40010\\n j app");
}
#define LINE ((volatile unsigned *)0xF0000000u)
void app(void) {
    for (const char *text = "rtl ready\\n"; *text; ++text) LINE[1] = *text;
    for (;;) {
        unsigned c = LINE[0];
        if (c != 0xFFFFFFFFu) LINE[1] = c + 1;
    }
}
"""


@pytest.mark.full  # It builds a simulator.
def test_a_core_as_rtl(tmp_path: Path) -> None:
    board = hil.board.load_board("rtl-picorv32")
    flash = next(region for region in board.memory if region.kind == "flash")
    (tmp_path / "app.c").write_text(RTL)
    flags = ["-march=rv32imc_zicsr", "-mabi=ilp32", "-O1", "-nostdlib", "-ffreestanding"]
    place = f"-Wl,-n,-Ttext={flash.origin:#x},--build-id=none,-estart"
    command = ["riscv64-unknown-elf-gcc", *flags, place, "app.c", "-o", "app.elf"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with hil.open_elf(board, tmp_path / "app.elf") as device:
        device.console.expect("rtl ready\n", PATIENCE_S)
        device.console.send("G")
        device.console.expect("H", PATIENCE_S)


def test_a_board_behind_a_probe(tmp_path: Path, rig: Bench) -> None:
    """An emulated machine on a stand-in for USB, programmed by the real pyOCD."""
    board = rig.add()
    app = build_app("console_app", tmp_path)
    with hil.open_elf(BOARD, app, probe=board.serial) as device:
        device.console.expect("ready", PATIENCE_S)
        device.reset()
        device.console.expect("ready", PATIENCE_S)


def test_a_program_of_this_machine(tmp_path: Path) -> None:
    code = 'int main(void) { char x[9]; puts("name?"); fgets(x, 9, stdin); printf("hi %s", x); }'
    with hil.open_elf("native", build_program(tmp_path, code)) as device:
        device.console.expect("name", PATIENCE_S)
        device.console.send("ada\n")
        device.console.expect("hi ada\n", PATIENCE_S)
        with pytest.raises(ConsoleError, match="app on native ended before it printed 'more'"):
            device.console.expect("more", PATIENCE_S)


def test_a_program_that_fails_after_a_reset(tmp_path: Path) -> None:
    """The first start prints what is awaited, the second one does not."""
    mark = tmp_path / "started"
    code = f"""
        int main(void) {{
            setvbuf(stdout, NULL, _IOFBF, 4096);
            FILE *mark = fopen("{mark}", "r");
            fclose(fopen("{mark}", "w"));
            fputs(mark ? "boot\\ntest: FAIL\\n" : "boot\\ntest: PASS\\n", stdout);
            fflush(stdout);
            getchar();
        }}"""
    with hil.open_elf("native", build_program(tmp_path, code)) as device:
        device.console.expect("boot\n", PATIENCE_S)
        device.reset()
        assert device.console.expect(r"test: (\w+)\n", PATIENCE_S)[1] == "FAIL"


def test_a_program_that_crashes(tmp_path: Path) -> None:
    with (
        hil.open_elf("native", printing(tmp_path, b"boot\n", "abort();")) as device,
        pytest.raises(DeviceError, match="app ended: "),
    ):
        device.console.expect("ready", PATIENCE_S)


def test_a_program_that_prints_forever(tmp_path: Path) -> None:
    app = printing(tmp_path, b"", 'for (;;) puts("noise");')
    with (
        hil.open_elf("native", app) as device,
        pytest.raises(ConsoleError, match="did not print 'ready' within 1 s"),
    ):
        device.console.expect("ready", 1)


def test_a_file_for_another_board(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="is for x64|is for AArch64"),
        hil.open_elf(BOARD, printing(tmp_path, b"x")),
    ):
        pass
    with pytest.raises(InputError, match="is no ELF file"), hil.open_elf(BOARD, __file__):
        pass


@pytest.mark.parametrize("pattern", ["", "^", ".*", "a?", re.compile("x*")])
def test_an_expression_that_always_matches_is_refused(pattern: Any) -> None:
    with pytest.raises(InputError, match="matches before the firmware has printed anything"):
        console(b"text").expect(pattern, PATIENCE_S)


@pytest.mark.parametrize("text", [7, None, ["a"]])
def test_only_text_is_sent_and_expected(text: Any) -> None:
    with pytest.raises(InputError, match="is sent to a console"):
        console(b"text").send(text)
    with pytest.raises(InputError, match="is no regular expression"):
        console(b"text").expect(text, PATIENCE_S)
