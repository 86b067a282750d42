"""The runner ``verilator``: the RTL of a core in a simulator, which counts its cycles."""

from hil.access.verilator.build import VERILATOR
from hil.access.verilator.runner import (
    RtlMachine,
    VerilatorRunner,
    check_debug,
    machine,
    memory_models,
)

__all__ = [
    "VERILATOR",
    "RtlMachine",
    "VerilatorRunner",
    "check_debug",
    "machine",
    "memory_models",
]
