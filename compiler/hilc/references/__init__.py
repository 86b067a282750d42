"""The references of numerics by name: whose answer a device's answer is compared with.

"What TensorFlow computes" depends on the run time, its release and its set of kernels, so a
reference is one of each, checked when it is made and stated in its description:

``tflm``
    TensorFlow Lite Micro itself: the package ``tflite-micro`` in a pinned version, on Linux on
    x86-64. The default for TFLite files that it runs.
``litert-ref``
    TensorFlow Lite with its reference kernels and gemmlowp's double rounding: ``ai-edge-litert``
    1.2.0 or ``tflite-runtime`` 2.14.0, on glibc 2.28 to 2.40 of x86-64 (:mod:`hilc.numerics.libm`).
    It has operators and types that TFLM lacks; where both define one otherwise, a model is compiled
    by the definition of either (:class:`hilc.ir.Numerics`).
``litert``
    ``ai-edge-litert`` 1.4 or later with the reference kernels: fully connected layers round once.
``hilc``
    this project's own interpreter, the specification of the generated code.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hilc.errors import InputError
from hilc.interpreter import Interpreter, check_inputs
from hilc.ir import Array, Graph, Numerics
from hilc.references import tflm
from hilc.references.file import ModelFile, variables
from hilc.references.tflite_runtime import TfliteRuntime
from hilc.references.tflm import Arena, TflmModel, tflm_arena_bytes

__all__ = [
    "Arena",
    "Reference",
    "get_reference",
    "numerics_of_reference",
    "reference_names",
    "require_installed",
    "tflm_arena_bytes",
]


class Reference(Protocol):
    """Computes every tensor of a model."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """Name, version and resolver, for reports."""
        ...

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the value of each input of the graph and of each tensor that it computes, by
        name.
        """
        ...

    def reset_state(self) -> None:
        """Give every state its first value, as at the beginning."""
        ...


def reference_names() -> tuple[str, ...]:
    return tuple(_REFERENCES)


def get_reference(name: str, graph: Graph, model: bytes | None) -> Reference:
    """Return the reference called ``name`` for ``graph``; ``model`` is the file that it was read
    from.

    Raises :class:`~hilc.errors.InputError` when the reference is unknown, not installed in the
    right version, or has no file to run.
    """
    return _known(name).make(graph, model)


def numerics_of_reference(name: str) -> Numerics | None:
    """Return the definition of operators that the reference has; None: that of the graph."""
    return _known(name).numerics


def require_installed(name: str) -> None:
    """InputError where the reference called ``name`` cannot run any model here."""
    _known(name).installed()


class _Interpreter:
    """``hilc``: the interpreter on the graph as it is."""

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


class _Tflm:
    """``tflm``: TensorFlow Lite Micro."""

    name = "tflm"

    def __init__(self, version: str, graph: Graph, model: bytes | None) -> None:
        self._graph = graph
        self._file = ModelFile(self.name, graph, model)
        self._model = TflmModel(self._file.data)
        self.description = self._file.describe(f"{self.name}: {tflm.PACKAGE} {version}")
        # Some operators refuse their types when they run, and a caller wants to know before.
        tensors = [graph.tensors[name] for name in graph.inputs]
        self._model.run([np.zeros(tensor.shape, tensor.dtype) for tensor in tensors])
        self._model.reset()

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        check_inputs(self._graph, inputs)
        arrays = [inputs[name] for name in self._graph.inputs]
        values = self._model.run(arrays, list(self._file.indices.values()))
        return self._file.named(values)

    def reset_state(self) -> None:
        self._model.reset()


# What is installed -------------------------------------------------------------------------------


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _tflm_version() -> str:
    """Return the version of TFLM's package; InputError where it is another one, or none."""
    version = _installed(tflm.PACKAGE)
    if version == tflm.VERSION:
        return version
    remedy = f"pip install '{tflm.PACKAGE}=={tflm.VERSION}'"
    here = f"{platform.system()} on {platform.machine()}"
    if here not in ("Linux on x86_64", "Linux on AMD64"):
        remedy = f"there is none for {here}: compare on Linux on x86-64"
    elif sys.version_info >= tflm.UNTIL:
        remedy = _too_new(tflm.UNTIL)
    needed = f"{tflm.PACKAGE} {tflm.VERSION} ({tflm.SYSTEM})"
    raise _unavailable("tflm", needed, {tflm.PACKAGE: version}, remedy)


#: The first Python that has no package for ``litert-ref``.
_LITERT_REF_UNTIL = (3, 13)


def _litert_ref_package() -> tuple[str, str]:
    """Return the package and the version that compute ``litert-ref``; InputError where there is
    none.
    """
    wanted = {"ai-edge-litert": "1.2.0", "tflite-runtime": "2.14.0"}
    installed = {package: _installed(package) for package in wanted}
    for package, version in wanted.items():
        if installed[package] == version:
            return package, version
    remedy = "pip install 'ai-edge-litert==1.2.0'"
    if sys.version_info >= _LITERT_REF_UNTIL:
        remedy = _too_new(_LITERT_REF_UNTIL)
    raise _unavailable(
        "litert-ref", "ai-edge-litert 1.2.0 (Python 3.10 to 3.12)", installed, remedy
    )


def _too_new(until: tuple[int, int]) -> str:
    here, newest = ".".join(map(str, sys.version_info[:2])), f"{until[0]}.{until[1] - 1}"
    return f"no Python after {newest} has it, and this is {here}: use Python {newest}"


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
    """Major and minor number of a version."""
    return [int(part) if part.isdigit() else 0 for part in version.split(".")[:2]]


def _unavailable(
    name: str, needed: str, installed: Mapping[str, str | None], remedy: str
) -> InputError:
    found = [f"{package} {version}" for package, version in installed.items() if version]
    return InputError(
        f"the reference {name} needs {needed}; installed is {' and '.join(found) or 'none'}",
        f"{remedy}, or choose the reference hilc",
    )


# By name -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    make: Callable[[Graph, bytes | None], Reference]
    #: Raises InputError where the reference cannot run here.
    installed: Callable[[], object]
    numerics: Numerics | None


_REFERENCES: Mapping[str, _Row] = {
    "tflm": _Row(
        lambda graph, model: _Tflm(_tflm_version(), graph, model), _tflm_version, Numerics.TFLM
    ),
    "litert-ref": _Row(
        lambda graph, model: TfliteRuntime("litert-ref", *_litert_ref_package(), graph, model),
        _litert_ref_package,
        Numerics.LITERT,
    ),
    "litert": _Row(
        lambda graph, model: TfliteRuntime(
            "litert", "ai-edge-litert", _litert_version(), graph, model
        ),
        _litert_version,
        Numerics.LITERT,
    ),
    "hilc": _Row(lambda graph, model: _Interpreter(graph), lambda: None, None),
}


def _known(name: str) -> _Row:
    try:
        return _REFERENCES[name]
    except KeyError:
        raise InputError(
            f"unknown reference {name!r}", f"choose one of {', '.join(_REFERENCES)}"
        ) from None
