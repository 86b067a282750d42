"""TFLite's reference kernels for tests that compare with them: skipped where they cannot exist.

Pythons for which the package exists but is not installed fail: the ``test`` extra brings it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from hilc.ir import Array, Graph, Numerics
from hilc.references import Reference, get_reference

EXISTS = sys.version_info < (3, 13)
_REASON = "ai-edge-litert 1.2.0, the reference litert-ref, exists for Python 3.10 to 3.12 only"

#: The definition that it computes by.
numerics = Numerics.LITERT

needs_litert_ref = pytest.mark.skipif(not EXISTS, reason=_REASON)


def reference(graph: Graph, model: bytes) -> Reference:
    """The reference ``litert-ref`` for a model's file."""
    if not EXISTS:
        pytest.skip(_REASON)
    return get_reference("litert-ref", graph, model)


def run(model: bytes, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What TFLite's kernels compute of a file: its inputs and outputs, by name."""
    runtime = interpreter(model)
    ins, outs = runtime.get_input_details(), runtime.get_output_details()
    for detail in ins:
        runtime.set_tensor(detail["index"], inputs[detail["name"]])
    runtime.invoke()
    return {detail["name"]: runtime.get_tensor(detail["index"]) for detail in (*ins, *outs)}


def interpreter(model: bytes) -> Any:
    """TFLite's own interpreter of a model, with the reference kernels, ready for inputs."""
    if not EXISTS:
        pytest.skip(_REASON)
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    made = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    made.allocate_tensors()
    return made
