"""Generates a firmware project: the template, the board's ports, the models and what joins them.

Everything here is a function from libraries and board to file contents;
:mod:`hil.firmware.build` writes, builds and measures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hil.board import Board, MemoryRegion
from hil.errors import BoardError, InputError
from hil.firmware.glue import (
    GENERATED,
    Glue,
    PlainGlue,
    block_source,
    c_string,
    is_packed,
    model_key,
)
from hil.firmware.mlperf import Mlperf, server_source
from hil.firmware.placement import ALIGNMENT, GUARD_BYTES, Workspace, arena_bytes, shared_bytes
from hil.firmware.runtime import FirmwareRuntime, firmware_runtime, found_runtime
from hilc.artifact.extra import EXTRA, SAFE_PATH, extra_code, is_extra
from hilc.artifact.library import ModelLibrary, Module, module_path
from hilc.support.resources import data_dir
from hilc.target import get_cpu
from hilc.target.objects import require_fits

#: Placeholder of the build id until the rest of the project is known.
BUILD_ID_PLACEHOLDER = b"@BUILD_ID@"

_NO_COPIES: Mapping[str, MemoryRegion] = MappingProxyType({})

_SOURCES, _OBJECTS, _HEADERS = (f"codegen/host/{part}/" for part in ("src", "lib", "include"))


@dataclass(frozen=True)
class _Server:
    """What answers on the serial line: its C files, where its headers are, and files of functions
    that code from elsewhere may define as well.
    """

    sources: tuple[str, ...]
    includes: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()


#: Parts of the serial protocol's server: each calls only those before it.
RPC_PARTS = (
    "frame", "reply", "session", "fault", "state", "feeder", "tensors", "run", "commands", "rpc",
)  # fmt: skip
_MLPERF_SERVER = _Server(
    ("mlperf/mlperf.c", "generated/mlperf.c"), ("mlperf",), ("mlperf/pulse.c",)
)


def _rpc_server(modules: Sequence[Module]) -> _Server:
    """Return the server of the serial protocol, with the commands that the modules need."""
    needed = {
        "state": any(module.states for module in modules),
        "feeder": any(module.fed_rows for module in modules),
    }
    return _Server(tuple(f"rpc/{part}.c" for part in RPC_PARTS if needed.get(part, True)), ("rpc",))


def modules_of(libraries: Sequence[ModelLibrary]) -> tuple[Module, ...]:
    """Return all models of a firmware; raise if two share their symbols."""
    modules = tuple(module for library in libraries for module in library.modules)
    keys = [model_key(module) for module in modules]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(
                f"two models of one firmware are called {key!r}", "name them: NAME=path"
            )
    return modules


#: The largest counts of the protocol's fields of one byte and of two.
_MOST, _MOST_LAYERS = 255, 65535


def check_counts(modules: Sequence[Module]) -> None:
    """Refuse more models, tensors or layers than the firmware's protocol numbers."""
    if len(modules) > _MOST:
        raise InputError(
            f"an image of {len(modules)} models exceeds the {_MOST} that the protocol numbers",
            "build several images",
        )
    for module in modules:
        counts = [
            ("inputs", len(module.inputs), _MOST),
            ("outputs", len(module.outputs), _MOST),
            ("states", len(module.states), _MOST),
            ("layers", len(module.called_layers), _MOST_LAYERS),
            *(
                (f"outputs of {layer.name!r}", len(layer.outputs), _MOST)
                for layer in module.called_layers
            ),
        ]
        for what, count, most in counts:
            if count > most:
                raise InputError(
                    f"{module.name!r} has {count} {what}, and the protocol numbers {most} at most",
                    "split the model, or run it in this process (hilc.host.load)",
                )


_SOURCES = "codegen/host/src/"
_HELIUM_KERNELS = f"{_HEADERS}hil/kernels/mve/"
_INCLUDES_TVM = re.compile(rb'^#include "tvm/', re.MULTILINE)


