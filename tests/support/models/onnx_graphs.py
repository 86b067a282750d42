"""Random ONNX models over the operators and types that the front end translates.

Each node takes what others give, inputs of the model, or constants, several of them shared. Every
node is computed by ``onnx.reference`` as it is drawn, so shapes, types and expected values are the
standard's own; what it cannot compute is drawn again.

Floats of the inputs are multiples of 1/8: sums and products of a few are exact in every order.
Operators that jump (Floor, Less, ArgMax, Cast to integers) or that magnify a difference (Log, Div)
take exact floats only; all others take any, and their results are compared within a tolerance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]

#: The oldest opset that the translators know.
OLDEST = 7
REAL = ("float32",) * 8 + ("float16", "float16", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*REAL, *INTEGERS)
ANY = (*NUMBERS, "bool")
#: Elements of a tensor, and the largest float that another node takes.
_MOST, _LARGEST = 400, 64.0

#: Operators that give exact floats for exact floats.
_EXACT = frozenset(
    {
        *("Abs", "Neg", "Relu", "Max", "Min", "Clip", "Floor", "Ceil", "Round", "Sign", "Identity"),
        *("Where", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Split"),
        *("Slice", "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Tile"),
        *("Expand", "Pad", "DepthToSpace", "SpaceToDepth", "Trilu", "OneHot", "Compress", "TopK"),
        *("ReverseSequence", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Cast"),
        *("CastLike", "CenterCropPad", "Dropout", "Constant", "ConstantOfShape", "EyeLike"),
        *("Range", "Hardmax", "ArgMax", "ArgMin", "If", "DequantizeLinear"),
    }
)
#: Operators whose result jumps or swings with a small change of a float.
_SENSITIVE = frozenset(
    {
        *("Floor", "Ceil", "Round", "Sign", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
        *("Equal", "ArgMax", "ArgMin", "TopK", "Hardmax", "Mod", "Shrink", "ThresholdedRelu"),
        *("QuantizeLinear", "DynamicQuantizeLinear", "Div", "Log", "Sqrt", "Reciprocal", "Pow"),
        *("Tan", "Acos", "Asin", "Acosh", "Atanh", "LayerNormalization", "InstanceNormalization"),
        *("GroupNormalization", "LpNormalization", "ReduceLogSum", "MeanVarianceNormalization"),
        *("RMSNormalization", "ReduceProd", "MaxPool", "Det", "ReduceL2", "CumProd"),
    }
)


class NotDrawnError(Exception):
    """A node that ONNX does not define so, or that its reference does not compute."""


@dataclass
class Drawn:
    """A random model, what it is given, and what its outputs should be."""

    model: onnx.ModelProto
    inputs: dict[str, Array]
    expected: dict[str, Array]
    #: Of outputs by how much they may be off, besides the rounding of floats.
    slack: dict[str, float]
    #: Names of the operators.
    operators: list[str]


@dataclass
class Draft:
    """A model while it is drawn."""

    rng: np.random.Generator
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    exact: set[str] = field(default_factory=set)
    #: What quantized layers give may be off by so much.
    slack: dict[str, float] = field(default_factory=dict)

    # Choices --------------------------------------------------------------------------------------

    def chance(self, p: float = 0.5) -> bool:
        return bool(self.rng.random() < p)

    def among(self, things: Sequence[Any]) -> Any:
        return things[int(self.rng.integers(len(things)))]

    def number(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int = 0, high: int = 6) -> tuple[int, ...]:
        rank = self.number(low, high) if self.chance(0.4) else self.number(low, min(high, 4))
        while True:
            found = tuple(self.among((1, 1, 2, 3, 4, 5, 7)) for _ in range(rank))
            if prod(found) <= _MOST:
                return found

    def array(self, dtype: str, shape: Sequence[int]) -> Array:
        """Return values of a type; floats are multiples of 1/8."""
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return self.rng.random(tuple(shape)) < 0.5
        if kind.kind == "f":
            return (self.rng.integers(-24, 25, tuple(shape)) / 8).astype(kind)
        if self.chance(0.2):
            ends = np.iinfo(kind)
            return self.rng.integers(ends.min, ends.max, tuple(shape), kind, endpoint=True)
        low = -9 if kind.kind == "i" else 0
        return self.rng.integers(low, 12, tuple(shape)).astype(kind)

    # Tensors --------------------------------------------------------------------------------------

    def name(self) -> str:
        return f"v{len(self.values)}"

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """Return a constant: an initializer, shared where there is an equal one, or a node."""
        array = np.asarray(value, None if dtype is None else np.dtype(dtype))
        for name, known in self.initializers.items():
            same = known.dtype == array.dtype and known.shape == array.shape
            if same and np.array_equal(known, array):
                return name
        name = self.name()
        self.values[name] = array
        self.exact.add(name)
        if self.chance(0.25):
            proto = numpy_helper.from_array(array, name)
            self.nodes.append(helper.make_node("Constant", [], [name], value=proto))
        else:
            self.initializers[name] = array
        return name

    def leaf(self, dtype: str, shape: Sequence[int]) -> str:
        """Return an input of the model, or a constant."""
        value = self.array(dtype, shape)
        if self.chance(0.3):
            return self.constant(value)
        name = self.name()
        self.inputs[name] = self.values[name] = value
        self.exact.add(name)
        return name

    def take(
        self,
        dtype: str,
        shape: Sequence[int] | None = None,
        rank: tuple[int, int] = (0, 6),
        exact: bool = False,
    ) -> str:
        """Return a tensor of a type: what a node gives, or something new."""

        def fits(name: str) -> bool:
            value = self.values[name]
            if value.dtype != dtype or name in self.slack or exact and name not in self.exact:
                return False
            if shape is not None and value.shape != tuple(shape):
                return False
            if not rank[0] <= value.ndim <= rank[1] or not 0 < value.size <= _MOST:
                return False
            if value.dtype.kind != "f":
                return True
            return bool(np.isfinite(value).all() and np.abs(value).max() <= _LARGEST)

        known = [name for name in self.values if fits(name)] if self.chance(0.8) else []
        if known:
            return str(known[-1 - int(self.rng.exponential(3)) % len(known)])
        return self.leaf(dtype, self.shape(*rank) if shape is None else shape)

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that is broadcast with another one."""
        found = tuple(1 if self.chance(0.3) else size for size in shape)
        if self.chance(0.3):
            found = found[self.number(0, len(found)) :]
        elif self.chance(0.2) and len(found) < 6 and prod(found) <= _MOST // 2:
            found = (2, *found)
        return found

    # Nodes ----------------------------------------------------------------------------------------

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: int = 1,
        captured: Sequence[str] = (),
        /,
        **attributes: Any,
    ) -> list[str]:
        """Add a node; raise :class:`NotDrawnError` where the reference does not compute it."""
        self._check_types(op, inputs)
        names = [f"v{len(self.values) + i}" for i in range(outputs)]
        proto = helper.make_node(op, list(inputs), names, **attributes)
        read = [name for name in dict.fromkeys([*inputs, *captured]) if name]
        floats = [n for n in read if self.values[n].dtype.kind == "f"]
        if op in _SENSITIVE and any(n not in self.exact for n in floats):
            raise NotDrawnError(f"{op} takes exact floats only")
        results = computed([proto], {n: self.values[n] for n in read}, names, self.opset)
        if any(value.size > 4 * _MOST or not value.size for value in results):
            raise NotDrawnError(f"{op} gives too much, or nothing")
        self.nodes.append(proto)
        for name, value in zip(names, results, strict=True):
            self.values[name] = value
            if value.dtype.kind != "f" or self._is_exact(op, read, value):
                self.exact.add(name)
        return names

    def _check_types(self, op: str, inputs: Sequence[str]) -> None:
        try:
            schema = onnx.defs.get_schema(op, self.opset)
        except onnx.defs.SchemaError:
            raise NotDrawnError(f"{op} is newer than opset {self.opset}") from None
        if schema.deprecated:
            raise NotDrawnError(f"{op} is deprecated in opset {self.opset}")
        if not schema.min_input <= len(inputs) <= schema.max_input:
            raise NotDrawnError(f"{op} does not take {len(inputs)} inputs")
        kinds: dict[str, str] = {}
        for i, name in enumerate(inputs):
            if not name:
                continue
            formal = schema.inputs[min(i, len(schema.inputs) - 1)]
            code = helper.np_dtype_to_tensor_dtype(self.values[name].dtype)
            shown = f"tensor({TensorProto.DataType.Name(code).lower()})"
            if shown not in formal.types:
                raise NotDrawnError(f"{op} of opset {self.opset} does not take {shown}")
            if formal.is_homogeneous and kinds.setdefault(formal.type_str, shown) != shown:
                raise NotDrawnError(f"{op} takes operands of one type")

    def _is_exact(self, op: str, read: Sequence[str], value: Array) -> bool:
        if any(n not in self.exact for n in read):
            return False
        if op in _EXACT:
            return True
        arithmetic = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
        if op not in arithmetic or value.dtype == np.float64:
            return False
        a, b = (self.values[name].astype(np.float64) for name in (read[0], read[-1]))
        return bool(np.array_equal(arithmetic[op](a, b), value.astype(np.float64)))

    def model(self) -> Drawn:
        """Return the model: what no node reads goes out, and some of the rest."""
        read = {name for node in self.nodes for name in node.input}
        for node in self.nodes:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    read |= {name for inner in attribute.g.node for name in inner.input}
        given = [name for node in self.nodes for name in node.output if name]
        shown = [n for n in given if self.values[n].size and (n not in read or self.chance(0.15))]
        used = {**self.inputs, **self.initializers}
        used = {name: value for name, value in used.items() if name in read}
        graph = helper.make_graph(
            self.nodes,
            "random",
            [_value_info(n, self.values[n]) for n in used if n in self.inputs],
            [_value_info(n, self.values[n]) for n in shown],
            [
                numpy_helper.from_array(value, name)
                for name, value in used.items()
                if name in self.initializers
            ],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 10
        return Drawn(
            model,
            {name: value for name, value in used.items() if name in self.inputs},
            {name: self.values[name] for name in shown},
            self.slack,
            [node.op_type for node in self.nodes],
        )


def _value_info(name: str, value: Array) -> onnx.ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, code, value.shape)


