#!/usr/bin/env python3
"""Holds the estimate of ``hil bench --cycles`` against published cycles of a chip.

    measure.py silicon --cmsis-nn FOLDER     FOLDER has Arm's kernels: CMSIS/NN of CMSIS 5

A submission to MLPerf Tiny ran these kernels on the models' layers, one call a layer. The same
calls are made here, compared with the interpreter, and traced in QEMU: the estimate of
``hil.verify.cycles``, and the reads of flash behind the chip's caches, are the cycles to compare.
Writes docs/explanation/cycles.md. Exit code 1 where an output differs from the interpreter, or a
published figure is outside of the range that the core's description states (``cycles.chip``).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from marked import replaced, table
from steps import ROOT, models

from hil.board import Board, load_board
from hil.board.machine import counted_words
from hil.results.bench import ChipEstimate
from hil.verify.cycles import Estimate, estimate, traced, with_chip
from hilc.interpreter import run_all
from hilc.ir import Array, Graph, Node, Tensor
from hilc.numerics.requantize import quantize_multiplier
from hilc.ops import geometry
from hilc.ops.operands import output_clamp
from hilc.source import prepare
from hilc.support.process import run
from hilc.support.temporary import TemporaryFolder
from hilc.support.toml import tomllib

BOARD = "mps2-an386"
FUNCTION = "model_run"
PAGE = ROOT / "docs" / "explanation" / "cycles.md"
BASELINES = Path(__file__).with_name("baselines.toml")
#: Folders of the kernels that the models need.
SOURCES = ("BasicMath", "Convolution", "FullyConnected", "NNSupport", "Pooling")
#: As the submission compiled them.
CFLAGS = "-O2 -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -ffunction-sections"
_TIMEOUT_S = 600

_LINK = """\
ENTRY(reset)
SECTIONS {
  .text 0 : { KEEP(*(.vectors)) *(.text* .rodata*) }
  .data 0x20000000 : { *(.data* .bss* COMMON) }
}
"""
#: Starts, runs the model, compares its output, and ends the emulator with the answer as exit code.
_MAIN = """
/* A block of its own: the trace ends with the block after the model's. */
__attribute__((noinline)) static void finish(int wrong) {
  int block[2] = {0x20026, wrong};
  register int call __asm("r0") = 0x20;
  register int *argument __asm("r1") = block;
  __asm volatile("bkpt 0xab" : : "r"(call), "r"(argument) : "memory");
  for (;;) {}
}
void reset(void) {
  *(volatile unsigned *)0xE000ED88 |= 0xFu << 20; /* the FPU */
  int wrong = model_run();
  for (unsigned i = 0; i < sizeof expected; i++) wrong |= OUTPUT[i] != expected[i];
  finish(wrong != 0);
}
__attribute__((section(".vectors"), used)) static void *const vectors[] = {
  (void *)0x20400000, (void *)reset};
"""


@dataclass(frozen=True)
class Compared:
    """A model's estimate, and the published cycles."""

    model: str
    estimate: Estimate
    published: float

    @property
    def chip(self) -> ChipEstimate:
        """The estimate for the chip."""
        found = self.estimate.chip
        assert found is not None, "the core has a chip, and this computer a compiler"
        return found

    @property
    def percent(self) -> tuple[float, float]:
        """The published cycles in percent of the fewest and of the most estimated."""
        low, high = (self.published * 100 / self.chip.cycles[each] for each in ("from", "to"))
        return low, high


