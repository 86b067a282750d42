"""Where the shared test vectors are."""

from __future__ import annotations

from pathlib import Path


def vector_file(name: str) -> Path:
    """A file of ``tests/vectors``."""
    return Path(__file__).parents[2] / "vectors" / name
