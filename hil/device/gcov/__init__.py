"""Coverage of a user's firmware: gcov's counters from its console, as files for gcov and gcovr.

The firmware prints them with ``hil_gcov.h``. It names its files itself, so that nothing is written
outside of the folder that the caller chose.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from hil.device.firmware_tests import Lines
from hil.errors import ConsoleError
from hilc.support.outputs import cannot_write

TIMEOUT_S: Final = 60.0
_LINE = re.compile(r".*?hil-gcov: (?P<word>file|data|end|done) ?(?P<rest>.*)")
#: The first bytes of files of counters (.gcda) and of graphs (.gcno), of little-endian targets.
_DATA_MAGIC, _NOTE_MAGIC = b"adcg", b"oncg"
#: The name is fixed by GCC where it compiles; a board may send any.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.#@=,+-]")
#: Bytes of all files together, and their number.
_MOST_BYTES = 1 << 26
_MOST_FILES = 10_000


@dataclass
class CoverageReader:
    """Reads the lines of ``hil_gcov.h``."""

    #: The counters by the path at which GCC would have them.
    files: dict[PurePosixPath, bytes] = field(default_factory=dict)
    is_complete: bool = False
    #: The firmware: only the graphs of objects that it names are copied.
    elf: Path | None = None
    #: The paths as they were sent.
    _names: dict[PurePosixPath, str] = field(default_factory=dict)
    _size: int = 0
    _path: PurePosixPath | None = None
    _data: bytearray = field(default_factory=bytearray)

    def feed(self, line: str) -> None:
        """Read a line; raise :class:`~hil.errors.ConsoleError` for counters that are damaged."""
        match = _LINE.fullmatch(line)
        if match is None:
            return
        word, rest = match["word"], match["rest"].strip()
        if word == "file":
            if self._path is not None:
                raise _damaged(f"{self._path} has no end")
            self._begin(rest)
        elif word == "data":
            self._add(rest)
        elif word == "end":
            self._end(rest)
        else:
            self._done(rest)

    def _begin(self, name: str) -> None:
        path = PurePosixPath(name)
        if path in self.files:
            raise _damaged(f"{path} was sent twice")
        if len(self.files) >= _MOST_FILES:
            raise _damaged(f"there are more than {_MOST_FILES} files")
        self._names[path] = name
        self._path, self._data = path, bytearray()

    def _add(self, text: str) -> None:
        if self._path is None:
            raise _damaged("counters belong to no file")
        try:
            self._data += bytes.fromhex(text)
        except ValueError:
            raise _damaged(f"{self._path}: {text[:40]!r} is no hexadecimal") from None
        if self._size + len(self._data) > _MOST_BYTES:
            raise _damaged(f"the files up to {self._path} have more than {_MOST_BYTES} bytes")

    def _end(self, text: str) -> None:
        sums = f"{len(self._data):08x} {zlib.crc32(self._data):08x}"
        if self._path is None or text != sums:
            raise _damaged(
                f"{self._path or 'a file'} has {sums} (bytes, checksum), and the firmware sent "
                f"{text}"
            )
        if not self._data.startswith(_DATA_MAGIC):
            raise _damaged(f"{self._path} is no file of gcov")
        self.files[self._path] = bytes(self._data)
        self._size += len(self._data)
        self._path = None

    def _done(self, text: str) -> None:
        count = f"{len(self.files):08x}"
        if self._path is not None or text != count:
            raise _damaged(f"{count} files arrived, and the firmware sent {text}")
        if not self.files:
            raise ConsoleError(
                "the firmware has no counters of gcov",
                "compile its sources with --coverage -fprofile-info-section, and KEEP .gcov_info "
                "between __gcov_info_start and __gcov_info_end in the linker script",
            )
        self.is_complete = True

    def save(self, folder: str | Path) -> list[Path]:
        """Write the counters below ``folder``, each with its graph (.gcno) if GCC's is there and
        :attr:`elf` names its object.

        Return the files of counters. Raise :class:`~hil.errors.InputError` if one cannot be
        written, and :class:`~hil.errors.ConsoleError` if two would have one name.
        """
        names = {path: _parts(path) for path in self.files}
        _refuse_same(names)
        shared = _shared([parts[:-1] for parts in names.values()])
        image = self.elf.read_bytes() if self.elf is not None else b""
        written = []
        for path, data in self.files.items():
            place = Path(folder).joinpath(*names[path][shared:])
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
                is_named = f"{self._names[path]}\0".encode() in image
                if is_named and (graph := _graph(path)) is not None:
                    place.with_suffix(".gcno").write_bytes(graph)
            except OSError as error:
                raise cannot_write(place, error) from None
            written.append(place)
        return written


def read_coverage(
    console: Lines, folder: str | Path, timeout_s: float = TIMEOUT_S, elf: Path | None = None
) -> list[Path]:
    """Write the counters of gcov that the firmware ``elf`` prints below ``folder``; return their
    files.

    Raise :class:`~hil.errors.ConsoleError` if they are damaged, or not complete ``timeout_s``
    seconds after the start.
    """
    reader = CoverageReader(elf=elf)
    try:
        for line in console.lines(timeout_s):
            reader.feed(line)
            if reader.is_complete:
                break
    except ConsoleError as error:
        if reader.is_complete or error.fact.startswith(_DAMAGED):
            raise
        raise ConsoleError(
            f"the counters of gcov are not complete ({len(reader.files)} files): {error.fact}",
            "does the firmware call hil_gcov_dump (hil_gcov.h)?",
        ) from None
    return reader.save(folder)


_DAMAGED = "the counters of gcov are damaged"


def _damaged(why: str) -> ConsoleError:
    return ConsoleError(f"{_DAMAGED}: {why}", "did the line lose text, or was the firmware reset?")


def _parts(path: PurePosixPath) -> list[str]:
    """Return the parts of a path from a board as names of files, which lead nowhere else."""
    parts = [_UNSAFE.sub("_", part) for part in path.parts if part not in ("/", ".", "..")]
    return [*parts[:-1], PurePosixPath(parts[-1] if parts else "unnamed").stem + ".gcda"]


def _refuse_same(names: dict[PurePosixPath, list[str]]) -> None:
    """Raise :class:`~hil.errors.ConsoleError` if the counters of two objects have one name: one of
    them would be lost.
    """
    owners: dict[tuple[str, ...], PurePosixPath] = {}
    for path, parts in names.items():
        other = owners.setdefault(tuple(parts), path)
        if other != path:
            raise ConsoleError(
                f"the counters of {other} and {path} have the same name, {'/'.join(parts)}",
                "compile them to objects whose names differ in other ways than by their suffix, "
                "by '..' or by special characters",
            )


def _shared(folders: list[list[str]]) -> int:
    """Return how many parts all folders begin with."""
    count = 0
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        count += 1
    return count


def _graph(path: PurePosixPath) -> bytes | None:
    """Return the graph that GCC wrote beside the object; None where there is none."""
    note = Path(path.with_suffix(".gcno")) if path.suffix else Path(path)
    if note.suffix != ".gcno" or not note.is_file():
        return None
    data = note.read_bytes()
    return data if data.startswith(_NOTE_MAGIC) else None
