"""tvmc's command lines: what each flag means here, and whole scripts on an emulated board."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import answers
import numpy as np
import onnx
import pytest
import small_models

import hilc
import hilc.host
from hil.cli import main
from hil.cli.command_line import build_parser
from hil.compat.tvm.tvmc_flags import translate
from hilc.artifact.library import ModelLibrary
from hilc.errors import InputError
from hilc.memory.plan import PoolSpec

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

#: As of a script for TVM 0.14 on a Cortex-M4.
CRT = "--target 'c -mcpu=cortex-m4' --runtime crt --executor aot -f mlf"
PLANNED = {"cpu": "cortex-m4", "codegen": "c", "runtime": "crt", "pools": "internal"}


def open_sum() -> bytes:
    """A sum of two inputs whose rows the file leaves open, each by a name of its own."""
    declared = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, 8])
        for name, rows in (("x", "rows"), ("z", "others"), ("y", None))
    ]
    node = onnx.helper.make_node("Add", ["x", "z"], ["y"])
    graph = onnx.helper.make_graph([node], "sum", declared[:2], declared[2:])
    opsets = [onnx.helper.make_opsetid("", 13)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    data: bytes = model.SerializeToString()
    return data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory: a model, and inputs for it."""
    folder = tmp_path_factory.mktemp("tvmc")
    (folder / "net.tflite").write_bytes(small_models.convolutions())
    (folder / "moves.tflite").write_bytes(small_models.moves())
    (folder / "open.onnx").write_bytes(open_sum())
    values = np.random.default_rng(11).integers(-128, 127, (1, 8, 8, 3), np.int8)
    np.savez(folder / "x.npz", x=values)
    np.savez(folder / "two.npz", x=np.concatenate([values, values]))
    np.savez(folder / "z.npz", z=values)
    (folder / "target.json").write_text('{"kind": "c", "mcpu": "cortex-m7", "keys": ["cpu"]}')
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def parse(line: str) -> argparse.Namespace:
    return build_parser().parse_args(shlex.split(f"tvmc compile net.tflite {line}"))


# What flags mean ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meaning:
    """Flags, what they ask of the compiler, and the beginnings of their notes."""

    flags: str
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()


