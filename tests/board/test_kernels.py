"""Thousands of random layers and operators on cores of each family of kernels, in one boot each.

``tests/support/programs/kernel_runner.py`` says what is checked beside the results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from campaigns import cases, sampled
from even_ops import even_op
from float_layers import float_layers, float_ops
from kernel_checks import Check, Operator, check, checks_of, count, overlapping_checks
from kernel_layers import (
    CASES,
    CORNERS,
    FILTER_ROWS,
    MULTIPLIED,
    PIXELS,
    PLANES,
    REACHING,
    STRIPS,
    Shapes,
    extreme_layers,
    limit_layers,
    line_layers,
    rectified,
    tamed,
    to_even,
    uneven_layers,
    usual_layer,
    with_ties,
)
from kernel_runner import BOARD_FLAGS, Case, run
from layer_norms import layer_norm
from linear_layers import Layer, grouped_layer, make_layer, random_layer
from loose_call import loose_call
from riscv_layers import deep_layers
from single_op import (
    KINDS,
    ONNX_KINDS,
    SingleOp,
    averaged_images,
    finish,
    float_slopes,
    joined_rows,
    random_op,
    resized_channels,
    swapped_axes,
    transpose_conv_draft,
)
from wide_layers import SHAPES, wide_layer

from hil.board import Board, load_board
from hilc.ir import Rounding, Tensor
from hilc.lowering import candidates
from hilc.lowering.cost import Cost
from hilc.lowering.fields import FieldValue
from hilc.lowering.kernels import Kernel, KernelCall, kernels
from hilc.lowering.parameters import HilMveTransposeConv2dS8Rows
from hilc.ops.operands import ARITHMETIC

SEED = 51
LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: What a float32 result may differ by: the C library is another one.
RELATIVE = 1e-5
LARGE_M0 = str(Path(__file__).resolve().parents[2] / "tools" / "boards" / "large-m0.toml")
#: A board for each family of kernels, and which feature of its core these ask for.
BOARDS = {
    "mps2-an385": "mul32",
    "mps2-an386": "dsp",
    "mps3-an547": "mve",
    "riscv-virt": "mul32",
    LARGE_M0: "thumb1",
}
#: Layers of bytes of many sizes, without weights.
NARROW = (resized_channels, averaged_images, joined_rows)
#: Calls of a family's kernels that there must be at least, of all and of each.
CALLS, CALLS_OF_EACH = 1000, 10
#: Kernels that take an image a few rows at a time, which tests/board/test_fusion.py runs.
ROW_ADDERS = {"hil_mve_average_rows_f32", "hil_mve_mean_rows_f32"}
#: Which of the layers ``make test`` takes. RISC-V has the kernels of the others, and QEMU checks
#: each access to memory by itself there: its memory protection has regions smaller than a page.
SAMPLE = {"mps2-an385": 160, "mps2-an386": 120, "mps3-an547": 120, LARGE_M0: 320}

#: Shapes of layers and attributes where one kernel or another takes another way: those for Helium,
#: and the others'.
OF_HELIUM: Sequence[Shapes] = (*CORNERS, *PIXELS, *PLANES, *STRIPS, *FILTER_ROWS, *MULTIPLIED)
OF_OTHERS: Sequence[Shapes] = [
    *((op, x, w, attrs) for op, x, w, attrs, *_ in CASES.values()),
    *MULTIPLIED,
    *REACHING,
]


#: Boards, and which of their layers are taken: a sample, and all.
DRAWS = sampled([*SAMPLE.items(), *((name, 1) for name in BOARDS)], keep=list(SAMPLE.items())[1:3])


def linear_layers(rng: np.random.Generator) -> list[Layer]:
    layers = extreme_layers(rng, 20) + limit_layers(rng)
    for op, x, w, attrs in (*OF_HELIUM, *OF_OTHERS):
        layer = make_layer(rng, op, "int8", x, w, attrs)
        layers += [layer, tamed(layer), rectified(tamed(layer))]
    usual = [usual_layer(rng) for _ in range(500)]
    # Every third by the arithmetic of ONNX, some of these with ties.
    for i in range(0, len(usual), 3):
        usual[i] = with_ties(usual[i]) if i % 4 == 0 else to_even(usual[i])
    layers += usual
    layers += [random_layer(rng, op, "int8", True) for op in LINEAR for _ in range(200)]
    for dtype in ("int16", "float32"):
        layers += [random_layer(rng, op, dtype, True) for op in LINEAR for _ in range(30)]
        layers += [grouped_layer(rng, dtype) for _ in range(10)]
    layers += [grouped_layer(rng, "int8") for _ in range(10)]
    layers += [wide_layer(rng, shapes, extreme) for shapes in SHAPES for extreme in (False, True)]
    layers += float_layers(rng)
    layers += uneven_layers(rng, 8)
    return layers


def other_operators(rng: np.random.Generator) -> list[SingleOp]:
    singles = [random_op(rng, *kind) for kind in KINDS for _ in range(8)]
    for op in ("ADD", "SUB", "AVERAGE_POOL_2D", "MAX_POOL_2D"):
        singles += [random_op(rng, op, "int8") for _ in range(100)]
    singles += [random_op(rng, "MUL", "int8") for _ in range(20)]
    singles += [random_op(rng, op, "int16") for op in ("ADD", "SUB", "MUL") for _ in range(20)]
    for op in ("UNIDIRECTIONAL_SEQUENCE_LSTM", "SVDF", "BATCH_MATMUL"):
        singles += [random_op(rng, op, "int8") for _ in range(80)]
    singles += [random_op(rng, "UNIDIRECTIONAL_SEQUENCE_LSTM", "int16") for _ in range(40)]
    singles += [even_op(rng, "AVERAGE_POOL_2D", "int8") for _ in range(60)]
    singles += [even_op(rng, "TRANSPOSE_CONV", "int8") for _ in range(20)]
    singles += [layer_norm(rng, "int8") for _ in range(60)]
    for dtype in ("int8", "int16", "float32"):
        singles += [random_op(rng, "TRANSPOSE_CONV", dtype) for _ in range(40)]
    singles += [swapped_axes(rng) for _ in range(40)]
    singles += [make(rng) for make in (resized_channels, averaged_images) for _ in range(60)]
    products = [random_op(rng, "BATCH_MATMUL", "float32") for _ in range(40)]
    # Some cores round sums of floats once.
    singles += products + [
        replace(one, node=replace(one.node, rounding=Rounding.SINGLE)) for one in products
    ]
    for op in ("BATCH_MATMUL", "SOFTMAX"):
        singles += [even_op(rng, op, "int8", bool(i % 2)) for i in range(40)]
    singles += [layer_norm(rng, "int8") for _ in range(40)]
    for _ in range(40):
        one = random_op(rng, "BATCH_MATMUL", "float32")
        singles.append(replace(one, node=replace(one.node, rounding=Rounding.SINGLE)))
    singles += [random_op(rng, *kind) for kind in ONNX_KINDS for _ in range(2)]
    for op in ("MATMUL_INTEGER", "CONV_INTEGER"):
        singles += [random_op(rng, op, "int8") for _ in range(20)]
    singles += [float_slopes(rng, "PRELU", "int8") for _ in range(20)]
    singles += [random_op(rng, "MAX_POOL_2D", "int16") for _ in range(40)]
    singles += [even_op(rng, "MUL", "int8") for _ in range(40)]
    singles += [random_op(rng, "SQUARED_DIFFERENCE", "int8") for _ in range(20)]
    singles += float_ops(rng, 30)
    singles += [random_op(rng, "SOFTMAX", "int8") for _ in range(20)]
    singles += [joined_rows(rng, rows=40, parts=3, longest=8) for _ in range(20)]
    pools = [random_op(rng, "AVERAGE_POOL_2D", "int8") for _ in range(40)]
    pools += [even_op(rng, "AVERAGE_POOL_2D", "int8") for _ in range(20)]
    lstms = [random_op(rng, "UNIDIRECTIONAL_SEQUENCE_LSTM", "float32") for _ in range(12)]
    singles += lstms + [
        replace(one, node=replace(one.node, rounding=Rounding.SINGLE)) for one in lstms
    ]
    return singles + [deep(rng, pool) for pool in pools]


def deep(rng: np.random.Generator, pool: SingleOp) -> SingleOp:
    """The same windows over images of int8 of sixteen channels and more."""
    channels = int(rng.integers(16, 70))

    def of(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(replace(t, shape=(*t.shape[:-1], channels)) for t in tensors)

    ins = of(pool.ins)
    values = (rng.integers(-128, 128, ins[0].shape).astype(np.int8),)
    return replace(pool, ins=ins, outs=of(pool.outs), values=values)


def family_of(name: str, board: Board) -> dict[str, Kernel]:
    """The kernels that ask for the feature for which the board is taken."""
    return {
        n: k
        for n, k in kernels().items()
        if BOARDS[name] in k.requires <= board.cpu.features and n not in ROW_ADDERS
    }


def check_in_halves(checks: Sequence[Check], board: Board) -> None:
    """In two programs, each of half of the kernels: the code of all has no room on the board with
    Helium.
    """
    names = sorted(count(checks))
    for half in (names[::2], names[1::2]):
        check([one for one in checks if one.case.call.kernel.name in half], board, RELATIVE)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@cases(("name", "every"), DRAWS, first=1)
def test_every_kernel_for_thousands_of_layers(name: str, every: int) -> None:
    """Of some, the output also lies over an input as far as it may: the assembly has an order of
    its own, which the host does not see.
    """
    board = load_board(name)
    rng = np.random.default_rng([SEED, *name.encode()])
    operators: list[Operator] = [*linear_layers(rng), *other_operators(rng)]
    checks, overlapping = [], []
    for i, operator in enumerate(operators):
        if i % every:
            continue
        # tests/board/test_riscv_kernels.py has the emitted ones, each a kernel of its own.
        found = [
            one
            for one in checks_of(operator, board.cpu, f"(operator {i} of seed {SEED})")
            if one.kernel in kernels()
        ]
        checks += found
        if i // every % 4 == 0:
            overlapping += [over for one in found for over in overlapping_checks(one, operator)]
    family = family_of(name, board)
    # A sample may lack a kernel that few layers have.
    missing = family.keys() - count(checks).keys()
    # Operators of a kind follow each other.
    spread = [operator for start in range(8) for operator in operators[start::8]]
    for operator in spread if missing else ():
        calls = candidates(operator.node, operator.ins, operator.outs, board.cpu)
        if missing & {call.kernel.name for call in calls if isinstance(call, KernelCall)}:
            found = checks_of(operator, board.cpu, f"(of seed {SEED})")
            checks += [one for one in found if one.kernel in kernels()]
            missing -= count(found).keys()
            if not missing:
                break
    check_in_halves(checks + overlapping, board)
    counts = {kernel: count(checks).get(kernel, 0) for kernel in family}
    assert sum(counts.values()) > CALLS // every
    assert min(counts.values()) >= max(1, CALLS_OF_EACH // every), counts
    if every == 1:
        assert {n for n, k in family.items() if k.order != "none"} <= count(overlapping).keys()


@pytest.mark.parametrize(
    ("name", "prefix"), [("mps2-an386", "hil_dsp_"), ("mps3-an547", "hil_mve_")]
)
def test_deep_layers_are_exact(name: str, prefix: str) -> None:
    """Sums of many products, at the ends of their ranges among them; by the family's kernels."""
    board = load_board(name)
    layers = deep_layers(np.random.default_rng(92))
    found = [
        (layer, one)
        for i, layer in enumerate(layers)
        for one in checks_of(layer, board.cpu, f"(layer {i} of seed 92)")
        if one.kernel.startswith(prefix)
    ]
    check([one for _, one in found], board)
    assert len({id(layer) for layer, _ in found}) == len(layers)


