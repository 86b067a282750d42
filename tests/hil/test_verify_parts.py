"""The parts of a verification by themselves: errors in bins, costs, metrics, what is a suspect."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hil
from hil.device import Device, Model
from hil.errors import InputError
from hil.link.protocol import Tensors
from hil.link.taps import TappedTensor
from hil.results.codec import encode
from hil.results.verify import Cost
from hil.verify import against, comparison, cost, metrics
from hil.verify.diagnosis import PAIRS_MAX, Pair
from hil.verify.error_histogram import ErrorHistogram
from hilc.artifact.library import TensorInfo

# -- errors ----------------------------------------------------------------------------------------


def bins(expected: Sequence[float], got: Sequence[float], dtype: str) -> list[Any]:
    histogram = ErrorHistogram(dtype == "float32")
    histogram.add(np.array(expected, dtype), np.array(got, dtype))
    return [(one.low, one.high, one.count) for one in histogram.bins()]


def test_each_error_of_an_integer_is_in_its_bin() -> None:
    """A step alone, then powers of two: the bins touch, and each error is within its own."""
    for sign in (1, -1):
        for size in (1, 2, 3, 4, 5, 8, 9, 16, 17, 1000, 1024, 1025, 2**31):
            ((low, high, count),) = bins([0], [sign * size], "int64")
            assert low <= sign * size <= high
            assert count == 1
            if size > 1:
                # One power of two, and only that.
                power = (size - 1).bit_length()
                ends = (2 ** (power - 1) + 1, 2**power)
                assert (low, high) == (ends if sign > 0 else (-ends[1], -ends[0]))
            else:
                assert (low, high) == (sign, sign)


def test_each_error_of_a_float_is_in_its_decade() -> None:
    for size, low, high in (
        (0.5, 1e-1, 1.0),
        (0.05, 1e-2, 1e-1),
        (2.0, 1.0, 10.0),
        (1e-11, 1e-12, 1e-11),
        (1e-20, 1e-13, 1e-12),
        (1e20, 1e11, 1e12),
    ):
        # Relative to the largest of the tensor.
        both = bins([1.0, 0.0], [1.0, 0.999 * size], "float32")
        assert both == [(0, 0, 1), (pytest.approx(low), pytest.approx(high), 1)]
        wide = bins([4.0, 0.0], [4.0, -4 * 0.999 * size], "float32")
        assert wide == [(pytest.approx(-high), pytest.approx(-low), 1), (0, 0, 1)]


def test_what_is_not_finite_is_in_no_bin() -> None:
    inf, nan = np.inf, np.nan
    assert bins([inf, nan, 1.0, 2.0], [inf, 1.0, nan, 2.0], "float32") == [(0, 0, 2)]
    # Relative to the largest that is finite.
    assert bins([inf, 2.0], [1.0, 2.5], "float32") == [(pytest.approx(1e-1), pytest.approx(1.0), 1)]
    # A reference of zeros gives the errors as they are.
    assert bins([0.0, 0.0], [0.5, 0.0], "float32") == [
        (0, 0, 1),
        (pytest.approx(1e-1), pytest.approx(1.0), 1),
    ]


def test_equal_elements_are_not_compared() -> None:
    histogram = ErrorHistogram(False)
    assert histogram.bins() == ()
    histogram.add_equal(0)
    assert histogram.bins() == ()
    histogram.add_equal(3)
    histogram.add(np.array([1, 1, 1]), np.array([1, 2, 2]))
    assert [(one.low, one.high, one.count) for one in histogram.bins()] == [(0, 0, 4), (1, 1, 2)]


# -- what counts as different ----------------------------------------------------------------------


def test_floats_differ_beyond_a_part_of_the_largest() -> None:
    """Of the finite ones in the reference; equal infinities and numbers that are none are equal."""

    def differs(expected: Sequence[float], got: Sequence[float]) -> bool:
        return comparison.differs(np.array(expected, np.float32), np.array(got, np.float32))

    one = comparison.FLOAT_RTOL
    assert one == 1e-5
    for scale in (1.0, 1024.0):
        assert not differs([scale, 0.0], [scale, 0.99 * one * scale])
        assert differs([scale, 0.0], [scale, 1.01 * one * scale])
        assert differs([-scale, 0.0], [-scale, -1.01 * one * scale])
        assert not differs([-scale, 0.0], [-scale, -0.99 * one * scale])
    inf, nan = np.inf, np.nan
    assert not differs([inf, -inf, nan], [inf, -inf, nan])
    for got in ([-inf], [nan], [1.0]):
        assert differs([inf], got)
    assert differs([nan], [1.0])
    assert differs([1.0], [nan])
    assert differs([1.0, inf], [1.1, inf])
    assert not differs([0.0], [-0.0])
    assert differs([0.0], [1e-30])


def test_integers_and_truth_values_are_equal_or_not() -> None:
    low, high = np.array([-(2**31)], np.int32), np.array([2**31 - 1], np.int32)
    difference, different = comparison._differences(low, high)
    assert (difference.tolist(), different.tolist()) == ([2.0**32 - 1], [True])
    truth = np.array([True, False, True])
    difference, different = comparison._differences(truth, np.array([True, True, False]))
    assert (difference.tolist(), different.tolist()) == ([0, 1, 1], [False, True, True])
    assert not comparison.differs(truth, truth)


def a_suspect(layer: int, output: int, pairs: int) -> Any:
    made = [Pair(at, np.zeros(1), np.zeros(1), np.zeros(1, bool)) for at in range(pairs)]
    return comparison._Suspect(layer, output, [], {}, made)


def test_the_suspect_is_the_first_output() -> None:
    known = a_suspect(3, 1, 2)
    first = comparison._first_suspect
    for layer, output in ((2, 5), (3, 0)):
        found = a_suspect(layer, output, 1)
        assert first(known, found) is found
    for layer, output in ((4, 0), (3, 2)):
        assert first(known, a_suspect(layer, output, 1)) is known
        assert len(known.pairs) == 2
    assert first(None, known) is known
    assert first(known, a_suspect(3, 1, 1)) is known
    assert len(known.pairs) == 3
    for _ in range(PAIRS_MAX):
        first(known, a_suspect(3, 1, 1))
    assert len(known.pairs) == PAIRS_MAX


def info(shape: tuple[int, ...], dtype: str = "int8") -> TensorInfo:
    return TensorInfo("y", "y", shape, dtype, None, None, int(np.prod(shape)), None)


def test_the_first_difference_of_all_samples_is_kept() -> None:
    one = comparison.TensorComparison(info((2, 2)))
    same = np.array([[1, 2], [3, 4]], np.int8)
    assert one.add(0, same, same) is None
    pair = one.add(1, same, np.array([[1, 2], [5, 9]], np.int8))
    assert pair is not None
    assert (pair.sample, pair.different.tolist()) == (1, [[False, False], [True, True]])
    assert one.add(2, same, np.array([[2, 2], [3, 4]], np.int8)) is not None
    told = one.report()
    assert (told.mismatches, told.max_abs_diff) == (3, 5)
    assert isinstance(told.max_abs_diff, int)
    assert told.first == comparison.Difference(1, (1, 0), 3, 5)
    assert sum(one.count for one in told.errors) == 12


def test_taps_of_the_same_inputs_tell_what_varies() -> None:
    """Against the first of them; of other inputs nothing follows."""
    compared = comparison.TensorComparison(info((4,)))
    tap: Any = SimpleNamespace(known={}, varying=None, pairs=[])
    whole = np.array([1, 2, 3, 4], np.int8)

    def came(inputs: int, *values: int, is_whole: bool = True) -> None:
        data = np.array(values, np.int8).tobytes()
        tapped = TappedTensor(
            Tensors.LAYER_OUTPUT, 0, 0, "y", "int8", 4, zlib.crc32(data), data if is_whole else None
        )
        against._compare(tap, compared, 0, whole, tapped, inputs)

    def varying() -> object:
        return None if tap.varying is None else tap.varying.tolist()

    came(7, 1, 2, 3, 4)
    came(7, 1, 2, 3, 4)
    came(8, 1, 2, 3, 9)
    assert not tap.known.keys() - {7, 8}
    assert varying() is None
    assert (compared.mismatches, len(tap.pairs)) == (1, 1)
    came(7, 1, 5, 3, 4)
    assert varying() == [False, True, False, False]
    came(7, 1, 2, 3, 6)
    assert varying() == [False, True, False, True]
    assert compared.mismatches == 3
    for _ in range(PAIRS_MAX):
        came(9, 0, 2, 3, 4)
    assert len(tap.pairs) == PAIRS_MAX
    # By a checksum alone one element differs at least.
    compared.mismatches = 0
    came(7, 1, 2, 3, 4, is_whole=False)
    assert compared.mismatches == 0
    came(7, 1, 2, 0, 0, is_whole=False)
    assert compared.mismatches == 1
    compared.mismatches = 5
    came(7, 1, 2, 0, 0, is_whole=False)
    assert compared.mismatches == 5


# -- costs -----------------------------------------------------------------------------------------


def a_model(sizes: Any = None, repeated: int = 0) -> Any:
    model: Any = object.__new__(Model)
    firmware = None if sizes is None else SimpleNamespace(sizes=sizes)
    device = SimpleNamespace(counter="cycles", firmware=firmware, repeated_requests=repeated)
    model.__dict__.update(device=device, module=SimpleNamespace(name="net", workspace_bytes=640))
    return model


def test_a_cost_is_the_lower_median_of_all_counts() -> None:
    sizes = SimpleNamespace(
        models={"net": SimpleNamespace(flash_bytes=11), "other": SimpleNamespace(flash_bytes=99)},
        ram_bytes=22,
    )
    assert cost.cost_of(a_model(sizes), [5, 1, 9, 7]) == Cost("cycles", 5, 11, 22, 640)
    assert cost.cost_of(a_model(), [3, 1, 2]) == Cost("cycles", 2, None, None, 640)
    assert cost.cost_of(a_model(), []) is None
    assert cost.cost_of(object(), [1]) is None
    told = encode(Cost("cycles", 5, 11, 22, 640))
    assert told == {
        "counter": "cycles", "per_inference": 5, "model_flash_bytes": 11, "ram_bytes": 22,
        "workspace_bytes": 640,
    }  # fmt: skip


def test_a_count_with_repeated_requests_is_none() -> None:
    ran = SimpleNamespace(count=77)
    assert cost.undisturbed_count(a_model(repeated=4), 4, ran) == 77
    for requests in (3, 5):
        assert cost.undisturbed_count(a_model(repeated=4), requests, ran) is None
    assert cost.undisturbed_count(object(), 0, ran) is None
    assert cost.undisturbed_count(a_model(), 0, None) is None
    assert cost.repeated_requests(a_model(repeated=4)) == 4
    assert cost.repeated_requests(object()) == 0


# -- metrics ---------------------------------------------------------------------------------------


def value(name: str, labels: Sequence[float], outputs: Sequence[Sequence[float]]) -> float:
    given = np.array(outputs, np.float64)
    return metrics.metric_named(name).prepare(np.array(labels), given)(np.ones(len(given)))


def test_the_right_class_is_among_the_first() -> None:
    outputs = [[0.1, 0.4, 0.4, 0.3]]
    # Of equal outputs the first one comes first: 1, 2, 3, 0.
    for label, place in ((1, 0), (2, 1), (3, 2), (0, 3)):
        for k in range(1, 6):
            assert value(f"top{k}", [label], outputs) == (place < k), (label, k)


def test_the_area_of_two_classes_is_that_of_the_second() -> None:
    labels, second = [0, 1, 0, 1], [0.1, 0.9, 0.2, 0.15]
    outputs = [[1 - s, s] for s in second]
    assert value("auc", labels, outputs) == 0.75
    assert value("auc", labels, [[s] for s in second]) == 0.75
    # Of three the mean over the classes that occur with others.
    three = [[*row, 0.0] for row in outputs]
    assert value("auc", labels, three) == 0.75


def test_errors_of_values_are_over_all_of_a_sample() -> None:
    labels, outputs = [[0.0, 0.0], [1.0, 1.0]], [[1.0, 3.0], [1.0, 1.0]]
    given = np.array(labels)
    for name, expected in (("mae", 1.0), ("rmse", np.sqrt(10 / 4))):
        found = metrics.metric_named(name).prepare(given, np.array(outputs))(np.ones(2))
        assert found == pytest.approx(expected)


def test_f1_without_any_class_is_no_number() -> None:
    """In a resample of nothing."""
    statistic = metrics.metric_named("f1").prepare(np.array([0, 1]), np.eye(2))
    assert statistic(np.ones(2)) == 1.0
    assert np.isnan(statistic(np.zeros(2)))
    assert statistic(np.array([1.0, 0.0])) == 1.0


def test_resamples_without_a_value_are_passed_over() -> None:
    count = 0

    def statistic(weights: np.ndarray) -> float:
        nonlocal count
        count += 1
        assert weights.sum() == len(weights) == 4
        return float("nan") if count % 2 else float(count)

    low, high = metrics._bootstrap(statistic, 4)
    assert count == metrics.RESAMPLES
    values = np.arange(2, count + 1, 2)
    assert (low, high) == tuple(np.percentile(values, [2.5, 97.5]))
    assert all(np.isnan(metrics._bootstrap(lambda weights: float("nan"), 3)))
    # From a seed that is fixed.
    first = metrics._bootstrap(lambda weights: float(weights[0]), 50)
    assert first == metrics._bootstrap(lambda weights: float(weights[0]), 50)


def test_which_metrics_there_are() -> None:
    kinds = {name: metrics.metric_named(name) for name in ("accuracy", "auc", "f1", "mae", "rmse")}
    assert [metric.higher_is_better for metric in kinds.values()] == [True] * 3 + [False] * 2
    assert [metric.is_share for metric in kinds.values()] == [True] + [False] * 4
    top = metrics.metric_named("top3")
    assert (top.higher_is_better, top.is_share) == (True, True)
    labels, outputs = np.array([0, 1, 1, 0]), np.eye(2)[[0, 1, 0, 0]]
    assert kinds["accuracy"].score(labels, outputs).method == "Wilson"
    assert kinds["f1"].score(labels, outputs).method == "bootstrap"
    assert kinds["accuracy"].score(labels, outputs).value == 0.75


# -- what is verified ------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [3, b"TFL3", np.zeros(4, np.int8)])
def test_an_open_device_has_models_of_its_own_alone(device: Device, model: Any) -> None:
    told = f"of type {type(model).__name__} is no model of the open device"
    with pytest.raises(InputError, match=told) as refused:
        hil.verify(model, board=device)
    assert refused.value.hint is not None
    assert "give one of its models: device['adder']" in refused.value.hint
