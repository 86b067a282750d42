"""The executor of a compiled model: one class for a model in this process (:mod:`hilc.host`) and
for one on a board (``hil.open``)::

    executor = Executor(device["kws"])
    executor.set_input("input_1", x)
    executor.run()
    y = executor.get_output(0)

The functions at the end check arrays for both kinds of model. The methods that only TVM's
ahead-of-time executor had are in :mod:`hilc.compat.tvm.executor`.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from hilc.artifact.library import Module, TensorInfo
from hilc.errors import HilWarning, InputError
from hilc.ir import Array
from hilc.plugins import Slot
from hilc.support.counters import Counter
from hilc.support.numbers import numbers
from hilc.support.old_names import refusing
from hilc.support.suggest import counted

Which = str | int

_ExecutorT = TypeVar("_ExecutorT", bound="Executor")


class Outputs(Mapping[Which, Array]):
    """The outputs of one run, by name or index; iterating gives the names.

    An output is read when it is first asked for, and kept. Raise
    :class:`~hilc.errors.InputError` for one that is read too late: the model ran again, or an
    input in the same memory was set.
    """

    def __init__(
        self,
        infos: Sequence[TensorInfo] = (),
        read: Callable[[int], Array] | None = None,
        runs: Callable[[], int] = lambda: 0,
    ) -> None:
        self._infos = infos
        self._read = read
        #: The number of runs that the model has begun, and of this one.
        self._runs, self._run = runs, runs()
        self._values: dict[int, Array] = {}

    def __getitem__(self, key: Which) -> Array:
        index = find_tensor(self._infos, key, "output")
        if index not in self._values:
            if self._runs() != self._run:
                raise InputError(
                    f"output {self._infos[index].name!r} was not read before the model ran again",
                    "read the outputs of a run before the next one",
                )
            assert self._read is not None, "a run with outputs can read them"
            self._values[index] = self._read(index)
        return self._values[index]

    def __contains__(self, key: object) -> bool:
        names = [info.name for info in self._infos]
        return key in names or (isinstance(key, int) and 0 <= key < len(names))

    def __iter__(self) -> Iterator[Which]:
        return iter([info.name for info in self._infos])

    def __len__(self) -> int:
        return len(self._infos)

    def __repr__(self) -> str:
        shown = ", ".join(f"{i.name}: {i.dtype}{list(i.shape)}" for i in self._infos)
        return f"<Outputs {shown}>"


@dataclass(frozen=True)
class RunResult:
    """Outputs and cost of a run."""

    #: Ticks of the board's time base; in this process nanoseconds.
    ticks: int
    #: Unit of ``count``.
    counter: Counter = "cycles"
    #: Instructions or cycles of the run, all repetitions together.
    count: int = 0
    #: Time at the board's clock; None where an emulator counts instructions, which take no time.
    seconds: float | None = None
    #: The outputs by name and index, read when they are asked for.
    outputs: Outputs = field(default_factory=Outputs, compare=False)

    @property
    def instructions(self) -> int | None:
        """The count, if it is one of instructions."""
        return self.count if self.counter == "instructions" else None

    @property
    def cycles(self) -> int | None:
        """The count, if it is one of cycles."""
        return self.count if self.counter == "cycles" else None

    def __repr__(self) -> str:
        took = f", {self.seconds:.6g} s" if self.seconds is not None else ""
        return f"<RunResult {self.count:,} {self.counter}{took}; {self.outputs!r}>"


class Model(Protocol):
    """Model that an executor runs: it keeps no reference to the caller's arrays, every access
    copies.

    Inputs keep their values from one run to the next; those that are not set are zeros.
    """

    @property
    def name(self) -> str:
        """Name of the module."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the inputs, in order."""

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the outputs, in order."""

    @property
    def states(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the states, in order; empty for a stateless model."""

    def set_input(self, name: Which, array: npt.ArrayLike, /) -> None:
        """Copy ``array``, of the input's shape and type, into the input."""

    def get_input(self, name: Which, /) -> Array:
        """Return a copy of an input's current value."""

    def run(self) -> object:
        """Run one inference."""

    def get_output(self, name: Which, /) -> Array:
        """Return a copy of an output of the last run, in its shape and type."""

    def reset_state(self) -> None:
        """Give every state its initial value."""

    def state(self, name: Which, /) -> Array:
        """Return a copy of a state's current value."""

    def set_state(self, name: Which, array: npt.ArrayLike, /) -> None:
        """Copy ``array``, of the state's shape and type, into the state."""


