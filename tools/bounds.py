#!/usr/bin/env python3
"""Compares the smallest programs with what no plan can do without, and with published figures.

Writes two tables of docs/explanation/memory.md: of the models of MLPerf Tiny the smallest programs
beside a lower bound, and of networks of others' papers what they take here. The latter run on an
emulated Cortex-M4, whose answers are compared with the interpreter's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from figures import figures_table
from marked import replaced
from steps import ROOT, models

import hil
import hilc
from hilc.artifact.library import ModelLibrary
from hilc.interpreter import run
from hilc.ir import Graph
from hilc.memory.plan import Planner
from hilc.schedule.bound import least_workspace
from hilc.schedule.goals import Goals
from hilc.schedule.pareto import ParetoFrontier, PlannedProgram
from hilc.source import prepare
from hilc.target import get_cpu

# Beside the finder of the models, in the folder of the tests.
import large_models  # isort: skip

MODELS = ("ad", "kws", "ic", "vww")
BOARD, CPU = "mps2-an386", "cortex-m4"
PAGE = ROOT / "docs" / "explanation" / "memory.md"
NONE = "none found"


@dataclass(frozen=True)
class Network:
    """A network with random weights, and the RAM that papers state for it."""

    title: str
    build: Callable[[], bytes]
    published: str = NONE


NETWORKS = {
    "mobilenet": Network(
        "MobileNetV2 0.35, 144 x 144",
        lambda: large_models.mobilenet_v2(144, 0.35),
        "msf-CNN 8.56 kB, MCUNetV2 63 kB, StreamNet 66 kB",
    ),
    "mcunet": Network("like MCUNet's, 160 x 160", large_models.mcunet_like),
    "resnet": Network("ResNet-18, 16 to 128 channels, 64 x 64", large_models.resnet18_tiny),
}


def smallest(planner: Planner) -> tuple[PlannedProgram, PlannedProgram, PlannedProgram]:
    """Return the fastest program, that of the goal ``ram``, and the smallest of all."""
    frontier = ParetoFrontier(planner)
    goals = Goals(frontier)
    every = [frontier.planned(p) for p in frontier.partitions()]
    ram = goals.program("ram")
    assert ram is not None, "without a limit there is a program"
    programs = [p for p in (*every, ram) if isinstance(p, PlannedProgram)]
    least = min(programs, key=lambda p: (p.workspace_bytes, p.instructions))
    return goals.fastest, ram, least


def bounds() -> str:
    """Return the table of the models."""
    cpu = get_cpu(CPU)
    rows = []
    for name in MODELS:
        graph = prepare(models.model_path(name), name, cpu).graph
        planner = Planner(graph, cpu, io_in_pool=True)
        fastest, ram, least = smallest(planner)
        bound = least_workspace(planner, least.workspace_bytes)
        row = [name, f"{fastest.workspace_bytes:,}"]
        for found in (ram, least):
            ratio = found.instructions / fastest.instructions
            row += [f"{found.workspace_bytes:,}", f"{ratio:.2f}"]
        rows.append([*row, f"{bound:,}", f"{least.workspace_bytes / bound:.2f}"])
    header = ["model", "fastest: bytes", "`ram`: bytes", "ratio", "smallest: bytes", "ratio"]
    return figures_table([*header, "lower bound", "smallest to bound"], rows)


def networks() -> str:
    """Return the table of others' networks; exit where an answer differs."""
    rows = []
    for name, network in NETWORKS.items():
        data = network.build()
        row = [network.title]
        for feed in ("whole", "rows"):
            library = hilc.compile(
                data,
                cpu=CPU,
                name=name,
                optimize="ram",
                feed=feed,
                io_in_pool=True,
                pools="external",
            )
            _require_equal(library, prepare(data, name, get_cpu(CPU)).graph)
            cost = library.reports[name]
            ratio = cost.chosen.instructions / cost.fastest.instructions
            row += [f"{cost.chosen.workspace_bytes:,}", f"{ratio:.2f}"]
        rows.append([*row, network.published])
    header = ["network", "whole input: bytes", "ratio", "`--feed rows`: bytes", "ratio"]
    return figures_table([*header, "published"], rows)


def _require_equal(library: ModelLibrary, graph: Graph) -> None:
    """Exit unless a run on the board gives what the interpreter does."""
    (module,) = library.modules
    (given,) = graph.inputs
    x = graph.tensors[given]
    value = np.random.default_rng(1).integers(-128, 128, x.shape, np.int8)
    expected: Mapping[str, np.ndarray] = run(graph, {given: value})
    with hil.open(BOARD, library) as device:
        model = device[module.name]
        model.set_input(0, value)
        model.run()
        for index, name in enumerate(graph.outputs):
            if (model.get_output(index) != expected[name]).any():
                raise SystemExit(f"{module.name}: output {name!r} differs")


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    for name, new in (("bounds", bounds()), ("networks", networks())):
        text = replaced(text, name, new)
        print(new)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