MEANINGS = [
    # The target.
    Meaning("--executor aot", {"cpu": "host", "codegen": "llvm"}),
    Meaning("--executor aot --target c", {"cpu": "host", "codegen": "c"}),
    Meaning(
        "--executor aot --target 'llvm -mcpu=cortex-m55 -mtriple=thumbv8.1m.main-none-eabi'",
        {"cpu": "cortex-m55", "codegen": "llvm"},
    ),
    Meaning(
        "--executor aot --target 'c -keys=arm_cpu,cpu -mcpu=cortex-m4 -model=stm32l4r5zi'",
        {"cpu": "cortex-m4"},
        ("-keys has no effect", "-model has no effect"),
    ),
    Meaning("--executor aot --target c --target-c-mcpu cortex-m7", {"cpu": "cortex-m7"}),
    Meaning("--executor aot --target 'c -march=armv7e-m'", {"cpu": "cortex-m4"}),
    Meaning("--executor aot --target 'c -march=armv8.1-m.main+mve'", {"cpu": "cortex-m55"}),
    Meaning(
        "--executor aot --target 'cmsis-nn -mcpu=cortex-m55, c'",
        {"cpu": "cortex-m55", "codegen": "c"},
    ),
    Meaning(
        "--executor aot --target cmsis-nn,c --target-cmsis-nn-mcpu cortex-m33",
        {"cpu": "cortex-m33"},
    ),
    Meaning('--executor aot --target \'{"kind": "c", "mcpu": "cortex-m0"}\'', {"cpu": "cortex-m0"}),
    Meaning("--executor aot --target target.json", {"cpu": "cortex-m7"}, ("-keys has no",)),
    # Older scripts have everything in the target.
    Meaning(
        "--target 'c -mcpu=cortex-m3 -runtime=c --system-lib -executor=aot -unpacked-api=1 "
        "-interface-api=c'",
        {
            "cpu": "cortex-m3",
            "runtime": "crt",
            "system_lib": True,
            "api": "unpacked",
            "interface": "c",
        },
    ),
    # Executor and run time, with TVM's defaults.
    Meaning(CRT, {"api": "packed", "interface": "packed", "system_lib": False, **PLANNED}),
    Meaning("", {"runtime": "cpp", "pools": "calls"}, ("without --executor tvmc uses",)),
    Meaning(f"{CRT} --runtime-crt-system-lib 1", {"system_lib": True}),
    Meaning(f"{CRT} --runtime-crt-system-lib=0", {"system_lib": False}),
    Meaning(f"{CRT} --executor-aot-unpacked-api=1", {"api": "unpacked", "interface": "packed"}),
    # tvmc takes every value for true here; 0 is false.
    Meaning(f"{CRT} --executor-aot-unpacked-api=0", {"api": "packed"}),
    Meaning(
        f"{CRT} --executor-aot-interface-api=c --executor-aot-unpacked-api=true",
        {"api": "unpacked", "interface": "c"},
    ),
    Meaning(f"{CRT} --executor-aot-link-params 1", {"constants": None}),
    Meaning(f"{CRT} --executor-aot-workspace-byte-alignment 16", PLANNED),
    Meaning(
        f"{CRT} --executor-aot-workspace-byte-alignment=8 --executor-aot-constant-byte-alignment=4",
        PLANNED,
        ("workspace-byte-alignment=8 has no effect", "constant-byte-alignment=4 has no effect"),
    ),
    # Memory.
    Meaning(f"{CRT} --pass-config tir.usmp.enable=0", {"pools": "calls", "memory": ()}),
    Meaning(f"{CRT} --pass-config tir.usmp.enable=True", {"pools": "internal"}),
    Meaning(
        f"{CRT} --pass-config tir.usmp.enable=1 --pass-config tir.usmp.algorithm=hill_climb",
        PLANNED,
        ("tir.usmp.algorithm=hill_climb has no effect",),
    ),
    Meaning(
        f"{CRT} --executor-aot-interface-api c --executor-aot-unpacked-api 1 "
        "--pass-config tir.usmp.use_workspace_io=1",
        {"io_in_pool": True, "pools": "internal"},
    ),
    Meaning(
        f"{CRT} --pass-config tir.usmp.enable=0 --pass-config tir.usmp.use_workspace_io=1",
        {"io_in_pool": False, "pools": "calls"},
        ("tir.usmp.use_workspace_io has no effect",),
    ),
    Meaning(
        f"{CRT} --workspace-pools sram,dram --workspace-pools-size-hint-bytes=sram:4096",
        {"pools": "external", "memory": (PoolSpec("sram", 4096), PoolSpec("dram"))},
    ),
    Meaning(
        f"{CRT} --workspace-pools sram --workspace-pools-target-access=sram:c:rw",
        {"pools": "external"},
        ("--workspace-pools-target-access has no effect",),
    ),
    Meaning(
        f"{CRT} --workspace-pools sram --pass-config tir.usmp.enable=0",
        {"pools": "calls"},
        ("--workspace-pools has no effect",),
    ),
    # What cannot change the result.
    Meaning(
        f"{CRT} -O 3 --tuning-records t.json --desired-layout NHWC --disabled-pass AlterOpLayout "
        "--pass-config tir.disable_vectorize=1 --print-pass-times -vv",
        PLANNED,
        (
            "--opt-level has no effect",
            "--tuning-records has no effect",
            "--desired-layout has no effect",
            "--disabled-pass has no effect",
            "--print-pass-times has no effect",
            "tir.disable_vectorize=1 has no effect",
        ),
    ),
]


