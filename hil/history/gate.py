"""Limits for a measurement beside a baseline: what became slower or larger than it may."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hil.errors import InputError
from hil.history.comparison import Change, Comparison, compare, partners, without_partner
from hil.history.measurement import FIGURES, Measurement
from hil.results.bench import CheckedOutputs
from hil.results.history import ExceededLimit, GateEntry
from hilc.support.byte_counts import parse_bytes

_PERCENT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*%")


@dataclass(frozen=True)
class Limit:
    """How much more than the baseline is accepted: a number, or a share of the baseline."""

    #: As the user wrote it.
    text: str
    amount: Fraction
    is_share: bool

    def allows(self, before: float, after: float) -> bool:
        """Return whether ``after`` is within the limit."""
        # Fractions: 2 % of a count is no number that binary floats hold.
        more = Fraction(after) - Fraction(before)
        return more <= (self.amount * Fraction(before) if self.is_share else self.amount)


def parse_limit(text: str) -> Limit | None:
    """Return the limit in ``2%``, ``0``, ``512`` or ``4K``; None for anything else."""
    if match := _PERCENT.fullmatch(text.strip()):
        return Limit(text.strip(), Fraction(match[1]) / 100, True)
    count = parse_bytes(text.strip())
    return None if count is None else Limit(text.strip(), Fraction(count), False)


@dataclass(frozen=True)
class Excess:
    """A figure that has grown beyond its limit."""

    change: Change
    limit: Limit
    #: The layer whose count has grown most, for a count; else empty.
    layer: str = ""
    layer_change: Change | None = None

    def entry(self) -> ExceededLimit:
        """Return the excess as the entry of ``hil gate`` has it."""
        return ExceededLimit(
            **vars(self.change.entry()),
            limit=self.limit.text,
            layer=self.layer or None,
            layer_change=self.layer_change.entry() if self.layer_change else None,
        )


@dataclass(frozen=True)
class Verdict:
    """A measurement beside its baseline, and what exceeds the limits."""

    comparison: Comparison
    excesses: tuple[Excess, ...]

    @property
    def checked(self) -> CheckedOutputs | None:
        """The comparison of the measured firmware's outputs; None if they were not compared."""
        return self.comparison.after.checked

    @property
    def is_correct(self) -> bool:
        """Whether no compared output differs from the reference."""
        return self.checked is None or self.checked.match

    @property
    def passed(self) -> bool:
        """Whether the results are correct and no limit is exceeded."""
        return self.is_correct and not self.excesses

    def entry(self) -> GateEntry:
        """Return the entry of ``hil gate``."""
        return GateEntry(
            model=self.comparison.after.model,
            board=self.comparison.after.board,
            goal=self.comparison.after.goal,
            passed=self.passed,
            checked=self.checked,
            excesses=tuple(excess.entry() for excess in self.excesses),
            comparison=self.comparison.entry(),
        )


def gate(
    baseline: Measurement,
    current: Measurement,
    limits: Mapping[str, Limit],
    *,
    allow_other_model: bool = False,
    check: bool = True,
    allow_fallback: bool = False,
) -> Verdict:
    """Compare ``current`` with ``baseline``; return the limits that it exceeds.

    ``limits`` are by name: ``slower``, ``energy`` and those of
    :data:`~hil.history.measurement.FIGURES`. The verdict also says whether the outputs match.

    Raise :class:`~hil.errors.InputError` if the two cannot be compared: another model, board, unit
    or other inputs, or a limited figure that one of them lacks; with ``check`` also if the outputs
    of ``current`` were not compared with a reference, and without ``allow_fallback`` if only with
    this compiler's own interpreter in place of one.
    """
    if check:
        _require_checked(current, allow_fallback)
        if baseline.checked is not None and not baseline.checked.match:
            raise InputError(
                f"the baseline {baseline.source} is of firmware whose outputs differed from "
                f"{baseline.checked.reference}",
                "give a baseline whose outputs are right, or add --no-check",
            )
    _check_same(baseline, current, allow_other_model)
    comparison = compare(baseline, current)
    changes = {"slower": comparison.count} | {
        figure.limit: Change(
            figure.title, baseline.figures.get(figure.key), current.figures.get(figure.key)
        )
        for figure in FIGURES
        if figure.limit
    }
    changes["energy"] = Change("energy in uJ", baseline.energy_uj, current.energy_uj)
    excesses = []
    for name, limit in limits.items():
        change = changes[name]
        if change.before is None or change.after is None:
            lacking = baseline if change.before is None else current
            how = "with --energy" if name == "energy" else "with this version"
            raise InputError(
                f"{lacking.source} has no {change.title} for {lacking.title}",
                f"measure it again {how}, or drop --max-{name}",
            )
        if not limit.allows(change.before, change.after):
            layer = comparison.most_slowed if name == "slower" else None
            excesses.append(
                Excess(
                    change,
                    limit,
                    f"{layer.layer.shown_op} {layer.layer.name}" if layer else "",
                    layer.change if layer else None,
                )
            )
    return Verdict(comparison, tuple(excesses))


