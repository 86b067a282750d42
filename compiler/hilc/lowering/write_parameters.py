"""Writes the dataclasses of kernels' parameters from the structs in their C headers.

``python -m hilc.lowering.write_parameters`` writes :mod:`hilc.lowering.parameters`; with
``--check`` it only compares, and returns 1 where the file is stale. With a folder of headers of
your own, which :func:`hilc.lowering.kernels.register_kernels` takes, it prints the module for them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hilc.errors import HilError, InputError
from hilc.lowering.kernels import described_kernels, read_headers, shipped_headers
from hilc.lowering.structs import Structs, python_module, read_structs

_COMMAND = "python -m hilc.lowering.write_parameters"


def shipped_parameters() -> str:
    """Return the text of :mod:`hilc.lowering.parameters`."""
    headers = shipped_headers()
    names = [kernel.name for kernel in described_kernels(headers)]
    structs = read_structs(headers.values())
    if silent := list(structs.without_meaning(names)):
        raise InputError(
            f"no comment says what {', '.join(silent)} is",
            "write it behind the field or above it: the dataclass takes it from there",
        )
    return python_module(structs, names)


def own_parameters(folder: Path) -> str:
    """Return the text of a module for the kernels that the headers below ``folder`` describe."""
    headers = read_headers(folder)
    if not headers:
        raise InputError(f"no header (.h) is below {folder}", "give the folder of your kernels")
    shipped, own = read_structs(shipped_headers().values()), read_structs(headers.values())
    structs = Structs(own.structs, {**shipped.groups, **own.groups})
    names = [kernel.name for kernel in described_kernels(headers)]
    return python_module(
        structs, names, known=shipped.groups.keys() - own.groups.keys(), whose="own"
    )


def main() -> int:
    """Write, compare or print a module of parameters."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="print the module for these headers")
    parser.add_argument("--check", action="store_true", help="only compare")
    args = parser.parse_args()
    try:
        if args.folder is not None:
            sys.stdout.write(own_parameters(args.folder))
            return 0
        text = shipped_parameters()
    except HilError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    path = Path(__file__).with_name("parameters.py")
    if not args.check:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{path} differs from the C headers\n\nhint: run {_COMMAND}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
