"""Every way to call a generated library, called as a firmware would: the C interface's structs and
the packed convention's handles, with each kind of workspace and constants.

The libraries are built by the host's compiler and called through ctypes; the interpreter says what
they must return. What a caller hands over has guards around it.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import generated_c
import numpy as np
import pytest
from campaigns import cases, sampled
from random_graphs import GraphBuilder, small_net

import hilc
from hilc import interpreter
from hilc.artifact.library import ModelLibrary, Module
from hilc.artifact.params import load_params, save_array, save_params
from hilc.codegen.headers import include_dirs
from hilc.compat.tvm.metadata import Metadata, MetadataConstant, MetadataTensor, read_metadata
from hilc.compat.tvm.system_lib import system_lib_source
from hilc.external import Device, ExternalModule
from hilc.ir import Array, Graph
from hilc.memory.plan import PoolSpec
from hilc.target import Cpu

# TVM's codes, as the documentation of the interface lists them.
ARG_INT, OPAQUE, NULLPTR, TENSOR, NDARRAY = 0, 3, 4, 7, 13
NUM_ARGUMENTS, WRONG_TYPE, INVALID = 0x800, 0x801, 0x803

CONVENTIONS = (("unpacked", "c"), ("unpacked", "packed"), ("packed", "packed"))
CELLS = [
    {"api": api, "interface": interface, "pools": pools, "constants": constants, "optimize": size}
    for (api, interface), pools, constants, size in itertools.product(
        CONVENTIONS,
        ("internal", "external", "calls"),
        ("internal", "external"),
        ("balanced", "size"),
    )
]
CELLS += [
    {"api": api, "interface": interface, "pools": "internal", "constants": "binary"}
    for api, interface in CONVENTIONS
]
IN_POOL = [
    {"pools": pools, "constants": constants, "io_in_pool": True}
    for pools, constants in itertools.product(("internal", "external"), repeat=2)
]


def _id(cell: dict[str, Any]) -> str:
    return "-".join(map(str, cell.values()))


# What a caller needs --------------------------------------------------------------------------


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Value(ctypes.Union):
    _fields_ = [("v_int64", ctypes.c_int64), ("v_handle", ctypes.c_void_p)]


class Guarded:
    """Aligned memory with bytes around it that must not change."""

    _GUARD = 64

    def __init__(self, nbytes: int, start: int = 0) -> None:
        block = np.full(nbytes + 3 * self._GUARD, 0xA5, np.uint8)
        first = -block.ctypes.data % self._GUARD + self._GUARD + start
        self._block, self._first = block, first
        self.bytes = block[first : first + nbytes]
        self.address = self.bytes.ctypes.data

    def check(self) -> None:
        behind = self._first + self.bytes.size
        assert (self._block[: self._first] == 0xA5).all(), "bytes in front were overwritten"
        assert (self._block[behind:] == 0xA5).all(), "bytes behind were overwritten"


#: What the code asks of a run time: blocks in the order of a stack, of which some fail.
_BACKEND = """\
#include <stdlib.h>
#include <string.h>
#include "tvm/runtime/crt/error_codes.h"
#include "tvm/runtime/crt/module.h"

int backend_allocations, backend_fail_at = -1, backend_depth;
void *backend_module;
static void *blocks[16];

const TVMModule *TVMSystemLibEntryPoint(void) __attribute__((weak));

/* A function of the registry; the handle is its address. */
int TVMBackendGetFuncFromEnv(void *mod_node, const char *name, TVMFunctionHandle *out) {
    const TVMFuncRegistry *const registry = TVMSystemLibEntryPoint()->registry;
    const char *at = registry->names + 2;
    backend_module = mod_node;
    for (int i = 0; *at != 0; i++, at += strlen(at) + 1) {
        if (strcmp(at, name) == 0) {
            *out = (TVMFunctionHandle)registry->funcs[i];
            return 0;
        }
    }
    *out = NULL;
    return kTvmErrorFunctionNameNotFound;
}

int TVMFuncCall(TVMFunctionHandle func, TVMValue *args, int *codes, int count, TVMValue *result,
                int *result_code) {
    return ((TVMBackendPackedCFunc)func)(args, codes, count, result, result_code, NULL);
}

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int code,
                               int bits) {
    if (backend_allocations++ == backend_fail_at || backend_depth == 16 || device_type != kDLCPU ||
        device_id != 0 || code != kDLInt || bits != 8) {
        return NULL;
    }
    void *block = NULL;
    if (posix_memalign(&block, 16, (size_t)nbytes) != 0) {
        return NULL;
    }
    blocks[backend_depth++] = block;
    return block;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
    if (backend_depth == 0 || blocks[backend_depth - 1] != ptr || device_type != kDLCPU ||
        device_id != 0) {
        backend_depth = 1000; /* not the order of a stack */
        return -1;
    }
    free(blocks[--backend_depth]);
    return 0;
}
"""


def build(libraries: Sequence[ModelLibrary], folder: Path, extra: str = "") -> ctypes.CDLL:
    """One shared object of all ``libraries``, with the backend and what their headers say."""
    glue = []
    names = []
    for library in libraries:
        library.save(folder / library.modules[0].name)
        for module in library.modules:
            names += [
                f"{module.name}/{path}"
                for path in library.files
                if path.startswith("codegen/host/src/")
            ]
            stem = f"{module.symbol}_GLOBAL_CONST_WORKSPACE_CONSTANT_POOL".upper()
            glue.append(
                f'#include "{module.symbol}.h"\n'
                f"#ifdef {stem}_DATA\n"
                f"_Alignas(16) const uint8_t {module.name}_constants[] = {stem}_DATA;\n"
                f'_Static_assert(sizeof {module.name}_constants == {stem}_SIZE, "size");\n'
                "#endif\n"
            )
    (folder / "glue.c").write_text("#include <stdint.h>\n" + "".join(glue) + extra)
    (folder / "backend.c").write_text("#define _POSIX_C_SOURCE 200112L\n" + _BACKEND)
    include = [f"-I{library.modules[0].name}/codegen/host/include" for library in libraries]
    include += [f"-I{folder}" for folder in include_dirs()]
    flags = ["-std=c11", "-O0", "-fPIC", "-shared", "-Wall", "-Werror", "-Wl,-z,defs"]
    sources = ["glue.c", "backend.c", *names]
    generated_c.run(["gcc", *flags, *include, *sources, "-lm", "-o", "net.so"], folder)
    return ctypes.CDLL(str(folder / "net.so"))


class Caller:
    """Calls one module of a shared object through its entry point, whatever its interface is."""

    def __init__(self, code: ctypes.CDLL, module: Module) -> None:
        self.code, self.module = code, module
        self.inputs = [Guarded(info.nbytes) for info in module.inputs]
        self.outputs = [Guarded(info.nbytes) for info in module.outputs]
        self.pools = [Guarded(pool.nbytes) for pool in module.workspace_pools]
        self.constants = 0
        if module.constants == "external" and module.constants_bytes:
            self.constants = self.address(f"{module.name}_constants")
        #: What stands for the contexts of the module's devices; here each counts its calls.
        self.contexts = [ctypes.c_int(0) for _ in module.devices]
        self._kept: list[Any] = []

    def address(self, symbol: str) -> int:
        return ctypes.addressof(ctypes.c_char.in_dll(self.code, symbol))

    def set_inputs(self, inputs: dict[str, Array]) -> None:
        for memory, array in zip(self.inputs, inputs.values(), strict=True):
            memory.bytes[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for pool in self.pools:
            pool.bytes[:] = 0x5A  # a workspace needs no initial value

    def results(self) -> list[Array]:
        return [
            memory.bytes.copy().view(info.dtype).reshape(info.shape)
            for memory, info in zip(self.outputs, self.module.outputs, strict=True)
        ]

    def run(self) -> int:
        """The entry point's result."""
        if self.module.interface == "packed":
            return self.call_packed(*self.packed_arguments())
        if self.module.io_in_pool:
            return self._run_in_pool()
        status: int = self.code[f"{self.module.symbol}_run"](*self.structs())
        return status

    def check_guards(self) -> None:
        for memory in (*self.inputs, *self.outputs, *self.pools):
            memory.check()

    # The C interface

    def structs(self) -> list[Any]:
        """What the entry point of the C interface takes."""
        structs = []
        if not self.module.io_in_pool:
            structs.append(_pointers(self.module.inputs, self.inputs))
            structs.append(_pointers(self.module.outputs, self.outputs))
        pools = [*([self.constants] if self.constants else [])]
        if self.module.pools == "external":
            pools += [pool.address for pool in self.pools]
        if pools:
            structs.append((ctypes.c_void_p * len(pools))(*pools))
        if self.contexts:
            addresses = map(ctypes.addressof, self.contexts)
            structs.append((ctypes.c_void_p * len(self.contexts))(*addresses))
        return structs

    def _run_in_pool(self) -> int:
        pools = self.structs()
        mapped = {}
        for kind, infos in (("inputs", self.module.inputs), ("outputs", self.module.outputs)):
            fields = [(info.c_name, ctypes.c_void_p) for info in infos]
            function = self.code[f"{self.module.symbol}_map_{kind}"]
            function.restype = type(kind, (ctypes.Structure,), {"_fields_": fields})
            struct = function(*(pools if self.module.pools == "external" else []))
            mapped[kind] = [getattr(struct, name) for name, _ in fields]
        for address, memory in zip(mapped["inputs"], self.inputs, strict=True):
            ctypes.memmove(address, memory.address, memory.bytes.size)
        status: int = self.code[f"{self.module.symbol}_run"](*pools)
        for address, memory in zip(mapped["outputs"], self.outputs, strict=True):
            ctypes.memmove(memory.address, address, memory.bytes.size)
        return status

    # The packed interface

    def tensor(self, memory: Guarded | int, shape: Sequence[int], dtype: str) -> Tensor:
        """A DLTensor that starts in front of its data: what counts is data + byte_offset."""
        kind = np.dtype(dtype)
        code = {"i": 0, "u": 1, "f": 2}[kind.kind]
        sides = (ctypes.c_int64 * len(shape))(*shape)
        self._kept.append(sides)
        address = memory if isinstance(memory, int) else memory.address
        described = DataType(code, kind.itemsize * 8, 1)
        return Tensor(address - 48, 1, 0, len(shape), described, ctypes.addressof(sides), None, 48)

    def packed_arguments(self) -> tuple[list[Any], list[int]]:
        """Values and type codes of the entry point of the packed interface."""
        module = self.module
        tensors = [
            self.tensor(memory, info.shape, info.dtype)
            for memory, info in zip(
                (*self.inputs, *self.outputs), (*module.inputs, *module.outputs), strict=True
            )
        ]
        if self.constants:
            tensors.append(self.tensor(self.constants, [module.constants_bytes], "uint8"))
        if module.pools == "external":
            tensors += [self.tensor(pool, [pool.bytes.size], "uint8") for pool in self.pools]
        contexts = list(map(ctypes.addressof, self.contexts))
        return [*tensors, *contexts], [TENSOR] * len(tensors) + [OPAQUE] * len(contexts)

    def call_packed(self, arguments: Sequence[Any], codes: Sequence[int] | None) -> int:
        """The entry point's result for these tensors, or integers that are handles."""
        return self.call(f"{self.module.symbol}_run", arguments, codes)[0]

    def call(
        self, function: str, arguments: Sequence[Any], codes: Sequence[int] | None
    ) -> tuple[int, int | None, int]:
        """Call a packed function: its status, its result's handle and that one's type code."""
        values = (Value * max(len(arguments), 1))()
        for value, argument in zip(values, arguments, strict=False):
            if isinstance(argument, Tensor):
                self._kept.append(argument)
                value.v_handle = ctypes.addressof(argument)
            else:
                value.v_int64 = argument
        types = (ctypes.c_int * len(codes))(*codes) if codes is not None else None
        result, result_code = Value(), ctypes.c_int(-1)
        status = self.code[function](
            values, types, len(arguments), ctypes.byref(result), ctypes.byref(result_code), None
        )
        return status, result.v_handle, result_code.value


