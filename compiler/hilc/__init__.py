"""The compiler: a trained model in, a library of C out."""

from __future__ import annotations

from pathlib import Path

from hilc.codegen import Options, generate
from hilc.cpu import get_cpu
from hilc.errors import HilError, InputError, ModelError, UnsupportedError
from hilc.importer import load_model
from hilc.ir import Graph
from hilc.library import ModelLibrary, merge
from hilc.passes import run_passes
from hilc.plan import plan as make_program

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "HilError",
    "InputError",
    "ModelError",
    "ModelLibrary",
    "UnsupportedError",
    "__version__",
    "compile",
    "merge",
]


def compile(
    model: str | Path | bytes | Graph,
    *,
    cpu: str = "host",
    name: str | None = None,
    optimize: str = "balanced",
    codegen: str = "c",
    api: str = "unpacked",
    interface: str = "c",
    pools: str = "internal",
    io_in_pool: bool = False,
) -> ModelLibrary:
    """Compile a model, given as a file, its bytes or a graph, for a core (:mod:`hilc.cpu`).

    The other options are those of :class:`hilc.codegen.Options`. ``name`` is the module's; without
    it that of the file.
    """
    options = Options(optimize, codegen, api, interface, pools, io_in_pool)
    core = get_cpu(cpu)
    source: bytes | None = None
    if isinstance(model, Graph):
        graph = model.with_(name=name) if name is not None else model
    else:
        graph = load_model(model, name)
        source = model if isinstance(model, bytes) else Path(model).read_bytes()
    program = make_program(run_passes(graph), core, io_in_pool=io_in_pool)
    return generate(program, options, source)
