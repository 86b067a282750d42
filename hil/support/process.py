"""A child process that ends with this one at the latest, and whose end is reported."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hil.errors import DeviceError, EmulatorError, Remedy
from hilc.support.limits import limit_in
from hilc.support.process import kill_group, start, terminate_group

_LOG = logging.getLogger("hil.runner")
_TERM_TIMEOUT_S = 2.0
_STDERR = 2
#: In QEMU's last message, of a core that cannot go on.
_FATAL = " fatal: "
_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")


def python_module(name: str, *words: str) -> list[str]:
    """Return the command that runs a module as a program of this interpreter, with ``words``.

    It finds modules where this process does. By ``-m`` and ``-c`` alone, Python would first look
    into the working folder, where a file that came with a model could have any module's name.
    """
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; import runpy; "
        f"runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", code, *words]


class ChildProcess:
    """``command`` in a process group of its own, its stderr kept for messages; ``folder`` is its
    working folder.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        install_hint: str,
        pass_fds: Sequence[int] = (),
        stdin: int | None = subprocess.DEVNULL,
        stdout: int | None = subprocess.DEVNULL,
        folder: Path | None = None,
        is_firmware: bool = False,
    ) -> None:
        """Start it. ``is_firmware``: the process is the firmware itself, so that its end is one of
        the firmware unless somebody ended it.

        Raise :class:`EmulatorError` if it cannot be started.
        """
        if any(fd <= _STDERR for fd in pass_fds):
            raise EmulatorError(
                "standard input, output or error of this program is closed, and a socket has its "
                f"place, which {name} could not inherit",
                "redirect it to /dev/null instead of closing it",
            )
        self.name = name
        self._is_firmware = is_firmware
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        try:
            self.process: subprocess.Popen[bytes] = start(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=self._stderr,
                bufsize=0,
                pass_fds=pass_fds,
                cwd=folder,
            )
        except FileNotFoundError:
            self._stderr.close()
            raise EmulatorError(f"{command[0]} is not installed", install_hint) from None
        except OSError as error:
            self._stderr.close()
            raise EmulatorError(f"cannot start {command[0]}: {error}", install_hint) from None
        _LOG.info("started %s, process %d: %s", name, self.process.pid, shlex.join(command))

    def alive(self) -> None:
        """Raise :class:`DeviceError` when the process has ended."""
        if self.process.poll() is not None:
            raise self.end()

    def end(self) -> DeviceError:
        """Return the error of a process that has ended or is about to end.

        It is an :class:`EmulatorError` unless the firmware caused the end.
        """
        ended_from_outside = False
        code: int | None = None
        try:
            code = self.process.wait(_TERM_TIMEOUT_S)
            how, ended_from_outside = _describe(code), _signal_name(code) in _FROM_OUTSIDE
        except subprocess.TimeoutExpired:
            how = "it closed its output but still runs"
        message = self._last_message()
        if ended_from_outside:
            hint = (
                "a user, another program or the system (out of memory?) ended it: run the command "
                "again; in Python, open the board again"
            )
        elif (limit := limit_in(message)) is not None:
            # It would end again.
            return EmulatorError(f"{self.name} ended: {how}{message}; {limit.fact}", limit.hint)
        elif message:
            hint = "its last message gives the reason"
        else:
            hint = "run it again"
        # The firmware ends its machine by an exit without an error, or by a fault that its core
        # cannot take, which QEMU calls fatal.
        is_own = code == 0 or self._is_firmware or _FATAL in message
        kind = DeviceError if is_own and not ended_from_outside else EmulatorError
        error = kind(
            f"{self.name} ended: {how}{message}",
            hint,
            # A process that was ended on purpose is not restarted automatically.
            remedy=None if ended_from_outside else Remedy.POWER,
        )
        error.is_good_end = code == 0
        return error

    def _last_message(self) -> str:
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - 4096))
        text = self._stderr.read().decode("utf-8", "replace")
        remarks = (": warning: ", ": info: ")
        lines = [line.strip() for line in text.splitlines() if not any(r in line for r in remarks)]
        # QEMU's registers follow the reason of its end.
        fatal = [line for line in lines if _FATAL in line]
        return f", saying {(fatal or lines)[-1]!r}" if lines else ""

    def stop(self) -> None:
        """End the process group, by SIGKILL if necessary, and reap the process."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._stderr.close)
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    stack.callback(pipe.close)
            if self.process.poll() is not None:
                return
            terminate_group(self.process)
            try:
                self.process.wait(_TERM_TIMEOUT_S)
            except BaseException as error:
                # The deadline has passed, or the user pressed Ctrl-C.
                kill_group(self.process)
                self.process.wait()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = _signal_name(code)
    return f"signal {-code} ({name})" if name else f"signal {-code}"


def _signal_name(code: int) -> str:
    """Return the name of the signal that ended a process; empty for another exit code."""
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return ""