def check_core(libraries: Sequence[ModelLibrary], board: Board) -> None:
    """Refuse code that the board's core cannot execute: a linker would not, or not by name."""
    for library in libraries:
        for module in library.modules:
            check_suits(library, module, board)
        names = " and ".join(module.name for module in library.modules)
        for path, data in library.files.items():
            if path.startswith((_OBJECTS, EXTRA)) and path.endswith(".o"):
                require_fits(data, board.cpu, f"{names}: {path}")
            # Other kernels have a twin in plain C.
            if path.startswith(_HELIUM_KERNELS) and "mve" not in board.cpu.features:
                raise InputError(
                    f"the library of {names} is for {library.modules[0].cpu}, with kernels for "
                    f"Helium, which {board.cpu.name} lacks",
                    f"compile the model again: hil compile MODEL --board {board.name}",
                )


def check_suits(library: ModelLibrary, module: Module, board: Board) -> str:
    """Raise InputError for a module of this compiler with kernels for a core that has more than the
    board's.

    Otherwise return a remark on code for another core; empty for none. Code for the host suits
    every board, and the host runs code for every core. What another compiler's C needs only the C
    compiler knows, and objects say it themselves.
    """
    if board.is_host or module.cpu == "host":
        return ""
    core = get_cpu(module.cpu)
    if (core.arch, core.features) == (board.cpu.arch, board.cpu.features):
        return ""
    fact = f"{module.name!r} was compiled for {module.cpu}, but {board.name} has a {board.cpu.name}"
    if is_foreign(library, module):
        return f"{fact}: its code runs there unless it needs instructions of the {module.cpu}"
    models = [path for path in library.files if path.startswith(f"src/{module.name}.")]
    held = f" (the archive has it: {models[0]})" if models else ""
    remedy = f"compile the model file again with --board {board.name}{held}"
    if core.isa != board.cpu.isa or not core.features <= board.cpu.features:
        raise InputError(fact, f"{remedy}, or choose a board with a {module.cpu}")
    return f"{fact}: {remedy}"


def runtime_of(libraries: Sequence[ModelLibrary]) -> FirmwareRuntime | None:
    """Return the C run time of an image with these libraries; None without one."""
    for library in libraries:
        if needs_runtime(library):
            names = " and ".join(module.name for module in library.modules)
            return firmware_runtime(names)
    return found_runtime() if any(map(_may_call_runtime, libraries)) else None


def needs_runtime(library: ModelLibrary) -> bool:
    """Return whether the library includes or calls a C run time, or is called through it.

    Ours does where a packed function, a call for workspace or a registry is in it; TVM's always.
    """
    sources = (text for path, text in library.files.items() if path.startswith(_SOURCES))
    return any(map(_INCLUDES_TVM.search, sources)) or any(
        is_packed(module) or module.pools == "calls" or is_foreign(library, module)
        for module in library.modules
    )


def _may_call_runtime(library: ModelLibrary) -> bool:
    """Return whether a user's own code is in it, which may call what it likes."""
    return any(
        module.devices or any(layer.op == "EXTERNAL" for layer in module.layers)
        for module in library.modules
    )


def is_foreign(library: ModelLibrary, module: Module) -> bool:
    """TVM wrote it: nothing can be said of warnings, and its global names are not all its own."""
    return module_path(module.name) not in library.files


