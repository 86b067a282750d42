#!/usr/bin/env python3
"""Measure one network of each kind: instructions, cycles, memory, and the cost of compiling it.

    python tools/measure.py kinds                          all that are there; prints a table
    python tools/measure.py kinds --write                  also into docs/reference/networks.md
    python tools/measure.py kinds --missing --write        only what the record does not have yet,
                                                           bounds of the workspace among it
    python tools/measure.py kinds --gate                   exit 1 if one is 2 % worse than recorded
    python tools/measure.py kinds --only kws,tcn --board mps2-an386

Instructions are counted under QEMU, cycles on simulated RTL. Every program is compared with its
reference before it is counted. Networks that are not in the repository are looked for in
``--models`` (default: ``../shared/models``); those that are not there are named, and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from figures import baselines
from marked import replaced, table

import hil
from hil.board import load_board
from hil.firmware.fit import FitError
from hilc.memory.plan import Planner
from hilc.ops import OPS
from hilc.schedule.bound import least_workspace
from hilc.source import prepare
from hilc.target import get_cpu

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples" / "networks"
PAGE = ROOT / "docs" / "reference" / "networks.md"
RECORD = ROOT / "docs" / "reference" / "networks.json"
#: How much a figure may grow before the gate fails.
MOST = 1.02
GOALS = ("balanced", "speed")
_DDR = str(EXAMPLES / "mps3-an547-ddr.toml")
#: Boards by the column of the table: a Cortex-M4, a Cortex-M55, and RISC-V without extensions.
BOARDS = {"M4": "mps2-an386", "M55": "mps3-an547", "RV32": "riscv-virt"}
#: Simulated RTL that counts cycles, for networks of at most so many instructions there.
RTL, RTL_BOARD, RTL_MOST = "Ibex", "rtl-ibex", 30_000_000
#: Samples that are compared with the reference.
SAMPLES = 3


@dataclass(frozen=True)
class Kind:
    """A network: where its file is, and boards in place of those that it does not fit."""

    what: str
    #: The file, below the folder of models, below ``examples``, or made by a script.
    file: str
    boards: Mapping[str, str | None] | None = None


#: Weights that are larger than the flash of `mps3-an547`.
_LARGE = {"M55": _DDR}
_ONLY_DDR = {"M4": None, "M55": _DDR, "RV32": None}
KINDS: Mapping[str, Kind] = {
    "ad": Kind("MLPerf Tiny: autoencoder", "ad01_int8.tflite"),
    "kws": Kind("MLPerf Tiny: DS-CNN", "kws_ref_model.tflite"),
    "ic": Kind("MLPerf Tiny: ResNet-8", "pretrainedResnet_quant.tflite"),
    "vww": Kind("MLPerf Tiny: MobileNetV1 0.25", "vww_96_int8.tflite"),
    "keywords": Kind("streaming keywords with audio front end", "networks/keywords.tflite"),
    "mobilenet_v1": Kind("MobileNetV1 0.25, 128", "networks/mbv1_025_128_i8.tflite"),
    "mobilenet_v2": Kind("MobileNetV2 0.35, 96", "networks/mbv2_035_96_i8.tflite"),
    "mobilenet_v3": Kind("MobileNetV3 with SE", "networks/mbv3se_i8.tflite"),
    "efficientnet": Kind("EfficientNet-lite 0.35, 96", "made/efficientnet_lite.tflite", _LARGE),
    "mcunet": Kind("MCUNet-like, 96", "made/mcunet_like.tflite", _LARGE),
    "resnet18_256": Kind("ResNet-18, up to 256 channels", "made/resnet18_256.tflite", _LARGE),
    "resnet18_512": Kind("ResNet-18, up to 512 channels", "made/resnet18_512.tflite", _ONLY_DDR),
    "dscnn_i8": Kind("DS-CNN, int8", "networks/dscnn2_i8.tflite"),
    "dscnn_16x8": Kind("DS-CNN, 16x8", "networks/dscnn2_16x8.tflite"),
    "dscnn_f32": Kind("DS-CNN, float32", "networks/dscnn_f32.tflite"),
    "tcn": Kind("dilated TCN", "networks/tcn_i8.tflite"),
    "ecg": Kind("1-D CNN for an ECG", "networks/ecg_i8.tflite"),
    "unet": Kind("U-Net", "networks/unet_i8.tflite"),
    "segmenter": Kind("U-Net with bilinear resize", "networks/segmenter.tflite"),
    "yolo": Kind("YOLO head", "networks/yolo2_i8.tflite"),
    "lstm_f32": Kind("LSTM, float32", "networks/lstm_f32.tflite"),
    "lstm_i8": Kind("two LSTMs, int8", "networks/gestures.tflite"),
    "gru": Kind("GRU, int8", "networks/gru_i8.tflite"),
    "encoder": Kind("transformer encoder, int8", "networks/encoder_i8.tflite"),
    "decoder": Kind("transformer decoder, float32", "made/decoder.onnx"),
    "keyword_transformer": Kind("keyword transformer, float32", "made/keyword_transformer.onnx"),
    "mlp_i8": Kind("MLP, int8", "networks/mlp_i8.tflite"),
    "mlp_f32": Kind("MLP, float32", "networks/mlp_f32.tflite"),
    "dense_1024": Kind("dense head 1,024 to 10", "networks/fc1024x10.tflite"),
    "dense_4096": Kind("dense head 4,096 to 8", "made/dense_4096.tflite"),
    "forest": Kind("forest of 20 trees", "made/forest.onnx"),
}


@dataclass(frozen=True)
class Figures:
    """What one program costs."""

    network: str
    core: str
    goal: str
    #: Instructions under QEMU, or cycles where ``core`` is simulated RTL.
    per_inference: int
    workspace_bytes: int
    state_bytes: int
    flash_bytes: int
    #: Processor time of the compiler in seconds, and its largest resident memory in MB.
    compile_cpu_s: float
    compile_mb: int
    #: Lower bound of the workspace of every program for the core; None in a record of before.
    bound_bytes: int | None = None


def path_of(kind: Kind, models: Path, made: Path) -> Path | None:
    """Return the file of a network, which is made if a script does; None if it is not there."""
    folder, _, name = kind.file.rpartition("/")
    if folder == "made":
        path = made / name
        if not path.exists():
            script = EXAMPLES / "random_networks.py"
            subprocess.run([sys.executable, str(script), str(made), name], check=True)
        return path
    found = (models / kind.file, EXAMPLES / name)
    return next((path for path in found if path.exists()), None)


def compiled(model: Path, name: str, board: str, goal: str, out: Path) -> tuple[float, int]:
    """Compile in a process of its own; return its seconds of processor time and its MB."""
    words = [sys.executable, str(Path(__file__)), "--compile", str(model), str(out)]
    words += ["--board", board, "--goal", goal, "--name", name]
    # Without what was compiled before.
    with tempfile.TemporaryDirectory(prefix="hil-kinds-cache-") as cache:
        own = {**os.environ, "HIL_CACHE": cache}
        # As installed packages have it; the first compile writes what is missing.
        own.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(words, check=True, capture_output=True, text=True, env=own)
    seconds, mb = json.loads(done.stdout)
    return seconds, mb


def _compile(model: str, out: str, board: str, goal: str, name: str) -> None:
    """Compile as ``hil verify`` does; print what that took."""
    from hil.firmware.sources import ModelOptions, ModelSource, load_sources

    described = load_board(board)
    options = ModelOptions(described.cpu.name, {"optimize": goal}, board=described)
    (library,) = load_sources([ModelSource(Path(model), name)], options)
    library.save(out)
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not ru_maxrss, which begins with that of the process before exec.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak_kb = int(status.partition("VmHWM:")[2].split()[0])
    print(json.dumps([used.ru_utime + used.ru_stime, peak_kb // 1024]))


def measured(network: str, path: Path, core: str, board: str, goal: str, work: Path) -> Figures:
    """Compile, compare and count a network on a board.

    Raise :class:`~hil.errors.NumericError` if an output differs from the reference's.
    """
    out = work / f"{network}.tar"
    out.unlink(missing_ok=True)
    seconds, mb = compiled(path, network, board, goal, out)
    hil.verify(out, board=board, samples=SAMPLES, source=path).check()
    cost = hil.bench(out, board=board, check=False)
    return Figures(
        network, core, goal, cost.per_inference, cost.workspace_bytes, cost.state_bytes,
        cost.model_flash_bytes, round(seconds, 1), mb, least(path, board, cost.workspace_bytes),
    )  # fmt: skip


#: Lower bounds of the workspace that were computed, by model file and core: one for all goals.
_BOUNDS: dict[tuple[Path, str], int | None] = {}


def least(model: Path, board: str, known: int) -> int | None:
    """Return a lower bound of the workspace, inputs and outputs in it, of every program; at most
    ``known`` bytes, which one takes. None for models that call other graphs.
    """
    core = load_board(board).cpu.name
    if (model, core) not in _BOUNDS:
        _BOUNDS[model, core] = _least(model, core, known)
    return _BOUNDS[model, core]


def _least(model: Path, core: str, known: int) -> int | None:
    cpu = get_cpu(core)
    graph = prepare(model, "m", cpu).graph
    if any(OPS[node.op].control for node in graph.nodes):
        return None
    return least_workspace(Planner(graph, cpu, io_in_pool=True), known)


def with_bound(row: Figures, model: Path, board: str) -> Figures:
    """Return recorded figures with the bound, which is computed if the record lacks it."""
    if row.bound_bytes is not None:
        return row
    return replace(row, bound_bytes=least(model, board, row.workspace_bytes))


def all_figures(args: argparse.Namespace, work: Path) -> Iterator[Figures]:
    """Yield the figures of the networks that are there, as they are measured."""
    only = args.only.split(",") if args.only else list(KINDS)
    known = recorded() if args.missing else {}
    for network in only:
        kind = KINDS[network]
        path = path_of(kind, args.models, work)
        if path is None:
            print(f"{network}: {kind.file} is not in {args.models}: left out", file=sys.stderr)
            continue
        for core, usual in BOARDS.items():
            board = (kind.boards or {}).get(core, usual)
            if board is None or (args.board and args.board not in (board, core)):
                continue
            for goal in GOALS:
                found = known.get((network, core, goal))
                try:
                    if found is None:
                        found = measured(network, path, core, board, goal, work)
                        yield found
                    elif (bounded := with_bound(found, path, board)) != found:
                        yield bounded
                except FitError as error:
                    print(f"{network} on {core}, {goal}: {error.fact.splitlines()[0]}", flush=True)
                    continue
                if core != "RV32":
                    continue
                if (cycles := known.get((network, RTL, goal))) is not None:
                    if (bounded := with_bound(cycles, path, RTL_BOARD)) != cycles:
                        yield bounded
                elif args.rtl and found.per_inference <= RTL_MOST:
                    yield measured(network, path, RTL, RTL_BOARD, goal, work)


def recorded() -> dict[tuple[str, str, str], Figures]:
    """Return the recorded figures by network, core and goal."""
    if not RECORD.exists():
        return {}
    rows = [Figures(**row) for row in json.loads(RECORD.read_text(encoding="utf-8"))]
    return {(row.network, row.core, row.goal): row for row in rows}


def regressions(old: Figures, new: Figures) -> list[str]:
    """Return the figures that are worse than recorded by more than the gate allows."""
    worse = []
    for name in ("per_inference", "workspace_bytes", "state_bytes", "flash_bytes"):
        before, now = getattr(old, name), getattr(new, name)
        if now > before * MOST:
            change = f"{now / before - 1:+.1%}" if before else "from none"
            worse.append(
                f"{new.network} on {new.core}, {new.goal}: {name} {before:,} -> {now:,} ({change})"
            )
    return worse


HEADER = (
    "network", "core", "goal", "instructions or cycles", "of TFLM's", "workspace", "bound",
    "of its arena", "state", "flash", "compile, CPU s", "MB",
)  # fmt: skip


def of_tflm(row: Figures, figure: str, value: int) -> str:
    """Return the share of a figure in TFLM's; a dash where that was not measured."""
    (others,) = baselines()["networks"]
    other = others[figure].get(row.core, {}).get(row.network)
    return f"{value / other:.2f}" if other else "-"


