"""Generation of a program's library: all its files, and the description of its module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, cast

from hilc.artifact.library import (
    Layer,
    ModelLibrary,
    Module,
    Pool,
    TensorInfo,
    constants_path,
    module_path,
)
from hilc.artifact.manifest import CompressedArrays, Origin
from hilc.artifact.metadata import write_metadata
from hilc.artifact.shipped import parameters_file, shipped_files
from hilc.artifact.work_of import work_of
from hilc.codegen import llvm
from hilc.codegen.arguments import Operator
from hilc.codegen.constants import is_binary
from hilc.codegen.control_flow import with_written_calls
from hilc.codegen.dialects import INTERFACES
from hilc.codegen.entry import write_entry
from hilc.codegen.externals import (
    describe_externals,
    external_constants_bytes,
    external_files,
)
from hilc.codegen.header import write_header
from hilc.codegen.headers import find_header
from hilc.codegen.names import Names
from hilc.codegen.naming import make_names
from hilc.codegen.operators import Source, display_name, write_operators
from hilc.codegen.options import Options
from hilc.codegen.plain import require_plain, write_plain_header
from hilc.codegen.plain_text import plain_header
from hilc.codegen.states import reset_bytes
from hilc.codegen.statuses import loop_bounds
from hilc.errors import InputError
from hilc.frontends import reader_of
from hilc.ir import Graph
from hilc.lowering.compressed import CompressedCall
from hilc.lowering.kernels import registered_header
from hilc.memory.plan import Program, Step
from hilc.ops.turn_counts import turn_counts
from hilc.source import PreparedModel
from hilc.transforms.io_types import io_saving
from hilc.transforms.numerics import numerics_of

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
#: Folder of the runtime's headers.
_SHIPPED = "hil/"
_FOLDER = "codegen/host"
#: Remaining channels of reduced tensors, by name.
Channels = Mapping[str, tuple[int, ...]]


def generate(
    program: Program,
    options: Options,
    prepared: PreparedModel,
) -> ModelLibrary:
    """Return the library of ``program``, which was planned for the graph of ``prepared``.

    Raises :class:`~hilc.errors.InputError` for a model with states and TVM's C++ run time.
    """
    if program.graph.states and options.runtime == "cpp":
        raise InputError(
            f"{program.graph.name!r} has states, which TVM's C++ run time neither keeps nor resets",
            "use runtime=crt",
        )
    if options.style == "plain":
        require_plain(program)
    program = with_written_calls(program, options.style)
    names = make_names(program, options.entry)
    source = write_operators(program, names, options)
    module = _module(program, names, source, options, prepared)
    counts = turn_counts(program.graph)
    inputs = tuple(replace(t, turns=counts.get(t.name)) for t in module.inputs)
    module = replace(module, inputs=inputs)
    table = module.functions if options.with_registry else None
    files = _sources(program, names, source, options, table)
    externals = external_files(program, names)
    parts = (data.decode() for path, data in externals.items() if path.endswith(".c"))
    for header, data in _headers(parts, options.style).items():
        files[f"{_FOLDER}/include/{header}"] = data
    files.update(externals)
    if options.codegen == "llvm":
        files = llvm.to_objects(files, module.name, program.cpu, table)
    # The parameters as TVM stores them.
    is_tvm = options.style == "tvm"
    origins = parameters_file(prepared.original, names.module) if is_tvm else {}
    if prepared.file is not None:
        reader = reader_of(prepared.file)
        assert reader is not None
        origins[f"src/{names.module}{reader.suffix}"] = prepared.file
    made_from = tuple(Origin.of(path, data) for path, data in origins.items())
    module = replace(module, made_from=made_from)
    files["metadata.json"] = write_metadata(program, names, source, module.io_bytes, options)
    files[module_path(module.name)] = module.to_json()
    files |= origins
    if is_tvm:
        files |= shipped_files(options.runtime)
    return ModelLibrary((module,), dict(sorted(files.items())))


def _sources(
    program: Program,
    names: Names,
    source: Source,
    options: Options,
    table: tuple[str, ...] | None,
) -> dict[str, bytes]:
    """Return the C files of the library by path, with the runtime's headers that they include."""
    if options.style == "plain":
        plain_texts = {
            f"{_FOLDER}/include/{names.header}": write_plain_header(program, names, options),
            f"{_FOLDER}/src/{names.module}.c": source.text,
        }
        return _with_headers(plain_texts, options.style)
    # The LLVM back end writes the table itself.
    in_c = table if options.codegen == "c" else None
    texts = {
        f"{_FOLDER}/include/{names.header}": write_header(
            program, names, options, source.constants
        ),
        f"{_FOLDER}/src/{names.module}_lib0.c": write_entry(program, names, options, in_c),
        f"{_FOLDER}/src/{names.module}_lib1.c": source.text,
    }
    interface = INTERFACES[options.entry]
    for number, text in interface.sources(program, names, options, source.constants).items():
        texts[f"{_FOLDER}/src/{names.module}_lib{number}.c"] = text
    files = _with_headers(texts, options.style)
    if is_binary(source.constants, options.constants):
        files[constants_path(names.module)] = source.constants.data
    return files


def _with_headers(texts: Mapping[str, str], style: str) -> dict[str, bytes]:
    """Return the files, with the runtime's headers that they include."""
    files = {path: text.encode() for path, text in texts.items()}
    for header, data in _headers(texts.values(), style).items():
        files[f"{_FOLDER}/include/{header}"] = data
    return files


