"""What a result was made from: commit, model, image, inputs, compiler, runner and command.

Two results with equal hashes of model, image and inputs were made from the same bytes; the rest
tells where a difference may come from.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

import hilc
from hil.access.verilator import VERILATOR
from hil.board import Board
from hil.device import Device
from hil.errors import HilError, InputError
from hil.firmware.build import Firmware
from hil.firmware.toolchain import compiler_version, program_version
from hil.results.parts import Image, Inputs, ModelFile, Provenance, SerialLine
from hil.support.cache import digest
from hil.support.qemu import program
from hil.verify.samples import Sample
from hilc.artifact.library import ModelLibrary, Module
from hilc.frontends.readers import reader_of
from hilc.support.jsondata import shown_argument
from hilc.support.process import run

#: Time limit of git, whose answer is worth a moment only.
_GIT_LIMIT_S = 5.0
#: Elements of a list that are shown of a call, and arguments that change no result.
_MOST_SHOWN = 16
_UNSAID = ("progress", "repeated", "journal", "restart", "command")
#: Compiler flags that depend on where the project lies, and the files that they name.
_PLACED = re.compile(r"-I|-ffile-prefix-map=|-D")


def command_text(words: Iterable[str]) -> str:
    """Return a command as text to type again, except for arguments that are not text."""
    return shown_argument(shlex.join(words))


def provenance(
    device: Device,
    firmware: Firmware,
    library: ModelLibrary,
    module: Module,
    samples: Iterable[Sample],
    *,
    runner: str,
    options: Mapping[str, Any],
    command: str,
) -> Provenance:
    """Return what a result of ``module`` on a device with this firmware was made from.

    ``options`` are the compiler's that the user chose, ``command`` the command line, or what was
    called (:func:`call_text`).
    """
    commit, is_dirty = checked_out(Path.cwd())
    inputs_sha256, count = _hashed(samples)
    return Provenance(
        model=ModelFile(_model_sha256(library, module)),
        image=Image(digest(firmware.elf), firmware.build_id),
        inputs=Inputs(inputs_sha256, count),
        runner=runner,
        line=SerialLine(device.port, device.is_proven) if device.port else None,
        commit=commit,
        dirty=is_dirty,
        options={name: plain(value) for name, value in options.items()},
        c_flags=_c_flags(firmware, module),
        versions=_versions(firmware.board, runner),
        command=command,
        run=uuid4().hex,
    )


def call_text(function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Return the call of a function of ``hil`` with the arguments ``given``, but for defaults.

    ``**options`` are given as a mapping of this name. What no text can give again (arrays, modules,
    functions) stands in angle brackets.
    """
    words = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            words += [f"{key}={_argument(value)}" for key, value in given[name].items()]
        elif parameter.default is parameter.empty:
            words.append(_argument(given[name]))
        elif name in given and name not in _UNSAID and not _is_default(given[name], parameter):
            words.append(f"{name}={_argument(given[name])}")
    return f"hil.{function.__name__}({', '.join(words)})"


def _is_default(value: Any, parameter: inspect.Parameter) -> bool:
    return _argument(value) == _argument(parameter.default)


def _argument(value: Any) -> str:
    match value:
        case None | bool() | int() | float() | str():
            return repr(value)
        case os.PathLike():
            return repr(os.fspath(value))
        case Board():
            return repr(value.name)
        case dict() if all(isinstance(key, str) for key in value):
            return f"{{{', '.join(f'{key!r}: {_argument(v)}' for key, v in value.items())}}}"
        case list() | tuple() if len(value) <= _MOST_SHOWN:
            inside = ", ".join(map(_argument, value))
            return f"[{inside}]"
        case np.ndarray():
            return f"<{value.dtype}{list(value.shape)}>"
    return f"<{type(value).__name__}>"


def checked_out(folder: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the repository around ``folder``, and whether tracked files differ
    from it; (None, None) without a repository, a commit or git.
    """
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None, None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def commit_named(word: str, folder: Path) -> str | None:
    """Return the commit that git knows by ``word`` (a tag, ``main``, ``HEAD~1``), if any."""
    # A word that begins with a dash would be an option.
    if word.startswith("-"):
        return None
    return _git(folder, "rev-parse", "--verify", "--quiet", f"{word}^{{commit}}") or None


def _git(folder: Path, *words: str) -> str | None:
    """Return the output of git; None if it fails or is missing."""
    try:
        done = run(["git", *words], folder, limit_s=_GIT_LIMIT_S)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None  # ValueError: a word with a null character
    return done.stdout.strip() if done.returncode == 0 else None


def model_file(library: ModelLibrary, module: Module) -> bytes | None:
    """Return the file that a module was compiled from; TVM's archives hold texts in its place."""
    stem = f"src/{module.name}"
    kept = (data for path, data in library.files.items() if path.rpartition(".")[0] == stem)
    return next((data for data in kept if reader_of(data) is not None), None)


def _model_sha256(library: ModelLibrary, module: Module) -> str:
    """Return the hash of the model's file; of the library's own files if it does not hold it."""
    data = model_file(library, module)
    if data is not None:
        return hashlib.sha256(data).hexdigest()
    whole = hashlib.sha256()
    for path, content in sorted(library.files.items()):
        whole.update(f"{path}:{len(content)}:".encode() + content)
    return whole.hexdigest()


def _hashed(samples: Iterable[Sample]) -> tuple[str, int]:
    whole, count = hashlib.sha256(), 0
    for sample in samples:
        count += 1
        for name, array in sorted(sample.items()):
            values = np.ascontiguousarray(array)
            whole.update(f"{name}:{values.dtype.name}{list(values.shape)}:".encode())
            whole.update(values.tobytes())
    return whole.hexdigest(), count


def _c_flags(firmware: Firmware, module: Module) -> tuple[str, ...]:
    """Return the flags that CMake compiled the model's glue with; empty if it left no record."""
    try:
        commands = json.loads((firmware.folder / "build" / "compile_commands.json").read_bytes())
        command = next(
            entry["command"]
            for entry in commands
            if f"/models/{module.name}/" in entry["file"]
            or entry["file"].endswith(f"/model_{module.name}.c")
        )
        words = shlex.split(command)[1:]
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        return ()
    end = words.index("-o") if "-o" in words else len(words)
    return tuple(w for w in words[:end] if w.startswith("-") and not _PLACED.match(w))


def _versions(board: Board, runner: str) -> dict[str, str]:
    versions = {"hil": hilc.__version__, "python": platform.python_version()}
    versions["numpy"] = np.__version__
    with suppress(HilError):
        versions["compiler"] = compiler_version(board)
    if runner == "qemu":
        with suppress(HilError):
            versions["qemu"] = _program_version(program(board.cpu))
    if runner == "verilator":
        with suppress(HilError):
            versions["verilator"] = _program_version(VERILATOR)
    return versions


@functools.cache
def _program_version(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise InputError(f"{name} is not in PATH", "install it")
    return program_version(path)


def plain(value: Any) -> Any:
    """Return the value of an option for JSON: as text if it is not a JSON value."""
    return value if isinstance(value, str | int | float | bool | None) else str(value)