def test_outputs_of_lines_of_windows() -> None:
    """Near each other and far, of some lines at a time, of which the last windows are few."""
    board = load_board("mps3-an547")
    kernels_of_lines = ("hil_mve_conv2d_s8_rows", "hil_mve_conv2d_s8_windows")
    found = [
        one
        for i, layer in enumerate(line_layers(np.random.default_rng(96), 160))
        for one in checks_of(layer, board.cpu, f"(layer {i} of seed 96)")
        if one.kernel in kernels_of_lines
    ]
    assert len(found) > 160
    check(found, board)


def test_blocks_of_phases_of_uneven_rows() -> None:
    """Where the last block of rows has rows of some phases only, or one row."""
    board, rng = load_board("mps3-an547"), np.random.default_rng(95)
    layers = []
    for h, w, c in ((7, 11, 128), (5, 7, 256), (4, 4, 512), (13, 13, 32), (25, 25, 16), (7, 7, 64)):
        attrs = {"stride_h": 2, "stride_w": 2, "padding": "SAME"}
        out = (1, 2 * h - 1, 2 * w - 1, 8)
        draft = transpose_conv_draft(rng, "int8", (1, h, w, c), (3, 3), out, attrs)
        layers.append(finish(rng, "TRANSPOSE_CONV", draft))
    found = [
        one
        for layer in layers
        for one in checks_of(layer, board.cpu, "of seed 95")
        if one.kernel == "hil_mve_transpose_conv2d_s8_rows"
    ]
    calls = [one.case.call.parameters for one in found]
    ours = [p for p in calls if isinstance(p, HilMveTransposeConv2dS8Rows)]
    assert sum((p.down - 1) % p.lines == 0 for p in ours) > 5
    check(found, board)


