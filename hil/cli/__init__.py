"""The ``hil`` command: parse the arguments, run the command, map errors to exit codes.

=====  =====================================================================================
code   meaning
=====  =====================================================================================
0      good
1      outputs differ, or a limit is exceeded
2      bad input or usage, an output that cannot be written, or a limit of the system
3      the build failed, or the image does not fit the board
4      board, emulator, probe or link failed; ``doctor``: something required is missing
70     a bug in this program: the traceback is on stderr
130    interrupted; 143 terminated, 129 hung up, 141 the reader of stdout went away
=====  =====================================================================================

On several boards the exit code is the largest of all boards.
"""

# `hil --help` needs these imports, and Ctrl-C is not handled while they load: keep them few.
from __future__ import annotations

import _thread
import gc
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as in hil/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType, TracebackType
    from typing import Any, NoReturn

    from hil.cli.console import Console

EXIT_USAGE = 2
EXIT_BUG = 70
#: Seconds after which a signal is raised again of which the main thread shows no sign.
_AGAIN_S = 0.5
#: The remedy where nothing can be loaded that would find out more.
_SCARCE = "raise the limits of this process (`ulimit -a` lists them), or free memory and disk space"
#: New objects after which Python looks for those that nothing refers to.
_OBJECTS_PER_COLLECTION = 20_000


class _Terminated(BaseException):
    """Exception for SIGTERM and SIGHUP, so that every ``with`` block closes its resources."""


