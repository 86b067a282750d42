"""Functions of IF and WHILE, which call those of their graphs.

Each graph that :mod:`hilc.schedule.called` planned becomes a C file of its own, in plain code a
part of the model's file: its layers, and a main that calls them. The function of the node calls
these mains. A graph may have such nodes itself: their files are the node's too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hilc.codegen.arguments import main_arguments
from hilc.codegen.cwriter import C_TYPES, CONSTANT, c_array, c_comment, c_pointer, c_wrapped
from hilc.codegen.dialects import CONVENTIONS
from hilc.codegen.externals import constants_bytes, module_source
from hilc.codegen.naming import make_names
from hilc.codegen.operators import write_operators
from hilc.codegen.options import Options
from hilc.codegen.statuses import ControlModule, can_fail, is_endless, loop_bounds
from hilc.external import ExternalCall, ExternalModule
from hilc.ir.loop_bounds import FIRST_STATUS, LoopBound
from hilc.memory.plan import Program, Step
from hilc.ops import OPS
from hilc.ops.control_flow import WhileAttributes
from hilc.ops.external import ExternalAttributes
from hilc.schedule.called import CalledGraph, LoopMemory, PlannedControl, constant_names


def with_written_calls(program: Program, style: str = "tvm") -> Program:
    """Return the program with the functions of its nodes that call graphs written, in the style of
    the model's code.
    """
    return _written(program, style, FIRST_STATUS)


def _written(program: Program, style: str, status: int) -> Program:
    """Return the program; its first loop with a bound has the status ``status``."""
    steps: list[Step] = []
    for step in program.steps:
        call = step.call
        if isinstance(call, ExternalCall) and isinstance(call.module, PlannedControl):
            api = ExternalAttributes.of(step.node).api
            module = _Writer(_named(call.module, style), api, style, status).module()
            status -= len(module.bounds)
            step = replace(step, call=replace(call, module=module))
        steps.append(step)
    return replace(program, steps=tuple(steps))


def _named(planned: PlannedControl, style: str) -> PlannedControl:
    """Return the node with the names of the style: plain code has none of TVM's."""
    if style == "tvm":
        return planned
    prefix = "tvmgen_"
    constants = {name.removeprefix(prefix): data for name, data in planned.constants.items()}
    return replace(planned, symbol=planned.symbol.removeprefix(prefix), constants=constants)


@dataclass(frozen=True)
class _Function:
    """The main of a graph."""

    name: str
    program: Program
    #: Its C file, and those of the functions that it calls.
    texts: tuple[str, ...]
    #: Headers that these need, where they are parts of the model's file.
    headers: tuple[str, ...]
    #: Every global function in them.
    functions: tuple[str, ...]
    constants_bytes: int
    prototype: str
    options: Options

    def call(self, head: str, inputs: Sequence[str], outputs: Sequence[str], workspace: str) -> str:
        """Return the C statement of a call, which begins with ``head``."""
        given = {"input": inputs, "output": outputs}
        passed = []
        for argument in main_arguments(self.program, self.options):
            if argument.kind in given:
                passed.append(given[argument.kind][argument.index])
            else:
                passed.append(workspace if argument.shape != (0,) else "NULL")
        return c_wrapped(f"{head}{self.name}(", passed, ");\n")


