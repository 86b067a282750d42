#!/usr/bin/env python3
"""Writes the lock files in ci/locks: every package that is installed, with its hashes.

``make lock`` runs it after a change of the requirements in pyproject.toml; versions that still meet
them stay. ``make lock ARGS=--upgrade`` takes the newest versions. A lock file holds for Python 3.10
and later on every platform: lines for some of them have a marker.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from environments import FROM_SOURCE, ROOT, lock_path, programs

from hilc.support.toml import tomllib

#: The tables of pyproject.toml that each lock file holds: the optional dependencies and dependency
#: groups of these names, ``dependencies`` and ``build-system``. The first is what ci/setup.sh
#: installs, and no package has another version in the second, which action.yml and
#: templates/hil.yml install.
LOCKS = {
    "development": ("build-system", "setup", "dependencies", "test", "dev", "docs"),
    "action": (
        "build-system",
        "dependencies",
        "litert",
        "onnx",
        "lab",
        "pyocd",
        "pytest",
        "report",
    ),
    "torture": ("torture",),
    "audit": ("audit",),
    "pages": ("pages",),
    "schemas": ("schemas",),
    "lock": ("lock",),
    "release": ("release",),
    "sklearn": ("sklearn",),
    "esp": ("esp", "esp-build"),
}
_SELF = re.compile(r"hil-harness\[([\w,-]+)\]")
_HEADER = "# Written by ci/lock.py; change pyproject.toml and run 'make lock'.\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the lock files; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    args = parser.parse_args(argv)
    uv = programs("lock") / "uv"
    for name in LOCKS:
        command = [str(uv), "pip", "compile", "-q", "--universal", "--python-version", "3.10"]
        command += ["--no-python-downloads", "--generate-hashes"]
        # The hashes of wheels, and of the source where a package has nothing else.
        own = FROM_SOURCE.get(name)
        command += ["--no-binary", own] if own is not None else ["--only-binary", ":all:"]
        # No address of an index and no path of this machine.
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        command += ["--upgrade"] if args.upgrade else []
        command += ["-c", str(lock_path("development"))] if name == "action" else []
        path = lock_path(name)
        text = "\n".join(requirements(name))
        done = subprocess.run([*command, "-o", str(path), "-"], input=text, text=True, check=False)
        if done.returncode:
            return done.returncode
        path.write_text(_HEADER + path.read_text("utf-8").removeprefix(_HEADER), "utf-8")
    return 0


def requirements(name: str) -> list[str]:
    """Return the requirements of the lock file ``name``, as pyproject.toml states them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return [line for table in LOCKS[name] for line in _table(project, table)]


def _table(project: dict[str, Any], name: str) -> Iterator[str]:
    if name == "build-system":
        yield from project["build-system"]["requires"]
        return
    tables = {"dependencies": project["project"]["dependencies"]}
    tables |= project["project"]["optional-dependencies"] | project["dependency-groups"]
    for line in tables[name]:
        if found := _SELF.fullmatch(line):
            for extra in found[1].split(","):
                yield from _table(project, extra)
        else:
            yield line


if __name__ == "__main__":
    sys.exit(main())
