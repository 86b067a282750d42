"""The main of a module: calls the layers in order, in either calling convention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hilc.codegen.constants import CONSTANT_POOL, pool_constants
from hilc.codegen.cwriter import c_wrapped
from hilc.codegen.names import Names
from hilc.codegen.options import Options
from hilc.codegen.registry import packed_prototype
from hilc.external import Device, ExternalCall
from hilc.plan import Program


@dataclass(frozen=True)
class MainArgument:
    """What the main takes: a pointer, or, packed, a DLTensor of ``shape`` and ``dtype``.

    A device's context is an opaque handle, without a shape and with the type "".
    """

    kind: Literal["input", "output", "constants", "pool", "device"]
    #: Of the model's input, output, workspace pool or device.
    index: int
    #: The C parameter where the main takes pointers.
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def c_type(self) -> str:
        return "uint8_t *" if self.kind in ("constants", "pool") else "void *"


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
    parameters = [f"{a.c_type}{a.name}" for a in main_arguments(program, options)]
    return c_wrapped(f"int32_t {names.main}(", parameters or ["void"], ")")
