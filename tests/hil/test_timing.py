"""When the client sends, waits and gives up: on a board whose time is made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hostile_board import HostileBoard, made_up_time

from hil.errors import HangError, InputError, LinkError
from hil.link import protocol
from hil.link.client import Client, _Waits
from hil.link.codec import Frame, encode
from hil.link.line import Link
from hil.link.protocol import Command, Event, Kind, Tensors
from hil.link.tensors import TensorRef
from hil.link.transfer import Pace, Part, line_cost

#: Of a read that finds nothing; what is expected is met within some of them.
_READ_S = 0.0005
_WITHIN_S = 0.004
#: Of a run on the board.
_RUN_S = 0.05


@dataclass
class Board(HostileBoard):
    """Keeps what it hears, and when."""

    heard: list[tuple[float, Frame]] = field(default_factory=list)

    def _answer(self, request: Frame) -> None:
        self.heard.append((self.clock.now, request))
        super()._answer(request)

    def busy(self, done: int, total: int) -> Frame:
        """Return a report of progress of the last request."""
        payload = protocol.EVENTS[Event.BUSY].build({"done": done, "total": total})
        return self.event(Event.BUSY, payload, self.last_seq)


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    return Board(made_up_time(monkeypatch), idle_s=_READ_S, byte_s=1e-7)


@contextmanager
def connected(board: Board, **options: Any) -> Iterator[Client]:
    with closing(Link("memory://", line=board)) as link:
        yield Client(link, **options)


def nothing(request: Frame, reply: Frame) -> list[Frame | bytes]:
    """Answer nothing."""
    return []


def no_run(request: Frame, reply: Frame) -> list[Frame | bytes]:
    """Answer all but runs."""
    return [] if request.code == Command.RUN else [reply]


def after(seconds: float, board: Board) -> Callable[[Frame, Frame], list[Frame | bytes]]:
    """Answer the truth after a while."""

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        board.clock.now += seconds
        return [reply]

    return lie


def damaged(frame: Frame) -> bytes:
    data = bytearray(encode(frame))
    data[-3] ^= 1
    return bytes(data)


def sent_at(board: Board, command: Command) -> list[float]:
    """Return when a command was sent, in seconds after the first time."""
    times = [at for at, frame in board.heard if frame.code == command]
    return [at - times[0] for at in times]


def near(*seconds: float) -> Any:
    return pytest.approx(list(seconds), abs=_WITHIN_S)


# -- a board that says nothing ---------------------------------------------------------------------


def test_a_silent_board_is_greeted_ever_less_often(board: Board) -> None:
    board.lie = nothing
    before = board.clock.now
    with pytest.raises(LinkError, match="within 5 s"), connected(board):
        pass
    assert sent_at(board, Command.HELLO) == near(
        0.0, 0.1, 0.25, 0.475, 0.8125, 1.3188, 2.0782, 3.0782, 4.0782
    )
    assert board.clock.now - before == pytest.approx(5.0, abs=_WITHIN_S)
    assert len({(frame.session, frame.seq) for _, frame in board.heard}) == 1


def test_a_started_board_is_greeted_at_once(board: Board) -> None:
    seen: list[Frame] = []

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        seen.append(request)
        return [reply] if seen[1:] else [board.event(Event.BOOT, bytes((protocol.VERSION,)))]

    board.lie = lie
    with connected(board):
        assert sent_at(board, Command.HELLO) == near(0.0, 0.02)


def test_frames_before_the_answer_are_passed_over(board: Board) -> None:
    """Those of another number, and events, in one piece with it."""
    board.lie = lambda request, reply: [
        replace(reply, seq=reply.seq ^ 1),
        board.event(Event.LOG, protocol.EVENTS[Event.LOG].build({"more": 0, "text": b"x"})),
        replace(reply, code=Command.ECHO),
        reply,
    ]
    with connected(board) as client:
        assert client.echo(b"abc") == b"abc"
    assert len(board.heard) == 2


def test_a_busy_board_is_waited_for(board: Board) -> None:
    board.lie = lambda request, reply: [board.busy(3, 9)]
    before = board.clock.now
    with (
        pytest.raises(LinkError, match=r"\(3 of 9 .* did not answer within 7 s"),
        connected(board, timeout_s=0.5, run_timeout_s=7.0),
    ):
        pass
    assert board.clock.now - before == pytest.approx(7.0, abs=_WITHIN_S)


def test_a_silent_board_is_given_up(board: Board) -> None:
    """After the silence that is allowed, and what the bytes take on the slowest line."""
    with connected(board, timeout_s=2.0) as client:
        board.lie = nothing
        before = board.clock.now
        with pytest.raises(LinkError, match=r"no answer to MEMORY from memory:// within 2\.9 s"):
            client.memory()
        # It is looked at when the answer is due again: after 0.264 s, 0.464 s, and ever a quarter
        # more. What 64 bytes take on the slowest line, 0.067 s, is allowed beside the silence, so
        # it is not over at 2.034 s.
        assert line_cost(0, 32) == 64
        waits = [0.264, *(0.464 * 1.25**k for k in range(4))]
        assert sum(waits[:4]) == pytest.approx(2.034, abs=0.001)
        assert board.clock.now - before == pytest.approx(sum(waits), abs=_WITHIN_S)


# -- requests that may be repeated -----------------------------------------------------------------


def test_a_lost_answer_is_requested_again(board: Board) -> None:
    with connected(board) as client:
        lost = iter([True, True, True])
        board.lie = lambda request, reply: [] if next(lost, False) else [reply]
        cost = line_cost(0, 32)
        # Nothing was measured: 0.2 s, and the bytes at 4,000 a second, four times; then the wait
        # grows by a quarter, with half of the margin, since the line loses frames.
        first_s = 0.2 + 4 * cost / 4000
        second_s, third_s = (factor * (0.2 + 2 * cost / 4000) for factor in (2.0, 2.0 * 1.25))
        client.memory()
        assert sent_at(board, Command.MEMORY) == near(
            0.0, first_s, first_s + second_s, first_s + second_s + third_s
        )
        numbers = [frame.seq for _, frame in board.heard if frame.code == Command.MEMORY]
        assert [(b - a) % 0x10000 for a, b in zip(numbers, numbers[1:], strict=False)] == [1, 1, 1]
        assert client.repeated == 3


def test_a_damaged_answer_is_requested_soon(board: Board) -> None:
    with connected(board) as client:
        for _ in range(60):
            client.memory()
        exchange_s = client._pace.exchange_s
        usual_s = client._pace.retry_s(line_cost(0, 32))
        assert exchange_s < usual_s / 4
        board.heard.clear()
        bad = iter([True])
        board.lie = lambda request, reply: [damaged(reply)] if next(bad, False) else [reply]
        client.memory()
        assert sent_at(board, Command.MEMORY) == near(0.0, exchange_s)
        assert client.repeated == 1


def test_a_restart_repeats_what_it_has_lost(board: Board) -> None:
    seen: list[Frame] = []

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        seen.append(request)
        return [reply] if seen[1:] else [board.event(Event.BOOT, bytes((protocol.VERSION,)))]

    with connected(board) as client:
        board.lie = lie
        client.memory()
        assert sent_at(board, Command.MEMORY) == near(0.0, 0.02)


def test_an_answer_shows_that_earlier_ones_are_lost(board: Board) -> None:
    """The first of two chunks that are under way is repeated without a wait, and only that."""
    with connected(board) as client:
        data = bytes(range(200)) * 2
        seen: list[Frame] = []

        def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
            seen.append(request)
            return [reply] if len(seen) > 1 else []

        board.lie = lie
        client.write(TensorRef(0, Tensors.INPUT, 0), data)
        times = sent_at(board, Command.WRITE)
        offsets = [
            protocol.REQUESTS[Command.WRITE].parse(frame.payload).offset
            for _, frame in board.heard
            if frame.code == Command.WRITE
        ]
        assert offsets[:3] == [0, offsets[1], 0]
        assert offsets[1] > 0
        assert times[2] < _WITHIN_S
        assert client.repeated == 1


def test_an_answer_that_comes_late_counts(board: Board) -> None:
    """The request was sent again meanwhile; the second answer is passed over."""
    held: list[Frame | bytes] = []

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        held.append(reply)
        return held if len(held) == 2 else []

    with connected(board) as client:
        board.lie = lie
        client.memory()
        board.lie = lambda request, reply: [reply]
        assert client.echo(b"abc") == b"abc"
        assert [len(sent_at(board, c)) for c in (Command.MEMORY, Command.ECHO)] == [2, 1]


def test_the_largest_echo_fits_twice(board: Board) -> None:
    board.frame_max = 600
    with connected(board) as client:
        data = bytes(range(1, 251)) * 8
        assert client.echo(data) == data
        sizes = [len(frame.payload) for _, frame in board.heard if frame.code == Command.ECHO]
        # Frames of 300 bytes, in a window of 1200: 2 delimiters, 2 of COBS, header and checksum.
        most = 300 - 2 - 2 - 10 - 1
        assert max(sizes) == most
        assert sizes == [*[most] * (2000 // most), 2000 % most]
        assert client.echo(b"") == b""


@pytest.mark.parametrize("frame_max", [128, 300, 600])
def test_echoes_on_the_line_fit_the_window(board: Board, frame_max: int) -> None:
    """Neither side then waits for the other one to listen; where nothing is answered at once."""
    board.frame_max = frame_max
    held: list[bytes] = []
    asked = 0
    most = 0

    def unasked() -> bytes:
        nonlocal asked
        answers, asked = b"".join(held), 0
        held.clear()
        return answers

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        nonlocal asked, most
        if request.code != Command.ECHO:
            return [reply]
        held.append(encode(reply))
        asked += len(encode(request))
        most = max(most, asked + sum(map(len, held)))
        return []

    board.unasked, board.lie = unasked, lie
    with connected(board) as client:
        data = bytes(range(1, 251)) * 8
        assert client.echo(data) == data
        assert frame_max / 2 < most <= client.hello.window


# -- runs ------------------------------------------------------------------------------------------


def test_a_silent_run_is_repeated_each_second(board: Board) -> None:
    with connected(board) as client:
        board.lie = nothing
        before = board.clock.now
        with pytest.raises(LinkError, match=r"no answer to RUN from memory:// within 5\.0 s"):
            client.run(0)
        assert sent_at(board, Command.RUN) == near(0, 1, 2, 3, 4)
        assert board.clock.now - before == pytest.approx(5.0, abs=_WITHIN_S)
        assert len({frame.seq for _, frame in board.heard if frame.code == Command.RUN}) == 1
        assert client.repeated == 4


def test_a_begun_run_is_requested_ever_less_often(board: Board) -> None:
    """Input disturbs it. After the longest silence it hangs."""
    seen: list[Frame] = []

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        seen.append(request)
        return [board.busy(0, 1)] if len(seen) == 1 else []

    with connected(board) as client:
        board.lie = lie
        before = board.clock.now
        with pytest.raises(HangError, match=r"began RUN and gave no answer for 60\.0 s"):
            client.run(0)
        assert sent_at(board, Command.RUN) == near(0, 3, 7.5, 14.25, 24.375, 39.5625)
        assert board.clock.now - before == pytest.approx(60.0, abs=_WITHIN_S)


def test_progress_gives_more_time(board: Board) -> None:
    reports = [board.busy(done, 9) for done in (0, 4, 4, 3)]
    start: list[float] = []

    def unasked() -> bytes:
        due = board.clock.now - start[0] if start else 0.0
        return encode(reports.pop(0)) if reports and due > 2.0 * (5 - len(reports)) else b""

    with connected(board, run_timeout_s=5.0) as client:
        board.lie, board.unasked = nothing, unasked
        reports[:] = [replace(one, session=client._session) for one in reports]
        start.append(board.clock.now)

        def numbered(request: Frame, reply: Frame) -> list[Frame | bytes]:
            reports[:] = [replace(one, seq=request.seq) for one in reports]
            return []

        board.lie = numbered
        with pytest.raises(HangError, match=r"gave no answer for 5\.0 s"):
            client.run(0, 9)
        # At 2 s nothing is done, at 4 s four repetitions are; at 6 and 8 s nothing is new.
        assert board.clock.now - start[0] == pytest.approx(4 + 5.0, abs=2 * _WITHIN_S)


def test_a_run_of_known_length_is_repeated(board: Board) -> None:
    with connected(board) as client:
        board.lie = after(_RUN_S, board)
        client.run(0, 4)  # 0.0125 s each
        board.heard.clear()
        board.lie = no_run
        with pytest.raises(LinkError):
            client.run(0, 20)
        assert sent_at(board, Command.RUN)[:4] == near(0, 0.5, 0.5 * 2.25, 0.5 * (2.25 + 1.5625))
        board.heard.clear()
        with pytest.raises(LinkError):
            client.run(0, 4)
        # At least 0.2 s; the waits grow by a quarter, up to a second.
        waits = [0.2 * 1.25**k for k in range(8)] + [1.0]
        assert sent_at(board, Command.RUN)[:10] == near(*(sum(waits[:k]) for k in range(10)))
        board.heard.clear()
        with pytest.raises(LinkError):
            client.run(1)  # another model's is not known
        assert sent_at(board, Command.RUN)[:2] == near(0, 1)


def test_the_remaining_time_decides_the_next_request(board: Board) -> None:
    with connected(board, run_timeout_s=2.0) as client:
        board.lie = after(_RUN_S, board)
        client.run(0, 4)
        board.heard.clear()
        board.lie = lambda request, reply: [board.busy(60, 100)]
        with pytest.raises(HangError):
            client.run(0, 100)
        # 40 repetitions of 0.0125 s are left, twice.
        assert sent_at(board, Command.RUN)[1] == pytest.approx(1.0, abs=_WITHIN_S)


def test_the_boards_clock_shows_a_lost_answer(board: Board) -> None:
    lost = iter([True])
    with connected(board) as client:

        def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
            ticks = protocol.REPLIES[Command.RUN].build({"ticks": 400_000})
            return [] if next(lost, False) else [replace(reply, payload=ticks)]

        board.lie = lie
        client.run(0, 2)  # 0.2 s each, by the board's clock of a megahertz
        board.heard.clear()
        board.lie = nothing
        with pytest.raises(LinkError):
            client.run(0, 1)
        assert sent_at(board, Command.RUN)[1] == pytest.approx(0.4, abs=_WITHIN_S)


def test_a_restart_repeats_a_run_at_once(board: Board) -> None:
    seen: list[Frame] = []

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        seen.append(request)
        return [reply] if seen[1:] else [board.event(Event.BOOT, bytes((protocol.VERSION,)))]

    with connected(board) as client:
        board.lie = lie
        client.run(0)
        assert sent_at(board, Command.RUN) == near(0, 0.02)


def test_a_damaged_answer_to_a_run(board: Board) -> None:
    with connected(board) as client:
        for _ in range(60):
            client.memory()
        board.lie = after(_RUN_S, board)
        client.run(0)
        exchange_s = client._pace.exchange_s
        assert exchange_s < 0.02
        bad = iter([True, True])

        def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
            return [damaged(reply)] if next(bad, False) else [reply]

        board.heard.clear()
        board.lie = lie
        client.run(0)
        # It cannot have ended before; then the wait grows by half with each repetition.
        first_s = _RUN_S + exchange_s
        assert sent_at(board, Command.RUN) == near(0, first_s, first_s + 1.5 * exchange_s)


def test_a_short_run_on_a_lossy_line(board: Board) -> None:
    with connected(board) as client:
        for _ in range(60):
            client.memory()
        board.lie = after(0.001, board)
        client.run(0)
        bad = iter([True])
        board.lie = lambda request, reply: [damaged(reply)] if next(bad, False) else [reply]
        client.memory()
        least_s = client._pace.retry_s(line_cost(5, 5))
        assert 0.002 < least_s < 0.1  # elsewhere it is 0.2 s
        board.heard.clear()
        board.lie = no_run
        with pytest.raises(LinkError):
            client.run(0)
        assert sent_at(board, Command.RUN)[:2] == near(0, least_s)


def test_an_abandoned_run_is_waited_for(board: Board) -> None:
    with connected(board) as client:
        board.lie = nothing
        with pytest.raises(LinkError):
            client.run(0)
        assert client.has_failed
        board.lie = lambda request, reply: [reply]
        session = client._session
        assert client.echo(b"abc") == b"abc"
        assert client._session != session
        assert client.sessions == 2
        assert not client.has_failed


# -- the pace --------------------------------------------------------------------------------------


def _part(size: int) -> Part:
    return Part(0, size, {}, 9 + size, 1)


def test_the_pace_is_the_mean_of_what_was_measured() -> None:
    pace = Pace()
    assert pace.exchange_s == 0.2
    assert pace.retry_s(100) == pytest.approx(0.2 + 4 * 100 / 4000)
    pace.answered(_part(64), 0.01, 100)
    # An eighth of what is new, of its deviation a quarter.
    mean_s, spread_s = 0.2 - 0.19 / 8, 0.19 / 4
    byte_s = 1 / 4000 + (0.0001 - 1 / 4000) / 8
    assert pace.exchange_s == 0.2  # not above that
    assert (pace._exchange_s, pace._spread_s) == pytest.approx((mean_s, spread_s))
    assert pace.retry_s(100) == pytest.approx(0.2 + 4 * byte_s * 100)
    for _ in range(200):
        pace.answered(_part(64), 0.001, 100)
    assert pace.exchange_s == pytest.approx(0.0025)
    assert pace.retry_s(100) == pytest.approx(0.05 + 4 * 0.00001 * 100)


@pytest.mark.parametrize(("losses", "factors"), [(0, [2, 4, 8, 8]), (1, [1.25, 1.5625])])
def test_the_pace_has_patience(losses: int, factors: list[float]) -> None:
    pace = Pace()
    for _ in range(losses):
        pace.lost(_part(64))
    before_s = pace.retry_s(0)
    for factor in factors:
        pace.silent()
        assert pace.retry_s(0) == pytest.approx(factor * before_s)
    pace.answered(_part(64), 0.2, 100)
    assert pace.retry_s(0) == pytest.approx(before_s)


def test_the_chunk_is_what_moves_the_most() -> None:
    pace = Pace()
    assert pace.chunk == 1 << 16
    pace.lost(_part(400))
    # One loss of 443 bytes: the square root of 43 * 443, and a little less.
    assert pace.chunk == 118
    pace.lost(_part(118))
    assert pace.chunk == 59  # half, where nothing comes through
    pace.lost(_part(16))
    assert pace.chunk == 59  # a short one says nothing


# -- operations, and what only some firmware answers -----------------------------------------------


@dataclass
class FedBoard(Board):
    """Has a model with two states whose input comes in rows."""

    def _answer(self, request: Frame) -> None:
        replies: dict[int, dict[str, Any]] = {
            Command.STATE_INFO: {"states": 2},
            Command.RESET_STATE: {},
            Command.FEED_INFO: {"rows": 96},
        }
        if request.code not in replies:
            super()._answer(request)
            return
        self.heard.append((self.clock.now, request))
        payload = protocol.REPLIES[Command(request.code)].build(replies[request.code])
        for item in self.lie(request, replace(request, kind=Kind.REPLY, payload=payload)):
            self._out += encode(item) if isinstance(item, Frame) else item

    def with_all_commands(self, request: Frame, reply: Frame) -> list[Frame | bytes]:
        """Answer the truth, and that all commands are answered."""
        if request.code != Command.HELLO:
            return [reply]
        fields = protocol.REPLIES[Command.HELLO].parse(reply.payload)
        fields["commands"] = sum(1 << command for command in Command)
        return [replace(reply, payload=protocol.REPLIES[Command.HELLO].build(fields))]


@pytest.fixture
def fed_board(monkeypatch: pytest.MonkeyPatch) -> FedBoard:
    board = FedBoard(made_up_time(monkeypatch), idle_s=_READ_S, byte_s=1e-7)
    board.lie = board.with_all_commands
    return board


def requested(board: Board, command: Command) -> list[Any]:
    """Return the fields of each request of a command."""
    return [
        protocol.REQUESTS[command].parse(frame.payload)
        for _, frame in board.heard
        if frame.code == command
    ]


def test_states_and_rows_are_those_of_the_firmware(fed_board: FedBoard) -> None:
    with connected(fed_board) as client:
        assert client.state_count(3) == 2
        assert client.feed_rows(4) == 96
        client.reset_state(5)
    commands = (Command.STATE_INFO, Command.FEED_INFO, Command.RESET_STATE)
    assert [[one.model for one in requested(fed_board, c)] for c in commands] == [[3], [4], [5]]


def test_firmware_without_states_and_rows(board: Board) -> None:
    with connected(board) as client:
        assert client.state_count(0) == client.feed_rows(0) == 0
        assert len(board.heard) == 1
        client.hello = replace(client.hello, commands=None)  # protocol version 1
        assert client.state_count(0) == client.feed_rows(0) == 0
        assert len(board.heard) == 1


def test_rows_are_pushed_in_order(fed_board: FedBoard) -> None:
    """Also where the answer to one is lost, and comes late."""
    tensor = TensorRef(0, Tensors.INPUT, 0)
    data = bytes(range(250)) * 4
    with connected(fed_board) as client:
        client.start_feed(tensor)
        held: list[Frame | bytes] = []
        writes = 0

        def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
            nonlocal writes
            writes += 1
            if writes == 2:
                held.append(reply)
                return []
            return [*held, reply] if writes == 3 else [reply]

        fed_board.lie = lie
        client.feed(tensor, 500, data)
    first, *pushed = requested(fed_board, Command.WRITE)
    assert (first.offset, first.data) == (0, b"")
    # The second part comes twice, and none before the one before it was answered.
    assert [pushed[at].offset for at in (1, 2)] == [pushed[1].offset] * 2
    del pushed[2]
    at = 500
    for part in pushed:
        assert part.offset == at
        at += len(part.data)
    assert b"".join(part.data for part in pushed) == data
    assert len(pushed) > 3
    assert client.repeated == 1


def test_no_other_operation_comes_between(board: Board) -> None:
    """Neither of another thread, nor from the callback of the log."""
    told: list[str] = []

    def use(client: Client) -> None:
        with pytest.raises(InputError) as caught:
            client.memory()
        told.append(caught.value.fact)

    with connected(board) as client:
        with client.as_one("the work"):
            other = threading.Thread(target=use, args=(client,))
            other.start()
            other.join()
            assert client.echo(b"abc") == b"abc"  # a part of it
        assert told == ["the device at memory:// is in use: the work has not ended"]
        client.on_log = lambda text: use(client)
        log = protocol.EVENTS[Event.LOG].build({"more": 0, "text": b"x"})
        board.lie = lambda request, reply: [board.event(Event.LOG, log), reply]
        client.memory()
        assert told[1:] == ["the device at memory:// is in use: MEMORY has not ended"]
        board.lie = lambda request, reply: [reply]
        assert client.echo(b"abc") == b"abc"
        assert not client.has_failed


def test_an_operation_has_an_end_whatever_arrives(board: Board) -> None:
    """Each answer counts, but not without end: a minute, and four times the slowest line."""
    with connected(board) as client:
        board.lie = after(1.0, board)
        before = board.clock.now

        def work() -> None:
            with client.as_one("the work"):
                while True:
                    client.memory()

        with pytest.raises(LinkError) as caught:
            work()
        # At a request in each second, of 64 bytes: t = 60 + 4 * t * 64 / 960.
        assert "the work of the board at memory:// did not end within 82 s" in caught.value.fact
        assert board.clock.now - before == pytest.approx(60 / (1 - 4 * 64 / 960), abs=1)
        assert client.has_failed
        client.memory()
        assert not client.has_failed


def test_of_many_kinds_of_runs_the_last_are_known(board: Board) -> None:
    with connected(board) as client:
        for model in range(1025):
            client.run(model % 200, repeat=1 + model // 200)
            client._learn((Command.RUN, "kind", model), _waits(client), {})
        assert len(client._run_s) <= 1024
        assert (Command.RUN, "kind", 1024) in client._run_s


def _waits(client: Client) -> _Waits:
    return _Waits(client, None, 4, 0.2)


def test_damaged_answers_are_not_a_hang(board: Board) -> None:
    with connected(board, run_timeout_s=4.0) as client:
        board.lie = lambda request, reply: [board.busy(0, 1), damaged(reply)]
        with pytest.raises(LinkError) as caught:
            client.run(0)
    assert not isinstance(caught.value, HangError)
    assert "the answer to RUN from memory:// did not arrive within 4.0 s, but" in caught.value.fact
    assert f"{client.link.bad_frames} damaged frames did" in caught.value.fact
