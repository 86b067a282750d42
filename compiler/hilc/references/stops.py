"""Values at which a runtime of TensorFlow Lite stops, where this compiler's code goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hilc.errors import ModelError
from hilc.interpreter import run_all
from hilc.ir import Array, Graph
from hilc.support.suggest import counted

#: By operator: the word for its second operand, what that must not be, and a test of its values.
_STOPS: Mapping[str, tuple[str, str, Callable[[Array], Array]]] = {
    **dict.fromkeys(
        ("DIV", "FLOOR_DIV", "FLOOR_MOD"), ("divisor", "0", lambda values: values == 0)
    ),
    "POW": ("exponent", "below 0", lambda values: values < 0),
}


def stopped(
    runtime: str, graph: Graph, inputs: Mapping[str, Array], error: ModelError
) -> ModelError:
    """Return ``error``, with which a runtime refused to run ``inputs``, or one that names the
    operand for which it did.
    """
    values = run_all(graph, inputs)
    for node in graph.nodes:
        if node.op not in _STOPS:
            continue
        word, what, is_wrong = _STOPS[node.op]
        name = node.inputs[1]
        wrong = is_wrong(values[name])
        if wrong.any():
            place = list(map(int, np.argwhere(wrong)[0]))
            return ModelError(
                f"{runtime} stops at {node.op} {node.name!r}: its {word} {name!r} is {what} in "
                f"{counted(int(wrong.sum()), 'element')} of {wrong.size}, the first at {place}",
                f"give inputs for which the {word} is never {what}, or choose the reference hilc, "
                "which goes on as the board does",
            )
    return error
