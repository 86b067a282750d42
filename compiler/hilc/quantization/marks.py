"""Marks by which a file is known to be written here, so that it may be replaced."""

from __future__ import annotations

import io
import zipfile
from importlib import import_module
from pathlib import Path

from hilc.frontends.pt2.archive import is_pt2
from hilc.frontends.tflite.entry import is_tflite

MARK, MARK_TEXT = "hil.quantized", "hil quantize"


def marked(data: bytes) -> bytes:
    """Return a model's file with the mark: metadata of ONNX, an extra file of PyTorch.

    TFLite files have it from the quantizer.
    """
    if is_tflite(data):
        return data
    if not is_pt2(data):
        # Serialized messages that follow each other are merged.
        mark = import_module("onnx").ModelProto()
        mark.metadata_props.add(key=MARK, value=MARK_TEXT)
        written: bytes = mark.SerializeToString()
        return data + written
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive:
        (folder, *_) = archive.namelist()[0].split("/")
        archive.writestr(zipfile.ZipInfo(f"{folder}/extra/{MARK}"), MARK_TEXT.encode())
    return file.getvalue()


def is_own_file(path: Path) -> bool:
    """Return whether a file has the mark."""
    return MARK.encode() in path.read_bytes()
