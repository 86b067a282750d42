"""Cores as RTL: descriptions in ``cores/NAME.toml``, of this package or of the user.

A description names Verilog files, which are compiled into a program and run. So a board file may
only name one: those of the user are in ``rtl/`` beside ``config.toml``, or in the folder of
``HIL_RTL``.
``docs/how-to/rtl.md`` documents the keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from hil.board.config import config_path
from hil.board.settings import Value
from hil.errors import BoardError
from hilc.support.suggest import nearest
from hilc.support.tables import Table

#: Names a folder of the user's descriptions.
VARIABLE: Final = "HIL_RTL"
#: How to install the cores that come as packages.
INSTALL: Final = "pip install 'hil-harness[rtl]'"
_SHIPPED: Final = Path(__file__).parent / "cores"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEFINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_']+)?\Z")
_PARAMETER_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Variant:
    """A setting of the runner that sets a parameter of a core's wrapper."""

    parameter: str
    #: Its value for each word that the setting accepts; empty for a boolean setting.
    values: Mapping[str, int]
    default: str


@dataclass(frozen=True)
class DebugModule:
    """The RTL of the debug module, for cores that enter debug mode as RISC-V specifies it."""

    package: str
    folder: str
    verilog: tuple[str, ...]


#: PULP's riscv-dbg, which the package of CV32E40P has.
DEBUG_MODULE: Final = DebugModule(
    "pythondata-cpu-cv32e40p",
    "pythondata_cpu_cv32e40p/system_verilog/rtl",
    (
        "riscv-dbg/src/dm_pkg.sv",
        "riscv-dbg/debug_rom/debug_rom.sv",
        *(
            f"riscv-dbg/src/{name}.sv"
            for name in ("dm_csrs", "dm_mem", "dm_sba", "dm_top", "dm_wrap")
        ),
        *(f"riscv-dbg/src/{name}.sv" for name in ("dmi_cdc", "dmi_jtag", "dmi_jtag_tap")),
        "vendor/pulp_platform_common_cells/src/cdc_2phase.sv",
        "vendor/pulp_platform_common_cells/src/fifo_v3.sv",
        "vendor/pulp_platform_common_cells/src/deprecated/fifo_v2.sv",
    ),
)


@dataclass(frozen=True)
class RtlCore:
    """The RTL of a core, and the bus between it and the simulated memory."""

    name: str
    path: Path
    title: str
    #: The package that brings the RTL; empty for files of the user.
    package: str
    #: Folder of the RTL; None if the package is not installed.
    folder: Path | None
    #: Files and folders, relative to ``folder``.
    verilog: tuple[str, ...]
    modules: tuple[str, ...]
    include: tuple[str, ...]
    define: tuple[str, ...]
    #: The file with the module ``hil_rtl``, relative to the description.
    wrapper: str
    bus: Literal["obi", "wishbone"]
    #: Whether it takes errors of the bus, and whether it has a cache of data.
    bus_errors: bool
    data_cache: bool
    #: Whether its wrapper has an input that stops the core in debug mode.
    debug: bool
    variants: Mapping[str, Variant]

    def parameters(self, settings: Mapping[str, Value], known: Mapping[str, Value]) -> list[str]:
        """Return ``NAME=VALUE`` for the wrapper's parameters.

        ``known`` are the defaults of all settings of variants. Raise :class:`BoardError` for a
        setting that this core does not have, or another value of one.
        """
        found = []
        for key, default in known.items():
            value, variant = settings[key], self.variants.get(key)
            if variant is None:
                if value != default:
                    raise BoardError(
                        f"the core {self.name} has no setting {key!r}",
                        f"drop it; this core has {', '.join(self.variants) or 'none'}",
                    )
            elif not variant.values:
                found.append(f"{variant.parameter}={int(bool(value))}")
            else:
                word = str(value) or variant.default
                if word not in variant.values:
                    raise BoardError(
                        f"{key} = {word!r} is not available for the core {self.name}"
                        f"{nearest(word, variant.values)}",
                        f"choose one of {', '.join(variant.values)}",
                    )
                found.append(f"{variant.parameter}={variant.values[word]}")
        return found


def user_folder() -> Path:
    """Return the folder of the user's descriptions."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else config_path().parent / "rtl"


def core_names() -> tuple[str, ...]:
    """Return the cores that are described, sorted."""
    folders = (_SHIPPED, user_folder())
    return tuple(sorted({path.stem for folder in folders for path in folder.glob("*.toml")}))


def load_core(name: str) -> RtlCore:
    """Return the core ``name``; raise :class:`BoardError` if it is unknown or its file invalid."""
    paths = [folder / f"{name}.toml" for folder in (_SHIPPED, user_folder())]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise BoardError(
            f"no RTL is known for the core {name!r}{nearest(name, core_names())}",
            f"choose one of {', '.join(core_names())}, or describe yours in {paths[-1]} "
            "(docs/how-to/rtl.md)",
        )
    return _read(name, path)


def _read(name: str, path: Path) -> RtlCore:
    top = Table.read(path, BoardError)
    package, folder = top.string("package", ""), top.string("folder", "")
    bus = top.choice("bus", ("obi", "wishbone"))
    core = RtlCore(
        name=name,
        path=path,
        title=top.string("title"),
        package=package,
        folder=package_folder(folder) if package else path.parent / folder,
        verilog=top.strings("verilog"),
        modules=top.strings("modules", ()),
        include=top.strings("include", ()),
        define=_matching(top, "define", _DEFINE),
        wrapper=top.string("wrapper"),
        bus="obi" if bus == "obi" else "wishbone",
        bus_errors=top.boolean("bus_errors", False),
        data_cache=top.boolean("data_cache", False),
        debug=top.boolean("debug", False),
        variants=_variants(top),
    )
    top.finish()
    return core


def package_folder(folder: str) -> Path | None:
    """Return the folder in an installed package, whose code is not imported."""
    package, _, inside = folder.partition("/")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / inside


def _matching(table: Table, key: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    words = table.strings(key, ())
    for word in words:
        if not pattern.match(word):
            raise table.error(key, f"{word!r} is not NAME or NAME=VALUE")
    return words


def _variants(top: Table) -> dict[str, Variant]:
    if "settings" not in top:
        top.known("settings")
        return {}
    table = top.table("settings")
    variants = {}
    for key in table.keys:
        entry = table.table(key)
        parameter = entry.string("parameter")
        if not _IDENTIFIER.match(parameter):
            raise entry.error("parameter", f"{parameter!r} is not the name of a parameter")
        values: dict[str, int] = {}
        if "values" in entry:
            words = entry.table("values")
            values = {word: words.integer(word, 0, _PARAMETER_MAX) for word in words.keys}
            words.finish()
        else:
            entry.known("values")
        default = entry.choice("default", values) if values else ""
        if not values:
            entry.known("default")
        entry.finish()
        variants[key] = Variant(parameter, values, default)
    table.finish()
    return variants
