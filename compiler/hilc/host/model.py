"""A module of a loaded shared object, called like from a C program."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.artifact.library import Argument, Layer, Module, TensorInfo
from hilc.errors import HilError, InputError
from hilc.executor import (
    Bindings,
    Outputs,
    Rows,
    RunResult,
    Which,
    find_tensor,
    input_values,
    quantized,
    require_layers,
    run_count,
)
from hilc.host.build import CONSTANTS
from hilc.host.code import Code, closed
from hilc.host.runtime import Session, host_runtime, needs_runtime
from hilc.ir import Array
from hilc.ir.loop_bounds import exceeded
from hilc.memory.allocate import ALIGNMENT

#: Hint of a function that fails without a message.
_FAILED_HINT = "an index is outside of its tensor, or external code reports an error"

#: Contexts of devices by the device's name: an address, the bytes of the context, or none.
Contexts = Mapping[str, "int | Array | None"]


class HostModel:
    """One loaded module. A context manager: closing it unloads the code and deletes its files."""

    def __init__(
        self, module: Module, code: Code, devices: Contexts = MappingProxyType({})
    ) -> None:
        self.module = module
        self._code = code
        # Arrays among the contexts must live as long as the model.
        self._devices = dict(devices)
        self._contexts = [_context(devices.get(name), name) for name in module.devices]
        if unknown := sorted(set(devices) - set(module.devices)):
            raise InputError(
                f"the model {module.name!r} has no device {unknown[0]!r}",
                f"its devices are {', '.join(module.devices) or 'none'}",
            )
        self._inputs = [_aligned(info.nbytes) for info in module.inputs]
        self._outputs = [_aligned(info.nbytes) for info in module.outputs]
        self._bindings = Bindings(module.inputs, module.outputs)
        self._rows = Rows(module)
        #: Why the outputs are no results; "": they are those of the last run.
        self._no_results = "the model has not run"
        self._runs = 0
        # A module has one workspace: two threads would overwrite each other's data.
        self._turn = threading.Lock()
        self._is_closed = False
        # The caller's own; where the library has them, layers that are run one by one use these,
        # but for the states, of which there is one, and what rows are fed to.
        self._pools = [
            self._static_pool(index)
            if (pool.persistent or module.fed_rows) and pool.is_static(module.pools)
            else _aligned(pool.nbytes)
            for index, pool in enumerate(module.workspace_pools)
        ]
        self._session: Session | None = None
        if needs_runtime(module):
            self._session = host_runtime(module.name).session(code)
            self._start_runtime(self._session)
        self.reset_state()

    def _static_pool(self, index: int) -> Array:
        """Return the bytes of a pool that is a static array of the code."""
        module, pool = self.module, self.module.workspace_pools[index]
        if module.style == "tvm":
            return self._code.data(f"{module.symbol}_{pool.name}", pool.nbytes)
        if not pool.persistent:
            return _aligned(pool.nbytes)  # out of reach, and nobody looks at it
        state = module.states[0]
        getter = self._code.function(f"{module.symbol}_{state.c_name}_state", ctypes.c_void_p)
        start = getter() - (state.offset or 0)
        memory: Array = np.ctypeslib.as_array((ctypes.c_uint8 * pool.nbytes).from_address(start))
        return memory

    def _start_runtime(self, session: Session) -> None:
        # Exactly the size that the library states, so that a wrong figure is an error here too.
        nbytes = self.module.workspace_bytes if self.module.pools == "calls" else 0
        self._stack = _aligned(nbytes)
        status = session.start(self._stack.ctypes.data, nbytes)
        if status:
            raise self._failed("the C run time", status)

    @property
    def name(self) -> str:
        """Name of the module."""
        return self.module.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the inputs, in order."""
        return self.module.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the outputs, in order."""
        return self.module.outputs

    @property
    def states(self) -> tuple[TensorInfo, ...]:
        """Descriptions of the states, in order; empty for a stateless model."""
        return self.module.states

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Layers of the compiled model, in order of execution."""
        return self.module.layers

    def __enter__(self) -> HostModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unload the code, after a run in another thread has ended; the model cannot be used
        afterwards.
        """
        self._is_closed = True
        if self._turn.acquire(blocking=False):
            self._turn.release()
            self._code.close()

    def _require_open(self) -> None:
        """Raise if the model is closed."""
        if self._is_closed:
            raise closed()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock on the model; raise if another thread has it."""
        if not self._turn.acquire(blocking=False):
            raise InputError(
                f"the model {self.name!r} is in use by another thread",
                "load it once for each thread, or use it from one at a time",
            )
        try:
            yield
        finally:
            self._turn.release()
            if self._is_closed:
                self._code.close()

    # Tensors ----------------------------------------------------------------------------------

    def set_input(self, which: Which, array: npt.ArrayLike, *, quantize: bool = False) -> None:
        """Copy ``array``, which must have the input's exact shape and type, into the input.

        With ``quantize`` floats are converted by the input's scale and zero point
        (:func:`hilc.executor.quantized`).
        """
        self._require_open()
        index = find_tensor(self.inputs, which, "input")
        if quantize:
            array = quantized(self.inputs[index], array)
        values = input_values(self.inputs[index], array)
        if self._bindings.inputs.pop(index, None) is not None:
            self._inputs[index] = _aligned(values.nbytes)
        self._inputs[index][:] = values.reshape(-1).view(np.uint8)
        self._rows.missing = None

    def set_input_zero_copy(self, which: Which, array: Array) -> None:
        """Let the model read the input from ``array``; see :class:`hilc.executor.Executor`."""
        self._require_open()
        index = self._bindings.bind_input(which, array)
        self._inputs[index] = array.reshape(-1).view(np.uint8)
        self._rows.missing = None

    def set_output_zero_copy(self, which: Which, array: Array | None) -> None:
        """Let the model write the output to ``array``; see :class:`hilc.executor.Executor`."""
        self._require_open()
        index = self._bindings.bind_output(which, array)
        own = _aligned(self.outputs[index].nbytes)
        self._outputs[index] = own if array is None else array.reshape(-1).view(np.uint8)

    def get_input(self, which: Which) -> Array:
        """Return a copy of an input's value, in its shape and type; zeros before it is set."""
        self._require_open()
        index = find_tensor(self.inputs, which, "input")
        return _typed(self._inputs[index], self.inputs[index])

    def get_output(self, which: Which) -> Array:
        """Return a copy of an output of the last run, in its shape and type.

        Raise :class:`~hilc.errors.InputError` if the model has not run.
        """
        self._require_open()
        index = find_tensor(self.outputs, which, "output")
        if self._no_results:
            raise InputError(
                f"output {self.outputs[index].name!r} of model {self.name!r} is not available: "
                f"{self._no_results}",
                "run the model first",
            )
        return _typed(self._outputs[index], self.outputs[index])

    # Rows -------------------------------------------------------------------------------------

    def start_rows(self) -> None:
        """Begin an inference whose input is pushed by rows; rows that were pushed are dropped.

        Raise :class:`~hilc.errors.InputError` for a model that was compiled without `feed=rows`.
        """
        self._require_open()
        self._rows.start()
        with self._alone():
            self._start_rows()

    def push_rows(self, rows: npt.ArrayLike) -> int:
        """Let the model take in the next rows, one or several; return how many are missing.

        After the last one :meth:`run` completes the inference. The first row begins a new one,
        unless :meth:`start_rows` did.
        """
        self._require_open()
        data = self._rows.check(rows)
        if self._rows.at_start:
            self.start_rows()
        with self._alone():
            self._push(data)
        return self._rows.took(data.nbytes)

    def _start_rows(self) -> None:
        if not self._no_results:
            # Layers that rows complete may write outputs.
            self._no_results = "rows of another inference were pushed since it ran"
        self._call_structs(f"{self.module.symbol}_start_rows", self._row_structs())

    def _push(self, data: Array) -> None:
        """Push bytes of rows, as a caller in C does."""
        name = f"{self.module.symbol}_push_bytes"
        structs = self._passed(self._row_structs())
        pointer = ctypes.c_void_p(data.ctypes.data)
        left = self._code.function(name)(*structs, pointer, ctypes.c_int32(data.nbytes))
        if left < 0:
            raise self._failed(name, left)

    def _row_structs(self) -> list[ctypes.Structure]:
        """Return the structs that the functions of rows take."""
        outputs: list[ctypes.Structure] = []
        if not self.module.io_in_pool:
            outputs = self._struct("outputs", _fields(self.outputs), _addresses(self._outputs))
        return [*outputs, *self._pool_struct()]

    def _feed(self) -> None:
        """Let the model take in the whole input, unless its rows were pushed."""
        if self._rows.missing is None:
            self._start_rows()
            self._push(self._inputs[0])
        else:
            self._rows.start()

    # States -----------------------------------------------------------------------------------

    def reset_state(self) -> None:
        """Give every state its first value, as it has when the model is loaded."""
        self._require_open()
        if not self.states:
            return
        name = f"{self.module.symbol}_reset_state"
        given = self.module.pools == "external"
        with self._alone():
            if self.module.interface == "packed":
                pool = self._pools[self.states[0].pool]
                tensor = self._packed_session().tensor(pool.ctypes.data, pool.shape, "uint8")
                self._call_packed(name, (tensor,) if given else ())
            else:
                pools = self._pool_struct() if given else []
                if given and self.module.style == "plain":
                    own = [self._pools[self.states[0].pool]]
                    pools = self._struct("pool", ["pool"], _addresses(own))
                self._call_structs(name, pools)

    def state(self, which: Which) -> Array:
        """Return a copy of a state's value: of the last run, or set since."""
        self._require_open()
        info = self.states[find_tensor(self.states, which, "state")]
        return _typed(self._place(info), info)

    def set_state(self, which: Which, array: npt.ArrayLike) -> None:
        """Let the next run start with ``array``, which has the state's exact shape and type."""
        self._require_open()
        info = self.states[find_tensor(self.states, which, "state")]
        values = input_values(info, array, "state")
        with self._alone():
            self._place(info)[:] = values.reshape(-1).view(np.uint8)

    # Running ----------------------------------------------------------------------------------

    def run(self, repeat: int = 1) -> RunResult:
        """Run ``repeat`` inferences through the library's entry point.

        The result has the outputs and the time of this machine that all of them took.
        """
        count = run_count(self.name, repeat)
        start = time.perf_counter_ns()
        self._rows.require_all(count)
        with self._alone(), self._running():
            for _ in range(count):
                if self.module.fed_rows:
                    self._feed()
                if self.module.interface == "packed":
                    self._call_packed(f"{self.module.symbol}_run", self._entry_arguments())
                else:
                    self._run_structs()
        took = time.perf_counter_ns() - start
        outputs = Outputs(self.outputs, self.get_output, lambda: self._runs)
        return RunResult(took, "nanoseconds", took, took / 1e9, outputs)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """Mark the outputs as valid when the body of the ``with`` statement succeeds."""
        self._no_results = "its last run failed"
        self._runs += 1
        yield
        self._no_results = ""

    def layer_outputs(self, first: int = 0) -> Iterator[tuple[Layer, list[Array]]]:
        """Run layer by layer; yield each from ``first`` on with copies of its outputs right after
        it ran.

        Raise :class:`~hilc.errors.InputError` if the library does not describe its layers.
        """
        # A model whose outputs all share buffers with its inputs has nothing to compute.
        given = {(tensor.pool, tensor.offset) for tensor in self.inputs if self.module.io_in_pool}
        if not self.layers and any((t.pool, t.offset) not in given for t in self.outputs):
            raise InputError(
                f"the library does not describe the layers of {self.name!r}",
                "compile the model with hil compile",
            )
        require_layers(self.module)
        self._rows.require_all(1)
        with self._running():
            if self.module.fed_rows:
                with self._alone():
                    self._feed()
            elif self.module.io_in_pool:
                for info, buffer in zip(self.inputs, self._inputs, strict=True):
                    self._place(info)[:] = buffer
            for number, layer in enumerate(self.layers):
                with self._alone():
                    self._run_layer(layer)
                if number >= first:
                    outputs = range(len(layer.outputs))
                    yield layer, [self.layer_output(number, index) for index in outputs]
            if self.module.io_in_pool:
                for info, buffer in zip(self.outputs, self._outputs, strict=True):
                    buffer[:] = self._place(info)

    def layer_output(self, layer: int, index: int) -> Array:
        """Return the content of a layer's output buffer: its result only right after it ran."""
        return _typed(self._layer_memory(layer, index), self.layers[layer].outputs[index])

    def set_layer_output(self, layer: int, index: int, array: npt.ArrayLike) -> None:
        """Write ``array`` where a layer writes an output, between two steps of
        :meth:`layer_outputs`: to find layers that use memory which they have not written.
        """
        values = input_values(self.layers[layer].outputs[index], array, "layer output")
        self._layer_memory(layer, index)[:] = values.reshape(-1).view(np.uint8)

    def _layer_memory(self, layer: int, index: int) -> Array:
        described = self.layers[layer]
        nbytes = described.outputs[index].nbytes
        return self._memory(described.output_arguments[index], nbytes)

    def _run_layer(self, layer: Layer) -> None:
        if self.module.api == "packed":
            self._call_packed(layer.function, self._layer_arguments(layer))
        else:
            pointers = [ctypes.c_void_p(self._address(argument)) for argument in layer.arguments]
            self._check(layer.function, self._code.function(layer.function)(*pointers))

    # The packed convention --------------------------------------------------------------------

    def functions(self) -> tuple[str, ...]:
        """Return the module's packed functions, in the order of its registry."""
        return self.module.functions

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a packed function; return its result: a number, a text, None, or a handle.

        An argument is a number, a text, bytes, None, a handle or a contiguous array, which the
        function may write to.

        Raise :class:`~hilc.errors.InputError` if the library has no such function.
        """
        if name not in self.module.functions:
            raise InputError(
                f"the model {self.name!r} has no packed function {name!r}",
                f"it has {', '.join(self.module.functions) or 'none: use interface=packed'}",
            )
        with self._alone():
            return self._call_packed(name, arguments)

    def metadata(self) -> Any:
        """Return the module's description of itself: TVM's metadata, if it was compiled with
        them.

        Raise :class:`~hilc.errors.InputError` if the model was compiled without.
        """
        session = self._session
        name = session.metadata_function(self.module) if session else ""
        if session is None or not self._code.has(name):
            raise InputError(
                f"the model {self.name!r} has no metadata", "compile it with interface=packed"
            )
        return session.metadata(self._call_packed(name, ()))

    def _entry_arguments(self) -> Iterator[Any]:
        module, session = self.module, self._packed_session()
        for infos, buffers in ((self.inputs, self._inputs), (self.outputs, self._outputs)):
            for info, buffer in zip(infos, buffers, strict=True):
                yield session.tensor(buffer.ctypes.data, info.shape, info.dtype)
        if module.constants == "external":
            yield session.tensor(self._constants(), (module.constants_bytes,), "uint8")
        if module.pools == "external":
            for pool in self._pools:
                yield session.tensor(pool.ctypes.data, pool.shape, "uint8")
        yield from map(session.context, self._contexts)

    def _layer_arguments(self, layer: Layer) -> Iterator[Any]:
        session = self._packed_session()
        for argument in layer.arguments:
            if argument.kind == "device":
                yield session.context(self._contexts[argument.value])
            else:
                address = self._address(argument) or 0
                yield session.tensor(address, argument.shape, argument.dtype)

    def _call_packed(self, name: str, arguments: Iterable[Any]) -> Any:
        """Return the result of a packed function."""
        status, result = self._packed_session().call(name, tuple(arguments))
        self._check(name, status)
        return result()

    def _packed_session(self) -> Session:
        assert self._session is not None, "a module with packed functions has a run time"
        return self._session

    # The C interface --------------------------------------------------------------------------

    def _run_structs(self) -> None:
        """Call the entry point with the structs that the header declares."""
        module = self.module
        pools = self._pool_struct()
        devices = self._struct("devices", module.devices, self._contexts) if module.devices else []
        run = f"{module.symbol}_run"
        if not module.io_in_pool:
            structs = self._struct("outputs", _fields(self.outputs), _addresses(self._outputs))
            if not module.fed_rows:
                inputs = self._struct("inputs", _fields(self.inputs), _addresses(self._inputs))
                structs = [*inputs, *structs]
            self._call_structs(run, [*structs, *pools, *devices])
            return
        where = pools if module.pools == "external" else []
        if not module.fed_rows:
            for address, buffer in zip(self._map("inputs", where), self._inputs, strict=True):
                ctypes.memmove(address, buffer.ctypes.data, buffer.nbytes)
        outputs = self._map("outputs", where)
        self._call_structs(run, [*pools, *devices])
        for address, buffer in zip(outputs, self._outputs, strict=True):
            ctypes.memmove(buffer.ctypes.data, address, buffer.nbytes)

    def _pool_struct(self) -> list[ctypes.Structure]:
        """Return the struct of the memory that the caller provides besides tensors; empty if there
        is none.
        """
        module = self.module
        names, addresses = list[str](), list[int | None]()
        if module.constants == "external":
            names.append(module.constants_pool)
            addresses.append(self._constants())
        if module.pools == "external":
            pools = zip(module.workspace_pools, _addresses(self._pools), strict=True)
            # Plain code takes no pointer to nothing.
            taken = [(p.name, at) for p, at in pools if p.nbytes or module.style == "tvm"]
            names += [name for name, _ in taken]
            addresses += [at for _, at in taken]
        if not names and module.pools != "external":
            return []
        return self._struct("workspace_pools", names, addresses)

    def _struct(
        self, kind: str, names: Sequence[str], addresses: Sequence[int | None]
    ) -> list[ctypes.Structure]:
        return [_struct_type(kind, names)(*addresses)]

    def _call_structs(self, name: str, structs: Sequence[ctypes.Structure]) -> None:
        function = self._code.function(name)
        if self._session is None:
            self._check(name, function(*self._passed(structs)))
            return
        pointers = (ctypes.c_void_p * 4)(*map(ctypes.addressof, structs))
        call = self._code.function("hilc_host_call")
        self._check(name, call(function, pointers, len(structs)))

    def _passed(self, structs: Sequence[ctypes.Structure]) -> list[Any]:
        """Return the arguments of a function of the interface: the structs, or in plain code the
        pointers in them.
        """
        if self.module.style == "tvm":
            return list(map(ctypes.byref, structs))
        return [
            ctypes.c_void_p(getattr(struct, field[0]))
            for struct in structs
            for field in struct._fields_
        ]

    def _map(self, kind: str, pools: Sequence[ctypes.Structure]) -> list[int]:
        """Return the addresses that the library's functions return for tensors in pools."""
        tensors = self.inputs if kind == "inputs" else self.outputs
        names = _fields(tensors)
        if self.module.style == "plain":
            return [self._buffer(tensor, bool(pools)) for tensor in tensors]
        function = self._code.function(
            f"{self.module.symbol}_map_{kind}", _struct_type(kind, names)
        )
        mapped = function(*map(ctypes.byref, pools))
        return [getattr(mapped, name) for name in names]

    def _buffer(self, tensor: TensorInfo, is_given: bool) -> int:
        """Return the address of an input or output in a pool, from a function of plain code."""
        name = f"{self.module.symbol}_{tensor.c_name}_buffer"
        given = [ctypes.c_void_p(self._pools[tensor.pool].ctypes.data)] if is_given else []
        address = self._code.function(name, ctypes.c_void_p)(*given)
        assert isinstance(address, int), "a buffer has an address"
        return address

    # Memory -----------------------------------------------------------------------------------

    def _address(self, argument: Argument) -> int | None:
        match argument.kind:
            case "pool":
                return self._pools[argument.pool].ctypes.data + argument.value
            case "input":
                return self._inputs[argument.value].ctypes.data
            case "output":
                return self._outputs[argument.value].ctypes.data
            case "constants":
                return self._constants()
            case "device":
                return self._contexts[argument.value]

    def _memory(self, argument: Argument, nbytes: int) -> Array:
        """Return the bytes of a tensor at the location ``argument``."""
        if argument.kind == "pool":
            return self._pools[argument.pool][argument.value : argument.value + nbytes]
        return self._outputs[argument.value][:nbytes]

    def _place(self, info: TensorInfo) -> Array:
        """Return the bytes of a tensor in a pool."""
        offset = info.offset or 0
        return self._pools[info.pool][offset : offset + info.nbytes]

    def _constants(self) -> int:
        return self._code.data_address(f"{CONSTANTS}{self.module.symbol}")

    # Errors -----------------------------------------------------------------------------------

    def _check(self, name: str, status: int) -> None:
        if status:
            raise self._failed(name, status)
        if self._session is not None:
            left = self._session.workspace_left()
            if left:
                raise HilError(f"{name} left {left} bytes of workspace allocated")

    def _failed(self, name: str, status: int) -> HilError:
        if (error := exceeded(self.module.loop_bounds, status)) is not None:
            return error
        text = self._session.last_error() if self._session else ""
        said = f": {text}" if text else ""
        # The C runtime's errors are documented in hexadecimal.
        code = f"{status:#x}" if status >= 0x100 else f"{status}"
        return HilError(f"{name} returned {code}{said}", "" if text else _FAILED_HINT)


def _context(context: int | Array | None, name: str) -> int | None:
    """Return the address of a device's context."""
    if isinstance(context, np.ndarray):
        return context.ctypes.data
    if context is not None and type(context) is not int:
        raise InputError(
            f"the context of the device {name!r} has the type {type(context).__name__}",
            "pass an address, or a numpy array of its bytes",
        )
    return context


def _aligned(nbytes: int) -> Array:
    """Return ``nbytes`` zero bytes, aligned like a workspace."""
    memory = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes]


def _typed(memory: Array, info: TensorInfo) -> Array:
    """Return a copy of the bytes of a tensor in its type and shape."""
    return memory.copy().view(info.dtype).reshape(info.shape)


def _fields(infos: Sequence[TensorInfo]) -> list[str]:
    return [info.c_name for info in infos]


def _addresses(buffers: Sequence[Array]) -> list[int | None]:
    return [buffer.ctypes.data for buffer in buffers]


def _struct_type(kind: str, names: Sequence[str]) -> type[ctypes.Structure]:
    """Return a struct of pointers, as the header declares them."""
    fields = [(name, ctypes.c_void_p) for name in names or ["none"]]
    return type(kind, (ctypes.Structure,), {"_fields_": fields})
