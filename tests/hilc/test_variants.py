"""The names of kernel variants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
from linear_layers import as_single, make_layer, random_layer
from random_graphs import GraphBuilder
from single_op import KINDS, ONNX_KINDS, merged, random_op

from hilc import lowering
from hilc.fusion.bands import RowNodes
from hilc.fusion.stages import differ_in_numbers
from hilc.ir import Array
from hilc.lowering import candidates, channels, linear, registry
from hilc.lowering.channels import sum_ends
from hilc.lowering.kernels import KernelCall, kernels
from hilc.lowering.linear import LINEAR
from hilc.lowering.parameters import HilGenericLutS8, HilGenericMatmulS8
from hilc.lowering.registry import Layer, LoweredLayer
from hilc.lowering.v7m import conv2d as v7m_conv2d
from hilc.lowering.v7m import packed as v7m_packed
from hilc.target import get_cpu

Shape = tuple[int, ...]

#: Cores of each family of kernels.
CORES = (
    "cortex-m0",
    "cortex-m3",
    "cortex-m4",
    "cortex-m55",
    "rv32imac",
    "rv32imac_zve32x",
    "rv32imc_xpulp",
    "host",
)


def convolution() -> tuple[object, ...]:
    """Return node, inputs and outputs of a convolution of 3x3."""
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.input(1, 8, 8, 16), 16))
    (node,) = graph.nodes
    return node, graph.ins(node), graph.outs(node)


def test_each_kernel_has_a_name_of_its_own() -> None:
    names = [kernel.variant for kernel in kernels().values()]
    assert len(set(names)) == len(names)
    assert {"dsp.conv2d.s8.column_pairs", "compact.matmul.s8", "generic.quantize.f32_s8"} <= set(
        names
    )


def test_folders_of_families_match_in_python_and_c() -> None:
    families = {kernel.header.split("/")[2] for kernel in kernels().values()}
    assert families == {"generic", "compact", "v6m", "v7m", "dsp", "fpu", "mve"}
    packages = {module.name for module in iter_modules(lowering.__path__) if module.ispkg}
    # Those of RISC-V are emitted: none is in a file.
    assert packages == families | {"riscv", "rvv", "xpulp"}


def test_names_of_kernels_begin_with_their_family() -> None:
    for name, kernel in kernels().items():
        assert name.startswith(f"hil_{kernel.header.split('/')[2]}_")


@pytest.mark.parametrize("core", CORES)
def test_the_family_is_the_folder_of_the_kernel(core: str) -> None:
    node, ins, outs = convolution()
    for call in candidates(node, ins, outs, get_cpu(core)):  # type: ignore[arg-type]
        assert isinstance(call, KernelCall)
        family = call.variant.split(".")[0]
        assert call.kernel.header.split("/")[2] == family
        assert call.variant.startswith(call.kernel.variant)


@pytest.mark.parametrize("core", CORES)
def test_the_variants_of_a_layer_have_different_names(core: str) -> None:
    """Those of one kernel too, of which a layer has several."""
    node, ins, outs = convolution()
    calls = candidates(node, ins, outs, get_cpu(core))  # type: ignore[arg-type]
    names = [call.variant for call in calls]
    assert len(set(names)) == len(names) > 1


def test_a_builder_that_gives_a_name_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    node, ins, outs = convolution()
    (entry,) = (
        entry
        for entry in registry._ENTRIES["CONV_2D"]
        if entry.build.__module__ == "hilc.lowering.compact.conv2d"
    )

    def twice(layer: Layer) -> Iterator[KernelCall]:
        for _ in range(2):
            yield from entry.build(layer)  # type: ignore[misc]

    monkeypatch.setitem(registry._ENTRIES, "CONV_2D", [replace(entry, build=twice)])
    with pytest.raises(ValueError, match=r"several kernel variants with the name compact\.conv2d"):
        candidates(node, ins, outs, get_cpu("host"))  # type: ignore[arg-type]


# What is packed ---------------------------------------------------------------------------------

#: Operator, shapes of input and weights: windows of 3x3 and of one pixel, and one filter a channel.
LINEAR_LAYERS = (
    ("CONV_2D", (1, 12, 9, 32), (24, 3, 3, 32)),
    ("CONV_2D", (1, 12, 9, 64), (24, 1, 1, 64)),
    ("CONV_2D", (1, 12, 10, 3), (32, 3, 3, 3)),
    ("DEPTHWISE_CONV_2D", (1, 12, 9, 96), (1, 3, 3, 96)),
)
#: Bytes of arrays that may differ between bands.
TABLE_BYTES = 512


def lowered_layer(op: str, dtype: str, x: Shape, weights: Shape, core: str) -> tuple[Any, Any]:
    """Return the lowered layer, and a function that lowers a band of its rows."""
    attrs = {
        **dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1),
        "padding": "SAME",
        "activation": "NONE",
        **({"depth_multiplier": 1} if op.startswith("DEPTHWISE") else {}),
    }
    layer = make_layer(np.random.default_rng(5), op, dtype, x, weights, attrs)
    graph, _ = merged([as_single(layer)])
    (node,) = graph.nodes
    row_node = RowNodes().of(graph, node, accumulates=False)
    lowered = LoweredLayer(Layer(node, row_node.ins, (row_node.out,), get_cpu(core)))

    def band(first: int, count: int) -> Mapping[str, KernelCall]:
        reduced = row_node.reduced(row_node.band(first, count))
        return lowered.rows(reduced.node, reduced.ins, reduced.outs)

    return lowered, band


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
@pytest.mark.parametrize(("op", "x", "weights"), LINEAR_LAYERS)
def test_bands_of_a_layer_share_what_it_packs(
    op: str, dtype: str, x: Shape, weights: Shape, core: str
) -> None:
    """The arrays are the same objects: none are compared."""
    _, band = lowered_layer(op, dtype, x, weights, core)
    bands = [band(0, 4), band(4, 4), band(10, 2)]
    shared = 0
    for name in set.intersection(*(set(calls) for calls in bands)):
        first, *others = (calls[name].arrays for calls in bands)
        for field, array in first.items():
            if array.nbytes > TABLE_BYTES:
                assert all(other[field] is array for other in others), (name, field)
                shared += 1
    assert shared > 0


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("op", "x", "weights"), LINEAR_LAYERS)
def test_sums_of_a_layer_are_bounded_once(
    op: str, x: Shape, weights: Shape, core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded: list[object] = []

    def counted(*args: Any, **options: Any) -> Any:
        bounded.append(args)
        return sum_ends(*args, **options)

    for module in (v7m_conv2d, v7m_packed, channels, linear):
        monkeypatch.setattr(module, "sum_ends", counted)
    _, band = lowered_layer(op, "int8", x, weights, core)
    once = len(bounded)
    assert once > 0
    for first in range(0, 12, 2):
        band(first, 2)
    # Of the layer only some variants are for bands, which pack on their first band.
    again = len(bounded)
    for first in range(0, 12, 4):
        band(first, 4)
    assert len(bounded) == again <= 2 * once


def test_a_variant_for_bands_has_no_other_large_arrays() -> None:
    small, large = (np.arange(size, dtype=np.int8) for size in (TABLE_BYTES, TABLE_BYTES + 1))
    assert differ_in_numbers([lut(small), lut(small + 1)])
    assert differ_in_numbers([lut(large), lut(large.copy())])
    assert not differ_in_numbers([lut(large), lut(large + 1)])


def lut(table: Array) -> KernelCall:
    """Return a call with a table of its own."""
    return KernelCall(HilGenericLutS8(size=4, table=table))


# Of all operators -------------------------------------------------------------------------------


@pytest.mark.parametrize("core", CORES)
def test_no_layer_of_any_operator_has_a_name_twice(core: str) -> None:
    """:func:`candidates` raises ValueError otherwise."""
    cpu, rng = get_cpu(core), np.random.default_rng(7)
    singles = [random_op(rng, op, dtype) for op, dtype in (*KINDS, *ONNX_KINDS) for _ in range(2)]
    singles += [
        as_single(random_layer(rng, op, dtype, False))
        for op in LINEAR
        for dtype in ("int8", "int16", "float32")
        for _ in range(8)
    ]
    several = 0
    for single in singles:
        several += len(candidates(single.node, single.ins, single.outs, cpu)) > 1
    assert several > len(LINEAR)


# What forms state -------------------------------------------------------------------------------


def test_a_form_states_fields_by_name() -> None:
    lowered, _ = lowered_layer("CONV_2D", "int8", (1, 3, 1, 40), (12, 1, 1, 40), "host")
    form = linear.linear_form(lowered.layer)
    weights = form.weights.reshape(-1)
    made = form.parameters(HilGenericMatmulS8, weights=weights)
    assert (made.rows, made.depth, made.columns) == (3, 40, 12)
    assert made.weights is weights
    assert made.requantization is form.requantization
    # A value that is given is not that of the form.
    assert form.parameters(HilGenericMatmulS8, weights=weights, rows=1).rows == 1


def test_a_form_states_no_other_fields() -> None:
    lowered, _ = lowered_layer("CONV_2D", "int8", (1, 3, 1, 40), (12, 1, 1, 40), "host")
    form = linear.linear_form(lowered.layer)
    with pytest.raises(TypeError, match="HilGenericMatmulS8 lacks weights"):
        form.parameters(HilGenericMatmulS8)
    with pytest.raises(TypeError, match="HilGenericMatmulS8 has no stream"):
        form.parameters(HilGenericMatmulS8, weights=form.weights, stream=form.weights)
