"""Words spoken by two speech synthesizers, espeak-ng and flite, and recordings made of them.

Install both with ``apt install espeak-ng flite``. What they speak is free to use; espeak-ng's own
license (GPL) and flite's (BSD-like) apply to the programs, not to their output.

Voices and words are split: what :data:`HELD_OUT_VOICES` speak, and :data:`HELD_OUT_WORDS`, are
never used for training.
"""

from __future__ import annotations

import subprocess
import tempfile
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]
RATE = 16000

KEYWORDS = ("yes", "no", "left", "right")
# Many sound like a part of a keyword.
_OTHER_WORDS = """
yet yell guess mess best bless yellow yesterday just this us ice nice dress chess test west
nose note go so show snow low now nobody not nor on home bone known throw toe bow
lift let life loft less leave lunch lap after lemon ladder theft laugh leg levy loaf
light ride rice write-off rat rate red road run ripe like night white my eye bite kite rye tie
up down off zero one two three four five six eight nine ten bird cat dog tree house happy
wow sheila backward forward visual learn follow music please thank-you good-morning open
close start begin end again table water paper computer radio kitchen garden summer winter
the-weather what-time-is-it turn-it-up play-a-song how-are-you see-you-later
"""
_HELD_OUT_WORDS = """
seven stop hello banana window guitar lesson marvin coffee orange button bed monday nothing
elephant river
"""
#: Words that are no keywords, for training and for its test.
OTHER_WORDS, HELD_OUT_WORDS = tuple(_OTHER_WORDS.split()), tuple(_HELD_OUT_WORDS.split())

ACCENTS = (
    *("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd"),
    *("en-029", "en-us-nyc"),
)
_VARIANTS = """
Alex Alicia Andrea Andy Annie Diogo Gene Gene2 Henrique Hugo Jacky Lee Marco Mario Michael
Mike Nguyen Storm adam anika announcer antonio aunty belinda benjamin boris caleb david ed
edward edward2 f1 f2 f4 f5 gustave iven iven2 iven3 john kaukovalta klatt klatt3 klatt5
m1 m2 m3 m4 m6 m7 m8 marcelo max michel miguel norbert pablo pedro quincy rob robert sandro
shelby steph steph2 travis victor zac
"""
#: Recorded from people (flite's), and variants of espeak-ng's.
VOICES = ("slt", "awb", "kal16", *_VARIANTS.split())
HELD_OUT_VOICES = ("rms", "linda", "paul", "f3", "m5")
_FLITE = ("slt", "awb", "kal16", "rms")


@dataclass(frozen=True)
class Word:
    """A word as it is spoken: ``samples`` without silence around, the largest is 1."""

    text: str
    voice: str
    samples: Samples


