"""ONNX models with loops and branches whose conditions are known only at run time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from onnx import parser

#: A square matrix, in a model's text.
WEIGHTS = ", ".join(["1", *["0.5"] * 4] * 3 + ["1"])

#: Text of models (:mod:`onnx.parser`): the graph and its inputs and outputs.
_TEXTS: Mapping[str, str] = {
    # Branches: each reads the graph around it, one of them a constant too.
    "if": """
        g (float[2,4] x, float[4] b) => (float[2,4] y)
        <float[4,4] W = {WEIGHTS}, float zero = {0}> {
            s = ReduceSum <keepdims=0> (x)
            c = Greater (s, zero)
            y = If (c) <
                then_branch = t () => (float[2,4] t) { t = MatMul (x, W) },
                else_branch = e () => (float[2,4] e) { e = Add (x, b) }>
        }""".replace("WEIGHTS", WEIGHTS),
    # A branch that passes on twice what it is given, and one that gives a constant.
    "if_without_operators": """
        g (float[3] x, bool c) => (float[3] y, float[3] z) <float[3] k = {1, 2, 3}> {
            y, z = If (c) <
                then_branch = t () => (float[3] t, float[3] u) {
                    t = Identity (x)
                    u = Identity (x)
                },
                else_branch = e () => (float[3] i, float[3] n) { i = Identity (k) n = Neg (x) }>
        }""",
    "if_of_one_element": """
        g (float[2] x, bool[1] c) => (float[2] y) {
            y = If (c) <
                then_branch = t () => (float[2] t) { t = Exp (x) },
                else_branch = e () => (float[2] e) { e = Neg (x) }>
        }""",
    "if_in_if": """
        g (float[4] x, bool a, bool b) => (float[4] y) {
            n = Neg (x)
            y = If (a) <
                then_branch = t () => (float[4] t) {
                    s = Add (n, n)
                    t = If (b) <
                        then_branch = tt () => (float[4] u) { u = Mul (s, x) },
                        else_branch = te () => (float[4] v) { v = Add (n, x) }>
                },
                else_branch = e () => (float[4] e) { e = Abs (n) }>
        }""",
    "if_float16": """
        g (float16[4] x, bool c) => (float16[4] y) {
            y = If (c) <
                then_branch = t () => (float16[4] t) { t = Add (x, x) },
                else_branch = e () => (float16[4] e) { e = Identity (x) }>
        }""",
    "if_double": """
        g (double[4] x, bool c) => (double[4] y) {
            y = If (c) <
                then_branch = t () => (double[4] t) { t = Add (x, x) },
                else_branch = e () => (double[4] e) { e = Mul (x, x) }>
        }""",
    # Loops: a condition of the body, a trip count of the caller, both, neither initial value known.
    "while": """
        g (float[4] x) => (float[4] y) <bool true = {1}, float k = {1.5}, float limit = {100}> {
            y = Loop ("", true, x) <body = b (int64 i, bool q, float[4] v) => (bool p, float[4] w) {
                w = Mul (v, k)
                s = ReduceSum <keepdims=0> (w)
                p = Less (s, limit)
            }>
        }""",
    "for": """
        g (float[4] x, int64 n) => (float[4] y, float[n,4] rows) <float k = {1.5}> {
            y, rows = Loop (n, "", x) <
                body = b (int64 i, bool q, float[4] v) => (bool q, float[4] w, float[4] row) {
                f = Cast <to=1> (i)
                a = Add (v, f)
                w = Mul (a, k)
                row = Sub (w, x)
            }>
        }""",
    "for_of_one_element": """
        g (float[2] x, int64[1] n, bool[1] c) => (float[2] y) {
            y = Loop (n, c, x) <
                body = b (int64[1] i, bool[1] q, float[2] v) => (bool[1] p, float[2] w) {
                w = Add (v, v)
                p = Identity (q)
            }>
        }""",
    "early": """
        g (float[2,3] x, bool c) => (float[2,3] y, float[n,2,3] rows, float[n] sums)
        <int64 most = {20}, float limit = {40}> {
            y, rows, sums = Loop (most, c, x) <
                body = b (int64 i, bool q, float[2,3] v)
                    => (bool p, float[2,3] w, float[2,3] w, float s) {
                w = Add (v, v)
                s = ReduceSum <keepdims=0> (w)
                p = Less (s, limit)
            }>
        }""",
    # The body reads rows by the number of the turn, from a tensor around it, and keeps a count.
    "rows": """
        g (float[6,3] x, int64 n) => (float[3] y, int64 count)
        <float[3] zeros = {0, 0, 0}, int64 none = {0}, int64 one = {1}> {
            y, count = Loop (n, "", zeros, none) <
                body = b (int64 i, bool q, float[3] v, int64 c)
                    => (bool q, float[3] w, int64 d) {
                row = Gather (x, i)
                w = Add (v, row)
                d = Add (c, one)
            }>
        }""",
    "loop_in_loop": """
        g (float[4] x, int64 n) => (float[4] y) <int64 three = {3}, float k = {0.5}> {
            y = Loop (n, "", x) <body = b (int64 i, bool q, float[4] v) => (bool q, float[4] w) {
                m = Add (i, three)
                u = Loop (m, "", v) <
                    body = b2 (int64 j, bool r, float[4] z) => (bool r, float[4] s) {
                    t = Add (z, x)
                    s = Mul (t, k)
                }>
                w = Neg (u)
            }>
        }""",
    "if_in_loop": """
        g (float[4] x, int64 n) => (float[4] y, bool[n] odd)
        <int64 two = {2}, int64 none = {0}> {
            y, odd = Loop (n, "", x) <
                body = b (int64 i, bool q, float[4] v) => (bool q, float[4] w, bool c) {
                r = Mod (i, two)
                e = Equal (r, none)
                c = Not (e)
                w = If (c) <
                    then_branch = t () => (float[4] t) { t = Add (v, x) },
                    else_branch = o () => (float[4] o) { o = Neg (v) }>
            }>
        }""",
    # Unrolled: the shape is known, whatever the values.
    "known": """
        g (float[3,4] x) => (float[3,4] y) <bool true = {1}, int64 axis = {0}, int64 one = {1}> {
            y = Loop ("", true, x) <
                body = b (int64 i, bool q, float[3,4] v) => (bool p, float[3,4] w) {
                w = Add (v, x)
                shape = Shape (w)
                size = Gather (shape, axis)
                j = Add (i, one)
                p = Less (j, size)
            }>
        }""",
}  # fmt: skip

#: Bounds of the turns of loops, of the models that need one.
BOUNDS: Mapping[str, Mapping[str, int]] = {"for": {"y": 6}, "if_in_loop": {"odd": 6}}


def control_flow_model(name: str) -> bytes:
    """Return the file of a model."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> {_TEXTS[name]}'
    data: bytes = parser.parse_model(text).SerializeToString()
    return data


def control_flow_inputs(
    name: str, inputs: Mapping[str, tuple[tuple[int, ...], str]], run: int
) -> dict[str, NDArray[np.generic]]:
    """Return values for inputs, by name: their shapes and types. Counts are those of the run."""
    rng = np.random.default_rng([run, len(name)])
    low = -2 if name.startswith("if") and name != "if_in_loop" else 0.1
    found: dict[str, NDArray[np.generic]] = {}
    for index, (key, (shape, dtype)) in enumerate(inputs.items()):
        if dtype == "bool":
            found[key] = np.full(shape, bool(run >> (index % 2) & 1))
        elif dtype == "int64":
            found[key] = np.full(shape, run % 7)
        else:
            found[key] = rng.uniform(low, 3, shape).astype(dtype)
    return found


MODELS = tuple(_TEXTS)
