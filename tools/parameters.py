#!/usr/bin/env python3
"""Writes ``hilc.lowering.parameters``, the dataclasses of the shipped kernels, from the C headers.

    python tools/parameters.py [--check]

Builders import these dataclasses, and ``import hilc`` imports every builder. To work while a
builder names a dataclass that is yet to be written, this imports the modules that read headers
without the packages around them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "compiler" / "hilc" / "lowering" / "parameters.py"
_COMMAND = "python tools/parameters.py"


def add_empty_package(name: str) -> None:
    """Let modules of a package be imported without running its ``__init__.py``."""
    package = ModuleType(name)
    package.__path__ = [str(ROOT / "compiler" / name.replace(".", "/"))]
    sys.modules[name] = package


def main() -> int:
    """Write the module; with ``--check``, return 1 if it is stale."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    args = parser.parse_args()
    for name in ("hilc", "hilc.lowering"):
        add_empty_package(name)
    from hilc.errors import HilError
    from hilc.lowering.write_parameters import shipped_parameters

    try:
        text = shipped_parameters()
    except HilError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if not args.check:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{TARGET} differs from the C headers\n\nhint: run {_COMMAND}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
