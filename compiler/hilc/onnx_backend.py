"""ONNX's backend interface: models computed by the interpreter, or by generated C on this machine.

``onnx.backend.base.Backend`` is what ONNX's own test suite and tools call::

    import hilc.onnx_backend as backend

    rep = backend.prepare(model)             # or device="CPU:C" for generated C
    outputs = rep.run([x])

A model may take shapes, axes and other operands that the compiler must know as inputs. The first
run states their values: they become constants of the model, and later runs must give the same
(:attr:`HilRep.fixed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper
from onnx.backend.base import Backend, BackendRep

import hilc
import hilc.host
from hilc.errors import InputError, UnsupportedError
from hilc.frontends import Specialization, read_model
from hilc.frontends.onnx.class_labels import has_labels_to_number
from hilc.frontends.onnx.operation import UnknownOperandError
from hilc.frontends.onnx.storage import packed, unpacked
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph

#: Method of computing a model, by the name of the device.
DEVICES = {"CPU": "interpreter", "CPU:C": "generated C"}


def specialized(data: bytes, values: Mapping[str, Array]) -> tuple[Graph, bytes, frozenset[str]]:
    """Return the graph of a model, its file, and the names of its inputs that became constants.

    ``values`` are those of a run. Inputs that the compiler must know are taken from there.
    """
    fixed: dict[str, Array] = {}
    while True:
        try:
            read = read_model(data, "model", specialization=Specialization(inputs=fixed))
            graph, file = read.graph, read.data
        except UnknownOperandError as error:
            wanted = {name: values[name] for name in error.inputs if name in values}
            if not wanted.keys() - fixed.keys():
                raise
            fixed |= wanted
        else:
            return graph, file, frozenset(fixed)


class HilRep(BackendRep):  # type: ignore[misc]
    """A model that is ready to run."""

    def __init__(self, model: onnx.ModelProto, in_c: bool) -> None:
        self._data = model.SerializeToString()
        constants = {tensor.name for tensor in model.graph.initializer}
        #: The inputs that a run is given, in order.
        self.inputs = [v.name for v in model.graph.input if v.name not in constants]
        #: ONNX's types of the outputs.
        self._outputs = {v.name: v.type.tensor_type.elem_type for v in model.graph.output}
        self._in_c = in_c
        self._graph: Graph | None = None
        self._stated: dict[str, Array] = {}
        self._computes: Any = None

    @property
    def fixed(self) -> Mapping[str, Array]:
        """The inputs whose values of the first run became constants."""
        return self._stated

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs for inputs in the model's order, or by name.

        Raise :class:`~hilc.errors.InputError` if an input that became a constant has another value.
        """
        values = self._values(inputs)
        if self._graph is None:
            self._prepare(values)
        graph = self._graph
        assert graph is not None
        for name, stated in self._stated.items():
            if not np.array_equal(values[name], stated):
                raise InputError(
                    f"the input {name!r} has other values than in the first run",
                    "the compiler had to know it: prepare the model again for other values",
                )
        given = {name: packed(values[name]) for name in graph.inputs}
        results = self._computes(given)
        return tuple(unpacked(results[name], code) for name, code in self._outputs.items())

    def _values(self, inputs: Any) -> dict[str, Array]:
        if isinstance(inputs, Mapping):
            return {name: np.asarray(value) for name, value in inputs.items()}
        listed = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        return {
            name: np.asarray(value)
            for name, value in zip(self.inputs, listed, strict=False)
            if value is not None
        }

    def _prepare(self, values: Mapping[str, Array]) -> None:
        self._graph, _, fixed = specialized(self._data, values)
        self._stated = {name: values[name].copy() for name in fixed}
        if not self._in_c:
            self._computes = Interpreter(self._graph).run
            return
        graph = self._graph
        model = hilc.host.load(hilc.compile(graph, cpu="host"))

        def computes(given: Mapping[str, Array]) -> dict[str, Array]:
            for name, value in given.items():
                model.set_input(name, value)
            model.run()
            return {name: model.get_output(i) for i, name in enumerate(graph.outputs)}

        self._computes = computes


class HilBackend(Backend):  # type: ignore[misc]
    """The backend; its functions are those of this module."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> HilRep:
        """Return a model ready to run on a device of :data:`DEVICES`.

        Raise :class:`~hilc.errors.InputError` for an unknown device, and
        :class:`~hilc.errors.UnsupportedError` for a model that returns texts.
        """
        if not cls.supports_device(device):
            raise InputError(
                f"there is no device {device!r}", f"choose one of {', '.join(DEVICES)}"
            )
        if has_labels_to_number(model):
            raise UnsupportedError(
                "the model returns texts or dictionaries",
                "hilc.compile makes numbers of classes and tensors of them; ONNX's interface does "
                "not permit that",
            )
        return HilRep(model, device == "CPU:C")

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Return the outputs of a model for its inputs."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Return the outputs of one node for its inputs, by the newest opset or the one given."""
        names = [name for name in node.input if name]
        arrays = [np.asarray(value) for value in inputs]
        values = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, arrays, strict=True)
        ]
        opset = int(kwargs.get("opset_version", onnx.defs.onnx_opset_version()))
        inferred = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, opset, node.domain),
            node,
            {value.name: value.type for value in values},
            opset_imports=[helper.make_opsetid(node.domain, opset)],
        )
        outputs = [helper.make_value_info(name, inferred[name]) for name in node.output if name]
        model = helper.make_model(
            helper.make_graph([node], "node", values, outputs),
            opset_imports=[helper.make_opsetid(node.domain, opset)],
        )
        return cls.run_model(model, arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether there is such a device."""
        return device in DEVICES


prepare = HilBackend.prepare
run_model = HilBackend.run_model
run_node = HilBackend.run_node
supports_device = HilBackend.supports_device
