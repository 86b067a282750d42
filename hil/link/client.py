"""The host's side of the protocol: sessions, retries, deadlines, chunked transfers.

If the answer to a repeatable request does not arrive, the request is sent again under a new number.
Several such requests may be in flight, limited by the board's receive buffer. A request that must
be executed exactly once is the only one in flight and keeps its number, so that the board can
repeat its last answer. Answers arrive in the order of the requests: an answer implies that missing
answers to earlier requests are lost.

One operation at a time uses the line. :mod:`hil.link.replies` validates the board's messages. Every
operation has a deadline that does not depend on the board.
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

from hil.errors import DeviceError, HangError, InputError, LinkError, Remedy
from hil.link import messages, protocol, replies
from hil.link.bulk import Bulk
from hil.link.codec import Frame
from hil.link.fault import StackReader, fault_error
from hil.link.line import Link
from hil.link.protocol import Command, Event, Kind, Status
from hil.link.replies import Busy, Hello, Memory, ModelInfo, WireTensor
from hil.link.tensors import TensorRef
from hil.link.transfer import (
    InOrder,
    Pace,
    Part,
    Transfer,
    Window,
    line_cost,
    operation_limit_s,
    slowest_s,
    two_frames,
)

_LOG = logging.getLogger("hil.link")
#: Longest frame that the host accepts; the board's limit is not above it.
_FRAME_MAX = protocol.FRAME_LIMIT
#: First wait before a request that opens a session or resets is repeated; later waits are longer.
_RESEND_S, _RESEND_FACTOR, _RESEND_MOST_S = 0.1, 1.5, 1.0
#: Default for the longest silence during a run.
RUN_TIMEOUT_S = 60.0
#: Waits before a run is repeated: until the board reports that it has begun, then until it ends.
#: The second applies while the duration of such a run is unknown. Both are long, because input that
#: arrives during a run costs the board instructions, which would be counted.
_RUN_RETRY_S = 1.0
_BUSY_RETRY_S = 3.0
#: If the duration is known: this multiple of it, and at least this time.
_RUN_RETRY_FACTOR, _RUN_RETRY_MIN_S = 2.0, 0.2
#: Number of kinds of runs whose duration is kept.
_KNOWN_RUNS_MAX = 1024
#: Shortest time between repetitions caused by restarts of the board.
_BOOT_RETRY_S = 0.02
#: Number of abandoned requests whose late answers are still recognised.
_LATE_MAX = 1024
#: Time for an operation to notice that another thread closes the line.
_CLOSE_LIMIT_S = 10.0


@dataclass
class _Flight:
    """A part of a transfer that is in flight."""

    part: Part
    sent_s: float
    #: Bytes in flight in both directions when it was sent, including its own.
    cost: int


@dataclass
class _Operation:
    """An operation of the caller: one request, or several that belong together."""

    name: str
    start_s: float
    #: Bytes that it has needed on the line so far.
    cost: int = 0

    def check(self, url: str) -> None:
        """Raise if the operation takes longer than its bytes need on the slowest line."""
        limit_s = operation_limit_s(self.cost)
        if time.monotonic() > self.start_s + limit_s:
            raise LinkError(
                f"{self.name} of the board at {url} did not end within {limit_s:.0f} s",
                "check the cable; a line that loses most frames needs a lower baud rate",
                remedy=Remedy.RESET,
            )


class Client:
    """A session with the firmware behind ``link``; the constructor performs the handshake.

    Raise :class:`~hil.errors.LinkError` if no firmware of this protocol answers in time, or if its
    build id is not ``build_id``. With the firmware's ``elf``, faults include function and line.
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
        slowness: float = 1.0,
        on_log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.link = link
        self.timeout_s = timeout_s
        #: Longest silence during a run. A single inference has to fit; repetitions report progress.
        self.run_timeout_s = run_timeout_s * slowness
        #: Factor of all waits for a run. A simulated core is slow, and its line loses nothing.
        self.slowness = slowness
        self.run_retry_s = run_retry_s * slowness
        self.busy_retry_s = busy_retry_s * slowness
        self.on_log = on_log
        #: Alternative access to tensors, tried before the line.
        self.bulk: Bulk | None = None
        #: Number of requests sent, and of those that were repetitions.
        self.requests = 0
        self.repeated = 0
        #: Number of sessions opened. A restart of the board between two loses its state.
        self.sessions = 0
        self._build_id = build_id
        self._elf = elf
        self._stack = StackReader()
        self._log = replies.LogReader()
        self._seq = secrets.randbelow(1 << 16)
        self._session = 0
        #: Commands that this session's firmware answers; None if it did not report them.
        self._commands: frozenset[Command] | None = None
        self._pace = Pace()
        #: Seconds of a repetition or layer in the last run of each kind.
        self._run_s: dict[tuple[Any, ...], float] = {}
        self._turn = threading.Lock()
        #: The current operation and its thread.
        self._operation: _Operation | None = None
        self._owner = 0
        #: Whether the last operation failed: no other one may be answered.
        self.has_failed = False
        #: Whether frames are awaited: a callback must not send requests then.
        self._is_exchanging = False
        #: Whether a run was abandoned before its answer: the board may still execute it.
        self._left_run = False
        with self._alone("the handshake", is_fresh=True):
            self.hello = self._shake_hands()

    # -- one operation at a time -------------------------------------------------------------

    @contextlib.contextmanager
    def as_one(self, name: str) -> Iterator[None]:
        """Make all requests in this context one operation called ``name``.

        No other operation comes in between, and all requests share one deadline.
        """
        with self._alone(name):
            yield

    @contextlib.contextmanager
    def _alone(self, name: str, *, is_fresh: bool = False) -> Iterator[_Operation]:
        """Open an operation and hold the line: a new one called ``name``, or the enclosing one.

        An operation that ``is_fresh`` does not need the open session.
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
                # The handshake waits for the end of the abandoned run.
                self.hello = self._shake_hands()
            self.has_failed = True
            yield operation
            self.has_failed = False
        finally:
            self._operation = None
            self._owner = 0
            self._turn.release()

    def _in_use(self) -> InputError:
        operation = self._operation
        doing = f": {operation.name} has not ended" if operation else ""
        return InputError(
            f"the device at {self.link.url} is in use{doing}",
            "use a device from one thread at a time, and not from the callback of its log",
        )

    @contextlib.contextmanager
    def _exchanging(self) -> Iterator[None]:
        self._is_exchanging = True
        try:
            yield
        finally:
            self._is_exchanging = False

    def close(self) -> None:
        """Close the line; a running operation of another thread fails first."""
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
            # The firmware stopped at a fault in an earlier session: restart it.
            self._reset_board()
            hello, _ = self._say_hello()
        if self._build_id is not None and hello.build_id != self._build_id:
            raise LinkError(
                f"the board at {self.link.url} runs firmware {hello.build_id} "
                f"(board {hello.board!r}), not {self._build_id}",
                "flash the firmware that was built from these models",
                remedy=Remedy.FLASH,
            )
        self.sessions += 1
        self._left_run = False
        return hello

    def _say_hello(self) -> tuple[Hello, bool]:
        """Open a new session; also return whether the firmware reported a fault."""
        self._session = 1 + secrets.randbelow(0xFFFF)
        self._commands = None
        fields = {"version": protocol.VERSION, "frame_max": _FRAME_MAX}
        heard = _HelloState(self.link.received_bytes)
        answer = self._resend_until(Command.HELLO, fields, heard)
        if answer is not None and (older := replies.older_version(answer.payload)) is not None:
            fields["version"] = older
            answer = self._resend_until(Command.HELLO, fields, heard)
        if answer is None:
            raise self._no_hello(heard)
        hello = replies.hello_of(fields, answer.payload, self.link.url)
        self._commands = hello.commands
        return hello, heard.faulted

    def _resend_until(
        self, command: Command, fields: dict[str, Any], heard: _HelloState
    ) -> Frame | None:
        """Return the answer to a request that a board executes at any time; None if none arrived.

        A board that executes a run answers between two repetitions or, for a single one, at its
        end. The host waits for that as long as for a run.
        """
        frame = self._frame(command, messages.build(protocol.REQUESTS[command], fields))
        start = time.monotonic()
        deadline = start + self.timeout_s
        retry_s = _RESEND_S
        with self._exchanging():
            while (now := time.monotonic()) < deadline:
                self._send(frame)
                retry_at = now + retry_s
                retry_s = min(_RESEND_FACTOR * retry_s, _RESEND_MOST_S)
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
                            # Requests sent before the restart are lost.
                            retry_at = min(retry_at, time.monotonic() + _BOOT_RETRY_S)
        return None

    def _tell_busy(self, limit_s: float) -> None:
        _LOG.warning(
            "%s: the board is busy with a run; waiting for it for up to %g s",
            self.link.url,
            limit_s,
        )

    def _no_hello(self, heard: _HelloState) -> LinkError:
        if heard.busy is not None:
            waited_s = max(self.timeout_s, self.run_timeout_s)
            return LinkError(
                f"the board at {self.link.url} is busy with a run ({heard.busy.done} of "
                f"{heard.busy.total} repetitions or layers done) and did not answer within "
                f"{waited_s:g} s",
                "wait until the run has ended, or reset the board: by its button, its power "
                "switch, or a probe (--probe)",
                remedy=Remedy.RESET,
            )
        fact = f"no answer from {self.link.url} within {self.timeout_s:g} s"
        received = self.link.received_bytes - heard.received_before
        if heard.frames:
            return LinkError(
                f"{fact}: {heard.frames} frames of this protocol arrived, but no answer",
                "the line damages data sent to the board, or another program uses the board: "
                "check the cable and the baud rate, close the other program, reset the board",
                remedy=Remedy.RESET,
            )
        if received:
            return LinkError(
                f"{fact}: {received} bytes arrived, but no frame of this protocol",
                "the board runs another program or uses another baud rate: flash the firmware",
                remedy=Remedy.RESET,
            )
        return LinkError(
            fact,
            "check the port's name and the board's power, and flash the firmware",
            remedy=Remedy.RESET,
        )

    def renew(self, link: Link) -> None:
        """Open a new session over ``link``, which replaces the old link."""
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
        """Return after the firmware has acknowledged the reset or has restarted."""
        heard = _HelloState(self.link.received_bytes)
        # An answer of STALE means that the board restarted and forgot the session.
        if self._resend_until(Command.RESET, {}, heard) is None:
            busy = " and is busy with a run" if heard.busy is not None else ""
            raise LinkError(
                f"the board at {self.link.url} did not restart within {self.timeout_s:g} s{busy}",
                "press its reset button",
                remedy=Remedy.FLASH,
            )

    # -- requests ----------------------------------------------------------------------------

    def request(self, command: Command, reply_bytes: int = 32, **fields: Any) -> Any:
        """Return the answer to one repeatable request."""
        size = len(messages.build(protocol.REQUESTS[command], fields))
        got: list[Any] = []
        whole = Part(0, 1, fields, size, reply_bytes)
        self._ask(Transfer(command, 1, 1, lambda start, end: whole), lambda _, r: got.append(r))
        return got[-1]

    def echo(self, data: bytes) -> bytes:
        """Send ``data`` to the board and return the bytes that it sends back."""
        back = bytearray()

        def part(start: int, end: int) -> Part:
            size = end - start
            return Part(start, end, {"data": data[start:end]}, size, 1 + size)

        def take(part: Part, reply: Any) -> None:
            _put(back, part.start, reply.data)

        most = protocol.payload_max(two_frames(self.hello.window // 2, self.hello.frame_max)) - 1
        self._ask(Transfer(Command.ECHO, len(data), most, part), take)
        return bytes(back)

    def memory(self) -> Memory:
        """Return the board's use of its stack and of its receive buffer."""
        reply = self.request(Command.MEMORY)
        return Memory(
            stack_bytes=reply.stack_bytes,
            stack_peak_bytes=reply.stack_peak_bytes,
            rx_bytes=reply.rx_bytes,
            bad_frames=reply.bad_frames,
        )

    def model_info(self, model: int) -> ModelInfo:
        """Return name, counts and workspace of the model with this number.

        Raise :class:`LinkError` if the reply is not valid.
        """
        return replies.model_info_of(*self.named(Command.MODEL_INFO, {"model": model}))

    def layer_info(self, model: int, layer: int) -> tuple[str, int]:
        """Return a layer's name and number of outputs."""
        reply, name = self.named(Command.LAYER_INFO, {"model": model, "layer": layer})
        return name, reply.outputs

    def tensor_info(self, tensor: TensorRef) -> WireTensor:
        """Return name, shape, dtype and bytes of a tensor.

        Raise :class:`LinkError` if the reply is not valid.
        """
        return replies.wire_tensor_of(*self.named(Command.TENSOR_INFO, tensor.fields))

    def write(self, tensor: TensorRef, data: bytes) -> None:
        """Write the tensor's first bytes by the fastest available way."""
        with self._alone("WRITE"):
            if self.bulk is None or not self.bulk.write(self, tensor, data):
                self.write_by_line(tensor, data)

    def read(self, tensor: TensorRef, nbytes: int) -> bytes:
        """Return the tensor's first bytes by the fastest available way."""
        with self._alone("READ"):
            data = None if self.bulk is None else self.bulk.read(self, tensor, nbytes)
            return self.read_by_line(tensor, nbytes) if data is None else data

    def write_by_line(self, tensor: TensorRef, data: bytes) -> None:
        """Write the tensor's first bytes by requests."""
        self._write_parts(tensor, 0, data, Transfer)

    def _write_parts(
        self, tensor: TensorRef, first: int, data: bytes, transfer: type[Transfer]
    ) -> None:
        """Write ``data`` to a tensor from byte ``first`` on."""
        fixed = protocol.fixed_bytes(protocol.REQUESTS[Command.WRITE])

        def part(start: int, end: int) -> Part:
            fields = {**tensor.fields, "offset": first + start, "data": data[start:end]}
            return Part(start, end, fields, fixed + end - start, 1)

        most = protocol.payload_max(two_frames(self.hello.window, self.hello.frame_max)) - fixed
        self._ask(transfer(Command.WRITE, len(data), most, part), lambda part, reply: None)

    def read_by_line(self, tensor: TensorRef, nbytes: int) -> bytes:
        """Return the tensor's first bytes by requests."""
        fixed = protocol.REQUESTS[Command.READ].sizeof()
        # The buffer grows with received data: the board reports the size and may be wrong.
        data = bytearray()

        def part(start: int, end: int) -> Part:
            fields = {**tensor.fields, "offset": start, "length": end - start}
            return Part(start, end, fields, fixed, 1 + end - start)

        def take(part: Part, reply: Any) -> None:
            _put(data, part.start, reply.data)

        self._ask(Transfer(Command.READ, nbytes, self.payload_max - 1, part), take)
        return bytes(data)

    def check(self) -> None:
        """Raise unless the board answers an empty ECHO, the shortest request, in this session."""
        self.request(Command.ECHO, 0, data=b"")

    def run(self, model: int, repeat: int = 1) -> int:
        """Run the whole model ``repeat`` times; return the ticks of all runs."""
        fields = {"model": model, "repeat": repeat}
        return int(self.ask_once(Command.RUN, fields, (model,), repeat).ticks)

    def run_layers(self, model: int, first: int, count: int) -> list[int]:
        """Run consecutive layers; return the ticks of each."""
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

    def feed_rows(self, model: int) -> int:
        """Return the number of rows in which a model takes its input; 0 for one that takes it as a
        whole.
        """
        commands = self.hello.commands
        if commands is None or Command.FEED_INFO not in commands:
            return 0
        return int(self.request(Command.FEED_INFO, model=model).rows)

    def start_feed(self, tensor: TensorRef) -> None:
        """Start an inference whose input comes by rows."""
        self.request(Command.WRITE, 1, **tensor.fields, offset=0, data=b"")

    def feed(self, tensor: TensorRef, first: int, data: bytes) -> None:
        """Push the bytes of an input from byte ``first`` on, in order.

        Bytes that arrive again have no effect.
        """
        self._write_parts(tensor, first, data, InOrder)

    def state_count(self, model: int) -> int:
        """Return the number of a model's states."""
        commands = self.hello.commands
        if commands is None or Command.STATE_INFO not in commands:
            return 0
        return int(self.request(Command.STATE_INFO, model=model).states)

    def reset_state(self, model: int) -> None:
        """Reset each state of a model to its initial value."""
        self.request(Command.RESET_STATE, model=model)

    def named(self, command: Command, fields: dict[str, int]) -> tuple[Any, str]:
        """Return the reply and the name at its end, which may need several requests."""
        reader = replies.NameReader(command, self.payload_max)
        with self.as_one(command.name):
            while not reader.add(self.request(command, 64, **fields, name_offset=reader.offset)):
                pass
        return reader.result()

    # -- the exchange ------------------------------------------------------------------------

    @property
    def payload_max(self) -> int:
        """Bytes of a message that fit in a frame of this board."""
        return protocol.payload_max(self.hello.frame_max)

    def _ask(self, transfer: Transfer, take: Callable[[Part, Any], None]) -> None:
        """Execute ``transfer``; ``take`` gets each part's reply, sometimes twice."""
        with self._alone(transfer.command.name) as operation, self._exchanging():
            flights: dict[int, _Flight] = {}  # by request number, in the order of sending
            late: dict[int, _Flight] = {}  # abandoned, but a late answer still counts
            progress_s = time.monotonic()
            has_booted = False
            # The request whose answer may be a damaged frame that arrived, and when to ask again.
            doubted: _Flight | None = None
            doubted_until = 0.0
            is_changed = True
            while True:
                # Not for each byte that arrives.
                if is_changed:
                    self._fill_window(transfer, flights)
                    is_changed = False
                oldest = next(iter(flights.values()), None)
                if oldest is None:
                    return
                retry_s = self._pace.retry_s(oldest.cost)
                if has_booted:  # requests sent before the restart are lost
                    retry_s = min(retry_s, _BOOT_RETRY_S)
                retry_at = oldest.sent_s + retry_s
                if doubted is oldest:
                    retry_at = min(retry_at, doubted_until)
                damaged = self.link.bad_frames
                for frame in self.link.receive(max(0.0, retry_at - time.monotonic())):
                    is_changed = True
                    if frame.kind == Kind.EVENT:
                        self._on_event(frame)
                        has_booted |= frame.code == Event.BOOT
                    elif flight := self._match_reply(frame, transfer, flights, late):
                        part = flight.part
                        take(part, self._reply(transfer.command, part.fields, frame))
                        if transfer.arrived(part):
                            # An answer that comes again is no progress: it gives no more time.
                            operation.cost += part.cost
                            progress_s = time.monotonic()
                now = time.monotonic()
                is_missing = next(iter(flights.values()), None) is oldest
                if is_missing and now >= retry_at:
                    is_doubted, doubted = doubted is oldest, None
                    if not is_doubted:
                        self._pace.silent()
                    # The answers to later requests may still be on their way.
                    given_up = list(flights)[:1] if is_doubted else list(flights)
                    self._give_up(given_up, transfer, flights, late)
                    has_booted, is_changed = False, True
                elif is_missing and doubted is not oldest and self.link.bad_frames != damaged:
                    # Only once for each request: noise may come all the time.
                    doubted, doubted_until = oldest, now + self._pace.exchange_s
                if now > progress_s + self.timeout_s + slowest_s(oldest.cost):
                    raise self._no_answer(transfer.command, now - progress_s)
                operation.check(self.link.url)

    def _fill_window(self, transfer: Transfer, flights: dict[int, _Flight]) -> None:
        under_way = Window(
            self.hello.window, self.hello.frame_max, (flight.part for flight in flights.values())
        )
        while (part := transfer.next_part(self._pace.chunk)) is not None:
            if not under_way.has_room(part):
                return
            transfer.sent(part)
            under_way.add(part)
            payload = messages.build(protocol.REQUESTS[transfer.command], part.fields)
            frame = self._frame(transfer.command, payload)
            flights[frame.seq] = _Flight(part, time.monotonic(), under_way.both)
            self._send(frame)

    def _match_reply(
        self,
        frame: Frame,
        transfer: Transfer,
        flights: dict[int, _Flight],
        late: dict[int, _Flight],
    ) -> _Flight | None:
        """Return the part that ``frame`` answers, unless it was answered before."""
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
        """Send the parts that are in flight as ``seqs`` again, under new numbers."""
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

        It runs ``steps`` repetitions or layers. Requests of the same ``kind`` before it give the
        expected duration.
        """
        payload = messages.build(protocol.REQUESTS[command], fields)
        with self._alone(command.name) as operation, self._exchanging():
            frame = self._frame(command, payload)
            least_s = _RUN_RETRY_MIN_S
            if self._pace.is_lossy:
                # Soon, though receiving disturbs a run: on such a line it is disturbed anyway.
                least_s = min(least_s, self._pace.retry_s(line_cost(len(payload), len(payload))))
            waits = _Waits(self, self._run_s.get((command, *kind)), steps, least_s)
            self._left_run = True
            self._send(frame)
            while True:
                damaged = self.link.bad_frames
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
                        waits.retry_soon()
                    elif answer.code == Event.BUSY and self._is_of(answer, frame):
                        waits.progress(replies.busy_of(answer.payload, steps))
                if self.link.bad_frames != damaged:
                    waits.suspect_loss(self._pace.exchange_s)
                if waits.is_over:
                    raise self._silent(command, waits)
                if waits.must_repeat():
                    self.repeated += 1
                    self._send(frame)

    def _learn(self, kind: tuple[Any, ...], waits: _Waits, reply: Any) -> None:
        """Record the duration of a run of this kind."""
        if len(self._run_s) >= _KNOWN_RUNS_MAX:
            self._run_s.clear()
        if waits.repeated == 0:
            self._run_s[kind] = waits.step_s
        elif kind not in self._run_s:
            # The answer was lost and repeated later, so the board's clock is more exact.
            ticks = reply.ticks if "ticks" in reply else 0
            total = sum(ticks) if isinstance(ticks, list) else ticks
            board_s = total / self.hello.ticks_hz / waits.steps
            self._run_s[kind] = min(waits.step_s, board_s or waits.step_s)

    # -- frames ------------------------------------------------------------------------------

    def _frame(self, command: Command, payload: bytes) -> Frame:
        """Return a request; raise if the firmware has reported that it does not answer it."""
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
            remedy=Remedy.RESET,
        )

    def _silent(self, command: Command, waits: _Waits) -> DeviceError:
        """Return the error of a run whose answer did not arrive."""
        if not waits.has_begun:
            return self._no_answer(command, waits.waited_s)
        damaged = self.link.bad_frames - waits.bad_frames_before
        if damaged:
            return LinkError(
                f"the answer to {command.name} from {self.link.url} did not arrive within "
                f"{waits.waited_s:.1f} s, but {damaged} damaged frames did",
                "the line damages data: check the cable and its ground, or lower the baud rate",
                remedy=Remedy.RESET,
            )
        return HangError(
            f"the board at {self.link.url} began {command.name} and gave no answer for "
            f"{waits.waited_s:.1f} s: it hangs, or the model takes longer",
            "look for an endless loop; a model that takes longer needs a longer run_timeout_s",
            remedy=Remedy.RESET,
        )


@dataclass
class _HelloState:
    """The input that was received while an answer was awaited."""

    received_before: int
    frames: int = 0
    busy: Busy | None = None
    booted: bool = False
    faulted: bool = False


class _Waits:
    """The deadlines of a run: its next repetition, and its end."""

    def __init__(self, client: Client, step_s: float | None, steps: int, least_s: float) -> None:
        self._client = client
        self._known_s = step_s
        self._least_s = least_s
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
        """Return the expected time until the end, with ``done`` steps done."""
        if self._known_s is None:
            return unknown_s
        least_s = min(self._least_s, unknown_s)
        factor = _RUN_RETRY_FACTOR * self._client.slowness
        return max(least_s, factor * self._known_s * (self.steps - done))

    @property
    def step_s(self) -> float:
        """Seconds per step if the run ended now."""
        return (time.monotonic() - self._start) / max(1, self.steps)

    @property
    def waited_s(self) -> float:
        """Seconds since the board last reported that it runs, or since the start."""
        return time.monotonic() - self._since

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def left_s(self) -> float:
        """Return how long to listen to the line."""
        return max(0.0, min(self._retry_at, self._deadline) - time.monotonic())

    def progress(self, busy: Busy) -> None:
        """Record a progress report; a repeated report does not extend the deadline."""
        if busy.done <= self._done:
            return
        self.has_begun = True
        self._done = busy.done
        self._since = time.monotonic()
        self._retry_s = self._expected_s(busy.done, self._client.busy_retry_s)
        self._retry_at = self._since + self._retry_s
        self._deadline = self._since + self._client.run_timeout_s

    def retry_soon(self) -> None:
        """Repeat the request at once: the board has restarted and lost it."""
        self._retry_at = min(self._retry_at, time.monotonic() + _BOOT_RETRY_S)

    def suspect_loss(self, exchange_s: float) -> None:
        """Repeat the request soon: a damaged frame arrived, which may have been the answer.

        It may as well have been a progress report, so not before the run can have ended.
        """
        done = max(0, self._done)
        ended_s = self._since + (self._known_s or 0.0) * (self.steps - done)
        # Noise may come all the time.
        wait_s = exchange_s * 1.5 ** min(self.repeated, 20)
        self._retry_at = min(self._retry_at, max(time.monotonic(), ended_s) + wait_s)

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
    data.extend(bytes(max(0, start + len(part) - len(data))))
    data[start : start + len(part)] = part