def speak(text: str, voice: str, rng: np.random.Generator) -> Word:
    """Return a word in a voice, with a random accent, speed and pitch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "word.wav"
        words = text.replace("-", " ")
        if voice in _FLITE:
            settings = (
                f"duration_stretch={rng.uniform(0.75, 1.15):.3f}",
                f"int_f0_target_mean={rng.uniform(0.85, 1.2) * _PITCHES[voice]:.1f}",
            )
            options = [word for setting in settings for word in ("--setf", setting)]
            command = ["flite", "-voice", voice, *options, "-t", words, "-o", str(path)]
        else:
            name = f"{rng.choice(ACCENTS)}+{voice}"
            speed, pitch = rng.integers(130, 200), rng.integers(25, 75)
            command = ["espeak-ng", "-v", name, "-s", str(speed), "-p", str(pitch)]
            command += ["-w", str(path), words]
        subprocess.run(command, check=True, timeout=60)
        samples, rate = read_wav(path)
    # A longer or shorter vocal tract.
    return Word(text, voice, _trimmed(_resampled(samples, rate / rng.uniform(0.93, 1.07))))


#: Hertz.
_PITCHES = {"slt": 170, "awb": 130, "kal16": 105, "rms": 100}


def read_wav(path: Path) -> tuple[Samples, int]:
    """Return the samples, from -1 to 1, and the rate of a WAV file of one channel, 16 bits."""
    with wave.open(str(path)) as file:
        rate = file.getframerate()
        data = file.readframes(file.getnframes())
    return np.frombuffer(data, "<i2") / 32768, rate


def write_wav(path: Path, samples: Samples) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes())


def _resampled(samples: Samples, rate: float) -> Samples:
    """Return samples of 16 kHz: the spectrum is cut or extended."""
    count = round(samples.size * RATE / rate)
    spectrum = np.fft.rfft(samples)
    kept = np.zeros(count // 2 + 1, complex)
    bins = min(kept.size, spectrum.size)
    kept[:bins] = spectrum[:bins]
    return np.fft.irfft(kept, count) * (count / samples.size)


def _trimmed(samples: Samples) -> Samples:
    """Return the samples without what is 36 dB below the loudest 10 ms at both ends."""
    step = RATE // 100
    whole = samples[: samples.size // step * step]
    power = (whole.reshape(-1, step) ** 2).mean(1)
    loud = np.flatnonzero(power > power.max() * 10**-3.6)
    word = whole[loud[0] * step : (loud[-1] + 1) * step]
    return np.asarray(word / np.abs(word).max())


def noise(count: int, rng: np.random.Generator, slope: float) -> Samples:
    """Return noise of power 1 whose spectrum falls with ``1 / f ** slope``: 0 is white."""
    spectrum = rng.normal(size=count // 2 + 1) + 1j * rng.normal(size=count // 2 + 1)
    frequencies = np.fft.rfftfreq(count, 1 / RATE)
    made = np.fft.irfft(spectrum * np.maximum(frequencies, 60) ** -slope, count)
    return np.asarray(made / np.sqrt((made**2).mean()))


def stream(
    words: Sequence[Word], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int16], list[tuple[int, int]]]:
    """Return a recording of words with pauses between them in noise, and where each begins and
    ends; with random loudness, distance between signal and noise, echo and tone.
    """
    pauses = rng.uniform(0.25, 1.3, len(words) + 1)
    pauses[-1] = 1.3
    starts, end = [], 0
    for word, pause in zip(words, pauses, strict=False):
        starts.append(end + round(pause * RATE))
        end = starts[-1] + word.samples.size
    speech = np.zeros(end + round(pauses[-1] * RATE))
    for word, start in zip(words, starts, strict=True):
        speech[start : start + word.samples.size] += word.samples * rng.uniform(0.6, 1)
    places = [(s, s + word.samples.size) for s, word in zip(starts, words, strict=True)]
    speech = _in_a_room(speech, rng)
    level = 10 ** rng.uniform(-1.4, -0.1)
    power = (np.concatenate([speech[s:e] for s, e in places]) ** 2).mean()
    distance = 10 ** (rng.uniform(8, 45) / 20)
    background = noise(speech.size, rng, rng.uniform(0, 1)) * np.sqrt(power) / distance
    heard = (speech + background) * level * 32767
    return np.clip(np.rint(heard), -32768, 32767).astype(np.int16), places


def _in_a_room(samples: Samples, rng: np.random.Generator) -> Samples:
    """Return samples with the echoes and the tone of a room and a microphone, at random."""
    count = samples.size
    if rng.uniform() < 0.5:
        length = round(rng.uniform(0.05, 0.3) * RATE)
        echo = rng.normal(size=length) * np.exp(-6.9 * np.arange(length) / length)
        echo *= rng.uniform(0.02, 0.2) / np.sqrt((echo**2).sum()) * 3
        echo[0] = 1
        size = 2 ** int(np.ceil(np.log2(count + length)))
        samples = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(echo, size), size)[:count]
    tilt = (np.maximum(np.fft.rfftfreq(count, 1 / RATE), 100) / 1000) ** rng.uniform(-0.4, 0.4)
    samples = np.fft.irfft(np.fft.rfft(samples) * tilt, count)
    return np.asarray(samples / np.abs(samples).max())
