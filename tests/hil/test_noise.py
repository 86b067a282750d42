"""A line that damages bytes looks like what it is: slow or broken, never like a hanging model."""

from __future__ import annotations

import random

import pytest
from campaigns import sampled
from lossy_proxy import Weather
from noise_campaign import digits_over_noise
from waiting import bound

from hil.errors import LinkError
from hil.link.protocol import Command
from hil.link.transfer import CHUNK_MIN, Pace, Part, Transfer


@pytest.mark.parametrize(
    ("rate", "inferences"),
    sampled([(1e-3, 20), (1e-3, 60), (1e-2, 3), (1e-2, 8)], keep=[(1e-3, 20), (1e-2, 3)]),
)
def test_every_inference_is_right_on_a_noisy_line(
    rate: float, inferences: int, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = digits_over_noise(Weather(per_byte=rate, seed=11), inferences)
    with capsys.disabled():
        print(f"[{tally}] ", end="")
    assert tally.error is None, tally.error
    assert (tally.right, tally.wrong) == (inferences, 0)
    assert tally.repeated > 0  # else the line was clean, and nothing is shown
    assert tally.seconds < bound(30)


def test_a_line_that_damages_everything_is_a_link_error() -> None:
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


def test_the_wait_follows_the_line() -> None:
    pace = Pace()
    first_s = pace.retry_s(100)
    for _ in range(50):
        pace.answered(_part(0, 64), 0.001, 100)
    assert pace.retry_s(100) < first_s / 3
    for _ in range(10):
        pace.silent()
    assert pace.retry_s(100) < 8 * first_s
