"""One ONNX node, as its translator sees it, and the table of translators.

A translator is a function of one node. It asks for operands, attributes and constants, emits nodes
of the intermediate representation, and returns the tensors that are the node's outputs::

    @translates("Relu")
    def relu(n: Operation) -> Tensor:
        return n.emit("RELU", n.input(0))

Shapes and types of what it emits follow from the operator's definition. A node of the intermediate
representation whose inputs are all constant is evaluated at once, by the operator's own reference:
so a shape that the model computes from other shapes is known where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import helper

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends.onnx.builder import Builder, array_of, dtype_name
from hilc.frontends.onnx.storage import FLOAT32_BIAS, STORED, StoredFloat, StoredInteger
from hilc.ir import Array, Attributes, Node, Quant, Rounding, Tensor
from hilc.ops import OPS, doubles
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.cast import CastAttributes
from hilc.ops.doubles import PREFIX as DOUBLE
from hilc.ops.doubles import DoubleCastAttributes
from hilc.ops.gather import GatherAttributes
from hilc.ops.verify import check_tensor
from hilc.ops.views import BitCastAttributes, ReshapeAttributes

#: Result of a translator: the node's outputs in order; None for one that must not be read.
Outputs = Tensor | Sequence[Tensor | None]
Translator = Callable[["Operation"], Outputs]

#: Operators that move or choose elements of any type, besides those whose definition says so.
_MOVING = ("BROADCAST_TO", "IF", "WHILE")

_TRANSLATORS: dict[tuple[str, str], Translator] = {}

#: The name of ONNX's own set of operators.
DEFAULT_DOMAIN = ""
#: The entry of a node's metadata with the line of the user's code that made the node.
SOURCE = "hil.source"
#: The name of onnxruntime's own operators.
MICROSOFT = "com.microsoft"


def translates(*types: str, domain: str = DEFAULT_DOMAIN) -> Callable[[Translator], Translator]:
    """Register a translator of the operators ``types`` of a domain, in every version."""

    def register(translator: Translator) -> Translator:
        for name in types:
            assert (domain, name) not in _TRANSLATORS, f"{name} has two translators"
            _TRANSLATORS[domain, name] = translator
        return translator

    return register


def translator_of(domain: str, name: str) -> Translator | None:
    """Return the translator of an operator; None where there is none."""
    return _TRANSLATORS.get((domain, name))


def translated() -> list[str]:
    """Return the names of the operators of ONNX's own domain that have a translator."""
    return sorted(name for domain, name in _TRANSLATORS if domain == DEFAULT_DOMAIN)


def is_real(x: Tensor) -> bool:
    """Return whether the elements are floats, as an operator computes them: float16 is widened."""
    return x.element.is_real


class UnknownOperandError(UnsupportedError):
    """An operand must be known when the model is compiled, and depends on inputs of the model."""

    def __init__(self, fact: str, hint: str = "", inputs: Iterable[str] = ()) -> None:
        super().__init__(fact, hint)
        #: The inputs that it depends on.
        self.inputs = frozenset(inputs)


