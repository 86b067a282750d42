"""Filter banks on spectra, of TensorFlow Lite Micro's signal library: custom operators.

SIGNAL_FILTER_BANK adds the energies of frequencies up to channels, which
SIGNAL_FILTER_BANK_SQUARE_ROOT makes magnitudes, SIGNAL_PCAN amplifies by the noise of each, and
SIGNAL_FILTER_BANK_LOG takes the logarithms of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_counts, require_dtype, unsupported

#: ``log2(1 + i / 128) - i / 128`` in Q16; the last entry is there twice.
_SEGMENTS = np.arange(128) / 128
LOGARITHMS: npt.NDArray[np.int16] = np.append(
    np.floor((np.log2(1 + _SEGMENTS) - _SEGMENTS) * (1 << 16) + 0.5), [0, 0]
).astype(np.int16)
#: ln(2) in Q16.
LOG_COEFFICIENT = 45426
#: Entries of the table of gains: two for small numbers, four for each number of bits above.
GAINS = 125


@dataclass(frozen=True, kw_only=True)
class FilterBankAttributes(Attributes):
    """Attributes of SIGNAL_FILTER_BANK."""

    #: Channels of the output.
    num_channels: int


@dataclass(frozen=True, kw_only=True)
class LogAttributes(Attributes):
    """Attributes of SIGNAL_FILTER_BANK_LOG."""

    #: Left shift of the inputs, in bits, 0 to 31.
    input_correction_bits: int
    #: Output value of a logarithm of 1.
    output_scale: int


@dataclass(frozen=True, kw_only=True)
class PcanAttributes(Attributes):
    """Attributes of SIGNAL_PCAN."""

    #: Right shift of products with gains, in bits, 0 to 63.
    snr_shift: int


class Bank(NamedTuple):
    """The constants of a filter bank."""

    weights: Array
    unweights: Array
    frequency_starts: Array
    weight_starts: Array
    widths: Array


def _require_row(node: Node, tensor: Tensor, dtype: str) -> None:
    require_dtype(node, tensor, (dtype,))
    if len(tensor.shape) != 1:
        invalid(node, f"takes {tensor.name!r} of shape {list(tensor.shape)}, not one row")


def _constant(node: Node, ins: Sequence[Tensor | None], index: int) -> Array:
    tensor = operand(node, ins, index)
    _require_row(node, tensor, "int16")
    if tensor.data is None:
        unsupported(
            node,
            f"takes {tensor.name!r}, which is only known at run time",
            "its tables must be constants of the model",
        )
    return tensor.data


def bank(node: Node, ins: Sequence[Tensor | None]) -> Bank:
    """Return the constants of a filter bank, checked."""
    require_counts(node, inputs=6)
    x = operand(node, ins, 0)
    _require_row(node, x, "uint32")
    found = Bank(*(_constant(node, ins, index) for index in range(1, 6)))
    count = FilterBankAttributes.of(node).num_channels + 1
    ranges = (found.frequency_starts, found.weight_starts, found.widths)
    if count < 2 or any(each.size < count for each in ranges):
        invalid(
            node,
            f"has {count - 1} channels, with {[each.size for each in ranges]} starts of "
            "frequencies, starts of weights and widths; each is one more",
        )
    widths = found.widths[:count].astype(np.int64)
    sizes = (x.shape[0], min(found.weights.size, found.unweights.size))
    for starts, size, what in zip(ranges[:2], sizes, ("frequencies", "weights"), strict=True):
        begins = starts[:count].astype(np.int64)
        used = widths > 0
        if (begins[used] < 0).any() or (begins + widths)[used].max(initial=0) > size:
            invalid(node, f"has a channel that takes {what} beyond the {size} that there are")
    return found


def _infer_bank(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    bank(node, ins)
    return [((FilterBankAttributes.of(node).num_channels,), "uint64")]


def _bank(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    tables, x = bank(node, ins), values[0]
    assert x is not None
    energies = x.astype(np.uint64)
    # Negative weights are what they are modulo 2^64.
    weights, unweights = (
        each.astype(np.int64).astype(np.uint64) for each in (tables.weights, tables.unweights)
    )
    results, carried = [], np.uint64(0)
    for i in range(outs[0].shape[0] + 1):
        width = max(0, int(tables.widths[i]))
        heard = energies[tables.frequency_starts[i] :][:width]
        begin = tables.weight_starts[i]
        results.append(np.append(heard * weights[begin:][:width], carried).sum(dtype=np.uint64))
        carried = (heard * unweights[begin:][:width]).sum(dtype=np.uint64)
    return [np.array(results[1:], np.uint64)]


def _infer_square_root(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x, shift = operand(node, ins, 0), operand(node, ins, 1)
    _require_row(node, x, "uint64")
    require_dtype(node, shift, ("int32",))
    if shift.size != 1:
        invalid(node, f"takes {shift.name!r} with {shift.size} values for one number of bits")
    return [(x.shape, "uint32")]


def _square_root(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, shift = values
    assert x is not None
    assert shift is not None
    roots = [_rounded_root(int(value)) for value in x]
    # As processors of 32 bits shift.
    return [np.array(roots, np.uint32) >> np.uint32(int(shift.reshape(-1)[0]) & 31)]


def _rounded_root(value: int) -> int:
    """Return the square root, rounded to the nearest that 16 or 32 bits hold."""
    bits = 16 if value < 1 << 32 else 32
    root, rest = 0, value
    for bit in reversed(range(bits)):
        step = (root << (bit + 1)) + (1 << (2 * bit))
        if rest >= step:
            rest -= step
            root += 1 << bit
    return min(root + (rest > root), (1 << bits) - 1)


def _infer_log(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    _require_row(node, x, "uint32")
    bits = LogAttributes.of(node).input_correction_bits
    if not 0 <= bits <= 31:
        invalid(node, f"has {bits} input_correction_bits (accepted: 0 to 31)")
    return [(x.shape, "int16")]


def _log(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    attributes, (x,) = LogAttributes.of(node), values
    assert x is not None
    mask = (1 << 32) - 1
    raised = (x.astype(np.int64) << attributes.input_correction_bits) & mask
    exponents = np.frexp(raised.astype(np.float64))[1] - 1
    exponents = np.maximum(exponents, 0)
    rest = raised - (np.int64(1) << exponents)
    fraction = np.where(
        exponents < 16, rest << np.maximum(16 - exponents, 0), rest >> np.maximum(exponents - 16, 0)
    )
    segment = np.maximum(fraction, 0) >> 9
    table = LOGARITHMS.astype(np.int64)
    slope = table[segment + 1] - table[segment]
    fraction = fraction + table[segment] + (slope * (fraction - (segment << 9)) >> 16)
    natural = ((exponents << 16) + fraction) * LOG_COEFFICIENT + (1 << 15) >> 16
    scaled = ((attributes.output_scale & mask) * natural + (1 << 15) & mask) >> 16
    largest = outs[0].element.bounds[1]
    return [np.where(raised > 1, np.minimum(scaled, largest), 0).astype(outs[0].dtype)]


def gains(node: Node, ins: Sequence[Tensor | None]) -> Array:
    """Return the table of gains, checked: no interpolation step exceeds 32 bits."""
    table = _constant(node, ins, 2)
    if table.size < GAINS:
        invalid(node, f"has a table of {table.size} gains, of which {GAINS} are read")
    entries = table[2:122].astype(np.int64).reshape(-1, 4)
    fraction = np.arange(1 << 10)
    sums = (entries[:, 2:3] * fraction >> 5) + (entries[:, 1:2] << 5)
    if (np.abs(sums * fraction) + (1 << 14)).max() > (1 << 31) - 1:
        unsupported(
            node,
            "has a table of gains whose interpolation leaves 32 bits",
            "no reference defines this; make the table as the signal library does",
        )
    return table


def _infer_pcan(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=3)
    x, noise = operand(node, ins, 0), operand(node, ins, 1)
    for tensor in (x, noise):
        _require_row(node, tensor, "uint32")
    if x.shape != noise.shape:
        invalid(node, f"has {x.shape[0]} channels, with the noise of {noise.shape[0]}")
    gains(node, ins)
    shift = PcanAttributes.of(node).snr_shift
    if not 0 <= shift <= 63:
        invalid(node, f"has snr_shift {shift} (accepted: 0 to 63)")
    return [(x.shape, x.dtype)]


def _pcan(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, noise, _ = values
    assert x is not None
    assert noise is not None
    table = gains(node, ins).astype(np.int64)
    level = noise.astype(np.int64)
    bits = np.frexp(level.astype(np.float64))[1].astype(np.int64)
    entry = np.where(level <= 2, 0, 4 * bits - 6)
    shifted = np.where(
        bits < 11, level << np.maximum(11 - bits, 0), level >> np.maximum(bits - 11, 0)
    )
    fraction = shifted & 0x3FF
    sums = (table[entry + 2] * fraction >> 5) + (table[entry + 1] << 5)
    curve = (sums * fraction + (1 << 14) >> 15) + table[entry]
    found = np.where(level <= 2, table[np.minimum(level, 2)], curve)
    gain = found.astype(np.int16).astype(np.int64).astype(np.uint32).astype(np.uint64)
    product = x.astype(np.uint64) * gain >> np.uint64(PcanAttributes.of(node).snr_shift)
    ratio = product.astype(np.uint32)
    low = ratio * ratio >> np.uint32(20)
    return [np.where(ratio < 2 << 12, low, (ratio >> np.uint32(6)) - np.uint32(64))]


SIGNAL_FILTER_BANK = OpDef(_infer_bank, _bank, attributes=FilterBankAttributes)
SIGNAL_FILTER_BANK_SQUARE_ROOT = OpDef(_infer_square_root, _square_root)
SIGNAL_FILTER_BANK_LOG = OpDef(_infer_log, _log, attributes=LogAttributes)
SIGNAL_PCAN = OpDef(_infer_pcan, _pcan, attributes=PcanAttributes)

OPERATORS: Mapping[str, OpDef] = {
    "SIGNAL_FILTER_BANK": SIGNAL_FILTER_BANK,
    "SIGNAL_FILTER_BANK_SQUARE_ROOT": SIGNAL_FILTER_BANK_SQUARE_ROOT,
    "SIGNAL_FILTER_BANK_LOG": SIGNAL_FILTER_BANK_LOG,
    "SIGNAL_PCAN": SIGNAL_PCAN,
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "SIGNAL_FILTER_BANK": {"uint32"},
    "SIGNAL_FILTER_BANK_SQUARE_ROOT": {"uint64"},
    "SIGNAL_FILTER_BANK_LOG": {"uint32"},
    "SIGNAL_PCAN": {"uint32"},
}
