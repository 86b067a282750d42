"""The commands with real firmware: results, exit codes, and that nothing is left running."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answers
import models
import numpy as np
import psutil
import pytest
from campaigns import cases
from waiting import PATIENCE_S

import hilc.host
from hil.access import start
from hil.board import load_board
from hil.build import build
from hil.cli import main
from hil.firmware.sources import ModelOptions, ModelSource, load_library

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
#: Loading this machine may take a while; what is waited for comes much sooner.


def hil_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """The only entry of a command's answer, all of several, or the error that ended it."""
    assert main([*words, "--json"]) == code
    return answers.result(capsys.readouterr().out)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An input of the digits model."""
    path = tmp_path / "image.npy"
    np.save(path, np.load(DIGITS.parent / "digits_test.npz")["image"][:1])
    return path


def host_outputs(image: Path) -> dict[str, Any]:
    """What the same model gives in this process."""
    with hilc.host.load(hilc.compile(DIGITS)) as model:
        model.set_input(0, np.load(image))
        model.run()
        return {tensor.name: model.get_output(tensor.name) for tensor in model.outputs}


@cases("board", ["native", "mps2-an386", "riscv-virt"], first=1)
def test_run(board: str, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.npz"
    words = ["run", str(DIGITS), "--board", board, "--input", f"image={image}", "-o", str(out)]
    report = hil_json(capsys, *words)
    expected = host_outputs(image)
    with np.load(out) as arrays:
        assert {name: arrays[name].tolist() for name in arrays} == {
            name: array.tolist() for name, array in expected.items()
        }
    assert [(o["name"], o["values"]) for o in report["outputs"]] == [
        (name, array.ravel().tolist()) for name, array in expected.items()
    ]
    assert report["counter"] == ("nanoseconds" if board == "native" else "instructions")
    if board != "native":
        assert hil_json(capsys, *words) == report


def test_verify_against_outputs_from_a_file(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, right, wrong = (tmp_path / name for name in ("in.npz", "right.npz", "wrong.npz"))
    outputs = host_outputs(image)
    (name,) = outputs
    np.savez(inputs, image=np.load(image))
    np.savez(right, **outputs)
    outputs[name] = outputs[name].copy()
    outputs[name][0, 3] ^= 1
    np.savez(wrong, **outputs)
    words = ["verify", str(DIGITS), "--board", "native", "--inputs", str(inputs), "--expect"]
    assert hil_json(capsys, *words, str(right))["match"]
    report = hil_json(capsys, *words, str(wrong), code=1)
    assert not report["match"]
    assert report["outputs"][0]["mismatches"] == 1
    assert report["first_difference"]["position"] == [0, 3]
    assert report["reference"] == "expect"


def test_a_wrong_kernel_is_found_at_its_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The generated C of one layer is changed; the saturated output alone would not tell."""
    archive = tmp_path / "digits"
    library = load_library(ModelSource(DIGITS, "digits"), ModelOptions("host"))
    broken = library.modules[0].layers[2]
    library.save(archive)
    source = archive / "codegen/host/src/digits_lib1.c"
    text = source.read_text()
    end = text.index("return 0;", text.index(f"int32_t {broken.function}("))
    source.write_text(f"{text[:end]}((int8_t *)output0)[1] ^= 1;\n    {text[end:]}")
    report = hil_json(
        capsys, "verify", str(archive), "--board", "native", "--per-layer", "--samples", "1", code=1
    )
    first = report["first_different_layer"]
    assert (first["index"], first["name"], first["op"]) == (2, broken.name, broken.op)
    assert abs(first["expected"] - first["got"]) == 1


def test_several_models(capsys: pytest.CaptureFixture[str]) -> None:
    report = hil_json(
        capsys, "verify", f"a={DIGITS}", f"b={DIGITS}", "--board", "native", "--samples", "2"
    )
    assert [(m["model"], m["match"], m["samples"]) for m in report] == [
        ("a", True, 2),
        ("b", True, 2),
    ]


def test_bench_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    report = hil_json(capsys, "bench", str(DIGITS), "--board", "mps2-an386", "--per-layer")
    assert set(report) >= {
        "model",
        "board",
        "counter",
        "per_inference",
        "model_flash_bytes",
        "firmware_flash_bytes",
        "workspace_bytes",
        "state_bytes",
        "io_bytes",
        "ram_bytes",
        "stack_peak_bytes",
        "layers",
    }
    assert all(list(layer) == ["name", "op", "macs", "count"] for layer in report["layers"])
    assert main(["bench", str(DIGITS), "--board", "mps2-an386", "--per-layer"]) == 0
    out = capsys.readouterr().out
    assert "instructions (QEMU), not cycles" in out
    assert "CONV_2D" in out


def test_build_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "project"
    report = hil_json(capsys, "build", str(DIGITS), "--board", "microbit", "-o", str(folder))
    assert Path(report["elf"]).read_bytes()[:4] == b"\x7fELF"
    assert report["folder"] == str(folder)
    flash = next(region for region in report["regions"] if region["name"] == "flash")
    assert flash["used_bytes"] == report["flash_bytes"] < flash["bytes"]
    assert [model["model"] for model in report["models"]] == ["digits"]


def test_a_firmware_that_runs_already(capsys: pytest.CaptureFixture[str]) -> None:
    board = load_board("native")
    library = load_library(ModelSource(DIGITS, None), ModelOptions(board.cpu.name))
    with start(board, build([library], board)) as running:
        words = ["verify", str(DIGITS), "--board", "native", "--port", running.url]
        assert hil_json(capsys, *words, "--samples", "2")["match"]


def test_monitor(capsys: pytest.CaptureFixture[str]) -> None:
    report = hil_json(capsys, "monitor", "--board", "mps2-an386", "--seconds", "1")
    assert report["lines"][0]["kind"] == "boot"


# -- what ends in the middle -------------------------------------------------------------------


@contextlib.contextmanager
def long_run() -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A measurement that takes minutes, and the emulator in which it is under way."""
    words = ("bench", str(models.model_path("kws")), "--board", "mps2-an386", "--runs", "100000")
    process = subprocess.Popen(
        [sys.executable, "-m", "hil.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, _busy_emulator(process)
    finally:
        process.kill()
        process.communicate()


def _busy_emulator(process: subprocess.Popen[str]) -> psutil.Process:
    """Waits until the emulator has computed for a second: it is amid a run then."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.name().startswith("qemu") and child.cpu_times().user > 1:
                    return child
        time.sleep(0.05)
    raise AssertionError(f"no emulator was busy within {PATIENCE_S} s")


def test_the_emulator_is_killed_amid_a_run() -> None:
    with long_run() as (process, emulator):
        emulator.kill()
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4
    assert out == ""
    assert "error: QEMU ended: signal 9 (SIGKILL)" in err
    assert "Traceback" not in err
    assert not emulator.is_running()


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "terminated\n")],
)
def test_the_command_is_ended_amid_a_run(number: int, code: int, message: str) -> None:
    with long_run() as (process, emulator):
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert (out, err) == ("", message)
    assert not emulator.is_running()


@pytest.mark.full  # It changes rarely, and takes long.
def test_the_command_is_killed_amid_a_run() -> None:
    """Nothing of ours can run any more then; the kernel ends the emulator."""
    with long_run() as (process, emulator):
        process.kill()
        assert emulator.wait(PATIENCE_S) is None
    assert not emulator.is_running()
