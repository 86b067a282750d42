"""IF and WHILE on microcontrollers."""

from __future__ import annotations

import carried_states
import numpy as np
import pytest
from campaigns import cases
from control_flow import FILES, convolving_file
from onnx_control_flow import BOUNDS, MODELS, control_flow_inputs, control_flow_model
from stateful import samples

import hil
import hilc
from hil import verify
from hil.board import load_board
from hil.errors import LoopBoundError
from hil.verify import Oracle
from hilc.frontends import Specialization, load_model, read_model
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


@cases("board", [BOARD, "riscv-virt", "mps3-an547", "riscv-virt-v"], first=2)
def test_loops_and_branches_of_onnx(board: str) -> None:
    """Every model in one image; then a run that exceeds the bound of a loop fails, and no other."""
    cpu = load_board(board).cpu.name
    files = {name: control_flow_model(name) for name in MODELS}
    libraries = [
        hilc.compile(file, cpu=cpu, name=name, pools="external", loop_bounds=BOUNDS.get(name, {}))
        for name, file in files.items()
    ]
    with hil.open(board, *libraries, workspace="shared") as device:
        for name, file in files.items():
            stated = Specialization(loop_bounds=BOUNDS.get(name, {}))
            graph = read_model(file, name, specialization=stated).graph
            kinds = {n: (graph.tensors[n].shape, graph.tensors[n].dtype) for n in graph.inputs}
            inputs = [control_flow_inputs(name, kinds, run) for run in range(6)]
            report = verify(device[name], inputs, oracle_of(Interpreter(graph)), board=board)
            assert report.match, name
        model = device["for"]
        model.set_input("x", np.ones(4, np.float32))
        model.set_input("n", np.array(7))
        for run in (model.run, model.profile, lambda: list(model.layer_outputs())):
            with pytest.raises(LoopBoundError, match="'y' exceeds its bound of 6") as caught:
                run()
            assert "--loop-bound" in caught.value.hint
        model.set_input("x", np.ones(4, np.float32))
        model.set_input("n", np.array(6))
        model.run()
        assert model.get_output("rows").all()
