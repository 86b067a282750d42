"""Operators each element of whose output is a certain element of the input, whatever its value.

Such an operator says where its elements come from, axis by axis (:class:`IndexMap`); infer,
reference and the kernels' parameters follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import operand, require_same_quantization
from hilc.ops.traits import ascending

#: Positions in elements, or in bytes.
Table = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """Positions ``0, step, 2 * step, ...`` along an axis, or those of a table."""

    count: int
    step: int = 0
    table: Table | None = None

    @staticmethod
    def of(table: npt.ArrayLike) -> Axis:
        """Return the axis of these positions."""
        indices = np.asarray(table, np.int64)
        return Axis(indices.size, table=indices)

    @property
    def indices(self) -> Table:
        """Index of each position, ``count`` in all."""
        return np.arange(self.count) * self.step if self.table is None else self.table


@dataclass(frozen=True)
class IndexMap:
    """Index in the input of each element of an output: ``start`` plus the indices of the output's
    ``axes``. Several axes may form one of the output's ``shape``.
    """

    shape: tuple[int, ...]
    axes: tuple[Axis, ...]
    start: int = 0
    #: Whether it is of some rows of an image, all parts of which one kernel must compute.
    partial: bool = False

    @property
    def all(self) -> Table:
        """The position of every element of the output in the input."""
        found: Table = np.array(self.start, np.int64)
        for axis in self.axes:
            found = np.add.outer(found, axis.indices)
        return found.reshape(self.shape)

    @property
    def as_they_are(self) -> bool:
        """Whether the output is the first elements of the input, in order."""
        inner, start = 1, self.start
        for axis in reversed(self.axes):
            if axis.count > 1 and (axis.table is not None or axis.step != inner):
                return False
            start += 0 if axis.table is None else int(axis.table[0])
            inner *= axis.count
        return start == 0


#: Returns the index map of a node; raises for unsupported operands.
Rearrange = Callable[[Node, Sequence[Tensor | None]], IndexMap]


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Elements from one to the next along each axis of a tensor."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def whole(shape: Sequence[int]) -> tuple[Axis, ...]:
    """Return the axes of a tensor, each taken whole."""
    return tuple(Axis(size, step) for size, step in zip(shape, strides(shape), strict=True))


def moving(
    index_map: Rearrange,
    attributes: type[Attributes] = Attributes,
    index: int = 0,
    any_quantization: bool = False,
) -> OpDef:
    """Return the operator whose input ``index`` is rearranged as ``index_map`` says.

    With ``any_quantization`` its output may stand for other values than its input: the numbers are
    the same.
    """

    def infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
        return [(index_map(node, ins).shape, operand(node, ins, index).dtype)]

    def check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
        if not any_quantization:
            require_same_quantization(node, operand(node, ins, index), outs[0])

    def reference(
        node: Node,
        ins: Sequence[Tensor | None],
        outs: Sequence[Tensor],
        values: Sequence[Array | None],
    ) -> list[Array]:
        x = values[index]
        assert x is not None
        return [x.reshape(-1)[index_map(node, ins).all]]

    def is_identity(node: Node, ins: Sequence[Tensor | None]) -> bool:
        return index_map(node, ins).as_they_are

    return OpDef(
        infer,
        reference,
        check,
        attributes=attributes,
        is_identity=is_identity,
        bounds=ascending,
        copies_elements=True,
    )
