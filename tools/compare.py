#!/usr/bin/env python3
"""Compares what the compiler makes now with what it made at another revision, side by side.

    tools/compare.py REVISION [--model kws] [--core cortex-m4] [--optimize speed]

Every model is compiled for every core, goal, interface and feed mode by both. Where the generated
files are the same byte for byte, so is everything else. Where they differ, both programs are built,
run on an emulated board with the same inputs and counted. The exit code is 1 when a program got
worse: more than 0.5 % more instructions, more workspace, more flash, or other outputs.

Counts are instructions under QEMU, not cycles; seconds are CPU time of ``hilc.compile``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("digits", "ad", "kws", "ic", "vww")
GOALS = ("balanced", "speed", "size", "ram")
#: For each core and goal: interface, and how the input arrives.
FORMS = (("c", "whole"), ("c", "rows"))
#: The packed interface differs in its glue alone, so one goal suffices.
FORMS_OF_DEFAULT_GOAL = (*FORMS, ("packed", "whole"))
#: An emulated board of each core. The largest of the models do not fit one with a Cortex-M0.
BOARDS = {
    "cortex-m0": str(ROOT / "tools" / "boards" / "large-m0.toml"),
    "cortex-m3": "mps2-an385",
    "cortex-m4": "mps2-an386",
    "cortex-m7": "mps2-an500",
    "cortex-m33": "mps2-an505",
    "cortex-m55": "mps3-an547",
    "rv32imac": "riscv-virt",
    "host": "native",
}
#: By how much instructions may grow.
MOST_INSTRUCTIONS = 1.005
#: Folders of a library that are not the model's own code.
_NOT_GENERATED = ("runtime/", "templates/", "src/")


@dataclass(frozen=True)
class Case:
    """What is compiled."""

    model: str
    core: str
    goal: str
    interface: str
    feed: str

    def __str__(self) -> str:
        return " ".join((self.model, self.core, self.goal, self.interface, self.feed))


@dataclass(frozen=True)
class Made:
    """What the compiler made of a case."""

    #: Of the generated files; the reason if the compiler refused the case.
    digest: str
    workspace_bytes: int = 0
    constants_bytes: int = 0
    seconds: float = 0.0
    #: Empty if the compiler refused the case.
    archive: str = ""


def cases(args: argparse.Namespace) -> Iterator[Case]:
    """All that were asked for."""
    for model in args.model or MODELS:
        for core in args.core or BOARDS:
            for goal in args.optimize or GOALS:
                for form in FORMS_OF_DEFAULT_GOAL if goal == "balanced" else FORMS:
                    yield Case(model, core, goal, *form)


def compile_cases(wanted: Sequence[Case], folder: Path) -> None:
    """Print a line of JSON for each case; this runs with either revision's compiler."""
    import hilc
    from hilc.errors import HilError

    for case in wanted:
        start = time.process_time()
        try:
            library = hilc.compile(
                _model_path(case.model),
                cpu=case.core,
                name=case.model,
                optimize=case.goal,
                interface=case.interface,
                feed=case.feed,
            )
        except HilError as error:
            print(json.dumps(asdict(Made(f"refused: {error.fact}"))), flush=True)
            continue
        seconds = time.process_time() - start
        digest = hashlib.sha256()
        for path, data in sorted(library.files.items()):
            # Headers of the run time have comments; a change of their code shows in the counts.
            # Descriptions gain keys, and what they say of size is compared by itself.
            described = path == "metadata.json" or path.startswith("hil/")
            if not (path.startswith(_NOT_GENERATED) or described or "/include/hil/" in path):
                digest.update(path.encode() + data)
        archive = folder / f"{str(case).replace(' ', '-')}.tar"
        library.save(archive)
        (module,) = library.modules
        made = Made(
            digest.hexdigest(),
            module.workspace_bytes,
            module.constants_bytes,
            round(seconds, 2),
            str(archive),
        )
        print(json.dumps(asdict(made)), flush=True)


def _model_path(name: str) -> Path:
    if name == "digits":
        return ROOT / "examples" / "digits" / "digits.tflite"
    sys.path.insert(0, str(ROOT / "tests" / "support" / "models"))
    import models

    return models.model_path(name)


def compiled_by(tree: Path, wanted: Sequence[Case], folder: Path) -> dict[Case, Made]:
    """Return the results of the compiler in the checkout ``tree`` for the cases, saved below
    ``folder``.
    """
    folder.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'compiler'}",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, "--compile-into", str(folder)]
    made = subprocess.run(
        command,
        env=environment,
        input="\n".join(json.dumps(asdict(case)) for case in wanted),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=3600,
    )
    lines = made.stdout.splitlines()
    return {case: Made(**json.loads(line)) for case, line in zip(wanted, lines, strict=True)}


@dataclass(frozen=True)
class Run:
    """What a program does on a board."""

    instructions: int | None
    flash_bytes: int
    outputs: str


