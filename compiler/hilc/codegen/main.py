"""The main of a module: calls the layers in order, in either calling convention."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from hilc.codegen.calls import (
    Argument,
    Guard,
    Operator,
    Shapes,
    allocate_workspace,
    argument_data,
    declare_arguments,
    guarded_call,
    packed_definition,
    packed_head,
    pass_handle,
    pass_tensor,
    workspace_guard,
)
from hilc.codegen.constants import ConstantPool, pool_constants
from hilc.codegen.cwriter import c_wrapped
from hilc.codegen.names import CONSTANT_POOL, LOOKUP, Names
from hilc.codegen.options import Options
from hilc.codegen.registry import PACKED_ARGUMENTS, packed_prototype
from hilc.external import Device, ExternalCall
from hilc.memory.plan import Program

_Kind = Literal["input", "output", "constants", "pool", "device"]


@dataclass(frozen=True)
class MainArgument:
    """What the main takes: a pointer, or, packed, a DLTensor of ``shape`` and ``dtype``.

    A device's context is an opaque handle, without a shape and with the type "".
    """

    kind: _Kind
    #: Of the model's input, output, workspace pool or device.
    index: int
    #: The C parameter where the main takes pointers.
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def c_type(self) -> str:
        return _c_type(self.kind)


def main_arguments(program: Program, options: Options) -> tuple[MainArgument, ...]:
    """What the main takes, in order: inputs, outputs, external constants, workspaces, devices."""
    tensors = program.graph.tensors
    arguments: list[MainArgument] = []
    if not program.io_in_pool:
        for index, name in enumerate(program.graph.inputs):
            tensor = tensors[name]
            arguments.append(
                MainArgument("input", index, f"input{index}", tensor.shape, tensor.dtype)
            )
        for index, name in enumerate(program.graph.outputs):
            tensor = tensors[name]
            arguments.append(
                MainArgument("output", index, f"output{index}", tensor.shape, tensor.dtype)
            )
    pools: list[MainArgument] = []
    if options.constants == "external" and (nbytes := pool_constants(program).nbytes):
        pools.append(MainArgument("constants", 0, f"{CONSTANT_POOL}_0_var", (nbytes,), "uint8"))
    if options.pools != "calls":
        for index, pool in enumerate(program.pools):
            name = f"{pool.name}_{len(pools)}_var"
            pools.append(MainArgument("pool", index, name, (pool.nbytes,), "uint8"))
    devices = [
        MainArgument("device", index, f"device{index}", (), "")
        for index in range(len(program_devices(program)))
    ]
    return (*arguments, *pools, *devices)


def program_devices(program: Program) -> tuple[Device, ...]:
    """The devices that external functions run on, each once, in the order of their first use."""
    devices: dict[str, Device] = {}
    for step in program.steps:
        if isinstance(step.call, ExternalCall) and (device := step.call.module.device):
            devices.setdefault(device.field, device)
    return tuple(devices.values())


def main_prototype(program: Program, names: Names, options: Options) -> str:
    """The main's declaration, without the semicolon."""
    if options.api == "packed":
        return packed_prototype(names.main)
    # Wrapped with the semicolon that follows.
    declaration = _unpacked_head(names.main, main_arguments(program, options), ");")
    return declaration.removesuffix(";")


def _unpacked_head(function: str, arguments: Sequence[MainArgument], tail: str) -> str:
    parameters = [f"{argument.c_type}{argument.name}" for argument in arguments]
    return c_wrapped(f"int32_t {function}(", parameters or ["void"], tail)


def write_main(
    program: Program,
    names: Names,
    options: Options,
    operators: Sequence[Operator],
    shapes: Shapes,
) -> str:
    """The main, and where it has to close what it opened, a function that it does so around."""
    return _Main(program, names, options, operators, shapes).write()


