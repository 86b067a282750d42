"""Workers of pytest-xdist that share boards: real boards behind ports, and boards of a lab."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from campaigns import sampled
from small_models import convolutions

from hil.access import start
from hil.board import load_board
from hil.build import build
from hil.firmware.sources import ModelOptions, ModelSource, load_library

SUITE = """
    import numpy as np
    import pytest

    pytestmark = pytest.mark.hil(model="tiny.tflite")

    @pytest.mark.parametrize("job", range({first}, {end}))
    def test_job(hil_device, job):
        model = hil_device["tiny"]
        model.set_input("x", np.full((1, 8, 8, 3), job, np.int8))
        model.run()
        assert model.get_output("y").shape == (1, 5)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    (pytester.path / "tiny.tflite").write_bytes(convolutions())
    return pytester


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *options]
    return suite.run(*command, timeout=180)


def boards_of(report: Path) -> list[str]:
    """The board of each test of a JUnit file."""
    found = ElementTree.parse(report).iter("property")
    return [str(p.get("value")) for p in found if p.get("name") == "hil_board"]


def dead_port() -> str:
    """A URL at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"socket://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.full  # It changes rarely, and takes long.
def test_a_board_that_fails_is_left_for_another(
    suite: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.makepyfile(SUITE.format(first=0, end=2))
    board = load_board("native")
    library = load_library(
        ModelSource(suite.path / "tiny.tflite", None), ModelOptions(board.cpu.name, board=board)
    )
    dead = dead_port()
    report = tmp_path / "report.xml"
    with start(board, build([library], board)) as running:
        ports = [f"--hil-port={dead}", f"--hil-port={running.url}"]
        result = run(suite, "--hil-board=native", *ports, f"--junit-xml={report}")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*hil: boards that failed*",
            "1 infrastructure failure",
            f"*test_job?native-0?: native:{dead}: LinkError: nothing listens at {dead}*",
            "*passed on another board",
        ]
    )
    assert boards_of(report) == [f"native:{running.url}"] * 2


def test_a_failure_that_stays_is_the_tests(suite: pytest.Pytester) -> None:
    suite.makepyfile(SUITE.format(first=0, end=1))
    ports = [f"--hil-port={dead_port()}" for _ in range(2)]
    result = run(suite, "--hil-board=native", *ports, "--hil-retries=1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["2 infrastructure failures", "*error at last*"])


@pytest.mark.full
def test_what_a_board_computed_is_not_asked_again(suite: pytest.Pytester, tmp_path: Path) -> None:
    suite.makepyfile(
        """
        import pathlib
        import pytest

        @pytest.mark.hil(model="tiny.tflite")
        def test_it(hil_device):
            with open("runs", "a") as file:
                file.write("x")
            assert False, "the outputs differ"
        """
    )
    board = load_board("native")
    library = load_library(
        ModelSource(suite.path / "tiny.tflite", None), ModelOptions(board.cpu.name, board=board)
    )
    with start(board, build([library], board)) as running:
        result = run(suite, "--hil-board=native", f"--hil-port={running.url}")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*infrastructure*")
    assert (suite.path / "runs").read_text() == "x"


@pytest.mark.full  # It changes rarely, and takes long.
@pytest.mark.parametrize(("workers", "jobs"), sampled([(0, 2), (2, 6)], keep=[(0, 2)]))
def test_two_users_share_a_lab(
    suite: pytest.Pytester, tmp_path: Path, workers: int, jobs: int
) -> None:
    """Jobs of two users, with several workers each, on three boards of two kinds."""
    pytest.importorskip("labgrid")
    from hil.lab.serve import served

    with served(["mps2-an386", "mps2-an386", "mps2-an385"]) as lab:
        users = []
        for name, first in (("ada", 0), ("ben", jobs)):
            folder = suite.mkdir(name)
            (folder / "tiny.tflite").write_bytes(convolutions())
            lines = SUITE.format(first=first, end=first + jobs).splitlines()
            text = "\n".join(line[4:] for line in lines)
            (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            command += [f"-n{workers}"]
            command += ["--hil-board", "emulated=yes", f"--junit-xml={tmp_path / name}.xml"]
            environment = {**os.environ, "LG_COORDINATOR": lab.address, "LG_USERNAME": name}
            users.append(
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        for user in users:
            said, _ = user.communicate(timeout=180)
            assert user.returncode == 0, said
            assert f"{jobs} passed" in said
        boards = boards_of(tmp_path / "ada.xml") + boards_of(tmp_path / "ben.xml")
        assert len(boards) == 2 * jobs
        assert set(boards) <= {f"lab:{place}" for place in lab.boards}
        for server in lab.boards.values():
            assert server.status()["refused_clients"] == 0
            uses = sorted(server.uses, key=lambda use: use.begin)
            assert all(a.end <= b.begin for a, b in zip(uses, uses[1:], strict=False))
        used = {use.user.split(".")[1] for s in lab.boards.values() for use in s.uses}
        assert used == {"ada", "ben"}


@pytest.mark.full
def test_an_unknown_board_of_a_lab_is_a_usage_error(suite: pytest.Pytester) -> None:
    pytest.importorskip("labgrid")
    suite.makepyfile(SUITE.format(first=0, end=1))
    suite._monkeypatch.setenv("LG_COORDINATOR", "127.0.0.1:9")
    result = run(suite, "--hil-board=cpu=cortex-m4")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--hil-board: *coordinator at 127.0.0.1:9 does not answer*"])
