"""Compare a model on a device with a reference, output by output and layer by layer.

Integer and boolean results must be equal. A float result may differ from the reference by
``FLOAT_RTOL`` times the largest magnitude in the reference's tensor, or by as much as it changes if
every float that the model computes with changes by ``FLOAT_RTOL`` of itself, but not by more than
``MOST_RTOL`` times the largest magnitude of the tensor in any sample so far.

The first tolerance is relative to the tensor, not the element, since another order of summation
changes small elements as much as large ones. So one huge element, such as a mask's, hides errors of
the others: a result states the tolerance in the output's units, and counts equal elements that
differ by more than ``OWN_RTOL`` of their own magnitude. The second is for a tensor whose elements
are all small because terms cancel; it is computed only where the first one is exceeded, and a
result counts the elements that it judges. Its bound is what keeps the output of another sample, or
of a wrong program, from being equal, however the model amplifies changes.
"""

from __future__ import annotations

import hashlib
import html
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hil.errors import Attempt, DeviceError, NumericError
from hil.results.bench import CheckedOutputs
from hil.results.codec import encode
from hil.results.parts import (
    ErrorBin,
    Fallback,
    FirstMismatch,
    IllConditionedElements,
    LooseElements,
    MissedFaults,
    Provenance,
    TensorDifference,
)
from hil.results.verify import (
    Cost,
    Diagnosis,
    Fidelity,
    FirstDifferentLayer,
    LayerDifference,
    VerifyEntry,
)
from hil.support.beside import Beside
from hil.verify.cost import cost_of, repeated_requests, undisturbed_count
from hil.verify.diagnosis import PAIRS_MAX, Pair, diagnose
from hil.verify.error_histogram import ErrorHistogram
from hil.verify.fidelity import FidelityMeter
from hil.verify.rerun import examine
from hil.verify.samples import (
    CONFIDENCE,
    MOST_EXTREMES,
    ExtremeSample,
    Sample,
    missed_fault_rate,
)
from hil.verify.sensitivity import Sensitivity
from hilc.artifact.library import Layer, TensorInfo
from hilc.artifact.notebook import html_table
from hilc.errors import HilError, InputError
from hilc.executor import Model as ExecutedModel
from hilc.ir import Array
from hilc.ir.dtypes import INDEX_TYPES
from hilc.support.arguments import typed
from hilc.support.suggest import counted

#: Relative difference of floats that counts as rounding. Of an operand it is 84 times float32's
#: spacing of 2**-23: sums of 4,096 products in another order needed up to 31 of these 84.
FLOAT_RTOL = 1e-5
#: Most that a difference may be where terms cancel, of the tensor's largest in all samples so far.
MOST_RTOL = 1e-3
#: Difference of an element by its own magnitude from which a match remarks on it. Sums of thousand
#: products in another order differ by up to 0.3 % where they cancel out.
OWN_RTOL = 1e-2
#: The note on a reference that this compiler's own code computes.
NOT_INDEPENDENT = "this compiler's own interpreter (not independent)"

#: The outputs of a model, those of each layer, the states before the run, and what it counted.
_Computed = tuple[list[Array], list[list[Array]], list[Array], int | None]


@runtime_checkable
class RunnableModel(ExecutedModel, Protocol):
    """Interface common to models on a device and in this process."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order of execution."""

    def layer_outputs(self) -> Iterator[tuple[Layer, list[Array]]]:
        """Run the model; yield each layer with its outputs."""


@dataclass(frozen=True)
class Oracle:
    """Source of expected results: a reference that computes, or outputs in a file."""

    name: str
    description: str
    #: Returns every known tensor, by name, for a sample index and its inputs.
    values: Callable[[int, Sample], Mapping[str, Array]]
    #: None for the default reference and for a requested one.
    fallback: Fallback | None = None
    #: Resets the states of the reference.
    reset_state: Callable[[], None] = lambda: None
    #: Whether other people's code, or a file, gives the values; not this compiler's interpreter.
    independent: bool = True
    #: How far floats move by rounding; None where the model is not known.
    sensitivity: Sensitivity | None = None


