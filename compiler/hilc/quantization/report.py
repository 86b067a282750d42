"""A quantized model against the model in floats: noise of each tensor, and accuracy."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hilc.errors import InputError
from hilc.frontends import LoadedModel
from hilc.interpreter import Interpreter
from hilc.ir import Array, FloatLayer, Graph, Quant, Rounding, Tensor
from hilc.ops import OPS
from hilc.quantization.samples import Sample
from hilc.support.suggest import counted
from hilc.transforms.fuse_quantized import fuse_quantized

Progress = Callable[[], None]
#: The most layers in floats that a summary names.
_NAMED = 8
#: The most samples that the noise of each tensor is measured with.
NOISE_SAMPLES = 32


@dataclass(frozen=True)
class TensorNoise:
    """Error of a quantized tensor against the float model, errors of preceding layers included."""

    #: Name of the tensor in the model in floats.
    name: str
    #: The operator that computes it; empty for an input.
    op: str
    dtype: str
    scale: float
    zero_point: int
    #: Signal-to-quantization-noise ratio in dB: 10 log10 of the sum of squares of the real values
    #: over that of the differences. None where nothing differs, or all values are zero.
    sqnr_db: float | None
    #: Share of the values of the model in floats that lie more than one step beyond the range of
    #: the integers. One step is what a fixed range leaves out on purpose: 1.0 of a softmax, whose
    #: scale is 1/256.
    clipped: float


@dataclass(frozen=True)
class Accuracy:
    """Number of samples whose largest output is the right class."""

    samples: int
    float_right: int
    quantized_right: int
    #: Samples that both models give the same class.
    same: int


@dataclass(frozen=True)
class Report:
    """Comparison of a quantized model, as it is compiled, with the float model."""

    #: Samples that the ranges were found with, and those that the noise was measured with.
    calibration_samples: int
    samples: int
    #: Tensors that have integers, the noisiest first.
    tensors: tuple[TensorNoise, ...]
    #: SQNR in dB of each output of the model, by name.
    outputs: Mapping[str, float | None]
    #: Layers without an integer implementation, each with the reason.
    float_layers: tuple[FloatLayer, ...]
    #: None without labels.
    accuracy: Accuracy | None = None
    #: Excluded layers that are computed on integers nevertheless, as their neighbours are.
    not_excluded: tuple[str, ...] = ()
    #: Whether layers in floats are only compiled with ``allow_float``.
    floats_are_refused: bool = True
    #: Doubts about the calibration samples, one sentence each.
    warnings: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return the report as tables of HTML, for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(t.name)}</td><td>{html.escape(t.op)}</td>"
            f"<td>{shown_db(t.sqnr_db)}</td><td>{100 * t.clipped:.2f} %</td></tr>"
            for t in self.tensors
        )
        head = "<tr><th>tensor</th><th>operator</th><th>SQNR, dB</th><th>clipped</th></tr>"
        texts = (*self.warnings, *summary_lines(self))
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in texts)
        return f"{lines}<table>{head}{rows}</table>"


def shown_db(value: float | None) -> str:
    """Return decibels as text."""
    return "exact" if value is None else f"{value:.1f}"


def summary_lines(report: Report) -> list[str]:
    """Return a report's statements about the whole model, one sentence each."""
    outputs = ", ".join(f"{name} {shown_db(db)} dB" for name, db in report.outputs.items())
    over = counted(report.samples, "sample")
    lines = [f"signal-to-noise of the outputs over {over}: {outputs}"]
    if report.accuracy is not None:
        count = report.accuracy.samples
        right, kept = report.accuracy.float_right, report.accuracy.quantized_right
        lines.append(
            f"accuracy over {counted(count, 'sample')}: {100 * right / count:.2f} % in floats, "
            f"{100 * kept / count:.2f} % quantized; the same class for "
            f"{100 * report.accuracy.same / count:.2f} %"
        )
    names = list(dict.fromkeys(layer.name for layer in report.float_layers))
    if names:
        stay = f"{counted(len(names), 'layer')} {'stay' if len(names) > 1 else 'stays'} in floats"
        remedy = ", compile with --allow-float (in Python allow_float=True)"
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        lines.append(
            f"{stay}{remedy if report.floats_are_refused else ''}: "
            f"{', '.join(names[:_NAMED])}{more}"
        )
    lines += [
        f"{name!r} is excluded and computes on integers all the same, as what it reads and gives "
        "is quantized for other layers; exclude those layers too"
        for name in report.not_excluded
    ]
    return lines


