"""Read what a firmware for MLPerf Tiny is built for from a command's arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hil.firmware.mlperf import Mlperf, benchmark_named, check_one_model
from hil.firmware.project import modules_of
from hilc.artifact.library import ModelLibrary
from hilc.errors import InputError


def mlperf_of(args: argparse.Namespace, libraries: Sequence[ModelLibrary]) -> Mlperf | None:
    """Return what the firmware is for; None for our own protocol."""
    if args.mlperf is None:
        given = [f"--{name}" for name in ("device-name", "baud") if _value(args, name) is not None]
        given += ["--energy-mode"] if args.energy else []
        if given:
            raise InputError(
                f"{given[0]} is of a firmware for MLPerf Tiny", "add --mlperf auto, or drop it"
            )
        return None
    modules = modules_of(libraries)
    check_one_model(modules)
    return Mlperf(
        benchmark_named(args.mlperf, modules[0]),
        name=args.device_name,
        baud=args.baud,
        energy=args.energy,
    )


def _value(args: argparse.Namespace, name: str) -> Any:
    return getattr(args, name.replace("-", "_"))
