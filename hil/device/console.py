"""The console of a firmware: awaiting what it prints, and sending to it.

The expressions are searched by pexpect, over the serial line of whatever runs the firmware.
"""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import serial

from hil.device.firmware_tests import MOST_LINE as _MOST_LINE
from hil.device.firmware_tests import QUIET_S as TESTS_QUIET_S
from hil.device.firmware_tests import TIMEOUT_S as TESTS_TIMEOUT_S
from hil.device.firmware_tests import FirmwareTest, FormatName, read_tests
from hil.device.gcov import TIMEOUT_S as COVERAGE_TIMEOUT_S
from hil.device.gcov import read_coverage
from hil.errors import ConsoleError, InputError, LinkError
from hil.link.line import raise_if_ending
from hil.support.escape import escaped
from hilc.support.optional import require

if TYPE_CHECKING:
    from hil.device.console_log import ConsoleLog
    from hil.link.line import Line

#: Deadline of a wait whose caller states none.
TIMEOUT_S: Final = 30.0
#: An expression matches at most so much text. One read brings 64 KiB at most, so that all of it is
#: searched.
_WINDOW: Final = 1 << 17
#: Text that is kept while no expression matches, and of all that was received.
_MOST_TEXT: Final = 1 << 20
_MOST_LINES = 40
#: Text that is searched at once, as much as one read brings.
_MOST_READ = 1 << 16
#: Colours and cursor movements of a terminal; the second form is one whose end is still to come.
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][0-9A-B]|\x1b[=>c78]")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}|[()])?\Z")
#: How long the rest of the output is read for the log at the end.
_DRAIN_S = 0.2


