"""Kernels emitted for RISC-V, by their assembly, on an emulated board."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import answers
import numpy as np
import pytest
from campaigns import cases
from kernel_checks import Operator, check, checks_of, overlapping_checks, unequal_kernels
from models import model_path
from riscv_layers import (
    deep_layers,
    emitted_checks,
    long_layers,
    long_pad,
    matrices,
    moves,
    pools,
    real_layers,
    riscv_layers,
    signed_products,
    softmaxes,
    sums,
    tables,
    transposed,
    wide_layers,
    wide_maxima,
)
from single_op import Draft, SingleOp, activation_tensor, finish, random_op, transpose_conv_draft

import hil
import hilc
from hil.board import Board, load_board
from hil.cli import main
from hil.verify.bench import layer_counts
from hilc.ir import Quant, Tensor
from hilc.lowering.kernels import registered_header
from hilc.target import get_cpu


def board_of(core: str, vector_bits: int = 0) -> Board:
    """QEMU's machine, whose core has Zbb, with the code for ``core``."""
    board = load_board("riscv-virt")
    assert board.qemu is not None
    qemu = replace(board.qemu, vector_bits=vector_bits)
    return replace(board, cpu=get_cpu(core), qemu=qemu)


#: Cores and the bits of their vector registers.
CORES = [
    ("rv32imac", 0),
    ("rv32imac_zve32x", 128),
    ("rv32imac_zbb", 0),
    ("rv32imac_zve32x", 256),
    ("rv32imac_zve32x", 1024),
]


@cases(("core", "vector_bits"), CORES, first=2)
def test_the_assembly_is_exact(core: str, vector_bits: int) -> None:
    """The output of some lies over the input as far as the order of access allows."""
    board = board_of(core, vector_bits)
    rng = np.random.default_rng(73)
    found = emitted_checks(
        [*riscv_layers(rng, 1), *sums(rng, 12), *tables(rng, 3), *pools(rng, 8)], board.cpu, 73
    )
    over = [one for layer, first in found[::3] for one in overlapping_checks(first, layer)]
    check([one for _, one in found] + over, board)
    assert len(found) > 30
    assert len(over) > 10


@cases(("core", "vector_bits"), CORES, first=2)
def test_wide_layers_are_exact(core: str, vector_bits: int) -> None:
    """Layers of int16 by the assembly."""
    board = board_of(core, vector_bits)
    found = emitted_checks(wide_layers(np.random.default_rng(76), 1), board.cpu, 76)
    over = [one for layer, first in found[::2] for one in overlapping_checks(first, layer)]
    check([one for _, one in found] + over, board)
    assert len(found) > 20
    assert len(over) > 10


@cases(("core", "vector_bits"), [CORES[0], CORES[1]], first=2)
def test_deep_layers_are_exact(core: str, vector_bits: int) -> None:
    """Sums of many products, at the ends of their ranges among them, by the assembly."""
    board = board_of(core, vector_bits)
    layers = deep_layers(np.random.default_rng(92))
    found = emitted_checks(layers, board.cpu, 92)
    check([one for _, one in found], board)
    assert len({id(layer) for layer, _ in found}) == len(layers)


@cases(("core", "vector_bits"), CORES[:4], first=2)
def test_sums_beyond_32_bits_are_exact(core: str, vector_bits: int) -> None:
    """In parts, by the assembly; each of them."""
    board = board_of(core, vector_bits)
    layers = long_layers(np.random.default_rng(100))
    found = emitted_checks(layers, board.cpu, 100)
    over = [one for layer, first in found[:3] for one in overlapping_checks(first, layer)]
    check([one for _, one in found] + over, board)
    assert len(found) == len(layers)


@cases(("core", "vector_bits"), [CORES[1], CORES[3]], first=1)
def test_signed_products_are_exact(core: str, vector_bits: int) -> None:
    """By vectors, each of them."""
    board = board_of(core, vector_bits)
    layers = signed_products(np.random.default_rng(97))
    found = emitted_checks(layers, board.cpu, 97)
    over = [one for layer, first in found for one in overlapping_checks(first, layer)]
    check([one for _, one in found] + over, board)
    assert len(found) == len(layers)


