"""TensorFlow Lite files, read through the generated classes of the schema package ``tflite``.

The file's structure is checked first (:mod:`hilc.frontends.tflite.flatbuffer`); then operators and
tensors are translated and checked for sense. What the intermediate representation has no place for
is resolved here, where that is exact:

* **float16 constants** widened by a DEQUANTIZE become float32 constants; the operator vanishes.
* **dynamic-range ("hybrid") weights**, int8 constants of a convolution or fully connected layer
  with float32 activations, become float32 constants, ``scale * (q - zero_point)``. TFLite's own
  kernels for such layers additionally quantize the *activations* at run time: a speed-up for
  processors whose integer units are faster, which costs accuracy and differs between TFLite's
  kernel sets. So the float graph is what such a model means here by default, and its reference is
  TFLite's float kernels on the dequantized weights (:mod:`hilc.writers.tflite`). On request
  (``dynamic=integer``) the layers compute as TFLite's reference kernels do
  (:mod:`hilc.frontends.tflite.hybrid`).

* **4-bit weights** become int8: exact, and twice the flash that they take in the file.

* **sparse constants** (DENSIFY) are expanded (:mod:`hilc.frontends.tflite.sparse`).

* **compressed weights** (DECODE) are decoded (:mod:`hilc.frontends.tflite.decode`): exact, and all
  the flash that they take without compression.

What a file leaves open of its shapes is resolved by :mod:`hilc.transforms.shapes`, and outputs that
no operator computes by :mod:`hilc.transforms.unalias_outputs`.

Variables become states: those that an operator updates by itself, and resources. Reading a resource
is a view of its value at that point; what initializes resources (CALL_ONCE) is evaluated here, its
values are what a reset gives. The states of subgraphs that IF or WHILE calls are the model's, and
operands of the call (:mod:`hilc.transforms.carried_states`).

The first subgraph is the model; others are called by it (IF, WHILE, CALL_ONCE). A file with other
entry points is refused until one of its signatures is selected
(:mod:`hilc.frontends.tflite.signatures`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import tflite

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends.budget import MAX_DEPTH, NodeBudget
from hilc.frontends.readers import Reading
from hilc.frontends.tflite.decode import decoded
from hilc.frontends.tflite.flatbuffer import check
from hilc.frontends.tflite.hybrid import (
    ASYMMETRIC,
    FLOATS_ALONE,
    WEIGHTS,
    HybridOperator,
    asymmetric_inputs,
    hybrid_weights,
    layer_parts,
)
from hilc.frontends.tflite.list_items import with_fixed_lists
from hilc.frontends.tflite.schema import (
    MODEL,
    OPERATOR_NAMES,
    OPERATORS,
    TYPE_NAMES,
    Operator,
    custom_name,
    is_custom,
)
from hilc.frontends.tflite.signatures import require_all_called, require_one_entry
from hilc.frontends.tflite.sparse import expanded
from hilc.frontends.tflite.values import builtin_code, text_of, unique_names, vector
from hilc.ir import (
    DTYPES,
    ELEMENT_TYPES,
    Array,
    Attributes,
    FixedSize,
    Graph,
    Node,
    Quant,
    Rounding,
    State,
    Tensor,
)
from hilc.ir.dtypes import FLOAT, INTEGER
from hilc.ops import OPS
from hilc.ops.cast import CastAttributes
from hilc.ops.complex_numbers import PARTS
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.control_flow import IfAttributes, WhileAttributes
from hilc.ops.depthwise_conv2d import DepthwiseConv2DAttributes
from hilc.ops.quantize import QuantizeAttributes
from hilc.ops.reduce import ArgAttributes
from hilc.ops.softmax import SoftmaxAttributes
from hilc.ops.streams import CircularBufferAttributes, Memory
from hilc.ops.verify import check_tensor, no_elements, verify
from hilc.ops.views import ReshapeAttributes
from hilc.support.identifiers import unused
from hilc.support.suggest import operators_hint
from hilc.transforms.carried_states import branches_carrying, loop_carrying
from hilc.transforms.shapes import constant_values, resolve_shapes
from hilc.transforms.unalias_outputs import unalias_outputs
from hilc.transforms.vanishing import with_normal_scale

_SCHEMA_VERSION = 3
_MAX_RANK = 8
#: Constants of four bits, and the type as which they are read.
_PACKED, _UNPACKED = "int4", "int8"
#: Complex numbers are pairs of floats between these operators.
_COMPLEX = "complex64"
_OF_COMPLEX = ("RFFT2D", "REAL", "IMAG", "COMPLEX_ABS")
_COMPLEX_HINT = (
    f"complex numbers are supported between {', '.join(_OF_COMPLEX)} and RESHAPE alone: let the "
    "model take and give their real and imaginary parts"
)
#: Operator that decodes constants.
_DECODE = custom_name("TFLM_DECODE")
#: Operators with weights, and perhaps a bias.
_LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: Operators that are stated by the type of their output.
_CONVERSIONS: Mapping[str, Callable[..., Attributes]] = {
    "ARG_MAX": ArgAttributes,
    "ARG_MIN": ArgAttributes,
    "CAST": CastAttributes,
    "QUANTIZE": QuantizeAttributes,
}

#: Linear operators: positions of the multiplied operands, and of the bias.
_SUMMED = {**dict.fromkeys(_LINEAR, (0, 2)), "TRANSPOSE_CONV": (2, 3), "BATCH_MATMUL": (0, 2)}
#: Rounding of TFLite by the type of sums, where it is not double rounding.
_ROUNDINGS = {"int64": Rounding.SINGLE}


def import_graph(data: bytes, name: str) -> Reading:
    """Return the graph of a TFLite file, with the tensors whose shapes the file leaves open.

    Conditions that involve several operators are left to ``verify``.
    """
    return _reading(Importer(data), name)


def import_hybrid(data: bytes, name: str) -> Reading:
    """Return the graph as :func:`import_graph` does, with dynamic-range layers on integers."""
    return _reading(Importer(data, hybrid=True), name)


def _reading(importer: Importer, name: str) -> Reading:
    graph = importer.graph(name)
    dynamic = (INTEGER if importer.hybrid else FLOAT) if importer.has_hybrid_layers else ""
    return Reading(graph, importer.open_shapes, importer.fixed_sizes, dynamic=dynamic)


def tensor_names(data: bytes) -> tuple[str, ...]:
    """Return the unique name of each tensor of the main subgraph, by its index in the file."""
    return Importer(data).names


def resource_variables(data: bytes) -> int:
    """Return the number of variables that the operators name: TFLM needs it before it runs."""
    model = tflite.Model.GetRootAs(data, 0)
    codes = [builtin_code(model.OperatorCodes(i)) for i in range(model.OperatorCodesLength())]
    subgraphs = map(model.Subgraphs, range(model.SubgraphsLength()))
    return sum(
        codes[subgraph.Operators(i).OpcodeIndex()] == tflite.BuiltinOperator.VAR_HANDLE
        for subgraph in subgraphs
        for i in range(subgraph.OperatorsLength())
    )


def has_data_outside(data: bytes) -> bool:
    """Return whether a file has data behind its FlatBuffers part, as large files have."""
    model = Importer(data).model
    buffers = (model.Buffers(i) for i in range(model.BuffersLength()))
    return any(_is_outside(buffer) for buffer in buffers)


def _is_outside(buffer: Any) -> bool:
    """Return whether a buffer's data lie behind the FlatBuffers part; 0 and 1 mean that none do."""
    return not buffer.DataLength() and buffer.Offset() > 1 and buffer.Size() > 1


