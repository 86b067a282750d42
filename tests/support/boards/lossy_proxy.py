"""A TCP proxy in front of a board's terminal that spoils frames, or single bytes, by a seed."""

from __future__ import annotations

import multiprocessing
import os
import random
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import serial

from hil.link.codec import Frame, decode
from hil.link.protocol import EVENTS, Event, Kind

Spoil = Callable[[bytes], bytes]
#: Pieces in which a paced line hands over what it carries.
_PIECE_S = 0.001
#: For a process of Python to start or end, also where many others want the cores.
_START_LIMIT_S = 180.0
#: What may happen to a byte that is hit; the last two to the rest of its frame, or all of it.
FLIP, LOSE, DOUBLE, INSERT, TRUNCATE, REORDER = range(6)


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
    #: One of ``mishaps``: a bit of it flips, it is lost, it comes twice, another one comes before
    #: it; nothing of the frame comes from it on, or the frame comes behind the one that follows.
    per_byte: float = 0.0
    mishaps: tuple[int, ...] = (FLIP, LOSE, DOUBLE, INSERT)
    #: Text appears in front of the frame.
    noise: float = 0.0
    #: Up to this long is every frame held back.
    delay_s: float = 0.0
    #: Ten bits a byte in each direction; 0: as fast as it goes.
    baud: int = 0
    seed: int = 0


@dataclass
class _Direction:
    spoil: Spoil
    #: Sees each frame before it is spoiled.
    watch: Callable[[bytes], None] = lambda frame: None
    #: Seconds that each frame, and each byte, takes.
    delay: Callable[[], float] = lambda: 0.0
    byte_s: float = 0.0
    rest: bytes = b""
    frames: int = 0
    #: What is on its way, with the time at which it has arrived.
    on_way: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self, data: bytes) -> None:
        """Let whole frames begin their way, one after the other."""
        *ended, self.rest = (self.rest + data).split(b"\0")
        for part in ended:
            if part:
                self.frames += 1
                frame = b"\0" + part + b"\0"
                self.watch(frame)
                self._begin(self.spoil(frame))

    def _begin(self, data: bytes) -> None:
        at = max(time.monotonic(), self.on_way[-1][0] if self.on_way else 0.0) + self.delay()
        # A paced line hands over a piece when its last byte has come.
        size = max(1, round(_PIECE_S / self.byte_s) if self.byte_s else len(data))
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            at += len(piece) * self.byte_s
            self.on_way.append((at, piece))

    def wait_s(self, most_s: float) -> float:
        """Return how long nothing arrives, up to ``most_s``."""
        return (
            max(0.0, min(most_s, self.on_way[0][0] - time.monotonic())) if self.on_way else most_s
        )

    def arrived(self) -> bytes:
        """Return what has arrived by now."""
        out, now = b"", time.monotonic()
        while self.on_way and self.on_way[0][0] <= now:
            out += self.on_way.popleft()[1]
        return out


@dataclass
class Proxy:
    """A running proxy; ``to_board`` and ``to_host`` are called with every frame."""

    url: str
    to_board: _Direction
    to_host: _Direction
    _stop: threading.Event = field(default_factory=threading.Event)

    def serve(self, listener: socket.socket, url: str) -> None:
        """Serve one host after the other; the board's end of the line stays open."""
        with _opened(url) as line:
            while not self._stop.is_set():
                ready, _, _ = select.select([listener], [], [], 0.05)
                if ready:
                    connection, _ = listener.accept()
                    # Two answers in a row would wait for an acknowledgement in between.
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with connection:
                        self._forward(connection, line)

    def _forward(self, connection: socket.socket, line: int) -> None:
        while not self._stop.is_set():
            wait_s = self.to_host.wait_s(self.to_board.wait_s(0.05))
            ready, _, _ = select.select([connection.fileno(), line], [], [], wait_s)
            try:
                if connection.fileno() in ready:
                    data = connection.recv(65536)
                    if not data:
                        return
                    self.to_board.take(data)
                if line in ready:
                    self.to_host.take(os.read(line, 65536))
                self._send(lambda rest: os.write(line, rest), self.to_board.arrived())
                self._send(connection.send, self.to_host.arrived())
            except OSError:
                return

    def _send(self, send: Callable[[bytes], int], data: bytes) -> None:
        while data and not self._stop.is_set():
            try:
                data = data[send(data) :]
            except BlockingIOError:
                time.sleep(0.001)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def _opened(url: str) -> Iterator[int]:
    """Open a terminal, ``socket://HOST:PORT`` or ``unix://PATH``."""
    if url.startswith("socket://"):
        host, _, port = url.removeprefix("socket://").partition(":")
        with socket.create_connection((host, int(port)), 5) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            yield connection.fileno()
    elif url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(url.removeprefix("unix://"))
            connection.setblocking(False)
            yield connection.fileno()
    else:
        with serial.Serial(url, timeout=0) as terminal:
            yield terminal.fileno()


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
        is_late = False
        if weather.per_byte:
            changed, is_late = _noisy(changed, weather, dice)
        copies = 2 if dice.random() < weather.doubled else 1
        noise = b"Guru Meditation\r\n" if dice.random() < weather.noise else b""
        whole = noise + bytes(changed) * copies
        if not held and (dice.random() < weather.swapped or is_late):
            held = whole
            return b""
        whole, held = whole + held, b""
        return whole

    return spoil


