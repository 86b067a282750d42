"""States of graphs that IF or WHILE calls, as values that are handed through the calls.

Only a model has states, so that one plan keeps all of them. A called graph takes the values of its
states behind its own inputs and gives the new ones behind its own outputs; the model carries them
from one run to the next. A graph that does not know a state of another one of the same call passes
its value on.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from hilc.ir import Graph, State, Tensor
from hilc.support.identifiers import unused

#: The states of a graph by key; a state has one key in all graphs of a model.
States = Mapping[Hashable, State]


@dataclass(frozen=True)
class Carrying:
    """The graphs of a call, without states, and the operands that the call has for those."""

    graphs: tuple[Graph, ...]
    #: States that the call reads, after its other inputs.
    state_inputs: tuple[Hashable, ...]
    #: States that it returns, after its other outputs.
    state_outputs: tuple[Hashable, ...]
    #: States whose value the call changes.
    updated: frozenset[Hashable]
    #: A tensor of each.
    kinds: Mapping[Hashable, Tensor]


def branches_carrying(graphs: Sequence[Graph], states: Sequence[States]) -> Carrying:
    """Return the branches, each with all states that any of them updates as outputs."""
    kinds, updated = _kinds(graphs, states), _updated(states)
    state_outputs = tuple(key for key in kinds if key in updated)
    state_inputs = (*state_outputs, *(key for key in kinds if key not in updated))
    lifted = [
        _lifted(graph, own, kinds, state_inputs, state_outputs)
        for graph, own in zip(graphs, states, strict=True)
    ]
    return Carrying(tuple(lifted), state_inputs, state_outputs, updated, kinds)


def loop_carrying(graphs: Sequence[Graph], states: Sequence[States]) -> Carrying:
    """Return condition and body of a loop with every state as a variable.

    The condition gives what it updates itself, which are the last variables.
    """
    kinds = _kinds(graphs, states)
    checked = _updated(states[:1])
    kept = tuple(key for key in kinds if key in checked)
    state_inputs = (*(key for key in kinds if key not in checked), *kept)
    lifted = [
        _lifted(graph, own, kinds, state_inputs, state_outputs)
        for graph, own, state_outputs in zip(graphs, states, (kept, state_inputs), strict=True)
    ]
    return Carrying(tuple(lifted), state_inputs, state_inputs, _updated(states), kinds)


def _kinds(graphs: Sequence[Graph], states: Sequence[States]) -> dict[Hashable, Tensor]:
    kinds: dict[Hashable, Tensor] = {}
    for graph, own in zip(graphs, states, strict=True):
        for key, state in own.items():
            kinds.setdefault(key, graph.tensors[state.name])
    return kinds


def _updated(states: Sequence[States]) -> frozenset[Hashable]:
    return frozenset(
        key for own in states for key, state in own.items() if state.after != state.name
    )


def _lifted(
    graph: Graph,
    own: States,
    kinds: Mapping[Hashable, Tensor],
    state_inputs: Sequence[Hashable],
    state_outputs: Sequence[Hashable],
) -> Graph:
    """Return a graph that takes and gives the values of these states."""
    tensors, before, after = dict(graph.tensors), list[str](), dict[Hashable, str]()
    for key in state_inputs:
        if key in own:
            name, after[key] = own[key].name, own[key].after
        else:
            name = after[key] = unused(kinds[key].name, tensors)
            tensors[name] = replace(kinds[key], name=name)
        before.append(name)
    return graph.with_(
        tensors=tensors,
        inputs=(*graph.inputs, *before),
        outputs=(*graph.outputs, *(after[key] for key in state_outputs)),
        states=(),
    )
