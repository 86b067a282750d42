"""Archives whose code includes headers and calls functions that are elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from tvm_archive import INPUTS, Style, expected, tvm_files, write_tar

import hilc
import hilc.host
from hil.board import load_board
from hil.build import build
from hil.cli import main
from hil.errors import BuildError
from hilc.artifact.library import ModelLibrary
from hilc.errors import InputError
from hilc.host import HostBuildError
from hilc.target import get_cpu

BOARD = "mps2-an386"


def vendor_library(folder: Path, *, offset: int = 0) -> Path:
    """A vendor's library: a folder of headers; C that includes a header of its own, and assembly.

    One of its sources is for something else, and what it calls is nowhere.
    """
    files = {
        "Include/vendor_nn.h": """\
#include <stdint.h>
int32_t vendor_max(int16_t *in, int16_t *out);
""",
        "Source/max/detail.h": f"""\
#include <stdint.h>
#define OFFSET {offset}
int16_t vendor_larger(int a, int b);
""",
        "Source/max/vendor_max.c": """\
#include "vendor_nn.h"
#include "detail.h"
int32_t vendor_max(int16_t *in, int16_t *out) {
    int unused_on_purpose;
    asm volatile("");  /* a word of the dialect that vendors write */
    *out = in[0];
    for (int i = 1; i < 8; i++) {
        *out = vendor_larger(*out, in[i]) + (i == 7 ? OFFSET : 0);
    }
    return 0;
}
""",
        "Source/larger.S": """\
#if defined(__arm__)
    .syntax unified
    .thumb
    .text
    .global vendor_larger
    .type vendor_larger, %function
vendor_larger:
    cmp r0, r1
    it lt
    movlt r0, r1
    bx lr
#endif
""",
        "Source/larger_c.c": """\
