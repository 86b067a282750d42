"""Firmware that answers MLPerf Tiny's commands in place of the serial protocol's.

The template's folder ``mlperf`` has the server. Here are the benchmarks, what their inputs and
results are, and the table of these that the server reads (``hil_mlperf.h``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Literal

import numpy as np

from hil.board import Board
from hil.errors import InputError
from hil.firmware.glue import GENERATED, c_string
from hilc.artifact.library import Module, TensorInfo
from hilc.support.suggest import listed

#: How a host sends an input: its elements as they are; bytes that begin at 0, from which an int8
#: input is 128 less; or floats, which the device quantizes.
Wire = Literal["as-it-is", "uint8", "float32"]

#: The name that upstream's firmware reports; its runner expects no other text.
PROFILE = "ULPMark for tinyML Firmware V0.0.1"
#: Baud rates of the lines: in energy mode it goes through an interface board.
BAUD, ENERGY_BAUD = 115200, 9600
#: Detections of a streaming model that are recorded between `start` and `print_detections`.
_DETECTIONS = 256
#: Characters of names on the line: visible ASCII but the bracket that ends them.
_SAYABLE = re.compile(r"[ -\\^-~]{1,64}")


@dataclass(frozen=True)
class Benchmark:
    """One of MLPerf Tiny's benchmarks, as its runner and its firmware know it."""

    #: The answer to ``profile%``.
    model: str
    #: Name of its folder in a submission.
    folder: str
    wire: Wire = "as-it-is"
    #: Whether the result is the mean squared difference between input and output.
    is_score: bool = False
    is_streaming: bool = False
    baud: int = BAUD
    #: Bytes of an input on the line and elements of the output, of the reference model.
    input_bytes: int = 0
    outputs: int = 0


_ALL = (
    Benchmark("kws01", "kws", input_bytes=490, outputs=12),
    Benchmark("vww01", "vww", "uint8", input_bytes=27648, outputs=2),
    Benchmark("ad01", "ad", "float32", is_score=True, baud=921600, input_bytes=2560, outputs=640),
    Benchmark("ic01", "ic", "uint8", input_bytes=3072, outputs=10),
    Benchmark("ic02", "ic", "uint8"),
    # Upstream's firmware and its runner disagree about the name.
    Benchmark("sww01", "sww", is_streaming=True, input_bytes=1200, outputs=3),
    Benchmark("strww01", "sww", is_streaming=True),
)
BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType({b.model: b for b in _ALL})


@dataclass(frozen=True)
class Mlperf:
    """What a firmware for MLPerf Tiny is built for."""

    benchmark: Benchmark
    #: The device's name on the line; None for the board's.
    name: str | None = None
    profile: str = PROFILE
    #: None: the benchmark's, or that of energy mode.
    baud: int | None = None
    energy: bool = False

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("profile", self.profile)):
            if text is not None and not _SAYABLE.fullmatch(text):
                raise InputError(
                    f"the {what} {text!r:.80} cannot be said on MLPerf Tiny's line",
                    "give 1 to 64 ASCII characters without ]",
                )

    def board_of(self, board: Board) -> Board:
        """Return the board with the baud rate of its UART; RTT and the host have none."""
        baud = self.baud or (ENERGY_BAUD if self.energy else self.benchmark.baud)
        return board.with_baud(baud)


def benchmark_named(name: str, module: Module) -> Benchmark:
    """Return a benchmark; ``auto`` is the one whose reference model has this input and output."""
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    known = listed(list(BENCHMARKS), "or")
    if name != "auto":
        raise InputError(f"MLPerf Tiny has no model {name!r}", f"choose {known}, or auto")
    for benchmark in _ALL:
        try:
            sizes = wire_bytes(module, benchmark), prod(_output(module).shape)
        except InputError:
            continue
        if sizes == (benchmark.input_bytes, benchmark.outputs):
            return benchmark
    raise InputError(
        f"the model {module.name!r} does not have the sizes of any of MLPerf Tiny's reference "
        "models",
        f"say which benchmark it is: {known}",
    )


def check_one_model(modules: Sequence[Module]) -> None:
    """Refuse an image of several models: MLPerf Tiny's commands name none."""
    if len(modules) != 1:
        raise InputError(
            f"an image for MLPerf Tiny has one model, and {len(modules)} are given",
            "build one image for each",
        )
    if modules[0].fed_rows:
        raise InputError(
            f"the input of {modules[0].name!r} comes by rows, and MLPerf Tiny's commands bring it "
            "as a whole",
            "compile the model with --feed whole",
        )


