"""Firmware of the user in tests: ``hil_elf``, ``hil_subtests`` and ``--hil-log``."""

from __future__ import annotations

import subprocess
import sys

import pytest
from firmware_app import EXAMPLE, build_app, printing
from plugin_suite import run

from hil.pytest_plugin.own_firmware import safe_name

UNITY = b"a.c:1:test_a:PASS\na.c:2:test_b:FAIL: no\na.c:3:test_c:IGNORE\n"
SUMMARY = b"\n---\n3 Tests 1 Failures 1 Ignored\nFAIL\n"
SUBTESTS = """
    def test_it(hil_elf, hil_subtests):
        hil_subtests(hil_elf({app!r}), "unity", timeout_s=2)
"""


def run_subtests(suite: pytest.Pytester, text: bytes, *options: str) -> pytest.RunResult:
    suite.makepyfile(SUBTESTS.format(app=str(printing(suite.path, text))))
    return run(suite, "--hil-board=native", *options)


def test_the_example(pytester: pytest.Pytester) -> None:
    """As a user runs it, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:labgrid"]
    done = subprocess.run(
        [*command, "-q", str(EXAMPLE), f"--hil-log={pytester.path / 'logs'}"],
        cwd=EXAMPLE.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed, 1 skipped, 5 subtests passed" in done.stdout
    logs = {path.name: path.read_text() for path in (pytester.path / "logs").iterdir()}
    assert len(logs) == 3
    (console,) = (text for name, text in logs.items() if "test_console" in name)
    assert "> -300\n" in console
    # A line may arrive in several parts.
    received = "".join(line.partition(" < ")[2] for line in console.splitlines())
    assert "clamped: -10" in received


def test_each_test_of_the_firmware_is_a_subtest(pytester: pytest.Pytester) -> None:
    result = run_subtests(pytester, UNITY + SUMMARY)
    result.assert_outcomes(failed=2)  # the subtest and the test
    result.stdout.fnmatch_lines(
        [
            "_* test_it[[]native[]] [[]test_b[]] _*",
            "a.c:2: test_b: no",
            "_* test_it[[]native[]] _*",
            "*1 of 3 tests of the firmware failed:",
        ],
    )
    assert result.stdout.str().count("console of native") == 1


def test_without_subtests(pytester: pytest.Pytester) -> None:
    result = run_subtests(pytester, UNITY + SUMMARY, "-pno:subtests")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 of 3 tests of the firmware failed:", "*a.c:2: test_b: no*"])


@pytest.mark.parametrize("options", [(), ("-pno:subtests",)])
def test_a_truncated_run_fails(pytester: pytest.Pytester, options: tuple[str, ...]) -> None:
    result = run_subtests(pytester, UNITY[: UNITY.index(b"a.c:2")], *options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*tests ended after 1 results, without their summary*", "*console of native*"]
    )


def test_a_count_that_does_not_agree_fails(pytester: pytest.Pytester) -> None:
    result = run_subtests(pytester, b"a.c:1:test_a:PASS\n2 Tests 0 Failures 0 Ignored\nOK\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the summary counts 2 tests, and 1 were printed*"])


def test_what_was_printed_is_in_the_report(pytester: pytest.Pytester) -> None:
    app = printing(pytester.path, b"boot\n\x1b[31mno\x1b[0m \x07\n")
    pytester.makepyfile(
        f"""
        def test_it(hil_elf):
            hil_elf({str(app)!r}).console.expect("ready", 1)
        """
    )
    result = run(pytester, "--hil-board=native")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '*hil_elf(*).console.expect("ready", 1)',
            "*app on native *before it printed 'ready'*",
            "*console of native*",
            "boot",
            r"no \x07",
        ]
    )


def test_each_board_starts_it(pytester: pytest.Pytester) -> None:
    app = build_app("console_app", pytester.path)
    pytester.makepyfile(
        f"""
        def test_it(hil_elf, hil_board):
            device = hil_elf({str(app)!r})
            device.console.expect("ready", 30)
            assert device.board == hil_board.name
        """
    )
    boards = ("--hil-board=mps2-an386", "--hil-board=mps2-an385")
    result = run(pytester, *boards, "-v", "--junit-xml=out.xml")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*::test_it[[]mps2-an386[]] PASSED*", "*::test_it[[]mps2-an385[]] PASSED*"]
    )


def test_logs_of_several_workers(pytester: pytest.Pytester) -> None:
    app = printing(pytester.path, b"ready\nrest\n")
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.parametrize("name", ["a/b", "a b", "../../x", "y" * 300, "\\u00e9"])
        def test_it(hil_elf, name):
            hil_elf({str(app)!r}).console.expect("ready", 30)
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n2"]
    words = (*command, "--hil-board=native", "--hil-log=logs/of/today")
    pytester.run(*words, timeout=180).assert_outcomes(passed=5)
    pytester.run(*words, timeout=180).assert_outcomes(passed=5)
    found = list((pytester.path / "logs" / "of" / "today").iterdir())
    assert len(found) == 5
    for path in found:  # and nothing of the run before
        assert [line.partition(" ")[2] for line in path.read_text().splitlines()] == [
            "< ready",
            "< rest",
        ]


@pytest.mark.parametrize("test", ["a/b.py::t[x]", "a" * 400, "../..", "", "nul\0"], ids=str.__len__)
def test_safe_names(test: str) -> None:
    name = safe_name(test)
    assert name
    assert len(name.encode()) <= 140
    assert not set(name) & set('/\\:*?"<>|[]\0 ')
    assert name.strip(".") == name
    assert safe_name(f"{test}?") != name


def test_a_log_folder_that_is_a_file(pytester: pytest.Pytester) -> None:
    (pytester.path / "logs").write_text("")
    pytester.makepyfile("def test_it(): pass")
    result = run(pytester, "--hil-log=logs")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--hil-log: the folder logs cannot be made: *"])


def test_a_full_disk(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of one test is on a device that is always full."""
    app = printing(pytester.path, b"ready\n")
    pytester.makepyfile(
        f"""
        import hil.pytest_plugin.together as together

        def test_it(hil_elf, monkeypatch):
            monkeypatch.setattr(together, "log_path", lambda item, part: "/dev/full")
            hil_elf({str(app)!r}).console.expect("ready", 30)
        """
    )
    result = run(pytester, "--hil-board=native")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cannot write /dev/full: No space left on device*"])


def test_models_log_too(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.hil(model="models/tiny.tflite")
        def test_it(hil_device):
            hil_device.log("from the firmware")
            hil_device["tiny"].run()
        """
    )
    run(suite, "--hil-log=logs").assert_outcomes(passed=1)
    (path,) = (suite.path / "logs").iterdir()
    assert "< from the firmware" in path.read_text()
