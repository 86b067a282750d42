"""Parts of an evaluation by themselves: limits, scores, and the journal of what was computed."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hil.cli.actions.evaluate import evaluation_text
from hil.errors import InputError, NumericError
from hil.results.codec import encode
from hil.results.evaluate import Mismatch
from hil.verify import Oracle, evaluation
from hil.verify.datasets import DataSet, digest_of
from hil.verify.evaluation import Evaluation, MetricLimit, MetricReport
from hilc.artifact.library import TensorInfo

NAN = float("nan")
EQUAL = Oracle("given", "given", lambda index, sample: dict(sample))


def tensor(dtype: str = "int8", scale: float | None = 0.5, zero: int | None = -3) -> TensorInfo:
    nbytes = 6 * np.dtype(dtype).itemsize
    return TensorInfo("t", "t", (2, 3), dtype, scale, zero, nbytes, None)


class Data:
    """A data set of these samples."""

    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self.samples = samples
        self.sources = [f"s{number}" for number in range(len(samples))]

    def __len__(self) -> int:
        return len(self.samples)


class Device:
    """A model whose outputs a test states."""

    name = "net"

    def __init__(self, info: TensorInfo) -> None:
        self.inputs = self.outputs = (info,)
        self.runs = 0

    def reset_state(self) -> None:
        """There is none."""

    def set_input(self, name: str, array: np.ndarray) -> None:
        """The outputs do not depend on it."""

    def run(self) -> None:
        self.runs += 1


def metric(name: str, value: float, **limits: float) -> MetricReport:
    score: Any = SimpleNamespace(value=value, entry=lambda: None)
    return MetricReport(name, score, score, True, **limits)


def report(*metrics: MetricReport, **fields: Any) -> Evaluation:
    given: dict[str, Any] = {
        "model": "net", "output": "scores", "board": "b", "samples": 12, "metrics": metrics,
        "reference": "hilc", "reference_description": "d",
        "mismatches": 0, "first_mismatches": (), "confusion": None,
        "classes": None, "transport": "", "seconds": 2.0,
    }  # fmt: skip
    return Evaluation(**{**given, **fields})


@pytest.mark.parametrize(
    ("value", "limits", "is_met"),
    [
        (0.5, {}, True),
        (0.5, {"minimum": 0.5, "maximum": 0.5}, True),
        (0.4, {"minimum": 0.5}, False),
        (0.6, {"maximum": 0.5}, False),
        (0.6, {"minimum": 0.5, "maximum": 0.55}, False),
        (NAN, {"minimum": 0.5}, False),
        (NAN, {"maximum": 0.5}, False),
        (NAN, {}, True),
    ],
)
def test_a_limit_is_kept_up_to_its_value(
    value: float, limits: dict[str, float], is_met: bool
) -> None:
    one = metric("m", value, **limits)
    assert one.is_met == one.entry().met == is_met
    assert report(metric("other", 1.0), one).is_met == is_met


def test_a_metric_is_found_by_its_name() -> None:
    found = report(metric("a", 1.0), metric("b", 2.0))
    assert found["b"].device.value == 2.0
    with pytest.raises(InputError, match="the metric 'c' was not computed") as caught:
        found["c"]
    assert caught.value.hint == "there are a, b"


def test_the_rate_is_that_of_what_was_computed_now() -> None:
    assert report().rate == 6.0
    assert report(resumed=8).rate == 2.0
    assert report(seconds=0.0).rate == 0.0
    assert report().match
    assert not report(mismatches=1).match


def test_what_was_not_compared_is_named() -> None:
    found = report(uncompared_outputs=("boxes",), independent=False)
    text = evaluation_text(found)
    assert "only the output scores is evaluated and compared, not boxes" in text
    assert text.splitlines()[0].startswith(
        "net on b, compared with this compiler's own interpreter (not independent): 12 samples"
    )
    data = found.to_json()
    assert (data["uncompared_outputs"], data["independent"]) == (["boxes"], False)
    assert "only the output" not in evaluation_text(report())


@pytest.mark.parametrize("names", [("accuracy", "f1", "auc"), ("mae", "rmse")])
def test_outputs_that_are_nan_keep_no_limit(names: tuple[str, ...]) -> None:
    """The reference has the same NaN, and the labels are the class that argmax gives."""

    class Model(Device):
        def get_output(self, index: int) -> np.ndarray:
            return np.full((2, 3), NAN if self.runs > 2 else 1, np.float32)

    info = tensor("float32", None, None)
    samples = [{"t": np.full((2, 3), number, np.float32)} for number in range(4)]
    labels = np.array([0, 1, 0, 1]) if names[0] == "accuracy" else np.ones((4, 6))
    data = DataSet(samples, labels, [f"s{number}" for number in range(4)])
    model: Any = Model(info)
    of_reference = Model(info)

    def values(index: int, sample: Any) -> dict[str, np.ndarray]:
        of_reference.run()
        return {"t": of_reference.get_output(0)}

    lower = names[0] == "accuracy"
    limits = [MetricLimit(name, 0.5, "min" if lower else "max") for name in names]
    found = evaluation.evaluate_model(
        [model], data, Oracle("same", "same", values),
        evaluation.checked_metrics(names, limits), board="b", key={}, limits=limits,
    )  # fmt: skip
    assert found.match
    assert [one.is_met for one in found.metrics] == [False] * len(names)
    assert found.to_json()["nonfinite_samples"] == {"device": 2, "reference": 2}
    assert "2 of 4 samples have NaN or infinite outputs" in evaluation_text(found)
    with pytest.raises(NumericError, match="2 samples have NaN or infinite outputs"):
        found.check()


def test_no_sample_is_no_evaluation() -> None:
    empty: Any = Data([])
    model: Any = SimpleNamespace(inputs=[tensor()], outputs=[tensor()])
    with pytest.raises(InputError, match="the data set has no sample"):
        evaluation.evaluate_model([model], empty, EQUAL, [], board="b", key={})


def test_a_difference_that_is_no_number_in_json() -> None:
    assert encode(Mismatch(3, "s", 1, None, NAN)) == {
        "sample": 3, "source": "s", "device_class": 1, "reference_class": None,
        "max_abs_diff": None,
    }  # fmt: skip
    assert encode(Mismatch(3, "s", 1, 2, 0.5))["max_abs_diff"] == 0.5


def test_a_reconstruction_is_scored_by_mean_square() -> None:
    given = [np.arange(6, dtype=np.int8).reshape(2, 3) + 7 * number for number in range(3)]
    outputs = np.array([np.flip(one, 1) for one in given])
    model: Any = SimpleNamespace(inputs=[tensor(scale=0.25, zero=2)], outputs=[tensor()])
    data: Any = Data([{"t": one} for one in given])
    real = (outputs.reshape(3, 6) + 3) * 0.5
    found = evaluation._results(model, data, outputs, "outputs", model.outputs[0])
    np.testing.assert_array_equal(found, real)
    pairs = zip(given, real, strict=True)
    wanted = [np.square((one.ravel() - 2) * 0.25 - own).mean() for one, own in pairs]
    errors = evaluation._results(model, data, outputs, "reconstruction", model.outputs[0])
    np.testing.assert_allclose(errors, np.array(wanted)[:, np.newaxis])
    for unscaled in (tensor(scale=None), tensor(zero=None)):
        np.testing.assert_array_equal(evaluation._real(outputs[0], unscaled), outputs[0])


def test_a_reference_gives_the_models_type_and_size() -> None:
    resets: list[int] = []
    values: dict[str, Any] = {}
    oracle: Any = SimpleNamespace(
        reset_state=lambda: resets.append(1), values=lambda index, sample: values
    )

    def expected(array: np.ndarray) -> np.ndarray:
        values["t"] = array
        return evaluation._expected(oracle, 0, {}, tensor())

    flat = np.arange(6, dtype=np.int8)
    np.testing.assert_array_equal(expected(flat), flat.reshape(2, 3))
    for wrong in (flat[:5], flat.astype(np.uint8), np.zeros(7, np.int8)):
        with pytest.raises(InputError, match=r"compiled model's is int8\[2, 3\]"):
            expected(wrong)
    assert len(resets) == 4


# -- the journal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32", "int64", "bool"])
def test_outputs_are_kept_to_the_bit(dtype: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    text = evaluation._packed(array)
    kept = evaluation._unpacked(text, tensor(dtype))
    assert (kept.dtype, kept.tobytes()) == (array.dtype, array.tobytes())
    with pytest.raises(InputError, match="an output in the journal is not the"):
        evaluation._unpacked(text[:4], tensor(dtype))
    assert evaluation._packed(array.astype(array.dtype.newbyteorder(">"))) == text


def entry(number: Any = 0, **fields: Any) -> dict[str, Any]:
    return {"sample": number, "input": "x", "device": "AAAA", "reference": None, **fields}


def read(*lines: Any, head: dict[str, Any]) -> Any:
    text = b"".join(one if isinstance(one, bytes) else evaluation._line(one) for one in lines)
    file: Any = io.BytesIO(text)
    return evaluation._read_journal(file, Path("j"), head)


def test_a_journal_is_read_up_to_its_last_whole_line() -> None:
    head = {"model": "net", "version": 2}
    assert read(head=head) == ({}, 0)
    entries, size = read(head, entry(0), entry(2), head=head)
    assert list(entries) == [0, 2]
    assert size == sum(len(evaluation._line(one)) for one in (head, entry(0), entry(2)))
    again, short = read(head, entry(0), evaluation._line(entry(2))[:-4], head=head)
    assert list(again) == [0]
    assert short == len(evaluation._line(head)) + len(evaluation._line(entry(0)))
    # A head with more says the same.
    assert read({**head, "more": 1}, entry(5), head=head)[0] == {5: entry(5)}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([b"no JSON\n"], "it is none of an evaluation"),
        ([{"model": "other", "version": 2}], "model was different"),
        ([{"model": "net", "version": 1}], "version was different"),
        ([{"model": "net"}], "version was different"),
        *(
            ([{"model": "net", "version": 2}, entry(), wrong], "line 3 has no result of a sample")
            for wrong in (
                *(entry("0"), entry(None), entry(True), entry(1.0), entry(input=3)),
                *(entry(device=None), entry(reference=7), {"sample": 1}),
            )
        ),
    ],
)
def test_a_journal_of_something_else_is_refused(lines: list[Any], why: str) -> None:
    with pytest.raises(InputError, match=f"j is not the journal of this evaluation: {why}"):
        read(*lines, head={"model": "net", "version": 2})


def test_samples_that_were_done_are_still_the_same() -> None:
    samples = [{"x": np.full(3, number, np.int8)} for number in range(4)]
    data: Any = Data(samples)
    told: list[int] = []

    def resumed(*digests: tuple[int, str]) -> int:
        class Kept:
            def digests(self) -> Any:
                return iter(digests)

            def __len__(self) -> int:
                return len(digests)

        kept: Any = Kept()
        return evaluation._check_resumed(kept, data, told.append)

    good = [(number, digest_of(sample)) for number, sample in enumerate(samples)]
    assert resumed() == 0
    assert resumed(*good[1:3]) == 2
    assert told == [2]
    for index in (-1, 4):
        with pytest.raises(InputError, match=f"has sample {index}, and the data set has 4"):
            resumed((index, good[0][1]))
    with pytest.raises(InputError, match="s2 has changed since the evaluation was interrupted"):
        resumed(good[0], (2, good[0][1]))
