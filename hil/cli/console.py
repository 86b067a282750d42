"""Output of commands: results on stdout, logs and progress on stderr.

Colours are used on terminals only, and not with ``NO_COLOR`` (no-color.org).
"""

from __future__ import annotations

import functools
import itertools
import json
import logging
import os
import shutil
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

from hil.support.escape import escaped

if TYPE_CHECKING:
    from hil.cli.reports import Outcome, ReportFormat
    from hil.results.answer import Answer, ErrorInfo
    from hil.results.parts import TensorValues
    from hilc.errors import HilError
    from hilc.ir import Array

T = TypeVar("T")

#: How a signal ends a command, for its message.
ENDED = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
}
if hasattr(signal, "SIGHUP"):  # Windows has neither this one nor SIGPIPE, number 13
    ENDED[signal.SIGHUP] = "hung up"
EXIT_BROKEN_PIPE = 128 + 13
#: The severity of a text, which sets its colour.
Severity = Literal["ok", "error", "warning"]
_SGR: Mapping[Severity, str] = {"ok": "32", "error": "1;31", "warning": "33"}
#: Longer names are shortened to their end.
_NAME_WIDTH = 60
#: The narrowest column of texts that are wrapped.
_NARROWEST = 12
#: Texts in tables are shortened in their middle.
_CELL_WIDTH = 200


