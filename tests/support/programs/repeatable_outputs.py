"""Compiles and builds what a job says and prints digests: a child of
``tests/campaigns/torture/determinism.py``, which changes the surroundings in which it runs.

    python repeatable_outputs.py JOB

JOB is JSON: ``models`` (name, path, board, options of the compiler), ``folder`` to work in,
``product``, where the packages must be from, and ``backwards``: folders list their entries from the
last to the first.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class _Entries:
    """What ``os.scandir`` returns, from the last name to the first."""

    def __init__(self, entries: Iterable[os.DirEntry[Any]]) -> None:
        self._entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=True))

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Have nothing to close: all entries were read."""


def _backwards() -> None:
    """Let folders list their entries in another order than they do."""
    listed, scanned = os.listdir, os.scandir

    def scandir(*args: Any) -> _Entries:
        with scanned(*args) as entries:
            return _Entries(entries)

    os.listdir = lambda *args: sorted(listed(*args), reverse=True)  # type: ignore[assignment]
    os.scandir = scandir  # type: ignore[assignment]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digests(job: dict[str, Any]) -> Iterator[tuple[str, str]]:
    # Here, so that folders are listed backwards for them too.
    import hil
    import hilc
    import hilc.host
    from hil.board import load_board
    from hil.build import build

    for module in (hilc, hil):
        assert Path(str(module.__file__)).is_relative_to(job["product"]), module.__file__
    folder = Path(job["folder"])
    for name, path, board_name, options in job["models"]:
        board = load_board(board_name)
        what = f"{name} for {board_name} {json.dumps(options)}"
        library = hilc.compile(path, cpu=board.cpu.name, name=name, **options)
        place = folder / _digest(what.encode())[:8]
        place.mkdir(parents=True)
        archive = library.save(place / "library.tar")
        yield f"archive of {what}", _digest(archive.read_bytes())
        library.save(place / "library")
        for file in sorted((place / "library").rglob("*")):
            if file.is_file():
                relative = file.relative_to(place / "library")
                yield f"{relative} of {what}", _digest(file.read_bytes())
        report = hilc.explain(path, cpu=board.cpu.name, name=name, **options)
        yield f"plan of {what}", _digest(repr(report).encode())
        if library.modules[0].cpu == "host":
            shared = hilc.host.export_library(library, place / "library.so")
            yield f"shared object of {what}", _digest(shared.read_bytes())
        for output in (None, place / "project"):
            firmware = build([library], board, output)
            where = "the cache" if output is None else "a project"
            yield f"ELF in {where} of {what}", _digest(firmware.elf.read_bytes())
            yield f"build id in {where} of {what}", firmware.build_id
            yield f"sizes in {where} of {what}", _digest(_sizes(firmware.to_json()).encode())


def _sizes(report: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in report.items() if k not in ("folder", "elf")})


def main() -> None:
    """Print the digests of a job as JSON."""
    job = json.loads(sys.argv[1])
    if job["backwards"]:
        _backwards()
    print(json.dumps(dict(_digests(job))))


if __name__ == "__main__":
    main()
