"""The sentences of SECURITY.md about this program's own code, held against that code."""

from __future__ import annotations

import ast
import dataclasses
import ipaddress
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

import psutil
import pytest
from campaigns import cases
from tiny_library import tiny_library

from hil import virtual_probe
from hil.access import debug
from hil.access.connection import Connection
from hil.board import load_board
from hil.board.board import Qemu
from hil.build import build
from hil.cli.command_line import build_parser
from hil.lab.board_server import BoardServer

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"

#: Calls that execute what they are given, or trust it: where they may stand, and why.
EXECUTES = {
    ("compiler/hilc/lowering/cost.py", "exec"): "cost formulas of kernels' headers",
    ("compiler/hilc/support/arguments.py", "eval"): "annotations of our own functions",
    ("hil/jobs/matrix.py", "pickle.dumps"): "to a process of this program",
    ("hil/jobs/matrix.py", "pickle.loads"): "from a process of this program",
    ("hil/jobs/worker.py", "pickle.load"): "from the process that started it",
    ("hil/jobs/worker.py", "pickle.loads"): "the job in what that process sent",
    ("hil/jobs/worker.py", "pickle.dumps"): "to the process that started it",
}
_EXECUTE = {
    *("eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "tempfile.mktemp"),
    *("subprocess.getstatusoutput", "yaml.load", "torch.load", "marshal.loads", "shelve.open"),
}
#: Where temporary files come from: unnamed ones, and folders that only this user can read.
TEMPORARY = {
    ("compiler/hilc/support/temporary.py", "tempfile.TemporaryDirectory"),
    ("compiler/hilc/support/temporary.py", "tempfile.gettempdir"),
    ("hil/support/process.py", "tempfile.TemporaryFile"),
    ("hil/support/unix_socket.py", "tempfile.gettempdir"),
    # On Windows, where that folder is the user's own.
    ("compiler/hilc/support/locks.py", "tempfile.gettempdir"),
    ("hil/access/board_lock.py", "tempfile.gettempdir"),
    ("compiler/hilc/references/process.py", "tempfile.TemporaryFile"),
}
#: Every call that makes a socket, and who reaches it.
SOCKETS = {
    ("compiler/hilc/references/child.py", "socket.socket"): "an inherited end of a pair",
    ("compiler/hilc/references/process.py", "socket.socketpair"): "no name: this process's child",
    ("hil/lab/board_server.py", "socket.create_server"): "the line: --host, by default loopback",
    ("hil/lab/board_server.py", "ThreadingHTTPServer"): "requests: --host, by default loopback",
    ("hil/lab/place.py", "urllib.request.build_opener"): "a client of board servers",
    ("hil/device/power/sockets.py", "HTTPConnection"): "a client of the stated power switch",
    ("hil/link/line.py", "socket.create_connection"): "a client of the user's URL",
    ("hil/link/line.py", "socket.socket"): "a client of a socket with a path",
    ("hil/access/pyocd/session.py", "GDBServer"): "its TCP port is closed before it accepts",
    ("hil/access/debug.py", "socket.create_server"): "the user's option --listen",
    ("hil/access/gdb_filter.py", "socket.socket"): "a client of the server behind the filter",
    ("hil/access/hardware.py", "socket.socket"): "clients of a virtual board's private folder",
    (
        "hil/access/qemu.py",
        "socket.create_server",
    ): "a serial line: loopback, one client",
    ("hil/access/qemu.py", "socket.socketpair"): "no name: this process's QEMU",
    ("hil/access/verilator/runner.py", "socket.socketpair"): "no name: this process's simulation",
    ("hil/access/renode.py", "socket.socket"): "looks for a free port and closes it",
    ("hil/access/renode_monitor.py", "socket.create_connection"): "a client of Renode's monitor",
    ("hil/support/gdb.py", "socket.socket"): "clients of a virtual board's private folder",
    ("hil/access/jumpstarter/client.py", "socket.socket"): "an inherited end of a pair",
    ("hil/access/flashers/openocd.py", "socket.socketpair"): "no name: this process's OpenOCD",
    ("hil/support/unix_socket.py", "socket.socket"): "listens in a folder of this user",
}
_SOCKET = (
    *("socket.socket", "socketpair", "create_server", "create_connection", "fromfd"),
    *("HTTPServer", "start_server", "build_opener", "urlopen", "GDBServer", "ServerProxy"),
    "HTTPConnection",
)
#: Every call that starts a program, and where its words come from.
STARTS = {
    ("hil/verify/flash_reads.py", "run"): "QEMU; the host's C compiler, for a file of this package",
    ("compiler/hilc/support/process.py", "subprocess.Popen"): "compilers: names of WORD, paths",
    ("compiler/hilc/support/process.py", "subprocess.run"): "compilers: names of WORD, paths",
    ("hil/cli/supervision.py", "os.fork"): "this process itself, under tight limits: no program",
    ("hil/firmware/stack.py", "subprocess.run"): "objdump of a toolchain, on an image",
    ("hil/lab/place.py", "subprocess.Popen"): "this interpreter: the keeper",
    ("hil/lab/place.py", "subprocess.run"): "this interpreter: labgrid's client, and a place",
    ("hil/lab/serve.py", "ChildProcess"): "this interpreter: labgrid's programs",
    ("hil/access/jumpstarter/runner.py", "ChildProcess"): "this interpreter: the exporter's client",
    ("hil/access/native.py", "ChildProcess"): "the image",
    ("hil/access/flashers/openocd.py", "ChildProcess"): "OpenOCD: names of settings",
    ("hil/access/verilator/build.py", "run"): "Verilator, on files of packages",
    ("hil/access/verilator/runner.py", "ChildProcess"): "the simulation that was built",
    ("hil/access/flashers/program.py", "run"): "names of settings, checked serials, our files",
    ("compiler/hilc/codegen/llvm.py", "run"): "clang, objcopy",
    ("compiler/hilc/host/build.py", "run"): "the host's C compiler",
    ("hil/cli/doctor.py", "run"): "known tools, for their versions",
    ("hil/device/power/programs.py", "run"): "commands of the user's configuration, uhubctl",
    ("hil/firmware/build.py", "run"): "CMake",
    ("hil/firmware/toolchain.py", "run"): "compilers: names of WORD, paths",
    ("hil/verify/provenance.py", "run"): "git, for the revision",
    ("hil/access/qemu.py", "ChildProcess"): "QEMU: hil.board.machine",
    ("hil/access/renode.py", "ChildProcess"): "Renode: fixed words",
    ("hil/virtual_probe/machine.py", "ChildProcess"): "QEMU: hil.board.machine",
}
_START = {
    *("subprocess.Popen", "subprocess.run", "subprocess.call", "subprocess.check_call"),
    *("subprocess.check_output", "ChildProcess", "os.posix_spawn", "os.execv", "os.execvp"),
    *("os.spawnv", "os.fork", "pty.spawn", "webbrowser.open", "os.startfile"),
}


@cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    folders = (ROOT / "hil", ROOT / "compiler" / "hilc")
    return tuple(
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_bytes()))
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
    )


