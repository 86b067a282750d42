"""The references of results, by name.

TensorFlow's results depend on the runtime, its release and its set of kernels. A reference is a
fixed combination, checked when it is created and stated in its description:

``tflm``
        TensorFlow Lite Micro: the package ``tflite-micro`` in a pinned version, on Linux on x86-64.
        The default for TFLite files that it runs.
``litert-ref``
    TensorFlow Lite with its reference kernels and gemmlowp's double rounding: ``ai-edge-litert``
    1.2.0 or ``tflite-runtime`` 2.14.0, on glibc 2.28 to 2.40 of x86-64 (:mod:`hilc.numerics.libm`).
        It has operators and types that TFLM lacks. If both define an operator differently, a model
        is compiled by one of the definitions (:class:`hilc.ir.Numerics`).
``litert``
    ``ai-edge-litert`` 1.4 or later with the reference kernels: fully connected layers round once.
``onnx``
        ONNX's reference evaluator: the package ``onnx``. The default for ONNX files.
``onnxruntime``
        onnxruntime's kernels for the CPU, without optimizations.
``qdq``
        exact sums of integers, real factors, one rounding with ties to even: what
        ``onnx.reference`` and PyTorch's eager programs compute of a quantized model, but for the
        rounding of their float sums. The default for ONNX files in QDQ form.
``hilc``
        this project's interpreter, the specification of the generated code.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hilc.errors import InputError, ModelError
from hilc.frontends import read_model
from hilc.frontends.onnx.reader import require_package
from hilc.interpreter import Interpreter, check_inputs
from hilc.ir import Array, Graph, Numerics
from hilc.ops import OPS
from hilc.references import loaded, onnx_runtime, tflm
from hilc.references.file import ModelFile, variables
from hilc.references.onnx_reference import Evaluator, OnnxReference
from hilc.references.stops import stopped
from hilc.references.tflite_runtime import TfliteRuntime
from hilc.references.tflm import Arena, TflmModel, tflm_arena_bytes
from hilc.support.optional import check_installed, install_hint
from hilc.transforms.fuse_quantized import fuse_quantized, is_quantized

__all__ = [
    "Arena",
    "Reference",
    "get_reference",
    "is_independent",
    "numerics_of_reference",
    "reference_names",
    "require_installed",
    "tflm_arena_bytes",
]


class Reference(Protocol):
    """Computes every tensor of a model."""

    @property
    def name(self) -> str:
        """Name of the reference, in reports."""

    @property
    def description(self) -> str:
        """Name, version and resolver of the kernels, for reports."""
        ...

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the values of the graph's inputs and computed tensors, by name."""
        ...

    def reset_state(self) -> None:
        """Reset every state to its initial value."""
        ...


def reference_names() -> tuple[str, ...]:
    """Return the names of the references that ``--reference`` accepts."""
    return tuple(_REFERENCES)


def get_reference(name: str, graph: Graph, model: bytes | None) -> Reference:
    """Return the reference called ``name`` for ``graph``; ``model`` is the graph's file.

    Raise :class:`~hilc.errors.InputError` if the reference is unknown, not installed in the right
    version, or has no file to run.
    """
    return _known(name).make(graph, model)


def numerics_of_reference(name: str) -> Numerics | None:
    """Return the reference's definition of operators; None for that of the graph."""
    return _known(name).numerics


def is_independent(name: str) -> bool:
    """Return whether other people's code computes the reference ``name``, not this compiler's
    interpreter: an error of the interpreter then shows as a difference.
    """
    return _known(name).independent


def require_installed(name: str) -> None:
    """Raise InputError if the reference ``name`` cannot run any model on this machine: it is not
    installed, or does not start.
    """
    _known(name).installed()


class _Interpreter:
    """``hilc``: the interpreter."""

    name = "hilc"
    description = f"hilc: this compiler's interpreter, numpy {np.__version__}"

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._interpreter = Interpreter(graph)

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        values = self._interpreter.run_all(inputs)
        return {name: values[name] for name in variables(self._graph)}

    def reset_state(self) -> None:
        self._interpreter.reset_state()


