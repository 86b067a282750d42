"""The bench: a file that names the boards at one machine, and how each is reached.

``hil-bench.toml``, found in the working folder or above it, by ``--bench`` or ``HIL_BENCH``::

    [boards.kws-1]
    board = "nucleo-l476rg"                 # a description's name, or its path from this file
    probe = "066BFF343633464257254156"      # unique id, or a part of it
    port = "usb:066BFF343633464257254156"   # by a name that lasts
    runner = "openocd"                      # what starts it; by default the board's flasher
    tags = { site = "a" }

    [boards.kws-1.line]                     # as a board file's, and baud
    [boards.kws-1.power]                    # a driver, as in config.toml; no commands
    driver = "uhubctl"
    location = "1-1"
    port = 2

``NAME@bench`` is the board of that name, ``KEY=VALUE,...@bench`` one that has these properties.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hil.board.config import toml_text
from hil.board.line import LineSettings, read_line
from hil.errors import BoardError, InputError
from hilc.support.inputs import check_regular
from hilc.support.suggest import nearest
from hilc.support.tables import Table
from hilc.support.toml import parse_toml

FILE: Final = "hil-bench.toml"
SUFFIX: Final = "@bench"
_VARIABLE: Final = "HIL_BENCH"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_FASTEST: Final = 100_000_000


@dataclass(frozen=True)
class Unit:
    """One board of a bench."""

    name: str
    #: The bench file.
    file: Path
    #: Name or path of the board's description.
    board: str
    probe: str | None = None
    port: str | None = None
    runner: str | None = None
    #: The keys of its line that differ from the board file's.
    line: Mapping[str, Any] = field(default_factory=dict)
    #: A table ``power`` as the user's configuration has it, with a driver; None for none.
    power: Mapping[str, Any] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> str:
        """The word by which ``--board`` chooses it."""
        return f"{self.name}{SUFFIX}"


def bench_file() -> Path | None:
    """Return the bench file: that of ``HIL_BENCH``, or the nearest above; None for none."""
    if chosen := os.environ.get(_VARIABLE):
        return Path(chosen)
    here = Path.cwd()
    found = (folder / FILE for folder in (here, *here.parents))
    return next((path for path in found if path.is_file()), None)


@contextlib.contextmanager
def chosen_file(path: str | None) -> Iterator[None]:
    """Use the bench file ``path`` in the context, in child processes too; None for no change."""
    if path is None:
        yield
        return
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = os.path.abspath(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def is_of_bench(text: str) -> bool:
    """Return whether a board option names the bench: by its suffix, or by properties where there
    is a bench file; without one, properties are tags of a lab.
    """
    if text.endswith(SUFFIX):
        return True
    if "=" not in text or text.endswith(".toml") or "/" in text or text.startswith("lab:"):
        return False
    return bench_file() is not None


def unit_named(text: str) -> Unit | None:
    """Return the unit of ``NAME@bench``; None for properties and for anything else.

    Raise :class:`~hil.errors.InputError` for an unknown name.
    """
    name = text.removesuffix(SUFFIX)
    if name == text or "=" in name:
        return None
    units = read_bench()
    if name not in units:
        raise InputError(
            f"the bench {bench_file()} has no board {name!r}{nearest(name, units)}",
            f"choose one of {', '.join(units)}" if units else "add it: hil board identify",
        )
    return units[name]


# -- the file ----------------------------------------------------------------------------------


def read_bench() -> dict[str, Unit]:
    """Return the boards of the bench by name, in the order of the file.

    Raise :class:`~hil.errors.InputError` where there is no file, and
    :class:`~hil.errors.BoardError` for one that is not valid.
    """
    path = bench_file()
    if path is None:
        raise InputError(
            f"there is no {FILE} in {Path.cwd()} or above it",
            "write one: hil board identify; or name it: --bench FILE",
        )
    check_regular(path, "name a file: --bench FILE")
    try:
        return parse_bench(path, path.read_bytes())
    except OSError as error:
        raise InputError(
            f"the bench {path} cannot be read: {error.strerror}", "name another: --bench FILE"
        ) from None


@functools.lru_cache(maxsize=8)
def parse_bench(path: Path, data: bytes) -> dict[str, Unit]:
    """Return the units of a bench file's content; raise :class:`~hil.errors.BoardError` for one
    that is wrong.
    """
    values = parse_toml(data, path, BoardError, "correct it; see docs/how-to/bench.md")
    top = Table(lambda key: f"{path}: {key}", "", values, BoardError)
    boards = top.table("boards") if "boards" in top else None
    top.known("boards")
    top.finish()
    if boards is None:
        return {}
    return {name: _unit(path, name, boards) for name in boards.keys}


def _unit(path: Path, name: str, boards: Table) -> Unit:
    if not NAME.fullmatch(name):
        raise boards.error(name, f"{name!r} is not a name", "write letters, digits and . _ -")
    table = boards.table(name)
    board = table.string("board")
    if board.endswith(".toml") or "/" in board:
        board = str(path.parent / board)
    for key in ("probe", "port", "runner", "line", "power", "tags"):
        table.known(key)
    probe, port, runner = (
        table.string(key) if key in table else None for key in ("probe", "port", "runner")
    )
    line = _line(table.table("line")) if "line" in table else {}
    power = table.table("power") if "power" in table else None
    tags = table.table("tags") if "tags" in table else None
    table.finish()
    return Unit(
        name,
        path,
        board,
        probe,
        port,
        runner,
        line,
        None if power is None else dict(power.values),
        {} if tags is None else {key: tags.string(key) for key in tags.keys},
    )


def _line(table: Table) -> dict[str, Any]:
    """Return the keys that a table ``line`` of the bench states."""
    table.known("baud")
    stated = {"baud": table.integer("baud", 1, _FASTEST)} if "baud" in table else {}
    settings: LineSettings = read_line(table, 0)
    return {**stated, **{k: getattr(settings, k) for k in table.keys if k != "baud"}}


def entry_text(unit: Unit) -> str:
    """Return the lines of a unit in a bench file."""
    lines = [f"[boards.{toml_text(unit.name) if '.' in unit.name else unit.name}]"]
    for key in ("board", "probe", "port", "runner"):
        if (value := getattr(unit, key)) is not None:
            lines.append(f"{key} = {toml_text(value)}")
    return "\n".join(lines) + "\n"
