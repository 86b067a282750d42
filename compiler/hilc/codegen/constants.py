"""Constant pool of a model: every array that its layers read, in one struct.

The struct is an object in flash (section ``.rodata.tvm``), or only a layout for memory that the
caller passes to each run; then its bytes are a macro in the header. The values of the object are C
text, or the assembler takes them from a binary file: text is up to five times as long, and a
compiler needs seconds and gigabytes to read that of a large model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hilc.codegen.cwriter import C_TYPES, CONSTANT_ALIGNMENT, c_values, c_wrapped
from hilc.codegen.described import data_file
from hilc.codegen.names import CONSTANT_POOL, Names
from hilc.fusion.call import FusedCall, constant_arrays
from hilc.ir import Array
from hilc.lowering.compressed import CompressedCall
from hilc.lowering.kernels import KernelCall
from hilc.memory.plan import Program

#: Section name that linker scripts written for TVM's code already place.
SECTION = ".rodata.tvm"
#: Size from which ``constants=auto`` writes a binary file. A compiler reads less as text within a
#: second, and folds single values of it into the code, which saves some bytes.
BINARY_BYTES = 1 << 20


@dataclass(frozen=True)
class Constant:
    """Member of the pool: an array ``offset`` bytes from its start."""

    name: str
    array: Array
    offset: int


@dataclass(frozen=True)
class ConstantPool:
    """Constant pool; equal arrays are one member, and the index of a member is its storage id."""

    members: tuple[Constant, ...]

    @property
    def nbytes(self) -> int:
        """Size of the C struct in bytes; 0 without constants (and without struct)."""
        if not self.members:
            return 0
        last = self.members[-1]
        return _align(last.offset + last.array.nbytes)

    @property
    def data(self) -> bytes:
        """Bytes of the struct; padding is 0."""
        image = bytearray(self.nbytes)
        for member in self.members:
            image[member.offset : member.offset + member.array.nbytes] = member.array.tobytes()
        return bytes(image)

    def name(self, array: Array) -> str:
        """Return the name of the member with these values."""
        return self._names[_key(array)]

    @cached_property
    def _names(self) -> dict[tuple[str, bytes], str]:
        return {_key(member.array): member.name for member in self.members}


def pool_constants(program: Program) -> ConstantPool:
    """Return the constants of ``program``, in the order of first use."""
    members: dict[tuple[str, bytes], Constant] = {}
    end = 0
    for name, array in _arrays(program):
        key = _key(array)
        if key not in members:
            members[key] = Constant(name, array, end)
            end = _align(end + array.nbytes)
    return ConstantPool(tuple(members.values()))


def _arrays(program: Program) -> Iterator[tuple[str, Array]]:
    for index, name in enumerate(program.constants):
        data = program.graph.tensors[name].data
        assert data is not None
        yield f"constant_{index}", data
    for index, step in enumerate(program.steps):
        if isinstance(step.call, FusedCall):
            for name, array in constant_arrays(step.call):
                yield f"layer_{index}_{name}", array
        elif isinstance(step.call, KernelCall):
            if isinstance(step.call, CompressedCall):
                yield f"layer_{index}_stream", step.call.stream
            for field, value in step.call.arrays.items():
                yield f"layer_{index}_{field}", value


def _key(array: Array) -> tuple[str, bytes]:
    return array.dtype.name, array.tobytes()


def _align(nbytes: int) -> int:
    return -(-nbytes // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT


def struct_tag(names: Names) -> str:
    """Return the tag of the pool's struct."""
    return f"{names.symbol}_constants"


def is_binary(pool: ConstantPool, constants: str) -> bool:
    """Return whether the pool's values are in a file, with this value of the option
    ``constants``.
    """
    return bool(pool.members) and (
        constants == "binary" or (constants == "auto" and pool.nbytes >= BINARY_BYTES)
    )


def write_pool(pool: ConstantPool, names: Names, constants: str) -> list[str]:
    """Return C that declares the pool's struct and, unless the option ``constants`` is
    ``external``, defines it; empty for an empty pool.

    An external pool is the caller's copy of :attr:`ConstantPool.data`, and a binary one is that of
    :func:`data_file`, so static assertions check the offset of each member.
    """
    if not pool.members:
        return []
    tag = struct_tag(names)
    members = "".join(
        f"    _Alignas({CONSTANT_ALIGNMENT}) "
        f"{C_TYPES[member.array.dtype.name]} {member.name}[{member.array.size}];\n"
        for member in pool.members
    )
    struct = (
        "/* Every constant array of the model; equal ones are there once. */\n"
        f"struct {tag} {{\n{members}}};\n"
    )
    size = f'_Static_assert(sizeof(struct {tag}) == {pool.nbytes}, "size of the constants");\n'
    in_file = is_binary(pool, constants)
    if in_file or constants == "external":
        checks = size + "".join(_place_check(member, tag) for member in pool.members)
        return [struct, checks, *([_binary(pool, names)] if in_file else [])]
    values = "".join(
        f"    .{member.name} = {{\n{c_values(member.array, ' ' * 8)}\n    }},\n"
        for member in pool.members
    )
    return [
        struct,
        size,
        f'__attribute__((section("{SECTION}"), aligned({CONSTANT_ALIGNMENT})))\n'
        f"static const struct {tag} {CONSTANT_POOL} = {{\n{values}}};\n",
    ]


def _binary(pool: ConstantPool, names: Names) -> str:
    """Return the definition of a pool whose values the assembler reads from the binary file."""
    tag, file = struct_tag(names), data_file(names.module)
    lines = [
        f'.pushsection {SECTION}, \\"a\\"',
        f".balign {CONSTANT_ALIGNMENT}",
        f".global {tag}",
        f".hidden {tag}",
        f".type {tag}, %object",
        f"{tag}:",
        f'.incbin \\"{file}\\"',
        f".L{tag}_end:",
        f".org {tag} + {pool.nbytes}",
        f".org .L{tag}_end",
        f".size {tag}, {pool.nbytes}",
        ".popsection",
    ]
    text = "\n".join(f'    "{line}\\n"' for line in lines)
    return (
        f"/* The assembler finds {file} in a folder of -I. With another size than\n"
        f" * {pool.nbytes} bytes, one of the two .org would move backwards, which is an error.\n"
        f" * SHA-256: {hashlib.sha256(pool.data).hexdigest()} */\n"
        f"__asm__(\n{text});\n"
        f'extern const struct {tag} {CONSTANT_POOL} __asm__("{tag}")\n'
        '    __attribute__((visibility("hidden")));\n'
    )


def _place_check(member: Constant, tag: str) -> str:
    place = f"offsetof(struct {tag}, {member.name}) == {member.offset}"
    return c_wrapped("_Static_assert(", [place, f'"place of {member.name}"'], ");\n")
