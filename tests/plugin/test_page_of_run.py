"""The page of ``--hil-report`` shows what the test run showed."""

from __future__ import annotations

import html
import re
import signal
from pathlib import Path

import pytest
from campaigns import cases
from plugin_suite import run

MIXED = """
    import numpy as np
    import pytest

    pytestmark = pytest.mark.hil(model="models/tiny.tflite")

    @pytest.fixture
    def broken():
        raise RuntimeError("the fixture is broken")

    def test_verified(hil_verify):
        hil_verify(2)

    def test_asserts(hil_verify):
        hil_verify(2)
        assert 1 + 1 == 3, "the sum is wrong"

    def test_differs(hil_verify):
        hil_verify({"x": np.zeros((1, 8), np.int8)}, expect={"y": np.full((1, 4), 99, np.int8)})

    @pytest.mark.hil_limits(min_accuracy=0.9)
    def test_limit(hil_device):
        pass

    @pytest.mark.hil(model="missing.tflite")
    def test_model(hil_device):
        pass

    def test_fixture(broken):
        pass

    @pytest.mark.skip(reason="not today")
    def test_skipped():
        pass

    @pytest.mark.xfail(reason="known")
    def test_known():
        assert False

    @pytest.mark.parametrize("number", range(2))
    def test_plain(number):
        pass
"""
#: What the page must say of each test that did not simply pass.
MESSAGES = {
    "test_asserts": "the sum is wrong",
    "test_differs": "differs from",
    "test_limit": "min_accuracy is given",
    "test_model": "missing.tflite",
    "test_fixture": "the fixture is broken",
    "test_skipped": "not today",
    "test_known": "known",
}


def page(suite: pytest.Pytester) -> str:
    return html.unescape((suite.path / "out.html").read_text())


def verdict(suite: pytest.Pytester) -> tuple[str, str]:
    """The class and the text of the page's headline."""
    text = page(suite)
    found = re.search(r'<div class="verdict (\w+)"><p>.*?<strong>(.*?)</strong>', text, re.S)
    assert found is not None, text[:2000]
    title = re.search(r"<title>(.*?) - ", text, re.S)
    assert title is not None
    assert title[1] == found[2]
    return found[1], found[2]


def row(suite: pytest.Pytester, test: str) -> str:
    rows = re.findall(r"<tr><th.*?</tr>", page(suite), re.S)
    (found,) = [one for one in rows if re.search(rf"::{test}\b", one)]
    return str(found)


@pytest.mark.full
def test_totals_and_messages_are_pytests(suite: pytest.Pytester) -> None:
    suite.makepyfile(MIXED)
    result = run(suite, "--hil-board=native", "--hil-report=out.html")
    result.assert_outcomes(failed=3, errors=2, passed=3, skipped=1, xfailed=1)
    status, text = verdict(suite)
    assert status == "failed"
    totals = "3 failed, 2 errors, 3 passed, 1 skipped, 1 xfailed"
    assert text.startswith(f"The test run failed: {totals}")
    for test, message in MESSAGES.items():
        assert message in row(suite, test)


@pytest.mark.full  # It changes rarely, and takes long.
def test_workers_results_are_on_it(suite: pytest.Pytester) -> None:
    suite.makepyfile(MIXED)
    options = ("-pno:cacheprovider", "-n2", "--hil-board=native", "--hil-report=out.html")
    suite.runpytest_subprocess(*options).assert_outcomes(
        failed=3, errors=2, passed=3, skipped=1, xfailed=1
    )
    assert verdict(suite)[1].startswith("The test run failed: 3 failed, 2 errors, 3 passed")
    for test, message in MESSAGES.items():
        assert message in row(suite, test)
    # The results of the boards come from both workers.
    assert "1 different from the reference" in verdict(suite)[1]


def test_an_equal_result_does_not_hide_a_different_one(suite: pytest.Pytester) -> None:
    """Of one model on one board, in this order."""
    suite.makepyfile(MIXED + "\n    def test_zlast(hil_verify):\n        hil_verify(2)\n")
    run(suite, "--hil-board=native", "--hil-report=out.html", "-k", "differs or zlast")
    assert "1 different from the reference" in verdict(suite)[1]


@cases(
    ("text", "status", "said"),
    [
        ("def test_it():\n    pass", "match", "The test run passed: 1 passed"),
        ("def test_it():\n    assert False", "failed", "The test run failed: 1 failed"),
        ("import missing_module", "failed", "The test run was interrupted: 1 error"),
        ("", "failed", "No test ran"),
        (
            "import pytest\ndef test_it():\n    pytest.skip('no')",
            "skipped",
            "The test run passed: 1 skipped",
        ),
        (
            "def test_it():\n    raise KeyboardInterrupt\ndef test_b():\n    pass",
            "failed",
            "The test run was interrupted: 2 not run",
        ),
        (
            "import pytest\ndef test_it():\n    pytest.exit('enough', returncode=0)",
            "failed",
            "The test run stopped: 1 not run",
        ),
    ],
    first=2,
)
def test_headline(suite: pytest.Pytester, text: str, status: str, said: str) -> None:
    """Also where no test reaches a board."""
    suite.makepyfile(text)
    # An interrupt would end this run, too.
    result = suite.runpytest_subprocess("-pno:cacheprovider", "--hil-report=out.html")
    assert verdict(suite) == (status, said)
    assert (result.ret == 0) == (status in ("match", "skipped") or "returncode" in text)


def test_a_run_that_stops_at_the_first_failure(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_a():\n    assert False\ndef test_b():\n    pass")
    run(suite, "-x", "--hil-report=out.html")
    assert verdict(suite) == ("failed", "The test run failed: 1 failed, 1 not run")
    assert "Stopped: stopping after 1 failures" in page(suite)


def test_a_crashed_worker(suite: pytest.Pytester) -> None:
    suite.makepyfile("import os\ndef test_it():\n    os._exit(3)\ndef test_b():\n    pass")
    suite.runpytest_subprocess("-pno:cacheprovider", "-n1", "--hil-report=out.html")
    status, text = verdict(suite)
    assert (status, text) == ("failed", "The test run failed: 1 failed, 1 passed")
    assert "crashed" in row(suite, "test_it")


@pytest.mark.full
def test_a_killed_run_leaves_no_earlier_page(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        "import os\ndef test_it():\n    os.environ.get('DIE') and os.kill(os.getpid(), 9)"
    )
    run(suite, "--hil-report=out.html")
    assert verdict(suite)[0] == "match"
    suite._monkeypatch.setenv("DIE", "1")
    done = suite.runpytest_subprocess("-pno:cacheprovider", "--hil-report=out.html")
    assert done.ret == -signal.SIGKILL
    assert verdict(suite) == ("failed", "The test run did not end")


def test_a_page_for_which_no_space_is_left(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_it():\n    pass")
    assert Path("/dev/full").is_char_device()
    result = run(suite, "--hil-report=/dev/full")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(["ERROR: --hil-report: *No space left*", "*1 passed*"])
