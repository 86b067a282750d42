"""Operators of a module in C: constants, parameters, one function per layer, and the main.

This is ``<name>_lib1.c``. Each layer's function calls a kernel with a constant parameter struct.
The C compiler sees both and folds every constant; where several layers share a body
(:mod:`hilc.codegen.bodies`), it takes the differing parameters as a struct. The function of an
external layer calls that of the external code generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hilc.codegen import plain
from hilc.codegen.allocator import allocator
from hilc.codegen.arguments import (
    MainArgument,
    Operator,
    Pointers,
    feed_arguments,
    program_devices,
)
from hilc.codegen.banner import banner
from hilc.codegen.bodies import shared_bodies
from hilc.codegen.calls import checked_call, device_guard, device_hooks
from hilc.codegen.constants import ConstantPool, pool_constants, struct_tag, write_pool
from hilc.codegen.convention import Calls, External
from hilc.codegen.cwriter import (
    C_TYPES,
    c_comment,
    c_includes,
    c_pointer,
    c_struct_initialiser,
    c_wrapped,
)
from hilc.codegen.described import Argument
from hilc.codegen.dialects import CONVENTIONS, INTERFACES
from hilc.codegen.fused import FEED, ROWS, write_group
from hilc.codegen.main import write_main
from hilc.codegen.names import CONSTANT_POOL, Names
from hilc.codegen.options import Options
from hilc.codegen.plain_text import c_headers, discard_results
from hilc.codegen.statuses import control_of
from hilc.external import ExternalCall
from hilc.fusion.call import FusedCall, constant_arrays
from hilc.ir import Node, Tensor
from hilc.lowering.compressed import HEADER as DECODER
from hilc.lowering.compressed import CompressedCall
from hilc.lowering.kernels import KernelCall
from hilc.memory.plan import Program, Step
from hilc.ops.external import ExternalAttributes

__all__ = ["Operator", "Source", "display_name", "write_operators"]

# Members of the constant pool: of the file's own object, or of the one that is passed to a layer.
_OWN_CONSTANT = f"{CONSTANT_POOL}."
_GIVEN_CONSTANT = "pool->"


@dataclass(frozen=True)
class Source:
    """Text of a C file, with its operators and other facts for the rest of the library."""

    text: str
    operators: tuple[Operator, ...]
    constants: ConstantPool
    #: Of a graph that a layer of plain code calls: the headers that it needs, which are not in the
    #: text, as it is a part of the model's file.
    headers: tuple[str, ...] = ()

    @property
    def constants_bytes(self) -> int:
        """Size of the constants, in bytes."""
        return self.constants.nbytes


def write_operators(program: Program, names: Names, options: Options) -> Source:
    """Return ``<name>_lib1.c``."""
    calls = CONVENTIONS[options.convention].calls(options)
    writer = _Writer(program, names, options, calls)
    operators = tuple(writer.operator(index) for index in range(len(program.steps)))
    layers = [
        *(writer.layer(index, operator) for index, operator in enumerate(operators)),
        *([] if program.feed is None else [writer.feed(operators[0], options)]),
    ]
    if names.plain:
        return _plain_source(program, names, options, writer, operators, layers)
    interface = INTERFACES[options.interface]
    body = "\n".join(
        [
            *layers,
            write_main(program, names, options, operators, calls),
            *interface.operator_functions(writer.constants, names, options),
        ]
    )
    parts = [
        c_comment(f'The operators of "{program.graph.name}", and the main that calls them.')
        + c_includes("stddef.h", "stdint.h", *_headers(program, options, calls, body)),
        *write_pool(writer.constants, names, options.constants),
        *calls.declarations(body),
        *([calls.definitions()] if calls.definitions() else []),
        *(body.definition() for body in dict.fromkeys(writer.shared.values())),
        body,
    ]
    return Source("\n".join(parts), operators, writer.constants)


def _plain_source(
    program: Program,
    names: Names,
    options: Options,
    writer: _Writer,
    operators: tuple[Operator, ...],
    layers: list[str],
) -> Source:
    """Return ``<name>.c`` of plain code, or a part of it: a graph that a layer calls."""
    calls = writer.calls
    run = (
        [write_main(program, names, options, operators, calls)]
        if names.called
        else plain.write_run(program, names, options, operators, calls)
    )
    parts = [
        *plain.arrays(writer.constants, names),
        *plain.memory(program, names, options),
        *(body.definition() for body in dict.fromkeys(writer.shared.values())),
        *layers,
        *run,
    ]
    controls = [control for step in program.steps if (control := control_of(step)) is not None]
    parts = [*(control.source or "" for control in controls), *parts]
    text = discard_results("\n".join(parts))
    headers = set(_headers(program, options, calls, text))
    headers.update(header for control in controls for header in control.includes)
    if names.called:
        return Source(text, operators, writer.constants, tuple(headers))
    needed = [*c_headers(text), "stdint.h", names.header, *sorted(headers)]
    head = banner(f'The neural network "{program.graph.name}".', program.cpu)
    text = f"{head}{c_includes(*needed, library=names.header)}\n{text}"
    return Source(text, operators, writer.constants)


def _headers(program: Program, options: Options, used: Calls, body: str) -> list[str]:
    """Return the headers of kernels and of the interface that the code needs, sorted."""
    calls: list[object] = []
    for step in program.steps:
        stages = step.call.stages if isinstance(step.call, FusedCall) else ()
        calls += [stage.call for stage in stages] or [step.call]
    headers = {call.kernel.header for call in calls if isinstance(call, KernelCall)}
    headers.update(used.headers(body), INTERFACES[options.entry].operator_includes)
    if "hil_move_rows" in body:
        headers.add(ROWS)
    if program.feed is not None:
        headers.add(FEED)
    if any(isinstance(call, CompressedCall) for call in calls):
        headers.add(DECODER)
    if options.pools == "calls" and allocator().function in body:
        headers.add(allocator().header)
    return sorted(headers)


class _Writer:
    """Writer of a program's layers."""

    def __init__(self, program: Program, names: Names, options: Options, calls: Calls) -> None:
        self.external = options.constants == "external"
        self.constants = pool_constants(program)
        self.shared = shared_bodies(program, options.optimize, names)
        self.calls = calls
        self._options = options
        self._program = program
        self._names = names
        self._calls = calls
        self._devices = [device.field for device in program_devices(program)]
        self._pool = _GIVEN_CONSTANT if self.external else _OWN_CONSTANT
        if names.plain:
            self._pool = names.local("")

    def operator(self, index: int) -> Operator:
        """Return the function of step ``index`` with its arguments."""
        step, refs = self._program.steps[index], self._program.buffers
        reads = [name for name in step.inputs if refs[name].kind != "constant"]
        arguments = [self._argument(name) for name in (*reads, *step.outputs)]
        if (ref := step.scratch) is not None:
            shape = (step.call.scratch_bytes,)
            arguments.append(Argument("pool", ref.value, shape, "uint8", ref.pool))
        if self.external and self._reads_constants(step):
            arguments.append(Argument("constants", 0, (self.constants.nbytes,), "uint8"))
        if isinstance(step.call, ExternalCall) and (device := step.call.module.device):
            arguments.append(Argument("device", self._devices.index(device.field), (), ""))
        op = step.node.op
        if self._names.plain and isinstance(step.call, FusedCall):
            op = "group"
        elif self._names.plain and control_of(step) is not None:
            # The function that it calls has the name of the node.
            op = f"call_{_control_node(step).op}"
        function = self._names.operator(op, index)
        control = control_of(step)
        return Operator(
            function,
            tuple(arguments),
            len(reads),
            len(step.outputs),
            has_status=control is not None and bool(control.bounds),
        )

    def _argument(self, name: str) -> Argument:
        ref, tensor = self._program.buffers[name], self._program.graph.tensors[name]
        assert ref.kind != "constant"
        return Argument(ref.kind, ref.value, tensor.shape, tensor.dtype, ref.pool)

    def _reads_constants(self, step: Step) -> bool:
        if any(self._program.buffers[name].kind == "constant" for name in step.inputs):
            return True
        if isinstance(step.call, FusedCall):
            return any(True for _ in constant_arrays(step.call))
        return isinstance(step.call, KernelCall) and bool(self._arrays(step.call))

    def _arrays(self, call: KernelCall) -> dict[str, str]:
        """Return the C expressions of the array parameters."""
        arrays = {n: f"{self._pool}{self.constants.name(v)}" for n, v in call.arrays.items()}
        if not isinstance(call, CompressedCall):
            return arrays
        if call.tiles > 1:
            for name, array in call.arrays.items():
                arrays[name] = f"&{arrays[name]}[tile * {array.size // call.tiles}]"
        offsets = call.array_offsets.items()
        return arrays | {n: f"(const void *)&work[{offset}]" for n, offset in offsets}

    def layer(self, index: int, operator: Operator) -> str:
        """Return a comment on the layer, its parameters, and its function."""
        step = self._program.steps[index]
        comment = _comment(self._program, step, self._names)
        if isinstance(step.call, ExternalCall):
            return f"{comment}{self._external_layer(step, step.call, operator)}"
        if isinstance(step.call, FusedCall):
            return self._group(index, step, step.call, operator)
        arrays = self._arrays(step.call)
        fields, tag = step.call.fields, step.call.kernel.name
        if (shared := self.shared.get(index)) is not None:
            fields, tag = {name: fields[name] for name in shared.own}, shared.name
        struct = c_struct_initialiser(fields, arrays)
        own = self._names.local(f"layer_{index}")
        parameters = f"const struct {tag} {own} = {struct};\n" if fields else ""
        body = self._kernel_call(index, step, step.call)
        if isinstance(step.call, CompressedCall):
            body = self._decoded(step, step.call, parameters, body)
            return f"{comment}{self._function(operator, body)}"
        if self.external and arrays:
            # The address of the constants is known in the call only.
            local = "".join(f"    {line}\n" for line in parameters.splitlines())
            return f"{comment}{self._function(operator, local + body)}"
        parameters = f"static {parameters}\n" if parameters else ""
        return f"{comment}{parameters}{self._function(operator, body)}"

    def _kernel_call(self, index: int, step: Step, call: KernelCall) -> str:
        kernel, shared = call.kernel, self.shared.get(index)
        body = ""
        own = [f"&{self._names.local(f'layer_{index}')}"]
        passed = own if shared is None else []
        outputs = [f"output{i}" for i in range(len(step.outputs))]
        reads = self._reads(step)
        if self._names.plain:
            reads = self._converted(reads, step.inputs, kernel.inputs, "const ")
            outputs = self._converted(outputs, step.outputs, kernel.outputs, "")
        if isinstance(call, CompressedCall):
            outputs = _tile_outputs(call, outputs)
        for types, values, local, qualifier in (
            (kernel.inputs, reads, "inputs", "const "),
            (kernel.outputs, outputs, "outputs", ""),
        ):
            for position, c_type in enumerate(types):
                if c_type.endswith("[]"):
                    head = f"    {qualifier}{c_type[:-2]} *const {local}[] = {{"
                    body += c_wrapped(head, values[position:], "};\n")
                    passed.append(local)
                else:
                    passed.append(values[position])
        if kernel.scratch != "0":
            passed.append("scratch" if call.kernel_scratch_bytes else "NULL")
        if shared is not None and shared.own:
            passed += own
        callee = kernel if shared is None else shared
        if kernel.fails and call.scratch_bytes and step.scratch is None:
            # It is freed in any case.
            call_text = c_wrapped(f"    const int32_t status = {callee.name}(", passed, ");\n")
            return _with_scratch(step, body + call_text, status="status")
        if kernel.fails:
            return _with_scratch(step, body + checked_call(callee.name, passed))
        statement = c_wrapped(f"    {callee.name}(", passed, ");\n")
        if isinstance(call, CompressedCall):
            return body + statement
        in_place = step.scratch is not None or not call.scratch_bytes
        if shared is not None and shared.returns_status and in_place:
            return body + c_wrapped(f"    return {callee.name}(", passed, ");\n")
        return _with_scratch(step, body + statement)

    def _converted(
        self, texts: Sequence[str], names: Sequence[str], types: Sequence[str], qualifier: str
    ) -> list[str]:
        """Return typed pointers to tensors as pointers to the types that a kernel takes."""
        tensors = [self._program.graph.tensors[name] for name in names]
        return [
            # A list of tensors is last.
            c_pointer(
                text,
                C_TYPES[tensor.dtype],
                types[min(position, len(types) - 1)].removesuffix("[]"),
                qualifier,
            )
            for position, (text, tensor) in enumerate(zip(texts, tensors, strict=True))
        ]

    def _decoded(self, step: Step, call: CompressedCall, parameters: str, body: str) -> str:
        """Return a function's statements that decode arrays before ``body``, tile by tile."""
        stream = f"{self._pool}{self.constants.name(call.stream)}"
        decode = f"    hil_decode(&decoder, &work[{call.decoded_offset}], {call.tile_bytes});\n"
        local = "".join(f"    {line}\n" for line in parameters.splitlines())
        turn = decode + local + body
        if call.scattered:
            place = [
                f"(uint8_t *)output0 + tile * {call.width}",
                f"&work[{call.output_offset}]",
                str(call.rows),
                str(call.width),
                str(call.width * call.tiles),
            ]
            turn += c_wrapped("    hil_place_columns(", place, ");\n")
        if call.tiles > 1:
            turn = "".join(f"    {line}\n" for line in turn.splitlines())
            turn = f"    for (int32_t tile = 0; tile < {call.tiles}; tile++) {{\n{turn}    }}\n"
        return _with_scratch(
            step,
            "    uint8_t *const work = scratch;\n    struct hil_decoder decoder;\n"
            f"    hil_decoder_begin(&decoder, {stream}, &work[{call.table_offset}]);\n{turn}",
        )

    def _group(self, index: int, step: Step, call: FusedCall, operator: Operator) -> str:
        """Return the functions of a group's stages, the schedule, and the function that runs it."""
        tensors = self._program.graph.tensors
        text = write_group(
            call,
            self._names.local(f"layer_{index}"),
            lambda array: f"{self._pool}{self.constants.name(array)}",
            f"const struct {struct_tag(self._names)} *pool" if self.external else "",
            self._texts,
            operator.operands if self._names.plain else {},
        )
        layers = [self._texts(node)[0] for node in call.nodes]
        names = ", ".join(layers)
        if self._names.plain and len(layers) > 2:
            names = f"{len(layers)} layers, {layers[0]} to {layers[-1]}"
        reads = " x ".join(_describe(tensors[name]) for name in step.inputs)
        writes = _describe(tensors[step.node.name])
        comment = c_comment(
            f"A few rows at a time: {names}",
            f"{reads} -> {writes}, {call.macs:,} multiply-accumulates",
        )
        if not text.feed:
            body = _with_scratch(step, text.body)
            return f"{text.definitions}\n{comment}{self._function(operator, body)}"
        own = [f"void *{name}" for name in operator.parameters]
        own = plain.layer_parameters(operator) if self._names.plain else own
        parameters = [f"struct {text.feed} *feed", *own]
        until = self._names.local(f"layer_{index}_until_rows")
        head = c_wrapped(f"static void {until}(", parameters, ") {\n")
        given = self._given_pool("constants") if "constants" in operator.parameters else ""
        unused = ["pool" if name == "constants" else name for name in operator.parameters]
        nothing = "".join(f"    (void){name};\n" for name in unused) + "    return 0;\n"
        done = "/* Does nothing: the layers ran when their rows arrived. */\n"
        return (
            f"{text.definitions}\n{comment}{head}{given}{text.body}}}\n\n{done}"
            f"{self._function(operator, nothing)}"
        )

    def _texts(self, node: Node) -> tuple[str, str]:
        return _node_texts(self._program, node, self._names)

    def feed(self, operator: Operator, options: Options) -> str:
        """Return the function that runs layers until they need more rows."""
        if self._names.plain:
            start, passed = plain.feed_function(self._program, self._names, options, operator)
            until = self._names.local("layer_0_until_rows")
            return (
                "/* Runs the layers until rows are missing, or to the end. */\n"
                f"{start}{c_wrapped(f'    {until}(', passed, ');')}\n}}\n"
            )
        arguments = feed_arguments(self._program, options)
        pointers = Pointers(arguments)
        ref = self._program.feed
        assert ref is not None
        kept = pointers.of(Argument("pool", ref.value, (), "", ref.pool))
        passed = [
            f"(struct layer_0_feed *)(void *){kept}",
            *map(pointers.of, operator.arguments),
        ]
        unused = "".join(f"    (void){a.name};\n" for a in arguments if a.name not in str(passed))
        return (
            "/* Runs the layers until rows are missing, or to the end. */\n"
            f"{feed_prototype(self._names, arguments)} {{\n{unused}"
            f"{c_wrapped('    layer_0_until_rows(', passed, ');')}\n}}\n"
        )

    def _reads(self, step: Step) -> list[str]:
        """Return the C expressions of the tensors that the layer reads."""
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
        """Return the layer's function: its parameters, in the calling convention, around
        ``body``.
        """
        return self._calls.function(operator, body, self._given_pool("%s"))

    def _given_pool(self, place: str) -> str:
        """Return the declaration of the external constant pool at ``place``."""
        return f"    const struct {struct_tag(self._names)} *const pool = {place};\n"

    def _external_layer(self, step: Step, call: ExternalCall, operator: Operator) -> str:
        """Return the function of an external layer, which calls the external generator's
        function.
        """
        module, device = call.module, call.module.device
        guards, preparation, hooks = [], "", ""
        if call.scratch_bytes and step.scratch is None:
            own = allocator().allocate(call.scratch_bytes)
            preparation = f"    void *const scratch = {own};\n"
            guards.append(allocator().guard("scratch"))
        if device is not None and device.use_device_api:
            guards.append(device_guard(device, "Open", "Close", "device"))
            hooks = device_hooks(device, "Open", "Close")
        tensors = self._program.graph.tensors
        passed = [
            (f"(void *){text}" if tensors[name].is_constant else text, tensors[name])
            for name, text in zip(step.inputs, self._reads(step), strict=True)
        ]
        passed += [(f"output{i}", tensors[name]) for i, name in enumerate(step.outputs)]
        declaration, body = self._calls.external(
            External(
                symbol=module.symbol,
                tensors=passed,
                input_count=len(step.inputs),
                scratch_bytes=call.scratch_bytes,
                has_device=device is not None,
                preparation=preparation,
                guards=guards,
                is_static=(control := control_of(step)) is not None and control.is_part,
            )
        )
        gap = "\n" if declaration else ""
        return f"{declaration}{hooks}{gap}{self._function(operator, body)}"


