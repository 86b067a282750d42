"""Boards whose core is simulated from its RTL."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from campaigns import cases
from tiny_library import tiny_library

import hil
import hilc
from hil.access import chosen_runner
from hil.access.connection import Connection
from hil.access.verilator import build as simulators
from hil.access.verilator import cores
from hil.board import Board, load_board
from hil.cli import main
from hil.device import Device
from hil.errors import BoardError, BuildError, DeviceError, HangError
from hil.link.fault import FaultError
from hil.results.bench import Stalls
from hil.verify.bench import BenchReport, bench

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
BOARDS = ("rtl-ibex", "rtl-cv32e40p", "rtl-vexriscv", "rtl-picorv32", "rtl-cv32e40p-xpulp")
#: What makes a function trap on Ibex, and what is reported; no memory is at 0x30000.
NOWHERE = "*(volatile int32_t *)(uintptr_t)0x30000"
TRAPS = {
    "store": (f"{NOWHERE} = 1;", "store access fault, address 0x00030000"),
    "load": (f"(void){NOWHERE};", "load access fault, address 0x00030000"),
    "illegal": ('__asm volatile(".word -1");', "illegal instruction, instruction 0xffffffff"),
    "flash": ("*(volatile int32_t *)(uintptr_t)inner_flash = 1;", "store access fault"),
}
#: A core that does nothing: quick to build.
IDLE = """\
module hil_rtl #(parameter int WIDTH = 1) (
  input clk, input rst_n,
  output i_req, input i_gnt, input i_rvalid, output [31:0] i_addr, input [31:0] i_rdata,
  input i_err, output d_req, input d_gnt, input d_rvalid, output d_we, output [3:0] d_be,
  output [31:0] d_addr,
  output [31:0] d_wdata, input [31:0] d_rdata, input d_err, output retired, output halted
);
  assign {i_req, i_addr, d_req, d_we, d_be, d_addr, d_wdata, retired} = '0;
  assign halted = HALTED;
endmodule
"""
DESCRIPTION = """\
title = "Idle"
verilog = []
wrapper = "idle.sv"
bus = "obi"
"""


@pytest.fixture(scope="module")
def ibex() -> Iterator[Device]:
    cpu = load_board("rtl-ibex").cpu.name
    libraries = [
        tiny_library(
            f"inner_{name}(x); y[0] = x[0];",
            name=name,
            cpu=cpu,
            globals_=f"""
__attribute__((noinline)) void inner_{name}(const int32_t *x);
void inner_{name}(const int32_t *x) {{
    if (x[0] == 7) {{ {body} }}
    __asm volatile("");
}}
""",
        )
        for name, (body, _) in {**TRAPS, "loop": ('for (;;) { __asm volatile(""); }', "")}.items()
    ]
    # The simulated core gets twenty times as long.
    with hil.open("rtl-ibex", *libraries, run_timeout_s=0.05) as opened:
        yield opened


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's descriptions, with a core that does nothing."""
    monkeypatch.setenv("HIL_RTL", str(tmp_path))
    (tmp_path / "idle.sv").write_text(IDLE.replace("HALTED", "1'b0"))
    (tmp_path / "idle.toml").write_text(DESCRIPTION)
    return tmp_path


def on_core(name: str) -> Board:
    board = load_board("rtl-picorv32")
    return board.with_settings("--runner", "verilator", {"core": name})


def run(device: Device, name: str, value: int) -> None:
    device[name].set_input(0, np.array([value, 0, 0, 0], np.int32))
    device[name].run()


@cases("board", BOARDS, first=1)
def test_outputs_are_exact(board: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(DIGITS), "--board", board, "--json"]) == 0
    entry = answers.entry(capsys.readouterr().out)
    assert entry["match"]
    assert entry["independent"]


# QEMU does not execute XPULP.
@cases("name", [name for name in BOARDS if name != "rtl-cv32e40p-xpulp"], first=1)
def test_retired_instructions_are_those_of_qemu(name: str) -> None:
    board = load_board(name)
    library = hilc.compile(DIGITS, cpu=board.cpu.name, name="digits")
    with hil.open(board, library) as device:
        found = bench(device, library.modules[0])
    emulated = replace(load_board("riscv-virt"), cpu=board.cpu)
    with hil.open(emulated, library) as device:
        expected = bench(device, library.modules[0])
    (count,) = found.simulated
    assert count.cycles == found.per_inference
    assert count.instructions is not None
    assert abs(count.instructions - expected.per_inference) <= 1
    for layer, other in zip(found.layers, expected.layers, strict=True):
        assert layer.instructions is not None
        assert abs(layer.instructions - other.count) <= 1
        assert layer.cpi is not None
        assert 1 <= layer.cpi < 8


