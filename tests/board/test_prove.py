"""``hil board prove`` on emulated boards, and the files of proven ones."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import answers
import pytest
from campaigns import sampled

from hil.board import board_names, load_board
from hil.board.proven import proof_of
from hil.cli import main
from hil.device import Device
from hil.errors import DeviceError, InputError
from hil.results.boards import ProofCheck
from hil.verify.acceptance import _Proof
from hilc.support.resources import data_dir

TARGETS = data_dir("targets")
EMULATED = [name for name in board_names() if load_board(name).qemu is not None]


@pytest.mark.parametrize("name", sampled(EMULATED, keep=["mps2-an386", "microbit", "riscv-virt"]))
def test_an_emulated_board_is_proven(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "proof.json"
    assert main(["board", "prove", name, "-o", str(out), "--runner", "qemu", "--json"]) == 0
    found = answers.entry(capsys.readouterr().out)
    assert found == json.loads(out.read_text())
    assert found["proven"] is True
    assert found["emulated"] is True
    status = {check["name"]: check["status"] for check in found["checks"]}
    assert status.pop("timer") == status.pop("estimate") == "not run"
    assert set(status.values()) == {"passed"}
    assert set(status) == {
        *("identity", "link", "exact digits", "counts", "stack", "fault", "reset", "recoveries")
    }
    with pytest.raises(InputError, match="does not prove the real board"):
        proof_of(described(tmp_path, name, found))


def described(folder: Path, name: str, proof: Any) -> Path:
    """Return the path of a description beside which lies a proof."""
    (folder / "proven").mkdir(exist_ok=True)
    (folder / "proven" / f"{name}.json").write_text(json.dumps(proof))
    return folder / f"{name}.toml"


def test_a_failed_check_is_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that changes a byte of each message."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Device, "echo", lambda self, data: data[:-1] + bytes([data[-1] ^ 1]))
    assert main(["board", "prove", "mps2-an386", "--json"]) == 4
    found = answers.entry(capsys.readouterr().out)
    assert found["proven"] is False
    failed = {check["name"] for check in found["checks"] if check["status"] == "failed"}
    assert failed == {"link", "reset"}
    # A file of an earlier run is replaced, another one is not.
    (tmp_path / "mps2-an386.json").write_text("{}")
    assert main(["board", "prove", "mps2-an386"]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["board", "prove", "mps2-an386", "-o", "no/such/folder.json"]) == 2


@pytest.mark.parametrize("words", [["native"], [], ["microbit", "--board", "microbit"]])
def test_what_cannot_be_proven(words: list[str], tmp_path: Path) -> None:
    assert main(["board", "prove", *words, "-o", str(tmp_path / "p.json")]) == 2
    assert not (tmp_path / "p.json").exists()


def test_an_error_of_a_check_is_its_result() -> None:
    seen: list[ProofCheck] = []
    proof = _Proof(seen.append)

    def failing() -> Any:
        raise DeviceError("it is dead", "replace it")

    assert not proof.run("one", failing)
    assert proof.run("two", lambda: ("well", {"n": 1}))
    assert [check.status for check in seen] == ["failed", "passed"]
    assert seen[0].text == "it is dead (replace it)"


def test_a_proof_beside_a_description(tmp_path: Path) -> None:
    """A real board's file, as `prove` would write it: a stand-in, since none is at hand."""
    shutil.copy(TARGETS / "nucleo-l476rg.toml", tmp_path)
    for folder in ("chips", "families"):
        shutil.copytree(TARGETS / folder, tmp_path / folder)
    check = dataclasses.asdict(ProofCheck("identity", "passed", "image 1", {}))
    proof = {
        "board": "nucleo-l476rg",
        "description": "",
        "cpu": "cortex-m4",
        "clock_hz": 80_000_000,
        "source": "pyocd, probe 1",
        "emulated": False,
        "proven": True,
        "date": "2026-11-29T12:00:00+00:00",
        "versions": {},
        "checks": [check],
    }
    path = described(tmp_path, "nucleo-l476rg", proof)
    assert load_board(path).proven == "2026-11-29"
    for change in (
        {"board": "nucleo-f401re"},
        {"emulated": True},
        {"proven": False},
        {"checks": [{**check, "status": "failed"}]},
        {"date": 3},
    ):
        described(tmp_path, "nucleo-l476rg", {**proof, **change})
        with pytest.raises(InputError, match=r"nucleo-l476rg\.json"):
            load_board(path)


def test_the_files_of_proven_boards() -> None:
    for file in (TARGETS / "proven").glob("*.json"):
        assert load_board(file.stem).proven
