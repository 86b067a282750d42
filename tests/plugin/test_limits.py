"""What the plugin measures: verification and counts as fixtures, limits, properties, logs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace
from typing import Any

import pytest
from plugin_suite import run

import hilc.references
from hil.pytest_plugin.limits import Limits, limits_of

BOARD = "--hil-board=mps2-an386"


def properties(pytester: pytest.Pytester) -> dict[str, dict[str, str]]:
    """The properties of each test in the JUnit file."""
    return {
        str(case.get("name")): {
            str(p.get("name")): str(p.get("value")) for p in case.iter("property")
        }
        for case in ElementTree.parse(pytester.path / "out.xml").iter("testcase")
    }


def test_verify_and_bench_are_fixtures(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.hil(model="models/tiny.tflite")

        def test_it(hil_verify, hil_bench):
            report = hil_verify(3, per_layer=True)
            assert (report.samples, report.match) == (3, True)
            assert hil_bench(runs=2).counts[0] > 0

        def test_differs(hil_verify):
            hil_verify({"x": [[0] * 8]}, expect={"y": [[99, 99, 99, 99]]})

        def test_run(hil_device):
            hil_device["tiny"].run()
        """
    )
    text = (suite.path / "test_verify_and_bench_are_fixtures.py").read_text()
    text = text.replace("[[0] * 8]", "numpy.zeros((1, 8), numpy.int8)")
    text = text.replace("[[99, 99, 99, 99]]", "numpy.full((1, 4), 99, numpy.int8)")
    (suite.path / "test_verify_and_bench_are_fixtures.py").write_text("import numpy\n" + text)
    result = run(suite, BOARD, "--junit-xml=out.xml")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*tiny on mps2-an386 differs from expect: 4 elements of 'y'*"])
    found = properties(suite)
    assert found["test_it[mps2-an386]"]["hil_reference"] == "tflm"
    assert found["test_it[mps2-an386]"]["hil_match"] == "true"
    assert "of such inferences would show" in found["test_it[mps2-an386]"]["hil_remarks"]
    assert "hil_remarks" not in found["test_differs[mps2-an386]"]
    assert found["test_differs[mps2-an386]"]["hil_match"] == "false"
    for name in ("test_it[mps2-an386]", "test_run[mps2-an386]"):
        own = found[name]
        assert own["hil_board"] == "mps2-an386"
        sizes = ("instructions", "flash_bytes", "ram_bytes", "workspace_bytes")
        assert all(int(own[f"hil_{what}"]) > 0 for what in sizes)


def test_limits(suite: pytest.Pytester) -> None:
    """They are checked whether or not the test measures; the closest marker counts."""
    suite.makepyfile(
        """
        import pytest

        pytestmark = [
            pytest.mark.hil(model="models/tiny.tflite"),
            pytest.mark.hil_limits(max_instructions=10, max_workspace=10**6),
        ]

        def test_slow(hil_device):
            pass

        @pytest.mark.hil_limits(max_instructions=10**6)
        def test_fast(hil_bench):
            hil_bench()

        @pytest.mark.hil_limits(max_instructions=10**6, max_workspace=1, max_flash=2)
        def test_large(hil_verify):
            hil_verify(1)

        @pytest.mark.hil_limits(max_speed=1)
        def test_unknown(hil_device):
            pass

        def test_nothing_is_measured():
            pass
        """
    )
    result = run(suite, BOARD)
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "*tiny on mps2-an386 takes * instructions; the limit is 10*",
            "*tiny on mps2-an386 takes * bytes of workspace; the limit is 1*",
            "*tiny on mps2-an386 takes * bytes of flash; the limit is 2*",
            "*unknown argument 'max_speed'; the marker is hil_limits(*",
            "*hil_limits needs a model on a board*",
        ]
    )


