"""``hil tune``: what kernels and programs cost on an emulated board, as a log that the compiler
believes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import answers
import pytest
from small_models import convolutions

import hilc
from hil.cli import main
from hil.verify import tune
from hilc.errors import InputError
from hilc.lowering.choice import KernelSelection
from hilc.schedule.tuning import Tuning, load_tuning

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

BOARD, CPU = "mps2-an386", "cortex-m4"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model's file and its log."""
    folder = tmp_path_factory.mktemp("tune")
    model, log = folder / "net.tflite", folder / "net.json"
    model.write_bytes(convolutions())
    assert main(["tune", str(model), "--board", BOARD, "-o", str(log), "--json"]) == 0
    return model, log


def test_a_log_of_something_else_is_not_written_over(
    measured: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Told before anything is measured: it took minutes to make, and would take them again."""
    model, log = measured
    command = ["tune", str(model), "--board", BOARD, "--programs", "0", "-o"]
    for fields, reason in (
        ({"cpu": "cortex-m55"}, f"not a log of 'net' for {CPU}"),
        ({"digest": "00" * 32}, f"not a log of 'net' for {CPU}"),
        ({"counter": "cycles"}, "the log that is there counts cycles, and mps2-an386 here counts"),
    ):
        other = changed(log, tmp_path / "other.json", **fields)
        text = other.read_text()
        assert main([*command, str(other)]) == 2
        assert reason in capsys.readouterr().err
        assert other.read_text() == text
    assert main([*command, str(other), "--force"]) == 0
    # One of the same core, from another board, is one to be measured again.
    assert main([*command, str(changed(log, other, board="nucleo-f446re"))]) == 0
    assert load_tuning(other).board == BOARD


def test_an_interrupted_log_is_kept(
    measured: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Beside the older log, which stays; the next whole one takes the place of both."""

    def interrupted(*words: object) -> object:
        raise KeyboardInterrupt

    model, log = measured
    output, partial = tmp_path / "net.json", tmp_path / "net.partial.json"
    output.write_text(log.read_text())
    command = ["tune", str(model), "--board", BOARD, "--optimize", "ram", "-o", str(output)]
    with monkeypatch.context() as patch:
        patch.setattr(tune, "_program", interrupted)
        assert main(command) == 130
    assert output.read_text() == log.read_text()
    kept = load_tuning(partial)
    assert (kept.layers, kept.programs) == (load_tuning(log).layers, ())
    assert main([*command, "--programs", "0"]) == 0
    assert load_tuning(output).programs == ()
    assert not partial.exists()


def test_rows_are_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = tmp_path / "net.tflite"
    model.write_bytes(convolutions())
    assert main(["tune", str(model), "--board", BOARD, "--feed", "rows"]) == 2
    streams = capsys.readouterr()
    assert "--feed rows needs a group" in streams.err
    assert "image 1" not in streams.err


def changed(log: Path, target: Path, **fields: object) -> Path:
    target.write_text(json.dumps(json.loads(log.read_text()) | fields))
    return target


def test_every_kernel_of_every_layer_is_counted(measured: tuple[Path, Path]):
    tuning = load_tuning(measured[1])
    assert (tuning.board, tuning.cpu, tuning.counter) == (BOARD, CPU, "instructions")
    layers = {layer.op: layer.kernels for layer in tuning.layers}
    names = [kernel.variant for kernel in layers["CONV_2D"]]
    assert len(names) > 1
    assert "generic.conv2d.s8" in names
    for kernels in layers.values():
        assert all(kernel.count > 0 for kernel in kernels)
    # The portable kernel is the slowest of a core that has better ones.
    counts = {kernel.variant: kernel.count for kernel in layers["CONV_2D"]}
    assert counts["generic.conv2d.s8"] > min(counts.values())


def test_a_log_without_effect_is_refused(measured: tuple[Path, Path], tmp_path: Path):
    """It names a variant that was renamed, in a layer or a program, or no layer of the model."""
    model, log = measured
    read = load_tuning(log)
    layer = next(layer for layer in read.layers if layer.kernels)
    known = layer.kernels[0].variant
    renamed = known.replace(".", "_", 1) + "s"

    def refused(log: Tuning) -> InputError:
        with pytest.raises(InputError) as caught:
            hilc.compile(model, cpu=CPU, io_in_pool=True, tuning=log)
        assert "hil tune" in caught.value.hint
        return caught.value

    kernels = (replace(layer.kernels[0], variant=renamed), *layer.kernels[1:])
    fact = refused(replace(read, layers=(replace(layer, kernels=kernels),), programs=())).fact
    assert f"{renamed!r}" in fact
    assert f"did you mean {known}" in fact
    program = replace(read.programs[0], kernels={layer.name: "generic.other.s8"})
    assert "'generic.other.s8'" in refused(replace(read, programs=(program,))).fact
    fact = refused(replace(read, layers=(replace(layer, name="absent"),), programs=())).fact
    assert "names no layer of the model: it names 'absent'" in fact


def test_the_compiler_takes_the_measured_fastest(measured: tuple[Path, Path], tmp_path: Path):
    model, log = measured
    plain = json.loads(log.read_text())
    plain["programs"] = []
    for layer in plain["layers"]:
        for position, kernel in enumerate(reversed(layer["kernels"])):
            kernel["count"] = 10 + position
    last_wins = tmp_path / "last.json"
    last_wins.write_text(json.dumps(plain))
    common = {"cpu": CPU, "io_in_pool": True, "optimize": "speed"}
    tuned = hilc.compile(model, tuning=last_wins, **common)  # type: ignore[call-overload]
    assert tuned.reports["net"].tuned
    last = {
        layer["name"]: layer["kernels"][-1]["variant"]
        for layer in plain["layers"]
        if layer["kernels"]
    }
    expected = hilc.compile(model, choice=KernelSelection(last), **common)  # type: ignore[call-overload]
    source = "codegen/host/src/net_lib1.c"
    assert tuned.files[source] == expected.files[source]
    untuned = hilc.compile(model, **common)  # type: ignore[call-overload]
    assert tuned.files[source] != untuned.files[source]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"compiler": "0.0.0"}, "another version of the compiler: 0.0.0"),
        ({"cpu": "cortex-m55"}, "another core: cortex-m55, not cortex-m4"),
        ({"digest": "00" * 32}, "another model"),
        ({"format": 99}, "its format is 99"),
        ({"format": 1}, "its format is 1"),
        ({"layers": 7}, "expected is list"),
        ({"programs": [{"sharing": "speed"}]}, "expected are the keys"),
    ],
)
def test_a_log_for_something_else_is_refused(
    measured: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fields: dict[str, object],
    reason: str,
):
    model, log = measured
    other = changed(log, tmp_path / "other.json", **fields)
    out = str(tmp_path / "out.tar")
    words = ["compile", str(model), "--cpu", CPU, "-o", out, "--tuning", str(other)]
    assert main(words) == 2
    assert reason in capsys.readouterr().err
    assert not Path(out).exists()


