"""The executor on compiled libraries: an archive and a main, with nothing from outside."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest
from kernel_runner import SANITIZERS, WARNINGS, compiler
from random_graphs import small_net

import hilc
from hilc import interpreter
from hilc.artifact.library import Module

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

_MAIN = """\
#include <stdio.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/module.h>

#include "%(symbol)s.h"

%(pools)s
int main(void) {
    const DLDevice cpu = {kDLCPU, 0};
    TVMModuleHandle library;
    TVMAotExecutor *executor = NULL;
    CHECK_EQ(TVMPlatformInitialize(), kTvmErrorNoError, "platform");
    CHECK_EQ(TVMInitializeRuntime(), kTvmErrorNoError, "run time");
    CHECK_EQ(TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &library), 0, "library");
    CHECK_EQ(TVMAotExecutor_Create(library, cpu, &executor, "%(name)s"), 0, "%%s",
             TVMGetLastError());
    const int inputs = TVMAotExecutor_GetNumInputs(executor);
    const int tensors = inputs + TVMAotExecutor_GetNumOutputs(executor);
%(set)s
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < inputs; i++) {
            const size_t bytes = (size_t)TVMNDArray_DataSizeBytes(&executor->args[i]);
            CHECK_EQ(fread(executor->args[i].dl_tensor.data, 1, bytes, stdin), bytes, "input");
        }
        CHECK_EQ(TVMAotExecutor_Run(executor), 0, "%%s", TVMGetLastError());
        for (int i = inputs; i < tensors; i++) {
            const size_t bytes = (size_t)TVMNDArray_DataSizeBytes(&executor->args[i]);
            CHECK_EQ(fwrite(executor->args[i].dl_tensor.data, 1, bytes, stdout), bytes, "output");
        }
    }
    CHECK_EQ(TVMAotExecutor_Release(executor, cpu), 0, "release");
    return 0;
}
"""

CELLS = [
    ("packed", "internal", "internal"),
    ("packed", "external", "external"),
    ("packed", "calls", "internal"),
    ("unpacked", "calls", "external"),
]


def _external_memory(module: Module) -> tuple[str, str]:
    """Definitions of the pools that a caller hands over, and the lines that hand them over."""
    stem = module.symbol.upper()
    definitions, names = [], []
    if module.constants == "external":
        data = f"{stem}_GLOBAL_CONST_WORKSPACE_CONSTANT_POOL_DATA"
        definitions.append(f"static _Alignas(16) uint8_t constants[] = {data};\n")
        names.append("constants")
    if module.pools == "external":
        for pool in module.workspace_pools:
            size = f"{stem}_{pool.name.upper()}_WORKSPACE_POOL_SIZE"
            definitions.append(f"static _Alignas(16) uint8_t {pool.name}[{size}];\n")
            names.append(pool.name)
    # The metadata have the constants one by one, without the bytes that pad the last one.
    lines = [
        f"    executor->args[tensors + {index}].dl_tensor.data = {name};\n"
        f"    CHECK_{'LE' if name == 'constants' else 'EQ'}(\n"
        f"        TVMNDArray_DataSizeBytes(&executor->args[tensors + {index}]),\n"
        f'        (int64_t)sizeof {name}, "size");\n'
        for index, name in enumerate(names)
    ]
    lines.append(f'    CHECK_EQ(executor->num_args, tensors + {len(names)}, "pools");\n')
    return "".join(definitions), "".join(lines)


@pytest.mark.parametrize(("api", "pools", "constants"), CELLS)
def test_a_compiled_archive(api, pools, constants, tmp_path):
    """What the archive holds suffices, the executor's results are the interpreter's.

    The platform of the templates is a stack that checks the order of every free.
    """
    graph = small_net()
    options: dict[str, Any] = {"api": api, "pools": pools, "constants": constants}
    library = hilc.compile(graph, interface="packed", **options)
    (module,) = library.modules
    library.save(tmp_path / "archive")
    definitions, lines = _external_memory(module)
    main = _MAIN % {
        "symbol": module.symbol, "name": module.name, "pools": definitions, "set": lines,
    }  # fmt: skip
    (tmp_path / "main.c").write_text(main, encoding="utf-8")
    for template in (tmp_path / "archive/templates").iterdir():
        (tmp_path / template.stem).write_bytes(template.read_bytes())
    sources = sorted((tmp_path / "archive").rglob("*.c"))
    command = [
        compiler(), *WARNINGS, *SANITIZERS, "-DTVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK", "-I.",
        "-Iarchive/runtime/include", "-Iarchive/codegen/host/include", "main.c", "platform.c",
        *sources, "-lm", "-o", "firmware",
    ]  # fmt: skip
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr[:6000]

    rng = np.random.default_rng(7)
    given, expected = b"", b""
    for _ in range(2):
        inputs = {
            name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
            for name in graph.inputs
        }
        outputs = interpreter.run(graph, inputs)
        given += b"".join(inputs[name].tobytes() for name in graph.inputs)
        expected += b"".join(outputs[name].tobytes() for name in graph.outputs)
    done = subprocess.run(
        [tmp_path / "firmware"], input=given, capture_output=True, timeout=120, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == expected