def computed(
    nodes: Sequence[onnx.NodeProto],
    given: Mapping[str, Array],
    outputs: Sequence[str],
    opset: int,
) -> list[Array]:
    """Return what ``onnx.reference`` computes by some nodes."""
    graph = helper.make_graph(
        list(nodes),
        "nodes",
        [_value_info(name, value) for name, value in given.items()],
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(model).run(list(outputs), dict(given))
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output
    except Exception as error:
        raise NotDrawnError(f"onnx.reference: {type(error).__name__}: {error}") from error
    for value, output in zip(found, inferred, strict=True):
        shape = [d.dim_value or None for d in output.type.tensor_type.shape.dim]
        if output.type.tensor_type.HasField("shape") and (
            len(shape) != np.ndim(value)
            or any(a not in (None, b) for a, b in zip(shape, np.shape(value), strict=True))
        ):
            raise NotDrawnError("onnx.reference gives another shape than ONNX infers")
    return [np.asarray(value) for value in found]


# What is drawn --------------------------------------------------------------------------------

Family = Callable[[Draft, str], None]
FAMILIES: dict[str, Family] = {}


def draws(*names: str) -> Callable[[Family], Family]:
    """Register a function that draws one of the operators ``names``."""

    def register(family: Family) -> Family:
        for name in names:
            assert name not in FAMILIES
            FAMILIES[name] = family
        return family

    return register


def _real(d: Draft, op: str) -> str:
    return d.take(d.among(REAL), exact=op in _SENSITIVE)


@draws(
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp"),
    *("Floor", "HardSwish", "Identity", "IsNaN", "Log", "Mish", "Reciprocal", "Round", "Sigmoid"),
    *("Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
)
def _unary(d: Draft, op: str) -> None:
    d.node(op, [_real(d, op)])


@draws("Abs", "Neg", "Sign", "Relu")
def _of_sign(d: Draft, op: str) -> None:
    d.node(op, [d.take(d.among(NUMBERS), exact=op == "Sign")])


@draws("Elu", "LeakyRelu", "Celu", "ThresholdedRelu", "HardSigmoid", "Selu", "Swish", "Gelu")
def _with_alpha(d: Draft, op: str) -> None:
    values = (0.0, 0.1, 0.5, 1.0, 1.5, 2.0) if op != "Celu" else (0.5, 1.0, 2.0)
    attributes: dict[str, Any] = {"alpha": d.among(values)} if d.chance() else {}
    if op == "HardSigmoid" and d.chance():
        attributes["beta"] = d.among((0.0, 0.25, 1.0))
    if op == "Selu" and d.chance():
        attributes["gamma"] = d.among((0.5, 1.0, 2.0))
    if op == "Gelu":
        attributes = {"approximate": d.among(("none", "tanh"))} if d.chance() else {}
    d.node(op, [_real(d, op)], **attributes)


@draws("Shrink")
def _shrink(d: Draft, op: str) -> None:
    d.node(op, [_real(d, op)], lambd=d.among((0.0, 0.5, 1.5)), bias=d.among((0.0, 0.5, 1.0)))


@draws("IsInf")
def _is_inf(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "float64")))
    d.node(op, [x], detect_negative=d.number(0, 1), detect_positive=d.number(0, 1))


