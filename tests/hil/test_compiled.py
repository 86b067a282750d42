"""A model that was compiled before is not compiled again, and nobody can tell but by the time."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any, cast

import answers
import pytest
from campaigns import cases
from small_models import convolutions

import hil.firmware.compiled as compiled_module
import hilc
from hil.cli import main
from hil.errors import HilWarning
from hil.firmware.compiled import compile_model
from hil.support import identity
from hil.support.cache import cache_folder
from hilc.artifact.library import ModelLibrary
from hilc.errors import HilError, InputError
from hilc.lowering.choice import KernelSelection
from hilc.memory.pools import Pin, PoolSpec
from hilc.options import CompileOptions

CPU = "cortex-m4"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, with a cache that is empty."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "net.tflite"
    path.write_bytes(convolutions())
    return path


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What the compiler really compiled."""
    done: list[Path] = []
    real = hilc.compile

    def counted(path: Path, **options: Any) -> ModelLibrary:
        done.append(path)
        return real(path, **options)

    monkeypatch.setattr(hilc, "compile", counted)
    return done


def entry() -> Path:
    (archive,) = (cache_folder() / "libraries").glob("*.tar")
    return archive


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"io_in_pool": True, "pools": "external", "optimize": "speed"},
    {"api": "packed", "interface": "packed", "pools": "calls"},
    {"memory": (PoolSpec("ram", 60_000, "ram"),), "io_in_pool": True, "pins": {"x": Pin(0)}},
    {"ram": 100_000, "codegen": "llvm"},
)


@cases("options", OPTIONS, ids=lambda options: " ".join(options) or "none", first=1)
def test_the_second_time_gives_the_same_library(
    options: dict[str, Any], model: Path, compiles: list[Path]
) -> None:
    if "pins" in options:
        (name,) = (tensor.name for tensor in hilc.compile(model).modules[0].inputs)
        options = {**options, "pins": {name: Pin(0)}}
        compiles.clear()
    first = compile_model(model, CompileOptions(cpu=CPU, **options))
    second = compile_model(model, CompileOptions(cpu=CPU, **options))
    assert compiles == [model]
    assert second == first
    assert dict(second.files) == dict(first.files)
    assert list(second.files) == list(first.files)
    assert second.reports == first.reports
    assert first.reports


