"""Findings of cppcheck's MISRA add-on in C files, and the rules that the documentation explains."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "plain-c.md"
#: What GCC defines for a Cortex-M4, as far as the code asks.
_DEFINED = (
    "__GNUC__=12",
    "__ARM_FEATURE_DSP=1",
    "__OPTIMIZE__=1",
    "__thumb__=1",
    "__thumb2__=1",
    "__ORDER_LITTLE_ENDIAN__=1234",
    "__BYTE_ORDER__=1234",
)
_ADDON = ("usr/lib/x86_64-linux-gnu/cppcheck", "usr/lib/aarch64-linux-gnu/cppcheck",
          "usr/share/cppcheck")  # fmt: skip
_LIMIT_S = 600.0


def addon() -> Path:
    """Return the path of the add-on that cppcheck's package has."""
    paths = [Path("/") / folder / "addons" / "misra.py" for folder in _ADDON]
    return next(path for path in paths if path.is_file())


def findings(source: Path, include: Path, only: Path | None = None) -> Counter[str]:
    """Return the number of findings in a source and its headers, or in one file, by rule."""
    defined = [f"-D{each}" for each in _DEFINED]
    command = ["cppcheck", "--dump", "-q", "--std=c99", *defined, f"-I{include}", str(source)]
    subprocess.run(command, check=True, timeout=_LIMIT_S, capture_output=True)
    command = [sys.executable, str(addon()), "--cli", f"{source}.dump"]
    done = subprocess.run(command, timeout=_LIMIT_S, capture_output=True, text=True, check=False)
    places = set()
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            if only is None or Path(found["file"]) == only:
                rule = found["errorId"].removeprefix("c2012-")
                places.add((rule, found["file"], found["linenr"], found["column"]))
    return Counter(rule for rule, *_ in places)


def explained_rules(column: str = "") -> set[str]:
    """Return the rules in the table of the documentation; those with a number in the column of the
    generated file if ``column`` is ``generated``.
    """
    row = r"^\| (\d+\.\d+) \| \w+ \| ([\d,]+) \|(.*)$"
    return {
        rule
        for rule, own, reason in re.findall(row, PAGE.read_text(), re.MULTILINE)
        if not column or own != "0" or "generated for other" in reason
    }
