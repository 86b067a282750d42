"""Constants as TensorFlow Lite Micro's compression writes them, for tests."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from tflite_builder import ModelBuilder

from hilc.ir import Array

Bytes = npt.NDArray[np.uint8]
#: Encoded bytes, and what is beside them.
Encoded = tuple[Bytes, Bytes]


def metadata(kind: int, *own: int, version: int = 1) -> Bytes:
    """The 16 bytes in front of tables; ``own`` from the fifth on."""
    head = [kind, version, 0, 0, *own]
    return np.array([*head, *[0] * (16 - len(head))], np.uint8)


def _packed(bits: str) -> Bytes:
    padded = bits + "0" * (-len(bits) % 8)
    return np.array([int(padded[i : i + 8], 2) for i in range(0, len(padded), 8)], np.uint8)


def _beside(head: Bytes, values: Array) -> Bytes:
    return np.concatenate([head, values.view(np.uint8)])


def look_up(values: Array, bits: int, axis: int | None = None, stated: int = 15) -> Encoded:
    """Indices into the values that occur: in all, or in each slice along an axis."""
    tables, indices = [], np.zeros(values.shape, np.int64)
    slices, along = (
        a[None] if axis is None else np.moveaxis(a, axis, 0) for a in (values, indices)
    )
    for number, own in enumerate(slices):
        table, inverse = np.unique(own, return_inverse=True)
        along[number] = inverse.reshape(own.shape)
        tables.append(table)
    stride = max(map(len, tables))
    padded = [np.pad(table, (0, stride - len(table))) for table in tables]
    head = metadata(0, 1, stated << 4 | bits, stride)
    stream = "".join(f"{i:0{bits}b}" for i in indices.ravel())
    return _packed(stream), _beside(head, np.concatenate(padded))


def pruned(values: Array, zero_points: Array) -> Encoded:
    """A bit for each element that is not its zero point, and these."""
    is_own = values != zero_points
    stream = "".join(str(int(bit)) for bit in is_own.ravel())
    return _packed(stream), _beside(metadata(2, 1), values[is_own])


def huffman(values: Array, first: int, width: int) -> Encoded:
    """Codewords, and tables of 16 or 32 bits an entry, of which the first has 2 ** first."""
    codes = _codewords(values.ravel().tolist())
    longest = max(map(len, codes.values()))
    # The first table, and one for each prefix of its length that is not a whole codeword.
    tables: list[tuple[str, int]] = [("", first)]
    if longest > first:
        prefixes = sorted({code[:first] for code in codes.values() if len(code) > first})
        tables += [
            (p, max(len(code) for code in codes.values() if code.startswith(p)) - first)
            for p in prefixes
        ]
    begins = np.cumsum([0, *(1 << bits for _, bits in tables)]).tolist()
    entries: list[int] = []
    shift = width - 5
    by_code = {code: symbol for symbol, code in codes.items()}
    for prefix, bits in tables:
        for index in range(1 << bits):
            path = prefix + f"{index:0{bits}b}"
            found = next((n for n in range(len(prefix), len(path) + 1) if path[:n] in by_code), 0)
            if found:
                symbol = by_code[path[:found]] & ((1 << (8 if width == 16 else 16)) - 1)
                used = found - len(prefix)
                entries.append(1 << (width - 1) | used << shift | symbol)
                continue
            number = next((i for i, (own, _) in enumerate(tables) if i and own == path), None)
            # No codeword begins so.
            offset, more = (0, 1) if number is None else (begins[number] - index, tables[number][1])
            entries.append((more - 1) << shift | offset)
    head = metadata(1, 1, (first - 1) << 4 | (width == 32))
    stream = "".join(codes[value] for value in values.ravel().tolist())
    # The run time reads whole words, and one ahead.
    data = _packed(stream)
    padded = np.pad(data, (0, -data.size % 4 + 4))
    return padded, _beside(head, np.array(entries, f"<u{width // 8}"))


def _codewords(values: Sequence[int]) -> dict[int, str]:
    """A prefix code, shorter for what occurs more often."""
    count = Counter(values)
    heap: list[tuple[int, int, dict[int, str]]] = [
        (n, order, {value: ""}) for order, (value, n) in enumerate(sorted(count.items()))
    ]
    heapq.heapify(heap)
    order = len(heap)
    while len(heap) > 1:
        (n, _, a), (m, _, b) = heapq.heappop(heap), heapq.heappop(heap)
        joined = {**{v: "0" + c for v, c in a.items()}, **{v: "1" + c for v, c in b.items()}}
        heapq.heappush(heap, (n + m, order, joined))
        order += 1
    codes = heap[0][2]
    return codes if len(codes) > 1 else dict.fromkeys(codes, "0")


def layer(encode: Callable[[Array], Encoded] | None) -> bytes:
    """A fully connected layer whose weights are encoded, or are not."""
    rng = np.random.default_rng(8)
    weights = rng.choice(np.array([-100, 3, 55, 127], np.int8), (6, 16))
    b = ModelBuilder()
    b.input("x", (1, 16), "int8", 0.05, 4)
    if encode is None:
        b.const("w", weights, 0.01)
    else:
        data, beside = encode(weights)
        b.const("e", data)
        b.const("a", beside)
        b.tensor("w", weights.shape, "int8", 0.01)
        b.op("CUSTOM", ("e", "a"), ("w",), custom_code="TFLM_DECODE")
    b.const("b", rng.integers(-999, 999, 6).astype(np.int32), 0.0005)
    b.output("y", (1, 6), "int8", 0.1, -3)
    b.op("FULLY_CONNECTED", ("x", "w", "b"), ("y",))
    return b.build()


def damageable() -> list[bytes]:
    """A layer for each encoding of its weights."""
    return [
        layer(lambda w: look_up(w, 2)),
        layer(lambda w: look_up(w, 3, 0)),
        layer(lambda w: pruned(w, np.zeros(w.shape, np.int64))),
        layer(lambda w: huffman(w, 3, 16)),
        layer(lambda w: huffman(w, 3, 32)),
    ]
