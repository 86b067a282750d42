"""``hil verify --against``: compare firmware of other people by its tap points."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hil.access import flasher_named
from hil.access.board_lock import board_lock
from hil.access.probes import choose_probe, lock_names, only_line, probes_for
from hil.board import load_board
from hil.board.config import configured
from hil.board.line import DEFAULT_BAUD, LineSettings
from hil.cli.arguments import allowed_fallback, compile_options, compiled
from hil.cli.console import Console
from hil.cli.reports import Outcome
from hil.errors import BoardError, InputError
from hil.lab.selector import parse_selector
from hil.link.line import Link, await_port
from hil.link.ports import is_by_usb
from hil.verify.against import verify_tapped
from hil.verify.oracle import reference_of
from hilc.options import CompileOptions
from hilc.support.option import flag_of, options_of

#: Arguments that mean something here, beside the options that say what the model is; any other
#: option would be ignored.
_APPLY = (
    *("against", "baud", "checksums", "samples", "reference", "per_layer", "no_history"),
    "allow_fallback",
    *("format", "json", "quiet", "verbose", "help"),
)


def against_command(args: argparse.Namespace, console: Console) -> int:
    """Compare each layer that a firmware taps with the reference of the model's file.

    Raise :class:`InputError` unless there is exactly one model.
    """
    _check(args)
    url, board = _line_of(args.against, args.wait or 0.0)
    # Each layer by itself, whole: as other runtimes compute them.
    options = compile_options(args, None, for_firmware=False)
    layers = {"optimize": "speed", "fold_constant_channels": False}
    options = replace(options, cpu="host", given={**options.given, **layers})
    libraries = compiled(args, options, console)
    modules = [(library, module) for library in libraries for module in library.modules]
    if len(modules) != 1:
        raise InputError(
            f"--against compares one model, and {len(modules)} are given", "compare them one by one"
        )
    ((library, module),) = modules
    oracle = reference_of(library, module, args.reference, allow_fallback=allowed_fallback(args))
    with (
        board_lock(f"the board at {url}", *lock_names(None, url), wait_s=args.wait or 0.0),
        closing(Link(url, settings=LineSettings(args.baud or DEFAULT_BAUD))) as link,
    ):
        report = verify_tapped(link, module, oracle, args.samples, checksums=args.checksums)
    report = replace(report, board=board)
    code = 0 if report.match else 1
    console.outcome(Outcome("verify", board, [report], exit_code=code, in_detail=True))
    return code


def _check(args: argparse.Namespace) -> None:
    """Raise for options that would be ignored: nothing is built for a board or started, and the
    firmware has its own inputs.
    """
    of_model = {
        flag_of(name, stated)
        for name, stated in options_of(CompileOptions).items()
        if stated.of_model
    }
    for action in args.parser._actions:
        if action.dest in _APPLY or not action.option_strings:
            continue
        if of_model.intersection(action.option_strings):
            continue
        if getattr(args, action.dest, action.default) not in (action.default, None, []):
            option = max(action.option_strings, key=len)
            raise InputError(
                f"{option} does not apply to --against, where the firmware runs by itself with "
                "inputs of its own",
                f"drop {option}",
            )


def _line_of(word: str, wait_s: float) -> tuple[str, str]:
    """Return the port or URL that ``word`` is or whose board it names, and what reports call it."""
    is_description = word.endswith(".toml")
    if not is_description and ("/" in word or is_by_usb(word) or Path(word).exists()):
        await_port(word, wait_s)
        return word, word
    remedy = "give the serial port or pyserial URL where your firmware's bytes arrive"
    if parse_selector(word) is not None:
        raise InputError(f"--against {word}: a board of a lab runs firmware of hil only", remedy)
    try:
        board = load_board(word)
    except BoardError as error:
        if is_description:
            raise
        raise InputError(
            f"--against {word!r} is no serial port, no URL and no board", error.hint or remedy
        ) from None
    if port := configured(board.name).get("port"):
        return port, board.name
    if board.default_runner not in board.flashers:
        raise InputError(
            f"--against {word}: {board.default_runner} starts {board.name}, with firmware of hil "
            "only",
            f"{remedy}, such as socket://localhost:4444 of the emulator that you start",
        )
    probes = probes_for(board, flasher_named(board.flashers[0]))
    return only_line(board, choose_probe(board, None, probes)), board.name
