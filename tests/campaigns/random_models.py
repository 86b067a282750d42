#!/usr/bin/env python3
"""Compile random graphs over all operators, run them, and compare them with the interpreter.

    python tools/measure.py random_models [COUNT] [--seed N] [--onnx]

``measure.py random_models`` runs two thousand, and a thousand ONNX models (``--onnx``), whose
results by the interpreter are compared with those of ``onnx.reference``. Each is compiled for a
random goal, and its C runs twice on this host. What is refused stands under its message. Exits with
1 where an answer is wrong, or where something else goes wrong than a refusal; the seed that is
printed makes the graph again (``tests/support/models/mixed_graphs.py``,
``tests/support/models/onnx_graphs.py``).
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from mixed_graphs import differences, mixed_graph
from onnx_graphs import mismatches, random_model

import hilc
from hilc.errors import HilError
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph
from hilc.onnx_backend import specialized

#: Graphs of a shared library.
_TOGETHER = 25
_GOALS = ("balanced", "speed", "size", "ram")

#: Says in what outputs of the interpreter differ from another reference.
Check = Callable[[Mapping[str, Array]], list[str]]
#: A graph, its inputs, and the names of its operators as they are counted.
Drawn = tuple[Graph, dict[str, Array], Sequence[str], Check]


def of_operators(seed: int) -> Drawn:
    """Draw a graph of the intermediate representation, whose interpreter is the reference."""
    graph, values = mixed_graph(seed)
    return graph, values, [node.op for node in graph.nodes], lambda outputs: []


def of_onnx(seed: int) -> Drawn:
    """Draw an ONNX model, whose reference is ``onnx.reference``."""
    drawn = random_model(seed)
    graph, _, _ = specialized(drawn.model.SerializeToString(), drawn.inputs)
    values = {name: drawn.inputs[name] for name in graph.inputs}
    return graph, values, drawn.operators, partial(mismatches, drawn)


class Campaign:
    """What came of the graphs so far."""

    def __init__(self, draw: Callable[[int], Drawn]) -> None:
        self._draw = draw
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
                made = self._draw(seed)
                library = hilc.compile(
                    made[0],
                    name=f"graph{seed}",
                    optimize=_GOALS[int(rng.integers(len(_GOALS)))],
                    io_in_pool=bool(rng.integers(2)),
                    allow_float=True,
                )
            except HilError as error:
                self.refused[re.sub(r"'[^']*'|[-+]?[0-9][0-9.e+-]*", "_", error.fact)] += 1
                continue
            except Exception:
                self.wrong.append(f"seed {seed}: {traceback.format_exc().splitlines()[-1]}")
                continue
            drawn[f"graph{seed}"] = made
            libraries.append(library)
        if libraries:
            with tempfile.TemporaryDirectory() as folder:
                path = hilc.host.export_library(hilc.merge(libraries), Path(folder) / "graphs.so")
                factory = hilc.host.load_module(path)
                for name, made in drawn.items():
                    with factory[name](hilc.host.cpu(0)) as executor:
                        self._compare(name, made, executor.model)

    def _compare(self, name: str, made: Drawn, model: object) -> None:
        assert isinstance(model, hilc.host.HostModel)
        graph, values, operators, check = made
        interpreter = Interpreter(graph)
        for turn in range(2):
            expected = interpreter.run_all(values)
            if unlike := check(expected):
                self.wrong.append(f"seed {name.removeprefix('graph')}: {'; '.join(unlike)}")
                return
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
        self.operators.update(operators)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, help="default: 2000, and 1000 of ONNX")
    parser.add_argument("--seed", type=int, default=0, help="that of the first graph")
    parser.add_argument("--onnx", action="store_true", help="ONNX models")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    campaign = Campaign(of_onnx if args.onnx else of_operators)
    count = args.count or (1000 if args.onnx else 2000)
    end = args.seed + count
    for start in range(args.seed, end, _TOGETHER):
        campaign.run(range(start, min(start + _TOGETHER, end)))
        print(f"\r{start + _TOGETHER - args.seed} of {count}", end="", file=sys.stderr)
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
