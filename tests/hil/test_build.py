"""Building firmware: cache, standalone project, sizes, and refusals with the right figures."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import models
import pytest
from campaigns import cases, sampled
from processes import file_size_limit
from small_models import convolutions, moves
from tflite_builder import ModelBuilder
from tiny_library import tiny_library

import hil
import hil.firmware.build as build_module
import hil.support.cache as cache_module
import hilc
from hil.board import Board, board_names, load_board
from hil.board.board import base_figures
from hil.build import Firmware, build
from hil.errors import BuildError, InputError
from hil.firmware import toolchain
from hil.firmware.fit import FitError, description_bytes, estimate, linker_demands
from hil.firmware.glue import c_string
from hil.firmware.linkmap import read_map
from hil.firmware.placement import GUARD_BYTES
from hil.firmware.project import check_counts, project_files
from hilc.artifact.library import constants_path
from hilc.support.outputs import MANIFEST

BOARD = "mps2-an386"
ADD_ONE = "for (int i = 0; i < 4; ++i) { y[i] = x[i] + 1; }"
# Those that run here; tests/hil/test_boards_*.py build the others.
ARM_BOARDS = tuple(name for name in board_names() if "qemu" in load_board(name).runners)
#: Those that are built for in each run.
OFTEN = ("microbit", "mps2-an386", "riscv-virt", "native")


def tools_path() -> str:
    """PATH with this environment's CMake and Ninja, and the compilers."""
    return os.pathsep.join([*toolchain.tool_folders(), os.environ["PATH"]])


def symbols(elf: Path) -> set[str]:
    listing = subprocess.run(
        ["arm-none-eabi-nm", str(elf)], check=True, capture_output=True, text=True
    ).stdout
    return {line.split()[-1] for line in listing.splitlines()}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.full
@cases("codegen", ["c", "llvm"], first=1)
def test_a_registry_of_no_functions_is_built(cache: Path, codegen: str) -> None:
    # As tvmc's --runtime-crt-system-lib asks for it, whatever the interface.
    library = hilc.compile(moves(), cpu="cortex-m4", name="net", system_lib=True, codegen=codegen)
    assert library.modules[0].functions == ()
    build([library], load_board(BOARD), warnings_as_errors=True)


@pytest.mark.parametrize("name", sampled([*ARM_BOARDS, "native"], keep=OFTEN))
def test_builds_without_warning_or_allocator(name: str) -> None:
    """Every port, the RPC and the glue, with our warnings as errors."""
    board = load_board(name)
    firmware = build([tiny_library(ADD_ONE, cpu=board.cpu.name)], board, warnings_as_errors=True)
    assert firmware.elf.is_file()
    assert re.fullmatch("[0-9a-f]{32}", firmware.build_id)
    if board.is_host:
        return
    assert not symbols(firmware.elf) & {"malloc", "_malloc_r", "free", "_sbrk", "_sbrk_r", "_write"}
    by_name = {use.name: use for use in firmware.sizes.regions}
    code, data = board.regions("flash")[0], board.regions("ram")[0]
    assert by_name[code.name].used == firmware.sizes.flash_bytes
    stacks = board.stack_bytes + board.handler_stack_bytes
    assert by_name[data.name].used == firmware.sizes.ram_bytes + stacks


def test_sections_are_all_of_the_image() -> None:
    """The whole firmware of keyword spotting, RPC included, by what it is and whose."""
    board = load_board(BOARD)
    options: dict[str, Any] = {"pools": "external", "io_in_pool": True}
    library = hilc.compile(models.model_path("kws"), cpu=board.cpu.name, name="kws", **options)
    sizes = build([library], board).sizes
    flash = [use for use in sizes.sections if use.in_flash]
    ram = [use for use in sizes.sections if use.in_ram]
    stacks = sizes.stack_bytes + sizes.handler_stack_bytes
    assert sum(use.size for use in flash) == sizes.flash_bytes < 90 * 1024
    assert sum(use.size for use in ram) == sizes.ram_bytes + stacks
    assert sum(use.parts.get("kws", 0) for use in flash) == sizes.models["kws"].flash_bytes
    by_name = {use.name: use for use in sizes.sections}
    assert by_name["weights and tables of models"].parts == {
        "kws": library.modules[0].constants_bytes
    }
    pools = by_name["pools and buffers of models"].parts["kws"]
    assert pools == sizes.models["kws"].workspace_bytes
    assert by_name["stack"].size == board.stack_bytes
    assert by_name["code"].parts["C library"] > 0


