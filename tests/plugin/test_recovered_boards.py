"""Boards of a bench that fail in the middle of a test run: what is reported, and at what cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns import cases
from fake_bench import Bench
from plugin_suite import FIVE, dense_model, pairs, properties
from plugin_suite import run_on_bench as run

BENCH = Path(__file__).resolve().parents[1] / "support" / "boards"
#: Lets pytest, and each of its workers, find the boards of the bench.
CONFTEST = f"""
    import sys
    sys.path.insert(0, {str(BENCH)!r})
    from pathlib import Path
    from fake_bench import installed
    _bench = installed(Path({{folder!r}}))
    _bench.__enter__()

    import hil.device.session
    _start = hil.device.session.start

    def start(board, firmware, runner, choice):
        with open("starts", "a") as file:
            file.write(f"{{{{choice.probe}}}}\\n")
        return _start(board, firmware, runner, choice)

    hil.device.session.start = start
"""
#: The board is unplugged in the middle of the second job, and returns.
DROPS = """
    import numpy as np
    import pytest
    import subprocess

    pytestmark = pytest.mark.hil(model="tiny.tflite")

    @pytest.mark.parametrize("job", range(3))
    def test_job(hil_device, hil_verify, job):
        if job == 1:
            subprocess.run({cycle!r}.split(), check=True)
        assert hil_verify(2).match
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, rig: Bench, tmp_path: Path) -> pytest.Pytester:
    (pytester.path / "tiny.tflite").write_bytes(dense_model())
    pytester.makeconftest(CONFTEST.format(folder=str(rig.folder)))
    return pytester


def starts(suite: pytest.Pytester) -> list[str]:
    return (suite.path / "starts").read_text().split()


def test_a_board_that_drops_and_returns(suite: pytest.Pytester, rig: Bench) -> None:
    board = rig.add()
    suite.makepyfile(DROPS.format(cycle=rig.power_command(board)))
    result = run(suite, *pairs(board), "--junit-xml=out.xml", "--hil-report=out.html")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["*hil: recovery of boards*", "1 step of recovery", "*test_job*-1?: *a reset took*"]
    )
    (found,) = properties(suite.path / "out.xml", "hil_recovery")
    assert "a reset took" in found
    page = (suite.path / "out.html").read_text()
    assert "recovery: mps2-an386 (" in page
    assert "Boards failed on the way: 1 step of recovery" in page


@pytest.mark.full
def test_strict_fails_a_recovery(suite: pytest.Pytester, rig: Bench) -> None:
    """Also that of a test which is expected to fail."""
    board = rig.add()
    known = "\n    pytestmark = [pytestmark, pytest.mark.xfail(reason='known')]\n"
    suite.makepyfile(
        test_drops=DROPS.format(cycle=rig.power_command(board)),
        test_known=DROPS.format(cycle=rig.power_command(board)) + known,
    )
    result = run(suite, *pairs(board), "--hil-strict")
    result.assert_outcomes(passed=2, xpassed=2, failed=2)
    result.stdout.fnmatch_lines(["the board failed on the way (--hil-strict):", "*a reset took*"])


@pytest.mark.full
def test_a_dead_board_is_tried_once(suite: pytest.Pytester, rig: Bench) -> None:
    """Of five tests the first finds it out; before, each did, three times."""
    board = rig.add()
    board.die()
    suite.makepyfile(FIVE)
    result = run(suite, *pairs(board), "--hil-report=out.html")
    result.assert_outcomes(errors=5)
    result.stdout.fnmatch_lines(
        [
            "no board mps2-an386 is left in this test run; set aside since they failed:",
            "*hil: boards set aside*",
            f"mps2-an386:{board.serial}: *(from *test_job*-0? on)",
        ]
    )
    # Its start, and programming it again.
    assert starts(suite) == [board.serial] * 2
    assert "set aside: mps2-an386" in (suite.path / "out.html").read_text()


@pytest.mark.full
def test_the_others_of_a_pool_take_over(suite: pytest.Pytester, rig: Bench) -> None:
    dead, good = rig.add(), rig.add()
    dead.die()
    suite.makepyfile(FIVE)
    result = run(suite, *pairs(dead, good))
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        [f"mps2-an386:{dead.serial}: *", "1 infrastructure failure", "*passed on another board"]
    )
    assert starts(suite).count(dead.serial) == 2
    assert starts(suite).count(good.serial) == 1


@pytest.mark.full
def test_strict_fails_a_run_on_another_board(suite: pytest.Pytester, rig: Bench) -> None:
    dead, good = rig.add(), rig.add()
    dead.die()
    suite.makepyfile(FIVE)
    run(suite, *pairs(dead, good), "--hil-strict").assert_outcomes(passed=4, failed=1)


@pytest.mark.full  # It changes rarely, and takes long.
def test_workers_share_what_was_set_aside(suite: pytest.Pytester, rig: Bench) -> None:
    dead, good = rig.add(), rig.add()
    dead.die()
    suite.makepyfile(FIVE)
    run(suite, *pairs(dead, good), "-n2").assert_outcomes(passed=5)
    assert starts(suite).count(dead.serial) == 2


@pytest.mark.full
def test_an_unconnected_probe_is_not_retried(suite: pytest.Pytester, rig: Bench) -> None:
    rig.add()
    suite.makepyfile(FIVE)
    result = run(suite, "--hil-probe=FFFF")
    result.assert_outcomes(errors=5)
    result.stdout.fnmatch_lines(
        [
            "*the probe 'FFFF' is not connected*",
            "*hil: boards set aside*",
            "mps2-an386:FFFF: the probe 'FFFF' is not connected; connected probes (from *",
            "5 infrastructure failures",
        ]
    )
    assert not (suite.path / "starts").exists()