@cases(("core", "vector_bits"), [CORES[0], CORES[1], CORES[2], CORES[3]], first=2)
def test_products_of_matrices_are_exact(core: str, vector_bits: int) -> None:
    """Of any steps, with every zero point, by the assembly."""
    board = board_of(core, vector_bits)
    layers = matrices(np.random.default_rng(98), 20)
    found = emitted_checks(layers, board.cpu, 98)
    check([one for _, one in found], board)
    assert len({id(layer) for layer, _ in found}) >= len(layers) - 3


@pytest.mark.parametrize(
    ("name", "index", "macs", "most"),
    [
        ("riscv-virt", 2, 6 * 1031 * 37, 3.2),
        ("riscv-virt-v", 2, 6 * 1031 * 37, 0.4),
        ("riscv-virt-v", 3, 15 * 6 * 1800, 0.8),
    ],
)
def test_sums_beyond_32_bits_are_counted(name: str, index: int, macs: int, most: float) -> None:
    """Portable code takes 5.4 instructions a product."""
    layer = long_layers(np.random.default_rng(101))[index]
    ins = tuple(tensor for tensor in layer.ins if tensor is not None)
    graph = SingleOp(layer.node, ins, layer.outs, ()).graph()
    board = load_board(name)
    library = hilc.compile(graph, cpu=board.cpu.name, name="p", optimize="speed", pools="external")
    with hil.open(board, library) as device:
        (counted,) = layer_counts(device, library.modules[0])
    assert counted < most * macs
    assert library.reports["p"].chosen.instructions == pytest.approx(counted, rel=0.1)


@pytest.mark.parametrize(("name", "most"), [("riscv-virt", 4.0), ("riscv-virt-v", 0.4)])
def test_products_of_matrices_are_counted(name: str, most: float) -> None:
    """Heads of attention: portable code takes 8.7 instructions a product."""
    rng = np.random.default_rng(99)
    quant = Quant((0.03,), (9,))
    shapes = (1, 4, 32, 16), (1, 4, 16, 32)
    ins = [Tensor(n, shape, "int8", quant) for n, shape in zip("ab", shapes, strict=True)]
    layer = finish(rng, "BATCH_MATMUL", Draft(ins, Quant((0.16,), (-8,))))
    board = load_board(name)
    library = hilc.compile(
        layer.graph(), cpu=board.cpu.name, name="m", optimize="speed", pools="external"
    )
    with hil.open(board, library) as device:
        (counted,) = layer_counts(device, library.modules[0])
    assert counted < most * math.prod(shapes[0]) * shapes[1][-1]
    assert library.reports["m"].chosen.instructions == pytest.approx(counted, rel=0.1)


@cases("core", ["rv32imac", "rv32imac_zbb", "rv32imac_zve32x"], first=1)
def test_transposed_layers_are_exact(core: str) -> None:
    """Phase by phase, by the tiles of convolutions."""
    board = board_of(core, 128 if core.endswith("zve32x") else 0)
    found = emitted_checks(transposed(np.random.default_rng(93), 40), board.cpu, 93)
    check([one for _, one in found], board)
    assert len(found) > 30


def test_transposed_layers_beat_portable_code() -> None:
    """That takes 8 instructions a product."""
    board = load_board("riscv-virt")
    rng = np.random.default_rng(94)
    image, out = (1, 6, 6, 16), (1, 12, 12, 16)
    attrs = {"stride_h": 2, "stride_w": 2, "padding": "SAME"}
    draft = transpose_conv_draft(rng, "int8", image, (3, 3), out, attrs)
    layer = finish(rng, "TRANSPOSE_CONV", draft)
    library = hilc.compile(
        layer.graph(), cpu=board.cpu.name, name="t", optimize="speed", pools="external"
    )
    with hil.open(board, library) as device:
        (counted,) = layer_counts(device, library.modules[0])
    assert counted < 3 * math.prod(image) * 16 * 9
    estimate = library.reports["t"].chosen.instructions
    assert estimate == pytest.approx(counted, rel=0.12)


