"""What the long measurements share: named steps, run side by side, with results that are kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import models
from tqdm import tqdm

import hilc
from hilc.artifact.library import ModelLibrary
from hilc.errors import HilError

ROOT = Path(__file__).resolve().parents[1]

__all__ = ["ROOT", "Result", "Results", "Step", "compiled", "models", "one_line", "run_step"]
__all__ += ["run_steps"]

Result = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A name, and what returns the result (``ok`` and what is to be ``shown``)."""

    name: str
    run: Callable[[], Result]


class Results:
    """The results by step, in a file that is complete after every step."""

    def __init__(self, path: Path, fresh: bool) -> None:
        self._path = path
        self._lock = Lock()
        self._places: dict[str, int] = {}
        known = path.is_file() and not fresh
        self.steps: dict[str, Result] = json.loads(path.read_text())["steps"] if known else {}

    def known(self, key: str) -> Result | None:
        """Return the good result of an earlier run of the same ``key``."""
        with self._lock:
            return next((r for r in self.steps.values() if r["ok"] and r.get("key") == key), None)

    def expect(self, names: Sequence[str]) -> None:
        """Keep the results of these steps in this order, whichever ends first: pages have it.

        Those that are known stay where they are: a run of a few renews these alone.
        """
        ordered = dict.fromkeys((*self.steps, *names))
        self._places = {name: place for place, name in enumerate(ordered)}

    def add(self, name: str, result: Result) -> None:
        with self._lock:
            self.steps[name] = result
            last = len(self._places)
            steps = self.steps.items()
            self.steps = dict(sorted(steps, key=lambda step: self._places.get(step[0], last)))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps({"steps": self.steps}, indent=2) + "\n")


def run_step(step: Step, results: Results) -> Result:
    """Run one step and keeps its result; an error of the product is a result that is not ok."""
    start = time.monotonic()
    try:
        result = step.run()
    except HilError as error:
        result = {"ok": False, "shown": one_line(error)}
    result = {**result, "step_seconds": round(time.monotonic() - start, 2)}
    results.add(step.name, result)
    return result


def run_steps(steps: Sequence[Step], results: Results, jobs: int, unit: str) -> dict[str, Result]:
    """Return the results of ``steps`` by name, ``jobs`` of them at a time."""
    results.expect([step.name for step in steps])
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = pool.map(lambda step: run_step(step, results), steps)
        bar = tqdm(outcomes, total=len(steps), unit=unit, disable=None)
        try:
            return {step.name: result for step, result in zip(steps, bar, strict=True)}
        except BaseException:
            # What is under way ends; what was not begun is not.
            pool.shutdown(cancel_futures=True)
            raise


def compiled(model: str, cpu: str, **options: Any) -> ModelLibrary:
    """Return the model for a firmware: with inputs and outputs in a pool of the caller by default.

    Options that say nothing of memory keep these.
    """
    is_digits = model == "digits"
    path = ROOT / "examples" / "digits" / "digits.tflite" if is_digits else models.model_path(model)
    if not {"pools", "io_in_pool"} & set(options):
        options |= {"pools": "external", "io_in_pool": True}
    return hilc.compile(path, cpu=cpu, name=model, **options)


def one_line(error: HilError) -> str:
    """Return the error in one line."""
    return "; ".join(line.strip() for line in error.fact.splitlines() if line.strip())
