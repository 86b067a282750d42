"""The host's side of the protocol: sessions, retries, deadlines, transfers in chunks.

A request that may be repeated is sent again under a new number when its answer does not come;
several of them may be under way, as many bytes as the board can buffer. A request that must be
executed exactly once is alone under way and keeps its number, so that the board answers a
repetition from its last answer. Answers come in the order of the requests: an answer tells that
those of earlier requests are lost.

One operation at a time uses the line. What the board says is checked in :mod:`hil.link.replies`,
and every operation ends within a time that the host alone decides.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.errors import DeviceError, HangError, InputError, LinkError, Mend
from hil.link import protocol, replies
from hil.link.bulk import Bulk
from hil.link.codec import Frame
from hil.link.fault import StackReader, fault_error
from hil.link.line import Link
from hil.link.protocol import Command, Event, Kind, Status
from hil.link.replies import Busy, Hello, Memory, ModelInfo, WireTensor
from hil.link.tensors import TensorRef
from hil.link.transfer import Pace, Part, Transfer, line_cost, operation_limit_s, slowest_s

_LOG = logging.getLogger("hil.link")
#: What the host takes in a frame; the board's limit is below it.
_FRAME_MAX = protocol.FRAME_LIMIT
#: A request that opens a session or resets is repeated after this, then after longer and longer.
_INSIST_S, _INSIST_FACTOR, _INSIST_MOST_S = 0.1, 1.5, 1.0
#: Longest silence during a run, unless the user says otherwise.
RUN_TIMEOUT_S = 60.0
#: Waits before a run is repeated: until the board says that it has begun, then until it ends, which
#: is this where no run of the kind was seen yet. Long, because input that arrives during a run
#: costs the board instructions, which would be counted.
_RUN_RETRY_S = 1.0
_BUSY_RETRY_S = 3.0
#: Where it is known how long such a run takes: this many times as long, and at least so long.
_RUN_RETRY_FACTOR, _RUN_RETRY_MIN_S = 2.0, 0.2
#: Of how many kinds of runs that is kept.
_KNOWN_RUNS_MAX = 1024
#: A board that starts again and again does not make the host repeat faster than this.
_BOOT_RETRY_S = 0.02
#: Answers to requests that were given up on are recognised, of so many.
_LATE_MAX = 1024
#: How long an operation may take to notice that another thread closes the line.
_CLOSE_LIMIT_S = 10.0


@dataclass
class _Flight:
    """A part of a transfer that is under way."""

    part: Part
    sent_s: float
    #: Bytes both ways that were under way when it was sent, its own included.
    cost: int


@dataclass
class _Operation:
    """Operation of the caller: one request, or several that belong together."""

    name: str
    start_s: float
    #: Bytes on the line that it needs, as far as it came.
    cost: int = 0

    def check(self, url: str) -> None:
        """Raise when it takes longer than any board and line need for so many bytes."""
        limit_s = operation_limit_s(self.cost)
        if time.monotonic() > self.start_s + limit_s:
            raise LinkError(
                f"{self.name} of the board at {url} did not end within {limit_s:.0f} s",
                "check the cable; a line that loses most frames needs a lower baud rate",
                mend=Mend.RESET,
            )


class Client:
    """A session with the firmware behind ``link``; constructing it shakes hands.

    Raises :class:`~hil.errors.LinkError` when no firmware of this protocol answers in time, or one
    with another ``build_id`` does. Faults are explained with the help of the firmware's ``elf``.
    """

    def __init__(
        self,
        link: Link,
        *,
        build_id: str | None = None,
        elf: Path | None = None,
        timeout_s: float = 5.0,
        run_timeout_s: float = RUN_TIMEOUT_S,
        run_retry_s: float = _RUN_RETRY_S,
        busy_retry_s: float = _BUSY_RETRY_S,
        on_log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.link = link
        self.timeout_s = timeout_s
        #: Longest silence during a run: one inference has to fit, repetitions report progress.
        self.run_timeout_s = run_timeout_s
        self.run_retry_s = run_retry_s
        self.busy_retry_s = busy_retry_s
        self.on_log = on_log
        #: Another way for tensors than the line, asked first.
        self.bulk: Bulk | None = None
        #: Requests sent, and how many of them were repetitions.
        self.requests = 0
        self.repeated = 0
        #: Sessions opened. A board may have restarted between two: what it held may be lost.
        self.sessions = 0
        self._build_id = build_id
        self._elf = elf
        self._stack = StackReader()
        self._log = replies.LogReader()
        self._seq = secrets.randbelow(1 << 16)
        self._session = 0
        #: What the firmware of this session answers; None where it did not say.
        self._commands: frozenset[Command] | None = None
        self._pace = Pace()
        #: Seconds that a repetition or layer of each kind of run took last.
        self._run_s: dict[tuple[Any, ...], float] = {}
        self._turn = threading.Lock()
        #: What has the turn, and in which thread.
        self._operation: _Operation | None = None
        self._owner = 0
        #: Frames are awaited: what is called back meanwhile must not ask for others.
        self._is_exchanging = False
        #: A run was left before its answer came: the board may still be busy with it.
        self._left_run = False
        with self._alone("the handshake", is_fresh=True):
            self.hello = self._shake_hands()

    # -- one operation at a time -------------------------------------------------------------

    @contextlib.contextmanager
    def as_one(self, name: str) -> Iterator[None]:
        """Make what is asked in this context one operation, called ``name``.

        Nothing comes in between, and all of it shares one limit of time.
        """
        with self._alone(name):
            yield

    @contextlib.contextmanager
    def _alone(self, name: str, *, is_fresh: bool = False) -> Iterator[_Operation]:
        """Open an operation, which holds the line: a new one called ``name``, or the one around it.

        ``is_fresh``: it does not need the session that is open.
        """
        if self._operation is not None and self._owner == threading.get_ident():
            if self._is_exchanging:
                raise self._in_use()
            yield self._operation
            return
        if not self._turn.acquire(blocking=False):
            raise self._in_use()
        try:
            self.link.require_open()
            self._owner = threading.get_ident()
            operation = self._operation = _Operation(name, time.monotonic())
            if self._left_run and not is_fresh:
                # A new session tells whether the board still runs, and waits for its end.
                self.hello = self._shake_hands()
            yield operation
        finally:
            self._operation = None
            self._owner = 0
            self._turn.release()

    def _in_use(self) -> InputError:
        operation = self._operation
        doing = f": {operation.name} has not ended" if operation else ""
        return InputError(
            f"the device at {self.link.url} is in use{doing}",
            "use a device from one thread at a time, and not in the callback of its log",
        )

    @contextlib.contextmanager
    def _exchanging(self) -> Iterator[None]:
        self._is_exchanging = True
        try:
            yield
        finally:
            self._is_exchanging = False

    def close(self) -> None:
        """Close the line; an operation of another thread ends with an error first."""
        self.link.stop()
        is_ours = self._owner == threading.get_ident()
        has_turn = not is_ours and self._turn.acquire(timeout=_CLOSE_LIMIT_S)
        try:
            self.link.close()
        finally:
            if has_turn:
                self._turn.release()

    # -- handshake ---------------------------------------------------------------------------

    def _shake_hands(self) -> Hello:
        hello, faulted = self._say_hello()
        if faulted:
            # A firmware that stopped at a fault for an earlier host: start it afresh.
            self._reset_board()
            hello, _ = self._say_hello()
        if self._build_id is not None and hello.build_id != self._build_id:
            raise LinkError(
                f"the board at {self.link.url} runs firmware {hello.build_id} "
                f"(board {hello.board!r}), expected is {self._build_id}",
                "flash the firmware that was built from these models",
                mend=Mend.FLASH,
            )
        self.sessions += 1
        self._left_run = False
        return hello

    def _say_hello(self) -> tuple[Hello, bool]:
        """Open a new session; also says whether the firmware reported a fault."""
        self._session = 1 + secrets.randbelow(0xFFFF)
        self._commands = None
        fields = {"version": protocol.VERSION, "frame_max": _FRAME_MAX}
        heard = _Heard(self.link.received_bytes)
        answer = self._insist(Command.HELLO, fields, heard)
        if answer is not None and (older := replies.older_version(answer.payload)) is not None:
            fields["version"] = older
            answer = self._insist(Command.HELLO, fields, heard)
        if answer is None:
            raise self._no_hello(heard)
        hello = replies.hello_of(fields, answer.payload, self.link.url)
        self._commands = hello.commands
        return hello, heard.faulted

    def _insist(self, command: Command, fields: dict[str, Any], heard: _Heard) -> Frame | None:
        """Return the answer to what a board executes at any time; None where none came.

        A board that is busy with a run answers between two repetitions, or at the end of a single
        one: for that the host waits as long as for a run.
        """
        frame = self._frame(command, protocol.REQUESTS[command].build(fields))
        start = time.monotonic()
        deadline = start + self.timeout_s
        retry_s = _INSIST_S
        with self._exchanging():
            while (now := time.monotonic()) < deadline:
                self._send(frame)
                retry_at = now + retry_s
                retry_s = min(_INSIST_FACTOR * retry_s, _INSIST_MOST_S)
                while (left := min(retry_at, deadline) - time.monotonic()) > 0:
                    for answer in self.link.receive(left):
                        heard.frames += 1
                        if self._answers(answer, frame):
                            return answer
                        if answer.kind != Kind.EVENT:
                            continue
                        self._on_harmless_event(answer)
                        heard.faulted |= answer.code == Event.FAULT
                        if answer.code == Event.BUSY:
                            if heard.busy is None:
                                deadline = start + max(self.timeout_s, self.run_timeout_s)
                                self._tell_busy(deadline - start)
                            heard.busy = replies.busy_of(answer.payload)
                        elif answer.code == Event.BOOT:
                            heard.booted = True
                            if command == Command.RESET:
                                return answer
                            # What was sent before it started is lost.
                            retry_at = min(retry_at, time.monotonic() + _BOOT_RETRY_S)
        return None

    def _tell_busy(self, limit_s: float) -> None:
        _LOG.warning(
            "%s: the board is busy with a run; waiting for it for up to %g s",
            self.link.url,
            limit_s,
        )

    def _no_hello(self, heard: _Heard) -> LinkError:
        if heard.busy is not None:
            waited_s = max(self.timeout_s, self.run_timeout_s)
            return LinkError(
                f"the board at {self.link.url} is busy with a run, {heard.busy.done} of "
                f"{heard.busy.total} repetitions or layers are done, and did not answer within "
                f"{waited_s:g} s",
                "wait until the run has ended, or reset the board: by its button, its power "
                "switch, or a probe (--probe)",
                mend=Mend.RESET,
            )
        fact = f"no answer from {self.link.url} within {self.timeout_s:g} s"
        received = self.link.received_bytes - heard.received_before
        if heard.frames:
            return LinkError(
                f"{fact}: {heard.frames} frames of this protocol came, none of them the answer",
                "the line damages what is sent to the board, or another program uses the board: "
                "check the cable and the baud rate, close the other program, reset the board",
                mend=Mend.RESET,
            )
        if received:
            return LinkError(
                f"{fact}: {received} bytes came, none of them a frame of this protocol",
                "the board runs another program or another baud rate: flash the firmware",
                mend=Mend.RESET,
            )
        return LinkError(
            fact,
            "check the port's name, the board's power, and that the firmware is flashed",
            mend=Mend.RESET,
        )

    def renew(self, link: Link) -> None:
        """Open a new session over ``link``, which takes the place of the old one."""
        self.close()
        self.link = link
        self._log = replies.LogReader()
        self._pace = Pace()
        self._run_s.clear()
        with self._alone("the handshake", is_fresh=True):
            self.hello = self._shake_hands()

    def reset(self) -> None:
        """Restart the firmware and open a new session."""
        with self._alone("the reset", is_fresh=True):
            self._reset_board()
            self.hello = self._shake_hands()

    def _reset_board(self) -> None:
        """Return when the firmware has taken the order or has restarted."""
        heard = _Heard(self.link.received_bytes)
        # Done, or STALE: it restarted and forgot the session.
        if self._insist(Command.RESET, {}, heard) is None:
            busy = " and is busy with a run" if heard.busy is not None else ""
            raise LinkError(
                f"the board at {self.link.url} did not restart within {self.timeout_s:g} s{busy}",
                "press its reset button",
                mend=Mend.FLASH,
            )

    # -- requests ----------------------------------------------------------------------------

    def request(self, command: Command, reply_bytes: int = 32, **fields: Any) -> Any:
        """Return the answer to one request that may be repeated."""
        size = len(protocol.REQUESTS[command].build(fields))
        got: list[Any] = []
        whole = Part(0, 1, fields, size, reply_bytes)
        self._ask(Transfer(command, 1, 1, lambda start, end: whole), lambda _, r: got.append(r))
        return got[-1]

    def echo(self, data: bytes) -> bytes:
        """Return ``data``, which was sent to the board before, as read from the board."""
        back = bytearray()

        def part(start: int, end: int) -> Part:
            size = end - start
            return Part(start, end, {"data": data[start:end]}, size, 1 + size)

        def take(part: Part, reply: Any) -> None:
            _put(back, part.start, reply.data)

        self._ask(Transfer(Command.ECHO, len(data), self.payload_max - 1, part), take)
        return bytes(back)

    def memory(self) -> Memory:
        reply = self.request(Command.MEMORY)
        return Memory(
            stack_bytes=reply.stack_bytes,
            stack_peak_bytes=reply.stack_peak_bytes,
            rx_bytes=reply.rx_bytes,
            bad_frames=reply.bad_frames,
        )

    def model_info(self, model: int) -> ModelInfo:
        return replies.model_info_of(*self.named(Command.MODEL_INFO, {"model": model}))

    def layer_info(self, model: int, layer: int) -> tuple[str, int]:
        """Name and number of outputs."""
        reply, name = self.named(Command.LAYER_INFO, {"model": model, "layer": layer})
        return name, reply.outputs

    def tensor_info(self, tensor: TensorRef) -> WireTensor:
        return replies.wire_tensor_of(*self.named(Command.TENSOR_INFO, tensor.fields))

    def write(self, tensor: TensorRef, data: bytes) -> None:
        """Write the tensor's first bytes, by the fastest way there is."""
        with self._alone("WRITE"):
            if self.bulk is None or not self.bulk.write(self, tensor, data):
                self.write_by_line(tensor, data)

    def read(self, tensor: TensorRef, nbytes: int) -> bytes:
        """Return the tensor's first bytes, by the fastest way there is."""
        with self._alone("READ"):
            data = None if self.bulk is None else self.bulk.read(self, tensor, nbytes)
            return self.read_by_line(tensor, nbytes) if data is None else data

    def write_by_line(self, tensor: TensorRef, data: bytes) -> None:
        """Write the tensor's first bytes by requests."""
        fixed = protocol.fixed_bytes(protocol.REQUESTS[Command.WRITE])

        def part(start: int, end: int) -> Part:
            fields = {**tensor.fields, "offset": start, "data": data[start:end]}
            return Part(start, end, fields, fixed + end - start, 1)

        most = self.payload_max - fixed
        self._ask(Transfer(Command.WRITE, len(data), most, part), lambda part, reply: None)

    def read_by_line(self, tensor: TensorRef, nbytes: int) -> bytes:
        """Return the tensor's first bytes by requests."""
        fixed = protocol.REQUESTS[Command.READ].sizeof()
        # As large as what came: the number of bytes may be what a board says.
        data = bytearray()

        def part(start: int, end: int) -> Part:
            fields = {**tensor.fields, "offset": start, "length": end - start}
            return Part(start, end, fields, fixed, 1 + end - start)

        def take(part: Part, reply: Any) -> None:
            _put(data, part.start, reply.data)

        self._ask(Transfer(Command.READ, nbytes, self.payload_max - 1, part), take)
        return bytes(data)

    def check(self) -> None:
        """Raise unless the board goes on in this session: an empty ECHO, the shortest request."""
        self.request(Command.ECHO, 0, data=b"")

    def run(self, model: int, repeat: int = 1) -> int:
        """Run the whole model ``repeat`` times; return the ticks of all runs together."""
        fields = {"model": model, "repeat": repeat}
        return int(self.ask_once(Command.RUN, fields, (model,), repeat).ticks)

    def run_layers(self, model: int, first: int, count: int) -> list[int]:
        """Run layers in their order; return the ticks of each."""
        ticks: list[int] = []
        most = (self.payload_max - 1) // 8
        with self.as_one("RUN_LAYERS"):
            while len(ticks) < count:
                fields = {
                    "model": model,
                    "first": first + len(ticks),
                    "count": min(most, count - len(ticks)),
                }
                kind = tuple(fields.values())
                ticks += self.ask_once(Command.RUN_LAYERS, fields, kind, fields["count"]).ticks
        return ticks

    def state_count(self, model: int) -> int:
        """Return how many states a model has."""
        commands = self.hello.commands
        if commands is None or Command.STATE_INFO not in commands:
            return 0
        return int(self.request(Command.STATE_INFO, model=model).states)

    def reset_state(self, model: int) -> None:
        """Give each state of a model its first value."""
        self.request(Command.RESET_STATE, model=model)

    def named(self, command: Command, fields: dict[str, int]) -> tuple[Any, str]:
        """Return the reply, and the name at its end, which may need several requests."""
        reader = replies.NameReader(command, self.payload_max)
        with self.as_one(command.name):
            while not reader.add(self.request(command, 64, **fields, name_offset=reader.offset)):
                pass
        return reader.result()

    # -- the exchange ------------------------------------------------------------------------

    @property
    def payload_max(self) -> int:
        """Bytes of a message that a frame of this board holds."""
        return protocol.payload_max(self.hello.frame_max)

    def _ask(self, transfer: Transfer, take: Callable[[Part, Any], None]) -> None:
        """Move ``transfer``; ``take`` is given each part's reply, a part twice at times."""
        with self._alone(transfer.command.name) as operation, self._exchanging():
            flights: dict[int, _Flight] = {}  # by number, in the order sent
            late: dict[int, _Flight] = {}  # given up on, but an answer still counts
            progress_s = time.monotonic()
            has_booted = False
            while True:
                self._fill_window(transfer, flights)
                oldest = next(iter(flights.values()), None)
                if oldest is None:
                    return
                retry_s = self._pace.retry_s(oldest.cost)
                if has_booted:  # what was sent before it started is lost
                    retry_s = min(retry_s, _BOOT_RETRY_S)
                retry_at = oldest.sent_s + retry_s
                for frame in self.link.receive(max(0.0, retry_at - time.monotonic())):
                    if frame.kind == Kind.EVENT:
                        self._on_event(frame)
                        has_booted |= frame.code == Event.BOOT
                    elif flight := self._land(frame, transfer, flights, late):
                        part = flight.part
                        take(part, self._reply(transfer.command, part.fields, frame))
                        transfer.arrived(part)
                        operation.cost += part.cost
                        progress_s = time.monotonic()
                now = time.monotonic()
                if now >= retry_at and next(iter(flights.values()), None) is oldest:
                    self._pace.silent()
                    self._give_up(list(flights), transfer, flights, late)
                    has_booted = False
                if now > progress_s + self.timeout_s + slowest_s(oldest.cost):
                    raise self._no_answer(transfer.command, now - progress_s)
                operation.check(self.link.url)

    def _fill_window(self, transfer: Transfer, flights: dict[int, _Flight]) -> None:
        under_way = sum(flight.part.cost for flight in flights.values())
        while (part := transfer.next_part(self._pace.chunk)) is not None:
            # The answers count as well: on a slow line they only wait for each other.
            if flights and under_way + part.cost > self.hello.window:
                return
            transfer.sent(part)
            under_way += part.cost
            payload = protocol.REQUESTS[transfer.command].build(part.fields)
            frame = self._frame(transfer.command, payload)
            flights[frame.seq] = _Flight(part, time.monotonic(), under_way)
            self._send(frame)

    def _land(
        self,
        frame: Frame,
        transfer: Transfer,
        flights: dict[int, _Flight],
        late: dict[int, _Flight],
    ) -> _Flight | None:
        """Return what ``frame`` answers, if that has no answer yet."""
        if (frame.kind, frame.session, frame.code) != (
            Kind.REPLY,
            self._session,
            transfer.command,
        ):
            return None
        is_under_way = frame.seq in flights
        if frame.payload[:1] == bytes((Status.REPEATED,)):
            if is_under_way:
                self._give_up([frame.seq], transfer, flights, late)
            return None
        if is_under_way:
            earlier = list(flights)[: list(flights).index(frame.seq)]
            self._give_up(earlier, transfer, flights, late)
        flight = flights.pop(frame.seq) if is_under_way else late.pop(frame.seq, None)
        if flight is not None:
            self._pace.answered(flight.part, time.monotonic() - flight.sent_s, flight.cost)
        return flight

    def _give_up(
        self,
        seqs: Sequence[int],
        transfer: Transfer,
        flights: dict[int, _Flight],
        late: dict[int, _Flight],
    ) -> None:
        """Send what is under way as ``seqs`` again, under new numbers."""
        self.repeated += len(seqs)
        for seq in reversed(seqs):
            late[seq] = flights.pop(seq)
            transfer.lost(late[seq].part)
            self._pace.lost(late[seq].part)
        while len(late) > _LATE_MAX:
            del late[next(iter(late))]

    def ask_once(
        self, command: Command, fields: dict[str, Any], kind: tuple[Any, ...], steps: int
    ) -> Any:
        """Return the reply to a request that the board must execute exactly once.

        It runs ``steps`` repetitions or layers. How long one takes is known from the last request
        of the same ``kind``.
        """
        payload = protocol.REQUESTS[command].build(fields)
        with self._alone(command.name) as operation, self._exchanging():
            frame = self._frame(command, payload)
            waits = _Waits(self, self._run_s.get((command, *kind)), steps)
            self._left_run = True
            self._send(frame)
            while True:
                for answer in self.link.receive(waits.left_s()):
                    if self._answers(answer, frame):
                        self._left_run = False
                        operation.cost += line_cost(len(payload), len(answer.payload))
                        reply = self._reply(command, fields, answer)
                        self._learn((command, *kind), waits, reply)
                        return reply
                    if answer.kind != Kind.EVENT:
                        continue
                    # The run has ended at its fault.
                    self._left_run &= answer.code != Event.FAULT
                    self._on_event(answer)
                    if answer.code == Event.BOOT:
                        waits.hurry()
                    elif answer.code == Event.BUSY and self._is_of(answer, frame):
                        waits.progress(replies.busy_of(answer.payload, steps))
                if waits.is_over:
                    raise self._silent(command, waits)
                if waits.must_repeat():
                    self.repeated += 1
                    self._send(frame)

    def _learn(self, kind: tuple[Any, ...], waits: _Waits, reply: Any) -> None:
        """Keep how long a run of this kind takes."""
        if len(self._run_s) >= _KNOWN_RUNS_MAX:
            self._run_s.clear()
        if waits.repeated == 0:
            self._run_s[kind] = waits.step_s
        elif kind not in self._run_s:
            # The answer was lost, and asked for some time later: the board's clock knows better.
            ticks = reply.ticks if "ticks" in reply else 0
            total = sum(ticks) if isinstance(ticks, list) else ticks
            board_s = total / self.hello.ticks_hz / waits.steps
            self._run_s[kind] = min(waits.step_s, board_s or waits.step_s)

    # -- frames ------------------------------------------------------------------------------

    def _frame(self, command: Command, payload: bytes) -> Frame:
        """Return a request; an error where the firmware has said that it does not answer it."""
        if self._commands is not None and command not in self._commands:
            raise replies.not_answered(command, self.link.url)
        self._seq = (self._seq + 1) & 0xFFFF
        return Frame(self._session, self._seq, Kind.REQUEST, command, payload)

    def _send(self, frame: Frame) -> None:
        self.requests += 1
        self.link.send(frame)

    def _is_of(self, frame: Frame, request: Frame) -> bool:
        return (frame.session, frame.seq) == (request.session, request.seq)

    def _answers(self, answer: Frame, request: Frame) -> bool:
        return (
            answer.kind == Kind.REPLY
            and self._is_of(answer, request)
            and answer.code == request.code
        )

    def _reply(self, command: Command, fields: Mapping[str, Any], answer: Frame) -> Any:
        return replies.reply_of(command, fields, answer.payload, self.link.url)

    def _on_event(self, frame: Frame) -> None:
        if frame.code == Event.FAULT:
            raise fault_error(frame.payload, self._stack.take(), self._elf)
        self._on_harmless_event(frame)

    def _on_harmless_event(self, frame: Frame) -> None:
        if frame.code == Event.STACK:
            self._stack.add(frame.payload)
        elif frame.code == Event.LOG and (text := self._log.add(frame.payload)) is not None:
            self.on_log(text)

    def _no_answer(self, command: Command, waited_s: float) -> LinkError:
        return LinkError(
            f"no answer to {command.name} from {self.link.url} within {waited_s:.1f} s",
            "check the cable and the power supply, or reset the board",
            mend=Mend.RESET,
        )

    def _silent(self, command: Command, waits: _Waits) -> DeviceError:
        """Return the error of a run whose answer did not come."""
        if not waits.has_begun:
            return self._no_answer(command, waits.waited_s)
        damaged = self.link.bad_frames - waits.bad_frames_before
        if damaged:
            return LinkError(
                f"the answer to {command.name} from {self.link.url} did not come within "
                f"{waits.waited_s:.1f} s, but {damaged} damaged frames did",
                "the line damages what is sent: check the cable and its ground, or lower the baud "
                "rate",
                mend=Mend.RESET,
            )
        return HangError(
            f"the board at {self.link.url} began {command.name} and gave no answer for "
            f"{waits.waited_s:.1f} s: it hangs, or the model runs longer",
            "look for a loop that does not end; a model that runs longer needs a longer "
            "run_timeout_s",
            mend=Mend.RESET,
        )


