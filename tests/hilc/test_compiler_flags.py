"""Libraries compile with whatever flags their users build with, on every core with kernels in
assembly.

Blocks in assembly take nearly all registers, and how many gcc has left depends on the core that it
schedules for, on the level of optimization, and on what else is kept in registers.
"""

from __future__ import annotations

import re
from pathlib import Path

import generated_c
import numpy as np
import pytest
from campaigns import sampled
from kernel_layers import tamed
from linear_layers import as_single, make_layer
from models import model_path
from single_op import merged

import hilc
from hilc.artifact.library import ModelLibrary
from hilc.lowering import candidates
from hilc.lowering.choice import KernelSelection
from hilc.target import get_cpu

CPU = "cortex-m4"
NO_RELU = {"activation": "NONE"}
#: Of the family, for a single row.
KERNELS = 4
CORES = ("cortex-m4", "cortex-m7", "cortex-m33")
#: Every level, and flags that take a register or move code, without and with a unit for floats.
FLAGS = (
    "-O0",
    "-Og",
    "-O1 -fno-omit-frame-pointer",
    "-O2",
    "-O2 -g -fno-omit-frame-pointer -mfloat-abi=hard -mfpu=fpv5-sp-d16",
    "-O3 -mfloat-abi=softfp -mfpu=fpv5-sp-d16",
    "-Os -fPIC",
)


def _compile_for_users(library: ModelLibrary, core: str, folder: Path) -> None:
    """With all flags where gcc has the fewest registers left, with some for the other cores."""
    for flags in FLAGS if core == "cortex-m7" else FLAGS[1::2]:
        compiler = ("arm-none-eabi-gcc", f"-mcpu={core}", "-mthumb")
        generated_c.compile_objects(library, compiler, folder, flags.split())


@pytest.mark.parametrize(
    ("model", "core"),
    sampled(
        [(model, core) for model in ("ad", "kws") for core in CORES],
        keep=[("kws", "cortex-m4")],
    ),
)
def test_models_compile_with_flags_of_users(model: str, core: str, tmp_path: Path) -> None:
    library = hilc.compile(model_path(model), cpu=CPU, name=model, optimize="speed")
    _compile_for_users(library, core, tmp_path)


#: Cores with families of their own.
OTHERS = {
    "cortex-m0": ("-O0", "-Og", "-Os", "-O3", "-O3 -fno-omit-frame-pointer"),
    "cortex-m3": ("-O0", "-Og", "-Os", "-O3", "-O1 -fno-omit-frame-pointer"),
    "cortex-m55": ("-O0", "-Og", "-Os", "-O3", "-O1 -fno-omit-frame-pointer"),
}


@pytest.mark.parametrize(
    ("model", "core", "optimize"),
    sampled(
        [
            (model, core, optimize)
            for model in ("kws", "ic", "vww")
            for core in OTHERS
            for optimize in ("speed", "balanced")
        ],
        keep=[("kws", "cortex-m0", "speed")],
    ),
)
def test_other_families_compile_with_users_flags(
    model: str, core: str, optimize: str, tmp_path: Path
) -> None:
    library = hilc.compile(model_path(model), cpu=core, name=model, optimize=optimize)
    for flags in OTHERS[core]:
        compiler = generated_c.COMPILERS[core]
        generated_c.compile_objects(library, compiler, tmp_path, flags.split())


@pytest.mark.full
@pytest.mark.parametrize("core", sampled(CORES, keep=CORES[:1]))
def test_single_row_kernels_compile_with_users_flags(core: str, tmp_path: Path) -> None:
    """Of so few columns that gcc unrolls what is around their loops."""
    rng = np.random.default_rng(61)
    layers = [
        tamed(make_layer(rng, "FULLY_CONNECTED", "int8", (1, depth), (columns, depth), NO_RELU))
        for depth, columns in ((3, 2), (5, 8), (8, 4), (16, 12), (34, 8))
        for _ in range(KERNELS)
    ]
    graph, _ = merged([as_single(layer) for layer in layers])
    chosen = {}
    for turn, node in enumerate(graph.nodes):
        calls = candidates(node, graph.ins(node), graph.outs(node), get_cpu(CPU))
        chosen[node.name] = calls[min(turn % KERNELS, len(calls) - 1)].variant
    library = hilc.compile(
        graph, cpu=CPU, name="rows", choice=KernelSelection(chosen), optimize="speed"
    )
    _compile_for_users(library, core, tmp_path)


#: Compilers for cores that multiply and add floats in one instruction, with flags of projects that
#: would change results. (Fast math turns a comparison round on the Cortex-M4.)
FUSING = {
    "cortex-m4": (
        generated_c.COMPILERS["cortex-m4"],
        ("-std=gnu17", "-ffp-contract=fast", "-freciprocal-math -fassociative-math"),
    ),
    "gcc": (("gcc", "-mfma"), ("-std=gnu17", "-ffp-contract=fast", "-ffast-math")),
    "clang": (("clang", "-mfma"), ("-std=gnu17", "-std=c11")),
}


@pytest.mark.parametrize("name", FUSING)
def test_no_flag_changes_floats(name: str, tmp_path: Path) -> None:
    """The code of all floats is that of strict C, which rounds each product and each sum."""
    library = hilc.compile(
        model_path("kws_float"), cpu="cortex-m4" if name == "cortex-m4" else "host", name="kws"
    )
    library.save(tmp_path)
    source = next(path for path in generated_c.sources(library) if path.endswith("_lib1.c"))
    compiler, harmful = FUSING[name]
    command = (*compiler, "-O2", "-Icodegen/host/include", "-S", "-g0")

    def code(*flags: str) -> str:
        generated_c.run([*command, *flags, source, "-o", "code.s"], tmp_path)
        return re.sub(r"\t\.eabi_attribute.*\n", "", (tmp_path / "code.s").read_text())

    strict = code("-std=c11", "-ffp-contract=off")
    assert "vfma" not in strict
    for flags in harmful:
        assert code(*flags.split()) == strict, flags


@pytest.mark.parametrize(
    ("core", "level"),
    sampled(
        [(core, level) for core in ("cortex-m0", "cortex-m4") for level in ("-O2", "-Os", "-O3")],
        keep=[("cortex-m0", "-Os"), ("cortex-m4", "-O2")],
    ),
)
def test_no_flag_is_needed(core: str, level: str, tmp_path: Path) -> None:
    """Of the flag without which gcc 12 leaves out calls, and of a frame pointer on Armv6-M."""
    library = hilc.compile(model_path("kws"), cpu=core, name="kws")
    library.save(tmp_path)
    source = next(path for path in generated_c.sources(library) if path.endswith("_lib1.c"))
    codes = set()
    for flag in ("-fno-delete-null-pointer-checks", "-g0", "-fno-omit-frame-pointer"):
        command = [*generated_c.COMPILERS[core], level, flag, "-Icodegen/host/include", "-S"]
        generated_c.run([*command, source, "-o", "code.s"], tmp_path)
        codes.add((tmp_path / "code.s").read_text())
    assert len(codes) == 1


@pytest.mark.parametrize("compiler", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_big_endian_cores_are_refused(compiler: str, tmp_path: Path) -> None:
    library = hilc.compile(model_path("kws"), cpu=compiler, name="kws")
    with pytest.raises(AssertionError, match="the kernels are for little-endian cores"):
        generated_c.compile_objects(
            library, generated_c.COMPILERS[compiler], tmp_path, ("-Os", "-mbig-endian")
        )
