"""A runner, a report format and a front end from outside the package, in one file.

The runner starts QEMU in its own way, with the serial line on a pseudo-terminal; the report is a
line for each figure; model files that begin with ``#layers`` are read as a chain of operators.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Final

from hil.access import Connection, Image, Need, Runner, register_runner
from hil.board import Board
from hil.board.machine import counted_words, uart_words
from hil.cli.reports import Outcome, ReportFormat, register_report
from hil.errors import DeviceError
from hil.verify import Report
from hil.verify.bench import BenchReport
from hilc.frontends import Reader, Reading, register_reader
from hilc.ir import Graph, Node, Tensor

_START_LIMIT_S = 120.0


class TerminalBoard:
    """A firmware in QEMU; its counts are those of `-icount`."""

    counter: Final = "instructions"
    line: Final = None
    memory: Final = None
    is_emulated: Final = True

    def __init__(self, process: subprocess.Popen[bytes], url: str, icount_shift: int) -> None:
        self.url = url
        self._process = process
        self._shift = icount_shift

    def alive(self) -> None:
        if self._process.poll() is not None:
            raise DeviceError(f"QEMU has ended with {self._process.returncode}", "run it again")

    def count(self, ticks: int, ticks_hz: int) -> int:
        return round(ticks * 1_000_000_000 / ticks_hz) >> self._shift


@contextlib.contextmanager
def start(board: Board, image: Image) -> Iterator[TerminalBoard]:
    assert board.qemu is not None, "only boards that are served come here"
    words = [*counted_words(board), "-kernel", str(image.elf)]
    words += uart_words(board, "pty")
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        url = _terminal_of(process)
        if log := os.environ.get("OWN_RUNNER_LOG"):
            with open(log, "a") as file:
                file.write(f"{board.name} at {url}\n")
        yield TerminalBoard(process, url, board.qemu.icount_shift)
    finally:
        process.kill()
        process.wait()


def _terminal_of(process: subprocess.Popen[bytes]) -> str:
    """The path that QEMU prints: ``char device redirected to /dev/pts/3 (label serial0)``."""
    assert process.stdout is not None
    deadline, said = time.monotonic() + _START_LIMIT_S, b""
    while b")" not in said:
        ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
        part = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not part:
            raise DeviceError(f"QEMU names no terminal, but says {said!r}", "run it again")
        said += part
    return next(word for word in said.decode().split() if word.startswith("/dev/"))


class TerminalRunner(Runner):
    """QEMU with its serial line on a pseudo-terminal."""

    name = "terminal"

    def serves(self, board: Board) -> bool:
        return board.qemu is not None

    def needs(self, board: Board) -> Need:
        return Need(board.cpu.toolchain.qemu, "install QEMU")

    def start(
        self, board: Board, image: Image, connection: Connection
    ) -> contextlib.AbstractContextManager[TerminalBoard]:
        return start(board, image)


register_runner(TerminalRunner())


def figures(outcomes: Sequence[Outcome]) -> str:
    """A line for each figure of each model on each board."""
    lines = []
    for outcome in outcomes:
        where = f"{outcome.command} {outcome.board}"
        if outcome.error is not None:
            lines.append(f"{where} failed: {outcome.error.fact}")
        for report in outcome.reports:
            match report:
                case Report():
                    wrong = sum(output.mismatches for output in report.outputs)
                    lines.append(f"{where} {report.model} mismatches={wrong}")
                case BenchReport():
                    lines.append(f"{where} {report.model} {report.counter}={report.per_inference}")
                case _:
                    lines.append(f"{where} flash={report.sizes.flash_bytes}")
    return "\n".join(lines)


register_report(ReportFormat("figures", figures))

MAGIC = b"#layers\n"


def read(data: bytes, name: str) -> Reading:
    """A chain of elementwise operators over one float tensor."""
    text = json.loads(data.removeprefix(MAGIC))
    names = ["x", *(f"y{i}" for i in range(len(text["operators"])))]
    tensors = {t: Tensor(t, tuple(text["shape"]), "float32") for t in names}
    nodes = tuple(
        Node(op, (names[i],), (names[i + 1],), index=i) for i, op in enumerate(text["operators"])
    )
    return Reading(Graph(name, tensors, nodes, ("x",), (names[-1],)))


register_reader(Reader("layers", ".layers", lambda data: data.startswith(MAGIC), read))
