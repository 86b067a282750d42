"""Child processes that run to their end: compilers, linkers, CMake.

None outlives its wait, with all of its own children: an interrupt or a deadline ends them.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_TERM_LIMIT_S = 2.0
#: Seconds to wait for killed processes, and between two checks of them.
_KILL_LIMIT_S, _KILL_STEP_S = 5.0, 0.01
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
# The kernel kills the child when the thread that started it ends, not the process: so one thread,
# which lives as long as the process, starts them all. No interrupt is delivered to it either.
_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hil-starter")


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Return a child in a process group of its own, which ends with this process at the latest.

    ``options`` are Popen's.
    """
    return _started(_STARTER.submit(_spawn, command, options))


def run(
    command: Sequence[str],
    folder: Path,
    *,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    errors_apart: bool = True,
    temporary: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program in ``folder`` to its end, without input, and capture its output.

    ``temporary`` is the folder of its temporary files, which a killed compiler leaves. Without
    ``errors_apart`` its stderr is merged into its stdout. Raise OSError if it cannot be started and
    :class:`subprocess.TimeoutExpired` if it takes longer than ``limit_s``.
    """
    if temporary is not None:
        given = os.environ if environment is None else environment
        # The first is POSIX's, the others are Windows'.
        names = ("TMPDIR", "TEMP", "TMP")
        environment = {**given, **dict.fromkeys(names, str(temporary.resolve()))}
    options = {
        "cwd": folder,
        "env": environment,
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE if errors_apart else subprocess.STDOUT,
        "text": True,
        "errors": "replace",
    }
    with start(command, **options) as process:
        try:
            out, errors = process.communicate(timeout=limit_s)
        except BaseException:
            _end(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors or "")


def terminate_group(process: subprocess.Popen[Any]) -> None:
    """Ask a child of :func:`start` and all its descendants to end."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGTERM)
        else:  # Windows: its children end when they find out
            process.terminate()


def kill_group(process: subprocess.Popen[Any]) -> None:
    """End a child of :func:`start` and all its descendants at once."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _spawn(command: Sequence[str], options: Mapping[str, Any]) -> subprocess.Popen[Any]:
    launcher = _launcher()
    if not launcher or not _surely_starts(command[0], options):
        prepare = _die_with(os.getpid()) if _LIBC is not None else None
        return subprocess.Popen(command, start_new_session=True, preexec_fn=prepare, **options)
    launched = [*launcher, str(os.getpid()), *command]
    process = subprocess.Popen(launched, start_new_session=True, **options)
    process.args = command
    return process


@functools.cache
def _launcher() -> tuple[str, ...]:
    """Return a command prefix, to be followed by the id of this process and a command, equivalent
    to :func:`_die_with`.

    Python runs code of ours in a child only where it forks, and a fork copies the page tables: it
    takes 15 ms in a process of 300 MB, and these programs take 2. Empty where they are missing.
    """
    setpriv, shell = shutil.which("setpriv"), shutil.which("sh")
    if _LIBC is None or setpriv is None or shell is None:
        return ()
    words = (setpriv, "--pdeathsig", "KILL", shell, "-c")
    known = subprocess.run([*words, ":"], stdin=subprocess.DEVNULL, capture_output=True)
    return (*words, '[ "$PPID" = "$0" ] && exec "$@"') if known.returncode == 0 else ()


def _surely_starts(program: str, options: Mapping[str, Any]) -> bool:
    """Return whether this machine can run ``program``; for others, Popen reports the error."""
    environment = options.get("env")
    path = (os.environ if environment is None else environment).get("PATH")
    folder = options.get("cwd") or "."
    found = os.path.join(folder, program) if os.sep in program else shutil.which(program, path=path)
    try:
        return (
            found is not None
            and os.access(found, os.X_OK)
            and _format(found) in (b"#!", _format(sys.executable))
        )
    except OSError:
        return False


def _format(path: str) -> bytes:
    """Return word size, byte order and machine from an ELF header; ``#!`` for a script."""
    with open(path, "rb") as file:
        head = file.read(20)
    return head[4:6] + head[18:] if head.startswith(b"\x7fELF") else head[:2]


def _started(future: Future[subprocess.Popen[Any]]) -> subprocess.Popen[Any]:
    try:
        return future.result()
    except BaseException:
        # Interrupted during the start: the child exists now, or will in a moment.
        if not future.cancel() and future.exception() is None:
            _end(future.result())
        raise


def _end(process: subprocess.Popen[Any]) -> None:
    """End a child and its children; Ninja gives each of its own a group, but not a session."""
    terminate_group(process)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_TERM_LIMIT_S)
    # A killed process exists until it is scheduled once more.
    deadline = time.monotonic() + _KILL_LIMIT_S
    while (left := _session(process.pid)) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_KILL_STEP_S)
    process.kill()  # where the system lists no processes
    process.wait()


def _session(leader: int) -> list[int]:
    """Return the processes of a session that have not ended, if the system lists processes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            # After the name, which may contain anything: state, parent, group, session.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(stat.parent.name))
    return found


def _die_with(parent: int) -> Callable[[], None]:
    def die_with_parent() -> None:
        assert _LIBC is not None
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)

    return die_with_parent
