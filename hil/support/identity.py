"""What identifies this installation in the keys of the cache: the contents of its files, the
versions of what they use.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import hilc
from hil.support.cache import digest
from hilc.support.resources import data_dir

#: Files that take part in what a command finds.
_SOURCES = (".py", ".c", ".h", ".toml")
#: Distributions whose version may change what the compiler makes.
_DISTRIBUTIONS = ("numpy", "onnx")


@functools.cache
def compiler_identity() -> str:
    """Return a digest of the compiler, its kernels and the packages that it computes with."""
    found = hashlib.sha256(f"{platform.python_version()}\n".encode())
    for name in _DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            found.update(f"{name} {version(name)}\n".encode())
    for root in _roots():
        found.update(_contents(root).encode())
    return found.hexdigest()


@functools.cache
def harness_identity() -> str:
    """Return a digest of this package, whose reports are in cached entries."""
    return _contents(Path(__file__).resolve().parents[1])


def _roots() -> tuple[Path, Path]:
    return Path(hilc.__file__).parent, data_dir("runtime")


def _contents(root: Path) -> str:
    """Return a hash of the names and contents of the files below ``root``."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in _SOURCES:
            found.update(f"{path.relative_to(root).as_posix()}:{digest(path)}\n".encode())
    return found.hexdigest()
