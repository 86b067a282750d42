"""Parts that the entries of several commands have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hil.results.codec import omitted


@dataclass(frozen=True)
class Fallback:
    """Reason why the default reference was replaced by another one."""

    #: Names of the default reference and of the used one.
    wanted: str
    used: str
    #: The default reference's missing part, and how to install it.
    missing: str
    remedy: str

    def __str__(self) -> str:
        used = "this compiler's own interpreter" if self.used == "hilc" else self.used
        return f"compared with {used}, not with {self.wanted}: {self.missing} ({self.remedy})"


@dataclass(frozen=True)
class ModelFile:
    """The file that a model was compiled from."""

    #: SHA-256 of the file; of the library's files if the library does not hold it.
    sha256: str | None = None


@dataclass(frozen=True)
class Image:
    """The firmware image."""

    #: SHA-256 of the ELF file; None if it cannot be read.
    sha256: str | None = None
    build_id: str | None = None


@dataclass(frozen=True)
class Inputs:
    """The input samples."""

    #: SHA-256 over names, shapes, types and values of all samples.
    sha256: str | None = None
    samples: int | None = None


@dataclass(frozen=True)
class SerialLine:
    """The serial port of a real board."""

    port: str
    #: Whether the port is proven to be that of the board behind the probe.
    proven: bool


@dataclass(frozen=True)
class Provenance:
    """What a result was made from."""

    model: ModelFile = ModelFile()
    inputs: Inputs = Inputs()
    image: Image = Image()
    #: The runner that started the firmware, ``port``, or the place in a lab.
    runner: str = ""
    #: None for a machine that was started for the result.
    line: SerialLine | None = None
    #: The commit that is checked out in the working directory, and whether tracked files differ
    #: from it; None outside of a git repository.
    commit: str | None = None
    dirty: bool | None = None
    #: The compiler options that the user chose.
    options: Mapping[str, Any] | None = None
    #: The C compiler's flags for the model's code, without folders.
    c_flags: tuple[str, ...] = ()
    #: Versions of the programs that took part, by name.
    versions: Mapping[str, str] = field(default_factory=dict)
    #: The command line that gives the result again, or the call from Python.
    command: str = ""
    #: Identifies the run: two runs may be made from the same, a copy of a result is not a run.
    run: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ErrorBin:
    """Number of elements whose error lies from ``low`` to ``high``, both included."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class MissedFaults:
    """The share of inferences in which a fault would have shown with this confidence."""

    #: None if no sample is drawn or real, or if an output differs.
    rate: float | None
    confidence: float
    #: Samples that are drawn or real, each counted once.
    samples: int | None = None


@dataclass(frozen=True)
class LooseElements:
    """Equal float elements that differ by more than 1 % of their own magnitude."""

    elements: int
    #: Largest difference of such an element.
    max_abs_diff: float | None


@dataclass(frozen=True)
class IllConditionedElements:
    """Equal float elements that differ by more than the tolerance, but by no more than they change
    if all operands of the model change by 1e-5 of themselves: where terms cancel.
    """

    elements: int
    #: Largest difference of such an element.
    max_abs_diff: float | None


@dataclass(frozen=True)
class TensorDifference:
    """Differences of one tensor over all samples: device minus reference."""

    name: str
    #: Number of different elements over all samples.
    mismatches: int
    #: Largest difference; None if it is not finite.
    max_abs_diff: float | None = None
    #: Absent in files of older versions.
    shape: tuple[int, ...] = ()
    dtype: str = ""
    #: Largest difference of floats that counts as equal, in the tensor's unit, but for elements
    #: that are ill-conditioned.
    tolerance: float | None = omitted()
    loose: LooseElements | None = omitted()
    ill_conditioned: IllConditionedElements | None = omitted()
    #: Elements that are NaN in the reference and on the device.
    nans: int = omitted(0)
    #: Elements that are infinite in the reference and on the device.
    infinities: int = omitted(0)
    #: Mismatches that rounding may explain, too, in a tensor that is too small to tell: beyond
    #: 0.001 of its largest magnitude in all samples.
    undecided: int = omitted(0)
    #: Histogram: steps of an integer type; floats relative to the largest magnitude of the tensor.
    errors: tuple[ErrorBin, ...] = omitted(())


def mismatch_contradictions(tensor: TensorDifference, samples: int) -> Iterator[str]:
    """Yield what cannot be true of a tensor that was compared over ``samples`` samples."""
    elements = samples
    for length in tensor.shape:
        elements *= length
    # Files of older versions have no shapes; () is the shape of one element as well.
    if tensor.shape and tensor.mismatches > elements:
        yield f"{tensor.name!r} has {tensor.mismatches} mismatches of {elements} elements"


@dataclass(frozen=True)
class TensorValues:
    """A tensor with its values."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    #: In row-major order; null for NaN and infinities.
    values: tuple[Any, ...]


@dataclass(frozen=True)
class FirstMismatch:
    """The first element that differs."""

    tensor: str
    sample: int
    position: tuple[int, ...]
    #: null for NaN and infinities.
    expected: bool | int | float | None = None
    got: bool | int | float | None = None
