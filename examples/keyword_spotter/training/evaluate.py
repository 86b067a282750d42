#!/usr/bin/env python3
"""Count what the application hears of voices and words that training never used.

    python evaluate.py

It builds the application for this machine (``make BOARD=native``) with a recording of half an
hour, in which ``HELD_OUT_VOICES`` speak the keywords and ``HELD_OUT_WORDS``, in noise of 8 to
45 dB, and with echoes. It prints a table: what is spoken (lines), and what is heard (columns).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import speech
from speech import HELD_OUT_VOICES, HELD_OUT_WORDS, KEYWORDS, RATE

PROJECT = Path(__file__).resolve().parents[1]
SEED = 77
PER_KEYWORD, OTHERS = 100, 400
#: A word is heard at most so long after its end.
DELAY_S = 0.7


def spoken() -> tuple[np.ndarray, list[tuple[str, str, float, float]]]:
    """Return a recording, and each word, its voice, and the seconds at which it begins and ends."""
    rng = np.random.default_rng(SEED)
    texts = [*KEYWORDS * PER_KEYWORD, *rng.choice(HELD_OUT_WORDS, OTHERS)]
    parts, words, position = [], [], 0
    for group in np.split(rng.permutation(texts), len(texts) // 4):
        said = [speech.speak(str(t), str(rng.choice(HELD_OUT_VOICES)), rng) for t in group]
        sound, places = speech.stream(said, rng)
        for word, (start, end) in zip(said, places, strict=True):
            words.append(
                (word.text, word.voice, (position + start) / RATE, (position + end) / RATE)
            )
        parts.append(sound)
        position += sound.size
    return np.concatenate(parts), words


def heard(sound: np.ndarray) -> list[tuple[str, float]]:
    """Return the words that the application hears, with the second of each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.wav"
        speech.write_wav(path, sound / 32768)
        words = ["BOARD=native", f"BUILD={folder}", f"RECORDING={path}"]
        subprocess.run(["make", "-s", *words], check=True, cwd=PROJECT)
        program = Path(folder) / "native" / "spotter.elf"
        text = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.findall(r"heard: (\w+) at ([\d.]+) s", text)
    return [(word, float(seconds)) for word, seconds in found]


def main() -> None:
    sound, words = spoken()
    events = heard(sound)
    columns = [*KEYWORDS, "nothing"]
    counts = {row: dict.fromkeys(columns, 0) for row in (*KEYWORDS, "others")}
    voices: dict[str, list[bool]] = {}
    explained = set()
    for text, voice, start, end in words:
        row = text if text in KEYWORDS else "others"
        mine = [i for i, (_, at) in enumerate(events) if start < at < end + DELAY_S]
        mine = [i for i in mine if i not in explained]
        explained |= set(mine)
        names = [events[i][0] for i in mine]
        for name in names or ["nothing"]:
            counts[row][name] += 1
        voices.setdefault(voice, []).append(names == ([text] if row == text else []))
    print("".join(f"{name:>9}" for name in ("", *columns)))
    for row, values in counts.items():
        print(f"{row:>9}" + "".join(f"{values[name]:>9}" for name in columns))
    print(f"heard where no word is: {len(events) - len(explained)}")
    for voice, good in sorted(voices.items()):
        print(f"{voice:>9}: {np.mean(good):.1%} of {len(good)} words are right")
    print(f"{sound.size / RATE / 60:.0f} minutes")


if __name__ == "__main__":
    main()
