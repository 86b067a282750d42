"""The file of a history: results of commands with time, commit, board and what produced them.

It is a SQLite database in WAL mode: several processes may write at the same time, each entry in one
transaction, and readers see whole entries only. ``PRAGMA user_version`` is the version of its
schema; an older file is brought up to date when it is opened, a newer one is refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from hil.board.config import configured_history
from hil.errors import InputError
from hil.results.history import HistoryEntry
from hil.results.v0 import upgraded_entry
from hilc.support.inputs import check_regular
from hilc.support.jsondata import has_surrogate
from hilc.support.limits import descriptor_limit, file_size_limit, umask_limit

_T = TypeVar("_T")

#: The commands whose results are kept.
Kind = Literal["verify", "bench", "evaluate"]

#: ``PRAGMA application_id``: tells a history from databases of other programs ("hilh").
APPLICATION_ID = 0x68696C68
#: Statements that bring a file from the version of its position to the next one. Never edit one
#: that was released: files of users were made by it. Append instead.
MIGRATIONS: Sequence[Sequence[str]] = (
    (
        # AUTOINCREMENT: an id that was printed is never given to another entry.
        """
        CREATE TABLE entry (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            time TEXT NOT NULL,
            kind TEXT NOT NULL,
            model TEXT NOT NULL,
            board TEXT NOT NULL,
            commit_id TEXT,
            dirty INTEGER,
            model_sha256 TEXT,
            result TEXT NOT NULL
        )
        """,
        "CREATE INDEX entry_of ON entry (model, board, kind, id)",
    ),
)
#: Time to wait for other writers; each holds the file for milliseconds.
BUSY_LIMIT_S = 30.0
_RETRY_S = 0.02
#: Descriptors that SQLite needs: the file, its log, and the memory that its users share.
_DESCRIPTORS = 3
#: How many columns of the table are computed: ``hidden`` is 0 for stored ones.
_GENERATED = "SELECT count(*) FROM pragma_table_xinfo('entry') WHERE hidden != 0"
_COLUMNS = "id, time, kind, model, board, commit_id, dirty, result"


@dataclass(frozen=True)
class Entry:
    """One result of a history."""

    #: Never used again, also after entries are deleted.
    id: int
    #: UTC.
    time: datetime
    kind: Kind
    model: str
    board: str
    #: The commit that was checked out in the working directory; None outside of a repository.
    commit: str | None
    #: Whether files differed from that commit; None outside of a repository.
    is_dirty: bool | None
    #: JSON of the command's entry, as this version writes it.
    result: Mapping[str, Any]

    def entry(self) -> HistoryEntry:
        """Return the entry of ``hil history``."""
        return HistoryEntry(
            id=self.id,
            time=self.time.isoformat(timespec="milliseconds"),
            kind=self.kind,
            model=self.model,
            board=self.board,
            commit=self.commit,
            dirty=self.is_dirty,
            result=dict(self.result),
        )

    @property
    def goal(self) -> str | None:
        """Goal of the compiler; None for older entries that do not record it."""
        goal = self.result.get("goal")
        return goal if isinstance(goal, str) else None


def history_path(given: str | Path | None = None) -> Path | None:
    """Return the file of the history: ``given``, ``HIL_HISTORY``, or the one in ``config.toml``.

    None where none of them names one: nothing is recorded then.
    """
    chosen = given or os.environ.get("HIL_HISTORY") or configured_history()
    return Path(chosen).expanduser() if chosen else None


class History:
    """A history in a file; each method opens the file for as long as it needs it.

    Every failure of the file is an :class:`~hil.errors.InputError` that names it: it is not a
    history, is damaged or of a newer version, cannot be written, or is in use for too long.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def check_writable(self) -> None:
        """Create the file if it does not exist; raise if entries could not be added to it."""
        with self._writing() as database:
            database.execute("UPDATE entry SET id = id WHERE id = -1")

    def record(self, kind: Kind, result: Mapping[str, Any]) -> int:
        """Add the JSON of a command's entry; return the id.

        Commit and model hash are taken from its ``provenance``.
        """
        provenance = result.get("provenance") or {}
        row = (
            datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            kind,
            result["model"],
            result["board"],
            provenance.get("commit"),
            provenance.get("dirty"),
            (provenance.get("model") or {}).get("sha256"),
            json.dumps(result, allow_nan=False),
        )
        with self._writing() as database:
            statement = (
                "INSERT INTO entry (time, kind, model, board, commit_id, dirty, model_sha256, "
                "result) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            )
            number = database.execute(statement, row).lastrowid
        assert number is not None, "an insert gives a row"
        return number

    def entries(
        self,
        *,
        kind: Kind | None = None,
        model: str | None = None,
        board: str | None = None,
        commit: str | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return the entries that match all given arguments, the oldest first.

        ``commit`` may be the beginning of one; ``last`` keeps only that many of the newest.
        """
        wanted = {"kind": kind, "model": model, "board": board}
        chosen = {column: value for column, value in wanted.items() if value is not None}
        where = [f"{column} = ?" for column in chosen]
        values: list[Any] = list(chosen.values())
        if commit is not None:
            where.append("substr(commit_id, 1, ?) = ?")
            values += [len(commit), commit.lower()]
        # An argument that is no UTF-8: no entry has such a text, and SQLite takes none.
        if any(has_surrogate(value) for value in values):
            return []
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        # A negative limit is none.
        query = f"SELECT {_COLUMNS} FROM entry {condition} ORDER BY id DESC LIMIT ?"
        with self._reading() as database:
            rows = database.execute(query, (*values, -1 if last is None else last)).fetchall()
        return [self._entry(row) for row in reversed(rows)]

    def entry(self, number: int) -> Entry:
        """Return the entry of this id; raise :class:`~hil.errors.InputError` if there is none."""
        with self._reading() as database:
            query = f"SELECT {_COLUMNS} FROM entry WHERE id = ?"
            # SQLite has no larger numbers.
            is_id = 0 <= number < 1 << 63
            row = database.execute(query, (number,)).fetchone() if is_id else None
        if row is None:
            raise InputError(f"{self.path} has no entry {number}", "see `hil history`")
        return self._entry(row)

    def _entry(self, row: Sequence[Any]) -> Entry:
        number, when, kind, model, board, commit, dirty, text = row
        try:
            result = json.loads(text)
            moment = datetime.fromisoformat(when)
        except (TypeError, ValueError, RecursionError):
            result = None
        texts = all(isinstance(text, str) for text in (kind, model, board, commit or ""))
        if not isinstance(result, dict) or not texts:
            raise self._damaged(f"its entry {number} cannot be read")
        is_dirty = None if dirty is None else bool(dirty)
        result = upgraded_entry(kind, result)
        return Entry(number, moment, cast(Kind, kind), model, board, commit, is_dirty, result)

    # -- the database --------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database in a transaction of the only writer; create the file if needed."""
        self._check_place()
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as database:
                self._prepare(database)
                with _transaction(database):
                    yield database

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the database of an existing file."""
        self._check_place()
        if not self.path.exists():
            raise InputError(
                f"there is no history {self.path}",
                f"record a result first: hil bench MODEL --board B --history {self.path}",
            )
        with self._explained(), closing(self._readable()) as database:
            yield database

    def _readable(self) -> sqlite3.Connection:
        """Return a connection that can read; of a folder that cannot be written, too."""
        database = self._connect()
        try:
            if _is_current(database, self):
                return database
            self._prepare(database)
            return database
        except sqlite3.OperationalError as error:
            database.close()
            # WAL needs files beside the database, unless nobody can be writing.
            if "unable to open" not in str(error) or _wal(self.path).exists():
                raise
        except BaseException:
            database.close()
            raise
        database = self._connect("?immutable=1")
        try:
            if _is_current(database, self):
                return database
            raise InputError(
                f"the history {self.path} has an older form and cannot be written",
                "copy it to a folder that can be written to",
            )
        except BaseException:
            database.close()
            raise

    def _connect(self, parameters: str = "") -> sqlite3.Connection:
        uri = f"{self.path.resolve().as_uri()}{parameters}"
        return sqlite3.connect(uri, uri=True, timeout=BUSY_LIMIT_S, isolation_level=None)

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Bring the schema up to date."""
        if _is_current(database, self):
            return
        # SQLite does not wait for this one by itself.
        _patiently(lambda: database.execute("PRAGMA journal_mode = WAL").fetchone())
        with _transaction(database):
            # Another process may have done it meanwhile.
            for number in range(_version(database), len(MIGRATIONS)):
                for statement in MIGRATIONS[number]:
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {number + 1}")
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _check_place(self) -> None:
        check_regular(self.path, "give a file with --history or HIL_HISTORY")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors and those of the file system into InputErrors."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._sqlite_error(error) from None
        except UnicodeDecodeError:
            # SQLite's own message about a damaged schema quotes it.
            raise self._damaged("its schema is not UTF-8") from None
        except OSError as error:
            raise InputError(
                f"cannot use the history {self.path}: {error.strerror}",
                "choose another file with --history or HIL_HISTORY",
            ) from None

    def _sqlite_error(self, error: sqlite3.Error) -> InputError:
        # By the texts: Python gives error codes from 3.11 on only.
        text = str(error)
        if "locked" in text:
            return InputError(
                f"the history {self.path} has been in use for {BUSY_LIMIT_S:g} s",
                "end the process that holds it (`fuser` names it), or choose another file",
            )
        limit = None
        if "disk I/O error" in text:
            limit = file_size_limit()
        elif "unable to open" in text:
            limit = descriptor_limit(_DESCRIPTORS) or umask_limit()
        if limit is not None:
            fact = f"the history {self.path} cannot be written: {text}; {limit.fact}"
            return InputError(fact, limit.hint)
        if "full" in text or "disk I/O error" in text:
            return InputError(
                f"the history {self.path} cannot be written: {text}",
                f"free some space in {self.path.parent}, or choose another file with --history",
            )
        if "readonly" in text or "unable to open" in text:
            return InputError(
                f"the history {self.path} cannot be written: {text}",
                "its folder must be writable, too; choose another file with --history",
            )
        return self._damaged(text)

    def _damaged(self, text: str) -> InputError:
        return InputError(
            f"{self.path} is not a history, or is damaged: {text}",
            "restore it from a copy, or choose another file with --history",
        )


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _is_current(database: sqlite3.Connection, history: History) -> bool:
    """Return whether the schema is this version's; raise for a newer one, and for no history."""
    # One snapshot: another process may be creating the schema between two of these statements.
    with _snapshot(database):
        owner = int(database.execute("PRAGMA application_id").fetchone()[0])
        version = _version(database)
        is_empty = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        # A view could compute for ever what it gives for a row, and a trigger could run any
        # statement.
        foreign = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"
        has_foreign = (
            database.execute(foreign).fetchone()[0] > 0
            or database.execute(_GENERATED).fetchone()[0] > 0
        )
    if owner != APPLICATION_ID and not (owner == version == 0 and is_empty):
        raise InputError(
            f"{history.path} is a database of another program",
            "choose another file with --history or HIL_HISTORY",
        )
    if has_foreign:
        raise InputError(
            f"the history {history.path} has views, triggers or computed columns, which hil never "
            "makes",
            "choose another file with --history or HIL_HISTORY",
        )
    if version > len(MIGRATIONS):
        raise InputError(
            f"the history {history.path} has version {version}; this hil knows up to "
            f"{len(MIGRATIONS)}",
            "update hil, or choose another file with --history",
        )
    return version == len(MIGRATIONS)


@contextmanager
def _snapshot(database: sqlite3.Connection) -> Iterator[None]:
    """Let every statement of the block read one state of the file."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction of the only writer; roll back if the block raises."""
    # IMMEDIATE: a transaction that reads first could not wait for another writer later.
    _patiently(lambda: database.execute("BEGIN IMMEDIATE"))
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _patiently(action: Callable[[], _T]) -> _T:
    """Return the result of ``action``, repeated while another process has the file."""
    deadline = time.monotonic() + BUSY_LIMIT_S
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_S)


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
