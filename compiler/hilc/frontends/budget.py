"""The budget of nodes: how many a model may have, in any format.

A small file can state a large model: loops in loops, functions that call functions twice, graphs
that several operators call. A reader counts while it expands them, so that the model is refused
before it takes noticeable time or memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from hilc.errors import UnsupportedError

#: Nodes of a model, its loops unrolled and its functions and called graphs expanded. Each takes
#: about 100 bytes of flash beside its kernel, so a microcontroller has no place for as many.
MAX_NODES = 20_000

#: Calls of functions and of graphs in each other.
MAX_DEPTH = 16
#: Graphs that operators call, each of which is read and compiled for every call.
MAX_CALLED = 256
#: Products of numbers that are computed at compile time, of constants: a second or two.
MAX_PRODUCTS = 1 << 31

_HINT = (
    "let loops turn less often or use fewer layers; the caller can run a loop around the model, "
    "with its values as inputs and outputs"
)


class NodeBudget:
    """Count of the nodes of one model."""

    def __init__(self) -> None:
        self._read = 0
        self._made = 0
        self._products = 0
        self._called = 0
        #: The loops and functions around the current node: what each is, its repetitions, and the
        #: nodes of one repetition.
        self._around: list[tuple[str, int, int]] = []

    def require(self, nodes: int) -> None:
        """Raise :class:`~hilc.errors.UnsupportedError` for a file with more nodes than the
        budget.
        """
        if nodes > MAX_NODES:
            raise UnsupportedError(
                f"the model has {nodes:,} nodes, more than the budget of {MAX_NODES:,}", _HINT
            )

    def count_read(self) -> None:
        """Count a node of the model that is read, or a repetition of a loop; raise
        :class:`~hilc.errors.UnsupportedError` beyond the budget.
        """
        self._read += 1
        if self._read > MAX_NODES:
            raise self._refusal()

    def count_made(self) -> None:
        """Count an operator that a node is translated to; raise like :meth:`count_read`."""
        self._made += 1
        if self._made > MAX_NODES:
            raise self._refusal()

    @contextmanager
    def within(self, what: str, nodes: int, times: int = 1) -> Iterator[None]:
        """Record that the following nodes are inside ``what``, repeated ``times`` times as far as
        known.
        """
        self._around.append((what, times, nodes))
        yield
        # An error leaves it as it is: the refusal of the whole model.
        self._around.pop()

    def count_called(self) -> None:
        """Count a graph that an operator calls; raise like :meth:`count_read`."""
        self._called += 1
        if self._called > MAX_CALLED:
            raise UnsupportedError(
                f"the model's operators call more graphs than the budget of {MAX_CALLED:,}, those "
                "counted once for each call that are called several times",
                "call fewer subgraphs in each other",
            )

    def count_products(self, products: int) -> None:
        """Count the products of an operator on constants; raise like :meth:`count_read`."""
        self._products += products
        if self._products > MAX_PRODUCTS:
            raise UnsupportedError(
                f"the constants of the model take {self._products:,} products or more to compute, "
                f"beyond the budget of {MAX_PRODUCTS:,}",
                "compute them when the model is exported: fold its constants",
            )

    def _refusal(self) -> UnsupportedError:
        around = [(what, times, nodes) for what, times, nodes in self._around if times > 1]
        text = f"the model has more nodes than the budget of {MAX_NODES:,}"
        if around:
            repeated = prod(times for _, times, _ in around)
            shown = ", in it ".join(f"{what} {times:,} times" for what, times, _ in around)
            least = max(MAX_NODES + 1, repeated * max(1, around[-1][2]))
            text += f": unrolled, it has {least:,} or more (it repeats {shown})"
        else:
            what = "".join(f" at {what}" for what, _, _ in self._around[-1:])
            text += f", its loops unrolled and its functions expanded: {MAX_NODES + 1:,}{what}"
        return UnsupportedError(text, _HINT)
