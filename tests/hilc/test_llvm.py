"""Libraries as objects: what they define, that they link with gcc's, and that they compute.

clang makes them, and its installation is part of this project's; a test that needs another tool
says so.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import generated_c
import numpy as np
import pytest
from random_graphs import GraphBuilder

import hilc
import hilc.host
from hilc import interpreter
from hilc.artifact.library import ModelLibrary
from hilc.codegen import llvm
from hilc.codegen.llvm import OLDEST_CLANG, LlvmError, find_clang, to_objects
from hilc.compat.tvm.system_lib import registry_module, registry_names_blob
from hilc.ir import Graph
from hilc.target import get_cpu

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

CELLS: Mapping[str, dict[str, Any]] = {
    "packed/packed": {"api": "packed", "interface": "packed"},
    "unpacked/packed": {"api": "unpacked", "interface": "packed"},
    "unpacked/c": {"api": "unpacked", "interface": "c"},
}
POOLS = ("internal", "external", "calls")
CPUS = ("host", "cortex-m0", "cortex-m4", "cortex-m55")
#: Every cell with every kind of pool, each core at least twice.
ROWS = [
    (cell, pools, cpu)
    for (cell, pools), cpu in zip(itertools.product(CELLS, POOLS), itertools.cycle(CPUS))
]


def _graph(name: str = "net") -> Graph:
    b = GraphBuilder(5)
    x = b.input(1, 5, 5, 2)
    return b.graph(b.add(b.conv(x, 2), b.constant(1, 5, 5, 2)), name=name)


def _compile(name: str = "net", **options: Any) -> ModelLibrary:
    return hilc.compile(_graph(name), codegen="llvm", **options)


@functools.cache
def _for(cpu: str, cell: str = "packed/packed") -> ModelLibrary:
    """Made once for the tests that only look at it."""
    return _compile(cpu=cpu, **CELLS[cell])


def _objects(library: ModelLibrary, folder: Path) -> list[str]:
    """Writes the library; the paths of its objects in order."""
    library.save(folder)
    return sorted(name for name in library.files if name.endswith(".o"))


def _tool(name: str, cpu: str) -> str:
    return name if cpu == "host" else f"arm-none-eabi-{name}"


def _symbols(library: ModelLibrary, folder: Path) -> dict[str, str]:
    """The kind, in nm's letters, of each global symbol that the objects define."""
    cpu = library.modules[0].cpu
    command = [_tool("nm", cpu), "--extern-only", "--defined-only", *_objects(library, folder)]
    lines = [line.split() for line in generated_c.run(command, folder).splitlines()]
    return {line[2]: line[1] for line in lines if len(line) == 3}


# What is in the library -----------------------------------------------------------------------


@pytest.mark.parametrize(("cell", "pools", "cpu"), ROWS)
def test_each_cell_defines_the_symbols_of_its_c(
    cell: str, pools: str, cpu: str, tmp_path: Path
) -> None:
    options = {**CELLS[cell], "pools": pools, "cpu": cpu}
    library = _compile(**options)
    sources = hilc.compile(_graph(), **options)
    sources.save(tmp_path / "c")
    expected: dict[str, str] = {}
    for name in generated_c.sources(sources):
        if not name.startswith("codegen/"):
            continue
        include = ["-Icodegen/host/include", "-Iruntime/include"]
        command = [_tool("gcc", cpu), *get_cpu(cpu).cflags, *include]
        generated_c.run([*command, "-c", name, "-o", "x.o"], tmp_path / "c")
        nm = [_tool("nm", cpu), "--extern-only", "--defined-only", "x.o"]
        for line in generated_c.run(nm, tmp_path / "c").splitlines():
            expected[line.split()[2]] = line.split()[1]
    assert expected
    assert _symbols(library, tmp_path / "llvm") == expected
    assert not [name for name in library.files if name.startswith("codegen/host/src/")]
    assert "codegen/host/include/tvmgen_net.h" in library.files


