"""Archives as TVM wrote them, of a small model whose answers numpy knows.

The files' names and order, the functions' names and signatures, and what the metadata say are those
of TVM 0.8 to 0.15; the code is this project's own. The model has two inputs and two outputs, the
inputs not in alphabetical order, one with a name that is no C name::

    sum = zoom + at-in                     int16[8], in the workspace
    output0 = weights @ sum + bias         int32[1, 4]
    output1 = max(sum)                     int16[1]
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hilc.artifact.params import save_params
from hilc.compat.tvm.crt import INCLUDE
from hilc.ir import Array

_WEIGHTS = (np.arange(32, dtype=np.int64) * 37 % 255 - 127).astype(np.int8).reshape(4, 8)
_BIAS = np.array([1000, -70000, 3, 0], np.int32)

INPUTS = {"zoom": ((1, 8), "int8"), "at-in": ((2, 4), "int8")}
OUTPUTS = {"output0": ((1, 4), "int32"), "output1": ((1,), "int16")}

# Bytes that the plan gives to each.
_SUM_BYTES = 16
_SCRATCH_BYTES = 64
_CONSTANT_BYTES = 48


def expected(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What the model answers."""
    total = inputs["zoom"].reshape(8).astype(np.int16) + inputs["at-in"].reshape(8)
    product = _WEIGHTS.astype(np.int32) @ total.astype(np.int32) + _BIAS
    return {
        "output0": product.reshape(1, 4).astype(np.int32),
        "output1": np.array([total.max()], np.int16),
    }


@dataclass(frozen=True)
class Style:
    """What kind of archive: the words of TVM's options and passes."""

    version: int = 7
    interface: str = "c"
    api: str = "unpacked"
    #: internal | external | mapped (inputs and outputs in an external pool) | calls
    pools: str = "internal"
    #: With external pools: the constants, too.
    external_constants: bool = False
    system_lib: bool = False
    #: Objects instead of C sources: the compiler to call, with its flags.
    compiler: tuple[str, ...] = ()
    target: str = "c -keys=arm_cpu,cpu -mcpu=cortex-m4"
    devices: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"v{self.version}", self.interface, self.api, self.pools]
        words += ["constants"] * self.external_constants + ["system-lib"] * self.system_lib
        return "-".join([*words, *self.devices, *["objects"] * bool(self.compiler)])


#: One of every kind that TVM could write and that compiles.
STYLES = (
    Style(5, pools="calls"),
    Style(6, pools="calls"),
    Style(6),
    Style(),
    Style(pools="external"),
    Style(pools="external", external_constants=True),
    Style(pools="mapped"),
    Style(pools="calls"),
    Style(devices=("ethos_u",)),
    Style(5, "packed", "packed", "calls", system_lib=True),
    Style(7, "packed", "packed", "internal", system_lib=True),
    Style(7, "packed", "packed", "calls", system_lib=True),
    Style(7, "packed", "unpacked", "internal"),
    Style(7, "packed", "unpacked", "calls"),
)


def tvm_files(style: Style, names: Sequence[str] = ("default",)) -> dict[str, bytes]:
    """The files of an archive with a module for each name."""
    files: dict[str, bytes] = {"templates/crt_config.h.template": b"#error not for this build\n"}
    # A build that takes TVM's run time for ours must fail.
    header = "runtime/include/tvm/runtime/c_runtime_api.h"
    files[header] = b"#error this is the archive's run time\n"
    entries = {}
    for name in names:
        module = _Module(name, style)
        files.update(module.files())
        entries[name] = module.metadata()
    metadata: dict[str, Any] = {"version": style.version, "modules": entries}
    if style.version < 7:
        metadata = {"version": style.version, **entries[names[0]]}
    files["metadata.json"] = json.dumps(metadata, indent=2, sort_keys=True).encode()
    return files


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    """``files`` as ``tarfile`` packs a folder: with its folders, below ``.``."""
    folders = {
        "/".join(name.split("/")[:depth]) for name in files for depth in range(name.count("/") + 1)
    }
    with tarfile.open(path, "w") as tar:
        for name in sorted(folders | set(files)):
            info = tarfile.TarInfo(f"./{name}" if name else ".")
            info.uname = info.gname = "root"
            info.type = tarfile.REGTYPE if name in files else tarfile.DIRTYPE
            info.size = len(files.get(name, b""))
            tar.addfile(info, io.BytesIO(files.get(name, b"")))
    return path


