"""Selection of a board's debug probe and serial port.

A probe may report the board that it sits on (pyOCD board id or board name). A serial port of the
same USB device has the probe's serial number. A choice by the user is remembered
(:mod:`hil.board.config`). If the choice is ambiguous, the error lists the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from serial.tools.list_ports import comports

from hil.board.config import remembered
from hil.errors import ProbeError
from hil.support.pyocd import prepare

if TYPE_CHECKING:
    from hil.board import Board


@dataclass(frozen=True)
class ProbeInfo:
    """A connected probe."""

    uid: str
    description: str
    #: Name and pyOCD target of its board, if reported.
    board: str
    target: str

    @property
    def line(self) -> str:
        """The probe's line in a list of probes."""
        on = f", on {self.board}" if self.board else ""
        return f"{self.uid} ({self.description}{on})"


def connected_probes() -> list[ProbeInfo]:
    """Return the probes that pyOCD finds, including virtual ones."""
    try:
        from pyocd.core.exceptions import Error
        from pyocd.core.helpers import ConnectHelper
    except Exception as error:  # it loads plugins of its own, and reads every entry point
        raise ProbeError(
            f"pyOCD cannot be imported ({type(error).__name__}: {error})",
            "repair it: pip install --force-reinstall pyocd",
        ) from error
    prepare()
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
    """Return the probe for ``board``: ``asked`` (part of a uid), a remembered one, or the only
    match.

    Raise :class:`ProbeError` with the candidates if none or several match.
    """
    wanted = asked or remembered(board.name).get("probe")
    if wanted:
        fits = [probe for probe in probes if wanted.lower() in probe.uid.lower()]
        exact = [probe for probe in fits if probe.uid.lower() == wanted.lower()]
        return _only(exact or fits, f"the probe {wanted!r}", probes, "connect it")
    # The board's name comes first: several boards may share a chip or have a generic target, and
    # a probe may use the pack's name of a chip for which pyOCD has a built-in target.
    target = board.pyocd.target if board.pyocd else ""
    fits = [probe for probe in probes if probe.board.lower() == board.name] or [
        probe for probe in probes if target and probe.target.lower() == target.lower()
    ]
    # A generic probe does not know its board; it is taken if it is the only one.
    silent = [probe for probe in probes if not probe.target]
    remedy = "connect it"
    if board.default_runner != "pyocd":
        remedy = (
            f"{board.name} is emulated: `hil run MODEL --board {board.name}` starts it, "
            "--probe virtual gives it a virtual probe; or connect a probe"
        )
    return _only(fits or silent, f"a probe for {board.name}", probes, remedy)


def _only(
    fits: Sequence[ProbeInfo], what: str, probes: Sequence[ProbeInfo], remedy: str
) -> ProbeInfo:
    if len(fits) == 1:
        return fits[0]
    listed = "\n".join(f"  {probe.line}" for probe in (fits or probes)) or "  none"
    if fits:
        raise ProbeError(
            f"{what} is ambiguous: {len(fits)} connected probes match:\n{listed}",
            "choose with --probe UID; the choice is remembered for the board",
        )
    raise ProbeError(
        f"{what} is not connected; connected probes:\n{listed}",
        remedy + (", or choose a connected one with --probe UID" if probes else ""),
        is_lost=True,
    )


def choose_port(board: Board, probe: ProbeInfo, asked: str | None) -> str:
    """Return the board's serial port: ``asked``, a remembered one, or the probe's own."""
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
        f"the probe {probe.uid} of {board.name} {problem}; ports of this machine:\n{listed}",
        "choose with --port URL; the choice is remembered for the board",
    )


def _same(serial_number: str, uid: str) -> bool:
    a, b = serial_number.strip().lower(), uid.strip().lower()
    return a == b or (len(a) >= 8 and (a in b or b in a))
