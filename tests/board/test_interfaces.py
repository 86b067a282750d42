"""Every way to call a model, on a board: many models of one image, each compiled differently."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from campaigns import cases, sampled
from descriptions import description_text
from models import model_path
from models import samples as model_samples
from small_models import SMALL_MODELS
from tiny_library import tiny_library
from tvm_archive import STYLES, Style, expected, tvm_tar

import hil
import hilc
from hil.board import Board, load_board
from hil.build import build
from hil.cli import main
from hil.device import Device
from hil.errors import DeviceError, InputError
from hil.firmware.fit import FitError
from hil.firmware.linkmap import read_map
from hil.firmware.placement import GUARD_BYTES
from hil.firmware.project import region_section
from hil.firmware.sources import ModelOptions, load_libraries
from hil.verify.samples import random_sample
from hilc.artifact.library import ModelLibrary, Module
from hilc.frontends import load_model
from hilc.interpreter import run_all
from hilc.ir import Array
from hilc.memory.plan import PoolSpec

BOARD = "mps2-an386"
APIS = (("packed", "packed"), ("unpacked", "packed"), ("unpacked", "c"))
POOLS = ("internal", "external", "calls")

#: All combinations in C, a third of them as objects; constants of every second one are external.
CELLS = tuple(
    {
        "api": api,
        "interface": interface,
        "pools": pools,
        "codegen": codegen,
        "constants": ("internal", "external")[(row + column) % 2],
    }
    for codegen in ("c", "llvm")
    for row, (api, interface) in enumerate(APIS)
    for column, pools in enumerate(POOLS)
    if codegen == "c" or row == column
)


def compiled(index: int, options: Mapping[str, Any], model: str = "convolutions") -> ModelLibrary:
    return hilc.compile(SMALL_MODELS[model](), cpu="cortex-m4", name=f"cell{index}", **options)


@cache
def cell_libraries() -> tuple[ModelLibrary, ...]:
    return tuple(compiled(index, options) for index, options in enumerate(CELLS))


@pytest.fixture(scope="module")
def cells() -> Iterator[Device]:
    with hil.open(BOARD, *cell_libraries()) as device:
        yield device


def reference(module: Module, seed: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """A random input, and every tensor that follows from it."""
    sample = dict(random_sample(module.inputs, seed, 0))
    return sample, run_all(load_model(SMALL_MODELS["convolutions"]()), sample)


def write(device: Device, name: str, sample: dict[str, Array]) -> None:
    for tensor, values in sample.items():
        device[name].set_input(tensor, values)


@cases("index", range(len(CELLS)), ids=[" ".join(c.values()) for c in CELLS], first=3)
def test_every_cell_computes_the_reference(cells: Device, index: int) -> None:
    """The whole model twice, then layer by layer, then the whole again."""
    model = cells[f"cell{index}"]
    for seed in range(2):
        sample, tensors = reference(model.module, seed)
        write(cells, model.name, sample)
        model.run()
        np.testing.assert_array_equal(model.get_output("y"), tensors["y"])
    compared = 0
    write(cells, model.name, sample)
    for layer, arrays in model.layer_outputs():
        for info, array in zip(layer.outputs, arrays, strict=True):
            if info.name in tensors:  # fused away otherwise
                held = info.held(tensors[info.name])
                np.testing.assert_array_equal(array, held, err_msg=info.name)
                compared += 1
    assert compared >= 3
    sample, tensors = reference(model.module, 2)
    write(cells, model.name, sample)
    model.run()
    np.testing.assert_array_equal(model.get_output(0), tensors["y"])


def test_packed_functions_are_listed(cells: Device) -> None:
    modules = [library.modules[0] for library in cell_libraries()]
    assert cells.functions() == tuple(name for module in modules for name in module.functions)
    # Those of the packed operators, too, and none of a model that has no packed function.
    assert "tvmgen_cell0_fused_conv_2d_0" in cells.functions()
    assert not any(
        module.functions for module in modules if (module.api, module.interface) == APIS[2]
    )


@pytest.mark.parametrize("index", range(6))
def test_entry_is_called_by_name(cells: Device, index: int) -> None:
    """Of packed and unpacked operators, with pools of all three kinds."""
    model = cells[f"cell{index}"]
    sample, tensors = reference(model.module, 3)
    write(cells, model.name, sample)
    arguments = (model.input_ref("x"), model.output_ref("y"), *model.pool_refs())
    assert len(model.pool_refs()) == (
        (model.module.pools == "external") + (model.module.constants == "external")
    )
    assert cells.call(f"tvmgen_cell{index}_run", *arguments) is None
    np.testing.assert_array_equal(model.get_output("y"), tensors["y"])
    with pytest.raises(DeviceError, match=f"'tvmgen_cell{index}_run' returned"):
        cells.call(f"tvmgen_cell{index}_run", *arguments[:-1])
    with pytest.raises(DeviceError, match=f"'tvmgen_cell{index}_run' returned"):
        cells.call(f"tvmgen_cell{index}_run", *arguments, arguments[0])


def test_operators_are_called_by_name(cells: Device) -> None:
    """A whole inference, one packed function after the other."""
    for name in ("cell0", "cell1"):
        model = cells[name]
        sample, tensors = reference(model.module, 4)
        write(cells, name, sample)
        for number, layer in enumerate(model.layers):
            assert cells.call(layer.function, *model.layer_refs(number)) is None
        np.testing.assert_array_equal(model.get_output("y"), tensors["y"])


def test_metadata_come_from_the_board(cells: Device) -> None:
    for index, options in enumerate(CELLS):
        model = cells[f"cell{index}"]
        if options["interface"] == "c":
            with pytest.raises(DeviceError, match="the model has no TVM metadata"):
                model.metadata()
            continue
        if options["codegen"] == "llvm":
            continue  # from the same source
        metadata = model.metadata()
        assert (metadata.version, metadata.mod_name) == (1, f"tvmgen_cell{index}")
        assert [(t.name, t.shape, t.dtype) for t in metadata.inputs] == [
            ("x", (1, 8, 8, 3), "int8")
        ]
        assert [(t.name, t.shape, t.dtype) for t in metadata.outputs] == [
            ("output0", (1, 5), "int8")
        ]
        pools = model.module.workspace_pools if options["pools"] == "external" else ()
        assert [(p.name, p.shape, p.dtype) for p in metadata.workspace_pools] == [
            (pool.name, (pool.nbytes,), "uint8") for pool in pools
        ]
        offsets = [constant.byte_offset for constant in metadata.constant_pools]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] < model.module.constants_bytes


def test_figures_agree_with_the_link_map(cells: Device) -> None:
    """What the compiler says of workspaces and constants is what the linker placed, to the byte."""
    assert cells.firmware is not None
    folder = cells.firmware.folder
    link = read_map((folder / "build" / "firmware.map").read_text())

    def placed(section: str, *files: str) -> int:
        pieces = [p for p in link.pieces if p.section == section]
        return sum(p.size for p in pieces if any(file in p.file for file in files))

    for library in cell_libraries():
        (module,) = library.modules
        glue, code = f"generated/model_{module.name}.c", f"/{module.name}_lib"
        assert placed(".rodata.tvm", glue, code) == module.constants_bytes, module.name
        buffers = sum(-(-tensor.nbytes // 16) * 16 for tensor in (*module.inputs, *module.outputs))
        own = placed(".bss.noinit.tvm", code)
        assert own == (module.workspace_bytes if module.pools == "internal" else 0), module.name
        given = placed(".bss.noinit.tvm", glue)
        assert given == buffers + (module.workspace_bytes if module.pools == "external" else 0)
    arena = max(library.modules[0].workspace_bytes for library in cell_libraries())
    assert placed(".bss.noinit.tvm", "generated/models.c") == arena


def test_json_of_compile_agrees_with_the_link_map(tmp_path: Path, capsys: Any) -> None:
    archive = tmp_path / "kws.tar"
    words = ["compile", str(model_path("kws")), "--name", "kws", "--board", BOARD, "--json"]
    assert main([*words, "-o", str(archive)]) == 0
    figures = answers.entry(capsys.readouterr().out)
    firmware = build([ModelLibrary.load(archive)], load_board(BOARD))
    link = read_map((firmware.folder / "build" / "firmware.map").read_text())
    sections = {
        (piece.section, "kws_lib" in piece.file): piece.size
        for piece in link.pieces
        if "model_kws" in piece.file and piece.section.startswith((".bss", ".rodata.tvm"))
    }
    listing = subprocess.run(
        ["arm-none-eabi-nm", "-S", str(firmware.elf)], check=True, capture_output=True, text=True
    ).stdout
    buffers = re.findall(r"^\w+ (\w+) . (?:in|out)put_\d+$", listing, re.MULTILINE)
    assert sections[".bss.noinit.tvm", True] == figures["workspace_bytes"]
    assert sections[".rodata.tvm", True] == figures["constants_bytes"]
    assert sum(int(size, 16) for size in buffers) == figures["io_bytes"]
    assert firmware.sizes.models["kws"].workspace_bytes >= figures["workspace_bytes"]


# -- memory --------------------------------------------------------------------------------------


def test_failing_allocation_leaves_nothing_behind() -> None:
    """An arena that is too small for one model, and just right for the next."""
    library = hilc.compile(
        SMALL_MODELS["convolutions"](), cpu="cortex-m4", name="large", pools="calls"
    )
    packed = compiled(0, {"api": "packed", "interface": "packed", "pools": "calls"}, "moves")
    (module,), (small,) = library.modules, packed.modules
    # The activations fit, the scratch of an operator does not.
    block = module.workspace_pools[0].nbytes
    assert block < module.workspace_bytes
    tight = dataclasses.replace(module, workspace_bytes=max(block, small.workspace_bytes))
    assert tight.workspace_bytes < module.workspace_bytes
    with hil.open(BOARD, ModelLibrary((tight,), library.files), packed) as device:
        graph = load_model(SMALL_MODELS["moves"]())
        for _ in range(2):
            with pytest.raises(DeviceError, match="the model returned -1"):
                device["large"].run()
            sample = dict(random_sample(small.inputs, 0, 0))
            write(device, small.name, sample)
            device[small.name].run()
            wanted = run_all(graph, sample)
            for output in small.outputs:
                np.testing.assert_array_equal(
                    device[small.name].get_output(output.name), wanted[output.name]
                )


def test_failing_allocation_in_tvm_code(tmp_path: Path) -> None:
    """It returns without freeing what it has; the next model needs all of the arena."""
    styles = [style for style in STYLES if style.version == 7 and style.pools == "calls"]
    ours = compiled(0, {"api": "packed", "interface": "packed", "pools": "calls"}, "floats")
    (module,) = ours.modules
    libraries, names = [ours], []
    for index, style in enumerate(styles):
        name = f"net{index}"
        library = ModelLibrary.load(tvm_tar(tmp_path / f"{name}.tar", style, [name]))
        (other,) = library.modules
        assert other.workspace_bytes < module.workspace_bytes
        # One more block than the arena holds, in TVM's own words.
        files = {
            path: re.sub(
                rb"(TVMBackendAllocWorkspace\(1, 0, \(uint64_t\))64\b", rb"\g<1>9999", data
            )
            for path, data in library.files.items()
        }
        assert files != library.files
        libraries.append(ModelLibrary(library.modules, files))
        names.append(name)
    graph = load_model(SMALL_MODELS["floats"]())
    sample = dict(random_sample(module.inputs, 0, 0))
    with hil.open(BOARD, *libraries) as device:
        for name in names:
            with pytest.raises(DeviceError, match="the model returned -1"):
                device[name].run()
            write(device, module.name, sample)
            device[module.name].run()
            np.testing.assert_allclose(
                device[module.name].get_output("y"), run_all(graph, sample)["y"], 1e-5
            )


def test_pools_in_several_regions() -> None:
    """Each in the region that it is for; the rest where there is room."""
    board = load_board("mps3-an547")
    memory = (
        PoolSpec("fast", limit_bytes=208, region="dtcm"),
        PoolSpec("large", region="sram"),
    )
    libraries = [
        hilc.compile(
            SMALL_MODELS["convolutions"](),
            cpu=board.cpu.name,
            name=f"{interface}_{pools}",
            interface=interface,
            pools=pools,
            memory=memory,
        )
        for interface, pools in product(("c", "packed"), ("internal", "external"))
    ]
    graph = load_model(SMALL_MODELS["convolutions"]())
    with hil.open(board, *libraries) as device:
        assert device.firmware is not None
        for library in libraries:
            (module,) = library.modules
            assert [pool.region for pool in module.workspace_pools] == ["dtcm", "sram"]
            assert all(pool.nbytes > 0 for pool in module.workspace_pools)
            sample = dict(random_sample(module.inputs, 0, 0))
            for _ in range(2):
                write(device, module.name, sample)
                device[module.name].run()
                wanted = run_all(graph, sample)["y"]
                np.testing.assert_array_equal(device[module.name].get_output("y"), wanted)
            write(device, module.name, sample)
            assert [arrays for _, arrays in device[module.name].layer_outputs()]
            np.testing.assert_array_equal(device[module.name].get_output("y"), wanted)
        folder = device.firmware.folder
        used = {use.name: use.used for use in device.firmware.sizes.regions}
    link = read_map((folder / "build" / "firmware.map").read_text())
    by_region = {
        region: 2 * GUARD_BYTES
        + sum(
            pool.nbytes
            for library in libraries
            for pool in library.modules[0].workspace_pools
            if pool.region == region
        )
        for region in ("dtcm", "sram")
    }
    assert {r: link.sections[region_section(r)] for r in by_region} == by_region
    assert used["sram"] == by_region["sram"]


def test_pool_for_a_region_that_the_board_lacks() -> None:
    library = hilc.compile(
        SMALL_MODELS["convolutions"](),
        cpu="cortex-m4",
        memory=(PoolSpec("fast", region="dtcm"),),
        name="net",
    )
    with pytest.raises(InputError, match="'fast' of 'net' is for the memory region 'dtcm'") as e:
        build([library], load_board(BOARD))
    assert "ram, psram" in e.value.hint


def small_board(path: Path, *rooms: int) -> Board:
    """The board with so many bytes for models, guards aside, in its two RAM regions."""
    base = load_board(BOARD)
    own = base.base.link_ram_bytes(base.frame_max, base.rx_max)
    own += base.stack_bytes + base.handler_stack_bytes
    rooms = (rooms[0] + 2 * GUARD_BYTES, rooms[1] + 2 * GUARD_BYTES)
    text = description_text(BOARD)
    for name, size, room in (("ram", "4M", own + rooms[0]), ("psram", "16M", rooms[1])):
        before, found, after = text.partition(f'name = "{name}"')
        assert found
        text = before + found + after.replace(f'"{size}"', str(room), 1)
    (path / "small.toml").write_text(text)
    return load_board(path / "small.toml")


@pytest.mark.full  # It changes rarely, and takes long.
def test_models_spread_over_regions(tmp_path: Path) -> None:
    """As the board's description says, without the user's doing."""
    graph = load_model(SMALL_MODELS["convolutions"]())
    for name in ("one", "two"):
        (tmp_path / f"{name}.tflite").write_bytes(SMALL_MODELS["convolutions"]())
    words = [f"{name}={tmp_path / name}.tflite" for name in ("one", "two")]
    # One of the two pools fits the first region, the other has to be split.
    usual = load_board(BOARD)
    alone = load_libraries(words[:1], ModelOptions(usual.cpu.name, board=usual))
    nbytes = alone[0].modules[0].workspace_bytes
    board = small_board(tmp_path, nbytes + 112 + 128, nbytes - 48)
    options = ModelOptions(board.cpu.name, board=board)
    for subset, wanted in ((words[:1], [None]), (words, ["ram", "psram"])):
        libraries = load_libraries(subset, options)
        modules = [library.modules[0] for library in libraries]
        regions = [pool.region for pool in modules[-1].workspace_pools]
        assert regions == wanted
        with hil.open(board, *libraries) as device:
            for module in modules:
                sample = dict(random_sample(module.inputs, 0, 0))
                write(device, module.name, sample)
                device[module.name].run()
                np.testing.assert_array_equal(
                    device[module.name].get_output("y"), run_all(graph, sample)["y"]
                )
    # On the board as it is, one region has room for all.
    options = ModelOptions(usual.cpu.name, board=usual)
    assert [
        [pool.region for pool in library.modules[0].workspace_pools]
        for library in load_libraries(words, options)
    ] == [[None], [None]]


def test_a_model_that_fits_no_region_keeps_its_figures(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(SMALL_MODELS["convolutions"]())
    board = small_board(tmp_path, 64, 64)
    options = ModelOptions(board.cpu.name, board=board)
    (library,) = load_libraries([str(tmp_path / "net.tflite")], options)
    (pool,) = library.modules[0].workspace_pools
    with pytest.raises(FitError, match=f"{pool.nbytes} for the models"):
        build([library], board)


@pytest.mark.parametrize(
    ("workspace", "turns"),
    sampled([("own", 20), ("shared", 20), ("shared", 100)], keep=[("shared", 20)]),
)
def test_two_models_in_turn(workspace: str, turns: int) -> None:
    """Each step of both before the next step of either, and never a byte of the other's."""
    names = ("kws", "ad")
    libraries = [
        hilc.compile(
            model_path(name),
            cpu="cortex-m4",
            name=name,
            pools="external",
            io_in_pool=workspace == "own",
        )
        for name in names
    ]
    inputs = {name: model_samples(name, 4) for name in names}
    wanted = {}
    for name in names:
        graph = load_model(model_path(name))
        wanted[name] = [
            run_all(graph, {graph.inputs[0]: sample})[graph.outputs[0]] for sample in inputs[name]
        ]
    with hil.open(BOARD, *libraries, workspace=workspace) as device:
        assert device.firmware is not None
        for turn in range(turns):
            for name in names:
                device[name].set_input(0, inputs[name][turn % 4])
            for name in names:
                device[name].run()
            for name in names:
                got = device[name].get_output(0)
                assert got.tobytes() == wanted[name][turn % 4].tobytes(), (name, turn)
        sizes = [library.modules[0].workspace_bytes for library in libraries]
        link = read_map((device.firmware.folder / "build" / "firmware.map").read_text())
        io_bytes = sum(library.modules[0].io_bytes for library in libraries)
        total = max(sizes) + io_bytes if workspace == "shared" else sum(sizes)
        # Each buffer is aligned to 16.
        assert total <= link.sections[".workspace"] < total + 4 * 16


