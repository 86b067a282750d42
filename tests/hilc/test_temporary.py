"""What killed processes leave: removed by the next, and by nobody while it is in use."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hilc.support import temporary
from hilc.support.outputs import check_folder, update_folder, write_file
from hilc.support.temporary import TemporaryFolder, partial_file

#: Makes a partial file and a temporary folder, and says so; killed while it has them.
_KILLED = """
import sys, time
from pathlib import Path
from typing import Any
from hilc.support.temporary import TemporaryFolder, partial_file
folder = TemporaryFolder("test")
Path(folder.name, "inner").mkdir()
with partial_file(Path(sys.argv[1]) / "x") as path:
    path.write_text("half of")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a new process, with a folder of its own for temporary files."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    forget()
    yield
    forget()


def forget() -> None:
    temporary.remove_abandoned_files.cache_clear()
    temporary.remove_abandoned_folders.cache_clear()


def left(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@contextmanager
def other(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _KILLED, str(folder / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    with other(tmp_path) as process:
        before = left(tmp_path)
        assert len(before) == 6
        # While the other runs, everything is its own.
        write_file(tmp_path / "out" / "y", "mine")
        TemporaryFolder("test").cleanup()
        assert set(left(tmp_path)) == {*before, "out/y"}
        process.send_signal(signal.SIGKILL)
        process.wait()
    forget()
    write_file(tmp_path / "out" / "x", "whole")
    TemporaryFolder("test").cleanup()
    assert left(tmp_path) == ["out", "out/x", "out/y", "tmp"]


def test_a_killed_first_write_is_not_the_users(tmp_path: Path) -> None:
    """The folder then holds a partial file, and no list of files yet."""
    with other(tmp_path):
        pass
    check_folder(tmp_path / "out", kind="a library")
    update_folder(tmp_path / "out", {"metadata.json": b"{}"})
    assert left(tmp_path / "out") == ["hil-files.json", "metadata.json"]


def test_what_others_made_stays(tmp_path: Path) -> None:
    mine = tmp_path / "tmp" / "hil-test-12345678"
    mine.mkdir()
    (mine / "data").write_text("mine")
    (tmp_path / "tmp" / "hil-test-abcdefgh").symlink_to(mine)
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "out" / ".hil-1-0123abcd").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "out" / ".hil-notes").write_text("mine")
    os.mkfifo(tmp_path / "out" / ".hil-2-0123abcd")
    before = left(tmp_path)
    TemporaryFolder("test").cleanup()
    write_file(tmp_path / "out" / "x", "x")
    assert left(tmp_path) == sorted([*before, "out/x"])


def test_temporary_folders_are_private() -> None:
    with TemporaryFolder("test") as name:
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o700


def test_files_that_a_sweep_takes_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its creation and its lock a new file looks abandoned."""
    real = fcntl.flock
    taken: list[int] = []

    def flock(file: Any, operation: int) -> None:
        if not taken:
            taken.append(1)
            temporary._remove_if_abandoned(*[next((tmp_path / "out").glob(".hil-*"))] * 2)
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with partial_file(tmp_path / "out" / "x") as path:
        assert path.exists()
        path.rename(tmp_path / "out" / "x")
    assert left(tmp_path / "out") == ["x"]
