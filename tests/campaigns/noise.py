#!/usr/bin/env python3
"""Counts inferences over lines that damage bytes: which are right, what they cost.

Every byte in both directions is hit with the rate's probability: a bit of
it flips, it is lost, comes twice, or another one comes before it, by the seed.
"""

from __future__ import annotations

import argparse
import sys

from lossy_proxy import Weather
from noise_campaign import digits_over_noise

from hil.cli.console import table

RATES = (0.0, 1e-3, 3e-3, 5e-3, 1e-2)
#: At this rate all inferences must be right within the limit.
PROVEN_RATE, LIMIT_S = 1e-3, 60.0


def main() -> int:
    """Run the campaign; 1 when a result is wrong or the proven rate is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rates", nargs="*", type=float, default=RATES, help="default: %(default)s")
    parser.add_argument("--inferences", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    args = parser.parse_args()

    rows = []
    is_good = True
    for rate in args.rates:
        tally = digits_over_noise(Weather(per_byte=rate, seed=args.seed), args.inferences)
        rows.append(
            [
                f"{rate:g}",
                tally.right,
                tally.wrong,
                f"{tally.right / tally.seconds:.1f}",
                tally.requests,
                tally.repeated,
                type(tally.error).__name__ if tally.error else "",
            ]
        )
        is_good &= tally.wrong == 0
        if rate <= PROVEN_RATE:
            limit_s = LIMIT_S * args.inferences / 1000
            is_good &= tally.right == args.inferences and tally.seconds < max(limit_s, 5)
    titles = ["byte error rate", "right", "wrong", "per second", "requests", "repeated", "ended by"]
    print(table(rows, titles))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