def _headers(texts: Iterable[str], style: str) -> dict[str, bytes]:
    """Return the headers that ``texts`` include, directly or indirectly, by path."""
    found: dict[str, bytes] = {}
    pending = {header for text in texts for header in _INCLUDE.findall(text)}
    while pending:
        header = pending.pop()
        if header in found:
            continue
        if (text := registered_header(header)) is not None:
            found[header] = text.encode()
        elif header.startswith(_SHIPPED):
            found[header] = find_header(header).read_bytes()
        else:
            continue  # of the library itself, or of TVM's interfaces
        pending.update(_INCLUDE.findall(found[header].decode()))
    if style == "plain":
        found = {path: plain_header(data, path) for path, data in found.items()}
    return dict(sorted(found.items()))


def _module(
    program: Program,
    names: Names,
    source: Source,
    options: Options,
    prepared: PreparedModel,
) -> Module:
    annotations = prepared.annotations
    channels = annotations.channels
    inputs = tuple(
        _info(program, channels, name, name, field)
        for name, field in zip(program.graph.inputs, names.inputs, strict=True)
    )
    outputs = tuple(
        _info(program, channels, tensor, name, field)
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
            _layer(program, channels, step, operator)
            for step, operator in zip(program.steps, source.operators, strict=True)
        ),
        workspace_bytes=program.workspace_bytes,
        # Rows that are fed lie in none.
        io_bytes=sum(i.nbytes for i in (*(() if program.feed else inputs), *outputs)),
        constants_bytes=source.constants_bytes
        + external_constants_bytes(program)
        + reset_bytes(program),
        pools=cast(Literal["internal", "external", "calls"], options.pools),
        io_in_pool=program.io_in_pool,
        workspace_pools=tuple(
            Pool(name, pool.nbytes, pool.region, pool.persistent)
            for name, pool in zip(names.pools, program.pools, strict=True)
        ),
        codegen=cast(Literal["c", "llvm"], options.codegen),
        api=cast(Literal["unpacked", "packed"], options.api),
        interface=cast(Literal["c", "packed"], options.interface),
        style=cast(Literal["tvm", "plain"], options.style),
        constants=_place_of_constants(source, options),
        devices=names.devices,
        functions=tuple(
            INTERFACES[options.entry].functions(program, names, source.operators, options)
        ),
        externals=describe_externals(program),
        folded=prepared.folded,
        states=tuple(
            _info(program, channels, state.name, state.name, field)
            for state, field in zip(program.graph.states, names.states, strict=True)
        ),
        goal=options.optimize,
        reference=_reference(prepared.original),
        fixed_sizes=annotations.fixed_sizes,
        class_labels=annotations.class_labels,
        float_layers=annotations.float_layers,
        rounded_biases=annotations.rounded_biases,
        io_savings=() if (saving := io_saving(program.graph)) is None else (saving,),
        dynamic_forms=annotations.dynamic_forms,
        fed_rows=0 if program.feed is None else program.fed_tensor.shape[1],
        loop_bounds=loop_bounds(program),
        compressed=tuple(
            CompressedArrays(index, *step.call.compressed_bytes, step.call.tile_bytes)
            for index, step in enumerate(program.steps)
            if isinstance(step.call, CompressedCall)
        ),
    )


def _place_of_constants(
    source: Source, options: Options
) -> Literal["internal", "binary", "external"]:
    if not source.constants_bytes:
        return "internal"  # there is no pool
    if options.constants == "external":
        return "external"
    # Objects have the values in them.
    in_file = options.codegen == "c" and is_binary(source.constants, options.constants)
    return "binary" if in_file else "internal"


def _reference(graph: Graph) -> Literal["tflm", "litert-ref", "onnx"] | None:
    numerics = numerics_of(graph)
    return None if numerics is None else numerics.value


def _layer(program: Program, channels: Channels, step: Step, operator: Operator) -> Layer:
    fused = step.nodes if len(step.nodes) > 1 else ()
    return Layer(
        name=display_name(program, step.node.name),
        op=step.node.op,
        function=operator.function,
        arguments=operator.arguments,
        outputs=tuple(
            _info(program, channels, name, display_name(program, name), f"output{index}")
            for index, name in enumerate(step.outputs)
        ),
        macs=step.call.macs,
        input_count=operator.input_count,
        group=tuple(display_name(program, node.name) for node in fused),
        group_ops=tuple(node.op for node in fused),
        work=work_of(program.graph, step),
    )


def _info(
    program: Program, channels: Channels, tensor_name: str, name: str, field: str
) -> TensorInfo:
    tensor = program.graph.tensors[tensor_name]
    quant = tensor.quant if tensor.quant and tensor.quant.per_tensor else None
    ref = program.buffers[tensor_name]
    return TensorInfo(
        name=name,
        c_name=field,
        shape=tensor.shape,
        dtype=tensor.dtype,
        scale=quant.scale[0] if quant else None,
        zero_point=quant.zero_point[0] if quant else None,
        nbytes=tensor.nbytes,
        offset=ref.value if ref.kind == "pool" else None,
        pool=ref.pool if ref.kind == "pool" else 0,
        channels=channels.get(tensor_name),
    )
