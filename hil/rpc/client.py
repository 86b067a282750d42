"""The host's side of the protocol: sessions, retries, deadlines, transfers in chunks.

A request that may be repeated is sent again under a new number when its answer does not come;
several of them may be under way, as many bytes as the board can buffer. A request that must be
executed exactly once is alone under way and keeps its number, so that the board answers a
repetition from its last answer. Answers come in the order of the requests: an answer tells that
those of earlier requests are lost.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from construct import ConstructError

from hil.errors import DeviceError, HangError, InputError, LinkError, Mend
from hil.rpc import protocol
from hil.rpc.codec import Frame
from hil.rpc.fault import StackReader, fault_error
from hil.rpc.link import Link
from hil.rpc.protocol import Command, Event, Kind, MetadataList, Status, Tensors, Value
from hilc.tvm_metadata import Metadata, MetadataConstant, MetadataTensor, dtype_name

if TYPE_CHECKING:
    from hil.rpc.bulk import Bulk

#: Bytes of a side in the replies that have a shape in front of the name.
_SIDE_BYTES = {Command.TENSOR_INFO: 4, Command.METADATA_TENSOR: 8}
#: What the host takes in a frame; the board's limit is below it.
_FRAME_MAX = protocol.FRAME_LIMIT
_HELLO_RETRY_S = 0.1
#: Shortest wait before a request is repeated.
_RETRY_S = 0.2
#: The wait doubles while nothing is answered, up to this many times itself.
_MOST_PATIENCE = 8.0
#: Longest silence during a run, unless the user says otherwise.
RUN_TIMEOUT_S = 60.0
#: Waits before a run is repeated: until the board says that it has begun, then until it ends. Long,
#: because input that arrives during a run costs the board instructions, which would be counted.
_RUN_RETRY_S = 1.0
_BUSY_RETRY_S = 30.0
#: Header, checksum, delimiters, COBS's first byte and a rest.
_FRAME_EXTRA = 16
#: No line that is slower is expected: 9600 baud.
_SLOWEST_BYTES_PER_S = 960


class NotInFirmwareError(DeviceError):
    """The firmware was built without the part that executes the command."""


@dataclass(frozen=True)
class Hello:
    """What the board said of itself in the handshake."""

    board: str
    build_id: str
    protocol: int
    models: int
    ticks_hz: int
    #: Longest frame, and bytes of requests that may be under way.
    frame_max: int
    window: int


@dataclass(frozen=True)
class ModelInfo:
    name: str
    inputs: int
    outputs: int
    layers: int
    workspace_bytes: int


@dataclass(frozen=True)
class WireTensor:
    """A tensor as the firmware describes it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


@dataclass(frozen=True)
class Memory:
    stack_bytes: int
    stack_peak_bytes: int
    #: Room for received bytes that wait to be handled.
    rx_bytes: int
    #: Frames that the board received damaged.
    bad_frames: int


@dataclass(frozen=True)
class TensorRef:
    """Names a tensor to the board."""

    model: int
    list: Tensors
    index: int
    layer: int = 0

    @property
    def fields(self) -> dict[str, int]:
        return {
            "model": self.model,
            "list": self.list,
            "layer": self.layer,
            "index": self.index,
        }


@dataclass(frozen=True)
class Handle:
    """What only the board can use: an address, a module or a function of its run time."""

    address: int
    kind: int = Value.HANDLE

    #: Kinds that can be passed to a function.
    KINDS: ClassVar = (Value.HANDLE, Value.MODULE, Value.FUNCTION)


#: What a packed function may be given over the link.
CallArgument = int | float | str | None | TensorRef | Handle


@dataclass(frozen=True)
class CallResult:
    """What a packed function returned."""

    #: 0 when it succeeded.
    returned: int
    value: int | float | str | Handle | None
    #: What the run time says of a failure; often nothing.
    error: str


@dataclass
class _Job:
    """A request that may be repeated, and its answer."""

    command: Command
    payload: bytes
    #: Bytes that the answer is expected to bring.
    reply_bytes: int
    reply: Any = None

    @property
    def cost(self) -> int:
        """Bytes on the line, both ways."""
        size = len(self.payload) + self.reply_bytes
        return size + size // 254 + 2 * _FRAME_EXTRA


