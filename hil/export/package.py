"""What an export format lays out: the code of compiled models, and what a manifest says of it."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hil.board import Board
from hil.errors import InputError
from hil.export.bill import BILL, bill_of_materials
from hil.export.samples import ModelSample
from hil.firmware.glue import model_key
from hil.firmware.project import is_foreign, needs_runtime
from hil.firmware.sources import EXPORT_MARK
from hilc.artifact.extra import is_extra
from hilc.artifact.library import ModelLibrary, Module
from hilc.codegen.banner import LICENSE_LINE
from hilc.codegen.cwriter import c_comment, c_static_assert
from hilc.support.identifiers import C_HEADERS
from hilc.support.resources import data_file
from hilc.target import Cpu

_INCLUDES, _SOURCES, _OBJECTS = (f"codegen/host/{part}/" for part in ("include", "src", "lib"))
_INCLUDE = re.compile(rb'^(#include )"([^"\n]+)"', re.MULTILINE)
_HELIUM = "hil/kernels/mve/"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{2,31}")
#: Names that build systems have: targets of CMake, Zephyr and the example; headers of C, one of
#: which ``Time.h`` would hide on a file system without upper and lower case.
_TAKEN_WORDS = """
    all app arduino clean example help install kernel main package preinstall samples test zephyr
