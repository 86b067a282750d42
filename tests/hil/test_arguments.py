"""Arguments of the public interface that are of another type: an error that names them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models

import hil
import hil.board
import hil.build
import hil.oracle
import hil.samples
import hilc
from hil.verify import Oracle
from hil.verify.samples import RandomSamples
from hilc.errors import InputError
from hilc.interpreter import Interpreter
from hilc.memory.pools import Pin, PoolSpec
from hilc.support.arguments import check, typed
from hilc.target import add_core, add_cores, find_cpu, get_cpu, load_cpu

GRAPH = small_models.convolutions()
LIBRARY = hilc.compile(GRAPH, cpu="host")


ORACLE = Oracle("none", "", lambda index, sample: {})


class Wrong:
    """No argument is of this type."""

    def __repr__(self) -> str:
        return "<wrong>"


#: The public functions, with arguments that bind: they are looked at before anything is done.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "hil.open": (hil.open, ("native",)),
    "hil.compile": (hil.compile, ("x.tflite",)),
    "hil.quantize": (hil.quantize, ("x.onnx", [np.zeros(3)])),
    "hil.build": (hil.build, ([LIBRARY], hil.board.load_board("native"))),
    "hil.create_project": (
        hil.create_project,
        ([LIBRARY], hil.board.load_board("native"), Path("x")),
    ),
    "hil.board.load_board": (hil.board.load_board, ("native",)),
    "hil.board.board_file": (hil.board.board_file, ("native",)),
    "hil.oracle.reference_of": (hil.oracle.reference_of, (LIBRARY, LIBRARY.modules[0])),
    "hil.oracle.expected_outputs": (hil.oracle.expected_outputs, ("x", LIBRARY.modules[0], 1)),
    "hil.samples.load_samples": (hil.samples.load_samples, ("x", [], "input")),
    "hil.samples.RandomSamples": (RandomSamples, ([], 0, 1)),
    "hil.verify": (functools.partial(hil.verify, None, [], ORACLE), ()),
    "hil.bench": (functools.partial(hil.bench, None), ()),
    "hilc.merge": (hilc.merge, ([LIBRARY],)),
    "hilc.host.load": (hilc.host.load, (LIBRARY,)),
    "hilc.host.build": (hilc.host.build, (LIBRARY, "x")),
    "hilc.host.export_library": (hilc.host.export_library, (LIBRARY, "x")),
    "hilc.host.load_module": (hilc.host.load_module, ("x",)),
    "hilc.ModelLibrary.save": (LIBRARY.save, ("x",)),
    "hilc.ModelLibrary.load": (hilc.ModelLibrary.load, ("x",)),
    "hilc.ModelLibrary.with_code": (LIBRARY.with_code, ([],)),
    "hilc.interpreter.Interpreter": (Interpreter, (GRAPH,)),
    "hilc.target.load_cpu": (load_cpu, ("host",)),
    "hilc.target.get_cpu": (get_cpu, ("host",)),
    "hilc.target.find_cpu": (find_cpu, ("host",)),
    "hilc.target.add_core": (add_core, ("x",)),
    "hilc.target.add_cores": (add_cores, ("x",)),
}
#: What may be anything, or is checked when it is used: models, samples, protocols.
OPEN = {
    *("hil.compile model", "hil.compile samples"),
    *("hil.quantize model", "hil.quantize samples", "hil.quantize labels", "hil.quantize test"),
    *("hil.open lab", "hil.open models", "hil.compile options"),
}


def _parameters() -> list[tuple[str, str]]:
    named = {
        "hil.verify": ("board", "expect", "seed", "quantize", "per_layer", "keep_state", "source")
        + ("name", "repeated"),
        "hil.bench": ("module", "board", "runs", "seed", "quantize", "name"),
    }
    return [
        (name, parameter)
        for name, (function, _) in CALLS.items()
        for parameter in named.get(name, tuple(inspect.signature(function).parameters))
        if f"{name} {parameter}" not in OPEN
    ]


@pytest.mark.parametrize(("name", "parameter"), _parameters())
def test_every_parameter_refuses_another_type(name: str, parameter: str) -> None:
    function, given = CALLS[name]
    if name in ("hil.verify", "hil.bench"):
        arguments: dict[str, Any] = {"board": "native"}
    else:
        arguments = dict(inspect.signature(function).bind(*given).arguments)
    arguments[parameter] = Wrong()
    with pytest.raises(InputError, match=f"^{parameter}=<wrong> is of type Wrong") as caught:
        function(**arguments)
    assert caught.value.hint.startswith(f"give {parameter} as ")


@pytest.mark.parametrize("option", [f.name for f in fields(hilc.CompileOptions)])
def test_every_option_refuses_another_type(option: str) -> None:
    if option == "samples":  # any object of PyTorch's
        return
    keywords: dict[str, Any] = {option: Wrong()}
    with pytest.raises(InputError, match=f"^{option}=<wrong> is of type Wrong") as caught:
        hilc.compile(GRAPH, **keywords)
    assert caught.value.hint.startswith(f"give {option} as ")


@pytest.mark.parametrize(
    ("call", "given", "fact", "hint"),
    [
        (hilc.compile, {"model": GRAPH, "name": 5}, "name=5 is of type int", "a str or None"),
        (hilc.compile, {"model": GRAPH, "ram": True}, "ram=True is of type bool", "an int or None"),
        (hilc.compile, {"model": GRAPH, "io_in_pool": 1}, "io_in_pool=1 is", "True or False"),
        (hilc.compile, {"model": GRAPH, "memory": [5]}, r"memory=\[5\]", "a list of PoolSpec"),
        (hilc.compile, {"model": GRAPH, "pins": {"x": 5}}, "pins={'x'", "a mapping of str to Pin"),
        (hilc.compile, {"model": GRAPH, "options": 5}, "options=5 is of", "CompileOptions"),
        (hilc.merge, {"libraries": "ab"}, "libraries='ab' is", "a list of ModelLibrary"),
        (Pin, {"offset": "x"}, "offset='x' is of type str", "an int"),
        (PoolSpec, {"limit_bytes": "4K"}, "limit_bytes='4K' is", "an int or None"),
        (hil.open, {"board": b"native"}, "board=b'native' is", "a str or a path or Board"),
    ],
)
def test_errors_say_what_is_accepted(
    call: Callable[..., object], given: dict[str, Any], fact: str, hint: str
) -> None:
    with pytest.raises(InputError, match=fact) as caught:
        call(**given)
    assert caught.value.hint.endswith(f" as {hint}")


@pytest.mark.parametrize(
    ("call", "word", "nearest"),
    [
        (hil.build, "bord", "board"),
        (hil.open, "prob", "probe"),
        (hil.report, "titel", "title"),
        (hil.quantize, "calibrater", "calibrator"),
        (hil.create_project, "workspce", "workspace"),
        (hil.verify, "bord", "board"),
        (hil.matrix, "worker", "workers"),
        (hilc.merge, "library", "libraries"),
    ],
)
def test_misspelt_keywords(call: Callable[..., object], word: str, nearest: str) -> None:
    with pytest.raises(InputError, match=rf"unknown option '{word}' \(did you mean {nearest}"):
        call("digits.tflite", **{word: 1})


def test_an_unknown_core_is_refused_at_creation() -> None:
    with pytest.raises(InputError, match="unknown CPU 'cortex-m44' .did you mean cortex-m4"):
        hilc.CompileOptions(cpu="cortex-m44")


def test_numbers_of_numpy_are_numbers() -> None:
    assert hilc.CompileOptions(ram=np.int64(4096)).ram == 4096  # type: ignore[arg-type]
    check("x", np.float32(1), float)
    check("x", 1, float)
    check("x", np.bool_(True), bool)


def test_iterators_and_properties_are_not_read() -> None:
    @typed
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    assert total(iter([1, 2])) == 3  # type: ignore[arg-type]
    # A hundred thousand samples would be computed.
    check("samples", RandomSamples((), 0, 10**9), Sequence[Mapping[str, int]])
    with pytest.raises(InputError, match=r"numbers=\['x'\]"):
        total(["x"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="missing 1 required"):
        total()  # type: ignore[call-arg]
