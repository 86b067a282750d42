"""The server of MLPerf Tiny's commands on a hostile line, under libFuzzer.

``tests/c/mlperf/fuzz.c`` has what must hold after an input. There is no corpus: with the words of
the commands as a dictionary, libFuzzer reaches all of the server in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz_board import LIBFUZZER, Covered, covered
from rpc_board import compile_program

from hilc.support.resources import data_dir

SOURCES = Path(__file__).parents[2] / "c" / "mlperf"
DICTIONARY = SOURCES / "commands.dict"


@dataclass(frozen=True)
class Benchmark:
    """What the model takes and gives, as ``device.c`` has it."""

    name: str
    wire: int = 0
    score: int = 0
    streams: int = 0
    floats: int = 0
    #: Bytes of the longest input: several commands, and some that are too long.
    input_max: int = 512

    def __str__(self) -> str:
        return self.name


BENCHMARKS = (
    Benchmark("kws01"),
    Benchmark("vww01-streaming", wire=1, streams=1),
    Benchmark("ad01", wire=2, score=1),
    Benchmark("floats", wire=2, floats=1),
)


def fuzz_program(
    benchmark: Benchmark,
    output: Path,
    compiler: Sequence[str] = LIBFUZZER,
    last: Sequence[str | Path] = (),
    before: Sequence[Path] = (),
) -> Path:
    """libFuzzer with the server of a benchmark, or what another compiler makes of it.

    ``before``: folders of sources that stand in the place of those of their names.
    """
    mlperf = data_dir("firmware_template") / "mlperf"
    model = {
        "WIRE": benchmark.wire,
        "SCORE": benchmark.score,
        "STREAMS": benchmark.streams,
        "FLOATS": benchmark.floats,
    }
    sources = [SOURCES / "fuzz.c", SOURCES / "restarted.c", mlperf / "pulse.c", *last]
    return compile_program(
        *sources, output=output, defines=model, includes=[*before, mlperf], compiler=compiler
    )


def coverage(files: Sequence[Path], folder: Path) -> Mapping[str, Covered]:
    """What the inputs reach in the server, whichever of ``BENCHMARKS`` has the lines."""

    def build(benchmark: Benchmark, output: Path, compiler: Sequence[str]) -> Path:
        return fuzz_program(benchmark, output, compiler, ["fuzz_replay.c"])

    return covered(BENCHMARKS, build, files, folder)
