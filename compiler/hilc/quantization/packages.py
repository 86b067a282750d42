"""Packages that only quantization needs, imported when it begins."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hilc.errors import InputError

#: The extra of this distribution that brings a package.
_EXTRAS = {"onnxruntime": "quantize", "torch": "torch", "torchao": "torch"}


def require(module: str, purpose: str) -> Any:
    """Return a module of another distribution.

    Raise :class:`~hilc.errors.InputError` with the command that installs it, if it is missing or
    cannot be loaded; ``purpose`` is a clause that says what needs it.
    """
    package = module.partition(".")[0]
    remedy = f"pip install 'hil-harness[{_EXTRAS[package]}]'"
    if find_spec(package) is None:
        raise InputError(f"{purpose}, and the package {package} is not installed", remedy)
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{purpose}, and the package {package} cannot be loaded: {error}",
            f"install a version that has {module}: {remedy}",
        ) from error
