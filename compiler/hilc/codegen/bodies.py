"""Layers of one kernel that share a body: their selection, and the C of the body.

A layer's parameters are numbers (sizes, zero points, limits) and arrays (weights, multipliers). A
kernel is fast because the C compiler knows the numbers; constant array addresses gain nothing. So
layers with equal numbers, as the blocks of a network often have, can share one body that is
specialised for those numbers and takes the arrays through a small struct. Numbers that a kernel
states as variable may differ too, and all numbers where flash matters more than speed: then those
are fields of the struct.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.codegen.cwriter import C_TYPES, c_struct_initialiser, c_wrapped
from hilc.codegen.names import Names
from hilc.lowering.bodies import body_key, exact, least_sharers
from hilc.lowering.fields import FieldValue
from hilc.lowering.kernels import Kernel, KernelCall
from hilc.memory.plan import Program


@dataclass(frozen=True, eq=False)
class Body:
    """Body of the layers ``steps``, given by their index in the program."""

    kernel: Kernel
    steps: tuple[int, ...]
    #: Parameters of the first layer; the others have the same, except for ``own``.
    fields: Mapping[str, FieldValue]
    #: C declaration of each parameter that differs between the layers, by its name.
    own: Mapping[str, str]
    names: Names

    @property
    def name(self) -> str:
        """Name of the C function, and of the struct of its differing parameters."""
        return self.names.local(f"shared_{self.steps[0]}")

    @property
    def returns_status(self) -> bool:
        """Whether the function returns a status; in plain code only one that can fail does."""
        return self.kernel.fails or not self.names.plain

    def definition(self) -> str:
        """Return the definitions of the struct and the function."""
        kernel = self.kernel
        tensors = []
        for types, local, const in ((kernel.inputs, "in", "const "), (kernel.outputs, "out", "")):
            for position, c_type in enumerate(types):
                pointer = f"{c_type[:-2]} *const *" if c_type.endswith("[]") else f"{c_type} *"
                tensors.append(f"{const}{pointer}{local}{position}")
        scratch = "uint8_t *scratch" if self.names.plain else "void *scratch"
        tensors += [scratch] * (kernel.scratch != "0")
        passed = ["&p", *(parameter.rpartition(" ")[2].lstrip("*") for parameter in tensors)]
        layers = ", ".join(map(str, self.steps[:-1])) + f" and {self.steps[-1]}"
        values = c_struct_initialiser(self.fields, {name: f"own->{name}" for name in self.own})
        struct = "".join(f"    {declaration};\n" for declaration in self.own.values())
        own = [f"const struct {self.name} *own"] * bool(self.own)
        # What differs comes last and a status is returned, as a layer's function does, so that this
        # passes its arguments on as they are and jumps here.
        call, end = ("return ", "") if kernel.fails else ("", "    return 0;\n")
        result = "int32_t" if self.returns_status else "void"
        end = end if self.returns_status else ""
        indented = values.replace("\n", "\n    ")
        return (
            f"/* Parameters of each of the layers {layers}, which share one body. */\n"
            f"struct {self.name} {{\n{struct}}};\n\n"
            if struct
            else f"/* One body for the layers {layers}. */\n"
        ) + (
            "__attribute__((noinline))\n"
            f"{c_wrapped(f'static {result} {self.name}(', [*tensors, *own], ') {')}\n"
            f"    const struct {kernel.name} p = {indented};\n"
            f"{c_wrapped(f'    {call}{kernel.name}(', passed, ');')}\n{end}}}\n"
        )


def shared_bodies(program: Program, optimize: str, names: Names) -> dict[int, Body]:
    """Return the body of each layer that shares one, by the layer's index.

    For ``size`` all layers of a portable kernel share; else layers that differ in arrays and in the
    kernel's variable numbers only, for ``speed`` those of them that are long and many.
    """
    groups: dict[tuple[str, ...], list[tuple[int, KernelCall]]] = defaultdict(list)
    for index, step in enumerate(program.steps):
        if not isinstance(step.call, KernelCall):
            continue
        key = body_key(step.call, optimize, program.cpu)
        if key is not None:
            groups[key].append((index, step.call))
    # A single layer is best specialised, for flash too: the C compiler drops the code that it does
    # not use.
    least = least_sharers(optimize)
    bodies = (_body(layers, names) for layers in groups.values() if len(layers) >= least)
    return {index: body for body in bodies for index in body.steps}


def _body(layers: Sequence[tuple[int, KernelCall]], names: Names) -> Body:
    first = layers[0][1]
    own = {
        name: _declaration(name, value)
        for name, value in first.fields.items()
        if isinstance(value, np.ndarray)
        or len({exact(call.fields[name]) for _, call in layers}) > 1
    }
    return Body(first.kernel, tuple(index for index, _ in layers), first.fields, own, names)


def _declaration(name: str, value: FieldValue) -> str:
    """Return the declaration of a field with this value in the kernel's parameter struct."""
    if isinstance(value, np.ndarray):
        return f"const {C_TYPES[value.dtype.name]} *{name}"
    return f"{'int32_t' if isinstance(value, (int, np.integer)) else 'float'} {name}"
