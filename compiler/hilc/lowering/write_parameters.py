"""Writes the dataclasses of kernels' parameters from the structs in their C headers.

``python -m hilc.lowering.write_parameters FOLDER`` prints the module for the headers in a folder of
your own, which :func:`hilc.lowering.kernels.register_kernels` takes. Those of the kernels that
ship are in :mod:`hilc.lowering.parameters`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hilc.errors import HilError, InputError
from hilc.lowering.kernels import read_headers, shipped_structs
from hilc.lowering.structs import Structs, kernel_names, python_module, read_structs

_COMMAND = "python -m hilc.lowering.write_parameters"


def own_parameters(folder: Path) -> str:
    """Return the text of a module for the kernels that the headers below ``folder`` describe;
    InputError if there is no header.

    Raise :class:`~hilc.errors.InputError` if there are no headers.
    """
    headers = read_headers(folder)
    if not headers:
        raise InputError(f"no header (.h) is below {folder}", "give the folder of your kernels")
    shipped, own = shipped_structs(), read_structs(headers.values())
    structs = Structs(own.structs, {**shipped.groups, **own.groups})
    names = list(kernel_names(headers.values()))
    return python_module(
        structs,
        names,
        f"{_COMMAND} FOLDER",
        known=shipped.groups.keys() - own.groups.keys(),
        whose="own",
    )


def main() -> int:
    """Print the module for a folder of headers."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="with the headers of your kernels")
    folder = parser.parse_args().folder
    try:
        sys.stdout.write(own_parameters(folder))
    except HilError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