def feed_prototype(names: Names, arguments: Sequence[MainArgument]) -> str:
    """Return the declaration of the function that computes on rows, without the semicolon."""
    return c_wrapped(f"void {names.feed}(", [f"{a.c_type}{a.name}" for a in arguments], ")")


def _tile_outputs(call: CompressedCall, outputs: list[str]) -> list[str]:
    """Return the C expressions of the kernel's outputs; for a tiled call, of a tile's part."""
    if call.scattered:
        return [f"(void *)&work[{call.output_offset}]"]
    if call.tiles > 1:
        return [f"(void *)((uint8_t *)output0 + tile * {call.width})"]
    return outputs


def _with_scratch(step: Step, statements: str, status: str = "0") -> str:
    """Return the body of an operator with planned scratch, or with scratch that it allocates.

    The operator fails where ``status``, after the statements, is not 0.
    """
    nbytes = step.call.scratch_bytes
    if not nbytes or step.scratch is not None:
        return f"{statements}    return 0;\n"
    failed = "" if status == "0" else f" || {status} != 0"
    return (
        f"    void *const scratch = {allocator().allocate(nbytes)};\n"
        f"    if (scratch == NULL) {{\n        return -1;\n    }}\n{statements}"
        f"    return {allocator().free('scratch')} != 0{failed} ? -1 : 0;\n"
    )


