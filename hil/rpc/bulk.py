"""Tensors through a debug probe's memory access instead of the serial line.

The addresses come from the firmware's table of models (``hil_model.h``), read from its ELF file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from construct import Int8ul, Int16ul, Int32ul, Struct

from hil import flash
from hil.errors import LinkError
from hil.rpc.protocol import Tensors

if TYPE_CHECKING:
    from pyocd.core.session import Session

    from hil.rpc.client import TensorRef

# The structs of hil_model.h on a 32-bit core, as far as they are read.
_TENSOR = Struct("name" / Int32ul, "shape" / Int32ul, "data" / Int32ul, "nbytes" / Int32ul)
_TENSOR_BYTES = 20
_LAYER = Struct("name" / Int32ul, "outputs" / Int32ul, "run" / Int32ul, "count" / Int8ul)
_LAYER_BYTES = 16
_MODEL = Struct(
    "name" / Int32ul,
    "inputs" / Int32ul,
    "outputs" / Int32ul,
    "layers" / Int32ul,
    "run" / Int32ul,
    "workspace_bytes" / Int32ul,
    "layer_count" / Int16ul,
    "input_count" / Int8ul,
    "output_count" / Int8ul,
)


class Bulk(Protocol):
    """Another way to the bytes of tensors than requests over the line."""

    def read(self, tensor: TensorRef, nbytes: int) -> bytes | None:
        """The tensor's first bytes; None where this way does not know the tensor."""

    def write(self, tensor: TensorRef, data: bytes) -> bool:
        """Writes the tensor's first bytes; False where this way does not know the tensor."""


class ProbeMemory:
    """The tensors of the firmware ``elf`` in the memory behind ``session``, while the core runs."""

    def __init__(self, session: Session, elf: Path) -> None:
        self._session = session
        self._image = flash.read_image(elf)
        self._models = flash.symbol_address(elf, "hil_models")

    def read(self, tensor: TensorRef, nbytes: int) -> bytes | None:
        """The tensor's first ``nbytes`` bytes; None for a tensor that is in no table."""
        from pyocd.core.exceptions import Error

        address = self._address(tensor, nbytes)
        if address is None:
            return None
        try:
            return bytes(self._session.target.read_memory_block8(address, nbytes))
        except Error as error:
            raise _lost(error) from None

    def write(self, tensor: TensorRef, data: bytes) -> bool:
        """Writes the tensor's first bytes; False for a tensor that is in no table."""
        from pyocd.core.exceptions import Error

        address = self._address(tensor, len(data))
        if address is None:
            return False
        try:
            self._session.target.write_memory_block8(address, data)
            self._session.target.flush()
        except Error as error:
            raise _lost(error) from None
        return True

    def _address(self, ref: TensorRef, nbytes: int) -> int | None:
        model = _MODEL.parse(self._bytes(self._pointer(self._models + 4 * ref.model), _MODEL))
        match ref.list:
            case Tensors.INPUT:
                table, count = model.inputs, model.input_count
            case Tensors.OUTPUT:
                table, count = model.outputs, model.output_count
            case Tensors.LAYER_OUTPUT if ref.layer < model.layer_count:
                layer = _LAYER.parse(self._bytes(model.layers + _LAYER_BYTES * ref.layer, _LAYER))
                table, count = layer.outputs, layer.count
            case _:
                return None
        if ref.index >= count:
            return None
        tensor = _TENSOR.parse(self._bytes(table + _TENSOR_BYTES * ref.index, _TENSOR))
        return int(tensor.data) if nbytes <= tensor.nbytes else None

    def _pointer(self, address: int) -> int:
        return int(Int32ul.parse(self._bytes(address, Int32ul)))

    def _bytes(self, address: int, what: Struct) -> bytes:
        """Constant data of the image."""
        size = what.sizeof()
        for segment in self._image:
            at = address - segment.address
            if 0 <= at <= len(segment.data) - size:
                return segment.data[at : at + size]
        raise LinkError(
            f"the firmware's table of models points to {address:#010x}, which is not in its image",
            "build the firmware again",
        )


def _lost(error: Exception) -> LinkError:
    return LinkError(
        f"the probe failed at a tensor: {error or type(error).__name__}",
        "check the cable; without --bulk tensors take the serial line",
    )