@cases(("core", "vector_bits"), [CORES[0], CORES[1], CORES[3]], first=2)
def test_moves_are_exact(core: str, vector_bits: int) -> None:
    """By words or vectors, from and to any address, also from above."""
    board = board_of(core, vector_bits)
    layers = moves(np.random.default_rng(80), 12)
    found = [(layer, one) for layer in layers for one in checks_of(layer, board.cpu, "of seed 80")]
    over = [one for layer, first in found[::2] for one in overlapping_checks(first, layer)]
    check([one for _, one in found] + over, board)
    assert len(found) >= len(layers)
    assert len(over) > 10


@cases("core", ["rv32imac", "rv32imac_zbb"], first=2)
def test_softmax_is_exact(core: str) -> None:
    """The output of some lies over the input as far as the order of access allows."""
    board = board_of(core)
    found = emitted_checks(softmaxes(np.random.default_rng(84)), board.cpu, 84)
    over = [one for layer, first in found[::3] for one in overlapping_checks(first, layer)]
    check([one for _, one in found] + over, board)
    assert len(found) > 30
    assert len(over) > 10


def test_softmax_takes_less_than_in_portable_code() -> None:
    """That takes 48 instructions an element."""
    board = load_board("riscv-virt")
    rng = np.random.default_rng(85)
    x = activation_tensor(rng, "int8", (16, 64))
    layer = finish(rng, "SOFTMAX", Draft([x], Quant((1 / 256,), (-128,)), {"beta": 1.0}))
    library = hilc.compile(layer.graph(), cpu=board.cpu.name, name="softmax", pools="external")
    with hil.open(board, library) as device:
        (counted,) = layer_counts(device, library.modules[0])
    assert counted < 32 * x.size
    estimate = library.reports["softmax"].chosen.instructions
    assert estimate == pytest.approx(counted, rel=0.12)


@cases("name", ["riscv-virt", "riscv-virt-v"], first=2)
def test_long_rows_are_moved_by_words(name: str) -> None:
    """PAD fills its output and copies its input: single bytes take nine instructions."""
    board = load_board(name)
    layer = long_pad(np.random.default_rng(81))
    library = hilc.compile(layer.graph(), cpu=board.cpu.name, name="pad", pools="external")
    with hil.open(board, library) as device:
        (counted,) = layer_counts(device, library.modules[0])
    assert counted < layer.outs[0].size * (0.2 if "zve32x" in board.cpu.features else 2)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_float_layers_are_exact() -> None:
    """To the last bit; infinite sums and those that are no number among them."""
    board = board_of("rv32imafc")
    found = emitted_checks(real_layers(np.random.default_rng(77), 1), board.cpu, 77)
    over = [one for layer, first in found[::3] for one in overlapping_checks(first, layer)]
    check([one for _, one in found] + over, board)
    assert len(found) > 20
    assert len(over) > 10


def test_float_lstms_equal_the_portable_kernel() -> None:
    """To the last bit; the functions of the board's C library need not equal the reference's."""
    board, rng = board_of("rv32imafc"), np.random.default_rng(80)
    layers = [random_op(rng, "UNIDIRECTIONAL_SEQUENCE_LSTM", "float32") for _ in range(20)]
    assert unequal_kernels(layers, board, "riscv.lstm.f32") == []
    found = emitted_checks(layers, board.cpu, 80)
    over = [one for layer, first in found for one in overlapping_checks(first, layer)]
    assert len(over) > 10
    check(over, board, relative=1e-5)


@pytest.mark.full
@cases("level", ["-O0", "-Os"], first=2)
def test_the_assembly_is_exact_at_every_level(level: str) -> None:
    board = board_of("rv32imac")
    found = emitted_checks(riscv_layers(np.random.default_rng(74), 1), board.cpu, 74)
    check(
        [one for _, one in found[::4]],
        board,
        flags=["-ffunction-sections", "-Wl,--gc-sections", level],
    )


@cases(
    ("name", "model"),
    [
        ("riscv-virt", "kws"),
        ("riscv-virt-v", "kws"),
        ("riscv-virt", "vww"),
        ("riscv-virt", "ic"),
        ("riscv-virt", "ad"),
        ("riscv-virt-v", "vww"),
    ],
    first=2,
)
def test_counted_costs_are_near_the_boards(name: str, model: str) -> None:
    board = load_board(name)
    library = hilc.compile(
        model_path(model), cpu=board.cpu.name, name=model, optimize="speed", pools="external",
        io_in_pool=True,
    )  # fmt: skip
    (module,) = library.modules
    with hil.open(board, library) as device:
        counts = layer_counts(device, module)
    estimate = library.reports[model].chosen.instructions
    assert estimate == pytest.approx(sum(counts), rel=0.06)


