"""Projects of ``hil tvmc micro``, and the options of its platforms.

A project is firmware for one board, with the archive of its models and a file that names the board.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.board import Board, board_file, board_names, load_board
from hil.board.description import read_description, to_toml
from hil.firmware.build import Firmware, read_firmware
from hilc.artifact.archive import METADATA, is_library
from hilc.artifact.library import ModelLibrary
from hilc.errors import InputError
from hilc.support.outputs import write_file
from hilc.support.suggest import nearest

#: Platforms of ``micro``; each gives the same kind of project.
PLATFORMS = ("zephyr", "arduino", "template")

#: The archive's path in a project, as in TVM's projects.
ARCHIVE = "model.tar"
_DESCRIPTION = "hil-tvmc.json"

#: Zephyr's names of boards whose descriptions have another name.
_ZEPHYR_BOARDS = {"qemu_cortex_m0": "microbit", "qemu_cortex_m3": "lm3s6965evb"}
_BOARD_OPTIONS = ("board", "zephyr_board", "arduino_board")
#: The debug probe's unique id.
_PROBE_OPTIONS = ("serial_number", "openocd_serial", "nrfjprog_snr")
_PROJECT_TYPES = ("host_driven",)
#: Options without effect, and why.
_UNUSED_OPTIONS: Mapping[str, str] = {
    "arduino_cli_cmd": "CMake builds the project",
    "arm_fvp_path": "the board's description determines how it is started",
    "config_main_stack_size": "the board's description sets the stack's size",
    "gdbserver_port": "no debugger is started",
    "heap_size_bytes": "the firmware uses no heap",
    "use_fvp": "the board's description determines how it is started",
    "warning_as_error": "the project compiles without warnings",
    "verbose": "build.log in the project is always complete",
    "west_cmd": "CMake builds the project",
    "workspace_size_bytes": "the compiler computes the model's workspace",
    "zephyr_base": "the firmware needs no operating system",
}
_REFUSED_OPTIONS: Mapping[str, str] = {
    "compile_definitions": "add them to the project's CMakeLists.txt",
    "extra_files_tar": "unpack it and pass its folders: --include-dir DIR --source DIR",
}
_USED_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(_BOARD_OPTIONS, "a board of `hil boards`, or the path of a description"),
    **dict.fromkeys(_PROBE_OPTIONS, "the unique id of the debug probe that programs the board"),
    "cmsis_path": "a folder with CMSIS-NN, for archives whose code calls it",
    "port": "the board's serial port, or a pyserial URL",
    "project_type": f"{_PROJECT_TYPES[0]}, the only type",
}


@dataclass(frozen=True)
class ProjectOptions:
    """The options of a command line that have an effect."""

    board: str | None
    #: The serial port of running firmware, or of a board that a probe programs.
    port: str | None
    #: The debug probe that programs the board.
    probe: str | None
    #: A folder with CMSIS-NN, for archives whose code calls it.
    cmsis_path: str | None
    notes: tuple[str, ...]


def check_platform(platform: str, template_dir: str | None) -> None:
    """Raise for platforms unknown to TVM, and for external templates."""
    if platform not in PLATFORMS:
        raise InputError(
            f"platform {platform} is not supported.", f"choose one of {', '.join(PLATFORMS)}"
        )
    if template_dir is not None:
        raise InputError(
            f"--template-dir {template_dir} is not offered: a template's Project API server needs "
            "TVM's own build",
            "drop it; every platform gives this program's firmware",
        )


def parse_options(words: Sequence[str]) -> ProjectOptions:
    """Parse the ``NAME=VALUE`` of ``--project-option``.

    Raise :class:`InputError` for an unknown option or value.
    """
    given: dict[str, str] = {}
    notes: list[str] = []
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise InputError(
                f"the project option {word!r} is not NAME=VALUE", "write board=mps2-an386"
            )
        if name in _REFUSED_OPTIONS:
            raise InputError(f"the project option {name} is not offered", _REFUSED_OPTIONS[name])
        if name in _UNUSED_OPTIONS:
            notes.append(f"project option {name} has no effect: {_UNUSED_OPTIONS[name]}")
        elif name not in _USED_OPTIONS:
            known = (*_USED_OPTIONS, *_UNUSED_OPTIONS)
            raise InputError(
                f"there is no project option {name!r}{nearest(name, known)}",
                f"those with an effect are {', '.join(_USED_OPTIONS)}",
            )
        given[name] = value
    project_type = given.get("project_type", _PROJECT_TYPES[0])
    if project_type not in _PROJECT_TYPES:
        raise InputError(
            f"project_type={project_type} is not offered{nearest(project_type, _PROJECT_TYPES)}",
            "use host_driven; for other types, link the archive's code yourself",
        )
    boards = {given[name] for name in _BOARD_OPTIONS if name in given}
    if len(boards) > 1:
        raise InputError(f"the options name the boards {' and '.join(sorted(boards))}", "name one")
    probe = next((given[name] for name in _PROBE_OPTIONS if name in given), None)
    return ProjectOptions(
        next(iter(boards), None),
        given.get("port"),
        probe,
        given.get("cmsis_path"),
        tuple(notes),
    )


#: The header of CMSIS-NN, and paths of its tree below a folder of CMSIS.
_CMSIS_NN_HEADER = "arm_nnfunctions.h"
_CMSIS_NN_FOLDERS = ("", "CMSIS-NN", "CMSIS/NN")


def calls_cmsis_nn(library: ModelLibrary) -> bool:
    """Return whether the library's code includes CMSIS-NN's header."""
    header = _CMSIS_NN_HEADER.encode()
    return any(header in data for path, data in library.files.items() if path.endswith(".c"))


def cmsis_nn_folder(path: str) -> Path:
    """Return the root of CMSIS-NN below the folder of the project option ``cmsis_path``."""
    folders = [Path(path, name) for name in _CMSIS_NN_FOLDERS]
    for folder in folders:
        if (folder / "Include" / _CMSIS_NN_HEADER).is_file():
            return folder
    raise InputError(
        f"cmsis_path={path} has no CMSIS-NN: none of {', '.join(map(str, folders))} has "
        f"Include/{_CMSIS_NN_HEADER}",
        "name the root of a clone of https://github.com/ARM-software/CMSIS-NN",
    )


def describe_options() -> str:
    """Return the project options, their meanings, and the boards, as text."""
    groups = {
        "project options": _USED_OPTIONS,
        "without effect": _UNUSED_OPTIONS,
        "not offered": _REFUSED_OPTIONS,
    }
    width = max(len(name) for options in groups.values() for name in options)
    lines = []
    for title, options in groups.items():
        lines += [f"{title}:", *(f"  {name:{width}}  {text}" for name, text in options.items()), ""]
    return "\n".join([*lines, "boards:", *(f"  {name}" for name in board_names())])


def find_board(name: str) -> Board:
    """Return the board of a project option, which may use Zephyr's name."""
    if name.endswith(".toml") or "/" in name or board_file(name) is not None:
        return load_board(name)
    for candidate in (_ZEPHYR_BOARDS.get(name, ""), name.replace("_", "-")):
        if candidate in board_names():
            return load_board(candidate)
    raise InputError(
        f"the board {name!r} has no description here{nearest(name, board_names())}",
        f"choose one of {', '.join(board_names())}, or write a description and pass its path: "
        "board=my-board.toml",
    )


