"""Reading TVM's metadata at an address: what a module says, and what none can have said."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from hilc.compat.tvm.metadata import (
    Metadata,
    MetadataConstant,
    MetadataTensor,
    dtype_name,
    read_metadata,
)
from hilc.errors import InputError


class Memory:
    """The structs of TVM's interface, written word by word: each field has 8 bytes on a host."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def words(self, *words: int) -> int:
        """The address of these 8-byte words."""
        array = (ctypes.c_uint64 * max(len(words), 1))(*(word % (1 << 64) for word in words))
        self._kept.append(array)
        return ctypes.addressof(array)

    def text(self, text: bytes) -> int:
        buffer = ctypes.create_string_buffer(text)
        self._kept.append(buffer)
        return ctypes.addressof(buffer)

    def tensor(self, name: int, shape: int, ndim: int, code: int, bits: int, lanes: int) -> int:
        return self.words(name, shape, ndim, code | bits << 8 | lanes << 16)

    def metadata(self, **fields: int) -> int:
        """One input of two axes, one scalar output, a pool and a constant; or other ``fields``."""
        tensor = self.tensor(self.text(b"x"), self.words(2, 3), 2, 0, 8, 1)
        scalar = self.tensor(self.text(b"output0"), 0, 0, 2, 32, 1)
        pool = self.tensor(self.text(b"global_workspace"), self.words(64), 1, 1, 8, 1)
        constant = self.words(self.text(b"weights"), 48, 12, self.words(0))
        words = {
            "version": 1,
            "inputs": tensor,
            "num_inputs": 1,
            "outputs": scalar,
            "num_outputs": 1,
            "workspace_pools": pool,
            "num_workspace_pools": 1,
            "constant_pools": constant,
            "num_constant_pools": 1,
            "mod_name": self.text(b"tvmgen_net"),
            **fields,
        }
        return self.words(*words.values())


def test_everything_is_read() -> None:
    memory = Memory()
    assert read_metadata(memory.metadata()) == Metadata(
        1,
        "tvmgen_net",
        (MetadataTensor("x", (2, 3), "int8"),),
        (MetadataTensor("output0", (), "float32"),),
        (MetadataTensor("global_workspace", (64,), "uint8"),),
        (MetadataConstant("weights", 48, 12),),
    )


def test_lists_may_be_empty() -> None:
    memory = Memory()
    lists = ("inputs", "outputs", "workspace_pools", "constant_pools")
    nothing = {name: 0 for field in lists for name in (field, f"num_{field}")}
    assert read_metadata(memory.metadata(**nothing)) == Metadata(1, "tvmgen_net", (), (), (), ())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 2}, "have version 2; supported is 1"),
        ({"version": -1}, "have version -1"),
        ({"num_inputs": -1}, "have -1 inputs"),
        ({"num_outputs": 1 << 40}, "have 1099511627776 outputs"),
        ({"workspace_pools": 0}, "have 1 workspace_pools at 0x0"),
        ({"constant_pools": 0}, "have 1 constant_pools at 0x0"),
        ({"mod_name": 0}, r"null pointer as a name \(mod_name\)"),
    ],
)
def test_what_no_module_says(fields: dict[str, int], message: str) -> None:
    memory = Memory()
    with pytest.raises(InputError, match=message):
        read_metadata(memory.metadata(**fields))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ((0, 0, 0, 0, 8, 1), r"null pointer as a name \(inputs\)"),
        ((None, 0, 2, 0, 8, 1), "give 'x' 2 dimensions"),
        ((None, 0, 65, 0, 8, 1), "give 'x' 65 dimensions"),
        ((None, 0, -1, 0, 8, 1), "give 'x' -1 dimensions"),
        ((None, 0, 0, 9, 8, 1), r"\{9, 8, 1\} is not a DLPack type"),
        ((None, 0, 0, 0, 0, 1), r"\{0, 0, 1\} is not a DLPack type"),
        ((None, 0, 0, 0, 8, 0), r"\{0, 8, 0\} is not a DLPack type"),
    ],
)
def test_tensors_that_cannot_be(tensor: tuple[int | None, ...], message: str) -> None:
    memory = Memory()
    name, *rest = (memory.text(b"x") if word is None else word for word in tensor)
    with pytest.raises(InputError, match=message):
        read_metadata(memory.metadata(inputs=memory.tensor(name, *rest)))


def test_a_name_ends() -> None:
    memory = Memory()
    with pytest.raises(InputError, match="an unterminated name"):
        read_metadata(memory.metadata(mod_name=memory.text(b"x" * 5000)))
    assert read_metadata(memory.metadata(mod_name=memory.text(b"\xff"))).mod_name == "\ufffd"


def test_nothing_lies_at_a_null_pointer() -> None:
    with pytest.raises(InputError, match="null pointer"):
        read_metadata(0)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ((0, 8, 1), "int8"),
        ((1, 1, 1), "bool"),
        ((1, 8, 1), "uint8"),
        ((2, 32, 1), "float32"),
        ((4, 16, 1), "bfloat16"),
        ((2, 32, 4), "float32x4"),
    ],
)
def test_types(fields: tuple[int, int, int], name: str) -> None:
    assert dtype_name(*fields) == name
