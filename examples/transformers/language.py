#!/usr/bin/env python3
"""A tiny language model on an emulated microcontroller: it tells a story, word by word.

    pip install 'hil-harness[torch]'
    python language.py [--board mps3-an547-ddr.toml] [--int8] [--tokens 200]

A decoder of 260,000 parameters learns stories that the script makes up, and is exported with its
cache of keys and values as buffers. The script ends with exit code 1 unless the board writes the
same words as PyTorch, or with --int8 as the reference, from the same logits as the reference.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import hil
from hil import verify
from hil.bench import bench
from hil.oracle import reference_of
from hilc.artifact.library import ModelLibrary

FOLDER = Path(__file__).resolve().parent
#: The board of the other example, with memory outside of the chip for the weights.
BOARD = FOLDER.parent / "networks" / "mps3-an547-ddr.toml"


@dataclass(frozen=True)
class Size:
    """Sizes of a decoder."""

    dim: int = 64
    layers: int = 5
    #: Heads of queries; several share one of keys and values.
    heads: int = 8
    kv_heads: int = 4
    hidden: int = 172
    vocab: int = 512
    #: Words that it looks back at, and that a run of the board may have.
    context: int = 256


# The model ----------------------------------------------------------------------------------------


class Attention(nn.Module):  # type: ignore[misc]
    """Attention over the words so far, whose keys and values stay in buffers."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.width = size.dim // size.heads
        self.query = nn.Linear(size.dim, size.heads * self.width, bias=False)
        self.key = nn.Linear(size.dim, size.kv_heads * self.width, bias=False)
        self.value = nn.Linear(size.dim, size.kv_heads * self.width, bias=False)
        self.out = nn.Linear(size.heads * self.width, size.dim, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, size.kv_heads, size.context, self.width))

    def forward(
        self,
        x: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
        position: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attend to a whole text, or at a position to what stands in the buffers and to itself."""
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, -1, self.width).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        q, k = rotated(q, *rotation), rotated(k, *rotation)
        if position is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            self.keys.index_copy_(2, position, k)
            self.values.index_copy_(2, position, v)
            seen = torch.arange(self.keys.shape[2]) <= position
            y = F.scaled_dot_product_attention(
                q, self.keys, self.values, attn_mask=seen.view(1, 1, 1, -1), enable_gqa=True
            )
        found: torch.Tensor = self.out(y.transpose(1, 2).flatten(2))
        return found


def rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Turn pairs of elements by angles that grow with the position (rotary embedding)."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


class Block(nn.Module):  # type: ignore[misc]
    """Attention, then a gated layer (SwiGLU), both behind a normalization."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(size.dim, eps=1e-5) for _ in range(2))
        self.attention = Attention(size)
        self.gate = nn.Linear(size.dim, size.hidden, bias=False)
        self.up = nn.Linear(size.dim, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.dim, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
        position: torch.Tensor | None = None,
    ) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x), rotation, position)
        y = self.norms[1](x)
        z: torch.Tensor = self.down(F.silu(self.gate(y)) * self.up(y))
        return x + z


class Decoder(nn.Module):  # type: ignore[misc]
    """A decoder after the kind of LLaMA. ``forward`` takes one word and says what may follow."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocab, size.dim)
        nn.init.normal_(self.embedding.weight, std=size.dim**-0.5)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.dim, eps=1e-5)
        width = size.dim // size.heads
        turns = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(size.context), turns)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    def forward(self, word: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next word; the text so far is in the buffers."""
        x, at = self.embedding(word).view(1, 1, -1), self.position
        for block in self.blocks:
            x = block(x, (self.cosine[at], self.sine[at]), at)
        self.position.add_(1)
        return F.linear(self.norm(x).flatten(1), self.embedding.weight)

    def text(self, words: torch.Tensor) -> torch.Tensor:
        """Return the logits behind each word of whole texts ``[batch, length]``, for training."""
        x, length = self.embedding(words), words.shape[1]
        for block in self.blocks:
            x = block(x, (self.cosine[:length], self.sine[:length]))
        return F.linear(self.norm(x), self.embedding.weight)


# What it learns -----------------------------------------------------------------------------------

WHO = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jonas")
WHAT = ("ball", "kite", "book", "drum", "lamp", "boat", "cake", "hat", "bell", "stone", "basket")
WHERE = ("garden", "forest", "river", "market", "kitchen", "barn", "harbour", "meadow", "tower")
LIKE = ("red", "old", "small", "shiny", "broken", "heavy", "warm", "quiet", "strange", "lovely")
BEAST = ("dog", "cat", "owl", "fox", "horse", "duck", "mouse", "frog")
STORY = (
    "{a} had a {like} {what} .",
    "one day {a} took the {what} to the {where} .",
    "there {a} met {b} , who had a {beast} .",
    "{b} said : what a {like} {what} you have !",
    "but the {beast} ran away with the {what} .",
    "{a} and {b} looked for the {beast} in the {where} .",
    "they found the {what} under a {like2} {what2} .",
    "the {beast} was asleep beside it .",
    "{a} laughed , and {b} laughed too .",
    "from then on {a} , {b} and the {beast} were friends .",
)
BEGIN = "<begin>"


