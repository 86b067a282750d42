"""Copies that a plan needs: of outputs that have no buffer of their own, and of states.

The values of a state before and after a run share one buffer. The node that computes the new value
writes it there if the old one has no later reader, or if the node reads it in time; else it writes
elsewhere, and a copy at the end of the run updates the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hilc.fusion.candidates import Lowering
from hilc.ir import Attributes, Graph, Node, State
from hilc.memory.liveness import reads_of
from hilc.ops import OPS
from hilc.ops.views import ReshapeAttributes
from hilc.target import Cpu


def with_copies(graph: Graph, io_in_pool: bool) -> Graph:
    """Return the graph with a copy appended for each output that cannot have its own buffer.

    That is a constant, the old value of a state, and, where the outputs are the caller's buffers,
    an input or an output that is listed twice.
    """
    copies, outputs = _Copies(graph), list[str]()
    for name in graph.outputs:
        given = not io_in_pool and (name in graph.inputs or name in outputs)
        if copies.is_state(name):
            # No view: the new value would share the buffer of its input.
            name = copies.append("COPY", name, f"{name}:copy")
        elif graph.tensors[name].is_constant or given:
            name = copies.append("RESHAPE", name, f"{name}:copy")
        outputs.append(name)
    return copies.graph.with_(outputs=tuple(outputs))


def with_state_copies(graph: Graph, cpu: Cpu) -> Graph:
    """Return the graph with a copy appended for each state that no node can update in place.

    The outputs have buffers of their own already.
    """
    copies = _Copies(graph)
    # A state that another copy reads is copied before it is overwritten.
    taken = {
        state.name: copies.append("COPY", state.after, f"{state.name}:taken")
        for state in _takers_first(graph.states, copies)
        if copies.is_state(state.after) and copies.root(state.after) != state.name
    }
    graph = copies.graph.with_(
        states=tuple(replace(s, after=taken.get(s.name, s.after)) for s in graph.states)
    )
    lowering = Lowering(graph, cpu)
    #: Values with another buffer.
    placed = {copies.root(name) for name in graph.outputs}
    states = []
    for state in graph.states:
        root = copies.root(state.after)
        if root == state.name:
            after = state.name
        elif root not in placed and _is_written_in_time(graph, lowering, copies, state, root):
            after = state.after
        else:
            after = copies.append("COPY", state.after, f"{state.name}:after")
        placed.add(root)
        states.append(replace(state, after=after))
    return copies.graph.with_(states=tuple(states))


def _takers_first(states: Sequence[State], copies: _Copies) -> list[State]:
    """Return the states, each behind those that take its old value, as far as they form no circle.

    A shift register moves with a copy for each state then.
    """
    takers: dict[str, list[State]] = {}
    for state in states:
        takers.setdefault(copies.root(state.after), []).append(state)
    ordered: list[State] = []
    seen: set[str] = set()
    pending = [(state, False) for state in reversed(states)]
    while pending:
        state, are_placed = pending.pop()
        if are_placed:
            ordered.append(state)
        elif state.name not in seen:
            seen.add(state.name)
            pending.append((state, True))
            pending += [(taker, False) for taker in takers.get(state.name, ())]
    return ordered


class _Copies:
    """A graph to whose end copies are appended."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._states = {state.name for state in graph.states}
        self._viewed = {n.name: n.inputs[0] for n in graph.nodes if OPS[n.op].view}

    def root(self, name: str) -> str:
        """Return the tensor whose bytes ``name`` is a view of."""
        while name in self._viewed:
            name = self._viewed[name]
        return name

    def is_state(self, name: str) -> bool:
        """Return whether a tensor is the old value of a state."""
        return self.root(name) in self._states

    def append(self, op: str, name: str, copy: str) -> str:
        """Return the name of a copy of a tensor, which the graph has from now on."""
        graph = self.graph
        while copy in graph.tensors:
            copy += "_"
        source = graph.tensors[name]
        attrs = ReshapeAttributes(new_shape=source.shape) if op == "RESHAPE" else Attributes()
        self.graph = graph.with_(
            tensors={**graph.tensors, copy: replace(source, name=copy, data=None)},
            nodes=(*graph.nodes, Node(op, (name,), (copy,), attrs, index=len(graph.nodes))),
        )
        return copy


def _is_written_in_time(
    graph: Graph, lowering: Lowering, copies: _Copies, state: State, root: str
) -> bool:
    """Return whether the node that computes ``root`` can write it over the old value of
    ``state``.
    """
    readers = [
        position
        for position, node in enumerate(graph.nodes)
        if any(name and copies.root(name) == state.name for name in node.inputs)
        and not OPS[node.op].view
    ]
    writers = [p for p, node in enumerate(graph.nodes) if root in node.outputs]
    if not writers or any(reader > writers[0] for reader in readers):
        return False
    if writers[0] not in readers:
        return True
    node = graph.nodes[writers[0]]
    for call in lowering.calls(node):
        reads = reads_of(node, call)
        for position, name in enumerate(reads):
            if copies.root(name) == state.name:
                found = lowering.differences(
                    call, reads, node.outputs, position, node.outputs.index(root)
                )
                if found is None or not found.allow(0):
                    return False
    return True
