"""What ``hil compare`` does."""

from __future__ import annotations

import argparse

from hil.cli.console import Console, shown_name, shown_text, table
from hil.cli.measurements import count_title, measurements_of, outputs_text
from hil.history.comparison import Change, Comparison, compare, paired


def compare_command(args: argparse.Namespace, console: Console) -> int:
    """Show two measurements layer by layer."""
    sides = [measurements_of(word, args, console) for word in (args.a, args.b)]
    comparisons = [compare(before, after) for before, after in paired(*sides)]
    checks = [m.checked for side in sides for m in side]
    code = 0 if all(check is None or check.match for check in checks) else 1
    text = "\n\n".join(_comparison_text(comparison) for comparison in comparisons)
    console.result([comparison.entry() for comparison in comparisons], text, code)
    return code


def _comparison_text(comparison: Comparison) -> str:
    before, after = comparison.before, comparison.after
    heads = [
        f"{name}: {shown_text(measurement.title)} ({measurement.source}); "
        f"{outputs_text(measurement.checked)}"
        for name, measurement in (("A", before), ("B", after))
    ]
    rows = [_row(comparison.count, count_title(comparison))]
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
