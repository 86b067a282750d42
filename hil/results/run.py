"""The entries of ``hil run``, ``hil monitor`` and ``hil mlperf``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hil.errors import Attempt
from hil.results.answer import entry_of
from hil.results.codec import omitted
from hil.results.evaluate import ScoreEntry
from hil.results.parts import Fallback, TensorValues


@entry_of("run")
@dataclass(frozen=True)
class RunEntry:
    """One inference of each model of an image."""

    board: str
    #: Unit of the counts: ``instructions``, ``cycles`` or ``nanoseconds``.
    counter: str
    #: Count of the inference of each model, by name.
    counts: Mapping[str, int]
    #: Steps that brought the board back.
    recoveries: tuple[Attempt, ...]
    #: The outputs; of an image of several models the names are ``MODEL/OUTPUT``.
    outputs: tuple[TensorValues, ...]


@dataclass(frozen=True)
class HeardLine:
    """A line that the board printed."""

    #: Time since the command began to listen.
    seconds: float
    #: Kind of the line, such as ``log`` or ``fault``.
    kind: str
    text: str
    #: Date and time of the host, with ``--timestamps``.
    time: str | None = omitted()


@entry_of("monitor")
@dataclass(frozen=True)
class MonitorEntry:
    """Output of a board."""

    #: None where only a port was given.
    board: str | None
    lines: tuple[HeardLine, ...]


@entry_of("run --elf")
@dataclass(frozen=True)
class ElfRunEntry:
    """Output of a firmware that was not built by this project."""

    board: str
    elf: str
    lines: tuple[HeardLine, ...]
    #: The regular expression of ``--expect``, and whether a line contained it; None without one.
    expect: str | None
    matched: bool | None
    #: The files of ``--coverage``.
    coverage: tuple[str, ...] | None = omitted()


@dataclass(frozen=True)
class MlperfDevice:
    """The answers of the device to ``name``, ``profile`` and the model's name."""

    name: str
    profile: str
    model: str


@dataclass(frozen=True)
class MlperfChecked:
    """The comparison of one inference's results with a reference; a difference is an error."""

    samples: int
    file: str
    reference: str
    reference_description: str
    #: None if the default reference was used.
    reference_fallback: Fallback | None
    #: Whether other people's code gave the expected values; not this compiler's own interpreter.
    independent: bool
    match: bool


@dataclass(frozen=True)
class MlperfWindow:
    """One measured window of the performance mode."""

    file: str
    iterations: int
    seconds: float
    #: Inferences per second; None if no time passed.
    throughput: float | None


@dataclass(frozen=True)
class MlperfPerformance:
    """Performance mode: the median throughput in inferences per second."""

    throughput: float | None
    #: Whether the windows are long enough for a submission.
    windows_met: bool
    windows: tuple[MlperfWindow, ...]


@dataclass(frozen=True)
class MlperfAccuracy:
    """Accuracy mode, over files."""

    files: int
    inferences: int
    #: Inferences with NaN or infinite results, which count as wrong.
    nonfinite_inferences: int
    top1: ScoreEntry
    #: Area under the ROC curve; None where it is not defined.
    auc: ScoreEntry | None


@entry_of("mlperf")
@dataclass(frozen=True)
class MlperfEntry:
    """MLPerf Tiny's performance and accuracy of a model on a board."""

    model: str
    board: str
    #: The benchmark's name of the model.
    benchmark: str
    device: MlperfDevice
    #: The emulator that ran the board; None for hardware.
    emulator: str | None
    #: None where nothing was compared.
    checked: MlperfChecked | None
    #: The files of the submission.
    files: tuple[str, ...]
    #: Absent for a mode that was not run.
    performance: MlperfPerformance | None = omitted()
    accuracy: MlperfAccuracy | None = omitted()