def test_phases_that_share_their_pixels() -> None:
    """Filters and strides whose phases have the same taps, or one more along an axis or both; rows
    whose first or last place is by itself.
    """
    board, rng = load_board("mps2-an386"), np.random.default_rng(97)
    layers = []
    for (h, w, c), filters, strides in (
        ((4, 6, 8), (2, 2), (2, 2)),
        ((5, 4, 16), (3, 3), (2, 2)),
        ((3, 5, 4), (4, 4), (2, 2)),
        ((4, 5, 8), (5, 5), (2, 2)),
        ((3, 4, 12), (4, 3), (3, 1)),
        ((4, 4, 7), (3, 3), (2, 2)),
        ((2, 3, 3), (3, 5), (1, 3)),
        ((1, 1, 4), (1, 2), (1, 2)),
    ):
        for pads in ((0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 1, 1)):
            before = np.reshape(pads, (2, 2)).sum(axis=1) if min(filters) > 1 else (0, 0)
            sizes = [
                (size - 1) * stride + taps - int(cut)
                for size, stride, taps, cut in zip((h, w), strides, filters, before, strict=True)
            ]
            attrs = {"stride_h": strides[0], "stride_w": strides[1], "padding": pads}
            if min(filters) == 1:
                attrs["padding"] = "VALID"
            out = (1, *sizes, int(rng.integers(1, 9)))
            draft = transpose_conv_draft(rng, "int8", (1, h, w, c), filters, out, attrs)
            layers.append(finish(rng, "TRANSPOSE_CONV", draft))
    found = [
        one
        for i, layer in enumerate(layers)
        for specialise in (False, True)
        for one in checks_of(layer, board.cpu, "of seed 97", specialise=specialise)
        if one.kernel == "hil_dsp_transpose_conv2d_s8_column_pairs" and (i % 2 or not specialise)
    ]
    assert len(found) > 25
    check(found, board)


