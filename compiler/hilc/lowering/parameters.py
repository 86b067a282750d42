"""The parameters of the kernels.

Written by ``python tools/parameters.py`` from the structs in the C headers.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hilc.lowering.kernels import FieldGroup, Parameters
from hilc.lowering.records import record


@record(frozen=True, eq=False, kw_only=True)
class HilImages(FieldGroup):
    """The fields of ``HIL_IMAGES_FIELDS``."""

    #: images
    batch: int
    #: rows of an input image
    in_h: int
    #: columns of an input image
    in_w: int
    #: channels of an input pixel
    in_c: int
    #: rows of an output image
    out_h: int
    #: columns of an output image
    out_w: int


@record(frozen=True, eq=False, kw_only=True)
class HilWindow(FieldGroup):
    """The fields of ``HIL_WINDOW_FIELDS``."""

    #: rows of the filter
    filter_h: int
    #: columns of the filter
    filter_w: int
    #: input rows from a window to the one below it
    stride_h: int
    #: input columns from a window to the next
    stride_w: int
    #: input rows from a row of the filter to the next; 1: neighbours
    dilation_h: int
    #: input columns from a column of the filter to the next
    dilation_w: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int


@record(frozen=True, eq=False, kw_only=True)
class HilOutputRange(FieldGroup):
    """The fields of ``HIL_OUTPUT_RANGE_FIELDS``."""

    #: the output that stands for 0.0
    out_zero_point: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int


@record(frozen=True, eq=False, kw_only=True)
class HilCompact(FieldGroup):
    """The fields of ``HIL_COMPACT_FIELDS``."""

    #: the input that stands for 0.0
    in_zero_point: int
    output_range: HilOutputRange
    #: how sums are rounded: HIL_ROUND_TWICE and others (quant.h)
    narrow: int
    #: whether a channel has 8 bytes of scales, not 6
    wide: int
    #: of each channel, as the model has them
    weights: npt.NDArray[np.int8]
    #: multiplier, shift and bias of each channel
    scales: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilPoolWindows(FieldGroup):
    """The fields of ``HIL_POOL_WINDOWS_FIELDS``."""

    #: images
    batches: int
    #: rows of an input image
    in_h: int
    #: columns of an input image
    in_w: int
    #: of each pixel
    channels: int
    #: rows of an output image
    out_h: int
    #: columns of an output image
    out_w: int
    #: rows of a window
    filter_h: int
    #: columns of a window
    filter_w: int
    #: input rows from a window to the one below it
    stride_h: int
    #: input columns from a window to the next
    stride_w: int


@record(frozen=True, eq=False, kw_only=True)
class HilBatchMatmul(FieldGroup):
    """The fields of ``HIL_BATCH_MATMUL_FIELDS``."""

    #: pairs of matrices
    batches: int
    #: turns of the loops over the pairs
    counts: tuple[int, ...]
    #: by which the first matrix moves as each of them advances
    a_jumps: tuple[int, ...]
    #: by which the second one does
    b_jumps: tuple[int, ...]
    #: of the first matrix, and of the product
    rows: int
    #: elements of a row, products of a sum
    depth: int
    #: of the second matrix, and of the product
    columns: int
    #: from a row of the first matrix to the next
    a_row: int
    #: from one element of its rows to the next
    a_step: int
    #: from a column of the second matrix to the next
    b_column: int
    #: from one element of its columns to the next
    b_step: int


@record(frozen=True, eq=False, kw_only=True)
class HilBinary(FieldGroup):
    """The fields of ``HIL_BINARY_FIELDS``."""

    #: innermost loops of `length` elements
    rows: int
    #: turns of the loops around them
    counts: tuple[int, ...]
    #: by which the first operand moves as each loop advances
    a_jumps: tuple[int, ...]
    #: the same of the second operand
    b_jumps: tuple[int, ...]
    #: elements of an innermost loop
    length: int
    #: from one of the first operand's elements to the next; 0: one for all
    a_step: int
    #: the same of the second operand
    b_step: int


@record(frozen=True, eq=False, kw_only=True)
class HilSumS16(FieldGroup):
    """The fields of ``HIL_SUM_S16_FIELDS``."""

    binary: HilBinary
    #: of the first operand, in Q0.31
    a_multiplier: int
    #: of its product, to the left; below 0 to the right
    a_shift: int
    #: of the second operand, in Q0.31
    b_multiplier: int
    #: of its product, to the left; below 0 to the right
    b_shift: int
    #: of their sum, in Q0.31
    out_multiplier: int
    #: of its product, to the left; below 0 to the right
    out_shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspPairs(FieldGroup):
    """The fields of ``HIL_DSP_PAIRS_FIELDS``."""

    #: rows at a time, 2 or 3
    group: int
    #: whether weights are wide
    wide: int
    #: whether negative sums lack something
    signs: int
    #: to the right, of all columns; 0 where each has its own
    shift: int
    #: of each pair of columns in turn: biases, weights, scales
    stream: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilDspRange(FieldGroup):
    """The fields of ``HIL_DSP_RANGE_FIELDS``."""

    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspColumnsS16(FieldGroup):
    """The fields of ``HIL_DSP_COLUMNS_S16_FIELDS``."""

    #: of four elements, the depth rounded up
    units: int
    #: of the weights
    columns: int
    #: of rows at a time, an even number
    group: int
    #: 1: weights of 16 bits, 0: of 8
    wide: int
    #: 1: outputs have an addend and a shift, 0: they have neither
    shifted: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: of pairs of columns, as drawn above
    stream: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilLstm(FieldGroup):
    """The fields of ``HIL_LSTM_FIELDS``."""

    #: sequences
    batch: int
    #: inputs of a sequence
    steps: int
    #: 1: steps are the outermost axis of inputs and outputs, 0: sequences
    time_major: int
    #: elements of an input
    depth: int
    #: elements of an output, and of each state of a sequence
    units: int


@record(frozen=True, eq=False, kw_only=True)
class HilLstmCell(FieldGroup):
    """The fields of ``HIL_LSTM_CELL_FIELDS``."""

    #: of forget gate times cell state
    forget_multiplier: int
    #: to the left; below 0 to the right
    forget_shift: int
    #: of input gate times cell gate
    update_multiplier: int
    #: to the left; below 0 to the right
    update_shift: int
    #: of output gate times the tangent of the cell state
    out_multiplier: int
    #: to the left; below 0 to the right
    out_shift: int
    #: of the hidden state
    out_zero_point: int
    #: the largest magnitude of the cell state
    clip: int
    #: from the cell state to the table
    tanh_multiplier: int
    #: of the product, to the right
    tanh_shift: int
    #: of the logistic function less one half, from -256 steps to 256
    table: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilDspLstm(FieldGroup):
    """The fields of ``HIL_DSP_LSTM_FIELDS``."""

    lstm: HilLstm
    lstm_cell: HilLstmCell
    #: of four elements of an input
    in_units: int
    #: of four elements of a hidden state
    hidden_units: int
    #: from sums of inputs to Q3.12
    in_multipliers: tuple[int, ...]
    #: from sums of hidden states to Q3.12
    hidden_multipliers: tuple[int, ...]
    #: of each unit: biases and weights of inputs, and of hidden states
    stream: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilPool(FieldGroup):
    """The fields of ``HIL_POOL_FIELDS``."""

    pool_windows: HilPoolWindows
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int


@record(frozen=True, eq=False, kw_only=True)
class HilSvdf(FieldGroup):
    """The fields of ``HIL_SVDF_FIELDS``."""

    #: inputs
    batch: int
    #: elements of an input
    depth: int
    #: elements of an output
    units: int
    #: filters of a unit
    rank: int
    #: features that a filter keeps
    memory: int


@record(frozen=True, eq=False, kw_only=True)
class HilSvdfScales(FieldGroup):
    """The fields of ``HIL_SVDF_SCALES_FIELDS``."""

    #: from sums to features
    feature_multiplier: int
    #: to the left; below 0 to the right
    feature_shift: int
    #: from sums to outputs
    out_multiplier: int
    #: to the left; below 0 to the right
    out_shift: int
    #: of features
    state_zero_point: int
    #: of outputs
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspSvdf(FieldGroup):
    """The fields of ``HIL_DSP_SVDF_FIELDS``."""

    svdf: HilSvdf
    svdf_scales: HilSvdfScales
    #: of four units of depth
    groups: int
    #: of four filters each: biases and weights, as matvec_s8.h packs them
    stream: npt.NDArray[np.int32]
    #: of units, with what zero points of features add
    bias: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilPhases(FieldGroup):
    """The fields of ``HIL_PHASES_FIELDS``."""

    images: HilImages
    #: channels of the output
    out_c: int
    #: rows of the whole filter
    filter_h: int
    #: columns of the whole filter
    filter_w: int
    #: output rows from one of a phase to the next
    stride_h: int
    #: output columns from one of a phase to the next
    stride_w: int
    #: phases
    count: int
    #: HIL_PHASE_WORDS each
    phases: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilFpuColumnsF32(FieldGroup):
    """The fields of ``HIL_FPU_COLUMNS_F32_FIELDS``."""

    #: of two elements, the depth rounded up
    units: int
    #: of the weights
    columns: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of fours of columns, as drawn above
    stream: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilAccumulateS8(FieldGroup):
    """The fields of ``HIL_ACCUMULATE_S8_FIELDS``."""

    #: the input that stands for 0.0
    in_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of a raised sum, in Q0.31
    multiplier: int
    #: of that product, to the left; 0 or less
    shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilCumsum(FieldGroup):
    """The fields of ``HIL_CUMSUM_FIELDS``."""

    #: blocks around the axis
    outer: int
    #: of the axis
    length: int
    #: elements from one along the axis to the next
    inner: int
    #: 1: a sum leaves the element at its place out
    exclusive: int
    #: 1: the sums begin at the end
    reverse: int


@record(frozen=True, eq=False, kw_only=True)
class HilAverageRows(FieldGroup):
    """The fields of ``HIL_AVERAGE_ROWS_FIELDS``."""

    #: of this call
    rows: int
    #: 1: the image begins with them
    first: int
    #: 1: it ends with them
    last: int
    #: of the whole image
    height: int
    #: columns of an input image
    in_w: int
    #: of each pixel
    channels: int
    #: columns of an output image
    out_w: int
    #: columns of the filter
    filter_w: int
    #: input columns from a window to the next
    stride_w: int
    #: columns by which the first window reaches beyond the image
    pad_left: int


@record(frozen=True, eq=False, kw_only=True)
class HilMeanRows(FieldGroup):
    """The fields of ``HIL_MEAN_ROWS_FIELDS``."""

    #: 1: the image begins with these rows
    first: int
    #: 1: it ends with them
    last: int
    #: of this call
    pixels: int
    #: of each pixel
    channels: int


@record(frozen=True, eq=False, kw_only=True)
class HilSumS8(FieldGroup):
    """The fields of ``HIL_SUM_S8_FIELDS``."""

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: of the first operand, in Q0.31, to twice the larger scale
    a_multiplier: int
    #: of that product, to the left; 0 for a factor of one half, below 0 for others
    a_shift: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: of the second operand, in Q0.31
    b_multiplier: int
    #: of that product, as a_shift
    b_shift: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the sum, in Q0.31
    out_multiplier: int
    #: of that product, to the left; below 0 to the right
    out_shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilBinaryF32(FieldGroup):
    """The fields of ``HIL_BINARY_F32_FIELDS``."""

    binary: HilBinary
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilBucketize(FieldGroup):
    """The fields of ``HIL_BUCKETIZE_FIELDS``."""

    #: elements
    size: int
    #: boundaries
    count: int
    #: ascending
    boundaries: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilRequantization(FieldGroup):
    """The fields of ``HIL_REQUANTIZATION_FIELDS``."""

    output_range: HilOutputRange
    #: 1: each output channel has a multiplier and a shift; 0: one for all
    per_channel: int
    #: how sums are rounded: HIL_ROUND_TWICE and others (quant.h)
    narrow: int
    #: of each output channel, the input's zero point folded in
    bias: npt.NDArray[np.int32]
    #: in Q0.31
    multipliers: npt.NDArray[np.int32]
    #: of the products, to the left; below 0 to the right
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilWideConv2d(FieldGroup):
    """The fields of ``HIL_WIDE_CONV2D_FIELDS``."""

    images: HilImages
    #: channels of the output
    out_c: int
    #: of channels; 1: each output sums over all of the input
    groups: int
    window: HilWindow
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: 1: each channel has a multiplier and a shift, 0: one for all
    per_channel: int
    #: [out_c][filter_h][filter_w][in_c / groups]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDetection(FieldGroup):
    """The fields of ``HIL_DETECTION_FIELDS``."""

    #: that boxes are encoded by
    anchors: int
    #: numbers of an encoded box
    encoded: int
    #: scores of an anchor
    columns: int
    #: without the background, which is in front
    classes: int
    #: detections
    most: int
    #: of the outputs
    rows: int
    #: scores below this do not count
    score_threshold: float
    #: share of intersection in union above which a box is dropped
    overlap: float
    #: by which encodings were multiplied: of y, x, height and width
    scales: tuple[float, ...]


@record(frozen=True, eq=False, kw_only=True)
class HilMean(FieldGroup):
    """The fields of ``HIL_MEAN_FIELDS``."""

    #: of the output
    size: int
    #: turns of the loops over the outputs
    counts: tuple[int, ...]
    #: by which the input moves as each of them advances
    jumps: tuple[int, ...]
    #: of `length` values, averaged into one output
    rows: int
    #: turns of the loops over the rows of an output
    row_counts: tuple[int, ...]
    #: by which the input moves as each of those advances
    row_jumps: tuple[int, ...]
    #: values of a row
    length: int
    #: from one value of a row to the next
    step: int


@record(frozen=True, eq=False, kw_only=True)
class HilFourier(FieldGroup):
    """The fields of ``HIL_FOURIER_FIELDS``."""

    #: of samples, and of spectra
    rows: int
    #: that a row has; it is filled up with zeros
    samples: int
    #: samples that are transformed, a power of two
    length: int
    #: the number that each place of the steps begins with, or its place
    order: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilOneHot(FieldGroup):
    """The fields of ``HIL_ONE_HOT_FIELDS``."""

    #: of indices in front of the new axis
    rows: int
    #: elements of the new axis
    classes: int
    #: indices of a row
    columns: int
    #: bytes of an element
    item: int
    #: the element at an index
    on: npt.NDArray[np.uint8]
    #: all others
    off: npt.NDArray[np.uint8]


@record(frozen=True, eq=False, kw_only=True)
class HilLayerNorm(FieldGroup):
    """The fields of ``HIL_LAYER_NORM_FIELDS``."""

    #: that each are normalized by themselves
    rows: int
    #: elements of a row, below 2^16
    depth: int
    #: what is added to the squared deviation, in its units
    epsilon: float
    #: 1: less the mean; 0: less the zero point
    centered: int
    #: the input that stands for 0.0
    zero_point: int
    #: the output that does
    out_zero_point: int
    #: of each element of a row, in steps of the output
    factors: npt.NDArray[np.float32]
    #: to each element of a row, in steps of the output
    addends: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilRowsS16(FieldGroup):
    """The fields of ``HIL_ROWS_S16_FIELDS``."""

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: 1: each column has a multiplier and a shift; 0: one for all
    per_channel: int
    #: [columns][depth]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilNormalized(FieldGroup):
    """The fields of ``HIL_NORMALIZED_FIELDS``."""

    #: that each are normalized by themselves
    rows: int
    #: elements of a row
    depth: int


@record(frozen=True, eq=False, kw_only=True)
class HilRecurrent(FieldGroup):
    """The fields of ``HIL_RECURRENT_FIELDS``."""

    #: of a sequence
    steps: int
    #: sequences
    batch: int
    #: elements of a hidden state
    units: int
    #: [gates][units][units], of the hidden state
    weights: npt.NDArray[np.float32]
    #: [gates][units], of the hidden state
    bias: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilResize(FieldGroup):
    """The fields of ``HIL_RESIZE_FIELDS``."""

    #: of input and output
    images: int
    #: elements of an input image
    in_size: int
    #: rows of an output image
    out_h: int
    #: columns of an output image
    out_w: int
    #: of each pixel
    channels: int
    #: where the row above each output row begins in an input image
    above: npt.NDArray[np.int32]
    #: where the row below it begins
    below: npt.NDArray[np.int32]
    #: where the pixel to the left of each output column is in a row
    left: npt.NDArray[np.int32]
    #: where the pixel to the right is
    right: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilOverlap(FieldGroup):
    """The fields of ``HIL_OVERLAP_FIELDS``."""

    #: of frames
    rows: int
    #: of a row
    frames: int
    #: samples of a frame, and sums that a row remembers
    size: int
    #: samples from a frame to the next
    step: int


@record(frozen=True, eq=False, kw_only=True)
class HilSvdfS8(FieldGroup):
    """The fields of ``HIL_SVDF_S8_FIELDS``."""

    svdf_scales: HilSvdfScales
    #: of features, [filters][depth]
    weights: npt.NDArray[np.int8]
    #: of features: their sums for inputs of all zeros
    offsets: npt.NDArray[np.int32]
    #: of units, with what zero points of features add
    bias: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilTransposed(FieldGroup):
    """The fields of ``HIL_TRANSPOSED_FIELDS``."""

    images: HilImages
    #: channels of the output
    out_c: int
    #: rows of the filter
    filter_h: int
    #: columns of the filter
    filter_w: int
    #: output rows from a window to the one below it
    stride_h: int
    #: output columns from a window to the next
    stride_w: int
    #: rows by which the first window reaches above the output
    pad_top: int
    #: columns by which the first window reaches beyond the output
    pad_left: int


@record(frozen=True, eq=False, kw_only=True)
class HilSigmoidS16(FieldGroup):
    """The fields of ``HIL_SIGMOID_S16_FIELDS``."""

    #: elements
    size: int
    #: 2^15 at most
    multiplier: int
    #: to the right
    shift: int
    #: 256 steps
    table: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilMveColumnsF32(FieldGroup):
    """The fields of ``HIL_MVE_COLUMNS_F32_FIELDS``."""

    #: of two elements, the depth rounded up
    units: int
    #: of the weights
    columns: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of fours of columns, columns_f32.h draws it
    stream: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilMvePixels(FieldGroup):
    """The fields of ``HIL_MVE_PIXELS_FIELDS``."""

    #: of 16 weights, a column's depth rounded up; at most 8
    chunks: int
    #: outputs of a pixel
    columns: int
    #: 0: outputs have the whole range of int8, and what is below zero clamps; and HIL_MVE_ANY_ONCE
    #: where sums are rounded once
    any: int
    #: 1: where any is 0, products fit 16 bits and are narrowed before the shift
    first: int
    output_range: HilOutputRange
    #: the head draws it; columns of weights 0 fill the last 16
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMveColumnsS16(FieldGroup):
    """The fields of ``HIL_MVE_COLUMNS_S16_FIELDS``."""

    #: of eight weights, a column's depth rounded up
    chunks: int
    #: of the weights
    columns: int
    #: 1: outputs have a shift and a zero point, 0: neither
    shifted: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: blocks_s16.h draws it
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMveColumns(FieldGroup):
    """The fields of ``HIL_MVE_COLUMNS_FIELDS``."""

    #: of 16 weights, a column's depth rounded up
    chunks: int
    #: of columns
    pairs: int
    #: 1: one more column behind the pairs
    odd: int
    #: from a row's outputs to the next row's
    row_step: int
    #: from the first output of a pair to its second
    column_step: int
    #: 1: values below the zero point remain after the clamp; HIL_MVE_LINEAR_ONCE, _TIES: sums are
    #: rounded once
    linear: int
    output_range: HilOutputRange
    #: blocks_s8.h draws it; an odd column is a pair with itself
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMveLstm(FieldGroup):
    """The fields of ``HIL_MVE_LSTM_FIELDS``."""

    lstm: HilLstm
    lstm_cell: HilLstmCell
    #: of units, their number rounded up
    eights: int
    #: of 16 weights of an input, the depth rounded up
    in_chunks: int
    #: of 16 weights of a hidden state
    hidden_chunks: int
    #: of the gates of inputs, as wide_s8.h or blocks_s16.h draws it
    in_stream: npt.NDArray[np.int8]
    #: of the gates of hidden states
    hidden_stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMveSvdf(FieldGroup):
    """The fields of ``HIL_MVE_SVDF_FIELDS``."""

    svdf: HilSvdf
    svdf_scales: HilSvdfScales
    #: of 16 elements of an input, the depth rounded up
    chunks: int
    #: of filters, their number rounded up
    eights: int
    #: of the filters, as wide_s8.h draws it
    stream: npt.NDArray[np.int8]
    #: of units, with what zero points of features add
    bias: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilNarrowColumns(FieldGroup):
    """The fields of ``HIL_NARROW_COLUMNS_FIELDS``."""

    #: of the weights
    columns: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: in fours of columns, as fours.h draws them
    weights: npt.NDArray[np.uint8]
    #: of each column, in whole fours
    bias: npt.NDArray[np.int32]
    #: of positions outside the image
    in_zero_point: int
    #: 1: `words` make outputs, 0: `scales` do
    shifted: int
    #: of each column the multiplier and the shift to the right, 16 to 46
    scales: npt.NDArray[np.int16]
    #: of each column the multiplier, the addend and the shift behind it
    words: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilNarrowLstm(FieldGroup):
    """The fields of ``HIL_NARROW_LSTM_FIELDS``."""

    lstm: HilLstm
    lstm_cell: HilLstmCell
    #: from sums of inputs to Q3.12
    in_multipliers: tuple[int, ...]
    #: of the products with them
    in_shifts: tuple[int, ...]
    #: from sums of hidden states to Q3.12
    hidden_multipliers: tuple[int, ...]
    #: of the products with them
    hidden_shifts: tuple[int, ...]
    #: of each unit, as fours.h draws them
    in_weights: npt.NDArray[np.uint8]
    #: likewise
    hidden_weights: npt.NDArray[np.uint8]
    #: [units][gates]
    in_bias: npt.NDArray[np.int32]
    #: [units][gates]
    hidden_bias: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilV6mColumns(FieldGroup):
    """The fields of ``HIL_V6M_COLUMNS_FIELDS``."""

    #: rows at a time: 3 or 9
    tile: int
    #: elements of depth after which sums are taken out of their words
    part: int
    #: of the multipliers: 2 or 3
    pieces: int
    #: of a piece
    bits: int
    #: 1: negative products have an addend of their own
    turns: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: HIL_V6M_SCALE_WORDS a column
    scales: npt.NDArray[np.int32]
    #: [column][depth]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilV7mPacked(FieldGroup):
    """The fields of ``HIL_V7M_PACKED_FIELDS``."""

    #: elements of depth after which sums are taken out of their words
    part: int
    output_range: HilOutputRange
    #: of all columns, or HIL_V7M_OWN_SHIFTS and others (v7m.h)
    even_shift: int
    #: HIL_V7M_SCALE_WORDS a column
    scales: npt.NDArray[np.int32]
    #: of blocks of three columns
    weights: npt.NDArray[np.uint32]


@record(frozen=True, eq=False, kw_only=True)
class HilV7mColumns(FieldGroup):
    """The fields of ``HIL_V7M_COLUMNS_FIELDS``."""

    #: elements of depth after which sums are taken out of their words
    part: int
    #: words of widened rows an element of depth: 2 or 1
    wide: int
    output_range: HilOutputRange
    #: of all columns, or HIL_V7M_OWN_SHIFTS and others (v7m.h)
    even_shift: int
    #: HIL_V7M_SCALE_WORDS a column, of whole blocks
    scales: npt.NDArray[np.int32]
    #: [blocks of four columns][depth][4]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilCompactConv2dS8(Parameters):
    """The fields of ``struct hil_compact_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_compact_conv2d_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: weights[out_c][filter_h][filter_w][in_c]
    compact: HilCompact