@pytest.mark.full
def test_whatever_goes_in_is_in_the_key(
    model: Path, compiles: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(cpu: str = CPU, path: Path = model, **options: Any) -> int:
        compiles.clear()
        compile_model(path, CompileOptions(cpu=cpu, **options))
        return len(compiles)

    assert [compiled(), compiled()] == [1, 0]
    assert compiled(cpu="cortex-m3") == 1
    assert compiled(name="other") == 1
    assert compiled(name="net") == 0, "the file's own name"
    assert compiled(optimize="size") == 1
    assert [compiled(choice=KernelSelection()), compiled(choice=KernelSelection())] == [1, 0]
    other = tmp_path / "other.tflite"
    shutil.copy(model, other)
    assert compiled(path=other) == 0, "compiled by this name before"
    model.write_bytes(model.read_bytes() + b"\0")
    assert compiled() == 1
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    assert compiled() == 1
    monkeypatch.setattr(compiled_module, "compiler_identity", lambda: "another")
    assert compiled() == 1
    assert compiled() == 0


@pytest.mark.parametrize("change", ["nothing", "module", "kernel", "numpy"])
def test_the_compiler_itself_is_in_the_key(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = tmp_path / "hilc", tmp_path / "runtime"
    for source, copy in zip(identity._roots(), copies, strict=True):
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    own = identity.compiler_identity()
    monkeypatch.setattr(identity, "_roots", lambda: copies)
    if change == "numpy":
        monkeypatch.setattr(identity, "version", lambda name: "0.0.0")
    elif change != "nothing":
        name = "hilc/memory/plan.py" if change == "module" else "runtime/include/hil/quant.h"
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
    identity.compiler_identity.cache_clear()
    assert (identity.compiler_identity() == own) == (change == "nothing")
    identity.compiler_identity.cache_clear()


@cases("damage", ["archive cut", "archive gone", "about changed", "a folder"], first=1)
def test_a_damaged_entry_is_compiled_again(damage: str, model: Path, compiles: list[Path]) -> None:
    first = compile_model(model, CompileOptions(cpu=CPU))
    archive = entry()
    about = archive.with_suffix(".json")
    if damage == "archive cut":
        archive.write_bytes(archive.read_bytes()[:-2000])
    elif damage == "archive gone":
        archive.unlink()
    elif damage == "about changed":
        about.write_text(about.read_text().replace('"goal": "', '"goal": "x'))
    else:
        archive.unlink()
        archive.mkdir()
    for _ in range(2):
        again = compile_model(model, CompileOptions(cpu=CPU))
        assert again == first
        assert again.reports == first.reports
    # Where a folder is in the way, the entry cannot be written, and that is nobody's trouble.
    assert len(compiles) == (3 if damage == "a folder" else 2)


@pytest.mark.parametrize("place", ["/proc/none", "/dev/null"])
def test_no_cache_is_needed(place: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_CACHE", place)
    assert compile_model(model, CompileOptions(cpu=CPU)) == hilc.compile(model, cpu=CPU)


@pytest.mark.full
def test_a_cache_writable_by_anybody_is_unused(model: Path, compiles: list[Path]) -> None:
    first = compile_model(model, CompileOptions(cpu=CPU))
    folder = cache_folder()
    before = sorted(folder.rglob("*"))
    folder.chmod(0o777)
    for _ in range(2):
        with pytest.warns(HilWarning, match=r"^nothing is cached: any account .* \(mode 0777\)"):
            assert compile_model(model, CompileOptions(cpu=CPU)) == first
    assert len(compiles) == 3
    assert sorted(folder.rglob("*")) == before


def test_users_code_generators_are_asked_every_time(model: Path, compiles: list[Path]) -> None:
    class Nothing:
        name = "nothing"

        def claim(self, graph: object) -> list[list[int]]:
            return []

    for _ in range(2):
        options: dict[str, Any] = {"externals": (Nothing(),)}
        compile_model(model, CompileOptions(cpu=CPU, **options))
    assert len(compiles) == 2
    assert not (cache_folder() / "libraries").exists()


def test_errors_are_the_compilers_own(model: Path, tmp_path: Path) -> None:
    compile_model(model, CompileOptions(cpu=CPU))  # whose entry is not taken for theirs
    wrong: tuple[dict[str, Any], ...] = (
        {"ram": 1},
        {"tuning": str(tmp_path / "missing.json")},
        {"cpu": "z80"},
    )
    for options in wrong:
        arguments = {"cpu": CPU, **options}
        for _ in range(2):
            with pytest.raises(InputError) as told:
                compile_model(model, CompileOptions(**arguments))
            with pytest.raises(InputError) as own:
                hilc.compile(model, **arguments)
            assert str(told.value) == str(own.value)
    with pytest.raises(HilError, match="the file does not exist"):
        compile_model(tmp_path / "none.tflite", CompileOptions(cpu=CPU))


def test_commands_compile_a_model_once(
    model: Path, compiles: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """bench, then verify, and the files that compile writes are equal to the byte."""
    for command in ("bench", "verify"):
        assert main([command, str(model), "--board", "mps2-an386", "--json"]) == 0
    assert len(compiles) == 1
    archives = []
    for name in ("a.tar", "b.tar"):
        line = ["compile", str(model), "--cpu", CPU, "-o", str(tmp_path / name), "--json"]
        assert main(line) == 0
        archives.append((tmp_path / name).read_bytes())
    assert len(compiles) == 2
    assert archives[0] == archives[1]
    capsys.readouterr()


@pytest.mark.full
def test_processes_that_compile_the_same_at_once_agree(model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hil", "compile", str(model), "--cpu", CPU, "-o"]
    outputs = [tmp_path / f"{index}.tar" for index in range(3)]
    running = [subprocess.Popen([*command, str(o)], stdout=subprocess.DEVNULL) for o in outputs]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len({output.read_bytes() for output in outputs}) == 1
    assert (
        compile_model(model, CompileOptions(cpu=CPU)).files == ModelLibrary.load(outputs[0]).files
    )
    assert not list((cache_folder() / "libraries").glob(".hil-*"))


@pytest.mark.full
def test_long_compiles_show_progress_on_a_terminal(model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hil", "compile", str(model), "--cpu", CPU, "--json", "-o"]
    shown = {}
    for name in ("a.tar", "b.tar"):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        done = subprocess.run(
            [*command, str(tmp_path / name)], stdout=subprocess.PIPE, stderr=theirs, timeout=60
        )
        os.close(theirs)
        shown[name] = read_all(ours)
        assert done.returncode == 0
        assert answers.entry(done.stdout.decode())["model"] == "net"
    assert b"compiling: 0 programs tried, 00:00" in shown["a.tar"]
    assert shown["b.tar"] == b"", "there was nothing to wait for"
    quiet = subprocess.run([*command, str(tmp_path / "c.tar")], capture_output=True, timeout=60)
    assert quiet.stderr == b""


def read_all(terminal: int) -> bytes:
    text = io.BytesIO()
    try:
        while chunk := os.read(terminal, 4096):
            text.write(chunk)
    except OSError:
        pass  # how the end of a terminal is told
    os.close(terminal)
    return text.getvalue()


def test_a_new_option_is_in_the_key_or_refused(model: Path) -> None:
    """Options that JSON does not know are taken apart or not kept, never taken for equal."""
    specs = [dataclasses.replace(PoolSpec("ram", 60_000, "ram"), limit_bytes=n) for n in (1, 2)]
    entries = {
        compiled_module._entry(model, CompileOptions(cpu=CPU, memory=(spec,))) for spec in specs
    }
    assert len(entries) == 2
    options: dict[str, Any] = {"choice": KernelSelection(kernels=cast(Any, {"layer": object()}))}
    with pytest.raises(AssertionError, match="options are"):
        compiled_module._entry(model, CompileOptions(cpu=CPU, **options))
