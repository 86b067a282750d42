"""The walk over the nodes of a model: each goes to its translator, or is expanded.

An operator without a translator that ONNX defines by a function is expanded through the body of
that, as are the model's own functions.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, version_converter

from hilc.errors import ElementTypeError, ModelError, UnsupportedError
from hilc.frontends.budget import MAX_DEPTH
from hilc.frontends.onnx import translators
from hilc.frontends.onnx.builder import Builder, array_of, declared_name, dtype_name
from hilc.frontends.onnx.class_labels import class_labels
from hilc.frontends.onnx.fold_batch_norm import fold_batch_norm
from hilc.frontends.onnx.load import load
from hilc.frontends.onnx.loop_bounds import loop_bounds
from hilc.frontends.onnx.operation import (
    DEFAULT_DOMAIN,
    SOURCE,
    Operation,
    Translator,
    UnknownOperandError,
    is_real,
    translated,
    translator_of,
)
from hilc.frontends.onnx.states import states_of, with_states
from hilc.frontends.onnx.storage import STORED, Stored, StoredFloat, code_of
from hilc.frontends.readers import OpenShapeError, Reading
from hilc.ir import Array, Graph, Tensor
from hilc.ir.dtypes import INTEGER
from hilc.ops.verify import no_elements
from hilc.support.suggest import operators_hint
from hilc.transforms.unalias_outputs import unalias_outputs

assert translators

#: The oldest opset whose operators the translators know; ONNX's converter raises older models.
OLDEST_OPSET = 7
#: From this opset on, ONNX's shape inference counts the windows of poolings as onnxruntime does.
_CEIL_AS_COMPUTED = 22
#: Operators that take float16 as it is: they move elements, or have graphs of their own.
_ANY_TYPE = frozenset(
    {
        "Cast",
        "CastLike",
        "Compress",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "DepthToSpace",
        "Dropout",
        "Expand",
        "EyeLike",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "If",
        "Loop",
        "Reshape",
        "ReverseSequence",
        "Scan",
        "Shape",
        "Size",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
    }
)
#: Operators that convert types which nothing computes.
_CONVERTING = frozenset({"DequantizeLinear", "QuantizeLinear", "BitCast"})
#: Other names of ONNX's own domain.
_DOMAINS = {"ai.onnx": DEFAULT_DOMAIN}


def import_graph(data: bytes, name: str, dynamic: str = INTEGER) -> Reading:
    """Return the graph of a model in one file, with the integers of its dequantized constants.

    ``dynamic`` says whether exact sums of integers are computed in integers or in floats.
    """
    original = load(data, None)
    states = states_of(original)
    model = fold_batch_norm(_raised(original))
    scope = Scope.of_model(model, loop_bounds(original))
    scope.builder.sums_integers = dynamic == INTEGER
    graph = with_states(scope.read(model.graph, name, states), states, model.graph)
    return Reading(
        graph,
        dequantized=scope.builder.integers,
        class_labels=class_labels(original),
        dynamic=dynamic if scope.builder.has_integer_sums else "",
        operators={number: _label(node, number) for number, node in enumerate(model.graph.node)},
    )


def _raised(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model of an opset that the translators know."""
    opset = _opsets(model.opset_import).get(DEFAULT_DOMAIN, OLDEST_OPSET)
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise UnsupportedError(
            f"the model has opset {opset}; the installed onnx {onnx.__version__} knows up to "
            f"{newest}",
            "install a newer onnx, or export the model with an older opset",
        )
    if opset >= OLDEST_OPSET:
        return model
    try:
        return version_converter.convert_version(model, OLDEST_OPSET)
    except (RuntimeError, ValueError, version_converter.ConvertError) as error:
        raise UnsupportedError(
            f"the model has opset {opset}, and ONNX's converter cannot raise it to "
            f"{OLDEST_OPSET}: {' '.join(str(error).split())}",
            f"export the model with opset {OLDEST_OPSET} or later",
        ) from error


