"""Limits of a test: what its model may take at most on a board, and how accurate it has to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from hil.verify.bench import BenchReport
    from hil.verify.evaluation import Evaluation

MARKER = (
    "hil_limits(max_instructions=N, max_cycles=N, max_workspace=BYTES, max_flash=BYTES, "
    "min_accuracy=X): what the models of the test may take at most, and how accurate they have to "
    "be, 0 to 1"
)


@dataclass(frozen=True)
class Limits:
    """Limits of one test; None for none."""

    max_instructions: int | None = None
    max_cycles: int | None = None
    max_workspace: int | None = None
    max_flash: int | None = None
    min_accuracy: float | None = None

    @property
    def are_costs(self) -> bool:
        """Whether any of them is a limit of what an inference costs."""
        return replace(self, min_accuracy=None) != Limits()

    def missed(self, model: str, evaluation: Evaluation | None) -> list[str]:
        """Return a sentence if an evaluation does not show the accuracy that is asked for."""
        if self.min_accuracy is None:
            return []
        if evaluation is None:
            return [f"min_accuracy is given, and the test does not evaluate {model}: hil_evaluate"]
        value = evaluation["accuracy"].device.value
        if value >= self.min_accuracy:
            return []
        return [
            f"{model} on {evaluation.board} has an accuracy of {value:.4f} over "
            f"{evaluation.samples} samples; the limit is {self.min_accuracy}"
        ]

    def __bool__(self) -> bool:
        return self != Limits()

    def broken(self, report: BenchReport) -> list[str]:
        """Return a sentence for each limit that a measurement exceeds or lacks."""
        counted = {
            "instructions": self.max_instructions,
            "cycles": self.max_cycles,
        }
        if all(value is None for value in counted.values()):
            counted = {}
        elif report.counter in counted and counted[report.counter] is None:
            other = next(name for name, value in counted.items() if value is not None)
            return [
                f"{report.model} on {report.board}: max_{other} is given, but this board counts "
                f"{report.counter}: add max_{report.counter}"
            ]
        found = [
            (counted.get(report.counter), report.per_inference, report.counter),
            (self.max_workspace, report.workspace_bytes, "bytes of workspace"),
            (self.max_flash, report.model_flash_bytes, "bytes of flash"),
        ]
        return [
            f"{report.model} on {report.board} takes {value:,} {what}; the limit is {limit:,}"
            for limit, value, what in found
            if limit is not None and value > limit
        ]


def limits_of(markers: Iterable[pytest.Mark]) -> Limits:
    """Return the limits of a test's markers, the closest first.

    Raise ValueError with what is wrong for arguments that the marker does not have.
    """
    known = [field.name for field in fields(Limits)]
    values: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            raise ValueError(f"positional argument {marker.args[0]!r}; the marker is {MARKER}")
        for name, value in marker.kwargs.items():
            if name not in known:
                raise ValueError(f"unknown argument {name!r}; the marker is {MARKER}")
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if name == "min_accuracy":
                if not (is_number and 0 <= value <= 1):
                    raise ValueError(f"{name}={value!r} is not a number of 0 to 1")
            elif not (is_number and isinstance(value, int) and value >= 0):
                raise ValueError(f"{name}={value!r} is not a whole number of at least 0")
            values.setdefault(name, value)
    return Limits(**values)