class Console:
    """Output of one command; with ``as_json`` stdout carries exactly one JSON object.

    ``quiet`` suppresses everything on stderr except warnings and errors.
    """

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        #: The report format (:mod:`hil.cli.reports`), set after the arguments are parsed.
        self.format: ReportFormat | None = None
        #: Whether the JSON object has been written.
        self.has_result = False
        #: Words of the command, as answers have them: ``verify``, ``lab list``.
        self.command = ""
        #: The signal that ends the command; None before one arrives.
        self.ended_by: int | None = None
        #: Whether signals wait, and the one that does.
        self.holds_signals = False
        self.held: int | None = None
        #: The outcome of the command, if it has one.
        self.found: Outcome | None = None

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Let a signal that ends the command wait for the end of the context: for work that is
        short, and wrong if it is done in part or twice.
        """
        self.holds_signals = True
        try:
            yield
        finally:
            self.holds_signals = False
            if self.held is not None:
                number, self.held = self.held, None
                signal.raise_signal(number)

    @contextmanager
    def listening(self, verbosity: int) -> Iterator[None]:
        """Show warnings and log records of the harness while the context lasts.

        ``verbosity`` 1 adds started programs and their times, 2 adds debug records.
        """
        from hil.errors import HilWarning

        level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
        logger = logging.getLogger("hil")
        handler = _LogHandler(self)
        # Others may ask for more records than are shown here.
        handler.setLevel(level)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(level)

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, HilWarning):
                self.warn(str(message))
            else:
                shown_before(message, category, filename, lineno, file, line)

        with warnings.catch_warnings():
            warnings.simplefilter("always", HilWarning)
            shown_before = warnings.showwarning
            warnings.showwarning = show
            try:
                yield
            finally:
                logger.removeHandler(handler)
                logger.setLevel(before)

    def result(self, entries: Any, text: str, exit_code: int = 0) -> None:
        """Print the command's result in the requested format; called once.

        ``entries`` are an entry (:mod:`hil.results`) or a sequence of them, ``exit_code`` is that
        of the command, and ``text`` the result for people.
        """
        if self.as_json:
            from hil.results.answer import Answer

            results = entries if isinstance(entries, list | tuple) else [entries]
            text = answer_text(Answer(self.command, exit_code, results))
        self.result_text(text)

    def error_result(self, error: ErrorInfo) -> None:
        """Print the JSON answer of a command that an error ended."""
        from hil.results.answer import Answer

        self.result_text(answer_text(Answer(self.command, error.exit_code, error=error)))

    def outcome(self, outcome: Outcome) -> None:
        """Write the command's outcome in the chosen report format; called once."""
        self.found = outcome
        assert self.format is not None, "commands with outcomes have formats"
        self.result_text(self.format.text([outcome]))

    def result_text(self, text: str) -> None:
        """Write the result of the command in its report format."""
        text = _printable(text.removesuffix("\n"))
        # Only now: until then a signal may end the command, whose error is its result.
        self.has_result = True
        with printing():
            print(text, flush=True)

    def line(self, text: str) -> None:
        """Print a line of incremental output on stdout."""
        text = _printable(text)
        with printing():
            print(text, flush=True)

    def log(self, text: str) -> None:
        """Print progress information on stderr."""
        if not self.quiet:
            self._say(text)

    def warn(self, text: str) -> None:
        """Print a warning on stderr."""
        self._say(f"{coloured('warning:', 'warning', sys.stderr)} {escaped(text, colours=False)}")

    def error(self, error: HilError, label: str = "") -> None:
        """Print an error on stderr; ``label`` names its source if there are several."""
        at = f"{label}: " if label else ""
        text = escaped(f"{at}{error}", colours=False)
        self._say(f"{coloured('error:', 'error', sys.stderr)} {text}")

    def _say(self, text: str) -> None:
        # Not at the top: `hil --help` needs nothing of the compiler.
        from hilc.errors import shortened

        # A failure to print a message must not end the command.
        with suppress(OSError):
            print(shortened(escaped(text)), file=sys.stderr, flush=True)

    def progress(self, items: Iterable[T], what: str) -> Iterable[T]:
        """Return the items, with a progress bar when stderr is a terminal."""
        if not self._shows_progress():
            return items
        from tqdm import tqdm

        bar: Iterable[T] = tqdm(items, desc=what, file=sys.stderr, leave=False)
        return bar

    @contextmanager
    def progress_fraction(self, what: str) -> Iterator[Callable[[float], None] | None]:
        """Yield a function that shows a fraction, 0 to 1; None unless stderr is a terminal."""
        layout = "{desc}: {percentage:3.0f}% |{bar}| {elapsed}"
        with self._bar(total=1.0, desc=what, bar_format=layout) as bar:

            def show(done: float) -> None:
                bar().update(done - bar().n)
                if done >= 1:
                    bar().close()

            yield show if self._shows_progress() else None

    @contextmanager
    def progress_count(self, what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
        """Yield a function that shows how many of how many items are done, and how fast."""
        with self._bar(desc=what, unit=unit) as bar:

            def show(done: int, count: int) -> None:
                if self._shows_progress():
                    bar().total = count
                    bar().update(done - bar().n)

            yield show

    @contextmanager
    def progress_total(self, what: str, unit: str) -> Iterator[Callable[[], None] | None]:
        """Yield a function that counts one more item; None unless stderr is a terminal."""
        layout = "{desc}: {n_fmt} {unit}, {elapsed}"
        with self._bar(desc=what, unit=unit, bar_format=layout) as bar:
            yield (lambda: bar().update()) if self._shows_progress() else None

    @contextmanager
    def _bar(self, **options: Any) -> Iterator[Callable[[], Any]]:
        """Yield a function that creates the progress bar at its first call and returns it."""

        @functools.cache
        def bar() -> Any:
            from tqdm import tqdm

            made = tqdm(file=sys.stderr, leave=False, **options)
            stack.callback(made.close)
            return made

        with ExitStack() as stack:
            yield bar

    def _shows_progress(self) -> bool:
        return not self.quiet and sys.stderr.isatty()


class _LogHandler(logging.Handler):
    """Print log records on a console."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        show = self._console.warn if record.levelno >= logging.WARNING else self._console.log
        show(record.getMessage())


class PartConsole(Console):
    """Output of one combination of a matrix: its outcome is kept, and written with the others."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(as_json=False, quiet=quiet)

    def outcome(self, outcome: Outcome) -> None:
        """Keep the outcome."""
        self.found = outcome


def _printable(text: str) -> str:
    """Return a text in characters that stdout's encoding has."""
    encoding = sys.stdout.encoding or "utf-8"
    return escaped(text).encode(encoding, "backslashreplace").decode(encoding)


def coloured(text: str, severity: Severity, stream: TextIO) -> str:
    """Return ``text`` in the colour of ``severity`` if ``stream`` shows colours."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_plain or not stream.isatty():
        return text
    return f"\x1b[{_SGR[severity]}m{text}\x1b[0m"


@contextmanager
def printing() -> Iterator[None]:
    """Turn a failure of standard output into a :class:`HilError`, once.

    A BrokenPipeError passes: a reader that stops reading is not an error.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        raise
    except OSError as error:
        _silence_stdout()
        from hilc.support.outputs import cannot_write

        raise cannot_write("standard output", error, "send it to another file") from None


def _silence_stdout() -> None:
    """Redirect stdout to the null device, since Python flushes it again at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def open_closed_streams() -> None:
    """Replace closed streams: Python sets them to None, and each use would raise.

    What is opened takes the lowest descriptor, which must be the stream's own: a socket there would
    be replaced in each process that is started.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    if sys.stdout is None:
        # Write-only use of a read-only descriptor fails as on a closed one: EBADF.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def table(
    rows: Sequence[Sequence[object]],
    header: Sequence[str],
    width: int = 0,
    whole: Collection[str] = (),
) -> str:
    """Return a text table; columns of numbers are right-aligned.

    With a ``width`` above 0, texts are wrapped where the table would be wider, but those of the
    columns ``whole``.
    """
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float | None) for row in rows)
        for i in range(len(header))
    ]
    if width:
        fixed = [numeric[i] or name in whole for i, name in enumerate(header)]
        _narrow(widths, fixed, width)
        cells = [line for row in cells for line in _wrapped(row, widths)]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def screen_width() -> int:
    """Return the columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def table_width(text: str) -> int:
    """Return the columns of a table's text."""
    return max(map(len, text.splitlines()), default=0)


