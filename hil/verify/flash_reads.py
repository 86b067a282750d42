"""Reads of a chip's flash, counted in QEMU behind the caches that the chip has before its flash.

QEMU has no caches and no wait states. A plugin, which the C compiler of this computer builds, gets
the address of each instruction and of each access, and models the caches
(``flash_reads.c``).
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from hil.board import Board
from hil.errors import BuildError
from hilc.support.process import run
from hilc.target.cores import TimedChip
from hilc.target.toolchains import Toolchain

SOURCE = Path(__file__).with_suffix(".c")
_LIMIT_S = 60.0
_PLUGIN = re.compile(r"^-plugin ", re.MULTILINE)
_VERSION = re.compile(r"version (\d+)\.")
_COUNTS = re.compile(rb"flash: (\d+) (\d+) (\d+)")


@dataclass(frozen=True)
class FlashReads:
    """Reads of the flash for instructions and for data, and the executed instructions."""

    instructions: int
    fetches: int
    data: int

    def wait_cycles(self, chip: TimedChip) -> int:
        """Return the cycles that the core waits for the flash."""
        return chip.waits * (self.fetches + self.data)


def parsed(line: bytes) -> FlashReads | None:
    """Return the counts in a line of QEMU's log; None for another line."""
    match = _COUNTS.match(line)
    return FlashReads(*map(int, match.groups())) if match else None


def api_version(qemu: str, toolchain: Toolchain, folder: Path) -> int | None:
    """Return the version of the plugin's interface for this QEMU; None for a QEMU without plugins,
    and where this computer has no C compiler to build one.
    """
    if shutil.which(toolchain.gcc) is None or shutil.which(qemu) is None:
        return None
    if _PLUGIN.search(run([qemu, "-help"], folder, limit_s=_LIMIT_S).stdout) is None:
        return None
    version = _VERSION.search(run([qemu, "--version"], folder, limit_s=_LIMIT_S).stdout)
    # QEMU 9 refuses plugins of version 1, and those before know no other.
    return 1 if version is not None and int(version[1]) < 9 else 2


def built(api: int, toolchain: Toolchain, folder: Path) -> Path:
    """Return the plugin, built in ``folder`` with the C compiler of this computer.

    Raise :class:`BuildError` if the compiler fails.
    """
    plugin = folder / "flash_reads.so"
    command = [toolchain.gcc, "-shared", "-fPIC", "-O2", f"-DAPI_VERSION={api}"]
    done = run([*command, "-o", str(plugin), str(SOURCE)], folder, limit_s=_LIMIT_S)
    if done.returncode:
        raise BuildError(
            f"the plugin that counts reads of the flash was not built:\n{done.stderr.strip()}",
            f"install {toolchain.gcc_package}, or leave --cycles out",
        )
    return plugin


def arguments(plugin: Path, chip: TimedChip, board: Board, function: str) -> str:
    """Return the value of QEMU's option ``-plugin``: the reads of ``function``, as ``chip`` makes
    them, of the board's only region of flash.
    """
    (flash,) = board.regions("flash")
    values = {
        "function": function,
        "from": flash.origin,
        "to": flash.end,
        "read": chip.read,
        "line": chip.line,
        "fetch": chip.fetch_lines,
        "data": chip.data_lines,
    }
    # QEMU takes two commas as one that is part of the name.
    path = str(plugin).replace(",", ",,")
    return ",".join([path, *(f"{name}={value}" for name, value in values.items())])
