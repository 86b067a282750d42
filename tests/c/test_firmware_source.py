"""The firmware and the C run time read alike: fields say unit and limit, assertions the remedy."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Tables of the protocol are generated, and documented where they are made.
GENERATED = {"hil_protocol.h"}
#: The C runtime of microTVM's interface, and its connection to the ports.
CRT = ("compiler/hilc/compat/tvm/runtime/crt", "hil/compat/tvm/crt")
SOURCES = sorted(
    path
    for folder in ("firmware_template", *CRT)
    for path in (ROOT / folder).rglob("*.[ch]")
    if path.name not in GENERATED
)
HEADERS = sorted((ROOT / "firmware_template").rglob("*.h"))
#: What an assertion's text must have: what has to be so, or what to do.
REMEDY = re.compile(r"\bmust\b|^(raise|lower|change|give|define) ")
#: Registers of the core, which have no unit.
REGISTERS = re.compile(r"r\d+")
LONGEST, MEDIAN = 36, 12


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """The heads of a file's functions, and how many lines each has between its braces."""
    start, head = -1, ""
    for number, line in enumerate(path.read_text().split("\n")):
        if line and not line.startswith((" ", "}", "#", "/", "*")):
            head = line
        if line.endswith(") {") and (not line.startswith(" ") or start < 0):
            start = number
        elif line == "}" and start >= 0:
            yield head, number - start - 1
            start = -1


def test_functions_are_short() -> None:
    found = [(lines, path.name, head) for path in SOURCES for head, lines in functions(path)]
    assert len(found) > 200
    assert statistics.median(lines for lines, *_ in found) <= MEDIAN
    # A naked function is a list of instructions that saves registers, one a line.
    assert not [one for one in found if one[0] > LONGEST and "naked" not in one[2]]


def assertions(path: Path) -> Iterator[str]:
    text = path.read_text()
    for call in re.findall(r"(?:_Static_assert|HIL_CHECK_UART_CLOCK)\([^;]*?\);", text):
        parts = re.findall(r'"([^"]*)"', call)
        if parts:
            yield "".join(parts)
    yield from re.findall(r'^#error "(.*)"', text, re.MULTILINE)


def test_assertions_say_what_to_do() -> None:
    found = [(path.name, text) for path in SOURCES for text in assertions(path)]
    assert len(found) > 50
    assert not [one for one in found if not REMEDY.search(one[1])]


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.name)
def test_fields_are_described(path: Path) -> None:
    """Each field of a struct has a comment beside it or above."""
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", path.read_text(), re.S | re.M):
        bare = re.sub(r"/\*.*?\*/", "@", body, flags=re.S)
        lines = [line.strip() for line in bare.split("\n") if line.strip()]
        for above, line in zip(["", *lines], lines, strict=False):
            field = re.search(r"(\w+)(?:\[\w*\])?;", line)
            if field and not REGISTERS.fullmatch(field[1]) and "(*" not in line:
                assert "@" in line or above == "@", f"{name}.{field[1]} has no comment"


def test_one_write_loop() -> None:
    """Ports of UARTs that take one byte at a time share ``bare_metal/write.c``; those that define
    ``hil_uart_write`` themselves send blocks."""
    ports = ROOT / "firmware_template" / "ports"
    writers = {p for p in ports.rglob("*.c") if "void hil_uart_write(" in p.read_text()}
    blocks = {ports / name for name in ("nrf_uarte/uart.c", "rtt/uart.c", "native/native.c")}
    assert writers == {ports / "bare_metal" / "write.c", *blocks}
    assert not [p for p in blocks if "bool hil_uart_put(" in p.read_text()]
