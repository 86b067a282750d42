"""MLPerf Tiny's commands on emulated boards, driven by a client that knows their text alone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from campaigns import sampled
from models import model_path, models_dir, samples

from hil.access import start
from hil.board import load_board
from hil.build import build
from hil.cli import main
from hil.firmware.mlperf import BENCHMARKS, Mlperf, benchmark_named
from hil.firmware.sources import ModelOptions, load_sources, parse_sources
from hil.link.line import Line, open_line
from hil.mlperf.check import expected_results
from hil.oracle import reference_of
from hil.verify import Oracle
from hilc.artifact.library import Module

#: Bytes of an input, its type on the line, and the number of results.
INPUTS = {"kws": (490, 12), "ic": (3072, 10), "vww": (27648, 2), "ad": (2560, 1)}
BOARDS = {"kws": "mps2-an386", "ad": "mps2-an385", "ic": "riscv-virt", "vww": "mps3-an547"}
PATIENCE_S = 120.0


class TextClient:
    """Commands end in ``%``, answers in ``m-ready`` and a new line. Nothing else is known."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._text = ""
        assert self._answer() == ["m-init-done"]

    def say(self, command: str) -> list[str]:
        assert len(command) <= 80
        self._line.write(command.encode("ascii") + b"%")
        return self._answer()

    def _answer(self) -> list[str]:
        deadline = time.monotonic() + PATIENCE_S
        while "m-ready\r\n" not in self._text:
            self._text += self._line.read().decode("ascii")
            assert time.monotonic() < deadline, self._text
        answer, self._text = self._text.split("m-ready\r\n", 1)
        assert not self._text, "something came unasked"
        return answer.split("\r\n")[:-1]

    def load(self, data: bytes) -> None:
        assert self.say(f"db load {len(data)}") == [f"m-[Expecting {len(data)} bytes]"]
        for begin in range(0, len(data), 32):
            answer = self.say(f"db {data[begin : begin + 32].hex()}")
            assert answer == (["m-load-done"] if begin + 32 >= len(data) else [])

    def infer(self, count: int, warmups: int) -> tuple[int, list[str]]:
        """Returns microseconds and the results."""
        *begin, first, last, done, results = self.say(f"infer {count} {warmups}")
        assert begin == [
            f"m-warmup-start-{warmups}", "m-warmup-done", f"m-infer-start-{count}"
        ]  # fmt: skip
        assert done == "m-infer-done"
        times = [int(line.removeprefix("m-lap-us-")) for line in (first, last)]
        values = re.fullmatch(r"m-results-\[(.*)\]", results)
        assert values
        return times[1] - times[0], values[1].split(",")


@contextmanager
def device(short: str) -> Iterator[tuple[TextClient, Module, Oracle]]:
    board = load_board(BOARDS[short])
    options = ModelOptions(board.cpu.name, board=board)
    (library,) = load_sources(parse_sources([f"{short}={model_path(short)}"]), options)
    (module,) = library.modules
    mlperf = Mlperf(benchmark_named("auto", module))
    assert mlperf.benchmark.model == f"{short}01"
    firmware = build([library], board, mlperf=mlperf, warnings_as_errors=True)
    assert firmware.board.macros["HIL_UART_BAUD"] == (921600 if short == "ad" else 115200)
    with start(firmware.board, firmware) as running:
        line = running.line or open_line(running.url)
        try:
            yield TextClient(line), module, reference_of(library, module)
        finally:
            line.close()


def on_line(short: str) -> list[tuple[bytes, np.ndarray]]:
    """Real inputs, as the benchmark sends them and as the model takes them; others are random."""
    if short == "ad":
        frames = np.load(models_dir() / "samples" / "ad_spectrogram_float32.npy")
        windows = [frames[i : i + 5].reshape(1, 640).astype("<f4") for i in (0, 57, 120)]
        return [(window.tobytes(), window) for window in windows]
    found = samples(short, 3)
    if short == "kws":
        return [(sample.tobytes(), sample) for sample in found]
    return [((s.astype(np.int16) + 128).astype(np.uint8).tobytes(), s) for s in found]


