"""Prefix code of constant arrays that are stored compressed; ``hil/decode.h`` decodes it.

Each byte of an array is a symbol, its upper bits, and some raw lower bits; neighbouring values of
weights are about equally frequent, so a table of few symbols compresses nearly as well as one of
all bytes, and takes less flash itself. One further symbol repeats a byte, for layers whose weights
are mostly zero.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from hilc.ir import Array

#: Bits of the longest codeword, and bytes of the table that the decoder makes in scratch:
#: ``HIL_DECODE_BITS``.
MAX_LENGTH = 8
TABLE_BYTES = 2 << MAX_LENGTH
#: Raw bits of a symbol that are tried, at most: 5 leave 8 symbols.
_MOST_RAW = 5
#: Ways that look best, for which the codewords are made.
_WAYS = 3
#: Repetitions of a byte that are worth their symbol; one symbol encodes 256 at most.
_LEAST_REPEAT, _MOST_REPEAT = 6, 256
#: Bits that say how often.
_REPEAT_BITS = 8
#: Bytes behind the codewords that the decoder reads ahead.
_READ_AHEAD = 3

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int64]
_Counts = npt.NDArray[np.uint16]

#: Tokens that are written at once: each takes a hundred times the memory of its bits.
_PIECE = 1 << 16


@dataclass(frozen=True, eq=False)
class Compressed:
    """Bytes, cut into parts that are decoded one after the other, and the smallest stream."""

    #: A byte of each token, and how often a token repeats it: 0 for the byte itself.
    _bytes: _Bytes
    _repeats: _Counts
    #: Raw bits, and the lengths of the codewords.
    _raw: int
    _lengths: _Ints
    decoded_bytes: int
    #: Bytes of the stream.
    nbytes: int

    @property
    def literals(self) -> int:
        """Bytes that have a codeword each."""
        return len(self._repeats) - self.repeats

    @property
    def repeats(self) -> int:
        """Codewords that repeat a byte."""
        return int(np.count_nonzero(self._repeats))

    @property
    def symbols(self) -> int:
        """Symbols that there may be."""
        return len(self._lengths)

    @cached_property
    def digest(self) -> bytes:
        """Hash of what the stream holds, equal for equal streams, which takes no stream."""
        repeats = np.flatnonzero(self._repeats)
        parts = self._bytes, repeats, self._repeats[repeats], self._lengths
        found = blake2b(f"{self._raw} {self.nbytes}".encode())
        for part in parts:
            found.update(part.tobytes())
        return found.digest()

    @cached_property
    def stream(self) -> Array:
        """The stream as ``hil_decoder_begin`` takes it."""
        words = _codewords(self._lengths)
        packed: list[Array] = []
        left = np.zeros(0, np.uint8)
        for start in range(0, len(self._bytes), _PIECE):
            bits = np.concatenate([left, self._bits(slice(start, start + _PIECE), words)])
            whole = len(bits) // 8 * 8
            packed.append(np.packbits(bits[:whole]))
            left = bits[whole:]
        packed.append(np.packbits(left))
        padded = np.append(self._lengths, [0] * (self.symbols % 2)).astype(np.uint8)
        head = np.append(np.uint8(self._raw), padded[::2] | padded[1::2] << 4)
        tail = np.zeros(_READ_AHEAD, np.uint8)
        return np.concatenate([head, *packed, tail]).astype(np.uint8)

    def _bits(self, part: slice, words: _Ints) -> _Bytes:
        """Return the bits of some tokens, one in each element."""
        repeats, values = self._repeats[part] > 0, self._bytes[part].astype(np.int64)
        symbols = np.where(repeats, self.symbols - 1, values >> self._raw)
        below = np.where(repeats, self._repeats[part] - 1, values & ((1 << self._raw) - 1))
        extra = np.where(repeats, _REPEAT_BITS, self._raw)
        tokens = words[symbols] << extra | below
        counts = self._lengths[symbols] + extra
        ends = np.cumsum(counts)
        # For each bit its token, and how many bits of that follow.
        token = np.repeat(np.arange(len(counts)), counts)
        behind = ends[token] - 1 - np.arange(len(token))
        return (tokens[token] >> behind & 1).astype(np.uint8)


def compressed(parts: Sequence[Array]) -> Compressed:
    """Return the bytes of ``parts``, one after the other, as the smallest stream.

    No codeword spans two parts. There must be a byte at least.
    """
    data = [np.frombuffer(part.tobytes(), np.uint8) for part in parts]
    single = [(part, np.zeros(len(part), np.uint16)) for part in data]
    ways = [
        (values, repeats, raw, counts)
        for values, repeats in (_joined(single), _joined(list(map(_tokens, data))))
        for raw, counts in enumerate(_counts(values, repeats))
    ]
    # The lengths of codewords take longer than an estimate of them.
    ways.sort(key=lambda way: _stream_bytes(way[2], way[3], None))
    size = sum(len(part) for part in data)
    found = [
        Compressed(values, repeats, raw, lengths, size, ceil(_stream_bytes(raw, counts, lengths)))
        for values, repeats, raw, counts in ways[:_WAYS]
        if (lengths := _code_lengths(counts)) is not None
    ]
    return min(found, key=lambda each: each.nbytes)


def _joined(tokens: Sequence[tuple[_Bytes, _Counts]]) -> tuple[_Bytes, _Counts]:
    return np.concatenate([t for t, _ in tokens]), np.concatenate([r for _, r in tokens])


def _counts(values: _Bytes, repeats: _Counts) -> list[_Ints]:
    """Return the frequency of each symbol, by the number of raw bits; the repeat symbol is last."""
    repeated = np.count_nonzero(repeats)
    # Most arrays have hardly any: counting all, and these apart, copies nothing.
    literals = np.bincount(values, minlength=256)
    literals -= np.bincount(values[np.flatnonzero(repeats)], minlength=256)
    return [
        np.append(literals.reshape(-1, 1 << raw).sum(axis=1), repeated)
        for raw in range(_MOST_RAW + 1)
    ]


def _stream_bytes(raw: int, counts: _Ints, lengths: _Ints | None) -> float:
    """Return the bytes of a stream, with ``lengths`` of codewords or an estimate of them."""
    total = int(counts.sum())
    if lengths is None:
        if np.count_nonzero(counts) > 1 << MAX_LENGTH:
            return inf
        # Rare symbols have the longest codewords, which leave the others less.
        longest = 1 / (1 << MAX_LENGTH)
        rare = counts < longest * total
        left = 1 - longest * np.count_nonzero(rare & (counts > 0))
        shares = np.where(rare, longest, left * counts / counts[~rare].sum())
        bits = float(counts @ np.maximum(-np.log2(np.maximum(shares, longest)), 1))
    else:
        bits = float(counts @ lengths)
    bits += raw * (total - int(counts[-1])) + _REPEAT_BITS * int(counts[-1])
    return 1 + -(-len(counts) // 2) + bits / 8 + _READ_AHEAD


def _tokens(data: _Bytes) -> tuple[_Bytes, _Counts]:
    """Return the bytes of tokens, and how often each repeats the byte before (0: it is one)."""
    values: list[_Bytes] = []
    repeats: list[_Counts] = []
    # What lies between long runs is taken as it is.
    start = 0
    for first, run in _long_repeats(data):
        values.append(data[start:first])
        repeats.append(np.zeros(first - start, np.uint16))
        times = [_MOST_REPEAT] * (run // _MOST_REPEAT) + [run % _MOST_REPEAT]
        own = np.array([each for each in times if each], np.uint16)
        values.append(np.full(len(own), data[first], np.uint8))
        repeats.append(own)
        start = first + run
    values.append(data[start:])
    repeats.append(np.zeros(len(data) - start, np.uint16))
    return np.concatenate(values), np.concatenate(repeats)


def _long_repeats(data: _Bytes) -> Iterator[tuple[int, int]]:
    """Yield where a byte is repeated so often that it is worth a token: the position of the first
    repetition, and their number.
    """
    # Whether each byte repeats the one before: neighbours of weights are rarely equal, so that
    # there are few places where this changes.
    is_repeat = np.zeros(len(data) + 1, np.bool_)
    np.equal(data[1:], data[:-1], out=is_repeat[1:-1])
    changes = np.flatnonzero(is_repeat[1:] != is_repeat[:-1]) + 1
    first, end = changes[::2], changes[1::2]
    is_long = end - first >= _LEAST_REPEAT
    yield from zip(first[is_long].tolist(), (end - first)[is_long].tolist(), strict=True)


def _code_lengths(counts: _Ints) -> _Ints | None:
    """Return the lengths of the best codewords of at most :data:`MAX_LENGTH` bits: 0 for symbols
    that do not occur; None where there are too many symbols.

    This is the package-merge algorithm: of a coin for each symbol and each length, in pairs.
    """
    lengths = np.zeros(len(counts), np.int64)
    used = np.flatnonzero(counts)
    if len(used) == 1:
        lengths[used] = 1
        return lengths
    if len(used) > 1 << MAX_LENGTH:
        return None
    coins: list[tuple[int, tuple[int, ...]]] = sorted(
        (int(counts[symbol]), (symbol,)) for symbol in used.tolist()
    )
    packages = coins
    for _ in range(MAX_LENGTH - 1):
        pairs = zip(packages[::2], packages[1::2], strict=False)
        packages = list(heapq.merge(coins, [(a[0] + b[0], a[1] + b[1]) for a, b in pairs]))
    for _, symbols in packages[: 2 * len(used) - 2]:
        for symbol in symbols:
            lengths[symbol] += 1
    return lengths


def _codewords(lengths: _Ints) -> _Ints:
    """Return the codeword of each symbol, shorter ones first."""
    words = np.zeros(len(lengths), np.int64)
    place = 0
    for length in range(1, MAX_LENGTH + 1):
        for symbol in np.flatnonzero(lengths == length).tolist():
            words[symbol] = place >> (MAX_LENGTH - length)
            place += 1 << (MAX_LENGTH - length)
    return words