def test_zeros_take_less() -> None:
    board = load_board("riscv-virt")
    library = hilc.compile(
        model_path("ad"), cpu=board.cpu.name, name="ad", optimize="speed", pools="external"
    )
    (module,) = library.modules
    (tensor,) = module.inputs
    zero = tensor.zero_point
    assert zero is not None
    with hil.open(board, library) as device:
        counts = [
            layer_counts(device, module, sample={tensor.name: np.full(tensor.shape, x, np.int8)})[0]
            for x in (zero, zero + 1)
        ]
    assert counts[0] < counts[1] / 4


@cases("name", ["riscv-virt-v", "riscv-virt"], first=1)
def test_clang_compiles_emitted_kernels(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Clang 14 has no ``.option arch``: the core's flags for it select the extension."""
    command = ["verify", str(model_path("kws")), "--board", name, "--json"]
    assert main([*command, "--optimize", "speed", "--codegen", "llvm"]) == 0
    assert answers.entry(capsys.readouterr().out)["match"]


@pytest.mark.full  # The simulator is slow.
def test_xpulp_is_exact_on_its_rtl(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["verify", str(model_path("kws")), "--board", "rtl-cv32e40p-xpulp", "--json"]
    assert main([*command, "--optimize", "speed"]) == 0
    assert answers.entry(capsys.readouterr().out)["match"]


@pytest.mark.full  # The simulator is slow.
@cases("channels", [71, 32, 2100], first=1)
def test_xpulp_maxima_are_exact_on_its_rtl(
    channels: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layers = wide_maxima(np.random.default_rng(82))
    (layer,) = (layer for layer in layers if layer.outs[0].shape[-1] == channels)
    cpu = get_cpu("rv32imc_xpulp")
    assert any(one.kernel.startswith("hil_xpulp") for one in checks_of(layer, cpu, ""))
    model = tmp_path / "maxima.tflite"
    model.write_bytes(layer.tflite())
    command = ["verify", str(model), "--board", "rtl-cv32e40p-xpulp", "--json"]
    assert main([*command, "--optimize", "speed"]) == 0
    assert answers.entry(capsys.readouterr().out)["match"]


def test_four_maxima_at_once_are_chosen() -> None:
    """They take less than half of the portable kernel's instructions."""
    layer = wide_maxima(np.random.default_rng(82))[0]
    estimates = [
        hilc.compile(layer.graph(), cpu=cpu, name="maxima", optimize="speed", pools="external")
        .reports["maxima"]
        .chosen.instructions
        for cpu in ("rv32imc_xpulp", "rv32imc")
    ]
    assert estimates[0] < estimates[1] / 2


@cases(
    "core",
    ["rv32imac", "rv32imac_zve32x", "rv32imc_xpulp", "rv32imac_zbb", "rv32imafc"],
    first=5,
)
def test_the_head_of_an_emitted_kernel_has_nine_parts(core: str) -> None:
    rng = np.random.default_rng(75)
    layers: list[Operator] = [random_op(rng, "UNIDIRECTIONAL_SEQUENCE_LSTM", "float32")]
    layers += [*riscv_layers(rng, 1), *wide_layers(rng, 1), *real_layers(rng, 1)]
    layers += [*pools(rng, 1), *softmaxes(rng)[:1], *transposed(rng, 3)]
    found = emitted_checks(layers, get_cpu(core), 75)
    parts = ["Tile", "Registers", "Data", "Order", "Bounds", "Output", "Scratch", "Cost", "Tests"]
    root = Path(__file__).resolve().parents[2]
    for header in {one.case.call.kernel.header for _, one in found}:
        text = registered_header(header)
        assert text is not None
        head = text[: text.index("*/")]
        assert re.findall(rf"^(?:/\*| \*) ({'|'.join(parts)}):", head, re.MULTILINE) == parts
        for path in re.findall(r"tests/\w+/test_\w+\.py", head):
            assert (root / path).is_file()
