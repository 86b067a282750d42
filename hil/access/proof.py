"""Proof that a serial line belongs to the board behind a probe.

Two boards of one type that run one firmware give the same answers, so an answer does not say which
of them it is from. The probe does: it sets a breakpoint at the function of the firmware that
handles a request, and the host sends that request on the line. If the core stops there, and has the
request's numbers in its memory, the request arrived at the board behind the probe. If no answer
comes while it is stopped, and one comes when it runs on, that board answers on this line. Another
board on the line does not, whatever its firmware and its build id. (A data cache hides the core's
memory from a probe: on cores that have one, the core itself loads the numbers, by an instruction of
the image.)

Every port that may be the line gets that request (a ``HELLO``, or ``name%`` for a firmware of
MLPerf Tiny) until one has been proven to be the line.
"""

from __future__ import annotations

import contextlib
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import serial

from hil.errors import HilError, InputError, LinkError, ProbeError, Remedy
from hil.firmware.image import Segment, function_address, object_address, read_image
from hil.link import messages, protocol
from hil.link.codec import HEADER_BYTES, Decoder, Frame, encode
from hil.link.line import Line, check_port, open_error, open_line
from hil.link.ports import USB, listed, resolve, serial_ports
from hil.link.protocol import Command, Kind

if TYPE_CHECKING:
    from hil.access.protocols import Core
    from hil.board import Board

#: Time for a board to start its firmware, and for its ports to appear: USB enumerates them anew
#: where they are the board's own.
_START_S, _APPEAR_S = 5.0, 10.0
#: Time on one port before the next is tried, and until a request is repeated on it: the first ones
#: may be lost, because the board is still starting.
_TRY_S = 0.6
_REPEAT_S, _REPEAT_FACTOR = 0.05, 1.5
#: Time for the answer when the core runs on.
_ANSWER_S = 1.0
#: How long a stopped board has to be silent: another one on the line would have answered. That is
#: the delay of a USB bridge, and the time of an answer on the line.
_QUIET_S, _ANSWER_BITS = 0.05, 2 * 80 * 10
#: Requests that are answered without a stop of the core, until the port is refused. The first one
#: may be: the boot code of a chip may clear breakpoints that were set before it ran.
_REFUSED = 2
_LOOK_S = 0.05
#: Session and sequence number, with which a header begins.
_NUMBERS = struct.Struct("<HH")
#: Most spaces before MLPerf Tiny's ``name``, of whose commands the buffer holds 80 characters.
_NAME_SPACES_MAX = 76
_STEPS_MAX = 8
#: ``ldr rT, [rN]`` of Thumb, without the registers' bits.
_LOAD, _LOAD_REGISTERS = 0x6800, 0x003F
#: Longest time to read away what a line said before.
_DRAIN_S = 0.2


#: Returns the word at an address, as the stopped core sees it.
Read = Callable[[int], int]


class Question(Protocol):
    """A request, and the recognition of its answer."""

    @property
    def request(self) -> bytes:
        """The bytes that are sent to the firmware."""

    def has_arrived(self, argument: int, read: Read) -> bool:
        """Return whether it is this request for which the core has stopped, not somebody else's.

        ``argument`` is the function's first argument, and ``read`` returns a word of memory.
        """

    def is_answered(self, data: bytes) -> bool:
        """Return whether the answer is complete with these bytes, the next of the line."""


class _Hello:
    """A HELLO with a session number of its own, which the answer repeats."""

    def __init__(self) -> None:
        # The oldest version: a firmware refuses newer ones before it handles them.
        fields = {"version": protocol.OLDEST, "frame_max": protocol.FRAME_LIMIT}
        payload = messages.build(protocol.REQUESTS[Command.HELLO], fields)
        self._session, self._seq = 1 + secrets.randbelow(0xFFFF), secrets.randbelow(1 << 16)
        frame = Frame(self._session, self._seq, Kind.REQUEST, Command.HELLO, payload)
        self.request = encode(frame)
        self._decoder = Decoder()

    def has_arrived(self, argument: int, read: Read) -> bool:
        # The argument is the payload, which follows the header.
        numbers = read(argument - HEADER_BYTES).to_bytes(4, "little")
        return numbers == _NUMBERS.pack(self._session, self._seq)

    def is_answered(self, data: bytes) -> bool:
        wanted = (self._session, self._seq, Kind.REPLY)
        return any(
            isinstance(frame, Frame) and (frame.session, frame.seq, frame.kind) == wanted
            for frame in self._decoder.feed(data)
        )


