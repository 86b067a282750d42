"""``hil quantize``: quantize a float model, and report the loss of accuracy."""

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
    parser.renamed["--samples"] = "--calibration"
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a float model: .tflite, .onnx or .pt2; with TensorFlow .keras, .h5 or a SavedModel "
        "folder; NAME=path names it",
    )
    parser.add_argument(
        "--calibration",
        required=True,
        metavar="F.npz",
        help="calibration samples: one array per input, by name, with the samples on the first "
        "axis; or an .npy file for a single input",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="a file of the model's format: .tflite, .onnx or .pt2; of Keras .tflite, of .pt2 also "
        ".onnx",
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
    parser.add_argument(
        "--signature", metavar="NAME", help="the signature of a TFLite file that is quantized"
    )
    group = parser.add_argument_group("quantizer")
    group.add_argument(
        "--calibrator",
        choices=("minmax", "entropy", "percentile", "mse"),
        default="minmax",
        help="how the ranges of activations are computed (default: minmax, all values); entropy "
        "for ONNX, mse for PyTorch",
    )
    group.add_argument(
        "--percentile",
        type=positive_float,
        metavar="P",
        help="for --calibrator percentile: percent of the values in the range (default: 99.999)",
    )
    group.add_argument(
        "--activations",
        choices=("int8", "uint8", "int16"),
        default="int8",
        help="type of activations (default: int8); int16 is more precise, and takes more "
        "memory and instructions",
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
        help="keep this node, or PyTorch module, in float32; may be repeated",
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
        help="samples that the models are compared over (default: those of --calibration)",
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
    "Quantize a float TFLite, ONNX, PyTorch or Keras model; report the loss of accuracy.",
    add_options,
    run,
)
