"""Writes quant.json, the vectors that the arithmetic in Python and C is tested on (``--update``).

The expected values come from gemmlowp's definitions in whole numbers of any size, written down here
apart from the code under test: C's division truncates, a mask tells the remainder, and so on.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from fractions import Fraction
from pathlib import Path

FILE = Path(__file__).with_name("quant.json")

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
_MULTIPLIERS = (2**30, 2**30 + 1, 1518500250, 2**31 - 2, INT32_MAX)
_VALUES = (
    INT32_MIN, INT32_MIN + 1, -(2**30), -65537, -129, -128, -3, -2, -1,
    0, 1, 2, 3, 127, 128, 65535, 2**30 - 1, 2**30, INT32_MAX - 1, INT32_MAX,
)  # fmt: skip
_FACTORS = (
    0.0, 1.0, 0.5, 0.25, 1.0 - 2.0**-53, 1.0 - 2.0**-32, 1.0 - 2.0**-33, 0.75, 1.5, 3.0,
    2.0**-31, 2.0**-32, 2.0**-33, 1.99 * 2.0**-33, 1e-30, 2.0**29, 2.0**30, 2.0**31, 1e30,
)  # fmt: skip


def _truncating_divide(a: int, b: int) -> int:
    return abs(a) // b if a >= 0 else -(abs(a) // b)


def _int32(x: int) -> int:
    return (x + 2**31) % 2**32 - 2**31


def _doubling_high_mul(a: int, b: int) -> int:
    if a == b == INT32_MIN:
        return INT32_MAX
    product = a * b
    nudge = 2**30 if product >= 0 else 1 - 2**30
    return _truncating_divide(product + nudge, 2**31)


def _rounding_divide_by_pot(x: int, exponent: int) -> int:
    exact = Fraction(x, 2**exponent)
    magnitude = math.floor(abs(exact) + Fraction(1, 2))
    return magnitude if x >= 0 else -magnitude


def _requantize(x: int, multiplier: int, shift: int) -> int:
    high = _doubling_high_mul(_int32(x << max(shift, 0)), multiplier)
    return _rounding_divide_by_pot(high, max(-shift, 0))


def _real_product(x: int, multiplier: int, shift: int) -> Fraction:
    return Fraction(x * multiplier) * Fraction(2) ** (shift - 31)


def _saturated(x: int) -> int:
    return max(-(2**30), min(2**30, x))


def _half_up(x: int, multiplier: int, shift: int) -> int:
    return _saturated(math.floor(_real_product(x, multiplier, shift) + Fraction(1, 2)))


def _even(x: int, multiplier: int, shift: int) -> int:
    # round() of a fraction is to even.
    return _saturated(round(_real_product(x, multiplier, shift)))


def _quantize_multiplier(real: float) -> list[int]:
    if real == 0:
        return [0, 0]
    exact = Fraction(real)
    shift = 0
    while exact / Fraction(2) ** shift >= 1:
        shift += 1
    while exact / Fraction(2) ** shift < Fraction(1, 2):
        shift -= 1
    multiplier = math.floor(exact / Fraction(2) ** shift * 2**31 + Fraction(1, 2))
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    if shift < -31:
        return [0, 0]
    return [INT32_MAX, 30] if shift > 30 else [multiplier, shift]


def vectors() -> dict[str, list[list[int | str]]]:
    """Rows of arguments and result for each function."""
    rng = random.Random(20)

    def value() -> int:
        return rng.choice(_VALUES) if rng.random() < 0.3 else rng.getrandbits(32) - 2**31

    def near_tie(multiplier: int, exponent: int) -> int:
        tie = Fraction((2 * rng.randrange(-200, 200) + 1) * 2 ** (exponent + 30), multiplier)
        return max(-(2**30) + 1, min(2**30 - 1, round(tie) + rng.randrange(-2, 3)))

    high_mul = [(a, b) for a in _VALUES for b in (INT32_MIN, -3, 2**30, INT32_MAX)]
    high_mul += [(value(), value()) for _ in range(200)]
    by_pot = [(x, e) for x in _VALUES for e in (0, 1, 2, 8, 30, 31)]
    by_pot += [(value(), rng.randrange(32)) for _ in range(200)]
    requantize = [(x, m, s) for x in _VALUES for m in _MULTIPLIERS for s in (-31, -9, -1, 0, 1, 30)]
    requantize += [
        (value(), rng.randrange(2**30, 2**31), rng.randrange(-31, 31)) for _ in range(300)
    ]
    narrow = [
        (x, m, s, z)
        for x in _VALUES
        if abs(x) < 2**30
        for m in (0, *_MULTIPLIERS)
        for s, z in ((-31, 0), (-9, -128), (-1, 127))
    ]
    for _ in range(400):
        multiplier, exponent = rng.randrange(2**30, 2**31), rng.randrange(1, 20)
        narrow.append(
            (near_tie(multiplier, exponent), multiplier, -exponent, rng.randrange(-128, 128))
        )
    # Ties: few bits in the multiplier, so that the sums of a layer reach them.
    ties = []
    for _ in range(300):
        bits, exponent = rng.randrange(1, 6), rng.randrange(1, 14)
        multiplier = (2 ** (bits - 1) + rng.randrange(2 ** (bits - 1))) << (31 - bits)
        near = near_tie(multiplier, exponent) if rng.random() < 0.5 else rng.randrange(-4096, 4096)
        ties.append((near, multiplier, -exponent))
    # Sums of 64 bits, of which the upper and the lower word are two numbers; some near a tie.
    wide = []
    for _ in range(600):
        multiplier, shift = rng.randrange(2**30, 2**31), rng.randrange(-47, 8)
        if rng.random() < 0.3:
            multiplier = rng.randrange(1, 64) << 25
        tie = (2 * rng.randrange(-32768, 32768) + 1) * Fraction(2) ** (30 - shift) / multiplier
        drawn = rng.getrandbits(48) - 2**47
        chosen = round(tie) + rng.randrange(-1, 2) if rng.random() < 0.5 else drawn
        wide.append((max(-(2**47) + 1, min(2**47 - 1, chosen)), multiplier, shift))
    factors = [*_FACTORS, *(math.ldexp(rng.random(), rng.randrange(-40, 35)) for _ in range(200))]
    return {
        "quantize_multiplier": [[f.hex(), *_quantize_multiplier(f)] for f in factors],
        "doubling_high_mul": [[a, b, _doubling_high_mul(a, b)] for a, b in high_mul],
        "rounding_divide_by_pot": [[x, e, _rounding_divide_by_pot(x, e)] for x, e in by_pot],
        "requantize": [[*row, _requantize(*row)] for row in requantize],
        "requantize_narrow": [[*row, _requantize(*row[:3]) + row[3]] for row in narrow],
        "requantize_half_up": [[*row, _half_up(*row)] for row in requantize],
        "requantize_half_up_narrow": [[*row, _half_up(*row[:3]) + row[3]] for row in narrow],
        "requantize_even": [[*row, _even(*row)] for row in (*requantize, *ties)],
        "requantize_wide_even": [
            [x >> 32, (x + 2**31) % 2**32 - 2**31, m, s, _even(x, m, s)] for x, m, s in wide
        ],
    }


def text() -> str:
    """The file: a row a line."""
    functions = [
        f'"{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]"
        for name, rows in vectors().items()
    ]
    return "{\n" + ",\n".join(functions) + "\n}\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", required=True, help="rewrite quant.json")
    parser.parse_args()
    FILE.write_text(text(), encoding="utf-8")
