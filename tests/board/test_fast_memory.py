"""Constants that lie in RAM which is read faster than flash, or in flash behind the first region.

In the image, in the figures, on the board. QEMU has no wait states, so what shows there is that
nothing else changes.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from campaigns import sampled
from descriptions import description_text
from elftools.elf.elffile import ELFFile
from models import model_path
from small_models import convolutions, moves
from tiny_library import tiny_library
from tvm_archive import Style, expected, tvm_tar

import hil
import hilc
from hil.bench import bench
from hil.board import Board, load_board
from hil.build import Firmware, Sizes, build, create_project
from hil.cli import main
from hil.cli.render import build_text
from hil.firmware.fit import FitError, estimate, layouts
from hil.verify.samples import random_sample
from hilc.artifact.library import ModelLibrary
from hilc.frontends import load_model
from hilc.interpreter import run_all

ROOT = Path(__file__).resolve().parents[2]
BOARD = "mps2-an386"
#: For :func:`tiny_library`: a table of 4 KB, and a layer that adds its first words.
TABLE = (
    '__attribute__((section(".rodata.tvm"), aligned(16)))\n'
    "static const volatile int32_t table[1024] = {10, 20, 30, 40, [1023] = 7};\n"
)
ADD_TABLE = "for (int i = 0; i < 4; ++i) { y[i] = x[i] + table[i] + table[1023]; }"


def fast_board(folder: Path, **cycles: int) -> Board:
    """The description of BOARD in ``folder`` with what a read of each region costs."""
    text = description_text(BOARD)
    for name, count in cycles.items():
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\nread_cycles = {count}\n')
    path = folder / "fast.toml"
    path.write_text(text.replace("default = true\n", ""), encoding="utf-8")
    return load_board(path)


def resized(board: Board, **sizes: int) -> Board:
    """``board`` with regions of other sizes."""
    memory = [dataclasses.replace(r, size=sizes.get(r.name, r.size)) for r in board.memory]
    return dataclasses.replace(board, memory=tuple(memory))


def table_library(name: str, macs: int = 0, stated_bytes: int = 4096) -> ModelLibrary:
    """A model with TABLE, whose description states its size and its multiplications."""
    library = tiny_library(ADD_TABLE, name=name, constants_bytes=stated_bytes, globals_=TABLE)
    (module,) = library.modules
    layer = dataclasses.replace(module.layers[0], macs=macs)
    return dataclasses.replace(library, modules=(dataclasses.replace(module, layers=(layer,)),))


def run_table(device: hil.Device, name: str) -> list[int]:
    device[name].set_input("x", np.arange(4, dtype=np.int32))
    device[name].run()
    return [int(value) for value in device[name].get_output("y")]


def compiled(name: str = "net", **options: Any) -> ModelLibrary:
    cpu = load_board(BOARD).cpu.name
    options = {"pools": "external", "io_in_pool": True, **options}
    return hilc.compile(convolutions(), cpu=cpu, name=name, **options)


def places(firmware: Firmware, section: str) -> tuple[int, int, int] | None:
    """Address at run time, address where it is loaded, and size of an output section."""
    with firmware.elf.open("rb") as file:
        image = ELFFile(file)
        found = image.get_section_by_name(section)
        if found is None:
            return None
        (segment,) = [s for s in image.iter_segments("PT_LOAD") if s.section_in_segment(found)]
        offset = found["sh_addr"] - segment["p_vaddr"]
        return found["sh_addr"], segment["p_paddr"] + offset, found["sh_size"]


def check_sums(sizes: Sizes) -> None:
    """Every byte of the image is counted once in flash, and once in RAM where it is copied."""
    stacks = sizes.stack_bytes + sizes.handler_stack_bytes
    assert sum(use.size for use in sizes.sections if use.in_flash) == sizes.flash_bytes
    assert sum(use.size for use in sizes.sections if use.in_ram) == sizes.ram_bytes + stacks
    flash, *rams = sizes.regions
    assert flash.used == sizes.flash_bytes
    assert sum(use.used for use in rams) == sizes.ram_bytes + stacks


@pytest.mark.parametrize(
    ("region", "option"),
    sampled(
        [
            (region, option)
            for region in ("ram", "psram")
            for option in ("codegen=c", "codegen=llvm", "constants=binary")
        ],
        keep=[("ram", "codegen=c"), ("psram", "codegen=llvm"), ("ram", "constants=binary")],
    ),
)
def test_constants_lie_where_they_are_read_fastest(
    region: str, option: str, tmp_path: Path
) -> None:
    """Beside stacks and data, or in a region of their own."""
    name, _, value = option.partition("=")
    library = compiled(**{name: value})
    (module,) = library.modules
    board = fast_board(tmp_path, flash=6, **{region: 1})
    (where,) = [r for r in board.memory if r.name == region]
    flash = board.regions("flash")[0]
    counts = {}
    for each in (board, load_board(BOARD)):
        with hil.open(each, library) as device:
            firmware = device.firmware
            assert firmware is not None
            counts[each.name] = bench(device, module)
            for seed in range(3):
                sample = random_sample(module.inputs, seed, 0)
                answers = run_all(load_model(convolutions()), sample)
                for name, array in sample.items():
                    device["net"].set_input(name, array)
                device["net"].run()
                for tensor in module.outputs:
                    np.testing.assert_array_equal(
                        device["net"].get_output(tensor.name), answers[tensor.name]
                    )
        check_sums(firmware.sizes)
        found = places(firmware, f".constants.{region}")
        if each is board:
            assert found is not None
            address, load, size = found
            assert where.origin <= address < address + size <= where.end
            assert flash.origin < load < load + size <= flash.end
            assert size == -(-module.constants_bytes // 16) * 16
            assert firmware.sizes.models["net"].constants_region == region
        else:
            assert found is None
            assert firmware.sizes.models["net"].constants_region is None
    fast, slow = counts[board.name], counts[BOARD]
    assert fast.per_inference == slow.per_inference
    assert fast.model_flash_bytes == slow.model_flash_bytes
    assert 0 <= fast.firmware_flash_bytes - slow.firmware_flash_bytes <= 32
    assert 0 <= fast.ram_bytes - slow.ram_bytes - module.constants_bytes <= 32


def test_what_reads_its_constants_most_comes_first(tmp_path: Path) -> None:
    """Room for one of two: the other one stays in flash, and both answer."""
    lazy, busy = table_library("lazy", macs=4096), table_library("busy", macs=8192)
    board = resized(fast_board(tmp_path, flash=6, psram=2), psram=6 * 1024)
    modules = (*lazy.modules, *busy.modules)
    chosen = [
        {key: r.name for key, r in each.constants.items()} for each in layouts(modules, board)
    ]
    assert chosen == [{"busy": "psram"}, {}] * 2, "with pools in ram, then in psram"
    with hil.open(board, lazy, busy) as device:
        assert device.firmware is not None
        models = device.firmware.sizes.models
        assert (models["lazy"].constants_region, models["busy"].constants_region) == (None, "psram")
        assert min(model.flash_bytes for model in models.values()) > 4096
        check_sums(device.firmware.sizes)
        for name in ("lazy", "busy"):
            assert run_table(device, name) == [17, 28, 39, 50]


def test_the_cheapest_region_is_taken_first(tmp_path: Path) -> None:
    modules = [m for name in "abc" for m in table_library(name).modules]
    board = resized(fast_board(tmp_path, flash=6, ram=3, psram=2), psram=10 * 1024)
    (first, *_) = layouts(modules, board)
    assert [first.constants[name].name for name in "abc"] == ["psram", "psram", "ram"]


@pytest.mark.parametrize(
    "cycles",
    [{}, {"flash": 6}, {"psram": 1}, {"flash": 2, "psram": 2}, {"flash": 1, "psram": 6, "ram": 2}],
    ids=str,
)
def test_without_a_faster_region_nothing_is_copied(cycles: dict[str, int], tmp_path: Path) -> None:
    board = fast_board(tmp_path, **cycles)
    found = layouts(table_library("net").modules, board)
    assert [each.constants for each in found] == [{}] * len(found)
    assert found[0].workspace is board.regions("ram")[0]


def test_pools_and_buffers_come_before_constants(tmp_path: Path) -> None:
    """What the models work in takes the room first; none is left, so flash is read as before."""
    library = tiny_library(
        ADD_TABLE, constants_bytes=4096, globals_=TABLE, workspace_bytes=20 * 1024
    )
    board = fast_board(tmp_path, flash=6, ram=1)
    stacks = board.stack_bytes + board.handler_stack_bytes
    firmware = board.base.link_ram_bytes(board.frame_max, board.rx_max) + stacks
    tight = resized(board, ram=(firmware + 20 * 1024 + 4096) // 8 * 8)
    assert not layouts(library.modules, tight)[0].constants
    sizes = build([library], tight).sizes
    assert sizes.models["tiny"].constants_region is None
    assert all(demand.fits for demand in estimate(library.modules, tight))
    check_sums(sizes)


def test_flash_is_read_where_the_linker_finds_no_room(tmp_path: Path) -> None:
    """Constants that are more than the description of the model says."""
    library = table_library("net", stated_bytes=512)
    board = resized(fast_board(tmp_path, flash=6, psram=1), psram=2048)
    assert layouts(library.modules, board)[0].constants
    with hil.open(board, library) as device:
        assert device.firmware is not None
        assert device.firmware.sizes.models["net"].constants_region is None
        assert run_table(device, "net") == [17, 28, 39, 50]


def test_a_refusal_does_not_count_copies(tmp_path: Path) -> None:
    library = table_library("net")
    board = resized(fast_board(tmp_path, flash=6, psram=1), flash=8 * 1024)
    with pytest.raises(FitError) as error:
        build([library], board)
    ram = next(demand for demand in error.value.demands if demand.resource == "RAM")
    same = next(d for d in estimate(library.modules, load_board(BOARD)) if d.resource == "RAM")
    assert ram.needed == same.needed


def test_constants_of_the_caller_stay_where_they_are(tmp_path: Path) -> None:
    library = compiled(constants="external")
    assert library.modules[0].constants == "external"
    board = fast_board(tmp_path, flash=6, psram=1)
    assert [each.constants for each in layouts(library.modules, board)] == [{}, {}]


@pytest.mark.full  # It changes rarely, and takes long.
def test_a_library_with_two_models_is_told_apart(tmp_path: Path) -> None:
    """Their files lie in one folder."""
    cpu = load_board(BOARD).cpu.name
    options: dict[str, Any] = {"pools": "external", "io_in_pool": True}
    both = hilc.merge([compiled("first"), hilc.compile(moves(), cpu=cpu, name="second", **options)])
    sizes = build([both], fast_board(tmp_path, flash=6, psram=1)).sizes
    for module in both.modules:
        region = "psram" if module.constants_bytes else None
        assert sizes.models[module.name].constants_region == region
    check_sums(sizes)


@pytest.mark.parametrize("style", [Style(), Style(5, pools="calls")], ids=str)
def test_archive_of_tvm(style: Style, tmp_path: Path) -> None:
    library = ModelLibrary.load(tvm_tar(tmp_path / "net.tar", style))
    (module,) = library.modules
    with hil.open(fast_board(tmp_path, flash=6, psram=1), library) as device:
        assert device.firmware is not None
        assert device.firmware.sizes.models[module.name].constants_region == "psram"
        found = places(device.firmware, ".constants.psram")
        assert found is not None
        assert found[2] >= module.constants_bytes > 0
        sample = random_sample(module.inputs, 0, 0)
        for name, array in sample.items():
            device[module.name].set_input(name, array)
        device[module.name].run()
        for name, answer in expected(sample).items():
            np.testing.assert_array_equal(device[module.name].get_output(name), answer)


def test_keyword_spotting_answers_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every layer of a whole model is as in the reference, and costs as many instructions."""
    fast_board(tmp_path, flash=6, psram=1)
    model, board = f"kws={model_path('kws')}", str(tmp_path / "fast.toml")
    assert main(["verify", model, "--board", board, "--per-layer", "--json"]) == 0
    assert answers.entry(capsys.readouterr().out)["match"]
    counts = []
    for name in (board, BOARD):
        assert main(["bench", model, "--board", name, "--json"]) == 0
        counts.append(answers.entry(capsys.readouterr().out)["per_inference"])
    assert counts[0] == counts[1]