@dataclass(frozen=True)
class Difference:
    """The first differing element of a tensor."""

    sample: int
    position: tuple[int, ...]
    expected: float | int | bool
    got: float | int | bool


@dataclass(frozen=True)
class TensorReport:
    """Differences of one tensor over all samples."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    #: Number of different elements over all samples.
    mismatches: int
    #: Largest difference; NaN if only one side is a finite number.
    max_abs_diff: float | int
    first: Difference | None
    #: Histogram of the errors, if there is a difference: device minus reference.
    errors: tuple[ErrorBin, ...] = ()
    #: Elements over all samples that are NaN in the reference; on the device they equal any NaN.
    nans: int = 0
    #: Largest difference that counts as equal in any sample, in the tensor's units; 0 of integers.
    tolerance: float = 0
    #: Equal elements that differ by more than ``OWN_RTOL`` of their own magnitude, and by how much.
    loose: int = 0
    loose_diff: float = 0
    #: Elements that are infinite in the reference and here.
    infinities: int = 0
    #: Equal elements that differ by more than ``tolerance``, where terms cancel, and by how much.
    ill_conditioned: int = 0
    ill_conditioned_diff: float = 0
    #: Mismatches that are within the effect of rounding, and beyond the bound of that.
    undecided: int = 0

    @property
    def is_float(self) -> bool:
        """Whether the tensor is float32, which is compared with a tolerance."""
        return self.dtype == "float32"

    def entry(self) -> TensorDifference:
        """Return the differences as results have them."""
        loose = LooseElements(self.loose, self.loose_diff) if self.is_float else None
        cancelled = IllConditionedElements(self.ill_conditioned, self.ill_conditioned_diff)
        return TensorDifference(
            name=self.name,
            mismatches=self.mismatches,
            max_abs_diff=self.max_abs_diff,
            shape=self.shape,
            dtype=self.dtype,
            tolerance=self.tolerance if self.is_float else None,
            loose=loose,
            ill_conditioned=cancelled if self.is_float else None,
            nans=self.nans,
            infinities=self.infinities,
            undecided=self.undecided,
            errors=self.errors,
        )


@dataclass(frozen=True)
class LayerReport:
    """Differences of one layer; ``outputs`` contains only tensors of the reference."""

    index: int
    name: str
    op: str
    outputs: tuple[TensorReport, ...]
    #: Tensors that a transform created: the reference has none to compare with.
    uncompared: tuple[str, ...]

    @property
    def match(self) -> bool:
        """Whether no element of the layer's outputs differs."""
        return all(output.mismatches == 0 for output in self.outputs)

    def entry(self) -> LayerDifference:
        """Return the differences as results have them."""
        return LayerDifference(
            name=self.name,
            op=self.op,
            match=self.match,
            outputs=tuple(output.entry() for output in self.outputs),
            index=self.index,
            uncompared=self.uncompared,
        )

    @property
    def first_difference(self) -> FirstDifferentLayer:
        """The layer and its first element that differs, as results have them."""
        where = FirstDifferentLayer(op=self.op, index=self.index, name=self.name)
        found = _first_mismatch(self.outputs)
        return where if found is None else replace(where, **vars(found))