@record(frozen=True, eq=False, kw_only=True)
class HilCompactDepthwiseConv2dS8(Parameters):
    """The fields of ``struct hil_compact_depthwise_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_compact_depthwise_conv2d_s8"

    images: HilImages
    #: outputs of each input channel, next to each other
    depth_multiplier: int
    window: HilWindow
    #: weights[in_c * depth_multiplier][filter_h][filter_w]
    compact: HilCompact


@record(frozen=True, eq=False, kw_only=True)
class HilCompactMatmulS8(Parameters):
    """The fields of ``struct hil_compact_matmul_s8``."""

    KERNEL: ClassVar[str] = "hil_compact_matmul_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    #: weights[columns][depth]
    compact: HilCompact


@record(frozen=True, eq=False, kw_only=True)
class HilDspAddS8(Parameters):
    """The fields of ``struct hil_dsp_add_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_add_s8"

    #: elements
    length: int
    #: 1: the first operand is the one that the table holds
    swapped: int
    #: of the sum, in Q0.31
    multiplier: int
    #: to the right, less one: 0 to 22
    shift: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: the least output
    low: int
    #: the largest output
    high: int
    #: The other operand has the larger scale, so that scaling it is a shift. This has, for each
    #: value of the one in question, twice what it adds to the sum, both zero points included.
    table: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilDspAveragePoolS8(Parameters):
    """The fields of ``struct hil_dsp_average_pool_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_average_pool_s8"

    #: filter_h * filter_w is at most HIL_DSP_POOL_TAPS
    pool_windows: HilPoolWindows
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspScaledPoolS8(Parameters):
    """The fields of ``struct hil_dsp_scaled_pool_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_scaled_pool_s8"

    #: filter_h * filter_w is at most HIL_DSP_POOL_TAPS
    pool_windows: HilPoolWindows
    #: minus the input's zero point of all pixels of a window
    offset: int
    #: of the sum, in Q0.31
    multiplier: int
    #: of the product, to the left; below 0 to the right
    shift: int
    #: of that: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspBatchMatmulS8(Parameters):
    """The fields of ``struct hil_dsp_batch_matmul_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_batch_matmul_s8"

    batch_matmul: HilBatchMatmul
    #: of four elements of depth
    units: int
    #: rows at a time, an even number
    group: int
    #: what is added to each element of the first matrix
    a_offset: int
    #: what is added to each element of the second one
    b_offset: int
    #: of the output
    out_zero_point: int
    #: in Q0.31
    multiplier: int
    #: of the products, to the right, at least 1
    shift: int
    #: 1: sums are rounded once, half up; 0: twice
    once: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspMulS8(Parameters):
    """The fields of ``struct hil_dsp_mul_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_mul_s8"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the product, in Q0.31
    multiplier: int
    #: of that, to the right, less one: 0 to 21
    shift: int
    #: 1: rounded once, half up; 0: twice
    once: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspSumS16(Parameters):
    """The fields of ``struct hil_dsp_sum_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_sum_s16"

    #: shifts of -29 to 0, 0 of an operand for a factor of one half alone
    sum_s16: HilSumS16
    #: 1: the second operand is taken from the first
    subtract: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspMulS16(Parameters):
    """The fields of ``struct hil_dsp_mul_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_mul_s16"

    binary: HilBinary
    #: of the product, in Q0.31
    multiplier: int
    #: of that, to the left: -29 to 0
    shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspConv2dPairsS8(Parameters):
    """The fields of ``struct hil_dsp_conv2d_pairs_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_conv2d_pairs_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: of four elements under a window
    units: int
    dsp_pairs: HilDspPairs
    #: a pixel outside the image
    border: npt.NDArray[np.int8]
    #: rows of the image with the padding, if it is put into scratch, or 0
    framed_h: int
    #: columns of that
    framed_w: int
    dsp_range: HilDspRange


@record(frozen=True, eq=False, kw_only=True)
class HilDspConv2dPartialS8(Parameters):
    """The fields of ``struct hil_dsp_conv2d_partial_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_conv2d_partial_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: windows at a time, 2 or 3
    group: int
    #: pixels of a row of the filter at a time
    taps: int
    #: of a window, each of so many
    parts: int
    #: of four elements of them
    units: int
    #: whether negative sums lack something
    signs: int
    #: to the right
    shift: int
    #: as drawn above
    stream: npt.NDArray[np.int32]
    #: a pixel outside the image
    border: npt.NDArray[np.int8]
    dsp_range: HilDspRange


@record(frozen=True, eq=False, kw_only=True)
class HilDspConv2dS16(Parameters):
    """The fields of ``struct hil_dsp_conv2d_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_conv2d_s16"

    images: HilImages
    window: HilWindow
    #: of positions outside the image
    in_zero_point: int
    dsp_columns_s16: HilDspColumnsS16


@record(frozen=True, eq=False, kw_only=True)
class HilDspConv2dS8(Parameters):
    """The fields of ``struct hil_dsp_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_conv2d_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: of four elements under a window
    units: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    output_range: HilOutputRange
    #: these as in struct hil_dsp_columns_s8; a column is an output channel
    weights: npt.NDArray[np.int16]
    #: HIL_DSP_PAIR_WORDS a pair of columns
    pairs: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilDspDepthwise3x3S8(Parameters):
    """The fields of ``struct hil_dsp_depthwise_3x3_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_depthwise_3x3_s8"

    images: HilImages
    #: 1 or 2, along both axes
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: pixels that a row of windows spans: (out_w - 1) * stride + 3
    line: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    output_range: HilOutputRange
    #: twice the bias, the input's zero point folded in
    bias: npt.NDArray[np.int32]
    #: of each channel, in Q0.31
    multipliers: npt.NDArray[np.int32]
    #: to the right, less one: 0 to 22
    shifts: npt.NDArray[np.int8]
    #: [in_c][3 columns][4]: row 0, row 1, row 1, row 2 of the filter
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDspDepthwisePlaneS16(Parameters):
    """The fields of ``struct hil_dsp_depthwise_plane_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_depthwise_plane_s16"

    images: HilImages
    #: 1 or 2, along both axes
    stride: int
    #: rows above the image
    pad_top: int
    #: columns before it
    pad_left: int
    #: of the image that windows reach, from the first
    columns: int
    #: half-words from row to row of the plane, an even number
    line: int
    #: half-words after the last row, an even number
    beyond: int
    #: of outputs at a time
    rows: int
    #: of positions outside the image
    in_zero_point: int
    #: 1: outputs have an addend and a shift, 0: they have neither
    shifted: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: [in_c][3 rows][4]: columns 0, 1, 1, 2 of the filter
    weights: npt.NDArray[np.int8]
    #: of each channel: bias, multiplier, addend, shift
    scales: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilDspDepthwisePlaneS8(Parameters):
    """The fields of ``struct hil_dsp_depthwise_plane_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_depthwise_plane_s8"

    images: HilImages
    #: 1 or 2, along both axes
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: of the image that windows reach, from the first
    columns: int
    #: half-words from row to row of the plane, an even number
    line: int
    #: half-words after the last row, an even number
    beyond: int
    #: of outputs at a time
    rows: int
    #: of which there are planes at a time, 1 or 4
    channels: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: of all channels, or 0 where each has its own
    shift: int
    #: whether weights and scales are, with a shift of all channels
    packed: int
    #: of all channels, if packed
    addend: int
    #: [in_c][3 rows][4]: columns 0, 1, 1, 2 of the filter; [in_c][3][3]
    weights: npt.NDArray[np.int8]
    #: of each channel: 256 times the bias, multiplier, addend, shift
    scales: npt.NDArray[np.int32]
    dsp_range: HilDspRange


@record(frozen=True, eq=False, kw_only=True)
class HilDspLstmS8(Parameters):
    """The fields of ``struct hil_dsp_lstm_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_lstm_s8"

    dsp_lstm: HilDspLstm
    #: to the left; below 0 to the right
    in_shifts: tuple[int, ...]
    #: likewise
    hidden_shifts: tuple[int, ...]


@record(frozen=True, eq=False, kw_only=True)
class HilDspLstmS16(Parameters):
    """The fields of ``struct hil_dsp_lstm_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_lstm_s16"

    dsp_lstm: HilDspLstm
    #: 1: weights of 16 bits, 0: two of 8 in each half-word
    wide: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspMatmulEightS8(Parameters):
    """The fields of ``struct hil_dsp_matmul_eight_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_matmul_eight_s8"

    #: rows of the input, and of the output
    rows: int
    #: outputs of a row, up to 255
    columns: int
    #: rows at a time
    group: int
    #: to the right, of all columns
    shift: int
    #: the head draws it
    stream: npt.NDArray[np.int32]
    dsp_range: HilDspRange


@record(frozen=True, eq=False, kw_only=True)
class HilDspMatmulPairsS8(Parameters):
    """The fields of ``struct hil_dsp_matmul_pairs_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_matmul_pairs_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: of four elements of depth
    units: int
    #: outputs of a row
    columns: int
    dsp_pairs: HilDspPairs
    dsp_range: HilDspRange


@record(frozen=True, eq=False, kw_only=True)
class HilDspMatmulS16(Parameters):
    """The fields of ``struct hil_dsp_matmul_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_matmul_s16"

    #: of values, each by itself
    rows: int
    #: values of a row
    depth: int
    dsp_columns_s16: HilDspColumnsS16


@record(frozen=True, eq=False, kw_only=True)
class HilDspMatmulS8(Parameters):
    """The fields of ``struct hil_dsp_matmul_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_matmul_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: of four elements of depth
    units: int
    #: outputs of a row
    columns: int
    output_range: HilOutputRange
    #: these as in struct hil_dsp_columns_s8
    weights: npt.NDArray[np.int16]
    #: HIL_DSP_PAIR_WORDS a pair of columns
    pairs: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilDspMatvecPairsS8(Parameters):
    """The fields of ``struct hil_dsp_matvec_pairs_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_matvec_pairs_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: of four elements of depth
    units: int
    #: outputs of a row
    columns: int
    #: 1: each row is widened to scratch first; 0: four columns at a time, anew, for a depth of
    #: whole units
    widened: int
    #: whether weights are wide
    wide: int
    #: whether negative sums lack something
    signs: int
    #: to the right, of all columns
    shift: int
    #: the head draws it
    stream: npt.NDArray[np.int32]
    dsp_range: HilDspRange


