#!/usr/bin/env python3
"""A transformer that tells sounds apart on an emulated microcontroller, in floats or in int8.

    pip install 'hil-harness[torch]' torchao
    python keywords.py [--board mps2-an386] [--int8]

It takes a spectrogram of 49 frames with 40 bands, as keyword spotting does, and has 200,000
parameters. It learns sounds that the script draws itself. The script ends with exit code 1 unless
the board's answers are those of the reference.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import hil
from hil import verify
from hil.bench import bench
from hil.oracle import reference_of

FRAMES, BANDS = 49, 40
CLASSES = ("rising", "falling", "two tones", "noise")


class Layer(nn.Module):  # type: ignore[misc]
    """Attention among frames, then two linear layers, each behind a normalization."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.wide = nn.Linear(dim, 4 * dim)
        self.narrow = nn.Linear(4 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:2], self.heads, -1)
        q, k, v = (
            part.reshape(shape).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        z: torch.Tensor = self.narrow(F.gelu(self.wide(self.norms[1](x))))
        return x + z


class Keywords(nn.Module):  # type: ignore[misc]
    """Frames of a spectrogram as the words of a text; the mean of what becomes of them is told."""

    def __init__(self, dim: int = 64, heads: int = 4, layers: int = 4) -> None:
        super().__init__()
        self.frames = nn.Linear(BANDS, dim)
        self.places = nn.Parameter(torch.randn(1, FRAMES, dim) * 0.02)
        self.layers = nn.Sequential(*(Layer(dim, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(dim)
        self.classes = nn.Linear(dim, len(CLASSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(self.frames(x) + self.places)
        found: torch.Tensor = self.classes(self.norm(y).mean(1))
        return found


def sounds(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return spectrograms ``[count, frames, bands]`` in noise, and what they are of."""
    draw = np.random.default_rng(seed)
    time, band = np.arange(FRAMES)[:, None], np.arange(BANDS)
    found = draw.normal(0, 0.7, (count, FRAMES, BANDS))
    labels = draw.integers(0, len(CLASSES), count)
    for sound, label in zip(found, labels, strict=True):
        start, slope = draw.uniform(8, 18), draw.uniform(0.1, 0.4)
        lines = {0: [start + slope * time], 1: [BANDS - start - slope * time], 3: []}.get(
            int(label), [start + 0 * time, start + 14 + 0 * time]
        )
        begin, end = sorted(draw.integers(0, FRAMES, 2)) if draw.random() < 0.3 else (0, FRAMES)
        for line in lines:
            tone = 2 * np.exp(-((band - line) ** 2) / 2)
            sound[begin:end] += tone[begin:end]
    return torch.tensor(found, dtype=torch.float32), torch.tensor(labels)


def train(steps: int) -> Keywords:
    torch.manual_seed(0)
    model = Keywords()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for step in range(steps):
        x, labels = sounds(32, step)
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="mps2-an386", help="a board of `hil boards`")
    parser.add_argument("--int8", action="store_true", help="quantize the network first")
    parser.add_argument("--sounds", type=int, default=50, help="how many the board hears")
    parser.add_argument("--steps", type=int, default=80, help="steps of training (default: 80)")
    args = parser.parse_args()
    model = train(args.steps)
    x, labels = sounds(args.sounds, 1_000_000)
    program = torch.export.export(model, (x[:1],))
    if args.int8:
        program = hil.quantize(program, sounds(100, 2_000_000)[0].numpy())
    library = hil.compile(program, board=args.board, name="keywords")
    (module,) = library.modules
    samples = [{module.inputs[0].name: sound[np.newaxis]} for sound in x.numpy()]
    with hil.open(args.board, library) as device:
        cost = bench(device, module)
        on_board, found = device["keywords"], []
        for sound in x.numpy():
            on_board.set_input(0, sound[np.newaxis])
            on_board.run()
            found.append(on_board.get_output(0))
        reference = reference_of(library, module)
        report = verify(on_board, samples, reference, board=args.board)
    with torch.no_grad():
        told = model(x).argmax(1)
    right = sum(int(y.argmax()) == int(label) for y, label in zip(found, labels, strict=True))
    print(f"{args.board}: {right} of {len(x)} sounds right; PyTorch {int((told == labels).sum())}")
    print(f"{report.reference}: {'the same' if report.match else 'differs'}")
    print(
        f"{cost.per_inference:,} instructions, {cost.model_flash_bytes:,} B of flash, "
        f"{cost.workspace_bytes:,} B of workspace"
    )
    return 0 if report.match else 1


if __name__ == "__main__":
    sys.exit(main())