@dataclass(frozen=True)
class Report:
    """Result of a verification; :meth:`entry` is the entry of ``hil verify``."""

    model: str
    board: str
    samples: int
    reference: str
    reference_description: str
    outputs: tuple[TensorReport, ...]
    #: None if layers were not requested.
    layers: tuple[LayerReport, ...] | None
    seconds: float
    fallback: Fallback | None = None
    #: Cost of an inference; None for a model that is not on a board.
    cost: Cost | None = None
    #: Diagnosis of the first layer that differs; None if none does, or none was compared.
    diagnosis: Diagnosis | None = None
    #: Provenance of the result, if the caller stated it.
    provenance: Provenance | None = None
    #: How far the model is from the reference and from a model in floats, where that was asked for.
    metrics: tuple[Fidelity, ...] = ()
    #: Whether other people's code, or a file, gave the expected values.
    independent: bool = True
    #: Samples that are drawn or real, each counted once: neither extremes nor repetitions.
    independent_samples: int = 0
    #: Steps that brought the board back since it was opened, or since the report before.
    recoveries: tuple[Attempt, ...] = ()
    #: Goal of the compiler; None where the library does not record it.
    goal: str | None = None

    @property
    def match(self) -> bool:
        """Whether no element of the outputs, or of a layer's outputs, differs."""
        return all(output.mismatches == 0 for output in self.outputs) and all(
            layer.match for layer in self.layers or ()
        )

    @property
    def missed_fault_rate(self) -> float | None:
        """The share of inferences, of those that the samples are drawn from, in which a fault
        would have shown with 95 % confidence; None if no sample is drawn or real, or if an output
        differs.
        """
        return missed_fault_rate(self.independent_samples) if self.match else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on how strong a match is, or on differences that may be rounding."""
        if not self.match:
            return tuple(
                f"output {output.name}: {output.undecided:,} of {output.mismatches:,} differences "
                f"may be rounding: a change of the operands by {FLOAT_RTOL:g} of themselves has "
                f"such an effect. They exceed {MOST_RTOL:g} of the output's largest magnitude in "
                "any sample, as wrong results do: compare with samples of other classes, or the "
                "output of a layer before the one in which terms cancel, such as the logits of a "
                "LogSoftmax (--per-layer)"
                for output in self.outputs
                if output.undecided
            )
        remarks = []
        if (rate := self.missed_fault_rate) is not None:
            drawn, percent = self.independent_samples, math.ceil(1000 * rate) / 10
            few = f"; only {drawn} of the {self.samples} samples differ from all others"
            # The interpreter reads the model as the compiler does.
            fault = "a fault" if self.independent else "a fault of the code or the board"
            remarks.append(
                f"{fault} in {percent:g} % or more of such inferences would show "
                f"({100 * CONFIDENCE:.0f} % confidence)"
                + (few if self.samples - drawn > MOST_EXTREMES else "")
            )
        if self.has_floats:
            within = ", ".join(f"{o.name} {o.tolerance:.3g}" for o in self.outputs if o.is_float)
            remarks.append(
                f"floats equal within {FLOAT_RTOL:g} of the largest of their tensor: {within}"
            )
        remarks += [
            f"output {output.name}: differences of up to {output.ill_conditioned_diff:.3g} in "
            f"{counted(output.ill_conditioned, 'element')} whose terms cancel: a change of the "
            f"operands by {FLOAT_RTOL:g} of themselves has such an effect"
            for output in self.outputs
            if output.ill_conditioned
        ]
        remarks += [
            f"output {output.name}: {output.loose:,} elements differ by more than "
            f"{100 * OWN_RTOL:g} % of their own value, by up to {output.loose_diff:.3g}: the "
            "tolerance does not judge them, since other elements are far larger"
            for output in self.outputs
            if output.loose
        ]
        remarks += [
            f"output {output.name}: {count:,} elements are {what} in the reference and here"
            for output in self.outputs
            for count, what in ((output.nans, "NaN"), (output.infinities, "infinite"))
            if count
        ]
        return tuple(remarks)

    @property
    def has_floats(self) -> bool:
        """Whether an output may differ by the tolerance of floats."""
        return any(output.is_float for output in self.outputs)

    @property
    def verdict(self) -> str:
        """The verdict in words, with what it is not."""
        if self.independent:
            return "match" if self.match else "DIFFER"
        word = "match with" if self.match else "DIFFER from"
        return f"{word} {NOT_INDEPENDENT}"

    def __repr__(self) -> str:
        """Return the verdict in one line."""
        return (
            f"<Report {self.model} on {self.board}: {self.verdict} over {self.samples} samples, "
            f"reference {self.reference}>"
        )

    def _repr_html_(self) -> str:
        """Return the verdict and the outputs as tables, for notebooks."""
        facts = {
            "board": self.board,
            "result": self.verdict,
            "samples": f"{self.samples:,}",
            "reference": self.reference_description,
            "seconds": f"{self.seconds:.1f}",
        }
        if (layer := self.first_different_layer) is not None:
            facts["first layer that differs"] = f"{layer.index} {layer.op} {layer.name}"
        header = ("output", "shape", "type", "mismatches", "max diff")
        rows = [
            (t.name, str(list(t.shape)), t.dtype, f"{t.mismatches:,}", f"{t.max_abs_diff:.6g}")
            for t in self.outputs
        ]
        title = f"<h4>{html.escape(self.model)}</h4>"
        return title + html_table(facts.items()) + html_table(rows, header)

    def check(self) -> Report:
        """Return the report; raise :class:`~hil.errors.NumericError` if an output differs."""
        if self.match:
            return self
        layer = self.first_different_layer
        tensors = layer.outputs if layer else self.outputs
        tensor = next(tensor for tensor in tensors if tensor.mismatches)
        what, first = f"{tensor.mismatches} elements of {tensor.name!r}", tensor.first
        raise NumericError(
            f"{self.model} on {self.board} differs from {self.reference}: "
            + (
                f"the checksum of {tensor.name!r}"
                if first is None
                else f"{what}, the first in sample {first.sample} at {list(first.position)}: "
                f"{first.got}, expected {first.expected}"
            ),
            f"the earliest layer that differs is {layer.name!r} ({layer.op})"
            + (f": {self.diagnosis.sentence}" if self.diagnosis else "")
            if layer
            else "use --per-layer to find the earliest layer that differs",
        )

    @property
    def first_different_layer(self) -> LayerReport | None:
        """The earliest layer that differs in any sample."""
        return next((layer for layer in self.layers or () if not layer.match), None)

    def json(self) -> dict[str, Any]:
        """Return what :meth:`to_json` does; its earlier name."""
        return self.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of :meth:`entry`."""
        data: dict[str, Any] = encode(self.entry())
        return data

    @property
    def missed_faults(self) -> MissedFaults:
        """:attr:`missed_fault_rate` with its confidence, as results have it."""
        return MissedFaults(self.missed_fault_rate, CONFIDENCE, self.independent_samples)

    def entry(self) -> VerifyEntry:
        """Return the entry of ``hil verify``."""
        layer = self.first_different_layer
        return VerifyEntry(
            model=self.model,
            board=self.board,
            samples=self.samples,
            reference=self.reference,
            match=self.match,
            outputs=tuple(output.entry() for output in self.outputs),
            goal=self.goal,
            reference_description=self.reference_description,
            reference_fallback=self.fallback,
            independent=self.independent,
            missed_fault_rate=self.missed_faults,
            float_tolerance=FLOAT_RTOL if self.has_floats else None,
            seconds=round(self.seconds, 3),
            cost=self.cost,
            recoveries=self.recoveries,
            first_difference=_first_mismatch(self.outputs),
            layers=None if self.layers is None else tuple(one.entry() for one in self.layers),
            first_different_layer=layer.first_difference if layer else None,
            diagnosis=self.diagnosis,
            metrics=self.metrics,
            provenance=self.provenance,
        )

    def checked_entry(self) -> CheckedOutputs:
        """Return the comparison as the entry of ``hil bench`` has it."""
        return CheckedOutputs(
            samples=self.samples,
            reference=self.reference,
            match=self.match,
            reference_description=self.reference_description,
            reference_fallback=self.fallback,
            independent=self.independent,
            missed_fault_rate=self.missed_faults,
            outputs=tuple(output.entry() for output in self.outputs),
        )


