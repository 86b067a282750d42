"""Devices and models: what a user's Python sees, on the test board and the native firmware."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from rpc_board import BoardProcess

import hil
import hilc
from hil.device import Device
from hil.errors import DeviceError, HilError, InputError, LinkError
from hil.link.client import Client
from hil.link.line import Link

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def test_models_of_an_unknown_firmware(device: Device) -> None:
    assert list(device.models) == ["adder", "copier", "actor"]
    adder = device["adder"]
    assert [(t.name, t.shape, t.dtype, t.nbytes) for t in adder.inputs] == [
        ("a", (1, 4), "int32", 16),
        ("b", (1, 4), "int32", 16),
    ]
    assert [t.name for t in adder.outputs] == ["sum", "runs"]
    assert [(x.name, [t.name for t in x.outputs]) for x in adder.layers] == [
        ("add", ["sum", "runs"]),
        ("double", ["sum"]),
    ]
    assert (adder.module.workspace_bytes, adder.module.io_bytes) == (64, 52)
    assert device["copier"].inputs[0].name == "twenty characters...." * 10 + "."
    assert device["copier"].inputs[0].c_name.isidentifier()


def test_run(device: Device) -> None:
    adder = device["adder"]
    a = np.array([[1, -2, 3, 2**30]], np.int32)
    adder.set_input("a", a)
    adder.set_input(1, np.array([[10, 10, 10, -(2**30)]], ">i4"))  # its values count, not its bytes
    result = adder.run()
    assert result.ticks > 0
    total = adder.get_output("sum")
    assert total.dtype == np.int32
    assert (total.shape, total.tolist()) == ((1, 4), [[22, 16, 26, 0]])
    total[0, 0] = 5  # the caller's own
    assert adder.get_output(1).tolist() == [1]
    adder.run(repeat=4)
    assert adder.get_output("runs").tolist() == [5]
    assert device.count(result.ticks) == result.ticks
    assert device.counter == "cycles"


def test_views_are_written_as_they_look(device: Device) -> None:
    copier = device["copier"]
    rows = np.arange(200_000, dtype=np.uint32).astype(np.uint8).reshape(1000, 200)[:, ::2].T
    assert not rows.flags.c_contiguous
    copier.set_input(0, rows)
    copier.run()
    assert np.array_equal(copier.get_output(0), rows)


def test_layer_outputs(device: Device) -> None:
    adder = device["adder"]
    adder.set_input("a", np.full((1, 4), 5, np.int32))
    adder.set_input("b", np.full((1, 4), 2, np.int32))
    seen = [(layer.name, [a.tolist() for a in arrays]) for layer, arrays in adder.layer_outputs()]
    assert seen == [("add", [[[7] * 4], [1]]), ("double", [[[14] * 4]])]
    assert len(adder.profile()) == 2


INPUT_ERRORS: dict[str, tuple[Any, str]] = {
    "no such name": (
        lambda d: d["adder"].set_input("c", 0),
        "no input of model 'adder' called 'c'\n\nhint: choose one of a, b",
    ),
    "no such number": (lambda d: d["adder"].set_input(2, 0), "number 2\n\nhint: there are 2"),
    "negative number": (lambda d: d["adder"].get_output(-1), "no output .* number -1"),
    "other shape": (
        lambda d: d["adder"].set_input("a", np.zeros(4, np.int32)),
        r"is int32\[1, 4\], the array is int32\[4\]",
    ),
    "other type": (
        lambda d: d["adder"].set_input("a", np.zeros((1, 4), np.int64)),
        r"is int32\[1, 4\], the array is int64\[1, 4\]",
    ),
    "a list": (lambda d: d["adder"].set_input("a", [[1.0] * 4]), "the array is float64"),
    "a bool for an index": (
        lambda d: d["adder"].set_input(True, 0),
        "no input of model 'adder' True, of type bool\n\nhint: give its name, or its index",
    ),
    "a float for an index": (lambda d: d["adder"].get_output(1.5), "no output .* 1.5, of type"),
    "no state by a name": (
        lambda d: d["adder"].state("s"),
        "no state of model 'adder', and so not 's'\n\nhint: the model has none",
    ),
    "no state to set": (lambda d: d["adder"].set_state(0, 1), "no state of model 'adder', and"),
    "None for numbers": (
        lambda d: d["adder"].set_input("a", None),
        r"given a NoneType that is no array of numbers\n\nhint: give an array of int32\[1, 4\]",
    ),
    "text for numbers": (lambda d: d["adder"].set_input("a", "abc"), "given a str that is no"),
    "rows of two lengths": (lambda d: d["adder"].set_input("a", [[1], [1, 2]]), "given a list"),
    "no such model": (lambda d: d["kws"], "no model 'kws'\n\nhint: it has adder, copier, actor"),
    "no runs": (lambda d: d["adder"].run(0), "cannot run 0 times"),
    "half a run": (lambda d: d["adder"].run(1.5), "cannot run 1.5 times"),
    "text for runs": (lambda d: d["adder"].run("a"), "cannot run 'a' times"),
    "None for runs": (lambda d: d["adder"].run(None), "cannot run None times"),
    "more runs than fit": (lambda d: d["adder"].run(10**12), "whole number, 1 to 4294967295"),
}


@pytest.mark.parametrize("name", INPUT_ERRORS)
def test_input_errors(device: Device, name: str) -> None:
    action, message = INPUT_ERRORS[name]
    with pytest.raises(InputError, match=message):
        action(device)


def test_log_callback(device: Device) -> None:
    heard: list[str] = []
    device.log = heard.append
    device["actor"].set_input(0, np.array([3, 0], np.int32))
    device["actor"].run()
    assert heard[0] == "short"


def test_memory_echo_reset_and_hello(device: Device) -> None:
    assert device.echo(b"abc" * 1000) == b"abc" * 1000
    assert device.memory().stack_peak_bytes == 1234
    device["adder"].run()
    device.reset()
    with pytest.raises(InputError, match="is not available: the board may have restarted"):
        device["adder"].get_output("runs")
    device["adder"].run()
    assert device["adder"].get_output("runs").tolist() == [1]
    assert device.hello.board == "rpc-board"


# -- hil.open ------------------------------------------------------------------------------------


def digits(name: str | None = None) -> hilc.ModelLibrary:
    return hilc.compile(DIGITS / "digits.tflite", name=name, pools="external", io_in_pool=True)


def test_open_names_what_is_no_board_and_no_model() -> None:
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((5, digits()), "board=5 is of type int"),
        ((None,), "board=None is of type NoneType"),
        (
            ("native", ["a.tflite", "b.tflite"]),
            r"of type list is not a model\n\nhint: .* as its own argument",
        ),
        (("native", None), "None of type NoneType is not a model"),
    ]
    for arguments, message in cases:
        with pytest.raises(InputError, match=message), hil.open(*arguments):
            pass


def test_open_a_model_file() -> None:
    data = np.load(DIGITS / "digits_test.npz")
    labels = np.load(DIGITS / "digits_labels.npy")
    with hil.open("native", DIGITS / "digits.tflite") as device:
        model = device["digits"]
        for image, label in zip(data["image"][:3], labels[:3], strict=True):
            model.set_input(0, image[np.newaxis])
            model.run()
            assert model.get_output(0).argmax() == label
        assert device.counter == "nanoseconds"
        assert model.inputs[0].scale is not None  # from the library, not from the board
        assert device.firmware is not None
        assert device.hello.build_id == device.firmware.build_id


def test_open_several_models() -> None:
    with hil.open("native", digits("one"), digits("two")) as device:
        assert list(device.models) == ["one", "two"]
        image = np.load(DIGITS / "digits_test.npz")["image"][:1]
        results = []
        for model in device.models.values():
            model.set_input(0, image)
            model.run()
            results.append(model.get_output(0).tolist())
        assert results[0] == results[1]


def test_open_a_port_with_whatever_runs_there(board: BoardProcess) -> None:
    with hil.open("native", port=board.url) as device:
        assert device.hello.board == "rpc-board"
        assert device.firmware is None
        assert list(device.models) == ["adder", "copier", "actor"]


def test_open_a_port_with_another_firmware(board: BoardProcess) -> None:
    with pytest.raises(LinkError, match="runs firmware 0123456789abcdef") as caught:
        hil.open("native", digits(), port=board.url).__enter__()
    assert "flash" in caught.value.hint
    Link(board.url).close()  # the failed attempt has closed the port


def test_firmware_without_the_model(board: BoardProcess) -> None:
    with (
        closing(Link(board.url)) as link,
        pytest.raises(DeviceError, match="no model 'digits', it has adder, copier, actor"),
    ):
        Device(Client(link), [digits("digits")])


def test_failed_handshake_ends_what_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Client) -> None:
        raise LinkError("no")

    monkeypatch.setattr(Client, "_shake_hands", refuse)
    before = psutil.Process().children(recursive=True)
    with pytest.raises(LinkError, match="no"), hil.open("native", digits()):
        pass
    assert psutil.Process().children(recursive=True) == before


def test_probe_is_refused() -> None:
    with (
        pytest.raises(InputError, match="no flasher, so no probe"),
        hil.open("native", probe="123"),
    ):
        pass


def test_lazy_names() -> None:
    assert hil.HilError is HilError
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hil.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ({"runner": 5}, "runner=5 is of type int"),
        ({"port": 5}, "port=5 is of type int"),
        ({"probe": b"x"}, "probe=b'x' is of type bytes"),
        ({"transport": "x"}, "transport='x' is not available"),
        ({"run_timeout_s": "x"}, "run_timeout_s='x' is of type str"),
        ({"run_timeout_s": -1}, "run_timeout_s=-1 is not a number"),
        ({"run_timeout_s": float("nan")}, "run_timeout_s=nan is not a number"),
    ],
)
def test_arguments_of_open_are_checked_first(given: dict[str, Any], fact: str) -> None:
    with pytest.raises(InputError, match=fact), hil.open("native", **given):
        pass