"""
_TAKEN = C_HEADERS.union(_TAKEN_WORDS.split())
_VERSION = re.compile(r"(0|[1-9]\d{0,4})(\.(0|[1-9]\d{0,4})){2}")
_VENDOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
#: Words of an SPDX expression.
_LICENSE = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")
_URL = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]*(:\d+)?(/[!-~]*)?")
#: The license of kernels and generated code, which the file LICENSE has.
LICENSE = "Apache-2.0"

#: GCC's flags for the models. The second keeps GCC 12 from leaving out layers
#: (``firmware_template/cmake/flags.cmake`` has the reason).
FLAGS = ("-O2", "-fno-delete-null-pointer-checks")


@dataclass(frozen=True)
class About:
    """What the manifests say of a library beside its contents. All is checked."""

    #: None: the models' names, joined by ``_``.
    name: str | None = None
    version: str = "1.0.0"
    vendor: str = "hil"
    author: str = "hil"
    url: str = ""
    #: SPDX expression of the model's weights; None: as the code, Apache-2.0.
    license: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            _require_name(self.name)
        for what, value, pattern, remedy in (
            ("version", self.version, _VERSION, "write MAJOR.MINOR.PATCH, such as 1.0.0"),
            ("vendor", self.vendor, _VENDOR, "use up to 40 letters, digits, _ and -"),
            ("license", self.license, _LICENSE, "write an SPDX expression, such as MIT"),
            ("url", self.url or None, _URL, "write https://HOST/PATH"),
        ):
            if value is not None and not pattern.fullmatch(value):
                raise InputError(f"the library's {what} {value!r} is not valid", remedy)
        if not self.author.strip() or not self.author.isprintable() or len(self.author) > 100:
            raise InputError(
                f"the library's author {self.author!r} is not valid",
                "write a name of up to 100 characters in one line, such as 'Ann Example'",
            )


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a library",
            "use 3 to 32 letters, digits and underscores, a letter first: --library NAME",
        )
    if name.replace("_", "").lower() in _TAKEN:
        raise InputError(
            f"a library cannot be called {name!r}: build systems or C have this name already",
            f"give it another one: --library {name}_model",
        )


@dataclass(frozen=True)
class Package:
    """Compiled models, to be laid out as a library of a build system."""

    #: Letters, digits and underscores, a letter first.
    name: str
    about: About
    modules: tuple[Module, ...]
    cpu: Cpu
    #: The board that the models were compiled for; None for a core alone.
    board: Board | None
    #: Public headers, ``tvmgen_<name>.h`` or (plain code) ``<name>.h`` of each model, by name.
    headers: Mapping[str, bytes]
    #: Other headers, by the path that sources include, and sources by name.
    private: Mapping[str, bytes]
    sources: Mapping[str, bytes]
    #: A sample of each model, with the outputs of the reference.
    samples: tuple[ModelSample, ...]
    #: Version of the compiler.
    compiler: str

    @property
    def version(self) -> str:
        """Version of the exported library."""
        return self.about.version

    @property
    def slug(self) -> str:
        """The name in lower case, for manifests that allow no other."""
        return self.name.lower()

    @property
    def title(self) -> str:
        """The name in the style of a C++ class: ``KwsVww`` of ``kws_vww``."""
        return "".join(word[:1].upper() + word[1:] for word in self.name.split("_"))

    @property
    def license(self) -> str:
        """SPDX expression of code and weights."""
        own = self.about.license
        if own is None or own == LICENSE:
            return LICENSE
        return f"{LICENSE} AND {f'({own})' if ' ' in own else own}"

    @property
    def sentence(self) -> str:
        """Description in one line."""
        names = [module.name for module in self.modules]
        models = f"The neural network {names[0]}"
        if len(names) > 1:
            models = f"The neural networks {', '.join(names[:-1])} and {names[-1]}"
        return f"{models} in C, compiled for {self.core_title}."

    @property
    def core_title(self) -> str:
        """Name of the core that the library is compiled for."""
        return "any 32-bit core" if self.cpu.is_host else self.cpu.title

    @property
    def needs_helium(self) -> bool:
        """Whether the code has kernels without a twin in plain C."""
        return any(path.startswith(_HELIUM) for path in self.private)

    @property
    def needs_helium_floats(self) -> bool:
        """Whether the code has kernels for Helium's floating point."""
        return any(re.fullmatch(rf"{_HELIUM}.*_f32\.h", path) for path in self.private)

    @property
    def calls_libm(self) -> bool:
        """Whether the code calls functions of the C library's mathematics."""
        files = (*self.sources.values(), *self.private.values())
        return any(b"#include <math.h>" in data for data in files)

    @property
    def is_plain(self) -> bool:
        """Whether all models are plain C code."""
        return all(module.style == "plain" for module in self.modules)

    @property
    def guard(self) -> str:
        """Name of the source that refuses cores which the library cannot run on."""
        return f"{self.slug}_target.c"

    def code(
        self, include: str = "include", source: str = "src", prologue: str = ""
    ) -> dict[str, bytes]:
        """Return the code with its public headers in one folder and all else in another.

        Files find one another by relative paths, so that no include path is needed but that of the
        public headers, and several such libraries in one firmware never take each other's headers.
        ``prologue`` is written before each source.
        """
        places = {name: posixpath.join(include, name) for name in self.headers}
        places |= {name: posixpath.join(source, name) for name in (*self.private, *self.sources)}
        contents = {**self.headers, **self.private, **self.sources, self.guard: self._guard()}
        places[self.guard] = posixpath.join(source, self.guard)
        files = {}
        for name, data in contents.items():
            text = _with_relative_includes(data, places[name], places)
            is_source = name in self.sources or name == self.guard
            files[places[name]] = self._with_head(name, text, prologue if is_source else "")
        return files

    def _with_head(self, name: str, text: bytes, prologue: str) -> bytes:
        """Return a file with the license of its content, and ``prologue`` before the code."""
        license_line = LICENSE_LINE.encode()
        if not text.startswith(license_line):
            return prologue.encode() + text
        if name in self.sources:
            # The weights are in it.
            license_line = license_line.replace(LICENSE.encode(), self.license.encode())
        return license_line + prologue.encode() + text.removeprefix(LICENSE_LINE.encode())

    def source_paths(self, source: str = "src") -> list[str]:
        """Return the paths of the C files that :meth:`code` returns, sorted."""
        return sorted(posixpath.join(source, name) for name in (*self.sources, self.guard))

    def common_files(self, readme: str) -> dict[str, bytes]:
        """Return what every library has: README, license, bill of materials, and what it was made
        from.
        """
        made = {
            "format_version": 1,
            "library": self.name,
            "version": self.version,
            "compiler": f"hil {self.compiler}",
            "core": self.cpu.name,
            "models": [module.name for module in self.modules],
        }
        return {
            "README.md": readme.encode(),
            "LICENSE": data_file("LICENSE").read_bytes(),
            BILL: bill_of_materials(
                self.name,
                self.version,
                [module.name for module in self.modules],
                terms=self.license,
                code_license=LICENSE,
                model_license=self.about.license,
                compiler=self.compiler,
            ),
            EXPORT_MARK: (json.dumps(made, indent=1) + "\n").encode(),
        }

    def _guard(self) -> bytes:
        checks = [
            "#if !defined(__GNUC__)\n"
            '#error "the models\' code needs GCC, clang or a compiler with their extensions"\n'
            "#endif\n",
            "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n"
            '#error "the models\' constants are for little-endian cores"\n'
            "#endif\n",
        ]
        if self.needs_helium:
            # Bit 1 is Helium's floating point.
            floats = " || !(__ARM_FEATURE_MVE & 2)" if self.needs_helium_floats else ""
            checks.append(
                f"#if !defined(__ARM_FEATURE_MVE){floats}\n"
                f'#error "this library is for {self.cpu.title}: compile with -mcpu='
                f'{self.cpu.name}, or export the model again for your core"\n'
                "#endif\n"
            )
        head = "/* Refuses compilers and cores that cannot run the models of this library. */\n"
        if self.is_plain:
            head = LICENSE_LINE + c_comment(
                "Refuses compilers and cores that cannot run the models of this library.",
                f"Generated by hil {self.compiler}; do not edit.",
            )
            checks.append(
                c_static_assert("sizeof(int) >= 4U", "the models' code needs a core of 32 bits")
            )
        else:
            checks.append(
                '_Static_assert(sizeof(int) >= 4, "the models\' code needs a core of 32 bits");\n'
            )
        return (head + "#include <stdint.h>\n\n" + "\n".join(checks)).encode()