def project_files(
    libraries: Sequence[ModelLibrary],
    board: Board,
    workspace_region: MemoryRegion | None,
    workspace: Workspace = "own",
    constants: Mapping[str, MemoryRegion] = _NO_COPIES,
    mlperf: Mlperf | None = None,
) -> dict[str, bytes]:
    """Every file of the project by its path in it, with the placeholder for the build id.

    ``workspace_region`` is where the pools lie that name no region; None on the host. ``constants``
    are by model key the regions in which constants lie that are not in the first flash region. With
    ``mlperf`` the image answers MLPerf Tiny's commands, and not those of the serial protocol.
    """
    modules = modules_of(libraries)
    runtime = runtime_of(libraries)
    server = _rpc_server(modules) if mlperf is None else _MLPERF_SERVER
    files = _template_files(board, server)
    if runtime is not None:
        files.update(runtime.files())
    texts = {
        "CMakePresets.json": _presets(board),
        "generated/hil_config.h": _config_header(board, modules, runtime),
        "generated/hil_build.h": _build_header(),
        "generated/models.c": _models_source(modules, workspace, runtime),
        "generated/firmware.cmake": _cmake_settings(libraries, board, runtime, server),
    }
    if mlperf is not None:
        texts["generated/mlperf.c"] = server_source(mlperf, modules[0], board)
    for library in libraries:
        folder = _folder(library)
        for path, data in library.files.items():
            if path.startswith((_SOURCES, _OBJECTS, _HEADERS)):
                files[f"{folder}/{_checked(path, library)}"] = data
            elif is_extra(path):
                files[_checked(path, library)] = data
        for module in library.modules:
            header = f"{_HEADERS}{module.symbol}.h"
            # Plain code calls no run time.
            needed = Glue if runtime is None else runtime.glue
            glue = PlainGlue if module.style == "plain" else needed
            texts[f"generated/model_{model_key(module)}.c"] = glue(
                module, workspace, has_header=header in library.files
            ).text()
    if runtime is not None:
        texts.update(runtime.generated(modules))
    if workspace_region is not None:
        named = {pool.region for module in modules for pool in module.workspace_pools}
        placed: dict[str, list[str]] = {}
        for library in libraries:
            for module in library.modules:
                if region := constants.get(model_key(module)):
                    placed.setdefault(region.name, []).extend(_model_objects(library, module))
        texts["generated/firmware.ld"] = linker_script(board, workspace_region, named, placed)
    files.update((path, text.encode()) for path, text in texts.items())
    return files


def _checked(path: str, library: ModelLibrary) -> str:
    """Return the path of a library's file, which CMake will read: an archive may come from
    anywhere.
    """
    if not SAFE_PATH.fullmatch(path):
        raise InputError(
            f"the library of {library.modules[0].name!r} has the file {path!r}, "
            "whose name build tools would misread",
            "export the model again",
        )
    return path


def _folder(library: ModelLibrary) -> str:
    return f"models/{model_key(library.modules[0])}"


def _model_objects(library: ModelLibrary, module: Module) -> list[str]:
    """Patterns of the linker for the object files of a model's own code, without the glue."""
    return [
        f"*/model_{model_key(module)}.dir/{_folder(library)}/*",
        f"*/{_folder(library)}/{_OBJECTS}{module.name}_lib[0-9]*.o",
    ]


