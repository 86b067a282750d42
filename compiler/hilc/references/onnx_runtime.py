"""onnxruntime without optimizations, in a process of its own: it computes node by node, as the
standard says, with other people's code than ``onnx.reference``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from hilc.errors import ModelError
from hilc.ir import Array
from hilc.references.loaded import LoadedModel
from hilc.references.process import Refused, arrays_of, described

PACKAGE = "onnxruntime"
#: The newest version of the file format whose fields onnxruntime's releases all read.
_IR_VERSION = 10


class Session:
    """A model in onnxruntime's process."""

    def __init__(self, model: bytes) -> None:
        data, types = _with_all_outputs(model)
        self._loaded = LoadedModel(PACKAGE, data)
        known = self._loaded.loaded
        # An initializer of the same name makes an input optional.
        self.inputs: Mapping[str, int] = {name: types[name] for name in known["inputs"]}
        self._outputs: list[str] = known["outputs"]
        self.description = f"{PACKAGE} {version(PACKAGE)}, CPU, without optimizations"

    def run(self, given: Mapping[str, Array]) -> Mapping[str, Any]:
        """Return all values that the file names, of types that numpy has."""
        for name, array in given.items():
            if array.dtype.isbuiltin != 1:
                raise ModelError(
                    f"onnxruntime cannot be given the input {name!r}, of the type {array.dtype}, "
                    "which numpy does not have",
                    "choose the reference onnx or hilc",
                )
        if not self._outputs:
            # Without a name it would compute all of them, and give them as what they are not.
            return dict(given)
        heads, data = described(list(given.values()))
        request = {"do": "run", "at": list(given), "inputs": heads, "tensors": self._outputs}
        try:
            answer, data = self._loaded.ask(request, data)
        except Refused as error:
            raise self._loaded.refusal(error) from None
        values = zip(self._outputs, arrays_of(answer["arrays"], data), strict=True)
        return {**given, **{name: value for name, value in values if value is not None}}


def _with_all_outputs(data: bytes) -> tuple[bytes, dict[str, int]]:
    """Return the model with every tensor of its main graph as an output, and its inputs' types."""
    onnx = import_module("onnx")
    model = onnx.load_from_string(data)
    # It reads no newer version, and no model needs a newer one for its operators.
    model.ir_version = min(model.ir_version, _IR_VERSION)
    graph = model.graph
    have = {output.name for output in graph.output}
    for node in graph.node:
        for name in node.output:
            if name and name not in have:
                graph.output.append(onnx.ValueInfoProto(name=name))
                have.add(name)
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    return model.SerializeToString(), types
