"""Metrics of a model's outputs over labelled samples, with 95% confidence intervals.

A metric is prepared once for labels and outputs; the result is a function of how often each sample
counts. With ones it is the metric, with the counts of a resample it is that of the bootstrap. The
formulas are scikit-learn's (its names are given), and tests hold them against it.

scikit-learn refuses scores that are not finite. Here a score that is NaN or positive infinity
counts as wrong: such a sample has no class, and in no order is it right. Negative infinity, the
logarithm of a probability of 0, is the lowest score. Errors of values are NaN or infinite with
them, and so keep no limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hil.results.evaluate import ScoreEntry
from hil.support.numbers import json_number
from hilc.errors import InputError
from hilc.ir import Array
from hilc.support.suggest import nearest

Floats = npt.NDArray[np.float64]
#: A metric as a function of how often each sample counts; NaN where it is not defined.
Statistic = Callable[[Floats], float]
#: Kind of the labels: a class (a whole number) per sample, or the expected values.
Labels = Literal["classes", "values"]

#: The class of a sample whose outputs name none; it equals no label.
NO_CLASS = -1

#: Quantile of the normal distribution for 95%.
_Z = 1.959963984540054
RESAMPLES = 1000
_TOP = re.compile(r"top([1-9][0-9]{0,5})")


@dataclass(frozen=True)
class Score:
    """A metric's value and its 95% confidence interval; NaN where it is not defined."""

    value: float
    low: float
    high: float
    #: How the interval was computed: ``Wilson`` or ``bootstrap``.
    method: str

    def entry(self) -> ScoreEntry:
        """Return the score as results have it: None where it is not defined."""
        value, low, high = map(json_number, (self.value, self.low, self.high))
        return ScoreEntry(value, low, high, self.method)


@dataclass(frozen=True)
class Metric:
    """A metric of :func:`metric_named`."""

    name: str
    labels: Labels
    higher_is_better: bool
    #: Prepares it for labels and outputs; of shape (samples,) or as the outputs, (samples, values).
    prepare: Callable[[Array, Floats], Statistic]
    #: Whether it is the share of samples that are right, as Wilson's interval needs.
    is_share: bool = False

    @property
    def most(self) -> float:
        """The largest value that is possible; the least is 0."""
        return 1.0 if self.higher_is_better else math.inf

    def score(self, labels: Array, outputs: Floats) -> Score:
        """Return the metric over all samples, with Wilson's interval of a share and that of the
        bootstrap (percentiles of ``RESAMPLES`` resamples from a fixed seed) of all others.
        """
        statistic = self.prepare(labels, outputs)
        count = len(outputs)
        value = statistic(np.ones(count))
        if self.is_share:
            return Score(value, *wilson(value, count), "Wilson")
        if not np.isfinite(value):
            return Score(value, float("nan"), float("nan"), "bootstrap")
        return Score(value, *_bootstrap(statistic, count), "bootstrap")


def metric_named(name: str) -> Metric:
    """Return a metric: ``accuracy``, ``topK`` (K a number), ``auc``, ``f1``, ``mae`` or ``rmse``.

    Raise :class:`~hilc.errors.InputError` for another name.
    """
    if name in _METRICS:
        return _METRICS[name]
    if found := _TOP.fullmatch(name):
        k = int(found[1])
        return Metric(name, "classes", True, lambda y, out: _share(_places(y, out) < k), True)
    raise InputError(
        f"unknown metric {name!r}{nearest(name, _METRICS)}",
        f"choose {', '.join(_METRICS)} or topK, such as top5",
    )


def predicted(outputs: Floats) -> npt.NDArray[np.int64]:
    """Return the class that each sample's outputs say: that of the largest, the first of equal
    ones; of a single output 1 from 0.5 on, and 0 below. ``NO_CLASS`` if an output is NaN or
    positive infinity, or all are negative infinity.
    """
    if outputs.shape[1] == 1:
        classes = (outputs[:, 0] >= 0.5).astype(np.int64)
    else:
        classes = np.argmax(outputs, axis=1)
    has_class = ~_is_wrong(outputs).any(axis=1) & (outputs > -np.inf).any(axis=1)
    return np.where(has_class, classes, NO_CLASS)


def nonfinite_samples(outputs: Floats) -> int:
    """Return how many samples have an output that is NaN or infinite."""
    return int(np.count_nonzero(~np.isfinite(outputs).all(axis=1)))


def _is_wrong(scores: Floats) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isnan(scores) | (scores == np.inf))


