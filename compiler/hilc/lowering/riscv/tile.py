"""The function of a tile of RV32IM: six or three rows times all columns, emitted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hilc.lowering.riscv.emitted import NAME
from hilc.lowering.riscv.emitter import Function, Moving, Register
from hilc.lowering.riscv.outputs import Output

#: Columns of a tile.
BLOCK = 4
#: Elements of depth of a turn of the loop.
_TURN = 8
#: Bits by which sums lie higher after they are taken out of their words.
SUM_SHIFT = 11
#: Number of functions that are kept for layers with the same tile.
_KEPT = 256


@dataclass(frozen=True)
class Tile:
    """What the emitted function is specialised for."""

    depth: int
    columns: int
    triples: int
    #: Depth after which sums are taken out of their words.
    part: int
    output: Output

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return 3 * self.triples

    @property
    def element_bytes(self) -> int:
        """Bytes of the words of an element."""
        return 8 * self.triples

    @property
    def row_bytes(self) -> int:
        """Bytes of the rows' words."""
        return self.element_bytes * self.depth

    @property
    def form(self) -> str:
        """Form of the variant."""
        return f"{self.rows}_rows"


@lru_cache(_KEPT)
def emit_tile(tile: Tile, name: str = "tile") -> Function:
    """Return the function that multiplies a tile's rows with all columns."""
    parameters = [("rows", "read"), ("weights", "read"), ("scales", "read"), ("out", "write")]
    f = Function(f"{NAME}_{name}", parameters, tile.output.extensions)
    rows, weights, scales, out = f.arguments
    f.save(rows, "rows")
    f.save(scales, "scales")
    f.save(out, "out")
    blocks, left = divmod(tile.columns, BLOCK)
    if blocks > 1:
        f.distance(scales, weights, blocks * tile.depth * BLOCK)
        f.save(scales, "weights_end")
    f.release(scales, out)
    if blocks:
        end = f.address("end")
        f.release(end)
        with _blocks(f, blocks, weights, end):
            _emit_block(f, tile, rows, weights, BLOCK)
    if left:
        _emit_block(f, tile, rows, weights, left)
    return f


class _blocks:
    """Loop over blocks of columns, whose end lies on the stack."""

    def __init__(self, f: Function, times: int, at: Register, end: Register) -> None:
        self._f, self._times, self._end = f, times, end
        self._loop = f.loop(times, at, end)

    def __enter__(self) -> None:
        self._loop.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._times > 1 and error[0] is None:
            self._f.restore(self._end, "weights_end")
        self._loop.__exit__(None, None, None)


def _emit_block(f: Function, tile: Tile, rows: Register, weights: Register, columns: int) -> None:
    """Emit the products of a block of columns, and its outputs."""
    sums = [f.words(f"s{c}_", 2 * tile.triples) for c in range(columns)]
    for begin in range(0, tile.depth, tile.part):
        if begin == 0:
            f.restore(rows, "rows")
        _emit_products(f, tile, rows, weights, sums, min(tile.part, tile.depth - begin))
        if begin + tile.part < tile.depth:
            emit_part(f, tile.output, sums, tile.rows, begin == 0)
    _emit_outputs(f, tile, sums, tile.part < tile.depth)
    for column in sums:
        f.release(*column)