@pytest.mark.parametrize(
    ("name", "specialise"),
    sampled(
        [
            (name, specialise)
            for name in ("mps2-an386", "mps3-an547", LARGE_M0)
            for specialise in (True, False)
        ],
        keep=[("mps2-an386", True), ("mps3-an547", False), (LARGE_M0, True)],
    ),
)
def test_several_filters_of_a_channel(name: str, specialise: bool) -> None:
    """Of int8 and int16; outputs over inputs."""
    board, rng = load_board(name), np.random.default_rng(98)
    layers = []
    for shapes in MULTIPLIED:
        layer = make_layer(rng, shapes[0], "int8", *shapes[1:])
        layers += [tamed(layer), rectified(tamed(layer)), wide_layer(rng, shapes)]
    found = [
        (layer, one)
        for i, layer in enumerate(layers)
        for one in checks_of(layer, board.cpu, f"(layer {i} of seed 98)", specialise=specialise)
        if BOARDS[name] in kernels()[one.kernel].requires
    ]
    over = [other for layer, one in found for other in overlapping_checks(one, layer)]
    check_in_halves([one for _, one in found] + ([] if specialise else over), board)
    served = {id(layer) for layer, _ in found}
    # Some requantizations are not exact, the kernels of Armv7E-M have filters of 3x3 only, those of
    # Armv6-M no int16.
    assert len(served) > len(layers) * (1 if name == LARGE_M0 else 2) // 3


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (
            "mps2-an386",
            {
                f"dsp_depthwise_conv2d_{kind}"
                for form in ("pairs", "channels")
                for kind in (f"s8_{form}", f"s8_{form}_rounded", f"s16_{form}")
            },
        ),
        (
            "mps3-an547",
            {"mve_depthwise_conv2d_" + n for n in ("s8_taps", "s16_taps", "s8_channels")},
        ),
    ],
)
def test_filters_that_reach_farther_than_planes(name: str, kinds: set[str]) -> None:
    """Pairs of taps and single ones, of int8 with an affine requantization and without, and of
    int16; outputs over inputs.
    """
    board, rng = load_board(name), np.random.default_rng(99)
    layers = []
    for shapes in REACHING:
        layer = tamed(make_layer(rng, shapes[0], "int8", *shapes[1:]))
        layers += [layer, rectified(layer), wide_layer(rng, shapes)]
    found = []
    for i, layer in enumerate(layers):
        for specialise in (False, True) if i % 2 else (False,):
            ones = checks_of(layer, board.cpu, f"(layer {i} of seed 99)", specialise=specialise)
            served = [one for one in ones if one.kernel.removeprefix("hil_") in kinds]
            found += served
            if i % 5 == 0:
                found += [over for one in served for over in overlapping_checks(one, layer)]
    check(found, board)
    assert {one.kernel.removeprefix("hil_") for one in found} == kinds