def linker_script(
    board: Board,
    workspace_region: MemoryRegion,
    named: Container[str | None],
    constants: Mapping[str, Sequence[str]],
) -> str:
    """Return the core's linker script for the board's memory.

    ``named`` are regions that pools name, ``constants`` by region the object files whose constants
    lie there; to RAM they are copied.
    """
    copies = [region.name for region in board.regions("ram") if region.name in constants]
    regions = [region for region in board.regions("ram") if region.name in named]
    # First the pools that are for a certain region: the pattern of all would take them.
    workspaces = [
        *((region_section(r.name), f".bss.noinit.tvm.{r.name}", r.name) for r in regions),
        (".workspace", ".bss.noinit.tvm .bss.noinit.tvm.*", "WORKSPACE"),
    ]
    core = next(port for port in board.ports if "core" in port.roles)
    path = data_dir("firmware_template") / "ports" / core.name / "firmware.ld.in"
    code, data = board.regions("flash")[0], board.regions("ram")[0]
    memory = [
        _memory_line(region.name, region.origin, region.size, region.kind)
        for region in board.memory
    ]
    fetched = code.name
    if code.fetch_origin is not None:
        fetched = f"{code.name}_fetched"
        memory.append(_memory_line(fetched, code.fetch_origin, code.size, "flash"))
    values = {
        "MEMORY": "\n".join(memory),
        "HEAD": _head(board),
        "CODE": code.name,
        "FETCHED": fetched,
        "INITIALIZED": code.name if code.writable else data.name,
        "DATA": data.name,
        "WORKSPACE": workspace_region.name,
        "GUARDS": "".join(
            f"        LONG({_guard(i, side)})\n" for i in range(len(workspaces)) for side in _SIDES
        ),
        "COPIES": "".join(f"        {_copy(constants_section(region))}\n" for region in copies),
        "CONSTANTS": "".join(
            _constants(region, files, is_copy=region in copies)
            for region, files in constants.items()
        ),
        "WORKSPACES": "".join(_workspace(i, *names) for i, names in enumerate(workspaces)),
        "STACK_BYTES": str(board.stack_bytes),
        "HANDLER_STACK_BYTES": str(board.handler_stack_bytes),
    }
    text = path.read_text(encoding="utf-8")
    if (code.fetch_origin is not None or code.writable) and "@FETCHED@" not in text:
        raise BoardError(
            f"{board.name}: the port {core.name!r} takes no fetch_origin and no writable of the "
            f"memory {code.name!r}",
            "remove them from the description; the port riscv takes them",
        )
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _memory_line(name: str, origin: int, size: int, kind: str) -> str:
    access = "rx" if kind == "flash" else "rwx"
    return f"    {name} ({access}) : ORIGIN = {origin:#010x}, LENGTH = {size:#x}"


def _head(board: Board) -> str:
    """Return the statements of the ports that lay out the image's start before all else."""
    paths = [
        data_dir("firmware_template") / "ports" / port.name / "head.ld" for port in board.ports
    ]
    return "".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())


def region_section(region: str) -> str:
    """Return the output section with the pools that are for this region."""
    return f".workspace.{region}"


def constants_section(region: str) -> str:
    """Return the output section with the constants that lie in this region."""
    return f".constants.{region}"


def _constants(region: str, files: Sequence[str], *, is_copy: bool) -> str:
    """Return the statement for constants that are read in ``region``; a copy is loaded into
    flash.
    """
    loaded = " AT > CODE" if is_copy else ""
    inputs = "".join(f"        {file}(.rodata.tvm .rodata.tvm.*)\n" for file in files)
    return (
        f"    {constants_section(region)} : ALIGN({ALIGNMENT}) {{\n{inputs}"
        f"        . = ALIGN({ALIGNMENT});\n    }} > {region}{loaded}\n\n"
    )


def _copy(section: str) -> str:
    """Return an entry of the table that the start-up copies by."""
    return f"LONG(ADDR({section})) LONG(LOADADDR({section})) LONG(SIZEOF({section}))"


#: Where pools have guards (``hil_guard.h``).
_SIDES = ("below", "above")


def _guard(workspace: int, side: str) -> str:
    return f"hil_guard_{side}_{workspace}"


def _workspace(index: int, section: str, inputs: str, region: str) -> str:
    """Return the statement for pools, with room for their guards."""
    below, above = (
        f"        {_guard(index, side)} = .;\n        . += {GUARD_BYTES};\n" for side in _SIDES
    )
    return (
        f"    {section} (NOLOAD) : ALIGN({ALIGNMENT}) {{\n{below}"
        f"        *({inputs})\n        . = ALIGN({ALIGNMENT});\n{above}    }} > {region}\n\n"
    )


