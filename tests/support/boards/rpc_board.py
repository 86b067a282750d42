"""The protocol's C sources, built for this machine under sanitizers: a board to test with."""

from __future__ import annotations

import functools
import os
import pty
import subprocess
import tempfile
import tty
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hil.compat.tvm.runtime import CRT as FIRMWARE_CRT
from hil.firmware.project import RPC_PARTS
from hilc.support.resources import data_dir

SOURCES = Path(__file__).parents[2] / "hil" / "rpc_board"

#: The server's, for models without states and rows.
RPC_SOURCES = [f"{part}.c" for part in RPC_PARTS if part not in ("state", "feeder")]

SANITIZERS = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_FLAGS = (
    "-std=gnu11", "-g1", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes",
    "-Werror",
)  # fmt: skip


def compile_program(
    *names: str | Path,
    output: Path | str,
    defines: Mapping[str, object] | None = None,
    includes: Iterable[Path] = (),
    before: Iterable[Path] = (),
    compiler: Sequence[str] = ("gcc", *SANITIZERS),
) -> Path:
    """The program ``output`` of sources of the firmware template or of ``tests/hil/rpc_board``.

    Each source begins with the headers ``before``, in whose place no other of their guards comes.
    """
    template = data_dir("firmware_template")
    places = (SOURCES, template / "rpc", FIRMWARE_CRT)
    paths = [next(p for place in places if (p := place / name).is_file()) for name in names]
    macros = [f"-D{name}={value}" for name, value in (defines or {}).items()]
    folders = [f"-I{folder}" for folder in (SOURCES, template / "include", *includes)]
    first = [word for header in before for word in ("-include", str(header))]
    command = [*compiler, *_FLAGS, *macros, *folders, *first, *map(str, paths), "-o", str(output)]
    subprocess.run(command, check=True)
    return Path(output)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="rpc-board-")


@functools.cache
def board_program(frame_max: int = 512, rx_max: int = 1024) -> Path:
    """The test board, compiled once for each size."""
    return compile_program(
        *("board.c", *RPC_SOURCES),
        output=Path(_folder().name) / f"board-{frame_max}-{rx_max}",
        defines={"HIL_FRAME_MAX": frame_max, "HIL_RX_MAX": rx_max},
    )


class BoardProcess:
    """The test board on a pseudo-terminal."""

    def __init__(self, program: Path) -> None:
        self.master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self.url = os.ttyname(self._slave)
        self.process = subprocess.Popen([program], stdin=self.master)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)


@contextmanager
def running_board(frame_max: int = 512, rx_max: int = 1024) -> Iterator[BoardProcess]:
    board = BoardProcess(board_program(frame_max, rx_max))
    try:
        yield board
    finally:
        board.close()
