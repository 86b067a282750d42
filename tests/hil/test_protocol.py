"""The committed header, other C definitions and the protocol's page say what protocol.py says."""

from __future__ import annotations

import importlib
import re
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from hil.link import header, protocol
from hil.link.codec import Frame, cobs_encode, encode
from hil.link.fault import FaultRecord
from hil.link.protocol import Command, Dtype, Event, Fault, Kind, Status
from hil.link.replies import LogReader
from hilc.ir import DTYPES
from hilc.support.resources import data_dir

INCLUDE = data_dir("firmware_template") / "include"
ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "reference" / "protocol.md"
reference: Any = importlib.import_module("reference")  # the script that writes the page's tables


def test_committed_header_is_generated() -> None:
    assert header.HEADER_PATH.read_text(encoding="ascii") == header.header_text()
    assert header.main(["--check"]) == 0


def test_check_notices_a_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "hil_protocol.h"
    monkeypatch.setattr(header, "HEADER_PATH", path)
    assert header.main(["--check"]) == 1
    assert header.main([]) == 0
    assert header.main(["--check"]) == 0
    path.write_text(path.read_text().replace("HIL_STATUS_OK = 0", "HIL_STATUS_OK = 1"))
    assert header.main(["--check"]) == 1


def _c_enum(path: Path, prefix: str) -> dict[str, int]:
    found = re.findall(rf"\b{prefix}(\w+) = (\d+)", path.read_text(encoding="ascii"))
    return {name: int(value) for name, value in found}


def _members(enum: type[IntEnum]) -> dict[str, int]:
    return {member.name: member.value for member in enum}


def test_dtypes_are_those_of_the_model_table() -> None:
    types = "|".join(Dtype.__members__)
    assert _c_enum(INCLUDE / "hil_model.h", f"HIL_(?={types})") == _members(Dtype)
    assert sorted(member.name.lower() for member in Dtype) == sorted(DTYPES)


def test_fault_kinds_are_those_of_the_fault_handler() -> None:
    assert _c_enum(INCLUDE / "hil_fault.h", "HIL_FAULT_") == _members(Fault)


def test_everything_has_a_message() -> None:
    assert set(protocol.REQUESTS) == set(protocol.REPLIES) == set(Command)
    assert set(protocol.EVENTS) == set(Event)
    assert set(protocol.STATUS_TEXT) == set(Status)


def test_payload_max_is_the_most_that_always_fits() -> None:
    around = protocol.HEADER.sizeof() + protocol.CRC.sizeof()
    for frame_max in range(protocol.FRAME_MIN, 1100):
        size = protocol.payload_max(frame_max)
        # Without a zero COBS adds the most.
        longest, too_long = (2 + len(cobs_encode(b"\1" * (n + around))) for n in (size, size + 1))
        assert longest <= frame_max < too_long


def test_small_frames_hold_every_fixed_part() -> None:
    room = protocol.payload_max(protocol.FRAME_MIN)
    values: dict[str, Any] = {"board": b"", "build_id": b"0" * 32, "text": b"", "data": b""}
    # The one field of a fixed size that is not a number.
    values["value"] = bytes(8)
    for message in (*protocol.REPLIES.values(), *protocol.EVENTS.values()):
        fields = {f.name: values.get(f.name, 0) for f in message.subcons if f.name != "status"}
        fields |= {n: b"" for n in ("name", "shape_and_name") if n in fields}
        if message is protocol.REPLIES[Command.RUN_LAYERS]:
            fields["ticks"] = [0]
        assert len(message.build(fields)) <= room


# -- the document ------------------------------------------------------------------------------


def _document_tables() -> dict[str, dict[str, int]]:
    """Rows ``| 1 | HELLO | ...`` of the document's tables, by the heading that they stand under."""
    tables: dict[str, dict[str, int]] = {}
    heading = ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif match := re.match(r"\| (\d+) \| `?([A-Z_0-9]+)`? \|", line):
            tables.setdefault(heading, {})[match[2]] = int(match[1])
    return tables


@pytest.mark.parametrize(
    ("heading", "enum"),
    [
        ("Kinds", Kind),
        ("Commands", Command),
        ("Events", Event),
        ("Statuses", Status),
        ("Element types", Dtype),
        ("Tensor lists", protocol.Tensors),
        ("Values", protocol.Value),
        ("Metadata lists", protocol.MetadataList),
        ("Fault kinds", Fault),
    ],
)
def test_document_lists_every_number(heading: str, enum: type[IntEnum]) -> None:
    assert _document_tables()[heading] == _members(enum)