@draws("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Mod")
def _arithmetic(d: Draft, op: str) -> None:
    dtype = d.among(NUMBERS if op not in ("Sum", "Mean") else REAL)
    exact = op in _SENSITIVE
    operands = [d.take(dtype, exact=exact)]
    others = d.number(0, 3) if op in ("Max", "Min", "Sum", "Mean") else 1
    for _ in range(others):
        shape = d.broadcast(d.values[operands[0]].shape)
        operands.append(d.take(dtype, shape, exact=exact))
    if op in ("Div", "Mod"):
        divisor = d.values[operands[1]]
        if np.dtype(dtype).kind != "f" and not divisor.all():
            operands[1] = d.constant(np.where(divisor == 0, 3, divisor).astype(dtype))
    if d.chance():
        operands.reverse()
    attributes = {}
    if op == "Mod" and (np.dtype(dtype).kind == "f" or d.chance(0.3)):
        attributes["fmod"] = 1
    if op in ("Div", "Mod") and np.dtype(dtype).kind != "f" and not d.values[operands[1]].all():
        raise NotDrawnError("nothing is divided by 0")
    d.node(op, operands, **attributes)


@draws("Pow")
def _pow(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "float32", "int32", "int64")), exact=True)
    shape = d.broadcast(d.values[x].shape)
    if d.values[x].dtype.kind == "f":
        exponent = d.constant(d.rng.integers(0, 4, shape).astype(d.among(("float32", "int32"))))
    else:
        exponent = d.constant(d.rng.integers(0, 4, shape).astype(d.values[x].dtype))
    d.node(op, [x, exponent])


@draws("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def _comparison(d: Draft, op: str) -> None:
    dtype = d.among(NUMBERS if op != "Equal" else ANY)
    a = d.take(dtype, exact=True)
    b = d.take(dtype, d.broadcast(d.values[a].shape), exact=True)
    d.node(op, [a, b] if d.chance() else [b, a])


@draws("And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift")
def _logic(d: Draft, op: str) -> None:
    dtype = d.among(INTEGERS) if op.startswith("Bit") else "bool"
    if op == "BitShift":
        dtype = d.among(("uint8", "uint16", "uint32", "uint64"))
    a = d.take(dtype)
    if op in ("Not", "BitwiseNot"):
        d.node(op, [a])
        return
    shape = d.broadcast(d.values[a].shape)
    if op == "BitShift":
        by = d.constant(d.rng.integers(0, 8, shape).astype(dtype))
        d.node(op, [a, by], direction=d.among(("LEFT", "RIGHT")))
        return
    d.node(op, [a, d.take(dtype, shape)])


@draws("Where")
def _where(d: Draft, op: str) -> None:
    dtype = d.among(ANY)
    x = d.take(dtype)
    shape = d.values[x].shape
    d.node(op, [d.take("bool", d.broadcast(shape)), x, d.take(dtype, d.broadcast(shape))])


@draws("PRelu")
def _prelu(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "float32", "int32", "float16")))
    shape = d.values[x].shape
    slope = tuple(1 if d.chance(0.3) else size for size in shape)[d.number(0, len(shape)) :]
    d.node(op, [x, d.take(str(d.values[x].dtype), slope)])


@draws("Clip")
def _clip(d: Draft, op: str) -> None:
    x = d.take(d.among(NUMBERS))
    dtype = d.values[x].dtype
    low, high = np.array(d.among((0, 1, 2))).astype(dtype), np.array(d.among((3, 5))).astype(dtype)
    if d.opset < 11:
        chosen = {"min": float(low), "max": float(high)}
        d.node(op, [x], **{k: v for k, v in chosen.items() if d.chance(0.7)})
        return
    operands = [x, d.constant(low) if d.chance(0.7) else ""]
    d.node(op, [*operands, d.constant(high)] if d.chance(0.7) else operands)


@draws("Cast", "CastLike")
def _cast(d: Draft, op: str) -> None:
    source, target = d.among(ANY), d.among(ANY)
    x = d.take(source, exact=True)
    value = d.values[x]
    if value.dtype.kind == "f" and np.dtype(target).kind in "iu":
        ends = np.iinfo(target)
        if not (np.isfinite(value).all() and ends.min <= value.min() and value.max() <= ends.max):
            raise NotDrawnError("C does not say what becomes of it")
    if op == "CastLike":
        d.node(op, [x, d.take(target)])
        return
    d.node(op, [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


# Reductions ---------------------------------------------------------------------------------


def _axes(d: Draft, rank: int) -> list[int]:
    axes = [axis for axis in range(rank) if d.chance()] or ([d.number(0, rank - 1)] if rank else [])
    return [axis - rank if d.chance(0.3) else axis for axis in d.rng.permutation(axes).tolist()]


@draws(
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
def _reduce(d: Draft, op: str) -> None:
    # The reference computes sums of int32 and of small integers in int64.
    dtypes: tuple[str, ...] = ("float32", "float32", "float64", "int64")
    if op in ("ReduceMax", "ReduceMin"):
        dtypes = (*dtypes, "int32", "int8", "uint8", "float16")
    if op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
        dtypes = dtypes[:3]
    x = d.take(d.among(dtypes), exact=op in _SENSITIVE)
    rank = d.values[x].ndim
    keepdims = {"keepdims": d.number(0, 1)} if d.chance(0.8) else {}
    since = 13 if op == "ReduceSum" else 18
    if d.chance(0.2):
        extra = {"noop_with_empty_axes": 1} if d.opset >= since and d.chance(0.3) else {}
        d.node(op, [x], **keepdims, **extra)
        return
    axes = _axes(d, rank)
    if not axes:
        raise NotDrawnError("a scalar has no axes")
    if d.opset < 11:
        axes = [axis % rank for axis in axes]
    if d.opset >= since:
        d.node(op, [x, d.constant(axes, "int64")], **keepdims)
    else:
        d.node(op, [x], axes=axes, **keepdims)


def _axis(d: Draft, x: str, negative_since: int = 11) -> int:
    rank = d.values[x].ndim
    axis = d.number(0, rank - 1)
    return axis - rank if d.chance(0.3) and d.opset >= negative_since else axis


@draws("ArgMax", "ArgMin")
def _arg(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "float32", "int32", "int8", "uint8")), rank=(1, 6), exact=True)
    attributes: dict[str, Any] = {"axis": _axis(d, x), "keepdims": d.number(0, 1)}
    if d.opset >= 12 and d.chance():
        attributes["select_last_index"] = 1
    d.node(op, [x], **attributes)


@draws("CumSum", "CumProd")
def _cumulative(d: Draft, op: str) -> None:
    dtype = d.among(("float32", "int32", "int64", "float64"))
    x = d.take(dtype, rank=(1, 6), exact=op in _SENSITIVE)
    axis = d.constant(_axis(d, x), "int64")
    d.node(op, [x, axis], exclusive=d.number(0, 1), reverse=d.number(0, 1))


@draws("Softmax", "LogSoftmax", "Hardmax")
def _softmax(d: Draft, op: str) -> None:
    x = d.take(
        d.among(("float32", "float32", "float64", "float16")), rank=(1, 6), exact=op == "Hardmax"
    )
    # Before opset 13 they take all axes from this one on together, which the reference does not.
    axis = _axis(d, x) if d.opset >= 13 else d.values[x].ndim - 1
    d.node(op, [x], axis=axis)


@draws("LpNormalization")
def _lp_normalization(d: Draft, op: str) -> None:
    x = d.take("float32", rank=(1, 4), exact=True)
    # With p=1 the reference adds the elements, not their magnitudes.
    d.node(op, [x], axis=_axis(d, x, 1), p=2)


@draws("TopK")
def _top_k(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "int32", "int64")), rank=(1, 4), exact=True)
    axis = _axis(d, x)
    row = np.moveaxis(d.values[x], axis, -1)
    if any(len(set(r.tolist())) < r.size for r in row.reshape(-1, row.shape[-1])):
        # Of equal elements any may come first.
        flat = d.rng.permutation(d.values[x].size).reshape(d.values[x].shape)
        x = d.constant(
            (flat / 4).astype(d.values[x].dtype) if d.chance() else flat.astype(d.values[x].dtype)
        )
        if len(set(d.values[x].ravel().tolist())) < d.values[x].size:
            raise NotDrawnError("of equal elements any may come first")
    k = d.number(1, d.values[x].shape[axis])
    if d.opset < 10:
        d.node(op, [x], 2, axis=axis, k=k)
        return
    attributes = {"largest": d.number(0, 1), "sorted": 1} if d.opset >= 11 else {}
    d.node(op, [x, d.constant([k], "int64")], 2, axis=axis, **attributes)


@draws("OneHot")
def _one_hot(d: Draft, op: str) -> None:
    depth = d.number(2, 5)
    x = d.constant(d.rng.integers(-depth if d.opset >= 11 else 0, depth, d.shape(1, 3)))
    if d.chance(0.7):
        name = d.name()
        d.inputs[name] = d.values[name] = d.values[x]
        d.exact.add(name)
        x = name
    rank = d.values[x].ndim
    values = d.constant(d.array(d.among(("float32", "int32", "int64")), (2,)))
    d.node(op, [x, d.constant(depth, "int64"), values], axis=d.number(-1, rank))


# Movement -----------------------------------------------------------------------------------


@draws("Reshape")
def _reshape(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY))
    shape = d.values[x].shape
    sizes = [size for size in shape for size in _factors(d, size)]
    d.rng.shuffle(sizes)
    while len(sizes) > 1 and d.chance(0.4):
        sizes = [sizes[0] * sizes[1], *sizes[2:]]
    target: list[int] = sizes[:6] if len(sizes) <= 6 else [prod(sizes)]
    if target and d.chance(0.3):
        target[d.number(0, len(target) - 1)] = -1
    for i in range(min(len(target), len(shape))):
        if target[i] == shape[i] and d.chance(0.3):
            target[i] = 0
    d.node(op, [x, d.constant(np.array(target, np.int64))])


def _factors(d: Draft, size: int) -> list[int]:
    if size == 4 and d.chance():
        return [2, 2]
    return [size, 1] if d.chance(0.2) else [size]


@draws("Flatten")
def _flatten(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 6))
    rank = d.values[x].ndim
    d.node(op, [x], axis=d.number(-rank if d.opset >= 11 else 0, rank))


@draws("Squeeze", "Unsqueeze")
def _squeeze(d: Draft, op: str) -> None:
    if op == "Squeeze":
        x = d.take(d.among(ANY), rank=(1, 6))
        axes = [axis for axis, size in enumerate(d.values[x].shape) if size == 1 and d.chance(0.7)]
        rank = d.values[x].ndim
        if not axes:
            if d.chance():
                raise NotDrawnError("there is nothing to squeeze")
            d.node(op, [x])
            return
    else:
        x = d.take(d.among(ANY), rank=(0, 4))
        count = d.number(1, 2)
        rank = d.values[x].ndim + count
        axes = d.rng.permutation(rank)[:count].tolist()
    if d.opset >= 11:
        axes = [axis - rank if d.chance(0.3) else axis for axis in axes]
    if d.opset >= 13:
        d.node(op, [x, d.constant(axes, "int64")])
    else:
        d.node(op, [x], axes=sorted(axes))


@draws("Transpose")
def _transpose(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 6))
    perm = d.rng.permutation(d.values[x].ndim).tolist()
    d.node(op, [x], **({"perm": perm} if d.chance(0.8) else {}))


@draws("Concat")
def _concat(d: Draft, op: str) -> None:
    dtype = d.among(ANY)
    x = d.take(dtype, rank=(1, 6))
    axis = _axis(d, x)
    operands = [x]
    for _ in range(d.number(0, 3)):
        shape = list(d.values[x].shape)
        shape[axis] = d.number(1, 3)
        operands.append(d.take(dtype, shape))
    d.node(op, [operands[i] for i in d.rng.permutation(len(operands))], axis=axis)


@draws("Split")
def _split(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 6))
    axis = _axis(d, x)
    size = d.values[x].shape[axis]
    parts = d.number(1, min(size, 3))
    cuts = sorted(d.rng.permutation(size - 1)[: parts - 1] + 1) if size > 1 else []
    sizes = np.diff([0, *cuts, size]).tolist()
    if d.opset >= 18 and d.chance():
        d.node(op, [x], parts, axis=axis, num_outputs=parts)
    elif d.opset >= 13:
        d.node(op, [x, d.constant(sizes, "int64")], len(sizes), axis=axis)
    else:
        d.node(op, [x], len(sizes), axis=axis, split=sizes)


@draws("Slice")
def _slice(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 6))
    shape = d.values[x].shape
    axes = sorted(d.rng.permutation(len(shape))[: d.number(1, len(shape))].tolist())
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        start = d.number(0, size - 1)
        end = d.number(start + 1, size + 1)
        step = d.number(1, 2)
        if d.opset >= 10 and d.chance(0.3):
            start, end, step = end - 1, start - 1 if start else -size - 1, -step
        elif d.chance(0.2):
            end = d.among((2**31 - 1, 2**63 - 1))
        if d.chance(0.2) and start > 0:
            start -= size if start < size else 0
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if d.opset < 10:
        d.node(op, [x], axes=axes, starts=starts, ends=ends)
        return
    operands = [starts, ends, axes, steps] if d.chance(0.8) else [starts, ends, axes]
    d.node(op, [x, *(d.constant(value, "int64") for value in operands)])


def _indices(d: Draft, size: int, shape: Sequence[int], dtype: str = "int64") -> str:
    low = -size if d.opset >= 11 and d.chance() else 0
    value = d.rng.integers(low, size, tuple(shape)).astype(dtype)
    if d.chance():
        return d.constant(value)
    name = d.name()
    d.inputs[name] = d.values[name] = value
    d.exact.add(name)
    return name


