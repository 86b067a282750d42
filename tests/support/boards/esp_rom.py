"""A stand-in of the serial loader in the boot ROM of an ESP32-C3, on a loopback socket.

Written from Espressif's description of the protocol (esptool's documentation, "Serial Protocol"):
SLIP frames of requests and answers; SYNC, register access, SPI_ATTACH, SPI_SET_PARAMS, FLASH_BEGIN,
FLASH_DATA with its checksum and order, FLASH_END, SPI_FLASH_MD5 and GET_SECURITY_INFO. FLASH_BEGIN
erases whole sectors; a block outside of what was begun is an error. The stub that esptool may load
is not modelled: `--no-stub`.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from waiting import PATIENCE_S

CHIP_ID = 5
_END, _ESC, _ESC_END, _ESC_ESC = 0xC0, 0xDB, 0xDC, 0xDD
_BEGIN, _DATA, _FINISH, _SYNC, _WRITE, _READ = 0x02, 0x03, 0x04, 0x08, 0x09, 0x0A
_PARAMS, _ATTACH, _BAUD, _MD5, _SECURITY = 0x0B, 0x0D, 0x0F, 0x13, 0x14
_SECTOR = 0x1000
#: Registers of the SPI controller that the loader's host drives by hand.
_SPI = 0x6000_2000
_SPI_CMD, _SPI_USR2, _SPI_W0 = _SPI, _SPI + 0x20, _SPI + 0x58
#: JEDEC id of a flash of 4 MB, as the controller shows it: manufacturer in the lowest byte.
_JEDEC_ID, _READ_ID, _READ_SFDP = 0x1640EF, 0x9F, 0x5A
#: Codes of errors.
_FAILED, _CHECKSUM, _INVALID = 0x06, 0x07, 0x05


@dataclass
class Rom:
    """A chip in its loader, with its flash."""

    url: str
    chip_id: int = CHIP_ID
    #: Bits of its security information: 0, secure boot; 2, secure download.
    security: int = 0
    #: The counter of flash encryption, odd where it is on.
    crypt_count: int = 0
    #: Whether what is programmed reads back as something else.
    is_worn: bool = False
    is_silent: bool = False
    flash: bytearray = field(default_factory=lambda: bytearray(b"\x00" * (4 << 20)))
    commands: list[int] = field(default_factory=list)
    registers: dict[int, int] = field(default_factory=dict)
    #: Where the next block is written, blocks that are to come, the number of the next.
    _at: int = 0
    _left: int = 0
    _next: int = 0

    def answer(self, op: int, data: bytes, checksum: int) -> tuple[int, bytes]:
        """Return value and data of the answer to a request, its status included."""
        self.commands.append(op)
        match op:
            case 0x08:
                is_good = data == b"\x07\x07\x12\x20" + 32 * b"\x55"
                return 0x20120707, self._status(0 if is_good else _INVALID)
            case 0x0A:
                (address,) = struct.unpack("<I", data)
                return self._read(address), self._status()
            case 0x09:
                for at in range(0, len(data), 16):
                    address, value, mask, _ = struct.unpack_from("<4I", data, at)
                    self._write(address, value, mask)
                return 0, self._status()
            case 0x02:
                return 0, self._status(self._begin(data))
            case 0x03:
                return 0, self._status(self._data(data, checksum))
            case 0x13:
                at, size, _, _ = struct.unpack("<4I", data)
                return 0, hashlib.md5(self.flash[at : at + size]).hexdigest().encode() + bytes(4)
            case 0x14:
                about = struct.pack("<IB7sII", self.security, self.crypt_count, bytes(7), 5, 1)
                about = about[:12] + struct.pack("<II", self.chip_id, 1)
                return 0, about + bytes(4)
            case 0x04 | 0x0B | 0x0D | 0x0F:
                return 0, self._status()
            case _:
                return 0, self._status(_INVALID)

    @staticmethod
    def _status(code: int = 0) -> bytes:
        return bytes([1 if code else 0, code, 0, 0])

    def _read(self, address: int) -> int:
        return 0 if address == _SPI_CMD else self.registers.get(address, 0)

    def _write(self, address: int, value: int, mask: int) -> None:
        old = self.registers.get(address, 0)
        self.registers[address] = old & ~mask | value & mask
        if address == _SPI_CMD and value:
            command = self.registers.get(_SPI_USR2, 0) & 0xFF
            self.registers[_SPI_W0] = _JEDEC_ID if command == _READ_ID else 0

    def _begin(self, data: bytes) -> int:
        size, blocks, block_bytes, offset, encrypted = struct.unpack("<5I", data)
        if encrypted or offset % _SECTOR or offset + size > len(self.flash):
            return _FAILED
        if not size:
            return 0
        end = -(-(offset + size) // _SECTOR) * _SECTOR
        self.flash[offset:end] = b"\xff" * (end - offset)
        self._at, self._left, self._next = offset, blocks, 0
        self._block_bytes = block_bytes
        return 0

    def _data(self, data: bytes, checksum: int) -> int:
        size, number, _, _ = struct.unpack_from("<4I", data)
        block = data[16:]
        expected = 0xEF
        for byte in block:
            expected ^= byte
        if size != len(block) or expected != checksum:
            return _CHECKSUM
        if number != self._next or not self._left or size != self._block_bytes:
            return _FAILED
        self.flash[self._at : self._at + size] = bytes(size) if self.is_worn else block
        self._at, self._left, self._next = self._at + size, self._left - 1, number + 1
        return 0


def _frames(connection: socket.socket) -> Iterator[bytes]:
    """Yield the content of each SLIP frame until the other side leaves."""
    frame, inside, escaped = bytearray(), False, False
    while data := connection.recv(65536):
        for byte in data:
            if byte == _END:
                if inside and frame:
                    yield bytes(frame)
                    inside = False
                else:
                    inside = True
                frame.clear()
            elif inside:
                if escaped:
                    frame.append({_ESC_END: _END, _ESC_ESC: _ESC}[byte])
                    escaped = False
                elif byte == _ESC:
                    escaped = True
                else:
                    frame.append(byte)


def _framed(content: bytes) -> bytes:
    escaped = content.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
    return b"\xc0" + escaped + b"\xc0"


def _serve(connection: socket.socket, rom: Rom) -> None:
    for frame in _frames(connection):
        direction, op, size, checksum = struct.unpack_from("<BBHI", frame)
        if rom.is_silent:
            continue
        assert direction == 0
        assert size == len(frame) - 8
        value, data = rom.answer(op, frame[8:], checksum)
        answer = _framed(struct.pack("<BBHI", 1, op, len(data), value) + data)
        # The ROM answers a SYNC eight times.
        connection.sendall(answer * (8 if op == _SYNC else 1))


@contextmanager
def esp_rom() -> Iterator[Rom]:
    """Yield a chip in its loader, at a socket on loopback, one host at a time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        rom = Rom(f"socket://127.0.0.1:{server.getsockname()[1]}")

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        _serve(connection, rom)
                    except OSError:
                        continue

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield rom
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)
