"""Commands without what only POSIX systems have, in a stand-in for Windows; locks there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hil.access import native
from hil.errors import LinkError
from hil.link import line, ports

ROOT = Path(__file__).parents[2]
STAND_IN = ROOT / "tests/support/programs/without_posix.py"
DIGITS = str(ROOT / "examples/digits/digits.tflite")


def ran(folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run ``hil`` in the stand-in."""
    return subprocess.run(
        [sys.executable, str(STAND_IN), *words],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a float ONNX model and samples for it."""
    path = tmp_path_factory.mktemp("windows")
    weight = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph([node], "net", [x], [y], [numpy_helper.from_array(weight, "w")])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path / "net.onnx")
    np.save(path / "x.npy", np.random.default_rng(0).normal(size=(8, 1, 4)).astype(np.float32))
    return path


COMMANDS = {
    "compile": f"compile {DIGITS} --cpu cortex-m4 -o digits.tar",
    "compile to a folder": f"compile {DIGITS} --cpu cortex-m4 -o digits",
    "build for a real board": f"build {DIGITS} --board nucleo-f446re -o firmware",
    "export": f"export {DIGITS} --build-system zephyr -o zephyr",
    "quantize": "quantize net.onnx --calibration x.npy -o q.onnx",
    "fit": f"fit {DIGITS} --board nucleo-f446re",
    "explain": f"explain {DIGITS} --board nucleo-f446re",
    "verify on the host": f"verify {DIGITS} --board native --samples 3 --reference hilc",
    "boards": "boards",
    "help": "verify --help",
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_commands_without_posix(folder: Path, words: str) -> None:
    done = ran(folder, words.split())
    assert done.returncode == 0, done.stderr


def test_a_serial_board_without_posix(folder: Path) -> None:
    built = ran(folder, ["build", DIGITS, "--board", "native", "-o", "native", "--json"])
    assert built.returncode == 0, built.stderr
    image = SimpleNamespace(elf=folder / json.loads(built.stdout)["results"][0]["elf"])
    with native.start(image) as board:
        words = ["verify", DIGITS, "--board", "native", "--port", board.url, "--samples", "3"]
        done = ran(folder, [*words, "--reference", "hilc", "--json"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["match"] is True


REFUSED = {
    "QEMU": (f"verify {DIGITS} --board mps2-an386 --reference hilc", 4, "QEMU"),
    "reference": (f"verify {DIGITS} --board native --reference tflm", 2, "tflite-micro"),
    "socket with a path": ("monitor --board native --port unix:///none", 4, "unix://"),
}


@pytest.mark.parametrize(("words", "code", "what"), REFUSED.values(), ids=REFUSED)
def test_refused_by_name_without_posix(folder: Path, words: str, code: int, what: str) -> None:
    done = ran(folder, words.split())
    assert done.returncode == code, done.stderr
    assert what in done.stderr
    assert "WSL" in done.stderr
    assert "Traceback" not in done.stderr


# Locks --------------------------------------------------------------------------------------------

_HOLD = """
import sys
sys.path[:] = {path!r}
import without_posix
if {hidden}:
    without_posix.hide()
from hilc.support.locks import lock, locked_folder
file = open({file!r}, "r+b")
try:
    lock(file, wait=False)
except BlockingIOError:
    print("busy")
else:
    print("free")
"""


@pytest.mark.parametrize("hidden", [False, True], ids=["POSIX", "Windows"])
def test_a_lock_excludes_other_processes(tmp_path: Path, hidden: bool) -> None:
    file = tmp_path / "lock"
    file.write_text("the holder")

    def other() -> str:
        path = [str(STAND_IN.parent), *sys.path]
        code = _HOLD.format(path=path, hidden=hidden, file=str(file))
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout

    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD.format(
            path=[str(STAND_IN.parent), *sys.path], hidden=hidden, file=str(file)
        ) + "\nsys.stdout.flush(); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "free\n"
        assert other() == "busy\n"
        assert file.read_text() == "the holder"
    assert other() == "free\n"


# Ports --------------------------------------------------------------------------------------------


def test_ports_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ports.Port("COM3", "USB Serial Device", True, "A1", "1-2")
    monkeypatch.setattr(line, "serial_ports", lambda: [found])
    line.check_port("com3")
    with pytest.raises(LinkError, match="no port COM33"):
        line.check_port("COM33")


# Modules ------------------------------------------------------------------------------------------

_IMPORT_ALL = """
import sys
sys.path[:] = {path!r}
import pyocd.core.helpers  # looks for USB as on this system, and loads plugins: the virtual probe
for name in [name for name in sys.modules if name.partition(".")[0] in ("hil", "hilc")]:
    del sys.modules[name]
import without_posix
without_posix.hide()
import importlib, pkgutil
import hil, hilc
for package in (hilc, hil):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                if error.name in without_posix.MODULES:
                    print(module.name, error.name)
"""


def test_every_module_loads_without_posix() -> None:
    path = [str(STAND_IN.parent), *sys.path]
    code = _IMPORT_ALL.format(path=path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
