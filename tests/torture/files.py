"""Hostile files of the harness: descriptions, logs, histories, journals, data sets."""

from __future__ import annotations

from hostile_settings import SETTINGS

from torture import frontends
from torture.campaign import Budget, Figures, Finding

TITLE = "Files of the harness"
ABOUT = """Descriptions of boards, chips and cores, `config.toml`, tuning logs, baselines of
`hil gate`, histories, journals of `hil evaluate`, cached results, data sets in NPZ, NPY and CSV,
indices, recordings of current, parameters: good ones with keys, values, lines, cells, columns and
bytes changed, where they have a checksum under a right one. Each is read and used under the same
guard as files of models, with the same findings; a configuration that is written again must say
what it said."""

_LONG, _SHORT = 20_000, 300


def run(budget: Budget) -> Figures:
    """Give the files to workers, one after the other."""
    rows, findings = [], []
    for name in SETTINGS:
        figures, crash = frontends.work(name, budget, budget.count(_SHORT, _LONG), guided=False)
        counts = [f"{figures[count]:,}" for count in ("executions", "accepted")]
        rows.append([name, *counts, f"{figures['peak_mb']} MB"])
        folder = budget.folder / name
        for what, breach in figures["breaches"].items():
            how = f"{folder / 'breaches' / str(breach['file'])}, {breach['count']} times"
            findings.append(Finding(f"{name}, {what}", how))
        findings += [Finding(f"{name} ends the process", crash)] if crash else []
    return Figures(["file", "read", "accepted", "most memory"], rows, findings)
