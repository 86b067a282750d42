"""The kinds of differences, on tensors that were changed in one way each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hil.cli.render import diagnosis_lines
from hil.verify.diagnosis import Diagnosis, Evidence, Kind, Pair, diagnose
from hilc.artifact.library import Layer, TensorInfo

SHAPE = (1, 6, 5, 8)


def info(shape: tuple[int, ...], dtype: str = "int8") -> TensorInfo:
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    scale, zero_point = (None, None) if dtype == "float32" else (0.5, 3)
    return TensorInfo("t", "t", shape, dtype, scale, zero_point, nbytes, None)


def of(
    change: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, ...] = SHAPE,
    samples: int = 2,
    evidence: Evidence | None = None,
    dtype: str = "int8",
    clamp: tuple[int, int] = (-128, 127),
) -> Diagnosis:
    """The diagnosis of a random tensor to which something happened, then its clamp."""
    rng = np.random.default_rng(5)
    pairs = []
    for sample in range(samples):
        whole = rng.normal(0, 60, shape)
        expected = whole.astype(dtype) if dtype == "float32" else held(np.round(whole), clamp)
        changed = change(expected.astype(np.float64))
        got = changed.astype(dtype) if dtype == "float32" else held(changed, clamp)
        pairs.append(Pair(sample, expected, got, expected != got))
    layer = Layer("conv", "CONV_2D", "f", (), (info(shape, dtype),), macs=0, input_count=0)
    return diagnose(3, layer, layer.outputs[0], pairs, evidence or Evidence())


def held(values: np.ndarray, clamp: tuple[int, int]) -> np.ndarray:
    clamped: np.ndarray = np.clip(values, *clamp).astype(np.int8)
    return clamped


def at(where: Any, by: int) -> Callable[[np.ndarray], np.ndarray]:
    """Change the elements at ``where`` by up to ``by`` steps, each by another number."""

    def change(values: np.ndarray) -> np.ndarray:
        part = values[where]
        noise = 1 + np.random.default_rng(1).integers(0, by, part.shape)
        values = values.copy()
        values[where] = np.where(part > 0, part - noise, part + noise)
        return values

    return change


ALL = ...

OFFSETS = np.array([3, -7, 11, 0, 5, -2, 8, 20])


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (at((..., 3), 40), Kind.ONE_CHANNEL, "all in channel 3 of 8"),
        (at((..., 3), 1), Kind.ONE_CHANNEL, "by 1 at most"),
        (at((0, 2, 1, 3), 9), Kind.ONE_CHANNEL, "all in channel 3"),
        (at((0, 5), 40), Kind.ONE_ROW, "all in row 5 of 6"),
        (at((0, slice(None), 4), 40), Kind.ONE_COLUMN, "all in column 4 of 5"),
        (at((0, 2, 4), 40), Kind.ONE_POSITION, "all in row 2 of 6, column 4"),
        (at((..., slice(2, 4)), 40), Kind.SOME_CHANNELS, "all in channels 2 to 3 of 8"),
        (at((0, slice(0, 6, 3)), 40), Kind.SOME_ROWS, "all in rows 0, 3 of 6"),
        (at(ALL, 1), Kind.ROUNDING, "none differs by more than 1"),
        (at(ALL, 90), Kind.ALL_WRONG, "everywhere"),
        (lambda v: v + 5, Kind.SHIFTED, "lie +5 from the expected ones, whose zero point is 3"),
        (lambda v: v - 1, Kind.SHIFTED, "lie -1"),
        (lambda v: np.clip(v, -50, 60), Kind.SATURATED, "end at -50 and 60"),
        (lambda v: np.minimum(v, 20), Kind.SATURATED, "end at 20"),
        (lambda v: np.round((v - 3) * 0.5) + 3, Kind.SCALED, "0.5 times"),
        (lambda v: np.round((v - 3) * 1.3) + 3, Kind.SCALED, "1.3 times"),
        (lambda v: v + OFFSETS, Kind.CHANNEL_OFFSETS, "(-7 to +20)"),
        (lambda v: np.roll(v, 1, 1), Kind.DISPLACED, "expected one row before"),
        (lambda v: np.roll(v, -1, 2), Kind.DISPLACED, "expected one column behind"),
        (lambda v: np.zeros_like(v), Kind.CONSTANT, "every element is 0"),
    ],
)
def test_the_kind_of_a_difference(
    change: Callable[[np.ndarray], np.ndarray], kind: Kind, said: str
) -> None:
    found = of(change)
    assert found.kind is kind, found.sentence
    assert said in found.sentence
    assert found.sentence.startswith(kind.value)


def plus(where: Any, by: float) -> Callable[[np.ndarray], np.ndarray]:
    """Change the elements at ``where`` all alike."""

    def change(values: np.ndarray) -> np.ndarray:
        values = values.copy()
        values[where] += by
        return values

    return change


def test_by_how_much_all_differ() -> None:
    """It is said of several integers."""
    assert ", each by +5" in of(plus((..., 3), 5)).sentence
    assert "each by" not in of(plus((..., 3), 5), dtype="float32").sentence
    assert "each by" not in of(plus((0, 2, 1, 3), 5), samples=1).sentence


def test_results_above_the_range_of_an_activation() -> None:
    rng = np.random.default_rng(2)
    got = rng.integers(-128, 127, SHAPE).astype(np.int8)
    expected = np.clip(got, 3, 90)
    layer = Layer("conv", "CONV_2D", "f", (), (info(SHAPE),), macs=0, input_count=0)
    found = diagnose(0, layer, layer.outputs[0], [Pair(0, expected, got, expected != got)])
    assert found.kind is Kind.NOT_CLAMPED
    assert "should end at 3 and 90" in found.sentence


def test_clamped_elements_do_not_hide_a_shift() -> None:
    """Most results of a ReLU lie at its end, and stay there."""
    found = of(lambda values: values + 9, clamp=(3, 127))
    assert (found.kind, found.max_abs_diff) == (Kind.SHIFTED, 9)


def test_a_vector_has_channels_only() -> None:
    assert of(at((0, 7), 40), (1, 10)).kind is Kind.ONE_CHANNEL
    assert of(lambda v: v + 4, (1, 10)).kind is Kind.SHIFTED
    assert of(at(ALL, 90), (1, 10)).kind is Kind.ALL_WRONG


def test_floats() -> None:
    assert of(lambda v: v * 1.5, dtype="float32").kind is Kind.SCALED
    assert of(lambda v: np.where(v > 100, np.nan, v), dtype="float32").kind is Kind.NOT_A_NUMBER
    # Most values are small, and the same when they are halved: the others tell the factor.
    sparse = of(lambda v: np.round((np.where(np.abs(v) < 60, 3, v) - 3) * 0.5) + 3)
    assert sparse.kind is not Kind.SCALED, "values that were set to zero have no factor"
    steps = np.r_[np.zeros(200), np.arange(-40, 40)].reshape(1, 7, 5, 8).astype(np.int8)
    halved = np.round(steps * 0.5).astype(np.int8)
    pair = Pair(0, steps + 3, halved + 3, steps != halved)
    layer = Layer("conv", "CONV_2D", "f", (), (info((1, 7, 5, 8)),), macs=0, input_count=0)
    found = diagnose(0, layer, layer.outputs[0], [pair], Evidence())
    assert (found.kind, "0.49" in found.sentence) == (Kind.SCALED, True)
    # One value that is far off is none of the others' factor.
    assert of(at((0, 2, 1, 3), 90), dtype="float32", samples=1).kind is Kind.ONE_CHANNEL
    found = of(at((..., 3), 40), dtype="float32")
    assert (found.kind, found.first.expected_real) == (Kind.ONE_CHANNEL, None)


def test_what_a_second_run_shows_comes_first() -> None:
    mask = np.zeros(SHAPE, bool)
    mask[0, 5] = True
    change = at((0, 5), 40)
    none = np.zeros(SHAPE, bool)
    found = of(change, evidence=Evidence(dependent=mask, unwritten=mask, varying=none))
    assert found.kind is Kind.UNINITIALISED
    assert "40 of them are never written (row 5)" in found.sentence
    found = of(change, evidence=Evidence(dependent=mask, unwritten=none, varying=mask))
    assert found.kind is Kind.NOT_REPEATABLE
    found = of(change, evidence=Evidence(dependent=none, unwritten=none, varying=none))
    assert found.kind is Kind.ONE_ROW
    found = of(change, evidence=Evidence(overwritten="a", overwriter=(1, "b")))
    assert found.kind is Kind.OVERWRITTEN
    assert "'a' had changed since layer 1 'b' ran" in found.sentence


def test_values_are_whole_and_real() -> None:
    found = of(at((0, 2, 1, 3), 9), samples=1)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["axes"] == "NHWC"
    assert data["confined"] == {"H": [2], "W": [1], "C": [3]}
    first = data["first"]
    assert (first["position"], first["channel"]) == ([0, 2, 1, 3], 3)
    assert first["expected_real"] == (first["expected"] - 3) * 0.5
    assert first["got_real"] == (first["got"] - 3) * 0.5
    assert abs(first["got"] - first["expected"]) == data["max_abs_diff"]
    assert data["max_abs_diff_real"] == 0.5 * data["max_abs_diff"]
    text = "\n".join(diagnosis_lines(found))
    assert "output t: int8 NHWC 1x6x5x8, scale 0.5, zero point 3" in text
    assert "0,2,1,3" in text


def test_any_number_of_dimensions() -> None:
    for shape in ((), (3,), (2, 3), (2, 2, 3), (2, 2, 2, 2, 3), (1, 2, 2, 1, 2, 3, 2)):
        found = of(lambda v: 40 - v, shape)
        assert found.different
        assert json.dumps(found.to_json(), allow_nan=False)
        assert diagnosis_lines(found)
