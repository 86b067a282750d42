"""The kinds of differences, on tensors that were changed in one way each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hil.cli.render import diagnosis_lines
from hil.results.codec import encode
from hil.results.verify import Diagnosis
from hil.verify import diagnosis
from hil.verify.diagnosis import Evidence, Kind, Pair, _Seen, axes_of, diagnose
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
    data = json.loads(json.dumps(encode(found), allow_nan=False))
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
        assert json.dumps(encode(found), allow_nan=False)
        assert diagnosis_lines(found)


# -- how much it takes to say so -------------------------------------------------------------------


def seen(expected: Any, got: Any, evidence: Evidence | None = None, dtype: str = "int8") -> _Seen:
    """Return one pair of tensors."""
    one, other = np.array(expected, dtype), np.array(got, dtype)
    pair = Pair(4, one, other, one != other)
    return _Seen(info(one.shape, dtype), [pair], evidence or Evidence())


def in_one_row(rows: int, count: int) -> _Seen:
    """Return so many differences in one of ``rows`` rows."""
    expected = np.zeros((1, rows, 8, 1), np.int8)
    got = expected.copy()
    got[0, 0, :count, 0] = 9
    return seen(expected, got)


def test_one_row_is_no_chance() -> None:
    """At most one time in twenty that differences spread at random share their row."""
    for rows, count, is_one in (
        (5, 2, False),  # a fifth
        (5, 3, True),  # a 25th
        (20, 2, False),  # a 20th
        (21, 2, True),
        (100, 1, False),
        (1, 8, False),
    ):
        assert in_one_row(rows, count).is_one("H") == is_one, (rows, count)
    assert not in_one_row(5, 3).is_one("C")
    assert not in_one_row(5, 3).is_one("D")


def test_an_axis_is_confined_to_at_most_half() -> None:
    expected = np.zeros((1, 4, 5, 1), np.int8)
    for rows, columns, confined in (
        ([0, 1], [0, 1], {"H": (0, 1), "W": (0, 1)}),
        ([0, 1, 2], [0, 4], {"W": (0, 4)}),
        ([3], [0, 1, 2], {"H": (3,)}),
    ):
        got = expected.copy()
        got[np.ix_([0], rows, columns, [0])] = 1
        assert seen(expected, got).confined == confined


def test_some_rows_by_chance_below_a_thousandth() -> None:
    """Of the ways to choose these rows of all, and of each difference to lie in them."""
    for rows, used, each, is_told in (
        (4, 2, 6, False),  # 6 of 2^12
        (4, 2, 7, True),  # 6 of 2^14
        (8, 4, 4, False),  # 70 of 2^16
        (8, 4, 5, True),  # 70 of 2^20
    ):
        expected = np.zeros((1, rows, 8, 1), np.int8)
        got = expected.copy()
        got[0, :used, :each, 0] = 9
        found = diagnosis._some(seen(expected, got))
        assert (found is not None) == is_told, (rows, used, each)
        assert found is None or found[0] is Kind.SOME_ROWS


def test_a_constant_has_four_elements() -> None:
    for size, is_told in ((3, False), (4, True)):
        found = diagnosis._constant(seen(range(size), [7] * size))
        assert (found is not None) == is_told
        assert found is None or found == (Kind.CONSTANT, "every element is 7")
    assert diagnosis._constant(seen(range(4), [7, 7, 7, 8])) is None


def test_a_displacement_needs_eight_elements() -> None:
    for count, is_told in ((7, False), (8, True)):
        # So many changes from one row to the next.
        rows = np.arange(12) % 2
        rows[count:] = rows[count]
        expected = rows.reshape(1, 12, 1, 1).astype(np.int8)
        found = diagnosis._displaced(seen(expected, np.roll(expected, 1, 1)))
        assert (found is not None) == is_told, count
    ramp = np.arange(20, dtype=np.int8).reshape(1, 20, 1, 1)
    assert diagnosis._displaced(seen(ramp, np.roll(ramp, 1, 1))) == (
        Kind.DISPLACED,
        "the values are those expected one row before",
    )
    assert diagnosis._displaced(seen(ramp, np.roll(ramp, -1, 1))) == (
        Kind.DISPLACED,
        "the values are those expected one row behind",
    )
    assert diagnosis._displaced(seen(ramp, np.roll(ramp, 2, 1))) is None
    # One more element that is wrong.
    broken = np.roll(ramp, 1, 1)
    broken[0, 10] = 99
    assert diagnosis._displaced(seen(ramp, broken)) is None


def test_a_cutoff_needs_four_elements() -> None:
    base = np.arange(20, dtype=np.int8)
    assert diagnosis._saturated(seen(base, np.minimum(base, 15))) == (
        Kind.SATURATED,
        "the values end at 15",
    )
    assert diagnosis._saturated(seen(base, np.clip(base, 2, 17))) == (
        Kind.SATURATED,
        "the values end at 2 and 17",
    )
    assert diagnosis._saturated(seen(base, np.minimum(base, 16))) is None  # three of them
    steps = np.array([0, 1, 2, 2, 2, 2, 3, 3, 3, 3], np.int8)
    assert diagnosis._saturated(seen(steps, np.minimum(steps, 2))) is None  # by one
    assert diagnosis._saturated(seen(np.minimum(base, 15), base)) == (
        Kind.NOT_CLAMPED,
        "the values should end at 15",
    )
    # All that was cut off was the same: any other cause may have made it.
    same = np.array([0, 1, 2, 9, 9, 9, 9], np.int8)
    assert diagnosis._saturated(seen(same, np.minimum(same, 5))) is None
    assert diagnosis._saturated(seen(base, np.full(20, 3))) is None


def test_an_offset_is_exact_below_three() -> None:
    base = np.arange(-20, 20, dtype=np.int8)
    for offset in (1, 2, 3, -1, -3, 9):
        found = diagnosis._shifted(seen(base, base + offset))
        assert found == (
            Kind.SHIFTED,
            f"the values lie {offset:+d} from the expected ones, whose zero point is 3",
        )
        uneven = base + offset
        uneven[::3] += 1 if offset > 0 else -1
        found = diagnosis._shifted(seen(base, uneven))
        assert (found is not None) == (abs(offset) >= 3), offset
        far = base + offset
        far[::3] += 2 if offset > 0 else -2
        assert diagnosis._shifted(seen(base, far)) is None
    for size, is_told in ((3, False), (4, True)):
        assert (diagnosis._shifted(seen(base[:size], base[:size] + 5)) is not None) == is_told
    # Clamped elements never move the other way.
    clamped = np.minimum(base + 5, 19)
    assert diagnosis._shifted(seen(base, clamped)) is not None
    clamped[-1] = 10
    assert diagnosis._shifted(seen(base, clamped)) is None


def test_a_factor_needs_eight_elements() -> None:
    def scaled(values: Any, factor: float, dtype: str = "int8") -> str | None:
        expected = np.array(values, np.float64)
        got = expected * factor
        if dtype == "int8":
            expected, got = expected + 3, np.round(got) + 3
        found = diagnosis._scaled(seen(expected, got, dtype=dtype))
        assert found is None or found[0] is Kind.SCALED
        return None if found is None else found[1]

    wide = list(range(-60, 61, 10))
    assert scaled(wide, 0.5) == "the values are 0.5 times the expected ones"
    assert scaled(wide, 1.5) == "the values are 1.5 times the expected ones"
    assert scaled(wide, 1.01) is None  # by half a step
    # Two at the ends of the range and zero do not count: nine values have six.
    assert scaled(range(-40, 41, 10), 0.5) is None
    assert scaled(range(-50, 51, 10), 0.5) is not None
    floats = np.linspace(-3, 3, 20)
    assert scaled(floats, 1.25, "float32") == "the values are 1.25 times the expected ones"
    assert scaled(floats, 1.001, "float32") is None
    assert scaled(floats, 1.003, "float32") is not None
    # One that is off is no factor's.
    expected = np.linspace(-3, 3, 20).astype(np.float32)
    got = 2 * expected
    got[7] += 0.01
    assert diagnosis._scaled(seen(expected, got, dtype="float32")) is None


def test_offsets_of_channels_are_two_and_more() -> None:
    expected = np.arange(-30, 30, dtype=np.int8).reshape(1, 10, 1, 6)

    def told(*offsets: int) -> Any:
        return diagnosis._channel_offsets(seen(expected, expected + np.array(offsets, np.int8)))

    assert told(0, 2, -1, 0, 1, 0) == (
        Kind.CHANNEL_OFFSETS,
        "each channel lies at an offset of its own (-1 to +2), as with a wrong bias or a wrong "
        "zero point of the input",
    )
    assert told(0, 1, -1, 0, 1, 0) is None
    assert told(0, 9, 0, 0, 0, 0) is None  # one channel
    rounded = expected + np.array([4, -4, 0, 3, 8, 0], np.int8)
    rounded[0, 3, 0, 0] += 1
    assert diagnosis._channel_offsets(seen(expected, rounded)) is not None
    rounded[0, 3, 0, 0] += 1
    assert diagnosis._channel_offsets(seen(expected, rounded)) is None
    few = np.array([[1, 2, 3], [4, 5, 6]], np.int8).reshape(1, 2, 1, 3)
    assert diagnosis._channel_offsets(seen(few, few + np.array([5, 9, 2], np.int8))) is None


def test_rounding_scattered_and_everywhere() -> None:
    base = np.arange(10, dtype=np.int8)
    for step, is_told in ((1, True), (2, False)):
        got = base.copy()
        got[3] += step
        assert (diagnosis._rounding(seen(base, got)) is not None) == is_told
    for count, kind in ((4, Kind.SCATTERED), (5, Kind.ALL_WRONG), (6, Kind.ALL_WRONG)):
        got = base.copy()
        got[:count] += 9
        found = diagnosis._rest(seen(base, got))
        assert found is not None
        assert found[0] is kind


def test_manners_of_one_place() -> None:
    def manner(expected: Any, got: Any, dtype: str = "int8") -> str:
        return diagnosis._manner(seen(expected, got, dtype=dtype))

    assert manner([0, 0, 0], [5, 5, 0]) == ", each by +5"
    assert manner([0, 0, 0], [-5, -5, 0]) == ", each by -5"
    assert manner([0, 0, 0], [1, -1, 0]) == ", by 1 at most"
    assert manner([0, 0, 0], [1, 2, 0]) == ""
    assert manner([0, 0, 0], [5, 0, 0]) == ""  # one alone
    assert manner([0, 0, 0], [5, 5, 0], "float32") == ""


def test_indices_in_words() -> None:
    tensor = seen(np.zeros((1, 20, 3, 2)), np.ones((1, 20, 3, 2)))
    words = diagnosis._indices
    assert words(tensor, "H", [4]) == "row 4"
    assert words(tensor, "H", [4, 5]) == "rows 4 to 5"
    assert words(tensor, "W", [0, 2]) == "columns 0, 2"
    assert words(tensor, "H", range(0, 16, 2)) == "rows 0, 2, 4, 6, 8, 10, 12, 14"
    assert words(tensor, "H", range(0, 18, 2)) == "rows 0, 2, 4, 6, 8, 10, 12, 14, ..."
    assert words(tensor, "3", [1]) == "index of axis 3 1"
    assert axes_of(4) == "NHWC"
    assert axes_of(7) == "0123456"


def test_values_that_are_no_numbers_are_counted() -> None:
    nan, inf = np.nan, np.inf
    found = diagnosis._not_a_number(
        seen([1.0, nan, 2.0, 3.0], [nan, nan, inf, 3.0], dtype="float32")
    )
    assert found == (Kind.NOT_A_NUMBER, "2 are NaN or infinite")
    assert diagnosis._not_a_number(seen([1.0, nan], [2.0, 3.0], dtype="float32")) is None
    assert diagnosis._not_a_number(seen([1], [2])) is None


def test_sentences_of_counts_and_sizes() -> None:
    def told(expected: Any, got: Any, dtype: str = "int8") -> str:
        return diagnosis._sentence(seen(expected, got, dtype=dtype), Kind.SCATTERED, "why")

    assert told([0, 0], [3, 0]) == "scattered: 1 of 2 elements differs, by up to 3 (1.5); why"
    assert told([0, 0], [3, 4]) == "scattered: 2 of 2 elements differ, by up to 4 (2); why"
    assert told([0.0], [0.25], "float32") == (
        "scattered: 1 of 1 elements differs, by up to 0.25; why"
    )
    assert told([0.0], [np.nan], "float32") == "scattered: 1 of 1 elements differs; why"
    assert told([True], [False], "bool") == "scattered: 1 of 1 elements differs; why"


def test_places_of_what_a_second_run_showed() -> None:
    shape = (1, 6, 4, 2)
    mask = np.zeros(shape, bool)
    mask[0, 1:4, 0] = True
    one = seen(np.zeros(shape), np.ones(shape))
    assert diagnosis._where(one, mask) == " (rows 1 to 3, column 0)"
    mask[0, 4:, 0] = True
    assert diagnosis._where(one, mask) == " (column 0)"
    assert diagnosis._where(one, np.ones(shape, bool)) == ""
    none = np.zeros(shape, bool)
    assert not Evidence(dependent=none, varying=none).shows_something
    assert not Evidence().shows_something
    assert Evidence(varying=mask).shows_something
    assert Evidence(overwritten="x").shows_something


def test_the_first_and_the_largest_difference() -> None:
    expected, got = np.zeros((2, 3), np.int8), np.zeros((2, 3), np.int8)
    got[0, 1], got[1, 2] = 2, -9
    layer = Layer("fc", "FULLY_CONNECTED", "f", (), (info((2, 3)),), macs=0, input_count=0)
    found = diagnose(0, layer, layer.outputs[0], [Pair(7, expected, got, expected != got)])
    assert (found.first.position, found.first.got, found.first.sample) == ((0, 1), 2, 7)
    assert (found.largest.position, found.largest.got) == ((1, 2), -9)
    assert (found.different, found.size, found.samples) == (2, 6, 1)
    assert (found.max_abs_diff, found.max_abs_diff_real) == (9, 4.5)
    assert (found.first.channel, found.largest.channel) == (1, 2)