@cases(("name", "every"), DRAWS, first=1)
def test_kernels_compiled_for_one_layer_each(name: str, every: int) -> None:
    board = load_board(name)
    rng = np.random.default_rng([SEED + 1, *name.encode()])
    operators: list[Operator] = [
        rectified(tamed(make_layer(rng, op, "int8", x, w, attrs)))
        for op, x, w, attrs in (OF_HELIUM[::3] if BOARDS[name] == "mve" else OF_OTHERS)
    ]
    operators += [random_op(rng, op, dtype) for op, dtype in KINDS if dtype in ARITHMETIC]
    operators += uneven_layers(rng, 2)
    operators += [make(rng) for make in NARROW for _ in range(12)]
    checks = [
        one
        for i, operator in enumerate(operators)
        if i % every == 0
        for one in checks_of(operator, board.cpu, f"({i} of seed {SEED + 1})", specialise=True)
    ]
    # In three programs: the code of all has no room on the board with Helium.
    for start in range(3):
        check(checks[start::3], board, RELATIVE)


CALLS_OF_EACH_LEVEL = 2
#: Without optimization the code of all has no room on a board.
PROGRAMS = 4
#: What others compile with.
LEVELS = ("-O0", "-Og", "-O1", "-Os", "-O3", "-O1 -fno-omit-frame-pointer")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "level"),
    sampled(
        [(name, level) for name in BOARDS for level in LEVELS],
        keep=[("mps3-an547", "-O0")],
    ),
)
def test_kernels_compute_the_same_at_every_level(name: str, level: str) -> None:
    """How many registers gcc has for a block, and which, depends on the level of optimization."""
    board = load_board(name)
    rng = np.random.default_rng([SEED + 2, *name.encode()])
    flags = [*BOARD_FLAGS, *level.split()]  # of several levels gcc takes the last
    missing = dict.fromkeys(family_of(name, board), CALLS_OF_EACH_LEVEL)
    chosen: list[Check] = []
    operators: list[Operator] = [*linear_layers(rng), *other_operators(rng)]
    for i, operator in enumerate(operators):
        calls = candidates(operator.node, operator.ins, operator.outs, board.cpu)
        if not any(missing.get(call.kernel.name) for call in calls if isinstance(call, KernelCall)):
            continue
        for one in checks_of(operator, board.cpu, f"({i} of seed {SEED + 2}, {level})"):
            if missing.get(one.kernel):
                missing[one.kernel] -= 1
                chosen.append(one)
    assert not any(missing.values()), missing
    names = sorted(count(chosen))
    for part in range(PROGRAMS):
        part_of = names[part::PROGRAMS]
        check(
            [one for one in chosen if one.case.call.kernel.name in part_of], board, RELATIVE, flags
        )