class Program:
    """The C program of a model's layers, a call each."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Array]) -> None:
        self._graph = graph
        self._values = run_all(graph, inputs)
        self._names: dict[str, str] = {}
        self._data: list[str] = []
        self._calls: list[str] = []
        for name, array in inputs.items():
            self._names[name] = self._constant(f"input{len(self._names)}", array, "int8_t")
        for index, node in enumerate(graph.nodes):
            self._add(index, node)
        self._output = graph.outputs[0]
        if graph.nodes[-1].op == "SOFTMAX":
            self._output = graph.nodes[-1].inputs[0]

    @property
    def text(self) -> str:
        """The program."""
        self._constant("expected", self._values[self._output], "int8_t")
        return "\n".join(
            [
                '#include "arm_nnfunctions.h"',
                "static int16_t scratch[65536];",
                *self._data,
                "__attribute__((noinline)) int model_run(void) {\n  int wrong = 0;",
                *self._calls,
                "  return wrong;\n}",
                _MAIN.replace("OUTPUT", self._names[self._output]),
            ]
        )

    def _constant(self, name: str, array: Array, ctype: str) -> str:
        numbers = ", ".join(map(str, np.asarray(array).ravel().tolist()))
        self._data.append(f"static const {ctype} {name}[] = {{{numbers}}};")
        return name

    def _tensor(self, name: str) -> Tensor:
        return self._graph.tensors[name]

    def _result(self, index: int, name: str) -> str:
        self._names[name] = f"tensor{index}"
        size = int(np.prod(self._tensor(name).shape))
        self._data.append(f"static int8_t tensor{index}[{size}] __attribute__((aligned(8)));")
        return self._names[name]

    def _add(self, index: int, node: Node) -> None:
        if node.op == "RESHAPE":
            self._names[node.outputs[0]] = self._names[node.inputs[0]]
        elif node.op != "SOFTMAX":
            # Of some thousand instructions, for the ten values at the end.
            make = {
                "CONV_2D": self._convolution,
                "DEPTHWISE_CONV_2D": self._convolution,
                "FULLY_CONNECTED": self._fully_connected,
                "ADD": self._add_tensors,
                "AVERAGE_POOL_2D": self._average,
            }[node.op]
            source = self._names[node.inputs[0]]
            self._calls.append(make(index, node, source, self._result(index, node.outputs[0])))

    def _offsets(self, node: Node) -> tuple[int, int]:
        source, target = self._tensor(node.inputs[0]), self._tensor(node.outputs[0])
        assert source.quant is not None
        assert target.quant is not None
        return -source.quant.zero_point[0], target.quant.zero_point[0]

    def _factors(self, node: Node) -> list[Any]:
        source, weights, target = (
            self._tensor(name).quant for name in (*node.inputs[:2], node.outputs[0])
        )
        assert source is not None
        assert weights is not None
        assert target is not None
        scale = float(np.float32(source.scale[0]))
        output = float(np.float32(target.scale[0]))
        return [
            quantize_multiplier(scale * float(np.float32(each)) / output) for each in weights.scale
        ]

    def _convolution(self, index: int, node: Node, source: str, target: str) -> str:
        image, result = self._tensor(node.inputs[0]).shape, self._tensor(node.outputs[0]).shape
        weights = self._values[node.inputs[1]]
        depthwise = node.op == "DEPTHWISE_CONV_2D"
        h, w = weights.shape[1:3]
        window = geometry.window(node, image, h, w)
        factors = self._factors(node)
        channels = result[3]
        factors = factors * channels if len(factors) == 1 else factors
        self._constant(f"weights{index}", weights, "int8_t")
        self._constant(f"bias{index}", self._values[node.inputs[2]], "int32_t")
        self._constant(f"multiplier{index}", np.array([f.multiplier for f in factors]), "int32_t")
        self._constant(f"shift{index}", np.array([f.shift for f in factors]), "int32_t")
        before, after = self._offsets(node)
        low, high = output_clamp(node, self._tensor(node.outputs[0]))
        multiple = ".ch_mult = 1, " if depthwise else ""
        kind = "dw_conv" if depthwise else "conv"
        call = "arm_depthwise_conv_wrapper_s8" if depthwise else "arm_convolve_wrapper_s8"
        filters = f"1, {h}, {w}, {channels}" if depthwise else f"{channels}, {h}, {w}, {image[3]}"
        return f"""  {{
    static const cmsis_nn_{kind}_params params = {{ .input_offset = {before},
      .output_offset = {after}, {multiple}.stride = {{ {window.w.stride}, {window.h.stride} }},
      .padding = {{ {window.w.pad_before}, {window.h.pad_before} }}, .dilation = {{ 1, 1 }},
      .activation = {{ {low}, {high} }} }};
    static const cmsis_nn_per_channel_quant_params quant = {{ (int32_t *)multiplier{index},
      (int32_t *)shift{index} }};
    static const cmsis_nn_dims in = {{ {_numbers(image)} }}, filter = {{ {filters} }},
      out = {{ {_numbers(result)} }};
    const cmsis_nn_context context = {{ scratch, sizeof scratch }};
    wrong |= {call}(&context, &params, &quant, &in, {source}, &filter, weights{index}, 0,
      bias{index}, &out, {target});
  }}"""

    def _fully_connected(self, index: int, node: Node, source: str, target: str) -> str:
        weights = self._values[node.inputs[1]]
        self._constant(f"weights{index}", weights, "int8_t")
        self._constant(f"bias{index}", self._values[node.inputs[2]], "int32_t")
        (factor,) = self._factors(node)
        before, after = self._offsets(node)
        low, high = output_clamp(node, self._tensor(node.outputs[0]))
        rows, columns = weights.shape
        return f"""  {{
    static const cmsis_nn_fc_params params = {{ .input_offset = {before},
      .output_offset = {after}, .activation = {{ {low}, {high} }} }};
    static const cmsis_nn_per_tensor_quant_params quant = {{ {factor.multiplier}, {factor.shift} }};
    static const cmsis_nn_dims in = {{ 1, 1, 1, {columns} }}, out = {{ 1, 1, 1, {rows} }},
      filter = {{ {columns}, 1, 1, {rows} }};
    const cmsis_nn_context context = {{ scratch, sizeof scratch }};
    wrong |= arm_fully_connected_s8(&context, &params, &quant, &in, {source}, &filter,
      weights{index}, 0, bias{index}, &out, {target});
  }}"""

    def _add_tensors(self, index: int, node: Node, source: str, target: str) -> str:
        quants = [self._tensor(name).quant for name in (*node.inputs, *node.outputs)]
        scales = [float(np.float32(quant.scale[0])) for quant in quants if quant]
        points = [quant.zero_point[0] for quant in quants if quant]
        double = 2 * max(scales[:2])
        first, second = (quantize_multiplier(scale / double) for scale in scales[:2])
        total = quantize_multiplier(double / ((1 << 20) * scales[2]))
        low, high = output_clamp(node, self._tensor(node.outputs[0]))
        size = int(np.prod(self._tensor(node.outputs[0]).shape))
        return f"""  wrong |= arm_elementwise_add_s8({source}, {self._names[node.inputs[1]]},
    {-points[0]}, {first.multiplier}, {first.shift}, {-points[1]}, {second.multiplier},
    {second.shift}, 20, {target}, {points[2]}, {total.multiplier}, {total.shift}, {low}, {high},
    {size});"""

    def _average(self, index: int, node: Node, source: str, target: str) -> str:
        image, result = self._tensor(node.inputs[0]).shape, self._tensor(node.outputs[0]).shape
        h, w = (i // o for i, o in zip(image[1:3], result[1:3], strict=True))
        low, high = output_clamp(node, self._tensor(node.outputs[0]))
        return f"""  {{
    static const cmsis_nn_pool_params params = {{ {{ {w}, {h} }}, {{ 0, 0 }},
      {{ {low}, {high} }} }};
    static const cmsis_nn_dims in = {{ {_numbers(image)} }}, filter = {{ 1, {h}, {w}, 1 }},
      out = {{ {_numbers(result)} }};
    const cmsis_nn_context context = {{ scratch, sizeof scratch }};
    wrong |= arm_avgpool_s8(&context, &params, &in, {source}, &filter, &out, {target});
  }}"""


def _numbers(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape))


def built(program: str, kernels: Path, folder: Path) -> Path:
    """Return the program, linked with Arm's kernels."""
    (folder / "main.c").write_text(program)
    (folder / "link.ld").write_text(_LINK)
    elf = folder / "model.elf"
    sources = [
        path
        for path in sorted(kernels.rglob("Source/**/*.c"))
        if path.parent.name == "Source" or path.parent.name.removesuffix("Functions") in SOURCES
    ]
    include = sorted({path.parent for path in kernels.parent.rglob("Include/**/*.h")})
    flags = [*CFLAGS.split(), "-Wl,--gc-sections", "-nostartfiles", "--specs=nosys.specs"]
    subprocess.run(
        ["arm-none-eabi-gcc", *flags, *(f"-I{each}" for each in include), "-T", "link.ld",
         "-o", elf, "main.c", *sources, "-lc"],
        cwd=folder, check=True,
    )  # fmt: skip
    return elf


