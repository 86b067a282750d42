"""Transcripts of command lines, to compare what two revisions print.

``HIL_TRANSCRIPTS=FOLDER`` lets the tests of the documents and of bad usage write what each command
printed: one file per document, with exit code, stdout, stderr, and the same for ``--json``. What
differs from run to run is masked. Two folders are compared with ``git diff --no-index``::

    HIL_TRANSCRIPTS=build/before make test-full ARGS='-k "test_what_a_document or test_bad_usage"'
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MASKS = (
    (re.compile(r"\d+(\.\d+)? s\b"), "# s"),
    (re.compile(r"\d+(\.\d+)? ms\b"), "# ms"),
    (re.compile(r"0x[0-9a-f]{5,}"), "0x#"),
    (re.compile(r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?)?"), "DATE"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b[0-9a-f]{8,64}\b"), "HEX"),
    (re.compile(r"\b[\d.,]+( [\d.,]+)?%"), "#%"),
)
#: Keys of JSON whose values are times, or differ from machine to machine.
_TIMES = ("seconds", "duration", "time", "_s", "_ms", "version", "pid", "port")
#: Commands that serve until Ctrl-C.
_SERVERS = ("monitor", "debug", "lab")
_LIMIT_S = 240
_CHOSEN = os.environ.get("HIL_TRANSCRIPTS")
#: The folder of the transcripts; None if none are asked for. Tests change their folder later.
FOLDER = Path(_CHOSEN).resolve() if _CHOSEN else None


def write(name: str, line: str, place: Path, code: int, stdout: str, stderr: str) -> None:
    """Append what the command ``line`` printed to the transcript ``name``."""
    if FOLDER is None:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.txt").open("a", encoding="utf-8") as file:
        file.write(f"$ {line}\nexit code {code}\n")
        for label, text in (("stdout", stdout), ("stderr", stderr)):
            file.writelines(f"{label}: {row}\n" for row in _masked(text, place).splitlines())
        file.write("\n")


def is_asked_in_json(line: str) -> bool:
    """Return whether ``line`` is a command of hil that also answers in JSON."""
    words = line.split()
    is_simple = not {"|", ">", "&&", "&", ";", "--json", "--help"} & set(words)
    return words[:1] == ["hil"] and is_simple and not set(words[1:2]) & {*_SERVERS, "help"}


def write_json(name: str, line: str, place: Path) -> None:
    """Append the answer of ``line`` in JSON, asked in a copy of ``place`` before it runs there."""
    if FOLDER is None or not is_asked_in_json(line):
        return
    with tempfile.TemporaryDirectory() as copy:
        twin = Path(copy) / place.name
        shutil.copytree(place, twin, symlinks=True)
        done = subprocess.run(
            ["bash", "-c", f"{line} --json"],
            cwd=twin,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        try:
            answer = json.dumps(_without_times(json.loads(done.stdout)), indent=1)
        except ValueError:
            answer = done.stdout
        answer, stderr = (text.replace(str(twin), str(place)) for text in (answer, done.stderr))
    write(name, f"{line} --json", place, done.returncode, answer, stderr)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "#" if key.endswith(_TIMES) and isinstance(item, int | float) else item
            for key, item in ((key, _without_times(item)) for key, item in value.items())
        }
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _masked(text: str, place: Path) -> str:
    text = text.replace(str(place), "FOLDER").replace(str(place.parent), "PARENT")
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return "\n".join(_without_frames(text))


def _without_frames(text: str) -> Iterator[str]:
    """Yield the lines as a terminal would leave them: after the last carriage return."""
    for line in text.split("\n"):
        yield line.rstrip("\r").rpartition("\r")[2]
