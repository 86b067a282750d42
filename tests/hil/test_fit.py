"""`hil fit`: what it says of boards is what their builds take."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import answers
import numpy as np
import pytest
from models import model_path
from single_op import random_op

import hil
from hil.board import load_board
from hil.build import build
from hil.cli import main
from hil.cli.fit_report import _of
from hil.errors import InputError
from hil.firmware.fit import UNKNOWN_BYTES
from hil.firmware.fitting import fit
from hil.firmware.placement import static_bytes
from hil.firmware.sources import ModelOptions, ModelSource, load_sources
from hil.results.codec import decode, encode
from hil.results.fit import FitEntry, ProgramFit
from hilc.errors import LimitError
from hilc.options import CompileOptions

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"


@pytest.fixture(scope="module")
def digits() -> FitEntry:
    return fit(DIGITS, ["stm32vldiscovery", "microbit", "disco-f746ng"])


@pytest.mark.parametrize(
    "index", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)]
)
def test_sizes_are_those_of_a_build(digits: FitEntry, index: int) -> None:
    said = digits.boards[index]
    board = load_board(said.board)
    assert [p.optimize for p in said.programs] == ["balanced", "ram", "size", "speed"]
    for program in said.programs:
        options = ModelOptions(board.cpu.name, given={"optimize": program.optimize}, board=board)
        sizes = build(load_sources([ModelSource(DIGITS, None)], options), board).sizes
        ram = sizes.ram_bytes + sizes.stack_bytes + sizes.handler_stack_bytes
        assert 0 <= ram - program.ram_with_stacks_bytes <= digits.ram_error_bytes
        model = sizes.models["digits"].flash_bytes
        error = digits.flash_error * model
        assert program.flash_bytes == pytest.approx(sizes.flash_bytes, abs=error)
        assert program.fits == "yes"


def test_ram_of_float_functions(tmp_path: Path) -> None:
    """They bring data of the C library."""
    model = tmp_path / "softmax.tflite"
    model.write_bytes(random_op(np.random.default_rng(1), "SOFTMAX", "float32").tflite())
    entry = fit(model, ["nucleo-f401re"])
    board = load_board("nucleo-f401re")
    libraries = load_sources([ModelSource(model, None)], ModelOptions(board.cpu.name, board=board))
    sizes = build(libraries, board).sizes
    ram = sizes.ram_bytes + sizes.stack_bytes + sizes.handler_stack_bytes
    beside = ram - entry.boards[0].programs[0].ram_with_stacks_bytes
    assert 128 < beside <= entry.ram_error_bytes


def test_ram_with_stacks_has_a_name_of_its_own(digits: FitEntry) -> None:
    """`ram_bytes` is the static RAM elsewhere; files that had that name here are still read."""
    program = digits.boards[0].programs[0]
    data = encode(program)
    assert "ram_bytes" not in data
    data["ram_bytes"] = data.pop("ram_with_stacks_bytes")
    assert decode(ProgramFit, data, "fit") == program


def test_smallest_is_a_real_board(digits: FitEntry) -> None:
    # The other one has less RAM, and no flasher.
    assert digits.smallest == "microbit"


@pytest.mark.parametrize("cpu", ["cortex-m0", pytest.param("cortex-m55", marks=pytest.mark.full)])
def test_the_least_ram_of_a_chip_is_accepted(cpu: str) -> None:
    """The bytes that a refusal states may suffice, and one less do not."""
    refused = fit(DIGITS, cpu=cpu, ram=1024, flash=1 << 20).boards[0]
    stated = re.search(r"RAM: at least ([\d,]+) bytes", refused.reason)
    assert stated is not None
    least = int(stated[1].replace(",", ""))
    said = {ram: fit(DIGITS, cpu=cpu, ram=ram, flash=1 << 20) for ram in (least - 1, least)}
    assert [entry.boards[0].fits for entry in said.values()] == ["no", "maybe"]


@pytest.mark.full
@pytest.mark.parametrize("kilobytes", [30, 34, 60])
def test_options_are_accepted_as_printed(kilobytes: int) -> None:
    """Of a chip whose flash and RAM no goal alone keeps."""
    entry = fit(DIGITS, cpu="cortex-m4", ram=10_500, flash=kilobytes * 1024).boards[0]
    assert entry.best is not None
    program = entry.programs[entry.best]
    given = dict(zip(program.options[::2], map(int, program.options[1::2]), strict=True))
    limits = {name.removeprefix("--"): value for name, value in given.items()}
    board = load_board("mps2-an386")
    options = ModelOptions(board.cpu.name, given=limits, board=board)
    (library,) = load_sources([ModelSource(DIGITS, None)], options)
    assert library.modules[0].workspace_bytes <= limits["ram"]
    assert build([library], board).sizes.models["digits"].flash_bytes <= limits["flash"]


def test_least_ram_is_that_of_a_whole_input() -> None:
    """A remedy takes less than what is said to be needed at least: it feeds the input by rows."""
    model = model_path("vww")
    refused = fit(model, cpu="cortex-m4", ram=24 << 10, flash=1 << 20).boards[0]
    needed = re.search(r"RAM: at least ([\d,]+) bytes needed with the input as a w", refused.reason)
    (remedy,) = refused.remedies
    taken = re.search(r"--feed rows --optimize ram takes ([\d,]+) bytes", remedy)
    assert needed is not None
    assert taken is not None
    least, less = (int(found[1].replace(",", "")) for found in (needed, taken))
    assert less <= 24 << 10 < least


@pytest.mark.parametrize(
    ("needed", "had", "shown"),
    [
        (9_300, 9_800, "9,300 of 9,800 B"),
        (9_800, 9_300, "10 of 9"),
        (9_801, 9_800, "10 of 9"),
        (9_216, 9_216, "9 of 9"),
        (9_000, 10_240, "9 of 10"),
    ],
)
def test_rounded_sizes_never_deny_a_fit(needed: int, had: int, shown: str) -> None:
    assert _of(needed, had) == shown


def test_one_byte_decides() -> None:
    """The least RAM that is said to suffice does, and 16 bytes less do not."""
    (board,) = fit(DIGITS, cpu="cortex-m0", ram=8192, flash=65536).boards
    assert board.fits == "yes"
    least = min(program.ram_with_stacks_bytes for program in board.programs)
    ram = least + UNKNOWN_BYTES
    (fitting,) = fit(DIGITS, cpu="cortex-m0", ram=ram, flash=65536).boards
    assert fitting.fits == "yes"
    (other,) = fit(DIGITS, cpu="cortex-m0", ram=4096, flash=65536).boards
    assert (other.fits, other.best) == ("no", None)
    assert "sets the peak" in other.reason


def test_flash_within_the_error_of_the_estimate() -> None:
    (board,) = fit(DIGITS, cpu="cortex-m0", ram=16384, flash=65536).boards
    flash = min(program.flash_bytes for program in board.programs)
    (tight,) = fit(DIGITS, cpu="cortex-m0", ram=16384, flash=flash).boards
    (size,) = [program for program in tight.programs if program.optimize == "size"]
    assert size.fits == "maybe"
    if tight.fits == "maybe":  # no limit finds a program that is smaller still
        assert "an estimate that may be off" in tight.reason
        assert tight.remedies == ("hil build says for certain",)


@pytest.mark.parametrize("ram", [64, 4096])
def test_the_least_ram_is_that_of_a_limit(ram: int) -> None:
    """The smallest workspace is the one that the compiler's own refusal states."""

    def compiled(limit: int) -> list[hil.ModelLibrary]:
        options = ModelOptions("cortex-m0", given={"ram": limit})
        return load_sources([ModelSource(DIGITS, None)], options)

    with pytest.raises(LimitError) as refused:
        compiled(0)
    least = refused.value.least_ram
    assert least is not None
    (board,) = fit(DIGITS, cpu="cortex-m0", ram=ram, flash=1 << 20).boards
    needed, own = re.findall(r"([\d,]+) (?:bytes needed|of them)", board.reason)
    models = sum(static_bytes(compiled(least)[0].modules, "own").values())
    assert int(needed.replace(",", "")) - int(own.replace(",", "")) == models


