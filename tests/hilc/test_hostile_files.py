"""Hostile files of models, read under guard: a sample of the campaign ``frontends``, and the guard.

``python tools/measure.py torture frontends`` reads many more, guided by the compiler's coverage.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from campaigns import sampled
from guarded import Verdict, guard, verdict
from hostile_files import EXECUTED, FORMATS, Format, Payload, changed_json
from hostile_worker import originals_of

from hilc.errors import HilError, InputError, ModelError
from hilc.frontends import load_model
from hilc.frontends.tflite import reader
from hilc.ir import Quant, Tensor


def judged(chosen: Format, data: bytes, folder: Path) -> Verdict:
    """What becomes of a file that is read, and used where it is accepted."""
    seen = verdict(lambda: chosen.use(chosen.read(data, folder), folder))
    assert not seen.breach, seen.detail
    return seen


# Making ONNX's own suite takes seconds; tests/hilc/test_onnx_hostile.py has a sample.
@pytest.mark.parametrize("name", sampled(FORMATS, keep=["tflite", "mlf"]))
def test_changed_files_are_accepted_or_refused(name: str, tmp_path: Path) -> None:
    chosen = FORMATS[name]
    originals = chosen.originals()
    # Outside of the guard, since modules are imported on their first use. ONNX's own suite has
    # models that are refused as well.
    for data in originals[::40]:
        with suppress(HilError):
            chosen.use(chosen.read(data, tmp_path), tmp_path)
    accepted = 0
    with guard(tmp_path):
        for number in range(80):
            dice = Random(f"{name} {number}")
            seen = judged(chosen, chosen.change(dice, dice.choice(originals)), tmp_path)
            accepted += seen.is_accepted
    assert 0 < accepted < 80


def test_nothing_of_a_program_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every member a pickle that creates a file, and a description that calls them pickles."""
    monkeypatch.chdir(tmp_path)
    data = FORMATS["pt2"].originals()[0]
    path = tmp_path / "model.pt2"
    path.write_bytes(data)
    load_model(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    payload = pickle.dumps(Payload(EXECUTED))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if not name.endswith(".json"):
                content = payload if name.count("/") > 1 else content
            elif name.endswith("_config.json"):
                values = json.loads(content)
                for value in values["config"].values():
                    value["use_pickle"] = True
                content = json.dumps(values).encode()
            archive.writestr(name, content)
    with guard(tmp_path):
        seen = verdict(lambda: load_model(path))
    assert not seen.breach, seen.detail
    assert not Path(EXECUTED).exists()
    # The payload is one: what opens it does create the file.
    os.close(pickle.loads(payload))
    assert Path(EXECUTED).exists()


def _busy() -> None:
    while True:
        pass


def _refused(fact: str) -> Callable[[], None]:
    def job() -> None:
        raise InputError(fact)

    return job


def _unforeseen() -> None:
    try:
        raise KeyError("x")
    except KeyError as error:
        raise ModelError("the file is inconsistent (KeyError: x)") from error


def _elsewhere() -> None:
    (Path(__file__).parent / "evil").write_text("x")


BREACHES: dict[str, tuple[Callable[[], object], str]] = {
    "a foreign exception": (lambda: dict[str, int]()["x"], "KeyError"),
    "no memory": (lambda: bytearray(1 << 40), "MemoryError"),
    "a hang": (_busy, "still busy"),
    "an error that no check foresaw": (_unforeseen, "unforeseen: KeyError"),
    "an error of two lines": (_refused("a\nb"), "not one clear line"),
    "a file elsewhere": (_elsewhere, "open of"),
    "a file that is none of its business": (Path("/etc/passwd").read_bytes, "read"),
    "a folder elsewhere": (lambda: os.mkdir("/tmp/evil-folder"), "os.mkdir"),
    "a program": (lambda: subprocess.run(["true"]), "subprocess.Popen"),
    "a command": (lambda: os.system("true"), "os.system"),
    "a connection": (lambda: socket.socket().connect(("127.0.0.1", 9)), "socket.connect"),
    "a pickle": (lambda: pickle.loads(pickle.dumps(Payload("x"))), "pickle.find_class"),
    "code": (lambda: eval("1 + 1"), "exec of <string>"),
}


@pytest.mark.parametrize("what", BREACHES)
def test_the_guard_sees(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, said = BREACHES[what]
    monkeypatch.setattr("guarded.LIMIT_S", 0.2)
    with guard(tmp_path):
        seen = verdict(job)
    assert said in seen.breach
    assert not (Path(__file__).parent / "evil").exists()


def test_the_guard_lets_good_files_pass(tmp_path: Path) -> None:
    with guard(tmp_path):
        seen = verdict(lambda: (tmp_path / "file").write_text("x"))
    assert (seen.is_accepted, seen.breach) == (True, "")
    with guard(tmp_path):
        assert verdict(_refused("one sentence")).breach == ""


@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
def test_the_worker_counts(name: str, tmp_path: Path) -> None:
    worker = Path(__file__).parents[1] / "support" / "harness" / "hostile_worker.py"
    command = [sys.executable, str(worker), name, "--runs", "300", "--folder", str(tmp_path)]
    subprocess.run(command, check=True, timeout=300)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["executions"] == 300
    assert figures["breaches"] == {}


def test_a_change_of_json_depends_only_on_the_seed() -> None:
    """What one change puts in and the next one changes is not what later files get."""
    data = json.dumps({"a": [1, {"b": 2}], "c": "d"}).encode()

    def changed(seed: int) -> bytes:
        dice, made = Random(seed), data
        for _ in range(8):
            made = changed_json(dice, made)
        return made

    seeds = range(400)
    assert [changed(seed) for seed in seeds] == [changed(seed) for seed in seeds]


def test_originals_are_made_once_for_all_workers(tmp_path: Path) -> None:
    chosen = Format(lambda: [b"one", b"", b"three"], lambda *_: b"", lambda *_: 0, lambda *_: None)
    assert originals_of(chosen, tmp_path) == [b"one", b"", b"three"]
    broken = Format(lambda: [][0], lambda *_: b"", lambda *_: 0, lambda *_: None)
    assert originals_of(broken, tmp_path) == [b"one", b"", b"three"]


def test_a_breach_is_told_by_the_line_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by that of a package which it calls, wherever that is installed."""
    tensor = Tensor("x", (1,), "int8", Quant((0.5,), ("three",)))  # type: ignore[arg-type]
    monkeypatch.setattr(reader, "check_tensor", lambda tensor: None)
    with guard(tmp_path):
        seen = verdict(lambda: reader._cleared(tensor))  # which calls numpy.full
    place = r"[A-Za-z]+: [A-Za-z]+ at compiler/hilc/frontends/tflite/reader\.py:\d+ _cleared"
    assert re.fullmatch(place, seen.breach)
