"""The host's side of MLPerf Tiny's commands: a device under test behind a serial line."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import serial

from hil.access import Connection, Wired, start
from hil.access.board_lock import board_lock
from hil.access.probes import lock_names
from hil.board.line import DEFAULT_LINE, LineSettings
from hil.errors import DeviceError, LinkError, Remedy
from hil.firmware.build import Firmware
from hil.link.line import Line, open_error, open_line, raise_if_ending
from hil.support.escape import escaped

_READY = "m-ready"
#: Bytes of data in a command: upstream's runner sends as many, by which a command has 65 of the 80
#: characters that a device takes.
_DATA_BYTES = 31
#: Time for the start of the firmware, for an answer without an inference, and until a device that
#: was started before is asked whether it is ready.
_START_S, _ANSWER_S, _QUIET_S = 10.0, 10.0, 1.0
#: More text, or more lines, are no answer of these commands.
_MOST_BYTES, _MOST_LINES = 1 << 20, 10_000
#: A time of the device's clock, which has 64 bits.
_LAP = r"m-lap-us-([0-9]{1,20})"
#: Attempts to load an input over a line that damages bytes.
_ATTEMPTS = 3


@dataclass(frozen=True)
class Inference:
    """Answer to ``infer``."""

    #: The device's clock before the first and after the last of the inferences, in microseconds.
    start_us: int
    end_us: int
    results: tuple[float, ...]
    iterations: int
    warmups: int

    @property
    def seconds(self) -> float:
        """Duration of the inference in seconds, by the board's clock."""
        return (self.end_us - self.start_us) / 1e6

    @property
    def throughput(self) -> float:
        """Inferences a second; infinite where the device's clock did not advance."""
        return self.iterations / self.seconds if self.seconds > 0 else float("inf")


class DutError(DeviceError):
    """The device refused a command (``e-[...]``), or its answer is not one of these commands."""


