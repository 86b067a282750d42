"""Runs C kernels, many cases in one program: on the host under the address and UB sanitizers, or on
an emulated board.

A :class:`Case` is a kernel call as an operator's ``emit`` returns it, with arrays to call it on::

    (out,), (other,) = run([Case(call, [x], [((1, 4, 4, 8), "int8")]), Case(...)])

The cases are data that the program reads (``tests/c/kernels``), so there is one body a kernel,
unless a case asks for one of its own. Each case runs several times, its arrays elsewhere and
other bytes around them and in its scratch: the results must be the same. On the host every block
of memory is one of the heap's, of exactly its size; int8 tensors start at odd addresses, so that
the sanitizer sees a word access that a core without unaligned loads would fault on. On a board,
which runs the assembly too, the memory protection unit closes what is around a block, and what it
cannot close is looked at afterwards.
"""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np
from c_parameters import c_parameters

from hil.board import Board
from hil.board.machine import machine_words
from hilc.ir import Array, Node, Tensor
from hilc.lowering import candidates
from hilc.lowering.fields import FieldValue
from hilc.lowering.kernels import Kernel, KernelCall, registered_header
from hilc.support.resources import data_dir
from hilc.target import get_cpu

SOURCES = Path(__file__).parents[2] / "c" / "kernels"
PATIENCE_S = 280

WARNINGS = (
    "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes",
    "-Wdouble-promotion", "-Werror",
)  # fmt: skip
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")
#: As the firmware compiles models.
BOARD_FLAGS = (
    *("-O2", "-fno-delete-null-pointer-checks"),
    *("-g1", "-fno-common", "-ffunction-sections", "-Wl,--gc-sections"),
)

#: Scratch and constant arrays start at a multiple of this, as :mod:`hilc.lowering.kernels`
#: promises.
_ALIGNMENT = 4
#: Between constant arrays in one block.
_GAP = 16
_HOST_BLOCKS = 64
#: What the memory protection unit has regions for beside code and data of the program itself.
_BOARD_BLOCKS = {
    "armv6-m": 6,  # large-m0.toml, which QEMU runs on a Cortex-M3
    "armv7-m": 6,
    "armv7e-m": 6,
    "armv8-m.main": 14,
    "armv8.1-m.main": 14,
    "rv32imac": 12,
    "rv32imafc": 12,
    "rv32imac_zbb": 12,
    "rv32imac_zve32x": 12,
    "rv32imc_xpulp": 12,
}

_NO_ARRAY = 0xFFFFFFFF
# Roles of pieces, kinds of fields and of reports as in cases.h and cases.c.
_GIVEN, _GIVEN_AND_CHANGED, _RESULT, _SCRATCH = range(4)
_FINE, _WROTE_OUTSIDE, _CHANGED_ITS_INPUT, _NOT_REPEATABLE, _FAULTED, _MALFORMED = range(6)
_REPORT = struct.Struct("<3Ii2I")


def kernel_call(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: str = "host"
) -> KernelCall:
    """The kernel that computes ``node`` on ``cpu`` by default."""
    call = candidates(node, ins, outs, get_cpu(cpu))[0]
    assert isinstance(call, KernelCall)
    return call


@dataclass(frozen=True)
class Case:
    """One call: the arrays of the kernel's tensor arguments, shape and dtype of each output."""

    call: KernelCall
    inputs: Sequence[Array]
    outputs: Sequence[tuple[tuple[int, ...], str]]
    _: KW_ONLY
    #: Position of the kernel argument whose memory the first output takes; None for its own.
    in_place: int | None = None
    #: Bytes from the start of that argument to the start of the output, in a block of both.
    difference: int = 0
    #: Compile the kernel for this case alone, as a layer of its own is, not one body for all.
    specialise: bool = False
    #: What is told of it beside its kernel when it fails.
    told: str = ""

    def __str__(self) -> str:
        return f"{self.call.kernel.name}: {self.told}"


