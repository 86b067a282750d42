"""What an archive holds beside the model's own code: its parameters, the C run time, templates."""

from __future__ import annotations

from functools import cache

from hilc.artifact.crt import crt_files, template_files
from hilc.artifact.params import save_params
from hilc.ir import Graph


def shipped_files(graph: Graph, module: str, runtime: str) -> dict[str, bytes]:
    """The files by path.

    The parameters are the constants of ``graph`` by their names, as the model has them: the code
    holds them folded and packed. With TVM's C++ run time there is no C run time to ship.
    """
    constants = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    files = {f"parameters/{module}.params": save_params(constants)}
    return files | runtime_files() if runtime == "crt" else files


@cache
def runtime_files() -> dict[str, bytes]:
    """The C run time and the templates by path."""
    files = {f"runtime/{path}": data for path, data in crt_files().items()}
    return files | {f"templates/{path}": data for path, data in template_files().items()}
