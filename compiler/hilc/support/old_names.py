"""Names of earlier releases: importing one is an error that states the new name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn


def refusing(module: str, renamed: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of ``module``.

    It raises ImportError for the old names in ``renamed``, with the new ones (an AttributeError
    would lose its text in ``from module import name``), and AttributeError for all others.
    """

    def missing(name: str) -> NoReturn:
        if name in renamed:
            raise ImportError(f"{module} has no {name} since version 0.2; it is {renamed[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing
