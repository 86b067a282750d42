"""IF and WHILE as functions that call those of their graphs.

Each graph is planned like a model whose inputs and outputs are the caller's buffers, and becomes a
C file of its own: its layers, and a main that calls them. The node becomes one of
:mod:`hilc.external` whose function calls these mains; its scratch is the workspace of the graph
that needs the most, since only one runs at a time, and, for a loop, the values that one iteration
passes to the next.
A graph may have such nodes itself: their files are the node's too.

Estimates count the flash of every graph. Of the instructions they count one iteration of a loop,
since no file says how many there are, and the longest branch of an IF.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hilc.codegen.arguments import main_arguments
from hilc.codegen.dialects import CONVENTIONS
from hilc.codegen.externals import constants_bytes, module_source
from hilc.codegen.naming import make_names
from hilc.codegen.operators import write_operators
from hilc.codegen.options import Options
from hilc.external import EXTERNAL, ExternalCall, ExternalModule
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


def with_control_flow(graph: Graph, cpu: Cpu, options: Options) -> Graph:
    """Return the graph with a call in the place of each node that calls graphs.

    Each graph is planned for the goal of ``options`` on its own.
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
        module = _Writer(subgraph, node, symbol, cpu, options).module()
        attrs = ExternalAttributes(
            graph=subgraph, module=module, generator=GENERATOR, api=options.api
        )
        nodes[position] = Node(EXTERNAL, subgraph.inputs, node.outputs, attrs, node.index)
    return graph.with_(nodes=tuple(nodes))


@dataclass(frozen=True)
class _Function:
    """The main of a graph."""

    name: str
    program: Program
    #: Its C file, and those of the functions that it calls.
    texts: tuple[str, ...]
    #: Every global function in them.
    functions: tuple[str, ...]
    constants_bytes: int
    prototype: str
    options: Options
    #: Cost of a call, with the graphs that it calls itself.
    estimate: CostEstimate

    @property
    def code_bytes(self) -> int:
        """Flash without the constants, by estimate."""
        return max(0, self.estimate.flash_bytes - self.constants_bytes)

    def call(self, inputs: Sequence[str], outputs: Sequence[str], workspace: str) -> str:
        """Return the C expression of a call."""
        given = {"input": inputs, "output": outputs}
        passed = []
        for argument in main_arguments(self.program, self.options):
            if argument.kind in given:
                passed.append(given[argument.kind][argument.index])
            else:
                passed.append(workspace if argument.shape != (0,) else "NULL")
        return f"{self.name}({', '.join(passed)})"


def _places(tensors: Sequence[Tensor]) -> Iterator[int]:
    """Yield the offsets of consecutive tensors, in bytes."""
    end = 0
    for tensor in tensors:
        yield end
        end = align(end + tensor.nbytes)


