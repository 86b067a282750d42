"""What the tools of ``hil mcp`` may use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hil.access import Connection, chosen_runner, is_real
from hil.board import load_board
from hil.errors import InputError

#: Letters of a board's name, at most.
_LONGEST = 100


@dataclass(frozen=True)
class Reach:
    """What tools may use: files below a folder, emulated boards, and the boards that were named at
    the start.
    """

    #: The folder, without links.
    folder: Path
    #: Real boards and ``native``, as ``--board`` names them.
    allowed: frozenset[str]

    def path(self, text: str) -> str:
        """Return the absolute path of a file or folder; InputError outside the folder."""
        found = (self.folder / text).resolve() if "\0" not in text else None
        if found is None or not found.is_relative_to(self.folder):
            raise InputError(
                f"{text!r} is outside the folder in which hil mcp was started",
                "give a path below this folder, or start hil mcp in another one",
            )
        self._check_links(found, text)
        return str(found)

    def _check_links(self, folder: Path, text: str) -> None:
        """Raise InputError for a link in a folder that leads out of the folder of all files."""
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                if not (Path(parent) / name).resolve().is_relative_to(self.folder):
                    raise InputError(
                        f"{name!r} in {text!r} is a link that leads out of the folder in which "
                        "hil mcp was started",
                        "replace it by the file",
                    )

    def names(self, board: str) -> list[str]:
        """Return the option ``--board`` for a board of which only the description is used."""
        if board not in self.allowed:
            # The name of a file or of a lab's place is none of a known board.
            load_board(_checked_name(board))
        return ["--board", board]

    def uses(self, board: str) -> list[str]:
        """Return the options of a command that runs on a board.

        Raise :class:`InputError` for a real board, or one whose code this machine executes, that
        was not allowed.
        """
        if board in self.allowed:
            return ["--board", board]
        described, runner = chosen_runner(load_board(_checked_name(board)), None, Connection())
        if is_real(runner) or described.cpu.is_host:
            raise _not_allowed(board)
        # So that the command chooses no other.
        return ["--board", board, "--runner", runner.name]

    def changes(self, board: str) -> list[str]:
        """Return the options of a command that changes a real board; InputError unless allowed."""
        if board not in self.allowed:
            raise _not_allowed(board)
        return ["--board", board]


def _checked_name(board: str) -> str:
    if (
        not 0 < len(board) <= _LONGEST
        or any(not (c.isalnum() or c in "-_") for c in board)
        or board.startswith("-")
    ):
        raise InputError(
            f"{board[:_LONGEST]!r} is neither a name of a board nor a board that --allow named",
            "the tool `boards` lists the names",
        )
    return board


def _not_allowed(board: str) -> InputError:
    return InputError(
        f"{board!r} is not a board that tools may use",
        f"start the server with: hil mcp --allow {board}",
    )
