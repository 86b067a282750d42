"""The C server of MLPerf Tiny's commands (``firmware_template/mlperf``), under the sanitizers.

``mlperf/device.c`` has a model of 8 elements whose output is its input: its input has the scale 0.5
and the zero point 10, its output 0.25 and 2.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from campaigns import sampled
from fuzz_board import fuzz, has_libfuzzer
from fuzz_mlperf import BENCHMARKS, DICTIONARY, Benchmark, fuzz_program
from rpc_board import SANITIZERS, compile_program

from hilc.support.resources import data_dir

Say = Callable[..., list[list[str]]]

AS_IT_IS, UINT8, FLOAT32 = 0, 1, 2
BOOT = ["m-init-done", "m-ready"]
INPUT = bytes(range(1, 9))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("mlperf")
    made: dict[tuple[int, ...], Path] = {}

    def program(wire: int = AS_IT_IS, *, score: int = 0, streams: int = 0, floats: int = 0) -> Path:
        key = (wire, score, streams, floats)
        if key not in made:
            mlperf = data_dir("firmware_template") / "mlperf"
            made[key] = compile_program(
                Path(__file__).parent / "mlperf" / "device.c",
                mlperf / "mlperf.c",
                mlperf / "pulse.c",
                output=folder / "-".join(map(str, key)),
                defines={"WIRE": wire, "SCORE": score, "STREAMS": streams, "FLOATS": floats},
                includes=[mlperf],
            )
        return made[key]

    return program


def exchange(program: Path, data: bytes) -> bytes:
    done = subprocess.run([program], input=data, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return done.stdout


@pytest.fixture
def say(programs: Callable[..., Path]) -> Say:
    """Sends commands; returns the lines of each answer, without the last, ``m-ready``."""

    def said(*commands: str, **model: int) -> list[list[str]]:
        data = "".join(f"{command}%" for command in commands).encode("latin-1")
        text = exchange(programs(**model), data).decode("ascii")
        *lines, runs = text.removesuffix("\n").replace("\r\n", "\n").split("\n")
        assert runs.startswith("runs ")
        assert lines[:2] == BOOT
        answers: list[list[str]] = [[]]
        for line in lines[2:]:
            if line == "m-ready":
                answers.append([])
            else:
                answers[-1].append(line)
        assert answers.pop() == []
        assert len(answers) == len(commands)
        return answers

    return said


LOADED = ["db load 8", f"db {INPUT.hex()}"]

CASES = {
    "name": ["m-name-dut-[this machine]"],
    "profile": ["m-profile-[profile of the firmware]", "m-model-[kws01]"],
    "": [],
    "   ": [],
    "\r\n  name": ["m-name-dut-[this machine]"],
    "names": ["e-[Unknown command: names]"],
    "NAME": ["e-[Unknown command: NAME]"],
    "a]b\x07\xff": ["e-[Unknown command: a?b??]"],
    "name x": ["e-[Too many arguments]"],
    "a" * 80: ["e-[Unknown command: " + "a" * 80 + "]"],
    "a" * 81: ["e-[A command has 80 characters at most]"],
    "a" * 5000: ["e-[A command has 80 characters at most]"],
    "db": ["e-[Command 'db' requires a subcommand]"],
    "db load": ["e-[Command 'db load' requires the # of bytes]"],
    "db load 0": ["e-[Command 'db load' must be >0 bytes]"],
    "db load x": ["e-[Not a whole number: x]"],
    "db load -1": ["e-[Not a whole number: -1]"],
    "db load 4294967296": ["e-[Not a whole number: 4294967296]"],
    "db load 9": ["e-[Supplied buffer size 9 exceeds maximum of 8]"],
    "db load 4 4": ["e-[Too many arguments]"],
    "db load 8": ["m-[Expecting 8 bytes]"],
    "db 00": ["e-[Too many bytes: 0 are expected]"],
    "db print": ["e-[There are 0 bytes]"],
    "infer": ["e-[No input: 0 of 8 bytes are loaded]"],
    "infer 0": ["e-[Inference iterations must be >0]"],
    "infer 1 x": ["e-[Not a whole number: x]"],
    "infer 1 2 3": ["e-[Too many arguments]"],
    "results": ["e-[There is no result: nothing was inferred]"],
    "start": ["e-[This model does not detect in a stream]"],
    "stop": ["e-[This model does not detect in a stream]"],
    "print_detections": ["e-[This model does not detect in a stream]"],
    "one two three four five": ["e-[Unknown command: one]"],
}


def test_each_command_after_a_start(programs: Callable[..., Path]) -> None:
    for command, answer in CASES.items():
        text = exchange(programs(), f"{command}%".encode("latin-1")).decode("ascii")
        assert text.split("\r\n") == [*BOOT, *answer, "m-ready", "runs 0\n"], command


def test_an_input_comes_in_pieces(say: Say) -> None:
    answers = say(
        "db load 5", "db 0aFF", "db print", "db 0b0c0", "db 0bg0", "db 0b0c0d0e", "db 0b0c0d",
        "db print", "db print 2 1", "db print 99 4", "db print 1 5", "db 00", "infer 1 0",
    )  # fmt: skip
    assert answers == [
        ["m-[Expecting 5 bytes]"],
        [],
        ["m-buffer-0a-ff"],
        ["e-[Insufficient number of hex digits]"],
        ["e-[Invalid hex digit 'g']"],
        ["e-[Too many bytes: 3 are expected]"],
        ["m-load-done"],
        ["m-buffer-0a-ff-0b-0c-0d"],
        ["m-buffer-ff-0b"],
        ["m-buffer-0d"],
        ["e-[There are 5 bytes]"],
        ["e-[Too many bytes: 0 are expected]"],
        ["e-[No input: 5 of 8 bytes are loaded]"],
    ]


def results(values: np.ndarray) -> str:
    return f"m-results-[{','.join(f'{value:.3f}' for value in values)}]"


def test_an_inference(say: Say) -> None:
    """Each run has the input, though a run destroys it; the results stay."""
    *_, told, again = say(*LOADED, "infer 3 2", "results")
    assert told[:3] == ["m-warmup-start-2", "m-warmup-done", "m-infer-start-3"]
    laps = [int(line.removeprefix("m-lap-us-")) for line in told[3:5]]
    assert laps[1] - laps[0] > 0
    expected = results((np.frombuffer(INPUT, np.int8) - 2) * 0.25)
    assert told[5:] == ["m-infer-done", expected]
    assert again == [expected]


def test_defaults_of_an_inference(say: Say, programs: Callable[..., Path]) -> None:
    *_, told = say(*LOADED, "infer")
    assert [told[0], told[2]] == ["m-warmup-start-10", "m-infer-start-1"]
    data = "".join(f"{command}%" for command in (*LOADED, "infer")).encode()
    assert exchange(programs(), data).endswith(b"runs 11\n")


def test_bytes_become_int8(say: Say) -> None:
    sent = bytes([0, 1, 127, 128, 129, 200, 254, 255])
    *_, told = say("db load 8", f"db {sent.hex()}", "infer 1 0", wire=UINT8)
    assert told[-1] == results((np.frombuffer(sent, np.uint8).astype(int) - 128 - 2) * 0.25)


FLOATS = np.array([0.25, -0.25, 0.24, -0.26, 1e30, -1e30, 7.75, 3.0], "<f4")
#: By the scale 0.5 and the zero point 10, halves away from zero.
QUANTIZED = np.array([11, 9, 10, 9, 127, -128, 26, 16])


def floats_loaded(floats: np.ndarray) -> list[str]:
    data = floats.tobytes()
    return ["db load 32", f"db {data[:20].hex()}", f"db {data[20:].hex()}"]


def test_floats_are_quantized(say: Say) -> None:
    *_, told = say(*floats_loaded(FLOATS), "infer 2 1", wire=FLOAT32)
    assert told[-1] == results((QUANTIZED - 2) * 0.25)


def test_a_score_is_the_mean_squared_difference(say: Say) -> None:
    floats = np.where(np.abs(FLOATS) > 1e20, 0, FLOATS).astype("<f4")
    quantized = np.where(np.abs(FLOATS) > 1e20, 10, QUANTIZED)
    score = np.mean(((quantized - 2) * 0.25 - floats.astype(float)) ** 2)
    *_, told, again = say(*floats_loaded(floats), "infer 1 0", "results", wire=FLOAT32, score=1)
    assert told[-1] == f"m-results-[{score:.3f}]"
    assert again == told[-1:]


def test_a_model_of_floats(say: Say) -> None:
    """Its results are those of printf, for floats of all sizes."""
    floats = np.array(
        [0.0005, 0.0015, 0.0625, -0.0004, 123456.789, 16777216.0, 0.9995, 1e14], "<f4"
    )
    *_, told = say(*floats_loaded(floats), "infer 1 0", wire=FLOAT32, floats=1)
    assert told[-1] == results(floats.astype(float))
    *_, told = say(*floats_loaded(np.full(8, 3.0e38, "<f4")), "infer 1 0", wire=FLOAT32, floats=1)
    values = [float(text) for text in told[-1].removeprefix("m-results-[")[:-1].split(",")]
    np.testing.assert_allclose(values, 3.0e38, rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(say: Say, value: float) -> None:
    floats = np.where(np.arange(8) == 5, value, 1).astype("<f4")
    *_, told = say(*floats_loaded(floats), "infer 1 0", wire=FLOAT32)
    assert told == ["e-[Input 5 is not a finite number]"]


def loaded(first: int) -> list[str]:
    return ["db load 8", f"db {bytes([first, *range(7)]).hex()}"]


def test_a_run_that_fails(say: Say) -> None:
    *_, warm, after = say(*loaded(99), "infer 1 1", "results")
    assert warm == ["m-warmup-start-1", "e-[Inference failed with code 7]"]
    assert after == ["e-[There is no result: nothing was inferred]"]
    *_, told = say(*loaded(99), "infer 1 0")
    assert told[4] == "e-[Inference failed with code 7]"
    *_, told = say(*loaded(96), "infer 1 0")
    assert told[4] == "e-[Inference failed with code 2147483648]"  # the least of int32
    *_, told = say(*loaded(97), "infer 1 0")
    assert told[-1] == "e-[The model wrote outside of its workspace]"


def test_a_fault_is_told_before_the_restart(programs: Callable[..., Path]) -> None:
    data = "".join(f"{command}%" for command in (*loaded(98), "infer 1 0"))
    text = exchange(programs(), data.encode()).decode("ascii")
    assert text.endswith("e-[Fault 5 at 4660]\r\nreset\n")


def test_a_stream(say: Say) -> None:
    """The first class is the wake word; no more detections are kept than there is room for."""
    wake, other = [bytes([9, *[1] * 7]), bytes([1, 9, *[1] * 6])]

    def window(data: bytes) -> list[str]:
        return ["db load 8", f"db {data.hex()}", "infer 1 0"]

    answers = say(
        "print_detections", "stop", *window(wake), "start", *window(wake), *window(other),
        *window(wake), "stop", *window(wake), "print_detections", "start", "print_detections",
        *4 * window(wake), "print_detections", streams=1,
    )  # fmt: skip
    assert answers[0] == ["Detection Timestamps (ms)"]
    assert answers[1] == []
    head, *times = answers[19]
    assert head == "Detection Timestamps (ms)"
    assert len(times) == 2
    assert all(re.fullmatch(r"\d+,", time) for time in times)
    assert answers[21] == ["Detection Timestamps (ms)"]
    assert len(answers[-1]) == 1 + 3


PIECES = (
    "%", "%", "%", " ", "db ", "load ", "db load 8%", "db 00112233%", "db print ", "infer ",
    "infer 2 1%", "infer 1 0%", "results%", "name%", "profile%", "timestamp%", "start%", "stop%",
    "print_detections%", "help%", "0", "4", "99999999999999", "-1", "\r\n", "\0", "\xff", "]",
    "db ffffffff%", "db 0000c07f%", "x" * 90,
)  # fmt: skip


@pytest.mark.parametrize(("wire", "options"), [(0, {"streams": 1}), (1, {}), (2, {"score": 1})])
def test_random_lines(programs: Callable[..., Path], wire: int, options: dict[str, int]) -> None:
    """Every command is answered once, in lines that a host knows, whatever comes."""
    rng = random.Random(wire)
    text = "".join(rng.choice(PIECES) for _ in range(20_000)) + "%name%"
    text = re.sub("infer ([0-9]{4})", r"infer 1 \1", text)
    data = text.encode("latin-1")
    noise = bytes(rng.choices(range(256), k=20_000)) + b"%"
    for said in (data, noise + data):
        lines = exchange(programs(wire, **options), said).decode("ascii").split("\r\n")
        assert lines.count("m-ready") == said.count(b"%") + 1
        assert lines[-3] == "m-name-dut-[this machine]"
        helps = re.compile(r"name, profile|db |infer |results  |start, stop")
        for line in lines[:-1]:
            assert re.match(r"m-|e-\[.*\]$|Detection Timestamps|\d+,$", line) or helps.match(line)


@pytest.mark.full
@pytest.mark.skipif(not has_libfuzzer(), reason="clang's libFuzzer is missing")
@pytest.mark.parametrize("benchmark", sampled(BENCHMARKS, keep=BENCHMARKS[:1]), ids=str)
def test_a_hostile_line(benchmark: Benchmark, tmp_path: Path) -> None:
    found, keep = tmp_path / "found", tmp_path / "keep"
    found.mkdir()
    keep.mkdir()
    program = fuzz_program(benchmark, tmp_path / "fuzz")
    done = fuzz(program, benchmark, [found], keep, runs=20_000, dictionary=DICTIONARY)
    assert done.crash is None, done.output[-4000:]
    assert done.executions >= 20_000


def test_a_command_that_asks_for_ever_is_cut_off(tmp_path: Path) -> None:
    """It is no hang of the server, also where it warms up, which prints nothing."""
    program = fuzz_program(
        BENCHMARKS[0], tmp_path / "replay", ("gcc", *SANITIZERS), ["fuzz_replay.c"]
    )
    for text in ("infer 1 4000000000%", "infer 4000000000 0%"):
        (tmp_path / "input").write_text(text)
        subprocess.run([program, tmp_path / "input"], check=True, timeout=60)


@pytest.mark.full
@pytest.mark.skipif(not has_libfuzzer(), reason="clang's libFuzzer is missing")
def test_libfuzzer_finds_a_buffer_that_overflows(tmp_path: Path) -> None:
    """It reaches what is behind two commands that are right."""
    right = "if (length / 2 > expected - loaded) {"
    template = data_dir("firmware_template") / "mlperf" / "mlperf.c"
    source = template.read_text()
    assert right in source
    for folder in ("found", "keep", "mlperf"):
        (tmp_path / folder).mkdir()
    wrong = source.replace(right, "if (length > 78) {")
    (tmp_path / "mlperf" / "mlperf.c").write_text(wrong)
    program = fuzz_program(BENCHMARKS[0], tmp_path / "fuzz", before=[tmp_path / "mlperf"])
    done = fuzz(
        program, BENCHMARKS[0], [tmp_path / "found"], tmp_path / "keep",
        runs=2_000_000, seconds=60, dictionary=DICTIONARY,
    )  # fmt: skip
    assert done.crash is not None