def _control_node(step: Step) -> Node:
    """Return the branch or loop that a step calls."""
    (node,) = ExternalAttributes.of(step.node).graph.nodes
    return node


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"


def _comment(program: Program, step: Step, names: Names) -> str:
    """Return a comment that describes the layer in the model's terms."""
    if names.plain and control_of(step) is not None:
        return c_comment(*_node_texts(program, _control_node(step), names))
    macs = f", {step.call.macs:,} multiply-accumulates" if step.call.macs else ""
    external = isinstance(step.call, ExternalCall)
    maker = f" by {ExternalAttributes.of(step.node).generator}" if external else ""
    head, detail = _node_texts(program, step.node, names)
    return c_comment(f"{head}{maker}", f"{detail}{macs}")


def _node_texts(program: Program, node: Node, names: Names) -> tuple[str, str]:
    """Return a node's operator and name, and its position in the model with its tensors."""
    tensors = program.graph.tensors
    reads = " x ".join(_describe(tensors[name]) for name in node.inputs if name)
    writes = ", ".join(_describe(tensors[name]) for name in node.outputs)
    # A fused layer's name is a list without spaces, which could not be wrapped.
    name = display_name(program, node.name).replace(";", "; ")
    if names.plain:
        # The first one is that of the result.
        name = name.partition(";")[0]
    return f"{node.op} {name}", f"operator {node.index}: {reads} -> {writes}"


def display_name(program: Program, name: str) -> str:
    """Return the model's name of a tensor, also for a copy that the planner added."""
    return dict(zip(program.graph.outputs, program.output_names, strict=True)).get(name, name)
