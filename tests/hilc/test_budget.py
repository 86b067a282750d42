"""Models of many nodes: small files that state too many are refused, and work grows with them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from campaigns import cases
from chains import (
    CHAINS,
    functions_that_call_each_other,
    nested_loops,
    products_of_constants,
    scanned,
    subgraphs_that_call_each_other,
    tflite_additions,
)

import hilc
from hilc.errors import UnsupportedError
from hilc.frontends import budget, load_model
from hilc.frontends.onnx.builder import Builder

LOOP = "the model has more nodes than the budget of 20,000: unrolled, it has "


@cases(
    ("build", "message"),
    [
        (
            lambda: nested_loops([1000] * 4),
            f"{LOOP}1,000,000,000,000 or more (it repeats the loop of 'o0' 1,000 times, in it "
            "the loop of 'o1' 1,000 times, in it the loop of 'o2' 1,000 times, in it the loop of "
            "'o3' 1,000 times)",
        ),
        (lambda: nested_loops([60, 60, 60]), f"{LOOP}216,000 or more"),
        (lambda: nested_loops([10**6]), f"{LOOP}1,000,000 or more"),
        # Bodies without a node turn as well.
        (lambda: nested_loops([10**5] * 3, empty=True), f"{LOOP}1,000,000,000,000,000 or more"),
        (lambda: scanned(30_000), f"{LOOP}60,000 or more (it repeats the loop of 'last' 30,000"),
        (
            lambda: functions_that_call_each_other(10),
            "its loops unrolled and its functions expanded: 20,001 at the function 'F0'",
        ),
        (
            lambda: CHAINS["relu"](20_001),
            "the model has 20,001 nodes, more than the budget of 20,000",
        ),
        (
            lambda: tflite_additions(20_001),
            "the model has 20,001 nodes, more than the budget of 20,000",
        ),
        (
            lambda: subgraphs_that_call_each_other(12, 3),
            "the model's operators call more graphs than the budget of 256",
        ),
        (lambda: subgraphs_that_call_each_other(40, 1), "it calls subgraphs 16 deep"),
        (
            lambda: products_of_constants(3000, 6),
            "take 27,000,000,000 products or more to compute, beyond the budget of 2,147,483,648",
        ),
    ],
    ids=[
        *("nested", "product of turns", "long", "empty", "scan", "functions", "onnx", "tflite"),
        *("subgraphs", "deep", "constants"),
    ],
first=3)  # fmt: skip
def test_refused_within_the_budget(
    build: Callable[[], bytes], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Counter[str]()
    add = Builder.add
    monkeypatch.setattr(Builder, "add", lambda *given: made.update(["node"]) or add(*given))
    data = build()
    with pytest.raises(UnsupportedError) as caught:
        load_model(data)
    assert message in caught.value.fact
    assert made.total() <= budget.MAX_NODES + 1


def test_a_loop_within_the_budget_is_unrolled() -> None:
    assert len(load_model(nested_loops([5, 4, 3])).nodes) == 61


def _events(work: Callable[[], Any]) -> int:
    """Return how many functions are called, those of C included."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _compile(data: bytes) -> None:
    hilc.compile(data, name="net", cpu="cortex-m4", allow_float=True)


@cases("kind", CHAINS, first=2)
def test_calls_grow_with_the_nodes(kind: str) -> None:
    small, large = (CHAINS[kind](count) for count in (100, 200))
    _compile(small)  # What is worked out once for all models.
    assert _events(lambda: _compile(large)) < 2.1 * _events(lambda: _compile(small))


@pytest.mark.full
@cases("kind", ["add", "qdq", "tflite"], first=1)
def test_time_grows_with_the_nodes(kind: str) -> None:
    """Loops without calls as well: four times as many nodes take 16 times as long where they are
    compared with each other."""
    small, large = (CHAINS[kind](count) for count in (500, 2000))

    def seconds(data: bytes) -> float:
        start = time.process_time()
        _compile(data)
        return time.process_time() - start

    _compile(small)
    assert seconds(large) < 7 * min(seconds(small) for _ in range(2))
