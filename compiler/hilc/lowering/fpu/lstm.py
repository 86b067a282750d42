"""LSTMs of float32: the gates of all units are the columns of a vector's product."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.lowering.fpu.products import is_finite, packed_matrix
from hilc.lowering.kernels import KernelCall
from hilc.lowering.lstm import TENSORS, float_clip, float_columns, lstm_shape
from hilc.lowering.parameters import HilFpuLstmF32, HilMveLstmF32
from hilc.lowering.registry import Layer, lowers

#: Columns next to each other for one row.
_EIGHT = 8


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"float32"}, requires={"dsp", "fpu"})
def floats(layer: Layer) -> Iterator[KernelCall]:
    """Yield the kernel of float32; none if a weight or a bias is infinite or a NaN."""
    if all(is_finite(weights) for weights in float_columns(layer)):
        yield float_lstm(layer, HilFpuLstmF32, _EIGHT)


def float_lstm(
    layer: Layer, kind: type[HilFpuLstmF32] | type[HilMveLstmF32], block: int
) -> KernelCall:
    """Return the kernel of a family whose columns are packed in blocks."""
    shape, macs = lstm_shape(layer)
    in_stream, hidden_stream = (packed_matrix(each, block, 0) for each in float_columns(layer))
    parameters = kind(
        lstm=shape,
        clip=float_clip(layer),
        in_stream=in_stream,
        hidden_stream=hidden_stream,
    )
    return KernelCall(parameters, TENSORS, macs)