def test_document_gives_the_layout_of_every_value() -> None:
    rows = re.findall(
        r"^\| \d+ \| `(\w+)` \| (.+) \|$",
        DOCUMENT.read_text(encoding="utf-8").partition("### Values")[2].partition("###")[0],
        re.MULTILINE,
    )
    expected = {value.name: reference.layout(message) for value, message in protocol.VALUES.items()}
    expected["STRING"] = "UTF-8 and a zero"
    assert {name: text.partition(":")[0] for name, text in rows} == expected


def _document_frames() -> list[tuple[Frame, bytes]]:
    """The worked examples: fenced blocks of ``field: value`` lines that end in ``wire:``."""
    text = DOCUMENT.read_text(encoding="utf-8")
    examples = []
    for block in re.findall(r"```frame\n(.*?)```", text, re.DOTALL):
        lines = (line.partition(":") for line in block.strip().splitlines())
        values = {key.strip(): value.strip() for key, _, value in lines}
        frame = Frame(
            int(values["session"], 16),
            int(values["seq"]),
            Kind[values["kind"]],
            (Event if values["kind"] == "EVENT" else Command)[values["code"]],
            bytes.fromhex(values["payload"]),
        )
        examples.append((frame, bytes.fromhex(values["wire"])))
    return examples


def test_document_has_examples_of_each_kind() -> None:
    assert {frame.kind for frame, _ in _document_frames()} == set(Kind)


@pytest.mark.parametrize(("frame", "wire"), _document_frames())
def test_document_example(frame: Frame, wire: bytes) -> None:
    assert encode(frame) == wire
    if frame.kind == Kind.EVENT:
        message = protocol.EVENTS[Event(frame.code)]
    elif frame.kind == Kind.REQUEST:
        message = protocol.REQUESTS[Command(frame.code)]
    elif frame.payload[0] == Status.OK:
        message = protocol.REPLIES[Command(frame.code)]
    else:
        message = protocol.ERROR
    assert message.build(message.parse(frame.payload)) == frame.payload


#: Bits of CFSR and HFSR by their names in Arm's manuals, and a word of what is said of each.
STATUS_BITS = [
    *(("cfsr", bit, word) for bit, word in {
        0: "fetch", 1: "data access", 3: "returning", 4: "entering", 5: "floating-point",
        8: "bus error at an instruction", 9: "at a data access", 10: "at an earlier",
        11: "bus error while returning", 12: "bus error while entering", 13: "bus error while sav",
        16: "undefined", 17: "invalid state", 18: "invalid return", 19: "coprocessor",
        20: "stack limit", 24: "unaligned", 25: "division",
    }.items()),
    ("hfsr", 1, "vector table"), ("hfsr", 30, "escalated"), ("hfsr", 31, "breakpoint"),
]  # fmt: skip


@pytest.mark.parametrize(("register", "bit", "word"), STATUS_BITS)
def test_each_bit_of_the_fault_registers_is_told(register: str, bit: int, word: str) -> None:
    """IACCVIOL is bit 0 of CFSR, DIVBYZERO bit 25; a reserved bit says nothing."""
    plain = {**dict.fromkeys(FaultRecord.__annotations__, 0), "kind": int(Fault.HARD)}
    assert word in str(FaultRecord(**{**plain, register: 1 << bit}))
    named = {other for of, other, _ in STATUS_BITS if of == register}
    silent = str(FaultRecord(**plain))
    assert all(
        str(FaultRecord(**{**plain, register: 1 << other})).startswith("hard fault; pc")
        for other in set(range(32)) - named
        if (register, other) not in (("cfsr", 7), ("cfsr", 15))
    ), silent


def test_a_text_of_many_events_is_cut_at_64_kb() -> None:
    """A board that never ends its text fills no memory."""
    reader = LogReader()
    build = protocol.EVENTS[Event.LOG].build
    for _ in range(200):
        assert reader.add(build({"more": True, "text": b"x" * 400})) is None
    assert reader.add(build({"more": False, "text": b"y"})) == "x" * 65536
    assert reader.add(build({"more": False, "text": b"z"})) == "z"
