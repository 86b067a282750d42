"""Arguments of generated functions: of the layers' operators, and of the main that calls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hilc.codegen.constants import pool_constants
from hilc.codegen.cwriter import C_TYPES, c_pointer
from hilc.codegen.described import Argument, Kind
from hilc.codegen.names import CONSTANT_POOL
from hilc.codegen.options import Options
from hilc.external import Device, ExternalCall
from hilc.memory.plan import Program


@dataclass(frozen=True)
class Operator:
    """C function of a layer, and the arguments that the main passes to it."""

    function: str
    #: Tensors that it reads (without constants of the model), tensors that it writes, its planned
    #: scratch, the constant pool if it is external and the layer reads it, the device.
    arguments: tuple[Argument, ...]
    input_count: int
    output_count: int
    #: Whether its status says which loop failed, so that the main returns it; else that returns -1.
    has_status: bool = False

    @property
    def parameters(self) -> list[str]:
        """Names of the function's parameters."""
        names = [f"input{i}" for i in range(self.input_count)]
        names += [f"output{i}" for i in range(self.output_count)]
        rest = (argument.kind for argument in self.arguments[len(names) :])
        return names + ["scratch" if kind == "pool" else kind for kind in rest]

    @property
    def operands(self) -> dict[str, str]:
        """The C element type of each tensor parameter, by the parameter's name."""
        # Both have the tensors first.
        count = self.input_count + self.output_count
        types = (C_TYPES[argument.dtype] for argument in self.arguments[:count])
        return dict(zip(self.parameters, types, strict=False))


@dataclass(frozen=True)
class MainArgument:
    """Argument of the main: a tensor or a pool of ``shape`` and ``dtype``, or a device's context.

    A context is an opaque handle, without a shape and with the type "".
    """

    kind: Kind
    #: Index of the model's input, output, workspace pool or device.
    index: int
    #: C parameter if the main takes pointers.
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def c_type(self) -> str:
        """The argument's C type."""
        return c_type(self.kind)


def c_type(kind: str) -> str:
    """Return the C type of the pointer to such an argument."""
    return "uint8_t *" if kind in ("constants", "pool") else "void *"


class Pointers:
    """C expressions of tensors and pools, in a function with these arguments."""

    def __init__(self, arguments: Sequence[MainArgument]) -> None:
        self.variables = {(a.kind, a.index): a.name for a in arguments}
        self._types = {(a.kind, a.index): C_TYPES.get(a.dtype, "void") for a in arguments}

    def of(self, argument: Argument) -> str:
        """Return the expression that is passed to an operator."""
        if argument.kind == "pool":
            return f"&{self.variables['pool', argument.pool]}[{argument.value}]"
        return self.variables[argument.kind, argument.value]

    def typed(self, argument: Argument) -> str:
        """Return the expression as a pointer to the argument's elements."""
        have, qualifier = "uint8_t", "const " if argument.kind == "input" else ""
        if argument.kind != "pool":
            have = self._types[argument.kind, argument.value]
        return c_pointer(self.of(argument), have, C_TYPES[argument.dtype], qualifier)


def main_arguments(program: Program, options: Options) -> tuple[MainArgument, ...]:
    """Return the main's arguments, in order: inputs, outputs, external constants, workspaces,
    devices.
    """
    tensors = program.graph.tensors
    arguments: list[MainArgument] = []
    if not program.io_in_pool:
        for index, name in enumerate(program.graph.inputs if program.feed is None else ()):
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
    for index, pool in enumerate(program.pools):
        if options.pools != "calls" or pool.persistent:
            name = f"{pool.name}_{len(pools)}_var"
            if options.style == "plain":
                name = "workspace" if not pools else f"workspace_{len(pools)}"
            pools.append(MainArgument("pool", index, name, (pool.nbytes,), "uint8"))
    devices = [
        MainArgument("device", index, f"device{index}", (), "")
        for index in range(len(program_devices(program)))
    ]
    return (*arguments, *pools, *devices)


def program_devices(program: Program) -> tuple[Device, ...]:
    """Return the devices of external functions, each once, in the order of first use."""
    devices: dict[str, Device] = {}
    for step in program.steps:
        if isinstance(step.call, ExternalCall) and (device := step.call.module.device):
            devices.setdefault(device.field, device)
    return tuple(devices.values())


def feed_arguments(program: Program, options: Options) -> tuple[MainArgument, ...]:
    """Return the arguments of the function that computes on the rows that came: of those of the
    main all but the devices.
    """
    return tuple(a for a in main_arguments(program, options) if a.kind != "device")
