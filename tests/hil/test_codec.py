"""The frame codecs, Python's and C's, against one table and against each other."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import construct
import pytest
import rpc_board
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_files import vector_file

from hil.link import protocol
from hil.link.codec import Bad, BadFrame, Decoder, Frame, cobs_decode, cobs_encode, decode, encode
from hilc.support.toml import tomllib

#: ``enum hil_frame_error``.
_C_ERRORS = {-1: Bad.TOO_LONG, -2: Bad.COBS, -3: Bad.SHORT, -4: Bad.CRC}

Found = list[Frame | tuple[Bad, int]]


@dataclass(frozen=True)
class Case:
    name: str
    wire: bytes
    expect: Found
    frame_max: int
    encodes: bool


def _bytes(text: str) -> bytes:
    """``"00 11*3"`` as bytes."""
    out = b""
    for word in text.split():
        byte, _, count = word.partition("*")
        out += bytes.fromhex(byte) * int(count or 1)
    return out


def _expected(row: dict[str, Any]) -> Frame | tuple[Bad, int]:
    if "bad" in row:
        return Bad[row["bad"]], row["size"]
    return Frame(row["session"], row["seq"], row["kind"], row["code"], _bytes(row["payload"]))


def _cases() -> list[Case]:
    table = tomllib.loads(vector_file("frames.toml").read_text(encoding="ascii"))
    return [
        Case(
            row["name"],
            _bytes(row["wire"]),
            [_expected(e) for e in row["expect"]],
            row.get("frame_max", 128),
            row.get("encodes", False),
        )
        for row in table["case"]
    ]


CASES = _cases()
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def _feed(decoder: Decoder, *parts: bytes) -> Found:
    found = [item for part in parts for item in decoder.feed(part)]
    return [(i.reason, i.size) if isinstance(i, BadFrame) else i for i in found]


# -- Python ------------------------------------------------------------------------------------


@each_case
def test_decode(case: Case) -> None:
    assert _feed(Decoder(case.frame_max), case.wire) == case.expect


@each_case
def test_decode_is_the_same_for_all_splits(case: Case) -> None:
    for at in range(len(case.wire) + 1):
        found = _feed(Decoder(case.frame_max), case.wire[:at], case.wire[at:])
        assert found == case.expect, f"split at {at}"
    bytewise = [case.wire[i : i + 1] for i in range(len(case.wire))]
    assert _feed(Decoder(case.frame_max), *bytewise) == case.expect


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_encode(case: Case) -> None:
    (frame,) = case.expect
    assert isinstance(frame, Frame)
    assert encode(frame) == case.wire


def test_table_has_both_kinds_of_case() -> None:
    assert sum(case.encodes for case in CASES) >= 10
    reasons = {item[0] for case in CASES for item in case.expect if isinstance(item, tuple)}
    assert reasons == set(Bad)


def test_bad_frame_keeps_what_was_received() -> None:
    (bad,) = Decoder(128).feed(b"panic: stack\n\0")
    assert bad == BadFrame(Bad.COBS, b"panic: stack\n", 13)


def test_memory_is_bounded() -> None:
    decoder = Decoder(128)
    for _ in range(1000):
        assert decoder.feed(b"\x55" * 1000) == []
    assert decoder.pending == 1_000_000
    (bad,) = decoder.feed(b"\0")
    assert isinstance(bad, BadFrame)
    assert (bad.reason, bad.size, len(bad.data)) == (Bad.TOO_LONG, 1_000_000, 126)


frames = st.builds(
    Frame,
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFF),
    st.integers(0, 0xFF),
    # Zeros and full blocks are what COBS treats differently.
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.integers(1, 260).map(lambda n: b"\0" * n),
            st.integers(250, 260).map(lambda n: b"\xa5" * n),
        ),
        max_size=5,
    ).map(b"".join),
)


@given(frames)
def test_round_trip(frame: Frame) -> None:
    wire = encode(frame)
    assert wire.count(b"\0") == 2
    assert Decoder().feed(wire) == [frame]


@given(st.binary(max_size=700).map(lambda data: data.replace(b"\xff", b"\0")))
def test_cobs_round_trip(data: bytes) -> None:
    coded = cobs_encode(data)
    assert b"\0" not in coded
    assert len(coded) <= len(data) + max(1, -(-len(data) // 254))
    assert cobs_decode(coded) == data


@given(frames, st.integers(1, 0xFF), st.data())
def test_a_changed_byte_is_never_the_same_frame(frame: Frame, change: int, data: Any) -> None:
    wire = bytearray(encode(frame))
    wire[data.draw(st.integers(1, len(wire) - 2))] ^= change
    assert frame not in Decoder().feed(bytes(wire))


@given(st.lists(st.binary(max_size=50), max_size=20), frames)
def test_noise_in_front_costs_nothing_behind(noise: list[bytes], frame: Frame) -> None:
    decoder = Decoder()
    for part in noise:
        decoder.feed(part)
    assert decoder.feed(encode(frame))[-1] == frame


def test_decoder_uses_the_protocols_header() -> None:
    header = {"session": 0x1234, "seq": 0xABCD, "kind": 1, "code": 9}
    body = protocol.HEADER.build(header) + b"data"
    crc = construct.Int32ul.build(zlib.crc32(body))
    assert decode(cobs_encode(body + crc)) == Frame(**header, payload=b"data")


# -- C -----------------------------------------------------------------------------------------


class CCodec:
    """``firmware_template/rpc/frame.c`` under the sanitizers."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _ask(self, question: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the C codec ended: see the sanitizer's message"
        return answer.strip()

    def decode(self, wire: bytes, frame_max: int) -> list[Frame | Bad]:
        found: list[Frame | Bad] = []
        for word in self._ask(f"D {frame_max - 2} {wire.hex()}").split():
            if word.startswith("-"):
                found.append(_C_ERRORS[int(word)])
            else:
                body = bytes.fromhex(word)
                header = protocol.HEADER.parse(body)
                payload = body[protocol.HEADER.sizeof() :]
                found.append(Frame(header.session, header.seq, header.kind, header.code, payload))
        return found

    def encode(self, frame: Frame, frame_max: int) -> bytes:
        header = protocol.HEADER.build(
            {"session": frame.session, "seq": frame.seq, "kind": frame.kind, "code": frame.code}
        )
        return bytes.fromhex(self._ask(f"E {frame_max} {(header + frame.payload).hex()}"))

    def close(self) -> int:
        self._process.communicate()
        return self._process.returncode