def tvm_tar(path: Path, style: Style, names: Sequence[str] = ("default",)) -> Path:
    """The archive as a file."""
    return write_tar(path, tvm_files(style, names))


# The code ---------------------------------------------------------------------------------------

_PACKED = (
    "TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, "
    "void* resource_handle"
)
_PACKED_DEFINITION = (
    "void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, "
    "int32_t* out_ret_tcode, void* resource_handle"
)
_EXTERN_C = '#ifdef __cplusplus\nextern "C"\n#endif\n'


@dataclass(frozen=True)
class _Operand:
    """An argument of an operator: how its body types it, and what the main passes."""

    name: str
    element: str
    bits: tuple[int, int]
    shape: tuple[int, ...]
    source: str


class _Module:
    def __init__(self, name: str, style: Style) -> None:
        self._name = name
        self._style = style
        self._is_c = style.interface == "c"
        self._symbol = f"tvmgen_{name.lower()}" if self._is_c else f"tvmgen_{name}"
        # The main and the operators keep the name's capitals.
        self._mangled = f"tvmgen_{name}"
        self._is_planned = style.pools != "calls"
        self._constants = "flash" if style.external_constants else "global_const_workspace"
        self._workspace = "sram" if style.pools in ("external", "mapped") else "global_workspace"
        # Where inputs and outputs lie in the pool, behind the sum and the scratch.
        self._offsets = {"zoom": 80, "at_in": 96, "output0": 112, "output1": 128}
        self._pool_bytes = 144 if style.pools == "mapped" else 80

    # -- metadata ----------------------------------------------------------------------------

    def metadata(self) -> dict[str, Any]:
        style = self._style
        main: dict[str, Any] = {
            "device": 1,
            "workspace_size_bytes": self._pool_bytes,
            "constants_size_bytes": _CONSTANT_BYTES,
            "io_size_bytes": 34,
        }
        if style.version > 5:
            for kind, tensors in (("inputs", INPUTS), ("outputs", OUTPUTS)):
                main[kind] = {
                    name: {"size": _nbytes(shape, dtype), "dtype": dtype}
                    for name, (shape, dtype) in tensors.items()
                }
        operators = [
            {
                "function_name": self._function(what),
                "workspace": [
                    {
                        "device": 1,
                        "workspace_size_bytes": _SCRATCH_BYTES if what == "dense_add" else 0,
                    }
                ],
            }
            for what in ("cast_add", "dense_add", "max")
        ]
        entry: dict[str, Any] = {
            "model_name": self._name,
            "export_datetime": "2023-07-01 12:00:00Z",
            "memory": {"functions": {"main": [main], "operator_functions": operators}},
            "target": {"1": style.target} if style.version == 5 else [style.target],
            "executors": ["aot"],
            "style": "full-model",
        }
        if style.version > 5:
            entry["external_dependencies"] = [
                {
                    "short_name": "tvm_standalone_crt",
                    "url": "./runtime",
                    "url_type": "mlf_path",
                    "version_spec": "0.14.0",
                }
            ]
        return entry

    def files(self) -> dict[str, bytes]:
        name = self._name
        relay = "src/relay.txt" if self._style.version < 7 else f"src/{name}.relay"
        texts = [self._entry()]
        if not self._is_c:
            texts.append(self._c_metadata())
        texts.append(self._operators())
        files = {
            f"parameters/{name}.params": save_params({"p0": _WEIGHTS, "p1": _BIAS}),
            relay: self._relay().encode(),
        }
        sources = {f"codegen/host/src/{name}_lib{i}.c": t for i, t in enumerate(texts)}
        if self._is_c:
            files[f"codegen/host/include/{self._symbol}.h"] = self._header().encode()
        if self._style.compiler:
            return files | _compiled(self._style.compiler, files, sources)
        return files | {path: text.encode() for path, text in sources.items()}

    def _relay(self) -> str:
        tensors = ", ".join(
            f"%{name}: Tensor[({', '.join(map(str, shape))}{',' * (len(shape) == 1)}), {dtype}] "
            f"/* ty=Tensor[..., {dtype}] span=model:0:0 */"
            for name, (shape, dtype) in INPUTS.items()
        )
        results = ", ".join(
            f"Tensor[({', '.join(map(str, shape))}{',' * (len(shape) == 1)}), {dtype}]"
            for shape, dtype in OUTPUTS.values()
        )
        attributes = ', executor=meta[Executor][0], runtime=meta[Runtime][0], hash="0123"'
        return (
            f'#[version = "0.0.5"]\ndef @main({tensors}{attributes}) -> ({results}) {{\n'
            '  %0 = cast(%zoom, dtype="int16") /* ty=Tensor[(1, 8), int16] */;\n  %0\n}\n'
        )

    # -- header ------------------------------------------------------------------------------

    def _header(self) -> str:
        symbol, macro = self._symbol, self._symbol.upper()
        guard = f"{macro}_H_"
        text = f"#ifndef {guard}\n#define {guard}\n#include <stdint.h>\n\n#ifdef __cplusplus\n"
        text += 'extern "C" {\n#endif\n\n'
        if self._style.version > 5:
            # In an order of its own.
            for name, (shape, dtype) in sorted({**INPUTS, **OUTPUTS}.items(), reverse=True):
                text += f"/*!\n * \\brief tensor {name}; size (in bytes)\n */\n"
                text += f"#define {macro}_{_field(name).upper()}_SIZE {_nbytes(shape, dtype)}\n"
        for kind, tensors in (("inputs", INPUTS), ("outputs", OUTPUTS)):
            text += self._struct(kind, list(map(_field, tensors)))
        if self._style.devices:
            text += self._struct("devices", list(self._style.devices))
        pools = self._pool_fields()
        if pools:
            text += self._struct("workspace_pools", pools)
        if self._style.pools == "mapped":
            for kind in ("inputs", "outputs"):
                text += (
                    f"struct {symbol}_{kind} {symbol}_map_{kind}(\n"
                    f"  struct {symbol}_workspace_pools* workspace_pools\n);\n"
                )
        text += f"int32_t {symbol}_run(\n  {self._run_parameters()}\n);\n"
        text += f"/*!\n * \\brief Workspace size\n */\n#define {macro}_WORKSPACE_SIZE "
        text += f"{self._pool_bytes}\n"
        for pool in pools:
            if pool == self._constants:
                data = ", ".join(f"0x{byte:02x}" for byte in self._constant_data())
                text += f"#define {macro}_{pool.upper()}_CONSTANT_POOL_SIZE {_CONSTANT_BYTES}\n"
                text += f"#define {macro}_{pool.upper()}_CONSTANT_POOL_DATA {{ {data} }}\n"
            else:
                size = f"{macro}_{pool.upper()}_WORKSPACE_POOL_SIZE {self._pool_bytes}"
                text += f"#define {size}\n"
        return text + f"\n#ifdef __cplusplus\n}}\n#endif\n\n#endif // {guard}\n"

    def _struct(self, what: str, fields: Sequence[str]) -> str:
        members = "".join(f"  void* {field};\n" for field in fields)
        return f"/*! \\brief {what} }} */\nstruct {self._symbol}_{what} {{\n{members}}};\n\n"

    def _pool_fields(self) -> list[str]:
        """The fields of ``workspace_pools``, in the order of their names."""
        if self._style.pools not in ("external", "mapped"):
            return []
        constants = [self._constants] if self._style.external_constants else []
        return sorted([*constants, self._workspace])

    def _run_structs(self) -> list[str]:
        structs = [] if self._style.pools == "mapped" else ["inputs", "outputs"]
        structs += ["workspace_pools"] if self._pool_fields() else []
        return structs + (["devices"] if self._style.devices else [])

    def _run_parameters(self) -> str:
        return ",\n  ".join(f"struct {self._symbol}_{s}* {s}" for s in self._run_structs())

    # -- entry -------------------------------------------------------------------------------

    def _entry(self) -> str:
        text = self._registry() if self._style.system_lib else ""
        text += '#include "tvm/runtime/c_runtime_api.h"\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
        if self._is_planned:
            text += self._internal_pools()
        text += self._c_entry() if self._is_c else self._packed_entry()
        return text + "#ifdef __cplusplus\n}\n#endif\n;"

    def _registry(self) -> str:
        names = [f"{self._mangled}_run"] if self._style.version > 5 else []
        names += [self._function(what) for what in ("cast_add", "dense_add", "max")]
        names += [f"{self._mangled}___tvm_main__", f"{self._mangled}_get_c_metadata"]
        # In TVM 0.8 the count had one byte.
        count = f"\\{len(names):03o}" + "\\000" * (self._style.version > 5)
        literal = count + "".join(f"{name}\\000" for name in names)
        array = "".join(f"    (TVMBackendPackedCFunc){name},\n" for name in names)
        prototypes = "".join(f"{_EXTERN_C}TVM_DLL int32_t {name}({_PACKED});\n" for name in names)
        return (
            f"#include <tvm/runtime/crt/module.h>\n{prototypes}"
            f"static TVMBackendPackedCFunc _tvm_func_array[] = {{\n{array}}};\n"
            f"static const TVMFuncRegistry _tvm_func_registry = {{\n"
            f'    "{literal}",    _tvm_func_array,\n}};\n'
            "static const TVMModule _tvm_system_lib = {\n    &_tvm_func_registry,\n};\n"
            "const TVMModule* TVMSystemLibEntryPoint(void) {\n    return &_tvm_system_lib;\n}\n"
        )

    def _internal_pools(self) -> str:
        text = ""
        if not self._style.external_constants:
            numbers = ", ".join(map(str, _WEIGHTS.ravel()))
            bias = ", ".join(map(str, _BIAS))
            text += (
                '__attribute__((section(".rodata.tvm"), ))\n'
                "static const struct global_const_workspace {\n"
                "  int8_t weights_let[32] __attribute__((aligned(16)));\n"
                "  int32_t bias_let[4] __attribute__((packed, aligned(16)));\n"
                "} global_const_workspace = {\n"
                f"  .weights_let = {{{numbers}}},\n  .bias_let = {{{bias}}},\n"
                f"}};// of total size {_CONSTANT_BYTES} bytes\n"
            )
        if self._style.pools == "internal":
            text += (
                '__attribute__((section(".bss.noinit.tvm"), aligned(16)))\n'
                f"static uint8_t global_workspace[{self._pool_bytes}];\n"
            )
        return text

    def _main_parameters(self) -> list[str]:
        parameters = []
        if self._style.pools != "mapped":
            parameters += [f"void* {_field(name)}" for name in INPUTS]
            parameters += [f"void* output{i}" for i in range(len(OUTPUTS))]
        if self._is_planned:
            parameters += [f"uint8_t* {self._constants}_0_var", f"uint8_t* {self._workspace}_1_var"]
        return parameters + [f"void* {device}" for device in self._style.devices]

    def _main_prototype(self) -> str:
        main = f"{self._mangled}___tvm_main__"
        return f"{_EXTERN_C}TVM_DLL int32_t {main}({','.join(self._main_parameters())});\n"

    def _pool_arguments(self) -> list[str]:
        if not self._is_planned:
            return []
        fields = self._pool_fields()
        return [
            f"((uint8_t*)workspace_pools->{pool})" if pool in fields else f"((uint8_t*)&{pool})"
            for pool in (self._constants, self._workspace)
        ]

    def _c_entry(self) -> str:
        symbol = self._symbol
        text = f"#include <{symbol}.h>\n"
        if self._style.pools == "mapped":
            for kind, tensors in (("inputs", INPUTS), ("outputs", OUTPUTS)):
                members = "".join(
                    f"\t.{_field(n)} = &((uint8_t*)workspace_pools->{self._workspace})"
                    f"[{self._offsets[_field(n)]}],\n"
                    for n in tensors
                )
                text += (
                    f"struct {symbol}_{kind} {symbol}_map_{kind}(\n"
                    f"  struct {symbol}_workspace_pools* workspace_pools\n\n){{\n"
                    f"struct {symbol}_{kind} ret = {{\n{members}}};\nreturn ret;\n}}\n\n"
                )
        text += self._main_prototype().removeprefix(_EXTERN_C)
        arguments = []
        if self._style.pools != "mapped":
            arguments += [f"inputs->{_field(name)}" for name in INPUTS]
            arguments += [f"outputs->{name}" for name in OUTPUTS]
        arguments += self._pool_arguments()
        arguments += [f"devices->{device}" for device in self._style.devices]
        return (
            f"{text}int32_t {symbol}_run({self._run_parameters()}) {{"
            f"return {self._mangled}___tvm_main__({','.join(arguments)});\n}}\n"
        )

    def _packed_entry(self) -> str:
        main = f"{self._mangled}___tvm_main__"
        count = len(INPUTS) + len(OUTPUTS)
        if self._style.api == "unpacked":
            arguments = [
                f"((DLTensor*)(((TVMValue*)args)[{i}].v_handle))[0].data" for i in range(count)
            ]
            return (
                f"{self._main_prototype().removeprefix(_EXTERN_C)}"
                f"int32_t {self._mangled}_run(void* args, void* type_code, int num_args, "
                "void* out_value, void* out_type_code, void* resource_handle) {\n"
                f"return {main}({','.join(arguments + self._pool_arguments())});\n}}\n"
            )
        pools = [self._constants, self._workspace] if self._is_planned else []
        body = f"TVMValue tensors[{count + len(pools)}];\n"
        body += "".join(f"tensors[{i}] = ((TVMValue*)args)[{i}];\n" for i in range(count))
        for index, pool in enumerate(pools):
            # TVM leaves the other fields to chance no more than C's initialisers do.
            body += (
                f"DLTensor {pool}_dltensor = {{\n.data = (void*)&{pool}\n}};\n"
                f"TVMValue {pool}_tvm_value = {{\n.v_handle = &{pool}_dltensor\n}};\n"
                f"tensors[{count + index}] = {pool}_tvm_value;\n"
            )
        return (
            f"TVM_DLL int32_t {main}({_PACKED});\n\n"
            f"int32_t {self._mangled}_run({_PACKED}) {{\n{body}"
            f"return {main}((void*)tensors, type_code, num_args, out_value, out_type_code, "
            "resource_handle);\n}\n"
        )

    # -- metadata in C -----------------------------------------------------------------------

    def _c_metadata(self) -> str:
        text = (
            "#include <inttypes.h>\n#include <tvm/runtime/metadata_types.h>\n"
            "#include <tvm/runtime/c_runtime_api.h>\n"
        )
        for kind, tensors in (("inputs", INPUTS), ("outputs", OUTPUTS)):
            entries = []
            for i, (name, (shape, dtype)) in enumerate(tensors.items()):
                array = f"kTvmgenMetadata_{kind}_{i}_shape"
                sides = ", \n".join(f"{side}L" for side in shape)
                text += f"static const int64_t {array}[{len(shape)}] = {{\n{sides}}};\n"
                entries.append(
                    f'{{\n"{_field(name)}" /* name*/, \n{array}, \n{len(shape)}L /* num_shape*/, \n'
                    f"{{0, {np.dtype(dtype).itemsize * 8}, 1}} /* dtype*/}}"
                )
            text += (
                f"static const struct TVMTensorInfo kTvmgenMetadata_{kind}[{len(tensors)}] = {{\n"
                + ", \n".join(entries)
                + "\n};\n"
            )
        text += (
            "static const struct TVMMetadata kTvmgenMetadata[1] = {\n{\n1L /* version*/, \n"
            f"kTvmgenMetadata_inputs, \n{len(INPUTS)}L /* num_inputs*/, \n"
            f"kTvmgenMetadata_outputs, \n{len(OUTPUTS)}L /* num_outputs*/, \n"
            "0, \n0L /* num_workspace_pools*/, \n0, \n0L /* num_constant_pools*/, \n"
            f'"{self._mangled}" /* mod_name*/}}\n}};\n'
        )
        return (
            f"{text}{_EXTERN_C}TVM_DLL int32_t {self._mangled}_get_c_metadata("
            "TVMValue* arg_values, int* arg_tcodes, int num_args, TVMValue* ret_values, "
            "int* ret_tcodes, void* resource_handle) {\n"
            "    ret_values[0].v_handle = (void*) &kTvmgenMetadata;\n"
            "    ret_tcodes[0] = kTVMOpaqueHandle;\n    return 0;\n};\n"
        )

    # -- operators and main ------------------------------------------------------------------

    def _function(self, what: str) -> str:
        return f"{self._mangled}_fused_{what}"

    def _calls(self) -> list[tuple[str, list[_Operand], str]]:
        """Each operator's name, operands and body."""
        sizes = {"int8": (0, 8), "int16": (0, 16), "int32": (0, 32)}
        sources = {"sum": "sum_let"}
        for name, (_, _) in {**INPUTS, **OUTPUTS}.items():
            sources[name] = (
                f"(&{self._workspace}_1_var[{self._offsets[_field(name)]}])"
                if self._style.pools == "mapped"
                else f"{_field(name)}_buffer_var"
            )

        def operand(name: str) -> _Operand:
            shape, dtype = {**INPUTS, **OUTPUTS}.get(name, ((8,), "int16"))
            return _Operand(_field(name), f"{dtype}_t", sizes[dtype], shape, sources[name])

        constants = f"{self._constants}_2_var"
        scratch = f"{self._workspace}_3_var"
        if self._is_planned:
            weights = f"((int8_t*)(&({constants}[0])))"
            bias = f"((int32_t*)(&({constants}[32])))"
            acquire = f"  void* packed_let = (&({scratch}[{_SUM_BYTES}]));\n"
            release = ""
        else:
            weights, bias = f"{self._name}_weights", f"{self._name}_bias"
            acquire = (
                f"  void* packed_let = TVMBackendAllocWorkspace(1, 0, (uint64_t){_SCRATCH_BYTES}"
                ", 0, 16);\n  if (packed_let == NULL) {\n    return -1;\n  }\n"
            )
            release = (
                "  if (TVMBackendFreeWorkspace(1, 0, packed_let) != 0) {\n    return -1;\n  }\n"
            )
        pools = []
        if self._is_planned:
            pools = [
                _Operand(constants, "uint8_t", (1, 8), (48,), f"{self._constants}_0_var"),
                _Operand(
                    scratch, "uint8_t", (1, 8), (self._pool_bytes,), f"{self._workspace}_1_var"
                ),
            ]
        dense = (
            f"{acquire}"
            "  for (int32_t i = 0; i < 32; ++i) {\n"
            f"    ((int16_t*)packed_let)[i] = ((int16_t){weights}[i]);\n  }}\n"
            "  for (int32_t row = 0; row < 4; ++row) {\n"
            f"    output0[row] = {bias}[row];\n"
            "    for (int32_t k = 0; k < 8; ++k) {\n"
            "      output0[row] = (output0[row] + (((int32_t)((int16_t*)packed_let)"
            "[((row * 8) + k)]) * ((int32_t)sum[k])));\n    }\n  }\n"
            f"{release}"
        )
        return [
            (
                "cast_add",
                [operand("zoom"), operand("at-in"), operand("sum"), *pools],
                "  for (int32_t i = 0; i < 8; ++i) {\n"
                "    sum[i] = (int16_t)(((int16_t)zoom[i]) + ((int16_t)at_in[i]));\n  }\n",
            ),
            ("dense_add", [operand("sum"), operand("output0"), *pools], dense),
            (
                "max",
                [operand("sum"), operand("output1"), *pools],
                "  output1[0] = sum[0];\n  for (int32_t i = 1; i < 8; ++i) {\n"
                "    output1[0] = ((output1[0]) > (sum[i]) ? (output1[0]) : (sum[i]));\n  }\n",
            ),
        ]

    def _operators(self) -> str:
        text = (
            f"// tvm target: {self._style.target}\n#define TVM_EXPORTS\n"
            '#include "tvm/runtime/c_runtime_api.h"\n#include "tvm/runtime/c_backend_api.h"\n'
            "#include <math.h>\n#include <stdbool.h>\n"
        )
        if not self._is_planned:
            attributes = '__attribute__((section(".rodata.tvm"), aligned(16)))'
            text += f"static const int8_t {attributes} {self._name}_weights[32] = {{"
            text += ", ".join(map(str, _WEIGHTS.ravel())) + "};\n"
            text += f"static const int32_t {attributes} {self._name}_bias[4] = {{"
            text += ", ".join(map(str, _BIAS)) + "};\n"
        is_packed = self._style.api == "packed"
        for what, operands, body in self._calls():
            if is_packed:
                parameters = _PACKED_DEFINITION
                body = _unpack(operands) + body
            else:
                parameters = ", ".join(f"{o.element}* {o.name}" for o in operands)
            text += f"{_EXTERN_C}TVM_DLL int32_t {self._function(what)}({parameters}) {{\n"
            text += f"{body}  return 0;\n}}\n\n"
        return text + self._main()

    def _main(self) -> str:
        main = f"{self._mangled}___tvm_main__"
        borders = {**INPUTS, **OUTPUTS} if self._style.pools != "mapped" else {}
        names = [(f"{_field(name)}_buffer_var", dtype) for name, (_, dtype) in borders.items()]
        if self._is_planned:
            names += [
                (f"{pool}_var", "uint8")
                for pool in (f"{self._constants}_0", f"{self._workspace}_1")
            ]
        if self._style.api == "packed":
            parameters = _PACKED_DEFINITION
            body = "".join(
                f"  {'uint8_t' if dtype == 'uint8' else 'void'}* {name} = "
                f"(((DLTensor*)(((TVMValue*)args)[{i}].v_handle))[0].data);\n"
                for i, (name, dtype) in enumerate(names)
            )
        else:
            parameters = ", ".join(
                [f"{dtype}_t* {name}" for name, dtype in names]
                + [f"void* {device}" for device in self._style.devices]
            )
            body = ""
        if self._is_planned:
            body += f"  void* sum_let = (&({self._workspace}_1_var[0]));\n"
        else:
            body += (
                f"  void* sum_let = TVMBackendAllocWorkspace(1, 0, (uint64_t){_SUM_BYTES}, 0, 16);"
                "\n  if (sum_let == NULL) {\n    return -1;\n  }\n"
            )
        body += (
            f"  if ({self._style.devices[0]} == NULL) return -1;\n" if self._style.devices else ""
        )
        for what, operands, _ in self._calls():
            function = self._function(what)
            if self._style.api == "packed":
                body += _packed_call(function, operands)
            else:
                arguments = ", ".join(operand.source for operand in operands)
                body += f"  if ({function}({arguments}) != 0 ) return -1;\n"
        if not self._is_planned:
            body += "  if (TVMBackendFreeWorkspace(1, 0, sum_let) != 0) {\n    return -1;\n  }\n"
        return f"{_EXTERN_C}TVM_DLL int32_t {main}({parameters}) {{\n{body}  return 0;\n}}\n\n"

    def _constant_data(self) -> bytes:
        return _WEIGHTS.tobytes() + _BIAS.astype("<i4").tobytes()


