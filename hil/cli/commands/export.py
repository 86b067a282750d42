"""``hil export``: compile models, and write them as a library of another build system."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by, exports
from hil.cli.options import (
    add_compile_options,
    add_cpu,
    add_force,
    add_models,
    add_quantize_inputs,
)
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


#: The build systems of this project; a plug-in may add others.
_BUILD_SYSTEMS = ("cmake", "zephyr", "arduino", "cmsis-pack", "platformio", "esp-idf")


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    for name in _BUILD_SYSTEMS:
        parser.renamed[f"--format {name}"] = f"--build-system {name}"
    add_models(parser, several="several models become one library")
    completed_by(
        parser.add_argument(
            "--build-system",
            required=True,
            metavar="NAME",
            help=f"{', '.join(_BUILD_SYSTEMS)}, or a plug-in's",
        ),
        exports,
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the library's folder")
    add_force(parser)
    target = parser.add_mutually_exclusive_group()
    completed_by(
        target.add_argument("--board", metavar="B", help="compile for this board's core"), boards
    )
    add_cpu(target, "compile for this core (default: code for any core)")
    group = parser.add_argument_group("library", "Entries of the library's manifest.")
    group.add_argument("--library", metavar="N", help="its name (default: the models' names)")
    group.add_argument(
        "--library-version", default="1.0.0", metavar="V", help="its version (default: 1.0.0)"
    )
    group.add_argument(
        "--vendor", default="hil", metavar="N", help="a pack's vendor (default: hil)"
    )
    group.add_argument(
        "--author", default="hil", metavar="NAME", help="author and maintainer (default: hil)"
    )
    group.add_argument("--url", default="", metavar="URL", help="the library's home page")
    group.add_argument(
        "--license",
        metavar="SPDX",
        help="license of the model's weights; that of the code is Apache-2.0",
    )
    group = parser.add_argument_group("example", "Inputs of the library's example, of one model.")
    group.add_argument(
        "--inputs",
        metavar="F.npz",
        help="take the first sample of this file: one array per input, by name (default: random "
        "values)",
    )
    add_quantize_inputs(group)
    add_compile_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.export import export_command

    return export_command(args, console)


COMMAND = Command(
    "Write models as a library of another build system, with an example.",
    add_options,
    run,
)
