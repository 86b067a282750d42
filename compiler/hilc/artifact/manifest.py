"""Description of a compiled model for the harness: its tensors, memory, layers and functions.

In an archive this is ``hil/<module>.json``, the JSON of :class:`Module`; archives that TVM wrote
have none, and a reader in :mod:`hilc.artifact.foreign` derives it from their other files.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from hilc.artifact.work import Work
from hilc.codegen.described import Argument, External
from hilc.errors import InputError
from hilc.ir import (
    DTYPES,
    Array,
    ClassLabels,
    DynamicForm,
    FixedSize,
    FloatLayer,
    IoSaving,
    RoundedBias,
)
from hilc.ir.annotations import NOTHING_FOLDED, Folded
from hilc.ir.dtypes import DYNAMIC
from hilc.ir.loop_bounds import LoopBound
from hilc.memory.pools import Pool
from hilc.support.jsondata import decode, json_bytes, parse_json
from hilc.target import get_cpu

__all__ = [
    "CONSTANTS_POOL",
    "NOTHING_FOLDED",
    "Argument",
    "CompressedArrays",
    "External",
    "Folded",
    "Layer",
    "Module",
    "Origin",
    "Pool",
    "TensorInfo",
    "check_module",
]

#: Name of the constant pool in hil's code.
CONSTANTS_POOL = "global_const_workspace"

# Bounds far above any model for a microcontroller.
_MAX_BYTES = 1 << 31
_MOST_COUNT = 1 << 53


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a model or of one of its layers."""

    name: str
    #: Name as a C identifier (struct field, upper case in the size macro).
    c_name: str
    shape: tuple[int, ...]
    dtype: str
    #: Per-tensor quantization; None for none.
    scale: float | None
    zero_point: int | None
    nbytes: int
    #: Byte offset in the workspace pool ``pool``; None if the caller provides the buffer.
    offset: int | None
    #: Index of the pool among :attr:`Module.workspace_pools`; 0 if ``offset`` is None.
    pool: int = 0
    #: Indices along the last axis of the model's tensor that this one holds; None for all.
    channels: tuple[int, ...] | None = None
    #: Of an input that states the number of turns of a loop: the most turns of a test. None for
    #: any other.
    turns: int | None = None

    def held(self, whole: Array) -> Array:
        """Return the part of ``whole``, the model's tensor, that this tensor holds.

        Raises :class:`InputError` where that has no such channels.
        """
        if self.channels is None:
            return whole
        if not whole.shape or self.channels[-1] >= whole.shape[-1]:
            raise InputError(
                f"{self.name!r} has channel {self.channels[-1]} of a tensor of the shape "
                f"{list(whole.shape)}",
                "compare with the reference of the same model file",
            )
        return whole[..., list(self.channels)]


@dataclass(frozen=True)
class Layer:
    """One call in the generated main function."""

    name: str
    op: str
    #: C function, returning 0 on success: ``int32_t function(void *arg, ...)``, or, with the packed
    #: interface of operators (:attr:`Module.api`), a ``TVMBackendPackedCFunc``.
    function: str
    #: Tensors that the layer reads, then those that it writes, its scratch if any (allocated by the
    #: layer itself with workspace calls), the constant pool, its device.
    arguments: tuple[Argument, ...]
    outputs: tuple[TensorInfo, ...]
    macs: int
    #: Number of arguments that are tensors that the layer reads.
    input_count: int
    #: Layers of a fused group: the names of all, this one's last. Empty for a single layer.
    group: tuple[str, ...] = ()
    #: Their operators, in the same order; archives of older versions do not state them.
    group_ops: tuple[str, ...] = ()
    #: Least work of the layer; None in an archive that does not state it.
    work: Work | None = None

    @property
    def output_arguments(self) -> tuple[Argument, ...]:
        """Arguments to which ``outputs`` are written."""
        return self.arguments[self.input_count : self.input_count + len(self.outputs)]


@dataclass(frozen=True)
class CompressedArrays:
    """Constants of a layer that are stored compressed, and decoded before it runs."""

    #: Index of the layer in :attr:`Module.layers`.
    layer: int
    #: Bytes that they are, and bytes that they take in flash.
    nbytes: int
    stored_bytes: int
    #: Bytes of scratch that hold those that are decoded at a time.
    decoded_bytes: int


