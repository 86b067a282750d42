"""ONNX models through onnxruntime's static quantization, in QDQ form."""

from __future__ import annotations

import contextlib
import io
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from hilc.errors import HilError, InputError, ModelError
from hilc.frontends.onnx.fold_batch_norm import convolve_batch_norm, fold_batch_norm
from hilc.frontends.onnx.states import states_of
from hilc.ir import Array
from hilc.quantization.masks import Range, filled, ranges_of, with_choices
from hilc.quantization.samples import Sample
from hilc.quantization.settings import ACTIVATIONS, Settings
from hilc.quantization.source import Quantized, Source
from hilc.support.optional import require
from hilc.support.suggest import nearest
from hilc.support.temporary import TemporaryFolder

#: Calibrators by onnxruntime's names.
CALIBRATORS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
#: Operators with a form on integers; the others stay in floats.
_OPERATORS = frozenset(
    (
        "Abs", "Add", "AveragePool", "Celu", "Clip", "Concat", "Conv", "DepthToSpace", "Div", "Elu",
        "Erf", "Exp", "Expand", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool",
        "GlobalMaxPool", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "MatMul", "Max", "MaxPool",
        "Min", "Mish", "Mul", "Neg", "Pad", "Pow", "ReduceMax", "ReduceMean", "Reciprocal", "Relu",
        "Reshape", "Resize", "Selu", "Sigmoid", "Slice", "Softmax", "Softplus", "Softsign",
        "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Swish", "Tanh", "Tile", "Transpose",
        "Unsqueeze",
    )
)  # fmt: skip
#: Operators that are quantized only with a single tensor operand.
_OF_A_NUMBER = frozenset(("Div", "Pow"))
#: Operators that a layer may end with.
_CLAMPS = frozenset(("Clip", "Relu"))
#: Severity of onnxruntime's messages on standard error.
_ERRORS = 3
_LEAST_OPSET = 13
#: Bins of the histograms of the calibrator entropy, and the number after merging.
_BINS, _LEVELS = 512, 128


#: Suffix of the files that :func:`quantize` makes.
SUFFIX = ".onnx"


def _prepared(data: bytes) -> onnx.ModelProto:
    """Return a model in floats as it is quantized: its normalizations are part of the layers before
    them, or convolutions, and every node has a name.
    """
    model = fold_batch_norm(onnx.load_from_string(data))
    graph = onnx.shape_inference.infer_shapes(model).graph
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.input)
        if value.type.tensor_type.HasField("shape")
    }
    model = convolve_batch_norm(model, ranks)
    taken = {node.name for node in model.graph.node}
    used = {name for node in model.graph.node for name in node.input} | set(states_of(model))
    for tensor in [t for t in model.graph.initializer if t.name not in used]:
        model.graph.initializer.remove(tensor)
    for node in model.graph.node:
        if not node.name:
            node.name = next(n for n in _fresh(node.output[0]) if n not in taken)
            taken.add(node.name)
    return model


def _fresh(base: str) -> Iterator[str]:
    yield base
    number = 0
    while True:
        yield f"{base}_{(number := number + 1)}"


def quantize(
    source: Source, samples: Sequence[Sample], settings: Settings, progress: Any
) -> Quantized:
    """Return the model in floats, and in QDQ form, calibrated with the samples."""
    settings.require_calibrator(CALIBRATORS, "onnxruntime")
    tools = require("onnxruntime.quantization", "the quantization of ONNX models")
    model, masks = with_choices(_prepared(source.resolved))
    excluded = _excluded(model, settings)
    resets = {state.name: source.graph.reset_value(state) for state in source.graph.states}

    def reader(given: onnx.ModelProto, progress: Any = progress) -> Any:
        return _reader(tools, given, samples, resets, settings.keep_state, progress)

    def run(names: Sequence[str]) -> Iterator[Sequence[Array]]:
        return _computed(model, names, reader(model, None))

    ranges = ranges_of(run, masks, ACTIVATIONS[settings.activations]) if masks else {}
    finite = filled(model, masks, ranges)
    made = _quantized(tools, finite, settings, list(excluded.values()), reader, ranges)
    outputs = {node.name: tuple(node.output) for node in model.graph.node}
    named = {word: outputs[node] for word, node in excluded.items()}
    return Quantized(model.SerializeToString(), made, named)


