"""The firmware's server on a hostile line: under libFuzzer, and replayed without it.

``tests/hil/rpc_board/fuzz.c`` has what an input is and what must hold after it. The inputs of
``tests/campaigns/torture/corpus/device.tar.xz`` reach what libFuzzer has found to reach: ``python
tests/support/boards/fuzz_board.py`` fuzzes on from them and keeps the fewest that reach as much.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import corpora
from rpc_board import RPC_SOURCES, SANITIZERS, SOURCES, compile_program

from hil.compat.tvm.runtime import CRT as FIRMWARE_CRT
from hilc.compat.tvm.crt import CRT, INCLUDE, crt_sources
from hilc.support.resources import data_dir

#: The parts that ``fuzz.c`` includes.
_IN_FUZZ = ("session.c", "fault.c")
#: Comparisons are not traced: the mutator knows the numbers, and it is three times as fast.
LIBFUZZER = (
    "clang", "-O2", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all",
    "-fno-sanitize-coverage=trace-cmp",
)  # fmt: skip
_LIBFUZZER_PART = "libclang_rt.fuzzer"
#: Longest input: several frames of most boards. The largest frames need larger ones.
_MAX_BYTES, _MAX_BYTES_OF_LARGE_FRAMES = 1024, 4096
#: For one input, at which libFuzzer says that it hangs.
_INPUT_S = 20
_INTERRUPTED = "libFuzzer: run interrupted"
_MEMORY_MB = 1024


class Attacked(Protocol):
    """What a server is built for; ``str`` is its name."""

    @property
    def input_max(self) -> int:
        """Bytes of the longest input that libFuzzer makes for it."""
        ...


_S = TypeVar("_S", bound=Attacked)


@dataclass(frozen=True)
class Server:
    """The server as one image may have it."""

    frame_max: int
    rx_max: int
    has_packed: bool = False
    has_state: bool = False
    has_feeder: bool = False

    @property
    def input_max(self) -> int:
        """Bytes of the longest input that libFuzzer makes for it."""
        return _MAX_BYTES if self.frame_max < 4 * _MAX_BYTES else _MAX_BYTES_OF_LARGE_FRAMES

    def __str__(self) -> str:
        parts = ["packed"] * self.has_packed + ["state"] * self.has_state
        parts += ["feeder"] * self.has_feeder + [str(self.frame_max)]
        return "-".join(parts)


#: The smallest frames, the largest, and those of most boards; with everything, and with nothing.
SERVERS = (
    Server(512, 1024, has_packed=True, has_state=True),
    Server(128, 128, has_state=True),
    Server(300, 301),
    Server(512, 512, has_feeder=True),
    Server(0xFFFF, 0x1FFFE, has_packed=True),
)


def _build(
    server: Server,
    output: Path,
    last: str | Path,
    compiler: Sequence[str],
    before: Path | None = None,
) -> Path:
    """``before``: a folder of sources that stand in the place of those of their names."""
    template = data_dir("firmware_template")
    parts = [name for name in RPC_SOURCES if name not in _IN_FUZZ]
    sources: list[str | Path] = ["fuzz.c", last, *parts]
    defines: dict[str, object] = {"HIL_FRAME_MAX": server.frame_max, "HIL_RX_MAX": server.rx_max}
    if server.has_packed:
        crt = [CRT / name.removeprefix("src/runtime/crt/") for name in crt_sources()]
        sources += ["rpc_packed.c", "platform.c", *crt]
        defines |= {"HIL_HAS_PACKED": 1, "HIL_CALL_ARGUMENTS_MAX": 8}
    if server.has_state:
        sources.append("state.c")
        defines |= {"HIL_HAS_STATE": 1}
    if server.has_feeder:
        sources.append("feeder.c")
        defines |= {"HIL_HAS_FEEDER": 1}
    places = [before] if before is not None else []
    sources = [next((p / s for p in places if (p / s).is_file()), s) for s in sources]
    includes = [*places, template / "rpc", FIRMWARE_CRT, INCLUDE, CRT]
    return compile_program(
        *sources, output=output, defines=defines, includes=includes, compiler=compiler
    )


# Without libFuzzer --------------------------------------------------------------------------------


def replay_program(server: Server, output: Path) -> Path:
    """A program that runs the inputs of the files that it is given."""
    return _build(server, output, "fuzz_replay.c", ("gcc", *SANITIZERS))


def replay(program: Path, files: Iterable[Path]) -> subprocess.CompletedProcess[str]:
    """Run the files; stderr names the one that broke the server last."""
    return subprocess.run(
        [program, *files], capture_output=True, text=True, errors="replace", timeout=300
    )


@dataclass(frozen=True)
class Covered:
    """How much of a source file a set of inputs runs."""

    lines: int
    of_lines: int
    branches: int
    of_branches: int


def coverage(files: Sequence[Path], folder: Path) -> Mapping[str, Covered]:
    """What the inputs reach in the server's sources, whichever of ``SERVERS`` has the lines."""

    def build(server: Server, output: Path, compiler: Sequence[str]) -> Path:
        return _build(server, output, "fuzz_replay.c", compiler)

    return covered(SERVERS, build, files, folder)