def run(
    cases: Sequence[Case],
    *,
    board: Board | None = None,
    flags: Sequence[str] | None = None,
    include: Path | None = None,
) -> list[list[Array]]:
    """The outputs of each case. A sanitizer's report, a fault, a compiler warning, a byte written
    outside and a result that depends on one fail the test.

    ``include`` is a folder whose headers are found before the run time's.
    """
    if flags is None:
        flags = ("-O0", *SANITIZERS) if board is None else BOARD_FLAGS
    with tempfile.TemporaryDirectory(prefix="hil-kernels-") as name:
        folder = Path(name)
        blocks = _HOST_BLOCKS if board is None else _BOARD_BLOCKS[board.cpu.arch]
        table = _Table(cases)
        records = [_Record(i, case, table, blocks) for i, case in enumerate(cases)]
        packed = [record.packed() for record in records]
        (folder / "inputs").write_bytes(b"".join(packed))
        (folder / "table.c").write_text(table.text(), encoding="utf-8")
        limits = {
            "RECORD_BYTES": max(map(len, packed)),
            "RESULT_BYTES": max(sum(map(_size, case.outputs)) for case in cases),
            "PARAMETER_BYTES": 1024,
            "BLOCKS_MAX": blocks,
            "TENSORS_MAX": max(max(len(case.inputs), len(case.outputs)) for case in cases),
        }
        for header in {case.call.kernel.header for case in cases}:
            if (emitted := registered_header(header)) is not None:
                path = folder / "emitted" / header
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(emitted, encoding="utf-8")
        folders = [
            *([include] if include else []),
            folder / "emitted",
            data_dir("runtime") / "include",
            SOURCES,
        ]
        command: list[str | Path] = [
            *WARNINGS, *flags, *(f"-I{path}" for path in folders),
            *(f"-D{name}={value}" for name, value in limits.items()),
            "table.c", SOURCES / "cases.c",
        ]  # fmt: skip
        if board is None:
            _checked([compiler(), *command, SOURCES / "host.c", "-lm", "-o", "cases"], folder)
            done = _run(["./cases"], folder)
        else:
            _checked(_linked(board, command), folder)
            done = _run(_emulated(board), folder)
        outputs = folder / "outputs"
        found = outputs.read_bytes() if outputs.exists() else b""
        ended = f"{done.args} returned {done.returncode}\n{done.stderr[:8000]}"
        results = _split(found, cases, records, folder, ended)
        assert done.returncode == 0, ended
        return results


@functools.cache
def compiler() -> str:
    """The host C compiler."""
    for name in ("gcc", "clang", "cc"):
        if path := shutil.which(name):
            return path
    raise RuntimeError("no host C compiler found; install gcc or clang")