@runtime_checkable
class BindableModel(Model, Protocol):
    """A model in this process, which can use the caller's arrays directly."""

    def set_input_zero_copy(self, name: Which, array: Array, /) -> None:
        """Let the model read the input from ``array``, without a copy."""

    def set_output_zero_copy(self, name: Which, array: Array | None, /) -> None:
        """Let the model write the output to ``array``; None ends it."""


class Executor:
    """Executor of ``model``; a context manager that closes the model if it can be closed.

    Tensors are given by name or index. Inputs keep their values from one run to the next, also on a
    board whose model overwrites them; those that are not set are zeros.
    """

    def __init__(self, model: Model) -> None:
        #: The model, for methods that only it has.
        self.model: Model = model
        self._model: BindableModel = model if isinstance(model, BindableModel) else _Copies(model)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._model.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the inputs, in order."""
        return self._model.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the outputs, in order."""
        return self._model.outputs

    @property
    def states(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the states, in order; empty for a stateless model."""
        return self._model.states

    def __enter__(self: _ExecutorT) -> _ExecutorT:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the model; the models of a board are closed with it, not one by one."""
        close = getattr(self.model, "close", None)
        if close is not None:
            close()

    def set_input(
        self, key: Which | None = None, value: npt.ArrayLike | None = None, **params: npt.ArrayLike
    ) -> None:
        """Copy ``value`` into the input ``key``, and each of ``params`` into the input of its name.

        Shapes and element types must be those of the inputs. This ends :meth:`set_input_zero_copy`
        for these inputs. If one of several arrays is invalid, none is set.

        Raise :class:`~hilc.errors.InputError` for an unknown input, or a value of another shape or
        type.
        """
        given: dict[Which, npt.ArrayLike] = dict(params.items())
        if key is not None:
            if value is None:
                raise InputError(f"input {key!r} has no value", "pass an array")
            given[key] = value
        elif value is not None:
            raise InputError("a value is given without an input", "give the input's name or index")
        self._set_inputs(given)

    def set_input_zero_copy(self, key: Which, value: Array) -> None:
        """Let each run read the input from ``value`` at that time.

        On a board it is sent with each run. The array must be contiguous, aligned to its element
        size, and of the input's shape and type; it is never written to.
        """
        self._model.set_input_zero_copy(key, value)

    def set_output_zero_copy(self, key: Which, value: Array | None) -> None:
        """Let each run write the output to ``value``; None ends that.

        On a board it is filled after each run. The array must be contiguous, writable, aligned to
        its element size, of the output's shape and type, and not overlap other arrays in use.
        """
        self._model.set_output_zero_copy(key, value)

    def get_input(self, index: Which, out: Array | None = None) -> Array:
        """Return a copy of an input's current value; with ``out``, fill and return that array."""
        position = find_tensor(self.inputs, index, "input")
        return _deliver(self.inputs[position], self._model.get_input(position), out)

    def get_output(self, index: Which, out: Array | None = None) -> Array:
        """Return a copy of an output of the last run; with ``out``, fill and return that array."""
        position = find_tensor(self.outputs, index, "output")
        return _deliver(self.outputs[position], self._model.get_output(position), out)

    def reset_state(self) -> None:
        """Give every state its first value; new executors have done so."""
        self._model.reset_state()

    def state(self, index: Which) -> Array:
        """Return a copy of a state's value: of the last run, or set since."""
        return self._model.state(index)

    def set_state(self, index: Which, value: npt.ArrayLike) -> None:
        """Let the next run start with ``value``, of the state's exact shape and type."""
        self._model.set_state(index, value)

    def run(self, **inputs: npt.ArrayLike) -> object:
        """Set ``inputs`` by name, then run once; return the result of the model's ``run``."""
        self._set_inputs(inputs)
        return self._model.run()

    def _set_inputs(self, values: Mapping[Any, npt.ArrayLike]) -> None:
        for which, array in values.items():
            input_values(self.inputs[find_tensor(self.inputs, which, "input")], array)
        for which, array in values.items():
            self._model.set_input(which, array)


class _Copies:
    """A model that only copies, adapted to the interface of one in this process."""

    def __init__(self, model: Model) -> None:
        self._copied = model
        self._bindings = Bindings(model.inputs, model.outputs)

    @property
    def name(self) -> str:
        return self._copied.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        return self._copied.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self._copied.outputs

    @property
    def states(self) -> tuple[TensorInfo, ...]:
        return self._copied.states

    def reset_state(self) -> None:
        self._copied.reset_state()

    def state(self, name: Which, /) -> Array:
        return self._copied.state(name)

    def set_state(self, name: Which, array: npt.ArrayLike, /) -> None:
        self._copied.set_state(name, array)

    def set_input(self, name: Which, array: npt.ArrayLike, /) -> None:
        index = find_tensor(self.inputs, name, "input")
        self._copied.set_input(index, input_values(self.inputs[index], array))
        self._bindings.inputs.pop(index, None)

    def set_input_zero_copy(self, name: Which, array: Array, /) -> None:
        self._bindings.bind_input(name, array)

    def set_output_zero_copy(self, name: Which, array: Array | None, /) -> None:
        self._bindings.bind_output(name, array)

    def get_input(self, name: Which, /) -> Array:
        index = find_tensor(self.inputs, name, "input")
        bound = self._bindings.inputs.get(index)
        return self._copied.get_input(index) if bound is None else bound.copy()

    def get_output(self, name: Which, /) -> Array:
        index = find_tensor(self.outputs, name, "output")
        bound = self._bindings.outputs.get(index)
        return self._copied.get_output(index) if bound is None else bound.copy()

    def run(self) -> object:
        for index, bound in self._bindings.inputs.items():
            self._copied.set_input(index, bound)
        result = self._copied.run()
        for index, bound in self._bindings.outputs.items():
            np.copyto(bound, self._copied.get_output(index))
        return result


_SLOT: Slot[type[Executor]] = Slot()
#: Provide the class of the executors that :class:`hilc.host.AotExecutorFactory` creates.
provide_executor = _SLOT.fill


def require_layers(module: Module) -> None:
    """Raise :class:`~hilc.errors.InputError` for plain C code, whose layers are static."""
    if module.style == "plain":
        raise InputError(
            f"the layers of {module.name!r} are static functions, which nothing calls one by one",
            "compile the model with --style tvm: its layers compute the same",
        )


def executor_class() -> type[Executor]:
    """Return the class of a factory's executors: that of an installed optional part, or
    :class:`Executor`.
    """
    return _SLOT.found() or Executor


#: Where the class of release 0.1 is.
AOT_MODULE = "hilc.compat.tvm.executor.AotModule, and without TVM's methods hilc.executor.Executor"
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__, {"AotModule": AOT_MODULE})


