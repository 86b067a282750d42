"""Several threads on one device, a device that was closed, and Ctrl-C: one clear error each."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from tiny_library import tiny_library
from waiting import PATIENCE_S, is_under_way, until

import hil
import hilc.host
from hil.device import Device
from hil.errors import HilError, InputError

SLEEP = 2


class Background:
    """``job()`` in a thread; ``error`` is what it raised."""

    def __init__(self, job: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._job = job
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._job()
        except BaseException as error:
            self.error = error

    @property
    def is_under_way(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> BaseException | None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "it is stuck"
        return self.error


def sleep(device: Device, milliseconds: int) -> None:
    device["actor"].set_input(0, np.array([SLEEP, milliseconds], np.int32))


def running(device: Device) -> Background:
    """A run of the model that sleeps, once it has begun."""
    run = Background(device["actor"].run)
    until(lambda: is_under_way(device._client, "RUN"), "the run")
    return run


def add(device: Device, value: int) -> list[int]:
    adder = device["adder"]
    adder.set_input("a", np.full((1, 4), value, np.int32))
    adder.set_input("b", np.ones((1, 4), np.int32))
    adder.run()
    total: list[int] = adder.get_output("sum")[0].tolist()
    return total


# -- threads -------------------------------------------------------------------------------------


def test_a_device_in_use_refuses_another_thread(device: Device) -> None:
    sleep(device, 1500)
    run = running(device)
    for action in (
        device.memory,
        device.reset,
        lambda: device.echo(b"abc"),
        lambda: add(device, 1),
        device["actor"].run,
    ):
        with pytest.raises(InputError, match="is in use: RUN has not ended") as caught:
            action()
        assert "one thread at a time" in caught.value.hint
    assert run.is_under_way, "none of them waited"
    assert run.end() is None
    assert add(device, 5) == [12] * 4


def test_many_threads_corrupt_nothing(device: Device) -> None:
    right, refused = [0], [0]

    def work(number: int) -> None:
        data = bytes((number,)) * 700
        for _ in range(60):
            try:
                assert device.echo(data) == data
                right[0] += 1
            except InputError:
                refused[0] += 1

    threads = [Background(lambda number=number: work(number)) for number in range(4)]  # type: ignore[misc]
    assert [thread.end() for thread in threads] == [None] * 4
    assert right[0] >= 60
    assert right[0] + refused[0] == 240
    assert device._client.link.bad_frames == device.memory().bad_frames == 0


def test_the_logs_callback_may_not_use_the_device(device: Device) -> None:
    def callback(text: str) -> None:
        device.memory()

    device.log = callback
    device["actor"].set_input(0, np.array([3, 0], np.int32))
    with pytest.raises(InputError, match="in use: RUN has not ended"):
        device["actor"].run()
    device.log = lambda text: None
    assert add(device, 1) == [4] * 4


def test_a_model_refuses_another_thread() -> None:
    body = "for (volatile int64_t i = 0; i < 600000000; ++i) { }\n    y[0] = x[0];"
    with hilc.host.load(tiny_library(body, cpu="host", io_in_pool=False)) as model:
        run = Background(model.run)
        until(model._turn.locked, "the run")
        with pytest.raises(InputError, match="'tiny' is in use by another thread"):
            model.run()
    # Closed while it ran: its code is there until it has ended.
    assert run.end() is None
    with pytest.raises(InputError, match="is closed"):
        model.run()


# -- closed --------------------------------------------------------------------------------------


def test_a_closed_device_says_so() -> None:
    with hil.open("native", tiny_library("y[0] = x[0];", cpu="host")) as device:
        model = device["tiny"]
        model.run()
    actions: tuple[Callable[[], object], ...] = (
        model.run,
        model.profile,
        device.memory,
        device.reset,
        device.functions,
        lambda: model.set_input(0, np.zeros(4, np.int32)),
        lambda: model.get_output(0),
        lambda: list(model.layer_outputs()),
        lambda: device.echo(b"x"),
        lambda: device.call("f"),
        lambda: device.repeated(model.run),
    )
    for action in actions:
        with pytest.raises(InputError, match="is closed"):
            action()
    device.close()  # once more


def test_closing_ends_what_another_thread_waits_for(device: Device) -> None:
    sleep(device, 600_000)
    run = running(device)
    start = time.monotonic()
    device.close()
    assert time.monotonic() - start < PATIENCE_S  # and not when the run of 600 s ends
    error = run.end()
    assert isinstance(error, InputError)
    assert "is closed" in str(error)


def test_leaving_the_context_ends_waits() -> None:
    before = psutil.Process().children(recursive=True)
    body = "for (volatile int64_t i = 0; i < 100000000000; ++i) { }\n    y[0] = x[0];"
    with hil.open("native", tiny_library(body, cpu="host")) as device:
        run = Background(device["tiny"].run)
        until(lambda: is_under_way(device._client, "RUN"), "the run")
    error = run.end()
    assert isinstance(error, HilError)
    assert "is closed" in str(error)
    assert psutil.Process().children(recursive=True) == before


# -- Ctrl-C ----------------------------------------------------------------------------------------


def test_a_device_is_usable_after_ctrl_c(device: Device) -> None:
    """The run is left, not the device: what comes next ends it on the board, or waits for it."""
    assert add(device, 3) == [8] * 4
    device["adder"].set_input("a", np.full((1, 4), 9, np.int32))
    for milliseconds, repeat in ((200, 1000), (800, 1)):
        sleep(device, milliseconds)
        handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                device["actor"].run(repeat=repeat)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
        with pytest.raises(InputError, match="is not available"):
            device["actor"].get_output(0)
        start = time.monotonic()
        device["adder"].run()  # with the inputs that were set before
        assert device["adder"].get_output("sum").tolist() == [[20] * 4]
        # The run of 200 s was not waited for, where its board can end it.
        assert time.monotonic() - start < PATIENCE_S
        device["adder"].run()
        assert device["adder"].get_output("sum").tolist() == [[20] * 4]


CTRL_C = """
    import sys
    import hil
    from tiny_library import tiny_library
    body = "for (volatile int64_t i = 0; i < 100000000000; ++i) { }"
    with hil.open("native", tiny_library(body, cpu="host")) as device:
        print("ready", flush=True)
        device["tiny"].run()
"""


@pytest.mark.full
def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(CTRL_C))
    tests = str(Path(tiny_library.__code__.co_filename).parent)
    program = f"import sys; sys.path.insert(0, {tests!r}); exec(open({str(script)!r}).read())"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert b"KeyboardInterrupt" in errors
    gone, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert not alive