@pytest.mark.parametrize("row", MEANINGS, ids=lambda row: row.flags or "nothing")
def test_flags_mean(row: Meaning) -> None:
    compilation = translate(parse(row.flags))
    options = dict(compilation.options)
    assert {name: options.get(name) for name in row.options} == dict(row.options)
    assert len(compilation.notes) == len(row.notes), compilation.notes
    for note, beginning in zip(compilation.notes, row.notes, strict=True):
        assert note.startswith(beginning)


@dataclass(frozen=True)
class Refused:
    """Flags, and what the message and its hint say."""

    flags: str
    message: str
    hint: str = ""


REFUSED = [
    Refused("--target 'cc'", "the target 'cc' is not offered (did you mean c", "the last target"),
    Refused("--target ethos-u,c", "the target 'ethos-u' is not offered"),
    Refused("--target cuda", "the target 'cuda' is not offered", "c or llvm"),
    Refused("--target cmsis-nn", "the last target is cmsis-nn"),
    Refused("--target 'c, llvm'", "are more than one for the code"),
    Refused("--target 'c -mcp=cortex-m4'", "no attribute 'mcp' (did you mean mcpu"),
    Refused("--target 'c -mcpu=cortex-m34'", "-mcpu=cortex-m34 is not offered (did you mean"),
    Refused("--target 'c -mcpu=cortex-a53'", "-mcpu=cortex-a53 is not offered", "cortex-m55"),
    Refused("--target 'c -mcpu=cortex-m4 -march=armv6-m'", "-march=armv6-m does not match"),
    Refused("--target 'c -march=armv9'", "-march=armv9 is not offered", "armv7e-m"),
    Refused("--target 'llvm -mtriple=aarch64-linux-gnu'", "-mtriple=aarch64-linux-gnu is not"),
    Refused("--target 'llvm -mtriple=thumbv7em-none-eabi'", "is not offered for host", "-mcpu"),
    Refused("--target 'llvm -mcpu=cortex-m4 -mfloat-abi=soft'", "-mfloat-abi=soft is not", "hard"),
    Refused("--target '{\"kind\": '", "--target is not valid JSON"),
    Refused("--target 'c mcpu=cortex-m4'", "'mcpu=cortex-m4' in --target is not an attribute"),
    Refused("--target 'c \"'", "cannot be read"),
    Refused(
        "--target llvm --target-c-mcpu cortex-m4", "Passed --target-c-mcpu but did not specify"
    ),
    Refused("--executor graph", "the graph executor is not offered", "--executor aot"),
    Refused(
        "--executor aot --executor-graph-link-params 1",
        "Passed --executor-graph-link-params but did not specify graph executor",
    ),
    Refused("--executor aot --executor-aot-link-params 0", "link-params=0 is not offered"),
    Refused(
        "--executor aot --executor-aot-workspace-byte-alignment 32",
        "workspace-byte-alignment=32 is not offered",
        "aligned to 16",
    ),
    Refused("--executor aot --executor-aot-constant-byte-alignment 12", "not a power of two"),
    Refused("--pass-config tir.usmp.enabled=1", "does not exist (did you mean tir.usmp.enable"),
    Refused("--pass-config tir.usmp.enable=2", "is not 0, 1, true or false"),
    Refused("--pass-config tir.usmp.enable", "is not NAME=VALUE"),
    Refused("--pass-config tir.usmp.algorithm=greedy", "does not exist (did you mean greedy_by"),
    Refused("--pass-config tir.usmp.custom_algorithm=mine", "names a function in TVM's process"),
    Refused(
        "--runtime crt --workspace-pools a --workspace-pools-size-hint-bytes b:1",
        "names 'b', which is not a pool",
        "the pools are a",
    ),
    Refused(
        "--runtime crt --workspace-pools a --workspace-pools-size-hint-bytes a:much",
        "the size of pool 'a' is 'much'",
    ),
    Refused("--model-format onnx", "--model-format onnx is not offered", "tflite"),
    Refused("--mixed-precision", "--mixed-precision is not offered"),
    Refused("--use-vm", "--use-vm is not offered", "--executor aot"),
    Refused("-O 4", "--opt-level 4 is outside of 0 to 3"),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.flags)