@dataclass
class _Flight:
    """A job under way."""

    job: _Job
    sent_s: float
    #: Bytes both ways that were under way when it was sent, its own included.
    cost: int


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
        self._build_id = build_id
        self._elf = elf
        self._stack = StackReader()
        self._seq = secrets.randbelow(1 << 16)
        self._session = 0
        self._log_part = ""
        # Seconds a byte, as measured; a guess on the safe side before.
        self._pace_s = 1 / 4000
        self.hello = self._shake_hands()

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
        return hello

    def _say_hello(self) -> tuple[Hello, bool]:
        """Opens a new session; also says whether the firmware reported a fault."""
        self._session = 1 + secrets.randbelow(0xFFFF)
        request = protocol.REQUESTS[Command.HELLO].build(
            {"version": protocol.VERSION, "frame_max": _FRAME_MAX}
        )
        frame = self._frame(Command.HELLO, request)
        deadline = time.monotonic() + self.timeout_s
        received_before = self.link.received_bytes
        faulted = False
        retry_s = _HELLO_RETRY_S
        while time.monotonic() < deadline:
            self._send(frame)
            retry_at = time.monotonic() + retry_s
            retry_s = min(2 * retry_s, 1.0)
            while (left := retry_at - time.monotonic()) > 0:
                for answer in self.link.receive(left):
                    if answer.kind == Kind.EVENT:
                        faulted |= answer.code == Event.FAULT
                        if answer.code == Event.BOOT:
                            retry_at = 0.0  # what was sent before it started is lost
                        self._on_harmless_event(answer)
                    elif self._answers(answer, frame):
                        return self._hello_of(answer), faulted
        raise self._no_hello(self.link.received_bytes - received_before)

    def _hello_of(self, answer: Frame) -> Hello:
        reply = self._parse(Command.HELLO, answer.payload)
        return Hello(
            board=reply.board.decode("utf-8", "replace"),
            build_id=reply.build_id.decode("ascii", "replace"),
            protocol=reply.version,
            models=reply.models,
            ticks_hz=reply.ticks_hz,
            frame_max=reply.frame_max,
            window=reply.window,
        )

    def _no_hello(self, received: int) -> LinkError:
        fact = f"no answer from {self.link.url} within {self.timeout_s:g} s"
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
        """Opens a new session over ``link``, which takes the place of the old one."""
        self.link.close()
        self.link = link
        self._log_part = ""
        self.hello = self._shake_hands()

    def reset(self) -> None:
        """Restarts the firmware and opens a new session."""
        self._reset_board()
        self.hello = self._shake_hands()

    def _reset_board(self) -> None:
        """Returns when the firmware has taken the order or has restarted."""
        frame = self._frame(Command.RESET, b"")
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            self._send(frame)
            retry_at = time.monotonic() + _RETRY_S
            while (left := retry_at - time.monotonic()) > 0:
                for answer in self.link.receive(left):
                    if answer.kind == Kind.EVENT:
                        if answer.code == Event.BOOT:
                            return
                        self._on_harmless_event(answer)
                    elif self._answers(answer, frame):
                        # Done, or STALE: it restarted and forgot the session.
                        return
        raise LinkError(
            f"the board at {self.link.url} did not restart within {self.timeout_s:g} s",
            "press its reset button",
            mend=Mend.FLASH,
        )

    # -- requests ----------------------------------------------------------------------------

    def request(self, command: Command, reply_bytes: int = 32, **fields: Any) -> Any:
        """The answer to one request that may be repeated."""
        return self._ask([self._job(command, reply_bytes, fields)])[0]

    def echo(self, data: bytes) -> bytes:
        """``data`` from the board, sent there before."""
        size = self._payload_max - 1
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        jobs = [self._job(Command.ECHO, len(chunk), {"data": chunk}) for chunk in chunks]
        return b"".join(reply.data for reply in self._ask(jobs))

    def memory(self) -> Memory:
        reply = self.request(Command.MEMORY)
        return Memory(
            stack_bytes=reply.stack_bytes,
            stack_peak_bytes=reply.stack_peak_bytes,
            rx_bytes=reply.rx_bytes,
            bad_frames=reply.bad_frames,
        )

    def model_info(self, model: int) -> ModelInfo:
        reply, name = self._named(Command.MODEL_INFO, {"model": model})
        return ModelInfo(name, reply.inputs, reply.outputs, reply.layers, reply.workspace_bytes)

    def layer_info(self, model: int, layer: int) -> tuple[str, int]:
        """Name and number of outputs."""
        reply, name = self._named(Command.LAYER_INFO, {"model": model, "layer": layer})
        return name, reply.outputs

    def tensor_info(self, tensor: TensorRef) -> WireTensor:
        reply, name = self._named(Command.TENSOR_INFO, tensor.fields)
        shape = tuple(
            int.from_bytes(reply.shape_and_name[4 * i : 4 * i + 4], "little", signed=True)
            for i in range(reply.ndim)
        )
        try:
            dtype = protocol.Dtype(reply.dtype).name.lower()
        except ValueError:
            raise _protocol_error(f"tensor {name!r} has the unknown type {reply.dtype}") from None
        return WireTensor(name, shape, dtype, reply.nbytes)

    def write(self, tensor: TensorRef, data: bytes) -> None:
        if self.bulk is not None and self.bulk.write(tensor, data):
            return
        size = self._payload_max - _fixed_bytes(protocol.REQUESTS[Command.WRITE])
        self._ask(
            [
                self._job(
                    Command.WRITE,
                    1,
                    {**tensor.fields, "offset": at, "data": data[at : at + size]},
                )
                for at in range(0, len(data), size)
            ]
        )

    def read(self, tensor: TensorRef, nbytes: int) -> bytes:
        if self.bulk is not None and (data := self.bulk.read(tensor, nbytes)) is not None:
            return data
        size = self._payload_max - 1
        jobs = []
        for at in range(0, nbytes, size):
            length = min(size, nbytes - at)
            fields = {**tensor.fields, "offset": at, "length": length}
            jobs.append(self._job(Command.READ, length, fields))
        return b"".join(reply.data for reply in self._ask(jobs))

    def run(self, model: int, repeat: int = 1) -> int:
        """Runs the whole model ``repeat`` times; returns the ticks of all runs together."""
        reply = self._ask_once(Command.RUN, {"model": model, "repeat": repeat})
        return int(reply.ticks)

    def run_layers(self, model: int, first: int, count: int) -> list[int]:
        """Runs layers in their order; returns the ticks of each."""
        ticks: list[int] = []
        most = (self._payload_max - 1) // 8
        while len(ticks) < count:
            fields = {
                "model": model,
                "first": first + len(ticks),
                "count": min(most, count - len(ticks)),
            }
            ticks += self._ask_once(Command.RUN_LAYERS, fields).ticks
        return ticks

    def functions(self) -> tuple[str, ...]:
        """The packed functions of the image, in the order of its registry."""
        names: list[str] = []
        count = 1
        while len(names) < count:
            reply, name = self._named(Command.FUNCTION_INFO, {"function": len(names)})
            names.append(name)
            count = reply.functions
        return tuple(names)

    def call(self, function: str, arguments: Sequence[CallArgument]) -> CallResult:
        """Calls a packed function by its name, once."""
        values = b"".join(map(_call_argument, arguments))
        name_and_values = protocol.VALUES[protocol.Value.STRING].build({"value": function}) + values
        size = len(name_and_values) + _fixed_bytes(protocol.REQUESTS[Command.CALL])
        if size > self._payload_max or len(arguments) > 0xFF:
            raise InputError(
                f"the call of {function!r} with {len(arguments)} arguments takes {size} bytes, a "
                f"frame of this board holds {self._payload_max}",
                "pass less text, or raise frame_max in the board's description",
            )
        fields = {"arguments": len(arguments), "name_and_values": name_and_values}
        reply = self._ask_once(Command.CALL, fields)
        text = reply.text.decode("utf-8", "replace")
        if reply.returned != 0:
            return CallResult(reply.returned, None, text)
        return CallResult(0, _call_value(reply.kind, reply.value, text), "")

    def metadata(self, model: int) -> Metadata:
        """TVM's metadata of a model."""
        info, mod_name = self._named(Command.METADATA_INFO, {"model": model})

        def tensors(entries: MetadataList, count: int) -> tuple[MetadataTensor, ...]:
            fields = {"model": model, "list": entries}
            return tuple(self._metadata_tensor({**fields, "index": i}) for i in range(count))

        return Metadata(
            version=info.version,
            mod_name=mod_name,
            inputs=tensors(MetadataList.INPUT, info.inputs),
            outputs=tensors(MetadataList.OUTPUT, info.outputs),
            workspace_pools=tensors(MetadataList.WORKSPACE_POOL, info.workspace_pools),
            constant_pools=tuple(
                self._metadata_constant(model, index) for index in range(info.constants)
            ),
        )

    def _metadata_tensor(self, fields: dict[str, int]) -> MetadataTensor:
        reply, name = self._named(Command.METADATA_TENSOR, fields)
        shape = tuple(
            int.from_bytes(reply.shape_and_name[8 * i : 8 * i + 8], "little", signed=True)
            for i in range(reply.ndim)
        )
        return MetadataTensor(name, shape, dtype_name(reply.code, reply.bits, reply.lanes))

    def _metadata_constant(self, model: int, index: int) -> MetadataConstant:
        reply, name = self._named(Command.METADATA_CONSTANT, {"model": model, "index": index})
        return MetadataConstant(name, reply.byte_offset, reply.data_bytes)

    def close(self) -> None:
        self.link.close()

    def _named(self, command: Command, fields: dict[str, int]) -> tuple[Any, str]:
        """The reply, and the name at its end, which may need several requests."""
        name = b""
        while True:
            reply = self.request(command, 64, **fields, name_offset=len(name))
            if command in _SIDE_BYTES:
                part = reply.shape_and_name[_SIDE_BYTES[command] * reply.ndim :]
            else:
                part = reply.name
            name += part
            if len(name) >= reply.name_length or not part:
                return reply, name.decode("utf-8", "replace")

    # -- the exchange ------------------------------------------------------------------------

    @property
    def _payload_max(self) -> int:
        return protocol.payload_max(self.hello.frame_max)

    def _job(self, command: Command, reply_bytes: int, fields: dict[str, Any]) -> _Job:
        return _Job(command, protocol.REQUESTS[command].build(fields), reply_bytes)

    def _ask(self, jobs: Sequence[_Job]) -> list[Any]:
        """The replies to requests that may be repeated, several of them under way at once."""
        waiting = deque(jobs)
        flights: dict[int, _Flight] = {}  # by number, in the order sent
        late: dict[int, _Job] = {}  # given up on, but an answer still counts
        progress_s = time.monotonic()
        patience = 1.0
        while waiting or flights:
            self._fill_window(waiting, flights)
            oldest = next(iter(flights.values()), None)
            if oldest is None:
                continue
            retry_s = patience * (_RETRY_S + 4 * self._pace_s * oldest.cost)
            retry_at = oldest.sent_s + retry_s
            for frame in self.link.receive(max(0.0, retry_at - time.monotonic())):
                if frame.kind == Kind.EVENT:
                    self._on_event(frame)
                    if frame.code == Event.BOOT:
                        retry_at = 0.0
                elif job := self._land(frame, flights, late, waiting):
                    job.reply = self._parse(job.command, frame.payload)
                    progress_s = time.monotonic()
                    patience = 1.0
            now = time.monotonic()
            if flights and next(iter(flights.values())) is oldest and now >= retry_at:
                patience = min(2 * patience, _MOST_PATIENCE)
                self._give_up(list(flights), flights, late, waiting)
            if now > progress_s + self.timeout_s + oldest.cost / _SLOWEST_BYTES_PER_S:
                raise self._no_answer(oldest.job.command, now - progress_s)
        return [job.reply for job in jobs]

    def _fill_window(self, waiting: deque[_Job], flights: dict[int, _Flight]) -> None:
        under_way = sum(flight.job.cost for flight in flights.values())
        while waiting:
            job = waiting[0]
            # The answers count as well: on a slow line they only wait for each other.
            if flights and under_way + job.cost > self.hello.window:
                return
            waiting.popleft()
            if job.reply is not None:
                continue
            under_way += job.cost
            frame = self._frame(job.command, job.payload)
            flights[frame.seq] = _Flight(job, time.monotonic(), under_way)
            self._send(frame)

    def _land(
        self,
        frame: Frame,
        flights: dict[int, _Flight],
        late: dict[int, _Job],
        waiting: deque[_Job],
    ) -> _Job | None:
        """The job that ``frame`` answers, if it answers one that has no answer yet."""
        if frame.kind != Kind.REPLY or frame.session != self._session:
            return None
        flight = flights.get(frame.seq)
        job = flight.job if flight else late.get(frame.seq)
        if job is None or job.reply is not None or frame.code != job.command:
            return None
        if frame.payload[:1] == bytes((Status.REPEATED,)):
            if flight:
                self._give_up([frame.seq], flights, late, waiting)
            return None
        if flight:
            earlier = list(flights)[: list(flights).index(frame.seq)]
            self._give_up(earlier, flights, late, waiting)
            del flights[frame.seq]
            sample_s = (time.monotonic() - flight.sent_s) / flight.cost
            self._pace_s += (sample_s - self._pace_s) / 8
        return job

    def _give_up(
        self,
        seqs: Sequence[int],
        flights: dict[int, _Flight],
        late: dict[int, _Job],
        waiting: deque[_Job],
    ) -> None:
        """Sends the jobs under way as ``seqs`` again, under new numbers."""
        self.repeated += len(seqs)
        for seq in reversed(seqs):
            late[seq] = flights.pop(seq).job
            waiting.appendleft(late[seq])

    def _ask_once(self, command: Command, fields: dict[str, Any]) -> Any:
        """The reply to a request that the board must execute exactly once."""
        frame = self._frame(command, protocol.REQUESTS[command].build(fields))
        self._send(frame)
        now = time.monotonic()
        retry_s = self.run_retry_s
        retry_at, deadline = now + retry_s, now + self.timeout_s
        waited_since = now
        has_begun = False
        while True:
            for answer in self.link.receive(max(0.0, min(retry_at, deadline) - now)):
                if answer.kind == Kind.EVENT:
                    self._on_event(answer)
                    if answer.code == Event.BUSY and answer.seq == frame.seq:
                        has_begun = True
                        waited_since = time.monotonic()
                        retry_s = self.busy_retry_s
                        retry_at = waited_since + retry_s
                        deadline = waited_since + self.run_timeout_s
                    elif answer.code == Event.BOOT:
                        retry_at = 0.0
                elif self._answers(answer, frame):
                    return self._parse(command, answer.payload)
            now = time.monotonic()
            if now >= deadline:
                if has_begun:
                    raise self._hang(command, now - waited_since)
                raise self._no_answer(command, now - waited_since)
            if now >= retry_at:
                self.repeated += 1
                self._send(frame)
                retry_s *= 1.5
                retry_at = now + retry_s

    # -- frames ------------------------------------------------------------------------------

    def _frame(self, command: Command, payload: bytes) -> Frame:
        self._seq = (self._seq + 1) & 0xFFFF
        return Frame(self._session, self._seq, Kind.REQUEST, command, payload)

    def _send(self, frame: Frame) -> None:
        self.requests += 1
        self.link.send(frame)

    def _answers(self, answer: Frame, request: Frame) -> bool:
        return (
            answer.kind == Kind.REPLY
            and answer.session == request.session
            and answer.seq == request.seq
            and answer.code == request.code
        )

    def _parse(self, command: Command, payload: bytes) -> Any:
        """The reply's fields; raises what its status says."""
        try:
            if payload[:1] == bytes((Status.OK,)):
                return protocol.REPLIES[command].parse(payload)
            error = protocol.ERROR.parse(payload)
        except ConstructError:
            raise _protocol_error(f"a {command.name} reply of {len(payload)} bytes") from None
        raise _status_error(command, error.status, error.detail, self.link.url)

    def _on_event(self, frame: Frame) -> None:
        if frame.code == Event.FAULT:
            raise fault_error(frame.payload, self._stack.take(), self._elf)
        self._on_harmless_event(frame)

    def _on_harmless_event(self, frame: Frame) -> None:
        if frame.code == Event.STACK:
            self._stack.add(frame.payload)
        if frame.code != Event.LOG or not frame.payload:
            return
        event = protocol.EVENTS[Event.LOG].parse(frame.payload)
        self._log_part += event.text.decode("utf-8", "replace")
        if not event.more:
            text, self._log_part = self._log_part, ""
            self.on_log(text)

    def _no_answer(self, command: Command, waited_s: float) -> LinkError:
        return LinkError(
            f"no answer to {command.name} from {self.link.url} within {waited_s:.1f} s",
            "check the cable and the power supply, or reset the board",
            mend=Mend.RESET,
        )

    def _hang(self, command: Command, waited_s: float) -> HangError:
        return HangError(
            f"the board at {self.link.url} began {command.name} and is silent for "
            f"{waited_s:.1f} s: it hangs, or the model runs longer",
            "look for a loop that does not end; a model that runs longer needs a longer "
            "run_timeout_s",
            mend=Mend.RESET,
        )


