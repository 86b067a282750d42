#!/usr/bin/env python3
"""Attacks the product from every side it listens on, and writes what got through.

``make torture`` runs all campaigns for minutes, ``TORTURE=hours make torture`` with the counts that
docs/reliability.md publishes. The campaigns are the modules of tests/torture; each run is kept in
docs/reliability.json, from which the page is written with ``--write``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import marked
import torture
from torture.campaign import Budget, Campaign, Run, run

import hilc
from hil.cli.console import table

_DOCS = Path(__file__).resolve().parents[1] / "docs"
KEPT = _DOCS / "reliability.json"
PAGE = _DOCS / "reliability.md"
#: Modules of the package that are no campaigns.
_SHARED = {"campaign"}

_HEAD = """# Reliability

What was attacked, how often, and what got through. `make torture` repeats all of it in minutes with
smaller counts, `TORTURE=hours make torture` with these; `python ci/torture.py NAME` runs one
campaign, and `--write` renews its part of this page. Whatever a campaign finds fails it. Who is
trusted with what stands in [SECURITY.md](../SECURITY.md).
"""


def campaigns() -> dict[str, Campaign]:
    """Return all campaigns by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(torture.__path__) if m.name not in _SHARED)
    return {name: cast(Campaign, importlib.import_module(f"torture.{name}")) for name in names}


def main() -> int:
    """Run the campaigns that are named; 1 when one has a finding."""
    known = campaigns()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--write", action="store_true", help="renew the page's parts of these")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep inputs that got through here (default: a temporary folder, named when used)",
    )
    args = parser.parse_args()
    unknown = sorted(set(args.names) - set(known))
    if unknown:
        parser.error(f"no campaign {', '.join(unknown)}; there are {', '.join(known)}")
    length = os.environ.get("TORTURE", "minutes")
    if length not in ("minutes", "hours"):
        parser.error(f"TORTURE is {length!r}; use minutes or hours")

    chosen = {name: known[name] for name in args.names or known}
    keep = args.keep or Path(tempfile.mkdtemp(prefix="torture-"))
    runs: dict[str, Run] = {}
    for name, campaign in chosen.items():
        folder = keep / name
        folder.mkdir(parents=True, exist_ok=True)
        runs[name] = run(campaign, Budget(length == "hours", args.seed, folder))
        figures = runs[name].figures
        print(f"\n{campaign.TITLE}\n\n{table(figures.rows, figures.heads)}")
        for line in (*figures.notes, *(f"FOUND {one.what}: {one.how}" for one in figures.findings)):
            print(line)
        if args.write:
            _write(known, {name: runs[name]})
    return 1 if any(one.figures.findings for one in runs.values()) else 0


def _write(known: Mapping[str, Campaign], new: Mapping[str, Run]) -> None:
    """Put ``new`` among the runs that are kept, and write the page from them."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    kept |= {name: one.to_json() for name, one in new.items()}
    kept = {name: kept[name] for name in known if name in kept}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    runs = {name: Run.from_json(one) for name, one in kept.items()}
    PAGE.write_text(page({known[name].TITLE: (known[name], runs[name]) for name in runs}), "utf-8")


def page(runs: Mapping[str, tuple[Campaign, Run]]) -> str:
    """Return docs/reliability.md."""
    parts = [_HEAD]
    for title, (campaign, one) in runs.items():
        figures = one.figures
        name = campaign.__name__.rpartition(".")[2]  # type: ignore[attr-defined]
        parts += [f"## {title}\n", campaign.ABOUT.strip() + "\n"]
        parts.append(marked.table(figures.heads, [list(row) for row in figures.rows]) + "\n")
        parts += [f"{note}\n" for note in figures.notes]
        parts += [f"**Open**: {finding.what} ({finding.how})\n" for finding in figures.findings]
        size = "TORTURE=hours " if one.is_long else ""
        parts.append(
            f"`{size}python ci/torture.py {name} --seed {one.seed}`: {one.seconds:.0f} s, "
            f"Python {one.python}, version {hilc.__version__}.\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
