"""The history: what is kept, by several writers at once, and what becomes of a bad file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import answers
import pytest
from processes import file_size_limit

from hil.cli import main
from hil.errors import InputError
from hil.history import History, history_path, store


def result(model: str = "kws", board: str = "mps2-an386", **more: Any) -> dict[str, Any]:
    return {"model": model, "board": board, "counter": "instructions", **more}


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "results" / "history.db")


def test_what_is_recorded_is_read(history: History) -> None:
    start = datetime.now(timezone.utc)
    made = {"commit": "ab" * 20, "dirty": True, "model": {"sha256": "cd" * 32}}
    given = result(per_inference=7, layers=[{"name": "ü\x00", "count": 7}], provenance=made)
    number = history.record("bench", given)
    entry = history.entry(number)
    # An entry without a goal is of version 0.1.
    assert entry.result == {**given, "goal": None}
    assert (entry.kind, entry.model, entry.board) == ("bench", "kws", "mps2-an386")
    assert (entry.commit, entry.is_dirty) == ("ab" * 20, True)
    assert start <= entry.time <= datetime.now(timezone.utc)
    # Outside of a repository.
    assert history.entry(history.record("verify", result())).commit is None


def test_entries_are_chosen(history: History) -> None:
    for index in range(6):
        provenance = {"commit": f"{index:x}" * 40}
        history.record(
            "bench" if index % 2 else "verify",
            result("kws" if index < 4 else "ad", provenance=provenance, index=index),
        )

    def found(**chosen: Any) -> list[int]:
        return [entry.result["index"] for entry in history.entries(**chosen)]

    assert found() == [0, 1, 2, 3, 4, 5]
    assert found(last=2) == [4, 5]
    assert found(model="kws", last=2) == [2, 3]
    assert found(kind="bench", model="kws") == [1, 3]
    assert found(commit="33") == [3]
    assert found(board="microbit") == []
    # An id is never given again.
    with closing(sqlite3.connect(history.path)) as database:
        database.execute("DELETE FROM entry")
        database.commit()
    assert history.record("bench", result()) == 7
    with pytest.raises(InputError, match="has no entry 6"):
        history.entry(6)
    # No argument that is no UTF-8 names an entry.
    assert history.entries(model="\udcff") == history.entries(commit="\udcff") == []


_WRITER = """
import sys
from hil.history import History
history = History(sys.argv[1])
for index in range(int(sys.argv[3])):
    history.record("bench", {"model": "m", "board": "b", "writer": sys.argv[2], "index": index,
                             "padding": "x" * 20000})
"""


@pytest.mark.full
def test_several_processes_write_at_once(history: History) -> None:
    """They also create the file at once; not an entry is lost, and a reader sees whole ones."""
    writers, each = 4, 15
    processes = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(history.path), str(w), str(each)])
        for w in range(writers)
    ]
    seen = 0
    while any(process.poll() is None for process in processes):
        if history.path.exists() and history.path.stat().st_size:
            now = len(history.entries())
            assert now >= seen
            seen = now
    assert [process.wait() for process in processes] == [0] * writers
    entries = history.entries()
    assert len({entry.id for entry in entries}) == writers * each
    for writer in range(writers):
        own = [e.result["index"] for e in entries if e.result["writer"] == str(writer)]
        assert own == list(range(each))
    with closing(sqlite3.connect(history.path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_reader_of_a_file_being_created(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owner and tables were read one after the other: the file looked like a foreign one."""
    history.path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(history.path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA user_version = 0")
    read_version = store._version

    def version_while_another_process_creates(database: sqlite3.Connection) -> int:
        monkeypatch.setattr(store, "_version", read_version)
        History(history.path).record("bench", result())
        return read_version(database)

    monkeypatch.setattr(store, "_version", version_while_another_process_creates)
    assert len(history.entries()) == 1


def test_a_writer_that_is_killed_leaves_whole_entries(history: History) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(history.path), "0", "100000"],
    )
    while not history.path.exists() or len(history.entries()) < 5:
        assert process.poll() is None
    process.kill()
    process.wait()
    indices = [entry.result["index"] for entry in history.entries()]
    assert indices == list(range(len(indices)))
    assert history.record("bench", result()) == len(indices) + 1


