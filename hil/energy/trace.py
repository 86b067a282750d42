"""``--energy trace:FILE``: a recording in a CSV file, of any meter.

The first line names the columns: ``time``, ``current``, ``voltage`` and ``trigger``, each with its
unit in brackets where it is not seconds, amperes or volts, as in ``time (ms), current (uA)``. The
trigger is high from 0.5 on. In its place a column ``marker`` may say ``start`` and ``stop`` in the
lines where an inference begins and ends.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hil.energy.recording import Bools, Recording
from hil.errors import InputError
from hilc.support.inputs import check_regular

#: The columns of numbers, and what a unit of each is in seconds, amperes or volts.
_UNITS = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "current": {"a": 1.0, "ma": 1e-3, "ua": 1e-6, "na": 1e-9},
    "voltage": {"v": 1.0, "mv": 1e-3},
    "trigger": {"": 1.0, "v": 1.0},
}
#: Other names of meters' own exports.
_ALIASES = {"timestamp": "time", "d0": "trigger"}
_COLUMN = re.compile(r"\s*([a-z0-9]+)\s*(?:[(\[]\s*([a-zµ]*)\s*[)\]])?\s*", re.IGNORECASE)
_HIGH = 0.5
_REMEDY = "write a line of names (time, current, voltage, and trigger or marker), then numbers"


@dataclass(frozen=True)
class _Column:
    position: int
    factor: float


class Trace:
    """A recorded trace, as a recorder that has recorded already."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def start(self) -> None:
        """Do nothing: the trace was recorded before."""

    def stop(self) -> Recording:
        """Return the recording in the file."""
        return read_trace(self._path)


def check(argument: str) -> None:
    """Raise if the file does not exist."""
    if not argument:
        raise InputError("the meter 'trace' has no file", "write --energy trace:FILE.csv")
    check_regular(argument, "give a CSV file")
    if not Path(argument).is_file():
        raise InputError(f"there is no trace {argument}", "write --energy trace:FILE.csv")


@contextmanager
def opened(argument: str) -> Iterator[Trace]:
    """Yield the trace of a file."""
    check(argument)
    yield Trace(Path(argument))


def read_trace(path: Path) -> Recording:
    """Return the recording in a CSV file; the InputError for a bad one names the line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(csv.reader(file), str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a CSV file: it is not text", _REMEDY) from None
    except (OSError, csv.Error) as error:
        raise InputError(f"cannot read the trace {path}: {error}", _REMEDY) from None


def _read(rows: Iterator[Sequence[str]], label: str) -> Recording:
    head = next(rows, [])
    columns, marker = _columns(head, label)
    values: dict[str, list[float]] = {name: [] for name in columns}
    marks: list[str] = []
    for number, row in enumerate(rows, start=2):
        if not row or row[0].lstrip().startswith("#"):
            continue
        if len(row) < len(head):
            raise InputError(
                f"{label}, line {number}: {len(row)} cells of {len(head)}", "complete the line"
            )
        for name, column in columns.items():
            values[name].append(_number(row[column.position], name, label, number) * column.factor)
        if marker is not None:
            marks.append(_mark(row[marker], label, number))
    arrays = {name: np.array(list_, dtype=np.float64) for name, list_ in values.items()}
    trigger = _marked(marks) if marker is not None else arrays["trigger"] >= _HIGH
    return Recording(arrays["time"], arrays["current"], arrays["voltage"], trigger, label)


def _columns(head: Sequence[str], label: str) -> tuple[dict[str, _Column], int | None]:
    """Return the columns of numbers, and the position of the markers."""
    columns: dict[str, _Column] = {}
    marker = None
    for position, cell in enumerate(head):
        match = _COLUMN.fullmatch(cell.lstrip("#"))
        if match is None:
            continue
        name = match[1].lower()
        name = _ALIASES.get(name, name)
        if name == "marker":
            marker = position
        if name not in _UNITS:
            continue
        if name in columns:
            raise InputError(f"{label} has two columns {name!r}", _REMEDY)
        units = _UNITS[name]
        unit = (match[2] or next(iter(units))).lower().replace("µ", "u")
        if unit not in units:
            raise InputError(
                f"{label}: the unit {match[2]!r} of the column {name!r} is not known",
                f"write one of {', '.join(filter(None, units))}",
            )
        columns[name] = _Column(position, units[unit])
    if marker is not None:
        columns.pop("trigger", None)
    wanted = [name for name in _UNITS if name != "trigger" or marker is None]
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise InputError(f"{label} has no column {missing[0]!r}", _REMEDY)
    return columns, marker


def _number(cell: str, name: str, label: str, line: int) -> float:
    try:
        # Python reads underscores between digits, which no instrument writes.
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{label}, line {line}: {name} is {cell!r:.40}, not a number", _REMEDY)
    return value


def _mark(cell: str, label: str, line: int) -> str:
    mark = cell.strip().lower()
    if mark not in ("", "start", "stop"):
        raise InputError(
            f"{label}, line {line}: the marker {cell!r:.40} is not known", "write start or stop"
        )
    return mark


def _marked(marks: Sequence[str]) -> Bools:
    """Return the trigger: high from a line with ``start`` to before one with ``stop``."""
    trigger = np.zeros(len(marks), dtype=np.bool_)
    high = False
    for position, mark in enumerate(marks):
        high = mark == "start" or (high and mark != "stop")
        trigger[position] = high
    return trigger
