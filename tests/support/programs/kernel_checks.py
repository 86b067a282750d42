"""Operators computed by every kernel that a core has for them, compared with their references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from kernel_runner import Case, run

from hil.board import Board
from hilc.ir import Array, Node, Tensor
from hilc.lowering import candidates
from hilc.lowering.access import ForbiddenInterval, access_of, forbidden_interval
from hilc.lowering.kernels import KernelCall
from hilc.ops import OPS
from hilc.target import Cpu


class Operator(Protocol):
    """An operator with its tensors and an array for each input: a layer, or any other."""

    @property
    def node(self) -> Node: ...
    @property
    def ins(self) -> Sequence[Tensor | None]: ...
    @property
    def outs(self) -> Sequence[Tensor]: ...
    @property
    def values(self) -> Sequence[Array | None]: ...


@dataclass(frozen=True)
class Check:
    """A case, and what it must give."""

    case: Case
    expected: Sequence[Array]

    @property
    def kernel(self) -> str:
        return self.case.call.kernel.name


def checks_of(operator: Operator, cpu: Cpu, told: str = "", **options: Any) -> list[Check]:
    """A check for each kernel that computes the operator on ``cpu``, the default one first.

    ``told`` says where the operator is from, a seed perhaps; ``options`` are a case's.
    """
    node, ins, outs, values = operator.node, operator.ins, operator.outs, operator.values
    expected = OPS[node.op].reference(node, ins, outs, values)
    shapes = [(out.shape, out.dtype) for out in outs]
    told = f"{node.op} {[*ins]} -> {[*outs]} {node.attrs} {told}"
    found = []
    for call in candidates(node, ins, outs, cpu):
        assert isinstance(call, KernelCall)
        arguments = [value for i in call.inputs if (value := values[i]) is not None]
        found.append(Check(Case(call, arguments, shapes, told=told, **options), expected))
    return found


def unequal_kernels(operators: Sequence[Operator], board: Board, variant: str) -> list[str]:
    """The operators for which ``variant`` and the portable kernel differ in a byte on a board.

    For operators with functions of the board's C library, which need not equal the reference's.
    """
    pairs = []
    for operator in operators:
        found = {one.case.call.variant: one for one in checks_of(operator, board.cpu)}
        (portable,) = (one for name, one in found.items() if name.startswith("generic."))
        pairs += [found[variant], portable]
    results = run([one.case for one in pairs], board=board)
    return [
        str(one.case)
        for one, first, second in zip(pairs[::2], results[::2], results[1::2], strict=True)
        if any(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True))
    ]


def overlapping_checks(one: Check, operator: Operator) -> list[Check]:
    """The same call with its first output over each input as far as the kernel's order allows."""
    call, outs = one.case.call, operator.outs
    taken = [tensor for i in call.inputs if (tensor := operator.ins[i]) is not None]
    access = access_of(call, taken, outs)
    if access is None:
        return []
    item = max(tensor.nbytes // tensor.size for tensor in (*taken, *outs))
    found = []
    for position, tensor in enumerate(taken):
        allowed = forbidden_interval(access, position, 0)
        for difference in borders(allowed, tensor.nbytes, outs[0].nbytes, item):
            told = f"{one.case.told} with its output at {difference} of input {position}"
            case = replace(one.case, in_place=position, difference=difference, told=told)
            found.append(replace(one, case=case))
    return found


def borders(found: ForbiddenInterval, first: int, second: int, item: int) -> list[int]:
    """The last differences that are allowed on both sides, whole elements apart, and 0."""
    low = found.low // item * item
    high = -(-found.high // item) * item
    borders = [d for d in (low, high) if -second < d < first]
    return sorted({*borders, 0} if found.allow(0) else set(borders))


def check(
    checks: Sequence[Check],
    board: Board | None = None,
    relative: float = 0,
    flags: Sequence[str] | None = None,
) -> None:
    """Every case on the host or on ``board`` gives the bytes that it must; floats may differ by
    ``relative``."""
    results = run([one.case for one in checks], board=board, flags=flags)
    for one, found in zip(checks, results, strict=True):
        for position, (result, expected) in enumerate(zip(found, one.expected, strict=True)):
            if different := first_difference(result, expected, relative):
                raise AssertionError(f"{one.case}\noutput {position} {different}")


def first_difference(result: Array, expected: Array, relative: float) -> str:
    """Where two arrays first differ, in words; nothing where they do not."""
    wrong = result != expected
    if result.dtype.kind == "f":
        wrong &= ~np.isclose(result, expected, relative, 1e-30 if relative else 0, equal_nan=True)
    if not wrong.any():
        return ""
    place = np.unravel_index(int(wrong.reshape(-1).argmax()), wrong.shape)
    return (
        f"first differs at {tuple(map(int, place))}: {result[place]} instead of {expected[place]}; "
        f"{np.count_nonzero(wrong)} of {wrong.size} differ"
    )


def count(checks: Iterable[Check]) -> dict[str, int]:
    """How many checks each kernel has."""
    counts: dict[str, int] = {}
    for one in checks:
        counts[one.kernel] = counts.get(one.kernel, 0) + 1
    return counts
