"""Compressed constants whose stream is damaged: which damage the decoder survives, and which not.

The decoder checks nothing (SOUNDNESS.md): its streams are constants of the same image as its code.
So it must stay inside of every array for all streams that the compiler writes; of damaged ones
:func:`decoded` says where the decoder would go, and the sanitizers agree about each.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import generated_c
import numpy as np
import pytest
from compressed_layers import KINDS, weights_of

from hilc.lowering.compression import MAX_LENGTH, TABLE_BYTES, compressed
from hilc.support.resources import data_dir

#: Decodes each case of its input in a process of its own, into blocks of exactly the stated sizes,
#: and prints a line: what came out, or ``bad``.
_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hil/decode.h"

static void one(const uint8_t *stream, const int32_t *parts, int32_t count) {
    struct hil_decoder decoder;
    hil_decoder_begin(&decoder, stream, calloc(1, 2 << HIL_DECODE_BITS));
    for (int32_t i = 0; i < count; i++) {
        uint8_t *const out = malloc((size_t)parts[i]);
        hil_decode(&decoder, out, parts[i]);
        for (int32_t k = 0; k < parts[i]; k++) {
            printf("%02x", out[k]);
        }
    }
    printf("\\n");
    fflush(stdout);
    _exit(0);
}

int main(void) {
    int32_t sizes[2];
    while (fread(sizes, sizeof *sizes, 2, stdin) == 2) {
        uint8_t *const stream = malloc((size_t)sizes[0]);
        int32_t *const parts = malloc((size_t)sizes[1] * sizeof *parts);
        if (fread(stream, 1, (size_t)sizes[0], stdin) != (size_t)sizes[0]
            || fread(parts, sizeof *parts, (size_t)sizes[1], stdin) != (size_t)sizes[1]) {
            return 1;
        }
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            one(stream, parts, sizes[1]);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
            return 1;
        }
        if (status != 0) {
            printf("bad\\n");
            fflush(stdout);
        }
        free(parts);
        free(stream);
    }
    return 0;
}
"""


class Leaves(Exception):
    """The decoder leaves an array, or computes what C does not define."""


@dataclass(frozen=True)
class Case:
    stream: bytes
    #: Bytes that are decoded one after the other, each into a place of its own.
    parts: tuple[int, ...]

    def packed(self) -> bytes:
        sizes = np.array([len(self.stream), len(self.parts)], np.int32)
        return sizes.tobytes() + self.stream + np.array(self.parts, np.int32).tobytes()


