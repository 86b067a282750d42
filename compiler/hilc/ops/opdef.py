"""What a row of the operator table (:data:`hilc.ops.OPS`) consists of.

A row holds what the rest of the compiler needs to know of an operator:

``infer(node, ins)``
    Shape and type of each output, from the inputs and the attributes; raises
    :class:`~hilc.errors.ModelError` when they do not go together (wrong rank, channels that do not
    match, a missing quantisation, ...). Called by :mod:`hilc.ops.verify`, so ``reference`` and
    ``emit`` may rely on everything that it checked.
``check(node, ins, outs)``
    What must hold between inputs and outputs beyond shape and type, above all the outputs'
    quantisation; raises as ``infer`` does. Called by :mod:`hilc.ops.verify` after the signatures
    agree.
``reference(node, ins, outs, values)``
    The outputs in numpy, bit-exact with the reference of the project; ``values`` are the inputs'
    arrays (None for an absent optional input).

Attributes carry snake_case names and Python values (``stride_h: int``, ``padding: "SAME"|"VALID"``,
``activation: "NONE"|"RELU"|"RELU6"|"RELU_N1_TO_1"``); constant operands such as a new shape stay
tensors, as in the file. Each operator's module lists the attributes that it reads.

The padding of CONV_2D and DEPTHWISE_CONV_2D may also be a tuple ``(top, bottom, left, right)`` of
elements, as :mod:`hilc.transforms.fold_pad` writes it; what is added around the input is the real
value zero (int8: the zero point).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hilc.ir import Array, Graph, Node, Tensor

#: Shape and dtype of one output.
Signature = tuple[tuple[int, ...], str]

Infer = Callable[[Node, Sequence[Tensor | None]], list[Signature]]
Check = Callable[[Node, Sequence[Tensor | None], Sequence[Tensor]], None]
Reference = Callable[
    [Node, Sequence[Tensor | None], Sequence[Tensor], Sequence[Array | None]], list[Array]
]


def nothing_to_check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    """The ``check`` of operators whose outputs may carry any quantisation."""


@dataclass(frozen=True)
class OpDef:
    infer: Infer
    reference: Reference
    #: The output is the input's bytes under another shape (RESHAPE and its kind).
    view: bool = False
    check: Check = nothing_to_check
    #: Operands that hold no element add nothing to the output, and may be left out.
    ignores_empty: bool = False
    #: The graph that a node runs; its inputs and outputs are the node's, by position. The
    #: interpreter asks this, not ``reference``.
    subgraph: Callable[[Node], Graph] | None = None
