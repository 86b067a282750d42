"""Read boards, libraries and compiler options from a command's arguments."""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hil
from hil.access import Connection
from hil.board import Board, load_board
from hil.cli.console import Console
from hil.cli.render import flashed_text
from hil.device.remarks import (
    check_regions,
    feed_remark,
    scratch_remark,
    shared_remark,
    tuning_remark,
)
from hil.errors import HilError, HilWarning, InputError
from hil.firmware.project import check_suits
from hil.firmware.sources import ModelOptions, load_libraries
from hilc.artifact.library import ModelLibrary
from hilc.ir import Array
from hilc.memory.pools import Pin, PoolSpec
from hilc.options import CompileOptions
from hilc.support.byte_counts import BYTE_COUNTS, parse_bytes
from hilc.support.option import flag_of, options_of
from hilc.target import load_cpu

if TYPE_CHECKING:
    from hil.device import Device

#: The options of the compiler, by their names in Python.
_OPTIONS = options_of(CompileOptions)
#: One with a word as its value, as the hints of the compiler name it.
_KEYWORD = re.compile(
    rf"\b({'|'.join(name for name, stated in _OPTIONS.items() if stated.choices)})=([a-z-]+)\b"
)


def compile_options(
    args: argparse.Namespace, board: Board | None, for_firmware: bool
) -> ModelOptions:
    """Return the compiler's options of a command line; ``--cpu`` overrides the board's core."""
    # Not at the top: what compares takes longer to import than many a model to compile.
    compared_with = None
    if args.compares and args.reference:
        from hil.verify.oracle import definition_of

        compared_with = definition_of(args.reference)
    if args.tuning is not None and board is not None:
        remark = tuning_remark(args.tuning, board)
        if remark:
            warnings.warn(remark, HilWarning, stacklevel=2)
    return ModelOptions(
        cpu=load_cpu(args.cpu).name if args.cpu else board.cpu.name if board else "host",
        is_cpu_chosen=bool(args.cpu),
        given=given_options(args, board),
        compared_with=compared_with,
        for_firmware=for_firmware,
        board=board if for_firmware and board and not board.is_host else None,
        workspace=args.workspace if for_firmware else "own",
        include_dirs=tuple(vars(args).get("include_dir", ())),
        sources=tuple(vars(args).get("source", ())),
    )


def given_options(args: argparse.Namespace, board: Board | None = None) -> dict[str, Any]:
    """Return the options of the compiler that are given, by the names of their fields.

    The regions of ``--memory`` are checked if the board is known.
    """
    text = getattr(args, "memory", None)
    memory = parse_memory(text, board) if text else ()
    read: dict[str, Callable[[Any], Any]] = {
        "memory": lambda text: memory,
        "pins": lambda words: parse_pins(words, memory),
        "shapes": parse_shapes,
        "inputs": read_constants,
        "loop_bounds": parse_loop_bounds,
        "externals": tuple,
    }
    given = {}
    for name, stated in _OPTIONS.items():
        # The name is the model's, not the code's; what compares has a reference of its own.
        if stated.form is None or name == "name" or (args.compares and name == "reference"):
            continue
        # A command that looks for the values of some options does not take them.
        value = getattr(args, flag_of(name, stated)[2:].replace("-", "_"), None)
        if value is not None and value != []:
            given[name] = read[name](value) if name in read else value
    return given


def allowed_fallback(args: argparse.Namespace) -> bool | None:
    """Return whether ``--allow-fallback`` is given; None leaves it to the environment."""
    return True if args.allow_fallback else None


