"""The application on emulated boards: which words it hears, and when.

pytest examples/keyword_spotter
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hil import ElfDevice
from hil.board import Board

pytestmark = pytest.mark.hil(boards=["mps2-an386", "riscv-virt"])
HERE = Path(__file__).resolve().parent
#: Each voice speaks each keyword; other words are between them.
WORDS = (
    *("yes_rms", "seven_rms", "no_rms", "coffee_linda", "left_rms", "right_rms"),
    *("left_linda", "yes_linda", "coffee_rms", "right_linda", "seven_linda", "no_linda"),
)
KEYWORDS = {"yes", "no", "left", "right"}
OTHERS = ("seven_rms", "coffee_linda", "coffee_rms", "seven_linda")
#: A word is heard at most so long after its end.
DELAY_S = 0.7

#: Words with the seconds at which they begin and end, and the words heard with their seconds.
Listen = Callable[..., tuple[list[tuple[str, float, float]], list[tuple[str, float]]]]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keyword_spotter")


@pytest.fixture
def listen(
    hil_elf: Callable[[Path], ElfDevice], hil_board: Board, folder: Path, tmp_path: Path
) -> Listen:
    """Return a function that lets the board hear a recording of words."""

    def listened(
        words: Sequence[str], noise_db: float | None
    ) -> tuple[list[tuple[str, float, float]], list[tuple[str, float]]]:
        file = tmp_path / "recording.wav"
        options = [] if noise_db is None else ["--noise", str(noise_db)]
        printed = run(sys.executable, "record.py", str(file), *words, *options)
        places = re.findall(r"^ *([\d.]+) to +([\d.]+) s: (\w+)_\w+$", printed, re.MULTILINE)
        assert len(places) == len(words)
        variables = {
            "BOARD": hil_board.name,
            "BUILD": folder,
            "RECORDING": file,
            "HIL": f"{sys.executable} -m hil",
        }
        run("make", *(f"{name}={value}" for name, value in variables.items()))
        console = hil_elf(folder / hil_board.name / "spotter.elf").console
        console.expect("keyword spotter: listening\n", 10)
        heard = []
        line = r"heard: (\w+) at ([\d.]+) s\n|end of the recording: (\d+) words\n"
        while (match := console.expect(line, 60))[3] is None:
            heard.append((match[1], float(match[2])))
        assert int(match[3]) == len(heard)
        return [(word, float(start), float(end)) for start, end, word in places], heard

    return listened


def run(*command: str) -> str:
    return subprocess.run(command, check=True, cwd=HERE, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize("noise_db", [None, 20])
def test_keywords(listen: Listen, noise_db: float | None) -> None:
    said, heard = listen(WORDS, noise_db)
    keywords = [word for word in said if word[0] in KEYWORDS]
    assert [word for word, _ in heard] == [word for word, _, _ in keywords]
    for (_, at), (_, start, end) in zip(heard, keywords, strict=True):
        assert start < at < end + DELAY_S


def test_other_words(listen: Listen) -> None:
    assert listen(OTHERS, noise_db=20)[1] == []
