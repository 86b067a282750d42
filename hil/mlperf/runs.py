"""The performance and the accuracy of a device under test, as MLPerf Tiny's runner takes them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hil.errors import InputError
from hil.mlperf.dut import Dut, Inference
from hil.results.run import MlperfAccuracy, MlperfPerformance, MlperfWindow
from hil.support.numbers import json_number
from hil.verify.metrics import Floats, Score, metric_named

#: The rules: five windows of at least ten seconds; fewer are no result.
WINDOWS, WINDOW_S = 5, 10.0
#: Inferences that warm up, and by how much a window is longer than it has to be.
_WARMUPS, _MARGIN = 1, 1.02
_MOST_ITERATIONS = (1 << 32) - 1


@dataclass(frozen=True)
class Item:
    """An input, as it is sent, and the class of the file that it is from."""

    file: str
    label: int
    classes: int
    data: bytes


@dataclass(frozen=True)
class Performance:
    """Throughput of several inputs, one a window."""

    windows: tuple[tuple[Item, Inference], ...]
    #: The shortest window that the rules permit, in seconds.
    window_s: float

    @property
    def throughput(self) -> float:
        """Median inferences a second."""
        return statistics.median(inference.throughput for _, inference in self.windows)

    @property
    def is_valid(self) -> bool:
        """Whether the windows are as many and as long as the rules say."""
        return len(self.windows) == WINDOWS and all(
            inference.seconds >= WINDOW_S for _, inference in self.windows
        )

    def __repr__(self) -> str:
        return f"<Performance {self.throughput:.3f} inferences/s, {len(self.windows)} windows>"

    def entry(self) -> MlperfPerformance:
        """Return the measurement as the entry of ``hil mlperf`` has it."""
        windows = tuple(
            MlperfWindow(item.file, one.iterations, one.seconds, json_number(one.throughput))
            for item, one in self.windows
        )
        return MlperfPerformance(json_number(self.throughput), self.is_valid, windows)


@dataclass(frozen=True)
class Accuracy:
    """Accuracy over files; inputs of the same file are averaged."""

    inferences: tuple[tuple[Item, Inference], ...]
    #: Share of the files, with Wilson's interval; of an anomaly score see :func:`accuracy`.
    top1: Score
    #: None where the files have one class only.
    auc: Score | None

    @property
    def files(self) -> int:
        """Number of input files."""
        return len({item.file for item, _ in self.inferences})

    @property
    def nonfinite(self) -> int:
        """Inferences with a result that is NaN or infinite: their files count as wrong."""
        return sum(not np.isfinite(inference.results).all() for _, inference in self.inferences)

    def __repr__(self) -> str:
        auc = f", AUC {self.auc.value:.3f}" if self.auc else ""
        return f"<Accuracy {100 * self.top1.value:.1f}% of {self.files} files{auc}>"

    def entry(self) -> MlperfAccuracy:
        """Return the accuracy as the entry of ``hil mlperf`` has it."""
        return MlperfAccuracy(
            files=self.files,
            inferences=len(self.inferences),
            nonfinite_inferences=self.nonfinite,
            top1=self.top1.entry(),
            auc=self.auc.entry() if self.auc else None,
        )


def performance(
    dut: Dut,
    items: Sequence[Item],
    *,
    windows: int = WINDOWS,
    window_s: float = WINDOW_S,
    iterations: int | None = None,
    warmups: int = _WARMUPS,
) -> Performance:
    """Measure ``windows`` windows of at least ``window_s`` seconds of the device's clock.

    Without ``iterations`` one inference is measured first. Each window has the next of the items.

    Raise :class:`InputError` without an input, or if the device's clock does not advance.
    """
    if not items:
        raise InputError("there is no input to measure", "give at least one")
    if iterations is None:
        dut.load(items[0].data)
        once = dut.infer(1, warmups).seconds
        if once <= 0:
            raise InputError(
                "the device's clock did not advance during an inference",
                "say how many inferences a window has: --iterations N",
            )
        iterations = min(max(1, math.ceil(_MARGIN * window_s / once)), _MOST_ITERATIONS)
    measured = []
    for window in range(windows):
        item = items[window % len(items)]
        dut.load(item.data)
        measured.append((item, dut.infer(iterations, warmups)))
    return Performance(tuple(measured), window_s)


def accuracy(dut: Dut, items: Iterable[Item]) -> Accuracy:
    """Run every input once.

    A file's result is the mean of those of its inputs, each divided by its sum if there is more
    than one class. Of a single score, as anomaly detection has it, the accuracy is upstream's: the
    largest mean of precision and recall over a hundred thresholds.

    Raise :class:`InputError` without an input.
    """
    inferences = []
    for item in items:
        dut.load(item.data)
        inferences.append((item, dut.infer(1, 0)))
    if not inferences:
        raise InputError("there is no input", "give at least one")
    by_file: dict[str, list[Floats]] = {}
    labels: dict[str, int] = {}
    for item, inference in inferences:
        by_file.setdefault(item.file, []).append(_normalized(inference.results))
        labels[item.file] = item.label
    return _summary(tuple(inferences), by_file, labels)


def _normalized(results: Sequence[float]) -> Floats:
    values = np.array(results, np.float64)
    total = values.sum()
    return values / total if values.size > 1 and 0 < total < math.inf else values


def _summary(
    inferences: tuple[tuple[Item, Inference], ...],
    by_file: Mapping[str, Sequence[Floats]],
    labels: Mapping[str, int],
) -> Accuracy:
    sizes = {values.size for parts in by_file.values() for values in parts}
    if len(sizes) != 1 or 0 in sizes:
        raise InputError(
            f"the device's results have {sorted(sizes)} values", "give it the inputs of one model"
        )
    outputs = np.array([np.mean(parts, axis=0) for parts in by_file.values()])
    classes = np.array([labels[file] for file in by_file])
    if outputs.shape[1] == 1:
        share = threshold_accuracy(classes, outputs[:, 0])
        top1 = Score(share, float("nan"), float("nan"), "none")
    else:
        _check_classes(classes, outputs.shape[1])
        top1 = metric_named("accuracy").score(classes, outputs)
    auc = metric_named("auc").score(classes, outputs) if len(set(classes.tolist())) > 1 else None
    return Accuracy(inferences, top1, auc)


def _check_classes(classes: np.ndarray[Any, Any], outputs: int) -> None:
    if classes.max() >= outputs:
        raise InputError(
            f"a file is of class {classes.max()}, and the device's results have {outputs} values",
            "give the data set of this model",
        )


def threshold_accuracy(labels: np.ndarray[Any, Any], scores: Floats) -> float:
    """Return the largest mean of precision and recall of ``score > threshold`` over a hundred
    thresholds from the smallest score to the largest; class 1 is the anomaly.
    """
    best = 0.0
    is_finite = np.isfinite(scores)
    if not is_finite.any():
        return best
    low, high = scores[is_finite].min(), scores[is_finite].max()
    is_anomaly = labels == 1
    anomalies = int(np.count_nonzero(is_anomaly))
    for step in range(100):
        # A score that is not finite is wrong at every threshold.
        is_above = np.where(is_finite, scores > low + step / 100 * (high - low), ~is_anomaly)
        right = int(np.count_nonzero(is_above & is_anomaly))
        precision = right / max(1, int(np.count_nonzero(is_above)))
        recall = right / max(1, anomalies)
        best = max(best, (precision + recall) / 2)
    return best
