#!/usr/bin/env python3
"""Run a measurement, a generator or a campaign by its name.

    python tools/measure.py --list          every name, with one line about it
    python tools/measure.py NAME --help     the arguments of one
    python tools/measure.py NAME [ARG...]   run it; its exit code is returned

Measurements and generators are the scripts of ``tools``; campaigns, which fail where a result is
wrong, are those of ``tests/campaigns``. This is the one way to start them: it puts the folders that
they import from on the path.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Folders with scripts, by what is in them.
SCRIPTS = {"measurements and generators": ROOT / "tools", "campaigns": ROOT / "tests" / "campaigns"}
#: Folders that the scripts import from.
PATHS = (
    ROOT / "tools",
    ROOT / "ci",
    ROOT / "tests" / "campaigns",
    *sorted(p for p in (ROOT / "tests" / "support").iterdir() if p.is_dir()),
    ROOT / "compiler",
    ROOT,
)


def scripts(folder: Path) -> dict[str, Path]:
    """Return the scripts of a folder by name: files and packages that run when started."""
    files = [p for p in folder.glob("*.py") if p != Path(__file__).resolve()]
    files += folder.glob("*/__main__.py")
    named = {p.parent.name if p.stem == "__main__" else p.stem: p for p in sorted(files)}
    return {
        n: p for n, p in named.items() if '\nif __name__ == "__main__":' in p.read_text("utf-8")
    }


def summary(script: Path) -> str:
    """Return the first line of a script's docstring."""
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split("\n")[0]


def listing() -> str:
    """Return all names, with what each is for."""
    lines: list[str] = []
    for title, folder in SCRIPTS.items():
        lines += [f"{title}:", *(f"  {n:20}{summary(p)}" for n, p in scripts(folder).items()), ""]
    return "\n".join(lines)


def takes_no_arguments(script: Path) -> bool:
    """Return whether a script reads no arguments: they would be ignored, ``--help`` too."""
    text = script.read_text(encoding="utf-8")
    return "ArgumentParser" not in text and "sys.argv" not in text


def main() -> None:
    """Run the script that is named, as if it had been started itself."""
    parser = argparse.ArgumentParser(
        usage="python tools/measure.py [--list] NAME [ARG...]",
        description="Run a measurement, a generator or a campaign by its name.",
        epilog=listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="show all names")
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of the names below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARG")
    args = parser.parse_args()
    if args.list:
        print(listing(), end="")
        return
    known = {name: path for folder in SCRIPTS.values() for name, path in scripts(folder).items()}
    if args.name is None:
        parser.error("a NAME is required; --list shows all")
    if args.name not in known:
        near = difflib.get_close_matches(args.name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; --list shows all names"
        parser.error(f"there is no {args.name!r}{hint}")
    if takes_no_arguments(known[args.name]):
        own = argparse.ArgumentParser(prog=args.name, description=summary(known[args.name]))
        own.parse_args(args.arguments)
    sys.path[:0] = map(str, PATHS)
    sys.argv[1:] = args.arguments
    runpy.run_module(args.name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