def test_memory_models_are_counted_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", str(DIGITS), "--board", "rtl-ibex", "--no-check", "--memory-models", "2"]
    assert main([*words, "--json"]) == 0
    first, waiting, prefetching = answers.entry(capsys.readouterr().out)["simulated"]
    assert first["memory_model"] == "flash 0 wait states, RAM 0 wait states"
    assert waiting["memory_model"] == "flash 2 wait states, RAM 0 wait states"
    assert "2 wait states with prefetch" in prefetching["memory_model"]
    assert first["cycles"] < prefetching["cycles"] < waiting["cycles"]
    assert first["instructions"] == waiting["instructions"] == prefetching["instructions"]


@cases("board", BOARDS, first=1)
def test_stalls_have_the_right_causes(board: str) -> None:
    """The core's own stalls do not depend on the waits of RAM, which the core does not see."""
    library = hilc.compile(DIGITS, cpu=load_board(board).cpu.name, name="digits")

    def measured(words: str) -> tuple[BenchReport, Stalls]:
        with hil.open(board, library, runner=f"verilator:{words}") as device:
            report = bench(device, library.modules[0])
        (count,) = report.simulated
        assert count.instructions is not None
        assert count.stalls is not None
        assert count.instructions + count.stalls.total == count.cycles
        for layer in report.layers:
            assert layer.instructions is not None
            assert layer.stalls is not None
            assert layer.instructions + layer.stalls.total == layer.count
        return report, count.stalls

    plain, none = measured("flash_wait=0")
    assert none.core == none.total
    slower, of_ram = measured("ram_wait=2")
    assert of_ram.fetch_waits == of_ram.flash_data_waits == 0
    assert of_ram.ram_data_waits == pytest.approx(
        slower.per_inference - plain.per_inference, rel=0.4
    )
    assert of_ram.core == pytest.approx(none.core, rel=0.1)
    _, of_flash = measured("flash_wait=3")
    assert of_flash.ram_data_waits == 0
    assert of_flash.fetch_waits > 0
    assert of_flash.flash_data_waits > 0


