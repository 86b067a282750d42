"""What a command may use that ``hil mcp`` has started.

The server checks the paths of a tool before it starts the command. A client with parallel calls
may replace what was checked before the command opens it, so the command checks again, at the
moment of use. Its environment says what it may do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hil.errors import InputError

#: Folder of all files that the command may use, without links; unset outside of ``hil mcp``.
_FOLDER: Final = "HIL_MCP_FOLDER"
#: Set where the command takes archives.
_CODE: Final = "HIL_MCP_CODE"


def restricted(environment: Mapping[str, str], folder: Path, *, with_code: bool) -> dict[str, str]:
    """Return the environment of a command that uses files below ``folder`` alone."""
    others = {name: value for name, value in environment.items() if name != _CODE}
    return {**others, _FOLDER: str(folder), **({_CODE: "1"} if with_code else {})}


def usable(path: str) -> str:
    """Return the path to open: in a restricted command the one without links.

    Raise :class:`InputError` if the command may not use it.
    """
    folder = os.environ.get(_FOLDER)
    return path if folder is None else str(inside(Path(folder), path))


def check_code(path: str) -> None:
    """Raise :class:`InputError` for an archive at ``path`` if the command may not take its code."""
    if _FOLDER in os.environ and _CODE not in os.environ:
        raise code_refused(path)


def inside(folder: Path, text: str) -> Path:
    """Return the absolute path of ``text`` without links; raise :class:`InputError` if it is not
    below ``folder``.
    """
    try:
        found = Path(os.path.realpath(folder / text))
    except ValueError:  # null characters and lone surrogates: no path of a file
        found = None
    if found is None or not found.is_relative_to(folder):
        raise InputError(
            f"{text!r} is outside the folder in which hil mcp was started",
            "give a path below this folder, or start hil mcp in another one",
        )
    return found


def code_refused(text: str) -> InputError:
    """Return the error for an archive: C code can read any file of this machine while it is
    compiled (``#include``, ``.incbin``).
    """
    return InputError(
        f"{text!r} is an archive, whose code would be compiled on this machine",
        "give the model file, or start the server with: hil mcp --allow-code",
    )
