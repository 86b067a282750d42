"""Programming of a firmware onto a board, and the check that it runs there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hil.access import (
    Connection,
    Flashed,
    Flasher,
    check_installed,
    chosen_flasher,
    pinned,
    start,
)
from hil.access.hardware import converted, reached
from hil.device.power import power_of_board
from hil.device.recovery import Recovery, Step
from hil.device.session import open_link
from hil.errors import Attempt, InputError, LinkError, Remedy
from hil.firmware.image import check_image, has_symbol, read_image
from hil.link.client import Client
from hil.link.replies import Hello

if TYPE_CHECKING:
    from hil.board import Board

#: Function in every firmware of this project that has its protocol (one for MLPerf Tiny has not),
#: and the control block of RTT.
_OWN_SYMBOL, _RTT_SYMBOL = "hil_frame_encode", "_SEGGER_RTT"


@dataclass(frozen=True)
class ElfImage:
    """Image known by its ELF file only."""

    elf: Path


@dataclass(frozen=True)
class Deployed:
    """Result of :func:`deploy`."""

    flashed: Flashed
    #: The firmware's answer to the handshake; None for an image of another project.
    hello: Hello | None
    #: Steps that brought the board back.
    recoveries: tuple[Attempt, ...] = ()


def deploy(board: Board, elf: Path, connection: Connection, flasher: str | None = None) -> Deployed:
    """Program ``elf`` if the board does not have it yet, reset the board, and shake hands.

    A board that fails is programmed again, and switched off and on where the user configured how
    (:mod:`hil.device.power`). Raise :class:`~hil.errors.LinkError` where something else answers,
    or nothing does. An image that is none of this project's is started, and that is all.
    ``flasher`` is the name of one of the board's flashers, by default its first.
    """
    check_image(board, elf)
    board, chosen = chosen_flasher(board, flasher)
    check_installed(chosen, board)
    if not has_symbol(elf, _OWN_SYMBOL):
        return Deployed(_start_foreign(board, elf, connection, chosen), None)
    if has_symbol(elf, _RTT_SYMBOL):
        board = board.over_rtt()
        if connection.port is not None:
            raise InputError(
                f"{elf} has RTT as its line, which goes through the probe, not through a port",
                "drop --port",
            )
    elif board.is_over_rtt:
        raise InputError(
            f"{elf} has a UART as its serial line, not RTT", "build it with --transport rtt"
        )
    power = power_of_board(board)
    # Every attempt is for the board that was chosen first, also while another one is connected.
    connection = pinned(board, chosen.name, connection)

    def again() -> None:
        nonlocal connection
        # The user consented to erase the chip once.
        connection = replace(connection, erase_to_unlock=False)

    def cycle() -> None:
        nonlocal connection
        assert power is not None
        again()
        power.cycle()
        connection = replace(connection, appear_s=power.return_s)

    # The first attempt does not verify; a repeated one reads back, programs and resets.
    steps = [Step(Remedy.FLASH, "programming it again", again)]
    if power is not None:
        steps.append(Step(Remedy.POWER, "a power cycle", cycle))
    recovery = Recovery(board.name, lambda _: steps, unit=connection.uid)
    deployed = recovery.repeated(lambda: _deployed(board, elf, connection, chosen.name))
    return replace(deployed, recoveries=recovery.unreported())


def _deployed(board: Board, elf: Path, connection: Connection, flasher: str) -> Deployed:
    done: list[Flashed] = []
    with start(board, ElfImage(elf), flasher, replace(connection, flashed=done.append)) as running:
        link = open_link(board, running)
        try:
            hello = Client(link).hello
        finally:
            link.close()
    if not _holds(elf, hello.build_id):
        raise LinkError(
            f"the board at {running.url} runs firmware {hello.build_id} (board {hello.board!r}), "
            f"which is not {elf}",
            "is this the port of the board that was programmed? choose with --port URL",
        )
    return Deployed(done[0], hello)


def _start_foreign(board: Board, elf: Path, connection: Connection, flasher: Flasher) -> Flashed:
    """Start a firmware without opening its serial line."""
    with (
        converted(flasher, board, elf) as image,
        reached(flasher, board, connection) as chosen,
        flasher.open(board, chosen.uid, connection) as session,
    ):
        done = session.program(image, connection.progress)
        session.start(image)
    return done


def _holds(elf: Path, build_id: str) -> bool:
    """Return whether the image has this build id."""
    return any(build_id.encode() in segment.data for segment in read_image(elf))
