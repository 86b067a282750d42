"""Loop nests over strided memory, in as few loops as the shapes allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hilc.ir import Node
from hilc.ops.operands import unsupported

#: ``HIL_WALK_LOOPS`` of ``hil/kernels/generic/walk.h``: loops around a kernel's innermost one.
OUTER_LOOPS = 5


@dataclass(frozen=True)
class Loop:
    """One loop of a nest: iterations, and each operand's increment per iteration."""

    count: int
    steps: tuple[int, ...]


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Elements between neighbours along each axis of an array in row-major order."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def broadcast_strides(shape: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """Strides that walk an array of ``shape`` as if it had the shape ``to``: 0 where it repeats."""
    strides = (0,) * (len(to) - len(shape)) + contiguous_strides(shape)
    padded = (1,) * (len(to) - len(shape)) + tuple(shape)
    return tuple(
        0 if own == 1 and size != 1 else stride
        for own, size, stride in zip(padded, to, strides, strict=True)
    )


def nest(shape: Sequence[int], *strides: Sequence[int]) -> list[Loop]:
    """Return the walk over ``shape`` by each operand's ``strides``, in as few loops as possible.

    Outermost first; at least one loop.
    """
    merged: list[Loop] = []
    for count, *steps in zip(shape, *strides, strict=True):
        if count == 1:
            continue
        if merged and merged[-1].steps == tuple(step * count for step in steps):
            count *= merged.pop().count
        merged.append(Loop(count, tuple(steps)))
    return merged or [Loop(1, (0,) * len(strides))]


@dataclass(frozen=True)
class Walk:
    """Nested loops as kernels turn them with ``hil_walk_next``."""

    #: Iterations of the innermost loop in all.
    rows: int
    #: Iterations of each loop; unused loops come first and run once.
    counts: tuple[int, ...]
    #: By operand, the increment of its position when a loop advances and all inner loops restart.
    jumps: tuple[tuple[int, ...], ...]


def walk(node: Node, loops: Sequence[Loop], operands: int = 1) -> Walk:
    """Return the walk of ``operands`` operands through nested ``loops``."""
    unused = OUTER_LOOPS - len(loops)
    if unused < 0:
        unsupported(
            node,
            f"needs {len(loops)} nested loops, more than {OUTER_LOOPS}",
            "reshape its operands to fewer dimensions",
        )
    jumps = []
    for position in range(operands):
        own = []
        rewind = 0
        for loop in reversed(loops):
            own.append(loop.steps[position] - rewind)
            rewind += loop.steps[position] * (loop.count - 1)
        jumps.append((0,) * unused + tuple(reversed(own)))
    counts = (1,) * unused + tuple(loop.count for loop in loops)
    return Walk(prod(loop.count for loop in loops), counts, tuple(jumps))
