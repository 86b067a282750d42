"""The entry of ``hil evaluate``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hil.errors import Attempt
from hil.results.answer import entry_of
from hil.results.codec import omitted
from hil.results.figures import is_ascending
from hil.results.parts import Fallback, Provenance

#: Most classes of an evaluation, far above what a microcontroller distinguishes.
MAX_CLASSES = 5000


@dataclass(frozen=True)
class ScoreEntry:
    """A metric's value and its 95 % confidence interval; None where it is not defined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    #: How the interval was computed: ``Wilson`` or ``bootstrap``.
    interval: str = ""

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if not is_ascending(self.low, self.value, self.high):
            yield "its interval does not hold its value"


@dataclass(frozen=True)
class MetricEntry:
    """A metric of the device's outputs, and of the reference's."""

    name: str
    device: ScoreEntry
    reference: ScoreEntry
    #: The limits of the device's value; None for no limit.
    min: float | None = None
    max: float | None = None
    #: Whether the device's value is within the limits.
    met: bool = True

    @property
    def is_within_limits(self) -> bool:
        """Whether the device's value is within the limits; an undefined value is within none."""
        value = self.device.value
        if value is None:
            return self.min is None and self.max is None
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if self.met != self.is_within_limits:
            yield f"met is {str(self.met).lower()}, and the value and its limits say otherwise"


@dataclass(frozen=True)
class Mismatch:
    """A sample whose output on the device is not the reference's."""

    sample: int
    source: str
    #: The predicted classes; None where the labels are values, or a score is not finite.
    device_class: int | None
    reference_class: int | None
    #: Largest difference of the outputs, in their own units; None if it is not finite.
    max_abs_diff: float | None


@dataclass(frozen=True)
class NonfiniteSamples:
    """Number of samples with NaN or infinite outputs."""

    device: int
    reference: int


@entry_of("evaluate")
@dataclass(frozen=True)
class EvaluateEntry:
    """Accuracy of a model on a board over a labelled data set."""

    model: str
    board: str
    samples: int
    metrics: tuple[MetricEntry, ...]
    #: Name of the reference.
    reference: str
    #: Samples whose outputs differ from the reference's.
    mismatches: int
    #: Goal of the compiler (``--optimize``); None for a library that does not record its goal.
    goal: str | None = None
    #: Whether all metrics are within their limits.
    met: bool = True
    reference_description: str = ""
    #: None if the default or a requested reference was used.
    reference_fallback: Fallback | None = None
    #: Whether other people's code computed the reference; not this compiler's own interpreter.
    independent: bool = True
    #: Outputs other than the evaluated one, which are neither evaluated nor compared.
    uncompared_outputs: tuple[str, ...] = ()
    #: Whether no sample's output differs from the reference's.
    match: bool | None = None
    nonfinite_samples: NonfiniteSamples | None = None
    first_mismatches: tuple[Mismatch, ...] = ()
    #: Names of the classes; None where the labels are values.
    classes: tuple[str, ...] | None = None
    #: Number of samples by label (rows) and the device's class (columns).
    confusion: tuple[tuple[int, ...], ...] | None = None
    #: Boards that shared the samples; absent for one.
    jobs: int = omitted(1)
    #: How tensors were transferred to the board and back.
    transport: str = ""
    #: Bytes of inputs and outputs that were transferred.
    bytes: int | None = None
    #: Steps that brought the board back.
    recoveries: tuple[Attempt, ...] = ()
    #: Samples that an earlier, interrupted evaluation computed.
    resumed: int | None = None
    samples_per_second: float | None = None
    seconds: float | None = None
    provenance: Provenance | None = omitted()

    @property
    def is_good(self) -> bool:
        """Whether the command succeeds with this entry."""
        return self.met and not self.mismatches

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if self.mismatches > self.samples:
            yield f"{self.mismatches} of {self.samples} samples differ"
        if not self.metrics:
            yield "it has no metric"
        if self.met != all(metric.met for metric in self.metrics):
            yield f"met is {str(self.met).lower()}, and the metrics say otherwise"
        count, rows = len(self.classes or ()), self.confusion or ()
        if count > MAX_CLASSES or any(len(row) != len(rows) for row in rows):
            yield "it has a confusion matrix that is not square, or too large"
        elif rows and len(rows) != count:
            yield f"it has {count} classes and {len(rows)} rows of confusion"
        if (total := sum(map(sum, rows))) > self.samples:
            yield f"its confusion matrix is of {total} samples, and there are {self.samples}"
