"""Measuring: what is counted, what is not, on a device made of given ticks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hil
from hil.access import Measurement
from hil.board import Board, load_board
from hil.cli.render import bench_text
from hil.device import RunResult
from hil.errors import InputError, LinkError
from hil.firmware.build import Firmware, ModelSizes, Sizes
from hil.link.replies import Memory
from hil.results.bench import SimulatedCount
from hil.verify.bench import BenchReport, layer_counts, whole_counts
from hil.verify.bench import bench as bench_of_device
from hil.verify.samples import random_sample
from hilc.artifact.library import Layer, Module, TensorInfo
from hilc.artifact.manifest import Folded
from hilc.artifact.work import Work

#: For devices that stand for open ones.
bench: Any = bench_of_device

X = TensorInfo("x", "x", (2,), "int8", 1.0, 0, 2, 0)
MODULE = Module(
    name="net",
    symbol="tvmgen_net",
    cpu="cortex-m4",
    inputs=(X,),
    outputs=(X,),
    layers=(
        Layer("conv;relu", "CONV_2D", "f", (), (X,), macs=100, input_count=0),
        Layer("soft", "SOFTMAX", "g", (), (X,), macs=0, input_count=0),
    ),
    workspace_bytes=40,
    io_bytes=4,
    constants_bytes=30,
    pools="external",
    workspace_pools=(),
    io_in_pool=True,
    folded=Folded(5, 60),
)


def firmware(board: Board) -> Firmware:
    own = {"kernels": 200, "constants": 30, "glue": 70}
    shared = {"runtime": 100, "firmware": 590, "padding": 10}
    models = {"net": ModelSizes(300, 30, 40, 8, flash_owners=own)}
    sizes = Sizes(1000, 500, 256, 64, (), models, flash_owners=shared)
    return Firmware(Path(), Path(), "0" * 32, board, (), sizes)


class GivenDevice:
    """Runs take the given ticks; a request was repeated where the ticks are negative."""

    counter = "instructions"
    simulated = None

    def __init__(self, ticks: list[int], board: str = "mps2-an386") -> None:
        self.firmware: Firmware | None = firmware(load_board(board))
        self.repeated_requests = 0
        self._ticks: Iterator[int] = iter(ticks)
        self._inputs_set = False

    def __getitem__(self, name: str) -> GivenDevice:
        assert name == "net"
        return self

    def reset_state(self) -> None:
        """It has none."""

    def set_input(self, name: str, array: np.ndarray) -> None:
        # That writing takes long disturbs nothing.
        self.repeated_requests += 1
        self._inputs_set = True

    def _next(self) -> int:
        assert self._inputs_set, "a run destroys the inputs"
        self._inputs_set = False
        ticks = next(self._ticks)
        self.repeated_requests += ticks < 0
        return abs(ticks)

    def run(self) -> RunResult:
        return RunResult(self._next())

    def profile(self) -> list[int]:
        return [self._next(), 3]

    def count(self, ticks: int) -> int:
        return 10 * ticks

    def memory(self) -> Memory:
        return Memory(256, 99, 0, 0)


def measure(ticks: list[int], module: Module = MODULE, **options: Any) -> Any:
    # It computes nothing that could be compared.
    return bench(GivenDevice(ticks), module, **options)


def test_json_is_the_contract() -> None:
    assert measure([70, 50, 40]).json() == {
        "model": "net",
        "board": "mps2-an386",
        "goal": None,
        "counter": "instructions",
        "per_inference": 500,
        "counts": [500],
        "checked": None,
        "spread": {"min": 500, "q1": 500, "median": 500, "q3": 500, "max": 500},
        "warmup": 1,
        "deterministic": True,
        "clock_hz": 25_000_000,
        "latency_us": None,
        "model_flash_bytes": 300,
        "firmware_flash_bytes": 1000,
        "flash_by_owner": {
            "kernels": 200,
            "constants": 30,
            "glue": 70,
            "runtime": 100,
            "firmware": 590,
            "padding": 10,
        },
        "workspace_bytes": 40,
        "state_bytes": 0,
        "io_bytes": 4,
        "io_in_workspace": True,
        "model_ram_bytes": 40,
        "ram_bytes": 500,
        "stack_peak_bytes": 99,
        "stack_bytes": 256,
        "recoveries": [],
        "macs": 100,
        "folded_channels": 5,
        "folded_macs": 60,
        "layers": [
            {"name": "conv;relu", "op": "CONV_2D", "macs": 100, "count": 400},
            {"name": "soft", "op": "SOFTMAX", "macs": 0, "count": 30},
        ],
    }


@pytest.mark.parametrize(
    ("ticks", "counts", "per_inference"),
    [
        ([70, 50, 40], (500,), 500),
        ([70, 51, 53, 52, 40], (510, 530, 520), 520),
        ([70, 51, 53, 40], (510, 530), 510),
        # What was disturbed does not count, nor does a disturbed first run.
        ([-90, 70, -99, -98, 50, -97, 40], (500,), 500),
    ],
)
def test_what_counts(ticks: list[int], counts: tuple[int, ...], per_inference: int) -> None:
    report = measure(ticks, runs=len(counts))
    assert report.counts == counts
    assert report.per_inference == per_inference
    assert report.layers[0].count == 400


def test_always_disturbed() -> None:
    with pytest.raises(LinkError, match="had to be repeated"):
        measure([70, *([-50] * 100)])


def test_simulated_core_is_not_disturbed() -> None:
    class Simulation:
        slowness = 20.0
        memory_model = "flash 0 wait states"

        def measurements(self) -> list[Measurement]:
            return []

    device: Any = GivenDevice([70, -50, -40])
    device.simulated = Simulation()
    report = bench(device, MODULE)
    assert report.counts == (500,)
    assert report.simulated == (SimulatedCount("flash 0 wait states", 500, None),)


def test_text_tells_what_was_counted() -> None:
    text = bench_text(measure([70, 50, 60, 40], runs=2), per_layer=True)
    assert "net on mps2-an386: 500 instructions (QEMU), not cycles, per inference" in text
    assert "median of 2 runs, 500 to 600" in text
    assert "random inputs of seed 0, after 1 for warm-up" in text
    layers = text.splitlines()[-2:]
    assert layers[0].split() == ["0", "CONV_2D", "100", "400", "4.00", "conv"]
    assert layers[1].split() == ["1", "SOFTMAX", "0", "30", "-", "soft"]
    assert "CONV_2D" not in bench_text(measure([70, 50, 40]), per_layer=False)


def test_text_names_the_measured_input() -> None:
    assert "random inputs of seed 7" in bench_text(measure([70, 50, 40], seed=7), per_layer=False)
    given = measure([70, 50, 40], sample=random_sample(MODULE.inputs, 0, 0))
    assert "1 run, the given sample, after 1" in bench_text(given, per_layer=False)


def test_what_cannot_be_counted() -> None:
    with pytest.raises(InputError, match="neither instructions nor cycles"):
        bench(GivenDevice([], "native"), MODULE)
    unknown = GivenDevice([])
    unknown.firmware = None
    with pytest.raises(InputError, match="sizes of a firmware that runs already"):
        bench(unknown, MODULE)


def limited() -> BenchReport:
    """A report of layers of 100 MACs and none, whose work is known, on a Cortex-M4."""
    works = (Work({"int8": 100}, 40, 10), Work({}, 8, 2))
    layers = [replace(one, work=w) for one, w in zip(MODULE.layers, works, strict=True)]
    report: BenchReport = measure([70, 50, 40], module=replace(MODULE, layers=tuple(layers)))
    return report


def test_limits() -> None:
    report = limited()
    # 100 / 2 + 40 / 4 + 3 * 10, and 8 / 4 + 3 * 2.
    assert [layer.limit for layer in report.layers] == [90, 8]
    assert (report.limit, report.ratio) == (98, 500 / 98)
    assert report.to_json()["limit"] == {
        "instructions": 98,
        "ratio": 500 / 98,
        "layers": [
            {"instructions": 90, "ratio": 400 / 90},
            {"instructions": 8, "ratio": 30 / 8},
        ],
    }
    text = bench_text(report, per_layer=False, limit=True)
    assert "limit 98 instructions, the sum of the layers': the inference takes 5.10 times" in text
    layers = text.splitlines()[-3:]
    assert layers[0].split()[-3:] == ["limit", "ratio", "name"]
    assert layers[1].split() == ["0", "CONV_2D", "100", "400", "4.00", "90", "4.44", "conv"]
    assert layers[2].split() == ["1", "SOFTMAX", "0", "30", "-", "8", "3.75", "soft"]
    assert "limit" not in bench_text(report, per_layer=True)
    assert "90" in report._repr_html_()


def test_limit_in_cycles_is_no_limit_in_instructions() -> None:
    report = replace(limited(), counter="cycles")
    text = bench_text(report, per_layer=False, limit=True)
    assert text.splitlines()[-5].endswith("the inference takes 5.10 cycles for each of them")
    assert text.splitlines()[-3].split()[-3:] == ["limit", "cycles/limit", "name"]
    assert "<th>cycles/limit</th>" in report._repr_html_().replace(' scope="col"', "")


def test_a_limit_that_is_not_known() -> None:
    report = limited()
    partial = replace(report, layers=(report.layers[0], replace(report.layers[1], limit=None)))
    assert (partial.limit, partial.ratio) == (None, None)
    assert partial.to_json()["limit"]["layers"][1] == {"instructions": None, "ratio": None}
    text = bench_text(partial, per_layer=False, limit=True)
    assert "no limit of the model: that of 1 of 2 layers is not known" in text
    unknown = measure([70, 50, 40])
    assert "limit" not in unknown.to_json()


# -- cycles, energy, and what hil tune takes -------------------------------------------------------


def test_cycles_have_a_latency() -> None:
    device = GivenDevice([70, 50, 40])
    device.counter = "cycles"
    report = bench(device, MODULE)
    # 500 cycles of a clock of 25 MHz.
    assert report.latency_us == pytest.approx(20.0)
    assert not report.is_deterministic
    assert replace(report, clock_hz=0).latency_us is None
    assert replace(report, counter="instructions").latency_us is None


@pytest.mark.parametrize(("name", "least"), [("runs", 1), ("warmup", 0), ("seed", 0)])
def test_numbers_that_are_too_small(name: str, least: int) -> None:
    wrong: dict[str, Any] = {name: least - 1}
    right: dict[str, Any] = {name: least}
    with pytest.raises(InputError, match=f"{name}={least - 1} is too small") as caught:
        measure([70, 50, 40], **wrong)
    assert f"at least {least}" in caught.value.hint
    measure([70, 50, 40], **right)


def test_as_many_inferences_warm_up_as_are_asked_for() -> None:
    for warmup in (0, 1, 3):
        ticks = [*range(100, 100 + warmup), 50, 40]
        report = measure(ticks, warmup=warmup)
        assert (report.warmup, report.counts, report.layers[0].count) == (warmup, (500,), 400)


def test_energy_is_that_of_as_many_inferences_more(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Recorder:
        def start(self) -> None:
            said.append("start")

        def stop(self) -> str:
            said.append("stop")
            return "recording"

    class Noted(GivenDevice):
        def _next(self) -> int:
            ticks = super()._next()
            said.append(str(ticks))
            return ticks

    monkeypatch.setattr(
        import_module("hil.verify.bench"), "energy_of", lambda recording: f"energy of {recording}"
    )
    device: Any = Noted([70, 50, 60, 40, 51, 61])
    recorder: Any = Recorder()
    report: Any = bench(device, MODULE, runs=2, recorder=recorder)
    assert said == ["70", "50", "60", "40", "start", "51", "61", "stop"]
    assert report.counts == (500, 600)
    assert report.energy == "energy of recording"
    assert measure([70, 50, 40]).energy is None


def test_a_layer_and_a_program_for_the_tuning_log() -> None:
    def device(*ticks: int) -> Any:
        return GivenDevice(list(ticks))

    # A run warms up, then the layers are counted.
    assert layer_counts(device(70, 40), MODULE) == [400, 30]
    seen: list[np.ndarray] = []

    class Keeping(GivenDevice):
        def set_input(self, name: str, array: np.ndarray) -> None:
            super().set_input(name, array)
            seen.append(array)

    keeping: Any = Keeping([70, 40, 70, 40, 70, 40])
    layer_counts(keeping, MODULE)
    layer_counts(keeping, MODULE, seed=1)
    layer_counts(keeping, MODULE, sample={"x": np.array([5, 6], np.int8)})
    first, other = (random_sample(MODULE.inputs, seed, 0)["x"].tolist() for seed in (0, 1))
    assert [array.tolist() for array in seen] == [*[first] * 2, *[other] * 2, *[[5, 6]] * 2]
    assert whole_counts(device(70, 40, 55), MODULE) == (550, [400, 30])
    assert whole_counts(device(70, 40, 51, 59, 53), MODULE, runs=3) == (530, [400, 30])
    with_seed: Any = Keeping([70, 40, 50])
    seen.clear()
    whole_counts(with_seed, MODULE, seed=1)
    assert [array.tolist() for array in seen] == [other] * 3
    seen.clear()
    again: Any = Keeping([70, 40, 50])
    whole_counts(again, MODULE)
    assert [array.tolist() for array in seen] == [first] * 3


def test_options_are_refused_where_nothing_is_built() -> None:
    with pytest.raises(InputError, match="board and optimize given for a module of an open"):
        hil.bench(GivenDevice([]), MODULE, optimize="ram", board="mps2-an386", name=None)


def test_an_image_that_does_not_tell_its_owners() -> None:
    device = GivenDevice([70, 50, 40])
    assert device.firmware is not None
    models = {"net": ModelSizes(300, 30, 40, 8), "other": ModelSizes(111, 30, 40, 8)}
    sizes = replace(device.firmware.sizes, models=models)
    device.firmware = replace(device.firmware, sizes=sizes)
    assert bench(device, MODULE).flash_by_owner == {}
    models["net"] = ModelSizes(300, 30, 40, 8, flash_owners={"kernels": 200})
    device._ticks = iter([70, 50, 40])
    owners = bench(device, MODULE).flash_by_owner
    assert owners["kernels"] == 200
    assert owners["other models"] == 111
