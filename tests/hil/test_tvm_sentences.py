"""The sentences in which TVM refused things, which scripts and tests may look for.

Each row provokes one through what users call: the command line, or the functions of hilc.
docs/how-to/microtvm.md lists those that cannot occur here, and why.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import small_models
from random_graphs import GraphBuilder

import hilc
from hil.cli import main
from hilc.errors import InputError
from hilc.external import ExternalModule
from hilc.ir import Graph
from hilc.target import Cpu

PORTING = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "microtvm.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of the command lines: a model, archives, a project of another kind."""
    folder = tmp_path_factory.mktemp("sentences")
    (folder / "net.tflite").write_bytes(small_models.convolutions())
    hilc.compile(folder / "net.tflite", cpu="cortex-m4", name="net").save(folder / "net.tar")
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


# Through the command line ---------------------------------------------------------------------

TVMC = "tvmc compile net.tflite --output-format mlf -o x.tar"
CRT = f"{TVMC} --runtime crt --executor aot"
CPP = f"{TVMC} --runtime cpp --executor aot"


@dataclass(frozen=True)
class Line:
    """A command line and the sentence with which it is refused."""

    line: str
    sentence: str


LINES = [
    # Calling conventions, for both run times.
    Line(
        "compile net.tflite -o x.tar --api packed --interface c",
        'Either need interface_api == "packed" (got: c) or unpacked-api == true (got: 0) '
        "when targeting c runtime",
    ),
    Line(
        f"{CRT} --executor-aot-interface-api c --executor-aot-unpacked-api 0",
        'Either need interface_api == "packed" (got: c) or unpacked-api == true (got: 0) '
        "when targeting c runtime",
    ),
    Line(
        f"{CRT} --executor-aot-interface-api rest",
        'Either need interface_api == "packed" (got: rest) or unpacked-api == true (got: 0) '
        "when targeting c runtime",
    ),
    Line(
        f"{CPP} --executor-aot-interface-api c --executor-aot-unpacked-api 1",
        'Need unpacked-api == false (got: 1) and interface-api == "packed" (got: c) '
        "when targeting c++ runtime",
    ),
    Line(
        f"{CPP} --executor-aot-interface-api packed --executor-aot-unpacked-api 1",
        'Need unpacked-api == false (got: 1) and interface-api == "packed" (got: packed) '
        "when targeting c++ runtime",
    ),
    Line(
        "compile net.tflite -o x.tar --runtime cpp",
        'Need unpacked-api == false (got: 1) and interface-api == "packed" (got: c) '
        "when targeting c++ runtime",
    ),
    Line(
        f"{CRT} --executor-aot-interface-api rest --executor-aot-unpacked-api 1",
        "Unhandled executor option config: interface-api=rest, unpacked-api=1",
    ),
    # Executors and run times.
    Line(f"{TVMC} --executor aott", 'Executor "aott" is not defined'),
    Line(f"{TVMC} --executor vm", 'Executor "vm" is not defined'),
    Line(
        f"{CRT} --executor-aot-unpacked 1",
        'Attribute "unpacked" is not available on this Executor',
    ),
    Line(
        f"{TVMC} --executor-graph-unpacked-api=1",
        'Attribute "unpacked-api" is not available on this Executor',
    ),
    Line(f"{TVMC} --executor-eager-link-params 1", 'Executor "eager" is not defined'),
    Line(
        f"{CRT} --executor-aot-unpacked-api maybe",
        'Attribute "unpacked-api" should have type "runtime.BoxBool" but instead found '
        '"runtime.String"',
    ),
    Line(
        f"{CRT} --executor-aot-workspace-byte-alignment wide",
        'Attribute "workspace-byte-alignment" should have type "runtime.BoxInt" but instead '
        'found "runtime.String"',
    ),
    Line(
        f"{CRT} --executor-aot-unpacked-api 2",
        'Attribute "unpacked-api" should have type "runtime.BoxBool" but instead found '
        '"runtime.BoxInt"',
    ),
    Line(f"{TVMC} --runtime rust", 'Runtime "rust" is not defined'),
    Line(
        f"{CRT} --runtime-crt-systemlib 1",
        'Attribute "systemlib" is not available on this Runtime',
    ),
    Line(
        f"{CRT} --runtime-crt-system-lib perhaps",
        'Attribute "system-lib" should have type "runtime.BoxBool" but instead found '
        '"runtime.String"',
    ),
    # Memory.
    Line(
        f"{CRT} --executor-aot-interface-api packed --pass-config tir.usmp.use_workspace_io=1",
        "tir.usmp.use_workspace_io option is only compatible with interface_api c.\n"
        "Please use interface_api c to be able to enable tir.usmp.use_workspace_io",
    ),
    # What tvmc wrote and made.
    Line(
        "tvmc compile net.tflite --output-format zip -o x.zip",
        "Only 'so', 'tar', and 'mlf' output formats are supported.",
    ),
    Line(
        f"{TVMC} --cross-compiler arm-none-eabi-gcc",
        "Specifying the MLF output and a cross compiler is not supported.",
    ),
    Line("tvmc micro create p net.tar mbed", "platform mbed is not supported."),
    Line("tvmc micro build p espidf", "platform espidf is not supported."),
    Line("tvmc micro flash p mbed", "platform mbed is not supported."),
    # Models of one image.
    Line(
        "compile a=net.tflite A=net.tflite -o x.tar", "Multiple modules should have unique names."
    ),
]


