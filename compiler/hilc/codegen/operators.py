"""The operators of a module in C: constants, parameters, one function a layer, and the main.

This is ``<name>_lib1.c``. Each layer's function calls a kernel of the run time with a constant
parameter struct. The C compiler sees both and folds every constant; where several layers share a
body (:mod:`hilc.codegen.bodies`), it takes what they differ in. A layer that another code generator
made has a function that calls that one's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hilc.codegen.bodies import shared_bodies
from hilc.codegen.calls import (
    BACKEND_API,
    PACKED_CALL,
    Argument,
    Operator,
    Shapes,
    allocate_workspace,
    argument_data,
    declare_arguments,
    free_workspace,
    guarded_call,
    packed_head,
    pass_handle,
    pass_tensor,
    workspace_guard,
)
from hilc.codegen.constants import ConstantPool, pool_constants, struct_tag, write_pool
from hilc.codegen.cwriter import c_comment, c_includes, c_struct_initialiser, c_wrapped
from hilc.codegen.main import device_guard, device_hooks, program_devices, write_lookup, write_main
from hilc.codegen.names import CONSTANT_POOL, MODULE_CONTEXT, Names
from hilc.codegen.options import Options
from hilc.codegen.streams import ROWS, write_group
from hilc.external import ExternalCall
from hilc.fusion.call import StreamCall, constant_arrays
from hilc.ir import Node, Tensor
from hilc.lowering.kernels import KernelCall
from hilc.memory.plan import Program, Step

__all__ = ["Operator", "Source", "display_name", "write_operators"]

# The members of the constant pool: of the file's own object, or of the one that a layer is given.
_OWN_CONSTANT = f"{CONSTANT_POOL}."
_GIVEN_CONSTANT = "pool->"


@dataclass(frozen=True)
class Source:
    """The text of a C file, with what the rest of the library says about it."""

    text: str
    operators: tuple[Operator, ...]
    constants: ConstantPool

    @property
    def constants_bytes(self) -> int:
        return self.constants.nbytes


def write_operators(program: Program, names: Names, options: Options) -> Source:
    """``<name>_lib1.c``."""
    writer = _Writer(program, names, options)
    operators = tuple(writer.operator(index) for index in range(len(program.steps)))
    shapes = Shapes()
    body = "\n".join(
        [
            *(writer.layer(index, operator, shapes) for index, operator in enumerate(operators)),
            write_main(program, names, options, operators, shapes),
            *write_lookup(writer.constants, names, options),
        ]
    )
    parts = [
        c_comment(f'The operators of "{program.graph.name}", and the main that calls them.')
        + _includes(program, body),
        *write_pool(writer.constants, names, writer.external),
        *([f"extern void *{MODULE_CONTEXT};\n"] if MODULE_CONTEXT in body else []),
        *([shapes.definitions()] if shapes.definitions() else []),
        *(body.definition() for body in dict.fromkeys(writer.shared.values())),
        body,
    ]
    return Source("\n".join(parts), operators, writer.constants)


def _includes(program: Program, body: str) -> str:
    calls: list[object] = []
    for step in program.steps:
        stages = step.call.stages if isinstance(step.call, StreamCall) else ()
        calls += [stage.call for stage in stages] or [step.call]
    kernels = {call.kernel.header for call in calls if isinstance(call, KernelCall)}
    rows = [ROWS] if "hil_move_rows" in body else []
    packed = [PACKED_CALL] if "TVMValue" in body else []
    backend = [BACKEND_API] if "TVMBackend" in body else []
    return c_includes("stddef.h", "stdint.h", *sorted([*kernels, *packed, *rows]), *backend)


class _Writer:
    """Writes the layers of a program."""

    def __init__(self, program: Program, names: Names, options: Options) -> None:
        self.external = options.constants == "external"
        self.constants = pool_constants(program)
        self.shared = shared_bodies(program, options.optimize)
        self._program = program
        self._names = names
        # How the run time knows the module: TVM's in C++ passes no handle but sets a variable.
        self._module = MODULE_CONTEXT if options.runtime == "cpp" else "resource_handle"
        self._packed = options.api == "packed"
        self._devices = [device.field for device in program_devices(program)]
        self._pool = _GIVEN_CONSTANT if self.external else _OWN_CONSTANT

    def operator(self, index: int) -> Operator:
        """The function of step ``index`` and what it takes."""
        step, places = self._program.steps[index], self._program.places
        reads = [name for name in step.inputs if places[name].kind != "constant"]
        arguments = [self._argument(name) for name in (*reads, *step.outputs)]
        if (place := step.scratch) is not None:
            shape = (step.call.scratch_bytes,)
            arguments.append(Argument("pool", place.value, shape, "uint8", place.pool))
        if self.external and self._reads_constants(step):
            arguments.append(Argument("constants", 0, (self.constants.nbytes,), "uint8"))
        if isinstance(step.call, ExternalCall) and (device := step.call.module.device):
            arguments.append(Argument("device", self._devices.index(device.field), (), ""))
        function = self._names.operator(step.node.op, index)
        return Operator(function, tuple(arguments), len(reads), len(step.outputs))

    def _argument(self, name: str) -> Argument:
        place, tensor = self._program.places[name], self._program.graph.tensors[name]
        assert place.kind != "constant"
        return Argument(place.kind, place.value, tensor.shape, tensor.dtype, place.pool)

    def _reads_constants(self, step: Step) -> bool:
        if any(self._program.places[name].kind == "constant" for name in step.inputs):
            return True
        if isinstance(step.call, StreamCall):
            return any(True for _ in constant_arrays(step.call, self._program.graph))
        return isinstance(step.call, KernelCall) and bool(self._arrays(step.call))

    def _arrays(self, call: KernelCall) -> dict[str, str]:
        """The C expressions of the parameters that are arrays."""
        return {
            field: f"{self._pool}{self.constants.name(value)}"
            for field, value in call.fields.items()
            if isinstance(value, np.ndarray)
        }

    def layer(self, index: int, operator: Operator, shapes: Shapes) -> str:
        """What the layer is in the model's own terms, its parameters, its function."""
        step = self._program.steps[index]
        comment = _comment(self._program, step)
        if isinstance(step.call, ExternalCall):
            return f"{comment}{self._external_layer(step, step.call, operator, shapes)}"
        if isinstance(step.call, StreamCall):
            return self._group(index, step, step.call, operator)
        arrays = self._arrays(step.call)
        fields, tag = step.call.fields, step.call.kernel.name
        if (shared := self.shared.get(index)) is not None:
            fields, tag = {name: fields[name] for name in shared.own}, shared.name
        struct = c_struct_initialiser(fields, arrays)
        parameters = f"const struct {tag} layer_{index} = {struct};\n" if fields else ""
        body = self._kernel_call(index, step, step.call)
        if self.external and arrays:
            # Where the constants are is known in the call only.
            local = "".join(f"    {line}\n" for line in parameters.splitlines())
            return f"{comment}{self._function(operator, local + body)}"
        parameters = f"static {parameters}\n" if parameters else ""
        return f"{comment}{parameters}{self._function(operator, body)}"

    def _kernel_call(self, index: int, step: Step, call: KernelCall) -> str:
        kernel, shared = call.kernel, self.shared.get(index)
        body = ""
        passed = [f"&layer_{index}"] if shared is None or shared.own else []
        for types, values, local, qualifier in (
            (kernel.inputs, self._reads(step), "inputs", "const "),
            (kernel.outputs, [f"output{i}" for i in range(len(step.outputs))], "outputs", ""),
        ):
            for position, c_type in enumerate(types):
                if c_type.endswith("[]"):
                    head = f"    {qualifier}{c_type[:-2]} *const {local}[] = {{"
                    body += c_wrapped(head, values[position:], "};\n")
                    passed.append(local)
                else:
                    passed.append(values[position])
        if kernel.scratch != "0":
            passed.append("scratch" if call.scratch_bytes else "NULL")
        callee = kernel if shared is None else shared
        statement = c_wrapped(f"    {callee.name}(", passed, ");\n")
        return _with_scratch(step, body + statement)

    def _group(self, index: int, step: Step, call: StreamCall, operator: Operator) -> str:
        """The functions of a group's stages, the schedule, and the function that goes through."""
        tensors = self._program.graph.tensors
        text = write_group(
            call,
            f"layer_{index}",
            lambda array: f"{self._pool}{self.constants.name(array)}",
            {name: t.data for name, t in tensors.items() if t.data is not None},
            f"const struct {struct_tag(self._names)} *pool" if self.external else "",
            lambda node: _node_texts(self._program, node),
        )
        names = ", ".join(_node_texts(self._program, node)[0] for node in call.nodes)
        reads = " x ".join(_describe(tensors[name]) for name in step.inputs)
        writes = _describe(tensors[step.node.name])
        comment = c_comment(
            f"A few rows at a time: {names}",
            f"{reads} -> {writes}, {call.macs:,} multiply-accumulates",
        )
        body = _with_scratch(step, text.body)
        return f"{text.definitions}\n{comment}{self._function(operator, body)}"

    def _reads(self, step: Step) -> list[str]:
        """The C expressions of the tensors that the layer reads."""
        expressions: list[str] = []
        taken = 0
        for name in step.inputs:
            data = self._program.graph.tensors[name].data
            if data is not None:
                expressions.append(f"{self._pool}{self.constants.name(data)}")
            else:
                expressions.append(f"input{taken}")
                taken += 1
        return expressions

    def _function(self, operator: Operator, body: str) -> str:
        """The layer's function: its parameters, in the calling convention, around ``body``."""
        names = operator.parameters
        pool = f"    const struct {struct_tag(self._names)} *const pool = %s;\n"
        if not self._packed:
            head = f"int32_t {operator.function}("
            given = pool % "constants" if "constants" in names else ""
            return f"{c_wrapped(head, [f'void *{n}' for n in names], ') {')}\n{given}{body}}}\n"
        used = ["args", *(name for name in ("type_codes", "resource_handle") if name in body)]
        unpacked = "".join(
            {
                "constants": pool % argument_data(position),
                "device": f"    void *const device = args[{position}].v_handle;\n",
            }.get(name, f"    void *const {name} = {argument_data(position)};\n")
            for position, name in enumerate(names)
            if name == "constants" or re.search(rf"\b{name}\b", body)
        )
        return f"{packed_head(operator.function, len(names), *used)}{unpacked}{body}}}\n"

    def _external_layer(
        self, step: Step, call: ExternalCall, operator: Operator, shapes: Shapes
    ) -> str:
        """The function of another code generator's layer: calls that one's with what it takes."""
        module, device = call.module, call.module.device
        allocates = bool(call.scratch_bytes) and step.scratch is None
        guards = [workspace_guard("scratch")] if allocates else []
        hooks = ""
        if device is not None and device.use_device_api:
            guards.append(device_guard(device, "Open", "Close", "device"))
            hooks = device_hooks(device, "Open", "Close")
        tensors = self._program.graph.tensors
        passed = [
            (f"(void *){text}" if tensors[name].is_constant else text, name)
            for name, text in zip(step.inputs, self._reads(step), strict=True)
        ]
        passed += [(f"output{i}", name) for i, name in enumerate(step.outputs)]
        parameters = [text for text, _ in passed]
        parameters += ["scratch"] * bool(call.scratch_bytes) + ["device"] * (device is not None)
        own = f"    void *const scratch = {allocate_workspace(call.scratch_bytes)};\n"
        body = own if allocates else ""
        if not self._packed:
            declared = [f"void *input{i}" for i in range(len(step.inputs))]
            declared += [f"void *{name}" for name in parameters[len(step.inputs) :]]
            prototype = c_wrapped(f"int32_t {module.symbol}(", declared, ");\n")
            body += guarded_call(module.symbol, parameters, guards)
            return f"{prototype}{hooks}\n{self._function(operator, body)}"
        body = self._find_function(module.symbol) + body + declare_arguments(len(parameters))
        for position, (text, name) in enumerate(passed):
            tensor = tensors[name]
            body += pass_tensor(position, text, tensor.shape, tensor.dtype, shapes)
        if call.scratch_bytes:
            shape = (call.scratch_bytes,)
            body += pass_tensor(len(passed), "scratch", shape, "uint8", shapes)
        if device is not None:
            body += pass_handle(len(parameters) - 1, "device")
        arguments = ["function", "values", "codes", str(len(parameters)), "&result", "&result_code"]
        body += guarded_call("TVMFuncCall", arguments, guards)
        return f"{hooks}{self._function(operator, body)}"

    def _find_function(self, symbol: str) -> str:
        """C that looks a packed function up by its name, in the module and then everywhere."""
        arguments = [self._module, f'"{symbol}"', "&function"]
        found = c_wrapped("    if (TVMBackendGetFuncFromEnv(", arguments, ") != 0 ||\n")
        return (
            f"    TVMFunctionHandle function = NULL;\n{found}"
            "        function == NULL) {\n        return -1;\n    }\n"
        )