def _unpack(operands: Sequence[_Operand]) -> str:
    return "".join(
        f"  void* arg_{o.name} = (((TVMValue*)args)[{i}].v_handle);\n"
        f"  {o.element}* {o.name} = ({o.element}*)(((DLTensor*)arg_{o.name})[0].data);\n"
        for i, o in enumerate(operands)
    )


def _packed_call(function: str, operands: Sequence[_Operand]) -> str:
    """Every field of each DLTensor, then the values, then the call."""
    count = len(operands)
    text = f"  {{\n    DLTensor stack_array[{count}];\n    TVMValue stack_value[{count}];\n"
    text += f"    int32_t stack_tcode[{count}];\n"
    for i, o in enumerate(operands):
        sides = ", ".join(map(str, o.shape))
        text += (
            f"    int64_t shape_{i}[{len(o.shape)}] = {{{sides}}};\n"
            f"    stack_array[{i}].data = {o.source};\n"
            f"    stack_array[{i}].shape = shape_{i};\n    stack_array[{i}].strides = NULL;\n"
            f"    stack_array[{i}].ndim = {len(o.shape)};\n"
            f"    stack_array[{i}].dtype.code = {o.bits[0]};\n"
            f"    stack_array[{i}].dtype.bits = {o.bits[1]};\n"
            f"    stack_array[{i}].dtype.lanes = 1;\n    stack_array[{i}].byte_offset = 0;\n"
            f"    stack_array[{i}].device.device_id = 0;\n"
            f"    stack_array[{i}].device.device_type = (DLDeviceType)1;\n"
            f"    stack_value[{i}].v_handle = &stack_array[{i}];\n"
            f"    stack_tcode[{i}] = kTVMDLTensorHandle;\n"
        )
    return (
        f"{text}    TVMValue ret_val;\n    int ret_type_code;\n"
        f"    if ({function}( stack_value , stack_tcode, {count}, &ret_val, &ret_type_code, NULL) "
        "!= 0){\n      return -1;\n    }\n  }\n"
    )


def _compiled(
    compiler: Sequence[str], files: Mapping[str, bytes], sources: Mapping[str, str]
) -> dict[str, bytes]:
    """The sources as objects in ``codegen/host/lib``, as the llvm target leaves them."""
    objects = {}
    include = INCLUDE
    for path, text in sources.items():
        headers = [n for n in files if n.startswith("codegen/host/include/")]
        for header in headers:
            text = text.replace(f"#include <{Path(header).name}>", files[header].decode())
        name = path.replace("/src/", "/lib/").removesuffix(".c") + ".o"
        # A file: some assemblers write nothing to what they cannot seek in.
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "object.o"
            command = [*compiler, "-I", str(include), "-x", "c", "-c", "-", "-o", str(output)]
            subprocess.run(
                command, input=text.encode(), capture_output=True, check=True, timeout=60
            )
            objects[name] = output.read_bytes()
    return objects


def _nbytes(shape: Sequence[int], dtype: str) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _field(name: str) -> str:
    return name.replace("-", "_")
