"""A decoder of PyTorch whose cache of keys and values is the state of the board's model."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import sampled
from pt2_files import arrays, files, inputs_of, steps

import hil
from hilc.frontends import load_model


@pytest.mark.parametrize("board", sampled(["mps2-an386", "mps3-an547"], keep=["mps3-an547"]))
def test_a_decoder_writes_what_pytorch_writes(board: str) -> None:
    """Twenty words, each from the logits before; a reset begins the same text again."""
    stored = arrays("decoder")
    graph = load_model(files()["decoder.pt2"], "decoder")
    library = hil.compile(files()["decoder.pt2"], board=board, name="decoder")
    with hil.open(board, library) as device:
        model = device["decoder"]
        for _ in range(2):
            word = inputs_of(graph, stored)["word"]
            for number, suffix, (wanted,) in steps(stored):
                assert word == inputs_of(graph, stored, suffix)["word"], number
                model.set_input(0, word)
                model.run()
                found = model.get_output(0)
                np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * abs(wanted).max())
                word = found.argmax(1)
            model.reset_state()
    assert number == 19
