"""Selection of a board's debug probe, and of the serial ports that may be the board's line.

A probe may report the board that it sits on: its name, or the flasher's name of its chip. For the
others the user's configuration keeps on which board they were used (:mod:`hil.board.config`). A
serial port of the same USB device has the probe's serial number. Which of the ports is the board's
line, the runner proves (:mod:`hil.access.proof`). If the choice of a probe is ambiguous, the error
lists the candidates.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hil.access.connection import Connection, ProbeInfo
from hil.access.registry import flasher_named, flashers
from hil.access.usb import usb_paths
from hil.board.config import configured, remembered
from hil.errors import ProbeError
from hil.link.line import device_of
from hil.link.ports import USB, is_by_usb, lasting_name, listed, matching, serial_ports

if TYPE_CHECKING:
    from hil.access.protocols import Flasher
    from hil.board import Board


def connected_probes() -> list[ProbeInfo]:
    """Return the probes that the installed flashers find; virtual probes are among them.

    Raise :class:`ProbeError` where a flasher cannot list them.
    """
    found: list[ProbeInfo] = []
    for flasher in flashers().values():
        need = flasher.needs(None)
        if need is not None and not need.is_there():
            continue
        # Two flashers may use one probe; two probes of one flasher may have one serial number.
        known = {probe.uid for probe in found}
        found += [probe for probe in flasher.probes() if probe.uid not in known]
    return found


def probes_for(board: Board, flasher: Flasher) -> list[ProbeInfo]:
    """Return the probes through which ``flasher`` may reach ``board``.

    Raise :class:`ProbeError` where it cannot list them, or its program is not installed.
    """
    need = flasher.needs(board)
    if need is not None and not need.is_there():
        raise ProbeError(f"{need.name} is not installed", need.hint)
    return flasher.candidates(board, Connection())


def choose_probe(board: Board, asked: str | None, probes: Sequence[ProbeInfo]) -> ProbeInfo:
    """Return the probe for ``board``: ``asked`` (part of a uid), the configured one, or the only
    one that may be on such a board.

    Raise :class:`ProbeError` with the candidates if none or several match, and for one that shares
    its serial number with another: a probe is opened by that number.
    """
    wanted = asked or configured(board.name).get("probe")
    if wanted:
        fits = [probe for probe in probes if wanted.lower() in probe.uid.lower()]
        exact = [probe for probe in fits if probe.uid.lower() == wanted.lower()]
        return _only(exact or fits, f"the probe {wanted!r}", probes, "connect it")
    remedy = f"connect it; `hil doctor --board {board.name}` shows whether it is found"
    if board.default_runner not in board.flashers:
        remedy = (
            f"connect it; without one, `hil run MODEL --board {board.name}` starts the board in "
            f"{board.default_runner}, and --probe virtual emulates the probe as well"
        )
    return _only(_possible(board, probes), f"a probe for {board.name}", probes, remedy)


def same_probe(uid: str, probes: Sequence[ProbeInfo]) -> ProbeInfo:
    """Return the probe that was chosen before, by its whole unique id; :class:`ProbeError` while it
    is not connected, also where others could be chosen.
    """
    fits = [probe for probe in probes if probe.uid == uid]
    return _only(fits, f"the probe {uid!r}", probes, "connect it again", is_chosen=True)


def known_probes(board: Board, probes: Sequence[ProbeInfo]) -> list[ProbeInfo]:
    """Return the probes of boards of this type: they report it, or were used on one."""
    reporting = _reporting(board, probes)
    used = [probe for probe in probes if not probe.target and probe.last_board == board.name]
    return reporting + [probe for probe in used if probe not in reporting]


def _reporting(board: Board, probes: Sequence[ProbeInfo]) -> list[ProbeInfo]:
    # The board's name comes first: several boards may share a chip or have a generic target, and
    # a probe may use another name of the chip than the flasher.
    targets = {flasher_named(name).target(board).lower() for name in board.flashers} - {""}
    return [probe for probe in probes if probe.board.lower() == board.name] or [
        probe for probe in probes if probe.target.lower() in targets
    ]


def _possible(board: Board, probes: Sequence[ProbeInfo]) -> list[ProbeInfo]:
    """Return the probes among which the user has to choose."""
    if _reporting(board, probes):
        return known_probes(board, probes)
    # A generic probe does not know its board: two may sit on two boards of this type.
    silent = [probe for probe in probes if not probe.target]
    return [probe for probe in silent if probe.last_board in ("", board.name)]


def _only(
    fits: Sequence[ProbeInfo],
    what: str,
    probes: Sequence[ProbeInfo],
    remedy: str,
    *,
    is_chosen: bool = False,
) -> ProbeInfo:
    if len({probe.uid for probe in fits}) == 1:
        if len(fits) > 1:
            raise _twins(fits)
        return fits[0]
    lines = "\n".join(f"  {probe.line}" for probe in (fits or probes)) or "  none"
    if fits:
        raise ProbeError(
            f"{what} is ambiguous: {len(fits)} connected probes match:\n{lines}",
            "choose with --probe UID",
        )
    raise ProbeError(
        f"{what} is not connected; connected probes:\n{lines}",
        remedy
        + (", or choose a connected one with --probe UID" if probes and not is_chosen else ""),
        is_lost=True,
    )


def _twins(probes: Sequence[ProbeInfo]) -> ProbeError:
    """Return the error for several probes with one serial number."""
    uid = probes[0].uid
    lines = "\n".join(f"  {name} at USB path {path}" for path, name in usb_paths(uid))
    return ProbeError(
        f"{len(probes)} connected probes have the serial number {uid}, by which they are "
        f"opened:\n{lines or '  ' + probes[0].line}",
        "unplug all but one, or give them different serial numbers by their maker's tool",
    )


def lines_of(board: Board, probe: ProbeInfo, asked: str | None) -> list[str]:
    """Return lasting names of the ports that may be the line of the board behind ``probe``, the
    most likely first: ``asked`` alone, or the stored one, the probe's own, the configured one.

    Raise :class:`ProbeError` with the ports of the machine if there is none.
    """
    ports = serial_ports()
    own = [port for port in ports if port.serial and _same(port.serial, probe.uid)]
    if asked:
        found = matching(asked, ports) if is_by_usb(asked) else []
        return [lasting_name(port.device, ports) for port in found] or [lasting_name(asked, ports)]
    words = [
        remembered(probe.uid).get("port"),
        *(port.device for port in own),
        configured(board.name).get("port"),
    ]
    names = list(dict.fromkeys(lasting_name(word, ports) for word in words if word))
    if not names:
        raise ProbeError(
            f"the probe {probe.uid} of {board.name} has no serial port of its own; ports of this "
            f"machine:\n{listed([port for port in ports if port.is_usb])}",
            f"choose with --port {USB}SERIAL[:INTERFACE] or another port; it is remembered for "
            "the probe once it has been proven to be the board's",
        )
    return names


def only_line(board: Board, probe: ProbeInfo) -> str:
    """Return the only port that may be the board's line, where nothing can be proven: the firmware
    is not ours, or does not run. Raise :class:`ProbeError` for none or several.
    """
    names = lines_of(board, probe, None)
    if len(names) > 1:
        raise ProbeError(
            f"the serial line of {board.name} behind the probe {probe.uid} may be any of:\n"
            + "\n".join(f"  {name}" for name in names),
            "give the port itself",
        )
    return names[0]


def lock_names(probe: str | None, port: str | None) -> list[str]:
    """Return the names by which the board behind a probe or a port is locked, whatever the names
    by which it is chosen.

    ``probe`` is a unique id or a part of one. A port that has the serial number of a probe locks
    the probe as well. What is not connected has the name that was given.
    """
    ports = serial_ports()
    names = [] if probe is None else [_whole_id(probe)]
    if port is not None:
        found = matching(port, ports) if is_by_usb(port) else []
        device = found[0].device if len(found) == 1 else device_of(port)
        names.append(device)
        own = next(
            (p for p in ports if os.path.realpath(device) == os.path.realpath(p.device)), None
        )
        if own is not None and own.serial:
            names += [each.uid for each in _listed_probes() if _same(own.serial, each.uid)]
    return list(dict.fromkeys(names))


def _whole_id(probe: str) -> str:
    """Return the only unique id that has this part, or the part itself: of another kind of probe,
    or of one that is not connected.
    """
    fits = {each.uid for each in _listed_probes() if probe.lower() in each.uid.lower()}
    exact = {uid for uid in fits if uid.lower() == probe.lower()}
    return next(iter(exact or fits)) if len(exact or fits) == 1 else probe


def _listed_probes() -> list[ProbeInfo]:
    """Return the connected probes; none where they cannot be listed, so that none is used."""
    try:
        return connected_probes()
    except ProbeError:
        return []


def reports_board(probe: ProbeInfo, board: Board) -> bool:
    """Return whether a probe reports that it sits on a board of this type or on its chip."""
    if probe.board:
        return probe.board.lower() == board.name
    targets = {flasher_named(name).target(board).lower() for name in board.flashers} - {""}
    return probe.target.lower() in targets


def has_serial(probe: ProbeInfo, serial: str) -> bool:
    """Return whether a USB device with this serial number is the probe's."""
    return bool(serial) and _same(serial, probe.uid)


def is_obvious(probe: ProbeInfo, name: str) -> bool:
    """Return whether a port is the only one of the probe's own, so that it need not be stored."""
    own = [p for p in serial_ports() if p.serial and _same(p.serial, probe.uid)]
    return len(own) == 1 and lasting_name(own[0].device) == name


def _same(serial_number: str, uid: str) -> bool:
    a, b = serial_number.strip().lower(), uid.strip().lower()
    return a == b or (len(a) >= 8 and (a in b or b in a))