@pytest.mark.parametrize(("optimize", "most"), [("balanced", 24 * 1024), ("size", 12 * 1024)])
def test_flash_besides_weights_and_biases(optimize: str, most: int) -> None:
    board = load_board(BOARD)
    library = hilc.compile(
        models.model_path("kws"),
        cpu=board.cpu.name,
        name="kws",
        optimize=optimize,
        pools="external",
        io_in_pool=True,
    )
    weights = 22_016 + 4 * (9 * 64 + 12)
    assert build([library], board).sizes.models["kws"].flash_bytes - weights <= most


@pytest.mark.parametrize("name", sampled(ARM_BOARDS, keep=OFTEN[:3]))
def test_base_figures_are_lower_bounds(name: str) -> None:
    """And near enough to be of use: what the firmware takes alone, against the template's data."""
    board = load_board(name)
    sizes = build([], board).sizes
    base = board.base
    link = base.link_ram_bytes(board.frame_max, board.rx_max)
    assert base.flash_bytes <= sizes.flash_bytes <= 1.25 * base.flash_bytes
    assert link <= sizes.ram_bytes <= link + 128


@pytest.mark.parametrize(
    ("name", "optimize"),
    sampled(
        [
            (name, optimize)
            for name in ("lm3s6965evb", "mps3-an547")
            for optimize in ("balanced", "size")
        ],
        keep=[("lm3s6965evb", "balanced"), ("mps3-an547", "size")],
    ),
)
def test_estimate_of_a_real_model_is_a_lower_bound(name: str, optimize: str) -> None:
    board = load_board(name)
    library = hilc.compile(
        models.model_path("kws"),
        cpu=board.cpu.name,
        optimize=optimize,
        pools="external",
        io_in_pool=True,
    )
    flash, ram, stack = estimate(library.modules, board)
    sizes = build([library], board).sizes
    assert 0.7 * sizes.flash_bytes < flash.needed <= sizes.flash_bytes
    if name == "lm3s6965evb":  # one region, so the estimate's is that of the data
        used = sizes.ram_bytes + sizes.stack_bytes + sizes.handler_stack_bytes
        assert used - 128 < ram.needed <= used
    assert stack.needed <= sizes.stack_bytes


