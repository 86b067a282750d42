"""Checks of operators on their operands; each raises an error that names the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from hilc.errors import ElementTypeError, ModelError, UnsupportedError
from hilc.ir import ELEMENT_TYPES, Array, Node, Numerics, Rounding, Tensor
from hilc.ir.dtypes import INDEX_TYPES
from hilc.numerics.requantize import (
    LEAST_SHIFT,
    LEAST_WIDE_SHIFT,
    SUMS,
    FixedPoint,
    activation_range,
    quantize_multiplier,
)
from hilc.ops.attributes import ActivationAttributes

#: The types that arithmetic operators compute in: those that are multiplied with weights.
ARITHMETIC = tuple(name for name, row in ELEMENT_TYPES.items() if row.weights)

#: Scales from here to its inverse stay finite, and above zero, in single precision arithmetic.
LEAST_SCALE = 1e-30

#: Largest left shift of an int32 in the reference; C leaves 31 bits and more undefined.
_MOST_SHIFT = 30


#: The remedy for scales that a model states and no converter would choose.
_CHECK_SCALES = "check the quantization of the model; convert it again with representative data"


def invalid(node: Node, what: str, hint: str = "") -> NoReturn:
    """Reject ``node``; ``what`` continues a sentence whose subject is the layer."""
    raise ModelError(f"{_layer(node)} {what}", hint)


def unsupported(node: Node, what: str, hint: str = "") -> NoReturn:
    """Refuse ``node``, valid though it may be, as :func:`invalid` does."""
    raise UnsupportedError(f"{_layer(node)} {what}", hint)


def require_rounding(node: Node, sums: str) -> None:
    """Reject a rounding policy that sums of this type do not have."""
    known = SUMS[sums].roundings
    if node.rounding not in known:
        supported = ", ".join(policy.value for policy in Rounding if policy in known)
        unsupported(
            node,
            f"does not support rounding {node.rounding.value!r} of {sums} sums "
            f"(supported: {supported})",
            "state a policy of these on the node",
        )


def undefined(node: Node, what: str) -> NoReturn:
    """Raise UnsupportedError for scales whose arithmetic overflows, in the reference too."""
    unsupported(node, what, f"no reference defines this; {_CHECK_SCALES}")


def require_tflm(node: Node, what: str) -> None:
    """Refuse a node that is to be computed by a definition that the other reference alone has."""
    if node.numerics is not Numerics.TFLM:
        unsupported(
            node,
            f"{what}, which is supported as TensorFlow Lite Micro does it",
            "compile with the reference tflm",
        )


def _layer(node: Node) -> str:
    return repr(node.outputs[0]) if node.outputs else node.op


def require_counts(node: Node, inputs: int | tuple[int, int], outputs: int = 1) -> None:
    """Check how many inputs (a number, or the least and the most) and outputs ``node`` has."""
    least, most = (inputs, inputs) if isinstance(inputs, int) else inputs
    if not least <= len(node.inputs) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        invalid(node, f"has {len(node.inputs)} inputs, not {wanted}")
    if len(node.outputs) != outputs:
        invalid(node, f"has {len(node.outputs)} outputs, not {outputs}")


def operand(node: Node, ins: Sequence[Tensor | None], index: int) -> Tensor:
    """Return input ``index``, which must be there."""
    tensor = ins[index] if index < len(ins) else None
    if tensor is None:
        invalid(node, f"lacks its input {index}")
    return tensor


def require_dtype(node: Node, tensor: Tensor, allowed: Sequence[str] = ARITHMETIC) -> None:
    """Refuse a tensor of a type outside ``allowed``."""
    if tensor.dtype not in allowed:
        raise ElementTypeError(
            f"{_layer(node)}: {node.op} does not support {tensor.dtype} input {tensor.name!r} "
            f"(supported: {', '.join(allowed)})",
            "convert the model with activations of a supported type",
            tensor.dtype,
            allowed,
        )


def quantization(node: Node, tensor: Tensor) -> tuple[float, int]:
    """Return scale and zero point of a tensor that is quantized as a whole."""
    quant = tensor.quant
    if quant is None or not tensor.element.may_have_scale:
        invalid(
            node,
            f"takes {tensor.name!r}, of type {tensor.dtype}, without quantization (a scale and a "
            "zero point)",
            "export the model with full integer quantization",
        )
    if not quant.per_tensor:
        unsupported(
            node,
            f"takes {tensor.name!r} with {len(quant.scale)} scales; activations have one",
            "only weights may be quantized per channel; quantize activations per tensor",
        )
    if not LEAST_SCALE <= quant.scale[0] <= 1 / LEAST_SCALE:
        invalid(
            node,
            f"takes {tensor.name!r} with scale {quant.scale[0]}, out of range "
            f"({LEAST_SCALE:g} to {1 / LEAST_SCALE:g})",
            _CHECK_SCALES,
        )
    low, high = tensor.element.bounds
    if not low <= quant.zero_point[0] <= high:
        invalid(
            node,
            f"takes {tensor.name!r} with zero point {quant.zero_point[0]}, out of range of "
            f"{tensor.dtype} ({low} to {high})",
            _CHECK_SCALES,
        )
    return quant.scale[0], quant.zero_point[0]


def require_symmetric(node: Node, tensor: Tensor) -> None:
    """Refuse a zero point that an operator does not compute on for the tensor's type."""
    zero_point = quantization(node, tensor)[1]
    if has_no_zero_point(node, tensor) and zero_point:
        unsupported(
            node,
            f"takes {tensor.name!r}, of type {tensor.dtype}, with zero point {zero_point} "
            "(supported: 0)",
            f"quantize {tensor.dtype} symmetrically, as the TFLite quantization scheme asks",
        )


