"""Kept answers of ``hil compile``: the same request again needs neither the compiler nor what it
imports, which take longer to load than all the rest.

The libraries of a request are kept too, by their own keys (:mod:`hil.firmware.compiled`): other
commands and options share those. An answer is what one command line gives, with the library that it
writes. Where anything takes part whose content is not in the key, nothing is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from hil.board import load_board
from hil.errors import HilError
from hil.plugins import plugins
from hil.support.cache import (
    archive_of,
    cache_folder,
    complete_archive,
    digest,
    read_archive_entry,
    writable_folder,
)
from hil.support.identity import compiler_identity, harness_identity
from hilc.artifact.archive import read_files, tar_bytes
from hilc.support.outputs import write_file
from hilc.target import Cpu, load_cpu

_LOG = logging.getLogger("hil.answers")
#: The folder in the cache.
_KIND = "answers"
#: Part of every key: increment it when the form of entries changes.
_KEY_VERSION = 2
#: Arguments that do not change the answer: how it is printed, and where the library goes.
_NOT_KEY = frozenset(
    {
        "version",
        "json",
        "format",
        "quiet",
        "verbose",
        "uses_plugins",
        "handler",
        "parser",
        "output",
        "force",
    }
    | {"words", "given"}
)
#: Arguments that bring other programs, or files that name more files.
_OPEN = ("external", "constant", "shape", "include_dir", "source")
#: What a file of TensorFlow Lite has at byte 4; models of other formats may be of several files.
_TFLITE = b"TFL3"


@dataclass(frozen=True)
class Answer:
    """What ``hil compile`` finds: the objects of its JSON, one a model, the lines of its text, and
    the files of the library.
    """

    models: Sequence[Mapping[str, Any]]
    lines: Sequence[str]
    files: Mapping[str, bytes]


def answer_key(args: argparse.Namespace) -> str | None:
    """Return what identifies the answer to a command line; None where it is not to be kept."""
    given = vars(args)
    if any(given.get(name) for name in _OPEN) or args.codegen == "llvm" or plugins():
        return None
    if args.tuning and args.board:
        # The log may not fit the board, which is told every time.
        return None
    models = [_model_digest(word) for word in args.models]
    tuning = digest(Path(args.tuning)) if args.tuning else ""
    if None in models or tuning is None:
        return None
    board = load_board(args.board) if args.board else None
    core = load_cpu(args.cpu) if args.cpu else board.cpu if board else load_cpu("host")
    key = {
        "version": _KEY_VERSION,
        "words": {name: value for name, value in given.items() if name not in _NOT_KEY},
        "models": models,
        "tuning": tuning,
        "board": board,
        "core": _core_digests(core),
        "compiler": compiler_identity(),
        "harness": harness_identity(),
        "date": os.environ.get("SOURCE_DATE_EPOCH"),
    }
    text = json.dumps(key, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def kept_answer(key: str | None) -> Answer | None:
    """Return the answer that was kept for ``key``; None where there is none that is whole."""
    if key is None:
        return None
    with suppress(HilError, KeyError):
        entry = cache_folder() / _KIND / key
        found = read_archive_entry(entry)
        if found is None:
            return None
        answer = Answer(found["models"], found["lines"], read_files(archive_of(entry)))
        _LOG.info("took the answer from the cache")
        return answer
    return None


def keep_answer(key: str, answer: Answer) -> None:
    """Write an answer; without space or permission, it is worked out again the next time."""
    try:
        entry = writable_folder(_KIND) / key
        write_file(archive_of(entry), tar_bytes(answer.files))
        complete_archive(entry, {"models": answer.models, "lines": answer.lines})
    except (HilError, OSError) as error:
        _LOG.info("not kept: %s", error)


def _model_digest(word: str) -> str | None:
    """Return the digest of the file that a word names; None for what is not one TFLite file."""
    name, separator, rest = word.partition("=")
    path = Path(rest if separator and not Path(word).exists() else word)
    # Also None for a pipe, whose opening would wait for a writer.
    if (found := digest(path)) is None:
        return None
    with suppress(OSError), path.open("rb") as file:
        return found if file.read(8)[4:] == _TFLITE else None
    return None


def _core_digests(core: Cpu) -> list[str | None]:
    """Return digests of a core's description and its toolchain's: a user's are no part of this
    installation.
    """
    return [digest(core.path), digest(core.toolchain.path)]


def _plain(value: Any) -> Any:
    """Return a part of a key as JSON has it, the same in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
