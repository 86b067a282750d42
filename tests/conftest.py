"""For all tests: what their processes inherit and leave, and which of them are campaigns."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from fake_bench import Bench

ROOT = Path(__file__).resolve().parents[1]

#: Set unless the user has set them. xdist's workers and the commands under test inherit them.
ENVIRONMENT = {
    # There is a worker for each core already: a BLAS with threads of its own only spins.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
LOCKS = ROOT / ".cache" / "locks"
#: Most of a firmware's sources are those of the firmware built before it, for the same core. Their
#: objects do not depend on the folder (-ffile-prefix-map), so its name need not be the same.
CCACHE = {
    "CCACHE_DIR": str(ROOT / ".cache" / "ccache"),
    "CCACHE_BASEDIR": "/",
    "CCACHE_NOHASHDIR": "1",
    "CCACHE_DEPEND": "1",
    "CCACHE_MAXSIZE": "1G",
}


#: Folders of the checkout that a test may find absent: they are made by builds.
MADE = ("build", ".cache", ".venv")


def _require_folder(event: str, arguments: tuple[object, ...]) -> None:
    """Raise if a folder of the checkout in which files are sought does not exist.

    A search in a folder that was moved finds nothing, and a test over its files passes empty.
    """
    if event not in ("pathlib.Path.glob", "pathlib.Path.rglob"):
        return
    folder = arguments[0]
    if not isinstance(folder, Path) or ROOT not in folder.parents or folder.exists():
        return
    if folder.relative_to(ROOT).parts[0] not in MADE:
        raise FileNotFoundError(f"files are sought in {folder}, which does not exist")


sys.addaudithook(_require_folder)

# How long a machine takes is no failure, neither of an example nor of drawing them.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "full: a campaign, or long and rarely changed; make test-full, -m or its name runs it",
    )
    if not config.option.markexpr and not any("::" in str(word) for word in config.args):
        config.option.markexpr = "not full"
    # Some machines set it: each of a thousand commands would compile all modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Boards of tests have the same serial numbers in another checkout's tests.
    LOCKS.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("HIL_LOCKS", str(LOCKS))
    ccache = shutil.which("ccache")
    if ccache and "CMAKE_C_COMPILER_LAUNCHER" not in os.environ:
        os.environ.update(CCACHE, CMAKE_C_COMPILER_LAUNCHER=ccache)
    # Let Ctrl-C reach the commands that tests start, also in a run in the background: a shell
    # without job control starts such a run with SIGINT ignored, and children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


#: What tests of RISC-V boards and simulated cores need, which a system may lack; and words of their
#: names.
PROGRAMS = {
    ("riscv", "rv32"): ("riscv64-unknown-elf-gcc", "qemu-system-riscv32"),
    ("test_rtl", "rtl-"): ("riscv64-unknown-elf-gcc", "qemu-system-riscv32", "verilator"),
}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for words, programs in PROGRAMS.items():
        missing = [name for name in programs if shutil.which(name) is None]
        if not missing:
            continue
        skip = pytest.mark.skip(reason=f"{' and '.join(missing)} are missing")
        for item in items:
            if any(word in f"{item.path.name}::{item.name}" for word in words):
                item.add_marker(skip)


#: Signals whose handlers commands and campaigns set.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGPROF)
_BEFORE = pytest.StashKey[dict[str, object]]()


def _of_the_process() -> dict[str, object]:
    """Return what tests of one process share."""
    handlers = {number.name: signal.getsignal(number) for number in _SIGNALS}
    return {**handlers, "working directory": os.getcwd()}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_BEFORE] = _of_the_process()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that leaves the process in another state: in another order the next one would."""
    result = yield
    now = _of_the_process()
    left = {name: now[name] for name, before in item.stash[_BEFORE].items() if now[name] != before}
    if left:
        pytest.fail(f"the test leaves another state to those after it: {left}", pytrace=False)
    return result


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Bench]:
    """A bench of fake boards, which hil and pyOCD find in this process, and no others."""
    # Not at the top: it imports pyOCD, which few tests need.
    from fake_bench import bench

    with bench(tmp_path) as made, made.installed():
        yield made