def _dotted(function: ast.expr) -> str:
    """Return a function's name as it is written; that of a value's method begins with a dot."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        return f"{_dotted(function.value)}.{function.attr}"
    return ""


@cache
def _calls() -> tuple[tuple[str, str, ast.Call], ...]:
    """Every call of the program: its module, the name that is called, the call."""
    return tuple(
        (name, _dotted(node.func), node)
        for name, module in _modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
    )


def test_nothing_is_given_to_a_shell() -> None:
    for module, name, call in _calls():
        for keyword in call.keywords:
            # argcomplete's function writes the completion of that shell.
            is_ours = name == "shellcode"
            assert is_ours or keyword.arg != "shell", f"{module}: {name} at line {call.lineno}"


def test_only_own_files_are_executed_or_unpickled() -> None:
    found = {
        (module, name)
        for module, name, _ in _calls()
        if name in _EXECUTE or name.startswith(("pickle.", "dill.", "joblib."))
    }
    assert found == set(EXECUTES)


def test_arrays_are_read_without_pickles() -> None:
    seen = 0
    for module, name, call in _calls():
        if name in ("np.load", "np.lib.format.read_array"):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert given.get("allow_pickle", "False") == "False", f"{module}:{call.lineno}"
            seen += 1
    assert seen


def test_temporary_files_are_private() -> None:
    found = {(module, name) for module, name, _ in _calls() if name.startswith("tempfile.")}
    subclassed = {
        (module, ast.unparse(base).partition("[")[0])
        for module, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if ast.unparse(base).startswith("tempfile.")
    }
    assert found | subclassed == TEMPORARY


def test_every_socket_is_known() -> None:
    found = {(module, name) for module, name, _ in _calls() if name.endswith(_SOCKET)}
    assert found == set(SOCKETS)


def _runners() -> set[tuple[str, str]]:
    """The modules that run programs by our own function, with its name there."""
    return {
        (module, alias.asname or alias.name)
        for module, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "hilc.support.process"
        for alias in node.names
        if alias.name == "run"
    }


def test_every_start_of_a_program_is_known() -> None:
    found = {(module, name) for module, name, _ in _calls() if name in _START}
    assert found | _runners() == set(STARTS)


def test_python_is_started_on_this_process_s_path() -> None:
    """By ``-m`` it would look for modules in the working folder first."""
    for module, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.List) and "sys.executable" in ast.unparse(node):
                assert "'-m'" not in ast.unparse(node), f"{module}: line {node.lineno}"


@cases("words", [["--jobs", "2"], []], first=1)
def test_no_file_of_the_working_folder_is_run(words: list[str], tmp_path: Path) -> None:
    """A folder may come with a model, and bring files with the names of modules."""
    names = ("numpy", "json", "hil", "hilc", "serial", "labgrid", "asyncio", "tflite_micro", "re")
    for name in (*names, "sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text("open('canary', 'w').close()\nraise SystemExit(99)\n")
    (tmp_path / "model.tflite").write_bytes(DIGITS.read_bytes())
    # As the script `hil` does, whose own folder is the first of the path.
    code = "import sys; del sys.path[0]; from hil.cli import main; sys.exit(main())"
    boards = ["--board", "native", "--board", "mps2-an386"] if "--jobs" in words else []
    boards = boards or ["--board", "native"]
    command = [sys.executable, "-c", code, "verify", "model.tflite", *boards, *words]
    done = subprocess.run(
        [*command, "--samples", "1"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "canary").exists()


def test_options_of_qemu_are_ours() -> None:
    """No other module makes a command of QEMU, and no description has words for it."""
    makers = {
        module
        for module, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in ("-machine", "-M", "-icount")
    }
    assert makers == {"hil/board/machine.py"}
    fields = {field.name: field.type for field in dataclasses.fields(Qemu)}
    assert fields == {
        **dict.fromkeys(("machine", "cpu", "trace", "plugin"), "str"),
        **dict.fromkeys(("icount_shift", "serial", "memory_bytes", "vector_bits"), "int"),
    }


def _unix_sockets() -> list[Path]:
    """The paths at which this process and its children listen."""
    me = psutil.Process()
    found = []
    for process in (me, *me.children(recursive=True)):
        paths = (connection.laddr for connection in process.net_connections(kind="unix"))
        found += [Path(path) for path in paths if path and "/hil-" in path]
    return found


def _listening() -> list[tuple[str, str]]:
    """The addresses at which this process and its children can be reached, and their programs."""
    me = psutil.Process()
    found = []
    for process in (me, *me.children(recursive=True)):
        for connection in process.net_connections(kind="inet"):
            if connection.status == psutil.CONN_LISTEN or not connection.raddr:
                # Also of other tests of this process: gRPC's sockets are of both families.
                address = connection.laddr.ip.removeprefix("::ffff:")
                found.append((address, process.name()))
    return found


@pytest.mark.parametrize("name", ["virtual probe", "debug of QEMU", "debug of pyOCD"])
def test_emulators_are_reached_by_this_user_alone(name: str) -> None:
    board = load_board("mps2-an386")
    image = build([tiny_library("y[0] = x[0];", cpu=board.cpu.name)], board)
    started: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "virtual probe": lambda: virtual_probe.start(board),
        "debug of QEMU": lambda: debug.serve(board, image.elf, "qemu", Connection()),
        "debug of pyOCD": lambda: debug.serve(board, image.elf, "pyocd", Connection("virtual")),
    }
    before = Counter(_listening())
    with started[name]():
        assert not Counter(_listening()) - before, "a TCP or UDP socket"
        places = _unix_sockets()
        assert places
        for place in places:
            about = place.parent.stat()
            assert about.st_uid == os.getuid()
            assert about.st_mode & 0o077 == 0, f"others enter {place.parent}"


def test_a_debugger_is_on_tcp_where_that_is_asked_for() -> None:
    board = load_board("mps2-an386")
    image = build([tiny_library("y[0] = x[0];", cpu=board.cpu.name)], board)
    before = Counter(_listening())
    with debug.serve(board, image.elf, "qemu", Connection(), ("127.0.0.1", 0)):
        ((address, program),) = Counter(_listening()) - before
    assert ipaddress.ip_address(address).is_loopback
    assert "qemu" not in program, "the filter listens, not QEMU"


def test_a_lab_is_served_on_loopback_by_default() -> None:
    parser = build_parser(["lab", "serve"])
    assert parser.parse_args(["lab", "serve", "mps2-an386"]).host == "127.0.0.1"
    server = BoardServer(load_board("mps2-an386"))
    try:
        assert {address for address, _ in _listening()} == {"127.0.0.1"}
    finally:
        server.close()


def test_the_page_names_what_is_tested() -> None:
    text = " ".join((ROOT / "SECURITY.md").read_text(encoding="utf-8").split())
    for sentence in (
        "Whoever reaches the serial line owns the board",
        "A lab authenticates nobody",
        "Renode listens on all addresses",
        "runs no command of the file's choice",
        "a gdb server is reached by this user alone",
        "no command line goes through a shell",
        "readable by this user only",
    ):
        assert sentence in text, sentence


@pytest.mark.parametrize(
    "name",
    [
        "tests/packaging/test_security.py",
        "tests/hilc/test_temporary.py",
        "tests/hil/test_hostile_descriptions.py",
        "tests/hil/test_gdb_filter.py",
        "tests/hil/test_locked_chip.py",
        "tests/lab/test_board_server.py",
    ],
)
def test_the_page_names_its_tests(name: str) -> None:
    assert name in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
