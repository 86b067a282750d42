"""Limits of the system, and libraries that end the process: errors with a remedy, never exit 1."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import answers
import psutil
import pytest
from campaigns import cases, sampled
from processes import file_size_limit
from torture import limits as campaign
from waiting import PATIENCE_S

from hil.errors import DeviceError, InputError
from hil.history import History
from hil.support.failures import known_error
from hil.support.process import ChildProcess
from hilc.support import limits
from hilc.support.outputs import OutputError, update_folder


def raised(
    error: BaseException, *, by: str = "read", while_handling: object = None
) -> BaseException:
    """``error`` as it is caught, from a function named ``by``."""
    space = {"error": error, "cause": while_handling}
    body = "raise error" if while_handling is None else RAISED_IN_TURN
    exec(f"def {by}():\n{textwrap.indent(body, ' ')}", space)
    try:
        space[by]()  # type: ignore[operator]
    except BaseException as caught:
        return caught
    raise AssertionError


RAISED_IN_TURN = """
try:
    raise cause
except BaseException:
    raise error from None
"""


def system(number: int, *names: str) -> OSError:
    return OSError(number, os.strerror(number), *names)


@pytest.mark.parametrize(
    ("error", "fact", "hint"),
    [
        (system(errno.EMFILE, "a.txt"), "files open at once (ulimit -n)", "ulimit -n 1024"),
        (system(errno.ENFILE), "fs.file-max", "raise that limit"),
        (system(errno.ENOMEM), "memory ran out", "free some"),
        (MemoryError(), "memory ran out", "free some"),
        (ImportError("libx.so: failed to map segment from shared object"), "memory", "free some"),
        (ImportError("libx.so: Too many open files"), "(ulimit -n)", "ulimit -n 1024"),
        (RuntimeError("can't start new thread"), "(ulimit -u)", "end other programs"),
        (system(errno.ENOSPC, "a.txt"), "cannot write a.txt: No space left", "free some space"),
        (system(errno.EDQUOT), "Disk quota exceeded", "free some space"),
        (system(errno.EROFS, "a.txt"), "Read-only file system", "choose a place"),
        (system(errno.EFBIG, "a.txt"), "File too large", "files of this size"),
        (system(errno.EACCES, "a.txt"), "cannot use a.txt: Permission denied", "access"),
        (RecursionError(), "nested more deeply", "simplify"),
    ],
)
def test_errors_of_the_system(error: BaseException, fact: str, hint: str) -> None:
    found = known_error(raised(error))
    assert found is not None
    assert fact in found.fact
    assert hint in found.hint
    assert found.exit_code == 2


def test_a_process_that_cannot_be_started() -> None:
    """EAGAIN of a fork is a limit; that of a lock or a socket is none."""
    found = known_error(raised(BlockingIOError(errno.EAGAIN, "again"), by="_execute_child"))
    assert found is not None
    assert "(ulimit -u)" in found.fact
    assert known_error(raised(BlockingIOError(errno.EAGAIN, "again"), by="flock")) is None


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("x"), OSError("x"), RuntimeError("x"), SystemError("x")]
)
def test_a_bug_stays_one(error: BaseException) -> None:
    assert known_error(raised(error)) is None


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        SystemError("error return without exception set"),
        RuntimeError("can't start new thread"),  # its stack takes address space
        RuntimeError("std::bad_alloc"),
    ],
)
def test_memory_that_is_limited(error: BaseException) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 45, hard))
    try:
        found = known_error(raised(error))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert found is not None
    assert found.fact == "memory ran out: this process may take 33,554,432 MiB (ulimit -v)"
    assert found.hint.endswith("ulimit -v unlimited")


def test_the_remedy_is_for_the_cause() -> None:
    """An error of the project in place of one of the system: the fact stays, the hint is right."""
    own = DeviceError("cannot start qemu", "install it")
    found = known_error(raised(own, while_handling=system(errno.EMFILE)))
    assert isinstance(found, DeviceError)
    assert found.fact == "cannot start qemu"
    assert found.hint.endswith("ulimit -n 1024")
    assert own.hint == "install it"
    quoted = InputError("the node 'Too many open files' is unknown", "drop it")
    assert known_error(raised(quoted)) is quoted


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("allocate 1073741824 bytes for jit buffer: Cannot allocate memory", "free some"),
        ("qemu: qemu_thread_create: Resource temporarily unavailable", "(pids)"),
        ("cannot open shared object file: Too many open files", "ulimit -n 1024"),
    ],
)
def test_an_emulator_that_meets_a_limit(message: str, hint: str) -> None:
    """It is not started again, which would end the same way."""
    child = ChildProcess("QEMU", ["sh", "-c", f"echo '{message}' >&2; exit 1"], install_hint="")
    try:
        child.process.wait(60)
        error = child.end()
    finally:
        child.stop()
    assert message in error.fact
    assert hint in error.hint
    assert error.remedy is None


def test_a_file_that_cannot_be_opened_is_not_edited(tmp_path: Path) -> None:
    """Without descriptors nothing is known of a folder's files, and nobody is accused."""
    update_folder(tmp_path / "out", {"a.txt": b"a"})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = os.open(tmp_path, os.O_RDONLY)
    try:
        # One more: the folder's lock.
        resource.setrlimit(resource.RLIMIT_NOFILE, (_next_descriptor() + 1, hard))
        with pytest.raises(OutputError, match="ulimit -n"):
            update_folder(tmp_path / "out", {"a.txt": b"b"})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(opened)
    update_folder(tmp_path / "out", {"a.txt": b"b"})


def _next_descriptor() -> int:
    found = os.dup(0)
    os.close(found)
    return found


