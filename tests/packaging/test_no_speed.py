"""No test requires that something is fast: machines differ, and other programs run on them.

The tests' syntax trees are searched for times that are compared with short limits, and for short
timeouts. See ``tests/support/harness/waiting.py`` for what to do instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from waiting import PATIENCE_S

TESTS = Path(__file__).resolve().parents[1]
#: Limits of as many seconds only end what hangs.
LEAST_S = 60.0
#: Functions in which a shorter one stands, and why it may.
ALLOWED = {
    "hilc/test_compile_time.py:within": "a yardstick that is measured in the same run",
    "campaigns/noise.py:main": "a campaign, not a test: the rate of a damaged line, not a time",
    "campaigns/prove.py:timed": "a campaign, not a test: prints whether the budget is kept",
    "campaigns/torture/mutation.py:_reaching": "a campaign, which drops the slowest of its tests",
    "support/boards/uart_noise.py:_hello": "the pause before a request is repeated",
}
_CLOCKS = re.compile(r"(monotonic|perf_counter|process_time|thread_time)(_ns)?|time|getrusage")
_TIMES = re.compile(r"(\w+_)?(seconds|elapsed|took|spent|duration|cpu_s|deadline)")
#: What a module has that is worth a closer look.
_MENTIONED = re.compile(
    rf"(time|resource)\.({_CLOCKS.pattern})\b|\b{_TIMES.pattern}\b|timeout=|\.join\(\d|\bwait"
)
_WAITS = {
    "run",
    "check_call",
    "check_output",
    "communicate",
    "wait",
    "wait_procs",
    "urlopen",
    "join",
}
_SECONDS = ast.Name("seconds")


class Function:
    """A function of the tests: the numbers that names stand for, and the names that hold times."""

    def __init__(self, node: ast.FunctionDef, numbers: Mapping[str, float]) -> None:
        self._node = node
        self._numbers = numbers
        assigned = list(_assigned(node))
        self._times: set[str] = set()
        while found := {name for name, value in assigned if self.is_time(value)} - self._times:
            self._times |= found

    def is_time(self, node: ast.expr) -> bool:
        """Whether the value of an expression comes from a clock, or is named as a time."""
        for part in ast.walk(node):
            if self._is_clock(part) or _TIMES.fullmatch(_name(part)):
                return True
            if isinstance(part, ast.Name) and part.id in self._times:
                return True
        return False

    def _is_clock(self, node: ast.AST) -> bool:
        """Whether a clock of Python's is read, and none that a test makes up."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and _CLOCKS.fullmatch(node.func.attr) is not None
            and _name(node.func.value) in ("time", "resource")
        )

    def short_limits(self) -> Iterator[int]:
        """The lines in which a time has a limit that is neither LEAST_S nor another time."""
        for node in ast.walk(self._node):
            if isinstance(node, ast.Compare):
                limits = _limits(node)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                number = _number(node.right, self._numbers)
                is_deadline = self._is_clock(node.left) and number is not None
                limits = [(node.left, node.right)] if is_deadline else []
            elif isinstance(node, ast.Call) and _name(node.func) in _WAITS:
                limits = [(_SECONDS, word.value) for word in node.keywords if word.arg == "timeout"]
                limits += [(_SECONDS, word) for word in node.args[-1:] if self._is_wait(node, word)]
            else:
                continue
            for time, limit in limits:
                if self.is_time(time) and not self.is_time(limit) and not self._is_long(limit):
                    yield node.lineno

    def _is_wait(self, call: ast.Call, argument: ast.expr) -> bool:
        """Whether a call waits for so long; less than a second is meant to pass."""
        number = _number(argument, self._numbers)
        return _name(call.func) in ("wait", "join", "wait_procs") and (number or 0) >= 1

    def _is_long(self, node: ast.expr) -> bool:
        number = _number(node, self._numbers)
        return number is not None and number >= LEAST_S


def _limits(comparison: ast.Compare) -> list[tuple[ast.expr, ast.expr]]:
    """What may not exceed what, as a comparison says."""
    values = [comparison.left, *comparison.comparators]
    limits = []
    for left, op, right in zip(values[:-1], comparison.ops, values[1:], strict=True):
        if isinstance(op, (ast.Lt, ast.LtE)):
            limits.append((left, right))
        elif isinstance(op, (ast.Gt, ast.GtE)):
            limits.append((right, left))
    return limits


def _assigned(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from _pairs(target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for each, its in zip(target.elts, values, strict=False):
            yield from _pairs(each, its)


def _number(node: ast.expr, numbers: Mapping[str, float]) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    return numbers.get(_name(node))


def _name(node: ast.AST) -> str:
    """The name of a variable, or of an attribute; else nothing."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def short_limits(text: str) -> Iterator[tuple[str, int]]:
    """The functions of a module, and the lines, that have a limit which is too short."""
    if not _MENTIONED.search(text):
        return
    tree = ast.parse(text)
    numbers = {"PATIENCE_S": PATIENCE_S}
    for name, value in _assigned(tree):
        if (number := _number(value, numbers)) is not None:
            numbers[name] = number
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for line in Function(node, numbers).short_limits():
                yield node.name, line


def test_no_limit_is_shorter_than_what_hangs() -> None:
    found: dict[str, list[int]] = {}
    for path in TESTS.rglob("*.py"):
        for function, line in short_limits(path.read_text("utf-8")):
            found.setdefault(f"{path.relative_to(TESTS)}:{function}", []).append(line)
    assert {place: lines for place, lines in found.items() if place not in ALLOWED} == {}
    assert set(found) == set(ALLOWED), "drop what is no longer needed"


@pytest.mark.parametrize(
    "body",
    [
        "start = time.monotonic(); assert time.monotonic() - start < 2",
        "start = time.process_time(); act(); spent = time.process_time() - start\n"
        "    assert 0.1 <= spent < bound(2)",
        "began, x = time.perf_counter(), 1; assert LIMIT_S > time.perf_counter() - began",
        "assert report.seconds <= 30",
        "end = time.monotonic() + LIMIT_S",
        "subprocess.run(command, timeout=LIMIT_S)",
        "child.wait(timeout=30)",
        "thread.join(5); assert not thread.is_alive()",
    ],
)
def test_short_limits_are_found(body: str) -> None:
    text = f"LIMIT_S = 5\ndef test():\n    {body}\n"
    assert list(short_limits(text)), text


@pytest.mark.parametrize(
    "body",
    [
        "start = time.monotonic(); act(); assert time.monotonic() - start >= 0.5",
        "start = time.monotonic(); act(); assert time.monotonic() - start < LIMIT_S",
        "assert report.seconds < PATIENCE_S",
        "end = time.monotonic() + LIMIT_S; subprocess.run(command, timeout=LIMIT_S)",
        "spent = times(); assert spent[1] < spent[0] / 2",
        "clock = Clock(); assert clock.monotonic() - start < 2",
        "assert peak < 5",
        "thread.join(0.1); assert thread.is_alive()",
    ],
)
def test_counts_yardsticks_and_generous_limits_are_not(body: str) -> None:
    text = f"LIMIT_S = 120\ndef test():\n    {body}\n"
    assert list(short_limits(text)) == [], text
