"""Tests that run in a firmware, by what they print: Unity and Zephyr's ztest."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from firmware_app import BOARD, build_app, build_program, printing
from waiting import PATIENCE_S

import hil
from hil.device.firmware_tests import FirmwareTest, FormatName, format_named, require_passed
from hil.errors import ConsoleError, DeviceError, InputError

UNITY = """\
boot
app.c:12:test_add:PASS
log: app.c says 3
src/app.c:20:test_sub:FAIL: Expected 3 Was 4
app.c:30:test_mul:IGNORE: later
C:\\\\work\\\\app.c:31:test_fast:PASS (3 ms)

-----------------------
4 Tests 1 Failures 1 Ignored\x20
FAIL
"""
ZTEST = """\
*** Booting Zephyr OS build v3.7.0 ***
Running TESTSUITE math
===================================================================
START - test_add
 PASS - test_add in 0.001 seconds
===================================================================
START - test_sub

    Assertion failed at app.c:20: math_test_sub: (3 not equal to 4)
 FAIL - test_sub in 0.010 seconds
===================================================================
TESTSUITE math failed.
Running TESTSUITE text
===================================================================
START - test_add
 SKIP - test_add in 0.001 seconds
===================================================================
TESTSUITE text succeeded

------ TESTSUITE SUMMARY START ------

SUITE FAIL -  50.00% [math]: pass = 1, fail = 1, skip = 0, total = 2 duration = 0.011 seconds
 - PASS - [math.test_add] duration = 0.001 seconds
 - FAIL - [math.test_sub] duration = 0.010 seconds

SUITE SKIP -   0.00% [text]: pass = 0, fail = 0, skip = 1, total = 1 duration = 0.001 seconds
 - SKIP - [text.test_add] duration = 0.001 seconds

SUITE SKIP -   0.00% [absent]: pass = 0, fail = 0, skip = 3, total = 3 duration = 0.000 seconds

------ TESTSUITE SUMMARY END ------

