"""Comparison of two measurements: the count, the memory, and layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hil.errors import InputError
from hil.history.measurement import FIGURES, Measurement, partner_of
from hil.results.bench import MeasuredLayer
from hil.results.history import CompareEntry, CountChange, FigureChange, Measured


@dataclass(frozen=True)
class Change:
    """A figure in both measurements; None where only one has it."""

    title: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """How much more the second one has."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before

    @property
    def percent(self) -> float | None:
        """The difference in per cent of the first one; None where that is 0 or absent."""
        if self.difference is None or not self.before:
            return None
        return 100 * self.difference / self.before

    def entry(self) -> FigureChange:
        """Return the change as the entry of ``hil compare`` has it."""
        return FigureChange(self.title, self.before, self.after, self.difference, self.percent)


@dataclass(frozen=True)
class LayerChange:
    """A layer of both measurements, or of one of them."""

    before: MeasuredLayer | None
    after: MeasuredLayer | None

    @property
    def layer(self) -> MeasuredLayer:
        """The layer as the second measurement has it, if it does."""
        layer = self.after or self.before
        assert layer is not None, "a layer is in one of them"
        return layer

    @property
    def difference(self) -> int:
        """How much more the second one takes; a layer that is absent takes nothing."""
        return (self.after.count if self.after else 0) - (self.before.count if self.before else 0)

    @property
    def change(self) -> Change:
        """The change of the layer's count, under the layer's name."""
        return Change(
            self.layer.name,
            self.before.count if self.before else None,
            self.after.count if self.after else None,
        )

    def entry(self) -> CountChange:
        """Return the change as the entry of ``hil compare`` has it."""
        layer = self.layer
        return CountChange(**vars(self.change.entry()), op=layer.op, ops=layer.ops)


@dataclass(frozen=True)
class Comparison:
    """Two measurements side by side."""

    before: Measurement
    after: Measurement
    #: The count of an inference.
    count: Change
    #: Memory, and energy where both have it.
    figures: tuple[Change, ...]
    layers: tuple[LayerChange, ...]

    @property
    def most_slowed(self) -> LayerChange | None:
        """The layer whose count has grown most; None if none has."""
        most = max(self.layers, key=lambda layer: layer.difference, default=None)
        return most if most is not None and most.difference > 0 else None

    def entry(self) -> CompareEntry:
        """Return the entry of ``hil compare``."""
        return CompareEntry(
            a=_measured(self.before),
            b=_measured(self.after),
            counter=self.after.counter,
            per_inference=self.count.entry(),
            figures=tuple(change.entry() for change in self.figures),
            layers=tuple(layer.entry() for layer in self.layers),
        )


def compare(before: Measurement, after: Measurement) -> Comparison:
    """Return both side by side; raise InputError where their counts have different units, or hold
    for different memories of a simulated core.
    """
    if before.counter != after.counter:
        raise InputError(
            f"{before.source} counts {before.counter}, {after.source} counts {after.counter}",
            "compare measurements of two emulated boards, or of two real ones",
        )
    models = before.memory_model, after.memory_model
    if all(models) and len(set(models)) > 1 and before.board == after.board:
        raise InputError(
            f"{before.source} was measured with {models[0]}, {after.source} with {models[1]}",
            "measure both with the same memory model: --runner verilator:flash_wait=N,...",
        )
    figures = [
        Change(figure.title, before.figures.get(figure.key), after.figures.get(figure.key))
        for figure in FIGURES
        if figure.key in before.figures or figure.key in after.figures
    ]
    if before.energy_uj is not None or after.energy_uj is not None:
        figures.append(Change("energy in uJ", before.energy_uj, after.energy_uj))
    count = Change(f"{after.counter} per inference", before.per_inference, after.per_inference)
    layers = _paired(before.layers, after.layers)
    return Comparison(before, after, count, tuple(figures), layers)


def paired(
    before: Sequence[Measurement], after: Sequence[Measurement]
) -> list[tuple[Measurement, Measurement]]:
    """Return pairs of measurements: of the same model, board and goal, or the only two.

    Raise :class:`~hil.errors.InputError` for a measurement that has no partner.
    """
    if len(before) == len(after) == 1:
        return [(before[0], after[0])]
    pairs = partners(before, after)
    if left := without_partner(before, pairs):
        raise _alone(left[0], after)
    return pairs


def partners(
    before: Sequence[Measurement], after: Sequence[Measurement]
) -> list[tuple[Measurement, Measurement]]:
    """Return each of ``after`` with that of ``before`` of the same model, board and goal.

    Raise :class:`~hil.errors.InputError` for one that has none, and where two have the same.
    """
    pairs: list[tuple[Measurement, Measurement]] = []
    for measurement in after:
        partner = partner_of(measurement, before)
        if partner is None:
            raise _alone(measurement, before)
        if any(partner is taken for taken, _ in pairs):
            raise InputError(
                f"{measurement.source} has several measurements of {partner.title}",
                "keep one of them",
            )
        pairs.append((partner, measurement))
    return pairs


def without_partner(
    before: Sequence[Measurement], pairs: Sequence[tuple[Measurement, Measurement]]
) -> list[Measurement]:
    """Return those of ``before`` that are in no pair."""
    return [one for one in before if not any(one is partner for partner, _ in pairs)]


def _alone(measurement: Measurement, others: Sequence[Measurement]) -> InputError:
    sources = ", ".join(dict.fromkeys(other.source for other in others)) or "the other side"
    titles = "; ".join(other.title for other in others) or "nothing"
    return InputError(
        f"{sources} is of {titles}, not of {measurement.title} as {measurement.source}",
        "compare measurements of the same model, board and goal",
    )


def _paired(
    before: Sequence[MeasuredLayer], after: Sequence[MeasuredLayer]
) -> tuple[LayerChange, ...]:
    """Return the layers of both in their order, those of equal name and operator together.

    Where no name is equal, as in two versions of a model that name their tensors anew, layers of
    equal operators are paired.
    """
    by_name = [[(layer.name, layer.op) for layer in layers] for layers in (before, after)]
    if not set(by_name[0]) & set(by_name[1]):
        by_name = [[("", layer.op) for layer in layers] for layers in (before, after)]
    pairs: list[LayerChange] = []
    matcher = SequenceMatcher(None, by_name[0], by_name[1], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            pairs += [LayerChange(a, b) for a, b in zip(before[i1:i2], after[j1:j2], strict=True)]
        else:
            pairs += [LayerChange(a, None) for a in before[i1:i2]]
            pairs += [LayerChange(None, b) for b in after[j1:j2]]
    return tuple(pairs)


def _measured(measurement: Measurement) -> Measured:
    return Measured(
        source=measurement.source,
        model=measurement.model,
        board=measurement.board,
        goal=measurement.goal,
        model_sha256=measurement.model_sha256,
        checked=measurement.checked,
    )
