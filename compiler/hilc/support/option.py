"""Options stated once: a field of a dataclass carries its help, its choices and its form.

The command line, the keywords of Python and of pytest's marker, and the reference pages are derived
from these fields. Nothing here loads the compiler: ``hil COMMAND --help`` needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

from hilc.errors import InputError
from hilc.support.suggest import nearest

#: Form of an option on a command line: a word, a number of bytes (``32K``), a switch
#: (``--x``), a switch that can be turned off (``--no-x``), or a word that may be repeated.
Form = Literal["word", "bytes", "switch", "yes_no", "repeated"]


@dataclass(frozen=True)
class Option:
    """Metadata of an option besides its type and default."""

    #: One sentence, for command lines and reference pages.
    help: str
    #: The accepted words; empty: any value of the field's type.
    choices: tuple[str, ...] = ()
    #: None: the option is no option of a command line.
    form: Form | None = None
    #: Name on the command line, without the hyphens; by default the field's name.
    flag: str = ""
    #: The value in the help of a command line.
    metavar: str | None = None
    #: Whether the option describes the model instead of its code.
    of_model: bool = False


_KEY = "option"


def option(
    default: Any = MISSING,
    *,
    help: str,
    choices: tuple[str, ...] = (),
    form: Form | None = None,
    flag: str = "",
    metavar: str | None = None,
    of_model: bool = False,
    default_factory: Callable[[], Any] | Any = MISSING,
    compare: bool = True,
) -> Any:
    """Return a dataclass field that states an option; the parameters are those of :class:`Option`
    and of :func:`dataclasses.field`.
    """
    stated = Option(help, choices, form, flag, metavar, of_model)
    extra: dict[str, Any] = {"default": default} if default is not MISSING else {}
    if default_factory is not MISSING:
        extra["default_factory"] = default_factory
    return field(compare=compare, metadata={_KEY: stated}, **extra)


def options_of(kind: type) -> Mapping[str, Option]:
    """Return the options that the fields of a dataclass state, by the fields' names."""
    return {each.name: each.metadata[_KEY] for each in fields(kind) if _KEY in each.metadata}


def flag_of(name: str, stated: Option) -> str:
    """Return the option of the command line for the field ``name``: ``--keep-inputs``."""
    return f"--{stated.flag or name.replace('_', '-')}"


def check_choices(instance: Any) -> None:
    """Raise :class:`~hilc.errors.InputError` for a field whose value is not among its choices."""
    for name, stated in options_of(type(instance)).items():
        value = getattr(instance, name)
        if stated.choices and value is not None and value not in stated.choices:
            raise InputError(
                f"{name}={value} is not available{nearest(str(value), stated.choices)}",
                f"choose {' or '.join(stated.choices)}",
            )


def check_keywords(
    function: str,
    given: Iterable[str],
    known: Iterable[str],
    renamed: Mapping[str, str] | None = None,
) -> None:
    """Raise :class:`~hilc.errors.InputError` for the first keyword that ``function`` does not take.

    ``renamed`` are keywords of earlier releases, with their names in this one.
    """
    known = list(known)
    for name in given:
        if name in known:
            continue
        if renamed and name in renamed:
            raise InputError(
                f"{function}: the option {name!r} has another name", f"write {renamed[name]}"
            )
        raise InputError(
            f"{function}: unknown option {name!r}{nearest(name, known)}",
            f"it takes {', '.join(known)}",
        )