def expected(short: str, index: int, given: np.ndarray, module: Module, oracle: Oracle) -> Any:
    """What the reference computes, dequantized; of ad how far it is from the floats."""
    tensor, output = module.inputs[0], module.outputs[0]
    assert tensor.scale is not None
    assert output.scale is not None
    if short == "ad":
        steps = given / np.float32(tensor.scale)
        away = np.copysign(np.floor(np.abs(steps) + np.float32(0.5)), steps)
        sent, given = given, np.clip(away + tensor.zero_point, -128, 127).astype(np.int8)
    quantized = oracle.values(index, {tensor.name: given})[output.name].astype(np.float32)
    real = np.float32(output.scale) * (quantized - np.float32(output.zero_point))
    if short == "ad":
        return [np.mean((real.astype(float) - sent.astype(float)) ** 2)]
    return real.ravel()


@pytest.mark.parametrize("short", sampled(INPUTS, keep=["kws"]))
def test_four_models(short: str) -> None:
    """Performance, and the accuracy of each result: every digit is the reference's."""
    with device(short) as (client, module, oracle):
        nbytes, count = INPUTS[short]
        assert client.say("name") == [f"m-name-dut-[{BOARDS[short]}]"]
        assert client.say("profile") == [
            "m-profile-[ULPMark for tinyML Firmware V0.0.1]", f"m-model-[{short}01]"
        ]  # fmt: skip
        assert all(line.startswith("e-[") for line in client.say("infer 1 0"))
        assert all(line.startswith("e-[") for line in client.say(f"db load {nbytes + 1}"))
        for index, (data, given) in enumerate(on_line(short)):
            assert len(data) == nbytes
            client.load(data)
            wanted = [f"{v:.3f}" for v in expected(short, index, given, module, oracle)]
            once, results = client.infer(1, 0)
            assert len(results) == count
            check = expected_results(data, module, BENCHMARKS[f"{short}01"], oracle)
            assert [f"{value:.3f}" for value in check] == wanted
            assert results == wanted
            thrice, results = client.infer(3, 1)
            assert results == wanted, "a later inference had another input"
            # The first line is sent between the times.
            assert 2.5 * once < thrice < 3.1 * once
            assert client.say("results") == [f"m-results-[{','.join(results)}]"]
        begin, end = (int(client.say("timestamp")[0].removeprefix("m-lap-us-")) for _ in "12")
        assert begin < end
        assert client.say("db print 4")[0] == "m-buffer-" + "-".join(
            f"{byte:02x}" for byte in data[:4]
        )


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``hil mlperf`` with a data set as MLPerf Tiny has it."""
    folder, out = tmp_path / "kws01", tmp_path / "out"
    folder.mkdir()
    inputs = [data for data, _ in on_line("kws")]
    for index, data in enumerate(inputs):
        (folder / f"{index}.bin").write_bytes(data)
    (folder / "y_labels.csv").write_text("0.bin,12,6\n1.bin,12,0\n2.bin,12,1\n")
    words = ["mlperf", str(model_path("kws")), "--board", "mps2-an386", "-o", str(out)]
    words += ["--data", str(folder), "--windows", "2", "--seconds", "0.5", "--name", "kws"]
    assert main([*words, "--json"]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["benchmark"] == "kws01"
    assert report["emulator"] == "qemu"
    assert report["performance"]["windows_met"] is False
    assert [window["iterations"] for window in report["performance"]["windows"]] == [2, 2]
    assert report["accuracy"]["files"] == 3
    place = out / "results" / "mps2-an386" / "kws"
    performance = (place / "performance" / "results.txt").read_text()
    # What upstream's checks look for.
    assert re.search(r"ulp-mlperf: Median throughput is +[\d.]+ inf\./sec\.$", performance, re.M)
    assert "Emulated by qemu" in performance
    accuracy = (place / "accuracy" / "results.txt").read_text()
    top1 = report["accuracy"]["top1"]["value"]
    assert f"ulp-mlperf: Top 1% = {100 * top1:.1f}\n" in accuracy
    entries = json.loads((place / "accuracy" / "results.json").read_text())
    assert [entry["file"] for entry in entries] == ["0.bin", "1.bin", "2.bin"]
    assert entries[0]["infer"]["iterations"] == 1
    assert "ulp-mlperf:   m-results    : [" in (place / "accuracy" / "log.txt").read_text()
    assert json.loads((out / "systems" / "mps2-an386.json").read_text())["Processor(s) Name"]
    assert main(words) == 2, "results are not replaced unasked"
    assert "exists" in capsys.readouterr().err
