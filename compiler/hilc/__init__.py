"""The compiler: a trained model in, a library of C out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hilc.choice import FIRST, Choice
from hilc.codegen import Options
from hilc.codegen.generate import generate
from hilc.codegen.names import name_pools
from hilc.cpu import get_cpu
from hilc.errors import HilError, InputError, ModelError, UnsupportedError
from hilc.external import ExternalCodegen
from hilc.ir import Graph
from hilc.library import ModelLibrary, merge
from hilc.plan import PoolSpec
from hilc.plan import plan as make_program
from hilc.source import prepare

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
    runtime: str = "crt",
    constants: str = "internal",
    system_lib: bool | None = None,
    memory: Sequence[PoolSpec] = (),
    externals: Sequence[ExternalCodegen] = (),
    choice: Choice | None = None,
    fold_constant_channels: bool = True,
) -> ModelLibrary:
    """Compile a model, given as a file, its bytes or a graph, for a core (:mod:`hilc.cpu`).

    ``name`` is the module's; without it that of the file.

    ``memory`` are the pools that the model may work in, the preferred first; without them it is
    one, of whatever size the model needs. ``externals`` are code generators of the user that may
    claim parts of the model; the first one that wants a layer gets it. ``choice`` gives the
    kernels and groups of the program instead of letting the compiler search.
    ``fold_constant_channels`` leaves out channels of layers that provably are the same for every
    input; the outputs are not changed by it. The other options are those of
    :class:`hilc.codegen.Options`.

    Raises :class:`InputError` for options that do not go together, names that become one in C, and
    a model that does not fit into ``memory``; :class:`ModelError` and :class:`UnsupportedError` for
    what is wrong with the model.
    """
    options = Options(
        optimize=optimize,
        codegen=codegen,
        api=api,
        interface=interface,
        pools=pools,
        io_in_pool=io_in_pool,
        runtime=runtime,
        constants=constants,
        system_lib=system_lib,
    )
    core = get_cpu(cpu)
    source = prepare(
        model,
        name,
        core,
        externals=externals,
        api=api,
        fold_constant_channels=fold_constant_channels,
    )
    program = make_program(
        source.graph,
        core,
        io_in_pool=io_in_pool,
        memory=name_pools(memory) or (PoolSpec(),),
        scratch_in_pool=pools != "calls",
        choice=FIRST if choice is None else choice,
    )
    return generate(program, options, source.file, source.original, source.folded)
