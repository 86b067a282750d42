"""The executor's methods and errors: one class over a model in this process and one on a board."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hil
import hilc
import hilc.host
from hil.board import load_board
from hilc.compat.tvm.executor import AotModule
from hilc.errors import HilError, InputError
from hilc.executor import BindableModel
from hilc.host.build import build_shared_object
from hilc.ir import Array, Graph, Node, Tensor
from hilc.ops.attributes import ActivationAttributes

SHAPE = (2, 4)


def _graph(name: str) -> Graph:
    """``total = a + b`` and ``positive = max(total, 0)``; planned in place, a run destroys a."""
    tensors = [Tensor(t, SHAPE, "float32") for t in ("a", "b", "total", "positive")]
    nodes = (
        Node("ADD", ("a", "b"), ("total",), ActivationAttributes(), index=0),
        Node("RELU", ("total",), ("positive",), index=1),
    )
    return Graph(name, {t.name: t for t in tensors}, nodes, ("a", "b"), ("positive", "total"))


def _answers(a: Array, b: Array) -> tuple[Array, Array]:
    return np.maximum(a + b, 0), a + b


A = np.array([[1, -2, 3.5, 0], [-1e20, 7, 1, 8]], np.float32)
B = np.array([[0.25, 1, -9, 0], [1, 1, 1, 1]], np.float32)


@pytest.fixture(scope="module")
def board() -> Iterator[dict[str, Any]]:
    """Models on an emulated board, one with its inputs in the workspace."""
    target = load_board("mps2-an386")
    libraries = [
        hilc.compile(_graph("inside"), cpu=target.cpu.name, pools="external", io_in_pool=True),
        hilc.compile(_graph("outside"), cpu=target.cpu.name),
    ]
    with hil.open(target, *libraries) as device:
        yield {f"board, {name}": device[name] for name in ("inside", "outside")}


@pytest.fixture(scope="module")
def process() -> Iterator[dict[str, Any]]:
    library = hilc.merge(
        [
            hilc.compile(_graph("inside"), pools="external", io_in_pool=True),
            hilc.compile(_graph("outside"), interface="packed", api="packed"),
        ]
    )
    factory = hilc.host.AotExecutorFactory(library)
    with (
        factory["inside"](hilc.host.cpu(0)) as inside,
        factory["outside"](hilc.host.cpu(0)) as outside,
    ):
        yield {"process, inside": inside.model, "process, outside": outside.model}


PLACES = ("process, inside", "process, outside", "board, inside", "board, outside")


@pytest.fixture(params=PLACES)
def executor(request: pytest.FixtureRequest) -> Iterator[AotModule]:
    models = request.getfixturevalue(request.param.partition(",")[0])
    executor = AotModule(models[request.param])
    executor.run(a=A, b=B)
    yield executor
    executor.set_output_zero_copy("total", None)
    executor.set_input(a=A, b=B)


def _require_answers(executor: AotModule, a: Array, b: Array) -> None:
    for index, expected in enumerate(_answers(a, b)):
        got = executor.get_output(index)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, expected)


# What it does -----------------------------------------------------------------------------------


def test_what_it_says_of_its_tensors(executor: AotModule) -> None:
    assert (executor.get_num_inputs(), executor.get_num_outputs()) == (2, 2)
    assert [executor.get_input_name(index) for index in (0, 1)] == ["a", "b"]
    assert [executor.get_input_index(name) for name in ("a", "b", "c", "total")] == [0, 1, -1, -1]
    assert executor.get_input_info() == (
        {"a": SHAPE, "b": SHAPE},
        {"a": "float32", "b": "float32"},
    )
    assert [info.name for info in executor.outputs] == ["positive", "total"]


def test_inputs_by_name_index_and_keyword(executor: AotModule) -> None:
    executor.set_input("a", A)
    executor.set_input(1, B)
    executor.run()
    _require_answers(executor, A, B)
    executor.set_input(a=B, b=2 * B)
    executor.run()
    _require_answers(executor, B, 2 * B)
    index: Any = np.int64(0)
    executor.set_input(index, A.astype(">f4"), b=np.flip(B))  # values count, not their bytes
    executor.run()
    _require_answers(executor, A, np.flip(B))
    executor.run(a=2 * A, b=B)
    _require_answers(executor, 2 * A, B)


def test_inputs_keep_their_values(executor: AotModule) -> None:
    """Also where a run destroys them, as TVM's executor kept its own."""
    executor.run(a=A, b=B)
    executor.run()
    _require_answers(executor, A, B)
    executor.run(b=A)
    _require_answers(executor, A, A)
    np.testing.assert_array_equal(executor.get_input("a"), A)
    np.testing.assert_array_equal(executor.get_input(1), A)
    given = A.copy()
    executor.set_input("a", given)
    given[:] = 99
    executor.run()
    _require_answers(executor, A, A)


