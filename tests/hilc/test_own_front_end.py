"""A front end from outside the package: one reader of a text that lists operators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hilc
import hilc.host
from hil.cli import main
from hilc import interpreter
from hilc.errors import InputError, ModelError
from hilc.frontends import Reader, Reading, load_model, reader_of, readers, register_reader
from hilc.ir import Graph, Node, Tensor

MAGIC = b"#layers\n"


def read(data: bytes, name: str) -> Reading:
    """A chain of elementwise operators over one float tensor."""
    text = json.loads(data.removeprefix(MAGIC))
    shape = tuple(text["shape"])
    names = ["x", *(f"y{i}" for i in range(len(text["operators"])))]
    tensors = {t: Tensor(t, shape, "float32") for t in names}
    nodes = tuple(
        Node(op, (names[i],), (names[i + 1],), index=i) for i, op in enumerate(text["operators"])
    )
    return Reading(Graph(name, tensors, nodes, ("x",), (names[-1],)))


@pytest.fixture(autouse=True)
def own_reader() -> Iterator[None]:
    register_reader(Reader("layers", ".layers", lambda data: data.startswith(MAGIC), read))
    yield
    del readers._READERS["layers"]


def model(tmp_path: Path) -> Path:
    path = tmp_path / "chain.layers"
    path.write_bytes(MAGIC + json.dumps({"shape": [1, 6], "operators": ["RELU", "TANH"]}).encode())
    return path


def test_it_is_read_compiled_and_run(tmp_path: Path) -> None:
    path = model(tmp_path)
    graph = load_model(path)
    library = hilc.compile(path, cpu="host")
    assert library.files["src/chain.layers"] == path.read_bytes()
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(1, 6)
    with hilc.host.load(library) as here:
        here.set_input(0, x)
        here.run()
        np.testing.assert_allclose(
            here.get_output(0), interpreter.run(graph, {"x": x})["y1"], rtol=1e-6
        )


def test_the_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", str(model(tmp_path)), "--board", "native", "--samples", "2"]
    assert main([*words, "--allow-fallback"]) == 0
    told = capsys.readouterr()
    assert "match with this compiler's own interpreter (not independent) over 2 samples" in told.out
    assert "TensorFlow Lite files" in told.err + told.out


def test_what_a_reader_makes_is_verified(tmp_path: Path) -> None:
    path = tmp_path / "wrong.layers"
    path.write_bytes(MAGIC + b'{"shape": [1, 0], "operators": ["RELU"]}')
    with pytest.raises(ModelError, match="shape"):
        load_model(path)
    path.write_bytes(MAGIC + b"{}")
    with pytest.raises(ModelError, match="is inconsistent"):
        load_model(path)


def test_names_are_taken_once_and_kinds_told_apart() -> None:
    with pytest.raises(InputError, match="'layers'"):
        register_reader(Reader("layers", ".x", lambda data: False, read))
    assert reader_of(b"") is None
    assert reader_of(b"\x00\x00\x00\x00TFL3") == readers._READERS["TensorFlow Lite"]


def test_a_tuple_of_version_01_is_refused_by_name(tmp_path: Path) -> None:
    def old(data: bytes, name: str) -> object:
        return read(data, name).graph, set[str]()

    del readers._READERS["layers"]
    found: Any = old
    register_reader(Reader("layers", ".layers", lambda data: data.startswith(MAGIC), found))
    with pytest.raises(InputError, match="'layers'.*tuple") as caught:
        load_model(model(tmp_path))
    assert "Reading(graph, open_shapes)" in str(caught.value.hint)
