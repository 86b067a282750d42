"""Models as C and as objects, with different interfaces, in one image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models

import hil
import hilc
from hil.board import load_board
from hilc import interpreter
from hilc.frontends import load_model

PACKED: dict[str, Any] = {"api": "packed", "interface": "packed"}
#: Models by name: the file's bytes, and how it is compiled.
MODELS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "plain": (small_models.convolutions(), {"codegen": "c"}),
    "object": (small_models.floats(), {"codegen": "llvm"}),
    "packed": (small_models.moves(), {"codegen": "c", **PACKED}),
    "both": (small_models.convolutions(), {"codegen": "llvm", "pools": "calls", **PACKED}),
}


@pytest.mark.full
def test_c_and_llvm_models_mix_in_one_image(tmp_path: Path) -> None:
    board = "mps2-an386"
    cpu = load_board(board).cpu.name
    libraries = []
    for name, (data, options) in MODELS.items():
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(data)
        libraries.append(hilc.compile(path, name=name, cpu=cpu, **options))
    rng = np.random.default_rng(3)
    with hil.open(board, *libraries) as device:
        # The registry is one for the whole image: it has the functions of both kinds.
        functions = device.functions()
        assert {"tvmgen_packed_run", "tvmgen_both_run"} <= set(functions)
        for _ in range(3):
            for name, (data, _) in MODELS.items():
                graph, model = load_model(data, name), device[name]
                inputs: dict[str, Any] = {}
                for info in model.inputs:
                    values = rng.integers(-100, 100, info.shape)
                    inputs[info.name] = values.astype(info.dtype)
                    model.set_input(info.name, inputs[info.name])
                model.run()
                expected = interpreter.run(graph, inputs)
                for info, output in zip(model.outputs, graph.outputs, strict=True):
                    got = model.get_output(info.name)
                    assert got.tobytes() == expected[output].tobytes(), f"{name} {info.name}"
