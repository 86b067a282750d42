"""Determinants, inverses and solutions of linear equations, for small matrices of constant sizes.

Gauss' elimination with partial pivoting, and Cholesky's decomposition, unrolled over the rows. A
matrix that has no inverse, or is not positive definite, gives infinite values or NaN where PyTorch
raises an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilc.frontends.pt2.model import Operation, Outputs, translates

#: Most rows of a matrix that is unrolled.
_MOST_ROWS = 32


@dataclass
class _Matrices:
    """Matrices ``[batch, rows, columns]`` in the nodes of one call."""

    c: Operation
    dtype: str

    def column(self, x: str, index: int) -> str:
        """Return a column, ``[batch, rows, 1]``."""
        return self._taken(x, index, 2)

    def row(self, x: str, index: int) -> str:
        """Return a row, ``[batch, 1, columns]``."""
        return self._taken(x, index, 1)

    def _taken(self, x: str, index: int, axis: int) -> str:
        return self.c.emit("Gather", x, self.c.integers([index]), axis=axis)

    def constant(self, value: object) -> str:
        return self.c.constant(value, self.dtype)

    def minus(self, x: str, y: str) -> str:
        return self.c.emit("Sub", x, y)

    def times(self, x: str, y: str) -> str:
        return self.c.emit("Mul", x, y)


def _operand(c: Operation, name: str) -> tuple[str, tuple[int, ...], int]:
    """Return a batch of square matrices as ``[batch, n, n]``, the shape of the batch, and n."""
    *lead, rows, columns = c.shape(name)
    if rows != columns or not 1 <= rows <= _MOST_ROWS:
        c.refuse(f"takes matrices of {rows} x {columns}",
                 f"square matrices of up to {_MOST_ROWS} rows are supported")  # fmt: skip
    batch = int(np.prod(lead, dtype=int))
    return c.reshape(c.tensor(name), (batch, rows, rows)), tuple(lead), rows


def _eliminated(m: _Matrices, x: str, n: int) -> tuple[str, list[str], list[str]]:
    """Return ``[batch, n, columns]`` with the identity in its first n columns, the pivots
    (``[batch, 1, 1]``), and for each the sign that the exchange of its row gives a determinant.
    """
    c = m.c
    places = np.arange(n).reshape(1, n, 1)
    pivots, signs = [], []
    for k in range(n):
        size = c.emit("Abs", m.column(x, k))
        if k:
            size = c.emit("Where", c.constant(places < k), m.constant(-1), size)
        best = c.emit("ArgMax", size, axis=1, keepdims=1)
        chosen = c.emit("Equal", c.constant(places), best)
        is_chosen = c.cast(chosen, "bool", m.dtype)
        pivot_row = c.emit("ReduceSum", m.times(x, is_chosen), c.integers([1]), keepdims=1)
        # The row that was in its place moves to where the pivot's row was.
        x = c.emit("Where", chosen, m.row(x, k), x)
        pivot = m.column(pivot_row, k)
        pivot_row = c.emit("Div", pivot_row, pivot)
        pivots.append(pivot)
        kept = c.emit("Equal", best, c.constant(k, "int64"))
        signs.append(c.emit("Where", kept, m.constant(1), m.constant(-1)))
        others = m.minus(x, m.times(m.column(x, k), pivot_row))
        x = c.emit("Where", c.constant(places == k), pivot_row, others)
    return x, pivots, signs


def _multiplied(c: Operation, parts: list[str]) -> str:
    found = parts[0]
    for part in parts[1:]:
        found = c.emit("Mul", found, part)
    return found


@translates("aten.linalg_det", "aten.det", "aten._linalg_det")
def det(c: Operation) -> Outputs:
    """Translate a determinant to the product of the pivots."""
    x, lead, n = _operand(c, "A" if c.has("A") else "self")
    _, pivots, signs = _eliminated(_Matrices(c, c.result.dtype), x, n)
    found = _filled_zero(c, _multiplied(c, [*pivots, *signs]), pivots)
    return [c.reshape(found, lead)]


def _filled_zero(c: Operation, product: str, pivots: list[str]) -> str:
    """Return a product of pivots, which is 0 from the first one that is 0: others are NaN then."""
    zero = c.constant(0, c.result.dtype)
    is_zero = [c.emit("Equal", pivot, zero) for pivot in pivots]
    some = is_zero[0]
    for one in is_zero[1:]:
        some = c.emit("Or", some, one)
    return c.emit("Where", some, zero, product)


@translates("aten.linalg_slogdet", "aten.slogdet", "aten._linalg_slogdet", "aten.logdet")
def slogdet(c: Operation) -> Outputs:
    """Translate the sign of a determinant and the logarithm of its magnitude to those of the
    pivots; ``logdet`` is NaN where the sign is negative.
    """
    x, lead, n = _operand(c, "A" if c.has("A") else "self")
    _, pivots, signs = _eliminated(_Matrices(c, c.result.dtype), x, n)
    all_signs = [*(c.emit("Sign", pivot) for pivot in pivots), *signs]
    sign = _filled_zero(c, _multiplied(c, all_signs), pivots)
    logarithms = [c.emit("Log", c.emit("Abs", pivot)) for pivot in pivots]
    total = logarithms[0]
    for one in logarithms[1:]:
        total = c.emit("Add", total, one)
    is_zero = c.emit("Equal", sign, c.constant(0, c.result.dtype))
    total = c.emit("Where", is_zero, c.constant(-np.inf, c.result.dtype), total)
    if "logdet" in c.call.target and "slogdet" not in c.call.target:
        negative = c.emit("Less", sign, c.constant(0, c.result.dtype))
        total = c.emit("Where", negative, c.constant(np.nan, c.result.dtype), total)
        return c.reshape(total, lead)
    return [c.reshape(sign, lead), c.reshape(total, lead)]


@translates("aten.linalg_inv", "aten.inverse", "aten.linalg_inv_ex")
def inv(c: Operation) -> Outputs:
    """Translate an inverse to the solution for the identity."""
    x, lead, n = _operand(c, "A" if c.has("A") else "self")
    batch = int(np.prod(lead, dtype=int))
    identity = c.constant(np.broadcast_to(np.eye(n), (batch, n, n)), c.result.dtype)
    return [c.reshape(_solved(c, x, identity, n, n), (*lead, n, n))]


def _solved(c: Operation, x: str, y: str, n: int, columns: int) -> str:
    both = c.emit("Concat", x, y, axis=2)
    solved, _, _ = _eliminated(_Matrices(c, c.result.dtype), both, n)
    return c.emit("Slice", solved, *(c.integers([v]) for v in (n, n + columns, 2)))


@translates("aten.linalg_solve", "aten.linalg_solve_ex", "aten._linalg_solve_ex")
def solve(c: Operation) -> Outputs:
    """Translate aten.linalg_solve: B is one vector or a matrix for each A, on either side."""
    x, lead, n = _operand(c, "A")
    given = c.shape("B")
    is_vector = len(given) == 1 or given == (*lead, n)
    left = c.get("left", True)
    rows = given if not is_vector else (*given, 1)
    batch = int(np.prod(lead, dtype=int))
    y = c.reshape(c.tensor("B"), rows)
    if not left and not is_vector:
        x, y = (_turned(c, t, rank) for t, rank in ((x, 3), (y, len(rows))))
        rows = (*rows[:-2], rows[-1], rows[-2])
    y = c.emit("Expand", y, c.integers((*lead, *rows[-2:])))
    solved = _solved(c, x, c.reshape(y, (batch, *rows[-2:])), n, rows[-1])
    if not left and not is_vector:
        solved = _turned(c, solved, 3)
    return [c.reshape(solved, c.result_shape)]


def _turned(c: Operation, x: str, rank: int) -> str:
    """Return matrices with rows and columns exchanged."""
    return c.emit("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


@translates("aten.linalg_cholesky", "aten.cholesky", "aten.linalg_cholesky_ex")
def cholesky(c: Operation) -> Outputs:
    """Translate Cholesky's decomposition: column by column, less its outer product."""
    x, lead, n = _operand(c, "self")
    upper = c.get("upper", False)
    m, columns = _Matrices(c, c.result.dtype), []
    for k in range(n):
        column = m.column(x, k)
        below = (np.arange(n) >= k).reshape(1, n, 1)
        column = c.emit("Where", c.constant(below), column, m.constant(0))
        column = c.emit("Div", column, c.emit("Sqrt", m.row(column, k)))
        columns.append(column)
        if k + 1 < n:
            x = m.minus(x, m.times(column, _turned(c, column, 3)))
    found = c.emit("Concat", *columns, axis=2)
    return [c.reshape(_turned(c, found, 3) if upper else found, (*lead, n, n))]


