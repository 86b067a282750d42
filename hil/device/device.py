"""A board that runs hil's firmware, and the models in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from hil.access import Counter, Running, Simulated, Wired
from hil.device.recovery import Recovery
from hil.device.tensor_validity import TensorValidity
from hil.errors import DeviceError, InputError, LinkError, Remedy, StackError
from hil.link.calls import board_calls
from hil.link.client import Client
from hil.link.protocol import Tensors
from hil.link.replies import (
    ENTRIES_MAX,
    Hello,
    Memory,
    ModelFailedError,
    ModelInfo,
    NotInFirmwareError,
    protocol_error,
)
from hil.link.tensors import TensorRef
from hilc.artifact.library import Layer, ModelLibrary, Module, TensorInfo
from hilc.executor import (
    Outputs,
    Rows,
    RunResult,
    other_tensor_hint,
    quantized,
    require_layers,
    run_count,
    tensor_index,
)
from hilc.ir import Array
from hilc.ir.loop_bounds import exceeded, exceeded_unnamed
from hilc.support.numbers import numbers

if TYPE_CHECKING:
    from hil.firmware.build import Firmware

_Item = TypeVar("_Item")
#: Bytes of a request's payload.
_REPEAT_MAX = (1 << 32) - 1


class Model:
    """A model of the firmware; :mod:`hilc.host` has the same interface for one in this process.

    An input keeps the value that it was set to, and is zeros before: if a run may overwrite it on
    the board, since it shares memory with later tensors, it is sent again before the next one.

    States are what a reset makes of them when a model is opened, whatever was run on the board
    before. Where a run fails or the board restarts in the middle of a sequence, they are lost: the
    next run is refused until they are reset or set.
    """

    def __init__(self, device: Device, client: Client, index: int, module: Module) -> None:
        #: The board that the model is on.
        self.device = device
        self._client = client
        self._index = index
        #: Description of the model from the compiler; for an unknown firmware, from the board.
        self.module = module
        self._validity = TensorValidity(module)
        self._rows = Rows(module)
        self._runs = 0
        #: Result of the last run; None before the first.
        self.last_run: RunResult | None = None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.module.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The input tensors: name, shape, dtype, quantization."""
        return self.module.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The output tensors: name, shape, dtype, quantization."""
        return self.module.outputs

    @property
    def states(self) -> tuple[TensorInfo, ...]:
        """The state tensors, which keep their values between runs."""
        return self.module.states

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order of execution."""
        return self.module.called_layers

    def set_input(self, name: str | int, array: npt.ArrayLike, *, quantize: bool = False) -> None:
        """Write an input, given by name or index; shape and type must be the input's own.

        With ``quantize`` floats are converted by the input's scale and zero point
        (:func:`hilc.executor.quantized`).
        """
        index = _find(name, self.inputs, f"input of model {self.name!r}")
        if quantize:
            array = quantized(self.inputs[index], array)
        self._validity.set(index, self._values("input", self.inputs[index], array))
        self._rows.missing = None
        self._send(index, self._validity.value(index))

    def get_input(self, name: str | int) -> Array:
        """Return a copy of the value that an input was set to; zeros before."""
        index = _find(name, self.inputs, f"input of model {self.name!r}")
        return self._validity.value(index).copy()

    def _values(self, kind: str, tensor: TensorInfo, array: npt.ArrayLike) -> Array:
        """Return a copy of ``array`` in the shape and dtype of ``tensor``."""
        what = f"{kind} {tensor.name!r} of model {self.name!r}"
        wanted = f"{tensor.dtype}{list(tensor.shape)}"
        values = numbers(what, array, wanted)
        same_type = values.dtype.newbyteorder("=") == np.dtype(tensor.dtype)
        if not same_type or values.shape != tensor.shape:
            raise InputError(
                f"{what} is {wanted}, the array is {values.dtype}{list(values.shape)}",
                other_tensor_hint(tensor, values),
            )
        # A copy: the caller's array may change before it is sent again.
        return values.astype(tensor.dtype)

    def start_rows(self) -> None:
        """Begin an inference whose input is pushed by rows; rows that were pushed are dropped.

        Raise :class:`~hil.errors.InputError` for a model that was compiled without `feed=rows`.
        """
        self._rows.start()
        with self._client.as_one("WRITE"):
            self._validity.open_session(self._client.sessions)
            self._validity.begin_write(0)
            self._client.start_feed(self._input)
            self._validity.open_session(self._client.sessions)
            # Until a row is missing: a board that restarts has none.
            self._validity.end_write(0)

    def push_rows(self, rows: npt.ArrayLike) -> int:
        """Let the model take in the next rows, one or several; return how many are missing.

        After the last one :meth:`run` completes the inference. The first row begins a new one,
        unless :meth:`start_rows` did. A row that is sent again, since its answer was lost, is taken
        once.
        """
        data = self._rows.check(rows)
        with self._client.as_one("WRITE"):
            if self._rows.at_start:
                self.start_rows()
            self._require_rows()
            missing = self._rows.missing or 0
            first = (self.module.fed_rows - missing) * self.module.row_bytes
            self._client.feed(self._input, first, data.tobytes())
        return self._rows.took(data.nbytes)

    def _require_rows(self) -> None:
        """Refuse to go on with rows that the board may have lost."""
        self._validity.open_session(self._client.sessions)
        if not self._validity.has_input(0):
            self._rows.start()
            raise InputError(
                f"the rows of model {self.name!r} are lost: the board may have restarted since",
                "push all rows again, from the first on",
            )

    @property
    def _input(self) -> TensorRef:
        return TensorRef(self._index, Tensors.INPUT, 0)

    def reset_state(self) -> None:
        """Give every state its first value, as it has when the model is opened."""
        if not self.states:
            return
        with self._client.as_one("RESET_STATE"):
            self._validity.open_session(self._client.sessions)
            self._client.reset_state(self._index)
            self._validity.open_session(self._client.sessions)
        self._validity.has_state()

    def state(self, name: str | int) -> Array:
        """Return the value of a state: that of the last run, or the one set since."""
        index = _find(name, self.states, f"state of model {self.name!r}")
        with self._client.as_one("READ"):
            self._begin_states()
            self._validity.require_state(index)
            return self._read(self.states[index], TensorRef(self._index, Tensors.STATE, index))

    def set_state(self, name: str | int, array: npt.ArrayLike) -> None:
        """Let the next run start with ``array``; shape and type must be the state's own."""
        index = _find(name, self.states, f"state of model {self.name!r}")
        values = self._values("state", self.states[index], array)
        with self._client.as_one("WRITE"):
            self._begin_states()
            self._write(TensorRef(self._index, Tensors.STATE, index), values)
            self._validity.open_session(self._client.sessions)
        self._validity.has_state(index)

    def _begin_states(self) -> None:
        """Reset the states where nobody has asked for them since the model was opened."""
        self._validity.open_session(self._client.sessions)
        if self._validity.awaits_reset:
            self.reset_state()

    def forget(self) -> None:
        """Reset to the state at opening: every input is zeros, and no output is a result.

        States are reset before they are used again.
        """
        self._validity.forget()
        self._rows.missing = None
        self.last_run = None

    def run(self, repeat: int = 1) -> RunResult:
        """Run the inference ``repeat`` times in a row and measure all of them together.

        The result has the outputs, which are read when they are asked for, and the cost.

        With ``repeat`` above 1 the later runs compute on what the earlier ones left of the
        inputs: good for counting, not for results. States advance with each.
        """
        repeat = run_count(self.name, repeat, _REPEAT_MAX)
        self._rows.require_all(repeat)
        ticks = 0
        # Each run uses up the rows.
        turns, each = (repeat, 1) if self.module.fed_rows else (1, repeat)
        for _ in range(turns):
            with self._client.as_one("RUN"), self._loops():
                self._begin_run()
                ticks += self._client.run(self._index, each)
            self._validity.end_run()
        self.last_run = self.device.result(ticks, self._outputs_of_run())
        return self.last_run

    def _outputs_of_run(self) -> Outputs:
        return Outputs(self.outputs, self.get_output, lambda: self._runs)

    def get_output(self, name: str | int) -> Array:
        """Return an output of the last run, by name or index, with the model's shape and type.

        Raise :class:`~hil.errors.InputError` if the board no longer has it, since an input in the
        same memory was set.
        """
        index = _find(name, self.outputs, f"output of model {self.name!r}")
        self._validity.open_session(self._client.sessions)
        self._validity.require_output(index)
        return self._read(self.outputs[index], TensorRef(self._index, Tensors.OUTPUT, index))

    def layer_outputs(self, first: int = 0) -> Iterator[tuple[Layer, list[Array]]]:
        """Run layer by layer; yield each layer from ``first`` on with its outputs right after it
        ran.

        Afterwards the next layer may overwrite them. The layers before ``first`` run as well; their
        outputs are not read.

        Raise :class:`InputError` if the model is used in between, and for plain C code.
        """
        require_layers(self.module)
        with self._client.as_one("RUN_LAYERS"):
            self._begin_run()
            with self._loops():
                self._client.run_layers(self._index, 0, first)
        steps = self._validity.steps
        for number, layer in enumerate(self.layers[first:], first):
            self._validity.open_session(self._client.sessions)
            if self._validity.steps != steps:
                raise InputError(
                    f"model {self.name!r} was used before its layer {number}, {layer.name!r}, ran",
                    "use it again when all layers have run",
                )
            with self._loops():
                self._client.run_layers(self._index, number, 1)
            yield (
                layer,
                [self.layer_output(number, index) for index in range(len(layer.outputs))],
            )
        if self._validity.steps == steps:
            self._validity.end_run()

    def layer_output(self, layer: int, index: int) -> Array:
        """Return the memory of a layer's output: its result only right after the layer has run."""
        tensor = self.layers[layer].outputs[index]
        return self._read(tensor, TensorRef(self._index, Tensors.LAYER_OUTPUT, index, layer))

    def set_layer_output(self, layer: int, index: int, array: npt.ArrayLike) -> None:
        """Write ``array`` where a layer writes an output, between two steps of
        :meth:`layer_outputs`.

        It is for a search for layers that use memory which they have not written. Raise
        :class:`~hil.errors.DeviceError` if the firmware is older than such writes.
        """
        values = self._values("layer output", self.layers[layer].outputs[index], array)
        self._validity.overwritten()
        self._write(TensorRef(self._index, Tensors.LAYER_OUTPUT, index, layer), values)

    def profile(self) -> list[int]:
        """Run layer by layer; return each layer's ticks, none for plain C code."""
        if self.module.style == "plain":
            return []
        with self._client.as_one("RUN_LAYERS"), self._loops():
            self._begin_run()
            ticks = self._client.run_layers(self._index, 0, len(self.layers))
        self._validity.end_run()
        return ticks

    @contextmanager
    def _loops(self) -> Iterator[None]:
        """Raise :class:`~hilc.errors.LoopBoundError` for a run of a loop beyond its bound."""
        try:
            yield
        except ModelFailedError as error:
            # Only the description of a library states a core, and loops.
            found = (
                exceeded(self.module.loop_bounds, error.returned)
                if self.module.cpu
                else exceeded_unnamed(error.returned)
            )
            raise found or error from None

    def _begin_run(self) -> None:
        """Send the inputs that the board may have lost, in the session of the run."""
        self._runs += 1
        self._begin_states()
        if self._rows.missing is None:
            for index, value in self._validity.to_send():
                self._send(index, value)
        else:
            self._rows.require_all(1)
            self._require_rows()
            self._rows.start()
        self._validity.require_states()
        self._validity.begin_run()

    def _send(self, index: int, value: Array) -> None:
        self._validity.open_session(self._client.sessions)
        self._validity.begin_write(index)
        if self.module.fed_rows:
            self._client.start_feed(self._input)
            self._client.feed(self._input, 0, _little_endian(value))
        else:
            self._write(TensorRef(self._index, Tensors.INPUT, index), value)
        # The session may have been opened anew for it.
        self._validity.open_session(self._client.sessions)
        self._validity.end_write(index)

    def begin_call(self, arguments: Sequence[object]) -> None:
        """Send those of the inputs passed to a function that the board may have lost."""
        self._begin_states()
        for index in self._given_inputs(arguments):
            if (value := self._validity.lost_value(index)) is not None:
                self._send(index, value)

    def end_call(self, function: str, arguments: Sequence[object]) -> None:
        """Record that the function may have written to any memory, in particular these inputs."""
        self._validity.called(function, self._given_inputs(arguments))

    def _given_inputs(self, arguments: Sequence[object]) -> list[int]:
        return [
            argument.index
            for argument in arguments
            if isinstance(argument, TensorRef)
            and (argument.model, argument.list) == (self._index, Tensors.INPUT)
            and argument.index < len(self.inputs)
        ]

    def input_ref(self, name: str | int) -> TensorRef:
        """Return an input as an argument of :meth:`Device.call`."""
        index = _find(name, self.inputs, f"input of model {self.name!r}")
        return TensorRef(self._index, Tensors.INPUT, index)

    def output_ref(self, name: str | int) -> TensorRef:
        """Return an output as an argument of :meth:`Device.call`."""
        index = _find(name, self.outputs, f"output of model {self.name!r}")
        return TensorRef(self._index, Tensors.OUTPUT, index)

    def layer_refs(self, layer: int) -> tuple[TensorRef, ...]:
        """Return the tensors that the packed function of a layer takes, in order.

        They include its scratch and the constant pool if it takes them, but not devices.
        """
        if not 0 <= layer < len(self.layers):
            raise InputError(
                f"model {self.name!r} has no layer {layer}", f"it has {len(self.layers)}"
            )
        tensors = [a for a in self.layers[layer].arguments if a.kind != "device"]
        return tuple(
            TensorRef(self._index, Tensors.LAYER_ARGUMENT, index, layer)
            for index in range(len(tensors))
        )

    def pool_refs(self) -> tuple[TensorRef, ...]:
        """Return the pools that the model's entry takes after its inputs and outputs."""
        count = len(self.module.workspace_pools) if self.module.pools == "external" else 0
        count += self.module.constants == "external"
        return tuple(TensorRef(self._index, Tensors.POOL, index) for index in range(count))

    def metadata(self) -> Any:
        """Return TVM's metadata from the model's ``get_c_metadata`` on the board.

        Raise :class:`~hil.errors.DeviceError` if the model has none; models with
        ``interface=packed`` have them.
        """
        return board_calls().metadata(self._client, self._index)

    def _write(self, ref: TensorRef, value: Array) -> None:
        self._client.write(ref, _little_endian(value))

    def _read(self, tensor: TensorInfo, ref: TensorRef) -> Array:
        data = self._client.read(ref, tensor.nbytes)
        little_endian = np.dtype(tensor.dtype).newbyteorder("<")
        # A copy: an array over bytes would be read-only.
        return np.frombuffer(data, little_endian).reshape(tensor.shape).astype(tensor.dtype)


