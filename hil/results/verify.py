"""The entry of ``hil verify``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from hil.errors import Attempt
from hil.results.answer import entry_of
from hil.results.codec import omitted
from hil.results.parts import (
    Fallback,
    FirstMismatch,
    MissedFaults,
    Provenance,
    TensorDifference,
    mismatch_contradictions,
)


@dataclass(frozen=True)
class LayerDifference:
    """Differences of one layer; ``outputs`` has the tensors that the reference computes too."""

    name: str
    op: str
    match: bool
    outputs: tuple[TensorDifference, ...] = ()
    #: Index of the layer in the order of execution.
    index: int | None = None
    #: Tensors that a transform created: the reference has none to compare with.
    uncompared: tuple[str, ...] = ()

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true, as :func:`~hil.results.figures.check_figures` wants it."""
        differs = any(output.mismatches for output in self.outputs)
        if self.match == differs:
            how = "matches, with" if differs else "differs, without"
            yield f"layer {self.name!r} {how} mismatches"


@dataclass(frozen=True)
class FirstDifferentLayer:
    """The earliest layer that differs, and its first element that does.

    The element's keys are absent where only checksums were compared.
    """

    op: str
    index: int | None = None
    name: str | None = None
    tensor: str | None = omitted()
    sample: int | None = omitted()
    position: tuple[int, ...] | None = omitted()
    expected: bool | int | float | None = None
    got: bool | int | float | None = None


@dataclass(frozen=True)
class Element:
    """One element of a tensor that differs: its index, and both values."""

    sample: int
    position: tuple[int, ...]
    #: Index along the last axis, in the tensor of the model; None for a scalar.
    channel: int | None
    #: null for NaN and infinities.
    expected: bool | int | float | None
    got: bool | int | float | None
    #: Values in real numbers; None where the tensor is not quantized.
    expected_real: float | None
    got_real: float | None


@dataclass(frozen=True)
class Culprit:
    """The layer that overwrote the input of the diagnosed layer."""

    layer: int
    name: str


@dataclass(frozen=True)
class Diagnosis:
    """The kind of the difference of the first layer that differs, and where it is."""

    #: Index of the layer.
    layer: int
    name: str
    op: str
    #: The kind of difference, such as ``one channel``, ``rounding by 1``, ``overwritten input``.
    kind: str
    #: One sentence: how many elements, where, by how much, and what explains them.
    sentence: str
    #: Names of the layers of a fused group; empty for a single layer.
    group: tuple[str, ...]
    tensor: str
    shape: tuple[int, ...]
    #: Letters of the axes of a position, such as NHWC.
    axes: str
    dtype: str
    #: Quantization of the tensor; None where it is not quantized.
    scale: float | None
    zero_point: int | None
    #: Number of elements that differ in the ``samples`` samples that were examined, of ``size``.
    different: int
    size: int
    samples: int
    max_abs_diff: float | None
    #: The difference in real numbers; None if the tensor is not quantized.
    max_abs_diff_real: float | None
    #: Indices with differences, by the axis's letter; only of axes where at most half have some.
    confined: Mapping[str, tuple[int, ...]] = field(hash=False)
    first: Element
    largest: Element
    #: None if no layer overwrote this one's input.
    culprit: Culprit | None = None
    #: Layers before this one that have nothing to compare with, and may be the cause as well.
    uncompared: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorFidelity:
    """Errors of one tensor, in real numbers over all samples; None for undefined figures."""

    name: str
    #: Index of the layer; None for an output of the model.
    layer: int | None = None
    #: Number of elements over all samples.
    elements: int | None = None
    #: Root mean square error, mean absolute error, largest absolute error.
    rmse: float | None = None
    mae: float | None = None
    max_abs_diff: float | None = None
    #: Euclidean norm of the error relative to that of the reference.
    l2r: float | None = None
    #: Nash-Sutcliffe efficiency, cosine of the angle, signal-to-noise ratio in dB.
    nse: float | None = None
    cos: float | None = None
    snr_db: float | None = None
    #: Share of samples with the same largest element, and with it among the five largest; only of
    #: outputs with at least three elements.
    top1: float | None = None
    top5: float | None = None


@dataclass(frozen=True)
class Fidelity:
    """Distance of the model from a reference or from a float model (``--metrics``)."""

    #: Name of the reference, or the file of the float model.
    against: str
    outputs: tuple[TensorFidelity, ...]
    #: Layers that the other model has too; empty if layers were not compared.
    layers: tuple[TensorFidelity, ...] = ()


@dataclass(frozen=True)
class Cost:
    """Cost of the compared inferences: each with its own inputs and caches as they were."""

    #: Unit of ``per_inference``: ``instructions``, ``cycles`` or ``nanoseconds``.
    counter: str
    #: Median over the samples.
    per_inference: int
    #: None for firmware that was not built by this command.
    model_flash_bytes: int | None
    #: All static RAM of the firmware, without its stacks.
    ram_bytes: int | None
    workspace_bytes: int


@entry_of("verify", combined=True)
@dataclass(frozen=True)
class VerifyEntry:
    """Comparison of a model on a board with a reference."""

    model: str
    board: str
    #: Number of samples that were compared.
    samples: int
    #: Name of the reference.
    reference: str
    #: Whether every element of every output, and of every layer if requested, is equal.
    match: bool
    outputs: tuple[TensorDifference, ...]
    #: Goal of the compiler (``--optimize``); None for a library that does not record its goal.
    goal: str | None = None
    reference_description: str = ""
    #: None if the default or a requested reference was used.
    reference_fallback: Fallback | None = None
    #: Whether other people's code, or a file, gave the expected values; not this compiler's own
    #: interpreter.
    independent: bool = True
    missed_fault_rate: MissedFaults | None = None
    #: Largest difference that counts as equal, relative to the largest magnitude of a float
    #: tensor; None if no output is of floats.
    float_tolerance: float | None = None
    seconds: float | None = None
    #: None for a model that does not run on a board.
    cost: Cost | None = None
    #: Steps that brought the board back, and earlier runs of the combination.
    recoveries: tuple[Attempt, ...] = ()
    first_difference: FirstMismatch | None = None
    #: With ``--per-layer``.
    layers: tuple[LayerDifference, ...] | None = omitted()
    #: None if no layer differs, or layers were not compared.
    first_different_layer: FirstDifferentLayer | None = None
    diagnosis: Diagnosis | None = None
    #: With ``--metrics`` or ``--float-model``.
    metrics: tuple[Fidelity, ...] = omitted(())
    provenance: Provenance | None = omitted()

    @property
    def is_good(self) -> bool:
        """Whether the command succeeds with this entry."""
        return self.match

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        differ = any(output.mismatches for output in self.outputs)
        differ = differ or not all(layer.match for layer in self.layers or ())
        if self.match == differ:
            yield f"match is {str(self.match).lower()}, and the tensors say otherwise"
        # Files of older versions have no shapes; () is the shape of one element as well.
        if not any(prod(output.shape) for output in self.outputs):
            yield "no element of an output was compared"
        of_layers = (output for layer in self.layers or () for output in layer.outputs)
        for output in (*self.outputs, *of_layers):
            yield from mismatch_contradictions(output, self.samples)