class _Writer:
    """Writes the function of a node."""

    def __init__(self, graph: Graph, node: Node, symbol: str, cpu: Cpu, options: Options) -> None:
        self._options = options
        self._graph = graph
        self._node = node
        self._symbol = symbol
        self._cpu = cpu
        #: C expressions of the node's inputs.
        variable = {name: f"input{i}" for i, name in enumerate(graph.inputs)}
        self._constants = {
            name: f"{symbol}_constant_{i}"
            for i, name in enumerate(dict.fromkeys(node.inputs))
            if graph.tensors[name].is_constant
        }
        fixed = {name: f"(void *){constant}" for name, constant in self._constants.items()}
        self._inputs = [{**variable, **fixed}[name] for name in node.inputs]
        self._outputs = [f"output{i}" for i in range(len(node.outputs))]

    def module(self) -> ExternalModule:
        """Return the node's function, with all that it calls."""
        control = OPS[self._node.op].control
        assert control is not None
        body, functions, scratch, instructions = self._while() if control.loops else self._if()
        texts = [text for function in functions for text in function.texts]
        names = [name for function in functions for name in function.functions]
        prototypes = "".join(f"{function.prototype};\n" for function in functions)
        function = CONVENTIONS[self._options.api].external_function(
            self._symbol, len(self._graph.inputs), len(self._outputs), bool(scratch), body
        )
        source = f"#include <stddef.h>\n#include <string.h>\n\n{prototypes}\n{function}"
        data = {n: self._graph.tensors[n].data for n in self._constants}
        return ExternalModule(
            self._symbol,
            source=source,
            constants={self._constants[n]: a for n, a in data.items() if a is not None},
            functions=tuple(names),
            scratch_bytes=scratch,
            parts=tuple(texts),
            part_bytes=sum(function.constants_bytes for function in functions),
            code_bytes=sum(function.code_bytes for function in functions),
            instructions=instructions,
        )

    def _if(self) -> tuple[str, list[_Function], int, int]:
        functions = [
            self._function(graph, name)
            for graph, name in zip(branches(self._node), ("then", "else"), strict=True)
        ]
        calls = [f.call(self._inputs[1:], self._outputs, "scratch") for f in functions]
        body = (
            f"    if (*(const uint8_t *){self._inputs[0]} != 0) {{\n        return {calls[0]};\n"
            f"    }}\n    return {calls[1]};\n"
        )
        longest = max(f.estimate.instructions for f in functions)
        return body, functions, max(f.program.workspace_bytes for f in functions), longest

    def _while(self) -> tuple[str, list[_Function], int, int]:
        condition, body_function = (
            self._function(graph, name)
            for graph, name in zip(parts(self._node), ("condition", "body"), strict=True)
        )
        variables = [self._graph.tensors[name] for name in self._node.outputs]
        places = list(_places(variables))
        flag = align(places[-1] + variables[-1].nbytes) if variables else 0
        workspace = flag + align(1)
        following = [f"&memory[{place}]" for place in places]
        # The condition may update the last variables.
        kept = slice(len(variables) + 1 - len(condition.program.graph.outputs), None)
        flags = [f"&memory[{flag}]", *following[kept]]
        checked = condition.call(self._outputs, flags, f"&memory[{workspace}]")
        computed = body_function.call(self._outputs, following, f"&memory[{workspace}]")

        def copies(sources: Sequence[str], indent: str, of: slice) -> str:
            rows = list(zip(self._outputs, sources, variables, strict=True))[of]
            return "".join(
                f"{indent}memcpy({name}, {source}, {tensor.nbytes});\n"
                for name, source, tensor in rows
            )

        every = slice(None)
        body = (
            "    uint8_t *const memory = (uint8_t *)scratch;\n"
            f"{copies(self._inputs, '    ', every)}"
            "    for (;;) {\n"
            f"        if ({checked} != 0) {{\n            return -1;\n        }}\n"
            f"{copies(following, '        ', kept)}"
            f"        if (memory[{flag}] == 0) {{\n            return 0;\n        }}\n"
            f"        if ({computed} != 0) {{\n            return -1;\n        }}\n"
            f"{copies(following, '        ', every)}    }}\n"
        )
        most = max(f.program.workspace_bytes for f in (condition, body_function))
        once = condition.estimate.instructions + body_function.estimate.instructions
        return body, [condition, body_function], workspace + most, once

    def _function(self, graph: Graph, name: str) -> _Function:
        """Return the main of a graph that the node calls."""
        named = graph.with_(name=f"{self._graph.name}_{name}")
        goal = self._options.optimize
        # Called by pointers, whatever the model's own convention is.
        options = Options(api="unpacked", interface="c", pools="external", optimize=goal)
        prepared = with_control_flow(run_passes(named), self._cpu, options)
        found = search(Planner(prepared, self._cpu), optimize=goal)
        program = found.program
        names = make_names(program)
        source = write_operators(program, names, options)
        inner, texts = list[ExternalModule](), [source.text]
        for step in program.steps:
            if isinstance(step.call, ExternalCall):
                module = step.call.module
                inner.append(module)
                texts += [module_source(program, step, module), *module.parts]
        own = [operator.function for operator in source.operators]
        prototype = CONVENTIONS["unpacked"].main_prototype(
            names.main, main_arguments(program, options)
        )
        return _Function(
            name=names.main,
            program=program,
            texts=tuple(texts),
            functions=(names.main, *own, *(n for m in inner for n in m.global_names)),
            constants_bytes=source.constants_bytes + sum(map(constants_bytes, inner)),
            prototype=prototype,
            options=options,
            estimate=as_called(found.report.chosen, program),
        )