#include "max/detail.h"
#ifndef __arm__
int16_t vendor_larger(int a, int b) { return (int16_t)(a > b ? a : b); }
#endif
""",
        "Source/other.c": "int nowhere(void);\nint vendor_other(void) { return nowhere(); }\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def archive_that_calls_it(path: Path, target: str = "c -mcpu=cortex-m4") -> Path:
    """An archive of TVM's, one operator of which is the vendor's."""
    files = dict(tvm_files(Style(target=target)))
    name = "codegen/host/src/default_lib1.c"
    text = files[name].decode()
    text = text.replace("#include <math.h>", "#include <math.h>\n#include <vendor_nn.h>")
    start = text.index("  output1[0] = sum[0];")
    end = text.index("  return 0;", start)
    files[name] = f"{text[:start]}  return vendor_max(sum, output1);\n{text[end:]}".encode()
    return write_tar(path, files)


def samples() -> dict[str, Any]:
    rng = np.random.default_rng(15)
    return {
        name: rng.integers(-100, 100, shape).astype(dtype)
        for name, (shape, dtype) in INPUTS.items()
    }


def on_board(words: list[str], folder: Path) -> dict[str, Any]:
    """What ``hil run`` writes for the samples."""
    inputs = []
    for name, value in samples().items():
        np.save(folder / f"{name}.npy", value)
        inputs += ["--input", f"{name}={folder / name}.npy"]
    out = folder / "out.npz"
    out.unlink(missing_ok=True)
    assert main(["run", *words, *inputs, "-o", str(out)]) == 0
    return dict(np.load(out))


def assert_expected(outputs: Mapping[str, Any], offset: int = 0) -> None:
    wanted = expected(samples())
    wanted["output1"] = wanted["output1"] + np.int16(offset)
    assert {name: value.tolist() for name, value in outputs.items()} == {
        name: value.tolist() for name, value in wanted.items()
    }


@pytest.mark.parametrize("board", [BOARD, "native"])
def test_an_archive_with_a_vendors_library(board: str, tmp_path: Path) -> None:
    archive, vendor = archive_that_calls_it(tmp_path / "net.tar"), vendor_library(tmp_path / "nn")
    words = [str(archive), "--board", board, "--include-dir", str(vendor / "Include")]
    assert_expected(on_board([*words, "--source", str(vendor / "Source")], tmp_path))


def test_every_command_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive, vendor = archive_that_calls_it(tmp_path / "net.tar"), vendor_library(tmp_path / "nn")
    code = ["--include-dir", str(vendor / "Include"), "--source", str(vendor / "Source"), "--json"]
    words = [str(archive), "--board", BOARD, *code]
    assert main(["build", *words]) == 0
    capsys.readouterr()
    assert main(["bench", *words, "--no-check"]) == 0
    assert answers.entry(capsys.readouterr().out)["per_inference"] > 0
    np.savez(tmp_path / "x.npz", **{name: v[None] for name, v in samples().items()})
    outputs: dict[str, Any] = {name: v[None] for name, v in expected(samples()).items()}
    np.savez(tmp_path / "y.npz", **outputs)
    given = ["--inputs", str(tmp_path / "x.npz"), "--expect", str(tmp_path / "y.npz")]
    assert main(["verify", *words, *given]) == 0
    assert answers.entry(capsys.readouterr().out)["match"] is True


def test_a_whole_image_takes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "image.elf").write_bytes(b"\x7fELF")
    words = [str(tmp_path / "image.elf"), "--board", BOARD, "--source", "vendor.c"]
    assert main(["flash", *words]) == 2
    assert "--include-dir and --source do not apply" in capsys.readouterr().err


def test_what_is_missing_is_named_with_the_remedy(tmp_path: Path) -> None:
    """On a board, in this process: first the header, then what nothing defines."""
    library = ModelLibrary.load(archive_that_calls_it(tmp_path / "net.tar"))
    vendor = vendor_library(tmp_path / "nn")
    board = load_board(BOARD)
    with pytest.raises(BuildError, match=r"vendor_nn.h(.|\n)*folder of vendor_nn.h with --include"):
        build([library], board)
    with pytest.raises(HostBuildError, match=r"vendor_nn.h(.|\n)*vendor_nn.h: --include-dir DIR"):
        hilc.host.load(library)
    with_headers = library.with_code([vendor / "Include"])
    with pytest.raises(BuildError, match=r"vendor_max(.|\n)*what defines vendor_max with --source"):
        build([with_headers], board)
    with pytest.raises(HostBuildError, match="'default' has undefined symbols: vendor_max\n"):
        hilc.host.load(with_headers)
    whole = library.with_code([vendor / "Include"], [vendor / "Source"])
    with hilc.host.load(whole) as model:
        for name, value in samples().items():
            model.set_input(name, value)
        model.run()
        assert_expected({info.name: model.get_output(info.name) for info in model.outputs})


def test_the_contents_are_part_of_the_builds_key(tmp_path: Path) -> None:
    library = ModelLibrary.load(archive_that_calls_it(tmp_path / "net.tar"))
    ids = []
    for offset in (0, 3):
        vendor = vendor_library(tmp_path / "a", offset=offset)
        whole = library.with_code([vendor / "Include"], [vendor / "Source"])
        ids.append(build([whole], load_board("native")).build_id)
    assert ids[0] != ids[1], "a header of the vendor's changed"
    # The same code from another folder is the same.
    other = vendor_library(tmp_path / "b", offset=3)
    assert library.with_code([other / "Include"], [other / "Source"]).files == whole.files
    words = [str(tmp_path / "net.tar"), "--board", "native", "--include-dir"]
    words += [str(tmp_path / "a/Include"), "--source", str(tmp_path / "a/Source")]
    assert_expected(on_board(words, tmp_path), offset=3)


def test_single_files_and_objects(tmp_path: Path) -> None:
    vendor = vendor_library(tmp_path / "nn")
    library = ModelLibrary.load(archive_that_calls_it(tmp_path / "net.tar"))
    for cpu in ("cortex-m4", "cortex-m3"):
        command = ["arm-none-eabi-gcc", *get_cpu(cpu).cflags, "-c", "nn/Source/larger.S"]
        subprocess.run([*command, "-o", f"{cpu}.o"], cwd=tmp_path, check=True)
        command = ["arm-none-eabi-gcc", *get_cpu(cpu).cflags, "-x", "c", "-c", "-", "-o", "x.o"]
        subprocess.run(command, cwd=tmp_path, check=True, input=b"int x;")
    # The headers beside a file are taken with it.
    files = [vendor / "Source/max/vendor_max.c", tmp_path / "cortex-m4.o"]
    whole = library.with_code([vendor / "Include"], files)
    build([whole], load_board(BOARD))
    shutil.copy(tmp_path / "x.o", tmp_path / "for_m3.o")
    other = library.with_code([vendor / "Include"], [*files, tmp_path / "for_m3.o"])
    with pytest.raises(InputError, match="default: extra/03_.*/for_m3.o is an object that passes"):
        build([other], load_board(BOARD))


def test_models_share_the_same_code(tmp_path: Path) -> None:
    vendor = vendor_library(tmp_path / "nn")
    digits = Path(__file__).resolve().parents[2] / "examples/digits/digits.tflite"
    libraries = [
        hilc.compile(digits, name=name).with_code([vendor / "Include"], [vendor / "Source"])
        for name in ("one", "two")
    ]
    merged = hilc.merge(libraries)
    paths = [path for path in merged.files if path.startswith("extra/")]
    assert sorted(path.partition("/source/")[2] for path in paths if "/source/" in path) == [
        "larger.S",
        "larger_c.c",
        "max/detail.h",
        "max/vendor_max.c",
        "other.c",
    ]
    assert ModelLibrary.load(merged.save(tmp_path / "both.tar")).files == merged.files


@pytest.mark.parametrize(
    ("include", "source", "message"),
    [
        ("gone", None, "the include folder gone does not exist"),
        (None, "gone.c", "the source gone.c does not exist"),
        (None, "a.py", "the source a.py is not C, assembly or an object"),
        ("empty", None, "empty has no headers"),
        (None, "empty", "empty has no sources"),
        (None, "odd", r"b\$c.c has a name that build tools would misinterpret"),
    ],
)
def test_what_cannot_be_taken(
    include: str | None, source: str | None, message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/b$c.c").write_text("")
    library = ModelLibrary.load(write_tar(tmp_path / "net.tar", tvm_files(Style())))
    with pytest.raises(InputError, match=message):
        library.with_code([include] if include else [], [source] if source else [])


@pytest.mark.parametrize("path", ["codegen/host/src/a) b.c", "extra/00_x/source/$ENV{HOME}.c"])
def test_a_path_that_cmake_would_split_is_refused(path: str, tmp_path: Path) -> None:
    files = {**tvm_files(Style()), path: b""}
    library = ModelLibrary.load(write_tar(tmp_path / "net.tar", files))
    with pytest.raises(InputError, match="whose name build tools would misread"):
        build([library], load_board("native"))


@pytest.mark.full  # It changes rarely, and takes long.
def test_a_project_of_tvmc_keeps_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, vendor = archive_that_calls_it(tmp_path / "net.tar"), vendor_library(tmp_path / "nn")
    project = str(tmp_path / "project")
    option = ["--project-option", f"board={BOARD}", f"cmsis_path={tmp_path}"]
    code = ["--include-dir", str(vendor / "Include"), "--source", str(vendor / "Source")]
    micro = ["tvmc", "micro"]
    assert main([*micro, "create", project, str(archive), "template", *option, *code]) == 0
    assert "cmsis_path has no effect: no code calls CMSIS-NN" in capsys.readouterr().err
    shutil.rmtree(vendor)
    assert main([*micro, "build", project, "template"]) == 0
    np.savez(tmp_path / "x.npz", **samples())
    words = ["--inputs", str(tmp_path / "x.npz"), "--outputs", str(tmp_path / "y.npz")]
    assert main(["tvmc", "run", "--device", "micro", project, *words]) == 0
    outputs = np.load(tmp_path / "y.npz")
    wanted = list(expected(samples()).values())
    for index, value in enumerate(wanted):
        np.testing.assert_array_equal(outputs[f"output_{index}"], value)


@pytest.mark.full
def test_cmsis_path_of_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = dict(tvm_files(Style()))
    name = "codegen/host/src/default_lib1.c"
    files[name] = b'#include "arm_nnfunctions.h"\n' + files[name]
    archive = write_tar(tmp_path / "net.tar", files)
    words = ["tvmc", "micro", "create", str(tmp_path / "project"), str(archive), "zephyr"]
    option = ["--project-option", f"board={BOARD}"]
    assert main([*words, *option, f"cmsis_path={tmp_path}"]) == 2
    assert "has no CMSIS-NN: none of" in capsys.readouterr().err
    stand_in = Path(__file__).resolve().parents[1] / "cmsis_nn"
    tree = tmp_path / "cmsis" / "CMSIS-NN"
    shutil.copytree(stand_in, tree, ignore=shutil.ignore_patterns("*_f16.c"))
    assert main([*words, *option, f"cmsis_path={tree.parent}"]) == 0
    assert list((tmp_path / "project/extra").rglob("arm_convolve_wrapper_s8.c"))
    assert main(["tvmc", "micro", "build", str(tmp_path / "project"), "zephyr"]) == 0
