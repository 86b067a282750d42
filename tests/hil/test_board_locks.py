"""Locks of boards between processes, users and caches of one machine."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import PATIENCE_S

from hil.access.board_lock import board_lock, lock_folder, lock_path
from hil.errors import InputError, ProbeError

locks = importlib.import_module("hil.access.board_lock")
HOLD = """
import sys
from hil.access.board_lock import board_lock
with board_lock("the board", sys.argv[1], wait_s=float(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""
#: A user without a name and rights, as another person on the machine.
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
is_root = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root becomes another user"
)
Holder = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shared = Path("/tmp") / f"hil-test-{os.getpid()}-{tmp_path.name}"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("HIL_LOCKS", str(shared))
    yield shared
    shutil.rmtree(shared)


@pytest.fixture
def holder() -> Iterator[Holder]:
    """Starts a process that holds the board of a name until it is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(
        name: str, *as_user: str, wait_s: float = 0.0, **environment: str
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*as_user, sys.executable, "-c", HOLD, name, str(wait_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def is_held(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "held\n"


def test_the_caches_of_two_processes_differ(folder: Path, holder: Holder, tmp_path: Path) -> None:
    process = holder("0240000F", HIL_CACHE=str(tmp_path / "other"))
    assert is_held(process)
    with pytest.raises(ProbeError) as caught, board_lock("the board", "0240000f"):
        pass
    assert re.fullmatch(
        rf"the board is in use by process {process.pid} \(-c\) of \S+ on \S+ since "
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d",
        caught.value.fact,
    )


@is_root
def test_another_user_holds_it(folder: Path, holder: Holder) -> None:
    process = holder("0240000F", *NOBODY, HOME="/")
    assert is_held(process)
    with pytest.raises(ProbeError, match="of nobody on"), board_lock("the board", "0240000F"):
        pass


@is_root
def test_another_user_is_refused(folder: Path, holder: Holder) -> None:
    with board_lock("the board", "0240000F"):
        other = holder("0240000F", *NOBODY)
        assert "ProbeError: the board is in use by process" in other.communicate(timeout=60)[1]


@is_root
def test_the_file_of_another_user_is_used_again(folder: Path, holder: Holder) -> None:
    with board_lock("the board", "0240000F"):
        pass
    assert lock_path("0240000F").stat().st_uid == os.getuid()
    process = holder("0240000F", *NOBODY)
    assert is_held(process)


def test_a_killed_process_leaves_no_lock(folder: Path, holder: Holder) -> None:
    process = holder("0240000F")
    assert is_held(process)
    process.kill()
    process.wait(PATIENCE_S)
    with board_lock("the board", "0240000F"):
        assert lock_path("0240000F").exists()


def test_a_board_in_use_is_awaited(folder: Path, holder: Holder) -> None:
    with board_lock("the board", "0240000F"):
        process = holder("0240000F", wait_s=PATIENCE_S)
        refused = holder("0240000F", wait_s=0.5)
        assert "in use by process" in refused.communicate(timeout=PATIENCE_S)[1]
        assert process.poll() is None
    assert is_held(process)


def test_two_names_are_locked_in_one_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    own = locks.try_board_lock

    def recording(name: str) -> object:
        order.append(name)
        return own(name)

    monkeypatch.setattr(locks, "try_board_lock", recording)
    for names in (("a", "b"), ("b", "a")):
        with board_lock("the board", *names):
            pass
    assert order[:2] == order[2:]


def test_links_and_names_of_a_device_are_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "board").symlink_to("/dev/null")
    assert lock_path("/dev/null") == lock_path(str(tmp_path / "board"))
    assert lock_path("/dev/null") != lock_path("/dev/zero")


@is_root
def test_a_device_has_one_lock_under_two_names(folder: Path, tmp_path: Path) -> None:
    """As two containers have it, each with a device file of its own."""
    for name in ("ttyACM0", "ttyBOARD"):
        os.mknod(tmp_path / name, 0o600 | 0o020000, os.makedev(166, 0))
    assert lock_path(str(tmp_path / "ttyACM0")) == lock_path(str(tmp_path / "ttyBOARD"))


def test_the_folder_is_that_of_all_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HIL_LOCKS")
    assert lock_folder().stat().st_mode & 0o1007 == 0o1007
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    assert tmp_path not in lock_path("0240000F").parents
    monkeypatch.setattr(locks, "_SHARED", (str(tmp_path),))
    with pytest.raises(InputError, match="is a folder that every user may write"):
        lock_folder()


def test_a_link_in_place_of_a_lock_is_refused(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    lock_path("0240000F").symlink_to(victim)
    with pytest.raises(ProbeError, match="cannot be locked"), board_lock("the board", "0240000F"):
        pass
    assert victim.read_text() == "mine"


def test_a_missing_folder_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_LOCKS", "/no/such/folder")
    with pytest.raises(InputError, match="HIL_LOCKS names /no/such/folder"):
        lock_folder()
