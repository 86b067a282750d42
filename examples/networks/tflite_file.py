"""TFLite files as lists of tensors and operators: for what no converter writes.

    file = File()
    x = file.input("x", (1, 8), "int8", 0.05)
    y = file.output("y", (1, 8), "int8", 0.05)
    file.operator("RELU", [x], [y])
    data = file.data()

Needs TensorFlow, whose classes for the file format it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from flatbuffers import flexbuffers
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

Array = npt.NDArray[Any]


class File:
    """A model of one graph; tensors are numbers."""

    def __init__(self, data: bytes | None = None) -> None:
        if data is None:
            self._model = schema.ModelT()
            self._model.version = 3
            # The first buffer is that of tensors without data.
            self._model.buffers = [schema.BufferT()]
            self._model.operatorCodes = []
            self._model.subgraphs = [schema.SubGraphT()]
            self.graph = self._model.subgraphs[0]
            self.graph.tensors, self.graph.operators = [], []
            self.graph.inputs, self.graph.outputs = [], []
        else:
            self._model = flatbuffer_utils.convert_bytearray_to_object(bytearray(data))
            (self.graph,) = self._model.subgraphs
            # The classes give arrays.
            for name in ("inputs", "outputs", "operators"):
                setattr(self.graph, name, list(getattr(self.graph, name)))

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        scale: float = 0,
        zero_point: int = 0,
        data: Array | None = None,
        *,
        variable: bool = False,
    ) -> int:
        """Add a tensor, quantized if there is a ``scale``; return its number."""
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.isVariable = name, list(shape), variable
        tensor.type = getattr(schema.TensorType, dtype.upper())
        tensor.buffer = 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            tensor.buffer = len(self._model.buffers)
            self._model.buffers.append(buffer)
        if scale:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = [scale]
            tensor.quantization.zeroPoint = [zero_point]
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, *tensor: Any) -> int:
        self.graph.inputs.append(self.tensor(*tensor))
        return int(self.graph.inputs[-1])

    def output(self, *tensor: Any) -> int:
        self.graph.outputs.append(self.tensor(*tensor))
        return int(self.graph.outputs[-1])

    def constant(self, name: str, data: Array, scale: float = 0) -> int:
        return self.tensor(name, data.shape, data.dtype.name, scale, 0, data)

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Any = None,
        *,
        first: bool = False,
        **custom: Any,
    ) -> None:
        """Add a builtin operator with its ``options``, or the custom one of that name with
        ``custom``; ``first`` or last.
        """
        code = getattr(schema.BuiltinOperator, name, schema.BuiltinOperator.CUSTOM)
        operator = schema.OperatorT()
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        operator.opcodeIndex = self._code(code, name)
        if code == schema.BuiltinOperator.CUSTOM:
            operator.customOptions = list(flexbuffers.Dumps(custom))
        if options is not None:
            operator.builtinOptions = options
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        self.graph.operators.insert(0 if first else len(self.graph.operators), operator)

    def _code(self, code: int, name: str) -> int:
        is_custom = code == schema.BuiltinOperator.CUSTOM
        wanted = name.encode() if is_custom else None
        for index, known in enumerate(self._model.operatorCodes):
            if (known.builtinCode, known.customCode) == (code, wanted):
                return index
        added = schema.OperatorCodeT()
        added.builtinCode, added.deprecatedBuiltinCode = code, min(code, 127)
        added.customCode, added.version = wanted, 1
        self._model.operatorCodes.append(added)
        return len(self._model.operatorCodes) - 1

    def signature(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the tensors of inputs and outputs by their names in the only signature."""
        (signature,) = self._model.signatureDefs
        sides = (signature.inputs, signature.outputs)
        inputs, outputs = (
            {entry.name.decode(): int(entry.tensorIndex) for entry in side} for side in sides
        )
        return inputs, outputs

    def keep(self, states: Mapping[str, str]) -> None:
        """Make variables of inputs; each becomes, for the next run, what an output is.

        ``states`` has the signature's name of the output by that of the input. Variables begin as
        zeros.
        """
        inputs, outputs = self.signature()
        for before, after in states.items():
            old, new = inputs[before], outputs[after]
            self.graph.inputs.remove(old)
            self.graph.outputs.remove(new)
            new = self._as(new, old)
            handle = self.tensor(before, (1,), "resource")
            options = schema.VarHandleOptionsT()
            options.container, options.sharedName = "", before
            self.operator("READ_VARIABLE", [handle], [old], first=True)
            self.operator("VAR_HANDLE", [], [handle], options, first=True)
            self.operator("ASSIGN_VARIABLE", [handle, new], [])
        self._model.signatureDefs = None

    def _as(self, tensor: int, other: int) -> int:
        """Return ``tensor`` with the quantization of the other."""
        own, wanted = (self.graph.tensors[index] for index in (tensor, other))
        assert list(own.shape) == list(wanted.shape)
        scales = [float(t.quantization.scale[0]) for t in (own, wanted)]
        if scales[0] == scales[1]:
            return tensor
        name = f"{own.name.decode()}_kept"
        dtype = "int16" if own.type == schema.TensorType.INT16 else "int8"
        zero_point = int(wanted.quantization.zeroPoint[0])
        same = self.tensor(name, own.shape, dtype, scales[1], zero_point)
        self.operator("QUANTIZE", [tensor], [same])
        return same

    def data(self) -> bytes:
        """Return the file."""
        return bytes(flatbuffer_utils.convert_object_to_bytearray(self._model))


def options(kind: str, **values: Any) -> Any:
    """Return the options of a builtin operator."""
    found = getattr(schema, f"{kind}OptionsT")()
    for name, value in values.items():
        setattr(found, name, value)
    return found
