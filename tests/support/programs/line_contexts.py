"""A plugin of pytest that tells coverage.py which test runs, and keeps how long each took.

``python -m coverage run -m pytest -p line_contexts`` with ``LINE_CONTEXTS`` naming the file for the
seconds of each test. The context of a test is its function without parameters; what its fixtures
run has that of its file, for later tests share it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

_SECONDS: dict[str, float] = defaultdict(float)


def _switch(context: str) -> None:
    running = coverage.Coverage.current()
    assert running is not None, "run pytest under coverage run"
    running.switch_context(context)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Give what fixtures run to the whole file."""
    _switch(item.nodeid.partition("::")[0])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give what the test runs to its function."""
    _switch(item.nodeid.partition("[")[0])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Give what fixtures clear away to the whole file."""
    _switch(item.nodeid.partition("::")[0])
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the seconds of a function's tests together."""
    _SECONDS[report.nodeid.partition("[")[0]] += report.duration


def pytest_sessionfinish() -> None:
    """Keep the seconds."""
    Path(os.environ["LINE_CONTEXTS"]).write_text(json.dumps(_SECONDS), encoding="utf-8")
