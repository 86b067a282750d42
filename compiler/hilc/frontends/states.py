"""States of ONNX models, which the format has no word for: metadata that pair an input and an
output.

The entry ``hil.state:INPUT`` of a model's metadata names the output that is the input's value in
the next run. The input's initializer is its value after a reset; without one that is zeros.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

_PREFIX = "hil.state:"


def state_metadata(states: Mapping[str, str]) -> list[onnx.StringStringEntryProto]:
    """Return the entries for states: names of outputs by names of inputs."""
    return [
        onnx.StringStringEntryProto(key=f"{_PREFIX}{before}", value=after)
        for before, after in states.items()
    ]


def states_of(model: onnx.ModelProto) -> dict[str, str]:
    """Return the states of a model: names of outputs by names of inputs."""
    return {
        entry.key.removeprefix(_PREFIX): entry.value
        for entry in model.metadata_props
        if entry.key.startswith(_PREFIX)
    }
