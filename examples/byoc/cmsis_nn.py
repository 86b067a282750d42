"""A code generator that hands int8 layers to Arm's CMSIS-NN.

CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED become calls of ``arm_convolve_wrapper_s8``,
``arm_depthwise_conv_wrapper_s8`` and ``arm_fully_connected_wrapper_s8`` (older versions:
``arm_fully_connected_s8``) in a source tree of CMSIS-NN, version 5.0 or later, that the user has:
the option ``path``, or the environment variable ``HIL_CMSIS_NN``, names its root. What the three
need of it is compiled for the core while code is generated; all models of an image share the one
object.

CMSIS-NN must round twice, as it does unless CMSIS_NN_USE_SINGLE_ROUNDING is defined.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hilc.codegen.headers import include_dirs
from hilc.errors import InputError
from hilc.external import ExternalModule, single_nodes
from hilc.ir import Array, Graph, Node
from hilc.ops.int8_layers import Int8Layer, int8_layer, is_int8_layer
from hilc.target import Cpu, get_cpu
from hilc.target.objects import read_object

_TIMEOUT_S = 300

#: What a generated function may call; ``_Tree.library`` holds them and all that they call.
_OPERATORS = ("arm_convolve_wrapper_s8", "arm_depthwise_conv_wrapper_s8", "arm_fully_connected_s8")
_WRAPPER = "arm_fully_connected_wrapper_s8"
_VECTOR_SUM = "arm_vector_sum_s8"
_SIZE_FUNCTIONS = (
    "arm_convolve_wrapper_s8_get_buffer_size",
    "arm_depthwise_conv_wrapper_s8_get_buffer_size",
    "arm_fully_connected_s8_get_buffer_size",
)
#: How CMSIS-NN calls what it defines, and the definition of a function or array of it.
_OWN = "arm_"
_DEFINITION = re.compile(r"\b(\w+)\s*(?:\([^(){};]*\)\s*\{|\[[^][]*\]\s*=)")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)

# Scratch sizes come from CMSIS-NN itself, which has versions of its functions that tell the host
# what a core with DSP instructions or Helium needs.
_SIZES = """\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "arm_nnfunctions.h"

#define JOINED(a, b) a##b
#define FOR_CORE(function, suffix) JOINED(function, suffix)
#define NUMBERS 23

