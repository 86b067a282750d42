"""The command line: every bad usage has its exit code and one clear message; JSON is one object."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import answers
import numpy as np
import psutil
import pytest
import transcripts
from campaigns import cases, sampled
from tflite_builder import ModelBuilder
from waiting import PATIENCE_S, until

import hilc
from hil.cli import EXIT_BUG, main
from hil.cli.command_line import build_parser
from hil.cli.commands import boards
from hil.support.cache import cache_folder
from hilc.support.optional import EXTRAS


def dense_model(inputs: int, outputs: int) -> bytes:
    """One int8 fully connected layer, ``x`` to ``y``."""
    rng = np.random.default_rng(0)
    builder = ModelBuilder()
    builder.input("x", (1, inputs), "int8", scale=0.05, zero_point=-3)
    weights = rng.integers(-127, 128, (outputs, inputs)).astype(np.int8)
    builder.const("w", weights, scale=0.01, zero_point=0)
    builder.output("y", (1, outputs), "int8", scale=0.4, zero_point=5)
    builder.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    return builder.build()


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good and bad files, the working directory of the tests."""
    folder = tmp_path_factory.mktemp("cli")
    tiny = dense_model(8, 4)
    (folder / "tiny.tflite").write_bytes(tiny)
    (folder / "huge.tflite").write_bytes(dense_model(1024, 512))
    (folder / "cut.tflite").write_bytes(tiny[: len(tiny) // 2])
    (folder / "empty.tflite").touch()
    (folder / "text.tflite").write_text("this is no model\n")
    (folder / "folder").mkdir()
    (folder / "odd").mkdir()
    (folder / "odd" / "metadata.json").write_text("{}")
    (folder / "project" / "generated").mkdir(parents=True)
    (folder / "project" / "generated" / "hil_config.h").touch()
    (folder / "bad.tar").write_bytes(b"\0" * 10240)
    hilc.compile(folder / "tiny.tflite").save(folder / "tiny.tar")
    for name in ("m3", "m4"):
        library = hilc.compile(folder / "tiny.tflite", cpu=f"cortex-{name}", name=name)
        library.save(folder / f"{name}.tar")
    for name in ("mine.tar", "mine.svg", "mine.json"):
        (folder / name).write_text("the user's own\n")
    np.savez(folder / "x.npz", x=np.zeros((3, 8), np.int8))
    np.savez(folder / "y2.npz", y=np.zeros((2, 4), np.int8))
    np.savez(folder / "other.npz", z=np.zeros((3, 8), np.int8))
    np.savez(folder / "float.npz", x=np.zeros((3, 8), np.float32))
    np.save(folder / "x.npy", np.zeros((1, 8), np.int8))
    return folder


@pytest.fixture(autouse=True)
def _in_files(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)


VERIFY = "verify tiny.tflite --board mps2-an386"
RUN = "run tiny.tflite --board mps2-an386"


@dataclass(frozen=True)
class Bad:
    """A command line, its exit code and a part of its message."""

    line: str
    code: int
    message: str


BAD = [
    # The command line itself.
    Bad("frobnicate", 2, "invalid choice: 'frobnicate'"),
    Bad("verfy tiny.tflite", 2, "invalid choice: 'verfy' (did you mean verify?)"),
    Bad("lab lst", 2, "invalid choice: 'lst' (did you mean list?)"),
    Bad("help lab lst", 2, "invalid choice: 'lst' (did you mean list?)"),
    Bad("help verfy", 2, "invalid choice: 'verfy' (did you mean verify?)"),
    Bad("verify", 2, "required: MODEL"),
    Bad("verify tiny.tflite", 2, "neither --board nor --against is given"),
    Bad("compile tiny.tflite", 2, "required: -o/--output"),
    # Also where it is the reason why something is missing.
    Bad("verify tiny.tflite --bord mps2-an386", 2, "arguments: --bord (did you mean --board"),
    Bad("verify tiny.tflite --boa mps2-an386", 2, "unrecognized arguments: --boa"),
    Bad("compile tiny.tflite --optmize size -o x.tar", 2, "--optmize (did you mean --optimize?)"),
    Bad("compile tiny.tflite --optimize sped -o x.tar", 2, "'sped' (did you mean speed?)"),
    # What makes no sense twice.
    Bad("compile tiny.tflite -o x.tar --output y.tar", 2, "-o and --output are both given"),
    Bad("compile tiny.tflite -o x.tar --cpu host --cpu cortex-m4", 2, "--cpu is given twice"),
    Bad(
        "compile tiny.tflite -o x.tar --fold-constant-channels --no-fold-constant-channels",
        2,
        "--fold-constant-channels and --no-fold-constant-channels are both given",
    ),
    Bad(f"{RUN} --board native", 2, "--board is given twice"),
    Bad(f"{VERIFY} --seed 0 --seed 0", 2, "--seed is given twice"),
    Bad(f"{VERIFY} --samples 99999999999999999999", 2, "99999999999999999999 is too large"),
    Bad(f"{VERIFY} --board mps2-an386", 2, "--board names 'mps2-an386' twice"),
    Bad(f"{VERIFY} --board native --port loop://", 2, "--port belongs to one board"),
    Bad(f"{VERIFY} --board frob", 2, "unknown board 'frob'"),
    Bad("boards -q -v", 2, "-q and -v are both given"),
    Bad("-q boards --verbose", 2, "-q and -v are both given"),
    Bad("boards --frob", 2, "unrecognized arguments: --frob"),
    Bad("compile tiny.tflite -o x.tar --board native --cpu host", 2, "not allowed with"),
    Bad(f"{VERIFY} --samples 0", 2, "'0' is not a whole number above 0"),
    Bad(f"{VERIFY} --samples -1", 2, "--samples"),
    Bad(f"{VERIFY} --samples many", 2, "'many' is not a whole number"),
    Bad(f"{VERIFY} --seed 1.5", 2, "'1.5' is not a whole number"),
    Bad("monitor --port loop:// --seconds never", 2, "'never' is not a number above 0"),
    Bad("monitor", 2, "no line to listen to"),
    Bad("monitor tiny.tflite --port loop://", 2, "it takes no MODEL"),
    # Models.
    Bad("compile missing.tflite -o x.tar", 2, "'missing.tflite' does not exist"),
    Bad("compile folder -o x.tar", 2, "folder has no metadata.json"),
    Bad("verify folder --board native", 2, "give the tar or folder that `hil compile"),
    Bad("verify / --board native", 2, "give the tar or folder that `hil compile"),
    Bad("verify odd --board native", 2, "give the tar or folder that `hil compile"),
    Bad("verify project --board native", 2, "a firmware project that `hil build` wrote"),
    Bad("verify folder --board native", 2, "or a model file"),
    Bad("compile tiny.tflite -o x.tar --runtime cpp", 2, "use --api packed with --interface"),
    Bad(f"{VERIFY} --keep-state", 2, "--keep-state is given, and 'tiny' keeps no state"),
    Bad("compile empty.tflite -o x.tar", 2, "empty.tflite: the file is empty"),
    Bad("compile text.tflite -o x.tar", 2, "text.tflite: not a TFLite, ONNX or PyTorch model"),
    Bad("compile cut.tflite -o x.tar", 2, "cut.tflite: "),
    Bad("compile bad.tar -o x.tar", 2, "bad.tar"),
    Bad("compile 9lives=tiny.tflite -o x.tar", 2, "'9lives' cannot name a model"),
    Bad("compile =tiny.tflite -o x.tar", 2, "'' cannot name a model"),
    Bad("compile a= -o x.tar", 2, "a model's path is empty"),
    Bad("compile tiny.tflite --name a-b -o x.tar", 2, "'a-b' cannot name a model"),
    Bad("compile tiny.tflite huge.tflite --name a -o x.tar", 2, "there are 2"),
    Bad("compile tiny.tflite tiny.tflite -o x.tar", 2, "unique names"),
    Bad("compile tiny.tflite tiny.tflite -o x.tar -q", 2, "another name: NAME=path"),
    Bad("build tiny.tflite tiny.tflite --board mps2-an386", 2, "'tiny'"),
    Bad("compile tiny.tar --optimize size -o x.tar", 2, "--optimize cannot change it"),
    Bad("compile tiny.tar -o x.tar --cpu cortex-m4", 2, "compiled for host, so --cpu cortex-m4"),
    Bad("build tiny.tar --board mps2-an386 --cpu cortex-m4", 2, "compiled for host, so --cpu"),
    Bad("compile m4.tar -o x.tar --board microbit", 2, "compiled for cortex-m4 and cannot"),
    Bad("run m4.tar --board microbit", 2, "compile the model file again with --board microbit"),
    Bad(
        "build m4.tar --board riscv-virt", 2, "'m4' was compiled for cortex-m4, but riscv-virt has"
    ),
    Bad("compile tiny.tflite -o x.tar --tuning nofile", 2, "give a log that `hil tune` wrote"),
    Bad("compile other=tiny.tar -o x.tar", 2, "cannot be renamed to 'other'"),
    # Options of the compiler.
    Bad("compile tiny.tflite -o x.tar --cpu cortex-m99", 2, "unknown CPU 'cortex-m99'"),
    Bad("compile tiny.tflite -o x.tar --optimize best", 2, "invalid choice: 'best'"),
    Bad("compile tiny.tflite -o x.tar --codegen gcc", 2, "invalid choice: 'gcc'"),
    Bad("compile tiny.tflite -o x.tar --api packed", 2, 'Either need interface_api == "packed"'),
    Bad("compile tiny.tflite -o x.tar --runtime cpp", 2, "when targeting c++ runtime"),
    Bad("compile tiny.tflite -o x.tar --interfaces packed", 2, "did you mean --interface?"),
    Bad("compile tiny.tflite -o x.tar --pools heap", 2, "invalid choice: 'heap'"),
    Bad("compile tiny.tflite -o x.tar --external no.py", 2, "no.py"),
    Bad(
        "compile tiny.tflite -o x.tar --external frob",
        2,
        "'frob' does not specify a code generator",
    ),
    Bad("compile tiny.tflite -o x.tar --memory 9ram", 2, "'9ram' is not a region name"),
    Bad(
        "compile tiny.tflite -o x.tar --memory ram:8kb", 2, "'8kb', which is not a number of bytes"
    ),
    Bad("compile tiny.tflite -o x.tar --memory ram,ram", 2, "the region 'ram' twice"),
    Bad(
        "build tiny.tflite --board mps2-an386 --memory ram:1",
        2,
        "fits a workspace of 1 B (the smallest is",
    ),
    Bad(
        "compile tiny.tflite -o x.tar --board mps2-an386 --memory tcm",
        2,
        "choose from ram, psram",
    ),
    Bad("build tiny.tflite --board native --memory ram", 2, "native has no RAM region 'ram'"),
    Bad("compile tiny.tar -o x.tar --memory ram", 2, "--memory cannot change it"),
    Bad("compile tiny.tar -o x.tar --pools calls", 2, "--pools cannot change it"),
    Bad("build tiny.tflite --board mps2-an386 --workspace both", 2, "invalid choice: 'both'"),
    Bad(
        "build a=tiny.tflite b=tiny.tflite --board mps2-an386 --workspace shared --pools internal",
        2,
        "part of its code",
    ),
    Bad("compile tiny.tflite -o tiny.tflite/x.tar", 2, "cannot write tiny.tflite/x.tar"),
    Bad("compile tiny.tflite -o x.zip", 2, "it does not end in .tar"),
    Bad("compile tiny.tflite -o mine.tar", 2, "not an archive of hil's written by hil"),
    Bad("compile tiny.tflite -o .", 2, "files that do not belong to a library"),
    Bad("compile tiny.tflite -o x.tar --ram abc", 2, "'abc' is not a number of bytes"),
    Bad("build tiny.tflite --board mps2-an386 --ram 0", 2, "the smallest is"),
    Bad("compile tiny.tflite -o x.tar --flash 1", 2, "the least is about"),
    Bad("compile tiny.tflite -o x.tar --tuning missing.json", 2, "missing.json cannot be read"),
    Bad("compile tiny.tflite -o x.tar --tuning tiny.tflite", 2, "is not JSON: it is not text"),
    Bad("compile tiny.tflite -o x.tar --tuning text.tflite", 2, "log that `hil tune` wrote"),
    Bad("compile tiny.tflite -o x.tar --pin x", 2, "does not end with =OFFSET"),
    Bad("compile tiny.tflite -o x.tar --pin x=1GB", 2, "does not end with =OFFSET"),
    Bad("compile tiny.tflite -o x.tar --pin x=8", 2, "give a multiple of 16"),
    Bad("compile tiny.tflite -o x.tar --pin w=0", 2, "inputs and outputs: x, y"),
    Bad("compile tiny.tflite -o x.tar --pin x=ram:0", 2, "add --memory ram"),
    Bad("compile tiny.tflite -o x.tar --pin x=0 --pin x=16", 2, "'x' twice"),
    Bad(
        "compile tiny.tflite -o x.tar --pin x=0 --pin y=0 --keep-inputs", 2, "to overlapping bytes"
    ),
    Bad("compile tiny.tflite -o x.tar --keep-inputs --pools calls", 2, "only during a run"),
    Bad("compile tiny.tar -o x.tar --pin x=0", 2, "--pin cannot change it"),
    Bad("explain tiny.tflite --board mps2-an386 -o plan.jpg", 2, "ends in one of .svg, .png, .pdf"),
    Bad("explain tiny.tflite huge.tflite --board mps2-an386 -o a.svg", 2, "2 models are given"),
    Bad("explain tiny.tflite --board mps2-an386 --frontier --ram 9", 2, "leave out --ram"),
    Bad("explain tiny.tflite --board mps2-an386 -o mine.svg", 2, "replace it with --force"),
    Bad("explain . --board mps2-an386", 2, "has no metadata.json"),
    # Boards.
    Bad("verify tiny.tflite --board frob", 2, "unknown board 'frob'"),
    Bad("verify tiny.tflite --board mps2-an368", 2, "did you mean mps2-an386"),
    Bad("verify tiny.tflite --board NUCLEO_L476RG", 2, "(did you mean nucleo-l476rg?)"),
    Bad("verify tiny.tflite --board frob.toml", 2, "board description 'frob.toml'"),
    Bad("verify tiny.tflite --board ./text.tflite", 2, "not valid TOML"),
    Bad(f"{VERIFY} --runner native", 2, "has no runner 'native'"),
    Bad("build huge.tflite --board lm3s6965evb", 3, "flash"),
    Bad("build tiny.tflite --board mps2-an386 -o .", 2, "do not belong to a firmware project"),
    Bad(
        "build tiny.tflite --board mps2-an386 -o tiny.tflite/x",
        2,
        "cannot write tiny.tflite/x: Not a directory",
    ),
    Bad("build tiny.tflite --board mps2-an386 -o fw.elf", 2, "the ELF file is build/firmware.elf"),
    Bad(
        "build tiny.tflite --board native --board microbit -o x.zip",
        2,
        "is not the name of a",
    ),
    Bad(
        "build tiny.tflite --board native --board microbit -o tiny.tflite/x", 2, "cannot write tiny"
    ),
    Bad(f"{RUN} -o out.txt", 2, "a name that ends in .npz"),
    Bad(f"{RUN} -o x.npz", 2, "not a file of outputs written by hil"),
    Bad(f"{RUN} -o folder", 2, "ends in .npz"),
    Bad(f"{RUN} --output=", 2, "-o was given an empty value"),
    Bad(f"{VERIFY} --expect=", 2, "--expect was given an empty value"),
    Bad("tune tiny.tflite --board mps2-an386 -o /proc/none/x.json", 2, "cannot write /proc/none"),
    Bad("tune tiny.tflite --board mps2-an386 -o mine.json", 2, "not a log of 'tiny'"),
    Bad("bench tiny.tflite --board native", 2, "neither instructions nor cycles"),
    Bad(f"{VERIFY} --port /dev/does-not-exist", 4, "there is no port /dev/does-not-exist"),
    Bad("monitor --port /dev/does-not-exist", 4, "there is no port /dev/does-not-exist"),
    Bad("monitor --port usb:", 2, "'usb:' has no serial number"),
    Bad(f"{VERIFY} --port usb:", 2, "'usb:' has no serial number"),
    Bad("monitor --port foo://x", 2, "foo://x is not a serial port: "),
    Bad("monitor --port socket://x", 2, "socket://x is not a serial port: write socket"),
    Bad(f"{VERIFY} --port foo://x", 2, "foo://x is not a serial port: "),
    Bad(
        f"{VERIFY} --port socket://x",
        2,
        "socket://x is not a serial port: write socket://HOST:PORT",
    ),
    Bad(
        f"{VERIFY} --probe virtual --port /dev/nope",
        2,
        "a virtual probe has its own serial",
    ),
    Bad(
        f"{VERIFY} --runner qemu --port /dev/nope",
        2,
        "the runner 'qemu' has its own serial line",
    ),
    Bad("monitor --port text.tflite", 4, "text.tflite is not a serial port"),
    Bad(f"{VERIFY} --port folder", 4, "folder is not a serial port"),
    Bad("board new q --base microbit --clock-hz 0", 2, "q.toml: clock_hz: 0 is not within"),
    # Inputs and references.
    Bad(f"{VERIFY} --reference frob", 2, "unknown reference 'frob'"),
    Bad(f"{VERIFY} --inputs missing.npz", 2, "missing.npz does not exist"),
    Bad(
        f"{VERIFY} --inputs text.tflite",
        2,
        "is neither an NPZ nor an NPY file",
    ),
    Bad(f"{VERIFY} --inputs other.npz", 2, "contains an array 'z', which is not an input"),
    Bad(f"{VERIFY} --inputs float.npz", 2, "is float32 but the model's 'x' is int8"),
    Bad(f"{VERIFY} --inputs x.npz --samples 4", 2, "holds 3 samples, not 4"),
    Bad(f"{VERIFY} --inputs x.npz --expect y2.npz", 2, "outputs of 2 samples, the inputs have 3"),
    Bad(
        f"{VERIFY} --inputs x.npz --expect y2.npz --source tiny.tflite",
        2,
        "--source and --expect are both given",
    ),
    Bad(f"{VERIFY} --source missing.tflite", 2, "missing.tflite"),
    Bad("verify tiny.tflite b=tiny.tflite --board native --source x", 2, "--source is for one"),
    Bad(f"{VERIFY} --expect y2.npz", 2, "--expect is given without --inputs"),
    Bad(
        f"{VERIFY} --inputs x.npz --expect y2.npz --reference hilc",
        2,
        "--reference and --expect are both given",
    ),
    Bad(
        f"{VERIFY} --inputs x.npz --expect y2.npz --per-layer",
        2,
        "--per-layer and --expect are both given",
    ),
    Bad("verify tiny.tflite b=tiny.tflite --board native --inputs x.npz", 2, "for one model"),
    Bad(f"{RUN} --input x=", 2, "has no file name"),
    Bad(f"{RUN} --input x", 2, "'x' does not begin with the name of an input"),
    Bad(f"{RUN} --input x.npz", 2, "write --input x=x.npz"),
    Bad(f"{VERIFY} --samples -3", 2, "'-3' is not a whole number above 0"),
    Bad(f"{VERIFY} --samples x", 2, "'x' is not a whole number above 0"),
    Bad(f"{VERIFY} --samples 0", 2, "'0' is not a whole number above 0"),
    Bad(f"{RUN} --input z=x.npy", 2, "the inputs are x"),
    Bad(f"{RUN} --input x=missing.npy", 2, "missing.npy does not exist"),
    Bad(f"{RUN} --input x=x.npz", 2, "is an NPZ file (arrays: 'x')"),
    Bad(f"{RUN} --input x=x.npy --input x=x.npy", 2, "is given twice"),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.line or "nothing")
def test_bad_usage(bad: Bad, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(bad.line.split()) == bad.code
    out, err = capsys.readouterr()
    transcripts.write("test_cli.py", f"hil {bad.line}", Path.cwd(), bad.code, out, err)
    assert out == ""
    assert bad.message in err
    assert err.startswith("error: ")
    assert err.count("error:") == 1
    assert "Traceback" not in err


#: Lines with a file of each kind that commands read.
READERS = (
    "compile {} -o x.tar",
    "compile a={} -o x.tar",
    "explain {} --board native",
    "compile tiny.tflite -o x.tar --tuning {}",
    "compile tiny.tflite -o x.tar --board {}",
    f"{RUN} --input x={{}}",
    f"{VERIFY} --inputs {{}}",
    f"{VERIFY} --source {{}}",
)


@pytest.mark.parametrize("kind", ["device", "pipe", "socket"])
@pytest.mark.parametrize("line", READERS)
def test_what_is_no_file_is_not_read(
    line: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device never ends, and a pipe that nobody writes is waited for."""
    path = Path("/dev/zero") if kind == "device" else tmp_path / "x.tar"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    assert main(line.format(path).split()) == 2
    assert f"{path} is not a regular file" in capsys.readouterr().err


def test_the_configuration_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "pipe"))
    assert main(VERIFY.split()) == 2
    assert "pipe is not a regular file\n\nhint: set HIL_CONFIG" in capsys.readouterr().err


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("big.tflite", "big.json"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 31)
    for line in (f"{tmp_path}/big.tflite", f"tiny.tflite --tuning {tmp_path}/big.json"):
        assert main(["compile", *line.split(), "-o", "x.tar"]) == 2
        assert "has 2147483648 bytes; at most" in capsys.readouterr().err


@pytest.mark.parametrize("bad", BAD[::6], ids=lambda bad: bad.line or "nothing")
def test_bad_usage_in_json(bad: Bad, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*bad.line.split(), "--json"]) == bad.code
    out, err = capsys.readouterr()
    error = answers.error(out)
    assert error["exit_code"] == bad.code
    assert bad.message in f"{error['message']} {error['hint']}"
    assert error["message"] in err


def test_explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "plan.svg"
    line = ["explain", "tiny.tflite", "--board", "mps2-an386", "-o", str(picture)]
    assert main([*line, "--json"]) == 0
    plan = answers.entry(capsys.readouterr().out)
    assert plan["model"] == "tiny"
    assert [layer["ops"] for layer in plan["layers"]] == [["FULLY_CONNECTED"]]
    assert picture.read_text(encoding="utf-8").startswith("<?xml ")
    assert main(line) == 0
    assert f"{plan['workspace_bytes']:,} bytes of workspace" in capsys.readouterr().out


def test_explain_frontier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "frontier.svg"
    line = ["explain", "tiny.tflite", "--board", "mps2-an386", "--frontier", "-o", str(picture)]
    assert main([*line, "--json"]) == 0
    frontier = answers.entry(capsys.readouterr().out)
    assert (frontier["model"], frontier["counter"]) == ("tiny", "instructions")
    listed = [program["options"] for program in frontier["programs"]]
    assert [["--optimize", goal] in listed for goal in ("speed", "balanced", "ram", "size")] == [
        True
    ] * 4
    assert picture.read_text(encoding="utf-8").startswith("<?xml ")
    assert main(line) == 0
    text = capsys.readouterr().out
    for program in frontier["programs"]:
        assert " ".join(program["options"]) in text
        assert f"{program['per_inference']:,}" in text


def test_compile_to_tar_and_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in (tmp_path / "out.tar", tmp_path / "out"):
        assert main(["compile", "net=tiny.tflite", "-o", str(target), "--json"]) == 0
        report = answers.entry(capsys.readouterr().out)
        library = hilc.ModelLibrary.load(target)
        module = library.modules[0]
        assert report["model"] == module.name == "net"
        assert report["files"] == sorted(library.files)
        assert report["workspace_bytes"] == module.workspace_bytes
        assert report["io_bytes"] == module.io_bytes == 12
        assert report["layer_count"] == 1
        assert report["macs"] == 32
        assert report["constants_bytes"] >= 32


@pytest.mark.parametrize("name", ["out", "v1.zip/"])
def test_an_edited_library_is_not_compiled_over(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["compile", "net=tiny.tflite", "-o", f"{tmp_path}/{name}"]
    assert main(line) == 0
    source = tmp_path / name / "codegen" / "host" / "src" / "net_lib1.c"
    text = source.read_text()
    source.write_text(f"{text}/* mine */\n")
    (source.parent / "mine.c").write_text("/* mine */\n")
    capsys.readouterr()
    assert main([*line, "--optimize", "size", "--json"]) == 2
    error = answers.error(capsys.readouterr().out)
    assert "after they were written: codegen/host/src/net_lib1.c" in error["message"]
    assert source.read_text().endswith("/* mine */\n")
    assert main([*line, "--force"]) == 0
    assert source.read_text() == text
    assert (source.parent / "mine.c").exists(), "what the user has added stays in any case"


def test_a_changed_output_is_written_an_edited_one_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "plan.svg"
    line = ["explain", "tiny.tflite", "--board", "mps2-an386", "-o", str(picture)]
    assert main(line) == main(line) == 0
    picture.write_bytes(picture.read_bytes().replace(b"</svg>", b"<!-- mine --></svg>"))
    assert main(line) == 2
    assert "mine" in picture.read_text()
    assert main([*line, "--force"]) == 0
    assert "mine" not in picture.read_text()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "is_noted"),
    [
        ("m3.tar --board mps2-an386", True),
        ("m3.tar --board mps2-an386 --quiet", True),
        ("m4.tar --board mps2-an386", False),
        ("m4.tar --board native", False),
        ("tiny.tar --board microbit", False),
        ("tiny.tflite --board microbit", False),
    ],
)
def test_an_archive_for_another_core_is_noted(
    words: str, is_noted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", *words.split()]) == 0
    note = "'m3' was compiled for cortex-m3, but mps2-an386 has a cortex-m4: compile the model file"
    assert (note in capsys.readouterr().err) == is_noted


def test_compile_for_a_board_takes_its_core(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["compile", "tiny.tflite", "-o", str(tmp_path / "x.tar"), "--board", "mps3-an547"]
    assert main([*line, "--json"]) == 0
    assert answers.entry(capsys.readouterr().out)["cpu"] == "cortex-m55"


@pytest.mark.parametrize("codegen", ["c", "llvm"])
def test_compile_reports_memory_by_pool(
    codegen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"compile tiny.tflite -o {tmp_path}/x.tar --board mps2-an386 --memory psram:64K,ram"
    assert main([*line.split(), "--codegen", codegen, "--interface", "packed", "--json"]) == 0
    report = answers.entry(capsys.readouterr().out)
    (module,) = hilc.ModelLibrary.load(tmp_path / "x.tar").modules
    assert report["codegen"] == module.codegen == codegen
    assert report["interface"] == module.interface == "packed"
    assert [(pool["name"], pool["region"]) for pool in report["pools"]] == [
        ("psram", "psram"),
        ("ram", "ram"),
    ]
    assert [pool["bytes"] for pool in report["pools"]] == [p.nbytes for p in module.workspace_pools]
    assert report["workspace_bytes"] == module.workspace_bytes
    assert report["constants_bytes"] == module.constants_bytes


def test_compile_several_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "both.tar"
    assert main(["compile", "a=tiny.tflite", "b=tiny.tflite", "-o", str(target), "--json"]) == 0
    assert [m["model"] for m in answers.entries(capsys.readouterr().out)] == ["a", "b"]
    assert [m.name for m in hilc.ModelLibrary.load(target).modules] == ["a", "b"]


def test_boards_lists_every_board(capsys: pytest.CaptureFixture[str]) -> None:
    from hil.board import board_names

    assert main(["boards", "--json"]) == 0
    boards = answers.entries(capsys.readouterr().out)
    assert [board["name"] for board in boards] == list(board_names())
    assert [board["name"] for board in boards if board["default"]] == ["mps2-an386"]
    assert main(["boards"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in board_names())


@pytest.mark.parametrize("columns", [80, 200])
def test_tables_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["boards"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert ("description" in lines[0]) == (columns == 200)
    assert main(["doctor"]) in (0, 4)
    out = capsys.readouterr().out
    assert max(map(len, out.partition("\n\n")[0].splitlines())) <= columns


def test_help_and_version_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Exit: 0 good" in capsys.readouterr().out
    assert main(["verify", "--help"]) == 0
    verify_help = capsys.readouterr().out
    assert "--per-layer" in verify_help
    assert main(["help", "verify"]) == 0
    assert capsys.readouterr().out == verify_help
    assert main(["help", "lab", "serve"]) == 0
    assert "--coordinator" in capsys.readouterr().out
    assert main(["help", "tvmc", "compile"]) == 0
    assert "--executor-aot-unpacked-api" in capsys.readouterr().out
    for line in ("help verify --json", "--json help verify"):
        assert main(line.split()) == 0
        shown = answers.entry(capsys.readouterr().out)
        assert shown == {"command": "hil verify", "help": verify_help}
    assert main(["help", "--json"]) == 0
    assert "Exit: 0 good" in answers.entry(capsys.readouterr().out)["help"]
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hil ")


def test_every_command_has_its_place_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split()[0] for line in lines if line[:2] == "  " and line[2:3].isalpha()]
    assert sorted(shown) == sorted(build_parser([]).commands())


@pytest.mark.parametrize("line", ["", "lab", "board", "tvmc", "tvmc micro"])
def test_what_lacks_a_command_is_described(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith(f"usage: {f'hil {line}'.strip()} COMMAND [OPTIONS]\n")
    assert shown.err == ""
    assert main([*line.split(), "--json"]) == 2
    error = answers.error(capsys.readouterr().out)
    assert error["message"] == f"{f'hil {line}'.strip()} needs a command"


def test_common_options_before_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--json", "boards", "native"]) == 0
    assert answers.entry(capsys.readouterr().out)["name"] == "native"


#: Modules that `hil --help` may load, beside those that Python starts with: all, and its own. It
#: loads a few less, of which Python's differ by version. ``tools/budgets.py`` measures what they
#: cost.
MOST_MODULES, MOST_OWN_MODULES = 180, 25
#: Modules of the compiler that a command's options may load.
MOST_OPTION_MODULES = 15
#: Packages of Python that take long, and what only printing does not need.
HEAVY = {"asyncio", "ctypes", "http", "multiprocessing", "sqlite3", "subprocess", "unittest", "xml"}


def loaded(words: list[str]) -> set[str]:
    """The modules that a command loads, beside those that Python starts with."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "from hil.cli import main\n"
        f"main({words!r})\n"
        "print(*set(sys.modules) - before, file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


@pytest.mark.parametrize("command", ["verify", "bench", "evaluate", "compile"])
def test_help_leaves_rare_options_out(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main([command, "--help"])
    short = capsys.readouterr().out
    with contextlib.suppress(SystemExit):
        main([command, "--help-all"])
    whole = capsys.readouterr().out
    flags = {line.split()[0] for line in whole.splitlines() if line.startswith("  --")}
    shown = {line.split()[0] for line in short.splitlines() if line.startswith("  --")}
    assert "--optimize" in shown < flags
    assert f"{len(flags - shown)} more options: hil {command} --help-all" in short
    assert len(short.splitlines()) <= 110


@pytest.mark.parametrize("command", [[], ["history"], ["lab", "list"]], ids=" ".join)
def test_help_of_few_options_is_whole(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    short = capsys.readouterr().out
    assert "--json" in short
    assert "--help-all" not in short
    assert main([*command, "--help-all"]) == 0
    assert capsys.readouterr().out == short


def test_help_of_a_command_has_all_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert main(["help", "verify", "--help-all"]) == 0
    assert capsys.readouterr().out == whole
    assert main(["help", "verify", "--help-all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["help"] == whole


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["verify", "--help"]], ids=" ".join)
def test_help_loads_neither_numpy_nor_the_compiler(words: list[str]) -> None:
    """It answers at once: few modules are loaded, and none of a package that is not ours."""
    modules = loaded(words)
    packages = {name.partition(".")[0] for name in modules}
    # The options of the compiler are stated where it is, and do not load it.
    compiler = {name for name in modules if name.partition(".")[0] == "hilc"}
    assert packages - set(sys.stdlib_module_names) == ({"hil", "hilc"} if compiler else {"hil"})
    assert len(compiler) < (MOST_OPTION_MODULES if "verify" in words else 1)
    assert packages & HEAVY == set()
    own = [name for name in modules if name.partition(".")[0] == "hil"]
    own = [name for name in own if not name.startswith("hil.cli.commands.")]
    assert len(own) < MOST_OWN_MODULES
    assert len(modules) < MOST_MODULES


#: Modules of the compiler that a build loads whose model and image are in the cache.
MOST_WARM_MODULES = 90
#: Packages of the compiler that it needs no module of.
COLD = {"compat", "fusion", "host", "interpreter", "ops", "references", "transforms", "writers"}


def test_a_warm_build_loads_no_kernels(tmp_path: Path) -> None:
    """They take longer to import than all else of the compiler, as their tables of costs do."""
    model = tmp_path / "tiny.tflite"
    model.write_bytes(dense_model(4, 2))
    words = ["build", str(model), "--board", "native", "-o", str(tmp_path / "tiny"), "-q"]
    assert main(words) == 0
    modules = loaded(words)
    own = {name for name in modules if name.partition(".")[0] == "hilc"}
    assert own & {"hilc.compiler", "hilc.lowering.families", "hilc.lowering.parameters"} == set()
    assert own & {f"hilc.lowering.{name}" for name in ("dsp", "generic", "mve", "riscv")} == set()
    assert {name.split(".")[1] for name in own if "." in name} & COLD == set()
    assert "hil.verify.oracle" not in modules
    assert len(own) < MOST_WARM_MODULES


@pytest.mark.parametrize("module", ["hil", "hil.cli"])
def test_it_is_a_program(module: str) -> None:
    run = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True)
    assert run.returncode == 0
    assert run.stdout.startswith(b"hil ")


def test_later_commands_are_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert not any(f"    {word} " in out for word in ("report",))


def test_a_bug_shows_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(args: object, console: object) -> int:
        raise ZeroDivisionError("the bug")

    monkeypatch.setattr(boards, "run", broken)
    assert main(["boards"]) == EXIT_BUG == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: the bug" in err
    assert "this is a bug in hil" in err


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(args: object, console: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(boards, "run", interrupted)
    assert main(["boards"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_terminated_closes_what_is_open(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = []

    def terminated(args: object, console: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            # Where nothing handles it, the test fails and does not wait for ever.
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                time.sleep(0.01)
        finally:
            closed.append(True)
        return 0

    monkeypatch.setattr(boards, "run", terminated)
    before = signal.getsignal(signal.SIGTERM)
    assert main(["boards"]) == 143
    assert capsys.readouterr().err == "terminated\n"
    assert closed == [True]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.full
def test_a_closed_pipe_is_quiet() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from hil.cli import main; sys.exit(main(['boards']))"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(PATIENCE_S) == 141


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["ok"]
    assert report["self_test"]["ok"]
    tools = {tool["name"]: tool for tool in report["tools"]}
    assert tools["qemu-system-arm"]["required"]
    assert all(tool["found"] for tool in tools.values() if tool["required"])
    assert report["cache"] == {
        "ok": True,
        "folder": str(cache_folder()),
        "result": f"{cache_folder()} can be written",
        "remedy": "",
    }


def test_doctor_knows_optional_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """What each extra installs, and what users of scikit-learn need."""
    main(["doctor", "--json"])
    tools = {tool["name"]: tool for tool in answers.entry(capsys.readouterr().out)["tools"]}
    remedies = " ".join(tool["remedy"] for tool in tools.values())
    missing = {extra for extra in EXTRAS.values() if f"hil-harness[{extra}]" not in remedies}
    assert not missing
    assert not {"torch", "torchao", "tensorflow", "onnx", "scikit-learn", "skl2onnx"} - set(tools)
    assert tools["onnx"]["version"] == importlib.metadata.version("onnx")
    assert not tools["onnx"]["required"]


@cases(
    ("place", "message"),
    [
        ("/proc/none", "cache cannot write /proc/none: "),
        ("file", "file: Not a directory (set HIL_CACHE to a folder that can be"),
        ("a;b", "the path has ';' in it (set HIL_CACHE to another folder)"),
    ],
    first=1,
)
def test_the_doctor_reports_an_unusable_cache(
    place: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / place))
    assert main(["doctor"]) == 4
    out = capsys.readouterr().out
    assert message in out
    assert "emulated boards do NOT work" in out
    assert main(VERIFY.split()) == 2
    assert "HIL_CACHE" in capsys.readouterr().err


def test_doctor_without_an_emulator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor"]) == 4
    out = capsys.readouterr().out
    assert "qemu-system-arm is missing: apt install qemu-system-arm" in out
    assert "emulated boards do NOT work" in out


@pytest.mark.full
def test_verify_names_the_reference_in_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a silent match with our own interpreter."""
    monkeypatch.setattr(hilc.references, "_installed", lambda package: None)
    line = ["verify", "tiny.tflite", "--board", "native", "--samples", "1", "-q"]
    assert main([*line, "--json", "--allow-fallback"]) == 0
    shown = capsys.readouterr()
    report = answers.entry(shown.out)
    assert report["reference"] == "hilc"
    assert report["reference_fallback"]["wanted"] == "tflm"
    assert "needs tflite-micro 0.dev" in report["reference_fallback"]["missing"]
    assert shown.err.startswith("warning: tiny: compared with this compiler's own interpreter, not")
    assert main([*line, "--reference", "hilc"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["doctor"]) != 0
    assert ", which verify refuses here without --allow-fallback: " in capsys.readouterr().out
    for name in ("CI", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "reference hilc (not independent): compared with this compiler's own interpreter" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("verify tiny.tflite --board nucleo-l476rg --probe nobody", "the probe 'nobody' is not"),
        ("flash tiny.tflite --board nucleo-l476rg --probe nobody", "the probe 'nobody' is not"),
        ("debug tiny.tflite --board nucleo-l476rg --probe nobody", "the probe 'nobody' is not"),
        ("bench tiny.tflite --board mps2-an386 --port /dev/nothing", "there is no port"),
        ("run tiny.tflite --board mps2-an386", "qemu-system-arm is not installed"),
    ],
)
def test_what_is_missing_is_told_before_the_build(
    line: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*line.split(), "-v"]) == 4
    err = capsys.readouterr().err
    assert message in err
    assert "compiled" not in err
    assert not (tmp_path / "cache").exists()


def run_handler(
    body: str, *words: str, ignored: str | None = None
) -> subprocess.CompletedProcess[str]:
    """The program, as its own process, with ``body`` for what `hil boards` does.

    It ignores the signal ``ignored`` from its start, and none that these tests may ignore.
    """
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        + (f"signal.signal(signal.{ignored}, signal.SIG_IGN)\n" if ignored else "")
        + "from hil import cli\n"
        "from hil.cli.commands import boards\n"
        "def handler(args, console):\n"
        f"{textwrap.indent(body, '    ')}\n"
        "boards.run = handler\n"
        f"sys.argv = ['hil', 'boards', *{words!r}]\n"
        "sys.exit(cli.main())\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_an_interrupted_program_ends_with_130() -> None:
    """Python itself would end by a signal where an exec was interrupted: what dataclasses use."""
    run = run_handler("exec('os.kill(os.getpid(), signal.SIGINT); time.sleep(20)')")
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "interrupted\n")


def test_a_second_interrupt_while_closing() -> None:
    run = run_handler(
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(20)\n"
        "finally:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(1.2)\n"  # longer than until a lost one is raised again
        "    try:\n"
        "        raise ValueError\n"
        "    except ValueError:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        print('closed')\n"
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "closed\n", "interrupted\n")


@cases(("name", "printed"), [("SIGINT", "interrupted"), ("SIGTERM", "terminated")], first=1)
def test_a_signal_swallowed_by_a_library(name: str, printed: str) -> None:
    """As Cython's modules do while they are imported; the limit of the run ends what sleeps on."""
    run = run_handler(
        "for _ in range(3):\n"
        "    try:\n"
        f"        _ or os.kill(os.getpid(), signal.{name})\n"
        "        time.sleep(600)\n"
        "    except BaseException:\n"
        "        print('swallowed')\n"
        "time.sleep(600)\n"
    )
    assert (run.returncode, run.stderr) == (128 + signal.Signals[name], f"{printed}\n")
    assert run.stdout == "swallowed\n" * 3


def test_a_signal_in_an_interpreters_callback() -> None:
    run = run_handler(
        "import weakref\n"
        "class Gone: pass\n"
        "gone = Gone()\n"
        "watch = weakref.ref(gone, lambda _: (os.kill(os.getpid(), signal.SIGTERM), print('on')))\n"
        "del gone\n"
        "time.sleep(20)\n"
    )
    assert (run.returncode, run.stdout, run.stderr) == (143, "", "terminated\n")


def test_another_signal_after_a_swallowed_one() -> None:
    run = run_handler(
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "except BaseException:\n"
        "    pass\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(20)\n"
    )
    assert (run.returncode, run.stdout, run.stderr) == (143, "", "terminated\n")


@cases(
    ("name", "message", "printed"),
    [
        ("SIGINT", "interrupted", "interrupted\n"),
        ("SIGTERM", "terminated", "terminated\n"),
        ("SIGHUP", "hung up", ""),
    ],
    first=1,
)
def test_the_end_by_a_signal_is_an_error_in_json(name: str, message: str, printed: str) -> None:
    code = 128 + signal.Signals[name]
    run = run_handler(f"os.kill(os.getpid(), signal.{name}); time.sleep(20)", "--json")
    error = {"message": message, "hint": "", "class": "interrupted", "exit_code": code}
    assert answers.error(run.stdout) == error
    assert (run.returncode, run.stderr) == (code, printed)


@pytest.mark.full
@cases("name", ["SIGINT", "SIGTERM", "SIGHUP"], first=1)
def test_a_signal_ignored_from_the_start(name: str) -> None:
    """As by nohup, and by a shell for what it starts in the background."""
    run = run_handler(f"os.kill(os.getpid(), signal.{name}); print('went on')", ignored=name)
    assert (run.returncode, run.stdout, run.stderr) == (0, "went on\n", "")


def test_a_signal_after_the_result() -> None:
    body = "console.result({'a': 1}, '')\nos.kill(os.getpid(), signal.SIGTERM); time.sleep(20)"
    run = run_handler(body, "--json")
    assert json.loads(run.stdout)["results"] == [{"a": 1}]
    assert (run.returncode, run.stderr) == (143, "terminated\n")


def test_an_interrupt_before_the_command_in_json() -> None:
    code = (
        "import os, signal, sys\n"
        "from hil import cli\n"
        "from hil.cli import console\n"
        "console.open_closed_streams = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['hil', 'boards', '--json']\n"
        "sys.exit(cli.main())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert answers.error(run.stdout)["exit_code"] == run.returncode == 130


def test_a_failure_after_an_interrupt() -> None:
    """A library that makes an error of it, or a child that the same Ctrl-C ended."""
    run = run_handler(
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(20)\n"
        "except KeyboardInterrupt:\n"
        "    raise RuntimeError('the child ended')\n"
    )
    assert (run.returncode, run.stderr) == (130, "interrupted\n")


INTERRUPTED = [
    ("doctor -v", ""),
    ("verify tiny.tflite --board mps2-an386 --samples 100000 -v", "started QEMU"),
    ("bench tiny.tflite --board mps2-an386 --runs 100000 -v", "started QEMU"),
    ("monitor tiny.tflite --board mps2-an386 -v", "listening to"),
    ("lab serve mps2-an386", "LG_COORDINATOR="),
]


def _has_begun(pid: int) -> bool:
    """Whether a command handles SIGTERM, which Python by itself does not."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.split("SigCgt:")[1].split()[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(("line", "sign"), sampled(INTERRUPTED, keep=INTERRUPTED[:2]))
def test_ctrl_c_ends_a_command_and_its_children(line: str, sign: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hil", *line.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        shown = ""
        while sign and sign not in shown:
            shown += process.stdout.readline() or pytest.fail(f"it ended: {shown}")
        if not sign:
            until(lambda: _has_begun(process.pid), "main")
        # Without a sign, amid the imports of the command.
        time.sleep(0.05 if sign else 0.2)
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        shown += process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert process.returncode == 130, shown
    assert shown.endswith("interrupted\n")
    assert "Traceback" not in shown
    assert not psutil.wait_procs(children, timeout=60)[1]


def test_several_boards_are_one_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In their order; one that fails leaves the others their turn, and the worst code counts."""
    boards = "--board native --board lm3s6965evb --board mps2-an386"
    assert main(f"verify huge.tflite {boards} --samples 1 --json".split()) == 3
    report = answers.answer(capsys.readouterr().out)
    found = report["results"]
    assert [entry["board"] for entry in found] == boards.replace("--board ", "").split()
    assert [entry["model"] for entry in found] == ["huge"] * 3
    assert report["exit_code"] == 3
    assert [entry.get("match") for entry in found] == [True, None, True]
    assert found[1]["error"]["class"] == "build"
    boards = "--board native --board lm3s6965evb"
    assert main(f"build tiny.tflite {boards} -o {tmp_path}/out".split()) == 0
    folders = [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()]
    assert sorted(folders) == ["lm3s6965evb", "native"]
    # A difference outranks a match; each text is shown with its board.
    line = "verify tiny.tflite --board native --board mps2-an386 --inputs x.npz --expect {}"
    np.savez(tmp_path / "wrong.npz", y=np.full((3, 4), 99, np.int8))
    capsys.readouterr()
    assert main(line.format(tmp_path / "wrong.npz").split()) == 1
    out = capsys.readouterr().out
    assert "tiny on native: DIFFER" in out
    assert "\n\ntiny on mps2-an386: DIFFER" in out


@cases(
    ("line", "expected"),
    [
        ("hil ver", ["verify"]),
        ("hil verify tiny.tflite --per", ["--per-layer"]),
        ("hil verify tiny.tflite --board nucleo-l47", ["nucleo-l476rg"]),
        ("hil compile tiny.tflite --optimize s", ["speed", "size"]),
        ("hil tvmc compile --executor-aot-u", ["--executor-aot-unpacked-api"]),
    ],
    first=1,
)
def test_shells_complete_the_line(line: str, expected: list[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    subprocess.run([sys.executable, "-m", "hil"], env=environment, timeout=60, check=True)
    words = [word.strip() for word in answer.read_text(encoding="utf-8").split("\n")]
    assert words[: len(expected)] == expected


@cases("shell", ["bash", "zsh", "fish"], first=1)
def test_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell, "--json"]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script.strip() == report["script"].strip()
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