def _with_relative_includes(data: bytes, place: str, places: Mapping[str, str]) -> bytes:
    folder = posixpath.dirname(place)

    def relative(match: re.Match[bytes]) -> bytes:
        target = places.get(match[2].decode())
        if target is None:
            return match[0]
        return match[1] + f'"{posixpath.relpath(target, folder or ".")}"'.encode()

    return _INCLUDE.sub(relative, data)


def make_package(
    library: ModelLibrary,
    cpu: Cpu,
    board: Board | None,
    about: About,
    samples: Sequence[ModelSample],
    compiler: str,
) -> Package:
    """Return the package of a library that :func:`check_library` has accepted."""
    name = about.name
    if name is None:
        name = "_".join(model_key(module) for module in library.modules)
        _require_name(name)
    public = {f"{module.symbol}.h" for module in library.modules}
    headers: dict[str, bytes] = {}
    private: dict[str, bytes] = {}
    sources: dict[str, bytes] = {}
    for path, data in sorted(library.files.items()):
        if path.startswith(_INCLUDES):
            header = path.removeprefix(_INCLUDES)
            (headers if header in public else private)[header] = data
        elif path.startswith(_SOURCES):
            sources[path.removeprefix(_SOURCES)] = data
    return Package(
        name=name,
        about=about,
        modules=library.modules,
        cpu=cpu,
        board=board,
        headers=headers,
        private=private,
        sources=sources,
        samples=tuple(samples),
        compiler=compiler,
    )


def check_library(library: ModelLibrary) -> None:
    """Raise InputError for code that needs more than a C compiler."""
    for module in library.modules:
        if is_foreign(library, module):
            raise InputError(
                f"the library of {module.name!r} was not written by hil, so nothing is known of "
                "its code",
                "give the model file that it was compiled from",
            )
        if module.fed_rows:
            raise InputError(
                f"the input of {module.name!r} comes by rows, and the example of an exported "
                "library gives it as a whole",
                "export it with --feed whole, or take the C of `hil compile --feed rows`",
            )
        if module.constants == "binary":
            raise InputError(
                f"the constants of {module.name!r} are in a binary file (constants=binary), which "
                "the build systems of exported libraries do not take",
                "compile it with --constants internal",
            )
        if module.codegen != "c":
            raise InputError(
                f"{module.name!r} was compiled to objects (codegen={module.codegen}), and an "
                "exported library has sources",
                "compile it with --codegen c",
            )
    if any(is_extra(path) or path.startswith(_OBJECTS) for path in library.files):
        raise InputError(
            "the library holds code from elsewhere (extra/), which an export does not lay out",
            "export the model's own library, and add that code to your project",
        )
    if needs_runtime(library):
        names = " and ".join(module.name for module in library.modules)
        raise InputError(
            f"the code of {names} calls TVM's C run time, which an exported library does not have",
            "compile with --interface c --api unpacked, and --pools internal or external",
        )
