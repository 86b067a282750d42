"""The job of :func:`hil.evaluate`: the accuracy of a model on a board over a data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hil.device import Model
from hil.errors import InputError
from hil.jobs.image import (
    OF_MODELS,
    Image,
    ImageModel,
    is_chosen_of_several,
    opened_image,
    recoveries_of,
    repeated_by,
)
from hil.jobs.job import Job, reference_for, warn_unused
from hil.jobs.run import Run
from hil.verify.comparison import Oracle, RunnableModel
from hil.verify.datasets import DataSet, ModelClasses, Scaling, array_data, load_data
from hil.verify.evaluation import (
    Evaluation,
    MetricLimit,
    ScoreKind,
    boards_at_once,
    checked_metrics,
    digest_of_library,
    evaluate_model,
    output_index,
)
from hil.verify.metrics import Metric
from hil.verify.samples import Sample
from hilc.artifact.library import TensorInfo
from hilc.support.suggest import counted


@dataclass(frozen=True, eq=False)
class EvaluateJob(Job[Evaluation]):
    """Run a labelled data set on a board, for its metrics there beside the reference's.

    With ``jobs`` so many boards share the samples; each computes the next one when it is free. The
    other fields are the parameters of :func:`hil.evaluate`. ``journal`` may be a function that
    returns the file's path for the board's name and the opened model.
    """

    data: Any
    labels: Any = None
    metric: str | Sequence[str] = field(default="accuracy", kw_only=True)
    at_least: float | Mapping[str, float] | None = field(default=None, kw_only=True)
    at_most: float | Mapping[str, float] | None = field(default=None, kw_only=True)
    classes: Sequence[str] | None = field(default=None, kw_only=True)
    scaling: Scaling | None = field(default=None, kw_only=True)
    score: ScoreKind = field(default="outputs", kw_only=True)
    output: str | None = field(default=None, kw_only=True)
    samples: int | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    reference: str | Oracle | None = field(default=None, kw_only=True)
    source: str | Path | None = field(default=None, kw_only=True)
    journal: str | Path | Callable[..., Path] | None = field(default=None, kw_only=True)
    restart: bool = field(default=False, kw_only=True)
    jobs: int = field(default=1, kw_only=True)
    progress: Callable[..., Any] | None = field(default=None, kw_only=True)
    allow_fallback: bool | None = field(default=None, kw_only=True)

    def is_good(self, result: Evaluation) -> bool:
        """Return whether no sample differs and every limit is kept."""
        return result.match and result.is_met

    def on(self, image: Image, run: Run) -> Iterator[Evaluation]:
        """Yield the evaluation of the only model of an image."""
        metrics, limits = self._metrics()
        known = image.only(_one_by_one)
        data = self._data(known, metrics)
        if data.skipped:
            run.warn(f"{counted(data.skipped, 'file')} of {self.data} left out: of other kinds")
        if data.assumption:
            run.warn(data.assumption)
        if self.samples is not None:
            if self.samples > len(data):
                run.warn(f"{self.samples} samples are asked for; the data set has {len(data)}")
            data = data.drawn(self.samples, self.seed)
        # Before a firmware is built: most mistakes in a data set are in every sample.
        if len(data):
            _ = data.samples[0]
        oracle = reference_for(
            known,
            self.reference,
            self.source,
            self.allow_fallback,
            "give reference=hil.oracle.reference_of(library, module)",
        )
        key = {
            "model": digest_of_library(known.library) if known.library else known.name,
            "board": image.board,
            "reference": oracle.name,
        }
        with (
            boards_at_once(self.jobs) as threads,
            self._opened(image, known, run) as models,
            run.counting(known.name, image.board) as counting,
        ):
            model = models[0]
            devices = [each.device for each in models if isinstance(each, Model)]
            if devices:
                sources = sorted({device.source for device in devices})
                key |= {"source": ", ".join(sources), "build_id": devices[0].hello.build_id}
            progress = self.progress or counting
            report = evaluate_model(
                models,
                data,
                oracle,
                metrics,
                board=image.board,
                key=key,
                score=self.score,
                output=self.output,
                limits=limits,
                journal=self._journal(image.board, model),
                restart=self.restart,
                progress=lambda done: progress(done, len(data)),
                repeated=lambda each, step: repeated_by(each)(step),
                threads=threads,
            )
            report = replace(
                report,
                jobs=self.jobs,
                transport=model.device.transport if isinstance(model, Model) else "",
                provenance=self._provenance(image, known, model, _Labelled(data)),
                recoveries=tuple(step for each in models for step in recoveries_of(each)),
            )
        for remark in data.clipping.remarks():
            run.warn(remark)
        yield report

    @contextmanager
    def _opened(self, image: Image, known: ImageModel, run: Run) -> Iterator[list[RunnableModel]]:
        """Yield the model on each of the boards that share the data set."""
        if self.jobs > 1:
            self._require_several(image, run)
        with ExitStack() as boards:
            models = [boards.enter_context(image.opened())[known.name]]
            options = {key: item for key, item in self.options.items() if key not in OF_MODELS}
            for _ in range(self.jobs - 1):
                other = boards.enter_context(
                    opened_image(image.libraries, self.board, options, run)
                )
                models.append(boards.enter_context(other.opened())[known.name])
            yield models

    def _require_several(self, image: Image, run: Run) -> None:
        """Raise for a board that exists once, such as the one behind a port."""
        option = run.option("jobs")
        if image.route is None:
            raise InputError(
                f"{option} is {self.jobs}, and the model runs already, on one board",
                f"drop {option}, or give the model's file and the name of a board",
            )
        if not (image.route.is_machine or is_chosen_of_several(self.board)):
            raise InputError(
                f"{option} is {self.jobs}, and {image.board} is one board",
                f"drop {option}, or name boards of the bench or of a lab by their properties, such "
                f"as --board board={image.board}",
            )

    def _check(self, run: Run) -> None:
        self._metrics()
        if self.samples is None:
            why = "all samples of the data set are evaluated, and none are drawn"
            warn_unused(run, "seed", self.seed, why)
        if self.jobs < 1:
            raise InputError(
                f"{run.option('jobs')} is {self.jobs}", "give the number of boards, 1 or more"
            )

    def _metrics(self) -> tuple[Sequence[Metric], list[MetricLimit]]:
        names = [self.metric] if isinstance(self.metric, str) else list(self.metric)
        limits = [*_limits(self.at_least, names, "min"), *_limits(self.at_most, names, "max")]
        return checked_metrics(names, limits), limits

    def _journal(self, board: str, model: Any) -> Path | None:
        if callable(self.journal):
            return self.journal(board, model)
        return None if self.journal is None else Path(self.journal)

    def _data(self, known: ImageModel, metrics: Sequence[Metric]) -> DataSet:
        if isinstance(self.data, DataSet):
            return self.data
        values = math.prod(self._output(known).shape) if metrics[0].labels == "values" else 0
        if isinstance(self.data, str | Path):
            labels = str(self.labels) if isinstance(self.labels, Path) else self.labels
            if labels is not None and not isinstance(labels, str):
                raise InputError(
                    f"labels of type {type(labels).__name__} are given for the file {self.data}",
                    "give the name of the file's array or column",
                )
            return load_data(
                self.data,
                known.inputs,
                labels=labels,
                classes=self._classes(known),
                scaling=self.scaling,
                values=values,
            )
        if self.labels is None:
            raise InputError("arrays are given without labels", "give labels=array")
        arrays = self.data if isinstance(self.data, Mapping) else {known.inputs[0].name: self.data}
        return array_data(
            {name: np.asarray(array) for name, array in arrays.items()},
            np.asarray(self.labels),
            known.inputs,
            classes=self._classes(known),
            scaling=self.scaling,
            values=values,
        )

    def _classes(self, known: ImageModel) -> Sequence[str] | None:
        """Return the names of the classes: the user's, or those that the model states."""
        stated = known.module.class_labels if known.module is not None else ()
        if self.classes is not None or len(stated) != 1:
            return self.classes
        return ModelClasses(stated[0].labels)

    def _output(self, known: ImageModel) -> TensorInfo:
        """Return the output that is evaluated."""
        if known.module is None:
            raise InputError(
                f"nothing is known of the outputs of {known.name!r}, a model of another kind",
                "give a model of hil or hilc",
            )
        outputs = known.module.outputs
        return outputs[output_index(outputs, self.output, known.name)]


class _Labelled(Sequence[Sample]):
    """Samples with their labels, under a name that no tensor has."""

    def __init__(self, data: DataSet) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: Any) -> Any:
        return {**self._data.samples[index], "": self._data.labels[index]}


def _limits(
    given: float | Mapping[str, float] | None, names: Sequence[str], kind: Literal["min", "max"]
) -> list[MetricLimit]:
    if given is None:
        return []
    by_name = given if isinstance(given, Mapping) else {names[0]: given}
    return [MetricLimit(name, float(value), kind) for name, value in by_name.items()]


def _one_by_one(names: Sequence[str]) -> InputError:
    return InputError(
        f"an evaluation takes one model; {len(names)} are given: {', '.join(names)}",
        "evaluate them one by one",
    )
