"""Every form of generated C under the address and undefined-behaviour sanitizers.

Each test is one program: many models, each in another form, called as a C firmware calls them. All
buffers have exactly the promised size, tensors are aligned as their elements are and no better, and
what lies around them is poisoned. Workspaces are blocks of their own, counted against the promised
total. The outputs must equal the interpreter's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import generated_c
import models
import numpy as np
import pytest
from campaigns import sampled
from random_graphs import random_graph
from row_chains import random_chains

import hilc
from hilc import interpreter
from hilc.artifact.library import ModelLibrary, TensorInfo
from hilc.codegen.cwriter import c_array
from hilc.compat.tvm.crt import crt_files, crt_sources
from hilc.compat.tvm.system_lib import system_lib_source
from hilc.frontends import load_model
from hilc.fusion.bands import NotFusible
from hilc.fusion.fused import GroupCalls
from hilc.ir import Array, Graph
from hilc.lowering.choice import Group, KernelSelection
from hilc.memory.plan import PoolSpec
from hilc.target import get_cpu

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

#: api and interface of each calling convention.
CONVENTIONS = {
    "c": ("unpacked", "c"),
    "packed main": ("unpacked", "packed"),
    "packed operators": ("packed", "packed"),
}

_FLAGS = (
    "-std=gnu11", "-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    "-Icodegen/host/include", "-Iruntime/include", "-I.", "-DSAMPLES=2",
)  # fmt: skip
_SAMPLES = 2
_DRIVER = Path(__file__).resolve().parents[1] / "c/variants/driver.c"

_DL_CODES = {"i": "kDLInt", "u": "kDLUInt", "f": "kDLFloat"}


@dataclass(frozen=True)
class _Variant:
    """A model in one form, with inputs and the answers to them."""

    library: ModelLibrary
    label: str
    inputs: Sequence[Mapping[str, Array]]
    outputs: Sequence[Mapping[str, Array]]


def _variant(graph: Graph, label: str, samples: Sequence[Any], **options: Any) -> _Variant:
    outputs = [interpreter.run(graph, sample) for sample in samples]
    return _Variant(hilc.compile(graph, **options), label, samples, outputs)


def _combinations(convention: str) -> Iterator[dict[str, Any]]:
    """The options of every form that has the calling convention."""
    api, interface = CONVENTIONS[convention]
    for pools, constants, optimize, io_in_pool in itertools.product(
        ("internal", "external", "calls"),
        ("internal", "external"),
        ("balanced", "size"),
        (False, True),
    ):
        if not io_in_pool or (interface == "c" and pools != "calls"):
            yield {
                "api": api,
                "interface": interface,
                "pools": pools,
                "constants": constants,
                "optimize": optimize,
                "io_in_pool": io_in_pool,
            }
    # Two pools, the first too small for most tensors.
    memory = (PoolSpec("fast", limit_bytes=48), PoolSpec("slow"))
    for pools in ("internal", "external"):
        yield {"api": api, "interface": interface, "pools": pools, "memory": memory}


def _small_graphs() -> Iterator[Graph]:
    """Random graphs of few layers; each third has convolutions, which take long to compile."""
    found: dict[bool, list[Graph]] = {True: [], False: []}
    for seed in itertools.count(4000):
        graph = random_graph(seed, ordinary_outputs=True)
        if len(graph.nodes) <= 8:
            found[any(node.op == "CONV_2D" for node in graph.nodes)].append(graph)
        if found[True] and len(found[False]) >= 2:
            yield from (found[True].pop(0), found[False].pop(0), found[False].pop(0))


def _random_variants(convention: str) -> Iterator[_Variant]:
    for index, (options, graph) in enumerate(
        zip(_combinations(convention), _small_graphs(), strict=False)
    ):
        graph = graph.with_(name=f"v{index}")
        rng = np.random.default_rng(index)
        samples = [
            {
                name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
                for name in graph.inputs
            }
            for _ in range(_SAMPLES)
        ]
        label = ", ".join(f"{key}={value}" for key, value in options.items())
        yield _variant(graph, f"random graph, {label}", samples, **options)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("every", sampled([3, 1], keep=[3]), ids="each {}. form".format)
def test_random_graphs(convention: str, every: int, tmp_path: Path) -> None:
    # The last ones have several pools.
    variants = list(_random_variants(convention))[::-every]
    assert len(variants) == -(-(22 if convention == "c" else 14) // every)
    assert any(len(variant.library.modules[0].workspace_pools) > 1 for variant in variants)
    _require_clean(variants, tmp_path)


@pytest.mark.parametrize("count", sampled([2, 5], keep=[2]))
def test_groups_of_layers(count: int, tmp_path: Path) -> None:
    """Layers that run together a few rows at a time, in forms that differ in what they pass."""
    variants = []
    for index, (convention, pools, constants) in enumerate(
        zip(
            CONVENTIONS,
            ("calls", "internal", "external"),
            ("internal", "external", "external"),
            strict=True,
        )
    ):
        chains = random_chains(20 + index, count, largest=8)
        streams = GroupCalls(chains.graph, get_cpu("host"))
        groups = tuple(group for group in chains.choice.groups if _streams(streams, group))
        assert groups
        api, interface = CONVENTIONS[convention]
        variants.append(
            _variant(
                chains.graph.with_(name=f"rows{index}"),
                f"groups, {convention}, pools={pools}, constants={constants}",
                [chains.inputs] * _SAMPLES,
                api=api,
                interface=interface,
                pools=pools,
                constants=constants,
                choice=KernelSelection(groups=groups),
                fold_constant_channels=False,
            )
        )
    _require_clean(variants, tmp_path)


def _streams(streams: GroupCalls, group: Group) -> bool:
    try:
        streams.call(group)
    except NotFusible:
        return False
    return True


def test_a_benchmark_model_in_every_convention(tmp_path: Path) -> None:
    graph = load_model(models.model_path("kws"))
    samples = [{graph.inputs[0]: x} for x in models.samples("kws", _SAMPLES)]
    forms = (
        ("c", "external", "internal"),
        ("packed main", "calls", "external"),
        ("packed operators", "calls", "internal"),
        ("packed operators", "external", "external"),
    )
    variants = []
    for index, (convention, pools, constants) in enumerate(forms):
        api, interface = CONVENTIONS[convention]
        variants.append(
            _variant(
                graph.with_(name=f"kws{index}"),
                f"kws, {convention}, pools={pools}, constants={constants}",
                samples,
                api=api,
                interface=interface,
                pools=pools,
                constants=constants,
                optimize="size",
            )
        )
    _require_clean(variants, tmp_path)


def test_the_program_sees_what_it_is_for(tmp_path: Path) -> None:
    """A pool that is too small, a wrong answer."""
    variants = list(_random_variants("c"))
    external = (v for v in variants if v.library.modules[0].pools == "external")
    good = next(v for v in external if v.library.modules[0].workspace_bytes)
    # Pools are rounded up to 16 bytes, so that this takes one at least that is used.
    module = good.library.modules[0]
    pools = tuple(replace(pool, nbytes=pool.nbytes - 16) for pool in module.workspace_pools)
    short = replace(module, workspace_pools=pools)
    too_small = replace(good, library=ModelLibrary((short,), good.library.files))
    first, *others = variants[0].outputs
    other = {name: np.bitwise_xor(value, 1) for name, value in first.items()}
    wrong = replace(variants[0], outputs=(other, *others))
    with pytest.raises(AssertionError) as caught:
        _require_clean([wrong, too_small], tmp_path)
    assert f"{wrong.label}: computed another output than the interpreter" in str(caught.value)
    assert "AddressSanitizer: use-after-poison" in str(caught.value)


# The program ------------------------------------------------------------------------------------


def _require_clean(variants: Sequence[_Variant], folder: Path) -> None:
    """Build and run the program of ``variants``; each must have run, and nothing complained."""
    files: dict[str, bytes] = {f"runtime/{name}": data for name, data in crt_files().items()}
    for variant in variants:
        files.update(variant.library.files)
    modules = [variant.library.modules[0] for variant in variants]
    functions = [name for module in modules for name in module.functions]
    files["variants.c"] = _table(variants).encode()
    files["driver.c"] = _DRIVER.read_bytes()
    files["registry.c"] = system_lib_source(functions, weak=False).encode()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    sources = [f"runtime/{name}" for name in crt_sources()]
    sources += ["driver.c", "registry.c"]
    sources += [name for variant in variants for name in generated_c.sources(variant.library)]
    command = ["gcc", *_FLAGS, *sources, "-lm", "-o", "program"]
    generated_c.run(command, folder)
    ran = generated_c.run(["./program"], folder).splitlines()
    assert ran == [variant.label for variant in variants]


def _table(variants: Sequence[_Variant]) -> str:
    symbols = [variant.library.modules[0].symbol for variant in variants]
    return "\n".join(
        [
            *(f'#include "{symbol}.h"' for symbol in symbols),
            *map(_definitions, variants),
            "static const struct variant variants[] = {",
            *map(_entry, variants),
            "};",
        ]
    )


def _definitions(variant: _Variant) -> str:
    """What the table points to: sizes, data, and the function that calls the model."""
    module = variant.library.modules[0]
    parts = []
    for what, infos in (("input", module.inputs), ("output", module.outputs)):
        parts.append(_sizes(f"{module.name}_{what}_bytes", [info.nbytes for info in infos]))
        # Aligned as an element is, and not better.
        skews = [np.dtype(info.dtype).itemsize for info in infos]
        parts.append(_sizes(f"{module.name}_{what}_skew", skews))
    pools = module.workspace_pools if module.pools == "external" else ()
    parts.append(_sizes(f"{module.name}_pool_bytes", [pool.nbytes for pool in pools]))
    for what, infos, samples in (
        ("given", module.inputs, variant.inputs),
        ("expected", module.outputs, variant.outputs),
    ):
        for index, arrays in enumerate(samples):
            data = b"".join(_value(arrays, info).tobytes() for info in infos)
            array = np.frombuffer(data, np.uint8)
            parts.append(c_array(f"{module.name}_{what}_{index}", array, "static const"))
    if module.constants == "external":
        stem = f"{module.symbol}_{module.constants_pool}_CONSTANT_POOL".upper()
        parts.append(
            "static const __attribute__((aligned(16))) uint8_t "
            f"{module.name}_constants[{stem}_SIZE] = {stem}_DATA;"
        )
    call = _call_structs if module.interface == "c" else _call_packed
    body = "".join(f"    {line}\n" for line in call(variant))
    head = f"static int32_t call_{module.name}(void **inputs, void **outputs, void **pools)"
    return "\n".join(
        [*parts, f"{head} {{\n    (void)inputs, (void)outputs, (void)pools;\n{body}}}"]
    )


def _value(arrays: Mapping[str, Array], info: TensorInfo) -> Array:
    value = arrays[info.name]
    assert (value.shape, value.dtype.name) == (info.shape, info.dtype)
    return value


def _sizes(name: str, values: Sequence[int]) -> str:
    return f"static const size_t {name}[] = {{{', '.join(map(str, values)) or '0'}}};"


def _call_structs(variant: _Variant) -> Iterator[str]:
    module = variant.library.modules[0]
    fields = [f"{module.name}_constants"] if module.constants == "external" else []
    fields = [f"(void *)(uintptr_t){field}" for field in fields]
    if module.pools == "external":
        fields += [f"pools[{index}]" for index in range(len(module.workspace_pools))]
    pools = []
    if fields:
        pools = ["&workspace"]
        yield f"struct {module.symbol}_workspace_pools workspace = {{{', '.join(fields)}}};"
    if not module.io_in_pool:
        for what, infos in (("inputs", module.inputs), ("outputs", module.outputs)):
            values = ", ".join(f"{what}[{index}]" for index in range(len(infos)))
            yield f"struct {module.symbol}_{what} {what}_ = {{{values}}};"
        yield f"return {module.symbol}_run({', '.join(['&inputs_', '&outputs_', *pools])});"
        return
    for what in ("inputs", "outputs"):
        arguments = ", ".join(pools) if module.pools == "external" else ""
        yield f"struct {module.symbol}_{what} {what}_ = {module.symbol}_map_{what}({arguments});"
    for index, info in enumerate(module.inputs):
        yield f"memcpy(inputs_.{info.c_name}, inputs[{index}], {info.nbytes});"
    yield f"int32_t status = {module.symbol}_run({', '.join(pools)});"
    for index, info in enumerate(module.outputs):
        yield f"memcpy(outputs[{index}], outputs_.{info.c_name}, {info.nbytes});"
    yield "return status;"


def _call_packed(variant: _Variant) -> Iterator[str]:
    module = variant.library.modules[0]
    tensors = []
    for what, infos in (("inputs", module.inputs), ("outputs", module.outputs)):
        for index, info in enumerate(infos):
            tensors.append((f"{what}[{index}]", info.shape, info.dtype))
    if module.constants == "external":
        constants = f"(void *)(uintptr_t){module.name}_constants"
        tensors.append((constants, (module.constants_bytes,), "uint8"))
    if module.pools == "external":
        for index, pool in enumerate(module.workspace_pools):
            tensors.append((f"pools[{index}]", (pool.nbytes,), "uint8"))
    described = []
    for index, (data, shape, dtype) in enumerate(tensors):
        yield f"int64_t shape_{index}[] = {{{', '.join(map(str, shape)) or '0'}}};"
        code, bits = _DL_CODES[np.dtype(dtype).kind], np.dtype(dtype).itemsize * 8
        described.append(f"DESCRIBED({data}, {code}, {bits}, {len(shape)}, shape_{index})")
    yield f"DLTensor tensors[] = {{{', '.join(described)}}};"
    yield f'return call_packed("{module.symbol}_run", tensors, {len(tensors)});'


def _entry(variant: _Variant) -> str:
    module = variant.library.modules[0]
    name = module.name
    pool_count = len(module.workspace_pools) if module.pools == "external" else 0
    fields = {
        "name": f'"{variant.label}"',
        "input_count": len(module.inputs),
        "output_count": len(module.outputs),
        "pool_count": pool_count,
        "workspace_bytes": module.workspace_bytes if module.pools == "calls" else 0,
        "call": f"call_{name}",
    }
    for field in ("input_bytes", "input_skew", "output_bytes", "output_skew", "pool_bytes"):
        fields[field] = f"{name}_{field}"
    for what in ("given", "expected"):
        arrays = ", ".join(f"{name}_{what}_{index}" for index in range(_SAMPLES))
        fields[what] = f"{{{arrays}}}"
    return "    {" + ", ".join(f".{key} = {value}" for key, value in fields.items()) + "},"
