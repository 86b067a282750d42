"""Cores and toolchains: the targets that code is compiled for, as data in TOML files."""

from hilc.target.cores import (
    FEATURES,
    MULTIPLIED,
    Cpu,
    Limit,
    add_core,
    add_cores,
    core_file,
    cpu_names,
    find_cpu,
    get_cpu,
    load_cpu,
)
from hilc.target.toolchains import Toolchain, toolchain_names, toolchains

__all__ = [
    "FEATURES",
    "MULTIPLIED",
    "Cpu",
    "Limit",
    "Toolchain",
    "add_core",
    "add_cores",
    "core_file",
    "cpu_names",
    "find_cpu",
    "get_cpu",
    "load_cpu",
    "toolchain_names",
    "toolchains",
]
