"""One verification chooses, checks and loads each thing once, whichever way it is asked for."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hil
import hil.jobs.functions
import hilc.frontends
from hil import access
from hil.access import registry
from hil.board import board
from hil.cli import main
from hil.device import power, route
from hil.firmware import fit, placement, sources
from hil.verify import oracle, samples

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
BOARD = "mps2-an386"
#: What a run chooses, checks or loads.
STEPS: dict[str, Any] = {
    "the board's description": board.load_board,
    "the runner": access.runner_name,
    "the runner with its settings": access.chosen_runner,
    "whether it is installed": registry.need_of,
    "the probe": access.pinned,
    "the route": route.ready_route,
    "the power switch": power.power_of,
    "the model": hilc.frontends.load_model,
    "the compiled models": sources.load_sources,
    "the reference": oracle.reference_of,
    "the samples": samples.samples_of,
    "the estimate": fit.estimate,
    "the layouts": fit.layouts,
    "the static bytes": placement._summed,
    "the firmware": hil.build,
}


#: What a session of pytest asks once for each board, whatever its tests do.
OF_SESSION = (
    "the board's description",
    "the runner",
    "the runner with its settings",
    "whether it is installed",
)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each step was taken, by whichever module."""
    found: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def step(*args: Any, **options: Any) -> Any:
            found[name] += 1
            return function(*args, **options)

        return step

    def replace(name: str, function: Callable[..., Any]) -> None:
        step = counted(name, function)
        for module in [m for n, m in sys.modules.items() if n.partition(".")[0] in ("hil", "hilc")]:
            for word, value in list(vars(module).items()):
                if value is function:
                    monkeypatch.setattr(module, word, step)

    for name, function in STEPS.items():
        replace(name, function)
    options = counted("the compiler's options", sources.ModelOptions.compiler)
    monkeypatch.setattr(sources.ModelOptions, "compiler", options)
    return found


def twice(steps: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in steps.items() if count > 1}


RUNS: dict[str, Callable[[], object]] = {
    "verify": lambda: hil.verify(DIGITS, 2, board=BOARD),
    "bench": lambda: hil.bench(DIGITS, board=BOARD),
    "job": lambda: hil.VerifyJob(DIGITS, 2, board=BOARD).run(),
    "matrix": lambda: hil.matrix([hil.VerifyJob(DIGITS, 2, board=BOARD)])[0].check(),
    "hil verify": lambda: main(["verify", str(DIGITS), "--board", BOARD, "--samples", "2"]),
    "hil bench": lambda: main(["bench", str(DIGITS), "--board", BOARD]),
}


@pytest.mark.parametrize("way", RUNS)
def test_each_step_is_taken_once(
    way: str, steps: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Another cache than that of other tests, which have compiled this model.
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    RUNS[way]()
    assert twice(steps) == {}
    assert set(steps) >= {"the runner", "the route", "the reference", "the static bytes"}
    assert set(steps) >= {"the compiler's options", "the compiled models", "the firmware"}


def test_pytest(
    pytester: pytest.Pytester, steps: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.hil(model={str(DIGITS)!r}, boards=[{BOARD!r}])
        def test_it(hil_verify):
            hil_verify(2)
        """
    )
    without = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "labgrid")]
    pytester.runpytest_inprocess(*without).assert_outcomes(passed=1)
    # Before the test, the session asks which boards there are, and whether workers share them;
    # after each of its three phases, how the board is reached, for the report.
    assert {name: 2 for name in OF_SESSION} | {"the runner": 5} == twice(steps)
    assert set(steps) >= {"the route", "the reference", "the compiled models", "the static bytes"}