def test_limits_are_tried_where_no_goal_fits() -> None:
    """A chip with the RAM that `speed` takes less a block: only a limit finds a program."""
    (board,) = fit(DIGITS, cpu="cortex-m0", ram=16384, flash=1 << 20).boards
    least = min(program.ram_with_stacks_bytes for program in board.programs)
    (tight,) = fit(DIGITS, cpu="cortex-m0", ram=least - 16, flash=1 << 20).boards
    assert all(p.fits != "yes" for p in tight.programs if p.optimize is not None)
    limited = [p for p in tight.programs if p.optimize is None]
    assert all("--ram" in p.options for p in limited)
    assert (tight.fits == "no") == (not limited)


def test_weights_beyond_the_flash() -> None:
    (board,) = fit(DIGITS, cpu="cortex-m4", ram=65536, flash=12288).boards
    assert board.fits == "no"
    assert board.reason.startswith("flash: about ")
    assert "the weights take" in board.reason


def test_all_boards_with_the_first_goal_that_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hil.firmware.fitting.board_names", lambda: ("microbit", "native", "nucleo-f401re")
    )
    assert main(["fit", str(DIGITS), "--json"]) == 0
    entry = answers.entry(capsys.readouterr().out)
    assert [board["board"] for board in entry["boards"]] == ["microbit", "nucleo-f401re"]
    assert [len(board["programs"]) for board in entry["boards"]] == [1, 1]


