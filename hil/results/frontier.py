"""The entry of ``hil explain --frontier``: the programs of a model to choose from."""

from __future__ import annotations

from dataclasses import dataclass

from hil.results.answer import entry_of


@dataclass(frozen=True)
class FrontierProgramEntry:
    """A program, by estimate, and the option that gives it: a goal or a limit."""

    #: Words of the command line.
    options: tuple[str, ...]
    #: The goal; None for the program of a limit.
    optimize: str | None
    #: Limits in bytes, of the workspace and of flash; None without one.
    ram: int | None
    flash: int | None
    #: Instructions or cycles of an inference, as ``counter`` says.
    per_inference: int
    workspace_bytes: int
    flash_bytes: int


@entry_of("explain --frontier")
@dataclass(frozen=True)
class FrontierEntry:
    """The programs of a model on a core, the fastest first."""

    model: str
    cpu: str
    #: Unit of ``per_inference``: instructions, or cycles of a tuning log.
    counter: str
    programs: tuple[FrontierProgramEntry, ...]
