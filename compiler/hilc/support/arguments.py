"""Checks of arguments of the public interface against their annotations.

A wrong type is the caller's mistake like any other, and named as such: which argument, what it is,
what it may be. What an annotation leaves open (``Any``, arrays, protocols) is accepted here;
whoever uses the value checks it.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import re
from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterable,
    KeysView,
    Mapping,
    ValuesView,
)
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from hilc.errors import InputError
from hilc.support.option import check_keywords

_Keywords = ParamSpec("_Keywords")
_Result = TypeVar("_Result")

#: Values accepted for a type besides its own, and its name in messages.
_SCALARS: Mapping[Any, tuple[Callable[[object], bool], str]] = {
    bool: (lambda x: isinstance(x, bool) or _is_numpys(type(x), "bool", "bool_"), "True or False"),
    int: (lambda x: isinstance(x, Integral) and not isinstance(x, bool), "an int"),
    float: (lambda x: isinstance(x, Real) and not isinstance(x, bool), "a number"),
    str: (lambda x: isinstance(x, str), "a str"),
    bytes: (lambda x: isinstance(x, bytes | bytearray | memoryview), "bytes"),
    Path: (lambda x: isinstance(x, os.PathLike), "a path"),
    NoneType: (lambda x: x is None, "None"),
}
_LISTS = (Iterable, Collection)
_IN_MEMORY = (list, tuple, set, frozenset, Mapping, KeysView, ValuesView, ItemsView)
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_numpys(kind: Any, *names: str) -> bool:
    """Return whether a type is numpy's, of one of these names; numpy need not be loaded for it."""
    # A part of an annotation that only type checkers know is text.
    return isinstance(kind, type) and kind.__module__ == "numpy" and kind.__name__ in names


def typed(function: Callable[_Keywords, _Result]) -> Callable[_Keywords, _Result]:
    """Let a function of the public interface refuse arguments that are not of their types.

    :class:`~hilc.errors.InputError` names the argument, and a keyword that it does not have, with
    the nearest one. Arguments that lack stay Python's TypeError.
    """
    signature = inspect.signature(function)
    many = {name for name, each in signature.parameters.items() if each.kind in _MANY}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    # A function that takes any checks them itself.
    known = None if takes_any else _keywords(signature)

    @functools.cache
    def hints() -> Mapping[str, Any]:
        return {
            name: _evaluated(annotation, function)
            for name, annotation in function.__annotations__.items()
            if name not in many
        }

    @functools.wraps(function)
    def called(*args: _Keywords.args, **keywords: _Keywords.kwargs) -> _Result:
        if known is not None:
            check_keywords(name_of(function), keywords, known)
        try:
            given = signature.bind(*args, **keywords).arguments
        except TypeError:
            # Python's own words for it.
            return function(*args, **keywords)
        for name, value in given.items():
            # Those of any number are looked at one by one, where they are used.
            if name in hints():
                check(name, value, hints()[name])
        return function(*args, **keywords)

    return called


def _keywords(signature: inspect.Signature) -> list[str]:
    """Return the names by which a function takes keywords."""
    without = (inspect.Parameter.POSITIONAL_ONLY, *_MANY)
    return [name for name, each in signature.parameters.items() if each.kind not in without]


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a public function as users write it: ``hil.build``."""
    return f"{function.__module__.partition('.')[0]}.{function.__qualname__}"


class _Names(dict[str, Any]):
    """Namespace of a function's annotations; a name that only type checkers know means any type."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(vars(builtins) | inspect.unwrap(function).__globals__)

    def __missing__(self, name: str) -> Any:
        return Any


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return the type that an annotation names."""
    return eval(annotation, {}, _Names(function)) if isinstance(annotation, str) else annotation


def check_fields(instance: Any, names: Mapping[str, Any] | None = None) -> None:
    """Raise :class:`~hilc.errors.InputError` for a field of a dataclass that is not of its type.

    ``names`` are types that annotations name and that the class's module imports for type checkers
    alone.
    """
    kind: Any = type(instance)
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind, localns=dict(names or {}))
    for field in fields(instance):
        check(field.name, getattr(instance, field.name), _HINTS[kind][field.name])


#: The types of a dataclass's fields.
_HINTS: dict[Any, Mapping[str, Any]] = {}


def check(name: str, value: object, accepted: Any) -> None:
    """Raise :class:`~hilc.errors.InputError` where an argument is not of the accepted type."""
    if not _accepts(accepted, value):
        raise InputError(
            f"{name}={value!r:.60} is of type {type(value).__name__}",
            f"give {name} as {_described(accepted)}",
        )


def _accepts(accepted: Any, value: object) -> bool:
    arguments, origin = get_args(accepted), get_origin(accepted)
    if accepted is Any:
        return True
    if accepted in _SCALARS:
        return _SCALARS[accepted][0](value)
    if origin is Literal:
        # The caller knows the accepted words and states them.
        return any(isinstance(value, type(word)) for word in arguments)
    if origin in (Union, UnionType):
        return any(_accepts(argument, value) for argument in arguments)
    if origin is Callable or accepted is Callable:
        return callable(value)
    kind = origin or accepted
    if not isinstance(kind, type) or _is_numpys(kind, "ndarray") or _is_open(kind):
        return True
    if issubclass(kind, Mapping):
        return isinstance(value, Mapping) and all(
            _accepts(argument, each)
            for pair in value.items()
            for argument, each in zip(arguments, pair, strict=False)
        )
    if issubclass(kind, _LISTS):
        # Any list serves; one that can be read once only, or makes its elements as they are read,
        # is not read here.
        is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        known = value if is_list and isinstance(value, _IN_MEMORY) else ()
        return is_list and all(_accepts(a, each) for a in arguments[:1] for each in known)
    return isinstance(value, kind)


def _is_open(kind: type) -> bool:
    """Return whether any value may be of this type: a protocol is checked by attributes."""
    return kind is object or bool(getattr(kind, "_is_protocol", False))


def _described(accepted: Any) -> str:
    arguments, origin = get_args(accepted), get_origin(accepted)
    if accepted in _SCALARS:
        return _SCALARS[accepted][1]
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_described, arguments)))
    if origin is Callable or accepted is Callable:
        return "a function"
    kind = origin or accepted
    if _is_numpys(kind, "ndarray"):
        return "an array"
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return f"a mapping of {' to '.join(map(_in_list, arguments))}"
    if isinstance(kind, type) and issubclass(kind, _LISTS):
        return f"a list of {_in_list(arguments[0])}" if arguments else "a list"
    return getattr(kind, "__name__", str(kind))


def _in_list(accepted: Any) -> str:
    """Return the name of a list's elements in messages."""
    return re.sub(r"\b(a|an) ", "", _described(accepted))
