"""The job of :func:`hil.bench`: what an inference of models costs on a board."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hil.access.verilator import memory_models
from hil.board import Board
from hil.device import Device, Model
from hil.device.route import Route, ready_route
from hil.energy import Recorder, check_spec, opened_meter
from hil.errors import InputError
from hil.jobs.image import Image, ImageModel, recoveries_of
from hil.jobs.job import Job, reference_for, require_one, warn_of_random_inputs, warn_unused
from hil.jobs.run import Run
from hil.verify.bench import BenchReport, check_countable, random_input, simulated_count
from hil.verify.bench import bench as measure
from hil.verify.comparison import Oracle, RunnableModel, compare
from hil.verify.cycles import check_estimable, estimate_cycles
from hil.verify.samples import (
    CHECK_S,
    CHECK_SAMPLES,
    Sample,
    StandardSamples,
    TimeBoxed,
    first_sample,
    random_sample,
)
from hilc.artifact.library import Module


@dataclass(frozen=True, eq=False)
class BenchJob(Job[BenchReport]):
    """Count what an inference of models costs on a board.

    The fields are the parameters of :func:`hil.bench`.
    """

    runs: int = field(default=1, kw_only=True)
    warmup: int = field(default=1, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    sample: Any = field(default=None, kw_only=True)
    quantize: bool = field(default=False, kw_only=True)
    energy: str | Recorder | None = field(default=None, kw_only=True)
    cycles: bool = field(default=False, kw_only=True)
    memory_models: int | None = field(default=None, kw_only=True)
    check: bool | Oracle = field(default=True, kw_only=True)
    source: str | Path | None = field(default=None, kw_only=True)
    allow_fallback: bool | None = field(default=None, kw_only=True)

    def is_good(self, result: BenchReport) -> bool:
        """Return whether no compared output differs from the reference."""
        return result.is_correct

    def on(self, image: Image, run: Run) -> Iterator[BenchReport]:
        """Yield the measurement of each model of an image."""
        given = {"sample": self.sample, "energy": self.energy, "source": self.source}
        require_one(image, run, given, "measure them one by one")
        chosen = [(known, self._sample(known), self._oracle(known, run)) for known in image.models]
        reports: list[BenchReport] = []
        with ExitStack() as stack:
            recorder = self.energy
            if isinstance(recorder, str):
                # A meter that supplies the board is there before the board is.
                recorder = stack.enter_context(opened_meter(recorder))
            opened = stack.enter_context(image.opened())
            for known, sample, oracle in chosen:
                model = _on_board(opened[known.name])
                report = self._measured(model, sample, recorder, oracle)
                made_from = self._provenance(image, known, model, [sample])
                report = replace(report, provenance=made_from, recoveries=recoveries_of(model))
                if self.memory_models is None:
                    yield report
                reports.append(report)
        if self.memory_models is not None:
            samples = [sample for _, sample, _ in chosen]
            yield from self._with_memory_models(image, reports, samples, self.memory_models)

    def _check(self, run: Run) -> None:
        if self.quantize:
            warn_of_random_inputs(run, "sample", self.sample)
        if self.sample is not None and not self.check:
            # The comparison has further samples, which are random.
            without = run.option("check=False")
            why = f"{run.option('sample')} states the input, and {without} compares no others"
            warn_unused(run, "seed", self.seed, why)

    def _check_route(self, route: Route, run: Run) -> None:
        check_countable(route.board)
        if self.cycles:
            check_estimable(route.board)
        if self.memory_models is not None:
            if route.runner is None:
                option = run.option("memory_models")
                raise InputError(
                    f"{option} is for a simulated core",
                    f"drop {run.option('port')} or the lab",
                )
            self._runners(route.board, self.memory_models)
        if isinstance(self.energy, str):
            check_spec(self.energy, is_emulated=route.is_machine)

    def _runners(self, board: Board, wait_states: int) -> tuple[str, ...]:
        """Return the runners of the memory models that are compared; raise for another board."""
        return memory_models(board, self.options.get("runner"), wait_states)

    def _with_memory_models(
        self,
        image: Image,
        reports: list[BenchReport],
        samples: list[Sample],
        wait_states: int,
    ) -> list[BenchReport]:
        """Return the reports with the counts of the other memory models."""
        board, route = image.description, image.route
        if board is None or route is None:
            raise InputError(
                "memory models are given for a model that runs already", "give the model's file"
            )
        for runner in self._runners(board, wait_states):
            with image.opened(ready_route(board, runner, route.connection)) as opened:
                reports = [
                    _with_count(report, _on_board(opened[report.model]), sample)
                    for report, sample in zip(reports, samples, strict=True)
                ]
        return reports

    def _sample(self, known: ImageModel) -> Sample:
        given = first_sample(self.sample, known.inputs, quantize=self.quantize)
        return given or random_sample(known.inputs, self.seed, 0)

    def _oracle(self, known: ImageModel, run: Run) -> Oracle | None:
        """Return the reference of the outputs of a measurement; None if they are not compared."""
        without = run.option("check=False")
        if not self.check:
            if self.source is not None:
                source = run.option("source")
                raise InputError(
                    f"{source} names a model, and {without} compares nothing", "drop one of them"
                )
            return None
        try:
            return reference_for(
                known,
                self.check if isinstance(self.check, Oracle) else None,
                self.source,
                self.allow_fallback,
                "give check=hil.oracle.reference_of(library, module)",
            )
        except InputError as error:
            error.hint = f"{error.hint}; or measure without a comparison: {without}"
            raise

    def _measured(
        self, model: Model, sample: Sample, recorder: Recorder | None, oracle: Oracle | None
    ) -> BenchReport:
        device, module = model.device, model.module
        report = device.repeated(
            partial(
                measure,
                device,
                module,
                sample=sample,
                runs=self.runs,
                warmup=self.warmup,
                seed=self.seed,
                recorder=recorder,
            )
        )
        if self.sample is None:
            report = replace(report, measured_input=random_input(self.seed))
        report = self._with_check(report, device, module, sample, oracle)
        return self._with_cycles(report, device, module, sample) if self.cycles else report

    def _with_check(
        self,
        report: BenchReport,
        device: Device,
        module: Module,
        sample: Sample,
        oracle: Oracle | None,
    ) -> BenchReport:
        """Return the report with the comparison of the outputs of inferences that are not
        counted.
        """
        if oracle is None:
            return report
        # The sample of the measurement first.
        samples = [sample, *StandardSamples(module.inputs, self.seed, CHECK_SAMPLES - 1)]
        compared = compare(
            device[module.name],
            TimeBoxed(samples, least=1, seconds=CHECK_S),
            oracle,
            board=report.board,
            repeated=device.repeated,
        )
        return replace(report, checked=compared)

    def _with_cycles(
        self, report: BenchReport, device: Device, module: Module, sample: Sample
    ) -> BenchReport:
        """Return the report with the estimated cycles of a run of its own."""
        assert device.firmware is not None, "what was measured has a firmware"
        estimate = estimate_cycles(
            device.firmware.board,
            device.libraries,
            module,
            seed=self.seed,
            workspace=self.options.get("workspace", "own"),
            sample=sample,
        )
        return replace(report, estimate=estimate)


def _with_count(report: BenchReport, model: Model, sample: Sample) -> BenchReport:
    """Return the report with the count of another memory model, unless it has that."""
    device = model.device
    assert device.simulated is not None, "the runner simulates the core"
    if device.simulated.memory_model in (count.memory_model for count in report.simulated):
        return report
    count = simulated_count(device, model.module, sample)
    return replace(report, simulated=(*report.simulated, count))


def _on_board(model: RunnableModel) -> Model:
    if isinstance(model, Model):
        return model
    raise InputError(
        f"{model.name!r} does not run on a board, so nothing is counted", "give a board"
    )
