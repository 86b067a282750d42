"""Commands of hil, each in a fork of one process that has imported everything.

The start of Python and its imports take longer than most commands; a campaign makes thousands. The
process reads one JSON object a line, answers each with the process id of the command, and then with
how it ended.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

#: What commands import when they are called.
_PACKAGES = ("hil.cli.commands", "hil.cli.actions")
_MODULES = (
    "hilc", "hilc.host", "hil.verify", "hil.access.native", "hil.access.qemu",
    "hil.access.hardware", "hil.virtual_probe", "hil.cli.formats", "pyocd.core.helpers",
    "pyocd.core.session", "pyocd.flash.loader", "hil.firmware.mlperf",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, negative by a signal; None past its deadline."""

    code: int | None
    seconds: float
    errors: str
    output: str


class Forked:
    """The process, with ``environment`` beside this one's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from torture.field.forked import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def __enter__(self) -> Forked:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, words: Sequence[str], folder: Path, output: Path) -> Command:
        """Start ``hil WORDS`` in ``folder``, its stdout in the file ``output``, which exists."""
        assert self._process.stdin is not None
        errors = folder / "stderr.txt"
        errors.write_bytes(b"")
        request = {"words": list(words), "folder": str(folder), "output": str(output)}
        self._process.stdin.write(json.dumps({**request, "errors": str(errors)}) + "\n")
        self._process.stdin.flush()
        return Command(self, int(self.answer()["pid"]), output, errors)

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that forks commands has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self, words: Sequence[str], folder: Path, output: Path, limit_s: float) -> Ended:
        """Run ``hil WORDS`` to its end, or to its deadline."""
        return self.begin(words, folder, output).ended(limit_s)


class Command:
    """A command that was started."""

    def __init__(self, server: Forked, pid: int, output: Path, errors: Path) -> None:
        self.pid = pid
        self._server = server
        self._output, self._errors = output, errors
        self._start = time.monotonic()

    def ended(self, limit_s: float) -> Ended:
        """Wait for its end; past the deadline it is killed."""
        late = threading.Event()

        def kill() -> None:
            late.set()
            os.kill(self.pid, signal.SIGKILL)

        timer = threading.Timer(limit_s, kill)
        timer.start()
        try:
            answer = self._server.answer()
        except KeyboardInterrupt:  # the campaign ends, and this command with it
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            raise
        finally:
            timer.cancel()
        seconds = time.monotonic() - self._start
        output = self._output.read_text(errors="replace") if self._output.exists() else ""
        errors = self._errors.read_text(errors="replace")
        return Ended(None if late.is_set() else answer["code"], seconds, errors, output)


# -- the process -------------------------------------------------------------------------------


def serve() -> None:
    """Be that process."""
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{name}.{module.name}")
    for name in _MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _command(request)
        print(json.dumps({"pid": pid}), flush=True)
        # Its end is told before it is reaped: until then its number is its own.
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert end is not None
        code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        print(json.dumps({"code": code}), flush=True)
        os.waitpid(pid, 0)


def _command(request: Mapping[str, Any]) -> None:
    """Run the command as the program does, and end this process."""
    code = 70
    try:
        os.setsid()
        os.chdir(request["folder"])
        _redirected(os.open(os.devnull, os.O_RDONLY), 0)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        _redirected(os.open(request["errors"], flags | os.O_TRUNC), 2)
        # It exists: a shell makes it before it starts a program.
        _redirected(os.open(request["output"], os.O_WRONLY | os.O_TRUNC), 1)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        signal.set_wakeup_fd(-1)
        from hil.cli import main

        sys.argv = ["hil", *request["words"]]
        code = main()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _redirected(file: int, number: int) -> None:
    os.dup2(file, number)
    os.close(file)
