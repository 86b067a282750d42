#!/usr/bin/env python3
"""Make a recording: spoken words from the folder ``clips``, with pauses, in silence or noise.

python record.py OUT.wav [--noise DB] [WORD...]
python record.py --check FILE.wav      exit with 1 if the application cannot play it
"""

from __future__ import annotations

import argparse
import sys
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

CLIPS = Path(__file__).resolve().parent / "clips"
RATE = 16000
#: Silence before, between and after the words.
PAUSE_S = 1.0

Samples = npt.NDArray[np.int16]


def clip(name: str) -> Samples:
    """Return the samples of a clip."""
    with wave.open(str(CLIPS / f"{name}.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.int16)


def recording(
    names: Sequence[str], noise_db: float | None = None
) -> tuple[Samples, list[tuple[float, float]]]:
    """Return a recording of clips, and from which second to which each is heard.

    ``noise_db`` is the distance between the power of the words and that of white noise; None is
    silence.
    """
    pause = np.zeros(int(PAUSE_S * RATE), np.int16)
    parts, places, words = [pause], [], [clip(name) for name in names]
    count = pause.size
    for word in words:
        places.append((count / RATE, (count + word.size) / RATE))
        parts += [word, pause]
        count += word.size + pause.size
    sound = np.concatenate(parts).astype(np.float64)
    if noise_db is not None:
        power = (np.concatenate(words).astype(np.float64) ** 2).mean()
        noise = np.random.default_rng(1).normal(size=count)
        sound += noise * np.sqrt(power / 10 ** (noise_db / 10))
    return np.clip(np.rint(sound), -32768, 32767).astype(np.int16), places


def write(path: Path, sound: Samples) -> None:
    """Write a WAV file: one channel, 16 bits, 16 kHz, a header of 44 bytes."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(sound.astype("<i2").tobytes())


def check(path: Path) -> None:
    """End the program where the recording is none that the application can play."""
    try:
        with wave.open(str(path), "rb") as file:
            found = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
    except (OSError, EOFError, wave.Error) as error:
        sys.exit(f"error: {path} is no WAV file: {error}")
    if found != (1, 16, RATE):
        sys.exit(
            f"error: {path} has {found[0]} channels of {found[1]} bits at {found[2]:,} Hz; needed "
            f"are 1 channel, 16 bits and {RATE:,} Hz: sox {path} -c 1 -b 16 -r {RATE} NEW.wav"
        )
    # The application skips a header of 44 bytes.
    if path.read_bytes()[36:40] != b"data":
        sys.exit(f"error: {path} has a header of other chunks: write it with sox, without comments")


def main() -> None:
    # By voice, then by word.
    known = sorted((path.stem for path in CLIPS.glob("*.wav")), key=lambda n: n.split("_")[::-1])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT.wav")
    parser.add_argument("words", nargs="*", metavar="WORD", help=", ".join(known))
    parser.add_argument("--noise", type=float, metavar="DB", help="white noise, DB below the words")
    parser.add_argument("--check", action="store_true", help="check a recording, write nothing")
    args = parser.parse_intermixed_args()
    if args.check:
        check(args.out)
        return
    if unknown := set(args.words) - set(known):
        parser.error(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    sound, places = recording(args.words or known, args.noise)
    write(args.out, sound)
    for name, (start, end) in zip(args.words or known, places, strict=True):
        print(f"{start:6.2f} to {end:5.2f} s: {name}")


if __name__ == "__main__":
    main()