@draws("Gather")
def _gather(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 4))
    axis = _axis(d, x)
    dtype = d.among(("int32", "int64"))
    d.node(op, [x, _indices(d, d.values[x].shape[axis], d.shape(0, 2), dtype)], axis=axis)


@draws("GatherElements")
def _gather_elements(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 4))
    axis = _axis(d, x)
    shape = [d.number(1, size) for size in d.values[x].shape]
    shape[axis] = d.number(1, 5)
    d.node(op, [x, _indices(d, d.values[x].shape[axis], shape)], axis=axis)


@draws("GatherND")
def _gather_nd(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 4))
    shape = d.values[x].shape
    batch = d.number(0, len(shape) - 1) if d.opset >= 12 and d.chance(0.4) else 0
    count = d.number(1, len(shape) - batch)
    size = min(shape[batch : batch + count])
    indices = _indices(d, size, (*shape[:batch], *d.shape(0, 2), count))
    d.node(op, [x, indices], **({"batch_dims": batch} if batch else {}))


@draws("ScatterElements")
def _scatter_elements(d: Draft, op: str) -> None:
    dtype = d.among(("float32", "int32", "int64"))
    x = d.take(dtype, rank=(1, 4))
    axis = _axis(d, x)
    size = d.values[x].shape[axis]
    # Each place is written once: the order is not said.
    count = d.number(1, size)
    shape = list(d.values[x].shape)
    shape[axis] = count
    order = np.argsort(d.rng.random(d.values[x].shape), axis=axis)
    value = np.take(order, range(count), axis=axis).astype(np.int64)
    attributes = {"axis": axis}
    if op == "ScatterElements" and d.opset >= 16 and d.chance(0.4):
        kinds = ("add", "mul") if d.opset < 18 else ("add", "mul", "max", "min")
        attributes["reduction"] = d.among(kinds)
    d.node(op, [x, d.constant(value), d.take(dtype, shape)], **attributes)


@draws("ScatterND")
def _scatter_nd(d: Draft, op: str) -> None:
    dtype = d.among(("float32", "int32", "bool", "int8"))
    x = d.take(dtype, rank=(1, 4))
    shape = d.values[x].shape
    count = d.number(1, len(shape))
    places = d.rng.permutation(prod(shape[:count]))[: d.number(1, 3)]
    indices = np.stack(np.unravel_index(places, shape[:count]), -1).astype(np.int64)
    updates = d.take(dtype, (len(places), *shape[count:]))
    d.node(op, [x, d.constant(indices), updates])


@draws("Tile")
def _tile(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 6))
    d.node(op, [x, d.constant(d.rng.integers(1, 3, d.values[x].ndim))])


@draws("Expand")
def _expand(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY))
    shape = [d.number(1, 3) if size == 1 else d.among((1, size)) for size in d.values[x].shape]
    if d.chance(0.3) and len(shape) < 6:
        shape = [d.number(1, 2), *shape]
    elif d.chance(0.2):
        shape = shape[d.number(0, len(shape)) :]
    d.node(op, [x, d.constant(np.array(shape, np.int64))])


@draws("Pad")
def _pad(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "float32", "int32", "int8", "float16")), rank=(1, 5))
    shape = d.values[x].shape
    modes = (
        ("constant", "reflect", "edge") if d.opset < 19 else ("constant", "reflect", "edge", "wrap")
    )
    mode = d.among(modes)
    most = [2] * len(shape) if mode in ("constant", "edge") else [min(2, s - 1) for s in shape]
    pads = [d.number(0, m) for m in (*most, *most)]
    if mode == "constant" and d.chance(0.2):
        pads = [
            -1 if size > 3 and d.chance() else p
            for p, size in zip(pads, (*shape, *shape), strict=True)
        ]
    dtype = d.values[x].dtype
    if d.opset < 11:
        d.node(op, [x], pads=pads, mode=mode, value=1.5)
        return
    operands = [x, d.constant(pads, "int64")]
    if mode == "constant" and d.chance():
        operands.append(d.constant(np.array(3).astype(dtype)))
    d.node(op, operands, mode=mode)


@draws("DepthToSpace", "SpaceToDepth")
def _depth(d: Draft, op: str) -> None:
    block = d.number(1, 2)
    n, c, h, w = (d.number(1, 3) for _ in range(4))
    if op == "DepthToSpace":
        x = d.take(d.among(("float32", "float16", "int32", "int8")), (n, c * block * block, h, w))
        mode = {"mode": d.among(("DCR", "CRD"))} if d.opset >= 11 and d.chance() else {}
        d.node(op, [x], blocksize=block, **mode)
        return
    x = d.take(d.among(("float32", "float16", "int32", "int8")), (n, c, h * block, w * block))
    d.node(op, [x], blocksize=block)


@draws("Trilu")
def _trilu(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(2, 4))
    operands = [x] if d.chance(0.3) else [x, d.constant(d.number(-3, 3), "int64")]
    d.node(op, operands, upper=d.number(0, 1))


@draws("Compress")
def _compress(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 4))
    axis = _axis(d, x)
    chosen = d.array("bool", (d.values[x].shape[axis],))
    chosen[0] = True
    d.node(op, [x, d.constant(chosen)], axis=axis)


@draws("ReverseSequence")
def _reverse(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "int32", "int8", "bool")), rank=(2, 4))
    batch = d.number(0, 1)
    shape = d.values[x].shape
    lengths = d.rng.integers(1, shape[1 - batch] + 1, shape[batch]).astype(np.int64)
    d.node(op, [x, d.constant(lengths)], batch_axis=batch, time_axis=1 - batch)


@draws("CenterCropPad")
def _crop(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "int32", "uint8")), rank=(1, 4))
    axes = sorted({axis % d.values[x].ndim for axis in _axes(d, d.values[x].ndim)})
    sizes = [d.number(1, 6) for _ in axes]
    d.node(op, [x, d.constant(sizes, "int64")], axes=axes)


@draws("Dropout")
def _dropout(d: Draft, op: str) -> None:
    d.node(op, [d.take(d.among(("float32", "float16", "float64")))])


@draws("Shape", "Size")
def _shape(d: Draft, op: str) -> None:
    x = d.take(d.among(ANY), rank=(1, 6))
    extra = {"start": d.number(-2, 0)} if op == "Shape" and d.opset >= 15 and d.chance() else {}
    (found,) = d.node(op, [x], **extra)
    # What is computed from shapes is known.
    d.node("Add", [found, d.constant(np.array(d.number(0, 3), np.int64))])


@draws("ConstantOfShape")
def _constant_of_shape(d: Draft, op: str) -> None:
    value = d.array(d.among(("float32", "int32", "int64", "bool", "uint8")), (1,))
    attributes = {"value": numpy_helper.from_array(value)} if d.chance(0.8) else {}
    (made,) = d.node(op, [d.constant(np.array(d.shape(1, 3), np.int64))], **attributes)
    shape, dtype = d.values[made].shape, str(d.values[made].dtype)
    d.node("Where", [d.take("bool", shape), made, d.take(dtype, shape)])