@pytest.mark.parametrize(
    ("counter", "limits", "broken"),
    [
        (
            "cycles",
            Limits(max_instructions=1),
            ["max_instructions is given, but this board counts"],
        ),
        ("cycles", Limits(max_instructions=1, max_cycles=100), []),
        ("cycles", Limits(max_cycles=99), ["takes 100 cycles; the limit is 99"]),
        ("instructions", Limits(max_workspace=6), ["takes 7 bytes of workspace; the limit is 6"]),
        ("instructions", Limits(max_workspace=7, max_flash=8, max_instructions=100), []),
    ],
)
def test_what_breaks_a_limit(counter: str, limits: Limits, broken: list[str]) -> None:
    report: Any = SimpleNamespace(
        model="m", board="b", counter=counter, per_inference=100, workspace_bytes=7,
        model_flash_bytes=8,
    )  # fmt: skip
    found = limits.broken(report)
    assert len(found) == len(broken)
    assert all(part in text for part, text in zip(broken, found, strict=True))


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        (pytest.mark.hil_limits(5), "positional argument 5"),
        (pytest.mark.hil_limits(max_flash="5K"), "max_flash='5K' is not a whole number"),
        (pytest.mark.hil_limits(max_flash=True), "max_flash=True is not a whole number"),
        (pytest.mark.hil_limits(max_flash=-1), "max_flash=-1 is not"),
        (pytest.mark.hil_limits(max_flash=0.5), "max_flash=0.5 is not a whole number"),
        (pytest.mark.hil_limits(min_accuracy=90), "min_accuracy=90 is not a number of 0 to 1"),
        (pytest.mark.hil_limits(min_accuracy=True), "min_accuracy=True is not a number"),
    ],
)
def test_wrong_limits(mark: pytest.MarkDecorator, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        limits_of([mark.mark])


def test_the_closest_limits_count() -> None:
    marks = [pytest.mark.hil_limits(max_flash=1), pytest.mark.hil_limits(max_flash=2, max_cycles=3)]
    assert limits_of(m.mark for m in marks) == Limits(max_flash=1, max_cycles=3)
    assert not limits_of([])


def test_a_device_for_the_session(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def device(hil_open):
            return hil_open("models/tiny.tflite")

        def test_one(device):
            device["tiny"].run()

        def test_two(device):
            assert device["tiny"].last_run is not None
        """
    )
    run(suite, "--hil-board=native").assert_outcomes(passed=2)


def test_runner_and_timeout(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.hil(model="models/tiny.tflite")
        def test_it(hil_device):
            assert hil_device._client.run_timeout_s == 7.5
        """
    )
    options = ("--hil-board=native", "--hil-timeout=7.5", "--hil-runner=native")
    run(suite, *options).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hil-board=native", "--hil-runner=qemu"], "*'native' has no runner 'qemu'*"),
        (["--hil-board=native", "--hil-timeout=0"], "*argument --hil-timeout: invalid*"),
        (["--hil-board=native", "--hil-timeout=nan"], "*argument --hil-timeout: invalid*"),
    ],
)
def test_wrong_options(suite: pytest.Pytester, options: list[str], message: str) -> None:
    result = run(suite, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_log_of_the_board_is_with_a_failure(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.hil(model="models/tiny.tflite")
        def test_it(hil_device):
            hil_device.log("booted twice")
            assert False
        """
    )
    result = run(suite, "--hil-board=native")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*log of board native*", "booted twice"])


ACCURACY = """
    import numpy as np
    import pytest

    pytestmark = pytest.mark.hil(model="models/tiny.tflite")
    X = np.arange(-40, 40, dtype=np.int8).reshape(10, 1, 8)

    def labels(device):
        model = device["tiny"]
        found = []
        for x in X:
            model.set_input(0, x)
            found.append(int(model.run().outputs[0].argmax()))
        return np.array(found)

    @pytest.mark.hil_limits(min_accuracy=1.0)
    def test_accurate(hil_device, hil_evaluate):
        report = hil_evaluate({"x": X[:, 0]}, labels(hil_device))
        assert report.samples == 10

    @pytest.mark.hil_limits(min_accuracy=0.5)
    def test_wrong(hil_device, hil_evaluate):
        hil_evaluate({"x": X[:, 0]}, (labels(hil_device) + 1) % 4)

    @pytest.mark.hil_limits(min_accuracy=0.5)
    def test_nothing(hil_device):
        pass

    def test_verified(hil_verify):
        hil_verify(2)
"""


def test_accuracy_and_a_page_of_all(suite: pytest.Pytester) -> None:
    suite.makepyfile(ACCURACY)
    result = run(suite, "--hil-board=native", "--junit-xml=out.xml", "--hil-report=out.html")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*tiny on native has an accuracy of 0.0000 over 10 samples; the limit is 0.5*",
            "*min_accuracy is given, and the test does not evaluate tiny: hil_evaluate*",
        ]
    )
    assert properties(suite)["test_accurate[native]"]["hil_accuracy"] == "1.0"
    page = (suite.path / "out.html").read_text()
    assert all(word in page for word in ("tiny", "native", "--hil-report=out.html"))


@pytest.mark.full  # It changes rarely, and takes long.
def test_a_page_of_several_workers(suite: pytest.Pytester) -> None:
    """Each sends what it found to the one that writes the page."""
    suite.makepyfile(ACCURACY)
    options = ("-n2", "--hil-board=native", "--hil-report=out.html", "-k", "accurate or verified")
    done = suite.runpytest_subprocess("-pno:cacheprovider", *options)
    done.assert_outcomes(passed=2)
    page = (suite.path / "out.html").read_text()
    assert "tflm" in page
    assert "accuracy" in page


def test_a_page_that_cannot_be_written(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_it():\n    pass\n")
    result = run(suite, "--hil-report=models")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--hil-report: cannot write models*"])


def test_wrong_outputs_fail_what_measures(suite: pytest.Pytester) -> None:
    """A flipped bit of a weight: its costs are as before, and no test passes for it."""
    suite.makepyfile("""
        import pytest
        from wrong_outputs import with_flipped_weight

        @pytest.fixture
        def hil_library(hil_board):
            return with_flipped_weight(hil_board.cpu.name)

        def test_bench(hil_bench):
            hil_bench()

        def test_unchecked(hil_bench):
            assert hil_bench(check=False).checked is None

        @pytest.mark.hil_limits(max_instructions=10_000_000)
        def test_limits(hil_device):
            pass

        def test_verify(hil_verify):
            hil_verify()
    """)
    result = run(suite, BOARD)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["*digits on mps2-an386 differs from tflm: *"])


@pytest.mark.full
def test_a_fallback_fails_unless_it_is_allowed(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hilc.references, "_installed", lambda package: None)
    suite.makepyfile("""
        import numpy as np
        import pytest

        pytestmark = pytest.mark.hil(model="models/tiny.tflite")

        def test_verify(hil_verify):
            assert not hil_verify(2).independent

        def test_bench(hil_bench):
            assert not hil_bench().checked.independent

        def test_evaluate(hil_evaluate):
            hil_evaluate(np.zeros((4, 1, 8), np.int8), np.arange(4))
    """)
    result = run(suite, BOARD, "--junit-xml=out.xml")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "hil: compared with this compiler's own *; --hil-allow-fallback accepts it",
            "*the reference tflm cannot run 'tiny'*",
        ]
    )
    result = run(suite, BOARD, "--hil-allow-fallback", "--junit-xml=out.xml")
    result.assert_outcomes(passed=3, warnings=3)
    own = properties(suite)["test_verify[mps2-an386]"]
    assert (own["hil_reference"], own["hil_independent"], own["hil_samples"]) == (
        "hilc",
        "false",
        "2",
    )