def _template_files(board: Board, server: _Server) -> dict[str, bytes]:
    template = data_dir("firmware_template")
    paths: list[Path] = [template / "CMakeLists.txt", template / "README.md"]
    for name in ("cmake", "include", "src", *server.includes, *_port_folders(board)):
        folder = template / name
        paths += sorted(folder.glob("*.[ch]")) + sorted(folder.glob("*.cmake"))
    return {path.relative_to(template).as_posix(): path.read_bytes() for path in paths}


def _port_folders(board: Board) -> list[str]:
    """Return the template's folders of the board's ports, then the shared ones."""
    names = [name for port in board.ports for name in (port.name, *port.uses)]
    return [f"ports/{name}" for name in dict.fromkeys(names)]


def _presets(board: Board) -> str:
    variables: dict[str, bool | str] = {"CMAKE_EXPORT_COMPILE_COMMANDS": True}
    configure: dict[str, object] = {
        "name": "firmware",
        "displayName": f"Firmware for {board.name}",
        "generator": "Ninja",
        "binaryDir": "${sourceDir}/build",
        "cacheVariables": variables,
    }
    if not board.is_host:
        configure["toolchainFile"] = "${sourceDir}/cmake/bare-metal.cmake"
        variables["CMAKE_C_COMPILER"] = board.cpu.toolchain.gcc
        variables["CMAKE_SYSTEM_PROCESSOR"] = board.cpu.isa
    presets = {
        "version": 3,
        "configurePresets": [configure],
        "buildPresets": [{"name": "firmware", "configurePreset": "firmware"}],
    }
    return json.dumps(presets, indent=2) + "\n"


def _config_header(board: Board, modules: Sequence[Module], runtime: FirmwareRuntime | None) -> str:
    values = {
        "HIL_CLOCK_HZ": board.clock_hz,
        "HIL_FRAME_MAX": board.frame_max,
        "HIL_RX_MAX": board.rx_max,
        **board.macros,
    }
    if not board.is_host:
        values["HIL_STACK_GUARD_BYTES"] = board.stack_guard_bytes
    if board.boot_loader_bytes:
        values["HIL_AFTER_LOADER"] = 1
    if any(module.states for module in modules):
        values["HIL_HAS_STATE"] = 1
    if any(module.fed_rows for module in modules):
        values["HIL_HAS_FEEDER"] = 1
    if runtime is not None:
        values.update(runtime.macros(modules))
    if board.trigger is not None:
        for name, (address, value) in (("HIGH", board.trigger.high), ("LOW", board.trigger.low)):
            values[f"HIL_TRIGGER_{name}_ADDRESS"] = address
            values[f"HIL_TRIGGER_{name}_VALUE"] = value
    lines = [f"#define {name} {_c_integer(value)}" for name, value in values.items()]
    if board.trigger is not None:
        setup = ", ".join(f"{{{', '.join(map(_c_integer, w))}}}" for w in board.trigger.setup)
        lines.append(f"#define HIL_TRIGGER_SETUP {setup}")
    return (
        GENERATED
        + "#ifndef HIL_CONFIG_H\n#define HIL_CONFIG_H\n\n"
        + f"#define HIL_BOARD_NAME {c_string(board.name)}\n"
        + "\n".join(lines)
        + "\n\n#endif\n"
    )


def _build_header() -> str:
    """Return the header of what no two firmwares share, which one source includes."""
    return (
        GENERATED
        + "#ifndef HIL_BUILD_H\n#define HIL_BUILD_H\n\n"
        + f'#define HIL_BUILD_ID "{BUILD_ID_PLACEHOLDER.decode()}"\n'
        + "\n#endif\n"
    )


def _c_integer(value: int) -> str:
    # Addresses are easier to read in hexadecimal.
    return f"{value:#010x}U" if value >= 0x4000_0000 else str(value)


