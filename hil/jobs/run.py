"""One run of a job: what its caller sees of it, and which board of a lab it had."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from hil.errors import HilWarning

if TYPE_CHECKING:
    from hil.access.connection import Flashed
    from hil.device import Device

T = TypeVar("T")


class Run:
    """A run that shows nothing; the command line has one that writes to the terminal.

    It can be pickled: a matrix sends it to the process of each job.
    """

    def __init__(self) -> None:
        #: Places of a lab that the run does not use, since the job failed on them before.
        self.avoid: tuple[str, ...] = ()
        #: The place of a lab that the run uses; empty elsewhere.
        self.place = ""

    def anew(self, avoid: tuple[str, ...] = ()) -> Run:
        """Return a run of the same kind for a job, which does not use the places ``avoid``."""
        run = object.__new__(type(self))
        vars(run).update(vars(self), avoid=avoid, place="")
        return run

    def listening(self) -> AbstractContextManager[None]:
        """Open the context of a whole run in a process of its own."""
        return nullcontext()

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal ends the program, and so is the cause of an error."""
        return False

    def bug(self, error: Exception) -> None:
        """Take an error that is a bug of this program."""

    def option(self, keyword: str) -> str:
        """Return the name of an option as the user writes it, for messages."""
        return keyword

    def warn(self, text: str) -> None:
        """Show a warning."""
        warnings.warn(HilWarning(text), stacklevel=2)

    def leased(self, place: str, board: str) -> None:
        """Take note of the place of a lab whose board was acquired."""
        self.place = place

    def compiling(self) -> AbstractContextManager[Callable[[], None] | None]:
        """Open the context of a compilation; it has a function that counts a tried program."""
        return nullcontext()

    def programming(self, board: str) -> AbstractContextManager[Callable[[float], None] | None]:
        """Open the context of a device; it has a function that takes the programmed fraction."""
        return nullcontext()

    def flashed(self, board: str, done: Flashed) -> None:
        """Show what programmed the board."""

    def opened(self, board: str, device: Device) -> None:
        """Take a device that was opened for the run."""

    def samples(self, samples: Iterable[T], model: str, board: str) -> Iterable[T]:
        """Return the samples of a comparison, perhaps within a progress bar."""
        return samples

    def counting(
        self, model: str, board: str
    ) -> AbstractContextManager[Callable[[int, int], None]]:
        """Open the context of a data set; it has a function that takes how many samples of how many
        are done.
        """
        return nullcontext(lambda done, count: None)
