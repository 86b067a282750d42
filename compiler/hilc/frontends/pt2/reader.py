"""Entry points of the reader of ``torch.export`` programs, which become ONNX models."""

from __future__ import annotations

from importlib import import_module

from hilc.errors import InputError
from hilc.frontends.onnx import reader as onnx
from hilc.frontends.readers import Reading, Specialization

_ZIP = b"PK\x03\x04"


def is_pt2(data: bytes) -> bool:
    """Return whether bytes are an archive of ``torch.export.save``, of any version."""
    if not data.startswith(_ZIP):
        return False
    found: bool = import_module("hilc.frontends.pt2.archive").is_pt2(data)
    return found


def specialize(data: bytes, stated: Specialization) -> bytes:
    """Return a program as an ONNX model, with the shapes that the user states.

    Raise :class:`~hilc.errors.InputError` if values of inputs are stated.
    """
    onnx.require_package("a program of PyTorch, which becomes an ONNX model")
    if stated.inputs:
        names = ", ".join(map(repr, stated.inputs))
        raise InputError(
            f"the values of {names} cannot be stated for a program of PyTorch",
            "make them constants of the module before the export",
        )
    archive = import_module("hilc.frontends.pt2.archive").read_archive(data)
    program = import_module("hilc.frontends.pt2.program").read_program(archive)
    # It imports the package onnx.
    converter = import_module("hilc.frontends.pt2.convert")
    loop_bounds = import_module("hilc.frontends.onnx.loop_bounds")
    model = converter.convert(program, stated.shapes, "main")
    loop_bounds.set_loop_bounds(model, stated.loop_bounds)
    specialized: bytes = model.SerializeToString()
    return specialized


def import_graph(data: bytes, name: str) -> Reading:
    """Return the graph of a program that :func:`specialize` has made an ONNX model."""
    return onnx.import_graph(data, name)