def has_no_zero_point(node: Node, tensor: Tensor) -> bool:
    """Return whether an operator takes the zero point 0 only, as TensorFlow Lite's do."""
    return tensor.element.symmetric and node.rounding is not Rounding.NEAREST_EVEN


def require_same_quantization(node: Node, tensor: Tensor, other: Tensor) -> None:
    """Raise if two tensors have different quantizations, for operators that copy elements.

    What a tensor without quantization means, nothing says.
    """
    if tensor.quant is None or other.quant is None:
        return
    if quantization(node, tensor) != quantization(node, other):
        unsupported(
            node,
            f"takes {tensor.name!r} and gives {other.name!r}, whose quantizations differ; "
            f"{node.op} does not requantize",
            "give both the same scale and zero point, as the converter does",
        )


def constant_ints(node: Node, tensor: Tensor) -> tuple[int, ...]:
    """Return the values of a constant index operand: a scalar or a vector of integers."""
    if tensor.dtype not in INDEX_TYPES or len(tensor.shape) > 1:
        invalid(
            node,
            f"takes {tensor.name!r}, {tensor.dtype}{list(tensor.shape)}, for a list of integers",
        )
    if tensor.data is None:
        unsupported(
            node,
            f"takes {tensor.name!r}, which is only known at run time",
            "shapes are fixed at compile time: export the model with constant axes and shapes",
        )
    return tuple(int(value) for value in np.atleast_1d(tensor.data))


def constant_int(node: Node, tensor: Tensor) -> int:
    """Return the value of a constant index operand with one element."""
    values = constant_ints(node, tensor)
    if len(values) != 1:
        invalid(node, f"takes {tensor.name!r} with {len(values)} values for one integer")
    return values[0]


def constant_pairs(node: Node, tensor: Tensor, count: int, does: str) -> Array:
    """Return a constant operand with two numbers, not below zero, for each of ``count`` axes.

    ``does`` says what the operator does with them, for messages.
    """
    if tensor.dtype not in INDEX_TYPES or tensor.shape != (count, 2):
        invalid(node, f"{does} {count} axes by {tensor.dtype}{list(tensor.shape)}")
    if tensor.data is None:
        unsupported(
            node,
            f"{does} by {tensor.name!r}, which is only known at run time",
            "shapes are fixed at compile time: export the model with constant axes and shapes",
        )
    if tensor.data.min(initial=0) < 0 or tensor.data.max(initial=0) >= 1 << 31:
        invalid(node, f"{does} by {tensor.data.tolist()}")
    return tensor.data


