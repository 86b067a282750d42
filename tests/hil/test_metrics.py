"""Metrics, against scikit-learn 1.9's figures and against their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hil.errors import InputError
from hil.verify.metrics import (
    NO_CLASS,
    confusion,
    metric_named,
    nonfinite_samples,
    predicted,
    wilson,
)

RNG = np.random.default_rng(7)
OUTPUTS = RNG.integers(0, 256, (40, 4)) / 256
LABELS = RNG.integers(0, 4, 40)
VALUES = RNG.normal(size=(40, 4))


def value(name: str, labels: np.ndarray, outputs: np.ndarray) -> float:
    return metric_named(name).prepare(labels, outputs)(np.ones(len(outputs)))


@pytest.mark.parametrize(
    ("name", "labels", "outputs", "expected"),
    [
        ("accuracy", LABELS, OUTPUTS, 0.35),
        ("f1", LABELS, OUTPUTS, 0.35631578947368425),
        ("auc", LABELS, OUTPUTS, 0.5947640476576708),
        ("top2", LABELS, OUTPUTS, 0.575),
        ("mae", VALUES, OUTPUTS, 0.9773216162704832),
        ("rmse", VALUES, OUTPUTS, 1.2177565618614266),
        ("auc", (LABELS > 1).astype(int), OUTPUTS[:, :1], 0.5925),
    ],
)
def test_scikit_learns_figures(
    name: str, labels: np.ndarray, outputs: np.ndarray, expected: float
) -> None:
    assert value(name, labels, outputs) == pytest.approx(expected, abs=1e-12)


def test_auc_is_the_probability_of_the_right_order() -> None:
    """Also where scores are equal."""
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(0, 5, 30).astype(float), rng.integers(0, 2, 30)
    pairs = list(itertools.product(scores[labels == 1], scores[labels == 0]))
    expected = np.mean([(one > other) + (one == other) / 2 for one, other in pairs])
    assert value("auc", labels, scores[:, np.newaxis]) == pytest.approx(expected)


def test_auc_of_two_classes_is_the_second_ones() -> None:
    """The first one's say something else where both do not add up to the same."""
    labels = np.array([0, 0, 1, 1])
    outputs = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.95, 0.4]])
    assert value("auc", labels, outputs) == 1
    assert value("auc", 1 - labels, outputs[:, ::-1]) == 0.5


def test_resampling_counts_samples() -> None:
    """A sample that counts twice is one that is there twice."""
    counts = RNG.integers(0, 3, 40)
    counts[:4] = 1
    again = np.repeat(np.arange(40), counts)
    for name, labels in (("accuracy", LABELS), ("f1", LABELS), ("auc", LABELS), ("mae", VALUES)):
        weighted = metric_named(name).prepare(labels, OUTPUTS)(counts.astype(float))
        assert weighted == pytest.approx(value(name, labels[again], OUTPUTS[again]))


def test_equal_outputs_are_the_first_class() -> None:
    outputs = np.array([[0.5, 0.5, 0.1], [0.2, 0.5, 0.5]])
    assert predicted(outputs).tolist() == [0, 1]
    assert value("top1", np.array([1, 1]), outputs) == value("accuracy", np.array([1, 1]), outputs)
    assert predicted(np.array([[0.5], [0.49]])).tolist() == [1, 0]


def test_classes_that_do_not_occur() -> None:
    labels = np.array([0, 0, 2, 2])
    outputs = np.eye(4)[[0, 0, 2, 0]]
    assert value("f1", labels, outputs) == pytest.approx((0.8 + 2 / 3) / 2)
    assert value("auc", labels, outputs) == pytest.approx(0.75)
    assert np.isnan(value("auc", np.zeros(4, int), outputs))
    assert confusion(labels, predicted(outputs), 4)[2].tolist() == [1, 0, 1, 0]


def test_intervals() -> None:
    # E. B. Wilson's interval as R's prop.test(9, 10, correct=FALSE) gives it.
    assert wilson(0.9, 10) == pytest.approx((0.595850, 0.982124), abs=1e-6)
    assert wilson(1.0, 10)[1] == 1.0
    assert wilson(0.0, 10)[0] == 0.0
    score = metric_named("accuracy").score(LABELS, OUTPUTS)
    assert (score.low, score.high) == wilson(0.35, 40)
    errors = metric_named("mae").score(VALUES, OUTPUTS)
    assert errors.low < errors.value < errors.high
    # About the normal interval of a mean.
    spread = np.abs(OUTPUTS - VALUES).mean(axis=1).std() / np.sqrt(40)
    assert errors.high - errors.low == pytest.approx(2 * 1.96 * spread, rel=0.15)
    assert metric_named("mae").score(VALUES, OUTPUTS) == errors


@pytest.mark.parametrize("name", ["acuracy", "top0", "top", "", "AUC", "top5.5"])
def test_unknown_metrics(name: str) -> None:
    with pytest.raises(InputError, match="choose accuracy, auc, f1, mae, rmse or topK"):
        metric_named(name)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize("name", ["accuracy", "top1", "top2", "f1", "auc"])
@pytest.mark.parametrize("columns", [2, 3])
def test_scores_that_are_not_finite_are_wrong(name: str, bad: float, columns: int) -> None:
    """Whatever the labels are: not as class 0, and not as the first or last of an order."""
    labels = np.array([0, 1, 0, 1])
    outputs = np.full((4, columns), bad)
    assert value(name, labels, outputs) == 0
    outputs = np.eye(columns)[labels]
    assert value(name, labels, outputs) == 1
    for row in range(4):
        spoiled = outputs.copy()
        spoiled[row] = bad
        assert value(name, labels, spoiled) < 1


def test_one_bad_output_leaves_no_class() -> None:
    outputs = np.array([[1, NAN], [NAN, 1], [-INF, 1], [-INF, -INF], [0, INF], [1, 0]])
    assert predicted(outputs).tolist() == [NO_CLASS, NO_CLASS, 1, NO_CLASS, NO_CLASS, 0]
    assert predicted(np.array([[NAN], [INF], [-INF], [0.5]])).tolist() == [-1, -1, -1, 1]
    assert nonfinite_samples(outputs) == 5
    assert confusion(np.zeros(6, int), predicted(outputs), 2).tolist() == [[1, 1], [0, 0]]


def test_infinite_logarithms_are_the_lowest_scores() -> None:
    outputs = np.array([[-INF, 0.0], [0.0, -INF], [-1.0, -0.5]])
    labels = np.array([1, 0, 1])
    for name in ("accuracy", "f1", "auc"):
        assert value(name, labels, outputs) == 1


@pytest.mark.parametrize("name", ["mae", "rmse"])
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_errors_that_are_not_finite_have_no_interval(name: str, bad: float) -> None:
    outputs = VALUES.copy()
    outputs[3, 1] = bad
    score = metric_named(name).score(VALUES, outputs)
    assert not score.value <= 1e300
    assert np.isnan([score.low, score.high]).all()