def covered(
    servers: Iterable[_S],
    build: Callable[[_S, Path, Sequence[str]], Path],
    files: Sequence[Path],
    folder: Path,
) -> Mapping[str, Covered]:
    """What the inputs reach in the sources of all servers together, by the name of the file.

    ``build(server, output, compiler)`` makes a program that runs the files that it is given.
    """
    lines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    branches: dict[str, dict[tuple[int, int], int]] = defaultdict(lambda: defaultdict(int))
    for server in servers:
        place = folder / str(server)
        place.mkdir()
        program = build(server, place / "replay", ("gcc", "-O0", "--coverage"))
        done = replay(program, files)
        if done.returncode:
            raise RuntimeError(f"an input fails: {done.stderr[-2000:]}")
        told = subprocess.run(
            ["gcov", "--json-format", "--stdout", "--branch-probabilities", *place.glob("*.gcda")],
            capture_output=True, text=True, check=True, cwd=place,
        )  # fmt: skip
        for document in told.stdout.splitlines():
            for file in json.loads(document)["files"]:
                name = Path(file["file"]).name
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[name][number] += line["count"]
                    for index, branch in enumerate(line["branches"]):
                        branches[name][number, index] += branch["count"]
    return {
        name: Covered(
            _some(counts.values()), len(counts), _some(branches[name].values()), len(branches[name])
        )
        for name, counts in sorted(lines.items())
    }


def _some(counts: Iterable[int]) -> int:
    return sum(count > 0 for count in counts)


# With libFuzzer -----------------------------------------------------------------------------------


def has_libfuzzer() -> bool:
    """Whether clang is there with the library (Debian's libclang-rt-N-dev)."""
    try:
        told = subprocess.run(
            ["clang", "--print-runtime-dir"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    return any(Path(told.strip()).glob(f"{_LIBFUZZER_PART}*.a"))


def fuzz_program(server: Server, output: Path, before: Path | None = None) -> Path:
    """libFuzzer with the server, and with what changes inputs by their records."""
    mutator = output.with_suffix(".mutator.o")
    include = data_dir("firmware_template") / "include"
    # Not instrumented: what it runs is none of what is measured.
    subprocess.run(
        ["clang", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{include}", "-c",
         SOURCES / "fuzz_mutator.c", "-o", mutator],
        check=True,
    )  # fmt: skip
    return _build(server, output, mutator, LIBFUZZER, before)


@dataclass(frozen=True)
class Fuzzed:
    """What one run of libFuzzer came to."""

    executions: int
    seconds: float
    #: The input that broke the server.
    crash: Path | None
    #: What libFuzzer said.
    output: str
    #: Whether a signal ended it, SIGINT or SIGTERM, to this process or to libFuzzer.
    is_stopped: bool = False


def fuzz(
    program: Path,
    server: Attacked,
    corpora: Sequence[Path],
    keep: Path,
    *,
    runs: int = -1,
    seconds: int = 0,
    seed: int = 1,
    looks: int | None = None,
    dictionary: Path | None = None,
) -> Fuzzed:
    """Run for so many inputs or seconds, from those of the folders; the first takes new ones.

    An input that breaks the server ends the run and is left in ``keep``. A KeyboardInterrupt ends
    it with what it has run by then.
    """
    before = set(keep.iterdir())
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    # Linux counts what this process has had at most as the child's, too.
    inherited_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    if looks is not None:
        environment["HIL_FUZZ_LOOKS"] = str(looks)
    command: list[str | Path] = [
        program, f"-runs={runs}", f"-max_total_time={seconds}", f"-seed={seed}",
        f"-max_len={server.input_max}", "-len_control=0", f"-timeout={_INPUT_S}",
        f"-rss_limit_mb={_MEMORY_MB + inherited_mb}", f"-artifact_prefix={keep}/",
        "-print_final_stats=1",
        *([f"-dict={dictionary}"] if dictionary is not None else []), *corpora,
    ]  # fmt: skip
    start = time.monotonic()
    is_stopped = False
    with tempfile.TemporaryFile("w+", errors="replace") as told:
        child = subprocess.Popen(command, stdout=told, stderr=told, env=environment)
        try:
            code = child.wait()
        except KeyboardInterrupt:
            child.terminate()
            code, is_stopped = child.wait(), True
        told.seek(0)
        output = told.read()
    took = time.monotonic() - start
    is_stopped |= _INTERRUPTED in output
    stats = dict(re.findall(r"^stat::(\w+):\s+(\d+)$", output, re.M))
    left = sorted(set(keep.iterdir()) - before)
    if not is_stopped and (code == 0) == bool(left):
        raise RuntimeError(f"libFuzzer ended with {code}: {output[-2000:]}")
    executions = int(stats.get("number_of_executed_units", 0))
    return Fuzzed(executions, took, left[0] if left else None, output, is_stopped)


def merge(program: Path, into: Path, corpora: Sequence[Path]) -> None:
    """Copy to ``into`` the fewest inputs of the folders that reach what all of them reach."""
    command: list[str | Path] = [
        program,
        "-merge=1",
        f"-max_len={_MAX_BYTES_OF_LARGE_FRAMES}",
        into,
        *corpora,
    ]
    subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    """Fuzz each server for a while, and renew the corpus from what that reached."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each server (60)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 2**31, help="(the time)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corpus-") as made:
        place = Path(made)
        old, found, fewest = place / "old", place / "found", place / "fewest"
        for folder in (old, found, fewest):
            folder.mkdir()
        corpora.unpacked("device", old)
        for server in SERVERS:
            program = fuzz_program(server, place / str(server))
            done = fuzz(
                program, server, [found, old], Path.cwd(),
                seconds=options.seconds, seed=options.seed,
            )  # fmt: skip
            print(f"{server}: {done.executions} inputs, {done.crash or 'none'} broke it")
            if done.crash is not None:
                sys.exit(1)
            merge(program, fewest, [old, found])
        files = sorted(fewest.iterdir())
        path = corpora.pack("device", files)
        print(f"{len(files)} inputs, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
