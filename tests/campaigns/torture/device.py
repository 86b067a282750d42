"""The firmware's servers under libFuzzer."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import fuzz_mlperf
from corpora import unpacked
from fuzz_board import SERVERS, Attacked, coverage, fuzz, fuzz_program

from hil.firmware.project import RPC_PARTS
from torture.campaign import Budget, Counts, Figures, Finding, Row

TITLE = "The servers of the firmware"
ABOUT = """libFuzzer attacks the firmware's server of the serial protocol, its frame decoder and its
packed calls, built with AddressSanitizer and UndefinedBehaviorSanitizer. An input is the byte
stream of the line from the start on: garbage, frames, pauses and HELLO requests. The mutator
corrects the checksum of each frame, so that frames pass this check. After each input, the server
must answer the HELLO of a new host, and must have sent only whole frames of a size that its host
accepts. The server of MLPerf Tiny's commands is fuzzed with a dictionary of their words: each
command must get one answer of printable characters, and commands after an input must get the same
answers as after a start. Findings: a sanitizer's report, a hang, a missing answer or a wrong
answer."""

#: Executions of a long run, by the servers of fuzz_board.
_LONG = (4_000_000, 2_500_000, 2_500_000, 1_000_000)
_SHORT = 100_000
_LONG_COMMANDS = 500_000
#: Executions of a server before it is another's turn: where a run is stopped, all have had some.
_TURN = 250_000
#: Files of the server; those of TVM's run time are its users' too, and more than calls can reach.
_SERVER_FILES = (*(f"{part}.c" for part in RPC_PARTS), "rpc_packed.c", "mlperf.c")


@dataclass
class _Attack:
    """A server under libFuzzer."""

    server: Attacked
    program: Path
    #: Executions to come.
    left: int
    #: The first takes new inputs.
    corpora: Sequence[Path]
    dictionary: Path | None = None
    inputs: int = 0
    seconds: float = 0.0
    turns: int = 0
    crash: Path | None = None

    def turn(self, budget: Budget) -> None:
        """Fuzz for a while."""
        done = fuzz(
            self.program, self.server, self.corpora, budget.folder,
            runs=min(_TURN, self.left), seed=budget.seed + self.turns * _SEEDS,
            dictionary=self.dictionary,
        )  # fmt: skip
        self.inputs += done.executions
        self.seconds += done.seconds
        self.left = 0 if done.crash else max(0, self.left - done.executions)
        self.turns += 1
        self.crash = done.crash
        if done.is_stopped:
            raise KeyboardInterrupt


#: Between the seeds of two turns.
_SEEDS = 1_000_003


def run(budget: Budget) -> Counts:
    """Fuzz each server, and measure what that reached."""
    with tempfile.TemporaryDirectory(prefix="torture-device-") as made:
        place = Path(made)
        corpus, found, said, measured = (
            place / name for name in ("corpus", "found", "said", "measured")
        )
        for folder in (corpus, found, said, measured):
            folder.mkdir()
        unpacked("device", corpus)
        servers = [
            _Attack(
                server,
                fuzz_program(server, place / str(server)),
                budget.count(_SHORT, long_runs),
                (found, corpus),
            )
            for server, long_runs in zip(SERVERS, _LONG, strict=True)
        ]
        commands = [
            _Attack(
                benchmark,
                fuzz_mlperf.fuzz_program(benchmark, place / f"mlperf-{benchmark}"),
                budget.count(_SHORT, _LONG_COMMANDS),
                (said,),
                fuzz_mlperf.DICTIONARY,
            )
            for benchmark in fuzz_mlperf.BENCHMARKS
        ]
        with budget.until_stopped():
            for attacks in (servers, commands):
                while any(attack.left for attack in attacks):
                    for attack in attacks:
                        if attack.left:
                            attack.turn(budget)
        reached = dict(coverage([*corpus.iterdir(), *found.iterdir()], measured))
        if any(said.iterdir()):
            reached |= fuzz_mlperf.coverage([*said.iterdir()], measured)
    rows: list[Row] = [
        {"server": name, "inputs": attack.inputs, "seconds": round(attack.seconds, 1)}
        for name, attack in (
            *((str(attack.server), attack) for attack in servers),
            *((f"MLPerf Tiny, {attack.server}", attack) for attack in commands),
        )
        if attack.inputs
    ]
    rows += [
        {
            "file": name,
            "most_lines": part.lines,
            "most_of_lines": part.of_lines,
            "most_branches": part.branches,
            "most_of_branches": part.of_branches,
        }
        for name in _SERVER_FILES
        if (part := reached.get(name)) is not None
    ]
    findings = [
        Finding(f"the server for {attack.server} fails", str(attack.crash))
        for attack in (*servers, *commands)
        if attack.crash is not None
    ]
    return Counts(rows, findings)


def figures(counts: Counts) -> Figures:
    """Return inputs and rates by server, and what the inputs of a run reached at most."""
    rows = []
    for row in counts.rows:
        if "server" in row:
            rate = f"{row['inputs'] / max(row['seconds'], 0.1):,.0f} a second"
            rows.append([f"libFuzzer, {row['server']}", f"{row['inputs']:,} inputs", rate])
        else:
            lines = f"{row['most_lines']} of {row['most_of_lines']} lines"
            branches = f"{row['most_branches']} of {row['most_of_branches']} branches"
            rows.append([f"reached in {row['file']}", lines, branches])
    note = (
        "The servers have frames of 128 to 65,535 bytes. Every test run replays the corpus "
        "and fuzzes on for seconds; `make test-full` for a minute."
    )
    return Figures(["attacked", "by", "seen"], rows, counts.findings, [note])
