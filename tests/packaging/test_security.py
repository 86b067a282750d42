"""The sentences of SECURITY.md about this program's own code, held against that code."""

from __future__ import annotations

import ast
import ipaddress
from functools import cache
from pathlib import Path

import psutil
import pytest
from tiny_library import tiny_library

from hil import virtual_probe
from hil.board import load_board
from hil.build import build
from hil.cli.commands.command_line import build_parser
from hil.lab.board_server import BoardServer
from hil.runners import debug, qemu
from hil.runners.choice import Choice

ROOT = Path(__file__).resolve().parents[2]

#: Calls that execute what they are given, or trust it: where they may stand, and why.
EXECUTES = {
    ("compiler/hilc/lowering/cost.py", "exec"): "cost formulas of kernels' headers",
    ("compiler/hilc/support/arguments.py", "eval"): "annotations of our own functions",
    ("hil/cli/commands/matrix.py", "pickle.dumps"): "to a process of this program",
    ("hil/cli/commands/matrix.py", "pickle.loads"): "from a process of this program",
    ("hil/cli/commands/worker.py", "pickle.load"): "from the process that started it",
    ("hil/cli/commands/worker.py", "pickle.dumps"): "to the process that started it",
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
    ("compiler/hilc/references/process.py", "tempfile.TemporaryFile"),
    ("hil/cli/__init__.py", "tempfile.gettempdir"),
}
#: Sockets that others can reach: where they are bound to anything but a literal loopback address.
LISTENS = {
    "hil/lab/board_server.py": "the address of the user's option --host, by default loopback",
    "hil/runners/renode.py": "looks for a free port and closes it",
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


def test_nothing_is_executed_or_unpickled_but_what_is_our_own() -> None:
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


def test_sockets_are_bound_to_the_loopback() -> None:
    elsewhere = set()
    seen = 0
    for module, name, call in _calls():
        if name.endswith(("create_server", ".bind", "HTTPServer", "start_server")):
            # The others bind arguments, or paths.
            for address in (arg for arg in call.args[:1] if isinstance(arg, ast.Tuple)):
                seen += 1
                if ast.unparse(address.elts[0]) != "'127.0.0.1'":
                    elsewhere.add(module)
    assert elsewhere == set(LISTENS)
    assert seen > 3


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


def test_whatever_listens_is_reached_from_this_machine_alone() -> None:
    board = load_board("mps2-an386")
    image = build([tiny_library("y[0] = x[0];", cpu=board.cpu.name)], board)
    seen = set()
    for started in (
        qemu.start(board, image),
        virtual_probe.start(load_board("microbit")),
        debug.serve(board, image.elf, None, Choice(None, None)),
    ):
        with started:
            for address, program in _listening():
                assert ipaddress.ip_address(address).is_loopback, (address, program)
                seen.add(program)
    assert any(program.startswith("qemu-system") for program in seen)


def test_a_lab_is_served_on_the_loopback_unless_told_otherwise() -> None:
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
        "no command line goes through a shell",
        "readable by this user only",
    ):
        assert sentence in text, sentence


@pytest.mark.parametrize(
    "name", ["tests/packaging/test_security.py", "tests/hilc/test_temporary.py"]
)
def test_the_page_names_its_tests(name: str) -> None:
    assert name in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
