"""TensorFlow Lite Micro for tests that compare with it: they are skipped where it cannot exist.

Machines for which its package exists but is not installed fail: the ``test`` extra brings it. What
stands in for it on the others is ``tests/golden/tflm.json``.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import tflite

from hilc.ir import Array, Graph, Numerics
from hilc.references import Reference, get_reference
from hilc.references.tflm import SYSTEM, UNTIL, TflmModel

EXISTS = sys.platform == "linux" and platform.machine() == "x86_64" and sys.version_info[:2] < UNTIL
_REASON = f"tflite-micro, the reference tflm, exists for {SYSTEM} only"

#: The definition that it computes by.
numerics = Numerics.TFLM

needs_tflm = pytest.mark.skipif(not EXISTS, reason=_REASON)


def reference(graph: Graph, model: bytes) -> Reference:
    """The reference ``tflm`` for a model's file."""
    if not EXISTS:
        pytest.skip(_REASON)
    return get_reference("tflm", graph, model)


def run(model: bytes, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What TFLM computes of a file: its inputs and every tensor that an operator writes, by name.

    It takes a millisecond, for all tests of a process share the one in which TFLM runs.
    :class:`~hilc.errors.ModelError` where TFLM refuses the model, with what it says.
    """
    if not EXISTS:
        pytest.skip(_REASON)
    subgraph: Any = tflite.Model.GetRootAs(model, 0).Subgraphs(0)
    names = [subgraph.Tensors(i).Name().decode() for i in range(subgraph.TensorsLength())]
    operators = map(subgraph.Operators, range(subgraph.OperatorsLength()))
    own = [subgraph.Inputs(i) for i in range(subgraph.InputsLength())]
    written = [o.Outputs(i) for o in operators for i in range(o.OutputsLength())]
    tensors = [*own, *written]
    values = TflmModel(model).run([inputs[names[i]] for i in own], tensors)
    return {names[index]: value for index, value in zip(tensors, values, strict=True)}