@pytest.mark.parametrize("cpu", CPUS)
def test_an_object_links_with_gccs_without_a_warning(cpu: str, tmp_path: Path) -> None:
    """C and LLVM modules mix in one image: the same ABI, enumerations and marks on both sides."""
    objects = _objects(_for(cpu), tmp_path)
    packed = CELLS["packed/packed"]
    hilc.compile(_graph("second"), cpu=cpu, **packed).save(tmp_path / "c")
    core = list(get_cpu(cpu).cflags)
    compiled = []
    for index, name in enumerate(sorted((tmp_path / "c" / "codegen/host/src").glob("*.c"))):
        flags = ["-std=c11", "-Ic/codegen/host/include", "-Ic/runtime/include", *core]
        target = f"c{index}.o"
        command = [_tool("gcc", cpu), *flags, "-c", str(name.relative_to(tmp_path)), "-o", target]
        generated_c.run(command, tmp_path)
        compiled.append(target)
    relocatable = ["-r", "--fatal-warnings", "-o", "all.o"]
    if cpu == "host":
        relocatable[:1] = ["-r", "-m", "elf_x86_64"]
    generated_c.run([_tool("ld", cpu), *relocatable, *objects, *compiled], tmp_path)


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_the_abi_is_that_of_gcc(cpu: str, tmp_path: Path) -> None:
    objects = _objects(_for(cpu), tmp_path)
    (tmp_path / "gcc.c").write_text("int x;\n")
    generated_c.run(
        ["arm-none-eabi-gcc", *get_cpu(cpu).cflags, "-c", "gcc.c", "-o", "gcc.o"], tmp_path
    )
    wanted = _attributes("gcc.o", tmp_path)
    assert wanted["Tag_ABI_enum_size"] == "small"
    for name in objects:
        assert _attributes(name, tmp_path) == wanted, name


def _attributes(name: str, folder: Path) -> dict[str, str]:
    """What of the object's build attributes decides whether calls between objects work."""
    text = generated_c.run(["arm-none-eabi-readelf", "-A", name], folder)
    found = dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line)
    tags = (
        "Tag_CPU_arch", "Tag_ABI_enum_size", "Tag_ABI_PCS_wchar_t", "Tag_ABI_VFP_args",
        "Tag_CPU_unaligned_access",
    )  # fmt: skip
    # gcc leaves the tag out where no access is unaligned.
    return {tag: found[tag] for tag in tags if found.get(tag, "None") != "None"}


def test_sections_can_be_placed(tmp_path: Path) -> None:
    pool = hilc.memory.plan.PoolSpec("fast", None, "itcm")
    library = _compile(cpu="cortex-m4", memory=(pool,), optimize="speed")
    sizes: dict[str, int] = {}
    names: set[str] = set()
    for name in _objects(library, tmp_path):
        text = generated_c.run(["arm-none-eabi-objdump", "-h", name], tmp_path)
        for line in text.splitlines():
            words = line.split()
            if len(words) == 7 and words[0].isdigit():
                names.add(words[1])
                sizes[words[1]] = sizes.get(words[1], 0) + int(words[2], 16)
    (module,) = library.modules
    assert sizes[".rodata.tvm"] == module.constants_bytes
    assert sizes[".bss.noinit.tvm.itcm"] == module.workspace_pools[0].nbytes
    # One section a function, so that a linker can leave out what nobody calls; nothing that
    # gcc's objects do not have either.
    assert ".text.tvmgen_net_run" in names
    assert not [n for n in names if n.startswith((".ARM.exidx", ".note.GNU", ".debug"))]


def test_objects_are_reproducible_without_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _for("cortex-m4")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    again = _compile(api="packed", interface="packed", cpu="cortex-m4")
    assert first.files == again.files
    root = str(Path(hilc.__file__).resolve().parents[2]).encode()
    for name, data in again.files.items():
        if name.endswith((".o", ".su")):
            assert str(tmp_path).encode() not in data, name
            assert root not in data, name
            assert b"/tmp" not in data, name


def test_every_object_states_its_stack() -> None:
    library = _for("cortex-m4", "unpacked/c")
    for name in library.files:
        if name.endswith(".o"):
            text = library.files[name.removesuffix(".o") + ".su"].decode()
            assert text.endswith("\tstatic\n"), name
    text = library.files["codegen/host/lib/net_lib1.su"].decode()
    for layer in library.modules[0].layers:
        assert layer.function in text


# What the objects compute ---------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("pools", POOLS)
def test_the_host_equals_the_interpreter(cell: str, pools: str) -> None:
    graph = _graph()
    values = np.random.default_rng(7).integers(-128, 127, (1, 5, 5, 2), np.int8)
    (name,) = graph.inputs
    expected = interpreter.run(graph, {name: values})[graph.outputs[0]]
    with hilc.host.load(_compile(**CELLS[cell], pools=pools)) as model:
        model.set_input(0, values)
        model.run()
        assert np.array_equal(model.get_output(0), expected)