def test_outputs_by_name_and_into_an_array(executor: AotModule) -> None:
    executor.run(a=A, b=B)
    positive, total = _answers(A, B)
    np.testing.assert_array_equal(executor.get_output("total"), total)
    wide = np.zeros((2, 8), np.float32)
    out = wide[:, ::2]
    assert executor.get_output("positive", out) is out
    np.testing.assert_array_equal(wide[:, ::2], positive)
    assert not wide[:, 1::2].any()
    assert executor.get_input("b", out=out) is out
    np.testing.assert_array_equal(out, B)
    executor.get_output("total")[:] = 5  # a copy
    np.testing.assert_array_equal(executor.get_output("total"), total)


def test_zero_copy(executor: AotModule) -> None:
    a, total = A.copy(), np.zeros(SHAPE, np.float32)
    executor.set_input("b", B)
    executor.set_input_zero_copy("a", a)
    executor.set_output_zero_copy("total", total)
    for _ in range(2):
        executor.run()
        np.testing.assert_array_equal(total, a + B)
        _require_answers(executor, a, B)
        np.testing.assert_array_equal(executor.get_input(0), a)
        a += 1
    before = a.copy()
    executor.run()
    np.testing.assert_array_equal(a, before)  # never written to
    executor.set_input("a", B)  # copies again, and leaves the caller's array alone
    a[:] = 0
    executor.run()
    np.testing.assert_array_equal(total, 2 * B)
    assert not a.any()
    other = np.zeros(SHAPE, np.float32)
    executor.set_output_zero_copy("total", other)
    executor.run(a=A)
    np.testing.assert_array_equal(other, A + B)
    np.testing.assert_array_equal(total, 2 * B)
    executor.set_output_zero_copy(1, None)
    executor.run(a=B)
    np.testing.assert_array_equal(executor.get_output("total"), 2 * B)
    np.testing.assert_array_equal(other, A + B)


def test_one_array_for_two_inputs(executor: AotModule) -> None:
    both = A.copy()
    executor.set_input_zero_copy("a", both)
    executor.set_input_zero_copy("b", both)
    executor.run()
    _require_answers(executor, A, A)


def test_zero_copy_inputs_may_be_read_only(executor: AotModule) -> None:
    a = A.copy()
    a.flags.writeable = False
    executor.set_input_zero_copy("a", a)
    executor.run(b=B)
    _require_answers(executor, A, B)


def test_functions_by_key(executor: AotModule) -> None:
    executor["set_input"]("a", A)
    executor["set_input"]("b", B)
    executor["run"]()
    np.testing.assert_array_equal(executor["get_output"](1), A + B)
    with pytest.raises(InputError, match="no function 'get_graph'\n\nhint: it has set_input, "):
        executor["get_graph"]


def test_an_executor_of_an_executor_is_the_same(executor: AotModule) -> None:
    again = AotModule(executor)
    assert again.model is executor.model
    executor.set_input("a", A)
    again.run(b=B)
    _require_answers(executor, A, B)


def test_inputs_begin_as_zeros() -> None:
    library = hilc.compile(_graph("net"), pools="external", io_in_pool=True)
    with hilc.host.load(library) as model:
        assert isinstance(model, BindableModel)
        for executor in (AotModule(model), AotModule(_OnlyCopies(model))):
            executor.run(b=B)
            _require_answers(executor, np.zeros(SHAPE, np.float32), B)
            np.testing.assert_array_equal(executor.get_input("a"), np.zeros(SHAPE, np.float32))
            model.set_input("a", np.zeros(SHAPE, np.float32))