class _Name:
    """MLPerf Tiny's ``name``; the first % ends what somebody else began.

    It has no number. Spaces before it take its place: they move the word in the buffer.
    """

    def __init__(self, buffer: int) -> None:
        """Create it for a firmware with its ``buffer`` for a command at that address."""
        self._spaces = 1 + secrets.randbelow(_NAME_SPACES_MAX)
        self.request = b"%" + b" " * self._spaces + b"name%"
        self._buffer = buffer
        self._heard = b""

    def has_arrived(self, argument: int, read: Read) -> bool:
        # The argument points to the words, and they begin with the pointer to the first one.
        return read(argument) == self._buffer + self._spaces

    def is_answered(self, data: bytes) -> bool:
        self._heard = (self._heard + data)[-4096:]
        return b"m-name-" in self._heard


def _asks_name(elf: Path) -> Callable[[], Question]:
    buffer = object_address(elf, "command")
    if buffer is None:
        raise InputError(
            f"{elf} has no variable 'command', or several: the probe cannot see whose request "
            "arrives, so no serial port can be proven to be the line of this firmware",
            "give an image of this project with its symbols (not stripped)",
        )
    return partial(_Name, buffer)


#: The functions that handle the requests, and what makes them; an image has one of them.
_QUESTIONS: dict[str, Callable[[Path], Callable[[], Question]]] = {
    "on_hello": lambda elf: _Hello,
    "on_name": _asks_name,
}


@dataclass(frozen=True)
class _Load:
    """An instruction ``ldr to, [at]`` of an image."""

    address: int
    to: str
    at: str


def _load_of(image: Sequence[Segment]) -> _Load:
    """Return a load of an image: every program has one, and any data that reads as one will do."""
    for segment in image:
        start = segment.address & 1
        for offset in range(start, len(segment.data) - 1, 2):
            word = int.from_bytes(segment.data[offset : offset + 2], "little")
            if word & ~_LOAD_REGISTERS == _LOAD:
                return _Load(segment.address + offset, f"r{word & 7}", f"r{word >> 3 & 7}")
    raise InputError(
        "the image has no instruction that loads a word", "give an image of this project"
    )


@dataclass(frozen=True)
class Handler:
    """The function of an image at which a request stops the core."""

    address: int
    ask: Callable[[], Question]
    #: Returns a load of the image, for a core whose data cache hides its memory.
    load: Callable[[], _Load]


def handler_of(elf: Path) -> Handler:
    """Return the function that handles a request; InputError if the image has none by name."""
    for name, asks in _QUESTIONS.items():
        address = function_address(elf, name)
        if address is not None:
            return Handler(address, asks(elf), partial(_load_of, read_image(elf)))
    raise InputError(
        f"{elf} has no function {' or '.join(_QUESTIONS)}, or several: the probe cannot see that a "
        "request arrives, so no serial port can be proven to be the line of this firmware",
        "give an image of this project with its symbols (not stripped)",
    )


@dataclass(frozen=True)
class Proven:
    """The line of the board behind the probe, open."""

    #: The name under which it was tried, and the port that was opened.
    name: str
    url: str
    line: Line


class _Result(Enum):
    PROVEN = ""
    SILENT = "no answer"
    ELSEWHERE = "the firmware that answers there runs on another board"
    SHARED = "another board answers there as well"
    UNANSWERED = "the board receives what is sent there, but its answer does not arrive"
    OTHERS = "another program sends requests to the board behind the probe"
    STOPPED = "the board stopped before it received anything"


