#!/usr/bin/env python3
"""Looks at pages of results in headless Chromium, and takes pictures of them.

``measure.py report_look`` runs it: it makes the page of kws and vww on three boards, and the same
page with names that try to run a script, in ``build/report_look``; then ``tools/browser_look.py``
opens them in an environment of its own (playwright, axe-core), with the Chromium of the system
(``apt install chromium``; elsewhere name one in ``HIL_CHROMIUM``). The pictures are for a person to
look at.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import models
from environments import programs

ROOT = Path(__file__).resolve().parents[1]

FOLDER = ROOT / "build" / "report_look"
MODELS = ("kws", "vww")
BOARDS = ("mps2-an386", "mps2-an500", "mps3-an547")
MOST_BYTES = 1_000_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HOSTILE = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>'


def report(*words: object) -> None:
    """Run ``hil report``; exit where it fails."""
    done = subprocess.run([sys.executable, "-m", "hil", "report", *map(str, words)], check=False)
    if done.returncode:
        sys.exit(f"hil report ended with {done.returncode}")


def hostile(value: Any, key: str = "") -> Any:
    """Return JSON whose names of models, layers and boards are ``HOSTILE`` too."""
    if isinstance(value, dict):
        return {k: hostile(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(each, key) for each in value]
    named = ("model", "name", "board", "log", "command", "reference", "op", "ops", "names")
    return f"{value} {HOSTILE}" if isinstance(value, str) and key in named else value


def make_pages(samples: int) -> list[Path]:
    page, spoiled = FOLDER / "report.html", FOLDER / "hostile.html"
    results, changed = FOLDER / "results.json", FOLDER / "hostile.json"
    words = [f"{name}={models.model_path(name)}" for name in MODELS]
    words += [word for board in BOARDS for word in ("--board", board)]
    report(*words, "--samples", samples, "--results", results, "--force", "-o", page)
    changed.write_text(json.dumps(hostile(json.loads(results.read_text()))))
    report("--from", changed, "--title", HOSTILE, "--force", "-o", spoiled)
    size = page.stat().st_size
    print(f"{page.relative_to(ROOT)}: {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"the page is larger than {MOST_BYTES:,} bytes")
    return [page, spoiled]


def browser() -> str:
    """Return the path of a Chromium; exit without one."""
    found = os.environ.get("HIL_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        sys.exit("there is no Chromium: apt install chromium, or name one in HIL_CHROMIUM")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10, help="samples to verify (default: 10)")
    parser.add_argument("pages", nargs="*", type=Path, help="look at these pages instead")
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    chromium, python = browser(), programs("pages") / "python"
    pages = args.pages or make_pages(args.samples)
    looked = [python, Path(__file__).with_name("browser_look.py"), chromium, FOLDER, *pages]
    return subprocess.run(looked, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