int main(int argc, char **argv) {
    int32_t v[NUMBERS] = {0};
    for (int i = 2; i < argc && i < NUMBERS + 2; i++) {
        v[i - 2] = (int32_t)strtol(argv[i], NULL, 10);
    }
    const cmsis_nn_dims input = {.n = v[0], .h = v[1], .w = v[2], .c = v[3]};
    const cmsis_nn_dims filter = {.n = v[4], .h = v[5], .w = v[6], .c = v[7]};
    const cmsis_nn_dims output = {.n = v[8], .h = v[9], .w = v[10], .c = v[11]};
    const cmsis_nn_tile stride = {.h = v[12], .w = v[13]};
    const cmsis_nn_tile padding = {.h = v[14], .w = v[15]};
    const cmsis_nn_tile dilation = {.h = v[16], .w = v[17]};
    const cmsis_nn_activation activation = {.min = v[18], .max = v[19]};
    const cmsis_nn_conv_params conv = {v[20], v[21], stride, padding, dilation, activation};
    const cmsis_nn_dw_conv_params dw = {v[20], v[21], v[22], stride, padding, dilation, activation};
    int32_t bytes;
    switch (argv[1][0]) {
        case 'C':
            bytes = FOR_CORE(arm_convolve_wrapper_s8_get_buffer_size, CORE)(&conv, &input, &filter,
                                                                            &output);
            break;
        case 'D':
            bytes = FOR_CORE(arm_depthwise_conv_wrapper_s8_get_buffer_size,
                             CORE)(&dw, &input, &filter, &output);
            break;
        default:
            bytes = FOR_CORE(arm_fully_connected_s8_get_buffer_size, CORE)(&filter);
    }
    printf("%ld\\n", (long)bytes);
    return 0;
}
"""


class CmsisNn:
    """Takes the int8 layers that CMSIS-NN computes; ``path`` is the root of its source tree."""

    name = "cmsis_nn"

    def __init__(self, path: str = "") -> None:
        named = path or os.environ.get("HIL_CMSIS_NN", "")
        if not named:
            raise InputError(
                "no source tree of CMSIS-NN is named",
                "clone https://github.com/ARM-software/CMSIS-NN and pass its folder as the option "
                "path, or in the environment variable HIL_CMSIS_NN",
            )
        self._tree = _Tree(Path(named))

    def claim(self, graph: Graph) -> Sequence[Sequence[int]]:
        """Each layer is a group, so that each can still be compared with the reference."""
        return single_nodes(graph, self._is_taken)

    def _is_taken(self, graph: Graph, node: Node) -> bool:
        if not is_int8_layer(graph, node):
            return False
        layer = int8_layer(graph, node)
        if node.op == "DEPTHWISE_CONV_2D":
            return layer.x.shape[0] == 1
        if node.op == "FULLY_CONNECTED":
            return self._tree.has_wrapper or not layer.per_channel
        return True

    def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
        """Return an object with a function that calls CMSIS-NN for the one layer of
        ``subgraph``.
        """
        layer = int8_layer(subgraph, subgraph.nodes[0])
        shape = _Shape(layer)
        scratch_bytes = self._tree.scratch_bytes(cpu, layer.op, shape.numbers)
        # Convolutions have a factor for each channel, also where all are one.
        count = layer.channels if layer.op != "FULLY_CONNECTED" else layer.requant.multipliers.size
        constants: dict[str, Array] = {
            f"{symbol}_weights": layer.weights,
            f"{symbol}_bias": layer.bias,
            f"{symbol}_multipliers": np.resize(layer.requant.multipliers, count),
            f"{symbol}_shifts": np.resize(layer.requant.shifts, count).astype(np.int32),
        }
        call = self._fully_connected if layer.op == "FULLY_CONNECTED" else _convolution
        text = _function(symbol, api, scratch_bytes, call(layer, shape, symbol, cpu))
        return ExternalModule(
            symbol,
            object=self._tree.compiled(cpu, text),
            constants=constants,
            scratch_bytes=scratch_bytes,
            type_key="o",
            shared_objects={"cmsis_nn.o": self._tree.library(cpu)},
        )

    def _fully_connected(self, layer: Int8Layer, shape: _Shape, symbol: str, cpu: Cpu) -> str:
        depth = shape.filter["n"]
        text = shape.text + _struct(
            "cmsis_nn_fc_params",
            "params",
            {
                "input_offset": -layer.input_zero_point,
                "filter_offset": 0,
                "output_offset": layer.requant.zero_point,
                "activation": _fields({"min": layer.requant.low, "max": layer.requant.high}),
            },
        )
        if "mve" in cpu.features:
            # With Helium the sums of the weights are needed, in the scratch.
            text += self._tree.vector_sum(symbol, depth, layer.channels)
        quant: dict[str, int | str]
        if self._tree.has_wrapper:
            kind, function = "cmsis_nn_quant_params", _WRAPPER
            quant = {
                "multiplier": f"(int32_t *){symbol}_multipliers",
                "shift": f"(int32_t *){symbol}_shifts",
                "is_per_channel": int(layer.per_channel),
            }
        else:
            kind, function = "cmsis_nn_per_tensor_quant_params", "arm_fully_connected_s8"
            quant = {
                "multiplier": int(layer.requant.multipliers[0]),
                "shift": int(layer.requant.shifts[0]),
            }
        return text + _struct(kind, "quant", quant) + _call(function, symbol)


class _Shape:
    """The dimensions of a layer as CMSIS-NN takes them."""

    def __init__(self, layer: Int8Layer) -> None:
        self.filter: dict[str, int]
        if layer.window is None:
            columns, depth = layer.weights.shape
            rows = layer.x.size // depth
            self.input = {"n": rows, "h": 1, "w": 1, "c": depth}
            self.filter = {"n": depth, "h": 1, "w": 1, "c": columns}
            self.output = {"n": rows, "h": 1, "w": 1, "c": columns}
        else:
            self.input = dict(zip("nhwc", layer.x.shape, strict=True))
            self.filter = dict(zip("nhwc", layer.weights.shape, strict=True))
            self.output = dict(zip("nhwc", layer.out.shape, strict=True))
        window = layer.window
        #: For _SIZES, in its order.
        self.numbers: list[int] = [
            *self.input.values(),
            *self.filter.values(),
            *self.output.values(),
        ]
        if window is not None:
            h, w = window.h, window.w
            self.numbers += [h.stride, w.stride, h.pad_before, w.pad_before, h.dilation, w.dilation]
            self.numbers += [layer.requant.low, layer.requant.high]
            self.numbers += [-layer.input_zero_point, layer.requant.zero_point]
            self.numbers += [layer.channels // layer.x.shape[3]]

    @property
    def text(self) -> str:
        bias = {"n": 1, "h": 1, "w": 1, "c": self.output["c"]}
        dims = {"input": self.input, "filter": self.filter, "bias": bias, "output": self.output}
        return "".join(
            _struct("cmsis_nn_dims", f"{name}_dims", fields) for name, fields in dims.items()
        )


def _convolution(layer: Int8Layer, shape: _Shape, symbol: str, cpu: Cpu) -> str:
    assert layer.window is not None
    h, w = layer.window.h, layer.window.w
    depthwise = layer.op == "DEPTHWISE_CONV_2D"
    params: dict[str, int | str] = {
        "input_offset": -layer.input_zero_point,
        "output_offset": layer.requant.zero_point,
        "stride": _fields({"h": h.stride, "w": w.stride}),
        # What lies after the image follows from the size of the output.
        "padding": _fields({"h": h.pad_before, "w": w.pad_before}),
        "dilation": _fields({"h": h.dilation, "w": w.dilation}),
        "activation": _fields({"min": layer.requant.low, "max": layer.requant.high}),
    }
    if depthwise:
        params["ch_mult"] = layer.channels // layer.x.shape[3]
    quant = {
        "multiplier": f"(int32_t *){symbol}_multipliers",
        "shift": f"(int32_t *){symbol}_shifts",
    }
    kind = "cmsis_nn_dw_conv_params" if depthwise else "cmsis_nn_conv_params"
    function = "arm_depthwise_conv_wrapper_s8" if depthwise else "arm_convolve_wrapper_s8"
    return (
        shape.text
        + _struct(kind, "params", params)
        + _struct("cmsis_nn_per_channel_quant_params", "quant", quant)
        + _call(function, symbol)
    )


def _fields(fields: Mapping[str, int | str]) -> str:
    return "{" + ", ".join(f".{name} = {value}" for name, value in fields.items()) + "}"


def _struct(kind: str, name: str, fields: Mapping[str, int | str]) -> str:
    return f"    const {kind} {name} = {_fields(fields)};\n"


def _call(function: str, symbol: str) -> str:
    return (
        f"    return {function}(&context, &params, &quant, &input_dims, input, &filter_dims,\n"
        f"        {symbol}_weights, &bias_dims, {symbol}_bias, &output_dims, output)\n"
        "        == ARM_CMSIS_NN_SUCCESS ? 0 : -1;\n"
    )


def _function(symbol: str, api: str, scratch_bytes: int, body: str) -> str:
    """Return the C file with the function that the compiler calls."""
    names = ["input", "output"] + (["scratch"] if scratch_bytes else [])
    if api == "packed":
        include = '#include "tvm/runtime/c_backend_api.h"\n'
        head = (
            f"int32_t {symbol}(TVMValue *args, int *type_codes, int num_args,\n"
            "    TVMValue *out_ret_value, int *out_ret_tcode, void *resource_handle) {\n"
            f"    if (num_args != {len(names)}) {{\n        return -1;\n    }}\n"
        )
        for position, name in enumerate(names):
            tensor = f"((const DLTensor *)args[{position}].v_handle)"
            head += f"    void *const {name} = "
            head += f"(uint8_t *){tensor}->data + {tensor}->byte_offset;\n"
    else:
        include = ""
        head = f"int32_t {symbol}({', '.join(f'void *{name}' for name in names)}) {{\n"
    buffer = "scratch" if scratch_bytes else "NULL"
    arrays = "".join(
        f"extern const {kind} {symbol}_{name}[];\n"
        for name, kind in (
            ("weights", "int8_t"),
            ("bias", "int32_t"),
            ("multipliers", "int32_t"),
            ("shifts", "int32_t"),
        )
    )
    context = _struct("cmsis_nn_context", "context", {"buf": buffer, "size": scratch_bytes})
    return (
        "#include <stddef.h>\n#include <stdint.h>\n\n"
        f'#include "arm_nnfunctions.h"\n#include "arm_nnsupportfunctions.h"\n{include}\n'
        f"{arrays}\n{head}{context}{body}}}\n"
    )


class _Tree:
    """A source tree of CMSIS-NN: what its version has, and the compilers that read it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        header = self._root / "Include" / "arm_nnfunctions.h"
        if not header.is_file():
            raise InputError(
                f"{root} is not a source tree of CMSIS-NN: it has no Include/arm_nnfunctions.h",
                "name the root of a clone of https://github.com/ARM-software/CMSIS-NN",
            )
        texts = [header, header.with_name("arm_nnsupportfunctions.h")]
        self._declared = "".join(_code_of(path) for path in texts if path.is_file())
        if _VECTOR_SUM not in self._declared:
            raise InputError(
                f"{root} is CMSIS-NN 4 or older: it declares no {_VECTOR_SUM}",
                "use CMSIS-NN 5.0 or later",
            )
        #: Whether fully connected layers may have a factor for each channel.
        self.has_wrapper = _WRAPPER in self._declared
        self.library = functools.cache(self._library)
        self._size_program = functools.cache(self._compile_sizes)

    def vector_sum(self, symbol: str, depth: int, columns: int) -> str:
        """Return the statement that sums up the weights; versions differ in what they add to the
        sums.

        Up to version 6 a fully connected layer multiplies them with the offset and adds the bias
        itself, so they are to be the bare sums; from 7 on it takes them as all of that.
        """
        match = re.search(rf"\b{_VECTOR_SUM}\s*\(([^)]*)\)", self._declared)
        count = match[1].count(",") + 1 if match else 0
        given = {
            4: [],
            6: ["1", "NULL"],
            7: ["params.input_offset", "params.filter_offset", f"{symbol}_bias"],
        }.get(count)
        if given is None:
            raise InputError(
                f"{self._root} declares {_VECTOR_SUM} with {count} parameters, "
                "which no known version has",
                "use a released version of CMSIS-NN",
            )
        arguments = ["context.buf", str(depth), str(columns), f"{symbol}_weights", *given]
        return (
            f"    if ({_VECTOR_SUM}({', '.join(arguments)}) != ARM_CMSIS_NN_SUCCESS) {{\n"
            "        return -1;\n    }\n"
        )

    def scratch_bytes(self, cpu: Cpu, op: str, numbers: Sequence[int]) -> int:
        """Return the scratch that ``op`` needs on ``cpu`` for a layer of these ``numbers``."""
        suffix = next((f"_{feature}" for feature in ("mve", "dsp") if feature in cpu.features), "")
        program = self._size_program(suffix)
        with tempfile.TemporaryDirectory(prefix="hil-cmsis-nn-") as folder:
            path = Path(folder, "sizes")
            path.write_bytes(program)
            path.chmod(0o700)
            return int(_run([str(path), op, *map(str, numbers)], Path(folder)))

    def _compile_sizes(self, suffix: str) -> bytes:
        """Return a program for this machine that tells scratch sizes, those of a kind of core."""
        functions = [f"{function}{suffix}" for function in _SIZE_FUNCTIONS]
        missing = [name for name in functions if name not in self._declared]
        if missing:
            raise InputError(
                f"{self._root} cannot tell the scratch that cores with {suffix[1:]} need: "
                f"it declares no {missing[0]}",
                "use a released version of CMSIS-NN from 5.0 on",
            )
        with tempfile.TemporaryDirectory(prefix="hil-cmsis-nn-") as name:
            folder = Path(name)
            (folder / "sizes.c").write_text(_SIZES, encoding="utf-8")
            objects = self._closure(functions, get_cpu("host"), folder)
            command = [_compiler(get_cpu("host")), "-std=gnu11", "-O1", "-w", f"-DCORE={suffix}"]
            command += ["-IInclude", str(folder / "sizes.c"), *map(str, objects)]
            _run([*command, "-o", str(folder / "sizes")], self._root)
            return (folder / "sizes").read_bytes()

    @functools.cached_property
    def _definitions(self) -> Mapping[str, Sequence[str]]:
        """The source files, by what they define."""
        definitions: dict[str, list[str]] = {}
        for path in sorted(self._root.glob("Source/**/*.c")):
            for name in dict.fromkeys(_DEFINITION.findall(_code_of(path))):
                definitions.setdefault(name, []).append(path.relative_to(self._root).as_posix())
        return definitions

    def _closure(self, wanted: Sequence[str], cpu: Cpu, folder: Path) -> list[Path]:
        """Objects in ``folder`` that define the functions ``wanted`` and all that these call.

        Which files those are differs from version to version; what they do not call, some of which
        needs other libraries, is not compiled.
        """
        objects: dict[str, Path] = {}
        defined = set[str]()
        pending = list(wanted)
        while pending:
            name = pending.pop()
            if name in defined:
                continue
            files = self._definitions.get(name, ())
            # A file's own helper may have the name of another one's function.
            for file in sorted(files, key=lambda file: Path(file).stem != name):
                if file not in objects:
                    objects[file] = folder / f"{len(objects)}.o"
                    self._compile(cpu, Path(file), objects[file])
                    found = read_object(objects[file].read_bytes(), file)
                    defined |= found.defined | found.weak
                    pending += sorted(found.undefined)
                if name in defined:
                    break
            else:
                # The rest is the compiler's and the C library's.
                if files or name.startswith(_OWN):
                    raise InputError(
                        f"{self._root} calls {name}, which none of its files below Source defines "
                        f"for {cpu.name}",
                        "use a complete tree of a released version of CMSIS-NN",
                    )
        return list(objects.values())

    def _library(self, cpu: Cpu) -> bytes:
        """Return the part of CMSIS-NN that the operators need, as one object."""
        wanted = [*_OPERATORS, *([_WRAPPER] if self.has_wrapper else []), _VECTOR_SUM]
        with tempfile.TemporaryDirectory(prefix="hil-cmsis-nn-") as folder:
            objects = [path.name for path in self._closure(wanted, cpu, Path(folder))]
            together = [_compiler(cpu), *cpu.cflags, "-r", "-nostdlib", *objects]
            _run([*together, "-o", "cmsis_nn.o"], Path(folder))
            return Path(folder, "cmsis_nn.o").read_bytes()

    def compiled(self, cpu: Cpu, text: str) -> bytes:
        """Return the object of a C file that calls CMSIS-NN."""
        with tempfile.TemporaryDirectory(prefix="hil-cmsis-nn-") as folder:
            path = Path(folder, "layer.c")
            path.write_text(text, encoding="utf-8")
            self._compile(cpu, path, path.with_suffix(".o"))
            return path.with_suffix(".o").read_bytes()

    def _compile(self, cpu: Cpu, source: Path, target: Path) -> None:
        flags = ["-std=gnu11", "-O2", "-w", "-ffunction-sections", "-fdata-sections", "-fno-common"]
        flags += ["-fPIC"] if cpu.is_host else []
        flags += [f"-ffile-prefix-map={target.parent}=.", f"-ffile-prefix-map={self._root}=."]
        includes = ["-IInclude", *(f"-I{folder}" for folder in include_dirs())]
        command = [_compiler(cpu), *cpu.cflags, *flags, *includes]
        _run([*command, "-c", str(source), "-o", str(target)], self._root)


def _code_of(path: Path) -> str:
    """Return the text of a C file without its comments, which name functions, too."""
    return _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))


def _compiler(cpu: Cpu) -> str:
    name = cpu.toolchain.gcc
    if shutil.which(name) is None:
        raise InputError(f"there is no {name} on the PATH", "install it (`hil doctor` says how)")
    return name


def _run(command: Sequence[str], folder: Path) -> str:
    """Run a program; return its output, or its error message if it fails."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise InputError(
            f"{Path(command[0]).name} failed on CMSIS-NN: {done.stderr.strip()[:2000]}",
            "use a released version of CMSIS-NN",
        )
    return done.stdout