@record(frozen=True, eq=False, kw_only=True)
class HilDspMatvecS16(Parameters):
    """The fields of ``struct hil_dsp_matvec_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_matvec_s16"

    #: of values, each by itself
    rows: int
    #: values of a row
    depth: int
    #: of four elements, the depth rounded up
    units: int
    #: of the weights
    columns: int
    #: 1: weights of 16 bits, 0: two of 8 in each half-word
    wide: int
    #: 1: outputs have an addend and a shift, 0: they have neither
    shifted: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: packed weights, biases and multipliers
    stream: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilDspMatvecS8(Parameters):
    """The fields of ``struct hil_dsp_matvec_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_matvec_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: of four elements of depth
    units: int
    #: outputs of a row
    columns: int
    #: 1: each row is widened to scratch first; 0: four columns at a time, anew
    widened: int
    output_range: HilOutputRange
    #: 1: a multiplier and a shift a column; 0: one for all
    per_channel: int
    #: as in struct hil_dsp_columns_s8, in blocks of four columns
    weights: npt.NDArray[np.int16]
    #: of each pair of columns in whole blocks: b0, 256 * b1 + b0
    bias: npt.NDArray[np.int32]
    #: of each column, in Q0.31
    multipliers: npt.NDArray[np.int32]
    #: to the right, less one: 0 to 22
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDspMaxPoolS8(Parameters):
    """The fields of ``struct hil_dsp_max_pool_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_max_pool_s8"

    pool: HilPool
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspMaxPoolS16(Parameters):
    """The fields of ``struct hil_dsp_max_pool_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_max_pool_s16"

    pool: HilPool
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspSumS8(Parameters):
    """The fields of ``struct hil_dsp_sum_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_sum_s8"

    #: elements
    length: int
    #: The output is (a * first + b * second + addend) >> shift, saturated, which the compiler has
    #: compared with the reference for all pairs of values.
    first: int
    #: factor of the second operand
    second: int
    #: added to both products
    addend: int
    #: to the right, of the sum
    shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilDspSvdfS8StateS16(Parameters):
    """The fields of ``struct hil_dsp_svdf_s8_state_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_svdf_s8_state_s16"

    dsp_svdf: HilDspSvdf
    #: weights of features, [filters][memory]
    moments: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilDspSvdfS8StateS8(Parameters):
    """The fields of ``struct hil_dsp_svdf_s8_state_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_svdf_s8_state_s8"

    dsp_svdf: HilDspSvdf
    #: weights of features, [filters][memory]
    moments: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDspTransposeConv2dS16(Parameters):
    """The fields of ``struct hil_dsp_transpose_conv2d_s16``."""

    KERNEL: ClassVar[str] = "hil_dsp_transpose_conv2d_s16"

    phases: HilPhases
    #: of positions outside the image
    in_zero_point: int
    #: Of the deepest phase; the stream is that of all phases.
    dsp_columns_s16: HilDspColumnsS16


@record(frozen=True, eq=False, kw_only=True)
class HilDspTransposeConv2dS8(Parameters):
    """The fields of ``struct hil_dsp_transpose_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_transpose_conv2d_s8"

    phases: HilPhases
    #: of four elements, of the deepest phase
    units: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    output_range: HilOutputRange
    #: of each phase as in struct hil_dsp_columns_s8
    weights: npt.NDArray[np.int16]
    #: of each phase HIL_DSP_PAIR_WORDS a pair of columns
    pairs: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilDspWinograd3x3S8(Parameters):
    """The fields of ``struct hil_dsp_winograd_3x3_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_winograd_3x3_s8"

    images: HilImages
    #: output channels
    out_c: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: of four input channels
    units: int
    #: whether negative sums lack something
    signs: int
    #: to the right, of all channels
    shift: int
    #: to the left, of all sums, 0 or 2
    left: int
    #: the head draws it
    stream: npt.NDArray[np.int32]
    #: a pixel outside the image
    border: npt.NDArray[np.int8]
    dsp_range: HilDspRange


@record(frozen=True, eq=False, kw_only=True)
class HilDspWinogradPacked3x3S8(Parameters):
    """The fields of ``struct hil_dsp_winograd_packed_3x3_s8``."""

    KERNEL: ClassVar[str] = "hil_dsp_winograd_packed_3x3_s8"

    images: HilImages
    #: output channels
    out_c: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: of four input channels
    units: int
    #: whether negative sums lack something
    signs: int
    #: to the right, of all channels
    shift: int
    #: to the left, of all sums, 4 or 6
    left: int
    #: rows of tiles that meet a filter while it is unfolded
    bands: int
    #: the head draws it
    stream: npt.NDArray[np.int32]
    #: a pixel outside the image
    border: npt.NDArray[np.int8]
    dsp_range: HilDspRange


@record(frozen=True, eq=False, kw_only=True)
class HilFpuBatchMatmulF32(Parameters):
    """The fields of ``struct hil_fpu_batch_matmul_f32``."""

    KERNEL: ClassVar[str] = "hil_fpu_batch_matmul_f32"

    batch_matmul: HilBatchMatmul
    #: of two elements, the depth rounded up
    units: int
    #: columns that are packed at a time, a multiple of four
    group: int


@record(frozen=True, eq=False, kw_only=True)
class HilFpuConv2dF32(Parameters):
    """The fields of ``struct hil_fpu_conv2d_f32``."""

    KERNEL: ClassVar[str] = "hil_fpu_conv2d_f32"

    images: HilImages
    window: HilWindow
    fpu_columns_f32: HilFpuColumnsF32


@record(frozen=True, eq=False, kw_only=True)
class HilFpuDepthwiseConv2dF32(Parameters):
    """The fields of ``struct hil_fpu_depthwise_conv2d_f32``."""

    KERNEL: ClassVar[str] = "hil_fpu_depthwise_conv2d_f32"

    images: HilImages
    window: HilWindow
    #: floats of a row in scratch
    line: int
    #: rows that a window spans
    lines: int
    #: of the image that windows reach, from the first
    columns: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of fours of channels, as drawn above
    stream: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilFpuMatmulF32(Parameters):
    """The fields of ``struct hil_fpu_matmul_f32``."""

    KERNEL: ClassVar[str] = "hil_fpu_matmul_f32"

    #: of values, each by itself
    rows: int
    #: values of a row
    depth: int
    fpu_columns_f32: HilFpuColumnsF32


@record(frozen=True, eq=False, kw_only=True)
class HilFpuMatvecF32(Parameters):
    """The fields of ``struct hil_fpu_matvec_f32``."""

    KERNEL: ClassVar[str] = "hil_fpu_matvec_f32"

    #: of values, each by itself
    rows: int
    #: values of a row
    depth: int
    #: of the weights
    columns: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of eights of columns, as drawn above
    stream: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilFpuTransposeConv2dF32(Parameters):
    """The fields of ``struct hil_fpu_transpose_conv2d_f32``."""

    KERNEL: ClassVar[str] = "hil_fpu_transpose_conv2d_f32"

    phases: HilPhases
    #: of two elements, of the deepest phase
    units: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of fours of columns, phase by phase: columns_f32.h draws it
    stream: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilAddNS32(Parameters):
    """The fields of ``struct hil_add_n_s32``."""

    KERNEL: ClassVar[str] = "hil_add_n_s32"

    #: elements
    size: int
    #: inputs
    parts: int


@record(frozen=True, eq=False, kw_only=True)
class HilAddNF32(Parameters):
    """The fields of ``struct hil_add_n_f32``."""

    KERNEL: ClassVar[str] = "hil_add_n_f32"

    #: elements
    size: int
    #: inputs
    parts: int


@record(frozen=True, eq=False, kw_only=True)
class HilAddNS8(Parameters):
    """The fields of ``struct hil_add_n_s8``."""

    KERNEL: ClassVar[str] = "hil_add_n_s8"

    #: elements
    size: int
    #: inputs
    parts: int
    accumulate_s8: HilAccumulateS8


@record(frozen=True, eq=False, kw_only=True)
class HilCumsumF32(Parameters):
    """The fields of ``struct hil_cumsum_f32``."""

    KERNEL: ClassVar[str] = "hil_cumsum_f32"

    cumsum: HilCumsum


@record(frozen=True, eq=False, kw_only=True)
class HilCumsumS8(Parameters):
    """The fields of ``struct hil_cumsum_s8``."""

    KERNEL: ClassVar[str] = "hil_cumsum_s8"

    cumsum: HilCumsum
    accumulate_s8: HilAccumulateS8


@record(frozen=True, eq=False, kw_only=True)
class HilAverageRowsS8(Parameters):
    """The fields of ``struct hil_average_rows_s8``."""

    KERNEL: ClassVar[str] = "hil_average_rows_s8"

    average_rows: HilAverageRows
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAverageRowsS16(Parameters):
    """The fields of ``struct hil_average_rows_s16``."""

    KERNEL: ClassVar[str] = "hil_average_rows_s16"

    average_rows: HilAverageRows
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAverageRowsF32(Parameters):
    """The fields of ``struct hil_average_rows_f32``."""

    KERNEL: ClassVar[str] = "hil_average_rows_f32"

    average_rows: HilAverageRows
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilMeanRowsS8(Parameters):
    """The fields of ``struct hil_mean_rows_s8``."""

    KERNEL: ClassVar[str] = "hil_mean_rows_s8"

    mean_rows: HilMeanRows
    #: minus the zero point of all values of one output
    offset: int
    #: of the sum, in Q0.31
    multiplier: int
    #: of the product, to the left; below 0 to the right
    shift: int
    #: the output that stands for 0.0
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilMeanRowsS16(Parameters):
    """The fields of ``struct hil_mean_rows_s16``."""

    KERNEL: ClassVar[str] = "hil_mean_rows_s16"

    mean_rows: HilMeanRows
    #: of what the scales say, in Q0.31
    multiplier: int
    #: of the product, to the left; below 0 to the right
    shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilMeanRowsF32(Parameters):
    """The fields of ``struct hil_mean_rows_f32``."""

    KERNEL: ClassVar[str] = "hil_mean_rows_f32"

    mean_rows: HilMeanRows
    #: values averaged into one output
    count: float


@record(frozen=True, eq=False, kw_only=True)
class HilCombineS8(Parameters):
    """The fields of ``struct hil_combine_s8``."""

    KERNEL: ClassVar[str] = "hil_combine_s8"

    binary: HilBinary
    #: of enum hil_operation
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCombineU8(Parameters):
    """The fields of ``struct hil_combine_u8``."""

    KERNEL: ClassVar[str] = "hil_combine_u8"

    binary: HilBinary
    #: of enum hil_operation
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCombineS16(Parameters):
    """The fields of ``struct hil_combine_s16``."""

    KERNEL: ClassVar[str] = "hil_combine_s16"

    binary: HilBinary
    #: of enum hil_operation
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCombineS32(Parameters):
    """The fields of ``struct hil_combine_s32``."""

    KERNEL: ClassVar[str] = "hil_combine_s32"

    binary: HilBinary
    #: of enum hil_operation
    operation: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilCombineS64(Parameters):
    """The fields of ``struct hil_combine_s64``."""

    KERNEL: ClassVar[str] = "hil_combine_s64"

    binary: HilBinary
    #: of enum hil_operation
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCombineF32(Parameters):
    """The fields of ``struct hil_combine_f32``."""

    KERNEL: ClassVar[str] = "hil_combine_f32"

    binary: HilBinary
    #: of enum hil_operation: a choice or the squared difference
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilDivideS8(Parameters):
    """The fields of ``struct hil_divide_s8``."""

    KERNEL: ClassVar[str] = "hil_divide_s8"

    binary: HilBinary
    #: of enum hil_operation: a quotient or the remainder
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilDivideS16(Parameters):
    """The fields of ``struct hil_divide_s16``."""

    KERNEL: ClassVar[str] = "hil_divide_s16"

    binary: HilBinary
    #: of enum hil_operation: a quotient or the remainder
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilDivideS32(Parameters):
    """The fields of ``struct hil_divide_s32``."""

    KERNEL: ClassVar[str] = "hil_divide_s32"

    binary: HilBinary
    #: of enum hil_operation: a quotient or the remainder
    operation: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilDivideS64(Parameters):
    """The fields of ``struct hil_divide_s64``."""

    KERNEL: ClassVar[str] = "hil_divide_s64"

    binary: HilBinary
    #: of enum hil_operation: a quotient or the remainder
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilDivF32(Parameters):
    """The fields of ``struct hil_div_f32``."""

    KERNEL: ClassVar[str] = "hil_div_f32"

    binary: HilBinary
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilFloorDivF32(Parameters):
    """The fields of ``struct hil_floor_div_f32``."""

    KERNEL: ClassVar[str] = "hil_floor_div_f32"

    binary: HilBinary


@record(frozen=True, eq=False, kw_only=True)
class HilFloorModF32(Parameters):
    """The fields of ``struct hil_floor_mod_f32``."""

    KERNEL: ClassVar[str] = "hil_floor_mod_f32"

    binary: HilBinary


@record(frozen=True, eq=False, kw_only=True)
class HilPowF32(Parameters):
    """The fields of ``struct hil_pow_f32``."""

    KERNEL: ClassVar[str] = "hil_pow_f32"

    binary: HilBinary


@record(frozen=True, eq=False, kw_only=True)
class HilPowS32(Parameters):
    """The fields of ``struct hil_pow_s32``."""

    KERNEL: ClassVar[str] = "hil_pow_s32"

    binary: HilBinary


@record(frozen=True, eq=False, kw_only=True)
class HilDivS8(Parameters):
    """The fields of ``struct hil_div_s8``."""

    KERNEL: ClassVar[str] = "hil_div_s8"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the quotient, in Q0.31, to the output's scale
    multiplier: int
    #: of that, to the left; 22 at most
    shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilSquaredDifferenceS8(Parameters):
    """The fields of ``struct hil_squared_difference_s8``."""

    KERNEL: ClassVar[str] = "hil_squared_difference_s8"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: of the first operand, in Q0.31, to twice the larger scale
    a_multiplier: int
    #: of that product, to the left; 0 or less
    a_shift: int
    #: of the second operand, in Q0.31
    b_multiplier: int
    #: of that product, to the left; 0 or less
    b_shift: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the square, in Q0.31
    out_multiplier: int
    #: of that product, to the left; 0 or less
    out_shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilSquaredDifferenceS16(Parameters):
    """The fields of ``struct hil_squared_difference_s16``."""

    KERNEL: ClassVar[str] = "hil_squared_difference_s16"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: of the first operand, in Q0.31, to twice the larger scale
    a_multiplier: int
    #: of that product, to the left; 0 or less
    a_shift: int
    #: of the second operand, in Q0.31
    b_multiplier: int
    #: of that product, to the left; 0 or less
    b_shift: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the square, in Q0.31
    out_multiplier: int
    #: of that product, to the left; 0 or less
    out_shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilCompareU8(Parameters):
    """The fields of ``struct hil_compare_u8``."""

    KERNEL: ClassVar[str] = "hil_compare_u8"

    binary: HilBinary
    #: of enum hil_operation: a comparison
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCompareS16(Parameters):
    """The fields of ``struct hil_compare_s16``."""

    KERNEL: ClassVar[str] = "hil_compare_s16"

    binary: HilBinary
    #: of enum hil_operation: a comparison
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCompareS32(Parameters):
    """The fields of ``struct hil_compare_s32``."""

    KERNEL: ClassVar[str] = "hil_compare_s32"

    binary: HilBinary
    #: of enum hil_operation: a comparison
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCompareS64(Parameters):
    """The fields of ``struct hil_compare_s64``."""

    KERNEL: ClassVar[str] = "hil_compare_s64"

    binary: HilBinary
    #: of enum hil_operation: a comparison
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCompareF32(Parameters):
    """The fields of ``struct hil_compare_f32``."""

    KERNEL: ClassVar[str] = "hil_compare_f32"

    binary: HilBinary
    #: of enum hil_operation: a comparison
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCompareScaledS8(Parameters):
    """The fields of ``struct hil_compare_scaled_s8``."""

    KERNEL: ClassVar[str] = "hil_compare_scaled_s8"

    binary: HilBinary
    #: of enum hil_operation: a comparison
    operation: int
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: its scale, in Q0.31
    a_multiplier: int
    #: of that, to the left; 0 or less
    a_shift: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: its scale, in Q0.31
    b_multiplier: int
    #: of that, to the left; 0 or less
    b_shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilBatchMatmulS8(Parameters):
    """The fields of ``struct hil_batch_matmul_s8``."""

    KERNEL: ClassVar[str] = "hil_batch_matmul_s8"

    batch_matmul: HilBatchMatmul
    #: what is added to each element of the first matrix
    a_offset: int
    #: what is added to each element of the second one
    b_offset: int
    output_range: HilOutputRange
    #: in Q0.31
    multiplier: int
    #: of the products, to the left; below 0 to the right
    shift: int
    #: of those: HIL_ROUND_TWICE and others (quant.h)
    rounding: int


@record(frozen=True, eq=False, kw_only=True)
class HilBatchMatmulS16(Parameters):
    """The fields of ``struct hil_batch_matmul_s16``."""

    KERNEL: ClassVar[str] = "hil_batch_matmul_s16"

    batch_matmul: HilBatchMatmul
    #: of 15 bits
    multiplier: int
    #: to the right, 8 to 46
    shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilBatchMatmulS16Even(Parameters):
    """The fields of ``struct hil_batch_matmul_s16_even``."""

    KERNEL: ClassVar[str] = "hil_batch_matmul_s16_even"

    batch_matmul: HilBatchMatmul
    #: what is added to each element of the first matrix
    a_offset: int
    #: what is added to each element of the second one
    b_offset: int
    output_range: HilOutputRange
    #: in Q0.31
    multiplier: int
    #: of the products, to the left; below 0 to the right
    shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilBatchMatmulF32(Parameters):
    """The fields of ``struct hil_batch_matmul_f32``."""

    KERNEL: ClassVar[str] = "hil_batch_matmul_f32"

    batch_matmul: HilBatchMatmul


@record(frozen=True, eq=False, kw_only=True)
class HilAddS8(Parameters):
    """The fields of ``struct hil_add_s8``."""

    KERNEL: ClassVar[str] = "hil_add_s8"

    sum_s8: HilSumS8


@record(frozen=True, eq=False, kw_only=True)
class HilSubS8(Parameters):
    """The fields of ``struct hil_sub_s8``."""

    KERNEL: ClassVar[str] = "hil_sub_s8"

    sum_s8: HilSumS8


@record(frozen=True, eq=False, kw_only=True)
class HilLineSumS8(Parameters):
    """The fields of ``struct hil_line_sum_s8``."""

    KERNEL: ClassVar[str] = "hil_line_sum_s8"

    binary: HilBinary
    #: factor of the first operand
    first: int
    #: factor of the second operand
    second: int
    #: added to both products, within int32 for every pair
    addend: int
    #: to the right, of the sum
    shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilEvenSumS8(Parameters):
    """The fields of ``struct hil_even_sum_s8``."""

    KERNEL: ClassVar[str] = "hil_even_sum_s8"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: of the first operand less its zero point
    a_factor: int
    #: of the second one
    b_factor: int
    #: shift of the sum, 1 to 62
    right: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilMulS8(Parameters):
    """The fields of ``struct hil_mul_s8``."""

    KERNEL: ClassVar[str] = "hil_mul_s8"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the product, in Q0.31
    multiplier: int
    #: of that, to the left; below 0 to the right
    shift: int
    #: of that: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAddF32(Parameters):
    """The fields of ``struct hil_add_f32``."""

    KERNEL: ClassVar[str] = "hil_add_f32"

    binary_f32: HilBinaryF32


@record(frozen=True, eq=False, kw_only=True)
class HilSubF32(Parameters):
    """The fields of ``struct hil_sub_f32``."""

    KERNEL: ClassVar[str] = "hil_sub_f32"

    binary_f32: HilBinaryF32


@record(frozen=True, eq=False, kw_only=True)
class HilMulF32(Parameters):
    """The fields of ``struct hil_mul_f32``."""

    KERNEL: ClassVar[str] = "hil_mul_f32"

    binary_f32: HilBinaryF32


@record(frozen=True, eq=False, kw_only=True)
class HilAddS16(Parameters):
    """The fields of ``struct hil_add_s16``."""

    KERNEL: ClassVar[str] = "hil_add_s16"

    sum_s16: HilSumS16


@record(frozen=True, eq=False, kw_only=True)
class HilSubS16(Parameters):
    """The fields of ``struct hil_sub_s16``."""

    KERNEL: ClassVar[str] = "hil_sub_s16"

    sum_s16: HilSumS16


@record(frozen=True, eq=False, kw_only=True)
class HilMulS16(Parameters):
    """The fields of ``struct hil_mul_s16``."""

    KERNEL: ClassVar[str] = "hil_mul_s16"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the product, whose magnitude is below 2^31, in Q0.31
    multiplier: int
    #: to the left; negative ones are to the right
    shift: int
    #: of that: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilMulS16Even(Parameters):
    """The fields of ``struct hil_mul_s16_even``."""

    KERNEL: ClassVar[str] = "hil_mul_s16_even"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the product, in Q0.31
    multiplier: int
    #: to the left; negative ones are to the right
    shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilEvenSumS16(Parameters):
    """The fields of ``struct hil_even_sum_s16``."""

    KERNEL: ClassVar[str] = "hil_even_sum_s16"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: of the first operand less its zero point
    a_factor: int
    #: of the second one
    b_factor: int
    #: shift of the sum, 1 to 62
    right: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilBucketizeF32(Parameters):
    """The fields of ``struct hil_bucketize_f32``."""

    KERNEL: ClassVar[str] = "hil_bucketize_f32"

    bucketize: HilBucketize


@record(frozen=True, eq=False, kw_only=True)
class HilBucketizeS32(Parameters):
    """The fields of ``struct hil_bucketize_s32``."""

    KERNEL: ClassVar[str] = "hil_bucketize_s32"

    bucketize: HilBucketize


@record(frozen=True, eq=False, kw_only=True)
class HilBucketizeS64(Parameters):
    """The fields of ``struct hil_bucketize_s64``."""

    KERNEL: ClassVar[str] = "hil_bucketize_s64"

    bucketize: HilBucketize


@record(frozen=True, eq=False, kw_only=True)
class HilCast(Parameters):
    """The fields of ``struct hil_cast``."""

    KERNEL: ClassVar[str] = "hil_cast"

    #: elements
    size: int
    #: type of the input, of enum hil_cast_type
    source: int
    #: type of the output, likewise
    target: int


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dF32(Parameters):
    """The fields of ``struct hil_conv2d_f32``."""

    KERNEL: ClassVar[str] = "hil_conv2d_f32"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of each output channel
    bias: npt.NDArray[np.float32]
    #: a column is an output channel: see struct hil_columns_f32
    weights: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dGroupsS8(Parameters):
    """The fields of ``struct hil_conv2d_groups_s8``."""

    KERNEL: ClassVar[str] = "hil_conv2d_groups_s8"

    images: HilImages
    #: channels of the output
    out_c: int
    #: of channels; 1: each output sums over all of the input
    groups: int
    window: HilWindow
    #: the input that stands for 0.0
    in_zero_point: int
    requantization: HilRequantization
    #: [out_c][filter_h][filter_w][in_c / groups]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dGroupsF32(Parameters):
    """The fields of ``struct hil_conv2d_groups_f32``."""

    KERNEL: ClassVar[str] = "hil_conv2d_groups_f32"

    images: HilImages
    #: channels of the output
    out_c: int
    #: of channels; 1: each output sums over all of the input
    groups: int
    window: HilWindow
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: [out_c][filter_h][filter_w][in_c / groups]
    weights: npt.NDArray[np.float32]
    #: of each output channel
    bias: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dS16(Parameters):
    """The fields of ``struct hil_conv2d_s16``."""

    KERNEL: ClassVar[str] = "hil_conv2d_s16"

    wide_conv2d: HilWideConv2d
    #: of each channel the lower word, then the upper one
    bias: npt.NDArray[np.int32]
    #: of each output channel, or one for all
    multipliers: npt.NDArray[np.int16]
    #: to the right, 8 to 46
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dS16Sums32(Parameters):
    """The fields of ``struct hil_conv2d_s16_sums32``."""

    KERNEL: ClassVar[str] = "hil_conv2d_s16_sums32"

    wide_conv2d: HilWideConv2d
    #: of positions outside the image
    in_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of sums: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: of each output channel
    bias: npt.NDArray[np.int32]
    #: of each output channel, or one for all
    multipliers: npt.NDArray[np.int32]
    #: to the left; negative ones are to the right
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dS16Even(Parameters):
    """The fields of ``struct hil_conv2d_s16_even``."""

    KERNEL: ClassVar[str] = "hil_conv2d_s16_even"

    images: HilImages
    #: channels of the output
    out_c: int
    #: of channels; 1: each output sums over all of the input
    groups: int
    window: HilWindow
    #: of positions outside the image
    in_zero_point: int
    output_range: HilOutputRange
    #: 1: each channel has a multiplier and a shift, 0: one for all
    per_channel: int
    #: [out_c][filter_h][filter_w][in_c / groups]
    weights: npt.NDArray[np.int16]
    #: of each channel the lower word, then the upper one
    bias: npt.NDArray[np.int32]
    #: in Q0.31
    multipliers: npt.NDArray[np.int32]
    #: of the products, to the left; below 0 to the right
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dS8(Parameters):
    """The fields of ``struct hil_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_conv2d_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    requantization: HilRequantization
    #: a column is an output channel, interleaved as columns_s8.h says
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilConv3dF32(Parameters):
    """The fields of ``struct hil_conv3d_f32``."""

    KERNEL: ClassVar[str] = "hil_conv3d_f32"

    #: volumes
    batch: int
    #: slices of a volume
    in_d: int
    #: rows of a slice
    in_h: int
    #: columns of a slice
    in_w: int
    #: channels
    in_c: int
    #: slices of the output
    out_d: int
    #: rows of the output
    out_h: int
    #: columns of the output
    out_w: int
    #: channels of the output
    out_c: int
    #: slices of the filter
    filter_d: int
    #: rows of the filter
    filter_h: int
    #: columns of the filter
    filter_w: int
    #: slices from one position of the filter to the next
    stride_d: int
    #: rows from one position of the filter to the next
    stride_h: int
    #: columns from one position of the filter to the next
    stride_w: int
    #: slices from one tap to the next
    dilation_d: int
    #: rows from one tap to the next
    dilation_h: int
    #: columns from one tap to the next
    dilation_w: int
    #: slices before the volume, which are zero
    pad_front: int
    #: rows above it
    pad_top: int
    #: columns left of it
    pad_left: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of each output channel
    bias: npt.NDArray[np.float32]
    #: of each output channel: its taps, each with the input channels
    weights: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilDepthwiseConv2dF32(Parameters):
    """The fields of ``struct hil_depthwise_conv2d_f32``."""

    KERNEL: ClassVar[str] = "hil_depthwise_conv2d_f32"

    images: HilImages
    #: outputs of each input channel, next to each other
    depth_multiplier: int
    window: HilWindow
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of each output channel
    bias: npt.NDArray[np.float32]
    #: [in_c * depth_multiplier][filter_h][filter_w]
    weights: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilDepthwiseConv2dS16(Parameters):
    """The fields of ``struct hil_depthwise_conv2d_s16``."""

    KERNEL: ClassVar[str] = "hil_depthwise_conv2d_s16"

    images: HilImages
    #: outputs of each input channel, next to each other
    depth_multiplier: int
    window: HilWindow
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: 1: each channel has a multiplier and a shift, 0: one for all
    per_channel: int
    #: [in_c * depth_multiplier][filter_h][filter_w]
    weights: npt.NDArray[np.int8]
    #: of each channel the lower word, then the upper one
    bias: npt.NDArray[np.int32]
    #: of each output channel, or one for all
    multipliers: npt.NDArray[np.int16]
    #: to the right, 8 to 46
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDepthwiseConv2dS8(Parameters):
    """The fields of ``struct hil_depthwise_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_depthwise_conv2d_s8"

    images: HilImages
    #: outputs of each input channel, next to each other
    depth_multiplier: int
    window: HilWindow
    #: channels of a band; divides in_c
    block: int
    #: output pixels of a band
    tile_w: int
    #: input pixels of a band, all that tile_w windows span
    band_w: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    requantization: HilRequantization
    #: [in_c * depth_multiplier][filter_h][filter_w]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDetectionFast(Parameters):
    """The fields of ``struct hil_detection_fast``."""

    KERNEL: ClassVar[str] = "hil_detection_fast"

    detection: HilDetection
    #: classes that are given of a box
    categories: int


@record(frozen=True, eq=False, kw_only=True)
class HilDetectionRegular(Parameters):
    """The fields of ``struct hil_detection_regular``."""

    KERNEL: ClassVar[str] = "hil_detection_regular"

    detection: HilDetection
    #: detections of a class
    per_class: int


@record(frozen=True, eq=False, kw_only=True)
class HilCombineF64(Parameters):
    """The fields of ``struct hil_combine_f64``."""

    KERNEL: ClassVar[str] = "hil_combine_f64"

    binary: HilBinary
    #: of enum hil_double_operation
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilCompareF64(Parameters):
    """The fields of ``struct hil_compare_f64``."""

    KERNEL: ClassVar[str] = "hil_compare_f64"

    binary: HilBinary
    #: of enum hil_double_comparison
    comparison: int


@record(frozen=True, eq=False, kw_only=True)
class HilFunctionF64(Parameters):
    """The fields of ``struct hil_function_f64``."""

    KERNEL: ClassVar[str] = "hil_function_f64"

    #: elements
    size: int
    #: of enum hil_double_function
    function: int


@record(frozen=True, eq=False, kw_only=True)
class HilReduceF64(Parameters):
    """The fields of ``struct hil_reduce_f64``."""

    KERNEL: ClassVar[str] = "hil_reduce_f64"

    mean: HilMean
    #: of enum hil_double_reduction
    way: int
    #: values of one output
    count: int


@record(frozen=True, eq=False, kw_only=True)
class HilCastF64(Parameters):
    """The fields of ``struct hil_cast_f64``."""

    KERNEL: ClassVar[str] = "hil_cast_f64"

    #: elements
    size: int
    #: type of the input: of enum hil_cast_type, or the number after for double
    source: int
    #: type of the output, likewise; one of them is double
    target: int


@record(frozen=True, eq=False, kw_only=True)
class HilRfftS16(Parameters):
    """The fields of ``struct hil_rfft_s16``."""

    KERNEL: ClassVar[str] = "hil_rfft_s16"

    fourier: HilFourier
    #: factors of the steps, real and imaginary parts
    twiddles: npt.NDArray[np.int16]
    #: factors of the step that separates the halves
    separating: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilIrfftS16(Parameters):
    """The fields of ``struct hil_irfft_s16``."""

    KERNEL: ClassVar[str] = "hil_irfft_s16"

    fourier: HilFourier
    #: factors of the steps, real and imaginary parts
    twiddles: npt.NDArray[np.int16]
    #: factors of the step that separates the halves
    separating: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilRfftS32(Parameters):
    """The fields of ``struct hil_rfft_s32``."""

    KERNEL: ClassVar[str] = "hil_rfft_s32"

    fourier: HilFourier
    #: factors of the steps, real and imaginary parts
    twiddles: npt.NDArray[np.int32]
    #: factors of the step that separates the halves
    separating: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilIrfftS32(Parameters):
    """The fields of ``struct hil_irfft_s32``."""

    KERNEL: ClassVar[str] = "hil_irfft_s32"

    fourier: HilFourier
    #: factors of the steps, real and imaginary parts
    twiddles: npt.NDArray[np.int32]
    #: factors of the step that separates the halves
    separating: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilRfftF32(Parameters):
    """The fields of ``struct hil_rfft_f32``."""

    KERNEL: ClassVar[str] = "hil_rfft_f32"

    fourier: HilFourier
    #: factors of the steps, real and imaginary parts
    twiddles: npt.NDArray[np.float32]
    #: factors of the step that separates the halves
    separating: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilIrfftF32(Parameters):
    """The fields of ``struct hil_irfft_f32``."""

    KERNEL: ClassVar[str] = "hil_irfft_f32"

    fourier: HilFourier
    #: factors of the steps, real and imaginary parts
    twiddles: npt.NDArray[np.float32]
    #: factors of the step that separates the halves
    separating: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilAbsF32(Parameters):
    """The fields of ``struct hil_abs_f32``."""

    KERNEL: ClassVar[str] = "hil_abs_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilNegF32(Parameters):
    """The fields of ``struct hil_neg_f32``."""

    KERNEL: ClassVar[str] = "hil_neg_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignF32(Parameters):
    """The fields of ``struct hil_sign_f32``."""

    KERNEL: ClassVar[str] = "hil_sign_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilCeilF32(Parameters):
    """The fields of ``struct hil_ceil_f32``."""

    KERNEL: ClassVar[str] = "hil_ceil_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilFloorF32(Parameters):
    """The fields of ``struct hil_floor_f32``."""

    KERNEL: ClassVar[str] = "hil_floor_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilRoundF32(Parameters):
    """The fields of ``struct hil_round_f32``."""

    KERNEL: ClassVar[str] = "hil_round_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilSqrtF32(Parameters):
    """The fields of ``struct hil_sqrt_f32``."""

    KERNEL: ClassVar[str] = "hil_sqrt_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilRsqrtF32(Parameters):
    """The fields of ``struct hil_rsqrt_f32``."""

    KERNEL: ClassVar[str] = "hil_rsqrt_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilSquareF32(Parameters):
    """The fields of ``struct hil_square_f32``."""

    KERNEL: ClassVar[str] = "hil_square_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilExpF32(Parameters):
    """The fields of ``struct hil_exp_f32``."""

    KERNEL: ClassVar[str] = "hil_exp_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilLogF32(Parameters):
    """The fields of ``struct hil_log_f32``."""

    KERNEL: ClassVar[str] = "hil_log_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilSinF32(Parameters):
    """The fields of ``struct hil_sin_f32``."""

    KERNEL: ClassVar[str] = "hil_sin_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilCosF32(Parameters):
    """The fields of ``struct hil_cos_f32``."""

    KERNEL: ClassVar[str] = "hil_cos_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilEluF32(Parameters):
    """The fields of ``struct hil_elu_f32``."""

    KERNEL: ClassVar[str] = "hil_elu_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilGeluF32(Parameters):
    """The fields of ``struct hil_gelu_f32``."""

    KERNEL: ClassVar[str] = "hil_gelu_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilGeluTanhF32(Parameters):
    """The fields of ``struct hil_gelu_tanh_f32``."""

    KERNEL: ClassVar[str] = "hil_gelu_tanh_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilAbsS32(Parameters):
    """The fields of ``struct hil_abs_s32``."""

    KERNEL: ClassVar[str] = "hil_abs_s32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilNegS32(Parameters):
    """The fields of ``struct hil_neg_s32``."""

    KERNEL: ClassVar[str] = "hil_neg_s32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilNegS64(Parameters):
    """The fields of ``struct hil_neg_s64``."""

    KERNEL: ClassVar[str] = "hil_neg_s64"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignS32(Parameters):
    """The fields of ``struct hil_sign_s32``."""

    KERNEL: ClassVar[str] = "hil_sign_s32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilNotBool(Parameters):
    """The fields of ``struct hil_not_bool``."""

    KERNEL: ClassVar[str] = "hil_not_bool"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilAbsS16(Parameters):
    """The fields of ``struct hil_abs_s16``."""

    KERNEL: ClassVar[str] = "hil_abs_s16"

    #: elements
    size: int
    #: the input that stands for 0.0
    in_zero_point: int
    #: of the result, in Q0.31, to the output's scale
    multiplier: int
    #: of that product, to the left; below 0 to the right
    shift: int
    #: the output that stands for 0.0
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilRsqrtS16(Parameters):
    """The fields of ``struct hil_rsqrt_s16``."""

    KERNEL: ClassVar[str] = "hil_rsqrt_s16"

    #: elements
    size: int
    #: the input that stands for 0.0
    in_zero_point: int
    #: of an inverse root raised by 20 bits, in Q0.31, to the output's scale
    multiplier: int
    #: of that product, to the right where below 0, which it always is or 0
    shift: int
    #: the output that stands for 0.0
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilZeros(Parameters):
    """The fields of ``struct hil_zeros``."""

    KERNEL: ClassVar[str] = "hil_zeros"

    #: of the output
    bytes: int


@record(frozen=True, eq=False, kw_only=True)
class HilGatherBlocks(Parameters):
    """The fields of ``struct hil_gather_blocks``."""

    KERNEL: ClassVar[str] = "hil_gather_blocks"

    #: of the tensor and the indices
    batches: int
    #: of a batch of the tensor
    rows: int
    #: blocks of a row
    size: int
    #: of a block
    block_bytes: int
    #: indices of a batch
    count: int


@record(frozen=True, eq=False, kw_only=True)
class HilGatherPlaces(Parameters):
    """The fields of ``struct hil_gather_places``."""

    KERNEL: ClassVar[str] = "hil_gather_places"

    #: of blocks
    count: int
    #: indices of a block, one for each of the first axes
    depth: int
    #: bytes from one to the next along each of these axes
    steps: npt.NDArray[np.int32]
    #: of a block
    block_bytes: int
    #: the last byte at which a block may begin
    most: int


@record(frozen=True, eq=False, kw_only=True)
class HilUpdateSlice(Parameters):
    """The fields of ``struct hil_update_slice``."""

    KERNEL: ClassVar[str] = "hil_update_slice"

    #: bytes of the tensor
    size: int
    #: of the tensor
    axes: int
    #: elements by which the update is shorter along each axis
    spare: npt.NDArray[np.int32]
    #: bytes from one to the next along each axis
    steps: npt.NDArray[np.int32]
    #: of the update
    rows: int
    #: turns of the loops around a row
    counts: tuple[int, ...]
    #: bytes by which the output moves as each of them advances
    out_jumps: tuple[int, ...]
    #: bytes that lie together in update and output
    row: int


@record(frozen=True, eq=False, kw_only=True)
class HilOneHotS32(Parameters):
    """The fields of ``struct hil_one_hot_s32``."""

    KERNEL: ClassVar[str] = "hil_one_hot_s32"

    one_hot: HilOneHot


@record(frozen=True, eq=False, kw_only=True)
class HilOneHotS64(Parameters):
    """The fields of ``struct hil_one_hot_s64``."""

    KERNEL: ClassVar[str] = "hil_one_hot_s64"

    one_hot: HilOneHot


@record(frozen=True, eq=False, kw_only=True)
class HilWidenF16(Parameters):
    """The fields of ``struct hil_widen_f16``."""

    KERNEL: ClassVar[str] = "hil_widen_f16"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilNarrowF16(Parameters):
    """The fields of ``struct hil_narrow_f16``."""

    KERNEL: ClassVar[str] = "hil_narrow_f16"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilInteger(Parameters):
    """The fields of ``struct hil_integer``."""

    KERNEL: ClassVar[str] = "hil_integer"

    binary: HilBinary
    #: of the operands and the output, of enum hil_integer_type
    type: int
    #: of enum hil_integer_operation, no comparison
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilIntegerCompare(Parameters):
    """The fields of ``struct hil_integer_compare``."""

    KERNEL: ClassVar[str] = "hil_integer_compare"

    binary: HilBinary
    #: of the operands, of enum hil_integer_type
    type: int
    #: of enum hil_integer_operation, a comparison
    operation: int


@record(frozen=True, eq=False, kw_only=True)
class HilLayerNormF32(Parameters):
    """The fields of ``struct hil_layer_norm_f32``."""

    KERNEL: ClassVar[str] = "hil_layer_norm_f32"

    #: that each are normalized by themselves
    rows: int
    #: elements of a row
    depth: int
    #: what is added to the variance
    epsilon: float
    #: 1: less the mean
    centered: int
    #: 1: with addends; 0: these are not read
    shifted: int


@record(frozen=True, eq=False, kw_only=True)
class HilLayerNormS8(Parameters):
    """The fields of ``struct hil_layer_norm_s8``."""

    KERNEL: ClassVar[str] = "hil_layer_norm_s8"

    layer_norm: HilLayerNorm


@record(frozen=True, eq=False, kw_only=True)
class HilLayerNormS16(Parameters):
    """The fields of ``struct hil_layer_norm_s16``."""

    KERNEL: ClassVar[str] = "hil_layer_norm_s16"

    layer_norm: HilLayerNorm


@record(frozen=True, eq=False, kw_only=True)
class HilLstmS8(Parameters):
    """The fields of ``struct hil_lstm_s8``."""

    KERNEL: ClassVar[str] = "hil_lstm_s8"

    lstm: HilLstm
    lstm_cell: HilLstmCell
    #: from sums of inputs to Q3.12
    in_multipliers: tuple[int, ...]
    #: to the left; below 0 to the right
    in_shifts: tuple[int, ...]
    #: from sums of hidden states to Q3.12
    hidden_multipliers: tuple[int, ...]
    #: to the left; below 0 to the right
    hidden_shifts: tuple[int, ...]
    #: [gates][units][depth]
    in_weights: npt.NDArray[np.int8]
    #: [gates][units][units]
    hidden_weights: npt.NDArray[np.int8]
    #: with what zero points of inputs add
    in_bias: npt.NDArray[np.int32]
    #: what zero points of hidden states add
    hidden_bias: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilLstmS16(Parameters):
    """The fields of ``struct hil_lstm_s16``."""

    KERNEL: ClassVar[str] = "hil_lstm_s16"

    lstm: HilLstm
    lstm_cell: HilLstmCell
    #: of 15 bits, from sums of inputs to Q3.12
    in_multipliers: tuple[int, ...]
    #: to the right
    in_shifts: tuple[int, ...]
    #: of 15 bits, from sums of hidden states
    hidden_multipliers: tuple[int, ...]
    #: to the right
    hidden_shifts: tuple[int, ...]
    #: [gates][units][depth]
    in_weights: npt.NDArray[np.int8]
    #: [gates][units][units]
    hidden_weights: npt.NDArray[np.int8]
    #: of each the lower word, then the upper one
    in_bias: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilLstmF32(Parameters):
    """The fields of ``struct hil_lstm_f32``."""

    KERNEL: ClassVar[str] = "hil_lstm_f32"

    lstm: HilLstm
    #: the largest magnitude of the cell state
    clip: float
    #: [gates][units][depth]
    in_weights: npt.NDArray[np.float32]
    #: [gates][units][units]
    hidden_weights: npt.NDArray[np.float32]
    #: [gates][units]
    bias: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilMatmulF32(Parameters):
    """The fields of ``struct hil_matmul_f32``."""

    KERNEL: ClassVar[str] = "hil_matmul_f32"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of each column
    bias: npt.NDArray[np.float32]
    #: as in struct hil_columns_f32
    weights: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilMatmulS16(Parameters):
    """The fields of ``struct hil_matmul_s16``."""

    KERNEL: ClassVar[str] = "hil_matmul_s16"

    rows_s16: HilRowsS16
    #: of each column the lower word, then the upper one
    bias: npt.NDArray[np.int32]
    #: of 15 bits
    multipliers: npt.NDArray[np.int16]
    #: to the right, 8 to 46
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMatmulS16Sums32(Parameters):
    """The fields of ``struct hil_matmul_s16_sums32``."""

    KERNEL: ClassVar[str] = "hil_matmul_s16_sums32"

    rows_s16: HilRowsS16
    #: the output that stands for 0.0
    out_zero_point: int
    #: of sums: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: of each column
    bias: npt.NDArray[np.int32]
    #: in Q0.31
    multipliers: npt.NDArray[np.int32]
    #: of the products, to the left; below 0 to the right
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMatmulS16Even(Parameters):
    """The fields of ``struct hil_matmul_s16_even``."""

    KERNEL: ClassVar[str] = "hil_matmul_s16_even"

    #: of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    output_range: HilOutputRange
    #: 1: each column has a multiplier and a shift; 0: one for all
    per_channel: int
    #: [columns][depth]
    weights: npt.NDArray[np.int16]
    #: of each column the lower word, then the upper one
    bias: npt.NDArray[np.int32]
    #: in Q0.31
    multipliers: npt.NDArray[np.int32]
    #: of the products, to the left; below 0 to the right
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMatmulS8(Parameters):
    """The fields of ``struct hil_matmul_s8``."""

    KERNEL: ClassVar[str] = "hil_matmul_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    requantization: HilRequantization
    #: interleaved as columns_s8.h says
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMeanS8(Parameters):
    """The fields of ``struct hil_mean_s8``."""

    KERNEL: ClassVar[str] = "hil_mean_s8"

    mean: HilMean
    #: minus the zero point of all values of one output
    offset: int
    #: of the sum, in Q0.31
    multiplier: int
    #: of the product, to the left; below 0 to the right
    shift: int
    #: of that: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the output that stands for 0.0
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilMeanS16(Parameters):
    """The fields of ``struct hil_mean_s16``."""

    KERNEL: ClassVar[str] = "hil_mean_s16"

    mean: HilMean
    #: minus the zero point of all values of one output
    offset: int
    #: of the sum, in Q0.31
    multiplier: int
    #: of the product, to the left; below 0 to the right
    shift: int
    #: of that: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the output that stands for 0.0
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilMeanF32(Parameters):
    """The fields of ``struct hil_mean_f32``."""

    KERNEL: ClassVar[str] = "hil_mean_f32"

    mean: HilMean
    #: values averaged into one output
    count: float


@record(frozen=True, eq=False, kw_only=True)
class HilCopy(Parameters):
    """The fields of ``struct hil_copy``."""

    KERNEL: ClassVar[str] = "hil_copy"

    #: to copy
    bytes: int


@record(frozen=True, eq=False, kw_only=True)
class HilGather(Parameters):
    """The fields of ``struct hil_gather``."""

    KERNEL: ClassVar[str] = "hil_gather"

    #: of runs
    rows: int
    #: turns of the loops around a row
    counts: tuple[int, ...]
    #: bytes by which the input moves as each of them advances
    in_jumps: tuple[int, ...]
    #: of the first run in the input
    start: int
    #: runs in a row
    length: int
    #: from one run of a row to the next in the input
    step: int
    #: bytes that lie together in input and output
    run: int


@record(frozen=True, eq=False, kw_only=True)
class HilPad(Parameters):
    """The fields of ``struct hil_pad``."""

    KERNEL: ClassVar[str] = "hil_pad"

    #: of the input
    rows: int
    #: turns of the loops around a row
    counts: tuple[int, ...]
    #: bytes by which the output moves as each of them advances
    out_jumps: tuple[int, ...]
    #: of the first row in the output
    start: int
    #: bytes that lie together in input and output
    row: int
    #: of the output
    size: int
    #: the byte around the input
    pad_value: int


@record(frozen=True, eq=False, kw_only=True)
class HilJoin(Parameters):
    """The fields of ``struct hil_join``."""

    KERNEL: ClassVar[str] = "hil_join"

    #: of blocks, one of each part in turn
    rows: int
    #: inputs
    parts: int
    #: what a row takes from each part
    blocks: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilSplit(Parameters):
    """The fields of ``struct hil_split``."""

    KERNEL: ClassVar[str] = "hil_split"

    #: of blocks, one for each part in turn
    rows: int
    #: outputs
    parts: int
    #: what a row gives to each part
    block: int


@record(frozen=True, eq=False, kw_only=True)
class HilSplitBlocks(Parameters):
    """The fields of ``struct hil_split_blocks``."""

    KERNEL: ClassVar[str] = "hil_split_blocks"

    #: of blocks, one for each part in turn
    rows: int
    #: outputs
    parts: int
    #: what a row gives to each part
    blocks: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilTake(Parameters):
    """The fields of ``struct hil_take``."""

    KERNEL: ClassVar[str] = "hil_take"

    #: of runs
    rows: int
    #: turns of the loops around a row
    counts: tuple[int, ...]
    #: what each turn of each of them adds to the position of a run in the input, and then each run
    #: of a row
    places: npt.NDArray[np.int32]
    #: runs in a row
    length: int
    #: bytes that lie together in input and output
    run: int


@record(frozen=True, eq=False, kw_only=True)
class HilPadElements(Parameters):
    """The fields of ``struct hil_pad_elements``."""

    KERNEL: ClassVar[str] = "hil_pad_elements"

    #: of the input
    rows: int
    #: turns of the loops around a row
    counts: tuple[int, ...]
    #: bytes by which the output moves as each of them advances
    out_jumps: tuple[int, ...]
    #: of the first row in the output
    start: int
    #: bytes that lie together in input and output
    row: int
    #: elements of the output
    count: int
    #: bytes of an element
    item: int
    #: the element around the input
    pad_value: npt.NDArray[np.uint8]


@record(frozen=True, eq=False, kw_only=True)
class HilSpaceToBatch(Parameters):
    """The fields of ``struct hil_space_to_batch``."""

    KERNEL: ClassVar[str] = "hil_space_to_batch"

    #: of the input
    images: int
    #: rows of one of them
    in_h: int
    #: columns of one of them
    in_w: int
    #: rows of an output image: those of blocks
    out_h: int
    #: columns of an output image
    out_w: int
    #: rows of a block
    block_h: int
    #: columns of a block
    block_w: int
    #: rows of the first block above an input image
    top: int
    #: columns of the first block to the left of an input image
    left: int
    #: bytes of a pixel
    depth: int
    #: the byte around the input
    pad_value: int


@record(frozen=True, eq=False, kw_only=True)
class HilLogSoftmaxS8(Parameters):
    """The fields of ``struct hil_log_softmax_s8``."""

    KERNEL: ClassVar[str] = "hil_log_softmax_s8"

    normalized: HilNormalized
    #: distances to the row's maximum below this have an exponential
    near: int
    #: of minus the distance, in Q0.31; of others nothing is left
    exponentials: npt.NDArray[np.int32]
    #: of a difference, in Q0.31, to Q5.26
    multiplier: int
    #: of that product, to the left; 0 or more
    shift: int
    #: from Q5.26 back to a difference, in Q0.31
    inverse_multiplier: int
    #: of that product, to the left; 0 or less
    inverse_shift: int
    #: the first difference that does not count
    least: int
    #: the output that stands for 0.0
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilLogSoftmaxF32(Parameters):
    """The fields of ``struct hil_log_softmax_f32``."""

    KERNEL: ClassVar[str] = "hil_log_softmax_f32"

    normalized: HilNormalized


@record(frozen=True, eq=False, kw_only=True)
class HilL2NormalizationS8(Parameters):
    """The fields of ``struct hil_l2_normalization_s8``."""

    KERNEL: ClassVar[str] = "hil_l2_normalization_s8"

    normalized: HilNormalized
    #: the input that stands for 0.0
    in_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilL2NormalizationF32(Parameters):
    """The fields of ``struct hil_l2_normalization_f32``."""

    KERNEL: ClassVar[str] = "hil_l2_normalization_f32"

    normalized: HilNormalized
    #: that a row is divided by
    least: float


@record(frozen=True, eq=False, kw_only=True)
class HilAveragePoolS8(Parameters):
    """The fields of ``struct hil_average_pool_s8``."""

    KERNEL: ClassVar[str] = "hil_average_pool_s8"

    pool: HilPool
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAveragePoolEvenS8(Parameters):
    """The fields of ``struct hil_average_pool_even_s8``."""

    KERNEL: ClassVar[str] = "hil_average_pool_even_s8"

    pool: HilPool
    #: the input that stands for 0.0
    in_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: 1: windows reach beyond the image
    padded: int
    #: of a sum: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the least output
    low: int
    #: the largest output
    high: int
    #: of the sum, in Q0.31; where padded of that of each number of pixels that a window may cover,
    #: from 1 on
    multipliers: npt.NDArray[np.int32]
    #: of the products, to the left; below 0 to the right
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMaxPoolS8(Parameters):
    """The fields of ``struct hil_max_pool_s8``."""

    KERNEL: ClassVar[str] = "hil_max_pool_s8"

    pool: HilPool
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAveragePoolS16(Parameters):
    """The fields of ``struct hil_average_pool_s16``."""

    KERNEL: ClassVar[str] = "hil_average_pool_s16"

    pool: HilPool
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAveragePoolEvenS16(Parameters):
    """The fields of ``struct hil_average_pool_even_s16``."""

    KERNEL: ClassVar[str] = "hil_average_pool_even_s16"

    pool: HilPool
    #: the input that stands for 0.0
    in_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: 1: windows reach beyond the image
    padded: int
    #: of a sum: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the least output
    low: int
    #: the largest output
    high: int
    #: of the sum, in Q0.31; where padded of that of each number of pixels that a window may cover,
    #: from 1 on
    multipliers: npt.NDArray[np.int32]
    #: of the products, to the left; below 0 to the right
    shifts: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMaxPoolS16(Parameters):
    """The fields of ``struct hil_max_pool_s16``."""

    KERNEL: ClassVar[str] = "hil_max_pool_s16"

    pool: HilPool
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAveragePoolF32(Parameters):
    """The fields of ``struct hil_average_pool_f32``."""

    KERNEL: ClassVar[str] = "hil_average_pool_f32"

    pool: HilPool
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilL2PoolF32(Parameters):
    """The fields of ``struct hil_l2_pool_f32``."""

    KERNEL: ClassVar[str] = "hil_l2_pool_f32"

    pool: HilPool
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilMaxPoolF32(Parameters):
    """The fields of ``struct hil_max_pool_f32``."""

    KERNEL: ClassVar[str] = "hil_max_pool_f32"

    pool: HilPool
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilPreluF32(Parameters):
    """The fields of ``struct hil_prelu_f32``."""

    KERNEL: ClassVar[str] = "hil_prelu_f32"

    binary: HilBinary


@record(frozen=True, eq=False, kw_only=True)
class HilPreluS8(Parameters):
    """The fields of ``struct hil_prelu_s8``."""

    KERNEL: ClassVar[str] = "hil_prelu_s8"

    binary: HilBinary
    #: the input that stands for 0.0
    in_zero_point: int
    #: the slope that stands for 0.0
    slope_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of numbers from 0 on, in Q0.31
    positive_multiplier: int
    #: of that product, to the left; below 0 to the right
    positive_shift: int
    #: of products with a slope, in Q0.31
    product_multiplier: int
    #: of that product, likewise
    product_shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilQuantizeF32S8(Parameters):
    """The fields of ``struct hil_quantize_f32_s8``."""

    KERNEL: ClassVar[str] = "hil_quantize_f32_s8"

    #: elements
    size: int
    #: the difference of two neighbouring integers
    scale: float
    #: the integer that stands for 0.0
    zero_point: int
    #: 1: ties to even; 0: away from zero
    to_even: int


@record(frozen=True, eq=False, kw_only=True)
class HilQuantizeF32U8(Parameters):
    """The fields of ``struct hil_quantize_f32_u8``."""

    KERNEL: ClassVar[str] = "hil_quantize_f32_u8"

    #: elements
    size: int
    #: the difference of two neighbouring integers
    scale: float
    #: the integer that stands for 0.0
    zero_point: int
    #: 1: ties to even; 0: away from zero
    to_even: int


@record(frozen=True, eq=False, kw_only=True)
class HilQuantizeF32S16(Parameters):
    """The fields of ``struct hil_quantize_f32_s16``."""

    KERNEL: ClassVar[str] = "hil_quantize_f32_s16"

    #: elements
    size: int
    #: the difference of two neighbouring integers
    scale: float
    #: the integer that stands for 0.0
    zero_point: int
    #: 1: ties to even; 0: away from zero
    to_even: int


@record(frozen=True, eq=False, kw_only=True)
class HilQuantizeF32U16(Parameters):
    """The fields of ``struct hil_quantize_f32_u16``."""

    KERNEL: ClassVar[str] = "hil_quantize_f32_u16"

    #: elements
    size: int
    #: the difference of two neighbouring integers
    scale: float
    #: the integer that stands for 0.0
    zero_point: int
    #: 1: ties to even; 0: away from zero
    to_even: int


@record(frozen=True, eq=False, kw_only=True)
class HilDequantizeS8F32(Parameters):
    """The fields of ``struct hil_dequantize_s8_f32``."""

    KERNEL: ClassVar[str] = "hil_dequantize_s8_f32"

    #: elements
    size: int
    #: the difference of two neighbouring integers
    scale: float
    #: the integer that stands for 0.0
    zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilDequantizeU8F32(Parameters):
    """The fields of ``struct hil_dequantize_u8_f32``."""

    KERNEL: ClassVar[str] = "hil_dequantize_u8_f32"

    #: elements
    size: int
    #: the difference of two neighbouring integers
    scale: float
    #: the integer that stands for 0.0
    zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilDequantizeS16F32(Parameters):
    """The fields of ``struct hil_dequantize_s16_f32``."""

    KERNEL: ClassVar[str] = "hil_dequantize_s16_f32"

    #: elements
    size: int
    #: the difference of two neighbouring integers
    scale: float
    #: the integer that stands for 0.0
    zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilDequantizeU16F32(Parameters):
    """The fields of ``struct hil_dequantize_u16_f32``."""

    KERNEL: ClassVar[str] = "hil_dequantize_u16_f32"

    #: elements
    size: int
    #: the difference of two neighbouring integers
    scale: float
    #: the integer that stands for 0.0
    zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilRequantizeWide(Parameters):
    """The fields of ``struct hil_requantize_wide``."""

    KERNEL: ClassVar[str] = "hil_requantize_wide"

    #: elements
    size: int
    #: 1, 2 or 4
    in_bytes: int
    #: -1, or the bits of an input that has no sign
    in_mask: int
    #: 1, 2 or 4
    out_bytes: int
    #: the input that stands for 0.0
    in_zero_point: int
    #: of the input less its zero point, in Q0.31
    multiplier: int
    #: of the product, to the left; below 0 to the right
    shift: int
    #: of that: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the least output
    low: int
    #: the largest output
    high: int
    #: the output that stands for 0.0
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilRealFunction(Parameters):
    """The fields of ``struct hil_real_function``."""

    KERNEL: ClassVar[str] = "hil_real_function"

    #: elements
    size: int
    #: of enum hil_real_functions
    function: int


@record(frozen=True, eq=False, kw_only=True)
class HilRealClass(Parameters):
    """The fields of ``struct hil_real_class``."""

    KERNEL: ClassVar[str] = "hil_real_class"

    #: elements
    size: int
    #: of enum hil_real_classes
    kind: int


@record(frozen=True, eq=False, kw_only=True)
class HilGruF32(Parameters):
    """The fields of ``struct hil_gru_f32``."""

    KERNEL: ClassVar[str] = "hil_gru_f32"

    recurrent: HilRecurrent
    #: 1: the reset gate is applied to the weighted hidden state
    linear_before_reset: int


@record(frozen=True, eq=False, kw_only=True)
class HilRnnF32(Parameters):
    """The fields of ``struct hil_rnn_f32``."""

    KERNEL: ClassVar[str] = "hil_rnn_f32"

    recurrent: HilRecurrent
    #: 0: the hyperbolic tangent, 1: RELU, 2: the logistic function
    activation: int


@record(frozen=True, eq=False, kw_only=True)
class HilReduce(Parameters):
    """The fields of ``struct hil_reduce``."""

    KERNEL: ClassVar[str] = "hil_reduce"

    mean: HilMean
    #: of the values, of enum hil_cast_type
    type: int
    #: how they are reduced, of enum hil_reduce_way
    way: int


@record(frozen=True, eq=False, kw_only=True)
class HilArg(Parameters):
    """The fields of ``struct hil_arg``."""

    KERNEL: ClassVar[str] = "hil_arg"

    #: of outputs
    rows: int
    #: values of which the least or largest is looked for
    count: int
    #: outputs of a row, as many as elements from a value to the next
    columns: int
    #: of the values, of enum hil_cast_type
    type: int
    #: 1: the least; 0: the largest
    least: int
    #: 1: outputs are int64; 0: int32
    wide: int


@record(frozen=True, eq=False, kw_only=True)
class HilResizeS8(Parameters):
    """The fields of ``struct hil_resize_s8``."""

    KERNEL: ClassVar[str] = "hil_resize_s8"

    resize: HilResize
    #: how far each output row is from that above it, in 1/1024
    rows: npt.NDArray[np.int32]
    #: how far each output column is from that to the left, in 1/1024
    columns: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilResizeEvenS8(Parameters):
    """The fields of ``struct hil_resize_even_s8``."""

    KERNEL: ClassVar[str] = "hil_resize_even_s8"

    resize: HilResize
    #: how far each output row is from that above it, in row_parts
    rows: npt.NDArray[np.int32]
    #: how far each output column is from that to the left
    columns: npt.NDArray[np.int32]
    #: parts of the way from one row to the next
    row_parts: int
    #: the same of columns; row_parts * column_parts <= 2^23
    column_parts: int
    #: less the input's zero point, as often as there are parts
    bias: int
    #: input scale / output scale / parts
    multiplier: int
    #: power of two of the multiplier
    shift: int
    #: of the output
    out_zero_point: int


@record(frozen=True, eq=False, kw_only=True)
class HilResizeS16(Parameters):
    """The fields of ``struct hil_resize_s16``."""

    KERNEL: ClassVar[str] = "hil_resize_s16"

    resize: HilResize
    #: how far each output row is from that above it, in 1/1024
    rows: npt.NDArray[np.int32]
    #: how far each output column is from that to the left, in 1/1024
    columns: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilResizeF32(Parameters):
    """The fields of ``struct hil_resize_f32``."""

    KERNEL: ClassVar[str] = "hil_resize_f32"

    resize: HilResize
    #: how far each output row is from that above it
    rows: npt.NDArray[np.float32]
    #: how far each output column is from that to the left
    columns: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilRfft2d(Parameters):
    """The fields of ``struct hil_rfft2d``."""

    KERNEL: ClassVar[str] = "hil_rfft2d"

    #: that are transformed
    images: int
    #: rows of an image that there are
    in_h: int
    #: numbers of a row that there are
    in_w: int
    #: rows that are transformed
    height: int
    #: numbers of a row that are transformed
    width: int
    #: complex numbers that are kept of an image; none where it has one row
    plane: int
    #: the larger of height and width
    longest: int
    #: steps of both transforms
    bits: int
    #: of the longest: cosines and minus sines, each the sum of two floats
    factors: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilComplexAbs(Parameters):
    """The fields of ``struct hil_complex_abs``."""

    KERNEL: ClassVar[str] = "hil_complex_abs"

    #: complex numbers
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilScatter(Parameters):
    """The fields of ``struct hil_scatter``."""

    KERNEL: ClassVar[str] = "hil_scatter"

    #: blocks of the tensor
    size: int
    #: elements of a block
    block: int
    #: of an element
    bytes: int
    #: indices
    count: int
    #: of enum hil_scatter_way
    way: int
    #: of elements that are combined, of enum hil_scatter_type
    type: int


@record(frozen=True, eq=False, kw_only=True)
class HilSelect(Parameters):
    """The fields of ``struct hil_select``."""

    KERNEL: ClassVar[str] = "hil_select"

    #: innermost loops of `length` elements
    rows: int
    #: turns of the loops around them
    counts: tuple[int, ...]
    #: by which the condition moves as each loop advances
    c_jumps: tuple[int, ...]
    #: the same of what is taken where it holds, in bytes
    a_jumps: tuple[int, ...]
    #: the same of what is taken elsewhere, in bytes
    b_jumps: tuple[int, ...]
    #: elements of an innermost loop
    length: int
    #: from one bool to the next; 0: one for all
    c_step: int
    #: the same of what is taken where it holds, in bytes
    a_step: int
    #: the same of what is taken elsewhere, in bytes
    b_step: int
    #: of an element
    bytes: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignalWindow(Parameters):
    """The fields of ``struct hil_signal_window``."""

    KERNEL: ClassVar[str] = "hil_signal_window"

    #: of samples
    frames: int
    #: samples of a frame, and weights
    length: int
    #: of products, to the right
    shift: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignalAutoScale(Parameters):
    """The fields of ``struct hil_signal_auto_scale``."""

    KERNEL: ClassVar[str] = "hil_signal_auto_scale"

    #: samples
    length: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignalEnergy(Parameters):
    """The fields of ``struct hil_signal_energy``."""

    KERNEL: ClassVar[str] = "hil_signal_energy"

    #: frequencies
    length: int
    #: the first one that is wanted; the others have no energy
    start: int
    #: the one behind the last that is wanted
    end: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignalFilterBank(Parameters):
    """The fields of ``struct hil_signal_filter_bank``."""

    KERNEL: ClassVar[str] = "hil_signal_filter_bank"

    #: outputs; one more than these are added up
    channels: int
    #: frequencies that channels take, added up
    taps: int
    #: of a channel's frequencies in its own sum
    weights: npt.NDArray[np.int16]
    #: of them in the sum of the next channel
    unweights: npt.NDArray[np.int16]
    #: the first one of each channel
    frequencies: npt.NDArray[np.int16]
    #: the first weight of each channel
    weight_starts: npt.NDArray[np.int16]
    #: frequencies of each channel
    widths: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilSignalSquareRoot(Parameters):
    """The fields of ``struct hil_signal_square_root``."""

    KERNEL: ClassVar[str] = "hil_signal_square_root"

    #: channels
    length: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignalLog(Parameters):
    """The fields of ``struct hil_signal_log``."""

    KERNEL: ClassVar[str] = "hil_signal_log"

    #: channels
    length: int
    #: bits by which inputs are raised
    correction: int
    #: what a logarithm of one is in the output
    scale: int
    #: ln(2) in Q16
    coefficient: int
    #: log2(1 + i / 128) - i / 128 in Q16
    table: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilSignalPcan(Parameters):
    """The fields of ``struct hil_signal_pcan``."""

    KERNEL: ClassVar[str] = "hil_signal_pcan"

    #: channels
    length: int
    #: of products with gains, to the right
    shift: int
    #: entries for each number of bits of a level of noise
    gains: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilSoftmaxS8(Parameters):
    """The fields of ``struct hil_softmax_s8``."""

    KERNEL: ClassVar[str] = "hil_softmax_s8"

    #: that each add up to one
    rows: int
    #: elements of a row
    depth: int
    #: distances to the row's maximum below this one have an exponential
    near: int
    #: of minus the distance, in Q0.31; of others nothing is left
    exponentials: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilSoftmaxEvenS8(Parameters):
    """The fields of ``struct hil_softmax_even_s8``."""

    KERNEL: ClassVar[str] = "hil_softmax_even_s8"

    #: that each add up to one
    rows: int
    #: elements of a row
    depth: int
    #: distances to the row's maximum below this one have an exponential
    near: int
    #: of the share, in Q0.31: one over the output's scale
    multiplier: int
    #: shift of the sum that the product is divided by
    left: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of minus the distance, in Q1.30; of others nothing is left
    exponentials: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilSoftmaxEvenS16(Parameters):
    """The fields of ``struct hil_softmax_even_s16``."""

    KERNEL: ClassVar[str] = "hil_softmax_even_s16"

    #: that each add up to one
    rows: int
    #: elements of a row
    depth: int
    #: distances to the row's maximum whose upper byte is below this one have an exponential
    near: int
    #: of the share, in Q0.31: one over the output's scale
    multiplier: int
    #: shift of the sum that the product is divided by
    left: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: exponentials of minus the upper byte, in Q1.30
    coarse: npt.NDArray[np.int32]
    #: those of minus each lower byte
    fine: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilSoftmaxF32(Parameters):
    """The fields of ``struct hil_softmax_f32``."""

    KERNEL: ClassVar[str] = "hil_softmax_f32"

    #: that each add up to one
    rows: int
    #: elements of a row
    depth: int
    #: factor of the exponents
    beta: float


@record(frozen=True, eq=False, kw_only=True)
class HilSoftmaxS16(Parameters):
    """The fields of ``struct hil_softmax_s16``."""

    KERNEL: ClassVar[str] = "hil_softmax_s16"

    #: of values, each by itself
    rows: int
    #: values of a row
    depth: int
    #: of the distance to the row's maximum: 10 become 65535
    multiplier: int
    #: to the left; negative ones are to the right
    shift: int
    #: of -10 to 0, in 512 steps of Q0.15
    exponentials: npt.NDArray[np.int16]
    #: 1 / (1 + x) for x from 0 to 1, likewise
    reciprocals: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilSoftmaxS8S16(Parameters):
    """The fields of ``struct hil_softmax_s8_s16``."""

    KERNEL: ClassVar[str] = "hil_softmax_s8_s16"

    #: that each add up to one
    rows: int
    #: elements of a row
    depth: int
    #: distances to the row's maximum below this one have an exponential
    near: int
    #: of minus the distance, in Q0.31; of others nothing is left
    exponentials: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilSignalDelay(Parameters):
    """The fields of ``struct hil_signal_delay``."""

    KERNEL: ClassVar[str] = "hil_signal_delay"

    #: of samples
    rows: int
    #: samples of a row
    frame: int
    #: samples that a row remembers
    delay: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignalFramer(Parameters):
    """The fields of ``struct hil_signal_framer``."""

    KERNEL: ClassVar[str] = "hil_signal_framer"

    #: of samples
    rows: int
    #: that an input completes in a row
    frames: int
    #: samples of a frame
    size: int
    #: samples from a frame to the next
    step: int
    #: samples that a row remembers
    memory: int
    #: those of them that the first frame leaves out
    skipped: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignalStacker(Parameters):
    """The fields of ``struct hil_signal_stacker``."""

    KERNEL: ClassVar[str] = "hil_signal_stacker"

    #: numbers of a row
    channels: int
    #: numbers of all rows of an output
    size: int
    #: rows behind the current one
    right: int
    #: rows from a valid output to the next
    step: int


@record(frozen=True, eq=False, kw_only=True)
class HilCircularBuffer(Parameters):
    """The fields of ``struct hil_circular_buffer``."""

    KERNEL: ClassVar[str] = "hil_circular_buffer"

    #: bytes that stay, and move to the front
    kept: int
    #: bytes that come
    row: int


@record(frozen=True, eq=False, kw_only=True)
class HilSignalOverlapS16(Parameters):
    """The fields of ``struct hil_signal_overlap_s16``."""

    KERNEL: ClassVar[str] = "hil_signal_overlap_s16"

    overlap: HilOverlap


@record(frozen=True, eq=False, kw_only=True)
class HilSignalOverlapF32(Parameters):
    """The fields of ``struct hil_signal_overlap_f32``."""

    KERNEL: ClassVar[str] = "hil_signal_overlap_f32"

    overlap: HilOverlap


@record(frozen=True, eq=False, kw_only=True)
class HilSignalSubtract(Parameters):
    """The fields of ``struct hil_signal_subtract``."""

    KERNEL: ClassVar[str] = "hil_signal_subtract"

    #: channels
    length: int
    #: share of the signal in the estimate, of even channels
    smoothing: int
    #: share of the old estimate
    one_minus_smoothing: int
    #: the same of odd channels
    odd_smoothing: int
    #: share of the old estimate of odd channels
    odd_one_minus_smoothing: int
    #: share of the signal that is left at least
    remaining: int
    #: of fraction of the estimate
    smoothing_bits: int
    #: of fraction of all shares
    bits: int
    #: 1: the estimate never exceeds the signal
    clamping: int


@record(frozen=True, eq=False, kw_only=True)
class HilSvdfS8StateS16(Parameters):
    """The fields of ``struct hil_svdf_s8_state_s16``."""

    KERNEL: ClassVar[str] = "hil_svdf_s8_state_s16"

    svdf: HilSvdf
    svdf_s8: HilSvdfS8
    #: weights of features, [filters][memory]
    moments: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilSvdfS8StateS8(Parameters):
    """The fields of ``struct hil_svdf_s8_state_s8``."""

    KERNEL: ClassVar[str] = "hil_svdf_s8_state_s8"

    svdf: HilSvdf
    svdf_s8: HilSvdfS8
    #: weights of features, [filters][memory]
    moments: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilSvdfF32(Parameters):
    """The fields of ``struct hil_svdf_f32``."""

    KERNEL: ClassVar[str] = "hil_svdf_f32"

    svdf: HilSvdf
    #: the least output
    low: float
    #: the largest output
    high: float
    #: of features, [filters][depth]
    weights: npt.NDArray[np.float32]
    #: weights of features, [filters][memory]
    moments: npt.NDArray[np.float32]
    #: of units
    bias: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilTransposeConv2dS8(Parameters):
    """The fields of ``struct hil_transpose_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_transpose_conv2d_s8"

    transposed: HilTransposed
    #: what is added to each input: less its zero point
    in_offset: int
    output_range: HilOutputRange
    #: of sums: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: 1: each output channel has a multiplier and a shift; 0: one for all
    per_channel: int
    #: of each output channel
    bias: npt.NDArray[np.int32]
    #: in Q0.31
    multipliers: npt.NDArray[np.int32]
    #: of the products, to the left; below 0 to the right
    shifts: npt.NDArray[np.int8]
    #: [out_c][filter_h][filter_w][in_c]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilTransposeConv2dS16(Parameters):
    """The fields of ``struct hil_transpose_conv2d_s16``."""

    KERNEL: ClassVar[str] = "hil_transpose_conv2d_s16"

    transposed: HilTransposed
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: 1: each channel has a multiplier and a shift, 0: one for all
    per_channel: int
    #: of each channel the lower word, then the upper one
    bias: npt.NDArray[np.int32]
    #: of 15 bits
    multipliers: npt.NDArray[np.int16]
    #: to the right, 8 to 46
    shifts: npt.NDArray[np.int8]
    #: [out_c][filter_h][filter_w][in_c]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilTransposeConv2dS16Even(Parameters):
    """The fields of ``struct hil_transpose_conv2d_s16_even``."""

    KERNEL: ClassVar[str] = "hil_transpose_conv2d_s16_even"

    transposed: HilTransposed
    #: what is added to each input: less its zero point
    in_offset: int
    output_range: HilOutputRange
    #: 1: each channel has a multiplier and a shift, 0: one for all
    per_channel: int
    #: of each channel the lower word, then the upper one
    bias: npt.NDArray[np.int32]
    #: in Q0.31
    multipliers: npt.NDArray[np.int32]
    #: of the products, to the left; below 0 to the right
    shifts: npt.NDArray[np.int8]
    #: [out_c][filter_h][filter_w][in_c]
    weights: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilTransposeConv2dF32(Parameters):
    """The fields of ``struct hil_transpose_conv2d_f32``."""

    KERNEL: ClassVar[str] = "hil_transpose_conv2d_f32"

    transposed: HilTransposed
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of each output channel
    bias: npt.NDArray[np.float32]
    #: [out_c][filter_h][filter_w][in_c]
    weights: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilTreesF32(Parameters):
    """The fields of ``struct hil_trees_f32``."""

    KERNEL: ClassVar[str] = "hil_trees_f32"

    #: of the input
    rows: int
    #: of a row
    features: int
    #: sums of a row
    targets: int
    #: added up
    trees: int
    #: nodes that a row visits, by estimate
    visited: int
    #: [trees] places of their first nodes
    roots: npt.NDArray[np.int32]
    #: [nodes] what a feature is at most, as an integer of its order; of a leaf the bits of the
    #: float that is added
    values: npt.NDArray[np.int32]
    #: [nodes] twice the feature, and 1 where what is no number counts as small; -1 for the last
    #: entry of a leaf, -2 for others
    tests: npt.NDArray[np.int16]
    #: [nodes] how far on the node is that follows where the feature is above; of a leaf the sum
    #: that it is added to
    nexts: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilLutS8(Parameters):
    """The fields of ``struct hil_lut_s8``."""

    KERNEL: ClassVar[str] = "hil_lut_s8"

    #: elements
    size: int
    #: the values for the bytes 0x00 to 0xff
    table: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilClampF32Each(Parameters):
    """The fields of ``struct hil_clamp_f32_each``."""

    KERNEL: ClassVar[str] = "hil_clamp_f32_each"

    #: elements
    size: int
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilLeakyReluF32(Parameters):
    """The fields of ``struct hil_leaky_relu_f32``."""

    KERNEL: ClassVar[str] = "hil_leaky_relu_f32"

    #: elements
    size: int
    #: factor of values below 0
    alpha: float