class Operation:
    """A node of an ONNX model, with the queries and operators that its translator uses."""

    def __init__(
        self,
        proto: onnx.NodeProto,
        inputs: Sequence[Tensor | None],
        builder: Builder,
        version: int,
        scope: Any = None,
    ) -> None:
        self.type: str = proto.op_type
        self.inputs = list(inputs)
        self.builder = builder
        #: The first opset with the operator as this model means it.
        self.version = version
        #: The scope of the node, for translators of nodes with graphs of their own.
        self.scope = scope
        self._proto = proto
        self.output_names: list[str] = list(proto.output)
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    @property
    def names(self) -> list[str]:
        """The names of the node's outputs, and its own."""
        return [name for name in (*self._proto.output, self._proto.name) if name]

    def inside(self, scope: Any) -> Operation:
        """Return this node as it adds nodes to a graph that it calls, which is that of a scope."""
        return Operation(self._proto, [], scope.builder, self.version, scope)

    # Operands -------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of inputs that the node lists."""
        return len(self.inputs)

    def has(self, index: int) -> bool:
        """Return whether the node has the input ``index``."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Tensor:
        """Return the input ``index``; refuse a node without it."""
        tensor = self.optional(index)
        if tensor is None:
            raise ModelError(f"it lacks its input {index}")
        return tensor

    def optional(self, index: int) -> Tensor | None:
        """Return the input ``index``; None where the node does not have it."""
        return self.inputs[index] if index < len(self.inputs) else None

    def known(self, index: int, what: str = "") -> Array:
        """Return the value of an operand that must be constant; ``what`` names it in the error."""
        return self.known_value(self.input(index), what)

    def known_value(self, tensor: Tensor, what: str = "") -> Array:
        """Return the value of a tensor that must be known now.

        Raise UnknownOperandError if it is only known at run time.
        """
        if tensor.data is not None:
            return tensor.data
        inputs = self.builder.depends_on(tensor)
        named = ", ".join(f"--constant {name}=FILE.npy" for name in sorted(inputs))
        values = ", ".join(f"{name!r}: array" for name in sorted(inputs))
        raise UnknownOperandError(
            f"{what or 'an operand'}, {tensor.name!r}, is only known at run time; the compiler "
            "must know it",
            f"state it: {named}, in Python inputs={{{values}}}"
            if inputs
            else "export the model with a constant there",
            inputs,
        )

    def known_ints(self, index: int, what: str = "") -> tuple[int, ...]:
        """Return the values of a known operand of integers: a number, or a list."""
        return tuple(int(value) for value in np.atleast_1d(self.known(index, what)).ravel())

    def known_int(self, index: int, what: str = "") -> int:
        """Return the value of a known operand that is one integer."""
        values = self.known_ints(index, what)
        if len(values) != 1:
            self.invalid(f"takes one number for {what or 'an operand'}, and has {len(values)}")
        return values[0]

    def known_float(self, index: int, what: str = "") -> float:
        """Return the value of a known operand that is one number."""
        value = self.known(index, what)
        if value.size != 1:
            self.invalid(f"takes one number for {what or 'an operand'}, and has {value.size}")
        return float(value.reshape(()))

    # Attributes -----------------------------------------------------------------------------------

    def has_attribute(self, name: str) -> bool:
        """Return whether the node states the attribute."""
        return name in self._attributes

    def _attribute(self, name: str, default: Any) -> Any:
        attribute = self._attributes.get(name)
        return default if attribute is None else helper.get_attribute_value(attribute)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; refuse a node without it where there is no default."""
        return int(self._required(name, default))

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return an attribute that lists integers."""
        return tuple(int(value) for value in self._required(name, default))

    def counts(self, name: str, count: int, default: int | None = None) -> tuple[int, ...]:
        """Return an attribute of ``count`` integers of at least 1, all ``default`` where it is
        not stated.
        """
        values = self.integers(name, None if default is None else (default,) * count)
        if len(values) != count or min(values, default=1) < 1:
            self.invalid(f"has {name} {list(values)}", f"{count} numbers of 1 or more are accepted")
        return values

    def stated(self, *names: str) -> dict[str, Any]:
        """Return those of the attributes that the node states, to be passed on."""
        return {name: self._attribute(name, None) for name in names if self.has_attribute(name)}

    def number(self, name: str, default: float | None = None) -> float:
        """Return a float attribute."""
        return float(self._required(name, default))

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """Return an attribute that lists floats."""
        return tuple(float(value) for value in self._required(name, default))

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text attribute."""
        value = self._required(name, default)
        return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)

    def texts(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return an attribute that lists texts."""
        values = self._required(name, default)
        return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values)

    def array(self, name: str) -> Array | None:
        """Return the value of a tensor attribute; None where the node does not state it."""
        proto = self._attribute(name, None)
        return None if proto is None else array_of(proto)

    def graph(self, name: str) -> onnx.GraphProto:
        """Return a graph attribute."""
        graph: onnx.GraphProto = self._required(name, None)
        return graph

    def dtype(self, name: str, default: int | None = None) -> str:
        """Return the type that an attribute names; refuse one that the compiler does not have."""
        return dtype_name(self.integer(name, default))

    def _required(self, name: str, default: Any) -> Any:
        value = self._attribute(name, default)
        if value is None:
            raise ModelError(f"it lacks its attribute {name!r}")
        return value

    # Refusals -------------------------------------------------------------------------------------

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        """Raise UnsupportedError: ``what`` continues a sentence whose subject is the node."""
        raise UnsupportedError(f"it {what}", hint)

    def refuse_unknown(self, fact: str, hint: str, deciding: Iterable[Tensor | None]) -> NoReturn:
        """Raise UnknownOperandError for what depends on the values of tensors that are known only
        at run time.
        """
        depends = (self.builder.depends_on(tensor) for tensor in deciding if tensor is not None)
        raise UnknownOperandError(fact, hint, frozenset[str]().union(*depends))

    def invalid(self, what: str, hint: str = "") -> NoReturn:
        """Raise ModelError: ``what`` continues a sentence whose subject is the node."""
        raise ModelError(f"it {what}", hint)

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front."""
        if not -rank <= axis < rank:
            self.invalid(f"has the axis {axis} of {rank} dimensions")
        return axis % rank

    def check_size(self, shape: Sequence[int], dtype: str) -> None:
        """Raise unless a tensor of this shape may exist: to be asked before one is made."""
        if min(shape, default=0) < 0:
            self.invalid(f"makes a tensor of shape {list(shape)}", "sizes are 0 or more")
        check_tensor(Tensor(self._base, tuple(shape), dtype))

    # What it makes --------------------------------------------------------------------------------

    def emit(
        self,
        op: str,
        *inputs: Tensor | None,
        attrs: Attributes | None = None,
        quant: Quant | None = None,
        rounding: Rounding = Rounding.DOUBLE,
    ) -> Tensor:
        """Add a node with one output, and return that."""
        (output,) = self.emit_all(op, inputs, 1, attrs, [quant], rounding)
        return output

    def emit_all(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        outputs: int,
        attrs: Attributes | None = None,
        quants: Sequence[Quant | None] | None = None,
        rounding: Rounding = Rounding.DOUBLE,
    ) -> list[Tensor]:
        """Add a node with several outputs, and return those."""
        if any(x is not None and x.dtype == "float64" for x in inputs):
            op, attrs = self._of_doubles(op, attrs)
        names = [self.builder.fresh(self._base) for _ in range(outputs)]
        node = Node(
            op,
            tuple("" if tensor is None else tensor.name for tensor in inputs),
            tuple(names),
            attrs or Attributes(),
            rounding=rounding,
        )
        return self.builder.add(node, inputs, quants or [None] * outputs)

    def _of_doubles(self, op: str, attrs: Attributes | None) -> tuple[str, Attributes | None]:
        """Return the operator that does the same to float64, which those of TensorFlow Lite do not
        take unless they move elements only.
        """
        twin = f"{DOUBLE}{op}"
        if twin in doubles.OPERATORS:
            # Nothing here states an activation beside ONNX's own operators.
            return twin, None if isinstance(attrs, ActivationAttributes) else attrs
        if op in doubles.OPERATORS or OPS[op].copies_elements or OPS[op].view or op in _MOVING:
            return op, attrs
        self.refuse("computes in double precision", "export the model in float32")

    @property
    def _base(self) -> str:
        return next(filter(None, self.output_names), self.type)

    def constant(self, value: Any, dtype: str | None = None, quant: Quant | None = None) -> Tensor:
        """Return a constant of the model."""
        array = np.asarray(value, None if dtype is None else np.dtype(dtype))
        return self.builder.constant(f"{self._base}:constant", array, quant)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return the tensor under another shape; itself where it has that."""
        if tuple(shape) == x.shape:
            return x
        attrs = ReshapeAttributes(new_shape=tuple(shape))
        if tuple(shape) == (0,) or not x.size or not shape:
            return self.builder.view(self._base, x, tuple(shape))
        return self.emit("RESHAPE", x, attrs=attrs, quant=x.quant)

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """Return the tensor with its axes in another order; itself where they keep theirs.

        Where only axes of one element change places, that is a RESHAPE.
        """
        order = tuple(permutation)
        if order == tuple(range(len(order))):
            return x
        moved = [axis for axis in order if x.shape[axis] != 1]
        if moved == sorted(moved):
            return self.reshape(x, [x.shape[axis] for axis in order])
        back = self.builder.transposed_back(x, order)
        if back is not None:
            return back
        return self.emit("TRANSPOSE", x, self.constant(order, "int32"), quant=x.quant)

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """Return a tensor cast to another type; the tensor itself if it has that type."""
        if x.dtype == dtype:
            return x
        if (x.dtype, dtype) == ("float64", "float16"):
            self.refuse("casts float64 to float16", "by way of float32 it would be rounded twice")
        if "float16" in (x.dtype, dtype) and "float32" not in (x.dtype, dtype):
            x = self.cast(x, "float32")
        if "float64" in (x.dtype, dtype):
            return self.emit("DOUBLE_CAST", x, attrs=DoubleCastAttributes(dtype=dtype))
        return self.emit("CAST", x, attrs=CastAttributes(dtype=dtype))

    def cast_to(self, x: Tensor, code: int, *, saturate: bool = True) -> Tensor:
        """Return a tensor cast to the ONNX type with a number.

        With ``saturate`` a float beyond the range of a narrow float type becomes its largest value,
        otherwise infinity or NaN.
        """
        kind, target = self.builder.kind(x), STORED.get(code)
        if kind is not None and kind is target:
            return x
        if isinstance(kind, StoredFloat):
            x = self.as_float(x)
        if target is None:
            return self.cast(x, dtype_name(code))
        if isinstance(target, StoredFloat):
            return self.narrowed(self.cast(x, "float32"), target, saturate=saturate)
        return self._narrow_integer(x, target)

    def _narrow_integer(self, x: Tensor, target: StoredInteger) -> Tensor:
        """Return the lowest bits of integers; floats lose their fraction before."""
        wide = self.cast(x, "int32")
        places = self.constant(32 - target.bits, "int32")
        if target.dtype[0] == "u":
            mask = self.constant(target.bounds[1], "int32")
            lowest = self.emit("INTEGER_AND", wide, mask)
        else:
            raised = self.emit("INTEGER_SHIFT_LEFT", wide, places)
            lowest = self.emit("INTEGER_SHIFT_RIGHT", raised, places)
        return self.builder.named(self.cast(lowest, target.dtype), target)

    def bit_cast(self, x: Tensor, dtype: str) -> Tensor:
        """Return the bits reinterpreted as another type."""
        return self.emit("BIT_CAST", x, attrs=BitCastAttributes(dtype=dtype))

    def as_float(self, x: Tensor) -> Tensor:
        """Return float32 for narrow floats."""
        kind = self.builder.kind(x)
        if not isinstance(kind, StoredFloat):
            return self.cast(x, "float32")
        if x.data is not None:
            return self.constant(kind.values[x.data])
        if kind.is_cut_off:
            raised = self.emit(
                "INTEGER_SHIFT_LEFT", self.cast(x, "uint32"), self.constant(16, "uint32")
            )
            return self.bit_cast(raised, "float32")
        places = self.cast(self.reshape(x, (x.size,)), "int32")
        table = self.constant(kind.values.reshape(-1, 1))
        rows = self.emit("GATHER", table, places, attrs=GatherAttributes())
        return self.reshape(rows, x.shape)

    def narrowed(self, x: Tensor, kind: StoredFloat, *, saturate: bool = True) -> Tensor:
        """Return the bits of float32 rounded to a narrower type, ties to even.

        Above the least normal number the bits of a float32 are rounded where the fraction ends;
        below it a number is a multiple of the least one.
        """

        def number(value: int) -> Tensor:
            return self.constant(value, "uint32")

        def of(op: str, a: Tensor, b: Tensor) -> Tensor:
            return self.emit(f"INTEGER_{op}", a, b)

        bits = self.bit_cast(x, "uint32")
        magnitude = of("AND", bits, number(0x7FFFFFFF))
        dropped = 23 - kind.fraction
        odd = of("AND", of("SHIFT_RIGHT", magnitude, number(dropped)), number(1))
        rounded = of("ADD", of("ADD", magnitude, odd), number((1 << (dropped - 1)) - 1))
        code = of("SHIFT_RIGHT", rounded, number(dropped))
        if not kind.is_cut_off:
            code = of("SUB", code, number((FLOAT32_BIAS - kind.bias) << kind.fraction))
            least = 2.0 ** (1 - kind.bias)
            steps = self.emit(
                "MUL",
                self.emit("ABS", x),
                self.constant(2.0 ** (kind.fraction - 1 + kind.bias), "float32"),
                attrs=ActivationAttributes(),
            )
            small = self.emit("LESS", self.emit("ABS", x), self.constant(least, "float32"))
            near = self.emit("SELECT_V2", small, steps, self.constant(0, "float32"))
            multiple = self.cast(self.emit("ROUND", near), "uint32")
            code = self.emit("SELECT_V2", small, multiple, code)
        code = self._ended(code, magnitude, kind, saturate=saturate)
        sign = of("SHIFT_RIGHT", of("AND", bits, number(1 << 31)), number(32 - kind.bits))
        signed = of("OR", code, sign)
        if kind.one_zero:
            zero = self.emit("INTEGER_EQUAL", code, number(0))
            signed = self.emit("SELECT_V2", zero, code, signed)
        none = of("LESS", number(0x7F800000), magnitude)
        with_sign = number(kind.nan) if kind.one_zero else of("OR", number(kind.nan), sign)
        signed = self.emit("SELECT_V2", none, with_sign, signed)
        if kind.one_zero and not saturate:
            beyond = of("LESS", number(kind.largest), code)
            signed = self.emit("SELECT_V2", beyond, number(kind.nan), signed)
        return self.builder.named(self.cast(signed, kind.dtype), kind)

    def _ended(
        self, code: Tensor, magnitude: Tensor, kind: StoredFloat, *, saturate: bool
    ) -> Tensor:
        """Return the bits of magnitudes; those beyond the largest value saturate or become infinity
        or NaN.
        """
        if kind.is_cut_off:
            # What is beyond has become infinity.
            return code
        if saturate:
            largest = self.constant(kind.largest, "uint32")
            return self.emit("INTEGER_MIN", code, largest)
        end = kind.largest + 1 if kind.one_zero else (kind.infinity or kind.nan)
        return self.emit("INTEGER_MIN", code, self.constant(end, "uint32"))

    def single(self, kind: str, *inputs: Tensor | None, **attributes: Any) -> Tensor:
        """Translate another ONNX operator, as :meth:`run` does, and return its first output."""
        return self.run(kind, inputs, **attributes)[0]

    def run(self, kind: str, inputs: Sequence[Tensor | None], **attributes: Any) -> list[Tensor]:
        """Translate another ONNX operator on these operands, as if it stood here.

        One that the model's opset does not have yet is that of the newest.
        """
        scope = self.scope
        if not onnx.defs.has(kind, scope.opset, DEFAULT_DOMAIN):
            newest = onnx.defs.onnx_opset_version()
            scope = replace(scope, opsets={**scope.opsets, DEFAULT_DOMAIN: newest})
        schema = onnx.defs.get_schema(kind, scope.opset, DEFAULT_DOMAIN)
        proto = helper.make_node(
            kind,
            [tensor.name if tensor is not None else "" for tensor in inputs],
            [f"{self._base}:{i}" for i in range(schema.min_output)],
            **attributes,
        )
        results: list[Tensor] = scope.translate(proto, list(inputs))
        return results
