"""The samples of a verification for which none are given, and what a match over them says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from tiny_library import tiny_library

import hil
from hil.cli import main
from hil.device import Device
from hil.errors import InputError
from hil.verify import Oracle, samples
from hil.verify.samples import (
    ExtremeSample,
    StandardSamples,
    TimeBoxed,
    missed_fault_rate,
    random_sample,
)
from hilc.artifact.library import TensorInfo
from hilc.ir import Array

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"


def tensor(dtype: str, name: str = "x", zero_point: int | None = None) -> TensorInfo:
    return TensorInfo(name, name, (2, 3), dtype, None, zero_point, 6, None)


# -- which samples -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "zero_point", "values"),
    [
        ("int8", 5, [-128, 127, 5]),
        ("int8", -128, [-128, 127]),
        ("uint8", 3, [0, 255, 3]),
        ("int16", None, [-32768, 32767, 0]),
        ("bool", None, [False, True]),
        ("float32", None, [0]),
        # Counts and indices: which of them a model takes is not known.
        ("int32", None, []),
    ],
)
def test_extremes_come_first(dtype: str, zero_point: int | None, values: list[float]) -> None:
    tensors = [tensor(dtype, zero_point=zero_point)]
    given = StandardSamples(tensors, seed=4)
    extremes = [sample for sample in given if isinstance(sample, ExtremeSample)]
    assert [np.unique(sample["x"]).tolist() for sample in extremes] == [[v] for v in values]
    assert list(given[: len(values)]) == extremes
    for index in range(5):
        drawn = random_sample(tensors, 4, index)
        assert np.array_equal(given[len(values) + index]["x"], drawn["x"])


def test_a_sample_is_independent_of_their_number() -> None:
    tensors = [tensor("int8"), tensor("float32", "y")]
    few, many = StandardSamples(tensors, 1, 12), StandardSamples(tensors, 1)
    assert (len(few), len(many)) == (12, 100)
    for one, other in zip(few, many[:12], strict=True):
        assert {name: array.tolist() for name, array in one.items()} == {
            name: array.tolist() for name, array in other.items()
        }


class Clock:
    """A clock that advances by the same time whenever it is asked."""

    def __init__(self, step_s: float) -> None:
        self._now, self._step_s = 0.0, step_s

    def monotonic(self) -> float:
        self._now += self._step_s
        return self._now


@pytest.mark.parametrize(("step_s", "count"), [(0.0, 100), (0.125, 49), (1.0, 14), (60.0, 10)])
def test_as_many_as_fit_in_the_time(
    step_s: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten are computed without a look at the clock."""
    monkeypatch.setattr(samples, "time", Clock(step_s))
    assert len(list(TimeBoxed(StandardSamples([tensor("int8")], 0)))) == count


def test_an_explicit_number_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", str(DIGITS), "--board", "native", "--json"]
    assert main([*words, "--samples", "7"]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert (report["samples"], report["missed_fault_rate"]["samples"]) == (7, 7)
    assert report["provenance"]["inputs"]["samples"] == 7
    assert main(words) == 0
    report = answers.entry(capsys.readouterr().out)
    assert 10 <= report["samples"] <= 100
    assert report["provenance"]["inputs"]["samples"] == report["samples"]
    # Two are extremes, which are not drawn: the lowest value is zero.
    assert report["missed_fault_rate"]["samples"] == report["samples"] - 2


# -- what a match says ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "percent"), [(1, 95.0), (2, 77.7), (3, 63.2), (10, 25.9), (57, 5.2), (100, 3.0)]
)
def test_the_rate_of_faults_that_would_be_missed(count: int, percent: float) -> None:
    rate = missed_fault_rate(count)
    assert rate is not None
    assert (1 - rate) ** count == pytest.approx(0.05)
    report = hil.verify(Copy(), [{"x": i8(i)} for i in range(count)], EQUAL)
    assert report.remarks[0] == (
        f"a fault in {percent:g} % or more of such inferences would show (95 % confidence)"
    )
    assert missed_fault_rate(0) is None


def i8(*values: int) -> Array:
    return np.array(values, np.int8)


class Copy:
    """A model in this process whose output is its input, or ``value``."""

    name = "copy"
    layers = ()
    states = ()
    is_per_layer = False

    def __init__(self, dtype: str = "int8", value: Array | None = None) -> None:
        self.inputs = self.outputs = (
            TensorInfo("x", "x", (1,), dtype, None, None, np.dtype(dtype).itemsize, None),
        )
        self._value, self._x = value, np.zeros(1, dtype)

    def set_input(self, name: Any, array: Any) -> None:
        self._x = np.asarray(array)

    def run(self) -> None:
        pass

    def reset_state(self) -> None:
        pass

    def get_output(self, name: Any) -> Array:
        return self._x if self._value is None else self._value

    def __getattr__(self, name: str) -> Any:
        # What else the interface of models has is not used.
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: None