def test_flags_are_refused(row: Refused) -> None:
    with pytest.raises(InputError, match=re.escape(row.message)) as error:
        translate(parse(row.flags))
    assert row.hint in error.value.hint


LINES = [
    Refused("tvmc tune net.tflite", "invalid choice: 'tune'"),
    Refused("tvmc compile", "required: FILE"),
    Refused("tvmc compile no.tflite", "Input file 'no.tflite' doesn't exist"),
    Refused("tvmc compile net.tflite --target c --pass-conf a=b", "did you mean --pass-config"),
    Refused("tvmc compile net.tflite --taget c", "did you mean --target"),
    Refused("tvmc compile net.tflite -f tar", "--output-format tar is not offered", "mlf"),
    Refused(
        "tvmc compile net.tflite --target 'c -mcpu=cortex-m4'",
        "a shared library is for this machine",
        "--output-format mlf",
    ),
    Refused(
        "tvmc compile net.tflite --dump-code relay", "--dump-code relay is not", "use --dump-code"
    ),
    Refused("tvmc compile net.tflite --dump-code c", "the target is llvm", "--target c"),
    Refused(
        f"tvmc compile net.tflite {CRT} -o m.tar --input-shapes x:[1,9,9,3]",
        "gives x as [1, 9, 9, 3], but it is [1, 8, 8, 3]",
    ),
    Refused(
        f"tvmc compile net.tflite {CRT} -o m.tar --input-shapes y:[1]", "names 'y', which is no"
    ),
    Refused(
        f"tvmc compile net.tflite {CRT} -o m.tar --input-shapes 1,8", "is not a list of shapes"
    ),
    Refused(
        f"tvmc compile open.onnx {CRT} -o m.tar --input-shapes x:[2,9]", "shape [2, 9] does not fit"
    ),
    Refused(
        f"tvmc compile open.onnx {CRT} -o m.tar --input-shapes q:[2,8]",
        "no input 'q'",
        "its inputs are 'x', 'z'",
    ),
    Refused("tvmc micro create p no.tar zephyr --project-option board=native", "no.tar does not"),
    Refused("tvmc micro create p net.tflite zephyr", "Option 'board' is required"),
    Refused(
        "tvmc micro create p net.tflite zephyr --project-option board=nucleo_l053r8",
        "the board 'nucleo_l053r8' has no description here",
        "mps2-an386",
    ),
    Refused(
        "tvmc micro create p net.tflite zephyr --project-option board=mps2_an387",
        "did you mean",
    ),
    Refused(
        "tvmc micro create p net.tflite zephyr --project-option bord=x",
        "no project option 'bord' (did you mean board",
    ),
    Refused("tvmc micro create p net.tflite zephyr --project-option board", "is not NAME=VALUE"),
    Refused(
        "tvmc micro create p net.tflite zephyr --project-option project_type=mlperftiny",
        "project_type=mlperftiny is not offered",
        "host_driven",
    ),
    Refused("tvmc micro create p m template --template-dir t", "--template-dir t is not offered"),
    Refused("tvmc micro build nowhere zephyr", "nowhere doesn't exist"),
    Refused("tvmc micro build . zephyr", "is not a project of"),
    Refused("tvmc run --device gpu x", "the device 'gpu' is not offered"),
    Refused("tvmc run --device micro .", "is not a project of"),
    Refused("tvmc run --device micro net.tflite", "is an archive without a board"),
    Refused("tvmc run --device micro no.tar", "no.tar does not exist"),
    Refused("tvmc run x.so --fill-mode noise", "--fill-mode noise does not exist", "zeros"),
    Refused("tvmc run x.so --repeat 0", "--repeat 0 is not a whole number above 0"),
    Refused("tvmc run x.so --profile", "--profile is not offered", "hil bench"),
    Refused("tvmc run x.so --rpc-key k", "hil has no RPC tracker", "port=URL"),
    Refused("tvmc run no.so", "no.so"),
    Refused("tvmc run net.tflite", "net.tflite"),
]


