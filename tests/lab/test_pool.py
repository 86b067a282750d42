"""Boards of this machine that several workers share."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from waiting import PATIENCE_S

from hil.errors import DeviceError, InputError
from hil.lab.pool import LocalPool, Pool, another, open_pool

HOLDER = """
import sys, time
from hil.lab.pool import open_pool
pool = open_pool("native", ["port-a"])
unit = pool.acquire()
print(unit.name, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))


def two_ports() -> Pool:
    pool = open_pool("native", ["port-a", "port-b"])
    assert pool is not None
    return pool


def test_each_board_has_one_user() -> None:
    one, other = two_ports(), two_ports()
    first, second = one.acquire(), other.acquire()
    assert {first.options["port"], second.options["port"]} == {"port-a", "port-b"}
    with pytest.raises(DeviceError, match="none of 2 boards native became free within 0.1 s"):
        one.acquire(0.1)
    second.release()
    assert one.acquire(0.1).name == second.name


def test_a_killed_users_board_is_free_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "native:port-a"
    pool = open_pool("native", ["port-a"])
    assert pool is not None
    with pytest.raises(DeviceError):
        pool.acquire(0.1)
    process.kill()
    process.communicate()
    pool.acquire(PATIENCE_S).release()


def test_who_waits_comes_before_who_gives_back() -> None:
    pool = open_pool("native", ["port-a"])
    assert isinstance(pool, LocalPool)
    two = open_pool("native", ["port-a"])
    assert isinstance(two, LocalPool)
    order: list[str] = []
    unit = pool.acquire()
    assert not unit.is_contended()

    def wait(own: Pool = two) -> None:
        got = own.acquire(PATIENCE_S)
        order.append("the one who waited")
        time.sleep(0.05)
        got.release()

    thread = threading.Thread(target=wait)
    thread.start()
    deadline = time.monotonic() + PATIENCE_S
    while not unit.is_contended():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    unit.release()
    again = pool.acquire(PATIENCE_S)
    order.append("the one who gave back")
    thread.join()
    assert order == ["the one who waited", "the one who gave back"]
    assert not again.is_contended()


def test_another_board_after_a_failure() -> None:
    pool = two_ports()
    failed = pool.acquire()
    found = another(pool, failed)
    assert found.name != failed.name
    # The failed one is given back, for others to try.
    assert pool.acquire(0.1).name == failed.name
    alone = open_pool("native", ["port-c"])
    assert alone is not None
    only = alone.acquire()
    assert another(alone, only).name == only.name


def test_what_makes_a_pool() -> None:
    assert open_pool("mps2-an386") is None, "an emulated board is started for whoever asks"
    assert open_pool("mps2-an386", probes=["virtual"]) is None
    pool = open_pool("mps2-an386", ["p", "q"], ["a", "b"])
    assert pool is not None
    assert pool.acquire().options == {"probe": "a", "port": "p"}
    with pytest.raises(InputError, match="2 probes and 1 ports are given, which cannot be paired"):
        open_pool("mps2-an386", ["p"], ["a", "b"])


def test_a_large_pool_takes_few_descriptors() -> None:
    """Of 300 boards: their locks while they are held, and 64 at most while one waits."""
    ports = [f"port-{number}" for number in range(300)]
    pool = open_pool("native", ports)
    assert pool is not None
    gc.collect()  # what other tests left to it would be closed while this one counts
    before, limits = psutil.Process().num_fds(), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 100, limits[1]))
    try:
        units = [pool.acquire(0.1) for _ in range(20)]
        assert not units[0].is_contended()
        assert psutil.Process().num_fds() == before + len(units)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len({unit.name for unit in units}) == len(units)


def test_what_was_released_or_forgotten_is_free_again() -> None:
    pool = open_pool("native", ["port-a"])
    assert pool is not None
    first = pool.acquire(0.1)
    with pytest.raises(DeviceError, match="none of 1 boards"):
        pool.acquire(0.1)
    first.release()
    second = pool.acquire(0.1)
    first.release()  # a second time: it is no longer its own
    with pytest.raises(DeviceError, match="none of 1 boards"):
        pool.acquire(0.1)
    del second
    gc.collect()
    pool.acquire(0.1).release()
