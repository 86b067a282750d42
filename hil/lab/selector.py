"""Lab selectors: ``lab:PLACE``, ``lab:cpu=cortex-m4,site=a``, or the tags only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hil.board.bench import is_of_bench
from hil.errors import InputError

_PREFIX = "lab:"
_HINT = "write lab:PLACE, or tags such as cpu=cortex-m4,board=mps2-an386"


@dataclass(frozen=True)
class Selector:
    """The tags that a place must have; the tag ``name`` is the place's name."""

    tags: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return _PREFIX + ",".join(
            value if self.tags == (("name", value),) else f"{key}={value}"
            for key, value in self.tags
        )

    def fits(self, place: str, tags: Mapping[str, str]) -> bool:
        """Return whether a place of this name and these tags has every tag of the selector."""
        has = {**tags, "name": place}
        return all(has.get(key) == value for key, value in self.tags)


def parse_selector(text: str) -> Selector | None:
    """Return the lab selector in ``text``; None if it names a board description or the bench."""
    if is_of_bench(text):
        return None
    is_path = text.endswith(".toml") or "/" in text
    if not text.startswith(_PREFIX) and ("=" not in text or is_path):
        return None
    words = [word.strip() for word in text.removeprefix(_PREFIX).split(",")]
    if words and "=" not in words[0] and len(words) == 1 and words[0]:
        return Selector((("name", words[0]),))
    tags: dict[str, str] = {}
    for word in words:
        key, separator, value = (part.strip() for part in word.partition("="))
        if not (key and separator and value):
            raise InputError(f"invalid lab selector {text!r}: {word!r} is not KEY=VALUE", _HINT)
        if tags.setdefault(key, value) != value:
            raise InputError(f"invalid lab selector {text!r}: two values for {key!r}", _HINT)
    return Selector(tuple(sorted(tags.items())))
