"""IF and WHILE on a microcontroller."""

from __future__ import annotations

import numpy as np
from control_flow import FILES
from stateful import samples

import hil
import hilc
from hil.board import load_board
from hil.verify import Oracle, verify
from hilc.frontends import load_model
from hilc.interpreter import Interpreter

BOARD = "mps2-an386"


def oracle_of(interpreter: Interpreter) -> Oracle:
    return Oracle("hilc", "", lambda _, sample: interpreter.run_all(sample))


def test_called_graphs_on_a_board() -> None:
    """Several models in an image that shares one workspace; layer by layer a call is one layer."""
    cpu = load_board(BOARD).cpu.name
    models = {name: file for name, file in FILES.items() if name.endswith("int8")}
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