def compare(
    float_graph: Graph,
    quantized: LoadedModel,
    samples: Sequence[Sample],
    labels: Array | None,
    progress: Progress,
    calibration_samples: int,
    *,
    keep_state: bool = False,
    excluded: Mapping[str, Sequence[str]] | None = None,
    integers: Mapping[str, str] | None = None,
    float_layers: Sequence[FloatLayer] | None = None,
) -> Report:
    """Return the comparison of two graphs over samples; their tensors have equal names.

    States are reset in front of each sample, unless ``keep_state`` says that all are one sequence.
    ``excluded`` has the tensors of what was to stay in floats, by what the user calls it.
    ``integers`` names the integers of float tensors between which no node converts, and
    ``float_layers`` the layers in floats, if the quantizer knows them.

    The quantized one is run as it is compiled (:func:`fuse_quantized`). The noise is measured over
    the first :data:`NOISE_SAMPLES`; the accuracy, if there are ``labels``, over all. ``progress``
    is called after each sample.
    """
    fusion = fuse_quantized(quantized.graph, quantized.dequantized)
    fused = fusion.graph
    pairs = {**_pairs(float_graph, quantized.graph, fused), **(integers or {})}
    noise = {name: _Noise(fused.tensors[made]) for name, made in pairs.items()}
    outputs = list(zip(float_graph.outputs, fused.outputs, strict=True))
    out_noise = [_Noise(fused.tensors[made]) for _, made in outputs]
    if labels is not None:
        _require_classes(float_graph, labels)
    both = Interpreter(float_graph), Interpreter(fused)
    right, kept, same, measured = 0, 0, 0, 0
    for index, sample in enumerate(samples):
        if index >= NOISE_SAMPLES and labels is None:
            break
        if not keep_state:
            for interpreter in both:
                interpreter.reset_state()
        wanted, found = (each.run_all(sample) for each in both)
        if index < NOISE_SAMPLES:
            measured += 1
            for name, made in pairs.items():
                noise[name].add(wanted[name], found[made])
            for (name, made), each in zip(outputs, out_noise, strict=True):
                each.add(wanted[name], found[made])
        if labels is not None:
            name, made = outputs[0]
            a, b = int(wanted[name].argmax()), int(found[made].argmax())
            right += int(a == labels[index])
            kept += int(b == labels[index])
            same += int(a == b)
        progress()
    known = fusion.float_layers if float_layers is None else float_layers
    in_floats = tuple(_named(layer, float_graph) for layer in known)
    names = {layer.name for layer in in_floats}
    tensors = [noise[name].result(name, _op_of(float_graph, name)) for name in pairs]
    return Report(
        calibration_samples,
        measured,
        tuple(sorted(tensors, key=lambda t: math.inf if t.sqnr_db is None else t.sqnr_db)),
        {name: each.sqnr_db for (name, _), each in zip(outputs, out_noise, strict=True)},
        in_floats,
        None if labels is None else Accuracy(len(samples), right, kept, same),
        tuple(n for n, made in (excluded or {}).items() if names.isdisjoint(made)),
        floats_are_refused=float_layers is None,
    )


#: Suffix that a reader appends to a tensor's name for the intermediate steps of an operator.
_STEP = re.compile(r"(:\d+)+$")


def _op_of(graph: Graph, name: str) -> str:
    """Return the operator that makes a tensor, changes of its layout aside."""
    made = [n for n in graph.nodes if any(_STEP.sub("", o) == name or o == name for o in n.outputs)]
    by_meaning = sorted(made, key=lambda n: (OPS[n.op].copies_elements, OPS[n.op].rows is None))
    return by_meaning[0].op if by_meaning else ""


def _named(layer: FloatLayer, graph: Graph) -> FloatLayer:
    """Return a layer under the name that the model has for it."""
    base = _STEP.sub("", layer.name)
    return replace(layer, name=base) if base in graph.tensors else layer


def _require_classes(graph: Graph, labels: Array) -> None:
    name = graph.outputs[0]
    classes = graph.tensors[name].size
    if classes < 2 or labels.min() < 0 or labels.max() >= classes:
        raise InputError(
            f"the labels are {labels.min()} to {labels.max()}, and the output {name!r} has "
            f"{classes} elements, one for each class",
            "give labels for a model that gives each class a number, counted from 0",
        )


def _pairs(float_graph: Graph, quantized: Graph, fused: Graph) -> dict[str, str]:
    """Return by tensor of floats the integers that the compiled model has for it."""
    found: dict[str, str] = {}
    for node in quantized.nodes:
        if node.rounding is not Rounding.NEAREST_EVEN:
            continue
        conversion = OPS[node.op].conversion
        if conversion == "quantize":
            (name, made) = node.inputs[0], node.outputs[0]
        elif conversion == "dequantize":
            (name, made) = node.outputs[0], node.inputs[0]
        else:
            continue
        tensor = float_graph.tensors.get(name)
        computed = quantized.tensors[made].element.computed.name
        kept = next((m for m in (f"{made}:{computed}", made) if m in fused.tensors), None)
        if tensor is None or tensor.is_constant or kept is None:
            continue
        if fused.tensors[kept].shape == tensor.shape and fused.tensors[kept].quant is not None:
            found.setdefault(name, kept)
    return found


class _Noise:
    """Sums over the samples of one tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._quant: Quant | None = tensor.quant
        self._dtype = tensor.dtype
        self._signal = self._noise = 0.0
        self._clipped = self._count = 0

    def add(self, wanted: Array, found: Array) -> None:
        real = wanted.astype(np.float64)
        if self._quant is None:
            values = found.astype(np.float64)
        else:
            scale, zero = self._quant.scale[0], self._quant.zero_point[0]
            values = (found.astype(np.float64) - zero) * scale
            limits = np.iinfo(self._dtype)
            steps = np.rint(real / scale) + zero
            self._clipped += int(((steps < limits.min - 1) | (steps > limits.max + 1)).sum())
        self._count += real.size
        with np.errstate(all="ignore"):
            self._signal += float(np.nansum(real * real))
            self._noise += float(np.nansum((real - values) ** 2))

    @property
    def sqnr_db(self) -> float | None:
        if self._noise == 0 or self._signal == 0:
            return None
        return round(10 * math.log10(self._signal / self._noise), 2)

    def result(self, name: str, op: str) -> TensorNoise:
        assert self._quant is not None
        return TensorNoise(
            name,
            op,
            self._dtype,
            float(self._quant.scale[0]),
            int(self._quant.zero_point[0]),
            self.sqnr_db,
            self._clipped / max(self._count, 1),
        )
