"""The compiler: a trained model in, a library of C out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hilc.choice import Choice
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
from hilc.search import search
from hilc.source import prepare
from hilc.tuning import Tuning, load_tuning

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
    ram: int | None = None,
    flash: int | None = None,
    tuning: Tuning | str | Path | None = None,
    fold_constant_channels: bool = True,
) -> ModelLibrary:
    """Compile a model, given as a file, its bytes or a graph, for a core (:mod:`hilc.cpu`).

    ``name`` is the module's; without it that of the file.

    ``memory`` are the pools that the model may work in, the preferred first; without them it is
    one, of whatever size the model needs. ``externals`` are code generators of the user that may
    claim parts of the model; the first one that wants a layer gets it.

    ``ram`` and ``flash`` are limits, in bytes, of the workspace and of what the layers' constants
    and code take: the fastest program that keeps them is made. ``tuning`` is a log that ``hil
    tune`` wrote, or its file: the kernels' cost is taken from it where it has been measured.
    ``choice`` gives the kernels and groups of the program instead of letting the compiler search.
    ``fold_constant_channels`` leaves out channels of layers that provably are the same for every
    input; the outputs are not changed by it. The other options are those of
    :class:`hilc.codegen.Options`.

    Raises :class:`InputError` for options that do not go together, names that become one in C, and
    a model that does not fit into ``memory``, ``ram`` or ``flash``; :class:`ModelError` and
    :class:`UnsupportedError` for what is wrong with the model.
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
    planner = partial(
        make_program,
        source.graph,
        core,
        io_in_pool=io_in_pool,
        memory=name_pools(memory) or (PoolSpec(),),
        scratch_in_pool=pools != "calls",
    )
    parts = source.file, source.original, source.folded
    if choice is not None:
        return generate(planner(choice=choice), options, *parts)
    if isinstance(tuning, str | Path):
        tuning = load_tuning(tuning)
    if tuning is not None:
        tuning.check(source, core, __version__)
    program, report = search(
        source.graph,
        core,
        lambda found: planner(choice=found),
        io_in_pool=io_in_pool,
        optimize=optimize,
        ram=ram,
        flash=flash,
        tuning=tuning,
    )
    library = generate(program, options, *parts)
    return replace(library, reports={library.modules[0].name: report})