def test_limit_compares_instructions(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", str(DIGITS), "--board", "rtl-ibex", "--no-check"]
    assert main([*words, "--limit"]) == 0
    shown = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    entry = answers.entry(capsys.readouterr().out)
    (count,) = entry["simulated"]
    limit = entry["limit"]["instructions"]
    assert f"{count['instructions'] / limit:.2f} times as many" in shown
    assert f"{count['cycles'] / limit:.2f} cycles for each of them" in shown
    assert re.search(r"CPI +limit +ratio +cycles/limit +name", shown)
    assert f"stalls: {sum(count['stalls'].values()):,} cycles; core " in shown
    assert re.search(r"layer +operator +cycles +stalls +core +name", shown)
    for layer in entry["layers"]:
        assert layer["instructions"] + sum(layer["stalls"].values()) == layer["count"]


def test_cycles_of_a_run_have_their_memory_model(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", str(DIGITS), "--board", "rtl-ibex", "--runner", "verilator:ram_wait=1"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "digits: " in shown.out
    assert shown.out.rstrip().endswith("cycles")
    assert "memory model: flash 0 wait states, RAM 1 wait state\n" in shown.err


def test_cycles_are_the_same_every_time() -> None:
    library = hilc.compile(DIGITS, cpu="rv32imc", name="digits")

    def measured() -> Any:
        with hil.open("rtl-ibex", library, runner="verilator:ram_wait=1") as device:
            return bench(device, library.modules[0], runs=2)

    first, second = measured(), measured()
    assert first.counts[0] == first.counts[1]
    assert first.to_json() == second.to_json()


@cases("name", TRAPS, first=4)
def test_trap_is_reported(ibex: Device, name: str) -> None:
    with pytest.raises(FaultError) as caught:
        run(ibex, name, 7)
    assert TRAPS[name][1] in str(caught.value)
    assert caught.value.place is not None
    assert caught.value.place.function == f"inner_{name}"
    ibex.reset()
    run(ibex, name, 1)
    assert ibex[name].get_output(0)[0] == 1


def test_endless_loop_ends_with_a_reset(ibex: Device) -> None:
    with pytest.raises(HangError, match="endless loop"):
        run(ibex, "loop", 7)
    assert ibex.recovery is not None
    ibex.repeated(lambda: run(ibex, "loop", 1))
    assert ibex["loop"].get_output(0)[0] == 1


@pytest.mark.full
@pytest.mark.parametrize(
    ("board", "body", "message"),
    [
        ("rtl-cv32e40p", TRAPS["store"][0], "wrote to 0x00030000, where there is no RAM"),
        ("rtl-vexriscv", TRAPS["load"][0], "read 0x00030000, where there is no memory"),
        ("rtl-picorv32", TRAPS["illegal"][0], "stopped at a trap"),
    ],
)
def test_core_without_bus_errors_ends_the_simulator(board: str, body: str, message: str) -> None:
    library = tiny_library(f"{body} y[0] = x[0];", cpu=load_board(board).cpu.name)
    with (
        pytest.raises(DeviceError, match=message),
        hil.open(board, library, recover=False) as device,
    ):
        run(device, "tiny", 1)


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("verilator:xpulp=true", "core ibex has no setting 'xpulp'"),
        ("verilator:multiplier=quick", "multiplier = 'quick' is not available"),
        ("verilator:flash_wait=64", "flash_wait: 64 is not within 0 to 63"),
        ("verilator:core=ibx", "'ibx' (did you mean ibex?)"),
        ("verilator:core=../ibex", "'../ibex' is not a name"),
    ],
)
def test_wrong_settings_are_refused_before_a_build(
    runner: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hil.device.session.build", lambda *args, **options: pytest.fail("built"))
    assert main(["verify", str(DIGITS), "--board", "rtl-ibex", "--runner", runner]) == 2
    assert message in capsys.readouterr().err


def test_memory_models_need_a_simulated_core() -> None:
    words = ["bench", str(DIGITS), "--board", "riscv-virt", "--memory-models", "2"]
    assert main(words) == 2


@pytest.mark.parametrize("missing", ["verilator", "pythondata-cpu-ibex"])
def test_missing_part_is_named_with_its_remedy(
    missing: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "verilator":
        monkeypatch.setattr(simulators, "PROGRAMS", {"no-such-verilator": "verilator"})
    else:
        monkeypatch.setattr(cores, "find_spec", lambda name: None)
    assert main(["verify", str(DIGITS), "--board", "rtl-ibex"]) == 4
    error = capsys.readouterr().err
    assert f"{missing} is not installed" in error
    assert "hil-harness[rtl]" in error or "apt install verilator" in error


# -- simulators --------------------------------------------------------------------------------


def test_simulator_is_built_once(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))

    def built() -> tuple[Path, bool]:
        caplog.clear()
        program = simulators.simulator(cores.load_core("idle"), [])
        return program, "building the simulator of Idle" in caplog.text

    first, was_built = built()
    assert was_built
    assert built() == (first, False)
    # A program that is not the one that was built is not run.
    first.write_bytes(b"#!/bin/sh\n")
    assert built() == (first, True)
    (own / "idle.sv").write_text(IDLE.replace("HALTED", "1'b1"))
    other, was_built = built()
    assert was_built
    assert other != first


def test_core_that_stops_ends_the_simulator(own: Path) -> None:
    (own / "idle.sv").write_text(IDLE.replace("HALTED", "1'b1"))
    library = tiny_library("y[0] = x[0];", cpu="rv32imc")
    with (
        pytest.raises(DeviceError, match="the core has stopped at a trap"),
        hil.open(on_core("idle"), library, recover=False),
    ):
        pass


def test_error_in_verilog_has_its_place(own: Path) -> None:
    (own / "idle.sv").write_text(IDLE.replace("HALTED", "HALTED_"))
    with pytest.raises(BuildError, match=r"idle\.sv:\d+:.*HALTED_") as caught:
        simulators.simulator(cores.load_core("idle"), [])
    assert "build.log" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('define = ["-o x"]', "define: '-o x' is not NAME or NAME=VALUE"),
        ('options = ["--trace"]', "options: unknown key"),
        ('[settings.icache]\nparameter = "A -o"', "'A -o' is not the name of a parameter"),
        ('[settings.multiplier]\nparameter = "A"\ndefault = "x"\nvalues = {y = 1}', "'x'"),
    ],
)
def test_wrong_description_is_refused(own: Path, text: str, message: str) -> None:
    with (own / "idle.toml").open("a") as file:
        file.write(text)
    with pytest.raises(BoardError) as caught:
        cores.load_core("idle")
    assert message in str(caught.value)


@pytest.mark.full
def test_board_with_a_core_of_the_user(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What docs/how-to/rtl.md describes, with PicoRV32 as the user's."""
    known = cores.load_core("picorv32")
    assert known.folder is not None
    shutil.copy(known.path.parent / known.wrapper, own / "my-core.sv")
    shutil.copy(known.folder / "picorv32.v", own)
    (own / "my-core.toml").write_text(
        'title = "My core"\nverilog = ["picorv32.v"]\nwrapper = "my-core.sv"\nbus = "wishbone"\n'
    )
    (own / "my-chip.toml").write_text(
        'family = "rtl-soc"\ncpu = "rv32imc"\n[core]\ntraps = 0\n'
        '[runners.verilator]\ncore = "my-core"\n'
    )
    board = own / "mine.toml"
    board.write_text(
        'description = "mine"\nchip = "my-chip.toml"\nrunner = { name = "verilator" }\n'
    )
    assert main(["verify", str(DIGITS), "--board", str(board), "--json"]) == 0
    assert answers.entry(capsys.readouterr().out)["match"]


def test_board_file_names_no_file_of_rtl(tmp_path: Path) -> None:
    (tmp_path / "idle.toml").write_text(DESCRIPTION)
    with pytest.raises(BoardError, match="is not a name"):
        on_core(str(tmp_path / "idle.toml"))
    with pytest.raises(BoardError, match="no RTL is known for the core 'idle'"):
        chosen_runner(on_core("idle"), None, Connection())[1].check(on_core("idle"), Connection())
