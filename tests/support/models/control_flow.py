"""TFLite files with IF and WHILE, nested too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tflite_builder import ModelBuilder

SHAPE = (1, 8)


def _quant(dtype: str) -> tuple[float, int] | tuple[()]:
    return (0.05, -3) if dtype == "int8" else ()


def values(seed: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "int8":
        return rng.integers(-128, 128, SHAPE, np.int8)
    return rng.standard_normal(SHAPE).astype(np.float32)


def _branch(op: str, dtype: str, seed: int) -> ModelBuilder:
    """``op(a, b) + constant``: the second layer needs the first one's output in a workspace."""
    f, quant = ModelBuilder(), _quant(dtype)
    for name in "ab":
        f.input(name, SHAPE, dtype, *quant)
    f.tensor("t", SHAPE, dtype, *quant)
    f.const("k", values(seed, dtype), *quant)
    f.op(op, ("a", "b"), ("t",))
    f.output("r", SHAPE, dtype, *quant)
    f.op("ADD", ("t", "k"), ("r",))
    return f


def if_file(dtype: str) -> bytes:
    """One of two branches, which take a constant too; layers before and after."""
    b, quant = ModelBuilder(), _quant(dtype)
    b.input("c", (1,), "bool")
    b.input("x", SHAPE, dtype, *quant)
    b.const("w", values(3, dtype), *quant)
    for name in ("before", "chosen"):
        b.tensor(name, SHAPE, dtype, *quant)
    b.functions += [_branch("ADD", dtype, 1), _branch("MUL", dtype, 2)]
    b.op("MUL", ("x", "w"), ("before",))
    b.op("IF", ("c", "before", "w"), ("chosen",), then=1, otherwise=2)
    b.output("y", SHAPE, dtype, *quant)
    b.op("ADD", ("chosen", "x"), ("y",))
    return b.build()


def _condition(dtype: str, limit: int) -> ModelBuilder:
    f = ModelBuilder()
    f.input("i", (), "int32")
    f.input("v", SHAPE, dtype, *_quant(dtype))
    f.const("limit", np.array(limit, np.int32))
    f.output("goes_on", (), "bool")
    f.op("LESS", ("i", "limit"), ("goes_on",))
    return f


def counted(body: ModelBuilder) -> ModelBuilder:
    """A body of which ``next`` is the next value of ``v``; it counts its turns."""
    body.const("one", np.array(1, np.int32))
    body.tensor("more", (), "int32")
    body.op("ADD", ("i", "one"), ("more",))
    body.output("more")
    body.output("next")
    return body


def _loop(dtype: str, functions: list[ModelBuilder], limit: int) -> bytes:
    b, quant = ModelBuilder(), _quant(dtype)
    b.input("start", (), "int32")
    b.input("x", SHAPE, dtype, *quant)
    b.functions += [_condition(dtype, limit), *functions]
    b.output("turns", (), "int32")
    b.output("y", SHAPE, dtype, *quant)
    b.op("WHILE", ("start", "x"), ("turns", "y"), condition=1, body=2)
    return b.build()


def while_file(dtype: str) -> bytes:
    """From a start on to 5: as often ``v = v * k + k``."""
    body, quant = ModelBuilder(), _quant(dtype)
    body.input("i", (), "int32")
    body.input("v", SHAPE, dtype, *quant)
    body.const("k", values(4, dtype), *quant)
    for name in ("scaled", "next"):
        body.tensor(name, SHAPE, dtype, *quant)
    body.op("MUL", ("v", "k"), ("scaled",))
    body.op("ADD", ("scaled", "k"), ("next",))
    return _loop(dtype, [counted(body)], 5)


