#!/usr/bin/env python3
"""Compile random graphs over all operators, run them, and compare them with the interpreter.

    python ci/random_graphs.py [COUNT] [--seed N]

``make graphs`` runs two thousand. Each is compiled for a random goal, and its C runs twice on this
host. What is refused stands under its message. Exits with 1 where an answer is wrong, or where
something else goes wrong than a refusal; the seed that is printed makes the graph again
(``tests/mixed_graphs.py``).
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from mixed_graphs import differences, mixed_graph

import hilc
from hilc.errors import HilError
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph

#: Graphs of a shared library.
_TOGETHER = 25
_GOALS = ("balanced", "speed", "size", "ram")

Drawn = tuple[Graph, dict[str, Array]]


class Campaign:
    """What came of the graphs so far."""

    def __init__(self) -> None:
        self.equal = 0
        self.operators: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, seeds: range) -> None:
        """Compile the graphs of these seeds, and run them from one library."""
        drawn: dict[str, Drawn] = {}
        libraries = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            try:
                graph, values = mixed_graph(seed)
                library = hilc.compile(
                    graph,
                    name=f"graph{seed}",
                    optimize=_GOALS[int(rng.integers(len(_GOALS)))],
                    io_in_pool=bool(rng.integers(2)),
                )
            except HilError as error:
                self.refused[re.sub(r"'[^']*'|[-+]?[0-9][0-9.e+-]*", "_", error.fact)] += 1
                continue
            except Exception:
                self.wrong.append(f"seed {seed}: {traceback.format_exc().splitlines()[-1]}")
                continue
            drawn[f"graph{seed}"] = graph, values
            libraries.append(library)
        if libraries:
            with tempfile.TemporaryDirectory() as folder:
                path = hilc.host.export_library(hilc.merge(libraries), Path(folder) / "graphs.so")
                factory = hilc.host.load_module(path)
                for name, (graph, values) in drawn.items():
                    with factory[name](hilc.host.cpu(0)) as executor:
                        self._compare(name, graph, values, executor.model)

    def _compare(self, name: str, graph: Graph, values: dict[str, Array], model: object) -> None:
        assert isinstance(model, hilc.host.HostModel)
        interpreter = Interpreter(graph)
        for turn in range(2):
            expected = interpreter.run_all(values)
            for tensor, value in values.items():
                model.set_input(tensor, value)
            model.run()
            outputs = {tensor: model.get_output(tensor) for tensor in graph.outputs}
            if found := differences(graph, outputs, expected):
                makers = {each: node.op for node in graph.nodes for each in node.outputs}
                where = ", ".join(f"{each} ({makers[each]})" for each in found)
                self.wrong.append(f"seed {name.removeprefix('graph')}, run {turn}: {where}")
                return
        self.equal += 1
        self.operators.update(node.op for node in graph.nodes)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="that of the first graph")
    args = parser.parse_args()
    campaign = Campaign()
    end = args.seed + args.count
    for start in range(args.seed, end, _TOGETHER):
        campaign.run(range(start, min(start + _TOGETHER, end)))
        print(f"\r{start + _TOGETHER - args.seed} of {args.count}", end="", file=sys.stderr)
    print(file=sys.stderr)
    nodes = sum(campaign.operators.values())
    print(f"{campaign.equal} equal: {nodes} nodes of {len(campaign.operators)} operators")
    print(f"{sum(campaign.refused.values())} refused")
    for reason, count in campaign.refused.most_common():
        print(f"  {count:4} {reason}")
    print(f"{len(campaign.wrong)} wrong")
    for each in campaign.wrong:
        print(f"  {each}")
    return 1 if campaign.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