def test_what_libraries_may_add_is_no_yes() -> None:
    """Floats without a unit need functions that the estimate does not know."""
    (board,) = fit(DIGITS, cpu="cortex-m0", ram=16384, flash=1 << 20).boards
    flash = min(program.flash_bytes for program in board.programs)
    (tight,) = fit(DIGITS, cpu="cortex-m0", ram=16384, flash=int(flash * 1.25) + 1024).boards
    (size,) = [program for program in tight.programs if program.optimize == "size"]
    assert size.fits == "maybe"


def test_no_toolchain_is_needed(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "HIL_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "hil", "fit", str(DIGITS), "--board", "microbit"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert "digits fits microbit" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "fit.html"
    line = ["fit", str(DIGITS), "--board", "microbit", "-o", str(page)]
    assert main(line) == 0
    assert "digits fits 1 of 1 board" in page.read_text(encoding="utf-8")
    assert main(line) == 0, "its own page is replaced"
    page.write_text("mine", encoding="utf-8")
    assert main(line) == 2
    assert page.read_text(encoding="utf-8") == "mine"


def test_nothing_fits_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["fit", str(DIGITS), "--cpu", "cortex-m0", "--ram", "2K", "--flash", "8K"]
    assert main(line) == 1
    text = capsys.readouterr().out
    assert "digits does not fit cortex-m0 chip" in text
    assert "RAM: at least" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cpu", "cortex-m4"], "a chip is described without ram and flash"),
        (["--board", "native"], "native is this machine, which has no limits"),
        (["--board", "microbit", "--ram", "8K"], "ram describes a chip, and boards are given"),
        (["--cpu", "host", "--ram", "8K", "--flash", "8K"], "host is this machine"),
        (["--cpu", "rv32imafc", "--ram", "8K", "--flash", "8K"], "no board has the core"),
        (["--optimize", "ram"], "--optimize"),
    ],
)
def test_refusals(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(DIGITS), *words]) == 2
    assert message in capsys.readouterr().err


def test_what_is_compiled_already_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "digits.tar"
    hil.compile(DIGITS, cpu="cortex-m4").save(archive)
    with pytest.raises(InputError, match="compiled already"):
        hil.fit(archive)
    with pytest.raises(InputError, match="which hil.fit looks for"):
        hil.fit(DIGITS, optimize="ram")


def test_one_search_compiles_what_each_alone_does() -> None:
    from hilc.compiler import Compiler

    options = CompileOptions(cpu="cortex-m4", pools="external", io_in_pool=True)
    shared = Compiler(DIGITS, options)
    for goal in ("size", "speed", "balanced", "ram"):
        alone = hil.compile(
            DIGITS, cpu="cortex-m4", pools="external", io_in_pool=True, optimize=goal
        )
        assert shared.compile(goal).files == alone.files
