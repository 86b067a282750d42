"""Plans of the graphs that IF and WHILE call.

Each graph is planned like a model whose inputs and outputs are the caller's buffers. The node
becomes one of :mod:`hilc.external`, whose scratch is the workspace of the graph that needs the
most, since only one runs at a time, and, for a loop, the values that one iteration passes to the
next. A graph may have such nodes itself.

Nothing is written here: :mod:`hilc.codegen.control_flow` writes the functions of the nodes when the
code of the model is generated.

Estimates count the flash of every graph. Of the instructions they count one iteration of a loop,
since no file says how many there are, and the longest branch of an IF.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hilc.external import EXTERNAL, ExternalModule
from hilc.ir import Graph, Node, Tensor
from hilc.lowering.choice import CostEstimate
from hilc.memory.allocate import align
from hilc.memory.plan import Planner, Program
from hilc.ops import OPS
from hilc.ops.control_flow import branches, parts
from hilc.ops.external import ExternalAttributes
from hilc.schedule.estimate import as_called
from hilc.schedule.search import search
from hilc.support.identifiers import sanitise, shorten
from hilc.target import Cpu
from hilc.transforms import run_passes
from hilc.transforms.partition import extract

#: Who makes the functions, where a layer's description names a generator.
GENERATOR = "control flow"


@dataclass(frozen=True)
class CalledGraph:
    """A graph that a node calls."""

    program: Program
    #: Cost of a call, with the graphs that it calls itself.
    estimate: CostEstimate


@dataclass(frozen=True)
class LoopMemory:
    """Scratch of a loop, in bytes: the variables of the next iteration, the condition's result, and
    the workspace of the graph that runs.
    """

    #: Offset of each variable.
    places: tuple[int, ...]
    flag: int
    workspace: int

    @classmethod
    def of(cls, variables: Sequence[Tensor]) -> LoopMemory:
        """Return the scratch of a loop with these variables."""
        places: list[int] = []
        end = flag = 0
        for tensor in variables:
            places.append(end)
            flag = end + tensor.nbytes
            end = align(flag)
        return cls(tuple(places), align(flag), align(flag) + align(1))


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedControl(ExternalModule):
    """A node that calls graphs, as it is planned: its ``source`` is empty, ``constants`` are its
    constant operands, and ``code_bytes`` has the flash of the graphs with their constants.
    """

    source: str = ""
    node: Node
    #: The node alone, with the tensors that it reads and writes.
    graph: Graph
    #: In the order in which the operator states them.
    called: tuple[CalledGraph, ...]
    #: The goal that the graphs are planned for, which determines the code that layers share.
    goal: str

    @property
    def variables(self) -> list[Tensor]:
        """The node's outputs: of a loop, its variables."""
        return [self.graph.tensors[name] for name in self.node.outputs]


def constant_names(graph: Graph, node: Node, symbol: str) -> dict[str, str]:
    """Return the C names of the constant operands of a node whose function is ``symbol``.

    Variables of a loop that begin as zeros need no constant.
    """
    control = OPS[node.op].control
    is_loop = control is not None and control.loops
    read = node.inputs[len(node.outputs) :] if is_loop else node.inputs
    return {
        name: f"{symbol}_constant_{i}"
        for i, name in enumerate(dict.fromkeys(node.inputs))
        if (data := graph.tensors[name].data) is not None and (name in read or any(data.tobytes()))
    }


def with_control_flow(graph: Graph, cpu: Cpu, *, goal: str, api: str) -> Graph:
    """Return the graph with a call in the place of each node that calls graphs.

    Each graph is planned for ``goal`` on its own; ``api`` is the convention of the model's
    operators.
    """
    called = [position for position, node in enumerate(graph.nodes) if OPS[node.op].control]
    if not called:
        return graph
    nodes = list(graph.nodes)
    stem = (shorten(sanitise(graph.name)) or "default").lower()
    for number, position in enumerate(called):
        node = graph.nodes[position]
        symbol = f"tvmgen_{stem}_{node.op.lower()}_{number}"
        subgraph = extract(graph, [position], symbol.removeprefix("tvmgen_"))
        # All outputs, as the graphs write all of them.
        subgraph = subgraph.with_(outputs=node.outputs)
        module = _planned(subgraph, node, symbol, cpu, goal)
        attrs = ExternalAttributes(graph=subgraph, module=module, generator=GENERATOR, api=api)
        nodes[position] = Node(EXTERNAL, subgraph.inputs, node.outputs, attrs, node.index)
    return graph.with_(nodes=tuple(nodes))


def _planned(graph: Graph, node: Node, symbol: str, cpu: Cpu, goal: str) -> PlannedControl:
    """Return the plan of a node, which ``graph`` has alone."""
    control = OPS[node.op].control
    assert control is not None
    stated = (
        zip(parts(node), ("condition", "body"), strict=True)
        if control.loops
        else zip(branches(node), ("then", "else"), strict=True)
    )
    called = tuple(
        _called(own.with_(name=f"{graph.name}_{name}"), cpu, goal) for own, name in stated
    )
    instructions = [each.estimate.instructions for each in called]
    scratch = max(each.program.workspace_bytes for each in called)
    if control.loops:
        scratch += LoopMemory.of([graph.tensors[name] for name in node.outputs]).workspace
    constants = {
        c_name: data
        for name, c_name in constant_names(graph, node, symbol).items()
        if (data := graph.tensors[name].data) is not None
    }
    return PlannedControl(
        symbol=symbol,
        constants=constants,
        node=node,
        graph=graph,
        called=called,
        goal=goal,
        scratch_bytes=scratch,
        code_bytes=sum(each.estimate.flash_bytes for each in called),
        instructions=sum(instructions) if control.loops else max(instructions),
    )


def _called(graph: Graph, cpu: Cpu, goal: str) -> CalledGraph:
    """Return the plan of a called graph: it passes plain pointers between its own layers."""
    prepared = with_control_flow(run_passes(graph), cpu, goal=goal, api="unpacked")
    found = search(Planner(prepared, cpu), optimize=goal)
    return CalledGraph(found.program, as_called(found.report.chosen, found.program))
