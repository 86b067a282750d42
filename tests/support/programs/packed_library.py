"""A compiled model with packed functions written by hand: what each does is the test's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiny_library import tiny_library

from hilc.artifact.library import ModelLibrary, module_path

_PARAMETERS = (
    "TVMValue *args, int *codes, int count, TVMValue *result, int *result_code, void *resource"
)
_UNUSED = "".join(
    f"    (void){name};\n"
    for name in ("args", "codes", "count", "result", "result_code", "resource")
)


def packed_library(
    functions: Mapping[str, str], *, name: str = "tiny", cpu: str = "host", globals_: str = ""
) -> ModelLibrary:
    """A model with the int32[4] input ``x`` and output ``y`` and these packed functions.

    ``functions`` gives their bodies, by what follows ``tvmgen_<name>_``; ``run`` is the model's
    entry. ``globals_`` stands before them.
    """
    plain = tiny_library("", name=name, cpu=cpu, io_in_pool=False, pools="internal")
    (module,) = plain.modules
    names = {f"{module.symbol}_{function}": body for function, body in functions.items()}
    module = replace(
        module,
        layers=(),
        interface="packed",
        workspace_pools=(),
        workspace_bytes=0,
        functions=tuple(names),
    )
    source = (
        '#include <string.h>\n#include "tvm/runtime/c_backend_api.h"\n'
        + globals_
        + "".join(
            f"int32_t {function}({_PARAMETERS});\n"
            f"int32_t {function}({_PARAMETERS}) {{\n{_UNUSED}    {body}\n    return 0;\n}}\n"
            for function, body in names.items()
        )
    )
    files = {
        module_path(name): module.to_json(),
        f"codegen/host/src/{name}_lib0.c": source.encode(),
    }
    return ModelLibrary((module,), files)