@record(frozen=True, eq=False, kw_only=True)
class HilLogisticF32(Parameters):
    """The fields of ``struct hil_logistic_f32``."""

    KERNEL: ClassVar[str] = "hil_logistic_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilTanhF32(Parameters):
    """The fields of ``struct hil_tanh_f32``."""

    KERNEL: ClassVar[str] = "hil_tanh_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilHardSwishF32(Parameters):
    """The fields of ``struct hil_hard_swish_f32``."""

    KERNEL: ClassVar[str] = "hil_hard_swish_f32"

    #: elements
    size: int


@record(frozen=True, eq=False, kw_only=True)
class HilLeakyReluS16(Parameters):
    """The fields of ``struct hil_leaky_relu_s16``."""

    KERNEL: ClassVar[str] = "hil_leaky_relu_s16"

    #: elements
    size: int
    #: of what is not negative
    multiplier: int
    #: to the left; negative ones are to the right
    shift: int
    #: of what is below 0
    negative_multiplier: int
    #: likewise, to the left; below 0 to the right
    negative_shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilClampS16(Parameters):
    """The fields of ``struct hil_clamp_s16``."""

    KERNEL: ClassVar[str] = "hil_clamp_s16"

    #: elements
    size: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilLutS16(Parameters):
    """The fields of ``struct hil_lut_s16``."""

    KERNEL: ClassVar[str] = "hil_lut_s16"

    #: elements
    size: int
    #: values at the ends of 512 steps, between which lines are drawn
    table: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilLogisticS16(Parameters):
    """The fields of ``struct hil_logistic_s16``."""

    KERNEL: ClassVar[str] = "hil_logistic_s16"

    sigmoid_s16: HilSigmoidS16