def _cmake_settings(
    libraries: Sequence[ModelLibrary],
    board: Board,
    runtime: FirmwareRuntime | None,
    server: _Server,
) -> str:
    sources = [
        # Sources that several ports share are in a folder of their own.
        f"ports/{source}" if "/" in source else f"ports/{port.name}/{source}"
        for port in board.ports
        for source in port.sources
    ]
    modules = modules_of(libraries)
    toolchain = board.cpu.toolchain
    lines = [
        _cmake_list("HIL_CPU_FLAGS", board.cpu.cflags),
        _cmake_list("HIL_TOOLCHAIN_C_FLAGS", toolchain.c_flags),
        _cmake_list("HIL_TOOLCHAIN_MODEL_FLAGS", toolchain.model_flags),
        _cmake_list("HIL_TOOLCHAIN_LINK_FLAGS", (*toolchain.link_flags, *_segment_flags(board))),
        _cmake_list("HIL_SERVER_SOURCES", server.sources),
        _cmake_list("HIL_SERVER_INCLUDES", server.includes),
        _cmake_list("HIL_SERVER_DEFAULTS", server.defaults),
        _cmake_list("HIL_PORT_SOURCES", sources),
        _cmake_list("HIL_PORT_INCLUDES", _port_folders(board)),
        _cmake_list("HIL_CRT_SOURCES", runtime.sources(modules) if runtime else ()),
        _cmake_list("HIL_CRT_INCLUDES", runtime.includes if runtime else ()),
        _cmake_list("HIL_MODELS", [model_key(module) for module in modules]),
    ]
    # Models that bring the same code have it in the same place.
    extras = [extra_code(library.files) for library in libraries]
    for name in ("includes", "sources", "objects"):
        paths = dict.fromkeys(path for extra in extras for path in getattr(extra, name))
        lines.append(_cmake_list(f"HIL_EXTRA_{name.upper()}", paths))
    shared: dict[str, tuple[Module, bytes]] = {}
    for library in libraries:
        for module in library.modules:
            lines += _model_settings(library, module, shared)
            if runtime is not None and is_foreign(library, module):
                # Each of TVM's libraries defines this one, but an image has only one.
                name = f"HIL_MODEL_{model_key(module)}_RENAMED"
                lines.append(_cmake_list(name, [runtime.entry_point()]))
    return "# Generated by hil for this firmware; changes are lost.\n" + "".join(lines)


def _segment_flags(board: Board) -> tuple[str, ...]:
    """Return the flags by which data that follow the code in one memory have a segment of their
    own: the linker merges what shares a page.
    """
    writable = not board.is_host and board.regions("flash")[0].writable
    return ("-Wl,-z,max-page-size=16",) if writable else ()


def _model_settings(
    library: ModelLibrary, module: Module, shared: dict[str, tuple[Module, bytes]]
) -> Iterator[str]:
    folder, key = _folder(library), model_key(module)
    # A library of one model may hold files of other names.
    own = re.compile("" if len(library.modules) == 1 else rf"{re.escape(module.name)}_lib\d+\.")
    names = sorted(path for path in library.files if own.match(path.rpartition("/")[2]))
    for path in names:
        if path.startswith(_SOURCES) and not path.endswith((".c", ".h")):
            raise InputError(
                f"model {module.name!r} has the source {path}, which is not C",
                "export the model with its external modules as C",
            )
    sources = [f"{folder}/{p}" for p in names if p.startswith(_SOURCES) and p.endswith(".c")]
    objects = [path for path in names if path.startswith(_OBJECTS) and path.endswith(".o")]
    if not is_foreign(library, module):
        common = _shared_objects(library)
        objects = [path for path in objects if path not in common]
        objects += _first_links(library, module, common, shared)
    yield _cmake_list(f"HIL_MODEL_{key}_SOURCES", sources)
    data = [f"{folder}/{p}" for p in names if p.startswith(_HEADERS) and p.endswith(".bin")]
    yield _cmake_list(f"HIL_MODEL_{key}_DATA", data)
    yield _cmake_list(f"HIL_MODEL_{key}_OBJECTS", [f"{folder}/{path}" for path in objects])
    yield _cmake_list(f"HIL_MODEL_{key}_INCLUDES", [f"{folder}/{_HEADERS}".rstrip("/")])


