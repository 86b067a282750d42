"""Location of the data that ships beside the code: ``targets``, ``firmware_template``,
``runtime``.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
# In a checkout (and an editable install) the folders are in the repository; a wheel has copies
# below hilc/_data.
_IN_CHECKOUT = {
    "targets": _PACKAGE.parents[1] / "targets",
    "firmware_template": _PACKAGE.parents[1] / "firmware_template",
    "runtime": _PACKAGE.parent / "runtime",
}


def data_dir(name: str) -> Path:
    """Return the folder of the shipped data ``name`` (a key of the table above), in a wheel or a
    checkout.

    Raise FileNotFoundError if the installation lacks it.
    """
    in_wheel = _PACKAGE / "_data" / name
    folder = in_wheel if in_wheel.is_dir() else _IN_CHECKOUT[name]
    if not folder.is_dir():
        raise FileNotFoundError(f"the installation has no folder {name!r} (looked in {folder})")
    return folder


def data_file(name: str) -> Path:
    """Return the shipped file ``name``, which is at the top of the repository: ``LICENSE``.

    Raise FileNotFoundError if the installation lacks it.
    """
    in_wheel = _PACKAGE / "_data" / name
    file = in_wheel if in_wheel.is_file() else _PACKAGE.parents[1] / name
    if not file.is_file():
        raise FileNotFoundError(f"the installation has no file {name!r} (looked for {file})")
    return file
