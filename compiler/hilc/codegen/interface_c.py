"""TVM's C interface: the header ``tvmgen_<name>.h`` and the entry point, ``<name>_lib0.c``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hilc.allocate import ALIGNMENT
from hilc.codegen.cwriter import c_comment, c_quoted, c_wrapped
from hilc.codegen.names import POOL, Names
from hilc.codegen.operators import main_prototype
from hilc.ir import Tensor
from hilc.plan import Program

_POOL_POINTER = f"(uint8_t *)workspace_pools->{POOL}"


def write_header(program: Program, names: Names, pools: str) -> str:
    """``tvmgen_<name>.h``."""
    guard = f"{names.macro('H')}_"
    title = c_comment(f'The model "{program.graph.name}" through TVM\'s C interface.')
    io = _io(program, names)
    sections = [
        f"{title}#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *_size_macros(names, io),
        _struct(names, "inputs", "The input tensors", names.inputs),
        _struct(names, "outputs", "The output tensors", names.outputs),
    ]
    if pools == "external":
        sections.append(
            _struct(names, "workspace_pools", "The memory that a run works in", (POOL,))
        )
    if program.io_in_pool:
        sections += [
            f"{_MAP_COMMENT % kind}{_map_prototype(names, kind, pools)};\n" for kind in _IO
        ]
    sections += [
        f"{_run_comment(program, pools)}{_run_prototype(program, names, pools)};\n",
        f"/*! \\brief Workspace size (in bytes), aligned to {ALIGNMENT} */\n"
        f"#define {names.macro('WORKSPACE_SIZE')} {program.workspace_bytes}\n",
    ]
    if pools == "external":
        macro = names.macro(f"{POOL}_WORKSPACE_POOL_SIZE")
        sections.append(
            f"/*! \\brief {POOL} size (in bytes) */\n#define {macro} {program.workspace_bytes}\n"
        )
    sections.append(f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n")
    return "\n".join(sections)


def write_entry(program: Program, names: Names, pools: str) -> str:
    """``<name>_lib0.c``: the workspace where it is the library's own, and the entry point."""
    sections = [
        c_comment(f'Entry point of the model "{program.graph.name}".')
        + f'#include <stddef.h>\n\n#include "{names.header}"\n',
        f"{main_prototype(program, names)};\n",
    ]
    if pools == "external":
        pool = _POOL_POINTER
    elif program.workspace_bytes:
        pool = POOL
        sections.append(
            f'__attribute__((section(".bss.noinit.tvm"), aligned({ALIGNMENT})))\n'
            f"static uint8_t {POOL}[{program.workspace_bytes}];\n"
        )
    else:
        pool = "NULL"
    if program.io_in_pool:
        sections += [_map_function(program, names, kind, pools) for kind in _IO]
        arguments = [pool]
    else:
        arguments = [f"inputs->{field}" for field in names.inputs]
        arguments += [f"outputs->{field}" for field in names.outputs]
        arguments.append(pool)
    unused = "" if names.inputs or program.io_in_pool else "    (void)inputs;\n"
    call = c_wrapped(f"    return {names.main}(", arguments, ");\n")
    sections.append(f"{_run_prototype(program, names, pools)} {{\n{unused}{call}}}\n")
    return "\n".join(sections)


_IO = ("inputs", "outputs")
_MAP_COMMENT = "/*! \\brief Where the %s lie in the workspace */\n"


def _io(program: Program, names: Names) -> list[tuple[str, str, str, Tensor]]:
    """What, original name, field and tensor of each input and output."""
    tensors = program.graph.tensors
    inputs = [
        ("Input", name, field, tensors[name])
        for name, field in zip(program.graph.inputs, names.inputs, strict=True)
    ]
    outputs = [
        ("Output", name, field, tensors[name])
        for name, field in zip(program.output_names, names.outputs, strict=True)
    ]
    return inputs + outputs


def _size_macros(names: Names, io: Sequence[tuple[str, str, str, Tensor]]) -> Iterable[str]:
    seen: set[str] = set()
    for what, name, field, tensor in io:
        macro = names.macro(f"{field}_SIZE")
        # An input that is also an output has one macro: the size is the same.
        if macro in seen:
            continue
        seen.add(macro)
        shape = ",".join(map(str, tensor.shape))
        quant = ""
        if tensor.quant and tensor.quant.per_tensor:
            # repr() writes the shortest text that reads back as the same number.
            scale, zero_point = tensor.quant.scale[0], tensor.quant.zero_point[0]
            sign = "-" if zero_point >= 0 else "+"
            quant = f"; real = {scale!r} * (value {sign} {abs(zero_point)})"
        yield (
            f'/*! \\brief {what} "{c_quoted(name)}" size (in bytes)\n'
            f" * {tensor.dtype}[{shape}]{quant} */\n"
            f"#define {macro} {tensor.nbytes}\n"
        )


def _struct(names: Names, suffix: str, brief: str, fields: Sequence[str]) -> str:
    # C has no struct without members.
    members = "".join(f"    void *{field};\n" for field in fields) or "    void *none;\n"
    return f"/*! \\brief {brief} */\nstruct {names.symbol}_{suffix} {{\n{members}}};\n"


def _run_comment(program: Program, pools: str) -> str:
    lines = ["\\brief One inference; 0 on success, -1 when an operator fails."]
    if program.io_in_pool:
        lines.append(
            "A run destroys the inputs: they lie in the workspace, whose bytes later tensors take."
        )
        lines.append("Write them again before each run.")
    else:
        lines.append("The inputs are only read. Each buffer is aligned as its elements are,")
        lines.append("and no two of them may overlap.")
    if pools == "external":
        lines.append(f"The workspace is aligned to {ALIGNMENT} and needs no initial value.")
    return "/*! " + "\n * ".join(lines) + " */\n"


def _run_prototype(program: Program, names: Names, pools: str) -> str:
    structs = [] if program.io_in_pool else list(_IO)
    structs += ["workspace_pools"] if pools == "external" else []
    parameters = [f"struct {names.symbol}_{struct} *{struct}" for struct in structs]
    return c_wrapped(f"int32_t {names.run}(", parameters or ["void"], ")")


def _map_prototype(names: Names, kind: str, pools: str) -> str:
    parameter = f"struct {names.symbol}_workspace_pools *workspace_pools"
    head = f"struct {names.symbol}_{kind} {names.symbol}_map_{kind}("
    return c_wrapped(head, [parameter if pools == "external" else "void"], ")")


def _map_function(program: Program, names: Names, kind: str, pools: str) -> str:
    graph = program.graph
    tensors, fields = (
        (graph.inputs, names.inputs) if kind == "inputs" else (graph.outputs, names.outputs)
    )
    base = f"({_POOL_POINTER})" if pools == "external" else POOL
    members = [
        f"        .{field} = &{base}[{program.places[name].value}],\n"
        for name, field in zip(tensors, fields, strict=True)
    ] or ["        .none = NULL,\n"]
    unused = "" if fields or pools != "external" else "    (void)workspace_pools;\n"
    return (
        f"{_map_prototype(names, kind, pools)} {{\n{unused}"
        f"    const struct {names.symbol}_{kind} mapped = {{\n{''.join(members)}    }};\n"
        "    return mapped;\n}\n"
    )
