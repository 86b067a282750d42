"""Kernels emitted for RISC-V, by the C form of their instructions, under sanitizers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from campaigns import cases
from kernel_checks import Check, Operator, check
from riscv_layers import (
    emitted_checks,
    long_layers,
    matrices,
    pools,
    real_layers,
    riscv_layers,
    signed_products,
    softmaxes,
    sums,
    tables,
    transposed,
    wide_layers,
)
from single_op import random_op

from hilc.target import get_cpu


def forms(layers: Sequence[Operator], core: str, seed: int, every: int) -> dict[str, int]:
    """Compare emitted kernels with the reference; how many calls each operator has."""
    by_operator: dict[str, list[Check]] = {}
    for _, one in emitted_checks(layers, get_cpu(core), seed):
        by_operator.setdefault(one.case.call.variant.split(".")[1], []).append(one)
    taken = {operator: found[::every] for operator, found in by_operator.items()}
    check([one for found in taken.values() for one in found])
    return {operator: len(found) for operator, found in taken.items()}


#: The operators that have emitted kernels.
OPERATORS = {"matmul", "conv2d", "depthwise_conv2d"}
#: Those that have some for a core alone.
ELEMENTWISE = {
    "rv32imac_zve32x": {"sum", "lut", "max_pool", "average_pool", "mean", "mul"},
    "rv32imc_xpulp": {"max_pool"},
}


@cases(
    ("core", "every"),
    [("rv32imac", 5), ("rv32imac_zve32x", 6), ("rv32imc_xpulp", 5), ("rv32imac_zbb", 7)],
    first=3,
)
def test_the_c_form_is_exact(core: str, every: int) -> None:
    """The board runs all of them but XPULP's: the instructions are the same."""
    rng = np.random.default_rng(71)
    layers: list[Operator] = [
        *riscv_layers(rng, 1),
        *sums(rng, 12),
        *tables(rng, 3),
        *pools(rng, 8),
        *softmaxes(rng),
    ]
    counts = forms(layers, core, 71, every)
    assert counts.keys() == OPERATORS | {"softmax"} | ELEMENTWISE.get(core, set())
    assert min(counts.values()) >= 1, counts


@cases("core", ["rv32imac", "rv32imac_zve32x", "rv32imc_xpulp", "rv32imac_zbb"], first=3)
def test_c_form_of_sums_beyond_32_bits(core: str) -> None:
    layers = long_layers(np.random.default_rng(100))
    assert sum(forms(layers, core, 100, 1).values()) == len(layers)


@cases("core", ["rv32imac", "rv32imac_zve32x", "rv32imc_xpulp", "rv32imac_zbb"], first=3)
def test_c_form_of_matrices(core: str) -> None:
    layers = matrices(np.random.default_rng(98), 20)
    assert forms(layers, core, 98, 1)["batch_matmul"] >= len(layers) - 3


def test_c_form_of_signed_products() -> None:
    layers = signed_products(np.random.default_rng(97))
    assert forms(layers, "rv32imac_zve32x", 97, 1) == {"mul": len(layers)}


@cases("core", ["rv32imac", "rv32imac_zbb"], first=1)
def test_c_form_of_transposed_layers(core: str) -> None:
    counts = forms(transposed(np.random.default_rng(95), 40), core, 95, 2)
    assert counts["transpose_conv2d"] > 10


@cases("core", ["rv32imac", "rv32imac_zbb"], first=1)
def test_the_c_form_of_softmax_is_exact(core: str) -> None:
    layers = softmaxes(np.random.default_rng(83))
    assert forms(layers, core, 83, 1) == {"softmax": len(layers)}


@cases(
    ("core", "every"),
    [("rv32imac", 3), ("rv32imac_zve32x", 6), ("rv32imc_xpulp", 4), ("rv32imac_zbb", 4)],
    first=3,
)
def test_the_c_form_of_wide_layers_is_exact(core: str, every: int) -> None:
    counts = forms(wide_layers(np.random.default_rng(78), 1), core, 78, every)
    assert counts.keys() == OPERATORS


def test_the_c_form_of_float_lstms_is_exact() -> None:
    rng = np.random.default_rng(80)
    layers = [random_op(rng, "UNIDIRECTIONAL_SEQUENCE_LSTM", "float32") for _ in range(12)]
    assert forms(layers, "rv32imafc", 80, 1) == {"lstm": 12}


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_the_c_form_of_float_layers_is_exact() -> None:
    counts = forms(real_layers(np.random.default_rng(79), 1), "rv32imafc", 79, 4)
    assert counts.keys() == OPERATORS


@pytest.mark.full
def test_more_random_layers() -> None:
    layers = riscv_layers(np.random.default_rng(72), 4)
    assert min(forms(layers, "rv32imac", 72, 2).values()) > 10
