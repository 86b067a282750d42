"""TFLite files whose IF and WHILE call graphs that keep states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from control_flow import SHAPE, counted, values
from stateful import variable
from tflite_builder import ModelBuilder

_QUANT = (0.05, -3)


def _function(*names: str) -> ModelBuilder:
    f = ModelBuilder()
    for name in names:
        f.input(name, SHAPE, "int8", *_QUANT)
    return f


def _read(b: ModelBuilder, name: str, handle: str = "handle") -> None:
    b.tensor(name, SHAPE, "int8", *_QUANT)
    b.op("READ_VARIABLE", (handle,), (name,))


def _sum(b: ModelBuilder, first: str, second: str, name: str) -> None:
    b.tensor(name, SHAPE, "int8", *_QUANT)
    b.op("ADD", (first, second), (name,))


def _condition(limit: int) -> ModelBuilder:
    f = ModelBuilder()
    f.input("i", (), "int32")
    f.input("v", SHAPE, "int8", *_QUANT)
    f.const("limit", np.array(limit, np.int32))
    f.output("goes_on", (), "bool")
    f.op("LESS", ("i", "limit"), ("goes_on",))
    return f


def _body() -> ModelBuilder:
    body = _function()
    body.input("i", (), "int32")
    body.input("v", SHAPE, "int8", *_QUANT)
    return body


def _loop(b: ModelBuilder) -> ModelBuilder:
    b.input("start", (), "int32")
    b.input("x", SHAPE, "int8", *_QUANT)
    b.tensor("turns", (), "int32")
    b.tensor("looped", SHAPE, "int8", *_QUANT)
    return b


def chosen_sum_file(*, initialized: bool = False) -> bytes:
    """A sum over runs, to which one branch adds; the other one reads it. The model reads it too."""
    b = ModelBuilder()
    b.input("c", (1,), "bool")
    b.input("x", SHAPE, "int8", *_QUANT)
    adds, reads = _function("a"), _function("a")
    for f in (adds, reads):
        variable(f, "handle", "sum")
        _read(f, "before")
    _sum(adds, "before", "a", "after")
    adds.op("ASSIGN_VARIABLE", ("handle", "after"), ())
    adds.output("after")
    reads.output("r", SHAPE, "int8", *_QUANT)
    reads.op("MUL", ("before", "a"), ("r",))
    b.functions += [adds, reads]
    if initialized:
        first = _function()
        variable(first, "handle", "sum")
        first.const("first", values(9, "int8"), *_QUANT)
        first.op("ASSIGN_VARIABLE", ("handle", "first"), ())
        b.functions.append(first)
        b.op("CALL_ONCE", (), (), subgraph=3)
    b.tensor("chosen", SHAPE, "int8", *_QUANT)
    b.op("IF", ("c", "x"), ("chosen",), then=1, otherwise=2)
    variable(b, "handle", "sum")
    _read(b, "total")
    b.output("y", SHAPE, "int8", *_QUANT)
    b.op("ADD", ("chosen", "total"), ("y",))
    return b.build()


def looped_sum_file(*, handed: bool = False) -> bytes:
    """A sum to which each turn adds and the model too; with ``handed`` by the model's handle."""
    b = _loop(ModelBuilder())
    condition, body = _condition(5), _body()
    loop, given = ["start", "x"], ["turns", "looped"]
    variable(b, "handle", "sum")
    if handed:
        loop.append("handle")
        b.tensor("handed", (1,), "resource")
        given.append("handed")
        for f in (condition, body):
            f.input("handle", (1,), "resource")
    else:
        variable(body, "handle", "sum")
    _read(body, "before")
    _sum(body, "before", "v", "next")
    body.op("ASSIGN_VARIABLE", ("handle", "next"), ())
    counted(body)
    if handed:
        body.output("handle")
    b.functions += [condition, body]
    b.op("WHILE", loop, given, condition=1, body=2)
    _read(b, "total", given[2] if handed else "handle")
    _sum(b, "total", "x", "more")
    b.op("ASSIGN_VARIABLE", ("handle", "more"), ())
    b.output("turns")
    b.output("y", SHAPE, "int8", *_QUANT)
    b.op("ADD", ("looped", "total"), ("y",))
    return b.build()