def test_a_product_and_a_sum_are_not_fused(tmp_path: Path) -> None:
    """It would be rounded once where the specification rounds twice."""
    source = b"float f(float a, float b, float c) { return a * b + c; }\n"
    files = {"codegen/host/src/net_lib0.c": source}
    made = to_objects(files, "net", get_cpu("cortex-m4"))["codegen/host/lib/net_lib0.o"]
    (tmp_path / "f.o").write_bytes(made)
    text = generated_c.run(["arm-none-eabi-objdump", "-d", "f.o"], tmp_path)
    assert "vmul.f32" in text
    assert "vfma" not in text


# The registry ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3, 300])
def test_the_registry_is_in_order(count: int, tmp_path: Path) -> None:
    """Linked with functions that say their number, and walked as TVM's run time does."""
    functions = [f"f{index}_1a" for index in range(count)]
    files = to_objects({}, "net", get_cpu("host"), functions)
    (tmp_path / "registry.o").write_bytes(files["codegen/host/lib/net_lib0.o"])
    blob = registry_names_blob(functions)
    bodies = "".join(f"int {name}(void) {{ return {i}; }}\n" for i, name in enumerate(functions))
    checks = "".join(f"    if (registry->funcs[{i}]() != {i}) return 3;\n" for i in range(count))
    data = ", ".join(map(str, blob))
    (tmp_path / "main.c").write_text(
        "#include <string.h>\n"
        "struct registry { const char *names; int (*const *funcs)(void); };\n"
        "const struct registry *const *TVMSystemLibEntryPoint(void);\n"
        f"{bodies}static const unsigned char blob[] = {{{data}}};\n"
        "int main(void) {\n"
        "    const struct registry *registry = *TVMSystemLibEntryPoint();\n"
        "    if (memcmp(registry->names, blob, sizeof blob)) return 2;\n"
        f"{checks}    return 0;\n}}\n"
    )
    generated_c.run(["gcc", "-Wall", "-Werror", "main.c", "registry.o", "-o", "main"], tmp_path)
    generated_c.run(["./main"], tmp_path)


def test_the_registry_yields_to_the_images(tmp_path: Path) -> None:
    symbols = _symbols(_for("host"), tmp_path)
    assert symbols["TVMSystemLibEntryPoint"] == "W"


def test_without_system_lib_there_is_no_registry(tmp_path: Path) -> None:
    library = _compile(api="packed", interface="packed", system_lib=False)
    assert "TVMSystemLibEntryPoint" not in _symbols(library, tmp_path)


def test_names_are_escaped_in_the_module() -> None:
    text = registry_module(["a", "b0"], "x.ll")
    assert r'c"\02\00a\00b0\00\00"' in text


# What is missing ------------------------------------------------------------------------------


def _path_with(folder: Path, *programs: str) -> None:
    for program in programs:
        path = shutil.which(program)
        assert path is not None, program
        (folder / program).symlink_to(path)


def test_without_clang_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _path_with(tmp_path, "gcc", "arm-none-eabi-gcc")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LlvmError, match=f"needs clang {OLDEST_CLANG} or later") as error:
        _compile()
    assert "apt install clang" in error.value.hint
    assert error.value.exit_code == 3
    # Everything else needs none.
    assert hilc.compile(_graph()).modules[0].codegen == "c"


def test_an_old_clang_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, _ = find_clang()
    old = tmp_path / "clang"
    old.write_text("#!/bin/sh\necho 'Debian clang version 11.0.1-2'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/nonexistent")
    llvm._version_of.cache_clear()
    with pytest.raises(LlvmError, match="is version 11"):
        find_clang()
    (tmp_path / "clang-16").symlink_to(os.path.realpath(real))
    # The link's name says 16, the program itself what it is.
    assert find_clang()[0] == str(tmp_path / "clang-16")


def test_without_the_gnu_toolchain_only_arm_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _path_with(tmp_path, "clang")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _compile(cpu="host").modules[0].codegen == "llvm"
    with pytest.raises(LlvmError, match="arm-none-eabi-gcc") as error:
        _compile(cpu="cortex-m4")
    assert "gcc-arm-none-eabi" in error.value.hint


def test_what_clang_says_of_a_users_source_is_shown() -> None:
    with pytest.raises(LlvmError, match="no_such_type"):
        to_objects({"codegen/host/src/net_lib7.c": b"no_such_type x;\n"}, "net", get_cpu("host"))