def table_of(stream: bytes) -> list[tuple[int, int, bool]]:
    """Of each index: bits of a byte, length of the codeword, whether it repeats; as of zeros."""
    raw = at(stream, 0)
    if raw > 31:
        raise Leaves("a shift by more than 31")
    repeat = 256 >> raw
    table: list[tuple[int, int, bool]] = []
    for length in range(1, MAX_LENGTH + 1):
        for symbol in range(repeat + 1):
            if at(stream, 1 + symbol // 2) >> symbol % 2 * 4 & 15 == length:
                entry = (0, length, True) if symbol == repeat else (symbol << raw, length, False)
                table += [entry] * (1 << MAX_LENGTH - length)
    if len(table) > TABLE_BYTES // 2:
        raise Leaves("the table")
    return table + [(0, 0, False)] * (TABLE_BYTES // 2 - len(table))


def at(stream: bytes, place: int) -> int:
    if place >= len(stream):
        raise Leaves("the stream")
    return stream[place]


def decoded(case: Case) -> bytes:
    """What the decoder makes of a stream; raise Leaves where it is not inside of the arrays."""
    stream = case.stream
    table, raw = table_of(stream), stream[0]
    place = 2 + (256 >> raw) // 2
    bits = held = last = 0
    made = b""
    for size in case.parts:
        out = bytearray()
        while len(out) < size:
            if held < 16:
                bits |= (at(stream, place) << 8 | at(stream, place + 1)) << 16 - held
                place, held = place + 2, held + 16
            value, length, repeats = table[bits >> 32 - MAX_LENGTH]
            bits, held = bits << length & 0xFFFFFFFF, held - length
            extra = 8 if repeats else raw
            below = bits >> 32 - extra
            if repeats:
                out += bytes([last]) * (below + 1)
            else:
                last = (value | below) & 255
                out.append(last)
            # Only more raw bits than a byte has can make it negative, which wraps in C.
            bits, held = bits << extra & 0xFFFFFFFF, (held - extra) & 0xFFFFFFFF
        if len(out) > size:
            raise Leaves("the output")
        made += out
    return made


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoder")
    (folder / "main.c").write_text(_PROGRAM)
    command = ["gcc", "-std=gnu11", "-O1", "-fsanitize=address,undefined"]
    command += ["-fno-sanitize-recover=all", "-I", str(data_dir("runtime") / "include")]
    generated_c.run([*command, "main.c", "-o", "main"], folder)
    return folder / "main"


def run(program: Path, cases: Sequence[Case]) -> list[bytes | None]:
    """What the decoder makes of each case; None where a sanitizer ended it."""
    done = subprocess.run(
        [program],
        input=b"".join(case.packed() for case in cases),
        capture_output=True,
        env={**os.environ, "ASAN_OPTIONS": "symbolize=0:detect_leaks=0"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(cases)
    return [None if line == "bad" else bytes.fromhex(line) for line in lines]


def whole(seed: int, kind: str, size: int) -> tuple[Case, bytes]:
    """A stream as the compiler writes it, of some parts, and what it holds."""
    rng = np.random.default_rng(seed)
    data = weights_of(rng, kind, size)
    cuts = np.unique(rng.integers(0, size, 3))
    parts = [part for part in np.split(data, cuts) if part.size]
    stream = np.ascontiguousarray(compressed(parts).stream).tobytes()
    return Case(stream, tuple(part.size for part in parts)), data.tobytes()


def damaged(dice: Random, case: Case) -> Case:
    """The case with some bytes of its stream changed, often of its head, or cut off."""
    stream = bytearray(case.stream)
    head = 2 + (256 >> stream[0]) // 2
    for _ in range(dice.choice((1, 1, 2, 5))):
        place = dice.randrange(dice.choice((1, head, len(stream), len(stream))))
        change = dice.randrange(3)
        if change == 0:
            stream[place] ^= 1 << dice.randrange(8)
        elif change == 1:
            stream[place] = dice.randrange(256)
        else:
            stream[place] = dice.choice((0, 1, 5, 8, 31, 32, 0x11, 0x88, 0xFF))
    if dice.random() < 0.15:
        del stream[dice.randrange(1, len(stream)) :]
    return Case(bytes(stream), case.parts)


def test_the_decoder_stays_inside_of_its_arrays(program: Path) -> None:
    """For each stream of the compiler: also where it reads ahead, and behind a part."""
    cases = [
        whole(seed, kind, size)
        for seed, kind in enumerate(KINDS)
        for size in (1, 2, 3, 7, 255, 256, 257, 600, 3000)
    ]
    assert run(program, [case for case, _ in cases]) == [data for _, data in cases]
    assert [decoded(case) for case, _ in cases] == [data for _, data in cases]


def expectations(cases: Sequence[Case]) -> Iterator[bytes | None]:
    for case in cases:
        try:
            yield decoded(case)
        except Leaves:
            yield None


@pytest.mark.full
def test_what_damage_the_decoder_survives_is_known(program: Path) -> None:
    dice = Random(8)
    originals = [
        whole(seed, KINDS[seed % len(KINDS)], size)
        for seed, size in enumerate((1, 5, 40, 300, 300, 900, 900, 40, 2000) * 2)
    ]
    chosen = [dice.choice(originals) for _ in range(400)]
    cases = [damaged(dice, case) for case, _ in chosen]
    expected = list(expectations(cases))
    assert run(program, cases) == expected
    # Of each there are enough: decoded to the right bytes or to others, and not inside of arrays.
    outcomes = [
        "left" if found is None else "right" if found == data else "wrong"
        for found, (_, data) in zip(expected, chosen, strict=True)
    ]
    assert all(outcomes.count(each) >= 20 for each in ("left", "right", "wrong")), outcomes
