"""The runner of kernels must notice what kernels do wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_runner import Case, kernel_call, run
from linear_layers import make_layer
from loose_call import loose_call


@pytest.fixture
def case() -> Case:
    """A convolution that reads its whole input, writes its whole output and uses its scratch."""
    attrs: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
    attrs |= {"padding": "SAME", "activation": "NONE"}
    layer = make_layer(
        np.random.default_rng(0), "CONV_2D", "int8", (1, 4, 4, 8), (4, 3, 3, 8), attrs
    )
    call = kernel_call(layer.node, layer.ins, (layer.out,))
    return Case(call, [layer.x], [(layer.out.shape, "int8")])


def test_a_good_case_runs(case):
    ((result,),) = run([case])
    assert result.shape == (1, 4, 4, 4)


def test_writing_past_the_output_is_noticed(case):
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run([replace(case, outputs=[((1, 4, 4, 3), "int8")])])


def test_reading_past_the_input_is_noticed(case):
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run([replace(case, inputs=[case.inputs[0][:, :3]])])


def test_scratch_larger_than_asked_for_is_noticed(case):
    kernel = replace(case.call.kernel, scratch="filter_h * filter_w * in_c")
    call = loose_call(kernel, case.call.fields)
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run([replace(case, call=call)])


def test_undefined_arithmetic_is_noticed(case):
    bias = np.full(4, 2**31 - 1, np.int32)
    fields = {**case.call.fields, "bias": bias}
    with pytest.raises(AssertionError, match="signed integer overflow"):
        run([replace(case, call=loose_call(case.call.kernel, fields))])


def test_misaligned_word_access_is_noticed():
    """Tensors of bytes start at odd addresses: a float kernel run on them must be reported."""
    layer = make_layer(
        np.random.default_rng(0), "FULLY_CONNECTED", "float32", (2, 8), (4, 8),
        {"activation": "NONE", "keep_num_dims": False},
    )  # fmt: skip
    call = kernel_call(layer.node, layer.ins, (layer.out,))
    as_bytes = layer.x.view(np.int8)
    with pytest.raises(AssertionError, match="misaligned address"):
        run([Case(call, [as_bytes], [(layer.out.shape, "float32")])])
