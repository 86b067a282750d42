"""Findings of clang-tidy in generated C, and the checks that the documentation explains."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from misra import PAGE

#: Groups of checks that the documentation names.
GROUPS = ("bugprone", "cert", "misc", "readability")
_LIMIT_S = 600.0


def findings(source: Path, include: Path) -> Counter[str]:
    """Return the number of findings in a source and its headers, by check, without aliases."""
    checks = ",".join(["-*", *(f"{group}-*" for group in GROUPS)])
    command = ["clang-tidy", "--quiet", f"-checks={checks}", "-header-filter=.*", str(source)]
    command += ["--", "-std=c99", f"-I{include}"]
    done = subprocess.run(command, timeout=_LIMIT_S, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = re.findall(r"warning: .* \[([\w-]+)[\w.,-]*\]$", done.stdout, re.MULTILINE)
    return Counter(names)


def explained_checks() -> set[str]:
    """Return the checks in the table of the documentation."""
    groups = "|".join(GROUPS)
    return set(re.findall(rf"^\| `((?:{groups})-[\w-]+)` \|", PAGE.read_text(), re.MULTILINE))