def compared(model: str, kernels: Path, published: float, folder: Path) -> Compared:
    """Return the estimate of a model beside the published cycles.

    Raise :class:`SystemExit` where its output differs from the interpreter's.
    """
    board = load_board(BOARD)
    graph = prepare(models.model_path(model), model, board.cpu, fold_constant_channels=False).graph
    (sample,) = models.samples(model, 1)
    elf = built(Program(graph, {graph.inputs[0]: sample}).text, kernels, folder)
    with traced(board, FUNCTION) as (traced_board, trace):
        trace.watch(elf, FUNCTION)
        words = [*counted_words(traced_board), "-semihosting", "-kernel", str(elf)]
        done = run(words, folder, limit_s=_TIMEOUT_S)
        if done.returncode:
            raise SystemExit(f"{model}: the output differs from the interpreter's\n{done.stderr}")
        found = with_chip(estimate(trace.runs(), board.cpu), trace, board.cpu)
    return Compared(model, found, published)


def section(found: Sequence[Compared]) -> str:
    """Return the table."""

    def million(low: float, high: float) -> str:
        return f"{low / 1e6:.3g} to {high / 1e6:.3g}"

    rows = []
    for each in found:
        reads = each.chip.flash_reads
        low, high = each.estimate.cycles
        rows.append(
            [
                f"`{each.model}`",
                f"{each.estimate.mix.total / 1e6:.3g}",
                million(low, high),
                f"{low / each.published:.2f} to {high / each.published:.2f}",
                f"{reads['fetches']:,}",
                f"{reads['data']:,}",
                million(*each.chip.cycles.values()),
                f"{each.published / 1e6:.4g}",
                " to ".join(f"{100 / percent:.2f}" for percent in each.percent),
            ]
        )
    header = ["model", "instructions", "no wait states", "over published", "fetches", "data reads"]
    header += ["with the flash", "published", "over published"]
    return table(header, rows, "---:")


