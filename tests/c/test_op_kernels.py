"""The C kernels of all operators but the linear layers against their numpy references."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from campaigns import PARTS, cases, sampled
from even_ops import KINDS as EVEN_KINDS
from even_ops import even_op
from kernel_checks import check, checks_of, count
from kernel_runner import kernel_call
from single_op import (
    KINDS,
    ONNX_KINDS,
    Draft,
    SingleOp,
    finish,
    float_slopes,
    index_tensor,
    random_op,
    swapped_axes,
)

from hilc.errors import HilError
from hilc.ir import Array, Quant, Tensor
from hilc.lowering.kernels import KernelCall, kernels
from hilc.target import get_cpu

HOST = get_cpu("host")
#: float32 kernels may call the C library, whose functions are not all rounded correctly.
RELATIVE = 2e-6


def generator(*seed: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(" ".join(seed).encode()))


def emit(single: SingleOp) -> KernelCall:
    return kernel_call(single.node, single.ins, single.outs)


def check_all(singles: Sequence[SingleOp], told: str = "", **options: Any) -> int:
    """Compares every portable kernel of every operator with the reference; how many calls."""
    checks = [one for single in singles for one in checks_of(single, HOST, told, **options)]
    check(checks, relative=RELATIVE)
    return len(checks)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("dtype", sampled(["int8", "int16", "float32"], keep=["int8", "float32"]))
def test_random_operators(dtype, part):
    rng = generator("random", dtype, str(part))
    singles = [random_op(rng, *kind) for kind in KINDS if kind[1] == dtype for _ in range(25)]
    assert check_all(singles, f"(of {dtype})") >= 250


@pytest.mark.full
@pytest.mark.parametrize("part", PARTS)
def test_moves_of_every_element_size(part):
    rng = generator("moves", str(part))
    sizes = ("int32", "int64", "bool", "uint8", "uint32", "uint64")
    singles = [random_op(rng, *kind) for kind in KINDS if kind[1] in sizes for _ in range(5)]
    check_all(singles)


@pytest.mark.full
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_operators_of_onnx_alone(part):
    """Integers of every type that wrap around, floats that are no numbers, doubles."""
    rng = generator("onnx", str(part))
    singles = [random_op(rng, *kind) for kind in ONNX_KINDS for _ in range(6)]
    check_all(singles)


def test_slopes_of_floats():
    rng = generator("slopes")
    check_all([float_slopes(rng, "PRELU", "int8") for _ in range(60)])


def test_images_of_bytes_in_both_channel_orders():
    rng = generator("swapped axes")
    checks = [one for _ in range(60) for one in checks_of(swapped_axes(rng), HOST)]
    assert count(checks) == {"hil_generic_gather": 60}
    check(checks)


@pytest.mark.full  # It changes rarely, and takes long.
@pytest.mark.parametrize("part", sampled(range(2), keep=[0]))
def test_operators_compiled_on_their_own(part):
    rng = generator("specialised", str(part))
    dtypes = ("int8", "int16", "float32")
    singles = [random_op(rng, *kind) for kind in KINDS if kind[1] in dtypes]
    check_all(singles, specialise=True)


@pytest.mark.full
@pytest.mark.parametrize("times", sampled([6, 20], keep=[6]))
def test_elementwise_kernels_work_in_place(times):
    rng = generator("in place")
    portable = {name: kernel for name, kernel in kernels().items() if not kernel.requires}
    elementwise = {name for name, kernel in portable.items() if kernel.order == "elementwise"}
    tested: set[str] = set()
    checks = []
    ties = partial(even_op, ties=True)
    kinds = [(random_op, *kind) for kind in (*KINDS, *ONNX_KINDS)]
    kinds += [(make, *kind) for make in (even_op, ties) for kind in EVEN_KINDS]
    kinds.append((float_slopes, "PRELU", "int8"))
    for make, op, dtype in kinds:
        for _ in range(times):
            try:
                single = make(rng, op, dtype)
            except HilError:
                # No kernel rounds by ties to even for all scales.
                continue
            call = emit(single)
            (out, *_) = single.outs
            for position, i in enumerate(call.inputs):
                alike = single.ins[i].size == out.size and single.ins[i].nbytes >= out.nbytes
                if call.kernel.order == "elementwise" and alike:
                    checks += checks_of(single, HOST, in_place=position)[:1]
                    tested.add(call.kernel.name)
    check(checks, relative=RELATIVE)
    assert tested == elementwise


def int8(shape: Sequence[int], scale: float, zero_point: int, name: str = "x") -> Tensor:
    return Tensor(name, tuple(shape), "int8", Quant((float(np.float32(scale)),), (zero_point,)))


def all_pairs() -> tuple[Array, Array]:
    every = np.arange(-128, 128, dtype=np.int8)
    return np.repeat(every, 256), np.tile(every, 256)


@pytest.mark.parametrize("op", sampled(["ADD", "SUB", "MUL"], keep=["ADD", "MUL"]))
@cases(
    ("a", "b", "out"),
    [
        ((0.05, -128), (0.05, -128), (0.1, -128)),
        ((0.02, 127), (1.7, -128), (0.9, 127)),
        ((3.1e-4, 5), (2.2e2, -7), (1.0, 0)),
        ((0.5, 0), (0.5, 0), (0.25, 0)),
        ((1e-13, 9), (0.5, 0), (0.25, 0)),
        ((0.07, -3), (1e-13, 9), (2e-7, 3)),
    ],
    first=2,
)
def test_every_pair_of_int8(op, a, b, out):
    x, y = all_pairs()
    draft = Draft(
        [int8(x.shape, a[0], a[1], "a"), int8(y.shape, b[0], b[1], "b")],
        Quant((float(np.float32(out[0])),), (out[1],)),
        {"activation": "NONE"},
    )
    single = finish(generator(), op, draft, [x, y])
    check_all([single])


def test_softmax_of_many_rows():
    """The last Newton step of the reciprocal shows in one of some thousand outputs."""
    draft = Draft([int8((20000, 3), 0.03, 0)], Quant((1 / 256,), (-128,)), {"beta": 1.0})
    single = finish(generator("rows"), "SOFTMAX", draft)
    check_all([single])


@cases("depth", [1, 2, 511, 512, 513, 1024, 4095], first=2)
def test_softmax_of_rows_without_a_maximum(depth):
    """Equal classes, from where the reference stops for want of bits (512) to where int8 ends."""
    draft = Draft([int8((1, depth), 0.1, 0)], Quant((1 / 256,), (-128,)), {"beta": 1.0})
    values = [np.full((1, depth), 3, np.int8)]
    single = finish(generator(), "SOFTMAX", draft, values)
    check_all([single])
    expected = min(round(256 / depth), 255) - 128
    np.testing.assert_array_equal(single.reference()[0], np.full((1, depth), expected))


def test_quantize_saturates_beyond_int32():
    x = np.array(
        [np.inf, -np.inf, np.nan, 3e38, -3e38, 2.5, -2.5, 0.49999997, -0.0, 1e-45], np.float32
    )
    draft = Draft([Tensor("x", x.shape, "float32")], Quant((1.0,), (3,)))
    single = finish(generator(), "QUANTIZE", draft, [x])
    check_all([single])
    expected = [127, -128, -128, 127, -128, 6, 0, 3, 3, 3]
    np.testing.assert_array_equal(single.reference()[0], np.array(expected, np.int8))


def test_a_walk_uses_every_loop():
    """Six dimensions that do not merge, in a sum and in a transposition."""
    rng = generator("walk")
    shape = (2, 3, 2, 3, 2, 3)
    a = Tensor("a", (2, 1, 2, 1, 2, 1), "float32")
    b = Tensor("b", (1, 3, 1, 3, 1, 3), "float32")
    broadcast = finish(rng, "ADD", Draft([a, b], attrs={"activation": "NONE"}))
    assert emit(broadcast).fields["counts"] == shape[:5]
    reverse = Draft([Tensor("x", shape, "int16"), index_tensor((5, 4, 3, 2, 1, 0), "perm")])
    transposed = finish(rng, "TRANSPOSE", reverse)
    assert emit(transposed).fields["counts"] == shape[::-1][:5]
    singles = [broadcast, transposed]
    check_all(singles)


def test_moves_take_whole_runs():
    """What lies together on both sides is one memcpy, whatever the number of axes."""
    x = Tensor("x", (4, 5, 6, 7), "int32")
    moved = Draft([x, index_tensor((1, 0, 2, 3), "perm")])
    fields = emit(finish(generator(), "TRANSPOSE", moved)).fields
    assert (fields["run"], fields["length"], fields["rows"]) == (6 * 7 * 4, 4, 5)
    sliced = Draft(
        [x, *(index_tensor(v, n) for v, n in (((1, 0), "b"), ((3, 5), "e"), ((1, 1), "s")))],
        attrs=dict.fromkeys(
            ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
        ),
    )
    fields = emit(finish(generator(), "STRIDED_SLICE", sliced)).fields
    assert (fields["start"], fields["run"]) == (5 * 6 * 7 * 4, 2 * 5 * 6 * 7 * 4)
    assert fields["rows"] == fields["length"] == 1
