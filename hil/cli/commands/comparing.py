"""``hil compare`` and ``hil gate``: measurements beside others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from hil.cli.commands.recording import history_of, record
from hil.cli.commands.results import chosen_history
from hil.cli.commands.running import measured
from hil.cli.console import Console, shown_name, shown_text, table
from hil.cli.render import COUNTER_NOTES
from hil.errors import InputError
from hil.firmware.sources import parse_sources
from hil.history import Entry, History, history_path
from hil.history.comparison import Change, Comparison, compare, paired
from hil.history.gate import Excess, Limit, Verdict, gates
from hil.history.measurement import Measurement, measurement_of, read_measurements
from hil.results.bench import CheckedOutputs
from hil.results.read import read_entry
from hil.verify.comparison import NOT_INDEPENDENT
from hil.verify.provenance import commit_named
from hilc.support.inputs import check_regular
from hilc.support.jsondata import parse_json
from hilc.support.suggest import counted

#: The limits of `hil gate`: the option ``--max-NAME`` for each.
LIMITS = ("slower", "ram", "flash", "workspace", "stack", "energy")

#: Digits from which git takes a word for the beginning of a commit.
_COMMIT_DIGITS = 4
#: Where a file of measurements comes from.
_WRITE_IT = "write it with `hil bench MODEL --board B --json`"


def compare_command(args: argparse.Namespace, console: Console) -> int:
    """Show two measurements layer by layer."""
    sides = [_measurements(word, args, console) for word in (args.a, args.b)]
    comparisons = [compare(before, after) for before, after in paired(*sides)]
    checks = [m.checked for side in sides for m in side]
    code = 0 if all(check is None or check.match for check in checks) else 1
    text = "\n\n".join(_comparison_text(comparison) for comparison in comparisons)
    console.result([comparison.entry() for comparison in comparisons], text, code)
    return code


def gate_command(args: argparse.Namespace, console: Console) -> int:
    """Hold a measurement to limits beside its baseline; the exit code is 1 if one is exceeded, or
    if the outputs of what is measured differ from the reference.
    """
    given = {name: vars(args)[f"max_{name}"] for name in LIMITS}
    limits: Mapping[str, Limit] = {name: limit for name, limit in given.items() if limit}
    if not limits:
        raise InputError("no limit is given", "give at least one, such as --max-slower 2%")
    baselines = _measurements(args.baseline, args, console, is_measured=False)
    current = (
        _measurements(args.current, args, console, is_gate=True)
        if args.current
        else _newest(chosen_history(args), baselines)
    )
    verdicts = gates(
        baselines,
        current,
        limits,
        allow_other_model=args.allow_other_model,
        check=not args.no_check,
        allow_fallback=args.allow_fallback,
        allow_missing=args.allow_missing or _names_one(args.current, current),
    )
    code = 0 if all(verdict.passed for verdict in verdicts) else 1
    text = "\n".join(_verdict_text(verdict, limits) for verdict in verdicts)
    console.result([verdict.entry() for verdict in verdicts], text, code)
    return code


def _names_one(word: str | None, current: Sequence[Measurement]) -> bool:
    """Return whether the user asks for one model or entry, not for all that a result has."""
    if word is None or _is_result_file(word):
        return False
    return all(m.source in (word, f"entry {word}") for m in current)


# -- where measurements come from ----------------------------------------------------------------


def _measurements(
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
    if _is_result_file(word):
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


def _is_result_file(word: str) -> bool:
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
        raise InputError(f"{word!r} is a model, and no board is given", "add --board B")
    parse_sources([word])
    history = history_of(args)
    one = argparse.Namespace(**{**vars(args), "models": [word]})
    _, reports = measured(one, console, is_gate=is_gate)
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


def _newest(history: History, baselines: Sequence[Measurement]) -> list[Measurement]:
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


# -- text ------------------------------------------------------------------------------------------


def _comparison_text(comparison: Comparison) -> str:
    before, after = comparison.before, comparison.after
    heads = [
        f"{name}: {shown_text(measurement.title)} ({measurement.source}); "
        f"{_outputs_text(measurement.checked)}"
        for name, measurement in (("A", before), ("B", after))
    ]
    rows = [_row(comparison.count, _count_title(comparison))]
    rows += [_row(change, change.title) for change in comparison.figures]
    figures = table(rows, ["", "A", "B", "difference", "change"])
    layers = table(
        [
            [layer.layer.shown_op, *_row(layer.change, shown_name(layer.layer.name))[1:],
             shown_name(layer.layer.name)]
            for layer in comparison.layers
        ],
        ["layer", "A", "B", "difference", "change", "name"],
    )  # fmt: skip
    return "\n\n".join(["\n".join(heads), figures, layers])


def _row(change: Change, title: str) -> list[object]:
    percent = "" if change.percent is None else f"{change.percent:+.2f} %"
    return [title, change.before, change.after, change.difference, percent]


def _count_title(comparison: Comparison) -> str:
    counter = comparison.after.counter
    return f"{COUNTER_NOTES.get(counter) or shown_text(counter)}, per inference"


def _verdict_text(verdict: Verdict, limits: Mapping[str, Limit]) -> str:
    comparison = verdict.comparison
    title = shown_text(comparison.after.title)
    outputs = _outputs_text(verdict.checked)
    if verdict.passed:
        units = {"slower": shown_text(comparison.after.counter), "energy": "uJ"}
        limited = ", ".join(
            f"{name} {_limit_text(limit, units.get(name, 'bytes'))}"
            for name, limit in limits.items()
        )
        return f"{title}: within the limits ({limited}); {_count_text(comparison)}; {outputs}"
    wrong = [] if verdict.is_correct else [f"{title}: {outputs}"]
    return "\n".join([*wrong, *(_excess_text(comparison, excess) for excess in verdict.excesses)])


def _outputs_text(checked: CheckedOutputs | None) -> str:
    """Return what was found of the outputs of what was measured."""
    if checked is None:
        return "outputs not compared"
    who = shown_text(checked.reference) if checked.independent else NOT_INDEPENDENT
    word = "match" if checked.match else "DIFFER from"
    return f"outputs {word} {who} over {counted(checked.samples, 'sample')}"


def _excess_text(comparison: Comparison, excess: Excess) -> str:
    change = excess.change
    if change == comparison.count:
        text, unit = _count_text(comparison), shown_text(comparison.after.counter)
    else:
        unit = "uJ" if change.title.endswith("uJ") else "bytes"
        name = change.title.removesuffix(" in uJ")
        text = f"{name} {change.after:,} {unit}: {_growth_text(change)}"
    limit = _limit_text(excess.limit, unit)
    text = f"{shown_text(comparison.after.title)}: {text}; the limit is {limit} more"
    layer = excess.layer_change
    if layer is None:
        return text
    name = shown_text(excess.layer)
    return f"{text}\n  most of it in {name}: {layer.after or 0:,}, {_growth_text(layer)}"


def _count_text(comparison: Comparison) -> str:
    count = comparison.count
    return f"{count.after:,} {_count_title(comparison)}: {_growth_text(count)}"


def _growth_text(change: Change) -> str:
    """Return by how much a figure has changed, in words."""
    difference, before = change.difference, change.before
    if difference is None or before is None:
        return "not in the baseline"
    if not difference:
        return "unchanged"
    percent = "" if change.percent is None else f" ({change.percent:+.2f} %)"
    word = "more" if difference > 0 else "less"
    # Energies are floats, whose difference has digits that neither of them has.
    return f"{_shown(abs(difference))} {word} than {_shown(before)}{percent}"


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _limit_text(limit: Limit, unit: str) -> str:
    if limit.is_share or not limit.amount:
        return limit.text
    return f"{int(limit.amount):,} {unit}"