class Dut:
    """A device under test on an open line.

    ``alive`` raises if the process behind the line has ended. ``has_started`` says that the lines
    of its start were read. Every wait has a deadline: ``run_timeout_s`` is that of all inferences
    of one ``infer``.
    """

    def __init__(
        self,
        line: Line,
        url: str,
        *,
        alive: Callable[[], None] = lambda: None,
        has_started: bool = False,
        run_timeout_s: float = 600.0,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.url = url
        #: Called with every line of an answer.
        self.log = log
        self._line = line
        self._alive = alive
        self._run_timeout_s = run_timeout_s
        self._text = b""
        self._wait_for_start(0.0 if has_started else _QUIET_S)
        self.name = self._field("name", r"m-name-[^\[]*\[([^\]]*)\]")
        self.profile = self._field("profile", r"m-profile-\[([^\]]*)\]")
        #: The name that the device reports, such as ``kws01``.
        self.model = self._field("profile", r"m-model-\[([^\]]*)\]")

    # -- commands --------------------------------------------------------------------------------

    def command(self, command: str, limit_s: float = _ANSWER_S) -> list[str]:
        """Return the lines of the answer, without the last one, ``m-ready``.

        Raise :class:`DutError` for ``e-[...]``.
        """
        self._send(command)
        lines = self._answer(command, limit_s)
        if refused := [line for line in lines if line.startswith("e-[")]:
            raise DutError(
                f"the device at {self.url} refused {_shown(command)!r}: {refused[0]}",
                "is it the firmware for this model? hil build --mlperf builds one",
            )
        return lines

    def timestamp(self) -> int:
        """Return the device's clock in microseconds."""
        return int(self._field("timestamp", _LAP))

    def load(self, data: bytes) -> None:
        """Load an input, as the benchmark sends it; sent again if the line has damaged it."""
        for attempt in range(_ATTEMPTS):
            try:
                self._load(data)
                return
            except DutError:
                if attempt == _ATTEMPTS - 1:
                    raise

    def _load(self, data: bytes) -> None:
        self.command(f"db load {len(data)}")
        lines: list[str] = []
        for at in range(0, len(data), _DATA_BYTES):
            lines = self.command(f"db {data[at : at + _DATA_BYTES].hex()}")
        if "m-load-done" not in lines:
            raise DutError(
                f"the device at {self.url} did not take {len(data)} bytes: {lines}",
                "check the cable",
            )

    def infer(self, iterations: int, warmups: int) -> Inference:
        """Run inferences on the loaded input.

        Raise :class:`DutError` if the device does not answer.
        """
        lines = self.command(f"infer {iterations} {warmups}", self._run_timeout_s)
        laps = [int(m[1]) for line in lines if (m := re.fullmatch(_LAP, line))]
        results = [m[1] for line in lines if (m := re.fullmatch(r"m-results-\[([^\]]*)\]", line))]
        try:
            (values,) = results
            start_us, end_us = laps
            floats = tuple(float(value) for value in values.split(",") if value.strip())
        except ValueError:
            raise DutError(
                f"the device at {self.url} did not answer an inference with two times and one "
                f"result: {lines}",
                "is it in energy mode? that of performance prints times",
            ) from None
        return Inference(start_us, end_us, floats, iterations, warmups)

    def _field(self, command: str, pattern: str) -> str:
        lines = self.command(command)
        found = [match for line in lines if (match := re.fullmatch(pattern, line))]
        if not found:
            raise DutError(
                f"the device at {self.url} answered {command!r} with {lines}",
                "is it a device under test of MLPerf Tiny? hil build --mlperf builds one",
            )
        return found[0][1]

    # -- the line --------------------------------------------------------------------------------

    def _wait_for_start(self, quiet_s: float) -> None:
        """Wait for the two lines of a start; ask a device that does not send them in time."""
        deadline = time.monotonic() + _START_S
        ask_at = time.monotonic() + quiet_s
        while _READY.encode() not in self._text:
            if time.monotonic() >= ask_at:
                # Ends what is left of a command of somebody else.
                self._send("")
                ask_at = deadline
            self._read(deadline, "its start")
        # More than one answer may be on its way: that of an unfinished command, and of the start.
        quiet = time.monotonic() + 0.1
        while time.monotonic() < quiet:
            self._text += self._bytes()
        self._text = b""

    def _answer(self, command: str, limit_s: float) -> list[str]:
        deadline = time.monotonic() + limit_s
        lines: list[str] = []
        while True:
            while b"\n" not in self._text:
                self._read(deadline, _shown(command))
            data, self._text = self._text.split(b"\n", 1)
            # A damaged byte must not end the session.
            # Nor may what it says be obeyed by a terminal, or in a file of the submission.
            line = escaped(data.decode("ascii", "replace").strip("\r\0 "), colours=False)
            if line == _READY:
                return lines
            if line:
                self.log(line)
                lines.append(line)
            if len(lines) > _MOST_LINES:
                raise DutError(
                    f"the device at {self.url} answers {_shown(command)!r} with more than "
                    f"{_MOST_LINES} lines",
                    "is it a device under test of MLPerf Tiny?",
                )

    def _read(self, deadline: float, what: str) -> None:
        self._text += self._bytes()
        self._alive()
        if time.monotonic() >= deadline:
            raise LinkError(
                f"the device at {self.url} did not answer {what!r} in time; it said "
                f"{self._text[-80:].decode('ascii', 'replace')!r}",
                "check the port and its baud rate; is it a device under test of MLPerf Tiny?",
                remedy=Remedy.RESET,
            )
        if len(self._text) > _MOST_BYTES:
            raise DutError(
                f"the device at {self.url} says more than {_MOST_BYTES} bytes without an end",
                "is it a device under test of MLPerf Tiny?",
            )

    def _bytes(self) -> bytes:
        try:
            return self._line.read()
        except (serial.SerialException, OSError) as error:
            raise self._lost(error) from None

    def _send(self, command: str) -> None:
        try:
            self._line.write(f"{command}%".encode("ascii"))
        except (serial.SerialException, OSError) as error:
            raise self._lost(error) from None

    def _lost(self, error: Exception) -> LinkError:
        raise_if_ending(self._alive)
        return LinkError(
            f"the link to {self.url} failed: {error}",
            "check the cable, and close other programs that use the port",
            remedy=Remedy.RESET,
        )


def _shown(command: str) -> str:
    return command if len(command) <= 24 else f"{command[:20]}..."


@contextlib.contextmanager
def open_dut(
    firmware: Firmware | None = None,
    *,
    runner: str | None = None,
    connection: Connection | None = None,
    port: str | None = None,
    settings: LineSettings = DEFAULT_LINE,
    run_timeout_s: float = 600.0,
    log: Callable[[str], None] = lambda text: None,
) -> Iterator[Dut]:
    """Start a firmware and open its line; or open the device that runs already at ``port``.

    Leaving the context ends everything that was started.

    Raise :class:`InputError` for a port that is not valid, :class:`LinkError` if opening fails.
    """
    with contextlib.ExitStack() as stack:
        alive: Callable[[], None] = lambda: None  # noqa: E731
        line: Line | None = None
        has_started = False
        if firmware is not None:
            running = stack.enter_context(start(firmware.board, firmware, runner, connection))
            port, line, alive = running.url, running.line, running.alive
            settings = firmware.board.line
            # The proof that the line is the board's reads what it says.
            has_started = isinstance(running, Wired)
        assert port is not None, "there is a firmware or a port"
        if firmware is None:
            names = lock_names(None, port)
            wait_s = connection.appear_s if connection is not None else 0.0
            stack.enter_context(board_lock(f"the board at {port}", *names, wait_s=wait_s))
        if line is None:
            try:
                line = open_line(port, settings)
            except (serial.SerialException, OSError, ValueError) as error:
                raise open_error(port, error) from None
        stack.callback(line.close)
        yield Dut(
            line,
            port,
            alive=alive,
            has_started=has_started,
            run_timeout_s=run_timeout_s,
            log=log,
        )
