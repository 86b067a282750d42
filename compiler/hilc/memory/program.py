"""Program: the calls of an inference in order, and the buffer of every tensor.

:mod:`hilc.memory.plan` creates it, :mod:`hilc.memory.checker` verifies it, :mod:`hilc.codegen`
writes it in C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hilc.external import ExternalCall
from hilc.fusion.call import FusedCall
from hilc.ir import Graph, Node, Tensor
from hilc.lowering.kernels import KernelCall
from hilc.memory.pools import Pool, PoolSpec
from hilc.target import Cpu

# PoolSpec is documented by the name of this module.
__all__ = ["BufferRef", "PlanError", "PoolSpec", "Program", "Step"]


@dataclass(frozen=True)
class BufferRef:
    """Reference to a buffer at run time.

    ``value`` is the byte offset in the pool, the index of the model's input or output, or the index
    in :attr:`Program.constants`.
    """

    kind: Literal["pool", "input", "output", "constant"]
    value: int
    #: Index in :attr:`Program.pools`; 0 for other kinds.
    pool: int = 0


@dataclass(frozen=True)
class Step:
    """One call of a kernel, of a fused group, or of an external function.

    ``inputs`` are the tensors that it reads, in the call's order. ``node`` is the node that it
    computes; for a fused group the last one, whose output is the step's output.
    """

    node: Node
    call: KernelCall | ExternalCall | FusedCall
    inputs: tuple[str, ...]
    #: None if the step has no scratch, or allocates it at run time.
    scratch: BufferRef | None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the tensors that the step writes."""
        return self.node.outputs

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that the step computes, in order."""
        return self.call.nodes if isinstance(self.call, FusedCall) else (self.node,)


@dataclass(frozen=True)
class Program:
    """Steps of an inference and its memory plan.

    ``graph`` is the planned graph, with copies added where a model's output cannot be computed in
    place; ``output_names`` are the names of the outputs in the model.
    """

    graph: Graph
    cpu: Cpu
    steps: tuple[Step, ...]
    #: Buffer of every tensor that exists at run time; views share that of their input.
    buffers: Mapping[str, BufferRef]
    #: Constants that kernels read as tensors (not through their parameters).
    constants: tuple[str, ...]
    output_names: tuple[str, ...]
    io_in_pool: bool
    #: Whether an inference preserves the inputs in the workspace.
    keep_inputs: bool
    pools: tuple[Pool, ...]
    #: All pools but the one of the states, and the largest scratch where it is not part of them:
    #: what an allocator must be able to hand out that aligns each block as the pools are.
    workspace_bytes: int
    #: Lower bound of the workspace for the selected calls.
    workspace_bound_bytes: int
    #: Buffer that an inference keeps between fed rows; None if the input is whole.
    feed: BufferRef | None = None

    @property
    def fed_call(self) -> FusedCall:
        """The first step of a program that is fed."""
        call = self.steps[0].call
        assert isinstance(call, FusedCall)
        return call

    @property
    def fed_tensor(self) -> Tensor:
        """The input of a program that is fed, in the shape that has its rows."""
        call = self.fed_call
        assert call.fed is not None
        return self.graph.tensors[call.stages[call.fed].node.name]

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
    """Memory plan that would corrupt data: a bug of the compiler."""
