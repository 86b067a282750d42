"""Einsum: diagonals, sums, products of matrices and transpositions, one operand after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.matmul import product
from hilc.frontends.onnx.translators.movement import broadcast, sliced
from hilc.ir import Tensor
from hilc.ops.attributes import ReductionAttributes

_ELLIPSIS = "..."


@dataclass(frozen=True)
class _Labelled:
    """A tensor whose axes have names, each of them once."""

    tensor: Tensor
    labels: tuple[str, ...]

    def size(self, labels: Sequence[str]) -> int:
        return prod(self.sizes(labels))

    def sizes(self, labels: Sequence[str]) -> list[int]:
        return [self.tensor.shape[self.labels.index(label)] for label in labels]


@translates("Einsum")
def einsum(n: Operation) -> Tensor:
    """Translate Einsum to diagonals, sums, transpositions and products of two operands each."""
    inputs = [n.input(i) for i in range(n.count)]
    terms, result = _parsed(n, n.text("equation").replace(" ", ""), inputs)
    operands = [_Labelled(*_diagonal(n, x, term)) for x, term in zip(inputs, terms, strict=True)]
    operands = _broadcast(n, operands)
    found = operands[0]
    for i, other in enumerate(operands[1:], 1):
        needed = {*result, *(label for later in operands[i + 1 :] for label in later.labels)}
        a = _summed(n, found, needed | {*other.labels})
        b = _summed(n, other, needed | {*a.labels})
        found = _multiplied(n, a, b, needed)
    found = _summed(n, found, result)
    order = [found.labels.index(label) for label in result]
    return n.transpose(found.tensor, order)


def _parsed(
    n: Operation, equation: str, inputs: Sequence[Tensor]
) -> tuple[list[list[str]], list[str]]:
    """Return the labels of each operand's axes, and of the result's."""
    left, arrow, right = equation.partition("->")
    written = left.split(",")
    if len(written) != len(inputs):
        n.invalid(f"has {len(inputs)} operands, and the equation {equation!r} names {len(written)}")
    terms = [
        _labels(n, term, len(x.shape), equation) for term, x in zip(written, inputs, strict=True)
    ]
    every = [label for term in terms for label in term]
    dots = sorted({label for label in every if label.startswith(_ELLIPSIS)}, reverse=True)
    if arrow:
        letters = right.replace(_ELLIPSIS, ".")
        result = [label for c in letters for label in (dots if c == "." else [c])]
    else:
        single = {label for label in every if every.count(label) == 1}
        result = dots + sorted(label for label in single if label not in dots)
    if len({*result}) != len(result) or not {*result} <= {*every}:
        n.invalid(f"has the equation {equation!r}, whose result names other axes, or one twice")
    return terms, result


def _labels(n: Operation, term: str, rank: int, equation: str) -> list[str]:
    """Return the labels of an operand; axes of an ellipsis are counted from its end."""
    letters = term.replace(_ELLIPSIS, ".")
    covered = rank - len(letters.replace(".", ""))
    if covered < 0 or letters.count(".") > 1 or ("." not in letters and covered):
        n.invalid(f"has an operand of {rank} axes for {term!r} in {equation!r}")
    dots = [f"{_ELLIPSIS}{i:02}" for i in reversed(range(covered))]
    return [label for c in letters for label in (dots if c == "." else [c])]


def _diagonal(n: Operation, x: Tensor, labels: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
    """Return the elements whose places agree along axes of one label."""
    left = list(labels)
    while len({*left}) < len(left):
        label = next(label for label in left if left.count(label) > 1)
        first = left.index(label)
        second = left.index(label, first + 1)
        size = x.shape[first]
        if x.shape[second] != size:
            n.invalid(f"has axes of {size} and {x.shape[second]} elements, both called {label!r}")
        rest = [axis for axis in range(len(left)) if axis not in (first, second)]
        sizes = [x.shape[axis] for axis in rest]
        rows = n.reshape(n.transpose(x, (first, second, *rest)), (size * size, *sizes))
        ends, begins = (size * size, *sizes), [0] * (1 + len(rest))
        x = sliced(n, rows, begins, ends, [size + 1, *(1 for _ in rest)])
        left = [label, *(left[axis] for axis in rest)]
    return x, tuple(left)


def _broadcast(n: Operation, operands: Sequence[_Labelled]) -> list[_Labelled]:
    """Return the operands with axes of one element repeated to the size that others have."""
    sizes: dict[str, int] = {}
    for operand in operands:
        for label, size in zip(operand.labels, operand.tensor.shape, strict=True):
            known = sizes.get(label, 1)
            if known != size and 1 not in (known, size):
                n.invalid(f"has axes of {known} and {size} elements, both called {label!r}")
            sizes[label] = max(known, size)
    return [
        _Labelled(broadcast(n, x.tensor, [sizes[label] for label in x.labels]), x.labels)
        for x in operands
    ]


def _summed(n: Operation, x: _Labelled, needed: Collection[str]) -> _Labelled:
    """Return a tensor without the axes that nothing needs, summed along them."""
    axes = [axis for axis, label in enumerate(x.labels) if label not in needed]
    if not axes:
        return x
    attrs = ReductionAttributes(keep_dims=False)
    made = n.emit("SUM", x.tensor, n.constant(axes, "int32"), attrs=attrs)
    return _Labelled(made, tuple(label for label in x.labels if label in needed))


def _multiplied(n: Operation, a: _Labelled, b: _Labelled, needed: Collection[str]) -> _Labelled:
    """Return the product of two tensors, summed over common labels that no later term needs."""
    both = [label for label in a.labels if label in b.labels]
    batch = [label for label in both if label in needed]
    inner = [label for label in both if label not in needed]
    rows = [label for label in a.labels if label not in both]
    columns = [label for label in b.labels if label not in both]
    left, right = (
        n.reshape(
            n.transpose(x.tensor, [x.labels.index(label) for label in order]),
            [*x.sizes(batch), *(x.size(part) for part in parts)],
        )
        for x, order, parts in (
            (a, (*batch, *rows, *inner), (rows, inner)),
            (b, (*batch, *inner, *columns), (inner, columns)),
        )
    )
    made = product(n, left, right)
    shape = [*a.sizes(batch), *a.sizes(rows), *b.sizes(columns)]
    return _Labelled(n.reshape(made, shape), (*batch, *rows, *columns))