def _call_argument(argument: CallArgument) -> bytes:
    """An argument of a call as the board reads it."""
    fields: Any
    match argument:
        case TensorRef():
            kind, fields = Value.TENSOR, argument.fields
        case Handle():
            kind, fields = Value(argument.kind), {"value": argument.address}
        case None:
            kind, fields = Value.NONE, {}
        case str():
            kind, fields = Value.STRING, {"value": argument}
        case float():
            kind, fields = Value.FLOAT, {"value": argument}
        case _:
            kind, fields = Value.INT, {"value": int(argument)}
    built: bytes = protocol.VALUES[kind].build(fields)
    return bytes((kind,)) + built


def _call_value(kind: int, value: bytes, text: str) -> int | float | str | Handle | None:
    """A call's result; a kind that is not one of :class:`Value` is a handle as well."""
    if kind == Value.NONE:
        return None
    if kind == Value.STRING:
        return text
    if kind in (Value.INT, Value.FLOAT):
        number: int | float = protocol.VALUES[Value(kind)].parse(value).value
        return number
    return Handle(protocol.VALUES[Value.HANDLE].parse(value).value, kind)


def _fixed_bytes(message: Any) -> int:
    """Size of a message's fields before its open end."""
    return sum(part.sizeof() for part in message.subcons[:-1])


