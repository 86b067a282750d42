"""CONCATENATION, PACK and SPLIT: tensors of any type joined and cut along an axis.

Attributes: ``axis`` (CONCATENATION, PACK), ``activation`` (CONCATENATION: only "NONE"),
``values_count`` (PACK), ``num_splits`` (SPLIT). SPLIT takes the constant axis, then the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.lowering.kernels import KernelCall, kernels
from hilc.ops.opdef import OpDef, Signature, only
from hilc.ops.operands import (
    activation,
    constant_int,
    int_attribute,
    invalid,
    operand,
    require_counts,
    require_same_quantization,
    resolve_axis,
    unsupported,
)
from hilc.target import Cpu


def _parts(node: Node, ins: Sequence[Tensor | None]) -> list[Tensor]:
    """All inputs, which must be of one type and rank."""
    if not ins or len(node.outputs) != 1:
        invalid(node, f"joins {len(ins)} tensors into {len(node.outputs)}")
    parts = [operand(node, ins, i) for i in range(len(ins))]
    first = parts[0]
    for part in parts:
        if part.dtype != first.dtype or len(part.shape) != len(first.shape):
            invalid(
                node,
                f"joins {first.dtype}{list(first.shape)} and {part.dtype}{list(part.shape)}",
            )
    return parts


def _check_parts(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    for part in _parts(node, ins):
        require_same_quantization(node, part, outs[0])


def _join(node: Node, parts: Sequence[Tensor], axis: int) -> KernelCall:
    """The call that takes from each part in turn what lies together from ``axis`` on."""
    itemsize = np.dtype(parts[0].dtype).itemsize
    blocks = [prod(part.shape[axis:]) * itemsize for part in parts]
    return KernelCall(
        kernels()["hil_join"],
        {
            "rows": prod(parts[0].shape[:axis]),
            "parts": len(parts),
            "blocks": np.array(blocks, np.int32),
        },
        tuple(range(len(parts))),
    )


# CONCATENATION ----------------------------------------------------------------------------------


def _concatenation_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    return resolve_axis(node, int_attribute(node, "axis"), len(operand(node, ins, 0).shape))


def _infer_concatenation(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    parts = _parts(node, ins)
    axis = _concatenation_axis(node, ins)
    if activation(node) != "NONE":
        unsupported(
            node,
            f"has the fused activation {activation(node)}",
            "put the activation behind it as an operator of its own",
        )
    shape = list(parts[0].shape)
    for part in parts:
        if any(n != m for i, (n, m) in enumerate(zip(part.shape, shape, strict=True)) if i != axis):
            invalid(node, f"joins {shape} and {list(part.shape)} along axis {axis}")
    shape[axis] = sum(part.shape[axis] for part in parts)
    return [(tuple(shape), parts[0].dtype)]


def _concatenation(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    arrays = [x for x in values if x is not None]
    return [np.concatenate(arrays, _concatenation_axis(node, ins))]


def _emit_concatenation(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> KernelCall:
    return _join(node, _parts(node, ins), _concatenation_axis(node, ins))


# PACK -------------------------------------------------------------------------------------------


def _pack_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    return resolve_axis(node, int_attribute(node, "axis"), len(operand(node, ins, 0).shape) + 1)


def _infer_pack(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    parts = _parts(node, ins)
    axis = _pack_axis(node, ins)
    shape = parts[0].shape
    for part in parts:
        if part.shape != shape:
            invalid(node, f"packs {list(shape)} and {list(part.shape)}")
    if node.attrs.get("values_count", len(parts)) != len(parts):
        invalid(node, f"packs {len(parts)} tensors and states {node.attrs['values_count']}")
    return [((*shape[:axis], len(parts), *shape[axis:]), parts[0].dtype)]


def _pack(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    return [np.stack([x for x in values if x is not None], _pack_axis(node, ins))]


def _emit_pack(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> KernelCall:
    return _join(node, _parts(node, ins), _pack_axis(node, ins))


# SPLIT ------------------------------------------------------------------------------------------


def _split_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    return resolve_axis(
        node, constant_int(node, operand(node, ins, 0)), len(operand(node, ins, 1).shape)
    )


def _infer_split(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    count = int_attribute(node, "num_splits")
    if count < 1:
        invalid(node, f"splits into {count} parts")
    require_counts(node, inputs=2, outputs=count)
    x = operand(node, ins, 1)
    axis = _split_axis(node, ins)
    if x.shape[axis] % count:
        invalid(node, f"splits {x.shape[axis]} elements along axis {axis} into {count} parts")
    part = (*x.shape[:axis], x.shape[axis] // count, *x.shape[axis + 1 :])
    return [(part, x.dtype)] * count


def _split(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[1]
    assert x is not None
    parts = np.split(x, len(outs), _split_axis(node, ins))
    return [np.ascontiguousarray(part) for part in parts]


def _emit_split(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> KernelCall:
    axis = _split_axis(node, ins)
    block = prod(outs[0].shape[axis:]) * np.dtype(outs[0].dtype).itemsize
    rows = prod(outs[0].shape[:axis])
    return KernelCall(
        kernels()["hil_split"], {"rows": rows, "parts": len(outs), "block": block}, (1,)
    )


CONCATENATION = OpDef(
    _infer_concatenation,
    _concatenation,
    only(_emit_concatenation),
    check=_check_parts,
    ignores_empty=True,
)
PACK = OpDef(_infer_pack, _pack, only(_emit_pack), check=_check_parts)
SPLIT = OpDef(_infer_split, _split, only(_emit_split))
