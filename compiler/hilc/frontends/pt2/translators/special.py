"""Special functions, as approximations by polynomials whose errors are below 1e-6 of the values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.frontends.pt2.model import Operation, translates

#: Lanczos' approximation of the gamma function with g = 5 (Press et al., Numerical Recipes).
_LANCZOS = (
    76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155,
    1.208650973866179e-3, -5.395239384953e-6,
)  # fmt: skip
#: Steps by which the digamma function's argument is raised to where its series is exact.
_RAISED = 6
#: Coefficients of the inverse error function, highest power first (Giles, Approximating the erfinv
#: function): for w = -log(1 - x^2) below 5, and above.
_ERFINV_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_ERFINV_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
#: Modified Bessel functions of order 0 and 1, highest power first: of (x / 3.75)^2 up to 3.75, and
#: of 3.75 / x above (Abramowitz and Stegun, 9.8.1 to 9.8.4).
_I0 = (
    (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0),
    (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319,
     0.01328592, 0.39894228),
)  # fmt: skip
_I1 = (
    (0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5),
    (-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018,
     -0.03988024, 0.39894228),
)  # fmt: skip
_BESSEL_BORDER = 3.75


class _Terms:
    """Arithmetic on tensors and numbers, in the nodes of one call."""

    def __init__(self, c: Operation) -> None:
        self._c = c

    def __call__(self, op: str, *operands: str | float) -> str:
        dtype = self._c.result.dtype
        named = [x if isinstance(x, str) else self._c.constant(x, dtype) for x in operands]
        return self._c.emit(op, *named)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Return a polynomial, its coefficients from the highest power on."""
        found: str | float = coefficients[0]
        for coefficient in coefficients[1:]:
            found = self("Add", self("Mul", found, x), coefficient)
        assert isinstance(found, str)
        return found

    def total(self, parts: Sequence[str]) -> str:
        """Return the sum of tensors."""
        found = parts[0]
        for part in parts[1:]:
            found = self("Add", found, part)
        return found


def _argument(c: Operation) -> str:
    return c.cast(c.tensor("self"), c.signature("self").dtype, c.result.dtype)


@translates("aten.lgamma")
def lgamma(c: Operation) -> str:
    """Translate aten.lgamma by Lanczos' series, and Euler's reflection formula below 0.5."""
    t, x = _Terms(c), _argument(c)
    below = t("Less", x, 0.5)
    # The series takes arguments from 0.5 on.
    z = t("Where", below, t("Sub", 1.0, x), x)
    terms = [t("Div", k, t("Add", z, float(i))) for i, k in enumerate(_LANCZOS)]
    series = t("Add", t.total(terms), 1.000000000190015)
    base = t("Add", z, 4.5)
    power = t("Sub", t("Mul", t("Sub", z, 0.5), t("Log", base)), base)
    found = t("Add", t("Add", power, 0.5 * np.log(2 * np.pi)), t("Log", series))
    # The sine of the fraction: that of a large multiple of pi would lose its places.
    fraction = t("Sub", x, t("Floor", x))
    reflected = t(
        "Sub", np.log(np.pi), t("Add", t("Log", t("Sin", t("Mul", fraction, np.pi))), found)
    )
    poles = t("And", t("Equal", fraction, 0.0), t("LessOrEqual", x, 0.0))
    return t("Where", poles, np.inf, t("Where", below, reflected, found))


@translates("aten.digamma")
def digamma(c: Operation) -> str:
    """Translate aten.digamma by its asymptotic series, and the reflection formula below 0.5."""
    t, x = _Terms(c), _argument(c)
    below = t("Less", x, 0.5)
    z = t("Where", below, t("Sub", 1.0, x), x)
    steps = t.total([t("Reciprocal", t("Add", z, float(i))) for i in range(_RAISED)])
    raised = t("Add", z, float(_RAISED))
    inverse = t("Reciprocal", raised)
    squared = t("Mul", inverse, inverse)
    series = t("Mul", squared, t.polynomial(squared, (1 / 252, -1 / 120, 1 / 12)))
    found = t("Sub", t("Log", raised), t("Add", t("Mul", inverse, 0.5), series))
    found = t("Sub", found, steps)
    turned = t("Mul", t("Sub", x, t("Floor", x)), np.pi)
    reflected = t("Sub", found, t("Div", np.pi, t("Tan", turned)))
    # PyTorch: minus infinity at 0, and NaN at the other poles.
    poles = t("And", t("Equal", turned, 0.0), t("Less", x, 0.0))
    other = t("Where", t("Equal", x, 0.0), t("Neg", t("Reciprocal", x)), reflected)
    return t("Where", poles, np.nan, t("Where", below, other, found))


@translates("aten.erfinv")
def erfinv(c: Operation) -> str:
    """Translate aten.erfinv by Giles' polynomials."""
    return _erfinv(_Terms(c), _argument(c))


@translates("aten.special_ndtri")
def ndtri(c: Operation) -> str:
    """Translate aten.special_ndtri to the inverse error function."""
    t = _Terms(c)
    doubled = t("Sub", t("Mul", _argument(c), 2.0), 1.0)
    return t("Mul", _erfinv(t, doubled), np.sqrt(2))


def _erfinv(t: _Terms, x: str) -> str:
    w = t("Neg", t("Log", t("Mul", t("Sub", 1.0, x), t("Add", 1.0, x))))
    central = t.polynomial(t("Sub", w, 2.5), _ERFINV_CENTRAL)
    tail = t.polynomial(t("Sub", t("Sqrt", w), 3.0), _ERFINV_TAIL)
    found = t("Mul", x, t("Where", t("Less", w, 5.0), central, tail))
    ends = t("Equal", t("Abs", x), 1.0)
    return t("Where", ends, t("Mul", x, np.inf), found)


@translates("aten.i0", "aten.special_i0", "aten.special_i0e", "aten.special_i1", "aten.special_i1e")
def bessel(c: Operation) -> str:
    """Translate the modified Bessel functions of the orders 0 and 1 to polynomials."""
    t, x, name = _Terms(c), _argument(c), c.call.target.split(".")[1]
    order, scaled = int("i1" in name), name.endswith("e")
    small, large = (_I0, _I1)[order]
    size = t("Abs", x)
    near = t("Div", t("Min", size, _BESSEL_BORDER), _BESSEL_BORDER)
    near = t.polynomial(t("Mul", near, near), small)
    if order:
        near = t("Mul", near, size)
    away = t("Max", size, _BESSEL_BORDER)
    far = t("Div", t.polynomial(t("Div", _BESSEL_BORDER, away), large), t("Sqrt", away))
    if scaled:
        near = t("Mul", near, t("Exp", t("Neg", size)))
    else:
        far = t("Mul", far, t("Exp", away))
    found = t("Where", t("LessOrEqual", size, _BESSEL_BORDER), near, far)
    return t("Mul", found, t("Sign", x)) if order else found
