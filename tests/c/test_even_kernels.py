"""Operators by ties to even: their kernels against their references, those against fractions."""

from __future__ import annotations

import numpy as np
import pytest
from even_ops import KINDS, even_op, every_pair, exact_pairs, pairs_of_16_bits
from kernel_checks import check, checks_of, count
from single_op import SingleOp

from hilc.errors import HilError
from hilc.ops import OPS
from hilc.ops.attributes import ActivationAttributes
from hilc.target import get_cpu

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full


def ops(seed: int, kind: tuple[str, str], number: int) -> list[SingleOp]:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    found: list[SingleOp] = []
    while len(found) < number:
        try:
            found.append(even_op(rng, kind[0], kind[1], ties=len(found) % 3 == 2))
        except HilError:
            continue
    return found


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_kernels_are_their_references(kind):
    checks = []
    for single in ops(70, kind, 40):
        for cpu in ("cortex-m0", "cortex-m4"):
            checks += checks_of(single, get_cpu(cpu))
    assert len(checks) >= 80
    check(checks)


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "DIV"])
def test_sums_and_products_are_exact(op):
    pairs, values = every_pair()
    for single in ops(71, (op, "int8"), 40):
        if ActivationAttributes.of(single.node).activation != "NONE":
            continue
        (got,) = OPS[op].reference(single.node, single.ins, single.outs, values)
        wanted = np.clip(exact_pairs(single, pairs), -128, 127)
        assert (got != wanted).sum() == 0, single


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "DIV"])
def test_sums_and_products_of_16_bits(op):
    """A factor has 31 bits, so that one result in thousands is the neighbour of the exact one."""
    pairs, values = pairs_of_16_bits(np.random.default_rng(73))
    differing = total = 0
    for single in ops(74, (op, "int16"), 40):
        if ActivationAttributes.of(single.node).activation != "NONE":
            continue
        (got,) = OPS[op].reference(single.node, single.ins, single.outs, values)
        wanted = np.clip(exact_pairs(single, pairs), -32768, 32767)
        assert np.abs(got - wanted).max() <= 1
        differing, total = differing + int((got != wanted).sum()), total + wanted.size
    assert differing * 10000 < total


def test_affine_requantization_replaces_64_bits():
    kernels = count(
        one for single in ops(72, ("ADD", "int8"), 30) for one in checks_of(single, get_cpu("host"))
    )
    assert kernels["hil_generic_sum_s8_affine"] > kernels["hil_generic_sum_s8_even"] > 0