@pytest.fixture(scope="module")
def c_codec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CCodec]:
    program = tmp_path_factory.mktemp("codec") / "frames"
    codec = CCodec(rpc_board.compile_program("frames.c", "frame.c", output=program))
    yield codec
    assert codec.close() == 0


def _without_sizes(found: list[Any]) -> list[Frame | Bad]:
    return [item[0] if isinstance(item, tuple) else item for item in found]


@each_case
def test_c_decode(case: Case, c_codec: CCodec) -> None:
    assert c_codec.decode(case.wire, case.frame_max) == _without_sizes(case.expect)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_c_encode(case: Case, c_codec: CCodec) -> None:
    (frame,) = case.expect
    assert isinstance(frame, Frame)
    assert c_codec.encode(frame, case.frame_max) == case.wire


@pytest.mark.parametrize("frame_max", [128, 256, 257, 258, 512, 4096])
def test_c_takes_the_largest_payload(frame_max: int, c_codec: CCodec) -> None:
    """In the buffers that session.c has, whatever COBS makes of the bytes."""
    size = protocol.payload_max(frame_max)
    for payload in (b"\0" * size, b"\x7f" * size, (b"\x7f" * 253 + b"\0") * 20):
        frame = Frame(1, 2, 3, 4, payload[:size])
        wire = c_codec.encode(frame, frame_max)
        assert len(wire) <= frame_max
        assert wire == encode(frame)
        assert c_codec.decode(wire, frame_max) == [frame]


@pytest.mark.full
@settings(max_examples=300)
@given(frame=frames, noise=st.lists(st.one_of(frames.map(encode), st.binary(max_size=30))))
def test_c_finds_what_python_finds(frame: Frame, noise: list[bytes], c_codec: CCodec) -> None:
    wire = encode(frame)
    assert c_codec.encode(frame, len(wire) + 300) == wire
    stream = b"".join(noise) + wire[: len(wire) // 2] + wire
    assert c_codec.decode(stream, 300) == _without_sizes(_feed(Decoder(300), stream))
