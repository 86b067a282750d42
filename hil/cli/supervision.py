"""A command under tight limits runs in a child process, so that a library cannot choose its exit
code.

Where memory ends, OpenBLAS calls ``exit(1)``, which would mean that outputs differ, C++ code
aborts, and the kernel kills a process for its stack or its processor time. The parent needs little
of either; it says what happened.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

try:
    import resource
except ImportError:  # Windows, which has no limits of this kind
    resource = None  # type: ignore[assignment]

_PR_SET_PDEATHSIG = 1
#: Flag of ``ulimit``, limit, its unit there, and the value from which it is not tight: Linux gives
#: a stack of 8 MiB.
_LIMITS = (
    ("v", "RLIMIT_AS", 1024, None),
    ("d", "RLIMIT_DATA", 1024, None),
    ("t", "RLIMIT_CPU", 1, None),
    ("s", "RLIMIT_STACK", 1024, 4 << 20),
)


def tight_limits() -> list[str]:
    """Return the limits that may end a process from outside of Python, as ``ulimit`` sets them."""
    found = []
    for flag, name, unit, usual in _LIMITS:
        soft = _soft_limit(name)
        if soft is not None and (usual is None or soft < usual):
            found.append(f"ulimit -{flag} {soft // unit}")
    return found


def _soft_limit(name: str) -> int | None:
    # Not that of hilc.support: it loads more than may be loaded before signals are handled.
    if resource is None:
        return None
    soft = resource.getrlimit(getattr(resource, name))[0]
    return None if soft == resource.RLIM_INFINITY else soft


def supervised(run: Callable[[Callable[[int], None]], int], words: Sequence[str]) -> int:
    """Call ``run`` in a child process, and return its exit code in both processes.

    ``run`` passes its exit code to its argument before it ends the process by itself. In the
    parent, an end without an exit code becomes an error.
    """
    ours, theirs = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _die_with(parent)
        if _soft_limit("RLIMIT_AS") is not None:
            # Each of its threads, one per core, takes address space.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

        def ended(code: int) -> None:
            os.write(theirs, bytes([code]))

        code = run(ended)
        ended(code)
        return code
    os.close(theirs)

    def forward(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, forward)
    _, status = os.waitpid(child, 0)
    os.set_blocking(ours, False)
    with suppress(BlockingIOError):
        if found := os.read(ours, 1):
            return found[0]
    return _report(status, words)


def _die_with(parent: int) -> None:
    """End this process when its parent ends, however that happens."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _report(status: int, words: Sequence[str]) -> int:
    """Report the end of the child without an exit code of its own; return the exit code."""
    from hil.cli.console import Console
    from hil.errors import InputError
    from hil.results.answer import ErrorInfo

    code = os.waitstatus_to_exitcode(status)
    how = f"exit status {code}" if code >= 0 else f"signal {-code} ({_name(-code)})"
    limits = tight_limits()
    error = InputError(
        f"a library or the system ended the command with {how}, under {', '.join(limits)}",
        f"raise that limit, or remove it: {limits[0].rpartition(' ')[0]} unlimited",
    )
    from hil.cli.words import wants_json

    console = Console(wants_json(words))
    if console.as_json:
        console.command = _command(words)
        console.error_result(ErrorInfo.of(error))
    console.error(error)
    return error.exit_code


def _command(words: Sequence[str]) -> str:
    """Return the command in ``words``; nothing where even its parser cannot be loaded."""
    with suppress(Exception):
        from hil.cli.command_line import build_parser

        return build_parser(words).command_in(words)
    return ""


def _name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return "unknown"
