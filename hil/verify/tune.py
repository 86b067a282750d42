"""Measures on a board what each kernel that can compute a layer costs there, then whole programs.

Of every layer the first kernel is in the first image, the second in the next, and so on: there are
as many images as the layer with the most kernels has. A layer's count is taken as ``hil bench``
takes it, with the layer's own inputs of one inference.

With these counts the search proposes a program for a goal. It is run as a whole, which also tells
what its fused groups cost, and with that the search proposes again, until it proposes what has been
measured; then the programs beside it on the frontier are measured too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import product

import hilc
from hil.board import Board
from hil.device import Device
from hil.verify.bench import layer_counts, whole_counts
from hilc.artifact.library import ModelLibrary
from hilc.compiler import Programs
from hilc.errors import InputError
from hilc.executor import require_layers
from hilc.lowering import candidates
from hilc.lowering.choice import KernelSelection
from hilc.lowering.kernels import KernelCall
from hilc.schedule.tuning import (
    FORMAT,
    Measured,
    TunedGroup,
    TunedLayer,
    TunedProgram,
    Tuning,
    sharing_of,
)
from hilc.source import PreparedModel
from hilc.support.counters import Counter
from hilc.target import Cpu

#: Compiles the model with a choice, for a goal; opens a device that runs a library.
Compile = Callable[[KernelSelection, str | None], ModelLibrary]
Open = Callable[[ModelLibrary], AbstractContextManager[Device]]
#: The programs of the model for a goal.
ProgramsFor = Callable[[str], Programs]
#: Neighbours on the frontier that are measured beside a goal's program.
_BESIDE = 2
#: Measured inferences of a whole program where they differ.
_RUNS = 5


def tune(
    source: PreparedModel,
    cpu: Cpu,
    board: Board,
    compile_: Compile,
    open_: Open,
    programs_for: ProgramsFor,
    *,
    goals: Sequence[str] = (),
    programs: int = 0,
    seed: int = 0,
    counter: Counter | None = None,
    started: Callable[[str], None] = lambda what: None,
    check: Callable[[Device, ModelLibrary], None] = lambda device, library: None,
    measured: Callable[[Tuning], None] = lambda log: None,
) -> Tuning:
    """Return the log of ``source`` on ``board``.

    For each of ``goals`` at most ``programs`` are measured as a whole. ``started`` is called with
    the next measurement. ``check`` raises for an image whose outputs are wrong: its counts are not
    recorded. ``measured`` gets the log so far after each image. Raise
    :class:`~hilc.errors.InputError`, before much is measured, where the board counts something
    else than ``counter``.
    """
    log = _layers_log(source, cpu, board, compile_, open_, seed, counter, started, check, measured)
    candidates = {goal: programs_for(goal) for goal in goals} if programs else {}
    # In turns: what is measured for a goal may change what the search proposes for another.
    for number, (goal, proposed) in product(range(1, programs + 1), candidates.items()):
        if (choice := _next(proposed, goal, log)) is None:
            continue
        started(f"{goal}: program {number} of at most {programs}")
        library = compile_(choice, goal)
        with open_(library) as device:
            found = device.repeated(partial(_program, device, library, choice, goal, seed))
            check(device, library)
        log = replace(log, programs=(*log.programs, found))
        measured(log)
    return log


def _next(candidates: Programs, goal: str, log: Tuning) -> KernelSelection | None:
    """Return the program to measure next for a goal: what the search proposes, then what lies
    beside it on the frontier; None where these have been measured.
    """
    chosen, nbytes = candidates.chosen(log)
    if log.program(goal, chosen) is None:
        return chosen
    frontier = sorted(candidates.frontier(log), key=lambda found: abs(found[1] - nbytes))
    beside = [choice for choice, _ in frontier if choice != chosen][:_BESIDE]
    return next((choice for choice in beside if log.program(goal, choice) is None), None)


def _program(
    device: Device, library: ModelLibrary, choice: KernelSelection, goal: str, seed: int
) -> TunedProgram:
    """Return what a program costs as a whole, and what its fused groups cost in it."""
    (module,) = library.modules
    is_exact = device.counter == "instructions" or device.simulated is not None
    runs = 1 if is_exact else _RUNS
    count, layers = whole_counts(device, module, runs=runs, seed=seed)
    # A group of one layer is described as that layer.
    by_group = {
        layer.group or (layer.name,): found
        for layer, found in zip(module.layers, layers, strict=True)
    }
    groups = tuple(TunedGroup(group, by_group[group.nodes]) for group in choice.groups)
    return TunedProgram(
        sharing_of(goal), dict(choice.kernels), groups, module.workspace_bytes, count
    )


def _layers_log(
    source: PreparedModel,
    cpu: Cpu,
    board: Board,
    compile_: Compile,
    open_: Open,
    seed: int,
    wanted: Counter | None,
    started: Callable[[str], None],
    check: Callable[[Device, ModelLibrary], None],
    measured: Callable[[Tuning], None],
) -> Tuning:
    """Return a log of every kernel of every layer."""
    layers = {
        node.name: (node.op, variant_names(source, node.name, cpu)) for node in source.graph.nodes
    }
    log = Tuning(
        format=FORMAT,
        model=source.graph.name,
        digest=source.digest,
        cpu=cpu.name,
        compiler=hilc.__version__,
        board=board.name,
        counter="instructions",
        layers=tuple(TunedLayer(name, op, ()) for name, (op, _) in layers.items()),
        programs=(),
    )
    images = max((len(names) for _, names in layers.values()), default=1)
    counts: dict[str, dict[str, int]] = {name: {} for name in layers}
    for image in range(images):
        started(f"layers: image {image + 1} of {images}")
        chosen = {
            name: variants[min(image, len(variants) - 1)]
            for name, (_, variants) in layers.items()
            if variants
        }
        library = compile_(KernelSelection(chosen), None)
        (module,) = library.modules
        require_layers(module)
        with open_(library) as device:
            if wanted not in (None, device.counter):
                raise InputError(
                    f"the log that is there counts {wanted}, and {board.name} here counts "
                    f"{device.counter}",
                    "give another file with -o, or --force to replace it",
                )
            profile = device.repeated(partial(layer_counts, device, module, seed=seed))
            counter = device.counter
            check(device, library)
        for layer, count in zip(module.layers, profile, strict=True):
            # A layer that the planner added, a copy, has no name of the graph's.
            if layer.name in chosen:
                counts[layer.name].setdefault(chosen[layer.name], count)
        log = replace(log, counter=counter, layers=_tuned_layers(layers, counts))
        measured(log)
    return log


def _tuned_layers(
    layers: Mapping[str, tuple[str, Sequence[str]]], counts: Mapping[str, Mapping[str, int]]
) -> tuple[TunedLayer, ...]:
    """Return the counts of each layer's kernel variants, as far as they are known."""
    return tuple(
        TunedLayer(
            name,
            op,
            tuple(
                Measured(variant, counts[name][variant])
                for variant in variants
                if variant in counts[name]
            ),
        )
        for name, (op, variants) in layers.items()
    )


def variant_names(source: PreparedModel, name: str, cpu: Cpu) -> Sequence[str]:
    """Return the names of the kernel variants that can compute a node, the one that is expected to
    be the fastest first; none where an external function computes it.
    """
    graph = source.graph
    node = next(node for node in graph.nodes if node.name == name)
    calls = candidates(node, graph.ins(node), graph.outs(node), cpu)
    return [call.variant for call in calls if isinstance(call, KernelCall)]