def run(case: Case, archive: str) -> Run | str:
    """Build and run an archive on the emulated board of its core; why it cannot be, where so."""
    import numpy as np

    import hil
    from hil.bench import bench
    from hil.board import load_board
    from hil.build import build
    from hil.errors import BuildError
    from hilc.artifact.library import ModelLibrary

    library = ModelLibrary.load(archive)
    board = load_board(BOARDS[case.core])
    try:
        build([library], board)
    except BuildError as error:
        return str(error.fact).splitlines()[0]
    digest = hashlib.sha256()
    with hil.open(board, library) as device:
        model = device[case.model]
        rng = np.random.default_rng(0)
        for _ in range(2):
            for index, info in enumerate(model.inputs):
                raw = rng.integers(0, 256, info.nbytes, np.uint8)
                model.set_input(index, raw.view(info.dtype).reshape(info.shape))
            model.run()
            for index in range(len(model.outputs)):
                digest.update(model.get_output(index).tobytes())
        if case.core == "host":
            # Seconds of this machine are no figure to compare, nor is the flash that it has not.
            return Run(None, 0, digest.hexdigest())
        report = bench(device, library.modules[0], runs=1, check=False)
    return Run(report.per_inference, report.model_flash_bytes, digest.hexdigest())


def compared(case: Case, before: Made, now: Made) -> tuple[str, bool]:
    """Return a line that shows both, and whether ``now`` is no worse."""
    seconds = f"{before.seconds:.2f} -> {now.seconds:.2f} s"
    workspace = f"{before.workspace_bytes:,} -> {now.workspace_bytes:,}"
    if not (before.archive and now.archive):
        if before.digest == now.digest:
            return f"{case}: {now.digest}", True
        steps = ("compiled" if made.archive else made.digest for made in (before, now))
        return f"{case}: {' -> '.join(steps)}", bool(now.archive)
    if before.digest == now.digest:
        return f"{case}: the same files; workspace {now.workspace_bytes:,} B; {seconds}", True
    was, found = run(case, before.archive), run(case, now.archive)
    good = now.workspace_bytes <= before.workspace_bytes
    shown = f"{case}: other files; workspace {workspace} B"
    if isinstance(found, str) or isinstance(was, str):
        reasons = [
            f"{when} {run}"
            for when, run in (("before:", was), ("now:", found))
            if isinstance(run, str)
        ]
        # What an older harness built may be more than this one can.
        return "; ".join([shown, *reasons, seconds]), good and not isinstance(found, str)
    good &= found.flash_bytes <= was.flash_bytes and found.outputs == was.outputs
    shown += f"; flash {was.flash_bytes:,} -> {found.flash_bytes:,} B"
    if was.instructions is not None and found.instructions is not None:
        good &= found.instructions <= was.instructions * MOST_INSTRUCTIONS
        shown += f"; {was.instructions:,} -> {found.instructions:,} instructions"
    shown += "; the same outputs" if was.outputs == found.outputs else "; OTHER OUTPUTS"
    return f"{shown}; {seconds}", good


def main() -> int:
    """Compare; return 1 if a program got worse."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", help="a commit of this repository")
    parser.add_argument("--model", action="append", choices=MODELS, help="only this model")
    parser.add_argument("--core", action="append", choices=tuple(BOARDS), help="only this core")
    parser.add_argument("--optimize", action="append", choices=GOALS, help="only this goal")
    parser.add_argument("--compile-into", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.compile_into:
        compile_cases([Case(**json.loads(line)) for line in sys.stdin], args.compile_into)
        return 0
    if args.revision is None:
        parser.error("give the revision to compare with, for example HEAD~1")
    git = ["git", "-C", str(ROOT)]
    known = [*git, "rev-parse", "--verify", "--quiet", f"{args.revision}^{{commit}}"]
    if subprocess.run(known, stdout=subprocess.DEVNULL, check=False).returncode:
        parser.error(f"{args.revision!r} is no commit of this repository; see git log")
    wanted = list(cases(args))
    with tempfile.TemporaryDirectory(prefix="hil-compare-") as temporary:
        folder, tree = Path(temporary), Path(temporary) / "tree"
        subprocess.run(
            [*git, "worktree", "add", "-q", "--detach", str(tree), args.revision], check=True
        )
        try:
            before = compiled_by(tree, wanted, folder / "before")
            now = compiled_by(ROOT, wanted, folder / "now")
            worse = []
            for case in wanted:
                line, good = compared(case, before[case], now[case])
                print(line if good else f"{line}  WORSE", flush=True)
                if not good:
                    worse.append(case)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
    same = sum(before[case].digest == now[case].digest for case in wanted)
    total = [sum(made[case].seconds for case in wanted) for made in (before, now)]
    print(
        f"\n{len(wanted)} programs: {same} with the same files, {len(worse)} worse; "
        f"compiled in {total[0]:.1f} -> {total[1]:.1f} s of CPU time"
    )
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