def test_command_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast_board(tmp_path, flash=6, psram=1)
    archive = compiled().save(tmp_path / "net.tar")
    words = ["build", str(archive), "--board", str(tmp_path / "fast.toml")]
    assert main([*words, "--json"]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["models"][0]["constants_region"] == "psram"
    used = {use["name"]: use["used_bytes"] for use in report["regions"]}
    assert used["psram"] == -(-compiled().modules[0].constants_bytes // 16) * 16
    assert main(words) == 0
    assert "copied to faster memory at the start: net to psram" in capsys.readouterr().out
    assert main(["boards", str(tmp_path / "fast.toml")]) == 0
    assert "cycles a read" in capsys.readouterr().out
    assert main(["boards", str(tmp_path / "fast.toml"), "--json"]) == 0
    memory = answers.entry(capsys.readouterr().out)["memory"]
    assert [region.get("read_cycles") for region in memory] == [6, None, 1]
    assert main(["boards", BOARD]) == 0
    assert "cycles a read" not in capsys.readouterr().out


def test_project_without_a_build_has_them_too(tmp_path: Path) -> None:
    board = fast_board(tmp_path, flash=6, psram=1)
    create_project([table_library("net")], board, tmp_path / "project")
    script = (tmp_path / "project" / "generated" / "firmware.ld").read_text(encoding="utf-8")
    assert "} > psram AT > CODE" in script


# Flash behind the first region ------------------------------------------------------------------

#: Of a model whose table is far larger than its code.
FAR_BYTES = 200_000
FAR_TABLE = TABLE.replace("table[1024]", f"table[{FAR_BYTES // 4}]")


def far_library(name: str) -> ModelLibrary:
    return tiny_library(ADD_TABLE, name=name, constants_bytes=FAR_BYTES, globals_=FAR_TABLE)


def board_with(flash: int, far: int) -> Board:
    """A Cortex-M4 whose memory outside of the chip is filled by the loader."""
    board = load_board(BOARD)
    code, data, outside = board.memory
    far_flash = dataclasses.replace(outside, name="far", kind="flash", size=far)
    return dataclasses.replace(
        board, memory=(dataclasses.replace(code, size=flash), far_flash, data)
    )


@pytest.mark.parametrize(
    ("flash", "far", "expected"),
    [
        (600_000, 600_000, {"one": None, "two": None}),
        (150_000, 600_000, {"one": "far", "two": "far"}),
    ],
)
def test_constants_lie_where_there_is_room(
    flash: int, far: int, expected: dict[str, str | None]
) -> None:
    board = board_with(flash, far)
    with hil.open(board, *map(far_library, expected)) as device:
        for name in expected:
            assert run_table(device, name) == [17, 28, 39, 50]
        firmware = device.firmware
    assert firmware is not None
    sizes = firmware.sizes
    assert {name: model.constants_region for name, model in sizes.models.items()} == expected
    assert not any(model.constants_are_copied for model in sizes.models.values())
    apart = sum(region == "far" for region in expected.values()) * FAR_BYTES
    used = {region.name: region.used for region in sizes.regions}
    assert (used["far"], used["flash"]) == (apart, sizes.flash_bytes - apart)
    assert sum(use.size for use in sizes.sections if use.in_flash) == sizes.flash_bytes
    origin = board.regions("flash")[1].origin
    assert places(firmware, ".constants.far") == ((origin, origin, apart) if apart else None)
    said = "outside of the first flash region: one in far, two in far"
    assert (said in build_text(firmware)) == bool(apart)


def test_what_no_flash_region_holds_is_refused() -> None:
    with pytest.raises(FitError, match="flash: at least .* bytes needed, 150,000 available"):
        build([far_library("one"), far_library("two")], board_with(150_000, 150_000))


def test_the_example_board_has_room() -> None:
    board = load_board(ROOT / "examples" / "networks" / "mps3-an547-ddr.toml")
    names = ("one", "two", "three")
    with hil.open(board, *map(far_library, names)) as device:
        assert run_table(device, "three") == [17, 28, 39, 50]
        firmware = device.firmware
    assert firmware is not None
    models = firmware.sizes.models
    assert {models[name].constants_region for name in names} == {"ddr"}
