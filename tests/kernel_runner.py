"""Runs C kernels on the host, many cases in one program, under the address and UB sanitizers.

A :class:`Case` is a kernel call as an operator's ``emit`` returns it, with arrays to call it on::

    (out,), (other,) = run([Case(call, [x], [((1, 4, 4, 8), "int8")]), Case(...)])

Every tensor lies in a heap block of exactly its size, so that the sanitizer sees an access one byte
outside, and int8 tensors start at odd addresses, so that it sees a word access that a core without
unaligned loads would fault on. Scratch is aligned to :data:`SCRATCH_ALIGNMENT` bytes, holds garbage
and is just as large as the kernel asks for.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hilc.codegen.cwriter import c_parameters
from hilc.cpu import get_cpu
from hilc.ir import Array, Node, Tensor
from hilc.kernels import KernelCall
from hilc.ops import OPS
from hilc.resources import data_dir

SCRATCH_ALIGNMENT = 4

WARNINGS = (
    "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes",
    "-Wdouble-promotion", "-Werror",
)  # fmt: skip
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")


def kernel_call(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: str = "host"
) -> KernelCall:
    """The kernel that computes ``node`` on ``cpu`` by default."""
    call = OPS[node.op].emit(node, ins, outs, get_cpu(cpu))[0]
    assert isinstance(call, KernelCall)
    return call


_PROLOGUE = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
%(includes)s

/* A block whose last byte is the last that may be touched, `offset` bytes from a 16 byte border. */
static void *block(size_t offset, size_t bytes) {
    unsigned char *start = malloc(offset + bytes);
    if (start == NULL) {
        exit(3);
    }
    memset(start, 0xa5, offset + bytes);
    return start + offset;
}

__attribute__((unused)) static void fill(FILE *file, void *data, size_t bytes) {
    if (fread(data, 1, bytes, file) != bytes) {
        exit(4);
    }
}

__attribute__((unused)) static void *load(FILE *file, size_t offset, size_t bytes) {
    void *data = block(offset, bytes);
    fill(file, data, bytes);
    return data;
}

static void store(FILE *file, const void *data, size_t bytes) {
    if (fwrite(data, 1, bytes, file) != bytes) {
        exit(5);
    }
}
"""


@dataclass(frozen=True)
class Case:
    """One call: the arrays of the kernel's tensor arguments, shape and dtype of each output."""

    call: KernelCall
    inputs: Sequence[Array]
    outputs: Sequence[tuple[tuple[int, ...], str]]
    #: Position of the kernel argument whose memory the first output takes; None for its own.
    in_place: int | None = None
    #: Bytes from the start of that argument to the start of the output, in a block of both.
    difference: int = 0
    #: Compile the kernel for this case alone, as a layer of its own is, not one body for all.
    specialise: bool = False


def run(cases: Sequence[Case], *, flags: Sequence[str] = ("-O1", *SANITIZERS)) -> list[list[Array]]:
    """The outputs of each case. A sanitizer's report or a compiler warning fails the test."""
    with tempfile.TemporaryDirectory(prefix="hil-kernels-") as name:
        folder = Path(name)
        (folder / "cases.c").write_text(_program(cases), encoding="utf-8")
        (folder / "inputs").write_bytes(b"".join(x.tobytes() for c in cases for x in c.inputs))
        include = data_dir("runtime") / "include"
        command = [
            compiler(), *WARNINGS, *flags, f"-I{include}", "cases.c", "-lm", "-o", "cases",
        ]  # fmt: skip
        _checked(command, folder)
        _checked(["./cases", "inputs", "outputs"], folder)
        return _split((folder / "outputs").read_bytes(), cases)


@functools.cache
def compiler() -> str:
    """The host C compiler."""
    for name in ("gcc", "clang", "cc"):
        if path := shutil.which(name):
            return path
    raise RuntimeError("no host C compiler found; install gcc or clang")


def _checked(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command[0]} returned {done.returncode}\n{done.stderr[:8000]}"


def _split(data: bytes, cases: Sequence[Case]) -> list[list[Array]]:
    results: list[list[Array]] = []
    position = 0
    for case in cases:
        arrays = []
        for shape, dtype in case.outputs:
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(data, dtype, count, position).reshape(shape))
            position += arrays[-1].nbytes
        results.append(arrays)
    assert position == len(data)
    return results


