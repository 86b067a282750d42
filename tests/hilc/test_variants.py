"""The names of kernel variants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pkgutil import iter_modules

import pytest
from random_graphs import GraphBuilder

from hilc import lowering
from hilc.lowering import candidates, registry
from hilc.lowering.kernels import KernelCall, kernels
from hilc.lowering.registry import Layer
from hilc.target import get_cpu

#: Cores of each family of kernels.
CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imac", "host")


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


def test_folders_of_families_have_one_name_in_python_and_c() -> None:
    families = {kernel.header.split("/")[2] for kernel in kernels().values()}
    assert families == {"generic", "compact", "v6m", "v7m", "dsp", "fpu", "mve"}
    packages = {module.name for module in iter_modules(lowering.__path__) if module.ispkg}
    assert packages == families


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