def resolve_axis(node: Node, axis: int, rank: int) -> int:
    """Return ``axis`` counted from the front."""
    if not -rank <= axis < rank:
        invalid(node, f"has axis {axis} for {rank} dimensions")
    return axis % rank


_FLOAT32_MAX = float(np.finfo(np.float32).max)

#: Clamp of each fused activation on real numbers. The reference, too, ends at the largest number.
ACTIVATION_RANGES: Mapping[str, tuple[float, float]] = {
    "NONE": (-_FLOAT32_MAX, _FLOAT32_MAX),
    "RELU": (0.0, _FLOAT32_MAX),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def float_range(node: Node, activation: str) -> tuple[float, float]:
    """Return the range that an activation clamps floats to.

    TensorFlow's ends at the largest number where it is fused into an operator; as a layer of its
    own, and in ONNX, it has no end.
    """
    low, high = ACTIVATION_RANGES[activation]
    if node.numerics is Numerics.ONNX or node.op == activation:
        low = -np.inf if low == -_FLOAT32_MAX else low
        high = np.inf if high == _FLOAT32_MAX else high
    return low, high


def plain_clamp(node: Node, out: Tensor) -> tuple[float, float]:
    """Return the range of the fused activation for values without quantization."""
    low, high = out.element.low, out.element.high
    if out.element.is_real:
        low, high = float_range(node, "NONE")
    if isinstance(node.attrs, ActivationAttributes) and node.attrs.activation != "NONE":
        least, most = ACTIVATION_RANGES[node.attrs.activation]
        low, high = max(low, least), min(high, most)
    return low, high


def multiplier(
    node: Node, real: float, most_shift: int = _MOST_SHIFT, least_shift: int = LEAST_SHIFT
) -> FixedPoint:
    """Return the fixed-point form of a factor between scales, whose shift is ``most_shift`` at
    most.
    """
    if not np.isfinite(real):
        invalid(node, f"has scales whose ratio is {real}", _CHECK_SCALES)
    # From here on the multiplier is rounded up to the next power of two.
    if abs(real) >= 2.0**most_shift * (1 - 2.0**-32):
        undefined(
            node,
            f"has a factor of {real:g} from its input scales to its output scale; it must be less "
            f"than 2^{most_shift}",
        )
    return quantize_multiplier(real, least_shift)


def sum_multiplier(node: Node, real: float, sums: str) -> FixedPoint:
    """Return the fixed-point form of the factor of sums of a type."""
    is_wide = sums == "int64" and node.rounding is Rounding.NEAREST_EVEN
    least = LEAST_WIDE_SHIFT if is_wide else LEAST_SHIFT
    return multiplier(node, real, SUMS[sums].most_shift, least)


def output_clamp(node: Node, output: Tensor) -> tuple[int, int]:
    """Return the fused activation's range in the quantized domain of ``output``."""
    return activation_clamp(node, ActivationAttributes.of(node).activation, output)


def activation_clamp(node: Node, name: str, output: Tensor) -> tuple[int, int]:
    """Return the range of the activation ``name`` in the quantized domain of ``output``."""
    if name == "NONE" and output.quant is None:
        low, high = output.element.bounds
        return low, high
    scale, zero_point = quantization(node, output)
    with np.errstate(over="ignore"):
        largest = float(np.float32(6.0) / np.float32(scale))
    if largest >= 2**31:
        invalid(
            node,
            f"has output {output.name!r} with scale {scale}, out of range (above {6 / 2**31:.3g})",
            _CHECK_SCALES,
        )
    return activation_range(name, scale, zero_point, output.dtype)