def test_whole_programs_are_measured_for_every_goal(
    measured: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The search proposes what was measured, and bench finds what the log says."""
    model, log = measured
    tuning = load_tuning(log)
    assert {program.sharing for program in tuning.programs} == {"balanced", "speed", "size"}
    assert any(program.groups for program in tuning.programs)
    for program in tuning.programs:
        assert all(0 < tuned.count < program.count for tuned in program.groups)
    capsys.readouterr()
    for goal in ("balanced", "speed", "ram", "size"):
        words = [str(model), "--optimize", goal, "--tuning", str(log), "--json"]
        out = str(tmp_path / f"{goal}.tar")
        command = ["compile", *words, "--board", BOARD, "--pools", "external", "-o", out]
        assert main(command) == 0
        choice = answers.entry(capsys.readouterr().out)["choice"]
        if goal in ("balanced", "speed"):
            # Of the firmware, with inputs and outputs in the workspace; a library has them outside.
            assert choice["measured"] is True
            own = [p.count for p in tuning.programs if p.sharing == goal]
            # Balanced is not the fastest of them, but that with the least sum.
            best = [min(own)] if goal == "speed" else own
            assert choice["chosen"]["instructions"] in best
        assert main(["bench", *words, "--board", BOARD]) == 0
        counted = answers.entry(capsys.readouterr().out)["per_inference"]
        shared = "balanced" if goal == "ram" else goal
        assert counted in [p.count for p in tuning.programs if p.sharing == shared]


@pytest.mark.parametrize("goal", ["speed", "balanced"])
def test_the_program_that_was_measured_best_is_chosen(
    measured: tuple[Path, Path], tmp_path: Path, goal: str
):
    """Against the sum of its layers, which says that it is slower."""
    model, log = measured
    value = json.loads(log.read_text())
    fused = next(p for p in value["programs"] if p["sharing"] == goal and p["groups"])
    for program in value["programs"]:
        program["count"] = 1000 if program is fused else 10_000
    other = changed(log, tmp_path / "other.json", programs=value["programs"])
    (wanted,) = [p for p in load_tuning(other).shared_as(goal) if p.count == 1000]
    common = {"cpu": CPU, "io_in_pool": True, "pools": "external", "optimize": goal}
    found = hilc.compile(model, tuning=other, **common)  # type: ignore[call-overload]
    report = found.reports["net"]
    assert report.measured
    assert report.chosen.instructions == 1000
    assert report.groups == wanted.choice.groups
    expected = hilc.compile(model, choice=wanted.choice, **common)  # type: ignore[call-overload]
    assert found.files == expected.files
    plain = hilc.compile(model, tuning=log, **common)  # type: ignore[call-overload]
    assert plain.reports["net"].groups != report.groups


def test_a_log_travels_between_boards_of_one_core(
    measured: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """What it counts is told where the board counts something else."""
    model, log = measured
    other = changed(log, tmp_path / "other.json", board="nucleo-f446re")
    first, second = tmp_path / "a.tar", tmp_path / "b.tar"
    words = ["compile", str(model), "--pools", "external", "-o"]
    assert main([*words, str(first), "--board", BOARD, "--tuning", str(log)]) == 0
    capsys.readouterr()
    assert main([*words, str(second), "--board", "mps2-an386", "--tuning", str(other)]) == 0
    assert "warning" not in capsys.readouterr().err
    assert first.read_bytes() == second.read_bytes()
    assert main([*words, str(second), "--board", "nucleo-f446re", "--tuning", str(log)]) == 0
    assert "the tuning log counts instructions, measured on mps2-an386" in capsys.readouterr().err
    cycles = changed(log, other, counter="cycles")
    assert main([*words, str(second), "--board", "nucleo-f446re", "--tuning", str(cycles)]) == 0
    told = capsys.readouterr()
    assert "warning" not in told.err
    assert "cycles measured as a whole" in told.out


def test_estimates_are_scaled_to_cycles(measured: tuple[Path, Path], tmp_path: Path):
    """What a log of cycles lacks is estimated in cycles too."""
    model, log = measured
    value = json.loads(log.read_text())
    for layer in value["layers"]:
        for kernel in layer["kernels"]:
            kernel["count"] *= 3
    fields = {"layers": value["layers"], "programs": [], "counter": "cycles"}
    cycles = changed(log, tmp_path / "cycles.json", **fields)
    plain = changed(log, tmp_path / "plain.json", programs=[])
    for goal in ("speed", "ram"):
        common = {"cpu": CPU, "io_in_pool": True, "optimize": goal}
        found, expected = (
            hilc.compile(model, tuning=path, **common)  # type: ignore[call-overload]
            for path in (cycles, plain)
        )
        assert goal == "ram" or found.files == expected.files
        report, by_instructions = found.reports["net"], expected.reports["net"]
        assert (report.counter, by_instructions.counter) == ("cycles", "instructions")
        ratio = report.chosen.instructions / by_instructions.chosen.instructions
        assert 2 < ratio < 4


def test_compile_reports_its_choice(
    measured: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model, log = measured
    capsys.readouterr()
    words = ["compile", str(model), "--cpu", CPU, "-o", str(tmp_path / "out.tar")]
    assert main([*words, "--tuning", str(log), "--json"]) == 0
    choice = answers.entry(capsys.readouterr().out)["choice"]
    assert choice["tuned"] is True
    assert choice["chosen"]["workspace_bytes"] > 0 < choice["chosen"]["instructions"]
    assert main([*words, "--ram", "16"]) == 2
    assert "fits a workspace of 16 B (the smallest is" in capsys.readouterr().err
    assert main([*words, "--ram", "64K"]) == 0
    assert "instructions by estimate" in capsys.readouterr().out


@pytest.mark.parametrize("size", ["K", "-1", "1.0001K", "6KB", "1e3"])
def test_sizes_that_are_none(size: str, capsys: pytest.CaptureFixture[str]):
    assert main(["compile", "m.tflite", "-o", "x.tar", f"--ram={size}"]) == 2
    assert "is not a number of bytes" in capsys.readouterr().err


def test_a_risc_v_board_is_measured(tmp_path: Path):
    model, log = tmp_path / "net.tflite", tmp_path / "net.json"
    model.write_bytes(convolutions())
    command = ["tune", str(model), "--board", "riscv-virt", "--programs", "1", "-o", str(log)]
    assert main([*command, "--optimize", "speed", "--json"]) == 0
    tuning = load_tuning(log)
    assert (tuning.cpu, tuning.counter) == ("rv32imac", "instructions")
    (measured, *_) = [layer.kernels for layer in tuning.layers if layer.op == "CONV_2D"]
    assert {"generic.conv2d.s8", "compact.conv2d.s8"} < {kernel.variant for kernel in measured}
    assert all(kernel.count > 0 for kernel in measured)
    assert hilc.compile(model, cpu="rv32imac", tuning=log).reports["net"].tuned
