"""Which board of a lab somebody wants: ``lab:PLACE``, ``lab:cpu=cortex-m4,site=a``, or the tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hil.errors import InputError

_PREFIX = "lab:"
_HINT = "write lab:PLACE, or tags such as cpu=cortex-m4,board=mps2-an386"


@dataclass(frozen=True)
class Wanted:
    """A filter of places: what a place's tags must be. The tag ``name`` is the place's own name."""

    tags: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return _PREFIX + ",".join(
            value if self.tags == (("name", value),) else f"{key}={value}"
            for key, value in self.tags
        )

    def fits(self, place: str, tags: Mapping[str, str]) -> bool:
        has = {**tags, "name": place}
        return all(has.get(key) == value for key, value in self.tags)


def parse_wanted(text: str) -> Wanted | None:
    """The lab board that ``text`` asks for; None where it names a board description instead."""
    is_path = text.endswith(".toml") or "/" in text
    if not text.startswith(_PREFIX) and ("=" not in text or is_path):
        return None
    words = [word.strip() for word in text.removeprefix(_PREFIX).split(",")]
    if words and "=" not in words[0] and len(words) == 1 and words[0]:
        return Wanted((("name", words[0]),))
    tags: dict[str, str] = {}
    for word in words:
        key, separator, value = (part.strip() for part in word.partition("="))
        if not (key and separator and value):
            raise InputError(f"{text!r} asks for no board of a lab: {word!r} is no tag", _HINT)
        if tags.setdefault(key, value) != value:
            raise InputError(f"{text!r} gives the tag {key!r} two values", _HINT)
    return Wanted(tuple(sorted(tags.items())))
