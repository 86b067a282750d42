"""The programs of PyTorch that tools/pt2_programs.py makes, with what PyTorch computes for them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np

import hilc

PROGRAMS = Path(__file__).resolve().parents[2] / "pt2_programs.tar.xz"


@cache
def files() -> dict[str, bytes]:
    with tarfile.open(PROGRAMS) as archive:
        return {
            member.name: file.read()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }


def names() -> list[str]:
    return sorted(name.removesuffix(".pt2") for name in files() if name.endswith(".pt2"))


def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(files()[f"{name}.npz"])) as stored:
        return dict(stored)


def shapes_of(name: str) -> dict[str, tuple[int, ...]]:
    """Shapes for the input of a program whose sizes are open."""
    return {"x_0": arrays(name)["x0"].shape} if name.startswith("open_") else {}


def steps(stored: dict[str, np.ndarray]) -> Iterator[tuple[int, str, list[np.ndarray]]]:
    """The runs, each with the end of its arrays' names and its outputs."""
    for number in count():
        suffix = f"_{number}" if number else ""
        wanted = [stored[key] for key in sorted(stored) if key[0] == "y" and key[2:] == suffix]
        if not wanted:
            return
        yield number, suffix, wanted


def inputs_of(
    graph: hilc.Graph, stored: dict[str, np.ndarray], suffix: str = ""
) -> dict[str, np.ndarray]:
    """The inputs of a run; those of the first where it has none of its own."""
    return {
        name: stored.get(f"x{i}{suffix}", stored[f"x{i}"]) for i, name in enumerate(graph.inputs)
    }
