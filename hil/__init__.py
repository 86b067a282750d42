"""Hardware in the loop: compiled models on boards and emulators, driven from Python.

``hil.verify(model, board=...)`` compares a model on a board with its reference, ``hil.bench``
counts what it costs, ``hil.evaluate`` takes its accuracy over a data set, and
``hil.open(board, *models)`` gives a device. The command line is ``hil`` (:mod:`hil.cli`).
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # what `typing` has; without its import, which takes longer than all others
if TYPE_CHECKING:
    from typing import Any

    from hil.device.session import open
    from hil.errors import HilError
    from hil.export.job import export
    from hil.firmware.models import compile
    from hil.page.report import report
    from hil.verify.jobs import bench, evaluate, verify
    from hilc.quantization import quantize

__all__ = [
    "HilError",
    "bench",
    "compile",
    "evaluate",
    "export",
    "open",
    "quantize",
    "report",
    "verify",
]

# Loaded on first use: `hil --help` and pytest's collection need neither compiler nor link.
_HOMES = {
    "HilError": "hil.errors",
    "compile": "hil.firmware.models",
    "evaluate": "hil.verify.jobs",
    "open": "hil.device.session",
    "quantize": "hilc.quantization",
    "report": "hil.page.report",
}
# `verify`, `bench` and `export` are modules that can be called
# (:mod:`hil.support.callable_module`).
_MODULES = ("bench", "board", "build", "device", "errors", "export", "oracle", "samples", "verify")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
