"""Attack every interface of the product, and write the results.

    python tools/measure.py torture [NAME...]

runs all campaigns for minutes; with ``TORTURE=hours`` in the environment it takes the counts that
docs/reliability.md publishes. The campaigns are the modules of this package. ``--write`` keeps the
run of a campaign in docs/reliability/NAME.json and writes the page from all runs that are kept,
``--add`` adds a run with another seed to the one that is kept, ``--page`` writes the page alone,
after a change of a campaign's description or a merge. SIGINT and SIGTERM end a campaign with what
it has counted by then, where its counts add up; the others keep nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import os
import pkgutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import cast

import marked

import torture
from hil.cli.console import table
from torture.campaign import (
    Budget,
    Call,
    Campaign,
    Counting,
    Counts,
    Figures,
    Run,
    run,
)

_DOCS = Path(__file__).resolve().parents[3] / "docs"
KEPT = _DOCS / "reliability"
PAGE = _DOCS / "reliability.md"
#: Modules of the package that are no campaigns, besides those whose name begins with "_".
_SHARED = {"campaign"}
#: Exit codes, of which the greatest one of all campaigns is this script's.
_FOUND, _BROKEN = 1, 3

_HEAD = """# Reliability

This page lists the attacks on the product, their number, and the results. `python tools/measure.py
torture` repeats all of them in minutes with smaller counts; with `TORTURE=hours` in the environment
it uses the counts of this page. With the name of a campaign it runs that campaign only. `--write`
replaces its part of this page, `--add` adds the counts of a run with another seed. A campaign fails
if it has a finding. [Security](../SECURITY.md) states who is trusted with what,
[Soundness](../SOUNDNESS.md) what is proven about the generated code.
"""


def names() -> tuple[str, ...]:
    """Return the names of all campaigns."""
    found = (module.name for module in pkgutil.iter_modules(torture.__path__))
    return tuple(sorted(n for n in found if n not in _SHARED and not n.startswith("_")))


def campaign(name: str) -> Campaign:
    """Return a campaign. What only one needs is not imported for another."""
    return cast(Campaign, importlib.import_module(f"torture.{name}"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaigns that are named; 1 when one has a finding, 3 when one broke off."""
    known = names()
    parser = argparse.ArgumentParser("torture", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--seed", type=int, help="default: 1; with --add the next that is unused")
    parser.add_argument("--write", action="store_true", help="keep these runs and write the page")
    parser.add_argument("--add", action="store_true", help="the same, added to the runs kept")
    parser.add_argument("--page", action="store_true", help="write the page from the runs kept")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep inputs that got through here (default: a temporary folder, named when used)",
    )
    args = parser.parse_args(argv)
    unknown = sorted(set(args.names) - set(known))
    if unknown:
        parser.error(f"no campaign {', '.join(unknown)}; there are {', '.join(known)}")
    length = os.environ.get("TORTURE", "minutes")
    if length not in ("minutes", "hours"):
        parser.error(f"TORTURE is {length!r}; use minutes or hours")
    if args.page:
        if args.names or args.write or args.add:
            parser.error("--page runs no campaign; leave out its name, --write and --add")
        PAGE.write_text(page(kept()), encoding="utf-8")
        return 0

    if args.write and args.add:
        parser.error("--write replaces what is kept, --add adds to it; use one of them")

    signal.signal(signal.SIGTERM, _stop)
    keep = args.keep or Path(tempfile.mkdtemp(prefix="torture-"))
    code = 0
    for name in args.names or known:
        folder = keep / name
        folder.mkdir(parents=True, exist_ok=True)
        # A campaign that breaks off must not hide what the others find.
        try:
            before = _kept(name) if args.add else None
            budget = Budget(length == "hours", _seed(args.seed, before), folder)
            code = max(code, _run(name, budget, before, args.write or args.add))
            if budget.is_stopped:
                break
        except KeyboardInterrupt:
            print(f"STOPPED {name}, of which nothing is kept", file=sys.stderr)
            code = _BROKEN
            break
        except Exception:
            traceback.print_exc()
            print(f"BROKEN {name}", file=sys.stderr)
            code = _BROKEN
        finally:
            with contextlib.suppress(OSError):
                folder.rmdir()  # unless something is kept in it
    if any(keep.iterdir()):
        print(f"what got through is kept in {keep}", file=sys.stderr)
    else:
        keep.rmdir()
    return code


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _seed(given: int | None, before: Run | None) -> int:
    """Return the seed of a run that is added to the one ``before``."""
    used = {call.seed for call in before.calls} if before is not None else set()
    if given in used:
        raise ValueError(f"a run with the seed {given} is kept already")
    return given if given is not None else max(used, default=0) + 1


