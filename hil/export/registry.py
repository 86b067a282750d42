"""The registry of export formats; plugins register theirs alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from hil.plugins import load_plugins, plugin_error, registered
from hilc.support.registering import check_registered

if TYPE_CHECKING:
    from hil.export.package import About, Package
    from hilc.target import Cpu

#: The built-in formats, each of a module, in the order in which they are listed.
_BUILT_IN = ("cmake", "zephyr", "arduino", "cmsis-pack", "platformio", "esp-idf")


@dataclass(frozen=True)
class ExportFormat:
    """A way to lay out a library.

    ``write(package)`` returns the files of the library by their path in its folder. ``check(cpu,
    about)`` raises :class:`~hil.errors.InputError` for a core or a name that the format cannot
    have; it is called before anything is compiled.
    """

    #: The value of ``--build-system``.
    name: str
    write: Callable[[Package], Mapping[str, bytes]]
    check: Callable[[Cpu, About], None] = field(default_factory=lambda: _takes_all)

    def files(self, package: Package) -> Mapping[str, bytes]:
        """Return the files of the library; raise InputError if ``write`` returns something else."""
        files: object = self.write(package)
        if not isinstance(files, Mapping) or not all(
            isinstance(path, str) and isinstance(data, bytes) for path, data in files.items()
        ):
            raise plugin_error(
                self.write,
                f"the export format {self.name!r} returned {type(files).__name__!r}, not files: a "
                "mapping of paths to bytes",
            )
        for path in files:
            if path.startswith("/") or not path or {"", ".", ".."} & set(path.split("/")):
                raise plugin_error(
                    self.write,
                    f"the export format {self.name!r} returned the path {path!r}, which is not one "
                    "below the library's folder",
                )
        return files


def _takes_all(cpu: Cpu, about: About) -> None: ...


_FORMATS: dict[str, ExportFormat] = {}


def register_export(export: ExportFormat) -> None:
    """Add an export format (``hil export --build-system NAME``).

    Raise :class:`~hilc.errors.InputError` if another format has its name, or the name or a function
    is invalid.
    """
    functions = {"write": export.write, "check": export.check}
    known = {name: other.write for name, other in _FORMATS.items()}
    check_registered("export format", export.name, functions, known)
    _FORMATS[export.name] = export


def load_built_in() -> None:
    """Import the built-in formats, which take their names before plugins do."""
    for name in _BUILT_IN:
        import_module(f"hil.export.formats.{name.replace('-', '_')}")


def export_formats() -> tuple[str, ...]:
    """Return the names of all formats, the built-in ones first."""
    load_built_in()
    load_plugins()
    # Another module may have imported one of the built-in formats before the others.
    return (*_BUILT_IN, *(name for name in _FORMATS if name not in _BUILT_IN))


def export_named(name: str) -> ExportFormat:
    """Return the format; raise :class:`~hilc.errors.InputError` if there is none of this name."""
    load_built_in()
    return registered("build system", name, _FORMATS)
