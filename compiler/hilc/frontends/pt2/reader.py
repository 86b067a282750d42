"""Entry points of the reader of ``torch.export`` programs, which become ONNX models."""

from __future__ import annotations

from importlib import import_module

from hilc.errors import InputError
from hilc.frontends.onnx import reader as onnx
from hilc.frontends.pt2.archive import is_pt2, read_archive
from hilc.frontends.pt2.program import read_program
from hilc.frontends.readers import Reading, Specialization

__all__ = ["import_graph", "is_pt2", "specialize"]


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
    program = read_program(read_archive(data))
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