def condition_file() -> bytes:
    """A condition that adds to one variable, each time, and reads another that the body writes."""
    b = _loop(ModelBuilder())
    condition, body = _condition(4), _body()
    variable(condition, "own", "checks")
    _read(condition, "checks", "own")
    _sum(condition, "checks", "v", "checked")
    condition.op("ASSIGN_VARIABLE", ("own", "checked"), ())
    variable(condition, "others", "last")
    _read(condition, "seen", "others")
    variable(body, "handle", "last")
    variable(body, "checks_handle", "checks")
    _read(body, "checks", "checks_handle")
    _sum(body, "v", "checks", "next")
    body.op("ASSIGN_VARIABLE", ("handle", "next"), ())
    counted(body)
    b.functions += [condition, body]
    b.op("WHILE", ("start", "x"), ("turns", "looped"), condition=1, body=2)
    variable(b, "checks_handle", "checks")
    _read(b, "total", "checks_handle")
    b.output("turns")
    b.output("looped")
    b.output("y", SHAPE, "int8", *_QUANT)
    b.op("ADD", ("looped", "total"), ("y",))
    return b.build()


def nested_layer_file() -> bytes:
    """A loop with a choice in which an SVDF has a state: it moves on in early turns alone."""
    b = _loop(ModelBuilder())
    rng = np.random.default_rng(7)
    body, early, late = _body(), _function("a"), _function("a")
    units = SHAPE[1]
    early.const("features", rng.integers(-127, 128, (2 * units, units)).astype(np.int8), 0.01)
    early.const("moments", rng.integers(-900, 900, (2 * units, 3)).astype(np.int16), 0.001)
    early.const("bias", rng.integers(-4000, 4000, units).astype(np.int32), 0.001 * 0.002)
    early.tensor("kept", (1, 6 * units), "int16", 0.002, 0, variable=True)
    early.output("r", SHAPE, "int8", *_QUANT)
    operands = ("a", "features", "moments", "bias", "kept")
    early.op("SVDF", operands, ("r",), rank=2, activation="RELU")
    late.const("k", values(5, "int8"), *_QUANT)
    late.output("r", SHAPE, "int8", *_QUANT)
    late.op("ADD", ("a", "k"), ("r",))
    body.const("two", np.array(2, np.int32))
    body.tensor("is_early", (), "bool")
    body.op("LESS", ("i", "two"), ("is_early",))
    body.tensor("next", SHAPE, "int8", *_QUANT)
    body.op("IF", ("is_early", "v"), ("next",), then=3, otherwise=4)
    counted(body)
    b.functions += [_condition(4), body, early, late]
    b.op("WHILE", ("start", "x"), ("turns", "looped"), condition=1, body=2)
    b.output("turns")
    b.output("looped")
    return b.build()


FILES: Mapping[str, bytes] = {
    "chosen_sum": chosen_sum_file(),
    "chosen_sum_initialized": chosen_sum_file(initialized=True),
    "looped_sum": looped_sum_file(),
    "looped_sum_handed": looped_sum_file(handed=True),
    "condition": condition_file(),
    "nested_layer": nested_layer_file(),
}


def exchanged_handles_file() -> bytes:
    """A loop whose turns exchange the handles of two variables."""
    b = _loop(ModelBuilder())
    condition, body = _condition(5), _body()
    for name in ("left", "right"):
        variable(b, name, name)
        b.tensor(f"{name}_after", (1,), "resource")
        for f in (condition, body):
            f.input(name, (1,), "resource")
    _read(body, "next", "left")
    counted(body)
    body.output("right")
    body.output("left")
    b.functions += [condition, body]
    given = ("turns", "looped", "left_after", "right_after")
    b.op("WHILE", ("start", "x", "left", "right"), given, condition=1, body=2)
    b.output("looped")
    return b.build()
