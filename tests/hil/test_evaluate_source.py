"""An evaluation goes on where it was interrupted, but not with outputs of another board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from campaigns import cases
from fake_bench import Bench
from small_models import convolutions

import hil
from hil.cli import main
from hil.errors import DeviceError, InputError
from hil.verify import evaluation

BOARD = "mps2-an386"
RNG = np.random.default_rng(5)
COUNT, DONE = 8, 3
INPUTS = RNG.integers(-128, 128, (COUNT, 1, 8, 8, 3)).astype(np.int8)
LABELS = RNG.integers(0, 5, COUNT)


class Interrupted(Exception):
    pass


def interrupt(done: int, count: int) -> None:
    if done == DONE:
        raise Interrupted


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(convolutions())
    return path


def evaluated(model: Path, journal: Path, **options: Any) -> Any:
    how = {"board": BOARD, "reference": "hilc", "journal": journal, **options}
    return hil.evaluate(model, INPUTS, LABELS, **how)


@pytest.mark.full
@cases("first", ["qemu", "native", "probe", "another image"], first=1)
def test_another_source(model: Path, rig: Bench, tmp_path: Path, first: str) -> None:
    """Its outputs are refused, and stay; the same source goes on."""
    one, other = rig.add(), rig.add()
    journal = tmp_path / "out.journal"
    of_first: dict[str, Any] = {
        "qemu": {"runner": "qemu"},
        "native": {"board": "native"},
        "probe": {"probe": one.serial},
        "another image": {"runner": "qemu", "optimize": "size"},
    }[first]
    second: dict[str, Any] = (
        {"runner": "qemu"} if first == "another image" else {"probe": other.serial}
    )
    with rig.installed():
        with pytest.raises(Interrupted):
            evaluated(model, journal, progress=interrupt, **of_first)
        kept = journal.read_bytes()
        with pytest.raises(InputError, match="is not the journal of this evaluation: ") as refused:
            evaluated(model, journal, **second)
        if first in ("qemu", "probe"):
            assert f"is 'pyocd, probe {other.serial}, line usb:" in refused.value.fact
        assert journal.read_bytes() == kept
        assert evaluated(model, journal, **of_first).resumed == DONE
        journal.write_bytes(kept)
        assert evaluated(model, journal, restart=True, **second).resumed == 0


@pytest.mark.full
def test_the_journals_of_two_sources(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a name, each has its own in the cache."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data.npz"
    np.savez(data, x=INPUTS, labels=LABELS)
    words = ["evaluate", str(model), "--data", str(data), "--board", BOARD, "--reference", "hilc"]
    real, calls = evaluation._computed, list[Any]()

    def failing(*args: Any) -> Any:
        calls.append(args)
        if len(calls) > DONE:
            raise DeviceError("the board failed")
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "_computed", failing)
        assert main([*words, "--runner", "qemu"]) == 4
    (journal,) = (tmp_path / "cache" / "evaluations").iterdir()
    capsys.readouterr()
    for runner, resumed in (("pyocd", 0), ("qemu", DONE)):
        virtual = ["--probe", "virtual"] if runner == "pyocd" else []
        assert main([*words, "--runner", runner, *virtual, "--json"]) == 0
        assert answers.entry(capsys.readouterr().out)["resumed"] == resumed
        assert journal.exists() == (runner == "pyocd")
