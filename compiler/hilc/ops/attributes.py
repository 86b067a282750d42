"""Attributes that several operators share, and what a field of attributes may hold.

An operator's attributes are a frozen dataclass, :class:`~hilc.ir.Attributes` or derived from it,
with a field for each; constant operands such as a new shape stay tensors, as in the file. Whoever
reads them asks the class: ``SoftmaxAttributes.of(node).beta``.

The type of a field is what it accepts: ``int`` (no bool), ``float`` (an int too), ``bool``,
``str``, another class, ``Literal``, ``tuple`` of such, and unions of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hilc.ir import Attributes

#: An activation that is fused into an operator: the range that its output is clamped to.
Activation = Literal["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]

#: Padding of an image under a sliding window (:mod:`hilc.ops.geometry`).
Padding = Literal["SAME", "VALID"] | tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class ActivationAttributes(Attributes):
    """Attributes of an operator that an activation may be fused into."""

    #: Activation that clamps the output.
    activation: Activation = "NONE"


@dataclass(frozen=True, kw_only=True)
class WindowAttributes(Attributes):
    """Attributes of an operator whose window slides over images."""

    #: Rows from one position of the window to the next, at least 1.
    stride_h: int
    #: Columns from one position of the window to the next, at least 1.
    stride_w: int
    #: Padding; as numbers: rows above and below the image, columns left and right of it.
    padding: Padding

    @property
    def dilations(self) -> tuple[int, int]:
        """Rows and columns from one tap of the window to the next."""
        return 1, 1


@dataclass(frozen=True, kw_only=True)
class ConvolutionAttributes(WindowAttributes, ActivationAttributes):
    """Attributes of CONV_2D and of other convolutions over images."""

    #: Rows from one tap of the filter to the next, at least 1.
    dilation_h: int = 1
    #: Columns from one tap of the filter to the next, at least 1.
    dilation_w: int = 1

    @property
    def dilations(self) -> tuple[int, int]:
        """Dilation along height and width, in elements."""
        return self.dilation_h, self.dilation_w


@dataclass(frozen=True, kw_only=True)
class ReductionAttributes(Attributes):
    """Attributes of an operator that makes one number of all along some axes."""

    #: The axes stay, with one element each.
    keep_dims: bool = False


def field_types(kind: type[Attributes]) -> dict[str, Any]:
    """Return the types of the fields of attributes, by name.

    :class:`TypeError` for a class that is no frozen dataclass of its own, or has a field of a type
    that no value can be checked against.

    Raise TypeError if the class is not a frozen dataclass, or a field's type cannot be checked.
    """
    parameters = vars(kind).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        raise TypeError(f"{kind.__name__} is not a dataclass with frozen=True")
    hints = get_type_hints(kind)
    types = {field.name: hints[field.name] for field in fields(kind)}
    for name, accepted in types.items():
        try:
            describe_type(accepted)
        except TypeError as error:
            raise TypeError(f"the field {name} of {kind.__name__} has {error}") from None
    return types


def describe_type(accepted: Any) -> str:
    """Return the values that a field of this type accepts, as text for messages.

    Raise TypeError for a type that values cannot be checked against.
    """
    arguments = get_args(accepted)
    match get_origin(accepted):
        case None if isinstance(accepted, type):
            return "None" if accepted is type(None) else accepted.__name__
        case origin if origin is Literal:
            return ", ".join(map(repr, arguments))
        case origin if origin in (Union, UnionType):
            return " or ".join(map(describe_type, arguments))
        case origin if origin is tuple and arguments[1:] == (...,):
            return f"tuple of {describe_type(arguments[0])}"
        case origin if origin is tuple:
            return f"tuple ({', '.join(map(describe_type, arguments))})"
    raise TypeError(f"the type {accepted}, which values cannot be checked against")


def accepts(accepted: Any, value: object) -> bool:
    """Return whether a field of this type accepts the value."""
    arguments = get_args(accepted)
    match get_origin(accepted):
        case origin if origin is Literal:
            return any(type(value) is type(word) and value == word for word in arguments)
        case origin if origin in (Union, UnionType):
            return any(accepts(argument, value) for argument in arguments)
        case origin if origin is tuple:
            if not isinstance(value, tuple):
                return False
            if arguments[1:] == (...,):
                return all(accepts(arguments[0], part) for part in value)
            return len(value) == len(arguments) and all(map(accepts, arguments, value))
    if accepted is int or accepted is float:
        numbers = int if accepted is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, accepted)
