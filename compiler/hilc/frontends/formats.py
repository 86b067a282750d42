"""The formats of model files that are built in. Their modules are loaded when a file is read."""

from __future__ import annotations

from hilc.frontends.onnx import reader as onnx
from hilc.frontends.pt2 import reader as pt2
from hilc.frontends.readers import Reader, register_reader
from hilc.frontends.tflite import entry as tflite
from hilc.ir import Numerics
from hilc.ir.dtypes import FLOAT, INTEGER

register_reader(
    Reader(
        "TensorFlow Lite",
        ".tflite",
        tflite.is_tflite,
        tflite.import_graph,
        quantizer="tflite",
        select=tflite.selected,
        dynamic=FLOAT,
        read_other=tflite.import_hybrid,
    )
)
register_reader(
    Reader(
        "ONNX",
        ".onnx",
        onnx.is_onnx,
        onnx.import_graph,
        onnx.specialize,
        references=("onnx", "onnxruntime", "hilc"),
        quantizer="qdq",
        numerics=Numerics.ONNX,
        dynamic=INTEGER,
        read_other=onnx.import_floats,
    )
)
register_reader(
    Reader(
        "PyTorch",
        ".onnx",
        pt2.is_pt2,
        pt2.import_graph,
        pt2.specialize,
        references=("onnx", "onnxruntime", "hilc"),
        quantizer="pt2e",
        numerics=Numerics.ONNX,
    )
)
