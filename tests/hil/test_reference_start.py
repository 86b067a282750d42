"""Whether the default reference starts, and what may take its place if it does not."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import answers
import numpy as np
import pytest
from campaigns import cases
from qdq_models import network
from tflm import needs_tflm

import hil
import hilc
import hilc.host
import hilc.references
from hil.cli import main
from hil.errors import InputError
from hil.verify.oracle import fallback_allowed, installed_reference, reference_of
from hilc.ir import Array
from hilc.references import is_independent, tflm
from hilc.references.process import SharedProcess

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
NOT_INDEPENDENT = "match with this compiler's own interpreter (not independent)"


def leave_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave CI and pytest for a user's shell; pytest sets its variable anew for each phase."""
    for name in ("CI", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def without_tflm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hilc.references, "_installed", lambda package: None)


def user_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_CURRENT_TEST")}


@pytest.mark.full
@needs_tflm
def test_a_limit_of_memory_that_suffices() -> None:
    """Lower than the reference's own limit: it starts below it, and nothing replaces it."""
    words = [sys.executable, "-m", "hil", "verify", str(DIGITS), "--board", "native", "--json"]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        env=user_environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4_000_000 << 10,) * 2),
    )
    assert done.returncode == 0, done.stderr
    report = answers.entry(done.stdout)
    assert (report["reference"], report["reference_fallback"]) == ("tflm", None)
    assert (report["match"], report["independent"]) == (True, True)


_STARVED = """
import resource
from hilc.errors import InputError
from hilc.references import tflm
from hilc.support.process import run
run(["true"], None, limit_s=60)  # starts the thread that starts processes
resource.setrlimit(resource.RLIMIT_AS, (60 << 20, resource.RLIM_INFINITY))
try:
    tflm.start()
except InputError as error:
    print(error)
"""


@needs_tflm
def test_a_limit_of_memory_that_does_not_suffice() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STARVED], capture_output=True, text=True, check=True
    )
    assert "the installed tflite-micro does not start: " in done.stdout
    assert f"hint: raise the limit of address space: `ulimit -v` is {60 << 10}" in done.stdout
    assert "pip install" not in done.stdout


def test_a_package_that_is_missing() -> None:
    process = SharedProcess("no_such_runtime", 4 << 30, "no-such-runtime", "pip install it")
    with pytest.raises(InputError, match="does not start: .*ModuleNotFoundError") as caught:
        process.running()
    assert caught.value.hint == "pip install it"


