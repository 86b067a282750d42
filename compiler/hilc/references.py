"""The references of numerics by name: whose answer a device's answer is compared with.

"What TFLite computes" depends on the release and on the set of kernels (the resolver), so a
reference is one of each, checked when it is made and stated in its description:

``tflm``
    gemmlowp's double rounding, as TensorFlow Lite Micro computes: ``ai-edge-litert`` 1.2.0 or
    ``tflite-runtime`` 2.14.0 with the reference kernels, on glibc 2.28 to 2.40 of x86-64
    (:mod:`hilc.numerics.libm`). The default for int8.
``litert``
    ``ai-edge-litert`` 1.4 or later with the reference kernels: fully connected layers round once.
``hilc``
    this project's own interpreter, the specification of the generated code.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from hilc.errors import InputError, ModelError
from hilc.frontends.tflite.reader import for_reference, is_tflite, tensor_names
from hilc.interpreter import Interpreter, check_inputs
from hilc.ir import Array, Graph
from hilc.ops.unary import host_function_matters

#: The first Python that has no package for ``tflm``.
_TFLM_UNTIL = (3, 13)


class Reference(Protocol):
    """Computes every tensor of a model."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """Name, version and resolver, for reports."""
        ...

    def reset_state(self) -> None:
        """Give every state its first value, as at the beginning."""
        ...

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the value of each input of the graph and of each tensor that it computes, by
        name.

        States are what the run before left.
        """
        ...


def reference_names() -> tuple[str, ...]:
    return tuple(_FACTORIES)


def get_reference(name: str, graph: Graph, model: bytes | None) -> Reference:
    """Return the reference called ``name`` for ``graph``; ``model`` is the file that it was read
    from.

    Raises :class:`~hilc.errors.InputError` when the reference is unknown, not installed in the
    right version, or has no file to run.
    """
    try:
        factory = _FACTORIES[name]
    except KeyError:
        raise InputError(
            f"unknown reference {name!r}", f"choose one of {', '.join(_FACTORIES)}"
        ) from None
    return factory(graph, model)


class _Interpreter:
    """``hilc``: the interpreter on the graph as it is."""

    name = "hilc"
    description = f"hilc: this compiler's interpreter, numpy {np.__version__}"

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._interpreter = Interpreter(graph)

    def reset_state(self) -> None:
        self._interpreter.reset_state()

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        values = self._interpreter.run_all(inputs)
        return {name: values[name] for name in _variables(self._graph)}


class _TfliteRuntime:
    """A release of TFLite's run time with the reference kernels."""

    def __init__(
        self, name: str, package: str, version: str, graph: Graph, model: bytes | None
    ) -> None:
        if model is None:
            raise InputError(
                f"the reference {name} runs the model's file, but there is none",
                "give the .tflite file, or choose the reference hilc",
            )
        if not is_tflite(model):
            raise InputError(
                f"the reference {name} runs TensorFlow Lite files, and this model is none",
                "choose the reference hilc",
            )
        _require_same_functions(name, graph)
        file, remarks = for_reference(model)
        self.name = name
        self.description = ", ".join((f"{name}: {package} {version}, BUILTIN_REF", *remarks))
        self._graph = graph
        indices = {tensor: index for index, tensor in enumerate(tensor_names(model))}
        self._indices = {n: indices[n] for n in _variables(graph) if n in indices}
        # What hilc.transforms.own_outputs added: copies, by what they copy.
        self._copies = {
            node.name: node.inputs[0] for node in graph.nodes if node.name not in indices
        }
        self._runtime = _load_runtime(package, file)

    def reset_state(self) -> None:
        self._runtime.reset_all_variables()

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        check_inputs(self._graph, inputs)
        for name, array in inputs.items():
            # asarray: ascontiguousarray gives a scalar a dimension.
            self._runtime.set_tensor(self._indices[name], np.asarray(array, order="C"))
        self._runtime.invoke()
        values = {name: self._runtime.get_tensor(index) for name, index in self._indices.items()}
        return {**values, **{copy: values[name] for copy, name in self._copies.items()}}


def _require_same_functions(name: str, graph: Graph) -> None:
    """Refuse a reference that would fill a table by another C library than the reference's own."""
    for node in graph.nodes:
        source, *_ = graph.ins(node)
        if source is None or not (
            function := host_function_matters(node, source, graph.outs(node)[0])
        ):
            continue
        raise InputError(
            f"on this host the reference {name} computes {node.op} {node.name!r} otherwise than it "
            f"is defined: the C library's {function} rounds unlike that of glibc 2.28 to 2.40",
            "choose the reference hilc, or compare on x86-64 Linux with such a glibc",
        )


def _variables(graph: Graph) -> list[str]:
    """Names of the tensors that have another value in every run."""
    return [*graph.inputs, *(name for node in graph.nodes for name in node.outputs)]


def _load_runtime(package: str, model: bytes) -> Any:
    try:
        module = importlib.import_module(f"{package.replace('-', '_')}.interpreter")
    except ImportError as error:
        raise InputError(
            f"the installed {package} cannot be imported: {error}",
            "install it again, or choose the reference hilc",
        ) from error
    try:
        runtime = module.Interpreter(
            model_content=model,
            num_threads=1,
            experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
            # Without this, tensors share memory and only the outputs survive a run.
            experimental_preserve_all_tensors=True,
        )
        runtime.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise ModelError(
            f"{package} cannot run this model: {' '.join(str(error).split())}",
            "choose the reference hilc",
        ) from error
    return runtime


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def tflm_package() -> tuple[str, str]:
    """Return the package and the version that compute ``tflm`` here; InputError where there is
    none.
    """
    wanted = {"ai-edge-litert": "1.2.0", "tflite-runtime": "2.14.0"}
    installed = {package: _installed(package) for package in wanted}
    for package, version in wanted.items():
        if installed[package] == version:
            return package, version
    remedy = "pip install 'ai-edge-litert==1.2.0'"
    if sys.version_info >= _TFLM_UNTIL:
        here, newest = (
            ".".join(map(str, part)) for part in (sys.version_info[:2], (3, _TFLM_UNTIL[1] - 1))
        )
        remedy = f"no Python after {newest} has it, and this is {here}: use Python {newest}"
    raise _unavailable("tflm", "ai-edge-litert 1.2.0 (Python 3.10 to 3.12)", installed, remedy)


def _tflm(graph: Graph, model: bytes | None) -> Reference:
    return _TfliteRuntime("tflm", *tflm_package(), graph, model)


def _litert(graph: Graph, model: bytes | None) -> Reference:
    version = _installed("ai-edge-litert")
    if version is None or _release(version) < [1, 4]:
        raise _unavailable(
            "litert",
            "ai-edge-litert 1.4 or later",
            {"ai-edge-litert": version},
            "pip install 'ai-edge-litert>=1.4'",
        )
    return _TfliteRuntime("litert", "ai-edge-litert", version, graph, model)


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


def _hilc(graph: Graph, model: bytes | None) -> Reference:
    return _Interpreter(graph)


_FACTORIES: Mapping[str, Callable[[Graph, bytes | None], Reference]] = {
    "tflm": _tflm,
    "litert": _litert,
    "hilc": _hilc,
}
