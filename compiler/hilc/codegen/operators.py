"""The operators of a module in C: constants, parameters, one function a layer, and the main.

This is ``<name>_lib1.c``. Each layer's function calls a kernel of the run time with a constant
parameter struct. Where a body is specialised, the C compiler sees both and folds every constant;
where it is shared, one copy that is not inlined takes the struct by pointer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hilc.codegen.cwriter import (
    CONSTANT_ALIGNMENT,
    c_array,
    c_comment,
    c_struct_initialiser,
    c_wrapped,
)
from hilc.codegen.names import POOL, Names
from hilc.ir import Array, Tensor
from hilc.kernels import Kernel
from hilc.plan import Place, Program, Step

# Linker scripts place the section; those written for TVM's code do already.
_CONSTANT = "HILC_CONSTANT"
_DEFINE_CONSTANT = f"""\
#define {_CONSTANT} \\
    static const __attribute__((section(".rodata.tvm"), aligned({CONSTANT_ALIGNMENT})))
"""

#: The main's parameter that points to the workspace.
POOL_PARAMETER = f"{POOL}_0_var"


@dataclass(frozen=True)
class Operator:
    """A layer's C function, and the places that the main passes to it."""

    function: str
    #: The tensors that the layer reads (constants are not passed), those that it writes, scratch.
    places: tuple[Place, ...]
    input_count: int


@dataclass(frozen=True)
class Source:
    """The text of a C file, with what the rest of the library says about it."""

    text: str
    operators: tuple[Operator, ...]
    constants_bytes: int


def write_operators(program: Program, names: Names, optimize: str) -> Source:
    """``<name>_lib1.c``."""
    shared = _shared_kernels(program, optimize)
    constants = _Constants()
    tensors = [
        constants.add(f"constant_{i}", _data(program, n)) for i, n in enumerate(program.constants)
    ]
    operators: list[Operator] = []
    layers: list[str] = []
    for index, step in enumerate(program.steps):
        kernel = step.call.kernel
        operator = _operator(program, step, names.operator(step.node.op, index))
        callee = f"shared_{kernel.name}" if kernel.name in shared else kernel.name
        arrays = {
            field: constants.add(f"layer_{index}_{field}", value)
            for field, value in step.call.fields.items()
            if isinstance(value, np.ndarray)
        }
        parameters = c_struct_initialiser(step.call.fields, arrays)
        layers.append(
            f"{_comment(program, step)}"
            f"{constants.take_new()}"
            f"static const struct {kernel.name} layer_{index} = {parameters};\n\n"
            f"{_function(program, step, operator, callee, f'&layer_{index}', tensors)}"
        )
        operators.append(operator)
    includes = sorted({step.call.kernel.header for step in program.steps})
    parts = [
        c_comment(f'The operators of "{program.graph.name}", and the main that calls them.')
        + "".join(f"#include <{header}>\n" for header in ("stddef.h", "stdint.h"))
        + "\n"
        + "".join(f'#include "{header}"\n' for header in includes)
        + f"\n{_DEFINE_CONSTANT}",
        *(_shared_body(step.call.kernel) for step in shared.values()),
        *layers,
        _main(program, names, operators),
    ]
    return Source("\n".join(parts), tuple(operators), constants.nbytes)


def _shared_kernels(program: Program, optimize: str) -> dict[str, Step]:
    """The kernels whose body several layers share, each with one of those layers.

    A kernel that a single layer uses is specialised even for size: knowing the constants, the C
    compiler leaves out what the layer does not need.
    """
    if optimize != "size":
        return {}
    uses = Counter(step.call.kernel.name for step in program.steps)
    return {s.call.kernel.name: s for s in program.steps if uses[s.call.kernel.name] > 1}


class _Constants:
    """The constant arrays of a file; equal ones are written once."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._names: dict[tuple[str, bytes], str] = {}
        self._new: list[str] = []

    def add(self, name: str, array: Array) -> str:
        """The name of an array with these values: ``name``, or that of an earlier one."""
        key = (array.dtype.name, array.tobytes())
        if key not in self._names:
            self._names[key] = name
            self._new.append(c_array(name, array, _CONSTANT))
            self.nbytes += array.nbytes
        return self._names[key]

    def take_new(self) -> str:
        """The definitions of the arrays that were added since this was last called."""
        text = "".join(f"{definition}\n" for definition in self._new)
        self._new.clear()
        return text


def _data(program: Program, name: str) -> Array:
    data = program.graph.tensors[name].data
    assert data is not None
    return data


def _operator(program: Program, step: Step, function: str) -> Operator:
    reads = [p for p in (program.places[n] for n in step.inputs) if p.kind != "constant"]
    writes = [program.places[name] for name in step.outputs]
    scratch = [step.scratch] if step.scratch else []
    return Operator(function, (*reads, *writes, *scratch), len(reads))


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"


def _comment(program: Program, step: Step) -> str:
    """What the layer is in the model's own terms."""
    tensors = program.graph.tensors
    reads = " x ".join(_describe(tensors[name]) for name in step.node.inputs if name)
    writes = ", ".join(_describe(tensors[name]) for name in step.outputs)
    macs = f", {step.call.macs:,} multiply-accumulates" if step.call.macs else ""
    # A fused layer's name is a list without spaces, which could not be wrapped.
    name = display_name(program, step.node.name).replace(";", "; ")
    return c_comment(
        f"{step.node.op} {name}", f"operator {step.node.index}: {reads} -> {writes}{macs}"
    )