@dataclass
class TensorComparison:
    """Collects one tensor's differences, sample by sample."""

    tensor: TensorInfo
    #: That of the sample which :meth:`add` compares; None judges by the first tolerance alone.
    sensitivity: Sensitivity | None = None
    mismatches: int = 0
    max_abs_diff: float = 0
    #: Elements that were compared, and those that are NaN in the reference.
    elements: int = 0
    nans: int = 0
    #: As :class:`TensorReport` has them.
    tolerance: float = 0
    loose: int = 0
    loose_diff: float = 0
    infinities: int = 0
    ill_conditioned: int = 0
    ill_conditioned_diff: float = 0
    undecided: int = 0
    #: Largest magnitude in the reference's tensors so far.
    largest: float = 0
    first: Difference | None = field(default=None)
    errors: ErrorHistogram = field(init=False)

    def __post_init__(self) -> None:
        self.errors = ErrorHistogram(self.tensor.dtype == "float32")

    def add(self, sample: int, whole: Array, got: Array) -> Pair | None:
        """Compare ``got`` with the reference's tensor, or with the part that it is.

        Return both where they differ.
        """
        expected = self.tensor.held(np.asarray(whole))
        if expected.dtype != got.dtype or expected.size != got.size:
            raise InputError(
                f"the reference's {self.tensor.name!r} is {expected.dtype}{list(expected.shape)} "
                f"but the compiled model's is {got.dtype}{list(got.shape)}",
                "compare with the reference of the same model file, or with another (--reference)",
            )
        expected = expected.reshape(got.shape)
        # Flat: numpy reduces arrays without dimensions to scalars.
        difference, different = _differences(expected.ravel(), got.ravel())
        self.largest = max(self.largest, largest_magnitude(expected))
        is_rounding, is_undecided = _rounding(
            expected, difference, different, self._slope, self.largest
        )
        different &= ~is_rounding
        self.undecided += int(np.count_nonzero(is_undecided))
        count = int(np.count_nonzero(different))
        # numpy's maximum propagates NaN, so a NaN element is always reported.
        self.max_abs_diff = float(np.maximum(self.max_abs_diff, difference.max(initial=0)))
        self.mismatches += count
        self.elements += got.size
        if expected.dtype.kind == "f":
            self.nans += int(np.count_nonzero(np.isnan(expected)))
            self.infinities += int(np.count_nonzero(np.isinf(expected)))
            self.tolerance = max(self.tolerance, _tolerance(expected))
            own = np.abs(expected.ravel().astype(np.float64))
            is_loose = ~different & ~is_rounding & (difference > OWN_RTOL * own)
            self.loose += int(np.count_nonzero(is_loose))
            self.loose_diff = max(self.loose_diff, float(difference[is_loose].max(initial=0)))
            self.ill_conditioned += int(np.count_nonzero(is_rounding))
            self.ill_conditioned_diff = max(
                self.ill_conditioned_diff, float(difference[is_rounding].max(initial=0))
            )
        if count:
            self.errors.add(expected.ravel(), got.ravel())
        else:
            self.errors.add_equal(got.size)
        if count and self.first is None:
            position = np.unravel_index(int(np.argmax(different)), got.shape)
            self.first = Difference(
                sample,
                tuple(int(i) for i in position),
                expected[position].item(),
                got[position].item(),
            )
        if not count:
            return None
        return Pair(sample, expected, got, different.reshape(got.shape))

    def _slope(self) -> Array | None:
        return None if self.sensitivity is None else self.sensitivity.slope(self.tensor)

    def report(self) -> TensorReport:
        """Return the result of all comparisons so far."""
        is_float = self.tensor.dtype == "float32"
        return TensorReport(
            self.tensor.name,
            self.tensor.shape,
            self.tensor.dtype,
            self.mismatches,
            self.max_abs_diff if is_float else int(self.max_abs_diff),
            self.first,
            self.errors.bins() if self.mismatches else (),
            self.nans,
            self.tolerance,
            self.loose,
            self.loose_diff,
            self.infinities,
            self.ill_conditioned,
            self.ill_conditioned_diff,
            self.undecided,
        )


