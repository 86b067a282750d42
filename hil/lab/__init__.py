"""Boards on other machines, shared through labgrid's coordinator.

A place of the coordinator is a board of this lab if its tag ``board`` names a board description
and its resources are a raw serial line (``NetworkSerialPort``) and the control port of a board
server (``NetworkService``, see :mod:`hil.lab.board_server`)::

    with hil.open("lab:cpu=cortex-m4", "kws.tflite") as device: ...

A client reserves places by tag, in the order of requests, acquires one for the time of use, and
releases it even if it crashes (:mod:`hil.lab.keeper`). ``docs/how-to/lab.md`` explains the setup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hil.lab.selector import Selector, parse_selector

if TYPE_CHECKING:
    from hil.lab.place import LabBoard, leased

__all__ = ["LabBoard", "Selector", "leased", "parse_selector"]


def __getattr__(name: str) -> Any:
    # Lazy imports: only users of a lab load labgrid's client.
    if name not in ("LabBoard", "leased"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hil.lab import place

    return getattr(place, name)
