"""How far a model's tensors are from others: of the reference, or of the model in floats.

All figures are of real numbers: integers of a quantized tensor are taken off their zero point and
multiplied by their scale. The names and formulas are those that ST Edge AI's validation prints.
With ``e = y - r`` for values ``y`` of the device and ``r`` of the other, over all elements of all
samples:

=======  ==========================================================================
rmse     ``sqrt(mean(e^2))``
mae      ``mean(|e|)``
l2r      ``|e| / |r|`` in the Euclidean norm
nse      ``1 - sum(e^2) / sum((r - mean(r))^2)`` (Nash-Sutcliffe efficiency)
cos      ``y r / (|y| |r|)``
snr_db   ``20 log10(|r| / |e|)``, in dB
top1     share of the samples whose largest element is the same (X-cross accuracy)
top5     share of the samples in which ``r``'s largest element is among ``y``'s five largest
=======  ==========================================================================

What is not defined (a division by zero: nothing differs, or all of ``r`` is zero) is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from hil.results.verify import Fidelity, TensorFidelity
from hil.verify.samples import Sample
from hilc.artifact.library import Layer, TensorInfo
from hilc.errors import InputError, ModelError
from hilc.ir import Array, Graph
from hilc.support.inputs import check_regular

#: Least number of elements of an output that are taken for scores of classes.
_CLASSES = 3
_TOP = 5


class _Sums:
    """What the figures of a tensor are made of, added up sample by sample."""

    def __init__(self, info: TensorInfo, layer: int | None) -> None:
        self.info, self.layer = info, layer
        self.samples = self.elements = self.top1 = self.top5 = 0
        self.has_classes = False
        self._largest = 0.0
        #: Sums of e^2, |e|, r, r^2, y^2 and y r.
        self._sums = np.zeros(6)

    def add(self, device: Array, other: Array) -> None:
        y, r = device.ravel(), other.ravel()
        e = y - r
        self._sums += [e @ e, np.abs(e).sum(), r.sum(), r @ r, y @ y, y @ r]
        self._largest = float(np.maximum(self._largest, np.abs(e).max(initial=0)))
        self.samples += 1
        self.elements += e.size
        self.has_classes = self.layer is None and y.size >= _CLASSES
        # NaN has no place in an order, and so no class.
        if self.has_classes and not np.isnan([y, r]).any():
            best = int(np.argmax(r))
            self.top1 += int(np.argmax(y)) == best
            self.top5 += int(np.count_nonzero(y > y[best])) < _TOP

    def result(self) -> TensorFidelity:
        squares, absolute, total, power, own, product = map(float, self._sums)
        count = self.elements
        spread = power - total * total / count
        is_different = squares > 0
        return TensorFidelity(
            name=self.info.name,
            layer=self.layer,
            elements=count,
            rmse=math.sqrt(squares / count),
            mae=absolute / count,
            max_abs_diff=self._largest,
            l2r=math.sqrt(squares / power) if power > 0 else None,
            # Rounding leaves a little of a spread that is none.
            nse=1 - squares / spread if spread > 1e-12 * power else None,
            cos=product / math.sqrt(own * power) if own > 0 and power > 0 else None,
            snr_db=10 * math.log10(power / squares) if is_different and power > 0 else None,
            top1=self.top1 / self.samples if self.has_classes else None,
            top5=self.top5 / self.samples if self.has_classes else None,
        )


class FidelityMeter:
    """Adds up the figures against the real numbers that ``values`` gives for a sample.

    ``values`` takes the sample and what the exact reference computed for it.
    """

    def __init__(
        self, against: str, values: Callable[[Sample, Mapping[str, Array]], Mapping[str, Array]]
    ) -> None:
        self._against = against
        self._values = values
        self._sums: dict[tuple[int | None, int], _Sums] = {}

    def add(
        self,
        sample: Sample,
        expected: Mapping[str, Array],
        outputs: Iterable[tuple[TensorInfo, Array]],
        layers: Iterable[tuple[Layer, Sequence[Array]]],
    ) -> None:
        """Add a sample: the reference's tensors, and the device's outputs and layers."""
        values = self._values(sample, expected)
        for index, (info, array) in enumerate(outputs):
            self._add((None, index), info, array, values)
        for number, (layer, arrays) in enumerate(layers):
            for index, (info, array) in enumerate(zip(layer.outputs, arrays, strict=True)):
                self._add((number, index), info, array, values)

    def _add(
        self,
        key: tuple[int | None, int],
        info: TensorInfo,
        array: Array,
        values: Mapping[str, Array],
    ) -> None:
        if info.name not in values:
            return
        other = info.held(np.asarray(values[info.name]))
        if other.size == array.size and info.dtype != "bool":
            sums = self._sums.setdefault(key, _Sums(info, key[0]))
            sums.add(real_values(info, array), other.astype(np.float64))

    def result(self) -> Fidelity:
        """Return the fidelity of the outputs and layers that were measured."""
        found = [sums.result() for sums in self._sums.values() if sums.elements]
        return Fidelity(
            self._against,
            tuple(tensor for tensor in found if tensor.layer is None),
            tuple(tensor for tensor in found if tensor.layer is not None),
        )


def real_values(info: TensorInfo, array: Array) -> Array:
    """Return the dequantized values of a tensor, as float64."""
    values: Array = np.asarray(array).astype(np.float64)
    if info.scale is None or info.zero_point is None:
        return values
    return (values - info.zero_point) * info.scale


def exact_meter(name: str, outputs: Sequence[TensorInfo], layers: Sequence[Layer]) -> FidelityMeter:
    """Return the meter against the exact reference called ``name``."""
    infos = {info.name: info for layer in layers for info in layer.outputs}
    infos.update((info.name, info) for info in outputs)

    def values(sample: Sample, expected: Mapping[str, Array]) -> Mapping[str, Array]:
        return {n: real_values(info, expected[n]) for n, info in infos.items() if n in expected}

    return FidelityMeter(name, values)


def float_meter(
    path: str | Path, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]
) -> FidelityMeter:
    """Return the meter against the model in floats of a file.

    Inputs and outputs are paired by their order, layers by their name. Raise
    :class:`~hilc.errors.InputError` if the file is no model in floats, or has other inputs or
    outputs.
    """
    # Not at the top: only a float model needs the front ends.
    from hilc.interpreter import Interpreter

    graph = _float_graph(Path(path))
    _check(graph, str(path), "input", graph.inputs, inputs)
    _check(graph, str(path), "output", graph.outputs, outputs)
    interpreter = Interpreter(graph)

    def values(sample: Sample, expected: Mapping[str, Array]) -> Mapping[str, Array]:
        given = {}
        for name, info in zip(graph.inputs, inputs, strict=True):
            tensor = graph.tensors[name]
            real = real_values(info, sample[info.name])
            given[name] = real.astype(tensor.dtype).reshape(tensor.shape)
        computed = interpreter.run_all(given)
        paired = zip(graph.outputs, outputs, strict=True)
        return {**computed, **{info.name: computed[name] for name, info in paired}}

    return FidelityMeter(str(path), values)


def _float_graph(path: Path) -> Graph:
    from hilc.frontends import load_model
    from hilc.frontends.tflite.signatures import EntriesError

    check_regular(path, "give the model in floats, a .tflite, .onnx or .pt2 file")
    try:
        graph = load_model(path)
    except EntriesError as error:
        raise ModelError(error.fact, error.ONE_ENTRY) from error
    whole = [n for n in (*graph.inputs, *graph.outputs) if graph.tensors[n].quant is not None]
    if whole:
        tensor = graph.tensors[whole[0]]
        raise InputError(
            f"{path} is not a model in floats: {tensor.name!r} is {tensor.dtype}",
            "give the model that was quantized, or --metrics alone for the exact reference",
        )
    return graph


def _check(
    graph: Graph, path: str, kind: str, names: Sequence[str], infos: Sequence[TensorInfo]
) -> None:
    theirs = [graph.tensors[name].size for name in names]
    ours = [math.prod(info.shape) for info in infos]
    if theirs != ours:
        raise InputError(
            f"the {kind}s of {path} have {theirs} elements, those of the model {ours}",
            "give the float model that this one was quantized from",
        )
