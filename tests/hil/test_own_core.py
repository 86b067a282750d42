"""A core that does not ship, from its file to a board: nothing in the package knows of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from descriptions import description_text

import hil
import hilc
from hil.board import load_board
from hil.cli import main
from hil.errors import BuildError
from hil.firmware.toolchain import compiler_version
from hilc import interpreter
from hilc.errors import InputError
from hilc.frontends import load_model
from hilc.target import cpu_names, get_cpu, load_cpu
from hilc.target.cores import _ADDED

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
CORES = ROOT / "compiler" / "hilc" / "target" / "cores"
#: A core of an architecture that nobody has heard of, without compressed instructions.
DESCRIPTION = """\
title = "Sparrow"
toolchain = "riscv64-unknown-elf"
arch = "sparrow-1"
features = ["mul32"]
cflags = ["-march=rv32im", "-mabi=ilp32"]
"""


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """What a test adds is known to the rest of the process otherwise."""
    _ADDED.clear()


@pytest.fixture
def core(tmp_path: Path) -> Path:
    path = tmp_path / "sparrow.toml"
    path.write_text(DESCRIPTION)
    return path


@pytest.fixture
def board(core: Path) -> Path:
    """A board with the core, beside its file."""
    path = core.with_name("perch.toml")
    text = description_text("riscv-virt")
    assert 'cpu = "rv32imac"' in text
    path.write_text(text.replace('cpu = "rv32imac"', 'cpu = "sparrow.toml"'))
    return path


def test_a_model_runs_on_an_own_core(board: Path) -> None:
    cpu = load_board(board).cpu
    assert (cpu.name, cpu.arch, cpu.title) == ("sparrow", "sparrow-1", "Sparrow")
    library = hilc.compile(DIGITS, cpu=cpu.name, name="digits", pools="external", io_in_pool=True)
    # The feature alone chose the kernels.
    assert any("kernels/v7m/" in path for path in library.files)
    assert library.modules[0].cpu == "sparrow"
    image = np.load(DIGITS.with_name("digits_test.npz"))["image"][0][np.newaxis]
    with hil.open(board, library) as device:
        model = device["digits"]
        (tensor,) = model.inputs
        model.set_input(tensor.name, image)
        model.run()
        (output,) = interpreter.run(load_model(DIGITS), {tensor.name: image}).values()
        assert np.array_equal(model.get_output(0), output)


def test_the_command_line_takes_its_path(core: Path, tmp_path: Path) -> None:
    archive = tmp_path / "digits.tar"
    assert main(["compile", str(DIGITS), "--cpu", str(core), "-o", str(archive)]) == 0
    assert archive.is_file()


def test_a_folder_of_cores_is_found_by_name(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="unknown CPU 'sparrow'"):
        get_cpu("sparrow")
    monkeypatch.setenv("HIL_CORES", str(core.parent))
    assert "sparrow" in cpu_names()
    assert get_cpu("sparrow") == load_cpu(core)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("title", "titel"), "title: the key is missing"),
        (("arch =", "speed = 3\narch ="), "speed: unknown key"),
        (('"mul32"', '"mul23"'), "unknown feature 'mul23' \\(did you mean mul32"),
        (('"riscv64-unknown-elf"', '"riscv-elf"'), "unknown toolchain 'riscv-elf'"),
        (('["mul32"]', '"mul32"'), "features: 'mul32' is not a list of strings"),
        (("arch = ", "arch "), "not valid TOML"),
    ],
)
def test_what_is_wrong_with_it_is_told(core: Path, change: tuple[str, str], message: str) -> None:
    core.write_text(DESCRIPTION.replace(*change))
    with pytest.raises(InputError, match=message):
        load_cpu(core)


CYCLES = """
[cycles]
source = "a manual"
assumes = "memory without wait states"
access = 2
refill = [1, 3]

[[cycles.slow]]
instructions = ["mla"]
cycles = [2]

[cycles.chip]
name = "a chip"
source = "a publication"
waits = 5
read = 8
line = 32
fetch_lines = 32
data_lines = 8
percent = [90, 112]
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[1, 3]", "[9, 2]"), "cycles.refill: \\[9, 2\\] are no numbers of cycles"),
        (('["mla"]', '["mla", "mla"]'), "'mla' is there twice"),
        (('["mla"]', '["MLA"]'), "'MLA' is no instruction"),
        (("cycles = [2]", "cycles = []"), "\\[\\] are no numbers of cycles"),
        (("access = 2\n", ""), "cycles.access: the key is missing"),
        (("[90, 112]", "[112, 90]"), "percent: \\[112, 90\\] are not two ascending numbers"),
        (("[90, 112]", "[112]"), "percent: \\[112\\] are not two ascending numbers"),
        (("line = 32", "line = 20"), "line: 20 bytes are no multiple of `read`, 8"),
        (("fetch_lines = 32", "fetch_lines = 999"), "999 is not within 1 to 256"),
    ],
)
def test_what_is_wrong_with_its_cycles_is_told(
    core: Path, change: tuple[str, str], message: str
) -> None:
    core.write_text(DESCRIPTION + CYCLES)
    assert load_cpu(core).timing
    core.write_text(DESCRIPTION + CYCLES.replace(*change))
    with pytest.raises(InputError, match=message):
        load_cpu(core)


def test_two_cores_of_one_name(core: Path, tmp_path: Path) -> None:
    load_cpu(core)
    other = tmp_path / "other" / "sparrow.toml"
    other.parent.mkdir()
    shutil.copy(core, other)
    assert load_cpu(other) == load_cpu(core)  # the same twice
    other.write_text(DESCRIPTION.replace("Sparrow", "Finch"))
    with pytest.raises(InputError, match="two different cores are called 'sparrow'"):
        load_cpu(other)
    shipped = tmp_path / "cortex-m4.toml"
    shipped.write_text(DESCRIPTION)
    with pytest.raises(InputError, match="which ships with the compiler"):
        load_cpu(shipped)


def test_an_archive_names_a_core_but_no_file(core: Path) -> None:
    """Whoever wrote it must not choose what is read here."""
    with pytest.raises(InputError, match="unknown CPU"):
        get_cpu(str(core))


@pytest.mark.parametrize("name", sorted(path.stem for path in CORES.glob("*.toml")))
def test_every_shipped_core_is_valid(name: str) -> None:
    cpu = get_cpu(name)
    assert cpu.word == name
    assert cpu.is_host == (name == "host")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["mul32"]', '["mul32", "div", "fpu"]', "features: 'fpu' contradicts cflags: with -march"),
        ("-march=rv32im", "-march=rv32i", "features: 'mul32' contradicts cflags"),
        ("-march=rv32im", "-march=rv99", "rejects the flags -march=rv99"),
    ],
)
def test_contradicting_features_are_named(
    board: Path, core: Path, old: str, new: str, message: str
) -> None:
    core.write_text(DESCRIPTION.replace(old, new))
    with pytest.raises(BuildError, match=message):
        compiler_version(load_board(board))
