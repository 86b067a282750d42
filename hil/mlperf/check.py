"""Whether a device's results are those of the reference, before its throughput is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hil.errors import NumericError
from hil.firmware.mlperf import Benchmark
from hil.mlperf.dut import Dut
from hil.mlperf.runs import Item
from hil.results.parts import Fallback
from hil.results.run import MlperfChecked
from hil.verify.comparison import FLOAT_RTOL, Oracle
from hil.verify.metrics import Floats
from hilc.artifact.library import Module, TensorInfo
from hilc.ir import Array

#: Half of the last decimal that a device prints, with what rounding to float32 adds.
_PRINTED = 0.000501


@dataclass(frozen=True)
class CheckedResults:
    """Comparison of one inference's results with the reference's; they are equal."""

    file: str
    reference: str
    reference_description: str
    independent: bool
    fallback: Fallback | None

    def entry(self) -> MlperfChecked:
        """Return the comparison as the entry of ``hil mlperf`` has it."""
        return MlperfChecked(
            samples=1,
            file=self.file,
            reference=self.reference,
            reference_description=self.reference_description,
            reference_fallback=self.fallback,
            independent=self.independent,
            match=True,
        )


def check_results(
    dut: Dut, item: Item, module: Module, benchmark: Benchmark, oracle: Oracle
) -> CheckedResults:
    """Run one inference, and compare its results with the reference's, to the printed decimals.

    A streaming model has to be in its initial state. Raise :class:`~hil.errors.NumericError` if
    they differ.
    """
    dut.load(item.data)
    got = np.array(dut.infer(1, 0).results, np.float64)
    expected = expected_results(item.data, module, benchmark, oracle)
    if not _are_equal(got, expected):
        at = int(np.argmin(_close(got, expected))) if got.shape == expected.shape else 0
        raise NumericError(
            f"{module.name} on {dut.name} differs from {oracle.name} for {item.file}: result {at} "
            f"of {len(got)} is {_shown(got, at)}; expected {_shown(expected, at)} of "
            f"{len(expected)}",
            "hil verify --per-layer finds the layer; --no-check measures all the same",
        )
    return CheckedResults(
        item.file, oracle.name, oracle.description, oracle.independent, oracle.fallback
    )


def _shown(values: Floats, at: int) -> str:
    return f"{values[at]:.3f}" if at < len(values) else "missing"


def expected_results(data: bytes, module: Module, benchmark: Benchmark, oracle: Oracle) -> Floats:
    """Return the results that a device has to print for an input on the line."""
    (tensor,), output = module.inputs, module.outputs[0]
    oracle.reset_state()
    value = oracle.values(0, {tensor.name: from_wire(data, tensor, benchmark)})[output.name]
    real = _real(value, output)
    if benchmark.is_score:
        sent = np.frombuffer(data, "<f4").astype(np.float64)
        return np.array([np.mean((real - sent) ** 2)])
    return real


def from_wire(data: bytes, tensor: TensorInfo, benchmark: Benchmark) -> Array:
    """Return the model's input that a device makes of an input on the line."""
    if benchmark.wire == "uint8" and tensor.dtype == "int8":
        values = (np.frombuffer(data, np.uint8).astype(np.int16) - 128).astype(np.int8)
    elif benchmark.wire == "float32" and tensor.dtype == "int8":
        steps = np.frombuffer(data, "<f4") / np.float32(tensor.scale)
        away = np.copysign(np.floor(np.abs(steps) + np.float32(0.5)), steps)
        values = np.clip(away + (tensor.zero_point or 0), -128, 127).astype(np.int8)
    else:
        values = np.frombuffer(data, np.dtype(tensor.dtype).newbyteorder("<")).astype(tensor.dtype)
    return values.reshape(tensor.shape)


def _real(value: Array, output: TensorInfo) -> Floats:
    if output.dtype == "float32":
        return value.ravel().astype(np.float64)
    numbers = value.ravel().astype(np.float32) - np.float32(output.zero_point or 0)
    return (np.float32(output.scale) * numbers).astype(np.float64)


def _are_equal(got: Floats, expected: Floats) -> bool:
    return got.shape == expected.shape and bool(_close(got, expected).all())


def _close(got: Floats, expected: Floats) -> Array:
    finite = np.abs(expected[np.isfinite(expected)])
    tolerance = _PRINTED + FLOAT_RTOL * float(finite.max(initial=0))
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        return np.asarray(same | (np.abs(got - expected) <= tolerance))
