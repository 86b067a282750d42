"""``hil quantize``: quantize a model in floats, and report what is lost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import add_force
from hil.cli.parser import Parser, positive_float

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "model", metavar="MODEL", help="an .onnx or .pt2 file in floats; NAME=path names it"
    )
    parser.add_argument(
        "--samples",
        required=True,
        metavar="F.npz",
        help="calibration samples: one array per input, by name, the first axis counts them; or an "
        ".npy file for the only input",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="an .onnx file, or .pt2 of a .pt2"
    )
    add_force(parser)
    parser.add_argument("--name", metavar="N", help="the model's name")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=N,N,...",
        help="the shape of an input that the model leaves open; may be repeated",
    )
    group = parser.add_argument_group("quantizer")
    group.add_argument(
        "--calibrator",
        choices=("minmax", "entropy", "percentile", "mse"),
        default="minmax",
        help="how ranges of activations are found (default: minmax, all values); entropy for ONNX, "
        "mse for PyTorch",
    )
    group.add_argument(
        "--percentile",
        type=positive_float,
        metavar="P",
        help="of the calibrator percentile: the share of values within the range (default: 99.999)",
    )
    group.add_argument(
        "--activations",
        choices=("int8", "uint8", "int16"),
        default="int8",
        help="type of activations (default: int8); int16 takes more memory and instructions, and "
        "has less noise",
    )
    group.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for all weights of a layer (default: one for each output channel)",
    )
    group.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="NODE",
        help="leave this node, or module of PyTorch, in floats; may be repeated",
    )
    group.add_argument(
        "--keep-state",
        action="store_true",
        help="the samples are one sequence: reset states before the first sample only",
    )
    report = parser.add_argument_group("report")
    report.add_argument(
        "--test",
        metavar="F.npz",
        help="samples that the models are compared over (default: those of --samples)",
    )
    report.add_argument(
        "--labels", metavar="F.npy", help="the class of each of these samples, for the accuracy"
    )
    report.add_argument("--per-layer", action="store_true", help="show every tensor")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.quantize import quantize_command

    return quantize_command(args, console)


COMMAND = Command(
    "Quantize an ONNX or PyTorch model in floats, and report what is lost.",
    add_options,
    run,
)
