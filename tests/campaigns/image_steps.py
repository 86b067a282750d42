#!/usr/bin/env python3
"""Run the steps of the Dockerfile in a fresh root of Debian, and `hil verify` in the result.

    python tools/measure.py image_steps [--folder DIR]

For machines without a Docker daemon; it needs root, the program debootstrap, and about 5 GB. What
it does not show: Docker's own layers, and the image `debian:bookworm-slim`, which has fewer files
than debootstrap's.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fresh_root import bootstrapped, is_possible, run

ROOT = Path(__file__).resolve().parents[2]
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RELEASE = re.compile(r"BASE=debian:(\w+)-slim")
_VERIFY = "hil verify /opt/hil/examples/digits/digits.tflite --samples 2 --board"


def instructions() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the Dockerfile, with their continued lines."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    for line in filter(None, text.splitlines()):
        name, _, rest = line.partition(" ")
        yield name, " ".join(rest.split())


def build(root: Path) -> None:
    """Do each instruction in ``root``; print it with its seconds. The image must then work."""
    workdir, variables = "/", {"PATH": _PATH}
    for name, text in instructions():
        begin = time.monotonic()
        if name == "ARG":
            release = _RELEASE.fullmatch(text)
            assert release is not None, f"the base {text} is no release of Debian"
            bootstrapped(root, release[1])
        elif name == "WORKDIR":
            workdir = text
        elif name == "COPY":
            assert text == ". .", text
            _copy(root / workdir.lstrip("/"))
        elif name == "ENV":
            key, _, value = text.partition("=")
            variables[key] = value.replace(f"${{{key}}}", variables.get(key, ""))
        elif name == "RUN":
            run(root, text, workdir, variables)
        _report(name, text, begin)
    for command in ("hil doctor", f"{_VERIFY} mps2-an386", f"{_VERIFY} riscv-virt"):
        begin = time.monotonic()
        print(run(root, command, workdir, variables), end="")
        _report("run", command, begin)


def _copy(folder: Path) -> None:
    """Copy what a checkout has; more than that is in .dockerignore."""
    folder.mkdir(parents=True)
    words = ["git", "ls-files", "-z"]
    names = subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, os.fsdecode(names).split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def _report(name: str, text: str, begin: float) -> None:
    print(f"{name} {text[:60]}: {time.monotonic() - begin:.0f} s", flush=True)


def main() -> int:
    """Build and try the image; 1 if a step fails, 2 where it cannot run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folder", type=Path, help="for the root (default: a temporary one)")
    args = parser.parse_args()
    if not is_possible():
        print("error: this needs root and the program debootstrap", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        try:
            build(args.folder or Path(folder))
        except AssertionError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
