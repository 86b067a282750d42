"""The report formats: how what a command found is written. Each is registered, ours and others'."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hil.errors import HilError, InputError
from hil.firmware.build import Firmware
from hil.plugins import load_plugins
from hil.verify import Report
from hil.verify.bench import BenchReport
from hilc.support.suggest import listed, nearest


@dataclass(frozen=True)
class Outcome:
    """What a command found on one board, or why it found nothing there."""

    command: Literal["build", "verify", "bench"]
    board: str
    #: Of each model of the image; of ``build`` one firmware.
    reports: Sequence[Report | BenchReport | Firmware] = ()
    #: The same as the command's JSON has it.
    data: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = 0
    #: On one of several boards; a command that fails on its only board has no outcome.
    error: HilError | None = None
    #: The user asks for each layer (``verify``, ``bench``) or section (``build``).
    in_detail: bool = False


@dataclass(frozen=True)
class ReportFormat:
    """A way to write outcomes on stdout."""

    #: As ``--format`` has it.
    name: str
    #: The text for the outcomes on all boards, in the order of the command line.
    write: Callable[[Sequence[Outcome]], str]
    #: Each outcome is written as soon as it is there; a board that failed is left to stderr.
    one_by_one: bool = False


_FORMATS: dict[str, ReportFormat] = {}


def register_report(report: ReportFormat) -> None:
    """Let commands write what they find by ``report`` (``--format NAME``).

    :class:`~hilc.errors.InputError` where a format has its name.
    """
    if report.name in _FORMATS:
        raise InputError(
            f"there is a report format {report.name!r} already", "give yours another name"
        )
    _FORMATS[report.name] = report


def format_named(name: str) -> ReportFormat:
    """Return the format; :class:`~hilc.errors.InputError` where there is none of the name."""
    if name not in _FORMATS:
        load_plugins()
    if name not in _FORMATS:
        raise InputError(
            f"unknown report format {name!r}{nearest(name, _FORMATS)}",
            f"choose {listed(list(_FORMATS), 'or')}; a plugin may bring others (hil doctor)",
        )
    return _FORMATS[name]
