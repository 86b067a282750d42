"""Operators with graphs of their own."""

from __future__ import annotations

from hilc.frontends.onnx.operation import Operation, translates
from hilc.ir import Tensor


@translates("If")
def if_(n: Operation) -> list[Tensor | None]:
    """Compute the branch that a known condition takes, in place of the node."""
    condition = bool(n.known(0, "the condition").all())
    outputs: list[Tensor | None] = n.scope.inline(
        n.graph("then_branch" if condition else "else_branch")
    )
    return outputs
