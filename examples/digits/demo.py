#!/usr/bin/env python3
"""Classifies handwritten digits on a board and compares every answer with the reference.

``make demo`` runs it on an emulated Cortex-M4; ``--board`` chooses another of ``hil boards``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

import hil
import hilc
from hil.bench import bench
from hil.board import load_board
from hil.cli.console import table
from hil.cli.render import bench_text
from hil.oracle import reference_of
from hilc.artifact.library import Module, TensorInfo
from hilc.errors import HilError
from hilc.ir import Array

HERE = Path(__file__).resolve().parent
MODEL = HERE / "digits.tflite"


def main() -> int:
    """Run the demo; 1 when an answer differs from the reference's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", default="mps2-an386", help="default: %(default)s")
    parser.add_argument("--images", type=int, metavar="N", help="only the first N images")
    args = parser.parse_args()

    images = np.load(HERE / "digits_test.npz")["image"][: args.images]
    labels = np.load(HERE / "digits_labels.npy")[: args.images]

    start = time.monotonic()
    board = load_board(args.board)
    # One pool for everything, inputs and outputs too: what a firmware with little RAM wants.
    library = hilc.compile(MODEL, cpu=board.cpu.name, pools="external", io_in_pool=True)
    (module,) = library.modules
    print(f"compiled {MODEL.name} for {board.cpu.name} in {time.monotonic() - start:.1f} s")

    start = time.monotonic()
    with hil.open(board, library) as device:
        print(f"built the firmware and started {board.name} in {time.monotonic() - start:.1f} s")
        start = time.monotonic()
        answers = []
        for image in tqdm(images, desc=f"digits on {board.name}", unit="image", disable=None):
            model = device[module.name]
            model.set_input("image", image[np.newaxis])
            model.run()
            answers.append(model.get_output(0))
        seconds = time.monotonic() - start
        report = bench(device, module)

    reference = reference_of(library, module)
    samples = [{"image": image[np.newaxis]} for image in images]
    name = module.outputs[0].name
    expected = [reference.values(index, sample)[name] for index, sample in enumerate(samples)]
    equal = sum(map(np.array_equal, answers, expected))
    right = sum(
        int(np.argmax(answer)) == label for answer, label in zip(answers, labels, strict=True)
    )

    print(f"classified {len(images)} images over the serial line in {seconds:.1f} s\n")
    print(drawing(images[0]))
    print(f"the board says {np.argmax(answers[0])}, the label {labels[0]}\n")
    print(f"accuracy   {right / len(images):.2%} ({right} of {len(images)} images)")
    print(f"match      {equal} of {len(images)} answers equal, byte for byte, those of")
    print(f"           {reference.description}\n")
    print(bench_text(report, per_layer=True))
    print(f"\n{plan_text(module)}")
    return 0 if equal == len(images) else 1


def drawing(image: Array) -> str:
    """Return an 8x8 image in characters."""
    shades = " .:-=+*#%@"
    rows = (image[..., 0].astype(int) + 128) * (len(shades) - 1) // 255
    return "\n".join("  " + "".join(2 * shades[value] for value in row) for row in rows)


def plan_text(module: Module) -> str:
    """Where each tensor lies in the workspace, and from when to when."""
    steps = ["caller", *(f"layer {index}" for index in range(len(module.layers))), "caller"]
    written = [(tensor, 0) for tensor in module.inputs]
    for step, layer in enumerate(module.layers, 1):
        written += [(tensor, step) for tensor in layer.outputs]
    rows = [
        [tensor.offset, tensor.nbytes, steps[step], steps[last_use(module, tensor, step)], name]
        for tensor, step in written
        # The converter joins the names of all that it fused into a layer.
        for name in [tensor.name.split(";")[0]]
    ]
    title = f"plan: {module.workspace_bytes:,} bytes for every tensor, inputs and outputs included"
    return f"{title}\n\n{table(rows, ['offset', 'bytes', 'written by', 'last read by', 'tensor'])}"


def last_use(module: Module, tensor: TensorInfo, first: int) -> int:
    """Return the last step that reads ``tensor``, written in step ``first``; layers are steps from
    1.
    """
    last = first
    for step, layer in enumerate(module.layers[first:], first + 1):
        if tensor.offset in [argument.value for argument in layer.arguments[: layer.input_count]]:
            last = step
        if tensor.offset in [argument.value for argument in layer.output_arguments]:
            return last
    # Nothing was written over it: it may be what the caller reads.
    is_output = tensor.offset in [output.offset for output in module.outputs]
    return len(module.layers) + 1 if is_output else last


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HilError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
