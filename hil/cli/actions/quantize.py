"""``hil quantize``: convert a float model to an integer one, and report the loss."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hil.cli.arguments import parse_shapes
from hil.cli.console import Console, shown_name, table
from hil.results.compile import OutputNoise, QuantizeEntry
from hil.verify.samples import load_array, load_arrays
from hilc.quantization import QuantizedModel, check_suffix, is_own_file, quantize, suffix_of
from hilc.quantization.report import summary_lines
from hilc.support.outputs import check_file
from hilc.support.suggest import counted

#: Tensors in the table, unless all are asked for.
_SHOWN = 12


def quantize_command(args: argparse.Namespace, console: Console) -> int:
    """Quantize one model; write it, and print the report."""
    start = time.monotonic()
    check_file(
        args.output,
        ".onnx",
        ".pt2",
        ".tflite",
        kind="a quantized model",
        is_own=is_own_file,
        force=args.force,
    )
    name, _, path = args.model.rpartition("=")
    if suffix := suffix_of(path):
        check_suffix(args.output, suffix)
    samples = _samples(args.calibration)
    with ExitStack() as stack:

        def progress(what: str, count: int) -> Callable[[], None]:
            shown = stack.enter_context(
                console.progress_total(f"{what} {counted(count, 'sample')}", "done")
            )
            return shown or (lambda: None)

        made = quantize(
            path,
            samples,
            labels=load_array(Path(args.labels)) if args.labels else None,
            test=_samples(args.test) if args.test else None,
            name=name or args.name,
            shapes=parse_shapes(args.shape),
            signature=args.signature,
            calibrator=args.calibrator,
            percentile=args.percentile,
            activations=args.activations,
            per_channel=not args.per_tensor,
            exclude=args.exclude,
            keep_state=args.keep_state,
            progress=progress,
        )
    made.save(args.output)
    for warning in made.report.warnings:
        console.warn(warning)
    seconds = round(time.monotonic() - start, 3)
    console.result(_entry(made, args, seconds), _text(made, args, seconds))
    return 0


def _samples(path: str) -> Any:
    """Return the arrays of a file: an NPZ, or an NPY for a model of one input."""
    if Path(path).suffix.lower() == ".npy":
        return load_array(Path(path))
    return load_arrays(Path(path))


def _text(made: QuantizedModel, args: argparse.Namespace, seconds: float) -> str:
    report = made.report
    shown = report.tensors if args.per_layer else report.tensors[:_SHOWN]
    rows = [
        [shown_name(t.name), t.op or "input", t.dtype, _db(t.sqnr_db), f"{100 * t.clipped:.2f} %"]
        for t in shown
    ]
    lines = [f"{made.name}: quantized with {counted(report.calibration_samples, 'sample')}"]
    lines += summary_lines(report)
    lines.append(table(rows, ["tensor, the noisiest first", "operator", "type", "dB", "clipped"]))
    if len(shown) < len(report.tensors):
        lines.append(f"and {len(report.tensors) - len(shown)} more, see --per-layer")
    lines.append(f"{args.output} in {seconds} s")
    return "\n".join(lines)


def _db(value: float | None) -> str:
    return "exact" if value is None else f"{value:.1f}"


def _entry(made: QuantizedModel, args: argparse.Namespace, seconds: float) -> QuantizeEntry:
    report = made.report
    return QuantizeEntry(
        model=made.name,
        output=args.output,
        calibration_samples=report.calibration_samples,
        calibrator=args.calibrator,
        activations=args.activations,
        per_channel=not args.per_tensor,
        compared_samples=report.samples,
        accuracy=report.accuracy,
        outputs=tuple(OutputNoise(name, db) for name, db in report.outputs.items()),
        tensors=tuple(report.tensors),
        not_excluded=tuple(report.not_excluded),
        float_layers=tuple(report.float_layers),
        seconds=seconds,
    )