def _program(cases: Sequence[Case]) -> str:
    used = {case.call.kernel.name: case.call.kernel for case in cases}
    includes = sorted({kernel.header for kernel in used.values()})
    parts = [_PROLOGUE % {"includes": "\n".join(f'#include "{h}"' for h in includes)}]
    parts += [_shared_body(case) for case in {c.call.kernel.name: c for c in cases}.values()]
    parts += [_case(index, case) for index, case in enumerate(cases)]
    calls = "\n".join(f"    case_{index}(in, out);" for index in range(len(cases)))
    parts.append(
        "int main(int argc, char **argv) {\n"
        '    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL;\n'
        '    FILE *out = argc == 3 ? fopen(argv[2], "wb") : NULL;\n'
        "    if (in == NULL || out == NULL) {\n        return 2;\n    }\n"
        f"{calls}\n"
        "    return fclose(in) != 0 || fclose(out) != 0;\n}\n"
    )
    return "\n".join(parts)


def _parameters(case: Case) -> list[tuple[str, str]]:
    """Type and name of each argument of the case's kernel after its parameter struct."""
    kernel = case.call.kernel
    found = [
        ("const " + t[:-2] + " *const *" if t.endswith("[]") else f"const {t} *", f"in{i}")
        for i, t in enumerate(kernel.inputs)
    ]
    found += [
        (t[:-2] + " *const *" if t.endswith("[]") else f"{t} *", f"out{i}")
        for i, t in enumerate(kernel.outputs)
    ]
    if kernel.scratch != "0":
        found.append(("void *", "scratch"))
    return found


def _shared_body(case: Case) -> str:
    name = case.call.kernel.name
    parameters = _parameters(case)
    declared = "".join(f", {c_type}{arg}" for c_type, arg in parameters)
    passed = "".join(f", {arg}" for _, arg in parameters)
    return (
        f"__attribute__((noinline, unused)) static void shared_{name}"
        f"(const struct {name} *p{declared}) {{\n    {name}(p{passed});\n}}\n"
    )


def _case(index: int, case: Case) -> str:
    kernel = case.call.kernel
    prefix = f"case_{index}"
    lines = [c_parameters(kernel.name, f"{prefix}_params", case.call.fields)]
    lines.append(f"static void {prefix}(FILE *in, FILE *out) {{")
    offsets = [1 if x.itemsize == 1 else 0 for x in case.inputs]
    sizes = [
        int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        for shape, dtype in case.outputs
    ]
    below = max(0, -case.difference)
    for i, (x, offset) in enumerate(zip(case.inputs, offsets, strict=True)):
        if i != case.in_place:
            lines.append(f"    void *x{i} = load(in, {offset}, {x.nbytes});")
            continue
        both = below + max(x.nbytes, case.difference + sizes[0])
        lines.append(f"    unsigned char *both = block({offset}, {both});")
        lines.append(f"    void *x{i} = both + {below};")
        lines.append(f"    fill(in, x{i}, {x.nbytes});")
    for i, (_, dtype) in enumerate(case.outputs):
        if i == 0 and case.in_place is not None:
            lines.append(f"    void *y{i} = both + {below + case.difference};")
        else:
            lines.append(f"    void *y{i} = block({int(dtype == 'int8')}, {sizes[i]});")
    arguments = [f"x{i}" for i in range(len(case.inputs))]
    if kernel.inputs and kernel.inputs[0].endswith("[]"):
        lines.append(f"    const {kernel.inputs[0][:-2]} *const xs[] = {{{', '.join(arguments)}}};")
        arguments = ["xs"]
    results = [f"y{i}" for i in range(len(case.outputs))]
    if kernel.outputs[0].endswith("[]"):
        lines.append(f"    {kernel.outputs[0][:-2]} *const ys[] = {{{', '.join(results)}}};")
        results = ["ys"]
    arguments += results
    if kernel.scratch != "0":
        lines.append(f"    void *scratch = block(0, {case.call.scratch_bytes});")
        arguments.append("scratch")
    function = kernel.name if case.specialise else f"shared_{kernel.name}"
    lines.append(f"    {function}(&{prefix}_params, {', '.join(arguments)});")
    lines += [f"    store(out, y{i}, {size});" for i, size in enumerate(sizes)]
    freed = [
        (f"y{i}", int(dtype == "int8"))
        for i, (_, dtype) in enumerate(case.outputs)
        if i > 0 or case.in_place is None
    ]
    freed += [
        ("both" if i == case.in_place else f"x{i}", offset) for i, offset in enumerate(offsets)
    ]
    if kernel.scratch != "0":
        freed.append(("scratch", 0))
    lines += [f"    free((unsigned char *){pointer} - {offset});" for pointer, offset in freed]
    lines.append("}\n")
    return "\n".join(lines)
