"""A program: the calls of an inference in order, and where every byte lies.

:mod:`hilc.memory.plan` makes it, :mod:`hilc.memory.checker` proves it, :mod:`hilc.codegen` writes
it in C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hilc.external import ExternalCall
from hilc.fusion.call import StreamCall
from hilc.ir import Graph, Node
from hilc.lowering.kernels import KernelCall
from hilc.target import Cpu


@dataclass(frozen=True)
class Place:
    """Where bytes lie at run time.

    ``value`` is the byte offset in the pool, the index of the model's input or output, or the index
    in :attr:`Program.constants`.
    """

    kind: Literal["pool", "input", "output", "constant"]
    value: int
    #: The index in :attr:`Program.pools`; 0 where the bytes lie elsewhere.
    pool: int = 0


@dataclass(frozen=True)
class PoolSpec:
    """Memory that a plan may use: at most ``limit_bytes``, in the board's region ``region``."""

    name: str = "global_workspace"
    #: None: as much as the model needs.
    limit_bytes: int | None = None
    #: None: wherever the build puts it.
    region: str | None = None


@dataclass(frozen=True)
class Pin:
    """Where an input or output of the model shall lie: bytes from the start of a pool."""

    offset: int
    #: The pool's position among those that the plan may use.
    pool: int = 0


#: The pool that holds the states of a model, the last of its pools.
STATE_POOL = "global_state"


@dataclass(frozen=True)
class Pool:
    """Memory that a module works in: one block, planned at compile time."""

    #: C identifier: the field of ``struct <symbol>_workspace_pools`` and the stem of its macro.
    name: str
    nbytes: int
    #: The board's memory region that it shall lie in; None where any will do.
    region: str | None
    #: What it holds survives from one run to the next: no other model may work in it.
    persistent: bool = False

    def is_static(self, pools: str) -> bool:
        """Whether it is a static array of a library whose option ``pools`` is this word.

        An allocation for a run cannot hold what survives it.
        """
        return pools == "internal" or (pools == "calls" and self.persistent)


@dataclass(frozen=True)
class Step:
    """One call of a kernel, of a group of layers, or of an external function.

    ``inputs`` are the tensors that it reads, in its own order. ``node`` is what it computes, of a
    group the last node: what it writes is that one's output.
    """

    node: Node
    call: KernelCall | ExternalCall | StreamCall
    inputs: tuple[str, ...]
    #: None where it has none, or has to allocate its own.
    scratch: Place | None

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.node.outputs

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that it computes, in order."""
        return self.call.nodes if isinstance(self.call, StreamCall) else (self.node,)


@dataclass(frozen=True)
class Program:
    """The steps of an inference and the plan of its memory.

    ``graph`` is the one that was planned, with copies added where a model's output cannot be
    computed in place; ``output_names`` are the model's own names of the outputs.
    """

    graph: Graph
    cpu: Cpu
    steps: tuple[Step, ...]
    #: Every tensor that exists at run time; views have the place of what they view.
    places: Mapping[str, Place]
    #: Constants that kernels read as tensors (not through their parameters).
    constants: tuple[str, ...]
    output_names: tuple[str, ...]
    io_in_pool: bool
    #: Whether a run leaves the inputs in the workspace as they are.
    keep_inputs: bool
    pools: tuple[Pool, ...]
    #: All pools but the one of the states, and the largest scratch where it is not part of them:
    #: what an allocator must be able to hand out that aligns each block as the pools are.
    workspace_bytes: int
    #: No placement takes less, as far as these calls let tensors overlap.
    workspace_bound_bytes: int

    @property
    def state_bytes(self) -> int:
        """The pool of the states; 0 where there are none."""
        return sum(pool.nbytes for pool in self.pools if pool.persistent)

    def __repr__(self) -> str:
        return (
            f"<Program of {self.graph.name} for {self.cpu.name}: {len(self.steps)} steps, "
            f"{self.workspace_bytes:,} bytes of workspace>"
        )


class PlanError(RuntimeError):
    """The planner made a program that would corrupt memory: a fault of the compiler."""