@dataclass
class _Suspect:
    """The first layer that differs so far, and its pairs of tensors."""

    #: Index of the layer, and of the output that differs.
    layer: int
    output: int
    #: States before the run of the first pair's sample, and its inputs.
    states: list[Array]
    inputs: Sample
    pairs: list[Pair]


@typed
def compare(
    model: RunnableModel,
    samples: Iterable[Sample],
    oracle: Oracle,
    *,
    board: str,
    per_layer: bool = False,
    keep_state: bool = False,
    repeated: Callable[[Callable[[], Any]], Any] = lambda job: job(),
    meters: Sequence[FidelityMeter] = (),
) -> Report:
    """Run every sample on ``model`` and compare its outputs, and its layers if ``per_layer``.

    ``samples`` may be wrapped in a progress bar. If the board fails and
    :meth:`hil.device.Device.repeated` recovers it, the sample is computed again; different results
    are never a reason for that. The reference computes in parallel to the board.

    States are reset before each sample; with ``keep_state`` only before the first, so that the
    samples form one sequence. Each of ``meters`` takes what every sample gives.
    """
    start = time.monotonic()
    rounding = oracle.sensitivity
    outputs = [TensorComparison(tensor, rounding) for tensor in model.outputs]
    layers = [
        [TensorComparison(tensor, rounding) for tensor in layer.outputs] for layer in model.layers
    ]
    uncompared: list[dict[str, None]] = [{} for _ in layers]
    counts: list[int] = []
    suspect: _Suspect | None = None
    count = 0
    drawn = DistinctSamples()
    with Beside("hil-reference") as beside:
        for index, sample in enumerate(samples):
            _check_inputs(model, index, sample)
            is_first = index == 0 or not keep_state
            expected = beside.submit(_expected, oracle, index, sample, is_first)
            job = partial(_computed, model, sample, per_layer, is_first)
            try:
                arrays, layer_arrays, states, counted = repeated(job)
            except HilError as error:
                _refuse_sample(model, index, expected, error)
                if isinstance(error, DeviceError):
                    _require_no_difference(model.name, board, oracle.name, outputs, error)
                raise
            counts += [counted] if counted is not None else []
            values = expected.result()
            if rounding is not None:
                rounding.follow(sample, is_first)
            for comparison, array in zip(outputs, arrays, strict=True):
                comparison.add(index, values[comparison.tensor.name], array)
            for position, computed in enumerate(layer_arrays):
                for number, array in enumerate(computed):
                    comparison = layers[position][number]
                    name = comparison.tensor.name
                    if name not in values:
                        uncompared[position][name] = None
                    elif pair := comparison.add(index, values[name], array):
                        found = _Suspect(position, number, states, sample, [pair])
                        suspect = _first_suspect(suspect, found)
            computed_layers = list(zip(model.layers, layer_arrays, strict=False))
            for meter in meters:
                pairs = zip(model.outputs, arrays, strict=True)
                meter.add(sample, values, pairs, computed_layers)
            count += 1
            drawn.add(sample)
    require_compared(count, outputs)
    diagnosis = None
    if suspect is not None:
        try:
            diagnosis = repeated(partial(_diagnosis, model, suspect, uncompared))
        except DeviceError as error:
            _require_no_difference(model.name, board, oracle.name, outputs, error)
            raise
    return Report(
        model=model.name,
        board=board,
        samples=count,
        reference=oracle.name,
        reference_description=oracle.description,
        outputs=tuple(comparison.report() for comparison in outputs),
        layers=_layer_reports(model.layers, layers, uncompared) if per_layer else None,
        seconds=time.monotonic() - start,
        fallback=oracle.fallback,
        cost=cost_of(model, counts),
        diagnosis=diagnosis,
        metrics=tuple(meter.result() for meter in meters),
        independent=oracle.independent,
        # In one sequence equal inputs meet other states.
        independent_samples=drawn.total if keep_state else drawn.distinct,
        goal=goal_of(model),
    )


