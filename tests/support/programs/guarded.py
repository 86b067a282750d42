"""Reads hostile input under guard: what it may raise, touch, take of time and of memory.

An input is refused by an error of the project with one clear sentence, or accepted. Everything else
is a breach: a foreign exception, an error that no check foresaw, more processor time or memory than
the limits, a file outside of the folder, a program, a connection, code that is executed.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import hil
import hilc
from hilc.errors import HilError

#: Of processor time: what others have of the cores is not the input's doing. It ends what hangs;
#: the campaigns give less.
LIMIT_S = 120.0
#: What an input may take beyond what the process has.
LIMIT_BYTES = 1 << 30
#: Said by the net below the front ends for what no check has foreseen.
_UNFORESEEN = "the file is inconsistent ("

_ROOT = Path(__file__).resolve().parents[3]
#: Where code and data of the project, of Python and of packages lie.
_READABLE = tuple(
    os.path.realpath(path)
    for path in (
        *(str(_ROOT), os.path.dirname(hil.__file__), os.path.dirname(hilc.__file__), sys.prefix),
        *(sys.base_prefix, sysconfig.get_paths()["purelib"], "/usr/share/zoneinfo", *sys.path),
    )
    if path
)
_ALSO_READABLE = ("/dev/null", "/dev/urandom", "/proc/self/statm", "/proc/meminfo", "/proc/cpuinfo")
#: Things that reading a file never needs, as Python's audit hooks name them.
_FORBIDDEN = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn",
     "os.spawn", "pty.spawn", "pickle.find_class", "socket.connect", "socket.bind",
     "urllib.Request", "ctypes.dlopen", "os.kill", "os.putenv")
)  # fmt: skip
#: Events whose arguments are paths that are changed.
_CHANGING = frozenset(
    ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate",
     "os.chmod", "os.chown", "shutil.rmtree", "shutil.move", "shutil.copyfile", "sqlite3.connect")
)  # fmt: skip
#: Of these, the last argument is the descriptor of the folder that a path is relative to, or -1.
_IN_OPEN_FOLDERS = frozenset(("os.remove", "os.mkdir", "os.rmdir"))
#: Whose own texts are evaluated there: annotations, generated methods, costs of shipped kernels.
_EVALUATING = ("/typing.py", "/dataclasses.py", "/collections/__init__.py", "/enum.py",
               "/inspect.py", "/hilc/lowering/cost.py", "/hilc/support/arguments.py")  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Breach(BaseException):
    """What an input did; not an Exception, so that no code of the project catches it."""


@dataclass(frozen=True)
class Verdict:
    """What became of one input."""

    is_accepted: bool
    #: The same for inputs that break the same thing; empty: nothing is wrong.
    breach: str = ""
    detail: str = ""


_watched: Path | None = None


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _watched is None:
        return
    if event in _FORBIDDEN:
        raise Breach(f"{event} {args!r:.200}")
    if event == "open":
        path, mode, flags = args
        if isinstance(path, int):
            return
        writes = bool(flags & _WRITING) if isinstance(flags, int) else "r" not in (mode or "r")
        _check_path(event, path, writes)
    elif event in _CHANGING:
        for path in args:
            if isinstance(path, str | bytes | os.PathLike):
                _check_path(event, _located(event, path, args), True)
    elif event == "exec":
        file = getattr(args[0], "co_filename", "")
        is_code = not file.startswith("<frozen") and not os.path.isfile(file)
        if is_code and not sys._getframe(1).f_code.co_filename.endswith(_EVALUATING):
            raise Breach(f"exec of {file}")


def _located(event: str, path: Any, args: tuple[Any, ...]) -> Any:
    """Return the path with the folder that a descriptor beside it stands for, as shutil.rmtree
    has one.
    """
    if event not in _IN_OPEN_FOLDERS or os.path.isabs(path) or args[-1] < 0:
        return path
    return os.path.join(os.readlink(f"/proc/self/fd/{args[-1]}"), os.fsdecode(path))


def _check_path(event: str, path: Any, writes: bool) -> None:
    text = os.fsdecode(path)
    if text in (":memory:", "") or text.startswith("file:"):
        return
    real = os.path.realpath(text)
    if "/__pycache__" in real and any(real.startswith(f"{root}/") for root in _READABLE):
        # Python, and pytest in its place, keep what they compile of a module on its first import.
        return
    allowed = (str(_watched),) if writes else (str(_watched), *_READABLE)
    if not any(real == root or real.startswith(f"{root}/") for root in allowed) and (
        writes or real not in _ALSO_READABLE
    ):
        raise Breach(f"{event} of {text!r}, {'written' if writes else 'read'}")


@contextmanager
def guard(folder: Path) -> Iterator[None]:
    """Until the end: nothing but ``folder`` is written, and memory is limited."""
    global _watched
    if not getattr(_audit, "is_hooked", False):
        sys.addaudithook(_audit)
        _audit.is_hooked = True  # type: ignore[attr-defined]
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    before = signal.signal(signal.SIGPROF, _late)
    _watched = Path(os.path.realpath(folder))
    try:
        yield
    finally:
        _watched = None
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _late(signum: int, frame: FrameType | None) -> None:
    raise Breach(f"still busy after {LIMIT_S:g} s")


def verdict(job: Callable[[], object]) -> Verdict:
    """Run ``job`` under the guard that is set up, and judge how it ended."""
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        job()
    except HilError as error:
        if _UNFORESEEN in error.fact:
            return Verdict(False, f"unforeseen: {_place(error.__cause__ or error)}", _told(error))
        if not error.fact.strip() or "\n" in error.fact:
            return Verdict(False, f"not one clear line: {_place(error)}", _told(error))
        return Verdict(False)
    except (Exception, Breach) as error:
        return Verdict(False, f"{_name(error)}: {_place(error)}", _told(error))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Verdict(True)


def _name(error: BaseException) -> str:
    return str(error) if isinstance(error, Breach) else type(error).__name__


def _place(error: BaseException) -> str:
    """Where it was raised: the last line of the project's."""
    place = ""
    while error.__cause__ is not None:
        error = error.__cause__
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        # Python's packages may lie below, in an environment.
        others = (_ROOT / "tests", sys.prefix)
        if path.is_relative_to(_ROOT) and not any(path.is_relative_to(p) for p in others):
            place = f"{path.relative_to(_ROOT)}:{frame.lineno} {frame.name}"
    return f"{type(error).__name__} at {place or 'no line of the project'}"


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