class _OnlyCopies:
    """A model in this process behind what a board's model offers; counts what is sent."""

    def __init__(self, model: hilc.host.HostModel) -> None:
        self._model = model
        self.module = model.module
        self.name, self.inputs, self.outputs = model.name, model.inputs, model.outputs
        self.states = model.states
        self.get_input, self.get_output = model.get_input, model.get_output
        self.reset_state, self.state = model.reset_state, model.state
        self.set_state = model.set_state
        self.sent: list[int | str] = []
        self.fails = False

    def set_input(self, name: int | str, array: Any) -> None:
        self.sent.append(name)
        self._model.set_input(name, array)

    def run(self) -> str:
        if self.fails:
            self.fails = False
            raise HilError("the line is cut")
        self._model.run()
        return "ran"


def test_a_bound_input_is_sent_with_each_run() -> None:
    with hilc.host.load(hilc.compile(_graph("net"))) as model:
        copies = _OnlyCopies(model)
        executor = AotModule(copies)
        assert executor.run(a=A, b=B) == "ran"
        assert copies.sent == [0, 1]
        executor.run()
        assert copies.sent == [0, 1]  # the model keeps them itself
        executor.set_input_zero_copy("b", A)
        for _ in range(2):
            copies.sent.clear()
            executor.run()
            assert copies.sent == [1]
        _require_answers(executor, A, A)
        copies.fails = True
        with pytest.raises(HilError, match="the line is cut"):
            executor.run()
        executor.run()
        _require_answers(executor, A, A)


def test_closing_closes_a_model_of_this_process() -> None:
    with AotModule(hilc.host.load(hilc.compile(_graph("net")))) as executor:
        executor.run(a=A, b=B)
    with pytest.raises(InputError, match="is closed"):
        executor.run()