def goal_of(model: object) -> str | None:
    """Return the goal that a model was compiled for; None where its library does not record it."""
    return getattr(getattr(model, "module", None), "goal", None)


class DistinctSamples:
    """Counts samples that are not extremes, and how many of them differ in their inputs."""

    def __init__(self) -> None:
        self.total = 0
        self._digests: set[bytes] = set()

    @property
    def distinct(self) -> int:
        """Number of samples with different inputs."""
        return len(self._digests)

    def add(self, sample: Sample) -> None:
        """Count a sample, unless it is of extreme values."""
        if isinstance(sample, ExtremeSample):
            return
        self.total += 1
        whole = hashlib.sha256()
        for name, array in sorted(sample.items()):
            whole.update(f"{name}:".encode() + np.asarray(array).tobytes())
        self._digests.add(whole.digest())


def require_compared(samples: int, outputs: Iterable[TensorComparison]) -> None:
    """Raise InputError if nothing was compared, which is no match."""
    if not samples:
        raise InputError("there is no sample, so nothing was compared", "give at least one")
    if not any(comparison.elements for comparison in outputs):
        raise InputError(
            "no output of the model has an element, so nothing was compared",
            "give a model whose outputs are not empty",
        )


def _check_inputs(model: RunnableModel, index: int, sample: Sample) -> None:
    """Raise InputError for a sample that lacks an input: it would be that of another sample."""
    if missing := [tensor.name for tensor in model.inputs if tensor.name not in sample]:
        raise InputError(
            f"sample {index} has no value for the input {', '.join(map(repr, missing))}",
            f"give all inputs of {model.name!r}: "
            + ", ".join(tensor.name for tensor in model.inputs),
        )