def _pointers(infos: Sequence[Any], memories: Sequence[Guarded]) -> Any:
    fields = [(info.c_name, ctypes.c_void_p) for info in infos]
    struct = type("Pointers", (ctypes.Structure,), {"_fields_": fields})
    return ctypes.byref(struct(*(memory.address for memory in memories)))


def random_inputs(graph: Graph, seed: int = 5) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        n: rng.integers(-128, 128, graph.tensors[n].shape).astype(np.int8) for n in graph.inputs
    }


def require_right(caller: Caller, graph: Graph, seed: int) -> None:
    """One run on random inputs gives what the interpreter says, and writes nowhere else."""
    inputs = random_inputs(graph, seed)
    caller.set_inputs(inputs)
    assert caller.run() == 0
    for result, expected in zip(
        caller.results(), interpreter.run(graph, inputs).values(), strict=True
    ):
        np.testing.assert_array_equal(result, expected)
    for memory, array in zip(caller.inputs, inputs.values(), strict=True):
        np.testing.assert_array_equal(memory.bytes, array.reshape(-1).view(np.uint8))
    caller.check_guards()


# Every cell -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell", sampled([*CELLS, *IN_POOL], keep=[*CELLS[::5], *IN_POOL[::2]]), ids=_id
)
def test_a_library_computes_what_the_interpreter_does(cell: dict[str, Any], tmp_path: Path) -> None:
    graph = small_net()
    library = hilc.compile(graph, **cell)
    caller = Caller(build([library], tmp_path), library.modules[0])
    for seed in (1, 2):
        require_right(caller, graph, seed)
    with _unchanged_outputs(caller):
        if caller.module.interface == "packed":
            _check_packed_refusals(caller)
            _check_metadata(caller)
            _check_linked_parameters(caller)
            _check_registry(caller)
        else:
            _check_null_pointers(caller)
        if caller.module.pools == "calls":
            _check_failing_allocations(caller)
    require_right(caller, graph, 3)


