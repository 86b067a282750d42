"""The user's configuration: ``config.toml``, checked strictly.

::

    history = "~/hil/history.db"              # where results are recorded (:mod:`hil.history`)

    [boards.nucleo-f446re]                    # for every board of this type
    probe = "0667FF"                          # a probe's unique id, or a part of it
    port = "usb:0667FF:2"                     # tried after the ports of the probe itself

    [boards.nucleo-f446re.power]              # :mod:`hil.device.power`
    driver = "uhubctl"                        # and its settings; instead of a driver:
    location = "1-1"
    port = 2
    cycle = "relay 3 cycle"                   # one command, or two:
    off = "relay 3 off"
    on = "relay 3 on"
    off_s = 1.0                               # pause between off and on
    timeout_s = 30.0                          # for each command or request
    return_s = 30.0                           # longest time until probe and port are back

    [boards."kws-1@bench".power]              # for one board of the bench

    [boards.nucleo-f446re.command]            # the flasher `command`: lists of words, no shell
    program = ["acmeflash", "--port", "{port}", "{hex}"]
    reset = ["acmeflash", "--port", "{port}", "--reset"]
    erase = ["acmeflash", "--port", "{port}", "--erase"]

    [probes.0240000034544E45]                 # written by hil, when it has been proven
    board = "nrf52840dk"                      # the type of the board that it was last used on
    port = "usb:0240000034544E45:2"           # the serial line of that board

Two boards of one type differ in the serial numbers of their probes alone: what hil finds out is
stored for the probe, and names no port by a number that the system may give to another one.

Beside the file, in ``boards/``, are descriptions of boards that are found by their names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hil.errors import InputError
from hilc.support.inputs import check_regular
from hilc.support.locks import locked_folder
from hilc.support.outputs import OutputError, cannot_write, write_file
from hilc.support.suggest import listed, nearest
from hilc.support.toml import parse_toml

#: Keys of the file, of a board's table, of its tables ``power`` and ``command``, and of a probe's
#: table, with their types.
_KEYS: Mapping[str, type] = {"history": str, "boards": dict, "probes": dict}
_BOARD_KEYS: Mapping[str, type] = {"probe": str, "port": str, "power": dict, "command": dict}
_POWER_KEYS: Mapping[str, type] = {
    "cycle": str,
    "off": str,
    "on": str,
    "driver": str,
    "location": str,
    "port": int,
    "host": str,
    "channel": int,
    "off_s": float,
    "timeout_s": float,
    "return_s": float,
}
_COMMAND_KEYS: Mapping[str, type] = {"program": list, "reset": list, "erase": list}
_PROBE_KEYS: Mapping[str, type] = {"board": str, "port": str}
_TYPE_NAMES = {
    str: "a text",
    dict: "a table",
    int: "an integer",
    float: "a number",
    list: "a list of texts",
}


def config_path() -> Path:
    """Return ``HIL_CONFIG``, or ``hil/config.toml`` in the user's configuration folder."""
    if chosen := os.environ.get("HIL_CONFIG"):
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "hil" / "config.toml"


def boards_folder() -> Path:
    """Return the folder of the user's own board descriptions."""
    return config_path().parent / "boards"


def configured(board: str) -> dict[str, str]:
    """Return the ``probe`` and ``port`` that the user configured for a type of board, if any."""
    return {k: v for k, v in read_config().get(board, {}).items() if isinstance(v, str)}


def remembered(probe: str) -> dict[str, str]:
    """Return the ``board`` and ``port`` that were stored for a probe's unique id, if any."""
    stored: dict[str, str] = _read().get("probes", {}).get(probe, {})
    return dict(stored)


def power_table(board: str) -> dict[str, Any] | None:
    """Return the configured table ``power`` of ``board``; None for none."""
    table = read_config().get(board, {}).get("power")
    return dict(table) if table is not None else None


def command_table(board: str) -> dict[str, list[str]]:
    """Return the configured table ``command`` of ``board``; empty for none."""
    return dict(read_config().get(board, {}).get("command", {}))


def configured_history() -> str | None:
    """Return the configured file of the history, if any."""
    history: str | None = _read().get("history")
    return history


