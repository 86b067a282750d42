"""From the words that name models (``MODEL``, ``NAME=path``) to compiled libraries."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import hilc
from hilc.errors import InputError
from hilc.library import ModelLibrary

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class CompileOptions:
    """What the user chose of the compiler's options; None leaves the compiler's default."""

    cpu: str
    codegen: str | None = None
    api: str | None = None
    interface: str | None = None
    optimize: str | None = None
    #: A firmware of ours gives the models their pool, with inputs and outputs in it; a library for
    #: another firmware brings its own.
    for_firmware: bool = True

    @property
    def chosen(self) -> dict[str, str]:
        """The options that differ from the compiler's defaults, as its keyword arguments."""
        values = {
            "codegen": self.codegen,
            "api": self.api,
            "interface": self.interface,
            "optimize": self.optimize,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class ModelSource:
    """A file or folder, and the name that its model shall have."""

    path: Path
    name: str | None

    @property
    def is_archive(self) -> bool:
        """Already compiled: a Model Library Format folder or tar."""
        return self.path.is_dir() or tarfile.is_tarfile(self.path)


def parse_sources(words: Sequence[str], name: str | None = None) -> list[ModelSource]:
    """The models that the words of a command line name; ``name`` is the one of ``--name``."""
    sources = [_parse_source(word) for word in words]
    if name is not None:
        if len(sources) != 1:
            raise InputError(
                f"--name names one model, and there are {len(sources)}", "write NAME=path"
            )
        sources = [ModelSource(sources[0].path, _checked_name(name))]
    return sources


def load_library(source: ModelSource, options: CompileOptions) -> ModelLibrary:
    """The library of a source: read when it is an archive, compiled otherwise."""
    if not source.is_archive:
        library: ModelLibrary = hilc.compile(
            source.path,
            cpu=options.cpu,
            name=source.name,
            pools="external" if options.for_firmware else "internal",
            io_in_pool=options.for_firmware,
            **options.chosen,
        )
        return library
    if options.chosen:
        option = next(iter(options.chosen))
        raise InputError(
            f"{source.path} is compiled already, so --{option} cannot change it",
            "give the model file that it was compiled from",
        )
    library = ModelLibrary.load(source.path)
    if source.name is not None and (source.name,) != tuple(m.name for m in library.modules):
        raise InputError(
            f"{source.path} holds {', '.join(m.name for m in library.modules)}; "
            f"a compiled model cannot be renamed to {source.name!r}",
            "compile the model file again with that name",
        )
    return library


def load_libraries(
    words: Sequence[str], options: CompileOptions, name: str | None = None
) -> list[ModelLibrary]:
    """The libraries of several words, in their order."""
    return [load_library(source, options) for source in parse_sources(words, name)]


def _parse_source(word: str) -> ModelSource:
    name, separator, rest = word.partition("=")
    # A file whose own name has an equals sign is taken as it is.
    if not separator or Path(word).exists():
        return ModelSource(_existing(word), None)
    return ModelSource(_existing(rest), _checked_name(name))


def _existing(word: str) -> Path:
    path = Path(word)
    if not word or not path.exists():
        raise InputError(
            f"{word!r} does not exist" if word else "a model's path is empty",
            "give a .tflite file or a Model Library Format tar or folder",
        )
    return path


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a model in C code",
            "use letters, digits and underscores, a letter first",
        )
    return name
