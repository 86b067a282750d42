"""Tap points (``hil_tap.h``) of run times for the tests: C in a process, and calls from Python."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hil.link.line import Link
from hil.link.protocol import Dtype, Tensors
from hilc.ir import Array, Graph
from hilc.numerics.requantize import activation_range, quantize_multiplier

ROOT = Path(__file__).resolve().parents[3]
TAP = ROOT / "hil" / "verify" / "tap"
SOURCES = ROOT / "tests" / "c" / "tap"
WARNINGS = ("-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")


def _c_array(kind: str, name: str, values: Array) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(str(int(v)) for v in values.ravel())}}};\n"


def model_header(graph: Graph, *, named: bool) -> str:
    """The layers of a graph of convolutions, pools and fully connected layers, as C."""
    text, rows, most = "", [], 0
    nodes = [node for node in graph.nodes if node.op != "RESHAPE"]
    for number, node in enumerate(nodes):
        x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
        assert x.quant is not None
        assert y.quant is not None
        is_dense = node.op == "FULLY_CONNECTED"
        (h, w, c), (out_h, out_w, out_c) = (
            (1, 1, t.shape[-1]) if is_dense else t.shape[1:] for t in (x, y)
        )
        attrs = node.attrs
        size = 1 if is_dense else getattr(attrs, "filter_h", 3)
        stride = 1 if is_dense else attrs.stride_h  # type: ignore[attr-defined]
        pad = max((out_h - 1) * stride + size - h, 0) // 2
        pointers = ["NULL"] * 4
        if node.op != "MAX_POOL_2D":
            weights = graph.tensors[node.inputs[1]]
            assert weights.data is not None
            assert weights.quant is not None
            scales = np.broadcast_to(weights.quant.scale, (out_c,))
            factors = [
                quantize_multiplier(float(np.float64(x.quant.scale[0]) * s / y.quant.scale[0]))
                for s in scales
            ]
            bias = graph.tensors[node.inputs[2]].data if node.inputs[2] else None
            arrays = {
                "weights": ("int8_t", weights.data),
                "bias": ("int32_t", bias),
                "multipliers": ("int32_t", np.array([f.multiplier for f in factors])),
                "shifts": ("int32_t", np.array([f.shift for f in factors])),
            }
            pointers = []
            for label, (kind, values) in arrays.items():
                pointers.append("NULL" if values is None else f"{label}_{number}")
                if values is not None:
                    text += _c_array(kind, pointers[-1], values)
        activation = getattr(attrs, "activation", "NONE")
        low, high = activation_range(activation, y.quant.scale[0], y.quant.zero_point[0], y.dtype)
        op = {"CONV_2D": "CONV", "MAX_POOL_2D": "POOL", "FULLY_CONNECTED": "DENSE"}[node.op]
        name = f'"{y.name}"' if named else "NULL"
        fields = [h, w, c, out_h, out_w, out_c, size, stride, pad]
        fields += [x.quant.zero_point[0], y.quant.zero_point[0], low, high, *pointers]
        rows.append(f"{{{op}, {name}, {', '.join(map(str, fields))}}}")
        most = max(most, out_h * out_w * out_c)
    inputs = graph.tensors[graph.inputs[0]].size
    text += f"static const struct layer layers[] = {{{', '.join(rows)}}};\n"
    return f"{text}enum {{ LAYERS = {len(rows)}, INPUT = {inputs}, MOST = {most} }};\n" + (
        f'static const char NAME[] = "{graph.name}";\n'
    )


def build_runtime(graph: Graph, folder: Path, *, named: bool) -> Path:
    """The stand-in with this model, compiled as C99."""
    (folder / "model.h").write_text(model_header(graph, named=named))
    program = folder / "runtime"
    flags = ("-std=gnu99", "-O1", *WARNINGS, f"-I{TAP}", f"-I{folder}")
    command = ["gcc", *flags, str(SOURCES / "runtime.c"), "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    return program


class _Pipes:
    """The line of a process: its stdin and stdout."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def read(self) -> bytes:
        assert self._process.stdout is not None
        data: bytes = os.read(self._process.stdout.fileno(), 65536)
        if not data:
            raise ConnectionResetError("the process has ended")
        return data

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), data)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def started(program: Path, fault: str = "") -> Iterator[Link]:
    """The line to the stand-in, which makes the fault in its second layer."""
    process = subprocess.Popen([str(program), fault], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    link = Link("stand-in", line=_Pipes(process))
    try:
        yield link
    finally:
        link.close()


class Points:
    """Tap points that are called from Python; what they write is a line."""

    def __init__(self, folder: Path, inference: Callable[[Points], None]) -> None:
        library = folder / "points.so"
        flags = ("-std=c99", "-O1", "-shared", "-fPIC", *WARNINGS, f"-I{TAP}")
        command = ["gcc", *flags, str(SOURCES / "points.c"), "-o", str(library)]
        subprocess.run(command, check=True, timeout=60)
        self._c = ctypes.CDLL(str(library))
        self._written = bytearray()
        self._inference = inference
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        self._write = kind(lambda _, data, size: self._take(ctypes.string_at(data, size)))
        self._c.points_init(self._write)

    def _take(self, data: bytes) -> None:
        self._written += data

    def begin(self, name: str) -> None:
        self._c.points_begin(name.encode())

    def tensor(self, which: Tensors, layer: int, index: int, name: str, array: Array) -> None:
        data = np.ascontiguousarray(array).tobytes()
        kind = Dtype[array.dtype.name.upper()]
        self._c.points_tensor(
            int(which), layer, index, name.encode(), int(kind), data, ctypes.c_size_t(len(data))
        )

    def end(self) -> None:
        self._c.points_end()

    # What a line does: each read is an inference.

    def read(self) -> bytes:
        self._inference(self)
        data = bytes(self._written)
        self._written.clear()
        return data

    def write(self, data: bytes) -> None:
        self._c.points_receive(data, ctypes.c_size_t(len(data)))

    def close(self) -> None:
        """There is nothing to close."""