def _substituted(c: Operation, x: str, y: str, n: int, *, upper: bool, unit: bool) -> str:
    """Return the solution of a triangular system, row by row."""
    m, rows = _Matrices(c, c.result.dtype), {}
    for k in reversed(range(n)) if upper else range(n):
        row = m.row(y, k)
        if not unit:
            row = c.emit("Div", row, m.column(m.row(x, k), k))
        rows[k] = row
        y = m.minus(y, m.times(m.column(x, k), row))
    return c.emit("Concat", *(rows[k] for k in range(n)), axis=1)


@translates("aten.linalg_solve_triangular", "aten.cholesky_solve")
def solve_triangular(c: Operation) -> str:
    """Solve with triangular matrices by substitution; ``cholesky_solve`` does so twice."""
    name, twice = ("input2", True) if c.has("input2") else ("self", False)
    x, lead, n = _operand(c, name)
    other, upper = ("self", c.get("upper", False)) if twice else ("B", c.get("upper"))
    given = c.shape(other)
    y = c.tensor(other)
    left = c.get("left", True)
    if not left:
        x, y, upper = _turned(c, x, 3), _turned(c, y, len(given)), not upper
        given = (*given[:-2], given[-1], given[-2])
    batch = int(np.prod(lead, dtype=int))
    y = c.emit("Expand", y, c.integers((*lead, *given[-2:])))
    y = c.reshape(y, (batch, *given[-2:]))
    if twice:
        lower = _turned(c, x, 3) if upper else x
        y = _substituted(c, lower, y, n, upper=False, unit=False)
        found = _substituted(c, _turned(c, lower, 3), y, n, upper=True, unit=False)
    else:
        unit = c.get("unitriangular", False)
        found = _substituted(c, x, y, n, upper=upper, unit=unit)
    return c.reshape(found if left else _turned(c, found, 3), c.result_shape)
