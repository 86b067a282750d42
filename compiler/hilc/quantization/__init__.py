"""Post-training quantization: from a model in floats and samples to one on integers.

The front end of the model chooses the quantizer: ONNX models go through onnxruntime's
(:mod:`~hilc.quantization.qdq`), programs of PyTorch through torchao's with a statement of what the
kernels compute (:mod:`~hilc.quantization.pt2e`, :class:`TorchQuantizer`), TFLite files through one
of this package (:mod:`~hilc.quantization.tflite`). The result is compared
with the model in floats, tensor by tensor (:mod:`~hilc.quantization.report`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from hilc.errors import InputError, ModelError
from hilc.frontends import Specialization, load_model, read_file, read_model, reader_of
from hilc.frontends.objects import NamedFile, file_of, is_keras_model, name_of, tensor_of
from hilc.ir import Graph
from hilc.ops import OPS
from hilc.quantization.keras import converted, is_convertible
from hilc.quantization.marks import is_own_file, marked
from hilc.quantization.report import (
    NOISE_SAMPLES,
    Accuracy,
    Report,
    TensorNoise,
    compare,
    summary_lines,
)
from hilc.quantization.samples import Samples, check_labels, named_arrays
from hilc.quantization.settings import ACTIVATIONS, CALIBRATORS, Settings
from hilc.quantization.source import Source
from hilc.support.arguments import typed
from hilc.support.jsondata import shown_argument
from hilc.support.outputs import write_file

__all__ = [
    "ACTIVATIONS",
    "CALIBRATORS",
    "Accuracy",
    "QuantizedModel",
    "Report",
    "Samples",
    "Settings",
    "TensorNoise",
    "TorchQuantizer",
    "is_own_file",
    "quantize",
]


#: Suffix of the only format that cannot be written as ONNX too.
_TFLITE = ".tflite"


def __getattr__(name: str) -> Any:
    if name != "TorchQuantizer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("hilc.quantization.pt2e").require_packages()
    return import_module("hilc.quantization.torch_quantizer").TorchQuantizer


@dataclass(frozen=True)
class QuantizedModel(NamedFile):
    """A quantized model as a file, for :func:`hilc.compile` or to be saved, and its report."""

    #: Suffix of the file's format: ``.onnx``, ``.pt2`` or ``.tflite``.
    suffix: str = ".onnx"
    report: Report = field(kw_only=True)
    #: The quantized model as ONNX; None for a TFLite file, which has no such form.
    onnx: bytes | None = field(kw_only=True, repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the file: as an ONNX model if ``path`` ends in ``.onnx``.

        Raise :class:`~hilc.errors.InputError` for another suffix.
        """
        check_suffix(path, self.suffix)
        is_own = Path(path).suffix.lower() == self.suffix
        data = self.data if is_own else self.onnx
        assert data is not None, "the suffix has been checked"
        write_file(path, marked(data))
        return Path(path)

    def __repr__(self) -> str:
        """Return one line; the data are all weights."""
        (line, *_) = summary_lines(self.report)
        return f"<QuantizedModel {self.name}: {len(self.data):,} bytes, {line}>"

    def _repr_html_(self) -> str:
        """Return the report as tables of HTML, for notebooks."""
        return self.report._repr_html_()


def suffix_of(model: str | Path) -> str:
    """Return the suffix of the format in which a model's file is quantized; empty for a file that
    no quantizer takes.
    """
    if is_convertible(Path(model)):
        return _TFLITE
    reader = reader_of(_read(Path(model)))
    if reader is None or not reader.quantizer:
        return ""
    return str(import_module(f"{__name__}.{reader.quantizer}").SUFFIX)


def check_suffix(path: str | Path, own: str) -> None:
    """Raise :class:`~hilc.errors.InputError` unless a quantized model whose format has the suffix
    ``own`` can be written to ``path``.
    """
    suffixes = (own,) if own == _TFLITE else tuple(dict.fromkeys((own, ".onnx")))
    if Path(path).suffix.lower() not in suffixes:
        raise InputError(
            f"the output {str(path)!r} has the wrong suffix for the quantized model",
            f"use a name that ends in {' or '.join(suffixes)}",
        )