def _shared_objects(library: ModelLibrary) -> list[str]:
    """Return the objects that belong to no single model: what several models' external modules
    call.
    """
    names = "|".join(re.escape(module.name) for module in library.modules)
    own = re.compile(rf"{re.escape(_OBJECTS)}({names})_lib\d+\.o")
    objects = (p for p in library.files if p.startswith(_OBJECTS) and p.endswith(".o"))
    return sorted(path for path in objects if not own.fullmatch(path))


def _first_links(
    library: ModelLibrary,
    module: Module,
    paths: Sequence[str],
    shared: dict[str, tuple[Module, bytes]],
) -> Iterator[str]:
    """Yield those of ``paths`` that no earlier model has; an image links each once."""
    for path in paths:
        name, data = path.rpartition("/")[2], library.files[path]
        if name not in shared:
            shared[name] = (module, data)
            yield path
        elif shared[name][1] != data:
            raise InputError(
                f"the models {shared[name][0].name!r} and {module.name!r} bring different objects "
                f"{name}",
                "compile both with one version of the library that it is",
            )


def _cmake_list(name: str, values: Iterable[str]) -> str:
    return f"set({name} {' '.join(values)})\n" if (values := list(values)) else f"set({name})\n"


def _models_source(
    modules: Sequence[Module], workspace: Workspace, runtime: FirmwareRuntime | None
) -> str:
    names = [f"hil_model_{model_key(module)}" for module in modules]
    declarations = "".join(f"extern const struct hil_model {name};\n" for name in names)
    entries = ", ".join(f"&{name}" for name in names) or "0"
    # Unreferenced code is not linked: TVM's runtime has an arena wherever it may allocate.
    arena = max(arena_bytes(modules), ALIGNMENT) if runtime else 0
    blocks = block_source(modules, shared_bytes(modules) if workspace == "shared" else {}, arena)
    includes = '#include "hil_model.h"\n'
    if runtime is not None:
        includes += f'#include "{runtime.header}"\n'
    return (
        f"{GENERATED}{includes}\n{declarations}\n"
        f"const struct hil_model *const hil_models[] = {{{entries}}};\n"
        f"const uint8_t hil_model_count = {len(names)};\n"
        f"{runtime.tables(modules) if runtime else ''}"
        f"{_states_table(modules)}{_feeders_table(modules)}{blocks}"
    )


def _states_table(modules: Sequence[Module]) -> str:
    """Return the table of the states of each model; "" where none has some."""
    names = [f"hil_states_{model_key(m)}" if m.states else "" for m in modules]
    return _table("hil_state.h", "struct hil_states", "hil_model_states", names)


def _feeders_table(modules: Sequence[Module]) -> str:
    """Return the table of what feeds each model rows; "" where none takes them."""
    names = [f"hil_feeder_{model_key(m)}" if m.fed_rows else "" for m in modules]
    return _table("hil_feeder.h", "struct hil_feeder", "hil_model_feeders", names)


def _table(header: str, c_type: str, table: str, names: Sequence[str]) -> str:
    """Return the C of a table with an entry for each model, NULL for ""; "" where all are so."""
    if not any(names):
        return ""
    declarations = "".join(f"extern const {c_type} {name};\n" for name in names if name)
    entries = ", ".join(f"&{name}" if name else "0" for name in names)
    return (
        f'\n#include "{header}"\n\n{declarations}\n'
        f"const {c_type} *const {table}[] = {{{entries}}};\n"
    )


def with_build_id(files: Mapping[str, bytes], build_id: str) -> dict[str, bytes]:
    """Return the files with the placeholder filled in."""
    header = "generated/hil_build.h"
    filled = files[header].replace(BUILD_ID_PLACEHOLDER, build_id.encode())
    return {**files, header: filled}
