"""The compiler: a trained model in, a library of C out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import Any

from hilc.artifact.generate import generate
from hilc.artifact.library import ModelLibrary, merge
from hilc.codegen import Options
from hilc.codegen.dialects import require_installed
from hilc.codegen.names import name_pools
from hilc.errors import HilError, InputError, ModelError, UnsupportedError
from hilc.external import ExternalCodegen
from hilc.ir import Graph
from hilc.lowering.choice import Choice
from hilc.memory.explain import Explanation
from hilc.memory.explain import explain as explain_program
from hilc.memory.plan import NO_PINS, Planner
from hilc.memory.program import Pin, PoolSpec, Program
from hilc.schedule.search import Found, search
from hilc.schedule.tuning import Tuning, load_tuning
from hilc.source import Source, prepare
from hilc.target import Cpu, load_cpu

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "HilError",
    "InputError",
    "ModelError",
    "ModelLibrary",
    "Pin",
    "UnsupportedError",
    "__version__",
    "compile",
    "explain",
    "merge",
]

#: Modules for users that compiling does not need; `hilc.host` and its like load them.
_MODULES = {
    "executor": "hilc.executor",
    "host": "hilc.host",
    "interpreter": "hilc.interpreter",
    "params": "hilc.artifact.params",
    "references": "hilc.references",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(_MODULES[name])


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


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
    keep_inputs: bool = False,
    pins: Mapping[str, Pin] = NO_PINS,
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
    progress: Callable[[], None] | None = None,
) -> ModelLibrary:
    """Compile a model, given as a file, its bytes or a graph, for a core: its name, or the path of
    a description of one's own (:mod:`hilc.target`).

    ``name`` is the module's; without it that of the file.

    ``memory`` are the pools that the model may work in, the preferred first; without them it is
    one, of whatever size the model needs. With ``io_in_pool``, ``keep_inputs`` leaves the inputs as
    they are, and ``pins`` gives inputs and outputs, by name, their places. ``externals`` are code
    generators of the user that may claim parts of the model; the first one that wants a layer gets
    it.

    ``ram`` and ``flash`` are limits, in bytes, of the workspace and of what the model's constants
    and code take, by estimate: the fastest program that keeps them is made, whose layers share as
    much code as the limit of flash wants. ``tuning`` is a log that ``hil
    tune`` wrote, or its file: the kernels' cost is taken from it where it has been measured.
    ``choice`` gives the kernels and groups of the program instead of letting the compiler search.
    ``fold_constant_channels`` leaves out channels of layers that provably are the same for every
    input; the outputs are not changed by it. ``progress`` is called for every program
    that is tried: a search takes seconds. The other options are those of
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
    require_installed(options)
    planned = _planned(
        model,
        load_cpu(cpu),
        name,
        options,
        keep_inputs=keep_inputs,
        pins=pins,
        memory=memory,
        externals=externals,
        choice=choice,
        ram=ram,
        flash=flash,
        tuning=tuning,
        fold_constant_channels=fold_constant_channels,
        progress=progress,
    )
    source, found = planned.source, planned.found
    if found is None:
        return generate(planned.program, options, source.file, source.original, source.folded)
    options = replace(options, optimize=found.sharing)
    library = generate(planned.program, options, source.file, source.original, source.folded)
    return replace(library, reports={library.modules[0].name: found.report})


def explain(
    model: str | Path | bytes | Graph,
    *,
    cpu: str = "host",
    name: str | None = None,
    keep_inputs: bool = False,
    pins: Mapping[str, Pin] = NO_PINS,
    memory: Sequence[PoolSpec] = (),
    externals: Sequence[ExternalCodegen] = (),
    choice: Choice | None = None,
    ram: int | None = None,
    flash: int | None = None,
    tuning: Tuning | str | Path | None = None,
    fold_constant_channels: bool = True,
    progress: Callable[[], None] | None = None,
    **options: Any,
) -> Explanation:
    """What the memory of the program does that :func:`compile` makes of the same arguments.

    It also says what the next smaller program would cost, unless ``choice`` leaves nothing to
    search. Raises as :func:`compile` does.
    """
    planned = _planned(
        model,
        load_cpu(cpu),
        name,
        Options(**options),
        keep_inputs=keep_inputs,
        pins=pins,
        memory=memory,
        externals=externals,
        choice=choice,
        ram=ram,
        flash=flash,
        tuning=tuning,
        fold_constant_channels=fold_constant_channels,
        progress=progress,
    )
    found = planned.found
    return explain_program(planned.program, None if found is None else found.next_saving())


@dataclass(frozen=True)
class _Planned:
    """A model's program; nothing was found where the caller gave the choice."""

    source: Source
    program: Program
    found: Found | None


def _planned(
    model: str | Path | bytes | Graph,
    cpu: Cpu,
    name: str | None,
    options: Options,
    *,
    keep_inputs: bool,
    pins: Mapping[str, Pin],
    memory: Sequence[PoolSpec],
    externals: Sequence[ExternalCodegen],
    choice: Choice | None,
    ram: int | None,
    flash: int | None,
    tuning: Tuning | str | Path | None,
    fold_constant_channels: bool,
    progress: Callable[[], None] | None,
) -> _Planned:
    for limit, value in (("ram", ram), ("flash", flash)):
        if value is not None and not isinstance(value, Integral):
            raise InputError(
                f"the limit {limit}={value!r} is no number of bytes",
                f"give an int: {limit}=32 * 1024",
            )
    source = prepare(
        model,
        name,
        cpu,
        externals=externals,
        api=options.api,
        fold_constant_channels=fold_constant_channels,
    )
    planner = Planner(
        source.graph,
        cpu,
        io_in_pool=options.io_in_pool,
        keep_inputs=keep_inputs,
        pins=pins,
        memory=name_pools(memory) or (PoolSpec(),),
        scratch_in_pool=options.pools != "calls",
    )
    if choice is not None:
        return _Planned(source, planner.plan(choice), None)
    if isinstance(tuning, str | Path):
        tuning = load_tuning(tuning)
    if tuning is not None:
        tuning.check(source, cpu, __version__)
    found = search(
        planner, optimize=options.optimize, ram=ram, flash=flash, tuning=tuning, progress=progress
    )
    return _Planned(source, found.program, found)
