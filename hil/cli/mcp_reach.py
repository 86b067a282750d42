"""What the tools of ``hil mcp`` may use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hil.access import Connection, chosen_runner, is_real
from hil.board import Board, load_board
from hil.board.board import board_file, board_names
from hil.errors import InputError
from hil.support.restriction import code_refused, inside
from hilc.artifact.archive import is_archive
from hilc.support.suggest import nearest
from hilc.target import cpu_names

#: Letters of a board's name, at most.
_LONGEST = 100


@dataclass(frozen=True)
class Reach:
    """What tools may use: files below a folder, emulated boards, and the boards that were named at
    the start.
    """

    #: The folder, without links.
    folder: Path
    #: Real boards, ``native`` and descriptions in the folder, as ``--board`` names them.
    allowed: frozenset[str]
    #: Whether archives are taken, whose code the compiler of this machine reads.
    with_code: bool = False

    def path(self, text: str) -> str:
        """Return the absolute path of a file or folder; InputError outside the folder."""
        found = inside(self.folder, text)
        self._check_links(found, text)
        return str(found)

    def model(self, text: str) -> str:
        """Return the absolute path of a model; InputError outside the folder, and for an archive
        unless their code is allowed.
        """
        path = self.path(text)
        if not self.with_code and is_archive(Path(path)):
            raise code_refused(text)
        return path

    def _check_links(self, folder: Path, text: str) -> None:
        """Raise InputError for a link that leads out of the folder of all files, in a folder or in
        one to which its links lead.
        """
        left, seen = [folder], {folder}
        while left:
            for parent, folders, files in os.walk(left.pop()):
                paths = (os.path.join(parent, name) for name in (*folders, *files))
                for link in map(Path, filter(os.path.islink, paths)):
                    target = _real(link)
                    if not target.is_relative_to(self.folder):
                        raise InputError(
                            f"{link.name!r} in {text!r} is a link that leads out of the folder in "
                            "which hil mcp was started",
                            "replace it by the file",
                        )
                    if target not in seen:
                        seen.add(target)
                        left.append(target)

    def names(self, board: str) -> str:
        """Return a board of which only the description is used."""
        return board if board in self.allowed else self._known(board)[0]

    def core(self, name: str) -> str:
        """Return a core that is known by name; InputError for the path of a description."""
        if name not in cpu_names():
            raise InputError(
                f"{name[:_LONGEST]!r} is no core that is known by name"
                f"{nearest(name[:_LONGEST], cpu_names())}",
                f"choose one of {', '.join(cpu_names())}",
            )
        return name

    def uses(self, board: str) -> dict[str, object]:
        """Return the options of a command that runs on a board.

        Raise :class:`InputError` for a real board, or one whose code this machine executes, that
        was not allowed.
        """
        if board in self.allowed:
            return {"--board": board}
        word, known = self._known(board)
        described, runner = chosen_runner(known, None, Connection())
        if is_real(runner) or described.cpu.is_host:
            raise _not_allowed(board)
        # So that the command chooses no other.
        return {"--board": word, "--runner": runner.name}

    def _known(self, board: str) -> tuple[str, Board]:
        """Return a board by name that ships or is in the user's folder, and the word that names it
        whatever is in the working folder.

        Raise :class:`InputError` for one that a file below the folder describes: a description may
        name a core, a toolchain and so programs, and a client may be able to write there.
        """
        # The name of a file or of a lab's place is none of a known board.
        path = board_file(_checked_name(board))
        if path is not None and _real(path).is_relative_to(self.folder):
            raise InputError(
                f"{board!r} is described by {path} in the folder in which hil mcp was started, and "
                "a description may name programs to run",
                f"start the server with: hil mcp --allow {board}",
            )
        known = load_board(board)
        return (board if board in board_names() else str(known.path.resolve())), known

    def changes(self, board: str) -> str:
        """Return a real board that a command changes; InputError unless it was allowed."""
        if board not in self.allowed:
            raise _not_allowed(board)
        return board


def _real(path: Path) -> Path:
    """Return the path without links; a link that leads to itself stays."""
    return Path(os.path.realpath(path))


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
