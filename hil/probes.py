"""Which debug probe and which serial port belong to a board.

A probe says which board it sits on (its pyOCD board id or the board's name), and a serial port of
the same USB device has the probe's serial number. What the user chose once is remembered in
``config.toml``; where nothing decides, the candidates are listed and the user chooses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serial.tools.list_ports import comports

from hil.errors import InputError, ProbeError
from hilc._toml import tomllib

if TYPE_CHECKING:
    from hil.board import Board


@dataclass(frozen=True)
class ProbeInfo:
    """A probe that is plugged in."""

    uid: str
    description: str
    #: Name and pyOCD target of the board that it sits on, where it says so.
    board: str
    target: str

    @property
    def line(self) -> str:
        """For a list of candidates."""
        on = f", on {self.board}" if self.board else ""
        return f"{self.uid} ({self.description}{on})"


def connected_probes() -> list[ProbeInfo]:
    """The probes that pyOCD finds, virtual ones included."""
    from pyocd.core.exceptions import Error
    from pyocd.core.helpers import ConnectHelper

    try:
        probes = ConnectHelper.get_all_connected_probes(blocking=False)
    except Error as error:
        raise ProbeError(f"pyOCD cannot list the probes: {error}", "see `hil doctor`") from None
    return [_describe(probe) for probe in probes]


def _describe(probe: Any) -> ProbeInfo:
    info = probe.associated_board_info
    return ProbeInfo(
        uid=probe.unique_id,
        description=probe.description,
        board=info.name if info else "",
        target=(info.target or "") if info else "",
    )


def choose_probe(board: Board, asked: str | None, probes: Sequence[ProbeInfo]) -> ProbeInfo:
    """The probe for ``board``: the one ``asked`` for (part of a uid), remembered, or the only fit.

    Raises :class:`ProbeError` where there is none, with all candidates where there are several.
    """
    wanted = asked or remembered(board.name).get("probe")
    if wanted:
        fits = [probe for probe in probes if wanted.lower() in probe.uid.lower()]
        exact = [probe for probe in fits if probe.uid.lower() == wanted.lower()]
        return _only(exact or fits, f"the probe {wanted!r}", probes)
    # The board's name comes first: several may have the same chip or only a generic target, and a
    # probe may call the chip as a pack does where pyOCD has a target of its own.
    target = board.pyocd.target if board.pyocd else ""
    fits = [probe for probe in probes if probe.board.lower() == board.name] or [
        probe for probe in probes if target and probe.target.lower() == target.lower()
    ]
    # A probe on its own says nothing of the board; the only one is taken.
    silent = [probe for probe in probes if not probe.target]
    return _only(fits or silent, f"a probe for {board.name}", probes)


def _only(fits: Sequence[ProbeInfo], what: str, probes: Sequence[ProbeInfo]) -> ProbeInfo:
    if len(fits) == 1:
        return fits[0]
    listed = "\n".join(f"  {probe.line}" for probe in (fits or probes)) or "  none"
    if fits:
        raise ProbeError(
            f"{what} could be any of {len(fits)} that are connected:\n{listed}",
            "choose with --probe UID; a choice is remembered for the board",
        )
    raise ProbeError(
        f"{what} is not connected; the probes here:\n{listed}",
        "plug it in" + (", or choose one of these with --probe UID" if probes else ""),
    )


def choose_port(board: Board, probe: ProbeInfo, asked: str | None) -> str:
    """The serial port of a board: the one ``asked`` for, remembered, or the probe's own."""
    port = asked or remembered(board.name).get("port")
    if port:
        return port
    ports = list(comports())
    own = [p.device for p in ports if p.serial_number and _same(p.serial_number, probe.uid)]
    if len(own) == 1:
        return str(own[0])
    candidates = own or [p.device for p in ports if p.vid is not None]
    listed = "\n".join(f"  {device}" for device in candidates) or "  none"
    problem = "has several serial ports" if own else "has no serial port of its own"
    raise ProbeError(
        f"the probe {probe.uid} of {board.name} {problem}; the ports here:\n{listed}",
        "choose with --port URL; a choice is remembered for the board",
    )


def _same(serial_number: str, uid: str) -> bool:
    a, b = serial_number.strip().lower(), uid.strip().lower()
    return a == b or (len(a) >= 8 and (a in b or b in a))


# -- what the user chose ------------------------------------------------------------------------


def config_path() -> Path:
    """``HIL_CONFIG``, or ``hil/config.toml`` in the user's configuration folder."""
    if chosen := os.environ.get("HIL_CONFIG"):
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "hil" / "config.toml"


def remembered(board: str) -> dict[str, str]:
    """``probe`` and ``port`` that the user chose for ``board``, where they did."""
    return {k: v for k, v in _read_config().get(board, {}).items() if isinstance(v, str)}


def power_table(board: str) -> dict[str, Any] | None:
    """The table of :mod:`hil.power` that the user wrote for ``board``, unchecked."""
    table = _read_config().get(board, {}).get("power")
    return dict(table) if table is not None else None


def remember(board: str, **choices: str | None) -> None:
    """Keeps the ``choices`` that are given for the next time."""
    chosen = {key: value for key, value in choices.items() if value}
    boards = _read_config()
    if not chosen or boards.get(board, {}) == {**boards.get(board, {}), **chosen}:
        return
    boards[board] = {**boards.get(board, {}), **chosen}
    lines = ["# What hil remembers of your boards; edit or delete it as you like.\n"]
    for name, values in sorted(boards.items()):
        tables = {key: value for key, value in values.items() if isinstance(value, dict)}
        lines.append(f"\n[boards.{json.dumps(name)}]\n")
        lines += _lines({key: value for key, value in values.items() if key not in tables})
        for key, table in sorted(tables.items()):
            lines += [f"\n[boards.{json.dumps(name)}.{key}]\n", *_lines(table)]
    path = config_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text("".join(lines), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", "set HIL_CONFIG") from None


def _lines(values: Mapping[str, Any]) -> list[str]:
    # Text and numbers look in TOML as in JSON.
    return [f"{key} = {json.dumps(value)}\n" for key, value in sorted(values.items())]


def _read_config() -> dict[str, dict[str, Any]]:
    """Each board's values: texts, and the table ``power`` of texts and numbers."""
    path = config_path()
    if not path.is_file():
        return {}
    try:
        boards = tomllib.loads(path.read_text(encoding="utf-8")).get("boards", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}", "mend or delete it") from None
    is_table = isinstance(boards, dict) and all(
        isinstance(values, dict) and all(_is_known(key, value) for key, value in values.items())
        for values in boards.values()
    )
    if not is_table:
        raise InputError(
            f"{path}: boards must be tables of strings, with a table power at most",
            "mend or delete it",
        )
    return {str(name): dict(values) for name, values in boards.items()}


def _is_known(key: str, value: object) -> bool:
    if key == "power":
        return isinstance(value, dict) and all(
            isinstance(part, str | int | float) for part in value.values()
        )
    return isinstance(value, str)
