"""A compiled model: C sources plus what the harness must know of them.

Saved and loaded as a Model Library Format archive. ``metadata.json`` is TVM's; what TVM's format has
no place for (layers, quantisation, places in the pool) is ``hil/<module>.json`` beside it, the JSON of
:class:`Module`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TensorInfo:
    """A tensor at the border of a model or of one of its layers."""

    name: str
    #: The name as a C identifier (struct field, upper case in the size macro).
    c_name: str
    shape: tuple[int, ...]
    dtype: str
    #: Per-tensor quantisation; None where the tensor has none.
    scale: float | None
    zero_point: int | None
    nbytes: int
    #: Byte offset in the workspace pool; None where the caller provides the buffer.
    offset: int | None


@dataclass(frozen=True)
class Argument:
    """An argument of a layer's operator function: a place in the pool or a buffer of the caller."""

    kind: Literal["pool", "input", "output"]
    #: Byte offset in the pool, or the index of the model's input or output.
    value: int


@dataclass(frozen=True)
class Layer:
    """One call in the generated main function."""

    name: str
    op: str
    #: C function: ``int32_t function(void *arg, ...)`` returning 0 on success.
    function: str
    #: The tensors that the layer reads, then those that it writes, then its scratch if it has some.
    arguments: tuple[Argument, ...]
    outputs: tuple[TensorInfo, ...]
    macs: int
    #: How many of the arguments are tensors that the layer reads.
    input_count: int

    @property
    def output_arguments(self) -> tuple[Argument, ...]:
        """Where each of ``outputs`` is written."""
        return self.arguments[self.input_count : self.input_count + len(self.outputs)]


@dataclass(frozen=True)
class Module:
    """One compiled model of a library."""

    name: str
    #: Stem of all its C symbols: ``tvmgen_<name>``.
    symbol: str
    cpu: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    layers: tuple[Layer, ...]
    #: Bytes of the workspace pool, inputs and outputs included where they are placed in it.
    workspace_bytes: int
    #: Bytes of inputs and outputs, wherever they are.
    io_bytes: int
    constants_bytes: int
    #: ``internal``: the pool is a static array of the library; ``external``: the caller provides it.
    pools: Literal["internal", "external"]
    #: Inputs and outputs lie in the pool (the caller finds them with the map functions).
    io_in_pool: bool


@dataclass(frozen=True)
class ModelLibrary:
    """Modules and the files of the archive, by their path in it (without the leading ``./``)."""

    modules: tuple[Module, ...]
    files: Mapping[str, bytes]
