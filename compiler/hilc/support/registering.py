"""Checks of what others register: names and functions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hilc.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9_]+([ .+-]+[A-Za-z0-9_]+)*")


def check_registered(
    what: str, name: object, functions: Mapping[str, object], known: Mapping[str, object]
) -> None:
    """Raise InputError for an invalid or used name, and for an object that is not callable.

    ``what`` is the kind of part for messages, ``known`` a function of each part by its name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"a {what} has the invalid name {name!r}",
            "name it with letters, digits and _ . + -",
        )
    for field, function in functions.items():
        if not callable(function):
            raise InputError(
                f"the {what} {name!r} has {field}={function!r}, of type {type(function).__name__}",
                f"give a function as {field}",
            )
    if name in known:
        raise InputError(
            f"a {what} {name!r} exists already, of {module_of(known[name])}",
            "give this one another name",
        )


def module_of(function: object) -> str:
    """Return the name of the module that a function, or an object that is called, is from."""
    while (wrapped := getattr(function, "func", None)) is not None:  # functools.partial
        function = wrapped
    own = getattr(function, "__module__", None)
    return own if isinstance(own, str) else type(function).__module__
