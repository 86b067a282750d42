"""Linear layers on cores that multiply pairs of half-words (``kernels/dsp``): when, and how packed.

Each function here gives the kernel call of a layer, or None where the family does not serve it and
the portable kernel must. What the kernels ask for, and what is checked here for each layer:

* two columns of weights share half-words, ``256 * w1 + w0``, which must fit 16 bits;
* sums stay below 2**23, so that 256 times a sum comes out of 32 bits;
* every shift is to the right.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hilc.cpu import Cpu
from hilc.ir import Array
from hilc.kernels import FieldValue, KernelCall, kernels

#: Elements of depth that a kernel takes at a time, in the order in which they are widened.
_UNIT = 4
_UNIT_ORDER = (0, 2, 1, 3)
#: Rows below which a kernel for single rows is better than one for three at a time.
_FEW_ROWS = 3
_SUM_LIMIT = 2**23
#: The largest shift to the right: beyond it, every sum becomes 0.
_MAX_SHIFT = 23

Fields = dict[str, FieldValue]


def serves(cpu: Cpu) -> bool:
    """Whether the family is the best for the core."""
    return "dsp" in cpu.features and "mve" not in cpu.features


def matmul(rows: int, columns: Array, channel_fields: Fields, macs: int) -> KernelCall | None:
    """``rows`` rows times ``columns [channels, depth]``."""
    few = rows < _FEW_ROWS
    packed = _packed(columns, channel_fields, block=4 if few else 2)
    if packed is None:
        return None
    fields: Fields = {"rows": rows, "depth": columns.shape[1], "columns": columns.shape[0]}
    kernel = kernels()["hil_dsp_matvec_s8" if few else "hil_dsp_matmul_s8"]
    return KernelCall(kernel, {**fields, **packed}, macs=macs)


def conv2d(window: Fields, columns: Array, channel_fields: Fields, macs: int) -> KernelCall | None:
    """A convolution of which each filter is one of ``columns [channels, depth]``."""
    packed = _packed(columns, channel_fields, block=2)
    if packed is None:
        return None
    fields: Fields = {**window, "out_c": columns.shape[0], **packed}
    return KernelCall(kernels()["hil_dsp_conv2d_s8"], fields, macs=macs)


def _packed(columns: Array, channel_fields: Fields, block: int) -> Fields | None:
    """The fields that describe the columns, in blocks of ``block``; None where they do not fit."""
    requant = _right_shifts(columns, channel_fields)
    weights = _pairs(columns, block)
    if requant is None or weights is None:
        return None
    bias = channel_fields["bias"]
    assert isinstance(bias, np.ndarray)
    first, second = _padded(bias.astype(np.int64), block).reshape(-1, 2).T
    pairs = np.stack([first, (first + 256 * second)], axis=1).reshape(-1)
    per_channel = channel_fields["per_channel"]
    mantissas, shifts = (_padded(r, block) if per_channel else r for r in requant)
    return {
        "units": -(-columns.shape[1] // _UNIT),
        **{k: channel_fields[k] for k in ("out_zero_point", "out_min", "out_max", "per_channel")},
        "bias": pairs.astype(np.int32),
        "multipliers": mantissas,
        "shifts": shifts,
        "weights": weights,
    }


def _right_shifts(
    columns: Array, channel_fields: Fields
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]] | None:
    """Mantissas, and shifts to the right less one; None where these rules do not hold.

    With sums below 2**23, a channel that shifts by more than that gives 0 whatever it is fed, as
    does one without a factor.
    """
    bias, mantissas, shifts = (channel_fields[k] for k in ("bias", "multipliers", "shifts"))
    assert isinstance(bias, np.ndarray)
    assert isinstance(mantissas, np.ndarray)
    assert isinstance(shifts, np.ndarray)
    magnitudes = np.abs(columns.astype(np.int64)).sum(axis=1)
    bound = int((np.abs(bias.astype(np.int64)) + 128 * magnitudes).max())
    if bound >= _SUM_LIMIT or shifts.max() >= 0:
        return None
    right = -shifts.astype(np.int64)
    dead = right > _MAX_SHIFT
    return (
        np.where(dead, 0, mantissas).astype(np.int32),
        np.where(dead, 0, right - 1).astype(np.int8),
    )


def _padded(values: Array, block: int) -> Array:
    """``values`` along the first axis, with zeros up to a whole number of blocks."""
    return np.pad(values, [(0, -len(values) % block)] + [(0, 0)] * (values.ndim - 1))


def _pairs(columns: Array, block: int) -> npt.NDArray[np.int16] | None:
    """Weights as ``kernels/dsp/columns_s8.h`` lays them out; None where a pair needs 17 bits."""
    depth = columns.shape[1]
    whole = np.pad(_padded(columns.astype(np.int32), block), ((0, 0), (0, -depth % _UNIT)))
    pairs = 256 * whole[1::2] + whole[::2]
    if pairs.min() < np.iinfo(np.int16).min:
        return None
    units = pairs.reshape(-1, block // 2, whole.shape[1] // _UNIT, _UNIT)[..., _UNIT_ORDER]
    return np.ascontiguousarray(units.transpose(0, 2, 1, 3)).reshape(-1).astype(np.int16)
