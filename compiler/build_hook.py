#!/usr/bin/env python3
"""Writes the types of the kernels' parameters when the package is built.

The classes of :mod:`hilc.lowering.parameters` are made from the C headers at run time, so a type
checker needs them as text: ``parameters.pyi`` beside the module, which Git ignores. Hatchling calls
this hook for a wheel and for an editable install; ``make check`` runs it as a program. Run it after
a struct has changed:

    python compiler/build_hook.py

Builds run in an environment without the project's dependencies, so only
``hilc/lowering/structs.py`` is loaded, which needs none.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_COMPILER = Path(__file__).resolve().parent
_LOWERING = _COMPILER / "hilc" / "lowering"
_HEADERS = _COMPILER / "runtime" / "include" / "hil" / "kernels"
_COMMAND = "python compiler/build_hook.py"
TARGET = _LOWERING / "parameters.pyi"


def types_text() -> str:
    """Return the text of ``parameters.pyi``; ValueError if a field of a struct has no comment."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(_HEADERS.rglob("*.h")))
    text: str = _structs().shipped_module(texts, _COMMAND)
    return text


def write_types() -> None:
    """Write ``parameters.pyi``, unless it is as the headers say; ValueError as above."""
    text = types_text()
    if not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text:
        TARGET.write_text(text, encoding="utf-8")


def _structs() -> ModuleType:
    """Return ``hilc.lowering.structs``, loaded without its package."""
    spec = importlib.util.spec_from_file_location("hil_structs", _LOWERING / "structs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


class ParameterTypes(BuildHookInterface[Any]):
    """Hatchling's hook: writes the file before anything is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file, and have a wheel take it although Git ignores it."""
        write_types()
        build_data["artifacts"].append(f"/{TARGET.relative_to(self.root).as_posix()}")


def main() -> int:
    """Write the file; return 2 if the headers are wrong."""
    try:
        write_types()
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
