"""The pytest plugin, as test suites use it: pytest in pytest, firmware on the native board."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import psutil
import pytest
from campaigns import cases
from plugin_suite import run
from tflite_builder import ModelBuilder

import hilc.references
from hil.access import start
from hil.board import load_board
from hil.build import build
from hil.firmware.sources import ModelOptions, ModelSource, load_library

MODEL_TEST = """
    import numpy as np
    import pytest

    @pytest.mark.hil(model="models/tiny.tflite")
    def test_it(hil_device, hil_board, hil_library):
        model = hil_device["tiny"]
        model.set_input("x", np.zeros((1, 8), np.int8))
        model.run()
        assert model.get_output("y").shape == (1, 4)
        assert hil_library.modules[0].cpu == hil_board.cpu.name
        print("ran on", hil_board.name)
"""


def test_options_and_marker_are_shown(suite: pytest.Pytester) -> None:
    run(suite, "--help").stdout.fnmatch_lines(
        ["*--hil-board=BOARD*", "*--hil-port=URL*", "*--hil-probe=UID*"]
    )
    run(suite, "--markers").stdout.fnmatch_lines(["@pytest.mark.hil(model=PATH, boards=*"])


def test_runs_on_the_selected_board(suite: pytest.Pytester) -> None:
    suite.makepyfile(MODEL_TEST)
    result = run(suite, "--hil-board", "native", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*test_it?native?*ran on native*"])


def test_runs_on_several_boards(suite: pytest.Pytester) -> None:
    suite.makepyfile(MODEL_TEST)
    result = run(suite, "--hil-board=native", "--hil-board=mps2-an385", "--hil-board=native")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*ran on native*", "*ran on mps2-an385*"])


def test_no_board_means_the_default_one(suite: pytest.Pytester) -> None:
    suite.makepyfile(MODEL_TEST)
    result = run(suite)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*ran on mps2-an386*"])


LATE = """
    import unittest
    import pytest

    pytestmark = pytest.mark.hil(model="models/tiny.tflite", boards=["native", "mps2-an385"])

    class Test(unittest.TestCase):
        @pytest.fixture(autouse=True)
        def take(self, hil_device):
            self.device = hil_device

        def test_method(self):
            self.device["tiny"].run()

    def test_late(request):
        request.getfixturevalue("hil_verify")(samples=1)
"""


@cases(
    ("boards", "outcomes", "told"),
    [
        (["native"], {"passed": 2}, "*2 passed*"),
        (["native", "mps2-an385"], {"failed": 1, "errors": 1}, "*cannot be repeated for native, *"),
        (["microbit"], {"skipped": 2}, "*the test is for native, mps2-an385; selected: microbit*"),
    ],
    first=1,
)
def test_tests_that_pytest_cannot_parametrize(
    suite: pytest.Pytester, boards: list[str], outcomes: dict[str, int], told: str
) -> None:
    suite.makepyfile(LATE)
    result = run(suite, "-rs", *(f"--hil-board={board}" for board in boards))
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines([told])


def test_no_emulator_means_skip_with_the_reason(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    suite.makepyfile(MODEL_TEST)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run(suite)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*mps2-an386 needs qemu-system-arm: apt install*"])


BOARDS_TEST = """
    import pytest

    @pytest.mark.hil(boards=["native", "mps2-an386"])
    def test_it(hil_board):
        print("board", hil_board.name)
