"""Inferences over a line that damages bytes: how many are right, what it costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lossy_proxy import Weather, proxy

import hilc
from hil.board import load_board
from hil.build import build
from hil.device import Device
from hil.link.client import Client
from hil.link.line import Link
from hil.oracle import reference_of
from hil.runners import native
from hilc.errors import HilError

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"


@dataclass(frozen=True)
class Tally:
    """What became of the inferences."""

    right: int
    wrong: int
    seconds: float
    #: Requests, and those of them that were repetitions.
    requests: int
    repeated: int
    #: Why it ended early; None where all were done.
    error: HilError | None


def digits_over_noise(weather: Weather, inferences: int) -> Tally:
    """Runs the digits model on the board ``native`` behind a line with ``weather``.

    There is no recovery: the first error ends it.
    """
    board = load_board("native")
    library = hilc.compile(
        DIGITS / "digits.tflite", cpu=board.cpu.name, pools="external", io_in_pool=True
    )
    (module,) = library.modules
    images = np.load(DIGITS / "digits_test.npz")["image"]
    samples = [images[index % len(images)][np.newaxis] for index in range(inferences)]
    reference = reference_of(library, module)
    name = module.outputs[0].name
    known = [
        reference.values(index, {"image": images[index][np.newaxis]})[name]
        for index in range(min(inferences, len(images)))
    ]
    right = wrong = 0
    error = None
    client = None
    firmware = build([library], board)
    with native.start(board, firmware) as running, proxy(running.url, weather) as line:
        link = Link(line.url, alive=running.alive)
        start = time.monotonic()
        try:
            client = Client(link, build_id=firmware.build_id, elf=firmware.elf)
            model = Device(client, [library])[module.name]
            for index, sample in enumerate(samples):
                model.set_input("image", sample)
                model.run()
                equal = np.array_equal(model.get_output(0), known[index % len(known)])
                right, wrong = right + equal, wrong + (not equal)
        except HilError as caught:
            error = caught
        finally:
            link.close()
        seconds = time.monotonic() - start
    requests, repeated = (client.requests, client.repeated) if client else (0, 0)
    return Tally(right, wrong, seconds, requests, repeated, error)
