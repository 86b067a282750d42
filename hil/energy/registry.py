"""The registry of meters, which record current and voltage; plugins register theirs alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hil.energy.recording import Recording
from hil.errors import InputError
from hil.plugins import attributed_to, is_own, plugin_error, registered
from hilc.support.registering import check_registered
from hilc.support.suggest import nearest


@runtime_checkable
class Recorder(Protocol):
    """A meter that is ready to record."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> Recording:
        """Return the samples since :meth:`start`."""


@dataclass(frozen=True)
class Meter:
    """A way to record current and voltage.

    ``open(argument)`` returns a context that yields a :class:`Recorder`, and ``check(argument)``
    raises if it would. The argument is what follows ``NAME:`` in ``--energy``. Failures are
    :class:`~hil.errors.HilError`; every wait needs a deadline.
    """

    #: The first word of ``--energy``.
    name: str
    open: Callable[[str], AbstractContextManager[Recorder]]
    check: Callable[[str], None]
    #: Whether it measures the board of the command; a recorded trace may be of any.
    is_live: bool = True


_METERS: dict[str, Meter] = {}


def register_meter(meter: Meter) -> None:
    """Add a meter (``--energy NAME[:ARGUMENT]``).

    Raise :class:`~hilc.errors.InputError` if another one has its name, or the name or a function is
    invalid.
    """
    known = {name: other.open for name, other in _METERS.items()}
    check_registered("meter", meter.name, {"open": meter.open, "check": meter.check}, known)
    _METERS[meter.name] = meter


def _meter_of(spec: str) -> tuple[Meter, str]:
    """Return the meter of ``NAME[:ARGUMENT]``, and the argument."""
    name, _, argument = spec.partition(":")
    return registered("meter", name, _METERS), argument


def check_spec(spec: str, *, is_emulated: bool) -> None:
    """Raise if ``NAME[:ARGUMENT]`` names no meter, or one that cannot be used for the board."""
    meter, argument = _meter_of(spec)
    if meter.is_live and is_emulated:
        raise InputError(
            f"the meter {meter.name!r} measures real boards, and this one is emulated",
            "measure on a real board, or give a recorded trace: --energy trace:FILE",
        )
    meter.check(argument)


@contextmanager
def opened_meter(spec: str) -> Iterator[Recorder]:
    """Open the meter of ``NAME[:ARGUMENT]``.

    Raise an error that names the plugin if it returns something else than a meter's context.
    """
    meter, argument = _meter_of(spec)
    if is_own(meter.open):
        with meter.open(argument) as recorder:
            yield recorder
        return
    with attributed_to(meter.open, f"the meter {meter.name!r}"):
        context: object = meter.open(argument)
    if not isinstance(context, AbstractContextManager):
        raise plugin_error(meter.open, f"the meter {meter.name!r} returned {context!r}, no context")
    with context as recorder:
        yield recorder


def settings_of(meter: str, argument: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in ``KEY=VALUE,...``; ``known`` says what each key is for.

    Raise :class:`~hil.errors.InputError` for an unknown key, or one that is given twice.
    """
    settings: dict[str, str] = {}
    for word in filter(None, argument.split(",")):
        key, separator, value = word.partition("=")
        if not separator or not value or key not in known:
            accepted = "; ".join(f"{name}=... ({what})" for name, what in known.items())
            raise InputError(
                f"the meter {meter!r} does not know {word!r}{nearest(key, known)}",
                f"write {meter}:KEY=VALUE,KEY=VALUE with {accepted}",
            )
        if key in settings:
            raise InputError(f"the meter {meter!r} is given {key} twice", "give it once")
        settings[key] = value
    return settings


def whole_setting(
    meter: str, settings: Mapping[str, str], key: str, default: int | None, least: int, most: int
) -> int:
    """Return a setting as a whole number; None as the default: it must be given."""
    text = settings.get(key)
    if text is None and default is not None:
        return default
    if text is None or not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        given = "is missing" if text is None else f"is {text!r}"
        raise InputError(
            f"the setting {key} of the meter {meter!r} {given}",
            f"write {meter}:{key}=N with a whole number from {least} to {most}",
        )
    return int(text)