# The checks themselves ---------------------------------------------------------------------------

DEEDS = (
    "behaves", "reads input", "reads output", "reads scratch", "reads weights", "writes input",
    "writes output", "writes scratch", "writes weights", "takes from scratch", "leaves out",
)  # fmt: skip
#: Of every array of a kernel that misbehaves.
BYTES = 100


def misbehaving(deed: str, at: int = 0) -> Case:
    kernel = Kernel(
        name="misbehaving",
        header="misbehaving.h",
        requires=frozenset(),
        inputs=("int8_t",),
        outputs=("int8_t",),
        scratch="bytes",
        cost=Cost({"cortex-m3": {"call": 1}}),
    )
    weights = np.arange(BYTES, dtype=np.int8)
    fields: dict[str, FieldValue] = {
        "bytes": BYTES,
        "deed": DEEDS.index(deed),
        "at": at,
        "weights": weights,
    }
    told = f"{deed} at {at}"
    return Case(loose_call(kernel, fields), [weights[::-1]], [((BYTES,), "int8")], told=told)


def what_is_noticed(case: Case, board: Board | None) -> str:
    with pytest.raises(AssertionError) as caught:
        run([misbehaving("behaves"), case], board=board)
    return str(caught.value)


@pytest.mark.parametrize("at", [-1, BYTES])
@cases("array", ["input", "output", "scratch", "weights"], first=1)
@pytest.mark.parametrize(
    "name", sampled(["mps2-an386", "mps2-an505", "riscv-virt"], keep=["mps2-an386"])
)
def test_a_byte_outside_is_noticed(name: str, array: str, at: int) -> None:
    place = {"input": "input 0", "output": "output 0"}.get(array, array)
    for deed, how in (("reads", "fault at"), ("writes", "(fault at|wrote outside:)")):
        told = what_is_noticed(misbehaving(f"{deed} {array}", at), load_board(name))
        expected = (
            rf"misbehaving: {deed} {array} at {at}\n{how} byte {at} of {place} \({BYTES} bytes\)"
        )
        assert re.match(expected, told)


@cases(
    ("deed", "noticed"),
    [
        ("writes input", "changed byte 7 of input 0"),
        ("writes weights", "changed byte 7 of weights"),
        ("takes from scratch", "byte 0 of output 0 depends on"),
        ("leaves out", "byte 7 of output 0 depends on"),
    ],
    first=1,
)
def test_what_a_kernel_must_not_do_is_noticed(deed: str, noticed: str) -> None:
    assert noticed in what_is_noticed(misbehaving(deed, 7), load_board("mps2-an386"))
    assert noticed in what_is_noticed(misbehaving(deed, 7), None)


def test_a_wrong_result_names_layer_and_place() -> None:
    layer = usual_layer(np.random.default_rng(1))
    (first, *_) = checks_of(layer, load_board("mps2-an386").cpu, "seed 1")
    expected = first.expected[0].copy()
    expected[..., -1] ^= 1
    place = tuple(np.argwhere(expected != first.expected[0])[0].tolist())
    with pytest.raises(AssertionError) as caught:
        check([replace(first, expected=[expected])])
    told = str(caught.value)
    for part in (first.kernel, layer.node.op, str(layer.x.shape), "seed 1", f"differs at {place}"):
        assert part in told
