"""Constants of megabytes: written in pieces, which changes no byte and bounds the memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from hilc.codegen import cwriter
from hilc.codegen.cwriter import c_values
from hilc.lowering import compression
from hilc.lowering.compression import compressed


def small(count: int) -> np.ndarray:
    """Random weights of few values, with runs."""
    drawn = np.random.default_rng(3)
    return np.repeat(drawn.normal(0, 9, count), drawn.integers(1, 9, count)).astype(np.int8)


@pytest.mark.parametrize("piece", [1, 7, 64, 1000])
def test_a_stream_in_pieces_has_the_same_bytes(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = small(900)
    whole = compressed([data]).stream
    monkeypatch.setattr(compression, "_PIECE", piece)
    assert compressed([data]).stream.tobytes() == whole.tobytes()


def test_a_stream_takes_a_few_times_its_bytes() -> None:
    code = compressed([np.random.default_rng(3).normal(0, 9, 2_000_000).astype(np.int8)])
    tracemalloc.start()
    stream = code.stream
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The bits of one piece, and the stream twice.
    assert peak < 20_000_000 + 3 * stream.nbytes


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize("piece", [1, 5, 64])
def test_text_in_pieces_is_the_same(
    dtype: str, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = small(99).astype(dtype)
    if dtype == "float32":
        data = np.append(data / 7, [np.nan, np.inf, -np.inf]).astype(dtype)
    whole = c_values(data)
    monkeypatch.setattr(cwriter, "_PIECE", piece)
    assert c_values(data) == whole


def test_text_takes_a_few_times_its_bytes() -> None:
    data = np.random.default_rng(3).normal(0, 1, 500_000).astype(np.float32)
    tracemalloc.start()
    text = c_values(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000 + 3 * len(text)
