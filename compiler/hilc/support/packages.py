"""The command that installs system packages, for the system that this process runs on.

Packages have the names of Debian and Ubuntu everywhere else in the code; the table has those of
other systems.
"""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Manager:
    """The package manager of a system."""

    #: As a message calls the system.
    system: str
    command: str
    #: Names of packages by Debian's; an empty one is not packaged. None: the names are Debian's.
    names: Mapping[str, str] | None = None


_APT = Manager("Debian", "apt install")
_DNF = Manager(
    "Fedora",
    "dnf install",
    {
        "binutils-arm-none-eabi": "arm-none-eabi-binutils-cs",
        "bossa-cli": "bossa",
        "clang": "clang",
        "dfu-util": "dfu-util",
        "g++": "gcc-c++",
        "gcc": "gcc",
        "gcc-arm-none-eabi": "arm-none-eabi-gcc-cs",
        "gdb-multiarch": "gdb",
        "libnewlib-arm-none-eabi": "arm-none-eabi-newlib",
        "make": "make",
        "openocd": "openocd",
        "picotool": "picotool",
        "qemu-system-arm": "qemu-system-arm",
        "qemu-system-misc": "qemu-system-riscv",
        "stlink-tools": "stlink",
        "uhubctl": "uhubctl",
        "verilator": "verilator",
    },
)
_PACMAN = Manager(
    "Arch Linux",
    "pacman -S",
    {
        "binutils-arm-none-eabi": "arm-none-eabi-binutils",
        "clang": "clang",
        "dfu-util": "dfu-util",
        "g++": "gcc",
        "gcc": "gcc",
        "gcc-arm-none-eabi": "arm-none-eabi-gcc",
        "libnewlib-arm-none-eabi": "arm-none-eabi-newlib",
        "make": "make",
        "openocd": "openocd",
        "picotool": "picotool",
        "qemu-system-arm": "qemu-system-arm",
        "qemu-system-misc": "qemu-system-riscv",
        "stlink-tools": "stlink",
        "uhubctl": "uhubctl",
        "verilator": "verilator",
    },
)
_BREW = Manager(
    "macOS",
    "brew install",
    {
        "clang": "llvm",
        "dfu-util": "dfu-util",
        "gcc-arm-none-eabi": "--cask gcc-arm-embedded",
        "libnewlib-arm-none-eabi": "--cask gcc-arm-embedded",
        "binutils-arm-none-eabi": "--cask gcc-arm-embedded",
        "openocd": "open-ocd",
        "picotool": "picotool",
        "qemu-system-arm": "qemu",
        "qemu-system-misc": "qemu",
        "stlink-tools": "stlink",
        "uhubctl": "uhubctl",
        "verilator": "verilator",
    },
)
#: By the words of ID and ID_LIKE in /etc/os-release.
_BY_ID = {"debian": _APT, "ubuntu": _APT, "fedora": _DNF, "rhel": _DNF, "arch": _PACMAN}


@functools.cache
def manager() -> Manager | None:
    """Return the package manager of this system; None for one that is not known."""
    if sys.platform == "darwin":
        return _BREW
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return None
    words = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((_BY_ID[word] for word in words if word in _BY_ID), None)


def install_command(*packages: str) -> str:
    """Return the command that installs ``packages``, by Debian's names, with spaces between some.

    Of a system that does not have all of them, or is not known, it says so.
    """
    wanted = [name for package in packages for name in package.split()]
    own = manager()
    if own is None or own.names is None:
        command = f"{_APT.command} {' '.join(wanted)}"
        return command if own is not None else f"{command}, on Debian"
    names = [own.names.get(name, "") for name in wanted]
    command = f"{own.command} {' '.join(dict.fromkeys(filter(None, names)))}"
    if not (lacking := [name for name, found in zip(wanted, names, strict=True) if not found]):
        return command
    unknown = f"for which no package of {own.system} is known"
    rest = f"what Debian packages as {' '.join(lacking)}, {unknown}"
    return f"{command}, and {rest}" if any(names) else rest