def gates(
    baselines: Sequence[Measurement],
    current: Sequence[Measurement],
    limits: Mapping[str, Limit],
    *,
    allow_other_model: bool = False,
    check: bool = True,
    allow_fallback: bool = False,
    allow_missing: bool = False,
) -> list[Verdict]:
    """Return the verdict on each of ``current`` beside the baseline of its model, board and goal,
    as :func:`gate` does.

    Raise :class:`~hil.errors.InputError` also for a measurement that would be its own baseline, and
    without ``allow_missing`` for a baseline that nothing of ``current`` is compared with.
    """
    if not current:
        raise InputError("nothing was measured", "measure a model: hil bench MODEL --board B")
    pairs = partners(baselines, current)
    for baseline, measurement in pairs:
        if baseline.run is not None and baseline.run == measurement.run:
            raise InputError(
                f"{measurement.source} would be compared with itself: it is both "
                f"the baseline and the measurement of {measurement.title}",
                "give an older baseline, or the model to measure it now: "
                "hil gate MODEL --board B --baseline F",
            )
    left = [] if allow_missing else without_partner(baselines, pairs)
    if left:
        raise InputError(
            f"the baseline {left[0].source} has {left[0].title}, which was not measured now",
            "measure it, too, or add --allow-missing to hold only the others to limits",
        )
    return [
        gate(
            baseline,
            measurement,
            limits,
            allow_other_model=allow_other_model,
            check=check,
            allow_fallback=allow_fallback,
        )
        for baseline, measurement in pairs
    ]


def _require_checked(current: Measurement, allow_fallback: bool) -> None:
    """Raise for a measurement of a firmware whose outputs may be anything."""
    checked = current.checked
    if checked is None:
        raise InputError(
            f"{current.source} does not say whether the outputs of {current.title} are right: it "
            "was measured without a comparison",
            "measure it again, or add --no-check to hold only its costs to limits",
        )
    if checked.is_fallback and not allow_fallback:
        raise InputError(
            f"{current.source}: the outputs of {current.title} were compared only with this "
            "compiler's own interpreter, which is not independent",
            "measure it where the reference runs (hil doctor), or add --allow-fallback",
        )


def _check_same(baseline: Measurement, current: Measurement, allow_other_model: bool) -> None:
    if allow_other_model:
        return
    for what, before, after, remedy in (
        (
            "another model file",
            baseline.model_sha256,
            current.model_sha256,
            "measure a new baseline, or add --allow-other-model if only its weights have changed",
        ),
        (
            "other inputs",
            baseline.inputs_sha256,
            current.inputs_sha256,
            "measure with the same --seed or --inputs",
        ),
    ):
        if before is not None and after is not None and before != after:
            raise InputError(
                f"the baseline {baseline.source} of {baseline.title} was measured with {what} "
                f"(SHA-256 {before[:12]}, now {after[:12]})",
                remedy,
            )