class _Writer:
    """Writes the function of a node, by the convention ``api`` of the model's operators.

    The first of its loops with a bound returns ``status`` beyond it.
    """

    def __init__(self, planned: PlannedControl, api: str, style: str, status: int) -> None:
        self._planned = planned
        self._style = style
        self._status = status
        self._api = api
        self._graph = graph = planned.graph
        node = planned.node
        variable = {name: f"input{i}" for i, name in enumerate(graph.inputs)}
        constants = constant_names(graph, node, planned.symbol)
        cast = "" if style == "plain" else "(void *)"
        fixed = {name: f"{cast}{constant}" for name, constant in constants.items()}
        #: C expressions of the node's inputs; empty for a variable of a loop that begins as zeros.
        self._inputs = [{**variable, **fixed}.get(name, "") for name in node.inputs]
        self._outputs = [f"output{i}" for i in range(len(node.outputs))]

    def module(self) -> ControlModule:
        """Return the node's function, with all that it calls."""
        planned = self._planned
        control = OPS[planned.node.op].control
        assert control is not None
        bounds: list[LoopBound] = []
        own = WhileAttributes.of(planned.node).bound if control.loops else None
        if own is not None:
            bounds.append(own)
        functions: list[_Function] = []
        for called in planned.called:
            functions.append(self._function(called, self._status - len(bounds)))
            bounds += loop_bounds(functions[-1].program)
        body = self._while(*functions) if control.loops else self._if(*functions)
        texts = [text for function in functions for text in function.texts]
        names = [name for function in functions for name in function.functions]
        prototypes = "".join(f"{function.prototype};\n" for function in functions)
        is_part = self._style == "plain"
        function = CONVENTIONS["plain" if is_part else self._api].external_function(
            planned.symbol,
            [self._graph.tensors[name] for name in self._graph.inputs],
            [self._graph.tensors[name] for name in planned.node.outputs],
            bool(planned.scratch_bytes),
            body,
        )
        source = f"#include <stddef.h>\n#include <string.h>\n\n{prototypes}\n{function}"
        if is_part:
            arrays = (c_array(n, array, CONSTANT) for n, array in planned.constants.items())
            source = "\n".join([*texts, *arrays, f"{self._comment()}{function}"])
        part_bytes = sum(function.constants_bytes for function in functions)
        return ControlModule(
            planned.symbol,
            source=source,
            constants=planned.constants,
            functions=() if is_part else tuple(names),
            scratch_bytes=planned.scratch_bytes,
            parts=() if is_part else tuple(texts),
            bounds=tuple(bounds),
            fails=any(can_fail(function.program) for function in functions),
            is_endless=(control.loops and own is None)
            or any(is_endless(function.program) for function in functions),
            includes=tuple(h for function in functions for h in function.headers),
            is_part=is_part,
            part_bytes=part_bytes,
            code_bytes=max(0, planned.code_bytes - part_bytes),
            instructions=planned.instructions,
        )

    def _comment(self) -> str:
        """Return a comment on the node's function."""
        called = ", ".join(each.program.graph.name for each in self._planned.called)
        return c_comment(f"{self._planned.node.op} {self._planned.node.name}: calls {called}.")

    def _if(self, then: _Function, other: _Function) -> str:
        calls = [
            function.call(f"{indent}return ", self._inputs[1:], self._outputs, "scratch")
            for function, indent in ((then, " " * 8), (other, " " * 4))
        ]
        flag = self._inputs[0] if self._style == "plain" else f"(const uint8_t *){self._inputs[0]}"
        return f"    if (*{flag} != 0u) {{\n{calls[0]}    }}\n{calls[1]}"

    def _while(self, condition: _Function, body_function: _Function) -> str:
        variables = self._planned.variables
        memory = LoopMemory.of(variables)
        following = [f"&memory[{place}]" for place in memory.places]
        if self._style == "plain":
            following = [
                c_pointer(text, "uint8_t", C_TYPES[tensor.dtype])
                for text, tensor in zip(following, variables, strict=True)
            ]
        # The condition may update the last variables.
        kept = slice(len(variables) + 1 - len(condition.program.graph.outputs), None)
        flags = [f"&memory[{memory.flag}]", *following[kept]]
        operands = [*self._outputs, *self._inputs[len(variables) :]]
        head, workspace = "        status = ", f"&memory[{memory.workspace}]"
        checked = condition.call(head, operands, flags, workspace)
        computed = body_function.call(head, operands, following, workspace)

        def copies(sources: Sequence[str], indent: str, of: slice) -> str:
            rows = list(zip(self._outputs, sources, variables, strict=True))[of]
            return "".join(
                f"{indent}memcpy({name}, {source}, {tensor.nbytes});\n"
                if source
                else f"{indent}memset({name}, 0, {tensor.nbytes});\n"
                for name, source, tensor in rows
            )

        every = slice(None)
        bound = WhileAttributes.of(self._planned.node).bound
        counter = limit = ""
        cast = "" if self._style == "plain" else "(uint8_t *)"
        if bound is not None:
            counter = f"    uint32_t turns = {bound.turns}u;\n"
            limit = (
                "        /* The loop exceeds its bound. */\n"
                f"        if (turns == 0u) {{\n            return {self._status};\n        }}\n"
                "        turns--;\n"
            )
        return (
            f"    uint8_t *const memory = {cast}scratch;\n{counter}    int32_t status;\n\n"
            f"{copies(self._inputs[: len(variables)], '    ', every)}"
            "    for (;;) {\n"
            f"{checked}"
            "        if (status != 0) {\n            return status;\n        }\n"
            f"{copies(following, '        ', kept)}"
            f"        if (memory[{memory.flag}] == 0u) {{\n            return 0;\n        }}\n"
            f"{limit}"
            f"{computed}"
            "        if (status != 0) {\n            return status;\n        }\n"
            f"{copies(following, '        ', every)}    }}\n"
        )

    def _function(self, called: CalledGraph, status: int) -> _Function:
        """Return the main of a graph that the node calls, whose first loop has ``status``."""
        program = _written(called.program, self._style, status)
        # Called by pointers, whatever the model's own convention is.
        options = Options(
            api="unpacked",
            interface="c",
            pools="external",
            optimize=self._planned.goal,
            style=self._style,
        )
        names = replace(make_names(program, options.entry), called=True)
        source = write_operators(program, names, options)
        inner, texts = list[ExternalModule](), [source.text]
        for step in program.steps:
            if isinstance(step.call, ExternalCall):
                module = step.call.module
                inner.append(module)
                if names.plain:
                    continue  # the source has it
                texts += [module_source(program, step, module), *module.parts]
        own = [operator.function for operator in source.operators if not names.plain]
        prototype = CONVENTIONS["unpacked"].main_prototype(
            names.main, main_arguments(program, options)
        )
        return _Function(
            name=names.main,
            program=program,
            texts=tuple(texts),
            headers=source.headers,
            functions=(names.main, *own, *(n for m in inner for n in m.global_names)),
            constants_bytes=source.constants_bytes + sum(map(constants_bytes, inner)),
            prototype=prototype,
            options=options,
        )
