"""Libraries of models whose code computes something else than the model's file says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hilc
from hilc.artifact.library import ModelLibrary
from hilc.frontends import load_model

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.tflite"


def with_flipped_weight(cpu: str, model: Path = DIGITS) -> ModelLibrary:
    """Return the library of a model with a bit of its first convolution's weights flipped.

    It holds the right model's file, as an archive does whose constants were damaged.
    """
    graph = load_model(model, model.stem)
    name = next(node.inputs[1] for node in graph.nodes if node.op == "CONV_2D")
    data = graph.tensors[name].data
    assert data is not None
    weights = data.copy()
    weights.reshape(-1).view("u1")[0] ^= 0x40
    wrong = replace(
        graph, tensors={**graph.tensors, name: replace(graph.tensors[name], data=weights)}
    )
    library = hilc.compile(wrong, name=model.stem, cpu=cpu, pools="external", io_in_pool=True)
    return replace(library, files={**library.files, f"src/{model.stem}.tflite": model.read_bytes()})