def page_table(rows: Sequence[Figures]) -> str:
    """Return the table of the page."""
    return table(
        HEADER,
        [
            (
                f"`{row.network}`",
                row.core + (", cycles" if row.core == RTL else ""),
                row.goal,
                f"{row.per_inference:,}",
                of_tflm(row, "instructions", row.per_inference),
                f"{row.workspace_bytes:,}",
                "-" if row.bound_bytes is None else f"{row.bound_bytes:,}",
                of_tflm(row, "arena", row.workspace_bytes + row.state_bytes),
                f"{row.state_bytes:,}",
                f"{row.flash_bytes:,}",
                f"{row.compile_cpu_s:.1f}",
                f"{row.compile_mb:,}",
            )
            for row in rows
        ],
    )


def _written(new: Sequence[Figures]) -> None:
    """Write the figures into the record and the page, in place of those of the same programs."""
    rows = recorded() | {(row.network, row.core, row.goal): row for row in new}
    cores = [*BOARDS, RTL]
    order = sorted(
        (row for row in rows.values() if row.network in KINDS),
        key=lambda row: (list(KINDS).index(row.network), cores.index(row.core), row.goal),
    )
    RECORD.write_text(json.dumps([asdict(row) for row in order], indent=1) + "\n", encoding="utf-8")
    kinds = table(("network", "kind"), [(f"`{name}`", kind.what) for name, kind in KINDS.items()])
    page = PAGE.read_text(encoding="utf-8")
    text = f"{kinds}\n\n{page_table(order)}"
    PAGE.write_text(replaced(page, "kinds", text), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--only", help="names of networks, separated by commas")
    parser.add_argument("--board", help="only this board, or core of the table")
    parser.add_argument("--missing", action="store_true", help="only what is not recorded")
    parser.add_argument("--rtl", action="store_true", help="also count cycles on RTL")
    parser.add_argument("--write", action="store_true", help="write the record and the page")
    parser.add_argument("--gate", action="store_true", help="compare with the record")
    for hidden in ("--compile",):
        parser.add_argument(hidden, nargs=2, help=argparse.SUPPRESS)
    for hidden in ("--goal", "--name"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.compile:
        model, out = args.compile
        _compile(model, out, args.board, args.goal, args.name)
        return 0
    if args.only and (unknown := set(args.only.split(",")) - set(KINDS)):
        parser.error(f"--only {', '.join(sorted(unknown))}: the networks are {', '.join(KINDS)}")
    boards = {name for kind in KINDS.values() for name in (kind.boards or {}).values() if name}
    known = [*BOARDS, *BOARDS.values(), *sorted(boards - set(BOARDS.values()))]
    if args.board and args.board not in known:
        parser.error(f"--board {args.board}: the boards and cores are {', '.join(known)}")
    before, rows, worse = recorded(), [], []
    with tempfile.TemporaryDirectory(prefix="hil-kinds-") as work:
        for row in all_figures(args, Path(work)):
            print(
                *(f"{field.name}={getattr(row, field.name)}" for field in fields(row)), flush=True
            )
            rows.append(row)
            old = before.get((row.network, row.core, row.goal))
            worse += regressions(old, row) if old else []
            if args.write:
                _written(rows)
    if not rows and not args.missing:
        print("error: no program was measured; the lines above say why", file=sys.stderr)
        return 1
    print()
    print(page_table(rows))
    if not args.gate:
        return 0
    missing = [row for row in rows if (row.network, row.core, row.goal) not in before]
    for line in worse:
        print(f"worse: {line}", file=sys.stderr)
    print(
        f"gate: {len(rows) - len(missing)} programs compared with the record, {len(worse)} figures "
        f"more than {MOST - 1:.0%} above it, {len(missing)} programs not recorded",
        file=sys.stderr,
    )
    # A gate that has compared nothing has not been passed.
    return 1 if worse or len(rows) == len(missing) else 0


if __name__ == "__main__":
    sys.exit(main())