def nested_file(dtype: str) -> bytes:
    """A loop whose turns are one of two branches."""
    body, quant = ModelBuilder(), _quant(dtype)
    body.input("i", (), "int32")
    body.input("v", SHAPE, dtype, *quant)
    body.const("two", np.array(2, np.int32))
    body.const("k", values(6, dtype), *quant)
    body.tensor("early", (), "bool")
    body.tensor("next", SHAPE, dtype, *quant)
    body.op("LESS", ("i", "two"), ("early",))
    body.op("IF", ("early", "v", "k"), ("next",), then=3, otherwise=4)
    functions = [counted(body), _branch("ADD", dtype, 1), _branch("MUL", dtype, 2)]
    return _loop(dtype, functions, 4)


def passing_file(dtype: str) -> bytes:
    """A loop that passes an operand on unchanged, which a layer behind the loop reads, too."""
    b, quant = ModelBuilder(), _quant(dtype)
    b.input("start", (), "int32")
    for name in "kx":
        b.input(name, SHAPE, dtype, *quant)
    condition, body = ModelBuilder(), ModelBuilder()
    for f in (condition, body):
        f.input("i", (), "int32")
        for name in "kv":
            f.input(name, SHAPE, dtype, *quant)
    condition.const("limit", np.array(5, np.int32))
    condition.output("more", (), "bool")
    condition.op("LESS", ("i", "limit"), ("more",))
    body.const("one", np.array(1, np.int32))
    body.output("turns", (), "int32")
    body.op("ADD", ("i", "one"), ("turns",))
    body.output("k")
    body.output("next", SHAPE, dtype, *quant)
    body.op("ADD", ("v", "k"), ("next",))
    b.functions += [condition, body]
    b.output("turns", (), "int32")
    for name in ("same", "v"):
        b.tensor(name, SHAPE, dtype, *quant)
    b.output("y", SHAPE, dtype, *quant)
    b.op("WHILE", ("start", "k", "x"), ("turns", "same", "v"), condition=1, body=2)
    b.op("ADD", ("v", "same"), ("y",))
    return b.build()


def convolving_file() -> bytes:
    """A loop of two convolutions, which several kernels of microcontrollers can compute."""
    b, shape, quant = ModelBuilder(), (1, 8, 8, 16), _quant("int8")
    rng = np.random.default_rng(1)
    b.input("start", (), "int32")
    b.input("x", shape, "int8", *quant)
    condition, body = ModelBuilder(), ModelBuilder()
    for f in (condition, body):
        f.input("i", (), "int32")
        f.input("v", shape, "int8", *quant)
    condition.const("limit", np.array(3, np.int32))
    condition.output("goes_on", (), "bool")
    condition.op("LESS", ("i", "limit"), ("goes_on",))
    for source, output in (("v", "between"), ("between", "next")):
        weights = rng.integers(-127, 128, (16, 3, 3, 16)).astype(np.int8)
        body.const(f"w_{output}", weights, (0.002,) * 16)
        bias = rng.integers(-1000, 1000, 16).astype(np.int32)
        body.const(f"b_{output}", bias, (0.0001,) * 16)
        body.tensor(output, shape, "int8", *quant)
        operands = (source, f"w_{output}", f"b_{output}")
        body.op("CONV_2D", operands, (output,), padding="SAME", stride_h=1, stride_w=1)
    b.functions += [condition, counted(body)]
    b.output("turns", (), "int32")
    b.output("y", shape, "int8", *quant)
    b.op("WHILE", ("start", "x"), ("turns", "y"), condition=1, body=2)
    return b.build()


def recursive_file() -> bytes:
    """A loop whose body is itself such a loop, without end."""
    body = ModelBuilder()
    body.input("i", (), "int32")
    body.input("v", SHAPE, "float32")
    body.output("j", (), "int32")
    body.output("next", SHAPE, "float32")
    body.op("WHILE", ("i", "v"), ("j", "next"), condition=1, body=2)
    return _loop("float32", [body], 4)


FILES: Mapping[str, bytes] = {
    f"{name}_{dtype}": made(dtype)
    for name, made in (
        *(("if", if_file), ("while", while_file), ("nested", nested_file)),
        ("passing", passing_file),
    )
    for dtype in ("int8", "float32")
}
