#!/usr/bin/env python3
"""Trains a network of PyTorch on handwritten digits, and runs it on an emulated microcontroller.

    pip install 'hil-harness[torch]' scikit-learn
    python digits.py [--board mps2-an386]

It ends with exit code 1 unless the board's answers are those of PyTorch.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import hil

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
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[part]), labels[part]).backward()
            optimizer.step()
    model.eval()
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="mps2-an386", help="a board of `hil boards`")
    parser.add_argument("--images", type=int, default=100, help="how many run on the board")
    args = parser.parse_args()
    images, labels = data()
    model = train(images[360:], labels[360:])
    images, labels = images[: args.images], labels[: args.images]

    library = hil.compile(model, images[:1], board=args.board)
    with torch.no_grad():
        wanted = model(images).numpy()
    found = np.empty_like(wanted)
    with hil.open(args.board, library) as device:
        on_board = device["digits"]
        for number, image in enumerate(images.numpy()):
            on_board.set_input(0, image[np.newaxis])
            on_board.run()
            found[number] = on_board.get_output(0)[0]

    off = float(np.abs(found - wanted).max() / np.abs(wanted).max())
    right = int((found.argmax(1) == labels.numpy()).sum())
    print(f"{args.board}: {right} of {len(images)} digits right")
    print(f"largest difference from PyTorch: {off:.1e} of the largest output")
    return 0 if off <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