@pytest.mark.parametrize("row", LINES, ids=lambda row: row.line)
def test_a_command_line_is_refused(row: Line, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(row.line)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert row.sentence in err
    assert "\nhint: " in err


@pytest.mark.full
def test_a_project_around_something_else_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = str(tmp_path / "project")
    words = ["tvmc", "micro", "create", project, "net.tar", "zephyr"]
    assert main([*words, "--project-option", "board=native"]) == 0
    assert main(["tvmc", "micro", "build", project, "zephyr"]) == 0
    # What tvmc makes without --output-format mlf: no Model Library Format.
    assert main(["tvmc", "compile", "net.tflite", "-o", f"{project}/model.tar"]) == 0
    capsys.readouterr()
    assert main(["tvmc", "run", "--device", "micro", project]) == 2
    assert "Setting 'project_dir' is only allowed when importing a MLF.!" in capsys.readouterr().err


# Through Python -------------------------------------------------------------------------------


def _net() -> Graph:
    b = GraphBuilder(1)
    x = b.input(1, 4, 4, 2)
    return b.graph(b.relu(b.relu(x)), name="net")


@dataclass(frozen=True)
class Relus:
    """A generator whose modules are of a kind that nothing can link."""

    type_key: str
    name: str = "relus"

    def claim(self, graph: Graph) -> Sequence[Sequence[int]]:
        return [[index] for index, node in enumerate(graph.nodes) if node.op == "RELU"]

    def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
        return ExternalModule(symbol, source=f"int32_t {symbol}(void);", type_key=self.type_key)


@dataclass(frozen=True)
class Call:
    """A call and the sentence with which it is refused; a regular expression."""

    name: str
    call: Callable[[], Any]
    sentence: str


CALLS = [
    Call(
        "a run time of another name",
        lambda: hilc.compile(_net(), runtime="rust"),
        re.escape("runtime_config (rust) is not one of the expected values"),
    ),
    Call(
        "an interface of another name",
        lambda: hilc.compile(_net(), interface="rest"),
        re.escape("Unhandled executor option config: interface-api=rest, unpacked-api=1"),
    ),
    Call(
        "C++ with plain operators",
        lambda: hilc.compile(_net(), runtime="cpp", interface="packed"),
        re.escape('Need unpacked-api == false (got: 1) and interface-api == "packed"'),
    ),
    Call(
        "packed operators behind the C interface",
        lambda: hilc.compile(_net(), api="packed"),
        re.escape('Either need interface_api == "packed" (got: c)'),
    ),
    Call(
        "inputs in a pool of the packed interface",
        lambda: hilc.compile(_net(), interface="packed", io_in_pool=True),
        re.escape("tir.usmp.use_workspace_io option is only compatible with interface_api c."),
    ),
    Call(
        "modules that cannot be exported",
        lambda: hilc.compile(_net(), externals=[Relus("cuda")]),
        r"These 2 modules are not exportable to C-runtime: \w+, \w+",
    ),
    Call(
        "models of one name",
        lambda: hilc.merge([hilc.compile(_net()), hilc.compile(_net())]),
        re.escape("Multiple modules should have unique names."),
    ),
]


@pytest.mark.parametrize("row", CALLS, ids=lambda row: row.name)
def test_a_call_is_refused(row: Call) -> None:
    with pytest.raises(InputError, match=row.sentence) as error:
        row.call()
    assert error.value.hint


# What cannot occur ----------------------------------------------------------------------------

#: Sentences of TVM for what this design rules out before, or does not have at all.
NEVER = (
    "Packed interface required for packed operators",
    "Don't know how to export non-c or non-llvm modules",
    "Operator has non-DSO-exportable target",
    "Don't know how to export module of type",
    "Multiple operator is not supported.",
    "has shape with non-IntImm elements",
    "AOT Executor only supports static graphs, got output type",
    "micro tvm is not enabled. Set USE_MICRO to ON in config.cmake",
    "CrtNotFoundError",
    "MicroTVMTemplateProjectNotFoundError",
)


@pytest.mark.parametrize("sentence", NEVER)
def test_the_porting_guide_explains_absent_messages(sentence: str) -> None:
    assert sentence in PORTING.read_text(encoding="utf-8")
