"""Virtual environments of the tools that are no part of ``.venv``, by their lock files.

A lock file ``ci/locks/NAME.txt`` has the version of every package and the hashes of its wheels, so
that nothing else is installed, and no package's own build script runs but those of
:data:`FROM_SOURCE`. ``make lock`` writes them.

    python ci/environments.py NAME PROGRAM [ARG...]     run a program of an environment
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "ci" / "locks"
#: Options of pip, beside the path of a lock file, that install what the lock names and no more.
FROM_LOCK = ("--require-hashes", "--only-binary", ":all:", "-r")
#: The package of a lock file that is released as source only. The file also has what builds it.
FROM_SOURCE = {"esp": "esptool"}
_LIMIT_S = 900


def lock_path(name: str) -> Path:
    """Return the path of the lock file ``name``."""
    return LOCKS / f"{name}.txt"


def programs(name: str) -> Path:
    """Return the folder of the programs of the environment ``name`` in ``build/environments``.

    It is made where it is missing or holds the packages of another lock file.

    Raises:
        subprocess.SubprocessError: if pip cannot install the packages.
    """
    folder = ROOT / "build" / "environments" / name
    wanted, installed = lock_path(name).read_text("utf-8"), folder / "lock.txt"
    if not installed.is_file() or installed.read_text("utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
        lock = lock_path(name)
        if name in FROM_SOURCE:
            lock = folder / "wheels.txt"
            lock.write_text("".join(_without(wanted, FROM_SOURCE[name])), "utf-8")
        subprocess.run([*pip, *FROM_LOCK, str(lock)], check=True, timeout=_LIMIT_S)
        if name in FROM_SOURCE:
            here = ("--no-build-isolation", "--no-deps", "--require-hashes")
            subprocess.run([*pip, *here, "-r", str(lock_path(name))], check=True, timeout=_LIMIT_S)
        installed.write_text(wanted, "utf-8")
    return folder / "bin"


def _without(text: str, package: str) -> Iterator[str]:
    """Yield the lines of a lock file but those of ``package``."""
    is_left_out = False
    for line in text.splitlines(keepends=True):
        if not line.startswith(" "):
            is_left_out = line.startswith(f"{package}==")
        if not is_left_out:
            yield line


def main() -> int:
    """Run the program that the command line names; return its exit code."""
    if len(sys.argv) < 3 or not lock_path(sys.argv[1]).is_file():
        names = ", ".join(sorted(path.stem for path in LOCKS.glob("*.txt")))
        print(f"usage: environments.py NAME PROGRAM [ARG...], NAME of {names}", file=sys.stderr)
        return 2
    return subprocess.run([programs(sys.argv[1]) / sys.argv[2], *sys.argv[3:]]).returncode


if __name__ == "__main__":
    sys.exit(main())
