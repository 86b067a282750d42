"""IF and WHILE on a microcontroller."""

from __future__ import annotations

import carried_states
import numpy as np
from campaigns import cases
from control_flow import FILES, convolving_file
from stateful import samples

import hil
import hilc
from hil import verify
from hil.board import load_board
from hil.verify import Oracle
from hilc.frontends import load_model
from hilc.interpreter import Interpreter

BOARD = "mps2-an386"


def oracle_of(interpreter: Interpreter) -> Oracle:
    return Oracle("hilc", "", lambda _, sample: interpreter.run_all(sample))


def test_called_graphs_on_a_board() -> None:
    """Several models in an image that shares one workspace; layer by layer a call is one layer."""
    cpu = load_board(BOARD).cpu.name
    models = {name: file for name, file in FILES.items() if name.endswith("int8")}
    # Its kernels are those of this core: a fused group of two of them.
    models["convolving"] = convolving_file()
    libraries = [
        hilc.compile(file, cpu=cpu, name=name, pools="external") for name, file in models.items()
    ]
    with hil.open(BOARD, *libraries, workspace="shared") as device:
        for name, file in models.items():
            graph = load_model(file)
            inputs = samples(graph, 6)
            for index, values in enumerate(inputs):
                if "start" in values:
                    values["start"] = np.array(index, np.int32)
            oracle = oracle_of(Interpreter(graph))
            report = verify(device[name], inputs, oracle, board=BOARD, per_layer=True)
            assert report.match
            assert report.layers is not None
            assert "EXTERNAL" in [layer.op for layer in report.layers]


@cases("api", ["unpacked", "packed"], first=1)
def test_states_of_called_graphs_on_a_board(api: str) -> None:
    """A sequence of runs, and operators of both conventions."""
    cpu = load_board(BOARD).cpu.name
    names = ("chosen_sum_initialized", "condition", "nested_layer")
    interface = "c" if api == "unpacked" else "packed"
    libraries = [
        hilc.compile(carried_states.FILES[name], cpu=cpu, name=name, api=api, interface=interface)
        for name in names
    ]
    with hil.open(BOARD, *libraries) as device:
        for name in names:
            graph = load_model(carried_states.FILES[name])
            inputs = samples(graph, 8)
            for index, values in enumerate(inputs):
                if "start" in values:
                    values["start"] = np.array(index % 5, np.int32)
            oracle = oracle_of(Interpreter(graph))
            report = verify(device[name], inputs, oracle, board=BOARD, keep_state=True)
            assert report.match