def _opsets(imports: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {_DOMAINS.get(entry.domain, entry.domain): entry.version for entry in imports}


@dataclass
class Scope:
    """Names of values as the nodes of one graph or function see them."""

    builder: Builder
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], onnx.FunctionProto]
    values: dict[str, Tensor | None] = field(default_factory=dict)
    outer: Scope | None = None
    depth: int = 0
    #: Constants of the graph that no node has asked for yet.
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    #: Bounds of the turns of loops, by the name of one of their outputs.
    bounds: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_model(cls, model: onnx.ModelProto, bounds: Mapping[str, int] | None = None) -> Scope:
        """Return the scope of a model's graph.

        Raise :class:`~hilc.errors.UnsupportedError` for a function with the name of an operator of
        ONNX.
        """
        opsets = _opsets(model.opset_import)
        functions = {(_DOMAINS.get(f.domain, f.domain), f.name): f for f in model.functions}
        for domain, name in functions:
            if domain in opsets and onnx.defs.has(name, opsets[domain], domain):
                raise UnsupportedError(
                    f"the model's function {name!r} has the name of an operator of ONNX, and which "
                    "of them its nodes mean is not defined",
                    "give the function another name or domain",
                )
        return cls(Builder(names_of(model.graph)), opsets, functions, bounds=bounds or {})

    @property
    def is_whole(self) -> bool:
        """Whether the scope is that of a graph of the intermediate representation, not of a part
        that is translated in the place of a node.
        """
        return self.depth == 0

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self.opsets.get(DEFAULT_DOMAIN, OLDEST_OPSET)

    def read(self, graph: onnx.GraphProto, name: str, states: Container[str] = ()) -> Graph:
        """Return the graph of a model; ``states`` are inputs, with an initializer or without."""
        self.builder.budget.require(len(graph.node))
        self.constants = {t.name: t for t in graph.initializer if t.name not in states}
        inputs = [v for v in graph.input if v.name not in self.constants]
        for value in inputs:
            tensor = _input(value)
            # What holds no element is known, and nobody needs to give it.
            known = tensor.data is not None
            self.values[value.name] = (
                self.builder.named_constant(tensor.name, _data(tensor))
                if known
                else self.builder.input(tensor)
            )
            self.builder.named(tensor, STORED.get(value.type.tensor_type.elem_type))
        self.walk(graph.node)
        outputs = [self._output(value.name) for value in graph.output]
        for value in graph.output:
            self._check_declared(value, graph)
        given = [v.name for v in inputs if not self.value(v.name).is_constant]
        return self.builder.graph(name, given, outputs)

    def _check_declared(self, output: onnx.ValueInfoProto, graph: onnx.GraphProto) -> None:
        """Raise unless an output has the type and the sizes that the model declares, or the sizes
        that ONNX's shape inference gives it where onnxruntime computes other ones.
        """
        made = self.value(output.name)
        if _is_declared(output, made) or self._is_inferred_otherwise(output, graph):
            return
        fact = (
            f"the output {output.name!r} is declared {_declaration(output)}, and the nodes compute "
            f"{made.dtype}{list(made.shape)}"
        )
        hint = "the file is damaged, or was changed after its shapes were inferred: export it again"
        # The stored shapes of the values before it show where they part.
        stored = {value.name: value for value in (*graph.value_info, output)}
        for number, node in enumerate(graph.node):
            for name in node.output:
                found = self.values.get(name)
                if name not in stored or found is None or _is_declared(stored[name], found):
                    continue
                if name != output.name:
                    fact += (
                        f"; the first that differs is {name!r}, declared "
                        f"{_declaration(stored[name])} and computed as "
                        f"{found.dtype}{list(found.shape)}"
                    )
                raise ModelError(f"{_label(node, number)}: {fact}", hint)
        raise ModelError(fact, hint)

    def _is_inferred_otherwise(self, output: onnx.ValueInfoProto, graph: onnx.GraphProto) -> bool:
        """Return whether the declared sizes of an output are those of ONNX's shape inference, and
        first differ from those made here at a node whose sizes onnxruntime computes as here.
        """
        inferred = self._inferred(graph)
        declared = output.type.tensor_type
        if output.name not in inferred or inferred[output.name].type.tensor_type != declared:
            return False
        for node in graph.node:
            for name in node.output:
                found = self.values.get(name)
                if name in inferred and found and not _is_declared(inferred[name], found):
                    return _is_inferred_too_large(node, self.opset)
        return False

    def _inferred(self, graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
        """Return the values of a graph as ONNX's shape inference gives them, by name."""
        bare = onnx.GraphProto()
        bare.CopyFrom(graph)
        del bare.value_info[:]
        for value in bare.output:
            value.type.tensor_type.ClearField("shape")
        imports = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        functions = list(self.functions.values())
        model = helper.make_model(bare, opset_imports=imports, functions=functions)
        try:
            known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):
            return {}  # such as of a model beyond the 2 GB that it takes
        return {value.name: value for value in (*known.value_info, *known.output)}

    def _output(self, name: str) -> str:
        """Return the name of an output's tensor; one that a node passes on is copied."""
        tensor = self.value(name)
        if tensor.name == name or tensor.is_constant:
            if tensor.name != name:
                self.builder.named_constant(name, _data(tensor), tensor.quant)
            return name
        self.builder.index += 1
        copy = self.builder.view(name, tensor, tensor.shape)
        return self.builder.rename(copy, name).name

    def value(self, name: str) -> Tensor:
        """Return the tensor that is called so here.

        Raise :class:`~hilc.errors.ModelError` if no preceding node computes it,
        :class:`~hilc.errors.UnsupportedError` if its node does not output it.
        """
        if name in self.values:
            tensor = self.values[name]
            if tensor is None:
                raise UnsupportedError(f"the value {name!r} is not computed")
            return tensor
        if name in self.constants:
            array = array_of(self.constants[name])
            known = name in self.builder.tensors
            tensor = (self.builder.constant if known else self.builder.named_constant)(name, array)
            self.values[name] = tensor
            return tensor
        if self.outer is not None:
            return self.outer.value(name)
        raise ModelError(f"no node before it computes {name!r}")

    def is_open(self, name: str) -> bool:
        """Return whether a value is known only at run time; False for one that nothing computes."""
        if name in self.values:
            tensor = self.values[name]
            return tensor is not None and tensor.data is None
        if name in self.constants or self.outer is None:
            return False
        return self.outer.is_open(name)

    def inline(
        self, graph: onnx.GraphProto, inputs: Sequence[Tensor | None] = ()
    ) -> list[Tensor | None]:
        """Translate the nodes of a graph that a node has where the node stands."""
        inner = Scope(
            self.builder,
            self.opsets,
            self.functions,
            outer=self,
            depth=self.depth + 1,
            constants={tensor.name: tensor for tensor in graph.initializer},
            bounds=self.bounds,
        )
        names = (value.name for value in graph.input)
        inner.values = dict(zip(names, inputs, strict=True)) if inputs else {}
        inner.walk(graph.node)
        return [inner.value(value.name) for value in graph.output]

    def called(self, names: Sequence[str] = ()) -> CalledScope:
        """Return the scope of a graph of its own, which a node calls; ``names`` are those of its
        values.
        """
        self.builder.budget.count_called()
        if self.depth >= MAX_DEPTH:
            raise UnsupportedError(
                f"it calls graphs {MAX_DEPTH} deep", "nest fewer loops and branches"
            )
        return CalledScope(
            Builder(names, self.builder.budget),
            self.opsets,
            self.functions,
            outer=self,
            depth=self.depth + 1,
            bounds=self.bounds,
        )

    # Nodes ----------------------------------------------------------------------------------------

    def walk(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Translate nodes in order."""
        for number, node in enumerate(nodes):
            with _located(_label(node, number)):
                if self.is_whole:
                    self.builder.index = number
                inputs = [self.value(name) if name else None for name in node.input]
                results = self.translate(node, inputs)
                for name, tensor in zip(node.output, results, strict=False):
                    if name:
                        self.values[name] = self._named(tensor, name)

    def _named(self, tensor: Tensor | None, name: str) -> Tensor | None:
        if tensor is None or not self.is_whole:
            return tensor
        return self.builder.rename(tensor, name)

    def translate(
        self, node: onnx.NodeProto, inputs: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        """Return the outputs of a node."""
        self.builder.budget.count_read()
        self._refuse_padded(node, inputs)
        domain = _DOMAINS.get(node.domain, node.domain)
        function = self.functions.get((domain, node.op_type))
        if function is not None:
            return self._expanded(node, inputs, function, function.opset_import)
        translator = translator_of(domain, node.op_type)
        if translator is not None and not onnx.defs.has(node.op_type, domain):
            # ONNX knows no operators of others.
            made = translator(Operation(node, inputs, self.builder, 1, self))
            return [made] if isinstance(made, Tensor) else list(made)
        version = self._schema(domain, node)
        if translator is None:
            return self._body(node, inputs, version)
        operation = Operation(node, inputs, self.builder, version.since_version, self)
        kinds = self._kinds(inputs, version)
        if node.op_type not in _ANY_TYPE | _CONVERTING:
            for kind in kinds.values():
                if not _is_computed(kind):
                    operation.refuse(f"computes {kind.name}", "cast it to a wider type before")
        if node.op_type not in _ANY_TYPE:
            narrow = [i for i, x in enumerate(inputs) if self._is_narrow(x)]
            if narrow:
                return self._widened(operation, translator, version, narrow)
        made = translator(operation)
        results: list[Tensor | None] = [made] if isinstance(made, Tensor) else list(made)
        for i, tensor in enumerate(results):
            meant = kinds.get(_formal(version.outputs, i).type_str)
            if tensor is not None and meant is not None and tensor.dtype == meant.dtype:
                results[i] = self.builder.named(tensor, meant)
        while len(results) < len(node.output):
            results.append(None)
        return results

    def _refuse_padded(self, node: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> None:
        """Raise for a node that computes with rows which a loop may not have made."""
        if node.op_type == "Identity":
            return
        for tensor in inputs:
            if tensor is not None and tensor.name in self.builder.padded:
                raise UnsupportedError(
                    f"it reads {tensor.name!r}, whose number of rows is the number of turns of a "
                    "loop, known only at run time",
                    "make it an output of the model only, or give the loop a constant trip count "
                    "and no condition",
                )

    def _kinds(
        self, inputs: Sequence[Tensor | None], schema: onnx.defs.OpSchema
    ) -> dict[str, Stored]:
        """Return the storage types bound to a node's type variables."""
        kinds = {
            _formal(schema.inputs, i).type_str: self.builder.kind(x) for i, x in enumerate(inputs)
        }
        return {variable: kind for variable, kind in kinds.items() if kind is not None}

    def _is_narrow(self, x: Tensor | None) -> bool:
        """Return whether a tensor is of floats that are widened before they are computed."""
        if x is None:
            return False
        kind = self.builder.kind(x)
        return x.dtype == "float16" if kind is None else _is_computed(kind)

    def _widened(
        self,
        operation: Operation,
        translator: Translator,
        schema: onnx.defs.OpSchema,
        narrow: Sequence[int],
    ) -> list[Tensor | None]:
        """Return the outputs of a node on narrow floats, computed in float32 and rounded."""
        variables = {
            _formal(schema.inputs, i).type_str: self.builder.kind(operation.input(i))
            for i in narrow
        }
        for i in narrow:
            operation.inputs[i] = operation.as_float(operation.input(i))
        made = translator(operation)
        results: list[Tensor | None] = [made] if isinstance(made, Tensor) else list(made)
        for i, tensor in enumerate(results):
            variable = _formal(schema.outputs, i).type_str
            if tensor is not None and is_real(tensor) and variable in variables:
                kind = variables[variable]
                results[i] = (
                    operation.narrowed(tensor, kind)
                    if isinstance(kind, StoredFloat)
                    else operation.cast(tensor, "float16")
                )
        while len(results) < len(operation.output_names):
            results.append(None)
        return results

    def _schema(self, domain: str, node: onnx.NodeProto) -> onnx.defs.OpSchema:
        version = self.opsets.get(domain)
        if version is None:
            raise ModelError(f"the model does not import the operators of domain {domain!r}")
        try:
            return onnx.defs.get_schema(node.op_type, version, domain)
        except onnx.defs.SchemaError:
            raise UnsupportedError(
                f"{node.op_type} of domain {domain!r} is no operator of ONNX",
                "give its definition as a function of the model, or leave it out",
            ) from None

    def _body(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Tensor | None],
        schema: onnx.defs.OpSchema,
    ) -> list[Tensor | None]:
        """Return the outputs of an operator that ONNX defines by a function."""
        function = _function_body(node, inputs, schema, self.opset, self.builder)
        if function is None:
            raise UnsupportedError(
                f"the operator {node.op_type} is not supported",
                operators_hint([node.op_type], translated()),
            )
        imports = function.opset_import or [
            helper.make_opsetid(domain, version) for domain, version in self.opsets.items()
        ]
        return self._expanded(node, inputs, function, imports)

    def _expanded(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Tensor | None],
        function: onnx.FunctionProto,
        imports: Sequence[onnx.OperatorSetIdProto],
    ) -> list[Tensor | None]:
        if self.depth >= MAX_DEPTH:
            raise UnsupportedError(f"{node.op_type} calls functions {MAX_DEPTH} deep")
        opsets = {**self.opsets, **_opsets(imports)}
        inner = Scope(
            self.builder, opsets, self.functions, depth=self.depth + 1, bounds=self.bounds
        )
        given = list(inputs) + [None] * (len(function.input) - len(inputs))
        inner.values = dict(zip(function.input, given, strict=False))
        what = f"the function {node.op_type!r}"
        stated = {attribute.name: attribute for attribute in node.attribute}
        defaults = {attribute.name: attribute for attribute in function.attribute_proto}
        with self.builder.budget.within(what, len(function.node)):
            inner.walk([_bound(n, {**defaults, **stated}, inner.values) for n in function.node])
        return [inner.values.get(name) for name in function.output[: len(node.output)]]