===================================================================
PROJECT EXECUTION FAILED
"""

PASSED = "a.c:1:x:PASS\n\n1 Tests 0 Failures 0 Ignored\nOK\n"
FAILED = "b.c:1:y:FAIL: bad\n\n1 Tests 1 Failures 0 Ignored\nFAIL\n"
SUITES = "Running TESTSUITE {0}\nSTART - t\n {1} - t in 0.1 seconds\n" + (
    "SUITE {1} - 100.00% [{0}]: pass = {2}, fail = {3}, skip = 0, total = 1 duration = 0.1 s\n"
    "PROJECT EXECUTION {4}\n"
)
EMPTY = "SUITE FAIL - 0.00% [b]: pass = 0, fail = 0, skip = 0, total = 0 duration = 0.0 s"
TWO_RUNS = SUITES.format("a", "PASS", 1, 0, "SUCCESSFUL") + SUITES.format(
    "b", "FAIL", 0, 1, "FAILED"
)


def read(form: str, text: str) -> tuple[list[FirmwareTest], bool, list[str]]:
    """The tests of a text, whether their run is whole, and what does not agree."""
    reader = format_named(form)
    for line in text.splitlines():
        reader.feed(line)
        if reader.is_complete:
            break
    return reader.tests, reader.is_complete, reader.problems() if reader.is_complete else []


def outcomes(tests: list[FirmwareTest]) -> list[tuple[str, str]]:
    return [(test.name, test.outcome) for test in tests]


def test_unity() -> None:
    tests, is_whole, problems = read("unity", UNITY)
    assert outcomes(tests) == [
        ("test_add", "passed"),
        ("test_sub", "failed"),
        ("test_mul", "skipped"),
        ("test_fast", "passed"),
    ]
    assert (tests[1].file, tests[1].line) == ("src/app.c", 20)
    assert (tests[1].message, tests[2].message) == ("Expected 3 Was 4", "later")
    assert (is_whole, problems) == (True, [])


def test_ztest() -> None:
    tests, is_whole, problems = read("ztest", ZTEST)
    assert outcomes(tests) == [
        ("math.test_add", "passed"),
        ("math.test_sub", "failed"),
        ("text.test_add", "skipped"),
    ]
    assert "(3 not equal to 4)" in tests[1].message
    assert (is_whole, problems) == (True, [])


def test_ztest_counts_a_repeated_test_once() -> None:
    text = "START - test_a\n PASS - test_a in 0.1 seconds\n"
    summary = "SUITE PASS - 100.00% [s]: pass = 1, fail = 0, skip = 0, total = 1 duration = 0.2\n"
    whole = f"Running TESTSUITE s\n{text}{text}{summary}PROJECT EXECUTION SUCCESSFUL\n"
    tests, is_whole, problems = read("ztest", whole)
    assert (len(tests), is_whole, problems) == (2, True, [])


def without(text: str, pattern: str, by: str = "") -> str:
    changed = re.sub(pattern, by, text, count=1, flags=re.MULTILINE)
    assert changed != text
    return changed


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (without(UNITY, r"^app.c:12.*\n"), "counts 4 tests, and 3 were printed"),
        (without(UNITY, "1 Failures", "0 Failures"), "counts 0 failures, and 1 were printed"),
        (without(UNITY, "1 Ignored", "2 Ignored"), "counts 2 ignored tests, and 1 were"),
        (without(UNITY, r"^FAIL$", "OK"), "counts 1 failures and says OK"),
        # A reset in the middle: the tests begin again.
        (UNITY[: UNITY.index("app.c:30")] + UNITY, "counts 4 tests, and 6 were printed"),
    ],
)
def test_unity_that_does_not_agree(text: str, problem: str) -> None:
    _, is_whole, problems = read("unity", text)
    assert is_whole
    assert problem in "; ".join(problems)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (without(ZTEST, r"^ PASS - test_add.*\n"), "test_add printed no result before"),
        (without(ZTEST, r"^START - test_sub\n"), "test_sub ended, and no test had begun"),
        (without(ZTEST, "^START - test_sub", "START - test_sum"), "and test_sum had begun"),
        (without(ZTEST, r"^SUITE FAIL.*\n"), "the suite math has no line in the summary"),
        (without(ZTEST, "pass = 1", "pass = 2"), "math counts 2 passed, and 1 were printed"),
        (without(ZTEST, "skip = 1, total = 1", "skip = 2, total = 2"), "text counts 2 skipped"),
        (without(ZTEST, "EXECUTION FAILED", "EXECUTION SUCCESSFUL"), "is SUCCESSFUL"),
        (without(ZTEST, "SUITE FAIL", "SUITE PASS"), "says SUITE PASS of math and counts pass = 1"),
        (without(ZTEST, "SUITE FAIL", "SUITE SKIP"), "says SUITE SKIP of math and counts pass = 1"),
        (without(ZTEST, r"SUITE SKIP(.*text)", r"SUITE FAIL\1"), "says SUITE FAIL of text and"),
        (
            without(ZTEST, "text succeeded", "text failed."),
            "TESTSUITE text failed, and the summary",
        ),
        (without(ZTEST, "skip = 3, total = 3", "skip = 3, total = 4"), "of absent do not add up"),
        (without(ZTEST, "fail = 0, skip = 3", "fail = 3, skip = 0"), "says SUITE SKIP of absent"),
        (ZTEST[: ZTEST.index("\n    Assertion")] + ZTEST, "test_sub printed no result before"),
    ],
)
def test_ztest_that_does_not_agree(text: str, problem: str) -> None:
    _, is_whole, problems = read("ztest", text)
    assert is_whole
    assert problem in "; ".join(problems)


def test_ztest_whose_suite_failed_without_a_test() -> None:
    """Its setup or teardown failed."""
    whole = SUITES.format("a", "PASS", 1, 0, "SUCCESSFUL")
    for changed in (
        without(whole, "SUITE PASS", "SUITE FAIL"),
        without(whole, "SUITE PASS", "SUITE SKIP"),
        without(whole, "^SUITE PASS", "TESTSUITE a failed.\nSUITE PASS"),
        without(whole, "^PROJECT", f"{EMPTY}\nPROJECT"),
    ):
        _, is_whole, problems = read("ztest", changed)
        assert problems or not is_whole, changed


def test_a_line_that_is_too_long_is_no_result() -> None:
    """Its search would take quadratic time."""
    tests, is_whole, problems = read("unity", ":1" * 20_000 + ":x:PASS\n" + PASSED)
    assert (outcomes(tests), is_whole, problems) == ([("x", "passed")], True, [])


@pytest.mark.parametrize(("form", "text"), [("unity", UNITY), ("ztest", ZTEST)])
def test_no_part_of_a_run_is_whole(form: str, text: str) -> None:
    """Cut after each line, and within the last one."""
    lines = text.splitlines(keepends=True)
    for count in range(len(lines)):
        part = "".join(lines[:count]) + lines[count][: len(lines[count]) // 2]
        _, is_whole, problems = read(form, part)
        assert not is_whole or problems, part


def test_an_unknown_format() -> None:
    with pytest.raises(InputError, match="unknown format of tests 'unty'.*unity"):
        format_named("unty")


def test_failures_are_listed() -> None:
    tests, _, _ = read("unity", UNITY)
    with pytest.raises(ConsoleError) as caught:
        require_passed(tests)
    assert "1 of 4 tests of the firmware failed" in caught.value.fact
    assert "src/app.c:20: test_sub: Expected 3 Was 4" in caught.value.fact
    require_passed([test for test in tests if test.outcome != "failed"])


def run(app: Path, form: FormatName, board: str, timeout_s: float) -> list[tuple[str, str]]:
    with hil.open_elf(board, app) as device:
        return outcomes(list(device.console.tests(form, timeout_s)))


@pytest.mark.parametrize("form", ["unity", "ztest"])
def test_on_an_emulated_board(tmp_path: Path, form: FormatName) -> None:
    app = build_app(f"{form}_app", tmp_path, "-DWRONG")
    found = run(app, form, BOARD, PATIENCE_S)
    assert [outcome for _, outcome in found].count("failed") == 1
    assert next(name for name, outcome in found if outcome == "failed").endswith("below")


@pytest.mark.parametrize(
    ("form", "text", "end", "error", "message"),
    [
        ("unity", UNITY[:80], "return 0;", ConsoleError, "after 1 results, without their summary"),
        ("unity", UNITY[:80], "for (;;) {}", ConsoleError, "without their summary"),
        ("unity", UNITY[:80], "abort();", DeviceError, "app ended: "),
        ("ztest", ZTEST[:200], "return 0;", ConsoleError, "after 1 results, without their summary"),
        ("unity", "0 Tests 0 Failures 0 Ignored\nOK\n", "return 0;", ConsoleError, "no test ran"),
        ("ztest", "PROJECT EXECUTION SUCCESSFUL\n", "return 0;", ConsoleError, "no test ran"),
    ],
)
def test_a_run_that_is_not_whole(
    tmp_path: Path,
    form: FormatName,
    text: str,
    end: str,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        run(printing(tmp_path, text.encode(), end), form, "native", 1.5)


def test_garbage_colours_and_carriage_returns(tmp_path: Path) -> None:
    colours = UNITY.replace("PASS", "\x1b[42mPASS\x1b[00m").replace("\n", "\r\n").encode()
    app = printing(tmp_path, b"\xff\x00\xfe\r\n" + colours.replace(b"log:", b"\x80\x01log:"))
    found = run(app, "unity", "native", PATIENCE_S)
    assert [outcome for _, outcome in found] == ["passed", "failed", "skipped", "passed"]


@pytest.mark.parametrize(
    ("form", "text", "names"),
    [("unity", PASSED + "log\n" + FAILED, ["x", "y"]), ("ztest", TWO_RUNS, ["a.t", "b.t"])],
)
@pytest.mark.parametrize("end", ["return 1;", "getchar();"])
def test_each_run_counts(
    tmp_path: Path, form: FormatName, text: str, names: list[str], end: str
) -> None:
    """The second run fails; the program ends or stays."""
    found = run(printing(tmp_path, text.encode(), end), form, "native", PATIENCE_S)
    assert found == [(names[0], "passed"), (names[1], "failed")]


def test_a_run_that_follows_later(tmp_path: Path) -> None:
    first, second = c_text(PASSED), c_text(FAILED)
    code = f"int main(void) {{ puts({first}); fflush(stdout); sleep(1); puts({second}); }}"
    app = build_program(tmp_path, "#include <unistd.h>\n" + code)
    with hil.open_elf("native", app) as device:
        found = outcomes(list(device.console.tests("unity", PATIENCE_S, quiet_s=PATIENCE_S)))
    assert found == [("x", "passed"), ("y", "failed")]


def c_text(text: str) -> str:
    return json.dumps(text)


def test_a_second_run_without_summary(tmp_path: Path) -> None:
    app = printing(tmp_path, (PASSED + FAILED[:18]).encode())
    with pytest.raises(ConsoleError, match="without their summary"):
        run(app, "unity", "native", PATIENCE_S)


@pytest.mark.parametrize("end", ["return 3;", "abort();"])
def test_a_program_that_fails_after_its_tests(tmp_path: Path, end: str) -> None:
    with pytest.raises(ConsoleError, match="all unity tests passed, and then .*app ended: "):
        run(printing(tmp_path, PASSED.encode(), end), "unity", "native", PATIENCE_S)


def test_text_after_the_summary_stays(tmp_path: Path) -> None:
    app = printing(tmp_path, PASSED.encode() + b"x" * 100_000 + b"\nall done\nend\n")
    with hil.open_elf("native", app) as device:
        assert len(list(device.console.tests("unity", PATIENCE_S))) == 1
        device.console.expect("all done\n", PATIENCE_S)
        assert next(device.console.lines(PATIENCE_S)) == "end"


def test_a_firmware_that_prints_on(tmp_path: Path) -> None:
    """The wait for a further run ends with the deadline, and is no error."""
    app = printing(tmp_path, PASSED.encode(), 'for (;;) { puts("tick"); fflush(stdout); }')
    assert run(app, "unity", "native", PATIENCE_S) == [("x", "passed")]


#: Firmware that prints a run of tests, and then switches the machine off with an exit code.
SWITCHES_OFF = """
__attribute__((naked, section(".text.start"))) void start(void) {
    __asm__ volatile("lui sp, 0x80100\\n j app");
}
void app(void) {
    for (const char *text = TEXT; *text; ++text) *(volatile char *)0x10000000u = *text;
    *(volatile unsigned *)0x100000u = CODE;
    for (;;) {}
}
"""


@pytest.mark.parametrize("code", ["0x5555u", "0x33333u"])
def test_an_emulated_board_that_switches_itself_off(tmp_path: Path, code: str) -> None:
    (tmp_path / "app.c").write_text(SWITCHES_OFF)
    words = ["-march=rv32imc_zicsr", "-mabi=ilp32", "-O1", "-nostdlib", "-ffreestanding"]
    words += ["-Wl,-n,-Ttext=0x80000000,--build-id=none,-estart", f"-DCODE={code}"]
    command = ["riscv64-unknown-elf-gcc", *words, f"-DTEXT={c_text(PASSED)}", "app.c", "-oapp.elf"]
    subprocess.run(command, cwd=tmp_path, check=True)
    if code == "0x5555u":
        assert run(tmp_path / "app.elf", "unity", "riscv-virt", PATIENCE_S) == [("x", "passed")]
        return
    with pytest.raises(ConsoleError, match=r"passed, and then .*QEMU ended: exit code 3"):
        run(tmp_path / "app.elf", "unity", "riscv-virt", PATIENCE_S)


def test_a_line_that_is_too_long_takes_no_time(tmp_path: Path) -> None:
    """Its results are found before a deadline that a search in the line would exceed."""
    long = 'for (int i = 0; i < 60000; i++) fputs(":1", stdout); puts("");'
    code = f"int main(void) {{ {long} puts({c_text(PASSED)}); }}"
    assert run(build_program(tmp_path, code), "unity", "native", 5) == [("x", "passed")]


def test_too_many_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hil.device.firmware_tests._MOST_RESULTS", 10)
    app = printing(tmp_path, b"a.c:1:x:PASS\n" * 11, "for (;;) {}")
    with pytest.raises(ConsoleError, match="printed more than 10 results"):
        run(app, "unity", "native", PATIENCE_S)


def test_too_many_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hil.device.firmware_tests._MOST_RESULTS", 10)
    with pytest.raises(ConsoleError, match="more than 10 suites"):
        read("ztest", "".join(f"Running TESTSUITE s{number}\n" for number in range(11)))


def test_the_memory_of_a_message_is_bounded() -> None:
    text = "START - t\n" * 1_000 + "noise\n" * 10_000 + " FAIL - t in 0.1 seconds\n"
    (test,), _, _ = read("ztest", text)
    assert 0 < len(test.message) <= 4096
    reader = format_named("ztest")
    for line in text.splitlines()[:-1]:
        reader.feed(line)
    assert len(reader._message) <= 100  # type: ignore[attr-defined]
    assert len(reader._problems) <= 100  # type: ignore[attr-defined]