def _narrow(widths: list[int], fixed: Sequence[bool], width: int) -> None:
    """Make the widest columns that are not ``fixed`` narrower until the table has ``width``
    columns.
    """
    texts = [i for i, is_fixed in enumerate(fixed) if not is_fixed]
    while texts and (over := sum(widths) + 2 * (len(widths) - 1) - width) > 0:
        widest = max(texts, key=lambda i: widths[i])
        if widths[widest] <= _NARROWEST:
            return
        widths[widest] = max(_NARROWEST, widths[widest] - over)


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """Return the lines of a row whose cells have these widths."""
    columns = [
        textwrap.wrap(cell, width, break_on_hyphens=False) if len(cell) > width else [cell]
        for cell, width in zip(row, widths, strict=True)
    ]
    return [list(line) for line in itertools.zip_longest(*columns, fillvalue="")]


def shown_name(name: str) -> str:
    """Return the short name of a layer or tensor, the same in all commands.

    A converter joins the names of fused operators with ``;``: the first one names the result.
    """
    first = _in_line(name.partition(";")[0])
    return first if len(first) <= _NAME_WIDTH else f"...{first[-_NAME_WIDTH:]}"


_BREAKS = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": " "})


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    return shown_text(str(value))


def shown_text(text: str) -> str:
    """Return a text from a model, an archive or a board as it is shown among others."""
    from hilc.errors import middle_out

    return middle_out(_in_line(text), _CELL_WIDTH)


def _in_line(text: str) -> str:
    """Return a text in one line: with a line break it must not look like another row, and with
    colours not like a verdict.
    """
    return escaped(text, colours=False).translate(_BREAKS)


def tensor_values(arrays: Mapping[str, Array]) -> tuple[TensorValues, ...]:
    """Return arrays, by name, as results have them."""
    from hil.results.parts import TensorValues

    return tuple(
        TensorValues(name, tuple(array.shape), array.dtype.name, tuple(array.ravel().tolist()))
        for name, array in arrays.items()
    )


def answer_text(answer: Answer) -> str:
    """Return the JSON object of an answer."""
    return json.dumps(answer.to_json(), indent=2, allow_nan=False)
