"""Inputs that the campaigns start from, one archive each in ``tests/campaigns/torture/corpus``."""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "campaigns" / "torture" / "corpus"


def unpacked(name: str, folder: Path) -> list[Path]:
    """Write the inputs of the corpus into ``folder``; their files."""
    files = []
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        for member in archive:
            stored = archive.extractfile(member)
            assert stored is not None, "a corpus has files only"
            files.append(folder / Path(member.name).name)
            files[-1].write_bytes(stored.read())
    return files


def pack(name: str, files: Iterable[Path]) -> Path:
    """Make the corpus of these files; the same inputs give the same archive."""
    inputs = {hashlib.sha256(data).hexdigest()[:16]: data for data in map(Path.read_bytes, files)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for label, data in sorted(inputs.items()):
            info = tarfile.TarInfo(label)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    path = FOLDER / f"{name}.tar.xz"
    path.write_bytes(lzma.compress(packed.getvalue(), preset=9))
    return path
