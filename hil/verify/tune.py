"""Measures on a board what each kernel that can compute a layer costs there.

Of every layer the first kernel is in the first image, the second in the next, and so on: there are
as many images as the layer with the most kernels has. A layer's count is taken as ``hil bench``
takes it, with the layer's own inputs of one inference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

import hilc
from hil.board import Board
from hil.device import Device
from hil.verify.bench import layer_counts
from hilc.artifact.library import ModelLibrary
from hilc.lowering import candidates
from hilc.lowering.choice import Choice
from hilc.lowering.kernels import KernelCall
from hilc.schedule.tuning import FORMAT, Measured, TunedLayer, Tuning
from hilc.source import Source
from hilc.target import Cpu

#: Compiles the model with a choice; opens a device that runs a library.
Compile = Callable[[Choice], ModelLibrary]
Open = Callable[[ModelLibrary], AbstractContextManager[Device]]


def tune(
    source: Source,
    cpu: Cpu,
    board: Board,
    compile_: Compile,
    open_: Open,
    *,
    seed: int = 0,
    started: Callable[[int, int], None] = lambda image, images: None,
) -> Tuning:
    """Return the log of ``source`` on ``board``.

    ``started`` is told which image comes next, and how many there are.
    """
    layers = {
        node.name: (node.op, kernel_names(source, node.name, cpu)) for node in source.graph.nodes
    }
    images = max((len(names) for _, names in layers.values()), default=1)
    counts: dict[str, dict[int, int]] = {name: {} for name in layers}
    counter = ""
    for image in range(images):
        started(image, images)
        chosen = {
            name: min(image, len(kernels) - 1) for name, (_, kernels) in layers.items() if kernels
        }
        library = compile_(Choice(chosen))
        (module,) = library.modules
        with open_(library) as device:
            profile = device.repeated(partial(layer_counts, device, module, seed=seed))
            counter = device.counter
        for layer, count in zip(module.layers, profile, strict=True):
            # A layer that the planner added, a copy, has no name of the graph's.
            if layer.name in counts:
                counts[layer.name].setdefault(chosen.get(layer.name, 0), count)
    return Tuning(
        format=FORMAT,
        model=source.graph.name,
        digest=source.digest,
        cpu=cpu.name,
        compiler=hilc.__version__,
        board=board.name,
        counter=counter,
        layers=tuple(
            TunedLayer(
                name,
                op,
                tuple(
                    Measured(kernel, counts[name][position])
                    for position, kernel in enumerate(kernels)
                    if position in counts[name]
                ),
            )
            for name, (op, kernels) in layers.items()
        ),
    )


def kernel_names(source: Source, name: str, cpu: Cpu) -> Sequence[str]:
    """Return the kernels that can compute a node; none where that is no kernel of ours."""
    graph = source.graph
    node = next(node for node in graph.nodes if node.name == name)
    calls = candidates(node, graph.ins(node), graph.outs(node), cpu)
    return [call.kernel.name for call in calls if isinstance(call, KernelCall)]
