"""The compiler: from a trained model to a library of C."""

from __future__ import annotations

from importlib import import_module

from hilc.errors import HilError, InputError, ModelError, UnsupportedError
from hilc.support.version import __version__

TYPE_CHECKING = False  # what `typing` has; without its import, which takes longer than all others
if TYPE_CHECKING:
    from typing import Any

    from hilc.artifact.library import ModelLibrary, merge
    from hilc.compiler import compile, explain, frontier
    from hilc.ir import Graph
    from hilc.memory.pools import Pin
    from hilc.options import CompileOptions

__all__ = [
    "CompileOptions",
    "Graph",
    "HilError",
    "InputError",
    "ModelError",
    "ModelLibrary",
    "Pin",
    "UnsupportedError",
    "__version__",
    "compile",
    "explain",
    "frontier",
    "merge",
]

# Loaded on first use: what a command finds in the cache needs no compiler.
_HOMES = {
    "CompileOptions": "hilc.options",
    "Graph": "hilc.ir",
    "ModelLibrary": "hilc.artifact.library",
    "Pin": "hilc.memory.pools",
    "compile": "hilc.compiler",
    "explain": "hilc.compiler",
    "frontier": "hilc.compiler",
    "merge": "hilc.artifact.library",
}
#: Modules for users that compiling does not need, such as `hilc.host`.
_MODULES = {
    "executor": "hilc.executor",
    "host": "hilc.host",
    "interpreter": "hilc.interpreter",
    "onnx_backend": "hilc.onnx_backend",
    "params": "hilc.artifact.params",
    "quantization": "hilc.quantization",
    "references": "hilc.references",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