def _run(name: str, budget: Budget, before: Run | None, write: bool) -> int:
    """Run a campaign, print its figures and keep them if asked to."""
    one = campaign(name)
    if before is not None and not isinstance(before.result, Counts):
        raise ValueError(f"the figures of {name} are of one run; use --write")
    done = run(one, budget)
    figures = _figures(one, done)
    print(f"\n{one.TITLE}\n\n{table(figures.rows, figures.heads)}")
    for line in (*figures.notes, *(f"FOUND {f.what}: {f.how}" for f in figures.findings)):
        print(line)
    sys.stdout.flush()
    if write:
        KEPT.mkdir(exist_ok=True)
        total = done if before is None else before + done
        _file(name).write_text(json.dumps(total.to_json(), indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(kept()), encoding="utf-8")
    return _FOUND if figures.findings else 0


def _figures(one: Campaign, done: Run) -> Figures:
    """Return what a reader sees of a run."""
    if isinstance(done.result, Counts):
        return cast(Counting, one).figures(done.result)
    return done.result


def _file(name: str) -> Path:
    return KEPT / f"{name}.json"


def _kept(name: str) -> Run | None:
    """Return the run of a campaign that is kept."""
    file = _file(name)
    if not file.is_file():
        return None
    return Run.from_json(json.loads(file.read_text(encoding="utf-8")))


def kept() -> dict[str, Run]:
    """Return the runs that are kept, by the name of their campaign."""
    return {name: run for name in names() if (run := _kept(name)) is not None}


def page(runs: Mapping[str, Run]) -> str:
    """Return docs/reliability.md."""
    parts = [_HEAD]
    for name, one in runs.items():
        about = campaign(name)
        figures = _figures(about, one)
        parts += [f"## {about.TITLE}\n", about.ABOUT.strip() + "\n"]
        parts.append(marked.table(figures.heads, figures.rows) + "\n")
        parts += [f"{note}\n" for note in figures.notes]
        parts += [f"**Open**: {finding.what} ({finding.how})\n" for finding in figures.findings]
        parts += [f"{line}\n" for line in _commands(name, one.calls)]
    return "\n".join(parts)


def _commands(name: str, calls: Sequence[Call]) -> Iterator[str]:
    """Yield a line for all calls that differ in their seed and time only."""

    def kind(call: Call) -> tuple[object, ...]:
        return call.is_long, call.is_whole, call.cores, call.python, call.version

    for _, group in itertools.groupby(calls, kind):
        alike = list(group)
        one, seeds = alike[0], [str(call.seed) for call in alike]
        size = "TORTURE=hours " if one.is_long else ""
        command = f"`{size}python tools/measure.py torture {name} --seed {seeds[0]}`"
        also = f", also with the seeds {', '.join(seeds[1:])}" if seeds[1:] else ""
        ended = "" if one.is_whole else ", stopped before its end"
        yield (
            f"{command}{also}{ended}: {_duration(sum(call.seconds for call in alike))} on "
            f"{one.cores} cores, Python {one.python}, version {one.version}."
        )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(main())
