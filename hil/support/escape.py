"""Text from boards and files, which are not trusted, made safe to show."""

from __future__ import annotations

import re

#: Group 1: colours of a terminal. Otherwise: control characters except line feed and tab, and marks
#: of text direction, which could hide or change text where it is shown.
_OBEYED = re.compile(
    r"(\x1b\[[0-9;]*m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def escaped(text: str, *, colours: bool = True) -> str:
    """Return ``text`` with control characters escaped; ``colours`` of a terminal stay, or go."""
    return _OBEYED.sub(lambda match: _shown(match, colours), text)


def _shown(match: re.Match[str], colours: bool) -> str:
    if match[1]:
        return match[1] if colours else ""
    return match[0].encode("unicode_escape").decode("ascii")
