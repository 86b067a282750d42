"""Whole networks on emulated boards: every output equal to TFLite Micro's, streams step by step."""

from __future__ import annotations

import pytest
from campaigns import sampled
from tflm import needs_tflm
from whole_networks import NETWORKS, Network, board_named, compare

import hil

#: Inputs and steps of the sample in ``make test``.
FEW, STEPS = 5, 50

SAMPLE = [(name, "mps2-an386") for name, network in NETWORKS.items() if not network.is_made]
#: A stream of 16 bits with states, and LSTMs.
OFTEN = ("denoiser", "gestures")
WHOLE = [(name, board) for name, network in NETWORKS.items() for board in network.boards]


def run(network: Network, board_name: str, runs: int) -> None:
    if not network.path.exists():
        pytest.skip(f"python examples/networks/make.py {network.name} makes it with TensorFlow")
    board = board_named(board_name)
    library = network.library(board)
    with hil.open(board, library) as device:
        report = compare(network, device, library, runs)
    assert report.match, report.to_json()


@needs_tflm
@pytest.mark.parametrize(
    ("name", "board"), sampled(SAMPLE, keep=[pair for pair in SAMPLE if pair[0] in OFTEN])
)
def test_some_inputs_on_a_board(name: str, board: str) -> None:
    network = NETWORKS[name]
    run(network, board, STEPS if network.is_stream else FEW)


@needs_tflm
@pytest.mark.full
@pytest.mark.parametrize(("name", "board"), WHOLE)
def test_whole_networks_on_a_board(name: str, board: str) -> None:
    run(NETWORKS[name], board, NETWORKS[name].runs)