def test_a_history_says_which_limit(tmp_path: Path) -> None:
    history = History(tmp_path / "h.db")
    with file_size_limit(512), pytest.raises(InputError, match=r"512 bytes \(ulimit -f\)"):
        history.check_writable()
    history.check_writable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_next_descriptor() + 1, hard))
        with pytest.raises(InputError, match=r"\(ulimit -n\)"):
            history.check_writable()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_umask_is_read_without_a_change() -> None:
    before = os.umask(0o027)
    try:
        assert limits.umask() == 0o027
        assert limits.umask_limit() is None
        os.umask(0o777)
        limit = limits.umask_limit()
    finally:
        os.umask(before)
    assert limit is not None
    assert "the umask is 0777" in limit.fact


# -- libraries that end the process ----------------------------------------------------------------


def command(body: str, *words: str, limit: str = "RLIMIT_AS, 8 << 30") -> list[str]:
    """The program with ``body`` for what ``hil boards`` does, under a limit."""
    code = (
        "import ctypes, os, resource, signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        f"which, value = resource.{limit}\n"
        "resource.setrlimit(which, (value, resource.getrlimit(which)[1]))\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "from hil import cli\n"
        "from hil.cli.commands import boards\n"
        "from hil.errors import NumericError\n"
        "def handler(args, console):\n"
        f"{textwrap.indent(body, '    ')}\n"
        "boards.run = handler\n"
        f"sys.argv = ['hil', 'boards', *{words!r}]\n"
        "sys.exit(cli.main())\n"
    )
    return [sys.executable, "-c", code]


def ran(body: str, *words: str, limit: str = "RLIMIT_AS, 8 << 30") -> tuple[int, str, str]:
    done = subprocess.run(
        command(body, *words, limit=limit), capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.full
@cases(
    ("body", "how"),
    [
        ("ctypes.CDLL(None).exit(1)", "exit status 1"),
        ("os._exit(1)", "exit status 1"),
        ("os._exit(0)", "exit status 0"),
        ("os.abort()", "signal 6 (SIGABRT)"),
        ("ctypes.string_at(0)", "signal 11 (SIGSEGV)"),
    ],
    first=1,
)
def test_a_library_does_not_choose_the_exit_code(body: str, how: str) -> None:
    code, output, errors = ran(body, "--json")
    assert code == 2
    assert answers.error(output)["exit_code"] == 2
    assert f"ended the command with {how}, under ulimit -v 8388608" in errors
    assert "hint: raise that limit" in errors


@pytest.mark.full
def test_the_kernel_ends_it_for_its_time() -> None:
    code, _, errors = ran("while True: pass", limit="RLIMIT_CPU, 1")
    assert code == 2
    assert "under ulimit -t 1" in errors


@pytest.mark.full
@cases(
    ("body", "code"),
    [
        ("return 0", 0),
        ("raise NumericError('it differs')", 1),
        ("raise ZeroDivisionError", 70),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", 143),
    ],
    first=1,
)
def test_an_exit_code_of_its_own_passes(body: str, code: int) -> None:
    assert ran(body)[0] == code


@pytest.mark.full
def test_signals_reach_the_command_under_a_limit() -> None:
    # The signal may arrive as soon as the line is printed, so it is printed within the block.
    body = "try:\n    print('begun', flush=True)\n    time.sleep(60)\nfinally:\n    print('closed')"
    process = subprocess.Popen(command(body), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == "closed\n"
    assert process.returncode == 143


def test_a_limited_command_ends_with_its_parent() -> None:
    process = subprocess.Popen(
        command("print('begun', flush=True); time.sleep(600)"), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "begun\n"
        children = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
    assert children
    assert not psutil.wait_procs(children, timeout=PATIENCE_S)[1]


@pytest.mark.full
def test_without_a_limit_there_is_one_process() -> None:
    body = "import psutil; print(psutil.Process().ppid() == int(os.environ['PARENT']))"
    environment = {**os.environ, "PARENT": str(os.getpid())}
    words = command(body + "\nreturn 0", limit="RLIMIT_CORE, 0")
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120)
    assert done.stdout == "True\n", done.stderr


# -- the campaign ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    campaign.prepare(folder)
    return folder


CONDITIONS = {condition.name: condition for condition in campaign.conditions(is_long=True)}
CASES = [(name, command) for name in CONDITIONS for command in campaign.SAMPLE]


@pytest.mark.parametrize(
    ("name", "command"),
    sampled(
        CASES,
        keep=[
            ("ulimit -n 5", "compile"),
            ("ulimit -n 8", "verify native"),
            ("ulimit -v 30000", "boards"),
            ("ulimit -v 100000", "boards"),
            ("ulimit -v 300000", "verify native"),
            ("ulimit -f 0", "verify native"),
            ("umask 777", "compile"),
            ("TMPDIR is missing", "compile"),
            ("closed streams", "verify native"),
            ("full stdout", "boards"),
        ],
    ),
)
def test_a_command_under_a_limit(place: Path, name: str, command: str) -> None:
    condition = CONDITIONS[name]
    done = campaign.attempt(place, campaign.COMMANDS[command], condition)
    assert list(campaign.faults(done, condition)) == [], done.line


def test_faults_are_found() -> None:
    condition = campaign.Condition("none")

    def found(code: int | None, errors: str) -> list[str]:
        return list(campaign.faults(campaign.Done("hil", code, "", errors), condition))

    assert found(0, "") == found(2, "error: a\n\nhint: b\n") == []
    assert found(1, "error: a\n\nhint: b\n") == ["exit code 1"]
    assert found(-11, "") == ["exit code -11"]
    assert found(None, "") == ["it does not end"]
    assert found(2, "error: a\n") == ["a message without a remedy"]
    assert found(3, "") == ["a failure without a message"]
    assert "a traceback" in found(70, "Traceback (most recent call last)\n\nerror: a bug in hil")
