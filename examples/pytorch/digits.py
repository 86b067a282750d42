#!/usr/bin/env python3
"""Trains a network of PyTorch on handwritten digits, quantizes it, and runs both on a board.

    pip install 'hil-harness[torch]' scikit-learn
    python digits.py [--board mps2-an386]

The board is an emulated microcontroller, unless another is named. The script ends with exit code 1
unless the board's answers are those of PyTorch for the network in floats, and byte for byte those
of the reference for the quantized one.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import hil
from hil.bench import bench
from hil.oracle import reference_of
from hilc import ModelLibrary

EPOCHS = 40
#: Relative to the largest output: sums in another order.
TOLERANCE = 1e-5


class Digits(nn.Module):  # type: ignore[misc]
    """Two convolutions with batch normalization, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classes = nn.Linear(24 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.classes(self.features(x).flatten(1))
        return y


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1,797 images of 8 by 8 pixels, in a fixed random order, and what they show."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    pixels = torch.tensor(images[order].reshape(-1, 1, 8, 8) / 16, dtype=torch.float32)
    return pixels, torch.tensor(labels[order])


def train(images: torch.Tensor, labels: torch.Tensor) -> Digits:
    torch.manual_seed(0)
    # The layers are too small for several threads.
    torch.set_num_threads(1)
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[part]), labels[part]).backward()
            optimizer.step()
    model.eval()
    return model


def on_board(board: str, library: ModelLibrary, images: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a network's outputs on a board, and the instructions of an inference."""
    (module,) = library.modules
    outputs = []
    with hil.open(board, library) as device:
        model = device[module.name]
        for image in images:
            model.set_input(0, image[np.newaxis])
            model.run()
            outputs.append(model.get_output(0)[0])
        return np.stack(outputs), bench(device, module).per_inference


def off_the_reference(library: ModelLibrary, images: np.ndarray, outputs: np.ndarray) -> int:
    """Return how many outputs of a board are not those of the library's reference."""
    (module,) = library.modules
    reference = reference_of(library, module)
    (given,), (result,) = module.inputs, module.outputs
    wanted = [
        reference.values(index, {given.name: image[np.newaxis]})[result.name][0]
        for index, image in enumerate(images)
    ]
    return int((np.stack(wanted) != outputs).sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="mps2-an386", help="a board of `hil boards`")
    parser.add_argument("--images", type=int, default=100, help="how many run on the board")
    args = parser.parse_args()
    start = time.monotonic()
    images, labels = data()
    model = train(images[360:], labels[360:])
    calibration, images, labels = images[360:560], images[: args.images], labels[: args.images]

    quantized = hil.quantize(model, calibration, test=images, labels=labels)
    noisiest = quantized.report.tensors[0]
    print(f"quantized: {noisiest.name} is the noisiest tensor, at {noisiest.sqnr_db} dB")
    libraries = {
        "float32": hil.compile(model, images[:1], board=args.board),
        "int8": hil.compile(quantized, board=args.board),
    }
    found = {}
    for name, library in libraries.items():
        (module,) = library.modules
        outputs, count = on_board(args.board, library, images.numpy())
        found[name] = outputs
        right = float((outputs.argmax(1) == labels.numpy()).mean())
        print(
            f"{name}: {100 * right:.1f} % right, {count:,} instructions, "
            f"{module.constants_bytes:,} bytes of constants, {module.workspace_bytes:,} of RAM"
        )
    with torch.no_grad():
        wanted = model(images).numpy()
    far = float(np.abs(found["float32"] - wanted).max() / np.abs(wanted).max())
    print(f"float32: {far:.1e} of the largest output off PyTorch, at most")
    off = off_the_reference(libraries["int8"], images.numpy(), found["int8"])
    print(f"int8: {off} of {wanted.size} outputs off the reference")
    print(f"{args.board}: {time.monotonic() - start:.0f} s")
    return 0 if far <= TOLERANCE and not off else 1


if __name__ == "__main__":
    sys.exit(main())