def test_a_writer_waits_for_another_but_not_for_ever(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record("bench", result())
    with closing(sqlite3.connect(history.path, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, other.rollback).start()
        assert history.record("bench", result()) == 2
        monkeypatch.setattr(store, "BUSY_LIMIT_S", 0.1)
        other.execute("BEGIN IMMEDIATE")
        # A reader does not wait for a writer.
        assert len(history.entries()) == 2
        with pytest.raises(InputError, match="has been in use for 0.1 s"):
            history.record("bench", result())
        other.rollback()


def test_an_older_file_is_brought_up_to_date(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record("bench", result(index=0))
    newer = (*store.MIGRATIONS, ("ALTER TABLE entry ADD COLUMN remark TEXT",))
    with monkeypatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", newer)
        history.record("bench", result(index=1))
        assert [e.result["index"] for e in History(history.path).entries()] == [0, 1]
        with closing(sqlite3.connect(history.path)) as database:
            assert database.execute("PRAGMA user_version").fetchone() == (len(newer),)
            assert database.execute("SELECT remark FROM entry").fetchall() == [(None,), (None,)]
    for use in (history.entries, lambda: history.record("bench", result())):
        with pytest.raises(InputError, match="has version 2; this hil knows up to 1"):
            use()


def test_a_failed_migration_leaves_the_file_as_it_was(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record("bench", result())
    bad = ("CREATE TABLE half (a)", "CREATE TABLE entry (twice)")
    with monkeypatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", (*store.MIGRATIONS, bad))
        with pytest.raises(InputError, match="already exists"):
            history.record("bench", result())
    assert history.record("bench", result()) == 2


def test_a_full_disk(history: History) -> None:
    history.record("bench", result())
    with (
        file_size_limit(40_000),
        pytest.raises(InputError, match="cannot be written: disk I/O error"),
    ):
        history.record("bench", result(padding="x" * 100_000))
    assert len(history.entries()) == 1
    assert history.record("bench", result(padding="x" * 100_000)) == 2


def test_a_disk_that_is_full_from_the_start(history: History) -> None:
    with file_size_limit(1000), pytest.raises(InputError, match="cannot be written"):
        history.check_writable()


def _others(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE mine (a)")
        database.commit()


def _torn(path: Path) -> None:
    History(path).record("bench", result(padding="x" * 100_000))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def _bad_row(path: Path) -> None:
    History(path).record("bench", result())
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE entry SET result = '[1'")
        database.commit()


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda p: p.write_text("not a database, but longer than its head" * 9), "not a data"),
    "another program's": (_others, "is a database of another program"),
    "torn": (_torn, "is not a history, or is damaged"),
    "a bad row": (_bad_row, "its entry 1 cannot be read"),
    "a folder": (lambda p: p.mkdir(), "unable to open"),
    "a pipe": (os.mkfifo, "is not a regular file"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_history(case: str, tmp_path: Path) -> None:
    make, message = BAD[case]
    path = tmp_path / "h.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(InputError, match=message) as caught:
        History(path).entries()
    assert str(path) in caught.value.fact
    assert caught.value.hint
    # What is not a history is not changed either.
    if case in ("text", "another program's"):
        with pytest.raises(InputError):
            History(path).record("bench", result())
        assert path.read_bytes() == before


def test_an_empty_file_becomes_one(tmp_path: Path) -> None:
    (tmp_path / "h.db").touch()
    assert History(tmp_path / "h.db").entries() == []
    assert History(tmp_path / "h.db").record("bench", result()) == 1


def test_a_place_where_nothing_can_be_written() -> None:
    with pytest.raises(InputError, match="cannot"):
        History("/proc/history.db").check_writable()
    with pytest.raises(InputError, match="there is no history"):
        History("/proc/history.db").entries()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_a_read_only_folder_can_be_read(history: History) -> None:
    """A mount that is read-only, since a folder's mode does not stop everybody."""
    history.record("bench", result(index=5))
    folder = history.path.parent
    code = (
        "import sys; from hil.history import History; from hil.errors import InputError\n"
        "h = History(sys.argv[1]); print(h.entries()[0].result['index'])\n"
        "try: h.record('bench', {'model': 'm', 'board': 'b'})\n"
        "except InputError as error: print(error.fact)\n"
    )
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3" "$1/$4"'
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    done = subprocess.run(
        [*words, str(folder), sys.executable, code, history.path.name],
        capture_output=True,
        text=True,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no own mounts here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    index, error = done.stdout.splitlines()
    assert index == "5"
    assert "cannot be written" in error


def test_where_the_history_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.toml"
    monkeypatch.setenv("HIL_CONFIG", str(config))
    monkeypatch.delenv("HIL_HISTORY", raising=False)
    assert history_path() is None
    config.write_text('history = "~/own.db"\n[boards.microbit]\nprobe = "12"\n')
    assert history_path() == Path.home() / "own.db"
    monkeypatch.setenv("HIL_HISTORY", "env.db")
    assert history_path() == Path("env.db")
    assert history_path("given.db") == Path("given.db")
    config.write_text("history = 5\n")
    monkeypatch.delenv("HIL_HISTORY")
    with pytest.raises(InputError, match="history: 5 is not a text"):
        history_path()


def test_what_is_remembered_keeps_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hil.board.config import configured_history, remember, remembered

    config = tmp_path / "config.toml"
    monkeypatch.setenv("HIL_CONFIG", str(config))
    config.write_text('history = "own.db"\n')
    remember("12", board="microbit")
    assert configured_history() == "own.db"
    assert remembered("12") == {"board": "microbit"}


def test_the_command(
    history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HIL_HISTORY", raising=False)
    monkeypatch.setenv("HIL_CONFIG", str(history.path.with_name("none.toml")))
    assert main(["history"]) == 2
    assert "no history is chosen" in capsys.readouterr().err
    assert main(["history", "--history", str(history.path)]) == 2
    assert "there is no history" in capsys.readouterr().err
    made = {"commit": "ab" * 20, "dirty": True}
    ran: dict[str, Any] = {"provenance": made}
    right, wrong = {"match": True}, {"match": False}
    history.record("bench", result(per_inference=1000, goal="ram", **ran, checked=right))
    history.record("bench", result(per_inference=1030, goal="ram", **ran, checked=wrong))
    history.record("verify", result(match=False, reference="tflm", samples=3))
    history.record("verify", result(match=True, reference="hilc", samples=3, independent=False))
    history.record("bench", result(per_inference=1030, goal="ram", **ran))
    monkeypatch.setenv("HIL_HISTORY", str(history.path))
    assert main(["history"]) == 0
    first, second, third, own, unchecked = capsys.readouterr().out.splitlines()[1:]
    assert first.endswith("mps2-an386  ram   1,000 instructions")
    assert "ababababab+" in first
    assert second.endswith("1,030 instructions (+3.00 %), outputs DIFFER")
    assert third.endswith("DIFFER with tflm, 3 samples")
    assert own.endswith("match with hilc (not independent), 3 samples")
    assert unchecked.endswith("1,030 instructions (unchanged), outputs not compared")
    assert main(["history", "--json", "--kind", "bench", "--last", "1", "--model", "kws"]) == 0
    entry = answers.entry(capsys.readouterr().out)
    assert (entry["id"], entry["dirty"], entry["result"]["per_inference"]) == (5, True, 1030)
    assert main(["history", "--board", "microbit"]) == 0
    assert capsys.readouterr().out == "no entries\n"
