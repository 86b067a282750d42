"""What ``hil gate`` does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from hil.cli.actions.history import chosen_history
from hil.cli.console import Console, shown_text
from hil.cli.measurements import count_title, is_result_file, measurements_of, newest, outputs_text
from hil.errors import InputError
from hil.history.comparison import Change, Comparison
from hil.history.gate import Excess, Limit, Verdict, gates
from hil.history.measurement import Measurement

#: The limits of `hil gate`: the option ``--max-NAME`` for each.
LIMITS = ("slower", "ram", "flash", "workspace", "stack", "energy")


def gate_command(args: argparse.Namespace, console: Console) -> int:
    """Hold a measurement to limits beside its baseline; the exit code is 1 if one is exceeded, or
    if the outputs of what is measured differ from the reference.

    Raise :class:`InputError` if no limit is given.
    """
    given = {name: vars(args)[f"max_{name}"] for name in LIMITS}
    limits: Mapping[str, Limit] = {name: limit for name, limit in given.items() if limit}
    if not limits:
        raise InputError("no limit is given", "give at least one, such as --max-slower 2%")
    baselines = measurements_of(args.baseline, args, console, is_measured=False)
    current = (
        measurements_of(args.current, args, console, is_gate=True)
        if args.current
        else newest(chosen_history(args), baselines)
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
    if word is None or is_result_file(word):
        return False
    return all(m.source in (word, f"entry {word}") for m in current)


def _verdict_text(verdict: Verdict, limits: Mapping[str, Limit]) -> str:
    comparison = verdict.comparison
    title = shown_text(comparison.after.title)
    outputs = outputs_text(verdict.checked)
    if verdict.passed:
        units = {"slower": shown_text(comparison.after.counter), "energy": "uJ"}
        limited = ", ".join(
            f"{name} {_limit_text(limit, units.get(name, 'bytes'))}"
            for name, limit in limits.items()
        )
        return f"{title}: within the limits ({limited}); {_count_text(comparison)}; {outputs}"
    wrong = [] if verdict.is_correct else [f"{title}: {outputs}"]
    return "\n".join([*wrong, *(_excess_text(comparison, excess) for excess in verdict.excesses)])


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
    return f"{count.after:,} {count_title(comparison)}: {_growth_text(count)}"


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
