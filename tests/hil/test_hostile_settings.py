"""Hostile files of the harness: a sample of the campaign ``files``, and what it has found."""

from __future__ import annotations

import base64
import json
import sqlite3
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import hostile_settings
import pytest
from guarded import Verdict, guard, verdict
from hostile_files import Format
from hostile_settings import SETTINGS

from hil.board.config import read_config, remember, remembered
from hil.errors import InputError
from hil.history.store import History
from hil.support.cache import with_checksum


def judged(chosen: Format, data: bytes, folder: Path) -> Verdict:
    """What becomes of a file that is read, and used where it is accepted."""
    seen = verdict(lambda: chosen.use(chosen.read(data, folder), folder))
    assert not seen.breach, seen.detail
    return seen


@pytest.mark.parametrize("name", SETTINGS)
def test_changed_files_are_read_or_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = SETTINGS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    originals = chosen.originals()
    chosen.use(chosen.read(originals[0], tmp_path), tmp_path)
    accepted = 0
    with guard(tmp_path):
        for number in range(60):
            dice = Random(f"{name} {number}")
            data = chosen.change(dice, dice.choice(originals))
            accepted += judged(chosen, data, tmp_path).is_accepted
    assert accepted


@pytest.mark.parametrize(
    "value", ["/dev/\U0001f600", "a\x7fb", 'tab\tquote"back\\slash', "\u00e9\u2028"]
)
def test_a_remembered_port_can_be_read_again(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON's form of these texts is none in TOML: the next command could not read the file."""
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text('[boards.a.power]\ncycle = "c"\noff_s = inf\n')
    remember(value, port=value)
    assert read_config() == {"a": {"power": {"cycle": "c", "off_s": float("inf")}}}
    assert remembered(value) == {"port": value}


def test_a_port_that_is_no_text_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    remember("b", port="/dev/\udcff", board="p")
    remember("\udcff", board="p")
    assert remembered("b") == {"board": "p"}
    assert remembered("\udcff") == {}


def test_choices_that_are_stored_at_once_all_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "new" / "config.toml"))
    probes = {f"b{number}": {"port": f"usb:b{number}:2"} for number in range(40)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda probe: remember(probe, **probes[probe]), probes))
    assert {probe: remembered(probe) for probe in probes} == probes


def test_choices_where_nothing_can_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_CONFIG", "/proc/no/config.toml")
    with pytest.raises(InputError, match=r"cannot write /proc/no/config\.toml: ") as caught:
        remember("b", port="p")
    assert caught.value.hint == "set HIL_CONFIG"


def _history(path: Path, *statements: str) -> History:
    history = History(path)
    history.record("bench", {"model": "m", "board": "b"})
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return history


VIEW = (
    "CREATE VIEW entry AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
    "i AS id, '' AS time, '' AS kind, '' AS model, '' AS board, '' AS commit_id, 0 AS dirty, "
    "'' AS model_sha256, '{}' AS result FROM n"
)


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE entry", VIEW),
        ("CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM entry; END",),
        ("ALTER TABLE entry ADD COLUMN x AS (zeroblob(id))",),
    ],
    ids=["a view without an end", "a trigger", "a computed column"],
)
def test_a_history_that_computes_is_refused(statements: tuple[str, ...], tmp_path: Path) -> None:
    """Reading the view never ended."""
    history = _history(tmp_path / "h.db", *statements)
    for use in (history.entries, history.check_writable):
        with pytest.raises(InputError, match="views, triggers or computed columns"):
            use()


@pytest.mark.parametrize("column", ["model", "board", "kind", "commit_id"])
def test_an_entry_of_bytes_is_refused(column: str, tmp_path: Path) -> None:
    history = _history(tmp_path / "h.db", f"UPDATE entry SET {column} = x'fffe'")
    with pytest.raises(InputError, match="its entry 1 cannot be read"):
        history.entries()


def test_a_schema_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (data,) = hostile_settings._histories()
    assert b"indexentry_of" in data
    (tmp_path / "h.db").write_bytes(
        data.replace(b"indexentry_of", b"index\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8")
    )
    with pytest.raises(InputError, match="is not a history, or is damaged"):
        History(tmp_path / "h.db").entries()


def _entry(change: Callable[[dict[str, Any]], object]) -> bytes:
    (good,) = hostile_settings._journals()
    first, second, *_ = good.splitlines(keepends=True)
    entry = json.loads(second.partition(b" ")[2])
    change(entry)
    text = json.dumps(entry).encode()
    return first + b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.pop("sample"), "has no result of a sample"),
        (lambda e: e.update(sample="0"), "has no result of a sample"),
        (lambda e: e.update(device=None), "has no result of a sample"),
        (lambda e: e.update(sample=7), "the data set has 3"),
        (lambda e: e.update(sample=-1), "the data set has 3"),
        (lambda e: e.update(device=base64.b64encode(b"x").decode()), "is not the 4 bytes of 'x'"),
        (lambda e: e.update(device="?"), "is not the 4 bytes of 'x'"),
    ],
)
def test_a_journal_of_something_else_is_refused(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    """Its lines have right checksums, and what they say ended in foreign exceptions."""
    with pytest.raises(InputError, match=message):
        SETTINGS["journal"].read(_entry(change), tmp_path)


def test_a_cached_result_of_another_form_is_none(tmp_path: Path) -> None:
    for data in (b"{}", *hostile_settings._cached()):
        value = json.loads(data)
        for key in [*value]:
            less = {k: v for k, v in value.items() if k not in (key, "seal")}
            SETTINGS["cache"].read(with_checksum(less).encode(), tmp_path)


def test_a_label_beyond_all_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1: .* is not FILE,CLASSES,CLASS"):
        SETTINGS["index"].read(b"b.bin,2,99999999999999999999\n", tmp_path)