@pytest.mark.parametrize("row", LINES, ids=lambda row: row.flags)
def test_lines_are_refused(row: Refused, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(row.flags)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error: ") == 1
    assert row.message in err
    assert row.hint in err


def test_hints_of_open_shapes_lead_to_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line, said = f"tvmc compile open.onnx {CRT} -o {tmp_path}/open.tar", ""
    hints: list[str] = []
    while (code := main(shlex.split(f"{line} {said}"))) != 0 and len(hints) < 3:
        assert code == 2
        said = capsys.readouterr().err.rpartition("hint: state its sizes: ")[2].strip()
        hints.append(said)
    assert hints == ['--input-shapes "x:[1,8]"', '--input-shapes "x:[1,8] z:[1,8]"']
    assert main(shlex.split(f"{line} --input-shapes 'x:[3,8] z:[3,8]'")) == 0
    (module,) = ModelLibrary.load(tmp_path / "open.tar").modules
    assert [tensor.shape for tensor in module.inputs] == [(3, 8), (3, 8)]


# Whole scripts --------------------------------------------------------------------------------


def run_json(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    """The one JSON object that a command line prints."""
    capsys.readouterr()
    assert main([*shlex.split(line), "--json"]) == code
    return answers.result(capsys.readouterr().out)


def expected(folder: Path, model: str = "net") -> list[np.ndarray]:
    """What this compiler's C gives in this process for the inputs of x.npz."""
    with hilc.host.load(hilc.compile(folder / f"{model}.tflite")) as loaded, np.load("x.npz") as x:
        loaded.set_input("x", x["x"])
        loaded.run()
        return [loaded.get_output(index) for index in range(len(loaded.outputs))]


SCRIPT = """\
tvmc compile net.tflite --target "c -keys=arm_cpu,cpu -mcpu=cortex-m4" --runtime crt \
--runtime-crt-system-lib 1 --executor aot --executor-aot-interface-api {interface} \
--executor-aot-unpacked-api {unpacked} --executor-aot-workspace-byte-alignment 8 \
--pass-config tir.disable_vectorize=1 --pass-config tir.usmp.enable={usmp} \
--pass-config tir.usmp.algorithm=greedy_by_size --output-format mlf --module-name net \
--input-shapes "x:[1,8,8,3]" --output {folder}/model.tar
tvmc micro {create} {folder}/project {folder}/model.tar zephyr --project-option \
project_type=host_driven board={board} verbose=true
tvmc micro build {folder}/project zephyr --project-option verbose=true
tvmc micro flash {folder}/project zephyr
tvmc run --device micro {folder}/project --inputs x.npz --outputs {folder}/out.npz --print-top 3
"""


@pytest.mark.parametrize(
    ("interface", "unpacked", "usmp", "board", "create"),
    [
        ("packed", 0, 1, "mps2_an386", "create"),
        ("c", 1, 0, "mps2-an386", "create-project"),
    ],
)
def test_a_script_of_tvms_documents_runs(
    interface: str,
    unpacked: int,
    usmp: int,
    board: str,
    create: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = SCRIPT.format(
        interface=interface,
        unpacked=unpacked,
        usmp=usmp,
        board=board,
        create=create,
        folder=tmp_path,
    )
    for line in script.splitlines():
        assert main(shlex.split(line)) == 0, line
    (module,) = ModelLibrary.load(tmp_path / "project" / "model.tar").modules
    assert (module.interface, module.api) == (interface, "unpacked" if unpacked else "packed")
    assert module.pools == ("internal" if usmp else "calls")
    (output,) = expected(folder)
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs.files == ["output_0"]
        assert np.array_equal(outputs["output_0"], output)
    # The last line's rows are positions and values of the three largest.
    rows = re.findall(r"-?\d+", capsys.readouterr().out.rpartition("[[")[2])
    order = np.argsort(-output.ravel().astype(int), kind="stable")[:3]
    assert [int(word) for word in rows] == [*order, *output.ravel()[order]]
    # What is built runs as it is: nothing is built again.
    elf = tmp_path / "project" / "build" / "firmware.elf"
    built = elf.stat().st_mtime_ns
    report = run_json(f"tvmc run --device micro {tmp_path}/project --fill-mode ones", capsys)
    assert [entry["name"] for entry in report["outputs"]] == ["output_0"]
    assert elf.stat().st_mtime_ns == built
    if usmp:
        return
    # Through a debug probe, which a virtual board has, too.
    probed = "--project-option serial_number=virtual"
    programmed = run_json(f"tvmc micro flash {tmp_path}/project zephyr {probed}", capsys)
    assert programmed["programmed"]
    through = run_json(
        f"tvmc run --device micro {tmp_path}/project --fill-mode ones {probed}", capsys
    )
    assert through["outputs"] == report["outputs"]


@pytest.fixture(scope="module")
def project(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project for this machine, which is built fast."""
    place = tmp_path_factory.mktemp("project")
    line = f"tvmc compile {folder}/net.tflite -f mlf --target c --runtime crt --executor aot"
    assert main([*shlex.split(line), "-o", str(place / "m.tar")]) == 0
    words = ["tvmc", "micro", "create", str(place / "p"), str(place / "m.tar"), "template"]
    assert main([*words, "--project-option", "board=native"]) == 0
    return place / "p"


def test_a_project_is_built_before_it_runs(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in (f"tvmc micro flash {project} template", f"tvmc run --device micro {project}"):
        assert main(shlex.split(line)) == 3
        assert f"Could not find a build in {project}" in capsys.readouterr().err
    assert main(shlex.split(f"tvmc micro build {project} template")) == 0
    report = run_json(f"tvmc micro flash {project} template", capsys)
    assert report["board"] == "native"
    # It can also be built by hand.
    done = subprocess.run(
        ["cmake", "--build", "--preset", "firmware"], cwd=project, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stdout


def test_edits_of_a_project_are_kept(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(f"tvmc micro build {project} template --force")) == 0
    main_c = project / "src" / "main.c"
    text = main_c.read_text()
    main_c.write_text(f"{text}/* mine */\n")
    assert main(shlex.split(f"tvmc micro build {project} template")) == 2
    assert "(src/main.c)" in capsys.readouterr().err
    assert main(shlex.split(f"tvmc run --device micro {project}")) == 3
    assert main_c.read_text().endswith("/* mine */\n")
    assert main(shlex.split(f"tvmc micro build {project} template -f")) == 0
    assert main_c.read_text() == text


def test_create_replaces_a_project_and_nothing_else(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = project / "model.tar"
    options = "template --project-option board=native"
    assert main(shlex.split(f"tvmc micro create {project} {archive} {options}")) == 2
    assert "The specified project dir already exists." in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("dear to somebody")
    assert main(shlex.split(f"tvmc micro create {other} {archive} {options} --force")) == 2
    assert (other / "thesis.txt").read_text() == "dear to somebody"
    copy = tmp_path / "copy"
    assert main(shlex.split(f"tvmc micro create {copy} {archive} {options}")) == 0
    assert main(shlex.split(f"tvmc micro create {copy} {archive} {options} -f")) == 0


def test_a_board_of_the_users_is_kept_with_the_project(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hil.board import load_board

    board = tmp_path / "mine.toml"
    board.write_bytes(load_board("native").path.read_bytes())
    words = ["tvmc", "micro", "create", str(tmp_path / "p"), str(project / "model.tar"), "zephyr"]
    assert main([*words, "--project-option", f"board={board}"]) == 0
    board.unlink()
    report = run_json(f"tvmc micro build {tmp_path}/p zephyr", capsys)
    assert report["board"] == "mine"


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_a_shared_library_runs_here(
    target: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """tvmc's default: a module for this machine, whose file has the archive's suffix."""
    line = f"tvmc compile net.tflite --target {target} --executor aot -o {tmp_path}/module.tar"
    assert main(shlex.split(line)) == 0
    report = run_json(
        f"tvmc run {tmp_path}/module.tar -i x.npz --print-time --repeat 3 --number 2", capsys
    )
    (output,) = expected(folder)
    assert report["outputs"][0]["values"] == output.ravel().tolist()
    assert len(report["times_s"]) == 3
    assert all(seconds > 0 for seconds in report["times_s"])


def test_inputs_that_are_not_given_are_filled(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"tvmc compile moves.tflite --target c --executor aot -o {tmp_path}/m.so"
    assert main(shlex.split(line)) == 0
    ones = np.ones((1, 4, 6), np.int8)
    np.savez(tmp_path / "x.npz", x=ones)
    both = run_json(f"tvmc run {tmp_path}/m.so --fill-mode ones", capsys)
    one = run_json(f"tvmc run {tmp_path}/m.so --fill-mode ones -i {tmp_path}/x.npz", capsys)
    zeros = run_json(f"tvmc run {tmp_path}/m.so --fill-mode zeros -i {tmp_path}/x.npz", capsys)
    assert one["outputs"] == both["outputs"] != zeros["outputs"]
    assert [entry["name"] for entry in both["outputs"]] == ["output_0", "output_1"]
    for words, message in (
        (f"-i {folder}/two.npz", "contains 2 samples"),
        (f"-i {folder}/z.npz", "'z' of"),
        ("-i missing.npz", "missing.npz does not exist"),
    ):
        line = f"tvmc compile net.tflite --target c --executor aot -o {tmp_path}/net.so"
        assert main(shlex.split(line)) == 0
        capsys.readouterr()
        assert main(shlex.split(f"tvmc run {tmp_path}/net.so {words}")) == 2
        assert message in capsys.readouterr().err


def test_code_is_dumped_beside_the_output(tmp_path: Path) -> None:
    line = f"tvmc compile net.tflite {CRT} -o {tmp_path}/m.mlf --dump-code c"
    assert main(shlex.split(line)) == 0
    assert ModelLibrary.load(tmp_path / "m.mlf").modules[0].name == "default"
    assert "tvmgen_default___tvm_main__" in (tmp_path / "m.mlf.c").read_text()


def test_a_name_that_c_cannot_have_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"tvmc compile net.tflite {CRT} -o {tmp_path}/m.tar --module-name Two-IO.v1"
    assert main(shlex.split(line)) == 0
    assert "note: in C and in the archive the module is called 'Two_IO_v1'" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("tvmc --version", "hil "),
        ("tvmc micro create --list-options", "  board "),
        ("tvmc micro build project zephyr --list-options", "  zephyr_base "),
        ("tvmc micro flash --list-options", "  mps2-an386"),
    ],
)
def test_what_needs_no_model(words: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 0
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize("words", ["tvmc -v run gone.so", "tvmc run -v gone.so", "tvmc run -vv x"])
def test_verbosity_before_or_after_the_command(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["ethos-u", "cuda"])
def test_an_attribute_of_another_target(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"tvmc compile x.tflite --target {kind},c --target-{kind}-accelerator_config u55"
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert f"the target {kind!r} is not offered" in error
    assert "--external FILE.py" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "tvmc --config default compile x.tflite --target c",
            "a file of flags\n\nhint: give",
        ),
        (
            "tvmc compile --config a.json x.tflite --target c",
            "a file of flags\n\nhint: give",
        ),
        ("tvmc run --config a.json x.so", "it is a file of flags"),
        (
            "tvmc compile x.tflite --target c --instruments x",
            "this compiler does not have TVM's passes",
        ),
        ("tvmc compile x.tflite --target c --target-host llvm", "the target is its own host"),
        (
            "tvmc compile x.tflite --target c --experimental-tvm-extension y",
            "this program does not use TVM",
        ),
    ],
)
def test_a_flag_of_tvmc_alone_is_refused(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err
