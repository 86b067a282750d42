"""A line that damages bytes looks like what it is: slow or broken, never like a hanging model."""

from __future__ import annotations

import random

import pytest
from campaigns import sampled
from lossy_proxy import Weather
from noise_campaign import digits_over_noise

from hil.errors import LinkError
from hil.link import protocol
from hil.link.codec import Frame, encode
from hil.link.protocol import Command, Kind
from hil.link.transfer import CHUNK_MIN, Pace, Part, Transfer, Window, frame_bytes, two_frames


@pytest.mark.parametrize(
    ("rate", "inferences"),
    sampled([(1e-3, 20), (1e-3, 60), (1e-2, 3), (1e-2, 8)], keep=[(1e-3, 20), (1e-2, 3)]),
)
def test_every_inference_is_right_on_a_noisy_line(
    rate: float, inferences: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with one run on the board: a sample of ``python tools/measure.py torture link``."""
    weather = Weather(per_byte=rate, mishaps=tuple(range(6)), seed=11)
    tally = digits_over_noise(weather, inferences)
    with capsys.disabled():
        print(f"[{tally}] ", end="")
    assert tally.error is None, tally.error
    assert (tally.right, tally.wrong) == (inferences, 0)
    assert tally.runs == inferences
    assert tally.repeated > 0  # else the line was clean, and nothing is shown


@pytest.mark.full  # It changes rarely, and takes long.
def test_a_line_that_damages_everything() -> None:
    tally = digits_over_noise(Weather(per_byte=0.2, seed=12), 3)
    assert isinstance(tally.error, LinkError), tally
    assert "hang" not in str(tally.error)
    assert tally.wrong == 0


# -- how transfers are cut ------------------------------------------------------------------------


def _part(start: int, end: int) -> Part:
    return Part(start, end, {}, 9 + end - start, 1)


def test_every_byte_moves_however_parts_are_lost() -> None:
    dice = random.Random(2)
    for size in (1, 2, 15, 500, 4000):
        transfer = Transfer(Command.WRITE, size, 300, _part)
        arrived = bytearray(size)
        under_way: list[Part] = []
        while (part := transfer.next_part(dice.randrange(1, 400))) is not None or under_way:
            if part is not None and dice.random() < 0.6:
                assert part.end - part.start <= 300
                transfer.sent(part)
                under_way.append(part)
            elif under_way:
                part = under_way.pop(dice.randrange(len(under_way)))
                is_lost = dice.random() < 0.5
                if is_lost:
                    transfer.lost(part)
                if not is_lost or dice.random() < 0.3:  # its answer may still come
                    transfer.arrived(part)
                    arrived[part.start : part.end] = b"\1" * (part.end - part.start)
        assert arrived == b"\1" * size


def test_chunks_shrink_with_losses_and_grow_back() -> None:
    pace = Pace()
    for _ in range(20):
        pace.lost(_part(0, pace.chunk))
    assert pace.chunk == CHUNK_MIN
    for _ in range(100):
        pace.answered(_part(0, pace.chunk), 0.01, 100)
    assert pace.chunk > 1 << 15


@pytest.mark.parametrize(
    ("rate", "least", "most"), [(1e-4, 300, 1500), (1e-3, 90, 400), (1e-2, 20, 90)]
)
def test_chunks_follow_the_damage(rate: float, least: int, most: int) -> None:
    """What moves the most bytes, with 26 others in each exchange: 497, 149 and 40."""
    dice, pace, sizes = random.Random(4), Pace(), []
    for _ in range(3000):
        part = _part(0, min(pace.chunk, 4000))
        if dice.random() < (1 - rate) ** part.cost:
            pace.answered(part, 0.01, part.cost)
        else:
            pace.lost(part)
        sizes.append(part.end)
    assert least < sorted(sizes[500:])[1250] < most


def test_an_answer_that_comes_again_is_no_progress() -> None:
    transfer = Transfer(Command.WRITE, 100, 60, _part)
    first = transfer.next_part(60)
    assert first is not None
    transfer.sent(first)
    transfer.lost(first)
    again = transfer.next_part(60)
    assert again == first
    transfer.sent(again)
    assert transfer.arrived(first)
    assert not transfer.arrived(again)
    # Lost, but its bytes have arrived: only the rest is requested.
    transfer.lost(again)
    rest = transfer.next_part(60)
    assert rest == _part(60, 100)


@pytest.mark.parametrize("payload", [0, 1, 240, 253, 254, 255, 508, 4000])
def test_the_longest_frame_of_a_payload_is_known(payload: int) -> None:
    """Short ones are always as long; zeros in the header may spare others a byte."""
    frame = Frame(0x0101, 0x0101, Kind.REQUEST, Command.ECHO, b"\1" * payload)
    spared = frame_bytes(payload) - len(encode(frame))
    assert spared == 0 if payload <= 240 else spared in (0, 1)


def test_two_frames_are_under_way_within_the_window() -> None:
    for frame_max, rx_max in ((128, 160), (256, 320), (512, 640), (1024, 2048), (4096, 8192)):
        size = two_frames(rx_max, frame_max)
        data = protocol.payload_max(size) - 9
        part = _part(0, data)
        assert frame_bytes(part.payload_bytes) <= size <= frame_max
        window = Window(rx_max, frame_max, [])
        count = 0
        while window.has_room(part):
            window.add(part)
            count += 1
        # A frame takes 128 bytes, whatever the buffer holds.
        assert count == (1 if rx_max < 256 else 2)
        assert count * frame_bytes(part.payload_bytes) <= rx_max


def test_both_directions_are_not_filled_at_once() -> None:
    """Neither side may have to wait for the other to listen."""
    echo = Part(0, 500, {}, 500, 501)
    window = Window(2048, 1024, [])
    window.add(echo)
    assert not window.has_room(echo)
    # Answers are not in the board's buffer: two of the longest are under way.
    for frame_max, rx_max in ((1024, 1280), (2048, 4096), (4096, 8192)):
        size = protocol.payload_max(frame_max)
        read = Part(0, size - 1, {}, 11, size)
        window = Window(rx_max, frame_max, [read])
        assert window.has_room(read)
        window.add(read)
        assert not window.has_room(read)


def test_a_lossy_line_is_asked_again_soon() -> None:
    clean, lossy = Pace(), Pace()
    for pace in (clean, lossy):
        for _ in range(50):
            pace.answered(_part(0, 64), 0.001, 100)
    lossy.lost(_part(0, 64))
    assert lossy.is_lossy
    assert not clean.is_lossy
    assert lossy.retry_s(100) < clean.retry_s(100) / 2
    for _ in range(80):
        lossy.answered(_part(0, 64), 0.001, 100)
    assert not lossy.is_lossy


def test_the_wait_follows_the_line() -> None:
    pace = Pace()
    first_s = pace.retry_s(100)
    for _ in range(50):
        pace.answered(_part(0, 64), 0.001, 100)
    assert pace.retry_s(100) < first_s / 3
    for _ in range(10):
        pace.silent()
    assert pace.retry_s(100) < 8 * first_s
