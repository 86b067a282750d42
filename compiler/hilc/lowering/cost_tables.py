"""Tables of what kernels cost: ``CORE.toml``, one a core.

A line of a table states the instructions that each term of a kernel's cost takes on that core
(:mod:`hilc.lowering.cost`), and how far estimates with these figures are off counts on an emulated
board::

    hil_dsp_add_s8 = {call = 21.5, word = 17.4, error = {layers = 33, median = 0.01, worst = -0.05}}

``factor`` in the place of terms is a multiple of the figures for :data:`BASE_CORE`. ``shared`` has
the figures of code that layers share, or a ``factor`` of the line's own::

    hil_compact_matmul_s8 = {output = 30, mac = 5.8, shared = {factor = 1.2}}

The tables of
the run time's kernels are in ``hilc/target/costs``; ``tools/costs.py`` fits their figures and
measures their errors. Those of your own kernels are in the folder ``costs`` of the folder that you
register.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hilc.target
from hilc.errors import InputError
from hilc.support.toml import tomllib
from hilc.target import find_cpu

#: The core whose figures others are multiples of, and which holds for cores without a table.
BASE_CORE = "cortex-m3"
FOLDER = Path(hilc.target.__file__).parent / "costs"
_ERROR = "error"
_SHARED = "shared"
_ERROR_KEYS = {"layers", "median", "worst"}


@dataclass(frozen=True)
class CostError:
    """Error of the estimated instructions of a kernel on a core.

    ``layers`` were counted. The others are parts of the count: ``median`` of the absolute errors,
    ``worst`` of the layer whose estimate is off most, positive where it is too high.
    """

    layers: int
    median: float
    worst: float


@dataclass(frozen=True)
class TableRow:
    """A kernel's line in the table of a core: instructions of each term, or a ``factor``; the
    error of the estimates, None where no layer was counted; and the figures of code that layers
    share, empty where these take the same.
    """

    figures: Mapping[str, float]
    error: CostError | None = None
    shared: Mapping[str, float] = field(default_factory=dict)


def cores_in_order(names: list[str]) -> list[str]:
    """Return names of cores by the order in which their figures are preferred."""
    return sorted(names, key=lambda name: (name != BASE_CORE, name))


@functools.cache
def shipped_costs() -> Mapping[str, Mapping[str, TableRow]]:
    """Return the tables of the run time's kernels: rows by kernel and by core.

    Raise :class:`~hilc.errors.InputError` for an invalid table.
    """
    try:
        return read_costs(FOLDER)
    except ValueError as error:
        raise InputError(
            f"the costs of the run time's kernels, hilc/target/costs: {error}",
            "correct the line as hilc.lowering.cost_tables describes it, or write it anew with "
            "`python tools/measure.py costs fit`",
        ) from None


def shipped_figures(name: str) -> Mapping[str, Mapping[str, float]]:
    """Return the instructions of each term of what ``name`` costs, by core.

    Raise :class:`~hilc.errors.InputError` if no table has it.
    """
    rows = shipped_costs().get(name)
    if not rows:
        raise InputError(
            f"{name} has a cost in no table hilc/target/costs/CORE.toml",
            f"add a line `{name} = {{...}}` with its terms to the table of one core at least",
        )
    return {core: row.figures for core, row in rows.items()}


def read_costs(folder: Path) -> Mapping[str, Mapping[str, TableRow]]:
    """Return the rows of the tables in ``folder`` by kernel and by core; none if there is no such
    folder.

    ValueError if a file has the name of no core, or a line is not of the form above.

    Raise ValueError for an unknown core or an invalid table.
    """
    found: dict[str, dict[str, TableRow]] = {}
    for core in cores_in_order([path.stem for path in folder.glob("*.toml")]):
        if find_cpu(core) is None:
            raise ValueError(f"{core}.toml has the name of no core")
        try:
            table = tomllib.loads((folder / f"{core}.toml").read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{core}.toml: {error}") from None
        for kernel, stated in table.items():
            found.setdefault(kernel, {})[core] = _row(f"{kernel} in {core}.toml", stated)
    return found


def _row(where: str, stated: Any) -> TableRow:
    if not isinstance(stated, dict):
        raise ValueError(f"{where} is not a table of figures")
    error, shared = stated.pop(_ERROR, None), stated.pop(_SHARED, {})
    if not isinstance(shared, dict):
        raise ValueError(f"{where}: {_SHARED} is not a table of figures")
    numbers = (*stated.items(), *shared.items())
    if wrong := [name for name, each in numbers if type(each) not in (int, float)]:
        raise ValueError(f"{where}: {', '.join(wrong)} must be numbers")
    if error is None:
        return TableRow(stated, shared=shared)
    if not isinstance(error, dict) or error.keys() != _ERROR_KEYS:
        raise ValueError(f"{where}: an error has layers, median and worst")
    return TableRow(stated, CostError(**error), shared)


def write_costs(folder: Path, rows: Mapping[str, Mapping[str, TableRow]]) -> None:
    """Write tables of ``rows`` (by kernel and by core) into ``folder``, one a core."""
    for core in cores_in_order(list({core for own in rows.values() for core in own})):
        lines = [_line(kernel, own[core]) for kernel, own in sorted(rows.items()) if core in own]
        head = f"# Instructions of kernels on {core}, as hilc.lowering.cost_tables describes.\n"
        (folder / f"{core}.toml").write_text(head + "".join(lines), encoding="utf-8")


def _line(kernel: str, row: TableRow) -> str:
    stated = _pairs(row.figures)
    if row.shared:
        stated += f", {_SHARED} = {{{_pairs(row.shared)}}}"
    if row.error is not None:
        stated += f", {_ERROR} = {{{_pairs(vars(row.error))}}}"
    return f"{kernel} = {{{stated}}}\n"


def _pairs(table: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {each!r}" for name, each in table.items())
