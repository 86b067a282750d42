"""Networks of Keras on emulated boards, several in an image: equal to the reference."""

from __future__ import annotations

import keras_files
import pytest
from campaigns import sampled
from keras_files import DIFFERENT, compare_on_board, compiled, images
from tflm import needs_tflm

from hil.board import load_board
from hilc.errors import ModelError

BOARDS = ("mps2-an386", "mps3-an547")
#: A file of each network; ``measure.py keras_networks`` takes all.
FILES = keras_files.one_of_each(keras_files.listing())
#: So many of them in a test.
PART = 5
PARTS = {
    f"{board} {start}": (board, start) for board in BOARDS for start in range(0, len(FILES), PART)
}


@needs_tflm
@pytest.mark.parametrize("part", sampled(PARTS, keep=[f"{BOARDS[0]} 0"]))
def test_networks_on_a_board(part: str) -> None:
    name, start = PARTS[part]
    board = load_board(name)
    libraries = {}
    for file in FILES[start : start + PART]:
        try:
            libraries[file] = compiled(file, cpu=board.cpu.name, pools="external")
        except ModelError:
            continue  # tests/hilc/test_keras.py has them
    ran = [*images(libraries, board)]
    assert {file for image in ran for file in image} == {*libraries}
    for image in ran:
        for file, report in compare_on_board(image, board):
            if file.name not in DIFFERENT:
                report.check()