def confusion(labels: Array, classes: Array, count: int) -> npt.NDArray[np.int64]:
    """Return how often each class (rows) was predicted as each (columns), without the samples of
    ``NO_CLASS``.

    ``confusion_matrix`` of scikit-learn.
    """
    has_class = classes != NO_CLASS
    cells = labels[has_class].astype(np.int64) * count + classes[has_class]
    flat = np.bincount(cells, minlength=count * count)
    return flat.reshape(count, count)


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95% interval of a share of ``count`` samples.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference" (1927):
    unlike the normal interval it stays within 0 and 1 and is not empty at them.
    """
    scale = 1 + _Z * _Z / count
    middle = (share + _Z * _Z / (2 * count)) / scale
    half = _Z / scale * np.sqrt(share * (1 - share) / count + _Z * _Z / (4 * count * count))
    # At its ends rounding would leave a rest.
    low = 0.0 if share == 0 else float(middle - half)
    high = 1.0 if share == 1 else float(middle + half)
    return low, high


def _bootstrap(statistic: Statistic, count: int) -> tuple[float, float]:
    """Return the 2.5 and the 97.5 percentile over resamples (B. Efron, "Bootstrap methods: another
    look at the jackknife", 1979).
    """
    rng = np.random.default_rng(0)
    values = np.array(
        [
            statistic(np.bincount(rng.integers(0, count, count), minlength=count).astype(float))
            for _ in range(RESAMPLES)
        ]
    )
    # A resample may lack the classes that the metric is about.
    values = values[~np.isnan(values)]
    if not values.size:
        return float("nan"), float("nan")
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _share(right: Array) -> Statistic:
    return lambda weights: float(np.dot(right, weights) / weights.sum())


def _accuracy(labels: Array, outputs: Floats) -> Statistic:
    """``accuracy_score``."""
    return _share(predicted(outputs) == labels)


def _places(labels: Array, outputs: Floats) -> npt.NDArray[np.int64]:
    """Return how many classes come before the right one, of equal outputs the first one first;
    all of them if the sample has no class, or the right one's output is not finite.

    ``top_k_accuracy_score`` counts those below k.
    """
    columns = np.arange(outputs.shape[1])
    right = np.take_along_axis(outputs, labels.astype(np.int64)[:, np.newaxis], axis=1)
    before = (outputs > right) | ((outputs == right) & (columns < labels[:, np.newaxis]))
    is_ranked = (predicted(outputs) != NO_CLASS) & np.isfinite(right[:, 0])
    return np.where(is_ranked, before.sum(axis=1), np.iinfo(np.int64).max)


def _f1(labels: Array, outputs: Floats) -> Statistic:
    """``f1_score`` with ``average="macro"``: over the classes of labels and predictions."""
    classes = predicted(outputs)
    known = np.union1d(labels, classes[classes != NO_CLASS])

    def statistic(weights: Floats) -> float:
        parts = []
        for known_class in known:
            is_label, is_class = labels == known_class, classes == known_class
            both = np.dot(is_label & is_class, weights)
            either = np.dot(is_label, weights) + np.dot(is_class, weights)
            if either > 0:
                parts.append(2 * both / either)
        return float(np.mean(parts)) if parts else float("nan")

    return statistic


def _auc(labels: Array, outputs: Floats) -> Statistic:
    """``roc_auc_score``: of two classes that of the second one; of more the mean over the classes,
    each against the rest (``multi_class="ovr"``).
    """
    count = outputs.shape[1]
    if count <= 2:
        return _rank_auc(labels == 1, outputs[:, -1])
    parts = [_rank_auc(labels == column, outputs[:, column]) for column in range(count)]

    def statistic(weights: Floats) -> float:
        # A class without a sample has no area.
        areas = np.array([part(weights) for part in parts])
        areas = areas[~np.isnan(areas)]
        return float(areas.mean()) if areas.size else float("nan")

    return statistic


def _rank_auc(is_positive: Array, scores: Floats) -> Statistic:
    """Return the area under the ROC curve: the probability that a positive sample's score is above
    a negative one's, equal scores counting half (J. A. Hanley and B. J. McNeil, "The meaning and
    use of the area under a receiver operating characteristic (ROC) curve", 1982).
    """
    ranks = np.unique(scores, return_inverse=True)[1].reshape(scores.shape)
    # Below all negative ones, or above all positive ones.
    ranks = np.where(_is_wrong(scores), np.where(is_positive, -1, len(scores)), ranks)
    order = np.argsort(ranks, kind="stable")
    positive = is_positive[order].astype(np.float64)
    values = ranks[order]
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))

    def statistic(weights: Floats) -> float:
        ordered = weights[order]
        positives = np.add.reduceat(ordered * positive, starts)
        negatives = np.add.reduceat(ordered * (1 - positive), starts)
        pairs = positives.sum() * negatives.sum()
        if pairs == 0:
            return float("nan")
        below = np.cumsum(negatives) - negatives
        return float(np.dot(positives, below + negatives / 2) / pairs)

    return statistic


def _mae(labels: Array, outputs: Floats) -> Statistic:
    """``mean_absolute_error``, over all values."""
    return _mean(np.abs(_errors(labels, outputs)))


def _rmse(labels: Array, outputs: Floats) -> Statistic:
    """``root_mean_squared_error`` of all values together."""
    mean = _mean(_errors(labels, outputs) ** 2)
    return lambda weights: float(np.sqrt(mean(weights)))


def _errors(labels: Array, outputs: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(outputs - labels.astype(np.float64).reshape(outputs.shape))


def _mean(errors: Floats) -> Statistic:
    """Return the mean error; not that of the finite ones only, in no resample."""
    of_samples = errors.mean(axis=1)
    if np.isfinite(of_samples).all():
        return _share(of_samples)
    mean = float(of_samples.mean())
    return lambda weights: mean


_METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "classes", True, _accuracy, True),
        Metric("auc", "classes", True, _auc),
        Metric("f1", "classes", True, _f1),
        Metric("mae", "values", False, _mae),
        Metric("rmse", "values", False, _rmse),
    )
}
