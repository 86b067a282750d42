"""References of ONNX files, and the standard's own: ``onnx.reference``, numpy code for every
operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from math import prod
from typing import Any, Protocol

import numpy as np

from hilc.errors import InputError, ModelError
from hilc.frontends.onnx.reader import is_onnx, require_package
from hilc.interpreter import check_inputs
from hilc.ir import Array, Graph
from hilc.ops import OPS
from hilc.references import onnx_operators

#: The first opset of which the evaluator has DequantizeLinear.
_QDQ_OPSET = 19


class Engine(Protocol):
    """A program that computes an ONNX file."""

    #: ONNX's numbers of the types of the inputs, by name.
    inputs: Mapping[str, int]
    description: str

    def run(self, given: Mapping[str, Array]) -> Mapping[str, Any]:
        """Return all values that the file names; raise ModelError if the program rejects them."""


class OnnxReference:
    """A reference that computes the model's file: ``onnx`` or ``onnxruntime``."""

    def __init__(
        self, name: str, engine: Callable[[bytes], Engine], graph: Graph, model: bytes | None
    ) -> None:
        if model is None or not is_onnx(model):
            raise InputError(
                f"the reference {name} runs ONNX files only"
                if model is not None
                else f"the reference {name} runs model files, but this model has none",
                "choose the reference hilc",
            )
        require_package()
        self.name = name
        self._graph = graph
        self._engine = engine(model)
        self.description = f"{name}: {self._engine.description}"
        # What a model is given of types that only ONNX has is what they are stored in.
        self._storage = import_module("hilc.frontends.onnx.storage")
        self._states: dict[str, Array] = {}
        self.reset_state()

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the values of all tensors that the file names.

        Raise :class:`~hilc.errors.ModelError` if the program cannot run the model.
        """
        check_inputs(self._graph, inputs)
        needed = self._engine.inputs
        given = {name: value for name, value in inputs.items() if name in needed}
        given.update(self._states)
        given = {n: self._storage.unpacked(v, needed.get(n, 0)) for n, v in given.items()}
        for name in set(needed) - set(given):
            tensor = self._graph.tensors.get(name)
            if tensor is not None and tensor.data is not None:
                given[name] = tensor.data  # holds no element
        found = {
            name: self._storage.packed(np.asarray(value))
            for name, value in self._engine.run(given).items()
            if _is_tensor(value)
        }
        self._states = {state.name: found[state.after] for state in self._graph.states}
        self._fill_rows(found)
        # An output that no operator computes is called after its position, too.
        for node in self._graph.nodes:
            for name in node.outputs:
                if name not in found and node.inputs and node.inputs[0] in found:
                    source = found[node.inputs[0]]
                    if OPS[node.op].view and name in self._graph.outputs:
                        found[name] = source.reshape(self._graph.tensors[name].shape)
        if missing := [name for name in self._graph.outputs if name not in found]:
            raise ModelError(
                f"the reference {self.name} gives no value of the output {missing[0]!r}, whose "
                "type in the model's file numpy does not have",
                f"choose the reference {'hilc' if self.name == 'onnx' else 'onnx or hilc'}",
            )
        return found

    def _fill_rows(self, found: dict[str, Array]) -> None:
        """Fill the outputs that gather what the turns of a loop make with rows of zeros, up to the
        bound of its turns.
        """
        for node in self._graph.nodes:
            for name in node.outputs if OPS[node.op].control is not None else ():
                value, shape = found.get(name), self._graph.tensors[name].shape
                if value is not None and value.size < prod(shape):
                    # onnx.reference stacks rows along the first axis that they have.
                    made = value.reshape(-1, *shape[1:])
                    rows = np.zeros(shape, self._graph.tensors[name].dtype)
                    rows[: len(made)] = made
                    found[name] = rows

    def reset_state(self) -> None:
        """Give the states their reset values."""
        self._states = {s.name: self._graph.reset_value(s) for s in self._graph.states}


class Evaluator:
    """``onnx``: the package's reference evaluator, with code of this project for the operators of
    :mod:`hilc.references.onnx_operators`.

    Raise :class:`~hilc.errors.ModelError` for a node of which it ignores an attribute or an input.
    """

    def __init__(self, model: bytes) -> None:
        self._evaluator = _evaluator(model)
        names, kinds = self._evaluator.input_names, self._evaluator.input_types
        self.inputs: Mapping[str, int] = {
            name: kind.tensor_type.elem_type for name, kind in zip(names, kinds, strict=True)
        }
        self.description = f"onnx.reference {_version()}, numpy {np.__version__}"

    def run(self, given: Mapping[str, Array]) -> Mapping[str, Any]:
        """Return all values that the file names."""
        try:
            with np.errstate(all="ignore"):
                values: Mapping[str, Any] = self._evaluator.run(None, given, intermediate=True)
                return values
        except Exception as error:
            raise ModelError(
                f"onnx.reference cannot run this model: {' '.join(str(error).split())}",
                "choose the reference onnxruntime or hilc",
            ) from error


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _evaluator(model: bytes) -> Any:
    raised = _raised(model)
    _require_computed(raised.graph.node)
    try:
        return import_module("onnx.reference").ReferenceEvaluator(
            raised, new_ops=[_loop_without_turns(), *onnx_operators.operators()]
        )
    except Exception as error:
        raise ModelError(
            f"onnx.reference cannot load this model: {' '.join(str(error).split())}",
            "choose the reference onnxruntime or hilc",
        ) from error


def _require_computed(nodes: Any) -> None:
    """Raise ModelError for a node of which the evaluator ignores something that changes it."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _require_computed(attribute.g.node)
        if ignored := onnx_operators.departure(node):
            name = node.name or node.output[0]
            raise ModelError(
                f"onnx.reference ignores {ignored} of {node.op_type} {name!r}",
                "choose the reference onnxruntime or hilc",
            )


