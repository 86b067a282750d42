"""Partition of a graph between external code generators (:mod:`hilc.external`) and the compiler."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hilc.errors import InputError
from hilc.external import (
    EXPORTABLE,
    EXTERNAL,
    Device,
    ExternalCodegen,
    ExternalModule,
    blaming,
)
from hilc.ir import Graph, Node
from hilc.ops.external import ExternalAttributes
from hilc.ops.verify import describe, verify
from hilc.support.identifiers import sanitise, shorten
from hilc.target import Cpu
from hilc.target.objects import require_defined


def partition(
    graph: Graph,
    externals: Sequence[ExternalCodegen],
    cpu: Cpu,
    api: str,
    module_name: str,
) -> Graph:
    """Return the graph with a node ``EXTERNAL`` in place of each group that a generator claims.

    The generators are called in order; each gets the nodes that the ones before did not claim.
    ``api`` is the calling convention of operators, ``module_name`` names the model in the
    functions' names. Raise :class:`~hilc.errors.InputError` for a claim or a generated module that
    is invalid.
    """
    module = (shorten(sanitise(module_name)) or "default").lower()
    counts: Counter[str] = Counter()
    modules: list[ExternalModule] = []
    for generator in externals:
        with blaming("a code generator has no name"):
            name = generator.name
        if sanitise(name) != name or not name:
            raise InputError(
                f"a code generator has the invalid name {name!r}",
                "use letters, digits and underscores",
            )
        with blaming(f"the generator {name!r} failed in claim()"):
            # Positions may be numpy integers; other types are refused below.
            claims = [
                [p.__index__() if hasattr(p, "__index__") else p for p in group]
                for group in generator.claim(graph)
            ]
        _check_claims(graph, name, claims)
        nodes: list[Node] = []
        for unit in _in_order(graph, name, claims):
            if isinstance(unit, int):
                nodes.append(graph.nodes[unit])
                continue
            symbol = f"tvmgen_{module}_{name}_main_{counts[name]}"
            counts[name] += 1
            subgraph = extract(graph, unit, symbol)
            label = ", ".join(describe(node) for node in subgraph.nodes)
            with blaming(f"the generator {name!r} failed for {label}"):
                made = generator.generate(subgraph, symbol, cpu, api)
            if not isinstance(made, ExternalModule):
                raise InputError(
                    f"the generator {name!r} returned a {type(made).__name__} for {label}",
                    "return a hilc.external.ExternalModule from generate()",
                )
            modules.append(made)
            if made.exportable:
                _check_module(made, symbol, cpu, name)
            attrs = ExternalAttributes(graph=subgraph, module=made, generator=name, api=api)
            first = subgraph.nodes[0].index
            nodes.append(Node(EXTERNAL, subgraph.inputs, subgraph.outputs, attrs, index=first))
        graph = graph.with_(nodes=tuple(nodes))
    _require_exportable(modules)
    _require_one_kind(modules)
    graph = _without_unused(graph)
    verify(graph)
    return graph


def extract(graph: Graph, positions: Iterable[int], name: str) -> Graph:
    """Return the nodes at ``positions`` as a graph, constants included.

    Its inputs are in the order of first use, its outputs (read by other nodes or by the caller) in
    the order in which they are written.
    """
    inside = sorted(positions)
    nodes = tuple(graph.nodes[position] for position in inside)
    written = [name for node in nodes for name in node.outputs]
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name)
    outside = set(graph.results)
    members = set(inside)
    for position, node in enumerate(graph.nodes):
        if position not in members:
            outside.update(node.inputs)
    inputs = [n for n in read if not graph.tensors[n].is_constant and n not in written]
    return Graph(
        name,
        {n: graph.tensors[n] for n in (*read, *written)},
        nodes,
        tuple(inputs),
        tuple(n for n in written if n in outside),
    )


def _check_claims(graph: Graph, generator: str, claims: Sequence[Sequence[int]]) -> None:
    """Raise for claims that are not groups of nodes."""

    def refuse(what: str, hint: str) -> None:
        raise InputError(f"the generator {generator!r} claims {what}", hint)

    owner: dict[int, int] = {}
    for number, group in enumerate(claims):
        if not group:
            refuse(f"group {number}, which is empty", "drop it")
        for position in group:
            if not isinstance(position, int) or not 0 <= position < len(graph.nodes):
                refuse(
                    f"position {position!r}",
                    f"the graph's nodes have positions 0 to {len(graph.nodes) - 1}",
                )
            label = describe(graph.nodes[position])
            if graph.nodes[position].op == EXTERNAL:
                taken = ExternalAttributes.of(graph.nodes[position]).generator
                refuse(f"{label}, which {taken!r} has", "claim no node EXTERNAL")
            if position in owner:
                refuse(
                    f"{label} in group {owner[position]} and in group {number}",
                    "put a node into one group, once",
                )
            owner[position] = number
        apart = _not_connected(graph, group)
        if apart is not None:
            refuse(
                f"{describe(graph.nodes[apart[0]])} and {describe(graph.nodes[apart[1]])} as group "
                f"{number}, but no tensor connects them",
                "make them two groups, or claim the layers between them",
            )
        extracted = extract(graph, group, "")
        if not extracted.outputs:
            refuse(f"group {number}, whose results have no reader", "drop it")


def _not_connected(graph: Graph, group: Sequence[int]) -> tuple[int, int] | None:
    """Return two nodes of the group that no chain of shared tensors connects; None if there are
    none.
    """
    touching: dict[str, list[int]] = {}
    for position in group:
        node = graph.nodes[position]
        for name in (*node.inputs, *node.outputs):
            if name and not graph.tensors[name].is_constant:
                touching.setdefault(name, []).append(position)
    reached, pending = {group[0]}, [group[0]]
    while pending:
        node = graph.nodes[pending.pop()]
        for name in (*node.inputs, *node.outputs):
            fresh = set(touching.get(name, ())) - reached
            reached |= fresh
            pending += fresh
    missed = sorted(set(group) - reached)
    return (group[0], missed[0]) if missed else None


def _in_order(
    graph: Graph, generator: str, claims: Sequence[Sequence[int]]
) -> list[int | list[int]]:
    """Return the graph's nodes, with groups in place of theirs, in topological order.

    Nodes keep their order as far as the groups permit.
    """
    units: dict[int, int | list[int]] = dict(enumerate(range(len(graph.nodes))))
    unit_of = list(range(len(graph.nodes)))
    for group in claims:
        first = min(group)
        for position in group:
            del units[position]
            unit_of[position] = first
        units[first] = sorted(group)
    writer = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    waits: dict[int, set[int]] = {unit: set() for unit in units}
    for position, node in enumerate(graph.nodes):
        needed = {unit_of[writer[name]] for name in node.inputs if name in writer}
        waits[unit_of[position]] |= needed - {unit_of[position]}
    followers: dict[int, list[int]] = {unit: [] for unit in units}
    for unit, needed in waits.items():
        for other in needed:
            followers[other].append(unit)
    ready = [unit for unit, needed in waits.items() if not needed]
    heapq.heapify(ready)
    order: list[int | list[int]] = []
    left = {unit: len(needed) for unit, needed in waits.items()}
    while ready:
        unit = heapq.heappop(ready)
        order.append(units[unit])
        del left[unit]
        for follower in followers[unit]:
            left[follower] -= 1
            if left[follower] == 0:
                heapq.heappush(ready, follower)
    if left:
        _refuse_cycle(graph, generator, {unit: waits[unit] & set(left) for unit in left}, units)
    return order


def _refuse_cycle(
    graph: Graph,
    generator: str,
    waits: dict[int, set[int]],
    units: dict[int, int | list[int]],
) -> None:
    """Raise for units that depend on each other in a cycle."""
    path = [min(waits)]
    while True:
        following = min(waits[path[-1]])
        if following in path:
            break
        path.append(following)
    cycle = path[path.index(following) :]
    # From producers to consumers, beginning with a group.
    cycle.reverse()
    start = next(i for i, unit in enumerate(cycle) if isinstance(units[unit], list))
    cycle = cycle[start:] + cycle[:start]

    def text(unit: int) -> str:
        members = units[unit]
        if isinstance(members, int):
            return describe(graph.nodes[members])
        return f"the group of {', '.join(describe(graph.nodes[m]) for m in members)}"

    chain = "".join(f", which needs {text(unit)}" for unit in [*reversed(cycle[1:]), cycle[0]])
    raise InputError(
        f"the generator {generator!r} claims {text(cycle[0])}{chain} first",
        "split the group, or claim the nodes between its nodes too "
        "(hilc.external.connected_groups returns valid groups)",
    )


def _check_module(module: ExternalModule, symbol: str, cpu: Cpu, generator: str) -> None:
    if module.symbol != symbol:
        raise InputError(
            f"the generator {generator!r} returned the function {module.symbol!r}, but "
            f"{symbol!r} is required",
            "use the symbol that generate() was called with",
        )
    label = f"the module {symbol!r} of the generator {generator!r}"
    if module.source is not None:
        if symbol not in module.source:
            raise InputError(
                f"{label}: its source does not define {symbol!r}",
                "define the function with the name that generate() was called with",
            )
    elif module.object is not None:
        require_defined(module.object, symbol, cpu, label)
    for name, data in module.shared_objects.items():
        require_defined(data, None, cpu, f"{label}: {name}")


def _require_exportable(modules: Sequence[ExternalModule]) -> None:
    """Raise for modules that are neither C nor objects, with TVM's own message."""
    bad = [module for module in modules if not module.exportable]
    if bad:
        names = ", ".join(m.symbol or f"(module type_key={m.type_key})" for m in bad)
        raise InputError(
            f"These {len(bad)} modules are not exportable to C-runtime: {names}",
            f"return C source or an object, with the type_key {' or '.join(EXPORTABLE)}",
        )


def _require_one_kind(modules: Sequence[ExternalModule]) -> None:
    """Raise for two kinds of devices whose contexts would share a field."""
    owners: dict[str, Device] = {}
    for device in (module.device for module in modules if module.device is not None):
        other = owners.setdefault(device.field, device)
        if replace(other, program="") != replace(device, program=""):
            raise InputError(
                f"{_kind(other)} and {_kind(device)} would both have the context field "
                f"{device.field!r}",
                "give different devices different names or indices",
            )


def _kind(device: Device) -> str:
    index = "" if device.index is None else f" number {device.index}"
    hooks = "with" if device.use_device_api else "without"
    return f"the device {device.name!r}{index} {hooks} a device API"


def _without_unused(graph: Graph) -> Graph:
    """Return the graph without the tensors that only the groups use."""
    used = {name for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    used.update(graph.given, graph.results)
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in used}
    return graph.with_(tensors=tensors)