"""


@pytest.mark.parametrize(
    ("selected", "outcomes", "lines"),
    [
        ([], {"passed": 2}, ["*board native*", "*board mps2-an386*"]),
        (["--hil-board=native"], {"passed": 1}, ["*board native*"]),
        (
            ["--hil-board=mps3-an547"],
            {"skipped": 1},
            ["*the test is for native, mps2-an386; selected: mps3-an547*"],
        ),
    ],
    ids=["none", "one", "another"],
)
def test_boards_of_the_marker(
    suite: pytest.Pytester, selected: list[str], outcomes: dict[str, int], lines: list[str]
) -> None:
    suite.makepyfile(BOARDS_TEST)
    result = run(suite, *selected)
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(lines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hil-board=mps2-an368"], "*--hil-board: unknown board 'mps2-an368' (did you mean*"),
        (["--hil-port=loop://"], "*--hil-port belongs to one board: give --hil-board once*"),
        (
            ["--hil-board=native", "--hil-board=mps2-an386", "--hil-probe=x"],
            "*--hil-probe belongs to one board*",
        ),
    ],
)
def test_wrong_options(suite: pytest.Pytester, options: list[str], message: str) -> None:
    suite.makepyfile(BOARDS_TEST)
    result = run(suite, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_firmware_that_runs_already(suite: pytest.Pytester) -> None:
    suite.makepyfile(MODEL_TEST)
    board = load_board("native")
    source = ModelSource(suite.path / "models" / "tiny.tflite", None)
    library = load_library(source, ModelOptions(board.cpu.name))
    with start(board, build([library], board)) as running:
        run(suite, "--hil-board=native", f"--hil-port={running.url}").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        (
            'hil(modle="x")',
            "*test_it*: unknown argument 'modle' (did you mean model?); the marker is hil(model=*",
        ),
        ('hil("x.tflite")', "*test_it*: positional argument 'x.tflite'; the marker is hil(model=*"),
        ("hil(model=5)", "*test_it*: model=5 is not a path; the marker is *"),
        ("hil(boards=[5])", "*test_it*: boards=[[]5] is not a list of names; the marker is *"),
        ("hil()", "*hil_library needs @pytest.mark.hil(model=PATH)*"),
        ('hil(model="missing.tflite")', "*missing.tflite*"),
    ],
)
def test_a_wrong_marker_fails_its_test_alone(
    suite: pytest.Pytester, marker: str, message: str
) -> None:
    suite.makepyfile(
        f"import pytest\n\n@pytest.mark.{marker}\ndef test_it(hil_device):\n    pass\n"
        "\ndef test_other():\n    pass\n"
    )
    result = run(suite, "--hil-board=native")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([message])


def test_a_library_of_the_suites_own(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import hilc
        import pytest

        @pytest.fixture
        def hil_library(hil_board):
            return hilc.compile(
                "models/tiny.tflite", name="own", cpu=hil_board.cpu.name, optimize="balanced"
            )

        def test_it(hil_device):
            assert list(hil_device.models) == ["own"]
        """
    )
    run(suite, "--hil-board=native").assert_outcomes(passed=1)


def test_tests_share_a_device_until_it_breaks(suite: pytest.Pytester) -> None:
    """The third test's device is a new one, since the second killed its firmware."""
    suite.makepyfile(
        """
        import psutil
        import pytest

        pytestmark = pytest.mark.hil(model="models/tiny.tflite")
        devices = []

        def test_first(hil_device):
            devices.append(hil_device)

        def test_second(hil_device):
            assert hil_device is devices[0]
            firmware = str(hil_device.firmware.elf)
            processes = psutil.Process().children(recursive=True)
            (process,) = [p for p in processes if firmware in p.cmdline()]
            process.kill()
            process.wait()

        def test_third(hil_device):
            assert hil_device is not devices[0]
            assert hil_device.echo(b"alive") == b"alive"
        """
    )
    run(suite, "--hil-board=native").assert_outcomes(passed=3)