def _loop_without_turns() -> type:
    """Return the evaluator's Loop, which also accepts that there is no turn, as the standard
    says.
    """
    base: Any = import_module("onnx.reference.ops.op_loop").Loop

    class Loop(base):  # type: ignore[misc]
        op_domain = ""

        def _run(self, M: Any, cond: Any, *args: Any, **given: Any) -> Any:
            if (M is not None and np.all(M <= 0)) or not np.all(cond):
                # Outputs that gather rows have none.
                return (*args, *[np.zeros(0)] * self.K)
            return super()._run(M, cond, *args, **given)

    return Loop


def _raised(data: bytes) -> Any:
    """Return the model in an opset whose DequantizeLinear the evaluator has, with a condition for
    every loop.
    """
    onnx = import_module("onnx")
    model = onnx.load_from_string(data)
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        _give_conditions(onnx, nodes)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), _QDQ_OPSET)
    if opset >= _QDQ_OPSET or all(n.op_type != "DequantizeLinear" for n in model.graph.node):
        return model
    return import_module("onnx.version_converter").convert_version(model, _QDQ_OPSET)


def _give_conditions(onnx: Any, nodes: Any) -> None:
    """Let loops without a condition run until their trip count ends, as the standard says.

    The evaluator takes a condition that is left out for one that is false, and obeys that of the
    body, which does not count then.
    """
    for node in tuple(nodes):
        bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        for body in bodies:
            _give_conditions(onnx, body.node)
        if node.op_type != "Loop" or (len(node.input) > 1 and node.input[1]):
            continue
        true = onnx.helper.make_tensor("true", onnx.TensorProto.BOOL, (), [True])
        given, kept = (f"{node.output[0]}/{what}" for what in ("condition", "next condition"))
        position = list(nodes).index(node)
        nodes.insert(position, onnx.helper.make_node("Constant", [], [given], value=true))
        node = nodes[position + 1]
        node.input.extend([""] * (2 - len(node.input)))
        node.input[1] = given
        (body,) = (attribute.g for attribute in node.attribute if attribute.HasField("g"))
        body.node.append(onnx.helper.make_node("Constant", [], [kept], value=true))
        body.output[0].CopyFrom(onnx.helper.make_tensor_value_info(kept, onnx.TensorProto.BOOL, ()))


def _version() -> str:
    try:
        return version("onnx")
    except PackageNotFoundError:
        return "of unknown version"