def _quantized(
    tools: Any,
    model: onnx.ModelProto,
    settings: Settings,
    named: Sequence[str],
    reader_of: Callable[[onnx.ModelProto], Any],
    known: Mapping[str, Range],
) -> bytes:
    excluded = [*named, *_in_floats(model)]
    kinds = sorted({n.op_type for n in model.graph.node if not n.domain} & _OPERATORS)
    if not kinds:
        raise ModelError(
            "the model has no layer that could be quantized",
            "compile it as it is",
        )
    wanted = {"int8": "QInt8", "uint8": "QUInt8", "int16": "QInt16"}[settings.activations]
    with _silent():
        try:
            given = tools.quant_utils.save_and_reload_model_with_shape_infer(_raised(model))
            ranges = _ranges(tools, given, kinds, reader_of(model), settings)
            for name in [name for name in known if name in ranges]:
                low, high = known[name]
                ranges[name] = tools.calibrate.TensorData(lowest=low, highest=high)
            excluded += _infinite(model, kinds, ranges)
            quantizer = tools.QDQQuantizer(
                given,
                settings.per_channel,
                False,
                tools.QuantType.QInt8,
                tools.QuantType[wanted],
                ranges,
                [],
                excluded,
                kinds,
                {
                    "WeightSymmetric": True,
                    "ActivationSymmetric": ACTIVATIONS[settings.activations].symmetric,
                    "ForceQuantizeNoInputCheck": True,
                    "TensorQuantOverrides": _shares(model, settings, excluded),
                },
            )
            quantizer.quantize_model()
            quantizer.model.topological_sort()
        except HilError:
            raise
        except Exception as error:
            raise ModelError(
                f"onnxruntime cannot quantize the model: {' '.join(str(error).split()):.300}",
                "leave out the node that it names: --exclude NODE, in Python exclude=[NODE]",
            ) from error
    made = quantizer.model.model
    if ACTIVATIONS[settings.activations].symmetric:
        _join_clamps(made.graph, {n.name for n in model.graph.node} - set(excluded))
    serialized: bytes = made.SerializeToString()
    return serialized


def _join_clamps(graph: onnx.GraphProto, quantized: set[str]) -> None:
    """Make clamps part of the layers before them: without a quantization between the two.

    Where the least number stands for 0, onnxruntime leaves such clamps out by itself.
    """
    makers = {name: node for node in graph.node for name in node.output}
    readers = Counter(name for node in graph.node for name in node.input)
    readers.update(output.name for output in graph.output)
    for node in graph.node:
        back = makers.get(node.input[0]) if node.op_type in _CLAMPS else None
        there = makers.get(back.input[0]) if back is not None else None
        layer = makers.get(there.input[0]) if there is not None else None
        if back is None or there is None or layer is None:
            continue
        kinds = (back.op_type, there.op_type)
        between = (back.output[0], there.output[0], there.input[0])
        if (
            kinds == ("DequantizeLinear", "QuantizeLinear")
            and {node.name, layer.name} <= quantized
            and all(readers[name] == 1 for name in between)
        ):
            node.input[0] = there.input[0]
            for step in (back, there):
                graph.node.remove(step)


def _infinite(model: onnx.ModelProto, kinds: Sequence[str], ranges: Any) -> list[str]:
    """Return the nodes of which no scale spans an operand or the result."""
    beyond = {n for n, row in ranges.items() if not np.isfinite(row.range_value).all()}
    return [
        node.name
        for node in model.graph.node
        if node.op_type in kinds and not beyond.isdisjoint((*node.input, *node.output))
    ]


