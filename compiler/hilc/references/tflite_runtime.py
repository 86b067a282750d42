"""Releases of TensorFlow Lite's runtime with its reference kernels, in this process."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from hilc.errors import InputError, ModelError
from hilc.interpreter import check_inputs
from hilc.ir import Array, Graph
from hilc.ops.unary import host_function_matters
from hilc.references.file import ModelFile

#: What operators say to types that they do not take; of zeros they say other things, too.
_OF_TYPES = re.compile(r"not supported|supported currently|only supports|unsupported", re.I)


class TfliteRuntime:
    """A release of TFLite's runtime with the reference kernels."""

    def __init__(
        self, name: str, package: str, version: str, graph: Graph, model: bytes | None
    ) -> None:
        self._file = ModelFile(name, graph, model)
        _require_same_functions(name, graph)
        self.name = name
        self.description = self._file.describe(f"{name}: {package} {version}, BUILTIN_REF")
        self._graph = graph
        self._runtime = _load_runtime(package, self._file.data)
        self._require_types(package)

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        check_inputs(self._graph, inputs)
        for name, array in inputs.items():
            # asarray: ascontiguousarray gives a scalar a dimension.
            self._runtime.set_tensor(self._file.indices[name], np.asarray(array, order="C"))
        self._runtime.invoke()
        return self._file.named([self._value(index) for index in self._file.indices.values()])

    def _require_types(self, package: str) -> None:
        """Raise now where an operator rejects its types only when it runs."""
        tensors = [self._graph.tensors[name] for name in self._graph.inputs]
        try:
            self.run_all({x.name: np.zeros(x.shape, x.dtype) for x in tensors})
        except RuntimeError as error:
            if _OF_TYPES.search(str(error)):
                raise _refusal(package, error) from error
        self.reset_state()

    def _value(self, index: int) -> Array | None:
        """Return a tensor's value; None for what a loop leaves and nobody reads, which is gone."""
        try:
            value: Array = self._runtime.get_tensor(index)
        except ValueError:
            return None
        return value

    def reset_state(self) -> None:
        self._runtime.reset_all_variables()


def _require_same_functions(name: str, graph: Graph) -> None:
    """Raise if this machine's C library would fill a table with other values than glibc."""
    for node in graph.nodes:
        source, *_ = graph.ins(node)
        if source is None or not (
            function := host_function_matters(node, source, graph.outs(node)[0])
        ):
            continue
        raise InputError(
            f"on this host the reference {name} computes {node.op} {node.name!r} differently: "
            f"the C library's {function} rounds unlike that of glibc 2.28 to 2.40",
            "choose the reference hilc, or compare on x86-64 Linux with such a glibc",
        )


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
            # Otherwise tensors share memory, and only the outputs survive a run.
            experimental_preserve_all_tensors=True,
        )
        runtime.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise _refusal(package, error) from error
    return runtime


def _refusal(package: str, error: Exception) -> ModelError:
    return ModelError(
        f"{package} cannot run this model: {' '.join(str(error).split())}",
        "choose the reference hilc",
    )