@dataclass
class _Heard:
    """Input received while an answer was pending."""

    received_before: int
    frames: int = 0
    busy: Busy | None = None
    booted: bool = False
    faulted: bool = False


class _Waits:
    """The times of a run: when its request is repeated, when it is given up."""

    def __init__(self, client: Client, step_s: float | None, steps: int) -> None:
        self._client = client
        self._known_s = step_s
        self.steps = steps
        self.bad_frames_before = client.link.bad_frames
        self.repeated = 0
        self.has_begun = False
        self._done = -1
        self._since = self._start = time.monotonic()
        self._retry_s = min(client.run_retry_s, self._expected_s(0, client.run_retry_s))
        self._retry_at = self._start + self._retry_s
        self._deadline = self._start + client.timeout_s

    def _expected_s(self, done: int, unknown_s: float) -> float:
        """Return how long to wait for the end, with ``done`` steps done."""
        if self._known_s is None:
            return unknown_s
        least_s = min(_RUN_RETRY_MIN_S, unknown_s)
        return max(least_s, _RUN_RETRY_FACTOR * self._known_s * (self.steps - done))

    @property
    def step_s(self) -> float:
        """Seconds of a step, were the run over now."""
        return (time.monotonic() - self._start) / max(1, self.steps)

    @property
    def waited_s(self) -> float:
        """Seconds since the board last said that it runs, or since the start."""
        return time.monotonic() - self._since

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def left_s(self) -> float:
        """Return how long the line may be listened to."""
        return max(0.0, min(self._retry_at, self._deadline) - time.monotonic())

    def progress(self, busy: Busy) -> None:
        """Record a progress report of the board; a repeated report does not extend the deadline."""
        if busy.done <= self._done:
            return
        self.has_begun = True
        self._done = busy.done
        self._since = time.monotonic()
        self._retry_s = self._expected_s(busy.done, self._client.busy_retry_s)
        self._retry_at = self._since + self._retry_s
        self._deadline = self._since + self._client.run_timeout_s

    def hurry(self) -> None:
        """Send again at once: the board has restarted, and what was sent before is lost."""
        self._retry_at = min(self._retry_at, time.monotonic() + _BOOT_RETRY_S)

    def must_repeat(self) -> bool:
        """Return whether the request has to be sent again now."""
        now = time.monotonic()
        if now < self._retry_at:
            return False
        self.repeated += 1
        self._retry_s *= 1.5 if self.has_begun else 1.25
        if not self.has_begun:
            self._retry_s = min(self._retry_s, self._client.run_retry_s)
        self._retry_at = now + self._retry_s
        return True


def _put(data: bytearray, start: int, part: bytes) -> None:
    """Write ``part`` to ``data``, which grows as far as needed."""
    missing = start + len(part) - len(data)
    if missing > 0:
        data.extend(bytes(missing))
    data[start : start + len(part)] = part
