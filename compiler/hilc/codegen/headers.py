"""Folders of the headers that generated code includes: the kernels', and those of optional
parts.
"""

from __future__ import annotations

from pathlib import Path

from hilc.plugins import Slot
from hilc.support.resources import data_dir

_SLOT: Slot[Path] = Slot()
provide_headers = _SLOT.fill


def include_dirs() -> tuple[Path, ...]:
    """Return the include folders, the kernels' first. No header is in two of them."""
    kernels = data_dir("runtime") / "include"
    others = _SLOT.found()
    return (kernels,) if others is None else (kernels, others)


def find_header(name: str) -> Path:
    """Return the path of the header ``name``."""
    return next(path for folder in include_dirs() if (path := folder / name).is_file())
