"""Access to tensors in a board's memory instead of over its serial line.

The line remains the reference. The handshake has proven that the known image is running, so the
image's table of models (``hil_model.h``) gives the address of each tensor. Before a memory region
is used, a test proves that this access and the core see the same bytes there: the firmware reads
back random bytes written from outside, or reads the same bytes that were read from outside. After
every transfer the firmware must answer. A firmware that has restarted, stopped at a fault or hangs
does not answer in this session, so stale memory is never taken for a result.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from construct import Int8ul, Int16ul, Int32ul, Struct

from hil.board import MemoryRegion
from hil.errors import LinkError
from hil.firmware.image import read_image, symbol_address
from hil.link.protocol import Tensors
from hil.link.tensors import TensorRef

_LOG = logging.getLogger("hil.bulk")
#: The first bytes of a tensor prove its region; the line transfers this many in a second.
_PROOF_BYTES = 32768

# The part of the structs of hil_model.h (on a 32-bit core) that is read here.
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


class BoardMemory(Protocol):
    """Access to a board's memory, besides the line, while the core runs.

    Failures are :class:`~hil.errors.DeviceError`.
    """

    def read(self, address: int, nbytes: int) -> bytes:
        """Return ``nbytes`` bytes of memory from ``address`` on."""

    def write(self, address: int, data: bytes) -> None:
        """Write ``data`` to memory from ``address`` on."""


class TensorRequests(Protocol):
    """Requests over the line, by which the firmware itself reads and writes tensors."""

    def read_by_line(self, tensor: TensorRef, nbytes: int) -> bytes:
        """Return the first ``nbytes`` bytes of a tensor, by READ requests."""

    def check(self) -> None:
        """Raise unless the firmware still answers in this session."""


class Bulk:
    """The tensors of the firmware ``elf`` in ``memory``.

    If the firmware sees other bytes there, transfers use the line from then on, with a warning; if
    memory ``is_demanded``, an error is raised instead.
    """

    def __init__(
        self,
        memory: BoardMemory,
        elf: Path,
        regions: Sequence[MemoryRegion],
        *,
        is_demanded: bool = False,
    ) -> None:
        self._memory: BoardMemory | None = memory
        self._tensors = TensorTable(elf)
        self._regions = regions
        self._is_demanded = is_demanded
        #: Regions that were proven for writing and for reading.
        self._writable: set[str] = set()
        self._readable: set[str] = set()

    @property
    def is_used(self) -> bool:
        """Whether memory is still used; False after a region failed its test."""
        return self._memory is not None

    def write(self, line: TensorRequests, tensor: TensorRef, data: bytes) -> bool:
        """Write the tensor's first bytes; return False if the line has to do it."""
        place = self._place(tensor, len(data))
        if self._memory is None or place is None:
            return False
        address, region = place
        if region not in self._writable:
            # Random bytes: the tensor may already contain the data.
            pattern = secrets.token_bytes(min(len(data), _PROOF_BYTES))
            self._memory.write(address, pattern)
            if line.read_by_line(tensor, len(pattern)) != pattern:
                self._give_up(f"does not read the bytes that were written to {region} from outside")
                return False
            self._writable.add(region)
            if self._memory.read(address, len(pattern)) == pattern:
                self._readable.add(region)
        self._memory.write(address, data)
        line.check()
        return True

    def read(self, line: TensorRequests, tensor: TensorRef, nbytes: int) -> bytes | None:
        """Return the tensor's first bytes; None if the line has to read them."""
        place = self._place(tensor, nbytes)
        if self._memory is None or place is None:
            return None
        address, region = place
        data = self._memory.read(address, nbytes)
        if region in self._readable:
            line.check()
            return data
        by_line = line.read_by_line(tensor, min(nbytes, _PROOF_BYTES))
        if data[: len(by_line)] != by_line:
            self._give_up(f"reads other bytes in {region} than the access from outside")
            return None
        if len(set(by_line)) > 1:
            self._readable.add(region)
            return data
        # Equal bytes throughout, such as zeros, may agree by accident.
        return by_line if len(by_line) == nbytes else None

    def _place(self, tensor: TensorRef, nbytes: int) -> tuple[int, str] | None:
        """Return the tensor's address and memory region."""
        address = self._tensors.address(tensor, nbytes)
        if address is None or nbytes == 0:
            return None
        for region in self._regions:
            if region.origin <= address and address + nbytes <= region.end:
                return address, region.name
        return None

    def _give_up(self, why: str) -> None:
        fact = f"the firmware {why}"
        if self._is_demanded:
            raise LinkError(fact, "drop --bulk: tensors then use the serial line")
        _LOG.warning("%s; tensors now use the serial line", fact)
        self._memory = None


class TensorTable:
    """Addresses of the tensors of a firmware's models, from its ELF file."""

    def __init__(self, elf: Path) -> None:
        self._image = read_image(elf)
        self._models = symbol_address(elf, "hil_models")
        self._found: dict[TensorRef, tuple[int, int] | None] = {}

    def address(self, tensor: TensorRef, nbytes: int) -> int | None:
        """Return the tensor's address; None if no table has it or it is smaller than ``nbytes``."""
        if tensor not in self._found:
            self._found[tensor] = self._look_up(tensor)
        found = self._found[tensor]
        return found[0] if found is not None and nbytes <= found[1] else None

    def _look_up(self, ref: TensorRef) -> tuple[int, int] | None:
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
        return int(tensor.data), int(tensor.nbytes)

    def _pointer(self, address: int) -> int:
        return int(Int32ul.parse(self._bytes(address, Int32ul)))

    def _bytes(self, address: int, what: Struct) -> bytes:
        """Return constant data of the image."""
        size = what.sizeof()
        for segment in self._image:
            at = address - segment.address
            if 0 <= at <= len(segment.data) - size:
                return segment.data[at : at + size]
        raise LinkError(
            f"the firmware's table of models points to {address:#010x}, outside of the image",
            "build the firmware again",
        )
