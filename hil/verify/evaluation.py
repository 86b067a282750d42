"""The accuracy of a model on a board over a labelled data set, beside that of its reference.

Outputs are kept in a journal, sample by sample, with a digest of the input: an evaluation that is
interrupted goes on where it was, and a sample that has changed meanwhile is noticed.
"""

from __future__ import annotations

import base64
import contextlib
import contextvars
import hashlib
import html
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from hil.errors import Attempt, DeviceError, NumericError
from hil.results.codec import encode
from hil.results.evaluate import EvaluateEntry, MetricEntry, Mismatch, NonfiniteSamples
from hil.results.parts import Fallback, Provenance
from hil.support.beside import Beside
from hil.verify.comparison import Oracle, RunnableModel, differs, goal_of, largest_magnitude
from hil.verify.datasets import DataSet, digest_of
from hil.verify.metrics import (
    NO_CLASS,
    Floats,
    Metric,
    Score,
    confusion,
    metric_named,
    nonfinite_samples,
    predicted,
)
from hil.verify.samples import Sample
from hilc.artifact.library import METADATA, ModelLibrary, TensorInfo
from hilc.artifact.notebook import html_table
from hilc.errors import InputError
from hilc.ir import Array
from hilc.support.locks import lock
from hilc.support.outputs import cannot_write

#: Classes that an output which is the number of a class may name beyond those of the data set.
_MOST_CLASSES = 1 << 12
#: A sample's result: the outputs, or an autoencoder's mean squared error.
ScoreKind = Literal["outputs", "reconstruction"]

#: Format of the journal's lines.
_JOURNAL = 1
#: Seconds after which the journal is brought to the disk.
_SYNC_S = 1.0
#: Samples in the list of mismatches.
_MOST_MISMATCHES = 100