class _Qdq(_Interpreter):
    """``qdq``: a quantized model on integers, as :mod:`hilc.transforms.fuse_quantized` has it."""

    name = "qdq"
    description = f"qdq: exact sums, one rounding, ties to even; numpy {np.__version__}"

    def __init__(self, graph: Graph, model: bytes | None) -> None:
        # The integers of constants, which a graph does not state.
        dequantized = {} if model is None else read_model(model).dequantized
        fused = fuse_quantized(graph, dequantized).graph
        if not is_quantized(fused):
            raise InputError(
                f"the reference qdq runs models in ONNX's QDQ form, which {graph.name!r} is not",
                "choose another reference",
            )
        super().__init__(fused)


class _Tflm:
    """``tflm``: TensorFlow Lite Micro."""

    name = "tflm"

    def __init__(self, version: str, graph: Graph, model: bytes | None) -> None:
        self._graph = graph
        _require_defined(graph)
        self._file = ModelFile(self.name, graph, model)
        self._model = TflmModel(self._file.data)
        self.description = self._file.describe(f"{self.name}: {tflm.PACKAGE} {version}")
        values = self._first_run()
        self._model.reset()
        # It takes the shapes of the file, also where the file leaves them open.
        for node in graph.nodes:
            for tensor in graph.outs(node):
                value = values.get(tensor.name)
                if value is not None and value.size != tensor.size:
                    raise ModelError(
                        f"TensorFlow Lite Micro gives {node.op} {tensor.name!r} the shape "
                        f"{list(value.shape)} that the file has for it, which is open; it is "
                        f"{list(tensor.shape)}",
                        "choose another reference",
                    )

    def _first_run(self) -> Mapping[str, Array]:
        """Return the values of a run; raise ModelError where TFLM has none of the model's types.

        Some operators reject them only when they run. Of zeros, or of ones: no quotient is by them.
        """
        tensors = [self._graph.tensors[name] for name in self._graph.inputs]
        refusal: ModelError | None = None
        for fill in (0, 1):
            try:
                return self._run({x.name: np.full(x.shape, fill, x.dtype) for x in tensors})
            except ModelError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        check_inputs(self._graph, inputs)
        try:
            return self._run(inputs)
        except ModelError as error:
            raise stopped("TensorFlow Lite Micro", self._graph, inputs, error) from None

    def _run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        arrays = [inputs[name] for name in self._graph.inputs]
        return self._file.named(self._model.run(arrays, list(self._file.indices.values())))

    def reset_state(self) -> None:
        self._model.reset()


def _require_defined(graph: Graph) -> None:
    """Raise ModelError if a node's result is undefined in TFLM."""
    for node in graph.nodes:
        says = OPS[node.op].undefined_in_tflm
        if says is not None and (what := says(node, graph.ins(node), graph.outs(node))):
            raise ModelError(
                f"TensorFlow Lite Micro computes {node.op} {node.name!r} by chance: it {what}",
                "choose another reference",
            )


# Installed packages -----------------------------------------------------------------------------


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _tflm_version() -> str:
    """Return the version of TFLM's package; raise InputError if it is not the pinned one."""
    version = _installed(tflm.PACKAGE)
    if version == tflm.VERSION:
        return version
    remedy = f"pip install '{tflm.PACKAGE}=={tflm.VERSION}'"
    here = f"{platform.system()} on {platform.machine()}"
    if here not in ("Linux on x86_64", "Linux on AMD64"):
        remedy = f"the package does not support {here}: compare on Linux on x86-64"
    elif sys.version_info >= tflm.UNTIL:
        remedy = _too_new(tflm.UNTIL)
    needed = f"{tflm.PACKAGE} {tflm.VERSION} ({tflm.SYSTEM})"
    raise _unavailable("tflm", needed, {tflm.PACKAGE: version}, remedy)


#: The first Python without a package for ``litert-ref``.
_LITERT_REF_UNTIL = (3, 13)


