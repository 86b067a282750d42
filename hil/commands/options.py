"""From a command's arguments to boards and libraries."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

import hil
from hil.board import Board
from hil.console import Console
from hil.device import Device
from hil.sources import CompileOptions, load_libraries
from hilc.library import ModelLibrary


def compile_options(args: argparse.Namespace, cpu: str, for_firmware: bool) -> CompileOptions:
    """The compiler's options of a command line; ``--cpu`` wins over ``cpu``."""
    return CompileOptions(
        cpu=args.cpu or cpu,
        codegen=args.codegen,
        api=args.api,
        interface=args.interface,
        optimize=args.optimize,
        for_firmware=for_firmware,
    )


def compiled_for(args: argparse.Namespace, board: Board) -> list[ModelLibrary]:
    """The models that the arguments name, compiled for the board's core."""
    options = compile_options(args, board.cpu.name, for_firmware=True)
    return load_libraries(args.models, options, args.name)


@contextmanager
def opened(
    args: argparse.Namespace, board: Board, libraries: list[ModelLibrary], console: Console
) -> Iterator[Device]:
    """The device that the arguments name, with its log on stderr."""
    with hil.open(board, *libraries, runner=args.runner, port=args.port) as device:
        device.log = lambda text: console.log(f"{board.name}: {text}")
        yield device
