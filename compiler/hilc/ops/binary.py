"""ADD, SUB and MUL of two tensors, either of which may be broadcast to the other's shape.

Attributes: ``activation`` (fused, "NONE" by default).

int8 ADD and SUB bring both operands to twice the larger input scale with 20 extra bits, add, and
requantise the sum: three roundings. MUL requantises the product of the offset values once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.lowering import armv7m, dsp, families, helium
from hilc.lowering.kernels import FieldValue, KernelCall, kernels
from hilc.numerics.requantize import Multiplier, requantize
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    ACTIVATION_RANGES,
    activation,
    invalid,
    multiplier,
    operand,
    output_clamp,
    quantization,
    require_counts,
    require_dtype,
    undefined,
    unsupported,
)
from hilc.ops.strides import broadcast_strides, nest, walk_fields
from hilc.target import Cpu

#: Bits by which int8 operands of a sum are raised before they are brought to one scale.
_SUM_HEADROOM_BITS = 20
#: What the reference broadcasts at most.
_MAX_RANK = 6


class _SumScales(NamedTuple):
    a: Multiplier
    b: Multiplier
    out: Multiplier


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    a, b = operand(node, ins, 0), operand(node, ins, 1)
    require_dtype(node, a)
    if a.dtype != b.dtype:
        invalid(node, f"works on {a.dtype} and {b.dtype}")
    if a.dtype == "int8":
        quantization(node, a)
        quantization(node, b)
    activation(node)
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        invalid(node, f"has operands of shapes {list(a.shape)} and {list(b.shape)}")
    if len(shape) > _MAX_RANK and a.shape != b.shape:
        unsupported(node, f"broadcasts to {len(shape)} dimensions", f"{_MAX_RANK} are supported")
    return [(shape, a.dtype)]


def _operand_scale(node: Node, real: float) -> Multiplier:
    """The factor of an operand of a sum; its shift is 0 for one half and nothing else."""
    mantissa, shift = multiplier(node, real)
    return Multiplier(mantissa, shift if mantissa else -1)


def _sum_scales(node: Node, a: Tensor, b: Tensor, out: Tensor) -> _SumScales:
    a_scale, b_scale = quantization(node, a)[0], quantization(node, b)[0]
    out_scale = quantization(node, out)[0]
    common = 2 * max(a_scale, b_scale)
    scales = _SumScales(
        _operand_scale(node, a_scale / common),
        _operand_scale(node, b_scale / common),
        multiplier(node, common / ((1 << _SUM_HEADROOM_BITS) * out_scale)),
    )
    if scales.out.shift > 0:
        undefined(
            node,
            f"has output scale {out_scale}, more than 2^19 times finer than its inputs'",
        )
    return scales


def _product_scale(node: Node, a: Tensor, b: Tensor, out: Tensor) -> Multiplier:
    # In single precision, from left to right: the mantissa depends on it.
    a_scale, b_scale, out_scale = (np.float32(quantization(node, t)[0]) for t in (a, b, out))
    with np.errstate(all="ignore"):
        scale = multiplier(node, float(a_scale * b_scale / out_scale))
    # Products have 16 bits; what is raised by more than 14 leaves 31 bits.
    if scale.shift > 14:
        undefined(
            node,
            f"has output scale {out_scale}, more than 2^14 times finer than its product's",
        )
    return scale


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    a, b, out = operand(node, ins, 0), operand(node, ins, 1), outs[0]
    if out.dtype == "int8":
        output_clamp(node, out)
        (_product_scale if node.op == "MUL" else _sum_scales)(node, a, b, out)


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    a, b, out = operand(node, ins, 0), operand(node, ins, 1), outs[0]
    x, y = values
    assert x is not None
    assert y is not None
    if out.dtype == "float32":
        combine = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}[node.op]
        least, most = map(np.float32, ACTIVATION_RANGES[activation(node)])
        return [np.minimum(np.maximum(combine(x, y), least), most)]
    offset_x = x.astype(np.int64) - quantization(node, a)[1]
    offset_y = y.astype(np.int64) - quantization(node, b)[1]
    if node.op == "MUL":
        result = requantize(offset_x * offset_y, *_product_scale(node, a, b, out))
    else:
        scales = _sum_scales(node, a, b, out)
        scaled_x = requantize(offset_x << _SUM_HEADROOM_BITS, *scales.a)
        scaled_y = requantize(offset_y << _SUM_HEADROOM_BITS, *scales.b)
        total = scaled_x - scaled_y if node.op == "SUB" else scaled_x + scaled_y
        result = requantize(total, *scales.out)
    low, high = output_clamp(node, out)
    return [np.clip(result + quantization(node, out)[1], low, high).astype(np.int8)]


def _emit(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> list[KernelCall]:
    a, b, out = operand(node, ins, 0), operand(node, ins, 1), outs[0]
    fast: list[KernelCall] = []
    int8_alike = node.op != "MUL" and a.dtype == "int8" and a.shape == b.shape
    if int8_alike and (dsp.serves(cpu) or armv7m.serves(cpu)):
        fast += families.listed(_emit_dsp_sum(node, a, b, out))
        if node.op == "ADD" and dsp.serves(cpu):
            fast += families.listed(_emit_dsp_add(node, a, b, out))
    *outer, inner = nest(
        out.shape, broadcast_strides(a.shape, out.shape), broadcast_strides(b.shape, out.shape)
    )
    fields: dict[str, FieldValue] = {
        **walk_fields(node, outer, ("a", "b")),
        "length": inner.count,
        "a_step": inner.steps[0],
        "b_step": inner.steps[1],
    }
    if out.dtype == "float32":
        low, high = ACTIVATION_RANGES[activation(node)]
        name = f"hil_{node.op.lower()}_f32"
        return [KernelCall(kernels()[name], {**fields, "low": low, "high": high}, (0, 1))]
    low_q, high_q = output_clamp(node, out)
    fields |= {
        "a_zero_point": quantization(node, a)[1],
        "b_zero_point": quantization(node, b)[1],
        "out_zero_point": quantization(node, out)[1],
        "low": low_q,
        "high": high_q,
    }
    if node.op == "MUL":
        mantissa, shift = _product_scale(node, a, b, out)
        fields |= {"mantissa": mantissa, "shift": shift}
        return [KernelCall(kernels()["hil_mul_s8"], fields, (0, 1))]
    for operand_name, scale in zip("ab", _sum_scales(node, a, b, out)[:2], strict=True):
        fields |= {f"{operand_name}_mantissa": scale.mantissa, f"{operand_name}_shift": scale.shift}
    out_scale = _sum_scales(node, a, b, out).out
    fields |= {"out_mantissa": out_scale.mantissa, "out_shift": out_scale.shift}
    if helium.serves(cpu) and a.shape == b.shape and out_scale.shift < 0:
        fast += families.listed(helium.sum_of_two(out.size, node.op == "SUB", fields))
    return [*fast, KernelCall(kernels()[f"hil_{node.op.lower()}_s8"], fields, (0, 1))]


def _emit_dsp_sum(node: Node, a: Tensor, b: Tensor, out: Tensor) -> KernelCall | None:
    """The sum or difference of tensors of one shape by one formula for both."""
    if output_clamp(node, out) != (-128, 127):
        return None
    values = np.arange(-128, 128, dtype=np.int8)
    pairs = np.broadcast_arrays(values[:, np.newaxis], values)
    (expected,) = _reference(node, (a, b), (out,), pairs)
    first, second = (quantization(node, t)[0] / quantization(node, out)[0] for t in (a, b))
    factors = first, -second if node.op == "SUB" else second
    return dsp.sum_of_two(out.size, expected.astype(np.int64), factors)


def _emit_dsp_add(node: Node, a: Tensor, b: Tensor, out: Tensor) -> KernelCall | None:
    """The sum of tensors of one shape, one operand scaled by a table, the other by a shift."""
    scales = _sum_scales(node, a, b, out)
    right = -scales.out.shift
    # The larger scale's factor is one half; where both have it, either may be in the table.
    swapped = scales.a.shift < 0
    if (scales.b if swapped else scales.a).shift != 0 or not 1 <= right <= dsp.MAX_SHIFT:
        return None
    plain, scaled, scale = (b, a, scales.a) if swapped else (a, b, scales.b)
    values = np.arange(-128, 128) - quantization(node, scaled)[1]
    parts = requantize(values << _SUM_HEADROOM_BITS, *scale)
    parts -= quantization(node, plain)[1] << (_SUM_HEADROOM_BITS - 1)
    low, high = output_clamp(node, out)
    fields: dict[str, FieldValue] = {
        "length": out.size,
        "swapped": int(swapped),
        "mantissa": scales.out.mantissa,
        "shift": right - 1,
        "out_zero_point": quantization(node, out)[1],
        "low": low,
        "high": high,
        "table": (2 * parts).astype(np.int32),
    }
    return KernelCall(kernels()["hil_dsp_add_s8"], fields, (0, 1))


BINARY = OpDef(_infer, _reference, _emit, check=_check)
