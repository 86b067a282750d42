"""Which debug probe and which serial port belong to a board.

A probe says which board it sits on (its pyOCD board id or the board's name), and a serial port of
the same USB device has the probe's serial number. What the user chose once is remembered
(:mod:`hil.board.config`); where nothing decides, the candidates are listed and the user chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from serial.tools.list_ports import comports

from hil.board.config import remembered
from hil.errors import ProbeError

if TYPE_CHECKING:
    from hil.board import Board


@dataclass(frozen=True)
class ProbeInfo:
    """A probe that is plugged in."""

    uid: str
    description: str
    #: Name and pyOCD target of the board that it sits on, where it says so.
    board: str
    target: str

    @property
    def line(self) -> str:
        """The probe's line in a list of candidates."""
        on = f", on {self.board}" if self.board else ""
        return f"{self.uid} ({self.description}{on})"


def connected_probes() -> list[ProbeInfo]:
    """Return the probes that pyOCD finds, virtual ones included."""
    from pyocd.core.exceptions import Error
    from pyocd.core.helpers import ConnectHelper

    try:
        probes = ConnectHelper.get_all_connected_probes(blocking=False)
    except Error as error:
        raise ProbeError(f"pyOCD cannot list the probes: {error}", "see `hil doctor`") from None
    return [_describe(probe) for probe in probes]


def _describe(probe: Any) -> ProbeInfo:
    info = probe.associated_board_info
    return ProbeInfo(
        uid=probe.unique_id,
        description=probe.description,
        board=info.name if info else "",
        target=(info.target or "") if info else "",
    )


def choose_probe(board: Board, asked: str | None, probes: Sequence[ProbeInfo]) -> ProbeInfo:
    """Return the probe for ``board``: the one ``asked`` for (part of a uid), remembered, or the
    only fit.

    Raises :class:`ProbeError` where there is none, with all candidates where there are several.
    """
    wanted = asked or remembered(board.name).get("probe")
    if wanted:
        fits = [probe for probe in probes if wanted.lower() in probe.uid.lower()]
        exact = [probe for probe in fits if probe.uid.lower() == wanted.lower()]
        return _only(exact or fits, f"the probe {wanted!r}", probes)
    # The board's name comes first: several may have the same chip or only a generic target, and a
    # probe may call the chip as a pack does where pyOCD has a target of its own.
    target = board.pyocd.target if board.pyocd else ""
    fits = [probe for probe in probes if probe.board.lower() == board.name] or [
        probe for probe in probes if target and probe.target.lower() == target.lower()
    ]
    # A probe on its own says nothing of the board; the only one is taken.
    silent = [probe for probe in probes if not probe.target]
    return _only(fits or silent, f"a probe for {board.name}", probes)


def _only(fits: Sequence[ProbeInfo], what: str, probes: Sequence[ProbeInfo]) -> ProbeInfo:
    if len(fits) == 1:
        return fits[0]
    listed = "\n".join(f"  {probe.line}" for probe in (fits or probes)) or "  none"
    if fits:
        raise ProbeError(
            f"{what} could be any of {len(fits)} that are connected:\n{listed}",
            "choose with --probe UID; a choice is remembered for the board",
        )
    raise ProbeError(
        f"{what} is not connected; the probes here:\n{listed}",
        "plug it in" + (", or choose one of these with --probe UID" if probes else ""),
    )


def choose_port(board: Board, probe: ProbeInfo, asked: str | None) -> str:
    """Return the serial port of a board: the one ``asked`` for, remembered, or the probe's own."""
    port = asked or remembered(board.name).get("port")
    if port:
        return port
    ports = list(comports())
    own = [p.device for p in ports if p.serial_number and _same(p.serial_number, probe.uid)]
    if len(own) == 1:
        return str(own[0])
    candidates = own or [p.device for p in ports if p.vid is not None]
    listed = "\n".join(f"  {device}" for device in candidates) or "  none"
    problem = "has several serial ports" if own else "has no serial port of its own"
    raise ProbeError(
        f"the probe {probe.uid} of {board.name} {problem}; the ports here:\n{listed}",
        "choose with --port URL; a choice is remembered for the board",
    )


def _same(serial_number: str, uid: str) -> bool:
    a, b = serial_number.strip().lower(), uid.strip().lower()
    return a == b or (len(a) >= 8 and (a in b or b in a))
