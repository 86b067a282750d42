"""TVM's metadata of a module as C that is C++, too: ``<name>_lib2.c``, packed interface only.

What the lists hold is what a run time can act on:

``inputs``
    names as a run time looks them up, with everything but letters and digits replaced by ``_``.
``outputs``
    always called ``output0``, ``output1``, ...
``workspace_pools``
    the pools that a caller hands over with each run (uint8 tensors of the pool's size); none where
    the library has its own or allocates, because a run time would allocate those that are listed.
``constant_pools``
    one entry a constant, in the order of the storage ids: name and place in the constant pool.
    Where the caller hands the pool over, also its data in TVM's array format, from which a run time
    fills the pool; where the constants are linked there is nothing to fill: no data, length 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hilc.artifact.params import save_array
from hilc.codegen.constants import ConstantPool
from hilc.codegen.cwriter import c_array, c_comment, c_includes, c_int, c_wrapped
from hilc.codegen.names import Names
from hilc.codegen.options import Options
from hilc.compat.tvm.convention import PACKED_ARGUMENTS, dl_data_type, packed_prototype
from hilc.compat.tvm.symbols import GET_METADATA, get_metadata
from hilc.memory.plan import Program
from hilc.support.identifiers import sanitise

_STEM = "kTvmgenMetadata"
#: A number, since TVM has its macro for it in a header for C++ only.
_VERSION = 1


class _Info(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: str


def write_c_metadata(
    program: Program, names: Names, options: Options, constants: ConstantPool
) -> str:
    """Return ``<name>_lib2.c``: the tables, and the function that returns them."""
    tensors = program.graph.tensors
    inputs = [
        _Info(sanitise(name), tensors[name].shape, tensors[name].dtype)
        for name in program.graph.inputs
    ]
    outputs = [
        _Info(f"output{index}", tensors[name].shape, tensors[name].dtype)
        for index, name in enumerate(program.graph.outputs)
    ]
    pools = [
        _Info(name, (pool.nbytes,), "uint8")
        for name, pool in zip(names.pools, program.pools, strict=True)
        if options.pools == "external"
    ]
    lists = {"inputs": inputs, "outputs": outputs, "workspace_pools": pools}
    parts = [
        c_comment(f'What the model "{program.graph.name}" says of itself, as TVM\'s metadata.')
        + c_includes("stddef.h", "tvm/runtime/metadata_types.h", names.header),
        *(_tensors(field, infos) for field, infos in lists.items() if infos),
        *_constants(constants, options.constants == "external"),
        _metadata(names, {field: len(infos) for field, infos in lists.items()}, constants),
        _accessor(names, weak=options.runtime != "cpp"),
    ]
    return "\n".join(parts)


def _tensors(field: str, infos: Sequence[_Info]) -> str:
    """Return the array of structs that the metadata's ``field`` points to, and the shapes that it
    refers to.
    """
    shapes, entries = [], []
    for index, info in enumerate(infos):
        shape, rank = "NULL", len(info.shape)
        if rank:
            shape = f"{_STEM}_{field}_{index}_shape"
            values = ", ".join(map(c_int, info.shape))
            shapes.append(f"static const int64_t {shape}[{rank}] = {{{values}}};\n")
        fields = [f'"{info.name}"', shape, str(rank), _dl_fields(info.dtype)]
        entries.append(f"    {{{', '.join(fields)}}},\n")
    array = f"static const struct TVMTensorInfo {_STEM}_{field}[{len(infos)}]"
    return f"{''.join(shapes)}{array} = {{\n{''.join(entries)}}};\n"


def _dl_fields(dtype: str) -> str:
    """Return the ``DLDataType`` as an initialiser: C++ has no compound literals."""
    return dl_data_type(dtype).removeprefix("(DLDataType)")


def _constants(pool: ConstantPool, with_data: bool) -> Iterable[str]:
    entries = []
    for index, member in enumerate(pool.members):
        length, data = 0, "NULL"
        if with_data:
            blob = save_array(member.array)
            length, data = len(blob), f"{_STEM}_constant_pools_{index}_data"
            yield c_array(data, np.frombuffer(blob, np.uint8))
        fields = [f'"{member.name}"', str(member.offset), str(length), data]
        entries.append(f"    {{{', '.join(fields)}}},\n")
    if entries:
        array = f"static const struct TVMConstantInfo {_STEM}_constant_pools[{len(entries)}]"
        yield f"{array} = {{\n{''.join(entries)}}};\n"


def _metadata(names: Names, counts: dict[str, int], constants: ConstantPool) -> str:
    lines = [f"    {_VERSION}, /* version */\n"]
    for field, count in {**counts, "constant_pools": len(constants.members)}.items():
        array = f"{_STEM}_{field}" if count else "NULL"
        lines.append(f"    {array}, {count},\n")
    lines.append(f'    "{names.symbol}",\n')
    return f"static const struct TVMMetadata {_STEM}[1] = {{{{\n{''.join(lines)}}}}};\n"


def _accessor(names: Names, weak: bool) -> str:
    """Return the function with both of its names; the unmangled one is weak, since modules may
    share an image.
    """
    unused = "".join(
        f"    (void){name};\n" for name in ("args", "type_codes", "num_args", "resource_handle")
    )
    attribute = "__attribute__((weak))\n" if weak else ""
    call = c_wrapped(f"    return {get_metadata(names.symbol)}(", PACKED_ARGUMENTS, ");\n")
    own = packed_prototype(GET_METADATA)
    return (
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        f"{packed_prototype(get_metadata(names.symbol))} {{\n{unused}"
        "    if (out_ret_value == NULL || out_ret_tcode == NULL) {\n        return -1;\n    }\n"
        f"    out_ret_value->v_handle = (void *){_STEM};\n"
        "    *out_ret_tcode = kTVMOpaqueHandle;\n    return 0;\n}\n\n"
        "/* The same, for run times that look for it by this name. */\n"
        f"{own};\n{attribute}{own} {{\n"
        f"{call}}}\n\n"
        "#ifdef __cplusplus\n}\n#endif\n"
    )
