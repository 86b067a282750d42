"""The bound of the stack, against what runs really take of it."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from processes import children

import hil
import hilc
from hil.board import load_board
from hil.errors import StackError
from hil.firmware.build import Firmware, build
from hil.firmware.isa import ISAS, Code, Unbounded
from hil.firmware.stack import deepest, is_recursive, stack_bound
from hil.verify.samples import random_sample

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"


@cases("name", ["mps2-an386", "mps2-an505", "microbit", "riscv-virt"], first=1)
def test_no_run_goes_deeper(name: str) -> None:
    board = load_board(name)
    options: dict[str, Any] = {"pools": "external", "io_in_pool": True}
    library = hilc.compile(DIGITS, cpu=board.cpu.name, name="digits", **options)
    with hil.open(board, library) as device:
        assert device.firmware is not None
        bound = device.firmware.sizes.stack_bound_bytes
        assert bound is not None
        model = device["digits"]
        for input_name, array in random_sample(model.inputs, 0, 0).items():
            model.set_input(input_name, array)
        model.run()
        model.profile()
        # A bound that is far from the truth would be of no use.
        assert bound / 2 < device.memory().stack_peak_bytes <= bound <= board.stack_bytes


def test_a_stack_beyond_its_bound_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that lies, as every run on a board would find out."""
    board = load_board("mps2-an386")
    library = hilc.compile(DIGITS, cpu=board.cpu.name, name="digits")
    bound = build([library], board).sizes.stack_bound_bytes
    assert bound is not None

    def opened(bound: int) -> None:
        def lying(*args: Any, **options: Any) -> Firmware:
            firmware = build(*args, **options)
            return replace(firmware, sizes=replace(firmware.sizes, stack_bound_bytes=bound))

        monkeypatch.setattr("hil.device.session.build", lying)
        with hil.open(board, library) as device:
            device["digits"].run()

    opened(bound)
    with pytest.raises(StackError, match=r"was \d+ bytes deep, and its code takes 200 at most"):
        opened(200)


def test_a_board_that_is_gone_is_not_asked() -> None:
    """Closed or ended inside of its context: leaving that is no error."""
    board = load_board("mps2-an386")
    library = hilc.compile(DIGITS, cpu=board.cpu.name, name="digits")
    with hil.open(board, library) as device:
        device["digits"].run()
        device.close()
    before = children()
    with hil.open(board, library) as device:
        device["digits"].run()
        for emulator in children() - before:
            os.kill(emulator, signal.SIGKILL)


@pytest.mark.parametrize("name", ["mps2-an386", "microbit", "riscv-virt"])
def test_functions_that_call_themselves_have_no_bound(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    code = "int hil_reset_handler(int n) { volatile int x[9]; x[n] = n; return %s + x[0]; }"
    for call, bounded in (("n", True), ("hil_reset_handler(n - 1) * 3", False)):
        (tmp_path / "a.c").write_text(code % call)
        command = [board.cpu.toolchain.program("gcc"), *board.cpu.cflags, "-O0", "-nostdlib", "a.c"]
        flags = ["-Wl,--entry=hil_reset_handler", "-o", "a.elf"]
        subprocess.run([*command, *flags], cwd=tmp_path, check=True, timeout=60)
        assert (stack_bound(tmp_path / "a.elf", board.cpu) is not None) == bounded


@pytest.mark.parametrize(
    ("instruction", "frame"),
    [
        ("push {r3, lr}", 8),
        ("stmdb sp!, {r4-r9, lr}", 28),
        ("vpush {d8-d9}", 16),
        ("sub sp, #188", 188),
        ("sub.w sp, sp, #1024", 1024),
        ("str.w lr, [sp, #-8]!", 8),
        ("strd r4, r5, [sp, #-16]!", 16),
        ("add sp, #188", 0),
        ("stmdb r1!, {r4-r9}", 0),
    ],
)
def test_frames(instruction: str, frame: int) -> None:
    code = Code()
    mnemonic, _, operands = instruction.partition(" ")
    ISAS["arm"].take("f", code, mnemonic, operands, "")
    assert code.frame == frame


def test_calls() -> None:
    code = Code()
    for mnemonic, operands in (
        ("bl", "104 <memcpy>"),
        ("b.w", "10a <tail>"),
        ("bne.n", "15a <f+0x22>"),
        ("b.n", "100 <f>"),
        ("bx", "lr"),
    ):
        ISAS["arm"].take("f", code, mnemonic, operands, "")
    assert code.calls == {"memcpy", "tail"}
    assert not code.is_indirect
    ISAS["arm"].take("f", code, "blx", "r3", "")
    assert code.is_indirect


@pytest.mark.parametrize(
    ("mnemonic", "operands"), [("sub.w", "sp, sp, r3"), ("add", "sp, r5"), ("sub", "sp, r2")]
)
def test_a_frame_of_any_size(mnemonic: str, operands: str) -> None:
    with pytest.raises(Unbounded):
        ISAS["arm"].take("f", Code(), mnemonic, operands, "")


def _image(frames: dict[str, int], calls: dict[str, str], pointers: str = "") -> dict[str, Code]:
    return {
        name: Code(frame, set(calls.get(name, "").split()), name in pointers.split())
        for name, frame in frames.items()
    }


def test_the_deepest_chain() -> None:
    image = _image({"a": 8, "b": 16, "c": 32, "d": 64}, {"a": "b c absent", "b": "d", "c": ""})
    assert deepest(image, [], "a") == 8 + 16 + 64


def test_a_circle_is_gone_round_once() -> None:
    frames = {"a": 1, "b": 2, "c": 4, "d": 8, "e": 16}
    image = _image(frames, {"a": "b", "b": "c e", "c": "d", "d": "b"})
    assert deepest(image, [], "a") == max(1 + 2 + 16, 1 + 2 + 4 + 8)


def test_circles_of_direct_calls() -> None:
    frames = {"a": 1, "b": 2, "c": 4, "d": 8}
    assert not is_recursive(_image(frames, {"a": "b c", "b": "d", "c": "d"}), "a")
    assert is_recursive(_image(frames, {"a": "b", "b": "c", "c": "b"}), "a")
    assert is_recursive(_image(frames, {"a": "a"}), "a")
    # Nothing reaches it, or only a pointer might.
    assert not is_recursive(_image(frames, {"a": "b", "d": "d"}), "a")
    assert not is_recursive(_image(frames, {"a": "b"}, pointers="b"), "a")


def test_a_pointer_reaches_what_has_an_address() -> None:
    image = _image({"a": 1, "b": 2, "c": 4, "d": 8}, {"a": "b", "c": "d"}, pointers="b c")
    assert deepest(image, ["a", "c"], "a") == 1 + 2 + 4 + 8
    assert deepest(image, [], "a") == 1 + 2


def test_functions_called_through_pointers_count() -> None:
    names = [f"f{i}" for i in range(40)]
    frames = {"root": 100, **dict.fromkeys(names, 8), "leaf": 50}
    image = _image(frames, {"root": "f0", "f7": "leaf"}, pointers=" ".join(names))
    assert deepest(image, names, "root") == 100 + 40 * 8 + 50


def test_a_long_chain_is_followed() -> None:
    names = [f"f{i}" for i in range(5000)]
    calls = {name: after for name, after in zip(names, names[1:], strict=False)}
    assert deepest(_image(dict.fromkeys(names, 8), calls), [], "f0") == 5000 * 8
