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
#: Numerators and denominators of the inverse normal distribution, highest power first (Wichura,
#: Algorithm AS 241, PPND7): for p from 0.075 to 0.925, for p down to exp(-25), and below.
_NDTRI_CENTRAL = (
    (59.10937472, 159.29113202, 50.434271938, 3.3871327179),
    (67.18756360, 78.757757664, 17.895169469, 1.0),
)
_NDTRI_NEAR = (
    (0.17023821103, 1.3067284816, 2.75681539, 1.4234372777),
    (0.12021132975, 0.7370016425, 1.0),
)
_NDTRI_FAR = (
    (0.017337203997, 0.42868294337, 3.081226386, 6.657905115),
    (0.012258202635, 0.24197894225, 1.0),
)
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


def _from_integer(t: _Terms, x: str) -> str:
    """Return the distance to the closest integer, with its sign: exact in floats, so that the sine
    and the tangent of pi times it have the relative error of the argument also beside a pole.
    """
    return t("Sub", x, t("Round", x))


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
    # (z - 0.5) log(base) - base, without the difference of two large numbers.
    power = t("Mul", t("Sub", z, 0.5), t("Sub", t("Log", base), 1.0))
    found = t("Add", t("Add", power, 0.5 * np.log(2 * np.pi) - 5), t("Log", series))
    distance = _from_integer(t, x)
    sine = t("Abs", t("Sin", t("Mul", distance, np.pi)))
    reflected = t("Sub", np.log(np.pi), t("Add", t("Log", sine), found))
    poles = t("And", t("Equal", distance, 0.0), t("LessOrEqual", x, 0.0))
    infinite = t("Or", poles, t("Equal", t("Abs", x), np.inf))
    return t("Where", infinite, np.inf, t("Where", below, reflected, found))


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
    distance = _from_integer(t, x)
    tangent = t("Tan", t("Mul", distance, np.pi))
    reflected = t("Sub", found, t("Div", np.pi, tangent))
    # PyTorch: minus infinity at 0, and NaN at the other poles.
    poles = t("And", t("Equal", distance, 0.0), t("Less", x, 0.0))
    other = t("Where", t("Equal", x, 0.0), t("Neg", t("Reciprocal", x)), reflected)
    return t("Where", poles, np.nan, t("Where", below, other, found))


@translates("aten.erfinv")
def erfinv(c: Operation) -> str:
    """Translate aten.erfinv by Giles' polynomials."""
    return _erfinv(_Terms(c), _argument(c))


@translates("aten.special_ndtri")
def ndtri(c: Operation) -> str:
    """Translate aten.special_ndtri by Wichura's rational functions: of the distance to 1/2 in the
    middle, and of sqrt(-log p) on both sides, where 2 p - 1 would lose p.
    """
    t, p = _Terms(c), _argument(c)

    def rational(x: str, parts: tuple[Sequence[float], Sequence[float]]) -> str:
        return t("Div", t.polynomial(x, parts[0]), t.polynomial(x, parts[1]))

    q = t("Sub", p, 0.5)
    central = t("Mul", q, rational(t("Sub", 0.180625, t("Mul", q, q)), _NDTRI_CENTRAL))
    least = t("Min", p, t("Sub", 1.0, p))
    r = t("Sqrt", t("Neg", t("Log", least)))
    near = rational(t("Sub", r, 1.6), _NDTRI_NEAR)
    far = rational(t("Sub", r, 5.0), _NDTRI_FAR)
    tail = t("Where", t("LessOrEqual", r, 5.0), near, far)
    tail = t("Mul", t("Sign", q), t("Where", t("Equal", least, 0.0), np.inf, tail))
    return t("Where", t("LessOrEqual", t("Abs", q), 0.425), central, tail)


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