def test_tests_that_share_a_device_in_any_order(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import numpy as np
        import pytest
        from hil.errors import InputError

        pytestmark = pytest.mark.hil(model="models/tiny.tflite")
        answers = {}

        def answer(model):
            model.run()
            return model.get_output("y").tolist()

        @pytest.mark.parametrize("value", [-3, 90, -3])
        def test_sets_its_input(hil_device, value):
            model = hil_device["tiny"]
            with pytest.raises(InputError, match="is not available"):
                model.get_output("y")
            model.set_input("x", np.full((1, 8), value, np.int8))
            answers.setdefault(value, answer(model))
            assert answer(model) == answers[value]

        @pytest.mark.parametrize("again", [0, 1])
        def test_sets_nothing(hil_device, again):
            zeros = answers.setdefault(0, answer(hil_device["tiny"]))
            assert answer(hil_device["tiny"]) == zeros
            hil_device["tiny"].set_input("x", np.full((1, 8), 70, np.int8))
            assert answer(hil_device["tiny"]) != zeros
        """
    )
    run(suite, "--hil-board=native").assert_outcomes(passed=5)


def test_nothing_is_left_running(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        MODEL_TEST
        + """
    @pytest.mark.hil(model="models/tiny.tflite")
    def test_fails(hil_device):
        raise RuntimeError("a failing test must not leave its board running")
"""
    )
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    run(suite, "--hil-board=native", "--hil-board=mps2-an386").assert_outcomes(passed=2, failed=2)
    left = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
    assert left == []


@pytest.mark.full
def test_a_suite_without_hil_does_not_load_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            assert not [name for name in sys.modules if name.startswith(("hilc", "hil.link"))]
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@pytest.mark.full
def test_errors_of_the_harness_are_sentences(suite: pytest.Pytester) -> None:
    """A misfit, a missing model, a mistake in a test: no line of the harness's own code."""
    builder = ModelBuilder()
    builder.input("x", (1, 1024), "int8", scale=0.05)
    builder.const("w", np.ones((512, 1024), np.int8), scale=0.01)
    builder.output("y", (1, 512), "int8", scale=0.4)
    builder.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    (suite.path / "models" / "huge.tflite").write_bytes(builder.build())
    suite.makepyfile("""
        import pytest

        @pytest.mark.hil(model="models/huge.tflite", boards="lm3s6965evb")
        def test_misfit(hil_device):
            pass

        @pytest.mark.hil(model="models/missing.tflite", boards="native")
        def test_missing(hil_device):
            pass

        @pytest.mark.hil(model="models/tiny.tflite", boards="native")
        def test_mistake(hil_device):
            hil_device["tiny"].set_input("nothing", None)

        @pytest.mark.hil(model="models/tiny.tflite", boards="nucleo-l476rg")
        def test_elsewhere(hil_device):
            pass
    """)
    result = run(suite)
    result.assert_outcomes(errors=2, failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "'huge' does not fit lm3s6965evb:",
            "'*missing.tflite' does not exist",
            ">*set_input(*",
            "E*there is no input of model 'tiny' called 'nothing'",
            "SKIPPED*a probe for nucleo-l476rg is not connected*",
        ]
    )
    shown = result.stdout.str()
    assert not re.search(r"/hilc?/\w+\.py", shown)
    assert "def " not in shown.replace("def test_mistake", "")


def test_another_reference_is_told(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hilc.references, "_installed", lambda package: None)
    suite.makepyfile("""
        import pytest
        from hil.oracle import reference_of

        @pytest.mark.hil(model="models/tiny.tflite")
        def test_it(hil_library):
            module = hil_library.modules[0]
            assert reference_of(hil_library, module, allow_fallback=True).name == "hilc"
    """)
    result = run(suite, "--hil-board=native")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "hil: compared with this compiler's own interpreter, not with tflm: *",
            "*FallbackWarning: tiny: compared with this compiler's own interpreter, not with*",
        ]
    )


MATRIX_TEST = """
    import hil

    def test_it(hil_matrix):
        model = "models/tiny.tflite"
        jobs = [hil.VerifyJob(model, 2), hil.BenchJob(model, board="mps2-an386")]
        first, *others = hil_matrix(jobs, workers=2)
        print("ran on", [outcome.results[0].board for outcome in (first, *others)])

    def test_an_error(hil_matrix):
        hil_matrix([hil.VerifyJob("models/none.tflite", 2)])
"""


def test_a_matrix_of_jobs(suite: pytest.Pytester) -> None:
    """Jobs without a board run on each selected one; an error fails the test."""
    suite.makepyfile(MATRIX_TEST)
    result = run(suite, "--hil-board=native", "--hil-board=mps2-an385")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*ran on ['native', 'mps2-an385', 'mps2-an386']*"])
    result.stdout.fnmatch_lines(["*'models/none.tflite' does not exist*"])
