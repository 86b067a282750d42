#!/usr/bin/env python3
"""Makes faults in compiled models and asks `hil verify --per-layer` for the layer and the kind.

``measure.py faults`` runs it: faults in the model and in the generated C of several networks, in
this process and on emulated boards, then as many runs without a fault, in which nothing may be
blamed. ``--write`` puts the figures into docs/reference/faults.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from fault_campaign import NETWORKS, PLACES, Case, Outcome, code_faults, model_faults, outcome

from hil.board import load_board
from hil.cli.console import table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md"
#: Of so many faults one may be called otherwise.
_NAMED = 0.99
#: Networks that a place has no room for.
_TOO_LARGE = {("detector", "microbit")}


def main() -> int:
    """Run both campaigns; 1 if fewer than 99 % of the faults, or not all sound runs, are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=120, help="that show (default: %(default)s)")
    parser.add_argument("--clean", type=int, default=100, help="runs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--place", action="append", choices=PLACES, help="default: all")
    parser.add_argument("--write", action="store_true", help="write docs/reference/faults.md")
    args = parser.parse_args()

    start = time.monotonic()
    cases = [
        Case(network, place)
        for place in args.place or PLACES
        for network in NETWORKS
        if (network, place) not in _TOO_LARGE
    ]
    outcomes: list[Outcome] = []
    for one in _outcomes(cases, np.random.default_rng(args.seed)):
        outcomes.append(one)
        print(_line(one), flush=True)
        if sum(o.found is not None for o in outcomes) == args.faults:
            break
    blamed = list(_false_blames(cases, args.clean))
    text = _text(cases, outcomes, args.clean, blamed)
    print(text)
    print(f"{time.monotonic() - start:.0f} s")
    if args.write:
        PAGE.write_text(_page(text), encoding="utf-8")
    shown = [one for one in outcomes if one.found is not None]
    right = sum(one.is_right for one in shown)
    return 0 if right >= _NAMED * len(shown) and not blamed else 1


def _outcomes(cases: Sequence[Case], rng: np.random.Generator) -> Iterator[Outcome]:
    """Yield faults of all cases in turn, each time of a kind that was made least so far."""
    planned = {case: [*model_faults(case, rng), *code_faults(case, rng)] for case in cases}
    made: Counter[str] = Counter()
    while any(planned.values()):
        for case, left in planned.items():
            order = rng.permutation(len(left))
            for at in sorted(order, key=lambda index: made[left[index][0]]):
                what, make = left.pop(at)
                fault = make()
                if fault is not None:
                    one = outcome(case, fault)
                    made[what] += one.found is not None
                    yield one
                break


def _false_blames(cases: Sequence[Case], runs: int) -> Iterator[str]:
    """Yield what was blamed in runs without a fault; each has its own samples."""
    for number in range(runs):
        case = cases[number % len(cases)]
        case.seed = 100 + number
        report = case.verified(case.library)
        name = f"{case.network} on {case.place}, run {number}"
        if not report.match or report.diagnosis is not None:
            yield f"{name}: {report.diagnosis and report.diagnosis.sentence}"
        if number < len(cases):
            for layer, evidence in enumerate(case.evidence()):
                if evidence.shows_something:
                    yield f"{name}: layer {layer}, {evidence}"


def _line(one: Outcome) -> str:
    verdict = "shows in no sample" if one.found is None else "right" if one.is_right else "WRONG"
    said = "" if one.found is None else f": {one.found.layer}, {one.found.sentence}"
    where = f"{one.case.network} on {one.case.place}, layer {one.fault.layer}"
    return f"{verdict}: {one.fault.what}, {where}{said}"


def _text(
    cases: Sequence[Case], outcomes: Sequence[Outcome], runs: int, blamed: Sequence[str]
) -> str:
    shown = [one for one in outcomes if one.found is not None]
    heads = ["made", "seen", "layer right", "layer and kind right"]

    def row(label: str, ones: Sequence[Outcome]) -> list[object]:
        seen = [one for one in ones if one.found is not None]
        layers = sum(one.is_layer_right for one in seen)
        return [label, len(ones), len(seen), layers, sum(one.is_right for one in seen)]

    whats = dict.fromkeys(one.fault.what for one in outcomes)
    places = dict.fromkeys(case.place for case in cases)
    # The fewest: of a fault in a fused group all kinds are accepted.
    kinds = {
        what: min((one.fault.kinds for one in outcomes if one.fault.what == what), key=len)
        for what in whats
    }
    rows = [
        [*row(what, [o for o in outcomes if o.fault.what == what]), _names(kinds[what])]
        for what in whats
    ]
    by_place = [
        row(
            place if place == "host" else f"{place} ({load_board(place).cpu.name})",
            [o for o in outcomes if o.case.place == place],
        )
        for place in places
    ]
    wrong = [_line(one) for one in shown if not one.is_right]
    return "\n\n".join(
        [
            table([*rows, [*row("all", outcomes), ""]], ["fault", *heads, "may be called"]),
            table(by_place, ["place", *heads]),
            f"{sum(one.is_right for one in shown)} of {len(shown)} faults diagnosed correctly, "
            f"{len(blamed)} wrong diagnoses in {runs} runs without a fault",
            *wrong,
            *blamed,
        ]
    )


def _names(kinds: frozenset[object]) -> str:
    return ", ".join(sorted(str(getattr(kind, "value", kind)) for kind in kinds))


def _page(text: str) -> str:
    return f"""# Faults

The diagnosis of `hil verify --per-layer` for injected faults. `make measure NAME=faults
ARGS=--write` writes this page. A fault is injected into one layer of a network of four: before
compilation, so that it reaches every kernel and every layout of the weights, or in the generated C.
The model then runs on six random samples, in this process or on an emulated board. If no output of
the layer changes in these samples, the fault is not counted as seen, and another one is injected. A
diagnosis is right if it names the changed layer (for an overwritten input: the layer that wrote it)
and a kind that describes the change. For a fault inside of a fused group, only the group is
required, since the group's other layers spread the difference.

A missing bias is injected only if it changes results by more than one step: a smaller change looks
like rounding. In the runs without a fault, every layer also runs on memory filled with a pattern.

```text
{text}
```
"""


if __name__ == "__main__":
    sys.exit(main())
