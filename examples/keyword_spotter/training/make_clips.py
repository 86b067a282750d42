#!/usr/bin/env python3
"""Make the folder ``clips``: keywords and other words in two voices that training never hears.

python make_clips.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from speech import HELD_OUT_VOICES, HELD_OUT_WORDS, KEYWORDS, speak, write_wav

CLIPS = Path(__file__).resolve().parents[1] / "clips"
#: One was recorded from a person, the other one is synthetic.
CLIP_VOICES = ("rms", "linda")
OTHERS = ("seven", "coffee")


def main() -> None:
    CLIPS.mkdir(exist_ok=True)
    rng = np.random.default_rng(9)
    for voice in CLIP_VOICES:
        assert voice in HELD_OUT_VOICES
        for text in (*KEYWORDS, *OTHERS):
            assert text in KEYWORDS or text in HELD_OUT_WORDS
            word = speak(text, voice, rng)
            write_wav(CLIPS / f"{text}_{voice}.wav", word.samples * 0.3)


if __name__ == "__main__":
    main()
