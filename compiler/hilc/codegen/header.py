"""The header ``tvmgen_<name>.h``: sizes, then the declarations of the interface."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hilc.codegen.allocator import allocator
from hilc.codegen.constants import ConstantPool
from hilc.codegen.cwriter import CONSTANT_ALIGNMENT, c_comment, c_includes, c_quoted, c_values
from hilc.codegen.dialects import INTERFACES
from hilc.codegen.names import CONSTANT_POOL, Names
from hilc.codegen.options import Options
from hilc.ir import Tensor
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.plan import Program


def write_header(program: Program, names: Names, options: Options, constants: ConstantPool) -> str:
    """Return ``tvmgen_<name>.h``, for C and C++."""
    guard = f"{names.macro('H')}_"
    interface = INTERFACES[options.entry]
    title = c_comment(
        f'The model "{program.graph.name}" through TVM\'s {interface.name} interface.'
    )
    sections = [
        f"{title}#ifndef {guard}\n#define {guard}\n\n{c_includes(*interface.header_includes)}",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *_size_macros(names, _io(program, names)),
        *_state_macro(program, names),
        *interface.declarations(program, names, options),
        *_pool_macros(program, names, options),
        *(_constant_macros(names, constants) if options.constants == "external" else ()),
        f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n",
    ]
    return "\n".join(sections)


def _io(program: Program, names: Names) -> list[tuple[str, str, str, Tensor]]:
    """Return kind, original name, field and tensor of each input and output."""
    tensors = program.graph.tensors
    inputs = [
        ("Input", name, field, tensors[name])
        for name, field in zip(program.graph.inputs, names.inputs, strict=True)
    ]
    outputs = [
        ("Output", name, field, tensors[tensor])
        for tensor, name, field in zip(
            program.graph.outputs, program.output_names, names.outputs, strict=True
        )
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


def _state_macro(program: Program, names: Names) -> Iterable[str]:
    if program.graph.states:
        yield (
            "/*! \\brief States size (in bytes): what one run leaves to the next */\n"
            f"#define {names.macro('STATE_SIZE')} {program.state_bytes}\n"
        )


def _pool_macros(program: Program, names: Names, options: Options) -> Iterable[str]:
    what = f"aligned to {ALIGNMENT}"
    if options.pools == "calls":
        what = f"what {allocator().function} must be able to hand out"
    elif sum(not pool.persistent for pool in program.pools) > 1:
        what = "all pools together"
    yield (
        f"/*! \\brief Workspace size (in bytes), {what} */\n"
        f"#define {names.macro('WORKSPACE_SIZE')} {program.workspace_bytes}\n"
    )
    if options.pools == "external":
        for name, pool in zip(names.pools, program.pools, strict=True):
            yield (
                f"/*! \\brief {name} size (in bytes) */\n"
                f"#define {names.macro(f'{name}_WORKSPACE_POOL_SIZE')} {pool.nbytes}\n"
            )


def _constant_macros(names: Names, constants: ConstantPool) -> Iterable[str]:
    macro = names.macro(f"{CONSTANT_POOL}_CONSTANT_POOL")
    yield (
        f"/*! \\brief {CONSTANT_POOL} size (in bytes) */\n#define {macro}_SIZE {constants.nbytes}\n"
    )
    if constants.nbytes:
        image = np.frombuffer(constants.data, np.uint8)
        lines = "".join(f"{line.ljust(98)} \\\n" for line in c_values(image).splitlines())
        yield (
            f"/*! \\brief The bytes of {CONSTANT_POOL}: initialise an array of uint8_t with them,\n"
            f" * aligned to {CONSTANT_ALIGNMENT} */\n"
            f"#define {macro}_DATA {{ \\\n{lines}}}\n"
        )
