"""Images for another core than the board's, by the attributes of the compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hil.board import load_board
from hil.errors import InputError
from hil.firmware.image import read_image

_ARM = "arm-none-eabi-gcc"
_RISCV = "riscv64-unknown-elf-gcc"
_WORDS = {
    "m0": (_ARM, "-mcpu=cortex-m0"),
    "m3": (_ARM, "-mcpu=cortex-m3"),
    "m4f": (_ARM, "-mcpu=cortex-m4", "-mfloat-abi=hard"),
    "m4": (_ARM, "-mcpu=cortex-m4", "-mfloat-abi=soft"),
    "m33": (_ARM, "-mcpu=cortex-m33", "-mfloat-abi=hard"),
    "m55": (_ARM, "-mcpu=cortex-m55", "-mfloat-abi=hard"),
    "a7": (_ARM, "-mcpu=cortex-a7"),
    "imc": (_RISCV, "-march=rv32imc", "-mabi=ilp32"),
    "imafc": (_RISCV, "-march=rv32imafc", "-mabi=ilp32f"),
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("images")
    (folder / "a.c").write_text("int f(int a) { return a * 3; }\n")
    found = {}
    for name, words in _WORDS.items():
        found[name] = folder / f"{name}.elf"
        link = ["-nostdlib", "-Wl,-e,f", "a.c", "-o", str(found[name])]
        subprocess.run([*words, *link], cwd=folder, check=True, timeout=60)
    return found


@pytest.mark.parametrize(
    ("name", "board"),
    [
        *(("m0", board) for board in ("microbit", "mps2-an385", "mps2-an386", "mps3-an547")),
        ("m3", "mps2-an386"),
        ("m4", "mps2-an386"),
        ("m4f", "mps2-an505"),
        ("m33", "mps3-an547"),
        ("m55", "mps3-an547"),
        ("imc", "riscv-virt"),
        ("imc", "rtl-cv32e40p-xpulp"),
    ],
)
def test_fits(images: dict[str, Path], name: str, board: str) -> None:
    assert read_image(images[name], load_board(board))


@pytest.mark.parametrize(
    ("name", "board", "message"),
    [
        ("m3", "microbit", r"is for Armv7-M, and microbit has a core cortex-m0 \(armv6-m\)"),
        ("m4", "mps2-an385", "is for Armv7E-M, and mps2-an385 has a core cortex-m3"),
        ("m4f", "mps2-an385", "is for Armv7E-M with an FPU, and"),
        ("m33", "mps2-an386", r"is for Armv8-M\.main, and mps2-an386 has a core cortex-m4"),
        ("m55", "mps2-an505", r"is for Armv8\.1-M\.main with MVE, and"),
        ("a7", "mps3-an547", r"is for an Arm core of another profile \(A or R\), and"),
        ("imafc", "riscv-virt", "is for RV32IMAFC, and riscv-virt has a core rv32imac"),
        ("imc", "microbit", "is for RISC-V, not for 32-bit Arm"),
    ],
)
def test_other_core(images: dict[str, Path], name: str, board: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_image(images[name], load_board(board))
    assert caught.value.hint == "give an image that was built for the board"