class Device:
    """A connected board, opened by :func:`hil.open`.

    ``ticks_are`` is the unit of a firmware that was not started by ``running``.
    """

    def __init__(
        self,
        client: Client,
        libraries: Sequence[ModelLibrary],
        running: Running | None = None,
        firmware: Firmware | None = None,
        ticks_are: Counter = "cycles",
        recovery: Recovery | None = None,
        started_by: str = "port",
    ) -> None:
        self._client = client
        self._started_by = started_by
        self._running = running
        self._ticks_are = ticks_are
        #: Recovery of the board and its attempts; None without recovery.
        self.recovery = recovery
        #: The built and started firmware; None for one that ran already.
        self.firmware = firmware
        #: The libraries of the models.
        self.libraries = tuple(libraries)
        known = {module.name: module for library in libraries for module in library.modules}
        with client.as_one("the description of the models"):
            models = [self._model(index, known) for index in range(client.hello.models)]
        self.models: Mapping[str, Model] = MappingProxyType({m.name: m for m in models})
        if len(self.models) < len(models):
            names = [model.name for model in models]
            twice = next(name for name in names if names.count(name) > 1)
            raise protocol_error(f"two models called {twice!r}")
        missing = [name for name in known if name not in self.models]
        if missing:
            raise DeviceError(
                f"the firmware on {self.hello.board!r} has no model {missing[0]!r}, "
                f"it has {', '.join(self.models) or 'none'}",
                "flash the firmware that was built from this model",
            )

    def _model(self, index: int, known: Mapping[str, Module]) -> Model:
        info = self._client.model_info(index)
        module = known.get(info.name)
        if module is None:
            module = _ask_module(self._client, index, info)
        elif info != _info_of(module):
            raise LinkError(
                f"the firmware describes its model {info.name!r} as {info}, the library as "
                f"{_info_of(module)}",
                "flash the firmware that was built from this model",
                remedy=Remedy.FLASH,
            )
        return Model(self, self._client, index, module)

    def __getitem__(self, name: str) -> Model:
        try:
            return self.models[name]
        except KeyError:
            raise InputError(
                f"the firmware has no model {name!r}", f"it has {', '.join(self.models) or 'none'}"
            ) from None

    @property
    def hello(self) -> Hello:
        """The board's answer to the handshake."""
        return self._client.hello

    @property
    def board(self) -> str:
        """Name of the board."""
        return self.firmware.board.name if self.firmware else self.hello.board

    @property
    def port(self) -> str | None:
        """The serial port of a real board, by a stable name if it has one; None for a
        machine that was started here.
        """
        if self._running is None:
            return self._client.link.url
        return self._running.port if isinstance(self._running, Wired) else None

    @property
    def source(self) -> str:
        """Return what runs the firmware: the name of a runner, ``port`` or the place in a lab, and
        of a real board its probe and serial port, by names that last.

        Results of one source may be continued on an equal one, not on another.
        """
        probe = getattr(self._running, "probe", None)
        names = {"probe": probe, "line": self.port}
        return ", ".join([self._started_by, *(f"{k} {v}" for k, v in names.items() if v)])

    @property
    def is_proven(self) -> bool:
        """Return whether the board is known to be the selected one: not for a firmware that ran
        already, nor behind a flasher that does not control the core; of these the build id alone
        is checked.
        """
        return self._running is not None and getattr(self._running, "is_proven", True)

    @property
    def log(self) -> Callable[[str], None]:
        """Function that is called with each text that the firmware logs, while a request is
        pending.
        """
        return self._client.on_log

    @log.setter
    def log(self, callback: Callable[[str], None]) -> None:
        self._client.on_log = callback

    @property
    def counter(self) -> Counter:
        """The unit of :meth:`count`."""
        return self._running.counter if self._running else self._ticks_are

    @property
    def simulated(self) -> Simulated | None:
        """The simulated core that runs the firmware; None for another board."""
        return self._running if isinstance(self._running, Simulated) else None

    @property
    def repeated_requests(self) -> int:
        """Number of requests that were sent again because no answer came.

        A request that arrives during a run costs the board instructions, which are counted: a
        measurement during which this grows includes them.
        """
        return self._client.repeated

    def count(self, ticks: int) -> int:
        """Return ticks of the board's time base as instructions or cycles."""
        return self._running.count(ticks, self.hello.ticks_hz) if self._running else ticks

    def result(self, ticks: int, outputs: Outputs) -> RunResult:
        """Return what a run of this many ticks cost, with its outputs."""
        timed = self.counter != "instructions"
        seconds = ticks / self.hello.ticks_hz if timed else None
        return RunResult(ticks, self.counter, self.count(ticks), seconds, outputs)

    @property
    def transport(self) -> str:
        """How tensors come to the board and back, and what checks it."""
        bulk = self._client.bulk
        if bulk is not None and bulk.is_used:
            return "direct memory access, checked by the firmware"
        return "the serial line, in frames with CRC-32"

    def functions(self) -> tuple[str, ...]:
        """Return the packed functions of all models, in the order of the image's registry."""
        try:
            return board_calls().functions(self._client)
        except NotInFirmwareError:
            return ()

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a packed function of the image by name, once; return its result.

        Tensors are on the board: write them with :meth:`Model.set_input`, pass
        ``model.input_ref(0)`` and the like, read results with :meth:`Model.get_output`. Raise
        :class:`~hil.errors.DeviceError` if there is no such function, or it returns an error.
        """
        calls = board_calls()
        calls.check(name, arguments)
        for model in self.models.values():
            model.begin_call(arguments)
        try:
            return calls.call(self._client, name, arguments)
        finally:
            for model in self.models.values():
                model.end_call(name, arguments)

    def echo(self, data: bytes) -> bytes:
        """Return ``data`` after it was sent to the board and back."""
        return self._client.echo(data)

    def memory(self) -> Memory:
        """Return the peak of stack use and the statistics of the serial link.

        Raise :class:`~hil.errors.StackError` for a peak above the bound that the build found
        (:mod:`hil.firmware.stack`).
        """
        memory = self._client.memory()
        bound = self.firmware.sizes.stack_bound_bytes if self.firmware else None
        if bound is not None and memory.stack_peak_bytes > bound:
            raise StackError(
                f"the stack of {self.board!r} was {memory.stack_peak_bytes} bytes deep, and its "
                f"code takes {bound} at most",
                "something wrote below the stack, or functions that are called through pointers "
                "call themselves: look for both in code that is not of the compiler",
            )
        return memory

    def check_stack(self) -> None:
        """Raise as :meth:`memory` does for a stack that was too deep.

        Of a board whose last request failed, that has ended or was closed nothing is known.
        """
        if self.firmware is None or self.firmware.sizes.stack_bound_bytes is None:
            return
        if self._client.has_failed:
            return
        try:
            self.memory()
        except StackError:
            raise
        except (DeviceError, InputError):
            return

    def repeated(self, job: Callable[[], _Item]) -> _Item:
        """Return the result of ``job()``, which is repeated from its start after each recovery of
        the board.

        :mod:`hil.device.recovery` recovers the board, and raises the failure if it cannot. A job
        has to set every input that it needs.
        """
        return self.recovery.repeated(job) if self.recovery else job()

    def renew(self, running: Running) -> None:
        """Replace the running firmware after recovery has restarted it."""
        self._running = running

    def forget(self) -> None:
        """Reset the state of all models, for the next user of the device.

        Every input is zeros until it is set, and no output is available.
        """
        for model in self.models.values():
            model.forget()

    def reset(self) -> None:
        """Restart the firmware; outputs and statistics are reset, inputs keep their values."""
        self._client.reset()

    def close(self) -> None:
        """Close the link; :func:`hil.open` stops the emulator or process that it started."""
        self._client.close()


def _little_endian(value: Array) -> bytes:
    return value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()


def _find(name: str | int, tensors: Sequence[TensorInfo], what: str) -> int:
    """Return the index of the tensor given by name or index."""
    if not tensors:
        raise InputError(f"there is no {what}, and so not {name!r}", "the model has none")
    index = tensor_index(name, what)
    names = [tensor.name for tensor in tensors]
    if isinstance(index, str):
        if index in names:
            return names.index(index)
        fact = f"there is no {what} called {index!r}"
        raise InputError(fact, f"choose one of {', '.join(names)}")
    if not 0 <= index < len(tensors):
        raise InputError(f"there is no {what} number {index}", f"there are {len(tensors)}")
    return index


# -- what the board says of a model whose library is not at hand ------------------------------


def _info_of(module: Module) -> ModelInfo:
    """Return a library's description of the model in the firmware's form."""
    return ModelInfo(
        module.name,
        len(module.inputs),
        len(module.outputs),
        len(module.called_layers),
        module.workspace_bytes,
    )


def _ask_module(client: Client, index: int, info: ModelInfo) -> Module:
    inputs = tuple(
        _ask_tensor(client, TensorRef(index, Tensors.INPUT, i)) for i in range(info.inputs)
    )
    outputs = tuple(
        _ask_tensor(client, TensorRef(index, Tensors.OUTPUT, i)) for i in range(info.outputs)
    )
    layers: list[Layer] = []
    count = info.inputs + info.outputs
    for number in range(info.layers):
        layer = _ask_layer(client, index, number, ENTRIES_MAX - count)
        layers.append(layer)
        count += len(layer.outputs)
    return Module(
        name=info.name,
        symbol=f"tvmgen_{info.name}",
        cpu="",
        inputs=inputs,
        outputs=outputs,
        layers=tuple(layers),
        workspace_bytes=info.workspace_bytes,
        io_bytes=sum(tensor.nbytes for tensor in inputs + outputs),
        constants_bytes=0,
        pools="external",
        workspace_pools=(),
        io_in_pool=True,
        states=tuple(
            _ask_tensor(client, TensorRef(index, Tensors.STATE, i))
            for i in range(client.state_count(index))
        ),
        fed_rows=client.feed_rows(index),
    )


def _ask_layer(client: Client, model: int, layer: int, most: int) -> Layer:
    """Return a layer, which must have at most ``most`` outputs."""
    name, outputs = client.layer_info(model, layer)
    if outputs > most:
        raise protocol_error(f"a model with more than {ENTRIES_MAX} tensors")
    refs = [TensorRef(model, Tensors.LAYER_OUTPUT, i, layer) for i in range(outputs)]
    tensors = tuple(_ask_tensor(client, ref) for ref in refs)
    return Layer(
        name=name, op="", function="", arguments=(), outputs=tensors, macs=0, input_count=0
    )


def _ask_tensor(client: Client, ref: TensorRef) -> TensorInfo:
    tensor = client.tensor_info(ref)
    return TensorInfo(
        name=tensor.name,
        c_name=re.sub(r"\W", "_", tensor.name),
        shape=tensor.shape,
        dtype=tensor.dtype,
        scale=None,
        zero_point=None,
        nbytes=tensor.nbytes,
        offset=None,
    )
