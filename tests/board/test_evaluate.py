"""A data set goes through an emulated board."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import answers
import numpy as np
import psutil
import pytest
from models import model_path

import hil

COUNT = 1000
DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def command(data: Path, labels: Path, jobs: int) -> list[str]:
    return [
        *(sys.executable, "-m", "hil", "evaluate", str(DIGITS / "digits.tflite")),
        *("--board", "mps2-an386", "--data", str(data), "--labels", str(labels)),
        *("--jobs", str(jobs), "--json"),
    ]


def figures(text: str) -> Any:
    entry = answers.entry(text)
    return [entry[key] for key in ("samples", "match", "metrics", "confusion", "mismatches")]


def test_several_emulators_share_the_samples() -> None:
    files = (DIGITS / "digits_test.npz", DIGITS / "digits_labels.npy")
    two = subprocess.run(command(*files, 2), capture_output=True, text=True, timeout=300)
    assert two.returncode == 0, two.stderr
    assert answers.entry(two.stdout)["jobs"] == 2
    one = subprocess.run(command(*files, 1), capture_output=True, text=True, timeout=300)
    assert "jobs" not in answers.entry(one.stdout)
    assert figures(two.stdout) == figures(one.stdout)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "killed"])
def test_an_end_in_the_middle(kind: signal.Signals, tmp_path: Path) -> None:
    """An interrupt ends both emulators; one that is killed is started again, or is an error."""
    output = tmp_path / "out.json"
    words = [*command(*_repeated(8, tmp_path), 2), "-o", str(output)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        emulators = _emulators(run)
        if kind is signal.SIGKILL:
            emulators[1].kill()
        else:
            run.send_signal(kind)
        printed, errors = run.communicate(timeout=300)
    assert not any(one.is_running() and one.status() != "zombie" for one in emulators)
    if run.returncode == 0:
        assert answers.entry(printed.decode())["match"]
        assert kind is signal.SIGKILL
    else:
        assert run.returncode == (4 if kind is signal.SIGKILL else 130), errors.decode()
        assert b"Traceback" not in errors
        again = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert answers.entry(again.stdout)["match"], again.stderr


def _repeated(times: int, folder: Path) -> tuple[Path, Path]:
    """Write the digits' data and labels several times, so that their evaluation takes longer."""
    (data,) = np.load(DIGITS / "digits_test.npz").values()
    paths = (folder / "data.npy", folder / "labels.npy")
    for path, array in zip(paths, (data, np.load(DIGITS / "digits_labels.npy")), strict=True):
        np.save(path, np.concatenate([array] * times))
    return paths


def _emulators(run: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the emulators of an evaluation once its samples are being computed."""
    while run.poll() is None:
        time.sleep(0.005)
        with contextlib.suppress(psutil.NoSuchProcess):
            started = psutil.Process(run.pid).children(recursive=True)
            found = [one for one in started if one.name().startswith("qemu-system")]
            if len(found) == 2 and all(sum(one.cpu_times()[:2]) > 0.3 for one in found):
                return found
    raise AssertionError(f"it ended before its emulators worked: {run.communicate()}")


@pytest.mark.full
def test_a_thousand_keywords(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.integers(-128, 128, (COUNT, 49, 10, 1)).astype(np.int8)
    labels = rng.integers(0, 12, COUNT)
    report = hil.evaluate(model_path("kws"), inputs, labels, board="mps2-an386")
    assert report.mismatches == 0
    assert "memory" in report.transport
    with capsys.disabled():
        print(f"[{COUNT} inputs: {report.seconds:.0f} s] ", end="")