class _Signals:
    """Context that turns SIGINT, SIGTERM and SIGHUP into an exception that ends the command.

    While it is on its way, further signals are ignored, so that they do not interrupt the cleanup.
    Code of a library may swallow the exception (that of Cython does in some places); it is raised
    again until it reaches :func:`main`.
    """

    _RAISED = {
        signal.SIGINT: KeyboardInterrupt,
        signal.SIGTERM: _Terminated,
    }
    if hasattr(signal, "SIGHUP"):  # Windows has none
        _RAISED[signal.SIGHUP] = _Terminated
    _DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)

    def __init__(self, is_program: bool) -> None:
        self._is_program = is_program
        self._previous: dict[int, Any] = {}
        self._unraisable = sys.unraisablehook
        #: Where the command prints; None before there is one.
        self.console: Console | None = None
        #: The last signal that was raised; None before.
        self.received: int | None = None
        #: Its exception.
        self._raised: BaseException | None = None
        #: Whether signals are left unheeded, since the command ends or its cleanup has been seen.
        self._is_over = self._is_under_way = False
        self._lock = _thread.allocate_lock()

    def __enter__(self) -> _Signals:
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._swallowed
        for number in self._RAISED:
            # Do not replace a handler of main's caller, or a signal that the shell ignores.
            if signal.getsignal(number) not in self._DEFAULTS:
                continue
            try:
                self._previous[number] = signal.signal(number, self._receive)
            except ValueError:  # not in the main thread
                return self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        sys.unraisablehook = self._unraisable
        for number, handler in self._previous.items():
            # The program is ending: ignore Ctrl-C from here on.
            is_late = self._is_program and number == signal.SIGINT
            signal.signal(number, signal.SIG_IGN if is_late else handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._is_over:
            return
        if self._is_handled():
            self._is_under_way = True
            return
        if self.console is not None and self.console.holds_signals:
            self.console.held = number
            return
        if self.received is None:
            # A thread of `threading` takes a lock that the interrupted code may hold, and an import
            # may be what is interrupted.
            try:  # noqa: SIM105
                _thread.start_new_thread(self._repeat, (_thread.get_ident(),))
            except RuntimeError:  # there can be no further thread
                pass
        self.received, self._raised = number, self._RAISED[signal.Signals(number)]()
        if self.console is not None:
            self.console.ended_by = number
        raise self._raised

    def _swallowed(self, unraisable: Any) -> None:
        """Take an exception that was raised where none can be: in a callback of the interpreter."""
        if self._raised is None or unraisable.exc_value is not self._raised:
            self._unraisable(unraisable)

    def end(self) -> None:
        """Ignore signals from here on."""
        with self._lock:
            self._is_over = True

    def _is_handled(self) -> bool:
        """Whether the interrupted code is a cleanup after the exception, at whatever depth."""
        error = sys.exc_info()[1]
        while error is not None and error is not self._raised:
            error = error.__context__
        return error is not None

    def _repeat(self, thread: int) -> None:
        """Send the signal to a thread repeatedly until the command has ended."""
        while True:
            time.sleep(_AGAIN_S)
            with self._lock:
                if self._is_over or self._is_under_way or self.received is None:
                    return
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(thread, self.received)
                else:  # Windows; only the main thread has handlers
                    _thread.interrupt_main(signal.Signals(self.received))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; return the exit code."""
    if argv is not None:
        return _main(list(argv), is_program=False)
    # A compilation makes millions of objects that live to its end; to look through them again and
    # again took a tenth of its time.
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    words = sys.argv[1:]
    try:
        from hil.cli.supervision import supervised, tight_limits

        if tight_limits():
            return supervised(lambda ended: _main(words, is_program=True, ended=ended), words)
    except (OSError, MemoryError, ImportError) as error:
        return _report_plainly(error)
    return _main(words, is_program=True)


def _main(words: list[str], *, is_program: bool, ended: Callable[[int], None] | None = None) -> int:
    with _Signals(is_program) as signals:
        try:
            code = _guarded(words, signals)
        except (KeyboardInterrupt, _Terminated):
            # The signal arrived outside of the guarded part: before it began, or while an error
            # was printed.
            code = _stopped(signals, words)
        except (OSError, MemoryError, ImportError) as error:
            code = _report_plainly(error)
    if is_program and signals.received is not None:
        if ended is not None:
            ended(code)
        _end(code)
    return code


def _end(code: int) -> NoReturn:
    """End the process with ``code``, without Python's own shutdown.

    If Ctrl-C arrives during an ``exec`` (creating a dataclass uses one), Python ends itself by
    SIGINT at shutdown, although the exception was caught.
    """
    from contextlib import suppress

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _guarded(words: Sequence[str], signals: _Signals) -> int:
    from hil.cli.console import EXIT_BROKEN_PIPE, Console, open_closed_streams, printing
    from hil.cli.words import wants_json

    open_closed_streams()
    # Usage errors are reported in the requested format, too, so it is needed before parsing.
    console = signals.console = Console(wants_json(words))
    try:
        if "_ARGCOMPLETE" in os.environ:
            from hil.cli.command_line import build_parser
            from hil.cli.completing import complete

            complete(build_parser(os.environ.get("COMP_LINE", "").split()))
        code = _run(words, console)
        # A failure to flush stdout must be reported here, not at interpreter exit.
        with printing():
            return code
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except (KeyboardInterrupt, _Terminated):
        return _stopped(signals, words)
    except (Exception, SystemExit) as error:
        if signals.received is not None:
            # The same Ctrl-C ended a child process, or a library turned it into another exception.
            return _stopped(signals, words)
        return _report(error, console)


def _run(words: Sequence[str], console: Console) -> int:
    from hil.cli.command_line import build_parser

    try:
        parser = build_parser(words)
        # That of `hil help verify` is help.
        console.command = console.command or parser.command_in(words)
        args, unknown = parser.parse_known_args(words)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    args.parser.check_unknown(unknown)
    if args.quiet and args.verbose:
        from hil.cli.parser import usage_error

        raise usage_error("-q and -v are both given", "give one of them")
    args.parser.check_empty()
    if args.handler is None:
        return _lacking_command(args.parser, console)
    console.quiet = args.quiet
    args.words = tuple(words)
    import importlib

    if args.uses_plugins:
        from hil.plugins import load_plugins

        if args.parser.has_reports:
            # The built-in formats take their names before plugins do.
            importlib.import_module("hil.cli.formats")
        # Plugins may provide readers, kernels and runners, so they are loaded before any work.
        load_plugins()
    _choose_format(args, console)

    # `hil tvmc compile -v` counts its own -v.
    # Not at the top: importing hil.board loads the compiler.
    from contextlib import nullcontext

    from hil.support.scope import one_command

    chosen: Any = nullcontext()
    if (file := getattr(args, "bench_file", None)) is not None:
        from hil.board.bench import chosen_file

        chosen = chosen_file(file)
    with chosen, console.listening(args.verbose), one_command():
        from hil.cli.each_board import run_command

        return run_command(args, console)


def _choose_format(args: Any, console: Console) -> None:
    """Select the report format; ``--json`` means ``--format json``."""
    if args.json and args.format not in (None, "json"):
        from hil.cli.parser import usage_error

        raise usage_error(f"--json and --format {args.format} are both given", "give one of them")
    if not args.parser.has_reports:
        if args.format not in (None, "text", "json"):
            from hil.cli.parser import usage_error

            raise usage_error(
                f"{args.parser.prog} has no format {args.format!r}", "choose text or json"
            )
        console.as_json = args.json = args.json or args.format == "json"
        return
    from hil.cli.reports import format_named

    chosen = format_named("json" if args.json else args.format or "text")
    chosen.check()
    console.format = chosen
    console.as_json = console.format.name == "json"


def show_help(command: Sequence[str], console: Console, option: str = "--help") -> int:
    """Print the text of ``hil COMMAND --help`` (``option``), also as JSON."""
    words = [*command, option]
    if not console.as_json:
        return _run(words, console)
    import io
    from contextlib import redirect_stdout

    with redirect_stdout(io.StringIO()) as text:
        code = _run(words, console)
    from hil.results.boards import HelpEntry

    console.result(HelpEntry(" ".join(["hil", *command]), text.getvalue()), "")
    return code


def _lacking_command(parser: Any, console: Console) -> int:
    """Print the help of a command that lacks its subcommand, and return the usage exit code."""
    if console.as_json:
        raise parser.lacking_command()
    console.line(parser.format_help().removesuffix("\n"))
    return EXIT_USAGE


def _report(error: BaseException, console: Console) -> int:
    """Print the error in the requested format; return the exit code."""
    _release(error)
    # Not at the top: importing hil.errors loads the compiler.
    from hil.support.failures import known_error

    known = known_error(error)
    if known is None:
        return _bug(error)
    if console.as_json and not console.has_result:
        # If stdout cannot be written, the message on stderr below has to do.
        from contextlib import suppress

        from hil.results.answer import ErrorInfo
        from hilc.support.outputs import OutputError

        with suppress(BrokenPipeError, OutputError):
            console.error_result(ErrorInfo.of(known))
    console.error(known)
    return known.exit_code


def _release(error: BaseException | None) -> None:
    """Drop what the functions that raised still hold: too few files may be left for a report."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            try:  # noqa: SIM105
                trace.tb_frame.clear()
            except RuntimeError:  # it is running
                pass
            trace = trace.tb_next
        error = error.__context__


def _report_plainly(error: BaseException) -> int:
    """Print an error with what is loaded already: too few files or bytes are left to load more."""
    fact = "memory ran out" if isinstance(error, MemoryError) else str(error)
    os.write(2, f"error: {fact}\n\nhint: {_SCARCE}\n".encode("utf-8", "backslashreplace"))
    return EXIT_USAGE


def _bug(error: BaseException) -> int:
    import traceback

    traceback.print_exception(error)
    print("\nerror: this is a bug in hil; please report it with the text above", file=sys.stderr)
    return EXIT_BUG


def _stopped(signals: _Signals, words: Sequence[str]) -> int:
    """Say that a signal ended the command; return the exit code."""
    from contextlib import suppress

    from hil.cli.console import ENDED, Console
    from hil.cli.words import wants_json

    signals.end()
    number = signals.received or signal.SIGINT
    text, code = ENDED[signal.Signals(number)], 128 + number
    console = signals.console or Console(wants_json(words))
    if console.as_json and not console.has_result:
        # If stdout cannot be written, or the signal left nothing whole of what writing needs, the
        # exit code has to do.
        with suppress(Exception):
            from hil.results.answer import ErrorInfo

            console.error_result(ErrorInfo(text, "", "interrupted", code))
    if text != "hung up":  # nobody reads it
        print(text, file=sys.stderr)
    return code