@dataclass(frozen=True)
class Project:
    """A folder that ``micro create`` made."""

    folder: Path
    platform: str
    board: Board

    def library(self) -> ModelLibrary:
        """Return the project's models."""
        path = self.folder / ARCHIVE
        if not path.is_file():
            raise InputError(f"{path} does not exist", "create the project again")
        if not is_library(path):
            # TVM's message for a project whose module has another format.
            raise InputError(
                "Setting 'project_dir' is only allowed when importing a MLF.!",
                f"{path} is not in Model Library Format: it has no {METADATA}",
            )
        return ModelLibrary.load(path)

    def firmware(self) -> Firmware | None:
        """Return the firmware that was built in the folder, or None."""
        return read_firmware([self.library()], self.board, self.folder.resolve())

    def save(self) -> None:
        """Write the file that names the project's board.

        A user's description is copied, so that the project does not depend on the original.
        """
        name = self.board.name
        if name not in board_names():
            name = f"{name}.toml"
            # Its chip and core may be described in the user's files, too.
            text = to_toml(read_description(self.board.path).values)
            write_file(self.folder / name, text)
        text = json.dumps({"platform": self.platform, "board": name}, indent=2)
        write_file(self.folder / _DESCRIPTION, text + "\n")


def load_project(folder: str | Path) -> Project:
    """Return the project in ``folder``."""
    folder = Path(folder)
    path = folder / _DESCRIPTION
    if not folder.is_dir():
        raise InputError(f"{folder} doesn't exist.", "make it with hil tvmc micro create")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        platform, board = str(found["platform"]), str(found["board"])
    except FileNotFoundError:
        raise InputError(
            f"{folder} is not a project of `hil tvmc micro create`: it has no {_DESCRIPTION}",
            "create one",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error}", "create the project again") from None
    place = folder / board if "." in board else board
    return Project(folder, platform, load_board(place))
