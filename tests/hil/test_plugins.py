"""Plugins: what others bring is registered as ours is, and the command line finds it installed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import answers
import pytest
from descriptions import description_text
from plugin_site import Site
from tflite_builder import ModelBuilder

import hil.cli.formats  # noqa: F401 - registers ours
from hil.access import Connection, Runner, Running, _started, register_runner, runner_named
from hil.board import load_board
from hil.cli.reports import ReportFormat, format_named, register_report
from hil.errors import InputError
from hil.plugins import plugins
from hilc.frontends import Reader, register_reader

TESTS = Path(__file__).resolve().parents[1]
PARTS = TESTS / "support" / "harness"
DIGITS = TESTS.parent / "examples" / "digits" / "digits.tflite"
BOARD = "mps2-an386"


_REPORT = "from hil.cli.reports import *; register_report(ReportFormat"
_RUNNER = """
from hil.access import Runner, register_runner
class Own(Runner):
    name = "x"
    def serves(self, board): return True
    def start(self, *given): return start(*given)
register_runner(Own())
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """With our test parts installed."""
    made = Site(tmp_path / "site")
    made.install("acme-parts", "parts = own_parts", PARTS / "own_parts.py")
    return made


def test_an_own_runner_and_report_serve_the_commands(site: Site) -> None:
    own = (DIGITS, "--board", BOARD, "--runner", "terminal", "--format", "figures")
    told = site.hil("verify", *own, "--samples", 2)
    assert told.stdout == f"verify {BOARD} digits mismatches=0\n"
    assert site.started == 1
    per_inference = answers.entry(site.hil("bench", DIGITS, "--board", BOARD, "--json").stdout)[
        "per_inference"
    ]
    head, _, count = site.hil("bench", *own).stdout.rpartition("=")
    assert head == f"bench {BOARD} digits instructions"
    assert abs(int(count) - per_inference) <= 2
    assert site.started == 2


@pytest.mark.full
def test_a_report_gets_all_boards_and_their_failures(site: Site) -> None:
    # The second board has the own runner by nobody's word.
    words = ("--board", BOARD, "--board", "native", "--runner", "terminal", "--samples", 1)
    told = site.hil("verify", DIGITS, *words, "--format", "figures", code=2)
    assert told.stdout.splitlines() == [
        f"verify {BOARD} digits mismatches=0",
        "verify native failed: board 'native' has no runner 'terminal'",
    ]
    assert "native: board 'native' has no runner" in told.stderr


def own_board(folder: Path) -> Path:
    """A board that an own runner starts."""
    path = folder / "perch.toml"
    text = description_text(BOARD)
    assert "[[runner]]" in text
    path.write_text(text.replace("[[runner]]", '[[runner]]\nname = "terminal"\n\n[[runner]]', 1))
    return path


@pytest.mark.full
def test_a_description_may_name_an_own_runner(site: Site, tmp_path: Path) -> None:
    board = own_board(tmp_path)
    site.hil("verify", DIGITS, "--board", board, "--samples", 1)
    assert site.started == 1
    needs = answers.entry(site.hil("doctor", "--board", board, "--json").stdout)["board"]["needs"]
    assert {"what": "runner terminal", "found": True, "required": True}.items() <= needs[0].items()


