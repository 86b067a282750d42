"""Every block of every document does what the document says: commands, their output, Python."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import float_networks
import models
import numpy as np
import onnx
import pytest
import small_models
import transcripts
from documents import (
    ROOT,
    SHOWN_ONLY,
    Block,
    Command,
    blocks,
    documents,
    plain,
    with_todays_figures,
)
from firmware_app import build_app

import hilc
from hil.cli.command_line import build_parser
from hilc.support.toml import tomllib

DOCUMENTS = documents()
#: What everybody reads first; ``make test-full`` runs the others. The words of the commands of all
#: are checked by ``make test``.
FIRST = {ROOT / "README.md", ROOT / "examples" / "digits" / "README.md"}
#: A command takes at most as long; the longest measures every kernel of a model.
LIMIT_S = 240
RUN = ("console", "sh")
SHOWN = (*RUN, "python", "c")
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"


def is_parsed_only(block: Block) -> bool:
    return block.mark.startswith("only parsed: ")


def ran(path: Path) -> list[Block]:
    return [block for block in blocks(path) if not block.mark.startswith("not run: ")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_block_is_one_that_is_run(path: Path) -> None:
    """No command hides in a block that nothing runs, or in indented text."""
    text = path.read_text(encoding="utf-8")
    for block in blocks(path):
        assert block.language in (*SHOWN, *SHOWN_ONLY, "toml"), block
        if block.language in SHOWN_ONLY:
            first = block.text.split(maxsplit=1)[:1]
            assert first not in (["hil"], ["$"], ["python"], ["make"]), f"{block}: say console"
    assert not re.search(r"^ +(```|(\$ )?hil )", text, re.MULTILINE), f"{path}: use a fenced block"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path in FIRST else pytest.mark.full)
        for path in DOCUMENTS
        if any(b.language in SHOWN for b in ran(path))
    ],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_what_a_document_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [block for block in ran(path) if block.language in SHOWN]
    folder = workplace(path, tmp_path, "\n".join(block.text for block in shown))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv(
        "PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    with Background() as background:
        for block in shown:
            if block.language == "python":
                execute(block, folder)
                continue
            if block.language == "c":
                compile_c(block, folder)
                continue
            for command in block.commands:
                if is_parsed_only(block):
                    parse(block, command)
                elif command.line.partition("#")[0].rstrip().endswith("&"):
                    background.start(command.line.partition("#")[0].rstrip(" &"))
                elif block.mark == "until Ctrl-C" and command == block.commands[-1]:
                    interrupt(block, command)
                else:
                    run(block, command)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_exists_with_its_options(path: Path) -> None:
    for block in ran(path):
        for command in block.commands if block.language in RUN else ():
            if not command.fails:
                parse(block, command)


@pytest.mark.parametrize(
    "block", [b for p in DOCUMENTS for b in ran(p) if b.language == "toml"], ids=str
)
def test_toml_is_toml(block: Block) -> None:
    assert tomllib.loads(block.text)


def link(target: Path) -> Callable[[Path], None]:
    return lambda place: place.symlink_to(target)


def link_model(name: str, place: Path) -> None:
    place.symlink_to(models.model_path(name))


def write_inputs(place: Path) -> None:
    np.savez(place, x=np.ones((1, 8, 8, 3), np.int8))


def write_broken(place: Path) -> None:
    """A library whose code writes where nothing is."""
    folder = place.with_suffix("")
    hilc.compile(DIGITS, cpu="cortex-m4", name="broken").save(folder)
    (source,) = folder.glob("codegen/host/src/*_lib1.c")
    text = source.read_text(encoding="utf-8")
    body = text.index("{", text.rindex("int32_t tvmgen_broken___tvm_main__(")) + 1
    crash = "*(volatile uint32_t *)(uintptr_t)0xF0000000u = 1;"
    source.write_text(f"{text[:body]}\n    {crash}\n{text[body:]}", encoding="utf-8")
    hilc.ModelLibrary.load(folder).save(place)


def write_net(place: Path) -> None:
    place.write_bytes(small_models.convolutions())


def write_floats(place: Path) -> None:
    """A network in floats as ONNX: a convolution, and a layer over all of it."""
    rng = np.random.default_rng(0)
    arrays = {"w": rng.normal(0, 0.3, (4, 1, 3, 3)), "f": rng.normal(0, 0.2, (144, 5))}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"]),
        onnx.helper.make_node("Relu", ["c"], ["r"]),
        onnx.helper.make_node("Flatten", ["r"], ["v"]),
        onnx.helper.make_node("MatMul", ["v", "f"], ["y"]),
    ]
    told = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "net",
        [told("x", onnx.TensorProto.FLOAT, [1, 1, 8, 8])],
        [told("y", onnx.TensorProto.FLOAT, [1, 5])],
        [onnx.numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), place)


def write_calibration(place: Path) -> None:
    values = np.random.default_rng(1).normal(size=(20, 1, 1, 8, 8))
    np.savez(place, x=values.astype(np.float32))


def unpack_sklearn(name: str, place: Path) -> None:
    """A classifier of scikit-learn, or samples or labels for it (tools/sklearn_models.py)."""
    with tarfile.open(ROOT / "tests" / "sklearn_models.tar.xz") as archive:
        file = archive.extractfile(name)
        assert file is not None
        place.write_bytes(file.read())


def write_float_file(place: Path) -> None:
    place.write_bytes(float_networks.network().build())


def write_images(place: Path) -> None:
    np.save(place, float_networks.images())


#: What makes the files that documents name and do not make.
GIVEN: dict[str, Callable[[Path], object]] = {
    "digits.tflite": link(DIGITS),
    "digits_test.npz": link(DIGITS.with_name("digits_test.npz")),
    "digits_labels.npy": link(DIGITS.with_name("digits_labels.npy")),
    "model.tflite": link(DIGITS),
    "net.tflite": write_net,
    "net.onnx": write_floats,
    "calibration.npz": write_calibration,
    "float.tflite": write_float_file,
    "images.npy": write_images,
    "x.npz": write_inputs,
    "forest.onnx": partial(unpack_sklearn, "forest.onnx"),
    "words.onnx": partial(unpack_sklearn, "text_forest.onnx"),
    "x_test.npy": partial(unpack_sklearn, "x.npy"),
    "y_test.npy": partial(unpack_sklearn, "forest.npy"),
    "y_words.npy": partial(unpack_sklearn, "text_forest.npy"),
    "broken.tar": write_broken,
    "app.elf": lambda path: build_app("console_app", path.parent).rename(path),
    "unity.elf": lambda path: build_app("unity_app", path.parent).rename(path),
    "zephyr.elf": lambda path: build_app("ztest_app", path.parent).rename(path),
    **{f"{name}.tflite": partial(link_model, name) for name in models.INT8_MODELS},
}


def workplace(path: Path, tmp_path: Path, text: str) -> Path:
    """A folder with what the document's commands take: a copy of its own, for examples."""
    folder = tmp_path / "work"
    is_example = path.is_relative_to(ROOT / "examples")
    if is_example:
        # Siblings too: an example may use another one's files.
        for sibling in (ROOT / "examples").iterdir():
            (folder / sibling.name).mkdir(parents=True)
            for file in sibling.iterdir():
                if file.is_file():
                    (folder / sibling.name / file.name).symlink_to(file)
        folder = folder / path.parent.name
    else:
        folder.mkdir()
    for name, make in GIVEN.items():
        if name in text and not (folder / name).exists():
            make(folder / name)
    if not is_example:
        (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def run(block: Block, command: Command) -> None:
    """Runs a command to its end, and looks for what the document says that it prints."""
    name = str(block.path.relative_to(ROOT)).replace("/", "-")
    transcripts.write_json(name, command.line, Path.cwd())
    done = subprocess.run(
        ["bash", "-c", command.line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    told = done.stdout + done.stderr
    transcripts.write(name, command.line, Path.cwd(), done.returncode, done.stdout, done.stderr)
    assert (done.returncode != 0) == command.fails, f"{block}: $ {command.line}\n{told}"
    assert done.returncode != 70, f"{block}: $ {command.line}\n{told}"
    compare(block, command, told)


def compare(block: Block, command: Command, told: str) -> None:
    rest = plain(told)
    for piece in command.printed:
        _, found, rest = rest.partition(piece)
        if found:
            continue
        today = with_todays_figures(command.output, told)
        if today != command.output and os.environ.get("HIL_UPDATE_DOCUMENTS"):
            text = block.path.read_text(encoding="utf-8")
            block.path.write_text(text.replace(command.output, today), encoding="utf-8")
            return
        pytest.fail(
            f"{block}: $ {command.line}\nprints\n{told}\nand not\n{piece}\n"
            "HIL_UPDATE_DOCUMENTS=1 accepts other figures"
        )


def parse(block: Block, command: Command) -> None:
    """The words of a command of ``hil``; others are not checked."""
    words = shlex.split(command.line.rstrip(" &"), comments=True)
    if words[:1] == ["hil"] and not {"|", ">", "&&"} & set(words):
        try:
            build_parser(words[1:]).parse_args(words[1:])
        except SystemExit:
            pytest.fail(f"{block}: {command.line}")


def interrupt(block: Block, command: Command) -> None:
    """Starts a command, waits until it printed what the document says, and presses Ctrl-C."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command.line}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lines.extend, args=(process.stdout,))
    reader.start()
    try:
        last = command.printed[-1].split()[-1] if command.printed else ""
        end = time.monotonic() + LIMIT_S
        while process.poll() is None and time.monotonic() < end:
            if lines and last in "".join(lines):
                break
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(LIMIT_S)
        reader.join(LIMIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    told = "".join(lines)
    assert process.returncode in (0, 130, -signal.SIGINT), f"{block}: $ {command.line}\n{told}"
    assert "Traceback" not in told
    compare(block, command, told)


def execute(block: Block, folder: Path) -> None:
    """Runs Python in a process of its own; what has tests, with pytest."""
    script = folder / f"block_{block.line}_test.py"
    script.write_text(block.text, encoding="utf-8")
    is_tests = "\ndef test_" in f"\n{block.text}"
    # Not -q, which counts skipped subtests as well: tests of a firmware that it left out.
    words = ["-m", "pytest", "-p", "no:cacheprovider"] if is_tests else []
    done = subprocess.run(
        [sys.executable, *words, script.name],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{block}:\n{done.stdout}{done.stderr}"
    if is_tests:
        assert "passed" in done.stdout
        assert "skipped" not in done.stdout


def compile_c(block: Block, folder: Path) -> None:
    """Compiles C against the headers of the libraries that the document's commands have made."""
    headers = [p for name in ("codegen/host", "runtime") for p in folder.glob(f"*/{name}/include")]
    source = folder / f"block_{block.line}.c"
    source.write_text(block.text, encoding="utf-8")
    words = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    words += [f"-I{header}" for header in headers]
    done = subprocess.run([*words, source.name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block}:\n{done.stderr}"


class Background:
    """Commands that a document starts with ``&``; they end with the document."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Background:
        return self

    def start(self, line: str) -> None:
        self._processes.append(
            subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            assert process.poll() is None, "what runs in the background has ended by itself"
            os.killpg(process.pid, signal.SIGINT)
        for process in self._processes:
            process.wait(LIMIT_S)
