"""Hardware in the loop: compiled models on boards and emulators, driven from Python.

``hil.verify(model, board=...)`` compares a model on a board with its reference, ``hil.bench``
counts what it costs, ``hil.evaluate`` measures its accuracy over a data set,
``hil.open(board, *models)`` gives a device, and ``hil.open_elf(board, elf)`` one that runs other
firmware. The command line is ``hil`` (:mod:`hil.cli`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # what `typing` has; without its import, which takes longer than all others
if TYPE_CHECKING:
    from typing import Any

    from hil.device import Device
    from hil.device.elf import ElfDevice, open_elf
    from hil.device.session import open as open
    from hil.errors import HilError
    from hil.export.job import Exported, export
    from hil.export.package import About
    from hil.firmware.build import Firmware, Sizes, build, create_project
    from hil.firmware.fitting import fit
    from hil.firmware.models import compile as compile
    from hil.jobs.bench import BenchJob
    from hil.jobs.evaluate import EvaluateJob
    from hil.jobs.functions import bench, evaluate, verify
    from hil.jobs.job import Job
    from hil.jobs.matrix import JobOutcome, matrix
    from hil.jobs.verify import VerifyJob
    from hil.page.report import report
    from hil.results.evaluate import Mismatch
    from hil.results.verify import Cost
    from hil.verify.bench import BenchReport
    from hil.verify.comparison import LayerReport, Oracle, Report, TensorReport
    from hil.verify.evaluation import Evaluation, MetricReport
    from hil.verify.metrics import Score
    from hilc.quantization import quantize

# `open` and `compile` are public too; `from hil import *` must not replace Python's own.
__all__ = [
    "About",
    "BenchJob",
    "BenchReport",
    "Cost",
    "Device",
    "ElfDevice",
    "EvaluateJob",
    "Evaluation",
    "Exported",
    "Firmware",
    "HilError",
    "Job",
    "JobOutcome",
    "LayerReport",
    "MetricReport",
    "Mismatch",
    "Oracle",
    "Report",
    "Score",
    "Sizes",
    "TensorReport",
    "VerifyJob",
    "bench",
    "build",
    "create_project",
    "evaluate",
    "export",
    "fit",
    "matrix",
    "open_elf",
    "quantize",
    "report",
    "verify",
]

# Loaded on first use: `hil --help` and pytest's collection need neither compiler nor link.
_HOMES = {
    "About": "hil.export.package",
    "BenchJob": "hil.jobs.bench",
    "BenchReport": "hil.verify.bench",
    "Cost": "hil.results.verify",
    "Device": "hil.device",
    "ElfDevice": "hil.device.elf",
    "EvaluateJob": "hil.jobs.evaluate",
    "Evaluation": "hil.verify.evaluation",
    "Exported": "hil.export.job",
    "Firmware": "hil.firmware.build",
    "HilError": "hil.errors",
    "Job": "hil.jobs.job",
    "JobOutcome": "hil.jobs.matrix",
    "LayerReport": "hil.verify.comparison",
    "MetricReport": "hil.verify.evaluation",
    "Mismatch": "hil.results.evaluate",
    "Oracle": "hil.verify.comparison",
    "Report": "hil.verify.comparison",
    "Score": "hil.verify.metrics",
    "Sizes": "hil.firmware.build",
    "TensorReport": "hil.verify.comparison",
    "VerifyJob": "hil.jobs.verify",
    "bench": "hil.jobs.functions",
    "build": "hil.firmware.build",
    "compile": "hil.firmware.models",
    "create_project": "hil.firmware.build",
    "evaluate": "hil.jobs.functions",
    "export": "hil.export.job",
    "fit": "hil.firmware.fitting",
    "matrix": "hil.jobs.matrix",
    "open": "hil.device.session",
    "open_elf": "hil.device.elf",
    "quantize": "hilc.quantization",
    "report": "hil.page.report",
    "verify": "hil.jobs.functions",
}
#: Modules for users.
_MODULES = ("board", "device", "errors", "oracle", "samples")


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


class _Package(ModuleType):
    """The package, whose functions keep their names where modules have the same.

    Importing ``hil.verify.samples`` makes Python set the package ``hil.verify`` as an attribute
    here, in place of the function.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
