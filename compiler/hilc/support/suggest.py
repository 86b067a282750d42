"""Words of messages: suggestions for unknown ones, lists, and numbers of things."""

from __future__ import annotations

from collections.abc import Iterable

#: Minimum similarity, 0 to 1, and maximum number of suggestions.
_CUTOFF = 0.6
_LIMIT = 3
_SAME = str.maketrans("_. ", "---")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean A or B?)``, or an empty string if no word is similar.

    Case, and whether parts are joined by ``-``, ``_``, ``.`` or a space, do not matter.
    """
    found = like(word, known)
    return f" (did you mean {listed(found, 'or')}?)" if found else ""


def like(word: str, known: Iterable[str]) -> list[str]:
    """Return those of ``known`` that are similar to ``word``, the most similar first."""
    # Not at the top: a command line without a mistake does not need it.
    import difflib

    names: dict[str, list[str]] = {}
    for name in known:
        names.setdefault(_plain(name), []).append(name)
    near = difflib.get_close_matches(_plain(word), names, _LIMIT, _CUTOFF)
    if _plain(word) in names:
        near = [_plain(word)]
    return [name for plain in near for name in names[plain]]


def operators_hint(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Return the hint for a model with operators that are not supported."""
    known = list(known)
    near = dict.fromkeys(name for code in unknown for name in like(code, known))
    similar = f"similar are {', '.join(near)}; " if near else ""
    return (
        f"{similar}docs/reference/operators.md lists what is supported, and "
        "docs/how-to/operators.md shows how to add an operator"
    )


def listed(words: Iterable[str], last: str) -> str:
    """Return ``A, B or C``, with ``last`` for the word before the last one."""
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end


def counted(count: int, thing: str) -> str:
    """Return ``1 sample``, or ``2 samples``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _plain(word: str) -> str:
    return word.strip().lower().translate(_SAME)
