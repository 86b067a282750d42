"""Settings of a serial line: baud rate, levels of DTR and RTS, flow control, reset sequences.

A board's file has them in its table ``line``, except the baud rate, which is that of the UART
(``uart.baud``). The line is opened with them in :mod:`hil.link.line`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hilc.support.tables import Table

DEFAULT_BAUD: Final = 115_200
FLOWS: Final = ("none", "rtscts", "dsrdtr", "xonxoff")
#: Sequences by name, for a reset and for the chip's boot loader.
RESETS: Final[Mapping[str, str]] = {
    # EN follows RTS, and the strapping pin DTR, both inverted, through two transistors.
    "esp": "D0|R1|W0.1|R0|W0.05",
    # A capacitor makes a pulse on the reset pin when DTR becomes active.
    "arduino": "D0|R0|W0.25|D1|R1|W0.05",
}
BOOTS: Final[Mapping[str, str]] = {
    "esp": "D0|R1|W0.1|D1|R0|W0.05|D0",
    # The core of these boards starts the boot loader when the port is closed at 1200 baud.
    "arduino": "B1200|D0|W0.25",
}
_STEP: Final = re.compile(r"[DR][01]|W(\d+(\.\d+)?)|B(\d+)")
_LONGEST_WAIT_S: Final = 10.0


@dataclass(frozen=True)
class LineSettings:
    """How a serial line is opened, and what resets the board behind it."""

    baud: int = DEFAULT_BAUD
    #: Levels at open: True is active (a low voltage); None leaves them to the driver.
    dtr: bool | None = None
    rts: bool | None = None
    #: One of :data:`FLOWS`.
    flow: str = "none"
    #: Sequences (see :func:`steps`) that reset the board and that start its boot loader; empty for
    #: none.
    reset: str = ""
    boot: str = ""


DEFAULT_LINE: Final = LineSettings()


def steps(sequence: str) -> list[tuple[str, float]]:
    """Return letter and number of each step of a sequence such as ``D0|R1|W0.1|R0``.

    As in esptool's configuration, D and R are the levels of DTR and RTS, W waits for seconds; B
    sets the baud rate. Raise ValueError for another form.
    """
    found = []
    for word in sequence.split("|"):
        if not _STEP.fullmatch(word):
            raise ValueError(f"{word!r} is not a step")
        if word[0] == "W" and float(word[1:]) > _LONGEST_WAIT_S:
            raise ValueError(f"{word!r} waits for more than {_LONGEST_WAIT_S:g} s")
        found.append((word[0], float(word[1:])))
    return found


def read_line(table: Table, baud: int) -> LineSettings:
    """Return the settings of a table ``line``; raise the table's error for an invalid key."""
    for key in ("dtr", "rts", "reset", "boot"):
        table.known(key)  # also where it is left out
    flow = table.choice("flow", FLOWS, "none")
    dtr, rts = (table.boolean(key, False) if key in table else None for key in ("dtr", "rts"))
    for key, level, driver in (("dtr", dtr, "dsrdtr"), ("rts", rts, "rtscts")):
        if level is not None and flow == driver:
            raise table.error(key, f"flow control {flow!r} drives this output", "remove one")
    reset, boot = _sequence(table, "reset", RESETS), _sequence(table, "boot", BOOTS)
    table.finish()
    return LineSettings(baud, dtr, rts, flow, reset, boot)


def _sequence(table: Table, key: str, named: Mapping[str, str]) -> str:
    if key not in table:
        return ""
    word = table.string(key)
    sequence = named.get(word, word)
    try:
        steps(sequence)
    except ValueError as error:
        raise table.error(
            key,
            f"{word!r} is not a reset sequence: {error}",
            f"write {' or '.join(named)}, or steps such as D0|R1|W0.1|R0",
        ) from None
    return sequence
