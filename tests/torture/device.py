"""The firmware's servers under libFuzzer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import fuzz_mlperf
from corpora import unpacked
from fuzz_board import SERVERS, coverage, fuzz, fuzz_program

from torture.campaign import Budget, Figures, Finding

TITLE = "The servers of the firmware"
ABOUT = """The server of the serial protocol, its frames and its packed calls, built with
AddressSanitizer and UndefinedBehaviorSanitizer, under libFuzzer. An input is what comes over the
line from the first byte after a start: garbage, frames, pauses, any HELLO. After each, a new host's
HELLO must be answered, and whatever the board sent must be whole frames of a size that its host
takes. The mutator gives frames their checksum, so that they get past it. The server of MLPerf
Tiny's commands has a dictionary of their words; each command must get one answer, of nothing but
visible characters, and those that follow an input must be answered as after a start. A sanitizer's
report, a hang, a silence or a wrong answer is a finding."""

#: Executions of a long run, by the servers of fuzz_board.
_LONG = (4_000_000, 2_500_000, 2_500_000, 1_000_000)
_SHORT = 100_000
_LONG_COMMANDS = 2_000_000
#: Files of the server; those of TVM's run time are its users' too, and more than calls can reach.
_SERVER_FILES = ("frame.c", "rpc.c", "rpc_packed.c", "mlperf.c")


def run(budget: Budget) -> Figures:
    """Fuzz each server, and measure what that reached."""
    rows: list[list[str]] = []
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="torture-device-") as made:
        place = Path(made)
        corpus, found, measured = place / "corpus", place / "found", place / "measured"
        for folder in (corpus, found, measured):
            folder.mkdir()
        unpacked("device", corpus)
        for server, long_runs in zip(SERVERS, _LONG, strict=True):
            runs = budget.count(_SHORT, long_runs)
            program = fuzz_program(server, place / str(server))
            done = fuzz(
                program, server, [found, corpus], budget.folder, runs=runs, seed=budget.seed
            )
            rate = f"{done.executions / done.seconds:,.0f} a second"
            rows.append([f"libFuzzer, {server}", f"{done.executions:,} inputs", rate])
            if done.crash is not None:
                findings.append(Finding(f"the server {server} fails", str(done.crash)))
        files = [*corpus.iterdir(), *found.iterdir()]
        reached = dict(coverage(files, measured))

        said = place / "said"
        said.mkdir()
        for benchmark in fuzz_mlperf.BENCHMARKS:
            runs = budget.count(_SHORT, _LONG_COMMANDS)
            program = fuzz_mlperf.fuzz_program(benchmark, place / f"mlperf-{benchmark}")
            done = fuzz(
                program, benchmark, [said], budget.folder,
                runs=runs, seed=budget.seed, dictionary=fuzz_mlperf.DICTIONARY,
            )  # fmt: skip
            rate = f"{done.executions / done.seconds:,.0f} a second"
            name = f"libFuzzer, MLPerf Tiny, {benchmark}"
            rows.append([name, f"{done.executions:,} inputs", rate])
            if done.crash is not None:
                findings.append(Finding(f"the server for {benchmark} fails", str(done.crash)))
        reached |= fuzz_mlperf.coverage([*said.iterdir()], measured)
    for name in _SERVER_FILES:
        part = reached[name]
        lines = f"{part.lines} of {part.of_lines} lines"
        rows.append(
            [f"reached in {name}", lines, f"{part.branches} of {part.of_branches} branches"]
        )
    note = (
        "The servers have frames of 128 to 65,535 bytes. Every test run replays the corpus "
        "and fuzzes on for seconds; `make test-full` for a minute."
    )
    return Figures(["attacked", "by", "seen"], rows, findings, [note])