@record(frozen=True, eq=False, kw_only=True)
class HilTanhS16(Parameters):
    """The fields of ``struct hil_tanh_s16``."""

    KERNEL: ClassVar[str] = "hil_tanh_s16"

    sigmoid_s16: HilSigmoidS16


@record(frozen=True, eq=False, kw_only=True)
class HilCurveS16(Parameters):
    """The fields of ``struct hil_curve_s16``."""

    KERNEL: ClassVar[str] = "hil_curve_s16"

    #: elements
    size: int
    #: inputs from one height to the next are 2^bits
    bits: int
    #: of what is added to the line: 0, 1, 2, 4, 8 or 16
    rest_bits: int
    #: what is added beside it
    least: int
    #: values of the least input and of those 2^bits apart; one more
    heights: npt.NDArray[np.int16]
    #: of each input, from the least one on; the lower bits first
    rests: npt.NDArray[np.uint8]


@record(frozen=True, eq=False, kw_only=True)
class HilBatchMatmulS8Mve(Parameters):
    """The fields of ``struct hil_batch_matmul_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_batch_matmul_s8_mve"

    batch_matmul: HilBatchMatmul
    #: of sixteen elements, the depth rounded up
    chunks: int
    #: what is added to each element of the first matrix
    a_offset: int
    #: what is added to each element of the second one
    b_offset: int
    #: of the output
    out_zero_point: int
    #: in Q0.31
    multiplier: int
    #: of the products, to the left; below 0
    shift: int
    #: 1: sums are rounded once, half up; 0: twice
    once: int


@record(frozen=True, eq=False, kw_only=True)
class HilBatchMatmulF32Mve(Parameters):
    """The fields of ``struct hil_batch_matmul_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_batch_matmul_f32_mve"

    batch_matmul: HilBatchMatmul
    #: of two elements, the depth rounded up
    units: int
    #: columns that are packed at a time, a multiple of four
    group: int