def test_executors_run_at_the_same_time() -> None:
    """Each has its own workspace, also where the library has a static one."""
    factory = hilc.host.AotExecutorFactory(hilc.compile(_graph("net"), io_in_pool=True))
    wrong: list[int] = []

    def work(number: int) -> None:
        with factory["net"](hilc.host.cpu(0)) as executor:
            for i in range(200):
                a = np.full(SHAPE, number * 1000 + i, np.float32)
                executor.run(a=a, b=B)
                if not np.array_equal(executor.get_output("total"), a + B):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_threads_share_one_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second build would delete the folder of the first while a thread copies from it."""
    builds: list[object] = []
    real = build_shared_object
    together = threading.Barrier(3)

    def build(*args: Any) -> Any:
        builds.append(args)
        return real(*args)

    monkeypatch.setattr(hilc.host, "build_shared_object", build)
    factory = hilc.host.AotExecutorFactory(hilc.compile(_graph("net")))

    def work() -> None:
        together.wait(60)
        factory["net"](hilc.host.cpu(0)).close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(builds) == 1


# Errors -----------------------------------------------------------------------------------------


def _misaligned() -> Array:
    memory = np.zeros(A.nbytes + 4, np.uint8)
    start = 1 + -memory.ctypes.data % 4
    return memory[start : start + A.nbytes].view(np.float32).reshape(SHAPE)


def _read_only() -> Array:
    array = np.zeros(SHAPE, np.float32)
    array.flags.writeable = False
    return array


Action = Callable[[Any], object]

ERRORS: dict[str, tuple[Action, str]] = {
    "no such input": (
        lambda e: e.set_input("c", A),
        "Could not find 'c' in model's inputs\n\nhint: its inputs are 0: 'a', 1: 'b'",
    ),
    "no such index": (lambda e: e.set_input(2, A), "no input 2"),
    "negative index": (lambda e: e.get_output(-1), "no output -1\n\n.*0: 'positive', 1: 'total'"),
    "a float for an index": (lambda e: e.get_input(0.0), "no input 0.0"),
    "an output is no input": (
        lambda e: e.get_input("total"),
        "not find 'total' in model's inputs",
    ),
    "unknown keyword": (lambda e: e.run(x=A), "Could not find 'x' in model's inputs"),
    "no such name": (lambda e: e.get_input_name(7), "no input 7"),
    "zero copy of no input": (
        lambda e: e.set_input_zero_copy("c", A),
        "Could not find 'c' in model's inputs",
    ),
    "zero copy of no output": (lambda e: e.set_output_zero_copy(2, A), "no output 2"),
    "a value for nothing": (lambda e: e.set_input(value=A), "a value is given without an input"),
    "no value": (lambda e: e.set_input("a"), "input 'a' has no value"),
    "shape": (
        lambda e: e.set_input("a", A[:1]),
        r"input 'a' was given float32\[1, 4\] but is float32\[2, 4\]\n\nhint: bring it",
    ),
    "dtype": (lambda e: e.set_input("a", A.astype(np.float64)), r"given float64\[2, 4\]"),
    "a list": (lambda e: e.set_input("a", [1, 2]), r"given int64\[2\] but is float32\[2, 4\]"),
    "shape, zero copy": (lambda e: e.set_input_zero_copy("a", A.ravel()), r"given float32\[8\]"),
    "dtype, zero copy": (
        lambda e: e.set_output_zero_copy("total", np.zeros(SHAPE, np.int32)),
        r"output 'total' was given int32\[2, 4\]",
    ),
    "byte order, zero copy": (
        lambda e: e.set_input_zero_copy("a", A.astype(">f4")),
        r"given >f4\[2, 4\] but is float32",
    ),
    "a list, zero copy": (
        lambda e: e.set_input_zero_copy("a", A.tolist()),
        "cannot use a list in place\n\nhint: pass a numpy array",
    ),
    "not contiguous": (
        lambda e: e.set_input_zero_copy("a", np.zeros((2, 8), np.float32)[:, ::2]),
        r"array for input 'a' is not contiguous \(strides \[32, 8\]\)",
    ),
    "order of Fortran": (
        lambda e: e.set_output_zero_copy("total", np.asfortranarray(A)),
        "array for output 'total' is not contiguous",
    ),
    "not aligned": (
        lambda e: e.set_input_zero_copy("a", _misaligned()),
        r"starts at 0x[0-9a-f]+, but its elements \(float32\) must be aligned to 4",
    ),
    "read-only output": (
        lambda e: e.set_output_zero_copy("total", _read_only()),
        "array for 'total' is read-only",
    ),
    "out is read-only": (lambda e: e.get_output(1, _read_only()), "'total' is read-only"),
    "out of another shape": (
        lambda e: e.get_output(1, np.zeros(8, np.float32)),
        r"array for 'total' was given float32\[8\] but is float32\[2, 4\]",
    ),
    "out of another type": (lambda e: e.get_input(0, out=np.zeros(SHAPE)), "given float64"),
    "out is a list": (lambda e: e.get_output(0, [0.0]), "cannot be written to a list"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(executor: AotModule, name: str) -> None:
    action, message = ERRORS[name]
    with pytest.raises(InputError, match=message):
        action(executor)


def test_arrays_that_overlap(executor: AotModule) -> None:
    memory = np.zeros((4, 4), np.float32)
    executor.set_output_zero_copy("total", memory[:2])
    with pytest.raises(InputError, match="output 'positive' overlaps that for output 'total'"):
        executor.set_output_zero_copy("positive", memory[1:3])
    with pytest.raises(InputError, match="for input 'a' overlaps that for output 'total'"):
        executor.set_input_zero_copy("a", memory[1:3])
    executor.set_output_zero_copy("total", memory[:2])  # the same again
    executor.set_input_zero_copy("a", memory[2:])
    with pytest.raises(InputError, match="for output 'total' overlaps that for input 'a'"):
        executor.set_output_zero_copy("total", memory[1:3])
    memory[2:] = A
    executor.run(b=B)
    np.testing.assert_array_equal(memory[:2], A + B)


def test_a_refused_array_changes_nothing(executor: AotModule) -> None:
    executor.set_input(a=A, b=B)
    with pytest.raises(InputError, match="input 'b' was given"):
        executor.set_input(a=2 * A, b=B[:1])
    with pytest.raises(InputError, match="not contiguous"):
        executor.set_input_zero_copy("a", np.asfortranarray(B))
    executor.run()
    _require_answers(executor, A, B)


@pytest.mark.parametrize(
    ("module", "name", "new"),
    [
        ("hilc.executor", "AotModule", "hilc.compat.tvm.executor.AotModule"),
        ("hilc.host", "AotModule", "hilc.compat.tvm.executor.AotModule"),
        ("hilc.lowering.choice", "Choice", "hilc.lowering.choice.KernelSelection"),
    ],
)
def test_an_old_name_is_refused_with_the_new_one(module: str, name: str, new: str) -> None:
    with pytest.raises(ImportError, match=f"{module} has no {name} .* it is {new}"):
        exec(f"from {module} import {name}")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = importlib.import_module(module).nonsense