class Console:
    """The console of a firmware, as text.

    Carriage returns, colours and cursor movements of a terminal are removed, and bytes that are no
    UTF-8 are shown as ``\\xff``.
    """

    def __init__(
        self,
        line: Line,
        alive: Callable[[], None],
        name: str,
        log: ConsoleLog | None = None,
        elf: Path | None = None,
    ) -> None:
        """Read ``line`` while ``alive`` raises nothing; ``name`` is in messages that of the
        firmware, whose file is ``elf``.
        """
        self._elf = elf
        self._line = line
        self._alive = alive
        self._name = name
        self._log = log
        self._plain = _Plain()
        self._is_over = False
        self._received = ""
        self._stream: Any = None
        #: What was read ahead of the search.
        self._ahead = ""

    @property
    def text(self) -> str:
        """The received text, the last MiB of it."""
        return self._received

    def expect(self, pattern: str | re.Pattern[str], timeout_s: float = TIMEOUT_S) -> re.Match[str]:
        """Wait until the firmware has printed text that matches; return the match.

        The search begins after the match before; ``^`` and ``$`` match at lines. Text that is still
        arriving matches too: end an expression for a number or a word with ``\\n`` or what follows.

        Raise :class:`~hil.errors.ConsoleError` if nothing matches within ``timeout_s`` seconds or
        the firmware ends before, and :class:`~hil.errors.DeviceError` if the board or the link
        fails.
        """
        compiled = _compiled(pattern)
        return self._match(compiled, _deadline(timeout_s), timeout_s, repr(compiled.pattern))

    def lines(self, timeout_s: float = TIMEOUT_S) -> Iterator[str]:
        """Yield the lines that the firmware prints, until their reader wants no more.

        Raise :class:`~hil.errors.ConsoleError` ``timeout_s`` seconds after the start, or when the
        firmware ends.
        """
        deadline = _deadline(timeout_s)
        while True:
            if time.monotonic() >= deadline:
                raise self._error(f"did not end its output within {timeout_s:g} s", "")
            self._match(_LINE_END, deadline, timeout_s, "another line")
            yield self._stream.before

    def _match(
        self, pattern: re.Pattern[str], deadline: float, timeout_s: float, what: str
    ) -> re.Match[str]:
        pexpect = require("pexpect", "a wait for a console's text")
        if self._stream is None:
            from hil.device.console_stream import ConsoleStream

            self._stream = ConsoleStream(self._read, _WINDOW, _MOST_TEXT)
        stream = self._stream
        try:
            stream.expect([pattern], timeout=max(0.0, deadline - time.monotonic()))
        except pexpect.TIMEOUT:
            why = f"did not print {what} within {timeout_s:g} s"
            raise self._error(why, stream.before) from None
        except pexpect.EOF:
            raise self._error(f"ended before it printed {what}", stream.before) from None
        found: re.Match[str] = stream.match
        return found

    def foresee(self, wanted: Callable[[str], bool], quiet_s: float, timeout_s: float) -> bool:
        """Return whether a line that is ``wanted`` follows, before the firmware ends, prints
        nothing for ``quiet_s`` seconds, or ``timeout_s`` seconds have passed.

        The text stays for later searches. At most 1 MiB of it is looked at. A program that ends
        with an error raises :class:`~hil.errors.DeviceError`.
        """
        rest = (self._stream._before.getvalue() if self._stream is not None else "") + self._ahead
        end = time.monotonic() + timeout_s
        quiet = time.monotonic() + quiet_s
        while True:
            *lines, rest = rest.split("\n")
            if any(map(wanted, lines)):
                return True
            if len(self._ahead) >= _MOST_TEXT or time.monotonic() >= min(quiet, end):
                return wanted(rest)
            try:
                text = self._arrived()
            except EOFError:
                return wanted(rest)
            if text:
                self._ahead += text
                rest = rest[-_MOST_LINE:] + text
                quiet = time.monotonic() + quiet_s

    def tests(
        self,
        form: FormatName,
        timeout_s: float = TESTS_TIMEOUT_S,
        quiet_s: float = TESTS_QUIET_S,
    ) -> Iterator[FirmwareTest]:
        """Yield each result of the tests that the firmware runs: ``unity`` or ``ztest`` output.

        The last run is the one after which the program ends, or prints nothing for ``quiet_s``
        seconds; each run before counts too. Text after the last summary stays for later searches.

        Raise :class:`~hil.errors.ConsoleError` for a run without its summary ``timeout_s`` seconds
        after the start, or that does not agree with it, and for a program whose tests passed and
        that ends with an error afterwards. A failed test raises nothing.
        """
        return read_tests(self, form, timeout_s, quiet_s)

    def save_coverage(
        self, folder: str | Path, timeout_s: float = COVERAGE_TIMEOUT_S
    ) -> list[Path]:
        """Write the counters of gcov that the firmware prints (``hil_gcov.h``) below ``folder``,
        for gcov and gcovr; return their files.

        Raise :class:`~hil.errors.ConsoleError` if they are damaged, or not complete ``timeout_s``
        seconds after the start.
        """
        return read_coverage(self, folder, timeout_s, self._elf)

    def send(self, text: str | bytes) -> None:
        """Send ``text``, as UTF-8.

        Raise :class:`~hil.errors.LinkError` if the line does not take it.
        """
        if not isinstance(text, str | bytes):
            raise InputError(
                f"{text!r:.60} of type {type(text).__name__} is sent to a console",
                "give text or bytes",
            )
        data = text.encode() if isinstance(text, str) else text
        try:
            self._line.write(data)
        except (serial.SerialException, OSError, ValueError) as error:
            raise self._lost(error) from None
        if self._log is not None:
            self._log.add("sent", data)

    def reopened(self, line: Line) -> None:
        """Continue on another line of the same firmware, after a reset; what was received before
        matches no more.
        """
        self._line = line
        self._is_over = False
        self._plain = _Plain()
        self._stream = None
        self._ahead = ""

    def drain(self) -> None:
        """Read what the firmware has printed and nobody awaited, for the log."""
        deadline = time.monotonic() + _DRAIN_S
        while self._log is not None and not self._is_over and time.monotonic() < deadline:
            try:
                if not self._received_now():
                    return
            except (EOFError, OSError, ValueError, serial.SerialException):
                return

    def _read(self) -> str:
        """Return the next text to search; EOFError at the end of a program's output."""
        text, self._ahead = self._ahead[:_MOST_READ], self._ahead[_MOST_READ:]
        return text or self._arrived()

    def _arrived(self) -> str:
        """Return the text that has arrived; EOFError at the end of a program's output."""
        if self._is_over:
            raise EOFError
        try:
            text = self._received_now()
        except EOFError:
            self._is_over = True
            raise
        except (serial.SerialException, OSError, ValueError) as error:
            raise self._lost(error) from None
        if not text:
            self._alive()
        return text

    def _received_now(self) -> str:
        data = self._line.read()
        if data and self._log is not None:
            self._log.add("received", data)
        text = self._plain.feed(data)
        self._received = (self._received + text)[-_MOST_TEXT:]
        return text

    def _lost(self, error: Exception) -> LinkError:
        """Return the error of a failed line; raise that of the firmware's process if it ended."""
        raise_if_ending(self._alive)
        return LinkError(
            f"the link to {self._name} failed: {error}",
            "check the cable, and close other programs that use the port",
        )

    def _error(self, why: str, before: str) -> ConsoleError:
        lines = escaped(before.lstrip("\n"), colours=False).splitlines()
        shown = lines[-_MOST_LINES:]
        if not lines:
            since = "it printed nothing since"
        elif len(shown) < len(lines):
            since = f"since the last match it printed {len(lines)} lines, of which the last are"
        else:
            since = "since the last match it printed"
        body = "".join(f"\n    {line}" for line in shown)
        return ConsoleError(
            f"{self._name} {why}; {since}{':' if shown else ''}{body}",
            "compare the expression with the output; a longer wait is a larger timeout_s",
        )


class _Plain:
    """Decodes bytes and removes what a terminal obeys, also where it arrives in parts."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._begun = ""

    def feed(self, data: bytes) -> str:
        text = self._begun + self._decoder.decode(data)
        text = _CONTROLS.sub("", text.replace("\r", ""))
        begun = _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        return text[: len(text) - len(self._begun)]


#: Only its end: an expression for a whole line takes quadratic time where none ends.
_LINE_END: Final = re.compile("\n")


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    if isinstance(pattern, re.Pattern):
        if not isinstance(pattern.pattern, str):
            raise InputError(f"{pattern.pattern!r} is an expression of bytes", "give one of text")
    elif not isinstance(pattern, str):
        raise InputError(
            f"{pattern!r:.60} of type {type(pattern).__name__} is no regular expression",
            "give text, or what re.compile returns",
        )
    try:
        compiled = re.compile(pattern, 0 if isinstance(pattern, re.Pattern) else re.MULTILINE)
    except re.error as error:
        raise InputError(
            f"{pattern!r} is no regular expression: {error}",
            "write it as Python's re has it; re.escape makes one of any text",
        ) from None
    if compiled.search(""):
        raise InputError(
            f"{pattern!r} matches before the firmware has printed anything",
            "give an expression that needs a character at least",
        )
    return compiled


def _deadline(timeout_s: float) -> float:
    if not 0 < timeout_s < float("inf"):
        raise InputError(
            f"timeout_s={timeout_s!r:.60} is not a number of seconds above 0",
            "give a number above 0",
        )
    return time.monotonic() + timeout_s
