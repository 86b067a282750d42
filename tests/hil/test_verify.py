"""The comparison, on models made of given numbers: what counts as equal and what is reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hil import verify
from hil.cli.render import verify_text
from hil.errors import DeviceError, InputError, NumericError
from hil.results.verify import Cost
from hil.verify import FLOAT_RTOL, Oracle, Report, comparison, cost
from hil.verify.diagnosis import PAIRS_MAX
from hilc.artifact.library import Layer, TensorInfo

Arrays = Mapping[str, np.ndarray]


def info(name: str, array: np.ndarray) -> TensorInfo:
    return TensorInfo(name, name, array.shape, array.dtype.name, None, None, array.nbytes, None)


@dataclass
class GivenModel:
    """Answers with given tensors: output ``y``, layers ``a`` and ``y``; inputs vanish in a run."""

    tensors: Arrays
    name: str = "given"
    x: np.ndarray | None = None

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        return (info("x", np.zeros(2, np.int8)),)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return (info("y", self.tensors["y"]),)

    @property
    def states(self) -> tuple[TensorInfo, ...]:
        return ()

    def reset_state(self) -> None:
        """There is none."""

    def state(self, name: str | int) -> np.ndarray:
        raise NotImplementedError

    def set_state(self, name: str | int, array: npt.ArrayLike) -> None:
        raise NotImplementedError

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(
            Layer(f"layer_{name}", "ADD", "f", (), (info(name, array),), macs=0, input_count=0)
            for name, array in self.tensors.items()
        )

    def set_input(self, name: str | int, array: npt.ArrayLike, /) -> None:
        assert name == "x"
        self.x = np.asarray(array)

    def _consume_inputs(self) -> None:
        assert self.x is not None, "the inputs were not set again"
        self.x = None

    def run(self) -> None:
        self._consume_inputs()

    def get_input(self, name: str | int) -> np.ndarray:
        raise NotImplementedError

    def get_output(self, name: str | int) -> np.ndarray:
        return self.tensors[str(name)]

    def layer_outputs(self) -> Iterator[tuple[Layer, list[np.ndarray]]]:
        self._consume_inputs()
        for layer, array in zip(self.layers, self.tensors.values(), strict=True):
            yield layer, [array]


SAMPLE = {"x": np.zeros(2, np.int8)}


def compare(got: Arrays, expected: Arrays, samples: int = 1, per_layer: bool = True) -> Report:
    return verify(
        GivenModel(got),
        [SAMPLE] * samples,
        Oracle("given", "given numbers", lambda index, sample: expected),
        board="none",
        per_layer=per_layer,
    )


def i8(*values: int) -> np.ndarray:
    return np.array(values, np.int8)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_integers_that_no_model_takes_are_named() -> None:
    class Table(GivenModel):
        @property
        def inputs(self) -> tuple[TensorInfo, ...]:
            return (info("word", np.zeros(1, np.int64)),)

        def set_input(self, name: str | int, array: npt.ArrayLike, /) -> None:
            """Nothing is computed of it."""

        def run(self) -> None:
            raise DeviceError("the model returned -1")

    def refused(index: int, sample: Arrays) -> Arrays:
        raise InputError("GATHER 'table' takes 700 of 20")

    def verified(values: Callable[[int, Arrays], Arrays]) -> Report:
        oracle = Oracle("given", "given numbers", values)
        return verify(Table({"y": i8(1)}), [{"word": np.array([700])}], oracle, board="none")

    with pytest.raises(
        InputError, match="sample 0: the model returned -1.*takes 700 of 20"
    ) as told:
        verified(refused)
    assert "'word'" in told.value.hint
    assert "--inputs F.npz" in told.value.hint
    # What the reference computes is the board's fault.
    with pytest.raises(DeviceError, match="^the model returned -1"):
        verified(lambda index, sample: {"y": i8(1)})


BIG = 2.0**20


@pytest.mark.parametrize(
    ("expected", "got", "mismatches", "max_abs_diff"),
    [
        (i8(1, 2, 3), i8(1, 2, 3), 0, 0),
        (i8(1, 2, 3), i8(1, 2, 4), 1, 1),
        (i8(-128, 0), i8(127, 1), 2, 255),
        (np.array([2**62], np.int64), np.array([2**62 + 1], np.int64), 1, 0),
        (np.array([True, False]), np.array([True, True]), 1, 1),
        (f32(1, -2), f32(1, -2), 0, 0),
        # Without dimensions.
        (np.array(1, np.int8), np.array(3, np.int8), 1, 2),
        (np.array(1.5, np.float32), np.array(1.5, np.float32), 0, 0),
        (np.array(1.5, np.float32), np.array(2.5, np.float32), 1, 1),
        # The tolerance is relative to the tensor's largest magnitude, so 0 may become 1e-5 * BIG.
        (f32(BIG, 0), f32(BIG, FLOAT_RTOL * BIG * 0.99), 0, FLOAT_RTOL * BIG * 0.99),
        (f32(BIG, 0), f32(BIG, FLOAT_RTOL * BIG * 1.01), 1, FLOAT_RTOL * BIG * 1.01),
        (f32(0, 0), f32(0, 1e-30), 1, 1e-30),
        (f32(np.nan, 1), f32(np.nan, 1), 0, 0),
        (f32(np.inf, -np.inf), f32(np.inf, -np.inf), 0, 0),
        (f32(np.nan, 1), f32(0, 1), 1, None),
        (f32(1, 1), f32(np.nan, 1), 1, None),
        (f32(np.inf, 1), f32(-np.inf, 1), 1, None),
        (f32(3, 1), f32(np.inf, 1), 1, None),
    ],
)
def test_what_counts_as_different(
    expected: np.ndarray, got: np.ndarray, mismatches: int, max_abs_diff: float | None
) -> None:
    report = compare({"y": got}, {"y": expected}, per_layer=False)
    output = json.loads(json.dumps(report.json(), allow_nan=False))["outputs"][0]
    assert output["mismatches"] == mismatches
    assert report.match == (mismatches == 0)
    if max_abs_diff is None:
        assert output["max_abs_diff"] is None
    else:
        assert output["max_abs_diff"] == pytest.approx(max_abs_diff, rel=1e-6)


def test_json_is_the_contract() -> None:
    report = compare({"y": i8(1, 5, 3)}, {"y": i8(1, 2, 3)}, samples=3, per_layer=False).json()
    assert report.pop("seconds") >= 0
    assert report == {
        "model": "given",
        "goal": None,
        "first_different_layer": None,
        "diagnosis": None,
        "cost": None,
        "recoveries": [],
        "board": "none",
        "samples": 3,
        "reference": "given",
        "reference_description": "given numbers",
        "reference_fallback": None,
        "independent": True,
        "match": False,
        "missed_fault_rate": {"rate": None, "confidence": 0.95, "samples": 1},
        "float_tolerance": None,
        "outputs": [
            {
                "name": "y",
                "shape": [3],
                "dtype": "int8",
                "mismatches": 3,
                "max_abs_diff": 3,
                "errors": [
                    {"low": 0, "high": 0, "count": 6},
                    {"low": 3, "high": 4, "count": 3},
                ],
            }
        ],
        "first_difference": {
            "tensor": "y",
            "sample": 0,
            "position": [1],
            "expected": 2,
            "got": 5,
        },
    }


def test_errors_are_counted_in_bins() -> None:
    expected = i8(0, 0, 0, 0, 0, -128, 5)
    report = compare({"y": i8(0, 1, -1, 2, -7, 127, 9)}, {"y": expected}, samples=2)
    bins = [(one.low, one.high, one.count) for one in report.outputs[0].errors]
    assert bins == [
        (-8, -5, 2), (-1, -1, 2), (0, 0, 2), (1, 1, 2), (2, 2, 2), (3, 4, 2), (129, 256, 2),
    ]  # fmt: skip


def test_errors_of_floats_are_relative_to_the_tensor() -> None:
    got, expected = f32(100, 50.5, np.nan, -2e-30), f32(100, 50, 1, -1e-30)
    report = compare({"y": got}, {"y": expected}, samples=1)
    bins = [(one.low, one.high, one.count) for one in report.outputs[0].errors]
    assert bins == [
        (pytest.approx(-1e-12), pytest.approx(-1e-13), 1),
        (0, 0, 1),
        (pytest.approx(1e-3), pytest.approx(1e-2), 1),
    ]
    same = compare({"y": expected}, {"y": expected}, samples=1)
    assert same.outputs[0].errors == ()


def test_the_first_layer_that_differs_is_named() -> None:
    got = {"a": np.array([[1, 2], [3, 9]], np.int8), "y": i8(4)}
    expected = {"a": np.array([[1, 2], [3, 4]], np.int8), "y": i8(7)}
    report = compare(got, expected)
    assert report.json()["first_different_layer"] == {
        "index": 0,
        "name": "layer_a",
        "op": "ADD",
        "tensor": "a",
        "sample": 0,
        "position": [1, 1],
        "expected": 4,
        "got": 9,
    }
    assert "first layer that differs: 0 ADD layer_a" in verify_text(report)
    assert "0 of 2 layers match" in verify_text(report)


def test_a_layer_alone_makes_a_mismatch() -> None:
    """A saturated output hides a wrong layer; that is what comparing layers is for."""
    report = compare({"a": i8(1), "y": i8(127)}, {"a": i8(2), "y": i8(127)})
    assert report.outputs[0].mismatches == 0
    assert not report.match


def test_what_the_reference_does_not_have_is_said() -> None:
    report = compare({"made_by_a_pass": i8(1), "y": i8(1)}, {"y": i8(1)})
    assert report.match
    layers = report.json()["layers"]
    assert [layer["uncompared"] for layer in layers] == [["made_by_a_pass"], []]
    assert "1 of 1 layer match; 1 exist in the compiled model only" in verify_text(report)


def test_a_reference_of_another_model() -> None:
    with pytest.raises(InputError, match="is int8\\[2\\] but the compiled model's is int8\\[3\\]"):
        compare({"y": i8(1, 2, 3)}, {"y": i8(1, 2)})


# -- states, samples and what is taken of them -----------------------------------------------------


class CountingModel(GivenModel):
    """Adds its input to a state; layer ``a`` is the state before, layer ``y`` that after."""

    def __init__(self, fault: Callable[[int, np.ndarray], np.ndarray] = lambda run, y: y) -> None:
        super().__init__({"a": i8(0, 0), "y": i8(0, 0)})
        self.sum = i8(9, 9)
        self.calls: list[str] = []
        self._fault = fault
        self._runs = 0

    @property
    def states(self) -> tuple[TensorInfo, ...]:
        return (info("sum", self.sum),)

    def reset_state(self) -> None:
        self.calls.append("reset")
        self.sum = i8(0, 0)

    def state(self, name: str | int) -> np.ndarray:
        assert name == 0
        return np.array(self.sum)

    def set_state(self, name: str | int, array: npt.ArrayLike) -> None:
        assert name == 0
        self.calls.append("set")
        self.sum = np.asarray(array).copy()

    def _step(self) -> dict[str, np.ndarray]:
        assert self.x is not None
        before = self.sum
        self.sum = before + self.x
        y = self._fault(self._runs, self.sum)
        self._consume_inputs()
        return {"a": before, "y": y}

    def run(self) -> None:
        self.calls.append("run")
        self.tensors = self._step()
        self._runs += 1

    def layer_outputs(self) -> Iterator[tuple[Layer, list[np.ndarray]]]:
        self.calls.append("layers")
        for layer, array in zip(self.layers, self._step().values(), strict=True):
            yield layer, [array]


class Sums:
    """The same as a reference."""

    def __init__(self) -> None:
        self.sum = i8(7, 7)
        self.asked: list[int] = []

    def reset(self) -> None:
        self.sum = i8(0, 0)

    def values(self, index: int, sample: Arrays) -> dict[str, np.ndarray]:
        self.asked.append(index)
        before = self.sum
        self.sum = before + sample["x"]
        return {"a": before, "y": self.sum}

    @property
    def oracle(self) -> Oracle:
        return Oracle("sums", "sums", self.values, reset_state=self.reset)


STEPS = [{"x": i8(number, 2 * number)} for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("keep_state", [False, True])
def test_states_are_reset_each_sample_or_once(keep_state: bool, per_layer: bool) -> None:
    model, sums = CountingModel(), Sums()
    report = verify(
        model, STEPS, sums.oracle, board="none", per_layer=per_layer, keep_state=keep_state
    )
    assert report.match
    assert report.samples == 4
    assert sums.asked == [0, 1, 2, 3]
    assert model.calls.count("reset") == (1 if keep_state else 4)
    # The run by layers begins with the states that the run itself began with.
    once = ["run", "set", "layers"] if per_layer else ["run"]
    assert [call for call in model.calls if call != "reset"] == once * 4
    assert model.sum.tolist() == ([10, 20] if keep_state else [4, 8])
    assert (report.layers is None) != per_layer


def test_a_reference_with_other_states_differs() -> None:
    sums = Sums()
    oracle = Oracle("sums", "sums", sums.values)  # never reset
    report = verify(CountingModel(), STEPS, oracle, board="none", keep_state=True)
    assert report.outputs[0].mismatches == 8
    first = report.outputs[0].first
    assert first is not None
    assert (first.sample, first.expected, first.got) == (0, 8, 1)


def test_the_first_differing_layer_is_diagnosed() -> None:
    """Each of its pairs is kept, also where a later layer differed in an earlier sample."""

    def fault(run: int, y: np.ndarray) -> np.ndarray:
        return np.asarray(y + i8(0, 1))

    class Late(CountingModel):
        def layer_outputs(self) -> Iterator[tuple[Layer, list[np.ndarray]]]:
            for layer, (array,) in super().layer_outputs():
                wrong = layer.name == "layer_a" and self._runs > 2
                yield layer, [array + i8(5, 0) if wrong else array]

    model = Late(fault)
    report = verify(model, STEPS, Sums().oracle, board="none", per_layer=True)
    assert report.layers is not None
    assert [layer.outputs[0].mismatches for layer in report.layers] == [2, 4]
    assert report.outputs[0].mismatches == 4
    assert report.diagnosis is not None
    assert (report.diagnosis.layer, report.diagnosis.tensor) == (0, "a")
    first = report.layers[0].outputs[0].first
    assert first is not None
    assert (first.sample, first.position) == (2, (0,))
    only = verify(CountingModel(fault), STEPS, Sums().oracle, board="none", per_layer=True)
    assert only.diagnosis is not None
    assert only.diagnosis.layer == 1
    # Diagnosed once, at the end, with nothing left of it.
    assert model.calls[-1] == "reset"


def test_what_is_computed_again_is_compared_once() -> None:
    jobs = 0

    def repeated(job: Callable[[], object]) -> object:
        nonlocal jobs
        jobs += 1
        job()
        return job()

    model = CountingModel()
    report = verify(
        model, STEPS[:2], Sums().oracle, board="none", repeated=repeated, per_layer=True
    )
    assert report.match
    assert jobs == 2
    assert model.calls.count("run") == 4


def test_no_samples_are_no_match() -> None:
    with pytest.raises(InputError, match="there is no sample, so nothing was compared"):
        verify(CountingModel(), [], Sums().oracle, board="none", per_layer=True)


def test_the_check_says_what_differs() -> None:
    def checked(model: GivenModel, per_layer: bool = False) -> NumericError:
        report = verify(model, STEPS, Sums().oracle, board="none", per_layer=per_layer)
        with pytest.raises(NumericError) as caught:
            report.check()
        return caught.value

    wrong = CountingModel(lambda run, y: y + i8(0, 1))
    error = checked(wrong)
    assert error.fact == (
        "given on none differs from sums: 4 elements of 'y', the first in sample 0 at [1]: 3, "
        "expected 2"
    )
    assert error.hint == "use --per-layer to find the earliest layer that differs"
    error = checked(CountingModel(lambda run, y: y + i8(0, 1)), per_layer=True)
    assert error.hint.startswith("the earliest layer that differs is 'layer_y' (ADD): ")
    right = verify(CountingModel(), STEPS, Sums().oracle, board="none")
    assert right.check() is right


def test_pairs_of_the_first_layer_are_limited() -> None:
    def suspect(layer: int, output: int, *pairs: int) -> Any:
        return comparison._Suspect(layer, output, [], {}, list(pairs))  # type: ignore[arg-type]

    first: Any = suspect(2, 0, 1)
    first_suspect: Any = comparison._first_suspect
    assert first_suspect(None, first) is first
    assert first_suspect(first, suspect(2, 0, 2)).pairs == [1, 2]
    for later in (suspect(2, 1, 3), suspect(3, 0, 3)):
        assert first_suspect(first, later) is first
    assert first.pairs == [1, 2]
    for number in range(PAIRS_MAX + 3):
        assert first_suspect(first, suspect(2, 0, 9 + number)) is first
    assert len(first.pairs) == PAIRS_MAX
    for earlier in (suspect(1, 5, 4), suspect(2, -1, 4)):
        assert first_suspect(first, earlier) is earlier


# -- cost ------------------------------------------------------------------------------------------


class FakeModel:
    """A model on a board of which 3 requests were repeated."""

    name = "net"

    def __init__(self, sizes: Any = None) -> None:
        firmware = None if sizes is None else SimpleNamespace(sizes=sizes)
        self.device = SimpleNamespace(repeated_requests=3, counter="cycles", firmware=firmware)
        self.module = SimpleNamespace(workspace_bytes=40)


def test_the_cost_is_of_undisturbed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "Model", FakeModel)
    model = FakeModel()
    counted = SimpleNamespace(count=7)
    assert cost.repeated_requests(model) == 3
    assert cost.repeated_requests(object()) == 0
    assert cost.undisturbed_count(model, 3, counted) == 7
    assert cost.undisturbed_count(model, 2, counted) is None
    assert cost.undisturbed_count(object(), 3, counted) is None
    for uncounted in (SimpleNamespace(count=None), SimpleNamespace(), None):
        assert cost.undisturbed_count(model, 3, uncounted) is None
    assert cost.cost_of(object(), [1]) is None
    assert cost.cost_of(model, []) is None
    # The lower one of two in the middle: a count that was counted.
    assert cost.cost_of(model, [5, 9, 1, 7]) == Cost("cycles", 5, None, None, 40)
    sizes = SimpleNamespace(models={"net": SimpleNamespace(flash_bytes=300)}, ram_bytes=500)
    assert cost.cost_of(FakeModel(sizes), [5]) == Cost("cycles", 5, 300, 500, 40)
