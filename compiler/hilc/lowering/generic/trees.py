"""TREE_ENSEMBLE."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericTreesF32
from hilc.lowering.registry import Layer, lowers
from hilc.ops.tree_ensemble import TreeEnsembleAttributes, Trees, trees_of

#: Below all numbers.
_NOTHING = np.iinfo(np.int32).min


@lowers("TREE_ENSEMBLE")
def trees(layer: Layer) -> KernelCall:
    """Return the call that walks the trees for each row."""
    x, constants = layer.operand(0), trees_of(layer.node, layer.ins)
    parameters = HilGenericTreesF32(
        rows=x.shape[0],
        features=x.shape[1],
        targets=TreeEnsembleAttributes.of(layer.node).targets,
        trees=constants.roots.size,
        visited=constants.visited,
        roots=constants.roots,
        values=_words(constants),
        tests=constants.tests,
        nexts=constants.nexts,
    )
    return KernelCall(parameters)


def _words(trees: Trees) -> npt.NDArray[np.int32]:
    """Return the values as the kernel has them: see ``hil_trees_ordered``."""
    bits = trees.values.view(np.int32)
    magnitude = bits & np.int32(0x7FFFFFFF)
    ordered = np.where(bits < 0, -magnitude, magnitude)
    ordered = np.where(np.isnan(trees.values), _NOTHING, ordered)
    words: npt.NDArray[np.int32] = np.where(trees.tests < 0, bits, ordered).astype(np.int32)
    return words