@record(frozen=True, eq=False, kw_only=True)
class HilBatchMatmulRowsF32Mve(Parameters):
    """The fields of ``struct hil_batch_matmul_rows_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_batch_matmul_rows_f32_mve"

    batch_matmul: HilBatchMatmul


@record(frozen=True, eq=False, kw_only=True)
class HilSumS8Mve(Parameters):
    """The fields of ``struct hil_sum_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_sum_s8_mve"

    #: elements
    size: int
    #: 1: b is taken from a
    subtract: int
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: of the first operand, in Q0.31
    a_multiplier: int
    #: 0 for a factor of one half, below 0 for others; the same for b
    a_shift: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: of the second operand, in Q0.31
    b_multiplier: int
    #: of that product, as a_shift
    b_shift: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the sum, in Q0.31
    out_multiplier: int
    #: below 0
    out_shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilScaledSumS8Mve(Parameters):
    """The fields of ``struct hil_scaled_sum_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_scaled_sum_s8_mve"

    #: elements
    size: int
    #: of the first operand; the output is (a * a_factor + b * b_factor + constant) >> shift, within
    #: int32 for every pair, then clamped
    a_factor: int
    #: of the second operand
    b_factor: int
    #: added to both products
    constant: int
    #: to the right, of the sum
    shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAddF32Mve(Parameters):
    """The fields of ``struct hil_add_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_add_f32_mve"

    binary_f32: HilBinaryF32