@typed
def quantize(
    model: Any,
    samples: Any,
    *,
    labels: Any = None,
    test: Any = None,
    name: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    signature: str | None = None,
    calibrator: str = "minmax",
    percentile: float | None = None,
    activations: str = "int8",
    per_channel: bool = True,
    exclude: Sequence[str] = (),
    keep_state: bool = False,
    progress: Callable[[str, int], Callable[[], None]] | None = None,
) -> QuantizedModel:
    """Return a model in floats on integers, calibrated with samples, and its report.

    ``model`` is an ONNX model, a TFLite model or a program of PyTorch: a file or its bytes, a
    ``torch.nn.Module`` in evaluation mode, a program of ``torch.export``, or an ONNX
    ``ModelProto``. A Keras model, its file or a SavedModel folder is converted to a TFLite model
    by TensorFlow. ``samples`` are
    one array, a tuple of one for each input, or a mapping of names to arrays; the first axis counts
    them, in place of a batch of 1 or before the input's shape. A module is exported for a batch
    of 1. States are reset in front of each sample, unless ``keep_state`` says that the samples are
    one sequence. The report is made over ``test``, in the same form, or over the samples; with
    ``labels``, the class of each, it has the accuracy. ``shapes`` states what the model leaves
    open, and ``signature`` selects one of several entry points of a TFLite file. The others are
    those of :class:`Settings`; ``progress(what, count)`` returns a function to be called ``count``
    times.

    Raises :class:`~hilc.errors.InputError` for unsuitable samples, unknown settings and missing
    packages; :class:`~hilc.errors.ModelError` for a model that is quantized already, and for what
    the quantizer or the compiler do not take.
    """
    settings = Settings(
        calibrator, percentile, activations, per_channel, tuple(exclude), keep_state
    )
    tell = progress or (lambda what, count: lambda: None)
    source = _source(model, samples, name, shapes, signature)
    graph = source.graph
    _require_floats(graph)
    calibration = Samples(named_arrays(samples, graph.inputs), graph)
    tested = calibration if test is None else Samples(named_arrays(test, graph.inputs), graph)
    classes = None if labels is None else check_labels(labels, len(tested))
    quantizer = import_module(f"{__name__}.{source.reader.quantizer}")
    made = quantizer.quantize(source, calibration, settings, tell("calibrating", len(calibration)))
    float_graph = load_model(made.plain, graph.name)
    quantized = read_model(made.file, graph.name)
    count = len(tested) if classes is not None else min(len(tested), NOISE_SAMPLES)
    report = compare(
        float_graph,
        quantized,
        tested,
        classes,
        tell("comparing", count),
        len(calibration),
        keep_state=keep_state,
        excluded=made.excluded,
        integers=made.integers,
        float_layers=made.float_layers,
    )
    report = replace(report, warnings=calibration.doubts())
    onnx = None if quantizer.SUFFIX == _TFLITE else quantized.data
    return QuantizedModel(graph.name, made.file, quantizer.SUFFIX, report=report, onnx=onnx)


def _source(
    model: Any,
    samples: Any,
    name: str | None,
    shapes: Mapping[str, Sequence[int]] | None,
    signature: str | None,
) -> Source:
    if isinstance(model, str | Path):
        name = name or shown_argument(Path(model).stem)
        if is_convertible(Path(model)):
            model = converted(Path(model))
    elif is_keras_model(model):
        name, model = name or model.name, converted(model)
    data = _file_of(model, samples)
    if data is not None:
        name, model = name or name_of(model), data
    elif isinstance(model, bytes):
        data = model
    elif isinstance(model, str | Path):
        data = _read(Path(model))
    else:
        raise InputError(
            f"a model of type {type(model).__name__} cannot be quantized",
            "give an ONNX, TFLite, Keras or .pt2 file, a PyTorch module, or a program of "
            "torch.export",
        )
    reader = reader_of(data)
    if reader is not None and not reader.quantizer:
        raise ModelError(
            f"models of {reader.name} are not quantized here",
            "give an ONNX, TFLite or .pt2 file",
        )
    stated = {n: tuple(shape) for n, shape in (shapes or {}).items()}
    read = read_model(model, name, specialization=Specialization(stated, signature=signature))
    assert reader is not None, "it has been read"
    return Source(reader, read.graph, data, read.data)


def _read(path: Path) -> bytes:
    try:
        return read_file(path)
    except ModelError as error:
        raise type(error)(f"{path}: {error.fact}", error.hint) from error


def _file_of(model: Any, samples: Any) -> bytes | None:
    """Return the file of a model object; a module is exported for the first sample, in a batch."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return file_of(model, None)
    parts = samples if isinstance(samples, tuple) else (samples,)
    if isinstance(samples, Mapping):
        parts = tuple(samples.values())
    return file_of(model, tuple(_first(torch, part) for part in parts))


def _first(torch: Any, part: Any) -> Any:
    """Return the first sample, in a batch of 1; floats in the width that models are read in."""
    tensor = tensor_of(torch, part)
    if not tensor.ndim:
        raise InputError(
            f"a sample is the single number {tensor.item()}",
            "give an array whose first axis counts the samples",
        )
    first = tensor[:1]
    return first.float() if first.is_floating_point() else first


def _require_floats(graph: Graph) -> None:
    """Raise ModelError for a model that computes on integers already, or has no floats at all."""
    for node in graph.nodes:
        is_constant = all(graph.tensors[name].is_constant for name in node.inputs)
        if OPS[node.op].conversion is not None and not is_constant:
            raise ModelError(
                f"the model {graph.name!r} is quantized already: it has {node.op} {node.name!r}",
                "compile it as it is, or quantize the model in floats",
            )
    if not any(t.dtype == "float32" for t in graph.tensors.values()):
        raise ModelError(
            f"the model {graph.name!r} computes no floats", "there is nothing to quantize"
        )