@dataclass
class CalledScope(Scope):
    """Names of values as the nodes of a graph that a node calls see them.

    What the graph reads of the graph around it becomes a constant or an input of its own.
    """

    #: The tensors of the graph around that became inputs, by their names there, and the inputs.
    captured: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    #: The constants likewise.
    _adopted: dict[str, Tensor] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether the scope is that of a graph of the intermediate representation: yes."""
        return True

    def value(self, name: str) -> Tensor:
        """Return the tensor that is called so here; raise like :meth:`Scope.value`."""
        assert self.outer is not None
        if name not in self.values and name not in self.constants:
            self.values[name] = self.adopted(self.outer.value(name))
        return super().value(name)

    def adopted(self, tensor: Tensor) -> Tensor:
        """Return the constant or the input that a tensor of the graph around is here."""
        assert self.outer is not None
        if tensor.name in self.captured:
            return self.captured[tensor.name][1]
        if tensor.name in self._adopted:
            return self._adopted[tensor.name]
        outer = self.outer.builder
        if tensor.name in outer.padded:
            raise UnsupportedError(
                f"it reads {tensor.name!r}, whose number of rows is known only at run time",
                "make it an output of the model only",
            )
        own = self.builder.adopt(tensor, outer)
        if tensor.data is None:
            self.captured[tensor.name] = tensor, own
        else:
            self._adopted[tensor.name] = own
        return own

    def argument(self, tensor: Tensor) -> Tensor:
        """Return a new input of the graph, of the type and shape of a tensor around it."""
        assert self.outer is not None
        return self.builder.adopt(replace(tensor, data=None), self.outer.builder)

    def results(self, graph: onnx.GraphProto, arguments: Sequence[Tensor] = ()) -> list[Tensor]:
        """Translate the nodes of a graph, and return its outputs."""
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        if arguments:
            names = [value.name for value in graph.input]
            self.values.update(zip(names, arguments, strict=True))
        self.walk(graph.node)
        outputs = [self.value(value.name) for value in graph.output]
        for tensor in outputs:
            if tensor.name in self.builder.padded:
                raise UnsupportedError(
                    f"its graph gives {tensor.name!r}, whose number of rows is known only at run "
                    "time",
                    "make it an output of the model only",
                )
        return outputs

    def graph(self, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
        """Return the graph with these inputs and outputs, each output computed by a node."""
        names = ([tensor.name for tensor in tensors] for tensors in (inputs, outputs))
        return unalias_outputs(self.builder.graph(name, *names))


def _formal(formals: Sequence[Any], index: int) -> Any:
    """Return the formal parameter of an operand or result; the last one may stand for several."""
    return formals[min(index, len(formals) - 1)]


def _is_computed(kind: Stored) -> bool:
    return isinstance(kind, StoredFloat) and kind.computed


def names_of(graph: onnx.GraphProto) -> list[str]:
    """Return every name that a graph gives to a value."""
    values = [v.name for v in graph.input] + [t.name for t in graph.initializer]
    return values + [name for node in graph.node for name in node.output]


def _input(value: onnx.ValueInfoProto) -> Tensor:
    """Return the tensor of an input; refuse one whose size is open."""
    tensor = value.type.tensor_type
    open_ = not tensor.HasField("shape") or any(
        not d.HasField("dim_value") for d in tensor.shape.dim
    )
    if open_:
        sizes = [
            str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?"
            for d in tensor.shape.dim
        ]
        raise OpenShapeError(
            f"the input {value.name!r} has the open shape [{', '.join(sizes)}]"
            if tensor.HasField("shape")
            else f"the input {value.name!r} has no shape",
            value.name,
            sizes,
        )
    shape = tuple(d.dim_value for d in tensor.shape.dim)
    if min(shape, default=0) < 0:
        raise ModelError(
            f"the input {value.name!r} has the shape {list(shape)}", "sizes are 0 or more"
        )
    try:
        dtype = _stored_in(tensor.elem_type)
    except UnsupportedError as error:
        raise UnsupportedError(f"the input {value.name!r}: {error.fact}", error.hint) from None
    if 0 in shape:
        return Tensor(value.name, shape, dtype, data=no_elements(value.name, shape, dtype))
    return Tensor(value.name, shape, dtype)


def _stored_in(code: int) -> str:
    """Return the type of a tensor that holds elements of an ONNX type."""
    return STORED[code].dtype if code in STORED else dtype_name(code)


def _is_inferred_too_large(node: onnx.NodeProto, opset: int) -> bool:
    """Return whether ONNX's shape inference may give a node another size than onnxruntime.

    Before opset 22 it counts a window of a pooling with ceil_mode that begins in the padding behind
    the image; of Resize and Upsample it multiplies sizes and scales in double precision, not in
    single.
    """
    is_ceiled = any(a.name == "ceil_mode" and a.i for a in node.attribute)
    return (is_ceiled and opset < _CEIL_AS_COMPUTED) or node.op_type in ("Resize", "Upsample")


def _is_declared(value: onnx.ValueInfoProto, made: Tensor) -> bool:
    """Return whether a value has the type and the sizes that the model declares for it."""
    declared = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return True
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
    fits = not declared.HasField("shape") or (
        len(sizes) == len(made.shape)
        and all(size in (None, own) for size, own in zip(sizes, made.shape, strict=True))
    )
    is_typed = declared.elem_type != onnx.TensorProto.UNDEFINED
    return fits and not (is_typed and _stored_in(declared.elem_type) != made.dtype)


def _declaration(value: onnx.ValueInfoProto) -> str:
    """Return the type and the sizes that a model declares for a value."""
    declared = value.type.tensor_type
    sizes = (str(d.dim_value) if d.HasField("dim_value") else "?" for d in declared.shape.dim)
    dtype = declared_name(declared.elem_type)
    return f"{dtype}[{', '.join(sizes)}]"


def _data(tensor: Tensor) -> Array:
    assert tensor.data is not None
    return tensor.data


def _label(node: onnx.NodeProto, number: int) -> str:
    named = f" {node.name!r}" if node.name else ""
    source = next((f", {e.value}" for e in node.metadata_props if e.key == SOURCE), "")
    return f"node {number} ({node.op_type}{named}{source})"


@contextmanager
def _located(label: str) -> Iterator[None]:
    """Put the node in front of a complaint about it."""
    try:
        yield
    except UnknownOperandError as error:
        raise UnknownOperandError(f"{label}: {error.fact}", error.hint, error.inputs) from error
    except ElementTypeError as error:
        # An operator that the translator emits refuses it: the model has neither it nor its tensor.
        raise UnsupportedError(
            f"{label} is not supported for elements of the type {error.dtype} (supported: "
            f"{', '.join(error.accepted)})",
            "cast its inputs before, and its outputs back after; or convert the model with "
            "activations of a supported type",
        ) from error
    except ModelError as error:
        raise type(error)(f"{label}: {error.fact}", error.hint) from error
    except (
        ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
    ) as error:  # fmt: skip
        # What the translators do not ask for themselves: numpy and ONNX's helpers refuse it.
        raise ModelError(
            f"{label}: its attributes and inputs do not fit each other: "
            f"{' '.join(str(error).split()) or type(error).__name__:.200}",
            "hold them against the operator's definition in ONNX",
        ) from error


# Functions ----------------------------------------------------------------------------------------


def _function_body(
    node: onnx.NodeProto,
    inputs: Sequence[Tensor | None],
    schema: onnx.defs.OpSchema,
    opset: int,
    builder: Builder,
) -> onnx.FunctionProto | None:
    """Return the function that defines an operator in an opset; None where ONNX has none."""
    serialized: bytes | None = None
    if schema.has_function:
        version = _nearest(schema.function_opset_versions, opset)
        serialized = schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        serialized = schema.get_context_dependent_function_with_opset_version(
            _nearest(schema.context_dependent_function_opset_versions, opset),
            node.SerializeToString(),
            [_type(tensor, builder.kind(tensor)) for tensor in inputs],
        )
    if not serialized:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(serialized)
    defaults = [
        attribute.default_value
        for attribute in schema.attributes.values()
        if attribute.default_value.type
    ]
    known = {attribute.name for attribute in function.attribute_proto}
    function.attribute_proto.extend(a for a in defaults if a.name not in known)
    return function


def _nearest(versions: Sequence[int], opset: int) -> int:
    """Return the newest version of a body that an opset has, or the oldest one of a later opset.

    A body states the opset of its nodes, so a later one means the same in an older model.
    """
    return max((version for version in versions if version <= opset), default=min(versions))


def _type(tensor: Tensor | None, kind: Stored | None) -> bytes:
    proto = onnx.TypeProto()
    if tensor is not None:
        own = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
        code = own if kind is None else code_of(kind)
        proto = helper.make_tensor_type_proto(code, tensor.shape)
    serialized: bytes = proto.SerializeToString()
    return serialized


def _bound(
    node: onnx.NodeProto,
    attributes: Mapping[str, onnx.AttributeProto],
    values: Mapping[str, Tensor | None],
) -> onnx.NodeProto:
    """Return a node of a function's body with the attributes of the call, and without operands
    that the call leaves out.
    """
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    _bind(bound, attributes)
    for i, name in enumerate(bound.input):
        if name in values and values[name] is None:
            bound.input[i] = ""
    return bound


def _bind(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> None:
    kept = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            source = attributes.get(attribute.ref_attr_name)
            if source is None:
                continue
            copy = onnx.AttributeProto()
            copy.CopyFrom(source)
            copy.name = attribute.name
            kept.append(copy)
            continue
        for graph in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
            for inner in graph.node:
                _bind(inner, attributes)
        kept.append(attribute)
    del node.attribute[:]
    node.attribute.extend(kept)