def test_models_that_cannot_share() -> None:
    board = load_board(BOARD)
    with pytest.raises(InputError, match="the inputs and outputs of 'tiny' lie in its workspace"):
        build([tiny_library("", io_in_pool=True)], board, workspace="shared")
    with pytest.raises(InputError, match="the workspace of 'tiny' is part of its code"):
        build([tiny_library("", pools="internal", io_in_pool=False)], board, workspace="shared")
    with pytest.raises(InputError, match="workspace=both is not available"):
        build([], board, workspace="both")


# -- archives that TVM wrote ---------------------------------------------------------------------

_ARM_OBJECTS = ("arm-none-eabi-gcc", "-std=c11", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard",
                "-mfpu=fpv4-sp-d16")  # fmt: skip
OBJECTS = tuple(
    dataclasses.replace(
        style, compiler=_ARM_OBJECTS, target="llvm -keys=arm_cpu,cpu -mcpu=cortex-m4"
    )
    for style in STYLES
    if style.system_lib and style.version == 7
)


DEVICE_CONTEXT = """\
static int32_t npu;
void *hil_device_context(const char *name);
void *hil_device_context(const char *name) { return name[0] == 'e' ? &npu : 0; }
"""


@pytest.mark.full  # It changes rarely, and takes long.
def test_archives_that_tvm_wrote(tmp_path: Path) -> None:
    """One of every kind in one image, two models of one archive, beside a model of ours."""
    libraries: list[ModelLibrary] = []
    styles: dict[str, Style] = {}
    for index, style in enumerate((*STYLES, *OBJECTS)):
        names = [f"net{index}", f"twin{index}"][: 1 + (style.version == 7 and index % 4 == 3)]
        libraries.append(ModelLibrary.load(tvm_tar(tmp_path / f"{index}.tar", style, names)))
        styles.update(dict.fromkeys(names, style))
    ours = compiled(0, {"api": "packed", "interface": "packed"})
    # The application says what the device is that one of them runs on.
    application = tiny_library("", name="application", globals_=DEVICE_CONTEXT)
    with hil.open(BOARD, *libraries, ours, application) as device:
        assert len(device.models) == len(styles) + 2
        registered = set(device.functions())
        for name in styles:
            model = device[name]
            assert set(model.module.functions) <= registered
            for seed in range(2):
                sample: dict[str, Any] = dict(random_sample(model.inputs, seed, 0))
                write(device, name, sample)
                model.run()
                renamed = {k.replace("at_in", "at-in"): v for k, v in sample.items()}
                for output, values in expected(renamed).items():
                    np.testing.assert_array_equal(model.get_output(output), values, err_msg=name)
        sample, tensors = reference(ours.modules[0], 0)
        write(device, "cell0", sample)
        device["cell0"].run()
        np.testing.assert_array_equal(device["cell0"].get_output("y"), tensors["y"])


@pytest.mark.full
def test_a_device_without_context(tmp_path: Path) -> None:
    """The external code decides what that means; here it is an error."""
    style = next(style for style in STYLES if style.devices)
    library = ModelLibrary.load(tvm_tar(tmp_path / "net.tar", style))
    with hil.open(BOARD, library) as device, pytest.raises(DeviceError, match="returned -1"):
        device["default"].run()