def prove(
    core: Core,
    board: Board,
    uid: str,
    handler: Handler,
    names: Callable[[], Sequence[str]],
    appear_s: float = 0.0,
) -> Proven:
    """Return the line of the board whose ``core`` this is; it has to run, and does afterwards.

    ``names`` returns the ports that may be it, the most likely first. It is called again until the
    time is over, since ports may appear late (at least ``appear_s`` is waited for one) and under
    other names. Raise :class:`~hil.errors.LinkError` with what each port did if none has been
    proven to be the line.
    """
    search = _Search(board, core, handler)
    start, start_s = time.monotonic(), 0.0
    with search:
        while True:
            tried = list(names())
            for name in tried:
                if (proven := search.proven(name)) is not None:
                    return proven
            is_over = tried and all(search.is_refused(name) for name in tried)
            spent_s = time.monotonic() - start
            if not search.has_opened and spent_s < max(appear_s, _APPEAR_S):
                start_s = spent_s  # the time of a start begins when a port is there
            if is_over or spent_s > start_s + _START_S:
                raise search.error(board, uid, tried, spent_s)
            time.sleep(_LOOK_S)


class _Search:
    """The lines that are open, and what each did so far; leaving the context closes them."""

    def __init__(self, board: Board, core: Core, handler: Handler) -> None:
        # A probe would read the memory behind the cache.
        self._has_data_cache = board.cpu.debug.data_cache
        #: The register of a function's first argument.
        self._argument = "a0" if board.cpu.isa == "riscv" else "r0"
        self._core = core
        self._handler = handler
        self._settings = board.line
        self._open: dict[str, tuple[str, Line]] = {}
        self._last: dict[str, _Result | HilError] = {}
        self._elsewhere: dict[str, int] = {}
        #: Ports that are there and cannot be opened: in use, or of another user.
        self._unusable: set[str] = set()

    def __enter__(self) -> _Search:
        return self

    def __exit__(self, *_: object) -> None:
        for _url, line in self._open.values():
            with contextlib.suppress(OSError):
                line.close()

    def proven(self, name: str) -> Proven | None:
        """Return the port's line if it is proven to be the board's."""
        if self.is_refused(name):
            return None
        try:
            check_port(name)
        except HilError as error:  # it may appear
            self._last[name] = error
            return None
        try:
            url, line = self._opened(name)
        except HilError as error:
            self._last[name] = error
            self._unusable.add(name)
            return None
        try:
            result = self._ask(line)
        except (serial.SerialException, OSError) as error:  # it was unplugged
            self._last[name] = open_error(url, error)
            del self._open[name]
            with contextlib.suppress(OSError):
                line.close()
            return None
        self._last[name] = result
        self._elsewhere[name] = self._elsewhere.get(name, 0) + (result is _Result.ELSEWHERE)
        if result is not _Result.PROVEN:
            return None
        del self._open[name]
        return Proven(name, url, line)

    @property
    def has_opened(self) -> bool:
        """Return whether a port is there."""
        return bool(self._open)

    def is_refused(self, name: str) -> bool:
        """Return whether it makes no sense to try the port again."""
        is_other = self._elsewhere.get(name, 0) >= _REFUSED
        return is_other or self._last.get(name) is _Result.SHARED or name in self._unusable

    def error(self, board: Board, uid: str, names: Sequence[str], spent_s: float) -> HilError:
        """Return the error of a search that found no line."""
        last = [self._last[name] for name in names if name in self._last]
        if len(last) == 1 and isinstance(last[0], HilError):
            return last[0]  # it could not be opened
        whose = f"to be the serial line of the {board.name} behind the probe {uid}"
        tried = [f"{self._shown(name)}: {_reason(self._last.get(name))}" for name in names]
        if len(names) == 1:
            shown, _, reason = tried[0].rpartition(": ")
            fact = f"{shown} is not proven {whose}: {reason}"
        else:
            fact = "\n  ".join([f"no port is proven {whose}, within {spent_s:.0f} s:", *tried])
        opened = {url for url, _ in self._open.values()}
        others = [port for port in serial_ports() if port.is_usb and port.device not in opened]
        if others:
            fact += f"\nother serial ports of this machine:\n{listed(others)}"
        # Programming or resetting a board does not move its wires.
        can_help = not names or any(
            result in (_Result.SILENT, _Result.STOPPED, _Result.UNANSWERED) for result in last
        )
        end = "end the other program, " if _Result.OTHERS in last else ""
        return LinkError(
            fact,
            f"{end}check the wires between board and port, or choose with --port {USB}"
            "SERIAL[:INTERFACE] the port that is connected to this board",
            remedy=Remedy.RESET if can_help else None,
        )

    def _shown(self, name: str) -> str:
        url = self._open[name][0] if name in self._open else name
        return name if url == name else f"{name} ({url})"

    def _is_tried(self, device: str) -> bool:
        return any(url == device for url, _ in self._open.values())

    def _opened(self, name: str) -> tuple[str, Line]:
        if name not in self._open:
            url = resolve(name)
            try:
                self._open[name] = url, open_line(url, self._settings)
            except (serial.SerialException, OSError, ValueError) as error:
                raise open_error(url, error) from None
        return self._open[name]

    def _read(self, address: int) -> int:
        """Return a word of the stopped core's memory."""
        if self._has_data_cache:
            return _loaded(self._core, self._handler.load(), address)
        return int.from_bytes(self._core.read_memory(address, 4), "little")

    def _ask(self, line: Line) -> _Result:
        question = self._handler.ask()
        drained_s = time.monotonic() + _DRAIN_S
        while line.read() and time.monotonic() < drained_s:
            pass
        with _stop_at(self._core, self._handler.address):
            is_answered = _is_answered(self._core, line, question)
            if not self._core.is_halted():
                return _Result.ELSEWHERE if is_answered else _Result.SILENT
            if self._core.read_register("pc") & ~1 != self._handler.address:
                return _Result.STOPPED
            argument = self._core.read_register(self._argument)
            if not question.has_arrived(argument, self._read):
                return _Result.OTHERS
            quiet_s = _QUIET_S + _ANSWER_BITS / self._settings.baud
            if is_answered or _hears_answer(line, question, quiet_s):
                return _Result.SHARED
        return _Result.PROVEN if _hears_answer(line, question, _ANSWER_S) else _Result.UNANSWERED