EQUAL = Oracle("given", "given", lambda index, sample: dict(sample))


def test_repeated_inputs_count_once() -> None:
    report = hil.verify(Copy(), [{"x": i8(1)}] * 20, EQUAL)
    assert (report.samples, report.independent_samples) == (20, 1)
    assert report.remarks == (
        "a fault in 95 % or more of such inferences would show (95 % confidence); only 1 of the "
        "20 samples differ from all others",
    )


def test_floats_are_equal_within_a_bound() -> None:
    report = hil.verify(Copy("float32"), [{"x": np.ones(1, np.float32)}], EQUAL)
    assert "floats equal within 1e-05 of the largest of their tensor: x 1e-05" in report.remarks
    assert report.to_json()["float_tolerance"] == 1e-5


def test_a_huge_element_hides_no_others() -> None:
    """They are within the tolerance, and the result says how large it is, and that they are off."""
    right = np.array([1e9, 1, -2, 0, 3], np.float32)
    off = right + np.array([10, 5000, 0, 7, 0.001], np.float32)
    oracle = Oracle("given", "given", lambda index, sample: {"x": right})
    report = hil.verify(Copy("float32", off), [{"x": off}, {"x": off}], oracle)
    assert report.match
    assert "floats equal within 1e-05 of the largest of their tensor: x 1e+04" in report.remarks
    (remark,) = (line for line in report.remarks if line.startswith("output x"))
    assert "4 elements differ by more than 1 % of their own value, by up to 5e+03" in remark
    (output,) = report.to_json()["outputs"]
    assert output["tolerance"] == pytest.approx(1e4)
    assert output["loose"] == {"elements": 4, "max_abs_diff": 5000}
    exact = hil.verify(Copy("float32", right), [{"x": right}], oracle)
    assert exact.to_json()["outputs"][0]["loose"] == {"elements": 0, "max_abs_diff": 0}
    assert not any("of their own value" in line for line in exact.remarks)


def test_nan_is_no_strong_equality() -> None:
    nan = np.full(1, np.nan, np.float32)
    oracle = Oracle("given", "given", lambda index, sample: {"x": nan})
    report = hil.verify(Copy("float32", nan), [{"x": nan}, {"x": nan}], oracle)
    assert report.match
    assert report.remarks[-1] == "output x: 2 elements are NaN in the reference and here"
    assert report.to_json()["outputs"][0]["nans"] == 2


def test_nothing_is_no_match() -> None:
    def none() -> Iterator[Mapping[str, Array]]:
        yield from ()

    empty: tuple[Any, ...] = ([], none())
    for given in empty:
        with pytest.raises(InputError, match="there is no sample, so nothing was compared"):
            hil.verify(Copy(), given, EQUAL)
    model = Copy()
    model.inputs = model.outputs = (TensorInfo("x", "x", (0,), "int8", None, None, 0, None),)
    with pytest.raises(InputError, match="no output of the model has an element"):
        hil.verify(model, [{"x": i8()}], EQUAL)


def test_a_sample_that_lacks_an_input() -> None:
    """Its value would be that of the sample before."""
    with pytest.raises(InputError, match="sample 1 has no value for the input 'x'"):
        hil.verify(Copy(), [{"x": i8(1)}, {"y": i8(1)}], EQUAL)


def test_expected_outputs_need_inputs() -> None:
    with pytest.raises(InputError, match="expect is given without samples"):
        hil.verify(str(DIGITS), board="native", expect={"Identity": np.zeros((3, 1, 10), np.int8)})


# -- a fault in 15 % of the inferences -----------------------------------------------------------

#: The input is from -1000 to 1000.
_FAULT = "for (int i = 0; i < 4; ++i) y[i] = x[i] + 1; if ((x[0] + 1000) % 100 < 15) y[3] ^= 1;"
_RIGHT = Oracle("given", "x + 1", lambda index, sample: {"y": sample["x"] + np.int32(1)})


@pytest.fixture(scope="module", params=["native", "mps2-an386"])
def faulty(request: pytest.FixtureRequest) -> Iterator[Device]:
    cpu = {"native": "host"}.get(request.param, "cortex-m4")
    with hil.open(request.param, tiny_library(_FAULT, cpu=cpu)) as device:
        yield device


def test_the_default_finds_it(faulty: Device) -> None:
    found = [hil.verify(faulty["tiny"], None, _RIGHT, seed=seed) for seed in range(10)]
    assert [report.match for report in found] == [False] * 10


def test_few_samples_miss_it_and_say_so(faulty: Device) -> None:
    few = [hil.verify(faulty["tiny"], 2, _RIGHT, seed=seed) for seed in range(20)]
    missed = [report for report in few if report.match]
    assert missed
    assert all((report.missed_fault_rate or 0) > 0.15 for report in missed)
    assert missed[0].remarks[0].startswith("a fault in 77.7 % or more of such inferences")