#: Key of a variable: container and name of a resource; or the number of its subgraph and the
#: name of an operator's own variable, which has one value wherever the subgraph is called.
_Key = tuple[str | int, str]


@dataclass
class _Variable:
    """A variable that is a resource, or a state of a called subgraph, as far as the operators read
    so far have used it.
    """

    key: _Key
    #: Its value before a run; None before anything reads or assigns it.
    tensor: Tensor | None = None
    #: The tensor with its value now.
    now: str = ""
    #: Value after a reset; None for zeros.
    reset: Array | None = None


class Importer:
    """Translation of a subgraph; tensors are translated when an operator refers to them."""

    def __init__(
        self,
        data: bytes,
        number: int = 0,
        callers: tuple[int, ...] = (),
        argument_variables: Sequence[_Key | None] = (),
        budget: NodeBudget | None = None,
        hybrid: bool = False,
    ) -> None:
        if number == 0:
            check(data, MODEL)
        self.model = tflite.Model.GetRootAs(data, 0)
        if self.model.Version() != _SCHEMA_VERSION:
            raise ModelError(
                f"the file has schema version {self.model.Version()}, not {_SCHEMA_VERSION}"
            )
        if self.model.SubgraphsLength() == 0:
            raise ModelError("the file has no subgraph")
        if number == 0:
            require_one_entry(self.model)
        self.subgraph = self.model.Subgraphs(number)
        self.names = unique_names(
            [self.subgraph.Tensors(i).Name() or b"" for i in range(self.subgraph.TensorsLength())]
        )
        #: The tensors that others see, which keep their quantization.
        self._io_indices = {*vector(self.subgraph, "Inputs"), *vector(self.subgraph, "Outputs")}
        self._data = data
        self._number = number
        #: Whether dynamic-range layers are computed on integers.
        self.hybrid = hybrid
        #: Whether there are any, in a called subgraph too.
        self.has_hybrid_layers = False
        #: The subgraphs that are being read, this one included.
        self._callers = callers
        #: Variables whose handles the caller passes, by the position of the input.
        self._argument_variables = argument_variables
        #: Node budget of the whole file.
        self._budget = budget or NodeBudget()
        self._tensors: dict[int, Tensor] = {}
        #: Names of tensors of complex numbers, which are pairs of floats here.
        self._complex: set[str] = set()
        #: The variables that operators update, by their index, and the tensor with their value now.
        self._states: dict[int, str] = {}
        #: States of operators without a variable.
        self._memories: list[State] = []
        #: Variables that are resources, by their handles' tensors and by their names in the file.
        self._handles: dict[int, _Variable] = {}
        self._resources: dict[_Key, _Variable] = {}
        #: Names of the computed tensors whose shapes in the file are placeholders.
        self.open_shapes = frozenset(self._open_shapes())
        #: The sizes of inputs that the file leaves open; set by :meth:`graph`.
        self.fixed_sizes: tuple[FixedSize, ...] = ()

    def graph(self, name: str) -> Graph:
        """Return the subgraph as a graph called ``name``.

        Raises :class:`~hilc.errors.ModelError` for an invalid file and
        :class:`~hilc.errors.UnsupportedError` for operators that are not supported.
        """
        self._budget.require(self.subgraph.OperatorsLength())
        operators = [self.subgraph.Operators(i) for i in range(self.subgraph.OperatorsLength())]
        codes = [self._code(i, operator) for i, operator in enumerate(operators)]
        _refuse_unknown(codes)
        inputs = self._indices(self.subgraph, "Inputs", "the model's inputs")
        outputs = self._indices(self.subgraph, "Outputs", "the model's outputs")
        for key, index in zip(self._argument_variables, inputs, strict=False):
            if key is not None:
                self._handles[index] = self._variable(key)
        inputs = tuple(index for index in inputs if index not in self._handles)
        self.fixed_sizes = tuple(size for index in inputs for size in self._fixed_sizes(index))
        io_tensors = [i for i in (*inputs, *outputs) if not (self._number and self._is_handle(i))]
        tensors = {self.names[i]: self.tensor(i) for i in io_tensors}
        for io_name in tensors:
            if io_name in self._complex:
                raise UnsupportedError(
                    f"{io_name!r} is an input or an output, and complex", _COMPLEX_HINT
                )
        nodes = []
        for i, (operator, code) in enumerate(zip(operators, codes, strict=True)):
            try:
                self._budget.count_read()
                row = OPERATORS[code]
                translate = self._call if row.calls else self._translate
                if row.on_resources:
                    translate = self._lower_resource_op
                nodes += translate(i, code, operator, tensors)
            except ModelError as error:
                raise type(error)(f"operator {i} ({code}): {error.fact}", error.hint) from error
        if not self._number:
            require_all_called(self.model)
        states = [
            State(self.names[index], after, _cleared(self.tensor(index)))
            for index, after in self._states.items()
        ]
        states += [
            State(variable.tensor.name, variable.now, variable.reset)
            for variable in self._resources.values()
            if variable.tensor is not None
        ]
        graph = Graph(
            name,
            tensors,
            tuple(nodes),
            tuple(self.names[i] for i in inputs),
            tuple(self._states.get(i, self.names[i]) for i in outputs if i not in self._handles),
            (*states, *self._memories),
        )
        return with_fixed_lists(graph)

    # Operators that call subgraphs --------------------------------------------------------------

    def _call(self, index: int, code: str, operator: Any, tensors: dict[str, Tensor]) -> list[Node]:
        """Return the node of an operator that calls subgraphs, which has their states as operands.

        Handles of variables are no operands: a subgraph that receives one knows its variable.
        """
        row = OPERATORS[code]
        inputs = self._indices(operator, "Inputs", "it")
        outputs = self._indices(operator, "Outputs", "it")
        if len(inputs) < row.inputs[0] or min(*inputs, *outputs, len(outputs) - 1) < 0:
            raise ModelError(f"it has {len(inputs)} inputs and {len(outputs)} outputs")
        is_choice = row.calls[0].startswith("Then")
        called = self._called(row, operator, inputs[1:] if is_choice else inputs)
        for position, output in enumerate(outputs):
            if self._is_handle(output):
                self._handles[output] = self._returned_handle(called[is_choice - 1 :], position)
            elif self.names[output] not in self.open_shapes:
                self._refuse_empty(output, "its output")
        operands = [
            [self._own(i, tensors) for i in indices if i not in self._handles]
            for indices in (inputs, outputs)
        ]
        graphs = [graph for _, graph in called]
        states = [importer._keyed(graph) for importer, graph in called]
        carrying = (branches_carrying if is_choice else loop_carrying)(graphs, states)
        for key in carrying.state_inputs:
            variable = self._carried(key, states, carrying.kinds[key], tensors)
            operands[0].append(variable.now)
        for key in carrying.state_outputs:
            variable = self._variable(cast(_Key, key))
            assert variable.tensor is not None
            name = unused(f"{variable.tensor.name}:next", {*tensors, *self.names})
            tensors[name] = replace(variable.tensor, name=name)
            operands[1].append(name)
            if key in carrying.updated:
                variable.now = name
        first, second = [unalias_outputs(graph) for graph in carrying.graphs]
        for graph in (first, second):
            verify(graph)
        attrs: Attributes = WhileAttributes(condition=first, body=second)
        if is_choice:
            attrs = IfAttributes(then=first, otherwise=second)
        return [Node(row.op or code, tuple(operands[0]), tuple(operands[1]), attrs, index)]

    def _called(
        self, row: Operator, operator: Any, inputs: Sequence[int]
    ) -> list[tuple[Importer, Graph]]:
        """Return the subgraphs that an operator calls with these inputs."""
        arguments = [self._handles[i].key if i in self._handles else None for i in inputs]
        numbers = row.read_options(operator, lambda o: [int(getattr(o, c)()) for c in row.calls])
        called = []
        for number in numbers:
            if not 0 < number < self.model.SubgraphsLength():
                raise ModelError(
                    f"it calls subgraph {number}; the file has {self.model.SubgraphsLength()}"
                )
            if number in self._callers:
                raise UnsupportedError(
                    f"it calls subgraph {number}, which it is part of", "unroll the recursion"
                )
            if len(self._callers) >= MAX_DEPTH:
                raise UnsupportedError(
                    f"it calls subgraphs {MAX_DEPTH} deep", "call fewer subgraphs in each other"
                )
            self._budget.count_called()
            importer = Importer(
                self._data,
                number,
                (*self._callers, number),
                arguments,
                self._budget,
                self.hybrid,
            )
            graph = importer.graph(f"subgraph_{number}")
            self.has_hybrid_layers |= importer.has_hybrid_layers
            called.append((importer, resolve_shapes(graph, importer.open_shapes)))
        return called

    def _own(self, index: int, tensors: dict[str, Tensor]) -> str:
        """Return the name of an operand that a call hands over or gives."""
        self._refuse_variable(index)
        tensor = self.tensor(index)
        if tensor.name in self._complex:
            raise UnsupportedError("it takes or gives complex numbers", _COMPLEX_HINT)
        return tensors.setdefault(tensor.name, tensor).name

    def _returned_handle(
        self, called: Sequence[tuple[Importer, Graph]], position: int
    ) -> _Variable:
        """Return the variable whose handle is an output of all of these subgraphs."""
        keys = []
        for importer, _ in called:
            outputs = self._indices(importer.subgraph, "Outputs", "its subgraph's outputs")
            index = outputs[position] if position < len(outputs) else -1
            handle = importer._handles.get(index)
            same = importer._argument_variables[position : position + 1]
            if handle is None or (len(called) == 1 and handle.key not in same):
                raise UnsupportedError(
                    f"its output {position} is the handle of a variable that depends on values",
                    "let each handle stay that of one variable",
                )
            keys.append(handle.key)
        if len(set(keys)) > 1:
            raise UnsupportedError(
                f"its output {position} is the handle of {keys[0][1]!r} or of {keys[1][1]!r}",
                "let each handle stay that of one variable",
            )
        return self._variable(keys[0])

    def _keyed(self, graph: Graph) -> dict[Hashable, State]:
        """Return the states of this subgraph's graph, by key."""
        keys: list[_Key] = [(self._number, self.names[index]) for index in self._states]
        keys += [key for key, variable in self._resources.items() if variable.tensor is not None]
        keys += [(self._number, state.name) for state in self._memories]
        return dict(zip(keys, graph.states, strict=True))

    def _carried(
        self,
        key: Hashable,
        states: Sequence[Mapping[Hashable, State]],
        kind: Tensor,
        tensors: dict[str, Tensor],
    ) -> _Variable:
        """Return the variable that has the value of a called subgraph's state."""
        variable = self._variable(cast(_Key, key))
        is_new = variable.tensor is None
        self._declare(variable, kind, tensors)
        if is_new and isinstance(variable.key[0], int):
            # An operator's: no CALL_ONCE initializes it.
            variable.reset = next(own[key].reset for own in states if key in own)
        return variable

    def _variable(self, key: _Key) -> _Variable:
        return self._resources.setdefault(key, _Variable(key))

    def _is_handle(self, index: int) -> bool:
        return bool(self.subgraph.Tensors(index).Type() == tflite.TensorType.RESOURCE)

    def _refuse_variable(self, index: int) -> None:
        if self.subgraph.Tensors(index).IsVariable():
            raise UnsupportedError(
                f"it reads the variable {self.names[index]!r}, which is no state of its own",
                "read variables with READ_VARIABLE, or make the state an input and an output",
            )

    # Variables that are resources ---------------------------------------------------------------

    def _lower_resource_op(
        self, index: int, code: str, operator: Any, tensors: dict[str, Tensor]
    ) -> list[Node]:
        """Return the nodes of an operator on variables: reading one is a view of its value now."""
        row = OPERATORS[code]
        inputs = self._indices(operator, "Inputs", "it")
        outputs = self._indices(operator, "Outputs", "it")
        counts = {"VAR_HANDLE": (0, 1), "READ_VARIABLE": (1, 1), "ASSIGN_VARIABLE": (2, 0)}
        if (len(inputs), len(outputs)) != counts.get(code, (0, 0)) or -1 in (*inputs, *outputs):
            raise ModelError(f"it has {len(inputs)} inputs and {len(outputs)} outputs")
        match code:
            case "VAR_HANDLE":
                key = row.read_options(operator, lambda o: (o.Container(), o.SharedName()))
                texts = tuple(text_of(part or b"") for part in key)
                self._handles[outputs[0]] = self._variable((texts[0], texts[1]))
                return []
            case "CALL_ONCE":
                number = row.read_options(operator, lambda o: int(o.InitSubgraphIndex()))
                self._initialize(number, tensors)
                return []
        variable = self._handles.get(inputs[0])
        if variable is None:
            raise ModelError(f"its input {self.names[inputs[0]]!r} is no handle of a variable")
        if code == "ASSIGN_VARIABLE":
            value = self.tensor(inputs[1])
            tensors.setdefault(value.name, value)
            self._declare(variable, value, tensors)
            variable.now = value.name
            return []
        value = self.tensor(outputs[0])
        tensors[value.name] = value
        declared = self._declare(variable, value, tensors)
        # A view, which the passes remove.
        attrs = ReshapeAttributes(new_shape=declared.shape)
        return [Node("RESHAPE", (variable.now,), (value.name,), attrs, index)]

    def _declare(self, variable: _Variable, value: Tensor, tensors: dict[str, Tensor]) -> Tensor:
        """Return the tensor of a variable, which is of the kind of its first value."""
        if variable.tensor is None:
            name = variable.key[1] or "variable"
            while name in tensors or name in self.names:
                name += "_"
            data = variable.reset
            shape = value.shape if data is None else data.shape
            variable.tensor = replace(value, name=name, shape=shape, data=None)
            variable.now = name
            tensors[name] = variable.tensor
            if data is None:
                variable.reset = _cleared(variable.tensor)
        declared = variable.tensor
        is_open = value.name in self.open_shapes
        if value.dtype != declared.dtype or not (is_open or value.shape == declared.shape):
            raise ModelError(
                f"the variable {declared.name!r}, {declared.dtype}{list(declared.shape)}, has the "
                f"value {value.name!r}, {value.dtype}{list(value.shape)}"
            )
        if value.quant != declared.quant:
            raise UnsupportedError(
                f"the variable {declared.name!r} has values of different scales or zero points: "
                f"{declared.quant} and, of {value.name!r}, {value.quant}",
                "quantize all values of a variable alike",
            )
        return declared

    def _initialize(self, number: int, tensors: dict[str, Tensor]) -> None:
        """Use the values that a subgraph assigns to variables as their reset values."""
        if self._number:
            raise UnsupportedError("it stands in another subgraph", "call it in the first")
        if not 0 < number < self.model.SubgraphsLength():
            raise ModelError(
                f"its subgraph is number {number}; the file has {self.model.SubgraphsLength()}"
            )
        importer = Importer(self._data, number)
        graph = importer.graph(f"subgraph {number}")
        if graph.inputs:
            raise ModelError(f"its subgraph {number} has inputs")
        values = constant_values(graph, importer.open_shapes)
        for key, initialized in importer._resources.items():
            if initialized.tensor is None:
                continue
            own = self._variable(key)
            if own.tensor is not None:
                raise UnsupportedError(
                    f"it initializes the variable {own.tensor.name!r}, which was used before",
                    "call the initialization before anything else",
                )
            data = values.get(initialized.now)
            if data is None:
                raise UnsupportedError(
                    f"its subgraph {number} does not give the variable "
                    f"{initialized.tensor.name!r} a value that depends on constants alone",
                    "initialize variables with constants",
                )
            own.reset = data

    def _variables(self, positions: Sequence[int], inputs: Sequence[int]) -> list[int]:
        """Return the indices of an operator's variables."""
        indices = []
        for position in positions:
            index = inputs[position]
            if not self.subgraph.Tensors(index).IsVariable():
                name = self.names[index]
                raise ModelError(f"its input {position} is {name!r}, which must be a variable")
            if index in indices:
                raise ModelError(f"it updates the variable {self.names[index]!r} twice")
            indices.append(index)
        return indices

    def _updated(self, index: int, tensors: dict[str, Tensor]) -> str:
        """Return the name of a new tensor, which is the value of a variable from now on."""
        variable = self.tensor(index)
        name = f"{variable.name}:next"
        while name in tensors or name in self.names:
            name += "_"
        tensors[name] = replace(variable, name=name)
        self._states[index] = name
        return name

    def hybrid_weights(self) -> list[tuple[int, int, int]]:
        """Return the int8 weights of layers with float32 activations: operator, position, index."""
        found = []
        for i in range(self.subgraph.OperatorsLength()):
            operator = self.subgraph.Operators(i)
            code = self._code(i, operator)
            if code not in WEIGHTS:
                continue
            inputs = self._indices(operator, "Inputs", f"operator {i} ({code})")
            operands = [self.tensor(index) if index >= 0 else None for index in inputs]
            found += [(i, place, inputs[place]) for place in hybrid_weights(code, operands)]
        return found

    def tensor(self, index: int) -> Tensor:
        """Return the tensor at ``index``, read once.

        Raises :class:`~hilc.errors.ModelError`, with the index, for an invalid one.
        """
        if index not in self._tensors:
            try:
                self._tensors[index] = self._read_tensor(index)
            except ModelError as error:
                raise type(error)(f"tensor {index}: {error.fact}", error.hint) from error
        return self._tensors[index]

    def _translate(
        self, index: int, code: str, operator: Any, tensors: dict[str, Tensor]
    ) -> list[Node]:
        """Return the operator as nodes, or none for a constant in ``tensors``, to which its
        operands are added.
        """
        row = OPERATORS[code]
        inputs = self._indices(operator, "Inputs", "it")
        outputs = self._indices(operator, "Outputs", "it")
        least, most = row.inputs
        if not least <= len(inputs) <= most:
            raise ModelError(f"it has {len(inputs)} inputs; {_range(least, most)} are accepted")
        supported = row.supported_inputs
        needed = inputs[:least] if supported is None else [inputs[i] for i in supported]
        if not outputs or min(outputs) < 0 or min(needed) < 0:
            raise ModelError("it has a missing operand")
        for position, i in enumerate(inputs):
            if i >= 0 and supported is not None and position not in supported:
                raise UnsupportedError(
                    f"it takes {self.names[i]!r} as input {position}, which is not supported",
                    f"supported are inputs {', '.join(map(str, supported))} alone",
                )
        if constant := self._widened(code, inputs, outputs):
            tensors[constant.name] = constant
            return []
        if code == _DECODE:
            self._decode(inputs, outputs, tensors)
            return []
        if code == "DENSIFY":
            self._densify(inputs[0], outputs[0], tensors)
            return []
        for i in outputs:
            if self.names[i] not in self.open_shapes:
                self._refuse_empty(i, "its output")
        named = [self.tensor(i) if i >= 0 else None for i in inputs]
        if positions := hybrid_weights(code, named):
            has_kernel = code not in FLOATS_ALONE
            self.has_hybrid_layers |= has_kernel
            if self.hybrid and has_kernel:
                return self._on_integers(index, code, operator, named, tensors)
            for position in positions:
                named[position] = self._float_weights(named[position])
        for tensor in (*named, *(self.tensor(i) for i in outputs)):
            if tensor is not None:
                tensors.setdefault(tensor.name, tensor)
        if any(t is not None and t.name in self._complex for t in named) or any(
            self.names[i] in self._complex for i in outputs
        ):
            if code == "RESHAPE":
                return self._reshaped_pairs(index, named, self.tensor(outputs[0]), tensors)
            if code not in _OF_COMPLEX:
                raise UnsupportedError("it takes or gives complex numbers", _COMPLEX_HINT)
        variables = self._variables(row.states, inputs)
        remembered = {state.after for state in self._memories}
        for i in inputs:
            if i < 0 or i in variables or self.names[i] in remembered:
                continue
            self._refuse_variable(i)
        input_names = [tensor.name if tensor else "" for tensor in named]
        for position, number in zip(row.states, variables, strict=True):
            input_names[position] = self._states.get(number, self.names[number])
        if code in _LINEAR:
            input_names += [""] * (most - len(input_names))
        attrs = row.read_attributes(operator)
        if code in _CONVERSIONS:
            # The file gives the type in the output only, which shape inference must not read.
            attrs = _CONVERSIONS[code](dtype=self.tensor(outputs[0]).dtype)
        if isinstance(attrs, SoftmaxAttributes) and named[0] is not None:
            given = self.tensor(outputs[0]).dtype
            attrs = replace(attrs, dtype="" if given == named[0].dtype else given)
        if isinstance(attrs, DepthwiseConv2DAttributes) and attrs.depth_multiplier == 0:
            # Converters may leave it to the shapes.
            x_shape, weights_shape = (self.tensor(i).shape or (1,) for i in inputs[:2])
            attrs = replace(attrs, depth_multiplier=weights_shape[-1] // x_shape[-1])
        if isinstance(attrs, CircularBufferAttributes):
            # So are the rows that it keeps, and what TFLite Micro clears them to.
            rows = self.tensor(outputs[0])
            cleared = _cleared(rows) if self.subgraph.Tensors(outputs[0]).IsVariable() else None
            attrs = replace(
                attrs,
                slots=rows.shape[1] if len(rows.shape) == 4 else 0,
                empty=0 if cleared is None else int(cleared.flat[0]),
            )
        op = row.op or code
        rounding = rounding_of_sums(code, named)
        if supported is not None:
            input_names = [input_names[position] for position in supported]
        names = [self.names[i] for i in outputs]
        names += [self._updated(i, tensors) for i in variables]
        node = Node(op, tuple(input_names), tuple(names), attrs, index, rounding)
        if code == "EMBEDDING_LOOKUP" and (both := self._widened_rows(node, named, tensors)):
            return both
        if row.memory is not None:
            node = self._remembering(node, row.memory(node, named), tensors)
        return [node]

    def _on_integers(
        self,
        index: int,
        code: str,
        operator: Any,
        named: Sequence[Tensor | None],
        tensors: dict[str, Tensor],
    ) -> list[Node]:
        """Return the nodes of a dynamic-range layer whose weights stay integers."""
        row = OPERATORS[code]
        inputs = self._indices(operator, "Inputs", "it")
        variables = self._variables(row.states, inputs)
        for i in inputs:
            if i >= 0 and i not in variables:
                self._refuse_variable(i)
        operands, out = list(named), self.tensor(self._indices(operator, "Outputs", "it")[0])
        for position, number in zip(row.states, variables, strict=True):
            variable = self.tensor(number)
            tensors.setdefault(variable.name, variable)
            operands[position] = tensors[self._states.get(number, variable.name)]
        updated = [tensors[self._updated(number, tensors)] for number in variables]
        attrs = row.read_attributes(operator)
        asymmetric = code in ASYMMETRIC and row.read_options(operator, asymmetric_inputs)
        names: set[str] = set()

        def fresh(base: str) -> str:
            name = base
            while name in tensors or name in self.names or name in names:
                name += "_"
            names.add(name)
            return name

        layer = HybridOperator(index, code, operands, out, attrs, asymmetric, updated)
        weights = hybrid_weights(code, named)
        if code not in _LINEAR:
            self._require_float_layer(layer, weights)
        parts = layer_parts(layer, fresh)
        for position, tensor in enumerate((*named, out)):
            if tensor is not None and position not in weights:
                tensors.setdefault(tensor.name, tensor)
        tensors.update(parts.tensors)
        if out.name in self.open_shapes:
            self.open_shapes |= {name for name, t in parts.tensors.items() if t.data is None}
        return parts.nodes

    def _require_float_layer(self, layer: HybridOperator, weights: Sequence[int]) -> None:
        """Raise ModelError if the same layer of float weights is none."""
        real = [
            self._float_weights(tensor) if position in weights else tensor
            for position, tensor in enumerate(layer.operands)
        ]
        taken = OPERATORS[layer.code].supported_inputs or range(len(real))
        ins = [real[position] for position in taken]
        names = tuple(tensor.name if tensor else "" for tensor in ins)
        outputs = [layer.out, *layer.updated]
        node = Node(layer.code, names, tuple(t.name for t in outputs), layer.attrs, layer.index)
        found = OPS[layer.code].infer(node, ins)
        if found != [(t.shape, t.dtype) for t in outputs]:
            raise ModelError(
                f"it gives {layer.out.dtype}{list(layer.out.shape)}, which must be "
                f"{found[0][1]}{list(found[0][0])}"
            )

    def _widened_rows(
        self, node: Node, named: Sequence[Tensor | None], tensors: dict[str, Tensor]
    ) -> list[Node] | None:
        """Return the nodes of a lookup in a quantized table that gives floats; None for others."""
        table, output = named[1], tensors[node.outputs[0]]
        if table is None or table.dtype == output.dtype or not table.element.needs_scale:
            return None
        quant = table.quant
        if not output.element.is_computed_real or quant is None or quant.zero_point != (0,):
            # Of several scales TensorFlow Lite Micro takes the first for all rows, TFLite each.
            raise UnsupportedError(
                f"it takes {table.name!r}, of type {table.dtype} with {quant}, and gives "
                f"{output.dtype}",
                "supported: the table's type, or float32 of a table with one scale and the zero "
                "point 0",
            )
        name = f"{output.name}:{table.dtype}"
        while name in tensors or name in self.names:
            name += "_"
        tensors[name] = Tensor(name, output.shape, table.dtype, quant)
        if output.name in self.open_shapes:
            self.open_shapes |= {name}
        return [
            replace(node, outputs=(name,)),
            Node("DEQUANTIZE", (name,), node.outputs, Attributes(), node.index),
        ]

    def _remembering(
        self, node: Node, memories: Sequence[Memory], tensors: dict[str, Tensor]
    ) -> Node:
        """Return the node with its memory as states."""
        inputs, outputs = [*node.inputs], [*node.outputs]

        def add(name: str, memory: Memory) -> str:
            while name in tensors or name in self.names:
                name += "_"
            tensors[name] = Tensor(name, memory.shape, memory.dtype, memory.quant)
            # Before it is filled: the shape is the file's.
            check_tensor(tensors[name])
            return name

        for number, memory in enumerate(memories):
            name = f"{node.name}:memory{number or ''}"
            inputs.append(add(name, memory))
            if memory.output is None:
                outputs.append(add(f"{name}:next", memory))
            elif memory.output >= len(node.outputs):
                raise ModelError(f"it has {len(node.outputs)} outputs")
            after = outputs[-1 if memory.output is None else memory.output]
            reset = _frozen(np.full(memory.shape, memory.reset, memory.dtype))
            self._memories.append(State(inputs[-1], after, reset if memory.reset else None))
        return replace(node, inputs=tuple(inputs), outputs=tuple(outputs))

    def _widened(self, code: str, inputs: Sequence[int], outputs: Sequence[int]) -> Tensor | None:
        """Return the float32 constant of a DEQUANTIZE of a float16 constant; None for other
        operators.
        """
        source = self.subgraph.Tensors(inputs[0])
        if code != "DEQUANTIZE" or source.Type() != tflite.TensorType.FLOAT16:
            return None
        values = self._constant(inputs[0], np.dtype("float16"))
        if values is None:
            raise UnsupportedError(
                f"it reads {self.names[inputs[0]]!r}, a computed float16 tensor",
                "float16 is supported for constants: export the model with float32 activations",
            )
        output = self.tensor(outputs[0])
        if output.shape != values.shape or not output.element.is_real:
            raise ModelError(
                f"it computes shape {list(values.shape)}, not {output.dtype}{list(output.shape)}"
            )
        return replace(output, quant=None, data=_frozen(values.astype(np.float32)))

    def _decode(
        self, inputs: Sequence[int], outputs: Sequence[int], tensors: dict[str, Tensor]
    ) -> None:
        """Record the decoded tensors as constants."""
        if len(inputs) != 2 * len(outputs) or min(inputs) < 0:
            raise ModelError(
                f"it has {len(inputs)} inputs for {len(outputs)} outputs, not two each"
            )
        for output, encoded, ancillary in zip(outputs, inputs[::2], inputs[1::2], strict=True):
            tensor = self.tensor(output)
            data = decoded(tensor, self.tensor(encoded), self.tensor(ancillary))
            self._tensors[output] = tensors[tensor.name] = replace(tensor, data=_frozen(data))

    def _densify(self, index: int, output: int, tensors: dict[str, Tensor]) -> None:
        """Record the dense tensor, which sparse constants are read as, as a constant."""
        source, dense = self.tensor(index), self.tensor(output)
        if source.data is None:
            raise UnsupportedError(
                f"it expands {source.name!r}, which is computed", "only constants are expanded"
            )
        if (source.shape, source.dtype) != (dense.shape, dense.dtype):
            raise ModelError(
                f"it expands {source.dtype}{list(source.shape)} to {dense.dtype}{list(dense.shape)}"
            )
        self._tensors[output] = tensors[dense.name] = replace(dense, data=source.data)

    def _float_weights(self, weights: Tensor | None) -> Tensor:
        assert weights is not None
        name = f"{weights.name}:float32"
        while name in self.names:
            name += "_"
        return Tensor(name, weights.shape, "float32", data=_frozen(dequantized(weights)))

    def _code(self, index: int, operator: Any) -> str:
        """Return the operator's name; that of a custom operator is ``CUSTOM 'its code'``."""
        code_index = operator.OpcodeIndex()
        if not 0 <= code_index < self.model.OperatorCodesLength():
            raise ModelError(
                f"operator {index} has code number {code_index}; "
                f"the file has {self.model.OperatorCodesLength()}"
            )
        entry = self.model.OperatorCodes(code_index)
        code = builtin_code(entry)
        if code == tflite.BuiltinOperator.CUSTOM:
            return custom_name(text_of(entry.CustomCode() or b""))
        return OPERATOR_NAMES.get(code, f"BUILTIN {code}")

    def _indices(self, table: Any, which: str, label: str) -> tuple[int, ...]:
        """Return the tensor indices of a vector; -1, an absent operand, is accepted for operators'
        inputs only.
        """
        indices = tuple(vector(table, which))
        lowest = -1 if isinstance(table, tflite.Operator) and which == "Inputs" else 0
        for i in indices:
            if not lowest <= i < len(self.names):
                raise ModelError(f"{label}: tensor number {i}; the model has {len(self.names)}")
        return indices

    def _fixed_sizes(self, index: int) -> list[FixedSize]:
        """Return the axes of an input that the file leaves open: none, or the batch, written as 1.

        Raise for an input of unknown size.
        """
        tensor = self.subgraph.Tensors(index)
        shape, signature = vector(tensor, "Shape"), vector(tensor, "ShapeSignature")
        if any(s < 0 and (i > 0 or shape[:1] != [1]) for i, s in enumerate(signature)):
            raise UnsupportedError(
                f"the input {self.names[index]!r} has the dynamic shape {signature}",
                "export the model with fixed sizes, and a batch of 1",
            )
        self._refuse_empty(index, "the input")
        name = self.names[index]
        return [FixedSize(name, axis, shape[axis]) for axis, s in enumerate(signature) if s < 0]

    def _open_shapes(self) -> Iterator[str]:
        for i in range(self.subgraph.OperatorsLength()):
            operator = self.subgraph.Operators(i)
            code = self._code(i, operator)
            for index in self._indices(operator, "Outputs", f"operator {i} ({code})"):
                tensor = self.subgraph.Tensors(index)
                # Files before TensorFlow 2.13 do not state that they know a rank, 0 included. Of a
                # custom operator it is that of the function that it replaces, whatever this gave.
                known = tensor.ShapeLength() or (tensor.HasRank() and not is_custom(code))
                if not known or any(n < 0 for n in vector(tensor, "ShapeSignature")):
                    yield self.names[index]

    def _refuse_empty(self, index: int, role: str) -> None:
        shape = vector(self.subgraph.Tensors(index), "Shape")
        if min(shape, default=1) < 1:
            raise UnsupportedError(
                f"{role} {self.names[index]!r} has shape {shape}, which has no elements",
                "remove it from the model: only constant lists of axes or sizes may be empty",
            )

    def _read_tensor(self, index: int) -> Tensor:
        table = self.subgraph.Tensors(index)
        name = self.names[index]
        code = table.Type()
        dtype = TYPE_NAMES.get(code, f"number {code}").lower()
        if dtype == _COMPLEX:
            return self._read_pairs(index)
        packed = dtype == _PACKED
        if packed:
            dtype = _UNPACKED
        if dtype not in DTYPES:
            raise UnsupportedError(
                f"{name!r} has type {dtype}, which is not supported",
                f"supported: {', '.join(DTYPES)}",
            )
        shape = tuple(vector(table, "Shape"))
        if len(shape) > _MAX_RANK:
            raise UnsupportedError(
                f"{name!r} has the shape {list(shape)} of {len(shape)} dimensions",
                f"at most {_MAX_RANK} dimensions are supported; combine some with a reshape",
            )
        if name in self.open_shapes:
            # A placeholder, until the operator that computes it is known.
            shape = tuple(max(n, 1) for n in shape)
        quant = _quantization(table, name, dtype, shape)
        if quant is not None and index not in self._io_indices and not table.IsVariable():
            quant = with_normal_scale(quant)
        data = (
            self._constant(index, np.dtype(dtype), packed)
            if table.Sparsity() is None
            else self._sparse(index, np.dtype(dtype), packed)
        )
        if packed and data is None:
            raise UnsupportedError(
                f"{name!r} has type {_PACKED} and is computed: not supported",
                f"{_PACKED} is supported for constants: export the model with int8 activations",
            )
        return Tensor(name, shape, dtype, quant, data)

    def _sparse(self, index: int, dtype: np.dtype[Any], packed: bool) -> Array:
        """Return the elements of a sparse constant."""
        raw, name = self._bytes(index), self.names[index]
        if raw is None or packed:
            what = f"of type {_PACKED}" if packed else "computed"
            raise UnsupportedError(
                f"{name!r} is sparse and {what}: not supported", "export dense weights"
            )
        if raw.size % dtype.itemsize:
            raise ModelError(f"the constant {name!r} has {raw.size} bytes of {dtype}")
        values = np.frombuffer(raw.tobytes(), dtype)
        table = self.subgraph.Tensors(index)
        shape = tuple(vector(table, "Shape"))
        if min(shape, default=1) < 1:
            raise ModelError(f"the sparse constant {name!r} has the shape {list(shape)}")
        check_tensor(Tensor(name, shape, dtype.name))
        return _frozen(expanded(self._data, table, values, shape, name))

    def _read_pairs(self, index: int) -> Tensor:
        """Return a tensor of complex numbers: pairs of floats."""
        name = self.names[index]
        if self._bytes(index) is not None:
            raise UnsupportedError(f"the constant {name!r} is complex", _COMPLEX_HINT)
        shape = [max(n, 1) for n in vector(self.subgraph.Tensors(index), "Shape")]
        self._complex.add(name)
        return Tensor(name, (*shape, PARTS), "float32")

    def _reshaped_pairs(
        self, index: int, named: Sequence[Tensor | None], output: Tensor, tensors: dict[str, Tensor]
    ) -> list[Node]:
        """Return the nodes of a RESHAPE of complex numbers, whose pairs stay together."""
        x, shape = named[0], named[1] if len(named) > 1 else None
        if x is None or shape is None or x.name not in self._complex:
            raise UnsupportedError("it makes complex numbers of others", _COMPLEX_HINT)
        parts = Tensor(f"{output.name}:parts", (1,), "int32", data=np.full(1, PARTS, np.int32))
        whole = Tensor(f"{output.name}:shape", (len(output.shape),), shape.dtype)
        if shape.dtype != parts.dtype or parts.name in self.names or whole.name in self.names:
            raise UnsupportedError(f"it takes the shape {shape.name!r}, {shape.dtype}")
        tensors.update({parts.name: parts, whole.name: whole})
        joined = ConcatenationAttributes(axis=0)
        return [
            Node("CONCATENATION", (shape.name, parts.name), (whole.name,), joined, index),
            Node("RESHAPE", (x.name, whole.name), (output.name,), ReshapeAttributes(), index),
        ]

    def _constant(self, index: int, dtype: np.dtype[Any], packed: bool = False) -> Array | None:
        """Return the data of a constant, of which ``packed`` has two in a byte; None for a computed
        tensor.
        """
        table = self.subgraph.Tensors(index)
        name = self.names[index]
        raw = self._bytes(index)
        shape = vector(table, "Shape")
        if raw is None:
            # An empty list needs no data. A computed tensor is never empty.
            is_empty = min(shape, default=1) == 0 and name not in self.open_shapes
            return _frozen(no_elements(name, shape, dtype)) if is_empty else None
        count = int(np.prod(shape, dtype=object))
        expected = (count + 1) // 2 if packed else count * dtype.itemsize
        if raw.size != expected or min(shape, default=1) < 1:
            raise ModelError(
                f"the constant {name!r} has {raw.size} bytes of data; "
                f"its shape {shape} of {_PACKED if packed else dtype} takes {expected}"
            )
        if packed:
            return _frozen(_nibbles(raw)[:count].reshape(shape))
        values = raw.view(dtype.newbyteorder("<")).astype(dtype).reshape(shape)
        if dtype == np.bool_ and (raw > 1).any():
            raise ModelError(f"the constant {name!r} is bool but has bytes other than 0 and 1")
        return _frozen(values)

    def _bytes(self, index: int) -> Array | None:
        """Return the data of a tensor's buffer; None if it has none."""
        name, number = self.names[index], self.subgraph.Tensors(index).Buffer()
        if number >= self.model.BuffersLength():
            raise ModelError(
                f"{name!r} has buffer number {number}; the file has {self.model.BuffersLength()}"
            )
        buffer = self.model.Buffers(number)
        # Buffer 0 is empty by definition, and so is that of a computed tensor.
        if number and buffer.DataLength():
            values: Array = buffer.DataAsNumpy()
            return values
        if not _is_outside(buffer):
            return None
        start, size = buffer.Offset(), buffer.Size()
        if start + size > len(self._data):
            raise ModelError(
                f"the data of {name!r}, {size} bytes at {start}, exceed the file's "
                f"{len(self._data)} bytes",
                "the file is truncated: copy or export it again",
            )
        return np.frombuffer(self._data, np.uint8, size, start)


def _nibbles(raw: Array) -> npt.NDArray[np.int8]:
    """Return the two signed numbers of each byte, the lower half first."""
    halves = np.stack([raw << 4, raw & 0xF0], axis=1).reshape(-1).view(np.int8)
    return halves >> 4


def _quantization(table: Any, name: str, dtype: str, shape: tuple[int, ...]) -> Quant | None:
    quantization = table.Quantization()
    # Floats may carry the range that a converter recorded; it does not change their meaning.
    element = ELEMENT_TYPES[dtype]
    if quantization is None or not quantization.ScaleLength() or not element.may_have_scale:
        return None
    scales = [float(s) for s in quantization.ScaleAsNumpy()]
    wrong = [scale for scale in scales if not 0 <= scale < math.inf]
    if wrong:
        raise ModelError(
            f"{name!r} has the scale {wrong[0]}, as {len(wrong)} of its {len(scales)} are no "
            "finite number from 0 on: the file's quantization failed",
            "quantize the model again, with samples that reach this tensor",
        )
    zero_points = vector(quantization, "ZeroPoint")
    # A tensor of one dimension has only axis 0; some converters write that of the weights beside a
    # bias.
    axis = quantization.QuantizedDimension() if len(scales) > 1 and len(shape) > 1 else 0
    if len(scales) > 1 and (not 0 <= axis < len(shape) or shape[axis] != len(scales)):
        raise ModelError(
            f"{name!r} with shape {list(shape)} has {len(scales)} scales along axis {axis}"
        )
    low, high = element.bounds
    for zero_point in zero_points:
        if not low <= zero_point <= high:
            raise ModelError(
                f"{name!r} has zero point {zero_point}, outside of {dtype} ({low} to {high})"
            )
    return Quant(tuple(scales), tuple(zero_points), axis)


def rounding_of_sums(code: str, ins: Sequence[Tensor | None]) -> Rounding:
    """Return the rounding of the file's operator, which follows from the type of its sums."""
    if code not in _SUMMED:
        return Rounding.DOUBLE
    x, bias = (ins[place] if place < len(ins) else None for place in _SUMMED[code])
    if x is None or not x.element.biases:
        return Rounding.DOUBLE
    return _ROUNDINGS.get(x.element.sums(bias.dtype if bias else None), Rounding.DOUBLE)


def dequantized(weights: Tensor) -> Array:
    """Return constant quantized weights as float32: scale * (q - zero_point)."""
    assert weights.quant is not None
    assert weights.data is not None
    along_axis = [1] * len(weights.shape)
    if not weights.quant.per_tensor:
        along_axis[weights.quant.axis] = -1
    scale = np.array(weights.quant.scale, np.float32).reshape(along_axis)
    zero_point = np.array(weights.quant.zero_point, np.int32).reshape(along_axis)
    values: Array = scale * (weights.data.astype(np.int32) - zero_point).astype(np.float32)
    return values


def _frozen(values: Array) -> Array:
    values.flags.writeable = False
    return values


def _cleared(tensor: Tensor) -> Array | None:
    """Return the value of a variable after a reset in TFLite Micro; None for zeros."""
    if tensor.quant is None or not tensor.element.clears_to_zero_point:
        return None
    check_tensor(tensor)
    zero_point = tensor.quant.zero_point[0]
    return _frozen(np.full(tensor.shape, zero_point, tensor.element.name))


def _refuse_unknown(codes: Sequence[str]) -> None:
    unknown = [f"{i} ({code})" for i, code in enumerate(codes) if code not in OPERATORS]
    if not unknown:
        return
    shown = ", ".join(unknown[:8]) + (f" and {len(unknown) - 8} more" if len(unknown) > 8 else "")
    raise UnsupportedError(
        f"operator {shown} is not supported"
        if len(unknown) == 1
        else f"operators {shown} are not supported",
        operators_hint([code for code in codes if code not in OPERATORS], OPERATORS),
    )


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} or more" if most > 3 else f"{least} to {most}"
