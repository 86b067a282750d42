"""The ONNX model that a program becomes, and what a translator of one call may ask and make.

A program is translated to ONNX's operators, which its own are closest to, and read on by
:mod:`hilc.frontends.onnx`: recurrent layers, attention and normalizations stay whole, and the
references of ONNX models hold for it. Tensors keep their names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends.onnx.operation import SOURCE
from hilc.frontends.pt2.decomposable import DECOMPOSABLE
from hilc.frontends.pt2.program import Call, Code, Ref, Region, Signature, Symbol
from hilc.frontends.pt2.sizes import Sizes
from hilc.ir import Array
from hilc.support.identifiers import NumberedNames

#: Version of ONNX's operators: the first with Attention and RMSNormalization.
OPSET = 23

#: ONNX's element types by their names here.
TYPES: Mapping[str, int] = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "bool": TensorProto.BOOL,
    "bfloat16": TensorProto.BFLOAT16,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
}

#: Outputs of a call: the names of its tensors.
Outputs = str | Sequence[str]
Translator = Callable[["Operation"], Outputs]

_TRANSLATORS: dict[str, Translator] = {}
#: Those of calls that take or make complex numbers.
_OF_COMPLEX: dict[str, Translator] = {}

#: Types of complex numbers, and those of their real and imaginary parts.
REAL_PARTS: Mapping[str, str] = {"complex64": "float32", "complex128": "float64"}


def translates(*targets: str) -> Callable[[Translator], Translator]:
    """Register a translator of operators by name, with their overloads or, without, for all."""
    return _registering(_TRANSLATORS, targets)


def translates_complex(*targets: str) -> Callable[[Translator], Translator]:
    """Register a translator of calls of these operators that take or make complex numbers."""
    return _registering(_OF_COMPLEX, targets)


def _registering(
    table: dict[str, Translator], targets: Sequence[str]
) -> Callable[[Translator], Translator]:
    def register(translator: Translator) -> Translator:
        for target in targets:
            assert target not in table, f"{target} has two translators"
            table[target] = translator
        return translator

    return register


def translator_of(target: str, *, of_complex: bool = False) -> Translator | None:
    """Return the translator of ``aten.add.Tensor``; that of ``aten.add`` where it has no other.

    With ``of_complex``, return that of a call which takes or makes complex numbers.
    """
    table = _OF_COMPLEX if of_complex else _TRANSLATORS
    return table.get(target) or table.get(target.rpartition(".")[0])


def is_supported(target: str) -> bool:
    """Return whether an operator has a translator, of complex numbers or of others."""
    return any(translator_of(target, of_complex=kind) for kind in (False, True))


class UnsupportedOperatorError(UnsupportedError):
    """An operator, or what a call of it states, has no translation."""

    def __init__(self, fact: str, hint: str, target: str) -> None:
        super().__init__(fact, hint)
        #: The operator with its overload.
        self.target = target


def unknown(target: str) -> UnsupportedOperatorError:
    """Return the error for an operator without a translator."""
    name = target.rpartition(".")[0]
    return UnsupportedOperatorError(
        f"the operator {target} is not supported",
        "save program.run_decompositions(), which replaces it by more basic operators"
        if name.removeprefix("aten.") in DECOMPOSABLE
        else "compute the same with other operators",
        target,
    )


def unknown_of_complex(target: str) -> UnsupportedOperatorError:
    """Return the error for an operator that is not supported on complex numbers."""
    if not is_supported(target):
        return unknown(target)
    return UnsupportedOperatorError(
        f"the operator {target} on complex numbers is not supported",
        "compute with real and imaginary parts: torch.view_as_real(x)",
        target,
    )


class OnnxModel:
    """Nodes and constants in the order of execution."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        #: The tensors of real and imaginary parts of each complex one.
        self.pairs: dict[str, tuple[str, str]] = {}
        self._names = NumberedNames(taken)
        #: Final names of tensors made under fresh names.
        self._final: dict[str, str] = {}
        #: The final names that are given.
        self._given: set[str] = set()
        self._is_part = False

    def part(self) -> OnnxModel:
        """Return the model of a graph that a node runs: its nodes are its own, and constants and
        names are those of the whole, where a name stands for one tensor.
        """
        inner = copy.copy(self)
        inner.nodes = []
        inner._is_part = True
        return inner

    def fresh(self, base: str) -> str:
        """Return a name that no tensor has."""
        return self._names.new(base)

    def constant(self, base: str, value: Array) -> str:
        """Add a constant and return its name."""
        name = self.fresh(base)
        self.constants[name] = value
        return name

    def rename(self, made: str, name: str) -> None:
        """Rename a tensor made under a fresh name to the program's name.

        A tensor that has one keeps it: an operator only passes it on.
        """
        if (
            not self._is_part
            and ":" in made
            and made not in self._final
            and name not in self._given
        ):
            self._final[made] = name
            self._given.add(name)

    def final(self, name: str) -> str:
        """Return the name that a tensor has in the end."""
        return self._final.get(name, name)

    def proto(
        self, name: str, inputs: Mapping[str, Signature], outputs: Sequence[str],
        signatures: Mapping[str, Signature],
    ) -> onnx.ModelProto:  # fmt: skip
        """Return the model; ``signatures`` has those of the outputs.

        A constant that is an input too is the value of that where the caller gives none.
        """
        read = set(inputs)
        for node in _all_nodes(self.nodes):
            node.input[:] = map(self.final, node.input)
            node.output[:] = map(self.final, node.output)
            read.update(node.input)
        constants = {self.final(name): value for name, value in self.constants.items()}
        graph = helper.make_graph(
            self.nodes,
            name,
            [value_info(given, signature) for given, signature in inputs.items()],
            [value_info(output, signatures[output]) for output in outputs],
            # Counters of batches, weights in another order: what nothing reads is left out.
            [numpy_helper.from_array(constants[n], n) for n in constants if n in read],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and those of the graphs that they run."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g.node)


def require_type(name: str, dtype: str) -> None:
    """Raise :class:`~hilc.errors.UnsupportedError` for an input or output of a type that ONNX
    lacks.
    """
    if dtype in REAL_PARTS:
        raise UnsupportedError(
            f"the tensor {name!r} is of the type {dtype}, which no input or output of a model or "
            "branch has",
            "give and return real and imaginary parts: torch.view_as_real, torch.view_as_complex",
        )
    if dtype not in TYPES:
        raise UnsupportedError(
            f"the tensor {name!r} is of the type {dtype}, which is not supported",
            f"supported: {', '.join(TYPES)}",
        )


def value_info(name: str, signature: Signature) -> onnx.ValueInfoProto:
    require_type(name, signature.dtype)
    return helper.make_tensor_value_info(name, TYPES[signature.dtype], list(signature.shape))


#: Translates the calls of a region into a model, with the names of its inputs; returns the names
#: and signatures of its outputs.
Run = Callable[[Region, Sequence[str], OnnxModel], list[tuple[str, Signature]]]


class Operation:
    """A call of the program, as its translator sees it."""

    def __init__(
        self, call: Call, model: OnnxModel, names: Mapping[str, str],
        signatures: Mapping[str, Signature], sizes: Sizes, states: Set[str] = frozenset(),
        read: Set[str] = frozenset(), run: Run | None = None,
    ) -> None:  # fmt: skip
        self.call = call
        self._run = run
        self._read = read
        self._states = states
        self._model = model
        self._names = names
        self._signatures = signatures
        self._sizes = sizes

    # Complex numbers ------------------------------------------------------------------------------

    def pair(self, real: str, imaginary: str) -> str:
        """Return a name for a complex tensor of these real and imaginary parts."""
        name = self._model.fresh(self.base)
        self._model.pairs[name] = real, imaginary
        return name

    def pair_of(self, name: str) -> tuple[str, str]:
        """Return the names of the real and imaginary parts of a complex tensor."""
        return self._model.pairs[name]

    def parts(self) -> list[Operation]:
        """Return the call on the real and on the imaginary parts of its tensors.

        The imaginary parts of real tensors are zeros.
        """
        signatures = {
            name: Signature(REAL_PARTS.get(signature.dtype, signature.dtype), signature.shape)
            for name, signature in self._signatures.items()
        }
        return [
            Operation(
                self.call, self._model, self._of_part(index), signatures, self._sizes,
                self._states, self._read, self._run,
            )
            for index in range(2)
        ]  # fmt: skip

    def _of_part(self, index: int) -> dict[str, str]:
        """Return the names that the tensors of the call have for one part."""
        names = dict(self._names)
        for ref in self.argument_refs:
            name = self.named(ref)
            signature = self.signature_of(ref)
            if name in self._model.pairs:
                names[ref.name] = self._model.pairs[name][index]
            elif index and "float" in signature.dtype:
                shape = tuple(map(int, signature.shape))
                names[ref.name] = self.constant(np.zeros(shape), signature.dtype)
        return names

    @property
    def argument_refs(self) -> list[Ref]:
        """The tensors among the arguments."""
        found: list[Ref] = []
        waiting = list(self.call.arguments.values())
        while waiting:
            value = waiting.pop()
            if isinstance(value, Ref):
                found.append(value)
            elif isinstance(value, tuple):
                waiting += value
        return found

    # Arguments ------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether the call states the argument, and not as None."""
        return self.call.arguments.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument with open sizes as numbers; ``default`` where it is not stated."""
        value = self.call.arguments.get(name)
        return default if value is None else self._known(value)

    def _known(self, value: Any) -> Any:
        if isinstance(value, Symbol):
            return self._sizes.symbol(value.name)
        if isinstance(value, tuple):
            return tuple(map(self._known, value))
        return value

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return a list of integers; a single one is a list of one."""
        value = self.get(name, default)
        if value is None:
            self.refuse(f"lacks its argument {name!r}")
        listed = (value,) if isinstance(value, int) else tuple(value)
        if not all(type(item) is int for item in listed):
            self.refuse(f"has {listed!r:.60} as {name!r}, which is known at run time only")
        return listed

    def spatial(self, name: str, count: int, default: int) -> tuple[int, ...]:
        """Return a value for each of ``count`` spatial axes; a single value applies to all."""
        values = self.ints(name, (default,) * count) or (default,) * count
        return values * count if len(values) == 1 else values

    def tensor(self, name: str) -> str:
        """Return the name of a tensor argument; a number becomes a constant of the other's type."""
        value = self.get(name)
        if isinstance(value, Ref):
            return self.named(value)
        return self.refuse(f"has {value!r:.60} as {name!r}, which is no tensor")

    def optional(self, name: str) -> str:
        """Return the name of a tensor argument; the empty name where it is None."""
        return self.tensor(name) if self.has(name) else ""

    def tensors(self, name: str) -> list[str]:
        """Return the names of a list of tensors."""
        return [self.named(ref) for ref in self.get(name, ())]

    def named(self, ref: Ref) -> str:
        """Return the current name of a tensor: an operation in place gives it another.

        Raise :class:`~hilc.errors.ModelError` if nothing computes it.
        """
        if ref.name not in self._names:
            raise ModelError(f"{self.call.target} reads {ref.name!r}, which nothing computes")
        return self._names[ref.name]

    def is_read(self, ref: Ref) -> bool:
        """Return whether a later call, or the caller, reads an output of the call."""
        return ref.name in self._read

    def signature(self, name: str) -> Signature:
        """Return element type and shape of a tensor argument."""
        value = self.get(name)
        if not isinstance(value, Ref):
            self.refuse(f"has {value!r:.60} as {name!r}, which is no tensor")
        return self.signature_of(value)

    def signature_of(self, ref: Ref) -> Signature:
        """Return element type and shape of a tensor, with open sizes as numbers.

        Raise :class:`~hilc.errors.ModelError` if the program declares none.
        """
        if ref.name not in self._signatures:
            raise ModelError(f"it takes {ref.name!r}, for which the program declares no type")
        return self._sizes.signature(self._signatures[ref.name])

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor argument."""
        return tuple(map(int, self.signature(name).shape))

    def rank(self, name: str) -> int:
        """Return the number of axes of a tensor argument."""
        return len(self.signature(name).shape)

    def axis(self, name: str, of: str = "self", default: int | None = None) -> int:
        """Return an argument that is an axis, counted from the first."""
        (axis,) = self.ints(name, None if default is None else (default,))
        return self.axes_of(of, (axis,))[0]

    def axes(self, name: str, of: str = "self") -> tuple[int, ...]:
        """Return an argument that lists axes; all where it is not stated or lists none."""
        return self.axes_of(of, self.ints(name, ()) or range(self.rank(of)))

    def axes_of(self, of: str, axes: Iterable[int]) -> tuple[int, ...]:
        """Return axes counted from the first."""
        rank = max(1, self.rank(of))
        listed = tuple(axes)
        if any(not -rank <= axis < rank for axis in listed):
            self.refuse(f"names the axes {listed} of a tensor of {rank}")
        return tuple(axis % rank for axis in listed)

    def value(self, name: str) -> Array:
        """Return the value of a tensor argument that is a constant of the program."""
        value = self.constant_value(self.tensor(name))
        if value is None:
            self.refuse(f"has {name!r} computed at run time", "only a constant is supported")
        return value

    def constant_value(self, tensor: str) -> Array | None:
        """Return the value of a constant by its name; None for a tensor that a run computes or
        changes.
        """
        return None if tensor in self._states else self._model.constants.get(tensor)

    @property
    def result(self) -> Signature:
        """Element type and shape of the (first) output."""
        return self.results[0]

    @property
    def results(self) -> list[Signature]:
        """Element types and shapes of the outputs."""
        return [self.signature_of(ref) for ref in self.output_refs]

    @property
    def output_refs(self) -> list[Ref]:
        """The outputs; those of a list are in its place."""
        listed: list[Ref] = []
        for output in self.call.outputs:
            listed += output if isinstance(output, tuple) else [output]
        return listed

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the (first) output."""
        return tuple(map(int, self.result.shape))

    def code(self, name: str) -> str | None:
        """Return an argument that is an element type; None where it is not stated."""
        value = self.get(name)
        return value.dtype if isinstance(value, Code) else None

    # What a translator makes ----------------------------------------------------------------------

    def emit(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return its name."""
        return self.emit_many(op, inputs, 1, **attributes)[0]

    def emit_many(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Add a node with ``count`` outputs and return their names."""
        outputs = [self._model.fresh(self.base) for _ in range(count)]
        stated = {name: value for name, value in attributes.items() if value is not None}
        listed = list(inputs)
        while listed and not listed[-1]:
            listed.pop()
        node = helper.make_node(op, listed, outputs, **stated)
        if self.call.source:
            node.metadata_props.add(key=SOURCE, value=self.call.source)
        self._model.nodes.append(node)
        return outputs

    @property
    def base(self) -> str:
        """Prefix of the names of the call's intermediate tensors."""
        refs = self.output_refs
        return refs[0].name if refs else self.call.target

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """Add a constant and return its name; ``dtype`` is numpy's name of its type."""
        return self._model.constant(self.base, np.array(value, dtype))

    def integers(self, values: Iterable[int]) -> str:
        """Add a list of sizes or axes, as ONNX's operators take them."""
        return self.constant(tuple(values), "int64")

    def scalar(self, name: str, dtype: str, default: Any = None) -> str:
        """Return the name of an argument; a number is added as a constant."""
        value = self.get(name, default)
        if isinstance(value, Ref):
            return self.named(value)
        if dtype not in TYPES or dtype == "bfloat16":
            self.refuse(f"computes in {dtype}", f"supported: {', '.join(TYPES)}")
        return self.constant(value, dtype)

    def inlined(self, region: Region, operands: Sequence[str]) -> list[str]:
        """Compute a region in place of the call; return the names of its outputs."""
        assert self._run is not None
        return [name for name, _ in self._run(region, operands, self._model)]

    def graph(
        self, name: str, inputs: Sequence[tuple[str, Signature]],
        compute: Callable[[Run, OnnxModel], list[tuple[str, Signature]]],
    ) -> onnx.GraphProto:  # fmt: skip
        """Return a graph for a node to run, of what ``compute`` adds to its model and returns."""
        assert self._run is not None
        part = self._model.part()
        outputs = []
        for value, signature in compute(self._run, part):
            # What an outer graph computes is no output.
            made = part.fresh(self.base)
            part.nodes.append(helper.make_node("Identity", [value], [made]))
            outputs.append(value_info(made, signature))
        given = [value_info(value, signature) for value, signature in inputs]
        return helper.make_graph(part.nodes, name, given, outputs)

    def new_name(self) -> str:
        """Return a name for an input of a graph."""
        return self._model.fresh(self.base)

    def cast(self, tensor: str, of: str, to: str) -> str:
        """Return a tensor of the element type ``of`` as one of ``to``."""
        if of == to:
            return tensor
        if to not in TYPES:
            self.refuse(f"makes a tensor of the type {to}", f"supported: {', '.join(TYPES)}")
        return self.emit("Cast", tensor, to=TYPES[to])

    def reshape(self, tensor: str, shape: Sequence[int]) -> str:
        """Return a tensor under another shape."""
        return self.emit("Reshape", tensor, self.integers(shape))

    def refuse(self, fact: str, hint: str = "") -> NoReturn:
        """Raise :class:`~hilc.errors.UnsupportedError` about this call."""
        raise UnsupportedOperatorError(f"{self.call.target} {fact}", hint, self.call.target)