def _reason(result: _Result | HilError | None) -> str:
    if isinstance(result, HilError):
        return result.fact
    return (result or _Result.SILENT).value


@contextlib.contextmanager
def _stop_at(core: Core, address: int) -> Iterator[None]:
    """Let the core run, and stop it at ``address``; afterwards it runs freely."""
    # A breakpoint is active from the next resume on.
    core.halt()
    if not core.set_breakpoint(address):
        raise ProbeError(
            f"the core has no free breakpoint at {address:#010x}, by which the probe could see "
            "that a request arrives",
            "end other debuggers, and try again",
        )
    core.resume()
    try:
        yield
    finally:
        core.halt()
        core.remove_breakpoint(address)
        core.resume()


def _loaded(core: Core, load: _Load, address: int) -> int:
    """Let the stopped core load a word, through its data cache; its registers do not change."""
    names = ("pc", load.to, load.at)
    saved = [core.read_register(name) for name in names]
    core.write_register(load.at, address)
    core.write_register("pc", load.address)
    end, steps = load.address, 0
    # An event of the core may end a step before its instruction.
    while end == load.address and steps < _STEPS_MAX:
        core.step()
        end, steps = core.read_register("pc"), steps + 1
    word = core.read_register(load.to)
    for name, value in zip(names, saved, strict=True):
        core.write_register(name, value)
    if end != load.address + 2:
        raise ProbeError(
            f"the core did not load the word at {address:#010x} in a step, but stopped at "
            f"{end:#010x}, so the probe cannot see whose request arrived",
            "reset the board, and try again",
        )
    return int(word)


def _is_answered(core: Core, line: Line, question: Question) -> bool:
    """Send the request until the core stops, an answer arrives or time is over; return whether
    an answer arrived.
    """
    now = time.monotonic()
    deadline, repeat_at, repeat_s = now + _TRY_S, now, _REPEAT_S
    while (now := time.monotonic()) < deadline and not core.is_halted():
        if now >= repeat_at:
            line.write(question.request)
            repeat_at, repeat_s = now + repeat_s, repeat_s * _REPEAT_FACTOR
        if question.is_answered(line.read()):
            return True
    return False


def _hears_answer(line: Line, question: Question, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if question.is_answered(line.read()):
            return True
    return False