@dataclass(frozen=True)
class Origin:
    """A file of an archive that the code in it was made from; no build reads it."""

    path: str
    sha256: str

    @staticmethod
    def of(path: str, data: bytes) -> Origin:
        """Return the origin of a file: its path and the SHA-256 digest of ``data``."""
        return Origin(path, hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class Module:
    """One compiled model of a library."""

    name: str
    #: Stem of all its C symbols: ``tvmgen_<name>``, or the name in plain code.
    symbol: str
    cpu: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    #: Empty for an archive without description (written by TVM).
    layers: tuple[Layer, ...]
    #: All memory that a run works in, inputs and outputs included where they are placed in it:
    #: the pools but for the states', or what ``TVMBackendAllocWorkspace`` must be able to hand out.
    workspace_bytes: int
    #: Size of inputs and outputs in bytes, in the workspace or not; without an input that is fed.
    io_bytes: int
    constants_bytes: int
    #: ``internal``: static arrays of the library, global symbols ``<symbol>_<pool>``; ``external``:
    #: the caller's; ``calls``: the code allocates with ``TVMBackendAllocWorkspace``.
    pools: Literal["internal", "external", "calls"]
    #: Inputs and outputs are in the pools (the caller finds them with the map functions).
    io_in_pool: bool
    #: Planned pools in the order of the main's parameters. With ``calls`` the first block that an
    #: inference allocates, which holds the layers' tensors. Empty where TVM planned them inside its
    #: code.
    workspace_pools: tuple[Pool, ...]
    #: Generated code and its interface: the values of :class:`hilc.codegen.Options`.
    codegen: Literal["c", "llvm"] = "c"
    api: Literal["unpacked", "packed"] = "unpacked"
    interface: Literal["c", "packed"] = "c"
    #: ``external``: the caller passes the constants; their bytes are a macro of the header.
    #: ``binary``: the assembler reads them from a file beside the headers.
    constants: Literal["internal", "binary", "external"] = "internal"
    #: Field of ``struct <symbol>_workspace_pools`` for external constants, and the stem of their
    #: macros.
    constants_pool: str = CONSTANTS_POOL
    #: Fields of ``struct <symbol>_devices``: contexts that the caller passes to each run.
    devices: tuple[str, ...] = ()
    #: Functions with the packed signature, in the order of the registry.
    functions: tuple[str, ...] = ()
    externals: tuple[External, ...] = ()
    folded: Folded = NOTHING_FOLDED
    #: States, which a run leaves to the next, each in the persistent pool.
    states: tuple[TensorInfo, ...] = ()
    #: Definition of the operators that the code computes, where definitions disagree
    #: (:class:`hilc.ir.Numerics`); None if unknown or if there are several.
    reference: Literal["tflm", "litert-ref", "onnx"] | None = None
    #: Sizes of the inputs that the model's file leaves open.
    fixed_sizes: tuple[FixedSize, ...] = ()
    #: Texts of the classes whose numbers outputs return.
    class_labels: tuple[ClassLabels, ...] = ()
    #: Layers of a quantized model that are computed in floats.
    float_layers: tuple[FloatLayer, ...] = ()
    #: Its biases of floats that are integers now.
    rounded_biases: tuple[RoundedBias, ...] = ()
    #: Type of inputs and outputs that would take fewer bytes, if there is one.
    io_savings: tuple[IoSaving, ...] = ()
    #: Ways to compute dynamically quantized layers, the model's own first; none for a model without
    #: such layers.
    dynamic_forms: tuple[DynamicForm, ...] = ()
    #: Loops with a bound, in the order of the statuses that a run beyond it returns
    #: (:func:`hilc.ir.loop_bounds.exceeded`).
    loop_bounds: tuple[LoopBound, ...] = ()
    #: Rows in which the caller brings the input, and which lie nowhere together; 0: as a whole.
    fed_rows: int = 0
    #: Layers whose constants are stored compressed.
    compressed: tuple[CompressedArrays, ...] = ()
    #: The model and its parameters, as they were when the code was made from them; empty in
    #: archives of older versions.
    made_from: tuple[Origin, ...] = ()
    #: Goal of the compiler (``--optimize``); None in archives that do not record it.
    goal: str | None = None
    #: ``plain``: C code without TVM's names and run time, whose layers are static functions.
    style: Literal["tvm", "plain"] = "tvm"

    @property
    def called_layers(self) -> tuple[Layer, ...]:
        """The layers that a caller can call one by one: none in plain code, whose are static."""
        return () if self.style == "plain" else self.layers

    @property
    def state_bytes(self) -> int:
        """The pool of the states, which is no part of the workspace."""
        return sum(pool.nbytes for pool in self.workspace_pools if pool.persistent)

    @property
    def ram_bytes(self) -> int:
        """RAM that the model takes: workspace, inputs and outputs wherever they lie, and states."""
        beside = 0 if self.io_in_pool else self.io_bytes
        return self.workspace_bytes + beside + self.state_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row that is fed; 0 where the inputs are whole."""
        return self.inputs[0].nbytes // self.fed_rows if self.fed_rows else 0

    def __repr__(self) -> str:
        return (
            f"<Module {self.name} for {self.cpu}: {len(self.layers)} layers, "
            f"{self.workspace_bytes:,} bytes of workspace>"
        )

    def compressed_json(self) -> list[dict[str, Any]]:
        """Return the layers of :attr:`compressed`, by name, as commands print them."""
        return [
            {
                "layer": self.layers[found.layer].name,
                "bytes": found.nbytes,
                "stored_bytes": found.stored_bytes,
                "decoded_bytes": found.decoded_bytes,
            }
            for found in self.compressed
        ]

    def to_json(self) -> bytes:
        """Return the entry as JSON, without fields that are empty or do not apply."""
        written = asdict(self)
        for name in (*_OMITTED_WHEN_EMPTY, "fed_rows"):
            if not written[name]:
                del written[name]
        for info in _tensors(written):
            if info["turns"] is None:
                del info["turns"]
        if self.goal is None:
            del written["goal"]
        if self.style == "tvm":
            del written["style"]
        if not self.states:
            del written["states"]
            for pool in written["workspace_pools"]:
                del pool["persistent"]
        return json_bytes(written)

    @staticmethod
    def from_json(text: bytes, label: str) -> Module:
        """Return the module that ``text`` describes, checked; ``label`` names it in messages."""
        value = parse_json(text, label)
        if isinstance(value, dict):
            if "states" not in value:
                value = _with_no_states(value)
            # Libraries of releases before there was a choice compute as TFLite's reference kernels.
            empty: dict[str, Any] = {name: [] for name in _OMITTED_WHEN_EMPTY}
            value = {"reference": "litert-ref", "fed_rows": 0, "goal": None, **empty, **value}
            value.setdefault("style", "tvm")
            value["layers"] = _with_work(value.get("layers"))
            for info in _tensors(value):
                info.setdefault("turns", None)
            forms = value["dynamic_forms"]
            for form in forms if isinstance(forms, list) else ():
                if isinstance(form, dict):
                    form.setdefault("calls_graphs", False)
        module = decode(Module, value, label)
        check_module(module, label)
        return module


#: Fields that only some models have, and descriptions of others do not speak of.
_OMITTED_WHEN_EMPTY = (
    "fixed_sizes",
    "class_labels",
    "float_layers",
    "rounded_biases",
    "io_savings",
    "dynamic_forms",
    "loop_bounds",
    "compressed",
    "made_from",
)


def _tensors(written: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tensors of a written description, which is not checked."""
    layers = written.get("layers")
    for owner in (written, *(layers if isinstance(layers, (list, tuple)) else ())):
        for name in ("inputs", "outputs", "states") if isinstance(owner, dict) else ():
            infos = owner.get(name)
            if isinstance(infos, (list, tuple)):
                yield from (info for info in infos if isinstance(info, dict))


def _with_no_states(written: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a model without states, which does not speak of any."""
    pools = written.get("workspace_pools")
    if isinstance(pools, list):
        pools = [
            {**pool, "persistent": False} if isinstance(pool, dict) else pool for pool in pools
        ]
        written = {**written, "workspace_pools": pools}
    return {**written, "states": []}


def _with_work(layers: Any) -> Any:
    """Return the layers of a description; those of earlier releases do not speak of their work."""
    if not isinstance(layers, list):
        return layers
    return [{"work": None, **layer} if isinstance(layer, dict) else layer for layer in layers]


#: Pattern of a model's name, which is part of its C symbols.
MODEL_NAME = re.compile(r"\w{1,100}", re.ASCII)
#: Pattern of a C identifier.
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")

_Require = Callable[[bool, str], None]


def check_module(module: Module, label: str) -> None:
    """Check numbers and names beyond their types: they are used in C and in memory accesses.

    Raise :class:`~hilc.errors.InputError` for the first one that is not valid.
    """

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise InputError(f"{label}: {what}", "compile the model again")

    get_cpu(module.cpu)
    require(MODEL_NAME.fullmatch(module.name) is not None, "name is not a C name")
    # TVM keeps the capitals with its packed interface.
    symbols = {f"tvmgen_{module.name}", f"tvmgen_{module.name.lower()}"}
    if module.style == "plain":
        symbols = {module.name}
    require(module.symbol in symbols, f"symbol is {module.symbol!r}")
    for field in ("workspace_bytes", "io_bytes", "constants_bytes"):
        require(0 <= getattr(module, field) < _MAX_BYTES, f"{field} is out of range")
    for name in (*module.functions, *module.devices, module.constants_pool):
        require(IDENTIFIER.fullmatch(name) is not None, f"{name!r} is not a C name")
    folded = (module.folded.channels, module.folded.macs)
    require(0 <= min(folded) <= max(folded) < _MOST_COUNT, "folded is out of range")
    _check_pools(module, require)
    for info in module.states:
        _check_tensor(info, module.workspace_pools, require)
        pool = module.workspace_pools[info.pool]
        require(info.offset is not None and pool.persistent, f"state {info.name!r} lies elsewhere")
    require(len({info.c_name for info in module.states}) == len(module.states), "two states alike")
    for border, infos in (("input", module.inputs), ("output", module.outputs)):
        for info in infos:
            _check_tensor(info, module.workspace_pools, require)
            is_pooled = module.io_in_pool and not (border == "input" and module.fed_rows)
            require((info.offset is not None) == is_pooled, f"{border} lies elsewhere")
            require(info.channels is None, f"{border} lacks channels")
        require(len({info.c_name for info in infos}) == len(infos), f"two {border}s share a name")
    if module.fed_rows:
        holds = len(module.inputs) == 1 and module.fed_rows > 0
        require(holds and module.inputs[0].nbytes % module.fed_rows == 0, "fed_rows is wrong")
        words = (module.api, module.interface, module.pools == "calls")
        require(words == ("unpacked", "c", False), "rows are fed through another interface")
    shapes = {info.name: info.shape for info in module.inputs}
    for fixed in module.fixed_sizes:
        shape = shapes.get(fixed.input, ())
        is_right = 0 <= fixed.axis < len(shape) and shape[fixed.axis] == fixed.size
        require(is_right, f"{fixed} is not of an input")
    outputs = {info.name for info in module.outputs}
    for classes in module.class_labels:
        require(classes.output in outputs, f"class_labels of {classes.output!r} are of no output")
    for saving in module.io_savings:
        require(saving.bytes > 0, "io_savings saves nothing")
    for form in module.dynamic_forms:
        require(form.dynamic in DYNAMIC, f"{form} is neither of {' and '.join(DYNAMIC)}")
    for bias in module.rounded_biases:
        require(0 <= bias.largest_effect < math.inf, f"{bias} has an effect out of range")
    for bound in module.loop_bounds:
        require(0 < bound.turns < 1 << 31, f"{bound} is out of range")
    for found in module.compressed:
        require(0 <= found.layer < len(module.layers), f"{found} is of no layer")
        sizes = found.nbytes, found.stored_bytes, found.decoded_bytes
        require(all(0 < size < _MAX_BYTES for size in sizes), f"{found} has a size out of range")
    for layer in module.layers:
        _check_layer(module, layer, require)
    for external in module.externals:
        require(0 <= external.layer < len(module.layers), f"{external} is outside")
        require(external.device in ("", *module.devices), f"{external} has no such device")
        for name in (external.function, *external.symbols):
            require(IDENTIFIER.fullmatch(name) is not None, f"{name!r} is not a C name")


def _check_pools(module: Module, require: _Require) -> None:
    pools = module.workspace_pools
    for pool in pools:
        at = f"pool {pool.name!r}"
        require(IDENTIFIER.fullmatch(pool.name) is not None, f"{at} is not a C name")
        require(0 <= pool.nbytes < _MAX_BYTES, f"{at}: nbytes is {pool.nbytes}")
        require(
            pool.region is None or IDENTIFIER.fullmatch(pool.region) is not None,
            f"{at}: region is {pool.region!r}",
        )
    require(len({pool.name for pool in pools}) == len(pools), "two pools share a name")
    planned = sum(pool.nbytes for pool in pools if not pool.persistent)
    require(planned <= module.workspace_bytes, "pools lie outside")
    require(all(pool.nbytes for pool in pools if pool.persistent), "a persistent pool is empty")
    require(sum(pool.persistent for pool in pools) == bool(module.states), "states lack a pool")


def _check_layer(module: Module, layer: Layer, require: _Require) -> None:
    at = f"layer {layer.name!r}"
    require(IDENTIFIER.fullmatch(layer.function) is not None, f"{at}: {layer.function!r}")
    require(layer.input_count >= 0, f"{at}: input_count is negative")
    require(len(layer.output_arguments) == len(layer.outputs) > 0, f"{at}: lacks arguments")
    require(0 <= layer.macs < _MOST_COUNT, f"{at}: macs is out of range")
    if layer.work is not None:
        counts = (layer.work.nbytes, layer.work.requantized, *layer.work.products.values())
        require(0 <= min(counts) <= max(counts) < _MOST_COUNT, f"{at}: work is out of range")
        require(layer.work.products.keys() <= set(DTYPES), f"{at}: products of no type")
    for argument in layer.arguments:
        _check_argument(module, argument, at, require)
    for info, argument in zip(layer.outputs, layer.output_arguments, strict=True):
        _check_tensor(info, module.workspace_pools, require)
        require(argument.kind in ("pool", "output"), f"{at}: writes to an {argument.kind}")
        if argument.kind == "pool":
            place = (argument.value, argument.pool)
            require((info.offset, info.pool) == place, f"{at}: an output lies elsewhere")
        else:
            require(
                info.offset is None and info.nbytes <= module.outputs[argument.value].nbytes,
                f"{at}: an output does not fit the caller's buffer",
            )


def _check_argument(module: Module, argument: Argument, at: str, require: _Require) -> None:
    if argument.kind == "device":
        require(0 <= argument.value < len(module.devices), f"{at}: {argument} is outside")
        return
    # A missing size would be that of a null pointer.
    require(argument.dtype in DTYPES, f"{at}: argument of dtype {argument.dtype!r}")
    _check_shape(argument.shape, at, require)
    nbytes = prod(argument.shape) * np.dtype(argument.dtype).itemsize
    if argument.kind == "constants":
        holds = module.constants == "external" and argument.value == 0
    elif argument.kind == "pool":
        pools = module.workspace_pools
        holds = (
            0 <= argument.pool < len(pools)
            and 0 <= argument.value <= pools[argument.pool].nbytes - nbytes
        )
    else:
        tensors = module.inputs if argument.kind == "input" else module.outputs
        holds = not module.io_in_pool and 0 <= argument.value < len(tensors)
    require(holds, f"{at}: argument {argument} is outside")


def _check_tensor(info: TensorInfo, pools: tuple[Pool, ...], require: _Require) -> None:
    at = f"tensor {info.name!r}"
    require(IDENTIFIER.fullmatch(info.c_name) is not None, f"{at}: c_name {info.c_name!r}")
    require(info.dtype in DTYPES, f"{at}: dtype {info.dtype!r}")
    _check_shape(info.shape, at, require)
    nbytes = prod(info.shape) * np.dtype(info.dtype).itemsize
    require(info.nbytes == nbytes < _MAX_BYTES, f"{at}: nbytes is {info.nbytes}")
    require(info.turns is None or 0 < info.turns < 1 << 31, f"{at}: turns is {info.turns}")
    require((info.scale is None) == (info.zero_point is None), f"{at}: half a quantization")
    require(info.scale is None or (np.isfinite(info.scale) and info.scale > 0), f"{at}: scale")
    require(abs(info.zero_point or 0) < 1 << 31, f"{at}: zero_point")
    if info.channels is not None:
        require(info.shape[-1:] == (len(info.channels),), f"{at}: channels of another shape")
        # In order, so that the last one is the largest.
        order = zip((-1, *info.channels), info.channels, strict=False)
        require(all(a < b for a, b in order), f"{at}: channels out of order")
        require(info.channels[-1] < 1 << 31, f"{at}: channel {info.channels[-1]}")
    if info.offset is not None:
        require(
            0 <= info.pool < len(pools)
            and 0 <= info.offset <= pools[info.pool].nbytes - info.nbytes,
            f"{at}: lies outside the workspace",
        )


def _check_shape(shape: tuple[int, ...], at: str, require: _Require) -> None:
    require(len(shape) <= 16 and all(0 < side < 1 << 31 for side in shape), f"{at}: shape {shape}")