@dataclass(frozen=True)
class MetricReport:
    """A metric on the device and of the reference, and its limits."""

    name: str
    device: Score
    reference: Score
    higher_is_better: bool
    minimum: float | None = None
    maximum: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the device keeps the limits; a metric that is not defined keeps none."""
        value = self.device.value
        low = self.minimum is None or value >= self.minimum
        high = self.maximum is None or value <= self.maximum
        return low and high

    def entry(self) -> MetricEntry:
        """Return the metric as results have it."""
        return MetricEntry(
            name=self.name,
            device=self.device.entry(),
            reference=self.reference.entry(),
            min=self.minimum,
            max=self.maximum,
            met=self.is_met,
        )


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation; :meth:`entry` is the entry of ``hil evaluate``."""

    model: str
    #: The output that is evaluated and compared.
    output: str
    board: str
    samples: int
    metrics: tuple[MetricReport, ...]
    reference: str
    reference_description: str
    #: Samples whose outputs differ from the reference's, and the first of them.
    mismatches: int
    first_mismatches: tuple[Mismatch, ...]
    #: Counts by label (row) and class of the device (column); None if the labels are values.
    confusion: npt.NDArray[np.int64] | None = field(repr=False, compare=False)
    #: Names of its classes; None where they are numbers.
    classes: tuple[str, ...] | None
    #: How tensors came to the board and back; empty for a model of this process.
    transport: str
    seconds: float
    #: Samples that an earlier, interrupted evaluation has computed.
    resumed: int = 0
    #: Boards that shared the samples.
    jobs: int = 1
    #: Bytes of inputs and outputs that were transferred.
    nbytes: int = 0
    fallback: Fallback | None = None
    #: Provenance of the result, if the caller stated it.
    provenance: Provenance | None = None
    #: Goal of the compiler; None where the library does not record it.
    goal: str | None = None
    #: Whether other people's code computed the reference's results.
    independent: bool = True
    #: Outputs other than ``output``, which are neither evaluated nor compared.
    uncompared_outputs: tuple[str, ...] = ()
    #: Steps that brought the board back since it was opened, or since the report before.
    recoveries: tuple[Attempt, ...] = ()
    #: Samples with a result that is NaN or infinite, on the device and of the reference.
    nonfinite: int = 0
    nonfinite_reference: int = 0

    @property
    def rate(self) -> float:
        """Samples a second, of those that were computed now."""
        return (self.samples - self.resumed) / self.seconds if self.seconds > 0 else 0.0

    @property
    def is_met(self) -> bool:
        """Whether every limit of a metric is kept."""
        return all(metric.is_met for metric in self.metrics)

    @property
    def match(self) -> bool:
        """Whether every sample's evaluated output is that of the reference."""
        return self.mismatches == 0

    def __getitem__(self, name: str) -> MetricReport:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise InputError(
            f"the metric {name!r} was not computed",
            f"there are {', '.join(metric.name for metric in self.metrics)}",
        )

    def __repr__(self) -> str:
        """Return the metrics in one line."""
        shown = ", ".join(f"{m.name} {m.device.value:.4g}" for m in self.metrics)
        return (
            f"<Evaluation {self.model} on {self.board}: {shown} over {self.samples} samples, "
            f"{self.mismatches} other than {self.reference}>"
        )

    def _repr_html_(self) -> str:
        """Return the metrics and the confusion matrix as tables, for notebooks."""
        rows = [(m.name, _interval(m.device), _interval(m.reference)) for m in self.metrics]
        parts = [
            f"<h4>{html.escape(self.model)} on {html.escape(self.board)}</h4>",
            html_table(rows, ("metric", "device", html.escape(self.reference))),
        ]
        if self.confusion is not None:
            names = self.class_names
            table = [
                (name, *map(str, row)) for name, row in zip(names, self.confusion, strict=True)
            ]
            parts.append(html_table(table, ("label", *names)))
        return "".join(parts)

    @property
    def class_names(self) -> Sequence[str]:
        """Names of the rows and columns of the confusion matrix."""
        assert self.confusion is not None, "there are classes"
        return self.classes or [str(number) for number in range(len(self.confusion))]

    def check(self) -> Evaluation:
        """Return the evaluation; raise :class:`~hil.errors.NumericError` if a limit is missed, or a
        sample differs from the reference.
        """
        for metric in self.metrics:
            if not metric.is_met:
                nonfinite = f"; {self.nonfinite} samples have NaN or infinite outputs"
                low = metric.minimum is not None and not metric.device.value >= metric.minimum
                limit = f"at least {metric.minimum}" if low else f"at most {metric.maximum}"
                raise NumericError(
                    f"{metric.name} of {self.model} on {self.board} is "
                    f"{metric.device.value:.6g} over {self.samples} samples, and it should be "
                    f"{limit}" + (nonfinite if self.nonfinite else ""),
                    f"the reference {self.reference} has {metric.reference.value:.6g}",
                )
        if not self.match:
            first = self.first_mismatches[0]
            raise NumericError(
                f"{self.mismatches} of {self.samples} samples of {self.model} on {self.board} "
                f"differ from {self.reference}, the first is {first.source}",
                "hil verify --per-layer finds the layer",
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of :meth:`entry`."""
        data: dict[str, Any] = encode(self.entry())
        return data

    def entry(self) -> EvaluateEntry:
        """Return the entry of ``hil evaluate``."""
        has_classes = self.confusion is not None
        rows = [] if self.confusion is None else self.confusion.tolist()
        return EvaluateEntry(
            model=self.model,
            board=self.board,
            samples=self.samples,
            metrics=tuple(metric.entry() for metric in self.metrics),
            reference=self.reference,
            mismatches=self.mismatches,
            goal=self.goal,
            met=self.is_met,
            reference_description=self.reference_description,
            reference_fallback=self.fallback,
            independent=self.independent,
            uncompared_outputs=self.uncompared_outputs,
            match=self.match,
            nonfinite_samples=NonfiniteSamples(self.nonfinite, self.nonfinite_reference),
            first_mismatches=self.first_mismatches,
            classes=tuple(self.class_names) if has_classes else None,
            confusion=tuple(map(tuple, rows)) if has_classes else None,
            jobs=self.jobs,
            transport=self.transport,
            bytes=self.nbytes,
            recoveries=self.recoveries,
            resumed=self.resumed,
            samples_per_second=round(self.rate, 3),
            seconds=round(self.seconds, 3),
            provenance=self.provenance,
        )


def _interval(score: Score) -> str:
    return f"{score.value:.4f} ({score.low:.4f} to {score.high:.4f})"


@dataclass(frozen=True)
class MetricLimit:
    """A limit of a metric: at least, or at most."""

    metric: str
    value: float
    kind: Literal["min", "max"]


def checked_metrics(names: Sequence[str], limits: Sequence[MetricLimit]) -> list[Metric]:
    """Return the metrics; raise InputError for unknown, repeated and incompatible ones, and for
    limits of others.
    """
    for name in names:
        if list(names).count(name) > 1:
            raise InputError(f"the metric {name!r} is given twice", "give it once")
    metrics = [metric_named(name) for name in names]
    kinds = {metric.labels for metric in metrics}
    if len(kinds) > 1:
        raise InputError(
            f"the metrics {', '.join(names)} need labels of two kinds: classes, and values",
            "evaluate twice",
        )
    for limit in limits:
        if limit.metric not in names:
            raise InputError(
                f"there is a limit of {limit.metric!r}, which is not computed",
                f"add --metric {limit.metric}",
            )
        if not math.isfinite(limit.value):
            raise InputError(f"{limit.value} is no limit of {limit.metric}", "give a number")
        most = next(metric.most for metric in metrics if metric.name == limit.metric)
        if not 0 <= limit.value <= most:
            percent = 1 < limit.value <= 100 and most == 1
            raise InputError(
                f"the limit {limit.value:g} of {limit.metric} is not within 0 to {most:g}",
                f"write {limit.value / 100:g} for {limit.value:g} %"
                if percent
                else "give a limit in this range",
            )
    return metrics


def evaluate_model(
    models: Sequence[RunnableModel],
    data: DataSet,
    oracle: Oracle,
    metrics: Sequence[Metric],
    *,
    board: str,
    key: Mapping[str, str],
    score: ScoreKind = "outputs",
    output: str | None = None,
    limits: Sequence[MetricLimit] = (),
    journal: Path | None = None,
    restart: bool = False,
    progress: Callable[[int], None] = lambda done: None,
    repeated: Callable[[RunnableModel, Callable[[], Array]], Array] = lambda model, step: step(),
    threads: Executor | None = None,
) -> Evaluation:
    """Run every sample on one of ``models``, and the metrics over an output and the reference's.

    The models are the same one on several boards, each of which computes in one of ``threads``
    (:func:`boards_at_once`).

    ``output`` names it; the first one is the default. One integer without a scale is the number of
    a class, as classifiers of scikit-learn give it.

    ``key`` says what the journal belongs to, beside the data set. States are reset before each
    sample. ``progress`` is called with the number of samples done; ``repeated`` recovers a board
    that fails, and computes the sample again.

    Raise :class:`InputError` for a data set without samples.
    """
    if not len(data):
        raise InputError("the data set has no sample", "give at least one")
    model = models[0]
    index = output_index(model.outputs, output, model.name)
    tensor = model.outputs[index]
    _check_score(model, tensor, score)
    outputs = 1 if score == "reconstruction" else math.prod(tensor.shape)
    is_label = score == "outputs" and metrics[0].labels == "classes" and gives_label(tensor)
    numbering = None
    if is_label:
        _require_label_metrics(metrics, tensor)
        _require_named(data, data.labels, "has the label")
    else:
        label = next((each for each in model.outputs if gives_label(each)), None)
        if label is not None and outputs > 1 and metrics[0].labels == "classes":
            numbering = _ClassNumbers(tensor.name, label.name)
        _check_labels(data, metrics, outputs, label)
    if index:
        key = {**key, "output": tensor.name}
    start = time.monotonic()
    with _open_journal(journal, {**key, **_data_key(data)}, restart) as kept:
        resumed = _check_resumed(kept, data, progress)
        _compute(
            models, data, oracle, kept, index, progress, repeated, threads or _Here(), numbering
        )
        if numbering is not None:
            numbering.check()
        device = np.stack([kept.device(i, tensor) for i in range(len(data))])
        reference = np.stack([kept.reference(i, tensor) for i in range(len(data))])
        is_other = _others(kept, range(len(data)), tensor, data, oracle)
        results = {
            "device": _results(model, data, device, score, tensor),
            "reference": _results(model, data, reference, score, tensor),
        }
        if is_label:
            for values in results.values():
                _require_named(data, values[:, 0], f"has the class of {tensor.name!r}")
            results = _as_scores(results, data.labels, len(data.classes or ()))
        inputs = sum(info.nbytes for info in model.inputs)
        report = Evaluation(
            goal=goal_of(model),
            model=model.name,
            output=tensor.name,
            board=board,
            samples=len(data),
            metrics=_scores(metrics, limits, data.labels, results["device"], results["reference"]),
            reference=oracle.name,
            reference_description=oracle.description,
            mismatches=sum(is_other),
            first_mismatches=tuple(
                _mismatch(i, data, device[i], reference[i], results)
                for i in [i for i, other in enumerate(is_other) if other][:_MOST_MISMATCHES]
            ),
            confusion=_confusion(data, results["device"]),
            classes=data.classes,
            transport="",
            seconds=time.monotonic() - start,
            resumed=resumed,
            nbytes=(len(data) - resumed) * (inputs + tensor.nbytes),
            fallback=oracle.fallback,
            independent=oracle.independent,
            uncompared_outputs=tuple(t.name for t in model.outputs if t.name != tensor.name),
            nonfinite=nonfinite_samples(results["device"]),
            nonfinite_reference=nonfinite_samples(results["reference"]),
        )
        if journal is not None:
            # Only now, since what fails above can be done again from it; and while it is locked,
            # since another evaluation could have begun to write to it afterwards.
            with contextlib.suppress(OSError):
                journal.unlink()
    return report


def digest_of_library(library: ModelLibrary) -> str:
    """Return a digest of a compiled model, for the journal."""
    digest = hashlib.sha256()
    for path, data in sorted(library.files.items()):
        digest.update(f"{path}:{len(data)}:".encode())
        # It has the time of the export.
        digest.update(b"" if path == METADATA else data)
    return digest.hexdigest()[:32]


# -- checks --------------------------------------------------------------------------------------


def output_index(outputs: Sequence[TensorInfo], name: str | None, model: str) -> int:
    """Return the position of the output called ``name``; of the first one without a name."""
    names = [tensor.name for tensor in outputs]
    if name is None:
        return 0
    if name not in names:
        raise InputError(f"{model!r} has no output {name!r}", f"its outputs are {', '.join(names)}")
    return names.index(name)


def gives_label(tensor: TensorInfo) -> bool:
    """Return whether an output is the number of a class: one integer without a scale."""
    is_integer = np.dtype(tensor.dtype).kind in "iu"
    return is_integer and tensor.scale is None and math.prod(tensor.shape) == 1


def _require_label_metrics(metrics: Sequence[Metric], tensor: TensorInfo) -> None:
    """Raise for metrics that need a score for each class."""
    known = ("accuracy", "f1")
    for metric in metrics:
        if metric.name not in known:
            raise InputError(
                f"{metric.name} compares scores, and the output {tensor.name!r} is the number of a "
                "class",
                f"choose {' or '.join(known)}, or the output with the scores: --output-tensor NAME",
            )


def _require_named(data: DataSet, numbers: Array, what: str) -> None:
    """Raise if a number of a class is beyond the data set's names of classes."""
    if data.classes is None:
        return
    beyond = np.flatnonzero((numbers >= len(data.classes)) & (numbers < _MOST_CLASSES))
    if beyond.size:
        raise InputError(
            f"{data.sources[int(beyond[0])]} {what} {numbers[beyond[0]]:.0f}, and "
            f"{len(data.classes)} classes are named: {', '.join(data.classes)}",
            "name all classes, in the order of their numbers: --classes A,B,... (in Python "
            "classes=[...])",
        )


def _as_scores(results: Mapping[str, Floats], labels: Array, names: int) -> dict[str, Floats]:
    """Return numbers of classes as a score for each class: 1 for that class, 0 for others.

    A number that is no class of the data set or of the other side gives no class.
    """
    numbers = {side: values[:, 0].astype(np.int64) for side, values in results.items()}
    most = max(int(labels.max(initial=1)), names - 1, 1)
    for found in numbers.values():
        most = max(most, int(found[(found >= 0) & (found < _MOST_CLASSES)].max(initial=0)))
    scores = {}
    for side, found in numbers.items():
        rows = np.zeros((len(found), most + 1))
        is_class = (found >= 0) & (found <= most)
        rows[is_class, found[is_class]] = 1
        rows[~is_class] = np.nan
        scores[side] = rows
    return scores


def _check_score(model: RunnableModel, tensor: TensorInfo, score: ScoreKind) -> None:
    if score == "outputs":
        return
    given = model.inputs
    if len(given) != 1 or math.prod(given[0].shape) != math.prod(tensor.shape):
        raise InputError(
            f"the output {tensor.name!r} of {model.name!r} has the shape {list(tensor.shape)}, and "
            f"is no reconstruction of {', '.join(f'{i.name} {list(i.shape)}' for i in given)}",
            "drop --score reconstruction",
        )


class _ClassNumbers:
    """The numbers by which a classifier's output of a label names the positions of its scores.

    scikit-learn's classes may begin with 1, or leave numbers out: the highest score at position 0
    is then class 1, and labels of the data set would be compared with other classes.
    """

    def __init__(self, scores: str, label: str) -> None:
        self._scores, self._label = scores, label
        self._seen: dict[int, set[int]] = {}

    def see(self, values: Mapping[str, Array]) -> None:
        """Note the reference's label and the position of its highest score."""
        label, scores = values.get(self._label), values.get(self._scores)
        if label is None or scores is None or np.isnan(scores).any():
            return
        order = np.sort(np.ravel(scores))
        if order[-1] > order[-2]:
            self._seen.setdefault(int(np.argmax(scores)), set()).add(int(np.ravel(label)[0]))

    def check(self) -> None:
        """Raise where every position has a label of its own, and it is another number."""
        pairs = {position: min(labels) for position, labels in self._seen.items()}
        is_numbering = all(len(labels) == 1 for labels in self._seen.values())
        others = {position: label for position, label in pairs.items() if position != label}
        if not (is_numbering and others and len(set(pairs.values())) == len(pairs)):
            return
        position, label = min(others.items())
        raise InputError(
            f"the model calls the class of score {position} of {self._scores!r} {label}, and the "
            f"labels of the data set are taken as positions of scores",
            f"evaluate the output {self._label!r}, which gives the model's own numbers, or number "
            f"the labels of the data set by the positions of the scores: {position} for {label}",
        )


def _check_labels(
    data: DataSet, metrics: Sequence[Metric], outputs: int, label: TensorInfo | None
) -> None:
    """Raise for labels that the metrics cannot be computed with."""
    if metrics[0].labels == "values":
        return
    # A single output is that of two classes.
    count = max(2, outputs)
    bad = np.flatnonzero((data.labels < 0) | (data.labels >= count))
    if bad.size:
        raise InputError(
            f"{data.sources[int(bad[0])]} has the label {data.labels[bad[0]]}, and the model's "
            f"output has {outputs} values, so classes from 0 to {count - 1}",
            f"correct the labels; {bad.size} of {len(data)} are such"
            + (f"; or evaluate the class's number, the output {label.name!r}" if label else ""),
        )
    if data.classes is not None and len(data.classes) != count:
        # Sorted names get the right numbers only where none is missing.
        raise InputError(
            f"the data set has {len(data.classes)} classes, and the model's output has {outputs} "
            f"values, so {count} classes",
            "name all classes in the order of the model's outputs: --classes A,B,... (in Python "
            "classes=[...])",
        )
    if len(np.unique(data.labels)) < 2 and any(metric.name == "auc" for metric in metrics):
        raise InputError(
            f"all samples are of class {data.labels[0]}, and auc compares classes",
            "give samples of two classes at least",
        )
    for metric in metrics:
        k = int(metric.name[3:]) if metric.name.startswith("top") else 1
        if k >= count and outputs > 1 and k > 1:
            raise InputError(
                f"{metric.name} is always 1 with {outputs} classes", "choose a smaller number"
            )


# -- computing -----------------------------------------------------------------------------------


class _Here(Executor):
    """Runs what is submitted at once, in the thread that submits it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except DeviceError as error:
            future.set_exception(error)
        return future


@contextlib.contextmanager
def boards_at_once(count: int) -> Iterator[Executor]:
    """Yield what runs steps of ``count`` boards at the same time; one board needs no thread.

    The boards are to be closed within the context: what a thread has started ends with it, and a
    step that still runs after an interrupt ends when its board is closed.
    """
    if count == 1:
        yield _Here()
        return
    with ThreadPoolExecutor(max_workers=count, thread_name_prefix="hil-board") as threads:
        yield threads


@dataclass(frozen=True)
class _Pending:
    """A sample that a board and the reference compute."""

    index: int
    sample: Sample
    expected: Future[Array]
    model: RunnableModel


def _compute(
    models: Sequence[RunnableModel],
    data: DataSet,
    oracle: Oracle,
    kept: _Journal,
    output: int,
    progress: Callable[[int], None],
    repeated: Callable[[RunnableModel, Callable[[], Array]], Array],
    threads: Executor,
    numbering: _ClassNumbers | None,
) -> None:
    """Compute what the journal lacks; the reference computes in parallel to the boards."""
    tensor = models[0].outputs[output]
    missing = (index for index in range(len(data)) if index not in kept)
    done = len(kept)
    pending: dict[Future[Array], _Pending] = {}
    # Settings of the command, such as its decisions, hold in the threads, too.
    contexts = {id(model): contextvars.copy_context() for model in models}
    with Beside("hil-reference") as beside:

        def start(model: RunnableModel) -> None:
            for index in islice(missing, 1):
                sample = data.samples[index]
                expected = beside.submit(_expected, oracle, index, sample, tensor, numbering)
                step = partial(repeated, model, partial(_computed, model, sample, output))
                got = threads.submit(contexts[id(model)].run, step)
                pending[got] = _Pending(index, sample, expected, model)

        for model in models:
            start(model)
        while pending:
            for got in wait(pending, return_when=FIRST_COMPLETED).done:
                one = pending.pop(got)
                try:
                    found = got.result()
                except DeviceError as error:
                    _require_no_difference(kept, tensor, one.model.name, data, oracle, error)
                    raise
                kept.add(one.index, digest_of(one.sample), found, one.expected.result())
                done += 1
                progress(done)
                start(one.model)


def _others(
    kept: _Journal, indices: Sequence[int], tensor: TensorInfo, data: DataSet, oracle: Oracle
) -> list[bool]:
    """Return for each sample whether the device's result differs from the reference's."""

    @cache
    def largest() -> float:
        return max(largest_magnitude(kept.reference(index, tensor)) for index in indices)

    def slope(index: int) -> Array | None:
        if oracle.sensitivity is None:
            return None
        oracle.sensitivity.follow(data.samples[index], is_first=True)
        return oracle.sensitivity.slope(tensor)

    return [
        differs(
            kept.reference(index, tensor),
            kept.device(index, tensor),
            partial(slope, index),
            largest,
        )
        for index in indices
    ]


def _require_no_difference(
    kept: _Journal,
    tensor: TensorInfo,
    model: str,
    data: DataSet,
    oracle: Oracle,
    error: DeviceError,
) -> None:
    """Raise NumericError if samples before the failure of the board differ: another run must not
    replace what is known.
    """
    done = [index for index, _ in kept.digests()]
    found = sum(_others(kept, done, tensor, data, oracle))
    if found:
        raise NumericError(
            f"{found:,} of {len(done):,} samples of {model} differ from {oracle.name}; then the "
            f"board failed: {error.fact}",
            error.hint,
        ) from error


def _expected(
    oracle: Oracle,
    index: int,
    sample: Sample,
    tensor: TensorInfo,
    numbering: _ClassNumbers | None = None,
) -> Array:
    oracle.reset_state()
    values = oracle.values(index, sample)
    if numbering is not None:
        numbering.see(values)
    value = tensor.held(np.asarray(values[tensor.name]))
    if value.size != math.prod(tensor.shape) or value.dtype != np.dtype(tensor.dtype):
        raise InputError(
            f"the reference's {tensor.name!r} is {value.dtype}{list(value.shape)}, and the "
            f"compiled model's is {tensor.dtype}{list(tensor.shape)}",
            "compare with the reference of the same model file, or with another (--reference)",
        )
    return value.reshape(tensor.shape)


def _computed(model: RunnableModel, sample: Sample, output: int) -> Array:
    model.reset_state()
    for name, array in sample.items():
        model.set_input(name, array)
    model.run()
    return model.get_output(output)


def _real(array: Array, tensor: TensorInfo) -> Floats:
    """Return the real values of quantized ones."""
    floats = array.astype(np.float64)
    if tensor.scale is None or tensor.zero_point is None:
        return floats
    return (floats - tensor.zero_point) * tensor.scale


def _results(
    model: RunnableModel, data: DataSet, outputs: Array, score: ScoreKind, tensor: TensorInfo
) -> Floats:
    """Return each sample's values, of shape (samples, values)."""
    real = _real(outputs, tensor).reshape(len(data), -1)
    if score == "outputs":
        return real
    given = model.inputs[0]
    errors = [
        np.mean((_real(data.samples[i][given.name], given).ravel() - real[i]) ** 2)
        for i in range(len(data))
    ]
    return np.array(errors)[:, np.newaxis]


def _scores(
    metrics: Sequence[Metric],
    limits: Sequence[MetricLimit],
    labels: Array,
    device: Floats,
    reference: Floats,
) -> tuple[MetricReport, ...]:
    is_same = np.array_equal(device, reference, equal_nan=True)
    reports = []
    for metric in metrics:
        own = {limit.kind: limit.value for limit in limits if limit.metric == metric.name}
        found = metric.score(labels, device)
        other = found if is_same else metric.score(labels, reference)
        reports.append(
            MetricReport(
                metric.name, found, other, metric.higher_is_better, own.get("min"), own.get("max")
            )
        )
    return tuple(reports)


def _confusion(data: DataSet, results: Floats) -> npt.NDArray[np.int64] | None:
    if data.labels.ndim > 1:
        return None
    names = len(data.classes) if data.classes is not None else 0
    return confusion(data.labels, predicted(results), max(2, results.shape[1], names))


def _mismatch(
    index: int, data: DataSet, device: Array, reference: Array, results: Mapping[str, Floats]
) -> Mismatch:
    classes: dict[str, int | None] = {"device": None, "reference": None}
    if data.labels.ndim == 1:
        for side, values in results.items():
            found = int(predicted(values[index : index + 1])[0])
            classes[side] = None if found == NO_CLASS else found
    with np.errstate(invalid="ignore"):
        difference = np.abs(device.astype(np.float64) - reference.astype(np.float64))
    return Mismatch(
        index,
        data.sources[index],
        classes["device"],
        classes["reference"],
        float(difference.max(initial=0)),
    )


# -- the journal ---------------------------------------------------------------------------------


def _data_key(data: DataSet) -> dict[str, str]:
    labels = hashlib.sha256(np.ascontiguousarray(data.labels).tobytes())
    for index in range(len(data)):
        labels.update(f"{data.sources[index]}\n".encode())
    return {"samples": str(len(data)), "labels": labels.hexdigest()[:32]}


class _Journal:
    """Outputs of the samples that are done, in memory and in a file of lines.

    A line has a checksum, and is written at once; one that was cut off when the program was killed
    is the last, and dropped.
    """

    def __init__(self, file: IO[bytes] | None, entries: dict[int, dict[str, Any]]) -> None:
        self._file = file
        self._entries = entries
        self._synced_s = time.monotonic()

    def __contains__(self, index: int) -> bool:
        return index in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def digests(self) -> Iterator[tuple[int, str]]:
        """Yield the samples that are done, with the digests of their inputs."""
        for index, entry in sorted(self._entries.items()):
            yield index, entry["input"]

    def add(self, index: int, digest: str, device: Array, reference: Array) -> None:
        entry = {
            "sample": index,
            "input": digest,
            "device": _packed(device),
            "reference": None if _same(device, reference) else _packed(reference),
        }
        self._entries[index] = entry
        if self._file is None:
            return
        try:
            _write(self._file, _line(entry))
            if time.monotonic() - self._synced_s > _SYNC_S:
                os.fsync(self._file.fileno())
                self._synced_s = time.monotonic()
        except OSError as error:
            raise cannot_write(self._file.name, error) from None

    def device(self, index: int, tensor: TensorInfo) -> Array:
        return _unpacked(self._entries[index]["device"], tensor)

    def reference(self, index: int, tensor: TensorInfo) -> Array:
        entry = self._entries[index]
        return _unpacked(entry["reference"] or entry["device"], tensor)


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _packed(array: Array) -> str:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode("ascii")


def _unpacked(text: str, tensor: TensorInfo) -> Array:
    try:
        data = np.frombuffer(base64.b64decode(text), np.dtype(tensor.dtype).newbyteorder("<"))
        return data.reshape(tensor.shape).astype(tensor.dtype)
    except ValueError as error:
        raise InputError(
            f"an output in the journal is not the {tensor.nbytes} bytes of {tensor.name!r}: "
            f"{error}",
            "start again with --restart",
        ) from None


def _line(entry: Mapping[str, Any]) -> bytes:
    text = json.dumps(entry, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _write(file: IO[bytes], data: bytes) -> None:
    """Append to a file without its buffer, whose rest would fail again when it is closed."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file.fileno(), rest) :]


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return what a line says; None for one that was cut off or damaged."""
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
        return None
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


@contextlib.contextmanager
def _open_journal(path: Path | None, key: Mapping[str, str], restart: bool) -> Iterator[_Journal]:
    """Open the journal at ``path``, or begin it; without a path it is in memory only."""
    if path is None:
        yield _Journal(None, {})
        return
    head = {"format": _JOURNAL, **key}
    # Only failures of this file: samples that cannot be read, and devices, tell their own.
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(path.open("a+b"))
            _lock(file, path)
            file.seek(0)
            entries, size = ({}, 0) if restart else _read_journal(file, path, head)
            file.truncate(size)
            if not size:
                _write(file, _line(head))
        except OSError as error:
            raise cannot_write(path, error) from None
        yield _Journal(file, entries)


def _lock(file: IO[bytes], path: Path) -> None:
    """Raise InputError if another process evaluates with the same journal."""
    try:
        lock(file, wait=False)
    except BlockingIOError:
        raise InputError(
            f"another program evaluates the same: it holds {path}",
            "wait for it, or name another output with -o",
        ) from None


def _read_journal(
    file: IO[bytes], path: Path, head: Mapping[str, Any]
) -> tuple[dict[int, dict[str, Any]], int]:
    """Return the samples of a journal, and the bytes of it that are good; none of an empty one."""
    entries: dict[int, dict[str, Any]] = {}
    size = 0
    for number, line in enumerate(file):
        entry = _entry(line)
        if entry is None:
            if number == 0 and line.strip():
                raise _other_journal(path, "it is none of an evaluation")
            break
        if number == 0:
            for name, value in head.items():
                if entry.get(name) != value:
                    was = f"; it was {entry.get(name)!r:.80}, and is {value!r:.80}"
                    is_shown = name in ("board", "source", "reference")
                    raise _other_journal(path, f"{name} was different{was * is_shown}")
        elif not _is_sample(entry):
            raise _other_journal(path, f"line {number + 1} has no result of a sample")
        else:
            entries[entry["sample"]] = entry
        size += len(line)
    return entries, size


def _is_sample(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry has what :meth:`_Journal.add` writes."""
    return (
        type(entry.get("sample")) is int
        and isinstance(entry.get("input"), str)
        and isinstance(entry.get("device"), str)
        and isinstance(entry.get("reference", 0), str | None)
    )


def _other_journal(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is not the journal of this evaluation: {why}",
        "start again with --restart, or name another output",
    )


def _check_resumed(kept: _Journal, data: DataSet, progress: Callable[[int], None]) -> int:
    """Return how many samples are done; raise if one of them is no longer what it was."""
    for index, digest in kept.digests():
        if not 0 <= index < len(data):
            raise InputError(
                f"the journal has sample {index}, and the data set has {len(data)}",
                "start again with --restart",
            )
        if digest_of(data.samples[index]) != digest:
            raise InputError(
                f"{data.sources[index]} has changed since the evaluation was interrupted",
                "start again with --restart",
            )
    if len(kept):
        progress(len(kept))
    return len(kept)