def remember(probe: str, **choices: str | None) -> None:
    """Store the ``board`` and ``port`` of a probe; what others store meanwhile stays.

    Raise :class:`InputError` if the settings cannot be written.
    """
    # What no text of the file can hold, a path of other bytes than UTF-8, is not remembered.
    chosen = {key: value for key, value in choices.items() if value and _is_text(value)}
    if not chosen or not _is_text(probe) or _has(_read(), probe, chosen):
        return
    path = config_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The folder's lock: the file itself is replaced by each who writes it.
        with locked_folder(path.parent):
            _store(path, probe, chosen)
    except OSError as error:
        raise InputError(cannot_write(path, error).fact, "set HIL_CONFIG") from None


def _has(values: Mapping[str, Any], probe: str, chosen: Mapping[str, str]) -> bool:
    known = values.get("probes", {}).get(probe, {})
    return bool(known == {**known, **chosen})


def _store(path: Path, probe: str, chosen: Mapping[str, str]) -> None:
    values = _read()
    probes = values.setdefault("probes", {})
    probes[probe] = {**probes.get(probe, {}), **chosen}
    lines = ["# What hil remembers of your boards; edit or delete it as you like.\n"]
    lines += _lines({key: value for key, value in values.items() if not isinstance(value, dict)})
    for kind in ("boards", "probes"):
        for name, table in sorted(values.get(kind, {}).items()):
            lines += _table(f"{kind}.{toml_text(name)}", table)
    try:
        write_file(path, "".join(lines))
    except OutputError as error:
        raise InputError(error.fact, "set HIL_CONFIG") from None


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table, and of the tables in it."""
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    lines = [f"\n[{name}]\n", *_lines({k: v for k, v in values.items() if k not in tables})]
    for key, table in sorted(tables.items()):
        lines += _table(f"{name}.{key}", table)
    return lines


def _is_text(value: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in value)


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {toml_text(value)}\n" for key, value in sorted(values.items())]


def toml_text(value: str | float | list[str]) -> str:
    """Return a text, a number or a list of texts as TOML has it, which is not always JSON's form:
    TOML knows ``inf`` and ``nan``, no halves of characters beyond 16 bits, and no DEL in a text.
    """
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def read_config() -> dict[str, dict[str, Any]]:
    """Return each board's values; InputError names the file and the invalid key."""
    boards: dict[str, dict[str, Any]] = _read().get("boards", {})
    return boards


def _read() -> dict[str, Any]:
    """Return the checked content of the file; nothing where there is none."""
    path = config_path()
    check_regular(path, "set HIL_CONFIG to a file")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        fact = f"{path} cannot be read: {error.strerror}"
        raise InputError(fact, "correct or delete it") from None
    values = parse_toml(data, path, InputError, "correct or delete it")
    _check(path, "", values, _KEYS)
    for name, board in values.get("boards", {}).items():
        label = f"boards.{name}"
        _check(path, "boards", {name: board}, {name: dict})
        _check(path, label, board, _BOARD_KEYS)
        _check(path, f"{label}.power", board.get("power", {}), _POWER_KEYS)
        _check(path, f"{label}.command", board.get("command", {}), _COMMAND_KEYS)
    for name, probe in values.get("probes", {}).items():
        _check(path, "probes", {name: probe}, {name: dict})
        _check(path, f"probes.{name}", probe, _PROBE_KEYS)
    return values


def check_power(path: Path, label: str, table: Mapping[str, Any]) -> None:
    """Raise InputError for a key of a table ``power`` that is unknown or has the wrong type."""
    _check(path, label, table, _POWER_KEYS)


def _check(path: Path, label: str, values: Mapping[str, Any], keys: Mapping[str, type]) -> None:
    """Raise for the first key of the table ``label`` that is unknown or has the wrong type."""
    prefix = f"{label}." if label else ""
    for key, value in values.items():
        if key not in keys:
            raise InputError(
                f"{path}: {prefix}{key}: unknown key{nearest(key, keys)}",
                f"accepted keys: {listed(keys, 'and')}"
                if len(keys) > 1
                else f"write [{next(iter(keys))}.NAME]",
            )
        # bool is an int in Python, but not in TOML.
        kinds = (int, float) if keys[key] is float else (keys[key],)
        is_other = isinstance(value, list) and not all(isinstance(word, str) for word in value)
        if not isinstance(value, kinds) or isinstance(value, bool) or is_other:
            raise InputError(
                f"{path}: {prefix}{key}: {value!r} is not {_TYPE_NAMES[keys[key]]}",
                "correct it, or leave it out",
            )
