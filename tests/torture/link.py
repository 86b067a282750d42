"""Inferences over a line that damages bytes."""

from __future__ import annotations

from lossy_proxy import Weather
from noise_campaign import digits_over_noise

from torture.campaign import Budget, Figures, Finding

TITLE = "The line"
ABOUT = """Every byte in both directions is hit with the rate's probability: a bit of it flips, it
is lost, comes twice, or another one comes before it. A result that is not the reference's is a
finding."""

RATES = (1e-4, 1e-3, 1e-2)


def run(budget: Budget) -> Figures:
    """Run the digits model over lines of each rate."""
    inferences = budget.count(minutes=300, hours=10_000)
    rows = []
    findings = []
    for rate in RATES:
        tally = digits_over_noise(Weather(per_byte=rate, seed=budget.seed), inferences)
        ended = type(tally.error).__name__ if tally.error else "-"
        rows.append(["digits", f"{rate:g}", str(tally.right), str(tally.wrong), ended])
        if tally.wrong:
            how = f"python ci/torture.py link --seed {budget.seed}"
            findings.append(Finding(f"{tally.wrong} wrong results at {rate:g}", how))
    return Figures(["model", "byte error rate", "right", "wrong", "ended by"], rows, findings)