def _emit_products(
    f: Function,
    tile: Tile,
    rows: Register,
    weights: Register,
    sums: list[list[Register]],
    depth: int,
) -> None:
    words = f.words("x", 2 * tile.triples)
    factors = f.words("w", 2)
    products = f.words("t", 2)

    def element(index: int, first: bool = False) -> None:
        for i, word in enumerate(words):
            f.load("lw", word, tile.element_bytes * index + 4 * i, rows)
        f.load("lb", factors[0], BLOCK * index, weights)
        for c, column in enumerate(sums):
            if c + 1 < len(sums):
                f.load("lb", factors[(c + 1) % 2], BLOCK * index + c + 1, weights)
            factor = factors[c % 2]
            if first:
                for word, total in zip(words, column, strict=True):
                    f.operate("mul", total, factor, word)
                continue
            for pair in range(tile.triples):
                for i in range(2):
                    f.operate("mul", products[i], factor, words[2 * pair + i])
                for i in range(2):
                    total = column[2 * pair + i]
                    f.operate("add", total, total, products[i])

    def elements(count: int, first: bool = False) -> None:
        for index in range(count):
            element(index, first and index == 0)
        f.advance(weights, count * BLOCK)
        f.advance(rows, count * tile.element_bytes)

    # The first element begins the sums: what precedes the loop is a turn of it, or what is left.
    turns, left = divmod(depth, _TURN)
    if left == 0:
        turns, left = turns - 1, _TURN
    elements(left, first=True)
    if turns:
        end = f.address("end")
        if turns > 1:
            f.distance(end, rows, turns * _TURN * tile.element_bytes)
        with f.loop(turns, rows, end):
            elements(_TURN)
        f.release(end)
    f.release(*words, *factors, *products)


def emit_sums(
    f: Function, first: Register, second: Register, b: Register, t: Register
) -> list[Register]:
    """Take three sums out of two words; they lie :data:`SUM_SHIFT` bits higher then."""
    f.shift("slli", b, second, 11)
    f.shift("slli", t, b, 10)
    f.operate("sub", first, first, t)
    f.shift("srai", t, b, 11)
    f.operate("sub", second, second, t)
    # The lower 11 bits of C.
    f.shift("srai", second, second, 10)
    f.operate("sub", second, first, second)
    f.shift("slli", second, second, 11)
    f.shift("srai", t, second, 11)
    f.operate("sub", first, first, t)
    return [second, b, first]


def emit_part(
    f: Function, output: Output, sums: list[list[Register]], count: int, first: bool
) -> None:
    """Add ``count`` sums of a part, two words for three, to those on the stack."""
    b, t = f.words("part", 2)
    for c, column in enumerate(sums):
        for pair in range(len(column) // 2):
            values = emit_sums(f, column[2 * pair], column[2 * pair + 1], b, t)
            for i, value in enumerate(values[: count - 3 * pair]):
                emit_lower(f, output, value)
                slot = f"sum{c}_{3 * pair + i}"
                if not first:
                    f.restore(t, slot)
                    f.operate("add", value, value, t)
                f.save(value, slot)
    f.release(b, t)


def emit_lower(f: Function, output: Output, value: Register) -> None:
    """Shift a sum out of its words to the bits by which outputs scale sums."""
    if output.bits < SUM_SHIFT:
        f.shift("srai", value, value, SUM_SHIFT - output.bits)


def _emit_outputs(f: Function, tile: Tile, sums: list[list[Register]], parts: bool) -> None:
    scales, out = f.address("scales"), f.address("out", "write")
    b, t = f.words("o", 2)
    output = tile.output
    scale, constants = output.scale(f), output.constants(f)
    f.restore(scales, "scales")
    f.restore(out, "out")
    address = Moving(f, out, t)
    for c, column in enumerate(sums):
        output.load(f, scale, 4 * output.words * c, scales)
        for pair in range(tile.triples):
            values = emit_sums(f, column[2 * pair], column[2 * pair + 1], b, t)
            for i, value in enumerate(values):
                row = 3 * pair + i
                emit_lower(f, output, value)
                if parts:
                    f.restore(t, f"sum{c}_{row}")
                    f.operate("add", value, value, t)
                output.emit(f, value, scale, constants, t)
                f.store_byte(value, address.reach(row * tile.columns + c), out)
    f.advance(scales, 4 * output.words * BLOCK)
    address.move(BLOCK)
    f.save(scales, "scales")
    f.save(out, "out")
    f.release(scales, out, b, t, *scale, *constants)