@record(frozen=True, eq=False, kw_only=True)
class HilSubF32Mve(Parameters):
    """The fields of ``struct hil_sub_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_sub_f32_mve"

    binary_f32: HilBinaryF32


@record(frozen=True, eq=False, kw_only=True)
class HilMulF32Mve(Parameters):
    """The fields of ``struct hil_mul_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_mul_f32_mve"

    binary_f32: HilBinaryF32


@record(frozen=True, eq=False, kw_only=True)
class HilConv2d3x3LinesS8Mve(Parameters):
    """The fields of ``struct hil_conv2d_3x3_lines_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_conv2d_3x3_lines_s8_mve"

    images: HilImages
    #: 1 or 2
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: rows of outputs at a time
    lines: int
    #: of 16 channels, rounded up
    chunks: int
    #: of windows of a row, rounded up
    fours: int
    #: columns under whole fours of windows
    width: int
    #: filters, even
    columns: int
    #: 1: outputs are clamped to less than int8
    any: int
    #: as in HIL_MVE_COLUMNS_FIELDS
    linear: int
    output_range: HilOutputRange
    #: the head draws it
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilConv2d3x3S8Mve(Parameters):
    """The fields of ``struct hil_conv2d_3x3_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_conv2d_3x3_s8_mve"

    #: in_c: 16, 32 or 64
    images: HilImages
    #: 1 or 2
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: filters, even
    columns: int
    #: 1: outputs are clamped to less than int8, or out_w is no multiple of 4
    any: int
    #: as in HIL_MVE_COLUMNS_FIELDS
    linear: int
    output_range: HilOutputRange
    #: the head draws it
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dF32Mve(Parameters):
    """The fields of ``struct hil_conv2d_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_conv2d_f32_mve"

    images: HilImages
    window: HilWindow
    mve_columns_f32: HilMveColumnsF32


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dRgbS8Mve(Parameters):
    """The fields of ``struct hil_conv2d_rgb_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_conv2d_rgb_s8_mve"

    #: images
    batch: int
    #: rows of an input image
    in_h: int
    #: columns of an input image
    in_w: int
    #: rows of an output image
    out_h: int
    #: whole groups
    out_w: int
    #: 1 or 2
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: windows at a time: 4 of eight columns, or 2
    group: int
    #: 1: there are eight columns, and the stream is that of hil_mve_pixels_2_eight; 0: whole
    #: sixteens
    eight: int
    #: groups of a row that reach beyond its begin
    before: int
    #: groups behind these that may be read where they lie
    direct: int
    mve_pixels: HilMvePixels


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dS16Mve(Parameters):
    """The fields of ``struct hil_conv2d_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_conv2d_s16_mve"

    images: HilImages
    window: HilWindow
    #: of positions outside the image
    in_zero_point: int
    mve_columns_s16: HilMveColumnsS16


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dS8Mve(Parameters):
    """The fields of ``struct hil_conv2d_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_conv2d_s8_mve"

    images: HilImages
    window: HilWindow
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: of a gathered row, from the pixels under a row of the filter to those under the next: as many
    #: as there are, or, without dilation, whole chunks
    run_step: int
    mve_columns: HilMveColumns


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dSixesS8Mve(Parameters):
    """The fields of ``struct hil_conv2d_sixes_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_conv2d_sixes_s8_mve"

    images: HilImages
    #: rows of the filter
    filter_h: int
    #: columns of the filter
    filter_w: int
    #: input rows from a window to the one below it
    stride_h: int
    #: input columns from a window to the next
    stride_w: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: rows of outputs at a time
    lines: int
    #: of windows at a time
    sixes: int
    #: of the image under them
    rows: int
    #: of such a row
    row_bytes: int
    #: the head draws it
    taps: npt.NDArray[np.uint8]
    mve_pixels: HilMvePixels


@record(frozen=True, eq=False, kw_only=True)
class HilConv2dWindowsS8Mve(Parameters):
    """The fields of ``struct hil_conv2d_windows_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_conv2d_windows_s8_mve"

    #: images
    batch: int
    #: rows of an input image
    in_h: int
    #: columns of an input image
    in_w: int
    #: rows of an output image
    out_h: int
    #: columns of an output image
    out_w: int
    #: 1 or 2
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: outputs of a window, even, at most 36
    columns: int
    #: rows of outputs at a time
    lines: int
    #: windows of a row that reach beyond its begin
    before: int
    #: windows behind these that may be loaded where they lie
    direct: int
    #: 1: sums are rounded once
    once: int
    #: as the head of shallow_s8.h draws it
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDepthwise3x3S16Mve(Parameters):
    """The fields of ``struct hil_depthwise_3x3_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_depthwise_3x3_s16_mve"

    images: HilImages
    #: 1 or 2, along both axes
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which it reaches to its left
    pad_left: int
    #: of outputs at a time
    rows: int
    #: 1: lines are columns, 0: they are rows
    upright: int
    #: elements of a line of the plane
    line: int
    #: of the plane, those of a missing second line of outputs too
    lines: int
    #: of positions outside the image
    in_zero_point: int
    #: 1: outputs have a shift and a zero point, 0: neither
    shifted: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: [in_c][9]: line by line
    weights: npt.NDArray[np.int8]
    #: of each channel: bias, multiplier, shift, zero point
    scales: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilDepthwiseConv2dF32Mve(Parameters):
    """The fields of ``struct hil_depthwise_conv2d_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_depthwise_conv2d_f32_mve"

    images: HilImages
    window: HilWindow
    #: floats of a row in scratch
    line: int
    #: rows that a window spans
    lines: int
    #: of the image that windows reach, from the first
    columns: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: per four channels [filter_h][filter_w][4 channels], the four biases
    stream: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilDepthwiseConv2dS8Mve(Parameters):
    """The fields of ``struct hil_depthwise_conv2d_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_depthwise_conv2d_s8_mve"

    images: HilImages
    #: at most 3 with stride 1, 4 with stride 2
    filter_h: int
    #: the same, of columns
    filter_w: int
    #: 1 or 2
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: at most 8
    planes: int
    #: 1: sixteen pixels of a channel lie within the reach of a gather
    gathered: int
    #: 1: else, the first eight channels of two pixels do
    paired: int
    #: output rows of a band, whole parts unless there is but one band
    band_h: int
    #: output columns at a time: all, or, where band_h is 1, a divisor of out_w
    tile_w: int
    #: output rows of the table
    part_h: int
    #: iterations of the table
    part_iterations: int
    #: iterations behind them, for out_h % part_h rows
    rest_iterations: int
    #: behind those, of four tiles of 2x1 outputs of an odd last column; 0: there are none
    half_iterations: int
    #: input rows of a band, as far as patches reach
    plane_h: int
    #: input columns of a tile, even, as far as patches reach
    plane_w: int
    #: 1: the table's iterations have masks
    masked: int
    #: as in HIL_MVE_PIXELS_FIELDS
    any: int
    #: the same
    first: int
    #: bytes of a copy of the table with addresses of tiles, which is faster; with stride 1 and
    #: neither masks nor bounds. 0: there is none
    addressed: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    output_range: HilOutputRange
    #: iterations of int32 places of two tiles in a plane, where masked a mask between them, and
    #: uint16 places of their outputs; of a last column int32 places of four tiles, and uint16
    #: places
    table: npt.NDArray[np.int8]
    #: the head draws it
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDepthwiseRowsS8Mve(Parameters):
    """The fields of ``struct hil_depthwise_rows_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_depthwise_rows_s8_mve"

    images: HilImages
    #: at most 5, dilation included
    filter_h: int
    #: at most 8, likewise
    filter_w: int
    #: 1 or 2
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: channels at a time, at most 8
    planes: int
    #: input rows of a band: 12 with stride 1, 19 with stride 2
    plane_h: int
    #: input columns, as far as windows reach: 32 or 96
    plane_w: int
    #: as in HIL_MVE_PIXELS_FIELDS
    any: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    output_range: HilOutputRange
    #: the head draws it
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilDepthwiseStripsS8Mve(Parameters):
    """The fields of ``struct hil_depthwise_strips_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_depthwise_strips_s8_mve"

    images: HilImages
    #: at most 3
    filter_h: int
    #: the same, of columns
    filter_w: int
    #: 1 or 2
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: output rows of a band, all alike
    band_h: int
    #: of a channel
    strips: int
    #: rows of a strip, as far as patches reach
    plane_h: int
    #: pairs of pixels whose first eight channels a gather reaches: 0 to 2
    gathered: int
    #: 1: some outputs of turns are not stored
    masked: int
    #: 1: the other kind of turns takes two parts of one strip
    singles: int
    #: 1: it takes the last column; 0 and 0: there is none
    column: int
    #: 1: and behind it the last row of all columns
    corner: int
    #: runs of a channel
    band_runs: int
    #: of all runs, but those of a last column
    turns: int
    #: of a last column, and of the last row behind it
    column_turns: int
    #: 1: a shift is below -8
    far: int
    #: 1: sums are rounded once
    once: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: the head draws it
    filters: npt.NDArray[np.int8]
    #: the same
    scales: npt.NDArray[np.int32]
    #: the same
    places: npt.NDArray[np.int8]
    #: the same
    runs: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilMulS8Mve(Parameters):
    """The fields of ``struct hil_mul_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_mul_s8_mve"

    binary: HilBinary
    #: the first operand's value that stands for 0.0
    a_zero_point: int
    #: the second operand's value that stands for 0.0
    b_zero_point: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: of the product, in Q0.31
    multiplier: int
    #: of that, 0 or below: to the right
    shift: int
    #: 1: rounded once, half up, with a shift below 0; 0: twice
    once: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilSumS16Mve(Parameters):
    """The fields of ``struct hil_sum_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_sum_s16_mve"

    sum_s16: HilSumS16
    #: 1: the second operand is taken from the first
    subtract: int


@record(frozen=True, eq=False, kw_only=True)
class HilMulS16Mve(Parameters):
    """The fields of ``struct hil_mul_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_mul_s16_mve"

    binary: HilBinary
    #: of the product, in Q0.31
    multiplier: int
    #: of that, 0 or below: to the right
    shift: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilLayerNormS8Mve(Parameters):
    """The fields of ``struct hil_layer_norm_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_layer_norm_s8_mve"

    layer_norm: HilLayerNorm


@record(frozen=True, eq=False, kw_only=True)
class HilLstmS8Mve(Parameters):
    """The fields of ``struct hil_lstm_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_lstm_s8_mve"

    mve_lstm: HilMveLstm


@record(frozen=True, eq=False, kw_only=True)
class HilLstmS16Mve(Parameters):
    """The fields of ``struct hil_lstm_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_lstm_s16_mve"

    mve_lstm: HilMveLstm


@record(frozen=True, eq=False, kw_only=True)
class HilMatmulF32Mve(Parameters):
    """The fields of ``struct hil_matmul_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_matmul_f32_mve"

    #: of values, each by itself
    rows: int
    #: values of a row
    depth: int
    mve_columns_f32: HilMveColumnsF32