@contextlib.contextmanager
def _unchanged_outputs(caller: Caller) -> Iterator[None]:
    """What is refused writes nothing."""
    before = [memory.bytes.copy() for memory in caller.outputs]
    yield
    if caller.module.pools == "calls":
        return  # a run that fails in the middle may have written an output
    for memory, array in zip(caller.outputs, before, strict=True):
        np.testing.assert_array_equal(memory.bytes, array)


def _check_packed_refusals(caller: Caller) -> None:
    arguments, codes = caller.packed_arguments()
    count = len(arguments)
    for wrong in (0, 1, count - 1):
        assert caller.call_packed(arguments[:wrong], codes[:wrong]) == NUM_ARGUMENTS
    assert caller.call_packed([*arguments, arguments[0]], [*codes, TENSOR]) == NUM_ARGUMENTS
    for index in range(count):
        integer = [ARG_INT if i == index else code for i, code in enumerate(codes)]
        assert caller.call_packed(arguments, integer) == WRONG_TYPE
        nothing = [0 if i == index else a for i, a in enumerate(arguments)]
        assert caller.call_packed(nothing, codes) == INVALID
        hollow = Tensor.from_buffer_copy(arguments[index])
        hollow.data = None
        assert caller.call_packed([*arguments[:index], hollow, *arguments[index + 1 :]], codes) == (
            INVALID
        )
    function = caller.code[f"{caller.module.symbol}_run"]
    assert function(None, None, count, None, None, None) == INVALID
    # The codes of arrays and of untyped handles mean tensors, too; nobody needs to pass them.
    for accepted in ([NDARRAY] * count, [OPAQUE] * count, None):
        assert caller.call_packed(arguments, accepted) == 0


def _check_null_pointers(caller: Caller) -> None:
    run = caller.code[f"{caller.module.symbol}_run"]
    structs = caller.structs()
    for index in range(len(structs)):
        assert run(*(None if i == index else s for i, s in enumerate(structs))) == -1
    if structs and not caller.module.io_in_pool:
        for infos, position in ((caller.module.inputs, 0), (caller.module.outputs, 1)):
            for field in range(len(infos)):
                pointers = (ctypes.c_void_p * len(infos)).from_buffer_copy(structs[position]._obj)
                pointers[field] = None
                assert run(*structs[:position], pointers, *structs[position + 1 :]) == -1
    if structs and not hasattr(structs[-1], "_obj"):
        for field in range(len(structs[-1])):
            pools = (ctypes.c_void_p * len(structs[-1]))(*structs[-1])
            pools[field] = None
            assert run(*structs[:-1], pools) == -1


def _check_failing_allocations(caller: Caller) -> None:
    count = ctypes.c_int.in_dll(caller.code, "backend_allocations")
    fail_at = ctypes.c_int.in_dll(caller.code, "backend_fail_at")
    depth = ctypes.c_int.in_dll(caller.code, "backend_depth")
    count.value = 0
    assert caller.run() == 0
    needed = count.value
    assert needed >= 1  # the activations, and the scratch of layers whose kernels have some
    for index in range(needed):
        count.value, fail_at.value = 0, index
        assert caller.run() == -1
        assert count.value == index + 1, "the run went on"
        assert depth.value == 0, "a block was kept"
    fail_at.value = -1
    assert caller.run() == 0
    assert depth.value == 0