def outside(found: Sequence[Compared], board: Board) -> Iterator[str]:
    """Yield the models whose published cycles the range of the core's description lacks."""
    for each in found:
        low, high = each.chip.expected["from"], each.chip.expected["to"]
        if not low <= each.published <= high:
            yield (
                f"{each.model}: {each.published:,.0f} cycles were published; {board.cpu.name}'s "
                f"cycles.chip.percent expects {low:,} to {high:,}"
            )


def published_cycles() -> Mapping[str, float]:
    """Return the published cycles of an inference by model."""
    (row,) = tomllib.loads(BASELINES.read_text(encoding="utf-8"))["silicon"]
    return {name: row["clock_hz"] / rate for name, rate in row["per_second"].items()}


def main() -> int:
    """Measure, compare and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cmsis-nn", type=Path, required=True, help="the folder CMSIS/NN")
    args = parser.parse_args()
    published = published_cycles()
    found = []
    for model in models.INT8_MODELS:
        with TemporaryFolder("silicon") as folder:
            kernels = args.cmsis_nn.resolve()
            found.append(compared(model, kernels, published[model], Path(folder)))
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replaced(text, "silicon", section(found)), encoding="utf-8")
    wrong = list(outside(found, load_board(BOARD)))
    print("\n".join(wrong), end="\n" * bool(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
