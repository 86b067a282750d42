#!/usr/bin/env python3
"""Write the MLPerf Tiny models as PyTorch's PT2E would have, with the numbers of TensorFlow Lite.

    python tools/measure.py pt2_twins [FOLDER]

writes NAME.pt2 for each of the four into FOLDER (build/pt2_twins). What is quantized, and by which
scales, is that of ``tests/support/models/quantized_twins.py``; biases are floats, as PT2E leaves
them. It needs the extra ``torch``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from models import INT8_MODELS, model_path
from onnx import numpy_helper
from quantized_twins import qdq_twin

from hilc.frontends import load_model
from hilc.ir import Array

ROOT = Path(__file__).resolve().parents[1]

TARGET = ROOT / "build" / "pt2_twins"

# It registers torch.ops.quantized_decomposed.
import_module("torchao.quantization.pt2e")


class Twin(torch.nn.Module):  # type: ignore[misc]
    """A model in QDQ form, node by node."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        self.model = model
        self.names: dict[str, str] = {}
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        for node in model.graph.node:
            # PT2E quantizes weights alone: the int8 ones stay, biases are floats.
            if node.op_type != "DequantizeLinear" or node.input[0] not in self.constants:
                continue
            value, scale = (self.constants[name] for name in node.input[:2])
            own = f"p{len(self.names)}"
            if value.dtype == np.int32:
                value = value.astype(np.float32) * scale
            self.names[node.output[0]] = own
            self.register_buffer(own, torch.from_numpy(value.copy()))
            if scale.ndim:
                self.register_buffer(f"{own}_scale", torch.from_numpy(scale.copy()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        graph = self.model.graph
        values = {graph.input[0].name: x}
        for node in graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            made = self.constant_of(node)
            if made is None:
                inputs = [values.get(n, self.constants.get(n)) for n in node.input]
                made = _OPERATORS[node.op_type](*inputs, **attributes)
            values[node.output[0]] = made
        return values[graph.output[0].name]

    def constant_of(self, node: onnx.NodeProto) -> torch.Tensor | None:
        """Return the dequantized weights, or the bias, that a node gives; None for other nodes."""
        own = self.names.get(node.output[0])
        if own is None:
            return None
        value = getattr(self, own)
        if value.dtype == torch.float32:
            return value
        scale = self.constants[node.input[1]]
        ops = torch.ops.quantized_decomposed
        if scale.ndim == 0:
            return ops.dequantize_per_tensor(value, float(scale), 0, -127, 127, torch.int8)
        scales = getattr(self, f"{own}_scale")
        zeros = torch.zeros_like(scales, dtype=torch.int64)
        return ops.dequantize_per_channel(value, scales, zeros, 0, -127, 127, torch.int8)


def _quantize(x: torch.Tensor, scale: Array, zero: Array) -> torch.Tensor:
    parameters = float(scale), int(zero), -128, 127, torch.int8
    return torch.ops.quantized_decomposed.quantize_per_tensor(x, *parameters)


def _dequantize(x: torch.Tensor, scale: Array, zero: Array) -> torch.Tensor:
    parameters = float(scale), int(zero), -128, 127, torch.int8
    return torch.ops.quantized_decomposed.dequantize_per_tensor(x, *parameters)


def _conv(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, **a: Any) -> torch.Tensor:
    top, left, bottom, right = a["pads"]
    if (top, left) != (bottom, right):
        x, top, left = F.pad(x, (left, right, top, bottom)), 0, 0
    return F.conv2d(x, w, b, a["strides"], (top, left), a["dilations"], a["group"])


def _average(x: torch.Tensor, **a: Any) -> torch.Tensor:
    assert not any(a["pads"])
    return F.avg_pool2d(x, a["kernel_shape"], a["strides"])


_OPERATORS: Mapping[str, Callable[..., torch.Tensor]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "Conv": _conv,
    "Gemm": lambda x, w, b, **_: F.linear(x, w, b),
    "Relu": torch.relu,
    "Add": torch.add,
    "AveragePool": _average,
    "Reshape": lambda x, shape: x.reshape([int(n) for n in shape]),
    "Softmax": lambda x, axis: torch.softmax(x, axis),
}


def write(name: str, path: Path) -> None:
    """Write the program of one model."""
    module = Twin(qdq_twin(load_model(model_path(name)))).eval()
    (given,) = module.model.graph.input
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    with torch.no_grad():
        program = torch.export.export(module, (torch.zeros(shape, dtype=torch.int8),))
    torch.export.save(program.run_decompositions({}), path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=TARGET)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in INT8_MODELS:
        write(name, folder / f"{name}.pt2")
        print(folder / f"{name}.pt2", (folder / f"{name}.pt2").stat().st_size, "bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