def test_second_build_compiles_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts no program, but asks the compiler which version it is."""
    started: list[list[str]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **options: Any) -> None:
            started.append(command)
            super().__init__(command, **options)

    board, library = load_board(BOARD), tiny_library(ADD_ONE)
    first = build([library], board)
    before = first.elf.stat().st_mtime_ns
    monkeypatch.setattr("subprocess.Popen", Recorded)
    second = build([library], board)
    assert [command[-1] for command in started] == ["--version"]
    assert second == first
    assert second.elf.stat().st_mtime_ns == before
    assert first.folder.is_relative_to(cache)


@pytest.mark.full
def test_builds_unused_for_a_month_are_removed(cache: Path) -> None:
    board = load_board(BOARD)
    month_ago_s = time.time() - 31 * 24 * 3600
    libraries = [tiny_library(f"y[0] = {value};") for value in range(4)]
    used, unused, locked = (build([library], board).folder for library in libraries[:3])
    interrupted = cache / "builds" / "interrupted"
    interrupted.mkdir()
    os.utime(interrupted, (month_ago_s, month_ago_s))
    for folder in (used, unused, locked):
        os.utime(folder / "firmware.json", (month_ago_s, month_ago_s))
    assert build([libraries[0]], board).folder == used
    with cache_module.locked(locked):
        new = build([libraries[3]], board).folder
    assert set((cache / "builds").iterdir()) == {used, locked, new}
    assert not unused.exists()


@pytest.mark.parametrize("change", ["source", "board", "option"])
def test_what_goes_in_is_in_the_key(change: str) -> None:
    board, library = load_board(BOARD), tiny_library(ADD_ONE)
    first = build([library], board)
    if change == "source":
        second = build([tiny_library(ADD_ONE + " y[0] = 3;")], board)
    elif change == "board":
        second = build([library], dataclasses.replace(board, clock_hz=24_000_000))
    else:
        second = build([library], board, warnings_as_errors=True)
    assert second.build_id != first.build_id
    assert second.folder != first.folder


def test_a_file_of_constants_is_built_like_text(cache: Path, tmp_path: Path) -> None:
    board = load_board(BOARD)
    text, binary = (
        hilc.compile(convolutions(), cpu="cortex-m4", name="net", pools="external", constants=place)
        for place in ("internal", "binary")
    )
    path = constants_path("net")
    first = build([binary], board, tmp_path / "project", warnings_as_errors=True)
    sizes = build([text], board).sizes.models["net"]
    assert first.sizes.models["net"].constants_bytes == sizes.constants_bytes
    assert first.sizes.models["net"].flash_owners["constants"] == sizes.flash_owners["constants"]
    data = bytearray(binary.files[path])
    data[0] ^= 0xFF
    edited = dataclasses.replace(binary, files={**binary.files, path: bytes(data)})
    assert build([edited], board).build_id != first.build_id
    # CMake builds it again, and hil does not build over it.
    elf = first.elf.read_bytes()
    (tmp_path / "project" / "models" / "net" / path).write_bytes(data)
    subprocess.run(
        ["cmake", "--build", "--preset", "firmware"],
        cwd=tmp_path / "project",
        check=True,
        capture_output=True,
    )
    assert bytes(data[:64]) in first.elf.read_bytes()
    assert bytes(data[:64]) not in elf
    with pytest.raises(InputError, match=r"after they were written: .*net_lib1\.bin\n"):
        build([binary], board, tmp_path / "project")


def test_image_does_not_depend_on_its_place(cache: Path, tmp_path: Path) -> None:
    board, library = load_board(BOARD), tiny_library(ADD_ONE)
    images = []
    for index, firmware in enumerate(
        (build([library], board), build([library], board, tmp_path / "project"))
    ):
        image = tmp_path / f"{index}.bin"
        subprocess.run(
            ["arm-none-eabi-objcopy", "-O", "binary", str(firmware.elf), str(image)], check=True
        )
        images.append(image.read_bytes())
    assert images[0] == images[1]
    assert load_board(BOARD).name.encode() in images[0]


@pytest.mark.full
def test_builds_at_the_same_time_agree(cache: Path) -> None:
    board, library = load_board(BOARD), tiny_library(ADD_ONE)
    command = (
        "import sys; sys.path[:0] = sys.argv[1].split(':')\n"
        "from hil.board import load_board; from hil.firmware.build import build\n"
        "from tiny_library import tiny_library\n"
        f"print(build([tiny_library({ADD_ONE!r})], load_board({BOARD!r})).build_id)"
    )
    with ThreadPoolExecutor(3) as pool:
        runs = [
            pool.submit(
                subprocess.run,
                [sys.executable, "-c", command, ":".join(sys.path)],
                check=True,
                capture_output=True,
                text=True,
            )
            for _ in range(3)
        ]
        ids = {run.result().stdout.strip() for run in runs}
    assert ids == {build([library], board).build_id}


def test_interrupted_build_is_done_again(cache: Path) -> None:
    board, library = load_board(BOARD), tiny_library(ADD_ONE)
    firmware = build([library], board)
    (firmware.folder / "firmware.json").unlink()
    firmware.elf.write_bytes(b"half an image")
    assert build([library], board) == firmware
    assert firmware.elf.read_bytes().startswith(b"\x7fELF")


@cases("name", ["mps2-an386", "native"], first=1)
def test_project_builds_without_python(name: str, tmp_path: Path) -> None:
    """Copied elsewhere, with nothing in PATH but CMake, Ninja and the compilers."""
    board = load_board(name)
    firmware = build([tiny_library(ADD_ONE, cpu=board.cpu.name)], board)
    copy = tmp_path / "project"
    shutil.copytree(firmware.folder, copy, ignore=shutil.ignore_patterns("build"))
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("cmake", "ninja", "cc", "as", "ld", "ar", "ranlib", "sh"):
        found = shutil.which(tool, path=tools_path())
        assert found, tool
        # A wrapper, since CMake finds its modules by the place of its program.
        (tools / tool).write_text(f'#!/bin/sh\nexec {found} "$@"\n')
        (tools / tool).chmod(0o755)
    for path in Path("/usr/bin").glob("arm-none-eabi-*"):
        (tools / path.name).symlink_to(path)
    environment = {"PATH": str(tools), "HOME": str(tmp_path)}
    assert shutil.which("python3", path=str(tools)) is None
    for arguments in (["--preset", "firmware"], ["--build", "--preset", "firmware"]):
        done = subprocess.run(
            [str(tools / "cmake"), *arguments],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (copy / "build" / "firmware.elf").is_file()
    assert (copy / "build" / "compile_commands.json").is_file()


def test_output_folder_is_kept_up_to_date(tmp_path: Path) -> None:
    board, folder = load_board(BOARD), tmp_path / "project"
    first = build([tiny_library(ADD_ONE)], board, folder)
    added = [folder / name for name in ("notes.txt", "src/mine.c", "models/x.h", "build/log.txt")]
    for path in added:
        path.write_text("the user's own")
    (folder / "CMakeLists.txt").unlink()
    again = build([tiny_library(ADD_ONE)], board, folder)
    assert again == first
    other = build([tiny_library(ADD_ONE, name="other")], board, folder)
    assert not (folder / "models" / "tiny").exists()
    assert other.build_id != first.build_id
    assert [path.read_text() for path in added] == ["the user's own"] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["project"], "nothing is left beside it"


def test_an_edited_project_is_not_built_over(tmp_path: Path) -> None:
    board, folder = load_board(BOARD), tmp_path / "project"
    library = tiny_library(ADD_ONE)
    first = build([library], board, folder)
    (folder / "src" / "main.c").write_text("edited")
    for other in (library, tiny_library(ADD_ONE, name="other")):
        with pytest.raises(InputError, match=r"after they were written: src/main\.c\n") as caught:
            build([other], board, folder)
        assert "--force" in caught.value.hint
        assert (folder / "src" / "main.c").read_text() == "edited"
        assert (folder / "firmware.json").is_file(), "nothing else is touched either"
    assert build([library], board, folder, force=True) == first
    assert "hil_rpc_poll" in (folder / "src" / "main.c").read_text()


def test_a_project_of_an_older_version_is_the_users(tmp_path: Path) -> None:
    """It has no list of what was written, so whatever differs may have been edited."""
    board, folder = load_board(BOARD), tmp_path / "project"
    library = tiny_library(ADD_ONE)
    build([library], board, folder)
    (folder / MANIFEST).unlink()
    build([library], board, folder)
    with pytest.raises(InputError, match="edited or added after they were written"):
        build([tiny_library(ADD_ONE + " y[0] = 1;")], board, folder)


def test_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(InputError, match="files that do not belong to a firmware project"):
        build([tiny_library(ADD_ONE)], load_board(BOARD), tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["thesis.txt"]


def test_compiler_error_is_shown(cache: Path) -> None:
    with pytest.raises(BuildError, match="error: 'nothing' undeclared") as caught:
        build([tiny_library("y[0] = nothing;")], load_board(BOARD))
    log = re.search(r"see (\S+build\.log)", str(caught.value))
    assert log
    assert "nothing" in Path(log[1]).read_text()
    assert "FAILED" in Path(log[1]).read_text()


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"):
        build([tiny_library(ADD_ONE)], load_board(BOARD))


def test_missing_cmake(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> None:
    compiler = shutil.which("arm-none-eabi-gcc")
    assert compiler
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "arm-none-eabi-gcc").symlink_to(compiler)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(toolchain, "tool_folders", list)
    with pytest.raises(BuildError, match="cmake is not in PATH"):
        build([tiny_library(ADD_ONE)], load_board(BOARD))


def test_two_models_of_one_name_are_refused() -> None:
    library = tiny_library(ADD_ONE)
    with pytest.raises(InputError, match="two models of one firmware are called 'tiny'"):
        build([library, library], load_board(BOARD))


@pytest.mark.parametrize("pools", ["internal", "external"])
@pytest.mark.parametrize("io_in_pool", [False, True])
def test_every_interface_of_a_library(pools: str, io_in_pool: bool) -> None:
    """Its pool is in the image once, whoever owns it."""
    workspace = 5_000
    library = tiny_library(
        ADD_ONE,
        pools="internal" if pools == "internal" else "external",
        io_in_pool=io_in_pool,
        workspace_bytes=workspace,
    )
    firmware = build([library], load_board(BOARD), warnings_as_errors=True)
    buffers = 0 if io_in_pool else 32
    assert firmware.sizes.models["tiny"].workspace_bytes == workspace + buffers
    empty = build([], load_board(BOARD)).sizes.ram_bytes
    assert workspace + buffers <= firmware.sizes.ram_bytes - empty < workspace + buffers + 32


def test_sizes_of_each_model() -> None:
    """Code, constants and what only this model takes of the C library are the model's."""
    table = "static const int32_t table[250] = {[1] = 1, [249] = 2};"
    uses_libm = "float expf(float);"
    libraries = [
        tiny_library(ADD_ONE, name="plain"),
        tiny_library("y[0] = table[x[0]];", name="table", globals_=table),
        tiny_library("y[0] = (int32_t)expf((float)x[0]);", name="libm", globals_=uses_libm),
    ]
    board = load_board(BOARD)
    firmware = build(libraries, board)
    models, empty = firmware.sizes.models, build([], board).sizes
    assert 900 < models["table"].flash_bytes - models["plain"].flash_bytes < 1100
    # The linker keeps a text that both have, such as a tensor's name, with the first.
    assert 950 < models["table"].constants_bytes - models["plain"].constants_bytes <= 1000
    assert models["libm"].flash_bytes - models["plain"].flash_bytes > 300
    # The models and the bare firmware make the whole: the model table grows beside them, and of the
    # texts that several objects have some linkers keep one but show the size of each.
    added = sum(model.flash_bytes for model in models.values())
    assert -96 < firmware.sizes.flash_bytes - empty.flash_bytes - added < 64