def _run(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _checked(command: Sequence[str | Path], folder: Path) -> None:
    done = _run(command, folder)
    assert done.returncode == 0, f"{command[0]} returned {done.returncode}\n{done.stderr[:8000]}"


# On a board --------------------------------------------------------------------------------------


def _linked(board: Board, command: Sequence[str | Path]) -> list[str | Path]:
    """What compiles the program: blocks in the largest of its memories, or in a half of the only
    one."""
    code = next(region for region in board.memory if region.kind == "flash")
    data, *others = (region for region in board.memory if region.kind == "ram")
    data_bytes = data.size if others else data.size // 2
    places = {
        "CODE_ORIGIN": code.origin,
        "CODE_BYTES": code.size,
        "DATA_ORIGIN": data.origin,
        "DATA_BYTES": data_bytes,
        "BLOCKS_ORIGIN": others[0].origin if others else data.origin + data_bytes,
        "BLOCKS_BYTES": others[0].size if others else data_bytes,
    }
    toolchain = board.cpu.toolchain
    return [
        toolchain.program("gcc"), *board.cpu.cflags, *toolchain.c_flags, *command,
        SOURCES / "board.c", SOURCES / f"board_{toolchain.isa}.c",
        *(f"-D{name}={value:#x}U" for name, value in places.items()),
        *(f"-Wl,--defsym={name}={value:#x}" for name, value in places.items()),
        "-nostartfiles", "-Wl,--fatal-warnings", "-T", SOURCES / "board.ld", "-lm", "-o", "cases",
    ]  # fmt: skip


def _emulated(board: Board) -> list[str | Path]:
    assert board.qemu is not None
    return [
        *machine_words(board), "-kernel", "cases",
        "-display", "none", "-serial", "none", "-monitor", "none",
        "-semihosting-config", "enable=on,target=native",
    ]  # fmt: skip


# What the program reads --------------------------------------------------------------------------


def _fields_of(call: KernelCall) -> dict[str, str]:
    """How the parameter struct's table describes each field: its macro."""
    macros = {}
    for name, value in call.fields.items():
        if isinstance(value, np.ndarray):
            macros[name] = "POINTER"
        else:
            macros[name] = "NUMBERS" if isinstance(value, tuple) else "NUMBER"
    return macros


class _Table:
    """The kernels of some cases, as the program calls them."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._bodies: list[str] = []
        self._entries: list[str] = []
        self._headers: set[str] = set()
        #: Fields of each entry, in the order in which a case states them.
        self.fields: list[dict[str, str]] = []
        self._shared: dict[str, int] = {}
        shared: dict[str, dict[str, str]] = {}
        for case in cases:
            if not case.specialise:
                own = shared.setdefault(case.call.kernel.name, {})
                for name, macro in _fields_of(case.call).items():
                    # A pointer that is null is a number here.
                    own[name] = "POINTER" if own.get(name) == "POINTER" else macro
        for case in cases:
            kernel = case.call.kernel
            if not case.specialise and kernel.name not in self._shared:
                self._shared[kernel.name] = self._add(kernel, shared[kernel.name])
        self._own = {
            i: self._add(case.call.kernel, {}, case.call)
            for i, case in enumerate(cases)
            if case.specialise
        }

    def index(self, position: int, case: Case) -> int:
        """The entry that the case at ``position`` calls."""
        return self._own[position] if case.specialise else self._shared[case.call.kernel.name]

    def text(self) -> str:
        includes = "".join(f'#include "{header}"\n' for header in sorted(self._headers))
        entries = "".join(f"    {entry},\n" for entry in self._entries)
        return (
            f'#include "cases.h"\n\n{includes}\n{"".join(self._bodies)}'
            f"const struct kernel kernels[] = {{\n{entries}}};\n"
        )

    def _add(self, kernel: Kernel, fields: dict[str, str], own: KernelCall | None = None) -> int:
        index = len(self._entries)
        self._headers.add(kernel.header)
        parameters = f"const struct {kernel.name} *const parameters = p;"
        if own is not None:
            self._bodies.append(c_parameters(kernel.name, f"own_{index}", own.fields))
            parameters = f"const struct {kernel.name} *const parameters = &own_{index};"
        arguments = ["parameters"]
        for types, const, name in ((kernel.inputs, "const ", "in"), (kernel.outputs, "", "out")):
            several = [f"({const}{each[:-2]} *const *){name}" for each in types if each[-1] == "]"]
            arguments += several or [f"{name}[{i}]" for i in range(len(types))]
        arguments += [] if kernel.scratch == "0" else ["scratch"]
        self._bodies.append(
            f"static void call_{index}(const void *p, const void *const *in, void *const *out, "
            "void *scratch) {\n"
            f"    {parameters}\n"
            f"    (void){kernel.name}({', '.join(arguments)});\n"
            "    (void)p, (void)in, (void)out, (void)scratch;\n}\n\n"
        )
        table = "NULL"
        if fields:
            table = f"fields_{index}"
            rows = "".join(
                f"    {macro}(struct {kernel.name}, {name}),\n" for name, macro in fields.items()
            )
            self._bodies.append(f"static const struct field {table}[] = {{\n{rows}}};\n\n")
        self._entries.append(f"{{call_{index}, {table}, {len(fields)}}}")
        self.fields.append(fields)
        return index


class _Record:
    """A case as the program reads it: blocks of memory, and pieces of them."""

    def __init__(self, position: int, case: Case, table: _Table, blocks_max: int) -> None:
        self._case = case
        self._entry = table.index(position, case)
        self._fields = table.fields[self._entry]
        self._blocks: list[tuple[int, int]] = []
        self._pieces: list[tuple[int, int, int, int]] = []
        #: What each piece is.
        self.pieces: list[str] = []
        self._data: list[bytes] = []
        self._arrays: dict[str, int] = {}
        self._add_tensors(blocks_max)
        if case.call.kernel.scratch != "0":
            self._add_alone("scratch", case.call.scratch_bytes, _ALIGNMENT, _SCRATCH)
        self._add_constants(position, blocks_max)
        assert len(self._blocks) <= blocks_max, f"{case}: no memory protection for so many arrays"

    def block(self, index: int) -> str:
        """What is in a block."""
        names = [
            n for n, (block, *_) in zip(self.pieces, self._pieces, strict=True) if block == index
        ]
        return f"{' and '.join(names)} ({self._blocks[index][0]} bytes)"

    def packed(self) -> bytes:
        words = [self._entry, len(self._blocks), len(self._pieces)]
        words += [len(self._case.inputs), len(self._case.outputs)]
        words += [word for entry in (*self._blocks, *self._pieces) for word in entry]
        parts = [np.array(words, "<u4").tobytes(), *self._field_values(), *self._data]
        data = b"".join(parts)
        return struct.pack("<I", len(data)) + data

    def _add_tensors(self, blocks_max: int) -> None:
        """Each tensor in a block, but for a layer of so many that inputs have to share one."""
        case = self._case
        others = (case.call.kernel.scratch != "0") + bool(self._constants())
        alone = len(case.inputs) + len(case.outputs) + others <= blocks_max
        together = -1
        results = [(_size(out), np.dtype(out[1]).itemsize) for out in case.outputs]
        below = max(0, -case.difference)
        shared = -1
        for i, x in enumerate(case.inputs):
            name = f"input {i}"
            self._data.append(x.tobytes())
            if i == case.in_place:
                shared = len(self._blocks)
                both = below + max(x.nbytes, case.difference + results[0][0])
                self._blocks.append((both, max(x.itemsize, results[0][1])))
                self._add_piece(name, shared, below, x.nbytes, _GIVEN_AND_CHANGED)
            elif not alone and x.nbytes:
                if together < 0:
                    together = len(self._blocks)
                    self._blocks.append((0, _ALIGNMENT))
                self._append_piece(name, together, x.nbytes)
            else:
                self._add_alone(name, x.nbytes, x.itemsize, _GIVEN)
        for i, (size, itemsize) in enumerate(results):
            if i == 0 and shared >= 0:
                self._add_piece(f"output {i}", shared, below + case.difference, size, _RESULT)
            else:
                self._add_alone(f"output {i}", size, itemsize, _RESULT)

    def _add_alone(self, name: str, size: int, alignment: int, role: int) -> None:
        self._add_piece(name, len(self._blocks), 0, size, role)
        self._blocks.append((size, alignment))

    def _add_piece(self, name: str, block: int, offset: int, size: int, role: int) -> None:
        self.pieces.append(name)
        self._pieces.append((block, offset, size, role))

    def _constants(self) -> list[tuple[str, Array]]:
        return [
            (name, value)
            for name, value in self._case.call.fields.items()
            if isinstance(value, np.ndarray) and name in self._fields
        ]

    def _append_piece(self, name: str, block: int, size: int) -> None:
        """Add a piece that is given to a block of several."""
        end = self._blocks[block][0]
        start = -(-end // _ALIGNMENT) * _ALIGNMENT + (_GAP if end else 0)
        self._add_piece(name, block, start, size, _GIVEN)
        self._blocks[block] = (start + size, _ALIGNMENT)

    def _add_constants(self, turn: int, blocks_max: int) -> None:
        """Each array of the parameters in a block, as far as there are enough, the others in one;
        which, changes from case to case."""
        constants = self._constants()
        turn %= max(len(constants), 1)
        shared = False
        for name, value in constants[turn:] + constants[:turn]:
            self._arrays[name] = len(self._pieces)
            self._data.append(value.tobytes())
            if (
                len(self._blocks) + 1 < blocks_max
                or len(constants) == len(self._arrays)
                and not shared
            ):
                self._add_alone(name, value.nbytes, _ALIGNMENT, _GIVEN)
                continue
            if not shared:
                shared = True
                self._blocks.append((0, _ALIGNMENT))
            self._append_piece(name, len(self._blocks) - 1, value.nbytes)

    def _field_values(self) -> Iterator[bytes]:
        fields = self._case.call.fields
        for name, macro in self._fields.items():
            assert name in fields, f"{self._case}: lacks {name}, which others of its kernel have"
            value = fields[name]
            if isinstance(value, np.ndarray):
                yield struct.pack("<II", self._arrays[name], value.itemsize)
            elif macro == "POINTER":
                assert value == 0, f"{self._case}: {name}={value}"
                yield struct.pack("<II", _NO_ARRAY, 0)
            else:
                numbers = value if isinstance(value, tuple) else (value,)
                yield b"".join(map(_packed_number, numbers))


def _packed_number(value: FieldValue) -> bytes:
    assert not isinstance(value, (np.ndarray, tuple))
    if isinstance(value, (float, np.floating)):
        return struct.pack("<d", value)
    return struct.pack("<q", int(value))


# What the program found --------------------------------------------------------------------------


def _size(output: tuple[tuple[int, ...], str]) -> int:
    shape, dtype = output
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


def _split(
    data: bytes, cases: Sequence[Case], records: Sequence[_Record], folder: Path, ended: str
) -> list[list[Array]]:
    results: list[list[Array]] = []
    position = 0
    for case, record in zip(cases, records, strict=True):
        report = data[position : position + _REPORT.size]
        assert len(report) == _REPORT.size, f"{case}\n{ended}"
        kind, *rest = _REPORT.unpack(report)
        assert kind == _FINE, f"{case}\n{_told(record, kind, *rest, folder=folder)}"
        position += _REPORT.size
        arrays = []
        for shape, dtype in case.outputs:
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(data, dtype, count, position).reshape(shape))
            position += arrays[-1].nbytes
        results.append(arrays)
    assert position == len(data)
    return results


def _told(
    record: _Record,
    kind: int,
    turn: int,
    where: int,
    offset: int,
    status: int,
    instruction: int,
    *,
    folder: Path,
) -> str:
    """A report in words."""
    if kind == _WROTE_OUTSIDE:
        return f"wrote outside: byte {offset} of {record.block(where)}, run {turn}"
    if kind == _CHANGED_ITS_INPUT:
        return f"changed byte {offset} of {record.pieces[where]}, run {turn}"
    if kind == _NOT_REPEATABLE:
        return (
            f"byte {offset} of {record.pieces[where]} depends on where arrays lie, on what is "
            f"around them or in the scratch: run {turn} gave another one"
        )
    if kind == _FAULTED:
        where_to = "no block" if where == _NO_ARRAY else f"byte {offset} of {record.block(where)}"
        place = _run(["arm-none-eabi-addr2line", "-pfie", "cases", hex(instruction)], folder).stdout
        return f"fault at {where_to}, run {turn}, status {status:#x}, in {place}"
    return "is not as the program expects it"
