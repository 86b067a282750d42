"""The options of the compiler: one value, whose fields are the keywords of every function."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import pytest
from small_models import convolutions

import hilc
from hilc.errors import InputError
from hilc.memory.pools import Pin, PoolSpec
from hilc.options import CompileOptions

CHOSEN: dict[str, Any] = {
    "cpu": "cortex-m4",
    "name": "net",
    "optimize": "ram",
    "pools": "external",
    "io_in_pool": True,
    "keep_inputs": True,
}


def test_keywords_are_the_value() -> None:
    options = CompileOptions(**CHOSEN)
    model = convolutions()
    assert hilc.compile(model, options=options) == hilc.compile(model, **CHOSEN)
    assert hilc.explain(model, options=options) == hilc.explain(model, **CHOSEN)
    default = hilc.compile(model)
    assert default == hilc.compile(model, options=CompileOptions())
    assert default != hilc.compile(model, options=replace(options, keep_inputs=False))


@pytest.mark.parametrize("function", [hilc.compile, hilc.explain])
def test_a_signature_shows_the_fields_once(function: Any) -> None:
    """They are stated in the dataclass alone: help, the reference and the call agree with it."""
    model, options, *keywords = inspect.signature(function).parameters.values()
    assert (model.name, options.name) == ("model", "options")
    assert [parameter.name for parameter in keywords] == [f.name for f in fields(CompileOptions)]
    assert {p.kind for p in (options, *keywords)} == {inspect.Parameter.KEYWORD_ONLY}
    with pytest.raises(InputError, match=r"unknown option 'optimise' \(did you mean optimize\?\)"):
        function(convolutions(), optimise="speed")
    with pytest.raises(InputError, match="got options and 'cpu'"):
        function(convolutions(), options=CompileOptions(), cpu="host")


@pytest.mark.parametrize(
    ("second", "kind", "remedy"),
    [(CompileOptions(), "CompileOptions", "options="), (bytearray(3), "bytearray", "samples=")],
)
def test_only_the_model_has_no_keyword(second: Any, kind: str, remedy: str) -> None:
    functions: list[Any] = [hilc.compile, hilc.explain, hilc.frontier]
    for function in functions:
        with pytest.raises(InputError, match=f"the second is of type {kind}") as refused:
            function(convolutions(), second)
        assert remedy in refused.value.hint


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"optimize": "fast"}, "optimize=fast is not available"),
        ({"pools": "calls", "io_in_pool": True}, "cannot be in a workspace"),
        ({"ram": "32K"}, "ram='32K' is of type str"),
        ({"flash": 1.5}, "flash=1.5 is of type float"),
    ],
)
def test_a_value_is_checked_when_it_is_made(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        CompileOptions(**wrong)
    with pytest.raises(InputError, match=told):
        replace(CompileOptions(), **wrong)


def test_a_value_does_not_change() -> None:
    memory, pins = [PoolSpec("a")], {"x": Pin(0)}
    options = CompileOptions(io_in_pool=True, memory=memory, pins=pins)
    memory.clear()
    pins.clear()
    assert options.memory == (PoolSpec("a"),)
    assert options.pins == {"x": Pin(0)}
    with pytest.raises(FrozenInstanceError):
        options.cpu = "cortex-m4"  # type: ignore[misc]
    with pytest.raises(TypeError):
        options.pins["y"] = Pin(16)  # type: ignore[index]
    assert options == replace(options, progress=lambda: None), "how it is watched is no option"


@pytest.mark.parametrize("option", ["memory", "pins", "externals", "shapes", "inputs"])
def test_options_of_another_type_are_named(option: str) -> None:
    values: dict[str, Any] = {option: 5}
    with pytest.raises(InputError, match=f"{option}=5 is of type int") as caught:
        CompileOptions(**values)
    assert caught.value.hint.startswith(f"give {option} as a ")


def test_a_text_names_a_code_generator() -> None:
    """As ``--external`` does; :func:`hilc.external.load_generator` reads it."""
    path = Path(__file__).parents[2] / "examples/byoc/matrix_unit.py"
    options = CompileOptions(externals=[f"{path},units=2"])
    (generator,) = options.generators
    assert type(generator).__module__ != "builtins"
    assert options.externals == (generator,)
