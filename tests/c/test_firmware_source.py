"""The firmware and the C run time read alike: fields say unit and limit, assertions the remedy."""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.firmware.project import RPC_PARTS

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
#: Folders of the ports.
PORTS = {p.name for p in (ROOT / "firmware_template" / "ports").iterdir()}
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
    blocks = {
        ports / name
        for name in ("nrf_uarte/uart.c", "rtt/uart.c", "native/native.c", "esp_usb_serial/uart.c")
    }
    assert writers == {ports / "bare_metal" / "write.c", *blocks}
    assert not [p for p in blocks if "bool hil_uart_put(" in p.read_text()]


def symbols(part: str, folder: Path) -> tuple[set[str], set[str]]:
    """What a part of the server defines, and what it takes from elsewhere; in an image with all."""
    template = ROOT / "firmware_template"
    made = folder / f"{part}.o"
    includes = (template / "include", ROOT / "tests" / "hil" / "rpc_board")
    subprocess.run(
        [
            *["gcc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-c"],
            *["-DHIL_HAS_STATE=1", "-DHIL_HAS_FEEDER=1", *(f"-I{path}" for path in includes)],
            *[str(template / "rpc" / f"{part}.c"), "-o", str(made)],
        ],
        check=True,
    )
    told = subprocess.run(["nm", made], capture_output=True, text=True, check=True).stdout
    words = [line.split()[-2:] for line in told.splitlines()]
    defined = {name for kind, name in words if kind in "TDBR"}
    return defined, {name for kind, name in words if kind == "U"}


def test_parts_of_the_server_call_those_before(tmp_path: Path) -> None:
    """``RPC_PARTS`` is an order: there is no circle among them, and no file beside them."""
    template = ROOT / "firmware_template" / "rpc"
    assert {path.stem for path in template.glob("*.c")} == set(RPC_PARTS)
    parts = {part: symbols(part, tmp_path) for part in RPC_PARTS}
    for at, (part, (_, taken)) in enumerate(parts.items()):
        for later in RPC_PARTS[at + 1 :]:
            assert not taken & parts[later][0], f"{part} calls {later}"


def test_folders_of_the_firmware_include_interfaces() -> None:
    """A server and a port include the interfaces between them, never each other's headers."""
    template = ROOT / "firmware_template"
    private = {p.name: p.parent.name for p in template.rglob("*.h") if p.parent.name != "include"}
    assert {"session.h", "hil_roles.h", "hil_mlperf.h"} < private.keys()
    for path in template.rglob("*.[ch]"):
        folder = path.relative_to(template).parts[0]
        for name in re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE):
            owner = private.get(name, folder)
            assert owner == folder or (folder == "ports" and owner in PORTS), f"{path}: {name}"


def test_no_header_includes_itself() -> None:
    """Whichever headers come between."""
    reached = {p.name: set(re.findall(r'^#include "(.*)"', p.read_text(), re.M)) for p in HEADERS}
    for _ in HEADERS:
        reached = {
            name: found.union(*(reached.get(one, set()) for one in found))
            for name, found in reached.items()
        }
    assert not [name for name, found in reached.items() if name in found]
