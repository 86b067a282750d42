"""The head of each kernel with assembly tells what a review needs, and names what exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from campaigns import cases

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "compiler" / "runtime" / "include" / "hil" / "kernels"
#: What a head has, in this order.
PARTS = ("Tile", "Registers", "Data", "Order", "Bounds", "Output", "Scratch", "Cost", "Tests")
#: Their assembly is an empty statement, which keeps the compiler from reordering.
WITHOUT_INSTRUCTIONS = {"generic/depthwise_conv2d_s8.h", "mve/pool.h"}
HEADERS = sorted(
    name
    for path in KERNELS.rglob("*.h")
    if "__asm__" in path.read_text()
    and (name := str(path.relative_to(KERNELS))) not in WITHOUT_INSTRUCTIONS
)


def head(name: str) -> str:
    text = (KERNELS / name).read_text()
    assert text.startswith("/* ")
    return text[: text.index("*/")]


@cache
def sources(folder: str, pattern: str) -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / folder).rglob(pattern)))


def test_all_headers_with_assembly_are_looked_at() -> None:
    assert len(HEADERS) >= 18


@pytest.mark.parametrize("name", HEADERS)
def test_a_head_has_all_its_parts_in_order(name: str) -> None:
    found = re.findall(rf"^ \* ({'|'.join(PARTS)})(?::|,| and$)", head(name), re.MULTILINE)
    assert tuple(found) == PARTS


@cases("name", HEADERS, first=12)
def test_what_a_head_names_exists(name: str) -> None:
    text = head(name)
    python = sources("compiler/hilc", "*.py")
    for function in re.findall(r"`(\w+)\(\)`", text):
        assert re.search(rf"\bdef {function}\(", python), f"no function {function} in compiler/hilc"
    for constant in re.findall(r"`(_?[A-Z][A-Z_]+)`", text):
        assert re.search(rf"\b{constant}\b", python), f"no constant {constant} in compiler/hilc"
    tests = sources("tests", "test_*.py")
    for path in re.findall(r"tests/\w+/test_\w+\.py", text):
        assert (ROOT / path).is_file(), path
    for test in re.findall(r"\btest_\w+(?!\w*\.py)\b", re.sub(r"tests/\S+\.py", "", text)):
        assert f"def {test}(" in tests, f"no test {test}"
    runtime = sources("compiler/runtime/include", "*.h")
    for symbol in re.findall(r"\bhil_\w+", text):
        assert len(re.findall(rf"\b{symbol}", runtime)) > text.count(symbol), f"no {symbol}"
    for header in re.findall(r"\b\w+_s8\.h", text):
        assert list(KERNELS.rglob(header)), f"no header {header}"


def test_offsets_that_assembly_knows_are_asserted() -> None:
    """A struct whose fields have offsets in comments: the compiler checks each."""
    checked = 0
    for name in HEADERS:
        text = (KERNELS / name).read_text()
        structs = re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.DOTALL | re.MULTILINE)
        for struct, body in structs:
            if f"HIL_MVE_AT({struct}," not in text:
                continue
            for field, offset in re.findall(r"(\w+)(?:\[\w+\])*;\s*/\* +(\d+)(?::| )", body):
                assert f"HIL_MVE_AT({struct}, {field}, {offset});" in text
                checked += 1
    assert checked > 30


def test_assembly_that_loads_is_volatile() -> None:
    """GCC takes other assembly out of a loop where its operands do not change, whatever is in
    memory.
    """
    found = [
        f"{path.name}: {statement[:60]}"
        for path in sorted(KERNELS.rglob("*.h"))
        for statement in re.findall(r"__asm__\((.*?)\)?;", path.read_text(), re.DOTALL)
        if '"memory"' in statement
    ]
    assert not found
