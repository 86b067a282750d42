"""Firmware that hil did not build, under test on an emulated board: its console and its own tests.

pytest examples/own_firmware
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hil import ElfDevice

pytestmark = pytest.mark.hil(boards=["mps2-an386"])
Build = Callable[..., Path]
Start = Callable[[Path], ElfDevice]


def test_console(hil_elf: Start, build: Build) -> None:
    console = hil_elf(build("console_app")).console
    console.expect(r"filter (\d+\.\d+) ready\n> ", 10)
    console.send("7\n")
    assert console.expect(r"clamped: (-?\d+)\n", 10)[1] == "7"
    console.send("-300\n")
    assert console.expect(r"clamped: (-?\d+)\n", 10)[1] == "-10"
    console.send("x")
    console.expect("a number, please", 10)


@pytest.mark.parametrize(("name", "form"), [("unity_app", "unity"), ("ztest_app", "ztest")])
def test_tests_in_the_firmware(
    hil_elf: Start, hil_subtests: Callable[..., object], build: Build, name: str, form: str
) -> None:
    hil_subtests(hil_elf(build(name)), form)
