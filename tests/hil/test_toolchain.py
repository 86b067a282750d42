"""Which compilers and build tools firmware can be built with, and what is said of the others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import answers
import pytest
from tiny_library import tiny_library

from hil.board import load_board
from hil.build import build
from hil.cli import main
from hil.errors import BuildError
from hil.firmware import toolchain
from hil.firmware.toolchain import is_older, version_in

LIBRARY = tiny_library("y[0] = x[0];")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205\nCopyright 2022", "12.2.1"),
        ("arm-none-eabi-gcc (GNU Tools for Arm 7-2018-q2-update) 7.3.1 20180622", "7.3.1"),
        ("arm-none-eabi-gcc (Arm GNU 13.2.rel1 (Build arm-13.7)) 13.2.1 20231009", "13.2.1"),
        ("gcc (crosstool-NG 1.24.0.105_5659366) 9.2.0", "9.2.0"),
        ("Debian clang version 14.0.6", "14.0.6"),
        ("Renode, version 1.15.3.19937 (a4f5f5d5)", "1.15.3"),
        ("cmake version 3.18.4\n\nCMake suite", "3.18.4"),
        ("nothing to see", None),
    ],
)  # fmt: skip
def test_versions_are_found_behind_what_packagers_add(text: str, version: str | None) -> None:
    assert version_in(text) == version


@pytest.mark.parametrize(
    ("version", "oldest", "older"),
    [("9.3", (10, 1), True), ("10.1.0", (10, 1), False), ("10", (10, 1), True),
     ("8.0.1", (8,), False), ("3.9", (3, 21), True), ("4.0.0rc1", (3, 21), False)],
)  # fmt: skip
def test_versions_are_numbers(version: str, oldest: tuple[int, ...], older: bool) -> None:
    assert is_older(version, oldest) == older


def pretend(folder: Path, name: str, version: str, patch: pytest.MonkeyPatch) -> Path:
    """A program of another version, first in PATH, which does as the real one otherwise."""
    real = shutil.which(name)
    assert real
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "{name} (GNU) {version}" && exit\n'
        f'exec {real} "$@"\n'
    )
    program.chmod(0o755)
    patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return program


@pytest.mark.parametrize(
    ("board", "name", "version", "needed"),
    [
        ("mps2-an386", "arm-none-eabi-gcc", "7.3.1", "8 or later"),
        ("mps3-an547", "arm-none-eabi-gcc", "9.2.1", "10.1 or later for cortex-m55"),
        ("native", "cc", "5.4.0", "8 or later"),
    ],
)
def test_a_compiler_too_old_is_refused(
    board: str, name: str, version: str, needed: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    program = pretend(tmp_path / "bin", name, version, monkeypatch)
    with pytest.raises(BuildError) as caught:
        build([LIBRARY], load_board(board))
    assert caught.value.fact == f"{program} is version {version}, and firmware needs {needed}"
    assert not (tmp_path / "cache").exists()


def test_a_cmake_that_is_too_old_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "tool_folders", list)
    program = pretend(tmp_path / "bin", "cmake", "3.18.4", monkeypatch)
    with pytest.raises(BuildError, match=f"{program} is version 3.18.4, and firmware needs 3.21"):
        build([LIBRARY], load_board("native"))


def test_the_doctor_knows_what_is_missing_or_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "bin", "arm-none-eabi-gcc", "7.3.1", monkeypatch)
    assert main(["doctor", "--json"]) == 4
    tools = {tool["name"]: tool for tool in answers.entry(capsys.readouterr().out)["tools"]}
    assert tools["arm-none-eabi-gcc"]["too_old"]
    assert not tools["cmake"]["too_old"]
    assert {"arm-none-eabi-objdump", "arm-none-eabi-objcopy"} <= set(tools)
    for name in ("arm-none-eabi-gcc", "qemu-system-arm", "cc", "cmake", "ninja"):
        (tmp_path / "only").mkdir(exist_ok=True)
        found = shutil.which(name)
        if found and name != "arm-none-eabi-gcc":
            (tmp_path / "only" / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path / "only"))
    assert main(["doctor"]) == 4
    out = capsys.readouterr().out
    assert "arm-none-eabi-objdump is missing: apt install binutils-arm-none-eabi" in out
    assert "emulated boards do NOT work" in out
