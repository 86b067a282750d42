"""The words of the commands that ``hil mcp`` starts: no value of a client becomes an option."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from hil.errors import InputError

#: Longest text that is shown.
_SHOWN = 60


def command_words(
    command: str, options: Mapping[str, object] | None = None, positional: Sequence[str] = ()
) -> list[str]:
    """Return the words of a command that answers in JSON.

    An option and its value are one word, and words without an option stand behind ``--``, so the
    parser takes a value for a value, whatever it begins with. An option is left out for None and
    False, is a switch for True, and is repeated for a list.

    Raise :class:`InputError` for a text that cannot be given to a process.
    """
    words = [command]
    for name, value in (options or {}).items():
        for one in value if isinstance(value, list) else [value]:
            if one is None or one is False:
                continue
            words.append(name if one is True else f"{name}={one}")
    words.append("--json")
    if positional:
        words += ["--", *positional]
    for word in words:
        _check_text(word)
    return words


def _check_text(word: str) -> None:
    try:
        is_text = b"\0" not in os.fsencode(word)
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise InputError(
            f"{word[:_SHOWN]!r} is no argument of a command",
            "give text in Unicode without null characters and lone surrogates",
        )
