"""The example application: its own tests, and its projects for Zephyr and Arduino.

Stand-ins (``export_hosts``) replace these two: the projects run on this machine, and hear a
recording.
"""

from __future__ import annotations

import re
import subprocess
import sys
import wave
from pathlib import Path

import export_hosts as hosts
import pytest

from hilc.target import load_cpu

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "keyword_spotter"
CLIPS = ("yes_rms", "seven_rms", "no_rms", "coffee_linda", "left_rms", "right_rms")
HEARD = ["yes", "no", "left", "right"]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder with a recording."""
    folder = tmp_path_factory.mktemp("spotter")
    hosts.run(sys.executable, EXAMPLE / "record.py", folder / "recording.wav", *CLIPS)
    return folder


def make(target: str, build: Path) -> None:
    variables = {"BUILD": build, "HIL": f"{sys.executable} -m hil", "PYTHON": sys.executable}
    recording = f"RECORDING={build / 'recording.wav'}"
    hosts.run("make", "-C", EXAMPLE, target, recording, *(f"{n}={v}" for n, v in variables.items()))


@pytest.mark.parametrize("rate", [0, 8000, 16000])
def test_a_recording_of_another_form_is_refused(rate: int, tmp_path: Path) -> None:
    path = tmp_path / "r.wav"
    path.write_bytes(b"no sound")
    if rate:
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(bytes(100))
    command = [sys.executable, str(EXAMPLE / "record.py"), "--check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == (rate != 16000), done.stderr
    assert {0: "is no WAV file", 8000: "at 8,000 Hz; needed", 16000: ""}[rate] in done.stderr


def heard(printed: str) -> list[str]:
    assert printed.startswith("keyword spotter: listening\n")
    return re.findall(r"^heard: (\w+) at \d+\.\d\d s$", printed, re.MULTILINE)


@pytest.mark.parametrize(
    "board", ["mps2-an386", pytest.param("riscv-virt", marks=pytest.mark.full)]
)
def test_the_examples_own_tests(board: str) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", board, EXAMPLE]
    assert re.search(r"^3 passed, 3 deselected", hosts.run(sys.executable, *words), re.MULTILINE)


def test_zephyr(build: Path) -> None:
    make("zephyr", build)
    program = hosts.build_zephyr(EXAMPLE / "zephyr", build / "built", f"-DBUILD_FOLDER={build}")
    printed = hosts.run(program)
    assert heard(printed) == HEARD
    assert printed.endswith("end of the recording: 4 words\n")


def test_arduino(build: Path) -> None:
    """It runs on this machine, and compiles for the board's core."""
    make("arduino", build)
    sketchbook = build / "arduino"
    parts = (
        sketchbook / "libraries" / "Keywords",
        sketchbook / "keyword_spotter" / "keyword_spotter.ino",
    )
    libraries = {"PDM.h": hosts.PDM}
    program = hosts.build_arduino(*parts, build / "sketch", libraries=libraries, loops_forever=True)
    recording = {"RECORDING": str(build / "recording.wav")}
    assert heard(hosts.run(program, environment=recording)) == HEARD
    flags = load_cpu("cortex-m4").cflags
    hosts.build_arduino(*parts, build / "arm", "arm-none-eabi-", flags, libraries=libraries)