def _check_metadata(caller: Caller) -> None:
    module = caller.module
    status, address, code = caller.call(f"{module.symbol}_get_c_metadata", [], [])
    assert (status, code) == (0, OPAQUE)
    metadata = read_metadata(address or 0)
    given = module.pools == "external"
    assert metadata == Metadata(
        version=1,
        mod_name=module.symbol,
        inputs=tuple(MetadataTensor(i.c_name, i.shape, i.dtype) for i in module.inputs),
        outputs=tuple(
            MetadataTensor(f"output{n}", i.shape, i.dtype) for n, i in enumerate(module.outputs)
        ),
        workspace_pools=tuple(
            MetadataTensor(pool.name, (pool.nbytes,), "uint8")
            for pool in module.workspace_pools
            if given
        ),
        constant_pools=metadata.constant_pools,
    )
    assert metadata.constant_pools
    assert len({constant.name_hint for constant in metadata.constant_pools}) == len(
        metadata.constant_pools
    )
    assert caller.call("get_c_metadata", [], [])[1] == address
    function = caller.code[f"{module.symbol}_get_c_metadata"]
    assert function(None, None, 0, None, None, None) == -1
    if module.constants == "external":
        _check_constant_data(caller, address or 0, metadata.constant_pools)
    else:
        assert {constant.data_len for constant in metadata.constant_pools} == {0}


def _check_constant_data(
    caller: Caller, address: int, constants: Sequence[MetadataConstant]
) -> None:
    """A run time that fills a pool from the metadata gets the bytes of the header's macro."""

    class Constant(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_char_p),
            ("offset", ctypes.c_int64),
            ("length", ctypes.c_int64),
            ("data", ctypes.c_void_p),
        ]

    pool = np.zeros(caller.module.constants_bytes, np.uint8)
    # The pointer to the constants is the eighth field of the metadata, each of which has 8 bytes.
    first = ctypes.c_void_p.from_address(address + 7 * 8).value
    entries = (Constant * len(constants)).from_address(first or 0)
    head = save_params({"x": np.zeros((), np.int8)})[: -len(save_array(np.zeros((), np.int8)))]
    for entry, constant in zip(entries, constants, strict=True):
        assert (entry.offset, entry.length) == (constant.byte_offset, constant.data_len)
        array = load_params(head + ctypes.string_at(entry.data, entry.length), "metadata")["x"]
        pool[entry.offset : entry.offset + array.nbytes] = array.reshape(-1).view(np.uint8)
    assert pool.tobytes() == ctypes.string_at(caller.constants, pool.size)


def _check_linked_parameters(caller: Caller) -> None:
    look_up = f"{caller.module.symbol}__lookup_linked_param"
    linked = caller.module.constants != "external"
    status, first, code = caller.call(look_up, [0], [ARG_INT])
    assert (status, bool(first), code) == (0, linked, OPAQUE if linked else NULLPTR)
    for unknown in (-1, 10_000, 1 << 40):
        assert caller.call(look_up, [unknown], [ARG_INT]) == (0, None, NULLPTR)
    assert caller.call("_lookup_linked_param", [0], [ARG_INT])[1] == first


def _check_registry(caller: Caller) -> None:
    """The names and functions that a run time finds through the entry point."""
    assert registered(caller.code) == {
        name: ctypes.cast(caller.code[name], ctypes.c_void_p).value
        for name in caller.module.functions
    }


def registered(code: ctypes.CDLL) -> dict[str, int]:
    """The functions of ``TVMSystemLibEntryPoint``, in order, by name."""
    entry = code["TVMSystemLibEntryPoint"]
    entry.restype = ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p * 2))
    names, functions = entry().contents.contents
    count = int.from_bytes(ctypes.string_at(names or 0, 2), "little")
    table = (ctypes.c_void_p * count).from_address(functions or 0)
    found, at = {}, (names or 0) + 2
    for address in table:
        name = ctypes.string_at(at)
        found[name.decode()] = address or 0
        at += len(name) + 1
    assert ctypes.string_at(at) == b""
    return found


# Several memories, several models -------------------------------------------------------------