def wire_bytes(module: Module, benchmark: Benchmark) -> int:
    """Return the bytes of an input on the line; InputError for a model that is not supported."""
    for kind, tensors in (("inputs", module.inputs), ("outputs", module.outputs)):
        if len(tensors) != 1:
            raise InputError(
                f"the model {module.name!r} has {len(tensors)} {kind}, and a model of MLPerf Tiny "
                "has one",
                "give a model with one input and one output",
            )
    tensor, output = module.inputs[0], _output(module)
    accepted = {
        "as-it-is": ("int8", "uint8", "float32"),
        "uint8": ("int8", "uint8"),
        "float32": ("int8", "float32"),
    }[benchmark.wire]
    _check_type(module, "input", tensor, accepted)
    _check_type(module, "output", output, ("int8", "uint8", "float32"))
    elements = prod(tensor.shape)
    if benchmark.is_score and prod(output.shape) != elements:
        raise InputError(
            f"{benchmark.model} compares input and output, and {module.name!r} has {elements} "
            f"elements of one and {prod(output.shape)} of the other",
            "give an autoencoder",
        )
    return 4 * elements if benchmark.wire == "float32" else tensor.nbytes


def _output(module: Module) -> TensorInfo:
    return module.outputs[0]


def _check_type(module: Module, kind: str, tensor: TensorInfo, accepted: Sequence[str]) -> None:
    fact = f"the {kind} {tensor.name!r} of {module.name!r} is {tensor.dtype}"
    if tensor.dtype not in accepted:
        raise InputError(
            f"{fact}, which the firmware for MLPerf Tiny does not take",
            f"give a model whose {kind} is {listed(list(accepted), 'or')}",
        )
    if tensor.dtype != "float32" and tensor.scale is None:
        raise InputError(
            f"{fact} without a scale", "give a quantized model, or one that computes floats"
        )


def server_source(mlperf: Mlperf, module: Module, board: Board) -> str:
    """Return ``generated/mlperf.c``: the server's table and its buffers."""
    benchmark = mlperf.benchmark
    nbytes = wire_bytes(module, benchmark)
    tensor, output = module.inputs[0], _output(module)
    quantizes = benchmark.wire == "float32" and tensor.dtype == "int8"
    wire = {"as-it-is": "AS_IT_IS", "uint8": "UINT8", "float32": "FLOAT32"}[benchmark.wire]
    if benchmark.wire == "uint8" and tensor.dtype == "uint8":
        wire = "AS_IT_IS"
    buffers = [f"_Alignas(4) static uint8_t buffer[{nbytes}];\n"]
    if quantizes:
        buffers.append(f"static int8_t quantized[{tensor.nbytes}];\n")
    if benchmark.is_streaming:
        buffers.append(f"static uint32_t detections[{_DETECTIONS}];\n")
    fields = {
        "model": c_string(benchmark.model),
        "name": c_string(mlperf.name or board.name),
        "profile": c_string(mlperf.profile),
        "buffer": "buffer",
        "quantized": "quantized" if quantizes else "0",
        "detections": "detections" if benchmark.is_streaming else "0",
        "buffer_bytes": nbytes,
        "detections_max": _DETECTIONS if benchmark.is_streaming else 0,
        "wire": f"HIL_MLPERF_{wire}",
        "is_score": "true" if benchmark.is_score else "false",
        "input_scale": _c_float(tensor.scale if tensor.scale is not None else 1.0),
        "output_scale": _c_float(0.0 if output.dtype == "float32" else output.scale or 0.0),
        "input_zero": tensor.zero_point or 0,
        "output_zero": 0 if output.dtype == "float32" else output.zero_point or 0,
    }
    table = "".join(f"    .{name} = {value},\n" for name, value in fields.items())
    return (
        f'{GENERATED}#include "hil_mlperf.h"\n\n{"".join(buffers)}\n'
        f"const struct hil_mlperf hil_mlperf = {{\n{table}}};\n"
    )


def _c_float(value: float) -> str:
    """Return a literal of the float32 nearest to ``value``, which C reads exactly."""
    return f"{float(np.float32(value)).hex()}F"