class _Main:
    def __init__(
        self,
        program: Program,
        names: Names,
        options: Options,
        operators: Sequence[Operator],
        shapes: Shapes,
    ) -> None:
        self._function = names.main
        self._arguments = main_arguments(program, options)
        self._packed = options.api == "packed"
        self._operators = operators
        self._shapes = shapes
        self._devices = program_devices(program)
        #: The C variable of each of the main's arguments, and of the workspace that it allocates.
        self._variables = {(a.kind, a.index): a.name for a in self._arguments}
        self._allocated: tuple[str, int] | None = None
        if options.pools == "calls" and program.pools[0].nbytes:
            name = f"{program.pools[0].name}_var"
            self._variables["pool", 0] = name
            self._allocated = (name, program.pools[0].nbytes)

    def write(self) -> str:
        comment = "/* Runs the layers in order; -1 as soon as one fails. */\n"
        used = {(a.kind, a.value if a.kind != "pool" else a.pool) for a in self._passed()}
        devices: dict[tuple[_Kind, int], Device] = {
            ("device", index): device
            for index, device in enumerate(self._devices)
            if device.use_device_api
        }
        if not devices and self._allocated is None:
            return f"{comment}{self._head(used)}{self._layers()}    return 0;\n}}\n"
        variables = {key: text for key, text in self._variables.items() if key in used}
        arguments = list(variables.values())
        declared = [f"{_c_type(kind)}{text}" for (kind, _), text in variables.items()]
        if self._packed:
            arguments.append("resource_handle")
            declared.append("void *resource_handle")
        layers = c_wrapped("static int32_t run_layers(", declared or ["void"], ") {\n")
        allocation, guards = "", []
        if self._allocated is not None:
            pointer, nbytes = self._allocated
            allocation = f"    uint8_t *const {pointer} = {allocate_workspace(nbytes)};\n"
            guards.append(workspace_guard(pointer))
        for key, device in devices.items():
            guards.append(device_guard(device, "Activate", "Deactivate", self._variables[key]))
        # Identical devices have one driver.
        drivers = (device_hooks(device, "Activate", "Deactivate") for device in devices.values())
        hooks = "".join(dict.fromkeys(drivers))
        return (
            f"{comment}{layers}{self._layers()}    return 0;\n}}\n\n{hooks}"
            f"{self._head(used | set(devices))}{allocation}"
            f"{guarded_call('run_layers', arguments, guards)}}}\n"
        )

    def _passed(self) -> list[Argument]:
        return [argument for operator in self._operators for argument in operator.arguments]

    def _head(self, used: AbstractSet[tuple[_Kind, int]]) -> str:
        """The main's beginning: a C variable for each argument that is ``used``."""
        keys = [(argument.kind, argument.index) for argument in self._arguments]
        if not self._packed:
            unused = [self._variables[key] for key in keys if key not in used]
            head = _unpacked_head(self._function, self._arguments, ") {\n")
            return head + "".join(f"    (void){variable};\n" for variable in unused)
        read = ["args"] if used & set(keys) else []
        read += ["resource_handle"] if self._operators else []
        unpacked = "".join(
            f"    {_c_type(kind)}const {self._variables[kind, index]} = "
            + (f"args[{i}].v_handle;\n" if kind == "device" else f"{argument_data(i)};\n")
            for i, (kind, index) in enumerate(keys)
            if (kind, index) in used
        )
        return f"{packed_head(self._function, len(keys), *read)}{unpacked}"

    def _layers(self) -> str:
        """The calls of the operators."""
        if not self._packed:
            return "".join(
                _checked(operator.function, list(map(self._pointer, operator.arguments)))
                for operator in self._operators
            )
        if not self._operators:
            return ""
        text = declare_arguments(max(len(operator.arguments) for operator in self._operators))
        for operator in self._operators:
            for position, argument in enumerate(operator.arguments):
                data = self._pointer(argument)
                if argument.kind == "device":
                    text += pass_handle(position, data)
                else:
                    text += pass_tensor(
                        position, data, argument.shape, argument.dtype, self._shapes
                    )
            count = str(len(operator.arguments))
            passed = ["values", "codes", count, "&result", "&result_code", "resource_handle"]
            text += _checked(operator.function, passed)
        return text

    def _pointer(self, argument: Argument) -> str:
        """The C expression of what the operator is passed."""
        if argument.kind == "pool":
            return f"&{self._variables['pool', argument.pool]}[{argument.value}]"
        return self._variables[argument.kind, argument.value]


def _c_type(kind: str) -> str:
    return "uint8_t *" if kind in ("constants", "pool") else "void *"


def _checked(function: str, arguments: Sequence[str]) -> str:
    call = c_wrapped(f"    if ({function}(", arguments, ") != 0) {\n")
    return f"{call}        return -1;\n    }}\n"


def device_hooks(device: Device, *hooks: str) -> str:
    """Declarations of what the device's driver provides."""
    return "".join(f"int32_t {device.hook(hook)}(void *context);\n" for hook in hooks)


def device_guard(device: Device, opening: str, closing: str, context: str) -> Guard:
    """A call of the device's driver before, and one after."""
    return Guard(f"{device.hook(opening)}({context}) == 0", f"{device.hook(closing)}({context})")


def write_lookup(constants: ConstantPool, names: Names, options: Options) -> list[str]:
    """The functions that find a linked constant by its storage id, the index in the pool.

    TVM's runtimes know the one whose name the model is not part of; in an image of several models
    each has one, of which the linker takes any.
    """
    if options.interface != "packed":
        return []
    linked = [] if options.constants == "external" else constants.members
    table = "".join(f"        {CONSTANT_POOL}.{member.name},\n" for member in linked)
    nothing = "    out_ret_value->v_handle = NULL;\n    *out_ret_tcode = kTVMNullptr;\n"
    known = (
        f"    static const void *const constants[] = {{\n{table}    }};\n"
        "    const int64_t id = args[0].v_int64;\n"
        f"    if (id >= 0 && id < {len(linked)}) {{\n"
        "        out_ret_value->v_handle = (void *)constants[(size_t)id];\n"
        "        *out_ret_tcode = kTVMOpaqueHandle;\n"
        "        return 0;\n    }\n"
    )
    used = ["type_codes", "out_ret_value", "out_ret_tcode", *(["args"] if linked else [])]
    same = c_wrapped(f"    return {names.lookup}(", PACKED_ARGUMENTS, ");\n")
    weak = "" if options.runtime == "cpp" else "__attribute__((weak))\n"
    return [
        "/* The linked constant that has the storage id args[0]; a null handle where none has. */\n"
        f"{packed_head(names.lookup, 1, *used)}"
        "    if (type_codes != NULL && type_codes[0] != kTVMArgInt) {\n"
        "        return -1;\n    }\n"
        f"{known if linked else ''}{nothing}    return 0;\n}}\n",
        f"{weak}{packed_definition(LOOKUP)}{same}}}\n",
    ]