def _require_no_difference(
    model: str,
    board: str,
    reference: str,
    outputs: Iterable[TensorComparison],
    error: DeviceError,
) -> None:
    """Raise NumericError if samples before the failure of the board differ: the result is known,
    and another run must not replace it.
    """
    found = [report for output in outputs if (report := output.report()).mismatches]
    if found:
        elements = " and ".join(f"{one.mismatches} elements of {one.name!r}" for one in found)
        raise NumericError(
            f"{model} on {board} differs from {reference}: {elements}; then the board failed: "
            f"{error.fact}",
            error.hint,
        ) from error


def _refuse_sample(
    model: RunnableModel, index: int, expected: Future[Mapping[str, Array]], error: HilError
) -> None:
    """Raise InputError for a sample of integers that the reference refuses as well as the board."""
    given = [t.name for t in model.inputs if t.dtype in INDEX_TYPES]
    refusal = expected.exception() if given else None
    if isinstance(refusal, InputError):
        names = ", ".join(map(repr, given))
        raise InputError(
            f"sample {index}: {error.fact}; of the reference: {refusal.fact}",
            f"give samples whose {names} are what the model takes, such as indices within its "
            "tables: --inputs F.npz, in Python hil.samples.load_samples; random ones are -1000 to "
            "1000",
        ) from error


def _first_suspect(known: _Suspect | None, found: _Suspect) -> _Suspect:
    """Return the suspect of the earlier layer, with the pairs of both if they are the same."""
    if known is None or (found.layer, found.output) < (known.layer, known.output):
        return found
    if (found.layer, found.output) == (known.layer, known.output):
        known.pairs += found.pairs[: PAIRS_MAX - len(known.pairs)]
    return known


def _diagnosis(
    model: RunnableModel, suspect: _Suspect, uncompared: Sequence[Mapping[str, None]]
) -> Diagnosis:
    def prepare() -> None:
        model.reset_state()
        for index, state in enumerate(suspect.states):
            model.set_state(index, state)
        _set_inputs(model, suspect.inputs)

    layer = model.layers[suspect.layer]
    evidence = examine(model, suspect.layer, suspect.output, prepare)
    model.reset_state()
    # Those behind the last layer that was compared.
    unknown: list[str] = []
    for before, names in zip(model.layers[: suspect.layer], uncompared, strict=False):
        unknown = [*unknown, before.name] if names else []
    tensor = layer.outputs[suspect.output]
    return diagnose(suspect.layer, layer, tensor, suspect.pairs, evidence, unknown)


def _expected(oracle: Oracle, index: int, sample: Sample, is_first: bool) -> Mapping[str, Array]:
    """Return the reference's results for a sample; reset its states if ``is_first``."""
    if is_first:
        oracle.reset_state()
    return oracle.values(index, sample)


