"""The flasher ``command``: programs of the user's own.

They stand in the user's configuration (``[boards.NAME.command]``), not in a board file: a board
file may come from anywhere, and runs no program of its choice. A command is a list of words, of
which no shell makes others.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from hil.access.flashers.program import (
    IMAGE,
    Action,
    ProgramFlasher,
    ProgramSession,
    placeholders,
)
from hil.access.protocols import Need
from hil.board.config import command_table, config_path
from hil.board.settings import Setting
from hil.errors import InputError
from hil.firmware.formats import ImageFormat, image_in
from hil.firmware.image import read_image

if TYPE_CHECKING:
    from hil.access.connection import Connection
    from hil.board import Board
    from hil.board.settings import Value

_FORMATS: Final[tuple[ImageFormat, ...]] = get_args(ImageFormat)
_PLACES: Final = ("probe", "port")


class UserCommand(ProgramFlasher):
    """Programs any board by the user's commands."""

    name = "command"
    title = "the command"
    program = "command"
    install = "the commands stand in config.toml: docs/how-to/flashers.md"
    uses_probe = False
    passes_probe = True
    capabilities = frozenset({"erase"})
    settings = {"family": Setting("integer", "number of the family of {uf2}", 0, 0, 0xFFFFFFFF)}
    lines: Mapping[Action, Sequence[tuple[str, ...]]] = {}

    def can_reset(self, board: Board) -> bool:
        """Return whether the user configured ``reset``."""
        return "reset" in command_table(board.name)

    def needs(self, board: Board | None) -> Need | None:
        """Return a program of the board's commands that is missing, else any of them."""
        if board is None:
            return None
        hint = f"install it; it is set in {config_path()}"
        needs = [Need(words[0], hint) for words in command_table(board.name).values() if words]
        return next((need for need in needs if not need.is_there()), next(iter(needs), None))

    def uf2_family(self, board: Board) -> int | None:
        """Return the setting ``family``."""
        return int(board.settings[self.name]["family"]) or None

    def check(self, board: Board) -> str:
        """Return the board's command; InputError if there is none, or it is not valid."""
        return f"runs {command_of(board, 'program')[0]}"

    def words(self) -> list[str]:
        """Return no words: a command has its own."""
        return []

    def values(self, board: Board, uid: str, connection: Connection) -> dict[str, Value]:
        """Return the values of placeholders besides the images: ``port`` and ``probe``."""
        values = super().values(board, uid, connection)
        return {**values, **({"probe": connection.probe} if connection.probe else {})}

    def session(
        self, board: Board, values: Mapping[str, Value], folder: Path, connection: Connection
    ) -> ProgramSession:
        """Return a session that runs the user's commands."""
        return _Session(self, board, values, folder, connection.erase_to_unlock)


class _Session(ProgramSession):
    def stage(self, elf: Path) -> int:
        """Put the image into the folder in each format that the command uses."""
        segments = read_image(elf)
        own = self.folder / f"{IMAGE}.elf"
        shutil.copyfile(elf, own)
        family = self.flasher.uf2_family(self.board)
        used = {name for word in command_of(self.board, "program") for name in placeholders(word)}
        for image_format in _FORMATS:
            if image_format in used:
                file = image_in(own, image_format, self.folder, family)
                self.values[image_format] = str(file)
        return sum(len(segment.data) for segment in segments)

    def act(self, action: Action) -> None:
        """Run the user's command."""
        words = command_of(self.board, action)
        if any("probe" in placeholders(word) for word in words) and "probe" not in self.values:
            raise InputError(
                f"the command of {self.board.name} has {{probe}}, and no probe is given",
                "give it: --probe UID",
            )
        self.run([word.format_map(self.values) for word in words])


def command_of(board: Board, action: Action) -> list[str]:
    """Return the words of the user's command for an action, with placeholders.

    Raise :class:`~hil.errors.InputError` if there is none, or it has an unknown placeholder.
    """
    label = f"boards.{board.name}.command.{action}"
    words = command_table(board.name).get(action, [])
    if not words or not words[0]:
        raise InputError(
            f"the flasher 'command' has no command to {action} {board.name}",
            f'set it in {config_path()}: [boards.{board.name}.command] {action} = ["PROGRAM", ...]',
        )
    known = (*_FORMATS, *_PLACES) if action == "program" else _PLACES
    for word in words:
        try:
            unknown = placeholders(word) - {*known}
        except ValueError as error:
            raise InputError(
                f"{config_path()}: {label}: {word!r}: {error}", "write {{ and }} for braces"
            ) from None
        if unknown:
            raise InputError(
                f"{config_path()}: {label}: {word!r} has no known placeholder",
                f"use {', '.join(f'{{{name}}}' for name in known)}; {{{{ and }}}} for braces",
            )
    return words
