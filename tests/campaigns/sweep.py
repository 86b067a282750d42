#!/usr/bin/env python3
"""Compares the operators that are tables with a reference, entry by entry.

    python tools/measure.py sweep [OPERATOR...] [--reference tflm] [--count 100000] [--seed 0]

Each operator gets so many random quantizations, the odd ones too. Exits with 1 where any answer
differs.
"""

from __future__ import annotations

import argparse
import sys
import time

from table_sweep import LACKING, SWEPT, sweep

from hilc.ir import Numerics


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help=", ".join(SWEPT))
    parser.add_argument(
        "--reference", choices=[Numerics.TFLM.value, Numerics.LITERT.value], default="tflm"
    )
    parser.add_argument("--count", type=int, default=100_000, help="quantizations of each")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if unknown := set(args.operators) - set(SWEPT):
        parser.error(f"unknown operator {min(unknown)!r}: choose of {', '.join(SWEPT)}")
    print(
        f"{'operator':<22} {'quantizations':>13} {'answers':>11} {'differ':>6} {'refused':>7}  time"
    )
    bad = 0
    reference = Numerics(args.reference)
    for operator in args.operators or [op for op in SWEPT if op not in LACKING[reference]]:
        start = time.monotonic()
        found = sweep(operator, args.count, args.seed, reference)
        seconds = time.monotonic() - start
        print(
            f"{operator:<22} {found.quantizations:>13} {found.answers:>11} "
            f"{len(found.different):>6} {found.refused:>7}  {seconds:.0f} s",
            flush=True,
        )
        for line in found.different[:3]:
            print(f"  {line}")
        bad += len(found.different)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
