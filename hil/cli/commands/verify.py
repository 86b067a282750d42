"""``hil verify``: compare a model on a board with a reference."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    LIBRARY_MODEL,
    SAMPLES,
    add_allow_fallback,
    add_device_options,
    add_models,
    add_quantize_inputs,
    add_recording,
    add_seed,
)
from hil.cli.parser import Parser, positive_int

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.add_argument(
        "--samples", type=positive_int, metavar="N", help=f"number of samples (default: {SAMPLES})"
    )
    add_seed(parser)
    parser.add_argument(
        "--inputs",
        metavar="F.npz",
        help="samples: one array per input, by name; of one input also an NPY file",
    )
    add_quantize_inputs(parser)
    parser.add_argument("--expect", metavar="F.npz", help="expected outputs, for --inputs")
    parser.add_argument(
        "--reference",
        metavar="NAME",
        help="tflm, litert-ref, litert, onnx, onnxruntime, qdq or hilc (default: tflm for TFLite "
        "models that it runs, qdq for quantized ones of ONNX and PyTorch, onnx for others of "
        "these); a model file is compiled with the reference's arithmetic",
    )
    add_allow_fallback(parser)
    parser.has_reports = True
    add_recording(parser)
    parser.add_argument(
        "--against",
        metavar="PORT",
        help="in place of --board: compare the layers that other firmware taps (hil_tap.h) at this "
        "serial port or pyserial URL, or at the port of this real board; --samples inferences "
        "(default: 10 to 100, as many as arrive in about 5 s)",
    )
    parser.add_argument(
        "--baud",
        type=positive_int,
        metavar="N",
        help="of --against's serial port (default: 115200)",
    )
    parser.add_argument(
        "--checksums",
        action="store_true",
        help="with --against: let the firmware send checksums of layers, then the bytes of the "
        "first that differs",
    )
    parser.add_argument(
        "--per-layer", action="store_true", help="compare the outputs of every layer, too"
    )
    parser.add_argument(
        "--metrics",
        action="store_true",
        help="report the error against the reference: RMSE, MAE, L2r, NSE, cosine, SNR, "
        "top-1; with --per-layer of every layer",
    )
    parser.add_argument(
        "--float-model",
        metavar="F",
        help="also report the error against the float model that this one was quantized from",
    )
    parser.add_argument(
        "--keep-state",
        action="store_true",
        help="run the samples as one sequence: reset states before the first sample only",
    )
    add_device_options(
        parser,
        several=True,
        required=False,
        source=LIBRARY_MODEL,
        compares=True,
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.verify import verify_command

    return verify_command(args, console)


COMMAND = Command(
    "Compare a model on a board with a reference.",
    add_options,
    run,
)
