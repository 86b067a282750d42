"""Random graphs over all operators and types: the compiled code gives what the interpreter does.

``measure.py random_models`` runs two thousand of them.
"""

from __future__ import annotations

import pytest
from campaigns import sampled
from mixed_graphs import differences, mixed_graph

import hilc
from hilc.interpreter import Interpreter

GOALS = ("balanced", "speed", "size", "ram")


@pytest.mark.parametrize("seed", sampled(range(60), keep=range(4)))
def test_the_code_equals_the_interpreter(seed: int) -> None:
    graph, values = mixed_graph(seed)
    interpreter = Interpreter(graph)
    library = hilc.compile(graph, optimize=GOALS[seed % 4], io_in_pool=bool(seed & 4))
    with hilc.host.load(library) as model:
        # States come from the run before.
        for _ in range(2):
            expected = interpreter.run_all(values)
            for name, value in values.items():
                model.set_input(name, value)
            model.run()
            outputs = {name: model.get_output(name) for name in graph.outputs}
            assert not differences(graph, outputs, expected)
