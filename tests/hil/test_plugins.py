"""Plugins: what others bring is registered as ours is, and the command line finds it installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from descriptions import description_text
from tflite_builder import ModelBuilder

import hil.cli.formats  # noqa: F401 - registers ours
from hil.board import load_board
from hil.cli.reports import ReportFormat, format_named, register_report
from hil.errors import InputError
from hil.plugins import plugins
from hil.runners import Runner, register_runner, runner_named

TESTS = Path(__file__).resolve().parents[1]
DIGITS = TESTS.parent / "examples" / "digits" / "digits.tflite"
BOARD = "mps2-an386"


class Site:
    """A folder like ``site-packages``, and the commands of an interpreter that has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def install(self, distribution: str, entries: str, *sources: Path) -> None:
        """A distribution with entry points ``NAME = TARGET`` of our group."""
        for source in sources:
            shutil.copy(source, self.folder)
        about = self.folder / f"{distribution.replace('-', '_')}-1.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        )
        (about / "entry_points.txt").write_text(f"[hil.plugins]\n{entries}\n")

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder), *filter(None, sys.path)])
        return {**os.environ, "PYTHONPATH": path, "OWN_RUNNER_LOG": str(self.folder / "log")}

    def hil(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "hil", *map(str, words)],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    @property
    def started(self) -> int:
        """How often the own runner has started a board."""
        log = self.folder / "log"
        return len(log.read_text().splitlines()) if log.is_file() else 0


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """With our test parts installed."""
    made = Site(tmp_path / "site")
    made.install("acme-parts", "parts = own_parts", TESTS / "own_parts.py")
    return made


def test_an_own_runner_and_report_serve_the_commands(site: Site) -> None:
    own = (DIGITS, "--board", BOARD, "--runner", "terminal", "--format", "figures")
    told = site.hil("verify", *own, "--samples", 2)
    assert told.stdout == f"verify {BOARD} digits mismatches=0\n"
    assert site.started == 1
    per_inference = json.loads(site.hil("bench", DIGITS, "--board", BOARD, "--json").stdout)[
        "per_inference"
    ]
    head, _, count = site.hil("bench", *own).stdout.rpartition("=")
    assert head == f"bench {BOARD} digits instructions"
    assert abs(int(count) - per_inference) <= 2
    assert site.started == 2


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
    runners = "runners = ["
    assert runners in text
    path.write_text(text.replace(runners, 'runners = ["terminal", ', 1))
    return path


def test_a_description_may_name_an_own_runner(site: Site, tmp_path: Path) -> None:
    board = own_board(tmp_path)
    site.hil("verify", DIGITS, "--board", board, "--samples", 1)
    assert site.started == 1
    needs = json.loads(site.hil("doctor", "--board", board, "--json").stdout)["board"]["needs"]
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


def test_own_front_ends_and_operators_serve_the_commands(site: Site, tmp_path: Path) -> None:
    chain = tmp_path / "chain.layers"
    chain.write_text('#layers\n{"shape": [1, 6], "operators": ["RELU", "TANH"]}')
    check = ("--board", "native", "--samples", 2, "--reference", "hilc")
    assert "match over 2 samples" in site.hil("verify", chain, *check).stdout
    b = ModelBuilder()
    b.input("x", (1, 8), "int8", scale=0.5, zero_point=3)
    b.output("y", (1, 8), "int8", scale=0.5, zero_point=3)
    b.op("CUSTOM", ("x",), ("y",), custom_code="Negate", custom_options=b"\x00")
    model = tmp_path / "negate.tflite"
    model.write_bytes(b.build())
    assert "Negate" in site.hil("verify", model, *check, code=2).stderr
    site.install("acme-operator", "negate = own_operator", TESTS / "own_operator.py")
    assert "match over 2 samples" in site.hil("verify", model, *check).stdout


def test_a_plugin_that_cannot_be_imported_is_named(site: Site) -> None:
    (site.folder / "broken.py").write_text("import a_module_that_nobody_has\n")
    site.install("acme-broken", "broken = broken")
    refused = json.loads(site.hil("boards", "--json", code=2).stdout)["error"]
    assert refused["message"] == (
        "the plugin 'broken' cannot be loaded: importing broken raised ModuleNotFoundError: "
        "No module named 'a_module_that_nobody_has'"
    )
    assert "pip uninstall acme-broken" in refused["hint"]
    found = json.loads(site.hil("doctor", "--json", code=4).stdout)
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
    ],
)
def test_whatever_a_plugin_does_is_told(site: Site, source: str, problem: str) -> None:
    (site.folder / "odd.py").write_text(source + "\n")
    site.install("acme-odd", "odd = odd")
    told = site.hil("boards", code=2).stderr
    assert "the plugin 'odd' cannot be loaded" in told
    assert problem in told


def test_an_entry_point_may_name_a_function(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    (site.folder / "late.py").write_text(
        "from hil.cli.reports import ReportFormat, register_report\n"
        "def register():\n    register_report(ReportFormat('mute', lambda outcomes: 'nothing'))\n"
    )
    site.install("acme-late", "late = late:register")
    told = site.hil("build", DIGITS, "--board", "microbit", "--format", "mute")
    assert told.stdout == "nothing\n"


def test_formats_are_told_apart(site: Site) -> None:
    words = ("bench", DIGITS, "--board", "microbit")
    told = site.hil(*words, "--format", "figure", code=2).stderr
    assert "unknown report format 'figure' (did you mean figures?)" in told
    assert "choose text, json or figures" in told
    told = site.hil(*words, "--format", "figures", "--json", code=2).stdout
    assert "--json and --format figures are both given" in json.loads(told)["error"]["message"]
    as_json = json.loads(site.hil(*words, "--format", "json").stdout)
    assert as_json == json.loads(site.hil(*words, "--json").stdout)
    refused = site.hil(*words, "--runner", "x", "--format", "json", code=2).stdout
    assert "has no runner 'x'" in json.loads(refused)["error"]["message"]


def test_ours_are_registered_and_names_are_taken_once() -> None:
    for name in ("native", "qemu", "renode", "pyocd"):
        with pytest.raises(InputError, match=f"a runner '{name}' exists already"):
            register_runner(Runner(name, runner_named(name).start))
    for name in ("text", "json"):
        with pytest.raises(InputError, match=f"a report format '{name}' exists already"):
            register_report(ReportFormat(name, format_named(name).write))
    with pytest.raises(InputError, match="unknown runner 'qemuu' \\(did you mean qemu"):
        runner_named("qemuu")


def test_a_description_with_an_unknown_runner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown runner 'terminal'"):
        load_board(own_board(tmp_path))


def test_no_plugin_is_installed_here() -> None:
    """Else the tests of the whole project would be of something else."""
    assert plugins() == ()
