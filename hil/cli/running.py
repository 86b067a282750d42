"""A run of a job that the terminal shows, and the options of a job from a command's arguments."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from hil.cli.arguments import cli_option_names, given_options, show_log
from hil.cli.console import Console
from hil.cli.render import flashed_text
from hil.jobs.run import Run
from hilc.target import load_cpu

if TYPE_CHECKING:
    from hil.access.connection import Flashed
    from hil.device import Device

T = TypeVar("T")

#: Options of a command line whose names are not those of the keywords.
_NAMES = {"samples": "--inputs", "sample": "--inputs", "check=False": "--no-check"}
_NAMES |= {"quantize": "--quantize-inputs"}


class ConsoleRun(Run):
    """A run of a job that writes to a console.

    In another process it writes to one of its own, which shows as much.
    """

    def __init__(self, console: Console, verbosity: int = 0) -> None:
        super().__init__()
        self._console = console
        self._verbosity = verbosity

    def on(self, console: Console) -> ConsoleRun:
        """Return the same run, written to another console."""
        run = ConsoleRun(console, self._verbosity)
        run.avoid = self.avoid
        return run

    @property
    def console(self) -> Console:
        """Where the run is written to."""
        return self._console

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs; a console is open in this one alone."""
        return {**vars(self), "_console": Console(as_json=False, quiet=self._console.quiet)}

    def listening(self) -> AbstractContextManager[None]:
        """Show warnings and log records of the harness while the context lasts."""
        return self._console.listening(self._verbosity)

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal ends the command."""
        return self._console.ended_by is not None

    def bug(self, error: Exception) -> None:
        """Print the traceback of a bug."""
        traceback.print_exception(error)

    def option(self, keyword: str) -> str:
        """Return the option of the command line for a keyword."""
        return _NAMES.get(keyword) or f"--{keyword.replace('_', '-')}"

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._console.warn(text)

    def leased(self, place: str, board: str) -> None:
        """Print the place whose board was acquired."""
        super().leased(place, board)
        self._console.log(f"using {place}, a {board} of the lab")

    @contextmanager
    def compiling(self) -> Iterator[Callable[[], None] | None]:
        """Show a progress bar; rewrite keywords in the compiler's hints as options."""
        with (
            cli_option_names(),
            self._console.progress_total("compiling", "programs tried") as progress,
        ):
            yield progress

    def programming(self, board: str) -> AbstractContextManager[Callable[[float], None] | None]:
        """Show a progress bar."""
        return self._console.progress_fraction(f"programming {board}")

    def flashed(self, board: str, done: Flashed) -> None:
        """Print what programmed the board."""
        self._console.log(f"{board}: {flashed_text(done)}")

    def opened(self, board: str, device: Device) -> None:
        """Print the log of the device."""
        show_log(board, device, self._console)

    def samples(self, samples: Iterable[T], model: str, board: str) -> Iterable[T]:
        """Return the samples within a progress bar."""
        return self._console.progress(samples, f"{model} on {board}")

    def counting(
        self, model: str, board: str
    ) -> AbstractContextManager[Callable[[int, int], None]]:
        """Show a progress bar."""
        return self._console.progress_count(f"{model} on {board}", " samples")


def job_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a job: those of the compiler, of the firmware and of the board."""
    options = given_options(args)
    if args.cpu:
        options["cpu"] = load_cpu(args.cpu).name
    if vars(args).get("lab") is not None:
        options["lab"] = args.lab
    if args.include_dir:
        options["include_dirs"] = tuple(args.include_dir)
    if args.source:
        options["sources"] = tuple(args.source)
    for name in ("workspace", "transport", "runner", "port", "probe", "bulk"):
        if vars(args).get(name) is not None:
            options[name] = vars(args)[name]
    # A build needs no board, so it has nothing to wait for.
    if vars(args).get("wait") is not None:
        options["wait_s"] = args.wait
    return options
