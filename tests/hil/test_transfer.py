"""Chunks, windows and deadlines by themselves, and access to memory by what the firmware sees."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from construct import SizeofError

from hil.errors import LinkError
from hil.link import bulk as bulk_module
from hil.link import messages, protocol, transfer
from hil.link.bulk import Bulk
from hil.link.codec import Frame, encode
from hil.link.protocol import Command, Kind, Tensors
from hil.link.tensors import TensorRef
from hil.link.transfer import InOrder, Pace, Part, Transfer, Window

# -- bytes on the line -----------------------------------------------------------------------------


def test_no_frame_is_longer_than_it_is_counted() -> None:
    """Of bytes without zeros the encoding is the longest; delimiters included."""
    for size in (*range(300), *range(500, 520), *range(750, 780), 4000):
        frame = Frame(0x0101, 0x0101, Kind.REPLY, Command.ECHO, b"\x01" * size)
        length = len(encode(frame))
        assert length <= transfer.frame_bytes(size) <= length + 1
        # With a reserve.
        assert length <= transfer.line_cost(size) <= length + 4
    assert transfer.line_cost(0) == 16
    assert transfer.line_cost(253, 254, 508) == 253 + 254 + 508 + 3 * 16 + 0 + 1 + 2
    assert transfer.line_cost() == 0


def test_what_a_frame_carries_fits_in_it() -> None:
    for frame_max in range(protocol.FRAME_MIN, 1200):
        most = protocol.payload_max(frame_max)
        frame = Frame(0x0101, 0x0101, Kind.REPLY, Command.ECHO, b"\x01" * most)
        assert frame_max - 2 <= len(encode(frame)) <= frame_max
        assert transfer.frame_bytes(most) <= frame_max


def test_two_frames_share_a_window() -> None:
    assert transfer.two_frames(2048, 512) == 512
    assert transfer.two_frames(1024, 512) == 512
    assert transfer.two_frames(1023, 512) == 511
    assert transfer.two_frames(600, 512) == 300
    assert transfer.two_frames(10, 512) == protocol.FRAME_MIN


def test_times_on_the_slowest_line() -> None:
    """9600 baud with ten bits a byte; an operation has a minute and four times its bytes."""
    assert transfer.slowest_s(960) == 1.0
    assert transfer.operation_limit_s(0) == 60.0
    assert transfer.operation_limit_s(2400) == 70.0


@pytest.mark.parametrize("command", protocol.REQUESTS)
def test_fixed_bytes_are_all_fields_but_the_last(command: Command) -> None:
    message = protocol.REQUESTS[command]
    try:
        whole = message.sizeof()
    except SizeofError:
        # It ends in bytes: those that it has without them.
        fields = {part.name: b"" if part is message.subcons[-1] else 0 for part in message.subcons}
        assert protocol.fixed_bytes(message) == len(messages.build(message, fields))
    else:
        last = message.subcons[-1:]
        assert protocol.fixed_bytes(message) == whole - sum(part.sizeof() for part in last)


# -- windows ---------------------------------------------------------------------------------------


def part(request: int, reply: int, start: int = 0, end: int = 1) -> Part:
    return Part(start, end, {}, request, reply)


def test_a_part_is_one_way_where_either_side_is_short() -> None:
    for request, reply, is_one_way in (
        (32, 500, True),
        (500, 32, True),
        (33, 33, False),
        (500, 33, False),
        (0, 0, True),
    ):
        assert part(request, reply).is_one_way == is_one_way


def test_a_window_has_room_for_requests_up_to_its_size() -> None:
    one = part(84, 1)
    cost = one.request_cost
    window = Window(3 * cost, 128, [])
    assert window.both == 0
    taken = 0
    while window.has_room(one):
        window.add(one)
        taken += 1
    assert taken == 3
    assert window.both == 3 * one.cost
    # A byte less has room for two; what is under way at first counts.
    less = Window(3 * cost - 1, 128, [one])
    assert less.has_room(one)
    less.add(one)
    assert not less.has_room(one)


def test_alone_a_part_always_has_room() -> None:
    huge = part(5000, 5000)
    assert Window(256, 128, []).has_room(huge)
    assert not Window(256, 128, [part(1, 1)]).has_room(huge)


def test_answers_fill_two_frames_or_the_window() -> None:
    read = part(12, 400)
    for window, frame_max, most in ((256, 128, 2048), (256, 2000, 4000), (8192, 128, 8192)):
        made = Window(window, frame_max, [])
        count = 0
        while made.has_room(read):
            made.add(read)
            count += 1
        requests = window // read.request_cost
        assert count == min(most // read.answer_cost, requests)


def test_two_long_sides_share_the_window() -> None:
    echo = part(100, 101)
    made = Window(3 * echo.cost, 4096, [echo])
    assert made.has_room(echo)
    made.add(echo)
    assert made.has_room(echo)
    made.add(echo)
    assert not made.has_room(echo)
    assert not Window(2 * echo.cost - 1, 4096, [echo]).has_room(echo)


# -- transfers -------------------------------------------------------------------------------------


def a_transfer(kind: type[Transfer], size: int, most: int = 10) -> Transfer:
    return kind(Command.READ, size, most, lambda start, end: part(9, 1, start, end))


@pytest.mark.parametrize("seed", range(30))
def test_all_bytes_arrive_whatever_is_lost(seed: int) -> None:
    """In any order, twice or late, with chunks of any size: each byte is new once."""
    dice = random.Random(seed)
    kind = InOrder if seed % 3 == 0 else Transfer
    size = dice.randrange(0, 60)
    one = a_transfer(kind, size)
    flights: list[Part] = []
    late: list[Part] = []
    arrived: set[int] = set()
    for _ in range(2000):
        if (following := one.next_part(dice.randrange(1, 14))) is not None and dice.random() < 0.6:
            assert 0 < following.end - following.start <= 10
            if kind is InOrder:
                assert not flights
                assert following.start == len(arrived)
            # What is under way or has arrived is not sent again.
            for other in flights:
                assert following.end <= other.start or other.end <= following.start
            assert not arrived & set(range(following.start, following.end))
            one.sent(following)
            flights.append(following)
        elif flights and dice.random() < 0.5:
            lost = flights.pop(dice.randrange(len(flights)))
            one.lost(lost)
            late.append(lost)
        elif flights or late:
            source = flights if flights and (not late or dice.random() < 0.7) else late
            if kind is InOrder and source is late:
                continue
            got = source.pop(dice.randrange(len(source)))
            bytes_ = set(range(got.start, got.end))
            assert one.arrived(got) == bool(bytes_ - arrived)
            arrived |= bytes_
            # What is under way beside a late answer is not expected any more, or counts again.
    while (following := one.next_part(7)) is not None or flights:
        if following is not None:
            one.sent(following)
            flights.append(following)
        got = flights.pop(0)
        one.arrived(got)
        arrived |= set(range(got.start, got.end))
    assert arrived == set(range(size))


def test_what_is_lost_comes_before_the_rest() -> None:
    one = a_transfer(Transfer, 30)
    sent = []
    for _ in range(2):
        following = one.next_part(10)
        assert following is not None
        one.sent(following)
        sent.append(following)
    one.lost(sent[1])
    one.lost(sent[0])
    order = []
    while (following := one.next_part(10)) is not None:
        one.sent(following)
        order.append((following.start, following.end))
    assert order == [(0, 10), (10, 20), (20, 30)]


def test_a_part_of_what_was_lost_may_have_arrived() -> None:
    one = a_transfer(Transfer, 20, most=20)
    whole = one.next_part(20)
    assert whole is not None
    one.sent(whole)
    one.lost(whole)
    middle = part(9, 1, 5, 8)
    assert one.arrived(middle)
    assert not one.arrived(middle)
    order = []
    while (following := one.next_part(20)) is not None:
        one.sent(following)
        order.append((following.start, following.end))
    assert order == [(0, 5), (8, 20)]
    # Of the whole only what has not arrived is asked for again.
    one.lost(whole)
    again = one.next_part(20)
    assert again is not None
    assert (again.start, again.end) == (0, 5)


def test_in_order_one_part_is_under_way() -> None:
    one = a_transfer(InOrder, 25)
    first = one.next_part(10)
    assert first is not None
    one.sent(first)
    assert one.next_part(10) is None
    one.lost(first)
    again = one.next_part(10)
    assert again == first
    one.sent(first)
    assert one.arrived(first)
    following = one.next_part(10)
    assert following is not None
    assert (following.start, following.end) == (10, 20)
    one.sent(following)
    # An answer that comes again ends the wait too.
    assert not one.arrived(first)


# -- the pace --------------------------------------------------------------------------------------


def test_losses_are_forgotten_by_and_by() -> None:
    """A sixteenth at each exchange, up to a twentieth of one."""
    pace = Pace()
    assert not pace.is_lossy
    pace.lost(part(9, 1))
    assert pace.is_lossy
    count = 0
    while pace.is_lossy:
        pace.answered(part(9, 1), 0.01, 100)
        count += 1
    assert 0.9375**count <= 0.05 < 0.9375 ** (count - 1)


def test_waits_have_a_least_and_a_most() -> None:
    fast = Pace()
    for _ in range(300):
        fast.answered(part(9, 1), 1e-6, 100)
    assert fast.retry_s(0) == pytest.approx(0.05, rel=1e-3)
    fast.lost(part(9, 1))
    assert fast.retry_s(0) == pytest.approx(0.01, rel=1e-3)
    slow = Pace()
    for _ in range(300):
        slow.answered(part(9, 1), 3.0, 100)
    # Beside the time of its bytes, 0.03 s each, four times.
    assert slow.retry_s(0) == pytest.approx(0.2)
    assert slow.retry_s(10) == pytest.approx(0.2 + 4 * 0.03 * 10)
    assert slow.exchange_s == 0.2


def test_patience_grows_up_to_eight_times() -> None:
    pace = Pace()
    before = pace.retry_s(0)
    factors = []
    for _ in range(5):
        pace.silent()
        factors.append(pace.retry_s(0) / before)
    assert factors == pytest.approx([2, 4, 8, 8, 8])


def test_chunks_are_short_on_a_lossy_line() -> None:
    pace = Pace()
    big = part(1009, 1, 0, 1000)
    for _ in range(3):
        pace.lost(big)
    # At once half of what does not come through, and half of that again.
    assert transfer.CHUNK_MIN <= pace.chunk <= 250
    for _ in range(10):
        pace.lost(part(pace.chunk + 9, 1, 0, pace.chunk))
    assert pace.chunk == transfer.CHUNK_MIN == 16
    # Twice at each answer, and without limit once the losses are forgotten.
    sizes = []
    for _ in range(120):
        chunk = min(pace.chunk, 4000)
        pace.answered(part(chunk + 9, 1, 0, chunk), 0.01, chunk)
        sizes.append(pace.chunk)
    assert sizes[0] == 32
    assert all(after <= 2 * before for before, after in zip(sizes, sizes[1:], strict=False))
    assert sizes[-1] == 1 << 16


# -- memory beside the line ------------------------------------------------------------------------

TENSOR = TensorRef(0, Tensors.INPUT, 0)


class Board:
    """The memory of a board, as a probe sees it; ``seen`` is what its firmware does."""

    def __init__(self, nbytes: int = 1 << 17) -> None:
        self.memory = bytearray(nbytes)
        self.seen = self.memory
        self.checks = 0
        self.asked: list[int] = []
        self.written: list[int] = []

    def read(self, address: int, nbytes: int) -> bytes:
        return bytes(self.memory[address : address + nbytes])

    def write(self, address: int, data: bytes) -> None:
        self.written.append(len(data))
        self.memory[address : address + len(data)] = data

    def read_by_line(self, tensor: TensorRef, nbytes: int) -> bytes:
        self.asked.append(nbytes)
        return bytes(self.seen[64 : 64 + nbytes])

    def check(self) -> None:
        self.checks += 1


def a_bulk(board: Board, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Bulk:
    """Return access to a tensor at 64, in a region up to 100,064."""
    table = SimpleNamespace(address=lambda tensor, nbytes: 64)
    monkeypatch.setattr(bulk_module, "TensorTable", lambda elf: table)
    region: Any = SimpleNamespace(name="ram", origin=64, end=100_064)
    return Bulk(board, Path("firmware.elf"), [region], **options)


def test_a_region_is_proven_once_for_each_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    bulk = a_bulk(board, monkeypatch)
    data = bytes(range(200))
    assert bulk.write(board, TENSOR, data)
    assert board.memory[64:264] == data
    # As many random bytes first, read back by the firmware; then it has to answer.
    assert (board.written, board.asked, board.checks) == ([200, 200], [200], 1)
    assert bulk.write(board, TENSOR, data[::-1])
    assert (board.written[2:], board.asked, board.checks) == ([200], [200], 2)
    # Reading is proven too.
    assert bulk.read(board, TENSOR, 200) == data[::-1]
    assert (board.asked, board.checks) == ([200], 3)
    assert bulk.is_used


def test_a_proof_has_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 KiB, which the line transfers in a second or so."""
    board = Board()
    assert a_bulk(board, monkeypatch).write(board, TENSOR, bytes(40_000))
    assert (board.written, board.asked) == ([32768, 40_000], [32768])
    board = Board()
    board.memory[64:40_064] = bytes(range(1, 251)) * 160
    assert a_bulk(board, monkeypatch).read(board, TENSOR, 40_000) == bytes(board.memory[64:40_064])
    assert board.asked == [32768]


