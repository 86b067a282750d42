"""Garbage on the serial line of emulated boards, then a HELLO that must be answered."""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random

import numpy as np
from tiny_library import tiny_library

from hil.access import qemu
from hil.board import load_board
from hil.build import build
from hil.device import Device
from hil.link import protocol
from hil.link.client import Client
from hil.link.codec import Decoder, Frame, encode
from hil.link.line import Line, Link, open_line
from hil.link.protocol import Command, Kind, Status
from hilc.errors import HilError

#: For a HELLO after a burst, said again and again as hosts do.
ANSWER_S = 5.0
_AGAIN_S = 0.25


@dataclass(frozen=True)
class Silence:
    """What a burst broke, if it did."""

    bursts: int
    bytes: int
    slowest_s: float
    #: What went wrong at last; empty: nothing.
    why: str = ""


def burst(dice: Random) -> bytes:
    """Random bytes, or frames that are right, nearly right or neither."""
    kind = dice.randrange(8)
    if kind == 0:
        return dice.randbytes(dice.randrange(1, 3000))
    if kind == 1:  # no delimiter, for longer than a frame
        return bytes(dice.randrange(1, 256) for _ in range(dice.randrange(1, 3000)))
    if kind == 2:
        return bytes(dice.choice((0, 1, 0xFF)) for _ in range(dice.randrange(1, 600)))
    if kind == 3:
        return b"Guru Meditation Error: Core 0 panic'ed\r\n" * dice.randrange(1, 40)
    frames = b"".join(encode(_frame(dice)) for _ in range(dice.randrange(1, 12)))
    return frames if kind == 4 else _spoiled(frames, dice)


def _frame(dice: Random) -> Frame:
    """A request, mostly one that a board knows, in a session that may be open."""
    small = (0, 0, 0, 1, 2, 0x7F, 0xFF, 0xFFFF)
    code = dice.choice((*Command, dice.randrange(256)))
    kind = dice.choice((Kind.REQUEST,) * 6 + (Kind.REPLY, dice.randrange(256)))
    session, seq = dice.choice((0, 1, 0x1111)), dice.choice(small)
    if code == Command.HELLO and dice.random() < 0.8:
        fields = {
            "version": dice.choice((0, 1, 2, 3)),
            "frame_max": dice.choice((*small, 128, 512)),
        }
        return Frame(session, seq, kind, code, protocol.REQUESTS[Command.HELLO].build(fields))
    size = dice.choice((0, 1, 3, 4, 5, 7, 9, 11, dice.randrange(600)))
    payload = bytes(dice.choice((0, 0, 0, 1, 2, 0xFF, dice.randrange(256))) for _ in range(size))
    return Frame(session, seq, kind, code, payload)


def _spoiled(data: bytes, dice: Random) -> bytes:
    """What is left of ``data`` behind a bad line."""
    out = bytearray(data)
    for _ in range(dice.randrange(1, 6)):
        place = dice.randrange(len(out))
        match dice.randrange(5):
            case 0:
                out[place] ^= 1 << dice.randrange(8)
            case 1:
                out[place] = dice.randrange(256)
            case 2 if len(out) > 1:
                del out[place]
            case 3:
                out.insert(place, dice.randrange(256))
            case _:
                del out[place + 1 :]
    return bytes(out)


def attack(board_name: str, bursts: int, seed: int) -> Silence:
    """Send the bursts, a HELLO behind each, and ask for inferences at the end."""
    board = load_board(board_name)
    library = tiny_library("for (int i = 0; i < 4; ++i) { y[i] = x[i] + 1; }", cpu=board.cpu.name)
    firmware = build([library], board)
    dice = Random(seed)
    sent, slowest = 0, 0.0
    with qemu.start(board, firmware) as running:
        line = open_line(running.url)
        try:
            for number in range(bursts):
                noise = burst(dice)
                sent += len(noise)
                start = time.monotonic()
                try:
                    line.write(noise)
                    _hello(line, 2 + number % 60000, start + ANSWER_S)
                    running.alive()
                except (HilError, OSError) as error:
                    return Silence(number, sent, slowest, f"burst {number}: {error!r}")
                slowest = max(slowest, time.monotonic() - start)
            client = Client(Link(running.url, alive=running.alive, line=line))
            model = Device(client, [library])["tiny"]
            given = np.array([1, -2, 3, 2**30], np.int32)
            model.set_input(0, given)
            model.run()
            if not np.array_equal(model.get_output(0), given + 1):
                return Silence(bursts, sent, slowest, f"{model.get_output(0)} for {given}")
        except HilError as error:
            return Silence(bursts, sent, slowest, f"the inference at the end: {error!r}")
        finally:
            line.close()
    return Silence(bursts, sent, slowest)


def _hello(line: Line, session: int, deadline: float) -> None:
    """Say HELLO until the board answers it; TimeoutError if it does not."""
    fields = {"version": protocol.VERSION, "frame_max": protocol.FRAME_LIMIT}
    payload = protocol.REQUESTS[Command.HELLO].build(fields)
    # Nothing that was sent before has this number: an old answer is none to this HELLO.
    said = encode(Frame(session, 0xA55A, Kind.REQUEST, Command.HELLO, payload))
    decoder = Decoder()
    while time.monotonic() < deadline:
        line.write(said)
        again = min(deadline, time.monotonic() + _AGAIN_S)
        while time.monotonic() < again:
            for frame in decoder.feed(line.read()):
                if not isinstance(frame, Frame):
                    continue
                is_reply = (frame.session, frame.seq, frame.kind) == (session, 0xA55A, Kind.REPLY)
                if is_reply and frame.payload[:1] == bytes((Status.OK,)):
                    return
    raise TimeoutError("no answer to a HELLO")