def _computed(model: RunnableModel, sample: Sample, per_layer: bool, is_first: bool) -> _Computed:
    """Return the outputs of ``sample``, and the count; if ``per_layer`` also the outputs of each
    layer and the states before.
    """
    if is_first:
        model.reset_state()
    # The run by layers must start from the same states.
    states = [model.state(index) for index in range(len(model.states))] if per_layer else []
    _set_inputs(model, sample)
    requests = repeated_requests(model)
    count = undisturbed_count(model, requests, model.run())
    outputs = [model.get_output(tensor.name) for tensor in model.outputs]
    if not per_layer:
        return outputs, [], [], count
    for index, state in enumerate(states):
        model.set_state(index, state)
    _set_inputs(model, sample)
    return outputs, [arrays for _, arrays in model.layer_outputs()], states, count


def _set_inputs(model: RunnableModel, sample: Sample) -> None:
    for name, array in sample.items():
        model.set_input(name, array)


def _layer_reports(
    layers: Sequence[Layer],
    comparisons: Sequence[Sequence[TensorComparison]],
    uncompared: Sequence[Mapping[str, None]],
) -> tuple[LayerReport, ...]:
    return tuple(
        LayerReport(
            index,
            layer.name,
            layer.op,
            tuple(c.report() for c in comparisons[index] if c.tensor.name not in uncompared[index]),
            tuple(uncompared[index]),
        )
        for index, layer in enumerate(layers)
    )


#: Returns how much the elements of a tensor move per relative change of the model's operands; None
#: where that is not known. Called only where the first tolerance is exceeded.
Slope = Callable[[], Array | None]


def differs(
    expected: Array, got: Array, slope: Slope = lambda: None, largest: Callable[[], float] = float
) -> bool:
    """Return whether any element of ``got`` counts as different.

    ``largest`` returns the largest magnitude of the tensor in other samples; it is called only
    where the first tolerance is exceeded.
    """
    difference, different = _differences(expected.ravel(), got.ravel())
    if different.any():
        most = max(largest(), largest_magnitude(expected))
        different &= ~_rounding(expected, difference, different, slope, most)[0]
    return bool(different.any())


def _rounding(
    expected: Array, difference: Array, different: Array, slope: Slope, largest: float
) -> tuple[Array, Array]:
    """Return which elements exceed the first tolerance, but not the second one; and which only
    exceed the bound of the second one.
    """
    found = slope() if expected.dtype.kind == "f" and different.any() else None
    if found is None:
        return np.zeros_like(different), np.zeros_like(different)
    explained = different & (difference <= FLOAT_RTOL * found.ravel())
    is_small = difference <= MOST_RTOL * largest
    return explained & is_small, explained & ~is_small


def largest_magnitude(expected: Array) -> float:
    """Return the largest finite magnitude of a tensor; 0 of integers, which have no tolerance."""
    if expected.dtype.kind != "f":
        return 0.0
    return float(np.abs(expected[np.isfinite(expected)]).max(initial=0))


def _differences(expected: Array, got: Array) -> tuple[Array, Array]:
    """Return each element's absolute difference and whether it counts as different."""
    if expected.dtype == np.bool_:
        different = expected != got
        return different.astype(np.int64), different
    if np.issubdtype(expected.dtype, np.integer):
        # float64 holds every difference of types up to 32 bits; int64 differences could overflow.
        difference = np.abs(expected.astype(np.float64) - got.astype(np.float64))
        return difference, expected != got
    with np.errstate(invalid="ignore"):
        difference = np.abs(expected.astype(np.float64) - got.astype(np.float64))
    # Equal NaNs and equal infinities count as equal.
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    difference[same] = 0
    return difference, ~same & ~(difference <= _tolerance(expected))


def _tolerance(expected: Array) -> float:
    """Return the difference up to which elements of a tensor of floats are equal."""
    return FLOAT_RTOL * largest_magnitude(expected)


def _first_mismatch(tensors: Iterable[TensorReport]) -> FirstMismatch | None:
    """Return the first element that differs; None where there is none, or none is known."""
    tensor = next((tensor for tensor in tensors if tensor.first is not None), None)
    if tensor is None or (first := tensor.first) is None:
        return None
    return FirstMismatch(tensor.name, first.sample, first.position, first.expected, first.got)
