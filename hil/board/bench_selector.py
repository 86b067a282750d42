"""Selection of the bench's boards by their properties: ``arch=armv7e-m,ram>=64K``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hil.board.bench import SUFFIX, bench_file, read_bench, unit_named
from hil.board.board import Board, load_board
from hil.errors import InputError
from hilc.support.byte_counts import BYTE_COUNTS, parse_bytes
from hilc.support.suggest import nearest

_TERM: Final = re.compile(r"([a-z_][a-z0-9_.-]*)(>=|<=|=)(.+)")
_HINT: Final = f"write NAME{SUFFIX}, or properties such as arch=armv7e-m,ram>=64K"


@dataclass(frozen=True)
class Selector:
    """The properties that a board of the bench must have: key, operator, value."""

    terms: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        return ",".join("".join(term) for term in self.terms) + SUFFIX

    def fits(self, board: Board) -> bool:
        """Return whether a board of the bench has all properties.

        Raise :class:`~hil.errors.InputError` for one that no board has.
        """
        return all(_holds(board, *term) for term in self.terms)


def selected_boards(text: str) -> list[Board]:
    """Return the boards that a board option of the bench names, in the file's order.

    Raise :class:`~hil.errors.InputError` if it names none.
    """
    if unit_named(text) is not None:
        return [load_board(text)]
    selector = parse_selector(text)
    boards = [load_board(unit.spec) for unit in read_bench().values()]
    found = [board for board in boards if selector.fits(board)]
    if not found:
        names = ", ".join(f"{unit.name} ({unit.board})" for unit in read_bench().values())
        raise InputError(
            f"no board of the bench {bench_file()} fits {selector}; its boards: {names or 'none'}",
            _HINT,
        )
    return found


def parse_selector(text: str) -> Selector:
    """Return the selector ``KEY=VALUE,KEY>=VALUE``; raise InputError for another form."""
    terms = []
    for word in text.removesuffix(SUFFIX).split(","):
        match = _TERM.fullmatch(word.strip())
        if match is None:
            raise InputError(f"{text!r}: {word!r} is no property of a board", _HINT)
        terms.append((match[1], match[2], match[3].strip()))
    return Selector(tuple(terms))


def _holds(board: Board, key: str, operator: str, value: str) -> bool:
    unit = board.unit
    assert unit is not None, "only boards of the bench are selected"
    numbers = {
        "ram": sum(region.size for region in board.regions("ram")),
        "flash": sum(region.size for region in board.regions("flash")),
        "clock": board.clock_hz,
    }
    texts = {
        **unit.tags,
        "name": unit.name,
        "board": board.name,
        "cpu": board.cpu.name,
        "arch": board.cpu.arch,
        "isa": board.cpu.isa,
    }
    if key in numbers:
        wanted = _number(key, value)
        has = numbers[key]
        return (
            has >= wanted
            if operator == ">="
            else has <= wanted
            if operator == "<="
            else (has == wanted)
        )
    if operator != "=":
        raise InputError(f"{key}{operator}{value}: {key} is not a number", f"write {key}={value}")
    if key == "feature":
        return value in board.cpu.features
    if key not in texts and not any(key in each.tags for each in read_bench().values()):
        known = (*numbers, *texts, "feature")
        raise InputError(
            f"boards have no property {key!r}{nearest(key, known)}",
            f"choose from {', '.join(dict.fromkeys(known))}, or a tag of the bench file",
        )
    return texts.get(key) == value


def _number(key: str, value: str) -> int:
    number = parse_bytes(value)
    if number is None:
        raise InputError(f"{key}: {value!r} is not a number", f"write {BYTE_COUNTS}")
    return number
