"""Where an image says that its models' tensors lie."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from construct import Int32ul

from hil.errors import LinkError
from hil.link import bulk
from hil.link.bulk import Bulk, TensorTable
from hil.link.protocol import Tensors
from hil.link.tensors import TensorRef

BASE, OTHER = 0x8000, 0x20000


def table(*segments: tuple[int, bytes]) -> TensorTable:
    made: Any = object.__new__(TensorTable)
    made._image = [SimpleNamespace(address=at, data=data) for at, data in segments]
    made._models, made._found = BASE, {}
    return made  # type: ignore[no-any-return]


def test_constant_data_is_found_at_every_address() -> None:
    data = bytes(range(1, 41))
    made = table((BASE, data[:20]), (OTHER, data[20:]))
    for start, part in ((BASE, data[:20]), (OTHER, data[20:])):
        for at in range(-6, 26):
            if 0 <= at <= 16:
                assert made._bytes(start + at, Int32ul) == part[at : at + 4]
            else:
                with pytest.raises(LinkError, match=f"points to {start + at:#010x}, outside"):
                    made._bytes(start + at, Int32ul)


def image() -> bytes:
    """Two models: one of two inputs, an output and two layers of one and two outputs; an empty one.

    A tensor's address is a million and its number, and it has ten bytes and its number.
    """
    words: dict[int, bytes] = {0: struct.pack("<2I", BASE + 0x10, BASE + 0x30)}

    def tensors(at: int, first: int, count: int) -> int:
        for number in range(first, first + count):
            place = at + 20 * (number - first)
            words[place] = struct.pack("<5I", 0, 0, 1_000_000 + number, 10 + number, 0)
        return BASE + at

    inputs, output = tensors(0x100, 0, 2), tensors(0x180, 2, 1)
    first, second = tensors(0x200, 3, 1), tensors(0x280, 4, 2)
    words[0x300] = struct.pack("<3IB3x", 0, first, 0, 1) + struct.pack("<3IB3x", 0, second, 0, 2)
    words[0x10] = struct.pack("<6IHBB", 0, inputs, output, BASE + 0x300, 0, 0, 2, 2, 1)
    words[0x30] = bytes(28)
    data = bytearray(0x400)
    for at, part in words.items():
        data[at : at + len(part)] = part
    return bytes(data)


def test_each_tensor_is_where_its_models_table_says() -> None:
    made = table((BASE, image()))
    known = [
        TensorRef(0, Tensors.INPUT, 0),
        TensorRef(0, Tensors.INPUT, 1),
        TensorRef(0, Tensors.OUTPUT, 0),
        TensorRef(0, Tensors.LAYER_OUTPUT, 0, 0),
        TensorRef(0, Tensors.LAYER_OUTPUT, 0, 1),
        TensorRef(0, Tensors.LAYER_OUTPUT, 1, 1),
    ]
    for number, ref in enumerate(known):
        for _ in range(2):
            assert made.address(ref, 10 + number) == 1_000_000 + number
        assert made.address(ref, 11 + number) is None
    for ref in (
        TensorRef(0, Tensors.INPUT, 2),
        TensorRef(0, Tensors.OUTPUT, 1),
        TensorRef(0, Tensors.LAYER_OUTPUT, 1, 0),
        TensorRef(0, Tensors.LAYER_OUTPUT, 2, 1),
        TensorRef(0, Tensors.LAYER_OUTPUT, 0, 2),
        TensorRef(0, Tensors.STATE, 0),
        TensorRef(1, Tensors.INPUT, 0),
    ):
        assert made.address(ref, 0) is None, ref


# -- access ----------------------------------------------------------------------------------------


class Board:
    """A memory of a hundred bytes at 1000, which the firmware sees, or sees others."""

    def __init__(self, sees: int = 0) -> None:
        self.memory = bytearray(100)
        self._sees = sees
        self.checked = 0
        self.by_line: list[int] = []

    def read(self, address: int, nbytes: int) -> bytes:
        return bytes(self.memory[address - 1000 :][:nbytes])

    def write(self, address: int, data: bytes) -> None:
        self.memory[address - 1000 : address - 1000 + len(data)] = data

    def read_by_line(self, tensor: TensorRef, nbytes: int) -> bytes:
        self.by_line.append(nbytes)
        return bytes(byte ^ self._sees for byte in self.memory[:nbytes])

    def check(self) -> None:
        self.checked += 1


X = TensorRef(0, Tensors.INPUT, 0)


def access(board: Board, address: int = 1000, *, demanded: bool = False) -> Bulk:
    made = object.__new__(Bulk)
    made._memory = board
    made._tensors = SimpleNamespace(address=lambda tensor, nbytes: address)  # type: ignore[assignment]
    region: Any = SimpleNamespace(name="ram", origin=1000, end=1100)
    made._regions, made._is_demanded = [region], demanded
    made._writable, made._readable = set(), set()
    return made


def test_a_region_is_proven_once() -> None:
    board = Board()
    made = access(board)
    assert made.write(board, X, bytes(range(40)))
    assert board.memory[:40] == bytes(range(40))
    assert (board.by_line, board.checked) == ([40], 1)
    assert made.write(board, X, bytes(40))
    assert made.read(board, X, 40) == bytes(40)
    assert (board.by_line, board.checked) == ([40], 3)


def test_reading_proves_a_region_unless_all_equal() -> None:
    board = Board()
    made = access(board)
    assert made.read(board, X, 8) == bytes(8)
    assert made.read(board, X, 8) == bytes(8)
    assert board.by_line == [8, 8]
    board.memory[3] = 5
    assert made.read(board, X, 8) == bytes((0, 0, 0, 5, 0, 0, 0, 0))
    assert made.read(board, X, 8) == bytes((0, 0, 0, 5, 0, 0, 0, 0))
    assert (board.by_line, board.checked) == ([8, 8, 8], 1)


def test_equal_bytes_of_a_part_are_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_PROOF_BYTES", 4)
    board = Board()
    made = access(board)
    assert made.read(board, X, 8) is None
    assert made.read(board, X, 4) == bytes(4)
    assert board.by_line == [4, 4]


@pytest.mark.parametrize("transfer", ["read", "write"])
def test_memory_seen_otherwise_is_not_used(transfer: str) -> None:
    def use(made: Bulk, board: Board) -> object:
        return made.read(board, X, 8) if transfer == "read" else made.write(board, X, bytes(8))

    board = Board(sees=1)
    made = access(board)
    assert made.is_used
    assert not use(made, board)
    assert not made.is_used
    assert not use(made, board)
    assert len(board.by_line) == 1
    with pytest.raises(LinkError, match="drop --bulk"):
        use(access(board, demanded=True), board)


def test_tensors_outside_of_every_region_use_the_line() -> None:
    for address, nbytes, is_inside in (
        (1000, 100, True), (1099, 1, True), (999, 1, False), (1000, 101, False), (1100, 1, False),
        (1000, 0, False),
    ):  # fmt: skip
        board = Board()
        place = access(board, address)._place(X, nbytes)
        assert place == ((address, "ram") if is_inside else None)
        if not is_inside:
            assert access(board, address).read(board, X, nbytes) is None
            assert not access(board, address).write(board, X, bytes(nbytes))