@cases("pools", ["internal", "external"], first=1)
@cases(("api", "interface"), CONVENTIONS, first=1)
def test_several_memory_pools(api: str, interface: str, pools: str, tmp_path: Path) -> None:
    graph = small_net()
    memory = (PoolSpec("Fast", 48, "dtcm"), PoolSpec("slow", region="SRAM_1"))
    library = hilc.compile(graph, api=api, interface=interface, pools=pools, memory=memory)
    module = library.modules[0]
    assert [pool.name for pool in module.workspace_pools] == ["Fast", "slow"]
    assert all(pool.nbytes > 0 for pool in module.workspace_pools)
    assert module.workspace_pools[0].nbytes <= 48
    require_right(Caller(build([library], tmp_path), module), graph, 4)
    entry = library.files["codegen/host/src/net_lib0.c"].decode()
    assert ('section(".bss.noinit.tvm.dtcm")' in entry) == (pools == "internal")
    assert ('section(".bss.noinit.tvm.SRAM_1")' in entry) == (pools == "internal")


def test_inputs_and_outputs_in_several_pools(tmp_path: Path) -> None:
    graph = small_net()
    memory = (PoolSpec("fast", 64), PoolSpec("slow"))
    for pools in ("internal", "external"):
        library = hilc.compile(graph, pools=pools, io_in_pool=True, memory=memory)
        module = library.modules[0]
        assert {info.pool for info in (*module.inputs, *module.outputs)} == {0, 1}
        folder = tmp_path / pools
        folder.mkdir()
        require_right(Caller(build([library], folder), module), graph, 6)


@pytest.mark.full
def test_models_of_every_kind_share_an_image(tmp_path: Path) -> None:
    """Five libraries, one shared object, called in turns; one registry has the functions of all."""
    cells: list[dict[str, Any]] = [
        {"name": "a_c"},
        {"name": "b_calls", "pools": "calls"},
        {"name": "Up", "api": "packed", "interface": "packed"},
        {"name": "c_ext", "api": "packed", "interface": "packed", "pools": "external"},
        {"name": "d_un", "interface": "packed", "constants": "external"},
    ]
    graphs = [small_net(seed=seed) for seed in range(len(cells))]
    libraries = [hilc.compile(graph, **cell) for graph, cell in zip(graphs, cells, strict=True)]
    modules = [library.modules[0] for library in libraries]
    functions = [function for module in modules for function in module.functions]
    code = build(libraries, tmp_path, system_lib_source(functions, weak=False))
    callers = [Caller(code, module) for module in modules]
    for seed in range(3):
        for caller, graph in zip(callers, graphs, strict=True):
            require_right(caller, graph, seed)
    assert list(registered(code)) == functions


@pytest.mark.full
def test_a_model_without_a_workspace(tmp_path: Path) -> None:
    """Pools of no bytes: nothing has to be handed over for them."""
    b = GraphBuilder()
    graph = b.graph(b.add(b.input(1, 8), b.input(1, 8)), name="net")
    cells: list[dict[str, Any]] = [*CELLS[::5], *IN_POOL[:1]]
    for number, cell in enumerate(cells):
        folder = tmp_path / str(number)
        folder.mkdir()
        library = hilc.compile(graph, **cell)
        module = library.modules[0]
        caller = Caller(build([library], folder), module)
        if not module.io_in_pool:
            assert module.workspace_bytes == 0
            for pool in caller.pools:
                pool.address = 0
        require_right(caller, graph, 1)


class _Relu:
    """Hands every RELU to one of two devices, whose context counts the calls."""

    name = "relu"

    def __init__(self) -> None:
        self._made = 0

    def claim(self, graph: Graph) -> list[list[int]]:
        return [[i] for i, node in enumerate(graph.nodes) if node.op == "RELU"]

    def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
        (out,) = (subgraph.tensors[name] for name in subgraph.outputs)
        assert out.quant is not None
        zero = out.quant.zero_point[0]
        work = (
            f"    for (int i = 0; i < {out.size}; i++) {{\n"
            f"        out[i] = in[i] < {zero} ? {zero} : in[i];\n    }}\n"
            "    ++*count;\n    return 0;\n"
        )
        if api == "unpacked":
            head = f"int32_t {symbol}(void *in0, void *out0, void *device)"
            reads = ["in0", "out0", "device"]
        else:
            head = (
                f"int32_t {symbol}(TVMValue *args, int *codes, int num_args, TVMValue *ret,\n"
                "    int *ret_code, void *handle)"
            )
            work = (
                "    (void)ret, (void)ret_code, (void)handle;\n"
                "    if (num_args != 3 || codes[0] != kTVMDLTensorHandle ||\n"
                "        codes[1] != kTVMDLTensorHandle || codes[2] != kTVMOpaqueHandle) {\n"
                "        return -7;\n    }\n" + work
            )
            reads = [f"((const DLTensor *)args[{i}].v_handle)->data" for i in (0, 1)]
            reads.append("args[2].v_handle")
        local = (
            f"    const int8_t *const in = {reads[0]};\n    int8_t *const out = {reads[1]};\n"
            f"    int *const count = {reads[2]};\n"
        )
        self._made += 1
        device = Device("unit", self._made % 2)
        return ExternalModule(symbol, f"{head} {{\n{local}{work}}}\n", device=device)