@pytest.mark.full  # It waits for answers that never come.
def test_a_silent_board_is_tried_once(suite: pytest.Pytester, rig: Bench) -> None:
    """Its probe answers, its line does not."""
    board = rig.add(interfaces=(1, 2), line=2)
    suite.makepyfile(FIVE)
    result = run(suite, *pairs(board))
    result.assert_outcomes(errors=5)
    assert starts(suite) == [board.serial] * 2


# -- what was found before the board failed --------------------------------------------------------

#: A test whose board fails in its first attempt, as ``{body}`` and ``{end}`` say.
FAILS_LATER = """
    import numpy as np
    import pytest
    from pathlib import Path
    from hil.errors import LinkError, NumericError

    attempts = Path("attempts")

    def is_first():
        return attempts.read_text() == "x"

    @pytest.fixture
    def attempt(hil_device):
        with attempts.open("a") as file:
            file.write("x")
        yield
        if is_first():
            {end}

    def wrong(hil_verify):
        if is_first():
            expect = {{"y": np.full((1, 4), 99, np.int8)}}
            hil_verify({{"x": np.zeros((1, 8), np.int8)}}, expect=expect)

    @pytest.mark.hil(model="tiny.tflite")
    {marker}
    def test_it(attempt, hil_verify, hil_bench):
        {body}
"""
FAIL = "raise LinkError('the link failed', 'connect it')"
WRONG_FIRST = {
    "assertion": ("assert not is_first(), 'wrong'", FAIL),
    "outputs": ("wrong(hil_verify)", FAIL),
    "error": ("if is_first(): raise ValueError('wrong')", FAIL),
    "cleanup": (
        f"try: wrong(hil_verify)\n        finally:\n            if is_first(): {FAIL}",
        "pass",
    ),
    "caught": (
        f"try: wrong(hil_verify)\n        except NumericError: pass\n        if is_first(): {FAIL}",
        "pass",
    ),
    "finalizer": ("pass", "raise ValueError('wrong') from LinkError('the link failed')"),
    "unsaid": (
        f"try: assert not is_first()\n        except AssertionError: {FAIL} from None",
        "pass",
    ),
    "cost": (f"hil_bench()\n        if is_first(): {FAIL}", "pass"),
}


@cases("name", WRONG_FIRST, first=2)
def test_a_verdict_outlives_its_board(suite: pytest.Pytester, rig: Bench, name: str) -> None:
    """Nothing that a test found wrong is repeated elsewhere, if the board failed as well."""
    boards = rig.add(), rig.add()
    body, end = WRONG_FIRST[name]
    marker = "@pytest.mark.hil_limits(max_workspace=1)" if name == "cost" else ""
    suite.makepyfile(FAILS_LATER.format(body=body, end=end, marker=marker))
    result = run(suite, *pairs(*boards), "--hil-report=out.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert (suite.path / "attempts").read_text() == "x"
    result.stdout.no_fnmatch_line("*passed on another board*")
    if name in ("cleanup", "caught"):
        result.stdout.fnmatch_lines(["*wrong results before the board failed*", "*differs from*"])
        assert "badge differ" in (suite.path / "out.html").read_text()


def test_results_of_all_attempts_are_shown(suite: pytest.Pytester, rig: Bench) -> None:
    boards = rig.add(), rig.add()
    body = f"hil_bench() if is_first() else hil_verify(2)\n        if is_first(): {FAIL}"
    suite.makepyfile(FAILS_LATER.format(body=body, end="pass", marker=""))
    result = run(suite, *pairs(*boards), "--hil-report=out.html")
    result.assert_outcomes(passed=1)
    assert (suite.path / "attempts").read_text() == "xx"
    page = (suite.path / "out.html").read_text()
    assert "over 2 samples" in page
    assert "cycles for each inference" in page


@pytest.mark.full
def test_a_skip_does_not_hide_a_failed_board(suite: pytest.Pytester, rig: Bench) -> None:
    boards = rig.add(), rig.add()
    body = "if not is_first(): pytest.skip('nothing to see')"
    suite.makepyfile(FAILS_LATER.format(body=body, end=FAIL, marker=""))
    result = run(suite, *pairs(*boards))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the board failed, and then the test skipped: *nothing to see"])


@cases("strict", [(), ("--hil-strict",)], first=1)
def test_a_failed_board_is_no_expected_failure(
    suite: pytest.Pytester, rig: Bench, strict: tuple[str, ...]
) -> None:
    """Neither marked nor by a call, and on a board that nobody shares too."""
    text = """
        import pytest
        from hil.errors import LinkError

        pytestmark = pytest.mark.hil(model="tiny.tflite")

        @pytest.fixture
        def finalizer(hil_device):
            yield
            raise LinkError("the board is gone")

        @pytest.mark.xfail(reason="known")
        def test_marked(hil_device):
            raise LinkError("the board is gone")

        @pytest.mark.xfail(strict=True)
        def test_end(finalizer):
            assert False

        def test_call(hil_device):
            try:
                raise LinkError("the board is gone")
            except LinkError:
                pytest.xfail("known")
    """
    suite.makepyfile(text)
    shared = run(suite, *pairs(rig.add()), "--hil-retries=0", *strict)
    alone = run(suite, *strict)
    for result in (shared, alone):
        outcomes = result.parseoutcomes()
        assert outcomes.pop("failed") + outcomes.pop("errors", 0) + outcomes.pop("error", 0) >= 3
        assert outcomes.get("xfailed", 0) <= 1
        assert result.ret == pytest.ExitCode.TESTS_FAILED
