"""Packages that an extra of this distribution installs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hilc.errors import InputError

#: The extra in pyproject.toml that installs each optional package, by the package's import name.
EXTRAS = {
    "PIL": "images",
    "ai_edge_litert": "litert",
    "esptool": "esp",
    "jinja2": "report",
    "joulescope": "joulescope",
    "jumpstarter": "jumpstarter",
    "labgrid": "lab",
    "matplotlib": "report",
    "mcp": "mcp",
    "onnx": "onnx",
    "onnxruntime": "quantize",
    "pexpect": "pytest",
    "ppk2_api": "ppk2",
    "pyocd": "pyocd",
    "rich": "watch",
    "squarify": "report",
    "tensorflow": "keras",
    "torch": "torch",
    "torchao": "torch",
}


def is_installed(module: str) -> bool:
    """Return whether the package of ``module`` is installed, without importing it."""
    return find_spec(module.partition(".")[0]) is not None


def install_hint(module: str) -> str:
    """Return the remedy for an optional package that is missing: the command that installs it."""
    return f"install it: pip install 'hil-harness[{EXTRAS[module.partition('.')[0]]}]'"


def check_installed(module: str, purpose: str, otherwise: str = "") -> None:
    """Check that an optional package is installed.

    ``purpose`` is the subject of the error ("a picture"); ``otherwise`` completes the remedy.

    Raises:
        InputError: if the package is not installed; its hint is the command that installs it.
    """
    if not is_installed(module):
        package = module.partition(".")[0]
        raise InputError(
            f"{purpose} needs the package {package}, which is not installed",
            install_hint(module) + otherwise,
        )


def require(module: str, purpose: str, otherwise: str = "") -> Any:
    """Return an optional module, imported.

    Raises:
        InputError: if its package is not installed, or cannot be imported.
    """
    check_installed(module, purpose, otherwise)
    try:
        return import_module(module)
    except (ImportError, OSError) as error:  # OSError: a library of C that it loads
        package = module.partition(".")[0]
        raise InputError(
            f"{purpose} needs {module}, and the package {package} cannot be loaded: {error}",
            f"install a version that has {module}: "
            f"pip install --force-reinstall 'hil-harness[{EXTRAS[package]}]'",
        ) from error
