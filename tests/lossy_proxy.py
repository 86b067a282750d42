"""A TCP proxy in front of a board's terminal that spoils frames, or single bytes, by a seed."""

from __future__ import annotations

import os
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import serial

Spoil = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Weather:
    """How likely each mishap is, for every frame in either direction; ``per_byte``: every byte."""

    lost: float = 0.0
    flipped: float = 0.0
    #: A byte goes missing.
    shortened: float = 0.0
    doubled: float = 0.0
    #: Only the first bytes of the frame come through.
    cut: float = 0.0
    #: The frame comes behind the one that follows it.
    swapped: float = 0.0
    #: A bit of it flips, it is lost, it comes twice, or another one comes before it.
    per_byte: float = 0.0
    #: Text appears in front of the frame.
    noise: float = 0.0
    #: Up to this long is every frame held back.
    delay_s: float = 0.0
    seed: int = 0


@dataclass
class _Direction:
    spoil: Spoil
    rest: bytes = b""
    frames: int = 0

    def take(self, data: bytes) -> list[bytes]:
        """What leaves the proxy: whole frames, one after the other."""
        *ended, self.rest = (self.rest + data).split(b"\0")
        out = []
        for part in ended:
            if part:
                self.frames += 1
                out.append(self.spoil(b"\0" + part + b"\0"))
        return out


@dataclass
class Proxy:
    """A running proxy; ``to_board`` and ``to_host`` are called with every frame."""

    url: str
    to_board: _Direction
    to_host: _Direction
    delay: Callable[[], float]
    _stop: threading.Event = field(default_factory=threading.Event)

    def serve(self, listener: socket.socket, path: str) -> None:
        line = serial.Serial(path, timeout=0)
        try:
            while not self._stop.is_set():
                ready, _, _ = select.select([listener], [], [], 0.05)
                if ready:
                    connection, _ = listener.accept()
                    # Two answers in a row would wait for an acknowledgement in between.
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with connection:
                        self._forward(connection, line.fileno())
        finally:
            line.close()

    def _forward(self, connection: socket.socket, line: int) -> None:
        while not self._stop.is_set():
            ready, _, _ = select.select([connection.fileno(), line], [], [], 0.05)
            try:
                if connection.fileno() in ready:
                    data = connection.recv(65536)
                    if not data:
                        return
                    for frame in self.to_board.take(data):
                        self._send(lambda rest: os.write(line, rest), frame)
                if line in ready:
                    for frame in self.to_host.take(os.read(line, 65536)):
                        self._send(connection.send, frame)
            except OSError:
                return

    def _send(self, send: Callable[[bytes], int], data: bytes) -> None:
        time.sleep(self.delay())
        while data:
            try:
                data = data[send(data) :]
            except BlockingIOError:
                time.sleep(0.001)

    def stop(self) -> None:
        self._stop.set()


def _spoiler(weather: Weather, dice: random.Random) -> Spoil:
    held = b""

    def spoil(frame: bytes) -> bytes:
        nonlocal held
        if dice.random() < weather.lost:
            return b""
        changed = bytearray(frame)
        if dice.random() < weather.flipped:
            changed[dice.randrange(len(frame))] ^= 1 << dice.randrange(8)
        if dice.random() < weather.shortened:
            del changed[dice.randrange(len(frame))]
        if dice.random() < weather.cut:
            del changed[dice.randrange(len(changed)) :]
        if weather.per_byte:
            changed = _noisy(changed, weather.per_byte, dice)
        copies = 2 if dice.random() < weather.doubled else 1
        noise = b"Guru Meditation\r\n" if dice.random() < weather.noise else b""
        whole = noise + bytes(changed) * copies
        if not held and dice.random() < weather.swapped:
            held = whole
            return b""
        whole, held = whole + held, b""
        return whole

    return spoil


def _noisy(data: bytearray, rate: float, dice: random.Random) -> bytearray:
    out = bytearray()
    for byte in data:
        mishap = dice.randrange(4) if dice.random() < rate else -1
        if mishap == 0:
            out.append(byte ^ 1 << dice.randrange(8))
        elif mishap == 1:
            continue
        elif mishap == 2:
            out += bytes((byte, byte))
        elif mishap == 3:
            out += bytes((dice.randrange(256), byte))
        else:
            out.append(byte)
    return out


def _unspoiled(frame: bytes) -> bytes:
    return frame


@contextmanager
def proxy(
    path: str,
    weather: Weather | None = None,
    *,
    to_board: Spoil = _unspoiled,
    to_host: Spoil = _unspoiled,
) -> Iterator[Proxy]:
    """In front of the terminal ``path``: random weather, or a function for each direction."""
    dice = random.Random(weather.seed if weather else 0)
    if weather is not None:
        # Each direction its own: they do not depend on which bytes happen to come first.
        to_board, to_host = (_spoiler(weather, random.Random(dice.random())) for _ in range(2))
    most_s = weather.delay_s if weather else 0.0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = Proxy(
            f"socket://127.0.0.1:{listener.getsockname()[1]}",
            _Direction(to_board),
            _Direction(to_host),
            lambda: dice.uniform(0, most_s) if most_s else 0.0,
        )
        thread = threading.Thread(target=running.serve, args=(listener, path))
        thread.start()
        try:
            yield running
        finally:
            running.stop()
            thread.join()