def story(draw: random.Random) -> list[str]:
    """Return the words of a story."""
    a, b = draw.sample(WHO, 2)
    what, what2 = draw.sample(WHAT, 2)
    like, like2 = draw.sample(LIKE, 2)
    filled = {
        "a": a, "b": b, "what": what, "what2": what2, "like": like, "like2": like2,
        "where": draw.choice(WHERE), "beast": draw.choice(BEAST),
    }  # fmt: skip
    return [BEGIN, *" ".join(STORY).format(**filled).split()]


def vocabulary() -> list[str]:
    """Return all words, sorted behind the one that begins a story."""
    plain = {word for line in STORY for word in line.split() if "{" not in word}
    return [BEGIN, *sorted(plain.union(WHO, WHAT, WHERE, LIKE, BEAST))]


def train(steps: int) -> Decoder:
    """Return a decoder that has learned stories."""
    torch.manual_seed(0)
    draw = random.Random(0)
    numbers = {word: number for number, word in enumerate(vocabulary())}
    model = Decoder(Size())
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(steps):
        # Two stories in a row, as the model begins another when one ends.
        texts = [[numbers[word] for word in story(draw) + story(draw)] for _ in range(8)]
        length = min(map(len, texts))
        words = torch.tensor([text[:length] for text in texts])
        logits = model.text(words[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss.item():.3f}", file=sys.stderr)
    model.eval()
    return model


# On the board -------------------------------------------------------------------------------------


def written(step: Callable[[int], np.ndarray], count: int) -> list[int]:
    """Return the most likely words, one after the other from the beginning of a story."""
    words = [0]
    for _ in range(count):
        words.append(int(step(words[-1]).argmax()))
    return words[1:]


def corpus(count: int) -> torch.Tensor:
    """Return the first words of stories that the decoder was not trained with."""
    draw, words = random.Random(1), vocabulary()
    numbers = {word: number for number, word in enumerate(words)}
    listed: list[int] = []
    while len(listed) < count:
        listed += [numbers[word] for word in story(draw)]
    return torch.tensor(listed[:count])


def by_reference(library: ModelLibrary, count: int) -> list[int]:
    """Return the words that the reference writes."""
    (module,) = library.modules
    oracle = reference_of(library, module)
    oracle.reset_state()
    output = module.outputs[0].name
    return written(lambda word: oracle.values(0, {"word": np.array([word])})[output], count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", default=str(BOARD), help="a board, or a description file")
    parser.add_argument("--int8", action="store_true", help="quantize the decoder first")
    parser.add_argument("--tokens", type=int, default=200, help="words to write (default: 200)")
    parser.add_argument("--steps", type=int, default=100, help="steps of training (default: 100)")
    args = parser.parse_args()
    model = train(args.steps)
    program: Any = torch.export.export(model, (torch.tensor([0]),))
    if args.int8:
        # One text, whose words follow each other: the cache is what was written before.
        program = hil.quantize(program, corpus(model.blocks[0].attention.keys.shape[2]),
                               keep_state=True)  # fmt: skip
    library = hil.compile(program, board=args.board, name="language")
    (module,) = library.modules

    def eager(word: int) -> np.ndarray:
        with torch.no_grad():
            logits: np.ndarray = model(torch.tensor([word])).numpy()
        return logits

    wanted = by_reference(library, args.tokens) if args.int8 else written(eager, args.tokens)
    with hil.open(args.board, library) as device:
        decoder = device["language"]

        def on_board(word: int) -> np.ndarray:
            decoder.set_input(0, np.array([word]))
            decoder.run()
            return decoder.get_output(0)

        found = written(on_board, args.tokens)
        steps = [{"word": np.array([word])} for word in (0, *found[:-1])]
        reference = reference_of(library, module)
        report = verify(decoder, steps, reference, board=device.hello.board, keep_state=True)
        cost = bench(device, module, sample=steps[0])
    words = vocabulary()
    print(" ".join(words[n] if n < len(words) else "?" for n in found))
    pairs = zip(found, wanted, strict=True)
    same = next((i for i, (one, other) in enumerate(pairs) if one != other), len(found))
    print(
        f"{same} of {args.tokens} words are those of {'the reference' if args.int8 else 'PyTorch'}"
    )
    print(f"{report.reference}: {'the same' if report.match else 'differs'}")
    print(
        f"{cost.per_inference:,} instructions a word, {cost.model_flash_bytes:,} B of flash, "
        f"{cost.workspace_bytes:,} B of workspace, {cost.state_bytes:,} B of state"
    )
    return 0 if report.match and same == args.tokens else 1


if __name__ == "__main__":
    sys.exit(main())