@needs_tflm
def test_an_installed_reference_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hil doctor` and pytest's header start it: its version alone says little."""
    broken = SharedProcess("no_such_runtime", 4 << 30, "tflite-micro", "pip install it")
    monkeypatch.setattr(tflm, "_PROCESS", broken)
    used, fallback = installed_reference()
    assert used != "tflm"
    assert fallback is not None
    assert (fallback.wanted, fallback.remedy) == ("tflm", "pip install it")
    assert "does not start" in fallback.missing


@pytest.mark.full
@needs_tflm
def test_a_reference_that_ends_halfway() -> None:
    library = hilc.compile(DIGITS, name="digits")
    oracle = reference_of(library, library.modules[0])
    x = np.zeros((1, 8, 8, 1), np.int8)

    def samples() -> Iterator[Mapping[str, Array]]:
        yield {library.modules[0].inputs[0].name: x}
        process = tflm._PROCESS.running()
        process._child.kill()
        yield {library.modules[0].inputs[0].name: x}

    with (
        hilc.host.load(library) as model,
        pytest.raises(InputError, match="it ended by SIGKILL"),
    ):
        hil.verify(model, samples(), oracle)
    # The next model finds a process that was started anew.
    assert reference_of(library, library.modules[0]).name == "tflm"


@pytest.mark.parametrize(
    ("ci", "in_pytest", "given", "allowed"),
    [
        (None, False, None, True),
        ("", False, None, True),
        ("0", False, None, True),
        ("false", False, None, True),
        ("true", False, None, False),
        ("1", False, None, False),
        (None, True, None, False),
        ("true", True, True, True),
        (None, False, False, False),
    ],
)
def test_where_a_fallback_is_allowed(
    ci: str | None,
    in_pytest: bool,
    given: bool | None,
    allowed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave_ci(monkeypatch)
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    if in_pytest:
        monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_it (call)")
    assert fallback_allowed(given) is allowed


COMMANDS = (
    ("verify", "--samples", "2"),
    ("bench",),
    ("gate", "--baseline", "BASELINE", "--max-slower", "1%"),
    ("evaluate", "--data", "DATA"),
)


@cases("words", COMMANDS, ids=lambda words: words[0], first=1)
def test_ci_refuses_a_fallback(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, baseline = tmp_path / "data.npz", tmp_path / "base.json"
    np.savez(data, x=np.zeros((4, 8, 8, 1), np.int8), labels=np.arange(4))
    board = ["--board", "mps2-an386"]
    assert main(["bench", str(DIGITS), *board, "--json"]) == 0
    baseline.write_text(capsys.readouterr().out)
    given = {"DATA": str(data), "BASELINE": str(baseline)}
    command, *rest = (given.get(word, word) for word in words)
    line = [command, str(DIGITS), *board, *rest]
    monkeypatch.setattr(hilc.references, "_installed", lambda package: None)
    monkeypatch.setenv("CI", "true")
    assert main(line) == 2
    said = capsys.readouterr().err
    assert "the reference tflm cannot run 'digits'" in said
    assert "pip install" in said
    assert "--allow-fallback" in said
    assert main([*line, "--allow-fallback"]) == 0
    assert "own interpreter" in capsys.readouterr().out


def test_gate_refuses_a_fallback_everywhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    leave_ci(monkeypatch)
    baseline = tmp_path / "base.json"
    bench = ["bench", str(DIGITS), "--board", "mps2-an386", "--json"]
    assert main(bench) == 0
    baseline.write_text(capsys.readouterr().out)
    gate = ["gate", "--baseline", str(baseline), "--max-slower", "1%"]
    monkeypatch.setattr(hilc.references, "_installed", lambda package: None)
    assert main([*gate, str(DIGITS), "--board", "mps2-an386"]) == 2
    assert "--allow-fallback" in capsys.readouterr().err
    # A result that was stored is held to the same.
    assert main(bench) == 0
    stored = tmp_path / "now.json"
    stored.write_text(capsys.readouterr().out)
    assert main([*gate, str(stored)]) == 2
    assert "only with this compiler's own interpreter" in capsys.readouterr().err
    assert main([*gate, str(stored), "--allow-fallback"]) == 0
    assert "this compiler's own interpreter (not independent)" in capsys.readouterr().out


def test_the_first_line_names_the_dependence(
    without_tflm: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_ci(monkeypatch)
    verify = ["verify", str(DIGITS), "--board", "native", "--samples", "2"]
    for words in ([], ["--reference", "hilc"]):
        assert main([*verify, *words]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert first.startswith(f"digits on native: {NOT_INDEPENDENT} over 2 samples")
    assert main([*verify, "--json"]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["independent"] is False
    assert report["reference_fallback"]["wanted"] == "tflm"


def test_doctor_says_that_it_is_not_independent(
    without_tflm: None, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "--json"])
    found = answers.entry(capsys.readouterr().out)["reference"]
    assert (found["name"], found["independent"]) == ("hilc", False)


def test_what_this_compiler_computes_itself() -> None:
    names = {name: is_independent(name) for name in hilc.references.reference_names()}
    assert [name for name, is_other in names.items() if not is_other] == ["qdq", "hilc"]


@pytest.mark.full
def test_the_default_of_quantized_onnx_models() -> None:
    library = hilc.compile(network(np.random.default_rng(0)).SerializeToString(), name="net")
    oracle = reference_of(library, library.modules[0])
    assert (oracle.name, oracle.independent, oracle.fallback) == ("qdq", False, None)
