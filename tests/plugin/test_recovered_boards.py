"""Boards of a bench that fail in the middle of a test run: what is reported, and at what cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_bench import Bench
from plugin_suite import FIVE, dense_model, pairs, properties
from plugin_suite import run_on_bench as run

TESTS = Path(__file__).resolve().parents[1]
#: Lets pytest, and each of its workers, find the boards of the bench.
CONFTEST = f"""
    import sys
    sys.path.insert(0, {str(TESTS)!r})
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


def test_the_others_of_a_pool_take_over(suite: pytest.Pytester, rig: Bench) -> None:
    dead, good = rig.add(), rig.add()
    dead.die()
    suite.makepyfile(FIVE)
    result = run(suite, *pairs(dead, good))
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        [f"mps2-an386:{dead.serial}: *", "1 infrastructure failures", "*passed on another board"]
    )
    assert starts(suite).count(dead.serial) == 2
    assert starts(suite).count(good.serial) == 1


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