def _litert_ref_package() -> tuple[str, str]:
    """Return package and version that compute ``litert-ref``; raise InputError if missing."""
    wanted = {"ai-edge-litert": "1.2.0", "tflite-runtime": "2.14.0"}
    installed = {package: _installed(package) for package in wanted}
    for package, version in wanted.items():
        if installed[package] == version:
            return package, version
    remedy = install_hint("ai_edge_litert")
    if sys.version_info >= _LITERT_REF_UNTIL:
        remedy = _too_new(_LITERT_REF_UNTIL)
    raise _unavailable(
        "litert-ref", "ai-edge-litert 1.2.0 (Python 3.10 to 3.12)", installed, remedy
    )


def _too_new(until: tuple[int, int]) -> str:
    here, newest = ".".join(map(str, sys.version_info[:2])), f"{until[0]}.{until[1] - 1}"
    return f"this is Python {here}, the package supports up to {newest}: use Python {newest}"


def _litert_version() -> str:
    version = _installed("ai-edge-litert")
    if version is None or _release(version) < [1, 4]:
        raise _unavailable(
            "litert",
            "ai-edge-litert 1.4 or later",
            {"ai-edge-litert": version},
            "pip install 'ai-edge-litert>=1.4'",
        )
    return version


def _release(version: str) -> list[int]:
    """Return the major and minor number of a version."""
    return [int(part) if part.isdigit() else 0 for part in version.split(".")[:2]]


def _unavailable(
    name: str, needed: str, installed: Mapping[str, str | None], remedy: str
) -> InputError:
    found = [f"{package} {version}" for package, version in installed.items() if version]
    return InputError(
        f"the reference {name} needs {needed}; installed is {' and '.join(found) or 'none'}",
        f"{remedy}, or choose the reference hilc",
    )


def _start_tflm() -> None:
    _tflm_version()
    tflm.start()


def _start_litert_ref() -> None:
    package, _ = _litert_ref_package()
    loaded.start(package)


def _start_litert() -> None:
    _litert_version()
    loaded.start("ai-edge-litert")


def _start_onnxruntime() -> None:
    _require_onnxruntime()
    loaded.start(onnx_runtime.PACKAGE)


def _require_onnxruntime() -> None:
    require_package()
    check_installed(
        onnx_runtime.PACKAGE, "the reference onnxruntime", ", or choose the reference onnx or hilc"
    )


def _onnxruntime(graph: Graph, model: bytes | None) -> Reference:
    _require_onnxruntime()
    return OnnxReference("onnxruntime", onnx_runtime.Session, graph, model)


# By name -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    make: Callable[[Graph, bytes | None], Reference]
    #: Raises InputError if the reference cannot run here.
    installed: Callable[[], object]
    numerics: Numerics | None
    independent: bool = True


_REFERENCES: Mapping[str, _Row] = {
    "tflm": _Row(
        lambda graph, model: _Tflm(_tflm_version(), graph, model),
        _start_tflm,
        Numerics.TFLM,
    ),
    "litert-ref": _Row(
        lambda graph, model: TfliteRuntime("litert-ref", *_litert_ref_package(), graph, model),
        _start_litert_ref,
        Numerics.LITERT,
    ),
    "litert": _Row(
        lambda graph, model: TfliteRuntime(
            "litert", "ai-edge-litert", _litert_version(), graph, model
        ),
        _start_litert,
        Numerics.LITERT,
    ),
    "onnx": _Row(
        lambda graph, model: OnnxReference("onnx", Evaluator, graph, model),
        require_package,
        Numerics.ONNX,
    ),
    "onnxruntime": _Row(_onnxruntime, _start_onnxruntime, Numerics.ONNX),
    "qdq": _Row(_Qdq, lambda: None, None, independent=False),
    "hilc": _Row(lambda graph, model: _Interpreter(graph), lambda: None, None, independent=False),
}


def _known(name: str) -> _Row:
    try:
        return _REFERENCES[name]
    except KeyError:
        raise InputError(
            f"unknown reference {name!r}", f"choose one of {', '.join(_REFERENCES)}"
        ) from None