@record(frozen=True, eq=False, kw_only=True)
class HilVectorF32Mve(Parameters):
    """The fields of ``struct hil_vector_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_vector_f32_mve"

    #: of values, each by itself
    rows: int
    #: values of a row
    depth: int
    #: of the weights
    columns: int
    #: the least output
    out_min: float
    #: the largest output
    out_max: float
    #: of sixteens of columns, columns_f32.h draws it
    stream: npt.NDArray[np.float32]


@record(frozen=True, eq=False, kw_only=True)
class HilMatmulS16Mve(Parameters):
    """The fields of ``struct hil_matmul_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_matmul_s16_mve"

    #: of the input
    rows: int
    #: elements of a row
    depth: int
    mve_columns_s16: HilMveColumnsS16


@record(frozen=True, eq=False, kw_only=True)
class HilVectorS16Mve(Parameters):
    """The fields of ``struct hil_vector_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_vector_s16_mve"

    #: of the input
    rows: int
    #: elements of a row
    depth: int
    #: of sixteen weights, the depth rounded up
    chunks: int
    #: of the weights
    columns: int
    #: 1: outputs have a shift and a zero point, 0: neither
    shifted: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: blocks_s16.h draws it
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilMatmulS8Mve(Parameters):
    """The fields of ``struct hil_matmul_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_matmul_s8_mve"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    mve_columns: HilMveColumns


@record(frozen=True, eq=False, kw_only=True)
class HilVectorS8Mve(Parameters):
    """The fields of ``struct hil_vector_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_vector_s8_mve"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    #: of 16 weights, the depth rounded up
    chunks: int
    #: 1: the depth is not whole chunks, so that rows are copied to be read so
    copied: int
    #: 1: one multiplier and one shift for all columns
    uniform: int
    #: as in HIL_MVE_COLUMNS_FIELDS
    linear: int
    output_range: HilOutputRange
    #: blocks_s8.h draws it, columns filled up to groups of eight
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilSwapAxesMve(Parameters):
    """The fields of ``struct hil_swap_axes_mve``."""

    KERNEL: ClassVar[str] = "hil_swap_axes_mve"

    #: matrices, one after the other
    blocks: int
    #: of the input, columns of the output
    rows: int
    #: of the input, rows of the output; this or the other is at most 17
    columns: int


@record(frozen=True, eq=False, kw_only=True)
class HilPixelsS8Mve(Parameters):
    """The fields of ``struct hil_pixels_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_pixels_s8_mve"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: last rows that are copied
    copied: int
    #: 1: each two rows are copied first, so that outputs may take their place
    staged: int
    mve_pixels: HilMvePixels


@record(frozen=True, eq=False, kw_only=True)
class HilPointsS8Mve(Parameters):
    """The fields of ``struct hil_points_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_points_s8_mve"

    images: HilImages
    #: input rows from a window to the one below it
    stride_h: int
    #: input columns from a window to the next
    stride_w: int
    #: last pixels of each row that are copied
    copied: int
    mve_pixels: HilMvePixels


@record(frozen=True, eq=False, kw_only=True)
class HilStripsS8Mve(Parameters):
    """The fields of ``struct hil_strips_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_strips_s8_mve"

    images: HilImages
    #: rows of the filter
    filter_h: int
    #: columns of the filter
    filter_w: int
    #: input rows from a window to the one below it
    stride_h: int
    #: input columns from a window to the next
    stride_w: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: windows of a strip, even or all
    strip_w: int
    #: rows of windows at a time, where a strip has all of a row's
    lines: int
    #: of a row under a strip
    strip_bytes: int
    #: 1: there are eight columns of two chunks, and the stream is that of hil_mve_pixels_2_eight
    eight: int
    #: [chunks][16]: from a window's first byte to each of its bytes
    taps: npt.NDArray[np.uint8]
    mve_pixels: HilMvePixels


@record(frozen=True, eq=False, kw_only=True)
class HilAveragePoolS8Mve(Parameters):
    """The fields of ``struct hil_average_pool_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_average_pool_s8_mve"

    pool_windows: HilPoolWindows
    #: 2^24 over the window's size, rounded up
    reciprocal: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilScaledPoolS8Mve(Parameters):
    """The fields of ``struct hil_scaled_pool_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_scaled_pool_s8_mve"

    pool_windows: HilPoolWindows
    #: minus the input's zero point of all pixels of a window
    offset: int
    #: of the sum, in Q0.31
    multiplier: int
    #: of the product, to the left; below 0 to the right
    shift: int
    #: of that: HIL_ROUND_TWICE and others (quant.h)
    rounding: int
    #: the output that stands for 0.0
    out_zero_point: int
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilMaxPoolS8Mve(Parameters):
    """The fields of ``struct hil_max_pool_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_max_pool_s8_mve"

    pool: HilPool
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilMaxPoolS16Mve(Parameters):
    """The fields of ``struct hil_max_pool_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_max_pool_s16_mve"

    pool: HilPool
    #: the least output
    low: int
    #: the largest output
    high: int


@record(frozen=True, eq=False, kw_only=True)
class HilAveragePoolF32Mve(Parameters):
    """The fields of ``struct hil_average_pool_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_average_pool_f32_mve"

    pool: HilPool
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilMaxPoolF32Mve(Parameters):
    """The fields of ``struct hil_max_pool_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_max_pool_f32_mve"

    pool: HilPool
    #: the least output, at most 0
    low: float
    #: the largest output, at least 0
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilMeanF32Mve(Parameters):
    """The fields of ``struct hil_mean_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_mean_f32_mve"

    mean: HilMean
    #: blocks of the input
    outer: int
    #: averaged into an output, so many elements apart:
    values: int
    #: neighbours of a block that are kept
    inner: int
    #: what a sum is divided by
    count: float


@record(frozen=True, eq=False, kw_only=True)
class HilAverageRowsF32Mve(Parameters):
    """The fields of ``struct hil_average_rows_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_average_rows_f32_mve"

    average_rows: HilAverageRows
    #: the least output
    low: float
    #: the largest output
    high: float


@record(frozen=True, eq=False, kw_only=True)
class HilMeanRowsF32Mve(Parameters):
    """The fields of ``struct hil_mean_rows_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_mean_rows_f32_mve"

    mean_rows: HilMeanRows
    #: what a sum is divided by
    count: float


@record(frozen=True, eq=False, kw_only=True)
class HilQuadsS8Mve(Parameters):
    """The fields of ``struct hil_quads_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_quads_s8_mve"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: first rows that are read where they lie, whole fours
    direct: int
    #: 1: there are others
    copied: int
    mve_pixels: HilMvePixels


@record(frozen=True, eq=False, kw_only=True)
class HilShallowS8Mve(Parameters):
    """The fields of ``struct hil_shallow_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_shallow_s8_mve"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row, 8 or 16
    depth: int
    #: outputs of a row, even, at most 36
    columns: int
    #: rows at a time, whole sixteens
    block: int
    #: 1: sums are rounded once
    once: int
    #: the head draws it
    stream: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilSixesS8Mve(Parameters):
    """The fields of ``struct hil_sixes_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_sixes_s8_mve"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row, more than 16
    depth: int
    #: first rows that are read where they lie, whole sixes
    direct: int
    #: 1: there are others
    copied: int
    mve_pixels: HilMvePixels


@record(frozen=True, eq=False, kw_only=True)
class HilSoftmaxF32Mve(Parameters):
    """The fields of ``struct hil_softmax_f32_mve``."""

    KERNEL: ClassVar[str] = "hil_softmax_f32_mve"

    #: that each add up to one
    rows: int
    #: elements of a row
    depth: int
    #: factor of the exponents
    beta: float


@record(frozen=True, eq=False, kw_only=True)
class HilSvdfS8StateS16Mve(Parameters):
    """The fields of ``struct hil_svdf_s8_state_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_svdf_s8_state_s16_mve"

    mve_svdf: HilMveSvdf
    #: weights of features, [filters][memory]
    moments: npt.NDArray[np.int16]


@record(frozen=True, eq=False, kw_only=True)
class HilSvdfS8StateS8Mve(Parameters):
    """The fields of ``struct hil_svdf_s8_state_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_svdf_s8_state_s8_mve"

    mve_svdf: HilMveSvdf
    #: weights of features, [filters][memory]
    moments: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilLutS8Mve(Parameters):
    """The fields of ``struct hil_lut_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_lut_s8_mve"

    #: elements
    size: int
    #: the values for the bytes 0x00 to 0xff
    table: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilTransposeConv2dS16Mve(Parameters):
    """The fields of ``struct hil_transpose_conv2d_s16_mve``."""

    KERNEL: ClassVar[str] = "hil_transpose_conv2d_s16_mve"

    phases: HilPhases
    #: of positions outside the image
    in_zero_point: int
    #: Of the deepest phase; the stream is that of all phases.
    mve_columns_s16: HilMveColumnsS16


@record(frozen=True, eq=False, kw_only=True)
class HilTransposeConv2dS8Mve(Parameters):
    """The fields of ``struct hil_transpose_conv2d_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_transpose_conv2d_s8_mve"

    phases: HilPhases
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: Of the deepest phase; the stream is that of all phases.
    mve_columns: HilMveColumns


@record(frozen=True, eq=False, kw_only=True)
class HilVectorSumsS8Mve(Parameters):
    """The fields of ``struct hil_vector_sums_s8_mve``."""

    KERNEL: ClassVar[str] = "hil_vector_sums_s8_mve"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    #: of 16 weights, the depth rounded up
    chunks: int
    #: 1: the depth is not whole chunks, so that rows are copied to be read so
    copied: int
    #: columns whose sums are computed at a time, whole sixteens
    group: int
    #: 1: one multiplier and one shift for all columns
    uniform: int
    #: as in HIL_MVE_PIXELS_FIELDS
    any: int
    output_range: HilOutputRange
    #: the head draws it, columns filled up to sixteens
    stream: npt.NDArray[np.int8]
    #: the head draws it
    scale: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilNarrowMatmulS16(Parameters):
    """The fields of ``struct hil_narrow_matmul_s16``."""

    KERNEL: ClassVar[str] = "hil_narrow_matmul_s16"

    #: of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    narrow_columns: HilNarrowColumns


@record(frozen=True, eq=False, kw_only=True)
class HilNarrowConv2dS16(Parameters):
    """The fields of ``struct hil_narrow_conv2d_s16``."""

    KERNEL: ClassVar[str] = "hil_narrow_conv2d_s16"

    images: HilImages
    window: HilWindow
    narrow_columns: HilNarrowColumns


@record(frozen=True, eq=False, kw_only=True)
class HilNarrowDepthwiseS16(Parameters):
    """The fields of ``struct hil_narrow_depthwise_s16``."""

    KERNEL: ClassVar[str] = "hil_narrow_depthwise_s16"

    images: HilImages
    window: HilWindow
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: [in_c][filter_h][filter_w]
    weights: npt.NDArray[np.int8]
    #: of each channel
    bias: npt.NDArray[np.int32]
    #: of positions outside the image
    in_zero_point: int
    #: 1: `words` make outputs, 0: `scales` do
    shifted: int
    #: of each channel the multiplier and the shift to the right, 16 to 46
    scales: npt.NDArray[np.int16]
    #: of each channel the multiplier, the addend and the shift behind it
    words: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilNarrowLstmS8(Parameters):
    """The fields of ``struct hil_narrow_lstm_s8``."""

    KERNEL: ClassVar[str] = "hil_narrow_lstm_s8"

    narrow_lstm: HilNarrowLstm


@record(frozen=True, eq=False, kw_only=True)
class HilNarrowLstmS16(Parameters):
    """The fields of ``struct hil_narrow_lstm_s16``."""

    KERNEL: ClassVar[str] = "hil_narrow_lstm_s16"

    narrow_lstm: HilNarrowLstm


@record(frozen=True, eq=False, kw_only=True)
class HilV6mConv2dS8(Parameters):
    """The fields of ``struct hil_v6m_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_v6m_conv2d_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    v6m_columns: HilV6mColumns


@record(frozen=True, eq=False, kw_only=True)
class HilV6mConv2dStreamS8(Parameters):
    """The fields of ``struct hil_v6m_conv2d_stream_s8``."""

    KERNEL: ClassVar[str] = "hil_v6m_conv2d_stream_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: weights and scales, see stream_s8.h
    stream: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilV6mDepthwise3x3S8(Parameters):
    """The fields of ``struct hil_v6m_depthwise_3x3_s8``."""

    KERNEL: ClassVar[str] = "hil_v6m_depthwise_3x3_s8"

    images: HilImages
    #: input rows from a window to the one below it, at most 3
    stride_h: int
    #: input columns from a window to the next
    stride_w: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: output rows at a time
    band: int
    #: pixels under a row of windows
    line: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: of the multipliers: 2 or 3
    pieces: int
    #: of a piece
    bits: int
    #: 1: negative products have an addend of their own
    turns: int
    #: the least output
    out_min: int
    #: the largest output
    out_max: int
    #: HIL_V6M_SCALE_WORDS a channel, of inputs raised by 128
    scales: npt.NDArray[np.int32]
    #: [in_c][3][3]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilV6mDepthwiseTriplesS8(Parameters):
    """The fields of ``struct hil_v6m_depthwise_triples_s8``."""

    KERNEL: ClassVar[str] = "hil_v6m_depthwise_triples_s8"

    images: HilImages
    #: input rows from a window to the one below it
    stride_h: int
    #: input columns from a window to the next
    stride_w: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: output rows at a time
    band: int
    #: pixels under a row of windows
    line: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: HIL_V6M_SCALE_WORDS a channel
    scales: npt.NDArray[np.int32]
    #: [in_c][3][3]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class HilV6mMatmulS8(Parameters):
    """The fields of ``struct hil_v6m_matmul_s8``."""

    KERNEL: ClassVar[str] = "hil_v6m_matmul_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    v6m_columns: HilV6mColumns


@record(frozen=True, eq=False, kw_only=True)
class HilV6mMatmulStreamS8(Parameters):
    """The fields of ``struct hil_v6m_matmul_stream_s8``."""

    KERNEL: ClassVar[str] = "hil_v6m_matmul_stream_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    #: weights and scales, see stream_s8.h
    stream: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilV7mConv2dPackedS8(Parameters):
    """The fields of ``struct hil_v7m_conv2d_packed_s8``."""

    KERNEL: ClassVar[str] = "hil_v7m_conv2d_packed_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    v7m_packed: HilV7mPacked


@record(frozen=True, eq=False, kw_only=True)
class HilV7mConv2dS8(Parameters):
    """The fields of ``struct hil_v7m_conv2d_s8``."""

    KERNEL: ClassVar[str] = "hil_v7m_conv2d_s8"

    images: HilImages
    #: output channels
    out_c: int
    window: HilWindow
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    v7m_columns: HilV7mColumns


@record(frozen=True, eq=False, kw_only=True)
class HilV7mDepthwise3x3S8(Parameters):
    """The fields of ``struct hil_v7m_depthwise_3x3_s8``."""

    KERNEL: ClassVar[str] = "hil_v7m_depthwise_3x3_s8"

    images: HilImages
    #: 1 or 2, either way
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: output rows at a time
    band: int
    #: pixels under a row of windows
    line: int
    #: outputs at a time, 1 to 6; at most out_w
    block: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    output_range: HilOutputRange
    #: of all channels, or HIL_V7M_OWN_SHIFTS and others (v7m.h)
    even_shift: int
    #: [in_c][3][3]
    weights: npt.NDArray[np.int8]
    #: HIL_V7M_SCALE_WORDS a channel
    scales: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilV7mDepthwiseWordsS8(Parameters):
    """The fields of ``struct hil_v7m_depthwise_words_s8``."""

    KERNEL: ClassVar[str] = "hil_v7m_depthwise_words_s8"

    images: HilImages
    #: 1 or 2, either way
    stride: int
    #: rows by which the first window reaches above the image
    pad_top: int
    #: columns by which the first window reaches beyond the image
    pad_left: int
    #: output rows at a time
    band: int
    #: pixels under a row of windows
    line: int
    #: outputs at a time, 1 to 6; at most out_w
    block: int
    #: the input that stands for 0.0, which pixels outside the image have
    in_zero_point: int
    #: of upper words, to the right
    shift: int
    #: HIL_V7M_WORDS_CHANNEL words each
    channels: npt.NDArray[np.int32]


@record(frozen=True, eq=False, kw_only=True)
class HilV7mMatmulPackedS8(Parameters):
    """The fields of ``struct hil_v7m_matmul_packed_s8``."""

    KERNEL: ClassVar[str] = "hil_v7m_matmul_packed_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    v7m_packed: HilV7mPacked


@record(frozen=True, eq=False, kw_only=True)
class HilV7mMatmulS8(Parameters):
    """The fields of ``struct hil_v7m_matmul_s8``."""

    KERNEL: ClassVar[str] = "hil_v7m_matmul_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    v7m_columns: HilV7mColumns


@record(frozen=True, eq=False, kw_only=True)
class HilV7mMatvecPackedS8(Parameters):
    """The fields of ``struct hil_v7m_matvec_packed_s8``."""

    KERNEL: ClassVar[str] = "hil_v7m_matvec_packed_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    v7m_packed: HilV7mPacked


@record(frozen=True, eq=False, kw_only=True)
class HilV7mMatvecS8(Parameters):
    """The fields of ``struct hil_v7m_matvec_s8``."""

    KERNEL: ClassVar[str] = "hil_v7m_matvec_s8"

    #: rows of the input, and of the output
    rows: int
    #: elements of a row
    depth: int
    #: outputs of a row
    columns: int
    output_range: HilOutputRange
    #: as in HIL_V7M_COLUMNS_FIELDS
    even_shift: int
    #: HIL_V7M_SCALE_WORDS a column
    scales: npt.NDArray[np.int32]
    #: 128 more than they are, in blocks of eight columns: [depth][8]
    weights: npt.NDArray[np.uint8]
