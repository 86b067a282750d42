"""Commands of an optional component that is not installed: they raise an error."""

from __future__ import annotations

import argparse

from hil.cli.console import Console
from hil.errors import InputError


def tvmc_command(args: argparse.Namespace, console: Console) -> int:
    raise InputError(
        "hil tvmc is part of hil.compat.tvm (compatibility with microTVM), which is not installed",
        "install the whole distribution (pip install --force-reinstall hil-harness), or use "
        "hil compile, hil build and hil run",
    )
