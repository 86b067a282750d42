"""Inputs keep their values and outputs are a run's, also where both lie in a model's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hil
import hilc
import hilc.host
from hil.device import Device, Model
from hil.errors import DeviceError, InputError
from hilc.compat.tvm.executor import AotModule
from hilc.ir import Array, Graph, Node, Tensor
from hilc.ops.attributes import ActivationAttributes

SHAPE = (2, 4)
A = np.array([[1, -2, 3.5, 0], [-1e20, 7, 1, 8]], np.float32)
B = np.array([[0.25, 1, -9, 0], [1, 1, 1, 1]], np.float32)
ZEROS = np.zeros(SHAPE, np.float32)


def _graph(name: str) -> Graph:
    """``total = 2 * (a + b)``, in place: a run destroys what it reads, and ``total`` lies where an
    input lay."""
    tensors = [Tensor(t, SHAPE, "float32") for t in ("a", "b", "sum", "total")]
    nodes = (
        Node("ADD", ("a", "b"), ("sum",), ActivationAttributes(), index=0),
        Node("ADD", ("sum", "sum"), ("total",), ActivationAttributes(), index=1),
    )
    return Graph(name, {t.name: t for t in tensors}, nodes, ("a", "b"), ("total",))


def _answer(a: Array, b: Array) -> Array:
    total: Array = 2 * (a + b)
    return total


def _library(name: str, **options: Any) -> hilc.ModelLibrary:
    return hilc.compile(_graph(name), **options)


@pytest.fixture(scope="module")
def shared() -> Iterator[Device]:
    """The same model: its inputs in the workspace, kept there, outside of it; behind functions."""
    inside: dict[str, Any] = {"pools": "external", "io_in_pool": True}
    libraries = [
        _library("inside", **inside),
        _library("kept", **inside, keep_inputs=True),
        _library("outside"),
        _library("packed", interface="packed", api="packed"),
    ]
    with hil.open("native", *libraries) as opened:
        yield opened


@pytest.fixture
def device(shared: Device) -> Device:
    shared.forget()
    return shared


@pytest.fixture
def model(device: Device) -> Model:
    return device["inside"]


NAMES = ("inside", "kept", "outside", "packed")


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_gives_the_same_answer(device: Device, name: str) -> None:
    model = device[name]
    model.set_input("a", A)
    model.set_input("b", B)
    for _ in range(3):
        model.run()
        np.testing.assert_array_equal(model.get_output(0), _answer(A, B))
    model.profile()
    np.testing.assert_array_equal(model.get_output(0), _answer(A, B))
    last = [arrays[-1] for _, arrays in model.layer_outputs()][-1]
    np.testing.assert_array_equal(last, _answer(A, B))
    model.run(repeat=3)
    model.run()
    np.testing.assert_array_equal(model.get_output(0), _answer(A, B))
    model.set_input("b", A)  # and what was not set again is what it was
    model.run()
    np.testing.assert_array_equal(model.get_output(0), _answer(A, A))
    np.testing.assert_array_equal(model.get_input("b"), A)


@pytest.mark.parametrize("name", NAMES)
def test_an_input_that_is_not_set_is_zeros(device: Device, name: str) -> None:
    """Whatever an earlier user of the device left there."""
    model = device[name]
    model.set_input("a", A)
    model.set_input("b", B)
    model.run()
    device.forget()
    np.testing.assert_array_equal(model.get_input("a"), ZEROS)
    model.set_input("b", B)
    model.run()
    np.testing.assert_array_equal(model.get_output(0), _answer(ZEROS, B))


def test_every_kind_of_model_does_the_same(device: Device) -> None:
    for library in (_library("net"), _library("net", io_in_pool=True)):
        with hilc.host.load(library) as here:
            models = (here, AotModule(here), device["inside"], AotModule(device["inside"]))
            for model in models:
                device.forget()
                model.set_input("a", A)
                model.set_input("b", B)
                for _ in range(2):
                    model.run()
                    np.testing.assert_array_equal(model.get_output(0), _answer(A, B))
                np.testing.assert_array_equal(model.get_input("a"), A)


def test_an_input_is_the_callers_array_as_it_was(model: Model) -> None:
    a = A.copy()
    model.set_input("a", a)
    a[:] = 7
    model.run()
    np.testing.assert_array_equal(model.get_output(0), _answer(A, ZEROS))
    model.run()
    np.testing.assert_array_equal(model.get_output(0), _answer(A, ZEROS))


def test_inputs_are_sent_again_only_if_lost(device: Device) -> None:
    for name, again in (("inside", 2), ("outside", 0)):
        model = device[name]
        model.set_input("a", A)
        model.set_input("b", B)
        model.run()
        before = device._client.requests
        model.run()
        assert device._client.requests - before == again + 1
    device.reset()
    device["outside"].run()
    np.testing.assert_array_equal(device["outside"].get_output(0), _answer(A, B))


# -- outputs -------------------------------------------------------------------------------------


def test_an_output_is_one_of_a_run(device: Device, model: Model) -> None:
    with pytest.raises(
        InputError, match="'total' of model 'inside' is not available: .* has not run"
    ):
        model.get_output(0)
    model.run()
    model.get_output(0)
    device.reset()
    with pytest.raises(InputError, match="the board may have restarted since"):
        model.get_output(0)


def test_setting_an_input_may_destroy_an_output(device: Device, model: Model) -> None:
    (total,) = model.outputs
    overlapping = [
        tensor.name
        for tensor in model.inputs
        if tensor.offset is not None and tensor.offset == total.offset
    ]
    assert overlapping  # else nothing is shown
    model.run()
    model.set_input(overlapping[0], A)
    with pytest.raises(InputError, match=f"input {overlapping[0]!r} was set since"):
        model.get_output(0)
    model = device["outside"]
    model.run()
    model.set_input("a", A)
    np.testing.assert_array_equal(model.get_output(0), ZEROS)


def test_layers_are_not_mixed_with_something_else(model: Model) -> None:
    layers = model.layer_outputs()
    next(layers)
    with pytest.raises(InputError, match="did not end well"):
        model.get_output(0)
    model.set_input("a", A)
    with pytest.raises(InputError, match="was used before its layer 1, 'total', ran"):
        next(layers)
    layers = model.layer_outputs()
    next(layers)
    model.run()
    with pytest.raises(InputError, match="was used before its layer 1"):
        next(layers)
    np.testing.assert_array_equal(model.get_output(0), _answer(A, ZEROS))


def test_a_run_that_failed_has_no_output(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    model.set_input("a", A)
    model.run()

    def fail(*arguments: object) -> int:
        raise DeviceError("it failed")

    with monkeypatch.context() as patch:
        patch.setattr(model._client, "run", fail)
        with pytest.raises(DeviceError):
            model.run()
    with pytest.raises(InputError, match="last run did not end well"):
        model.get_output(0)
    model.run()
    np.testing.assert_array_equal(model.get_output(0), _answer(A, ZEROS))


# -- functions that are called -------------------------------------------------------------------


def _entry(device: Device) -> Callable[[], object]:
    model = device["packed"]
    refs = (model.input_ref(0), model.input_ref(1), model.output_ref(0))
    return lambda: device.call("tvmgen_packed_run", *refs)


def test_a_function_finds_the_inputs_that_were_set(device: Device) -> None:
    model = device["packed"]
    model.set_input("a", A)
    model.set_input("b", B)
    call = _entry(device)
    for _ in range(2):
        call()
        np.testing.assert_array_equal(model.get_output(0), _answer(A, B))


def test_an_input_given_by_a_function_is_set_again(device: Device) -> None:
    model = device["packed"]
    model.set_input("a", A)
    _entry(device)()
    with pytest.raises(
        InputError, match="'a' .* passed to the function 'tvmgen_packed_run', and it"
    ):
        model.run()
    model.set_input("a", A)
    model.run()  # nobody set b: it holds what the function left, which is what is meant
    np.testing.assert_array_equal(model.get_output(0), _answer(A, model.get_input("b")))
