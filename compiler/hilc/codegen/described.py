"""Facts about generated functions that a library's description states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["pool", "input", "output", "constants", "device"]


@dataclass(frozen=True)
class Argument:
    """Argument of a layer's operator function.

    ``pool``, ``input`` and ``output`` are tensors, ``constants`` is the external constant pool (all
    have ``shape`` and ``dtype``, which some calling conventions pass along), ``device`` is an
    opaque context.
    """

    kind: Kind
    #: Byte offset in the pool, or the index of the model's input, output or device.
    value: int
    #: Scratch and the constant pool are uint8; a device has neither shape nor type ("").
    shape: tuple[int, ...]
    dtype: str
    #: Index of the pool among :attr:`Module.workspace_pools`.
    pool: int = 0


@dataclass(frozen=True)
class External:
    """Code of an external generator (:mod:`hilc.external`) that a layer calls."""

    #: Index of the layer.
    layer: int
    #: Function of the generator, which the layer's function calls.
    function: str
    generator: str
    #: Field of :attr:`Module.devices` on which it runs, and the program that must be loaded there;
    #: "" for none.
    device: str
    program: str
    #: Global C names that the generator's files for this layer define, sorted.
    symbols: tuple[str, ...]


def data_file(module: str) -> str:
    """Return the name of the binary file with the values of a module's pool."""
    return f"{module}_lib1.bin"