def used(bulk: Bulk, board: Board, use: str) -> object:
    """Write to the tensor or read it; what comes back tells whether memory was used."""
    if use == "write":
        return bulk.write(board, TENSOR, bytes(100)) or None
    return bulk.read(board, TENSOR, 100)


@pytest.mark.parametrize("use", ["write", "read"])
def test_unseen_memory_is_sent_over_the_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, use: str
) -> None:
    board = Board()
    board.seen = bytearray(b"\x07" * 300)
    board.memory[64:164] = bytes(range(100))
    bulk = a_bulk(board, monkeypatch)
    assert used(bulk, board, use) is None
    assert not bulk.is_used
    assert board.checks == 0
    assert "tensors now use the serial line" in caplog.text
    # From then on nothing is tried.
    board.asked.clear()
    assert used(bulk, board, "read") is used(bulk, board, "write") is None
    assert board.asked == []
    board.memory[64:164] = bytes(range(100))
    demanded = a_bulk(board, monkeypatch, is_demanded=True)
    with pytest.raises(LinkError, match="the firmware "):
        used(demanded, board, use)


def test_equal_bytes_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    bulk = a_bulk(board, monkeypatch)
    assert bulk.read(board, TENSOR, 100) == bytes(100)
    assert bulk.read(board, TENSOR, 100) == bytes(100)
    assert board.asked == [100, 100]
    # Where the line has brought a part alone, it brings the rest.
    assert bulk.read(board, TENSOR, 40_000) is None
    assert bulk.is_used
    board.memory[64] = 1
    assert bulk.read(board, TENSOR, 100) == b"\1" + bytes(99)
    board.asked.clear()
    assert bulk.read(board, TENSOR, 100) == b"\1" + bytes(99)
    assert board.asked == []


