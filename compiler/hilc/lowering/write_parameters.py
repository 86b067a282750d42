"""Writes the dataclasses of kernels' parameters from the structs in their C headers.

``python -m hilc.lowering.write_parameters FOLDER`` prints the module for the headers in a folder of
your own, which :func:`hilc.lowering.kernels.register_kernels` takes. ``tools/parameters.py`` of the
repository writes :mod:`hilc.lowering.parameters`, the module for the kernels that ship.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hilc.errors import HilError, InputError
from hilc.lowering.kernels import described_kernels, read_headers, shipped_headers
from hilc.lowering.structs import Structs, python_module, read_structs

_COMMAND = "python -m hilc.lowering.write_parameters"
_COMMAND_FOR_SHIPPED = "python tools/parameters.py"


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
    return python_module(structs, names, _COMMAND_FOR_SHIPPED)


def own_parameters(folder: Path) -> str:
    """Return the text of a module for the kernels that the headers below ``folder`` describe."""
    headers = read_headers(folder)
    if not headers:
        raise InputError(f"no header (.h) is below {folder}", "give the folder of your kernels")
    shipped, own = read_structs(shipped_headers().values()), read_structs(headers.values())
    structs = Structs(own.structs, {**shipped.groups, **own.groups})
    names = [kernel.name for kernel in described_kernels(headers)]
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
    parser.add_argument("folder", nargs="?", type=Path, help="with the headers of your kernels")
    folder = parser.parse_args().folder
    if folder is None:
        parser.error(f"give the folder of your kernels ({_COMMAND_FOR_SHIPPED} writes ours)")
    try:
        sys.stdout.write(own_parameters(folder))
    except HilError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
