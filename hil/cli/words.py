"""What a command line says before it is parsed."""

from __future__ import annotations

from collections.abc import Sequence


def wants_json(words: Sequence[str]) -> bool:
    """Return whether a command line asks for JSON, also one that has errors."""
    if "--json" in words or "--format=json" in words:
        return True
    return any(pair == ("--format", "json") for pair in zip(words, words[1:], strict=False))
