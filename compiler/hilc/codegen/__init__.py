"""From a program to a library: C sources, the header, what the harness must know.

``operators`` writes the layers and the main, which do not depend on the interface; ``interface_c``
writes what a caller includes and calls. Another interface, or another way to make code, is a module
beside these and a value in ``options.CHOICES``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, cast

from hilc.codegen.interface_c import write_entry, write_header
from hilc.codegen.metadata import write_metadata
from hilc.codegen.names import POOL, Names, make_names
from hilc.codegen.operators import Operator, Source, display_name, write_operators
from hilc.codegen.options import Options
from hilc.library import Argument, Layer, ModelLibrary, Module, Pool, TensorInfo, module_path
from hilc.plan import Program, Step
from hilc.resources import data_dir

__all__ = ["Options", "generate"]

_INCLUDE = re.compile(r'^#include "(hil/[^"]+)"', re.MULTILINE)


def generate(program: Program, options: Options, model: bytes | None = None) -> ModelLibrary:
    """The library of ``program``; ``model`` is the file that it was compiled from."""
    names = make_names(program)
    source = write_operators(program, names, options.optimize)
    module = _module(program, names, source, options)
    folder = "codegen/host"
    files = {
        "metadata.json": write_metadata(program, names, source, module.io_bytes),
        module_path(module.name): module.to_json(),
        f"{folder}/include/{names.header}": write_header(program, names, options.pools).encode(),
        f"{folder}/src/{names.module}_lib0.c": write_entry(program, names, options.pools).encode(),
        f"{folder}/src/{names.module}_lib1.c": source.text.encode(),
    }
    for header, text in _headers(step.call.kernel.header for step in program.steps).items():
        files[f"{folder}/include/{header}"] = text
    if model is not None:
        files[f"src/{names.module}.tflite"] = model
    return ModelLibrary((module,), files)


def _headers(roots: Iterable[str]) -> dict[str, bytes]:
    """The run time's headers that ``roots`` need, themselves included, by their path."""
    include = data_dir("runtime") / "include"
    found: dict[str, bytes] = {}
    pending = sorted(set(roots))
    while pending:
        header = pending.pop()
        if header not in found:
            found[header] = (include / header).read_bytes()
            pending += _INCLUDE.findall(found[header].decode())
    return dict(sorted(found.items()))


def _module(program: Program, names: Names, source: Source, options: Options) -> Module:
    inputs = tuple(
        _info(program, name, name, field)
        for name, field in zip(program.graph.inputs, names.inputs, strict=True)
    )
    outputs = tuple(
        _info(program, tensor, name, field)
        for tensor, name, field in zip(
            program.graph.outputs, program.output_names, names.outputs, strict=True
        )
    )
    return Module(
        name=names.module,
        symbol=names.symbol,
        cpu=program.cpu.name,
        inputs=inputs,
        outputs=outputs,
        layers=tuple(
            Layer(
                name=display_name(program, step.node.name),
                op=step.node.op,
                function=operator.function,
                arguments=tuple(_arguments(program, step, operator)),
                outputs=tuple(
                    _info(program, name, display_name(program, name), f"output{index}")
                    for index, name in enumerate(step.outputs)
                ),
                macs=step.call.macs,
                input_count=operator.input_count,
            )
            for step, operator in zip(program.steps, source.operators, strict=True)
        ),
        workspace_bytes=program.workspace_bytes,
        workspace_pools=(Pool(POOL, program.workspace_bytes, None),),
        io_bytes=sum(info.nbytes for info in inputs + outputs),
        constants_bytes=source.constants_bytes,
        pools=cast(Literal["internal", "external"], options.pools),
        io_in_pool=program.io_in_pool,
    )


def _arguments(program: Program, step: Step, operator: Operator) -> Iterator[Argument]:
    """The layer's arguments as the library describes them."""
    tensors = [name for name in step.inputs if program.places[name].kind != "constant"]
    tensors += step.outputs
    described = [
        (program.graph.tensors[name].shape, program.graph.tensors[name].dtype) for name in tensors
    ]
    if step.scratch is not None:
        described.append(((step.call.scratch_bytes,), "uint8"))
    for place, (shape, dtype) in zip(operator.places, described, strict=True):
        assert place.kind != "constant"
        yield Argument(place.kind, place.value, shape, dtype)


def _info(program: Program, tensor_name: str, name: str, field: str) -> TensorInfo:
    tensor = program.graph.tensors[tensor_name]
    quant = tensor.quant if tensor.quant and tensor.quant.per_tensor else None
    place = program.places[tensor_name]
    return TensorInfo(
        name=name,
        c_name=field,
        shape=tensor.shape,
        dtype=tensor.dtype,
        scale=quant.scale[0] if quant else None,
        zero_point=quant.zero_point[0] if quant else None,
        nbytes=tensor.nbytes,
        offset=place.value if place.kind == "pool" else None,
    )
