"""Inferences over a line that damages bytes: how many are right, what it costs; how fast it is."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from lossy_proxy import ProxyProcess, Weather, proxy_process
from models import model_path, samples

import hil
import hilc
from hil.access import Running, start
from hil.board import Board, load_board
from hil.build import build
from hil.errors import HilError
from hil.firmware.build import Firmware
from hil.link.client import Client
from hil.link.line import Link
from hil.link.protocol import Tensors
from hil.link.tensors import TensorRef
from hil.oracle import reference_of
from hilc.artifact.library import ModelLibrary
from hilc.ir import Array

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
#: How often a board's runner is told to look after its line, as a link without a proxy does.
_LOOK_S = 0.01


@dataclass(frozen=True)
class Case:
    """A model on a board, inputs, and what comes of them."""

    board: Board
    library: ModelLibrary
    firmware: Firmware
    inputs: Sequence[Array]
    known: Sequence[Array]


@dataclass(frozen=True)
class Tally:
    """What became of the inferences."""

    right: int
    wrong: int
    seconds: float
    #: The longest inference, with whatever was repeated and recovered.
    longest_s: float
    #: Requests, and those of them that were repetitions.
    requests: int
    repeated: int
    #: Runs that the board has begun, and those that the host asked for.
    runs: int
    asked: int
    #: How often the board was recovered.
    recovered: int
    #: Why it ended early; None where all were done.
    error: HilError | None


def case(model: str, board_name: str = "native") -> Case:
    """Return ``digits`` or a model of MLPerf Tiny with up to 100 inputs."""
    board = load_board(board_name)
    path = DIGITS / "digits.tflite" if model == "digits" else model_path(model)
    library = hilc.compile(path, cpu=board.cpu.name, pools="external", io_in_pool=True)
    (module,) = library.modules
    if model == "digits":
        inputs = [i[np.newaxis] for i in np.load(DIGITS / "digits_test.npz")["image"][:100]]
    else:
        inputs = samples(model, 100)
    reference = reference_of(library, module)
    known = [
        reference.values(index, {module.inputs[0].name: value})[module.outputs[0].name]
        for index, value in enumerate(inputs)
    ]
    return Case(board, library, build([library], board), inputs, known)


@contextlib.contextmanager
def behind_a_proxy(board: Board, firmware: Firmware, weather: Weather) -> Iterator[ProxyProcess]:
    """Start a board whose line goes through a proxy."""
    stop = threading.Event()
    with start(board, firmware) as running, proxy_process(running.url, weather) as line:
        look = threading.Thread(target=_look_after, args=(running, stop))
        look.start()
        try:
            yield line
        finally:
            stop.set()
            look.join()


def _look_after(running: Running, stop: threading.Event) -> None:
    with contextlib.suppress(HilError):  # the host sees its end too
        while not stop.wait(_LOOK_S):
            running.alive()


def over_noise(case: Case, weather: Weather, inferences: int, *, recover: bool = False) -> Tally:
    """Run inferences behind a line with ``weather``; without recovery the first error ends it."""
    right = wrong = asked = 0
    longest_s = seconds = 0.0
    error = device = None
    (module,) = case.library.modules

    def infer(value: Array) -> Array:
        nonlocal asked
        assert device is not None
        model = device[module.name]
        model.set_input(0, value)
        asked += 1
        model.run()
        return model.get_output(0)

    with behind_a_proxy(case.board, case.firmware, weather) as line:
        begin = time.monotonic()
        try:
            way = hil.open(case.board, case.library, port=line.url, recover=recover)
            with way as device:
                for number in range(inferences):
                    at, start_s = number % len(case.inputs), time.monotonic()
                    value = case.inputs[at]
                    result = device.repeated(lambda value=value: infer(value))  # type: ignore[misc]
                    equal = np.array_equal(result, case.known[at])
                    right, wrong = right + equal, wrong + (not equal)
                    longest_s = max(longest_s, time.monotonic() - start_s)
        except HilError as caught:
            error = caught
        seconds = time.monotonic() - begin
    client = device._client if device is not None else None
    return Tally(
        *(right, wrong, seconds, longest_s),
        *((client.requests, client.repeated) if client else (0, 0)),
        *(line.runs, asked),
        len(device.recovery.attempts) if device is not None and device.recovery else 0,
        error,
    )


def digits_over_noise(weather: Weather, inferences: int) -> Tally:
    """Run the digits model on the board ``native`` behind a line with ``weather``."""
    return over_noise(case("digits"), weather, inferences)


@dataclass(frozen=True)
class Rate:
    """What share of a line's bytes was a tensor's, there and back."""

    written: float
    read: float


def bulk_rate(case: Case, baud: int, *, frame_max: int, rx_max: int, nbytes: int) -> Rate:
    """Move a tensor's first bytes to a board with these buffers and back over a clean line."""
    board = replace(case.board, frame_max=frame_max, rx_max=rx_max)
    firmware = build([case.library], board)
    data = np.random.default_rng(1).bytes(nbytes)
    tensor = TensorRef(0, Tensors.INPUT, 0)
    with behind_a_proxy(board, firmware, Weather(baud=baud)) as line:
        link = Link(line.url)
        try:
            client = Client(link, build_id=firmware.build_id)
            times = [time.monotonic()]
            client.write_by_line(tensor, data)
            times.append(time.monotonic())
            back = client.read_by_line(tensor, nbytes)
            times.append(time.monotonic())
        finally:
            link.close()
    assert back == data
    line_s = nbytes * 10 / baud
    return Rate(*(line_s / (end - begin) for begin, end in zip(times, times[1:], strict=False)))
