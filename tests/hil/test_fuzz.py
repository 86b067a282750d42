"""The firmware's server on a line that says anything, from the first byte after a start.

``tests/hil/rpc_board/fuzz.c`` runs the real sources under the sanitizers and looks after every
input whether a good HELLO is answered.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from rpc_board import fuzz_program

from hil.link import protocol
from hil.link.protocol import Command, Kind, Tensors

RAW, FRAME = 0, 1


def record(what: int, data: bytes) -> bytes:
    return bytes((what,)) + len(data).to_bytes(2, "little") + data


def request(command: Command, seq: int, *, session: int = 0x1111, **fields: object) -> bytes:
    """A record of a whole request."""
    header = {"session": session, "seq": seq, "kind": Kind.REQUEST, "code": command}
    body = protocol.HEADER.build(header) + protocol.REQUESTS[command].build(fields)
    return record(FRAME, body)


def hello(seq: int, frame_max: int, session: int = 0x1111) -> bytes:
    return request(
        Command.HELLO, seq, session=session, version=protocol.VERSION, frame_max=frame_max
    )


def read(seq: int, length: int, offset: int = 0) -> bytes:
    """From a tensor of 70,000 bytes."""
    place = {"model": 1, "list": Tensors.INPUT, "layer": 0, "index": 0}
    return request(Command.READ, seq, **place, offset=offset, length=length)


def run(seq: int, model: int = 0, repeat: int = 0xFFFF_FFFF) -> bytes:
    return request(Command.RUN, seq, model=model, repeat=repeat)


LAYERS = {"model": 0, "first": 0, "count": 3}
INPUTS = {
    "nothing": b"",
    "a session of a refused hello": hello(1, 127) + read(2, 0xFFFF),
    "no frame at all": hello(1, 0) + request(Command.ECHO, 2, data=b"\1" * 400),
    "a refused hello between good ones": hello(1, 512) + hello(2, 127, 0x2222) + read(3, 16),
    "a shorter frame in the same session": hello(1, 512) + hello(2, 128) + read(3, 400),
    "offsets that wrap": hello(1, 512) + read(2, 16, 0xFFFF_FFF8) + read(3, 0xFFFF, 1),
    "a run without an end": hello(1, 512) + run(2),
    "a run, asked for again": hello(1, 512) + run(2) + run(2) + run(1),
    "a run, noise": hello(1, 512) + run(2) + record(RAW, bytes(range(1, 256)) * 20),
    "a run, then a reset": hello(1, 512) + run(2) + request(Command.RESET, 3) + run(4),
    "a run, then layers": hello(1, 512) + run(2) + request(Command.RUN_LAYERS, 3, **LAYERS),
    "layers, then a run": hello(1, 512) + request(Command.RUN_LAYERS, 2, **LAYERS) + run(3),
    "a fault": hello(1, 512) + run(2, model=2) + run(3) + read(4, 16),
}


@pytest.fixture(scope="module", params=[True, False], ids=["packed", "plain"])
def fuzz(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fuzz_program(tmp_path_factory.mktemp("fuzz") / "fuzz", packed=request.param)


def check(program: Path, *arguments: str | Path) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_what_once_broke_it(fuzz: Path, tmp_path: Path) -> None:
    paths = []
    for name, data in INPUTS.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    assert check(fuzz, *paths) == f"{len(INPUTS)} inputs\n"


@pytest.mark.parametrize("seed", range(3))
def test_random_lines(fuzz: Path, seed: int) -> None:
    assert check(fuzz, str(seed), "20000") == "20000 inputs\n"


def test_a_failure_leaves_the_input(fuzz: Path, tmp_path: Path) -> None:
    """A host that says HELLO for ever takes longer than the program allows."""
    crash = tmp_path / "crash"
    environment = {**os.environ, "HIL_FUZZ_CRASH": str(crash), "HIL_FUZZ_LOOKS": "0"}
    done = subprocess.run(
        [fuzz, "1", "1"], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 1
    assert "a good HELLO is not answered" in done.stderr
    data = crash.read_bytes()
    assert data[0] in (RAW, FRAME)
