"""Tensors made from numbers: constants, all of them."""

from __future__ import annotations

import numpy as np

from hilc.frontends.pt2.model import Operation, translates
from hilc.frontends.pt2.program import Ref


@translates("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.empty", "aten.new_empty",
            "aten.empty_like", "aten.empty_strided")  # fmt: skip
def zeros(c: Operation) -> str:
    """Translate an operator that makes zeros to a constant of the result's shape and type."""
    return _filled(c, 0)


@translates("aten.ones", "aten.ones_like", "aten.new_ones")
def ones(c: Operation) -> str:
    """Translate aten.ones, ones_like and new_ones to a constant of ones."""
    return _filled(c, 1)


@translates("aten.full", "aten.full_like", "aten.new_full")
def full(c: Operation) -> str:
    """Translate aten.full, full_like and new_full to a constant filled with ``fill_value``."""
    return _filled(c, c.get("fill_value"))


def _filled(c: Operation, value: float) -> str:
    return c.constant(np.full(c.result_shape, value, c.result.dtype))


@translates("aten.scalar_tensor")
def scalar_tensor(c: Operation) -> str:
    """Translate aten.scalar_tensor to a constant of rank 0."""
    return c.constant(c.get("s"), c.result.dtype)


@translates("aten.fill")
def fill(c: Operation) -> str:
    """Translate aten.fill to Expand: the value broadcast to the result's shape."""
    value = c.scalar("value", c.result.dtype)
    return c.emit("Expand", value, c.integers(c.result_shape))


@translates("aten.arange")
def arange(c: Operation) -> str:
    """PyTorch computes in double and rounds to the tensor's type."""
    start, step = c.get("start", 0), c.get("step", 1)
    (count,) = c.result_shape
    return c.constant((start + step * np.arange(count)).astype(c.result.dtype))


@translates("aten.linspace")
def linspace(c: Operation) -> str:
    """Translate aten.linspace to a constant."""
    start, end = c.get("start"), c.get("end")
    if isinstance(start, Ref) or isinstance(end, Ref):
        c.refuse("takes its ends from tensors", "give numbers")
    return c.constant(np.linspace(start, end, c.result_shape[0]), c.result.dtype)


#: Weights of the cosines of 0, 1 and 2 turns in a window.
_COSINES = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08)}


@translates(*(f"aten.{name}_window" for name in (*_COSINES, "bartlett", "kaiser")))
def window(c: Operation) -> str:
    """Translate a window to a constant; that of a periodic one is cut from one sample longer."""
    (count,), name = c.result_shape, c.call.target.split(".")[1].removesuffix("_window")
    length = count + 1 if c.get("periodic", True) and count > 1 else count
    if name == "bartlett":
        values = np.bartlett(length)
    elif name == "kaiser":
        values = np.kaiser(length, c.get("beta", 12.0))
    else:
        weights = _COSINES[name]
        if name == "hamming":
            weights = c.get("alpha", weights[0]), c.get("beta", weights[1])
        turns = 2 * np.pi * np.arange(length) / max(1, length - 1)
        signed = [(-1) ** k * w * np.cos(k * turns) for k, w in enumerate(weights)]
        values = np.sum(signed, 0) if length > 1 else np.ones(length)
    return c.constant(values[:count], c.result.dtype)


@translates("aten.fft_fftfreq", "aten.fft_rfftfreq")
def fftfreq(c: Operation) -> str:
    """Translate aten.fft_fftfreq and fft_rfftfreq to a constant."""
    find = np.fft.rfftfreq if "rfftfreq" in c.call.target else np.fft.fftfreq
    return c.constant(find(c.get("n"), c.get("d", 1.0)), c.result.dtype)


@translates("aten.eye")
def eye(c: Operation) -> str:
    """Translate aten.eye to a constant identity matrix of the result's shape (rows, columns)."""
    rows, columns = c.result_shape
    return c.constant(np.eye(rows, columns, dtype=c.result.dtype))


@translates("aten.tril_indices", "aten.triu_indices")
def triangle_indices(c: Operation) -> str:
    """Translate aten.tril_indices and triu_indices to a constant of rows and columns."""
    find = np.tril_indices if "tril" in c.call.target else np.triu_indices
    return c.constant(np.array(find(c.get("row"), c.get("offset", 0), c.get("col"))))


@translates("aten._assert_tensor_metadata", "aten._assert_scalar", "aten.sym_size",
            "aten.sym_constrain_range_for_size", "aten._assert_async")  # fmt: skip
def checked_at_export(c: Operation) -> list[str]:
    """Sizes are numbers here, types were checked by the export, and PyTorch's checks of values are
    not repeated on the device.
    """
    return []
