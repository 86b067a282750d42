"""The firmware's server on a line that says anything, from the first byte after a start.

``tests/hil/rpc_board/fuzz.c`` runs the real sources under the sanitizers and looks after every
input whether a good HELLO is answered. libFuzzer goes on from the inputs of the corpus.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from corpora import unpacked
from fuzz_board import SERVERS, Server, coverage, fuzz, fuzz_program, has_libfuzzer, replay_program
from rpc_board import RPC_SOURCES
from uart_noise import attack

from hil.compat.tvm.runtime import CRT as FIRMWARE_CRT
from hil.link import protocol
from hil.link.protocol import Command, Kind, Tensors
from hilc.support.resources import data_dir

RAW, FRAME, PAUSE = 0, 1, 2
WHOLE = SERVERS[0]

needs_libfuzzer = pytest.mark.skipif(
    not has_libfuzzer(), reason="clang's libFuzzer is missing (Debian: libclang-rt-N-dev)"
)


def record(what: int, data: bytes = b"") -> bytes:
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
    "a run, a pause, a run": hello(1, 512) + run(2) + record(PAUSE) + run(3),
    "pauses in a frame": record(RAW, b"\0\3") + record(PAUSE) * 99 + hello(1, 512) + run(2),
}


@pytest.fixture(scope="module", params=SERVERS, ids=str)
def replay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_program(request.param, tmp_path_factory.mktemp("fuzz") / "replay")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    unpacked("device", folder)
    return folder


def check(program: Path, *arguments: str | Path) -> str:
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, errors="replace", timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_what_once_broke_it(replay: Path, tmp_path: Path) -> None:
    paths = []
    for name, data in INPUTS.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    assert check(replay, *paths) == f"{len(INPUTS)} inputs\n"


def test_the_corpus(replay: Path, corpus: Path) -> None:
    files = sorted(corpus.iterdir())
    assert len(files) > 500
    assert check(replay, *files) == f"{len(files)} inputs\n"


def test_a_silent_server_is_noticed(replay: Path, tmp_path: Path) -> None:
    """A host that says HELLO for ever takes longer than the program allows."""
    (tmp_path / "input").write_bytes(b"")
    environment = {**os.environ, "HIL_FUZZ_LOOKS": "0"}
    done = subprocess.run(
        [replay, tmp_path / "input"], capture_output=True, timeout=60, env=environment
    )
    assert done.returncode != 0
    assert b"a good HELLO is not answered" in done.stderr


def fuzz_for(server: Server, seconds: int, corpus: Path, place: Path) -> None:
    found, keep = place / "found", place / "keep"
    found.mkdir()
    keep.mkdir()
    program = fuzz_program(server, place / "fuzz")
    done = fuzz(program, server, [found, corpus], keep, seconds=seconds, seed=1)
    assert done.crash is None, done.output[-4000:]
    assert done.executions > 1000 * seconds


@pytest.mark.full
@needs_libfuzzer
def test_libfuzzer_goes_on_from_the_corpus(corpus: Path, tmp_path: Path) -> None:
    fuzz_for(WHOLE, 4, corpus, tmp_path)


@pytest.mark.full
@needs_libfuzzer
@pytest.mark.parametrize("server", SERVERS, ids=str)
def test_libfuzzer_for_a_minute_in_all(server: Server, corpus: Path, tmp_path: Path) -> None:
    fuzz_for(server, 15, corpus, tmp_path)


@pytest.mark.full
def test_the_corpus_reaches_the_server(corpus: Path, tmp_path: Path) -> None:
    reached = coverage(sorted(corpus.iterdir()), tmp_path)
    least = {**dict.fromkeys([*RPC_SOURCES, "state.c"], 1.0), "rpc_packed.c": 0.9}
    for name, lines in least.items():
        assert reached[name].lines >= lines * reached[name].of_lines, name


#: Mistakes that one makes in such code, each in the file's own words.
MISTAKES = {
    "a range that is not checked": (
        "tensors.c", "size <= tensor->nbytes - offset", "offset + size <= tensor->nbytes + 8U"),
    "an index that is not checked": (
        "tensors.c", "index >= tensors.count", "index > tensors.count"),
    "a layer beyond the last": ("tensors.c", "layer >= model->layer_count", "layer > 300U"),
    "an echo that is too long": ("commands.c", "if (size > room)", "if (size > 600)"),
    "a frame longer than the buffer": (
        "frame.c", "if (reader->size < reader->capacity)", "if (reader->size <= reader->capacity)"),
    "a block beyond the end": ("frame.c", "code > size - from", "code > size"),
    "a host that is never heard again": (
        "session.c", "if (from_session != session.id) {", "if (session.id == 0) {"),
    "a run that goes on for ever": (
        "run.c", "if (i > 0 && hil_session_is_interrupted())",
        "if (i == UINT32_MAX && hil_session_is_interrupted())"),
    "a string without an end": (
        "rpc_packed.c", "memchr(reader->at, 0, reader->left)", "memchr(reader->at, 0, 4096)"),
    "more arguments than there is room for": (
        "rpc_packed.c", "count > HIL_CALL_ARGUMENTS_MAX)", "count > 64)"),
    "a reply that is longer than the frame": (
        "rpc_packed.c", "length < most ? length : most);", "length < 999 ? length : most);"),
}  # fmt: skip


@pytest.mark.full
@needs_libfuzzer
@pytest.mark.parametrize("mistake", MISTAKES)
def test_libfuzzer_finds_mistakes(mistake: str, corpus: Path, tmp_path: Path) -> None:
    """Without the corpus, which the right server has brought forth."""
    name, right, wrong = MISTAKES[mistake]
    places = (data_dir("firmware_template") / "rpc", FIRMWARE_CRT)
    source = next(path for place in places if (path := place / name).is_file()).read_text()
    assert right in source
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / name).write_text(source.replace(right, wrong))
    for folder in ("found", "keep"):
        (tmp_path / folder).mkdir()
    program = fuzz_program(WHOLE, tmp_path / "fuzz", before=tmp_path / "src")
    done = fuzz(program, WHOLE, [tmp_path / "found"], tmp_path / "keep", runs=2_000_000, seconds=60)
    assert done.crash is not None


@pytest.mark.full
@pytest.mark.parametrize("board", ["mps2-an386", "lm3s6965evb", "microbit", "netduinoplus2"])
def test_garbage_on_an_emulated_uart(board: str) -> None:
    heard = attack(board, 100, seed=7)
    assert not heard.why, heard.why