def parse_shapes(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input of ``--shape NAME=1,3,224,224``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for word in words:
        name, _, sizes = word.rpartition("=")
        listed = sizes.replace("x", ",").split(",")
        if not name or not all(size.isdecimal() and int(size) > 0 for size in listed):
            raise InputError(
                f"--shape {word!r} is not NAME=SIZE,SIZE,...",
                "write the input's name and its sizes, each at least 1: x=1,3,224,224",
            )
        if name in shapes:
            raise InputError(f"--shape names {name!r} twice", "name it once")
        shapes[name] = tuple(map(int, listed))
    return shapes


def parse_loop_bounds(words: Sequence[str]) -> dict[str, int]:
    """Return the most turns of each loop of ``--loop-bound NAME=10``."""
    bounds: dict[str, int] = {}
    for word in words:
        name, _, count = word.rpartition("=")
        if not name or not re.fullmatch(r"-?[0-9]{1,20}", count):
            raise InputError(
                f"--loop-bound {word!r} is not NAME=TURNS",
                "write the name of an output of the loop, and the most turns that it makes: y=10",
            )
        if name in bounds:
            raise InputError(f"--loop-bound names {name!r} twice", "name it once")
        bounds[name] = int(count)
    return bounds


def read_constants(words: Sequence[str]) -> dict[str, Array]:
    """Return the array of each input of ``--constant NAME=F.npy``."""
    constants: dict[str, Array] = {}
    if not words:
        return constants
    from hil.verify.samples import load_array

    for word in words:
        name, _, path = word.partition("=")
        if not name or not path:
            raise InputError(f"--constant {word!r} is not NAME=FILE", "write NAME=FILE.npy")
        if name in constants:
            raise InputError(f"--constant names {name!r} twice", "name it once")
        constants[name] = load_array(Path(path))
    return constants


def board_of(args: argparse.Namespace) -> Board:
    """Return the board of the arguments, with the chosen serial line."""
    board = load_board(args.board)
    return board.over_rtt() if args.transport == "rtt" else board


def connection_of(args: argparse.Namespace, board: Board) -> Connection:
    """Return the connection to a board that the arguments choose."""
    return Connection(
        args.probe,
        args.port,
        board.is_over_rtt,
        lab=getattr(args, "lab", None),
        bulk=getattr(args, "bulk", None),
        appear_s=args.wait or 0.0,
    )


def checked_board(args: argparse.Namespace) -> Board:
    """Return the board of the arguments; raise before a build if it cannot be reached."""
    from hil.device.route import ready_route

    board = board_of(args)
    ready_route(board, args.runner, connection_of(args, board))
    return board


def parse_pins(words: Sequence[str], memory: Sequence[PoolSpec]) -> dict[str, Pin]:
    """Return the position of each input and output of ``--pin TENSOR=[REGION:]OFFSET``."""
    pins: dict[str, Pin] = {}
    for word in words:
        name, separator, place = word.rpartition("=")
        region, _, offset = place.rpartition(":")
        if not separator or (nbytes := parse_bytes(offset)) is None:
            raise InputError(
                f"--pin {word!r} does not end with =OFFSET", "write TENSOR=4096 or TENSOR=REGION:4K"
            )
        regions = [pool.name for pool in memory]
        if region and region not in regions:
            raise InputError(
                f"--pin {word!r} names the region {region!r}, which has no pool",
                f"choose one of {', '.join(regions)}" if regions else f"add --memory {region}",
            )
        if name in pins:
            raise InputError(f"--pin names {name!r} twice", "name it once")
        pins[name] = Pin(nbytes, regions.index(region) if region else 0)
    return pins


def parse_memory(text: str, board: Board | None) -> tuple[PoolSpec, ...]:
    """Return the pools of ``--memory REGION[:BYTES],...``, one per region and named after it."""
    pools: list[PoolSpec] = []
    for entry in text.split(","):
        name, separator, size = entry.strip().partition(":")
        if board is not None:
            check_regions([PoolSpec(region=name)], board, "--memory")
        elif not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise InputError(
                f"--memory {text!r}: {name!r} is not a region name", "write REGION or REGION:BYTES"
            )
        if name in [pool.name for pool in pools]:
            raise InputError(f"--memory names the region {name!r} twice", "name it once")
        limit = parse_bytes(size)
        if separator and limit is None:
            raise InputError(
                f"--memory gives region {name!r} {size!r}, which is not a number of bytes",
                f"write {BYTE_COUNTS}",
            )
        pools.append(PoolSpec(name, limit, name))
    return tuple(pools)


def compiled_for(args: argparse.Namespace, board: Board, console: Console) -> list[ModelLibrary]:
    """Return the models that the arguments name, compiled for the board's core.

    Archives are not compiled again: raise if one is for a core with instructions that the board's
    core lacks, and warn if one is for another core otherwise.
    """
    libraries = compiled(args, compile_options(args, board, for_firmware=True), console)
    if remark := shared_remark(libraries, args.workspace):
        console.warn(remark)
    for library in libraries:
        for module in library.modules:
            if remark := check_suits(library, module, board):
                console.warn(remark)
        for name, report in library.reports.items():
            for remark in (feed_remark(report), scratch_remark(report)):
                if remark:
                    console.warn(f"{name}: {remark}")
    return libraries


def compiled(
    args: argparse.Namespace, options: ModelOptions, console: Console
) -> list[ModelLibrary]:
    """Return the models that the arguments name, compiled with a progress bar."""
    with cli_option_names(), compiling(options, console) as reporting:
        return load_libraries(args.models, reporting, args.name)


@contextmanager
def cli_option_names() -> Iterator[None]:
    """Rewrite the keywords in the compiler's hints as options: ``cpu=`` as ``--cpu``."""
    try:
        yield
    except HilError as error:
        error.hint = _KEYWORD.sub(
            lambda match: f"--{match[1].replace('_', '-')} {match[2]}", error.hint
        )
        raise


@contextmanager
def compiling(options: ModelOptions, console: Console) -> Iterator[ModelOptions]:
    """Open a progress bar; yield the options of a compiler that reports to it."""
    with console.progress_total("compiling", "programs tried") as progress:
        yield replace(options, progress=progress)


@contextmanager
def opened(
    args: argparse.Namespace, board: Board, libraries: list[ModelLibrary], console: Console
) -> Iterator[Device]:
    """Open the device that the arguments name; print its log on stderr."""
    with (
        console.progress_fraction(f"programming {board.name}") as progress,
        hil.open(
            board,
            *libraries,
            runner=args.runner,
            port=args.port,
            probe=args.probe,
            transport=args.transport or "uart",
            bulk=args.bulk,
            progress=progress,
            flashed=lambda done: console.log(f"{board.name}: {flashed_text(done)}"),
            workspace=args.workspace,
            lab=args.lab,
            wait_s=args.wait or 0.0,
        ) as device,
    ):
        show_log(board.name, device, console)
        yield device


def show_log(board: str, device: Device, console: Console) -> None:
    """Print the log of a device, and whether the board behind its port is proven."""
    device.log = lambda text: console.log(f"{board}: {text}")
    if not device.is_proven:
        known = f"attached to the firmware at {device.port}" if device.port else device.source
        console.log(f"{board}: {known}; its build id is checked, not which board it runs on")
