"""The entries of ``hil tvmc``."""

from __future__ import annotations

from dataclasses import dataclass

from hil.results.answer import entry_of
from hil.results.codec import omitted
from hil.results.parts import TensorValues


@entry_of("tvmc compile")
@dataclass(frozen=True)
class TvmcCompileEntry:
    """A model that was compiled for microTVM."""

    model: str
    output: str
    output_format: str
    cpu: str
    codegen: str
    api: str
    interface: str
    #: The runtime that the code is for: ``crt`` or ``c++``.
    runtime: str
    #: Who provides the workspace: ``internal``, ``external`` or ``calls``.
    pools: str
    workspace_bytes: int
    constants_bytes: int
    io_bytes: int
    #: Arguments that have no effect here, and why.
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TopValue:
    """One of the largest values of the first output."""

    position: int
    #: null for NaN and infinities.
    value: float | None


@entry_of("tvmc run")
@dataclass(frozen=True)
class TvmcRunEntry:
    """Outputs of a model."""

    outputs: tuple[TensorValues, ...]
    #: Seconds of each repetition (``--print-time``).
    times_s: tuple[float, ...]
    #: With ``--print-top``.
    top: tuple[TopValue, ...] | None = omitted()


@entry_of("tvmc micro create", "tvmc micro create-project")
@dataclass(frozen=True)
class TvmcProjectEntry:
    """A firmware project."""

    project: str
    board: str
    models: tuple[str, ...]


@entry_of("tvmc micro build")
@dataclass(frozen=True)
class TvmcBuildEntry:
    """A built project."""

    project: str
    board: str
    elf: str
    flash_bytes: int
    ram_bytes: int


@entry_of("tvmc micro flash")
@dataclass(frozen=True)
class TvmcFlashEntry:
    """A board that was programmed."""

    project: str
    board: str
    #: False if the board had the image already, and for an emulator, which loads it itself.
    programmed: bool
