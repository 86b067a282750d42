"""Steps of optimizers, which ONNX's domain for training defines."""

from __future__ import annotations

from collections.abc import Callable

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.arithmetic import add, divide, multiply, subtract
from hilc.ir import Tensor

_DOMAIN = "ai.onnx.preview.training"

#: A step of an optimizer: the rate, the count of updates, the parameter and its gradient, and the
#: optimizer's state of the parameter; it returns the parameter and the state after the step.
_Step = Callable[[Operation, Tensor, Tensor, Tensor, Tensor, list[Tensor]], list[Tensor]]


def _each(n: Operation, kept: int, step: _Step) -> list[Tensor]:
    """Return the outputs of all parameters: first the parameters, then the optimizer's state by
    kind.
    """
    rate, count = n.input(0), n.input(1)
    if (n.count - 2) % (2 + kept):
        n.invalid(f"has {n.count} inputs, not 2 and {2 + kept} for each parameter")
    parameters = (n.count - 2) // (2 + kept)
    rows = []
    for i in range(parameters):
        x, gradient, *old = [n.input(2 + i + kind * parameters) for kind in range(2 + kept)]
        if not (x.element.is_computed_real and rate.element.is_computed_real):
            n.refuse(f"updates {x.dtype} at a rate of {rate.dtype}", "train parameters of float32")
        rows.append(step(n, rate, count, x, gradient, old))
    return [row[kind] for kind in range(1 + kept) for row in rows]


def _decayed(n: Operation, x: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient with that of a penalty for large parameters."""
    factor = n.number("norm_coefficient", 0.0)
    return add(n, multiply(n, x, factor), gradient) if factor else gradient


def _mixed(n: Operation, old: Tensor, new: Tensor, share: float) -> Tensor:
    return add(n, multiply(n, old, share), multiply(n, new, 1 - share))


def _is_first(n: Operation, count: Tensor) -> Tensor:
    return n.emit("LESS_EQUAL", count, n.constant(0, count.dtype))


@translates("Adagrad", domain=_DOMAIN)
def adagrad(n: Operation) -> list[Tensor]:
    """Divide by the root of the sum of all squared gradients."""
    return _each(n, 1, _adagrad)


def _adagrad(
    n: Operation, rate: Tensor, count: Tensor, x: Tensor, gradient: Tensor, old: list[Tensor]
) -> list[Tensor]:
    decay = n.number("decay_factor", 0.0)
    slowed = rate
    if decay:
        slowed = divide(n, rate, add(n, multiply(n, n.cast(count, "float32"), decay), 1.0))
    whole = _decayed(n, x, gradient)
    squares = add(n, old[0], multiply(n, whole, whole))
    root = add(n, n.emit("SQRT", squares), n.number("epsilon", 1e-6))
    return [subtract(n, x, divide(n, multiply(n, whole, slowed), root)), squares]


@translates("Adam", domain=_DOMAIN)
def adam(n: Operation) -> list[Tensor]:
    """Divide the mean of gradients by the root of the mean of their squares."""
    return _each(n, 2, _adam)


def _adam(
    n: Operation, rate: Tensor, count: Tensor, x: Tensor, gradient: Tensor, old: list[Tensor]
) -> list[Tensor]:
    alpha, beta = n.number("alpha", 0.9), n.number("beta", 0.999)
    whole = _decayed(n, x, gradient)
    means = _mixed(n, old[0], whole, alpha)
    squares = _mixed(n, old[1], multiply(n, whole, whole), beta)
    root = add(n, n.emit("SQRT", squares), n.number("epsilon", 1e-6))
    turns = n.cast(count, "float32")
    # What the means lack because they start at zero.
    of_squares, of_means = (
        subtract(n, 1.0, n.emit("POW", n.constant(share, "float32"), turns))
        for share in (beta, alpha)
    )
    corrected = divide(n, multiply(n, rate, n.emit("SQRT", of_squares)), of_means)
    used = n.emit("SELECT_V2", _is_first(n, count), rate, corrected)
    new = subtract(n, x, divide(n, multiply(n, means, used), root))
    after = n.number("norm_coefficient_post", 0.0)
    return [multiply(n, new, 1 - after) if after else new, means, squares]


@translates("Momentum", domain=_DOMAIN)
def momentum(n: Operation) -> list[Tensor]:
    """Add gradients up with a share of the sum before."""
    return _each(n, 1, _momentum)


def _momentum(
    n: Operation, rate: Tensor, count: Tensor, x: Tensor, gradient: Tensor, old: list[Tensor]
) -> list[Tensor]:
    alpha, beta = n.number("alpha"), n.number("beta")
    whole = _decayed(n, x, gradient)
    first = n.constant(1, "float32")
    share = n.emit("SELECT_V2", _is_first(n, count), first, n.constant(beta, "float32"))
    new = add(n, multiply(n, old[0], alpha), multiply(n, whole, share))
    mode = n.text("mode")
    if mode not in ("standard", "nesterov"):
        n.invalid(f"has the mode {mode!r} (accepted: standard, nesterov)")
    step = new if mode == "standard" else add(n, whole, multiply(n, new, alpha))
    return [subtract(n, x, multiply(n, step, rate)), new]
