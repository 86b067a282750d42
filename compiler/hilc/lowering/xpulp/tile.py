"""Functions of CV32E40P's products of four: a tile, and the copies of rows before it."""

from __future__ import annotations

from dataclasses import dataclass

from hilc.lowering.riscv.emitted import NAME
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, Function, Moving, Register
from hilc.lowering.riscv.linear import Runs
from hilc.lowering.riscv.outputs import Output

#: Rows and columns of a tile; bytes of a word, and words of a turn of the loop.
ROWS, BLOCK, WORD, _TURN = 4, 4, 4, 4
#: Columns of a tile of a single row: they share the load of its word.
SINGLE_ROW_BLOCK = 8
#: Words that a turn of the copy takes.
_COPIED = 8
#: Fields of the instructions: opcode, kind, function.
_DOTSP, _SDOTSP = (0x7B, 1, 0x48), (0x7B, 1, 0x54)


@dataclass(frozen=True)
class Tile:
    """What the emitted function is specialised for."""

    depth: int
    columns: int
    rows: int
    runs: Runs
    output: Output
    #: Columns whose weights lie next to each other.
    block: int = BLOCK

    @property
    def run_words(self) -> int:
        """Words of a run."""
        return -(-self.runs.bytes // WORD)

    @property
    def words(self) -> int:
        """Words of a row."""
        return self.runs.count * self.run_words

    @property
    def name(self) -> str:
        """Name of the function."""
        return f"{NAME}_tile{self.rows}"

    @property
    def reaches(self) -> bool:
        """Whether offsets reach all rows of the tile from the first."""
        return (self.rows - 1) * self.runs.step + WORD * _TURN <= LARGEST_OFFSET

    @property
    def form(self) -> str:
        """Form of the variant."""
        return f"{self.rows}_row{'s' if self.rows > 1 else ''}"


def emit_copy(tile: Tile) -> Function:
    """Return the function that copies a row; the core loads words from any address."""
    f = Function(f"{NAME}_copy", [("from", "read"), ("to", "write")], xpulp=True)
    source, to = f.arguments
    words, rest = divmod(tile.depth, WORD)
    turns, left = divmod(words, _COPIED)
    end, values = f.address("end"), f.words("x", 2)

    def copy(count: int) -> None:
        for index in range(count):
            f.load("lw", values[index % 2], WORD * index, source)
            f.store_word(values[index % 2], WORD * index, to)
        f.advance(source, WORD * count)
        f.advance(to, WORD * count)

    if turns:
        if turns > 1:
            f.distance(end, source, turns * _COPIED * WORD)
        with f.loop(turns, source, end):
            copy(_COPIED)
    copy(left)
    for index in range(rest):
        f.load("lb", values[0], index, source)
        f.store_byte(values[0], index, to)
    return f


def emit_gathered_copy() -> Function:
    """Return the function that copies bytes; the core loads words from any address."""
    parameters = [("from", "read"), ("to", "write"), ("bytes", "word")]
    f = Function(f"{NAME}_copy", parameters, xpulp=True)
    source, to, count = f.arguments
    end, value = f.address("end"), f.word("x")
    for kind, size in (("lw", WORD), ("lb", 1)):
        # The whole words, then what is left.
        rest = f.word("rest")
        if kind == "lw":
            f.mask(rest, count, -WORD)
            f.operate("sub", count, count, rest)
        else:
            f.move(rest, count)
        f.move(end, source)
        f.add_to(end, rest)
        f.release(rest)
        with f.skip_if_equal(source, end), f.loop(1, source, end, always=True):
            f.load(kind, value, 0, source)
            f.advance(source, size)
            if kind == "lw":
                f.store_word(value, 0, to)
            else:
                f.store_byte(value, 0, to)
            f.advance(to, size)
    return f


def emit_tile(tile: Tile) -> Function:
    """Return the function that multiplies a tile's rows with all columns."""
    parameters = [("rows", "read"), ("weights", "read"), ("scales", "read"), ("out", "write")]
    f = Function(tile.name, parameters, xpulp=True)
    rows, weights, scales, out = f.arguments
    f.save(scales, "scales")
    f.save(out, "out")
    blocks, left = divmod(tile.columns, tile.block)
    if blocks > 1:
        f.distance(scales, weights, blocks * tile.words * WORD * tile.block)
        f.save(scales, "weights_end")
    f.release(scales, out)
    others = [f.address(f"row{r}") for r in range(1, tile.rows) if not tile.reaches]
    bases = [rows, *others]
    for r, base in enumerate(others, start=1):
        f.distance(base, rows, r * tile.runs.step)
    if blocks:
        end = f.address("end")
        f.release(end)
        with f.loop(blocks, weights, end):
            _emit_block(f, tile, bases, weights, tile.block)
            if blocks > 1:
                f.restore(end, "weights_end")
    if left:
        _emit_block(f, tile, bases, weights, left)
    return f


def _emit_block(
    f: Function, tile: Tile, bases: list[Register], weights: Register, columns: int
) -> None:
    sums = [[f.word(f"s{r}_{c}") for c in range(columns)] for r in range(tile.rows)]
    x, w = f.words("x", tile.rows), f.words("w", 2)

    runs = tile.runs

    def words(count: int, first: bool, by: int) -> None:
        for index in range(count):
            for r, value in enumerate(x):
                base, offset = (bases[r], 0) if len(bases) > 1 else (bases[0], r * runs.step)
                f.load("lw", value, offset + WORD * index, base)
            # A word that was just loaded would stall its first product.
            f.load("lw", w[0], WORD * tile.block * index, weights)
            for c in range(columns):
                if c + 1 < columns:
                    f.load("lw", w[(c + 1) % 2], WORD * (tile.block * index + c + 1), weights)
                for r, value in enumerate(x):
                    begins = first and index == 0
                    name, fields = ("dotsp", _DOTSP) if begins else ("sdotsp", _SDOTSP)
                    f.multiply_four(name, fields, sums[r][c], value, w[c % 2])
        f.advance(weights, count * WORD * tile.block)
        for base in bases:
            f.step(base, by, x[0])

    turns, left = divmod(tile.run_words, _TURN)
    if left == 0:
        turns, left = turns - 1, _TURN
    last = runs.pitch - WORD * _TURN * turns

    def run(first: bool) -> None:
        """Emit the products of a run, and move on to the next."""
        words(left, first, last if turns == 0 else WORD * left)
        if turns:
            end = f.address("end")
            if turns > 1:
                f.distance(end, bases[0], turns * _TURN * WORD)
            with f.loop(turns, bases[0], end):
                words(_TURN, False, _TURN * WORD)
            f.release(end)
            for base in bases:
                f.step(base, last - WORD * left, x[0])

    run(True)
    if runs.count > 1:
        end = f.address("end_of_runs")
        f.distance(end, bases[0], (runs.count - 1) * runs.pitch)
        with f.loop(runs.count - 1, bases[0], end):
            run(False)
        f.release(end)
    for base in bases:
        f.step(base, -runs.row_bytes, x[0])
    f.release(*x, *w)
    _emit_outputs(f, tile, sums)
    for row in sums:
        f.release(*row)


def _emit_outputs(f: Function, tile: Tile, sums: list[list[Register]]) -> None:
    output = tile.output
    scales, out, spare = f.address("scales"), f.address("out", "write"), f.word("spare")
    scale, constants = output.scale(f), output.constants(f)
    f.restore(scales, "scales")
    f.restore(out, "out")
    address = Moving(f, out, spare)
    for c in range(len(sums[0])):
        output.load(f, scale, 4 * output.words * c, scales)
        for r, row in enumerate(sums):
            f.shift("slli", row[c], row[c], output.bits)
            output.emit(f, row[c], scale, constants, spare)
            f.store_byte(row[c], address.reach(r * tile.columns + c), out)
    f.advance(scales, 4 * output.words * tile.block)
    address.move(tile.block)
    f.save(scales, "scales")
    f.save(out, "out")
    f.release(scales, out, spare, *scale, *constants)
