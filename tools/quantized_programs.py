#!/usr/bin/env python3
"""Writes tests/quantized_programs.tar.xz: networks of PyTorch in floats and quantized from samples.

For each network NAME: NAME.float.pt2 and NAME.pt2 as `hilc.quantization` makes them, NAME.npz with
samples x and what PyTorch's eager execution gives for them of either (float, quantized), and
NAME.json with the report. It needs the extra ``torch``; the tests need only the file.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import hil
from hilc.frontends.objects import file_of
from hilc.quantization.torch_quantizer import TorchQuantizer

TARGET = Path(__file__).resolve().parents[1] / "tests" / "quantized_programs.tar.xz"
SAMPLES = 40


class Separable(nn.Module):  # type: ignore[misc]
    """Depthwise separable convolutions, a residual, a concatenation, and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8), nn.ReLU6())
        self.point = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.side = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.point(self.deep(x))
        x = F.max_pool2d(torch.cat([x, self.side(x)], 1), 2)
        return F.softmax(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), 1)


class Sequence(nn.Module):  # type: ignore[misc]
    """Dilated convolutions over time with a gate, halves, their maximum and its mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 8, 3, padding=2, dilation=2)
        self.norm = nn.BatchNorm1d(8)
        self.second = nn.Conv1d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.leaky_relu(self.norm(self.first(x)), 0.1)
        y = y + torch.sigmoid(self.second(y)) * y
        a, b = y.chunk(2, 2)
        return self.head(torch.maximum(a, b).mean(2))


class Regression(nn.Module):  # type: ignore[misc]
    """Layers with functions that become tables."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 16),
            nn.Tanh(),
            nn.Linear(16, 16),
            nn.SiLU(),
            nn.Dropout(),
            nn.Linear(16, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


class Attention(nn.Module):  # type: ignore[misc]
    """Two heads over a sequence, and the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).reshape(1, 6, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.head(F.gelu(y.transpose(1, 2).flatten(2)).mean(1))


class Cells(nn.Module):  # type: ignore[misc]
    """One step of each recurrent cell, and a layer of integers behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.lstm, self.rnn = nn.GRUCell(6, 5), nn.LSTMCell(6, 5), nn.RNNCell(6, 5)
        self.register_buffer("zeros", torch.zeros(1, 5))
        self.head = nn.Linear(20, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, c = self.lstm(x, (self.zeros, self.zeros + 0.5))
        y: torch.Tensor = self.head(
            torch.cat([self.gru(x, h), h, c, self.rnn(x, self.zeros + 0.1)], 1)
        )
        return y


class Masked(nn.Module):  # type: ignore[misc]
    """Attention behind four kinds of masks, the classes from the table of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 8)
        self.qkv = nn.ModuleList(nn.Linear(8, 24) for _ in range(4))
        later = torch.full((6, 6), -torch.inf).triu(1)
        self.register_buffer("later", later)
        self.register_buffer("slopes", later - torch.arange(6) * 0.1)
        self.register_buffer("seen", later == 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.words(x)
        for number, layer in enumerate(self.qkv):
            q, k, v = layer(y).reshape(1, 6, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            if number == 0:
                z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            elif number == 1:
                z = F.scaled_dot_product_attention(q, k, v, attn_mask=self.slopes)
            elif number == 2:
                known = (x > 3).view(1, 1, 1, 6) | self.seen
                z = F.scaled_dot_product_attention(q, k, v, attn_mask=known)
            else:
                z = (q @ k.transpose(-1, -2) * 0.5 + self.later).softmax(-1) @ v
            y = y + z.transpose(1, 2).flatten(2)
        return F.linear(y.mean(1), self.words.weight)


class Branched(nn.Module):  # type: ignore[misc]
    """Normalizations that no convolution takes in, one of them behind what another reads too, and
    images resized by a whole factor and by others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.BatchNorm2d(3), nn.BatchNorm2d(4)
        self.conv, self.row = nn.Conv2d(3, 4, 3), nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(F.relu(self.before(x)))
        y = torch.cat([y, F.relu(self.behind(y))], 1)
        y = F.interpolate(y, scale_factor=2, mode="bilinear")
        y = F.interpolate(y, (7, 9), mode="bilinear")
        return self.head(self.row(y.mean((2, 3)))) + y[:, :3, ::3, ::4].reshape(-1, 3, 9).mean(2)


class Decoder(nn.Module):  # type: ignore[misc]
    """One word in each run, its cache of keys and values as state."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.qkv = nn.Embedding(12, 8), nn.Linear(8, 24)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, SAMPLES, 4))
        self.register_buffer("cosine", torch.arange(SAMPLES * 8).view(-1, 8).cos())
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.words(x) * self.cosine[self.position]
        q, k, v = self.qkv(y).view(3, 1, 2, 1, 4).unbind(0)
        self.keys.index_copy_(2, self.position, k)
        self.values.index_copy_(2, self.position, v)
        seen = torch.arange(SAMPLES) <= self.position
        z = F.scaled_dot_product_attention(
            q, self.keys, self.values, attn_mask=seen.view(1, 1, 1, -1)
        )
        self.position.add_(1)
        return F.linear(y + z.flatten(1), self.words.weight)


NETWORKS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "separable": (Separable, (3, 12, 12)),
    "sequence": (Sequence, (4, 12)),
    "regression": (Regression, (8,)),
    "attention": (Attention, (6, 8)),
    "cells": (Cells, (6,)),
    "masked": (Masked, (6,)),
    "branched": (Branched, (3, 6, 6)),
    "decoder": (Decoder, ()),
}
#: Those that take words.
WORDS = ("masked", "decoder")
#: Those whose samples are one sequence.
SEQUENCES = ("decoder",)


def trained(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a network whose normalizations have seen samples, and others."""
    network, shape = NETWORKS[name]
    torch.manual_seed(0)
    module = network()
    if any(isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) for part in module.modules()):
        for _ in range(20):
            module(torch.randn(16, *shape))
    samples = torch.randn(SAMPLES, *shape)
    if name in WORDS:
        samples = torch.randint(0, 12, (SAMPLES, *shape))
    return module.eval(), samples


def eager(file: bytes, x: torch.Tensor) -> np.ndarray:
    module = torch.export.load(io.BytesIO(file)).module()
    with torch.no_grad():
        return np.stack([module(part[None]).numpy() for part in x])


class Tied(nn.Module):  # type: ignore[misc]
    """Words, and what may follow by the same table."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(torch.tanh(self.words(x)).mean(1), self.words.weight)


def unfolded() -> dict[str, bytes]:
    """Return a program whose weights are quantized in the run, and what it computes."""
    torch.manual_seed(0)
    x = torch.randint(0, 12, (SAMPLES, 1, 6))
    module = torch.export.export(Tied().eval(), (x[0],)).module()
    prepared = prepare_pt2e(module, TorchQuantizer())
    for sample in x:
        prepared(sample)
    program = torch.export.export(convert_pt2e(prepared, fold_quantize=False), (x[0],))
    data = file_of(program, None)
    assert data is not None
    file = io.BytesIO()
    np.savez(file, x=x.numpy(), quantized=eager(data, x[:, 0]))
    return {"unfolded.pt2": data, "unfolded.npz": file.getvalue()}


def main() -> int:
    with tarfile.open(TARGET, "w:xz") as archive:

        def write(name: str, data: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))

        for name in NETWORKS:
            module, x = trained(name)
            quantized = hil.quantize(module, x, name=name, keep_state=name in SEQUENCES)
            plain = file_of(module, (x[:1],))
            assert plain is not None
            write(f"{name}.float.pt2", plain)
            write(f"{name}.pt2", quantized.data)
            file = io.BytesIO()
            np.savez(
                file,
                x=x[:, None].numpy(),
                float=eager(plain, x),
                quantized=eager(quantized.data, x),
            )
            write(f"{name}.npz", file.getvalue())
            write(f"{name}.json", json.dumps(asdict(quantized.report), indent=1).encode())
        for name, data in unfolded().items():
            write(name, data)
    print(f"{TARGET}: {len(NETWORKS)} networks, {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