def _computed(
    model: onnx.ModelProto, names: Sequence[str], reader: Any
) -> Iterator[Sequence[Array]]:
    """Yield these tensors for each sample."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names))
    session = import_module("onnxruntime").InferenceSession(shown.SerializeToString())
    while (given := reader.get_next()) is not None:
        yield session.run(list(names), given)


def _raised(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model of an opset in which weights have a scale for each channel."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    if opset >= _LEAST_OPSET:
        return model
    return onnx.version_converter.convert_version(model, _LEAST_OPSET)


def _ranges(
    tools: Any, model: onnx.ModelProto, kinds: Sequence[str], reader: Any, settings: Settings
) -> Any:
    """Return the range of each tensor that the samples and the calibrator give."""
    options: dict[str, Any] = {"symmetric": False}
    if settings.calibrator == "percentile":
        options["percentile"] = settings.share
    if settings.calibrator == "entropy":
        # With as many bins as levels, its default, there is only one range to choose.
        options.update(num_bins=_BINS, num_quantized_bins=_LEVELS)
    with TemporaryFolder("quantize") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        calibrator = tools.create_calibrator(
            path,
            kinds,
            augmented_model_path=str(Path(folder) / "augmented.onnx"),
            calibrate_method=tools.CalibrationMethod[CALIBRATORS[settings.calibrator]],
            extra_options=options,
        )
        calibrator.collect_data(reader)
        return calibrator.compute_data()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep onnxruntime's remarks from standard output, which may carry JSON, and from the log."""
    import_module("onnxruntime").set_default_logger_severity(_ERRORS)
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(before)


def _excluded(model: onnx.ModelProto, settings: Settings) -> dict[str, str]:
    """Return the names of the nodes that stay float, by the user's name: of a node, or of its
    output.
    """
    names = {word: n.name for n in model.graph.node for word in (*n.output, n.name) if word}
    for name in settings.exclude:
        if name not in names:
            raise InputError(
                f"there is no node {name!r} to exclude{nearest(name, names)}",
                "name nodes of the model, or their outputs; a batch normalization is part of the "
                "convolution before it",
            )
    return {name: names[name] for name in settings.exclude}


def _in_floats(model: onnx.ModelProto) -> list[str]:
    """Return the nodes without an integer implementation: several tensors, or cubic splines."""
    numbers = {t.name for t in model.graph.initializer if np.prod(t.dims, dtype=int) == 1}
    return [
        node.name
        for node in model.graph.node
        if (node.op_type in _OF_A_NUMBER and numbers.isdisjoint(node.input))
        or any(a.name == "mode" and a.s == b"cubic" for a in node.attribute)
    ]


def _shares(
    model: onnx.ModelProto, settings: Settings, excluded: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the quantization of a Softmax's output: scale 1/256."""
    scale, zero_point = ACTIVATIONS[settings.activations].shares
    fixed = {
        "scale": np.array(scale, np.float32),
        "zero_point": np.array(zero_point, settings.activations),
    }
    return {
        node.output[0]: [dict(fixed)]
        for node in model.graph.node
        if node.op_type == "Softmax" and node.name not in excluded
    }


def _reader(
    tools: Any, model: onnx.ModelProto, samples: Sequence[Sample],
    resets: Mapping[str, Array], keep_state: bool, progress: Any,
) -> Any:  # fmt: skip
    """Return the samples as onnxruntime reads them, with states: those of a reset in front of each
    sample, unless all are one sequence.
    """
    states = states_of(model)
    values = dict(resets)
    session = None
    if states and keep_state:
        runtime = import_module("onnxruntime")
        session = runtime.InferenceSession(model.SerializeToString())
    remaining = iter(samples)

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, Array] | None:
            sample = next(remaining, None)
            if sample is None:
                return None
            given = {**sample, **values}
            if session is not None:
                after = session.run(list(states.values()), given)
                values.update(zip(states, after, strict=True))
            if progress is not None:
                progress()
            return given

    return Reader()
