"""Limits of a test: what its model may take at most on a board, and how accurate it has to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from hil.verify.bench import BenchReport

MARKER = (
    "hil_limits(max_instructions=N, max_cycles=N, max_workspace=BYTES, max_flash=BYTES): what the "
    "models of the test may take at most"
)


@dataclass(frozen=True)
class Limits:
    """Limits of one test; None for none."""

    max_instructions: int | None = None
    max_cycles: int | None = None
    max_workspace: int | None = None
    max_flash: int | None = None

    def __bool__(self) -> bool:
        return self != Limits()

    def broken(self, report: BenchReport) -> list[str]:
        """Return a sentence for each limit that a measurement exceeds or cannot tell."""
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
    """Return the limits of a test's markers, of which the closest comes first.

    Raise ValueError with what is wrong for arguments that the marker does not have.
    """
    known = [field.name for field in fields(Limits)]
    values: dict[str, int] = {}
    for marker in markers:
        if marker.args:
            raise ValueError(f"positional argument {marker.args[0]!r}; the marker is {MARKER}")
        for name, value in marker.kwargs.items():
            if name not in known:
                raise ValueError(f"unknown argument {name!r}; the marker is {MARKER}")
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name}={value!r} is not a whole number of at least 0")
            values.setdefault(name, value)
    return Limits(**values)
