"""Constants in a binary file that the assembler reads: the same bytes, wherever they are built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import generated_c
import numpy as np
import pytest
from campaigns import cases
from random_graphs import GraphBuilder

import hilc
import hilc.host
from hilc import interpreter
from hilc.artifact.library import ModelLibrary, constants_path, merge
from hilc.codegen import constants as constants_module
from hilc.errors import InputError
from hilc.host.build import HostBuildError
from hilc.host.model import HostModel
from hilc.ir import Array, Graph
from hilc.target import get_cpu

_TEXT, _BINARY = "internal", "binary"


def graph() -> Graph:
    b = GraphBuilder(5)
    x = b.input(1, 6, 6, 3)
    return b.graph(b.add(b.conv(b.conv(x, 4), 4), b.constant(1, 6, 6, 4)), name="net")


def library(place: str, cpu: str = "host", **options: Any) -> ModelLibrary:
    return hilc.compile(graph(), cpu=cpu, constants=place, **options)


def output(model: HostModel, x: Array) -> Array:
    model.set_input(0, x)
    model.run()
    return model.get_output(0)


def assembled(place: str, cpu: str, folder: Path) -> bytes:
    """Return the linker's section of constants in the object of the layers."""
    core = get_cpu(cpu)
    prefix = "" if core.is_host else core.toolchain.prefix
    flags = ("-O2", *core.cflags, *core.toolchain.c_flags)
    # The last object is that of the layers.
    generated_c.compile_objects(library(place, cpu), [f"{prefix}gcc"], folder, flags)
    section = constants_module.SECTION
    generated_c.run(
        [f"{prefix}objcopy", "-O", "binary", "-j", section, "object.o", "section"], folder
    )
    return (folder / "section").read_bytes()


@cases("cpu", ["cortex-m4", "rv32imc", "cortex-m0", "host"], first=2)
def test_objects_have_equal_constants(cpu: str, tmp_path: Path) -> None:
    text, binary = (assembled(place, cpu, tmp_path / place) for place in (_TEXT, _BINARY))
    assert text == binary == library(_BINARY, cpu).files[constants_path("net")]


@pytest.mark.parametrize("codegen", ["c", "llvm"])
def test_the_host_computes_with_the_file(codegen: str) -> None:
    made = library(_BINARY, codegen=codegen)
    # An object has the values in it.
    is_file = codegen == "c"
    assert (constants_path("net") in made.files) is is_file
    assert made.modules[0].constants == (_BINARY if is_file else _TEXT)
    net = graph()
    x = np.arange(108, dtype=np.int8).reshape(1, 6, 6, 3)
    expected = interpreter.run(net, {net.inputs[0]: x})[net.outputs[0]]
    with hilc.host.load(made) as model:
        np.testing.assert_array_equal(output(model, x), expected)


def test_two_models_have_a_file_each() -> None:
    one, two = library(_BINARY), hilc.compile(graph(), name="other", constants=_BINARY)
    both = merge([one, two])
    assert both.files[constants_path("net")] == both.files[constants_path("other")]
    with hilc.host.load(both, "other") as model, hilc.host.load(one) as first:
        x = np.ones((1, 6, 6, 3), np.int8)
        np.testing.assert_array_equal(output(model, x), output(first, x))


@pytest.mark.parametrize("missing", [0, 1])
def test_the_size_decides(missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nbytes = len(library(_BINARY).files[constants_path("net")])
    monkeypatch.setattr(constants_module, "BINARY_BYTES", nbytes + missing)
    assert (constants_path("net") in library("auto").files) is not missing


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    made = library(_BINARY)
    made.save(tmp_path / "net")
    path = tmp_path / "net" / constants_path("net")
    data = path.read_bytes()
    for other in (data[:-1], data + b"0"):
        path.write_bytes(other)
        with pytest.raises(HostBuildError, match=r"\.org"):
            hilc.host.load(ModelLibrary.load(tmp_path / "net"))
    path.unlink()
    with pytest.raises(InputError, match=r"has no codegen/host/include/net_lib1\.bin"):
        ModelLibrary.load(tmp_path / "net")


def test_plain_code_has_no_file() -> None:
    with pytest.raises(InputError, match="constants=binary"):
        library(_BINARY, style="plain")
