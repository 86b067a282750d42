"""Support vector machines, of ONNX's domain ``ai.onnx.ml``: sums of kernel functions of rows and
support vectors, as products of matrices.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.arithmetic import add, multiply, subtract, summed
from hilc.frontends.onnx.translators.classical import ML, labelled, real, transformed
from hilc.ir import Array, Tensor
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.fully_connected import FullyConnectedAttributes

_Floats = npt.NDArray[np.float32]


def _floats(n: Operation, name: str) -> _Floats:
    return np.array(n.numbers(name, ()), np.float32)


def _product(n: Operation, x: Tensor, weights: Array, bias: Array | None = None) -> Tensor:
    """Return ``x @ weights.T + bias``."""
    added = None if bias is None else n.constant(bias, "float32")
    attrs = FullyConnectedAttributes(keep_num_dims=True)
    return n.emit("FULLY_CONNECTED", x, n.constant(weights, "float32"), added, attrs=attrs)


def _vectors(n: Operation, x: Tensor, count: int) -> _Floats:
    """Return the support vectors, ``[count, features]``."""
    vectors = _floats(n, "support_vectors")
    if count < 1 or vectors.size != count * x.shape[1]:
        n.invalid(
            f"has {vectors.size} numbers of {count} support vectors with {x.shape[1]} features"
        )
    return vectors.reshape(count, x.shape[1])


def _kernels(n: Operation, x: Tensor, vectors: _Floats) -> Tensor:
    """Return the kernel function of each row and each support vector."""
    kind = n.text("kernel_type", "LINEAR")
    gamma, offset, degree = n.numbers("kernel_params", (0.0, 0.0, 0.0))
    match kind:
        case "LINEAR":
            return _product(n, x, vectors)
        case "RBF":
            # The distance's square is |x|^2 + |v|^2 - 2 x v, which needs no matrix of differences.
            lengths = (vectors.astype(np.float64) ** 2).sum(axis=1)
            near = _product(n, x, 2 * gamma * vectors, -gamma * lengths)
            own = multiply(n, summed(n, multiply(n, x, x), 1, keep=True), gamma)
            distance = subtract(n, near, own)
            return n.emit("EXP", n.emit("MINIMUM", distance, n.constant(0, "float32")))
        case "SIGMOID":
            return n.emit("TANH", add(n, _product(n, x, gamma * vectors), offset))
        case "POLY":
            if not 1 <= degree <= 16 or degree != int(degree):
                n.refuse(f"has the degree {degree:g}", "whole degrees from 1 to 16 are supported")
            base = power = add(n, _product(n, x, gamma * vectors), offset)
            for _ in range(int(degree) - 1):
                power = multiply(n, power, base)
            return power
    n.invalid(f"has the kernel_type {kind!r} (accepted: LINEAR, POLY, RBF, SIGMOID)")


def _offsets(n: Operation, count: int) -> _Floats:
    rho = _floats(n, "rho")
    if rho.size < count:
        n.invalid(f"has {rho.size} offsets (rho) for {count} sums")
    return rho[:count]


@translates("SVMRegressor", domain=ML)
def regressor(n: Operation) -> Tensor:
    """Translate ai.onnx.ml SVMRegressor to kernel values and a product with the coefficients.

    Raises :class:`~hilc.errors.ModelError` if the number of coefficients is not that of the terms.
    """
    x, count = real(n), n.integer("n_supports", 0)
    weights = _floats(n, "coefficients")[None]
    terms = x if count == 0 else _kernels(n, x, _vectors(n, x, count))
    if weights.shape[1] != terms.shape[1]:
        n.invalid(f"has {weights.shape[1]} coefficients for {terms.shape[1]} terms")
    score = _product(n, terms, weights, _offsets(n, 1))
    if n.integer("one_class", 0):
        inside = n.emit("GREATER", score, n.constant(0, "float32"))
        score = n.emit("SELECT_V2", inside, n.constant(1, "float32"), n.constant(-1, "float32"))
    return transformed(n, score)


@translates("SVMClassifier", domain=ML)
def classifier(n: Operation) -> list[Tensor | None]:
    """Return labels, by the votes of each pair of classes, and the pairs' scores."""
    x, counts = real(n), n.integers("vectors_per_class", ())
    names, labels = n.texts("classlabels_strings", ()), n.integers("classlabels_ints", ())
    classes = len(names) or len(labels)
    if not counts:
        n.refuse("has no support vectors", "export a linear classifier (LinearSVC)")
    if n.numbers("prob_a", ()):
        n.refuse(
            "estimates probabilities, step by step until they change no more",
            "train it with probability=False, and use the scores",
        )
    if len(counts) != classes or classes < 2:
        n.invalid(f"has support vectors of {len(counts)} classes and {classes} labels")
    kernels = _kernels(n, x, _vectors(n, x, sum(counts)))
    weights, votes = _pairs(n, counts)
    scores = _product(n, kernels, weights, _offsets(n, len(weights)))
    won = n.cast(n.emit("GREATER", scores, n.constant(0, "float32")), "float32")
    # The second of a pair has the vote that the first does not have.
    given = _product(n, won, votes, (votes < 0).sum(axis=1))
    if classes == 2:
        sides = (n.emit("NEG", scores), scores)
        scores = n.emit("CONCATENATION", *sides, attrs=ConcatenationAttributes(axis=1))
    label = None if names else labelled(n, given, labels)
    return [label, transformed(n, scores)]


def _pairs(n: Operation, counts: tuple[int, ...]) -> tuple[_Floats, _Floats]:
    """Return the weights of the kernels for each pair of classes, and the pairs that each class is
    in: 1 as its first, -1 as its second.
    """
    classes, total = len(counts), sum(counts)
    stated = _floats(n, "coefficients")
    if stated.size != (classes - 1) * total or min(counts) < 0:
        n.invalid(f"has {stated.size} coefficients of {classes} classes and {total} vectors")
    coefficients = stated.reshape(classes - 1, total)
    ends = np.cumsum((0, *counts))
    pairs = list(combinations(range(classes), 2))
    weights = np.zeros((len(pairs), total), np.float32)
    votes = np.zeros((classes, len(pairs)), np.float32)
    for row, (first, second) in enumerate(pairs):
        for own, other, sign in ((first, second - 1, 1), (second, first, -1)):
            part = slice(ends[own], ends[own + 1])
            weights[row, part] = coefficients[other, part]
            votes[own, row] = sign
    return weights, votes
