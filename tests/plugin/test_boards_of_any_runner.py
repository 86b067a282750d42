"""Pool, lock, probe and port belong to a board, whatever runner starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from fake_bench import Bench
from plugin_suite import FIVE, dense_model, pairs, properties, run, run_on_bench
from waiting import until

from hil.cli import main

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
#: A runner of a plugin, which drives boards of the bench and writes down when it used which.
RIG = """
    import contextlib
    import json
    import sys
    import time
    sys.path.insert(0, {tests!r})
    from pathlib import Path
    from fake_bench import installed
    from hil.access import Runner, qemu, register_runner, runner_named

    _bench = installed(Path({folder!r}))
    _bench.__enter__()

    @contextlib.contextmanager
    def start(board, image, choice):
        begin = time.monotonic()
        with runner_named("pyocd").start(board, image, choice) as running:
            yield running
        with open("uses", "a") as file:
            file.write(json.dumps([choice.probe, choice.port, begin, time.monotonic()]) + "\\n")

    class Bench(Runner):
        name = "bench"
        uses_probe = True

        def serves(self, board):
            return board.qemu is not None

        def start(self, board, image, connection):
            return start(board, image, connection)

    register_runner(Bench())

    @contextlib.contextmanager
    def start_only(board, image, choice):
        begin = time.monotonic()
        with qemu.start(board, image) as running:
            yield running
        with open("uses", "a") as file:
            file.write(json.dumps([None, None, begin, time.monotonic()]) + "\\n")

    class Only(Runner):
        name = "only"
        exists_once = True

        def serves(self, board):
            return board.qemu is not None

        def start(self, board, image, connection):
            return start_only(board, image, connection)

    class Plain(Runner):
        name = "plain"

        def serves(self, board):
            return board.name == "mps2-an386"

        def start(self, board, image, connection):
            return start(board, image, connection)

    register_runner(Only())
    register_runner(Plain())
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, rig: Bench) -> pytest.Pytester:
    (pytester.path / "tiny.tflite").write_bytes(dense_model())
    tests = str(Path(__file__).resolve().parents[1] / "support" / "boards")
    pytester.makeconftest(RIG.format(tests=tests, folder=str(rig.folder)))
    pytester.makepyfile(FIVE)
    return pytester


def uses(suite: pytest.Pytester) -> list[list[Any]]:
    return [json.loads(line) for line in (suite.path / "uses").read_text().splitlines()]


def test_a_plugins_runner_has_a_pool(suite: pytest.Pytester, rig: Bench) -> None:
    """It serves a board that does not list it; two workers use two boards, each alone."""
    a, b = rig.add(), rig.add()
    result = run_on_bench(suite, *pairs(a, b), "--hil-runner=bench", "-n2", "--junit-xml=out.xml")
    result.assert_outcomes(passed=5)
    names = {f"mps2-an386:{board.serial}" for board in (a, b)}
    assert set(properties(suite.path / "out.xml", "hil_board")) == names
    found = uses(suite)
    assert {(probe, port) for probe, port, _, _ in found} == {
        (board.serial, board.by_id()) for board in (a, b)
    }
    for board in (a, b):
        times = sorted((begin, end) for probe, _, begin, end in found if probe == board.serial)
        assert all(end <= begin for (_, end), (begin, _) in zip(times, times[1:], strict=False))


@pytest.mark.full
def test_a_board_that_exists_once_has_one_user(suite: pytest.Pytester) -> None:
    """Its runner uses no probe; two workers wait for each other."""
    run_on_bench(suite, "--hil-runner=only", "-n2").assert_outcomes(passed=5)
    times = sorted((begin, end) for _, _, begin, end in uses(suite))
    assert all(end <= begin for (_, end), (begin, _) in zip(times, times[1:], strict=False))


@cases(
    ("options", "message"),
    [
        (
            ["--hil-runner=qemu", "--hil-port=/dev/ttyACM0"],
            "*the runner 'qemu' has its own serial line, not /dev/ttyACM0*",
        ),
        (["--hil-runner=plain", "--hil-port=x"], "*the runner 'plain' has its own serial line*"),
        (["--hil-runner=qemu", "--hil-probe=A1"], "*the runner 'qemu' uses no probe*"),
        (["--hil-probe=virtual", "--hil-port=x"], "*a virtual probe has its own serial line*"),
        (["--hil-probe=virtual", "--hil-probe=A1"], "*one of them is virtual*"),
        (["--hil-probe=A1", "--hil-probe=A1"], "*the probe 'A1' is given twice*"),
        (["--hil-probe=A1", "--hil-probe=B", "--hil-port=x"], "*2 probes and 1 ports are given*"),
        (["--hil-runner=renod"], "*unknown runner 'renod'*"),
    ],
    first=2,
)
def test_what_a_runner_cannot_use_is_refused(
    suite: pytest.Pytester, options: list[str], message: str
) -> None:
    result = run_on_bench(suite, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


@pytest.mark.parametrize("option", ["--hil-runner=qemu", "--hil-port=x", "--hil-probe=x"])
def test_a_board_of_a_lab_takes_none(pytester: pytest.Pytester, option: str) -> None:
    result = run(pytester, "--hil-board=cpu=cortex-m4", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*{option.partition('=')[0]} does not apply to a board of a lab*"]
    )


HOLDER = """
    import time
    import pytest

    @pytest.mark.hil(model="tiny.tflite")
    def test_holds(hil_device):
        hil_device["tiny"].run()
        open("held", "w").close()
        for _ in range(600):
            if __import__("os").path.exists("done"):
                break
            time.sleep(0.1)
        hil_device["tiny"].run()
"""


@pytest.mark.full
@cases("given", [["--hil-runner=bench"], []], first=1)
def test_a_command_does_not_take_a_board_in_use(
    suite: pytest.Pytester, rig: Bench, capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    """Of a test run in another process, however that starts it."""
    board, other = rig.add(), rig.add()
    suite.makepyfile(HOLDER)
    words = [sys.executable, "-m", "pytest", "-pno:cacheprovider", "--hil-board=mps2-an386"]
    process = subprocess.Popen([*words, *pairs(board), *given], cwd=suite.path)
    try:
        until(lambda: (suite.path / "held").exists(), "the test")
        command = ["verify", str(DIGITS), "--board=mps2-an386", "--samples=1"]
        for one in (
            [*command, f"--probe={board.serial}", f"--port={board.by_id()}"],
            ["reset", "--board=mps2-an386", f"--probe={board.serial}"],
            # The same port by its other name, without a probe.
            [*command, f"--port={board.ports[0].path}"],
        ):
            assert main(one) == 4
            assert f"is in use by process {process.pid} (" in capsys.readouterr().err
        assert main([*command, f"--probe={other.serial}", f"--port={other.by_id()}"]) == 0
    finally:
        (suite.path / "done").touch()
        assert process.wait(timeout=120) == 0
    assert main([*command, f"--probe={board.serial}", f"--port={board.by_id()}"]) == 0


@pytest.mark.full
def test_a_board_in_use_by_a_command_is_waited_for(suite: pytest.Pytester, rig: Bench) -> None:
    board = rig.add()
    words = [*rig.hil, "verify", str(DIGITS), "--board=mps2-an386", "--samples=20"]
    words += [f"--probe={board.serial}", f"--port={board.by_id()}"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    until(lambda: bool(board.ports[0].written), "the command")
    result = run_on_bench(suite, *pairs(board))
    result.assert_outcomes(passed=5)
    told, _ = process.communicate(timeout=120)
    assert "match over 20 samples" in told