def _noisy(data: bytearray, weather: Weather, dice: random.Random) -> tuple[bytearray, bool]:
    """Return what comes of a frame, and whether it comes behind the next one."""
    out = bytearray()
    is_late = False
    for byte in data:
        is_hit = dice.random() < weather.per_byte
        mishap = weather.mishaps[dice.randrange(len(weather.mishaps))] if is_hit else None
        if mishap == FLIP:
            out.append(byte ^ 1 << dice.randrange(8))
        elif mishap == LOSE:
            continue
        elif mishap == DOUBLE:
            out += bytes((byte, byte))
        elif mishap == INSERT:
            out += bytes((dice.randrange(256), byte))
        elif mishap == TRUNCATE:
            break
        else:
            is_late |= mishap == REORDER
            out.append(byte)
    return out, is_late


def _unspoiled(frame: bytes) -> bytes:
    return frame


class RunCounter:
    """Counts the runs that a board has begun, by what it says at its end of the line.

    Each execution of RUN or RUN_LAYERS begins with BUSY of nothing done; an answer that is sent
    again has none.
    """

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, frame: bytes) -> None:
        found = decode(frame[1:-1])
        if isinstance(found, Frame) and (found.kind, found.code) == (Kind.EVENT, Event.BUSY):
            self.runs += EVENTS[Event.BUSY].parse(found.payload).done == 0


@contextmanager
def proxy(
    url: str,
    weather: Weather | None = None,
    *,
    to_board: Spoil = _unspoiled,
    to_host: Spoil = _unspoiled,
    watch: Callable[[bytes], None] = lambda frame: None,
) -> Iterator[Proxy]:
    """In front of the terminal or socket ``url``: random weather, or a function for each direction.

    ``watch`` sees what the board says, as it says it.
    """
    dice = random.Random(weather.seed if weather else 0)
    if weather is not None:
        # Each direction its own: they do not depend on which bytes happen to come first.
        to_board, to_host = (_spoiler(weather, random.Random(dice.random())) for _ in range(2))
    most_s = weather.delay_s if weather else 0.0
    byte_s = 10 / weather.baud if weather and weather.baud else 0.0

    def delay() -> float:
        return dice.uniform(0, most_s) if most_s else 0.0

    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = Proxy(
            f"socket://127.0.0.1:{listener.getsockname()[1]}",
            _Direction(to_board, delay=delay, byte_s=byte_s),
            _Direction(to_host, watch, delay, byte_s),
        )
        thread = threading.Thread(target=running.serve, args=(listener, url))
        thread.start()
        try:
            yield running
        finally:
            running.stop()
            thread.join()


@dataclass
class ProxyProcess:
    """A proxy in a process of its own, which does not wait for this one's interpreter."""

    url: str
    #: Runs that the board has begun; known when the proxy has ended.
    runs: int = 0


@contextmanager
def proxy_process(url: str, weather: Weather) -> Iterator[ProxyProcess]:
    """Like :func:`proxy`, with the board's runs counted."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(url, weather, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(_START_LIMIT_S), "the proxy did not start"
        running = ProxyProcess(ours.recv())
        yield running
        ours.send(None)
        assert ours.poll(_START_LIMIT_S), "the proxy did not end"
        running.runs = ours.recv()
        process.join(120)
    finally:
        process.kill()
        process.join()
        ours.close()


def _serve(url: str, weather: Weather, to_parent: Connection) -> None:
    counter = RunCounter()
    with proxy(url, weather, watch=counter) as running:
        to_parent.send(running.url)
        to_parent.recv()
    to_parent.send(counter.runs)
