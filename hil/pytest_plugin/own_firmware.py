"""Firmware of the user in tests: its console, its log, and its own tests as subtests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hil.device.elf import ElfDevice
    from hil.device.firmware_tests import FirmwareTest, FormatName

#: The firmware that a test started.
DEVICES = pytest.StashKey[list["ElfDevice"]]()
#: Whether the test is within a subtest, whose report does not repeat the console.
_IN_SUBTEST = pytest.StashKey[bool]()
#: The logs that this process has begun.
_BEGUN = pytest.StashKey[set[Path]]()
_MOST_SHOWN = 20_000
_MOST_NAME = 120


def check_log_folder(config: pytest.Config) -> None:
    """Make the folder of ``--hil-log``; raise :class:`pytest.UsageError` if that fails."""
    config.stash[_BEGUN] = set()
    folder = config.getoption("--hil-log")
    if folder is None:
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(
            f"--hil-log: the folder {folder} cannot be made: {error.strerror}"
        ) from None


def log_path(item: pytest.Item, part: str = "") -> Path | None:
    """Return the file of a test's log, or of a ``part`` of it; None without ``--hil-log``.

    It is empty before the first use of the run; a test that runs again adds to it.
    """
    folder = item.config.getoption("--hil-log")
    if folder is None:
        return None
    path = Path(folder) / f"{safe_name(item.nodeid)}{part and f'.{part}'}.log"
    begun = item.config.stash[_BEGUN]
    if path not in begun:
        from hilc.support.outputs import cannot_write

        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from None
        begun.add(path)
    return path


@contextmanager
def logged(item: pytest.Item, kept: list[str], part: str = "") -> Iterator[Callable[[str], None]]:
    """Yield what takes the log of a firmware: for the report of the test, and for ``--hil-log``."""
    path = log_path(item, part)
    if path is None:
        yield kept.append
        return
    from hil.device.console_log import ConsoleLog

    with ConsoleLog(path) as file:

        def log(text: str) -> None:
            kept.append(text)
            file.add("received", f"{text}\n".encode("utf-8", "backslashreplace"))

        yield log


def safe_name(test: str) -> str:
    """Return the name of a file for a test: other tests have other files, on any file system."""
    name = re.sub(r"[^A-Za-z0-9_.@=,+-]+", "_", test).strip("._")
    if name and name == test and len(name) <= _MOST_NAME:
        return name
    digest = hashlib.sha256(test.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name[:_MOST_NAME] or 'test'}-{digest}"


def add_consoles(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add what the firmware printed to the report of a test that failed."""
    if item.stash.get(_IN_SUBTEST, False):
        return
    for device in item.stash.get(DEVICES, []):
        if text := device.console.text[-_MOST_SHOWN:]:
            from hil.support.escape import escaped

            report.sections.append((f"console of {device.board}", escaped(text, colours=False)))


def run_subtests(
    request: pytest.FixtureRequest, device: ElfDevice, form: FormatName, timeout_s: float
) -> list[FirmwareTest]:
    """Report each test of a firmware as a subtest; fail if one failed, or the run is not whole."""
    from hil.device.firmware_tests import failure_text, require_passed

    subtest = _subtest_of(request)
    found = []
    for test in device.console.tests(form, timeout_s):
        found.append(test)
        with _within(request.node), subtest(test.name):
            if test.outcome == "failed":
                pytest.fail(failure_text(test), pytrace=False)
            if test.outcome == "skipped":
                pytest.skip(test.message or "the firmware skipped it")
    # Also where no plugin reports subtests.
    require_passed(found)
    return found


def _subtest_of(
    request: pytest.FixtureRequest,
) -> Callable[[str], AbstractContextManager[object]]:
    """Return what opens the context of a subtest: that of pytest 9 or of pytest-subtests."""
    try:
        subtests: Any = request.getfixturevalue("subtests")
    except pytest.FixtureLookupError:
        return _unreported
    return lambda name: subtests.test(msg=name)


@contextmanager
def _unreported(name: str) -> Iterator[None]:
    """Ignore the outcome of a subtest: the test itself fails at the end if one failed."""
    try:
        yield
    except (pytest.fail.Exception, pytest.skip.Exception):
        return


@contextmanager
def _within(item: pytest.Item) -> Iterator[None]:
    item.stash[_IN_SUBTEST] = True
    try:
        yield
    finally:
        item.stash[_IN_SUBTEST] = False