class Bindings:
    """The caller's arrays that replace inputs and outputs, by index."""

    def __init__(self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        self._infos: Mapping[str, Sequence[TensorInfo]] = {"input": inputs, "output": outputs}
        self.inputs: dict[int, Array] = {}
        self.outputs: dict[int, Array] = {}

    def bind_input(self, which: Which, array: Array) -> int:
        """Check and store ``array``; return the input's index."""
        index = find_tensor(self._infos["input"], which, "input")
        self._check("input", index, array)
        self._require_apart("input", index, array, self.outputs.items(), "output")
        self.inputs[index] = array
        return index

    def bind_output(self, which: Which, array: Array | None) -> int:
        """Check and store ``array``, or remove the one stored; return the output's index."""
        index = find_tensor(self._infos["output"], which, "output")
        if array is None:
            self.outputs.pop(index, None)
            return index
        self._check("output", index, array)
        self._require_apart("output", index, array, self.inputs.items(), "input")
        others = [(i, other) for i, other in self.outputs.items() if i != index]
        self._require_apart("output", index, array, others, "output")
        self.outputs[index] = array
        return index

    def _check(self, kind: str, index: int, array: Array) -> None:
        info = self._infos[kind][index]
        what = f"{kind} {info.name!r}"
        if not isinstance(array, np.ndarray):
            raise InputError(
                f"{what} cannot use a {type(array).__name__} in place",
                "pass a numpy array",
            )
        if array.dtype != np.dtype(info.dtype) or array.shape != info.shape:
            raise _other_tensor(what, info, array)
        if not array.flags.c_contiguous:
            raise InputError(
                f"the array for {what} is not contiguous (strides {list(array.strides)})",
                "pass numpy.ascontiguousarray(array)",
            )
        element = array.dtype.itemsize
        if array.ctypes.data % element:
            raise InputError(
                f"the array for {what} starts at {array.ctypes.data:#x}, but its elements "
                f"({info.dtype}) must be aligned to {element} bytes",
                "pass a copy of the array",
            )
        if kind == "output":
            require_writable(info, array)

    def _require_apart(
        self, kind: str, index: int, array: Array, others: Any, other_kind: str
    ) -> None:
        for other_index, other in others:
            if np.may_share_memory(array, other):
                raise InputError(
                    f"the array for {kind} {self._infos[kind][index].name!r} overlaps that for "
                    f"{other_kind} {self._infos[other_kind][other_index].name!r}",
                    "use separate arrays",
                )


def find_tensor(infos: Sequence[TensorInfo], which: Which, kind: str) -> int:
    """Return the index of a tensor given by name or index; ``kind`` names it in messages.

    Raise :class:`~hilc.errors.InputError` if there is none.
    """
    names = [info.name for info in infos]
    if not infos:
        raise InputError(f"the model has no {kind}, and so not {which!r}", f"it has no {kind}s")
    index = tensor_index(which, kind)
    if isinstance(index, str):
        if index in names:
            return names.index(index)
        # TVM's message.
        fact = f"Could not find '{index}' in model's {kind}s"
    else:
        if 0 <= index < len(infos):
            return index
        fact = f"the model has no {kind} {index}"
    raise InputError(
        fact, f"its {kind}s are {', '.join(f'{i}: {name!r}' for i, name in enumerate(names))}"
    )


def tensor_index(which: Which, what: str) -> str | int:
    """Return a name, or an index as an int; raise InputError for any other value.

    A bool is none, although Python takes it for a number.
    """
    if isinstance(which, str):
        return which
    try:
        if isinstance(which, bool):
            raise TypeError
        return operator.index(which)
    except TypeError:
        raise InputError(
            f"there is no {what} {which!r}, of type {type(which).__name__}",
            "give its name, or its index as a whole number",
        ) from None


def input_values(info: TensorInfo, array: npt.ArrayLike, kind: str = "input") -> Array:
    """``array``, contiguous and in this machine's byte order, as a value for ``info``.

    It may be the array itself. Raise InputError for another shape or element type.
    """
    what = f"{kind} {info.name!r}"
    values = numbers(what, array, f"{info.dtype}{list(info.shape)}")
    native = values.dtype.newbyteorder("=")
    if native != np.dtype(info.dtype) or values.shape != info.shape:
        raise _other_tensor(what, info, values)
    # asarray: ascontiguousarray gives a scalar a dimension.
    return np.asarray(values, native, order="C")


class Clipping:
    """Counts the values that :func:`quantized` limits to the type of an input, over samples.

    ``option`` is the option of a caller by which floats are taken as the model's integers.
    """

    def __init__(self, option: str = "") -> None:
        self._option = option
        #: By input and sample: how many values were clipped, of how many, the lowest of them and
        #: the highest.
        self._found: dict[str, dict[Hashable, tuple[int, int, float, float]]] = {}
        self._infos: dict[str, TensorInfo] = {}

    def add(self, info: TensorInfo, clipped: Array, of: int, sample: Hashable) -> None:
        """Take the values of an input that were clipped in a sample with ``of`` values; one read
        again counts once.
        """
        self._infos[info.name] = info
        found = self._found.setdefault(info.name, {})
        found[sample] = (clipped.size, of, float(clipped.min()), float(clipped.max()))

    def remarks(self) -> tuple[str, ...]:
        """Return one sentence for each input of which values were clipped."""
        return tuple(
            self._remark(self._infos[name], list(f.values())) for name, f in self._found.items()
        )

    def warn(self) -> None:
        """Warn of the values that were clipped."""
        for remark in self.remarks():
            warnings.warn(HilWarning(remark), stacklevel=2)

    def _remark(self, info: TensorInfo, found: Sequence[tuple[int, int, float, float]]) -> str:
        assert info.scale is not None, "quantized by it"
        zero = info.zero_point or 0
        counts, totals, lows, highs = zip(*found, strict=True)
        of_samples = f" in {len(found):,} samples" if len(found) > 1 else ""
        least, most = min(lows), max(highs)
        values = f"from {least:.6g} to {most:.6g}" if least != most else f"{least:.6g}"
        limits = np.iinfo(info.dtype)
        low, high = ((limit - zero) * info.scale for limit in (limits.min, limits.max))
        by_option = f", or give {self._option}" if self._option else ""
        count = f"{sum(counts):,} of {counted(sum(totals), 'value')}"
        return (
            f"{count} of input {info.name!r}{of_samples} ({values}) "
            f"clipped to {low:.6g} to {high:.6g}, the range of {info.dtype} with scale "
            f"{info.scale:.6g} and zero point {zero}: scale the floats as in training; if they "
            f"are the model's integers, store them as {info.dtype}{by_option}"
        )


def quantized(
    info: TensorInfo,
    array: npt.ArrayLike,
    kind: str = "input",
    *,
    clipping: Clipping | None = None,
    sample: Hashable = None,
) -> Array:
    """Return floats quantized to ``info``'s type and scale; other arrays unchanged.

    ``q = round(x / scale) + zero_point``, limited to the type, with the division in float32 and
    halves rounded away from zero: TensorFlow Lite's QUANTIZE. For a tensor of floats only the width
    is converted. Values beyond the type go to ``clipping``, as those of ``sample``; a
    :class:`~hilc.errors.HilWarning` reports them where none is given. Raise InputError for NaN, and
    for a tensor that has no scale.
    """
    values = numbers(f"{kind} {info.name!r}", array, f"{info.dtype}{list(info.shape)}")
    if values.dtype.kind != "f":
        return values
    if np.dtype(info.dtype).kind == "f":
        return values.astype(info.dtype)
    if info.scale is None or info.zero_point is None:
        raise InputError(
            f"{kind} {info.name!r} is {info.dtype} without a scale, so floats cannot be quantized",
            f"give {info.dtype} values",
        )
    if np.isnan(values).any():
        raise InputError(
            f"the array for {kind} {info.name!r} contains NaN, which has no quantized value",
            "replace it by a number",
        )
    limits = np.iinfo(info.dtype)
    with np.errstate(over="ignore"):
        steps = (values.astype(np.float32) / np.float32(info.scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + info.zero_point
    beyond = (rounded < limits.min) | (rounded > limits.max)
    if beyond.any():
        found = clipping or Clipping()
        found.add(info, values[beyond], values.size, sample)
        if clipping is None:
            found.warn()
    return np.asarray(np.clip(rounded, limits.min, limits.max), info.dtype)


def run_count(name: str, repeat: int, most: int | None = None) -> int:
    """Return the checked number of runs of the model ``name``: 1 or more, at most ``most``.

    Raise :class:`~hilc.errors.InputError` for any other number.
    """
    try:
        count = operator.index(repeat)
    except TypeError:
        count = 0
    if count >= 1 and (most is None or count <= most):
        return count
    limit = "1 or more" if most is None else f"1 to {most}"
    raise InputError(
        f"model {name!r} cannot run {repeat!r} times", f"give repeat as a whole number, {limit}"
    )


def other_tensor_hint(info: TensorInfo, array: Array) -> str:
    """Return a hint how to convert an array of another type or shape to ``info``."""
    hints = []
    if array.dtype.newbyteorder("=") != np.dtype(info.dtype):
        hints.append(conversion_hint(info, array))
    if array.shape != info.shape:
        hints.append(f"bring it to the shape {list(info.shape)}")
    return "; ".join(hints) or "use this machine's byte order"


def conversion_hint(info: TensorInfo, array: Array) -> str:
    """Return a hint how to convert an array of another type to ``info``'s type."""
    is_real = np.issubdtype(array.dtype, np.floating)
    if array.dtype.kind not in "biuf":
        return f"give real numbers, as {info.dtype}"
    if not (is_real and info.scale is not None) and _takes(info.dtype, array):
        # Pixels of 0 to 255 are seldom what a model in floats was trained with.
        is_scaled = np.dtype(info.dtype).kind == "f" and array.dtype.kind in "iu"
        scaling = ", scaled as in training" if is_scaled else ""
        return f"convert it{scaling}: array.astype(numpy.{np.dtype(info.dtype).type.__name__})"
    fact = ""
    if not is_real and info.dtype != "bool" and array.dtype.kind in "biu" and array.size:
        limits = np.iinfo(info.dtype)
        fact = (
            f"{info.dtype} takes {limits.min} to {limits.max}, and the array holds {array.min()} "
            f"to {array.max()}: "
        )
    if info.scale is None:
        return f"{fact}give whole numbers that {info.dtype} takes"
    return (
        f"{fact}quantize it: numpy.round(x / {info.scale!r}) + {info.zero_point}, clipped, "
        f"as {info.dtype}" + ("; quantize=True (--quantize-inputs) does that" if is_real else "")
    )


def _takes(dtype: str, array: Array) -> bool:
    """Return whether every element of ``array`` is exact in ``dtype``, or rounded for real
    types.
    """
    if array.dtype.kind not in "biuf":
        return False
    if np.issubdtype(np.dtype(dtype), np.floating):
        return True
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    whole = array.dtype.kind != "f" or bool(np.all(array == np.trunc(array)))
    return whole and bool(np.all((array >= low) & (array <= high)))


def require_writable(info: TensorInfo, array: Array) -> None:
    """Raise :class:`~hilc.errors.InputError` if ``array`` is read-only."""
    if not array.flags.writeable:
        raise InputError(f"the array for {info.name!r} is read-only", "pass a writable array")


def _other_tensor(what: str, info: TensorInfo, array: Array) -> InputError:
    return InputError(
        f"{what} was given {array.dtype}{list(array.shape)} but is {info.dtype}{list(info.shape)}",
        other_tensor_hint(info, array),
    )


def _deliver(info: TensorInfo, value: Array, out: Array | None) -> Array:
    """Return ``value``, or ``out`` filled with it."""
    if out is None:
        return value
    if not isinstance(out, np.ndarray):
        raise InputError(
            f"{info.name!r} cannot be written to a {type(out).__name__}", "pass a numpy array"
        )
    if out.dtype != value.dtype or out.shape != value.shape:
        raise _other_tensor(f"the array for {info.name!r}", info, out)
    require_writable(info, out)
    np.copyto(out, value)
    return out


class Rows:
    """The rows of an input that the caller pushes, one after the other, in place of setting it."""

    def __init__(self, module: Module) -> None:
        self._module = module
        #: Rows that are still missing; None where the input was set, or is zeros.
        self.missing: int | None = None

    @property
    def at_start(self) -> bool:
        """Whether no row was pushed since the last run."""
        return self.missing in (None, self._module.fed_rows)

    def start(self) -> None:
        """Begin with the first row."""
        self._require()
        self.missing = self._module.fed_rows

    def _require(self) -> None:
        if not self._module.fed_rows:
            raise InputError(
                f"model {self._module.name!r} takes its inputs as a whole",
                "set them, or compile the model with feed=rows",
            )

    def check(self, rows: npt.ArrayLike) -> Array:
        """Return the bytes of the next rows, an array of the input's type and of whole rows.

        Raise :class:`~hilc.errors.InputError` for another type, a part of a row, or more rows than
        are missing.
        """
        self._require()
        info = self._module.inputs[0]
        values = numbers(f"rows of input {info.name!r}", rows, info.dtype)
        size = info.nbytes // np.dtype(info.dtype).itemsize // self._module.fed_rows
        if values.dtype.newbyteorder("=") != np.dtype(info.dtype) or values.size % size:
            raise InputError(
                f"rows of input {info.name!r} are {info.dtype} of {size} elements each, the array "
                f"is {values.dtype}{list(values.shape)}",
                "push whole rows of the input's type",
            )
        missing = self._module.fed_rows if self.missing is None else self.missing
        if values.size // size > missing:
            raise InputError(
                f"{values.size // size} rows of input {info.name!r} are pushed, and {missing} are "
                "missing",
                "run the model after the last row, or start the rows again",
            )
        little_endian = values.astype(np.dtype(info.dtype).newbyteorder("<"), order="C")
        return little_endian.reshape(-1).view(np.uint8)

    def took(self, nbytes: int) -> int:
        """Record the bytes of rows that were consumed; return the number of missing rows."""
        if self.missing is None:
            self.missing = self._module.fed_rows
        self.missing -= nbytes // self._module.row_bytes
        return self.missing

    def require_all(self, repeat: int) -> None:
        """Raise unless a run can follow; the next one needs new rows."""
        if self.missing:
            raise InputError(
                f"{self.missing} of {self._module.fed_rows} rows of model {self._module.name!r} "
                "are missing",
                "push them before the run",
            )
        if self.missing is not None and repeat != 1:
            raise InputError(
                f"{repeat} runs of model {self._module.name!r} on rows that were pushed once",
                "push the rows for each run, or set the input",
            )