def test_pytest_starts_a_board_by_an_own_runner(
    site: Site, pytester: pytest.Pytester, tmp_path: Path
) -> None:
    pytester.makepyfile(
        f"""
        import numpy
        import pytest

        @pytest.mark.hil(model={str(DIGITS)!r})
        def test_it(hil_device):
            model = hil_device["digits"]
            (tensor,) = model.inputs
            model.set_input(tensor.name, numpy.zeros(tensor.shape, tensor.dtype))
            assert model.run().ticks > 0
        """
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--hil-board", str(own_board(tmp_path))],
        env=site.environment,
        cwd=pytester.path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert site.started == 1


def test_own_front_ends_and_operators(site: Site, tmp_path: Path) -> None:
    chain = tmp_path / "chain.layers"
    chain.write_text('#layers\n{"shape": [1, 6], "operators": ["RELU", "TANH"]}')
    check = ("--board", "native", "--samples", 2, "--reference", "hilc")
    match = "match with this compiler's own interpreter (not independent) over 2 samples"
    assert match in site.hil("verify", chain, *check).stdout
    b = ModelBuilder()
    b.input("x", (1, 8), "int8", scale=0.5, zero_point=3)
    b.output("y", (1, 8), "int8", scale=0.5, zero_point=3)
    b.op("CUSTOM", ("x",), ("y",), custom_code="Negate", custom_options=b"\x00")
    model = tmp_path / "negate.tflite"
    model.write_bytes(b.build())
    assert "Negate" in site.hil("verify", model, *check, code=2).stderr
    site.install("acme-operator", "negate = own_operator", PARTS / "own_operator.py")
    assert match in site.hil("verify", model, *check).stdout


def test_a_plugin_that_cannot_be_imported_is_named(site: Site) -> None:
    (site.folder / "broken.py").write_text("import a_module_that_nobody_has\n")
    site.install("acme-broken", "broken = broken")
    refused = answers.error(site.hil("boards", "--json", code=2).stdout)
    assert refused["message"] == (
        "the plugin 'broken' cannot be loaded: importing broken raised ModuleNotFoundError: "
        f"No module named 'a_module_that_nobody_has' ({site.folder / 'broken.py'}:1)"
    )
    assert "pip uninstall acme-broken" in refused["hint"]
    found = answers.entry(site.hil("doctor", "--json", code=4).stdout)
    broken, parts = found["plugins"]
    assert parts == {
        "name": "parts",
        "target": "own_parts",
        "distribution": "acme-parts",
        "version": "1.2",
        "ok": True,
        "problem": "",
        "remedy": "",
    }
    assert (broken["name"], broken["ok"], found["ok"]) == ("broken", False, False)
    assert "CANNOT be loaded: ModuleNotFoundError" in site.hil("doctor", code=4).stdout
    # What needs no plugin imports none.
    site.hil("--help")
    site.hil("completion", "bash")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("raise SystemExit(3)", "RuntimeError: it raises SystemExit (3)"),
        ("raise BaseException(4)", "RuntimeError: it raises BaseException (4)"),
        ("import importlib, own_parts as p; importlib.reload(p)", "InputError: a runner"),
        ("from hil.board import load_board; load_board('nowhere')", "'nowhere'"),
        ("import json\njson.loads('x')", "odd.py:2)"),
        ("def f(:", "SyntaxError: invalid syntax ({folder}/odd.py:1)"),
    ],
)
def test_whatever_a_plugin_does_is_told(site: Site, source: str, problem: str) -> None:
    (site.folder / "odd.py").write_text(source + "\n")
    site.install("acme-odd", "odd = odd")
    told = site.hil("boards", code=2).stderr
    assert "the plugin 'odd' cannot be loaded" in told
    assert problem.format(folder=site.folder) in told


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("rig", "its entry_points.txt cannot be read (TypeError"),
        ("acme rig!! = json", "its entry point has the invalid name 'acme rig!!'"),
        ("rig = sys:maxsize", "its entry point 'sys:maxsize' is of type int"),
    ],
)
def test_malformed_entry_points_are_told(tmp_path: Path, entry: str, problem: str) -> None:
    site = Site(tmp_path / "site")
    site.install("acme-rig", entry)
    told = site.hil("boards", code=2).stderr
    assert problem in told
    assert "pip uninstall acme-rig" in told


def test_doctor_lists_entry_points_that_cannot_be_read(tmp_path: Path) -> None:
    """pyOCD, which reads those of all distributions, then cannot be imported either."""
    site = Site(tmp_path / "site")
    site.install("acme-rig", "rig")
    (plugin,) = answers.entry(site.hil("doctor", "--json", code=4).stdout)["plugins"]
    assert (plugin["name"], plugin["version"], plugin["ok"]) == ("acme-rig", "1.2", False)
    assert "pip uninstall acme-rig" in plugin["remedy"]


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        ("lambda o: open('/nowhere')", "the plugin 'odd' (odd) raised FileNotFoundError"),
        ("lambda o: exit(0)", "the plugin 'odd' (odd) raised SystemExit: 0"),
        ("lambda o: None", "the report format 'x' returned None, of type NoneType"),
    ],
)
def test_a_fault_of_a_report_names_its_plugin(site: Site, write: str, problem: str) -> None:
    (site.folder / "odd.py").write_text(f"{_REPORT}('x', {write}))\n")
    site.install("acme-odd", "odd = odd")
    told = site.hil("build", DIGITS, "--board", "microbit", "--format", "x", code=2).stderr
    assert problem in told
    assert "pip uninstall acme-odd" in told
    assert "Traceback" not in told
    if "raised" in problem:
        assert f"({site.folder / 'odd.py'}:1)" in told


_START = "import contextlib\n@contextlib.contextmanager\ndef start(board, image, choice):\n"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (f"{_START}    1 / 0\n", "raised ZeroDivisionError: division by zero ({folder}/odd.py:4)"),
        (f"{_START}    yield 5\n", "start yielded 5, which lacks url, line"),
    ],
)
def test_a_fault_of_a_runner_names_its_plugin(site: Site, source: str, problem: str) -> None:
    """On the first of two boards: the second is tried all the same."""
    (site.folder / "odd.py").write_text(f"{source}{_RUNNER}")
    site.install("acme-odd", "odd = odd")
    words = ("--board", BOARD, "--board", "mps2-an385", "--runner", "x")
    told = site.hil("bench", DIGITS, *words, code=2).stderr
    assert told.count(problem.format(folder=site.folder)) == 2
    assert told.count("it comes from the plugin 'odd' (odd)") == 2
    assert "Traceback" not in told


