"""Ranges of the tensors of a float graph over samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph
from hilc.quantization.samples import Sample
from hilc.quantization.settings import ACTIVATIONS, MASKED, Settings

#: Bins of the histograms of the calibrator percentile.
_BINS = 8192


class Range(NamedTuple):
    """The least and the largest value of a tensor."""

    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        """Whether a scale spans the range."""
        return bool(np.isfinite([self.low, self.high]).all())


NOTHING = Range(np.inf, -np.inf)


def union(ranges: Sequence[Range]) -> Range:
    """Return the range of all values of several ranges."""
    return Range(min(r.low for r in ranges), max(r.high for r in ranges))


def range_of(values: Array) -> Range:
    """Return the range of an array; infinite if one of its values is not finite."""
    if not np.isfinite(values).all():
        return Range(-np.inf, np.inf)
    return Range(float(values.min()), float(values.max())) if values.size else NOTHING


@dataclass(frozen=True)
class Observed:
    """What the samples show of the tensors, by name."""

    ranges: Mapping[str, Range]
    #: Of scores some of which a mask hides: the range in which all hidden scores together have a
    #: softmax output below half a step.
    masked: Mapping[str, Range]


def observe(
    graph: Graph,
    names: Set[str],
    scores: Set[str],
    samples: Sequence[Sample],
    settings: Settings,
    progress: Callable[[], None],
) -> Observed:
    """Return the ranges of the tensors ``names`` over the samples; ``scores`` are those that may be
    masked (:data:`~hilc.quantization.settings.MASKED`).

    States are reset before each sample, unless the settings keep them.
    """
    found = dict.fromkeys(names, NOTHING)
    kept = {name: _Scores(settings.activations) for name in scores}
    for values in _runs(graph, samples, settings):
        for name in names:
            found[name] = union((found[name], range_of(values[name])))
        for name, each in kept.items():
            each.add(values[name])
        progress()
    masked = {
        name: each.range
        for name, each in kept.items()
        if found[name].low <= MASKED and each.range.is_finite
    }
    if settings.calibrator == "percentile":
        found = _percentiles(graph, found, samples, settings)
    return Observed(found, masked)


def _runs(
    graph: Graph, samples: Sequence[Sample], settings: Settings
) -> Iterator[dict[str, Array]]:
    interpreter = Interpreter(graph)
    for sample in samples:
        if not settings.keep_state:
            interpreter.reset_state()
        yield interpreter.run_all(sample)


class _Scores:
    """The range of scores without the masked ones, and the reach of their softmax."""

    def __init__(self, activations: str) -> None:
        self._kind = ACTIVATIONS[activations]
        self.range = NOTHING

    def add(self, values: Array) -> None:
        rows = values.max(-1)
        rows = rows[rows > MASKED]
        if rows.size:
            reach = float(rows.min()) - self._kind.reach(values.shape[-1])
            seen = range_of(values[values > MASKED])
            self.range = union((self.range, Range(min(seen.low, reach), seen.high)))


def _percentiles(
    graph: Graph, found: Mapping[str, Range], samples: Sequence[Sample], settings: Settings
) -> dict[str, Range]:
    """Return the ranges without the outermost values on either side, from histograms."""
    finite = {name: r for name, r in found.items() if r.is_finite and r.low < r.high}
    counts = {name: np.zeros(_BINS, np.int64) for name in finite}
    for values in _runs(graph, samples, settings):
        for name, limits in finite.items():
            counts[name] += np.histogram(values[name], _BINS, limits)[0]
    cut = (100 - settings.share) / 200
    made = dict(found)
    for name, (low, high) in finite.items():
        shares = np.cumsum(counts[name]) / counts[name].sum()
        edges = np.linspace(low, high, _BINS + 1)
        first = int(np.searchsorted(shares, cut, side="right"))
        last = int(np.searchsorted(shares, 1 - cut, side="left"))
        made[name] = Range(float(edges[first]), float(edges[last + 1]))
    return made
