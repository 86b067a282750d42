"""Inputs by rows on boards: over lines that lose and repeat messages, beside other models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from campaigns import cases
from lossy_proxy import Weather
from noise_campaign import DIGITS, behind_a_proxy
from random_graphs import GraphBuilder

import hil
import hilc
from hil.board import load_board
from hil.build import build
from hil.cli import main
from hil.device.device import Model, _ask_module
from hil.errors import DeviceError, InputError
from hil.link.protocol import Tensors
from hil.link.tensors import TensorRef
from hilc.interpreter import run
from hilc.ir import Array, Graph

BOARD = "mps2-an386"


def _graph() -> Graph:
    """Layers of 13 rows of 27 bytes, which a stride and a skip connection take in."""
    builder = GraphBuilder()
    x = builder.conv(builder.input(1, 13, 9, 3), 4, stride=2)
    added = builder.add(builder.conv(x, 4), x)
    return builder.graph(builder.dense(builder.reshape(added, 1, 140), 5), name="fed")


GRAPH = _graph()


def _library(board: str, **options: Any) -> hilc.ModelLibrary:
    cpu = load_board(board).cpu.name
    given: dict[str, Any] = {"io_in_pool": True, "pools": "external", **options}
    return hilc.compile(GRAPH, cpu=cpu, feed="rows", **given)


def _values(seed: int) -> tuple[Array, Array]:
    x = np.random.default_rng(seed).integers(-128, 128, (1, 13, 9, 3), np.int8)
    return x, run(GRAPH, {GRAPH.inputs[0]: x})[GRAPH.outputs[0]]


def _push(model: Model, x: Array, dice: np.random.Generator) -> None:
    left = 13
    while left:
        count = min(int(dice.integers(1, 5)), left)
        first = 13 - left
        left -= count
        assert model.push_rows(x[0, first : first + count]) == left


@pytest.mark.full
def test_no_row_is_taken_twice_over_noise() -> None:
    """Messages are lost, damaged and repeated; every result is exact."""
    board, library = load_board(BOARD), _library(BOARD)
    firmware = build([library], board)
    dice = np.random.default_rng(3)
    weather = Weather(per_byte=2e-3, mishaps=tuple(range(6)), seed=5)
    with (
        behind_a_proxy(board, firmware, weather) as line,
        hil.open(board, library, port=line.url) as device,
    ):
        model = device["fed"]
        for seed in range(6):
            x, expected = _values(seed)
            if seed % 3 == 0:
                model.set_input(0, x)
            else:
                if seed % 3 == 1:
                    # Stopped in the middle, and started afresh.
                    model.push_rows(x[0, :7] // 2)
                    model.start_rows()
                _push(model, x, dice)
            model.run()
            np.testing.assert_array_equal(model.get_output(0), expected)
        assert device.repeated_requests > 0


@cases("options", [{}, {"io_in_pool": False}, {"pools": "internal"}], first=1)
def test_rows_beside_another_model(options):
    builder = GraphBuilder()
    other = builder.graph(builder.conv(builder.input(1, 4, 4, 2), 2), name="other")
    cpu = load_board("native").cpu.name
    whole = hilc.compile(other, cpu=cpu, io_in_pool=True, pools="external")
    with hil.open("native", _library("native", **options), whole) as device:
        fed, beside = device["fed"], device["other"]
        client = device._client
        asked = [_ask_module(client, index, client.model_info(index)) for index in (0, 1)]
        assert [module.fed_rows for module in asked] == [13, 0]
        for seed in range(2):
            x, expected = _values(seed)
            fed.push_rows(x[0, :6])
            y = np.full(beside.inputs[0].shape, seed, np.int8)
            beside.set_input(0, y)
            beside.run()
            fed.push_rows(x[0, 6:])
            fed.run()
            np.testing.assert_array_equal(fed.get_output(0), expected)
            np.testing.assert_array_equal(
                beside.get_output(0), run(other, {other.inputs[0]: y})[other.outputs[0]]
            )
        with pytest.raises(InputError, match="as a whole"):
            beside.push_rows(x[0])
        _check_board_refuses(device, x)


def _check_board_refuses(device: hil.Device, x: Array) -> None:
    """The board itself keeps the rows in order."""
    client, tensor = device._client, TensorRef(0, Tensors.INPUT, 0)
    data = x.tobytes()
    with pytest.raises(DeviceError, match="rows of the input are missing"):
        client.feed(tensor, 0, data[:30])
    client.start_feed(tensor)
    client.feed(tensor, 0, data[:60])
    with pytest.raises(DeviceError, match="has its first 60 bytes"):
        client.feed(tensor, 61, data[61:70])
    with pytest.raises(DeviceError, match="has its first 60 bytes"):
        client.run(0)
    with pytest.raises(DeviceError, match="has its first 60 bytes"):
        client.run_layers(0, 0, 1)
    with pytest.raises(DeviceError, match="no such tensor"):
        client.read_by_line(tensor, 4)
    # Again, and more than the board has.
    client.feed(tensor, 10, data[10:50])
    client.feed(tensor, 40, data[40:])
    client.run(0)
    model = device["fed"]
    model.set_input(0, x)
    model.run()
    with pytest.raises(DeviceError, match="rows of the input are missing"):
        client.run(0)


def test_lost_rows_are_refused() -> None:
    x, expected = _values(8)
    with hil.open("native", _library("native")) as device:
        model = device["fed"]
        model.push_rows(x[0, :6])
        device.reset()
        with pytest.raises(InputError, match="may have restarted"):
            model.push_rows(x[0, 6:])
        assert model.push_rows(x[0]) == 0
        assert model.run(1).ticks > 0
        np.testing.assert_array_equal(model.get_output(0), expected)
        model.set_input(0, x)
        assert model.run(3).ticks > 0
        np.testing.assert_array_equal(model.get_output(0), expected)


def test_no_other_model_works_in_the_memory_of_rows() -> None:
    shared = _library("native", io_in_pool=False)
    with pytest.raises(InputError, match="fed to its workspace"):
        build([shared], load_board("native"), workspace="shared")


def test_verify_feeds_rows(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", str(DIGITS / "digits.tflite"), "--feed", "rows", "--board", BOARD]
    assert main([*words, "--samples", "3", "--per-layer", "--reference", "hilc"]) == 0
    assert "layers match" in capsys.readouterr().out
