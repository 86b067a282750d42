"""The reference's run time for tests that compare with it: they are skipped where it cannot exist.

Pythons for which it exists but is not installed fail: the ``test`` extra brings it. What stands in
for it on the others is ``tests/golden/tflm.json``.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from hilc.ir import Graph
from hilc.references import Reference, get_reference

EXISTS = sys.version_info < (3, 13)
_REASON = "ai-edge-litert 1.2.0, the reference tflm, exists for Python 3.10 to 3.12 only"

needs_tflm = pytest.mark.skipif(not EXISTS, reason=_REASON)


def reference(graph: Graph, model: bytes) -> Reference:
    """The reference ``tflm`` for a model's file."""
    if not EXISTS:
        pytest.skip(_REASON)
    return get_reference("tflm", graph, model)


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