@pytest.mark.full
def test_a_bug_while_a_runner_runs_is_not_the_runners(site: Site) -> None:
    """Its context is left with the exception, which so passes through its frames."""
    (site.folder / "odd.py").write_text(
        "import own_parts, hil.jobs.bench as running\n"
        "def broken(*words, **more):\n    raise KeyError('ours')\n"
        "broken.__globals__['__name__'] = 'hil.odd'\n"
        "running.measure = broken\n"
    )
    site.install("acme-odd", "odd = odd")
    words = ("bench", DIGITS, "--board", BOARD, "--runner", "terminal")
    assert "this is a bug in hil" in site.hil(*words, code=70).stderr


def test_an_entry_point_may_name_a_function(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    (site.folder / "late.py").write_text(
        "from hil.cli.reports import ReportFormat, register_report\n"
        "def register():\n    register_report(ReportFormat('mute', lambda outcomes: 'nothing'))\n"
    )
    site.install("acme-late", "late = late:register")
    told = site.hil("build", DIGITS, "--board", "microbit", "--format", "mute")
    assert told.stdout == "nothing\n"


@pytest.mark.full
def test_formats_are_told_apart(site: Site) -> None:
    words = ("bench", DIGITS, "--board", "microbit")
    told = site.hil(*words, "--format", "figure", code=2).stderr
    assert "unknown report format 'figure' (did you mean figures?)" in told
    assert "choose text, json, html or figures" in told
    told = site.hil(*words, "--format", "figures", "--json", code=2).stdout
    assert "--json and --format figures are both given" in answers.error(told)["message"]
    as_json, as_ever = (
        answers.entry(site.hil(*words, *way).stdout) for way in (("--format", "json"), ("--json",))
    )
    # But for the command line.
    assert as_json.pop("provenance").keys() == as_ever.pop("provenance").keys()
    assert as_json == as_ever
    refused = site.hil(*words, "--runner", "x", "--format", "json", code=2).stdout
    assert "unknown runner 'x'" in answers.error(refused)["message"]


#: As a plugin without types calls them.
_Report: Any = ReportFormat


def _own(name: object, start: Any, **more: object) -> Any:
    """A runner with these attributes."""
    return type("Own", (Runner,), {"name": name, "start": staticmethod(start), **more})()


_Reader: Any = Reader


@pytest.mark.parametrize(
    ("register", "fact"),
    [
        (lambda: register_report(_Report("", len)), "report format has the invalid name ''"),
        (lambda: register_report(_Report(3, len)), "report format has the invalid name 3"),
        (lambda: register_report(_Report("x", 5)), "'x' has write=5, of type int"),
        (lambda: register_runner(_own("a b!", len)), "a runner has the invalid name 'a b!'"),
        (lambda: register_runner(_own("x", "start")), "has start='start', of type str"),
        (lambda: register_runner(_own("x", len, needs=())), "has needs=(), of type tuple"),
        (
            lambda: register_reader(_Reader(None, "", len, len)),
            "the invalid name None",
        ),
        (lambda: register_reader(_Reader("x", "", len, None)), "has read=None, of type NoneType"),
        (
            lambda: register_report(_Report("text", len)),
            "a report format 'text' exists already, of hil.cli.formats",
        ),
    ],
)
def test_what_cannot_work_is_not_registered(register: Callable[[], None], fact: str) -> None:
    with pytest.raises(InputError) as caught:
        register()
    assert fact in caught.value.fact
    assert caught.value.hint


@pytest.mark.parametrize("start", [lambda *given: 3, lambda: None, "generator"])
def test_what_a_runner_starts_is_checked(start: object) -> None:
    @contextlib.contextmanager
    def nothing(*given: object) -> Iterator[Running]:
        return
        yield

    runner = _own("odd", nothing if start == "generator" else start)
    with (
        pytest.raises(InputError, match="the runner 'odd' raised .*; it comes from the module"),
        _started(runner, load_board("native"), SimpleNamespace(elf=DIGITS), Connection()),
    ):
        pass


def test_ours_are_registered_and_names_are_taken_once() -> None:
    for name in ("native", "qemu", "renode", "pyocd"):
        with pytest.raises(InputError, match=f"a runner '{name}' exists already"):
            register_runner(_own(name, runner_named(name).start))
    for name in ("text", "json"):
        with pytest.raises(InputError, match=f"a report format '{name}' exists already"):
            register_report(ReportFormat(name, format_named(name).write))
    with pytest.raises(InputError, match="unknown runner 'qemuu' \\(did you mean qemu"):
        runner_named("qemuu")


def test_a_description_with_an_unknown_runner(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown runner 'terminal'"):
        load_board(own_board(tmp_path))


def test_no_plugin_is_installed_here() -> None:
    """Else the tests of the whole project would be of something else."""
    assert plugins() == ()