def test_reading_another_memory_is_no_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As from a cache: what was written arrived, but it is not read back."""
    board = Board()
    bulk = a_bulk(board, monkeypatch)
    real = board.read
    monkeypatch.setattr(board, "read", lambda address, nbytes: bytes(nbytes))
    assert bulk.write(board, TENSOR, bytes(range(50)))
    monkeypatch.setattr(board, "read", real)
    board.asked.clear()
    assert bulk.read(board, TENSOR, 50) == bytes(range(50))
    assert board.asked == [50]


def test_a_tensor_lies_within_one_region(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    bulk = a_bulk(board, monkeypatch)
    assert bulk._place(TENSOR, 100_000) == (64, "ram")
    assert bulk._place(TENSOR, 100_001) is None
    assert bulk._place(TENSOR, 0) is None
    for origin, is_inside in ((64, True), (65, False)):
        region: Any = SimpleNamespace(name="ram", origin=origin, end=1000)
        bulk._regions = [region]
        assert (bulk._place(TENSOR, 10) is not None) == is_inside
    bulk._tensors = SimpleNamespace(address=lambda tensor, nbytes: None)  # type: ignore[assignment]
    assert bulk.read(board, TENSOR, 10) is None
    assert not bulk.write(board, TENSOR, bytes(10))
