#!/usr/bin/env python3
"""Asks for known vulnerabilities of the Python packages, and writes the bills of materials.

``make audit`` writes build/bom/environment.json (the Python environment), build/bom/image.json
(what is linked into an image) and build/bom/library (an exported library, which brings its own) in
CycloneDX, all checked by its schema. Exit: 1 for a known
vulnerability or a bill that is not valid. Where no service answers, or the tools cannot be
installed, nothing is known: that is told, and fails only with ``--require-service``. They live in
an environment of their own, so that nothing of them is in the one that is audited.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from environments import programs

import hil
import hilc
from hil.board import Board, load_board
from hil.build import build
from hil.export.bill import BILL
from hil.firmware.linkmap import LinkMap, read_map
from hil.firmware.toolchain import program_version

ROOT = Path(__file__).resolve().parents[1]
_BILLS = ROOT / "build" / "bom"
_SERVICES = ("pypi", "osv")
_LIMIT_S = 600
#: The component of each archive of the toolchain.
_ARCHIVES = {"libgcc": "libgcc", "libc": "newlib", "libm": "newlib", "libg": "newlib"}
_FOUND, _UNKNOWN = 1, 4


def main(argv: Sequence[str] | None = None) -> int:
    """Write the bills, then ask; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", default="mps2-an386", help="of the image (default: %(default)s)")
    parser.add_argument("--require-service", action="store_true", help="fail if none answers")
    args = parser.parse_args(argv)
    try:
        tools = programs("audit")
    except subprocess.SubprocessError as error:
        print(f"nothing was audited: the tools could not be installed ({error})")
        return _UNKNOWN if args.require_service else 0
    _BILLS.mkdir(parents=True, exist_ok=True)
    codes = [_environment(tools), _image(tools, load_board(args.board)), _library(tools)]
    return max(*codes, _vulnerabilities(tools, args.require_service))


# -- bills of materials ------------------------------------------------------------------------


def _environment(tools: Path) -> int:
    bill = _BILLS / "environment.json"
    command = [tools / "cyclonedx-py", "environment", sys.executable, "--output-reproducible"]
    command += ["--pyproject", ROOT / "pyproject.toml", "-o", bill]
    subprocess.run(list(map(str, command)), check=True, timeout=_LIMIT_S)
    return _bom(tools, "check", bill)


def _library(tools: Path) -> int:
    """Export the digits model, and check the bill that the library brings."""
    folder = _BILLS / "library"
    hil.export(ROOT / "examples" / "digits" / "digits.tflite", "cmake", folder, force=True)
    return _bom(tools, "check", folder / BILL)


def _image(tools: Path, board: Board) -> int:
    """Write what an image of the digits model for ``board`` is made of, by the linker's map."""
    model = hilc.compile(
        ROOT / "examples" / "digits" / "digits.tflite",
        cpu=board.cpu.name,
        pools="external",
        io_in_pool=True,
    )
    firmware = build([model], board)
    link = read_map((firmware.folder / "build" / "firmware.map").read_text("utf-8"))
    about = {
        "image": {
            **_ours("firmware", f"an image of the digits model for {board.name}"),
            "sha256": hashlib.sha256(firmware.elf.read_bytes()).hexdigest(),
        },
        "parts": parts(link, board),
    }
    found = _BILLS / "image-components.json"
    found.write_text(json.dumps(about, indent=1) + "\n")
    return _bom(tools, "image", found, _BILLS / "image.json")


def parts(link: LinkMap, board: Board) -> list[dict[str, Any]]:
    """Return the components of an image, with the bytes that the linker took of each."""
    sizes: Counter[str] = Counter()
    archives: dict[str, Path] = {}
    for piece in link.pieces:
        if piece.output in (".text", ".rodata", ".data", ".data.rel.ro"):
            name = _component_of(piece.file)
            sizes[name] += piece.size
            if piece.file.endswith(")"):
                archives[name] = Path(piece.file.rpartition("(")[0])
    own = {
        "model": "generated C of the model: layers, weights, and the kernels inlined into them",
        "runtime": "start, drivers and serial protocol",
    }
    found = [
        {**_ours(name, text), "bytes": sizes.pop(name)} for name, text in own.items() if sizes[name]
    ]
    for name in sorted(sizes):
        found.append({**_of_toolchain(name, archives[name], board), "bytes": sizes[name]})
    return found


def _component_of(file: str) -> str:
    if file.endswith(")"):
        archive = Path(file.rpartition("(")[0]).stem
        known = next((stem for stem in _ARCHIVES if re.match(rf"{stem}(_|$)", archive)), None)
        return _ARCHIVES[known] if known else archive
    if re.search(r"(^|/)crt[in0-9a-z]*\.o$", file):
        return "startup files of the compiler"
    return "model" if "CMakeFiles/model_" in file or "/generated/model_" in file else "runtime"


def _ours(name: str, description: str) -> dict[str, str]:
    version = hilc.__version__
    return {
        "name": f"hil-{name}",
        "version": version,
        "description": description,
        "license": "Apache-2.0",
    }


def _of_toolchain(name: str, archive: Path, board: Board) -> dict[str, str]:
    """Return a component that the toolchain brings; its archive identifies it."""
    gcc = board.cpu.toolchain.gcc
    about = {"name": name, "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}
    if name == "newlib":
        text = "#include <_newlib_version.h>\n_NEWLIB_VERSION\n"
        command = [gcc, "-E", "-P", "-xc", "-"]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=60
        )
        version = (done.stdout.strip().splitlines() or ["unknown"])[-1].strip('"')
        terms = "COPYING.NEWLIB: several permissive licenses"
        return {**about, "version": version, "description": "C library", "terms": terms}
    version = program_version(gcc)
    return {
        **about,
        "version": version,
        "description": f"brought by {gcc}",
        "terms": "GPL-3.0-or-later WITH GCC-exception-3.1"
        if name in ("libgcc", "startup files of the compiler")
        else "as the toolchain says",
    }


def _bom(tools: Path, *words: str | Path) -> int:
    command = [str(tools / "python"), str(ROOT / "ci" / "bom.py"), *map(str, words)]
    return subprocess.run(command, check=False, timeout=_LIMIT_S).returncode


# -- vulnerabilities ---------------------------------------------------------------------------


def _vulnerabilities(tools: Path, is_required: bool) -> int:
    packages = sysconfig.get_path("purelib")
    for service in _SERVICES:
        command = [str(tools / "pip-audit"), "--path", packages, "-s", service, "-f", "json"]
        command += ["--progress-spinner", "off", "--timeout", "10"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            continue
        asked, bad = verdict(done.stdout)
        if not asked:
            continue
        print(f"{service}: {asked} packages known to it, {len(bad)} with known vulnerabilities")
        for line in bad:
            print(f"  {line}")
        return _FOUND if bad else 0
    print(
        f"no vulnerability service could be reached ({', '.join(_SERVICES)}): nothing is known of "
        "the packages; run it again where one answers"
    )
    return _UNKNOWN if is_required else 0


def verdict(text: str) -> tuple[int, list[str]]:
    """Return how many packages the service knew, and a line for each with a vulnerability.

    pip-audit skips what the service does not know: without a service, everything.
    """
    try:
        dependencies = json.loads(text)["dependencies"]
    except (ValueError, LookupError, TypeError):
        return 0, []
    asked = [one for one in dependencies if "skip_reason" not in one]
    return len(asked), [
        f"{one['name']} {one['version']}: {', '.join(bad['id'] for bad in one['vulns'])}"
        for one in asked
        if one.get("vulns")
    ]


if __name__ == "__main__":
    sys.exit(main())
