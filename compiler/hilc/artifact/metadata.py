"""``metadata.json`` of Model Library Format, version 7, which TVM's tools read too."""

from __future__ import annotations

import time
from typing import Any

from hilc.artifact.archive import export_time_s
from hilc.artifact.library import FORMAT_VERSION
from hilc.artifact.shipped import shipped_runtime
from hilc.codegen.externals import external_constants_bytes
from hilc.codegen.names import Names
from hilc.codegen.operators import Source
from hilc.codegen.options import Options
from hilc.codegen.states import reset_bytes
from hilc.ir import Tensor
from hilc.memory.plan import Program
from hilc.support.jsondata import json_bytes
from hilc.target import Cpu

# DLPack's kDLCPU: TVM lists memory by device.
_CPU_DEVICE = 1


def write_metadata(
    program: Program,
    names: Names,
    source: Source,
    io_bytes: int,
    options: Options,
) -> bytes:
    """Return ``metadata.json`` for a library of one module."""
    tensors = program.graph.tensors
    main = {
        "device": _CPU_DEVICE,
        "workspace_size_bytes": program.workspace_bytes,
        "constants_size_bytes": source.constants_bytes
        + external_constants_bytes(program)
        + reset_bytes(program),
        "io_size_bytes": io_bytes,
        "inputs": {name: _size(tensors[name]) for name in program.graph.inputs},
        "outputs": {
            name: _size(tensors[tensor])
            for name, tensor in zip(program.output_names, program.graph.outputs, strict=True)
        },
    }
    operators = [
        {
            "function_name": operator.function,
            "workspace": [{"device": _CPU_DEVICE, "workspace_size_bytes": step.call.scratch_bytes}],
        }
        for step, operator in zip(program.steps, source.operators, strict=True)
    ]
    module: dict[str, Any] = {
        "model_name": names.module,
        "export_datetime": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(export_time_s())),
        "memory": {"functions": {"main": [main], "operator_functions": operators}},
        "target": [_target(options.codegen, program.cpu)],
        "executors": ["aot"],
        "style": "full-model",
    }
    if options.runtime == "crt" and (runtime := shipped_runtime()) is not None:
        module["external_dependencies"] = [dict(runtime.dependency)]
    return json_bytes({"version": FORMAT_VERSION, "modules": {names.module: module}})


def _size(tensor: Tensor) -> dict[str, Any]:
    return {"size": tensor.nbytes, "dtype": tensor.dtype}


def _target(codegen: str, cpu: Cpu) -> str:
    return f"{codegen} -keys={cpu.tvm_keys}"
