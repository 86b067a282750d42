"""Measurements that words name: files, entries of the history, commits, models."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from hil.cli.actions.bench import measured
from hil.cli.actions.history import chosen_history
from hil.cli.console import Console, shown_text
from hil.cli.recording import history_of, record
from hil.cli.render import COUNTER_NOTES
from hil.errors import InputError
from hil.firmware.sources import parse_sources
from hil.history import Entry, History, history_path
from hil.history.comparison import Comparison
from hil.history.measurement import Measurement, measurement_of, read_measurements
from hil.results.bench import CheckedOutputs
from hil.results.read import read_entry
from hil.verify.comparison import NOT_INDEPENDENT
from hil.verify.provenance import commit_named
from hilc.support.inputs import check_regular
from hilc.support.jsondata import parse_json
from hilc.support.suggest import counted

#: Digits from which git takes a word for the beginning of a commit.
_COMMIT_DIGITS = 4
#: Where a file of measurements comes from.
_WRITE_IT = "write it with `hil bench MODEL --board B --json`"


def measurements_of(
    word: str,
    args: argparse.Namespace,
    console: Console,
    *,
    is_measured: bool = True,
    is_gate: bool = False,
) -> list[Measurement]:
    """Return the measurements that ``word`` names: a JSON file, an entry of the history, a commit,
    or, where ``is_measured``, a model that is measured now.
    """
    path = Path(word)
    if is_result_file(word):
        return _from_file(path)
    if word.isdecimal() and not path.exists():
        return _of_number(word, args)
    if path.exists() or "=" in word:
        if not is_measured:
            raise InputError(
                f"{word!r} is no measurement",
                "give a .json file of `hil bench --json`, an id of `hil history`, or a commit",
            )
        return _run(word, args, console, is_gate)
    return _of_commit(word, args)


def is_result_file(word: str) -> bool:
    """Return whether ``word`` is the path of an existing ``.json`` file."""
    path = Path(word)
    return path.is_file() and path.suffix == ".json"


def _from_file(path: Path) -> list[Measurement]:
    check_regular(path, _WRITE_IT)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", _WRITE_IT) from None
    where = path.stat()
    return read_measurements(
        parse_json(data, str(path), _WRITE_IT),
        str(path),
        stored_at=f"file {where.st_dev}:{where.st_ino}",
    )


def _run(word: str, args: argparse.Namespace, console: Console, is_gate: bool) -> list[Measurement]:
    """Measure the model; its result is recorded as that of ``hil bench`` is."""
    if args.board is None:
        raise InputError(
            f"{word!r} is no .json file, so it is taken for a model, and no board is given",
            "give a .json file of `hil bench --json`, an id of `hil history`, a commit, or a model "
            "with --board B",
        )
    parse_sources([word])
    history = history_of(args)
    one = argparse.Namespace(**{**vars(args), "models": [word]})
    reports = measured(one, console, is_gate=is_gate)
    entries = [report.entry() for report in reports]
    record(history, "bench", entries, console)
    return [measurement_of(entry, word) for entry in entries]


def _of_number(word: str, args: argparse.Namespace) -> list[Measurement]:
    """Return the measurement of this id; without such an entry, those of the commit whose first
    digits are all decimal.
    """
    history = chosen_history(args)
    try:
        entry = history.entry(int(word))
    except InputError:
        if len(word) >= _COMMIT_DIGITS and history.entries(kind="bench", commit=word):
            return _of_commit(word, args)
        raise
    return [_of_entry(history, entry)]


def _of_commit(word: str, args: argparse.Namespace) -> list[Measurement]:
    """Return the newest measurement of each model, board and goal at a commit."""
    if word.endswith(".json"):
        raise InputError(f"the file {word!r} does not exist", _WRITE_IT)
    if history_path(args.history) is None:
        raise InputError(
            f"{word!r} is no file, and no history is chosen to look for a commit",
            "give a model, a .json file, or --history FILE",
        )
    history = chosen_history(args)
    commit = commit_named(word, Path.cwd()) or word
    newest = {
        (entry.model, entry.board, entry.goal): entry
        for entry in history.entries(kind="bench", commit=commit)
    }
    if not newest:
        raise InputError(
            f"{word!r} is no file, and the history {history.path} has no measurement of a commit "
            "of this name",
            "see `hil history --kind bench`",
        )
    return [_of_entry(history, entry) for entry in newest.values()]


def newest(history: History, baselines: Sequence[Measurement]) -> list[Measurement]:
    """Return the newest recorded measurement of each baseline's model, board and goal."""
    found = []
    for baseline in baselines:
        entries = history.entries(kind="bench", model=baseline.model, board=baseline.board)
        goals = {baseline.goal, None}
        chosen = [e for e in entries if baseline.goal is None or e.goal in goals]
        if not chosen:
            raise InputError(
                f"the history {history.path} has no measurement of {baseline.title}",
                "name what to measure: hil gate MODEL --board B --baseline F",
            )
        found.append(_of_entry(history, chosen[-1]))
    return found


def _of_entry(history: History, entry: Entry) -> Measurement:
    source = _source(entry)
    if entry.kind != "bench":
        raise InputError(
            f"{source} of the history is of hil {entry.kind}, which measures nothing",
            "choose one of `hil history --kind bench`",
        )
    where = f"{source} of {history.path.resolve()}"
    found = read_entry("bench", entry.result, source, _WRITE_IT)
    return measurement_of(found, source, stored_at=where)


def _source(entry: Entry) -> str:
    return f"entry {entry.id}"


def count_title(comparison: Comparison) -> str:
    """Return the title of the column of counts: the counter, per inference."""
    counter = comparison.after.counter
    return f"{COUNTER_NOTES.get(counter) or shown_text(counter)}, per inference"


def outputs_text(checked: CheckedOutputs | None) -> str:
    """Return the result of comparing the measured outputs, as text."""
    if checked is None:
        return "outputs not compared"
    who = shown_text(checked.reference) if checked.independent else NOT_INDEPENDENT
    word = "match" if checked.match else "DIFFER from"
    return f"outputs {word} {who} over {counted(checked.samples, 'sample')}"
