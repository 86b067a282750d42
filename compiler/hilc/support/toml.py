"""TOML files; ``tomllib`` is part of the standard library since Python 3.11."""

import sys
from pathlib import Path
from typing import Any

from hilc.errors import HilError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["parse_toml", "tomllib"]


def parse_toml(data: bytes, path: Path, error: type[HilError], remedy: str) -> dict[str, Any]:
    """Return the values of the TOML file ``path``; raise ``error`` if ``data`` is invalid."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        fact = f"{path}: line {line} is not UTF-8 text: it contains byte {data[problem.start]:#04x}"
        raise error(fact, "save the file in the encoding UTF-8") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise error(f"{path}: not valid TOML: {problem}", remedy) from None