def _protocol_error(what: str) -> LinkError:
    return LinkError(f"the firmware sent what the protocol does not allow: {what}")


def _status_error(command: Command, status: int, detail: int, url: str) -> DeviceError:
    if status == Status.VERSION:
        return LinkError(
            f"the firmware at {url} speaks protocol version {detail}, "
            f"this program speaks {protocol.VERSION}",
            "build the firmware with this version of the program and flash it",
            mend=Mend.FLASH,
        )
    if status == Status.STALE and detail == 0:
        return DeviceError(
            f"the board restarted by itself before it answered {command.name}",
            "check its power supply (a brown-out), its watchdog and who resets it; the firmware's "
            "log may say more",
            mend=Mend.RESET,
        )
    if status == Status.STALE:
        return LinkError(
            f"another program took over the board at {url}", "let one program at a time use it"
        )
    if status == Status.MODEL_FAILED:
        detail -= (detail & 0x80000000) << 1
    try:
        text = protocol.STATUS_TEXT[Status(status)].format(detail=detail)
    except ValueError:
        text = f"status {status} ({detail})"
    fact = f"the board refused {command.name}: {text}"
    if status == Status.NOT_IN_FIRMWARE:
        return NotInFirmwareError(fact, "compile the model with interface=packed")
    if status == Status.GUARD_CHANGED:
        return DeviceError(
            fact,
            "the model, or a function of others that it calls, writes outside of its memory: run "
            "its layers one by one, `hil verify --per-layer`, to find which",
        )
    return DeviceError(fact)