@cases("pools", ["internal", "external"], first=1)
@cases(("api", "interface"), CONVENTIONS, first=1)
def test_devices_reach_the_functions_that_run_on_them(
    api: str, interface: str, pools: str, tmp_path: Path
) -> None:
    b = GraphBuilder()
    x, y = b.input(1, 8), b.input(1, 8)
    # Nothing that could be fused into the layer in front of it.
    total = b.add(b.relu(x), b.relu(y))
    graph = b.graph(b.add(b.relu(total), total), name="net")
    library = hilc.compile(graph, api=api, interface=interface, pools=pools, externals=[_Relu()])
    caller = Caller(build([library], tmp_path), library.modules[0])
    assert caller.module.devices == ("unit_1", "unit_0")
    for seed in (1, 2):
        require_right(caller, graph, seed)
    assert [context.value for context in caller.contexts] == [4, 2]
    if interface == "c":
        structs = caller.structs()
        assert caller.code["tvmgen_net_run"](*structs[:-1], None) == -1
    else:
        arguments, codes = caller.packed_arguments()
        for index in (len(codes) - 2, len(codes) - 1):
            number = [ARG_INT if i == index else code for i, code in enumerate(codes)]
            assert caller.call_packed(arguments, number) == WRONG_TYPE
        assert caller.call_packed(arguments[:-1], codes[:-1]) == NUM_ARGUMENTS
    assert [context.value for context in caller.contexts] == [4, 2]


def test_a_registry_where_it_is_asked_for(tmp_path: Path) -> None:
    for interface, system_lib, has in (
        ("c", None, False),
        ("c", True, True),
        ("packed", None, True),
        ("packed", False, False),
    ):
        library = hilc.compile(small_net(), interface=interface, system_lib=system_lib)
        text = library.files["codegen/host/src/net_lib0.c"].decode()
        assert ("TVMSystemLibEntryPoint" in text) == has
    # Operators with plain pointers cannot be called through the registry: they are not in it.
    library = hilc.compile(small_net(), interface="c", system_lib=True)
    assert registered(build([library], tmp_path)) == {}


def test_the_cpp_runtime_says_which_module_calls(tmp_path: Path) -> None:
    """It passes no handle to functions: it leaves it in a variable when it loads a library."""
    b = GraphBuilder()
    graph = b.graph(b.relu(b.input(1, 8)), name="net")
    options: dict[str, Any] = {"api": "packed", "interface": "packed", "pools": "calls"}
    library = hilc.compile(graph, runtime="cpp", externals=[_Relu()], **options)
    caller = Caller(build([library], tmp_path), library.modules[0])
    asked = ctypes.c_void_p.in_dll(caller.code, "backend_module")
    context = ctypes.c_void_p.in_dll(caller.code, "__tvm_module_ctx")
    for handle in (None, 0x1234):
        context.value = handle
        require_right(caller, graph, 1)
        assert asked.value == handle
    other = hilc.compile(graph, externals=[_Relu()], **options)
    assert b"__tvm_module_ctx" not in b"".join(other.files.values())


def test_the_cpp_runtime_finds_strong_unmangled_names(tmp_path: Path) -> None:
    strong = hilc.compile(small_net(), api="packed", interface="packed", runtime="cpp")
    weak = hilc.compile(small_net(), api="packed", interface="packed")
    for library, letter in ((strong, "T"), (weak, "W")):
        folder = tmp_path / letter
        folder.mkdir()
        build([library], folder)
        symbols = generated_c.run(["nm", "-D", "--defined-only", "net.so"], folder)
        kinds = {line.split()[-1]: line.split()[-2] for line in symbols.splitlines()}
        assert (kinds["get_c_metadata"], kinds["_lookup_linked_param"]) == (letter, letter)
