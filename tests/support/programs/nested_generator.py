"""A code generator for tests that takes any operator: our own C, as if it came from outside."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from hilc.codegen.arguments import main_arguments
from hilc.codegen.headers import find_header, include_dirs
from hilc.codegen.naming import make_names
from hilc.codegen.operators import write_operators
from hilc.codegen.options import Options
from hilc.external import ExternalModule, Wanted, connected_groups
from hilc.ir import Graph
from hilc.memory.plan import plan
from hilc.target import Cpu

_INCLUDE = re.compile(r'^#include "(hil/[^"]+)"\n', re.MULTILINE)


class Nested:
    """Makes C source or, as ``kind``, an object; ``group`` turns what is ``wanted`` into groups."""

    def __init__(
        self,
        wanted: Wanted,
        kind: str = "source",
        name: str = "nested",
        group: Callable[[Graph, Wanted], list[list[int]]] = connected_groups,
    ) -> None:
        self.name = name
        self._wanted = wanted
        self._kind = kind
        self._group = group
        #: The subgraphs that were asked for.
        self.subgraphs: list[Graph] = []

    def claim(self, graph: Graph) -> Sequence[Sequence[int]]:
        """The groups."""
        return self._group(graph, self._wanted)

    def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
        """The subgraph compiled as a model whose workspace is the caller's: the scratch."""
        self.subgraphs.append(subgraph)
        options = Options(pools="external")
        program = plan(subgraph.with_(name=symbol), cpu)
        names = make_names(program)
        text = write_operators(program, names, options).text
        if api == "packed":
            text = f'#include "tvm/runtime/c_backend_api.h"\n{text}'
        passed = {"input": "input{}", "output": "output{}", "pool": "scratch"}
        arguments = ", ".join(
            passed[argument.kind].format(argument.index)
            for argument in main_arguments(program, options)
        )
        scratch = program.workspace_bytes
        parameters = [f"input{i}" for i in range(len(subgraph.inputs))]
        parameters += [f"output{i}" for i in range(len(subgraph.outputs))]
        parameters += ["scratch"] if scratch else []
        text += _wrapper(symbol, api, parameters, f"{names.main}({arguments})", bool(scratch))
        if self._kind == "source":
            return ExternalModule(symbol, source=_with_headers(text), scratch_bytes=scratch)
        data = host_object(text, *(f"-I{folder}" for folder in include_dirs()))
        return ExternalModule(symbol, object=data, scratch_bytes=scratch, type_key="o")


def _wrapper(symbol: str, api: str, parameters: Sequence[str], call: str, scratch: bool) -> str:
    head = "" if scratch else "    void *const scratch = NULL;\n    (void)scratch;\n"
    if api == "unpacked":
        declared = ", ".join(f"void *{name}" for name in parameters)
        return f"int32_t {symbol}({declared}) {{\n{head}    return {call};\n}}\n"
    for i, name in enumerate(parameters):
        tensor = f"((const DLTensor *)args[{i}].v_handle)"
        head += f"    void *const {name} = (uint8_t *){tensor}->data + {tensor}->byte_offset;\n"
        head += f"    if (type_codes[{i}] != kTVMDLTensorHandle) {{\n        return -2;\n    }}\n"
    return (
        f"int32_t {symbol}(TVMValue *args, int *type_codes, int num_args,\n"
        "        TVMValue *out_ret_value, int *out_ret_tcode, void *resource_handle) {\n"
        "    (void)out_ret_value;\n    (void)out_ret_tcode;\n    (void)resource_handle;\n"
        f"    if (num_args != {len(parameters)}) {{\n        return -1;\n    }}\n"
        f"{head}    return {call};\n}}\n"
    )


def _with_headers(text: str) -> str:
    """The C with the run time's headers in it: a library has only those that its own code needs."""
    seen: set[str] = set()

    def expand(match: re.Match[str]) -> str:
        if match[1] in seen:
            return ""
        seen.add(match[1])
        header = find_header(match[1])
        return _INCLUDE.sub(expand, header.read_text(encoding="utf-8"))

    return _INCLUDE.sub(expand, text)


@functools.cache
def host_object(text: str, *flags: str) -> bytes:
    """The C compiled for this machine."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "module.c")
        source.write_text(text, encoding="utf-8")
        command = ["gcc", "-O1", "-fPIC", *flags, "-c", source.name, "-o", "module.o"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return Path(folder, "module.o").read_bytes()
