"""Tensors through a board's memory instead of requests over its line.

The line stays the truth. The handshake has proven that the image at hand is the one that runs, so
its table of models (``hil_model.h``) tells where each tensor lies. That memory shows there what the
core sees is proven in each region before it is relied on: the firmware must read back random bytes
that were written from outside, or what it reads must be what was read from outside. And after every
transfer the firmware must answer, which it does not in this session where it has restarted, stopped
at a fault or hangs, so that nobody takes what memory holds then for a result.
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
#: Of a tensor, what proves its region: so many a line gives back within a second.
_PROOF_BYTES = 32768

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


class BoardMemory(Protocol):
    """A board's memory, reached past the line while the core runs.

    What fails is a :class:`~hil.errors.DeviceError`.
    """

    def read(self, address: int, nbytes: int) -> bytes: ...
    def write(self, address: int, data: bytes) -> None: ...


class TensorRequests(Protocol):
    """Tensors over the line: what the firmware itself reads and writes."""

    def read_by_line(self, tensor: TensorRef, nbytes: int) -> bytes: ...
    def check(self) -> None:
        """Raise unless the firmware goes on in this session."""


class Bulk:
    """The tensors of the firmware ``elf`` in ``memory``.

    Where the firmware sees something else there, the line is taken from then on, and a warning
    says so; where memory ``is_demanded``, that raises instead.
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
        #: Regions where what is written from outside is what the firmware reads, and where what is
        #: read from outside is.
        self._writable: set[str] = set()
        self._readable: set[str] = set()

    @property
    def is_used(self) -> bool:
        """False once memory was given up."""
        return self._memory is not None

    def write(self, line: TensorRequests, tensor: TensorRef, data: bytes) -> bool:
        """Write the tensor's first bytes; False where the line has to do it."""
        place = self._place(tensor, len(data))
        if self._memory is None or place is None:
            return False
        address, region = place
        if region not in self._writable:
            # Data might be there already; random bytes are not.
            pattern = secrets.token_bytes(min(len(data), _PROOF_BYTES))
            self._memory.write(address, pattern)
            if line.read_by_line(tensor, len(pattern)) != pattern:
                self._give_up(f"does not read what was written to {region} from outside")
                return False
            self._writable.add(region)
            if self._memory.read(address, len(pattern)) == pattern:
                self._readable.add(region)
        self._memory.write(address, data)
        line.check()
        return True

    def read(self, line: TensorRequests, tensor: TensorRef, nbytes: int) -> bytes | None:
        """Return the tensor's first bytes; None where the line has to tell them."""
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
            self._give_up(f"reads something else in {region} than what is read from outside")
            return None
        if len(set(by_line)) > 1:
            self._readable.add(region)
            return data
        # Bytes that are all the same may be so by accident, on both sides.
        return by_line if len(by_line) == nbytes else None

    def _place(self, tensor: TensorRef, nbytes: int) -> tuple[int, str] | None:
        """Return the tensor's address and its memory region."""
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
            raise LinkError(fact, "leave out --bulk: tensors take the serial line then")
        _LOG.warning("%s; tensors take the serial line", fact)
        self._memory = None


class TensorTable:
    """Addresses of the tensors of a firmware's models, from its ELF file."""

    def __init__(self, elf: Path) -> None:
        self._image = read_image(elf)
        self._models = symbol_address(elf, "hil_models")
        self._found: dict[TensorRef, tuple[int, int] | None] = {}

    def address(self, tensor: TensorRef, nbytes: int) -> int | None:
        """Return the tensor's address; None where it is in no table, or is smaller."""
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
