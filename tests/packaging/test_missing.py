"""What docs/how-to/microtvm.md calls missing is missing, row by row."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest
from documents import ROOT
from onnx import TensorProto, helper

import hilc
from hil.cli import main

DIGITS = ROOT / "examples/digits/digits.tflite"
_ROW = re.compile(r"^\| (.+?) \| .+ \|$", re.MULTILINE)


def rows() -> list[str]:
    """The names of what is missing, in the page's order."""
    text = (ROOT / "docs/how-to/microtvm.md").read_text(encoding="utf-8")
    table = text.partition("\n## What is missing\n")[2].partition("\n## ")[0]
    found = _ROW.findall(table)
    assert found[0] == "missing"
    return [row for row in found if row not in ("missing", "---")]


def refused(*lines: str) -> Callable[[Path], None]:
    """A check that commands of tvmc are refused as usage."""

    def check(folder: Path) -> None:
        for line in lines:
            words = shlex.split(line.format(digits=DIGITS, folder=folder))
            assert main(["tvmc", *words]) == 2, line

    return check


def no_module(*names: str) -> Callable[[Path], None]:
    def check(folder: Path) -> None:
        assert not any(hasattr(hilc, name) or find_spec(f"hilc.{name}") for name in names)

    return check


def no_zephyr_project(folder: Path) -> None:
    archive, project = folder / "digits.tar", folder / "project"
    library = hilc.compile(DIGITS, name="digits", api="packed", interface="packed")
    library.save(archive)
    words = ["tvmc", "micro", "create-project", str(project), str(archive), "zephyr",
             "--project-option", "project_type=host_driven", "board=mps2_an386"]  # fmt: skip
    assert main(words) == 0
    assert (project / "CMakeLists.txt").is_file()
    assert not (project / "prj.conf").exists()


def no_open_shape(folder: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, ir_version=9), folder / "open.onnx")
    words = ["compile", str(folder / "open.onnx"), "-o", str(folder / "open.tar")]
    assert main(words) == 2
    assert main([*words, "--shape", "x=1,4"]) == 0


def no_keras(folder: Path) -> None:
    (folder / "net.keras").write_bytes(b"PK\3\4" + bytes(60))
    refused("compile {folder}/net.keras --target c -o {folder}/k.tar")(folder)


CHECKS: dict[str, Callable[[Path], None]] = {
    "graph executor, virtual machine": refused(
        "compile {digits} --target c --executor graph -o {folder}/a.tar",
        "compile {digits} --target c --use-vm -o {folder}/a.tar",
    ),
    "AutoTVM, AutoScheduler, MetaSchedule, their records": refused(
        "tune {digits} --target c -o {folder}/records.log"
    ),
    "Relay, TIR, passes by TVM's names": no_module("relay", "tir", "relax"),
    "Keras files in `hil tvmc`": no_keras,
    "Project API servers, `--template-dir`": refused(
        "micro create {folder}/p {digits} template --template-dir {folder}"
    ),
    "host-driven projects for Zephyr and Arduino": no_zephyr_project,
    "RPC tracker, TVM's C++ RPC server": refused(
        "run --device micro {folder} --rpc-tracker localhost:9190",
        "compile {digits} --target c --output-format tar -o {folder}/a.tar",
    ),
    "Ethos-U and other targets": refused(
        "compile {digits} --target ethos-u,c -o {folder}/a.tar",
        "compile {digits} --target cuda -o {folder}/a.tar",
    ),
    "archives of single operators": no_module("build"),
    "dynamic shapes at run time": no_open_shape,
}


@pytest.mark.parametrize("row", rows())
def test_a_missing_part_is_missing(row: str, tmp_path: Path) -> None:
    assert row in CHECKS, f"write a check of {row!r}"
    CHECKS[row](tmp_path)


def test_every_check_has_a_row() -> None:
    assert set(CHECKS) == set(rows())