def _with_scratch(step: Step, statements: str) -> str:
    """The body of an operator whose scratch the plan has a place for, or which allocates it."""
    nbytes = step.call.scratch_bytes
    if not nbytes or step.scratch is not None:
        return f"{statements}    return 0;\n"
    return (
        f"    void *const scratch = {allocate_workspace(nbytes)};\n"
        f"    if (scratch == NULL) {{\n        return -1;\n    }}\n{statements}"
        f"    return {free_workspace('scratch')} != 0 ? -1 : 0;\n"
    )


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"


def _comment(program: Program, step: Step) -> str:
    """What the layer is in the model's own terms."""
    macs = f", {step.call.macs:,} multiply-accumulates" if step.call.macs else ""
    maker = f" by {step.node.attrs['generator']}" if isinstance(step.call, ExternalCall) else ""
    head, detail = _node_texts(program, step.node)
    return c_comment(f"{head}{maker}", f"{detail}{macs}")


def _node_texts(program: Program, node: Node) -> tuple[str, str]:
    """A node's operator and name; its place in the model and its tensors."""
    tensors = program.graph.tensors
    reads = " x ".join(_describe(tensors[name]) for name in node.inputs if name)
    writes = ", ".join(_describe(tensors[name]) for name in node.outputs)
    # A fused layer's name is a list without spaces, which could not be wrapped.
    name = display_name(program, node.name).replace(";", "; ")
    return f"{node.op} {name}", f"operator {node.index}: {reads} -> {writes}"


def display_name(program: Program, name: str) -> str:
    """The model's name of a tensor, where the planner had to add a copy of it."""
    return dict(zip(program.graph.outputs, program.output_names, strict=True)).get(name, name)
