"""Models with states on boards: kept, reset, set, and lost where a board is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from stateful import GRAPHS, STREAMS, ring_buffer, samples
from tflm import needs_tflm

import hil
import hilc
from hil import verify
from hil.board import load_board
from hil.cli.actions.compile import module_entry
from hil.device import Device
from hil.device.device import _ask_module
from hil.errors import InputError
from hil.link.codec import Frame
from hil.link.protocol import Command, Kind
from hil.results.codec import encode
from hil.verify import Oracle
from hilc.artifact.library import ModelLibrary
from hilc.frontends import load_model
from hilc.interpreter import Interpreter
from hilc.ir import Graph
from hilc.references.tflm import TflmModel

RING = ring_buffer()
SWAP, _ = GRAPHS["states_swap"]


def library(board: str, graph: Graph, **options: Any) -> ModelLibrary:
    return hilc.compile(graph, cpu=load_board(board).cpu.name, **options)


def check_sequence(device: Device, graph: Graph, *, count: int = 4) -> None:
    """Two sequences, each from reset states, the second layer by layer."""
    model, interpreter = device[graph.name], Interpreter(graph)
    for by_layer in (False, True):
        for values in samples(graph, count):
            for name, value in values.items():
                model.set_input(name, value)
            if by_layer:
                list(model.layer_outputs())
            else:
                model.run()
            expected = interpreter.run(values)[graph.outputs[0]]
            np.testing.assert_array_equal(model.get_output(0), expected)
            for state in graph.states:
                np.testing.assert_array_equal(
                    model.state(state.name), interpreter.state(state.name)
                )
        model.reset_state()
        interpreter.reset_state()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pools": "external"},
        {"pools": "calls"},
        {"interface": "packed", "api": "packed"},
        {"interface": "packed", "pools": "external"},
    ],
    ids=lambda options: "-".join(options.values()) or "c",
)
def test_every_interface_keeps_states(options: dict[str, str]) -> None:
    """In one image, so that the models do not share what is theirs."""
    libraries = [library("native", graph, **options) for graph in (RING, SWAP)]
    workspace = "shared" if options.get("pools") == "external" else "own"
    with hil.open("native", *libraries, workspace=workspace) as device:
        for graph in (RING, SWAP, RING):
            check_sequence(device, graph)


def test_a_microcontroller_keeps_states() -> None:
    with hil.open("mps2-an386", library("mps2-an386", RING)) as device:
        check_sequence(device, RING)


@pytest.mark.full
@needs_tflm
def test_a_hundred_frames_of_streams() -> None:
    """All models in one image, frame by frame in turn: none touches the states of another."""
    board = "mps2-an386"
    cpu = load_board(board).cpu.name
    libraries = [hilc.compile(model, cpu=cpu, name=name) for name, model in STREAMS.items()]
    references = {name: TflmModel(model) for name, model in STREAMS.items()}
    frames = {name: samples(load_model(model), 100) for name, model in STREAMS.items()}
    with hil.open(board, *libraries) as device:
        for frame in range(100):
            for name, reference in references.items():
                x = frames[name][frame]["x"]
                (theirs,) = reference.run([x], outputs=1)
                model = device[name]
                model.set_input(0, x)
                model.run()
                np.testing.assert_array_equal(model.get_output(0), theirs, f"{name} {frame}")


@pytest.fixture(scope="module")
def shared_device() -> Iterator[Device]:
    with hil.open("native", library("native", RING)) as device:
        yield device


@pytest.fixture
def device(shared_device: Device) -> Device:
    shared_device.forget()
    return shared_device


def test_states_are_set(device: Device) -> None:
    model, interpreter = device["ring"], Interpreter(RING)
    value = samples(RING, 1, seed=3)[0]["x"].repeat(6, axis=0)
    x = samples(RING, 1)[0]["x"]
    for one in (model, interpreter):
        one.set_state("buffer", value)
    model.set_input(0, x)
    model.run()
    np.testing.assert_array_equal(model.get_output(0), interpreter.run({"x": x})["y"])
    with pytest.raises(InputError, match=r"state 'buffer' .* is int8\[6, 8\], the array is"):
        model.set_state(0, value[0])
    with pytest.raises(InputError, match="state of model 'ring'"):
        model.state(1)


def test_what_a_test_leaves_is_forgotten(device: Device) -> None:
    """As the fixture of the pytest plugin forgets it, and as opening a board that ran does."""
    model = device["ring"]
    model.set_input(0, np.full((1, 8), 100, np.int8))
    model.run()
    device.forget()
    assert (model.state("buffer") == -3).all()


def test_an_answer_that_is_lost_advances_no_state(device: Device) -> None:
    """The run is asked for again with its number, and the board answers what it has kept."""
    model, interpreter = device["ring"], Interpreter(RING)
    link = device._client.link
    receive = link.receive
    dropped: list[Frame] = []

    def lossy(timeout_s: float) -> list[Frame]:
        frames = []
        for frame in receive(timeout_s):
            is_answer = (frame.kind, frame.code) == (Kind.REPLY, Command.RUN)
            if is_answer and len(dropped) < 2:
                dropped.append(frame)
            else:
                frames.append(frame)
        return frames

    x = samples(RING, 1)[0]["x"]
    model.set_input(0, x)
    device._client.busy_retry_s, before = 0.05, device._client.busy_retry_s
    link.receive = lossy  # type: ignore[method-assign]
    try:
        model.run()
    finally:
        link.receive = receive  # type: ignore[method-assign]
        device._client.busy_retry_s = before
    interpreter.run({"x": x})
    assert len(dropped) == 2
    np.testing.assert_array_equal(model.state("buffer"), interpreter.state("buffer"))


def test_a_board_that_restarts_loses_its_states(device: Device) -> None:
    model = device["ring"]
    model.set_input(0, np.full((1, 8), 100, np.int8))
    model.run()
    device.reset()
    with pytest.raises(InputError, match="state 'buffer' of model 'ring' is lost") as caught:
        model.run()
    assert "reset the states" in str(caught.value.hint)
    with pytest.raises(InputError, match="may have restarted"):
        model.state("buffer")
    model.reset_state()
    model.run()
    # The first run after it is that of a fresh board.
    interpreter = Interpreter(RING)
    interpreter.run({"x": np.full((1, 8), 100, np.int8)})
    np.testing.assert_array_equal(model.state("buffer"), interpreter.state("buffer"))


def test_the_board_tells_of_its_states() -> None:
    """To a host that has no library of the firmware."""
    with hil.open("native", library("native", RING)) as device:
        assert device._client.state_count(0) == 1
        module = _ask_module(device._client, 0, device._client.model_info(0))
        (state,) = module.states
        assert (state.name, state.shape, state.dtype) == ("buffer", (6, 8), "int8")


@pytest.mark.parametrize("keep_state", [False, True])
@pytest.mark.parametrize("per_layer", [False, True])
def test_samples_are_apart_or_a_sequence(device: Device, keep_state: bool, per_layer: bool) -> None:
    interpreter = Interpreter(RING)
    oracle = Oracle(
        "hilc", "", lambda _, sample: interpreter.run_all(sample), None, interpreter.reset_state
    )
    report = verify(
        device["ring"],
        samples(RING, 5),
        oracle,
        board="native",
        per_layer=per_layer,
        keep_state=keep_state,
    )
    assert report.match
    resets = Oracle("hilc", "", lambda _, sample: Interpreter(RING).run_all(sample))
    report = verify(device["ring"], samples(RING, 5), resets, board="native", keep_state=keep_state)
    # As the reference that forgets, or not.
    assert report.match == (not keep_state)


def test_compile_says_how_large_states_are() -> None:
    (module,) = library("mps2-an386", RING).modules
    said = encode(module_entry(module))
    assert said["state_bytes"] == 48
    assert said["pools"][-1] == {"name": "global_state", "bytes": 48, "region": None}
    assert said["workspace_bytes"] == module.workspace_pools[0].nbytes