def display_name(program: Program, name: str) -> str:
    """The model's name of a tensor, where the planner had to add a copy of it."""
    return dict(zip(program.graph.outputs, program.output_names, strict=True)).get(name, name)


def _function(
    program: Program,
    step: Step,
    operator: Operator,
    callee: str,
    parameters: str,
    tensors: list[str],
) -> str:
    """The layer's function: pointers in, the kernel called, 0 out."""
    kernel = step.call.kernel
    own = iter(f"input{i}" for i in range(operator.input_count))
    places = [program.places[name] for name in step.inputs]
    reads = [tensors[p.value] if p.kind == "constant" else next(own) for p in places]
    writes = [f"output{i}" for i in range(len(step.outputs))]
    declared = [
        name for name, p in zip(reads, places, strict=True) if p.kind != "constant"
    ] + writes
    declared += ["scratch"] if step.scratch else []
    body, passed = [], [parameters]
    for types, values, local, qualifier in (
        (kernel.inputs, reads, "inputs", "const "),
        (kernel.outputs, writes, "outputs", ""),
    ):
        for position, c_type in enumerate(types):
            if c_type.endswith("[]"):
                elements = ", ".join(values[position:])
                body.append(f"    {qualifier}{c_type[:-2]} *const {local}[] = {{{elements}}};\n")
                passed.append(local)
            else:
                passed.append(values[position])
    if kernel.scratch != "0":
        passed.append("scratch" if step.scratch else "NULL")
    head = f"int32_t {operator.function}("
    return (
        f"{c_wrapped(head, [f'void *{name}' for name in declared], ') {')}\n{''.join(body)}"
        f"{c_wrapped(f'    {callee}(', passed, ');')}\n    return 0;\n}}\n"
    )


def _shared_body(kernel: Kernel) -> str:
    parameters = [f"const struct {kernel.name} *p"]
    for types, local, qualifier in ((kernel.inputs, "in", "const "), (kernel.outputs, "out", "")):
        for position, c_type in enumerate(types):
            pointer = f"{c_type[:-2]} *const *" if c_type.endswith("[]") else f"{c_type} *"
            parameters.append(f"{qualifier}{pointer}{local}{position}")
    parameters += ["void *scratch"] if kernel.scratch != "0" else []
    passed = ", ".join(parameter.rpartition(" ")[2].lstrip("*") for parameter in parameters)
    head = f"static void shared_{kernel.name}("
    return (
        "/* One body for several layers. */\n__attribute__((noinline))\n"
        f"{c_wrapped(head, parameters, ') {')}\n    {kernel.name}({passed});\n}}\n"
    )


def main_parameters(program: Program) -> list[str]:
    """The parameters' names of the main, in order; all but the last are ``void *``."""
    if program.io_in_pool:
        return [POOL_PARAMETER]
    inputs = [f"input{i}" for i in range(len(program.graph.inputs))]
    outputs = [f"output{i}" for i in range(len(program.graph.outputs))]
    return [*inputs, *outputs, POOL_PARAMETER]


def main_prototype(program: Program, names: Names) -> str:
    """The main's declaration, without the semicolon."""
    *buffers, pool = main_parameters(program)
    parameters = [*(f"void *{buffer}" for buffer in buffers), f"uint8_t *{pool}"]
    return c_wrapped(f"int32_t {names.main}(", parameters, ")")


def _main(program: Program, names: Names, operators: list[Operator]) -> str:
    arguments = [_argument(place) for operator in operators for place in operator.places]
    used = {argument.lstrip("&").partition("[")[0] for argument in arguments}
    unused = [parameter for parameter in main_parameters(program) if parameter not in used]
    return (
        "/* Runs the layers in order; -1 as soon as one fails. */\n"
        f"{main_prototype(program, names)} {{\n"
        f"{''.join(f'    (void){parameter};' + chr(10) for parameter in unused)}"
        f"{''.join(_calls(operators))}    return 0;\n}}\n"
    )


def _calls(operators: Iterable[Operator]) -> Iterable[str]:
    for operator in operators:
        head = f"    if ({operator.function}("
        call = c_wrapped(head, list(map(_argument, operator.places)), ") != 0) {")
        yield f"{call}\n        return -1;\n    }}\n"


def _argument(place: Place) -> str:
    if place.kind == "pool":
        return f"&{POOL_PARAMETER}[{place.value}]"
    return f"{place.kind}{place.value}"
