"""TREE_ENSEMBLE: the sums of what the leaves of decision trees hold, for rows of features.

Inputs: the rows, float32 ``[rows, features]``, and three constants with an element for each node,
trees one after the other and each in depth-first order: the ``values`` (float32), the ``tests``
(int16) and the ``nexts`` (int16); then the ``roots`` (int32), the places of the trees' first nodes.

A test of 0 or more compares the feature ``test // 2``: where it is at most the value, the node
behind this one follows, else the one ``next`` places on. What is no number is not at most anything;
for an odd test it counts as if it were. A value that is no number has nothing below it.

A test below 0 is an entry of a leaf: its value is added to the output ``next``. Behind the entry
:data:`MORE` stands another one, :data:`LAST` ends the tree. Trees are added in order, in float32.

Output: float32 ``[rows, targets]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_counts, require_dtype
from hilc.ops.traits import SameRows

#: Tests of leaves.
LAST, MORE = -1, -2
#: Features that a test can name.
MOST_FEATURES = 1 << 14


@dataclass(frozen=True, kw_only=True)
class TreeEnsembleAttributes(Attributes):
    """Attributes of TREE_ENSEMBLE."""

    #: Number of sums for each row.
    targets: int


@dataclass(frozen=True)
class Trees:
    """The constants of a node."""

    values: npt.NDArray[np.float32]
    tests: npt.NDArray[np.int16]
    nexts: npt.NDArray[np.int16]
    roots: npt.NDArray[np.int32]

    @property
    def visited(self) -> int:
        """Return the expected number of nodes that a row visits, branches being equally likely."""
        arrivals = np.zeros(self.tests.size)
        arrivals[self.roots] = 1
        for place, (test, offset) in enumerate(zip(self.tests, self.nexts, strict=True)):
            if test >= 0:
                arrivals[place + 1] += arrivals[place] / 2
                arrivals[place + offset] += arrivals[place] / 2
            elif test == MORE:
                arrivals[place + 1] += arrivals[place]
        return round(float(arrivals.sum()))


def trees_of(node: Node, ins: Sequence[Tensor | None]) -> Trees:
    """Return the trees of a node; raise if a path leaves the tables."""
    tensors = [operand(node, ins, i) for i in range(1, 5)]
    for tensor, dtype in zip(tensors, ("float32", "int16", "int16", "int32"), strict=True):
        require_dtype(node, tensor, (dtype,))
        if tensor.data is None or len(tensor.shape) != 1 or not tensor.size:
            invalid(node, f"takes {tensor.name!r} (accepted: a constant list)")
    values, tests, nexts, roots = (tensor.data for tensor in tensors if tensor.data is not None)
    if not values.size == tests.size == nexts.size:
        invalid(
            node,
            f"has {values.size} values, {tests.size} tests and {nexts.size} nexts "
            "(accepted: as many of each)",
        )
    return Trees(values, tests, nexts, roots)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=5)
    x = operand(node, ins, 0)
    require_dtype(node, x, ("float32",))
    trees, targets = trees_of(node, ins), TreeEnsembleAttributes.of(node).targets
    if len(x.shape) != 2 or not 1 <= targets <= np.iinfo(np.int16).max:
        invalid(node, f"makes {targets} sums of {list(x.shape)} (accepted: [rows, features])")
    places = np.arange(trees.tests.size)
    branch, entry = trees.tests >= 0, trees.tests < 0
    follows = branch | (trees.tests == MORE)
    behind = places + np.where(branch, trees.nexts, 1)
    wrong = (
        (entry & ~np.isin(trees.tests, (LAST, MORE)))
        | (entry & ((trees.nexts < 0) | (trees.nexts >= targets)))
        | (branch & (trees.tests // 2 >= x.shape[1]))
        | (branch & (trees.nexts < 1))
        | (follows & (np.maximum(behind, places + 1) >= places.size))
    )
    if wrong.any():
        place = int(np.argmax(wrong))
        invalid(
            node,
            f"has test {trees.tests[place]} and next {trees.nexts[place]} in node {place} of "
            f"{places.size}, for {x.shape[1]} features and {targets} sums",
        )
    if ((trees.roots < 0) | (trees.roots >= places.size)).any():
        invalid(node, f"has a tree that begins outside of its {places.size} nodes")
    return [((x.shape[0], targets), "float32")]


def _reference(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, trees = values[0], trees_of(node, ins)
    assert x is not None
    sums = np.zeros(outs[0].shape, np.float32)
    rows = np.arange(x.shape[0])
    for root in trees.roots:
        places = np.full(rows.size, root)
        active = np.ones(rows.size, np.bool_)
        while active.any():
            tests = trees.tests[places]
            branch = active & (tests >= 0)
            features = x[rows, np.where(branch, tests // 2, 0)]
            below = features <= trees.values[places]
            below |= np.isnan(features) & (tests % 2 == 1)
            entry = active & (tests < 0)
            targets = trees.nexts[places[entry]]
            sums[rows[entry], targets] += trees.values[places[entry]]
            active = branch | (active & (tests == MORE))
            places = places + np.where(branch & ~below, trees.nexts[places], active)
    return [sums]


TREE_ENSEMBLE = OpDef(
    _infer,
    _reference,
    attributes=TreeEnsembleAttributes,
    rows=SameRows(),
)

OPERATORS: Mapping[str, OpDef] = {
    "TREE_ENSEMBLE": TREE_ENSEMBLE,
}
