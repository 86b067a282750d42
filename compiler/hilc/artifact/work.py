"""The work of a layer, whatever kernel does it, and the instructions that a core cannot do it with
fewer of: its limit.

The limit counts each product, each byte of weights, inputs and outputs, and the requantization of
each output once, in the widest instructions of the core (:class:`hilc.target.Limit`). It counts no
loop, no address, no widening of operands. Kernels that change the arithmetic (Winograd's
convolution, several sums in a word) do with fewer products than the model has, and can go below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from hilc.target import Cpu

#: Instructions of a requantization: a product with its rounding, a shift, a bound.
REQUANTIZATION = 3


@dataclass(frozen=True)
class Work:
    """Least work of a layer, or of a fused group together."""

    #: Products by the type of their operands.
    products: Mapping[str, int]
    #: Weights and biases, inputs and outputs; of a group without the tensors between its layers.
    nbytes: int
    #: Outputs that are requantized, of every layer of a group.
    requantized: int


def limit(work: Work, cpu: Cpu) -> int | None:
    """Return the limit on ``cpu``, in instructions; None where the core's description has none, or
    it has no instruction for a product.
    """
    if cpu.limit is None or work.products.keys() - cpu.limit.products.keys():
        return None
    return ceil(
        sum(count / cpu.limit.products[dtype] for dtype, count in work.products.items())
        + work.nbytes / cpu.limit.bytes
        + REQUANTIZATION * work.requantized / cpu.limit.sums
    )
