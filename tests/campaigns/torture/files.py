"""Hostile files of the harness: descriptions, logs, histories, journals, data sets."""

from __future__ import annotations

from hostile_settings import SETTINGS

from torture import frontends
from torture.campaign import Budget, Counts, Figures

TITLE = "Files of the harness"
ABOUT = """Descriptions of boards, chips and cores, `config.toml`, tuning logs, baselines of `hil
gate`, histories, journals of `hil evaluate`, cached results, data sets in NPZ, NPY and CSV,
indices, recordings of current, and parameters. Valid files are mutated: keys, values, lines, cells,
columns and bytes, with a correct checksum where the file has one. Each file is read and used with
the same monitor and the same findings as models. A configuration that is written again must have
the same meaning."""

_LONG, _SHORT = 20_000, 300


def run(budget: Budget) -> Counts:
    """Give the files to workers, one after the other."""
    runs = budget.count(_SHORT, _LONG)
    return frontends.in_turns(budget, dict.fromkeys(SETTINGS, runs), guided=False)


def figures(counts: Counts) -> Figures:
    """Return what became of the files of each kind."""
    rows = [
        [row["format"], f"{row['files']:,}", f"{row['accepted']:,}", f"{row['most_mb']} MB"]
        for row in counts.rows
    ]
    return Figures(["file", "read", "accepted", "most memory"], rows, counts.findings)