@draws("EyeLike")
def _eye(d: Draft, op: str) -> None:
    x = d.take(d.among(("float32", "int32")), rank=(2, 2))
    (eye,) = d.node(op, [x], k=d.number(-2, 2))
    d.node("Mul", [x, eye])


@draws("Range")
def _range(d: Draft, op: str) -> None:
    dtype = d.among(("float32", "int32", "int64"))
    numbers = (d.number(-3, 3), d.number(4, 9), d.among((1, 2)))
    (made,) = d.node(op, [d.constant(np.array(n, dtype)) for n in numbers])
    d.node("Add", [made, d.take(dtype, (1,))])


# Layers -------------------------------------------------------------------------------------


def _image(d: Draft, spatial: int, channels: int, low: int = 3) -> str:
    return d.take(
        "float32", (d.number(1, 2), channels, *(d.number(low, 7) for _ in range(spatial)))
    )


def _window(d: Draft, spatial: int, dilate: bool = True) -> dict[str, Any]:
    kernel = [d.number(1, 3) for _ in range(spatial)]
    found: dict[str, Any] = {"kernel_shape": kernel}
    if d.chance(0.6):
        found["strides"] = [d.number(1, 3) for _ in kernel]
    if dilate and d.chance(0.3):
        found["dilations"] = [d.number(1, 2) if k < 3 else 1 for k in kernel]
    if d.chance(0.4):
        pads = [d.number(0, k - 1) for k in kernel]
        found["pads"] = [*pads, *(d.number(0, k - 1) for k in kernel)]
    elif d.chance(0.4):
        found["auto_pad"] = d.among(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return found


@draws("Conv")
def _conv(d: Draft, op: str) -> None:
    spatial = d.among((1, 2, 2, 2, 3))
    group = d.among((1, 1, 2, 3))
    per_group, outputs = d.number(1, 3), group * d.number(1, 3)
    x = _image(d, spatial, group * per_group)
    window = _window(d, spatial)
    w = d.leaf("float32", (outputs, per_group, *window["kernel_shape"]))
    bias = [d.leaf("float32", (outputs,))] if d.chance() else []
    d.node(op, [x, w, *bias], group=group, **window)


@draws("ConvTranspose")
def _conv_transpose(d: Draft, op: str) -> None:
    spatial = d.among((1, 2, 2))
    group = d.among((1, 1, 2))
    inputs, per_group = group * d.number(1, 3), d.number(1, 3)
    x = _image(d, spatial, inputs, 2)
    if group > 1 and d.values[x].shape[0] > 1:
        raise NotDrawnError("onnx.reference mixes the groups of several images")
    window = _window(d, spatial)
    window.pop("auto_pad", None)
    strides = window.get("strides", [1] * spatial)
    if d.chance(0.3):
        window["output_padding"] = [d.number(0, s - 1) for s in strides]
    w = d.leaf("float32", (inputs, per_group, *window["kernel_shape"]))
    bias = [d.leaf("float32", (group * per_group,))] if d.chance() else []
    d.node(op, [x, w, *bias], group=group, **window)


@draws("MaxPool", "AveragePool", "LpPool")
def _pool(d: Draft, op: str) -> None:
    spatial = d.among((1, 2, 2, 3))
    dtype = "float32" if op != "MaxPool" or d.chance(0.7) else d.among(("int8", "uint8"))
    sizes = (d.number(3, 6) for _ in range(spatial))
    x = d.take(dtype, (d.number(1, 2), d.number(1, 4), *sizes), exact=op == "MaxPool")
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    window = _window(d, spatial, dilate=d.opset >= since)
    if op == "AveragePool" and d.chance():
        window["count_include_pad"] = d.number(0, 1)
    if op == "LpPool":
        window["p"] = d.number(1, 3)
    elif d.opset >= 10 and d.chance(0.3) and "auto_pad" not in window:
        window["ceil_mode"] = 1
    if op == "MaxPool" and window.get("auto_pad") == "SAME_LOWER":
        raise NotDrawnError("onnx.reference pads it above")
    if op == "MaxPool" and window.get("ceil_mode") and any(window.get("pads", ())):
        raise NotDrawnError("onnx.reference places these windows elsewhere")
    beyond = [
        s > k for s, k in zip(window.get("strides", ()), window["kernel_shape"], strict=False)
    ]
    if op != "LpPool" and window.get("auto_pad") in ("SAME_UPPER", "SAME_LOWER") and any(beyond):
        raise NotDrawnError("its padding may be negative, and is refused")
    if op == "LpPool" and "auto_pad" in window:
        raise NotDrawnError("onnx.reference pads it without regard to dilations")
    # Its places are counted from the start of each image by onnx.reference, not of the tensor.
    with_places = op == "MaxPool" and d.opset >= 8 and d.values[x].shape[:2] == (1, 1)
    d.node(op, [x], 2 if with_places and d.chance() else 1, **window)


@draws("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(d: Draft, op: str) -> None:
    d.node(op, [d.take("float32", rank=(3, 5))])


@draws("BatchNormalization")
def _batch_norm(d: Draft, op: str) -> None:
    if d.opset < 14:
        raise NotDrawnError("onnx.reference computes it from other statistics")
    x = d.take("float32", rank=(2, 5))
    channels = d.values[x].shape[1]
    scale, bias, mean = (d.leaf("float32", (channels,)) for _ in range(3))
    variance = d.constant((d.rng.integers(1, 16, channels) / 8).astype(np.float32))
    d.node(op, [x, scale, bias, mean, variance], epsilon=d.among((1e-5, 1e-2)))


@draws("InstanceNormalization", "GroupNormalization")
def _instance_norm(d: Draft, op: str) -> None:
    groups = d.number(1, 2)
    x = d.take(
        "float32",
        (d.number(1, 2), groups * d.number(1, 2), d.number(2, 4), d.number(2, 4)),
        exact=True,
    )
    channels = d.values[x].shape[1]
    extra = {"num_groups": groups} if op == "GroupNormalization" else {}
    count = groups if op == "GroupNormalization" and d.opset < 21 else channels
    d.node(op, [x, d.leaf("float32", (count,)), d.leaf("float32", (count,))], epsilon=1e-2, **extra)


@draws("LayerNormalization", "RMSNormalization")
def _layer_norm(d: Draft, op: str) -> None:
    x = d.take("float32", rank=(1, 4), exact=True)
    axis = _axis(d, x, 1)
    shape = d.values[x].shape[axis:]
    operands = [x, d.leaf("float32", shape)]
    if op == "LayerNormalization" and d.chance():
        operands.append(d.leaf("float32", shape))
    d.node(op, operands, axis=axis, epsilon=1e-2)


@draws("MeanVarianceNormalization")
def _mean_variance(d: Draft, op: str) -> None:
    d.node(op, [d.take("float32", rank=(4, 4), exact=True)])


@draws("MatMul")
def _matmul(d: Draft, op: str) -> None:
    dtype = d.among(("float32", "float32", "float32", "float64"))
    m, k, n = (d.number(1, 5) for _ in range(3))
    batch = d.shape(0, 3)[:3] if d.chance(0.6) else ()
    if prod(batch) * max(m * k, k * n, m * n) > _MOST:
        raise NotDrawnError("the product is large")
    left = (*d.broadcast(batch), m, k) if d.chance(0.8) else (k,)
    right = (*batch, k, n) if d.chance(0.8) else (k,)
    d.node(op, [d.take(dtype, left), d.take(dtype, right)])


@draws("Gemm")
def _gemm(d: Draft, op: str) -> None:
    m, k, n = (d.number(1, 6) for _ in range(3))
    flags = {"transA": d.number(0, 1), "transB": d.number(0, 1)}
    a = d.take("float32", (k, m) if flags["transA"] else (m, k))
    b = d.take("float32", (n, k) if flags["transB"] else (k, n))
    c = []
    if d.opset < 11 or d.chance(0.7):
        c = [d.take("float32", d.among(((m, n), (n,), (1, n), (m, 1), (1,))))]
    factors = {"alpha": d.among((0.5, 1.0, 2.0)), "beta": d.among((0.0, 0.25, 1.0))}
    d.node(op, [a, b, *c], **flags, **factors)


@draws("Det")
def _det(d: Draft, op: str) -> None:
    size = d.number(1, 4)
    d.node(op, [d.take("float32", (*d.shape(0, 2), size, size), exact=True)])


@draws("Einsum")
def _einsum(d: Draft, op: str) -> None:
    equation = d.among(
        (
            "ij,jk->ik",
            "bij,bjk->bik",
            "ij->ji",
            "ij->i",
            "i,j->ij",
            "bij,bkj",
            "ii->i",
            "...ij,...jk->...ik",
            "bhid,bhjd->bhij",
            "ij,ij->",
            "i,i",
            "ijk,jl,km->ilm",
        )
    )
    sizes = {letter: d.number(1, 4) for letter in "ijklmbhd"}
    operands = []
    for term in equation.split("->")[0].split(","):
        lead = (2,) if "..." in term else ()
        shape = (*lead, *(sizes[letter] for letter in term.replace("...", "")))
        operands.append(d.take("float32", shape))
    d.node(op, operands, equation=equation)


@draws("MatMulInteger", "ConvInteger")
def _of_integers(d: Draft, op: str) -> None:
    kinds = d.among(("int8", "uint8")), d.among(("int8", "uint8"))
    if op == "MatMulInteger":
        m, k, n = (d.number(1, 5) for _ in range(3))
        shapes: tuple[tuple[int, ...], ...] = ((m, k), (k, n))
    else:
        shapes = ((1, d.number(1, 3), 4, 5), (d.number(1, 3), 0, 2, 3))
        shapes = (shapes[0], (shapes[1][0], shapes[0][1], 2, 3))
    operands = [d.take(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)]
    zeros = [d.constant(np.array(d.number(0, 9), kind)) for kind in kinds]
    d.node(op, operands + zeros[: d.number(0, 2)])


@draws("LSTM", "GRU", "RNN")
def _recurrent(d: Draft, op: str) -> None:
    steps, batch, inputs, hidden = d.number(1, 4), d.number(1, 2), d.number(1, 4), d.number(1, 4)
    direction = d.among(("forward", "reverse", "bidirectional"))
    count, gates = 1 + (direction == "bidirectional"), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    operands = [
        d.take("float32", (steps, batch, inputs)),
        d.leaf("float32", (count, gates * hidden, inputs)),
        d.leaf("float32", (count, gates * hidden, hidden)),
        d.leaf("float32", (count, 2 * gates * hidden)),
    ]
    extra = {"linear_before_reset": d.number(0, 1)} if op == "GRU" else {}
    d.node(op, operands, 2, hidden_size=hidden, direction=direction, **extra)


@draws("Resize")
def _resize(d: Draft, op: str) -> None:
    if d.opset < 13:
        raise NotDrawnError("its older forms are in the suite")
    x = d.take("float32", (1, d.number(1, 2), d.number(2, 4), d.number(2, 4)))
    attributes: dict[str, Any] = {"mode": d.among(("nearest", "linear", "cubic"))}
    attributes["coordinate_transformation_mode"] = d.among(
        ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    )
    if attributes["mode"] == "nearest":
        attributes["nearest_mode"] = d.among(
            ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        )
    shape = d.values[x].shape
    if d.chance():
        least = 2 if attributes["coordinate_transformation_mode"] == "pytorch_half_pixel" else 1
        # onnx.reference places the only output elsewhere.
        sizes = [*shape[:2], d.number(least, 7), d.number(least, 7)]
        d.node(op, [x, "", "", d.constant(sizes, "int64")], **attributes)
    else:
        scales = [1.0, 1.0, d.among((0.5, 1.0, 2.0)), d.among((0.5, 1.5, 2.0))]
        lengths = [size * scale for size, scale in zip(shape, scales, strict=True)]
        place = attributes["coordinate_transformation_mode"]
        if place == "align_corners" and any(length % 1 for length in lengths):
            raise NotDrawnError("onnx.reference takes a fractional length")
        if place == "pytorch_half_pixel" and any(length < 2 for length in lengths[2:]):
            raise NotDrawnError("onnx.reference places the only output elsewhere")
        d.node(op, [x, "", d.constant(scales, "float32")], **attributes)


@draws("GridSample")
def _grid_sample(d: Draft, op: str) -> None:
    x = d.take("float32", (1, d.number(1, 2), d.number(2, 4), d.number(2, 4)))
    grid = d.constant(
        (d.rng.random((1, d.number(1, 3), d.number(1, 3), 2)) * 2.2 - 1.1).astype(np.float32)
    )
    modes = ("bilinear", "nearest", "bicubic") if d.opset < 20 else ("linear", "nearest", "cubic")
    d.node(
        op,
        [x, grid],
        mode=d.among(modes),
        padding_mode=d.among(("zeros", "border", "reflection")),
        align_corners=d.number(0, 1),
    )


@draws("AffineGrid")
def _affine_grid(d: Draft, op: str) -> None:
    images, rank = d.number(1, 2), d.among((2, 3))
    align = d.number(0, 1)
    sizes = [images, d.number(1, 2), *(d.number(1 + align, 4) for _ in range(rank))]
    theta = d.take("float32", (images, rank, rank + 1))
    d.node(op, [theta, d.constant(sizes, "int64")], align_corners=align)


@draws("Attention")
def _attention(d: Draft, op: str) -> None:
    heads = d.number(1, 2)
    keys = heads * d.number(1, 2)
    size, q_len, kv_len = d.number(1, 4), d.number(1, 4), d.number(1, 4)
    operands = [
        d.take("float32", (1, keys, q_len, size)),
        d.take("float32", (1, heads, kv_len, size)),
        d.take("float32", (1, heads, kv_len, size)),
    ]
    d.node(op, operands, is_causal=d.number(0, 1))


@draws("If")
def _if(d: Draft, op: str) -> None:
    x = d.take("float32")
    y = d.take("float32", d.values[x].shape)
    branches = {}
    for key in ("then_branch", "else_branch"):
        node = helper.make_node(d.among(("Max", "Min", "Identity")), [x, y], [f"{key}_result"])
        if node.op_type == "Identity":
            del node.input[1]
        result = helper.make_value_info(
            f"{key}_result", helper.make_tensor_type_proto(1, d.values[x].shape)
        )
        branches[key] = helper.make_graph([node], key, [], [result])
    d.node(op, [d.take("bool", ())], 1, [x, y], **branches)


# Quantization -------------------------------------------------------------------------------


@draws("QuantizeLinear", "DequantizeLinear")
def _quantize(d: Draft, op: str) -> None:
    dtypes = ("int8", "uint8") if d.opset < 21 else ("int8", "uint8", "int16", "uint16")
    dtype = d.among(dtypes)
    quantizes = op == "QuantizeLinear"
    x = d.take("float32" if quantizes else dtype, rank=(1, 4), exact=quantizes)
    shape: tuple[int, ...] = ()
    attributes = {}
    if d.opset >= 13 and d.chance(0.4):
        attributes["axis"] = d.number(0, d.values[x].ndim - 1)
        shape = (d.values[x].shape[attributes["axis"]],)
    scale = d.constant((2.0 ** d.rng.integers(-5, 1, shape)).astype(np.float32))
    zero = d.constant(d.rng.integers(0, 9, shape).astype(dtype))
    d.node(op, [x, scale, zero], **attributes)


@draws("DynamicQuantizeLinear")
def _dynamic(d: Draft, op: str) -> None:
    d.node(op, [d.take("float32", exact=True)], 3)


def _scale_of(d: Draft, value: Array) -> tuple[str, str]:
    """Return a scale and a zero point that cover values, as a quantizer chooses them."""
    dtype = d.among(("int8", "uint8"))
    low, high = min(0.0, float(value.min())), max(0.0, float(value.max()))
    scale = np.float32(max(high - low, 0.5) / 255)
    ends = np.iinfo(dtype)
    zero = int(np.clip(round(ends.min - low / float(scale)), ends.min, ends.max))
    return d.constant(scale), d.constant(np.array(zero, dtype))


@draws("QLinearConv")
def _island(d: Draft, op: str) -> None:
    """Draw a layer between DequantizeLinear and QuantizeLinear, as quantizers write it."""
    if d.opset < 19:
        raise NotDrawnError("onnx.reference dequantizes from opset 19 on")
    x = d.leaf("float32", (1, d.number(1, 3), d.number(3, 6), d.number(3, 6)))
    pair = _scale_of(d, d.values[x])
    (quantized,) = d.node("QuantizeLinear", [x, *pair])
    (real,) = d.node("DequantizeLinear", [quantized, *pair])
    kind = d.among(("Conv", "Add", "Mul", "MaxPool", "Relu", "Sigmoid", "AveragePool"))
    if kind == "Conv":
        channels = d.values[x].shape[1]
        outputs = d.number(1, 3)
        weights = d.constant(d.rng.integers(-127, 128, (outputs, channels, 2, 2)).astype(np.int8))
        scales = d.constant((d.rng.integers(1, 9, outputs) / 512).astype(np.float32))
        zeros = d.constant(np.zeros(outputs, np.int8))
        (w,) = d.node("DequantizeLinear", [weights, scales, zeros], axis=0)
        made = d.node("Conv", [real, w])
    elif kind in ("MaxPool", "AveragePool"):
        made = d.node(kind, [real], kernel_shape=[2, 2])
    elif kind in ("Add", "Mul"):
        made = d.node(kind, [real, real])
    else:
        made = d.node(kind, [real])
    pair = _scale_of(d, d.values[made[0]])
    d.exact.add(made[0])
    (quantized,) = d.node("QuantizeLinear", [made[0], *pair])
    scale = float(d.values[pair[0]])
    (out,) = d.node("DequantizeLinear", [quantized, *pair])
    # A layer on integers rounds what a layer on floats rounds twice.
    d.slack.update({real: 0.0, made[0]: 0.0, quantized: 1.0, out: 1.01 * scale})


#: By how much a float of a type may be off, relative to the largest element of its tensor.
BOUNDS = {"float16": 6e-3, "float32": 1e-4, "float64": 1e-6}


def mismatches(drawn: Drawn, outputs: Mapping[str, Array]) -> list[str]:
    """Return what is said of each output that is not what ``onnx.reference`` computes."""
    makers = {name: node.op_type for node in drawn.model.graph.node for name in node.output}
    found = []
    for name, expected in drawn.expected.items():
        output = np.asarray(outputs[name])
        said = f"{name} ({makers[name]})"
        if (output.shape, output.dtype) != (expected.shape, expected.dtype):
            found.append(f"{said} is {output.dtype}{list(output.shape)}")
            continue
        right = (output == expected) | ((output != output) & (expected != expected))
        if expected.dtype != np.bool_:
            a, b = output.astype(np.float64), expected.astype(np.float64)
            bound = drawn.slack.get(name, 0.0)
            if expected.dtype.kind == "f":
                bound += BOUNDS[expected.dtype.name] * np.abs(b[np.isfinite(b)]).max(initial=1.0)
            if bound:
                with np.errstate(invalid="ignore"):
                    right |= np.abs(a - b) <= bound
        if not right.all():
            place = tuple(np.argwhere(~right)[0])
            found.append(f"{said} has {output[place]} where {expected[place]} should be")
    return found


def random_model(seed: int, operators: Sequence[str] = ()) -> Drawn:
    """Return the random model of a seed; ``operators`` are those that it may draw."""
    rng = np.random.default_rng((seed, 15))
    newest = onnx.defs.onnx_opset_version()
    opset = newest if rng.random() < 0.3 else int(rng.integers(OLDEST, newest + 1))
    draft = Draft(rng, opset)
    names = sorted(operators or FAMILIES)
    wanted = draft.number(2, 9)
    for _ in range(200):
        op = draft.among(names)
        before = (len(draft.nodes), set(draft.values))
        try:
            FAMILIES[op](draft, op)
        except NotDrawnError:
            _undo(draft, *before)
        if len(draft.nodes) >= wanted:
            break
    return draft.model()


def _undo(draft: Draft, nodes: int, names: set[str]) -> None:
    del draft.nodes[nodes:]
    for name in draft.values.keys() - names:
        for table in (draft.values, draft.inputs, draft.initializers, draft.slack):
            table.pop(name, None)
        draft.exact.discard(name)