# -- fit ---------------------------------------------------------------------------------------


def too_big(board: Board, error: pytest.ExceptionInfo[FitError]) -> dict[str, tuple[int, int]]:
    """Bytes needed and available by resource, from the message."""
    text = error.value.fact
    assert text.splitlines()[0].endswith(f"not fit {board.name}:")
    line = r"^  (\w+): (?:at least )?([\d,]+) bytes needed, ([\d,]+) available"
    found = re.findall(line, text, re.MULTILINE)
    assert [name for name, _, _ in found].count("flash") == 1
    return {name: (_count(needed), _count(room)) for name, needed, room in found}


def _count(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.fixture
def no_cmake(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise AssertionError("refused before the build, so nothing may be built")

    monkeypatch.setattr(build_module, "_run_cmake", run)


@pytest.mark.usefixtures("no_cmake")
def test_too_many_constants_are_refused_first() -> None:
    board = load_board("lm3s6965evb")
    library = tiny_library(ADD_ONE, constants_bytes=270_000)
    with pytest.raises(FitError) as error:
        build([library], board)
    assert error.value.exit_code == 3
    demands = too_big(board, error)
    described = description_bytes(library.modules[0])
    assert demands["flash"] == (270_000 + described + board.base.flash_bytes, 256 * 1024)
    assert demands["RAM"][0] < demands["RAM"][1] == 64 * 1024
    assert demands["stack"] == (board.base.stack_bytes, board.stack_bytes)


@pytest.mark.usefixtures("no_cmake")
def test_too_large_a_workspace_is_refused_first() -> None:
    board = load_board("microbit")
    with pytest.raises(FitError, match="16000 for the models") as error:
        build([tiny_library(ADD_ONE, workspace_bytes=16_000)], board)
    demands = too_big(board, error)
    link = board.base.link_ram_bytes(board.frame_max, board.rx_max)
    stacks = board.stack_bytes + board.handler_stack_bytes
    assert demands["RAM"] == (16_000 + link + stacks, 16 * 1024)


@pytest.mark.usefixtures("no_cmake")
def test_models_together_are_too_large() -> None:
    board = load_board("microbit")
    half = [tiny_library(ADD_ONE, name=name, workspace_bytes=7_000) for name in ("one", "two")]
    with pytest.raises(FitError, match="'one', 'two' do not fit microbit"):
        build(half, board)


@pytest.mark.full
def test_models_that_are_too_large_together_can_share(cache: Path) -> None:
    board = load_board("microbit")
    halves = [
        tiny_library(
            "y[0] = x[0];", name=name, cpu=board.cpu.name, io_in_pool=False, workspace_bytes=size
        )
        for name, size in (("one", 7_008), ("two", 8_000))
    ]
    with pytest.raises(FitError, match="'one', 'two' do not fit microbit"):
        build(halves, board)
    sizes = build(halves, board, workspace="shared", warnings_as_errors=True).sizes
    empty = build([], board).sizes
    # The block is as large as the larger one wants it; inputs and outputs are beside it.
    buffers = sum(model.workspace_bytes for model in sizes.models.values())
    assert buffers == 4 * 16
    assert 0 <= sizes.ram_bytes - empty.ram_bytes - buffers - 8_000 < 16


@pytest.mark.full  # It changes rarely, and takes long.
@pytest.mark.parametrize("name", ["native", "mps2-an386"])
def test_every_calling_convention_builds(name: str) -> None:
    """The glue, TVM's run time on our ports, the commands for packed functions."""
    board = load_board(name)
    ways: tuple[dict[str, Any], ...] = (
        {"api": "packed", "interface": "packed", "pools": "calls"},
        {"api": "unpacked", "interface": "packed", "pools": "external", "constants": "external"},
        {"api": "unpacked", "interface": "c", "pools": "internal", "constants": "external"},
    )
    libraries = [
        hilc.compile(moves(), cpu=board.cpu.name, name=f"way{index}", **way)
        for index, way in enumerate(ways)
    ]
    firmware = build(libraries, board, warnings_as_errors=True)
    if not board.is_host:
        allocators = {"malloc", "_malloc_r", "free", "_sbrk", "_sbrk_r", "_write"}
        assert not symbols(firmware.elf) & allocators


@pytest.mark.full
@cases(("resource", "excess"), [("flash", 1), ("RAM", 8)], first=1)
def test_linker_has_the_last_word(resource: str, excess: int, cache: Path) -> None:
    """A board that is a few bytes too small, which the estimate cannot know."""
    board = load_board("stm32vldiscovery")
    library = tiny_library(ADD_ONE, workspace_bytes=1_000)
    used = {use.name: use.used for use in build([library], board).sizes.regions}
    memory = tuple(
        dataclasses.replace(region, size=used[region.name] + (region.name == other) * -excess)
        for region in board.memory
        for other in ["flash" if resource == "flash" else "ram"]
    )
    exact = dataclasses.replace(
        board, memory=tuple(dataclasses.replace(r, size=used[r.name]) for r in board.memory)
    )
    assert build([library], exact).sizes.regions[0].used == used["flash"]
    small = dataclasses.replace(board, memory=memory)
    assert all(demand.fits for demand in estimate(library.modules, small))
    with pytest.raises(FitError) as error:
        build([library], small)
    demands = too_big(small, error)
    name = "flash" if resource == "flash" else "ram"
    assert demands[resource] == (used[name], used[name] - excess)


def test_pools_move_to_the_region_with_room() -> None:
    board = load_board("mps2-an386")
    firmware = build([tiny_library(ADD_ONE, workspace_bytes=8 << 20)], board)
    used = {use.name: use.used for use in firmware.sizes.regions}
    assert used["psram"] == (8 << 20) + 2 * GUARD_BYTES
    assert used["ram"] < 1 << 20


@pytest.mark.full
def test_second_region_where_the_first_is_too_tight(cache: Path) -> None:
    board = load_board("mps2-an386")
    link = board.base.link_ram_bytes(board.frame_max, board.rx_max)
    stacks = board.stack_bytes + board.handler_stack_bytes
    # What the estimate leaves, to the byte: the firmware takes a little more than its bound.
    room = (board.regions("ram")[0].size - link - stacks) // 16 * 16
    library = tiny_library(ADD_ONE, workspace_bytes=room)
    assert [demand.fits for demand in estimate(library.modules, board)] == [True, True, True]
    used = {use.name: use.used for use in build([library], board).sizes.regions}
    assert used["psram"] == room + 2 * GUARD_BYTES


def test_large_stack_frame_is_refused(cache: Path) -> None:
    board = load_board("stm32vldiscovery")
    body = "volatile int32_t big[400]; big[x[0]] = 1; y[0] = big[x[1]];"
    with pytest.raises(FitError, match="for the largest function of a model") as error:
        build([tiny_library(body)], board)
    needed, had = too_big(board, error)["stack"]
    assert had == board.stack_bytes
    assert needed - board.base.stack_bytes in range(1600, 1650)
    assert f"raise stack_bytes in {board.path}" in error.value.hint


def test_linker_complaints_of_several_regions() -> None:
    board = load_board("microbit")
    log = "x: region `flash' overflowed by 1 byte\nx: region `ram' overflowed by 345 bytes\n"
    demands = linker_demands(log, board)
    assert [(d.resource, d.needed, d.had) for d in demands] == [
        ("flash", 256 * 1024 + 1, 256 * 1024),
        ("RAM", 16 * 1024 + 345, 16 * 1024),
    ]
    assert linker_demands("undefined reference to `expf'", board) == ()


# -- parts -------------------------------------------------------------------------------------


def test_link_map() -> None:
    found = read_map(
        """\
Archive member included to satisfy reference by file (symbol)

/lib/libm.a(lib_a-exp.o)
                              model.c.obj (expf)
/lib/libc.a(lib_a-errno.o)    /lib/libm.a(lib_a-exp.o) (__errno)

Discarded input sections

 .text          0x00000000       0x99 gone.c.obj

Linker script and memory map

.text           0x00000000      0x130
 *(.vectors)
 .text.main     0x00000000       0x10 main.c.obj
 .text.a_name_that_is_longer
                0x00000010       0x20 model.c.obj
 .text          0x00000030       0x30 /lib/libm.a(lib_a-exp.o)
 *fill*         0x00000060        0x2
 .text          0x00000062        0x0 empty.c.obj

.a_long_output_section_name
                0x20000000       0x40
 .bss           0x20000000       0x40 /lib/libc.a(lib_a-errno.o)
"""
    )
    assert found.sections == {".text": 0x130, ".a_long_output_section_name": 0x40}
    assert [(p.output, p.section, p.file, p.size) for p in found.pieces] == [
        (".text", ".text.main", "main.c.obj", 0x10),
        (".text", ".text.a_name_that_is_longer", "model.c.obj", 0x20),
        (".text", ".text", "/lib/libm.a(lib_a-exp.o)", 0x30),
        (".a_long_output_section_name", ".bss", "/lib/libc.a(lib_a-errno.o)", 0x40),
    ]
    assert found.origin("/lib/libc.a(lib_a-errno.o)") == "model.c.obj"
    assert found.origin("main.c.obj") == "main.c.obj"


def test_sizes_agree_with_the_toolchain() -> None:
    firmware: Firmware = build([tiny_library(ADD_ONE)], load_board(BOARD))
    listing = subprocess.run(
        ["arm-none-eabi-size", "-A", str(firmware.elf)], check=True, capture_output=True, text=True
    ).stdout
    sections = {
        line.split()[0]: int(line.split()[1])
        for line in listing.splitlines()
        if line.startswith(".")
    }
    image = (".text", ".rodata", ".data")
    assert firmware.sizes.flash_bytes == sum(sections[name] for name in image)
    static = sum(sections.get(name, 0) for name in (".data", ".bss", ".workspace"))
    assert firmware.sizes.ram_bytes == static


def test_c_string() -> None:
    text = 'say "\N{GREEK SMALL LETTER MU}s" \\ ??/ 1'
    literal = c_string(text)
    assert re.fullmatch(r'"(\\[0-7]{3}|[ !#->@-\[\]-~])*"', literal)
    decoded = re.sub(
        rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), literal[1:-1].encode()
    )
    assert decoded.decode() == text


def test_generated_text_names_no_place() -> None:
    """Neither this machine nor its user is in a generated project."""
    board = load_board(BOARD)
    files = project_files([tiny_library(ADD_ONE)], board, board.regions("ram")[0])
    for path, data in files.items():
        assert str(Path.home()).encode() not in data, path
        assert os.getcwd().encode() not in data, path


@pytest.mark.parametrize("name", ARM_BOARDS)
def test_base_figures_exist_for_every_core(name: str) -> None:
    assert base_figures(load_board(name).cpu).frame_buffers >= 2


@pytest.mark.parametrize(("inputs", "outputs"), [(256, 1), (1, 256)])
def test_too_many_tensors_are_refused(inputs: int, outputs: int) -> None:
    """They are counted in a byte: the firmware would describe 0 of 256."""
    b = ModelBuilder()
    for i in range(inputs):
        b.input(f"x{i}", (1, 4), "int8", scale=0.5, zero_point=1)
    b.tensor("y", (1, 4 * inputs), "int8", scale=0.5, zero_point=1)
    b.op("CONCATENATION", tuple(f"x{i}" for i in range(inputs)), ("y",), axis=1)
    for i in range(outputs):
        b.output(f"y{i}", (1, 4 * inputs), "int8", scale=0.5, zero_point=1)
        b.op("RELU", ("y",), (f"y{i}",))
    library = hilc.compile(b.build(), cpu="cortex-m4", name="wide")
    what = "inputs" if inputs > 255 else "outputs"
    with pytest.raises(InputError, match=f"'wide' has 256 {what}, and the protocol numbers 255"):
        build([library], load_board("mps2-an386"))


def test_too_many_models_are_refused() -> None:
    library = hilc.compile(convolutions(), cpu="cortex-m4", name="one")
    (module,) = library.modules
    many = [dataclasses.replace(module, name=f"m{i}", symbol=f"tvmgen_m{i}") for i in range(256)]
    with pytest.raises(InputError, match="an image of 256 models exceeds the 255"):
        check_counts(many)
    check_counts(many[:255])


def test_code_for_another_core_from_python() -> None:
    library = hilc.compile(convolutions(), cpu="cortex-m4", name="net")
    refused = pytest.raises(InputError, match="compiled for cortex-m4, but microbit has a")
    with refused as caught, hil.open("microbit", library):
        pass
    assert "compile the model file again" in caught.value.hint


def test_a_full_disk_is_told_where_cmake_does_not(tmp_path: Path) -> None:
    """It names what it cannot write, and not why."""
    told = "CMake Error: Unable to open check cache file for write. cmake.check_cache\n"
    assert build_module._why_no_room(tmp_path, told) is None
    with file_size_limit(1000):
        assert build_module._why_no_room(tmp_path, told) == "File too large"
    assert not [*(tmp_path / "build").iterdir()]


@cases(
    "error",
    ["CMake Error: Unable to open check cache file for write.", "ninja: error: no file"],
    first=1,
)
@cases("failures", [1, 2], first=1)
def test_what_cmake_itself_fails_at_is_built_once_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: str,
    failures: int,
) -> None:
    """It goes on after a write that failed, and stumbles over it when there is room again."""
    cmake, environment = toolchain.build_programs()
    stand_in = tmp_path / "cmake"
    stand_in.write_text(
        "#!/bin/sh\n"
        f"count={tmp_path}/count\n"
        "echo >> $count\n"
        f'if [ "$(wc -l < $count)" -le {failures} ]; then echo "{error}"; exit 1; fi\n'
        f'exec {cmake} "$@"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setattr(build_module, "build_programs", lambda: (str(stand_in), environment))
    library = tiny_library(ADD_ONE)
    folder = tmp_path / "project"
    if failures == 1:
        built = build([library], load_board("native"), folder)
        assert built.elf.is_file()
        assert "CMake failed for native, and did not the second time" in caplog.text
        assert (folder / "build.log").read_text().startswith(error)
    else:
        with pytest.raises(BuildError, match=re.escape(error)):
            build([library], load_board("native"), folder)
        assert (tmp_path / "count").read_text() == "\n\n"
        assert not caplog.records
